"""Rows of a file, looked for in a folder."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from erasable import ErasableClassifier
from erasable.errors import ErasableError, InputError, InputTypeError
from erasable.operations.scan import scan_for

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 8)).astype(np.float32)
Y = X[:, 0] > 0
IDS = np.array([f"row-{i:06d}" for i in range(300)], dtype=object)


@pytest.fixture
def folder(tmp_path):
    """A model, its training table as Parquet, and the table of rows that were forgotten."""
    clf = ErasableClassifier(threshold=0.02).fit(X, Y, ids=IDS)
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
    clf = ErasableClassifier(threshold=1e-6, feature_names=names)
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
    clf = ErasableClassifier(threshold=1e-6, feature_names=list("abcdefghi"))
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
