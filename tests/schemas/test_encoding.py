"""What a schema makes of a table: against the oracle, row by row, from any container, bit for bit."""

from __future__ import annotations

import datetime
import decimal
import io
import math
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from flint import arb
from hypothesis import example, given, settings
from hypothesis import strategies as st

from erasable.errors import ConfigurationError, InputError
from erasable.schemas import (
    Category,
    EncodingReport,
    Number,
    Schema,
    Text,
    Vector,
    YesNo,
    cells,
    encode,
    reading,
    texts,
)
from erasable.schemas.cells import canonical_text, lowered
from erasable.schemas.columns import hashed_places
from tests.schemas import oracle
from tests.schemas.cases import FIRST, ROWS, TEXT, VECTORS, WITH_VECTOR, as_columns, containers, through_csv

SCHEMA, FULL = Schema.parse(TEXT), Schema.parse(WITH_VECTOR)
TABLES = st.lists(ROWS, min_size=1, max_size=6)


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


def exact(rows):
    return [[Fraction(float(v)) for v in row] for row in dense(rows)]


def same(a, b):
    """Whether two results are the same bytes, CSR structure included."""
    if sp.issparse(a) != sp.issparse(b) or a.dtype != b.dtype or a.shape != b.shape:
        return False
    if not sp.issparse(a):
        return a.tobytes() == b.tobytes()
    return all(np.array_equal(getattr(a, part), getattr(b, part)) for part in ("data", "indices", "indptr"))


# -- against the oracle ----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(TABLES, st.sampled_from([TEXT, FIRST]))
def test_every_row_is_what_the_oracle_says(rows, text):
    encoded, _ = Schema.parse(text).encode(as_columns(rows))
    assert exact(encoded) == [[Fraction(v) for v in oracle.encode_row(text, row)] for row in rows]


@settings(max_examples=100, deadline=None)
@given(st.lists(VECTORS, min_size=1, max_size=5))
@example([[2.0, 2.0, 2.0], [1e300, -1e300, 1e-300], [2.0, 0.0, 0.0]])
def test_vectors_are_what_the_oracle_says(vectors):
    text = 'version = 2\n[columns.v]\nkind = "vector"\nlength = 3\nscale = 2\n'
    for table in ({"v": vectors}, pa.table({"v": pa.array(vectors, pa.list_(pa.float64(), 3))})):
        encoded, _ = Schema.parse(text).encode(table)
        assert exact(encoded) == [[Fraction(v) for v in oracle.encode_row(text, {"v": v})] for v in vectors]


@settings(max_examples=30, deadline=None)
@given(TABLES, st.data())
def test_row_by_row_is_the_table_in_multiples_of_a_step_and_within_the_bound(rows, data):
    columns = as_columns(rows)
    columns["meaning"] = [data.draw(VECTORS) for _ in rows]
    whole, report = FULL.encode(columns)
    alone = [FULL.encode({n: [c[i]] for n, c in columns.items()}) for i in range(len(rows))]
    assert same(sp.vstack([sp.csr_array(r) for r, _ in alone], format="csr"), sp.csr_array(whole))
    assert sum((one for _, one in alone), EncodingReport(0)) == report
    assert all(sum(v * v for v in row) <= Fraction(FULL.bound) ** 2 for row in exact(whole))
    assert all((v * 2**20).denominator == 1 and abs(v) <= 1 for row in exact(whole) for v in row)


@settings(max_examples=20, deadline=None)
@given(TABLES)
def test_every_container_gives_the_same_bytes_and_report(rows):
    columns = as_columns(rows)
    first, report = SCHEMA.encode(columns)
    for name, table in containers(columns):
        encoded, found = SCHEMA.encode(table)
        assert same(encoded, first), name
        assert found == report, name


@settings(max_examples=20, deadline=None)
@given(TABLES)
def test_without_pyarrow_it_is_the_same(rows):
    columns = as_columns(rows)
    first, report = SCHEMA.encode(columns)
    with mock.patch.object(reading, "pyarrow", side_effect=ConfigurationError("no pyarrow")):
        for table in (columns, pd.DataFrame(columns), pl.DataFrame(columns, strict=False)):
            encoded, found = SCHEMA.encode(table)
            assert same(encoded, first)
            assert found == report


# -- typed columns ---------------------------------------------------------------------------------------------------

