"""Search the files below a folder for remains of rows.

Every file is opened once per batch of rows. Models and Parquet files are compared row by row; all bytes are searched
for whole rows in several encodings, and for ids, subjects and identifying cells as text. ``docs/scan.md`` says what
counts as a remain, and what is not found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.audit._scan_files import (
    PARQUET,
    ChangedError,
    Interval,
    ModelHeader,
    Parquet,
    TextColumns,
    UndecodedError,
    blank,
    blocks,
    is_packed,
    list_files,
    open_file,
    read_header,
    reason,
    shown,
)
from erasable.audit._scan_rows import CrowdedError, Encoding, RowSearch, RowType, batches, encodings, grid_in
from erasable.audit._scan_text import NUMBER, Key, TextSearch, as_text, is_too_short
from erasable.core.names import normalise
from erasable.errors import ErasableError, InputError, InputTypeError
from erasable.models.companions import is_orphan
from erasable.models.configuration import spelling_in

Progress = Callable[[int, int], None]
_Rows = dict[bytes, tuple[str, int]]  # by their bytes: what each row is called, and its number in the table
_MOST_LISTED = 10_000
_BY_PLACE = attrgetter("file", "offset", "what", "row")
_OTHER_FORM = "its rows are of another form than the table's: give ids to compare"
_UNFIT = "its sparse rows do not fit together: their bytes were searched, but not compared"
_ORPHAN = (
    "the fitted learner of a model file that was renamed, removed or replaced: it is sealed, so delete it, or change a "
    "model in its folder, which erases it"
)
_CROWDED = "too many near misses to look at all of them: look for fewer rows at a time"


@dataclass(frozen=True)
class Remain:
    """Something of a row, at a place."""

    file: str  # path below the folder that was scanned
    # offset, length: which bytes of the file; of its path, or the row of a Parquet file and 1, depending on ``what``.
    offset: int
    length: int
    # ``"grid row"``, ``"float32 row"``, ``"float64 row"``, ``"id"``, ``"subject"``, ``"cell"`` (a text of a raw table),
    # ``"number"`` (a feature, written out), any of the last four with ``" in a file name"`` or ``" in Parquet"``, or
    # ``"row in Parquet"``.
    what: str
    row: int  # number of the row in the table, counted from 0; the first if several are the same


@dataclass(frozen=True)
class Unread:
    """A file or folder that could not be read, and why."""

    file: str
    why: str


@dataclass(frozen=True)
class ScanReport:
    """What a scan found, and what it could not see. It holds no value and no id of a row."""

    rows: int  # rows that were searched for
    # files, bytes: Searched.
    files: int
    bytes: int
    found: int  # remains in all; ``remains`` lists the first ten thousand
    remains: tuple[Remain, ...]
    # Rows of models or Parquet files with the same features as a row searched for, under another id.
    twins: tuple[Remain, ...]
    # How many ``"ids"`` and ``"subjects"`` are too short to be searched for as text, and how many ``"rows"`` have, in
    # some encoding, too few bytes that are not zero. Models are compared with these too. ``scan_for`` adds how many
    # ``"texts"`` and ``"numbers"`` are too short, and how many ``"cells"`` too many.
    too_short: dict[str, int]
    # Compressed files and archives: only their outer bytes were searched, and of Parquet files with nested columns the
    # other columns.
    not_looked_into: tuple[str, ...]
    # Models whose rows are of another form than the table's (another number of features, a feature map): only their ids
    # and subjects were compared.
    ids_only: tuple[str, ...]
    unreadable: tuple[Unread, ...]  # among them models whose rows could not be compared at all
    skipped: tuple[str, ...]  # left out on request: the table itself, and what ``exclude`` names
    links: int  # symbolic links, pipes, sockets and devices, which were not opened

    @property
    def clean(self) -> bool:
        """Whether nothing was found and all files could be read."""
        return not self.found and not self.unreadable

    @property
    def unseen(self) -> tuple[str, ...]:
        """Files of which nothing, or only a part, was searched: packed, unreadable, or only ids compared."""
        return tuple(sorted({*self.not_looked_into, *self.ids_only, *(u.file for u in self.unreadable)}))

    def as_json(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"clean": self.clean, "complete": not self.unseen, **asdict(self)}


@dataclass(frozen=True)
class ScanColumns:
    """Names of the table's columns, to find the same ones in Parquet files."""

    # The columns of ``X``, in order. Parquet files that have all of them are compared in these columns.
    features: Sequence[str] | None = None
    id: str | None = None  # with it, a row under another id is known to be a twin
    subjects: Sequence[str] = ()
    # of shape (n_rows, n), optional: the raw numbers of the rows, as models with a learner store them behind a
    # schema.
    raw: npt.NDArray[Any] | None = None


