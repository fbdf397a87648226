"""How states are written: one layout for each kind of model of format version 1, and one for all pairs since.

A layout turns a state into the metadata of a header and back. The tensors are the same for all: what is derived, then
labels, rows, ids and subjects. ``docs/format.md`` specifies the bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from erasable.core.layout import DTYPES
from erasable.core.names import Label, name_fields, owner_fields, read_label, read_names, read_owners
from erasable.errors import StateFormatError
from erasable.models.configuration import Configuration
from erasable.models.heads import HEADS
from erasable.models.inputs import LARGEST, ONE
from erasable.models.selections import SELECTIONS
from erasable.models.selections.leverage import described_order, read_order

if TYPE_CHECKING:
    from erasable.models.state import State

Tensors = dict[str, npt.NDArray[Any]]
Parts = tuple[Configuration, tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], Any, Any, Tensors]


class Layout:
    """Format version 2: any selection with any head, each described under its own name."""

    format: ClassVar[str] = "erasable-model"
    version: ClassVar[int] = 2

    def header(self, state: State) -> dict[str, Any]:
        """The metadata of a state."""
        c = state.configuration
        return {"format": self.format, "version": self.version, **self.described(c), **self.names(state)}

    def described(self, c: Configuration) -> dict[str, Any]:
        """The configuration, without the classes."""
        selection, head = c.selection.describe(), c.head.describe()
        if selection.keys() & head.keys():
            raise StateFormatError("selection and head have parameters of the same name.")
        return {"selection": c.selection.NAME, "head": c.head.NAME, **selection, **head, **_columns(c)}

    def names(self, state: State) -> dict[str, Any]:
        """The classes, and the types of ids and subjects."""
        c = state.configuration
        if not c.head.classifies:
            return owner_fields(state.ids, state.subjects)
        return name_fields(state.classes, state.ids, state.subjects, fixed=c.classes is not None)

    def configuration(self, meta: dict[str, Any], classes: tuple[Label, ...] | None, code: Any) -> Configuration:
        """The configuration that metadata describe. Values of other types may raise anything."""
        for part, known in (("selection", SELECTIONS), ("head", HEADS)):
            if meta[part] not in known:
                raise StateFormatError(f"its {part} {str(meta[part])[:40]!r} is unknown: install a newer erasable.")
        selection, head = SELECTIONS[meta["selection"]].read(meta), HEADS[meta["head"]].read(meta)
        return Configuration(selection, head, classes, *_read_columns(meta))

    def read(self, meta: dict[str, Any], tensors: Tensors, code: Any) -> Parts:
        """The fields of a state.

        Raises
        ------
        StateFormatError
            When the parts do not fit together. Values of other types may raise anything.
        """
        labels_of = [read_label(meta["class_kind"], v) for v in meta.get("classes", ())]
        fixed = tuple(labels_of) if meta.get("classes_fixed") else None
        c = self.configuration(meta, fixed, code)
        c = replace(c, selection=c.selection.with_tensors(tensors))
        rows = c.selection.read_rows(tensors)
        n = rows.shape[0]
        names: Any = (
            read_names(meta, tensors, tuple(labels_of), n) if c.head.classifies else _read_targets(c, meta, tensors, n)
        )
        row_weights = tensors.get("row_weights")
        wanted = c.head.specification(c, labels_of or names[2], n, weighted=row_weights is not None)
        derived = {name: tensors[name] for name in wanted}
        as_specified = all(
            tensors[name].shape == spec.shape and tensors[name].dtype == np.dtype(DTYPES[spec.dtype]).newbyteorder("=")
            for name, spec in wanted.items()
        )
        if not (as_specified and _fits(row_weights, n, c)):
            raise StateFormatError("its parts do not fit together.")
        return c, *names, rows, row_weights, derived


class _Linear(Layout):
    """Version 1: selection by leverage, with the squared or the logistic head."""

    format = "erasable-linear"
    version = 1

    def described(self, c: Configuration) -> dict[str, Any]:
        head = {"alpha_units": None, **c.head.describe()}
        return {**c.selection.describe(), **_columns(c), "loss": c.head.NAME, **head}

    def configuration(self, meta: dict[str, Any], classes: tuple[Label, ...] | None, code: Any) -> Configuration:
        if meta["loss"] not in ("squared", "logistic") or (meta["alpha_units"] is None) != (meta["loss"] == "squared"):
            raise StateFormatError("the loss is squared, or logistic with an alpha.")
        selection, head = SELECTIONS["leverage"].read(meta), HEADS[meta["loss"]].read(meta)
        return Configuration(selection, head, classes, *_read_columns(meta))


class _Regression(Layout):
    """Version 1: selection by leverage, with targets that are numbers."""

    format = "erasable-regression"
    version = 1

    def described(self, c: Configuration) -> dict[str, Any]:
        return {**c.selection.describe(), **_columns(c), **c.head.describe()}

    def configuration(self, meta: dict[str, Any], classes: tuple[Label, ...] | None, code: Any) -> Configuration:
        selection, head = SELECTIONS["leverage"].read(meta), HEADS["regression"].read(meta)
        return Configuration(selection, head, classes, *_read_columns(meta))


class _Kernel(Layout):
    """Version 1: a kernel; the function of a custom one is the caller's."""

    format = "erasable-kernel"
    version = 1

    def described(self, c: Configuration) -> dict[str, Any]:
        columns = _columns(c)
        del columns["feature_map"]
        return {**c.selection.describe(), **columns}

    def configuration(self, meta: dict[str, Any], classes: tuple[Label, ...] | None, code: Any) -> Configuration:
        selection, names = SELECTIONS["kernel"].read(meta, code), meta["feature_names"]
        names = None if names is None else tuple(names)
        return Configuration(selection, HEADS["kernel"](), classes, names, None, read_order(meta["order_key"]))