TYPED = pa.table(
    {
        "age": pa.array([39, None, 17], pa.int64()),
        "change": pa.array([0.1, 2.5, None], pa.float32()),
        "income": pa.array([1.0, 1234.5, 1e9]),
        "visits": pa.array([0, 500, 7], pa.uint16()),
        "hours": pa.array([True, False, None]),
        "score": pa.array([10.0, 19.99, 30.0]),
        "pace": pa.array([-1.5, 40.25, None]),
        "town": pa.array([39, 40, None], pa.int32()),
        "street": pa.array([1.5, 39.0, -0.0]),
        "grade": pa.array(["low", "high", None]),
        "member": pa.array([True, None, False]),
        "joined": pa.array([datetime.datetime(2015, 6, 30, 23, 59, 59), None, datetime.datetime(1969, 12, 31, 23)]),
        "left": pa.array([None, None, None], pa.date32()),
        "opens": pa.array([datetime.time(9, 5), None, datetime.time(23, 59, 59)]),
        "note": pa.array(["to be", None, "or not"]),
        "nick": pa.array(["Ann", "", "ПРИВЕТ"]),
    }
)


def test_typed_columns_and_their_csv_agree():
    first, report = SCHEMA.encode(TYPED)
    variants = {
        "csv": through_csv(TYPED),
        "csv of pandas": pd.read_csv(io.StringIO(TYPED.to_pandas().to_csv(index=False)), dtype=str, na_filter=False),
        "pandas": TYPED.to_pandas(),
        "nullable": TYPED.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get),
        "arrow dtypes": TYPED.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": pl.from_arrow(TYPED),
        "lists": TYPED.to_pydict() | {"change": [np.float32(0.1), np.float32(2.5), None]},
    }
    for name, table in variants.items():
        encoded, found = SCHEMA.encode(table)
        assert same(encoded, first), name
        assert found == report, name
    plain = TYPED.to_pydict() | {"change": [0.1, 2.5, None]}
    rows = [{n: c[i] for n, c in plain.items()} for i in range(3)]
    assert exact(first) == [[Fraction(v) for v in oracle.encode_row(TEXT, row)] for row in rows]


DAYS = st.sampled_from(["2020-01-31", "31.01.2020", "1/2/2021", "2021-02-30", "1970-01-01", "", "x"])
CLOCKS = st.sampled_from(["10:30", "9:05:59", "24:00", "23:59:59.25", "10:30Z", "10:30 +02:00", "10:30-0130", "Z", ""])
GAPS = st.sampled_from([" ", "T", "", "  "])


@given(
    st.lists(st.tuples(DAYS, GAPS, CLOCKS, GAPS, CLOCKS).map("".join), max_size=30),
    st.sampled_from(["ymd", "dmy", "mdy"]),
)
@example(["2020-01-31T10:30 9:05:59", "2020-01-31 ", "2020-01-31 10:30 +02:00"], "ymd")
def test_moments_of_a_column_are_those_of_its_texts(texts, order):
    read = cells.date_parser(order)
    assert [read(text) for text in texts] == [cells.parse_date(text, order) for text in texts]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_of_every_unit_and_zone_agree(unit):
    schema = Schema.parse('version = 1\n[columns.at]\nkind = "date"\nparts = ["day", "hour"]\nencoding = "bins"\n')
    texts = ["2015-06-30T23:30:00-02:00", "1969-12-31T23:59:59Z", None]
    right, _ = schema.encode({"at": texts})
    utc = ["2015-07-01T01:30:00", "1969-12-31T23:59:59", None]
    plain = pa.array(np.array([t or "NaT" for t in utc], f"M8[{unit}]"))
    zoned = plain.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, "Europe/Berlin"))
    for column in (plain, zoned, zoned.to_pandas(), plain.to_pandas(), pl.from_arrow(zoned), zoned.to_pylist()):
        assert same(schema.encode({"at": column})[0], right)
    assert schema.feature_names_out()[int(right.indices[0])] == "at.day=1"


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.floats(1, 1e6), st.integers(0, 19 * 2**10).map(lambda k: 2.0 ** (k / 2**10))))
def test_logarithms_are_correctly_rounded(x):
    schema = Schema(
        [Number(name="x", range=(1, 1e6), spacing="log"), Number(name="y", range=(0, 1e6), spacing="log1p")]
    )
    rows, _ = schema.encode({"x": [x], "y": [x]})
    assert exact(rows)[0][:1] == oracle.encode_number({"range": [1, 10**6], "spacing": "log"}, x)[0]
    assert exact(rows)[0][2:3] == oracle.encode_number({"range": [0, 10**6], "spacing": "log1p"}, x)[0]


@pytest.mark.parametrize("spacing", ["log", "log1p"])
def test_doubtful_logarithms_are_settled_in_ball_arithmetic(spacing):
    low, shifted = (1.0, False) if spacing == "log" else (0.0, True)
    x = np.random.default_rng(0).uniform(low, 50, 300)
    with mock.patch.object(encode, "_DOUBT", 1.0):  # every one is doubtful
        slow = encode.log_share(x, low, 50.0, shifted=shifted)
    assert np.array_equal(slow, encode.log_share(x, low, 50.0, shifted=shifted))


