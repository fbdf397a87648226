"""The selector selects what the literal loop in rationals selects: for any block, any chunk, any factor."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import erasable.core.deciding as deciding
from erasable.core.deciding import Factor, factor, gram_error
from erasable.core.grid import Grid, to_grid
from erasable.core.selector import GridRows, RawRows, select
from erasable.core.sums import add_rows, empty_gram, symmetric
from tests import oracle
from tests.strategies import problems

SIZES = st.sampled_from([None, 1, 2, 3, 7, 50])


def run(X, grid, units, tau, *, learnt=None, on_grid=False, **sizes):
    """The selection, and the H it leaves, starting from the rows ``learnt``."""
    H = empty_gram(grid, units)
    n = 0
    if learnt is not None:
        add_rows(H, learnt)
        n = len(learnt)
    rows = GridRows(to_grid(np.asarray(X), grid), grid) if on_grid else RawRows(X, grid)
    found = select(rows, H, n, grid=grid, units=units, tau=tau, **sizes)
    return found, H


def assert_selects_as_the_oracle(X, grid, units, tau, *, learnt=None, forced=None, **options):
    found, H = run(X, grid, units, tau, learnt=learnt, forced=forced, **options)
    G = to_grid(np.asarray(X), grid)
    exact = oracle.gram_matrix([] if learnt is None else learnt.tolist(), units, grid.n_columns)
    expected = oracle.select(G.tolist(), exact, tau, forced)
    assert found.index.tolist() == expected
    assert symmetric(H).tolist() == exact
    if expected:
        chosen = np.concatenate(found.batches)
        assert (chosen == G[expected]).all()
        assert chosen.dtype == grid.dtype
        assert not any(np.shares_memory(batch, X) for batch in found.batches)
    d = found.decisions
    assert d.screened + d.certified + d.enclosed + d.exact == len(G)
    return found


def parts(problem):
    setting, batch = problem
    grid = Grid(setting.n_features, setting.bits, setting.intercept, setting.scaling)
    return np.array(batch.X), grid, round(setting.capacity * 4**setting.bits), setting.threshold


@given(problems(), SIZES, SIZES, st.booleans())
def test_selection_is_that_of_the_literal_loop(problem, block, chunk, on_grid):
    found = assert_selects_as_the_oracle(*parts(problem), block_rows=block, chunk_rows=chunk, on_grid=on_grid)
    for level in ("screened", "enclosed", "exact"):
        if getattr(found.decisions, level):
            event(level)


@given(problems(max_rows=16), st.integers(0, 8), SIZES, SIZES)
def test_selection_goes_on_from_rows_learnt_before(problem, n, block, chunk):
    X, grid, units, tau = parts(problem)
    learnt = to_grid(X[: n % len(X)], grid)
    assert_selects_as_the_oracle(X[n % len(X) :], grid, units, tau, learnt=learnt, block_rows=block, chunk_rows=chunk)


@st.composite
def forced_problems(draw):
    """A problem, rows of it that are forced, and sometimes a threshold that nothing else is above."""
    X, grid, units, tau = parts(draw(problems(max_rows=16)))
    forced = draw(st.lists(st.booleans(), min_size=len(X), max_size=len(X)))
    return (X, grid, units, draw(st.sampled_from([tau, tau, math.inf]))), np.array(forced)


@given(forced_problems(), SIZES, SIZES, st.booleans())
def test_forced_rows_are_selected_in_their_turn(problem, block, chunk, on_grid):
    case, forced = problem
    assert_selects_as_the_oracle(*case, forced=forced, block_rows=block, chunk_rows=chunk, on_grid=on_grid)


@given(forced_problems(), SIZES, st.sampled_from([1e-6, 0.1, 1e6]))
def test_forced_rows_are_selected_whoever_decides(problem, chunk, eta):
    case, forced = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "gram_error", lambda *_: eta)
        assert_selects_as_the_oracle(*case, forced=forced, chunk_rows=chunk)


def test_an_infinite_threshold_needs_no_factor(monkeypatch):
    monkeypatch.setattr(deciding, "factor", None)
    X, grid = np.zeros((100, 3)), Grid(3)
    X[::2] = [1.0, -2.0, 0.5]
    forced = np.arange(100) % 10 < 2
    found = assert_selects_as_the_oracle(X, grid, 2**30, math.inf, forced=forced, block_rows=7, chunk_rows=3)
    assert len(found.index) == 20
    found = assert_selects_as_the_oracle(X, grid, 2**30, math.inf)
    assert found.batches == []


@given(problems(max_rows=14), SIZES, st.sampled_from([1e-6, 0.1, 0.49, 0.5, 3.0, 1e6]))
def test_a_larger_error_bound_changes_who_decides_and_nothing_else(problem, chunk, eta):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "gram_error", lambda *_: eta)
        found = assert_selects_as_the_oracle(*parts(problem), chunk_rows=chunk)
    if (
        eta >= 1e6 and parts(problem)[3] > 0.0
    ):  # then float64 decides nothing, except against equals of a row decided against exactly
        d = found.decisions
        assert d.enclosed + d.exact >= len(found.index) + (d.certified > 0)


@given(problems(max_rows=14), SIZES)
def test_without_any_factor_every_row_is_decided_exactly(problem, chunk):
    X, grid, units, tau = parts(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "factor", lambda *_: None)
        found = assert_selects_as_the_oracle(X, grid, units, tau, chunk_rows=chunk)
    d = found.decisions
    assert d.screened == 0
    assert tau == 0.0 or d.enclosed + d.exact >= len(found.index) + (d.certified > 0)


@given(problems(), SIZES, SIZES)
def test_without_screening_the_selection_is_the_same(problem, block, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "screen", lambda *_, **__: None)
        assert_selects_as_the_oracle(*parts(problem), block_rows=block, chunk_rows=chunk)


@given(problems(max_rows=16), SIZES)
def test_a_screen_that_is_never_renewed_selects_the_same(problem, block):
    """The screen of the first moment stays valid, because leverage only falls."""
    made = []

    def first_screen(f, grid, units, tau, *, on_grid=False):
        start = factor(empty_gram(grid, units), units)
        made.append(selector_screen(start, grid, units, tau, on_grid=on_grid))
        return made[0]

    selector_screen = deciding.screen
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "screen", first_screen)
        assert_selects_as_the_oracle(*parts(problem), block_rows=block, chunk_rows=2)


# -- factors as bad as their bound allows ------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(
    ("copies", "shift"),
    [(1, 4), (1, 8), (16, 8), (120, 10), (1000, 10), (4000, 10)],
)
def test_a_factor_as_bad_as_its_bound_allows_changes_no_decision(copies, shift, sign, monkeypatch):
    """``|v'(LL' - H)v| <= error * v'Hv`` is all that a decision may rely on, however large ``error`` is."""
    grid, units = Grid(2, 10 + shift, False, None), 1
    long = np.array([2 ** (9 + shift), 2 ** (9 + shift) - 3])
    learnt = np.tile(long, (copies, 1))
    exact = oracle.gram_matrix(learnt.tolist(), units, 2)
    errors = []

    def worst(H, units):
        f = factor(H, units)
        if f is None:
            return None
        errors.append(f.error)
        # LL' = (1 + c) H with |c| < error: well inside the bound, and the Cholesky factor's own error with it.
        return Factor(f.L * math.sqrt(max(1 + 0.9 * sign * f.error, 1e-9)), f.spread)

    monkeypatch.setattr(deciding, "factor", worst)
    asked = np.array([[1, -1], [3, -2], [40, -41], [200, -201], [2, 2]]) / 2.0**grid.bits
    leverages = [oracle.leverage(exact, grid_row) for grid_row in to_grid(asked, grid).tolist()]
    for q in leverages:
        for stretch in (0.3, 0.9, 0.999, 1.0, 1.001, 1.1, 3.0):
            tau = float(q) * stretch
            assert_selects_as_the_oracle(asked, grid, units, tau, learnt=learnt, chunk_rows=1)
            assert_selects_as_the_oracle(asked, grid, units, tau, learnt=learnt)


