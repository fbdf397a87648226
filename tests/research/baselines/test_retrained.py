"""Exact retraining: the state is that of ridge regression on all remaining rows, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from erasable import ErasableClassifier, verify
from erasable.errors import ConfigurationError, NoRowsError
from erasable.research.baselines import RetrainedRidge
from tests.estimators.cases import make_classes, make_rows
from tests.strategies import problems

X, Y = make_rows()
THREE = np.array(["a", "b", "c"])[make_classes(3)]


def ridge(setting):
    """The model of a setting, less its threshold."""
    return RetrainedRidge(
        setting.capacity,
        fit_intercept=setting.intercept,
        scaling=setting.scaling,
        classes=setting.classes,
        grid_bits=setting.bits,
    )


def subsets(batch):
    return st.lists(st.sampled_from(batch.ids), unique=True)


# -- the law -------------------------------------------------------------------------------------------------------


@given(problems(), st.data())
def test_forgetting_equals_refitting_all_remaining_rows(problem, data):
    setting, batch = problem
    model, gone = batch.learnt_by(ridge(setting)), set()
    for _ in range(data.draw(st.integers(1, 3))):
        request = data.draw(subsets(batch))
        report = model.forget(ids=request)
        gone |= set(request)
        left = batch.part([i for i, key in enumerate(batch.ids) if key not in gone])
        event(f"rows left: {min(len(left), 2)}")
        assert report.core_rows == model.stored_rows_ <= len(left)
        if len(left):
            again = ridge(setting).fit(
                np.array(left.X), left.y, ids=left.ids, subjects=left.subjects, allow_no_subject=True
            )
            assert again.state_digest() == model.state_digest() == verify(model).digest


@given(problems(order_keys=[0]), st.data())
def test_it_is_the_erasable_classifier_with_a_threshold_of_zero(problem, data):
    setting, batch = problem
    model, peer = batch.learnt_by(ridge(setting)), batch.learnt_by(setting.classifier(threshold=0.0))
    assert model.state_digest() == peer.state_digest()
    request = data.draw(subsets(batch))
    assert model.forget(ids=request).digest == peer.forget(ids=request).digest


# -- it is ridge regression ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.25, 1.0, 64.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("y", [Y, THREE], ids=["two classes", "three classes"])
def test_the_weights_are_those_of_ridge_regression_on_the_grid(alpha, fit_intercept, y):
    model = RetrainedRidge(alpha, fit_intercept=fit_intercept).fit(X, y)
    model.forget(ids=range(0, 240, 7))
    state, left = model._model.snapshot(), np.setdiff1d(np.arange(240), np.arange(0, 240, 7))
    assert sorted(state.ids) == left.tolist()
    left = np.array(state.ids)
    G = state.rows.astype(np.float64) * 2.0**-15
    positives = model.classes_ if len(model.classes_) > 2 else model.classes_[1:]
    targets = np.where(y[left][:, None] == positives, 1.0, -1.0)
    right = Ridge(alpha=alpha, fit_intercept=False, solver="cholesky").fit(G, targets).coef_
    np.testing.assert_allclose(state.derived["weights"], np.atleast_2d(right), rtol=1e-6, atol=1e-6)


# -- which rows are kept -------------------------------------------------------------------------------------------


def test_every_row_is_kept_however_often_it_comes():
    rows = np.repeat(X[:3], 50, axis=0)
    model = RetrainedRidge().fit(rows, np.arange(150) % 2)
    assert model.stored_rows_ == model.n_core_ == 150
    assert sorted(model.core_ids_.tolist()) == list(range(150))
    model.forget(ids=range(0, 150, 2))
    assert model.stored_rows_ == 75
    again = RetrainedRidge().fit(rows[1::2], np.ones(75, dtype=int), ids=range(1, 150, 2))
    assert model.state_digest() == again.state_digest()


def test_rows_of_zeros_are_not_kept_without_an_intercept():
    rows = X[:10].copy()
    rows[[2, 5]] = 0.0
    model = RetrainedRidge(fit_intercept=False).fit(rows, Y[:10])
    assert model.stored_rows_ == 8
    assert model.forget(ids=[2, 5]).core_rows_removed == 0
    kept = np.delete(np.arange(10), [2, 5])
    assert model.state_digest() == RetrainedRidge(fit_intercept=False).fit(rows[kept], Y[kept], ids=kept).state_digest()
    assert RetrainedRidge().fit(rows, Y[:10]).stored_rows_ == 10


def test_only_rows_of_zeros_is_no_rows():
    model = RetrainedRidge(fit_intercept=False).fit(np.zeros((4, 2)), [0, 1, 0, 1])
    assert model.stored_rows_ == 0
    with pytest.raises(NoRowsError):
        model.predict(np.zeros((1, 2)))
    verify(model)


def test_partial_fit_needs_neither_horizon_nor_threshold():
    model = RetrainedRidge(classes=["a", "b", "c"])
    for low in range(0, 240, 60):
        model.partial_fit(X[low : low + 60], THREE[low : low + 60], ids=range(low, low + 60))
    whole = RetrainedRidge(classes=["a", "b", "c"]).fit(X, THREE)
    assert (model.coef_ == whole.coef_).all()
    assert set(model.core_ids_.tolist()) == set(whole.core_ids_.tolist())


# -- parameters and copies -----------------------------------------------------------------------------------------


def test_it_has_its_own_parameters_and_no_others():
    model = RetrainedRidge()
    assert model.get_params() == {
        "alpha": 1.0,
        "fit_intercept": True,
        "scaling": "row",
        "classes": None,
        "grid_bits": 15,
    }
    for name in ("capacity", "kappa", "threshold", "horizon"):
        with pytest.raises(ValueError, match="Invalid parameter"):
            model.set_params(**{name: 0.5})
        with pytest.raises(TypeError):
            RetrainedRidge(**{name: 0.5})


@pytest.mark.parametrize("alpha", [-1.0, "1"])
def test_a_bad_alpha_is_called_alpha(alpha):
    """The one who reads the message has never heard of a capacity."""
    with pytest.raises(ConfigurationError, match="alpha"):
        RetrainedRidge(alpha).fit(X, Y)


def test_the_guarantee_is_the_traditional_one_without_assumptions():
    promise = RetrainedRidge().guarantee
    assert (promise.epsilon, promise.delta, promise.assumptions) == (0.0, 0.0, ())
    assert "Definition 2.1" in str(promise)
    assert "bitwise" in str(promise)
    assert promise != ErasableClassifier(feature_map=None).guarantee
