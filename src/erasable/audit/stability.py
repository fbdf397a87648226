"""Whether a core-set map is stable, ``C(C(S) - U) = C(S) - U`` for every U: a search for a U that shows it is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from erasable.audit.definitions import Rows, as_rows
from erasable.core.arrays import Positions
from erasable.errors import InputError, InputTypeError, VerificationError
from erasable.validation import seed, whole_number


@dataclass(frozen=True)
class Stability:
    """What the search found.

    Attributes
    ----------
    holds : bool
        Whether no U was found. A proof where ``exhaustive``, for these rows; else a search without result.
    exhaustive : bool
        Whether every U was tried.
    tried : int
        How many were, shrinking not counted.
    core : int
        Rows of C(S).
    rows, gone, lost : array of positions, or None
        A counterexample: with S the rows at ``rows``, in this order, and without those at ``gone``, the map no longer
        selects those at ``lost``. Where ``lost`` is empty, it selects the same rows in another order. The example is
        small: no row of S and none of U can be left out.
    """

    holds: bool
    exhaustive: bool
    tried: int
    core: int
    rows: Positions | None = None
    gone: Positions | None = None
    lost: Positions | None = None

    def require(self) -> Stability:
        """Itself, where it holds; else ``VerificationError``."""
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


def check_stable(core_set: Any, rows: Any, *, tries: int = 2000, random_state: int = 0) -> Stability:
    """Search for rows U after whose deletion a core set would select itself no more.

    Parameters
    ----------
    core_set : CoreSetMap, or anything with ``select(X, y, keys)``
        Positions of the rows selected, in order of selection.
    rows : Rows, or tuple (X, y) or (X, y, ids)
    tries : int, default=2000
        Sets U to try at most. Where there are no more than that, all are tried.
    random_state : int, default=0

    Returns
    -------
    Stability
        With a counterexample that was made as small as leaving rows out one at a time makes it.

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


def _select(core_set: Any, S: Rows, at: Positions) -> Positions:
    if not len(at):
        return at
    part = S.take(at)
    found = np.asarray(core_set.select(part.X, part.y, part.ids), dtype=np.intp)
    if len(np.unique(found)) < len(found):
        raise InputError(f"{type(core_set).__name__} selects a row twice: select must return distinct positions.")
    return at[found]


def _lost(core_set: Any, S: Rows, core: Positions, gone: Positions) -> Positions | None:
    """Rows that are not selected again without U, none where only their order is another; None where all is well."""
    left = core[~np.isin(core, gone)]
    again = _select(core_set, S, left)
    return None if again.tolist() == left.tolist() else left[~np.isin(left, again)]


def _subsets(n: int) -> Iterator[Positions]:
    """All sets of positions, small ones first."""
    for size in range(n + 1):
        for chosen in combinations(range(n), size):
            yield np.array(chosen, dtype=np.intp)


def _guided(X: Any, tries: int, rng: np.random.Generator) -> Iterator[Positions]:
    """So many sets of positions, those first that are likelier to tell."""
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


def _dense(X: Any, at: Positions) -> Any:
    part = getattr(X, "iloc", X)[at]
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)


def _shrunk(core_set: Any, S: Rows, core: Positions, gone: Positions, exhaustive: bool, tried: int) -> Stability:
    """The counterexample with rows left out, of U and of S, as long as it stays one."""
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


def _still(core_set: Any, S: Rows, rows: Positions, gone: Positions) -> bool:
    core = _select(core_set, S, rows)
    return bool(np.isin(gone, core).all()) and _lost(core_set, S, core, gone) is not None
