"""Exact sums of the core rows of a model on a grid: integers that float64 holds, so removing a row undoes adding it.

``H`` is ``units * I`` plus the Gram matrix (lower triangle). ``by_label`` has the sum of the rows of each class; in a
regression, for each target the sum of the rows times it. ``weighted`` are the same sums with every row as often as its
weight has sixteenths; they exist while some row's weight is not one, for a head whose solution depends on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.grid import Grid
from erasable.core.sums import LARGEST_EXACT, add_rows, add_sums, empty_gram, packed, unpacked
from erasable.errors import VerificationError
from erasable.models.weighting import ONE, RowWeights, guard_weights

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.rows import CoreRows

Int64s = npt.NDArray[np.int64]
Stacked = tuple[Float64s, Float64s]  # H, and the sums by label in the order of the labels


@dataclass(eq=False)
class WeightedSums:
    """Sums in which a row counts as often as its weight has sixteenths; the regulariser counts sixteen times."""

    H: Float64s
    by_label: dict[Any, Float64s]

    @classmethod
    def of_equal(cls, H: Float64s, by_label: Mapping[Any, Float64s]) -> WeightedSums:
        """The sums of rows whose weights are all one, from their plain sums."""
        return cls(H * ONE, {label: total * ONE for label, total in by_label.items()})

    def add(self, rows: Any, labels: Sequence[Any], weights: Any, c: Configuration, sign: int = 1) -> None:
        """Add grid rows, dense or sparse, or remove them with ``sign=-1``."""
        of_rows, grid = np.asarray(weights, dtype=np.int64), c.grid
        for weight in np.unique(of_rows).tolist():
            at, times = np.flatnonzero(of_rows == weight), float(sign * weight)
            add_rows(self.H, rows[at], times, grid)
            add_sums(self.by_label, c.head.sums_of(rows[at], [labels[i] for i in at.tolist()], grid), times)

    def erase(self) -> None:
        """Overwrite them."""
        _erase(self.H, self.by_label)


class ExactSums:
    """The sums of the core rows of one model; ``H`` is ready for the selector."""

    def __init__(self, c: Configuration) -> None:
        self.c = c
        self.H = empty_gram(c.grid, c.units)
        self.by_label: dict[Any, Float64s] = {}
        self.weighted: WeightedSums | None = None

    @classmethod
    def of_rows(
        cls, c: Configuration, rows: Any, labels: Sequence[Any], row_weights: RowWeights | None, H: Float64s | None
    ) -> Self:
        """The sums of these rows; ``H`` is ``units * I`` plus their Gram matrix, if the selection has made it."""
        sums = cls(c)
        if H is None:
            add_rows(sums.H, rows, 1.0, c.grid)
        else:
            sums.H = H
        sums.by_label = c.head.sums_of(rows, labels, c.grid)
        if row_weights is not None and c.head.weighs_sums:
            guard_weights(int(row_weights.sum(dtype=np.int64)), c.grid, c.units)
            sums.weighted = WeightedSums(empty_gram(c.grid, ONE * c.units), {})
            sums.weighted.add(rows, labels, row_weights, c)
        return sums

    # -- changing --------------------------------------------------------------------------------------------------

    def add(self, batches: list[Any], labels: list[Any], weights: list[int], H: Float64s | None) -> None:
        """Add rows. ``H`` includes them already, if the selection has made it."""
        if self.weighted is None and self.c.head.weighs_sums and weights.count(ONE) < len(weights):
            self.weighted = WeightedSums.of_equal(self.H, self.by_label)
        if H is not None:
            self.H.fill(0.0)
            self.H = H
        low = 0
        for batch in batches:
            cut = slice(low, low + batch.shape[0])
            if H is None:
                add_rows(self.H, batch, 1.0, self.c.grid)
            add_sums(self.by_label, self.c.head.sums_of(batch, labels[cut], self.c.grid))
            if self.weighted is not None:
                self.weighted.add(batch, labels[cut], weights[cut], self.c)
            low = cut.stop
        self._keep(self.by_label.keys())

    def remove(self, rows: Any, labels: list[Any], weights: list[int], left: CoreRows) -> None:
        """Subtract rows that were removed; ``left`` are the core rows without them."""
        c = self.c
        add_rows(self.H, rows, -1.0, c.grid)  # Algorithm 1, line 14
        add_sums(self.by_label, c.head.sums_of(rows, labels, c.grid), -1.0)
        if self.weighted is not None:
            self.weighted.add(rows, labels, weights, c, -1)
        if emptied := set(c.head.summed_labels(labels)).difference(c.head.labels_present(left)):
            self._keep(self.by_label.keys() - emptied)
        if self.weighted is not None and not left.uneven:  # the plain sums are enough again
            self.weighted.erase()
            self.weighted = None

    def _keep(self, labels: Collection[Any]) -> None:
        """Keep the sums by these labels alone, in their order."""
        for sums in (self, self.weighted):
            if sums is not None:
                sums.by_label = {label: sums.by_label[label] for label in sorted(labels)}

    def erase(self) -> None:
        """Overwrite everything."""
        _erase(self.H, self.by_label)
        if self.weighted is not None:
            self.weighted.erase()

    @property
    def nbytes(self) -> int:
        """Bytes of the matrices; the sums by label are counted by the head."""
        return self.H.nbytes * (1 if self.weighted is None else 2)

    # -- reading ---------------------------------------------------------------------------------------------------

    def stacked(self, labels: Sequence[Any]) -> tuple[Stacked, Stacked | None]:
        """The plain and the weighted sums, those by label in the order of the classes or targets."""
        order, wide = self.c.head.sum_order(self.c, labels), self.weighted
        plain = self.H, stack_sums(order, self.by_label, self.c.grid)
        return plain, None if wide is None else (wide.H, stack_sums(order, wide.by_label, self.c.grid))

    def tensors(self, labels: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """The sums as a state stores them: the Gram matrix without its regulariser, and the sums by label.

        Raises
        ------
        VerificationError
            When an entry is not an integer that float64 holds.
        """
        plain, weighted = self.stacked(labels)
        name = self.c.head.SUMS
        found: dict[str, npt.NDArray[Any]] = {}
        for prefix, sums, units in (("", plain, self.c.units), ("weighted_", weighted, ONE * self.c.units)):
            if sums is not None:
                H, by_label = sums
                words = prefix.replace("_", " ")
                _check_integers(f"the {words}A" if words else "A", np.tril(H))
                _check_integers(f"the {words}{name.replace('_', ' ')} b", by_label)
                found[f"{prefix}gram"], found[f"{prefix}{name}"] = _triangle(H, units), by_label.astype(np.int64)
        return found

    @classmethod
    def read(cls, c: Configuration, labels: Sequence[Any], tensors: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Inverse of :meth:`tensors`, for ``verify`` to judge."""
        sums, name = cls(c), c.head.SUMS
        sums.H = _whole(tensors["gram"], c.units, c.grid)
        sums.by_label = sums._by_label(labels, tensors[name])
        if "weighted_gram" in tensors:
            H = _whole(tensors["weighted_gram"], ONE * c.units, c.grid)
            sums.weighted = WeightedSums(H, sums._by_label(labels, tensors[f"weighted_{name}"]))
        return sums

    def _by_label(self, labels: Sequence[Any], sums: Int64s) -> dict[Any, Float64s]:
        """A class without rows has no sum; one that a file gives it all the same is for ``verify`` to see."""
        head, present = self.c.head, self.c.head.summed_labels(labels)
        in_order = zip(head.sum_order(self.c, labels), sums.astype(np.float64), strict=True)
        return {label: total.copy() for label, total in in_order if label in present or total.any()}


