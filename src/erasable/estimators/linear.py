"""Algorithm 1 as a scikit-learn classifier that forgets bit for bit."""

from __future__ import annotations

from typing import Any, Self

from erasable.errors import ConfigurationError
from erasable.estimators.linear_face import LinearFace, width_of
from erasable.estimators.streaming import ErasableBase
from erasable.models.configuration import check_unchanged, configure, map_of, warn_of_signs
from erasable.models.model import Model


class ErasableClassifier(LinearFace, ErasableBase):
    """A linear classifier that stores a small core set and forgets rows bit for bit.

    Rows stream through a selector that keeps a row only when the rows kept so far say little about its direction
    (its *leverage* is above a threshold). The model is the ridge solution on the kept rows, and nothing else is
    stored. After ``forget``, the whole state is byte for byte what learning the surviving core rows gives;
    ``erasable.verify`` recomputes that from the state alone.

    Parameters
    ----------
    capacity : float, default=0.02
        The regulariser lambda, held on the grid's own resolution, as a multiple of ``4**-grid_bits``. Lower fits closer
        and stores a little more. In the paper it is also K, the number of core deletions that the accuracy bound
        covers: below 1 the bound covers none. Forgetting is exact for any number of deletions, whatever the capacity.
    threshold : float, optional
        A row is kept while its leverage is above this. Lower keeps more rows. By default 0.06, whatever the number of
        rows, unless ``kappa`` names another one. Refitting survivors with the same threshold gives the same state.
    kappa : float in [0, 1], optional
        The paper's way to name a threshold, ``horizon ** -kappa``, in place of ``threshold``. Higher keeps more rows.
    horizon : int, optional
        With ``kappa``: the number of rows expected, T. ``fit`` takes the number of rows it is given; ``partial_fit``
        on a new model needs it, since a threshold that moved with the stream would break forgetting.
    fit_intercept : bool, default=True
        Append a constant to every row (regularised like the other coordinates).
    scaling : "row", None, float or array of shape (n_features,), default="row"
        How rows get into the unit ball. ``"row"`` divides each row by its norm; a number divides by it and refuses
        rows outside; an array divides columns by public scales and then each row by its norm; ``None`` requires
        norm at most one. Dividing by its norm leaves nothing of a single feature but its sign: give a number. This is
        configuration: it must not be fitted on rows that may have to be forgotten.
    feature_map : FeatureMap or TableEncoder, optional
        One of :mod:`erasable.features`, or a schema: rows go in raw, numbers, texts or a table, are mapped a block at
        a time (a table at once), and core rows are stored mapped. The map is configuration, and its description part
        of the state: it never learns from rows, hence has nothing to forget. ``scaling`` and ``coef_`` are then those
        of mapped rows.
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
    loss : "squared" or "logistic", default="squared"
        What the published weights minimise over the core rows: the ridge solution, or that of logistic regression,
        ``alpha / 2 |w|^2 + sum c_i log(1 + exp(-y_i w'x_i))``. Rows are selected alike. More than two classes are
        fitted one against the rest.
    alpha : float, optional
        The regulariser of the logistic loss, held on the grid's resolution like ``capacity``, which it is by default.
        Not for the squared loss, whose regulariser is the capacity.
    class_weight : None, "balanced" or dict from labels to weights, default=None
        With the logistic loss rows count as often as the weight of their class says. With the squared loss it moves the
        decision alone: see docs/exactness.md. ``"balanced"`` is a function of the surviving core rows: all their
        weight, divided by the number of classes times the weight of the class. Weights are rounded to float32 and lie
        between 2**-16 and 2**16; a class that the dictionary does not name has weight 1.
    sample_rate : float in [0, 1], default=0.0
        A row is also kept, whatever its leverage, when the keyed hash of its id is below this share of all hashes.
        Rows then need ids. With ``threshold=math.inf`` only such rows are kept.
    order : "hashed" or "given", default="hashed"
        In which order the rows of one call are decided, after the core rows already there. ``"hashed"``: by a keyed
        hash of their ids, so that the order of the input plays no part; see docs/exactness.md. ``"given"``: as
        they come, the paper's literal loop; a table sorted by class or date then makes a poor core set.
    random_state : int, default=0
        The key of the hashes, zero or more; configuration, and part of the state. With ``order="given"`` and no
        ``sample_rate`` it plays no part.
        Where others choose ids, one that they do not know: ``secrets.randbits(128)``.
    engine : None, "local", "torch", "dask" or Engine, default=None
        Where rows are screened: see ``erasable.engines`` and docs/scale.md. It changes the speed and nothing else: it
        is no part of the state, and no file or pickle holds it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (1 or n_classes, n_features)
        The exact solution for the loss, rounded to float32 as docs/exactness.md says, times the length that unit rows
        have on the grid. Acts on rows as ``scaling`` leaves them: with ``"row"``, scores are
        ``X / |X| @ coef_.T + intercept_``.
    intercept_ : array of shape (1 or n_classes,)
        With what ``class_weight`` moves the decision by.
    core_ids_ : array of shape (n_core_,)
        Ids of the core rows in learning order.
    n_core_ : int
    threshold_ : float
    stored_rows_, stored_bytes_ : int
        What the model holds: rows, and bytes of rows, sums and weights.
    guarantee : Guarantee
        What holds after ``forget``, as a record.
    n_features_in_ : int
        Features of a row as it comes; not for texts.
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
    >>> clf = ErasableClassifier().fit(X, y)
    >>> report = clf.forget(ids=clf.core_ids_[:3])
    >>> report.core_rows_removed
    3
    >>> kept = clf.core_ids_
    >>> refit = clone(clf).fit(X[kept], y[kept], ids=kept)
    >>> refit.state_digest() == clf.state_digest() == report.digest
    True
    >>> verify(clf).core_rows == clf.n_core_
    True
    """

    def __init__(
        self,
        capacity: float = 0.02,
        *,
        threshold: float | None = None,
        kappa: float | None = None,
        horizon: int | None = None,
        fit_intercept: bool = True,
        scaling: Any = "row",
        feature_map: Any = None,
        classes: Any = None,
        feature_names: Any = None,
        grid_bits: int = 15,
        loss: str = "squared",
        alpha: float | None = None,
        class_weight: Any = None,
        sample_rate: float = 0.0,
        order: str = "hashed",
        random_state: int = 0,
        engine: Any = None,
    ) -> None:
        self.capacity = capacity
        self.threshold = threshold
        self.kappa = kappa
        self.horizon = horizon
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.feature_map = feature_map
        self.classes = classes
        self.feature_names = feature_names
        self.grid_bits = grid_bits
        self.loss = loss
        self.alpha = alpha
        self.class_weight = class_weight
        self.sample_rate = sample_rate
        self.order = order
        self.random_state = random_state
        self.engine = engine

    # -- learning ------------------------------------------------------------------------------------------------

    def partial_fit(
        self,
        X: Any,
        y: Any,
        ids: Any = None,
        subjects: Any = None,
        classes: Any = None,
        *,
        sample_weight: Any = None,
        allow_no_subject: bool = False,
    ) -> Self:
        """Learn more rows after those learnt before.

        Parameters
        ----------
        X, y, ids, subjects, sample_weight, allow_no_subject
            As in ``fit``. Give ``ids`` in earnest use: without them rows are numbered on from the largest id among
            the *core* rows, because a count of all rows ever seen would be a trace of them.
        classes : array-like, optional
            At the first call: all classes, fixed from then on.

        Returns
        -------
        self
        """
        self.learn(
            X,
            y,
            ids=ids,
            subjects=subjects,
            classes=classes,
            sample_weight=sample_weight,
            streaming=True,
            allow_no_subject=allow_no_subject,
        )
        return self

    # -- the model behind it -------------------------------------------------------------------------------------

    def _start(self, X: Any, y: Any, classes: Any, *, streaming: bool) -> Model:
        self._check_alpha()
        configuration = configure(self, width_of(X), X.shape[0], classes, streaming=streaming)
        warn_of_signs(configuration.grid)
        return Model(configuration, map_of(self))

    def _check_alpha(self) -> None:
        if self.alpha is not None and self.loss == "squared":
            raise ConfigurationError(
                'alpha is the regulariser of loss="logistic", and that of loss="squared" is the capacity: leave alpha '
                "out, or change the loss."
            )

    def _check_unchanged(self, model: Model, classes: Any) -> None:
        self._check_alpha()
        check_unchanged(self, model.configuration, classes)
