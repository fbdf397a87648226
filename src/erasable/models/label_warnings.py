"""Warnings about models that cannot be good, when the labels or targets of the rows offered are known.

They are about classes with too few core rows, class weights for labels that no row has, tables sorted by label, and
targets within a few steps of their grid.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from erasable.errors import SortedRowsWarning, WeakModelWarning

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.model import Model


_FEW = 100  # rows offered: with fewer, nothing is said
_TOO_FEW = 10  # core rows of a class
_CLOSE = 2**16  # integers no further apart are counted one by one
_FEW_STEPS = 32  # of the grid of targets, between the lowest and the highest
REMEDY = (
    "lower threshold= or capacity= so that more rows are stored, keep a sample of the rows as well, or a larger one "
    "(sample_rate=), bring columns to one size (scaling=), or give classes their weight "
    '(class_weight= "balanced", loss= "logistic")'
)
ONE_CLASS = "all labels are the same, and so will all predictions be: check the column of labels."
NUMERIC_REMEDY = (
    "lower threshold= or capacity= so that more rows are stored, bring columns to one size (scaling=), keep a sample "
    "of the rows as well (sample_rate=), or declare a range of targets around what is common (target_range=)"
)


def label_counts(y: npt.NDArray[Any]) -> Counter[Any]:
    """How many rows have each label."""
    if y.dtype.kind not in "iufb":
        return Counter(y.tolist())
    low = int(y.min()) if len(y) and y.dtype.kind in "bi" else None
    if low is not None and int(y.max()) - low < _CLOSE:  # sorting many would take longer
        tallies = np.bincount(y.astype(np.int64) - low)
        there = np.flatnonzero(tallies)
        labels, counts = (there + low).astype(y.dtype), tallies[there]
    else:
        labels, counts = np.unique(y, return_counts=True)
    return Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True)))


class OfferedLabels:
    """How many rows of each class were offered, block after block."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()

    def add(self, y: npt.NDArray[Any]) -> Self:
        """Labels that follow."""
        self.counts += label_counts(y)
        return self

    def join(self, other: OfferedLabels) -> None:
        """Add what was counted on a worker."""
        self.counts += other.counts

    def warn(self, model: Model, *, new: bool, stacklevel: int) -> None:
        """Warn if the model holds too few rows of a class; for a new one, also if labels or weights make no sense."""
        if new and len(self.counts) == 1:
            warnings.warn(ONE_CLASS, WeakModelWarning, stacklevel=stacklevel + 1)
        warn_of_thin_classes(self.counts, model.core.class_counts, stacklevel=stacklevel + 1)
        if new:
            warn_of_absent_classes(model.configuration, self.counts, stacklevel=stacklevel + 1)


class OfferedTargets:
    """The range of the targets offered, block after block."""

    def __init__(self) -> None:
        self.rows = 0
        self.low: Any = np.inf
        self.high: Any = -np.inf

    def add(self, y: npt.NDArray[Any]) -> Self:
        """Targets that follow, shape (n,) or (n, n_targets)."""
        self.rows += len(y)
        self.low, self.high = np.minimum(self.low, y.min(axis=0)), np.maximum(self.high, y.max(axis=0))
        return self

    def join(self, other: OfferedTargets) -> None:
        """Add what was seen on a worker."""
        self.rows += other.rows
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)

    def warn(self, model: Model, *, new: bool, stacklevel: int) -> None:
        """Warn if the targets of a hundred rows or more, not all equal, lie within a few steps of their grid."""
        c = model.configuration
        low, high = np.array(c.head.target_ranges).T
        steps = (self.high - self.low) / (high / 2 - low / 2) * c.grid.radius
        coarse = int(np.count_nonzero((steps > 0.0) & (steps < _FEW_STEPS)))
        if self.rows >= _FEW and coarse:
            warnings.warn(
                f"the targets offered lie within {_FEW_STEPS} steps of their grid (for {coarse} of {len(high)} "
                "targets), so that they are rounded coarsely: declare a range that is closer to what may come, with "
                "target_range=.",
                WeakModelWarning,
                stacklevel=stacklevel + 1,
            )


def warn_of_thin_classes(offered: Mapping[Any, int], stored: Mapping[Any, int], *, stacklevel: int) -> None:
    """Warn of classes without core rows, and of classes with fewer than ten although ten or more were offered.

    ``offered`` and ``stored`` count the rows of each class in the table and in the core set; with fewer than a hundred
    rows offered there is no warning. ``stacklevel`` is that of ``warnings.warn``, counted from the caller.
    """
    if sum(offered.values()) < _FEW:
        return
    missed = sum(not stored.get(c) for c in offered)
    thin = sum(n >= _TOO_FEW and 0 < stored.get(c, 0) < _TOO_FEW for c, n in offered.items())
    said = []
    if missed:
        said.append(f"no row of {missed} of them, so the model never predicts {'it' if missed == 1 else 'these'}")
    if thin:
        said.append(f"fewer than ten rows of {thin} of them")
    if said:
        warnings.warn(
            f"the rows learnt are of {len(offered)} classes, and the core set holds {' and '.join(said)}: {REMEDY}.",
            WeakModelWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_absent_classes(configuration: Configuration, offered: Mapping[Any, int], *, stacklevel: int) -> None:
    """Warn of labels in ``class_weight`` that no row has, unless the caller fixed all classes."""
    weights = configuration.head.class_weight
    named = [label for label, _ in weights] if isinstance(weights, tuple) and configuration.classes is None else []
    absent = sum(label not in offered for label in named)
    if absent:
        warnings.warn(
            f"no row learnt has {absent} of the labels that class_weight= names: check how they are written.",
            WeakModelWarning,
            stacklevel=stacklevel + 1,
        )


SORTED = (
    "labels come in long runs, as in a table sorted by class, and rows are decided as they are given, so the first "
    'classes take the core set: leave order= at "hashed", or shuffle the rows.'
)


class LabelRuns:
    """How often labels change from one row to the next, block after block.

    *Law*: among n rows, ``n_c`` of class c, a random order has ``n - sum(n_c ** 2) / n`` changes in the mean.
    """

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.changes = 0
        self.last: list[Any] = []

    def add(self, y: npt.NDArray[Any]) -> Self:
        """Labels that follow those before."""
        labels, counts = np.unique(y, return_counts=True)
        self.counts.update(dict(zip(labels.tolist(), counts.tolist(), strict=True)))
        self.changes += int(np.count_nonzero(y[1:] != y[:-1])) + (self.last != y[:1].tolist() and bool(self.last))
        self.last = y[-1:].tolist()
        return self

    def warn(self, *, stacklevel: int) -> None:
        """Warn if labels change less than a tenth as often as they would in random order."""
        n = self.counts.total()
        if n >= _FEW and 10 * self.changes < n - sum(count**2 for count in self.counts.values()) / n:
            warnings.warn(SORTED, SortedRowsWarning, stacklevel=stacklevel + 1)
