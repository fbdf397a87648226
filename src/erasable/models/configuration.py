"""All that the caller fixed, and how constructor arguments become it: checked before any row is looked at."""

from __future__ import annotations

import decimal
import math
import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import ColumnLike
from erasable.core.grid import Grid, check_scaling, plain_scaling
from erasable.core.independent import public_mean, rarity_of
from erasable.core.layout import canonical_json, read_json
from erasable.core.names import (
    Label,
    Spelling,
    check_feature_names,
    check_fixed_classes,
)
from erasable.core.selector import grid_of, selecting_units
from erasable.core.sums import regulariser
from erasable.core.target_grid import Range, check_range
from erasable.errors import ConfigurationError, InputError, InputTypeError, StateFormatError
from erasable.features import DEFAULT_CONSTANT, INDICATOR, TABLES, ZERO, AbsentMap, FeatureMap, LogFeatures
from erasable.models.heads import Learner, LearnerRegression, Logistic, Regression, SpreadLogistic, Squared
from erasable.models.heads.allowed import LEARNERS
from erasable.models.heads.linear import plain_class_weights
from erasable.models.inputs import label_type, pick
from erasable.models.selections import GridSelection, Independent, Leverage, RawColumns, RawStorage, storing_raw
from erasable.models.selections.leverage import _LARGEST_KEY, check_order_key
from erasable.models.strategies import Head, Selection
from erasable.validation import (
    choice,
    number_between,
    number_not_negative,
    positive_number,
    real_numbers,
    seed,
    switch,
    whole_number,
)

if TYPE_CHECKING:
    from erasable.schemas import Schema


@dataclass(frozen=True)
class Configuration:
    """The part of a state that does not depend on rows."""

    # Which rows are kept, and how they are stored. Selections differ in their parameters, hence the loose type.
    selection: Any
    head: Any  # what is computed from them
    classes: tuple[Label, ...] | None = None  # sorted; None if the classes are those of the core rows
    feature_names: tuple[str, ...] | None = None  # the names of the columns of the input
    feature_map: str | None = None  # the description, as canonical JSON, of the map that rows pass through first
    # The key of the hashes in whose order rows are decided; None if rows are decided in the given order.
    order_key: int | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.selection, Selection) and isinstance(self.head, Head)):
            raise ConfigurationError("a configuration needs a selection and a head.")
        if self.classes is not None:
            check_fixed_classes(self.classes)
        check_order_key(self.order_key)
        if self.feature_names is not None:
            named = self.selection.n_features
            if self.feature_map is not None:
                log = described_log(self.feature_map)
                if log is None:
                    raise ConfigurationError("a model behind a feature map has no names of columns.")
                named = log.n_features
            check_feature_names(self.feature_names, named)
        self.selection.check(self)
        self.head.check(self)

    @property
    def grid(self) -> Grid:
        """The grid of the stored rows, for selections that have one."""
        grid: Grid = self.selection.grid
        return grid

    @property
    def units(self) -> int:
        """The regulariser as a whole number of the selection's units."""
        units: int = self.selection.units
        return units


# -- constructor arguments ---------------------------------------------------------------------------------------

# Chosen in a study over public sets, which benchmarks/RESULTS.md documents ("Defaults").
DEFAULT_CAPACITY, DEFAULT_THRESHOLD = 0.02, 0.06
DEFAULT_KERNEL_THRESHOLD = 1.0
DEFAULT_RATE, DEFAULT_BALANCE = 0.1, 0.5
DEFAULT_ALPHA, DEFAULT_TABLE_ALPHA = 0.01, 0.1  # for plain numbers, and behind a schema
DEFAULT_SPREAD_ALPHA = 1.0  # that of scikit-learn's default behind a StandardScaler
DEFAULT_HEAD_SCALING = "flat"
# With more columns, most of them are rare as a rule, as those of one-hot rows are: regularised by their small spreads,
# they would be learnt by heart. On diabetes130, 1,061 columns, log-loss was .733 by spread and .654 without.
MOST_SPREAD_COLUMNS = 1_000
DEFAULT_TARGET_RANGE = (-1000.0, 1000.0)
# Behind the log map, chosen in benchmarks/array_defaults.py, as was the alpha for spread: the capacity of classifiers,
# and that of regressors, whose only regulariser it is.
LOG_CAPACITY, LOG_TARGET_CAPACITY = 0.005, 0.001
AUTO, LOG = "auto", "log"
MAP_NAMES = (AUTO, LOG)
SELECTION_NAMES = ("leverage", "independent")
LOSSES = ("logistic", "squared")
HEAD_SCALINGS = ("flat", "spread")
ORDERS = ("hashed", "given")

