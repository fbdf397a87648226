"""One pass over the rows, each kept when the class still disagrees about it given those kept before: a stable map.

Why it is stable, for any class: a row was kept because ``D²(x; K) > tau`` for the rows K kept before it. Take any set U
away. D² only grows when rows leave, so ``D²(x; K - U) > tau`` too, and by induction every survivor is kept again:
C(C(S) - U) = C(S) - U. The proof needs each comparison to be the same function of the rows in both runs, hence
``stable`` only where the class decides exactly. Asks the function class, and touches nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Array, Positions
from erasable.core.function_class import FunctionClass, Measure
from erasable.validation import number_not_negative

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
    >>> from erasable.classes.finite import FiniteClass
    >>> from erasable.coresets.single_pass import SinglePass
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

    def select(self, X: Any, y: Any = None, keys: Sequence[Any] | None = None) -> Positions:
        """Positions of the rows kept, ascending. Labels and keys play no part."""
        X = X if hasattr(X, "toarray") else np.asarray(X)
        return self.gather(X, self.function_class.start(X.shape[1]))[0]

    def gather(
        self, X: Any, measure: Measure, progress: Callable[[int, int], None] | None = None
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
