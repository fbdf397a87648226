"""Any learner on the core rows that a map selects: algorithm A_CS of Theorem 3.1 as a selection and a head.

The state is the core rows with their names, and a description of map and learner. The fitted learner is a function of
these, and is trained again when a file is read; bytes cannot hold it, and hold no code.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone

from erasable.core.arrays import Float64s
from erasable.core.layout import SparseColumns, Tensors
from erasable.core.names import Label
from erasable.core.selector import Decisions, Progress
from erasable.coresets import CoreSetMap, core_positions
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    ErasableError,
    NoRowsError,
    StateFormatError,
    VerificationError,
)
from erasable.estimators.learners import (
    Constant,
    SelectedRows,
    agreed,
    described,
    forgets,
    same_learner,
    train_on,
)
from erasable.features import FeatureMap
from erasable.models.configuration import Configuration
from erasable.models.core_rows import CoreRows, overwrite
from erasable.models.inputs import RowWeights, array_of
from erasable.models.model import Model
from erasable.models.reports import SAME_BITS_AGAIN, Guarantee, on_core_rows
from erasable.models.strategies import Derived, Head, Positions, Selection, SelectionResult, Specification

if TYPE_CHECKING:
    from erasable.models.heads.linear import ExactSums
    from erasable.models.state import State


@dataclass(frozen=True, eq=False)
class CoreSetSelection(Selection):
    """Rows that a core-set map selects, stored as the numbers that they are: dense, or sparse if they are given so."""

    core_set: CoreSetMap
    one_shot: bool = False
    columns: int = 0
    sparse: bool = False

    NAME = "core-set"

    def __post_init__(self) -> None:
        if self.sparse and self.columns >= 2**31:
            raise ConfigurationError("sparse rows of a core set may have fewer than 2**31 columns: hash them to fewer.")

    @property
    def grid(self) -> Any:
        """Sparse rows are held as the rows of a grid are."""
        return SparseColumns(self.columns) if self.sparse else None

    @property
    def one_by_one(self) -> bool:
        """All rows are selected from at once."""
        return False

    @property
    def n_features(self) -> int:
        """Columns of the rows."""
        return self.columns

    def check(self, c: Configuration) -> None:
        """A core-set map selects from numbers and knows no names."""
        if c.feature_map is not None or c.feature_names is not None or c.order_key is not None:
            raise ConfigurationError("a core-set map has no feature map, names of columns or order of rows.")

    def empty(self) -> npt.NDArray[Any]:
        """No rows of numbers."""
        return np.empty((0, self.columns))

    def prepared(self, X: Any, feature_map: FeatureMap | None, core: CoreRows) -> Any:
        """The rows as they are."""
        if len(core) or X.shape[1] != self.columns:
            raise ConfigurationError("a model of this kind learns all its rows at once: fit it, and save it.")
        return X

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
        """What the map selects."""
        keys = ids.tolist() if isinstance(ids, np.ndarray) else ids
        index = core_positions(self.core_set, rows, labels, keys)
        return SelectionResult(index, [SelectedRows.chosen(rows, labels, keys, index).rows], Decisions())

    def select_again(
        self, rows: Any, labels: Sequence[Any], ids: Sequence[Any], progress: Progress | None
    ) -> tuple[Positions, Float64s | None]:
        """Select from the stored rows: all of them, in the same order, or it is refused."""
        n = len(ids)
        try:
            index = np.asarray(self.core_set.select(rows, array_of(labels), ids) if n else np.empty(0), dtype=np.intp)
        except ErasableError as error:
            raise VerificationError(f"the core-set map refuses the stored rows: {error}") from error
        if index.tolist() != list(range(n)):
            raise VerificationError(
                f"the core-set map selects {len(index)} of the {n} stored rows again, or in another order: "
                "they are not a core set that it gives."
            )
        if progress is not None:
            progress(n, n)
        return index, None

    def check_stored(self, rows: Any) -> None:
        """Any finite rows may have been stored."""

    def row_tensors(self, rows: Any) -> Tensors:
        """64-bit integers with the bits of the numbers, and where they stand."""
        return SelectedRows(rows, [], []).tensors()

    def read_rows(self, tensors: dict[str, npt.NDArray[Any]]) -> Any:
        """The numbers, finite; sparse ones in canonical form."""
        rows = _sparse_rows(tensors, self.columns) if self.sparse else tensors["rows"].view(np.float64).copy()
        if rows.shape != (rows.shape[0], self.columns):
            raise StateFormatError("its parts do not fit together.")
        if not np.isfinite(rows if isinstance(rows, np.ndarray) else rows.data).all():
            raise StateFormatError("its rows hold NaN or infinity.")
        return rows

    def describe(self) -> dict[str, Any]:
        """See :class:`Selection`; the names are those of format version 1."""
        layout = "csr" if self.sparse else "dense"
        return {
            "core_set": self.core_set.describe(),
            "one_shot": self.one_shot,
            "n_features": self.columns,
            "layout": layout,
        }


@dataclass(frozen=True, eq=False)
class LearnerHead(Head):
    """A learner that is trained at once on the core rows, and forgets by itself or is trained again."""

    learner: Any  # unfitted, as it was when the model was made
    reproducible: bool = True

    NAME = "learner"
    trains_at_once = True

    def check(self, c: Configuration) -> None:
        """The rows must be numbers as they were given."""
        if not isinstance(c.selection, CoreSetSelection):
            raise ConfigurationError("a learner needs rows that a core-set map selected.")

    def guarantee(self, model: Model) -> Guarantee:
        """System-aware unlearning with S' = C(S), with the learner's epsilon and delta."""
        return core_set_guarantee(model.configuration)

    # -- training --------------------------------------------------------------------------------------------------

    def train(self, c: Configuration, rows: list[Any], labels: list[Any], ids: list[Any]) -> tuple[list[int], Any]:
        """The learner, and the positions of the rows that it keeps."""
        selected, learner = self._trained(c, SelectedRows(rows[0], labels, ids))
        if not selected.ids:
            raise NoRowsError("the learner kept none of the core rows: let it keep more.")
        kept = set(selected.ids)
        return [i for i, key in enumerate(ids) if key in kept], {"learner": learner}

    def _trained(self, c: Configuration, selected: SelectedRows) -> tuple[SelectedRows, Any]:
        return train_on(selected, c.selection.core_set, self.learner, self.reproducible)

    def forget(self, model: Model, leaving: list[Any]) -> int:
        """Remove rows; the learner forgets them by itself, or is trained again."""
        old = selected_rows(model)
        try:
            return self._without(model, old, set(leaving))
        finally:
            overwrite(old.rows)

    def _without(self, model: Model, old: SelectedRows, gone: set[Any]) -> int:
        c, before, learner = model.configuration, model.version_token, model.cache["learner"]
        core_set = c.selection.core_set
        left = old.take([i for i, key in enumerate(old.ids) if key not in gone])
        if not core_set.stable and left.ids:
            labels = array_of(left.labels)
            index = core_positions(core_set, left.rows, labels, left.ids)
            left = SelectedRows.chosen(left.rows, labels, left.ids, index)
        by_itself = forgets(self.learner) and not isinstance(learner, Constant) and left.n_classes > 1
        retrained = 0
        if not by_itself:  # it may refuse these rows, and nothing was changed yet
            left, learner = self._trained(c, left)
            retrained = 0 if learner is None or isinstance(learner, Constant) else len(left.ids)
        if model.version_token is not before:
            raise ChangedMeanwhileError("the model changed while rows were being forgotten: ask for them again.")
        model.version_token = None
        if by_itself:
            kept = set(left.ids)
            ids = [key for key in old.ids if key not in kept]
            quietly = getattr(learner, "forget_quietly", None)  # this model warns for it
            report = learner.forget(ids=ids) if quietly is None else quietly(ids)
            retrained = int(getattr(report, "rows_retrained", 0))
            left, learner = agreed(left, learner, core_set)
        subjects = dict(zip(old.ids, model.core.subjects(), strict=True))
        owners = [subjects[key] for key in left.ids]  # the map may have put them into another order
        model.core.erase()
        model.core = CoreRows(left.rows, left.ids, owners, left.labels, c.selection.grid)
        model.cache = {"learner": learner}
        model.version_token = object()
        return retrained

    # -- states ----------------------------------------------------------------------------------------------------

    def derive(
        self, c: Configuration, rows: Any, labels: Sequence[Any], row_weights: RowWeights | None, sums: ExactSums | None
    ) -> Derived:
        """Nothing is stored."""
        return {}

    def specification(self, c: Configuration, labels: Collection[Any], n: int, *, weighted: bool) -> Specification:
        """Nothing is stored."""
        return {}

    def cache_from(self, state: State) -> dict[str, Any]:
        """The learner, trained on the stored rows.

        Raises
        ------
        StateFormatError
            When no such learner can have been trained on these rows.
        """
        stored = SelectedRows(state.rows.copy(), list(state.labels), list(state.ids))
        refusal = None
        try:
            selected, learner = self._trained(state.configuration, stored)
        except ErasableError:
            raise
        except Exception as error:  # whatever a learner says of rows that it cannot have been trained on
            refusal = StateFormatError(
                f"not a state: the learner cannot be trained on the stored rows ({type(error).__name__})."
            )
        if refusal is not None:
            raise refusal  # outside of the block, where it would carry the original, and with it values, along
        if selected.ids != stored.ids:
            raise StateFormatError("not a state: the learner does not keep all of the stored rows.")
        return {"learner": learner}

    def verify(self, model: Model) -> None:
        """Train on the stored rows from nothing, and compare learners."""
        learner, selected = model.cache["learner"], selected_rows(model)
        again, trained = self._trained(model.configuration, selected)
        overwrite(selected.rows)
        if again.ids != selected.ids:
            raise VerificationError(
                f"the learner keeps {len(again.ids)} of the {len(selected.ids)} stored rows when it is trained anew."
            )
        if not same_learner(learner, trained, reproducible=self.reproducible):
            raise VerificationError(
                "the learner is not what training it on the stored rows gives. If it was trained on another machine, "
                "or with other libraries, verify there; should it never give the same bits twice, say "
                "reproducible=False."
            )
        if isinstance(getattr(learner, "model_", None), Model):
            learner.model_.verify()

    def check_verifiable(self) -> None:
        """Raise VerificationError if the learner promises nothing about its state."""
        if forgets(self.learner) and getattr(getattr(self.learner, "guarantee", None), "of", None) == "model":
            raise VerificationError(
                "nothing is promised of this state: the learner's guarantee is of its model alone. Verification needs "
                "a learner whose state, too, is that of training on the rows left."
            )

    # -- predicting ------------------------------------------------------------------------------------------------

    def n_classes(self, model: Model) -> int:
        """How many classes the learner can predict."""
        return len(self.classes(model))

    def classes(self, model: Model) -> tuple[Label, ...]:
        """The classes that the learner can predict."""
        own = getattr(model.cache.get("learner"), "classes_", None)
        return super().classes(model) if own is None else tuple(np.asarray(own).tolist())

    def scores(self, model: Model, X: Any) -> Float64s:
        """The learner's scores; zeros if one class is left."""
        learner = model.cache["learner"]
        if isinstance(learner, Constant):
            return np.zeros((X.shape[0], 1))
        scores = np.asarray(learner.decision_function(X))
        return scores if scores.ndim > 1 else scores[:, None]

    def predict(self, model: Model, X: Any) -> npt.NDArray[Any]:
        """What the learner predicts."""
        learner = model.cache["learner"]
        found = np.asarray(learner.predict(X))
        return array_of(model.classes)[found] if isinstance(learner, Constant) else found

    def predict_proba(self, model: Model, X: Any) -> Float64s:
        """The learner's probabilities; one if one class is left."""
        learner = model.cache["learner"]
        if isinstance(learner, Constant):
            return np.ones((X.shape[0], 1))
        return np.asarray(learner.predict_proba(X))

    def nbytes(self, model: Model) -> int:
        """Bytes of the labels and the fitted learner."""
        return 8 * len(model.core) + len(pickle.dumps(model.cache.get("learner")))

    def describe(self) -> dict[str, Any]:
        """See :class:`Head`; the names are those of format version 1."""
        return {"learner": described(self.learner), "reproducible": self.reproducible}


