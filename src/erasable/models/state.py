"""The state of a model: all that is stored, as one frozen record with one canonical form in bytes and one digest.

The bytes are a pure function of the record, in the layout of :mod:`erasable.core.layout`: no times, no counters, no
gaps. They are made once and hashed once, and the same bytes are verified, written, signed and reported.

A :class:`Layout` turns a state into the metadata of a header and back: one for each kind of model of format version 1,
and one for all pairs since. The tensors are the same for all: what is derived, then labels, rows, ids and subjects.
``docs/format.md`` specifies the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Matrix
from erasable.core.grid import laid_out
from erasable.core.layout import (
    DTYPES,
    Buffer,
    Piece,
    Tensors,
    check_format,
    digest_of,
    guarded,
    parse,
    parts,
    same_content,
)
from erasable.core.names import (
    Key,
    Label,
    Owners,
    are_several,
    each_owner,
    key_tensors,
    name_fields,
    owner_fields,
    read_label,
    read_names,
    read_owners,
)
from erasable.core.threads import Shared
from erasable.errors import StateFormatError, VerificationError
from erasable.models.configuration import Configuration
from erasable.models.heads import HEADS
from erasable.models.heads.linear import ExactSums
from erasable.models.inputs import LARGEST, ONE, Labels, RowWeights, uneven
from erasable.models.reports import STORED_ONCE, VerifyReport
from erasable.models.selections import SELECTIONS
from erasable.models.selections.leverage import described_order, read_order
from erasable.models.strategies import Derived, classes_of

#: What a file describes and cannot hold: a kernel function, or the configuration of a model with code of the caller's.
CallerCode = Any
Parts = tuple[Configuration, tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], Any, Any, Derived]


SHARDED = "-sharded"  # ends the format of the head of several files in version 1


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
        Whether a large state on a grid is written as several files.
    """

    format: str = "erasable-model"
    version: int = 2
    kind: str = "selection and head"
    pairs: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, str] | None = None
    shardable: bool = False

    @property
    def head_format(self) -> str:
        """The format of the head of several files; in version 2 that of one file."""
        return self.format + (SHARDED if self.version == 1 else "")

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

    def configuration(
        self, meta: dict[str, Any], tensors: Derived, classes: tuple[Label, ...] | None, code: CallerCode
    ) -> Configuration:
        """The configuration that metadata and public tensors describe. Values of other types may raise anything."""
        for part, known in (("selection", SELECTIONS), ("head", HEADS)):
            if meta[part] not in known:
                raise StateFormatError(f"its {part} {str(meta[part])[:40]!r} is unknown: install a newer erasable.")
        function = () if code is None else (code,)  # of a kernel: a file cannot hold it
        selection, head = SELECTIONS[meta["selection"]].read(meta, *function), HEADS[meta["head"]].read(meta)
        return Configuration(selection.with_tensors(tensors), head, classes, *_read_columns(meta))

    def read(self, meta: dict[str, Any], tensors: Derived, code: CallerCode) -> Parts:
        """The fields of a state; raises StateFormatError if they do not fit together.

        Values of other types may raise anything.
        """
        labels_of = [read_label(meta["class_kind"], v) for v in meta.get("classes", ())]
        fixed = tuple(labels_of) if meta.get("classes_fixed") else None
        c = self.configuration(meta, tensors, fixed, code)
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

    def configuration(
        self, meta: dict[str, Any], tensors: Derived, classes: tuple[Label, ...] | None, code: CallerCode
    ) -> Configuration:
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

    def configuration(
        self, meta: dict[str, Any], tensors: Derived, classes: tuple[Label, ...] | None, code: CallerCode
    ) -> Configuration:
        selection, names = SELECTIONS["kernel"].read(meta, code), meta["feature_names"]
        names = None if names is None else tuple(names)
        return Configuration(selection, HEADS["kernel"](), classes, names, None, read_order(meta["order_key"]))


class _General(Layout):
    """Version 1: a function class, which is the caller's; a file only describes it."""

    def described(self, c: Configuration) -> dict[str, Any]:
        order = described_order(c.order_key)
        return {**c.selection.describe(), "order_key": order, "rows": c.selection.empty().dtype.name}

    def configuration(
        self, meta: dict[str, Any], tensors: Derived, classes: tuple[Label, ...] | None, code: CallerCode
    ) -> Configuration:
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

    def configuration(
        self, meta: dict[str, Any], tensors: Derived, classes: tuple[Label, ...] | None, code: CallerCode
    ) -> Configuration:
        given: Configuration = code
        columns, sparse = int(meta["n_features"]), meta["layout"] != "dense"
        return replace(given, selection=replace(given.selection, columns=columns, sparse=sparse))


