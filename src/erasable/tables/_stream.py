"""Tables larger than memory, block by block, from files and pipes."""

from __future__ import annotations

import io
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, Self, TypeVar, cast
from weakref import WeakSet

from erasable.errors import ConfigurationError, InputError
from erasable.tables._arrow_stream import TEXT_BLOCK, ArrowPipe, CsvPipe, CsvSource, ParquetSource
from erasable.tables._checks import check_count
from erasable.tables._files import SVMLIGHT, check_nameless, form_of
from erasable.tables._npz_stream import npz_source
from erasable.tables._reading import as_path, existing_file, read_or_refuse
from erasable.tables._roles import Kinds, Roles, check_kinds
from erasable.tables._rows import Rows, joined
from erasable.tables._source import Source
from erasable.tables._svmlight import SvmlightSource
from erasable.tables._table import Table

BLOCK_BYTES = 2**26
_PIPE = Path("standard input")
_NOT_PIPED = {
    b"PAR1": "Parquet, which is read from its end: give the path of a file",
    b"ARRO": "an Arrow file, which is read from its end: write the streaming format of Arrow",
    b"\x1f\x8b": "gzip data: unpack it on the way, as in zcat FILE",
    b"BZh": "bzip2 data: unpack it on the way, as in bzcat FILE",
    b"PK\x03\x04": "an archive, such as .npz: give the path of a file",
}
Block = TypeVar("Block", Table, Rows)


