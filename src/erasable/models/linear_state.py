"""The state of a linear model: rows on the grid, their exact sums, and the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Float32s, Float64s
from erasable.core.grid import Grid
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
from erasable.core.selector import GridRows, Progress, Selection, select
from erasable.core.sums import LARGEST_EXACT, empty_gram, packed, sums_by_class, unpacked
from erasable.errors import ConfigurationError, StateFormatError, VerificationError
from erasable.models.heads import LOSSES, logistic_weights_of, squared_weights
from erasable.models.order import check_order_key, check_sample, described_order, in_sample, read_order
from erasable.models.state import State, classes_of
from erasable.models.weighting import (
    LARGEST,
    ONE,
    ClassWeights,
    RowWeights,
    WeightedSums,
    check_class_weights,
    described_class_weights,
    guard_weights,
    read_class_weights,
    uneven,
)


@dataclass(frozen=True)
class LinearConfiguration:
    """All that the caller fixed: how rows become integers, ``lambda``, the threshold and, where given, the classes.

    ``units`` is lambda in squared grid steps; ``classes`` is sorted, or None when classes come from the core rows.
    ``feature_names`` are those of the columns of the input, where it has any; ``feature_map`` describes, as canonical
    JSON, the map that rows went through before they came here. ``order_key`` is the key of the hashes in whose order
    rows are decided, or None when they are decided as they are given. ``loss`` says which weights are published;
    ``alpha_units`` is the regulariser of the logistic ones, in squared grid steps. ``class_weight`` is that of
    :mod:`erasable.models.weighting`. Of the ids, ``sample_rate`` are kept whatever their leverage, by ``sample_key``.
    """

    grid: Grid
    units: int
    threshold: float
    classes: tuple[Label, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    feature_map: str | None = None
    order_key: int | None = None
    loss: str = "squared"
    alpha_units: int | None = None
    class_weight: ClassWeights = None
    sample_rate: float = 0.0
    sample_key: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.units < LARGEST_EXACT // 2:
            raise ConfigurationError("capacity is outside what the grid can hold.")
        check_sample(self.sample_rate, self.sample_key, self.order_key)
        if not 0.0 <= self.threshold <= math.inf or math.copysign(1.0, self.threshold) < 0.0:
            raise ConfigurationError("threshold must be a number, zero or more, and not minus zero.")
        if self.threshold == math.inf and not self.sample_rate:
            raise ConfigurationError("with an infinite threshold and no sample_rate no row would ever be kept.")
        if self.loss not in LOSSES or (self.alpha_units is None) != (self.loss == "squared"):
            raise ConfigurationError("the loss is squared, or logistic with an alpha.")
        if self.alpha_units is not None and not 1 <= self.alpha_units < LARGEST_EXACT // 2:
            raise ConfigurationError("alpha is outside what the grid can hold.")
        check_fixed_classes(self.classes)
        check_class_weights(self.class_weight, self.classes)
        check_order_key(self.order_key)
        if self.feature_names is not None:
            if self.feature_map is not None:
                raise ConfigurationError("a model behind a feature map has no names of columns.")
            check_feature_names(self.feature_names, self.grid.n_features)

    def always_kept(self, ids: Any) -> npt.NDArray[np.bool_] | None:
        """Which ids are in the sample; None where there is no sample."""
        return None if self.sample_key is None else in_sample(ids, self.sample_rate, self.sample_key)


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
    row_weights : array of shape (n_core,), int16, or None
        In sixteenths; None where all rows have weight one.
    weighted_gram, weighted_class_sums : arrays like gram and class_sums, or None
        The same sums with every row as often as its weight has sixteenths: where some row's weight is not one, and the
        loss is squared.
    """

    configuration: LinearConfiguration
    gram: npt.NDArray[np.int64]
    class_sums: npt.NDArray[np.int64]
    weights: Float32s
    row_weights: RowWeights | None = None
    weighted_gram: npt.NDArray[np.int64] | None = None
    weighted_class_sums: npt.NDArray[np.int64] | None = None

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
        *,
        row_weights: RowWeights | None = None,
        weighted: tuple[Float64s, Float64s] | None = None,
    ) -> Self:
        """A state from its rows and their sums; weights are solved for unless given.

        ``weighted`` are ``16 units I`` plus the weighted Gram matrix, and the weighted class sums.
        """
        sums = [("A", np.tril(H)), ("the class sums b", class_sums)]
        if weighted is not None:
            sums += [("the weighted A", np.tril(weighted[0])), ("the weighted class sums b", weighted[1])]
        for name, entries in sums:
            broken = np.argwhere(~(np.abs(entries) <= LARGEST_EXACT) | (entries != np.rint(entries)))
            if len(broken):
                place = ", ".join(map(str, broken[0].tolist()))
                raise VerificationError(
                    f"{name} is no sum of grid rows: entry ({place}) is not an integer float64 holds."
                )
        if weights is None and configuration.loss == "logistic":
            weights = logistic_weights_of(configuration, rows, labels, row_weights)
        elif weights is None:
            weights = squared_weights(configuration, (H, class_sums), weighted)
        gram, wide = _triangle(H, configuration.units), None
        if weighted is not None:
            wide = _triangle(weighted[0], ONE * configuration.units), weighted[1].astype(np.int64)
        named = configuration, ids, subjects, labels, rows
        return cls(*named, gram, class_sums.astype(np.int64), weights, row_weights, *(wide or (None, None)))

    @classmethod
    def learnt(
        cls,
        configuration: LinearConfiguration,
        ids: tuple[Key, ...],
        subjects: tuple[Key | None, ...],
        labels: tuple[Label, ...],
        rows: Any,
        row_weights: RowWeights | None = None,
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
        source, forced = GridRows(rows, grid), c.always_kept(ids)
        selection = select(source, H, 0, grid=grid, units=c.units, tau=c.threshold, forced=forced, progress=progress)
        kept = selection.index.tolist()
        chosen = rows if len(kept) == rows.shape[0] else rows[selection.index]
        ids, subjects = tuple(ids[i] for i in kept), tuple(subjects[i] for i in kept)
        labels = tuple(labels[i] for i in kept)
        classes = classes_of(c.classes, labels)
        sums = stack_sums(classes, sums_by_class(chosen, labels, grid), grid)
        row_weights = None if row_weights is None else uneven(row_weights[selection.index])
        weighted = None
        if row_weights is not None and c.loss == "squared":
            guard_weights(int(row_weights.sum(dtype=np.int64)), grid, c.units)
            of_all = WeightedSums(empty_gram(grid, ONE * c.units), {})
            of_all.add(chosen, labels, row_weights, grid)
            weighted = of_all.H, stack_sums(classes, of_all.class_sums, grid)
        state = cls.assemble(c, ids, subjects, labels, chosen, H, sums, row_weights=row_weights, weighted=weighted)
        return state, selection

    def relearnt(self, progress: Progress | None = None) -> tuple[Self, npt.NDArray[np.intp]]:
        """Learn the rows from nothing."""
        names = self.ids, self.subjects, self.labels
        again, selection = self.learnt(self.configuration, *names, self.rows, self.row_weights, progress=progress)
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
        sums = {"A": self.gram, "the class sums b": self.class_sums}
        if self.weighted_gram is not None and self.weighted_class_sums is not None:
            sums |= {"the weighted A": self.weighted_gram, "the weighted class sums b": self.weighted_class_sums}
        name = "the weights w" if self.configuration.loss == "squared" else "the logistic weights w"
        return {**sums, name: self.weights.view(np.int32)}

    def counts(self) -> tuple[int, int]:
        """Entries of A and of the class sums; weights."""
        return sum(array.size for array in self.recomputed().values()) - self.weights.size, self.weights.size

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
            "loss": c.loss,
            "alpha_units": None if c.alpha_units is None else str(c.alpha_units),
            "class_weight": described_class_weights(c.class_weight),
            "sample_rate": c.sample_rate.hex(),
            "sample_key": described_order(c.sample_key),
        }

    def row_tensors(self) -> Tensors:
        """The rows in the narrowest integers that hold them, and their weights where some is not one."""
        tensors = row_tensors(self.rows, self.configuration.grid)
        return tensors if self.row_weights is None else {**tensors, "row_weights": ("I16", self.row_weights)}

    def derived(self) -> Tensors:
        """Sums and weights."""
        tensors: Tensors = {"gram": ("I64", self.gram), "class_sums": ("I64", self.class_sums)}
        if self.weighted_gram is not None:
            tensors |= {
                "weighted_gram": ("I64", self.weighted_gram),
                "weighted_class_sums": ("I64", self.weighted_class_sums),
            }
        return {**tensors, "weights": ("F32", self.weights)}

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


