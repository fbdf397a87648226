"""The residual that is claimed is never below the true one, and retraining happens when the budget would be passed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.datasets import load_iris

from erasable.errors import InputError, NoRowsError
from erasable.research.baselines.certified import CertifiedRemovalClassifier, _spectral_norm
from erasable.research.baselines.unit_ball import UnitRows

CURVATURE = 1 / (6 * math.sqrt(3))


def unit(X, *, intercept=True):
    Z = np.array([x / np.linalg.norm(x) if x.any() else x for x in np.asarray(X, dtype=float)])
    return np.column_stack([Z, np.ones(len(Z))]) / math.sqrt(2) if intercept else Z


def signs_of(y, classes):
    positive = classes if len(classes) > 2 else classes[1:]
    return np.where(y == positive[:, None], 1.0, -1.0)


def gradient(U, signs, ridge, b, w):
    """Gradient of the tilted objective, in extended precision."""
    U, signs, b, w = (np.asarray(a, dtype=np.longdouble) for a in (U, signs, b, w))
    with np.errstate(over="ignore"):
        return ridge * w + b - (signs / (1 + np.exp(signs * (U @ w)))) @ U


def true_residuals(model, X, y, left, alpha):
    U, S = unit(X)[left], signs_of(y[left], model.classes_)
    return np.array(
        [
            float(np.linalg.norm(gradient(U, s, alpha * len(left), b, w)))
            for s, b, w in zip(S, model._tilt, model._weights, strict=True)
        ]
    )


def step_and_bound(U_trained, U_left, Z, signs, w, alpha):
    """The papers' formulas for one function, from nothing."""
    H = alpha * len(U_left) * np.eye(len(w))
    for x in U_left:
        H += expit(x @ w) * expit(-x @ w) * np.outer(x, x)
    lost = sum(alpha * w - s * expit(-s * (z @ w)) * z for z, s in zip(Z, signs, strict=True))
    v = np.linalg.solve(H, lost)
    bound = CURVATURE * np.linalg.norm(U_trained, 2) * np.linalg.norm(v) * np.linalg.norm(U_left @ v)
    return v, bound


def problem(seed, n, d, classes=2, spread=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-spread, 0, d)
    y = np.argmax(X @ rng.standard_normal((d, classes)) + 0.3 * rng.standard_normal((n, classes)), axis=1)
    y[:classes] = np.arange(classes)
    return X, y


