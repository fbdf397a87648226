"""The Newton step ends where theory says, the noise is as large as theory asks, and the squared loss is exact."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge

from erasable.errors import NoRowsError
from erasable.research.baselines.newton import NewtonUnlearner
from erasable.research.baselines.unit_ball import noise_for_unit_shift

NO_NOISE = 1e300  # an epsilon that leaves noise of some 1e-150


def unit(X, *, intercept=True):
    Z = np.array([x / np.linalg.norm(x) if x.any() else x for x in np.asarray(X, dtype=float)])
    return np.column_stack([Z, np.ones(len(Z))]) / math.sqrt(2) if intercept else Z


def minimiser(U, signs, ridge):
    """Plain damped Newton on the sum of logistic losses, by gradient norm."""
    w = np.zeros(U.shape[1])

    def gradient(w):
        return ridge * w - U.T @ (signs * expit(-signs * (U @ w)))

    for _ in range(300):
        g = gradient(w)
        if np.linalg.norm(g) < 1e-14 * len(U):
            break
        c = expit(U @ w) * expit(-U @ w)
        step = np.linalg.solve(U.T @ (U * c[:, None]) + ridge * np.eye(len(w)), g)
        t = 1.0
        while t > 1e-9 and np.linalg.norm(gradient(w - t * step)) > (1 - 0.1 * t) * np.linalg.norm(g):
            t /= 2
        w = w - t * step
    assert np.linalg.norm(gradient(w)) < 1e-10 * len(U)
    return w


def newton_point(U, signs, alpha, gone):
    """The paper's formula, from nothing: unlearn the rows ``gone`` from the minimiser over all."""
    n, left = len(U), np.setdiff1d(np.arange(len(U)), gone)
    w = minimiser(U, signs, n * alpha)
    c = expit(U @ w) * expit(-U @ w)
    H = sum(c[i] * np.outer(U[i], U[i]) + alpha * np.eye(len(w)) for i in left)
    G = sum(-signs[i] * expit(-signs[i] * (U[i] @ w)) * U[i] + alpha * w for i in gone)
    return w + np.linalg.solve(H, G)


def problem(seed, n, d, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 0, d)
    y = np.argmax(X @ rng.standard_normal((d, classes)) + 0.3 * rng.standard_normal((n, classes)), axis=1)
    y[:classes] = np.arange(classes)
    y[-classes:] = np.arange(classes)
    return X, y


def weights(model):
    """Weights of unit rows, from the public attributes."""
    return np.column_stack([model.coef_, model.intercept_]) * math.sqrt(2)


def gamma(n, m, alpha):
    size = min(1 / alpha, math.sqrt(2 * math.log(2) / alpha))
    return 2 / (6 * math.sqrt(3)) * (1 + alpha * size) ** 2 * m**2 / (alpha**3 * n**2)


# -- the squared loss: exact -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("sparse", [False, True])
def test_squared_loss_equals_ridge_on_the_remaining_rows(classes, sparse):
    X, y = problem(1, 80, 5, classes)
    model = NewtonUnlearner("squared", 0.01, max_deletions=1).fit(sp.csr_matrix(X) if sparse else X, y)
    gone = np.arange(7, 67)
    for batch in np.split(gone, [1, 2, 30]):
        assert model.forget(ids=batch).rows_retrained == 0
    left = np.setdiff1d(np.arange(80), gone)
    T = np.where(y[left, None] == (np.arange(classes) if classes > 2 else 1), 1.0, -1.0)
    ridge = Ridge(alpha=len(left) * 0.01, fit_intercept=False, solver="cholesky").fit(unit(X)[left], T)
    np.testing.assert_allclose(weights(model), ridge.coef_.reshape(-1, 6), rtol=0, atol=1e-9)
    assert model.noise_std_ == 0.0
    assert (model.guarantee.epsilon, model.guarantee.delta) == (0.0, 0.0)