def selected_rows(model: Model) -> SelectedRows:
    """The core rows of a model as learners take them."""
    return SelectedRows(model.core.rows(), model.core.labels(), model.core.ids())


def configuration_of(core_set: CoreSetMap, learner: Any, one_shot: bool, reproducible: bool) -> Configuration:
    """A configuration with copies of what the caller gave, for rows of any width."""
    selection = CoreSetSelection(copy.deepcopy(core_set), bool(one_shot))
    return Configuration(selection, LearnerHead(clone(learner), bool(reproducible)))


def for_rows(c: Configuration, X: Any) -> Configuration:
    """The configuration for rows like these: so many columns, dense or sparse."""
    return replace(c, selection=replace(c.selection, columns=int(X.shape[1]), sparse=sp.issparse(X)))


def core_set_guarantee(c: Configuration) -> Guarantee:
    """System-aware unlearning with S' = C(S), with the learner's epsilon and delta; or of the model alone."""
    base, stable = c.head.learner, c.selection.core_set.stable
    where = "S' = C(S)" + (" less what the learner passes over" if hasattr(type(base), "core_ids_") else "")
    by = "Definition 2.3, by Theorem 3.1" if stable else "Definition 2.3, for one request"
    named = f"system-aware unlearning ({by}) with {where}"
    equal = "equal to training the learner on the surviving core rows"
    if forgets(base):
        promise = on_core_rows(getattr(base, "guarantee", None), named)
    elif c.head.reproducible:
        promise = Guarantee(f"exact {named}: {equal}", of="state", bitwise=True, assumptions=(SAME_BITS_AGAIN,))
    else:
        promise = Guarantee(
            f"{named}, approximate: of the same law as training the learner on the surviving core rows, "
            "not of the same bits",
            of="state",
            assumptions=("each training draws its random numbers afresh",),
        )
    if not stable:
        one = "one request of forgetting after each fit: the core-set map is not stable"
        promise = replace(
            promise, definition=f"one-shot: {promise.definition}", assumptions=(*promise.assumptions, one)
        )
    return promise


def _sparse_rows(tensors: dict[str, npt.NDArray[Any]], d: int) -> Any:
    values, columns, ends = (tensors[f"rows.{name}"] for name in ("data", "indices", "ends"))
    if not (len(values) == len(columns) == ends[-1] and ends[0] == 0 and (np.diff(ends) >= 0).all()):
        raise StateFormatError("its sparse rows do not fit together.")
    if len(columns) and not (columns.min() >= 0 and columns.max() < d):
        raise StateFormatError("its sparse rows have entries outside their columns.")
    within = np.ones(len(columns), dtype=bool)
    within[ends[:-1][ends[:-1] < len(columns)]] = False  # where a row begins, its first column may be any
    if (np.diff(columns, prepend=-1)[within] <= 0).any() or not values.view(np.float64).all():
        raise StateFormatError("its sparse rows are not in canonical form: sorted columns, no zeros.")
    narrow = np.int32 if max(d, len(values)) < 2**31 else np.int64
    return sp.csr_array(
        (values.view(np.float64).copy(), columns.astype(narrow), ends.astype(narrow)), shape=(len(ends) - 1, d)
    )
