"""What a stored row says of its cells contains the cells: for every kind, on any grid, however rows were scaled."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable.core.grid import Grid, to_grid
from erasable.models.access import decode_cells
from erasable.schemas import Category, Cross, Date, Number, Ordered, Schema, Text, Time, Vector, YesNo, decode_row
from erasable.schemas.decode import with_margin
from tests.schemas import oracle
from tests.schemas.cases import ROWS, WITH_VECTOR

SCHEMA = Schema.parse(WITH_VECTOR)
MISSING = oracle.MISSING
_vector = st.one_of(
    st.none(), st.lists(st.one_of(st.floats(-3, 3), st.floats(allow_nan=True)), min_size=2, max_size=3).map(tuple)
)


def number(cell):
    text = oracle.spelt(cell)
    return float(text == "true") if text in ("true", "false") else float(text)


def moment(column, cell):
    if column["kind"] == "time":
        return datetime.datetime(2000, 1, 1, int(cell.strip(oracle.SPACES).split(":")[0]))
    text = cell.strip(oracle.SPACES)
    return oracle.parsed_moment(text, column.get("order", "ymd")) or oracle.parsed_moment(text, "ymd")


def within(low, x, high):
    return (low is None or low <= x) and (high is None or x <= high)


def holds(column, cell, facts, codes):
    """Whether the facts of a cell that is there leave room for it."""
    match column["kind"]:
        case "number":
            return within(facts["low"], number(cell), facts["high"])
        case "category" if "hashed" in column:
            return codes in facts["places"] and facts["of"] == column["hashed"]
        case "category":
            text, listed = oracle.canonical(cell), [oracle.canonical(v) for v in column["values"]]
            return text in facts["one_of"] if text in listed else facts["others"]
        case "ordered":
            return oracle.canonical(cell) in facts["one_of"]
        case "yes/no":
            return ("no", "yes")[codes] in facts["one_of"]
        case "date" | "time":
            at = moment(column, cell)
            since = datetime.date.fromisoformat(str(column.get("since", "2000-01-01")))
            true = {
                **{"year": at.year, "month": at.month, "day": at.day, "weekday": at.weekday(), "hour": at.hour},
                "days": (at.date() - since).days,
            }
            parts = facts["parts"]
            assert set(parts) == set(column.get("parts", ["hour"]))
            return all(
                true[p] in told if isinstance(told, list) else within(told["low"], true[p], told["high"])
                for p, told in parts.items()
            )
        case "text":
            return not facts  # the words are not stored
        case "vector":
            x, low, high = (np.array(v, dtype=float) for v in (cell, facts["low"], facts["high"]))
            if ((low <= x) & (x <= high)).all():
                return True
            largest = max(1.0, np.abs(x).max() / column["scale"])  # so large that its square is none
            shorter = x / largest / max(1.0, np.linalg.norm(x / largest) / column["scale"])
            return bool(facts["clipped"] and ((low <= shorter) & (shorter <= high)).all())


def check(row, told):
    columns = oracle.read(WITH_VECTOR)[0]["columns"]
    for name, column in columns.items():
        if "role" in column:
            continue
        block, codes = oracle.encode_cell(column, row[name], MISSING)
        if block is None:
            assert told[name].missing is not False, name
        else:
            assert told[name].missing is not True, name
            assert holds(column, row[name], told[name].facts, codes), name
        assert told[name].text


@settings(max_examples=80, deadline=None)
@given(
    row=ROWS,
    meaning=_vector,
    bits=st.integers(4, 20),
    intercept=st.booleans(),
    scaling=st.sampled_from(["row", "bound", "norm", "columns"]),
    sparse=st.booleans(),
)
def test_what_is_told_of_a_cell_contains_it(row, meaning, bits, intercept, scaling, sparse):
    row = {**row, "meaning": meaning}
    X = SCHEMA.encode_sparse({name: [cell] for name, cell in row.items()})[0]
    X = X if sparse else X.toarray()
    scales = tuple(2.0 ** (j % 7 - 3) * 1.1 for j in range(SCHEMA.n_features_out))
    norm = float(np.linalg.norm(X.data if sparse else X))  # rounding pushes some rows out of the ball: they are shrunk
    how = {"row": "row", "bound": SCHEMA.bound, "norm": norm, "columns": scales}[scaling]
    grid = Grid(SCHEMA.n_features_out, bits, intercept, how)
    check(row, decode_cells(SCHEMA, grid, to_grid(X, grid)))
    x = (X.toarray() if sparse else X)[0].astype(np.float64)
    check(row, decode_row(SCHEMA, x, x, (1.0, 1.0)))  # nor was it rounded


@settings(max_examples=100, deadline=None)
@given(
    x=st.lists(st.floats(-1, 1), min_size=2, max_size=5),
    bits=st.integers(4, 20),
    intercept=st.booleans(),
)
def test_rows_on_the_edge_of_the_ball_are_read_as_they_were_stored(x, bits, intercept):
    schema = Schema([Number(name=f"x{j}", scale=1, indicator=False) for j in range(len(x))])
    X = schema.encode({f"x{j}": [v] for j, v in enumerate(x)})[0]
    norm = float(np.linalg.norm(X.astype(np.float64))) or 1.0
    grid = Grid(len(x), bits, intercept, norm)
    told = decode_cells(schema, grid, to_grid(X, grid))
    for j, v in enumerate(x):
        assert within(told[f"x{j}"].facts["low"], v, told[f"x{j}"].facts["high"])


@settings(max_examples=40, deadline=None)
@given(row=ROWS, meaning=_vector)
def test_on_the_usual_grid_little_is_lost(row, meaning):
    row = {**row, "meaning": meaning}
    X = SCHEMA.encode({name: [cell] for name, cell in row.items()})[0]
    X = X if isinstance(X, np.ndarray) else X.toarray()
    grid = Grid(SCHEMA.n_features_out)
    told = decode_cells(SCHEMA, grid, to_grid(X, grid))
    check(row, told)
    for name in ("town", "grade", "member"):
        facts = told[name].facts
        assert told[name].missing or len(facts["one_of"]) + facts["others"] == 1
    for name in ("hours", "score", "age"):  # none of them has a fill, and each has an indicator
        assert told[name].missing is not None
    age = told["age"].facts
    if not told["age"].missing and None not in age.values():
        assert age["high"] - age["low"] < 0.1
    if not told["joined"].missing:
        parts = told["joined"].facts["parts"]
        assert all(len(parts[p]) == 1 for p in ("month", "weekday", "hour"))
        assert parts["year"]["low"] == parts["year"]["high"] or None in parts["year"].values()


@pytest.mark.parametrize("bins", ["one-hot", "thermometer", "multiscale"])
@pytest.mark.parametrize("indicator", [True, False])
def test_cells_without_an_indicator_may_have_been_missing(bins, indicator):
    columns = [
        Number(name="x", range=[0, 10], indicator=indicator),
        Number(name="y", edges=[*range(1, 10)], bins=bins, indicator=indicator),
        Number(name="z", scale=5, fill=3, indicator=indicator),
        Ordered(name="o", levels=["a", "b"], indicator=indicator),
        Category(name="c", values=["u"], indicator=indicator),
        YesNo(name="b", indicator=indicator),
        Date(name="d", parts=["month"], indicator=indicator),
        Time(name="t", encoding="bins", indicator=indicator),
        Text(name="w", words=[1, 1], places=4, indicator=indicator),
        Vector(name="v", length=2, indicator=indicator),
    ]
    schema = Schema(columns, [Cross(columns=["c", "b"])])
    table = {
        "x": 5,
        "y": 0,
        "z": 3,
        "o": "a",
        "c": "u",
        "b": "no",
        "d": "2020-05-05",
        "t": "7:00",
        "w": "x",
        "v": [0, 0],
    }
    there, gone = (
        {name: told.missing for name, told in decode_cells(schema, grid, to_grid(schema.encode(rows)[0], grid)).items()}
        for grid in [Grid(schema.n_features_out)]
        for rows in ({n: [v] for n, v in table.items()}, {n: [None] for n in table})
    )
    if indicator:
        assert set(there.values()) == {False}
        assert set(gone.values()) == {True}
        return
    unclear = {n for n, missing in there.items() if missing is None}
    assert unclear | {"w"} == {n for n, missing in gone.items() if missing is None}  # some texts have no words
    assert unclear == {"x", "z", "o", "b", "v"} | ({"y"} if bins == "thermometer" else set())
    assert {n for n, missing in gone.items() if missing} == {"c", "d", "t"} | (
        {"y"} if bins != "thermometer" else set()
    )


def told_of(schema, **cells):
    grid = Grid(schema.n_features_out)
    return decode_cells(schema, grid, to_grid(schema.encode({n: [c] for n, c in cells.items()})[0], grid))


def test_texts_for_people():
    town = Category(name="town", values=["Bern"])  # it also says how long the row was
    schema = Schema([Number(name="age", range=[0, 100]), Number(name="h", edges=[20, 40]), town])
    told = {n: t.text for n, t in told_of(schema, age=39, h=25, town="Rome").items()}
    assert told["age"].startswith("39.0")
    assert "±" in told["age"]
    assert told["h"] == "20 to below 40"
    assert told["town"] == "none of the values that the schema lists"
    assert told_of(schema, age=1e9, h=50, town="Bern")["age"].text.endswith("(clipped at 100)")
    assert told_of(schema, age=1e9, h=50, town="Bern")["h"].text == "40 or more"
    assert told_of(schema, age=-1, h=-5, town="Bern")["age"].text.startswith("at or below 0.")
    assert told_of(schema, age=-1, h=-5, town="Bern")["h"].text == "below 20"
    assert told_of(schema, age=None, h=-5, town="Bern")["age"].text == "missing, or no number"
    words = Schema([Text(name="note", words=[1, 1], places=64), town])
    assert told_of(words, note="to be", town=None)["note"].text == "a text, whose words were hashed and are not stored"
    date = Schema(
        [Date(name="d", parts=["year", "weekday", "days"], years=[2000, 2030], since="2010-01-01", days=1000), town]
    )
    assert told_of(date, d="2011-01-03", town="Bern")["d"].text == "year 2011, Monday, 367 days since 2010-01-01"
    assert told_of(date, d="1900-01-03", town="Bern")["d"].text.startswith("year 2000 or less")


def test_a_lone_number_keeps_its_direction_alone():
    schema = Schema([Number(name="x", scale=10, indicator=False)])
    assert told_of(schema, x=3)["x"].text.startswith("at or above")
    assert told_of(schema, x=3)["x"].facts["low"] == pytest.approx(0.0, abs=1e-4)
    grid = Grid(1, scaling=1.0)
    told = decode_cells(schema, grid, to_grid(schema.encode({"x": [3]})[0], grid))["x"]
    assert told.facts["low"] <= 3 <= told.facts["high"]
    assert told.facts["high"] - told.facts["low"] < 0.001


def test_bounds_that_fit_nothing_are_missing_cells():
    schema = Schema([Category(name="c", values=["a", "b"], indicator=False)])
    two = np.array([1.0, 1.0, 0.0])  # no cell is two values
    assert decode_row(schema, two - 0.01, two + 0.01, (1.0, 1.0))["c"].missing is True


@given(middle=st.floats(-1e9, 1e9), half=st.floats(1e-10, 1e6))
def test_what_is_shown_of_a_number_is_never_less_than_is_known(middle, half):
    low, high = middle - half, middle + half
    shown = with_margin(low, high)
    if "±" in shown:
        number, margin = map(Decimal, shown.split(" ± "))
        slack = Decimal("1e-13") * (abs(Decimal(middle)) + Decimal(half))
        assert number - margin <= Decimal(low) + slack
        assert number + margin >= Decimal(high) - slack
        assert margin <= 3 * Decimal(half) + slack
    else:
        assert low == high
