"""Learners of the allow-list, built from a name and parameters, and trained: the part that needs their libraries.

Every training is deterministic: fixed seeds, and one thread. The digest of a trained learner is that of the text of
LightGBM's model, of the bytes of XGBoost's and hessboost's, and for a scikit-learn estimator of what it holds.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from erasable.core.arrays import Float64s
from erasable.core.fingerprint import fingerprint
from erasable.core.threads import few_threads
from erasable.errors import ConfigurationError, ErasableError
from erasable.models.heads import Learner, LearnerRegression
from erasable.models.heads.allowed import LEARNERS, AllowedLearner, allowed, checked_parameters
from erasable.models.reports import TrainedLearner
from erasable.validation import missing_module

Codes = tuple[int | None, ...] | None
#: A learner as callers name it, and the parameters that differ from the defaults.
Named = tuple[str, tuple[tuple[str, Any], ...]]

_LARGEST = 3e38  # of a number that a learner sees: forests have it in float32
_THREADS = 1  # LightGBM gives the same bits with any number, and waits busily for threads on a busy machine
_MOST_CODES = 255  # of a category of histograms; columns with more are numbers to such a learner
# Parameters of estimators that change no model, or that training sets itself.
_OF_NO_EFFECT = {"n_jobs", "verbose", "verbosity", "importance_type", "deterministic", "force_row_wise"}
_SET_HERE = {"early_stopping": ("auto", False), "enable_categorical": (False, True), "tree_method": (None, "hist")}


# -- names -----------------------------------------------------------------------------------------------------------


def named_learner(given: Any, *, classifies: bool) -> Named:
    """The name and the parameters of a learner: given by name, as a dictionary with a name, or as an estimator.

    Raises
    ------
    ConfigurationError
        When it is not of the allow-list, or has a parameter that no model may set.
    """
    if isinstance(given, str):
        return given, checked_parameters(given, {}, classifies=classifies)
    if isinstance(given, Mapping):
        name = given.get("learner")
        parameters = {str(k): v for k, v in given.items() if k != "learner"}
        return str(name), checked_parameters(name, parameters, classifies=classifies)  # type: ignore[arg-type]
    for name, entry in LEARNERS.items():
        kind = entry.classifier if classifies else entry.regressor
        if kind == type(given).__name__ and type(given) is _class_of(entry, kind):
            return name, _parameters_of(name, given, classifies=classifies)
    kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
    raise ConfigurationError(
        f"learner must be one of {', '.join(LEARNERS)}, or an unfitted {'classifier' if classifies else 'regressor'} "
        f"of one of these; got {kind}. CoreSetUnlearner takes any other."
    )


def _parameters_of(name: str, estimator: Any, *, classifies: bool) -> tuple[tuple[str, Any], ...]:
    """The parameters of an estimator that differ from the defaults; refused if one is set that no model may set."""
    known = allowed(name, classifies=classifies).parameters(classifies=classifies)
    given, usual = estimator.get_params(deep=False), type(estimator)().get_params(deep=False)
    for parameter, value in given.items():
        if parameter in known or parameter in _OF_NO_EFFECT or _same(value, usual.get(parameter)):
            continue
        if parameter not in _SET_HERE or value not in _SET_HERE[parameter]:
            raise ConfigurationError(
                f"{parameter} of {type(estimator).__name__} cannot be set: a file could not hold it, or training would "
                "not be deterministic. Leave it out."
            )
    set_by_caller = {p: given[p] for p in known if p in given and not (given[p] is None and not known[p].optional)}
    return checked_parameters(name, set_by_caller, classifies=classifies)


def _same(value: Any, usual: Any) -> bool:
    if isinstance(value, float) and isinstance(usual, float):
        return value == usual or (math.isnan(value) and math.isnan(usual))
    return type(value) is type(usual) and bool(value == usual)


def _class_of(entry: AllowedLearner, kind: str | None) -> Any:
    try:
        return getattr(import_module(entry.module), str(kind))
    except ImportError:
        extra = "pip install 'erasable[boosting]'" if entry.library == "lightgbm" else f"pip install {entry.library}"
        missing = f"the learner needs {entry.library}, which is not installed: {extra}."
    raise ConfigurationError(missing)


@lru_cache(maxsize=64)
def try_out(name: str, parameters: tuple[tuple[str, Any], ...], *, classifies: bool) -> None:
    """Train a learner on a few made-up rows, so that it refuses its parameters before any row is learnt.

    Raises ConfigurationError.
    """
    entry = allowed(name, classifies=classifies)
    small = {} if entry.size is None else {entry.size: 1}
    tried = tuple(sorted({**dict(parameters), **small}.items()))
    head = Learner(name, tried) if classifies else LearnerRegression(name, tried, ((0.0, 1.0),))
    X = np.arange(120.0).reshape(60, 2) % 7
    train(head, X, np.arange(60) % 2 if classifies else X[:, 0] / 7, None, None)


# -- training --------------------------------------------------------------------------------------------------------


class Fitted:
    """A learner that was trained, or the only class that there is."""

    facts: TrainedLearner

    @property
    def usable(self) -> bool:
        """Whether the library that trained it is the one that is installed."""
        try:
            return self.facts.version == version(self.facts.library)
        except PackageNotFoundError:  # training says which package to install
            return False

    def probabilities(self, X: Float64s) -> Float64s:
        """The probability of each class that it was trained on."""
        found = np.asarray(self.predicted(X), dtype=np.float64)
        return np.column_stack([1.0 - found, found]) if found.ndim == 1 else found

    def numbers(self, X: Float64s) -> Float64s:
        """The targets, shape (n, n_targets)."""
        return np.asarray(self.predicted(X), dtype=np.float64).reshape(len(X), -1)

    def predicted(self, X: Float64s) -> Any:
        """Probabilities of the second of two classes or of several, or targets."""
        raise NotImplementedError


class _ConstantLearner(Fitted):
    """Predicts the only class that there is, or the targets of the only row."""

    def __init__(self, facts: TrainedLearner, targets: Float64s | None = None) -> None:
        self.facts, self.targets = facts, targets

    def probabilities(self, X: Float64s) -> Float64s:
        return np.ones((len(X), 1))

    def predicted(self, X: Float64s) -> Any:
        assert self.targets is not None
        return np.repeat(self.targets, len(X), axis=0)


class _Sklearn(Fitted):
    """An estimator with scikit-learn's methods."""

    def __init__(self, facts: TrainedLearner, estimator: Any, codes: Codes, *, classifies: bool) -> None:
        self.facts, self.estimator, self.codes, self.classifies = facts, estimator, codes, classifies

    def predicted(self, X: Float64s) -> Any:
        X = as_seen(X, self.codes)
        return self.estimator.predict_proba(X) if self.classifies else self.estimator.predict(X)


