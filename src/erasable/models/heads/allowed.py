"""The learners that a file may name, and the parameters that each may have: an allow-list of plain values.

A parameter that differs from the default here is written to the state. When a learner is built, every parameter of this
list is set, so a library that changes its own defaults changes no model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from erasable.errors import ConfigurationError


@dataclass(frozen=True)
class Parameter:
    """A parameter of a learner: a whole number, a number, a truth value, or one of some words.

    ``low`` and ``high`` are the ends of what is allowed; ``optional`` allows None.
    """

    default: Any
    low: float = 0.0
    high: float = math.inf
    words: tuple[str, ...] = ()
    optional: bool = False
    kind: type = field(default=float)

    def checked(self, value: Any, name: str) -> Any:
        """The value as a plain one; raises ConfigurationError for any other."""
        value = value.item() if hasattr(value, "item") and callable(value.item) else value
        if value is None and self.optional:
            return None
        if self.words or self.kind is bool:
            fits = type(value) is bool if self.kind is bool else isinstance(value, str) and value in self.words
        elif isinstance(value, bool) or not isinstance(value, int | float):
            fits = False
        else:
            fits = self.low <= value <= self.high and (self.kind is float or value == int(value))
        if not fits:
            raise ConfigurationError(f"{name} must be {self._allowed()}; got {type(value).__name__}.")
        return value if self.words else self.kind(value)

    def _allowed(self) -> str:
        none = ", or None" if self.optional else ""
        if self.kind is bool:
            return f"True or False{none}"
        if self.words:
            return f"one of {', '.join(self.words)}{none}"
        whole = "a whole number" if self.kind is int else "a number"
        return f"{whole} between {self.low:g} and {self.high:g}{none}"

    def written(self, value: Any) -> Any:
        """The value for the header of a file: a float in hexadecimal."""
        return value.hex() if isinstance(value, float) else value

    def read(self, value: Any) -> Any:
        """What :meth:`written` wrote; raises ConfigurationError for any other value."""
        if self.kind is float and isinstance(value, str) and not self.words:
            value = float.fromhex(value) + 0.0
        elif isinstance(value, float):
            raise ConfigurationError("a parameter of the learner is of another type.")
        return self.checked(value, "a parameter of the learner")


def _whole(default: int | None, low: int = 1, high: int = 100_000) -> Parameter:
    return Parameter(default, low, high, optional=default is None, kind=int)


def _number(default: float | None, low: float = 0.0, high: float = 1e6) -> Parameter:
    return Parameter(default, low, high, optional=default is None)


def _word(default: str | None, *words: str) -> Parameter:
    return Parameter(default, words=words, optional=default is None, kind=str)


def _truth(default: bool) -> Parameter:
    return Parameter(default, kind=bool)


_SEED = {"random_state": _whole(0, 0, 2**31 - 1)}
_BALANCED = {"class_weight": _word(None, "balanced")}


@dataclass(frozen=True)
class AllowedLearner:
    """A learner of a library."""

    library: str  # the package that has it, as it is imported and installed
    # module, classifier, regressor: where its estimators are; None where there is none of a kind.
    module: str
    classifier: str | None
    regressor: str | None
    sees_raw: bool = True  # whether it sees rows as they were read, which trees do; otherwise rows as they are selected
    several_targets: bool = False  # whether its regressor predicts several numbers
    # The parameter that says how many trees or rounds there are, which a trial makes small.
    size: str | None = "n_estimators"
    # shared, classifying, regressing: parameters of both estimators, and of one of them.
    shared: Mapping[str, Parameter] = field(default_factory=dict)
    classifying: Mapping[str, Parameter] = field(default_factory=dict)
    regressing: Mapping[str, Parameter] = field(default_factory=dict)

    def parameters(self, *, classifies: bool) -> dict[str, Parameter]:
        """The parameters that may be set."""
        return {**self.shared, **(self.classifying if classifies else self.regressing)}


_LIGHTGBM = {
    "boosting_type": _word("gbdt", "gbdt", "dart"),
    "n_estimators": _whole(100),
    "learning_rate": _number(0.1, 1e-9, 1e3),
    "num_leaves": _whole(31, 2, 131_072),
    "max_depth": _whole(-1, -1, 10_000),
    "min_child_samples": _whole(20, 0, 10**9),
    "min_child_weight": _number(1e-3),
    "min_split_gain": _number(0.0),
    "subsample": _number(1.0, 1e-9, 1.0),
    "subsample_freq": _whole(0, 0),
    "colsample_bytree": _number(1.0, 1e-9, 1.0),
    "reg_alpha": _number(0.0),
    "reg_lambda": _number(0.0),
    "subsample_for_bin": _whole(200_000, 1, 10**9),
    "max_bin": _whole(255, 2, 65_535),
    "min_data_per_group": _whole(100, 1, 10**9),
    "max_cat_threshold": _whole(32, 1),
    "max_cat_to_onehot": _whole(4, 1),
    "cat_l2": _number(10.0),
    "cat_smooth": _number(10.0),
    "extra_trees": _truth(False),
    "path_smooth": _number(0.0),
    **_SEED,
}
_HISTOGRAMS = {
    "max_iter": _whole(100),
    "learning_rate": _number(0.1, 1e-9, 1e3),
    "max_leaf_nodes": Parameter(31, 2, 131_072, optional=True, kind=int),
    "max_depth": _whole(None, 1, 10_000),
    "min_samples_leaf": _whole(20, 1, 10**9),
    "l2_regularization": _number(0.0),
    "max_features": _number(1.0, 1e-9, 1.0),
    "max_bins": _whole(255, 2, 255),
    **_SEED,
}


def _forest(bootstrap: bool) -> dict[str, Parameter]:
    return {
        "n_estimators": _whole(100, 1, 10_000),
        "max_depth": _whole(None, 1, 10_000),
        "max_leaf_nodes": _whole(None, 2, 10**9),
        "min_samples_leaf": _whole(1, 1, 10**9),
        "min_samples_split": _whole(2, 2, 10**9),
        "min_impurity_decrease": _number(0.0),
        "bootstrap": _truth(bootstrap),
        **_SEED,
    }


_FOREST_OF_CLASSES = {
    "criterion": _word("gini", "gini", "entropy", "log_loss"),
    "max_features": _word("sqrt", "sqrt", "log2"),
    **_BALANCED,
}
_FOREST_OF_NUMBERS = {
    "max_features": _number(1.0, 1e-9, 1.0),
}
_BOOSTED = {
    "n_estimators": _whole(100),
    "learning_rate": _number(None, 1e-9, 1e3),
    "max_depth": _whole(None, 0, 10_000),
    "max_leaves": _whole(None, 0, 131_072),
    "max_bin": _whole(None, 2, 65_535),
    "gamma": _number(None),
    "min_child_weight": _number(None),
    "subsample": _number(None, 1e-9, 1.0),
    "colsample_bytree": _number(None, 1e-9, 1.0),
    "reg_alpha": _number(None),
    "reg_lambda": _number(None),
    **_SEED,
}

LEARNERS: dict[str, AllowedLearner] = {
    "lightgbm": AllowedLearner(
        "lightgbm",
        "lightgbm",
        "LGBMClassifier",
        "LGBMRegressor",
        shared=_LIGHTGBM,
        classifying=_BALANCED,
        regressing={"objective": _word(None, "regression", "regression_l1", "huber", "fair")},
    ),
    "hist_gradient_boosting": AllowedLearner(
        "scikit-learn",
        "sklearn.ensemble",
        "HistGradientBoostingClassifier",
        "HistGradientBoostingRegressor",
        size="max_iter",
        shared=_HISTOGRAMS,
        classifying=_BALANCED,
        regressing={"loss": _word("squared_error", "squared_error", "absolute_error")},
    ),
    "random_forest": AllowedLearner(
        "scikit-learn",
        "sklearn.ensemble",
        "RandomForestClassifier",
        "RandomForestRegressor",
        several_targets=True,
        shared=_forest(True),
        classifying=_FOREST_OF_CLASSES,
        regressing=_FOREST_OF_NUMBERS,
    ),
    "extra_trees": AllowedLearner(
        "scikit-learn",
        "sklearn.ensemble",
        "ExtraTreesClassifier",
        "ExtraTreesRegressor",
        several_targets=True,
        shared=_forest(False),
        classifying=_FOREST_OF_CLASSES,
        regressing=_FOREST_OF_NUMBERS,
    ),
    "sklearn_logistic": AllowedLearner(
        "scikit-learn",
        "sklearn.linear_model",
        "LogisticRegression",
        None,
        sees_raw=False,
        size=None,
        classifying={
            "C": _number(1.0, 1e-12, 1e12),
            "tol": _number(1e-4, 1e-15, 1.0),
            "max_iter": _whole(1000),
            "fit_intercept": _truth(True),
            **_BALANCED,
        },
    ),
    "sklearn_ridge": AllowedLearner(
        "scikit-learn",
        "sklearn.linear_model",
        None,
        "Ridge",
        sees_raw=False,
        several_targets=True,
        size=None,
        regressing={"alpha": _number(1.0, 0.0, 1e12), "fit_intercept": _truth(True)},
    ),
    "xgboost": AllowedLearner("xgboost", "xgboost", "XGBClassifier", "XGBRegressor", shared=_BOOSTED),
    "hessboost": AllowedLearner(
        "hessboost", "hessboost.sklearn", "HessboostClassifier", "HessboostRegressor", shared=_BOOSTED
    ),
}


def allowed(name: Any, *, classifies: bool) -> AllowedLearner:
    """The learner of this name; raises ConfigurationError for any other, and for one that lacks the kind wanted."""
    if not isinstance(name, str) or name not in LEARNERS:
        raise ConfigurationError(f"learner must be one of {', '.join(LEARNERS)}, or an estimator of one of these.")
    found = LEARNERS[name]
    if (found.classifier if classifies else found.regressor) is None:
        kind = "numbers, and this model predicts classes" if classifies else "classes, and this model predicts numbers"
        raise ConfigurationError(f"the learner {name} predicts {kind}: name another.")
    return found


def checked_parameters(name: str, given: Mapping[str, Any], *, classifies: bool) -> tuple[tuple[str, Any], ...]:
    """Parameters that differ from the defaults, sorted by name; raises ConfigurationError for others than allowed."""
    known = allowed(name, classifies=classifies).parameters(classifies=classifies)
    for parameter in given:
        if parameter not in known:
            raise ConfigurationError(
                f"the learner {name} has no parameter {str(parameter)[:40]!r} that a model may set: known are "
                f"{', '.join(known)}."
            )
    values = {p: known[p].checked(value, f"{p} of the learner {name}") for p, value in given.items()}
    return tuple((p, values[p]) for p in sorted(values) if values[p] != known[p].default)
