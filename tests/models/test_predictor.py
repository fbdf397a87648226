"""A predictor predicts as its model did when it was made, whatever became of that, and holds no rows."""

from __future__ import annotations

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor
from erasable.errors import NoRowsError
from erasable.models.core_rows import CoreRows
from erasable.operations.model_file import ModelFile

X = np.random.default_rng(0).standard_normal((80, 4))
TWO, THREE = X[:, 0] > 0, np.array(["a", "b", "c"])[(X[:, :2] > 0).sum(axis=1)]
MODELS = {
    "squared": (ErasableClassifier(), TWO),
    "three classes": (ErasableClassifier(), THREE),
    "balanced": (ErasableClassifier(class_weight="balanced"), THREE),
    "logistic": (ErasableClassifier(loss="logistic", alpha=0.1), THREE),
    "regression": (ErasableRegressor(target_range=(-10, 10)), X[:, 0]),
    "two targets": (ErasableRegressor(target_range=(-10, 10)), X[:, :2]),
    "kernel": (ErasableKernelClassifier(scaling=5.0), TWO),
}


def answers(model):
    return [model.predict(X), *([model.predict_proba(X)] if model.classifies else [])]


@pytest.mark.parametrize("name", MODELS)
def test_it_stays_as_it_was(name):
    face, y = MODELS[name]
    model = face.fit(X, y, ids=range(80)).model_
    predictor, before = model.predictor(), answers(model)
    assert all(map(np.array_equal, answers(predictor), before))
    assert (len(predictor.core), predictor.classes) == (len(model.core), model.classes)
    model.forget(ids=list(range(40)))
    assert not np.array_equal(answers(model)[-1], before[-1])
    assert all(map(np.array_equal, answers(predictor), before))
    model.forget(ids=list(range(80)))
    with pytest.raises(NoRowsError):
        model.predictor().predict(X)
    model.erase()
    assert all(map(np.array_equal, answers(predictor), before))


@pytest.mark.parametrize("name", ["squared", "logistic", "regression"])
def test_that_of_a_linear_model_holds_no_rows(name):
    face, y = MODELS[name]
    predictor = face.fit(X, y, ids=range(80)).model_.predictor()
    assert not isinstance(predictor.core, CoreRows)
    assert not predictor.core.place
    assert predictor.sums is None


def test_that_of_a_file_follows_the_file(tmp_path):
    path = tmp_path / "m"
    ErasableClassifier().fit(X, TWO, ids=range(80)).save(path)
    file = ModelFile(path)
    first, checksum = file.predictor()
    assert file.predictor()[1] == checksum
    ModelFile(path).forget(ids=list(range(40)))
    second, other = file.predictor()
    assert other != checksum
    assert np.array_equal(second.predict_proba(X), file.model.predict_proba(X))
    assert not np.array_equal(first.predict_proba(X), second.predict_proba(X))
