"""Sums are exact: in any order, in any batches, undone by subtraction, and refused before they could round."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from erasable.core import sums
from erasable.core.grid import Grid
from erasable.core.selector import GridRows, select
from erasable.core.sums import (
    LARGEST_EXACT,
    add_rows,
    capacity_of,
    empty_gram,
    exact_rows,
    guard_exactness,
    packed,
    regulariser,
    sums_by_class,
    symmetric,
    targets,
    unpacked,
)
from erasable.errors import ConfigurationError, ExactnessError
from tests.oracle import CoreRow, OracleModel, gram_matrix
from tests.strategies import Setting, splits


def lower(H):
    """The lower triangle's bits."""
    return H[np.tril_indices(len(H))].view(np.int64).tolist()


@st.composite
def integer_rows(draw, *, most=12):
    bits, d, n = draw(st.integers(4, 20)), draw(st.integers(1, 5)), draw(st.integers(1, most))
    size = 2 ** draw(st.integers(0, bits))
    size = min(size, 2**bits - 1)
    rows = draw(st.lists(st.lists(st.integers(-size, size), min_size=d, max_size=d), min_size=n, max_size=n))
    return Grid(d, bits, False), np.array(rows, dtype=np.int32)


@given(integer_rows(), st.data())
def test_any_batching_gives_the_integer_sums(case, data):
    grid, rows = case
    units = data.draw(st.integers(1, 2**45))
    H = empty_gram(grid, units)
    for part in data.draw(splits(len(rows))):
        kind = data.draw(st.sampled_from([np.int32, np.float64, np.int64]))
        add_rows(H, np.array(rows[part], dtype=kind, order=data.draw(st.sampled_from("CF"))))
    assert symmetric(H).tolist() == gram_matrix(rows.tolist(), units, grid.n_columns)


@given(integer_rows(), st.data())
def test_downdates_undo_updates_bit_for_bit(case, data):
    grid, rows = case
    kept = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)).map(np.array))
    H, direct = empty_gram(grid, 7), empty_gram(grid, 7)
    add_rows(H, rows)
    gone = rows[~kept]
    order = data.draw(st.permutations(range(len(gone))))
    for part in data.draw(splits(len(gone))):
        add_rows(H, gone[order[part]], -1.0)
    add_rows(direct, rows[kept])
    assert lower(H) == lower(direct)


