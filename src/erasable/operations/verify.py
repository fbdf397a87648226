"""Check from a state alone that it is what learning its own rows gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.kernel_state import KernelState, kernel_digest, relearn_points
from erasable.core.kernels import REACH
from erasable.core.state import State, digest, relearn
from erasable.errors import ExactnessError, InputError, InputTypeError, VerificationError
from erasable.estimators._erasable import ErasableBase


@dataclass(frozen=True)
class VerifyReport:
    """What was recomputed, all of it found identical.

    Attributes
    ----------
    rows : int
        Core rows replayed through the selector from nothing; every one was selected again.
    sums : int
        Entries of A and of the class sums (hence b) compared; for a kernel, entries of the kernel matrix recomputed.
    weights : int
        Weights solved for anew and compared bit for bit. Models that store none derive them from the rows.
    digest : str
        SHA-256 of the recomputed state, equal to that of the model's.
    """

    rows: int
    sums: int
    weights: int
    digest: str

    def __str__(self) -> str:
        recomputed = f"; {self.sums:,} sums and {self.weights:,} weights recomputed, all identical"
        return (
            f"verified: {self.rows:,} core rows replayed and selected again{recomputed if self.sums else ''}\n"
            f"state digest {self.digest}"
        )


def verify(clf: Any, *, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
    """Rerun learning over the stored core rows from nothing and compare everything with what is stored.

    This computes the right-hand side of the definition of exact system-aware unlearning, ``I(S' - U, {})``, with no
    trust in the code that forgot.

    Parameters
    ----------
    clf : ErasableClassifier, ErasableKernelClassifier or another of their kind
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
    if not isinstance(clf, ErasableBase) and not hasattr(clf, "_recompute"):
        raise InputTypeError(f"verify needs a model that can forget bit for bit; got {type(clf).__name__}.")
    if hasattr(clf, "_recompute"):
        rows, text = clf._recompute(progress)
        return VerifyReport(rows, 0, 0, text)
    tables_agree = clf._fitted("verify").tables_agree()  # before the snapshot, which makes tables anew
    report = verify_state(clf._state(), progress=progress)
    if not tables_agree:
        raise VerificationError("the tables that find rows by id, subject or class do not name the stored rows.")
    return report


def verify_state(state: State | KernelState, *, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
    """:func:`verify` for a state on its own."""
    if isinstance(state, KernelState):
        return _verify_kernel_state(state, progress)
    _check_consistent(state)
    again, selection = relearn(
        state.configuration, state.ids, state.subjects, state.labels, state.rows, progress=progress
    )
    n = len(state.ids)
    _check_all_selected(selection.index, n, "leverage")
    _compare(
        ("A", state.gram, again.gram),
        ("the class sums b", state.class_sums, again.class_sums),
        ("the weights w", state.weights.view(np.int32), again.weights.view(np.int32)),
    )
    text = digest(state)
    if text != digest(again):
        raise VerificationError("the canonical bytes differ although rows, sums and weights agree.")
    return VerifyReport(n, state.gram.size + state.class_sums.size, state.weights.size, text)


def _verify_kernel_state(state: KernelState, progress: Callable[[int, int], None] | None) -> VerifyReport:
    _check_names(state)
    points = state.configuration.points
    square = np.einsum("ij,ij->i", state.rows, state.rows, dtype=np.int64)
    if state.rows.shape[1] != points.n_features or (square > REACH**2).any():
        raise VerificationError("a core row is not a point of the grid.")
    try:
        again, index, _ = relearn_points(
            state.configuration, state.ids, state.subjects, state.labels, state.rows, progress=progress
        )
    except (InputError, ExactnessError) as error:  # values of the kernel that no rows that were learnt can have
        raise VerificationError(f"the stored rows cannot be learnt with the stored configuration: {error}") from error
    _check_all_selected(index, len(state.ids), "disagreement")
    _compare(("the weights", state.weights.view(np.int32), again.weights.view(np.int32)))
    text = kernel_digest(state)
    if text != kernel_digest(again):
        raise VerificationError("the canonical bytes differ although rows and weights agree.")
    return VerifyReport(len(state.ids), len(state.ids) ** 2, state.weights.size, text)


def _check_all_selected(index: npt.NDArray[np.intp], n: int, what: str) -> None:
    if len(index) < n:
        position = int(np.flatnonzero(np.append(index, -1)[:n] != np.arange(n)[: len(index) + 1])[0])
        raise VerificationError(
            f"core row {position + 1} of {n} is not selected again when the rows are learnt from nothing: "
            f"its {what} is not above the threshold ({n - len(index)} such rows in all)."
        )


def _compare(*parts: tuple[str, npt.NDArray[Any], npt.NDArray[Any]]) -> None:
    for name, stored, right in parts:
        if stored.shape != right.shape:
            raise VerificationError(f"{name} has shape {stored.shape}, but relearning gives {right.shape}.")
        differs = np.flatnonzero(stored.reshape(-1) != right.reshape(-1))
        if len(differs):
            raise VerificationError(
                f"{name} differs from what the stored rows give, first at {_place(name, stored, int(differs[0]))} "
                f"({len(differs)} of {stored.size} entries differ)."
            )


def _check_names(state: State | KernelState) -> None:
    """Ids, subjects and labels: one for each row, of one type, ids distinct, labels among the fixed classes."""
    n = len(state.ids)
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


def _check_consistent(state: State) -> None:
    _check_names(state)
    n, grid = len(state.ids), state.configuration.grid
    square = np.einsum("ij,ij->i", state.rows, state.rows, dtype=np.int64)
    unfit = (square > grid.radius**2) | (state.rows[:, grid.n_features :] != grid.constant).any(axis=1)
    if unfit.any():
        raise VerificationError(f"core row {int(np.flatnonzero(unfit)[0]) + 1} of {n} is not a row of the grid.")


def _place(name: str, array: npt.NDArray[Any], flat: int) -> str:
    if name == "A":
        i = int((np.sqrt(8.0 * flat + 1.0) - 1.0) // 2)
        return f"entry ({i}, {flat - i * (i + 1) // 2})"
    return "entry (" + ", ".join(str(int(v)) for v in np.unravel_index(flat, array.shape)) + ")"