# -- the Newton step -------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.integers(0, 10**6), st.integers(12, 80), st.integers(1, 5), st.floats(-4, 0), st.integers(1, 6), st.booleans()
)
def test_logistic_step_is_the_papers_and_ends_within_gamma(seed, n, d, log_alpha, m, intercept):
    X, y = problem(seed, n, d)
    alpha, gone = 10.0**log_alpha, np.random.default_rng(seed).choice(np.arange(2, n - 2), m, replace=False)
    model = NewtonUnlearner(alpha=alpha, epsilon=NO_NOISE, max_deletions=m, fit_intercept=intercept).fit(X, y)
    assert model.forget(ids=gone).rows_retrained == 0
    U, signs, left = unit(X, intercept=intercept), np.where(y == 1, 1.0, -1.0), np.setdiff1d(np.arange(n), gone)
    w = weights(model)[0] if intercept else model.coef_[0]
    np.testing.assert_allclose(w, newton_point(U, signs, alpha, gone), rtol=0, atol=1e-8 / alpha)
    away = np.linalg.norm(w - minimiser(U[left], signs[left], len(left) * alpha))
    assert away <= gamma(n, m, alpha) / 4 + 1e-9 / alpha


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([2, 3]), st.sampled_from(["logistic", "squared"]), st.data())
def test_order_and_batches_do_not_matter(seed, classes, loss, data):
    X, y = problem(seed, 60, 4, classes)
    gone = data.draw(st.permutations(range(10, 30)))
    cuts = sorted(data.draw(st.sets(st.integers(1, 19))))
    model = NewtonUnlearner(loss, 0.01, epsilon=NO_NOISE, max_deletions=20)
    once, often = model.fit(X, y), pickle.loads(pickle.dumps(model))
    once.forget(ids=range(10, 30))
    for batch in np.split(np.array(gone), cuts):
        often.forget(ids=batch)
    np.testing.assert_allclose(weights(often), weights(once), rtol=0, atol=1e-10)


def test_each_of_several_classes_is_one_against_the_rest():
    X, y = problem(3, 90, 4, 3)
    model = NewtonUnlearner(alpha=0.02, epsilon=NO_NOISE, max_deletions=5).fit(X, y)
    model.forget(ids=[5, 50])
    for c in range(3):
        point = newton_point(unit(X), np.where(y == c, 1.0, -1.0), 0.02, [5, 50])
        np.testing.assert_allclose(weights(model)[c], point, rtol=0, atol=1e-8)


@pytest.mark.parametrize("flipped", [0.0, 0.1])
def test_training_converges_with_little_regularisation(flipped):
    for seed in range(60):  # a third of these need shortened steps
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 3)) * 10.0 ** rng.uniform(-4, 0, (40, 1))
        X /= np.linalg.norm(X, axis=1).max()
        y = (X[:, 0] > 0) != (rng.random(40) < flipped)
        model = NewtonUnlearner(alpha=1e-9, epsilon=NO_NOISE, scaling=None, fit_intercept=False).fit(X, y)
        signs, w = np.where(y, 1.0, -1.0), model.coef_[0]
        assert np.linalg.norm(40e-9 * w - X.T @ (signs * expit(-signs * (X @ w)))) < 1e-10


# -- the noise -------------------------------------------------------------------------------------------------------


def test_noise_has_the_standard_deviation_of_the_paper():
    X, y = problem(4, 500, 150)
    alpha, epsilon, delta, m = 0.05, 0.7, 1e-3, 40
    model = NewtonUnlearner(alpha=alpha, epsilon=epsilon, delta=delta, max_deletions=m, random_state=5).fit(X, y)
    clean = NewtonUnlearner(alpha=alpha, epsilon=NO_NOISE, max_deletions=m).fit(X, y)
    sigma = gamma(500, m, alpha) / epsilon * math.sqrt(2 * math.log(1.25 / delta))
    assert model.noise_std_ == pytest.approx(sigma)
    draws = [weights(model) - weights(clean)]  # the model published after fit has it, too
    for i in range(30):
        model.forget(ids=[i + 3])
        clean.forget(ids=[i + 3])
        draws.append(weights(model) - weights(clean))
    assert draws[0].std() == pytest.approx(sigma, rel=0.25)
    draws = np.concatenate(draws)
    assert draws.std() == pytest.approx(sigma, rel=0.05)
    assert abs(draws.mean()) < 5 * sigma / math.sqrt(draws.size)
    assert np.abs(np.corrcoef(draws) - np.eye(31)).max() < 0.5  # fresh each time