class LightGBM(Fitted):
    """LightGBM's model, by its text."""

    seconds = 0.0  # that training took, where it was trained in this process

    def __init__(self, facts: TrainedLearner, text: str, codes: Codes) -> None:
        self.facts, self.text, self.codes = facts, text, codes

    @property
    def booster(self) -> Any:
        """The model in the text, which is read once."""
        if "_booster" not in vars(self):
            self._booster = import_module("lightgbm").Booster(model_str=self.text)
        return self._booster

    def predicted(self, X: Float64s) -> Any:
        """See :class:`Fitted`."""
        return self.booster.predict(as_seen(X, self.codes), num_threads=_THREADS)

    def __getstate__(self) -> dict[str, Any]:
        # Bytes of pickles are those of any other training, however long it took.
        return {name: value for name, value in vars(self).items() if name not in ("_booster", "seconds")}


class _XGBoost(Fitted):
    """XGBoost's model, by its bytes."""

    def __init__(self, facts: TrainedLearner, raw: bytes, codes: Codes) -> None:
        self.facts, self.raw, self.codes = facts, raw, codes

    def predicted(self, X: Float64s) -> Any:
        xgboost = import_module("xgboost")
        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(bytearray(self.raw))
        kinds = ["q" if n is None else "c" for n in self.codes or [None] * X.shape[1]]
        rows = as_seen(X, self.codes)
        return booster.predict(xgboost.DMatrix(rows, feature_types=kinds, enable_categorical=True, nthread=1))