class _General(Layout):
    """Version 1: a function class, which is the caller's; a file only describes it."""

    format = "erasable-general"
    version = 1

    def described(self, c: Configuration) -> dict[str, Any]:
        order = described_order(c.order_key)
        return {**c.selection.describe(), "order_key": order, "rows": c.selection.empty().dtype.name}

    def configuration(self, meta: dict[str, Any], classes: tuple[Label, ...] | None, code: Any) -> Configuration:
        if meta["rows"] != code.selection.empty().dtype.name:
            raise StateFormatError("its parts do not fit together, or not this function class.")
        described = self.described(code)
        if {k: meta.get(k) for k in described} != described:
            raise StateFormatError("it was written with another function class, sampler, threshold or order of rows.")
        given: Configuration = code
        return replace(given, classes=classes)


_LAYOUTS: dict[str, Layout] = {layout.format: layout for layout in (_Linear(), _Regression(), _Kernel(), _General())}
_FORMAT_OF_PAIR = {
    ("leverage", "squared"): "erasable-linear",
    ("leverage", "logistic"): "erasable-linear",
    ("leverage", "regression"): "erasable-regression",
    ("kernel", "kernel"): "erasable-kernel",
    ("general", "general"): "erasable-general",
}
_LAYOUTS[Layout.format] = Layout()


def register(pair: tuple[str, str], layout: Layout) -> None:
    """Write models with this selection and head in a layout of their own."""
    _LAYOUTS[layout.format], _FORMAT_OF_PAIR[pair] = layout, layout.format


def layout_of(c: Configuration) -> Layout:
    """The layout of models with this configuration."""
    return _LAYOUTS[_FORMAT_OF_PAIR.get((c.selection.NAME, c.head.NAME), Layout.format)]


def layout_named(form: str) -> Layout:
    """The layout that a header names.

    Raises
    ------
    StateFormatError
    """
    if form not in _LAYOUTS:
        raise StateFormatError(f"it holds {form[:40]!r}, which is not a known format.")
    return _LAYOUTS[form]


def _columns(c: Configuration) -> dict[str, Any]:
    return {
        "feature_names": None if c.feature_names is None else list(c.feature_names),
        "feature_map": c.feature_map,
        "order_key": described_order(c.order_key),
    }


def _read_columns(meta: dict[str, Any]) -> tuple[Any, Any, int | None]:
    names = meta["feature_names"]
    return None if names is None else tuple(names), meta["feature_map"], read_order(meta["order_key"])


def _read_targets(c: Configuration, meta: dict[str, Any], tensors: Tensors, n: int) -> tuple[Any, Any, Any]:
    targets = tensors["targets"]
    if targets.shape != (n, len(c.head.target_ranges)) or targets.dtype != c.grid.dtype:
        raise StateFormatError("its targets do not fit its rows or its ranges.")
    return *read_owners(meta, tensors, n), tuple(map(tuple, targets.tolist()))


def _fits(row_weights: Any, n: int, c: Configuration) -> bool:
    """Whether weights of rows are as a file has them: for a head that takes them, in range, and not all one."""
    if row_weights is None:
        return True
    fits = c.head.takes_weights and row_weights.shape == (n,) and row_weights.dtype == np.int16
    return fits and bool(((row_weights >= 1) & (row_weights <= LARGEST)).all()) and bool((row_weights != ONE).any())