#: An estimator: its attributes are the constructor arguments as the caller typed them.
Arguments = Any


def configure(
    given: Arguments,
    n_features: int | None,
    n_samples: int,
    classes: ColumnLike,
    *,
    streaming: bool,
    n_targets: int | None = None,
    labels: npt.NDArray[Any] | None = None,
) -> Configuration:
    """The configuration that the arguments of a linear classifier name; with ``n_targets``, of a linear regressor.

    Raises ConfigurationError.

    Parameters
    ----------
    n_features : int or None
        Columns of the rows as they are given; None if they are not numbers, which only a feature map takes.
    classes : array-like, optional
        Classes given to ``partial_fit``.
    streaming : bool
        Whether rows arrive in several calls, so that the number of rows of this one names no horizon.
    labels : array, optional
        Labels of the first call: their type is that of the classes that a schema states.
    """
    feature_map = map_of(given, n_features)
    by_column = feature_map is None or isinstance(feature_map, LogFeatures)  # columns keep their names
    if not by_column and getattr(given, "feature_names", None) is not None:
        raise ConfigurationError("feature_names are for rows without a feature map: leave one of the two out.")
    check_log_arguments(given, feature_map)
    assert feature_map is not None or n_features is not None
    columns = n_features if feature_map is None else feature_map.n_features_out
    fixed = fixed_classes(given, classes) if n_targets is None else None
    selection: GridSelection
    if selection_of(given) == "leverage":
        selection = leverage_of(given, columns, n_samples, feature_map, streaming=streaming)  # type: ignore[arg-type]
    else:
        selection = independent_of(given, columns, fixed, feature_map, labels)  # type: ignore[arg-type]
        fixed = fixed if selection.class_shares is None else tuple(label for label, _ in selection.class_shares)
    head: Any = head_of(given, selection, feature_map) if n_targets is None else regression_of(given, n_targets)
    return Configuration(
        stored_for(given, selection, feature_map),
        head,
        fixed,
        names_of_features(given, n_features) if by_column else None,
        None if feature_map is None else describe_map(feature_map, n_features),
        order_key(given),
    )


def selection_of(given: Arguments) -> str:
    """The name of the selection that these arguments ask for.

    Without a name, arguments that one selection alone has decide; without those, it is independent if the schema states
    moments, as drafts do, and otherwise leverage.
    """
    named = getattr(given, "selection", "leverage")
    if named is not None:
        return choice(named, "selection", SELECTION_NAMES)
    if _of_independent(given):
        return "independent"
    stated = getattr(map_of(given), "second_moments", None) is not None
    return "independent" if stated and not _of_leverage(given) else "leverage"


def _of_independent(given: Arguments) -> list[str]:
    """Arguments given that only independent selection has."""
    found = [name for name in ("rate", "moments", "class_shares") if getattr(given, name, None) is not None]
    return found + (["balance"] if getattr(given, "balance", None) else [])


def _of_leverage(given: Arguments) -> list[str]:
    """Arguments given that only leverage has."""
    found = [name for name in ("threshold", "kappa", "horizon") if getattr(given, name, None) is not None]
    found += ["sample_rate"] if getattr(given, "sample_rate", 0.0) else []
    return found + (['order="given"'] if given.order != "hashed" else [])


def leverage_of(
    given: Arguments, n_features: int, n_samples: int, feature_map: FeatureMap | None = None, *, streaming: bool
) -> Leverage:
    """The selection that these arguments name, for mapped rows with so many columns; see :func:`configure`."""
    refuse_rule(given)
    grid = grid_of_parameters(given, n_features, feature_map)
    check_memory(grid)
    sample_rate, sample_key = sample_of(given)
    tau = _threshold(given, n_samples, streaming=streaming)
    named: dict[str, Any] = {}
    if given.kappa is not None:
        named = {
            "threshold": f"the threshold, horizon ** -kappa for n_samples = {n_samples},",
            "advice": "Lower capacity below horizon ** kappa, raise kappa, or give a larger horizon.",
        }
    # A sample is kept whatever the threshold.
    units = selecting_units(capacity_of_arguments(given, feature_map), 0.0 if sample_rate else tau, grid, **named)
    return Leverage(grid, units, tau, sample_rate, sample_key)


