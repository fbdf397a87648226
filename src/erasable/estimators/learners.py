"""Any scikit-learn classifier as the head of a model: trained on the core rows, compared and described.

The state is the core rows with their names, and a description of map and learner. The fitted learner is a function of
these, and is trained again when a file is read; bytes cannot hold it, and hold no code.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone, is_regressor
from sklearn.utils.validation import has_fit_parameter

from erasable.core.arrays import Float64s, MatrixLike
from erasable.core.fingerprint import fingerprint
from erasable.core.layout import Tensors, canonical_json, digest_of, parts
from erasable.core.names import Key, Label, key_tensors, kind_of, write_label
from erasable.coresets import CoreSetMap, core_positions
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    ErasableError,
    NoRowsError,
    StateFormatError,
    VerificationError,
)
from erasable.models.configuration import Configuration
from erasable.models.core_rows import CoreRows, overwrite
from erasable.models.inputs import RowWeights, array_of, encode, pick
from erasable.models.model import Model
from erasable.models.reports import BITWISE_ON_ALL_ROWS, SAME_BITS_AGAIN, Guarantee, on_core_rows
from erasable.models.strategies import Derived, Head, Specification
from erasable.validation import missing_module

if TYPE_CHECKING:
    from erasable.models.heads.linear import ExactSums
    from erasable.models.state import State


@dataclass(frozen=True, eq=False)
class LearnerHead(Head):
    """A learner that is trained at once on the core rows, and forgets by itself or is trained again."""

    learner: Any  # unfitted, as it was when the model was made
    reproducible: bool = True

    NAME = "learner"
    trains_at_once = True

    def check(self, c: Configuration) -> None:
        """Raise ConfigurationError unless the rows are numbers as they were given."""
        if c.selection.NAME != "core-set":
            raise ConfigurationError("a learner needs rows that a core-set map selected.")

    def guarantee(self, model: Model) -> Guarantee:
        """System-aware unlearning with S' = C(S), with the learner's epsilon and delta."""
        return core_set_guarantee(model.configuration)

    # -- training --------------------------------------------------------------------------------------------------

    def train(self, c: Configuration, rows: list[Any], labels: list[Any], ids: list[Any]) -> tuple[list[int], Any]:
        """The learner, and the positions of the rows that it keeps."""
        selected, learner = self._trained(c, CoreSetRows(rows[0], labels, ids))
        if not selected.ids:
            raise NoRowsError("the learner kept none of the core rows: let it keep more.")
        if hasattr(learner, "classes_"):
            c.selection.tilts_of(np.asarray(learner.classes_).tolist())  # refuses a class without a share
        kept = set(selected.ids)
        return [i for i, key in enumerate(ids) if key in kept], {"learner": learner}

    def _trained(self, c: Configuration, selected: CoreSetRows) -> tuple[CoreSetRows, Any]:
        return train_on(selected, c.selection.core_set, self.learner, self.reproducible)

    def forget(self, model: Model, leaving: list[Any]) -> int:
        """Remove rows; the learner forgets them by itself, or is trained again."""
        old = selected_rows(model)
        try:
            return self._without(model, old, set(leaving))
        finally:
            overwrite(old.rows)

    def _without(self, model: Model, old: CoreSetRows, gone: set[Any]) -> int:
        c, before, learner = model.configuration, model.version_token, model.cache["learner"]
        core_set = c.selection.core_set
        left = old.take([i for i, key in enumerate(old.ids) if key not in gone])
        if not core_set.stable and left.ids:
            labels = array_of(left.labels)
            index = core_positions(core_set, left.rows, labels, left.ids)
            left = CoreSetRows.chosen(left.rows, labels, left.ids, index)
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
        self,
        c: Configuration,
        rows: object,
        labels: Sequence[Any],
        row_weights: RowWeights | None,
        sums: ExactSums | None,
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
        stored = CoreSetRows(state.rows.copy(), list(state.labels), list(state.ids))
        refusal: ErasableError | None = None
        try:
            selected, learner = self._trained(state.configuration, stored)
        except ErasableError:
            raise
        except ImportError as error:  # the state is not at fault
            refusal = missing_module(error, "training the learner")
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

    def scores(self, model: Model, X: MatrixLike) -> Float64s:
        """The learner's scores; zeros if one class is left."""
        learner = model.cache["learner"]
        if isinstance(learner, Constant):
            return np.zeros((X.shape[0], 1))
        scores = np.asarray(learner.decision_function(X))
        return scores if scores.ndim > 1 else scores[:, None]

    def predict(self, model: Model, X: object) -> npt.NDArray[Any]:
        """What the learner predicts; with balance, the class of the largest probability."""
        learner = model.cache["learner"]
        if self._tilts(model) is not None:
            winners: npt.NDArray[Any] = array_of(model.classes)[self.predict_proba(model, X).argmax(axis=1)]
            return winners
        found = np.asarray(learner.predict(X))
        return array_of(model.classes)[found] if isinstance(learner, Constant) else found

    def predict_proba(self, model: Model, X: MatrixLike) -> Float64s:
        """The learner's probabilities, divided by the tilts and by their sum; one if one class is left."""
        learner, tilts = model.cache["learner"], self._tilts(model)
        if isinstance(learner, Constant):
            return np.ones((X.shape[0], 1))
        found = np.asarray(learner.predict_proba(X))
        if tilts is None:
            return found
        found = found / tilts
        probabilities: Float64s = found / found.sum(axis=1, keepdims=True)
        return probabilities

    def _tilts(self, model: Model) -> Float64s | None:
        """How much more often rows of each class were kept; None if labels did not count or one class is left."""
        return None if isinstance(model.cache["learner"], Constant) else model.selection.tilts_of(self.classes(model))

    def untilted(self, scores: Float64s, tilts: Float64s) -> Float64s:
        """Scores of a learner have no scale, so balance cannot be taken back."""
        raise ConfigurationError("with balance a learner has no scores: use predict_proba.")

    def nbytes(self, model: Model) -> int:
        """Bytes of the labels and the fitted learner."""
        return 8 * len(model.core) + len(pickle.dumps(model.cache.get("learner")))

    def describe(self) -> dict[str, Any]:
        """See :class:`Head`; the names are those of format version 1."""
        return {"learner": described(self.learner), "reproducible": self.reproducible}


