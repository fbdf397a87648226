"""Theorem 3.1: any learner on a core set forgets as if it had been trained on the surviving core rows."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from erasable.core.arrays import ColumnLike, Float64s, MatrixLike
from erasable.core.grid import SparseColumns
from erasable.core.layout import Buffer, Tensors, canonical_json, read_sealed
from erasable.core.selector import Decisions, Progress
from erasable.coresets import CoreSetMap, check_core_set, core_positions
from erasable.errors import ConfigurationError, ErasableError, StateFormatError, VerificationError
from erasable.estimators.base import ErasableClassifierBase
from erasable.estimators.learners import (
    CoreSetRows,
    LearnerHead,
    check_balanced_learner,
    check_estimator_parameter,
    core_set_guarantee,
)
from erasable.features import FeatureMap
from erasable.models.configuration import Configuration
from erasable.models.core_rows import CoreRows
from erasable.models.files import Fetch
from erasable.models.inputs import array_of
from erasable.models.model import Model
from erasable.models.reports import Guarantee
from erasable.models.state import State, layout_of
from erasable.models.strategies import Positions, Selection, SelectionResult
from erasable.validation import switch

if TYPE_CHECKING:
    from erasable.models.heads.linear import ExactSums


def _offers(method: str) -> Any:
    """Present where the learner has this method; scores cannot take balance back, so with it there are none."""

    def offered(self: CoreSetUnlearner) -> bool:
        c = self._configuration()
        balanced = bool(getattr(c.selection.core_set, "balance", 0))
        return hasattr(c.head.learner, method) and not (balanced and method == "decision_function")

    return available_if(offered)


class CoreSetUnlearner(ErasableClassifierBase):
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

    With ``IndependentSample``, which looks at each row alone, the state after ``forget`` is that of training a learner
    without ``forget`` on *all* surviving rows that the map keeps, also where they were never stored.

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
    core_ids_ : array of shape (n_core,)
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

    _streaming = False

    def __init__(
        self, core_set: CoreSetMap, learner: Any, *, one_shot: bool = False, reproducible: bool = True
    ) -> None:
        self.core_set = core_set
        self.learner = learner
        self.one_shot = one_shot
        self.reproducible = reproducible

    @property
    def guarantee(self) -> Guarantee:
        """System-aware unlearning with S' = C(S), with the learner's epsilon and delta."""
        return core_set_guarantee(self._configuration())

    def _configuration(self) -> Configuration:
        """That of the fitted model, or what the constructor arguments name."""
        if self.__sklearn_is_fitted__():
            return self._model.configuration
        selection = CoreSetSelection(self.core_set, self.one_shot)
        return Configuration(selection, LearnerHead(self.learner, self.reproducible))

    # -- the model behind it -------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_core_set(self.core_set)
        check_estimator_parameter(self.learner, "learner")
        one_shot, _ = switch(self.one_shot, "one_shot"), switch(self.reproducible, "reproducible")
        if not self.core_set.stable and not one_shot:
            raise ConfigurationError(
                f"{type(self.core_set).__name__} is not a stable map, so Theorem 3.1 does not hold for it: use a "
                "stable one, or accept with one_shot=True a guarantee for one request of forgetting after each fit."
            )
        if getattr(self.core_set, "balance", 0.0):
            check_balanced_learner(self.learner)
        if getattr(self.learner, "kappa", None) is not None and self.learner.horizon is None:
            raise ConfigurationError(
                "the learner takes its threshold from the number of rows, which changes when rows are forgotten: "
                "give it horizon= in addition to kappa=, or threshold= instead."
            )

    def _start(self, X: MatrixLike, y: object, classes: object, *, streaming: bool) -> Model:
        self._check_parameters()
        return Model(self._copied_configuration(columns=int(X.shape[1]), sparse=sp.issparse(X)))

    def _copied_configuration(self, **rows: Any) -> Configuration:
        """Return a configuration with copies of what the caller gave."""
        selection = CoreSetSelection(copy.deepcopy(self.core_set), bool(self.one_shot), **rows)
        return Configuration(selection, LearnerHead(clone(self.learner), bool(self.reproducible)))

    def _check_unchanged(self, model: Model, classes: object) -> None:
        """All rows are learnt at once: there is nothing to go on with."""

    def _savable(self) -> Any:
        state = super()._savable()
        if not self.guarantee.bitwise:
            raise ConfigurationError(
                "this model cannot be saved: its learner is not a function of the core rows, to the bit, so a file of "
                "them could not bring it back. Use a learner that is deterministic given its seed."
            )
        return state

    def _bytes(self) -> Any:
        self._model.check_whole()
        return self._model  # with its learner, which bytes of a state cannot hold

    def _from_bytes(self, data: Any) -> Model:
        model: Model = data
        return model

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # two estimators of one model would forget each other's rows

    def _from_file(self, meta: dict[str, Any], head: Buffer, fetch: Fetch) -> Model:
        meta, _ = read_sealed(head)
        self._check_kind(meta, "erasable-core-set")
        self._check_parameters()
        configuration = self._copied_configuration()
        for name, wanted in layout_of(configuration).described(configuration).items():
            if name not in ("n_features", "layout") and canonical_json(meta.get(name)) != canonical_json(wanted):
                raise ConfigurationError(f"like has another {name} than the file was made with: give the same.")
        return Model.restore(State.from_bytes(head, configuration))

    # -- predicting ----------------------------------------------------------------------------------------------

    @_offers("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: object) -> npt.NDArray[Any]:
        """The learner's probabilities, shape (n_samples, n_classes); one where one class is left.

        Parameters
        ----------
        X : array, SciPy sparse matrix or dataframe of shape (n_samples, n_features)
        """
        return super().predict_proba(X)

    @_offers("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: object) -> npt.NDArray[Any]:
        """The learner's scores; zeros where one class is left.

        Parameters
        ----------
        X : array, SciPy sparse matrix or dataframe of shape (n_samples, n_features)
        """
        return super().decision_function(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        learner = getattr(self, "learner", None)
        if hasattr(learner, "__sklearn_tags__"):
            tags.input_tags.sparse = get_tags(learner).input_tags.sparse
        return tags


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

    def prepared(self, X: MatrixLike, feature_map: FeatureMap | None, core: CoreRows) -> Any:
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
        ids: ColumnLike,
        progress: Progress | None,
        **sizes: int | None,
    ) -> SelectionResult:
        """What the map selects."""
        keys = ids.tolist() if isinstance(ids, np.ndarray) else ids
        index = core_positions(self.core_set, rows, labels, keys)
        return SelectionResult(index, [CoreSetRows.chosen(rows, labels, keys, index).rows], Decisions())

    def tilts_of(self, classes: Sequence[Any]) -> Float64s | None:
        """What the map says of these classes; None for a map that does not look at labels."""
        tilts: Float64s | None = self.core_set.tilts_of(classes) if hasattr(self.core_set, "tilts_of") else None
        return tilts

    def select_again(
        self, rows: object, labels: Sequence[Any], ids: Sequence[Any], progress: Progress | None
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

    def check_stored(self, rows: object) -> None:
        """Any finite rows may have been stored."""

    def row_tensors(self, rows: object) -> Tensors:
        """64-bit integers with the bits of the numbers, and where they stand."""
        return CoreSetRows(rows, [], []).tensors()

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
