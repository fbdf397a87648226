"""Algorithm 1 as linear estimators that forget bit for bit: a classifier and a regressor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from erasable.core.arrays import ColumnLike, Float64s, MatrixLike
from erasable.core.layout import Buffer
from erasable.errors import ConfigurationError, InputError
from erasable.estimators.base import ErasableClassifierBase, ErasableEstimator
from erasable.estimators.table_encoder import TableEncoder
from erasable.estimators.trained import Named, named_learner, try_out
from erasable.features import TABLES, TEXTS, as_texts
from erasable.models.configuration import (
    check_unchanged,
    configure,
    map_of,
    missing_of,
    selection_of,
    stored_map,
    warn_of_signs,
)
from erasable.models.files import Fetch, from_files
from erasable.models.heads.learner import Learner, learner_guarantee
from erasable.models.heads.linear import functions_of, linear_guarantee
from erasable.models.model import Model
from erasable.models.reports import Guarantee
from erasable.models.row_source import Rows


class LinearEstimator(ErasableEstimator):
    """An estimator whose predictions are a linear function of rows on a grid."""

    FORMAT: ClassVar[str] = "erasable-linear"
    selection: str | None
    learner: object = None  # subclasses that take one set it
    _tensors = True

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: MatrixLike,
        y: ColumnLike,
        ids: ColumnLike = None,
        subjects: ColumnLike = None,
        *,
        sample_weight: ColumnLike = None,
        allow_no_subject: bool = False,
    ) -> Self:
        """Fit a new model; everything that this estimator held before is overwritten.

        Parameters
        ----------
        X : array, SciPy sparse matrix, dataframe or tensor of PyTorch of shape (n_samples, n_features)
            The state depends on the numbers alone, not on the type of container. Missing and masked entries, dates,
            times, text and complex numbers are refused: encode them with a schema (``TableEncoder``). A tensor on a GPU
            stays there, and rows are copied when they are needed: with ``engine="torch"``, those that survive its
            screen. Gradients have no effect.
        y : array of shape (n_samples,)
            Labels: integers, strings, booleans or floats, two or more classes (one is allowed). For a regression
            numbers within their ranges, also of shape (n_samples, n_targets).
        ids : array of shape (n_samples,), optional
            Distinct integers, strings or bytes that name the rows; by default 0, 1, 2, ...
        subjects : array of shape (n_samples,) or (n_samples, n), list of lists or dataframe, optional
            To whom each row belongs; a subject may have many rows, and a row several subjects, in any order: it goes
            when any of them is forgotten. None, NaN, missing or masked entries and empty texts name nobody.
        sample_weight : array of shape (n_samples,), optional
            How much each row counts in the weights, 0 to 16, rounded to multiples of 1/16; by default 1. It is stored
            with its row. One that rounds to 0 means that the row is not learnt. Which rows are selected does not
            depend on the weights of the others.
        allow_no_subject : bool, default=False
            Learn rows for which ``subjects`` names nobody. Otherwise they are refused: no erasure by subject can reach
            them, only one by id.

        Returns
        -------
        self
        """
        self._learn(Rows(X, y, ids, subjects, sample_weight), fresh=True, allow_no_subject=allow_no_subject)
        return self

    def _check_rows_to_learn(
        self, X: object, y: object, *, first: bool
    ) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
        rows = _mapped_input(map_of(self), X)
        if rows is None:
            return super()._check_rows_to_learn(X, y, first=first)
        _, y, _ = super()._check_rows_to_learn(
            np.zeros((len(rows), 1)), y, first=True
        )  # for the labels and their number
        return rows, y, {}

    def _start(self, X: MatrixLike, y: ColumnLike, classes: ColumnLike, *, streaming: bool) -> Model:
        n_targets = None
        if isinstance(self, RegressorMixin):
            n_targets = y.shape[1] if y.ndim > 1 else 1
        self._check_parameters(classes)
        named = self.learner_named
        if named is not None:
            try_out(*named, classifies=n_targets is None)
        columns = X.shape[1] if X.ndim > 1 else None  # texts have no columns
        labels = None if n_targets else y
        configuration = configure(
            self, columns, X.shape[0], classes, streaming=streaming, n_targets=n_targets, labels=labels
        )
        warn_of_signs(configuration.grid)
        return Model(configuration, map_of(self, columns))

    @property
    def _takes_missing(self) -> bool:  # type: ignore[override]  # it depends on the parameters
        return missing_of(self) is not None

    @property
    def learner_named(self) -> Named | None:
        """The name and the parameters of the learner; None without one. Raises ConfigurationError."""
        if self.learner is None:
            return None
        return named_learner(self.learner, classifies=not isinstance(self, RegressorMixin))

    def _check_parameters(self, classes: object) -> None:
        """Raise ConfigurationError for arguments that contradict each other."""

    def _check_unchanged(self, model: Model, classes: object) -> None:
        self._check_parameters(classes)
        check_unchanged(self, model.configuration, classes)

    def _from_file(self, meta: dict[str, Any], head: Buffer, fetch: Fetch) -> Model:
        self._check_kind(meta, self.FORMAT, f"{self.FORMAT}-sharded", *([] if "kernel" in meta else ["erasable-model"]))
        state = from_files(head, fetch)
        by_name = isinstance(getattr(self, "feature_map", None), str)
        return self._agreed(Model.restore(state, stored_map(state.configuration) if by_name else map_of(self)))

    # -- predicting ----------------------------------------------------------------------------------------------

    def _check_rows_to_predict(self, X: object) -> Any:
        rows = _mapped_input(self._model.feature_map, X)
        if rows is None:
            return super()._check_rows_to_predict(X)
        if not len(rows):
            raise InputError("at least one row is required; got 0.")
        return rows

    @property
    def guarantee(self) -> Guarantee:
        """Exact system-aware unlearning, bitwise, and what a feature map makes you see to."""
        if self.__sklearn_is_fitted__():
            return self._model.guarantee
        independent = selection_of(self) == "independent"
        if self.learner is not None:
            return learner_guarantee(independent=independent)
        return linear_guarantee(map_of(self), independent=independent)

    @property
    def coef_(self) -> Float64s:
        """Weights of the features, for rows as ``scaling`` leaves them."""
        coefficients: Float64s = functions_of(self._linear("coef_"))[0]
        return coefficients

    @property
    def intercept_(self) -> Any:
        """The constant that is added to each score or prediction."""
        return functions_of(self._linear("intercept_"))[1]

    def _linear(self, attribute: str) -> Model:
        """Return the model, if its head is linear; AttributeError otherwise, as scikit-learn expects."""
        model = self._fitted(attribute)
        if isinstance(model.head, Learner):
            raise AttributeError(f"a model with a learner has no {attribute}.")
        return model

    @property
    def threshold_(self) -> float:
        """The threshold in force."""
        return float(self._fitted("threshold_").configuration.selection.threshold)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = getattr(self, "feature_map", None)
        takes = TABLES if isinstance(given, TableEncoder) else getattr(given, "takes", None)
        if takes == TEXTS:
            tags.input_tags.string = True
            tags.input_tags.one_d_array = True
            tags.input_tags.two_d_array = tags.input_tags.sparse = False
        elif takes == TABLES:
            tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
            tags.input_tags.sparse = False
        return tags


def _mapped_input(feature_map: Any, X: MatrixLike) -> Any:
    """Return the texts or the encoded table that a feature map takes; None if rows are numbers."""
    takes = getattr(feature_map, "takes", None)
    if takes == TABLES:
        return feature_map.prepared(X)
    return as_texts(X) if takes == TEXTS else None


class ErasableClassifier(LinearEstimator, ErasableClassifierBase):
    """A linear classifier that stores a small core set and forgets rows bit for bit.

    Rows stream through a selector that keeps a row only when the rows kept so far say little about its direction
    (its *leverage* is above a threshold). The model is logistic regression on the kept rows, and nothing else is
    stored. After ``forget``, the whole state is byte for byte what learning the surviving core rows gives;
    ``erasable.verify`` recomputes that from the state alone.

    Parameters
    ----------
    capacity : float, optional
        The regulariser lambda, held on the grid's own resolution, as a multiple of ``4**-grid_bits``. By default 0.005
        behind the log map, otherwise 0.02. Lower fits closer and stores a little more. In the paper it is also K, the
        number of core deletions that the accuracy bound covers: below 1 the bound covers none. Forgetting is exact for
        any number of deletions, whatever the capacity.
    threshold : float, optional
        A row is kept while its leverage is above this. Lower keeps more rows. By default 0.06, whatever the number of
        rows, unless ``kappa`` names another one. Refitting survivors with the same threshold gives the same state.
    kappa : float in [0, 1], optional
        The paper's way to name a threshold, ``horizon ** -kappa``, in place of ``threshold``. Higher keeps more rows.
    horizon : int, optional
        With ``kappa``: the number of rows expected, T. ``fit`` takes the number of rows it is given; ``partial_fit``
        on a new model needs it, since a threshold that moved with the stream would break forgetting.
    selection : "leverage" or "independent", optional
        Which rows are kept. ``"leverage"`` is Algorithm 1: a row is kept while the rows kept before it say little about
        its direction; forgetting equals learning the surviving *core* rows. ``"independent"``: each row is kept or not
        by itself, drawn by the hash of its id; forgetting equals learning *all* surviving rows, also those that were
        never stored. It has no use for ``threshold``, ``kappa``, ``horizon``, ``sample_rate`` and ``order="given"``.
        By default the one that the arguments given belong to; otherwise independent if the schema in ``feature_map``
        states moments, as drafts do, and leverage if not.
    rate : float in (0, 1], optional
        For independent selection: about the share of all rows that is stored; 1 stores every row. By default the rate
        that the schema in ``feature_map`` states, or 0.1.
    moments : array of shape (n_features,) or (n_features, n_features), optional
        For independent selection: public second moments of the rows as ``scaling`` leaves them. Rows that are unusual
        by them are kept more often. They must not come from rows that may have to be forgotten. By default those that
        the schema in ``feature_map`` states; without any, every row has the same chance.
    balance : 0, 0.5 or 1, optional
        For independent selection: how much rows of rare classes are kept more often, by ``class_shares``. Predictions
        take it back by public constants. By default 0.5 where shares are known, unless every row is stored or
        ``class_weight`` is given; then 0.
    class_shares : dict from labels to shares, optional
        The public share of each class. It fixes the classes. With ``balance``, by default those that the schema in
        ``feature_map`` states, spelt as in ``classes``, or as the schema spells them.
    fit_intercept : bool, default=True
        Append a constant to every row (regularised like the other coordinates).
    scaling : "row", None, float or array of shape (n_features,), default="row"
        How rows get into the unit ball. ``"row"`` divides each row by its norm; a number divides by it and refuses
        rows outside; an array divides columns by public scales and then each row by its norm; ``None`` requires
        norm at most one. Dividing by its norm leaves nothing of a single feature but its sign: give a number. This is
        configuration: it must not be fitted on rows that may have to be forgotten.
    centres : array of shape (n_features,), optional
        With ``feature_map="log"``: public numbers that are subtracted from the columns, for columns that lie far from
        zero compared with their spread, such as years and time stamps.
    missing : "indicator", optional
        With ``feature_map="log"``: take NaN. It becomes 0, and each column has another one that is 1 where it is
        missing, all columns alike, so that nothing follows from the rows. Trees (``learner=``) take NaN without it.
    feature_map : "auto", "log", None, FeatureMap or TableEncoder, default="auto"
        ``"log"`` is :class:`~erasable.features.LogFeatures`: each cell goes through a piecewise linear logarithm and a
        constant takes the place of the intercept, so that columns may differ in size and have heavy tails. With an
        array, ``scaling`` then divides the columns before the logarithm. ``"auto"`` is ``"log"`` unless other arguments
        are about rows as they are: ``scaling=None`` or a number, or ``moments``. None leaves rows as they are. Trees
        (``learner=``) see the rows as they are in any case: the map then counts in the selection alone. One of
        :mod:`erasable.features`, or a schema: rows go in raw, numbers, texts or a table, are mapped a block at a time
        (a table at once), and core rows are stored mapped. The map is configuration, and its description part of the
        state: it never learns from rows, hence has nothing to forget. ``coef_``, and ``scaling`` unless the map is
        given by name, are then those of mapped rows.
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
    loss : "logistic" or "squared", optional
        By default logistic. What the published weights minimise over the core rows: that of logistic regression,
        ``alpha / 2 |w|^2 + sum c_i log(1 + exp(-y_i w'x_i))``, or the squared loss, whose minimiser is the ridge
        solution of the paper: it is solved faster, and its probabilities are worse. Rows are selected alike. More than
        two classes are fitted one against the rest.
    alpha : float, optional
        The regulariser of the logistic loss, held on the grid's resolution like ``capacity``. By default 1 with
        ``head_scaling="spread"``, the default behind the log map; otherwise 0.1 behind a schema and 0.01 without.
        Not for the squared loss, whose regulariser is the capacity.
    head_scaling : "flat" or "spread", optional
        How the logistic loss regularises columns. ``"flat"``: all alike, so a column of small numbers needs large
        weights and counts for little. ``"spread"``, the default behind the log map for up to 1,000 columns: each by
        ``alpha`` times about its variance over the core rows, as logistic regression behind a ``StandardScaler`` does.
        The variances follow from the core rows, also after rows are forgotten: nothing about other rows is stored.
        Most of many columns are rare, as those of one-hot rows, and would be learnt by heart.
    learner : str, dict or estimator, optional
        Train this on the core rows in place of a linear head: ``"lightgbm"``, ``"hist_gradient_boosting"``,
        ``"random_forest"``, ``"extra_trees"``, ``"sklearn_logistic"``, ``"xgboost"``, ``"hessboost"``; such an
        estimator, unfitted; or a dictionary with the name as ``learner`` and its parameters. Trees see raw columns,
        as the schema reads them, and rows are selected by their encoded form. The state holds the name, the parameters
        and the rows, never the fitted learner, which is trained when it is first needed. See docs/learners.md.
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
    core_ids_ : array of shape (n_core,)
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
        capacity: float | None = None,
        *,
        threshold: float | None = None,
        kappa: float | None = None,
        horizon: int | None = None,
        selection: str | None = None,
        rate: float | None = None,
        moments: object = None,
        balance: float | None = None,
        class_shares: object = None,
        fit_intercept: bool = True,
        scaling: object = "row",
        centres: object = None,
        missing: str | None = None,
        feature_map: object = "auto",
        classes: object = None,
        feature_names: object = None,
        grid_bits: int = 15,
        loss: str | None = None,
        alpha: float | None = None,
        head_scaling: str | None = None,
        learner: object = None,
        class_weight: object = None,
        sample_rate: float = 0.0,
        order: str = "hashed",
        random_state: int = 0,
        engine: object = None,
    ) -> None:
        self.capacity = capacity
        self.threshold = threshold
        self.kappa = kappa
        self.horizon = horizon
        self.selection = selection
        self.rate = rate
        self.moments = moments
        self.balance = balance
        self.class_shares = class_shares
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.centres = centres
        self.missing = missing
        self.feature_map = feature_map
        self.classes = classes
        self.feature_names = feature_names
        self.grid_bits = grid_bits
        self.loss = loss
        self.alpha = alpha
        self.head_scaling = head_scaling
        self.learner = learner
        self.class_weight = class_weight
        self.sample_rate = sample_rate
        self.order = order
        self.random_state = random_state
        self.engine = engine

    def partial_fit(
        self,
        X: MatrixLike,
        y: ColumnLike,
        ids: ColumnLike = None,
        subjects: ColumnLike = None,
        classes: ColumnLike = None,
        *,
        sample_weight: ColumnLike = None,
        allow_no_subject: bool = False,
        replace: bool = False,
    ) -> Self:
        """Learn more rows after those learnt before.

        Parameters
        ----------
        X, y, ids, subjects, sample_weight, allow_no_subject
            As in ``fit``. Give ``ids`` in production: without them rows are numbered on from the largest id among the
            *core* rows, because a count of all rows ever seen would be a trace of them.
        classes : array-like, optional
            At the first call: all classes, fixed from then on.
        replace : bool, default=False
            Correct rows: a row whose id is stored replaces the stored one, instead of being refused. Needs ``ids``.
            *Law*: the state is that of ``forget(ids=ids)``, then learning these rows. With independent selection it is
            therefore that of one ``fit`` with these rows in place of the old ones, whether those were stored or not.

        Returns
        -------
        self
        """
        rows = Rows(X, y, ids, subjects, sample_weight)
        self._learn(rows, classes=classes, streaming=True, allow_no_subject=allow_no_subject, replacing=replace)
        return self

    def _check_parameters(self, classes: object) -> None:
        if self.learner is not None:
            of_head = "loss", "alpha", "head_scaling", "class_weight"
            given = [n for n in of_head if getattr(self, n) is not None]
            if given:
                raise ConfigurationError(
                    f"{' and '.join(given)} are for the linear heads, and learner= names another head: leave one of "
                    "them out. Weights of classes are a parameter of the learner."
                )
            return
        if self.alpha is not None and self.loss == "squared":
            raise ConfigurationError(
                'alpha is the regulariser of loss="logistic", and that of loss="squared" is the capacity: leave alpha '
                "out, or change the loss."
            )
        if self.head_scaling is not None and self.loss == "squared":
            raise ConfigurationError(
                'head_scaling is for loss="logistic", and loss="squared" regularises all columns alike: leave '
                "head_scaling out, or change the loss."
            )


class ErasableRegressor(RegressorMixin, LinearEstimator):
    """A linear regression that stores a small core set and forgets rows bit for bit.

    Rows are kept as by ``ErasableClassifier``: selection does not look at what they answer. Targets lie in a range that
    the caller declares and are rounded to a grid of it, so that their sums are integers; the model is the ridge
    solution on the kept rows. After ``forget``, the whole state is byte for byte what learning the surviving core rows
    gives; ``erasable.verify`` recomputes that from the state alone.

    Parameters
    ----------
    target_range : pair of float, or one pair for each target, default=None
        Between which numbers targets lie, the ends included; one pair stands for all targets. By default what the
        schema in ``feature_map`` declares, and -1000 to 1000 where there is none. Declare what you know of
        them beforehand: a range taken from rows would be a trace of them. A target outside is refused. Targets are
        rounded to ``2**(grid_bits + 1) - 1`` equally spaced numbers from end to end, and where the targets of a call
        lie within 32 of these a warning says so. Predictions shrink towards the middle of the range, as the intercept
        is regularised, and are clipped to its ends.
    capacity : float, optional
        The regulariser lambda, held on the grid's own resolution, as a multiple of ``4**-grid_bits``. By default 0.001
        behind the log map, otherwise 0.02. Lower fits closer and stores a little more. The paper's bounds are about
        classes, and cover no deletions here.
    threshold, kappa, horizon, selection, rate, moments
        As in ``ErasableClassifier``.
    fit_intercept, scaling, centres, missing, feature_map, feature_names, grid_bits, sample_rate
        As in ``ErasableClassifier``.
    learner : str, dict or estimator, optional
        As in ``ErasableClassifier``, with regressors, and ``"sklearn_ridge"`` in place of ``"sklearn_logistic"``.
    order, random_state, engine
        As in ``ErasableClassifier``.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        Acts on rows as ``scaling`` leaves them: with ``"row"``, predictions are ``X / |X| @ coef_.T + intercept_``,
        clipped to the range.
    intercept_ : float or array of shape (n_targets,)
    core_ids_, n_core_, threshold_, stored_rows_, stored_bytes_, guarantee, n_features_in_, feature_names_in_
        As in ``ErasableClassifier``.

    Examples
    --------
    >>> from sklearn.base import clone
    >>> from sklearn.datasets import load_diabetes
    >>> from erasable import ErasableRegressor, verify
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = ErasableRegressor(target_range=(0, 400), scaling=0.5).fit(X, y)
    >>> report = reg.forget(ids=reg.core_ids_[:3])
    >>> kept = reg.core_ids_
    >>> refit = clone(reg).fit(X[kept], y[kept], ids=kept)
    >>> refit.state_digest() == reg.state_digest() == report.digest == verify(reg).digest
    True
    """

    if TYPE_CHECKING:  # scikit-learn has no types for it

        def score(self, X: object, y: object, sample_weight: object = None) -> float:
            """Return the coefficient of determination, R²."""

    FORMAT = "erasable-regression"

    def __init__(
        self,
        target_range: object = None,
        capacity: float | None = None,
        *,
        threshold: float | None = None,
        kappa: float | None = None,
        horizon: int | None = None,
        selection: str | None = None,
        rate: float | None = None,
        moments: object = None,
        fit_intercept: bool = True,
        scaling: object = "row",
        centres: object = None,
        missing: str | None = None,
        feature_map: object = "auto",
        feature_names: object = None,
        grid_bits: int = 15,
        learner: object = None,
        sample_rate: float = 0.0,
        order: str = "hashed",
        random_state: int = 0,
        engine: object = None,
    ) -> None:
        self.target_range = target_range
        self.capacity = capacity
        self.threshold = threshold
        self.kappa = kappa
        self.horizon = horizon
        self.selection = selection
        self.rate = rate
        self.moments = moments
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.centres = centres
        self.missing = missing
        self.feature_map = feature_map
        self.feature_names = feature_names
        self.grid_bits = grid_bits
        self.learner = learner
        self.sample_rate = sample_rate
        self.order = order
        self.random_state = random_state
        self.engine = engine

    def partial_fit(  # type: ignore[override]  # there are no classes
        self,
        X: MatrixLike,
        y: ColumnLike,
        ids: ColumnLike = None,
        subjects: ColumnLike = None,
        *,
        sample_weight: ColumnLike = None,
        allow_no_subject: bool = False,
        replace: bool = False,
    ) -> Self:
        """Learn more rows after those learnt before.

        Parameters
        ----------
        X, y, ids, subjects, sample_weight, allow_no_subject, replace
            As in ``ErasableClassifier.partial_fit``; ``y`` are targets.
        """
        rows = Rows(X, y, ids, subjects, sample_weight)
        self._learn(rows, streaming=True, allow_no_subject=allow_no_subject, replacing=replace)
        return self

    def _check_parameters(self, classes: object) -> None:
        if classes is not None:
            raise ConfigurationError("a regression has no classes: leave them out.")

    @property
    def coef_(self) -> Float64s:
        """Weights of the features, for rows as ``scaling`` leaves them."""
        found = super().coef_
        return found if len(found) > 1 else found[0]

    @property
    def intercept_(self) -> Any:
        """The constant that is added to each prediction."""
        found = super().intercept_
        return found if len(found) > 1 else float(found[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
