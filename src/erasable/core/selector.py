"""Algorithm 1's sampler, a block at a time, with the decisions of the one-row-at-a-time algorithm.

A row is selected when its leverage against the rows selected before it is above the threshold. Three facts make that
BLAS-3:

- *Monotone screening.* Leverage only falls as rows are selected, so a row at or below the threshold against an older
  ``H`` is out.
- *Pivots are leverages.* If rows S are selected from a chunk, the pivots of the Cholesky factor of ``I + G_S H^-1
  G_S'`` are one plus their sequential leverages.
- *Bracketing.* Assuming more rows selected can only lower a leverage. So the rows selected even if all candidates
  were taken are surely in, those not selected even if only the sure ones were taken are surely out, and repeating
  this closes the bracket: each round settles at least the first open row, in practice two or three rounds settle all.

:mod:`erasable.core.deciding` has the last two; sparse rows stay sparse throughout. :func:`grid_of` and
:func:`selecting_units` read the parameters of Algorithm 1 for every estimator, so that all select alike.

Adds the rows it selects to the sums it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import DeviceRows, Float64s, Matrix, Positions, on_host
from erasable.core.deciding import Decisions as Decisions
from erasable.core.deciding import DenseRun, OrderedRows, Run, Screen, factor, screen, survivors_among
from erasable.core.grid import MAX_BITS, MIN_BITS, Grid, count_outside_ball, plain_scaling, to_grid
from erasable.core.sparse_deciding import Inverse, SparseRun, invert, may_exceed
from erasable.core.sums import alone, regulariser
from erasable.core.threads import FEWEST_NUMBERS, n_threads
from erasable.errors import ConfigurationError, InputError
from erasable.validation import positive_number, switch, whole_number


def grid_of(n_features: int | None, *, fit_intercept: object, scaling: object, grid_bits: object) -> Grid:
    """Return how rows become integers under these parameters; ConfigurationError if they cannot work.

    Parameters
    ----------
    n_features : int or None
        None before the first row: as many as there are scales, or one.
    """
    scales = plain_scaling(scaling)
    if n_features is None:
        n_features = max(1, len(scales)) if isinstance(scales, tuple) else 1
    bits = whole_number(grid_bits, "grid_bits", MIN_BITS, MAX_BITS)
    return Grid(n_features, bits, switch(fit_intercept, "fit_intercept"), scales)


def selecting_units(
    capacity: object,
    tau: float,
    grid: Grid,
    *,
    longest: float | None = None,
    threshold: str = "the threshold",
    advice: str = "Lower the threshold or the capacity.",
) -> int:
    """Return ``capacity`` in squared grid steps; ConfigurationError if no row's leverage can be above ``tau``.

    Parameters
    ----------
    longest : float, optional
        No row has a larger squared norm; by default that of the grid. Before the number of features is known, a bound
        for all of them.
    threshold, advice : str
        How a refusal names the threshold, and what it says to do.
    """
    K = positive_number(capacity, "capacity")
    units = regulariser(K, grid)
    if units * tau >= (grid.longest if longest is None else longest):
        raise ConfigurationError(
            f"nothing could ever be selected: no row's leverage exceeds 1 / capacity = {1 / K:.6g} (a little less on "
            f"the grid), and {threshold} is {tau:.6g}. {advice}"
        )
    return units


Progress = Callable[[int, int], None]
Mask = npt.NDArray[np.bool_]
_BLOCK = 2**20  # numbers looked at together
_PIECES = 8  # in which rows to screen together are gathered
_LONGEST = 8  # times as many rows as usual are screened at once where hardly any survives
_FEW_CHUNKS = 2  # may wait while the rows after them are screened


@dataclass(frozen=True)
class GridRows:
    """Rows that already are on the grid, dense or sparse."""

    G: Any
    grid: Grid
    on_grid = True
    shared = True

    def __len__(self) -> int:
        return int(self.G.shape[0])

    @property
    def sparse(self) -> bool:
        """See :class:`OrderedRows`."""
        return bool(sp.issparse(self.G))

    def approximate(self, low: int, high: int) -> tuple[npt.NDArray[np.float32], Float64s]:
        """See :class:`OrderedRows`."""
        X = self.G[low:high, : self.grid.n_features].astype(np.float32)
        return X, np.full(high - low, 2.0**-self.grid.bits)

    def take(self, index: npt.NDArray[np.intp]) -> Any:
        """See :class:`OrderedRows`."""
        return self.G[index]


@dataclass(frozen=True)
class RawRows:
    """Rows as the caller gave them: a dense array, one on a device, or anything sliceable with ``toarray`` (SciPy CSR).

    ``order`` lists positions in ``X`` in learning order, of some rows or all; None means all, in the order of ``X``.
    Rows are gathered a block at a time: there is no other copy of ``X``.
    """

    X: Any
    grid: Grid
    order: npt.NDArray[np.intp] | None = None
    on_grid = False

    def __len__(self) -> int:
        return int(self.X.shape[0]) if self.order is None else len(self.order)

    @property
    def shared(self) -> bool:
        """See :class:`OrderedRows`; a feature map may not be made for it."""
        return type(self) is RawRows and isinstance(self.X, np.ndarray)

    @property
    def sparse(self) -> bool:
        """See :class:`OrderedRows`."""
        return not isinstance(self.X, np.ndarray | DeviceRows)

    def gathered(self, rows: slice | Positions) -> Any:
        """The rows at these positions, as the caller gave them; with an order, ``rows`` are positions in it."""
        return self.X[rows] if self.order is None else picked(self.X, self.order[rows])

    def in_place(self, rows: slice | Positions) -> Any:
        """The rows at these positions as numbers, dense or sparse, in memory or on a device."""
        return self.gathered(rows)

    def numbers(self, rows: slice | Positions) -> Any:
        """The rows at these positions as numbers in memory, dense or sparse."""
        return on_host(self.in_place(rows))

    def dense(self, rows: slice | Positions) -> npt.NDArray[Any]:
        """The rows at these positions as a dense array."""
        part = self.numbers(rows)
        return part if isinstance(part, np.ndarray) else part.toarray()

    def approximate(self, low: int, high: int) -> tuple[npt.NDArray[np.float32], Float64s]:
        """See :class:`OrderedRows`."""
        if self.order is None or not self.shared or self.grid.scaling != "row":
            is_copy = self.order is not None and type(self) is RawRows  # a feature map may return its own array
            return approximated(self.dense(slice(low, high)), self.grid, copy=not is_copy)
        X, step = np.empty((high - low, self.grid.n_features), np.float32), max(1, (high - low) // _PIECES)
        with np.errstate(over="ignore", under="ignore"):
            for first in range(0, len(X), step):
                X[first : first + step] = picked(self.X, self.order[low + first : min(high, low + first + step)])
        return approximated(X, self.grid, copy=False)

    def take(self, index: npt.NDArray[np.intp]) -> Any:
        """See :class:`OrderedRows`."""
        return to_grid(self.numbers(index), self.grid)

    def check_ball(self) -> None:
        """Raise InputError for rows outside the unit ball, if the scaling does not bring every row into it."""
        if self.grid.normalises:
            return
        step = max(1, _BLOCK // self.grid.n_columns)
        parts = (self._outermost(slice(low, low + step)) for low in range(0, len(self), step))
        outside = sum(count_outside_ball(part, self.grid) for part in parts)
        if outside:
            required = "1 when scaling=None" if self.grid.scaling is None else f"scaling={self.grid.scaling!r}"
            raise InputError(
                f"{outside} of {len(self)} rows have a norm above {required}: use scaling='row', or a larger number."
            )

    def _outermost(self, rows: slice | Positions) -> Any:
        """The rows at these positions; of rows on a device, only those that may lie outside the ball."""
        part = self.in_place(rows)
        if isinstance(part, DeviceRows):
            part = part.beyond(1.0 if self.grid.scaling is None else self.grid.scaling)  # type: ignore[arg-type]
        return on_host(part)


def picked(rows: Matrix, index: npt.NDArray[np.intp]) -> Any:
    """A copy of the rows at these positions; of an array, in half the time that NumPy's brackets take."""
    return np.asarray(rows).take(index, axis=0) if isinstance(rows, np.ndarray) else rows[index]