def refuse_rule(given: Arguments) -> None:
    """Raise ConfigurationError for arguments that only independent selection has."""
    set_by_caller = _of_independent(given)
    if set_by_caller:
        raise ConfigurationError(
            f'{" and ".join(set_by_caller)} are for independent selection: give selection= "independent", or leave '
            "them out."
        )


def independent_of(
    given: Arguments,
    n_features: int,
    classes: tuple[Label, ...] | None,
    feature_map: FeatureMap | None = None,
    labels: npt.NDArray[Any] | None = None,
) -> Independent:
    """The independent selection that these arguments name, for mapped rows with so many columns."""
    grid = grid_of_parameters(given, n_features, feature_map)
    check_memory(grid)
    # Rows of norm one have this length on the grid.
    rule = rule_of(given, n_features, classes, grid.stretch**2, labels)
    capacity = positive_number(capacity_of_arguments(given, feature_map), "capacity")
    return Independent(grid, regulariser(capacity, grid), **rule)


def rule_of(
    given: Arguments,
    n_features: int,
    classes: tuple[Label, ...] | None,
    stretch: float = 1.0,
    labels: npt.NDArray[Any] | None = None,
) -> dict[str, Any]:
    """The fields of the rule by which each row is kept or not; ``stretch`` is the squared length of unit rows.

    Raises ConfigurationError also for arguments of a selection that compares rows with each other.
    """
    refused = _of_leverage(given)
    if refused:
        raise ConfigurationError(
            f"independent selection looks at each row alone, so {' and '.join(refused)} cannot be set: give rate= "
            'instead, or selection= "leverage".'
        )
    stated: Any = map_of(given)  # a schema may state what the caller does not give
    rate = (getattr(stated, "rate", None) or DEFAULT_RATE) if given.rate is None else given.rate
    rate = number_between(rate, "rate", 0.0, 1.0, closed="high")
    moments = getattr(stated, "second_moments", None) if given.moments is None else given.moments
    rarity = rarity_of(moments, n_features)
    balance, by_class = getattr(given, "balance", None), getattr(given, "class_shares", None)
    _, of_learner = learner_in(given) or ("", ())
    weights = getattr(given, "class_weight", None), dict(of_learner).get("class_weight")
    weighted = any(weight is not None for weight in weights)
    optional = balance is None
    if by_class is None and hasattr(given, "balance") and not (optional and (weighted or rate == 1.0)) and balance != 0:
        by_class = _stated_shares(stated, classes, labels, optional=optional)
    if balance is None:
        balance = DEFAULT_BALANCE if by_class is not None and rate < 1.0 and not weighted else 0.0
    balance = number_between(balance, "balance", 0.0, 1.0, closed="both")
    shares = None if by_class is None else _class_shares(by_class, classes)
    if balance and weighted:
        raise ConfigurationError("balance and class_weight both make up for rare classes: leave one of them out.")
    mean = public_mean(rarity, n_features, stretch)
    fields = {"rate": rate, "key": order_key(given), "rarity": rarity, "mean_rarity": mean}
    return fields | {"balance": balance + 0.0, "class_shares": shares}


def _stated_shares(
    schema: Any, classes: tuple[Label, ...] | None, labels: npt.NDArray[Any] | None, *, optional: bool
) -> dict[Label, float] | None:
    """The shares that a schema states, by the fixed classes or else as labels of the rows' type; None without any.

    If they are ``optional``, also None where they are not those of the fixed classes, or where a class that is stated
    is no label of this type: labels were then encoded otherwise. *Law*: of rows, only the type of labels plays a part.
    """
    if not getattr(schema, "class_shares", None):
        return None
    kind = str if labels is None or not len(labels) else type(sorted_classes(labels[:1])[0])
    found: dict[Label, float] = schema.shares_of(classes, kind)
    fits = set(found) == set(classes) if classes else all(type(label) is kind for label in found)
    return found if fits or not optional else None


