"""Kernel ridge regression on the core points: ``(K + mu I)^-1 y``, correctly rounded to float32."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from erasable.core.arrays import Float32s, Float64s, Matrix
from erasable.core.kernel_selector import check_points, kernel_matrix, smallest_eigenvalue
from erasable.core.kernels import KERNEL_BITS
from erasable.core.sums import solve_weights
from erasable.errors import ConfigurationError
from erasable.models.inputs import Labels, RowWeights
from erasable.models.reports import BITWISE, BITWISE_ON_ALL_ROWS, Guarantee
from erasable.models.selections.kernel import KernelPoints
from erasable.models.strategies import (
    Derived,
    Head,
    Specification,
    Tensor,
    against_rest,
    class_codes,
    classes_of,
    in_blocks,
)

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.heads.linear import ExactSums
    from erasable.models.model import Model


@dataclass(frozen=True)
class KernelRidge(Head):
    """A weight for each core point, with the kernel and the regulariser of the selection."""

    NAME = "kernel"

    def check(self, c: Configuration) -> None:
        """The selection must have a kernel."""
        if not isinstance(c.selection, KernelPoints):
            raise ConfigurationError("kernel ridge regression needs points and a kernel.")

    def guarantee(self, model: Model) -> Guarantee:
        """Exact unlearning, bitwise."""
        selection = model.configuration.selection
        return kernel_guarantee(custom=selection.kernel.name == "custom", independent=selection.independent)

    # -- weights ---------------------------------------------------------------------------------------------------

    def derive(
        self, c: Configuration, rows: Matrix, labels: Labels, row_weights: RowWeights | None, sums: ExactSums | None
    ) -> Derived:
        """The weights."""
        return {"weights": self._solve(c, self._matrix(c, rows), labels)}

    def _matrix(self, c: Configuration, rows: Matrix) -> Float64s:
        s = c.selection
        return kernel_matrix(rows, s.kernel, s.points, s.units)

    def _solve(self, c: Configuration, H: Float64s, labels: Labels) -> Float32s:
        """One row for one or two classes, one per class otherwise.

        *Law*: a pure function of the integers in H and of the labels. *Source*: Algorithm 2, line 3, penalised form.
        """
        classes = classes_of(c.classes, labels)
        k = len(classes) if len(classes) > 2 else 1
        if not len(labels):
            return np.zeros((k, 0), dtype=np.float32)
        B = np.where(against_rest(classes, class_codes(classes, labels)).T, 1.0, -1.0)
        check_points(len(labels), c.units)
        return solve_weights(H, B, KERNEL_BITS, smallest_eigenvalue(c.units))

    def weights(self, model: Model) -> Float32s:
        """The weights of the core points, solved for when they are first needed."""
        c = model.configuration

        def solved() -> Float32s:
            H = model.cached("matrix", lambda: self._matrix(c, model.core.rows()))
            return self._solve(c, H, model.core.labels())

        return model.cached("weights", solved)

    def derived_tensors(self, model: Model) -> Derived:
        """A copy of the weights."""
        return {"weights": self.weights(model).copy()}

    def specification(self, c: Configuration, labels: Collection[Any], n: int, *, weighted: bool) -> Specification:
        """A weight for each point."""
        k = len(classes_of(c.classes, labels))
        return {"weights": Tensor("F32", (k if k > 2 else 1, n), "the weights")}

    def counts(self, n: int, derived: Derived) -> tuple[int, int]:
        """Entries of the kernel matrix; weights."""
        return n**2, derived["weights"].size

    def reusable_cache(self, model: Model, leaving: list[Any]) -> dict[str, Any]:
        """The kernel matrix without the rows that leave."""
        H = model.cache.get("matrix")
        if H is None:
            return {}
        gone = set(leaving)
        return {"matrix": _without(H, [i for i, key in enumerate(model.core.ids()) if key in gone])}

    def nbytes(self, model: Model) -> int:
        """Bytes of kernel matrix and weights."""
        n, k = len(model.core), model.n_classes
        return 8 * n**2 + 4 * (k if k > 2 else 1) * n

    # -- predicting ------------------------------------------------------------------------------------------------

    def scores(self, model: Model, X: Matrix) -> Float64s:
        """``f(x)`` for each row."""
        s = model.configuration.selection
        rows, W = model.consistent_read(lambda: (model.core.rows(), self.weights(model).astype(np.float64)))
        scores = np.empty((X.shape[0], len(W)))
        for block in in_blocks(X, len(rows)):
            K = s.kernel.approximate(rows, s.points.of_rows(X[block]), s.points)
            scores[block] = np.ldexp(K.T @ W.T, -KERNEL_BITS)
        return scores

    def describe(self) -> dict[str, Any]:
        """There are no parameters but those of the selection."""
        return {}

    @classmethod
    def read(cls, meta: dict[str, Any]) -> Self:
        """What :meth:`describe` wrote."""
        return cls()


def kernel_guarantee(*, custom: bool, independent: bool) -> Guarantee:
    """Exact unlearning, bitwise; a caller's kernel function has to be a function."""
    base = BITWISE_ON_ALL_ROWS if independent else BITWISE
    assumptions = ("the kernel function returns the same value for a pair of rows in every call",)
    return replace(base, assumptions=base.assumptions + (assumptions if custom else ()))


def _without(H: Float64s, leaving: list[int]) -> Float64s:
    """The matrix without these rows and columns, ascending, copied in whole blocks."""
    cuts = [-1, *leaving, len(H)]
    runs = [(a + 1, b) for a, b in itertools.pairwise(cuts) if b > a + 1]
    if len(runs) > 32:
        kept = np.concatenate([np.arange(a, b) for a, b in runs])
        return np.asfortranarray(H[np.ix_(kept, kept)])
    left = np.empty((len(H) - len(leaving),) * 2, order="F")
    column = 0
    for a, b in runs:
        row = 0
        for c, d in runs:
            left[row : row + d - c, column : column + b - a] = H[c:d, a:b]
            row += d - c
        column += b - a
    return left
