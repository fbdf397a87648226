"""Weights of classes, and warnings about models that cannot be good.

The weight of a class is a float32 number from 2**-16 to 2**16: fixed by the caller, or, if it is ``"balanced"``, a
function of the core rows. The warnings are about classes with too few core rows, class weights for labels that no row
has, tables sorted by label, and targets within a few steps of their grid.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.names import Label, kind_of, read_label, write_label
from erasable.core.weights import to_float32
from erasable.errors import ConfigurationError, SortedRowsWarning, WeakModelWarning
from erasable.models.inputs import label_type, pick
from erasable.validation import positive_number

if TYPE_CHECKING:
    from erasable.models.model import Model


LIGHTEST_CLASS, HEAVIEST_CLASS = 2.0**-16, 2.0**16


BALANCED = "balanced"


ClassWeights = str | tuple[tuple[Label, float], ...] | None


def plain_class_weights(given: Any) -> ClassWeights:
    """``class_weight`` as the caller gave it, checked: None, ``"balanced"``, or labels and float32 numbers, sorted.

    Raises
    ------
    ConfigurationError
    """
    if given is None or (isinstance(given, str) and given == BALANCED):
        return None if given is None else BALANCED
    if not isinstance(given, Mapping) or not given:
        raise ConfigurationError(
            'class_weight must be None, "balanced", or a dictionary from labels to weights; got '
            f"{'an empty one' if isinstance(given, Mapping) else type(given).__name__}."
        )
    keys = np.fromiter(given, dtype=object, count=len(given))
    label_type(keys, "class_weight")
    labels: list[Label] = pick(keys, np.arange(len(keys)))
    weights = []
    for label, weight in zip(labels, given.values(), strict=True):
        number = float(np.float32(min(positive_number(weight, "a weight in class_weight"), 1e30)))
        if not LIGHTEST_CLASS <= number <= HEAVIEST_CLASS:
            raise ConfigurationError(f"weights of classes must be between 2**-16 and 2**16; got {weight!r}.")
        weights.append((label, number))
    return tuple(sorted(weights, key=lambda entry: entry[0]))


def check_class_weights(weights: ClassWeights, classes: Sequence[Label] | None) -> None:
    """Refuse weights that :func:`plain_class_weights` does not give, or of classes that are not among the fixed ones.

    Raises
    ------
    ConfigurationError
    """
    if isinstance(weights, tuple) and plain_class_weights(dict(weights)) != weights:
        raise ConfigurationError("class_weight is not in canonical form.")
    if not (weights is None or weights == BALANCED or isinstance(weights, tuple)):
        raise ConfigurationError("class_weight is of no known kind.")
    if isinstance(weights, tuple) and classes is not None:
        kind, known = type(classes[0]), set(classes)
        unknown = sum(type(label) is not kind or label not in known for label, _ in weights)
        if unknown:
            raise ConfigurationError(
                f"class_weight names {unknown} labels that are not among the {len(classes)} fixed classes, or of "
                "another type: correct one of the two."
            )


def described_class_weights(weights: ClassWeights) -> Any:
    """As the header of a file has them."""
    if not isinstance(weights, tuple):
        return weights
    return {"kind": kind_of(weights[0][0]), "weights": [[write_label(c), w.hex()] for c, w in weights]}


def read_class_weights(written: Any) -> ClassWeights:
    """What :func:`described_class_weights` wrote."""
    if not isinstance(written, dict):
        known: ClassWeights = written
        return known
    return tuple((read_label(written["kind"], c), float.fromhex(w)) for c, w in written["weights"])


def class_weights_of(
    given: ClassWeights, classes: Sequence[Label], totals: Mapping[Label, int]
) -> npt.NDArray[np.float64]:
    """The weight of each class, in their order: float32 numbers, one where none was given.

    Parameters
    ----------
    totals : mapping
        The weights of the core rows of each class, added up, in sixteenths.

    Notes
    -----
    *Definition*: ``"balanced"`` is all weight, divided by the number of classes that have core rows times the weight of
    the class, correctly rounded to float32, and no less than 2**-16 and no more than 2**16.
    """
    if given is None:
        return np.ones(len(classes))
    if isinstance(given, tuple):
        named = dict(given)
        return np.array([named.get(c, 1.0) for c in classes])
    there = {c: totals[c] for c in classes if totals.get(c)}
    whole = sum(there.values())
    shares = [Fraction(whole, len(there) * there[c]) if c in there else Fraction(1) for c in classes]
    return np.array([min(max(float(to_float32(s)), LIGHTEST_CLASS), HEAVIEST_CLASS) for s in shares])


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
        """Labels that were offered elsewhere."""
        self.counts += other.counts

    def warn(self, model: Model, *, new: bool, stacklevel: int) -> None:
        """Say where a model holds too few rows of a class; of a new one, also where labels or weights make no sense."""
        if new and len(self.counts) == 1:
            warnings.warn(ONE_CLASS, WeakModelWarning, stacklevel=stacklevel + 1)
        warn_of_thin_classes(self.counts, model.core.class_counts, stacklevel=stacklevel + 1)
        if new:
            warn_of_absent_classes(model.configuration, self.counts, stacklevel=stacklevel + 1)


class OfferedTargets:
    """Between which numbers the targets lie that were offered, block after block."""

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
        """Targets that were offered elsewhere."""
        self.rows += other.rows
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)

    def warn(self, model: Any, *, new: bool, stacklevel: int) -> None:
        """Say where the targets of a hundred rows or more, not all equal, lie within a few steps of their grid."""
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
    """Say how many classes have no core row, and how many that had ten rows or more have fewer core rows than ten.

    Parameters
    ----------
    offered, stored : mappings
        How many rows of each class the table has, and the core set.
    stacklevel : int
        As in ``warnings.warn``, counted from the caller.

    Warns
    -----
    WeakModelWarning
        Of a hundred rows or more.
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


def warn_of_absent_classes(configuration: Any, offered: Mapping[Any, int], *, stacklevel: int) -> None:
    """Say how many of the classes that ``class_weight`` names no row has, unless the caller fixed all classes.

    Parameters
    ----------
    configuration
        Of any model.
    offered : mapping
        How many rows of each class the table has.
    stacklevel : int
        As in ``warnings.warn``, counted from the caller.

    Warns
    -----
    WeakModelWarning
    """
    weights = getattr(configuration.head, "class_weight", None)
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
        """Say so when labels change less than a tenth as often as they would in random order."""
        n = self.counts.total()
        if n >= _FEW and 10 * self.changes < n - sum(count**2 for count in self.counts.values()) / n:
            warnings.warn(SORTED, SortedRowsWarning, stacklevel=stacklevel + 1)
