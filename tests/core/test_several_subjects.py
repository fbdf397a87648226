"""Subjects of rows some of which belong to several: how they are written, and what is refused when they are read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable import ErasableClassifier
from erasable.core.layout import DTYPES, parse, parts
from erasable.core.names import key_tensors, read_keys, subject_kind
from erasable.errors import StateFormatError, VerificationError
from erasable.models.state import State

KEYS = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "str": st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3),
    "bytes": st.binary(min_size=1, max_size=3),
}


def canonical(row):
    row = sorted(set(row))
    return tuple(row) if len(row) > 1 else row[0] if row else None


@pytest.mark.parametrize("kind", KEYS)
@given(data=st.data())
def test_what_is_written_is_read_again(kind, data):
    rows = [canonical(row) for row in data.draw(st.lists(st.lists(KEYS[kind], max_size=3)))]
    tensors = {name: np.asarray(array, DTYPES[t]) for name, (t, array) in key_tensors("subjects", rows).items()}
    assert ("subjects.lengths" in tensors) == any(isinstance(row, tuple) for row in rows)
    assert {"subjects.lengths", "subjects.present"} - tensors.keys()
    assert read_keys(tensors, "subjects", subject_kind(rows), len(rows)) == tuple(rows)


def state(owners=(("a", "b"), "c", None, ("b", "c", "d"))):
    clf = ErasableClassifier(1.0, threshold=0.0, order="given")
    clf.fit(np.eye(4), [0, 1, 0, 1], ids=list("wxyz"), subjects=list(owners), allow_no_subject=True)
    return clf.model_.snapshot()


def altered(change):
    """The bytes of a state whose tensors of subjects were changed, with a checksum that fits."""
    meta, tensors = parse(state().to_bytes())
    names = {np.dtype(code).newbyteorder("="): name for name, code in DTYPES.items()}
    held = {name: array.copy() for name, array in tensors.items()}
    change(held)
    del meta["checksum"]
    return b"".join(parts(meta, {name: (names[array.dtype], array) for name, array in held.items()}))


def write(tensors, lengths, texts):
    tensors["subjects.lengths"] = np.array(lengths, dtype=np.int32)
    tensors["subjects.ends"] = np.cumsum([len(t) for t in texts], dtype=np.int64)
    tensors["subjects"] = np.frombuffer("".join(texts).encode(), dtype=np.uint8)


def test_nothing_changed_is_the_state_itself():
    assert State.from_bytes(altered(lambda tensors: None)).subjects == (("a", "b"), "c", None, ("b", "c", "d"))


WRONG = {
    "not sorted": lambda t: write(t, [2, 1, 0, 3], ["b", "a", "c", "b", "c", "d"]),
    "not distinct": lambda t: write(t, [2, 1, 0, 3], ["a", "a", "c", "b", "c", "d"]),
    "an empty one among several": lambda t: write(t, [2, 1, 0, 3], ["", "b", "c", "b", "c", "d"]),
    "lengths too small": lambda t: write(t, [2, 1, 0, 2], ["a", "b", "c", "b", "c", "d"]),
    "lengths too large": lambda t: write(t, [2, 1, 0, 4], ["a", "b", "c", "b", "c", "d"]),
    "lengths far too large": lambda t: write(t, [2**31 - 1] * 4, ["a", "b", "c", "b", "c", "d"]),
    "a length below zero": lambda t: write(t, [2, 2, -1, 3], ["a", "b", "c", "d", "b", "c"]),
    "a row too few": lambda t: write(t, [2, 1, 3], ["a", "b", "c", "b", "c", "d"]),
    "none of several": lambda t: write(t, [1, 1, 1, 1], ["a", "b", "c", "d"]),
    "none at all": lambda t: write(t, [0, 0, 0, 0], []),
    "lengths of another type": lambda t: t.update({"subjects.lengths": np.array([2, 1, 0, 3], dtype=np.int64)}),
    "lengths in two dimensions": lambda t: t.update({"subjects.lengths": t["subjects.lengths"].reshape(2, 2)}),
    "who is there as well": lambda t: t.update({"subjects.present": np.array([1, 1, 0, 1], dtype=np.uint8)}),
    "ids of several": lambda t: t.update(
        {
            "ids.lengths": np.array([2, 1, 1, 1], dtype=np.int32),
            "ids.ends": np.arange(1, 6, dtype=np.int64),
            "ids": np.frombuffer(b"vwxyz", dtype=np.uint8),
        }
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_not_canonical_is_refused(what):
    with pytest.raises(StateFormatError, match="not a state"):
        State.from_bytes(altered(WRONG[what]))


ODD = {
    "not sorted": ("b", "a"),
    "twice": ("a", "a"),
    "one in a tuple": ("a",),
    "none in a tuple": (),
    "an empty text": ("", "a"),
    "two types": ("a", 1),
}


@pytest.mark.parametrize("owners", ODD.values(), ids=ODD)
def test_a_state_with_such_subjects_does_not_verify(owners):
    found = state()
    found.verify()
    with pytest.raises(VerificationError, match="subjects"):
        replace(found, subjects=(owners, *found.subjects[1:])).verify()


def test_rows_of_one_subject_at_most_are_written_as_ever():
    found = parse(state([["a"], "b", None, [None]]).to_bytes())[1]
    assert sorted(name for name in found if name.startswith("subjects")) == [
        "subjects",
        "subjects.ends",
        "subjects.present",
    ]