class _Stream(ABC, Generic[Block]):
    """Blocks of a source; a file can be gone through again, a pipe only once."""

    def __init__(self, source: Source, name: str) -> None:
        self._source, self.name = source, name
        self._running: WeakSet[Generator[Block, None, None]] = WeakSet()
        self._spent = self._closed = False

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return self._source.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the columns that are features, where the format has names."""
        return self._source.feature_names

    @property
    def typed(self) -> bool:
        """Whether the format says what labels, ids and subjects are; in CSV text all is text, and ``kinds`` says it."""
        return self._source.typed

    @property
    def n_rows(self) -> int | None:
        """How many rows there are, where that is known without reading them; see ``count_rows``."""
        return self._source.n_rows

    def count_rows(self) -> int | None:
        """How many rows there are, counted by going through the file where need be; None for a pipe."""
        self._check_open()
        return self._source.count_rows()

    def __iter__(self) -> Iterator[Block]:
        self._check_open()
        if self._spent:
            raise InputError("a pipe can be read only once, and this one has been: save the rows to a file first.")
        self._spent = self._source.once
        blocks = self._blocks()
        self._running.add(blocks)
        return blocks

    def _blocks(self) -> Generator[Block, None, None]:
        for rows in self._source.blocks():
            yield self._made_of(rows)

    @abstractmethod
    def _made_of(self, rows: Rows) -> Block:
        """A block of the kind that this stream gives."""

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this stream is closed: open the file again.")

    def close(self) -> None:
        """Close what is open; a file object that was handed in stays open."""
        self._closed = True
        for blocks in list(self._running):
            blocks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class TableStream(_Stream[Table]):
    """A table in blocks, each a ``Table``: what ``stream_table`` gives.

    Attributes
    ----------
    n_rows : int or None
        How many rows there are, where that is known: for Parquet and .npz at once, for text after ``count_rows`` or
        the first pass, never for a pipe.
    n_features : int
    feature_names : tuple of str, or None
    """

    def _made_of(self, rows: Rows) -> Table:
        return rows.table()


class RowStream(_Stream[Rows]):
    """Rows in blocks, each a ``Rows``: what ``stream_rows`` gives. Attributes as those of ``TableStream``."""

    def _made_of(self, rows: Rows) -> Rows:
        return rows


def stream_table(
    source: str | os.PathLike[str] | BinaryIO,
    *,
    label: str = "label",
    id: str | None = None,
    subject: str | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, type] | None = None,
    n_features: int | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> TableStream:
    r"""The table in a file or pipe, block by block: what ``load_table`` reads, with one block in memory at a time.

    ==================== ===============================================================================================
    ``.parquet``         read a page of each column at a time (up to some 3 MB for each), whatever its row groups
    ``.csv``             read twice, unless ``kinds`` says what labels, ids and subjects are: they are integers only
                         when all of them are written so. Only they are looked at the first time
    ``.npz``             dense rows are unpacked block by block, compressed or not; ``y``, ``ids`` and ``subjects`` are
                         read whole, and so are sparse rows and those stored column by column (Fortran order)
    ``.svmlight``        read twice: how many features there are shows only at the end
    ``"-"``, file object CSV text or an Arrow IPC stream, told apart by their first bytes, read once
    ==================== ===============================================================================================

    Blocks put together are the table that ``load_table`` gives, whatever their size. The types of all columns are the
    same in every block. In CSV text from a pipe the first block settles the types of labels, ids and subjects, and a
    later one that contradicts is refused.

    Parameters
    ----------
    source : str, path or binary file object
        A file, ``"-"`` for the standard input, or an object with ``read``.
    label, id, subject : str
        Names of columns, as in ``load_table``.
    ignore : sequence of str
        Columns that are left alone, whatever they hold.
    kinds : mapping, optional
        What the cells of CSV text stand for, where the caller knows: ``{"label": int, "id": str, "subject": str}`` or
        a part of it. Other formats have types of their own.
    n_features : int, optional
        The number of features of SVMlight text, where some may be zero in all rows.
    block_bytes : int, default=64 MiB
        About how large the rows of a block are. In all, some three times as much is in memory, and pages of Parquet.

    Returns
    -------
    TableStream
        To be iterated, and closed; ``with`` does that.

    Raises
    ------
    InputError, InputTypeError, ConfigurationError
        As ``load_table``, here or when the block is read that cannot be used.

    Examples
    --------
    >>> import io
    >>> from erasable.tables import stream_table
    >>> pipe = io.BytesIO(b"age,weight,ill\n41,80.5,no\n52,71,yes\n39,66,no\n")
    >>> with stream_table(pipe, label="ill", block_bytes=300) as stream:
    ...     for block in stream:
    ...         block
    <Table 'standard input': 3 rows × 2 features, dense float64>
    """
    roles = Roles(label, id, subject, ignore=ignore)
    opened, name = _open(source, roles, kinds, n_features, block_bytes)
    return TableStream(opened, name)


def stream_rows(
    source: str | os.PathLike[str] | BinaryIO,
    *,
    label: str | None = None,
    id: str | None = None,
    subject: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, type] | None = None,
    n_features: int | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> RowStream:
    r"""Rows that may have no labels, block by block, as ``stream_table`` reads a table.

    Parameters
    ----------
    source
        As in ``stream_table``.
    label : str, optional
        A column of labels. Where it is there it becomes ``y``, otherwise ``y`` is None. Arrays ``y`` of .npz files and
        labels of SVMlight text always become ``y``.
    id, subject : str, optional
        Columns that have to be there when they are named.
    features : sequence of str, optional
        The columns to take, in this order; all others are left alone, whatever they hold. By default all columns that
        have no other role.
    ignore : sequence of str
        Columns that are left alone, where ``features`` does not say which to take.
    kinds, n_features, block_bytes
        As in ``stream_table``.

    Examples
    --------
    >>> import io
    >>> from erasable.tables import stream_rows
    >>> pipe = io.BytesIO(b"name,weight,age\nann,80.5,41\nbob,71,52\n")
    >>> [block.X.tolist() for block in stream_rows(pipe, features=("age", "weight"))]
    [[[41.0, 80.5], [52.0, 71.0]]]
    """
    roles = Roles(label, id, subject, features, labelled=False, ignore=ignore)
    opened, name = _open(source, roles, kinds, n_features, block_bytes)
    return RowStream(opened, name)


def load_rows(
    source: str | os.PathLike[str] | BinaryIO,
    *,
    label: str | None = None,
    id: str | None = None,
    subject: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, type] | None = None,
    n_features: int | None = None,
) -> Rows:
    r"""Rows that may have no labels, all at once: to predict, or to look for their remains.

    Parameters
    ----------
    source, label, id, subject, features, ignore, kinds, n_features
        As in ``stream_rows``.

    Returns
    -------
    Rows

    Examples
    --------
    >>> import io
    >>> from erasable.tables import load_rows
    >>> load_rows(io.BytesIO(b"age,weight\n41,80.5\n52,71\n"))
    <Rows 'standard input': 2 rows × 2 features, dense float64>
    """
    with stream_rows(
        source,
        label=label,
        id=id,
        subject=subject,
        features=features,
        ignore=ignore,
        kinds=kinds,
        n_features=n_features,
    ) as stream:
        return joined(list(stream))


def _open(
    source: Any, roles: Roles, kinds: Mapping[str, type] | None, n_features: int | None, block_bytes: int
) -> tuple[Source, str]:
    """The source that a path or pipe is, and its name."""
    known, size = check_kinds(kinds), check_count(block_bytes, "block_bytes")
    width = None if n_features is None else check_count(n_features, "n_features")
    if source == "-" or hasattr(source, "read"):
        if width is not None:
            raise ConfigurationError("n_features is for SVMlight files: CSV and Arrow have a column for each feature.")
        pipe = getattr(sys.stdin, "buffer", sys.stdin) if source == "-" else source
        return _open_pipe(cast(BinaryIO, pipe), roles, known, size), _PIPE.name
    path = as_path(source)
    form, name = form_of(path)
    check_nameless(form, roles)
    if width is not None and form not in SVMLIGHT:
        raise ConfigurationError(f"n_features is for SVMlight files: {path.name} says itself how many there are.")
    existing_file(path)
    if form == ".npz":
        return npz_source(path, size, labelled=roles.labelled), path.stem
    if form in SVMLIGHT:
        return SvmlightSource(path, name, size, subjects=roles.subject is not None, n_features=width), name
    if form == ".csv":
        return CsvSource(path, name, roles, size, known), name
    return ParquetSource(path, name, roles, size), name


def _open_pipe(pipe: BinaryIO, roles: Roles, kinds: Kinds, block_bytes: int) -> Source:
    if isinstance(pipe, io.TextIOBase):
        raise InputError("source must be a binary file object: open it with mode 'rb'.")
    head = read_or_refuse(lambda: _first(pipe), _PIPE, "bytes")
    if not head.strip():
        raise InputError("standard input is empty: pipe CSV text or an Arrow stream into it.")
    for magic, what in _NOT_PIPED.items():
        if head.startswith(magic):
            raise InputError(f"standard input holds {what}.")
    if head.startswith(b"\xff\xff\xff\xff"):
        return ArrowPipe(head, pipe, _PIPE, roles, block_bytes)
    return CsvPipe(head, pipe, _PIPE, roles, block_bytes, kinds)


def _first(pipe: BinaryIO) -> bytes:
    """The first bytes, as many as pyarrow looks at together; a pipe gives them bit by bit."""
    head = bytearray()
    while len(head) < TEXT_BLOCK and (part := pipe.read(TEXT_BLOCK - len(head))):
        head += part
    return bytes(head)
