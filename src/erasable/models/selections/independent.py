"""Independent selection: a row is kept or not by itself and by public constants, whatever the other rows are.

So forgetting equals learning *all* surviving rows from nothing, also those that were never stored. Core rows lie in the
order of the hashes of their ids: learning in any batches and any order gives the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Booleans, Float64s, Matrix
from erasable.core.independent import IndependentRule, Lattice, Rarity, public_mean
from erasable.core.kernel_selector import check_points
from erasable.core.layout import Tensors
from erasable.core.names import Hashes, hashed_order, keyed_hash, read_label
from erasable.core.selector import Decisions, Progress, RawRows
from erasable.errors import ConfigurationError, InputError, StateFormatError, VerificationError
from erasable.models.inputs import Labels, Names, taken
from erasable.models.selections.kernel import KernelPoints
from erasable.models.selections.leverage import GridSelection, read_grid, read_order
from erasable.models.strategies import Positions, Selection, SelectionResult

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.core_rows import CoreRows
    from erasable.models.heads.linear import ExactSums

_NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True)
class IndependentSelection(IndependentRule, Selection):
    """What selections share that decide about each row alone, whatever rows they store."""

    MEASURE = "chance of being kept"
    independent = True
    one_by_one = False

    @property
    def lattice(self) -> Lattice:
        """How rows become integers."""
        raise NotImplementedError

    @property
    def squared_length(self) -> float:
        """The squared length that rows of norm one have as rows of integers, in units of the lattice."""
        return 1.0

    def check(self, c: Configuration) -> None:
        """The key is that of the order of rows, shares are those of the fixed classes, and the mean is the public one.

        A file states the mean, although it follows from the moments: estimators have no parameter for another one.
        """
        if self.mean_rarity != public_mean(self.rarity, self.n_features, self.squared_length):
            raise ConfigurationError("mean_rarity is not that of these moments and this scaling.")
        if c.order_key != self.key:
            raise ConfigurationError("independent selection needs the key of the order of rows: order cannot be given.")
        if self.class_shares is not None and c.classes != tuple(label for label, _ in self.class_shares):
            raise ConfigurationError("class_shares must name every class, and no others.")

    def check_moments(self) -> None:
        """Refuse moments that do not fit the columns."""
        moments = self.rarity.exponents
        if moments is not None and len(moments) != self.n_features:
            raise ConfigurationError(f"moments has {len(moments)} numbers for {self.n_features} columns.")

    # -- learning --------------------------------------------------------------------------------------------------

    def keeps(
        self, rows: Any, hashes: Hashes, labels: npt.NDArray[Any], progress: Progress | None = None
    ) -> tuple[Booleans, Decisions]:
        """Which prepared rows are kept, and how they were decided."""
        return self.decided(rows, self.lattice, hashes, labels, progress)

    def rate_facts(self) -> dict[str, Any]:
        """See :class:`Selection`."""
        reasons = []
        if self.looks_at_rows:
            reasons.append("moments are rounded or not those of these rows, and no row's chance exceeds 1 (clipping)")
        if self.balance:
            reasons.append("the class shares are not those of these rows")
        if not reasons:
            reasons.append("of these ids: a sender who knows the key can choose ids that are kept")
        return {"rate": self.rate, "rate_reasons": tuple(reasons)}

    def select(
        self,
        rows: Any,
        core: CoreRows,
        sums: ExactSums | None,
        labels: npt.NDArray[Any],
        ids: Names,
        progress: Progress | None,
        **sizes: Any,
    ) -> SelectionResult:
        """Every row that its own test keeps, in the order of the hashes; core rows and sums do not count."""
        hashes = keyed_hash(ids, self.key)
        order = rows.order if isinstance(rows, RawRows) else None
        if order is not None:
            hashes, labels = hashes[order], labels[order]
        mask, decisions = self.keeps(rows, hashes, labels, progress)
        index = np.flatnonzero(mask)
        index = index[hashed_order(taken(ids, index if order is None else order[index]), self.key)]
        step = self.rows_at_once
        parts = [index[low : low + step] for low in range(0, len(index), step)]
        kept = [rows.take(part) if isinstance(rows, RawRows) else rows[part] for part in parts]
        return SelectionResult(index, kept, decisions)

    @property
    def rows_at_once(self) -> int:
        """How many kept rows become integers together: that takes several float64 arrays of their size."""
        return max(1, _NUMBERS_AT_ONCE // (self.lattice.n_features + 1))

    # -- verifying and files -----------------------------------------------------------------------------------------

    def select_again(
        self, rows: Matrix, labels: Labels, ids: Sequence[Any], progress: Progress | None
    ) -> tuple[Positions, None]:
        """The rows that pass their own test; refused if they are not in the order of their hashes."""
        if hashed_order(ids, self.key).tolist() != list(range(len(ids))):
            raise VerificationError("the core rows are not in the order of the hashes of their ids.")
        mask, _ = self.kept(rows, self.lattice, keyed_hash(ids, self.key), self.tilts_of_rows(labels))
        if progress is not None:
            progress(len(ids), len(ids))
        return np.flatnonzero(mask), None

    def describe_rule(self) -> dict[str, Any]:
        """The public constants as values that JSON can hold."""
        shares = self.class_shares
        return {
            "rate": self.rate.hex(),
            "moments": "matrix" if self.rarity.matrix else self.rarity.exponents and list(self.rarity.exponents),
            "mean_rarity": self.mean_rarity.hex(),
            "balance": self.balance.hex(),
            "class_shares": None if shares is None else [share.hex() for _, share in shares],
        }


def _read_rule(meta: dict[str, Any]) -> tuple[Any, ...]:
    """The public constants that a header has, in the order of the fields. Values of other types may raise anything."""
    moments, shares, key = meta["moments"], meta["class_shares"], read_order(meta["order_key"])
    classes = [read_label(meta["class_kind"], v) for v in meta["classes"]] if shares is not None else []
    if key is None:
        raise ConfigurationError("independent selection needs a key.")
    return (
        float.fromhex(meta["rate"]),
        key,
        Rarity(tuple(map(int, moments))) if isinstance(moments, list) else Rarity(),
        float.fromhex(meta["mean_rarity"]),
        float.fromhex(meta["balance"]) + 0.0,  # minus zero, which no estimator writes, is then not canonical
        None if shares is None else tuple(zip(classes, map(float.fromhex, shares), strict=True)),
    )


@dataclass(frozen=True)
class Independent(IndependentSelection, GridSelection):
    """Rows on a grid, each kept with a chance that its own features and label give it, drawn by the hash of its id.

    The fields are those of :class:`GridSelection`, then those of :class:`IndependentRule`.
    """

    NAME = "independent"

    def __post_init__(self) -> None:
        GridSelection.__post_init__(self)
        IndependentRule.__post_init__(self)
        self.check_moments()

    @property
    def lattice(self) -> Lattice:
        """The grid."""
        return self.grid

    @property
    def squared_length(self) -> float:
        """See :class:`IndependentSelection`."""
        return self.grid.stretch**2

    def describe(self) -> dict[str, Any]:
        """See :class:`Selection`."""
        return GridSelection.describe(self) | self.describe_rule()

    def public_tensors(self) -> Tensors:
        """The matrix of moments, if there is one."""
        return {} if self.rarity.matrix is None else {"moments": ("F32", self.rarity.moments.astype(np.float32))}

    def with_tensors(self, tensors: dict[str, npt.NDArray[Any]]) -> Self:
        """See :class:`Selection`."""
        d = self.grid.n_features
        if "moments" not in tensors:
            return self
        if tensors["moments"].shape != (d, d):
            raise StateFormatError("its matrix of moments does not fit its columns.")
        return replace(self, rarity=Rarity(matrix=tensors["moments"].astype("<f4").tobytes()))

    @classmethod
    def read(cls, meta: dict[str, Any]) -> Self:
        """What :meth:`describe` wrote. Values of other types may raise anything."""
        return cls(read_grid(meta), int(meta["capacity_units"]), *_read_rule(meta), **cls.read_storage(meta))


@dataclass(frozen=True)
class IndependentPoints(IndependentSelection, KernelPoints):
    """Points of a kernel, each kept by itself; moments are those of the columns, not a matrix.

    The fields are those of :class:`KernelPoints`, then those of :class:`IndependentRule`. A call that would make the
    kernel matrix of all kept points unfit is refused as a whole: which points are kept does not depend on it.
    """

    NAME = "independent-kernel"

    def __post_init__(self) -> None:
        KernelPoints.__post_init__(self)
        IndependentRule.__post_init__(self)
        self.check_moments()
        if self.rarity.matrix is not None:
            raise ConfigurationError("moments must be one number for each column: kernels take no matrix of moments.")

    def check(self, c: Configuration) -> None:
        """See :class:`IndependentSelection`; there are no feature maps before kernels."""
        KernelPoints.check(self, c)
        IndependentSelection.check(self, c)

    @property
    def lattice(self) -> Lattice:
        """The points."""
        return self.points

    def select(self, rows: Any, core: CoreRows, *args: Any, **sizes: Any) -> SelectionResult:
        """Every point that its own test keeps; refused if the kernel matrix of all of them would be unfit."""
        found = IndependentSelection.select(self, rows, core, *args, **sizes)
        check_points(len(core) + len(found.positions), self.units)
        if found.batches and self.kernel.function is not None:
            self.check_matrix(np.concatenate([core.rows(), *found.batches]))
        return found

    def select_again(
        self, rows: Matrix, labels: Labels, ids: Sequence[Any], progress: Progress | None
    ) -> tuple[Positions, None]:
        """See :class:`IndependentSelection`; the kernel matrix of the points is checked, too."""
        found = IndependentSelection.select_again(self, rows, labels, ids, progress)
        try:
            check_points(len(ids), self.units)
            if self.kernel.function is not None:
                self.check_matrix(rows)
        except (ConfigurationError, InputError) as error:  # rows that were learnt raise none of these
            raise VerificationError(
                f"the stored rows cannot be learnt with the stored configuration: {error}"
            ) from error
        return found

    def describe(self) -> dict[str, Any]:
        """See :class:`Selection`."""
        return KernelPoints.describe(self) | self.describe_rule()

    @classmethod
    def read(cls, meta: dict[str, Any], function: Callable[[Float64s, Float64s], Any] | None = None) -> Self:
        """What :meth:`describe` wrote; see :meth:`KernelPoints.read_points`."""
        return cls(*cls.read_points(meta, function), *_read_rule(meta))
