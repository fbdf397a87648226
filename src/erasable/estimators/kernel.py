"""Algorithm 2 as classifiers that forget bit for bit: over the ball of a kernel space, and over any function class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from erasable.classes import FunctionClass, LinearBall
from erasable.core.arrays import ColumnLike, MatrixLike
from erasable.core.grid import plain_scaling
from erasable.core.kernels import KERNEL_BITS, Kernel, Points
from erasable.core.layout import Buffer, canonical_json, read_sealed
from erasable.coresets import SinglePass, Staged
from erasable.errors import ConfigurationError, StateFormatError
from erasable.estimators.base import ErasableClassifierBase
from erasable.models.configuration import (
    DEFAULT_KERNEL_THRESHOLD,
    SELECTION_NAMES,
    Configuration,
    check_memory,
    fixed_classes,
    names_of_features,
    order_key,
    refuse_rule,
    rule_of,
    sorted_classes,
    warn_of_signs,
)
from erasable.models.files import Fetch, read_kernel
from erasable.models.heads.general import FunctionClassFit, general_guarantee
from erasable.models.heads.kernel import KernelRidge, kernel_guarantee
from erasable.models.model import Model
from erasable.models.reports import Guarantee
from erasable.models.selections import FunctionClassSelection, IndependentPoints, KernelDisagreement
from erasable.models.state import State, layout_of
from erasable.validation import choice, positive_number, whole_number


class ErasableKernelClassifier(ErasableClassifierBase):
    """A kernel classifier that stores a small core set and forgets rows bit for bit.

    Rows stream through one pass that keeps a row only when the kept ones say little about it: when two functions in
    the ball of radius B of the kernel's space could agree on the kept rows and still differ there. The model is kernel
    ridge regression on the kept rows, and nothing else is stored. After ``forget``, the whole state is byte for byte
    what learning the surviving core rows gives; ``erasable.verify`` recomputes that from the state alone.

    Rows are rounded to multiples of ``2**-grid_bits`` and kernel values to multiples of ``2**-30``, so that both, and
    every decision about them, are integers and the same on every machine.

    Parameters
    ----------
    kernel : "rbf", "matern", "poly", "linear" or callable, default="rbf"
        A callable takes two arrays of rows and returns their kernel matrix. It must be positive definite and its value
        for a pair of rows must not depend on what else is in the call. ``fit`` refuses a function that shows not to be
        positive definite, or whose values are too coarse for the capacity (float32, perhaps).
    capacity : float, default=0.1
        The regulariser, ``1 / (4 B**2)`` for a ball of radius B. Lower fits closer and stores more.
    threshold : float, optional
        A row is kept while its disagreement D^2 is above this, by default 1.0. Lower stores more.
    selection : "leverage" or "independent", default="leverage"
        ``"leverage"``: a row is kept when the kept ones say little about it, as above. ``"independent"``: each row is
        kept or not by the hash of its id and public numbers alone. Forgetting then equals learning *all* surviving
        rows, also those that were never stored; ``partial_fit`` in any batches gives the state of one ``fit``.
    rate, balance, class_shares
        For independent selection, as in ``ErasableClassifier``. The head costs the cube of the number of stored rows,
        so choose a small ``rate`` for many rows.
    moments : array of shape (n_features,), optional
        For independent selection: public second moments of the columns, divided by ``scaling``. Unusual rows are kept
        more often.
    gamma : float, default=1.0
        ``exp(-gamma |x - z|^2)``; for Matern ``1 / length``; for poly ``(gamma x'z + coef0) ** degree``.
    nu : 0.5, 1.5 or 2.5, default=1.5
        Order of the Matern kernel.
    degree, coef0 : int and float, default=3 and 1.0
        Of the polynomial kernel.
    scaling : None, float or array of shape (n_features,), default=None
        Public numbers that divide the columns. Never fitted on rows that may have to be forgotten.
    classes, feature_names
        As in ``ErasableClassifier``.
    grid_bits : int, default=12
        Rows are rounded to multiples of ``2**-grid_bits``; a row may be as long as ``2**(25 - grid_bits)``.
    order, random_state, engine
        As in ``ErasableClassifier``.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    dual_coef_ : array of shape (1 or n_classes, n_core), float32
        Weights of the core rows, correctly rounded.
    core_ids_, n_core_, threshold_
        The core set and the threshold in force.
    stored_rows_, stored_bytes_ : int
        What the model holds: rows, and bytes of rows, kernel matrix and weights.
    guarantee : Guarantee
        What holds after ``forget``, as a record.

    Examples
    --------
    >>> from sklearn.base import clone
    >>> from sklearn.datasets import make_moons
    >>> from erasable import ErasableKernelClassifier, verify
    >>> X, y = make_moons(2000, noise=0.15, random_state=0)
    >>> clf = ErasableKernelClassifier(gamma=2.0).fit(X, y)
    >>> clf.score(X, y) > 0.97, clf.n_core_ < 100
    (True, True)
    >>> report = clf.forget(ids=clf.core_ids_[:3])
    >>> kept = clf.core_ids_
    >>> clone(clf).fit(X[kept], y[kept], ids=kept).state_digest() == clf.state_digest() == verify(clf).digest
    True
    """

    _tensors = True

    def __init__(
        self,
        kernel: object = "rbf",
        capacity: float = 0.1,
        threshold: float | None = None,
        *,
        selection: str = "leverage",
        rate: float | None = None,
        moments: object = None,
        balance: float | None = None,
        class_shares: object = None,
        gamma: float = 1.0,
        nu: float = 1.5,
        degree: int = 3,
        coef0: float = 1.0,
        scaling: object = None,
        classes: object = None,
        feature_names: object = None,
        grid_bits: int = 12,
        order: str = "hashed",
        random_state: int = 0,
        engine: object = None,
    ) -> None:
        self.kernel = kernel
        self.capacity = capacity
        self.threshold = threshold
        self.selection = selection
        self.rate = rate
        self.moments = moments
        self.balance = balance
        self.class_shares = class_shares
        self.gamma = gamma
        self.nu = nu
        self.degree = degree
        self.coef0 = coef0
        self.scaling = scaling
        self.classes = classes
        self.feature_names = feature_names
        self.grid_bits = grid_bits
        self.order = order
        self.random_state = random_state
        self.engine = engine

    @property
    def guarantee(self) -> Guarantee:
        """Exact unlearning, bitwise: against the surviving core rows, or against all surviving rows."""
        if self.__sklearn_is_fitted__():
            return self._model.guarantee
        return kernel_guarantee(custom=callable(self.kernel), independent=self.selection == "independent")

    @property
    def dual_coef_(self) -> Any:
        """Weights of the core rows."""
        return self._fitted("dual_coef_").weights().copy()

    @property
    def threshold_(self) -> float:
        """The threshold in force; independent selection has none."""
        return float(self._fitted("threshold_").configuration.selection.threshold)

    # -- how it learns -------------------------------------------------------------------------------------------

    def _configuration(self, n_features: int, classes: object) -> Configuration:
        """The configuration that the constructor arguments name; everything is checked."""
        names, fixed = names_of_features(self, n_features), fixed_classes(self, classes)
        selection = self._selection(n_features, fixed)
        if isinstance(selection, IndependentPoints) and selection.class_shares is not None:
            fixed = tuple(label for label, _ in selection.class_shares)
        return Configuration(selection, KernelRidge(), fixed, names, None, order_key(self))

    def _selection(self, n_features: int, classes: Any) -> KernelDisagreement | IndependentPoints:
        """Return the selection that the constructor arguments name."""
        kernel = Kernel.of(self.kernel, gamma=self.gamma, nu=self.nu, degree=self.degree, coef0=self.coef0)
        capacity = positive_number(self.capacity, "capacity")
        units = round(min(capacity, 2.0**21) * 2**KERNEL_BITS)
        points = Points(n_features, whole_number(self.grid_bits, "grid_bits", 1, 20), plain_scaling(self.scaling))
        if choice(self.selection, "selection", SELECTION_NAMES) == "independent":
            return IndependentPoints(points, kernel, units, **rule_of(self, n_features, classes))
        refuse_rule(self)
        threshold = positive_number(DEFAULT_KERNEL_THRESHOLD if self.threshold is None else self.threshold, "threshold")
        if kernel.of_distance and capacity * threshold >= 1.0:
            raise ConfigurationError(
                "nothing could ever be selected: no row's disagreement exceeds 1 / capacity = "
                f"{1 / capacity:.6g}, and the threshold is {threshold:.6g}. Lower one of them."
            )
        return KernelDisagreement(points, kernel, units, threshold)

    def _start(self, X: MatrixLike, y: object, classes: ColumnLike, *, streaming: bool) -> Model:
        return Model(self._configuration(X.shape[1], classes))

    def _check_unchanged(self, model: Model, classes: object) -> None:
        there = model.configuration
        given = self._configuration(there.selection.n_features, classes)
        if given.feature_names is None:
            given = replace(given, feature_names=there.feature_names)
        if given.classes is None and given.selection == there.selection:
            given = replace(given, classes=there.classes)
        if given != there:
            raise ConfigurationError(
                "parameters changed since the model was first fitted: set the old values again, or start over with fit "
                "or another file."
            )

    # -- pickles and files ---------------------------------------------------------------------------------------

    def _code(self) -> Any:
        return self._model.configuration.selection.kernel.function

    def _from_file(self, meta: dict[str, Any], head: Buffer, fetch: Fetch) -> Model:
        self._check_kind(meta, "erasable-kernel", *(["erasable-model"] if "kernel" in meta else []))
        function = self.kernel if callable(self.kernel) else None
        return self._agreed(Model.restore(read_kernel(meta, head, function)))


_SAMPLERS = ("single-pass", "staged")


class ErasableGeneralClassifier(ErasableClassifierBase):
    """A classifier over any function class that stores a small core set and forgets rows by leaving them out.

    A row is kept when two functions of the class can agree about the rows kept so far and still disagree about it. The
    predictor is the best fit of the class to the kept rows; it is computed from them when asked for, never stored.
    With the single pass and a class that decides exactly, the whole state after ``forget`` is byte for byte what
    learning the surviving core rows gives.

    Parameters
    ----------
    function_class : FunctionClass, optional
        Such as ``LinearBall``, ``FiniteClass`` or ``NumericClass`` from ``erasable.classes``; ``LinearBall()`` if None.
    sampler : "single-pass" or "staged", default="single-pass"
        ``"single-pass"`` keeps a row whose D² against the rows kept before it is above the threshold.
        ``"staged"`` is the paper's Algorithm 3, which looks at all rows at once; it is not stable under forgetting, so
        nothing is claimed about the state after it.
    threshold : float, default=0.05
        For the single pass: on D², zero or more. Higher keeps fewer rows.
    rate : float, optional
        For the stages: R(T, delta) as a number; by default the class's own.
    delta : float in (0, 1], default=0.05
        For the stages: the confidence level.
    max_stages : int, default=64
        For the stages: how many there may be at most.
    classes, order, random_state
        As in ``ErasableClassifier``. For the staged sampler, which looks at all rows at once, the order plays no part.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    threshold_ : float
        Of the single pass.
    core_ids_, n_core_, stored_rows_, stored_bytes_, guarantee, n_features_in_, feature_names_in_
        As in ``ErasableClassifier``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import clone
    >>> from erasable.classes import FiniteClass
    >>> from erasable.estimators import ErasableGeneralClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1000, 1))
    >>> y = np.where(X[:, 0] + 0.2 * rng.standard_normal(1000) > 0.62, "late", "early")
    >>> steps = FiniteClass([lambda X, c=c: (X[:, 0] > c).astype(float) for c in np.linspace(0.1, 0.9, 9)])
    >>> clf = ErasableGeneralClassifier(steps, threshold=0.1).fit(X, y)
    >>> clf.n_core_ < 100, clf.predict([[0.3], [0.95]]).tolist()
    (True, ['early', 'late'])
    >>> report = clf.forget(ids=clf.core_ids_[:3])
    >>> kept = clf.core_ids_
    >>> clone(clf).fit(X[kept], y[kept], ids=kept).state_digest() == clf.state_digest() == report.digest
    True
    """

    def __init__(
        self,
        function_class: Any = None,
        *,
        sampler: str = "single-pass",
        threshold: float = 0.05,
        rate: float | None = None,
        delta: float = 0.05,
        max_stages: int = 64,
        classes: object = None,
        order: str = "hashed",
        random_state: int = 0,
    ) -> None:
        self.function_class = function_class
        self.sampler = sampler
        self.threshold = threshold
        self.rate = rate
        self.delta = delta
        self.max_stages = max_stages
        self.classes = classes
        self.order = order
        self.random_state = random_state

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """Exact system-aware unlearning, bitwise, for the single pass over an exact class; otherwise no bound."""
        if self.__sklearn_is_fitted__():
            return self._model.guarantee
        function_class = LinearBall() if self.function_class is None else self.function_class
        return general_guarantee(function_class, staged=self.sampler != "single-pass")

    @property
    def threshold_(self) -> float:
        """The threshold in force, on D²; the staged sampler has none."""
        threshold = self._fitted("threshold_").configuration.selection.threshold
        if threshold is None:
            raise AttributeError("the staged sampler has no threshold_: every stage has its own epsilon.")
        return float(threshold)

    # -- how it learns -------------------------------------------------------------------------------------------

    def _configuration(self, n_features: int, classes: object) -> Configuration:
        function_class = LinearBall() if self.function_class is None else self.function_class
        if isinstance(function_class, type) or not isinstance(function_class, FunctionClass):
            name = function_class.__name__ if isinstance(function_class, type) else type(function_class).__name__
            kind = "the class" if isinstance(function_class, type) else "an object of type"
            raise ConfigurationError(
                f"function_class must offer what erasable.classes asks of one, such as LinearBall(); got {kind} {name}."
            )
        if isinstance(function_class, LinearBall):
            check_memory(function_class.grid(n_features))
        function_class.empty(n_features)  # refuses a number of features that cannot work
        sampler = self._sampler(function_class, n_features)
        key = order_key(self) if isinstance(sampler, SinglePass) else None
        selection = FunctionClassSelection(function_class, sampler, n_features)
        return Configuration(selection, FunctionClassFit(), fixed_classes(self, classes), order_key=key)

    def _sampler(self, function_class: FunctionClass, n_features: int) -> SinglePass | Staged:
        if choice(self.sampler, "sampler", _SAMPLERS) == "staged":
            return Staged(function_class, rate=self.rate, delta=self.delta, max_stages=self.max_stages)
        sampler = SinglePass(function_class, self.threshold)
        widest = function_class.widest(n_features)
        if sampler.threshold >= widest:
            raise ConfigurationError(
                f"nothing could ever be selected: no row's D² exceeds {widest:.6g} for this class, and the "
                f"threshold is {sampler.threshold:.6g}. Lower the threshold."
            )
        return sampler

    def _start(self, X: MatrixLike, y: ColumnLike, classes: ColumnLike, *, streaming: bool) -> Model:
        configuration = self._configuration(X.shape[1], classes)
        selection = configuration.selection
        if streaming and isinstance(selection.sampler, Staged):
            raise ConfigurationError(
                "the staged sampler looks at all rows at once, so it cannot learn in parts: call fit with all rows, or "
                "use sampler='single-pass'."
            )
        if isinstance(selection.function_class, LinearBall):
            warn_of_signs(selection.function_class.grid(X.shape[1]))
        return Model(configuration)

    def _check_unchanged(self, model: Model, classes: object) -> None:
        held = model.configuration
        given = self._configuration(held.selection.n_features, classes)
        if _described(given) != _described(held):
            raise ConfigurationError(
                "function_class, sampler, threshold, order or random_state changed since the model was first fitted: "
                "set the old value again, or start over with fit."
            )
        for fixed in (self.classes, classes):
            if fixed is not None and sorted_classes(fixed) != held.classes:
                raise ConfigurationError(
                    "classes changed since the model was first fitted: give the same ones, or start over with fit."
                )

    # -- pickles and files ---------------------------------------------------------------------------------------

    def _code(self) -> Any:
        return self._model.configuration  # with the function class

    def _from_file(self, meta: dict[str, Any], head: Buffer, fetch: Fetch) -> Model:
        meta, _ = read_sealed(head)
        self._check_kind(meta, "erasable-general")
        n_features = meta.get("n_features")
        if not isinstance(n_features, int) or not 1 <= n_features < 2**31:
            raise StateFormatError("not a state: the number of features is missing, or none.")
        configuration = self._configuration(n_features, None)
        given = _described(configuration)
        if canonical_json({name: meta.get(name) for name in given}) != canonical_json(given):
            raise ConfigurationError(
                "like has another function class, sampler, threshold, order or random_state than the file was made "
                "with: give the same."
            )
        model = Model.restore(State.from_bytes(head, configuration))
        if self.classes is not None and configuration.classes != model.configuration.classes:
            raise ConfigurationError("like has other classes than the file was made with: give the same.")
        return model


def _described(c: Configuration) -> dict[str, Any]:
    """The function class, the sampler and the order of rows, as a file describes them."""
    return layout_of(c).described(c)