# -- the bound -------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(6, 60),
    d=st.integers(1, 6),
    classes=st.sampled_from([2, 3]),
    log_alpha=st.floats(-7, 1),
    log_sigma=st.floats(-3, 3),
    spread=st.sampled_from([0.0, 8.0]),
    data=st.data(),
)
def test_claimed_residual_is_never_below_the_true_one(seed, n, d, classes, log_alpha, log_sigma, spread, data):
    X, y = problem(seed, n, d, classes, spread)
    if data.draw(st.booleans()):
        X[2 * n // 3 :] = X[0]  # duplicates, with labels that disagree
        X[1] = 0.0
    alpha = 10.0**log_alpha
    # Epsilon is so large that the budget allows nearly everything.
    model = CertifiedRemovalClassifier(alpha, sigma=10.0**log_sigma, epsilon=1e6, random_state=seed).fit(X, y)
    left = np.arange(n)
    assert (true_residuals(model, X, y, left, alpha) <= model.spent_).all()
    order = data.draw(st.permutations(range(classes, n)))
    for batch in np.array_split(order, data.draw(st.integers(1, min(5, n - classes)))):
        model.forget(ids=batch)
        left = np.setdiff1d(left, batch)
        assert (true_residuals(model, X, y, left, alpha) <= model.spent_).all()


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([2, 3]), st.floats(-3, -1), st.floats(-2, 1), st.lists(st.integers(1, 4)))
def test_retrains_exactly_when_the_budget_would_be_passed(seed, classes, log_alpha, log_sigma, sizes):
    n, alpha = 60, 10.0**log_alpha
    X, y = problem(seed, n, 3, classes)
    model = CertifiedRemovalClassifier(alpha, sigma=10.0**log_sigma, random_state=seed).fit(X, y)
    U, left, trained = unit(X), np.arange(n), np.arange(n)
    order = np.random.default_rng(seed).permutation(np.arange(classes, n)).tolist()
    for size in sizes:
        batch, order = order[:size], order[size:]
        if not batch:
            break
        left = np.setdiff1d(left, batch)
        W, before, tilt = model._weights.copy(), model.spent_.copy(), model._tilt.copy()
        S = signs_of(y[batch], model.classes_)
        found = [
            step_and_bound(U[trained], U[left], U[batch], s, w, alpha) for s, w in zip(S, W, strict=True)
        ]  # one step for the whole batch
        after = before + [bound for _, bound in found]
        assume(not np.any(np.abs(after - model.budget_) < 1e-6 * model.budget_))
        report = model.forget(ids=batch)
        if (after > model.budget_).any():
            assert report.rows_retrained == len(left)
            assert (model._tilt != tilt).all()
            assert (true_residuals(model, X, y, left, alpha) < 1e-10 * n).all()
            assert (model.spent_ < 1e-8).all()
            trained = left
        else:
            assert report.rows_retrained == 0
            np.testing.assert_array_equal(model._tilt, tilt)
            np.testing.assert_allclose(model._weights, W + [v for v, _ in found], rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(model.spent_, after, rtol=1e-6, atol=1e-9)


def test_spectral_norm_is_rounded_up():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        U = unit(rng.standard_normal((rng.integers(1, 300), rng.integers(1, 8))) * 10.0 ** rng.uniform(-9, 0))
        top = np.linalg.svd(U)[2][0].astype(np.longdouble)
        top /= np.sqrt(top @ top)
        image = U.astype(np.longdouble) @ top  # its length is within 1e-30 or so of the norm, and never above
        assert np.sqrt(image @ image) <= _spectral_norm(UnitRows(U)) <= (1 + 1e-9) * np.linalg.norm(U, 2)


def test_both_outcomes_occur():
    X, y = problem(0, 200, 3)
    model = CertifiedRemovalClassifier(0.01, random_state=0).fit(X, y)
    gone_over = [model.forget(ids=[i]).rows_retrained for i in range(2, 150)]
    assert 0 < sum(g > 0 for g in gone_over) < len(gone_over) / 2
    assert (model.spent_ <= model.budget_).all()


# -- the budget and the tilt -----------------------------------------------------------------------------------------


def test_step_and_bound_are_those_of_the_authors_code():
    """`test_removal.py` of their release, `lr_grad`, `lr_hessian_inv` and the loop, with its 1/4 for the curvature."""
    X, y = problem(3, 80, 4)
    alpha, gone, left = 0.01, 11, np.delete(np.arange(80), 11)
    model = CertifiedRemovalClassifier(alpha=alpha, sigma=100.0, random_state=0).fit(X, y)
    w, spent = model._weights[0].copy(), model.spent_[0]
    U, signs = unit(X), signs_of(y, model.classes_)[0]
    z, s = U[gone], signs[gone]
    lost = (expit(s * (z @ w)) - 1.0) * s * z + alpha * w
    p = expit(signs[left] * (U[left] @ w))
    H = (U[left] * (p * (1.0 - p))[:, None]).T @ U[left] + alpha * 79 * np.eye(len(w))
    step = np.linalg.inv(H) @ lost
    theirs = np.linalg.norm(step) * np.linalg.norm(U[left] @ step) * np.linalg.norm(U[left], 2) / 4.0
    assert model.forget(ids=[gone]).rows_retrained == 0
    assert np.allclose(model._weights[0] - w, step, rtol=1e-9, atol=1e-14)
    ours = model.spent_[0] - spent
    assert 4 * CURVATURE * theirs <= ours <= theirs  # the rows trained on in place of those left, and room for rounding


def test_budget_is_that_of_the_paper():
    X, y = problem(1, 30, 3)
    model = CertifiedRemovalClassifier(0.1, epsilon=0.5, delta=1e-3, sigma=3.0).fit(X, y)
    assert model.budget_ == pytest.approx(3.0 * 0.5 / math.sqrt(2 * math.log(1.5e3)))
    twice = CertifiedRemovalClassifier(0.1, epsilon=0.5, delta=1e-3, sigma=6.0).fit(X, y)
    assert twice.budget_ == pytest.approx(2 * model.budget_)


def test_several_classes_share_epsilon_and_delta():
    X, y = problem(1, 60, 3, 4)
    model = CertifiedRemovalClassifier(0.1, epsilon=0.8, delta=1e-3, sigma=2.0).fit(X, y)
    assert model.budget_ == pytest.approx(2.0 * 0.2 / math.sqrt(2 * math.log(1.5 / 2.5e-4)))
    assert model.spent_.shape == (4,)


def test_tilt_has_standard_deviation_sigma_and_is_drawn_at_each_training():
    X, y = problem(2, 30, 700)
    model = CertifiedRemovalClassifier(0.1, sigma=2.5, random_state=0).fit(X, y)
    assert model._tilt.std() == pytest.approx(2.5, rel=0.1)
    assert (model._tilt != CertifiedRemovalClassifier(0.1, sigma=2.5, random_state=1).fit(X, y)._tilt).all()
    unseeded = [CertifiedRemovalClassifier(0.1).fit(X, y)._tilt for _ in range(2)]
    assert (unseeded[0] != unseeded[1]).all()


def test_weights_minimise_the_tilted_objective():
    X, y = problem(3, 50, 4, 3)
    model = CertifiedRemovalClassifier(0.02, sigma=5.0, random_state=0).fit(X, y)
    assert (true_residuals(model, X, y, np.arange(50), 0.02) < 1e-10).all()
    np.testing.assert_allclose(np.column_stack([model.coef_, model.intercept_]) * math.sqrt(2), model._weights)


# -- rows and classes that leave -------------------------------------------------------------------------------------


def test_a_class_that_vanishes_retrains():
    X, y = problem(4, 60, 3, 3)
    model = CertifiedRemovalClassifier(0.1, epsilon=1e6, random_state=0).fit(X, y)
    ones = np.flatnonzero(y == 1)
    assert model.forget(ids=ones).rows_retrained == 60 - len(ones)
    assert model.classes_.tolist() == [0, 2]
    left = np.flatnonzero(y != 1)
    assert (true_residuals(model, X, y, left, 0.1) < 1e-10).all()
    model.forget(ids=np.flatnonzero(y == 0))
    assert set(model.predict(X)) == {2}
    assert model.forget(ids=np.flatnonzero(y == 2)[:1]).rows_retrained == 0
    assert model.spent_.shape == (0,)


@pytest.mark.parametrize("scaling", ["row", 40.0])
def test_sparse_rows_give_the_same_model(scaling):
    X, y = load_iris(return_X_y=True)
    models = [CertifiedRemovalClassifier(0.05, scaling=scaling, epsilon=50.0, random_state=3) for _ in range(2)]
    models[0].fit(X, y)
    models[1].fit(sp.csr_matrix(X), y)
    for ids in ([1, 60, 120], [61]):
        reports = [model.forget(ids=ids) for model in models]
        assert reports[0] == reports[1]
    np.testing.assert_allclose(models[1].coef_, models[0].coef_, rtol=1e-9)
    np.testing.assert_allclose(models[1].spent_, models[0].spent_, rtol=1e-6)
    assert not np.any(models[1]._rows.take(np.array([1, 60, 61, 120])))


def test_stored_bytes_count_rows_labels_tilts_and_weights():
    X, y = problem(7, 30, 3)
    model = CertifiedRemovalClassifier(0.1).fit(X, y)
    assert model.stored_bytes_ == 30 * 4 * 8 + 30 * 8 + 2 * 4 * 8 + 8
    model.forget(ids=[5])
    assert model.stored_rows_ == 29


# -- contracts -------------------------------------------------------------------------------------------------------


def test_rows_outside_the_ball_are_refused():
    X, y = problem(10, 20, 3)
    with pytest.raises(InputError, match=r"of 20 rows have a norm above scaling=0.001"):
        CertifiedRemovalClassifier(scaling=0.001).fit(X, y)


def test_forgetting_everything_leaves_nothing():
    X, y = problem(5, 20, 3)
    model = CertifiedRemovalClassifier(0.1).fit(X, y)
    held = [model._weights, model._tilt]
    assert model.forget(ids=range(20)).core_rows == 0
    with pytest.raises(NoRowsError):
        model.predict(X)
    assert not any(a.any() for a in held)
    assert model._rows.X.size == 0
