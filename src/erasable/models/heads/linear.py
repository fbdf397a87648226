"""What the heads on a grid have in common: exact sums of the core rows, and weights solved from them.

The sums are integers that float64 holds, so removing a row undoes adding it. ``H`` is ``units * I`` plus the Gram
matrix (lower triangle). ``by_label`` has the sum of the rows of each class; in a regression, for each target the sum of
the rows times it. ``weighted`` are the same sums with every row as often as its weight has sixteenths; they exist while
some row's weight is not one, for a head whose solution depends on them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float32s, Float64s, Int64s, Matrix, on_host
from erasable.core.grid import Grid, scale_rows
from erasable.core.names import Label, kind_of, read_label, write_label
from erasable.core.sums import (
    LARGEST_EXACT,
    add_rows,
    add_sums,
    empty_gram,
    guard_exactness,
    packed,
    sums_by_class,
    to_float32,
    unpacked,
)
from erasable.errors import ConfigurationError, ExactnessError, VerificationError
from erasable.features import FeatureMap
from erasable.models.inputs import ONE, Labels, RowWeights, label_type, pick
from erasable.models.reports import BITWISE, BITWISE_ON_ALL_ROWS, Guarantee
from erasable.models.selections.leverage import GridSelection
from erasable.models.strategies import Derived, Head, Specification, Tensor, classes_of, in_blocks
from erasable.validation import positive_number

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.core_rows import CoreRows
    from erasable.models.model import Model


LIGHTEST_CLASS, HEAVIEST_CLASS = 2.0**-16, 2.0**16
BALANCED = "balanced"
ClassWeights = str | tuple[tuple[Label, float], ...] | None


def plain_class_weights(given: Any) -> ClassWeights:
    """Return a checked ``class_weight``: None, ``"balanced"``, or sorted labels and numbers; or ConfigurationError."""
    if given is None or (isinstance(given, str) and given == BALANCED):
        return None if given is None else BALANCED
    if not isinstance(given, Mapping) or not given:
        raise ConfigurationError(
            'class_weight must be None, "balanced", or a dictionary from labels to weights; got '
            f"{'an empty one' if isinstance(given, Mapping) else type(given).__name__}."
        )
    keys = np.fromiter(given, dtype=object, count=len(given))
    label_type(keys, "class_weight")
    labels: list[Label] = pick(keys, np.arange(len(keys)))
    weights = []
    for label, weight in zip(labels, given.values(), strict=True):
        number = float(np.float32(min(positive_number(weight, "a weight in class_weight"), 1e30)))
        if not LIGHTEST_CLASS <= number <= HEAVIEST_CLASS:
            raise ConfigurationError(f"weights of classes must be between 2**-16 and 2**16; got {weight!r}.")
        weights.append((label, number))
    return tuple(sorted(weights, key=lambda entry: entry[0]))


def check_class_weights(weights: ClassWeights, classes: Sequence[Label] | None) -> None:
    """Refuse weights that :func:`plain_class_weights` does not give, or of classes that are not among the fixed ones.

    Raises ConfigurationError.
    """
    if isinstance(weights, tuple) and plain_class_weights(dict(weights)) != weights:
        raise ConfigurationError("class_weight is not in canonical form.")
    if not (weights is None or weights == BALANCED or isinstance(weights, tuple)):
        raise ConfigurationError("class_weight is of no known kind.")
    if isinstance(weights, tuple) and classes is not None:
        kind, known = type(classes[0]), set(classes)
        unknown = sum(type(label) is not kind or label not in known for label, _ in weights)
        if unknown:
            raise ConfigurationError(
                f"class_weight names {unknown} labels that are not among the {len(classes)} fixed classes, or of "
                "another type: correct one of the two."
            )


def described_class_weights(weights: ClassWeights) -> Any:
    """As the header of a file has them."""
    if not isinstance(weights, tuple):
        return weights
    return {"kind": kind_of(weights[0][0]), "weights": [[write_label(c), w.hex()] for c, w in weights]}


def read_class_weights(written: Any) -> ClassWeights:
    """What :func:`described_class_weights` wrote."""
    if not isinstance(written, dict):
        known: ClassWeights = written
        return known
    return tuple((read_label(written["kind"], c), float.fromhex(w)) for c, w in written["weights"])


def class_weights_of(
    given: ClassWeights, classes: Sequence[Label], totals: Mapping[Label, int]
) -> npt.NDArray[np.float64]:
    """The weight of each class, in their order: float32 numbers, one where none was given.

    Parameters
    ----------
    totals : mapping
        The weights of the core rows of each class, added up, in sixteenths.

    Notes
    -----
    *Definition*: ``"balanced"`` is all weight, divided by the number of classes that have core rows times the weight of
    the class, correctly rounded to float32, and no less than 2**-16 and no more than 2**16.
    """
    if given is None:
        return np.ones(len(classes))
    if isinstance(given, tuple):
        named = dict(given)
        return np.array([named.get(c, 1.0) for c in classes])
    there = {c: totals[c] for c in classes if totals.get(c)}
    whole = sum(there.values())
    shares = [Fraction(whole, len(there) * there[c]) if c in there else Fraction(1) for c in classes]
    return np.array([min(max(float(to_float32(s)), LIGHTEST_CLASS), HEAVIEST_CLASS) for s in shares])


Stacked = tuple[Float64s, Float64s]  # H, and the sums by label in the order of the labels


def guard_weights(total: int, grid: Grid, units: int) -> None:
    """Raise ExactnessError for so much weight that a weighted sum could round; ``total`` is in sixteenths."""
    limit = (LARGEST_EXACT - ONE * units) // grid.radius**2
    if total > limit:
        raise ExactnessError(
            f"the weights of the core rows would add up to {total / ONE:,.1f}, but weighted sums on a grid of "
            f"{grid.bits} bits are exact only up to {max(0, limit) / ONE:,.1f} with this capacity: give smaller "
            "weights, raise the threshold (fewer core rows) or lower grid_bits."
        )


@dataclass(eq=False)
class WeightedSums:
    """Sums in which a row counts as often as its weight has sixteenths; the regulariser counts sixteen times."""

    H: Float64s
    by_label: dict[Any, Float64s]

    def add(self, rows: Matrix, labels: Labels, weights: Any, c: Configuration, sign: int = 1) -> None:
        """Add grid rows, dense or sparse, or remove them with ``sign=-1``."""
        of_rows, grid = np.asarray(weights, dtype=np.int64), c.grid
        for weight in np.unique(of_rows).tolist():
            at, times = np.flatnonzero(of_rows == weight), float(sign * weight)
            add_rows(self.H, rows[at], times, grid)
            add_sums(self.by_label, c.head.sums_of(rows[at], [labels[i] for i in at.tolist()], grid), times)


class ExactSums:
    """The sums of the core rows of one model; ``H`` is ready for the selector."""

    def __init__(self, c: Configuration) -> None:
        self.c = c
        self.H = empty_gram(c.grid, c.units)
        self.by_label: dict[Any, Float64s] = {}
        self.weighted: WeightedSums | None = None

    @classmethod
    def of_rows(
        cls, c: Configuration, rows: Matrix, labels: Labels, row_weights: RowWeights | None, H: Float64s | None
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
            self.weighted = WeightedSums(self.H * ONE, {label: total * ONE for label, total in self.by_label.items()})
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

    def remove(self, rows: Matrix, labels: list[Any], weights: list[int], left: CoreRows) -> None:
        """Subtract rows that were removed; ``left`` are the core rows without them."""
        c = self.c
        add_rows(self.H, rows, -1.0, c.grid)  # Algorithm 1, line 14
        add_sums(self.by_label, c.head.sums_of(rows, labels, c.grid), -1.0)
        if self.weighted is not None:
            self.weighted.add(rows, labels, weights, c, -1)
        present = c.head.summed_labels(left.class_counts or left.place)  # rows with targets are not counted by label
        if emptied := set(c.head.summed_labels(labels)).difference(present):
            self._keep(self.by_label.keys() - emptied)
        if self.weighted is not None and not left.uneven:  # the plain sums are enough again
            _erase(self.weighted)
            self.weighted = None

    def _keep(self, labels: Collection[Any]) -> None:
        """Keep the sums by these labels alone, in their order."""
        for sums in (self, self.weighted):
            if sums is not None:
                sums.by_label = {label: sums.by_label[label] for label in sorted(labels)}

    def erase(self) -> None:
        """Overwrite everything."""
        _erase(self)
        if self.weighted is not None:
            _erase(self.weighted)

    # -- reading ---------------------------------------------------------------------------------------------------

    def stacked(self, labels: Labels) -> tuple[Stacked, Stacked | None]:
        """The plain and the weighted sums, those by label in the order of the classes or targets."""
        order, wide = self.c.head.sum_order(self.c, labels), self.weighted
        plain = self.H, stack_sums(order, self.by_label, self.c.grid)
        return plain, None if wide is None else (wide.H, stack_sums(order, wide.by_label, self.c.grid))

    def tensors(self, labels: Labels) -> Derived:
        """The sums as a state stores them: the Gram matrix without its regulariser, and the sums by label.

        Raises
        ------
        VerificationError
            When an entry is not an integer that float64 holds.
        """
        plain, weighted = self.stacked(labels)
        name = self.c.head.SUMS
        found: Derived = {}
        for prefix, sums, units in (("", plain, self.c.units), ("weighted_", weighted, ONE * self.c.units)):
            if sums is not None:
                H, by_label = sums
                words = prefix.replace("_", " ")
                _check_integers(f"the {words}A" if words else "A", np.tril(H))
                _check_integers(f"the {words}{name.replace('_', ' ')} b", by_label)
                triangle = packed(H)
                triangle[np.cumsum(np.arange(1, len(H) + 1)) - 1] -= units
                found[f"{prefix}gram"], found[f"{prefix}{name}"] = triangle, by_label.astype(np.int64)
        return found

    @classmethod
    def read(cls, c: Configuration, labels: Labels, tensors: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Inverse of :meth:`tensors`, for ``verify`` to judge."""
        sums, name = cls(c), c.head.SUMS
        sums.H = _with_regulariser(tensors["gram"], c.units, c.grid)
        sums.by_label = sums._by_label(labels, tensors[name])
        if "weighted_gram" in tensors:
            H = _with_regulariser(tensors["weighted_gram"], ONE * c.units, c.grid)
            sums.weighted = WeightedSums(H, sums._by_label(labels, tensors[f"weighted_{name}"]))
        return sums

    def _by_label(self, labels: Labels, sums: Int64s) -> dict[Any, Float64s]:
        """A class without rows has no sum; if a file has one all the same, it is kept for ``verify`` to see."""
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


