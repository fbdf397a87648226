"""Algorithm 2: a classifier over any function class, which selects core rows, forgets them, and refits."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from erasable.classes._protocol import FunctionClass
from erasable.classes.linear import LinearBall
from erasable.core.grid import Float64s
from erasable.coresets.single_pass import SinglePass
from erasable.coresets.staged import Staged
from erasable.errors import ConfigurationError, VerificationError
from erasable.estimators._erasable import ErasableBase, nearest_probabilities
from erasable.estimators._general_memory import GeneralMemory
from erasable.estimators._general_state import GeneralConfiguration, general_from_bytes, recompute
from erasable.estimators._guarantee import Guarantee
from erasable.estimators._parameters import check_memory, sorted_classes, warn_of_signs
from erasable.estimators._reports import ForgetReport

_PREDICT_BLOCK = 2**20  # numbers handled at once when predicting
_SAMPLERS = ("single-pass", "staged")


class ErasableGeneralClassifier(ErasableBase):
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
    classes : array-like, optional
        All classes, fixed by the caller. Otherwise the classes are those of the surviving core rows, and one whose last
        core row is forgotten is gone; ``forget`` warns.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    core_ids_ : array of shape (n_core_,)
        Ids of the core rows in learning order.
    n_core_ : int
    threshold_ : float
        Of the single pass.
    stored_rows_, stored_bytes_ : int
        What the model holds: rows, and bytes of rows.
    guarantee : Guarantee
        What holds after ``forget``, as a record.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        Only when the input has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import clone
    >>> from erasable.classes.finite import FiniteClass
    >>> from erasable.estimators.general import ErasableGeneralClassifier
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

    _memory: GeneralMemory

    def __init__(
        self,
        function_class: Any = None,
        *,
        sampler: str = "single-pass",
        threshold: float = 0.05,
        rate: float | None = None,
        delta: float = 0.05,
        max_stages: int = 64,
        classes: Any = None,
    ) -> None:
        self.function_class = function_class
        self.sampler = sampler
        self.threshold = threshold
        self.rate = rate
        self.delta = delta
        self.max_stages = max_stages
        self.classes = classes

    def partial_fit(
        self,
        X: Any,
        y: Any,
        ids: Any = None,
        subjects: Any = None,
        classes: Any = None,
        *,
        allow_no_subject: bool = False,
    ) -> Self:
        """Learn more rows after those learnt before; for the single pass only.

        Parameters
        ----------
        X, y, ids, subjects, allow_no_subject
            As in ``fit``. Give ``ids`` in earnest use: without them rows are numbered on from the largest id among
            the *core* rows, because a count of all rows ever seen would be a trace of them.
        classes : array-like, optional
            At the first call: all classes, fixed from then on.

        Returns
        -------
        self

        Notes
        -----
        *Cost*: the measure is made anew from the core rows at every call, so give rows in batches.
        """
        return super().partial_fit(X, y, ids, subjects, classes, allow_no_subject=allow_no_subject)

    def forget(self, *, ids: Any = None, subjects: Any = None) -> ForgetReport:
        """Rows with these ids, or of these subjects, stop existing for the model.

        Parameters
        ----------
        ids : array-like, optional
            Ids of rows. Unknown ones are no error and change nothing.
        subjects : array-like, optional
            Subjects all of whose rows are to go. Rows learnt without ``subjects`` can only be found by id.

        Returns
        -------
        ForgetReport
            For the caller; the model keeps nothing of it.

        Notes
        -----
        *Law*: bitwise, with the single pass and an exact class: the state afterwards is what learning the surviving
        core rows from nothing gives. Otherwise approximate; see ``guarantee``.
        *Cost*: a hash look-up for a row outside the core; for others one copy of the core rows, and a fit when the
        model is next asked to predict.
        *Source*: Algorithm 2, procedure DeletionUpdate.
        """
        return super().forget(ids=ids, subjects=subjects)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of each row: the sign of ``f(x) - 1/2``, or the class with the largest ``f(x)``."""
        return super().predict(X)  # Algorithm 2, line 10

    def decision_function(self, X: Any) -> Float64s:
        """``f(x) - 1/2``: shape (n_samples,) for one or two classes, (n_samples, n_classes) otherwise."""
        memory, X = self._rows_to_predict(X)
        predictors, embed = memory.predictors(), memory.configuration.function_class.embed
        scores = np.empty((X.shape[0], len(predictors)))
        step = max(1, _PREDICT_BLOCK // max(X.shape[1], memory.rows.shape[1]))
        for low in range(0, X.shape[0], step):
            part = X[low : low + step]
            rows = embed(part if isinstance(part, np.ndarray) else part.toarray())
            for k, f in enumerate(predictors):
                scores[low : low + step, k] = f(rows) - 0.5
        return scores if len(predictors) > 1 else scores[:, 0]

    def predict_proba(self, X: Any) -> Float64s:
        """Probability of each class, shape (n_samples, n_classes).

        For two classes that of the last is ``f(x)``, clipped to [0, 1]. With more classes the vector of the functions
        against the rest is projected to the nearest probability vector.
        """
        scores = self.decision_function(X)
        if scores.ndim > 1:
            return nearest_probabilities(0.5 + scores)
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        positive = np.clip(0.5 + scores, 0.0, 1.0)
        return np.column_stack([1.0 - positive, positive])

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """Exact system-aware unlearning, bitwise, for the single pass over an exact class; otherwise no bound."""
        function_class = LinearBall() if self.function_class is None else self.function_class
        if self.sampler == "single-pass" and getattr(function_class, "exact", False):
            return dataclasses.replace(super().guarantee, assumptions=tuple(function_class.assumptions))
        reason = (
            "the staged sampler is not stable" if self.sampler == "staged" else "the class decides by rounded numbers"
        )
        return Guarantee(
            "approximate: forgotten rows are gone and the predictor is fitted to the surviving core rows, but training "
            f"on these rows may select fewer of them, because {reason}; no bound is claimed",
            of="state",
            epsilon=math.inf,
            delta=1.0,
        )

    @property
    def threshold_(self) -> float:
        """The threshold in force, on D²; the staged sampler has none."""
        threshold = self._attribute("threshold_").configuration.threshold
        if threshold is None:
            raise AttributeError("the staged sampler has no threshold_: every stage has its own epsilon.")
        return float(threshold)

    def _recompute(self, progress: Any = None) -> tuple[int, str]:
        """Rows learnt again from nothing, and the digest they give: what ``verify`` calls.

        Raises
        ------
        VerificationError
            When a row is not selected again. Of the staged sampler that is to be expected, and the error says so.
        """
        memory = self._fitted("verify")
        n, text = recompute(memory.snapshot())
        if not memory.tables_agree():
            raise VerificationError("the tables that find rows by id, subject or class do not name the stored rows.")
        if progress is not None:
            progress(n, n)
        return n, text

    # -- how it learns -------------------------------------------------------------------------------------------

    def _configuration(self, n_features: int, classes: Any) -> GeneralConfiguration:
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
        fixed = classes if classes is not None else self.classes
        return GeneralConfiguration(
            function_class,
            self._sampler(function_class, n_features),
            n_features,
            None if fixed is None else sorted_classes(fixed),
        )

    def _sampler(self, function_class: FunctionClass, n_features: int) -> SinglePass | Staged:
        match self.sampler:
            case "single-pass":
                sampler = SinglePass(function_class, self.threshold)
                widest = function_class.widest(n_features)
                if sampler.threshold >= widest:
                    raise ConfigurationError(
                        f"nothing could ever be selected: no row's D² exceeds {widest:.6g} for this class, and the "
                        f"threshold is {sampler.threshold:.6g}. Lower the threshold."
                    )
                return sampler
            case "staged":
                return Staged(function_class, rate=self.rate, delta=self.delta, max_stages=self.max_stages)
        raise ConfigurationError(f"sampler must be one of {', '.join(map(repr, _SAMPLERS))}; got {self.sampler!r}.")

    def _start(self, n_features: int, n_samples: int, classes: Any, *, streaming: bool) -> GeneralMemory:
        configuration = self._configuration(n_features, classes)
        if streaming and isinstance(configuration.sampler, Staged):
            raise ConfigurationError(
                "the staged sampler looks at all rows at once, so it cannot learn in parts: call fit with all rows, or "
                "use sampler='single-pass'."
            )
        if classes is not None and self.classes is not None and sorted_classes(self.classes) != configuration.classes:
            raise ConfigurationError(
                "classes given to partial_fit differ from the classes parameter: give one of them."
            )
        if isinstance(configuration.function_class, LinearBall):
            warn_of_signs(configuration.function_class.grid(n_features))
        return GeneralMemory.empty(configuration)

    def _check_unchanged(self, memory: Any, classes: Any) -> None:
        held = memory.configuration
        given = self._configuration(held.n_features, classes)
        if isinstance(given.sampler, Staged):
            raise ConfigurationError(
                "the staged sampler looks at all rows at once, so it cannot learn more rows: call fit with all of them."
            )
        if given.describe() != held.describe():
            raise ConfigurationError(
                "function_class, sampler or threshold changed since the model was first fitted, which would make two "
                "models of it: set the old value again, or call fit to start anew."
            )
        for fixed in (self.classes, classes):
            if fixed is not None and sorted_classes(fixed) != held.classes:
                raise ConfigurationError(
                    "classes changed since the model was first fitted: give the same ones, or call fit to start anew."
                )

    def _prepare(self, X: Any, memory: Any) -> Any:
        return X

    # -- pickle --------------------------------------------------------------------------------------------------

    def _restored(self, data: Any) -> GeneralMemory:
        configuration, written = data
        return GeneralMemory.restore(general_from_bytes(written, configuration))

    def __getstate__(self) -> dict[str, Any]:
        attributes = super().__getstate__()
        if "_memory" in attributes:  # the bytes cannot hold the function class
            attributes["_memory"] = self._memory.configuration, attributes["_memory"]
        return attributes
