"""The one place that opens a file of text: its bytes, unpacked, in UTF-8 and without a byte order mark."""

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

from erasable.arrow import pyarrow
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.tables.first_rows import THOUSANDS

#: Endings of compressed files, in lower case.
PACKED = (".gz", ".bz2", ".zst")
CHUNK = 2**16  # bytes
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
    """The bytes of a file, unpacked on the way where its ending says that it is compressed; closed by the caller."""
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
    """Text as bytes in UTF-8 without a byte order mark. Where it is not in the encoding, reading it raises an error.

    Parameters
    ----------
    file : binary file object
    encoding : str, optional
        By default that of the byte order mark, or UTF-8, which is not checked here.
    name : str
        What errors call the file.
    close : callable, optional
        Called when this is closed.

    Raises
    ------
    InputError
        When a byte order mark names another encoding than was given, or the text is UTF-16 or the like without one.
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
    """So many bytes, or all; a pipe may give them bit by bit."""
    head = bytearray()
    while len(head) < size and (part := file.read(size - len(head))):
        head += part
    return bytes(head)


def joined_bytes(parts: Iterator[bytes], close: Callable[[], None] = lambda: None) -> io.BufferedReader:
    """A stream of all parts, one after the other; reads are short only at the end, as pyarrow expects."""
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
        """Also what the parts come from."""
        if not self.closed:
            self._close()
        super().close()
