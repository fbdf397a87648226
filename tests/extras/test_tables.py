"""The extra tables: CSV and Parquet, typed or not, with a schema or without, and no pandas anywhere."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from erasable import load
from erasable.tables import load_table
from tests.extras.session import LEARN, N, answered, lines, printed, put


def parquet(name="t.parquet"):
    header, *rows = [line.split(",") for line in lines()]
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    numbers = {name: np.array(columns[name], dtype=np.float64) for name in ("age", "weight")}
    visits = pa.array([int(v) for v in columns["visits"]], pa.int8())
    pq.write_table(pa.table({**columns, **numbers, "visits": visits}), name)
    return name


def test_a_csv_is_learnt_scored_forgotten_and_verified(capsys):
    answered(capsys, "learn", put(), *LEARN)
    printed(capsys, "predict", "m.erasable", "t.csv", "-o", "p.csv")
    assert len(Path("p.csv").read_text().splitlines()) == N + 1
    printed(capsys, "forget", "m.erasable", "--subject", "p1")
    assert answered(capsys, "verify", "m.erasable")["verified"]
    assert "p1" not in {str(s) for s in load("m.erasable")._model.core.subjects()}


def test_parquet_gives_the_state_of_the_csv(capsys):
    digests = [
        (answered(capsys, "learn", name, *LEARN[:-1], f"{name}.erasable"), load(f"{name}.erasable").state_digest())[1]
        for name in (put(), parquet())
    ]
    assert len(set(digests)) == 1


@pytest.mark.parametrize("cells", ["true", "1", "1.5", "-3", "1e300"])
def test_cells_of_every_kind_of_number_are_read(cells):
    Path("n.csv").write_text("a,b,y\n" + "".join(f"{cells},{i},{i % 2}\n" for i in range(5)))
    assert load_table("n.csv", label="y").X.shape == (5, 2)


@pytest.mark.parametrize(
    "kind", ["bool_", "int8", "uint8", "int16", "int32", "uint64", "float16", "float32", "float64", "decimal"]
)
def test_columns_of_every_type_are_read(kind):
    types = {"decimal": pa.decimal128(21, 1)}
    kind = types[kind] if kind in types else getattr(pa, kind)()
    cells = pa.array(np.array([1, 0, 1], dtype=np.float16)) if kind == pa.float16() else pa.array([1, 0, 1]).cast(kind)
    pq.write_table(pa.table({"a": cells, "y": ["u", "v", "u"]}), "n.parquet")
    table = load_table("n.parquet", label="y")
    assert table.X.tolist() == [[1.0], [0.0], [1.0]]
    narrow = kind in (pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.float16(), pa.float32())
    assert table.X.dtype == (np.float32 if narrow else np.float64)


def test_a_schema_is_drafted_and_learnt_with(capsys):
    put()
    printed(capsys, "schema", "t.csv", "--label", "churned", "--id", "row", "--k", "3", "-o", "s.toml")
    answered(capsys, "learn", "t.csv", "--schema", "s.toml", "-o", "m.erasable")
    assert answered(capsys, "verify", "m.erasable")["verified"]
