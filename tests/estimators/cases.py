"""Small data sets, and what every refused call has to honour."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

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
    return ErasableClassifier(**{"threshold": 0.05, **parameters})


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
        said += [str(error), repr(error)]
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
