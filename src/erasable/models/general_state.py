"""The state of a model over a general function class, as a frozen record with one canonical form in bytes.

It is the configuration and the core rows in order, with labels, ids and subjects. The predictor is no part of it: it is
a function of the state, fitted when asked for. The bytes are in the layout of :mod:`erasable.core.layout`; float64 rows
are written as the 64-bit integers that have the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from erasable.classes import FunctionClass
from erasable.core.layout import Buffer, Tensors, check_format, guarded, parse
from erasable.core.names import Label, check_fixed_classes, read_label, read_names
from erasable.core.selector import Progress
from erasable.coresets.single_pass import SinglePass
from erasable.coresets.staged import Staged
from erasable.errors import StateFormatError, VerificationError
from erasable.models.order import check_order_key, described_order
from erasable.models.state import State, at

_STORED = {"float64": ("I64", np.int64), "int32": ("I32", np.int32), "int16": ("I16", np.int16)}


@dataclass(frozen=True)
class GeneralConfiguration:
    """All that the caller fixed: the function class, how rows are selected, the features and, where given, the classes.

    ``classes`` is sorted, or None when classes come from the core rows. ``order_key`` as in ``LinearConfiguration``;
    None for the staged sampler, which looks at all rows at once.
    """

    function_class: FunctionClass
    sampler: SinglePass | Staged
    n_features: int
    classes: tuple[Label, ...] | None = None
    order_key: int | None = None

    def __post_init__(self) -> None:
        check_fixed_classes(self.classes)
        check_order_key(self.order_key)

    @property
    def threshold(self) -> float | None:
        """The threshold on D²; None for the staged sampler, which has one for each stage."""
        return self.sampler.threshold if isinstance(self.sampler, SinglePass) else None

    def describe(self) -> dict[str, Any]:
        """The configuration as plain JSON values."""
        return {
            "sampler": self.sampler.describe(),
            "n_features": self.n_features,
            "order_key": described_order(self.order_key),
        }

    def select(self, rows: npt.NDArray[Any], labels: Any) -> npt.NDArray[np.intp]:
        """Positions that the sampler selects among encoded rows, learnt from nothing; ascending."""
        if isinstance(self.sampler, SinglePass):
            return self.sampler.pick(rows, self.function_class.start(self.n_features))
        return np.sort(self.sampler.run(rows, labels, self.n_features).positions)


@dataclass(frozen=True, eq=False, repr=False)
class GeneralState(State):
    """Configuration, and core rows in learning order with their names; nothing is derived.

    Attributes
    ----------
    ids, subjects, labels : tuples of length n_core
        Subjects of a row: None, one, or a sorted tuple of several.
    rows : array of shape (n_core, columns)
        Encoded rows, of the type that the function class makes.
    """

    configuration: GeneralConfiguration

    FORMAT = "erasable-general"

    def relearnt(self, progress: Progress | None = None) -> tuple[Self, npt.NDArray[np.intp]]:
        """Learn the encoded rows from nothing."""
        index = self.configuration.select(self.rows, self.labels)
        if progress is not None:
            progress(len(self.ids), len(self.ids))
        ids, subjects, labels = at(index.tolist(), self.ids, self.subjects, self.labels)
        return type(self)(self.configuration, ids, subjects, labels, self.rows[index]), index

    def check_rows(self) -> None:
        """Refuse rows that are none of the function class's."""
        unfit = np.flatnonzero(~self.configuration.function_class.holds(self.rows))
        if len(unfit):
            raise VerificationError(
                f"core row {int(unfit[0]) + 1} of {len(self.ids)} is no row of this function class."
            )

    def not_selected(self, position: int, missing: int) -> str:
        """What to say when a row is not selected again; of some samplers that is to be expected."""
        sampler = self.configuration.sampler
        why = "" if sampler.stable else f" That is to be expected: {_why_not_stable(sampler)}."
        return super().not_selected(position, missing) + why

    # -- canonical bytes -----------------------------------------------------------------------------------------

    def described(self) -> dict[str, Any]:
        """The configuration as the header of a file has it."""
        return {**self.configuration.describe(), "rows": self.rows.dtype.name}

    def row_tensors(self) -> Tensors:
        """The rows, floats as the integers that have the same bits."""
        name, integers = _STORED[self.rows.dtype.name]
        return {"rows": (name, np.ascontiguousarray(self.rows).view(integers))}

    @classmethod
    def from_bytes(cls, data: Buffer, configuration: GeneralConfiguration) -> GeneralState:
        """The state whose canonical bytes these are, under the configuration that it was written with.

        The bytes describe the function class, but cannot hold it. Fixed classes are the bytes' own.

        Raises
        ------
        StateFormatError
            When the bytes are not the canonical bytes of a state with this configuration.
        """
        return guarded(data, lambda raw: _parse(raw, configuration), lambda state: state.pieces)


def _parse(data: Buffer, configuration: GeneralConfiguration) -> GeneralState:
    meta, tensors = parse(data)
    check_format(meta, GeneralState.FORMAT, GeneralState.VERSION)
    like = configuration.function_class.empty(configuration.n_features)
    rows = tensors["rows"]
    if meta["rows"] != like.dtype.name or rows.shape != (len(rows), like.shape[1]):
        raise StateFormatError("its parts do not fit together, or not this function class.")
    if {k: meta.get(k) for k in configuration.describe()} != configuration.describe():
        raise StateFormatError("it was written with another function class, sampler, threshold or order of rows.")
    classes = tuple(read_label(meta["class_kind"], c) for c in meta["classes"])
    written_with = replace(configuration, classes=classes if meta["classes_fixed"] else None)
    ids, subjects, labels = read_names(meta, tensors, classes, len(rows))
    return GeneralState(written_with, ids, subjects, labels, rows.view(like.dtype))


def _why_not_stable(sampler: SinglePass | Staged) -> str:
    if isinstance(sampler, Staged):
        return "which rows the staged sampler selects depends on all others, so it is not stable under forgetting"
    return "this function class decides by rounded numbers, so another run may decide otherwise"
