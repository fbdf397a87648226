"""The samplers of Algorithm 2 over any function class: a stable single pass, and Algorithm 3, which is not stable.

Why the single pass is stable, for any class: a row was kept because ``D²(x; K) > tau`` for the rows K kept before it.
Remove any set U. D² only grows when rows leave, so ``D²(x; K - U) > tau`` too, and by induction every survivor is kept
again: C(C(S) - U) = C(S) - U. The proof needs each comparison to be the same function of the rows in both runs, hence
``stable`` only if the class decides exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Array, ColumnLike, Int64s, Matrix, Positions
from erasable.core.function_class import FunctionClass, Measure
from erasable.errors import ConfigurationError
from erasable.validation import number_between, number_not_negative, positive_number, whole_number

_SCREENED = 1024  # rows screened at once
_ENCODED = 2**22  # numbers encoded at once


@dataclass(frozen=True)
class SinglePass:
    """Keep a row iff ``D²(x; rows kept before it) > threshold``, in one pass in the order given.

    Parameters
    ----------
    function_class : FunctionClass
        Such as those in ``erasable.classes``.
    threshold : float
        On D², not on D; zero or more.

    Notes
    -----
    With ``LinearBall`` this is Algorithm 1's sampler. Departure: for other classes it stands where Algorithm 2 has
    Algorithm 3, whose map is not stable.

    How much is kept: a row's term in D(F, Q) is ``D² / (1 + D²) > threshold / (1 + threshold)``, so fewer than
    ``D(F, S) * (1 + 1 / threshold)`` rows.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.classes import FiniteClass
    >>> from erasable.coresets import SinglePass
    >>> steps = FiniteClass([lambda X, c=c: (X[:, 0] > c).astype(float) for c in (0.0, 1.0, 2.0)])
    >>> SinglePass(steps, 0.4).select(np.array([[0.5], [0.6], [1.5], [1.6], [9.0]]))
    array([0, 1, 2, 3])
    >>> SinglePass(steps, 0.5).select(np.array([[0.5], [0.6], [1.5], [1.6], [9.0]]))
    array([0, 2])
    """

    function_class: FunctionClass
    threshold: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", number_not_negative(self.threshold, "threshold"))

    @property
    def stable(self) -> bool:
        """Whether C(C(S) - U) = C(S) - U is promised: when the class decides exactly."""
        return self.function_class.exact

    def select(self, X: Matrix, y: ColumnLike = None, keys: Sequence[Any] | None = None) -> Positions:
        """Positions of the rows kept, ascending. Labels and keys play no part."""
        X = X if hasattr(X, "toarray") else np.asarray(X)
        return self.gather(X, self.function_class.start(X.shape[1]))[0]

    def gather(
        self, X: Matrix, measure: Measure, progress: Callable[[int, int], None] | None = None
    ) -> tuple[Positions, Array]:
        """Positions kept after the rows the measure holds already, and those rows encoded; they join the measure.

        ``X`` is a dense array or anything sliceable with ``toarray`` (SciPy CSR); it is encoded a block at a time.
        """
        n, d = X.shape
        positions, kept = [np.empty(0, dtype=np.intp)], [self.function_class.empty(d)]
        step = max(1, _ENCODED // d)
        for low in range(0, n, step):
            part = X[low : low + step]
            rows = self.function_class.encode(part if isinstance(part, np.ndarray) else part.toarray())
            index = self.pick(rows, measure)
            positions.append(low + index)
            kept.append(rows[index])
            if progress is not None:
                progress(min(n, low + step), n)
        return np.concatenate(positions), np.concatenate(kept)

    def pick(self, rows: Array, measure: Measure) -> Positions:
        """Positions kept among encoded rows, after those the measure holds already; they join the measure.

        Notes
        -----
        *Law*: the selection is that of asking about one row after the other. A row that is not above the threshold
        when its block is screened never will be, since D² only falls.
        *Cost*: one evaluation a row, and one more for each row that its block's screening lets through.
        """
        tau = self.threshold
        whole = getattr(measure, "select", None)
        if whole is not None:
            positions: Positions = whole(rows, tau)
            return positions
        kept: list[int] = []
        for low in range(0, len(rows), _SCREENED):
            block = rows[low : low + _SCREENED]
            current = True  # whether the screening of this block was made with all rows kept so far
            for i in np.flatnonzero(measure.exceeds(block, tau)).tolist():
                row = block[i : i + 1]
                if current or measure.exceeds(row, tau)[0]:
                    measure.add(row)
                    kept.append(low + i)
                    current = False
        return np.array(kept, dtype=np.intp)

    def describe(self) -> dict[str, Any]:
        """The configuration; floats in hexadecimal."""
        return {
            "map": "single-pass",
            "threshold": self.threshold.hex(),
            "function_class": self.function_class.describe(),
        }


_CLOSE = 1e-9  # relative difference below which two rounded D² count as equal


@dataclass(frozen=True)
class Stage:
    """One stage: epsilon, the rows queried in order, those set aside as confident, and the sizes that are left."""

    epsilon: float
    queried: tuple[int, ...]
    confident: tuple[int, ...]
    pool: int
    remainder: int


@dataclass(frozen=True)
class StagedRun:
    """All stages, and whether the stopping rule ended them (or else the limit on their number)."""

    stages: tuple[Stage, ...]
    stopped_by_rule: bool

    @property
    def positions(self) -> Positions:
        """Rows queried in all stages, in the order in which they were."""
        # Algorithm 3, line 17
        return np.array([i for stage in self.stages for i in stage.queried], dtype=np.intp)


@dataclass(frozen=True)
class Staged:
    """The rows that Algorithm 3 queries.

    Parameters
    ----------
    function_class : FunctionClass
    rate : float, optional
        R(T, delta) as a number; by default the class's own, which grows with the number of rows.
    delta : float in (0, 1], default=0.05
        The confidence level.
    max_stages : int, default=64
        Departure: a limit where the printed rule never stops, as for rows about which all functions agree.

    Notes
    -----
    ``stable`` is False: Theorem 5.2 does not hold for this algorithm as printed. Take ``LinearBall(0.5,
    scaling=None)``, ``rate=1``, and rows 1 to 8 equal to (-.45, -.6), (-.55, -.5), (.25, .8), (.45, -.75), (.5, .85),
    (.25, -.1), (-.35, .6), (-.6, -.6). Rows 5, 4, 8, 7 are queried in the first stage and 3, 2, 1, 6 in the second,
    after which the rule stops. Delete row 5 and run again on the others: the first stage queries rows 4, 8, 3, 2, the
    second rows 1, 7, the rule stops, and row 6, which nobody deleted, is not a core row any more. Who is queried in
    which stage depends on everybody else. The stopping rule depends on the number of rows as well: of 100 rows x = 1
    it lets 81 be queried, of 30 of those 18.
    """

    function_class: FunctionClass
    rate: float | None = None
    delta: float = 0.05
    max_stages: int = 64
    stable = False

    def __init__(
        self, function_class: FunctionClass, *, rate: float | None = None, delta: float = 0.05, max_stages: int = 64
    ) -> None:
        object.__setattr__(self, "function_class", function_class)
        object.__setattr__(self, "rate", None if rate is None else positive_number(rate, "rate"))
        object.__setattr__(self, "delta", number_between(delta, "delta", 0.0, 1.0, closed="high"))
        object.__setattr__(self, "max_stages", whole_number(max_stages, "max_stages", 1, 256))

    def select(self, X: Matrix, y: ColumnLike, keys: Sequence[Any] | None = None) -> Positions:
        """Positions of the rows queried, in the order in which they are."""
        return self.stages(X, y).positions

    def stages(self, X: Matrix, y: ColumnLike) -> StagedRun:
        """The whole run, to look at."""
        X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        return self.run(self.function_class.encode(X), y, X.shape[1])

    def describe(self) -> dict[str, Any]:
        """The configuration; floats in hexadecimal."""
        return {
            "map": "staged",
            "rate": None if self.rate is None else self.rate.hex(),
            "delta": self.delta.hex(),
            "max_stages": self.max_stages,
            "function_class": self.function_class.describe(),
        }

    def run(self, rows: Array, y: ColumnLike, n_features: int) -> StagedRun:
        """The run on encoded rows.

        Raises ConfigurationError when neither the class nor the caller names a rate.

        Parameters
        ----------
        rows : array of shape (n, columns)
        y : sequence of n labels
            The last of two classes counts as +1. Departure: with more classes one function is fitted for each against
            the rest, and a row is confident when all of them are.
        n_features : int
            Columns of the rows before they were encoded.

        Notes
        -----
        *Cost*: every query evaluates D² of all rows still above epsilon.
        *Source*: Algorithm 3. Departures: the dimension in line 14 is the class's upper bound on it, over the rows
        given (P without index is not defined there); of rows whose D² are equal up to rounding the first is picked.
        """
        n = len(rows)
        rate = self._rate(n, n_features)
        dimension = float(self.function_class.dimension(rows)) if n else 0.0
        targets = _targets(y)
        pool, remainder = np.arange(n), np.ones(n, dtype=bool)  # Algorithm 3, line 1
        stages: list[Stage] = []
        stopped = False
        while not stopped and len(stages) < self.max_stages:  # Algorithm 3, line 2
            width = 2.0 ** -(len(stages) + 1)  # 2 ** -l
            queried = self._query(rows, pool, width * width / rate, n_features)  # Algorithm 3, lines 3 to 7
            pool = pool[~np.isin(pool, queried)]  # Algorithm 3, line 13
            confident = self._confident(rows, targets, queried, pool, 3.0 * width)  # Algorithm 3, lines 8 to 12
            remainder[queried] = remainder[confident] = False  # Algorithm 3, line 13
            left = int(np.count_nonzero(remainder))
            stages.append(Stage(width / math.sqrt(rate), tuple(queried), tuple(confident), len(pool), left))
            stopped = dimension * rate / (2.0 * width) > 2.0 * width * left  # Algorithm 3, lines 14 to 16
        return StagedRun(tuple(stages), stopped)

    def _query(self, rows: Array, pool: Positions, tau: float, n_features: int) -> list[int]:
        """Rows of the pool queried in a stage with ``epsilon² = tau``."""
        measure, queried = self.function_class.start(n_features), list[int]()
        waiting = pool[measure.exceeds(rows[pool], tau)] if len(pool) else pool
        while len(waiting):  # Algorithm 3, line 4; D only falls, so a row at or below epsilon is out for this stage
            D2 = measure.squared(rows[waiting])
            first = int(np.flatnonzero(D2.max() * (1.0 - _CLOSE) <= D2)[0])  # Algorithm 3, line 6
            chosen = int(waiting[first])
            measure.add(rows[chosen : chosen + 1])  # Algorithm 3, line 7
            queried.append(chosen)
            waiting = np.delete(waiting, first)
            if len(waiting):
                waiting = waiting[measure.exceeds(rows[waiting], tau)]
        return queried

    def _confident(self, rows: Array, targets: Int64s, queried: list[int], rest: Positions, margin: float) -> list[int]:
        """Rows left in the pool about which the fit on this stage's labels is confident."""
        if not queried or not len(rest):  # Algorithm 3, lines 9 and 12
            return []
        sure = np.ones(len(rest), dtype=bool)
        for y01 in targets.T:
            fitted = self.function_class.fit(rows[queried], y01[queried])  # Algorithm 3, line 10
            sure &= np.abs(fitted(rows[rest]) - 0.5) > margin  # Algorithm 3, line 11
        return [int(i) for i in rest[sure]]

    def _rate(self, n: int, n_features: int) -> float:
        rate = self.rate if self.rate is not None else self.function_class.rate(max(n, 1), self.delta, n_features)
        if rate is None:
            raise ConfigurationError(
                "stages without a rate: this function class does not know its R(T, delta), from which the stages take "
                "their epsilon. Give rate=, or use the single pass."
            )
        return float(rate)


def _targets(y: ColumnLike) -> Int64s:
    """Targets 0 and 1, one column per function: the last of two classes, or each of more, against the rest."""
    labels = list(y.tolist() if isinstance(y, np.ndarray) else y)
    classes = sorted(set(labels))
    positive = classes if len(classes) > 2 else classes[-1:]
    columns = [[int(label == c) for label in labels] for c in positive]
    return np.array(columns, dtype=np.int64).reshape(len(positive), len(labels)).T
