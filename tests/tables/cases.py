"""A small table with recognisable values, written in every format, and what a refusal must look like."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

from erasable.errors import ErasableError

N, D = 12, 3
SECRET, SECRET_TEXT = 7654321.25, "Zaphod"  # a value and a text that no message may show
_rng = np.random.default_rng(3)
X = _rng.integers(-8, 8, (N, D)) / 4
Y = _rng.integers(0, 3, N)
IDS = [f"{SECRET_TEXT}-{i}" for i in range(N)]
BIG_IDS = [2**63 - 1 - i for i in range(N)]
SUBJECTS = [None if i % 5 == 4 else f"person {i % 4}" for i in range(N)]
COLUMNS = ("a", "b", "c")


def same_array(left, right):
    if left is None or right is None:
        return left is right
    return left.dtype == right.dtype and left.tolist() == right.tolist()


def dense(X):
    return X if isinstance(X, np.ndarray) else X.toarray()


def assert_same(left, right):
    """Tables with the same rows (in whatever container), labels, ids and subjects."""
    np.testing.assert_array_equal(dense(left.X), dense(right.X))
    for part in ("y", "ids", "subjects"):
        assert same_array(getattr(left, part), getattr(right, part)), part


@contextmanager
def refused(kind, *says):
    """The block raises this error; it says these things, no secret, and drags no other error along."""
    with pytest.raises(kind) as caught:
        yield
    error = caught.value
    assert isinstance(error, ErasableError)
    message = str(error)
    for part in says:
        assert part in message, message
    assert SECRET_TEXT not in message
    assert "7654321" not in message
    assert error.__context__ is None
    assert error.__cause__ is None
