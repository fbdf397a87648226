"""Core rows and their tables: what joins, what leaves, what is found, and that nothing tells what happened before."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from erasable.core.grid import Grid, dense_rows, sparse_rows
from erasable.errors import InputError, InputTypeError
from erasable.models.core_rows import CoreRows, NameTable
from erasable.models.inputs import check_ids, refuse_known, taken

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


# -- sparse rows: only what is not zero is held ------------------------------------------------------------------

GRID = Grid(40)


def whole(index: Any, thin: int = 3) -> Any:
    """A dense grid row for each number: of every fifth all features are there, of the others a few, of some none."""
    rows = np.zeros((len(index), 41), dtype=np.int16)
    rows[:, -1] = GRID.constant
    for row, i in zip(rows, index, strict=True):
        at = range(40) if i % 5 == 4 else [(7 * i + 11 * k) % 40 for k in range(i % thin)]
        row[list(at)] = [100 + i + k for k in range(len(at))]
    return rows


def thin_names(index: Any) -> tuple[list[str], list[None], list[str]]:
    return [f"r{i}" for i in index], [None] * len(index), ["ab"[i % 2] for i in index]


def thin_rows(index: Any) -> CoreRows:
    return CoreRows(whole(index), *thin_names(index), GRID)


def held_bytes(core: CoreRows) -> Any:
    """The rows as they are held."""
    return [bytes(row.numbers) for row in core.find(core.ids())], core._entries, core._sparse


def is_sparse(core: CoreRows) -> bool:
    assert sp.issparse(core.rows()) == core._sparse
    return core._sparse


def rows_of(core: CoreRows) -> Any:
    rows = core.rows()
    return dense_rows(rows, GRID) if sp.issparse(rows) else rows


THIN = [i for i in range(40) if i % 5 != 4]


def test_the_layout_is_that_of_the_rule():
    assert is_sparse(thin_rows(THIN))
    assert not is_sparse(thin_rows(range(4, 40, 5)))
    assert thin_rows(THIN).place["r2"].numbers == bytes([14, 25]) + np.array([102, 103], np.int16).tobytes()


def test_sparse_rows_that_leave_are_overwritten():
    core = thin_rows(THIN)
    pieces = {row.id: row.numbers for row in core.find(core.ids())}
    assert any(pieces["r2"])
    leave(core, ["r2"])
    assert not any(pieces["r2"])
    assert all(core.place[key].numbers is pieces[key] for key in core.ids())  # the others stay where they are
    core.erase()
    assert not any(map(any, pieces.values()))


@pytest.mark.parametrize("form", [lambda rows: rows, lambda rows: sparse_rows(rows, GRID)])
def test_sparse_rows_are_overwritten_where_they_came_from(form):
    given = form(whole(THIN))
    core = CoreRows(given, *thin_names(THIN), GRID)
    assert not (given.data if sp.issparse(given) else given).any()
    assert rows_of(core).tolist() == whole(THIN).tolist()


@pytest.mark.parametrize("asked", [["r1"], ["r2"], ["r4"], ["r2", "r0", "r1"], ["r2", "r4", "r0", "r1"], ["r6", "r2"]])
@pytest.mark.parametrize("sparse", [True, False])
def test_rows_are_gathered_from_either_layout(asked, sparse):
    core = thin_rows([*THIN[:12], 4] if sparse else [*range(10), 14, 19, 24])
    assert is_sparse(core) == sparse
    rows, labels, weights = core.gather(core.find(asked))
    at = [int(key[1:]) for key in asked]
    assert sp.issparse(rows) == (sparse and len(asked) > 1)
    assert (dense_rows(rows, GRID) if sp.issparse(rows) else rows).tolist() == whole(at).tolist()
    assert (labels, weights) == (thin_names(at)[2], [16] * len(at))


def test_rows_turn_to_the_other_layout_as_soon_as_the_rule_says_so():
    """What they were held as is overwritten."""
    core = thin_rows([*THIN[:6], 4])
    assert is_sparse(core)
    pieces = [row.numbers for row in core.find(core.ids())]
    core.append([whole([9, 14])], *thin_names([9, 14]))
    assert not is_sparse(core)
    assert not any(map(any, pieces))
    pieces = [row.numbers for row in core.find(core.ids())]
    leave(core, ["r9", "r14"])
    assert is_sparse(core)
    assert not any(map(any, pieces))
    assert rows_of(core).tolist() == whole([*THIN[:6], 4]).tolist()


def test_a_row_that_is_none_of_the_grids_is_held_as_it_is():
    rows = whole(THIN)
    rows[3, -1] += 1
    core = CoreRows(rows.copy(), *thin_names(THIN), GRID)
    assert not is_sparse(core)
    assert core.rows().tolist() == rows.tolist()
    leave(core, [f"r{THIN[3]}"])
    assert is_sparse(core)


@given(st.data())
def test_any_history_of_sparse_rows_leaves_what_the_surviving_rows_alone_would(data):
    core, alive, n = thin_rows(range(0)), [], 0
    for _ in range(data.draw(st.integers(1, 8))):
        if alive and data.draw(st.booleans()):
            gone = data.draw(st.lists(st.sampled_from(alive), unique=True, max_size=len(alive)))
            leave(core, [f"r{i}" for i in gone])
            alive = [i for i in alive if i not in gone]
        else:
            more = range(n, n + data.draw(st.integers(1, 9)))
            form = data.draw(st.sampled_from([lambda rows: rows, lambda rows: sparse_rows(rows, GRID)]))
            batches = [more[low : low + 4] for low in range(0, len(more), 4)]
            core.append([form(whole(batch)) for batch in batches], *thin_names(more))
            alive, n = [*alive, *more], more.stop
        assert core.ids() == [f"r{i}" for i in alive]
        assert rows_of(core).tolist() == whole(alive).tolist()
        assert core.tables_agree()
        assert held_bytes(core) == held_bytes(thin_rows(alive))
        if data.draw(st.booleans()):
            core = pickle.loads(pickle.dumps(core))
            assert held_bytes(core) == held_bytes(thin_rows(alive))


# -- tables by name ----------------------------------------------------------------------------------------------

KINDS = {
    "text": lambda i: f"name {i}",
    "number": lambda i: i - 20,
    "multiples": lambda i: i << 32,
    "bytes": lambda i: bytes([i, i]),
}


def seen(table: NameTable[Any]) -> Any:
    """All that can be seen of it: every small dictionary in its order, and how much memory it takes."""
    return sys.getsizeof(table._parts), [(sys.getsizeof(part), list(part.items())) for part in table._parts]


def table_with(entries: dict[Any, Any]) -> NameTable[Any]:
    table: NameTable[Any] = NameTable()
    table.put(entries)
    return table


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_any_history_of_names_leaves_what_the_names_alone_would(kind, data):
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
        assert seen(table) == seen(table_with(oracle)) == seen(table_with(dict(sorted(oracle.items()))))


@pytest.mark.parametrize("shift", [0, 1, 12, 32, 40, 50])
def test_names_are_spread_evenly_even_where_numbers_have_common_factors(shift):
    table = table_with({i << shift: None for i in range(4000)})
    assert max(map(len, table._parts)) < 20


# -- ids of new rows ---------------------------------------------------------------------------------------------

NAMES = st.lists(st.integers(-9, 9), unique=True, max_size=15)


@given(NAMES, NAMES, st.sampled_from([int, str, bytes]), st.booleans())
def test_ids_that_are_there_are_counted(new, held, kind, as_array):
    named = {int: lambda i: i, str: str, bytes: lambda i: b"%d" % i}[kind]
    keys, place = [named(i) for i in new], table_with(dict.fromkeys(map(named, held)))
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
        refuse_known([str(i) for i in range(n)], table_with(dict.fromkeys(range(10))))
    with pytest.raises(InputTypeError, match="can never match"):
        refuse_known(np.arange(n), table_with(dict.fromkeys("abc")))


@pytest.mark.parametrize("numbers", [range(5, 50), range(5, 50, 7), range(50, -50, -3)])
def test_numbers_at_positions_are_those_of_the_range(numbers):
    index = np.array([4, 0, 2])
    assert taken(numbers, index).tolist() == taken(np.array(numbers), index).tolist() == [numbers[i] for i in index]
