"""Drafts of tables whose rows belong to several people: no one of them shows, in whatever column they stand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable.errors import ConfigurationError, InputError
from erasable.schemas import Role, draft_schema
from tests.schemas.test_draft import K, entries, make, tables

_ONE = st.one_of(st.none(), st.integers(0, 15))


@st.composite
def shared(draw):
    """A table as in :func:`tables`, whose rows have a second owner each, or a list of owners, and a target."""
    table = draw(tables())
    n = len(table)
    second = draw(st.lists(_ONE, min_size=n, max_size=n))
    lists = draw(st.lists(st.lists(st.integers(0, 9).map(str), max_size=3), min_size=n, max_size=n))
    price = draw(st.lists(st.integers(-50, 2000), min_size=n, max_size=n))
    return table.assign(second=pd.array(second, dtype="Int64"), lists=pd.Series(lists, dtype=object), price=price)


def without(table, subject, columns):
    """The rows that the subject is in none of these columns of."""
    texts = [table[c].map(lambda v: {str(o) for o in (v if isinstance(v, list) else [v])}) for c in columns]
    return table[[all(str(subject) not in cell for cell in row) for row in zip(*texts, strict=True)]]


@pytest.mark.parametrize("columns", [("who", "second"), ("lists",), ("second", "lists", "who")])
@settings(max_examples=20, deadline=None)
@given(shared())
def test_no_entry_changes_without_one_subject_where_its_margin_exceeds_one(columns, table):
    table = table.drop(columns=[c for c in ("who", "second", "lists") if c not in columns])

    def drafted(rows):
        return draft_schema(rows, target="price", subject=columns, ignore=["y"], k=K)

    try:
        draft = drafted(table)
    except InputError:
        return
    before = entries(draft)
    for subject in range(16):
        try:
            after = entries(drafted(without(table, subject, columns)))
        except InputError:  # too few are left
            continue
        except ConfigurationError:  # no column is left
            after = {}
        for entry, margin in draft.margins.items():
            assert margin <= 1 or after.get(entry) == before[entry], entry


def test_what_k_subjects_must_have_they_must_have_in_every_column():
    """A town in which one sender writes to many is nobody's secret among receivers, and a secret of the sender."""
    table = make()
    sender = np.where(table["town"] == "Rome", "one", table["row_id"].astype(str))
    receiver = [f"r{i}" for i in range(len(table))]
    both = table.assign(sender=sender, receiver=receiver)
    for order in (("sender", "receiver"), ("receiver", "sender")):
        assert draft_schema(both, label="y", subject=order).schema.by_name["town"].values == ("Bern", "Oslo")


def test_a_margin_counts_those_who_take_rows_of_many_along():
    """Everybody's second owner is one of two: without one of them, half of the rows are gone."""
    table = make().drop(columns="row_id")
    alone = draft_schema(table, label="y").margins["town", "value", "Bern"]
    two = table.assign(who=range(len(table)), clerk=[f"c{i % 40}" for i in range(len(table))])
    margins = draft_schema(two, label="y", subject=("who", "clerk")).margins
    assert 1 <= margins["town", "value", "Bern"] < alone / 5
    assert margins["town", "value", "Bern"] == 2  # 33 of 40 clerks or so have one from there, each with ten rows


def test_the_order_of_a_list_does_not_matter():
    table = make()
    lists = [[f"p{i}", f"q{i // 4}"] for i in range(len(table))]
    turned = [row[::-1] if i % 3 else row for i, row in enumerate(lists)]
    drafts = [draft_schema(table.assign(who=who), label="y", subject="who") for who in (lists, turned)]
    assert drafts[0].schema == drafts[1].schema
    assert drafts[0].margins == drafts[1].margins


def test_the_range_of_a_target_is_round_and_cuts_off_those_at_the_ends():
    table = make().assign(price=np.arange(400) * 10.0 + 3)
    draft = draft_schema(table, target="price", subject="row_id")
    assert draft.schema.by_name["price"] == Role(name="price", role="target", range=(0, 4000))
    table.loc[399, "price"] = 1e9
    assert draft_schema(table, target="price", subject="row_id").schema == draft.schema
    assert draft.margins["price", "range", None] > 1
    flat = draft_schema(table.assign(price=1), target="price").schema
    assert flat.by_name["price"] == Role(name="price", role="target")
    assert flat.target_range is None