def selected_rows(model: Model) -> CoreSetRows:
    """The core rows of a model as learners take them."""
    return CoreSetRows(model.core.rows(), model.core.labels(), model.core.ids())


def core_set_guarantee(c: Configuration) -> Guarantee:
    """System-aware unlearning with S' = C(S), with the learner's epsilon and delta; or of the model alone."""
    base, stable = c.head.learner, c.selection.core_set.stable
    where = "S' = C(S)" + (" less what the learner passes over" if hasattr(type(base), "core_ids_") else "")
    by = "Definition 2.3, by Theorem 3.1" if stable else "Definition 2.3, for one request"
    named = f"system-aware unlearning ({by}) with {where}"
    rows: str = "the surviving core rows"
    public: tuple[str, ...] = ()
    if getattr(c.selection.core_set, "independent", False) and not forgets(base):
        named = "traditional and system-aware unlearning (Definitions 2.1 and 2.3)"
        rows = "all surviving rows that the map keeps, also where they were never stored"
        public = BITWISE_ON_ALL_ROWS.assumptions
    if forgets(base):
        promise = on_core_rows(getattr(base, "guarantee", None), named)
    elif c.head.reproducible:
        equal = f"exact {named}: equal to training the learner on {rows}"
        promise = Guarantee(equal, of="state", bitwise=True, assumptions=(SAME_BITS_AGAIN, *public))
    else:
        promise = Guarantee(
            f"{named}, approximate: of the same law as training the learner on {rows}, not of the same bits",
            of="state",
            assumptions=("each training draws its random numbers afresh", *public),
        )
    if not stable:
        one = "one request of forgetting after each fit: the core-set map is not stable"
        promise = replace(
            promise, definition=f"one-shot: {promise.definition}", assumptions=(*promise.assumptions, one)
        )
    return promise


