"""Tables of any format, from files and pipes, block by block.

What a path or pipe is, :mod:`erasable.tables.sources` decides.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, BinaryIO, Self
from weakref import WeakSet

from erasable.errors import ConfigurationError, InputError
from erasable.models.row_source import RowSource
from erasable.schemas import EncodingReport, Schema
from erasable.tables.columns import Roles, check_kinds
from erasable.tables.encoding import kinds_by, roles_by
from erasable.tables.opening import Dialect
from erasable.tables.reading import Source, block_rows
from erasable.tables.sources import nameless_form, open_source
from erasable.tables.table import Table
from erasable.tables.targets import Targets, check_targets
from erasable.validation import whole_number

NAMELESS = "a schema is for tables whose columns have names: CSV, Parquet or Arrow."
_RAW_ROW_BYTES = 256  # about what a row of cells takes as they are


class TableStream(RowSource):
    """A table in blocks, each a ``Table``: what ``stream_table`` gives. A file can be gone through again, a pipe once.

    Attributes
    ----------
    name : str
    n_rows : int or None
        How many rows there are, where that is known: for Parquet and .npz at once, for text after ``count_rows`` or
        the first pass, never for a pipe.
    n_features : int
    feature_names : tuple of str, or None
        The names of the columns that are features, where the format has names.
    typed : bool
        Whether the format says what labels, ids and subjects are; in CSV text all is text, and ``kinds`` says it.
    unused : tuple of str
        Columns that were left alone although nobody said so with ``ignore``, since ``features`` does not name them.
    encoding : EncodingReport or None
        With a schema: what became of the cells of the rows that were read.
    """

    def __init__(self, source: Source, block_bytes: int, targets: Sequence[str] = ()) -> None:
        self._source, self._block_bytes = source, block_bytes
        self.name, self.feature_names, self.typed = source.name, source.feature_names, source.typed
        self.unused = source.unused
        self._targets = Targets.of(source.feature_names, targets) if targets else None
        if self._targets is not None:
            self.feature_names = self._targets.feature_names
        self._running: WeakSet[Generator[Table, None, None]] = WeakSet()
        self._spent = self._closed = False
        self.encoding: EncodingReport | None = None

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return self._source.n_features if self._targets is None else len(self._targets.rest)

    @property
    def once(self) -> bool:  # type: ignore[override]
        """Whether the rows can be gone through but once: those of a pipe."""
        return bool(self._source.once)

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]
        """How many rows there are, where that is known without reading them; see ``count_rows``."""
        return self._source.n_rows

    def count_rows(self) -> int | None:
        """How many rows there are, counted by going through the file where need be; None for a pipe."""
        self._check_open()
        return self._source.count_rows()

    def __iter__(self) -> Iterator[Table]:
        return self._begun(self._block_bytes)

    def read(self) -> Table:
        """All rows in one table."""
        (table,) = self._begun(None)
        return table

    def _begun(self, block_bytes: int | None) -> Generator[Table, None, None]:
        self._check_open()
        if self._spent:
            raise InputError("a pipe can be read only once, and this one has been: save the rows to a file first.")
        self._spent = self._source.once
        blocks = self._blocks(block_bytes)
        self._running.add(blocks)
        return blocks

    def _blocks(self, block_bytes: int | None) -> Generator[Table, None, None]:
        seen = EncodingReport(0)
        for block in self._source.blocks(block_bytes):
            report = getattr(block.X, "report", None)
            if report is not None:
                seen += report
                if self.encoding is None or seen.n_rows > self.encoding.n_rows:  # a pass may have ended early
                    self.encoding = seen
            yield block if self._targets is None else self._targets.split(block)

    def parts(self) -> list[RowSource] | None:
        """The rows in parts that can be sent and read elsewhere: row groups of Parquet, files of CSV, else None.

        The files must be there under the same paths.
        """
        self._check_open()
        parts = self._source.parts()
        if parts is None:
            return None
        streams = [copy(self) for _ in parts]
        for stream, part in zip(streams, parts, strict=True):
            stream._source, stream._running = part, WeakSet()
        return [*streams]

    def awaited(self) -> list[Any]:
        """What of this part waits on a cluster, and has to be handed in with ``filled`` where the part is read."""
        return self._source.awaited()

    def filled(self, values: Sequence[Any]) -> TableStream:
        """The same part, with what it awaits."""
        stream = copy(self)
        stream._source, stream._running = self._source.filled(values), WeakSet()
        return stream

    def note_encoding(self, report: EncodingReport) -> None:
        """Note how workers encoded the cells of the rows."""
        self.encoding = report

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_running": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._running = WeakSet()

    def raw(self) -> Any:
        """The cells of all rows as they are, those of text as text: an Arrow table. For ``stream_table(raw=True)``."""
        self._check_open()
        (table,) = self._source.raw(None)
        return table

    def raw_blocks(self) -> Iterator[Any]:
        """The same in blocks, one of which is held at a time."""
        self._check_open()
        return self._source.raw(block_rows(self._block_bytes, _RAW_ROW_BYTES))

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
        return f"<TableStream {self.name!r}>"


def stream_table(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | BinaryIO,
    *,
    label: str | None = "label",
    id: str | None = None,
    subject: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    labelled: bool = True,
    kinds: Mapping[str, type] | None = None,
    n_features: int | None = None,
    weight: str | None = None,
    dialect: Dialect | None = None,
    targets: Sequence[str] = (),
    schema: Schema | None = None,
    raw: bool = False,
    block_bytes: int = 2**24,
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

    Several files of CSV or of Parquet are one table: a list of paths, or a pattern such as ``"visits-*.csv.gz"``. Rows
    come in the order of the list, and those of a pattern in the order of the paths as text (``part-10`` before
    ``part-2``). Columns must have the same names, in any order, and types that do not change between files.

    Parameters
    ----------
    source : str, path, list of these, binary file object, or Arrow data
        A file or several, a pattern, a folder of Parquet files, a URL of Parquet files as fsspec knows them, ``"-"``
        for the standard input, an object with ``read``, a table or a reader of record batches of pyarrow, or a Dask
        dataframe.
    label : str, default="label"
        The column of labels: integers, strings, booleans or floats.
    id : str, optional
        The column that names every row: integers or strings. That they are distinct is checked by ``fit``.
    subject : str or sequence of str, optional
        The column that says whose row it is: integers or strings, may be missing in some rows; in Parquet and Arrow
        also lists of these. Of several columns, a row belongs to all whom it names in any of them.
    features : sequence of str, optional
        The columns to take, in this order; all others are left alone, whatever they hold. By default all columns that
        have no other role.
    ignore : sequence of str
        Columns that are left alone, whatever they hold.
    labelled : bool, default=True
        Whether there must be labels. Otherwise ``label`` may be None or name a column that is not there, and ``y`` of
        the table is then None. Arrays ``y`` of .npz files and labels of SVMlight text always become ``y``.
    kinds : mapping, optional
        What the cells of CSV text stand for, where the caller knows: ``{"label": int, "id": str, "subject": str}`` or
        a part of it. Other formats have types of their own.
    n_features : int, optional
        The number of features of SVMlight text, where some may be zero in all rows.
    weight : str, optional
        The column that says how much each row counts: numbers, none missing.
    dialect : Dialect, optional
        How CSV text is written: what stands between cells and before decimals, and in which encoding. With decimal
        commas, a cell that may hold anything is read with a point where it is a number as a whole, such as ``1,5``.
    targets : sequence of str
        Columns of numbers that are to be predicted, none missing, in place of a label: they become ``y``, of shape
        (n_rows,) for one and (n_rows, n_targets) for several. Files without names of columns have theirs in ``y``.
    schema : Schema, optional
        Encodes the columns that it names, which may hold anything; rows of blocks are then an ``EncodedTable``. It also
        says which columns have which role; those that are named here must agree. Targets beyond the range that it
        declares are counted in ``encoding`` and, of ``labelled`` tables, clipped. For CSV, Parquet and Arrow.
    raw : bool, default=False
        For ``TableStream.raw``, which hands on columns of any kind.
    block_bytes : int, default=16 MiB
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
    >>> text = b"name,age,weight,ill\nann,41,80.5,no\nbob,52,71,yes\ncy,39,66,no\n"
    >>> with stream_table(io.BytesIO(text), label="ill", id="name", block_bytes=300) as stream:
    ...     for block in stream:
    ...         block
    <Table 'standard input': 2 rows × 2 features, dense float64, with ids>
    <Table 'standard input': 1 rows × 2 features, dense float64, with ids>
    >>> with stream_table(io.BytesIO(text), labelled=False, features=("weight", "age")) as stream:
    ...     stream.read().X.tolist()
    [[80.5, 41.0], [71.0, 52.0], [66.0, 39.0]]
    """
    if schema is not None and nameless_form(source) is not None:
        raise ConfigurationError(NAMELESS)
    if targets:
        subjects = (subject,) if subject is None or isinstance(subject, str) else subject
        targets = check_targets(targets, (id, *subjects, weight, *ignore, *(features or ())))
    if targets and schema is None:
        label, labelled, features = None, False, None if features is None else (*features, *targets)
    known = check_kinds(kinds)
    roles = Roles(label, id, subject, features, labelled and schema is None, ignore, weight, raw=raw)
    if schema is not None:
        roles, known = replace(roles, target=tuple(targets)), kinds_by(schema, known)
        roles, targets = roles_by(schema, roles, labelled=labelled), ()
    size = whole_number(block_bytes, "block_bytes")
    width = None if n_features is None else whole_number(n_features, "n_features")
    return TableStream(open_source(source, roles, known, width, dialect), size, targets)
