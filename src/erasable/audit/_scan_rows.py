"""Rows as a scan looks for them: their bytes in every encoding, found at any offset by a rolling hash."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Grid, dense_bytes, position_type, read_scaling, sparse_bytes, to_grid
from erasable.core.kernels import Points
from erasable.errors import ConfigurationError, InputError, StateFormatError
from erasable.features import DEFAULT_CONSTANT, LogFeatures
from erasable.models.configuration import described_log

Bytes = npt.NDArray[np.uint8]
UInt64s = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class LogGrid:
    """The grid of a model whose rows go through the log map first."""

    log: LogFeatures
    grid: Grid

    @property
    def n_features(self) -> int:
        """Columns of the rows before the map."""
        return self.log.n_features

    def of_rows(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rows on the grid."""
        return np.asarray(to_grid(self.log(X), self.grid))


Integers = Grid | Points | LogGrid  # how a model makes integers of rows

_BATCH = 1 << 21  # numbers in the rows of a batch
_FEWEST_BYTES = 8  # of a row, that are not zero: fewer are found everywhere by chance
_VARIED = 5  # different bytes, not zero, that eight neighbouring bytes of a sparse row must have
_LONGEST_WINDOW = 4096
_PIECE = 1 << 18  # bytes handled at once: they stay in the cache
_MOST_TRIES = 200_000  # candidates of one block that turn out to be no match, before the block is given up
_U = np.uint64
_BASE = 0xF1357AEA2E62A9C5  # odd, so that it has an inverse modulo 2**64
_BACK = pow(_BASE, -1, 1 << 64)


class CrowdedError(Exception):
    """A block has too many near misses to look at all of them."""


# -- encodings -----------------------------------------------------------------------------------------------------


class RowType(NamedTuple):
    """Type and number of the entries of a stored row; the constant of an intercept may be left out."""

    dtype: str
    columns: int
    features_alone: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Encoding:
    """Rows of the table in one encoding."""

    what: str  # ``"float32 row"``, ``"float64 row"`` or ``"grid row"``
    rows: npt.NDArray[Any]  # of shape (k, columns), little endian
    # of shape (k,): the numbers of these rows in the table: some rows may not fit into an encoding.
    numbers: npt.NDArray[np.intp]
    # Whether ``rows`` are the values, or the columns, of the entries that are not zero: as many in each row.
    sparse: bool = False

    @property
    def kind(self) -> RowType:
        """Type and number of the entries."""
        return RowType(self.rows.dtype.str, int(self.rows.shape[1]))

    @property
    def raw(self) -> Bytes:
        """The bytes, shape (k, bytes of a row)."""
        return self.rows.view(np.uint8).reshape(len(self.rows), -1)

    def as_stored(self, kind: RowType) -> Bytes | None:
        """Return the bytes of the rows in a stored array of this type; None if such an array holds other rows."""
        if self.sparse or self.kind.dtype != kind.dtype:
            return None
        if not kind.features_alone:
            return self.raw if self.kind.columns == kind.columns else None
        if self.what != "grid row" or self.kind.columns - kind.columns not in (0, 1):
            return None
        return np.ascontiguousarray(self.rows[:, : kind.columns]).view(np.uint8)

    def searchable(self) -> npt.NDArray[np.bool_]:
        """Return which rows differ from filling: not nearly all zero bytes, not one entry over and over.

        Sparse rows are short, and also need eight neighbouring bytes that vary.
        """
        raw, rows = self.raw, self.rows
        found = (np.count_nonzero(raw, axis=1) >= _FEWEST_BYTES) & (rows != rows[:, :1]).any(axis=1)
        if self.sparse and found.any():
            windows = np.sort(np.lib.stride_tricks.sliding_window_view(raw, 8, axis=1), axis=-1)
            different = (windows[..., 1:] != windows[..., :-1]).sum(axis=-1) + (windows[..., 0] != 0)
            found &= (different >= _VARIED).any(axis=1)
        return np.asarray(found)


