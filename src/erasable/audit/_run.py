"""One scan: first the headers of all files, for the grids that they use, then every byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from erasable.audit._needles import Encoding, Form, RowType, batches, encodings
from erasable.audit._ours import Ours, read_header
from erasable.audit._parquet import MAGIC, Cells, Parquet, UndecodedError
from erasable.audit._report import MOST_LISTED, Remain, ScanReport, Unread
from erasable.audit._search import CrowdedError, Search
from erasable.audit._walk import (
    ChangedError,
    Interval,
    blank,
    blocks,
    is_packed,
    list_files,
    open_file,
    shown,
    starts_with,
    why,
)
from erasable.audit._wanted import Wanted
from erasable.audit._words import NUMBER, Key, Words, as_text, is_too_short
from erasable.core.names import Steps, normalise
from erasable.errors import ErasableError
from erasable.models.access import spelling_in

Progress = Callable[[int, int], None]
_PLACE = attrgetter("file", "offset", "what", "row")
_MOST_PARTS = 1000  # that are compared with the rows that models hold; more than that count as remains
Stored = dict[bytes, tuple[Encoding, int]]


class Part(NamedTuple):
    """A part of a row that was found: columns ``first`` to ``last`` of a row of an encoding."""

    remain: Remain
    encoding: int
    row: int
    first: int
    last: int


class Run:
    """A scan for some rows in some folder."""

    def __init__(
        self,
        wanted: Wanted,
        folder: str | os.PathLike[str],
        skip: Sequence[str | os.PathLike[str]],
        exclude: Sequence[str],
        progress: Progress | None,
    ) -> None:
        self.wanted, self.progress = wanted, progress
        self.listing = list_files(folder, skip, exclude)
        self.batches = batches(wanted.X)
        self.total = sum(size for _, _, size in self.listing.files)
        self.done = self.found = self.files = self.bytes = 0
        self.remains: list[Remain] = []
        self.twins: list[Remain] = []
        self.unsure: list[Part] = []
        self.packed: list[str] = []
        self.ids_only: list[str] = []
        self.untold: set[int] = set()
        self.unread = {u.file: u.why for u in self.listing.unreadable}
        self.models: list[str] = []
        self.mapped: set[str] = set()  # names of shards whose rows went through another feature map
        self.spellings: set[tuple[str, Steps]] = set()  # that models declare, of ids and subjects
        self.forms = self._forms()
        self.search = Search([])
        names = [(what, self._spelt(what, keys)) for what, keys in wanted.named()]
        named = [*names, ("cell", wanted.cells), (NUMBER, wanted.numbers)]
        self.words = Words([(what, row, key) for what, keys in named for key, row in keys.items()])
        self.first = True  # time that the files are read: then, names are looked for as well
        # 12 and "12" are one: a table may have turned one into the other
        self.texts = {what: {as_text(key): row for key, row in keys.items()} for what, keys in names}
        self._known: dict[RowType, Stored] = {}

    def _forms(self) -> list[Form]:
        found: list[Form] = []
        for path, _, size in self.listing.files:
            with suppress(OSError, ChangedError), open_file(path) as fd:  # said when the file is looked at
                if (ours := read_header(fd, size)) is None:
                    continue
                self.models.append(path)
                with suppress(ErasableError, LookupError, TypeError, ValueError):  # then it has no schema to be read
                    self.spellings |= {*spelling_in(ours.meta).items()}
                if (form := ours.form(self.wanted.feature_map)) is not None:
                    found.append(form)
                if self._is_mapped(path, ours) and isinstance(named := ours.meta.get("shards"), list):
                    self.mapped.update(map(str, named))
        return found

    def _spelt(self, what: str, keys: Mapping[Any, int]) -> dict[Any, int]:
        """Ids or subjects, and the same as the models store them that declare a normalisation."""
        steps = [steps for role, steps in self.spellings if role == what]
        texts = [(key, row) for key, row in keys.items() if isinstance(key, str)]
        return {normalise(key, each): row for each in steps for key, row in texts} | dict(keys)

    def report(self) -> ScanReport:
        """Look at every file, as often as there are batches of rows."""
        for numbers in self.batches:
            self.search = Search(encodings(self.wanted.X, self.forms, numbers))
            self.untold |= self.search.untold
            self._known.clear()
            self.unsure.clear()
            for path, relative, size in self.listing.files:
                before = self.done
                self._open(path, relative, size)
                self._tick(before + size - self.done)
            self._settle()
            self.first = False
        kinds = (("ids", self.wanted.ids), ("subjects", self.wanted.subjects))
        short = {name: sum(map(is_too_short, keys or ())) for name, keys in kinds}
        return ScanReport(
            rows=len(self.wanted.X),
            files=self.files,
            bytes=self.bytes,
            found=self.found,
            remains=tuple(sorted(self.remains, key=_PLACE)),
            twins=tuple(sorted(self.twins, key=_PLACE)),
            too_short=short | {"rows": len(self.untold)},
            not_looked_into=tuple(self.packed),
            ids_only=tuple(self.ids_only),
            unreadable=tuple(Unread(file, reason) for file, reason in self.unread.items()),
            skipped=tuple(self.listing.skipped),
            links=self.listing.links,
        )

    def _tick(self, more: int) -> None:
        self.done += more
        if self.progress is not None:
            self.progress(self.done, self.total * len(self.batches))

    def _add(self, remain: Remain, *, twin: bool = False) -> None:
        self.found += not twin
        listed = self.twins if twin else self.remains
        if len(listed) < MOST_LISTED:
            listed.append(remain)

    # -- one file ------------------------------------------------------------------------------------------------

    def _open(self, path: str, relative: str, size: int) -> None:
        file = shown(relative)
        try:
            if self.first:
                name = np.frombuffer(os.fsencode(relative), dtype=np.uint8)
                for word in self.words.matches(name, 0, len(name)):
                    self._add(Remain(file, word.offset, word.length, f"{word.what} in a file name", word.row))
            with open_file(path) as fd:
                self._file(fd, file)
            self.files += self.first
            self.bytes += size * self.first
        except OSError as error:
            self.unread[file] = why(error)
        except ChangedError:
            self.unread[file] = "changed while it was read: scan again"
        except CrowdedError:
            self.unread[file] = "too many near misses to look at all of them: look for fewer rows at a time"

    def _file(self, fd: int, file: str) -> None:
        facts = os.fstat(fd)
        size = facts.st_size
        unpacked = self._parquet(fd, file) if starts_with(fd, MAGIC) else not is_packed(fd)
        if self.first and not unpacked:
            self.packed.append(file)
        ours = read_header(fd, size)
        seen: set[tuple[int, int, str]] = set()
        no_rows, no_text = ([], []) if ours is None else self._by_its_own_account(fd, file, ours, seen)
        reach = max(self.search.reach, self.words.reach)
        for low, block, start, stop in blocks(fd, size, reach, no_rows):
            for match in self.search.matches(block, start, stop):
                encoding = self.search.encodings[match.encoding]
                remain = Remain(
                    file,
                    low + match.offset,
                    match.last - match.first,
                    encoding.what if match.whole else "part of a row",
                    int(encoding.numbers[match.row]),
                )
                place = (remain.offset, remain.length, remain.what)
                if place in seen:  # found in two blocks, or the same as an earlier row
                    continue
                seen.add(place)
                if match.whole:
                    self._add(remain)
                else:
                    columns = self.search.columns(match.encoding, match.first, match.last)
                    self.unsure.append(Part(remain, match.encoding, match.row, *columns))
            if self.first:
                blank(block, low, no_text)
                for word in self.words.matches(block, start, stop):
                    self._add(Remain(file, low + word.offset, word.length, word.what, word.row))
            self._tick(stop - start)
        after = os.fstat(fd)
        if (after.st_size, after.st_mtime_ns) != (size, facts.st_mtime_ns):
            raise ChangedError

    def _by_its_own_account(
        self, fd: int, file: str, ours: Ours, seen: set[tuple[int, int, str]]
    ) -> tuple[list[Interval], list[Interval]]:
        """Compare ids, subjects and stored rows; which stretches need not be searched for rows, and for text."""
        undecoded = []
        names: list[tuple[Key, int, int]] | None = None
        for what, name in (("id", "ids"), ("subject", "subjects")):
            held = ours.keys(fd, name)
            if held is None and name in ours.tensors:
                undecoded.append(ours.tensors[name])
            names = list(held) if what == "id" and held is not None else names
            for key, offset, length in held or ():
                if self.first and (name_of := self._named(key, what)) is not None:
                    self._add(Remain(file, offset, length, *name_of))
        no_text = [i for i in ours.without_text if i not in {(t.low, t.high) for t in undecoded}]
        if self.first:
            self._header(file, ours)
        if not ours.n_rows:
            return [], no_text
        table = self._as_stored(ours, file)
        if table is None:
            if names is None or self.wanted.ids is None:
                self.unread[file] = "its rows are of another form than the table's: give ids to compare"
            elif self.first:
                self.ids_only.append(file)
            return [], no_text
        texts = self.texts.get("id")
        others = {i for i, (key, _, _) in enumerate(names or ()) if texts is not None and as_text(key) not in texts}
        compared = 0
        for first, rows, places in ours.stored_rows(fd):
            compared += len(rows)
            for i, encoding, number in _equal(table, rows):
                remain = Remain(file, int(places[i, 0]), int(places[i, 1]), encoding.what, number)
                seen.add((remain.offset, remain.length, remain.what))
                self._add(remain, twin=first + i in others)
        if not ours.whole:
            return [], no_text
        if compared < ours.n_rows:  # no byte of them counts as seen
            self.unread[file] = "its sparse rows do not fit together: their bytes were searched, but not compared"
            return [], no_text
        return [(t.low, t.high) for t in ours.rows], no_text

    # -- Parquet -------------------------------------------------------------------------------------------------

    def _parquet(self, fd: int, file: str) -> bool:
        """Look into a Parquet file, cell by cell; whether all of it could be looked into."""
        try:
            with Parquet(fd, self.wanted.feature_names) as parquet:
                for cells in parquet.cells():
                    others = self._rows_of_others(cells)
                    found = self._same_rows(cells.numbers) if parquet.is_named else self._anywhere(cells.numbers)
                    for at, what, number in sorted(found):
                        remain = Remain(file, cells.first + at, 1, f"{what} in Parquet", number)
                        self._add(remain, twin=others is not None and others[at])
                    if self.first:
                        for at, what, number in sorted(self._names_in(cells)):
                            self._add(Remain(file, cells.first + at, 1, f"{what} in Parquet", number))
                return parquet.is_flat
        except UndecodedError:
            return False

    def _rows_of_others(self, cells: Cells) -> list[bool] | None:
        """Which rows have an id that is not looked for, where ids are known."""
        if self.wanted.ids is None:
            return None
        columns = self.wanted.columns.get("id", ())
        held = next((values for name, values in cells.names if name in columns), None)
        return None if held is None else [key is not None and key not in self.texts["id"] for key in held]

    def _same_rows(self, numbers: npt.NDArray[np.float64]) -> set[tuple[int, str, int]]:
        """Rows that equal one looked for, in float64 or in float32: (which, what it is, the number of that one)."""
        found = set()
        for kind in ("<f8", "<f4"):
            table = self._table_of(RowType(kind, numbers.shape[1]))
            with np.errstate(over="ignore"):
                found |= {(i, "row", number) for i, _, number in _equal(table, numbers.astype(kind))}
        return found

    def _anywhere(self, numbers: npt.NDArray[np.float64]) -> set[tuple[int, str, int]]:
        """The same for rows, and parts of them, that lie anywhere among the numbers."""
        found = set()
        for kind in ("<f8", "<f4") if numbers.size else ():
            with np.errstate(over="ignore"):
                block = numbers.astype(kind).reshape(-1).view(np.uint8)
            for match in self.search.matches(block, 0, len(block)):
                encoding = self.search.encodings[match.encoding]
                at = match.offset // (len(block) // len(numbers))
                found.add((at, "row" if match.whole else "part of a row", int(encoding.numbers[match.row])))
        return found

    def _names_in(self, cells: Cells) -> set[tuple[int, str, int]]:
        """Ids and subjects: as whole cells of their own columns, whatever their length, and as words of any column."""
        found = set()
        for column, values in cells.names:
            for what, texts in self.texts.items():
                if column in self.wanted.columns.get(what, ()):
                    found |= {(i, what, texts[v]) for i, v in enumerate(values) if v is not None and v in texts}
            ends = np.cumsum([1 + len(v or b"") for v in values])
            text = np.frombuffer(b"\n".join(v or b"" for v in values), dtype=np.uint8)
            for word in self.words.matches(text, 0, len(text)):
                found.add((int(np.searchsorted(ends, word.offset, side="right")), word.what, word.row))
        return found

    # -- files of this package, by their own account ---------------------------------------------------------------

    def _named(self, key: Key, what: str) -> tuple[str, int] | None:
        """As what a stored id or subject is looked for, and the row; a name may stand in the place of the other."""
        text = as_text(key)
        for looked_for, rows in self.texts.items():
            if text in rows and (looked_for == what or not (text.lstrip(b"-").isdigit() or is_too_short(key))):
                return looked_for, rows[text]
        return None

    def _header(self, file: str, ours: Ours) -> None:
        """Look for ids and subjects in the texts of a header; each is told once."""
        text = np.frombuffer(ours.text, dtype=np.uint8)
        found = {(w.what, w.row): w for w in self.words.matches(text, 0, len(text))}
        for word in found.values():
            offset, length = ours.place(text[word.offset : word.offset + word.length].tobytes())
            self._add(Remain(file, offset, length, word.what, word.row))

    def _as_stored(self, ours: Ours, file: str) -> Stored | None:
        """Rows of the table as this model would hold them; None when its rows are of another form."""
        d, kind = self.wanted.X.shape[1], ours.row_type
        if self._is_mapped(file, ours):
            return None
        # A shard does not say how many features there are; the head that it belongs to does.
        known = [ours.meta["n_features"]] if "n_features" in ours.meta else [form.n_features for form in self.forms]
        if kind is None or (known and d not in known):
            return None
        alike = any(e.as_stored(kind) is not None for e in self.search.encodings)
        return self._table_of(kind) if alike or ours.form(self.wanted.feature_map) is not None else None

    def _is_mapped(self, file: str, ours: Ours) -> bool:
        """Whether stored rows went through another feature map than those looked for, so that none could be found.

        A shard does not say it; the head that it belongs to does.
        """
        alone = "n_features" in ours.meta
        return (
            ours.meta.get("feature_map") != self.wanted.feature_map if alone else os.path.basename(file) in self.mapped
        )

    def _table_of(self, kind: RowType) -> Stored:
        """Rows looked for by their bytes, as a stored array of this type has them."""
        if kind not in self._known:
            found: Stored = {}
            for encoding in self.search.encodings:
                if (raw := encoding.as_stored(kind)) is None:
                    continue
                for i, number in enumerate(encoding.numbers.tolist()):
                    found.setdefault(raw[i].tobytes(), (encoding, number))
            self._known[kind] = found
        return self._known[kind]

    # -- parts that another row has too --------------------------------------------------------------------------

    def _settle(self) -> None:
        """Parts become remains, unless a stored row under another id has the same entries in the same columns."""
        open_ones = list(self.unsure)
        for path in self.models if open_ones and self.wanted.ids is not None else ():
            with suppress(OSError, ChangedError), open_file(path) as fd:  # without it, more parts count as remains
                ours = read_header(fd, os.fstat(fd).st_size)
                if ours is not None and not self._is_mapped(path, ours):
                    open_ones = self._not_shared(fd, ours, open_ones)
        for part in open_ones:
            self._add(part.remain)

    def _not_shared(self, fd: int, ours: Ours, parts: list[Part]) -> list[Part]:
        names = ours.keys(fd, "ids")
        encodings, kind = self.search.encodings, ours.row_type
        if names is None or kind is None:
            return parts
        alike = [e.as_stored(kind) is not None for e in encodings]
        mine = [p for p in parts[:_MOST_PARTS] if alike[p.encoding]]
        if not mine:
            return parts
        others = np.array([as_text(key) not in self.texts["id"] for key, _, _ in names], dtype=bool)
        shared: set[Remain] = set()
        for first, raw, _ in ours.stored_rows(fd):
            rows = raw.view(kind.dtype)
            other = np.flatnonzero(others[first : first + len(rows)])
            for part in (p for p in mine if p.remain not in shared):
                wanted, left = encodings[part.encoding].rows[part.row], other
                for j in range(part.first, min(part.last, kind.columns)):
                    left = left[rows[left, j] == wanted[j]]
                    if not len(left):
                        break
                else:
                    shared.add(part.remain)
        for remain in shared:
            self._add(remain, twin=True)
        return [p for p in parts if p.remain not in shared]


def _equal(table: Stored, rows: npt.NDArray[Any]) -> Iterator[tuple[int, Encoding, int]]:
    """Which rows are in the table, by their bytes, and as what."""
    data = rows.tobytes()
    width = len(data) // max(1, len(rows))
    for i in range(len(rows)):
        if (equal := table.get(data[i * width : (i + 1) * width])) is not None:
            yield i, *equal
