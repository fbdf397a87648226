"""Algorithm 2 over the ball of a kernel space: a non-linear classifier that forgets bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from erasable.core.grid import plain_scaling
from erasable.core.kernels import KERNEL_BITS, Kernel, Points
from erasable.core.layout import Buffer
from erasable.errors import ConfigurationError
from erasable.estimators.streaming import ErasableBase
from erasable.models.configuration import Configuration, fixed_classes, names_of_features, order_key
from erasable.models.files import Fetch, read_kernel
from erasable.models.heads.kernel import KernelRidge, kernel_guarantee
from erasable.models.model import Model
from erasable.models.reports import Guarantee
from erasable.models.selections import KernelDisagreement
from erasable.models.state import State
from erasable.validation import positive_number, whole_number


class ErasableKernelClassifier(ErasableBase):
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
    threshold : float, default=1.0
        A row is kept while its disagreement D^2 is above this. Lower stores more.
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
    dual_coef_ : array of shape (1 or n_classes, n_core_), float32
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
        kernel: Any = "rbf",
        capacity: float = 0.1,
        threshold: float = 1.0,
        *,
        gamma: float = 1.0,
        nu: float = 1.5,
        degree: int = 3,
        coef0: float = 1.0,
        scaling: Any = None,
        classes: Any = None,
        feature_names: Any = None,
        grid_bits: int = 12,
        order: str = "hashed",
        random_state: int = 0,
        engine: Any = None,
    ) -> None:
        self.kernel = kernel
        self.capacity = capacity
        self.threshold = threshold
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
        """Exact system-aware unlearning, bitwise."""
        fitted = self.__sklearn_is_fitted__()
        return self._model.guarantee if fitted else kernel_guarantee(custom=callable(self.kernel))

    @property
    def dual_coef_(self) -> Any:
        """Weights of the core rows."""
        return self._attribute("dual_coef_").weights().copy()

    # -- how it learns -------------------------------------------------------------------------------------------

    def _configuration(self, n_features: int, classes: Any) -> Configuration:
        """The configuration that the constructor arguments name; everything is checked."""
        kernel = Kernel.of(self.kernel, gamma=self.gamma, nu=self.nu, degree=self.degree, coef0=self.coef0)
        capacity, threshold = positive_number(self.capacity, "capacity"), positive_number(self.threshold, "threshold")
        units = round(min(capacity, 2.0**21) * 2**KERNEL_BITS)
        if kernel.of_distance and capacity * threshold >= 1.0:
            raise ConfigurationError(
                "nothing could ever be selected: no row's disagreement exceeds 1 / capacity = "
                f"{1 / capacity:.6g}, and the threshold is {threshold:.6g}. Lower one of them."
            )
        points = Points(n_features, whole_number(self.grid_bits, "grid_bits", 1, 20), plain_scaling(self.scaling))
        names = names_of_features(self, n_features)
        selection = KernelDisagreement(points, kernel, units, threshold)
        return Configuration(selection, KernelRidge(), fixed_classes(self, classes), names, None, order_key(self))

    def _start(self, X: Any, y: Any, classes: Any, *, streaming: bool) -> Model:
        return Model(self._configuration(X.shape[1], classes))

    def _check_unchanged(self, model: Model, classes: Any) -> None:
        there = model.configuration
        given = self._configuration(there.selection.n_features, classes)
        if given.feature_names is None:
            given = replace(given, feature_names=there.feature_names)
        free = classes is None and self.classes is None
        if given != (replace(there, classes=None) if free else there):
            raise ConfigurationError(
                "parameters changed since the model was first fitted, which would make two models of it: set the old "
                "values again, or start anew: with fit, or with another file."
            )

    # -- pickles and files ---------------------------------------------------------------------------------------

    def _bytes(self) -> Any:
        kernel = self._model.configuration.selection.kernel
        return kernel.function, super()._bytes()  # the bytes cannot hold the function

    def _from_bytes(self, data: Any) -> Model:
        function, written = data
        return Model.restore(State.from_bytes(written, function))

    def _from_file(self, meta: dict[str, Any], head: Buffer, fetch: Fetch) -> Model:
        self._check_kind(meta, "erasable-kernel")
        function = self.kernel if callable(self.kernel) else None
        return self._agreed(Model.restore(read_kernel(meta, head, function)))
