"""The two strategies of a model: a selection says which rows are kept, a head what is computed from them.

Both are frozen records of public parameters and hold nothing that was learnt from rows. What a head computes is a
function of the core rows: it is computed when it is first needed, cached in the model, and dropped with every change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float32s, Float64s, Matrix
from erasable.core.grid import Grid
from erasable.core.layout import Tensors
from erasable.core.names import Label
from erasable.core.selector import Decisions, Progress
from erasable.models.inputs import Labels, Names, RowWeights, array_of
from erasable.models.reports import Guarantee, TrainedLearner

if TYPE_CHECKING:
    from erasable.features import FeatureMap
    from erasable.models.configuration import Configuration
    from erasable.models.core_rows import CoreRows
    from erasable.models.heads.linear import ClassWeights, ExactSums
    from erasable.models.model import Model
    from erasable.models.state import State

Screen = Callable[[Any], npt.NDArray[np.bool_]]
Positions = npt.NDArray[np.intp]
Derived = dict[str, npt.NDArray[Any]]  # by the names of tensors

_BLOCK = 2**20  # numbers handled at once


class SelectionResult(NamedTuple):
    """The rows that learning would keep.

    ``positions`` are places among the rows offered, in the order in which they are stored; ``batches`` the stored form
    of these rows, split anyhow. ``H`` is the Gram matrix of the core rows with these, if the selection has made it.
    """

    positions: Positions
    batches: list[Any]
    decisions: Decisions
    H: Float64s | None = None


class Selection(ABC):
    """Which rows are kept, and how a kept row is stored."""

    NAME: ClassVar[str]  # in files of format version 2
    MEASURE: ClassVar[str] = "disagreement"  # the quantity that is compared with the threshold
    independent: ClassVar[bool] = False  # whether a row is kept or not by itself; core rows then lie in hash order
    grid: Any  # a Grid for rows that are selected on one, otherwise None

    @property
    def storage_grid(self) -> Any:
        """The Grid of stored rows, which may then be sparse; None for dense rows of any other numbers."""
        return self.grid

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
    def prepared(self, X: Matrix, feature_map: FeatureMap | None, core: CoreRows) -> Matrix:
        """Rows in the form that :meth:`select` reads; raises InputError for rows that cannot be learnt."""

    def in_order(self, rows: Matrix, order: Positions) -> Matrix:
        """Prepared rows in another order."""
        return rows[order]

    def always_kept(self, ids: Names) -> npt.NDArray[np.bool_] | None:
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
        rows: Matrix,
        core: CoreRows,
        sums: ExactSums | None,
        labels: npt.NDArray[Any],
        ids: Names,
        progress: Progress | None,
        **sizes: int | None,
    ) -> SelectionResult:
        """The prepared rows to keep after those in ``core``. Changes nothing."""

    def tilts_of(self, classes: Sequence[Label]) -> Float64s | None:
        """How much more often rows of each class are kept, by public constants; None if labels do not count."""
        return None

    def rate_facts(self) -> dict[str, Any]:
        """What a ``LearnReport`` says of the share of rows to be stored; nothing if no share was chosen."""
        return {}

    # -- verifying and files ---------------------------------------------------------------------------------------

    @abstractmethod
    def select_again(
        self, rows: Matrix, labels: Labels, ids: Sequence[Any], progress: Progress | None
    ) -> tuple[Positions, Float64s | None]:
        """Positions that are selected when stored rows are learnt from nothing, and their Gram matrix if it was made.

        *Law*: for the rows of any state that learning and forgetting can reach, these are all positions.
        """

    def confirmed(
        self, rows: Matrix, ids: Sequence[Any], derived: Derived, progress: Progress | None
    ) -> Float64s | None:
        """``H`` of stored rows if all are certainly selected again; None if only :meth:`select_again` can tell.

        ``derived`` is what a state claims to follow from the rows: it saves time and is not trusted.
        """
        return None

    @abstractmethod
    def check_stored(self, rows: Matrix) -> None:
        """Raise VerificationError for rows that no learning can have stored."""

    def instability_note(self) -> str:
        """A sentence for a selection that is not stable, otherwise empty."""
        return ""

    def public_tensors(self) -> Tensors:
        """Public parameters that are too large for the header of a file; by default none."""
        return {}

    def with_tensors(self, tensors: dict[str, npt.NDArray[Any]]) -> Self:
        """The same selection with the public parameters that :meth:`public_tensors` wrote."""
        return self

    @abstractmethod
    def row_tensors(self, rows: Matrix) -> Tensors:
        """Stored rows as tensors of a file."""

    @abstractmethod
    def read_rows(self, tensors: dict[str, npt.NDArray[Any]]) -> Matrix:
        """Inverse of :meth:`row_tensors`. Raises StateFormatError if the tensors do not fit."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The parameters as values that JSON can hold; floats in hexadecimal, so that nothing is rounded."""


class Tensor(NamedTuple):
    """A tensor of a file: its type, its shape, and how an error message names it."""

    dtype: str
    shape: tuple[int, ...]
    words: str


