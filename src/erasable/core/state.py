"""The state: everything that is stored, as a frozen record with one canonical form in bytes.

The bytes are a pure function of the record, in the safetensors layout (readable by any safetensors library): an
8-byte little-endian header length, a JSON header, then the tensors in a fixed order without gaps. One metadata key,
``erasable``, holds the configuration as canonical JSON (RFC 8785: sorted keys, no spaces; numbers beyond small
integers are written as strings, floats in hexadecimal, so that nothing is rounded). There are no times, counters or
gaps.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Float64s, Grid, Integers
from erasable.core.selector import GridRows, Progress, Selection, select
from erasable.core.sums import LARGEST_EXACT, empty_gram, packed, sums_by_class, targets, unpacked
from erasable.core.weights import Float32s, solve_weights
from erasable.errors import ConfigurationError, ErasableError, StateFormatError, VerificationError

Key = int | str | bytes
Label = bool | int | float | str

FORMAT, VERSION = "erasable-state", 1
_DTYPES = {"I64": "<i8", "F32": "<f4", "I32": "<i4", "I16": "<i2", "U8": "|u1"}
_KINDS: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "str", bytes: "bytes"}


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


def kind_of(value: object) -> str:
    """``"int"``, ``"str"``, ``"bytes"``, ``"bool"`` or ``"float"``."""
    return _KINDS[type(value)]


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
    return solve_weights(H, targets(class_sums), configuration.grid, configuration.units)


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
    tensors = _tensors(state)
    header: dict[str, Any] = {"__metadata__": {"erasable": _canonical_json(_metadata(state))}}
    offset = 0
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, array in tensors.values():
        yield (array.reshape(-1).view(np.uint8).data)


def _canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _write(value: Label) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return value.hex()
        case _:
            return str(value)


def _read(kind: str, text: str) -> Label:
    match kind:
        case "bool":
            return {"true": True, "false": False}[text]
        case "float":
            return float.fromhex(text)
        case "int":
            return int(text)
        case "str":
            return text
    raise KeyError(kind)


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
        "classes": [_write(c) for c in state.classes],
        "class_kind": kind_of(state.classes[0]) if state.classes else None,
        "classes_fixed": state.configuration.classes is not None,
        "id_kind": kind_of(state.ids[0]) if state.ids else None,
        "subject_kind": next((kind_of(s) for s in state.subjects if s is not None), None),
    }


def _tensors(state: State) -> dict[str, tuple[str, npt.NDArray[Any]]]:
    """Tensors in file order: the widest entries first, so that each is aligned."""
    codes = {c: i for i, c in enumerate(state.classes)}
    labels = [codes[v] for v in state.labels]
    wide = {"gram": ("I64", state.gram), "class_sums": ("I64", state.class_sums)}
    narrow: dict[str, tuple[str, Any]] = {}
    for name, keys in (("ids", state.ids), ("subjects", state.subjects)):
        present = [k is not None for k in keys]
        if name == "subjects" and any(present) and not all(present):
            narrow["subjects.present"] = ("U8", present)
        if not any(present):
            continue
        if all(k is None or type(k) is int for k in keys):
            wide[name] = ("I64", np.array([k or 0 for k in keys], dtype=np.int64))
        else:
            texts = [b"" if k is None else k.encode() if isinstance(k, str) else bytes(k) for k in keys]
            wide[name + ".ends"] = ("I64", np.cumsum([len(t) for t in texts], dtype=np.int64))
            narrow[name] = ("U8", np.frombuffer(b"".join(texts), dtype=np.uint8))
    rows = "I16" if state.rows.dtype.itemsize == 2 else "I32"
    middle = {"weights": ("F32", state.weights), "labels": ("I32", labels), "rows": (rows, state.rows)}
    return {
        name: (dtype, np.ascontiguousarray(array, dtype=_DTYPES[dtype]))
        for name, (dtype, array) in {**wide, **middle, **narrow}.items()
    }


def from_bytes(data: bytes) -> State:
    """The state whose canonical bytes these are.

    Raises
    ------
    StateFormatError
        When the bytes are not the canonical bytes of any state, or of a newer version. Whether the state is what
        learning its rows gives is another question: see ``verify``.
    """
    try:
        state = _parse(data)
    except ErasableError as error:
        raise StateFormatError(f"not a state: {error}") from error
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, AttributeError, RecursionError) as error:
        raise StateFormatError("not a state: the bytes are truncated or altered.") from error
    if to_bytes(state) != data:
        raise StateFormatError("not a state: the bytes are not in canonical form.")
    return state


def _parse(data: bytes) -> State:
    start = 8 + int.from_bytes(data[:8], "little")
    if start > len(data):
        raise StateFormatError("the header is cut off.")
    header = json.loads(data[8:start].decode())
    meta = json.loads(header.pop("__metadata__")["erasable"])
    if meta["format"] != FORMAT:
        raise StateFormatError("this is some other safetensors file.")
    if meta["version"] != VERSION:
        raise StateFormatError(f"format version {meta['version']!r} is not {VERSION}: use a matching erasable.")
    tensors = {name: _tensor(data[start:], entry) for name, entry in header.items()}
    scaling = meta["scaling"]
    if isinstance(scaling, list):
        scaling = tuple(float.fromhex(s) for s in scaling)
    elif scaling is not None and scaling != "row":
        scaling = float.fromhex(scaling)
    grid = Grid(int(meta["n_features"]), int(meta["bits"]), bool(meta["intercept"]), scaling)
    classes = tuple(_read(meta["class_kind"], c) for c in meta["classes"])
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
    ids = _keys(tensors, "ids", meta["id_kind"], n)
    if None in ids or len(set(ids)) != n:
        raise StateFormatError("its ids are not distinct.")
    return State(
        configuration,
        ids,  # type: ignore[arg-type]
        _keys(tensors, "subjects", meta["subject_kind"], n),
        tuple(classes[i] for i in labels.tolist()),
        rows,
        tensors["gram"],
        tensors["class_sums"],
        tensors["weights"],
    )


def _tensor(data: bytes, entry: dict[str, Any]) -> npt.NDArray[Any]:
    low, high = entry["data_offsets"]
    if not 0 <= low <= high <= len(data):
        raise StateFormatError("it is cut off.")
    array: npt.NDArray[Any] = np.frombuffer(data[low:high], dtype=_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _keys(tensors: dict[str, npt.NDArray[Any]], name: str, kind: str | None, n: int) -> tuple[Key | None, ...]:
    if kind is None:
        return (None,) * n
    if kind == "int":
        keys: list[Any] = tensors[name].tolist()
    else:
        blob, ends = tensors[name].tobytes(), [0, *tensors[name + ".ends"].tolist()]
        texts = [blob[a:b] for a, b in itertools.pairwise(ends)]
        keys = [t.decode() for t in texts] if kind == "str" else texts
    present = tensors[name + ".present"].tolist() if name + ".present" in tensors else [1] * n
    return tuple(k if p else None for k, p in zip(keys, present, strict=True))
