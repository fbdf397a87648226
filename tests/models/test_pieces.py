"""Core rows of which only what is not zero is held: as the dense ones in all that can be asked, and without history."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from erasable.core.grid import Grid, dense_rows, sparse_rows
from erasable.models.core_rows import CoreRows

GRID = Grid(40)


def whole(index: Any, thin: int = 3) -> Any:
    """A dense grid row for each number: of every fifth all features are there, of the others a few, of some none."""
    rows = np.zeros((len(index), 41), dtype=np.int16)
    rows[:, -1] = GRID.constant
    for row, i in zip(rows, index, strict=True):
        at = range(40) if i % 5 == 4 else [(7 * i + 11 * k) % 40 for k in range(i % thin)]
        row[list(at)] = [100 + i + k for k in range(len(at))]
    return rows


def names(index: Any) -> tuple[list[str], list[None], list[str]]:
    return [f"r{i}" for i in index], [None] * len(index), ["ab"[i % 2] for i in index]


def fresh(index: Any) -> CoreRows:
    return CoreRows(whole(index), *names(index), GRID)


def leave(core: CoreRows, keys: list[str]) -> None:
    core.remove(core.find(keys))


def held(core: CoreRows) -> Any:
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
    assert is_sparse(fresh(THIN))
    assert not is_sparse(fresh(range(4, 40, 5)))
    assert fresh(THIN).place["r2"].numbers == bytes([14, 25]) + np.array([102, 103], np.int16).tobytes()


def test_rows_that_leave_are_overwritten():
    core = fresh(THIN)
    pieces = {row.id: row.numbers for row in core.find(core.ids())}
    assert any(pieces["r2"])
    leave(core, ["r2"])
    assert not any(pieces["r2"])
    assert all(core.place[key].numbers is pieces[key] for key in core.ids())  # the others stay where they are
    core.erase()
    assert not any(map(any, pieces.values()))


@pytest.mark.parametrize("form", [lambda rows: rows, lambda rows: sparse_rows(rows, GRID)])
def test_rows_are_overwritten_where_they_came_from(form):
    given = form(whole(THIN))
    core = CoreRows(given, *names(THIN), GRID)
    assert not (given.data if sp.issparse(given) else given).any()
    assert rows_of(core).tolist() == whole(THIN).tolist()


@pytest.mark.parametrize("asked", [["r1"], ["r2"], ["r4"], ["r2", "r0", "r1"], ["r2", "r4", "r0", "r1"], ["r6", "r2"]])
@pytest.mark.parametrize("sparse", [True, False])
def test_rows_are_gathered_from_either_layout(asked, sparse):
    core = fresh([*THIN[:12], 4] if sparse else [*range(10), 14, 19, 24])
    assert is_sparse(core) == sparse
    rows, labels, weights = core.gather(core.find(asked))
    at = [int(key[1:]) for key in asked]
    assert sp.issparse(rows) == (sparse and len(asked) > 1)
    assert (dense_rows(rows, GRID) if sp.issparse(rows) else rows).tolist() == whole(at).tolist()
    assert (labels, weights) == (names(at)[2], [16] * len(at))


def test_rows_turn_to_the_other_layout_as_soon_as_the_rule_says_so():
    """What they were held as is overwritten."""
    core = fresh([*THIN[:6], 4])
    assert is_sparse(core)
    pieces = [row.numbers for row in core.find(core.ids())]
    core.append([whole([9, 14])], *names([9, 14]))
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
    core = CoreRows(rows.copy(), *names(THIN), GRID)
    assert not is_sparse(core)
    assert core.rows().tolist() == rows.tolist()
    leave(core, [f"r{THIN[3]}"])
    assert is_sparse(core)


@given(st.data())
def test_any_history_leaves_what_the_surviving_rows_alone_would(data):
    core, alive, n = fresh(range(0)), [], 0
    for _ in range(data.draw(st.integers(1, 8))):
        if alive and data.draw(st.booleans()):
            gone = data.draw(st.lists(st.sampled_from(alive), unique=True, max_size=len(alive)))
            leave(core, [f"r{i}" for i in gone])
            alive = [i for i in alive if i not in gone]
        else:
            more = range(n, n + data.draw(st.integers(1, 9)))
            form = data.draw(st.sampled_from([lambda rows: rows, lambda rows: sparse_rows(rows, GRID)]))
            batches = [more[low : low + 4] for low in range(0, len(more), 4)]
            core.append([form(whole(batch)) for batch in batches], *names(more))
            alive, n = [*alive, *more], more.stop
        assert core.ids() == [f"r{i}" for i in alive]
        assert rows_of(core).tolist() == whole(alive).tolist()
        assert core.tables_agree()
        assert held(core) == held(fresh(alive))
        if data.draw(st.booleans()):
            core = pickle.loads(pickle.dumps(core))
            assert held(core) == held(fresh(alive))
