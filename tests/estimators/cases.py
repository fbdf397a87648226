"""Small data sets, and what every refused call has to honour."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from erasable import ErasableClassifier
from erasable.errors import ErasableError

# Values that must never turn up in a message, a repr or a warning, however NumPy prints them.
SECRET = 123456.789
SECRET_ID = 987654321987
SECRET_TEXT = "SECRET"
TRACES = ("123456", "1.2345", "987654321", "9.8765", "SECRET")

N, D = 240, 3


def make_rows(n: int = N, d: int = D, seed: int = 0) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Random rows, and labels 0 and 1 that are mostly linear in them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X[:, 0] + 0.3 * rng.standard_normal(n) > 0).astype(np.int64)


def make_classes(n_classes: int, n: int = N, seed: int = 0) -> npt.NDArray[np.int64]:
    """Labels 0 .. n_classes - 1, each present."""
    return np.random.default_rng(seed).permutation(np.arange(n) % n_classes)


def classifier(**parameters: Any) -> ErasableClassifier:
    """A classifier that keeps some of the rows of :func:`make_rows` and drops others."""
    return ErasableClassifier(**{"capacity": 1.0, "threshold": 0.05, **parameters})


def fingerprint(clf: ErasableClassifier) -> dict[str, Any]:
    """Everything a refused call must leave alone."""
    attributes = dict(vars(clf))
    memory = attributes.pop("_model", None)
    seen: dict[str, Any] = {name: repr(value) for name, value in attributes.items()}
    if memory is not None:
        seen["digest"] = clf.state_digest()
        seen["tables"] = (list(memory.core.place), {s: list(k) for s, k in memory.core.of_subject.items()})
        seen["counts"] = dict(memory.core.class_counts)
    return seen


def everything_said(error: BaseException | None) -> str:
    """All text of an error and of the errors behind it, whether or not a traceback would print them."""
    said: list[str] = []
    while error is not None:
        said += [str(error), repr(error), repr(getattr(error, "doc", ""))]  # JSON errors have the whole text in it
        said += getattr(error, "__notes__", [])
        if error.__cause__ is not None and error.__cause__ is not error.__context__:
            said.append(everything_said(error.__context__))
        error = error.__cause__ or error.__context__
    return "\n".join(said)


def assert_no_traces(text: str) -> None:
    """No sentinel value appears in the text."""
    found = [trace for trace in TRACES if trace in text]
    assert not found, f"values leaked ({found}): {text[:400]}"


@contextlib.contextmanager
def refused(
    clf: ErasableClassifier, error: type[ErasableError] = ErasableError, *says: str
) -> Iterator[pytest.ExceptionInfo[ErasableError]]:
    """The block raises ``error``, says what it should, tells no values, and leaves the estimator as it was."""
    before = fingerprint(clf)
    with pytest.raises(error) as caught:
        yield caught
    assert fingerprint(clf) == before
    assert_no_traces(everything_said(caught.value))
    for part in says:
        assert part in str(caught.value)


# -- function classes that can be pickled --------------------------------------------------------------------------


class Sigmoid:
    """A smooth step across a plane."""

    def __init__(self, w: Any, b: float = 0.0) -> None:
        self.w, self.b = np.asarray(w, dtype=float), b

    def __call__(self, X: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-4.0 * (X @ self.w + self.b)))


class Plane:
    """What a least-squares fit predicts."""

    def __init__(self, w: Any) -> None:
        self.w = w

    def __call__(self, X: Any) -> Any:
        return 0.5 + X @ self.w


def ball_sup(X: Any, Q: Any) -> Any:
    """The largest squared difference of two linear functions that agree on Q."""
    A = np.eye(X.shape[1]) + Q.T @ Q
    return np.einsum("ij,ij->i", X, np.linalg.solve(A, X.T).T)


def plane_erm(X: Any, y: Any) -> Plane:
    """The least-squares fit."""
    return Plane(np.linalg.solve(np.eye(X.shape[1]) + X.T @ X, X.T @ (y - 0.5)))


# -- rows, labels and ids that nobody can learn ------------------------------------------------------------------


def spoilt(value: float, container: Any = np.array) -> Any:
    """Six rows of which one has this entry."""
    rows = np.full((6, 3), SECRET)
    rows[2, 1] = value
    return container(rows)


def listed_twice() -> sp.csr_array:
    """Rows that are finite entry by entry; two entries stand for their sum, which is not."""
    rows = sp.csr_array(GOOD)
    ends = np.concatenate([[0], rows.indptr[1:] + 2])
    return sp.csr_array((np.r_[1e308, 1e308, rows.data], np.r_[0, 0, rows.indices], ends), shape=rows.shape)


GOOD = np.full((6, 3), SECRET)
FEW = [SECRET_ID + i for i in range(6)]
TWO = [SECRET_TEXT + "-a", SECRET_TEXT + "-b"] * 3
BAD_ROWS: dict[str, Any] = {
    "NaN": (spoilt(np.nan), TWO, FEW),
    "infinity": (spoilt(-np.inf), TWO, FEW),
    "sparse NaN": (spoilt(np.nan, sp.csr_array), TWO, FEW),
    "infinity listed as two entries": (listed_twice(), TWO, FEW),
    "labels past 64 bits": (GOOD, np.array([2**63, 2**63 + 1] * 3, dtype=np.uint64), FEW),
    "too large for float32": (spoilt(np.inf).astype(np.float32), TWO, FEW),
    "no rows": (np.empty((0, 3)), [], []),
    "no columns": (np.empty((6, 0)), TWO, FEW),
    "one row as a vector": (GOOD[0], TWO[:3], FEW[:3]),
    "three dimensions": (GOOD[None], TWO, FEW),
    "ragged": ([[SECRET, SECRET], [SECRET]] * 3, TWO, FEW),
    "text": (np.array([[SECRET_TEXT] * 3] * 6), TWO, FEW),
    "complex": (GOOD * 1j, TWO, FEW),
    "None": (None, TWO, FEW),
    "too few labels": (GOOD, TWO[:5], FEW),
    "no labels": (GOOD, None, FEW),
    "a label as text": (GOOD, SECRET_TEXT, FEW),
    "labels of two types": (GOOD, [SECRET_TEXT, SECRET_ID] * 3, FEW),
    "a missing label": (GOOD, [*TWO[:5], None], FEW),
    "a label that is NaN": (GOOD, [SECRET, np.nan] * 3, FEW),
    "continuous labels": (GOOD, SECRET + np.arange(6) / 7, FEW),
    "labels of bytes": (GOOD, np.array(TWO).astype(bytes), FEW),
    "a label with a lone surrogate": (GOOD, np.array([SECRET_TEXT + "\ud800", *TWO[1:]]), FEW),
    "labels in two columns": (GOOD, np.array([TWO, TWO]).T, FEW),
    "duplicate ids": (GOOD, TWO, [*FEW[:5], FEW[0]]),
    "too few ids": (GOOD, TWO, FEW[:5]),
    "too many ids": (GOOD, TWO, [*FEW, SECRET_ID - 1]),
    "ids of two types": (GOOD, TWO, [*FEW[:5], SECRET_TEXT]),
    "float ids": (GOOD, TWO, np.arange(6) + SECRET),
    "a missing id": (GOOD, TWO, [*FEW[:5], None]),
    "ids without an order": (GOOD, TWO, set(FEW)),
    "ids in two columns": (GOOD, TWO, np.array([FEW, FEW]).T),
    "an id with a lone surrogate": (GOOD, TWO, [SECRET_TEXT + "\ud800", *map(str, FEW[1:])]),
}
