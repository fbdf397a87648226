"""The paper's definitions of unlearning as checks that run: on estimators of this package and on anybody's.

**The protocol.** An estimator has ``fit(X, y, ids=...)``, which starts from nothing, and ``forget(ids=...)``. Two more
things are looked at where they are there: ``core_ids_``, the ids of the rows that it stores after ``fit`` (else S' = S,
all rows), and ``audit_state()``, all that it stores by name (else its attributes: see ``erasable.audit.stored``).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from erasable.audit.stored import stored_components
from erasable.core.arrays import Positions
from erasable.errors import EmptiedClassWarning, InputError, InputTypeError, VerificationError, WeakModelWarning

_NO_FAULT = (
    "That is no fault: Definition 2.3 holds. Rows that were passed over because of a forgotten row left no trace, so "
    "they cannot be brought back; the comparison is with the rows that were stored."
)

_NOTHING = "None of the rows forgotten was stored, so there was nothing to do: name some of core_ids_."


class Rows(NamedTuple):
    """Rows with labels and ids: the S of a definition. A pair of X and y will do: ids are then 0, 1, 2, ..."""

    X: Any
    y: Any
    ids: Any = None

    def named(self) -> list[Any]:
        """The ids, one for each row."""
        ids = list(range(len(self.y))) if self.ids is None else _listed(self.ids)
        if not len(ids) == len(set(ids)) == len(self.y):
            raise InputError(f"each of {len(self.y)} rows needs an id of its own; got {len(set(ids))} different ids.")
        return ids

    def take(self, at: Positions) -> Rows:
        """The rows at these positions, with their ids."""
        names = self.named()
        pick = getattr(self.X, "iloc", self.X)
        labels = getattr(self.y, "iloc", None)
        y = np.asarray(self.y)[at] if labels is None else labels[at]
        return Rows(pick[at], y, [names[i] for i in at.tolist()])


def as_rows(given: Any) -> Rows:
    """Rows from what a caller gives: (X, y) or (X, y, ids)."""
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise InputTypeError(f"rows must be a tuple (X, y) or (X, y, ids); got {type(given).__name__}.")
    return Rows(*given)


@dataclass(frozen=True)
class Verdict:
    """What a check of a definition found.

    Attributes
    ----------
    holds : bool
    definition : str
        What was checked.
    differing : tuple of str
        The stored components that differ, by name; never their values.
    rows, stored, gone, left : int
        Rows of S, of S', of U, and those that the right-hand side was trained on.
    note : str
        What to make of it.
    """

    holds: bool
    definition: str
    differing: tuple[str, ...]
    rows: int
    stored: int
    gone: int
    left: int
    note: str = ""

    def require(self) -> Verdict:
        """Itself, where it holds.

        Raises
        ------
        VerificationError
            Naming the components that differ.
        """
        if not self.holds:
            raise VerificationError(str(self))
        return self

    def __str__(self) -> str:
        counts = f"{self.rows} rows, {self.stored} of them stored, {self.gone} forgotten"
        said = "holds" if self.holds else f"does not hold, different are {', '.join(self.differing)}"
        return f"{self.definition}: {said} ({counts}).{' ' + self.note if self.note else ''}"


def check_exact(estimator: Any, rows: Any, gone: Collection[Any]) -> Verdict:
    """Definition 2.3 with epsilon = delta = 0: learning S and forgetting U stores, bitwise, what learning S' - U does.

    S' is read from the estimator after ``fit``, before it is told of U.

    Parameters
    ----------
    estimator
        With the protocol above. It is not changed: fresh ones with its parameters are fitted.
    rows : Rows, or tuple (X, y) or (X, y, ids)
    gone : collection of ids
        U: ids of rows. Something of S' must be left.

    Notes
    -----
    A parameter that the estimator takes from the number of rows, such as a threshold from ``kappa`` without
    ``horizon``, is another for S' - U: fix it.

    Compared is what the estimator's attributes hold: also the order of sets, closures and defaults of functions, and
    arrays of which an attribute shows a part. Attributes of classes, files, and what its ``__getstate__`` or
    ``audit_state()`` leaves out are not; docs/definitions.md has the list.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier
    >>> from erasable.audit.definitions import check_exact
    >>> rows = load_iris(return_X_y=True)
    >>> print(check_exact(ErasableClassifier(), rows, [5, 70, 14]))
    Definition 2.3, exact, bitwise: holds (150 rows, 64 of them stored, 3 forgotten).
    """
    rows = as_rows(rows)
    model, core = _learnt(estimator, rows)
    right, left = _retrained(estimator, rows, core, gone)
    stored = stored_after(model, gone)
    return _verdict("Definition 2.3, exact, bitwise", stored, right, rows, core, gone, left)


def check_traditional(estimator: Any, rows: Any, gone: Collection[Any]) -> Verdict:
    """Definition 2.1 with epsilon = delta = 0: learning S and forgetting U stores, bitwise, what learning S - U does.

    An estimator that stores a part of its rows is expected to fail, and that is no fault: a row that was passed over
    while a forgotten one was present would have been kept without it, and since it left no trace it cannot
    be brought back. Definition 2.3 was made for that.
    """
    rows = as_rows(rows)
    model, core = _learnt(estimator, rows)
    right, left = _retrained(estimator, rows, rows.named(), gone)
    stored = stored_after(model, gone)
    found = _verdict("Definition 2.1, exact, bitwise", stored, right, rows, core, gone, left)
    kept = len(set(core) - set(gone))
    if found.holds or not 0 < kept < left or stored != _retrained(estimator, rows, core, gone)[0]:
        return found
    return replace(found, note=_NO_FAULT)


def fresh(estimator: Any) -> Any:
    """An unfitted estimator with the same parameters."""
    if isinstance(estimator, type):
        return estimator()
    if hasattr(estimator, "get_params"):
        return type(estimator)(**copy.deepcopy(estimator.get_params(deep=False)))
    return copy.deepcopy(estimator)


def fitted(estimator: Any, rows: Rows) -> Any:
    """A fresh estimator, fitted to these rows without a word about how few they are."""
    model = fresh(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakModelWarning)
        model.fit(rows.X, rows.y, ids=rows.named())
    return model


def forget(model: Any, gone: Collection[Any]) -> None:
    """Have a model forget, without a word about classes that it loses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptiedClassWarning)
        model.forget(ids=list(gone))


