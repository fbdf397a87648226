"""Drafts from rows: what goes into them, that nothing rare does, and that margins are never too large."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable.errors import ConfigurationError, InputError
from erasable.schemas import Category, Date, Number, Role, Schema, Text, Time, Vector, YesNo, draft_schema
from erasable.schemas.draft import round_step

K = 3
_cell = st.one_of(
    st.none(),
    st.sampled_from(
        ["a", "b", "c", "?", "12", "3.5", "yes", "no", "two words", "2020-01-31", "2021-05-06 10:00", "9:30"]
    ),
    st.integers(-5, 30).map(str),
    st.text("abc ", max_size=3),
)
_pools = st.sampled_from(
    [
        st.integers(-3, 20).map(str),
        st.integers(0, 10**6).map(str),
        st.floats(0, 10).map(repr),
        st.sampled_from(["0", "1", "2", "5", "1000", "900000"]),
        st.sampled_from(["a", "b", "c", "d"]),
        st.sampled_from(["yes", "no"]),
        st.sampled_from(["2019-12-31", "2020-01-31", "2021-05-06T10:00", "1999-01-01"]),
        st.sampled_from(["9:30", "23:59"]),
        st.text("ab ", min_size=1, max_size=6),
    ]
)


@st.composite
def tables(draw):
    """A column of mostly one kind with odd cells, a label, and subjects with some rows each."""
    usual = draw(_pools)
    cells = draw(st.lists(st.one_of(usual, usual, usual, usual, usual, _cell), min_size=2 * K + 1, max_size=40))
    owners = draw(st.lists(st.integers(0, 15), min_size=len(cells), max_size=len(cells)))
    labels = draw(st.lists(st.sampled_from("xyz"), min_size=len(cells), max_size=len(cells)))
    return pd.DataFrame(
        {
            "c": pd.array(cells, dtype=object),
            "who": owners,
            "y": labels,
            "flag": ["yes", "no"] * (len(cells) // 2) + ["yes"] * (len(cells) % 2),
        }
    )


def entries(draft):
    """Every entry of a draft, as the file has it."""
    found = {}
    for column in draft.schema.columns:
        kind = column.KIND if isinstance(column, (Number, Category, Date, Text, Time, Vector, YesNo)) else column.role
        found[column.name, "kind", None] = (kind, getattr(column, "hashed", None), getattr(column, "order", None))
        for parameter in ("indicator", "parts", "years", "classes", "range"):
            found[column.name, parameter, None] = getattr(column, parameter, None)
        for edge in getattr(column, "edges", None) or ():
            found[column.name, "edge", edge] = True
        for value in getattr(column, "values", None) or ():
            found[column.name, "value", value] = True
    return found


@settings(max_examples=150, deadline=None)
@given(tables())
def test_no_entry_changes_while_fewer_subjects_are_absent_than_its_margin(table):
    try:
        draft = draft_schema(table, label="y", subject="who", k=K)
    except InputError:
        assert table["who"].nunique() < 2 * K
        return
    before = entries(draft)
    assert set(draft.margins) <= set(before)
    assert {(n, e) for n, e, v in before if v is not None} <= {(n, e) for n, e, v in draft.margins}
    for subject in table["who"].unique():
        rest = table[table["who"] != subject]
        if rest["who"].nunique() < 2 * K:
            continue
        try:
            after = entries(draft_schema(rest, label="y", subject="who", k=K))
        except ConfigurationError:  # no column is left
            after = {}
        for entry, margin in draft.margins.items():
            assert margin <= 1 or after.get(entry) == before[entry], entry
        if draft.margins["c", "kind", None] > 1:
            new = {e for e in after if e[1] in ("edge", "value")} - set(before)
            assert not new or min(m for e, m in draft.margins.items() if e[1] == "edge") == 1


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(2, 4), st.randoms(use_true_random=False))
def test_nor_while_several_are(table, m, random):
    if table["who"].nunique() < 2 * K + m:
        return
    draft = draft_schema(table, label="y", subject="who", k=K)
    gone = random.sample(sorted(table["who"].unique()), m - 1)
    try:
        after = entries(draft_schema(table[~table["who"].isin(gone)], label="y", subject="who", k=K))
    except ConfigurationError:
        after = {}
    before = entries(draft)
    for entry, margin in draft.margins.items():
        assert margin < m or after.get(entry) == before[entry], entry


@settings(max_examples=60, deadline=None)
@given(tables())
def test_nothing_is_in_it_that_fewer_than_k_subjects_have(table):
    if table["who"].nunique() < 2 * K:
        return
    schema = draft_schema(table, label="y", subject="who", k=K).schema
    column = schema.by_name["c"]
    if isinstance(column, Category) and column.values:
        texts = [None if pd.isna(v) else v.strip(" ") for v in table["c"]]
        having = table.assign(c=texts).groupby("c")["who"].nunique()
        assert all(having[v] >= K for v in column.values)
    if isinstance(column, Number):
        x = pd.to_numeric(table["c"], errors="coerce")
        assert all(table["who"][x < e].nunique() >= K and table["who"][x >= e].nunique() >= K for e in column.edges)
    if (classes := schema.by_name["y"].classes) is not None:
        assert all(table["who"][table["y"] == c].nunique() >= K for c in classes)


def make(n=400, seed=0):
    rng = np.random.default_rng(seed)
    start = datetime.date(2015, 1, 1)
    return pd.DataFrame(
        {
            "row_id": np.arange(n),
            "age": rng.integers(18, 70, n),
            "gain": np.where(rng.random(n) < 0.8, 0, rng.integers(1, 50000, n)),
            "share": rng.random(n),
            "town": rng.choice(["Bern", "Oslo", "Rome"], n),
            "rare": np.where(np.arange(n) < 5, "unusual", "usual"),
            "member": rng.choice(["Yes", "No"], n),
            "since": [str(start + datetime.timedelta(days=int(d))) for d in rng.integers(0, 2000, n)],
            "opens": [f"{h}:30" for h in rng.integers(0, 24, n)],
            "note": [" ".join(rng.choice(["good", "bad", "tea", "pot", f"w{i}"], 4)) for i in range(n)],
            "token": [f"t{i}" for i in range(n)],
            "cabin": [f"c{i}" if i % 3 else None for i in range(n)],
            "flat": ["same"] * n,
            "y": rng.choice(["p", "q"], n),
        }
    )


def test_kinds_are_those_of_the_cells():
    schema = draft_schema(make(), label="y").schema
    kinds = {c.name: getattr(c, "KIND", None) or c.role for c in schema.columns}
    assert kinds == {
        "row_id": "ignore",
        "age": "number",
        "gain": "number",
        "share": "number",
        "town": "category",
        "rare": "category",
        "member": "yes/no",
        "since": "date",
        "opens": "time",
        "note": "text",
        "token": "ignore",
        "cabin": "category",
        "flat": "category",
        "y": "label",
    }
    assert schema.by_name["age"].edges == tuple(range(25, 70, 5))
    assert schema.by_name["share"].edges == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    assert schema.by_name["gain"].edges[0] == 1.0
    assert schema.by_name["gain"].edges[-1] in (10000.0, 20000.0)
    assert schema.by_name["rare"].values == ("usual",)
    assert schema.by_name["since"].years == (2015, 2020)
    assert (schema.by_name["cabin"].hashed, schema.by_name["cabin"].indicator) == (1, True)
    assert schema.by_name["y"].classes == ("p", "q")


def test_the_containers_of_a_table_do_not_matter(tmp_path):
    table = make()
    table.to_csv(tmp_path / "t.csv", index=False)
    texts = pd.read_csv(tmp_path / "t.csv", dtype=str, keep_default_na=False)
    assert draft_schema(texts, label="y").schema == draft_schema(table, label="y").schema
    assert draft_schema(table.sample(frac=1, random_state=1), label="y").schema == draft_schema(table, label="y").schema


def test_subjects_count_and_not_rows():
    table = make()
    alone = table.assign(who=np.where(table["town"] == "Rome", "one", table["row_id"].astype(str)))
    assert draft_schema(alone, label="y", subject="who").schema.by_name["town"].values == ("Bern", "Oslo")
    nobody = table.assign(who=np.where(table["town"] == "Rome", None, table["row_id"].astype(str)))
    assert draft_schema(nobody, label="y", subject="who").schema.by_name["town"].values == ("Bern", "Oslo", "Rome")


def test_vectors_are_taken_where_they_have_one_length():
    table = {"v": [[0.1, 0.2, 0.3]] * 50 + [None] * 3, "w": [[0.0] * (i % 2 + 1) for i in range(53)]}
    schema = draft_schema(table).schema
    assert schema.by_name["v"] == Vector(name="v", length=3)
    assert schema.by_name["w"] == Role(name="w", role="ignore")


def test_a_draft_says_where_it_comes_from_and_shows_its_margins(tmp_path):
    draft = draft_schema(make(), label="y")
    draft.schema.save(tmp_path / "s.toml", head=draft.head)
    assert (tmp_path / "s.toml").read_text().startswith("# Drafted from rows.")
    assert Schema.load(tmp_path / "s.toml") == draft.schema
    lines = str(draft).splitlines()
    assert lines[0] == "row_id, kind: any number"
    assert "town, value Bern: " in str(draft)
    assert draft.margins["row_id", "kind", None] == math.inf


@pytest.mark.parametrize(
    ("width", "step"), [(6.5, (5, 0)), (5, (5, 0)), (4.99, (2, 0)), (0.1, (1, -1)), (1e-7, (1, -7)), (99999, (5, 4))]
)
def test_steps_are_round(width, step):
    assert round_step(width) == step


def test_refusals():
    with pytest.raises(InputError, match="at least 2 k = 40 subjects; got 39"):
        draft_schema(make(39), label="y")
    with pytest.raises(ConfigurationError, match="no column 'z'"):
        draft_schema(make(), label="z")
    with pytest.raises(ConfigurationError, match="k must be a positive integer"):
        draft_schema(make(), k=0)
