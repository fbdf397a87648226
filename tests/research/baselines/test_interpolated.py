"""Between core set and private model: the mixture, what is stored, and the law of the noise."""

from __future__ import annotations

import functools
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize

from erasable import verify
from erasable.coresets import LeverageThreshold, RandomSubsample
from erasable.errors import InputError, InputTypeError, NoRowsError
from erasable.research.baselines import interpolated
from erasable.research.baselines.interpolated import InterpolatedClassifier, noise
from tests.estimators.cases import SECRET, assert_no_traces, make_classes, make_rows

N = 240
X, Y = make_rows(N)
HALF = RandomSubsample(0.5)


def made(core_set=HALF, **parameters):
    settings = {"private_share": 0.1, "epsilon": 2.0, "alpha": 0.05, "random_state": 0, **parameters}
    return InterpolatedClassifier(core_set, **settings)


def weights(model):
    """All weights, in the coordinates in which rows have norm one."""
    W = np.column_stack([model.coef_, model.intercept_]) if model.fit_intercept else model.coef_
    return W * (math.sqrt(2.0) if model.fit_intercept else 1.0)


def unit(rows, *, intercept=True):
    Z = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.column_stack([Z, np.ones(len(Z))]) / math.sqrt(2.0) if intercept else Z


# -- the mixture -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
def test_f_minimises_the_mean_loss(intercept):
    model = made(RandomSubsample(1.0), private_share=0.0, fit_intercept=intercept).fit(X, Y)
    Z, signs = unit(X, intercept=intercept), np.where(Y == 1, 1.0, -1.0)

    def objective(w):
        return np.mean(np.logaddexp(0.0, -signs * (Z @ w))) + 0.025 * (w @ w)

    found = minimize(objective, np.zeros(Z.shape[1]), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(weights(model)[0], found.x, atol=1e-5)


def f(rows, labels, **parameters):
    """f of some rows: the model of all of them and nothing else."""
    return weights(made(RandomSubsample(1.0), private_share=0.0, **parameters).fit(rows, labels))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("gamma", [0.0, 0.25, 1.0])
def test_the_weights_are_the_mixture(classes, gamma):
    labels = Y if classes == 2 else make_classes(3)
    model = made(private_share=gamma).fit(X, labels)
    core = model.core_ids_
    b = model._noised - gamma * f(X, labels) if gamma else 0.0
    np.testing.assert_allclose(weights(model), (1 - gamma) * f(X[core], labels[core]) + gamma * f(X, labels) + b)
    if gamma:
        k = 1 if classes == 2 else 3
        assert model.noise_scale_ == 2 * gamma * k / (2.0 * 0.05)
        assert (np.linalg.norm(b, axis=1) > 0.05 * model.noise_scale_).all()
    else:
        assert model.noise_scale_ == 0.0


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_forgetting_trains_the_core_part_anew_and_leaves_the_noised_one_alone(container, gamma):
    model = made(LeverageThreshold(0.02), private_share=gamma).fit(container(X), Y)
    core, noised = model.core_ids_, model._noised.copy()
    gone = [*core[::3].tolist(), *range(0, N, 5)]
    report = model.forget(ids=gone)
    left = np.array([i for i in core if i not in set(gone)])
    assert model.core_ids_.tolist() == left.tolist()
    assert report.rows_retrained == (0 if gamma == 1.0 else len(left))
    assert model._noised.tobytes() == noised.tobytes()
    plain = made(RandomSubsample(1.0), private_share=0.0).fit(container(X)[left], Y[left])
    right = (1.0 - gamma) * plain._weights + noised if gamma else plain._weights
    assert model._weights.tobytes() == right.tobytes()


def test_without_a_private_part_forgetting_equals_a_refit():
    model = made(private_share=0.0).fit(X, Y)
    model.forget(ids=range(0, N, 3))
    left = model.core_ids_
    again = made(private_share=0.0).fit(X[left], Y[left], ids=left)
    assert pickle.dumps(model) == pickle.dumps(again)
    assert model.guarantee.epsilon == 0.0
    assert model.guarantee.of == "state"
    assert "on one machine" in str(model.guarantee)
    assert not model.guarantee.bitwise  # there is no digest that could show it
    with pytest.raises(InputTypeError, match="forget bit for bit"):
        verify(model)


def test_rows_outside_the_core_are_forgotten_for_free():
    model = made().fit(X, Y)
    before = pickle.dumps(model)
    outside = np.setdiff1d(np.arange(N), model.core_ids_)
    assert model.forget(ids=outside).core_rows_removed == 0
    assert pickle.dumps(model) == before
    assert not any(X[i].tobytes() in before for i in outside)
    model.forget(ids=model.core_ids_[:20])
    assert not any(X[i].tobytes() in pickle.dumps(model) for i in range(N) if i not in model.core_ids_)


def test_the_private_model_without_noise_is_not_stored(monkeypatch):
    made_by_training = []
    trained = interpolated._trained

    def watched(*args):
        W = trained(*args)
        made_by_training.append((W, W.copy()))
        return W

    monkeypatch.setattr(interpolated, "_trained", watched)
    model = made(private_share=1.0).fit(X, Y)
    [(W, as_trained)] = made_by_training
    assert (as_trained != W).all()  # noise went on top of it, in place
    assert as_trained.tobytes() not in pickle.dumps(model)
    assert (0.1 * as_trained).tobytes() not in pickle.dumps(model)


# -- classes ---------------------------------------------------------------------------------------------------------


def test_classes_are_those_of_the_core_rows():
    labels = np.array(["a", "b"])[Y].astype(object)
    outside = np.setdiff1d(np.arange(N), made().fit(X, Y).core_ids_)
    labels[outside[:5]] = "a class that no core row is of"
    model = made().fit(X, labels)
    assert model.classes_.tolist() == ["a", "b"]
    assert model.classes_.dtype == np.dtype("<U1")
    known = labels != "a class that no core row is of"
    np.testing.assert_allclose(model._noised - made().fit(X, Y)._noised, 0.1 * (f(X[known], Y[known]) - f(X, Y)))
    assert b"no core row" not in pickle.dumps(model)


@pytest.mark.parametrize("gamma", [0.2, 1.0])
def test_an_emptied_class_draws_the_private_part_anew_from_the_survivors(gamma):
    """With the number of functions the noise changes size: keeping the old sum would give the class away."""
    labels = make_classes(3)
    model = made(private_share=gamma).fit(X, labels)
    before, scale = model._noised.copy(), model.noise_scale_
    report = model.forget(ids=np.flatnonzero(labels == 2))
    left = model.core_ids_
    assert report.rows_retrained == len(left)
    assert model.noise_scale_ == pytest.approx(scale / 3)
    assert model._noised.shape == (1, 4)
    again = made(private_share=gamma).fit(X[left], labels[left], ids=left)
    assert pickle.dumps(model) == pickle.dumps(again)
    assert not any(np.allclose(model._noised[0], line) for line in before)
    model.forget(ids=np.flatnonzero(labels == 1))
    assert model._noised.shape == (0, 4)
    assert model.noise_scale_ == 0.0
    assert set(model.predict(X)) == {0}
    assert (model.predict_proba(X) == 1.0).all()
    model.forget(ids=range(N))
    assert model.n_core_ == 0
    with pytest.raises(NoRowsError):
        model.predict(X)


def test_rows_outside_the_ball_are_refused_in_the_core_or_not():
    rows = 0.1 * X / np.linalg.norm(X, axis=1, keepdims=True)
    core = made(scaling=None).fit(rows, Y).core_ids_
    for gamma in (0.0, 0.5):
        for at in (core[0], np.setdiff1d(np.arange(N), core)[0]):
            spoilt = rows.copy()
            spoilt[at] = SECRET
            with pytest.raises(InputError, match="1 of 240 rows") as caught:
                made(private_share=gamma, scaling=None).fit(spoilt, Y)
            assert_no_traces(str(caught.value))


# -- the guarantee -----------------------------------------------------------------------------------------------------


def test_the_guarantee():
    for model in (made(epsilon=0.7), made(epsilon=0.7).fit(X, Y)):
        assert (model.guarantee.epsilon, model.guarantee.delta) == (0.7, 0.0)
        assert "epsilon-system-aware unlearning (Definition 2.3) with S' = C(S)" in str(model.guarantee)
        assert any("random_state" in assumption for assumption in model.guarantee.assumptions)
    fitted = made(epsilon=0.7).fit(X, Y).set_params(epsilon=99.0)
    assert fitted.guarantee.epsilon == 0.7


@settings(max_examples=300)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 3), st.floats(-4.0, 3.0), st.booleans(), st.booleans())
def test_f_stays_in_the_ball_of_the_bound(seed, n, d, log_alpha, intercept, extreme):
    """``|f| <= 1 / alpha`` is what the noise is for; the logistic loss even stays within half of it."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) if not extreme else np.tile(rng.standard_normal(d), (n, 1))
    labels = rng.integers(2, size=n)
    labels[0], labels[-1] = 0, 1
    alpha = 10.0**log_alpha
    norm = np.linalg.norm(f(rows, labels, alpha=alpha, fit_intercept=intercept), axis=1)
    assert (norm <= 0.5 / alpha * (1 + 1e-9)).all()


def test_weights_beyond_the_bound_are_cut_off(monkeypatch):
    """Should training go wrong, the noise still covers what comes out."""
    monkeypatch.setattr(interpolated, "minimise", lambda rows, signs, ridge: (np.full(rows.n_columns, 1e9), 0.0))
    norm = np.linalg.norm(f(X, Y, alpha=0.5), axis=1)
    np.testing.assert_allclose(norm, 2.0)


# -- the noise ---------------------------------------------------------------------------------------------------------

DRAWS = 4000


def draws(d, scale, n=DRAWS, seed=0):
    uniforms = interpolated._uniforms(seed)
    return np.array([noise(d, scale, uniforms) for _ in range(n)])


@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_the_norm_of_the_noise_is_gamma_distributed(d):
    norms = np.linalg.norm(draws(d, 3.0), axis=1)
    assert stats.kstest(norms, stats.gamma(d, scale=3.0).cdf).pvalue > 1e-3
    for wrong in (stats.gamma(d, scale=6.0), stats.gamma(d, scale=1.5), stats.gamma(d + 1, scale=3.0)):
        assert stats.kstest(norms, wrong.cdf).pvalue < 1e-6


@pytest.mark.parametrize("d", [2, 3, 7])
def test_the_direction_of_the_noise_is_uniform_and_independent_of_the_norm(d):
    b = draws(d, 3.0)
    norms = np.linalg.norm(b, axis=1)
    directions = b / norms[:, None]
    rng = np.random.default_rng(1)
    for along in (*np.eye(d), *rng.standard_normal((3, d))):
        cosine = directions @ along / np.linalg.norm(along)
        law = stats.beta((d - 1) / 2, (d - 1) / 2)  # of (1 + cosine) / 2 on the sphere
        assert stats.kstest((1 + cosine) / 2, law.cdf).pvalue > 1e-3
        assert abs(stats.spearmanr(cosine, norms).statistic) < 0.06
    assert np.linalg.norm(directions.mean(axis=0)) < 4 / math.sqrt(DRAWS)
    np.testing.assert_allclose(np.cov(directions.T) * d, np.eye(d), atol=0.1)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_fitted_model_has_noise_of_that_law(monkeypatch, classes, intercept):
    """Over many fits the noised sum, less gamma f(S), is drawn from Gamma(d, 2 gamma k / (epsilon alpha))."""
    rows, labels = X[:30], (Y if classes == 2 else make_classes(3))[:30]
    parameters = {"private_share": 0.3, "epsilon": 1.5, "alpha": 0.2, "fit_intercept": intercept}
    right = f(rows, labels, alpha=0.2, fit_intercept=intercept)
    monkeypatch.setattr(interpolated, "_trained", lambda *_: right.copy())
    fits = [made(RandomSubsample(1.0), **parameters | {"random_state": s}).fit(rows, labels) for s in range(400)]
    b = np.array([model._noised - 0.3 * right for model in fits])
    k, d = (1 if classes == 2 else 3), 3 + intercept
    assert b.shape == (400, k, d)
    law = stats.gamma(d, scale=2 * 0.3 * k / (1.5 * 0.2))
    for norms in np.linalg.norm(b, axis=2).T:
        assert stats.kstest(norms, law.cdf).pvalue > 1e-3
        for factor in (0.5, 2.0):
            assert stats.kstest(factor * norms, law.cdf).pvalue < 1e-6
    if k > 1:
        assert abs(stats.spearmanr(np.linalg.norm(b, axis=2)).statistic - np.eye(k)).max() < 0.2


@functools.cache
def laplace(n, seed):
    return draws(1, 1.0, n, seed)[:, 0]


def log_ratio(epsilon, alpha, gamma, seed, factor=1.0, n=16_000):
    """Of noised sums from two situations as far apart as can be: the largest log ratio of probabilities of an event.

    In one dimension, with f at 1/alpha and at -1/alpha. The law is Laplace's, and the events beyond either of the two
    points are where the ratio is largest, exp(epsilon) exactly.
    """
    plan = interpolated._Plan(gamma, epsilon, alpha, seed)
    b = factor * plan.scale(1) * laplace(n, seed)
    one, other = gamma / alpha + b[::2], -gamma / alpha + b[1::2]
    counts = [[np.count_nonzero(s * side > gamma / alpha) for side in (one, other)] for s in (1, -1)]
    return max(abs(math.log((p + 1) / (q + 1))) for p, q in counts), min(map(min, counts))


@pytest.mark.parametrize(("epsilon", "alpha", "gamma"), [(0.8, 0.1, 0.2), (1.5, 3.0, 1.0), (3.0, 0.02, 0.01)])
def test_epsilon_is_what_an_observer_can_tell_and_no_less(epsilon, alpha, gamma):
    found, least = log_ratio(epsilon, alpha, gamma, seed=3)
    doubt = 4 / math.sqrt(least)
    assert abs(found - epsilon) < doubt < 0.4 * epsilon
    for factor in (0.5, 2.0):  # half the noise tells too much, and twice the noise is more than was asked for
        wrong, least = log_ratio(epsilon, alpha, gamma, seed=3, factor=factor)
        assert abs(wrong - epsilon) > 0.4 * epsilon
        assert (wrong > epsilon) == (factor < 1)


def test_the_ratio_of_densities_is_at_most_epsilon_in_any_dimension():
    """The log density is minus the norm over the scale, so its difference is at most the distance over the scale."""
    rng = np.random.default_rng(0)
    for d in (1, 3, 10):
        plan = interpolated._Plan(0.4, 1.7, 0.3, None)
        along = rng.standard_normal(d)
        far = 0.4 / 0.3 * along / np.linalg.norm(along)
        at = np.vstack([rng.standard_normal((2000, d)) * 10.0, 5 * far, -5 * far])
        log = (np.linalg.norm(at + far, axis=1) - np.linalg.norm(at - far, axis=1)) / plan.scale(1)
        assert np.abs(log).max() <= 1.7 * (1 + 1e-12)
        assert np.abs(log).max() == pytest.approx(1.7)


def test_noise_comes_from_the_operating_system_unless_a_number_is_given(monkeypatch):
    one, other = made(random_state=None).fit(X, Y), made(random_state=None).fit(X, Y)
    assert (one._noised != other._noised).all()
    assert (made(random_state=7).fit(X, Y)._noised == made(random_state=7).fit(X, Y)._noised).all()
    np.random.seed(0)  # noqa: NPY002  the global generator plays no part
    third = made(random_state=None).fit(X, Y)
    np.random.seed(0)  # noqa: NPY002
    assert (third._noised != made(random_state=None).fit(X, Y)._noised).all()
    asked = []
    monkeypatch.setattr(interpolated.secrets, "token_bytes", lambda n: asked.append(n) or bytes(range(n)))
    made(random_state=None).fit(X, Y)
    assert asked == [32, 32]
    asked.clear()
    made(random_state=None, private_share=0.0).fit(X, Y)
    made(random_state=0).fit(X, Y)
    assert asked == []


def test_uniform_numbers_are_never_zero_or_one(monkeypatch):
    for byte in (0, 255):
        monkeypatch.setattr(interpolated.secrets, "token_bytes", lambda n, byte=byte: bytes([byte]) * n)
        u = interpolated._uniforms(None)(5)
        assert ((u > 0.0) & (u < 1.0)).all()
        assert np.isfinite(noise(5, 1.0, interpolated._uniforms(None))).all()
    u = interpolated._uniforms(3)(20_000)
    assert stats.kstest(u, "uniform").pvalue > 1e-3


def test_refitting_draws_anew_and_forgets_the_old():
    model = made(random_state=None).fit(X, Y)
    old, core = model._noised, model._core.rows
    model.fit(X, Y)
    assert not old.any()
    assert not core.any()
    weights = model._weights
    model.forget(ids=model.core_ids_[:3])
    assert not weights.any()