def _class_shares(given: Arguments, classes: tuple[Label, ...] | None) -> tuple[tuple[Label, float], ...]:
    """Each class with its public share, sorted."""
    if not isinstance(given, Mapping):
        raise ConfigurationError("class_shares must be a dictionary from each class to its public share.")
    ordered = sorted_classes(list(given))
    if classes is not None and ordered != classes:
        raise ConfigurationError("class_shares must name the classes that are fixed, and no others.")
    by_label = {
        label: number_between(share, "every share in class_shares", 0.0, 1.0, closed="high")
        for label, share in given.items()
    }
    return tuple((label, by_label[label]) for label in ordered)


def learner_in(given: Arguments) -> tuple[str, tuple[tuple[str, Any], ...]] | None:
    """The name and the parameters of the learner that these arguments name; None without one."""
    found: tuple[str, tuple[tuple[str, Any], ...]] | None = getattr(given, "learner_named", None)
    return found


def stored_for(given: Arguments, selection: Any, feature_map: FeatureMap | None) -> Any:
    """The selection with rows stored as the learner in these arguments sees them, if there is one.

    Raises ConfigurationError for a feature map that is no schema, whose raw rows cannot be stored.
    """
    named = learner_in(given)
    if named is None or not LEARNERS[named[0]].sees_raw:
        return selection
    if feature_map is not None and not (hasattr(feature_map, "raw_names") or isinstance(feature_map, LogFeatures)):
        raise ConfigurationError(
            f"the learner {named[0]} sees raw columns, which this map does not keep: leave feature_map out, give a "
            "Schema, or use sklearn_logistic or sklearn_ridge."
        )
    return storing_raw(selection, RawColumns.of(feature_map, selection.n_features))  # type: ignore[arg-type]


def regression_of(given: Arguments, n_targets: int) -> Regression | LearnerRegression:
    """The head of a regressor."""
    named, ranges = learner_in(given), target_ranges(given, n_targets)
    return Regression(ranges) if named is None else LearnerRegression(*named, ranges)


def capacity_of_arguments(given: Arguments, feature_map: FeatureMap | None) -> object:
    """The capacity given, or the default for rows that go through this map."""
    if given.capacity is not None:
        return given.capacity
    if not isinstance(feature_map, LogFeatures):
        return DEFAULT_CAPACITY
    return LOG_TARGET_CAPACITY if hasattr(given, "target_range") else LOG_CAPACITY


def head_of(
    given: Arguments, selection: GridSelection, feature_map: FeatureMap | None = None
) -> Squared | Logistic | Learner:
    """The head of a classifier."""
    named = learner_in(given)
    if named is not None:
        return Learner(*named)
    class_weight = plain_class_weights(given.class_weight)
    if choice(LOSSES[0] if given.loss is None else given.loss, "loss", LOSSES) == "squared":
        return Squared(class_weight)
    default = DEFAULT_HEAD_SCALING
    if isinstance(feature_map, LogFeatures) and feature_map.n_features <= MOST_SPREAD_COLUMNS:
        default = "spread"
    spread = head_scaling_of(given, default) == "spread"
    alpha = given.alpha
    if alpha is None and spread:
        alpha = DEFAULT_SPREAD_ALPHA
    elif alpha is None:
        alpha = DEFAULT_TABLE_ALPHA if getattr(map_of(given), "takes", None) == TABLES else DEFAULT_ALPHA
    units = regulariser(positive_number(alpha, "alpha"), selection.grid, "alpha")
    return SpreadLogistic(units, class_weight) if spread else Logistic(units, class_weight)


def head_scaling_of(given: Arguments, default: str) -> str:
    """How the regulariser of the logistic head measures columns: "flat" or "spread"."""
    named = getattr(given, "head_scaling", None)
    return default if named is None else choice(named, "head_scaling", HEAD_SCALINGS)


def target_ranges(given: Arguments, n_targets: int) -> tuple[Range, ...]:
    """The range of each target: one pair of numbers for all of them, or a pair for each; or those of a schema.

    Raises ConfigurationError also where the schema declares others.
    """
    declared = getattr(map_of(given), "target_range", None)
    typed = given.target_range
    if typed is None:
        typed = DEFAULT_TARGET_RANGE if declared is None else declared
    ranges = _checked_ranges(typed, n_targets)
    if declared is not None and ranges != declared:
        raise ConfigurationError("target_range differs from what the schema declares for its targets: leave it out.")
    return ranges


