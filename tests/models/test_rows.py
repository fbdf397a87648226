"""Core rows: what joins, what leaves, what is found, and that nothing tells what happened before."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import InputError, InputTypeError
from erasable.models.core_rows import CoreRows

WIDTH = 3


def numbers(index: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A row for each number, none of them zero."""
    return np.array([[i + 1, -i - 1, 1000 + i] for i in index], dtype=np.int32).reshape(len(index), WIDTH)


def owner(i: int) -> Any:
    """Whose row it is; every fifth is nobody's, and some are those of two."""
    return None if i % 5 == 0 else ("s0", "s1") if i % 4 == 3 else f"s{i % 3}"


def columns(index: Any) -> tuple[list[str], list[Any], list[str]]:
    """Ids, subjects and labels."""
    return [f"r{i}" for i in index], [owner(i) for i in index], ["abc"[i % 3] for i in index]


def fresh(index: Any) -> CoreRows:
    """Rows that were all entered at once."""
    return CoreRows(numbers(index), *columns(index))


def join(core: CoreRows, index: Any, batch: int = 4) -> None:
    """These rows join, in batches."""
    core.append([numbers(index[low : low + batch]) for low in range(0, len(index), batch)], *columns(index))


def leave(core: CoreRows, keys: list[str]) -> None:
    """Rows of these ids leave."""
    core.remove(core.find(keys))


def held(core: CoreRows) -> Any:
    """All that is held, with the order of every table."""
    rows, row = [], core.first
    while row is not None:
        assert core.place[row.id] is row
        rows.append((bytes(row.numbers), row.id, row.subject, row.label, row.weight, row.before))
        row = row.after
    assert [one[1] for one in rows[-1:]] == ([core.last.id] if core.last else [])
    return (
        rows,
        list(core.place),
        list(core.of_subject.items()),
        list(core.class_counts.items()),
        list(core.class_totals.items()),
        (core.id_type, core.subject_type, core.uneven, core._entries, core._sparse),
    )


def assert_holds(core: CoreRows, index: Any) -> None:
    """Exactly these rows, in this order, found by all tables."""
    ids, subjects, labels = columns(index)
    assert len(core) == len(ids)
    assert (core.ids(), core.subjects(), core.labels()) == (ids, subjects, labels)
    assert core.rows().tolist() == numbers(index).tolist()
    assert core.rows().dtype == np.int32
    rows, theirs, weights = core.gather(core.find(ids[::-1]))
    assert (rows.tolist(), rows.dtype, theirs) == (numbers(index)[::-1].tolist(), np.float64, labels[::-1])
    assert weights == core.weights() == [16] * len(ids)
    assert held(core) == held(fresh(index))
    assert core.tables_agree()
    assert {s: set(theirs) for s, theirs in core.of_subject.items()} == {
        s: {key for key, o in zip(ids, subjects, strict=True) if s == o or (isinstance(o, tuple) and s in o)}
        for s in {s for o in subjects if o is not None for s in ([o] if isinstance(o, str) else o)}
    }
    assert core.class_counts == {c: labels.count(c) for c in labels}


# -- joining and leaving -----------------------------------------------------------------------------------------


def test_no_rows():
    core = fresh(range(0))
    assert (len(core), core.first, core.last, core.id_type, core.subject_type) == (0, None, None, None, None)
    assert core.rows().shape == (0, WIDTH)
    assert_holds(core, range(0))
    core.append([], [], [], [])
    assert_holds(core, range(0))


def test_rows_that_join_come_last():
    core = fresh(range(3))
    join(core, range(3, 12))
    assert_holds(core, range(12))


def test_rows_are_copied_and_overwritten_where_they_came_from():
    given = numbers(range(5))
    core = CoreRows(given, *columns(range(5)))
    assert not given.any()
    assert_holds(core, range(5))


@pytest.mark.parametrize("gone", [[2], [0], [6], [0, 1], [5, 6], [3, 2], [6, 0, 3], list(range(7))])
def test_a_row_that_leaves_is_overwritten_and_its_neighbours_meet(gone):
    core = fresh(range(7))
    pieces = [row.numbers for row in core.find(core.ids())]
    leave(core, [f"r{i}" for i in gone])
    assert [any(piece) for piece in pieces] == [i not in gone for i in range(7)]
    assert_holds(core, [i for i in range(7) if i not in gone])


