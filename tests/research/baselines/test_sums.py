"""Ridge from exact sums alone: the state after a request is that of a refit, and nothing of it grows with the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable import verify
from erasable.audit.definitions import stored_components
from erasable.errors import InputError, InputTypeError, NoRowsError
from erasable.research.baselines import RetrainedRidge
from erasable.research.baselines.ridge import RidgeFromSums
from tests.estimators.cases import make_classes, make_rows
from tests.strategies import problems

X, _ = make_rows()
THREE = np.array(["a", "b", "c"])[make_classes(3)]


def ridge(setting: Any) -> RidgeFromSums:
    return RidgeFromSums(
        setting.capacity, fit_intercept=setting.intercept, scaling=setting.scaling, grid_bits=setting.bits
    )


@settings(max_examples=30)
@given(problems(), st.data())
def test_forgetting_equals_refitting_all_remaining_rows(problem: Any, data: st.DataObject) -> None:
    setting, batch = problem
    rows, labels = np.array(batch.X), np.array(batch.y)
    model, left = ridge(setting).fit(rows, labels), np.arange(len(labels))
    for _ in range(data.draw(st.integers(1, 3))):
        gone = np.array(data.draw(st.lists(st.sampled_from(left.tolist()), unique=True)), dtype=np.intp)
        model.forget(rows[gone], labels[gone])
        left = np.setdiff1d(left, gone)
        if not len(left):
            with pytest.raises(NoRowsError):
                model.predict(rows)
            return
        again = ridge(setting).fit(rows[left], labels[left])
        assert (model.coef_ == again.coef_).all()  # both solved, so that what is stored is the same
        assert stored_components(model) == stored_components(again)


@pytest.mark.parametrize("rows", [X, sp.csr_array(X)], ids=["dense", "sparse"])
@pytest.mark.parametrize("intercept", [False, True])
def test_it_is_exact_retraining_without_the_rows(rows: Any, intercept: bool) -> None:
    gone = np.arange(0, 240, 7)
    model = RidgeFromSums(0.5, fit_intercept=intercept).fit(rows, THREE)
    model.forget(rows[gone], THREE[gone])
    peer = RetrainedRidge(0.5, fit_intercept=intercept).fit(X, THREE)
    peer.forget(ids=gone)
    assert (model.coef_ == peer.coef_).all()
    assert (model.intercept_ == peer.intercept_).all()
    assert (model.predict(rows) == peer.predict(X)).all()


def test_what_is_stored_does_not_grow_with_the_rows() -> None:
    d, k = X.shape[1] + 1, 3
    for n in (30, 240):
        model = RidgeFromSums().fit(X[:n], THREE[:n])
        assert model.stored_bytes_ == 8 * (d * (d + 1) // 2 + k * d + k) + 4 * k * d
        assert model.stored_rows_ == 0


def test_a_class_leaves_with_its_last_row() -> None:
    model = RidgeFromSums().fit(X, THREE)
    for label in "ab":
        model.forget(X[label == THREE], THREE[label == THREE])
    assert model.classes_.tolist() == ["c"]
    assert set(model.predict(X)) == {"c"}


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (X[:1, :1], ["a"]),
        (X[:2], ["a"]),
        (X[:1] * np.nan, ["a"]),
        (X[:1], ["d"]),
        (np.repeat(X[:1], 200, axis=0), ["a"] * 200),
    ],
    ids=["narrow", "lengths", "not finite", "no such class", "too many of a class"],
)
def test_a_request_that_the_sums_can_refuse_is_refused_and_changes_nothing(rows: Any, labels: Any) -> None:
    model = RidgeFromSums().fit(X, THREE)
    before = stored_components(model)
    with pytest.raises(InputError):
        model.forget(rows, labels)
    assert stored_components(model) == before


def test_a_forged_request_goes_unnoticed_and_the_state_cannot_be_verified() -> None:
    """What it gives up for its size: ``RetrainedRidge`` knows no such row, and verifies itself."""
    model = RidgeFromSums().fit(X, THREE)
    model.forget(-X[:1], THREE[:1])
    again = RidgeFromSums().fit(X[1:], THREE[1:])
    assert (model.coef_ != again.coef_).any()
    assert "cannot show" in str(model.guarantee)
    with pytest.raises(InputTypeError):
        verify(model)
