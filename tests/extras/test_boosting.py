"""The extra boosting: LightGBM behind the core rows."""

import numpy as np
import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed")

from erasable import ErasableClassifier, ErasableRegressor, load, verify
from tests.extras.session import archive, printed

X = np.random.default_rng(0).integers(-64, 65, (80, 3)) / 16


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (ErasableClassifier(learner="lightgbm"), np.where(X[:, 0] > 0, "yes", "no")),
        (ErasableClassifier(learner={"learner": "lightgbm", "class_weight": "balanced"}), np.arange(80) % 3),
        (ErasableRegressor((-9, 9), learner={"learner": "lightgbm", "n_estimators": 5}), X[:, 1]),
    ],
)
def test_it_is_trained_kept_and_trained_again(model, y):
    model.fit(X, y)
    before = model.predict(X).tolist()
    model.save("m.erasable")
    again = load("m.erasable")
    assert again.predict(X).tolist() == before
    again.forget(ids=again.core_ids_[:5].tolist())
    assert verify(again).digest == again.state_digest()
    assert len(again.predict(X)) == len(X)


def test_commands_train_and_check_it(capsys):
    printed(capsys, "learn", archive(), "--learner", "lightgbm", "-o", "m.erasable")
    assert "verified" in printed(capsys, "verify", "m.erasable")
