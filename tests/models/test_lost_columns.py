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
