"""When the last stored row of a class leaves, somebody is told; and fixed classes keep the paper's sign."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier

from erasable import ErasableClassifier, ErasableGeneralClassifier, ErasableKernelClassifier, ModelFile, verify
from erasable.classes import LinearBall
from erasable.coresets import RandomSubsample
from erasable.errors import EmptiedClassWarning
from erasable.estimators.core_set import CoreSetUnlearner
from erasable.features import RandomFourierFeatures
from erasable.research.baselines import RetrainedRidge
from erasable.research.baselines.interpolated import InterpolatedClassifier
from tests.estimators.cases import SECRET_TEXT, assert_no_traces, make_classes, make_rows

N = 90
X, _ = make_rows(N)
CODES = make_classes(3, N)
LABELS = np.array([f"{SECRET_TEXT}-{c}" for c in ("a long one", "b", "c")])[CODES]
FIXABLE = {
    "linear": ErasableClassifier(threshold=0.01),
    "mapped": ErasableClassifier(feature_map=RandomFourierFeatures(10), threshold=0.01),
    "kernel": ErasableKernelClassifier(threshold=0.01),
    "general": ErasableGeneralClassifier(LinearBall(), threshold=0.001),
    "retrained": RetrainedRidge(),
}
OTHERS = {
    "ridge on a core set": CoreSetUnlearner(RandomSubsample(1.0), RidgeClassifier()),
    "erasable on a core set": CoreSetUnlearner(RandomSubsample(1.0), ErasableClassifier(threshold=0.01)),
    "interpolated": InterpolatedClassifier(RandomSubsample(1.0), private_share=0.0, epsilon=1.0, alpha=0.1),
}


def told(model, ids):
    """What a request is warned of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.forget(ids=ids)
    assert all(warning.category is EmptiedClassWarning for warning in seen)
    return [str(warning.message) for warning in seen]


@pytest.mark.parametrize("name", [*FIXABLE, *OTHERS])
def test_one_warning_when_a_class_is_emptied_and_none_otherwise(name):
    model = clone((FIXABLE | OTHERS)[name]).fit(X, LABELS)
    first = np.flatnonzero(CODES == 0)
    assert told(model, first[:-1]) == []
    (text,) = told(model, first)
    assert "forgetting took the last stored row of a class" in text
    assert ("classes=" in text) == (name in FIXABLE)
    assert_no_traces(text)
    assert len(model.classes_) == 2
    assert model.classes_.dtype == np.dtype("<U8")  # which would tell how long the label was
    assert b"a long one" not in pickle.dumps(model)
    assert told(model, first) == []
    assert told(model, range(N)) == []  # nothing is left: whoever asks such a model is refused


def test_several_classes_at_once_are_counted():
    model = clone(FIXABLE["linear"]).fit(X, LABELS)
    (text,) = told(model, np.flatnonzero(CODES < 2))
    assert "of 2 classes" in text


@pytest.mark.parametrize("name", FIXABLE)
def test_fixed_classes_are_not_emptied(name):
    model = clone(FIXABLE[name]).set_params(classes=sorted(set(LABELS))).fit(X, LABELS)
    assert told(model, np.flatnonzero(CODES == 0)) == []
    assert len(model.classes_) == 3


def test_fixed_classes_keep_the_sign_of_the_paper():
    """Algorithm 1, line 20: one class left in the core, and ``w'x`` still separates."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 3))
    rows[:, 0] += np.sign(rows[:, 0])
    y = np.sign(rows[:, 0]).astype(int)
    free, fixed = (
        ErasableClassifier(threshold=0.05, fit_intercept=False, classes=classes).fit(rows, y)
        for classes in (None, [-1, 1])
    )
    leaving = [key for key in fixed.core_ids_.tolist() if y[key] == -1]
    assert len(told(free, leaving)) == 1
    assert told(fixed, leaving) == []
    assert (fixed.coef_ == free.coef_).all()
    assert (free.predict(rows) == 1).all()
    assert (fixed.predict(rows) == np.where(rows @ fixed.coef_[0] > 0, 1, -1)).all()
    assert fixed.score(rows, y) > 0.9 > 0.6 > free.score(rows, y)


def test_rows_are_forgotten_also_where_a_warning_is_an_error():
    model = clone(FIXABLE["linear"]).fit(X, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(EmptiedClassWarning):
            model.forget(ids=np.flatnonzero(CODES == 0))
    assert len(model.classes_) == 2
    verify(model)


def test_a_file_warns_who_asked_after_the_rows_are_gone(tmp_path):
    path = tmp_path / "m.erasable"
    clone(FIXABLE["linear"]).fit(X, LABELS).save(path)
    file = ModelFile(path)
    with pytest.warns(EmptiedClassWarning, match="a class") as caught:
        report = file.forget(ids=np.flatnonzero(CODES == 0))
    assert report.core_rows_removed == 30
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file.forget(ids=np.flatnonzero(CODES == 0))
        with pytest.raises(EmptiedClassWarning):
            file.forget_together([{"ids": np.flatnonzero(CODES == 1)}])
    assert len(file.model.classes_) == 1
