"""Drafts from rows: what goes into them, that nothing rare does, and that margins are never too large."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.operations.schemas import draft_table, summarize_table
from erasable.schemas import Category, Number, Role, Schema, Vector, draft_schema
from erasable.schemas.draft_numbers import _DENSE_SHARE, FINENESSES, as_number, dense_edges, round_step
from erasable.schemas.statistics import NEVER, TableStatistics
from erasable.tables import stream_table
from tests.schemas.raw import table, write

K = 3
_cell = st.one_of(
    st.none(),
    st.sampled_from(["a", "b", "c", "?", "12", "3.5", "yes", "no", "two words", "2020-01-31", "2021-05-06 10:00"]),
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
_owner = st.one_of(st.none(), st.integers(0, 15))


@st.composite
def tables(draw):
    """A column of mostly one kind with odd cells, a label, a target, and subjects in three forms."""
    usual = draw(_pools)
    cells = draw(st.lists(st.one_of(usual, usual, usual, usual, usual, _cell), min_size=2 * K + 1, max_size=40))

    def column(cell):
        return draw(st.lists(cell, min_size=len(cells), max_size=len(cells)))

    return pd.DataFrame(
        {
            "c": pd.array(cells, dtype=object),
            "who": column(st.integers(0, 15)),
            "second": pd.array(column(_owner), dtype="Int64"),
            "lists": pd.Series(column(st.lists(st.integers(0, 9).map(str), max_size=3)), dtype=object),
            "y": column(st.sampled_from("xyz")),
            "price": column(st.integers(-50, 2000)),
            "flag": ["yes", "no"] * (len(cells) // 2) + ["yes"] * (len(cells) % 2),
        }
    )


def drafted(found, columns, **roles):
    """The draft with these columns of subjects; None where they are too few."""
    unused = [name for name in ("who", "second", "lists") if name not in columns]
    try:
        return draft_schema(found.drop(columns=unused), subject=columns, k=K, **(roles or {"label": "y"}))
    except InputError:
        return None


def entries(draft):
    """Every entry of a draft, as the file has it."""
    found = {}
    for column in draft.schema.columns:
        kind = getattr(column, "KIND", None) or column.role
        found[column.name, "kind", None] = (kind, getattr(column, "hashed", None), getattr(column, "order", None))
        for parameter in ("indicator", "parts", "years", "classes", "range", "bins", "encoding"):
            found[column.name, parameter, None] = getattr(column, parameter, None)
        for edge in getattr(column, "edges", None) or ():
            found[column.name, "edge", edge] = True
        for value in getattr(column, "values", None) or ():
            found[column.name, "value", value] = True
    return found


def without(found, subjects, columns):
    """The rows that none of the subjects is in, in any of these columns."""
    texts = [found[c].map(lambda v: {str(o) for o in (v if isinstance(v, list) else [v])}) for c in columns]
    gone = set(map(str, subjects))
    return found[[all(gone.isdisjoint(cell) for cell in row) for row in zip(*texts, strict=True)]]


def finer(bins, subjects):
    """The same finenesses, where a table needs fewer subjects for that with so many bins."""
    return tuple(f._replace(subjects=subjects, per_column=1) if f.bins == bins else f for f in FINENESSES)


@pytest.mark.parametrize("bins", [8, 16, 32])
@pytest.mark.parametrize("columns", [("who",), ("who", "second"), ("lists",), ("second", "lists", "who")])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables(), st.sampled_from(["c", "month", "item no"]), st.randoms(use_true_random=False))
def test_no_entry_changes_while_fewer_subjects_are_absent_than_its_margin(
    monkeypatch, columns, bins, found, name, random
):
    monkeypatch.setattr("erasable.schemas.draft_numbers.FINENESSES", finer(bins, 2 * K + 3 if bins > 8 else 0))
    found = found.rename(columns={"c": name})
    roles = {"label": "y"} if columns == ("who",) else {"target": "price", "ignore": ["y"]}
    draft = drafted(found, columns, **roles)
    if draft is None:
        assert columns != ("who",) or found["who"].nunique() < 2 * K
        return
    before = entries(draft)
    assert set(draft.margins) <= set(before)
    assert {(n, e) for n, e, v in before if v is not None} <= {(n, e) for n, e, v in draft.margins}
    for absent in [[subject] for subject in range(16)] + [random.sample(range(16), m) for m in (2, 3)]:
        try:
            after = drafted(without(found, absent, columns), columns, **roles)
        except ConfigurationError:  # no column is left
            after = {}
        if after is None:  # too few subjects are left
            continue
        after = entries(after) if after else {}
        for entry, margin in draft.margins.items():
            assert margin <= len(absent) or after.get(entry) == before[entry], entry
        if columns == ("who",) and draft.margins[name, "kind", None] > len(absent):
            new = {e for e in after if e[1] in ("edge", "value")} - set(before)
            assert not new or min(m for e, m in draft.margins.items() if e[1] == "edge") <= len(absent)


@settings(max_examples=60, deadline=None)
@given(tables())
def test_nothing_is_in_it_that_fewer_than_k_subjects_have(found):
    draft = drafted(found, ("who",))
    if draft is None:
        return
    column, who = draft.schema.by_name["c"], found["who"]
    if isinstance(column, Category) and column.values:
        texts = [None if pd.isna(v) else v.strip(" ") for v in found["c"]]
        having = found.assign(c=texts).groupby("c")["who"].nunique()
        assert all(having[v] >= K for v in column.values)
    if isinstance(column, Number):
        x = pd.to_numeric(found["c"], errors="coerce")
        assert all(who[x < e].nunique() >= K and who[x >= e].nunique() >= K for e in column.edges)
    if (classes := draft.schema.by_name["y"].classes) is not None:
        assert all(who[found["y"] == c].nunique() >= K for c in classes)


# -- kinds, roles and refusals -----------------------------------------------------------------------------------------


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


def test_kinds_are_those_of_the_cells_and_the_container_does_not_matter(tmp_path):
    found = make()
    schema = draft_schema(found, label="y").schema
    kinds = {c.name: getattr(c, "KIND", None) or c.role for c in schema.columns}
    assert kinds == {
        **dict.fromkeys(("row_id", "token"), "ignore"),
        **dict.fromkeys(("age", "gain", "share"), "number"),
        **dict.fromkeys(("town", "rare", "cabin", "flat"), "category"),
        **{"member": "yes/no", "since": "date", "opens": "time", "note": "text", "y": "label"},
    }
    assert schema.by_name["age"].edges == tuple(range(25, 70, 5))
    assert schema.by_name["share"].edges == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    assert schema.by_name["gain"].edges[0] == 1.0
    assert schema.by_name["gain"].edges[-1] in (10000.0, 20000.0)
    assert schema.by_name["rare"].values == ("usual",)
    assert schema.by_name["since"].years == (2015, 2020)
    assert (schema.by_name["cabin"].hashed, schema.by_name["cabin"].indicator) == (1, True)
    assert schema.by_name["y"].classes == ("p", "q")
    found.to_csv(tmp_path / "t.csv", index=False)
    texts = pd.read_csv(tmp_path / "t.csv", dtype=str, keep_default_na=False)
    for other in (texts, found.sample(frac=1, random_state=1)):
        assert draft_schema(other, label="y").schema == schema


def test_vectors_are_taken_where_they_have_one_length():
    found = {"v": [[0.1, 0.2, 0.3]] * 50 + [None] * 3, "w": [[0.0] * (i % 2 + 1) for i in range(53)]}
    schema = draft_schema(found).schema
    assert schema.by_name["v"] == Vector(name="v", length=3)
    assert schema.by_name["w"] == Role(name="w", role="ignore")


def test_a_draft_says_where_it_comes_from_and_shows_its_margins(tmp_path):
    draft = draft_schema(make(), label="y")
    draft.schema.save(tmp_path / "s.toml", head=draft.head)
    assert (tmp_path / "s.toml").read_text().startswith("# Drafted from rows.")
    assert Schema.load(tmp_path / "s.toml") == draft.schema
    assert str(draft).startswith("row_id, kind: any number\n")
    assert "town, value Bern: " in str(draft)
    assert draft.margins["row_id", "kind", None] == math.inf


def test_the_range_of_a_target_is_round_and_cuts_off_those_at_the_ends():
    found = make().assign(price=np.arange(400) * 10.0 + 3)
    draft = draft_schema(found, target="price", subject="row_id")
    assert draft.schema.by_name["price"] == Role(name="price", role="target", range=(0, 4000))
    found.loc[399, "price"] = 1e9
    assert draft_schema(found, target="price", subject="row_id").schema == draft.schema
    assert draft.margins["price", "range", None] > 1
    flat = draft_schema(found.assign(price=1), target="price").schema
    assert flat.by_name["price"] == Role(name="price", role="target")
    assert flat.target_range is None


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"n": 39, "label": "y"}, InputError, "at least 2 k = 40 subjects; got 39"),
        ({"label": "z"}, ConfigurationError, "no column 'z'"),
        ({"k": 0}, ConfigurationError, "k must be a positive integer"),
    ],
)
def test_refusals(options, error, said):
    with pytest.raises(error, match=said):
        draft_schema(make(options.pop("n", 400)), **options)


def test_columns_that_can_be_no_features_are_ignored_and_those_with_a_role_not_read():
    odd = pa.table({"x": ["a", "b"] * 30, "place": [{"town": "Bern"}] * 60, "names": [["ann"]] * 60})
    roles = {c.name: getattr(c, "role", "") for c in draft_schema(odd).schema.columns}
    assert roles == {"x": "", "place": "ignore", "names": "ignore"}
    given = {"row_id": "id", "note": "ignore", "outcome": "label"}
    statistics = TableStatistics([table()], given, lambda name: False, ())
    assert [name for name in ("row_id", "note", "outcome", "town") if name in statistics] == ["outcome", "town"]


# -- subjects ----------------------------------------------------------------------------------------------------------


def test_subjects_count_and_not_rows_in_every_column_of_them():
    """A town in which one sender writes to many is nobody's secret among receivers, and a secret of the sender."""
    found = make()
    sender = np.where(found["town"] == "Rome", "one", found["row_id"].astype(str))
    both = found.assign(sender=sender, receiver=[f"r{i}" for i in range(len(found))])
    for order in (("sender",), ("sender", "receiver"), ("receiver", "sender")):
        assert draft_schema(both, label="y", subject=order).schema.by_name["town"].values == ("Bern", "Oslo")
    nobody = found.assign(who=np.where(found["town"] == "Rome", None, found["row_id"].astype(str)))
    assert draft_schema(nobody, label="y", subject="who").schema.by_name["town"].values == ("Bern", "Oslo", "Rome")


