"""Algorithm 1's head: the ridge solution, a function of the exact sums, correctly rounded to float32."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.linalg import blas

from erasable.core.arrays import Float32s, Float64s
from erasable.core.names import Label
from erasable.core.sums import targets
from erasable.core.weights import solve_weights
from erasable.models.heads.linear import LinearHead
from erasable.models.weighting import (
    ONE,
    ClassWeights,
    RowWeights,
    check_class_weights,
    class_weights_of,
    described_class_weights,
    guard_weights,
    read_class_weights,
)

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.exact_sums import ExactSums, Stacked
    from erasable.models.rows import CoreRows


class RidgeHead(LinearHead):
    """A solution of ``A w = b`` whose ``b`` follows from the sums by label."""

    takes_weights = True
    weighs_sums = True
    needs_rows = False

    def check_chosen(self, c: Configuration, core: CoreRows, weights: list[int]) -> None:
        """Weighted sums must stay exact, too."""
        super().check_chosen(c, core, weights)
        if core.uneven or weights.count(ONE) < len(weights):
            guard_weights(sum(core.weights()) + sum(weights), c.grid, c.units)

    def right_hand_side(self, c: Configuration, by_label: Float64s) -> tuple[Float64s, int]:
        """``b`` from the sums in their order, and the bits of its unit, as ``solve_weights`` takes them."""
        return targets(by_label), c.grid.bits

    def solve(
        self, c: Configuration, rows: Any, labels: Sequence[Any], row_weights: RowWeights | None, sums: ExactSums
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

    def check(self, c: Configuration) -> None:
        """Class weights must be of the fixed classes."""
        super().check(c)
        check_class_weights(self.class_weight, c.classes)

    def shifts(
        self,
        c: Configuration,
        classes: Sequence[Label],
        totals: Mapping[Label, int],
        W: Float32s,
        sums: tuple[Stacked, Stacked | None],
    ) -> Float64s:
        """What class weights subtract from each score.

        Parameters
        ----------
        totals : mapping
            The weights of the core rows of each class, added up, in sixteenths.

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
        plain, weighted = sums
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
