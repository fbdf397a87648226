"""Raw numbers of cells: encoding them is encoding the table, and only numbers that a table can have fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.models.selections import RawColumns
from erasable.schemas import Schema, decode_raw
from tests.schemas.cases import FIRST, ROWS, TEXT, VECTORS, WITH_VECTOR, as_columns

SCHEMAS = {name: Schema.parse(text).keeping_raw for name, text in (("2", TEXT), ("1", FIRST), ("vector", WITH_VECTOR))}
SCHEMA = SCHEMAS["2"]


@given(st.lists(ROWS, min_size=1, max_size=5), st.sampled_from(list(SCHEMAS)), st.data())
def test_encoding_raw_numbers_is_encoding_the_table(rows, name, data):
    schema, columns = SCHEMAS[name], as_columns(rows)
    if name == "vector":
        columns["meaning"] = [data.draw(VECTORS) for _ in rows]
    found = schema.prepared(columns)
    again = schema.encode_raw(found.raw)
    assert again.dtype == found.rows.dtype
    assert np.array_equal(again.toarray(), found.rows.toarray())
    assert found.raw.shape == (len(rows), len(schema.raw_names))
    assert len(schema.raw_codes) == len(schema.raw_names)
    assert RawColumns.of(schema, schema.n_features_out).fit(found.raw).all()
    assert np.array_equal(found[::-1].raw, found.raw[::-1], equal_nan=True)


def test_a_schema_keeps_no_raw_numbers_unless_asked():
    schema = Schema.parse(TEXT)
    assert schema.prepared({name: [None] for name in as_columns([dict.fromkeys(c.name for c in schema.features)])})
    assert schema.encoded({c.name: [None] for c in schema.features}).raw is None
    assert schema.keeping_raw == schema
    assert schema.keeping_raw.text == schema.text


ROW = {
    **{"age": "39", "change": "1", "income": "10", "visits": "3", "hours": "30", "score": "15", "pace": "3"},
    **{"town": "Bern", "street": "High Street", "grade": "high", "member": "yes"},
    **{"joined": "2015-06-30 23:30", "left": "31.12.2002", "opens": "9:05", "note": "to be", "nick": "ann"},
}


def test_learners_see_numbers_codes_and_parts():
    raw = SCHEMA.prepared(as_columns([ROW, dict.fromkeys(ROW)])).raw
    named = dict(zip(SCHEMA.raw_names, raw[0].tolist(), strict=True))
    assert (named["age"], named["hours"], named["town"], named["grade"], named["member"]) == (39.0, 30.0, 0.0, 2.0, 1.0)
    assert (named["joined.year"], named["joined.month"], named["joined.weekday"], named["joined.hour"]) == (
        2015,
        5,
        1,
        23,
    )
    assert not any(name.endswith("seconds") for name in named)  # no more of a date than the schema names
    codes = dict(zip(SCHEMA.raw_names, SCHEMA.raw_codes, strict=True))
    assert {name: n for name, n in codes.items() if n} == {"town": 5, "street": 7}
    assert np.isnan(raw[1]).all()


def test_raw_numbers_are_decoded_as_they_were_read():
    cells = decode_raw(SCHEMA, SCHEMA.prepared(as_columns([ROW])).raw)
    assert (cells["age"].text, cells["hours"].text, cells["town"].text) == ("39", "30", "Bern")
    assert cells["joined"].facts["parts"]["month"] == [6]
    missing = decode_raw(SCHEMA, SCHEMA.prepared(as_columns([dict.fromkeys(ROW)])).raw)
    assert missing["age"].missing
    assert missing["town"].missing


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("town", 5),
        ("town", 0.5),
        ("town", -1),
        ("grade", 3),
        ("joined.month", 12),
        ("joined.hour", np.inf),
        ("joined.year", np.nan),
        ("note#3", 0.3),
        ("note#3", 2),
        ("age", -0.0),
        ("street", 1e300),
    ],
)
def test_numbers_that_no_row_can_have_do_not_fit(column, value):
    raw = SCHEMA.prepared(as_columns([ROW, ROW])).raw
    raw[1, SCHEMA.raw_names.index(column)] = value
    assert RawColumns.of(SCHEMA, SCHEMA.n_features_out).fit(raw).tolist() == [True, False]


def test_another_nan_does_not_fit():
    raw = SCHEMA.prepared(as_columns([dict.fromkeys(ROW)])).raw
    raw.view(np.int64)[0, 0] ^= 1
    assert not RawColumns.of(SCHEMA, SCHEMA.n_features_out).fit(raw)[0]
