"""Bounds for Algorithm 1, held against runs of it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from erasable.errors import ConfigurationError, InputError
from erasable.research.theory.deletions import encounters
from erasable.research.theory.linear import (
    Bound,
    capacity,
    compression_risk,
    confidence_radius,
    core_set_size,
    excess_risk,
    leverage_after_deletions,
    minimising_epsilon,
    own_leverage,
    printed_capacity,
    printed_excess_risk,
    printed_leverage_after_deletions,
    printed_score_shift,
    regret,
    score_shift,
    threshold,
)

Array = np.ndarray[Any, np.dtype[np.float64]]


def ball(rng: np.random.Generator, T: int, d: int, spread: float = 1.0) -> Array:
    """Rows in the unit ball; a spread above one makes directions uneven."""
    X = rng.standard_normal((T, d)) * spread ** -np.arange(d)
    return X / np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(0.2, 1.0, (T, 1)) ** (1 / d)


def labels(rng: np.random.Generator, X: Array, u: Array) -> Array:
    return np.where(rng.uniform(size=len(X)) < (1 + X @ u) / 2, 1.0, -1.0)


def kept(X: Array, lam: float, tau: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return encounters(X, lam=lam, tau=tau, orders=[np.arange(len(X))]).frequency > 0


def gram(X: Array, lam: float) -> Array:
    return lam * np.eye(X.shape[1]) + X.T @ X


def ridge(X: Array, y: Array, lam: float) -> Array:
    return np.linalg.solve(gram(X, lam), X.T @ y)


def forms(X: Array, A: Array) -> Array:
    return np.einsum("ij,ij->i", X, np.linalg.solve(A, X.T).T)


# -- the core set ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "lam", "kappa"), [*itertools.product([1, 3, 8], [0.05, 1.0, 4.0], [0.3, 0.6])])
def test_the_core_set_is_never_larger_than_its_bound(d: int, lam: float, kappa: float) -> None:
    tau = threshold(400, kappa)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = ball(rng, 400, d, spread=1.0 + seed / 2)
        X = X[np.argsort(np.linalg.norm(X, axis=1))] if seed % 2 else X  # short rows first keep more
        assert np.count_nonzero(kept(X, lam, tau)) <= core_set_size(400, d, lam=lam, tau=tau).value


def test_rows_made_to_be_kept_come_close_to_the_bound() -> None:
    tau, lam, a = 0.02, 0.01, 0.01
    rows = []
    while a * tau < 1.0 and len(rows) < 5000:  # each just above the threshold
        x2 = min(1.0, 1.0001 * tau * a)
        rows.append([math.sqrt(x2)])
        a += x2
    n = int(np.count_nonzero(kept(np.array(rows), lam, tau)))
    assert 0.5 < n / core_set_size(10**6, 1, lam=lam, tau=tau).value <= 1.0


@pytest.mark.parametrize(("d", "lam", "tau"), [(3, 1.0, 0.01), (50, 0.1, 1e-4), (1, 20.0, 0.04)])
def test_the_bound_is_the_largest_number_that_satisfies_its_inequality(d: int, lam: float, tau: float) -> None:
    def satisfied(n: float) -> bool:
        return n * math.log1p(tau) <= d * math.log1p(n / (lam * d))

    n = core_set_size(10**9, d, lam=lam, tau=tau).value
    assert satisfied(n)
    assert not satisfied(n + 1)


def test_a_threshold_of_almost_nothing_bounds_nothing() -> None:
    assert core_set_size(100, 5, lam=1e-200, tau=1e-200).vacuous


def test_nothing_is_kept_when_no_leverage_can_pass_the_threshold() -> None:
    assert core_set_size(100, 5, lam=4.0, tau=0.25).value == 0.0
    assert core_set_size(100, 5, lam=4.0, tau=0.2499).value >= 0.0


def test_the_printed_order_needs_a_regulariser_of_one_or_more() -> None:
    X = np.eye(2)
    assert np.count_nonzero(kept(X, 0.1, threshold(2, 0.01))) == 2
    assert 2 * 2**0.01 * math.log(2) < 2  # d T**kappa log T


# -- stability ---------------------------------------------------------------------------------------------------


def test_the_confidence_radius_covers_at_all_times_at_its_rate() -> None:
    d, T, lam, delta, tau = 3, 150, 2.0, 0.2, 150**-0.6
    missed = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X, u = ball(rng, T, d), ball(rng, 1, d)[0]
        mask = kept(X, lam, tau)
        X, y = X[mask], labels(rng, X[mask], u)
        A, b = lam * np.eye(d), np.zeros(d)
        worst = 0.0
        for n, (x, label) in enumerate(zip(X, y, strict=True), start=1):
            A, b = A + np.outer(x, x), b + label * x
            e = np.linalg.solve(A, b) - u
            worst = max(worst, math.sqrt(e @ A @ e) / confidence_radius(n, d, lam=lam, delta=delta).value)
        missed += worst > 1.0
    assert missed <= 0.2 * 150


def test_the_confidence_radius_needs_the_root_of_the_regulariser() -> None:
    # One row kept of T = 10**4, lam = K = 100: w is near 0, u is not. Proposition G.1 as printed has no term for it.
    w, u, lam = 1.0 / 101.0, 0.5, 100.0
    distance = (u - w) * math.sqrt(lam + 1.0)
    assert math.sqrt(math.log(10**4) * math.log(1 / 0.1)) < distance
    assert distance <= confidence_radius(1, 1, lam=lam, delta=0.1).value


def test_a_row_of_the_set_has_at_most_its_own_leverage_bound() -> None:
    for seed, lam in itertools.product(range(10), (0.1, 1.0, 7.0)):
        X = ball(np.random.default_rng(seed), 12, 4)
        assert forms(X, gram(X, lam)).max() <= own_leverage(lam).value
    assert forms(np.eye(1), gram(np.eye(1), 3.0))[0] == pytest.approx(own_leverage(3.0).value)


@pytest.mark.parametrize("lam", [0.5, 3.0, 10.0])
@pytest.mark.parametrize("K", [1, 3, 10])
def test_leverage_grows_no_more_than_promised(K: int, lam: float) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, Z = ball(rng, 30, 4, spread=1.5), ball(rng, 20, 4)
        before, after = forms(Z, gram(X, lam)), forms(Z, gram(X[K:], lam))
        for a, b in zip(before, after, strict=True):
            sharp, printed = leverage_after_deletions(a, K, lam=lam), printed_leverage_after_deletions(a, K, lam=lam)
            assert b <= sharp.value * (1 + 1e-12)
            assert sharp.value <= printed.value * (1 + 1e-12)


def test_the_growth_bound_is_attained_by_copies_of_one_row() -> None:
    K, lam = 5, 5.0
    before = forms(np.eye(1), gram(np.ones((K, 1)), lam))[0]
    assert 1 / lam == pytest.approx(leverage_after_deletions(before, K, lam=lam).value)
    assert leverage_after_deletions(0.01, 10, lam=10.0).value == pytest.approx(0.02)
    assert printed_leverage_after_deletions(0.01, 10, lam=10.0).value <= 0.01 * math.e  # Corollary D.4


@pytest.mark.parametrize(("d", "K"), [(2, 1), (2, 8), (5, 4)])
def test_scores_of_rows_not_kept_shift_no_more_than_promised(d: int, K: int) -> None:
    T, delta = 500, 0.1
    tau, lam = threshold(T, 0.7), float(K)
    promised = score_shift(K, T=T, d=d, lam=lam, tau=tau, delta=delta).value
    printed = printed_score_shift(K, T=T, d=d, tau=tau, delta=delta).value
    assert promised < printed
    worst = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, u = ball(rng, T, d, spread=2.0), ball(rng, 1, d)[0]
        y, mask = labels(rng, X, u), kept(X, lam, tau)
        Q, q, w = X[mask], y[mask], ridge(X[mask], y[mask], lam)
        # Chosen by looking at labels: the rows whose residuals pull hardest one way along the weakest direction.
        weak = np.linalg.eigh(gram(Q, lam))[1][:, 0]
        gone = np.argsort((q - Q @ w) * (Q @ weak))[-K:]
        after = ridge(np.delete(Q, gone, axis=0), np.delete(q, gone), lam)
        worst.append(np.abs(X[~mask] @ (after - w)).max())
    assert np.count_nonzero(np.array(worst) > promised) <= delta * len(worst)
    assert np.count_nonzero(np.array(worst) > printed) <= delta * len(worst)


@pytest.mark.parametrize("K", [1, 8, 100])
def test_copies_of_one_row_shift_scores_by_a_fair_part_of_the_promise(K: int) -> None:
    # K rows e1, all labelled +1, are all of the core set; x = b e1 has leverage tau. Its score b / 2 goes to 0.
    T, tau = 10**4, 1e-3
    b = math.sqrt(2 * K * tau)
    shift = b * K / (2 * K)
    promised = score_shift(K, T=T, d=1, lam=float(K), tau=tau, delta=0.1).value
    assert promised / 11 < shift <= promised


def test_the_printed_shift_and_capacity_follow_from_the_explicit_ones() -> None:
    for d, T, kappa, delta in itertools.product([2, 10, 100], [10**3, 10**6, 10**12], [0.3, 0.6, 0.9], [0.1, 1e-4]):
        tau = threshold(T, kappa)
        for K in (1, 5, 50):
            explicit = score_shift(K, T=T, d=d, lam=float(K), tau=tau, delta=delta).value
            assert explicit <= printed_score_shift(K, T=T, d=d, tau=tau, delta=delta).value
        printed = printed_capacity(1.0, T=T, d=d, tau=tau, delta=delta)
        if not printed.vacuous:
            assert capacity(1.0, T=T, d=d, tau=tau, delta=delta).value >= math.floor(printed.value)


def test_within_the_capacity_signs_stay_right_on_rows_not_kept() -> None:
    T, d, delta, epsilon = 4000, 1, 0.1, 0.9
    tau = threshold(T, 0.85)
    bound = capacity(epsilon, T=T, d=d, tau=tau, delta=delta)
    K = int(bound.value)
    assert K >= 3
    assert not bound.vacuous
    wrong = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = np.ones((T, 1)) * rng.choice([1.0, -1.0, 0.95], size=(T, 1))
        u = np.array([0.96])
        y, mask = labels(rng, X, u), kept(X, float(K), tau)
        Q, q = X[mask], y[mask]
        gone = np.argsort(-(q * Q[:, 0]))[:K]  # rows that speak for u
        after = ridge(np.delete(Q, gone, axis=0), np.delete(q, gone), float(K))
        rest = X[~mask]
        rest = rest[np.abs(rest @ u) > epsilon]
        wrong += bool((np.sign(rest @ after) != np.sign(rest @ u)).any())
    assert wrong <= delta * 40


def test_the_capacity_is_the_largest_number_its_condition_allows_and_tops_the_printed_one() -> None:
    tau = threshold(10**12, 0.5)
    explicit = capacity(0.5, T=10**12, d=10, tau=tau, delta=0.05).value
    printed = printed_capacity(0.5, T=10**12, d=10, tau=tau, delta=0.05).value
    assert explicit > 100 * printed > 100
    limit = 0.25 / tau / (1 + 3 * math.sqrt(2)) ** 2
    assert explicit <= limit
    big = 10**40
    tau = threshold(big, 0.5)
    limit = 0.25 / tau / (1 + 3 * math.sqrt(2)) ** 2
    assert capacity(0.5, T=big, d=10, tau=tau, delta=0.05).value == pytest.approx(limit, rel=1e-3)


def test_capacities_of_everyday_sizes_say_nothing() -> None:
    tau = threshold(10**5, 0.5)
    assert capacity(0.5, T=10**5, d=20, tau=tau, delta=0.05).vacuous
    assert printed_capacity(0.5, T=10**5, d=20, tau=tau, delta=0.05).vacuous


# -- risk --------------------------------------------------------------------------------------------------------


def test_the_excess_risk_is_within_its_bound_after_deletions() -> None:
    T, K, delta, lam = 6000, 3, 0.1, 3.0
    tau = threshold(T, 0.35)
    broken, values = 0, []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        support, u = ball(rng, 60, 2), ball(rng, 1, 2)[0]
        X = support[rng.integers(60, size=T)]
        y, mask = labels(rng, X, u), kept(X, lam, tau)
        gone = rng.choice(np.flatnonzero(mask), K, replace=False)
        left = mask.copy()
        left[gone] = False
        w = ridge(X[left], y[left], lam)
        wrong = np.sign(X @ w) != np.sign(X @ u)
        # The smallest epsilon for which the premise is true; the bound holds for all at once.
        epsilon = float(np.abs(X @ u)[wrong & ~mask].max(initial=0.0))
        T_eps = int(np.count_nonzero(np.abs(X @ u) <= epsilon))
        bound = excess_risk(T, int(mask.sum()), T_eps, epsilon=epsilon, delta=delta)
        scores = support @ u
        risk = np.mean(np.abs(scores) * (np.sign(support @ w) != np.sign(scores)))
        broken += risk > bound.value
        values.append(bound.value)
        assert not bound.vacuous
    assert broken <= delta * 30
    assert np.median(values) < 0.2


def test_the_printed_excess_risk_fails_with_rows_near_the_boundary() -> None:
    # x is e1 or e2, u = (0.9, a): the kept e2 rows are the first n met, and w_2 has the sign of their label sum.
    T, kappa, lam, delta = 10**6, 0.2, 1, 0.1
    n = math.ceil(T**kappa - lam)
    a = 1 / math.sqrt(n)
    wrong = binom.cdf((n - 1) // 2, n, (1 + a) / 2)
    assert wrong > delta
    excess = a / 2
    assert excess > 50 * printed_excess_risk(T, 2 * n, T // 2, delta=delta).value
    assert excess <= excess_risk(T, 2 * n, T // 2, epsilon=a, delta=delta).value


def test_the_printed_excess_risk_fails_with_every_premise_of_the_theorem_met() -> None:
    log_t, kappa, delta, d = 200.0, 0.36, 0.1, 2
    T = int(math.exp(log_t))
    tau, a = threshold(T, kappa), math.exp(-kappa * log_t / 2)
    # Minimiser of epsilon T / 2 + epsilon**(-2 / kappa), the regret bound with constants one; e2 rows are within it.
    epsilon = (4 / kappa / T) ** (kappa / (2 + kappa))
    assert a < epsilon < 0.9
    assert math.sqrt(tau * d * log_t * math.log(1 / delta)) <= epsilon / 2
    assert printed_capacity(epsilon, T=T, d=d, tau=tau, delta=delta).value >= 1
    n = int(1 / tau)
    assert norm.cdf(-a * math.sqrt(n)) > delta
    assert a / 2 > 1e30 * printed_excess_risk(T, 2 * n, T // 2, delta=delta).value


@pytest.mark.parametrize(("T", "N"), [(10**4, 10), (10**6, 100), (10**8, 3000)])
def test_the_printed_order_of_the_risk_stands_where_few_rows_are_near_the_boundary(T: int, N: int) -> None:
    # At most N + K errors among the rows that are not survivors, for each of the choices of N - K survivors.
    for K in (0, N // 2):
        p = 2 * printed_excess_risk(T, N, N, delta=0.1).value
        wrong = binom.logcdf(N + K, T - N + K, p)
        assert (N - K + 1) * math.log(T) + wrong <= math.log(0.1)


def test_compression_risk_is_infinite_when_no_rows_are_left_and_grows_with_the_core_set() -> None:
    assert compression_risk(10, 10, 0.1) == math.inf
    assert excess_risk(10, 10, 0, epsilon=0.1, delta=0.1).vacuous
    assert printed_excess_risk(10, 5, 5, delta=0.1).vacuous
    values = [compression_risk(1000, n, 0.1) for n in range(0, 500, 50)]
    assert values == sorted(values)
    assert compression_risk(10**9 + 1, 1000, 0.1) == pytest.approx(compression_risk(10**9, 1000, 0.1), rel=0.01)


# -- regret ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("kind", ["spread", "near", "few", "zeros"])
def test_the_minimising_epsilon_beats_a_fine_grid(kappa: float, kind: str) -> None:
    rng = np.random.default_rng(1)
    scores = {
        "spread": rng.uniform(-1, 1, 3000),
        "near": rng.uniform(-1, 1, 3000) ** 5,
        "few": np.array([0.2, -0.7, 0.70001, 1.0]),
        "zeros": np.zeros(100_000),
    }[kind]
    found = minimising_epsilon(scores, d=2, lam=1.0, kappa=kappa, delta=0.1)
    T = len(scores)
    N = core_set_size(T, 2, lam=1.0, tau=threshold(T, kappa)).value
    c1 = 4 * (0.5 + 4 * math.log1p(N / 2) + 144 * math.log(T / 0.1))
    c2 = (2 + math.e) * math.factorial(math.ceil(1 / kappa)) * 8 ** (1 / kappa)
    near = np.sort(np.abs(scores))

    def value(epsilon: Array) -> Array:
        return epsilon * np.searchsorted(near, epsilon, side="right") + c1 / epsilon + c2 * epsilon ** (-2 / kappa)

    assert found.regret.value <= value(np.geomspace(1e-4, 1.0, 20_001)).min() * (1 + 1e-9)
    assert found.regret.value == pytest.approx(value(np.array([found.epsilon]))[0])
    assert found.T_eps == np.count_nonzero(np.abs(scores) <= found.epsilon)


def test_the_regret_of_a_run_is_within_its_bound() -> None:
    T, d, lam, kappa = 400, 2, 1.0, 0.6
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, u = ball(rng, T, d), ball(rng, 1, d)[0]
        y, mask = labels(rng, X, u), kept(X, lam, threshold(T, kappa))
        A, b, total = lam * np.eye(d), np.zeros(d), 0.0
        for x, label, keep in zip(X, y, mask, strict=True):
            total += abs(u @ x) * (np.sign(np.linalg.solve(A, b) @ x) != np.sign(u @ x))
            if keep:
                A, b = A + np.outer(x, x), b + label * x
        bound = regret(X @ u, d=d, lam=lam, kappa=kappa, delta=0.1)
        assert total <= bound.value
        assert bound.vacuous  # 144 log(T / delta) alone is more than T here


# -- what is refused, and what a bound says -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: threshold(-5, 0.5),
        lambda: threshold(0, 0.5),
        lambda: threshold(10, 1.5),
        lambda: threshold(10, -0.1),
        lambda: threshold(10, math.nan),
        lambda: threshold(True, 0.5),
        lambda: threshold(10, "half"),
        lambda: core_set_size(10.5, 2, lam=1.0, tau=0.1),
        lambda: core_set_size(10, 0, lam=1.0, tau=0.1),
        lambda: core_set_size(10, 2, lam=0.0, tau=0.1),
        lambda: core_set_size(10, 2, lam=math.inf, tau=0.1),
        lambda: core_set_size(10, 2, lam=1.0, tau=-0.1),
        lambda: confidence_radius(10, 2, lam=1.0, delta=0.0),
        lambda: confidence_radius(10, 2, lam=1.0, delta=1.0),
        lambda: own_leverage(-1.0),
        lambda: leverage_after_deletions(0.1, -1, lam=1.0),
        lambda: printed_leverage_after_deletions(-0.1, 1, lam=1.0),
        lambda: score_shift(-1, T=10, d=2, lam=1.0, tau=0.1, delta=0.1),
        lambda: printed_score_shift(1, T=10, d=2, tau=0.1, delta=2.0),
        lambda: capacity(1.5, T=10, d=2, tau=0.1, delta=0.1),
        lambda: printed_capacity(0.5, T=1, d=2, tau=0.1, delta=0.1),
        lambda: excess_risk(10, 2, -1, epsilon=0.1, delta=0.1),
        lambda: printed_excess_risk(-10, 2, 1, delta=0.1),
        lambda: minimising_epsilon([0.1], d=2, lam=1.0, kappa=1.0, delta=0.1),
        lambda: core_set_size(10, 2, lam=10**400, tau=0.1),
        lambda: core_set_size(10**400, 2, lam=1.0, tau=0.1),
    ],
)
def test_numbers_that_cannot_be_are_refused(call: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"must (not )?be"):
        call()


@pytest.mark.parametrize("scores", [[], [[0.1]], [math.nan], ["a"], 0.5])
def test_scores_that_are_no_list_of_numbers_are_refused(scores: Any) -> None:
    with pytest.raises(InputError, match="scores must be"):
        minimising_epsilon(scores, d=2, lam=1.0, kappa=0.5, delta=0.1)


def test_a_bound_reads_as_a_number_and_as_a_sentence() -> None:
    bound = Bound(2.0, True, "Theorem 0", ("the moon is full",))
    assert float(bound) == 2.0
    assert str(bound) == "2 [Theorem 0], which says nothing for these numbers if the moon is full"
