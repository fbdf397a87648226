"""Refinement tells the exact truth about an approximate solution, however bad the factor it is given."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import erasable.core.sums as weights
from erasable.core.grid import Grid
from erasable.core.sums import (
    _Multiplier,
    add_rows,
    component,
    empty_gram,
    factorise,
    refine,
    solve_exactly,
    symmetric,
)
from tests.oracle import gram_matrix, solve


@st.composite
def systems(draw):
    """``units * I`` plus a Gram matrix, anything from the identity to hopeless, and right-hand sides."""
    bits = draw(st.sampled_from([4, 15, 20]))
    d = draw(st.integers(1, 5))
    size = 2 ** draw(st.integers(0, bits)) - 1
    row = st.lists(st.integers(-size, size), min_size=d, max_size=d)
    rows = draw(st.lists(row, max_size=3))
    times = draw(st.integers(1, 2**11))  # so many copies of each
    units = draw(st.one_of(st.integers(1, 5), st.integers(1, 2**40)))
    H = empty_gram(Grid(d, bits, False))
    add_rows(H, np.array(rows, dtype=np.float64).reshape(-1, d))
    H *= times
    H += units * np.eye(d)
    k = draw(st.sampled_from([1, 2, 3, 6]))  # few columns are multiplied one by one
    top = 2 ** draw(st.integers(0, 38))
    R = draw(st.lists(st.lists(st.integers(-top, top), min_size=k, max_size=k), min_size=d, max_size=d))
    return np.asfortranarray(H), np.array(R, dtype=np.int64), units


def assert_law(H, R, record):
    """``R * 2**exponent == H Z + residual`` in integers."""
    exact = symmetric(H).astype(object)
    right = exact @ record.Z + record.residual.astype(object)
    assert (right == R.astype(object) * (1 << record.exponent)).all()


@given(systems())
def test_every_record_obeys_the_law(system):
    H, R, _ = system
    L = factorise(H)
    if L is not None:
        for record in refine(H, L, R):
            assert_law(H, R, record)


@given(systems(), st.integers(0, 40), st.integers(0, 2**32))
def test_products_are_exact_modulo_a_power_of_two_and_their_doubt_covers_the_error(system, size, seed):
    H, R, _ = system
    X = np.random.default_rng(seed).integers(-(2**size), 2**size, R.shape, endpoint=True)
    exact = symmetric(H).astype(object) @ X.astype(object)
    H[np.triu_indices(len(H), 1)] = np.nan  # unspecified, so it must not matter
    product, estimate, doubt = _Multiplier(H)(X)
    assert product.tolist() == (exact % 2**64).tolist()
    for found, most, true in zip(estimate.ravel(), doubt.ravel(), exact.ravel(), strict=True):
        assert abs(Fraction(float(found)) - true) <= Fraction(float(most))


@pytest.mark.parametrize(
    ("largest", "number", "parts"),
    [(2**15, 0xAAAAAA, 1), (2**34, 2**16 - 1, 1), (2**34, 2**18 - 1, 2), (2**44, 0xAAAAAA, 4), (2**50, 0xAAAAAA, None)],
)
def test_a_product_is_cut_into_as_many_parts_as_it_takes(largest, number, parts):
    """At the bounds: all entries as large as the diagonal, and numbers of one sign."""
    H = np.full((6, 6), float(largest - 1), order="F")
    H.flat[::7] = largest
    X = np.full((6, 1), number)
    times, made = _Multiplier(H), []
    with pytest.MonkeyPatch.context() as patch:
        product = weights._less_product
        patch.setattr(weights, "_less_product", lambda *of: made.append(of[2]) or product(*of))
        found = times(X)[0]
    assert found.tolist() == ((H.astype(np.int64).astype(object) @ X.astype(object)) % 2**64).tolist()
    assert (times.whole is not None) if parts is None else len(made) == parts


@given(systems(), st.sampled_from([1e-3, 0.5, 0.9, 1.1, 2.0, 1e3]), st.booleans(), st.sampled_from("fd"))
def test_a_bad_factor_costs_speed_and_nothing_else(system, stretch, forgetful, kind):
    H, R, _ = system
    L = factorise(H)
    if L is None or forgetful:
        L = np.asfortranarray(np.diag(np.sqrt(np.diagonal(H))))
    for record in refine(H, np.asfortranarray(L * stretch, dtype=kind), R):
        assert_law(H, R, record)


@given(systems())
def test_a_useless_factor_raises_no_warning(system):
    H, R, _ = system
    for size, kind in itertools.product((1e-200, 1e-30, 1e-9, 1e30, 1e200), "fd"):
        with np.errstate(over="ignore"):
            L = np.asfortranarray(size * np.eye(len(H)), dtype=kind)
        for record in refine(H, L, R):
            assert_law(H, R, record)


@pytest.mark.parametrize(("units", "kind"), [(2**30, "d"), (1000, "d"), (2**30, "f")])
def test_records_get_better_by_some_twenty_bits(units, kind):
    rng = np.random.default_rng(0)
    H = empty_gram(Grid(6, 15, False), units)
    add_rows(H, rng.integers(-10000, 10000, (20, 6)))
    R = rng.integers(-(10**6), 10**6, (6, 2))
    records = list(refine(H, factorise(H).astype(kind), R))
    assert len(records) >= 15
    relative = [float(np.abs(r.residual).max()) * 2.0**-r.exponent for r in records[:10]]
    assert all(after < before * 2.0**-15 for before, after in itertools.pairwise(relative))


def test_a_solution_on_the_grid_of_powers_of_two_is_found_and_ends_the_search():
    H = np.asfortranarray(np.diag([4.0, 2.0**10]))
    *_, last = refine(H, factorise(H), np.array([[3], [5]]))
    assert not last.residual.any()
    assert [int(z) / 2**last.exponent for z in last.Z[:, 0]] == [0.75, 5 / 2**10]


def test_nothing_to_solve():
    H = np.asfortranarray(np.eye(2) * 7)
    (record,) = refine(H, factorise(H), np.zeros((2, 3), dtype=np.int64))
    assert not record.Z.any()
    assert_law(H, np.zeros((2, 3), dtype=np.int64), record)


@given(systems())
def test_rational_solutions_are_the_oracles(system):
    H, R, _ = system
    exact = symmetric(H)
    for j in range(R.shape[1]):
        z = [Fraction(int(v.p), int(v.q)) for v in solve_exactly(exact, R[:, j])]
        assert z == solve(exact.tolist(), R[:, j].tolist())


def test_only_linked_coordinates_are_solved_for():
    H = np.array(gram_matrix([(1, 1, 0, 0, 0), (0, 1, 1, 0, 0), (0, 0, 0, 2, 0)], 9, 5))
    assert component(H, np.array([0])).tolist() == [0, 1, 2]
    assert component(H, np.array([3])).tolist() == [3]
    assert component(H, np.array([2, 4])).tolist() == [0, 1, 2, 4]
