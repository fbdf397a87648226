"""What a reader of a format is, and reading a file without letting through what it holds when that fails."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

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
    unused : tuple of str
        Columns that are neither features nor have a role, where the features were named.
    booleans : frozenset of str
        Features that are booleans.
    held : dict of str to str
        Of features that may hold anything, what they hold by the types of the format: texts, numbers, ...
    roles : tuple of str
        Of "label", "id", "subject" and "weight", those that a column has.
    """

    name: str
    once = False
    typed = True
    n_rows: int | None = None
    feature_names: tuple[str, ...] | None = None
    unused: tuple[str, ...] = ()
    booleans: frozenset[str] = frozenset()
    held: Mapping[str, str] = MappingProxyType({})
    roles: tuple[str, ...] = ()

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

    def parts(self) -> list[Source] | None:
        """The rows in parts that can be sent and read elsewhere, each with its number of rows; None where they cannot.

        Parts put together, in their order, are this source.
        """
        return None

    def awaited(self) -> list[Any]:
        """What of the rows waits on a cluster and is not sent with this; see :mod:`erasable.tables.collections`."""
        return []

    def filled(self, values: Sequence[Any]) -> Source:
        """The same rows, with what is awaited."""
        return self

    def count_rows(self) -> int | None:
        """How many rows there are, if need be by reading the file; None where that is not possible."""
        return self.n_rows

    def kinds(self) -> dict[str, type]:
        """What labels, ids and subjects are, as the format or a look at all rows says; nothing of empty columns."""
        return {}


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
    if path == "":
        raise ConfigurationError("a name of a file is empty: give a path, a pattern or a folder.")
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


def read_or_refuse(
    read: Callable[[], T],
    path: Path,
    form: str,
    hint: str = "",
    explain: Callable[[str], ErasableError | None] = lambda text: None,
) -> T:
    """What ``read`` gives; when it fails, an error without the entries that the reader's own message may quote.

    Parameters
    ----------
    read : callable
    path : Path
    form : str
        What the file was taken for.
    hint : str, optional
        Ends the message.
    explain : callable, optional
        From the reader's message to a better error, where it tells what is wrong.

    Raises
    ------
    InputError
    """
    try:
        return read()
    except ErasableError:
        raise
    except PermissionError:
        problem: ErasableError = InputError(
            f"{path.name} cannot be opened: permission was denied; check who may read it."
        )
    except Exception as error:  # readers of damaged files raise anything
        kind = type(error).__name__
        problem = explain(str(error)) or InputError(
            f"{path.name} cannot be read as {form} ({kind}): it may be cut short, damaged, or of another format.{hint}"
        )
    raise problem  # here and not above, where it would carry the original, and with it values, along


def refused_each(items: Iterator[T], path: Path, form: str) -> Iterator[T]:
    """The items; when the reader fails at one, an error as in ``read_or_refuse``."""
    end: Any = object()
    while (item := read_or_refuse(lambda: next(items, end), path, form)) is not end:
        yield item


def listed(names: Collection[str]) -> str:
    """Up to ten names, and how many more there are."""
    shown = list(names)[:10]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def compared(found: Collection[str], wanted: Collection[str]) -> str:
    """How names of columns differ from those that are wanted, as the end of a sentence; empty where they do not."""
    missing = [repr(name) for name in wanted if name not in found]
    extra = [repr(name) for name in found if name not in wanted]
    parts = [f"lacks {listed(missing)}"] * bool(missing) + [f"has {listed(extra)} beside"] * bool(extra)
    return " and ".join(parts)
