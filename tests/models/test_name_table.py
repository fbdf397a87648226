"""A table by name: what a dictionary would answer, and nothing that tells which names left."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.models.core_rows import NameTable

KINDS = {
    "text": lambda i: f"name {i}",
    "number": lambda i: i - 20,
    "multiples": lambda i: i << 32,
    "bytes": lambda i: bytes([i, i]),
}


def seen(table: NameTable[Any]) -> Any:
    """All that can be seen of it: every small dictionary in its order, and how much memory it takes."""
    return sys.getsizeof(table._parts), [(sys.getsizeof(part), list(part.items())) for part in table._parts]


def fresh(entries: dict[Any, Any]) -> NameTable[Any]:
    table: NameTable[Any] = NameTable()
    table.put(entries)
    return table


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_any_history_leaves_what_the_names_alone_would(kind, data):
    name = KINDS[kind]
    table, oracle = NameTable[Any](), {}
    for turn in range(data.draw(st.integers(1, 6))):
        some = data.draw(st.lists(st.integers(0, 99), unique=True, max_size=60))
        if data.draw(st.booleans()):
            table.put({name(i): (turn, i) for i in some})
            oracle |= {name(i): (turn, i) for i in some}
        else:
            gone = [name(i) for i in some if name(i) in oracle]
            table.drop(gone)
            oracle = {key: value for key, value in oracle.items() if key not in gone}
        assert dict(table.items()) == oracle
        assert len(table) == len(oracle)
        assert [name(i) in table for i in range(100)] == [name(i) in oracle for i in range(100)]
        assert table.get(name(100), "none") == "none"
        assert seen(table) == seen(fresh(oracle)) == seen(fresh(dict(sorted(oracle.items()))))


@pytest.mark.parametrize("shift", [0, 1, 12, 32, 40, 50])
def test_names_are_spread_evenly_even_where_numbers_have_common_factors(shift):
    table = fresh({i << shift: None for i in range(4000)})
    assert max(map(len, table._parts)) < 20


def test_the_part_that_a_name_leaves_is_another_dictionary():
    """Deleting from a dictionary would leave an empty slot where the name was."""
    table = fresh(dict.fromkeys(range(40)))
    before = list(table._parts)
    table.drop([7])
    changed = [(old, new) for old, new in zip(before, table._parts, strict=True) if old is not new]
    assert len(changed) == 1
    assert 7 not in changed[0][1]
