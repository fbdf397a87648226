"""Any learner on the core rows that a map selects, as a model with a state: algorithm A_CS of Theorem 3.1.

The state is the core rows with their names, and a description of map and learner. The fitted learner is a function of
these, and is trained anew when a file is read; bytes cannot hold it, and hold no code.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone

from erasable.core.arrays import Float64s
from erasable.core.layout import Buffer, Tensors, check_format, guarded, parse
from erasable.core.names import Key, Label, read_label, read_names
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
from erasable.estimators.forgetting import Forgetting
from erasable.estimators.learners import (
    Constant,
    SelectedRows,
    agreed,
    described,
    forgets,
    same_learner,
    train_on,
)
from erasable.models.arrays import n_bytes, overwrite
from erasable.models.guarantee import SAME_BITS_AGAIN, Guarantee, on_core_rows
from erasable.models.keys import array_of
from erasable.models.model import Model
from erasable.models.reports import VerifyReport
from erasable.models.rows import CoreRows
from erasable.models.state import State


@dataclass(frozen=True, eq=False)
class CoreSetConfiguration:
    """The map, the learner as it was when the model was made (unfitted), and what is asked of them."""

    core_set: CoreSetMap
    learner: Any
    one_shot: bool
    reproducible: bool
    classes: None = None

    @classmethod
    def of(cls, core_set: CoreSetMap, learner: Any, one_shot: bool, reproducible: bool) -> Self:
        """With copies of what the caller gave."""
        return cls(copy.deepcopy(core_set), clone(learner), bool(one_shot), bool(reproducible))

    def describe(self) -> dict[str, Any]:
        """Everything that the state is a function of, beside its rows."""
        return {
            "core_set": self.core_set.describe(),
            "learner": described(self.learner),
            "one_shot": self.one_shot,
            "reproducible": self.reproducible,
        }


@dataclass(frozen=True, eq=False, repr=False)
class CoreSetState(State):
    """Configuration and core rows in order of selection: a float64 array, or CSR in canonical form."""

    configuration: CoreSetConfiguration

    FORMAT = "erasable-core-set"

    def selected(self) -> SelectedRows:
        """The rows as learners take them."""
        return SelectedRows(self.rows, list(self.labels), list(self.ids))

    def relearnt(self, progress: Progress | None = None) -> tuple[Self, npt.NDArray[np.intp]]:
        """Select from the stored rows from nothing: all of them, in the same order, or it is refused."""
        n = len(self.ids)
        try:
            select, labels = self.configuration.core_set.select, array_of(self.labels)
            index = np.asarray(select(self.rows, labels, self.ids) if n else np.empty(0), dtype=np.intp)
        except ErasableError as error:
            raise VerificationError(f"the core-set map refuses the stored rows: {error}") from error
        if index.tolist() != list(range(n)):
            raise VerificationError(
                f"the core-set map selects {len(index)} of the {n} stored rows again, or in another order: "
                "they are not a core set that it gives."
            )
        return self, index

    def check_rows(self) -> None:
        """Any finite rows may have been stored."""

    def described(self) -> dict[str, Any]:
        """Map and learner, and the shape of the rows."""
        layout = "dense" if isinstance(self.rows, np.ndarray) else "csr"
        return {**self.configuration.describe(), "n_features": int(self.rows.shape[1]), "layout": layout}

    def row_tensors(self) -> Tensors:
        """64-bit integers with the bits of the numbers, and where they stand."""
        return self.selected().tensors()

    @classmethod
    def from_bytes(cls, data: Buffer, configuration: CoreSetConfiguration) -> CoreSetState:
        """The state whose canonical bytes these are, when they were written with this configuration.

        Raises
        ------
        StateFormatError
        """
        return guarded(data, lambda raw: _parse(raw, configuration), lambda state: state.pieces)


class CoreSetModel(Model):
    """Core rows, and the learner that was trained on them. All rows are learnt at once.

    Truth: ``rows``, dense or CSR, and their names in ``core``, whose own rows have no columns.
    """

    KIND = "learner on a core set"
    one_by_one = False
    configuration: CoreSetConfiguration

    def __init__(self, configuration: CoreSetConfiguration) -> None:
        self.configuration = configuration
        self.core = CoreRows(np.empty((0, 0)))
        self.rows: Any = None
        self.learner: Any = None
        self.moment = object()

    @classmethod
    def restore(cls, state: CoreSetState) -> Self:
        """The model that a state is of; its learner is trained.

        Raises
        ------
        StateFormatError
            When no such learner can have been trained on these rows.
        """
        model, c, stored = cls(state.configuration), state.configuration, state.selected()
        refusal = None
        try:
            selected, learner = train_on(stored, c.core_set, c.learner, c.reproducible)
        except ErasableError:
            raise
        except Exception as error:  # whatever a learner says of rows that it cannot have been trained on
            refusal = StateFormatError(
                f"not a state: the learner cannot be trained on the stored rows ({type(error).__name__})."
            )
        if refusal is not None:
            raise refusal  # here and not above, where it would carry the original, and with it values, along
        if selected.ids != stored.ids:
            raise StateFormatError("not a state: the learner does not keep all of the stored rows.")
        model.core = CoreRows(np.empty((len(state.ids), 0)), state.ids, state.subjects, state.labels)
        model.rows, model.learner = selected.rows, learner
        return model

    # -- learning and forgetting ---------------------------------------------------------------------------------

    def prepared(self, X: Any) -> Any:
        """The rows as they are."""
        if self.rows is not None:
            raise ConfigurationError("a model of this kind learns all its rows at once: fit it, and save it.")
        return X

    def select(
        self, rows: Any, labels: npt.NDArray[Any], keys: Any, progress: Progress | None, **_: int | None
    ) -> tuple[npt.NDArray[np.intp], list[npt.NDArray[Any]], Decisions, Any]:
        """What the map selects and the learner keeps."""
        c = self.configuration
        keys = keys.tolist() if isinstance(keys, np.ndarray) else keys
        index = core_positions(c.core_set, rows, labels, keys)
        chosen = SelectedRows.chosen(rows, labels, keys, index)
        selected, learner = train_on(chosen, c.core_set, c.learner, c.reproducible)
        if not selected.ids:
            raise NoRowsError("the learner kept none of the core rows: let it keep more.")
        if len(selected.ids) < len(index):
            kept = set(selected.ids)
            index = index[[key in kept for key in chosen.ids]]
        return index, [np.empty((len(index), 0))], Decisions(), (selected, learner)

    def adopt(self, labels: list[Label], batches: list[npt.NDArray[Any]], extra: Any, weights: list[int]) -> None:
        """Rows and learner."""
        selected, self.learner = extra
        self.rows = selected.rows

    def take_out(self, keys: list[Key]) -> int:
        """These rows leave, and the learner forgets them or is trained anew; the number of rows trained on again."""
        if not keys:
            return 0
        c, leaving, old, before = self.configuration, set(keys), self.selected, self.moment
        left = old.take([i for i, key in enumerate(old.ids) if key not in leaving])
        if not c.core_set.stable and left.ids:
            labels = array_of(left.labels)
            index = core_positions(c.core_set, left.rows, labels, left.ids)
            left = SelectedRows.chosen(left.rows, labels, left.ids, index)
        own = forgets(c.learner) and not isinstance(self.learner, Constant) and left.n_classes > 1
        retrained = 0
        if not own:  # it may refuse these rows, and nothing was changed yet
            left, learner = train_on(left, c.core_set, c.learner, c.reproducible)
            retrained = 0 if learner is None or isinstance(learner, Constant) else len(left.ids)
        if self.moment is not before:
            raise ChangedMeanwhileError("the model changed while rows were being forgotten: ask for them again.")
        self.moment = None
        if own:
            kept, learner = set(left.ids), self.learner
            leave = [key for key in old.ids if key not in kept]
            ours = isinstance(learner, Forgetting)  # this model warns for them
            report = learner.forget_quietly(leave) if ours else learner.forget(ids=leave)
            retrained = int(getattr(report, "rows_retrained", 0))
            left, learner = agreed(left, learner, c.core_set)
        subjects = dict(zip(old.ids, self.core.subjects(), strict=True))
        owners = [subjects[key] for key in left.ids]  # the map may have put them into another order
        self.core = CoreRows(np.empty((len(left.ids), 0)), left.ids, owners, left.labels)
        self.rows, self.learner = left.rows, learner
        overwrite(old.rows)
        self.moment = object()
        return retrained

    def drop_caches(self) -> None:
        """There are none."""

    def erase(self) -> None:
        """Overwrite the rows."""
        super().erase()
        if self.rows is not None:
            overwrite(self.rows)

    @property
    def selected(self) -> SelectedRows:
        """The core rows as learners take them."""
        return SelectedRows(self.rows, self.core.labels(), self.core.ids())

    # -- looking -------------------------------------------------------------------------------------------------

    def state(self) -> CoreSetState:
        """See :class:`Model`."""
        return CoreSetState(self.configuration, *self.core.names(), self.rows.copy())

    def verify(self, progress: Progress | None = None, state: State | None = None) -> VerifyReport:
        """Select from the stored rows and train on them from nothing, and compare."""
        self.check_whole()
        c = self.configuration
        if forgets(c.learner) and getattr(getattr(c.learner, "guarantee", None), "of", None) == "model":
            raise VerificationError(
                "nothing is promised of this state: the learner's guarantee is of its model alone. Verification needs "
                "a learner whose state, too, is that of training on the rows left."
            )
        report = super().verify(progress, state)
        selected = self.selected
        n = len(selected.ids)
        again, learner = train_on(selected, c.core_set, c.learner, c.reproducible)
        if again.ids != selected.ids:
            raise VerificationError(
                f"the learner keeps {len(again.ids)} of the {n} stored rows when it is trained anew."
            )
        if not same_learner(self.learner, learner, reproducible=c.reproducible):
            raise VerificationError(
                "the learner is not what training it on the stored rows gives. If it was trained on another machine, "
                "or with other libraries, verify there; should it never give the same bits twice, say "
                "reproducible=False."
            )
        if isinstance(getattr(self.learner, "model_", None), Model):
            self.learner.model_.verify()
        if progress is not None:
            progress(n, n)
        return report

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes that can be predicted."""
        own = getattr(self.learner, "classes_", None)
        return super().classes if own is None else tuple(np.asarray(own).tolist())

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    @property
    def nbytes(self) -> int:
        """Bytes of the core rows, their labels and the fitted learner."""
        return n_bytes(self.rows) + 8 * len(self.core) + len(pickle.dumps(self.learner))

    @property
    def n_features(self) -> int | None:
        """Columns of the rows."""
        return None if self.rows is None else int(self.rows.shape[1])

    @property
    def guarantee(self) -> Guarantee:
        """System-aware unlearning with S' = C(S), with the learner's epsilon and delta."""
        return core_set_guarantee(self.configuration)

    def scores(self, X: Any) -> Float64s:
        """The learner's scores; zeros where one class is left."""
        if isinstance(self.learner, Constant):
            return np.zeros((X.shape[0], 1))
        scores = np.asarray(self.learner.decision_function(X))
        return scores if scores.ndim > 1 else scores[:, None]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """What the learner predicts."""
        self.check_rows_left()
        answers = np.asarray(self.learner.predict(X))
        return array_of(self.classes)[answers] if isinstance(self.learner, Constant) else answers

    def probabilities(self, X: Any) -> Float64s:
        """The learner's probabilities; one where one class is left."""
        self.check_rows_left()
        if isinstance(self.learner, Constant):
            return np.ones((X.shape[0], 1))
        return np.asarray(self.learner.predict_proba(X))


