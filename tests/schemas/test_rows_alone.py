"""A row alone is encoded as it is among others: every container, every kind of column, every odd cell."""

from __future__ import annotations

import datetime
import decimal
import functools
import io
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from erasable import ErasableClassifier
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.schemas import Category, Number, Schema, Text, reading
from tests.schemas.cases import through_csv

D = decimal.Decimal
KINDS = {
    "number": 'kind = "number"\nscale = 1000',
    "bins": 'kind = "number"\nedges = [0, 0.5, 39, 9007199254740993]',
    "listed": 'kind = "category"\nvalues = ["39", "0.5", "0.25", "2020-01-31", "9007199254740992"]',
    "hashed": 'kind = "category"\nhashed = 9973',
    "ordered": 'kind = "ordered"\nlevels = ["0", "0.5", "39"]',
    "yes/no": 'kind = "yes/no"',
    "date": 'kind = "date"\nparts = ["year", "month", "day", "hour"]\nyears = [1900, 2100]\norder = "dmy"',
    "time": 'kind = "time"',
    "text": 'kind = "text"\nwords = [1, 2]\nplaces = 997',
    "vector": 'kind = "vector"\nlength = 2',
}
HEAD = 'version = {}\nmissing = ["", "nan", "-999", "true", "inf", "1900-01-01", "23:59:59"]\n[columns.c]\n'
SCHEMAS = {v: {k: Schema.parse(HEAD.format(v) + text) for k, text in KINDS.items()} for v in (1, 2)}
BERLIN = datetime.timezone(datetime.timedelta(hours=2))
TEXTS = ["", "x", "39", "39.00", "0.50", "1e+16", "TRUE", "-999.0", "2020-01-31", "2020-01-31 00:00:00", "31.01.2020"]
TEXTS += ["10:30", "10:30:00.5", "inf", "nan", "1900-01-01T00:00:00"]
NUMBERS = [0, 39, -999, 2**53 + 1, 10**16, 2**64, 10**400, 10**5000, 0.5, 39.0, -0.0, np.nan, np.inf, 2.0**53, 1e300]
NUMBERS += [1e-5, True, False, np.bool_(True), np.float32(0.1), np.float16(0.1), np.float64(0.1), np.uint64(2**63)]
NUMBERS += [D("0.5"), D("0.50"), D("39.00"), D("1E+2"), D("1E-7"), D("NaN"), D("sNaN"), D("-Infinity"), D("1E+9999")]
MOMENTS = [datetime.date(2020, 1, 31), datetime.date(1900, 1, 1), datetime.datetime(2020, 1, 31, 10, 30, 0, 5)]
MOMENTS += [datetime.datetime(2020, 1, 31, tzinfo=BERLIN), datetime.datetime.max.replace(tzinfo=datetime.UTC), pd.NaT]
MOMENTS += [datetime.datetime.min.replace(tzinfo=BERLIN), np.datetime64("2020-01-31"), np.datetime64("NaT", "s")]
CLOCKS = [datetime.time(10, 30, 0, 5), datetime.time(23, 59, 59)]
OTHERS = [None, pd.NA, np.ma.masked, [0.5, 0.25], (1, 2), [1, None], [1, [2]], [10**400, 1], b"x", 1j]
OTHERS += [np.array([0.1, 0.2], np.float32)]
OTHERS += [np.timedelta64(1, "s"), {"a": 1}, [np.datetime64("2020")], [[1, 2], [3, 4]], D("0.1").as_tuple()]
ODD = st.sampled_from([*TEXTS, *NUMBERS, *MOMENTS, *CLOCKS, *OTHERS])


def encoded(schema, table):
    """The encoded rows, or None where they are refused by an error of ours that quotes no cell."""
    try:
        return schema.encode_sparse(table)[0].toarray()
    except (InputError, InputTypeError) as error:
        said = str(error)
    assert said.startswith("column 'c' ")
    assert "\n" not in said
    return None


def holds_alone(schema, whole, one, n):
    """Whether rows of a table are its rows alone, and it is refused where one of them is."""
    alone = [encoded(schema, one(i)) for i in range(n)]
    rows = encoded(schema, whole)
    if rows is None or any(row is None for row in alone):
        return rows is None and any(row is None for row in alone)
    return np.vstack(alone).tobytes() == rows.tobytes()


