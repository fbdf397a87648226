"""The linear heads: ridge solutions for classes and for targets, and logistic regression.

All weights are correctly rounded to float32, so they are the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.linalg import blas

from erasable.core.arrays import Float32s, Float64s, Int64s, Matrix
from erasable.core.grid import Grid
from erasable.core.logistic import guard_rows, logistic_weights, spread_exponents, weighted_squares
from erasable.core.sums import LARGEST_EXACT, solve_weights, targets
from erasable.core.target_grid import Range, centre_of, span_of, sums_by_target
from erasable.errors import ConfigurationError
from erasable.models.heads.linear import (
    ClassWeights,
    ExactSums,
    LinearHead,
    class_weights_of,
    described_class_weights,
    read_class_weights,
)
from erasable.models.heads.targets import Targets, read_ranges, refuse_classes
from erasable.models.inputs import ONE, Labels, RowWeights
from erasable.models.strategies import Specification, against_rest, class_codes, classes_of

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.core_rows import CoreRows
    from erasable.models.model import Model


class RidgeHead(LinearHead):
    """A solution of ``A w = b`` whose ``b`` follows from the sums by label."""

    takes_weights = True
    weighs_sums = True
    needs_rows = False

    def right_hand_side(self, c: Configuration, by_label: Float64s) -> tuple[Float64s, int]:
        """``b`` from the sums in their order, and the bits of its unit, as ``solve_weights`` takes them."""
        return targets(by_label), c.grid.bits

    def solve(
        self, c: Configuration, rows: Matrix, labels: Labels, row_weights: RowWeights | None, sums: ExactSums
    ) -> Float32s:
        """Weights from the sums, weighted if some row's weight is not one.

        *Source*: Algorithm 1, lines 7 and 14.
        """
        plain, weighted = sums.stacked(labels)
        (H, by_label), times = (plain, 1) if weighted is None else (weighted, ONE)
        return solve_weights(H, *self.right_hand_side(c, by_label), times * c.units)


@dataclass(frozen=True)
class Squared(RidgeHead):
    """The ridge solution for classes; class weights move the decision and nothing else."""

    class_weight: ClassWeights = None

    NAME = "squared"

    def shifts(self, model: Model, W: Float32s) -> Float64s:
        """What class weights subtract from each score.

        Notes
        -----
        *Definition*: the sums give, of the scores of the core rows, the mean ``m_k`` in each class and the variance
        ``v`` within classes, pooled. Give class k the mass ``q_k``, in proportion to its weight times the weight of its
        rows, and regress the label, +1 or -1, on the score: the line crosses zero at the shift. With equal masses of
        two classes that is halfway between their means; with the masses that the rows have, about zero. There is none
        if the positive class has no rows, no other class has any, or its mean is not above that of the others. It is
        computed in float64 and not stored.
        """
        if self.class_weight is None:
            return np.zeros(len(W))
        c, classes, totals = model.configuration, model.classes, model.core.class_totals
        assert model.sums is not None
        plain, weighted = model.sums.stacked(model.classes_with_rows())
        (H, by_class), units, one = (plain, c.units, ONE) if weighted is None else (weighted, ONE * c.units, 1)
        n = np.array([totals.get(label, 0) for label in classes]) / one
        masses = n * class_weights_of(self.class_weight, classes, totals)
        present = n > 0
        if np.count_nonzero(present) < 2:
            return np.zeros(len(W))
        V = W.astype(np.float64) * math.ldexp(1.0, -c.grid.bits)
        q = masses / masses.sum()
        means = np.divide(V @ by_class.T, n, out=np.zeros((len(W), len(n))), where=present)
        square = np.einsum("ij,ji->i", V, blas.dsymm(1.0, H, V.T, lower=1)) - units * np.einsum("ij,ij->i", V, V)
        within = np.maximum(0.0, square - means**2 @ n) / n.sum()
        found = np.zeros(len(W))
        for k, m in enumerate(means):
            positive = k if len(W) > 1 else len(classes) - 1
            share = q[positive]
            centre = float(q @ m)
            slope = 2.0 * share * (m[positive] - centre)  # the covariance of label and score
            if 0.0 < share < 1.0 and slope > 0.0:
                found[k] = centre - (2.0 * share - 1.0) * (within[k] + q @ (m - centre) ** 2) / slope
        return found

    def describe(self) -> dict[str, Any]:
        """See :class:`Head`."""
        return {"class_weight": described_class_weights(self.class_weight)}

    @classmethod
    def read(cls, meta: dict[str, Any]) -> Self:
        """What :meth:`describe` wrote."""
        return cls(read_class_weights(meta["class_weight"]))


@dataclass(frozen=True)
class Logistic(LinearHead):
    """One class against the rest; ``alpha_units`` is the regulariser in squared grid steps."""

    alpha_units: int
    class_weight: ClassWeights = None

    NAME = "logistic"
    SCALING: ClassVar[str] = "flat"  # of columns, as the regulariser sees them
    takes_weights = True

    def __post_init__(self) -> None:
        if not 1 <= self.alpha_units < LARGEST_EXACT // 2:
            raise ConfigurationError("alpha is outside what the grid can hold.")

    def check_room(self, c: Configuration, core: CoreRows, weights: list[int]) -> None:
        """There must be few enough rows for a certificate."""
        super().check_room(c, core, weights)
        guard_rows(len(core) + len(weights))

    def specification(self, c: Configuration, labels: Collection[Any], n: int, *, weighted: bool) -> Specification:
        """See :class:`LinearHead`."""
        found = super().specification(c, labels, n, weighted=weighted)
        return found | {"weights": found["weights"]._replace(words="the logistic weights w")}

    def solve(
        self,
        c: Configuration,
        rows: Matrix,
        labels: Labels,
        row_weights: RowWeights | None,
        sums: ExactSums,
        start: Float32s | None = None,
    ) -> Float32s:
        """Weights from the core rows; zero if there are no rows.

        A row counts as often as its weight times that of its class: a product that float64 holds exactly. ``H`` and
        ``start`` only lead the first steps.
        """
        classes = classes_of(c.classes, labels)
        codes = class_codes(classes, labels)
        sixteenths = np.full(len(labels), ONE, dtype=np.int64) if row_weights is None else row_weights.astype(np.int64)
        totals = {label: int(sixteenths[codes == k].sum()) for k, label in enumerate(classes)}
        counts = class_weights_of(self.class_weight, classes, totals)[codes] * (sixteenths / ONE)
        signs = np.where(against_rest(classes, codes), 1.0, -1.0)
        exponents = self.exponents(c, rows, row_weights, sums)
        return logistic_weights(rows, signs, counts, c.grid, self.alpha_units, start, sums.H, exponents)

    def exponents(
        self, c: Configuration, rows: Matrix, row_weights: RowWeights | None, sums: ExactSums
    ) -> Int64s | None:
        """The binary logarithm of the spread of each column; None if the regulariser is the same for all columns."""
        return None

    def derive_ahead(self, model: Model, before: dict[str, Any]) -> None:
        """Solve for the weights if they were read since the last change, starting from those.

        They stay unread in the cache: if more rows are removed first, nothing is solved for. The certificate makes
        them a function of the rows that are left, whatever the start.
        """
        c, core, sums, start = model.configuration, model.core, model.sums, before.get("weights")
        assert sums is not None
        if start is not None and len(core) and len(start) == self.n_functions(c, model.classes_with_rows()):
            given = core.rows(), core.labels(), core.uneven_weights()
            model.cached("ahead", lambda: self.solve(c, *given, sums, start))

    def probabilities(self, model: Model, scores: Float64s) -> Float64s:
        """The sigmoid of the scores; of several classes divided by their sum."""
        return super().probabilities(model, scores) if model.n_classes == 1 else sigmoids(scores)

    def shifts(self, model: Model, W: Float32s) -> Float64s:
        """Of two classes, the logarithm of how much more often rows of the second are kept."""
        tilts = model.selection.tilts_of(model.classes) if len(model.classes) == 2 else None
        return np.array([0.0 if tilts is None else math.log(tilts[1] / tilts[0])] * len(W))

    def untilted(self, scores: Float64s, tilts: Float64s) -> Float64s:
        """See :class:`Head`; of two classes :meth:`shifts` has corrected the score."""
        if scores.ndim == 1:
            return scores
        logs = _log_sigmoid(scores) + np.log(tilts.min() / tilts)
        found: Float64s = logs - np.log(-np.expm1(np.minimum(logs, -1e-300)))
        return found

    def describe(self) -> dict[str, Any]:
        """See :class:`Head`."""
        return {"alpha_units": str(self.alpha_units), "class_weight": described_class_weights(self.class_weight)}

    @classmethod
    def read(cls, meta: dict[str, Any]) -> Self:
        """What :meth:`describe` wrote."""
        return cls(int(meta["alpha_units"]), read_class_weights(meta["class_weight"]))


class SpreadLogistic(Logistic):
    """Logistic regression whose regulariser is in units of the spread of each column over the core rows.

    Notes
    -----
    *Definition*: column j is regularised by ``alpha * 4**(e_j - bits)``, ``4**e_j`` being the largest power of four not
    above the variance of its grid integers, and 1 if that is below 1. A row counts as often as its weight; weights of
    classes do not matter.
    """

    NAME = "logistic-spread"
    SCALING = "spread"

    def exponents(self, c: Configuration, rows: Matrix, row_weights: RowWeights | None, sums: ExactSums) -> Int64s:
        """See :class:`Logistic`.

        Nothing is stored for it: without weights of rows, ``A`` and the sums of the classes say it all.
        """
        if row_weights is None:
            squares = sums.H.diagonal() - c.units
            totals = sum(sums.by_label.values(), start=np.zeros(c.grid.n_columns))
            return spread_exponents([int(v) for v in squares], [int(v) for v in totals], rows.shape[0])
        times = row_weights.astype(np.int64)
        found = spread_exponents(*weighted_squares(rows, times), int(times.sum()))
        constant = c.grid.n_columns - rows.shape[1]  # of sparse rows, which leave it out
        return np.concatenate([found, np.zeros(constant, dtype=np.int64)])


def sigmoids(scores: Float64s) -> Float64s:
    """Probabilities of all classes: the sigmoid and its complement, or sigmoids divided by their sum."""
    if scores.ndim == 1:
        return np.exp(_log_sigmoid(np.column_stack([-scores, scores])))
    logs = _log_sigmoid(scores)
    P = np.exp(logs - logs.max(axis=1, keepdims=True))
    total: Float64s = P / P.sum(axis=1, keepdims=True)
    return total


def _log_sigmoid(scores: Float64s) -> Float64s:
    found: Float64s = np.minimum(scores, 0.0) - np.log1p(np.exp(-np.abs(scores)))
    return found


@dataclass(frozen=True)
class Regression(Targets, RidgeHead):
    """A number for each target; targets lie in ranges that the caller declared, and are stored on a grid of these."""

    target_ranges: tuple[Range, ...]

    NAME = "regression"
    SUMS = "target_sums"

    def check(self, c: Configuration) -> None:
        """There are no classes."""
        super().check(c)
        refuse_classes(c)

    # -- sums ------------------------------------------------------------------------------------------------------

    def sum_order(self, c: Configuration, labels: Collection[Any]) -> tuple[int, ...]:
        """The numbers of the targets."""
        return tuple(range(len(self.target_ranges)))

    def summed_labels(self, labels: Iterable[Any]) -> Collection[Any]:
        """All targets, if there are rows."""
        return range(len(self.target_ranges)) if any(True for _ in labels) else ()

    def sums_of(self, rows: Matrix, labels: Labels, grid: Grid) -> dict[Any, Float64s]:
        """For each target the sum of the rows times it."""
        return sums_by_target(rows, labels, grid)

    def right_hand_side(self, c: Configuration, by_label: Float64s) -> tuple[Float64s, int]:
        """``b`` is the sums: with targets ``t * 2**-bits`` the solution is ``H^-1`` times them."""
        return np.ascontiguousarray(by_label.T), 0

    def n_functions(self, c: Configuration, labels: Any) -> int:
        """One function for each target."""
        return len(self.target_ranges)

    def nbytes(self, model: Model) -> int:
        """Bytes of sums and weights, and of the targets."""
        targets = len(model.core) * len(self.target_ranges) * model.configuration.grid.dtype.itemsize
        return super().nbytes(model) + targets

    # -- predicting ------------------------------------------------------------------------------------------------

    def published(self, model: Model) -> tuple[Float64s, Float64s]:
        """Coefficients and constants in the units of the targets: each function begins at the centre of its range."""
        coefficients, constants = super().published(model)
        ranges, grid = self.target_ranges, model.configuration.grid
        spans, centres = np.array([span_of(r, grid) for r in ranges]), np.array([centre_of(r) for r in ranges])
        return coefficients * spans[:, None], constants * spans + centres

    def describe(self) -> dict[str, Any]:
        """See :class:`Head`."""
        return self.described_ranges()

    @classmethod
    def read(cls, meta: dict[str, Any]) -> Self:
        """What :meth:`describe` wrote."""
        return cls(read_ranges(meta))
