"""What every core-set map offers: the map C of Definition 2.5, and whether it is stable. A protocol, and its checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from erasable.core.arrays import Array, Positions
from erasable.core.names import Key
from erasable.errors import ConfigurationError, NoRowsError


@runtime_checkable
class CoreSetMap(Protocol):
    """A map from rows to the few of them that are kept, ``C(S)``.

    Maps are frozen dataclasses: a map *is* its configuration and holds nothing that was learnt from rows. A selection
    is a function of that configuration and of the values, labels, ids and order of the rows, and of nothing else; not
    of the container that the rows came in.
    """

    @property
    def stable(self) -> bool:
        """Whether ``C(C(S) - U) = C(S) - U`` for all rows S and U, in order: what Theorem 3.1 asks of a map."""
        ...

    def select(self, X: Any, y: Array, keys: Sequence[Key]) -> Positions:
        """Positions of the core rows, in order of selection.

        Parameters
        ----------
        X : array of shape (n_samples, n_features) or CSR
            Finite floats.
        y : array of shape (n_samples,)
            Plain labels.
        keys : sequence of length n_samples
            The ids: distinct integers, strings or bytes.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """The configuration as values that JSON can hold; floats in hexadecimal, so that nothing is rounded."""
        ...


def check_core_set(core_set: Any) -> None:
    """Refuse what is no core-set map.

    Raises
    ------
    ConfigurationError
    """
    if isinstance(core_set, type) or not isinstance(core_set, CoreSetMap):
        kind = f"the class {core_set.__name__}" if isinstance(core_set, type) else type(core_set).__name__
        raise ConfigurationError(
            "core_set must be a core-set map (an instance with stable, select and describe, such as those of "
            f"erasable.coresets); got {kind}."
        )


def core_positions(core_set: CoreSetMap, X: Any, y: Array, keys: Sequence[Key]) -> Positions:
    """What a map selects, at least one row, once it is known to be distinct positions of rows.

    Raises
    ------
    NoRowsError, ConfigurationError
        When nothing is selected, and when the map returns anything else.
    """
    n = X.shape[0]
    index = np.asarray(core_set.select(X, y, keys))
    if index.size == 0:
        raise NoRowsError(f"the core-set map selected none of {n} rows: let it keep more, or give more rows.")
    fits = index.ndim == 1 and index.dtype.kind in "iu" and index.min() >= 0 and index.max() < n
    if not fits or len(np.unique(index)) < len(index):
        raise ConfigurationError(
            f"core_set.select must return distinct positions of the {n} rows, as integers; its result has dtype "
            f"{index.dtype} and shape {index.shape}, or positions that repeat or do not exist."
        )
    return index.astype(np.intp)
