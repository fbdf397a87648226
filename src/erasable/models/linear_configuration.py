"""All that the caller of a linear model fixed, and how the header of a file says it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.grid import Grid
from erasable.core.names import Label, check_feature_names, check_fixed_classes
from erasable.core.scaling import described_scaling, read_scaling
from erasable.core.sums import LARGEST_EXACT, sums_by_class, targets
from erasable.errors import ConfigurationError
from erasable.models.heads import LOSSES
from erasable.models.order import check_order_key, check_sample, described_order, in_sample, read_order
from erasable.models.state import classes_of
from erasable.models.weighting import (
    ClassWeights,
    check_class_weights,
    described_class_weights,
    read_class_weights,
)


@dataclass(frozen=True)
class LinearConfiguration:
    """All that the caller fixed: how rows become integers, ``lambda``, the threshold and, where given, the classes.

    ``units`` is lambda in squared grid steps; ``classes`` is sorted, or None when classes come from the core rows.
    ``feature_names`` are those of the columns of the input, where it has any; ``feature_map`` describes, as canonical
    JSON, the map that rows went through before they came here. ``order_key`` is the key of the hashes in whose order
    rows are decided, or None when they are decided as they are given. ``loss`` says which weights are published;
    ``alpha_units`` is the regulariser of the logistic ones, in squared grid steps. ``class_weight`` is that of
    :mod:`erasable.models.weighting`. Of the ids, ``sample_rate`` are kept whatever their leverage, by ``sample_key``.
    """

    grid: Grid
    units: int
    threshold: float
    classes: tuple[Label, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    feature_map: str | None = None
    order_key: int | None = None
    loss: str = "squared"
    alpha_units: int | None = None
    class_weight: ClassWeights = None
    sample_rate: float = 0.0
    sample_key: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.units < LARGEST_EXACT // 2:
            raise ConfigurationError("capacity is outside what the grid can hold.")
        check_sample(self.sample_rate, self.sample_key, self.order_key)
        if not 0.0 <= self.threshold <= math.inf or math.copysign(1.0, self.threshold) < 0.0:
            raise ConfigurationError("threshold must be a number, zero or more, and not minus zero.")
        if self.threshold == math.inf and not self.sample_rate:
            raise ConfigurationError("with an infinite threshold and no sample_rate no row would ever be kept.")
        if self.loss not in LOSSES or (self.alpha_units is None) != (self.loss == "squared"):
            raise ConfigurationError("the loss is squared, or logistic with an alpha.")
        if self.alpha_units is not None and not 1 <= self.alpha_units < LARGEST_EXACT // 2:
            raise ConfigurationError("alpha is outside what the grid can hold.")
        check_fixed_classes(self.classes)
        check_class_weights(self.class_weight, self.classes)
        check_order_key(self.order_key)
        if self.feature_names is not None:
            if self.feature_map is not None:
                raise ConfigurationError("a model behind a feature map has no names of columns.")
            check_feature_names(self.feature_names, self.grid.n_features)

    def always_kept(self, ids: Any) -> npt.NDArray[np.bool_] | None:
        """Which ids are in the sample; None where there is no sample."""
        return None if self.sample_key is None else in_sample(ids, self.sample_rate, self.sample_key)

    def for_a_part(self, classes: tuple[Label, ...]) -> LinearConfiguration:
        """The configuration of a part of the rows: numbers of classes are those of all."""
        return replace(self, classes=classes, class_weight=None)

    # -- what rows answer: the class that each is of ---------------------------------------------------------------

    def answers(self, labels: Sequence[Any]) -> tuple[Any, ...]:
        """What sums of rows are kept by, in their order, for core rows with these labels: the classes."""
        return classes_of(self.classes, labels)

    def answered(self, labels: Iterable[Any]) -> Collection[Any]:
        """Those of them that core rows with these labels have."""
        return dict.fromkeys(labels)

    def sums_of(self, rows: Any, labels: Sequence[Any]) -> dict[Any, Float64s]:
        """The sum of the rows of each class."""
        return sums_by_class(rows, labels, self.grid)

    def system(self, sums: Float64s) -> tuple[Float64s, int]:
        """``b`` from the sums in their order, and the bits of its unit, as ``solve_weights`` takes them."""
        return targets(sums), self.grid.bits

    # -- as a file has it ------------------------------------------------------------------------------------------

    def described(self) -> dict[str, Any]:
        """As the header of a file has it, but for the classes, which are those of the state."""
        return {
            **self.described_selection(),
            "loss": self.loss,
            "alpha_units": None if self.alpha_units is None else str(self.alpha_units),
            "class_weight": described_class_weights(self.class_weight),
        }

    def described_selection(self) -> dict[str, Any]:
        """What says which rows are kept, and how they become integers."""
        grid = self.grid
        return {
            "n_features": grid.n_features,
            "bits": grid.bits,
            "intercept": grid.intercept,
            "scaling": described_scaling(grid.scaling),
            "capacity_units": str(self.units),
            "threshold": self.threshold.hex(),
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "feature_map": self.feature_map,
            "order_key": described_order(self.order_key),
            "sample_rate": self.sample_rate.hex(),
            "sample_key": described_order(self.sample_key),
        }

    @classmethod
    def read(cls, meta: dict[str, Any], classes: tuple[Label, ...]) -> LinearConfiguration:
        """What :meth:`described` wrote, with the classes of the state. Anything may be raised for other values."""
        alpha = meta["alpha_units"]
        return LinearConfiguration(
            **read_selection(meta),
            classes=classes if meta["classes_fixed"] else None,
            loss=meta["loss"],
            alpha_units=None if alpha is None else int(alpha),
            class_weight=read_class_weights(meta["class_weight"]),
        )


def read_selection(meta: dict[str, Any]) -> dict[str, Any]:
    """What :meth:`LinearConfiguration.described_selection` wrote, as arguments of a configuration."""
    names = meta["feature_names"]
    return {
        "grid": grid_of(meta),
        "units": int(meta["capacity_units"]),
        "threshold": float.fromhex(meta["threshold"]),
        "feature_names": None if names is None else tuple(names),
        "feature_map": meta["feature_map"],
        "order_key": read_order(meta["order_key"]),
        "sample_rate": float.fromhex(meta["sample_rate"]),
        "sample_key": read_order(meta["sample_key"]),
    }


def grid_of(meta: dict[str, Any]) -> Grid:
    """The grid that metadata describe; anything may be raised for values of other types."""
    return Grid(int(meta["n_features"]), int(meta["bits"]), bool(meta["intercept"]), read_scaling(meta["scaling"]))