# -- learners --------------------------------------------------------------------------------------------------


class Constant:
    """Predicts the only class there is."""

    def __init__(self, code: int) -> None:
        self.code = code

    def predict(self, X: MatrixLike) -> npt.NDArray[np.intp]:
        """The same class for every row."""
        return np.full(X.shape[0], self.code, dtype=np.intp)


def check_estimator_parameter(estimator: object, name: str = "estimator") -> None:
    """Refuse a base estimator that cannot be cloned, fitted or asked."""
    able = all(hasattr(estimator, method) for method in ("get_params", "fit", "predict"))
    if isinstance(estimator, type) or not able or is_regressor(estimator):
        raise ConfigurationError(
            f"{name} must be a scikit-learn classifier (an instance with fit and predict); "
            f"got {f'the class {estimator.__name__}' if isinstance(estimator, type) else type(estimator).__name__}."
        )


def check_balanced_learner(learner: Any) -> None:
    """Refuse a learner from whose predictions balance cannot be taken back."""
    if not hasattr(learner, "predict_proba"):
        raise ConfigurationError("balance needs a learner with predict_proba: use another learner, or leave it out.")
    if any(name.split("__")[-1] == "class_weight" and v is not None for name, v in learner.get_params().items()):
        raise ConfigurationError("balance and class_weight both make up for rare classes: leave one of them out.")


def train_on(core: CoreSetRows, core_set: CoreSetMap, base: object, reproducible: bool) -> tuple[CoreSetRows, Any]:
    """The learner that these core rows give, and those of them that it keeps."""
    if core.n_classes < 2:
        return core, Constant(0) if core.ids else None
    rows, labels = core.rows.copy(), array_of(core.labels)  # a learner may write to its rows, or hold on to them
    if forgets(base):
        return agreed(core, clone(base).fit(rows, labels, ids=core.ids), core_set)
    return core, (seeded(base, core.digest()) if reproducible else clone(base)).fit(rows, labels)


def agreed(core: CoreSetRows, learner: object, core_set: CoreSetMap) -> tuple[CoreSetRows, Any]:
    """Core rows without those that the learner, having a core set of its own, does not keep."""
    if not hasattr(learner, "core_ids_"):
        return core, learner
    kept = set(learner.core_ids_.tolist())
    index = [i for i, key in enumerate(core.ids) if key in kept]
    if len(index) == len(core.ids):
        return core, learner
    if not core_set.stable:
        raise ConfigurationError("a core-set map that is not stable needs a learner that keeps every row it is given.")
    core = core.take(index)
    return core, learner if core.n_classes > 1 else Constant(0) if core.ids else None


def forgets(estimator: object) -> bool:
    """Whether it is an unlearning algorithm: it takes ids when it is fitted and forgets by them."""
    return hasattr(estimator, "forget") and bool(has_fit_parameter(estimator, "ids"))


def seeded(estimator: object, material: str) -> Any:
    """An unfitted copy in which every ``random_state`` that is None, of parts too, is drawn from the material."""
    copy = clone(estimator)
    unset = [k for k, v in copy.get_params().items() if v is None and k.split("__")[-1] == "random_state"]
    for name in sorted(unset):
        drawn = hashlib.sha256(f"{material} {name}".encode()).digest()
        copy.set_params(**{name: int.from_bytes(drawn[:4], "little")})
    return copy


def described(value: object) -> Any:
    """A parameter, or an estimator with all of its parameters, as values that JSON can hold; nothing is rounded.

    What JSON cannot hold is given by its ``repr``, less the address in memory.
    """
    match value:
        case np.generic():
            return described(value.item())
        case None | bool() | str():
            return value
        case int():
            return {"int": str(value)}
        case float():
            return {"float": value.hex()}
        case np.ndarray():
            return {"array": described(value.tolist()), "dtype": value.dtype.str}
        case list() | tuple():
            return [described(v) for v in value]
        case dict():
            return {"dict": sorted(([described(k), described(v)] for k, v in value.items()), key=canonical_json)}
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return {"name": f"{value.__module__}.{value.__qualname__}"}
    if hasattr(value, "get_params"):
        parameters = value.get_params(deep=False)
        return {"class": described(type(value)), "parameters": {k: described(v) for k, v in parameters.items()}}
    return value.describe() if hasattr(value, "describe") else {"repr": re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))}


