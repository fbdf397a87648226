"""From constructor arguments to a configuration: everything is checked here, before any row is looked at."""

from __future__ import annotations

import decimal
import math
import numbers
import os
import warnings
from typing import Any, Protocol

import numpy as np

from erasable.core.grid import Grid
from erasable.core.layout import Label, check_feature_names
from erasable.core.state import Configuration
from erasable.core.sums import regulariser
from erasable.errors import ConfigurationError
from erasable.estimators._keys import label_type, pick


class Parameters(Protocol):
    """The constructor arguments of ``ErasableClassifier``, as the caller typed them."""

    capacity: Any
    kappa: Any
    threshold: Any
    horizon: Any
    fit_intercept: Any
    scaling: Any
    classes: Any
    grid_bits: Any


def configure(given: Parameters, n_features: int, n_samples: int, classes: Any, *, streaming: bool) -> Configuration:
    """The configuration that these arguments name.

    Parameters
    ----------
    classes : array-like, optional
        Classes given to ``partial_fit``.
    streaming : bool
        Whether rows arrive in several calls, so that the number of rows of this one names no horizon.

    Raises
    ------
    ConfigurationError
    """
    grid = grid_of_parameters(given, n_features)
    check_memory(grid)
    capacity = positive_number(given.capacity, "capacity")
    units = regulariser(capacity, grid)
    tau = _threshold(given, n_samples, streaming=streaming)
    if units * tau >= grid.longest:
        source = "threshold" if given.threshold is not None else "horizon ** -kappa"
        raise ConfigurationError(
            f"nothing could ever be selected: no row's leverage exceeds 1 / capacity = {1 / capacity:.6g} (a little "
            "less on the grid), and the "
            f"threshold is {source} = {tau:.6g} (n_samples = {n_samples}). Lower capacity below horizon ** kappa, "
            "raise kappa, or give a larger horizon or a lower threshold."
        )
    fixed = classes if classes is not None else given.classes
    if (
        fixed is not given.classes
        and given.classes is not None
        and sorted_classes(fixed) != sorted_classes(given.classes)
    ):
        raise ConfigurationError("classes given to partial_fit differ from the classes parameter: give one of them.")
    return Configuration(
        grid, units, tau, None if fixed is None else sorted_classes(fixed), names_of_features(given, n_features)
    )


def check_memory(grid: Grid) -> None:
    """Refuse so many features that the four square matrices of learning cannot fit into this machine."""
    needed = 4 * 8 * grid.n_columns**2
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system: no opinion
        return
    if needed > there:
        raise ConfigurationError(
            f"{grid.n_features:,} features need about {needed / 2**30:,.0f} GiB for matrices of features by features, "
            f"and this machine has {there / 2**30:,.0f}: hash or project the features to fewer first."
        )


def warn_of_signs(grid: Grid) -> None:
    """Say so where nothing but the sign of the rows would be left."""
    if grid.n_features == 1 and grid.normalises:
        warnings.warn(
            "there is one feature, and scaling divides each row by its own norm, so only the sign of the feature is "
            "left: set scaling to a public number that no value exceeds, such as scaling=100.0.",
            stacklevel=5,  # who called fit
        )


def check_unchanged(given: Parameters, configuration: Configuration, classes: Any) -> None:
    """Refuse arguments that name another configuration than the one the model was learnt with.

    Raises
    ------
    ConfigurationError
    """
    grid = configuration.grid
    changed = []
    if grid_of_parameters(given, grid.n_features) != grid:
        changed.append("grid_bits, fit_intercept or scaling")
    if regulariser(positive_number(given.capacity, "capacity"), grid) != configuration.units:
        changed.append("capacity")
    named = given.threshold is not None or given.horizon is not None
    if named and _threshold(given, 1, streaming=True) != configuration.threshold:
        changed.append("threshold, kappa or horizon")
    for fixed in (given.classes, classes):
        if fixed is not None and sorted_classes(fixed) != configuration.classes:
            changed.append("classes")
    if names_of_features(given, grid.n_features) not in (None, configuration.feature_names):
        changed.append("feature_names")
    if changed:
        raise ConfigurationError(
            f"{' and '.join(changed)} changed since the model was first fitted, which would make two models of it: "
            "set the old value again, or call fit to start anew."
        )


