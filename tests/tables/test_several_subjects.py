"""Tables whose rows belong to several people: several columns of subjects, lists, arrays of two dimensions."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.tables import Table, load_split, load_table, stream_table
from tests.tables.cases import COLUMNS, SECRET, SECRET_TEXT, N, X, Y, assert_same, refused

SENDERS = [f"person {i % 4}" for i in range(N)]
RECEIVERS = [None if i % 3 == 0 else f"person {i % 5}" for i in range(N)]
EXPECTED = [s if r in (None, s) else tuple(sorted((s, r))) for s, r in zip(SENDERS, RECEIVERS, strict=True)]
LISTS = [[s, None, r] for s, r in zip(SENDERS, RECEIVERS, strict=True)]


def arrow(**owners):
    return pa.table({**{name: X[:, j] for j, name in enumerate(COLUMNS)}, "label": Y, **owners})


def files(folder):
    """The same rows in every format, and what their columns of subjects are called."""
    columns = arrow(sender=SENDERS, receiver=RECEIVERS)
    pyarrow.parquet.write_table(columns, folder / "columns.parquet")
    pyarrow.csv.write_csv(columns, folder / "columns.csv")
    pyarrow.parquet.write_table(arrow(who=LISTS), folder / "lists.parquet")
    coded = pa.array(LISTS, pa.list_(pa.dictionary(pa.int8(), pa.string())))
    pyarrow.parquet.write_table(arrow(who=coded), folder / "coded.parquet")
    pyarrow.parquet.write_table(arrow(p=SENDERS, q=[[r] for r in RECEIVERS]), folder / "both.parquet")
    wide = np.array([SENDERS, [r or "" for r in RECEIVERS]]).T
    np.savez(folder / "dense.npz", X=X, y=Y, subjects=wide)
    sp.save_npz(folder / "sparse.npz", sp.csr_matrix(X))
    np.savez(folder / "sparse_labels.npz", y=Y, subjects=wide)
    return {
        "columns.parquet": ("sender", "receiver"),
        "columns.csv": ["receiver", "sender"],
        "lists.parquet": "who",
        "coded.parquet": ["who"],
        "both.parquet": ("q", "p"),
        "dense.npz": None,
        "sparse.npz": None,
    }


def test_every_format_says_whose_the_rows_are(tmp_path):
    expected = Table(X, Y, subjects=LISTS)
    assert expected.subjects.tolist() == EXPECTED
    for name, subject in files(tmp_path).items():
        assert_same(load_table(tmp_path / name, subject=subject, kinds={"label": int}), expected)
        with stream_table(tmp_path / name, subject=subject, block_bytes=100) as stream:
            blocks = list(stream)
        assert len(blocks) > 1
        assert [owner for block in blocks for owner in block.subjects.tolist()] == EXPECTED
        assert load_split(tmp_path / name, subject=subject).train.n_rows == 9 or name == "sparse.npz"


def test_pipes_say_it_too(tmp_path):
    names = files(tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / "lists.parquet")
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    text = (tmp_path / "columns.csv").read_bytes()
    for data, subject in ((sink.getvalue(), "who"), (text, names["columns.csv"])):
        assert load_table(io.BytesIO(data), subject=subject).subjects.tolist() == EXPECTED


@pytest.mark.parametrize("block_bytes", [None, 60])
def test_of_several_columns_all_cells_are_of_one_kind(tmp_path, block_bytes):
    """They are texts as they stand, whatever else is in the column, unless a type is stated for all."""
    path = tmp_path / "rows.csv"
    read = {None: load_table}.get(block_bytes)

    def owners(text, kind=str):
        path.write_text("a,label,from,to\n" + text)
        if read is not None:
            return read(path, subject=["from", "to"], kinds={"subject": kind}).subjects.tolist()
        with stream_table(path, subject=["from", "to"], kinds={"subject": kind}, block_bytes=block_bytes) as stream:
            return [owner for block in stream for owner in block.subjects.tolist()]

    assert owners("1,0,7,3\n2,1,,9\n3,0,,\n") == [("3", "7"), "9", None]
    assert owners("1,0,7,3\n2,1,,9\n3,0,,\n", int) == [(3, 7), 9, None]
    assert owners("1,0,7,3\n2,1,,x\n3,0,9,9\n") == [("3", "7"), "x", "9"]
    assert owners("1,0,7,3\n2,1,007,\n") == [("3", "7"), "007"]


def test_ones_of_one_column_stay_as_they_were(tmp_path):
    files(tmp_path)
    for subject in ("sender", ["sender"], ("sender",)):
        table = load_table(tmp_path / "columns.parquet", subject=subject, ignore=["receiver"])
        assert table.subjects.tolist() == SENDERS
    numbers = Table(X, Y, subjects=np.arange(N)[:, None])
    assert numbers.subjects.dtype == np.int64


def test_rows_are_taken_with_their_people():
    table = Table(X, Y, subjects=LISTS)
    assert table.take([2, 0]).subjects.tolist() == [EXPECTED[2], EXPECTED[0]]
    assert table.take(slice(1, 4)).subjects.tolist() == EXPECTED[1:4]
    equal = Table(X[:2], Y[:2], subjects=[("a", "b"), ("c", "d")])  # no array of two dimensions
    assert equal.subjects.shape == (2,)


def test_what_cannot_be_read_is_refused(tmp_path):
    for wrong in (["sender", "sender"], ["label", "sender"]):
        with refused(ConfigurationError):
            load_table(tmp_path / "columns.parquet", subject=wrong)
    with refused(ConfigurationError):
        load_table(tmp_path / "columns.parquet", subject=["a", "b"], weight="b")
    for wrong in (7, ["a", 7], {"a": "b"}):
        with refused(InputTypeError, "subject must be the name of a column"):
            load_table(tmp_path / "columns.parquet", subject=wrong)
    files(tmp_path)
    with refused(InputError, "no column 'nobody'"):
        load_table(tmp_path / "columns.parquet", subject=["sender", "nobody"])
    for owners in ([[SECRET]] * N, [[True]] * N, [[[SECRET_TEXT]]] * N):
        pyarrow.parquet.write_table(arrow(who=owners), tmp_path / "odd.parquet")
        with refused(InputTypeError, "column 'who'"):
            load_table(tmp_path / "odd.parquet", subject="who")
    mixed = arrow(p=list(range(N)), q=[SECRET_TEXT] * N)
    pyarrow.parquet.write_table(mixed, tmp_path / "odd.parquet")
    with refused(InputTypeError, "columns 'p' and 'q'"):
        load_table(tmp_path / "odd.parquet", subject=["p", "q"])
    pyarrow.parquet.write_table(arrow(label2=LISTS), tmp_path / "odd.parquet")
    with refused(InputTypeError):
        load_table(tmp_path / "odd.parquet", label="label2", ignore=["label"])  # a label is one
    np.savez(tmp_path / "odd.npz", X=X, y=Y, subjects=np.zeros((N + 1, 2), dtype=int))
    with refused(InputError, "subjects has the shape"):
        load_table(tmp_path / "odd.npz")
    np.savez(tmp_path / "odd.npz", X=X, y=Y, ids=np.zeros((N, 2), dtype=int))
    with refused(InputError, "ids has the shape"):
        load_table(tmp_path / "odd.npz")
    with refused(ConfigurationError):
        load_table(tmp_path / "dense.npz", subject=["a", "b"])