Specification = dict[str, Tensor]


class Head(ABC):
    """What is computed from the core rows, how it predicts, and what it promises."""

    NAME: ClassVar[str]  # in files of format version 2
    classifies: ClassVar[bool] = True  # whether labels are classes; otherwise they are targets, which are numbers
    takes_weights: ClassVar[bool] = False  # whether rows may have weights
    keeps_sums: ClassVar[bool] = False  # whether exact sums of the rows are kept: then it is a LinearHead
    any_selection: ClassVar[bool] = False  # whether any selection of rows on a grid goes with it
    trains_at_once: ClassVar[bool] = False  # whether it is fitted by ``learn`` and ``forget``, and not on first use
    class_weight: ClassWeights = None

    @abstractmethod
    def check(self, c: Configuration) -> None:
        """Raise ConfigurationError if this head does not go with the rest of the configuration."""

    @abstractmethod
    def guarantee(self, model: Model) -> Guarantee:
        """What holds after forgetting."""

    # -- labels ----------------------------------------------------------------------------------------------------

    def encode_targets(self, y: npt.NDArray[Any], grid: Grid) -> npt.NDArray[Any]:
        """Targets as they are stored; raises InputError if this model cannot hold them."""
        raise NotImplementedError(f"the head {self.NAME!r} has no targets")

    def check_encoded_labels(self, c: Configuration, labels: Labels) -> None:  # noqa: B027
        """Raise VerificationError for labels that no learning can have stored."""

    def check_room(self, c: Configuration, core: CoreRows, weights: list[int]) -> None:  # noqa: B027
        """Raise ExactnessError if rows with these weights, in sixteenths, cannot be added to the core rows."""

    # -- derived tensors -------------------------------------------------------------------------------------------

    @abstractmethod
    def derive(
        self, c: Configuration, rows: Matrix, labels: Labels, row_weights: RowWeights | None, sums: ExactSums | None
    ) -> Derived:
        """The tensors that a state stores in addition to the rows and their sums.

        *Law*: a pure function of the configuration and of the rows with labels and weights.
        """

    def weights(self, model: Model) -> Float32s:
        """The weights of a model, solved for when they are first needed."""
        raise NotImplementedError(f"the head {self.NAME!r} has no weights")

    def derived_tensors(self, model: Model) -> Derived:
        """The tensors of :meth:`derive` for a model, from its cache if they were computed before; copies."""
        return {}

    def cache_from(self, state: State) -> dict[str, Any]:
        """The cache of a model that is read from a state; weights are taken over, for ``verify`` to judge."""
        return {"weights": state.derived["weights"].copy()} if "weights" in state.derived else {}

    @abstractmethod
    def specification(self, c: Configuration, labels: Collection[Any], n: int, *, weighted: bool) -> Specification:
        """The sums and the derived tensors of a file with n rows, in the order in which they are written.

        ``labels`` are the classes; ``weighted`` says whether there are weighted sums. No name begins with ``rows``,
        ``ids`` or ``subjects``.
        """

    def counts(self, n: int, derived: Derived) -> tuple[int, int]:
        """How many sums and how many weights a verification of n rows recomputes."""
        weights = derived["weights"].size if "weights" in derived else 0
        return sum(array.size for array in derived.values()) - weights, weights

    def train(self, c: Configuration, rows: list[Any], labels: list[Any], ids: list[Any]) -> tuple[list[int], Any]:
        """Train on rows that were selected, before anything is changed: the positions that are kept, and the cache."""
        raise NotImplementedError(f"the head {self.NAME!r} is computed when it is needed")

    def forget(self, model: Model, leaving: list[Any]) -> int:
        """Remove core rows and train again; the number of rows trained on again."""
        raise NotImplementedError(f"the head {self.NAME!r} is computed when it is needed")

    def check_verifiable(self) -> None:  # noqa: B027
        """Raise VerificationError if nothing is promised of the state."""

    def verify(self, model: Model) -> TrainedLearner | None:
        """Compare what no state holds, such as a fitted learner, with what the core rows give; return what it is."""
        return None

    def classes(self, model: Model) -> tuple[Label, ...]:
        """The classes that can be predicted: those the caller fixed, or those of the core rows."""
        return classes_of(model.configuration.classes, list(model.core.class_counts))

    def n_classes(self, model: Model) -> int:
        """How many classes there are."""
        fixed = model.configuration.classes
        return len(model.core.class_counts if fixed is None else fixed)

    def reusable_cache(self, model: Model, leaving: list[Any]) -> dict[str, Any]:
        """Parts of the cache that stay valid without the rows of these ids, copied; by default none."""
        return {}

    def derive_ahead(self, model: Model, before: dict[str, Any]) -> None:  # noqa: B027
        """Derive now what will be needed after rows were removed; ``before`` is the cache with them.

        It is overwritten when this returns, and nothing may be kept that depends on it. By default nothing is derived.
        """

    def nbytes(self, model: Model) -> int:
        """Bytes of numbers that are held in addition to the rows."""
        return 0

    # -- predicting ------------------------------------------------------------------------------------------------

    @abstractmethod
    def scores(self, model: Model, X: Matrix) -> Float64s:
        """Scores of finite rows: shape (n, 1) for one or two classes, (n, n_classes) otherwise."""

    def predict(self, model: Model, X: Matrix) -> npt.NDArray[Any]:
        """The class of each row, or its targets."""
        return self.predictions(model, model.decision(X))  # Algorithm 1, line 20; Algorithm 2, line 10

    def predict_proba(self, model: Model, X: Matrix) -> Float64s:
        """The probability of each class."""
        return self.probabilities(model, model.decision(X))

    def predictions(self, model: Model, scores: Float64s) -> npt.NDArray[Any]:
        """The classes that scores stand for: the sign of the score, or the class with the largest one."""
        classes = array_of(model.classes)
        several = scores.ndim > 1
        winner = np.argmax(scores, axis=1) if several else (scores > 0).astype(np.intp) * (len(classes) > 1)
        found: npt.NDArray[Any] = classes[winner]
        return found

    def probabilities(self, model: Model, scores: Float64s) -> Float64s:
        """The probabilities of the classes that scores stand for."""
        shares = self.shares(scores)
        if scores.ndim > 1:
            return nearest_probabilities(shares)
        if model.n_classes == 1:
            return np.ones((len(scores), 1))
        positive = np.clip(shares, 0.0, 1.0)
        return np.column_stack([1.0 - positive, positive])

    def shares(self, scores: Float64s) -> Float64s:
        """The probability that a score stands for: ``E[y | x] = u'x`` with labels in -1, +1."""
        return (1.0 + scores) / 2.0

    def untilted(self, scores: Float64s, tilts: Float64s) -> Float64s:
        """Scores of the classes as they are, from scores learnt where rows of some classes were kept more often.

        *Law*: the probabilities that the result stands for are those of ``scores``, divided by the tilts and by their
        sum. Scores of two classes beyond -1 and 1 stay, so that their order does.
        """
        if scores.ndim > 1:
            P = nearest_probabilities(self.shares(scores)) / tilts
            several: Float64s = 2.0 * P / P.sum(axis=1, keepdims=True) - 1.0
            return several
        positive, negative = (1.0 + scores) / tilts[1], (1.0 - scores) / tilts[0]
        inside = np.abs(scores) < 1.0
        return np.where(inside, (positive - negative) / np.where(inside, positive + negative, 1.0), scores)

    def predictor(self, model: Model) -> Model:
        """A model that predicts as this one does now and is used for nothing else."""
        return deepcopy(model)

    # -- files -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The parameters as values that JSON can hold; floats in hexadecimal, so that nothing is rounded."""

    def label_tensors(self, c: Configuration, labels: Labels) -> Tensors:
        """The labels as tensors of a file: the numbers of the classes."""
        return {"labels": ("I32", class_codes(classes_of(c.classes, labels), labels).astype(np.int32))}


