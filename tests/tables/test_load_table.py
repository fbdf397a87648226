"""The same table from every format, and every kind of column as what it is."""

import bz2
import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from erasable.errors import InputError
from erasable.tables import Table, load_table
from tests.tables.cases import BIG_IDS, COLUMNS, IDS, SUBJECTS, N, X, Y, assert_same, refused, same_array

ROLES = {"label": "label", "id": "id", "subject": "subject"}


def arrow(ids=IDS, subjects=SUBJECTS, y=Y, X=X):
    features = {name: X[:, j] for j, name in enumerate(COLUMNS)}
    return pa.table({"id": ids, **features, "label": y, "subject": subjects})


def parquet(folder, table, **options):
    pq.write_table(table, folder / "small.parquet", **options)
    return folder / "small.parquet"


def csv(folder, text, name="small.csv"):
    (folder / name).write_text(text)
    return folder / name


def test_csv_parquet_and_npz_hold_the_same_table(tmp_path):
    expected = Table(X, Y, IDS, SUBJECTS)
    table = arrow()
    pyarrow.csv.write_csv(table, tmp_path / "arrow.csv")
    table.to_pandas().to_csv(tmp_path / "pandas.csv", index=False)
    table.to_pandas().to_csv(tmp_path / "packed.csv.gz", index=False)
    (tmp_path / "packed.CSV.bz2").write_bytes(bz2.compress((tmp_path / "pandas.csv").read_bytes()))
    pl.from_arrow(table).write_csv(tmp_path / "polars.csv")
    table.to_pandas().to_parquet(tmp_path / "pandas.parquet", index=False)
    pl.from_arrow(table).write_parquet(tmp_path / "polars.parquet")
    parquet(tmp_path, table)
    files = [p for p in tmp_path.iterdir() if p.is_file()]
    assert len(files) == 8
    for file in files:
        found = load_table(file, **ROLES, kinds={"label": int})
        assert_same(found, expected)
        assert found.feature_names == COLUMNS
        assert found.fitted == ""
        assert found.name in file.name


def test_npz_and_svmlight_hold_the_same_table(tmp_path):
    owners = np.arange(N) % 4
    expected = Table(X, Y, BIG_IDS, owners)
    np.savez(tmp_path / "dense.npz", X=X, y=Y, ids=BIG_IDS, subjects=owners)
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_matrix(X))
    np.savez(tmp_path / "sparse_labels.npz", y=Y, ids=BIG_IDS, subjects=owners)
    parquet(tmp_path, arrow(BIG_IDS, owners))
    for name in ("dense", "sparse"):
        found = load_table(tmp_path / f"{name}.npz")
        assert_same(found, expected)
        assert found.name == name
        assert found.ids.dtype == np.int64
    assert_same(load_table(str(tmp_path / "small.parquet"), **ROLES), expected)
    without_ids = Table(X, Y, None, owners)
    dump_svmlight_file(X, Y, str(tmp_path / "rows.svmlight"), query_id=owners, zero_based=False)
    text = (tmp_path / "rows.svmlight").read_bytes()
    (tmp_path / "rows.libsvm.gz").write_bytes(gzip.compress(text))
    (tmp_path / "rows.txt.bz2").write_bytes(bz2.compress(text))
    for name in ("rows.svmlight", "rows.libsvm.gz", "rows.txt.bz2"):
        found = load_table(tmp_path / name, subject="qid")
        assert_same(found, without_ids)
        assert found.y.dtype == np.int64
        assert type(found.X) is sp.csr_array
        assert found.name == "rows"
        assert load_table(tmp_path / name).subjects is None


def test_id_and_subject_may_be_one_column(tmp_path):
    table = load_table(parquet(tmp_path, arrow().drop(["subject"])), id="id", subject="id")
    assert table.ids.tolist() == table.subjects.tolist() == IDS


