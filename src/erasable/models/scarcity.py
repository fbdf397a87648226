"""Classes that a model cannot serve: said, where the labels that were offered are known.

Of some the core set stores too few rows to predict them; of some that are given a weight there is no row at all.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.errors import WeakModelWarning

_FEW = 100  # rows offered: with fewer, nothing is said
_TOO_FEW = 10  # core rows of a class
REMEDY = (
    "lower threshold= or capacity= so that more rows are stored, keep a sample of the rows as well, or a larger one "
    "(sample_rate=), bring columns to one size (scaling=), or give classes their weight "
    '(class_weight= "balanced", loss= "logistic")'
)


def label_counts(y: npt.NDArray[Any]) -> Counter[Any]:
    """How many rows have each label."""
    if y.dtype.kind not in "iufb":
        return Counter(y.tolist())
    labels, counts = np.unique(y, return_counts=True)
    return Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True)))


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
    weights = getattr(configuration, "class_weight", None)
    named = [label for label, _ in weights] if isinstance(weights, tuple) and configuration.classes is None else []
    absent = sum(label not in offered for label in named)
    if absent:
        warnings.warn(
            f"no row learnt has {absent} of the labels that class_weight= names: check how they are written.",
            WeakModelWarning,
            stacklevel=stacklevel + 1,
        )
