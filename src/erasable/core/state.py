"""The state: everything that is stored, as a frozen record with one canonical form in bytes.

The bytes are a pure function of the record, in the layout of :mod:`erasable.core.layout`. There are no times, counters
or gaps.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Float64s, Grid, Integers
from erasable.core.layout import (
    Key,
    Label,
    Tensors,
    guarded,
    key_tensors,
    name_fields,
    parse,
    parts,
    read_keys,
    read_label,
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
    """

    grid: Grid
    units: int
    threshold: float
    classes: tuple[Label, ...] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.units < LARGEST_EXACT // 2:
            raise ConfigurationError("capacity is outside what the grid can hold.")
        if not 0.0 <= self.threshold < math.inf:
            raise ConfigurationError("threshold must be a finite number, zero or more.")
        fixed = self.classes
        if fixed is not None and (not fixed or list(fixed) != sorted(set(fixed)) or len({type(c) for c in fixed}) > 1):
            raise ConfigurationError("fixed classes must be sorted, distinct and of one type.")


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
    sha = hashlib.sha256()
    for part in _parts(state):
        sha.update(part)
    return sha.hexdigest()


def to_bytes(state: State) -> bytes:
    """The canonical bytes of a state."""
    return b"".join(_parts(state))


def _parts(state: State) -> Iterator[bytes | memoryview]:
    return parts(_metadata(state), _tensors(state))


def _metadata(state: State) -> dict[str, Any]:
    grid, scaling = state.configuration.grid, state.configuration.grid.scaling
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
        "capacity_units": str(state.configuration.units),
        "threshold": state.configuration.threshold.hex(),
        **name_fields(state.classes, state.ids, state.subjects, fixed=state.configuration.classes is not None),
    }


def _tensors(state: State) -> Tensors:
    """Tensors in file order: the widest entries first, so that each is aligned."""
    codes = {c: i for i, c in enumerate(state.classes)}
    labels = [codes[v] for v in state.labels]
    ids, narrow_ids = key_tensors("ids", state.ids)
    subjects, narrow_subjects = key_tensors("subjects", state.subjects)
    rows = "I16" if state.rows.dtype.itemsize == 2 else "I32"
    wide: Tensors = {"gram": ("I64", state.gram), "class_sums": ("I64", state.class_sums), **ids, **subjects}
    middle: Tensors = {"weights": ("F32", state.weights), "labels": ("I32", labels), "rows": (rows, state.rows)}
    return {**wide, **middle, **narrow_ids, **narrow_subjects}


def from_bytes(data: bytes) -> State:
    """The state whose canonical bytes these are.

    Raises
    ------
    StateFormatError
        When the bytes are not the canonical bytes of any state, or of a newer version. Whether the state is what
        learning its rows gives is another question: see ``verify``.
    """
    return guarded(data, _parse, to_bytes)


def _parse(data: bytes) -> State:
    meta, tensors = parse(data)
    if meta["format"] != FORMAT:
        raise StateFormatError("this is some other safetensors file.")
    if meta["version"] != VERSION:
        raise StateFormatError(f"format version {meta['version']!r} is not {VERSION}: use a matching erasable.")
    scaling = meta["scaling"]
    if isinstance(scaling, list):
        scaling = tuple(float.fromhex(s) for s in scaling)
    elif scaling is not None and scaling != "row":
        scaling = float.fromhex(scaling)
    grid = Grid(int(meta["n_features"]), int(meta["bits"]), bool(meta["intercept"]), scaling)
    classes = tuple(read_label(meta["class_kind"], c) for c in meta["classes"])
    configuration = Configuration(
        grid,
        int(meta["capacity_units"]),
        float.fromhex(meta["threshold"]),
        classes if meta["classes_fixed"] else None,
    )
    d, rows = grid.n_columns, tensors["rows"]
    n = len(rows)
    labels = tensors["labels"]
    fits = (
        rows.shape == (n, d)
        and rows.dtype == grid.dtype
        and tensors["gram"].shape == (d * (d + 1) // 2,)
        and tensors["class_sums"].shape == (len(classes), d)
        and tensors["weights"].shape == (len(classes) if len(classes) > 2 else 1, d)
        and labels.shape == (n,)
        and (n == 0 or (labels.min() >= 0 and labels.max() < len(classes)))
    )
    if not fits:
        raise StateFormatError("its parts do not fit together.")
    ids = read_keys(tensors, "ids", meta["id_kind"], n)
    if None in ids or len(set(ids)) != n:
        raise StateFormatError("its ids are not distinct.")
    return State(
        configuration,
        ids,  # type: ignore[arg-type]
        read_keys(tensors, "subjects", meta["subject_kind"], n),
        tuple(classes[i] for i in labels.tolist()),
        rows,
        tensors["gram"],
        tensors["class_sums"],
        tensors["weights"],
    )
