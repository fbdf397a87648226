"""What a scan found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MOST_LISTED = 10_000


@dataclass(frozen=True)
class Remain:
    """Something of a row, at a place.

    Attributes
    ----------
    file : str
        Path below the folder that was scanned.
    offset, length : int
        Which bytes of the file; of its path, or which row of a Parquet file and 1, when ``what`` says so.
    what : str
        ``"grid row"``, ``"float32 row"``, ``"float64 row"``, ``"part of a row"``, ``"id"``, ``"subject"``, ``"cell"``
        (a text of a raw table), ``"number"`` (a feature, written out), any of the last four with ``" in a file name"``
        or ``" in Parquet"``; in what a Parquet file holds, ``"row in Parquet"``,
        ``"part of a row in Parquet"``, ``"id in Parquet"`` or ``"subject in Parquet"``.
    row : int
        Number of the row in the table, counted from 0; the first of them where several are the same.
    """

    file: str
    offset: int
    length: int
    what: str
    row: int


@dataclass(frozen=True)
class Unread:
    """A file or folder that could not be looked at, and why."""

    file: str
    why: str


@dataclass(frozen=True)
class ScanReport:
    """What a scan found, and what it could not see. It holds no value and no id of a row.

    Attributes
    ----------
    rows : int
        Rows that were looked for.
    files, bytes : int
        Looked at.
    found : int
        Remains in all; ``remains`` lists the first ten thousand.
    remains : tuple of Remain
    twins : tuple of Remain
        Rows of models or Parquet files with the same features as a row looked for, under another id, and parts that
        such a row has too.
    too_short : dict
        How many ``"ids"`` and ``"subjects"`` are too short to be looked for as text, and how many ``"rows"``
        have, in some encoding, too few bytes that are not zero. Files of this package are compared with these too.
        How many ``"texts"`` and ``"numbers"`` of the rows are too short to be looked for, and how many ``"cells"``
        too many, where cells are looked for at all.
    not_looked_into : tuple of str
        Files that are compressed or archives: only their outer bytes were searched, and of Parquet files with
        nested columns the others.
    ids_only : tuple of str
        Models whose rows are of another form than the table's (another number of features, a feature map): in these,
        only ids and subjects were compared.
    unreadable : tuple of Unread
        Among them models whose rows could not be compared at all.
    skipped : tuple of str
        Left out on request: the table itself, and what ``exclude`` names.
    links : int
        Symbolic links, pipes, sockets and devices, which were not opened.
    """

    rows: int
    files: int
    bytes: int
    found: int
    remains: tuple[Remain, ...]
    twins: tuple[Remain, ...]
    too_short: dict[str, int]
    not_looked_into: tuple[str, ...]
    ids_only: tuple[str, ...]
    unreadable: tuple[Unread, ...]
    skipped: tuple[str, ...]
    links: int

    @property
    def clean(self) -> bool:
        """Whether nothing was found although all files could be read."""
        return not self.found and not self.unreadable

    @property
    def unseen(self) -> tuple[str, ...]:
        """Files that nothing, or only a part of them, is said about: packed, unreadable, or only ids compared."""
        return tuple(sorted({*self.not_looked_into, *self.ids_only, *(u.file for u in self.unreadable)}))

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""

        def places(all_of: tuple[Remain, ...]) -> list[dict[str, Any]]:
            return [
                {"file": r.file, "offset": r.offset, "length": r.length, "what": r.what, "row": r.row} for r in all_of
            ]

        return {
            "clean": self.clean,
            "complete": not self.unseen,
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "found": self.found,
            "remains": places(self.remains),
            "twins": places(self.twins),
            "too_short": dict(self.too_short),
            "not_looked_into": list(self.not_looked_into),
            "ids_only": list(self.ids_only),
            "unreadable": [{"file": u.file, "why": u.why} for u in self.unreadable],
            "skipped": list(self.skipped),
            "links": self.links,
        }