def _checked_ranges(typed: Any, n_targets: int) -> tuple[Range, ...]:
    ends = np.empty(0)
    with suppress(InputError, InputTypeError):
        ends = real_numbers(typed, "target_range")
    if ends.shape not in ((2,), (n_targets, 2)):
        raise ConfigurationError(
            f"target_range must be a pair of numbers, or one pair for each of the {n_targets} targets; got "
            f"{f'shape {ends.shape}' if ends.size else 'something else'}."
        )
    ranges = tuple((low + 0.0, high + 0.0) for low, high in np.broadcast_to(ends, (n_targets, 2)).tolist())
    for pair in ranges:
        check_range(pair)
    return ranges


def fixed_classes(given: Arguments, classes: ColumnLike) -> tuple[Label, ...] | None:
    """Classes given to ``partial_fit`` or to the constructor, which must not contradict each other; None where free."""
    if classes is not None and given.classes is not None and sorted_classes(classes) != sorted_classes(given.classes):
        raise ConfigurationError("classes given to partial_fit differ from the classes parameter: give one of them.")
    fixed = classes if classes is not None else given.classes
    return None if fixed is None else sorted_classes(fixed)


def map_of(given: Arguments, n_features: int | None = None) -> FeatureMap | None:
    """The caller's feature map, or the one inside a ``TableEncoder``; None if rows are used unmapped.

    A map that the caller gave by name takes rows of numbers. It is made for so many columns; None without the number.
    """
    feature_map = getattr(given, "feature_map", None)
    feature_map = getattr(feature_map, "feature_map", feature_map)
    if isinstance(feature_map, str) and feature_map in MAP_NAMES:
        return None if n_features is None else _named_map(given, n_features)
    if feature_map is not None and not isinstance(feature_map, FeatureMap):
        raise ConfigurationError(
            f"feature_map must be a FeatureMap, such as RandomFourierFeatures, HashedText or a Schema, or a name, "
            f"{' or '.join(map(repr, MAP_NAMES))}; got {type(feature_map).__name__}. Wrap a function of your own in "
            "FrozenMap."
        )
    named = learner_in(given)
    if named is not None and LEARNERS[named[0]].sees_raw:
        found: FeatureMap | None = getattr(feature_map, "keeping_raw", feature_map)
        return found
    return feature_map


def _named_map(given: Arguments, n_features: int) -> LogFeatures | None:
    """The log map of these arguments, or None where ``"auto"`` leaves rows as they are."""
    scales = plain_scaling(given.scaling)
    if _leaves_rows(given):
        return None
    check_scaling(scales, n_features, by_row=True)
    if not (scales == "row" or isinstance(scales, tuple)):
        raise ConfigurationError(
            'feature_map="log" divides each row by its norm: give scaling="row", or one positive number per column '
            "to divide the columns by. With another scaling= give feature_map=None."
        )
    return LogFeatures(
        n_features,
        constant=DEFAULT_CONSTANT if switch(given.fit_intercept, "fit_intercept") else 0.0,
        centres=given.centres,
        scales=scales if isinstance(scales, tuple) else None,
        missing=missing_of(given),
    )


def _leaves_rows(given: Arguments) -> bool:
    """Whether ``"auto"`` stands for no map: other arguments are about rows as they are, a norm or moments."""
    scales = plain_scaling(given.scaling)
    by_norm = scales is None or isinstance(scales, float)
    return bool(given.feature_map == AUTO and (by_norm or getattr(given, "moments", None) is not None))


def missing_of(given: Arguments) -> str | None:
    """What rows of numbers have for missing cells under these arguments; None if they may have none."""
    feature_map = getattr(given, "feature_map", None)
    if not isinstance(feature_map, str):
        found: str | None = getattr(feature_map, "missing", None)
        return found
    if given.missing is not None:
        return choice(given.missing, "missing", (INDICATOR,))
    named = learner_in(given)
    return ZERO if named is not None and LEARNERS[named[0]].sees_raw and not _leaves_rows(given) else None


