"""Rows of a file, looked for in a folder."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from erasable import ErasableClassifier
from erasable.errors import ErasableError, InputError, InputTypeError
from erasable.operations.scan import scan_for, spellings
from erasable.schemas import Schema, canonical_text

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 8)).astype(np.float32)
Y = X[:, 0] > 0
IDS = np.array([f"row-{i:06d}" for i in range(300)], dtype=object)


@pytest.fixture
def folder(tmp_path):
    """A model, its training table as Parquet, and the table of rows that were forgotten."""
    clf = ErasableClassifier(threshold=0.02, feature_map=None).fit(X, Y, ids=IDS)
    gone = clf.core_ids_[:5]
    at = [int(np.flatnonzero(g == IDS)[0]) for g in gone]
    (tmp_path / "model.erasable").write_bytes(clf._model.snapshot().to_bytes())
    tables(tmp_path, at)
    return tmp_path, clf, gone


def tables(folder, at):
    columns = {f"f{j}": X[at, j] for j in range(8)}
    pq.write_table(pa.table({**columns, "row_id": IDS[at].tolist()}), folder / "gone.parquet")
    pq.write_table(pa.table({**columns, "row_id": IDS[at].tolist(), "label": Y[at]}), folder / "labelled.parquet")
    lines = [",".join(["row_id", *columns]), *(",".join([IDS[i], *(repr(float(v)) for v in X[i])]) for i in at)]
    (folder / "gone.csv").write_text("\n".join(lines) + "\n")
    np.savez(folder / "gone.npz", X=X[at], y=Y[at], ids=IDS[at].astype(str))


@pytest.mark.parametrize("table", ["gone.parquet", "labelled.parquet", "gone.csv", "gone.npz"])
def test_rows_of_any_file_are_found_until_they_are_forgotten(folder, table):
    where, clf, gone = folder
    named = {} if table.endswith(".npz") else {"id": "row_id"}
    others = [t for t in ("gone.parquet", "labelled.parquet", "gone.csv", "gone.npz") if t != table]
    before = scan_for(where, where / table, exclude=others, **named)
    assert {r.file for r in before.remains} == {"model.erasable"}
    assert {(r.row, r.what) for r in before.remains} == {(i, w) for i in range(5) for w in ("id", "grid row")}
    assert sorted(before.skipped) == sorted([table, *others])
    clf.forget(ids=gone)
    (where / "model.erasable").write_bytes(clf._model.snapshot().to_bytes())
    assert scan_for(where, where / table, exclude=others, **named).clean


def test_other_tables_are_looked_into_or_said_not_to_be(folder):
    where, clf, gone = folder
    clf.forget(ids=gone)
    (where / "model.erasable").write_bytes(clf._model.snapshot().to_bytes())
    report = scan_for(where, where / "gone.parquet", id="row_id")
    assert set(report.not_looked_into) == {"gone.npz"}
    assert "gone.csv" in {r.file for r in report.remains}  # its ids are text
    inside = {(r.what, r.offset, r.row) for r in report.remains if r.file == "labelled.parquet" and r.length == 1}
    assert inside == {(what, i, i) for i in range(5) for what in ("row in Parquet", "id in Parquet")}


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_parquet_file_is_compared_by_the_names_of_its_columns(tmp_path, compression, kind):
    """Whatever stands between the features, in whichever order; rows of other ids are twins."""
    rows = np.random.default_rng(3).integers(0, 3, (40, 4)).astype(kind)  # too even to be told as bytes
    ids = [f"v{i}" for i in range(40)]  # too short to be told as text
    rows[30] = rows[4]
    whole = pd.DataFrame({"d": rows[:, 3], "who": ids, "b": rows[:, 1], "note": "x", "a": rows[:, 0], "c": rows[:, 2]})
    whole[["who", "a", "b", "c", "d"]].iloc[[4, 9]].to_parquet(tmp_path / "gone.parquet", index=False)
    other = tmp_path / "data" / "all.parquet"
    other.parent.mkdir()
    options = {"compression": compression, "index": False, "row_group_size": 7}
    whole.to_parquet(other, **options)
    found = scan_for(tmp_path / "data", tmp_path / "gone.parquet", id="who")
    assert {(r.what, r.offset, r.row) for r in found.remains} == {
        (what, at, row) for at, row in ((4, 0), (9, 1)) for what in ("row in Parquet", "id in Parquet")
    }
    assert ("row in Parquet", 30, 0) in {(t.what, t.offset, t.row) for t in found.twins}
    assert found.not_looked_into == ()
    whole.drop([4, 9]).to_parquet(other, **options)
    after = scan_for(tmp_path / "data", tmp_path / "gone.parquet", id="who")
    assert after.clean
    assert after.twins
    unknown = scan_for(tmp_path / "data", tmp_path / "gone.parquet", ignore=["who"])
    assert {r.what for r in unknown.remains} == {"row in Parquet"}  # without ids, twins cannot be told apart


def test_a_label_that_is_taken_for_a_feature_does_not_pass_as_clean(folder):
    where, _, _ = folder
    table = pq.read_table(where / "labelled.parquet")
    pq.write_table(table.rename_columns([*table.column_names[:-1], "churned"]), where / "churned.parquet")
    exclude = ["gone*", "labelled*"]
    blind = scan_for(where, where / "churned.parquet", id="row_id", exclude=exclude)
    assert blind.ids_only == ("model.erasable",)
    sound = scan_for(where, where / "churned.parquet", label="churned", id="row_id", exclude=exclude)
    assert sound.ids_only == ()
    assert {r.what for r in sound.remains} == {"id", "grid row"}


def test_sparse_rows_are_looked_for_as_dense_ones(tmp_path):
    rows = sp.random_array((4, 50), density=0.5, rng=np.random.default_rng(1), format="csr")
    (tmp_path / "data").mkdir()
    sp.save_npz(tmp_path / "rows.npz", rows)
    (tmp_path / "data" / "dump").write_bytes(b"abc" + rows.toarray()[2].tobytes())
    report = scan_for(tmp_path / "data", tmp_path / "rows.npz")
    assert [(r.row, r.offset) for r in report.remains] == [(2, 3)]


def test_what_is_not_there_is_refused_before_anything_is_read(folder):
    where, _, _ = folder
    with pytest.raises(InputError, match="cannot be looked through"):
        scan_for(where / "nowhere", where / "gone.parquet", id="row_id")
    with pytest.raises(ErasableError, match=r"nothing\.parquet"):
        scan_for(where, where / "nothing.parquet")
    with pytest.raises(InputError, match="no column 'who'"):
        scan_for(where, where / "gone.parquet", id="who")


def test_the_models_say_which_columns_are_features(tmp_path):
    """A table may hold more: with the model's own columns, in its order, nothing has to be named."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.standard_normal((50, 9)), columns=list("abcdefghi"))
    frame["day"], frame["id"] = "monday", [f"visit-{i:03d}" for i in range(50)]
    names = list("cabdefghi")
    clf = ErasableClassifier(threshold=1e-6, feature_names=names, feature_map=None)
    clf.fit(frame[names].to_numpy(), rng.integers(2, size=50), ids=frame["id"].tolist()).save(tmp_path / "m.erasable")
    frame[:5].to_parquet(tmp_path / "gone.parquet")
    found = scan_for(tmp_path, tmp_path / "gone.parquet", id="id")
    assert {r.row for r in found.remains if r.what == "grid row"} == set(range(5))
    clf.forget(ids=frame["id"][:5].tolist())
    clf.save(tmp_path / "m.erasable")
    assert scan_for(tmp_path, tmp_path / "gone.parquet", id="id").clean
    (tmp_path / "m.erasable").unlink()
    with pytest.raises(InputTypeError):
        scan_for(tmp_path, tmp_path / "gone.parquet", id="id")
    assert scan_for(tmp_path, tmp_path / "gone.parquet", id="id", ignore=["day"]).rows == 5