@settings(max_examples=40, deadline=None)
@given(tables())
def test_rows_without_a_name_are_subjects_of_their_own(found):
    found = found[["c", "y", "flag"]]
    alone = draft_schema(found, label="y", k=K)
    named = draft_schema(found.assign(who=range(len(found))), label="y", subject="who", k=K)
    assert [c for c in named.schema.columns if c.name != "who"] == list(alone.schema.columns)
    assert named.margins == alone.margins


def test_a_subject_whose_name_looks_missing_is_one():
    """In a table of 300 rows, 250 are of somebody called NA: they count once."""
    found = {"town": ["Rome"] * 250 + ["Bern"] * 50, "who": ["NA"] * 250 + [f"p{i}" for i in range(50)]}
    assert draft_schema(found, subject="who", k=5).schema.by_name["town"].values == ("Bern",)


def test_a_margin_counts_those_who_take_rows_of_many_along():
    """Everybody's second owner is one of forty: without one of them, ten rows are absent."""
    found = make().drop(columns="row_id")
    alone = draft_schema(found, label="y").margins["town", "value", "Bern"]
    two = found.assign(who=range(len(found)), clerk=[f"c{i % 40}" for i in range(len(found))])
    margins = draft_schema(two, label="y", subject=("who", "clerk")).margins
    assert margins["town", "value", "Bern"] == 2 < alone / 5  # 33 of 40 clerks or so have one from there