@pytest.mark.parametrize("n", [7, 12, 24, 31])
def test_no_point_of_a_circle_is_near_the_middle_of_two_steps(n):
    for table, f in zip(encode.Circle.of(n).points, ("cos_pi", "sin_pi"), strict=True):
        for k, value in enumerate(table):
            steps = getattr(arb(2 * k) / n, f)() * 2**20
            assert abs(steps - int(value * 2**20)) < arb(0.5) - arb(2) ** -20


# -- golden values ---------------------------------------------------------------------------------------------------


def test_hashes_are_golden():
    words = ["", "a", "Bern", "Zürich", "中文", "to be", "1 2"]
    assert hashed_places(words, 2**24).tolist() == GOLDEN_PLACES
    rows, _ = Schema([Text(name="t", words=(1, 2), places=32, indicator=False)]).encode(
        {"t": ["To be, OR not to be — “ÉTÉ” ПРИВЕТ"]}
    )
    assert {int(j): int(v * 2**20) for j, v in enumerate(dense(rows)[0]) if v} == GOLDEN_TEXT


GOLDEN_PLACES = [15451235, 13731145, 6009622, 7514029, 11775938, 5124635, 5871297]
GOLDEN_TEXT = {
    **dict.fromkeys((2, 3, 6, 19, 25, 28), 201798),
    **dict.fromkeys((9, 20, 23), 403597),
    27: 605395,
}


@pytest.mark.parametrize("runs", [{"characters": [3, 5]}, {"words": [1, 1]}, {"words": [1, 2]}])
@pytest.mark.parametrize("places", [7, 2**12])
def test_a_long_text_is_that_of_the_oracle_and_is_read_until_no_place_can_change(runs, places):
    text = " ".join(f"word{i * i % 7919} ÉTÉ" for i in range(400))
    column = Text(name="t", places=places, indicator=False, **runs)
    with (
        mock.patch.object(texts, "_PART", 256),
        mock.patch.object(texts, "hashed_places", wraps=hashed_places) as hashed,
    ):
        rows, _ = Schema([column]).encode({"t": ["a short one", text, None, text + " x"]})
    right = [oracle.encode_text({**runs, "places": places}, t)[0] for t in ("a short one", text, text + " x")]
    assert exact(dense(rows)[[0, 1, 3]]) == [[Fraction(v) for v in row] for row in right]
    assert not dense(rows)[2].any()
    terms = max(len(call.args[0]) for call in hashed.call_args_list)
    assert terms <= 3 * 256
    if places == 7:  # full after the first part
        assert len(hashed.call_args_list) == 3


def test_small_letters_are_those_of_a_fixed_list():
    assert lowered("ABYZ ÀÖØÞ ×ß ΑΣΩ АЯЀЏ ŁİẞΆ") == "abyz àöøþ ×ß ασω аяѐџ ŁİẞΆ"
    assert lowered("\u212a") == "\u212a"  # the sign of Kelvin, whose small letter is k for Python
    changed = {c for c in map(chr, range(0x110000)) if not 0xD800 <= ord(c) <= 0xDFFF and lowered(c) != c}
    assert len(changed) == 26 + 30 + 25 + 48


CANONICAL = {
    "39": [39, 39.0, "39.0", " 39.00\t"],
    "039": ["039"],
    "39.5": ["39.50", 39.5],
    "150": ["1.5E+2"],
    "1.5E2": ["1.5E2"],
    "-0.001": ["-1e-03"],
    "1e+1000": ["1e+1000"],
    "2020-01-31 08:30:00": ["2020-01-31T10:30:00.5+02:00"],
    "2020-01-31": ["2020-01-31 00:00:00"],
    "2020-02-31 00:00:00": ["2020-02-31 00:00:00"],
    "10:30:00": ["10:30:00.000"],
    "0": [-0.0, "-0.0"],
    "9007199254740992": [2.0**53],
    "9007199254740993": [2**53 + 1],
    "1" + 23 * "0": [1e23],
    "0.0000001": [1e-7],
    "0.5": [decimal.Decimal("0.50")],
    "100": [decimal.Decimal("1E+2")],
    "-inf": [decimal.Decimal("-Infinity")],
    "true": [True, "TRUE"],
    "false": ["False "],
    "3": [np.int8(3)],
    "0.1": [np.float64(0.1)],
    "\xa0x": ["\xa0x"],
}


def test_canonical_texts():
    for text, written in CANONICAL.items():
        assert [canonical_text(cell) for cell in (*written, text)] == [text] * (len(written) + 1)


