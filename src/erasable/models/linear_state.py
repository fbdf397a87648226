"""The state of a linear model: rows on the grid, their exact sums, and the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Float32s, Float64s
from erasable.core.grid import Grid, dense_rows
from erasable.core.layout import (
    Buffer,
    Key,
    Label,
    Tensors,
    check_feature_names,
    check_fixed_classes,
    check_format,
    guarded,
    parse,
    read_label,
    read_names,
)
from erasable.core.row_layout import laid_out, read_rows, row_tensors
from erasable.core.scaling import described_scaling, read_scaling
from erasable.core.selector import Decisions, GridRows, Progress, Selection, select
from erasable.core.sums import LARGEST_EXACT, empty_gram, packed, sums_by_class, targets, unpacked
from erasable.core.weights import solve_weights
from erasable.errors import ConfigurationError, StateFormatError, VerificationError
from erasable.models.order import check_order_key, described_order, read_order
from erasable.models.state import State, classes_of

_BLOCK = 2**22  # numbers of sparse rows that are made dense together


@dataclass(frozen=True)
class LinearConfiguration:
    """All that the caller fixed: how rows become integers, ``lambda``, the threshold and, where given, the classes.

    ``units`` is lambda in squared grid steps; ``classes`` is sorted, or None when classes come from the core rows.
    ``feature_names`` are those of the columns of the input, where it has any; ``feature_map`` describes, as canonical
    JSON, the map that rows went through before they came here. ``order_key`` is the key of the hashes in whose order
    rows are decided, or None when they are decided as they are given.
    """

    grid: Grid
    units: int
    threshold: float
    classes: tuple[Label, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    feature_map: str | None = None
    order_key: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.units < LARGEST_EXACT // 2:
            raise ConfigurationError("capacity is outside what the grid can hold.")
        if not 0.0 <= self.threshold < math.inf or math.copysign(1.0, self.threshold) < 0.0:
            raise ConfigurationError("threshold must be a finite number, zero or more, and not minus zero.")
        check_fixed_classes(self.classes)
        check_order_key(self.order_key)
        if self.feature_names is not None:
            if self.feature_map is not None:
                raise ConfigurationError("a model behind a feature map has no names of columns.")
            check_feature_names(self.feature_names, self.grid.n_features)


@dataclass(frozen=True, eq=False, repr=False)
class LinearState(State):
    """Configuration, core rows in learning order, their exact sums, and the weights.

    Attributes
    ----------
    ids, subjects, labels : tuples of length n_core
        A subject may be None.
    rows : array of shape (n_core, n_columns), integers; or sparse
        In the layout that they have by the rule: see :mod:`erasable.core.row_layout`.
    gram : array of shape (n_columns (n_columns + 1) / 2,), int64
        Lower triangle of the sum of g g', row by row. ``A = (units * I + gram) * 4**-bits``.
    class_sums : array of shape (n_classes, n_columns), int64
        Sum of the rows of each class; ``b`` follows from it, see :func:`erasable.core.sums.targets`.
    weights : array of shape (1 or n_classes, n_columns), float32
    """

    configuration: LinearConfiguration
    gram: npt.NDArray[np.int64]
    class_sums: npt.NDArray[np.int64]
    weights: Float32s

    FORMAT = "erasable-linear"
    MEASURE = "leverage"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", laid_out(self.rows, self.configuration.grid))

    @classmethod
    def assemble(
        cls,
        configuration: LinearConfiguration,
        ids: tuple[Key, ...],
        subjects: tuple[Key | None, ...],
        labels: tuple[Label, ...],
        rows: Any,
        H: Float64s,
        class_sums: Float64s,
        weights: Float32s | None = None,
    ) -> Self:
        """A state from its rows and their sums; weights are solved for unless given."""
        for name, sums in (("A", np.tril(H)), ("the class sums b", class_sums)):
            broken = np.argwhere(~(np.abs(sums) <= LARGEST_EXACT) | (sums != np.rint(sums)))
            if len(broken):
                place = ", ".join(map(str, broken[0].tolist()))
                raise VerificationError(
                    f"{name} is no sum of grid rows: entry ({place}) is not an integer float64 holds."
                )
        if weights is None:
            weights = weights_of(configuration, H, class_sums)
        triangle = packed(H)
        diagonal = np.cumsum(np.arange(1, configuration.grid.n_columns + 1)) - 1
        triangle[diagonal] -= configuration.units
        return cls(configuration, ids, subjects, labels, rows, triangle, class_sums.astype(np.int64), weights)

    @classmethod
    def learnt(
        cls,
        configuration: LinearConfiguration,
        ids: tuple[Key, ...],
        subjects: tuple[Key | None, ...],
        labels: tuple[Label, ...],
        rows: Any,
        *,
        progress: Progress | None = None,
    ) -> tuple[Self, Selection]:
        """Learn grid rows from nothing: the state that this gives, and what was selected.

        Notes
        -----
        *Law*: for a state reached by any learning and forgetting, this of its own rows is that state.
        *Source*: Definition 2.3 and Algorithm 1.
        """
        c, grid = configuration, configuration.grid
        H = empty_gram(grid, c.units)
        selection = _selected(rows, H, c, progress)
        kept = selection.index.tolist()
        chosen = rows if len(kept) == rows.shape[0] else rows[selection.index]
        ids, subjects = tuple(ids[i] for i in kept), tuple(subjects[i] for i in kept)
        labels = tuple(labels[i] for i in kept)
        sums = stack_sums(classes_of(c.classes, labels), sums_by_class(chosen, labels, grid), grid)
        return cls.assemble(c, ids, subjects, labels, chosen, H, sums), selection

    def relearnt(self, progress: Progress | None = None) -> tuple[Self, npt.NDArray[np.intp]]:
        """Learn the rows from nothing."""
        names = self.ids, self.subjects, self.labels
        again, selection = self.learnt(self.configuration, *names, self.rows, progress=progress)
        return again, selection.index

    def check_rows(self) -> None:
        """Refuse rows that are not on the grid."""
        grid, rows = self.configuration.grid, self.rows
        if sp.issparse(rows):  # the constant is what the grid says
            entries = np.concatenate([[0], np.cumsum(rows.data.astype(np.int64) ** 2)])
            unfit = np.diff(entries[rows.indptr]) > grid.radius**2 - grid.constant**2
        else:
            square = np.einsum("ij,ij->i", rows, rows, dtype=np.int64)
            unfit = (square > grid.radius**2) | (rows[:, grid.n_features :] != grid.constant).any(axis=1)
        if unfit.any():
            first = int(np.flatnonzero(unfit)[0]) + 1
            raise VerificationError(f"core row {first} of {len(self.ids)} is not a row of the grid.")

    def recomputed(self) -> dict[str, npt.NDArray[Any]]:
        """Sums and weights."""
        weights = self.weights.view(np.int32)
        return {"A": self.gram, "the class sums b": self.class_sums, "the weights w": weights}

    def counts(self) -> tuple[int, int]:
        """Entries of A and of the class sums; weights."""
        return self.gram.size + self.class_sums.size, self.weights.size

    # -- canonical bytes -----------------------------------------------------------------------------------------

    def described(self) -> dict[str, Any]:
        """The configuration as the header of a file has it."""
        c, grid = self.configuration, self.configuration.grid
        return {
            "n_features": grid.n_features,
            "bits": grid.bits,
            "intercept": grid.intercept,
            "scaling": described_scaling(grid.scaling),
            "capacity_units": str(c.units),
            "threshold": c.threshold.hex(),
            "feature_names": None if c.feature_names is None else list(c.feature_names),
            "feature_map": c.feature_map,
            "order_key": described_order(c.order_key),
        }

    def row_tensors(self) -> Tensors:
        """The rows in the narrowest integers that hold them."""
        return row_tensors(self.rows, self.configuration.grid)

    def derived(self) -> Tensors:
        """Sums and weights."""
        return {
            "gram": ("I64", self.gram),
            "class_sums": ("I64", self.class_sums),
            "weights": ("F32", self.weights),
        }

    @classmethod
    def from_bytes(cls, data: Buffer) -> LinearState:
        """The state whose canonical bytes these are; its arrays are read-only views of ``data``.

        Raises
        ------
        StateFormatError
            When the bytes are not the canonical bytes of any state, or of a newer version. Whether the state is what
            learning its rows gives is another question: see ``verify``.
        """
        return guarded(data, _parse, lambda state: state.pieces)


def stack_sums(classes: tuple[Label, ...], sums: dict[Label, Float64s], grid: Grid) -> Float64s:
    """Class sums in the order of the classes, shape (n_classes, n_columns); zeros for a fixed class without rows."""
    zero = np.zeros(grid.n_columns)
    return np.array([sums.get(c, zero) for c in classes]).reshape(len(classes), grid.n_columns)


def weights_of(configuration: LinearConfiguration, H: Float64s, class_sums: Float64s) -> Float32s:
    """Weights from the sums; zero where there are no classes yet."""
    if len(class_sums) == 0:
        return np.zeros((1, configuration.grid.n_columns), dtype=np.float32)
    return solve_weights(H, targets(class_sums), configuration.grid.bits, configuration.units)


def _selected(rows: Any, H: Float64s, c: LinearConfiguration, progress: Progress | None) -> Selection:
    """Algorithm 1 on grid rows, into ``H``.

    Sparse rows are made dense, some at a time: where most rows are selected, as when a state is learnt again, the dense
    kernels are the faster ones. What is selected does not depend on it.
    """
    n, step = rows.shape[0], max(1, _BLOCK // c.grid.n_columns)
    if not sp.issparse(rows):
        step = max(1, n)
    index, decisions, n_core = [np.empty(0, dtype=np.intp)], Decisions(), 0
    for low in range(0, n, step):
        part = rows[low : low + step]
        source = GridRows(dense_rows(part, c.grid) if sp.issparse(part) else part, c.grid)
        told = None if progress is None else (lambda done, _, low=low: progress(low + done, n))
        found = select(source, H, n_core, grid=c.grid, units=c.units, tau=c.threshold, progress=told)
        index.append(found.index + low)
        decisions, n_core = decisions + found.decisions, n_core + len(found.index)
    return Selection(np.concatenate(index), [], decisions)


def gram_of(state: LinearState) -> Float64s:
    """``H = units * I + gram`` as a lower triangle, ready for the selector."""
    H = unpacked(state.gram, state.configuration.grid.n_columns)
    H.flat[:: len(H) + 1] += state.configuration.units
    return H


def _parse(data: Buffer) -> LinearState:
    meta, tensors = parse(data)
    check_format(meta, LinearState.FORMAT, LinearState.VERSION)
    return state_of(meta, tensors)


def grid_of(meta: dict[str, Any]) -> Grid:
    """The grid that metadata describe; anything may be raised for values of other types."""
    return Grid(int(meta["n_features"]), int(meta["bits"]), bool(meta["intercept"]), read_scaling(meta["scaling"]))


def state_of(meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]]) -> LinearState:
    """The state that metadata and tensors describe; whether they are written as they should be is for others to check.

    Raises
    ------
    StateFormatError
        When the parts do not fit together. Anything may be raised for values of other types.
    """
    grid = grid_of(meta)
    classes = tuple(read_label(meta["class_kind"], c) for c in meta["classes"])
    names = meta["feature_names"]
    configuration = LinearConfiguration(
        grid,
        int(meta["capacity_units"]),
        float.fromhex(meta["threshold"]),
        classes if meta["classes_fixed"] else None,
        None if names is None else tuple(names),
        meta["feature_map"],
        read_order(meta["order_key"]),
    )
    d, rows = grid.n_columns, read_rows(tensors, grid)
    fits = (
        tensors["gram"].shape == (d * (d + 1) // 2,)
        and tensors["class_sums"].shape == (len(classes), d)
        and tensors["weights"].shape == (len(classes) if len(classes) > 2 else 1, d)
    )
    if not fits:
        raise StateFormatError("its parts do not fit together.")
    names = read_names(meta, tensors, classes, rows.shape[0])
    return LinearState(configuration, *names, rows, tensors["gram"], tensors["class_sums"], tensors["weights"])