def test_sums_at_the_very_limit_are_exact_and_reversible():
    grid = Grid(3, 20, False)
    rng = np.random.default_rng(0)
    n = exact_rows(grid, 1)
    rows = np.zeros((n, 3), dtype=np.int32)
    rows[:, 0] = grid.radius
    rows[: n // 2] = rng.integers(-600_000, 600_000, (n // 2, 3))  # norms below 2**20
    H = empty_gram(grid, 1)
    for part in np.array_split(rows, 7):
        add_rows(H, part)
    wide = rows.astype(object)
    assert symmetric(H).tolist() == (wide.T @ wide + np.eye(3, dtype=int).astype(object)).tolist()
    assert H.max() > 2**52
    for part in np.array_split(rng.permutation(rows), 11):
        add_rows(H, part, -1.0)
    assert lower(H) == lower(empty_gram(grid, 1))


def test_one_row_and_no_row_are_batches_too():
    grid = Grid(2, 15, False)
    a, b = empty_gram(grid, 3), empty_gram(grid, 3)
    rows = np.array([[5, -7]], dtype=np.int16)
    add_rows(a, rows)
    add_rows(b, np.concatenate([rows, np.zeros_like(rows)]))
    assert lower(a) == lower(b)
    add_rows(a, rows[:0])
    assert lower(a) == lower(b)


@given(integer_rows())
def test_packing_is_undone_by_unpacking(case):
    grid, rows = case
    H = empty_gram(grid, 5)
    add_rows(H, rows)
    H[np.triu_indices(len(H), 1)] = np.nan  # unspecified, so it must not matter
    triangle = packed(H)
    d = grid.n_columns
    expected = gram_matrix(rows.tolist(), 5, d)
    assert triangle.tolist() == [expected[i][j] for i in range(d) for j in range(i + 1)]
    assert lower(unpacked(triangle, d)) == lower(H)
    assert symmetric(H).tolist() == expected


@given(integer_rows(), st.integers(1, 5), st.data())
def test_class_sums_give_the_targets_of_the_paper(case, n_classes, data):
    grid, rows = case
    labels = data.draw(st.lists(st.integers(0, n_classes - 1), min_size=len(rows), max_size=len(rows)))
    model = OracleModel.of(
        grid.n_features, threshold=0.0, bits=grid.bits, intercept=False, scaling=None, classes=range(n_classes)
    )
    model.core = [CoreRow(0, None, c, tuple(g)) for g, c in zip(rows.tolist(), labels, strict=True)]
    found = sums_by_class(rows, labels)
    assert set(found) == set(labels)
    sums = np.array([found.get(c, np.zeros(rows.shape[1])) for c in range(n_classes)])
    assert sums.tolist() == model.class_sums
    assert targets(sums).T.tolist() == model.targets


# -- lambda ------------------------------------------------------------------------------------------------------


@given(st.floats(1e-12, 1e12), st.integers(4, 20))
def test_capacity_becomes_the_nearest_integer(capacity, bits):
    units = round(Fraction(capacity) * 4**bits)
    if 1 <= units < 2**52:
        assert regulariser(capacity, Grid(1, bits)) == units
    else:
        with pytest.raises(ConfigurationError, match="capacity"):
            regulariser(capacity, Grid(1, bits))


@pytest.mark.parametrize("bits", [4, 15, 20])
def test_the_smallest_and_largest_capacity(bits):
    grid = Grid(1, bits)
    assert regulariser(4.0**-bits, grid) == 1
    assert regulariser((2**52 - 1) / 4**bits, grid) == 2**52 - 1
    for bad in (4.0**-bits / 2, 2.0**52 / 4**bits, 1e300):
        with pytest.raises(ConfigurationError, match="capacity"):
            regulariser(bad, grid)


# -- the guard ---------------------------------------------------------------------------------------------------


@given(st.integers(4, 20), st.integers(1, 2**52))
def test_the_guard_is_exact_at_its_boundary(bits, units):
    grid = Grid(1, bits, False)
    limit = exact_rows(grid, units)
    assert units + limit * grid.radius**2 <= 2**53 < units + (limit + 1) * grid.radius**2
    guard_exactness(limit, grid, units)
    with pytest.raises(ExactnessError, match="grid_bits"):
        guard_exactness(limit + 1, grid, units)


@pytest.mark.parametrize("exact_decisions", [False, True])
@pytest.mark.parametrize("chunk_rows", [1, 2, 3, 5, 6, 96])
@pytest.mark.parametrize("limit", [1, 5])
def test_the_selector_fills_the_sums_to_the_brim_and_no_further(limit, chunk_rows, exact_decisions, monkeypatch):
    if exact_decisions:
        monkeypatch.setattr("erasable.core.deciding.factor", lambda H, units: None)
    grid = Grid(2, 20, False)
    units = LARGEST_EXACT - limit * grid.radius**2
    assert exact_rows(grid, units) == limit
    rows = np.zeros((limit + 1, 2), dtype=np.int32)
    rows[:, 0] = grid.radius

    def run(n):
        H = empty_gram(grid, units)
        found = select(
            GridRows(rows[:n], grid),
            H,
            0,
            grid=grid,
            units=units,
            tau=1e-9,
            chunk_rows=chunk_rows,
            block_rows=chunk_rows,
        )
        return H, found

    H, found = run(limit)
    assert found.index.tolist() == list(range(limit))
    assert H[0, 0] == 2**53
    with pytest.raises(ExactnessError):
        run(limit + 1)


def test_the_guard_counts_the_rows_learnt_before():
    grid = Grid(1, 20, False)
    units = LARGEST_EXACT - 4 * grid.radius**2 - 1
    rows = GridRows(np.full((2, 1), grid.radius, dtype=np.int32), grid)
    H = empty_gram(grid, units)
    add_rows(H, np.full((2, 1), grid.radius))
    select(rows, H.copy(order="F"), 2, grid=grid, units=units, tau=1e-9)
    with pytest.raises(ExactnessError):
        select(rows, H, 3, grid=grid, units=units, tau=1e-9)


def test_rows_that_are_not_selected_do_not_count():
    grid = Grid(1, 20, False)
    units = LARGEST_EXACT - grid.radius**2
    G = np.array([[0], [grid.radius], [0], [1], [0]], dtype=np.int32)
    found = select(GridRows(G, grid), empty_gram(grid, units), 0, grid=grid, units=units, tau=1e-9)
    assert found.index.tolist() == [1]


def test_a_classifier_refuses_the_row_too_many_and_stays_as_it_was():
    bits = 20
    units = 2**52 - 1
    setting = Setting(1, threshold=1e-6, capacity=math.ldexp(units, -2 * bits), bits=bits, scaling=None)
    longest = (2**bits - 1) / 2**bits
    limit = exact_rows(Grid(1, bits, False, None), units)
    clf = setting.classifier().fit(np.full((limit - 2, 1), longest), [0, 1] * (limit // 2 - 1) + [0] * (limit % 2))
    before = clf.state_digest()
    with pytest.raises(ExactnessError):
        clf.partial_fit(np.full((3, 1), longest), [0, 1, 0])
    assert clf.state_digest() == before
    clf.partial_fit(np.full((2, 1), longest), [0, 1])
    assert clf.n_core_ == limit
    full = clf.state_digest()
    with pytest.raises(ExactnessError):
        clf.partial_fit([[0.5]], [0])
    assert clf.state_digest() == full
    clf.forget(ids=[0])
    clf.partial_fit([[0.5]], [0])
    assert clf.n_core_ == limit


@given(st.integers(1, 2**52), st.sampled_from([4**10, 4**15, 4**18, 2**30]))
def test_a_capacity_is_shown_by_the_shortest_decimal_that_is_held_alike(units, steps):
    shown = capacity_of(units, steps)
    assert round(shown * steps) == units


@pytest.mark.parametrize("given", [0.02, 0.1, 1.0, 0.3, 0.0625, 12.5])
def test_what_was_given_in_few_digits_is_shown_again(given):
    assert capacity_of(regulariser(given, Grid(3)), 4**15) == given


def test_one_row_is_added_by_one_thread(monkeypatch):
    threads, dsyr = [], sums.blas.dsyr

    def watched(*arguments, **options):
        threads.append(max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"))
        return dsyr(*arguments, **options)

    monkeypatch.setattr(sums.blas, "dsyr", watched)
    H = np.zeros((3, 3), order="F")
    with threadpool_limits(2):
        add_rows(H, np.array([[1, 2, 3]], dtype=np.int16))
    assert threads == [1]
    assert np.array_equal(np.tril(H), np.tril(np.outer([1, 2, 3], [1, 2, 3])))


@pytest.mark.parametrize("n_classes", [1, 2, 8, 9, 40])
def test_rows_are_added_up_exactly_for_few_classes_and_for_many(n_classes, monkeypatch):
    monkeypatch.setattr(sums, "_NUMBERS_AT_ONCE", 30)  # several parts
    rng = np.random.default_rng(n_classes)
    rows, labels = rng.integers(-(2**15), 2**15, (300, 7)).astype(np.int16), rng.integers(n_classes, size=300)
    with threadpool_limits(3):
        found = sums.sums_by_class(rows, labels.tolist())
    assert found.keys() == set(labels.tolist())
    for label, total in found.items():
        assert total.tolist() == rows[labels == label].sum(axis=0, dtype=np.int64).tolist()


@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_squared_norms_are_exact_or_too_large_for_any_grid(dtype):
    limit = np.iinfo(dtype).max
    rows = np.random.default_rng(0).integers(-limit - 1, limit, (2000, 300), dtype=dtype, endpoint=True)
    rows[::3] //= limit // 100
    rows[0], rows[1] = limit, -limit - 1
    for row, found in zip(rows.tolist(), sums.squares(rows).tolist(), strict=True):
        exact = sum(v * v for v in row)
        assert found == exact if exact <= 2**53 else found >= 2**53
