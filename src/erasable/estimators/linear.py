"""Algorithm 1 as a scikit-learn classifier that forgets bit for bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from erasable.core.grid import Float64s, scale_rows
from erasable.core.selector import RawRows
from erasable.core.state import from_bytes
from erasable.estimators._erasable import ErasableBase
from erasable.estimators._input import check_ball
from erasable.estimators._memory import CoreMemory
from erasable.estimators._parameters import check_unchanged, configure, warn_of_signs

_PREDICT_BLOCK = 2**20  # numbers handled at once when predicting


class ErasableClassifier(ErasableBase):
    """A linear classifier that stores a small core set and forgets rows bit for bit.

    Rows stream through a selector that keeps a row only when the rows kept so far say little about its direction
    (its *leverage* is above a threshold). The model is the ridge solution on the kept rows, and nothing else is
    stored. After ``forget``, the whole state is byte for byte what learning the surviving core rows gives;
    ``erasable.verify`` recomputes that from the state alone.

    Parameters
    ----------
    capacity : float, default=1.0
        The paper's K, which is also the regulariser lambda: how many core deletions the accuracy bound is made for.
        Held on the grid's own resolution, as a multiple of ``4**-grid_bits``.
    kappa : float in [0, 1], default=0.2
        Sets the threshold to ``horizon ** -kappa``. Higher keeps more rows.
    threshold : float, optional
        The threshold itself; ``kappa`` and ``horizon`` then play no part. Refitting survivors with
        ``threshold=clf.threshold_`` gives the same state.
    horizon : int, optional
        The number of rows expected, T. ``fit`` takes the number of rows it is given; ``partial_fit`` on a new model
        needs this or ``threshold``, since a threshold that moved with the stream would break forgetting.
    fit_intercept : bool, default=True
        Append a constant to every row (regularised like the other coordinates).
    scaling : "row", None, float or array of shape (n_features,), default="row"
        How rows get into the unit ball. ``"row"`` divides each row by its norm; a number divides by it and refuses
        rows outside; an array divides columns by public scales and then each row by its norm; ``None`` requires
        norm at most one. Dividing by its norm leaves nothing of a single feature but its sign: give a number. This is
        configuration: it must not be fitted on rows that may have to be forgotten.
    classes : array-like, optional
        All classes, fixed by the caller. Otherwise the classes are those of the surviving core rows, and one whose last
        core row is forgotten is gone: of two classes the other one is then predicted for every row, and ``forget``
        warns. With fixed classes the prediction stays the paper's ``sign(w'x)``.
    feature_names : array-like of str, optional
        Names of the columns, fixed by the caller and stored with the model. Rows with other names are refused. Names
        that come with a dataframe alone are kept as scikit-learn keeps them, in memory and not in the state, so that
        the state does not depend on what rows were handed in as.
    grid_bits : int, default=15
        Rows are rounded to multiples of ``2**-grid_bits``.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (1 or n_classes, n_features)
        The exact ridge solution, correctly rounded to float32, times the length that unit rows have on the grid. Acts
        on rows as ``scaling`` leaves them: with ``"row"``, scores are ``X / |X| @ coef_.T + intercept_``.
    intercept_ : array of shape (1 or n_classes,)
    core_ids_ : array of shape (n_core_,)
        Ids of the core rows in learning order.
    n_core_ : int
    threshold_ : float
    stored_rows_, stored_bytes_ : int
        What the model holds: rows, and bytes of rows, sums and weights.
    guarantee : Guarantee
        What holds after ``forget``, as a record.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        Only when the input has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import clone
    >>> from erasable import ErasableClassifier, verify
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 5))
    >>> y = np.where(X[:, 0] > 0, "spam", "ham")
    >>> clf = ErasableClassifier(kappa=0.5).fit(X, y)
    >>> report = clf.forget(ids=clf.core_ids_[:3])
    >>> report.core_rows_removed
    3
    >>> kept = clf.core_ids_
    >>> refit = clone(clf).set_params(threshold=clf.threshold_).fit(X[kept], y[kept], ids=kept)
    >>> refit.state_digest() == clf.state_digest() == report.digest
    True
    >>> verify(clf).rows == clf.n_core_
    True
    """

    def __init__(
        self,
        capacity: float = 1.0,
        kappa: float = 0.2,
        *,
        threshold: float | None = None,
        horizon: int | None = None,
        fit_intercept: bool = True,
        scaling: Any = "row",
        classes: Any = None,
        feature_names: Any = None,
        grid_bits: int = 15,
    ) -> None:
        self.capacity = capacity
        self.kappa = kappa
        self.threshold = threshold
        self.horizon = horizon
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.classes = classes
        self.feature_names = feature_names
        self.grid_bits = grid_bits

    # -- how it learns -------------------------------------------------------------------------------------------

    _memory: CoreMemory

    def _start(self, n_features: int, n_samples: int, classes: Any, *, streaming: bool) -> CoreMemory:
        configuration = configure(self, n_features, n_samples, classes, streaming=streaming)
        warn_of_signs(configuration.grid)
        return CoreMemory.empty(configuration)

    def _check_unchanged(self, memory: CoreMemory, classes: Any) -> None:
        check_unchanged(self, memory.configuration, classes)

    def _prepare(self, X: Any, memory: CoreMemory) -> RawRows:
        rows = RawRows(X, memory.configuration.grid)
        check_ball(rows)
        return rows

    def _restored(self, data: bytes) -> CoreMemory:
        return CoreMemory.restore(from_bytes(data))

    # -- predicting ----------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Float64s:
        """``w'x`` for each row: shape (n_samples,) for one or two classes, (n_samples, n_classes) otherwise."""
        memory, X = self._rows_to_predict(X)
        W, offset, grid = self.coef_, self.intercept_, memory.configuration.grid
        scores = np.empty((X.shape[0], len(W)))
        step = max(1, _PREDICT_BLOCK // grid.n_columns)
        for low in range(0, X.shape[0], step):
            part = X[low : low + step]
            part = part if isinstance(part, np.ndarray) else part.toarray()
            scores[low : low + step] = scale_rows(part, grid) @ W.T + offset
        return scores if len(W) > 1 else scores[:, 0]

    @property
    def coef_(self) -> Float64s:
        """Weights of the features, for rows as ``scaling`` leaves them."""
        coefficients: Float64s = self._attribute("coef_").coefficients()
        return coefficients

    @property
    def intercept_(self) -> Float64s:
        """The constant that the appended coordinate adds to ``w'x``."""
        memory = self._attribute("intercept_")
        grid = memory.configuration.grid
        if not grid.intercept:
            return np.zeros(len(memory.weights()))
        constants: Float64s = memory.weights()[:, -1].astype(np.float64) * math.ldexp(grid.constant, -grid.bits)
        return constants