def check_log_arguments(given: Arguments, feature_map: FeatureMap | None) -> None:
    """Raise ConfigurationError for arguments of the log map where rows do not pass through it by its name."""
    named = isinstance(getattr(given, "feature_map", None), str) and feature_map is not None
    typed = [name for name in ("centres", "missing") if getattr(given, name, None) is not None]
    if typed and not named:
        raise ConfigurationError(
            f'{" and ".join(typed)} are parameters of feature_map="log", and these rows do not pass through it: leave '
            "them out, or leave out what replaces the map (feature_map=, scaling=, moments= or learner=)."
        )


def check_memory(grid: Grid) -> None:
    """Refuse so many features that the four square matrices of learning cannot fit into this machine."""
    needed = 4 * 8 * grid.n_columns**2
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system: no opinion
        return
    if needed > memory:
        raise ConfigurationError(
            f"{grid.n_features:,} features need about {needed / 2**30:,.0f} GiB for matrices of features by features, "
            f"and this machine has {memory / 2**30:,.0f}: hash or project the features to fewer first."
        )


def warn_of_signs(grid: Grid) -> None:
    """Warn if nothing but the sign of the rows would be left."""
    if grid.n_features == 1 and grid.normalises:
        warnings.warn(
            "there is one feature, and scaling divides each row by its own norm, so only the sign of the feature is "
            "left: set scaling to a public number that no value exceeds, such as scaling=100.0.",
            stacklevel=5,  # the caller of fit
        )


def check_unchanged(given: Arguments, c: Configuration, classes: ColumnLike = None) -> None:
    """Raise ConfigurationError for arguments of a linear estimator that name another configuration than the model's."""
    changed = _changed_selection(given, c)
    named, held = learner_in(given), isinstance(c.head, Learner)
    if (named is not None) != held or (held and named != (c.head.learner, c.head.parameters)):
        changed.append("learner")
        refuse_changed(changed)
    if not c.head.classifies:
        if target_ranges(given, len(c.head.target_ranges)) != c.head.target_ranges:
            changed.append("target_range")
        refuse_changed(changed)
        return
    log = None if c.feature_map is None else described_log(c.feature_map)
    head = head_of(given, c.selection, log)
    if isinstance(head, Logistic) != isinstance(c.head, Logistic):
        changed.append("loss")
    elif head.NAME != c.head.NAME:
        changed.append("head_scaling")
    elif getattr(head, "alpha_units", None) != getattr(c.head, "alpha_units", None):
        changed.append("alpha")
    if head.class_weight != c.head.class_weight:
        changed.append("class_weight")
    for fixed in (given.classes, classes):
        if fixed is not None and sorted_classes(fixed) != c.classes:
            changed.append("classes")
    refuse_changed(changed)


def _changed_selection(given: Arguments, c: Configuration) -> list[str]:
    """Which arguments of the selection, and of the columns, name something else than the configuration has."""
    selection, grid = c.selection, c.grid
    if (selection_of(given) == "independent") != selection.independent:
        return ["selection"]
    changed = []
    raw = grid.n_features if c.feature_map is None else described_map(c.feature_map)["n_features"]
    feature_map = map_of(given, raw)
    if c.feature_map != (None if feature_map is None else describe_map(feature_map, raw)):
        by_name = c.feature_map is not None and described_log(c.feature_map) is not None
        names = "feature_map, fit_intercept, centres, missing or scaling"
        return [names if by_name and isinstance(feature_map, LogFeatures) else "feature_map"]
    if grid_of_parameters(given, grid.n_features, feature_map) != grid:
        changed.append("grid_bits, fit_intercept or scaling")
    capacity = positive_number(capacity_of_arguments(given, feature_map), "capacity")
    if regulariser(capacity, grid) != selection.units:
        changed.append("capacity")
    if names_of_features(given, raw) not in (None, c.feature_names):
        changed.append("feature_names")
    if isinstance(selection, Independent):
        wanted = None if changed else independent_of(given, grid.n_features, c.classes, feature_map)
        if wanted is not None and getattr(given, "balance", None) is None and selection.class_shares is None:
            wanted = replace(wanted, balance=0.0, class_shares=None)  # the labels were none of the stated classes
        if wanted is not None and stored_for(given, wanted, feature_map) != selection:
            changed.append("rate, moments, balance, class_shares or random_state")
        return changed
    rate, sample_key = sample_of(given)
    if rate != selection.sample_rate:
        changed.append("sample_rate")
    # kappa alone took the number of rows, which is kept nowhere
    alone = given.kappa is not None and given.threshold is None and given.horizon is None
    if not alone and _threshold(given, 1, streaming=True) != selection.threshold:
        changed.append("threshold, kappa or horizon")
    keys = (sample_key, selection.sample_key)
    if order_key(given) != c.order_key or (None not in keys and len(set(keys)) > 1):
        changed.append("order or random_state")
    return changed


