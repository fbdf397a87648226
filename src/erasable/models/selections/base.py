"""What every selection offers: which rows a model keeps, and how it stores them.

A selection is a frozen record of public parameters. It holds nothing that was learnt from rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.layout import Tensors
from erasable.core.selector import Decisions, Progress

if TYPE_CHECKING:
    from erasable.features import FeatureMap
    from erasable.models.configuration import Configuration
    from erasable.models.exact_sums import ExactSums
    from erasable.models.rows import CoreRows

Screen = Callable[[Any], npt.NDArray[np.bool_]]
Positions = npt.NDArray[np.intp]


class SelectionResult(NamedTuple):
    """The rows that learning would keep.

    ``positions`` are places among the rows offered, ascending; ``batches`` the stored form of these rows, split anyhow.
    ``H`` is the Gram matrix of the core rows with these, if the selection has made it.
    """

    positions: Positions
    batches: list[Any]
    decisions: Decisions
    H: Float64s | None = None


class Selection(ABC):
    """Which rows are kept, and how a kept row is stored."""

    NAME: ClassVar[str]  # in files of format version 2
    MEASURE: ClassVar[str] = "disagreement"  # the quantity that is compared with the threshold
    grid: Any  # a Grid for rows that may be stored sparse, otherwise None

    @property
    def one_by_one(self) -> bool:
        """Whether rows are decided one after the other, so that their order matters."""
        return True

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Columns of the rows that are selected from."""

    @abstractmethod
    def check(self, c: Configuration) -> None:
        """Raise ConfigurationError if this selection does not go with the rest of the configuration."""

    # -- learning --------------------------------------------------------------------------------------------------

    @abstractmethod
    def empty(self) -> npt.NDArray[Any]:
        """An array of no rows, of the type and width in which rows are stored."""

    @abstractmethod
    def prepared(self, X: Any, feature_map: FeatureMap | None, core: CoreRows) -> Any:
        """Rows in the form that :meth:`select` reads; raises InputError for rows that cannot be learnt."""

    def in_order(self, rows: Any, order: Positions) -> Any:
        """Prepared rows in another order."""
        return rows[order]

    def always_kept(self, ids: Any) -> npt.NDArray[np.bool_] | None:
        """Which ids are kept whatever the other rows are; None for a selection without such a rule."""
        return None

    def screen(self, core: CoreRows, sums: ExactSums | None) -> Screen | None:
        """A test of prepared rows, block by block; None if there is none. It can be pickled.

        *Law*: a row that fails it is not selected after these core rows, nor after any core rows that include them.
        """
        return None

    @abstractmethod
    def select(
        self,
        rows: Any,
        core: CoreRows,
        sums: ExactSums | None,
        labels: npt.NDArray[Any],
        ids: Any,
        progress: Progress | None,
        **sizes: int | None,
    ) -> SelectionResult:
        """The prepared rows to keep after those in ``core``. Changes nothing."""

    # -- verifying and files -----------------------------------------------------------------------------------------

    @abstractmethod
    def select_again(
        self, rows: Any, labels: Sequence[Any], ids: Sequence[Any], progress: Progress | None
    ) -> tuple[Positions, Float64s | None]:
        """Positions that are selected when stored rows are learnt from nothing, and their Gram matrix if it was made.

        *Law*: for the rows of any state that learning and forgetting can reach, these are all positions.
        """

    @abstractmethod
    def check_stored(self, rows: Any) -> None:
        """Raise VerificationError for rows that no learning can have stored."""

    def instability_note(self) -> str:
        """A sentence for a selection that is not stable, otherwise empty."""
        return ""

    @abstractmethod
    def row_tensors(self, rows: Any) -> Tensors:
        """Stored rows as tensors of a file."""

    @abstractmethod
    def read_rows(self, tensors: dict[str, npt.NDArray[Any]]) -> Any:
        """Inverse of :meth:`row_tensors`. Raises StateFormatError if the tensors do not fit."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The parameters as values that JSON can hold; floats in hexadecimal, so that nothing is rounded."""