def stored_after(model: Any, gone: Collection[Any]) -> dict[str, str]:
    """What a model stores once it has forgotten these rows."""
    forget(model, gone)
    return stored_components(model)


def core_of(model: Any, rows: Rows) -> list[Any]:
    """S': ids of the rows that a fitted model says it stores; all where it does not say."""
    said = getattr(model, "core_ids_", None)
    return rows.named() if said is None else _listed(said)


def without(rows: Rows, core: Collection[Any], gone: Collection[Any]) -> Rows:
    """S' - U, in the order of S.

    Raises
    ------
    InputError
        When U names a row that is not in S, or nothing is left.
    """
    names, asked = rows.named(), set(gone)
    if not asked <= set(names):
        unknown = len(asked - set(names))
        raise InputError(f"{unknown} of {len(asked)} ids to forget are not among the {len(names)} rows.")
    kept = set(core) - asked
    at = np.array([i for i, name in enumerate(names) if name in kept], dtype=np.intp)
    if not len(at):
        raise InputError(f"forgetting {len(asked)} rows leaves none of the {len(set(core))} stored: forget fewer.")
    return rows.take(at)


def _listed(ids: Any) -> list[Any]:
    return list(ids.tolist() if isinstance(ids, np.ndarray) else ids)


def _learnt(estimator: Any, rows: Rows) -> tuple[Any, list[Any]]:
    if not callable(getattr(estimator, "forget", None)):
        raise InputTypeError("the estimator has no forget: fit(X, y, ids=...) and forget(ids=...) are needed.")
    own = rows.take(np.arange(len(rows.named())))  # copies, as those that are left will be
    model = fitted(estimator, own)
    return model, core_of(model, own)


def _retrained(estimator: Any, rows: Rows, core: Collection[Any], gone: Collection[Any]) -> tuple[dict[str, str], int]:
    left = without(rows, core, gone)
    return stored_components(fitted(estimator, left)), len(left.named())


def _verdict(
    definition: str,
    stored: dict[str, str],
    right: dict[str, str],
    rows: Rows,
    core: Collection[Any],
    gone: Collection[Any],
    left: int,
) -> Verdict:
    if not stored and not right:
        raise InputError(
            "nothing that this estimator stores can be read, so nothing can be compared: see audit_state()."
        )
    differing = tuple(name for name in {**stored, **right} if stored.get(name) != right.get(name))
    note = "" if differing or set(core) & set(gone) else _NOTHING
    return Verdict(not differing, definition, differing, len(rows.named()), len(core), len(set(gone)), left, note)