def test_the_order_of_a_list_does_not_matter():
    found = make()
    lists = [[f"p{i}", f"q{i // 4}"] for i in range(len(found))]
    turned = [row[::-1] if i % 3 else row for i, row in enumerate(lists)]
    one, other = (draft_schema(found.assign(who=who), label="y", subject="who") for who in (lists, turned))
    assert (one.schema, one.margins) == (other.schema, other.margins)


# -- blocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", [(), ("person",), ("person", "other"), ("several",)])
@pytest.mark.parametrize("rows", [7, 239])
def test_blocks_of_any_size_give_one_draft(subject, rows):
    n = 240
    found = table(
        other=[None if i % 7 == 0 else f"person-{i % 90:03d}" for i in range(n)],
        several=[[f"person-{(i + j) % 80:03d}" for j in range(i % 4)] for i in range(n)],
        vector=[None if i % 5 == 0 else [0.1] * 3 for i in range(n)],
        price=[i % 31 * 7.5 for i in range(n)],
    )
    unused = [c for c in ("person", "other", "several") if c not in subject]
    options = {"subject": subject, "target": "price", "ignore": unused, "k": 5}
    whole = draft_schema(found, **options)
    blocks = draft_schema((found.slice(low, rows) for low in range(0, n, rows)), **options)
    assert (blocks.schema, blocks.margins) == (whole.schema, whole.margins)


@settings(max_examples=30, deadline=None)
@given(tables(), st.integers(1, 9))
def test_so_they_do_whatever_the_cells_are(found, rows):
    found = found.drop(columns=["second", "lists"])
    options = {"label": "y", "subject": "who", "k": K}
    try:
        whole = draft_schema(found, **options)
    except InputError:
        return
    blocks = draft_schema((found[low : low + rows] for low in range(0, len(found), rows)), **options)
    assert (blocks.schema, blocks.margins) == (whole.schema, whole.margins)


