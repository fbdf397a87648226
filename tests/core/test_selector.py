"""The selector selects what the literal loop in rationals selects: dense or sparse, any block, chunk and factor."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import event, given
from hypothesis import strategies as st

import erasable.core.deciding as deciding
import erasable.core.sparse_deciding as sparse_deciding
from erasable.core.arrays import stacked
from erasable.core.deciding import Factor, factor, gram_error
from erasable.core.grid import Grid, dense_rows, sparse_rows, to_grid
from erasable.core.selector import GridRows, RawRows, select
from erasable.core.sums import add_rows, empty_gram, symmetric
from tests import oracle
from tests.core.test_grid_sparse import as_sparse, assert_sparse_grid_rows
from tests.strategies import problems

SIZES = st.sampled_from([None, 1, 2, 3, 7, 50])
both = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])


def run(X, grid, units, tau, *, learnt=None, on_grid=False, **sizes):
    """The selection from dense or sparse rows, and the H it leaves, starting from the dense rows ``learnt``."""
    H, n = empty_gram(grid, units), 0
    if learnt is not None:
        add_rows(H, sparse_rows(learnt, grid) if sp.issparse(X) else learnt, 1.0, grid)
        n = len(learnt)
    rows = GridRows(to_grid(X, grid), grid) if on_grid else RawRows(X, grid)
    assert rows.sparse is sp.issparse(X)
    return select(rows, H, n, grid=grid, units=units, tau=tau, **sizes), H


def assert_selects_as_the_oracle(X, grid, units, tau, *, learnt=None, forced=None, **options):
    found, H = run(X, grid, units, tau, learnt=learnt, forced=forced, **options)
    G = to_grid(X.toarray() if sp.issparse(X) else X, grid)
    exact = oracle.gram_matrix([] if learnt is None else learnt.tolist(), units, grid.n_columns)
    expected = oracle.select(G.tolist(), exact, tau, forced)
    assert found.index.tolist() == expected
    assert symmetric(H).tolist() == exact
    if expected:
        chosen = stacked(found.batches)
        if sp.issparse(X):
            assert_sparse_grid_rows(chosen, grid)
            chosen = dense_rows(chosen, grid)
        else:
            assert chosen.dtype == grid.dtype
            assert not any(np.shares_memory(batch, X) for batch in found.batches)
        assert (chosen == G[expected]).all()
    d = found.decisions
    assert d.screened + d.certified + d.enclosed + d.exact == len(G)
    return found


def parts(problem):
    setting, batch = problem
    grid = Grid(setting.n_features, setting.bits, setting.intercept, setting.scaling)
    return np.array(batch.X), grid, round(setting.capacity * 4**setting.bits), setting.threshold


@st.composite
def cases(draw, **options):
    """The parts of a problem, for dense rows and for sparse ones."""
    X, *rest = parts(draw(problems(**options)))
    return {False: (X, *rest), True: (draw(as_sparse(X)), *rest)}


def coarse(patch, sparse, eta):
    """Let the error of leverages be bounded by this."""
    patch.setattr(*((sparse_deciding, "sparse_gram_error") if sparse else (deciding, "gram_error")), lambda *_: eta)


@both
@given(case=cases(), block=SIZES, chunk=SIZES, on_grid=st.booleans())
def test_selection_is_that_of_the_literal_loop(sparse, case, block, chunk, on_grid):
    found = assert_selects_as_the_oracle(*case[sparse], block_rows=block, chunk_rows=chunk, on_grid=on_grid)
    for level in ("screened", "enclosed", "exact"):
        if getattr(found.decisions, level):
            event(level)


@both
@given(problem=problems(max_rows=16), n=st.integers(0, 8), block=SIZES, chunk=SIZES)
def test_selection_goes_on_from_rows_learnt_before(sparse, problem, n, block, chunk):
    X, grid, units, tau = parts(problem)
    learnt, rest = to_grid(X[: n % len(X)], grid), X[n % len(X) :]
    rest = sp.csr_array(rest) if sparse else rest
    assert_selects_as_the_oracle(rest, grid, units, tau, learnt=learnt, block_rows=block, chunk_rows=chunk)


@st.composite
def forced_problems(draw):
    """A problem, rows of it that are forced, and sometimes a threshold that nothing else is above."""
    X, grid, units, tau = parts(draw(problems(max_rows=16)))
    forced = draw(st.lists(st.booleans(), min_size=len(X), max_size=len(X)))
    rest = grid, units, draw(st.sampled_from([tau, tau, math.inf]))
    return {False: (X, *rest), True: (sp.csr_array(X), *rest)}, np.array(forced)


@both
@given(problem=forced_problems(), block=SIZES, chunk=SIZES, on_grid=st.booleans())
def test_forced_rows_are_selected_in_their_turn(sparse, problem, block, chunk, on_grid):
    case, forced = problem
    assert_selects_as_the_oracle(*case[sparse], forced=forced, block_rows=block, chunk_rows=chunk, on_grid=on_grid)


@both
@given(problem=forced_problems(), chunk=SIZES, eta=st.sampled_from([1e-6, 0.1, 1e6]))
def test_forced_rows_are_selected_whoever_decides(sparse, problem, chunk, eta):
    case, forced = problem
    with pytest.MonkeyPatch.context() as patch:
        coarse(patch, sparse, eta)
        assert_selects_as_the_oracle(*case[sparse], forced=forced, chunk_rows=chunk)


@both
def test_an_infinite_threshold_needs_neither_factor_nor_inverse(sparse, monkeypatch):
    monkeypatch.setattr(deciding, "factor", None)
    monkeypatch.setattr(sparse_deciding, "invert", None)
    X, grid = np.zeros((100, 3)), Grid(3)
    X[::2] = [1.0, -2.0, 0.5]
    X = sp.csr_array(X) if sparse else X
    forced = np.arange(100) % 10 < 2
    found = assert_selects_as_the_oracle(X, grid, 2**30, math.inf, forced=forced, block_rows=7, chunk_rows=3)
    assert len(found.index) == 20
    found = assert_selects_as_the_oracle(X, grid, 2**30, math.inf)
    assert found.batches == []


@both
@given(case=cases(max_rows=14), chunk=SIZES, eta=st.sampled_from([1e-6, 0.1, 0.49, 0.5, 3.0, 1e6]))
def test_a_larger_error_bound_changes_who_decides_and_nothing_else(sparse, case, chunk, eta):
    with pytest.MonkeyPatch.context() as patch:
        coarse(patch, sparse, eta)
        found = assert_selects_as_the_oracle(*case[sparse], chunk_rows=chunk)
    # Without bounds float64 decides nothing, except against equals of a row that was decided against exactly.
    if eta >= 1e6 and case[sparse][3] > 0.0 and not sparse:
        d = found.decisions
        assert d.enclosed + d.exact >= len(found.index) + (d.certified > 0)


@both
@given(case=cases(max_rows=14), chunk=SIZES)
def test_without_a_factor_or_an_inverse_every_row_is_decided_exactly(sparse, case, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "factor", lambda *_: None)
        patch.setattr(sparse_deciding, "invert", lambda *_: None)
        found = assert_selects_as_the_oracle(*case[sparse], chunk_rows=chunk)
    d = found.decisions
    assert d.screened == 0
    assert case[sparse][3] == 0.0 or d.enclosed + d.exact >= len(found.index) + (d.certified > 0)


@both
@given(case=cases(), block=SIZES, chunk=SIZES)
def test_without_screening_the_selection_is_the_same(sparse, case, block, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "screen", lambda *_, **__: None)
        patch.setattr(sparse_deciding, "may_exceed", lambda G, *_: np.ones(G.shape[0], dtype=bool))
        found = assert_selects_as_the_oracle(*case[sparse], block_rows=block, chunk_rows=chunk)
    assert found.decisions.screened == 0


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
    for variant in (np.asfortranarray(X), sp.csr_array(X), X.copy()[::-1][::-1]):
        found, _ = run(variant, grid, units, tau, block_rows=33, chunk_rows=10)
        assert found.index.tolist() == expected


def test_progress_is_told_and_ends_at_the_end(stream):
    X, grid, units, tau, _ = stream
    seen = []
    run(X, grid, units, tau, block_rows=64, progress=lambda done, total: seen.append((done, total)))
    done = [a for a, _ in seen]
    assert done == sorted(set(done))
    assert seen[-1] == (700, 700)


@both
def test_no_rows_select_nothing(sparse):
    found, H = run(sp.csr_array((0, 2)) if sparse else np.empty((0, 2)), Grid(2), 5, 0.1)
    assert (found.index.tolist(), found.batches) == ([], [])
    assert (symmetric(H) == 5 * np.eye(3)).all()


@both
@pytest.mark.parametrize("bits", [15, 20])
def test_a_capacity_so_small_that_float64_cannot_factor(sparse, bits):
    """lambda is one squared grid step: leverages from 1e9 down to 1e-4, condition numbers up to 1e13."""
    rng = np.random.default_rng(bits)
    grid, last = Grid(3, bits, False), 0.0 if sparse else 3.0
    X = np.concatenate(
        [
            np.tile([1.0, 2.0, last], (6, 1)),
            rng.standard_normal((4, 3)),
            np.array([[1.0, 2.0, last + 1e-6 * k] for k in range(-5, 5)]),
            np.tile([1.0, 2.0, last], (3, 1)),
        ]
    )
    X = sp.csr_array(X) if sparse else X
    for tau in (0.0, 1e-4, 0.1, 0.2, 0.9, 5.0):
        for chunk in (1, 4, None):
            assert_selects_as_the_oracle(X, grid, 1, tau, chunk_rows=chunk)


@both
def test_ties_in_a_row(sparse):
    """Copies of one row with |v|^2 = V: the leverage of copy k is V / (units + k V), here a float for k = 3."""
    grid, X = Grid(9, 15, False, None), np.zeros((9, 9))
    X[:, [1, 3, 4, 8]] = np.array([2**10, -(2**10), 2**10, 2**10]) / 2.0**15
    X = sp.csr_array(X) if sparse else X
    units = 2**24 - 3 * 2**22
    tau = 2.0**-2
    assert Fraction(2**22, units + 3 * 2**22) == Fraction(tau)
    for chunk in (1, 2, 3, 4, 5, None):
        found = assert_selects_as_the_oracle(X, grid, units, tau, chunk_rows=chunk)
        assert found.index.tolist() == [0, 1, 2]
        assert found.decisions.enclosed + found.decisions.exact == 1  # the others are copies
        lower, _ = run(X, grid, units, math.nextafter(tau, 0.0), chunk_rows=chunk)
        assert lower.index.tolist() == [0, 1, 2, 3]