def test_several_classes_share_epsilon_and_delta():
    X, y = problem(5, 60, 3, 4)
    model = NewtonUnlearner(alpha=0.1, epsilon=0.8, delta=1e-3, max_deletions=2).fit(X, y)
    sigma = gamma(60, 2, 0.1) / 0.2 * math.sqrt(2 * math.log(1.25 / 2.5e-4))
    assert model.noise_std_ == pytest.approx(sigma)


def test_no_more_than_all_rows_can_be_promised():
    X, y = problem(5, 60, 3)
    assert NewtonUnlearner(alpha=0.1, max_deletions=10**400).fit(X, y).noise_std_ == pytest.approx(
        NewtonUnlearner(alpha=0.1, max_deletions=60).fit(X, y).noise_std_
    )


def test_noise_differs_between_models_without_a_seed():
    X, y = problem(6, 30, 3)
    a, b = (NewtonUnlearner(alpha=0.1).fit(X, y).coef_ for _ in range(2))
    assert (a != b).all()
    c, d = (NewtonUnlearner(alpha=0.1, random_state=1).fit(X, y).coef_ for _ in range(2))
    assert (c == d).all()


@pytest.mark.parametrize("constant", [1.25, 1.5])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 1.0, 1.0001, 2.0, 10.0, 1e3])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 1e-2, 0.5, 0.99])
def test_noise_for_a_shift_is_enough_for_epsilon_and_delta(epsilon, delta, constant):
    sigma = noise_for_unit_shift(epsilon, delta, constant)
    a, b = 1 / (2 * sigma), epsilon * sigma  # Balle and Wang 2018: the exact delta of Gaussian noise
    true_delta = norm.cdf(a - b) - math.exp(epsilon + norm.logcdf(-a - b))
    assert true_delta <= delta


# -- when retraining is due ------------------------------------------------------------------------------------------


def test_one_row_more_than_allowed_retrains_and_counting_starts_again():
    X, y = problem(7, 60, 3)
    model = NewtonUnlearner(alpha=0.05, epsilon=NO_NOISE, max_deletions=3).fit(X, y)
    assert [model.forget(ids=[i]).rows_retrained for i in range(10, 19)] == [0, 0, 0, 56, 0, 0, 0, 52, 0]
    model.forget(ids=[20, 21, 22])
    again = NewtonUnlearner(alpha=0.05, epsilon=NO_NOISE, max_deletions=3)
    left = np.setdiff1d(np.arange(60), [*range(10, 19), 20, 21, 22])
    np.testing.assert_allclose(model.coef_, again.fit(X[left], y[left]).coef_, rtol=0, atol=1e-9)
    assert model._rows.X.shape[0] == 48
    assert model.noise_std_ == pytest.approx(again.noise_std_)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_class_that_vanishes_retrains(loss):
    X, y = problem(8, 60, 3, 3)
    y = np.array(["a", "b", "c"])[y]
    model = NewtonUnlearner(loss, 0.05, epsilon=NO_NOISE, max_deletions=60).fit(X, y)
    b = np.flatnonzero(y == "b")
    assert model.forget(ids=b[1:]).rows_retrained == 0
    assert model.forget(ids=b[:1]).rows_retrained == 60 - len(b)
    again = NewtonUnlearner(loss, 0.05, epsilon=NO_NOISE, max_deletions=60).fit(X[y != "b"], y[y != "b"])
    assert model.classes_.tolist() == ["a", "c"]
    np.testing.assert_allclose(weights(model), weights(again), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    model.forget(ids=np.flatnonzero(y == "a"))
    assert set(model.predict(X)) == {"c"}
    assert not model.coef_.any()
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((60, 1)))
    assert model.forget(ids=np.flatnonzero(y == "c")[:2]).rows_retrained == 0
    assert model._hessians == []


