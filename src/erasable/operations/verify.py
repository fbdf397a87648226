"""Check from a state alone that it is what learning its own rows gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.state import State, digest, relearn
from erasable.errors import InputTypeError, VerificationError
from erasable.estimators import ErasableClassifier


@dataclass(frozen=True)
class VerifyReport:
    """What was recomputed, all of it found identical.

    Attributes
    ----------
    rows : int
        Core rows replayed through the selector from nothing; every one was selected again.
    sums : int
        Entries of A and of the class sums (hence b) compared.
    weights : int
        Weights solved for anew and compared bit for bit.
    digest : str
        SHA-256 of the recomputed state, equal to that of the model's.
    """

    rows: int
    sums: int
    weights: int
    digest: str

    def __str__(self) -> str:
        return (
            f"verified: {self.rows:,} core rows replayed and selected again; {self.sums:,} sums and "
            f"{self.weights:,} weights recomputed, all identical\nstate digest {self.digest}"
        )


def verify(clf: ErasableClassifier, *, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
    """Rerun learning over the stored core rows from nothing and compare everything with what is stored.

    This computes the right-hand side of the definition of exact system-aware unlearning, ``I(S' - U, {})``, with no
    trust in the code that forgot.

    Parameters
    ----------
    clf : ErasableClassifier
        A fitted model; not changed.
    progress : callable, optional
        Called with (rows done, rows in all) after every block.

    Returns
    -------
    VerifyReport

    Raises
    ------
    VerificationError
        Naming the first thing that differs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier, verify
    >>> clf = ErasableClassifier(kappa=0.5).fit(*load_iris(return_X_y=True))
    >>> _ = clf.forget(ids=[0, 50, 100])
    >>> report = verify(clf)
    >>> report.rows == clf.n_core_, report.digest == clf.state_digest()
    (True, True)
    """
    if not isinstance(clf, ErasableClassifier):
        raise InputTypeError(f"verify needs an ErasableClassifier; got {type(clf).__name__}.")
    report = verify_state(clf._state(), progress=progress)
    if not clf._memory.tables_agree():
        raise VerificationError("the tables that find rows by id, subject or class do not name the stored rows.")
    return report


def verify_state(state: State, *, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
    """:func:`verify` for a state on its own."""
    _check_consistent(state)
    again, selection = relearn(
        state.configuration, state.ids, state.subjects, state.labels, state.rows, progress=progress
    )
    n = len(state.ids)
    if len(selection.index) < n:
        position = int(
            np.flatnonzero(np.append(selection.index, -1)[:n] != np.arange(n)[: len(selection.index) + 1])[0]
        )
        raise VerificationError(
            f"core row {position + 1} of {n} is not selected again when the rows are learnt from nothing: "
            f"its leverage is not above the threshold ({n - len(selection.index)} such rows in all)."
        )
    for name, stored, right in (
        ("A", state.gram, again.gram),
        ("the class sums b", state.class_sums, again.class_sums),
        ("the weights w", state.weights.view(np.int32), again.weights.view(np.int32)),
    ):
        if stored.shape != right.shape:
            raise VerificationError(f"{name} has shape {stored.shape}, but relearning gives {right.shape}.")
        differs = np.flatnonzero(stored.reshape(-1) != right.reshape(-1))
        if len(differs):
            raise VerificationError(
                f"{name} differs from what the stored rows give, first at {_place(name, stored, int(differs[0]))} "
                f"({len(differs)} of {stored.size} entries differ)."
            )
    text = digest(state)
    if text != digest(again):
        raise VerificationError("the canonical bytes differ although rows, sums and weights agree.")
    return VerifyReport(n, state.gram.size + state.class_sums.size, state.weights.size, text)


def _check_consistent(state: State) -> None:
    n, grid = len(state.ids), state.configuration.grid
    if not (len(state.subjects) == len(state.labels) == len(state.rows) == n):
        raise VerificationError("ids, subjects, labels and rows have different lengths.")
    fixed = state.configuration.classes
    for name, keys in (("ids", state.ids), ("subjects", state.subjects), ("labels", (*state.labels, *(fixed or ())))):
        if len({type(k) for k in keys if k is not None}) > 1:
            raise VerificationError(f"the {name} are of several types.")
    if fixed is not None and not set(state.labels) <= set(fixed):
        raise VerificationError("a core row has a label that is not among the fixed classes.")
    if len(set(state.ids)) != n:
        raise VerificationError("two core rows have the same id.")
    square = np.einsum("ij,ij->i", state.rows, state.rows, dtype=np.int64)
    unfit = (square > grid.radius**2) | (state.rows[:, grid.n_features :] != grid.constant).any(axis=1)
    if unfit.any():
        raise VerificationError(f"core row {int(np.flatnonzero(unfit)[0]) + 1} of {n} is not a row of the grid.")


def _place(name: str, array: npt.NDArray[Any], flat: int) -> str:
    if name == "A":
        i = int((np.sqrt(8.0 * flat + 1.0) - 1.0) // 2)
        return f"entry ({i}, {flat - i * (i + 1) // 2})"
    return "entry (" + ", ".join(str(int(v)) for v in np.unravel_index(flat, array.shape)) + ")"
