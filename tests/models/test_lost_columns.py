"""Warnings of a first fit about columns whose differences the log map loses, and about too many columns."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from erasable import ErasableClassifier, ErasableRegressor
from erasable.errors import WeakModelWarning
from erasable.models.row_source import Rows
from erasable.operations.learn import learn_table

RNG = np.random.default_rng(8)
Z = RNG.standard_normal((300, 4))
Y = Z.sum(axis=1) > 0


def log(**parameters):
    return ErasableClassifier(feature_map="log", loss="squared", **parameters)


def said(clf, X, y=Y):
    """Warnings of a fit."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        clf.fit(X, y)
    assert all(each.category is WeakModelWarning and each.filename == __file__ for each in found)
    return [str(each.message) for each in found]


FAR = Z * [1, 1.6e6, 2, 1] + [0, 1.6e9, 2010, 0]
SMALL = Z * [1, 1e-8, 1e-5, 1]


def test_columns_far_from_zero_are_named_with_the_argument():
    (text,) = said(log(), FAR)
    assert re.match(r"columns 1, 2 \(counted from 0; 2 of 4\) lie so far from zero.*give centres=", text)
    assert "1.6" not in text
    assert "2010" not in text
    (text,) = said(log(), pd.DataFrame(FAR, columns=["a", "stamp", "year", "d"]))
    assert text.startswith("columns 'stamp', 'year' (2 of 4)")
    (text,) = said(log(feature_names=["a", "when", "year", "d"]), FAR)
    assert text.startswith("columns 'when', 'year' (2 of 4)")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_columns_too_small_for_the_grid_are_named_with_the_argument(form):
    (text,) = said(log(), form(SMALL))
    assert re.match(r"columns 1, 2 \(counted from 0; 2 of 4\) vary so little.*give scaling=", text)


def test_the_arguments_are_what_they_say():
    assert said(log(centres=[0, 1.6e9, 2010, 0]), FAR) == []
    assert said(log(scaling=[1, 1e-8, 1e-5, 1]), SMALL) == []
    helped = log(centres=[0, 1.6e9, 2010, 0], capacity=0.005).fit(FAR, Y)
    assert helped.score(FAR, Y) > 0.9


def test_long_lists_are_cut():
    (text,) = said(log(), np.hstack([SMALL[:, 1:2]] * 8 + [Z]))
    assert text.startswith("columns 0, 1, 2, 3, 4 and 3 more (counted from 0; 8 of 12)")


@pytest.mark.parametrize(
    "X",
    [
        Z,
        Z * [1, 10, 1e3, 1e5],
        np.c_[Z, np.full(300, 7.0), np.zeros(300), np.full(300, 1e-9)],  # one value has no differences
        np.c_[Z, np.arange(300) == 7],  # rarely anything but zero
        np.exp(4 * Z),
    ],
)
def test_other_columns_raise_no_warning(X):
    assert said(log(), X) == []
    assert said(ErasableRegressor((-20, 20), feature_map="log"), X, Z[:, 0]) == []
    assert said(ErasableClassifier(feature_map=None, loss="squared"), X) == []


def test_fewer_rows_than_columns_are_reported_before_anybody_finds_out():
    wide = RNG.standard_normal((120, 150))
    (text,) = said(log(), wide, Y[:120])
    assert text.startswith("120 rows have 150 columns")
    assert "alpha=" in text
    assert "threshold=" in text
    assert said(log(), wide[:, :50], Y[:120]) == []


def blocks_of(X, form):
    """The rows in blocks, as from a file."""
    return [Rows(form(X[i : i + 70]), Y[i : i + 70], range(i, min(i + 70, len(X)))) for i in range(0, len(X), 70)]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("X", [FAR, SMALL, np.c_[Z, np.full(300, 7.0)], np.c_[Z, np.arange(300) == 7]])
def test_rows_in_blocks_are_warned_of_like_rows_in_memory(X, form):
    X = np.where(np.arange(300)[:, None] % 11 == 5, np.nan, X)
    options = {"missing": "indicator", "threshold": 0.1}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        log(**options).learn_blocks(blocks_of(X, form))
    assert [str(each.message) for each in found] == said(log(**options), form(X))
    assert all(each.filename == __file__ for each in found)


def test_columns_of_rows_added_later_and_behind_other_maps_are_not_looked_at():
    for model in (log().fit(Z, Y, ids=range(1000, 1300)), ErasableClassifier(feature_map=None)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model.learn_blocks(blocks_of(SMALL, np.asarray))
        assert not found


def test_a_table_reports_lost_columns(tmp_path):
    pd.DataFrame(FAR, columns=["a", "stamp", "year", "d"]).assign(label=Y).to_csv(tmp_path / "t.csv", index=False)
    learnt = learn_table(tmp_path / "m.erasable", tmp_path / "t.csv", score=False)
    assert any(text.startswith("columns 'stamp', 'year' (2 of 4)") for text in learnt.warnings)


@pytest.mark.parametrize("selection", ["leverage", "independent"])
def test_constants_of_less_than_a_step_are_no_error(selection):
    huge = np.where(Z > 0, 1e300, -1e300)
    assert said(log(grid_bits=6, selection=selection), huge[:40], Y[:40]) == []
    for rows in (1.7e308 * np.sign(Z), sp.csr_array(1.7e308 * np.sign(Z))):
        assert said(log(selection=selection), rows) == []


def test_a_handful_of_core_rows_shows_no_spread():
    rows = Z[:12] + np.array([5.0, 3.0, 1.5, 0.3])
    model = ErasableClassifier(selection="independent", loss="squared")
    assert said(model, rows, Y[:12]) == []
    assert model.n_core_ == 1
