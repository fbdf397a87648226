"""Core rows in pages: what joins, what leaves, what is found, and that settling leaves no history."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import ChangedMeanwhileError, InputError, InputTypeError
from erasable.models import rows as rows_module
from erasable.models.rows import CoreRows, Page

WIDTH = 3


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Pages of seven rows, so that a few rows are several pages."""
    monkeypatch.setattr(rows_module, "_PAGE", 7)


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


def held(core: CoreRows) -> Any:
    """All that is held, with the order of every table; pages by their number."""
    number = {id(page): k for k, page in enumerate(core.pages)}
    return (
        [(p.rows.tolist(), p.rows.dtype, p.ids, p.subjects, p.labels, p.gaps) for p in core.pages],
        [(key, number[id(page)], i) for key, (page, i) in core.place.items()],
        [(subject, list(theirs)) for subject, theirs in core.of_subject.items()],
        list(core.class_counts.items()),
        (core.id_type, core.subject_type),
        core._unsettled,
    )


def assert_holds(core: CoreRows, index: Any) -> None:
    """Exactly these rows, in this order, found by all tables."""
    ids, subjects, labels = columns(index)
    assert len(core) == len(ids)
    assert (core.ids(), core.subjects(), core.labels()) == (ids, subjects, labels)
    assert core.rows().tolist() == numbers(index).tolist()
    assert core.rows().dtype == np.int32
    rows, theirs = core.gather(ids[::-1])
    assert (rows.tolist(), rows.dtype, theirs) == (numbers(index)[::-1].tolist(), np.float64, labels[::-1])
    assert core.tables_agree()
    assert {s: set(theirs) for s, theirs in core.of_subject.items()} == {
        s: {key for key, o in zip(ids, subjects, strict=True) if s == o or (isinstance(o, tuple) and s in o)}
        for s in {s for o in subjects if o is not None for s in ([o] if isinstance(o, str) else o)}
    }
    assert core.class_counts == {c: labels.count(c) for c in labels}


# -- joining and leaving -----------------------------------------------------------------------------------------


def test_rows_are_cut_into_pages_of_one_size():
    core = fresh(range(20))
    assert [len(page.ids) for page in core.pages] == [7, 7, 6]
    assert_holds(core, range(20))


def test_no_rows_are_no_pages():
    core = fresh(range(0))
    assert (len(core), core.pages, core.id_type, core.subject_type) == (0, [], None, None)
    assert core.rows().shape == (0, WIDTH)
    assert_holds(core, range(0))
    core.append([], [], [], [])
    core.settle()
    assert_holds(core, range(0))


def test_rows_that_join_come_last_each_batch_a_page():
    core = fresh(range(3))
    join(core, range(3, 12))
    assert [len(page.ids) for page in core.pages] == [3, 4, 4, 1]
    assert_holds(core, range(12))


def test_a_row_that_leaves_is_overwritten_and_leaves_a_gap():
    core = fresh(range(7))
    (page,) = core.pages
    array = page.rows
    core.remove(["r2"])
    assert page.rows is array  # in place
    assert not array[2].any()
    assert (page.ids[2], page.subjects[2], page.labels[2], page.gaps) == (None, None, None, 1)
    assert_holds(core, [0, 1, 3, 4, 5, 6])


def test_a_page_that_is_mostly_gaps_is_closed_up_and_its_array_overwritten():
    core = fresh(range(7))
    (page,) = core.pages
    array = page.rows
    core.remove([f"r{i}" for i in (0, 2, 4)])
    assert page.rows is array
    core.remove(["r6"])
    assert page.rows is not array
    assert not array.any()
    assert (page.gaps, page.ids) == (0, ["r1", "r3", "r5"])
    assert_holds(core, [1, 3, 5])


def test_a_page_without_rows_is_gone():
    core = fresh(range(20))
    middle = core.pages[1]
    core.remove([f"r{i}" for i in range(7, 14)])
    assert middle not in core.pages
    assert not middle.rows.any()
    assert_holds(core, [*range(7), *range(14, 20)])


def test_nothing_left_forgets_the_kinds_of_names():
    core = fresh(range(9))
    assert (core.id_type, core.subject_type) == (str, str)
    core.remove([f"r{i}" for i in range(9) if i % 5])  # all that have a subject
    assert (core.id_type, core.subject_type) == (str, None)
    core.remove(["r0", "r5"])
    assert (core.id_type, core.subject_type, core.pages, core.class_counts) == (None, None, [], {})
    core.append([numbers([1])], [7], [b"x"], [True])  # type: ignore[list-item]
    assert (core.id_type, core.subject_type) == (int, bytes)


@given(st.data())
def test_any_history_leaves_what_the_surviving_rows_alone_would(data):
    core, alive, n = fresh(range(0)), [], 0
    for _ in range(data.draw(st.integers(1, 6))):
        if alive and data.draw(st.booleans()):
            gone = data.draw(st.lists(st.sampled_from(alive), unique=True, max_size=len(alive)))
            core.remove([f"r{i}" for i in gone])
            alive = [i for i in alive if i not in gone]
        else:
            more = data.draw(st.integers(0, 12))
            join(core, range(n, n + more), data.draw(st.integers(1, 8)))
            alive, n = [*alive, *range(n, n + more)], n + more
        assert_holds(core, alive)
        if data.draw(st.integers(0, 3)) == 0:
            core.settle()
            assert held(core) == held(fresh(alive))
    core.settle()
    assert held(core) == held(fresh(alive))
    assert_holds(core, alive)


