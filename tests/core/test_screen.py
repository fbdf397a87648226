"""A row that the float32 screen discards is never above the threshold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import erasable.core.selector as selector
from erasable import ErasableClassifier
from erasable.core import deciding
from erasable.core.deciding import factor, screen, survivors
from erasable.core.grid import Grid, to_grid
from erasable.core.selector import GridRows, RawRows
from erasable.core.sums import add_rows, empty_gram
from erasable.features import FrozenMap
from erasable.models.selections.leverage import MappedRows
from tests.oracle import GrowingInverse, OracleGrid, gram_matrix, leverage
from tests.strategies import any_rows, ball_rows


def just_below(value: Fraction) -> float:
    """The largest float below a positive rational."""
    assert value > 0
    tau = float(value)
    while Fraction(tau) >= value:
        tau = math.nextafter(tau, 0.0)
    return tau


def survives(X, grid, f, units, tau, *, on_grid):
    """Which rows pass; all of them where there is no screen."""
    s = screen(f, grid, units, tau, on_grid=on_grid)
    rows = GridRows(to_grid(X, grid), grid) if on_grid else RawRows(X, grid)
    if s is None:
        return np.ones(len(X), dtype=bool)
    return survivors(*rows.approximate(0, len(X)), s)


@st.composite
def screens(draw):
    n_features, bits, intercept = (
        draw(st.integers(1, 5)),
        draw(st.sampled_from([4, 6, 10, 15, 20])),
        draw(st.booleans()),
    )
    scaling = draw(st.sampled_from(["row", "row", None, 2.5, tuple([0.5, 3.0, 1e-3, 7.0, 1.0][:n_features])]))
    grid = Grid(n_features, bits, intercept, scaling)
    one = any_rows(n_features, most=900) if grid.normalises else ball_rows(n_features, bits, scaling or 1.0)
    learnt = draw(st.lists(one, max_size=6))
    asked = draw(st.lists(one, min_size=1, max_size=6))
    units = draw(st.sampled_from([4**bits, 4**bits, 4**bits // 10, 4**bits * 100, 3, 2**40]))
    return grid, np.array(learnt).reshape(-1, n_features), np.array(asked), units


@given(screens(), st.booleans())
def test_a_row_just_above_the_threshold_survives(case, on_grid):
    grid, learnt, asked, units = case
    H = empty_gram(grid, units)
    add_rows(H, to_grid(learnt, grid))
    f = factor(H, units)
    if f is None:
        return
    exact = gram_matrix(to_grid(learnt, grid).tolist(), units, grid.n_columns)
    for i, g in enumerate(to_grid(asked, grid).tolist()):
        q = leverage(exact, g)
        if q > 0:
            for tau in (just_below(q), float(q) * (1 - 1e-7), float(q) * (1 - 1e-3), float(q) * 0.5):
                if Fraction(tau) < q:
                    assert survives(asked, grid, f, units, tau, on_grid=on_grid)[i]
            event(
                "discards below 4 q" if not survives(asked, grid, f, units, 4.0 * float(q), on_grid=on_grid)[i] else ""
            )


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("bits", [8, 15, 20])
@pytest.mark.parametrize("scaling", ["row", None, (1.0, 0.5) * 6])
def test_at_the_limit_with_many_rows_and_features(bits, intercept, scaling):
    """Every row in turn has the threshold right below its leverage: half of them compute as being below it."""
    rng = np.random.default_rng(bits)
    grid = Grid(12, bits, intercept, scaling)
    units = 4**bits
    mix = rng.standard_normal((12, 12)) * 0.5 ** np.arange(12)

    def sample(n):
        X = rng.standard_normal((n, 12)) @ mix
        return X / np.linalg.norm(X, axis=1, keepdims=True) * (0.9 if scaling is None else 1e4)

    learnt, asked = sample(60), sample(150)
    H, exact = empty_gram(grid, units), GrowingInverse(grid.n_columns, units)
    add_rows(H, to_grid(learnt, grid))
    for g in to_grid(learnt, grid).tolist():
        exact.take_if_above(g, 0.0)
    f = factor(H, units)
    q = [exact.leverage(g) for g in to_grid(asked, grid).tolist()]
    discarded = 0
    for i in range(len(asked)):
        for on_grid in (False, True):
            one = asked[i : i + 1]
            assert survives(one, grid, f, units, just_below(q[i]), on_grid=on_grid)[0]
            assert survives(one.astype(np.float32), grid, f, units, just_below(q[i]) * (1 - 1e-3), on_grid=on_grid)[0]
            discarded += not survives(one, grid, f, units, float(q[i]) * 1.5 + 0.02, on_grid=on_grid)[0]
    assert discarded > (150 if bits > 8 else 20)  # and the screen is of some use


def test_a_stale_screen_never_discards_what_is_above_now():
    rng = np.random.default_rng(3)
    grid = Grid(4, 15, True)
    units = 2**30
    X = rng.standard_normal((80, 4)) * [1.0, 0.5, 0.2, 0.1]
    H, exact = empty_gram(grid, units), GrowingInverse(5, units)
    add_rows(H, to_grid(X[:5], grid))
    stale = factor(H, units)
    for g in to_grid(X[:20], grid).tolist():
        exact.take_if_above(g, 0.0)
    asked = X[20:]
    for i, g in enumerate(to_grid(asked, grid).tolist()):
        tau = just_below(exact.leverage(g))
        assert survives(asked, grid, stale, units, tau, on_grid=False)[i]


NORMS = [5e-324, 1e-320, 1e-200, 1e-46, 1e-45, 1e-39, 1e-38, 1e-23, 0.99e-10, 1.01e-10, 1e-9]
NORMS += [1.0, 0.99e10, 1.01e10, 1e19, 1e20, 3e38, 1e39, 1e200, 1.6e308]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("intercept", [False, True])
def test_magnitudes_at_the_limits_of_float32(norm, intercept):
    """Where float32 over- or underflows a row must survive; nowhere may a warning appear."""
    grid = Grid(3, 15, intercept)
    units = 2**30
    directions = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [1.0, 1e-12, 1e-30], [-2 / 3, 2 / 3, 1 / 3]])
    X = directions * norm
    H = empty_gram(grid, units)
    add_rows(H, to_grid(np.eye(3)[:2], grid))
    f = factor(H, units)
    oracle = OracleGrid(3, 15, intercept)
    exact = gram_matrix(to_grid(np.eye(3)[:2], grid).tolist(), units, grid.n_columns)
    q = [leverage(exact, oracle.put(row)) for row in X.tolist()]
    for i in range(len(X)):
        assert q[i] == 0 or survives(X, grid, f, units, just_below(q[i]), on_grid=False)[i]
    kept = survives(X, grid, f, units, 0.9, on_grid=False)
    plain = 1.01e-10 <= norm <= 0.99e10
    assert plain != kept.all()  # ordinary rows are screened, the others are all passed on


def test_one_extreme_row_does_not_disturb_its_neighbours():
    grid = Grid(2, 15, True)
    f = factor(empty_gram(grid, 2**30), 2**30)
    X = np.array([[1.0, 0.0], [1e300, 1e300], [1.0, 1.0], [1e-300, 0.0], [0.0, 0.0], [0.5, 0.1]])
    kept = survives(X, grid, f, 2**30, 1.5, on_grid=False)
    assert kept.tolist() == [False, True, False, True, True, False]


def test_rows_marked_with_nan_survive():
    grid = Grid(2, 15, False)
    s = screen(factor(empty_gram(grid, 2**30), 2**30), grid, 2**30, 0.9, on_grid=True)
    X = np.zeros((3, 2), dtype=np.float32)
    assert survivors(X.copy(), np.array([np.nan, 1.0, np.nan]), s).tolist() == [True, False, True]
    X[:] = np.nan
    assert survivors(X, np.ones(3), s).all()


@pytest.mark.parametrize("tau", [0.0, 5e-324, 1e-30])
def test_a_threshold_too_small_for_float32_gives_no_screen(tau):
    grid = Grid(3, 15, False)
    assert screen(factor(empty_gram(grid, 2**30), 2**30), grid, 2**30, tau) is None


def test_a_matrix_too_ill_conditioned_gives_no_screen():
    grid = Grid(2, 20, False)
    H = empty_gram(grid, 1)
    add_rows(H, np.full((4000, 2), 700_000))
    f = factor(H, 1)
    assert f is None or screen(f, grid, 1, 1e9) is None


def test_rows_handed_to_the_screen_are_copies():
    X = np.ones((4, 2), dtype=np.float32)
    G = np.ones((4, 3), dtype=np.int16)
    for rows in (RawRows(X, Grid(2)), RawRows(X, Grid(2, scaling=2.0)), GridRows(G, Grid(2))):
        part, _ = rows.approximate(0, 4)
        assert not np.shares_memory(part, X)
        assert not np.shares_memory(part, G)
        assert part.dtype == np.float32
        assert part.flags.c_contiguous


def test_rows_that_were_gathered_are_copied_once_and_those_of_a_map_are_never_written_to():
    X, order = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32), np.array([7, 3, 39])
    raw = RawRows(X, Grid(3), order)
    assert len(raw) == 3
    part, _ = raw.approximate(0, 3)
    assert np.array_equal(part, X[order])
    assert not np.shares_memory(part, X)
    kept = X[order]
    mapped = MappedRows(X, Grid(3), order, feature_map=FrozenMap(lambda rows: kept, "what it has", 3))
    assert not np.shares_memory(mapped.approximate(0, 3)[0], kept)


@pytest.mark.parametrize("scaling", ["row", 9.0])
def test_some_rows_are_screened_as_they_are_among_all(scaling):
    X = np.random.default_rng(1).standard_normal((3000, 5)).astype(np.float32)
    clf = ErasableClassifier(threshold=0.1, scaling=scaling, feature_map=None).fit(X[:40], X[:40, 0] > 0)
    before, grid, some = X.copy(), clf.model_.configuration.grid, np.arange(0, 3000, 7)
    here, there = clf.model_.screening(), clf.model_.screening()
    whole = here(RawRows(X, grid))
    assert 0 < whole.sum() < len(whole)
    assert np.array_equal(there(RawRows(X, grid, some)), whole[some])
    assert np.array_equal(X, before)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("scaling", ["row", None, 9.0])
def test_rows_gathered_a_few_at_a_time_are_the_same(kind, scaling, monkeypatch):
    rng = np.random.default_rng(4)
    X = (rng.standard_normal((50, 5)) * 10.0 ** rng.integers(-30, 38, (50, 1))).astype(kind)
    grid, order = Grid(5, scaling=scaling), rng.permutation(50)[:40]
    whole, factors = selector.approximated(X[order[3:33]], grid)
    monkeypatch.setattr(selector, "_PIECES", 5)
    few, same = RawRows(X, grid, order).approximate(3, 33)
    assert few.dtype == np.float32
    assert few.flags.carray
    assert np.array_equal(few, whole, equal_nan=True)
    assert np.array_equal(same, factors, equal_nan=True)


def test_rows_are_screened_alike_in_one_thread_and_in_several(monkeypatch):
    X = np.random.default_rng(2).standard_normal((3000, 5))
    clf = ErasableClassifier(threshold=0.1, feature_map=None).fit(X[:200], X[:200, 0] > 0)
    rows, screening = RawRows(X, clf.model_.configuration.grid), clf.model_.screening()
    with threadpool_limits(1):
        alone = screening(rows)
    monkeypatch.setattr(deciding, "numbers_at_once", lambda: 500)
    with threadpool_limits(3):
        assert np.array_equal(screening(rows), alone)
    assert 0 < alone.sum() < len(alone)