def as_objects(cells):
    out = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        out[i] = cell
    return out


@settings(max_examples=80, deadline=None)
@given(st.lists(ODD, min_size=2, max_size=3), st.sampled_from([*KINDS]))
@example([2**53, 0.5], "hashed")
@example([np.float32(0.1), "x"], "hashed")
@example([D("0.5"), D("0.25")], "listed")
@example([datetime.date(2020, 1, 31), "31.01.2020"], "date")
@example([True, 5], "hashed")
@example([np.float32(0.1), 0.5], "hashed")
def test_objects_are_read_one_by_one(cells, kind):
    schema = SCHEMAS[2][kind]
    for made in (list, as_objects, lambda c: pd.Series(c, dtype=object)):
        table = {"c": made(cells)}
        assert holds_alone(schema, table, lambda i, made=made: {"c": made(cells[i : i + 1])}, len(cells))
    whole = encoded(schema, {"c": cells})
    masked = np.ma.MaskedArray(as_objects([*cells, "x"]), mask=[False] * len(cells) + [True])
    assert np.array_equal(encoded(schema, {"c": masked}), encoded(schema, {"c": [*cells, None]})) or whole is None


TYPED = {
    "decimals": pa.array([D("0.5"), D("0.25"), None, D("39.00"), D("-999")]),
    "decimals of few digits": pa.array([D("0.5"), None, D("39")], pa.decimal128(9, 1)),
    "integers": pa.array([39, None, 2**53 + 1, -999]),
    "small floats": pa.array([0.1, None, 39.0, np.nan], pa.float32()),
    "smaller floats": pa.array(np.array([0.1, 39.0, np.nan], np.float16)),
    "floats": pa.array([0.5, None, 1e16, -0.0, np.inf]),
    "truths": pa.array([True, None, False]),
    "dates": pa.array([datetime.date(2020, 1, 31), None, datetime.date(1900, 1, 1)]),
    "moments": pa.array([datetime.datetime(2020, 1, 31, 10, 30, 0, 5), None, datetime.datetime(2020, 1, 31)]),
    "zones": pa.array([datetime.datetime(2020, 1, 31, 10, tzinfo=BERLIN), None]),
    "times": pa.array([datetime.time(10, 30, 0, 5), None, datetime.time(23, 59, 59)]),
    "texts": pa.array(["39.00", None, "0.50", "TRUE", "2020-01-31 00:00:00"]),
    "nothing": pa.array([None, None]),
    "vectors": pa.array([[0.5, 0.25], None], pa.list_(pa.float32())),
    "days that are all missing": pa.array([None, None], pa.date32()),
}


NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype(), pa.float32(): pd.Float32Dtype()}


def typedreading(column):
    """The same column in every container that has types, with a function that takes one row of it."""
    table = pa.table({"c": column})
    yield "arrow", table, lambda i: table.slice(i, 1)
    frame = table.to_pandas()
    yield "pandas", frame, lambda i: frame.iloc[i : i + 1]
    arrow = table.to_pandas(types_mapper=pd.ArrowDtype)
    yield "pandas of Arrow", arrow, lambda i: arrow.iloc[i : i + 1]
    if not pa.types.is_float16(column.type):  # pandas has no nullable ones, and Polars' own CSV and Parquet neither
        nullable = table.to_pandas(types_mapper=NULLABLE.get)
        yield "nullable", nullable, lambda i: nullable.iloc[i : i + 1]
        polars = pl.from_arrow(table)
        yield "polars", polars, lambda i: polars.slice(i, 1)
    if not pa.types.is_nested(column.type):
        coded = pa.table({"c": column.dictionary_encode()})
        yield "dictionary", coded, lambda i: coded.slice(i, 1)
        values = table.to_pandas()["c"].to_numpy()
        yield "numpy", {"c": values}, lambda i: {"c": values[i : i + 1]}
        if not pa.types.is_float16(column.type):
            category = frame.astype("category")
            yield "category", category, lambda i: category.iloc[i : i + 1]
            texts = through_csv(table.append_column("n", pa.array(range(len(column)))))
            yield "csv", texts, lambda i: texts.slice(i, 1)
    floats = pa.types.is_floating(column.type)  # NumPy's scalars, as Python has no float32
    cells = list(column.to_numpy(zero_copy_only=False)) if floats else column.to_pylist()
    yield "list", {"c": cells}, lambda i: {"c": cells[i : i + 1]}
    file = io.BytesIO()
    pq.write_table(table, file)
    parquet = pq.read_table(io.BytesIO(file.getvalue()))
    yield "parquet", parquet, lambda i: parquet.slice(i, 1)


