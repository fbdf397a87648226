"""How states are written: one layout for each kind of model of format version 1, and one for all pairs since.

A layout turns a state into the metadata of a header and back. The tensors are the same for all: what is derived, then
labels, rows, ids and subjects. ``docs/format.md`` specifies the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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


@dataclass(frozen=True)
class Layout:
    """Format version 2: any selection with any head, each described under its own name.

    Attributes
    ----------
    format, version
        As the header of a file has them.
    kind : str
        What a model of this format is called in messages and by ``inspect``.
    pairs : tuple of (str, str)
        The names of the selections and heads that are written in this layout.
    needs : (str, str), optional
        The estimator to load a file with, and the code of the caller's that it brings: a file cannot hold code.
    shardable : bool
        Whether a large state may be written as several files, whose head has the format ``"<format>-sharded"``.
    labels : str
        The tensor of the labels of rows.
    """

    format: str = "erasable-model"
    version: int = 2
    kind: str = "selection and head"
    pairs: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, str] | None = None
    shardable: bool = False
    labels: str = "labels"

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
    """Version 1: selection by leverage, with the squared or the logistic head, or with targets that are numbers."""

    def described(self, c: Configuration) -> dict[str, Any]:
        loss = {"loss": c.head.NAME, "alpha_units": None} if c.head.classifies else {}
        return {**c.selection.describe(), **_columns(c), **loss, **c.head.describe()}

    def configuration(self, meta: dict[str, Any], classes: tuple[Label, ...] | None, code: Any) -> Configuration:
        head = "regression"
        if self.format == "erasable-linear":
            head = meta["loss"]
            if head not in ("squared", "logistic") or (meta["alpha_units"] is None) != (head == "squared"):
                raise StateFormatError("the loss is squared, or logistic with an alpha.")
        selection = SELECTIONS["leverage"].read(meta)
        return Configuration(selection, HEADS[head].read(meta), classes, *_read_columns(meta))


class _Kernel(Layout):
    """Version 1: a kernel; the function of a custom one is the caller's."""

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


class _CoreSet(Layout):
    """Version 1: a learner on a core set; map and learner are the caller's, a file only describes them."""

    def described(self, c: Configuration) -> dict[str, Any]:
        return {**c.selection.describe(), **c.head.describe()}

    def configuration(self, meta: dict[str, Any], classes: tuple[Label, ...] | None, code: Any) -> Configuration:
        given: Configuration = code
        columns, sparse = int(meta["n_features"]), meta["layout"] != "dense"
        return replace(given, selection=replace(given.selection, columns=columns, sparse=sparse))


_LINEAR = (("leverage", "squared"), ("leverage", "logistic"))
_ANY = Layout()
_LAYOUTS = (
    _Linear("erasable-linear", 1, "linear", _LINEAR, shardable=True),
    _Linear("erasable-regression", 1, "linear regression", (("leverage", "regression"),), None, True, "targets"),
    _Kernel("erasable-kernel", 1, "kernel", (("kernel", "kernel"),)),
    _General(
        "erasable-general",
        1,
        "general function class",
        (("general", "general"),),
        ("ErasableGeneralClassifier", "a function class"),
    ),
    _CoreSet(
        "erasable-core-set",
        1,
        "learner on a core set",
        (("core-set", "learner"),),
        ("CoreSetUnlearner", "a core-set map and a learner"),
    ),
    _ANY,
)
_BY_FORMAT = {layout.format: layout for layout in _LAYOUTS}
_BY_PAIR = {pair: layout for layout in _LAYOUTS for pair in layout.pairs}
SHARDED = "-sharded"  # ends the format of the head of several files

#: What a model is called, by the format that its header names.
KINDS = {layout.format: layout.kind for layout in _LAYOUTS}
KINDS |= {layout.format + SHARDED: f"{layout.kind}, in several files" for layout in _LAYOUTS if layout.shardable}


def layout_of(c: Configuration) -> Layout:
    """The layout of models with this configuration."""
    return _BY_PAIR.get((c.selection.NAME, c.head.NAME), _ANY)


def layout_named(form: str) -> Layout:
    """The layout of a state whose header names this format; of the head of several files, that of the whole state.

    Raises
    ------
    StateFormatError
    """
    if form not in KINDS:
        raise StateFormatError(
            f"it holds {form[:40]!r}, which this erasable does not know: "
            "install a newer erasable, or give the file of a model."
        )
    return _BY_FORMAT[form.removesuffix(SHARDED)]


def is_sharded(form: str) -> bool:
    """Whether a header of this format is the head of several files."""
    return form.endswith(SHARDED)


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
