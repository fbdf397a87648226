"""Tables of any kind of columns, encoded block by block by a schema."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.schemas import Category, EncodedTable, Number, Role, Schema
from erasable.tables import load_table, stream_table
from tests.schemas.raw import columns, draft, table, write

FORMS = ("raw.csv", "raw.csv.gz", "raw.parquet")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("block_bytes", [1, 5_000, 2**24])
def test_blocks_are_the_encoding_of_the_whole_table(tmp_path, form, block_bytes):
    found, schema = table(), draft()
    path = write(found, str(tmp_path / form))
    whole, report = schema.encode_sparse(found)
    with stream_table(path, label=None, schema=schema, block_bytes=block_bytes) as stream:
        assert stream.n_features == schema.n_features_out
        for _ in range(2):  # gone through again, nothing is counted twice
            blocks = list(stream)
            assert stream.encoding == report
        next(iter(stream))
        assert stream.encoding == report
    assert all(isinstance(b.X, EncodedTable) for b in blocks)
    rows = EncodedTable.joined([b.X for b in blocks]).rows
    assert (rows != whole).nnz == 0
    assert [v for b in blocks for v in b.ids] == columns()["row_id"]
    assert [v for b in blocks for v in b.subjects] == columns()["person"]
    assert [v for b in blocks for v in b.y] == columns()["outcome"]


def test_a_pipe_of_arrow_or_text_is_encoded_too(tmp_path):
    found, schema = table(), draft()
    whole = schema.encode_sparse(found)[0]
    for form in ("raw.arrow", "raw.csv"):
        text = io.BytesIO(Path(write(found, str(tmp_path / form))).read_bytes())
        with stream_table(text, label=None, schema=schema, kinds={"id": str}) as stream:
            blocks = list(stream)
        assert (EncodedTable.joined([b.X for b in blocks]).rows != whole).nnz == 0


def test_a_table_to_predict_needs_no_roles_and_names_extra_columns(tmp_path):
    schema = draft()
    path = write(table(outcome=None, person=None, extra=[1] * 240), str(tmp_path / "new.csv"))
    with stream_table(path, label=None, labelled=False, schema=schema) as stream:
        (block,) = stream
    assert block.y is None
    assert block.subjects is None
    assert len(block.ids) == 240
    assert stream.encoding.extra == ("extra",)
    path = write(table(row_id=None), str(tmp_path / "unnamed.csv"))
    with stream_table(path, label=None, labelled=False, schema=schema) as stream:
        (block,) = stream
    assert block.ids is None
    assert block.y is None
    with pytest.raises(InputError, match="no column 'row_id'"):
        stream_table(path, label=None, id="row_id", labelled=False, schema=schema)


def test_integers_where_the_classes_are_written_so(tmp_path):
    schema = Schema([Role(name="y", role="label", classes=("0", "1")), Number(name="x", scale=1)])
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,0\n2,1\n")
    with stream_table(path, label=None, schema=schema) as stream:
        assert next(iter(stream)).y.dtype == np.int64
    path.write_text("x,y\n1,0\n2,2\n3,2\n")
    with (
        stream_table(path, label=None, schema=schema) as stream,
        pytest.raises(InputError, match="2 labels are none of the 2 classes"),
    ):
        list(stream)


def test_several_columns_of_subjects_are_read(tmp_path):
    other = [f"person-{(i + 1) // 2:03d}" for i in range(240)]
    path = write(table(other=other), str(tmp_path / "raw.csv"))
    bare = Category(name="town", hashed=4)
    schema = Schema([bare, Role(name="person", role="subject"), Role(name="other", role="subject")])
    with stream_table(path, label="outcome", schema=schema) as stream:
        (block,) = stream
    assert block.subjects[1] == ("person-000", "person-001")
    assert block.subjects[0] == "person-000"
    with pytest.raises(ConfigurationError, match="subject= is 'person', and the schema says 'person' and 'other'"):
        stream_table(path, label="outcome", subject="person", schema=schema)


def test_several_files_are_one_table(tmp_path):
    found, schema = table(), draft()
    write(found.slice(0, 100), str(tmp_path / "a.csv"))
    write(found.slice(100), str(tmp_path / "b.csv"))
    with stream_table(tmp_path / "*.csv", label=None, schema=schema) as stream:
        whole = stream.read()
        assert stream.encoding.n_rows == 240
    assert (whole.numbers != schema.encode_sparse(found)[0]).nnz == 0
    with stream_table(tmp_path / "*.csv", label=None, labelled=False, raw=True) as stream:
        assert stream.raw().num_rows == 240


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label": "town"}, "label= is 'town', and the schema says 'outcome'"),
        ({"weight": "age"}, "is a feature by the schema"),
        ({"ignore": ["age"]}, "is a feature by the schema"),
    ],
)
def test_what_the_caller_names_must_agree_with_the_schema(tmp_path, options, says):
    path = write(table(), str(tmp_path / "raw.csv"))
    with pytest.raises(ConfigurationError, match=says):
        stream_table(path, **{"label": None, "schema": draft(), **options})


def test_refusals(tmp_path):
    schema = draft()
    bare = Schema([Category(name="town", hashed=4)])
    path = write(table(), str(tmp_path / "raw.csv"))
    with pytest.raises(ConfigurationError, match="names no column of labels"):
        stream_table(path, label=None, schema=bare)
    with pytest.raises(InputError, match="lacks 1 of 6 features: 'town'"):
        stream_table(write(table(town=None), str(tmp_path / "less.csv")), label=None, schema=schema)
    twice = tmp_path / "twice.csv"
    twice.write_text("town,town,outcome\nBern,Rome,yes\n")
    with pytest.raises(InputError, match="name of an earlier column"):
        stream_table(twice, label="outcome", schema=bare)
    with pytest.raises(ConfigurationError, match="whose columns have names"):
        stream_table(tmp_path / "rows.npz", label=None, schema=schema)
    struct = table(town=[{"name": "Bern"}] * 240)
    with (
        stream_table(write(struct, str(tmp_path / "raw.parquet")), label="outcome", schema=bare) as stream,
        pytest.raises(InputTypeError, match="rows 1 to 240: column 'town' holds struct"),
    ):
        list(stream)


def test_columns_that_are_no_numbers_need_a_schema(tmp_path):
    path = write(table(), str(tmp_path / "raw.parquet"))
    with pytest.raises(InputTypeError, match=r"'town' \(string\).*They need a public schema, which `erasable schema`"):
        load_table(path, label="outcome", id="row_id", subject="person")


def test_raw_cells_are_handed_on_as_they_are(tmp_path):
    found = table()
    with stream_table(write(found, str(tmp_path / "raw.parquet")), label=None, labelled=False, raw=True) as stream:
        assert stream.raw().equals(found)
    text = io.BytesIO(b"\xef\xbb\xbfa,b\n1, x\n,NA\n")
    with stream_table(text, label=None, labelled=False, raw=True) as stream:
        assert stream.raw().to_pydict() == {"a": ["1", ""], "b": [" x", "NA"]}