def _triangle(H: Float64s, units: int) -> npt.NDArray[np.int64]:
    """The packed Gram matrix: ``H`` without its regulariser."""
    triangle = packed(H)
    triangle[np.cumsum(np.arange(1, len(H) + 1)) - 1] -= units
    return triangle


def gram_of(state: LinearState) -> Float64s:
    """``H = units * I + gram`` as a lower triangle, ready for the selector."""
    return _whole(state.gram, state.configuration.units, state.configuration.grid)


def weighted_sums_of(state: LinearState) -> WeightedSums | None:
    """The weighted sums as a model keeps them; None where all rows have weight one, or the loss has no use for them."""
    if state.weighted_gram is None or state.weighted_class_sums is None:
        return None
    c, there = state.configuration, set(state.labels)
    by_class = dict(zip(state.classes, state.weighted_class_sums.astype(np.float64), strict=True))
    return WeightedSums(
        _whole(state.weighted_gram, ONE * c.units, c.grid),
        {label: total.copy() for label, total in by_class.items() if label in there or total.any()},
    )


def _whole(triangle: npt.NDArray[np.int64], units: int, grid: Grid) -> Float64s:
    H = unpacked(triangle, grid.n_columns)
    H.flat[:: len(H) + 1] += units
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
        meta["loss"],
        None if meta["alpha_units"] is None else int(meta["alpha_units"]),
        read_class_weights(meta["class_weight"]),
        float.fromhex(meta["sample_rate"]),
        read_order(meta["sample_key"]),
    )
    d, rows = grid.n_columns, read_rows(tensors, grid)
    row_weights = tensors.get("row_weights")
    wide = [tensors.get(name) for name in ("weighted_gram", "weighted_class_sums")]
    fits = (
        tensors["gram"].shape == (d * (d + 1) // 2,)
        and tensors["class_sums"].shape == (len(classes), d)
        and tensors["weights"].shape == (len(classes) if len(classes) > 2 else 1, d)
        and (row_weights is None or _are_uneven(row_weights, rows.shape[0]))
        and [None if t is None else t.shape for t in wide]
        == (
            [tensors["gram"].shape, tensors["class_sums"].shape]
            if row_weights is not None and configuration.loss == "squared"
            else [None, None]
        )
    )
    if not fits:
        raise StateFormatError("its parts do not fit together.")
    names = read_names(meta, tensors, classes, rows.shape[0])
    derived = tensors["gram"], tensors["class_sums"], tensors["weights"]
    return LinearState(configuration, *names, rows, *derived, row_weights, *wide)


def _are_uneven(row_weights: npt.NDArray[Any], n: int) -> bool:
    """Whether these are weights of n rows as a file has them: in range, and not all one."""
    fits = row_weights.shape == (n,) and row_weights.dtype == np.int16
    return fits and bool(((row_weights >= 1) & (row_weights <= LARGEST)).all()) and bool((row_weights != ONE).any())
