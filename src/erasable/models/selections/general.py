"""Algorithm 2's selection over any function class: the single pass, or the paper's staged sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from erasable.classes import FunctionClass
from erasable.core.arrays import Float64s, Matrix
from erasable.core.layout import Tensors
from erasable.core.selector import Decisions, Progress
from erasable.coresets import SinglePass, Staged
from erasable.errors import ConfigurationError, StateFormatError, VerificationError
from erasable.features import FeatureMap
from erasable.models.inputs import Labels, Names, pick
from erasable.models.strategies import Positions, Selection, SelectionResult, dense

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.core_rows import CoreRows
    from erasable.models.heads.linear import ExactSums

_STORED = {"float64": ("I64", np.int64), "int32": ("I32", np.int32), "int16": ("I16", np.int16)}


@dataclass(frozen=True)
class FunctionClassSelection(Selection):
    """Rows as a function class encodes them, kept while two of its functions could still disagree about them.

    The function class is code: a file describes it and cannot hold it.
    """

    function_class: FunctionClass
    sampler: SinglePass | Staged
    columns: int

    NAME = "general"

    def check(self, c: Configuration) -> None:
        """There are neither feature maps nor names of columns."""
        if c.feature_map is not None or c.feature_names is not None:
            raise ConfigurationError("a model over a function class has no feature map and no names of columns.")

    @property
    def one_by_one(self) -> bool:
        """True for the single pass; the staged sampler looks at all rows at once."""
        return isinstance(self.sampler, SinglePass)

    @property
    def threshold(self) -> float | None:
        """The threshold on D²; None for the staged sampler, which has one for each stage."""
        return self.sampler.threshold if isinstance(self.sampler, SinglePass) else None

    @property
    def grid(self) -> None:
        """There is none: stored rows are always dense."""

    @property
    def n_features(self) -> int:
        """Columns of the rows."""
        return self.columns

    # -- learning --------------------------------------------------------------------------------------------------

    def empty(self) -> npt.NDArray[Any]:
        """No encoded rows."""
        return self.function_class.empty(self.columns)

    def prepared(self, X: Matrix, feature_map: FeatureMap | None, core: CoreRows) -> Matrix:
        """The rows as they are: they are encoded a block at a time."""
        if len(core) and not self.one_by_one:
            raise ConfigurationError(
                "the staged sampler looks at all rows at once, so it cannot learn more rows: call fit with all of them."
            )
        return X

    def select(
        self,
        rows: Matrix,
        core: CoreRows,
        sums: ExactSums | None,
        labels: npt.NDArray[Any],
        ids: Names,
        progress: Progress | None,
        **sizes: int | None,
    ) -> SelectionResult:
        """Algorithm 2, line 7. The decisions are not counted: all are zero."""
        if isinstance(self.sampler, SinglePass):
            measure = self.function_class.start(self.columns)
            measure.add(core.rows())
            index, chosen = self.sampler.gather(rows, measure, progress)
        else:
            encoded = self.function_class.encode(dense(rows))
            index = self._positions(encoded, pick(labels, np.arange(len(labels))))
            chosen = encoded[index]
            if progress is not None:
                progress(len(encoded), len(encoded))
        return SelectionResult(index, [chosen] if len(index) else [], Decisions())

    def _positions(self, rows: npt.NDArray[Any], labels: Any) -> Positions:
        """Positions that the sampler selects among encoded rows, learnt from nothing; ascending."""
        if isinstance(self.sampler, SinglePass):
            return self.sampler.pick(rows, self.function_class.start(self.columns))
        return np.sort(self.sampler.run(rows, labels, self.columns).positions)

    # -- verifying and files -----------------------------------------------------------------------------------------

    def select_again(
        self, rows: Matrix, labels: Labels, ids: Sequence[Any], progress: Progress | None
    ) -> tuple[Positions, Float64s | None]:
        """The sampler over encoded rows."""
        index = self._positions(rows, labels)
        if progress is not None:
            progress(len(ids), len(ids))
        return index, None

    def check_stored(self, rows: Matrix) -> None:
        """Rows must be encoded rows of the function class."""
        unfit = np.flatnonzero(~self.function_class.holds(rows))
        if len(unfit):
            raise VerificationError(f"core row {int(unfit[0]) + 1} of {len(rows)} is no row of this function class.")

    def instability_note(self) -> str:
        """Why a sampler that is not stable may drop rows."""
        if self.sampler.stable:
            return ""
        if isinstance(self.sampler, Staged):
            why = "which rows the staged sampler selects depends on all others, so it is not stable under forgetting"
        else:
            why = "this function class decides by rounded numbers, so another run may decide otherwise"
        return f" That is to be expected: {why}."

    def row_tensors(self, rows: Matrix) -> Tensors:
        """The rows, floats as the integers that have the same bits."""
        name, integers = _STORED[rows.dtype.name]
        return {"rows": (name, np.ascontiguousarray(rows).view(integers))}

    def read_rows(self, tensors: dict[str, npt.NDArray[Any]]) -> Matrix:
        """The encoded rows."""
        rows, like = tensors["rows"], self.empty()
        if rows.shape != (len(rows), like.shape[1]):
            raise StateFormatError("its parts do not fit together, or not this function class.")
        return rows.view(like.dtype)

    def describe(self) -> dict[str, Any]:
        """See :class:`Selection`; the names are those of format version 1."""
        return {"sampler": self.sampler.describe(), "n_features": self.columns}
