"""Files that cannot be used: a clear error that quotes no entry, whatever is wrong with them."""

import datetime
import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from erasable.errors import ConfigurationError, ErasableError, InputError, InputTypeError
from erasable.tables import Dialect, Table, load_table, read_keys, stream_table
from erasable.tables.reading import read_or_refuse
from tests.tables.cases import IDS, SECRET, SECRET_TEXT, SUBJECTS, N, X, Y, assert_same, refused

DATES = [datetime.date(2020, 1, 1)] * N
BASE = {"a": X[:, 0], "b": np.full(N, SECRET), "label": Y, "id": IDS}


def write(folder, form, columns):
    table = pa.table(columns)
    file = folder / f"small.{form}"
    (pq.write_table if form == "parquet" else pyarrow.csv.write_csv)(table, file)
    return file


def with_gap(values, gap=None):
    return [gap if i in (2, 5) else v for i, v in enumerate(values)]


BAD_COLUMNS = {
    "text": ({"b": IDS}, InputTypeError, ("'b'", "numeric", "string", "public")),
    "dates": ({"b": DATES}, InputTypeError, ("'b'", "date32")),
    "times": ({"b": [datetime.datetime(2020, 1, 1, 5)] * N}, InputTypeError, ("'b'", "timestamp")),
    "missing": ({"b": with_gap([SECRET] * N)}, InputError, ("2 entries of 'b'", "missing")),
    "missing booleans": ({"b": with_gap([True] * N)}, InputError, ("2 entries of 'b'",)),
    "NaN": ({"b": with_gap([SECRET] * N, np.nan)}, InputError, ("2 entries of 'b'",)),
    "infinity": ({"b": with_gap([SECRET] * N, -np.inf)}, InputError, ("2 entries of 'b'", "not finite")),
    "two columns": ({"a": [np.nan] * N, "b": [np.inf] * N}, InputError, ("12 entries of 'a', 12 entries of 'b' are",)),
    "twelve columns": (
        {f"f{i}": [np.nan] * N for i in range(12)},
        InputError,
        ("12 entries of 'f9' and some of 2 other columns are",),
    ),
    "texts and dates": (
        {"a": IDS, "b": DATES},
        InputTypeError,
        ("2 columns must", "'a' (string)", "'b' (date32", "out"),
    ),
    "nothing at all": ({"b": pa.nulls(N)}, InputError, ("12 entries of 'b'",)),
    "label missing": ({"label": with_gap([SECRET] * N)}, InputError, ("2 of 12 labels", "'label'")),
    "text label missing": ({"label": with_gap(IDS)}, InputError, ("2 of 12 labels",)),
    "id missing": ({"id": with_gap(IDS)}, InputError, ("2 of 12", "'id'", "every row")),
    "integer id missing": ({"id": with_gap([7654321] * N)}, InputError, ("2 of 12", "'id'")),
    "no column of labels": ({"label": None}, InputError, ("no column 'label'", "'a', 'b', 'id'", "label=")),
    "no column of ids": ({"id": None}, InputError, ("no column 'id'", "'a', 'b', 'label'")),
    "no features": ({"a": None, "b": None}, InputError, ("no feature columns",)),
    "no rows": ({k: pa.array([], pa.float64()) for k in BASE}, InputError, ("no rows",)),
    "many columns": ({"id": None, **{f"f{i}": Y for i in range(20)}}, InputError, ("and 13 more",)),
}
PARQUET_ONLY = {
    "label NaN": ({"label": with_gap([SECRET] * N, np.nan)}, InputError, ("2 of 12 labels",)),
    "dictionary": ({"b": pa.array(IDS).dictionary_encode()}, InputTypeError, ("'b'", "dictionary")),
    "lists": ({"b": [[SECRET]] * N}, InputTypeError, ("'b'", "list")),
    "structs": ({"b": [{SECRET_TEXT: SECRET}] * N}, InputTypeError, ("'b'", "struct")),
    "bytes": ({"b": [SECRET_TEXT.encode()] * N}, InputTypeError, ("'b'", "binary")),
    "dates as labels": ({"label": DATES}, InputTypeError, ("'label'", "date32")),
    "bytes as labels": ({"label": [b"x"] * N}, InputTypeError, ("'label'", "binary")),
    "labels past 64 bits": ({"label": pa.array([2**63] * N, pa.uint64())}, InputTypeError, ("64-bit",)),
    "dates as ids": ({"id": DATES}, InputTypeError, ("'id'", "date32")),
    "floats as ids": ({"id": [SECRET] * N}, InputTypeError, ("'id'", "double")),
    "ids past 64 bits": ({"id": pa.array([2**63] * N, pa.uint64())}, InputError, ("'id'", "64 bits")),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_bad_columns_are_refused(tmp_path, form, case):
    changes, kind, says = BAD_COLUMNS[case]
    if case == "dates" and form == "csv":
        says = ("'b'", "date")
    columns = {k: v for k, v in {**BASE, **changes}.items() if v is not None}
    with refused(kind, f"small.{form}", *says):
        load_table(write(tmp_path, form, columns), id="id")


@pytest.mark.parametrize("case", PARQUET_ONLY)
def test_bad_columns_of_parquet_are_refused(tmp_path, case):
    changes, kind, says = PARQUET_ONLY[case]
    with refused(kind, *says):
        load_table(write(tmp_path, "parquet", {**BASE, **changes}), id="id")


def test_names_that_are_there_twice_are_refused(tmp_path):
    twice = pa.table([pa.array(Y)] * 3, names=["a", "a", "label"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with refused(InputError, "'a'", "earlier column"):
        load_table(tmp_path / "twice.parquet")
    (tmp_path / "twice.csv").write_text("a,label,label\n1,2,3\n")
    with refused(InputError, "'label'", "earlier column"):
        load_table(tmp_path / "twice.csv")


def test_a_row_index_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "label": [0, 1]}, index=[5, 3])
    frame.to_parquet(tmp_path / "f.parquet")
    with refused(InputError, "row index of pandas", "index=False"):
        load_table(tmp_path / "f.parquet")
    frame.to_csv(tmp_path / "f.csv")
    with refused(InputError, "column 0 has no name", "index=False"):
        load_table(tmp_path / "f.csv")


def test_a_csv_without_names_does_not_show_its_first_row(tmp_path):
    file = tmp_path / "bare.csv"
    file.write_text(f"{SECRET_TEXT},{SECRET},yes\nx,1.5,no\n")
    with refused(InputError, "first line looks like a row", "columns=", "header=False", "header=True"):
        load_table(file)
    with refused(InputError, "no column 'label'", "column 0, column 1", "first line"):
        load_table(file, dialect=Dialect(header=True))
    with refused(InputTypeError, "column 0 must be numeric"):
        load_table(file, label="yes")


LIKE_ROWS = {
    "numbers": "39,State-gov,77516\n50,Private,83311\n",
    "a decimal number": "x,7.25\ny,8.5\n",
    "a category that comes again": f"{SECRET_TEXT},male\nOwen,female\nBraund,male\n",
    "cells that are the same": f"{SECRET_TEXT},no,no\nx,yes,no\n",
    "ids": "r-0,some words\nr-1,others\nr-22,more\n",
    "dates": "2020-01-31,some words\n2020-02-01,others\n",
}
LIKE_NAMES = {
    "names": "age,town\n39,Bern\n",
    "numbered columns": "0,1,2,town\n1,0,2,Bern\n0,1,2,Oslo\n",
    "years": "town,2019,2021\nBern,1,2\n",
    "names with digits": "f0,f1\n0.5,1\n",
    "no name": ",a\n0,1\n1,2\n",
}


def raw(file, **dialect):
    with stream_table(file, label=None, labelled=False, raw=True, dialect=Dialect(**dialect)) as stream:
        return stream.raw().to_pydict()


@pytest.mark.parametrize("case", [*LIKE_ROWS, *LIKE_NAMES])
def test_a_first_line_that_looks_like_a_row_is_refused_unless_the_caller_knows_better(tmp_path, case):
    file, text = tmp_path / "bare.csv", {**LIKE_ROWS, **LIKE_NAMES}[case]
    file.write_text(text)
    lines = [line.split(",") for line in text.splitlines()]
    if case in LIKE_ROWS:
        with refused(InputError, "first line looks like a row", "columns=", "header=False", "header=True"):
            raw(file)
    elif case != "no name":  # which is refused for that
        assert list(raw(file)) == lines[0]
    names = ["first", "second", "third", "fourth"][: len(lines[0])]
    wanted = [list(cells) for cells in zip(*lines, strict=True)]
    assert [*raw(file, columns=names).items()] == [*zip(names, wanted, strict=True)]
    assert [*raw(file, header=False).items()] == [(f"column_{j + 1}", cells) for j, cells in enumerate(wanted)]
    if case not in ("cells that are the same", "no name"):
        assert list(raw(file, header=True)) == lines[0]
    with refused(InputError, "columns= has 5 names", f"{len(lines[0])} cells"):
        raw(file, columns="abcde")


def test_names_that_the_caller_gives_need_no_line_of_names(tmp_path):
    file = tmp_path / "bare.csv"
    file.write_text("".join(f"r{i},{i / 2},{i % 2}\n" for i in range(100_000)))
    dialect = Dialect(columns=["id", "a", "label"])
    table = load_table(file, id="id", dialect=dialect)
    assert (table.X[:, 0] == np.arange(100_000) / 2).all()
    assert table.ids[[0, -1]].tolist() == ["r0", "r99999"]
    streamed = [*stream_table(file, id="id", dialect=dialect, block_bytes=2**16)]
    assert [t for block in streamed for t in block.ids.tolist()] == table.ids.tolist()
    for odd in ({"columns": ["a", "a"]}, {"columns": ["a", ""]}, {"columns": ["a"], "header": True}):
        with refused(ConfigurationError, "columns= must name each column once"):
            Dialect(**odd)


@pytest.mark.parametrize("first", ["7", "customer-001", "ann"])
def test_a_list_of_names_without_a_name_of_its_own_loses_nobody(tmp_path, first):
    file = tmp_path / "leavers.csv"
    file.write_text(f"{first}\ncustomer-002\n{'ann' if first == 'ann' else 'customer-17'}\n")
    with refused(InputError, "leavers.csv", "looks like a key"):
        read_keys(file)
    file.write_text(f"who\n{first}\ncustomer-002\n")
    assert read_keys(file) == [first, "customer-002"]


ODD_NUMBERS = {
    "thousands": ("1,234|2|12,345,678.5", {"thousands": ","}, "thousands= ',', or", [1234.0, 2.0, 12345678.5]),
    "decimals": ("1,5|2|12,25", {"decimal": ",", "sep": "|"}, "decimal= ','", [1.5, 2.0, 12.25]),
    "both": ("1.234,5|2|12.345.678", {"decimal": ",", "thousands": "."}, "decimal= ',' and thousands= '.'", None),
    "spaces": ("1 234|2|12\u202f345.5", {"thousands": " "}, "thousands= ' '", [1234.0, 2.0, 12345.5]),
    "Swiss": ("1'234|2|-12\u2019345.5", {"thousands": "'"}, 'thousands= "\'"', [1234.0, 2.0, -12345.5]),
}


@pytest.mark.parametrize("case", ODD_NUMBERS)
@pytest.mark.parametrize("as_they_are", [False, True])
def test_numbers_with_marks_are_read_or_refused(tmp_path, case, as_they_are):
    cells, way, says, numbers = ODD_NUMBERS[case]
    first = "row 1," if as_they_are else "1,00"
    file, written = tmp_path / "odd.csv", cells.split("|")
    file.write_text("id|a|label\n" + "".join(f"{first}{i}|{cell}|{i % 2}\n" for i, cell in enumerate(written)))
    read = raw if as_they_are else lambda file, **dialect: load_table(file, id="id", dialect=Dialect(**dialect))
    if case == "thousands":
        says = "thousands= ','"
    with refused(InputError, "'a'", says, "thousands= ''"):
        read(file, sep="|")
    found = read(file, **{"sep": "|", **way})
    wanted = numbers or [1234.5, 2.0, 12345678.0]
    if as_they_are:
        assert [float(cell) for cell in found["a"]] == wanted
        assert raw(file, sep="|", thousands="", columns=["id", "a", "b"])["a"][1:] == written
    else:
        assert found.X[:, 0].tolist() == wanted
        assert found.ids.tolist() == ["1,000", "1,001", "1,002"]  # names stay as they are


BAD_CSV = {
    "text after the first block": ("a,label\n" + "1,0\n" * 300_000 + f"{SECRET_TEXT},1\n", "'a' must be numeric"),
    "booleans after numbers": ("a,label\n" + "1,0\n" * 300_000 + "true,1\n", "'a' must be numeric"),
    "a short line": (f"a,b,label\n1,2,3\n{SECRET},{SECRET_TEXT}\n", "3 in the first and 2 in line 3"),
    "a long line": (f"a,b,label\n1,2,3\n{SECRET},{SECRET_TEXT},1,1\n", "3 in the first and 4 in line 3"),
    "another separator": ("a;label\n1,5;0\n2,5;1\n", "sep="),
    "another separator, and quotes": ('a;b;label\n"x";y;0\n', "sep="),
    "a short line late": ("a,label\n" + "1,0\n" * 300_000 + f"{SECRET_TEXT}\n", "2 in the first and 1 in line 300,002"),
    "a short line after a cell of two lines": ('a,label\n"1\n",0\n1\n', "2 in the first and 1 in line 4"),
    "no line": ("\n\n", "bad.csv"),
    "only names": ("a,label", "bad.csv"),
    "only names and a line break": ("a,label\n", "no rows"),
    "empty cells": ("a,b,label\n1,,0\n2,,1\n", "2 entries of 'b'"),
    "an empty label": ("a,label\n1,\n2,1\n", "1 of 2 labels"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_csv_is_refused(tmp_path, case):
    text, says = BAD_CSV[case]
    (tmp_path / "bad.csv").write_text(text)
    with refused(ErasableError, says):
        load_table(tmp_path / "bad.csv")


def test_pyarrow_is_asked_for_where_it_is_needed(tmp_path, monkeypatch):
    files = [write(tmp_path, form, BASE) for form in ("csv", "parquet")]
    np.savez(tmp_path / "d.npz", X=X, y=Y)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for file in files:
        with refused(ConfigurationError, "pip install 'erasable[tables]'"):
            load_table(file)
    assert_same(load_table(tmp_path / "d.npz"), Table(X, Y))


BAD_NPZ = {
    "no labels": ({"X": X}, InputError, ("X, y", "it holds X")),
    "no rows": ({"X": X[:0], "y": Y[:0]}, InputError, ("0 rows",)),
    "no features": ({"X": X[:, :0], "y": Y}, InputError, ("0 features",)),
    "another name": ({"X": X, "y": Y, "subject": Y}, InputError, ("ids, subjects", "it holds X, subject, y")),
    "many names": ({f"a{i}": X for i in range(30)}, InputError, ("and 20 more",)),
    "short labels": ({"X": X, "y": Y[1:]}, InputError, ("(11,)", "12 rows")),
    "labels in a column": ({"X": X, "y": Y[:, None]}, InputError, ("(12, 1)",)),
    "short ids": ({"X": X, "y": Y, "ids": Y[1:]}, InputError, ("ids", "(11,)")),
    "flat rows": ({"X": X[0], "y": Y}, InputError, ("two dimensions",)),
    "text rows": ({"X": np.full((N, 2), SECRET_TEXT), "y": Y}, InputTypeError, ("real numbers", "<U6")),
    "complex rows": ({"X": X * 1j, "y": Y}, InputTypeError, ("complex128",)),
    "NaN": ({"X": np.where(X[0] == X, np.nan, X), "y": Y}, InputError, ("of column 0", "not finite")),
    "objects": ({"X": X, "y": np.array(SUBJECTS, object)}, InputError, ("objects are not read",)),
    "object rows": ({"X": X.astype(object), "y": Y}, InputError, ("objects are not read",)),
    "labels of NaN": ({"X": X, "y": np.full(N, np.nan)}, InputError, ("12 of 12 labels",)),
    "complex labels": ({"X": X, "y": Y * 1j}, InputTypeError, ("complex128",)),
    "bytes as labels": ({"X": X, "y": np.array([b"x"] * N)}, InputTypeError, ("bytes",)),
    "dates as ids": ({"X": X, "y": Y, "ids": np.array(DATES, "M8[D]")}, InputTypeError, ("date",)),
    "floats as ids": ({"X": X, "y": Y, "ids": X[:, 0]}, InputTypeError, ("float",)),
    "booleans as subjects": ({"X": X, "y": Y, "subjects": Y > 0}, InputTypeError, ("bool",)),
    "labels past 64 bits": ({"X": X, "y": np.full(N, 2**63, np.uint64)}, InputTypeError, ("64-bit",)),
    "ids past 64 bits": ({"X": X, "y": Y, "ids": np.full(N, 2**63, np.uint64)}, InputError, ("64 bits",)),
}


@pytest.mark.parametrize("case", BAD_NPZ)
def test_bad_archives_are_refused(tmp_path, case):
    arrays, kind, says = BAD_NPZ[case]
    np.savez(tmp_path / "bad.npz", **arrays)
    with refused(kind, "bad.npz", *says):
        load_table(tmp_path / "bad.npz")


def raw_csr(**changes):
    good = {"data": np.ones(3), "indices": np.array([0, 2, 1]), "indptr": np.array([0, 1, 3]), "shape": (2, 3)}
    return {"format": np.array(b"csr"), **good, **changes}


BAD_SPARSE = {
    "indices outside": raw_csr(indices=np.array([0, 2**40, 1])),
    "negative indices": raw_csr(indices=np.array([0, -5, 1])),
    "rows that go back": raw_csr(indptr=np.array([0, 5, 3])),
    "rows that never end": raw_csr(indptr=np.array([0, 1, 9])),
    "too few rows": raw_csr(indptr=np.array([0, 3])),
    "no indices": {k: v for k, v in raw_csr().items() if k != "indices"},
    "unknown form": raw_csr(format=np.array(SECRET_TEXT.encode())),
    "columns outside": raw_csr(format=np.array(b"csc"), indptr=np.array([0, 1, 2, 3]), indices=np.array([0, 9, 1])),
    "text": raw_csr(data=np.array([SECRET_TEXT] * 3)),
    "infinity listed as two entries": raw_csr(data=np.array([1.0, 1e308, 1e308]), indices=np.array([0, 2, 2])),
    "flat": {
        "format": np.array(b"coo"),
        "_is_array": True,
        "data": np.ones(2),
        "coords": np.array([[0, 1]]),
        "shape": (3,),
    },
}


@pytest.mark.parametrize("case", BAD_SPARSE)
def test_bad_sparse_rows_are_refused(tmp_path, case):
    np.savez(tmp_path / "bad.npz", **BAD_SPARSE[case])
    np.savez(tmp_path / "bad_labels.npz", y=[0, 1])
    with refused(ErasableError, "bad.npz"):
        load_table(tmp_path / "bad.npz")


def test_sparse_rows_without_labels_or_with_bad_ones_are_refused(tmp_path):
    file = tmp_path / "s.npz"
    sp.save_npz(file, sp.csr_array(X))
    with refused(InputError, "without labels", "s_labels.npz"):
        load_table(file)
    np.savez(tmp_path / "s_labels.npz", y=Y[1:])
    with refused(InputError, "s_labels.npz", "(11,)"):
        load_table(file)
    np.savez(tmp_path / "s_labels.npz", labels=Y)
    with refused(InputError, "s_labels.npz", "labels"):
        load_table(file)
    np.savez(tmp_path / "s_labels.npz", y=Y)
    X_bad = X.copy()
    X_bad[3:, 1] = np.inf
    sp.save_npz(file, sp.csr_array(X_bad))
    with refused(InputError, "9 entries of column 1"):
        load_table(file)


BAD_SVMLIGHT = {
    "text": f"1 1:{SECRET_TEXT}\n",
    "a text label": f"{SECRET_TEXT} 1:1\n",
    "several labels": "1,2 1:1\n",
    "no pairs": f"1 {SECRET} 2\n",
    "indices that go back": f"1 3:1 2:{SECRET}\n",
    "NaN": f"1 1:{SECRET} 2:nan\n",
    "infinity listed as two entries": "1 1:1e308 1:1e308\n",
    "a label that is NaN": "nan 1:1\n",
    "only comments": f"# {SECRET_TEXT}\n",
}


@pytest.mark.parametrize("case", BAD_SVMLIGHT)
def test_bad_svmlight_is_refused(tmp_path, case):
    (tmp_path / "bad.svmlight").write_text(BAD_SVMLIGHT[case])
    with refused(InputError, "bad.svmlight"):
        load_table(tmp_path / "bad.svmlight")


def good_files(folder):
    np.savez(folder / "d.npz", X=X, y=Y, ids=IDS)
    sp.save_npz(folder / "s.npz", sp.csr_array(X))
    np.savez(folder / "s_labels.npz", y=Y)
    (folder / "t.txt.gz").write_bytes(gzip.compress(b"1 1:2\n0 2:3\n" * 50))
    (folder / "c.csv.gz").write_bytes(gzip.compress(b"a,label\n" + b"1,2\n" * 50))
    write(folder, "parquet", {k: BASE[k] for k in ("a", "b", "label")})
    return [folder / name for name in ("d.npz", "s.npz", "t.txt.gz", "c.csv.gz", "small.parquet")]


def in_blocks(file):
    return list(stream_table(file, block_bytes=100))


def test_files_cut_short_are_refused(tmp_path):
    for file in good_files(tmp_path):
        whole = file.read_bytes()
        load_table(file)
        for length in (0, 1, 4, 10, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:length])
            for read in (load_table, in_blocks):
                with refused(InputError, file.name):
                    read(file)
        file.write_bytes(SECRET_TEXT.encode() * 100)
        for read in (load_table, in_blocks):
            with refused(ErasableError, file.name):
                read(file)


def test_damaged_files_give_the_table_or_a_refusal(tmp_path):
    rng = np.random.default_rng(1)
    for file in good_files(tmp_path):
        whole = file.read_bytes()
        for _ in range(40):
            damaged = bytearray(whole)
            for place in rng.integers(len(whole), size=3):
                damaged[place] ^= int(rng.integers(1, 256))
            file.write_bytes(damaged)
            try:
                load_table(file)
            except ErasableError as error:
                assert SECRET_TEXT not in str(error)  # noqa: PT017 - not every damage has to be noticed
                assert error.__context__ is None  # noqa: PT017
        file.write_bytes(whole)


def test_files_of_another_format_are_refused(tmp_path):
    parquet = write(tmp_path, "parquet", BASE).read_bytes()
    for name in ("a.npz", "a.csv", "a.csv.gz", "a.svmlight", "a.txt.bz2"):
        (tmp_path / name).write_bytes(parquet)
        with refused(ErasableError, name):
            load_table(tmp_path / name)
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with refused(InputError, "a.npz"):
        load_table(tmp_path / "a.npz")
    (tmp_path / "a.parquet").write_text("a,label\n1,2\n")
    with refused(InputError, "Parquet"):
        load_table(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.npz", "x.txt", "x.libsvm.gz"])
def test_a_file_that_is_not_there_is_told(tmp_path, name):
    with refused(InputError, name, "does not exist"):
        load_table(tmp_path / name)
    (tmp_path / name).touch()
    with refused(InputError, name, "is empty"):
        load_table(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with refused(InputError, "folder"):
        load_table(tmp_path / name)


@pytest.mark.parametrize("name", ["x.xlsx", "x", "x.gz", "x.npz.gz", "x.parquet.gz", "x.csv.GZ", ".csv"])
def test_unknown_endings_are_refused(tmp_path, name):
    with refused(ConfigurationError, name, ".csv, .parquet, .npz, .svmlight"):
        load_table(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "roles", "kind", "says"),
    [
        ("d.npz", {"label": "y"}, ConfigurationError, "arrays y"),
        ("d.npz", {"id": "ids"}, ConfigurationError, "arrays y"),
        ("d.npz", {"ignore": ["a"]}, ConfigurationError, "arrays y"),
        ("t.txt", {"label": "y"}, ConfigurationError, "qid"),
        ("t.txt", {"id": "x"}, ConfigurationError, "qid"),
        ("t.txt", {"subject": "x"}, ConfigurationError, "qid"),
        ("c.csv", {"id": "label"}, ConfigurationError, "another column"),
        ("c.csv", {"label": 3}, InputTypeError, "label"),
        ("c.csv", {"label": None}, InputTypeError, "label"),
        ("c.csv", {"id": 0}, InputTypeError, "id"),
    ],
)
def test_columns_that_the_format_does_not_have_are_refused(tmp_path, name, roles, kind, says):
    with refused(kind, says):
        load_table(tmp_path / name, **roles)


@pytest.mark.parametrize("path", [3, None, b"x.csv", ["x.csv", 3]])
def test_odd_paths_are_refused(path):
    with refused(InputTypeError, "path"):
        load_table(path)


@pytest.mark.parametrize("form", ["CSV", "Parquet", "SVMlight text", "NumPy arrays"])
def test_a_file_that_may_not_be_opened_is_not_called_damaged(form):
    def read():
        raise PermissionError(13, "Permission denied")

    with refused(InputError, "secret.csv cannot be opened: permission was denied"):
        read_or_refuse(read, Path("secret.csv"), form)


@pytest.mark.parametrize("role", ["label", "id", "subject", "ignored"])
@pytest.mark.parametrize("line", [0, 5, N - 2])
@pytest.mark.parametrize("ending", ["\n", ""])
def test_a_quote_that_is_not_closed_swallows_no_rows(tmp_path, role, line, ending):
    """In the last column, all lines after it would be one cell."""
    columns = {"a": X[:, 0], "label": ["yes"] * N, "id": IDS, "subject": SUBJECTS, "ignored": IDS}
    names = [*(n for n in columns if n != role), role]
    lines = [",".join(str(columns[n][i]) for n in names) for i in range(N)]
    head, _, last = lines[line].rpartition(",")
    lines[line] = f'{head},"{last}'
    (tmp_path / "t.csv").write_text("\n".join([",".join(names), *lines]) + ending)
    roles = {"label": "label", "id": "id", "subject": "subject", "ignore": ["ignored"]}
    says = "t.csv", f"opens in line {line + 2} is not closed"
    with refused(InputError, *says):
        load_table(tmp_path / "t.csv", **roles)
    with refused(InputError, *says), stream_table(tmp_path / "t.csv", **roles) as stream:
        list(stream)
    with refused(InputError, "is not closed"), (tmp_path / "t.csv").open("rb") as pipe:
        load_table(pipe, **roles)
