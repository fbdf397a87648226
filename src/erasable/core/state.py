"""The state: everything that is stored, as a frozen record with one canonical form in bytes.

The bytes are a pure function of the record, in the layout of :mod:`erasable.core.layout`. There are no times, counters
or gaps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Float64s, Grid, Integers
from erasable.core.layout import (
    Buffer,
    Key,
    Label,
    Piece,
    Tensors,
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
from erasable.core.selector import GridRows, Progress, Selection, select
from erasable.core.sums import LARGEST_EXACT, empty_gram, packed, sums_by_class, targets, unpacked
from erasable.core.weights import Float32s, solve_weights
from erasable.errors import ConfigurationError, StateFormatError, VerificationError

FORMAT, VERSION = "erasable-state", 1


@dataclass(frozen=True)
class Configuration:
    """All that the caller fixed: how rows become integers, ``lambda``, the threshold and, where given, the classes.

    ``units`` is lambda in squared grid steps; ``classes`` is sorted, or None when classes come from the core rows.
    ``feature_names`` are those of the columns of the input, where it has any; ``feature_map`` describes, as canonical
    JSON, the map that rows went through before they came here.
    """

    grid: Grid
    units: int
    threshold: float
    classes: tuple[Label, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    feature_map: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.units < LARGEST_EXACT // 2:
            raise ConfigurationError("capacity is outside what the grid can hold.")
        if not 0.0 <= self.threshold < math.inf or math.copysign(1.0, self.threshold) < 0.0:
            raise ConfigurationError("threshold must be a finite number, zero or more, and not minus zero.")
        check_fixed_classes(self.classes)
        if self.feature_names is not None:
            if self.feature_map is not None:
                raise ConfigurationError("a model behind a feature map has no names of columns.")
            check_feature_names(self.feature_names, self.grid.n_features)


@dataclass(frozen=True, eq=False, repr=False)
class State:
    """Configuration, core rows in learning order, their exact sums, and the weights.

    Attributes
    ----------
    ids, subjects, labels : tuples of length n_core
        A subject may be None.
    rows : array of shape (n_core, n_columns), integers
    gram : array of shape (n_columns (n_columns + 1) / 2,), int64
        Lower triangle of the sum of g g', row by row. ``A = (units * I + gram) * 4**-bits``.
    class_sums : array of shape (n_classes, n_columns), int64
        Sum of the rows of each class; ``b`` follows from it, see :func:`erasable.core.sums.targets`.
    weights : array of shape (1 or n_classes, n_columns), float32
    """

    configuration: Configuration
    ids: tuple[Key, ...]
    subjects: tuple[Key | None, ...]
    labels: tuple[Label, ...]
    rows: Integers
    gram: npt.NDArray[np.int64]
    class_sums: npt.NDArray[np.int64]
    weights: Float32s

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes the caller fixed, or those of the core rows, sorted."""
        return classes_of(self.configuration, self.labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and digest(self) == digest(other)

    def __hash__(self) -> int:
        return hash(digest(self))

    def __repr__(self) -> str:
        return f"State({len(self.ids)} core rows, {self.configuration.grid.n_features} features)"


def classes_of(configuration: Configuration, labels: Sequence[Label]) -> tuple[Label, ...]:
    """Fixed classes, or the sorted distinct labels."""
    return configuration.classes if configuration.classes is not None else tuple(sorted(set(labels)))


def relearn(
    configuration: Configuration,
    ids: tuple[Key, ...],
    subjects: tuple[Key | None, ...],
    labels: tuple[Label, ...],
    rows: Integers,
    *,
    progress: Progress | None = None,
) -> tuple[State, Selection]:
    """Learn grid rows from nothing: the right-hand side ``I(S' - U, {})`` of the definition of exact unlearning.

    Notes
    -----
    *Law*: for a state reached by any learning and forgetting, ``relearn`` of its own rows returns that state.
    *Source*: Definition 2.3 and Algorithm 1.
    """
    grid, units = configuration.grid, configuration.units
    H = empty_gram(grid, units)
    selection = select(
        GridRows(rows, grid), H, 0, grid=grid, units=units, tau=configuration.threshold, progress=progress
    )
    kept = selection.index.tolist()
    chosen = np.concatenate(selection.batches) if kept else np.empty((0, grid.n_columns), dtype=grid.dtype)
    ids, subjects = tuple(ids[i] for i in kept), tuple(subjects[i] for i in kept)
    labels = tuple(labels[i] for i in kept)
    sums = stack_sums(classes_of(configuration, labels), sums_by_class(chosen, labels), grid)
    return assemble(configuration, ids, subjects, labels, chosen, H, sums), selection


def stack_sums(classes: tuple[Label, ...], sums: dict[Label, Float64s], grid: Grid) -> Float64s:
    """Class sums in the order of the classes, shape (n_classes, n_columns); zeros for a fixed class without rows."""
    zero = np.zeros(grid.n_columns)
    return np.array([sums.get(c, zero) for c in classes]).reshape(len(classes), grid.n_columns)


def assemble(
    configuration: Configuration,
    ids: tuple[Key, ...],
    subjects: tuple[Key | None, ...],
    labels: tuple[Label, ...],
    rows: Integers,
    H: Float64s,
    class_sums: Float64s,
    weights: Float32s | None = None,
) -> State:
    """A state from its rows and their sums; weights are solved for unless given."""
    grid, units = configuration.grid, configuration.units
    for name, sums in (("A", np.tril(H)), ("the class sums b", class_sums)):
        broken = np.argwhere(~(np.abs(sums) <= LARGEST_EXACT) | (sums != np.rint(sums)))
        if len(broken):
            place = ", ".join(map(str, broken[0].tolist()))
            raise VerificationError(f"{name} is no sum of grid rows: entry ({place}) is not an integer float64 holds.")
    if weights is None:
        weights = weights_of(configuration, H, class_sums)
    triangle = packed(H)
    diagonal = np.cumsum(np.arange(1, grid.n_columns + 1)) - 1
    triangle[diagonal] -= units
    return State(configuration, ids, subjects, labels, rows, triangle, class_sums.astype(np.int64), weights)


def weights_of(configuration: Configuration, H: Float64s, class_sums: Float64s) -> Float32s:
    """Weights from the sums; zero where there are no classes yet."""
    if len(class_sums) == 0:
        return np.zeros((1, configuration.grid.n_columns), dtype=np.float32)
    return solve_weights(H, targets(class_sums), configuration.grid.bits, configuration.units)


def gram_of(state: State) -> Float64s:
    """``H = units * I + gram`` as a lower triangle, ready for the selector."""
    H = unpacked(state.gram, state.configuration.grid.n_columns)
    H.flat[:: len(H) + 1] += state.configuration.units
    return H


# -- canonical bytes ---------------------------------------------------------------------------------------------


def digest(state: State) -> str:
    """SHA-256 of the canonical bytes, as 64 hexadecimal digits. Equal states, equal digests, on any machine."""
    return digest_of(to_pieces(state))


def to_bytes(state: State) -> bytes:
    """The canonical bytes of a state."""
    return b"".join(to_pieces(state))


def to_pieces(state: State) -> list[Piece]:
    """The canonical bytes of a state in pieces, so that the rows are not copied."""
    return parts(metadata(state), {**sum_tensors(state), **row_tensors(state)})


def metadata(state: State) -> dict[str, Any]:
    """What the header says of a state."""
    c, grid, scaling = state.configuration, state.configuration.grid, state.configuration.grid.scaling
    if isinstance(scaling, float):
        scaling_text: Any = scaling.hex()
    else:
        scaling_text = [s.hex() for s in scaling] if isinstance(scaling, tuple) else scaling
    return {
        "format": FORMAT,
        "version": VERSION,
        "n_features": grid.n_features,
        "bits": grid.bits,
        "intercept": grid.intercept,
        "scaling": scaling_text,
        "capacity_units": str(c.units),
        "threshold": c.threshold.hex(),
        "feature_names": None if c.feature_names is None else list(c.feature_names),
        "feature_map": c.feature_map,
        **name_fields(state.classes, state.ids, state.subjects, fixed=c.classes is not None),
    }


def sum_tensors(state: State) -> Tensors:
    """What is derived from the rows."""
    return {
        "gram": ("I64", state.gram),
        "class_sums": ("I64", state.class_sums),
        "weights": ("F32", state.weights),
    }


def row_tensors(state: State) -> Tensors:
    """The rows with their names."""
    codes = {c: i for i, c in enumerate(state.classes)}
    rows = "I16" if state.rows.dtype.itemsize == 2 else "I32"
    return named_row_tensors(state.ids, state.subjects, [codes[v] for v in state.labels], (rows, state.rows))


def from_bytes(data: Buffer) -> State:
    """The state whose canonical bytes these are; its arrays are read-only views of ``data``.

    Raises
    ------
    StateFormatError
        When the bytes are not the canonical bytes of any state, or of a newer version. Whether the state is what
        learning its rows gives is another question: see ``verify``.
    """
    return guarded(data, _parse, to_pieces)


def _parse(data: Buffer) -> State:
    meta, tensors = parse(data)
    check_format(meta, FORMAT, VERSION)
    return state_of(meta, tensors)


def state_of(meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]]) -> State:
    """The state that metadata and tensors describe; :func:`from_bytes` then checks that they are written as they are.

    Raises
    ------
    StateFormatError
        When the parts do not fit together. Anything may be raised for values of other types.
    """
    scaling = meta["scaling"]
    if isinstance(scaling, list):
        scaling = tuple(float.fromhex(s) for s in scaling)
    elif scaling is not None and scaling != "row":
        scaling = float.fromhex(scaling)
    grid = Grid(int(meta["n_features"]), int(meta["bits"]), bool(meta["intercept"]), scaling)
    classes = tuple(read_label(meta["class_kind"], c) for c in meta["classes"])
    names = meta["feature_names"]
    configuration = Configuration(
        grid,
        int(meta["capacity_units"]),
        float.fromhex(meta["threshold"]),
        classes if meta["classes_fixed"] else None,
        None if names is None else tuple(names),
        meta["feature_map"],
    )
    d, rows = grid.n_columns, tensors["rows"]
    fits = (
        rows.shape[1:] == (d,)
        and rows.dtype == grid.dtype
        and tensors["gram"].shape == (d * (d + 1) // 2,)
        and tensors["class_sums"].shape == (len(classes), d)
        and tensors["weights"].shape == (len(classes) if len(classes) > 2 else 1, d)
    )
    if not fits:
        raise StateFormatError("its parts do not fit together.")
    ids, subjects, labels = read_names(meta, tensors, classes, len(rows))
    return State(configuration, ids, subjects, labels, rows, tensors["gram"], tensors["class_sums"], tensors["weights"])
