"""Ids that come with rows, against those that a model has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import InputError, InputTypeError
from erasable.models.core_rows import NameTable
from erasable.models.inputs import check_ids, refuse_known, taken

NAMES = st.lists(st.integers(-9, 9), unique=True, max_size=15)


def table_of(names):
    table = NameTable()
    table.put(dict.fromkeys(names, 0))
    return table


@given(NAMES, NAMES, st.sampled_from([int, str, bytes]), st.booleans())
def test_ids_that_are_there_are_counted(new, held, kind, as_array):
    named = {int: lambda i: i, str: str, bytes: lambda i: b"%d" % i}[kind]
    keys, place = [named(i) for i in new], table_of([named(i) for i in held])
    given_ids = np.array(keys, dtype=np.int64) if as_array and kind is int else keys
    present = len(set(new) & set(held))
    if present:
        with pytest.raises(InputError, match=f"^{present} of {len(new)} ids are already present"):
            check_ids(given_ids, len(new), place)
    else:
        assert list(check_ids(given_ids, len(new), place)) == keys


@pytest.mark.parametrize("n", [1, 50])
def test_ids_of_another_kind_than_those_there_are_refused(n):
    with pytest.raises(InputTypeError, match="can never match"):
        refuse_known([str(i) for i in range(n)], table_of(range(10)))
    with pytest.raises(InputTypeError, match="can never match"):
        refuse_known(np.arange(n), table_of(["a", "b", "c"]))


@pytest.mark.parametrize("numbers", [range(5, 50), range(5, 50, 7), range(50, -50, -3)])
def test_numbers_at_positions_are_those_of_the_range(numbers):
    index = np.array([4, 0, 2])
    assert taken(numbers, index).tolist() == taken(np.array(numbers), index).tolist() == [numbers[i] for i in index]
