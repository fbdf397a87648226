"""The extra mlflow: a model is logged, loaded and predicts the same."""

import numpy as np
import pytest

from erasable import ErasableClassifier

mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning:mlflow", "ignore::ResourceWarning"
)


def test_a_saved_model_is_loaded_and_predicts_the_same(tmp_path):
    import erasable.mlflow as flavor

    X = np.random.default_rng(0).integers(-64, 65, (40, 3)) / 16
    clf = ErasableClassifier().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    flavor.save_model(clf, tmp_path / "saved")
    assert flavor.load_model(str(tmp_path / "saved")).state_digest() == clf.state_digest()
    assert list(mlflow.pyfunc.load_model(str(tmp_path / "saved")).predict(X)) == clf.predict(X).tolist()