_LINEAR = (("leverage", "squared"), ("leverage", "logistic"))
_ANY = Layout(shardable=True)
_FUNCTION_CLASS = ("ErasableGeneralClassifier", "a function class")
_LEARNER = ("CoreSetUnlearner", "a core-set map and a learner")
_LAYOUTS = (
    _Linear("erasable-linear", 1, "linear", _LINEAR, shardable=True),
    _Linear("erasable-regression", 1, "linear regression", (("leverage", "regression"),), shardable=True),
    _Kernel("erasable-kernel", 1, "kernel", (("kernel", "kernel"),)),
    _General("erasable-general", 1, "general function class", (("general", "general"),), _FUNCTION_CLASS),
    _CoreSet("erasable-core-set", 1, "learner on a core set", (("core-set", "learner"),), _LEARNER),
    _ANY,
)
_BY_FORMAT = {layout.format: layout for layout in _LAYOUTS}
_BY_PAIR = {pair: layout for layout in _LAYOUTS for pair in layout.pairs}
#: What a model is called, by the format that its header names.
KINDS = {layout.head_format: f"{layout.kind}, in several files" for layout in _LAYOUTS if layout.shardable}
KINDS |= {layout.format: layout.kind for layout in _LAYOUTS}


def layout_of(c: Configuration) -> Layout:
    """The layout of models with this configuration."""
    return _BY_PAIR.get((c.selection.NAME, c.head.NAME), _ANY)


def layout_named(form: str) -> Layout:
    """The layout of a state whose header names this format; of the head of several files, that of the whole state."""
    if form not in KINDS:
        raise StateFormatError(
            f"it holds {form[:40]!r}, which this erasable does not know: "
            "install a newer erasable, or give the file of a model."
        )
    return _BY_FORMAT[form.removesuffix(SHARDED)]


def is_sharded(meta: dict[str, Any]) -> bool:
    """Whether a header is the head of several files."""
    return "shards" in meta


def _columns(c: Configuration) -> dict[str, Any]:
    return {
        "feature_names": None if c.feature_names is None else list(c.feature_names),
        "feature_map": c.feature_map,
        "order_key": described_order(c.order_key),
    }


def _read_columns(meta: dict[str, Any]) -> tuple[Any, Any, int | None]:
    names = meta["feature_names"]
    return None if names is None else tuple(names), meta["feature_map"], read_order(meta["order_key"])


