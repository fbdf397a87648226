"""The paper's definitions of unlearning as checks that run: on estimators of this package and on anybody's.

**The protocol.** An estimator has ``fit(X, y, ids=...)``, which starts from nothing, and ``forget(ids=...)``. Two more
attributes are used if they exist: ``core_ids_``, the ids of the rows that it stores after ``fit`` (else S' = S, all
rows), and ``audit_state()``, everything it stores by name (else its attributes: see :func:`stored_components`).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import ColumnLike, Float64s, Matrix, MatrixLike, Positions
from erasable.core.fingerprint import attributes_of, fingerprint
from erasable.errors import EmptiedClassWarning, InputError, InputTypeError, VerificationError, WeakModelWarning
from erasable.models.state import State
from erasable.validation import seed, whole_number

Id = int | str | bytes
E = TypeVar("E", bound="Forgetting")
_NO_FAULT = (
    "That is no fault: Definition 2.3 holds. Rows that were passed over because of a forgotten row left no trace, so "
    "they cannot be brought back; the comparison is with the rows that were stored."
)
_NOTHING = "None of the rows forgotten was stored, so there was nothing to do: name some of core_ids_."


class Forgetting(Protocol):
    """An estimator that learns rows with ids and forgets them by id."""

    def fit(self, X: MatrixLike, y: ColumnLike, *, ids: ColumnLike) -> object:
        """Learn these rows from nothing."""

    def forget(self, *, ids: ColumnLike) -> object:
        """Forget the rows with these ids."""


class CoreSet(Protocol):
    """A core-set map."""

    def select(self, X: MatrixLike, y: ColumnLike, keys: ColumnLike) -> npt.ArrayLike:
        """Return the positions of the rows selected, in order of selection."""


class Rows(NamedTuple):
    """Rows with labels and ids: the S of a definition. Without ids, rows are numbered 0, 1, 2, ..."""

    X: Any
    y: Any
    ids: Collection[Id] | None = None

    def named(self) -> list[Id]:
        """Return the ids, one for each row."""
        ids = _listed(range(len(self.y)) if self.ids is None else self.ids)
        if not len(ids) == len(set(ids)) == len(self.y):
            raise InputError(f"each of {len(self.y)} rows needs an id of its own; got {len(set(ids))} different ids.")
        return ids

    def take(self, at: Positions) -> Rows:
        """Return the rows at these positions, with their ids."""
        names = self.named()
        pick = getattr(self.X, "iloc", self.X)
        labels = getattr(self.y, "iloc", None)
        y = np.asarray(self.y)[at] if labels is None else labels[at]
        return Rows(pick[at], y, [names[i] for i in at.tolist()])


def as_rows(given: Rows | Sequence[Any]) -> Rows:
    """Return rows from a tuple (X, y) or (X, y, ids)."""
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise InputTypeError(f"rows must be a tuple (X, y) or (X, y, ids); got {type(given).__name__}.")
    return Rows(*given)


@dataclass(frozen=True)
class Verdict:
    """The result of checking a definition."""

    holds: bool
    definition: str  # the definition that was checked
    differing: tuple[str, ...]  # the stored components that differ, by name; never their values
    # rows, stored, gone, left: rows of S, of S', of U, and those that the right-hand side was trained on.
    rows: int
    stored: int
    gone: int
    left: int
    note: str = ""  # how to read the result

    def require(self) -> Verdict:
        """Return the verdict if it holds; else raise VerificationError, naming the components that differ."""
        if not self.holds:
            raise VerificationError(str(self))
        return self

    def __str__(self) -> str:
        counts = f"{self.rows} rows, {self.stored} of them stored, {self.gone} forgotten"
        said = "holds" if self.holds else f"does not hold, different are {', '.join(self.differing)}"
        return f"{self.definition}: {said} ({counts}).{' ' + self.note if self.note else ''}"


def check_exact(estimator: Forgetting, rows: Rows | Sequence[Any], gone: Collection[Id]) -> Verdict:
    """Definition 2.3 with epsilon = delta = 0: learning S and forgetting U stores, bitwise, what learning S' - U does.

    S' is read from the estimator after ``fit``, before it learns of U.

    Parameters
    ----------
    estimator
        It follows the protocol above, and is not changed: fresh ones with its parameters are fitted.
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
    Definition 2.3, exact, bitwise: holds (150 rows, 84 of them stored, 3 forgotten).
    """
    return _compare("Definition 2.3, exact, bitwise", estimator, as_rows(rows), gone)


def check_traditional(estimator: Forgetting, rows: Rows | Sequence[Any], gone: Collection[Id]) -> Verdict:
    """Definition 2.1 with epsilon = delta = 0: learning S and forgetting U stores, bitwise, what learning S - U does.

    An estimator that keeps a row depending on others is expected to fail, and that is no fault: a row that was passed
    over while a forgotten one was present would have been kept without it, and since it left no trace it cannot
    be brought back. Definition 2.3 was made for that. Models with independent selection meet both definitions.
    """
    rows = as_rows(rows)
    found = _compare("Definition 2.1, exact, bitwise", estimator, rows, gone, with_all_rows=True)
    if not found.holds and found.stored < found.rows:
        with suppress(InputError):  # nothing of S' is left to compare with
            if check_exact(estimator, rows, gone).holds:
                return replace(found, note=_NO_FAULT)
    return found


def fresh(estimator: E) -> E:
    """Return an unfitted estimator with the same parameters."""
    if isinstance(estimator, type):
        return estimator()
    if hasattr(estimator, "get_params"):
        return type(estimator)(**copy.deepcopy(estimator.get_params(deep=False)))
    return copy.deepcopy(estimator)


def fitted(estimator: E, rows: Rows) -> E:
    """Return a fresh estimator fitted to these rows, without warnings that they are few."""
    model = fresh(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakModelWarning)
        model.fit(rows.X, rows.y, ids=rows.named())
    return model


def forget(model: Forgetting, gone: Collection[Id]) -> None:
    """Have a model forget, without warnings about classes that it loses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptiedClassWarning)
        model.forget(ids=list(gone))


