"""Independent selection: a row is kept or not by itself and by public constants, whatever the other rows are.

So forgetting equals learning *all* surviving rows from nothing, also those that were never stored. Core rows lie in the
order of the hashes of their ids: learning in any batches and any order gives the same state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Booleans, Float64s, Matrix
from erasable.core.independent import Rarity, kept, screened, tilts_of
from erasable.core.keyed_hash import Hashes, hashed_order, keyed_hash
from erasable.core.layout import Tensors
from erasable.core.names import Label, read_label
from erasable.core.selector import Decisions, Progress, RawRows
from erasable.errors import ConfigurationError, StateFormatError, VerificationError
from erasable.models.inputs import Labels, Names
from erasable.models.selections.leverage import GridSelection, read_grid, read_order
from erasable.models.strategies import Positions, SelectionResult

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.core_rows import CoreRows
    from erasable.models.heads.linear import ExactSums

_BLOCK = 2**20  # numbers looked at together
_LEAST_SHARE, _LARGEST_MEAN = 2.0**-100, 2.0**200  # so that no slope and no tilt overflows


@dataclass(frozen=True)
class Independent(GridSelection):
    """Rows on a grid, each kept with a chance that its own features and label give it, drawn by the hash of its id.

    Attributes
    ----------
    grid, units
        As in :class:`GridSelection`.
    rate : float
        In (0, 1]: about the share of all rows that is kept. At 1 every row is.
    key : int
        The key of the hashes, which is that of the order of rows.
    rarity : Rarity
        The public second moments of the columns.
    mean_rarity : float
        The public mean of the rarity of rows.
    balance : float
        0, 0.5 or 1: how much rows of rare classes are favoured.
    class_shares : tuple of pairs, optional
        Each class with its public share, in the order of the classes of the configuration.
    """

    rate: float
    key: int
    rarity: Rarity = field(default_factory=Rarity)
    mean_rarity: float = 1.0
    balance: float = 0.0
    class_shares: tuple[tuple[Label, float], ...] | None = None

    NAME = "independent"
    MEASURE = "chance of being kept"
    independent = True
    one_by_one = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.rate <= 1.0:
            raise ConfigurationError("rate must be above 0, and at most 1, which keeps every row.")
        if self.balance not in (0.0, 0.5, 1.0):
            raise ConfigurationError("balance must be 0, 0.5 or 1.")
        if self.balance and self.class_shares is None:
            raise ConfigurationError("balance needs class_shares: the public share of each class.")
        if self.balance and self.rate == 1.0:
            raise ConfigurationError("rate=1 keeps every row, so there is nothing to balance: leave balance out.")
        if self.class_shares is not None and not all(_LEAST_SHARE <= share <= 1.0 for _, share in self.class_shares):
            raise ConfigurationError("every share in class_shares must be above 0 (2**-100 or more) and at most 1.")
        if not 1.0 / _LARGEST_MEAN <= self.mean_rarity <= _LARGEST_MEAN:
            raise ConfigurationError("the mean rarity must be between 2**-200 and 2**200.")
        moments = self.rarity.exponents
        if moments is not None and len(moments) != self.grid.n_features:
            raise ConfigurationError(f"moments has {len(moments)} numbers for {self.grid.n_features} columns.")

    def check(self, c: Configuration) -> None:
        """The key is that of the order of rows, and shares are those of the fixed classes."""
        if c.order_key != self.key:
            raise ConfigurationError("independent selection needs the key of the order of rows: order cannot be given.")
        if self.class_shares is not None and c.classes != tuple(label for label, _ in self.class_shares):
            raise ConfigurationError("class_shares must name every class, and no others.")

    # -- learning --------------------------------------------------------------------------------------------------

    @cached_property
    def tilts(self) -> tuple[dict[Label, float], float]:
        """The factor of each class, and what makes up for it; see :func:`erasable.core.independent.tilts_of`."""
        if self.class_shares is None:
            return {}, 1.0
        labels, shares = zip(*self.class_shares, strict=True)
        tilts, c = tilts_of(shares, self.balance)
        return dict(zip(labels, tilts, strict=True)), c

    @property
    def looks_at_rows(self) -> bool:
        """Whether the chance of being kept depends on the features of a row."""
        return self.rate < 1.0 and not self.rarity.uniform

    def tilts_of(self, classes: Sequence[Label]) -> Float64s | None:
        """See :class:`Selection`."""
        of_class, _ = self.tilts
        return np.array([of_class[label] for label in classes]) if self.balance else None

    def keeps(
        self, rows: RawRows, hashes: Hashes, labels: npt.NDArray[Any], progress: Progress | None = None
    ) -> tuple[Booleans, Decisions]:
        """Which prepared rows are kept, and how they were decided; a block at a time."""
        n, total = len(rows), Decisions()
        mask = np.zeros(n, dtype=bool)
        step = max(1, _BLOCK // self.grid.n_columns if self.looks_at_rows else n)
        quick = self.looks_at_rows and self.rarity.exponents is not None and not rows.sparse
        for low in range(0, n, step):
            left = np.arange(low, min(n, low + step))
            tilts = self._tilts(labels[left].tolist() if self.balance else ())
            if quick:
                X, factors = rows.approximate(low, int(left[-1]) + 1)
                sure, is_open = screened(X, factors, hashes[left], tilts, self.rarity, self.slope, self.grid)
                mask[left] = sure
                total.screened += int(np.count_nonzero(~is_open))
                left, tilts = left[is_open], tilts[is_open] if isinstance(tilts, np.ndarray) else tilts
            G = rows.take(left) if self.looks_at_rows else None
            mask[left], how = self._kept(G, hashes[left], tilts)
            total += how
            if progress is not None:
                progress(min(n, low + step), n)
        return mask, total

    def rate_facts(self) -> dict[str, Any]:
        """See :class:`Selection`."""
        reasons = []
        if self.looks_at_rows:
            reasons.append("moments are rounded or not those of these rows, and no row's chance exceeds 1 (clipping)")
        if self.balance:
            reasons.append("the class shares are not those of these rows")
        if not reasons:
            reasons.append("of these ids: whoever knows the key can choose ids that are kept")
        return {"rate": self.rate, "rate_reasons": tuple(reasons)}

    @property
    def slope(self) -> float:
        """The chance of being kept, divided by rarity and tilt."""
        return self.tilts[1] * self.rate / self.mean_rarity

    def _tilts(self, labels: Labels) -> Float64s | float:
        """The factors of these labels; one without balance."""
        if not self.balance:
            return 1.0
        return np.fromiter(map(self.tilts[0].__getitem__, labels), dtype=np.float64, count=len(labels))

    def _kept(self, rows: Matrix | None, hashes: Hashes, tilts: Float64s | float) -> tuple[Booleans, Decisions]:
        """Which rows on the grid are kept; None in their place if none is looked at."""
        if self.rate == 1.0:
            return np.ones(len(hashes), dtype=bool), Decisions(certified=len(hashes))
        return kept(rows, hashes, tilts, self.rarity, self.slope, self.grid)

    def select(
        self,
        rows: RawRows,
        core: CoreRows,
        sums: ExactSums | None,
        labels: npt.NDArray[Any],
        ids: Names,
        progress: Progress | None,
        **sizes: Any,
    ) -> SelectionResult:
        """Every row that its own test keeps; core rows and sums do not count."""
        hashes = keyed_hash(ids, self.key)
        if rows.order is not None:
            hashes, labels = hashes[rows.order], labels[rows.order]
        mask, decisions = self.keeps(rows, hashes, labels, progress)
        index = np.flatnonzero(mask)
        return SelectionResult(index, [rows.take(index)] if len(index) else [], decisions)

    # -- verifying and files -----------------------------------------------------------------------------------------

    def select_again(
        self, rows: Matrix, labels: Labels, ids: Sequence[Any], progress: Progress | None
    ) -> tuple[Positions, None]:
        """The rows that pass their own test; refused if they are not in the order of their hashes."""
        if hashed_order(ids, self.key).tolist() != list(range(len(ids))):
            raise VerificationError("the core rows are not in the order of the hashes of their ids.")
        mask, _ = self._kept(rows, keyed_hash(ids, self.key), self._tilts(labels))
        return np.flatnonzero(mask), None

    def describe(self) -> dict[str, Any]:
        """See :class:`Selection`."""
        shares = self.class_shares
        return super().describe() | {
            "rate": self.rate.hex(),
            "moments": "matrix" if self.rarity.matrix else self.rarity.exponents and list(self.rarity.exponents),
            "mean_rarity": self.mean_rarity.hex(),
            "balance": self.balance.hex(),
            "class_shares": None if shares is None else [share.hex() for _, share in shares],
        }

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
        moments, shares, key = meta["moments"], meta["class_shares"], read_order(meta["order_key"])
        classes = [read_label(meta["class_kind"], v) for v in meta["classes"]] if shares is not None else []
        if key is None:
            raise ConfigurationError("independent selection needs a key.")
        return cls(
            read_grid(meta),
            int(meta["capacity_units"]),
            float.fromhex(meta["rate"]),
            key,
            Rarity(tuple(map(int, moments))) if isinstance(moments, list) else Rarity(),
            float.fromhex(meta["mean_rarity"]),
            float.fromhex(meta["balance"]) + 0.0,  # minus zero, which no estimator writes, is then not canonical
            None if shares is None else tuple(zip(classes, map(float.fromhex, shares), strict=True)),
        )