def stack_sums(order: tuple[Any, ...], sums: dict[Any, Float64s], grid: Grid) -> Float64s:
    """Sums in this order, shape (n, n_columns); zeros for a fixed class without rows."""
    zero = np.zeros(grid.n_columns)
    return np.array([sums.get(label, zero) for label in order]).reshape(len(order), grid.n_columns)


def _check_integers(name: str, entries: Float64s) -> None:
    broken = np.argwhere(~(np.abs(entries) <= LARGEST_EXACT) | (entries != np.rint(entries)))
    if len(broken):
        place = ", ".join(map(str, broken[0].tolist()))
        raise VerificationError(f"{name} is no sum of grid rows: entry ({place}) is not an integer float64 holds.")


def _triangle(H: Float64s, units: int) -> Int64s:
    """The packed Gram matrix: ``H`` without its regulariser."""
    triangle = packed(H)
    triangle[np.cumsum(np.arange(1, len(H) + 1)) - 1] -= units
    return triangle


def _whole(triangle: Int64s, units: int, grid: Grid) -> Float64s:
    H = unpacked(triangle, grid.n_columns)
    H.flat[:: len(H) + 1] += units
    return H


def _erase(H: Float64s, by_label: Mapping[Any, Float64s]) -> None:
    H.fill(0.0)
    for total in by_label.values():
        total.fill(0.0)
