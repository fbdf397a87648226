"""Columns of targets: taken out of the rows, in any format that has names, in any blocks."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.tables import Table, load_table, stream_table

TEXT = "a,price,who,b,area\n" + "".join(f"{i},{i / 4},p{i % 3},{-i},{i * i}\n" for i in range(1, 40))
N = np.arange(1, 40)


@pytest.fixture(params=["csv", "parquet", "pipe"])
def source(request, tmp_path):
    if request.param == "pipe":
        return lambda: io.BytesIO(TEXT.encode())
    if request.param == "csv":
        (tmp_path / "t.csv").write_text(TEXT, encoding="utf-8")
        return lambda: tmp_path / "t.csv"
    columns = {"a": N, "price": N / 4, "who": [f"p{i % 3}" for i in N], "b": -N, "area": (N * N).astype(np.float32)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    return lambda: tmp_path / "t.parquet"


@pytest.mark.parametrize("block_bytes", [100, 2**20])
def test_targets_are_y_and_the_others_the_rows(source, block_bytes):
    how = {"subject": "who", "block_bytes": block_bytes}
    with stream_table(source(), targets=["price"], ignore=["area"], **how) as stream:
        assert (stream.feature_names, stream.n_features) == (("a", "b"), 2)
        blocks = list(stream)
    assert np.concatenate([t.y for t in blocks]).tolist() == (N / 4).tolist()
    assert np.concatenate([t.X for t in blocks]).tolist() == np.stack([N, -N], axis=1).tolist()
    with stream_table(source(), targets=["area", "price"], features=["b"], **how) as stream:
        blocks = list(stream)
    assert np.concatenate([t.y for t in blocks]).tolist() == np.stack([N * N, N / 4], axis=1).tolist()
    assert np.concatenate([t.X for t in blocks])[:, 0].tolist() == (-N).tolist()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"targets": ["cost"]}, InputError, "no column 'cost'"),
        ({"targets": ["price", "price"]}, ConfigurationError, "each column once"),
        ({"targets": ["price"], "id": "price"}, ConfigurationError, "another role"),
        ({"targets": ["price"], "ignore": ["price", "who"]}, ConfigurationError, "another role"),
        ({"targets": "price"}, InputTypeError, "list of strings"),
        ({"targets": ["a", "b", "price", "area"]}, InputError, "no feature columns besides"),
    ],
)
def test_what_cannot_be_a_target_is_refused(source, options, error, says):
    with pytest.raises(error, match=says), stream_table(source(), **{"subject": "who", **options}) as stream:
        list(stream)


def test_a_missing_target_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,2\n3,\n", encoding="utf-8")
    with pytest.raises(InputError, match="missing"):
        load_table(tmp_path / "t.csv", targets=["y"])


def test_archives_hold_several_targets_in_y(tmp_path):
    y = np.stack([N, -N], axis=1)
    np.savez(tmp_path / "t.npz", X=np.eye(39), y=y)
    assert load_table(tmp_path / "t.npz").take([3, 1]).y.tolist() == y[[3, 1]].tolist()
    with pytest.raises(ConfigurationError, match="this kind of file does not have"):
        load_table(tmp_path / "t.npz", targets=["y"])
    np.savez(tmp_path / "t.npz", X=np.eye(39), y=np.where(y == 3, np.nan, y))
    with pytest.raises(InputError, match="1 of 78 targets are missing"):
        load_table(tmp_path / "t.npz")


def test_several_targets_of_a_table_are_numbers():
    assert Table(np.eye(2), np.ones((2, 3))).y.shape == (2, 3)
    with pytest.raises(InputTypeError, match="must be numbers"):
        Table(np.eye(2), np.array([["a", "b"], ["c", "d"]]))