def test_the_error_bound_is_not_idle():
    """Perturbing B within eta can flip a decision that skips the bound: the margin is needed, not decoration."""
    f = Factor(np.asfortranarray(np.eye(3)), 3.0)
    assert 0 < gram_error(f, 1.0, 4) < 1e-12
    assert gram_error(Factor(f.L, 1e12), 1.0, 4) > 1e-4
    assert gram_error(f, 1e12, 4) > 1e-4
    assert gram_error(f, 1.0, 10**6) > gram_error(f, 1.0, 4)


# -- pivots ------------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 4).flatmap(
        lambda d: st.lists(st.lists(st.integers(-6, 6), min_size=d, max_size=d), min_size=1, max_size=7)
    ),
    st.data(),
)
def test_pivots_are_one_plus_the_leverage_after_the_taken_rows_before(rows, data):
    m, d = len(rows), len(rows[0])
    K = np.array(rows) @ np.array(rows).T / 16.0
    B = np.asfortranarray(np.tril(K + np.eye(m)))
    B[np.triu_indices(m, 1)] = np.nan
    taken = np.array(sorted(data.draw(st.sets(st.integers(0, m - 1)))), dtype=np.intp)
    asked = np.array(sorted(data.draw(st.sets(st.integers(0, m - 1), min_size=1))), dtype=np.intp)
    if len(taken) == m:
        taken = np.arange(m)
    pivots, C = deciding.pivots_of(B, taken, asked)
    assert np.allclose(C @ C.T, (K + np.eye(m))[np.ix_(taken, taken)], rtol=1e-12, atol=1e-12)
    for p, i in zip(pivots, asked.tolist(), strict=True):
        H = oracle.gram_matrix([rows[j] for j in taken.tolist() if j < i], 16, d)
        assert p == pytest.approx(float(1 + oracle.leverage(H, rows[i])), rel=1e-12)