@functools.cache
def containers_of(name):
    return list(typedreading(TYPED[name]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_container_means_the_same_alone_and_among_others(kind):
    """Also from one container to the next, where both can hold the cells and the kind can."""
    schema = SCHEMAS[2][kind]
    for name, column in TYPED.items():
        right = encoded(schema, pa.table({"c": column}))
        for container, table, one in containers_of(name):
            assert holds_alone(schema, table, one, len(column)), (name, container)
            rows = encoded(schema, table)
            lossy = name == "integers" and container in ("pandas", "numpy", "category")  # pandas makes them floats
            if rows is not None and right is not None and not lossy:
                assert rows.tobytes() == right.tobytes(), (name, container)


def test_a_decimal_has_one_text_and_forgetting_its_neighbour_is_a_refit():
    schema = Schema([Category(name="c", hashed=50), Number(name="x", scale=1)])
    cells, labels = [D("0.5"), D("0.25"), D("1.5"), D("2.5")], ["a", "b", "a", "b"]
    table = pa.table({"c": pa.array(cells), "x": [0.1, 0.2, 0.3, 0.4]})
    model = ErasableClassifier(1.0, threshold=0.0, feature_map=schema).fit(table, labels, ids=[0, 1, 2, 3])
    model.forget(ids=[1])
    rest = pa.table({"c": pa.array([cells[0], *cells[2:]]), "x": [0.1, 0.3, 0.4]})
    again = ErasableClassifier(1.0, threshold=0.0, feature_map=schema).fit(rest, ["a", "a", "b"], ids=[0, 2, 3])
    assert model.state_digest() == again.state_digest()


@pytest.mark.parametrize(
    "cells",
    [
        [D("0.5")],
        pd.Series([D("0.5")], dtype=object),
        [2**53, 0.5],
        [np.float32(0.1), "x"],
        [np.float32(0.1), 0.5],
        pd.Series([True, 5], dtype=object),
        ["39.0", 5],
        ["39.0", np.nan],
        [-999, "x"],
    ],
)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "vector"])
def test_version_1_refuses_columns_of_several_types(cells, kind):
    """It would read their cells by those next to them."""
    with pytest.raises(InputError, match=r"learn a new model with version = 2 in the schema\.$"):
        SCHEMAS[1][kind].encode({"c": cells})
    assert encoded(SCHEMAS[2]["hashed"], {"c": cells}) is not None


def test_version_1_reads_decimals_as_numbers_alone():
    """Their text depends on the type that all of the column have together."""
    for kind, schema in SCHEMAS[1].items():
        rows = encoded(schema, {"c": pa.array([D("0.5"), D("39.25")])})
        assert (rows is None) == (kind not in ("number", "bins"))