def classes_of(fixed: tuple[Label, ...] | None, labels: Collection[Label]) -> tuple[Label, ...]:
    """Fixed classes, or the sorted distinct labels."""
    return fixed if fixed is not None else tuple(sorted(set(labels)))


def class_codes(classes: Sequence[Label], labels: Sequence[Label]) -> Positions:
    """The position of each label among the classes."""
    places = {label: k for k, label in enumerate(classes)}
    return np.fromiter((places[label] for label in labels), dtype=np.intp, count=len(labels))


def against_rest(classes: Sequence[Label], codes: Positions) -> npt.NDArray[np.bool_]:
    """Which rows are of the positive class, for each function: one for up to two classes, one for each otherwise."""
    positive = np.arange(len(classes)) if len(classes) > 2 else np.array([len(classes) - 1])
    found: npt.NDArray[np.bool_] = codes == positive[:, None]
    return found


def nearest_probabilities(P: Float64s) -> Float64s:
    """Euclidean projection of each row onto the probability simplex."""
    ordered = -np.sort(-P, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, P.shape[1] + 1)
    last = np.count_nonzero(ordered > excess, axis=1) - 1
    projected: Float64s = np.maximum(P - excess[np.arange(len(P)), last][:, None], 0.0)
    projected /= projected.sum(axis=1, keepdims=True)
    return projected


def in_blocks(X: Matrix, width: int) -> Iterator[slice]:
    """Slices of rows, so many at a time that a block has about a million numbers of this width."""
    step = max(1, _BLOCK // max(1, width))
    return (slice(low, low + step) for low in range(0, X.shape[0], step))


def dense(X: Matrix) -> npt.NDArray[Any]:
    """Rows as a dense array."""
    return X if isinstance(X, np.ndarray) else X.toarray()


def n_bytes(X: Matrix) -> int:
    """Bytes of a dense array or of the three arrays of a CSR one."""
    return int(X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