def test_sums_lost_to_rounding_are_built_again():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    y = (X[:, 0] > 0).astype(int)
    model = NewtonUnlearner("squared", 1e-14).fit(X, y)
    keep = [int(np.argmax(y == 0)), int(np.argmax(y == 1))]
    for i in np.array_split(np.setdiff1d(np.arange(4000), keep), 50):
        model.forget(ids=i)
    assert np.isfinite(model.coef_).all()


# -- rows that leave, rows that are unknown --------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix, sp.csr_array])
def test_forgotten_rows_are_overwritten(container):
    X, y = problem(10, 30, 3)
    y[[4, 7]] = 1
    model = NewtonUnlearner(alpha=0.05, max_deletions=5).fit(container(X), y, ids=[f"r{i}" for i in range(30)])
    report = model.forget(ids=["r4", "r7", "unknown", "r4"])
    assert (report.requested, report.core_rows_removed, report.core_rows, report.rows_retrained) == (3, 2, 28, 0)
    assert not np.any(model._rows.take(np.array([4, 7])))
    assert not np.any(model._codes[[4, 7]])
    if sp.issparse(model._rows.X):  # which features a row had is gone, too
        assert not np.any(model._rows.X.indices[model._rows.X.indptr[4] : model._rows.X.indptr[5]])
    np.testing.assert_allclose(np.delete(model._rows.take(np.arange(30)), [4, 7], 0), np.delete(unit(X), [4, 7], 0))
    assert model.stored_rows_ == 28
    assert model.stored_bytes_ > 30 * 4 * 8 + 4 * 4 * 8


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("scaling", ["row", None, 40.0, (1.0, 2.0, 0.5, 1.0)])
def test_sparse_rows_give_the_same_model(loss, scaling):
    X, y = load_iris(return_X_y=True)
    X = X / 20.0 if scaling is None else X
    models = [NewtonUnlearner(loss, 0.05, scaling=scaling, max_deletions=9, random_state=3) for _ in range(2)]
    models[0].fit(X, y).forget(ids=[1, 60, 120])
    models[1].fit(sp.csr_matrix(X), y).forget(ids=[1, 60, 120])
    for name in ("coef_", "intercept_"):
        np.testing.assert_allclose(getattr(models[1], name), getattr(models[0], name), rtol=1e-9)
    np.testing.assert_allclose(models[1].predict_proba(sp.csr_matrix(X)), models[0].predict_proba(X), rtol=1e-9)


def test_scores_are_those_of_scaled_rows():
    X, y = problem(12, 40, 3, 3)
    model = NewtonUnlearner("squared", 0.01).fit(X, y)
    scores = X / np.linalg.norm(X, axis=1)[:, None] @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), scores)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[np.argmax(P, axis=1)], model.predict(X))


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_logistic_functions_of_the_scores(classes):
    X, y = problem(12, 40, 3, classes)
    model = NewtonUnlearner(alpha=0.01, epsilon=NO_NOISE).fit(X, y)
    scores = model.decision_function(X)
    P = expit(scores) / expit(scores).sum(axis=1)[:, None] if classes > 2 else expit(np.outer(scores, [-1, 1]))
    np.testing.assert_allclose(model.predict_proba(X), P)


# -- contracts -------------------------------------------------------------------------------------------------------


def test_forgetting_everything_leaves_nothing():
    X, y = problem(9, 20, 3)
    model = NewtonUnlearner(alpha=0.05, max_deletions=30).fit(X, y)
    statistics = [*model._hessians, model._center, model._gone]
    model.forget(ids=range(12))
    assert model.forget(ids=range(20)).core_rows == 0
    for use in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(NoRowsError):
            use(X)
    assert model.stored_rows_ == 0
    assert model._rows.X.size == 0
    assert not any(a.any() for a in statistics)
    assert model.forget(ids=[1]).core_rows_removed == 0
