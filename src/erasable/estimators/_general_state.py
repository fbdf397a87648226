"""The state of a model over a general function class, as a frozen record with one canonical form in bytes.

It is the configuration and the core rows in order, with labels, ids and subjects. The predictor is no part of it: it is
a function of the state, fitted when asked for. The bytes are in the layout of :mod:`erasable.core.layout`; float64 rows
are written as the 64-bit integers that have the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.classes._protocol import FunctionClass
from erasable.core.layout import (
    Buffer,
    Key,
    Label,
    Piece,
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
from erasable.coresets.single_pass import SinglePass
from erasable.coresets.staged import Staged
from erasable.errors import StateFormatError, VerificationError

FORMAT, VERSION = "erasable-general-state", 1
_STORED = {"float64": ("I64", np.int64), "int32": ("I32", np.int32), "int16": ("I16", np.int16)}


@dataclass(frozen=True)
class GeneralConfiguration:
    """All that the caller fixed: the function class, how rows are selected, the features and, where given, the classes.

    ``classes`` is sorted, or None when classes come from the core rows.
    """

    function_class: FunctionClass
    sampler: SinglePass | Staged
    n_features: int
    classes: tuple[Label, ...] | None = None

    def __post_init__(self) -> None:
        check_fixed_classes(self.classes)

    @property
    def threshold(self) -> float | None:
        """The threshold on D²; None for the staged sampler, which has one for each stage."""
        return self.sampler.threshold if isinstance(self.sampler, SinglePass) else None

    def describe(self) -> dict[str, Any]:
        """The configuration as plain JSON values."""
        return {"sampler": self.sampler.describe(), "n_features": self.n_features}

    def select(self, rows: npt.NDArray[Any], labels: Any) -> npt.NDArray[np.intp]:
        """Positions that the sampler selects among encoded rows, learnt from nothing; ascending."""
        if isinstance(self.sampler, SinglePass):
            return self.sampler.pick(rows, self.function_class.start(self.n_features))
        return np.sort(self.sampler.run(rows, labels, self.n_features).positions)


@dataclass(frozen=True, eq=False, repr=False)
class GeneralState:
    """Configuration, and core rows in learning order with their names.

    Attributes
    ----------
    ids, subjects, labels : tuples of length n_core
        A subject may be None.
    rows : array of shape (n_core, columns)
        Encoded rows, of the type that the function class makes.
    """

    configuration: GeneralConfiguration
    ids: tuple[Key, ...]
    subjects: tuple[Key | None, ...]
    labels: tuple[Label, ...]
    rows: npt.NDArray[Any]

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes the caller fixed, or those of the core rows, sorted."""
        fixed = self.configuration.classes
        return fixed if fixed is not None else tuple(sorted(set(self.labels)))

    def __repr__(self) -> str:
        return f"GeneralState({len(self.ids)} core rows, {self.configuration.n_features} features)"


def general_digest(state: GeneralState) -> str:
    """SHA-256 of the canonical bytes, as 64 hexadecimal digits."""
    return digest_of(general_to_pieces(state))


def general_to_bytes(state: GeneralState) -> bytes:
    """The canonical bytes of a state."""
    return b"".join(general_to_pieces(state))


def general_to_pieces(state: GeneralState) -> list[Piece]:
    """The canonical bytes of a state in pieces."""
    c = state.configuration
    meta = {
        "format": FORMAT,
        "version": VERSION,
        **c.describe(),
        "rows": state.rows.dtype.name,
        **name_fields(state.classes, state.ids, state.subjects, fixed=c.classes is not None),
    }
    codes = {label: i for i, label in enumerate(state.classes)}
    name, integers = _STORED[state.rows.dtype.name]
    rows = name, np.ascontiguousarray(state.rows).view(integers)
    return parts(meta, named_row_tensors(state.ids, state.subjects, [codes[v] for v in state.labels], rows))


def general_from_bytes(data: Buffer, configuration: GeneralConfiguration) -> GeneralState:
    """The state whose canonical bytes these are, under the configuration that it was written with.

    The bytes describe the function class, but cannot hold it. Fixed classes are the bytes' own.

    Raises
    ------
    StateFormatError
        When the bytes are not the canonical bytes of a state with this configuration.
    """
    return guarded(data, lambda b: _parse(b, configuration), general_to_pieces)


def _parse(data: Buffer, configuration: GeneralConfiguration) -> GeneralState:
    meta, tensors = parse(data)
    check_format(meta, FORMAT, VERSION)
    like = configuration.function_class.empty(configuration.n_features)
    rows = tensors["rows"]
    if meta["rows"] != like.dtype.name or rows.shape != (len(rows), like.shape[1]):
        raise StateFormatError("its parts do not fit together, or not this function class.")
    if {k: meta.get(k) for k in configuration.describe()} != configuration.describe():
        raise StateFormatError("it was written with another function class, sampler or threshold.")
    classes = tuple(read_label(meta["class_kind"], c) for c in meta["classes"])
    written_with = replace(configuration, classes=classes if meta["classes_fixed"] else None)
    ids, subjects, labels = read_names(meta, tensors, classes, len(rows))
    return GeneralState(written_with, ids, subjects, labels, rows.view(like.dtype))


def recompute(state: GeneralState) -> tuple[int, str]:
    """The number of core rows and the digest, once the rows, learnt again from nothing, gave the state again.

    Raises
    ------
    VerificationError
        Naming the first thing that differs.

    Notes
    -----
    *Source*: the right-hand side ``I(S' - U, {})`` of Definition 2.3.
    """
    c, n = state.configuration, len(state.ids)
    if not (len(state.subjects) == len(state.labels) == len(state.rows) == n):
        raise VerificationError("ids, subjects, labels and rows have different lengths.")
    for name, keys in (("ids", state.ids), ("subjects", state.subjects), ("labels", state.labels)):
        if len({type(k) for k in keys if k is not None}) > 1:
            raise VerificationError(f"the {name} are of several types.")
    if len(set(state.ids)) != n:
        raise VerificationError("two core rows have the same id.")
    if c.classes is not None and not set(state.labels) <= set(c.classes):
        raise VerificationError("a core row has a label that is not among the fixed classes.")
    unfit = np.flatnonzero(~c.function_class.holds(state.rows))
    if len(unfit):
        raise VerificationError(f"core row {int(unfit[0]) + 1} of {n} is no row of this function class.")
    index = c.select(state.rows, state.labels)
    if len(index) < n:
        position = int(np.flatnonzero(~np.isin(np.arange(n), index))[0])
        raise VerificationError(
            f"core row {position + 1} of {n} is not selected again when the rows are learnt from nothing "
            f"({n - len(index)} such rows in all)."
            + ("" if c.sampler.stable else f" That is to be expected: {_why_not_stable(c.sampler)}.")
        )
    # All were selected, in order: learning them from nothing gives these rows under these names.
    chosen = index.tolist()
    again = GeneralState(
        c,
        tuple(state.ids[i] for i in chosen),
        tuple(state.subjects[i] for i in chosen),
        tuple(state.labels[i] for i in chosen),
        state.rows[index],
    )
    text = general_digest(state)
    if general_digest(again) != text:
        raise VerificationError("the canonical bytes differ although the rows agree.")
    return n, text


def _why_not_stable(sampler: SinglePass | Staged) -> str:
    if isinstance(sampler, Staged):
        return "which rows the staged sampler selects depends on all others, so it is not stable under forgetting"
    return "this function class decides by rounded numbers, so another run may decide otherwise"
