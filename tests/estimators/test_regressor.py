"""``ErasableRegressor`` as callers use it: what it takes, what it refuses, what it says, and how good it is."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from erasable import CoreSetUnlearner, ErasableClassifier, ErasableRegressor, learn, load, verify
from erasable.coresets import LeverageThreshold
from erasable.errors import ConfigurationError, ErasableError, InputError, InputTypeError, WeakModelWarning
from erasable.features import RandomFourierFeatures
from tests.formats.tampering import altered

X, Y = load_diabetes(return_X_y=True)
TWO = np.stack([Y, 1000.0 * X[:, 2]], axis=1)
MADE = ErasableRegressor((0, 400), scaling=0.5)


def test_it_is_a_regressor_and_no_classifier():
    assert is_regressor(MADE)
    assert not is_classifier(MADE)
    for name in ("classes_", "predict_proba", "decision_function", "classes", "class_weight"):
        assert not hasattr(clone(MADE).fit(X, Y), name)


def test_it_is_about_as_good_as_ridge_on_all_rows():
    reg = clone(MADE).fit(X, Y)
    ridge = Ridge(0.02).fit(X, Y)
    assert reg.n_core_ < 0.5 * len(X)
    assert reg.score(X, Y) > ridge.score(X, Y) - 0.03
    whole = clone(MADE).set_params(threshold=0.0).fit(X, Y)
    assert whole.score(X, Y) > ridge.score(X, Y) - 0.005


def test_predictions_are_those_of_the_published_weights():
    one, two = clone(MADE).fit(X, Y), ErasableRegressor([(0, 400), (-300, 300)], scaling=0.5).fit(X, TWO)
    assert (one.coef_.shape, two.coef_.shape) == ((10,), (2, 10))
    assert isinstance(one.intercept_, float)
    assert np.allclose(one.predict(X), X / 0.5 @ one.coef_ + one.intercept_, rtol=1e-13)
    assert np.allclose(two.predict(X), X / 0.5 @ two.coef_.T + two.intercept_, rtol=1e-13)
    assert np.array_equal(two.coef_[0], one.coef_)  # targets do not touch each other
    whole = ErasableRegressor((0, 400), 0.5, threshold=0.0, scaling=0.5, fit_intercept=False, grid_bits=20).fit(X, Y)
    ridge = Ridge(0.5, fit_intercept=False).fit(X / 0.5, Y - 200.0)
    assert np.allclose(whole.coef_, ridge.coef_, rtol=1e-3)


def test_predictions_are_clipped_to_the_declared_ranges():
    one, two = clone(MADE).fit(X, Y), ErasableRegressor([(0, 400), (-300, 300)], scaling=0.5).fit(X, TWO)
    far = np.outer([-0.15, 0.0, 0.15], np.sign(one.coef_))
    for reg, low, high in ((one, 0, 400), (two, [0, -300], [400, 300])):
        straight = far / 0.5 @ reg.coef_.T + reg.intercept_
        found = reg.predict(far)
        assert (straight < low).any()
        assert (straight > high).any()
        assert found.shape == straight.shape
        assert np.allclose(found, np.clip(straight, low, high), rtol=1e-12)
        assert (found >= low).all()
        assert (found <= high).all()


def test_a_weight_counts_as_often_as_it_says():
    often = np.repeat(np.arange(50), 3)
    once = ErasableRegressor((0, 400), threshold=0.0, scaling=0.5).fit(X[:50], Y[:50], sample_weight=np.full(50, 3.0))
    thrice = ErasableRegressor((0, 400), threshold=0.0, scaling=0.5).fit(X[often], Y[often])
    assert np.array_equal(once.coef_, thrice.coef_)


def test_one_pair_stands_for_all_targets():
    one = ErasableRegressor((-300, 400), scaling=0.5).fit(X, TWO)
    each = ErasableRegressor([(-300, 400), (-300, 400)], scaling=0.5).fit(X, TWO)
    assert one.state_digest() == each.state_digest()


@pytest.mark.parametrize(
    "y",
    [Y.tolist(), Y[:, None], pd.Series(Y), pa.array(Y), Y.astype(object), pd.DataFrame({"y": Y})],
    ids=["list", "column", "series", "arrow", "objects", "frame"],
)
def test_targets_come_in_any_container(y):
    assert clone(MADE).fit(X, y).state_digest() == clone(MADE).fit(X, Y).state_digest()


WRONG = {
    "above": (np.where(np.arange(len(Y)) == 3, 400.1, Y), InputError, "1 of 442 targets are outside"),
    "below": (np.where(np.arange(len(Y)) < 2, -0.1, Y), InputError, "2 of 442 targets"),
    "nan": (np.where(np.arange(len(Y)) == 3, np.nan, Y), InputError, "NaN"),
    "inf": (np.where(np.arange(len(Y)) == 3, np.inf, Y), InputError, "infinity"),
    "none": ([None, *Y[1:]], ErasableError, "y"),
    "text": ([f"secret {v}" for v in Y], InputTypeError, "numbers"),
    "one text": ("secret", InputError, "array"),
    "complex": (Y + 0j, InputTypeError, "real"),
    "short": (Y[1:], InputError, "samples"),
    "three dimensions": (Y[:, None, None], InputError, "dim"),
    "ragged": ([[1.0], *[[1.0, 2.0]] * 441], ErasableError, "numbers"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_targets_that_cannot_be_used_are_refused_and_change_nothing(wrong):
    y, error, says = WRONG[wrong]
    reg = clone(MADE).fit(X, Y)
    before = reg.state_digest()
    for call in (clone(MADE).fit, reg.fit, reg.partial_fit):
        with pytest.raises(error, match=says) as told:
            call(X, y)
        assert "400.1" not in str(told.value)
        assert "secret" not in str(told.value)
    assert reg.state_digest() == before


@pytest.mark.parametrize(
    "given",
    [5, (1, 1), (2, 1), (0, np.inf), (np.nan, 1), "ab", [(0, 1), (0, 1)], (0, 1, 2), [(0, 1), (0,)], (0, 1e301)],
)
def test_what_is_no_range_is_refused(given):
    with pytest.raises(ConfigurationError, match=r"target.range"):
        ErasableRegressor(given).fit(X, Y)


def test_a_changed_range_or_another_number_of_targets_is_refused():
    reg = clone(MADE).fit(X[:200], Y[:200], ids=np.arange(200))
    with pytest.raises(ConfigurationError, match="target_range changed"):
        reg.set_params(target_range=(0, 401)).partial_fit(X[200:], Y[200:], ids=np.arange(200, 442))
    reg.set_params(target_range=[(0.0, 400.0)])
    with pytest.raises(InputError, match="2 targets for each row, and the model has 1"):
        reg.partial_fit(X[200:], TWO[200:], ids=np.arange(200, 442))
    reg.partial_fit(X[200:], Y[200:], ids=np.arange(200, 442))
    with pytest.raises(ConfigurationError, match="no classes"):
        learn(reg, X[:3], Y[:3], ids=[900, 901, 902], classes=[1, 2])


def test_targets_within_a_few_steps_of_the_grid_are_a_warning():
    with pytest.warns(WeakModelWarning, match="within 32 steps.*1 of 2 targets"):
        ErasableRegressor([(-1e6, 1e6), (0, 400)], scaling=0.5).fit(X, np.stack([Y, Y], axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(MADE).fit(X, Y)
        clone(MADE).fit(X, np.full(len(Y), 7.0))


def test_files_and_pickles_bring_it_back(tmp_path):
    reg = clone(MADE).fit(X, Y, subjects=np.arange(len(X)) % 9)
    reg.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert type(again) is ErasableRegressor
    assert again.get_params()["target_range"] == (0.0, 400.0)
    for other in (again, pickle.loads(pickle.dumps(reg)), load(tmp_path / "m", like=MADE)):
        other.forget(subjects=[3])
        assert verify(other).digest == other.state_digest() != reg.state_digest()
    with pytest.raises(ConfigurationError, match="target_range"):
        load(tmp_path / "m", like=clone(MADE).set_params(target_range=(0, 500)))
    with pytest.raises(ConfigurationError, match="another kind"):
        load(tmp_path / "m", like=ErasableClassifier(feature_map=None))
    ErasableClassifier(feature_map=None).fit(X, Y > 140).save(tmp_path / "c")
    with pytest.raises(ConfigurationError, match="another kind"):
        load(tmp_path / "c", like=MADE)


def _set(meta, **values):
    meta.update(values)


TAMPERED = {
    "narrower": lambda h, m: _set(m, target_ranges=[[(0.0).hex(), (300.0).hex()]]),
    "turned": lambda h, m: _set(m, target_ranges=[[(400.0).hex(), (0.0).hex()]]),
    "infinite": lambda h, m: _set(m, target_ranges=[["0x0.0p+0", "inf"]]),
    "none": lambda h, m: _set(m, target_ranges=[]),
    "two": lambda h, m: _set(m, target_ranges=m["target_ranges"] * 2),
    "number": lambda h, m: _set(m, target_ranges=7),
    "a classifier": lambda h, m: _set(m, format="erasable-linear"),
    "classes": lambda h, m: _set(m, classes=[]),
    "flat targets": lambda h, m: h["targets"].update(shape=[h["targets"]["shape"][0]]),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_files_that_were_altered_are_refused_or_do_not_verify(how, tmp_path):
    reg = clone(MADE).fit(X, Y)
    reg.save(tmp_path / "m")
    data = altered((tmp_path / "m").read_bytes(), TAMPERED[how])
    (tmp_path / "m").write_bytes(data)
    if how == "narrower":  # another range for the same integers is another model, and a sound one
        assert verify(load(tmp_path / "m")).digest != reg.state_digest()
        return
    with pytest.raises(ErasableError):
        load(tmp_path / "m")


def test_metadata_is_routed_to_it():
    with sklearn.config_context(enable_metadata_routing=True):
        reg = clone(MADE).set_fit_request(ids=True, subjects=True, sample_weight=True)
        weights = np.where(np.arange(len(X)) % 2, 1.0, 0.5)
        pipe = make_pipeline(FunctionTransformer(), reg).fit(X, Y, ids=np.arange(442), sample_weight=weights)
        assert pipe[-1].state_digest() == clone(MADE).fit(X, Y, sample_weight=weights).state_digest()
        found = cross_validate(
            reg, X, Y, params={"ids": np.arange(442)}, cv=3, scoring=("r2", "neg_mean_absolute_error")
        )
    assert found["test_r2"].mean() > 0.4


def test_a_feature_map_stands_before_it():
    curved = np.sin(60 * X[:, :1])[:, 0]
    reg = ErasableRegressor((-1, 1), feature_map=RandomFourierFeatures(80, gamma=300.0), threshold=0.01)
    assert reg.fit(X[:, :1], curved).score(X[:, :1], curved) > 0.9
    reg.forget(ids=reg.core_ids_[:5])
    assert verify(reg).digest == reg.state_digest()


def test_learners_on_a_core_set_stay_classifiers():
    with pytest.raises((ErasableError, ValueError)):
        CoreSetUnlearner(LeverageThreshold(0.1), clone(MADE)).fit(X, Y)
