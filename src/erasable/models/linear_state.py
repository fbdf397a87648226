"""The state of a linear model: rows on the grid, their exact sums, and the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Float32s, Float64s
from erasable.core.grid import Grid
from erasable.core.layout import Buffer, Tensors, check_format, guarded, parse
from erasable.core.names import Key, Owners, read_label, read_names
from erasable.core.row_layout import laid_out, read_rows, row_tensors
from erasable.core.selector import GridRows, Progress, Selection, select
from erasable.core.sums import LARGEST_EXACT, empty_gram, packed, unpacked
from erasable.errors import StateFormatError, VerificationError
from erasable.models.heads import logistic_weights_of, squared_weights
from erasable.models.linear_configuration import LinearConfiguration
from erasable.models.state import State, at
from erasable.models.weighting import (
    LARGEST,
    ONE,
    RowWeights,
    WeightedSums,
    guard_weights,
    uneven,
)


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
        Sum of the rows of each class, ``b`` follows from it, see :func:`erasable.core.sums.targets`; in a regression,
        sums by target.
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
    ANSWER: ClassVar[str] = "labels"  # the tensor of what rows answer
    SUMS: ClassVar[str] = "class sums"  # the tensor has a name of the same words

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", laid_out(self.rows, self.configuration.grid))

    @classmethod
    def assemble(
        cls,
        configuration: LinearConfiguration,
        ids: tuple[Key, ...],
        subjects: tuple[Owners, ...],
        labels: tuple[Any, ...],
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
        sums = [("A", np.tril(H)), (f"the {cls.SUMS} b", class_sums)]
        if weighted is not None:
            sums += [("the weighted A", np.tril(weighted[0])), (f"the weighted {cls.SUMS} b", weighted[1])]
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
        labels: tuple[Any, ...],
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
        ids, subjects, labels = at(kept, ids, subjects, labels)
        answers = c.answers(labels)
        sums = stack_sums(answers, c.sums_of(chosen, labels), grid)
        row_weights = None if row_weights is None else uneven(row_weights[selection.index])
        weighted = None
        if row_weights is not None and c.loss == "squared":
            guard_weights(int(row_weights.sum(dtype=np.int64)), grid, c.units)
            of_all = WeightedSums(empty_gram(grid, ONE * c.units), {})
            of_all.add(chosen, labels, row_weights, c)
            weighted = of_all.H, stack_sums(answers, of_all.class_sums, grid)
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
        sums = {"A": self.gram, f"the {self.SUMS} b": self.class_sums}
        if self.weighted_gram is not None and self.weighted_class_sums is not None:
            sums |= {"the weighted A": self.weighted_gram, f"the weighted {self.SUMS} b": self.weighted_class_sums}
        name = "the weights w" if self.configuration.loss == "squared" else "the logistic weights w"
        return {**sums, name: self.weights.view(np.int32)}

    def counts(self) -> tuple[int, int]:
        """Entries of A and of b; weights."""
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
        name = self.SUMS.replace(" ", "_")
        tensors: Tensors = {"gram": ("I64", self.gram), name: ("I64", self.class_sums)}
        if self.weighted_gram is not None:
            tensors |= {
                "weighted_gram": ("I64", self.weighted_gram),
                f"weighted_{name}": ("I64", self.weighted_class_sums),
            }
        return {**tensors, "weights": ("F32", self.weights)}

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """The state whose canonical bytes these are; its arrays are read-only views of ``data``.

        Raises
        ------
        StateFormatError
            When the bytes are not the canonical bytes of any state, or of a newer version. Whether the state is what
            learning its rows gives is another question: see ``verify``.
        """
        return guarded(data, cls._parsed, lambda state: state.pieces)

    @classmethod
    def _parsed(cls, data: Buffer) -> Self:
        meta, tensors = parse(data)
        check_format(meta, cls.FORMAT, cls.VERSION)
        return cls.of_tensors(meta, tensors)

    @classmethod
    def of_tensors(cls, meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]]) -> Self:
        """The state that these describe; whether they are written as they should be is for others to check.

        Raises
        ------
        StateFormatError
            When the parts do not fit together. Anything may be raised for values of other types.
        """
        c = cls.read_configuration(meta)
        d, rows = c.grid.n_columns, read_rows(tensors, c.grid)
        names = cls.read_names(meta, tensors, c, rows.shape[0])
        answers, functions = cls.read_widths(meta, c)
        name = cls.SUMS.replace(" ", "_")
        row_weights = tensors.get("row_weights")
        wide = [tensors.get("weighted_gram"), tensors.get(f"weighted_{name}")]
        fits = (
            tensors["gram"].shape == (d * (d + 1) // 2,)
            and tensors[name].shape == (answers, d)
            and tensors["weights"].shape == (functions, d)
            and (row_weights is None or _are_uneven(row_weights, rows.shape[0]))
            and [None if t is None else t.shape for t in wide]
            == (
                [tensors["gram"].shape, tensors[name].shape]
                if row_weights is not None and c.loss == "squared"
                else [None, None]
            )
        )
        if not fits:
            raise StateFormatError("its parts do not fit together.")
        return cls(c, *names, rows, tensors["gram"], tensors[name], tensors["weights"], row_weights, *wide)

    @classmethod
    def read_configuration(cls, meta: dict[str, Any]) -> LinearConfiguration:
        """What :meth:`described` wrote."""
        classes = tuple(read_label(meta["class_kind"], c) for c in meta["classes"])
        return LinearConfiguration.read(meta, classes)

    @classmethod
    def read_names(
        cls, meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]], c: Any, n: int
    ) -> tuple[tuple[Key, ...], tuple[Owners, ...], tuple[Any, ...]]:
        """Ids, subjects and labels of n rows."""
        return read_names(meta, tensors, tuple(read_label(meta["class_kind"], label) for label in meta["classes"]), n)

    @classmethod
    def read_widths(cls, meta: dict[str, Any], c: Any) -> tuple[int, int]:
        """How many sums of rows there are, and how many functions: one for one or two classes."""
        k = len(meta["classes"])
        return k, k if k > 2 else 1


def stack_sums(answers: tuple[Any, ...], sums: dict[Any, Float64s], grid: Grid) -> Float64s:
    """Sums in the order of the classes or targets, shape (n, n_columns); zeros for a fixed class without rows."""
    zero = np.zeros(grid.n_columns)
    return np.array([sums.get(c, zero) for c in answers]).reshape(len(answers), grid.n_columns)


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
    c = state.configuration
    sums = sums_by_answer(state, state.weighted_class_sums)
    return WeightedSums(_whole(state.weighted_gram, ONE * c.units, c.grid), sums)


def sums_by_answer(state: LinearState, sums: npt.NDArray[np.int64]) -> dict[Any, Float64s]:
    """Sums as a model keeps them.

    A class without rows has no sum; one that a file gives it all the same is for ``verify`` to see.
    """
    c = state.configuration
    there = c.answered(state.labels)
    by_answer = zip(c.answers(state.labels), sums.astype(np.float64), strict=True)
    return {answer: total.copy() for answer, total in by_answer if answer in there or total.any()}


def _whole(triangle: npt.NDArray[np.int64], units: int, grid: Grid) -> Float64s:
    H = unpacked(triangle, grid.n_columns)
    H.flat[:: len(H) + 1] += units
    return H


def _are_uneven(row_weights: npt.NDArray[Any], n: int) -> bool:
    """Whether these are weights of n rows as a file has them: in range, and not all one."""
    fits = row_weights.shape == (n,) and row_weights.dtype == np.int16
    return fits and bool(((row_weights >= 1) & (row_weights <= LARGEST)).all()) and bool((row_weights != ONE).any())