def test_what_the_models_say_goes_before_what_is_ignored(tmp_path):
    """Also where the table has the index of pandas, which no option named."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.standard_normal((50, 9)), columns=list("abcdefghi"), index=np.arange(50) * 3)
    frame["day"], frame["id"] = "monday", [f"visit-{i:03d}" for i in range(50)]
    clf = ErasableClassifier(threshold=1e-6, feature_names=list("abcdefghi"), feature_map=None)
    clf.fit(frame[list("abcdefghi")].to_numpy(), rng.integers(2, size=50), ids=frame["id"].tolist())
    clf.save(tmp_path / "m.erasable")
    frame[:5].to_parquet(tmp_path / "gone.parquet")
    found = scan_for(tmp_path, tmp_path / "gone.parquet", id="id", ignore=["day", "a"])
    assert {r.row for r in found.remains if r.what == "grid row"} == set(range(5))
    frame[:5].to_csv(tmp_path / "gone.csv.gz")
    found = scan_for(tmp_path, tmp_path / "gone.csv.gz", id="id")
    assert {r.row for r in found.remains if r.what == "grid row"} == set(range(5))
    (tmp_path / "m.erasable").unlink()
    with pytest.raises(InputError, match=r"row index of pandas among its columns, '__index_level_0__': .*ignore="):
        scan_for(tmp_path, tmp_path / "gone.parquet", id="id", ignore=["day"])
    found = scan_for(tmp_path, tmp_path / "gone.parquet", id="id", ignore=["day", "__index_level_0__"])
    assert found.rows == 5


def table_of(folder, text, name="gone.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize(
    "left",
    [
        "amount,age\n2156461,39\n",
        '{"amount": 2156461.0, "age": 39}',
        "paid 2156461.00 today",
        "amount=2156461;",
        "x\t1234.5625\ty",
        '"1234.5625"',
        "[1, 1234.5625, 3]",
        "-0.0001234567\n",
        "-0.0001234567 and so on",
        "(-0.0001234567)",
    ],
)
def test_numbers_that_tell_a_row_are_found_as_text(tmp_path, left):
    table = table_of(tmp_path, "a,b,c\n2156461,39,0.5\n7,1234.5625,-0.0001234567\n")
    (tmp_path / "left.txt").write_text(left)
    report = scan_for(tmp_path, table)
    assert {(r.file, r.what) for r in report.remains} == {("left.txt", "number")}
    assert {r.row for r in report.remains} == {0 if "2156" in left else 1}
    assert report.too_short["numbers"] == 3


@pytest.mark.parametrize(
    "left",
    [
        "2156461.5 and 0.2156461 and 12156461 and 21564610 and 2156461e3 and -2156461 and v2156461",
        "39 0.5 7 0.50 39.0 7.0",
        "1234.56251 1234.562 11234.5625 -1234.5625 1234.5625.1",
        "0.0001234567 -0.00012345678 -0.000123456",
    ],
)
def test_longer_and_shorter_numbers_are_others(tmp_path, left):
    table = table_of(tmp_path, "a,b,c\n2156461,39,0.5\n7,1234.5625,-0.0001234567\n")
    (tmp_path / "left.txt").write_text(left)
    assert scan_for(tmp_path, table).clean


@given(
    value=st.one_of(
        st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e6, 1e6).map(float)
    )
)
def test_every_spelling_reads_back_as_the_number(value):
    for text in spellings(value):
        with np.errstate(over="ignore"):
            assert float(text) == float(value) or np.float32(float(text)) == np.float32(float(value)) != np.inf
    assert canonical_text(value) in spellings(value)
    if float(value).is_integer() and 0 < abs(value) < 2**53:
        assert {str(int(value)), f"{int(value)}.0", f"{int(value)}.00"} <= spellings(value)


def test_float32_numbers_are_found_as_their_short_and_their_long_texts(tmp_path):
    value = np.float32(123.45678)
    pq.write_table(
        pa.table({"x": pa.array([value, 0.1], pa.float32()), "y": pa.array([1.5, 2.5], pa.float32())}),
        tmp_path / "t.parquet",
    )
    for written in (str(value), repr(float(value))):
        (tmp_path / "left.log").write_text(f"value {written}\n")
        report = scan_for(tmp_path, tmp_path / "t.parquet")
        assert [(r.what, r.row) for r in report.remains] == [("number", 0)]
        assert report.too_short["numbers"] == 3


def test_of_each_row_some_numbers_are_looked_for_and_the_rest_is_counted(tmp_path):
    wide = RNG.standard_normal((4, 50))
    np.savez(tmp_path / "t.npz", X=wide, y=np.zeros(4))
    (tmp_path / "left.csv").write_text(",".join(map(repr, wide[2].tolist())))
    report = scan_for(tmp_path, tmp_path / "t.npz")
    assert {(r.what, r.row) for r in report.remains} == {("number", 2)}
    assert report.found == 16
    assert report.too_short["cells"] == 4 * 34


SCHEMA = """
version = 1
[columns.row_id]
role = "id"
[columns.who]
role = "subject"
[columns.phone]
role = "ignore"
[columns.ticket]
kind = "category"
hashed = 8
[columns.town]
kind = "category"
values = ["Bern", "Winterthur"]
[columns.fare]
kind = "number"
range = [0, 100]
[columns.joined]
kind = "date"
parts = ["month"]
[columns.note]
kind = "text"
words = [1, 1]
places = 8
"""
RAW = """row_id,who,phone,ticket,town,fare,joined,note
r1,person-1,+41 44 555 01 02,A/5 21171,Winterthur,71.283,2020-01-31,has a red bicycle
r2,person-2,NA,3101282,Little Snoring,7.25,2020-01-31,
"""


@pytest.mark.parametrize(
    ("left", "what", "row"),
    [
        ("call +41 44 555 01 02 now", "cell", 0),
        ("ticket A/5 21171.", "cell", 0),
        ("ticket 3101282.", "number", 1),
        ('{"ticket": "3101282"}', "number", 1),
        ("She has a red bicycle!", "cell", 0),
        ("town: Little Snoring", "cell", 1),
        ("in Winterthur on 2020-01-31 for 71.283 or 7.25, person-1", None, None),
        ("in Bern, NA", None, None),
    ],
)
def test_telling_cells_of_raw_tables_are_found(tmp_path, left, what, row):
    table = table_of(tmp_path, RAW)
    (tmp_path / "left.txt").write_text(left)
    report = scan_for(tmp_path, table, schema=Schema.parse(SCHEMA), id="row_id")
    assert [(r.what, r.row) for r in report.remains] == ([] if what is None else [(what, row)])
    assert {k: report.too_short[k] for k in ("texts", "numbers", "cells")} == {"texts": 0, "numbers": 2, "cells": 0}


def test_cells_of_parquet_tables_are_found_like_those_of_csv(tmp_path):
    table = pa.csv.read_csv(table_of(tmp_path, RAW))
    pq.write_table(table, tmp_path / "gone.parquet")
    (tmp_path / "gone.csv").unlink()
    (tmp_path / "left.txt").write_text("Little Snoring, 3101282, A/5 21171, 7.25")
    report = scan_for(tmp_path, tmp_path / "gone.parquet", schema=Schema.parse(SCHEMA), id="row_id")
    assert sorted((r.what, r.row) for r in report.remains) == [("cell", 0), ("cell", 1), ("number", 1)]