def core_of(model: Forgetting, rows: Rows) -> list[Id]:
    """Return S': the ids of the rows that a fitted model stores; all ids if it has no ``core_ids_``."""
    said = getattr(model, "core_ids_", None)
    return rows.named() if said is None else _listed(said)


def without(rows: Rows, core: Collection[Id], gone: Collection[Id]) -> Rows:
    """Return S' - U in the order of S; InputError if U names a row that is not in S, or nothing is left."""
    names, asked = rows.named(), set(gone)
    if not asked <= set(names):
        unknown = len(asked - set(names))
        raise InputError(f"{unknown} of {len(asked)} ids to forget are not among the {len(names)} rows.")
    kept = set(core) - asked
    at = np.array([i for i, name in enumerate(names) if name in kept], dtype=np.intp)
    if not len(at):
        raise InputError(f"forgetting {len(asked)} rows leaves none of the {len(set(core))} stored: forget fewer.")
    return rows.take(at)


def _listed(ids: Collection[Id]) -> list[Id]:
    return list(ids.tolist() if isinstance(ids, np.ndarray) else ids)


def _compare(
    definition: str, estimator: Forgetting, rows: Rows, gone: Collection[Id], *, with_all_rows: bool = False
) -> Verdict:
    """Compare learning S and forgetting U with learning S' - U, or S - U."""
    if not callable(getattr(estimator, "forget", None)):
        raise InputTypeError("the estimator has no forget: fit(X, y, ids=...) and forget(ids=...) are needed.")
    own = rows.take(np.arange(len(rows.named())))  # copies, as those that are left will be
    model = fitted(estimator, own)
    core = core_of(model, own)
    left = without(rows, rows.named() if with_all_rows else core, gone)
    right = stored_components(fitted(estimator, left))
    forget(model, gone)
    stored = stored_components(model)
    if not stored and not right:
        raise InputError(
            "nothing that this estimator stores can be read, so nothing can be compared: see audit_state()."
        )
    differing = tuple(name for name in {**stored, **right} if stored.get(name) != right.get(name))
    note = "" if differing or set(core) & set(gone) else _NOTHING
    counts = (len(rows.named()), len(core), len(set(gone)), len(left.named()))
    return Verdict(not differing, definition, differing, *counts, note)


def stored_components(estimator: object) -> dict[str, str]:
    """Return a fingerprint of each component that an estimator stores, by name.

    An estimator with a method ``audit_state()`` states what it stores: a mapping from names to values of any kind. For
    a model of this package these are each field of the header and each tensor of its canonical bytes, and all other
    attributes. For any other they are its attributes, as a pickle would hold them. docs/definitions.md lists what is
    not compared. Names and hashes show no value, label or id, so messages may contain both.
    """
    said = getattr(estimator, "audit_state", None)
    if callable(said):
        return {name: fingerprint(value) for name, value in dict(said()).items()}
    attributes = attributes_of(estimator)
    found: dict[str, str] = {}
    state = state_of(estimator)
    if state is not None:
        found = {f"header {field}": fingerprint(value) for field, value in state.header().items()}
        for name, (kind, array) in {**state.derived_tensors(), **state.named_rows()}.items():
            found[name] = fingerprint((kind, array))
        held = attributes.get("_model")
        parts = held if isinstance(held, tuple) else (held,)
        attributes["_model"] = [part for part in parts if not isinstance(part, bytes)]  # bytes are the tensors again
    return {**found, **{name: fingerprint(value) for name, value in attributes.items()}}


