"""Rows that belong to several people: it goes when any of them asks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_validate

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    verify,
)
from erasable.classes import LinearBall
from erasable.coresets import RandomSubsample
from erasable.errors import InputError, InputTypeError
from erasable.models.inputs import as_subject_column
from erasable.research.baselines import RetrainedRidge, SISAClassifier
from tests.estimators.cases import SECRET, SECRET_TEXT, N, classifier, make_rows, refused

X, Y = make_rows()
SENDERS = [f"s{i % 5}" for i in range(N)]
RECEIVERS = [f"r{i % 7}" if i % 3 else None for i in range(N)]
BOTH = [[s, r] if r else [s] for s, r in zip(SENDERS, RECEIVERS, strict=True)]
NUMBERS = np.stack([np.arange(N) % 5, np.arange(N) % 7], axis=1)


def fitted(subjects, **parameters):
    return classifier(threshold=0.0, **parameters).fit(X, Y, ids=range(N), subjects=subjects)


def objects(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


CONTAINERS = {
    "tuples": [tuple(s) for s in BOTH],
    "sets": [set(s) for s in BOTH],
    "the other order": [s[::-1] for s in BOTH],
    "twice": [s + s for s in BOTH],
    "with missing ones": [[None, *s, float("nan"), pd.NA, ""] for s in BOTH],
    "a scalar where there is one": [s if len(s) > 1 else s[0] for s in BOTH],
    "arrays": [np.array(s) for s in BOTH],
    "NumPy texts, some empty": [[np.str_(name) for name in ["", *s]] for s in BOTH],
    "an array of lists": objects(BOTH),
    "an array of objects": np.array([SENDERS, RECEIVERS], dtype=object).T,
    "an array of texts": np.array([SENDERS, [r or "" for r in RECEIVERS]]).T,
    "pandas": pd.DataFrame({"from": SENDERS, "to": RECEIVERS}),
    "a pandas column of lists": pd.Series(BOTH, index=range(N, 0, -1)),
    "a pandas column of arrays": pd.Series([np.array(s) for s in BOTH]),
    "polars": pl.DataFrame({"from": SENDERS, "to": RECEIVERS}),
    "a polars column of lists": pl.Series(BOTH),
    "pyarrow": pa.table({"from": SENDERS, "to": RECEIVERS}),
    "a pyarrow column of lists": pa.array(BOTH),
    "pyarrow in chunks": pa.chunked_array([BOTH[:4], BOTH[4:]]),
}


@pytest.mark.parametrize("subjects", CONTAINERS.values(), ids=CONTAINERS)
def test_every_container_gives_the_same_state(subjects):
    assert fitted(subjects).state_digest() == fitted(BOTH).state_digest()


INTEGERS = {
    "array": NUMBERS,
    "column by column": np.asfortranarray(NUMBERS),
    "unsigned": NUMBERS.astype(np.uint8),
    "pandas, each column of its own type": pd.DataFrame(
        {"a": NUMBERS[:, 0].astype(np.int8), "b": pd.array(NUMBERS[:, 1], dtype="Int64")}
    ),
    "lists": NUMBERS.tolist(),
}


@pytest.mark.parametrize("subjects", INTEGERS.values(), ids=INTEGERS)
def test_numbers_may_name_people_too(subjects):
    clf = fitted(subjects)
    expected = [(a, b) if a < b else (b, a) if a > b else a for a, b in NUMBERS.tolist()]
    assert list(clf.model_.core.subjects()) == [expected[i] for i in clf.core_ids_.tolist()]


def test_lists_of_one_are_the_states_of_before():
    """A row with one subject, or none, is written as it always was."""
    plain = classifier(threshold=0.0).fit(X, Y, subjects=RECEIVERS, allow_no_subject=True)
    listed = [[] if r is None else [r] for r in RECEIVERS]
    clf = classifier(threshold=0.0).fit(X, Y, subjects=listed, allow_no_subject=True)
    assert clf.state_digest() == plain.state_digest()
    shared = fitted(BOTH)
    shared.forget(subjects={r for r in RECEIVERS if r})
    alone = [i for i, r in enumerate(RECEIVERS) if r is None]
    one_each = classifier(threshold=0.0).fit(X[alone], Y[alone], ids=alone, subjects=[SENDERS[i] for i in alone])
    assert shared.state_digest() == one_each.state_digest()


MODELS = {
    "linear": ErasableClassifier(threshold=0.0),
    "kernel": ErasableKernelClassifier(threshold=0.01),
    "general": ErasableGeneralClassifier(LinearBall(), threshold=0.001),
    "core set": CoreSetUnlearner(RandomSubsample(0.9), RidgeClassifier()),
    "ridge": RetrainedRidge(),
    "sisa": SISAClassifier(n_shards=2, n_slices=2),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_row_goes_when_any_of_its_people_asks(name):
    Z = X / np.abs(X).sum(axis=1, keepdims=True)
    by_subject, by_id = (sklearn.base.clone(MODELS[name]).fit(Z, Y, subjects=BOTH) for _ in range(2))
    leaving = [i for i in range(N) if "r1" in BOTH[i] or "s2" in BOTH[i]]
    report, other = by_subject.forget(subjects=["r1", "s2", "nobody"]), by_id.forget(ids=leaving)
    assert report.core_rows_removed == other.core_rows_removed > 0
    assert (report.requested, report.not_stored) == (3, 1)
    assert by_subject.stored_rows_ == by_id.stored_rows_ > 0
    assert by_subject.predict(Z).tolist() == by_id.predict(Z).tolist()
    if hasattr(by_subject, "state_digest"):
        assert by_subject.state_digest() == by_id.state_digest()
        assert verify(by_subject).core_rows == by_subject.n_core_
    assert by_subject.forget(subjects=["r1", "s2"]).core_rows_removed == 0


WRONG = {
    "floats": ([[SECRET, 1.0]] * N, InputTypeError),
    "two types": ([["a", 1]] * N, InputTypeError),
    "two types in two rows": ([["a", "b"]] * (N - 1) + [[SECRET_TEXT.encode()]], InputTypeError),
    "lists in lists": ([[["a"], ["b"]]] * N, InputTypeError),
    "dates": (np.zeros((N, 2), dtype="M8[D]"), InputTypeError),
    "a matrix for a row": ([np.zeros((2, 2), dtype=int)] * N, InputError),
    "three dimensions": (np.zeros((N, 2, 2), dtype=int), InputError),
    "one row too few": (BOTH[:-1], InputError),
    "columns for rows": (NUMBERS.T, InputError),
    "past 64 bits": ([[1, 2**63]] * N, InputError),
    "lone surrogates": ([["a", "\ud800" + SECRET_TEXT]] * N, InputError),
    "nobody": ([[None, ""], *BOTH[1:]], InputError),
    "an empty list": ([[], *BOTH[1:]], InputError),
    "a set of lists": (frozenset(map(tuple, BOTH)), InputTypeError),
}


@pytest.mark.parametrize(("subjects", "error"), WRONG.values(), ids=WRONG)
def test_what_cannot_name_people_is_refused(subjects, error):
    for clf in (classifier(), fitted(BOTH)):
        with refused(clf, error, "subject"):
            clf.fit(X, Y, subjects=subjects)


def test_another_type_than_the_models_is_refused():
    with refused(clf := fitted(BOTH), InputTypeError, "subjects are strings"):
        clf.partial_fit(X, Y, ids=range(N, 2 * N), subjects=NUMBERS)
    with refused(clf, InputTypeError, "subjects"):
        clf.forget(subjects=[("s0", "r1")])  # people, not rows of them


def test_empty_lists_are_learnt_when_that_is_allowed():
    clf = classifier(threshold=0.0).fit(X, Y, subjects=[[], *BOTH[1:]], allow_no_subject=True)
    assert clf.model_.core.subjects()[clf.core_ids_.tolist().index(0)] is None


def test_they_travel_with_their_rows_through_scikit_learn():
    with sklearn.config_context(enable_metadata_routing=True):
        clf = classifier(threshold=0.0).set_fit_request(subjects=True, ids=True)
        done = cross_validate(
            clf, X, Y, cv=3, params={"subjects": BOTH, "ids": np.arange(N)}, return_estimator=True, return_indices=True
        )
    for model, train in zip(done["estimator"], done["indices"]["train"], strict=True):
        owners = dict(zip(model.core_ids_.tolist(), model.model_.core.subjects(), strict=True))
        assert {i: owners[i] for i in train.tolist()} == {
            i: tuple(sorted(BOTH[i])) if len(BOTH[i]) > 1 else BOTH[i][0] for i in train.tolist()
        }


@given(
    st.lists(st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab", "é", "\0"])), max_size=4), min_size=1)
)
def test_the_column_is_sorted_and_distinct(rows):
    for row, found in zip(rows, as_subject_column([set(row) for row in rows]), strict=True):
        named = sorted({name for name in row if name})
        assert found == (None if not named else named[0] if len(named) == 1 else tuple(named))