def _read_targets(c: Configuration, meta: dict[str, Any], tensors: Derived, n: int) -> tuple[Any, Any, Any]:
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


Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False, repr=False)
class State:
    """Configuration, core rows in learning order with their names, and what follows from them.

    Attributes
    ----------
    ids, subjects, labels : tuples of length n_core
        Subjects of a row: None, one, or a sorted tuple of several. The label of a row is its class; in a regression,
        its targets on their grid.
    rows : array of shape (n_core, n_columns), or sparse
        In the layout that the rule names: see :mod:`erasable.core.layout`.
    row_weights : array of shape (n_core,), int16, or None
        In sixteenths; None if all rows have weight one.
    derived : dict of arrays
        Exact sums and weights, by the names of their tensors.
    """

    configuration: Configuration
    ids: tuple[Key, ...]
    subjects: tuple[Owners, ...]
    labels: tuple[Any, ...]
    rows: Matrix
    row_weights: RowWeights | None = None
    derived: Derived = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.configuration.selection.storage_grid is not None:
            object.__setattr__(self, "rows", laid_out(self.rows, self.configuration.grid))

    @classmethod
    def learnt(
        cls,
        configuration: Configuration,
        ids: Sequence[Key],
        subjects: Sequence[Owners],
        labels: Labels,
        rows: Matrix,
        row_weights: RowWeights | None = None,
        *,
        progress: Progress | None = None,
        claimed: Derived | None = None,
    ) -> tuple[State, npt.NDArray[np.intp]]:
        """Learn stored rows from nothing: the state that this gives, and the positions that were selected.

        ``claimed`` is what is said to follow from them; the result does not depend on it.

        Notes
        -----
        *Law*: for a state reached by any learning and forgetting, this of its own rows is that state.
        *Source*: Definition 2.3, the right-hand side ``I(S' - U, {})``.
        """
        c = configuration
        H = c.selection.confirmed(rows, ids, claimed or {}, progress)
        index, chosen = np.arange(rows.shape[0]), rows
        if H is None:
            index, H = c.selection.select_again(rows, labels, ids, progress)
        if len(index) < rows.shape[0]:
            chosen = rows[index]
            ids, subjects, labels = at(index.tolist(), ids, subjects, labels)
        row_weights = None if row_weights is None else uneven(row_weights[index])
        sums, derived = None, {}
        if c.head.keeps_sums:
            sums = ExactSums.of_rows(c, chosen, labels, row_weights, H)
            derived = sums.tensors(labels)
        derived = derived | c.head.derive(c, chosen, labels, row_weights, sums)
        return cls(c, tuple(ids), tuple(subjects), tuple(labels), chosen, row_weights, derived), index

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes the caller fixed, or those of the core rows, sorted; none in a regression."""
        return classes_of(self.configuration.classes, self.labels) if self.configuration.head.classifies else ()

    # -- canonical bytes -------------------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """How this state is written."""
        return layout_of(self.configuration)

    def header(self) -> dict[str, Any]:
        """What the header of a file says."""
        return self.layout.header(self)

    def derived_tensors(self) -> Tensors:
        """Public tensors of the selection, sums and weights, as a file has them."""
        public: Tensors = self.configuration.selection.public_tensors()
        derived = {n: ("F32" if array.dtype == np.float32 else "I64", array) for n, array in self.derived.items()}
        return {**public, **derived}

    def row_tensors(self) -> Tensors:
        """The rows as a file has them, and their weights if some is not one."""
        tensors: Tensors = self.configuration.selection.row_tensors(self.rows)
        return tensors if self.row_weights is None else {**tensors, "row_weights": ("I16", self.row_weights)}

    def named_rows(self) -> Tensors:
        """The rows with their labels, ids and subjects."""
        c = self.configuration
        return {
            **c.head.label_tensors(c, self.labels),
            **self.row_tensors(),
            **key_tensors("ids", self.ids),
            **key_tensors("subjects", self.subjects),
        }

    @cached_property
    def tensors(self) -> Tensors:
        """All tensors of a file."""
        return {**self.derived_tensors(), **self.named_rows()}

    @cached_property
    def pieces(self) -> list[Piece]:
        """The canonical bytes in pieces, so that the rows are not copied."""
        return parts(self.header(), self.tensors)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes, as 64 hexadecimal digits. Equal states, equal digests, on any machine."""
        return digest_of(self.pieces)

    def to_bytes(self) -> bytes:
        """The canonical bytes."""
        return b"".join(self.pieces)

    @classmethod
    def from_bytes(cls, data: Buffer, code: CallerCode = None) -> State:
        """The state whose canonical bytes these are; its arrays are read-only views of ``data``.

        ``code`` is what a file describes and cannot hold: a kernel function, or the configuration of a model over a
        function class or a learner.

        Raises
        ------
        StateFormatError
            When the bytes are not the canonical bytes of any state, or of a newer version. Whether the state is what
            learning its rows gives is another question: see ``verify``.
        """

        def parsed(raw: Buffer) -> State:
            meta, tensors = parse(raw)
            layout = layout_named(meta["format"])
            check_format(meta, layout.format, layout.version)
            return cls.of_tensors(meta, tensors, code)

        return guarded(data, parsed, lambda state: state.pieces)

    @classmethod
    def of_tensors(cls, meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]], code: CallerCode = None) -> State:
        """The state that these describe; the caller checks whether they are in canonical form.

        Raises
        ------
        StateFormatError
            When the parts do not fit together. Values of other types may raise anything.
        """
        return cls(*layout_named(meta["format"]).read(meta, tensors, code))

    def part(self, index: list[int]) -> State:
        """Some of the rows under their names, without what is derived."""
        ids, subjects, labels = at(index, self.ids, self.subjects, self.labels)
        weights = None if self.row_weights is None else uneven(self.row_weights[index])
        return replace(
            self, ids=ids, subjects=subjects, labels=labels, rows=self.rows[index], row_weights=weights, derived={}
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"State({len(self.ids)} core rows)"

    # -- verifying -------------------------------------------------------------------------------------------------

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Learn the stored rows from nothing and compare everything with what is stored.

        Raises
        ------
        VerificationError
            Naming the first thing that differs.
        """
        with suppress(Exception):  # what is wrong will be said
            _ = self.tensors  # made before, so that the other thread does nothing but hash
        with Shared(partial(getattr, self), ["digest"], helpers=1) as aside:  # hashing keeps no other thread waiting
            _check_names(self)
            self._learn_and_compare(progress)
            sums, weights = self.configuration.head.counts(len(self.ids), self.derived)
            stored_once = () if self.derived else STORED_ONCE
            (digest,) = aside.results()
            return VerifyReport(len(self.ids), sums, weights, digest, not_compared=stored_once)

    def _learn_and_compare(self, progress: Progress | None) -> None:
        """Raise VerificationError if this is not the state that learning its rows gives."""
        c = self.configuration
        c.selection.check_stored(self.rows)
        c.head.check_encoded_labels(c, self.labels)
        names = self.ids, self.subjects, self.labels
        again, index = self.learnt(c, *names, self.rows, self.row_weights, progress=progress, claimed=self.derived)
        n = len(self.ids)
        if len(index) < n:
            position = int(np.flatnonzero(np.append(index, -1)[:n] != np.arange(n)[: len(index) + 1])[0])
            raise VerificationError(
                f"core row {position + 1} of {n} is not selected again when the rows are learnt from nothing: "
                f"its {c.selection.MEASURE} is not above the threshold ({n - len(index)} such rows in all)."
                + c.selection.instability_note()
            )
        self._compare(again)
        if not same_content((self.header(), self.tensors), (again.header(), again.tensors)):
            raise VerificationError("the canonical bytes differ although rows, sums and weights agree.")

    def _compare(self, again: State) -> None:
        c, n = self.configuration, len(self.ids)
        words = {name: spec.words for name, spec in c.head.specification(c, self.classes, n, weighted=True).items()}
        for name in sorted(self.derived.keys() ^ again.derived.keys(), key=lambda name: words.get(name, name)):
            how = "stored, but not" if name in self.derived else "not stored, but"
            raise VerificationError(f"{words.get(name, name)}: {how} what the stored rows give.")
        for name, stored in self.derived.items():
            bits = np.int32 if stored.dtype == np.float32 else stored.dtype
            _compare(words[name], stored.view(bits), again.derived[name].view(bits))


def at(index: Sequence[int], *columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """The entries of each column, of ids, subjects or labels, at these positions."""
    return (tuple(column[i] for i in index) for column in columns)


def _check_names(state: State) -> None:
    """Ids, subjects and labels: one for each row, of one type, ids distinct, labels among the fixed classes."""
    n, fixed = len(state.ids), state.configuration.classes
    if not (len(state.subjects) == len(state.labels) == state.rows.shape[0] == n):
        raise VerificationError("ids, subjects, labels and rows have different lengths.")
    owners = each_owner(state.subjects)
    for name, keys in (("ids", state.ids), ("subjects", owners), ("labels", (*state.labels, *(fixed or ())))):
        if len({type(k) for k in keys}) > 1:
            raise VerificationError(f"the {name} are of several types.")
    if not all(are_several(s) for s in state.subjects if isinstance(s, tuple)):
        raise VerificationError("the subjects of a core row are not sorted and distinct.")
    if fixed is not None and not set(state.labels) <= set(fixed):
        raise VerificationError("a core row has a label that is not among the fixed classes.")
    if len(set(state.ids)) != n:
        raise VerificationError("two core rows have the same id.")


def _compare(name: str, stored: npt.NDArray[Any], right: npt.NDArray[Any]) -> None:
    if stored.shape != right.shape:
        raise VerificationError(f"{name} has shape {stored.shape}, but relearning gives {right.shape}.")
    differs = np.flatnonzero(stored.reshape(-1) != right.reshape(-1))
    if len(differs):
        raise VerificationError(
            f"{name} differs from what the stored rows give, first at {_place(name, stored, int(differs[0]))} "
            f"({len(differs)} of {stored.size} entries differ)."
        )


def _place(name: str, array: npt.NDArray[Any], flat: int) -> str:
    if name == "A":  # a triangle, row by row
        i = int((np.sqrt(8.0 * flat + 1.0) - 1.0) // 2)
        return f"entry ({i}, {flat - i * (i + 1) // 2})"
    return "entry (" + ", ".join(str(int(v)) for v in np.unravel_index(flat, array.shape)) + ")"
