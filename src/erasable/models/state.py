"""The state of a model: all that is stored, as one frozen record with one canonical form in bytes and one digest.

The bytes are a pure function of the record, in the layout of :mod:`erasable.core.layout`: no times, no counters, no
gaps. They are made once and hashed once, and the same bytes are verified, written, signed and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.layout import Buffer, Piece, Tensors, check_format, digest_of, guarded, laid_out, parse, parts
from erasable.core.names import Key, Label, Owners, are_several, each_owner, key_tensors
from erasable.errors import VerificationError
from erasable.models.configuration import Configuration
from erasable.models.heads.linear import ExactSums
from erasable.models.inputs import RowWeights, uneven
from erasable.models.layouts import Layout, layout_named, layout_of
from erasable.models.reports import VerifyReport
from erasable.models.strategies import Derived, classes_of

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
    rows: Any
    row_weights: RowWeights | None = None
    derived: Derived = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.configuration.selection.grid is not None:
            object.__setattr__(self, "rows", laid_out(self.rows, self.configuration.grid))

    @classmethod
    def learnt(
        cls,
        configuration: Configuration,
        ids: Sequence[Key],
        subjects: Sequence[Owners],
        labels: Sequence[Any],
        rows: Any,
        row_weights: RowWeights | None = None,
        *,
        progress: Progress | None = None,
    ) -> tuple[State, npt.NDArray[np.intp]]:
        """Learn stored rows from nothing: the state that this gives, and the positions that were selected.

        Notes
        -----
        *Law*: for a state reached by any learning and forgetting, this of its own rows is that state.
        *Source*: Definition 2.3, the right-hand side ``I(S' - U, {})``.
        """
        c = configuration
        index, H = c.selection.select_again(rows, labels, ids, progress)
        chosen = rows if len(index) == rows.shape[0] else rows[index]
        ids, subjects, labels = at(index.tolist(), ids, subjects, labels)
        row_weights = None if row_weights is None else uneven(row_weights[index])
        sums, derived = None, {}
        if c.head.keeps_sums:
            sums = ExactSums.of_rows(c, chosen, labels, row_weights, H)
            derived = sums.tensors(labels)
        derived = derived | c.head.derive(c, chosen, labels, row_weights, sums)
        return cls(c, ids, subjects, labels, chosen, row_weights, derived), index

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
    def pieces(self) -> list[Piece]:
        """The canonical bytes in pieces, so that the rows are not copied."""
        return parts(self.header(), {**self.derived_tensors(), **self.named_rows()})

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes, as 64 hexadecimal digits. Equal states, equal digests, on any machine."""
        return digest_of(self.pieces)

    def to_bytes(self) -> bytes:
        """The canonical bytes."""
        return b"".join(self.pieces)

    @classmethod
    def from_bytes(cls, data: Buffer, code: Any = None) -> State:
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
    def of_tensors(cls, meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]], code: Any = None) -> State:
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
        c = self.configuration
        _check_names(self)
        c.selection.check_stored(self.rows)
        c.head.check_encoded_labels(c, self.labels)
        names = self.ids, self.subjects, self.labels
        again, index = self.learnt(c, *names, self.rows, self.row_weights, progress=progress)
        n = len(self.ids)
        if len(index) < n:
            position = int(np.flatnonzero(np.append(index, -1)[:n] != np.arange(n)[: len(index) + 1])[0])
            raise VerificationError(
                f"core row {position + 1} of {n} is not selected again when the rows are learnt from nothing: "
                f"its {c.selection.MEASURE} is not above the threshold ({n - len(index)} such rows in all)."
                + c.selection.instability_note()
            )
        self._compare(again)
        if again.pieces[0] != self.pieces[0]:  # the header, with the checksum of all the bytes in it
            raise VerificationError("the canonical bytes differ although rows, sums and weights agree.")
        sums, weights = c.head.counts(n, self.derived)
        return VerifyReport(n, sums, weights, self.digest)

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
