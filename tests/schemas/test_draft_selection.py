"""Drafted moments and class shares, against sums of exact fractions and counts of subjects."""

from __future__ import annotations

import io
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable import ErasableClassifier, load
from erasable.cli.app import run
from erasable.operations.schemas import draft_table
from erasable.schemas import Schema, draft_schema
from tests.schemas.raw import OPTIONS, ROLES, columns, table, write


def oracle(schema, rows, owners, k):
    """Exponents by fractions; a feature that fewer than k subjects have gets the smallest of the others."""
    means, having = [Fraction(0)] * rows.shape[1], [set() for _ in range(rows.shape[1])]
    for row, owner in zip(rows.tolist(), owners, strict=True):
        squares = [Fraction(v) ** 2 for v in row]
        for j, square in enumerate(squares):
            if square:
                means[j] += square / sum(squares) / len(rows)
                having[j].add(owner)
    exponents = [nearest(mean) if len(who) >= k else None for mean, who in zip(means, having, strict=True)]
    least = min(e for e in exponents if e is not None)
    return [least if e is None else e for e in exponents], exponents.count(None)


def nearest(mean):
    return min(range(-40, 1), key=lambda e: abs(float(np.log2(float(mean))) - e))


@pytest.mark.parametrize("subject", ["person", "row_id"])
@pytest.mark.parametrize("k", [5, 20])
def test_moments_are_those_of_unit_rows_and_rare_features_have_the_smallest(k, subject):
    found, cells = table(), columns()
    schema = draft_schema(found, **{**ROLES, "subject": subject, "id": None}, k=k).schema
    rows = schema.encode_sparse(found)[0].toarray()
    expected, rare = oracle(schema, rows, cells[subject], k)
    assert np.log2(schema.second_moments).tolist() == expected
    assert rare > 0
    yes = cells["outcome"].count("yes") / len(rows)
    assert schema.class_shares == {"no": 2.0 ** nearest(1 - yes), "yes": 2.0 ** nearest(yes)}


def test_one_person_with_many_rows_shows_in_no_moment():
    draw = np.random.default_rng(0)
    rare = ["rare"] * 40 + draw.choice(["a", "b"], size=400).tolist()
    found = {"who": [0] * 40 + list(range(1, 401)), "c": rare, "x": draw.integers(0, 100, 440)}
    shared = {**found, "who": list(range(440)), "also": ["one"] * 40 + [f"other {i}" for i in range(400)]}
    for cells, subject in ((found, "who"), (shared, ("who", "also"))):
        schema = draft_schema(pa.table(cells), subject=subject).schema
        exponents = dict(zip(schema.feature_names_out(), np.log2(schema.second_moments).tolist(), strict=True))
        assert exponents["c=(others)"] == min(exponents.values()) < exponents["c=a"]
    schema = draft_schema(pa.table({name: shared[name] for name in ("who", "c", "x")}), subject="who").schema
    assert dict(zip(schema.feature_names_out(), np.log2(schema.second_moments), strict=True))["c=rare"] == -4


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 240), st.sampled_from(["raw.csv", "raw.parquet"]))
def test_blocks_and_containers_give_one_draft(rows, form):
    found = table()
    once = draft_schema(found, **ROLES, k=5)
    blocks = [found.slice(i, rows) for i in range(0, 240, rows)]
    plain = draft_schema(iter(blocks), **ROLES, k=5)
    assert plain.schema.second_moments is None
    assert plain.with_selection(blocks).schema.text == once.schema.text


def test_files_are_read_twice_and_pipes_get_no_moments(tmp_path):
    found = table()
    text = draft_schema(found, **ROLES, k=5).schema.text
    for form in ("raw.csv", "raw.parquet"):
        assert draft_table(write(found, str(tmp_path / form)), **ROLES, k=5).schema.text == text
    pipe = io.BytesIO()
    pyarrow.csv.write_csv(found, pipe)
    pipe.seek(0)
    drafted = draft_table(pipe, **ROLES, k=5).schema
    assert drafted.text == drafted.encoding_text == Schema.parse(text).encoding_text


def test_a_target_has_moments_and_no_shares():
    found = table(price=[float(i % 70) for i in range(240)])
    schema = draft_schema(found, target="price", ignore=["outcome"], id="row_id", subject="person", k=5).schema
    assert schema.moments
    assert not schema.class_shares


def test_the_commands_draft_learn_and_forget_as_if_never_learnt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, cells = table(), columns()
    assert run(["schema", write(found, "raw.csv"), *OPTIONS, "--k", "5", "-o", "schema.toml"]) == 0
    learn = ["--schema", "schema.toml", "--selection", "independent", "--rate", "0.5", "--balance", "1", "-o"]
    assert run(["learn", "raw.csv", *learn, "m.erasable"]) == 0
    schema = Schema.load("schema.toml")
    same = ErasableClassifier(feature_map=schema, selection="independent", rate=0.5, balance=1.0)
    same.fit(found, cells["outcome"], ids=cells["row_id"], subjects=cells["person"])
    assert load("m.erasable").state_digest() == same.state_digest()
    gone = sorted(set(same.model_.core.subjects()))[::4]
    assert run(["forget", "m.erasable", *(w for name in gone for w in ("--subject", str(name)))]) == 0
    rest = found.filter([person not in gone for person in cells["person"]])
    assert run(["learn", write(rest, "rest.csv"), *learn, "rest.erasable"]) == 0
    assert load("m.erasable").state_digest() == load("rest.erasable").state_digest()


@pytest.mark.parametrize(("rows", "rate"), [(60, 1.0), (100, 0.5), (200, 0.25), (400, 0.125), (2000, 0.125)])
def test_the_rate_stores_sixteen_rows_for_each_feature_and_an_eighth_at_least(rows, rate):
    schema = draft_schema({"x": ["a", "b"] * (rows // 2)}, k=5).schema
    assert schema.n_features_out == 3
    assert schema.rate == rate
