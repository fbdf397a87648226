"""The state of a kernel classifier: configuration, core points, weights; one canonical form in bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Float64s, Integers
from erasable.core.kernel_selector import check_points, kernel_matrix, select_points, smallest_eigenvalue
from erasable.core.kernels import KERNEL_BITS, Kernel, Points
from erasable.core.layout import (
    Buffer,
    Key,
    Label,
    Piece,
    check_feature_names,
    check_fixed_classes,
    check_format,
    digest_of,
    guarded,
    name_fields,
    named_row_tensors,
    parse,
    parts,
    read_label,
    read_names,
)
from erasable.core.selector import Decisions, Progress
from erasable.core.weights import Float32s, solve_weights
from erasable.errors import ConfigurationError, StateFormatError

FORMAT, VERSION = "erasable-kernel-state", 1


@dataclass(frozen=True)
class KernelConfiguration:
    """All that the caller fixed. ``units`` is ``mu = 1 / (4 B^2)``, the regulariser, in units of ``2**-30``."""

    points: Points
    kernel: Kernel
    units: int
    threshold: float
    classes: tuple[Label, ...] | None = None
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_fixed_classes(self.classes)
        if self.feature_names is not None:
            check_feature_names(self.feature_names, self.points.n_features)
        if not 2 <= self.units < 2**50:
            raise ConfigurationError("capacity is outside what kernels can hold: between 2**-29 and 2**20.")
        if not 0.0 < self.threshold < math.inf:
            raise ConfigurationError("threshold must be a positive finite number.")


@dataclass(frozen=True, eq=False, repr=False)
class KernelState:
    """Configuration, core points in learning order, and the weights of the points.

    Attributes
    ----------
    ids, subjects, labels : tuples of length n_core
    rows : array of shape (n_core, n_features), int32
    weights : array of shape (1 or n_classes, n_core), float32
        ``(K + mu I)^-1 y``, correctly rounded.
    """

    configuration: KernelConfiguration
    ids: tuple[Key, ...]
    subjects: tuple[Key | None, ...]
    labels: tuple[Label, ...]
    rows: Integers
    weights: Float32s

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes the caller fixed, or those of the core rows, sorted."""
        fixed = self.configuration.classes
        return fixed if fixed is not None else tuple(sorted(set(self.labels)))

    def __repr__(self) -> str:
        return f"KernelState({len(self.ids)} core rows, {self.configuration.points.n_features} features)"


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


def relearn_points(
    c: KernelConfiguration,
    ids: tuple[Key, ...],
    subjects: tuple[Key | None, ...],
    labels: tuple[Label, ...],
    rows: Integers,
    *,
    progress: Progress | None = None,
) -> tuple[KernelState, npt.NDArray[np.intp], Decisions]:
    """Learn points from nothing: the state, the positions kept, and who decided.

    *Law*: for a state reached by any learning and forgetting, this of its own points returns that state.
    """
    none = rows[:0]
    index, decisions = select_points(
        rows, none, kernel=c.kernel, points=c.points, units=c.units, tau=c.threshold, progress=progress
    )
    kept = index.tolist()
    labels = tuple(labels[i] for i in kept)
    chosen = rows[index]
    classes = c.classes if c.classes is not None else tuple(sorted(set(labels)))
    weights = kernel_weights(c, kernel_matrix(chosen, c.kernel, c.points, c.units), labels, classes)
    state = KernelState(c, tuple(ids[i] for i in kept), tuple(subjects[i] for i in kept), labels, chosen, weights)
    return state, index, decisions


def kernel_digest(state: KernelState) -> str:
    """SHA-256 of the canonical bytes, as 64 hexadecimal digits."""
    return digest_of(kernel_to_pieces(state))


def kernel_to_bytes(state: KernelState) -> bytes:
    """The canonical bytes of a state."""
    return b"".join(kernel_to_pieces(state))


def kernel_to_pieces(state: KernelState) -> list[Piece]:
    """The canonical bytes of a state in pieces."""
    c, kernel, points = state.configuration, state.configuration.kernel, state.configuration.points
    scaling = points.scaling
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "n_features": points.n_features,
        "bits": points.bits,
        "scaling": [s.hex() for s in scaling] if isinstance(scaling, tuple) else scaling and scaling.hex(),
        "kernel": kernel.name,
        "function": getattr(kernel.function, "__qualname__", None) if kernel.name == "custom" else None,
        "gamma": float(kernel.gamma).hex(),
        "nu": float(kernel.nu).hex(),
        "degree": kernel.degree,
        "coef0": float(kernel.coef0).hex(),
        "capacity_units": str(c.units),
        "threshold": c.threshold.hex(),
        "feature_names": None if c.feature_names is None else list(c.feature_names),
        **name_fields(state.classes, state.ids, state.subjects, fixed=c.classes is not None),
    }
    codes = {label: i for i, label in enumerate(state.classes)}
    named = named_row_tensors(state.ids, state.subjects, [codes[v] for v in state.labels], ("I32", state.rows))
    return parts(meta, {"weights": ("F32", state.weights), **named})


def kernel_from_bytes(data: Buffer, function: Callable[[Float64s, Float64s], Any] | None = None) -> KernelState:
    """The state whose canonical bytes these are; a custom kernel's function is not in them and must be given.

    Raises
    ------
    StateFormatError
    """
    return guarded(data, lambda raw: _parse(raw, function), kernel_to_pieces)


def _parse(data: Buffer, function: Callable[[Float64s, Float64s], Any] | None) -> KernelState:
    meta, tensors = parse(data)
    check_format(meta, FORMAT, VERSION)
    scaling = meta["scaling"]
    if scaling is not None:
        scaling = tuple(map(float.fromhex, scaling)) if isinstance(scaling, list) else float.fromhex(scaling)
    custom = meta["kernel"] == "custom"
    if custom and function is None:
        raise StateFormatError("it has a kernel function of the caller's, which a file cannot hold: give it again.")
    kernel = Kernel(
        meta["kernel"],
        float.fromhex(meta["gamma"]),
        float.fromhex(meta["nu"]),
        int(meta["degree"]),
        float.fromhex(meta["coef0"]),
        function if custom else None,
    )
    points = Points(int(meta["n_features"]), int(meta["bits"]), scaling)
    classes = tuple(read_label(meta["class_kind"], v) for v in meta["classes"])
    names = meta["feature_names"]
    c = KernelConfiguration(
        points,
        kernel,
        int(meta["capacity_units"]),
        float.fromhex(meta["threshold"]),
        classes if meta["classes_fixed"] else None,
        None if names is None else tuple(names),
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