def train(head: Any, X: Float64s, y: npt.NDArray[Any], weights: Float64s | None, codes: Codes) -> Fitted:
    """Train the learner of a head on rows as it sees them.

    Parameters
    ----------
    head : Learner or LearnerRegression
    y : array
        Positions of labels among the classes, or targets.
    weights : array, optional
    codes : tuple, optional
        For each column how many codes it may be, if it holds the codes of a category.

    Raises
    ------
    ConfigurationError
        When the library is not installed, or refuses the parameters or the rows.
    """
    entry = head.allowed
    kind = _class_of(entry, entry.classifier if head.classifies else entry.regressor)
    if head.classifies:
        present, y = np.unique(y, return_inverse=True)
        if len(present) == 1:
            return _ConstantLearner(_facts(head, b"the only class"))
    elif len(y) == 1:  # which some libraries refuse
        return _ConstantLearner(_facts(head, b"the only row"), np.asarray(y, dtype=np.float64).reshape(1, -1))
    known = entry.parameters(classifies=head.classifies)
    values = {name: parameter.default for name, parameter in known.items()} | dict(head.parameters)
    codes = _categories(head.learner, codes, values)
    try:
        # few_threads gives BLAS its threads back also where an interrupt keeps the other limit from doing so.
        with warnings.catch_warnings(), few_threads(0.0), threadpool_limits(_THREADS):
            warnings.simplefilter("ignore")  # about rows, whose values they may quote
            return _train(head, kind, values, as_seen(X, codes), y, weights, codes)
    except ErasableError:
        raise
    except ImportError as error:  # rows and parameters are not at fault
        refusal = missing_module(error, f"the learner {head.learner}")
    except Exception as error:  # whatever a library says, it may quote values
        refusal = ConfigurationError(
            f"the learner {head.learner} cannot be trained on these rows, or refuses its parameters "
            f"({type(error).__name__}): change the parameters."
        )
    raise refusal  # outside of the block, where it would carry the original along


def _train(
    head: Any,
    kind: Any,
    values: dict[str, Any],
    X: Float64s,
    y: npt.NDArray[Any],
    weights: Float64s | None,
    codes: Codes,
) -> Fitted:
    name, fixed = head.learner, dict[str, Any]()
    categories = [] if codes is None else [j for j, n in enumerate(codes) if n is not None]
    if name == "lightgbm":
        fixed = {"deterministic": True, "force_row_wise": True, "n_jobs": _THREADS, "verbose": -1}
        start = perf_counter()
        found = kind(**values, **fixed).fit(X, y, sample_weight=weights, categorical_feature=categories)
        text, *_ = found.booster_.model_to_string(importance_type="split").partition("\nparameters:\n")
        fitted = LightGBM(_facts(head, text.encode()), text, codes)
        fitted.seconds = perf_counter() - start
        return fitted
    if name == "xgboost":
        kinds = ["q" if n is None else "c" for n in codes or [None] * X.shape[1]]
        fixed = {"tree_method": "hist", "n_jobs": 1, "verbosity": 0, "enable_categorical": True, "feature_types": kinds}
        found = kind(**values, **fixed).fit(X, y, sample_weight=weights)
        raw = bytes(found.get_booster().save_raw("json"))
        return _XGBoost(_facts(head, raw), raw, codes)
    if name == "hist_gradient_boosting":
        fixed = {"early_stopping": False, "categorical_features": categories or None}
    elif name == "hessboost":
        fixed = {"tree_method": "hist", "n_jobs": 1}
    found = kind(**values, **fixed).fit(X, y, sample_weight=weights)
    raw = found.get_booster().save_raw() if name == "hessboost" else fingerprint(found, contents_only=True).encode()
    return _Sklearn(_facts(head, raw), found, codes, classifies=head.classifies)


def from_text(head: Any, facts: TrainedLearner, text: str, codes: Codes) -> LightGBM:
    """The fitted LightGBM in a companion; raises ValueError if it is not what the facts name."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    if (facts.name, facts.library, facts.digest) != (head.learner, head.allowed.library, digest):
        raise ValueError("the companion holds another learner")
    return LightGBM(facts, text, codes)


def _facts(head: Any, content: bytes) -> TrainedLearner:
    library = head.allowed.library
    return TrainedLearner(head.learner, library, version(library), hashlib.sha256(content).hexdigest())


def _categories(name: str, codes: Codes, values: dict[str, Any]) -> Codes:
    """The columns that this learner takes as categories; it takes the codes of the others as numbers."""
    if codes is None or name not in ("lightgbm", "hist_gradient_boosting", "xgboost"):
        return None
    most = math.inf if name == "lightgbm" else min(_MOST_CODES, values.get("max_bins") or _MOST_CODES)
    return tuple(None if n is None or n > most else n for n in codes)


def as_seen(X: Float64s, codes: Codes) -> Float64s:
    """Rows within what libraries can hold; codes are among those of their category."""
    seen = np.clip(X, -_LARGEST, _LARGEST)
    for j, n in enumerate(codes or ()):
        if n is not None:
            seen[:, j] = np.clip(np.floor(seen[:, j]), 0, n - 1)
    return seen