def batches(X: npt.NDArray[Any]) -> list[npt.NDArray[np.intp]]:
    """Return the numbers of the rows to look for in one pass, so that memory is bounded; of equal rows, the first."""
    first: dict[bytes, int] = {}
    for i, row in enumerate(X):
        first.setdefault(row.tobytes(), i)
    numbers, step = np.array(list(first.values())), max(1, _BATCH // X.shape[1])
    return [numbers[i : i + step] for i in range(0, len(numbers), step)]


def encodings(X: npt.NDArray[Any], grids: Iterable[Integers], numbers: npt.NDArray[np.intp]) -> list[Encoding]:
    """Return rows as float32, float64, and on all given and default grids; no encoding twice."""
    d = X.shape[1]
    X = X[numbers]
    with np.errstate(over="ignore"):
        single = X.astype("<f4")
    finite = np.flatnonzero(np.isfinite(single).all(axis=1))
    found = [
        Encoding("float32 row", single[finite], finite),
        Encoding("float64 row", X.astype("<f8"), np.arange(len(X))),
        Encoding("float64 row", single[finite].astype("<f8"), finite),
    ]
    for grid in dict.fromkeys([*_default_grids(d), *(grid for grid in grids if grid.n_features == d)]):
        whole = _on_grid(X, grid)
        if len(whole.rows):
            stored = grid.grid if isinstance(grid, LogGrid) else grid
            fixed = int(isinstance(grid, LogGrid) and bool(grid.log.constant))
            found += [whole, *(_sparse(whole, stored, fixed) if isinstance(stored, Grid) else ())]
    kept: list[Encoding] = []
    for new in found:
        if not any(old.kind == new.kind and old.rows.tobytes() == new.rows.tobytes() for old in kept):
            kept.append(new)
    return [replace(e, numbers=numbers[e.numbers]) for e in kept]


def grid_in(meta: dict[str, Any], feature_map: str | None = None) -> Integers | None:
    """Return how a model makes integers of rows that went through this map, or None if its metadata does not say.

    The log map is part of the grid: its description says how rows go through it.
    """
    written = meta.get("feature_map")
    log = None
    with suppress(StateFormatError):
        log = described_log(written) if feature_map is None and isinstance(written, str) else None
    if written != feature_map and log is None:
        return None
    try:
        if meta.get("format") == "erasable-kernel" or "kernel" in meta:
            return Points(int(meta["n_features"]), int(meta["bits"]), read_scaling(meta["scaling"]))
        if meta.get("format") == "erasable-general":
            of = meta["sampler"]["function_class"]
            bits = int(of["grid_bits"])
            if of["class"] == "kernel-ball":
                return Points(int(meta["n_features"]), bits, read_scaling(of["scaling"]))
            return Grid(int(meta["n_features"]), bits, bool(of["fit_intercept"]), read_scaling(of["scaling"]))
        grid = Grid(int(meta["n_features"]), int(meta["bits"]), bool(meta["intercept"]), read_scaling(meta["scaling"]))
        return grid if log is None else LogGrid(log, grid)
    except (ConfigurationError, AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None


def _default_grids(n_features: int) -> Iterator[Integers]:
    """Yield the grids of a classifier with default parameters, with and without intercept, behind the map or not."""
    for intercept in (True, False):
        try:
            yield Grid(n_features, intercept=intercept)
            log = LogFeatures(n_features, constant=DEFAULT_CONSTANT if intercept else 0.0)
            yield LogGrid(log, Grid(log.n_features_out, intercept=False))
        except ConfigurationError:  # too many features for that grid: no model can have it
            continue


def _on_grid(X: npt.NDArray[Any], grid: Integers) -> Encoding:
    """Return the rows that fit on a grid, as integers."""
    numbers = np.arange(len(X))
    if isinstance(grid, Grid) and not grid.normalises:
        with np.errstate(over="ignore", invalid="ignore"):
            Z = X.astype(np.float64) / (grid.scaling if isinstance(grid.scaling, float) else 1.0)
            longest = 1.0 + math.ldexp(1.001, -grid.bits)
            numbers = np.flatnonzero(np.einsum("ij,ij->i", Z, Z) <= longest**2)

    def integers(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return to_grid(rows, grid) if isinstance(grid, Grid) else grid.of_rows(rows)

    try:
        made = integers(X[numbers])
    except InputError:  # some row overflows, and no model can have held it: try each
        fitting: dict[int, npt.NDArray[Any]] = {}
        for i in numbers.tolist():
            try:
                fitting[i] = integers(X[i : i + 1])
            except InputError:
                continue
        numbers = np.array(list(fitting), dtype=np.intp)
        made = np.concatenate([*fitting.values()]) if fitting else np.empty((0, grid.n_features), np.int32)
    return Encoding("grid row", made.astype(made.dtype.newbyteorder("<")), numbers)


def _sparse(whole: Encoding, grid: Grid, fixed: int) -> Iterator[Encoding]:
    """Yield rows of which a model stores only the non-zero entries: rows of one length together.

    The values of such a row lie in one place and their columns in another. If all values are the same, as those of
    yes-or-no features are, the columns identify the row. So many of the last columns are ``fixed``: the constant of a
    map, which does not tell rows apart.
    """
    features, narrow = whole.rows[:, : grid.n_features], position_type(grid).newbyteorder("<")
    lengths = np.count_nonzero(features, axis=1)
    for m in np.unique(lengths).tolist():
        if not m or sparse_bytes(1, m, grid) >= dense_bytes(1, grid):
            continue
        numbers, mine = whole.numbers[lengths == m], features[lengths == m]
        values, columns = mine[mine != 0].reshape(-1, m), np.nonzero(mine)[1].reshape(-1, m).astype(narrow)
        one_value = (values == values[:, :1])[:, : max(1, m - fixed)].all(axis=1)
        for rows, which in ((values, ~one_value), (columns, one_value)):
            if which.any():
                yield Encoding("grid row", rows[which], numbers[which], sparse=True)


# -- the search ----------------------------------------------------------------------------------------------------


class Match(NamedTuple):
    """A row that was found at an offset of the block."""

    offset: int
    length: int
    what: str
    row: int  # its number in the table


class RowSearch:
    """All rows of some encodings, ready to be searched for.

    Attributes
    ----------
    encodings : list of Encoding
    reach : int
        Bytes of the longest row.
    unsearchable : set of int
        Numbers of rows that look like filling in some encoding.
    """

    def __init__(self, of: Sequence[Encoding]) -> None:
        self.encodings = list(of)
        self.reach = max((e.raw.shape[1] for e in self.encodings), default=0)
        searchable = [(e, e.searchable()) for e in self.encodings]
        self.unsearchable = {int(i) for e, good in searchable for i in e.numbers[~good]}
        # Sparse rows may be short, and a window as short as they are would fit everywhere in the others.
        self._windows = [
            _Windows([(e, good) for e, good in searchable if e.sparse is sparse and good.any()])
            for sparse in (False, True)
        ]

    def matches(self, block: Bytes, start: int, stop: int) -> Iterator[Match]:
        """Yield rows whose window begins in ``block[start:stop]``.

        The block must reach ``reach`` bytes further on both sides, or to the end of the file.

        Raises CrowdedError if almost everything in the block is nearly a row.
        """
        for windows in self._windows:
            yield from windows.matches(block, start, stop)


class _Windows:
    """Rows found by a rolling hash over a window of each, of one length for all."""

    def __init__(self, used: Sequence[tuple[Encoding, npt.NDArray[np.bool_]]]) -> None:
        self._length = min([_LONGEST_WINDOW, *(e.raw.shape[1] for e, _ in used)])
        self._rows: dict[tuple[int, int], dict[bytes, tuple[str, int]]] = {}  # by (begin of the window, width)
        self._places: dict[int, set[tuple[int, int]]] = {}  # (begin, width) of the windows with a hash
        powers = _powers(_BASE, self._length)
        for encoding, good in used:
            raw = encoding.raw[good]
            begins = self._best_windows(raw)
            for begin in np.unique(begins).tolist():
                mine = np.flatnonzero(begins == begin)
                place = (begin, raw.shape[1])
                rows = self._rows.setdefault(place, {})
                for i in range(0, len(mine), 256):
                    some = mine[i : i + 256]
                    hashes = (raw[some, begin : begin + self._length] + _U(1)) @ powers
                    for row, key in zip(some.tolist(), hashes.tolist(), strict=True):
                        rows.setdefault(raw[row].tobytes(), (encoding.what, int(encoding.numbers[good][row])))
                        self._places.setdefault(key, set()).add(place)
        self._keys = np.array(sorted(self._places), _U)
        bits = min(27, max(16, (32 * len(self._keys)).bit_length()))
        self._shift = _U(64 - bits)
        self._known = np.zeros(1 << bits, dtype=bool)  # by the first bits of a hash: rules out nearly all others
        self._known[self._keys >> self._shift] = True
        self._forward = self._backward = np.empty(0, _U)

    def _best_windows(self, raw: Bytes) -> npt.NDArray[np.intp]:
        """Return where the window of each row begins: where fewest bytes are zero."""
        width = raw.shape[1]
        begins = np.unique([*range(0, width - self._length + 1, self._length), width - self._length])
        weights = [np.count_nonzero(raw[:, begin : begin + self._length], axis=1) for begin in begins]
        best: npt.NDArray[np.intp] = begins[np.stack(weights, axis=1).argmax(axis=1)]
        return best

    def matches(self, block: Bytes, start: int, stop: int) -> Iterator[Match]:
        """Yield whole rows whose window begins in ``block[start:stop]``."""
        if not len(self._keys):
            return
        ends: dict[tuple[str, int], int] = {}  # of the last match of a row: overlapping ones are one
        tries = 0
        for at, key in self._candidates(block, start, min(stop, len(block) - self._length + 1)):
            for begin, width in self._places[key]:
                low = at - begin
                if low < 0 or low + width > len(block):
                    continue
                found = self._rows[begin, width].get(block[low : low + width].tobytes())
                if found is None:
                    tries += 1
                elif ends.get(found, 0) <= low:
                    ends[found] = low + width
                    yield Match(low, width, *found)
            if tries > _MOST_TRIES:
                raise CrowdedError

    def _candidates(self, block: Bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield offsets of windows that have the hash of a row, and the hashes."""
        if not len(self._forward):
            self._forward, self._backward = _powers(_BASE, _PIECE + self._length), _powers(_BACK, _PIECE)
        sums = np.zeros(_PIECE + self._length + 1, _U)
        for low in range(start, stop, _PIECE):
            n = min(_PIECE, stop - low)
            piece = block[low : low + n + self._length - 1]
            if not piece.any():
                continue
            m = len(piece)
            np.cumsum((piece + _U(1)) * self._forward[:m], out=sums[1 : m + 1])
            hashes = (sums[self._length : self._length + n] - sums[:n]) * self._backward[:n]
            hit = np.flatnonzero(self._known[hashes >> self._shift])
            hit = hit[self._keys[np.searchsorted(self._keys[:-1], hashes[hit])] == hashes[hit]]
            yield from zip((hit + low).tolist(), hashes[hit].tolist(), strict=True)


def _powers(base: int, n: int) -> UInt64s:
    """Return ``base**0 .. base**(n-1)`` modulo 2**64."""
    factors = np.full(max(n, 1), _U(base))
    factors[0] = 1
    out: UInt64s = np.cumprod(factors, dtype=_U)[:n]
    return out
