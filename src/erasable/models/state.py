"""What every state is: core rows with their names under a configuration, one canonical form in bytes, one digest.

A state is a frozen record of all that is stored. Its bytes are a pure function of the record, in the layout of
:mod:`erasable.core.layout`: no times, no counters, no gaps. They are made once, and hashed once, for whatever is done
with them: verified, written, signed, reported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from erasable.core.layout import Piece, Tensors, digest_of, parts
from erasable.core.names import Key, Label, Owners, are_several, each_owner, key_tensors, name_fields
from erasable.errors import VerificationError
from erasable.models.reports import VerifyReport

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False, repr=False)
class State(ABC):
    """Configuration, and core rows in learning order with their names. Each kind of model adds what it derives.

    Attributes
    ----------
    ids, subjects, labels : tuples of length n_core
        Subjects of a row: None, one, or a sorted tuple of several. The label of a row is its class; in a regression,
        its targets on their grid.
    rows : array of shape (n_core, n_columns)
    """

    configuration: Any
    ids: tuple[Key, ...]
    subjects: tuple[Owners, ...]
    labels: tuple[Any, ...]
    rows: Any

    FORMAT: ClassVar[str]
    VERSION: ClassVar[int] = 1
    MEASURE: ClassVar[str] = "disagreement"  # what rows are selected by

    # -- what each kind says -------------------------------------------------------------------------------------

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """The configuration as the header of a file has it."""

    @abstractmethod
    def row_tensors(self) -> Tensors:
        """The rows as a file has them."""

    def derived(self) -> Tensors:
        """What is stored beside the rows and follows from them, as a file has it."""
        return {}

    @abstractmethod
    def check_rows(self) -> None:
        """Refuse rows that no learning under this configuration can have stored."""

    @abstractmethod
    def relearnt(self, progress: Progress | None = None) -> tuple[Self, npt.NDArray[np.intp]]:
        """Learn the rows from nothing: the right-hand side ``I(S' - U, {})`` of Definition 2.3.

        The state that this gives, and the positions of the rows that were selected again.
        """

    def recomputed(self) -> dict[str, npt.NDArray[Any]]:
        """What is derived from the rows and stored, by the name that a complaint uses."""
        return {}

    def counts(self) -> tuple[int, int]:
        """How many sums and how many weights verifying recomputes."""
        return 0, 0

    def not_selected(self, position: int, missing: int) -> str:
        """What to say when a row is not selected again."""
        return (
            f"core row {position + 1} of {len(self.ids)} is not selected again when the rows are learnt from nothing: "
            f"its {self.MEASURE} is not above the threshold ({missing} such rows in all)."
        )

    # -- what all have -------------------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes the caller fixed, or those of the core rows, sorted."""
        return classes_of(self.configuration.classes, self.labels)

    def header(self) -> dict[str, Any]:
        """What the header of a file says."""
        return {"format": self.FORMAT, "version": self.VERSION, **self.described(), **self.name_fields()}

    def name_fields(self) -> dict[str, Any]:
        """What the header says of ids, subjects and the answers of rows."""
        fixed = self.configuration.classes is not None
        return name_fields(self.classes, self.ids, self.subjects, fixed=fixed)

    def named_rows(self) -> Tensors:
        """The rows with their answers, ids and subjects."""
        return {
            **self.answer_tensors(),
            **self.row_tensors(),
            **key_tensors("ids", self.ids),
            **key_tensors("subjects", self.subjects),
        }

    def answer_tensors(self) -> Tensors:
        """The numbers of the classes of rows, or what else rows answer."""
        codes = {label: i for i, label in enumerate(self.classes)}
        return {"labels": ("I32", np.array([codes[v] for v in self.labels], dtype=np.int32))}

    @cached_property
    def pieces(self) -> list[Piece]:
        """The canonical bytes in pieces, so that the rows are not copied."""
        return parts(self.header(), {**self.derived(), **self.named_rows()})

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes, as 64 hexadecimal digits. Equal states, equal digests, on any machine."""
        return digest_of(self.pieces)

    def to_bytes(self) -> bytes:
        """The canonical bytes."""
        return b"".join(self.pieces)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.ids)} core rows)"

    # -- verifying -----------------------------------------------------------------------------------------------

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Learn the stored rows from nothing and compare everything with what is stored.

        Raises
        ------
        VerificationError
            Naming the first thing that differs.
        """
        _check_names(self)
        self.check_rows()
        again, index = self.relearnt(progress)
        n = len(self.ids)
        if len(index) < n:
            position = int(np.flatnonzero(np.append(index, -1)[:n] != np.arange(n)[: len(index) + 1])[0])
            raise VerificationError(self.not_selected(position, n - len(index)))
        found, right = self.recomputed(), again.recomputed()
        for name in sorted(found.keys() ^ right.keys()):
            how = "stored, but not" if name in found else "not stored, but"
            raise VerificationError(f"{name}: {how} what the stored rows give.")
        for name, stored in found.items():
            _compare(name, stored, right[name])
        if again.pieces[0] != self.pieces[0]:  # the header, with the checksum of all the bytes in it
            raise VerificationError("the canonical bytes differ although rows, sums and weights agree.")
        return VerifyReport(n, *self.counts(), self.digest)


def at(index: Sequence[int], *columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """The entries of each column, of ids, subjects or labels, at these positions."""
    return (tuple(column[i] for i in index) for column in columns)


def classes_of(fixed: tuple[Label, ...] | None, labels: Sequence[Label]) -> tuple[Label, ...]:
    """Fixed classes, or the sorted distinct labels."""
    return fixed if fixed is not None else tuple(sorted(set(labels)))


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