def _with_regulariser(triangle: Int64s, units: int, grid: Grid) -> Float64s:
    H = unpacked(triangle, grid.n_columns)
    H.flat[:: len(H) + 1] += units
    return H


def _erase(sums: ExactSums | WeightedSums) -> None:
    for array in (sums.H, *sums.by_label.values()):
        array.fill(0.0)


class LinearHead(Head):
    """Weights of the columns of grid rows: float32, a pure function of the rows, the same on every machine."""

    SUMS: ClassVar[str] = "class_sums"  # the tensor of sums by label
    keeps_sums = True
    weighs_sums: ClassVar[bool] = False  # whether weighted sums are kept as well
    needs_rows: ClassVar[bool] = True  # whether the weights depend on more than the sums

    def check(self, c: Configuration) -> None:
        """Rows must be on a grid, and class weights of the fixed classes."""
        if not isinstance(c.selection, GridSelection):
            raise ConfigurationError(f"the head {self.NAME!r} needs rows on a grid.")
        check_class_weights(self.class_weight, c.classes)

    def guarantee(self, model: Model) -> Guarantee:
        """Exact system-aware unlearning, bitwise, and what the feature map assumes of the caller."""
        return linear_guarantee(model.feature_map, independent=model.selection.independent)

    # -- sums ------------------------------------------------------------------------------------------------------

    def check_room(self, c: Configuration, core: CoreRows, weights: list[int]) -> None:
        """Sums must stay exact, weighted ones too."""
        guard_exactness(len(core) + len(weights), c.grid, c.units)
        if self.weighs_sums and (core.uneven or weights.count(ONE) < len(weights)):
            guard_weights(sum(core.weights()) + sum(weights), c.grid, c.units)

    def sum_order(self, c: Configuration, labels: Collection[Any]) -> tuple[Any, ...]:
        """The labels that sums are kept by, in the order of a file: the classes."""
        return classes_of(c.classes, labels)

    def summed_labels(self, labels: Iterable[Any]) -> Collection[Any]:
        """The labels that core rows with these labels have sums by."""
        return dict.fromkeys(labels)

    def sums_of(self, rows: Matrix, labels: Labels, grid: Grid) -> dict[Any, Float64s]:
        """The sum of the rows of each class."""
        return sums_by_class(rows, labels, grid)

    # -- weights ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def solve(
        self, c: Configuration, rows: Matrix, labels: Labels, row_weights: RowWeights | None, sums: ExactSums
    ) -> Float32s:
        """The weights, shape (n_functions, n_columns); called only if there are classes or targets."""

    def n_functions(self, c: Configuration, labels: Any) -> int:
        """One function for one or two classes, one for each class otherwise."""
        k = len(self.sum_order(c, labels))
        return k if k > 2 else 1

    def derive(
        self, c: Configuration, rows: Matrix, labels: Labels, row_weights: RowWeights | None, sums: ExactSums | None
    ) -> Derived:
        """The weights."""
        assert sums is not None
        if not len(self.sum_order(c, labels)):
            return {"weights": np.zeros((1, c.grid.n_columns), dtype=np.float32)}
        return {"weights": self.solve(c, rows, labels, row_weights, sums)}

    def weights(self, model: Model) -> Float32s:
        """The weights of a model, solved for when they are first needed."""
        core = model.core

        def solved() -> Float32s:
            ahead: Float32s | None = model.cache.pop("ahead", None)
            if ahead is not None:
                return ahead
            rows, labels = (core.rows(), core.labels()) if self.needs_rows else (None, model.classes_with_rows())
            return self.derive(model.configuration, rows, labels, core.uneven_weights(), model.sums)["weights"]

        found: Float32s = model.cached("weights", solved)
        return found

    def derived_tensors(self, model: Model) -> Derived:
        """A copy of the weights."""
        return {"weights": self.weights(model).copy()}

    def specification(self, c: Configuration, labels: Collection[Any], n: int, *, weighted: bool) -> Specification:
        """The Gram matrix, the sums by label, both of them weighted if some row's weight is not one; weights."""
        d, k = c.grid.n_columns, len(self.sum_order(c, labels))
        name = self.SUMS.replace("_", " ")
        found = {"gram": Tensor("I64", (d * (d + 1) // 2,), "A"), self.SUMS: Tensor("I64", (k, d), f"the {name} b")}
        if weighted and self.weighs_sums:
            found["weighted_gram"] = found["gram"]._replace(words="the weighted A")
            found[f"weighted_{self.SUMS}"] = found[self.SUMS]._replace(words=f"the weighted {name} b")
        return found | {"weights": Tensor("F32", (self.n_functions(c, labels), d), "the weights w")}

    def nbytes(self, model: Model) -> int:
        """Bytes of sums and weights, and of the weights of rows if some is not one."""
        c, sums, n = model.configuration, model.sums, len(model.core)
        if sums is None:
            return 0
        seen, columns, copies = model.classes_with_rows(), c.grid.n_columns, 1 if sums.weighted is None else 2
        of_sums = copies * (sums.H.nbytes + len(self.sum_order(c, seen)) * columns * 8)
        return of_sums + self.n_functions(c, seen) * columns * 4 + (2 * n if model.core.uneven else 0)

    # -- predicting ------------------------------------------------------------------------------------------------

    def functions(self, model: Model) -> tuple[Float64s, Float64s]:
        """Coefficients for rows of norm one, shape (n_functions, n_features), and constants; copies for the caller."""
        token = model.version_token
        found: tuple[Float64s, Float64s] = model.cached("functions", lambda: self.published(model))
        copies = found[0].copy(), found[1].copy()
        return copies if model.version_token is token else self.functions(model)  # a change overwrote them meanwhile

    def published(self, model: Model) -> tuple[Float64s, Float64s]:
        """Coefficients and constants: the appended coordinate's share, less what class weights subtract."""
        grid, W = model.configuration.grid, self.weights(model)
        of_constant = W[:, -1].astype(np.float64) * math.ldexp(grid.constant, -grid.bits) if grid.intercept else 0.0
        # 24 and 15 bits: exact
        return W[:, : grid.n_features].astype(np.float64) * grid.stretch, of_constant - self.shifts(model, W)

    def shifts(self, model: Model, W: Float32s) -> Float64s:
        """What class weights subtract from each score; by default nothing."""
        return np.zeros(len(W))

    def scores(self, model: Model, X: Matrix) -> Float64s:
        """``w'x`` for each row."""
        grid, (W, offset) = model.configuration.grid, self.functions(model)
        scores = np.empty((X.shape[0], len(W)))
        for block in in_blocks(X, grid.n_columns):
            rows = on_host(X[block])
            rows = rows if model.feature_map is None else model.feature_map(rows)
            scores[block] = scale_rows(rows, grid) @ W.T + offset
        return scores

    def predictor(self, model: Model) -> Model:
        """A model with weights and without rows."""

        def without_rows() -> Model:
            twin, kept = copy(model), self.derived_tensors(model)
            if len(model.core):
                kept["functions"] = self.functions(model)  # type: ignore[assignment]
            twin.core, twin.sums, twin.cache = model.core.counted(), None, kept
            return twin

        return model.consistent_read(without_rows)


def linear_guarantee(feature_map: FeatureMap | None, *, independent: bool) -> Guarantee:
    """Exact unlearning, bitwise, and what the feature map assumes of the caller."""
    base = BITWISE_ON_ALL_ROWS if independent else BITWISE
    return replace(base, assumptions=base.assumptions + (() if feature_map is None else feature_map.assumptions))


def functions_of(model: Model) -> tuple[Float64s, Float64s]:
    """Coefficients and constants of a model with a linear head; copies for the caller."""
    found: tuple[Float64s, Float64s] = model.configuration.head.functions(model)
    return found
