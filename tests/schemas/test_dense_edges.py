"""Edges where numbers are dense, held against counting everything."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable.schemas.draft import _DENSE_SHARE, as_number
from erasable.schemas.draft import dense_edges as found_edges
from erasable.schemas.statistics import NEVER, TableStatistics

NUMBERS = st.one_of(
    st.integers(-30, 120).map(float),
    st.integers(-500, 500).map(lambda i: as_number(i, -2)),
    st.sampled_from([0.0, 0.0, 0.0, 1e14, -3e15, 0.3, 0.7, 1e-5, 123456.0]),
)
ROWS = st.lists(st.tuples(st.integers(0, 25), NUMBERS), min_size=1, max_size=80)


def counted(rows, k, whole):
    """Every multiple of every step near a number, its two cells counted in exact arithmetic."""
    having = [{s for s, v in rows if v != mode} for mode in {v for _, v in rows}]
    many = max(k, -(-min(map(len, having)) // _DENSE_SHARE))
    found = {}
    for exponent in range(0 if whole else -6, 16):
        for digit in (1, 2, 5):
            step = digit * Fraction(10) ** exponent
            places = {int(Fraction(v) // step) + d for _, v in rows for d in (-1, 0, 1, 2)}
            for i in places:
                low, edge, high = (as_number(digit * (i + d), exponent) for d in (-1, 0, 1))
                below = {s for s, v in rows if low <= v < edge}
                above = {s for s, v in rows if edge <= v < high}
                if min(len(below), len(above)) >= many:
                    margin = min(len(below), len(above)) - many + 1
                    found[edge] = max(found.get(edge, 0), margin)
    return found


def dense_edges(values, subjects, k, whole):
    table, roles = ({"x": values}, {}) if subjects is None else ({"x": values, "who": subjects}, {"who": "subject"})
    column = TableStatistics([table], roles, lambda name: False, ()).column("x", k)
    return found_edges(column.parts[0], k, column.numbers(), whole, NEVER)


@settings(max_examples=80, deadline=None)
@given(ROWS, st.integers(1, 6), st.booleans())
def test_edges_and_margins_are_those_of_counting(rows, k, whole):
    subjects, values = (np.array(part) for part in zip(*rows, strict=True))
    assert dense_edges(values, subjects, k, whole) == counted(rows, k, whole)


def test_edges_are_where_those_are_who_have_any():
    """Of 1,000 people, 950 have none and the others from 1,500 to 2,000: there the edges are."""
    values = np.array([0.0] * 950 + [1500.0 + 10 * i for i in range(50)])
    found = dense_edges(values, None, 5, True)
    assert found == dense_edges(values, np.arange(1000), 5, True)
    assert sorted(found) == [1000.0, 1550.0, 1600.0, 1650.0, 1700.0, 1750.0, 1800.0, 1850.0, 1900.0, 1950.0]