def refuse_changed(changed: list[str]) -> None:
    """Raise ConfigurationError for arguments that differ from those of the model, by name."""
    if changed:
        raise ConfigurationError(
            f"{' and '.join(changed)} changed since the model was first fitted: set the old value again, or start "
            "over with fit or another file."
        )


def grid_of_parameters(given: Arguments, n_features: int, feature_map: FeatureMap | None = None) -> Grid:
    """How rows become integers under these arguments. Behind the constant column of a map the grid has no intercept."""
    intercept = switch(given.fit_intercept, "fit_intercept") and not getattr(feature_map, "constant", 0.0)
    named = feature_map is not None and isinstance(given.feature_map, str)
    scaling = "row" if named else given.scaling  # scales of columns are part of a map by name
    return grid_of(n_features, fit_intercept=intercept, scaling=scaling, grid_bits=given.grid_bits)


def _threshold(given: Arguments, n_samples: int, *, streaming: bool) -> float:
    """The threshold given, or ``horizon ** -kappa`` correctly rounded, so that it is the same on every machine."""
    if given.kappa is None:
        if given.horizon is not None:
            raise ConfigurationError(
                "horizon names a threshold only with kappa, as horizon ** -kappa: give kappa= too, or leave it out."
            )
        threshold = DEFAULT_THRESHOLD if given.threshold is None else given.threshold
        if isinstance(threshold, float) and threshold == math.inf:
            if not sample_of(given)[0]:
                raise ConfigurationError(
                    "threshold must be finite where there is no sample: if it is inf, only rows of the sample are "
                    "kept. Give sample_rate= above 0, or a finite threshold=."
                )
            return math.inf
        return number_not_negative(threshold, "threshold")
    kappa = number_between(given.kappa, "kappa", 0.0, 1.0, closed="both")
    if given.threshold is not None:
        raise ConfigurationError("kappa names a threshold, and threshold gives one: leave one of them out (None).")
    if given.horizon is None and streaming:
        raise ConfigurationError(
            "partial_fit needs horizon= (the number of rows you expect) with kappa=: the threshold must not move "
            "while rows stream in. Or give threshold= instead of both."
        )
    horizon = n_samples if given.horizon is None else given.horizon
    horizon = whole_number(horizon, "horizon")
    # Departure: Algorithm 1, line 4 compares with T ** -kappa; T is frozen here, once, into the threshold.
    context = decimal.Context(prec=60)
    return float(context.power(decimal.Decimal(horizon), -decimal.Decimal(kappa)))


def names_of_features(given: Arguments, n_features: int | None) -> tuple[str, ...] | None:
    """The names of columns that the caller fixed, where the class takes any; checked."""
    names = getattr(given, "feature_names", None)
    if names is None:
        return None
    if isinstance(names, str | bytes) or not hasattr(names, "__iter__"):
        raise ConfigurationError(f"feature_names must be a list of texts; got {type(names).__name__}.")
    fixed = tuple(str(name) if isinstance(name, str) else name for name in names)
    check_feature_names(fixed, n_features or 0)
    return fixed


def sorted_classes(classes: ColumnLike) -> tuple[Label, ...]:
    """Distinct classes in order, as plain values."""
    if isinstance(classes, str | bytes) or not hasattr(classes, "__iter__"):
        raise ConfigurationError(f"classes must be a list or an array; got {type(classes).__name__}.")
    plain = classes.to_pylist() if hasattr(classes, "to_pylist") else classes  # pyarrow
    array = plain if isinstance(plain, np.ndarray) else np.fromiter(plain, dtype=object)
    if np.ma.is_masked(array):
        raise ConfigurationError("classes must not have masked entries: leave them out.")
    if array.ndim != 1:
        raise ConfigurationError(f"classes must be one-dimensional; got shape {array.shape}.")
    if not len(array):
        raise ConfigurationError("classes must not be empty: omit it to take the classes from the core rows.")
    label_type(array, "classes")
    return tuple(sorted(set(pick(array, np.arange(len(array))))))


