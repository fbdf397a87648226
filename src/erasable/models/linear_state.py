"""The state of a linear model: rows on the grid, their exact sums, and the weights."""

from __future__ import annotations

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
    Owners,
    Tensors,
    check_format,
    guarded,
    parse,
    read_label,
    read_names,
)
from erasable.core.row_layout import laid_out, read_rows, row_tensors
from erasable.core.selector import Decisions, GridRows, Progress, Selection, select
from erasable.core.sums import LARGEST_EXACT, empty_gram, packed, sums_by_class, unpacked
from erasable.errors import StateFormatError, VerificationError
from erasable.models.heads import logistic_weights_of, squared_weights
from erasable.models.linear_configuration import LinearConfiguration
from erasable.models.state import State, classes_of
from erasable.models.weighting import (
    LARGEST,
    ONE,
    RowWeights,
    WeightedSums,
    guard_weights,
    uneven,
)

_BLOCK = 2**22  # numbers of sparse rows that are made dense together


@dataclass(frozen=True, eq=False, repr=False)
class LinearState(State):
    """Configuration, core rows in learning order, their exact sums, and the weights.

    Attributes
    ----------
    ids, subjects, labels : tuples of length n_core
        Subjects of a row: None, one, or a sorted tuple of several.
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
        subjects: tuple[Owners, ...],
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
            weights = logistic_weights_of(configuration, rows, labels, row_weights, H)
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
        subjects: tuple[Owners, ...],
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
        selection = _selected(rows, H, c, c.always_kept(ids), progress)
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
        return self.configuration.described()

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


def _selected(
    rows: Any, H: Float64s, c: LinearConfiguration, forced: npt.NDArray[np.bool_] | None, progress: Progress | None
) -> Selection:
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
        kept = None if forced is None else forced[low : low + step]
        found = select(source, H, n_core, grid=c.grid, units=c.units, tau=c.threshold, forced=kept, progress=told)
        index.append(found.index + low)
        decisions, n_core = decisions + found.decisions, n_core + len(found.index)
    return Selection(np.concatenate(index), [], decisions)


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


def state_of(meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]]) -> LinearState:
    """The state that metadata and tensors describe; whether they are written as they should be is for others to check.

    Raises
    ------
    StateFormatError
        When the parts do not fit together. Anything may be raised for values of other types.
    """
    classes = tuple(read_label(meta["class_kind"], c) for c in meta["classes"])
    configuration = LinearConfiguration.read(meta, classes)
    grid = configuration.grid
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
