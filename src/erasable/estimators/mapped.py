"""The classifier behind a fixed feature map: kernels, texts and embeddings that can be forgotten bit for bit."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.classes.feature_maps import FeatureMap, RandomFourierFeatures
from erasable.classes.feature_maps._base import TEXTS
from erasable.classes.feature_maps._texts import as_texts
from erasable.core.grid import Float64s
from erasable.core.layout import canonical_json
from erasable.core.selector import RawRows
from erasable.errors import ConfigurationError, InputError
from erasable.estimators._guarantee import Guarantee
from erasable.estimators._input import check_ball, check_rows
from erasable.estimators._memory import CoreMemory
from erasable.estimators.linear import ErasableClassifier

_PREDICT_BLOCK = 2**20  # numbers handled at once when predicting


@dataclass(frozen=True)
class MappedRows(RawRows):
    """Raw rows that are mapped when they are read, a block at a time."""

    feature_map: FeatureMap

    def dense(self, rows: Any) -> npt.NDArray[Any]:
        """The named rows, mapped, as a dense array."""
        part = self.feature_map(self.X[rows])
        return part if isinstance(part, np.ndarray) else part.toarray()


class ErasableMappedClassifier(ErasableClassifier):
    """``ErasableClassifier`` on rows that a fixed feature map makes of the raw ones; forgets bit for bit.

    Rows go in raw, numbers or texts, and are mapped a block at a time; core rows are stored mapped, and raw rows are
    not stored. So ``forget`` and ``erasable.verify`` are those of ``ErasableClassifier``: after ``forget``, the whole
    state is byte for byte what learning the surviving core rows gives. The map itself is configuration. It never
    learns from rows, hence has nothing to forget.

    Parameters
    ----------
    feature_map : FeatureMap, optional
        One of :mod:`erasable.classes.feature_maps`; by default ``RandomFourierFeatures()``.
    capacity, kappa, threshold, horizon, fit_intercept, classes, grid_bits
        As in ``ErasableClassifier``.
    scaling : "row", None, float or array of shape (n_features_out,), default="row"
        As in ``ErasableClassifier``, for mapped rows.

    Attributes
    ----------
    feature_map_ : FeatureMap
        The map in force, from the first rows on.
    coef_ : array of shape (1 or n_classes, n_features_out)
        Weights of the mapped features.
    n_features_in_ : int
        Features of a raw row; only for maps of numbers.
    classes_, intercept_, core_ids_, n_core_, threshold_, stored_rows_, stored_bytes_, guarantee, feature_names_in_
        As in ``ErasableClassifier``.

    Notes
    -----
    *Law*: bitwise, as for ``ErasableClassifier``. ``state_digest`` covers the mapped rows, all that follows from them,
    and the description of the map; the map itself is not stored.
    *Cost*: a row is mapped once, and once more if it is a candidate for the core set; also once more with ``scaling``
    None or a number, which needs its norm first. Memory beside the raw rows: the core set, the sums and one block of
    mapped rows.

    A pickle carries the map; with a ``FrozenMap`` its function must be picklable.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from erasable import verify
    >>> from erasable.classes.feature_maps import RandomFourierFeatures
    >>> from erasable.estimators.mapped import ErasableMappedClassifier
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> clf = ErasableMappedClassifier(RandomFourierFeatures(100, gamma=2.0), capacity=0.01, kappa=0.5).fit(X, y)
    >>> bool(clf.score(X, y) > 0.99)
    True
    >>> _ = clf.forget(ids=clf.core_ids_[:5])
    >>> verify(clf).digest == clf.state_digest()
    True
    """

    def __init__(
        self,
        feature_map: FeatureMap | None = None,
        capacity: float = 1.0,
        kappa: float = 0.2,
        *,
        threshold: float | None = None,
        horizon: int | None = None,
        fit_intercept: bool = True,
        scaling: Any = "row",
        classes: Any = None,
        grid_bits: int = 15,
    ) -> None:
        self.feature_map = feature_map
        self.capacity = capacity
        self.kappa = kappa
        self.threshold = threshold
        self.horizon = horizon
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.classes = classes
        self.grid_bits = grid_bits

    feature_names = None  # of the columns that the map makes; it makes none
    feature_map_: FeatureMap

    # -- learning and predicting ---------------------------------------------------------------------------------

    def _check_learnt(self, X: Any, y: Any, *, first: bool) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
        feature_map = self._chosen_map()
        X, y, schema = self._check_labelled(feature_map, X, y, first=first)
        return X, y, {**schema, "feature_map_": feature_map}

    def _start(self, n_features: int, n_samples: int, classes: Any, *, streaming: bool) -> CoreMemory:
        chosen = self._chosen_map()
        memory = super()._start(chosen.n_features_out, n_samples, classes, streaming=streaming)
        taken = None if chosen.takes == TEXTS else n_features
        text = canonical_json({"map": chosen.describe(), "n_features": taken})
        memory.configuration = dataclasses.replace(memory.configuration, feature_map=text)
        return memory

    def _check_unchanged(self, memory: CoreMemory, classes: Any) -> None:
        if self._chosen_map() != self.feature_map_:
            raise ConfigurationError(
                "feature_map changed since the model was first fitted, which would make two models of it: set the old "
                "value again, or call fit to start anew."
            )
        super()._check_unchanged(memory, classes)

    def _prepare(self, X: Any, memory: CoreMemory) -> RawRows:
        rows = MappedRows(X, memory.configuration.grid, self._chosen_map())
        check_ball(rows)
        return rows

    def decision_function(self, X: Any) -> Float64s:
        """``w'z`` for each mapped row ``z``: shape (n_samples,) for one or two classes, else (n_samples, n_classes)."""
        memory = self._fitted("predict")
        X = self._check_raw(self.feature_map_, X)
        linear = ErasableClassifier()
        linear._memory = memory
        step = max(1, _PREDICT_BLOCK // memory.configuration.grid.n_columns)
        blocks = (X[low : low + step] for low in range(0, X.shape[0], step))
        return np.concatenate([linear.decision_function(self.feature_map_(block)) for block in blocks])

    # -- raw rows ------------------------------------------------------------------------------------------------

    def _chosen_map(self) -> FeatureMap:
        """The map that the parameter names."""
        if self.feature_map is None:
            return RandomFourierFeatures()
        if not isinstance(self.feature_map, FeatureMap):
            raise ConfigurationError(
                f"feature_map must be a FeatureMap, such as RandomFourierFeatures or HashedText; got "
                f"{type(self.feature_map).__name__}. Wrap a function of your own in FrozenMap."
            )
        return self.feature_map

    def _check_raw(self, feature_map: FeatureMap, X: Any) -> Any:
        """Raw rows to predict: texts, or numbers with the columns that the model was fitted with."""
        if feature_map.takes != TEXTS:
            return check_rows(self, X, first=False)[0]
        texts = as_texts(X)
        if not len(texts):
            raise InputError("at least one text is required; got 0.")
        return texts

    def _check_labelled(
        self, feature_map: FeatureMap, X: Any, y: Any, *, first: bool
    ) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
        """Raw rows, labels and schema; texts have none."""
        if feature_map.takes != TEXTS:
            return check_rows(self, X, y, first=first)
        texts = as_texts(X)
        _, y, _ = check_rows(self, np.zeros((len(texts), 1)), y, first=True)  # for the labels and their number
        return texts, y, {}

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """Exact system-aware unlearning, bitwise, and what the map makes you see to."""
        chosen = self.feature_map_ if self.__sklearn_is_fitted__() else self._chosen_map()
        return dataclasses.replace(super().guarantee, assumptions=chosen.assumptions)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if getattr(getattr(self, "feature_map", None), "takes", None) == TEXTS:
            tags.input_tags.string = True
            tags.input_tags.one_d_array = True
            tags.input_tags.two_d_array = tags.input_tags.sparse = False
        return tags