def core_set_guarantee(c: CoreSetConfiguration) -> Guarantee:
    """System-aware unlearning with S' = C(S), with the learner's epsilon and delta; or of the model alone."""
    base, stable = c.learner, c.core_set.stable
    where = "S' = C(S)" + (" less what the learner passes over" if hasattr(type(base), "core_ids_") else "")
    by = "Definition 2.3, by Theorem 3.1" if stable else "Definition 2.3, for one request"
    named = f"system-aware unlearning ({by}) with {where}"
    equal = "equal to training the learner on the surviving core rows"
    if forgets(base):
        promise = on_core_rows(getattr(base, "guarantee", None), named)
    elif c.reproducible:
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


def _parse(data: Buffer, configuration: CoreSetConfiguration) -> CoreSetState:
    meta, tensors = parse(data)
    check_format(meta, CoreSetState.FORMAT, CoreSetState.VERSION)
    d = int(meta["n_features"])
    rows: Any
    if meta["layout"] == "dense":
        rows = tensors["rows"].view(np.float64).copy()
    else:
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
        rows = sp.csr_array(
            (values.view(np.float64).copy(), columns.astype(narrow), ends.astype(narrow)), shape=(len(ends) - 1, d)
        )
    n = rows.shape[0]
    if rows.shape != (n, d):
        raise StateFormatError("its parts do not fit together.")
    if not np.isfinite(rows if isinstance(rows, np.ndarray) else rows.data).all():
        raise StateFormatError("its rows hold NaN or infinity.")
    classes = tuple(read_label(meta["class_kind"], c) for c in meta["classes"])
    return CoreSetState(configuration, *read_names(meta, tensors, classes, n), rows)