def same_learner(held: Any, again: Any, *, reproducible: bool = True) -> bool:
    """Whether a fitted learner is what training it again gave, as far as the two can be compared.

    Bit by bit, with these exceptions: learners that are not reproducible, and unlearning algorithms with noise, are
    compared by their classes and number of rows.
    """
    if type(held) is not type(again):
        return False
    for name in ("stored_rows_", "classes_"):
        if hasattr(held, name) and not np.array_equal(getattr(held, name), getattr(again, name)):
            return False
    if not forgets(held):
        return not reproducible or _equal(held, again)
    own = getattr(held, "guarantee", None)
    if own is not None and (own.epsilon or own.delta):
        return True
    if hasattr(held, "state_digest"):
        return bool(held.state_digest() == again.state_digest())
    return _equal(held, again)


def _equal(held: object, again: object) -> bool:
    return fingerprint(held, contents_only=True) == fingerprint(again, contents_only=True)


# -- rows as learners take them --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class CoreSetRows:
    """Core rows in order of selection: a float64 array or CSR in canonical form, with their labels and ids."""

    rows: Any
    labels: list[Any]
    ids: list[Key]

    def __post_init__(self) -> None:
        if not isinstance(self.rows, np.ndarray):
            object.__setattr__(self, "rows", _without_history(self.rows))

    @classmethod
    def chosen(
        cls, X: MatrixLike, y: npt.NDArray[Any], keys: Sequence[Key], index: npt.NDArray[np.intp]
    ) -> CoreSetRows:
        """Copies of the rows at these positions."""
        if isinstance(X, np.ndarray):
            rows = X[index].astype(np.float64, order="C", copy=False)
        else:
            rows = sp.csr_array(X[index], dtype=np.float64)
            rows.sum_duplicates()
            rows.eliminate_zeros()
            if max(rows.shape[1], rows.nnz) < 2**31:  # the width of the positions is no trace of other rows
                rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        return cls(rows, pick(y, index), pick(keys, index))

    def take(self, index: list[int]) -> CoreSetRows:
        """Copies of some of them."""
        return CoreSetRows(self.rows[index], [self.labels[i] for i in index], [self.ids[i] for i in index])

    @property
    def n_classes(self) -> int:
        """How many classes they are of."""
        return len(set(self.labels))

    def tensors(self) -> Tensors:
        """The rows in the layout of files: 64-bit integers with the bits of the numbers, and where they stand."""
        if isinstance(self.rows, np.ndarray):
            return {"rows": ("I64", self.rows.view(np.int64))}
        values = {"data": self.rows.data.view(np.int64), "indices": self.rows.indices, "ends": self.rows.indptr}
        return {f"rows.{name}": ("I64", array) for name, array in values.items()}

    def digest(self) -> str:
        """SHA-256 of the rows, labels and ids in order."""
        meta = {
            "n_features": int(self.rows.shape[1]),
            "layout": "dense" if isinstance(self.rows, np.ndarray) else "csr",
            "classes": [write_label(c) for c in sorted(set(self.labels))],
            "class_kind": kind_of(self.labels[0]) if self.labels else None,
            "id_kind": kind_of(self.ids[0]) if self.ids else None,
        }
        labels: Tensors = {"labels": ("I32", encode(self.labels)[1])}
        return digest_of(parts(meta, {**self.tensors(), **labels, **key_tensors("ids", self.ids)}))


def _without_history(rows: Any) -> sp.csr_array:
    """Return CSR rows flagged as canonical: SciPy caches which forms were checked, and pickles the cache."""
    n, d = rows.shape
    plain = sp.csr_array((rows.data, rows.indices, rows.indptr), shape=(int(n), int(d)))
    plain.has_canonical_format = True
    return plain
