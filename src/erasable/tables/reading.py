"""A table read in blocks, of any format and of several files; and errors of readers, without values they may quote."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar
from weakref import WeakSet

from erasable.errors import ConfigurationError, ErasableError, InputError, InputTypeError
from erasable.models.row_source import Rows, RowSource
from erasable.schemas import EncodingReport
from erasable.tables.table import Table
from erasable.validation import ArrowTable, missing_module, pyarrow

T = TypeVar("T")
_RAW_ROW_BYTES = 256  # about what a row of unread cells takes


class TableStream(RowSource):
    """A table in blocks of ``Rows``: what ``stream_table`` returns. A file can be read again, a pipe only once.

    Attributes
    ----------
    name : str
    n_rows : int or None
        The number of rows, where it is known: for Parquet and .npz at once, for text after ``count_rows``, never for a
        pipe.
    n_features : int
    feature_names : tuple of str, or None
        The names of the columns that are features, where the format has names.
    typed : bool
        Whether the format says what labels, ids and subjects are. CSV text does not: the caller states it, or they are
        texts.
    unused : tuple of str
        Columns that have no role although the caller did not ignore them, since ``features`` does not name them.
    encoding : EncodingReport or None
        With a schema: how the cells of the rows read so far were encoded.
    booleans : frozenset of str
        Features that are booleans.
    families : mapping of str to str
        What features hold that may hold anything, by the types of the format: texts, numbers, ...
    roles : tuple of str
        Those of "label", "id", "subject" and "weight" that a column has.
    """

    name: str
    typed = True
    feature_names: tuple[str, ...] | None = None
    unused: tuple[str, ...] = ()
    encoding: EncodingReport | None = None
    booleans: frozenset[str] = frozenset()
    families: Mapping[str, str] = MappingProxyType({})
    roles: tuple[str, ...] = ()
    block_bytes = 2**24
    _spent = _closed = False
    _running: WeakSet[Generator[Rows, None, None]] | None = None

    # -- what a format has to say ------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def n_features(self) -> int:
        """The number of numbers in a row."""

    @abstractmethod
    def blocks(self, block_bytes: int | None) -> Iterator[Rows]:
        """The rows, at least one, in blocks of about this size, or in one when it is None.

        Whatever is open is closed with the iterator.
        """

    def arrow_tables(self, rows: int | None) -> Iterator[ArrowTable]:
        """The cells as they are, where columns have names, in Arrow tables of so many rows, or in one."""
        raise ConfigurationError(f"{self.name} has no columns with names: give CSV, Parquet or Arrow.")

    def count_rows(self) -> int | None:
        """The number of rows, if need be by reading the file; None for a pipe."""
        return self.n_rows

    def kinds(self) -> dict[str, type]:
        """The types of labels, ids and subjects, by the format or, for CSV, as stated; none of empty columns."""
        return {}

    # -- reading -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Rows]:
        return self._begin(self.block_bytes)

    def read(self) -> Table:
        """All rows in one table."""
        (rows,) = self._begin(None)
        names = None if rows.X.shape[1:] != (len(self.feature_names or ()),) else self.feature_names
        return Table(rows.X, rows.y, rows.ids, rows.subjects, self.name, names, weights=rows.weights)

    def _begin(self, block_bytes: int | None) -> Generator[Rows, None, None]:
        self._check_open()
        if self._spent:
            raise InputError("a pipe can be read only once, and this one has been: save the rows to a file first.")
        self._spent = self.once
        self._running = WeakSet() if self._running is None else self._running
        blocks = self._noted(block_bytes)
        self._running.add(blocks)
        return blocks

    def _noted(self, block_bytes: int | None) -> Generator[Rows, None, None]:
        total = EncodingReport(0)
        for rows in self.blocks(block_bytes):
            report = getattr(rows.X, "report", None)
            if report is not None:
                total += report
                if self.encoding is None or total.n_rows > self.encoding.n_rows:  # an earlier pass may be unfinished
                    self.encoding = total
            yield rows

    def note_encoding(self, report: EncodingReport) -> None:
        """See :class:`~erasable.models.row_source.RowSource`."""
        self.encoding = report

    def raw(self) -> ArrowTable:
        """The cells of all rows as they are, those of text as text, in one Arrow table; for ``raw=True``."""
        self._check_open()
        (table,) = self.arrow_tables(None)
        return table

    def raw_blocks(self) -> Iterator[ArrowTable]:
        """The same in blocks, one in memory at a time."""
        self._check_open()
        return self.arrow_tables(block_rows(self.block_bytes, _RAW_ROW_BYTES))

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this stream is closed: open the file again.")

    def close(self) -> None:
        """Close what is open; a file object that was handed in stays open."""
        self._closed = True
        for blocks in list(self._running or ()):
            blocks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_running": None}

    def __repr__(self) -> str:
        return f"<TableStream {self.name!r}>"


def block_rows(block_bytes: int, row_bytes: int) -> int:
    """The number of rows of a width in a block."""
    return max(1, block_bytes // max(1, row_bytes))


def where_in(path: Path, first: int, n: int) -> str:
    """The name of a block in messages: the rows of the file, counted from one."""
    return f"{path.name}, rows {first + 1:,} to {first + n:,}"


def as_path(path: object) -> Path:
    """A path, from text or a path object."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InputTypeError(f"path must be a string or a path; got {type(path).__name__}.")
    if path == "":
        raise ConfigurationError("a name of a file is empty: give a path, a pattern or a folder.")
    return Path(path)


