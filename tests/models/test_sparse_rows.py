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
from erasable.models import rows as rows_module
from erasable.models.rows import CoreRows
from erasable.models.sparse_rows import SparseRows

GRID = Grid(40)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Pages of five rows."""
    monkeypatch.setattr(rows_module, "_PAGE", 5)


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


def held(core: CoreRows) -> bytes:
    """All that is held."""
    return pickle.dumps([(vars(p), core._unsettled) for p in core.pages])


def is_sparse(core: CoreRows) -> bool:
    kinds = {type(page.rows) for page in core.pages}
    assert len(kinds) < 2
    return kinds == {SparseRows}


def rows_of(core: CoreRows) -> Any:
    rows = core.rows()
    return dense_rows(rows, GRID) if sp.issparse(rows) else rows


THIN = [i for i in range(40) if i % 5 != 4]


def test_the_layout_is_that_of_the_rule():
    assert is_sparse(fresh(THIN))
    assert not is_sparse(fresh(range(4, 40, 5)))
    assert fresh(THIN).pages[0].rows.columns.dtype == np.uint8


def test_a_row_that_leaves_is_overwritten_in_place():
    core = fresh(THIN)
    page, i = core.place["r2"]
    values, columns = page.rows.values, page.rows.columns
    entries = slice(*page.rows.starts[i : i + 2].tolist())
    assert values[entries].all()
    core.remove(["r2"])
    assert page.rows.values is values
    assert not values[entries].any()
    assert not columns[entries].any()
    assert values.any()


def test_settling_and_erasing_overwrite_what_was_held():
    core = fresh(THIN)
    core.remove(["r2"])
    old = [page.rows for page in core.pages]
    arrays = [(rows.values, rows.columns) for rows in old]
    core.settle()
    assert not any(a.any() or b.any() for a, b in arrays)
    new = [page.rows for page in core.pages]
    core.erase()
    assert not any(rows.any() for rows in new)


@pytest.mark.parametrize("asked", [["r1"], ["r4"], ["r2", "r4", "r0", "r9", "r1"], ["r6", "r2"], []])
def test_rows_are_gathered_from_pages_of_either_layout(asked):
    core = fresh(THIN[:12])
    core.append([whole([4, 9])], *names([4, 9]))
    rows, labels = core.gather(asked)
    at = [int(key[1:]) for key in asked]
    assert sp.issparse(rows) == (len(asked) > 1 and not {"r4", "r9"} & set(asked))
    assert (dense_rows(rows, GRID) if sp.issparse(rows) else rows).tolist() == whole(at).tolist()
    assert labels == names(at)[2]


@given(st.data())
def test_any_history_leaves_what_the_surviving_rows_alone_would(data):
    core, alive, n = fresh(range(0)), [], 0
    for _ in range(data.draw(st.integers(1, 8))):
        if alive and data.draw(st.booleans()):
            gone = data.draw(st.lists(st.sampled_from(alive), unique=True, max_size=len(alive)))
            core.remove([f"r{i}" for i in gone])
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
        if data.draw(st.booleans()):
            core.settle()
            assert held(core) == held(fresh(alive))
    core.settle()
    assert held(core) == held(fresh(alive))