LABELS = {
    "integers": [0, -5, 2**62],
    "strings": ["no", "yes", "NA"],
    "booleans": [True, False, True],
    "floats": [0.5, -1.0, 2.0],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind(tmp_path, kind):
    y = (LABELS[kind] * N)[:N]
    expected = Table(X, y).y
    table = arrow(y=y).drop(["id", "subject"])
    found = [load_table(parquet(tmp_path, table)).y]
    pyarrow.csv.write_csv(table, tmp_path / "small.csv")
    stated = {"label": type(y[0])}
    found.append(load_table(tmp_path / "small.csv", kinds=stated).y)
    table.to_pandas().to_csv(tmp_path / "pandas.csv", index=False)
    found.append(load_table(tmp_path / "pandas.csv", kinds=stated).y)
    np.savez(tmp_path / "small.npz", X=X, y=np.array(y))
    found.append(load_table(tmp_path / "small.npz").y)
    for labels in found:
        assert same_array(labels, expected)


def test_dictionary_and_view_columns_are_copied_out(tmp_path):
    for kind in (pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.string_view()):
        table = arrow(pa.array(IDS).cast(kind), pa.array(SUBJECTS).cast(kind), pa.array(map(str, Y)).cast(kind))
        found = load_table(parquet(tmp_path, table), **ROLES)
        assert_same(found, Table(X, [str(v) for v in Y], IDS, SUBJECTS))
        assert {type(v) for v in found.ids} == {str}
    numbers = pa.array(BIG_IDS).dictionary_encode()
    assert_same(load_table(parquet(tmp_path, arrow(numbers, numbers)), **ROLES), Table(X, Y, BIG_IDS, BIG_IDS))
    frame = arrow().to_pandas().astype({"id": "category", "label": "category"})
    frame.to_parquet(tmp_path / "pandas.parquet", index=False)
    assert_same(load_table(tmp_path / "pandas.parquet", **ROLES), Table(X, Y, IDS, SUBJECTS))


def test_bytes_can_be_ids(tmp_path):
    names = [i.encode() + b"\0" for i in IDS]
    assert load_table(parquet(tmp_path, arrow(names)), **ROLES).ids.tolist() == names


def test_integer_subjects_may_be_missing(tmp_path):
    owners = [None if i % 3 == 0 else 2**63 - i for i in range(N)]
    assert load_table(parquet(tmp_path, arrow(subjects=owners)), **ROLES).subjects.tolist() == owners
    pyarrow.csv.write_csv(arrow(subjects=owners), tmp_path / "small.csv")
    assert load_table(tmp_path / "small.csv", **ROLES, kinds={"subject": int}).subjects.tolist() == owners
    texts = [None if owner is None else str(owner) for owner in owners]
    assert load_table(tmp_path / "small.csv", **ROLES).subjects.tolist() == texts
    nobody = pa.nulls(N)
    assert load_table(parquet(tmp_path, arrow(subjects=nobody)), **ROLES).subjects.tolist() == [None] * N


NARROW = ["bool", "uint8", "int8", "uint16", "int16", "float16", "float32"]
TYPES = [*NARROW, "int32", "uint32", "int64", "uint64", "float64"]


@pytest.mark.parametrize("kind", TYPES)
def test_every_numeric_type_keeps_its_values(tmp_path, kind):
    whole = np.abs(X * 4).astype(kind)
    narrow = kind in NARROW
    table = arrow(X=whole).drop(["id", "subject"])
    found = load_table(parquet(tmp_path, table))
    assert found.X.dtype == (np.float32 if narrow else np.float64)
    np.testing.assert_array_equal(found.X, whole)
    if kind != "float16":
        pyarrow.csv.write_csv(table, tmp_path / "small.csv")
        np.testing.assert_array_equal(load_table(tmp_path / "small.csv").X, whole)
        sp.save_npz(tmp_path / "sparse.npz", sp.csc_array(whole))
        np.savez(tmp_path / "sparse_labels.npz", y=Y)
        found = load_table(tmp_path / "sparse.npz")
        assert found.X.dtype == (np.float32 if narrow else np.float64)
        np.testing.assert_array_equal(found.X.toarray(), whole)
    np.savez(tmp_path / "dense.npz", X=np.asfortranarray(whole), y=Y)
    found = load_table(tmp_path / "dense.npz")
    assert found.X.dtype == (np.float32 if narrow else np.float64)
    assert found.X.flags.c_contiguous
    np.testing.assert_array_equal(found.X, whole)


def test_types_are_mixed_without_loss(tmp_path):
    mixed = pa.table(
        {
            "flag": [True, False],
            "byte": pa.array([0, 255], pa.uint8()),
            "long": [2**53, -(2**53)],
            "price": pa.array(["1.25", "-3.50"]).cast(pa.decimal128(9, 2)),
            "label": [0, 1],
        }
    )
    found = load_table(parquet(tmp_path, mixed))
    assert found.X.tolist() == [[1, 0, 2**53, 1.25], [0, 255, -(2**53), -3.5]]


def test_names_of_folders_are_no_columns(tmp_path):
    folder = tmp_path / "year=2020"
    folder.mkdir()
    assert load_table(parquet(folder, arrow()), **ROLES).feature_names == COLUMNS


def test_ids_and_labels_of_csv_are_spelt_as_they_stand(tmp_path):
    numbers = {"id": int, "label": float}
    file = csv(tmp_path, "id,a,label\n007,1,01\n7,2,1\n")
    table = load_table(file, id="id")
    assert table.ids.tolist() == ["007", "7"]
    assert table.y.tolist() == ["01", "1"]
    with refused(InputError, "1 of 2 ids are not integers", "'id'"):
        load_table(file, id="id", kinds={"id": int})
    file = csv(tmp_path, f"id,a,label\n{2**63 - 1},1,0\n{-(2**63)},2,1.5\n0,2,-1e3\n")
    assert load_table(file, id="id").ids.tolist() == [str(2**63 - 1), str(-(2**63)), "0"]
    table = load_table(file, id="id", kinds=numbers)
    assert table.ids.tolist() == [2**63 - 1, -(2**63), 0]
    assert table.y.tolist() == [0, 1.5, -1000]
    file = csv(tmp_path, f"id,a,label\n{2**63},1,0\n-0,2,1\n{'9' * 5000},2,1\n")
    assert load_table(file, id="id").ids.tolist() == [str(2**63), "-0", "9" * 5000]
    with refused(InputError, "3 of 3 ids are not integers"):
        load_table(file, id="id", kinds={"id": int})
    assert load_table(csv(tmp_path, "id,a,label\n2020-01-01, 1,true \n"), id="id").y.tolist() == ["true "]


def test_csv_with_quotes_line_breaks_and_a_byte_order_mark(tmp_path):
    file = csv(tmp_path, '\ufeffid,"a,b",label\r\n"x\ny",1.5,no\r\n"NA",-2e-3,"yes, sir"\r\n')
    table = load_table(file, id="id")
    assert table.ids.tolist() == ["x\ny", "NA"]
    assert table.y.tolist() == ["no", "yes, sir"]
    assert table.feature_names == ("a,b",)
    assert table.X.tolist() == [[1.5], [-0.002]]


def test_csv_columns_whose_kind_shows_late(tmp_path):
    """pyarrow guesses from the first megabyte; integers there and fractions later are one numeric column."""
    rows = 120_000
    text = "a,b,label\n" + "1,true,0\n" * rows + "0.5,false,x\n"
    table = load_table(csv(tmp_path, text))
    assert table.X[-1].tolist() == [0.5, 0]
    assert table.X[0].tolist() == [1, 1]
    assert table.y[-1] == "x"
    assert table.y[0] == "0"


def test_labels_of_half_a_split(tmp_path):
    sp.save_npz(tmp_path / "half_test.npz", sp.csr_array(X))
    np.savez(tmp_path / "half_labels.npz", y_train=Y[:2], y_test=Y, ids_test=IDS)
    table = load_table(tmp_path / "half_test.npz")
    assert_same(table, Table(X, Y, IDS))
    assert table.name == "half"


def test_duplicate_entries_of_sparse_rows_are_summed(tmp_path):
    twice = sp.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([2, 2, 0]), np.array([0, 2, 3])), shape=(2, 3))
    sp.save_npz(tmp_path / "s.npz", twice)
    np.savez(tmp_path / "s_labels.npz", y=[0, 1])
    table = load_table(tmp_path / "s.npz")
    assert table.X.toarray().tolist() == [[0, 0, 3], [4, 0, 0]]
    assert table.X.has_canonical_format