def existing_file(path: Path) -> Path:
    """The path, if it is that of a file that is not empty."""
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
    """What ``read`` returns; when it fails, an InputError that quotes nothing of the reader's own message.

    Parameters
    ----------
    form : str
        The format that the file was read as.
    hint : str, optional
        The end of the message.
    explain : callable, optional
        From the reader's message to a better error, where it tells what is wrong.
    """
    try:
        return read()
    except ErasableError:
        raise
    except PermissionError:
        problem: ErasableError = InputError(
            f"{path.name} cannot be opened: permission was denied; check who may read it."
        )
    except ImportError as error:  # the file is not at fault
        problem = missing_module(error, f"reading {path.name} as {form}")
    except Exception as error:  # readers of damaged files raise anything
        kind = type(error).__name__
        problem = explain(str(error)) or InputError(
            f"{path.name} cannot be read as {form} ({kind}): it may be cut short, damaged, or of another format.{hint}"
        )
    raise problem  # not raised above, where it would carry the original error, and values with it


def refused_each(items: Iterator[T], path: Path, form: str) -> Iterator[T]:
    """The items; when the reader fails at one, an error as in :func:`read_or_refuse`."""
    end: Any = object()
    while (item := read_or_refuse(lambda: next(items, end), path, form)) is not end:
        yield item


def listed(names: Collection[str]) -> str:
    """Up to ten names, and how many more there are."""
    shown = list(names)[:10]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def compared(found: Collection[str], wanted: Collection[str]) -> str:
    """How names of columns differ from the wanted ones, as the end of a sentence; empty where they do not."""
    missing = [repr(name) for name in wanted if name not in found]
    extra = [repr(name) for name in found if name not in wanted]
    parts = [f"lacks {listed(missing)}"] * bool(missing) + [f"has {listed(extra)} in addition"] * bool(extra)
    return " and ".join(parts)


class JoinedStream(TableStream):
    """Rows of several files with columns of the same names and types, one file after the other.

    ``opened`` makes a stream of a path and the names of its features, or None where they are not known.
    """

    def __init__(self, paths: list[Path], opened: Callable[[Path, Sequence[str] | None], TableStream]) -> None:
        first = opened(paths[0], None)
        names = first.feature_names
        assert names is not None
        self._paths, self._streams = paths, [first]
        for path in paths[1:]:
            stream = opened(path, None)
            self._check_alike(first, stream, paths[0].name, path.name)
            self._streams.append(stream if stream.feature_names == names else opened(path, names))
        self.feature_names, self.unused, self.typed = names, first.unused, first.typed
        self.name = f"{first.name} and {len(paths) - 1} more"
        self._agree = False

    @staticmethod
    def _check_alike(first: TableStream, stream: TableStream, name: str, other: str) -> None:
        """Refuse a file whose columns differ from those of the first."""
        names = first.feature_names or ()
        if difference := compared(stream.feature_names or (), names):
            raise InputError(
                f"{other} {difference}, other than {name}: files that are read as one table need the same columns."
            )
        changed = [repr(one) for one in names if (one in stream.booleans) != (one in first.booleans)]
        if changed:
            raise InputError(
                f"the type of {listed(changed)} changes between files, from numbers to booleans or back: write "
                f"{other} like {name}."
            )
        for column, family in stream.families.items():
            if family != (before := first.families.get(column, family)):
                raise InputError(
                    f"the type of {column!r} changes between files, from {before} in {name} to {family} in "
                    f"{other}: write them alike."
                )
        if stream.roles != first.roles:
            raise InputError(f"{name} and {other} must both have a column of labels, or none of them.")

    @property
    def n_features(self) -> int:
        """The number of numbers in a row."""
        return self._streams[0].n_features

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]
        """The number of rows, where it is known for all files."""
        return _sum([stream.n_rows for stream in self._streams])

    def count_rows(self) -> int | None:
        """The number of rows of all files."""
        return _sum([stream.count_rows() for stream in self._streams])

    def blocks(self, block_bytes: int | None) -> Iterator[Rows]:
        """The blocks of one file after the other, each of rows of one file; or all rows in one."""
        self._check_kinds()
        parts = (block for stream in self._streams for block in stream.blocks(block_bytes))
        if block_bytes is None:
            yield Rows.joined(list(parts))
        else:
            yield from parts

    def parts(self) -> Sequence[RowSource] | None:
        """The parts of one file after the other, where all files come in parts."""
        self._check_kinds()
        found = [stream.parts() for stream in self._streams]
        return None if None in found else [part for parts in found for part in parts or ()]

    def arrow_tables(self, rows: int | None) -> Iterator[ArrowTable]:
        """The cells of one file after the other, with columns in the order of the first."""
        names = list(self.feature_names or ())
        parts = (table.select(names) for stream in self._streams for table in stream.arrow_tables(rows))
        if rows is None:
            yield pyarrow().concat_tables(list(parts), promote_options="permissive")
        else:
            yield from parts

    def _check_kinds(self) -> None:
        """Refuse labels, ids or subjects whose types change between files; checked once."""
        known: dict[str, tuple[type, Path]] = {}
        for path, stream in () if self._agree else zip(self._paths, self._streams, strict=True):
            for role, kind in stream.kinds().items():
                before, where = known.setdefault(role, (kind, path))
                if kind is not before:
                    raise InputError(
                        f"the type of {role}s changes between files: {before.__name__} in {where.name}, "
                        f"{kind.__name__} in {path.name}: write them alike."
                    )
        self._agree = True


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