def scan(
    folder: str | os.PathLike[str],
    X: npt.NDArray[Any],
    *,
    ids: Sequence[Key] | npt.NDArray[Any] | None = None,
    subjects: Sequence[Any] | npt.NDArray[Any] | None = None,
    skip: Sequence[str | os.PathLike[str]] = (),
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
    columns: ScanColumns | None = None,
    feature_map: str | None = None,
    texts: Mapping[str, Iterable[tuple[int, str]]] | None = None,
) -> ScanReport:
    r"""Return what is left of rows in the files below a folder, hidden and temporary ones included.

    Raises InputError or InputTypeError if there is no such folder, or the rows cannot be used.

    Parameters
    ----------
    folder : str or path
        Links in it are not followed. It may also be a single file.
    X : array of shape (n_rows, n_features), float32 or float64, finite
        The rows, as they were learnt.
    ids : sequence of n_rows ids, optional
        Without them, a stored twin counts as a remain.
    subjects : sequence of n_rows subjects, or lists of them, optional
        Give them only if nothing of these subjects should be left: all their rows count, not only those of ``X``.
    skip, exclude : sequences of paths, and of glob patterns
        Files not to search, such as the table that the rows came from.
    progress : callable, optional
        Called with (bytes done, bytes in all).
    columns : ScanColumns, optional
        Names of the columns of the rows, their ids and subjects.
    feature_map : str, optional
        The map that ``X`` went through, as the headers of models describe it.
    texts : mapping of str to (row, text) pairs, optional
        Other texts that identify a row: ``"cell"`` such as names and addresses, and ``"number"`` in every spelling.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from erasable.audit.scan import scan
    >>> X = np.random.default_rng(0).standard_normal((3, 10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = pathlib.Path(folder, ".leftover").write_bytes(b"\0" * 5 + X[2].tobytes())
    ...     scan(folder, X, ids=["ann-1", "bob-1", "cy-1"]).remains
    (Remain(file='.leftover', offset=5, length=80, what='float64 row', row=2),)
    """
    _check_rows(X)
    columns = ScanColumns() if columns is None else columns
    if columns.features is not None and len(columns.features) != X.shape[1]:
        raise InputError(f"columns names {len(columns.features)} features, and X has {X.shape[1]}.")
    given = {"id": ids, "subject": subjects}
    keys = {what: _first_rows(what + "s", each, len(X)) for what, each in given.items() if each is not None}
    run = _Scan(np.ascontiguousarray(X), keys, columns, feature_map)
    return run.report(folder, skip, exclude, texts or {}, progress)


def _check_rows(X: npt.NDArray[Any]) -> None:
    """Raise if these are no rows that a model could have learnt."""
    if np.asarray(X).dtype.kind != "f" or not hasattr(X, "dtype"):
        raise InputTypeError(f"X must be an array of float32 or float64; got {type(X).__name__}.")
    if X.ndim != 2 or not X.shape[0] or not X.shape[1]:
        raise InputError(f"X must have two dimensions and at least one row and feature; got the shape {X.shape}.")
    if not np.isfinite(X).all():
        raise InputError("X must be finite: leave out rows that no model can have learnt.")