def test_svmlight_labels_that_are_no_integers_stay_floats(tmp_path):
    (tmp_path / "r.txt").write_text("0.5 1:1\n-1 2:3 # comment\n")
    table = load_table(tmp_path / "r.txt")
    assert table.y.tolist() == [0.5, -1]
    assert table.X.toarray().tolist() == [[1, 0], [0, 3]]


def test_pandas_index_that_is_named_can_be_the_id(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "label": [0, 1]}, index=pd.Index(["x", "y"], name="key"))
    frame.to_parquet(tmp_path / "f.parquet")
    assert load_table(tmp_path / "f.parquet", id="key").ids.tolist() == ["x", "y"]
    frame.to_csv(tmp_path / "f.csv")
    assert load_table(tmp_path / "f.csv", id="key").ids.tolist() == ["x", "y"]


@pytest.mark.parametrize("kind", ["uint8", "int16", "uint64", "int64"])
def test_integer_ids_of_every_width_become_one_kind(tmp_path, kind):
    numbers = np.arange(N).astype(kind)
    np.savez(tmp_path / "d.npz", X=X, y=Y, ids=numbers, subjects=numbers)
    parquet(tmp_path, arrow(numbers, numbers))
    for table in (load_table(tmp_path / "d.npz"), load_table(tmp_path / "small.parquet", **ROLES)):
        assert table.ids.dtype == table.subjects.dtype == np.int64
        assert table.ids.tolist() == list(range(N))


def test_line_breaks_in_cells_wherever_a_block_ends(tmp_path):
    cells = [f"{'x' * (i % 50)}\n\n{i}" for i in range(40_000)]
    file = csv(tmp_path, "id,a,label\n" + "".join(f'"{c}",{i},0\n' for i, c in enumerate(cells)))
    assert file.stat().st_size > 2**20
    table = load_table(file, id="id")
    assert table.ids.tolist() == cells
    assert table.X[:, 0].tolist() == list(range(40_000))