def test_files_are_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setitem(stream_table.__kwdefaults__, "block_bytes", 256 * 50)
    monkeypatch.setattr("erasable.tables.csv_stream.TEXT_BLOCK", 3000)
    found = table()
    whole = draft_schema(found, label="outcome", id="row_id", subject="person", k=5)
    for form in ("raw.csv", "raw.csv.gz", "raw.parquet"):
        path = write(found, str(tmp_path / form))
        draft = draft_table(path, label="outcome", id="row_id", subject=["person"], k=5)
        assert (draft.schema, draft.margins) == (whole.schema, whole.margins)
    assert {c.name: c.different for c in summarize_table(path)}["town"] == 4


def test_no_row_is_held_where_rows_are_subjects_of_their_own():
    """What is kept of a column is as large as its different cells are many."""
    block = pa.table({"town": ["Bern", "Oslo"] * 500, "age": np.arange(1000) % 60})
    statistics = TableStatistics((block for _ in range(50)), {}, lambda name: False, ())
    assert statistics.n_subjects == 50_000
    assert len(statistics.column("age", 20).parts[0].alone) == 60
    assert statistics._columns["age"].codes is None
    assert len(statistics._columns["age"].row_counts) == 60


def test_cells_of_two_kinds_in_one_column_are_refused(tmp_path):
    days = pa.table({"x": [datetime.date(2020, 1, 1)] * 60, "y": ["a", "b"] * 30})
    words = pa.table({"x": ["monday"] * 60, "y": ["a", "b"] * 30})
    with pytest.raises(InputTypeError, match="column 'x' holds dates in some rows and text in others"):
        draft_schema(iter([days, words]))
    for name, part in (("a.parquet", days), ("b.parquet", words)):
        pq.write_table(part, tmp_path / name)
    with pytest.raises(InputError, match=r"the type of 'x' changes between files, from dates in a.parquet to texts"):
        draft_table(tmp_path / "*.parquet")


# -- edges where numbers are dense -------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-30, 120).map(float),
    st.integers(-500, 500).map(lambda i: as_number(i, -2)),
    st.sampled_from([0.0, 0.0, 0.0, 1e14, -3e15, 0.3, 0.7, 1e-5, 123456.0]),
)
ROWS = st.lists(st.tuples(st.integers(0, 25), NUMBERS), min_size=1, max_size=80)


def counted_edges(rows, k, whole):
    """Every multiple of every step near a number, its two bins counted in exact arithmetic."""
    having = [{s for s, v in rows if v != mode} for mode in {v for _, v in rows}]
    many = max(k, -(-min(map(len, having)) // _DENSE_SHARE))
    found = {}
    for exponent in range(0 if whole else -6, 16):
        for digit in (1, 2, 5):
            step = digit * Fraction(10) ** exponent
            for i in {int(Fraction(v) // step) + d for _, v in rows for d in (-1, 0, 1, 2)}:
                low, edge, high = (as_number(digit * (i + d), exponent) for d in (-1, 0, 1))
                least = min(len({s for s, v in rows if a <= v < b}) for a, b in ((low, edge), (edge, high)))
                if least >= many:
                    found[edge] = max(found.get(edge, 0), least - many + 1)
    return found


def edges_of(values, subjects, k, whole):
    found, roles = ({"x": values}, {}) if subjects is None else ({"x": values, "who": subjects}, {"who": "subject"})
    column = TableStatistics([found], roles, lambda name: False, ()).column("x", k)
    return dense_edges(column.parts[0], k, column.numbers(), whole, NEVER)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 6), st.booleans())
def test_dense_edges_and_their_margins_are_those_of_counting(rows, k, whole):
    subjects, values = (np.array(part) for part in zip(*rows, strict=True))
    assert edges_of(values, subjects, k, whole) == counted_edges(rows, k, whole)


def test_dense_edges_are_where_those_are_who_have_any():
    """Of 1,000 people, 950 have none and the others from 1,500 to 2,000: there the edges are."""
    values = np.array([0.0] * 950 + [1500.0 + 10 * i for i in range(50)])
    found = edges_of(values, None, 5, True)
    assert found == edges_of(values, np.arange(1000), 5, True)
    assert sorted(found) == [1000.0, 1550.0, 1600.0, 1650.0, 1700.0, 1750.0, 1800.0, 1850.0, 1900.0, 1950.0]


@pytest.mark.parametrize(
    ("width", "step"), [(6.5, (5, 0)), (5, (5, 0)), (4.99, (2, 0)), (0.1, (1, -1)), (1e-7, (1, -7)), (99999, (5, 4))]
)
def test_steps_are_round(width, step):
    assert round_step(width) == step
