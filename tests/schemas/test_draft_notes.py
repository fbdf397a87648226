"""What drafts make of codes, months and large tables, and what they say about it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from erasable.schemas import Category, Number, Role, Schema, draft_schema
from erasable.schemas.draft_notes import is_calendar, is_code_name
from erasable.schemas.draft_numbers import draft_fineness
from erasable.schemas.statistics import NEVER


@pytest.mark.parametrize(
    "name",
    ["occupation", "occ10", "product number", "postal code", "ZIP", "zip_code", "plz", "StoreCode", "detailed industry "
     "recode", "item_no", "policePrecinct", "Flight", "article nr.", "MS.SubClass"],
)  # fmt: skip
def test_names_of_codes(name):
    assert is_code_name(name)
    assert not is_calendar(name)


@pytest.mark.parametrize(
    "name",
    ["age", "item price", "number of stores", "num_accounts", "hours-per-week", "no", "number", "", "store size", "x1",
     "price per item", "education-num of days", "sum_code", "months_since_last_delinq", "state population", "income"],
)  # fmt: skip
def test_names_that_are_none(name):
    assert not is_code_name(name)
    assert not is_calendar(name)


@pytest.mark.parametrize("name", ["month", "mnth", "birth_month", "weekday", "arrivalHour", "hr", "dow", "Quarter"])
def test_names_of_the_calendar(name):
    assert is_calendar(name)
    assert not is_calendar(f"{name} average")


def made(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "row_id": range(n),
            "occupation": rng.choice([10, 430, 2310, 9130], n),
            "zip": [f"{z:05d}" for z in rng.choice([501, 2134, 94105], n)],
            "ward": [f"{z:03d}" for z in rng.choice([7, 12, 110], n)],
            "item no": rng.integers(0, 400, n),
            "serial number": np.arange(n) + 10_000,
            "store": rng.choice([1.5, 2.5, 3], n),
            "hour": rng.integers(0, 24, n),
            "month": rng.integers(1, 13, n) * 100,
            "age": rng.integers(18, 90, n),
            "income": np.exp(rng.normal(10, 1, n)),
            "note": ["some words"] * n,
            "price": rng.random(n),
        }
    )


def test_codes_become_categories_and_hours_a_bin_each():
    draft = draft_schema(made(), target="price")
    by_name = draft.schema.by_name
    assert by_name["occupation"] == Category(name="occupation", values=["10", "2310", "430", "9130"], indicator=False)
    assert by_name["zip"].values == ("00501", "02134", "94105")
    assert by_name["ward"].values == ("007", "012", "110")  # by the zeros in front
    assert by_name["item no"].hashed == 64
    assert by_name["serial number"] == Role(name="serial number", role="ignore")
    assert by_name["store"].KIND == by_name["age"].KIND == "number"  # a store of 1.5 is no code
    assert by_name["hour"].edges == tuple(range(1, 24))
    assert len(by_name["month"].edges) < 30  # 100 to 1,200 are no months
    for name in ("occupation", "zip", "ward", "item no"):
        assert draft.notes[name].startswith("Whole numbers, but codes")
    assert draft.notes["hour"].startswith("Months, weekdays, hours")
    assert draft.notes["month"] == draft.notes["age"].replace("15 bins", f"{len(by_name['month'].edges) + 1} bins")
    assert draft.notes["row_id"].startswith("Ignored: its name marks an identifier")
    assert draft.notes["serial number"].startswith("Ignored: nothing that 20 subjects share")


def test_of_many_codes_those_are_listed_that_one_in_two_hundred_has():
    rng = np.random.default_rng(0)
    often = [*range(100, 140), *range(500, 600)]
    found = pd.DataFrame({"occ": rng.choice(often, 10_000, p=[0.02] * 40 + [0.002] * 100), "y": ["a", "b"] * 5000})
    assert draft_schema(found, label="y").schema.by_name["occ"].values == tuple(str(v) for v in range(100, 140))


def test_large_tables_have_more_bins_and_labels_several_scales():
    rng = np.random.default_rng(0)
    n = 31_000
    found = pd.DataFrame(
        {
            "x": rng.normal(0, 1, n),
            "gain": np.rint(np.exp(rng.normal(6, 2, n))),
            "when": np.datetime64("2020-01-01") + rng.integers(0, 900, n),
            "y": rng.choice(["a", "b"], n),
        }
    )
    widths = {}
    for size in (7_999, 8_000, 30_000):
        draft = draft_schema(found[:size], label="y")
        x, gain, when = draft.schema.features
        widths[size] = len(x.edges) + 1, len(gain.edges) + 1
        assert x.bins == gain.bins == ("one-hot" if size < 8_000 else "multiscale")
        assert when.encoding == ("cyclic" if size < 8_000 else "bins")
        assert f"about {draft.bins} bins" in draft.head
        assert draft.margins["x", "bins", None] == {7_999: draft.margins["x", "kind", None]}.get(size, 1)
        assert max(m for e, m in draft.margins.items() if e[1] == "edge") == (1 if size > 7_999 else draft.margins[
            "x", "kind", None])  # fmt: skip
    assert 8 <= min(widths[7_999]) <= max(widths[7_999]) <= 16
    assert 12 <= min(widths[8_000]) <= max(widths[8_000]) <= 30
    assert 24 <= min(widths[30_000]) <= max(widths[30_000]) <= 60
    number = draft_schema(found.assign(y=found["x"] * 2), target="y").schema.by_name["x"]
    assert (number.bins, len(number.edges) + 1 >= 24) == ("one-hot", True)
    assert "joined by two, four" in draft.notes["x"]


def test_the_fineness_needs_subjects_for_each_column():
    assert [draft_fineness(n, 10)[0].bins for n in (7_999, 8_000, 29_999, 30_000)] == [8, 16, 16, 32]
    assert [draft_fineness(n, 200)[0].bins for n in (49_999, 50_000)] == [8, 32]
    assert draft_fineness(100, 3)[1] == NEVER
    assert draft_fineness(30_004, 3)[1] == 5


def test_every_column_has_a_note_in_the_file_and_the_file_is_the_schema(tmp_path):
    draft = draft_schema(made().assign(**{"odd name": "x", "é#": range(1000)}), target="price", ignore=["note"])
    draft.save(tmp_path / "s.toml")
    text = (tmp_path / "s.toml").read_text()
    assert set(draft.notes) == {c.name for c in draft.schema.columns}
    assert all(draft.notes.values())
    assert Schema.load(tmp_path / "s.toml") == draft.schema
    assert Schema.load(tmp_path / "s.toml").text == draft.schema.text
    blocks = text.split("\n\n")
    columns = [b for b in blocks if "[columns." in b]
    assert len(columns) == len(draft.schema.columns)
    assert all(b.startswith("# ") for b in columns)
    assert all(len(line) <= 102 for line in text.splitlines() if line.startswith("#"))
    assert '# Ignored, as you asked.\n[columns.note]\nrole = "ignore"' in text


def test_notes_show_nothing_of_values():
    """Comments have counts that the schema shows anyway, and no cell."""
    found = made().assign(name=["Ann Secret"] * 3 + ["x"] * 997)
    draft = draft_schema(found, target="price")
    said = " ".join(draft.notes.values()) + draft.head + draft.after
    assert "Secret" not in said
    assert isinstance(draft.schema.by_name["age"], Number)
    assert not any(value in said for value in ("9130", "94105"))