def test_nothing_left_forgets_the_kinds_of_names():
    core = fresh(range(9))
    assert (core.id_type, core.subject_type) == (str, str)
    leave(core, [f"r{i}" for i in range(9) if i % 5])  # all that have a subject
    assert (core.id_type, core.subject_type) == (str, None)
    leave(core, ["r0", "r5"])
    assert (core.id_type, core.subject_type, core.first, core.class_counts) == (None, None, None, {})
    core.append([numbers([1])], [7], [b"x"], [True])  # type: ignore[list-item]
    assert (core.id_type, core.subject_type) == (int, bytes)


@given(st.data())
def test_any_history_leaves_what_the_surviving_rows_alone_would(data):
    core, alive, n = fresh(range(0)), [], 0
    for _ in range(data.draw(st.integers(1, 6))):
        if alive and data.draw(st.booleans()):
            gone = data.draw(st.lists(st.sampled_from(alive), unique=True, max_size=len(alive)))
            leave(core, [f"r{i}" for i in gone])
            alive = [i for i in alive if i not in gone]
        else:
            more = data.draw(st.integers(0, 12))
            join(core, range(n, n + more), data.draw(st.integers(1, 8)))
            alive, n = [*alive, *range(n, n + more)], n + more
        assert_holds(core, alive)
        core = pickle.loads(pickle.dumps(core)) if data.draw(st.booleans()) else core.copy()
        assert_holds(core, alive)


def test_names_without_columns():
    core = CoreRows(np.empty((9, 0)), *columns(range(9)))
    leave(core, ["r1", "r7"])
    assert core.ids() == [f"r{i}" for i in range(9) if i not in (1, 7)]
    assert core.rows().shape == (7, 0)


def test_erasing_overwrites_every_row():
    core = fresh(range(20))
    leave(core, ["r1"])
    core.erase()
    assert not core.rows().any()
    assert len(core) == 19


# -- looking -----------------------------------------------------------------------------------------------------


def test_what_a_request_names():
    core = fresh(range(9))
    assert core.named(ids=["r1", "r7", "x"]) == (3, 1, ["r1", "r7"])
    assert core.named(subjects="s1") == (1, 0, ["r1", "r3", "r4", "r7"])
    assert core.named(ids=["r7", "r0", "r7"], subjects=["s1", "nobody"]) == (4, 1, ["r7", "r0", "r1", "r3", "r4"])
    assert core.named(ids=[]) == (0, 0, [])
    leave(core, ["r4"])
    assert core.named(ids=["r4"], subjects=["s1"]) == (2, 1, ["r1", "r3", "r7"])


def test_requests_that_name_nothing_or_could_never_match_are_refused():
    core = fresh(range(9))
    with pytest.raises(InputError, match="ids= or subjects="):
        core.named()
    with pytest.raises(InputTypeError, match="this model's ids are strings"):
        core.named(ids=[1])
    with pytest.raises(InputTypeError, match="this model's subjects are strings"):
        core.named(subjects=[b"s1"])
    leave(core, [f"r{i}" for i in range(9)])
    assert core.named(ids=[1], subjects=[b"s1"]) == (2, 2, [])  # nothing remembers of what kind they were


def swap(core: CoreRows) -> None:
    core.place.put({"r1": core.place["r2"], "r2": core.place["r1"]})


def cut_off(core: CoreRows) -> None:
    core.place["r5"].after = None
    core._order = None


DAMAGE = {
    "an id too many": lambda core: core.place.put({"x": core.place["r1"]}),
    "an id too few": lambda core: core.place.drop(["r1"]),
    "two ids swapped": swap,
    "a subject's row too many": lambda core: core.of_subject.put({"s1": (*core.of_subject["s1"], "r2")}),
    "a subject too few": lambda core: core.of_subject.drop(["s1"]),
    "a class miscounted": lambda core: core.class_counts.update(a=1),
    "a class too many": lambda core: core.class_counts.update(z=1),
    "rows too few": cut_off,
    "a row renamed": lambda core: setattr(core.place["r1"], "id", "x"),
    "a row relabelled": lambda core: setattr(core.place["r1"], "label", "z"),
    "a row of somebody else": lambda core: setattr(core.place["r1"], "subject", "s2"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("changed", [False, True])
def test_tables_that_do_not_name_the_rows_are_found(damage, changed):
    core = fresh(range(12))
    if changed:
        leave(core, ["r3", "r9"])
    assert core.tables_agree()
    DAMAGE[damage](core)
    assert not core.tables_agree()


def test_looking_whether_tables_agree_changes_nothing():
    core = fresh(range(12))
    leave(core, ["r3"])
    before = held(core)
    assert core.tables_agree()
    assert held(core) == before