def state_of(estimator: object) -> State | None:
    """Return the canonical state of a fitted model of this package, else None."""
    snapshot = getattr(getattr(estimator, "model_", None), "snapshot", None)
    state = snapshot() if callable(snapshot) else None
    return state if isinstance(state, State) else None


# -- a set of checks for tests -------------------------------------------------------------------------------------


def checks_of(estimator: Forgetting) -> dict[str, Callable[[], Verdict]]:
    """Return checks that every exact estimator passes, by name: small sets made to be difficult.

    Rows of three features: random, each of them twice, all alike, and of rank one. Of each set one stored row, some,
    and all but one are forgotten. Labels are 0 and 1; an estimator that needs two others has them as ``audit_labels``.
    """
    labels = getattr(estimator, "audit_labels", (0, 1))
    found: dict[str, Callable[[], Verdict]] = {}
    for kind, X in _difficult().items():
        rows = Rows(X, np.where(np.arange(len(X)) % 3 == 0, *labels))
        for amount in ("one", "some", "all but one"):
            found[f"{amount} of {kind}"] = partial(_check, estimator, rows, amount)
    return found


def parametrize_with_checks(estimators: Collection[Forgetting]) -> Any:
    """Return a pytest decorator that runs a test with ``check`` for each check of each estimator.

    Examples
    --------
    >>> from erasable import ErasableClassifier
    >>> from erasable.audit.definitions import parametrize_with_checks
    >>> @parametrize_with_checks([ErasableClassifier(), ErasableClassifier(loss="logistic")])
    ... def test_forgetting_equals_training_on_what_is_left(check):
    ...     check().require()
    """
    import pytest  # only tests need it

    cases = [(f"{type(e).__name__}, {name}", check) for e in estimators for name, check in checks_of(e).items()]
    return pytest.mark.parametrize("check", [check for _, check in cases], ids=[name for name, _ in cases])


def _check(estimator: Forgetting, rows: Rows, amount: str) -> Verdict:
    """Check Definition 2.3 for one, some, or all but one of the stored rows."""
    core = core_of(fitted(estimator, rows), rows)
    if len(core) < 2:  # something has to be left, so those go that were passed over
        core = [name for name in rows.named() if name not in core]
    return check_exact(estimator, rows, {"one": core[:1], "some": core[1::2], "all but one": core[:-1]}[amount])


def _difficult() -> dict[str, Float64s]:
    """Return sets of rows that forgetting is difficult for, by name."""
    rng = np.random.default_rng(0)
    random = rng.standard_normal((40, 3))
    return {
        "random rows": random,
        "rows that occur twice": np.concatenate([random[:15], random[:15]]),
        "rows all alike": np.tile(random[:1], (20, 1)),
        "rows of rank one": np.outer(rng.standard_normal(30), random[0]),
    }


# -- stability of core-set maps ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stability:
    """The result of a search for a set U that shows a core-set map to be unstable."""

    holds: bool  # whether no U was found. If ``exhaustive``, that is a proof for these rows.
    exhaustive: bool  # whether every U was tried
    tried: int  # how many were tried, shrinking not counted
    core: int  # rows of C(S)
    # rows, gone, lost: A counterexample: with S the rows at ``rows``, in this order, and without those at ``gone``, the
    # map no longer selects those at ``lost``; if ``lost`` is empty, it selects the same rows in another order. No row
    # of S and none of U can be left out of the example.
    rows: Positions | None = None
    gone: Positions | None = None
    lost: Positions | None = None

    def require(self) -> Stability:
        """Return the result if it holds; else raise VerificationError."""
        if not self.holds:
            raise VerificationError(str(self))
        return self

    def __str__(self) -> str:
        if self.holds:
            how = "for all" if self.exhaustive else "as far as was searched,"
            return f"C(C(S) - U) = C(S) - U {how} {self.tried} sets U, with {self.core} core rows."
        rows, gone, lost = (len(part) for part in (self.rows, self.gone, self.lost) if part is not None)
        change = f"no longer selects {lost} of the other core rows" if lost else "selects the others in another order"
        return f"the map is not stable: when {gone} of {rows} rows are deleted, it {change}."


