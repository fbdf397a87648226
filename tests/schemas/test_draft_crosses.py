"""Crosses of drafts: the pairs that matter are found, in any order of rows, and no few people decide."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from erasable import ErasableRegressor, verify
from erasable.errors import ConfigurationError
from erasable.operations.schemas import draft_table
from erasable.schemas import Cross, Role, Schema, draft_schema
from erasable.schemas.draft_crosses import _gain, _ridge, propose_crosses
from tests.schemas.raw import town_and_size


def test_the_pair_that_matters_is_found_in_any_order_of_rows_and_blocks():
    found = town_and_size()
    draft = draft_schema(found, target="price", id="row", crosses=4)
    assert draft.schema.crosses == (Cross(columns=("town", "size"), bins=8),)
    assert 0.1 < draft.crosses[0].gain < 1
    mixed = found.sample(frac=1, random_state=1)
    assert draft_schema(mixed, target="price", id="row", crosses=4).schema.text == draft.schema.text
    plain = draft_schema(found, target="price", id="row")
    blocks = [mixed[low : low + 700] for low in range(0, len(mixed), 700)]
    assert plain.with_crosses(blocks, 4).schema == draft.schema
    assert [p.cross for p in plain.with_suggestions(blocks).suggested] == list(draft.schema.crosses)
    assert plain.schema.crosses == ()


def test_labels_of_several_classes_and_of_two():
    found = town_and_size()
    high = np.where(found["price"] > found["price"].median(), "high", "low")
    thirds = np.array(["low", "middle", "high"])[pd.qcut(found["price"], 3, labels=False)]
    for labels in (high, thirds):
        schema = draft_schema(found.assign(price=labels), label="price", id="row", crosses=1).schema
        assert schema.crosses[0].columns == ("town", "size")
    assert draft_schema(found.drop(columns="price"), id="row", crosses=3).schema.crosses == ()


def test_a_pair_that_one_person_has_many_rows_of_is_none():
    """All rows with a dependence belong to one subject: the others show none."""
    found = town_and_size()
    noise = found.assign(price=np.random.default_rng(1).normal(60, 30, len(found)), who=found["row"])
    both = pd.concat([noise, found.assign(who="somebody")], ignore_index=True)
    rows = draft_schema(both, target="price", id="row", ignore=["who"]).schema
    people = Schema([Role(name="who", role="subject") if c.name == "who" else c for c in rows.columns])
    assert propose_crosses(rows, [both], 2, k=20)
    assert not propose_crosses(people, [both], 2, k=20)


def test_cells_of_fewer_than_k_subjects_count_for_nothing():
    places, half = np.repeat([0, 1], [60, 400]), np.arange(460) % 2
    left = np.where(places == 0, 10.0, 0.0)[:, None]
    assert _gain(places, 2, left, half, half >= 0, 30) > 0
    assert _gain(places, 2, left, half, half >= 0, 31) == 0
    one_sided = np.where((places == 0) & (half == 0), 10.0, 0.0)[:, None]
    assert _gain(places, 2, one_sided, half, half >= 0, 30) <= 0  # what one half alone shows is no help


def test_gains_are_those_of_a_slow_computation():
    rng = np.random.default_rng(0)
    places, half, left = rng.integers(0, 5, 500), np.arange(500) % 2, rng.normal(0, 1, (500, 2))
    left[places == 2] += 1
    gains, kept = [], np.arange(500) < 300
    for h in (0, 1):
        before = after = squares = 0.0
        for cell in range(5):
            own, other = left[(places == cell) & (half == h) & kept], left[(places == cell) & (half != h)]
            shift = own.sum(axis=0) / (len(own) + 10)
            before, after = before + np.square(other).sum(), after + np.square(other - shift).sum()
            squares += sum((np.square(row) - np.square(row - shift)).sum() ** 2 for row in other)
        gains.append(before - after - np.sqrt(squares))
    assert np.isclose(_gain(places, 5, left, half, kept, 20), 2 * min(gains))


def test_the_ridge_is_that_of_the_normal_equations():
    rng = np.random.default_rng(0)
    rows, answers = rng.random((80, 6)), rng.random((80, 2))
    expected = np.linalg.solve(rows.T @ rows + np.eye(6), rows.T @ answers)
    assert np.allclose(_ridge(sp.csr_array(rows), answers), expected, atol=1e-4)
    assert not _ridge(sp.csr_array(rows), np.zeros((80, 1))).any()


def test_large_crosses_are_hashed_and_rows_too_few_give_none():
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 40, 9000), rng.integers(0, 41, 9000)
    together = (left % 2) * (right % 2)
    found = town_and_size(9000).assign(left=[f"l{i}" for i in left], right=[f"r{i}" for i in right], price=together)
    schema = draft_schema(found, target="price", id="row", k=5).schema
    (pair,) = propose_crosses(schema, [found], 1, k=1)
    assert (pair.cross.columns, pair.cross.hashed) == (("left", "right"), 1024)
    assert propose_crosses(schema, [found[:70]], 3, k=20) == []
    assert propose_crosses(schema, [], 3, k=20) == []


def test_models_with_the_crosses_and_their_moments_forget():
    found = town_and_size()
    schema = draft_schema(found, target="price", id="row", crosses=1).schema
    assert set(schema.moments) == {"town", "size", "age", "colour", "town×size"}
    y = found["price"].clip(*schema.target_range[0])
    scores = []
    for own in (schema, Schema(schema.columns)):
        model = ErasableRegressor(feature_map=own, selection="independent", rate=0.3)
        model.fit(found, y, ids=found["row"].tolist())
        model.forget(ids=["r1", "r2", "r3"])
        verify(model)
        scores.append(model.score(found, y))
    assert scores[0] > scores[1] + 0.1


def test_files_get_suggestions_as_comments_and_pipes_none(tmp_path):
    found = town_and_size()
    found.to_csv(tmp_path / "t.csv", index=False)
    draft = draft_table(tmp_path / "t.csv", target="price", id="row")
    assert not draft.schema.crosses
    draft.save(tmp_path / "s.toml")
    text = (tmp_path / "s.toml").read_text()
    assert Schema.load(tmp_path / "s.toml") == draft.schema
    assert '# [[crosses]]\n# columns = ["town", "size"]\n# bins = 8\n' in text
    taken = text.replace("# [[crosses]]\n# columns", "[[crosses]]\ncolumns").replace("# bins = 8", "bins = 8")
    assert Schema.parse(taken).crosses == (Cross(columns=("town", "size"), bins=8),)
    assert draft_table(tmp_path / "t.csv", target="price", id="row", crosses=0).suggested == ()
    with pytest.raises(ConfigurationError, match="read again"):
        draft_schema(iter([found]), target="price", crosses=2)
    with pytest.raises(ConfigurationError, match="read again"):
        draft_table(io.BytesIO((tmp_path / "t.csv").read_bytes()), target="price", crosses=2)
