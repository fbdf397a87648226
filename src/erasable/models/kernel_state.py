"""The state of a kernel model: points on the grid and their weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float32s, Float64s
from erasable.core.kernel_selector import check_points, kernel_matrix, select_points, smallest_eigenvalue
from erasable.core.kernels import KERNEL_BITS, REACH, Kernel, Points
from erasable.core.layout import Buffer, Tensors, check_format, guarded, parse
from erasable.core.names import Label, check_feature_names, check_fixed_classes, read_label, read_names
from erasable.core.scaling import described_scaling, read_scaling
from erasable.core.selector import Progress
from erasable.core.weights import solve_weights
from erasable.errors import ConfigurationError, ExactnessError, InputError, StateFormatError, VerificationError
from erasable.models.order import check_order_key, described_order, read_order
from erasable.models.state import State, at, classes_of


@dataclass(frozen=True)
class KernelConfiguration:
    """All that the caller fixed. ``units`` is ``mu = 1 / (4 B^2)``, the regulariser, in units of ``2**-30``.

    ``order_key`` as in ``LinearConfiguration``.
    """

    points: Points
    kernel: Kernel
    units: int
    threshold: float
    classes: tuple[Label, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    order_key: int | None = None

    def __post_init__(self) -> None:
        check_fixed_classes(self.classes)
        check_order_key(self.order_key)
        if self.feature_names is not None:
            check_feature_names(self.feature_names, self.points.n_features)
        if not 2 <= self.units < 2**50:
            raise ConfigurationError("capacity is outside what kernels can hold: between 2**-29 and 2**20.")
        if not 0.0 < self.threshold < math.inf:
            raise ConfigurationError("threshold must be a positive finite number.")


@dataclass(frozen=True, eq=False, repr=False)
class KernelState(State):
    """Configuration, core points in learning order, and the weights of the points.

    Attributes
    ----------
    ids, subjects, labels : tuples of length n_core
    rows : array of shape (n_core, n_features), int32
    weights : array of shape (1 or n_classes, n_core), float32
        ``(K + mu I)^-1 y``, correctly rounded.
    """

    configuration: KernelConfiguration
    weights: Float32s

    FORMAT = "erasable-kernel"

    def relearnt(self, progress: Progress | None = None) -> tuple[Self, npt.NDArray[np.intp]]:
        """Learn the points from nothing.

        *Law*: for a state reached by any learning and forgetting this is that state, and every point is selected.
        """
        c = self.configuration
        try:
            index, _ = select_points(
                self.rows,
                self.rows[:0],
                kernel=c.kernel,
                points=c.points,
                units=c.units,
                tau=c.threshold,
                progress=progress,
            )
            ids, subjects, labels = at(index.tolist(), self.ids, self.subjects, self.labels)
            rows = self.rows[index]
            check_points(len(rows), c.units)
            H = kernel_matrix(rows, c.kernel, c.points, c.units)
        except (ConfigurationError, InputError, ExactnessError) as error:  # what no rows that were learnt can have
            raise VerificationError(
                f"the stored rows cannot be learnt with the stored configuration: {error}"
            ) from error
        weights = kernel_weights(c, H, labels, classes_of(c.classes, labels))
        return type(self)(c, ids, subjects, labels, rows, weights), index

    def check_rows(self) -> None:
        """Refuse rows that are no points of the grid."""
        square = np.einsum("ij,ij->i", self.rows, self.rows, dtype=np.int64)
        if self.rows.shape[1] != self.configuration.points.n_features or (square > REACH**2).any():
            raise VerificationError("a core row is not a point of the grid.")

    def recomputed(self) -> dict[str, npt.NDArray[Any]]:
        """The weights."""
        return {"the weights": self.weights.view(np.int32)}

    def counts(self) -> tuple[int, int]:
        """Entries of the kernel matrix; weights."""
        return len(self.ids) ** 2, self.weights.size

    # -- canonical bytes -----------------------------------------------------------------------------------------

    def described(self) -> dict[str, Any]:
        """The configuration as the header of a file has it."""
        c, kernel, points = self.configuration, self.configuration.kernel, self.configuration.points
        return {
            "n_features": points.n_features,
            "bits": points.bits,
            "scaling": described_scaling(points.scaling),
            "kernel": kernel.name,
            "function": getattr(kernel.function, "__qualname__", None) if kernel.name == "custom" else None,
            "gamma": float(kernel.gamma).hex(),
            "nu": float(kernel.nu).hex(),
            "degree": kernel.degree,
            "coef0": float(kernel.coef0).hex(),
            "capacity_units": str(c.units),
            "threshold": c.threshold.hex(),
            "feature_names": None if c.feature_names is None else list(c.feature_names),
            "order_key": described_order(c.order_key),
        }

    def row_tensors(self) -> Tensors:
        """The points."""
        return {"rows": ("I32", self.rows)}

    def derived(self) -> Tensors:
        """The weights."""
        return {"weights": ("F32", self.weights)}

    @classmethod
    def from_bytes(cls, data: Buffer, function: Callable[[Float64s, Float64s], Any] | None = None) -> KernelState:
        """The state whose canonical bytes these are; a custom kernel's function is not in them and must be given.

        Raises
        ------
        StateFormatError
        """
        return guarded(data, lambda raw: _parse(raw, function), lambda state: state.pieces)


def kernel_weights(
    c: KernelConfiguration, H: Float64s, labels: tuple[Label, ...], classes: tuple[Label, ...]
) -> Float32s:
    """Weights of the core points: one row for one or two classes, one per class otherwise.

    *Law*: a pure function of the integers in H and of the labels. *Source*: Algorithm 2, line 3, in its penalised form.
    """
    k = len(classes) if len(classes) > 2 else 1
    if not len(labels):
        return np.zeros((k, 0), dtype=np.float32)
    codes = {label: i for i, label in enumerate(classes)}
    code = np.array([codes[v] for v in labels])
    wanted = np.arange(len(classes)) if k > 1 else np.array([len(classes) - 1])
    B = np.where(code[:, None] == wanted[None, :], 1.0, -1.0)
    check_points(len(labels), c.units)
    return solve_weights(H, B, KERNEL_BITS, smallest_eigenvalue(c.units))


def _parse(data: Buffer, function: Callable[[Float64s, Float64s], Any] | None) -> KernelState:
    meta, tensors = parse(data)
    check_format(meta, KernelState.FORMAT, KernelState.VERSION)
    custom = meta["kernel"] == "custom"
    if custom and function is None:
        raise StateFormatError("it has a kernel function of the caller's, which a file cannot hold: give it again.")
    kernel = Kernel(
        meta["kernel"],
        float.fromhex(meta["gamma"]),
        float.fromhex(meta["nu"]),
        int(meta["degree"]),
        float.fromhex(meta["coef0"]) + 0.0,  # minus zero, which no estimator writes, is then not canonical
        function if custom else None,
    )
    points = Points(int(meta["n_features"]), int(meta["bits"]), read_scaling(meta["scaling"]))
    classes = tuple(read_label(meta["class_kind"], v) for v in meta["classes"])
    names = meta["feature_names"]
    c = KernelConfiguration(
        points,
        kernel,
        int(meta["capacity_units"]),
        float.fromhex(meta["threshold"]),
        classes if meta["classes_fixed"] else None,
        None if names is None else tuple(names),
        read_order(meta["order_key"]),
    )
    rows, n = tensors["rows"], len(tensors["rows"])
    fits = (
        rows.shape == (n, points.n_features)
        and rows.dtype == np.int32
        and tensors["weights"].shape == (len(classes) if len(classes) > 2 else 1, n)
    )
    if not fits:
        raise StateFormatError("its parts do not fit together.")
    ids, subjects, labels = read_names(meta, tensors, classes, n)
    return KernelState(c, ids, subjects, labels, rows, tensors["weights"])
