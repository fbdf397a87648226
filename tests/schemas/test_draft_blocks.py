"""Drafts of tables in blocks: those of the whole table, with little memory."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable.errors import InputError, InputTypeError
from erasable.operations.schemas import draft_table, summarize_table
from erasable.schemas import draft_schema
from erasable.schemas.statistics import TableStatistics
from erasable.tables import stream_table
from tests.schemas.raw import table, write
from tests.schemas.test_draft import K, tables

SUBJECTS = (None, "person", ("person", "other"), "several")


def shared():
    """The raw table with a second column of subjects, one of lists, one of vectors and a number to predict."""
    n = 240
    return table(
        other=[None if i % 7 == 0 else f"person-{i % 90:03d}" for i in range(n)],
        several=[[f"person-{(i + j) % 80:03d}" for j in range(i % 4)] for i in range(n)],
        vector=[None if i % 5 == 0 else [0.1] * 3 for i in range(n)],
        price=[i % 31 * 7.5 for i in range(n)],
    )


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("rows", [1, 37, 239])
def test_blocks_of_any_size_give_one_draft(subject, rows):
    found = shared()
    unused = [c for c in ("person", "other", "several") if c not in (subject, *(subject or ()))]
    options = {"subject": subject or (), "target": "price", "ignore": unused, "k": 5}
    whole = draft_schema(found, **options)
    blocks = draft_schema((found.slice(low, rows) for low in range(0, 240, rows)), **options)
    assert blocks.schema == whole.schema
    assert blocks.margins == whole.margins


@settings(max_examples=40, deadline=None)
@given(tables(), st.integers(1, 9))
def test_so_they_do_whatever_the_cells_are(found, rows):
    options = {"label": "y", "subject": "who", "k": K}
    try:
        whole = draft_schema(found, **options)
    except InputError:
        return
    blocks = draft_schema((found[low : low + rows] for low in range(0, len(found), rows)), **options)
    assert (blocks.schema, blocks.margins) == (whole.schema, whole.margins)


@settings(max_examples=40, deadline=None)
@given(tables())
def test_rows_without_a_name_are_subjects_of_their_own(found):
    found = found.drop(columns="who")
    alone = draft_schema(found, label="y", k=K)
    named = draft_schema(found.assign(who=range(len(found))), label="y", subject="who", k=K)
    assert [c for c in named.schema.columns if c.name != "who"] == list(alone.schema.columns)
    assert named.margins == alone.margins


def test_a_subject_whose_name_looks_missing_is_one():
    """In a table of 300 rows, 250 are of somebody called NA: they count once."""
    found = {"town": ["Rome"] * 250 + ["Bern"] * 50, "who": ["NA"] * 250 + [f"p{i}" for i in range(50)]}
    schema = draft_schema(found, subject="who", k=5).schema
    assert schema.by_name["town"].values == ("Bern",)


def test_files_are_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setitem(stream_table.__kwdefaults__, "block_bytes", 256 * 50)
    monkeypatch.setattr("erasable.tables.csv_stream.TEXT_BLOCK", 3000)
    found = table()
    whole = draft_schema(found, label="outcome", id="row_id", subject="person", k=5)
    for form in ("raw.csv", "raw.csv.gz", "raw.parquet"):
        path = write(found, str(tmp_path / form))
        draft = draft_table(path, label="outcome", id="row_id", subject=["person"], k=5)
        assert (draft.schema, draft.margins) == (whole.schema, whole.margins)
    assert {c.name: c.different for c in summarize_table(path)}["town"] == 4


def test_no_row_is_held_where_rows_are_subjects_of_their_own():
    """What is kept of a column is as large as its different cells are many."""
    block = pa.table({"town": ["Bern", "Oslo"] * 500, "age": np.arange(1000) % 60})
    statistics = TableStatistics((block for _ in range(300)), {}, lambda name: False, ())
    assert statistics.n_subjects == 300_000
    assert len(statistics.column("age", 20).parts[0].alone) == 60
    kept = statistics._columns["age"]
    assert kept.codes is None
    assert len(kept.row_counts) == 60


def test_cells_of_two_kinds_in_one_column_are_refused(tmp_path):
    days = pa.table({"x": [datetime.date(2020, 1, 1)] * 60, "y": ["a", "b"] * 30})
    words = pa.table({"x": ["monday"] * 60, "y": ["a", "b"] * 30})
    with pytest.raises(InputTypeError, match="column 'x' holds dates in some rows and text in others"):
        draft_schema(iter([days, words]))
    for name, part in (("a.parquet", days), ("b.parquet", words)):
        pq.write_table(part, tmp_path / name)
    with pytest.raises(
        InputError, match=r"the type of 'x' changes between files, from dates in a.parquet to texts in b"
    ):
        draft_table(tmp_path / "*.parquet")


def test_columns_that_can_be_no_features_are_ignored_and_those_with_a_role_not_looked_at():
    odd = pa.table({"x": ["a", "b"] * 30, "place": [{"town": "Bern"}] * 60, "names": [["ann"]] * 60})
    draft = draft_schema(odd)
    assert {c.name: getattr(c, "role", "") for c in draft.schema.columns} == {
        "x": "",
        "place": "ignore",
        "names": "ignore",
    }
    roles = {"row_id": "id", "note": "ignore", "outcome": "label"}
    statistics = TableStatistics([table()], roles, lambda name: False, ())
    assert [name for name in ("row_id", "note", "outcome", "town") if name in statistics] == ["outcome", "town"]