def grid_of_parameters(given: Parameters, n_features: int) -> Grid:
    """How rows become integers under these arguments."""
    scaling = given.scaling
    if isinstance(scaling, numbers.Real) and not isinstance(scaling, bool):
        scaling = finite_number(scaling, "scaling")
    elif scaling is not None and not isinstance(scaling, str):
        scaling = scales_of(scaling)
    if isinstance(given.grid_bits, bool) or not isinstance(given.grid_bits, numbers.Integral):
        raise ConfigurationError(f"grid_bits must be an integer; got {given.grid_bits!r}.")
    if not isinstance(given.fit_intercept, bool | np.bool_):
        raise ConfigurationError(f"fit_intercept must be True or False; got {given.fit_intercept!r}.")
    return Grid(n_features, int(given.grid_bits), bool(given.fit_intercept), scaling)


def _threshold(given: Parameters, n_samples: int, *, streaming: bool) -> float:
    """The threshold given, or ``horizon ** -kappa`` correctly rounded, so that it is the same on every machine."""
    if given.threshold is not None:
        threshold = finite_number(given.threshold, "threshold")
        if threshold < 0.0:
            raise ConfigurationError(f"threshold must not be negative; got {given.threshold!r}.")
        return threshold + 0.0  # minus zero is zero
    kappa = finite_number(given.kappa, "kappa")
    if not 0.0 <= kappa <= 1.0:
        raise ConfigurationError(f"kappa must be between 0 and 1; got {given.kappa!r}.")
    if given.horizon is None and streaming:
        raise ConfigurationError(
            "partial_fit needs horizon= (the number of rows you expect) or threshold=: the threshold must not move "
            "while rows stream in."
        )
    horizon = n_samples if given.horizon is None else given.horizon
    if isinstance(horizon, bool) or not isinstance(horizon, numbers.Integral) or horizon < 1:
        raise ConfigurationError(f"horizon must be a positive integer; got {given.horizon!r}.")
    # Departure: Algorithm 1, line 4 compares with T ** -kappa; T is frozen here, once, into the threshold.
    context = decimal.Context(prec=60)
    return float(context.power(decimal.Decimal(int(horizon)), -decimal.Decimal(kappa)))


def finite_number(value: Any, name: str) -> float:
    """A finite number as a float."""
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, numbers.Real) else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigurationError(f"{name} must be a finite number; got {value!r}.")
    return number


def positive_number(value: Any, name: str) -> float:
    """A positive finite number as a float."""
    number = finite_number(value, name)
    if number <= 0.0:
        raise ConfigurationError(f"{name} must be positive; got {value!r}.")
    return number


def names_of_features(given: Any, n_features: int) -> tuple[str, ...] | None:
    """The names of columns that the caller fixed, where the class takes any; checked."""
    names = getattr(given, "feature_names", None)
    if names is None:
        return None
    if isinstance(names, str | bytes) or not hasattr(names, "__iter__"):
        raise ConfigurationError(f"feature_names must be a list of texts; got {type(names).__name__}.")
    fixed = tuple(str(name) if isinstance(name, str) else name for name in names)
    check_feature_names(fixed, n_features)
    return fixed


def scales_of(scaling: Any) -> tuple[float, ...]:
    """Scales, one per feature, as floats; whether they are positive is for others to judge."""
    try:
        scales = np.empty((0, 0)) if np.iscomplexobj(scaling) else np.asarray(scaling, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        scales = np.empty((0, 0))
    if scales.ndim != 1:
        raise ConfigurationError("scaling must be 'row', None, a positive number or one positive number per feature.")
    return tuple(scales.tolist())


def sorted_classes(classes: Any) -> tuple[Label, ...]:
    """Distinct classes in order, as plain values."""
    if isinstance(classes, str | bytes) or not hasattr(classes, "__iter__"):
        raise ConfigurationError(f"classes must be a list or an array; got {type(classes).__name__}.")
    plain = classes.to_pylist() if hasattr(classes, "to_pylist") else classes  # pyarrow
    array = plain if isinstance(plain, np.ndarray) else np.fromiter(plain, dtype=object)
    if array.ndim != 1:
        raise ConfigurationError(f"classes must be one-dimensional; got shape {array.shape}.")
    if not len(array):
        raise ConfigurationError("classes must not be empty: omit it to take the classes from the core rows.")
    label_type(array, "classes")
    return tuple(sorted(set(pick(array, np.arange(len(array))))))
