"""Core rows of one model with their names, in learning order, and the tables that find them.

Truth: the rows, each of which knows the next. Tables made from them: ``place``, ``of_subject``, ``class_counts``,
``id_type``, ``subject_type``. Forgotten rows leave no trace: a removed row is overwritten, the row before it is linked
to the row after it, and tables have no gaps.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from operator import is_
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Array, Booleans, Float64s, Int64s, Matrix
from erasable.core.grid import Grid, count_entries, csr, dense_rows, has_constant, is_sparse, position_type, sparse_rows
from erasable.core.names import Key, Label, Owners, hashed_order, owners_of
from erasable.errors import InputError
from erasable.models.inputs import ONE, Labels, Names, RowWeights, as_keys, as_requested, same_kind, uneven


def overwrite(value: Any) -> None:
    """Overwrite arrays with zeros, dense or CSR, also those in tuples, lists and dicts, and objects that can erase."""
    if isinstance(value, np.ndarray):
        value.fill(0)
    elif sp.issparse(value):
        value.data.fill(0)
        value.indices.fill(0)
    elif isinstance(value, tuple | list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            overwrite(part)
    elif hasattr(value, "erase"):
        value.erase()


V = TypeVar("V")
_SHARE = 8  # names of a small dictionary, at most on average
_MIXED = 20  # the lower bits of the hash of a tuple may be the same for many numbers; a whole number is its own hash


class NameTable(Mapping[Key, V]):
    """Values by name, iterated in no particular order; nothing shows that a name was removed.

    A dictionary keeps the slot of a deleted entry and does not shrink. Here names are spread over small dictionaries by
    their hashes: how many there are depends on the number of names alone, each is sorted, and one that loses a name is
    made anew.
    """

    def __init__(self) -> None:
        self._n = 0
        self._parts: list[dict[Key, V]] = [{} for _ in range(1)]  # as large as :meth:`_fit` would make it

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[Key]:
        return chain.from_iterable(self._parts)

    def __eq__(self, other: object) -> bool:
        return self._parts == other._parts if isinstance(other, NameTable) else super().__eq__(other)

    def __contains__(self, name: Any) -> bool:
        return name in self._parts[(hash((name,)) >> _MIXED) % len(self._parts)]

    def __getitem__(self, name: Key) -> V:
        return self._parts[(hash((name,)) >> _MIXED) % len(self._parts)][name]

    def _places(self, names: Collection[Key]) -> list[int]:
        """Which of the small dictionaries each name is in, or would be."""
        n = len(self._parts)
        return [(mixed >> _MIXED) % n for mixed in map(hash, zip(names))]

    def among(self, names: Collection[Key]) -> list[Key]:
        """Those of these names that are in the table."""
        parts, n = self._parts, len(self._parts)
        return [name for name in names if name in parts[(hash((name,)) >> _MIXED) % n]]

    def values_of(self, names: Collection[Key]) -> list[V]:
        """The values of these names, which are all in the table."""
        parts, n = self._parts, len(self._parts)
        return [parts[(hash((name,)) >> _MIXED) % n][name] for name in names]

    def put(self, entries: Mapping[Key, V]) -> None:
        """Insert entries, or replace their values."""
        new = dict(entries)
        if self._n:
            for at, name in zip(self._places(entries), entries, strict=True):
                if name in self._parts[at]:
                    self._parts[at][name] = new.pop(name)
        if new:
            self._n += len(new)
            self._fit()
            self._insert(new)

    def drop(self, names: Collection[Key]) -> None:
        """Remove these names, which are distinct and all in the table."""
        parts, n = self._parts, len(self._parts)
        for name in names:
            at = (hash((name,)) >> _MIXED) % n
            part = parts[at]
            del part[name]
            parts[at] = {k: v for k, v in part.items()}  # noqa: C416 (dict() would copy the gap)
        self._n -= len(names)
        self._fit()

    def _fit(self) -> None:
        """As many small dictionaries as there are for so many names."""
        wanted = 1 << (self._n // _SHARE).bit_length()
        if wanted != len(self._parts):
            old, self._parts = self._parts, [{} for _ in range(wanted)]
            everything: dict[Key, V] = {}
            for part in old:
                everything.update(part)
            self._insert(everything)

    def _insert(self, new: Mapping[Key, V]) -> None:
        """Insert new names; a dictionary that gets some of them is made anew, in order."""
        parts = self._parts
        if not any(parts):
            ordered = sorted(new)
            for at, name in zip(self._places(ordered), ordered, strict=True):
                parts[at][name] = new[name]
            return
        coming: defaultdict[int, list[Key]] = defaultdict(list)
        for at, name in zip(self._places(new), new, strict=True):
            coming[at].append(name)
        for at, names in coming.items():
            entries = {**parts[at], **{name: new[name] for name in names}} if parts[at] else new
            parts[at] = {name: entries[name] for name in sorted([*parts[at], *names])}


Bytes = npt.NDArray[np.uint8]


def _cut(rows: Matrix, grid: Grid | None) -> list[bytearray]:
    """The pieces of dense or sparse rows, which are overwritten."""
    if isinstance(rows, np.ndarray):
        flat = np.ascontiguousarray(rows)
        ends = range(0, flat.nbytes + 1, flat.nbytes // len(flat)) if flat.nbytes else [0] * (len(flat) + 1)
        pieces = _pieces_of(flat.reshape(-1).view(np.uint8), ends)
        given = [rows, flat]
    else:
        assert grid is not None
        columns = rows.indices.astype(position_type(grid))
        lengths = np.diff(rows.indptr).astype(np.int64)
        text = np.empty(columns.nbytes + rows.data.nbytes, dtype=np.uint8)
        of_columns = _columns_in(lengths, grid)
        text[of_columns] = columns.view(np.uint8)
        text[~of_columns] = rows.data.view(np.uint8)
        pieces = _pieces_of(text, [0, *np.cumsum(lengths * _entry_bytes(grid)).tolist()])
        given = [rows.data, rows.indices, columns, text]
    for array in given:
        array.fill(0)
    return pieces


def _join_dense(pieces: Sequence[bytearray], none: Array) -> Array:
    """The dense rows of these pieces; ``none`` is an array of no rows of this kind."""
    rows: Array = np.empty((len(pieces), *none.shape[1:]), dtype=none.dtype)
    width, whole = rows.nbytes // max(1, len(pieces)), rows.reshape(-1).view(np.uint8).data
    for at, piece in enumerate(pieces):  # joined bytes would not be in large pages of memory, which are soon ready
        whole[at * width : (at + 1) * width] = piece
    return rows


def _join_sparse(pieces: Sequence[bytearray], grid: Grid) -> sp.csr_array:
    """The sparse rows of these pieces."""
    text = np.frombuffer(bytearray().join(pieces), dtype=np.uint8)
    lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces)) // _entry_bytes(grid)
    of_columns = _columns_in(lengths, grid)
    columns, values = text[of_columns].view(position_type(grid)), text[~of_columns].view(grid.dtype)
    text.fill(0)
    return csr(values, columns, np.concatenate([[0], np.cumsum(lengths)]), grid)


def _one_dense(piece: bytearray, none: Array) -> Float64s:
    """One dense row, shape (1, n_columns); ``none`` as in :func:`_join_dense`."""
    return np.frombuffer(piece, dtype=none.dtype).astype(np.float64).reshape(1, -1)


def _one_sparse(piece: bytearray, grid: Grid) -> Float64s:
    """One sparse row as a dense one, shape (1, n_columns)."""
    n = len(piece) // _entry_bytes(grid)
    columns = np.frombuffer(piece, dtype=position_type(grid), count=n)
    row = np.zeros((1, grid.n_columns))
    row[0, columns] = np.frombuffer(piece, dtype=grid.dtype, offset=columns.nbytes, count=n)
    row[0, grid.n_features :] = grid.constant
    return row


def _entry_bytes(grid: Grid) -> int:
    """Bytes of an entry of a sparse row: its column and its value."""
    return position_type(grid).itemsize + grid.dtype.itemsize


def _pieces_of(text: Bytes, ends: Iterable[int]) -> list[bytearray]:
    """Copies of these bytes, from each end to the next."""
    view = text.data  # is cut faster than the array
    return [bytearray(view[a:b]) for a, b in pairwise(ends)]


def _columns_in(lengths: Int64s, grid: Grid) -> Booleans:
    """Which bytes of pieces, one after the other, are those of columns."""
    sizes = np.multiply.outer(lengths, np.array([position_type(grid).itemsize, grid.dtype.itemsize]))
    return np.repeat(np.tile([True, False], len(lengths)), sizes.ravel())


@dataclass(eq=False, repr=False, slots=True)
class Row:
    """One core row."""

    numbers: bytearray  # memory of its own, so that it can be overwritten while the other rows stay where they are
    id: Key
    subject: Owners
    label: Any
    weight: int  # in sixteenths
    before: Key | None  # by name, so that no two rows hold on to each other
    after: Row | None = None

    def erase(self) -> None:
        """Overwrite the numbers."""
        self.numbers[:] = bytes(len(self.numbers))


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Turn garbage collection off while very many objects are made: it would scan all of them several times."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class NamedRows(NamedTuple):
    """A request in a model: how many different names it has, how many of them no row has, the ids of the rows found."""

    requested: int
    not_stored: int
    found: list[Key]


@dataclass(eq=False, repr=False)
class Outline:
    """The names of core rows, for checking other rows, or their number, for predicting; it holds no row."""

    place: Any = ()
    subject_type: type | None = None
    class_counts: dict[Label, int] = field(default_factory=dict)
    class_totals: dict[Label, int] = field(default_factory=dict)
    n: int | None = None  # how many rows there are, where their names are not here

    def __len__(self) -> int:
        return len(self.place) if self.n is None else self.n

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "place": frozenset(self.place)}


class CoreRows:
    """Core rows, each linked to the next.

    Parameters
    ----------
    rows : array of shape (n, n_columns), or sparse grid rows
        Overwritten: the rows are copied to pieces of memory that can be overwritten one by one.
    ids, subjects, labels : sequences of length n
    grid : Grid, optional
        Of rows that are held in the layout that the rule names (see ``core.layout``); without it, all are dense.
    weights : sequence of length n, optional
        In sixteenths; by default every row has weight one.
    classed : bool, default=True
        Whether labels are classes, whose rows are counted.
    """

    def __init__(
        self,
        rows: Matrix,
        ids: Sequence[Key] = (),
        subjects: Sequence[Owners] = (),
        labels: Labels = (),
        grid: Grid | None = None,
        weights: Sequence[int] | None = None,
        *,
        classed: bool = True,
    ) -> None:
        self._grid: Any = grid
        self._classed = classed
        self._none = rows[:0].copy() if grid is None else np.empty((0, grid.n_columns), dtype=grid.dtype)
        self._sparse = False
        self._entries = 0  # numbers in rows that are not zero, where there is a grid
        self.first: Row | None = None
        self.last: Row | None = None
        self._order: list[Row] | None = None  # cache, dropped on every change
        self._start_tables()
        self.append([rows], list(ids), list(subjects), list(labels), list(weights or ()))

    def __len__(self) -> int:
        return len(self.place)

    def __getstate__(self) -> dict[str, Any]:
        """All that the rows and their names are: tables are made anew, for hashes are others in another process."""
        names = {"ids": self.ids(), "subjects": self.subjects(), "labels": self.labels(), "weights": self.weights()}
        return {"rows": self.rows(), **names, "grid": self._grid, "classed": self._classed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**{**state, "rows": state["rows"].copy()})  # type: ignore[misc]

    # -- changing ------------------------------------------------------------------------------------------------

    def append(
        self,
        batches: list[Any],
        ids: list[Key],
        subjects: list[Owners],
        labels: list[Any],
        weights: list[int] | None = None,
    ) -> None:
        """Add rows at the end, in either layout; the batches are overwritten, and taken out of their list."""
        weights = weights or [ONE] * len(ids)
        with _garbage_collection_off():
            if self._grid is not None:
                self._entries += sum(count_entries(batch, self._grid) for batch in batches)
                self._lay_out(len(self) + len(ids), batches)
            taken = (self._laid_out(batches.pop(0)) for _ in range(len(batches)))  # no two copies of all of them
            numbers = chain.from_iterable(_cut(batch, self._grid) for batch in taken)
            joining = list(map(Row, numbers, ids, subjects, labels, weights, [None, *ids[:-1]]))
            for one, other in pairwise(joining):
                one.after = other
            if joining and self.last:
                self.last.after, joining[0].before = joining[0], self.last.id
            if joining:
                self.first, self.last, self._order = self.first or joining[0], joining[-1], None
            self.place.put(dict(zip(ids, joining, strict=True)))
            self._enter(ids, subjects, labels, weights)

    def sort(self, key: int) -> None:
        """Put the rows into the order of the keyed hashes of their ids; tables are made anew, in that order."""
        rows = self._in_order()
        ordered = [rows[i] for i in hashed_order([row.id for row in rows], key).tolist()]
        for one, other in pairwise([None, *ordered, None]):
            if one is not None:
                one.after = other
            if other is not None:
                other.before = None if one is None else one.id
        if ordered:
            self.first, self.last, self._order = ordered[0], ordered[-1], None
            self._start_tables()
            self.place.put({row.id: row for row in ordered})
            self._enter(self.ids(), self.subjects(), self.labels(), self.weights())
        self._order = None  # as after any other change

    def find(self, keys: Sequence[Key]) -> list[Row]:
        """The rows of these ids, all of which are here, in that order."""
        return self.place.values_of(keys)

    def gather(self, found: Sequence[Row]) -> tuple[Any, list[Any], list[int]]:
        """The numbers of these rows, their labels and weights: dense float64; sparse where several are."""
        labels, weights = [row.label for row in found], [row.weight for row in found]
        if len(found) == 1:
            held = found[0].numbers
            row = _one_sparse(held, self._grid) if self._sparse else _one_dense(held, self._none)
            return row, labels, weights
        rows = self._whole(found)
        if self._sparse:
            return rows, labels, weights
        numbers = rows.astype(np.float64)
        overwrite(rows)
        return numbers, labels, weights

    def remove(self, leaving: Sequence[Row], gathered: Matrix = None) -> None:
        """Remove and overwrite these rows; ``gathered`` are their numbers, if the caller has them."""
        if self._grid is not None:
            self._entries -= self._entries_in(leaving, gathered)
        self._order = None
        for row in leaving:
            before = None if row.before is None else self.place[row.before]
            if before is None:
                self.first = row.after
            else:
                before.after = row.after
            if row.after is None:
                self.last = before
            else:
                row.after.before = row.before
            row.erase()
        self.place.drop([row.id for row in leaving])
        self._leave(leaving)
        if self._grid is not None:
            self._lay_out(len(self))

    def erase(self) -> None:
        """Overwrite the rows."""
        for row in self._in_order():
            row.erase()

    # -- looking -------------------------------------------------------------------------------------------------

    def named(self, ids: Names = None, subjects: Names = None) -> NamedRows:
        """What a request names; refused if no row could have such names."""
        if ids is None and subjects is None:
            raise InputError("forget needs ids= or subjects=.")
        keys = [] if ids is None else as_keys(ids, "ids")
        keys = keys if len(keys) == 1 else list(dict.fromkeys(keys))  # a name that comes again counts once
        same_kind(keys, self.id_type, "ids")
        if subjects is None and len(keys) == 1:  # one request after another: the most frequent call
            return NamedRows(1, 0, keys) if keys[0] in self.place else NamedRows(1, 1, [])
        owners = [] if subjects is None else as_requested(subjects, self.of_subject)
        same_kind(owners, self.subject_type, "subjects")
        ids_of_subjects = [key for owner in owners for key in self.of_subject.get(owner, ())]
        stored = self.place.among(keys)
        absent = len(keys) - len(stored) + sum(owner not in self.of_subject for owner in owners)
        found = list(dict.fromkeys([*stored, *ids_of_subjects]))
        return NamedRows(len(keys) + len(owners), absent, found)

    def copy(self) -> CoreRows:
        """The same rows under the same names, in other memory."""
        return CoreRows(self.rows(), *self.names(), self._grid, self.weights(), classed=self._classed)

    def counted(self) -> Any:
        """How many rows there are, of which classes and weights, and none of them."""
        return Outline((), None, dict(self.class_counts), dict(self.class_totals), len(self))

    def rows(self) -> Matrix:
        """A copy of all rows in learning order, in the layout that they are held in."""
        return self._whole(self._in_order())

    def first_rows(self, n: int) -> Matrix:
        """A copy of the first n rows in learning order; unlike ``rows`` it leaves nothing in memory."""
        return self._whole(list(islice(_from(self.first), n)))

    def ids(self) -> list[Key]:
        """Ids in learning order."""
        return [row.id for row in self._in_order()]

    def subjects(self) -> list[Owners]:
        """Subjects in learning order; None for a row without one, a sorted tuple for a row with several."""
        return [row.subject for row in self._in_order()]

    def labels(self) -> list[Any]:
        """Labels in learning order: classes, or targets."""
        return [row.label for row in self._in_order()]

    def weights(self) -> list[int]:
        """Weights in learning order, in sixteenths."""
        return [row.weight for row in self._in_order()]

    def uneven_weights(self) -> RowWeights | None:
        """Weights in learning order as an array; None if every row has weight one."""
        return uneven(self.weights()) if self.uneven else None

    def names(self) -> tuple[tuple[Key, ...], tuple[Owners, ...], tuple[Any, ...]]:
        """Ids, subjects and labels in learning order."""
        return tuple(self.ids()), tuple(self.subjects()), tuple(self.labels())

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers of rows, as a file has them."""
        held = sum(len(row.numbers) for row in self._in_order())
        return held + len(self) * position_type(self._grid).itemsize if self._sparse else held

    def _in_order(self) -> list[Row]:
        if self._order is None:
            self._order = list(_from(self.first))[:]  # no room to spare
        return self._order

    def _whole(self, rows: Sequence[Row]) -> Matrix:
        held = [row.numbers for row in rows]
        return _join_sparse(held, self._grid) if self._sparse else _join_dense(held, self._none)

    def tables_agree(self) -> bool:
        """Whether the tables by id, subject and class name exactly the rows that follow one another."""
        rows = list(_from(self.first))
        ids = [row.id for row in rows]
        try:
            if len(self.place) != len(rows) or not all(map(is_, self.place.values_of(ids), rows)):
                return False
        except KeyError:
            return False
        fresh = CoreRows(self._none, grid=self._grid, classed=self._classed)
        fresh._enter(ids, [row.subject for row in rows], [row.label for row in rows], [row.weight for row in rows])
        tables = "of_subject", "class_counts", "class_totals", "uneven"
        return all(getattr(self, name) == getattr(fresh, name) for name in tables)

    # -- layout --------------------------------------------------------------------------------------------------

    def _lay_out(self, n: int, more: Iterable[Any] = ()) -> None:
        """Change the layout of the rows if the rule requires it for n rows, ``more`` among them."""
        wanted = is_sparse(n, self._entries, self._grid)
        if wanted == self._sparse:
            return
        rows = self.rows()
        if wanted and not all(has_constant(part, self._grid) for part in (rows, *more)):
            return  # none of the grid's: held as it is, for verify to see
        self._sparse = wanted
        held = _cut(self._laid_out(rows), self._grid)
        for row, numbers in zip(self._in_order(), held, strict=True):
            row.erase()
            row.numbers = numbers

    def _laid_out(self, rows: Matrix) -> Matrix:
        """Rows in the layout that rows are held in; where it is another, those given are overwritten."""
        if isinstance(rows, np.ndarray) != self._sparse:
            return rows
        turned = sparse_rows(rows, self._grid) if self._sparse else dense_rows(rows, self._grid)
        overwrite(rows)
        return turned

    # -- tables --------------------------------------------------------------------------------------------------

    def _start_tables(self) -> None:
        self.place: NameTable[Row] = NameTable()  # by id
        self.of_subject: NameTable[tuple[Key, ...]] = NameTable()  # the ids of the rows of each subject
        self.class_counts: dict[Label, int] = {}  # in the order of the classes
        self.class_totals: dict[Label, int] = {}  # the weights of their rows, added up
        self.uneven = 0  # rows whose weight is not one
        self.id_type: type | None = None  # of the ids and subjects held
        self.subject_type: type | None = None

    def _enter(self, ids: list[Key], subjects: list[Owners], labels: list[Any], weights: list[int]) -> None:
        """Rows that come after the others are put into the tables by subject and by class."""
        self.id_type = type(ids[0]) if ids else self.id_type
        if subjects.count(None) < len(subjects):
            theirs: dict[Key, list[Key]] = {}
            for key, subject in zip(ids, subjects, strict=True):
                for owner in owners_of(subject):
                    theirs.setdefault(owner, []).append(key)
            self.of_subject.put({owner: (*self.of_subject.get(owner, ()), *more) for owner, more in theirs.items()})
            self.subject_type = type(next(iter(theirs)))
        self._count(labels, weights, 1)

    def _leave(self, leaving: Sequence[Row]) -> None:
        """Rows are taken out of the tables by subject and by class."""
        gone: dict[Key, list[Key]] = {}
        for row in leaving:
            if row.subject is not None:
                for owner in owners_of(row.subject):
                    gone.setdefault(owner, []).append(row.id)
        if gone:
            self._disown(gone)
        self._count([row.label for row in leaving], [row.weight for row in leaving], -1)
        self.id_type = self.id_type if self.place else None

    def _disown(self, gone: dict[Key, list[Key]]) -> None:
        """Rows of these ids are no longer those of these subjects."""
        left, nobody = {}, []
        for (owner, keys), theirs in zip(gone.items(), self.of_subject.values_of(gone), strict=True):
            if len(keys) == len(theirs):
                nobody.append(owner)
            else:
                without = keys if len(keys) < 4 else set(keys)
                left[owner] = tuple([key for key in theirs if key not in without])
        if left:
            self.of_subject.put(left)
        if nobody:
            self.of_subject.drop(nobody)
        self.subject_type = self.subject_type if self.of_subject else None

    def _count(self, labels: list[Any], weights: list[int], sign: int) -> None:
        """Rows of these labels and weights come, or leave."""
        uneven = len(weights) - weights.count(ONE)
        self.uneven += sign * uneven
        if not self._classed:
            return
        before = len(self.class_counts)
        for label, count in Counter(labels).items() if len(labels) > 1 else zip(labels, [1], strict=False):
            self.class_counts[label] = self.class_counts.get(label, 0) + sign * count
            self.class_totals[label] = self.class_totals.get(label, 0) + sign * count * ONE
        if uneven:
            for label, weight in zip(labels, weights, strict=True):
                self.class_totals[label] += sign * (weight - ONE)
        if len(self.class_counts) != before or 0 in self.class_counts.values():
            nonempty = sorted(label for label, count in self.class_counts.items() if count)
            self.class_counts = {label: self.class_counts[label] for label in nonempty}
            self.class_totals = {label: self.class_totals[label] for label in nonempty}

    def _entries_in(self, rows: Sequence[Row], gathered: Matrix) -> int:
        if self._sparse:
            return int(sum(len(row.numbers) for row in rows) // _entry_bytes(self._grid))
        # Zeros are zeros in either type, and integers are counted many times as fast.
        return count_entries(self._whole(rows) if gathered is None else gathered.view(np.int64), self._grid)


def _from(row: Row | None) -> Iterator[Row]:
    while row is not None:
        yield row
        row = row.after