def test_names_without_columns():
    core = CoreRows(np.empty((9, 0)), *columns(range(9)))
    core.remove(["r1", "r7"])
    core.settle()
    assert core.ids() == [f"r{i}" for i in range(9) if i not in (1, 7)]
    assert core.rows().shape == (7, 0)


# -- settling ----------------------------------------------------------------------------------------------------


def test_settling_moves_the_rows_and_overwrites_where_they_stood():
    core = fresh(range(20))
    core.remove(["r3"])
    arrays = [page.rows for page in core.pages]
    core.settle()
    assert not any(array.any() for array in arrays)
    assert [len(page.ids) for page in core.pages] == [7, 7, 5]
    assert_holds(core, [i for i in range(20) if i != 3])


def test_settling_what_is_settled_touches_nothing():
    core = fresh(range(20))
    join(core, range(20, 22))
    core.settle()
    pages = list(core.pages)
    core.settle()
    assert all(a is b for a, b in zip(core.pages, pages, strict=True))


@pytest.mark.parametrize("change", ["remove", "append"])
def test_a_change_while_settling_is_kept(change, monkeypatch):
    """Pages made of the rows from before would bring back what left, or lose what came."""
    core = fresh(range(20))
    core.remove(["r0"])
    labels = core.labels

    def meddle():
        monkeypatch.undo()
        monkeypatch.setattr(rows_module, "_PAGE", 7)
        found = labels()
        core.remove(["r5"]) if change == "remove" else join(core, range(20, 22))
        return found

    monkeypatch.setattr(core, "labels", meddle)
    with pytest.raises(ChangedMeanwhileError, match="read it again"):
        core.settle()
    left = [i for i in range(1, 20 if change == "remove" else 22) if change == "append" or i != 5]
    assert_holds(core, left)
    core.settle()
    assert held(core) == held(fresh(left))


def test_erasing_overwrites_every_page():
    core = fresh(range(20))
    core.remove(["r1"])
    core.erase()
    assert not any(page.rows.any() for page in core.pages)


# -- looking -----------------------------------------------------------------------------------------------------


def test_what_a_request_names():
    core = fresh(range(9))
    assert core.named(ids=["r1", "r7", "x"]) == (3, 1, ["r1", "r7"])
    assert core.named(subjects="s1") == (1, 0, ["r1", "r3", "r4", "r7"])
    assert core.named(ids=["r7", "r0", "r7"], subjects=["s1", "nobody"]) == (5, 1, ["r7", "r0", "r1", "r3", "r4"])
    assert core.named(ids=[]) == (0, 0, [])
    core.remove(["r4"])
    assert core.named(ids=["r4"], subjects=["s1"]) == (2, 1, ["r1", "r3", "r7"])


def test_requests_that_name_nothing_or_could_never_match_are_refused():
    core = fresh(range(9))
    with pytest.raises(InputError, match="ids= or subjects="):
        core.named()
    with pytest.raises(InputTypeError, match="this model's ids are strings"):
        core.named(ids=[1])
    with pytest.raises(InputTypeError, match="this model's subjects are strings"):
        core.named(subjects=[b"s1"])
    core.remove([f"r{i}" for i in range(9)])
    assert core.named(ids=[1], subjects=[b"s1"]) == (2, 2, [])  # nothing remembers of what kind they were


def spoil_place(core: CoreRows) -> None:
    core.place["r1"], core.place["r2"] = core.place["r2"], core.place["r1"]


DAMAGE = {
    "an id too many": lambda core: core.place.update(x=core.place["r1"]),
    "an id too few": lambda core: core.place.pop("r1"),
    "two ids swapped": spoil_place,
    "a subject's row too many": lambda core: core.of_subject["s1"].update(r2=None),
    "a subject too few": lambda core: core.of_subject.pop("s1"),
    "a class miscounted": lambda core: core.class_counts.update(a=1),
    "a class too many": lambda core: core.class_counts.update(z=1),
    "a page too many": lambda core: core.pages.append(Page(numbers([50]), *columns([50]), [16])),
    "a page too few": lambda core: core.pages.pop(),
    "a row renamed": lambda core: core.pages[0].ids.__setitem__(1, "x"),
    "a row relabelled": lambda core: core.pages[0].labels.__setitem__(1, "z"),
    "a row of somebody else": lambda core: core.pages[0].subjects.__setitem__(1, "s2"),
    "a name too few": lambda core: core.pages[0].ids.pop(),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("gaps", [False, True])
def test_tables_that_do_not_name_the_rows_are_found(damage, gaps):
    core = fresh(range(12))
    if gaps:
        core.remove(["r3", "r9"])
    assert core.tables_agree()
    DAMAGE[damage](core)
    assert not core.tables_agree()


def test_looking_whether_tables_agree_changes_nothing():
    core = fresh(range(12))
    core.remove(["r3"])
    before = held(core)
    assert core.tables_agree()
    assert held(core) == before
