"""Folders, URLs, Arrow data and Dask collections are tables; parts put together are the table that they are of."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

from erasable.engines import Local
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.tables import ArrayRows, load_table, stream_table
from tests.engines.cases import CLASSIFIER, COLUMNS, IDS, OWNERS, WHOLE, D, N, X, Y, arrow_table, parquet_folder


def read(tables):
    tables = list(tables)
    return tuple(np.concatenate([getattr(t, part) for t in tables]) for part in ("X", "y", "ids", "subjects"))


def same(found, wanted):
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


TABLE = X, Y, IDS, OWNERS


@pytest.mark.parametrize("row_group", [7, 64, 10_000])
def test_parts_put_together_are_the_table(tmp_path, row_group, monkeypatch):
    monkeypatch.setattr("erasable.tables.arrow_rows._PART_BYTES", 2000)
    folder = parquet_folder(tmp_path / "t", 3, row_group)
    with stream_table(folder, **COLUMNS, block_bytes=500) as stream:
        parts = pickle.loads(pickle.dumps(stream.parts()))
        same(read(block for part in parts for block in part), TABLE)
        assert sum(part.n_rows for part in parts) == N
        assert len(parts) == {7: 45, 64: 15, 10_000: 3}[row_group]
        same(read(stream), TABLE)


def test_targets_are_those_of_the_parts(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(arrow_table().drop(["y", "who"]), path, row_group_size=100)
    with stream_table(path, id="id", targets=["f1", "f0"]) as stream:
        blocks = [block for part in stream.parts() for block in part]
    assert np.array_equal(np.concatenate([b.y for b in blocks]), X[:, [1, 0]].astype(float))
    assert np.array_equal(np.concatenate([b.X for b in blocks]), X[:, 2:])


def test_a_folder_is_all_parquet_files_below_it(tmp_path):
    folder = parquet_folder(tmp_path / "t", 2)
    (folder / "b").mkdir()
    (folder / "part-1.parquet").rename(folder / "b" / "part-1.parquet")
    (folder / "_metadata.parquet").write_bytes(b"no rows")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "part-9.parquet").write_bytes(b"no rows")
    (folder / "notes.txt").write_text("nothing")
    found = load_table(folder, **COLUMNS)
    assert sorted(found.ids.tolist()) == sorted(IDS.tolist())
    (folder / "b").rename(folder / "year=2024")
    with pytest.raises(InputError, match="column=value"):
        load_table(folder, **COLUMNS)
    empty = tmp_path / "empty.parquet"
    empty.mkdir()
    for folder in (empty, tmp_path / "year"):
        folder.mkdir(exist_ok=True)
        with pytest.raises(InputError, match=rf"{folder.name} is a folder without \.parquet files"):
            load_table(folder, **COLUMNS)


@pytest.mark.filterwarnings("ignore")
def test_urls_are_read_by_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    memory = fsspec.filesystem("memory")
    for path in sorted(parquet_folder(tmp_path / "t", 3).glob("*.parquet")):
        memory.pipe(f"/bucket/{path.name}", path.read_bytes())
    try:
        for url in ("memory://bucket", "memory://bucket/part-*.parquet", f"file://{tmp_path}/t"):
            with stream_table(url, **COLUMNS) as stream:
                same(read(stream), TABLE)
                same(read(block for part in stream.parts() for block in part), TABLE)
        with stream_table("memory://bucket/part-1.parquet", **COLUMNS) as stream:
            assert stream.n_rows == N // 3
        with pytest.raises(InputError, match="there is no file"):
            stream_table("memory://bucket/other.parquet", **COLUMNS)
        with pytest.raises(InputError, match="cannot be listed"):
            stream_table("nosuchthing://bucket/x.parquet", **COLUMNS)
        memory.pipe("/bucket2/t.csv", b"a,label\n1,2\n")
        with pytest.raises(ConfigurationError, match=r"\.parquet"):
            stream_table("memory://bucket2/t.csv")
    finally:
        memory.rm("/bucket", recursive=True)


def test_arrow_tables_and_readers_of_batches():
    table = arrow_table()
    same(read([load_table(table, **COLUMNS)]), TABLE)
    with stream_table(table, **COLUMNS, block_bytes=3000) as stream:
        assert not stream.once
        assert stream.n_rows == N
        same(read(stream), TABLE)
        same(read(stream), TABLE)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=50))
    with stream_table(reader, **COLUMNS) as stream:
        assert stream.once
        clf = clone(CLASSIFIER)
        clf.learn_blocks(stream)
    assert clf.state_digest() == WHOLE
    with pytest.raises(InputTypeError, match="numeric"):
        stream_table(table, label="y")


@pytest.mark.filterwarnings("ignore")
def test_dask_dataframes_partition_by_partition():
    dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    frame = dd.from_pandas(arrow_table().to_pandas(), npartitions=5)
    with stream_table(frame, **COLUMNS) as stream:
        same(read(stream), TABLE)
        for engine in (None, Local(threads=2)):
            clf = clone(CLASSIFIER)
            clf.learn_blocks(stream, engine=engine, budget_bytes=25_000)
            assert clf.state_digest() == WHOLE
        assert all(part.n_rows is None for part in stream.parts())
    failing = frame.map_partitions(lambda part: 1 // 0, meta=frame._meta)
    with stream_table(failing, **COLUMNS) as stream, pytest.raises(InputError, match="Dask"):
        next(iter(stream))


@pytest.mark.filterwarnings("ignore")
def test_dask_arrays_chunk_by_chunk():
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    rows = da.from_array(X, chunks=(250, D))
    for answers, keys in ((Y, IDS), (da.from_array(Y, chunks=250), da.from_array(IDS, chunks=250))):
        for engine in (None, Local(threads=2)):
            clf = clone(CLASSIFIER)
            clf.learn_blocks(ArrayRows(rows, answers, keys, OWNERS), engine=engine, budget_bytes=25_000)
            assert clf.state_digest() == WHOLE
    numbered = clone(CLASSIFIER)
    numbered.learn_blocks(ArrayRows(rows, Y), engine=Local(threads=2))
    assert numbered.state_digest() == clone(CLASSIFIER).fit(X, Y).state_digest()
    some = rows[rows[:, 0] > 0]  # chunks of unknown length
    with pytest.raises(InputError, match="ids are required"):
        clone(CLASSIFIER).learn_blocks(ArrayRows(some, da.ones_like(some[:, 0])), engine=Local(threads=2))
    with pytest.raises(InputError, match="chunks of whole rows"):
        ArrayRows(da.from_array(X, chunks=(250, 2)), Y)
    with pytest.raises(InputError, match="other chunks"):
        ArrayRows(rows, da.from_array(Y, chunks=100))
    with pytest.raises(InputError, match="one entry for each"):
        ArrayRows(rows, Y[:-1])
    with pytest.raises(InputTypeError, match="Dask array"):
        ArrayRows(X, Y)


def test_an_empty_name_is_no_folder():
    with pytest.raises(ConfigurationError, match="is empty"):
        load_table("", **COLUMNS)