def _first_rows(name: str, given: Sequence[Any] | npt.NDArray[Any], n_rows: int) -> dict[Key, int]:
    """Return the first row of each id or subject; a row may have several subjects, or none."""
    values = given.tolist() if isinstance(given, np.ndarray) else list(given)
    if len(values) != n_rows:
        raise InputError(f"{name} has {len(values)} entries for {n_rows} rows: give one per row.")
    first: dict[Key, int] = {}
    for row, of_row in enumerate(values):
        for value in of_row if name == "subjects" and isinstance(of_row, list | tuple) else [of_row]:
            if value is None:
                continue
            if not isinstance(value, int | str | bytes) or isinstance(value, bool):
                raise InputTypeError(f"{name} must be integers, strings or bytes.")
            first.setdefault(value, row)
    return first


class _Scan:
    """One scan: first the headers of all models, for the grids that they use, then every byte of every file."""

    def __init__(
        self, X: npt.NDArray[Any], keys: dict[str, dict[Key, int]], columns: ScanColumns, feature_map: str | None
    ) -> None:
        self.X, self.keys, self.feature_map, self.raw = X, keys, feature_map, columns.raw
        self.features = None if columns.features is None else [str(name) for name in columns.features]
        self.name_columns = {"id": (columns.id,), "subject": tuple(columns.subjects)}
        self.grids: list[Any] = []  # that models in the folder use
        self.mapped: set[str] = set()  # names of shards whose rows went through another feature map
        self.first_pass = True  # in which names and texts are searched for as well
        self.search, self.words, self.by_text = RowSearch([]), TextSearch([]), dict[str, dict[bytes, int]]()
        self.as_stored: dict[RowType, _Rows] = {}
        self.found = self.files = self.bytes = self.done = self.total = 0
        self.progress: Progress | None = None
        self.remains: list[Remain] = []
        self.twins: list[Remain] = []
        self.packed: list[str] = []
        self.ids_only: list[str] = []
        self.unread: dict[str, str] = {}

    def report(
        self,
        folder: str | os.PathLike[str],
        skip: Sequence[str | os.PathLike[str]],
        exclude: Sequence[str],
        texts: Mapping[str, Iterable[tuple[int, str]]],
        progress: Progress | None,
    ) -> ScanReport:
        """Search every file, once for each batch of rows."""
        listing = list_files(folder, skip, exclude)
        self.unread |= listing.unreadable
        self._prepare(listing.files, texts)
        passes = batches(self.X if self.raw is None else np.hstack([self.X, self.raw]))
        unsearchable = set[int]()
        self.progress, self.total = progress, len(passes) * sum(size for _, _, size in listing.files)
        for numbers in passes:
            found = encodings(self.X, self.grids, numbers)
            if self.raw is not None:
                found.append(Encoding("float64 row", self.raw[numbers].astype("<f8"), numbers))
            self.search = RowSearch(found)
            unsearchable |= self.search.unsearchable
            self.as_stored.clear()
            for path, relative, size in listing.files:
                done = self.done
                self._search_file(path, relative, size)
                self._advance(done + size - self.done)
            self.first_pass = False
        short = {name + "s": sum(map(is_too_short, self.keys.get(name, ()))) for name in ("id", "subject")}
        return ScanReport(
            rows=len(self.X),
            files=self.files,
            bytes=self.bytes,
            found=self.found,
            remains=tuple(sorted(self.remains, key=_BY_PLACE)),
            twins=tuple(sorted(self.twins, key=_BY_PLACE)),
            too_short=short | {"rows": len(unsearchable)},
            not_looked_into=tuple(self.packed),
            ids_only=tuple(self.ids_only),
            unreadable=tuple(Unread(file, why) for file, why in self.unread.items()),
            skipped=tuple(listing.skipped),
            links=listing.links,
        )

    def _prepare(self, files: list[tuple[str, str, int]], texts: Mapping[str, Iterable[tuple[int, str]]]) -> None:
        """Read the headers of all models: their grids, feature maps, and how they normalise names."""
        spellings = set()
        for path, _, size in files:
            with suppress(OSError, ChangedError), open_file(path) as fd:  # reported when the file is searched
                if (header := read_header(fd, size)) is None:
                    continue
                with suppress(ErasableError, LookupError, TypeError, ValueError):  # then it has no schema to be read
                    spellings |= {*spelling_in(header.meta).items()}
                if (grid := grid_in(header.meta, self.feature_map)) is not None:
                    self.grids.append(grid)
                if self._is_mapped(path, header) and isinstance(shards := header.meta.get("shards"), list):
                    self.mapped.update(map(str, shards))
        words: list[tuple[str, int, Key]] = []
        for what, keys in self.keys.items():
            steps = [each for role, each in spellings if role == what]
            plain = [(key, row) for key, row in keys.items() if isinstance(key, str)]
            spelt: dict[Key, int] = {normalise(key, each): row for each in steps for key, row in plain} | keys
            words += [(what, row, key) for key, row in spelt.items()]
            # 12 and "12" are one: a table may have turned one into the other.
            self.by_text[what] = {as_text(key): row for key, row in spelt.items()}
        for what in ("cell", NUMBER):
            words += [(what, row, text) for row, text in texts.get(what, ())]
        self.words = TextSearch(words)

    def _advance(self, n_bytes: int) -> None:
        self.done += n_bytes
        if self.progress is not None:
            self.progress(self.done, self.total)

    def _add(self, remain: Remain, *, twin: bool = False) -> None:
        self.found += not twin
        listed = self.twins if twin else self.remains
        if len(listed) < _MOST_LISTED:
            listed.append(remain)

    # -- one file ------------------------------------------------------------------------------------------------

    def _search_file(self, path: str, relative: str, size: int) -> None:
        """Search a file and its name; a file that cannot be read is reported."""
        file = shown(relative)
        try:
            if self.first_pass:
                name = np.frombuffer(os.fsencode(relative), dtype=np.uint8)
                for word in self.words.matches(name, 0, len(name)):
                    self._add(Remain(file, word.offset, word.length, f"{word.what} in a file name", word.row))
                if is_orphan(path):
                    self.unread[file] = _ORPHAN
            with open_file(path) as fd:
                self._search_bytes(fd, file)
            self.files += self.first_pass
            self.bytes += size * self.first_pass
        except OSError as error:
            self.unread[file] = reason(error)
        except ChangedError:
            self.unread[file] = "changed while it was read: scan again"
        except CrowdedError:
            self.unread[file] = _CROWDED

    def _search_bytes(self, fd: int, file: str) -> None:
        """Compare the rows of a model or a Parquet file, then search all other bytes."""
        facts = os.fstat(fd)
        size = facts.st_size
        is_parquet = os.pread(fd, len(PARQUET), 0) == PARQUET
        complete = self._search_parquet(fd, file) if is_parquet else not is_packed(fd)
        if self.first_pass and not complete:
            self.packed.append(file)
        header = read_header(fd, size)
        seen: set[tuple[int, int, str]] = set()
        no_rows, no_text = ([], []) if header is None else self._compare_model(fd, file, header, seen)
        for low, block, start, stop in blocks(fd, size, max(self.search.reach, self.words.reach), no_rows):
            for match in self.search.matches(block, start, stop):
                remain = Remain(file, low + match.offset, match.length, match.what, match.row)
                place = (remain.offset, remain.length, remain.what)
                if place not in seen:  # else it was found in two blocks, or equals an earlier row
                    seen.add(place)
                    self._add(remain)
            if self.first_pass:
                blank(block, low, no_text)
                for word in self.words.matches(block, start, stop):
                    self._add(Remain(file, low + word.offset, word.length, word.what, word.row))
            self._advance(stop - start)
        after = os.fstat(fd)
        if (after.st_size, after.st_mtime_ns) != (size, facts.st_mtime_ns):
            raise ChangedError

    # -- models --------------------------------------------------------------------------------------------------

    def _compare_model(
        self, fd: int, file: str, header: ModelHeader, seen: set[tuple[int, int, str]]
    ) -> tuple[list[Interval], list[Interval]]:
        """Compare ids, subjects and stored rows; return which stretches need no search for rows, and for text."""
        ids, unread = self._compare_names(fd, file, header)
        no_text = [interval for interval in header.without_text if interval not in unread]
        if not header.n_rows:
            return [], no_text
        table = self._rows_for(header, file)
        if table is None:
            if ids is None or "id" not in self.keys:
                self.unread[file] = _OTHER_FORM
            elif self.first_pass:
                self.ids_only.append(file)
            return [], no_text
        own = self.by_text.get("id")
        others = {i for i, key in enumerate(ids or ()) if own is not None and as_text(key) not in own}
        compared = 0
        for first, rows, places in header.stored_rows(fd):
            compared += len(rows)
            for i, what, number in _equal_rows(table, rows):
                remain = Remain(file, int(places[i, 0]), int(places[i, 1]), what, number)
                seen.add((remain.offset, remain.length, remain.what))
                self._add(remain, twin=first + i in others)
        if not header.is_whole:
            return [], no_text
        if compared < header.n_rows:  # none of their bytes counts as compared
            self.unread[file] = _UNFIT
            return [], no_text
        return [(t.low, t.high) for t in header.rows], no_text

    def _compare_names(self, fd: int, file: str, header: ModelHeader) -> tuple[list[Key] | None, list[Interval]]:
        """Compare stored ids and subjects, and search the header's texts; return the ids, and tensors without keys."""
        ids: list[Key] | None = None
        unread = []
        for what, name in (("id", "ids"), ("subject", "subjects")):
            stored = header.keys(fd, name)
            if stored is None and (tensor := header.tensors.get(name)) is not None:
                unread.append((tensor.low, tensor.high))
            if what == "id" and stored is not None:
                ids = [key for key, _, _ in stored]
            for key, offset, length in stored or ():
                if self.first_pass and (match := self._match_name(key, what)) is not None:
                    self._add(Remain(file, offset, length, *match))
        if self.first_pass:
            text = np.frombuffer(header.text, dtype=np.uint8)
            found = {(w.what, w.row): w for w in self.words.matches(text, 0, len(text))}
            for word in found.values():
                offset, length = header.place(text[word.offset : word.offset + word.length].tobytes())
                self._add(Remain(file, offset, length, word.what, word.row))
        return ids, unread

    def _match_name(self, key: Key, what: str) -> tuple[str, int] | None:
        """Return as what a stored id or subject is searched for, and the row; ids may be stored as subjects."""
        text = as_text(key)
        for role, rows in self.by_text.items():
            if text in rows and (role == what or not (text.lstrip(b"-").isdigit() or is_too_short(key))):
                return role, rows[text]
        return None

    def _rows_for(self, header: ModelHeader, file: str) -> _Rows | None:
        """Return rows of the table as this model would store them; None if its rows are of another form."""
        kind = header.row_type
        # A shard does not say how many features there are; the head that it belongs to does.
        meta = header.meta
        grid = grid_in(meta, self.feature_map)
        widths = [grid.n_features for grid in self.grids]
        if "n_features" in meta:
            widths = [meta["n_features"] if grid is None else grid.n_features]
        if self._is_mapped(file, header) or kind is None or (widths and self.X.shape[1] not in widths):
            return None
        alike = any(e.as_stored(kind) is not None for e in self.search.encodings)
        return self._stored(kind) if alike or grid is not None else None

    def _is_mapped(self, file: str, header: ModelHeader) -> bool:
        """Return whether stored rows went through another feature map than the table's; a shard's head says it."""
        if "n_features" in header.meta:
            differs = header.meta.get("feature_map") != self.feature_map
            return bool(differs and grid_in(header.meta, self.feature_map) is None)
        return os.path.basename(file) in self.mapped

    def _stored(self, kind: RowType) -> _Rows:
        """Return the rows of this batch by their bytes in a stored array of this type."""
        if kind not in self.as_stored:
            found: _Rows = {}
            for encoding in self.search.encodings:
                if (raw := encoding.as_stored(kind)) is not None:
                    for i, number in enumerate(encoding.numbers.tolist()):
                        found.setdefault(raw[i].tobytes(), (encoding.what, number))
            self.as_stored[kind] = found
        return self.as_stored[kind]

    # -- Parquet -------------------------------------------------------------------------------------------------

    def _search_parquet(self, fd: int, file: str) -> bool:
        """Search the cells of a Parquet file; return whether all of it could be decoded."""
        try:
            with Parquet(fd, self.features) as parquet:
                for first, numbers, texts in parquet.rows():
                    others = self._rows_of_others(texts)
                    for at, number in sorted(self._rows_in(numbers, whole=parquet.has_features)):
                        remain = Remain(file, first + at, 1, "row in Parquet", number)
                        self._add(remain, twin=others is not None and others[at])
                    if self.first_pass:
                        for at, what, number in sorted(self._names_in(texts)):
                            self._add(Remain(file, first + at, 1, f"{what} in Parquet", number))
                return parquet.is_flat
        except UndecodedError:
            return False

    def _rows_of_others(self, texts: TextColumns) -> list[bool] | None:
        """Return which rows have an id that is not searched for; None if ids are not known."""
        if "id" not in self.keys:
            return None
        ids = next((cells for name, cells in texts if name in self.name_columns["id"]), None)
        return None if ids is None else [key is not None and key not in self.by_text["id"] for key in ids]

    def _rows_in(self, numbers: npt.NDArray[np.float64], *, whole: bool) -> set[tuple[int, int]]:
        """Return (row of the file, row of the table): equal rows, or rows anywhere among other columns of numbers."""
        found = set()
        for kind in ("<f8", "<f4") if numbers.size else ():
            with np.errstate(over="ignore"):
                cells = numbers.astype(kind)
            if whole:
                table = self._stored(RowType(kind, numbers.shape[1]))
                found |= {(i, number) for i, _, number in _equal_rows(table, cells)}
                continue
            block = cells.reshape(-1).view(np.uint8)
            width = len(block) // len(cells)
            found |= {(match.offset // width, match.row) for match in self.search.matches(block, 0, len(block))}
        return found

    def _names_in(self, texts: TextColumns) -> set[tuple[int, str, int]]:
        """Return ids and subjects: whole cells of their own columns, whatever their length, and words of any column."""
        found = set()
        for column, cells in texts:
            for what, rows in self.by_text.items():
                if column in self.name_columns[what]:
                    found |= {(i, what, rows[v]) for i, v in enumerate(cells) if v is not None and v in rows}
            ends = np.cumsum([1 + len(v or b"") for v in cells])
            text = np.frombuffer(b"\n".join(v or b"" for v in cells), dtype=np.uint8)
            for word in self.words.matches(text, 0, len(text)):
                found.add((int(np.searchsorted(ends, word.offset, side="right")), word.what, word.row))
        return found


def _equal_rows(table: _Rows, rows: npt.NDArray[Any]) -> Iterator[tuple[int, str, int]]:
    """Yield which rows are in the table, by their bytes, what they are called, and their number."""
    data = rows.tobytes()
    width = len(data) // max(1, len(rows))
    for i in range(len(rows)):
        if (equal := table.get(data[i * width : (i + 1) * width])) is not None:
            yield i, *equal
