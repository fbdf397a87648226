"""Text files: how CSV is written, bytes unpacked and in UTF-8, and CSV cut into whole rows with every quote closed."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.validation import pyarrow

#: Endings of compressed files, in lower case.
PACKED = (".gz", ".bz2", ".zst")
#: Marks between thousands that can be named; a space stands for those of print, too.
THOUSANDS = {",": ",", ".": "[.]", "'": "['\u2019]", " ": "[ \u00a0\u202f]", "_": "_"}
CHUNK = 2**16  # bytes
LONGEST_ROW = 2**26  # bytes
_QUOTE = ord('"')
# Marks of UTF-32 begin like those of UTF-16, so they stand first.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_NO_SEPARATORS = '"\n\r'


@dataclass(frozen=True)
class Dialect:
    r"""How CSV text is written.

    Parameters
    ----------
    sep : str, default=","
        The character between cells; ``"\\t"``, as a shell hands it over, is a tab.
    encoding : str, optional
        By default that which a byte order mark names (UTF-8, UTF-16 or UTF-32), or UTF-8.
    decimal : "." or ",", default="."
        What stands before the decimals of a number.
    thousands : ",", ".", "'", " ", "_" or "", optional
        What stands between the thousands of a number; ``""`` keeps such cells as texts. By default a column of numbers
        with such marks is refused.
    header : bool, optional
        Whether the first line holds the names of the columns. By default it does, and is refused where it looks like a
        row. Without names, columns are called ``column_1``, ``column_2``, ...
    columns : sequence of str, optional
        The names of the columns, where the first line is a row.

    Examples
    --------
    >>> import io
    >>> from erasable.tables import Dialect, load_table
    >>> load_table(io.BytesIO(b"a;label\n1,5;0\n"), dialect=Dialect(sep=";", decimal=",")).X.tolist()
    [[1.5]]
    """

    sep: str = ","
    encoding: str | None = None
    decimal: str = "."
    thousands: str | None = None
    header: bool | None = None
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.sep == r"\t":
            object.__setattr__(self, "sep", "\t")
        for name in ("sep", "decimal"):
            if not isinstance(getattr(self, name), str):
                raise InputTypeError(f"{name} must be one character; got {type(getattr(self, name)).__name__}.")
        fit = len(self.sep) == 1 and self.sep.isascii() and not self.sep.isalnum() and self.sep not in _NO_SEPARATORS
        if not fit:
            raise ConfigurationError(
                "sep= must be one character of ASCII that is no letter, digit, quote or line break, such as ';'."
            )
        if self.decimal not in (".", ","):
            raise ConfigurationError("decimal= must be '.' or ','.")
        if self.decimal == self.sep:
            raise ConfigurationError(
                "decimal= and sep= must differ: a file with decimal commas needs sep=, such as ';'."
            )
        if self.thousands is not None and (self.thousands not in (*THOUSANDS, "") or self.thousands == self.decimal):
            raise ConfigurationError(
                f"thousands= must be one of {' '.join(map(repr, THOUSANDS))}, other than decimal=, or empty."
            )
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))
            if self.header or len(set(self.columns)) < len(self.columns) or not all(self.columns):
                raise ConfigurationError(
                    "columns= must name each column once, and is for files whose first line holds no names."
                )
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _encoding(self.encoding))


def open_unpacked(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked where its ending says that it is compressed; closed by the caller."""
    openers: dict[str, Callable[[Path, str], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".zst": _open_zstd}
    file: BinaryIO = openers.get(path.suffix, open)(path, "rb")
    return file


def _open_zstd(path: Path, _: str) -> BinaryIO:
    return io.BufferedReader(pyarrow().input_stream(str(path), compression="zstd"), CHUNK)


def open_text(path: Path, encoding: str | None = None) -> BinaryIO:
    """The text of a file as in :func:`in_utf8`; closing it closes the file."""
    file = open_unpacked(path)
    try:
        return in_utf8(file, encoding, path.name, file.close)
    except BaseException:
        file.close()
        raise


def in_utf8(
    file: BinaryIO, encoding: str | None, name: str, close: Callable[[], None] = lambda: None
) -> io.BufferedReader:
    """Text as bytes in UTF-8 without a byte order mark; reading raises an error where it is not in the encoding.

    By default the encoding is that of the byte order mark, or UTF-8, which is not checked here. ``name`` is for errors,
    and ``close`` is called when this is closed. A byte order mark that contradicts the encoding is refused, and so is
    UTF-16 or the like without one.
    """
    head = _read_up_to(file, 4)
    mark = next((mark for mark in _MARKS if head.startswith(mark)), b"")
    if mark and encoding is not None and not encoding.startswith(_MARKS[mark][:6].rstrip("-")):
        raise InputError(
            f"{name} begins with the byte order mark of {_MARKS[mark]}, and encoding= says otherwise: leave it out."
        )
    if not mark and encoding is None and b"\0" in head:
        raise InputError(
            f"{name} begins with bytes of zero, as UTF-16 without a byte order mark does: give encoding=, such as "
            "utf-16-le."
        )
    parts = chain([head[len(mark) :]], iter(lambda: file.read(CHUNK), b""))
    written = _MARKS.get(mark, encoding or "utf-8")
    return joined_bytes(parts if written == "utf-8" else _recoded(parts, written), close)


def _recoded(parts: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    for part in parts:
        yield decoder.decode(part).encode()
    yield decoder.decode(b"", final=True).encode()


def _encoding(name: str) -> str:
    """The name that Python has for an encoding of text."""
    try:
        "".encode(name)  # refuses those of Python's codecs that are for bytes
        found = codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        found = ""
    if not found:
        raise ConfigurationError("encoding= must be one that Python knows, such as utf-8, utf-16 or cp1252.")
    return "utf-8" if found == "utf-8-sig" else found


def looked_ahead(file: BinaryIO, size: int) -> tuple[bytes, BinaryIO]:
    """The first bytes of a pipe, and a stream of all of them, which leaves the pipe open when it is closed."""
    head = _read_up_to(file, size)
    return head, joined_bytes(chain([head], iter(lambda: file.read(CHUNK), b"")))


def _read_up_to(file: BinaryIO, size: int) -> bytes:
    """So many bytes, or all; one read of a pipe may return fewer."""
    head = bytearray()
    while len(head) < size and (part := file.read(size - len(head))):
        head += part
    return bytes(head)


def joined_bytes(parts: Iterator[bytes], close: Callable[[], None] = lambda: None) -> io.BufferedReader:
    """A stream of all parts; reads are short only at the end, as pyarrow expects."""
    return io.BufferedReader(_Joined(parts, close), CHUNK)


class _Joined(io.RawIOBase):
    def __init__(self, parts: Iterator[bytes], close: Callable[[], None]) -> None:
        self._parts, self._close, self._rest = parts, close, memoryview(b"")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Bytes of the next part that has any."""
        while not self._rest:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._rest = memoryview(part)
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n

    def close(self) -> None:
        """Close what the parts come from, too."""
        if not self.closed:
            self._close()
        super().close()


# -- whole rows -------------------------------------------------------------------------------------------------------
#
# A cell is quoted when its first character is a quote; inside of it, two quotes stand for one. Quotes elsewhere stand
# for themselves. Parsers of CSV are lenient where a cell goes on after its closing quote, or a quote is never closed,
# and lose rows without a word. Here both are refused.


def whole_rows(text: BinaryIO, sep: str, name: str, size: int) -> Iterator[bytes]:
    """Parts of CSV text of about this size, each of whole rows; ``name`` is for errors.

    *Law*: the parts put together are the text. *Cost*: next to nothing without quotes; otherwise each quote is checked,
    in bulk where all stand around cells.

    Raises InputError when a quote is not closed, or closed where a cell goes on; when a row is longer than 64 MiB.
    """
    watch, held = _QuoteTracker(sep, name), [b""]
    while part := text.read(size):
        end = watch.feed(part)
        if end is None or len(part) < size:  # the last ones stay together
            held.append(part)
            if sum(map(len, held)) > LONGEST_ROW:
                watch.refuse_unclosed()
                raise InputError(f"{name}: a row is longer than {LONGEST_ROW:,} bytes, so this may be no CSV.")
        else:
            yield b"".join([*held, part[:end]])
            held = [part[end:]]
    watch.feed(b"\n\n")
    watch.refuse_unclosed()
    if rest := b"".join(held):
        yield rest


class _QuoteTracker:
    """Follows the quotes of CSV text through its parts."""

    def __init__(self, sep: str, name: str) -> None:
        self.name = name
        self.ends = np.zeros(256, dtype=bool)  # bytes that may come before a quoted cell and after it
        self.ends[[ord(sep), ord("\n"), ord("\r")]] = True
        self.tail = b"\n"  # the last byte checked, and the next one, which waits for the byte after it
        self.inside = self.closed_last = False
        self.line = self.opened = 1

    def feed(self, part: bytes) -> int | None:
        """Check the bytes that follow; where in them the last row ends, None if none does."""
        if not part:  # whether the last quote is doubled is not known yet
            return None
        text, before, inside = self.tail + part, len(self.tail), self.inside
        at = self._look(text) if inside or b'"' in text else None
        self.line += text.count(b"\n", 1, len(text) - 1)
        self.tail = text[-2:]
        for mark in (b"\n", b"\r"):
            if at is None:
                last = text.rfind(mark, 1, len(text) - 1)
            else:
                breaks = np.flatnonzero(np.frombuffer(text, np.uint8)[1:-1] == mark[0]) + 1
                ending = breaks[(np.searchsorted(at, breaks) + inside) % 2 == 0]
                last = int(ending[-1]) if len(ending) else -1
            if last >= 0:
                return last + 1 - before
        return None

    def refuse_unclosed(self) -> None:
        """Raise InputError if a quote is open at the end of the text."""
        if self.inside:
            raise InputError(
                f"{self.name}: a quote that opens in line {self.opened:,} is not closed, so the rows after it would be "
                "lost: correct the file."
            )

    def _look(self, text: bytes) -> Any:
        """The places of quotes that open or close a cell, in turn."""
        codes = np.frombuffer(text, np.uint8)
        at = np.flatnonzero(codes[1:-1] == _QUOTE) + 1
        # As a rule all quotes do; two inside of a cell close it and open it again.
        opens = (np.arange(len(at)) + self.inside) % 2 == 0
        neighbour = codes[np.where(opens, at - 1, at + 1)]
        doubled = self.closed_last or text[0] != _QUOTE or not len(at) or at[0] > 1  # and no quote within a cell
        if doubled and (self.ends[neighbour] | (neighbour == _QUOTE)).all():
            self.inside ^= len(at) % 2 == 1
            self.closed_last = bool(len(at)) and not self.inside and bool(at[-1] == len(codes) - 2)
            if self.inside and len(at):
                self.opened = self._line_of(text, int(at[-1]))
            return at
        closed, opened, turns = 0 if self.closed_last else -1, -1, []
        for i in at.tolist():
            if not self.inside:
                self.inside = closed == i - 1 or bool(self.ends[text[i - 1]])
                if not self.inside:
                    continue
                opened = opened if closed == i - 1 else i
            elif text[i + 1] == _QUOTE or self.ends[text[i + 1]]:
                self.inside, closed = False, i
            else:
                raise InputError(
                    f"{self.name}: in line {self._line_of(text, i):,} a quote is closed and its cell goes on, as where "
                    "an earlier one is missing: put quotes around whole cells, and double those inside; or give sep=, "
                    "where another character is between cells."
                )
            turns.append(i)
        if self.inside and opened >= 0:
            self.opened = self._line_of(text, opened)
        self.closed_last = closed == len(codes) - 2
        return np.array(turns, dtype=np.intp)

    def _line_of(self, text: bytes, at: int) -> int:
        return self.line + text.count(b"\n", 1, at)
