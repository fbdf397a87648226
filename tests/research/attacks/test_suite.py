"""The suite as a whole: verdicts, the page, the JSON that an evidence pack takes."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

from erasable.errors import InputError
from erasable.research.attacks import LETTERS, TARGETS, Sizes, audit, page
from erasable.research.attacks.around import SURROUNDINGS, around
from erasable.research.attacks.suite import measure, thinned
from tests.research.attacks.cases import make_pool

SMALL = Sizes(rows=240, trials=8, shadows=16, candidates=4)  # of fewer trials, all right ones may be luck


@pytest.fixture(scope="module")
def ours():
    return audit(TARGETS["linear"], *make_pool(), data="<made & up>", sizes=SMALL)


def test_an_audit_of_ours_holds_and_tells_what_works(ours):
    assert ours.holds
    assert sorted({outcome.letter for outcome in ours.outcomes}) == list(LETTERS)
    verdicts = {outcome.name: outcome.verdict for outcome in ours.outcomes}
    assert verdicts["whole states: the best cosine with what was there before and is not now"] == "works"
    assert verdicts["its id anywhere in memory or in the file"] == "at chance exactly"


def test_noise_is_no_trace():
    found = audit(TARGETS["interpolated"], *make_pool(), data="made up", sizes=SMALL)
    assert found.holds
    assert found.same_as_refit == 0
    assert "No trace was seen" in page(found)


@pytest.mark.parametrize("name", ["plain", "tombstone", "newton-squared"])
def test_an_audit_of_one_that_leaves_a_trace_does_not_hold(name):
    assert not audit(TARGETS[name], *make_pool(), data="made up", sizes=SMALL).holds


def test_the_json_is_what_an_evidence_pack_takes(ours):
    said = json.loads(json.dumps(ours.as_json(), allow_nan=False))
    assert len(said["results"]) == len(ours.outcomes) + 1
    for result in said["results"]:
        for text in (result["name"], result["verdict"]):
            assert text.isprintable()
            assert 1 <= len(text) <= 120
    for result in said["results"][1:]:
        for name in ("advantage", "auc", "tpr_at_1_percent", "tpr_at_0.1_percent"):
            value, low, high = result[name]
            assert -1 <= low <= value <= high <= 1


def test_the_page_is_whole_by_itself(ours):
    text = page(ours)
    assert not re.search(r"https?:|<script|<link|<img|@import|url\(", text)
    assert "&lt;made &amp; up&gt;" in text
    assert "<made" not in text
    assert text.count("<svg") == len(LETTERS)
    for outcome in ours.outcomes:
        assert outcome.name in text
    assert "nan" not in re.sub(r"<[^>]*>", " ", text).lower().split()


def test_too_few_rows_are_refused():
    X, y = make_pool(150)
    with pytest.raises(InputError, match="at least 200 rows"):
        audit(TARGETS["linear"], X, y, data="made up")


@pytest.mark.parametrize("n_columns", [1, 7])
def test_rows_of_other_columns_than_those_that_are_scaled_are_refused(n_columns):
    scaled = dataclasses.replace(TARGETS["linear"], divisor=np.ones(n_columns))
    X, y = make_pool()
    with pytest.raises(InputError, match=f"of {n_columns} columns, and the rows have {X.shape[1]}: give rows"):
        audit(scaled, X, y, data="made up", sizes=SMALL)


def test_what_stands_around_a_model_remembers():
    figures = {name: measure(*told.pairs()) for name, told in around(*make_pool(300, 5), 6).items()}
    assert list(figures) == list(SURROUNDINGS)
    assert all(figures[name].power[0.01].value == 1.0 for name in ("scaler", "row count", "receipt", "list"))
    assert figures["list alone"].tied


def test_a_thinned_curve_keeps_its_ends_and_its_points():
    fine = np.column_stack([np.linspace(0, 1, 5001), np.linspace(0, 1, 5001) ** 0.5])
    thin = thinned(fine)
    assert len(thin) < 300
    assert (thin[[0, -1]] == fine[[0, -1]]).all()
    assert {tuple(point) for point in thin} <= {tuple(point) for point in fine}
