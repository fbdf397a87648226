"""Theorem 3.1: any learner on a core set forgets as if it had been trained on the surviving core rows."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from erasable.core.layout import Buffer, Key, Piece, canonical_json, digest_of
from erasable.core.selector import Progress
from erasable.core.shards import Files
from erasable.coresets._protocol import CoreSetMap, check_core_set, core_positions
from erasable.errors import ConfigurationError, ErasableError, NoRowsError, StateFormatError, VerificationError
from erasable.estimators._core_set_state import core_set_from_bytes, core_set_pieces
from erasable.estimators._erasable import ErasableBase
from erasable.estimators._forgetting import ForgettingClassifier, encode, n_bytes, overwrite
from erasable.estimators._guarantee import SAME_BITS_AGAIN, Guarantee, on_core_rows
from erasable.estimators._keys import array_of
from erasable.estimators._saving import Savable, without_file
from erasable.estimators._voters import (
    Constant,
    CoreRows,
    agreed,
    check_estimator_parameter,
    described,
    forgets,
    same_learner,
    train_on,
)


def select_core(core_set: CoreSetMap, X: Any, y: npt.NDArray[Any], keys: Sequence[Key]) -> CoreRows:
    """Copies of the core rows that a map selects; at least one, or it is refused."""
    return CoreRows.chosen(X, y, keys, core_positions(core_set, X, y, keys))


def _offers(method: str) -> Any:
    """Present where the learner has this method."""
    return available_if(lambda self: hasattr(self._base if self.__sklearn_is_fitted__() else self.learner, method))


class CoreSetUnlearner(Savable, ForgettingClassifier):
    """Any learner, trained on the core rows that a map selects; nothing else of the data is stored.

    This is the algorithm A_CS of Theorem 3.1. A row outside the core set leaves no trace, so forgetting it changes
    nothing. A core row that is forgotten leaves the core set, and the learner forgets it: with its own ``forget`` where
    it is an unlearning algorithm (it takes ``ids`` in ``fit``), otherwise by training on the surviving core rows anew.

    *Guarantee*: system-aware unlearning (Definition 2.3) with S' = C(S), and the learner's epsilon and delta. For
    learners without ``forget`` these are zero, and the state is *bitwise* that of training on the surviving core rows,
    given that the learner is deterministic: every ``random_state`` that is None is drawn from the surviving rows,
    labels and ids. What a learner computes in floating point has the same bits again on one machine only; a pickle
    holds it, so verify a pickle where it was made. A file holds the core rows alone and the learner is trained on
    them when it is loaded; the digest is the same anywhere. The theorem needs a learner that promises something about
    its *state*. One that speaks of its model alone, such as ``NewtonUnlearner``, is taken, but then this model's
    promise is of the model alone as well, and it is not verified. See ``guarantee``.

    Parameters
    ----------
    core_set : CoreSetMap
        Such as those of ``erasable.coresets``. It must be stable, or ``one_shot`` be set.
    learner : classifier
        Any scikit-learn classifier or unlearning algorithm. One class left: that class is predicted, without the
        learner.
    one_shot : bool, default=False
        Accept a map that is not stable, such as ``SupportVectors``. Theorem 3.1 then does not hold. The map selects
        again from what a request leaves over, and rows it then drops are gone too; so *one* request after ``fit``
        leaves the state that training on ``C(S) - U`` gives. Several requests do not: what the first made the map
        drop, the map of ``C(S)`` less all of them might have kept. Nothing counts requests, for a count would be a
        trace.
    reproducible : bool, default=True
        Say False of a learner that gives other bits when trained twice on the same rows with the same seed (on a GPU,
        say). Seeds are then left alone, the guarantee becomes *approximate*, of the same law and not of the same bits,
        and verification does not compare learners. Whether a learner is reproducible is not tried when it is fitted,
        since that would train it twice; verification of one that is not fails.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Those of the remaining core rows, or those fixed by the learner's parameters.
    core_ids_ : array of shape (n_core_,)
        Ids of the core rows in order of selection.
    n_core_, stored_rows_ : int
        How many rows are stored.
    stored_bytes_ : int
        Bytes of the core rows, their labels and the fitted learner, which may hold the rows once more.
    guarantee : Guarantee

    Notes
    -----
    *Learners with core sets of their own* (those that have ``core_ids_``): a row of C(S) that the learner passes over
    is not stored either. S' is then what both keep. With their threshold fixed, since one that is set from the number
    of rows would be another after forgetting.

    *Learners with noise*, whose ``random_state`` hides something, are unlearning algorithms and keep their own
    randomness.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from erasable.coresets import LeverageThreshold
    >>> from erasable.estimators.core_set import CoreSetUnlearner
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CoreSetUnlearner(LeverageThreshold(0.2), RandomForestClassifier(20)).fit(X, y)
    >>> model.n_core_ < len(X) / 2
    True
    >>> report = model.forget(ids=range(900))
    >>> left = model.core_ids_
    >>> again = CoreSetUnlearner(LeverageThreshold(0.2), RandomForestClassifier(20)).fit(X[left], y[left], ids=left)
    >>> model.state_digest() == again.state_digest()
    True
    >>> bool((model.predict_proba(X) == again.predict_proba(X)).all())
    True
    """

    _map: CoreSetMap
    _base: Any  # the learner as it was when the model was fitted, unfitted itself
    _one_shot: bool
    _reproducible: bool
    _core: CoreRows
    _learner: Any

    def __init__(
        self, core_set: CoreSetMap, learner: Any, *, one_shot: bool = False, reproducible: bool = True
    ) -> None:
        self.core_set = core_set
        self.learner = learner
        self.one_shot = one_shot
        self.reproducible = reproducible

    @property
    def guarantee(self) -> Guarantee:
        """System-aware unlearning with S' = C(S), with the learner's epsilon and delta; or of the model alone."""
        fitted = self.__sklearn_is_fitted__()
        base = self._base if fitted else self.learner
        stable = (self._map if fitted else self.core_set).stable
        where = "S' = C(S)" + (" less what the learner passes over" if hasattr(type(base), "core_ids_") else "")
        by = "Definition 2.3, by Theorem 3.1" if stable else "Definition 2.3, for one request"
        named = f"system-aware unlearning ({by}) with {where}"
        equal = "equal to training the learner on the surviving core rows"
        if forgets(base):
            promise = on_core_rows(getattr(base, "guarantee", None), named)
        elif self._reproducible if fitted else self.reproducible:
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

    # -- learning and forgetting ---------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_core_set(self.core_set)
        check_estimator_parameter(self.learner, "learner")
        for name in ("one_shot", "reproducible"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ConfigurationError(f"{name} must be True or False; got {getattr(self, name)!r}.")
        if not self.core_set.stable and not self.one_shot:
            raise ConfigurationError(
                f"{type(self.core_set).__name__} is not a stable map, so Theorem 3.1 does not hold for it: use a "
                "stable one, or accept with one_shot=True a guarantee for one request of forgetting after each fit."
            )
        if getattr(self.learner, "threshold", 0) is None and getattr(self.learner, "horizon", 0) is None:
            raise ConfigurationError(
                "the learner takes its threshold from the number of rows, which changes when rows are forgotten: "
                "give it threshold= or horizon=."
            )

    def _learn(self, X: Any, y: npt.NDArray[Any], keys: Sequence[Key]) -> dict[str, Any]:
        core_set, base, reproducible = copy.deepcopy(self.core_set), clone(self.learner), bool(self.reproducible)
        core, learner = train_on(select_core(core_set, X, y, keys), core_set, base, reproducible)
        if not core.ids:
            raise NoRowsError("the learner kept none of the core rows: let it keep more.")
        return {
            "_map": core_set,
            "_base": base,
            "_one_shot": bool(self.one_shot),
            "_reproducible": reproducible,
            "_core": core,
            "_learner": learner,
            "_place": {key: i for i, key in enumerate(core.ids)},
        }

    def _remove(self, keys: list[Key]) -> int:
        leaving, old = set(keys), self._core
        core = old.take([i for i, key in enumerate(old.ids) if key not in leaving])
        try:
            if not self._map.stable and core.ids:
                core = select_core(self._map, core.rows, array_of(core.labels), core.ids)
            own = forgets(self._base) and not isinstance(self._learner, Constant) and core.n_classes > 1
            if not own:
                core, learner = train_on(core, self._map, self._base, self._reproducible)
                gone_over = 0 if learner is None or isinstance(learner, Constant) else len(core.ids)
        except Exception:
            self._whole = True  # the learner refuses these rows; nothing was changed yet
            raise
        if own:
            kept, learner = set(core.ids), self._learner
            leave = [key for key in old.ids if key not in kept]
            ours = isinstance(learner, ErasableBase | ForgettingClassifier)  # this model warns for them
            report = learner._forget(leave)[0] if ours else learner.forget(ids=leave)
            gone_over = int(getattr(report, "rows_gone_over", 0))
            core, learner = agreed(core, learner, self._map)
        self._place = {key: i for i, key in enumerate(core.ids)}
        self._core, self._learner = core, learner
        overwrite(old.rows)
        return gone_over

    def _erase(self) -> None:
        overwrite(self._core.rows)

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """What the learner predicts."""
        X = self._rows_to_predict(X)
        answers = np.asarray(self._learner.predict(X))
        return self.classes_[answers] if isinstance(self._learner, Constant) else answers

    @_offers("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """The learner's probabilities, shape (n_samples, n_classes); one where one class is left."""
        X = self._rows_to_predict(X)
        if isinstance(self._learner, Constant):
            return np.ones((X.shape[0], 1))
        return np.asarray(self._learner.predict_proba(X))

    @_offers("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """The learner's scores; zeros where one class is left."""
        X = self._rows_to_predict(X)
        if isinstance(self._learner, Constant):
            return np.zeros(X.shape[0])
        return np.asarray(self._learner.decision_function(X))

    # -- looking -------------------------------------------------------------------------------------------------

    def state_digest(self) -> str:
        """SHA-256 of map, learner with its parameters, core rows, labels and ids, as 64 hexadecimal digits.

        The fitted learner is a function of these and not part of it. Dense and CSR rows have different digests, since
        learners do not treat them alike.
        """
        self._check_whole("state_digest")
        return digest_of(self._pieces())

    def _pieces(self) -> list[Piece]:
        """The canonical bytes of the state."""
        return core_set_pieces(self._core, self._described(self._map, self._base))

    def _files(self) -> Files:
        self._check_whole("save")
        if not self.guarantee.bitwise:
            raise ConfigurationError(
                "this model cannot be saved: its learner is not a function of the core rows, to the bit, so a file of "
                "them could not bring it back. Use a learner that is deterministic given its seed."
            )
        return Files(self._pieces())

    def _restore(self, head: Buffer, meta: dict[str, Any]) -> None:
        """Take over the core rows of a file, and train the learner on them; only for a model that is not fitted."""
        self._check_parameters()
        core_set, base = copy.deepcopy(self.core_set), clone(self.learner)
        configuration = self._described(core_set, base)
        for name, wanted in configuration.items():
            if canonical_json(meta.get(name)) != canonical_json(wanted):
                raise ConfigurationError(f"like has another {name} than the file was made with: give the same.")
        stored, _ = core_set_from_bytes(head, configuration)
        core, learner = train_on(stored, core_set, base, bool(self.reproducible))
        if core.ids != stored.ids:
            raise StateFormatError("not a state: the learner does not keep all of the stored rows.")
        self.__dict__.update(
            n_features_in_=int(stored.rows.shape[1]),
            _map=core_set,
            _base=base,
            _one_shot=bool(self.one_shot),
            _reproducible=bool(self.reproducible),
            _core=core,
            _learner=learner,
            _place={key: i for i, key in enumerate(core.ids)},
            _key_type=type(core.ids[0]) if core.ids else int,
            _whole=True,
        )

    def __getstate__(self) -> dict[str, Any]:
        return without_file(super().__getstate__())

    def _described(self, core_set: CoreSetMap, base: Any) -> dict[str, Any]:
        """Everything that the state is a function of, beside its rows."""
        fitted = self.__sklearn_is_fitted__()
        return {
            "core_set": core_set.describe(),
            "learner": described(base),
            "one_shot": self._one_shot if fitted else bool(self.one_shot),
            "reproducible": self._reproducible if fitted else bool(self.reproducible),
        }

    def _recompute(self, progress: Progress | None = None) -> tuple[int, str]:
        """Select from the stored rows and train on them from nothing; the number of rows, and the digest.

        Raises
        ------
        VerificationError
            Naming the first thing that differs from what is stored.
        """
        self._check_whole("verify")
        if forgets(self._base) and getattr(getattr(self._base, "guarantee", None), "of", None) == "model":
            raise VerificationError(
                "nothing is promised of this state: the learner's guarantee is of its model alone. Verification needs "
                "a learner whose state, too, is that of training on the rows left."
            )
        core = self._core
        n = len(core.ids)
        if list(self._place.items()) != [(key, i) for i, key in enumerate(core.ids)]:
            raise VerificationError("the table that finds rows by id does not name the stored rows.")
        if not (len(core.labels) == core.rows.shape[0] == n):
            raise VerificationError("ids, labels and rows have different lengths.")
        try:
            index = np.asarray(self._map.select(core.rows, array_of(core.labels), core.ids) if n else [])
        except ErasableError as error:
            raise VerificationError(f"the core-set map refuses the stored rows: {error}") from error
        if index.tolist() != list(range(n)):
            raise VerificationError(
                f"the core-set map selects {len(index)} of the {n} stored rows again, or in another order: "
                "they are not a core set that it gives."
            )
        again, learner = train_on(core, self._map, self._base, self._reproducible)
        if again.ids != core.ids:
            raise VerificationError(
                f"the learner keeps {len(again.ids)} of the {n} stored rows when it is trained anew."
            )
        if not same_learner(self._learner, learner, reproducible=self._reproducible):
            raise VerificationError(
                "the learner is not what training it on the stored rows gives. If it was trained on another machine, "
                "or with other libraries, verify there; should it never give the same bits twice, say "
                "reproducible=False."
            )
        if hasattr(learner, "_recompute"):
            self._learner._recompute()
        if progress is not None:
            progress(n, n)
        return n, self.state_digest()

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes that can be predicted."""
        self._check_fitted("classes_")
        own = getattr(self._learner, "classes_", None)
        return encode(self._core.labels)[0] if own is None else np.array(own)

    @property
    def core_ids_(self) -> npt.NDArray[Any]:
        """Ids of the core rows in order of selection."""
        self._check_fitted("core_ids_")
        return array_of(self._core.ids) if self._core.ids else np.empty(0, dtype=np.int64)

    @property
    def n_core_(self) -> int:
        """Number of core rows."""
        self._check_fitted("n_core_")
        return len(self._core.ids)

    @property
    def stored_bytes_(self) -> int:
        """Bytes of the core rows, their labels and the fitted learner."""
        self._check_fitted("stored_bytes_")
        return n_bytes(self._core.rows) + 8 * len(self._core.labels) + len(pickle.dumps(self._learner))

    def _check_fitted(self, name: str) -> None:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no {name} before fit.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        learner = getattr(self, "learner", None)
        if hasattr(learner, "__sklearn_tags__"):
            tags.input_tags.sparse = get_tags(learner).input_tags.sparse
        return tags

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Scikit-learn's table for notebooks, less every value that comes from rows."""
        table = super()._get_fitted_attr_html(doc_link)
        for name in ("classes_", "core_ids_"):
            if name in table:
                table[name] = {"type_name": f"{table[name]['type_name']}, not shown", "value": ""}
        return table