def test_canonical_texts_of_version_1_are_what_they_were():
    given = ["39.00", "39.50", 39.5, 2.0**53, 1e23, "2020-01-31 00:00:00", "1.5E+2"]
    first = ["39", "39.50", "39.5", "9007199254740992.0", "1e+23", "2020-01-31 00:00:00", "1.5E+2"]
    assert [canonical_text(cell, 1) for cell in given] == first


# -- bounds and shapes -----------------------------------------------------------------------------------------------


def test_the_bound_is_close():
    rows = {"c": ["a"], "y": ["yes"]}
    schema = Schema([Category(name="c", values=["a"]), YesNo(name="y")])
    assert np.linalg.norm(dense(schema.encode(rows)[0])) == pytest.approx(math.sqrt(2))
    assert schema.bound == math.ceil(math.sqrt(2) * 1024) / 1024


def test_features_are_as_many_as_their_names():
    """Counted without making the names: of every kind of column, with and without an indicator, and of crosses."""
    names = FULL.feature_names_out()
    assert len(names) == len(set(names)) == FULL.n_features_out
    assert FULL.encode({n: [None] for n in FULL.by_name})[0].shape == (1, FULL.n_features_out)
    assert [c.width for c in FULL.features] == [len(c.feature_names()) for c in FULL.features]
    assert [c.own_width for c in FULL.features] == [len(c.names()) for c in FULL.features]
    assert sum(FULL.widths) == FULL.n_features_out == len(FULL.feature_names_out())
    assert {c.indicator for c in FULL.features} == {True, False}
    kinds = {type(c).__name__ for c in FULL.features}
    assert kinds >= {"Number", "Category", "Ordered", "YesNo", "Date", "Time", "Text", "Vector"}, kinds


def test_wide_schemas_give_sparse_rows_without_zeros_and_narrow_ones_dense():
    narrow, wide = Schema([Number(name="x", scale=1)]), Schema([Category(name="c", hashed=100)])
    assert isinstance(narrow.encode({"x": [1]})[0], np.ndarray)
    rows, _ = wide.encode({"c": ["a", None]})
    assert sp.issparse(rows)
    assert rows.has_canonical_format
    full = SCHEMA.encode_sparse(as_columns([dict.fromkeys(SCHEMA.by_name, "1")] * 3))[0]
    assert full.data.all()
    assert full.has_canonical_format


def test_no_rows_give_no_rows():
    empty = pa.table({n: pa.array([], pa.string()) for n in SCHEMA.by_name})
    for table in (empty, empty.to_pandas(), {n: [] for n in SCHEMA.by_name}):
        assert SCHEMA.encode(table)[0].shape == (0, SCHEMA.n_features_out)


# -- reports and refusals --------------------------------------------------------------------------------------------


def test_the_report_counts_and_quotes_nothing():
    schema = Schema([Number(name="x", range=(0, 1)), Category(name="c", values=["a"]), YesNo(name="y")])
    table = {
        "x": ["2", "secret", "?", "0.5"],
        "c": ["a", "secret", None, "a"],
        "y": ["secret", "yes", "NO", ""],
        "z": [1] * 4,
    }
    _, report = schema.encode(table)
    assert report.counts == {
        "x": {"missing": 1, "unparsable": 1, "clipped": 1},
        "c": {"missing": 1, "unknown": 1},
        "y": {"missing": 1, "unknown": 1},
    }
    assert report.extra == ("z",)
    assert "secret" not in str(report) + repr(report)
    assert str(report).splitlines()[1] == "x: 1 missing, 1 unparsable, 1 clipped"


def test_columns_with_roles_may_be_absent_and_others_may_not():
    schema = Schema.parse('version = 1\n[columns.y]\nrole = "label"\n[columns.x]\nkind = "number"\nscale = 1\n')
    assert schema.encode({"x": [1.0]})[1].extra == ()
    with pytest.raises(InputError, match=r"lacks 1 of 1 columns of the schema: 'x'\.$"):
        schema.encode({"y": [1.0]})


def test_broken_texts_are_hashed_like_any_other():
    schema = Schema(
        [Category(name="c", hashed=50), Category(name="d", values=["a"]), Text(name="t", characters=(2, 2))]
    )
    table = {n: ["\ud800x", "a", None] for n in "cdt"}
    first, _ = schema.encode(table)
    assert same(schema.encode(pd.DataFrame(table, dtype=object))[0], first)
    alone, _ = schema.encode({n: c[:1] for n, c in table.items()})
    assert np.array_equal(dense(alone), dense(first)[:1])


def test_vectors_of_another_length_are_unparsable():
    schema = Schema([Vector(name="v", length=2)])
    _, report = schema.encode({"v": [[1.0, 0.0, 0.0], [1.0, 0.0], None]})
    assert report.counts == {"v": {"missing": 1, "unparsable": 1}}