# -- paths -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stream():
    """Rows in 6 correlated dimensions, few of which are worth keeping; and what the literal loop keeps."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((700, 6)) * [1.0, 0.7, 0.5, 0.3, 0.2, 0.1]
    X[100:110] = X[0]
    X[200:205] = 0.0
    grid, units, tau = Grid(6, 15, True), 2**30, 0.07
    inverse = oracle.GrowingInverse(7, units)
    expected = [i for i, g in enumerate(to_grid(X, grid).tolist()) if inverse.take_if_above(g, tau)]
    assert 50 < len(expected) < 350
    return X, grid, units, tau, expected


@pytest.mark.parametrize("block", [1, 2, 5, 64, 699, 700, 10**6, None])
@pytest.mark.parametrize("chunk", [1, 2, 13, 96, 700, None])
def test_block_and_chunk_change_nothing(stream, block, chunk):
    X, grid, units, tau, expected = stream
    for on_grid in (False, True):
        found, _ = run(X, grid, units, tau, block_rows=block, chunk_rows=chunk, on_grid=on_grid)
        assert found.index.tolist() == expected


def test_every_level_of_certainty_is_reached(stream):
    X, grid, units, tau, _ = stream
    found, _ = run(X, grid, units, tau, block_rows=50, chunk_rows=20)
    d = found.decisions
    assert d.screened > 100
    assert d.certified > 100
    assert d.screened + d.certified + d.enclosed + d.exact == len(X)
    tied, _ = run(np.array([[0.5, 0.0]] * 3), Grid(2, 15, False, None), 2**30, 0.25)
    assert tied.index.tolist() == []
    assert (tied.decisions.enclosed, tied.decisions.certified, tied.decisions.exact) == (1, 2, 0)  # two are copies


def test_containers_select_the_same(stream):
    X, grid, units, tau, expected = stream
    for variant in (np.asfortranarray(X), csr_array(X), X.copy()[::-1][::-1]):
        found, _ = run(variant, grid, units, tau, block_rows=33, chunk_rows=10)
        assert found.index.tolist() == expected


def test_progress_is_told_and_ends_at_the_end(stream):
    X, grid, units, tau, _ = stream
    seen = []
    run(X, grid, units, tau, block_rows=64, progress=lambda done, total: seen.append((done, total)))
    done = [a for a, _ in seen]
    assert done == sorted(set(done))
    assert seen[-1] == (700, 700)


def test_no_rows_select_nothing():
    grid = Grid(2)
    found, H = run(np.empty((0, 2)), grid, 5, 0.1)
    assert (found.index.tolist(), found.batches) == ([], [])
    assert (symmetric(H) == 5 * np.eye(3)).all()


@pytest.mark.parametrize("bits", [15, 20])
def test_a_capacity_so_small_that_float64_cannot_factor(bits):
    """lambda is one squared grid step: leverages from 1e9 down to 1e-4, condition numbers up to 1e13."""
    rng = np.random.default_rng(bits)
    grid = Grid(3, bits, False)
    X = np.concatenate(
        [
            np.tile([1.0, 2.0, 3.0], (6, 1)),
            rng.standard_normal((4, 3)),
            np.array([[1.0, 2.0, 3.0 + 1e-6 * k] for k in range(-5, 5)]),
            np.tile([1.0, 2.0, 3.0], (3, 1)),
        ]
    )
    for tau in (0.0, 1e-4, 0.1, 0.2, 0.9, 5.0):
        for chunk in (1, 4, None):
            assert_selects_as_the_oracle(X, grid, 1, tau, chunk_rows=chunk)


def test_ties_in_a_row():
    """Copies of one row with |v|^2 = V: the leverage of copy k is V / (units + k V), here a float for k = 3."""
    grid = Grid(4, 15, False, None)
    v = np.array([[2**10, -(2**10), 2**10, 2**10]]) / 2.0**15
    units = 2**24 - 3 * 2**22
    tau = 2.0**-2
    assert Fraction(2**22, units + 3 * 2**22) == Fraction(tau)
    for chunk in (1, 2, 3, 4, 5, None):
        found = assert_selects_as_the_oracle(np.tile(v, (9, 1)), grid, units, tau, chunk_rows=chunk)
        assert found.index.tolist() == [0, 1, 2]
        lower, _ = run(np.tile(v, (9, 1)), grid, units, math.nextafter(tau, 0.0), chunk_rows=chunk)
        assert lower.index.tolist() == [0, 1, 2, 3]