def test_version_1_reads_columns_of_one_type_as_it_did():
    """Golden places: of float16, large floats, truths, texts with zeros at their ends."""
    table = {
        "c": ["0.50", "39.00", "x", None, " TRUE"],
        "d": np.array([0.1, 39, 2, 0.1, 39], np.float16),
        "e": [39.0, 0.5, 1e16, None, 1e-7],
        "f": [True, False, None, True, True],
        "t": ["39.0"] * 5,
    }
    hashed = "".join(f'[columns.{name}]\nkind="category"\nhashed=997\nindicator=false\n' for name in "cdef")
    first = Schema.parse(f'version = 1\n{hashed}[columns.t]\nkind="text"\nwords=[1,1]\nplaces=997\n')
    rows = first.encode_sparse(table)[0]
    assert [part.tolist() for part in np.split(rows.indices, rows.indptr[1:-1])] == [
        [575, 1545, 2893, 3876, 4646, 4887],
        [899, 1896, 2014, 3447, 4646, 4887],
        [146, 1083, 2702, 4646, 4887],
        [1545, 3876, 4646, 4887],
        [885, 1896, 2632, 3876, 4646, 4887],
    ]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pd.Series([1, 2], name="c"), "Give it a name"),
        (pl.Series("c", [1, 2]), "Give it a name"),
        (pa.array([1, 2]), "Give it a name"),
        (pa.chunked_array([[1, 2]]), "Give it a name"),
        ([1, 2], "Give it a name"),
        (np.ones((2, 1)), "Give it a name"),
        ("c", "Give it a name"),
        ({"c": "abc"}, "got str"),
        ({"c": [b"1"]}, "holds bytes: a cell must be"),
        ({"c": [{"a": 1}]}, "holds dict: a cell must be"),
        ({"c": [1.5]}, "column 'c' holds numbers, and the schema says date"),
        ({"c": [[1.0]]}, "column 'c' holds vectors, and the schema says date"),
        ({"y": [1, 2], "c": ["x"]}, "has 1 cells, and the first one 2"),
        (pd.DataFrame([[1, 2]], columns=["c", "c"]), "several columns 'c': rename all but one"),
        (pa.table([[1], [2]], names=["c", "c"]), "several columns 'c': rename all but one"),
        ({"c": 5}, "column 'c' must be a list, an array or a series; got int"),
        ({"c": None}, "got NoneType"),
        ({"c": {1, 2}}, "got set"),
        ({"c": {"a": 1}}, "got dict"),
        ({"c": iter([1, 2])}, "got list_iterator"),
        ({"c": np.array(5)}, "got ndarray"),
        ({"c": np.array([10**17], "M8[D]")}, "so far away that 64 bits"),
        ({"c": [np.datetime64(10**17, "D")]}, "so far away that 64 bits"),
        ({"c": np.array([1j])}, "holds complex128: a cell must be"),
        ({"c": pd.Series([1j])}, "holds complex: a cell must be"),
        ({"c": pd.Series(pd.period_range("2020", periods=1))}, "a cell must be"),
        ({"c": pd.Series(pd.interval_range(0, 1))}, "a cell must be"),
        ({"c": pl.Series([object()], dtype=pl.Object)}, "a cell must be"),
    ],
)
def test_odd_tables_are_refused_with_advice(table, said):
    with pytest.raises((InputError, InputTypeError), match=said) as caught:
        SCHEMAS[2]["date"].encode(table)
    assert "\n" not in str(caught.value)


def test_targets_that_mean_missing_are_missing_in_every_container():
    schema = Schema.parse(HEAD.format(2) + KINDS["number"] + "\n[columns.y]\nrole = 'target'\n")
    decimals = pa.array([D("-999"), D("1.5")])
    for cells in ([-999, 1.5], np.array([-999.0, 1.5]), ["-999", "1.5"], decimals, [-999, "1.5"]):
        y, _ = schema.read_targets({"y": cells}, ["y"])
        assert np.array_equal(y[:, 0], [np.nan, 1.5], equal_nan=True)


def test_masks_are_missing_cells():
    schema = Schema([Number(name="x", scale=10), Text(name="t", words=(1, 1), places=50)])
    gone = [False, True]
    table = {"x": np.ma.MaskedArray([1.5, 2], mask=gone), "t": np.ma.MaskedArray(["a", "b"], mask=gone)}
    assert schema.encode(table)[1].counts == {"x": {"missing": 1}, "t": {"missing": 1}}


def test_small_floats_are_the_same_where_pyarrow_is_not_installed():
    for cells in (pl.Series([0.1, None], dtype=pl.Float32), pd.Series([0.1, None], dtype="Float32")):
        right = encoded(SCHEMAS[2]["hashed"], {"c": cells})
        with mock.patch.object(reading, "pyarrow", side_effect=ConfigurationError("no pyarrow")):
            assert np.array_equal(encoded(SCHEMAS[2]["hashed"], {"c": cells}), right)
    assert np.array_equal(encoded(SCHEMAS[2]["hashed"], {"c": ["0.1", ""]}), right)
