"""Sparse rows with every entry listed once are the dense rows they stand for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from erasable.core.arrays import checked_layout, summed

NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 0.1, 1e16, -1e16, 1e308, -1e308])
CONTAINERS = (sp.csr_array, sp.csr_matrix)


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), NUMBERS), max_size=40), max_size=4), st.sampled_from(CONTAINERS))
def test_entries_listed_several_times_are_added_as_toarray_adds_them(rows, container):
    indices = np.array([j for row in rows for j, _ in row], dtype=np.int32)
    data = np.array([v for row in rows for _, v in row])
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    before = [a.copy() for a in (data, indices, indptr)]
    X = container((data, indices, indptr), shape=(len(rows), 4))
    found = summed(X)
    assert found.toarray().tobytes() == X.toarray().tobytes()
    assert found.has_canonical_format
    assert type(found) is container
    for a, b in zip(before, (X.data, X.indices, X.indptr), strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_flag_that_is_wrong_is_not_believed():
    X = sp.csr_array((np.ones(2), [0, 0], [0, 2]), shape=(1, 1))
    X.has_canonical_format = True
    assert summed(X).data.tolist() == [2.0]


@pytest.mark.parametrize("container", [sp.csr_array, sp.csc_array])
def test_positions_outside_are_refused(container):
    X = container((np.ones(2), [0, 1], [0, 1, 2]), shape=(2, 2))
    X.indices[1] = 7
    with pytest.raises(ValueError, match="must be <"):
        checked_layout(X)
