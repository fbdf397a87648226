"""A schema with every kind of column, rows for it, and the same rows in every container."""

from __future__ import annotations

import datetime
import io

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
from hypothesis import strategies as st

TEXT = """
version = 2

[columns]
key = {role = "id"}
who = {role = "subject"}
outcome = {role = "label", classes = ["no", "yes"]}
age = {kind = "number", range = [0, 100]}
change = {kind = "number", scale = 2.5, fill = 1, indicator = false}
income = {kind = "number", range = [1, 1000000], spacing = "log"}
visits = {kind = "number", range = [0, 500], spacing = "log1p", fill = 3}
hours = {kind = "number", edges = [-1.5, 0, 20, 40]}
score = {kind = "number", edges = [10, 20, 30], bins = "thermometer"}
pace = {kind = "number", edges = [-3, -1.5, 0, 1, 2.5, 20, 40, 40.5, 100], bins = "multiscale", fill = 0.5}
town = {kind = "category", values = ["Bern", "39", "true", "Zürich"]}
street = {kind = "category", hashed = 7, fill = "unknown street"}
grade = {kind = "ordered", levels = ["low", "middle", "high"], fill = "middle"}
member = {kind = "yes/no"}
joined = {kind = "date", parts = [
    "year", "month", "weekday", "hour", "days"], years = [1990, 2030], since = "2010-06-01", days = 3650}
left = {kind = "date", parts = [
    "year", "month", "day"], years = [2000, 2003], encoding = "bins", order = "dmy", fill = "2001-02-03"}
opens = {kind = "time"}
note = {kind = "text", words = [1, 2], places = 16}
nick = {kind = "text", characters = [2, 3], places = 8, cap = 2, fill = "none given"}

[[crosses]]
columns = ["town", "member"]

[[crosses]]
columns = ["hours", "street"]
hashed = 5

[[crosses]]
columns = ["pace", "hours"]
bins = 3
"""

FIRST = TEXT.replace("version = 2", "version = 1")
WITH_VECTOR = TEXT.replace("\n[[", 'meaning = {kind = "vector", length = 3, scale = 2}\n\n[[', 1)

_odd = st.sampled_from(["", " ", "?", "NA", " nan ", "Null", "x", "12,5", "1_000", "0x10", "٣", "1e", "--1"])
_number = st.one_of(
    st.floats(allow_nan=False, width=64).map(repr),
    st.floats(-200, 200).map(lambda v: f"{v:.2f}"),
    st.integers(-60, 600).map(str),
    st.sampled_from(
        ["+5", ".5", "5.", "1E3", "inf", "-Infinity", "TRUE", "-0.0", "1", "1000000", "40", " 20 ", "-1.5"]
    ),
    _odd,
)
_place = st.one_of(
    st.sampled_from(
        ["Bern", " Bern\t", "39", "39.0", "39.00", "039", "TRUE", "true", "Zürich", "low", "middle", "high", "HIGH"]
    ),
    st.sampled_from(["0.50", "-0.0", "3.9e+01", "1E-07", "39e0", "2015-06-30T23:30:00.75-02:00", "09:05:59.5", "9:05"]),
    st.sampled_from(["yes", "No", "T", "f", "1.0", "0", "2"]),
    st.text(max_size=5).filter(lambda t: "\x00" not in t),
    _odd,
)
_date = st.one_of(
    st.dates().map(str),
    st.datetimes(datetime.datetime(1950, 1, 1), datetime.datetime(2050, 1, 1)).map(
        lambda d: d.isoformat(" ", "seconds")
    ),
    st.sampled_from(
        ["2015-06-30T23:30:00Z", "2015-06-30T23:30:00.75-02:00", "2015-1-2 3:04+0530", "2015-02-29", "2015-06-30T24:00"]
    ),
    st.dates().map(lambda d: f"{d.day}.{d.month}.{d.year:04}"),
    _odd,
)
_words = st.one_of(
    st.lists(
        st.sampled_from(["to", "be", "OR", "Not", "ÉTÉ", "été", "ПРИВЕТ", "“quoted”", "don't", "中文", "a_1"])
    ).map(" ".join),
    st.text(max_size=12),
    _odd,
)
_time = st.one_of(st.times().map(str), st.sampled_from(["9:05", "23:59:59.9", "24:00", "7"]), _odd)


def _valid(text):
    return not any(0xD800 <= ord(c) <= 0xDFFF for c in text)


def _cells(strategy):
    return st.one_of(strategy.filter(_valid), st.none())


ROWS = st.fixed_dictionaries(
    {
        **{n: _cells(_number) for n in ("age", "change", "income", "visits", "hours", "score", "pace")},
        **{n: _cells(_place) for n in ("town", "street", "grade", "member")},
        **{n: _cells(_date) for n in ("joined", "left")},
        "opens": _cells(_time),
        **{n: _cells(_words) for n in ("note", "nick")},
    }
)
VECTORS = st.one_of(
    st.lists(st.floats(-3, 3, width=32), min_size=3, max_size=3),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
    st.sampled_from([None, [0.0, 0.0, 2.0], [2.0, 0.0, 0.1], [1.0, None, 1.0]]),
)


def as_columns(rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def containers(columns):
    """The same columns in every container."""
    table = pa.table(columns)
    yield "dict", columns
    yield "arrow", table
    yield "batch", table.to_batches()[0] if table.num_rows else table
    yield "chunks", pa.concat_tables([table.slice(i, 1) for i in range(table.num_rows)]) if table.num_rows else table
    yield "pandas", pd.DataFrame(columns)
    yield "objects", pd.DataFrame(columns, dtype=object)
    yield "pandas from arrow", table.to_pandas()
    yield "polars", pl.from_arrow(table)
    coded = [c.dictionary_encode() if pa.types.is_string(c.type) else c for c in table.columns]
    yield "dictionaries", pa.table(coded, names=table.column_names)


def through_csv(table, **written):
    """A table written as CSV text and read as texts."""
    file = io.BytesIO()
    pa.csv.write_csv(table, file)
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(table.column_names, pa.string()), strings_can_be_null=False
    )
    return pa.csv.read_csv(io.BytesIO(file.getvalue()), convert_options=convert)