def order_key(given: Arguments) -> int | None:
    """The key that ``order`` and ``random_state`` of an estimator name; None for the order in which rows are given.

    Raises ConfigurationError.
    """
    key = seed(given.random_state, most=_LARGEST_KEY)
    return key if choice(given.order, "order", ORDERS) == "hashed" else None


def sample_of(given: Arguments) -> tuple[float, int | None]:
    """Rate and key of the sample that ``sample_rate`` and ``random_state`` of an estimator name; no key, no sample.

    Raises ConfigurationError.
    """
    rate = number_between(given.sample_rate, "sample_rate", 0.0, 1.0, closed="both") + 0.0
    return rate, seed(given.random_state, most=_LARGEST_KEY) if rate else None


def order_of(key: int | None, sample_key: int | None = None) -> dict[str, Any]:
    """The parameters of an estimator that name these keys."""
    if key is not None:
        return {"order": "hashed", "random_state": key}
    return {"order": "given"} | ({} if sample_key is None else {"random_state": sample_key})


# -- feature maps ------------------------------------------------------------------------------------------------


def describe_map(feature_map: FeatureMap, n_features: int | None) -> str:
    """A map and the width of the rows that it takes, as the configuration has them: canonical JSON."""
    return canonical_json({"map": feature_map.describe(), "n_features": n_features})


def described_map(text: str) -> dict[str, Any]:
    """What :func:`describe_map` wrote; raises StateFormatError for anything else."""
    try:
        written = read_json(text)
        described, taken = written["map"], written["n_features"]
        counted = taken is None or (type(taken) is int and taken >= 1)
        if len(written) == 2 and isinstance(described, dict) and counted and canonical_json(written) == text:
            return dict(written)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        pass
    raise StateFormatError("not a state: the description of its feature map is damaged.")


def stored_map(configuration: Configuration) -> FeatureMap | None:
    """The map that a file describes: a schema, which it holds whole, or what stands for code that it cannot hold."""
    if configuration.feature_map is None:
        return None
    schema = described_schema(configuration.feature_map)
    log = described_log(configuration.feature_map)
    if log is not None:
        columns, constant = configuration.selection.n_features, bool(log.constant)
        if log.n_features_out != columns or (constant and configuration.grid.intercept):
            raise StateFormatError("not a state: its feature map is damaged.")
        return log
    if schema is None:
        described = described_map(configuration.feature_map)["map"]
        return AbsentMap(canonical_json(described), configuration.selection.n_features)
    if schema.n_features_out != configuration.selection.n_features:
        raise StateFormatError("not a state: its schema is damaged.")
    return schema.keeping_raw if isinstance(configuration.selection, RawStorage) else schema


def described_schema(text: str) -> Schema | None:
    """The schema that :func:`describe_map` wrote; None if it wrote another map."""
    described = described_map(text)["map"]
    if described.get("map") != "schema":
        return None
    from erasable.schemas import Schema  # only here: most models have none

    try:
        schema = Schema.parse(described.get("text"))
    except ConfigurationError:
        schema = None
    if schema is None or schema.describe() != described:
        raise StateFormatError("not a state: its schema is damaged.")
    return schema


@lru_cache(maxsize=4)
def described_log(text: str) -> LogFeatures | None:
    """The log map that :func:`describe_map` wrote; None if it wrote another map."""
    described, log = described_map(text)["map"], None
    if described.get("map") != LOG:
        return None
    with suppress(AttributeError, KeyError, TypeError, ValueError, OverflowError, ConfigurationError):
        log = LogFeatures.read(described)
    if log is None or describe_map(log, log.n_features) != text:
        raise StateFormatError("not a state: its feature map is damaged.")
    return log


@lru_cache(maxsize=4)
def schema_in(feature_map: str | None) -> Schema | None:
    """The schema in the feature map of a header, if there is one."""
    return None if feature_map is None else described_schema(feature_map)


def spelling_in(meta: Mapping[str, Any]) -> Spelling:
    """The normalisation of ids and subjects that the schema in a header declares; empty without one."""
    schema = schema_in(meta.get("feature_map"))
    return {} if schema is None else schema.identity