def approximated(part: npt.NDArray[Any], grid: Grid, *, copy: bool = True) -> tuple[npt.NDArray[np.float32], Float64s]:
    """Dense rows up to a factor, which is NaN where a row must not be screened; see :class:`OrderedRows`.

    Without ``copy`` they may be the rows that were given.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if not grid.normalises:
            factor = np.ldexp(grid.unit, -grid.bits) / (1.0 if grid.scaling is None else grid.scaling)
            return (part * factor).astype(np.float32, order="C"), np.ones(len(part))
        if isinstance(grid.scaling, tuple):
            part = part / np.array(grid.scaling)
        X = part.astype(np.float32, order="C", copy=copy)
        square = np.einsum("ij,ij->i", X, X).astype(np.float64)
        # Outside this range float32 may have lost the row: NaN sends it on unscreened.
        square[~((square > 1e-20) & (square < 1e20))] = np.nan
        return X, np.ldexp(grid.reach, -grid.bits) / np.sqrt(square)


class StaleScreen:
    """A test that rules out raw rows for good, made from ``H`` at some moment; for dense rows or for sparse ones.

    *Law*: the rows that it rules out are at or below the threshold against the core that it was made from, and against
    every core that includes it. *Cost*: n d^2 flops in float32, or those of pairs of entries of sparse rows;
    memory: one block.
    """

    def __init__(self, H: Float64s, grid: Grid, units: int, tau: float) -> None:
        self.H, self.grid, self.units, self.tau = H.copy(order="F"), grid, units, tau

    @cached_property
    def of_dense(self) -> Screen | None:
        """None where nothing can be discarded."""
        current = factor(self.H, self.units)
        return None if current is None else screen(current, self.grid, self.units, self.tau)

    @cached_property
    def of_sparse(self) -> Inverse | None:
        """None where nothing can be discarded."""
        return invert(self.H, self.units)

    def __call__(self, rows: OrderedRows) -> Mask:
        """Which rows cannot be discarded."""
        left = np.empty(len(rows), dtype=bool)
        step = max(1, _BLOCK // self.grid.n_columns)
        for low in range(0, len(rows), step):
            high = min(len(rows), low + step)
            left[low:high] = self.survivors(rows, low, high)
        return left

    def survivors(self, rows: OrderedRows, low: int, high: int) -> Mask | bool:
        """Which of the rows low..high cannot be discarded."""
        if rows.sparse:
            G = rows.take(np.arange(low, high))
            return self.of_sparse is None or may_exceed(G, self.of_sparse, self.grid, self.tau)
        return self.of_dense is None or survivors_among(rows, low, high, self.of_dense)


def stale_screen(H: Float64s, grid: Grid, units: int, tau: float) -> StaleScreen | None:
    """A screen made from the present or an earlier ``H``; None if the threshold is 0 or infinite."""
    return StaleScreen(H, grid, units, tau) if 0.0 < tau < np.inf else None


@dataclass(frozen=True)
class SelectedRows:
    """The rows that are selected from a run of rows.

    ``index`` are positions in the run, ascending; ``batches`` the selected grid rows in that order, split anyhow.
    """

    index: npt.NDArray[np.intp]
    batches: list[Any]
    decisions: Decisions = field(compare=False)


def select(
    rows: OrderedRows,
    H: Float64s,
    n_core: int,
    *,
    grid: Grid,
    units: int,
    tau: float,
    forced: Mask | None = None,
    block_rows: int | None = None,
    chunk_rows: int | None = None,
    progress: Progress | None = None,
) -> SelectedRows:
    """Select rows in order, updating ``H`` in place.

    Parameters
    ----------
    rows : OrderedRows
        The rows to learn, in order.
    H : array of shape (n_columns, n_columns), float64, Fortran order
        ``units * I`` plus the Gram matrix of the core rows so far (lower triangle). Updated in place.
    n_core : int
        Number of core rows in ``H``.
    tau : float
        The threshold; ``math.inf`` where only forced rows are to be selected.
    forced : array of shape (n,), bool, optional
        Rows that are selected whatever their leverage. They join ``H`` in turn, so later rows are compared with them.
    block_rows, chunk_rows : int, optional
        Rows screened at once and rows decided at once. They change the speed and nothing else.

    Notes
    -----
    *Law*: the selection is that of the literal loop ``if g'H^-1g > tau: select; H += g g'`` in exact arithmetic,
    ``g'H^-1g > tau or forced`` where some are forced.
    *Cost*: n d^2 float32 flops to screen and about 3 d^2 + d^3 / chunk flops a candidate. Memory, in addition to the
    result: three d x d matrices and one block. Sparse rows with k entries: k^2 flops to screen, k d for a candidate,
    d^2 for a row selected.
    *Source*: Algorithm 1, procedure BBQSampler.
    """
    d, n = grid.n_columns, len(rows)
    run_of: Any = SparseRun if rows.sparse else DenseRun
    run = run_of(rows, H, n_core, grid, units, tau, np.zeros(n, dtype=bool) if forced is None else forced)
    block = block_rows or max(chunk_rows or run.chunk, min(32768, max(8, n_threads()) * FEWEST_NUMBERS // d))
    if tau == 0.0:  # every row but zero is selected: large chunks, nothing to screen
        run.chunk = block
    growing = rows.shared and not rows.sparse and block_rows is None
    try:
        with nullcontext() if rows.sparse else alone(H):
            _decide_all(run, n, block, _LONGEST * block if growing else block, chunk_rows, progress)
    finally:
        run.stop()
    index = np.concatenate(run.selected) if run.selected else np.empty(0, dtype=np.intp)
    return SelectedRows(index, run.batches, run.decisions)


def _decide_all(run: Run, n: int, least: int, most: int, chunk_rows: int | None, progress: Progress | None) -> None:
    """Let all n rows join the queue, between least and most at once, and decide them.

    The fewer rows of a block survive, the longer may the next one be.
    """
    low, block = 0, least
    while low < n:
        chunk, before = chunk_rows or run.chunk, run.waiting
        high = min(n, low + (chunk if run.crowded else block))
        run.queue(low, high)
        found = run.waiting - before
        if not run.crowded:
            block = min(most, 2 * block) if 4 * found < chunk else block if found <= chunk else least
        if run.waiting < _FEW_CHUNKS * chunk:  # otherwise those rows are better screened when the chunks are decided
            run.look_ahead(high, min(n, high + block))
        while run.waiting >= (chunk_rows or run.chunk):
            run.decide(chunk_rows or run.chunk)
        low = high
        if progress is not None:
            progress(low, n)
    while run.waiting:
        run.decide(chunk_rows or run.chunk)
    run.add_pending_rows()