def check_stable(
    core_set: CoreSet, rows: Rows | Sequence[Any], *, tries: int = 2000, random_state: int = 0
) -> Stability:
    """Search for rows U for which ``C(C(S) - U) = C(S) - U`` fails.

    Parameters
    ----------
    core_set : CoreSetMap, or anything with ``select(X, y, keys)``
        Positions of the rows selected, in order of selection.
    rows : Rows, or tuple (X, y) or (X, y, ids)
    tries : int, default=2000
        The most sets U to try. If there are no more than that, all are tried.
    random_state : int, default=0

    Returns
    -------
    Stability
        With a counterexample, made smaller by leaving rows out one at a time.

    Notes
    -----
    *The search* tries nothing, each row alone, what was selected first or last, rows and those most like
    them, then random sets of all sizes. Rows are deleted from C(S) in order of selection, as a model stores them.
    """
    S = as_rows(rows)
    if not callable(getattr(core_set, "select", None)):
        raise InputTypeError(f"{type(core_set).__name__} is no core-set map: it needs select(X, y, keys).")
    n_tries, rng = whole_number(tries, "tries"), np.random.default_rng(seed(random_state))
    core = _select(core_set, S, np.arange(len(S.named())))
    exhaustive = len(core) < 60 and 2 ** len(core) <= n_tries
    tried = 0
    for gone in _subsets(len(core)) if exhaustive else _guided(_dense(S.X, core), n_tries, rng):
        tried += 1
        if _lost(core_set, S, core, core[gone]) is not None:
            return _shrunk(core_set, S, core, core[gone], exhaustive, tried)
    return Stability(True, exhaustive, tried, len(core))


def _select(core_set: CoreSet, S: Rows, at: Positions) -> Positions:
    """Return which of the rows at these positions the map selects."""
    if not len(at):
        return at
    part = S.take(at)
    found = np.asarray(core_set.select(part.X, part.y, part.ids), dtype=np.intp)
    if len(np.unique(found)) < len(found):
        raise InputError(f"{type(core_set).__name__} selects a row twice: select must return distinct positions.")
    return at[found]


def _lost(core_set: CoreSet, S: Rows, core: Positions, gone: Positions) -> Positions | None:
    """Return rows that are not selected again without U, none if only their order differs; None if all is well."""
    left = core[~np.isin(core, gone)]
    again = _select(core_set, S, left)
    return None if again.tolist() == left.tolist() else left[~np.isin(left, again)]


def _subsets(n: int) -> Iterator[Positions]:
    """Yield all sets of positions, small ones first."""
    for size in range(n + 1):
        for chosen in combinations(range(n), size):
            yield np.array(chosen, dtype=np.intp)


def _guided(X: Float64s, tries: int, rng: np.random.Generator) -> Iterator[Positions]:
    """Yield so many sets of positions, the more promising ones first."""
    n = len(X)
    found = [np.empty(0, dtype=np.intp), *np.arange(n)[:, None]]
    found += [np.arange(k) for k in range(2, n)] + [np.arange(k, n) for k in range(1, n - 1)]
    yield from found[:tries]
    for i in range(max(0, tries - len(found))):
        size = int(rng.integers(2, n))
        if i % 2:
            yield rng.choice(n, size, replace=False)
        else:
            like = np.abs(X @ X[rng.integers(n)])
            yield np.argsort(-like, kind="stable")[: 1 + size // 4]


def _dense(X: MatrixLike, at: Positions) -> Float64s:
    """Return rows of an array, a sparse matrix or a dataframe as float64."""
    rows: Matrix = getattr(X, "iloc", X)
    part = rows[at]
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)


def _shrunk(core_set: CoreSet, S: Rows, core: Positions, gone: Positions, exhaustive: bool, tried: int) -> Stability:
    """Return the counterexample with rows of U and of S left out, as long as it stays one."""
    rows, changed = core if _still(core_set, S, core, gone) else np.arange(len(S.named())), True
    while changed:
        changed = False
        for row in rows.tolist():
            for fewer, less in ((rows, gone[gone != row]), (rows[rows != row], gone[gone != row])):
                smaller = len(fewer) + len(less) < len(rows) + len(gone)
                if smaller and _still(core_set, S, fewer, less):
                    rows, gone, changed = fewer, less, True
    picked = _select(core_set, S, rows)
    return Stability(False, exhaustive, tried, len(core), rows, gone, _lost(core_set, S, picked, gone))


def _still(core_set: CoreSet, S: Rows, rows: Positions, gone: Positions) -> bool:
    """Return whether deleting these rows is still a counterexample."""
    core = _select(core_set, S, rows)
    return bool(np.isin(gone, core).all()) and _lost(core_set, S, core, gone) is not None
