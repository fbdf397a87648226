"""What a reader of a format is, and reading a file without letting through what it holds when that fails."""

from __future__ import annotations

import bz2
import gzip
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar

from erasable.errors import ConfigurationError, ErasableError, InputError, InputTypeError
from erasable.tables.table import Table

T = TypeVar("T")


class Source(ABC):
    """Rows of one file or pipe.

    Attributes
    ----------
    name : str
        What the rows are called.
    once : bool
        Whether they can be read but once.
    typed : bool
        Whether the format says what labels, ids and subjects are.
    n_rows : int or None
        How many rows there are, where that is known.
    feature_names : tuple of str, or None
    """

    name: str
    once = False
    typed = True
    n_rows: int | None = None
    feature_names: tuple[str, ...] | None = None

    @property
    @abstractmethod
    def n_features(self) -> int:
        """How many numbers a row has."""

    @abstractmethod
    def blocks(self, block_bytes: int | None) -> Iterator[Table]:
        """The rows in blocks of about this size, or in one when it is None.

        There is at least one row, and what is open is closed when the iterator is.
        """

    def raw(self, rows: int | None) -> Iterator[Any]:
        """The cells as they are, where columns have names; in Arrow tables of so many rows, or in one."""
        raise ConfigurationError(f"{self.name} has no columns with names: give CSV, Parquet or Arrow.")

    def count_rows(self) -> int | None:
        """How many rows there are, if need be by reading the file; None where that is not possible."""
        return self.n_rows


def block_rows(block_bytes: int, row_bytes: int) -> int:
    """How many rows of a width make a block."""
    return max(1, block_bytes // max(1, row_bytes))


def where_in(path: Path, first: int, n: int) -> str:
    """How messages name a block: by the rows of the file, counted from one."""
    return f"{path.name}, rows {first + 1:,} to {first + n:,}"


def as_path(path: object) -> Path:
    """A path, from text or a path object."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InputTypeError(f"path must be a string or a path; got {type(path).__name__}.")
    return Path(path)


def existing_file(path: Path) -> Path:
    """The path, when there is a file with something in it."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the path of a file.")
    if not path.exists():
        raise InputError(f"{path} does not exist: check the path.")
    if not path.stat().st_size:
        raise InputError(f"{path.name} is empty: it may not have been written to the end.")
    return path


def open_unpacked(path: Path, mode: str, **options: Any) -> IO[Any]:
    """A file, unpacked on the way where its ending says that it is compressed."""
    opened: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    file: IO[Any] = opened(path, mode, **options)
    return file


def looked_ahead(pipe: BinaryIO, size: int) -> tuple[bytes, BinaryIO]:
    """The first bytes of a pipe, and a stream of all of them, which leaves the pipe open when it is closed.

    The pipe may give them bit by bit; reads of the stream are short only at the end, as pyarrow expects.
    """
    head = bytearray()
    while len(head) < size and (part := pipe.read(size - len(head))):
        head += part
    return bytes(head), io.BufferedReader(_Chained(bytes(head), pipe), 2**16)


class _Chained(io.RawIOBase):
    """Some bytes, then the rest."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = memoryview(head), rest

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Bytes of the head while there are some."""
        if self._head:
            n = min(len(buffer), len(self._head))
            buffer[:n], self._head = self._head[:n], self._head[n:]
            return n
        data = self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def read_or_refuse(read: Callable[[], T], path: Path, form: str) -> T:
    """What ``read`` gives; when it fails, an error without the entries that the reader's own message may quote.

    Raises
    ------
    InputError
    """
    try:
        return read()
    except ErasableError:
        raise
    except PermissionError:
        kind = ""
    except Exception as error:  # readers of damaged files raise anything
        kind = type(error).__name__
    if not kind:
        raise InputError(f"{path.name} cannot be opened: permission was denied; check who may read it.")
    raise InputError(  # here and not above, where it would carry the original, and with it values, along
        f"{path.name} cannot be read as {form} ({kind}): it may be cut short, damaged, or of another format."
    )


def refused_each(items: Iterator[T], path: Path, form: str) -> Iterator[T]:
    """The items; when the reader fails at one, an error as in ``read_or_refuse``."""
    end: Any = object()
    while (item := read_or_refuse(lambda: next(items, end), path, form)) is not end:
        yield item


def listed(names: Collection[str]) -> str:
    """Up to ten names, and how many more there are."""
    shown = list(names)[:10]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
