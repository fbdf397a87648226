"""Open tables: the stream that a path, several paths, a URL, a pipe or data in memory is."""

from __future__ import annotations

import glob
import io
import os
import posixpath
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, BinaryIO, TypeGuard, Unpack

from erasable.errors import ConfigurationError, ErasableError, InputError
from erasable.schemas import Schema
from erasable.tables import csv_stream
from erasable.tables.arrays import NpzStream, SvmlightStream, is_half_of_split, read_split
from erasable.tables.arrow_rows import BatchStream, ParquetStream
from erasable.tables.collections import FrameStream
from erasable.tables.columns import ColumnNames, Kinds, Roles, check_kinds
from erasable.tables.csv_stream import CsvStream
from erasable.tables.reading import JoinedStream, TableStream, as_path, existing_file, read_or_refuse
from erasable.tables.table import Split, Table
from erasable.tables.text import PACKED, Dialect, in_utf8, looked_ahead
from erasable.validation import missing_module, optional_module, whole_number

TableLike = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | BinaryIO
_SVMLIGHT = (".svmlight", ".libsvm", ".txt")
_FORMS = ".csv, .parquet, .npz, .svmlight, .libsvm, .txt (text also with .gz, .bz2 or .zst)"
_MANY = {".csv", ".parquet"}  # with names of columns, so that several files can be one table
_PIPE = Path("standard input")
_DIALECT = "sep=, encoding=, decimal=, thousands=, header= and columns="
_NAMELESS = "a schema is for tables whose columns have names: CSV, Parquet or Arrow."
_NOT_PIPED = {
    b"PAR1": "Parquet, which is read from its end: give the path of a file",
    b"ARRO": "an Arrow file, which is read from its end: write the streaming format of Arrow",
    b"\x1f\x8b": "gzip data: unpack it on the way, as in zcat FILE",
    b"BZh": "bzip2 data: unpack it on the way, as in bzcat FILE",
    b"\x28\xb5\x2f\xfd": "zstd data: unpack it on the way, as in zstdcat FILE",
    b"PK\x03\x04": "an archive, such as .npz: give the path of a file",
}


def stream_table(
    source: TableLike,
    *,
    labelled: bool = True,
    schema: Schema | None = None,
    kinds: Mapping[str, type] | None = None,
    n_features: int | None = None,
    dialect: Dialect | None = None,
    raw: bool = False,
    known: Sequence[str] = (),
    block_bytes: int = 2**24,
    **columns: Unpack[ColumnNames],
) -> TableStream:
    r"""The table in a file or pipe, block by block: what ``load_table`` reads, with one block in memory at a time.

    ==================== ===============================================================================================
    ``.parquet``         read a page of each column at a time (up to some 3 MB for each), whatever its row groups
    ``.csv``             read a mebibyte of text at a time; labels, ids and subjects are texts unless ``kinds`` or the
                         schema states another type
    ``.npz``             dense rows are unpacked block by block, compressed or not; ``y``, ``ids`` and ``subjects`` are
                         read whole, and so are sparse rows and those stored column by column (Fortran order)
    ``.svmlight``        read twice: the number of features is known only at the end
    ``"-"``, file object CSV text or an Arrow IPC stream, recognised by their first bytes, read once
    ==================== ===============================================================================================

    Blocks put together are the table that ``load_table`` returns, whatever their size, with the same types in every
    block.

    Several files of CSV or of Parquet are one table: a list of paths, or a pattern such as ``"visits-*.csv.gz"``, whose
    files are read in the order of ``files_of``. Columns must have the same names, in any order, and the same types.

    Raises InputError, InputTypeError or ConfigurationError as ``load_table``, now or when a block is read that cannot
    be used.

    Parameters
    ----------
    source : str, path, list of these, binary file object, or Arrow data
        A file or several, a pattern, a folder of Parquet files, a URL of Parquet files as fsspec knows them, ``"-"``
        for the standard input, an object with ``read``, a table or a reader of record batches of pyarrow, or a Dask
        dataframe.
    labelled : bool, default=True
        Whether there must be labels. Otherwise ``label`` may be None or name a column that does not exist, and ``y`` is
        then None. Arrays ``y`` of .npz files and labels of SVMlight text always become ``y``.
    schema : Schema, optional
        Encodes the columns that it names, which may hold anything; ``X`` of a block is then an ``EncodedTable``. It
        also gives columns their roles; those that are named here must agree. Targets beyond the range that it declares
        are counted in ``encoding`` and, in ``labelled`` tables, clipped. For CSV, Parquet and Arrow.
    kinds : mapping, optional
        The types of cells of CSV text: ``{"label": int, "id": str, "subject": str}`` or a part of it. By default they
        are texts, spelt as they stand; labels are integers where all classes of the schema are written so. A cell that
        is not of its type is refused. Other formats have types of their own; in SVMlight text a label that is stated as
        ``int`` must be whole, and otherwise labels are integers where all are.
    n_features : int, optional
        The number of features of SVMlight text, where some may be zero in all rows.
    dialect : Dialect, optional
        How CSV text is written: the characters between cells and before decimals, and the encoding. With decimal
        commas, a cell that may hold anything is read with a point where it is a number as a whole, such as ``1,5``.
    raw : bool, default=False
        For ``TableStream.raw``, which hands on columns of any kind.
    known : sequence of str
        Columns without a role here that the caller knows by name. A first line of CSV that has one of them holds names,
        whatever it looks like.
    block_bytes : int, default=16 MiB
        About how large the rows of a block are. In all, some three times as much is in memory, and pages of Parquet.
    **columns
        Names of columns: see :class:`~erasable.tables.columns.ColumnNames`.

    Returns
    -------
    TableStream
        To be iterated, and closed; ``with`` does that.

    Examples
    --------
    >>> import io
    >>> from erasable.tables import stream_table
    >>> text = b"name,age,weight,ill\nann,41,80.5,no\nbob,52,71,yes\ncy,39,66,no\n"
    >>> with stream_table(io.BytesIO(text), label="ill", id="name", block_bytes=300) as stream:
    ...     for rows in stream:
    ...         rows.ids.tolist(), rows.y.tolist()
    (['ann', 'bob'], ['no', 'yes'])
    (['cy'], ['no'])
    >>> with stream_table(io.BytesIO(text), labelled=False, features=("weight", "age")) as stream:
    ...     stream.read().X.tolist()
    [[80.5, 41.0], [71.0, 52.0], [66.0, 39.0]]
    """
    if schema is not None and nameless_form(source) is not None:
        raise ConfigurationError(_NAMELESS)
    if unknown := sorted(columns.keys() - ColumnNames.__annotations__.keys()):
        raise TypeError(f"stream_table() got an unexpected keyword argument {unknown[0]!r}")
    types, roles = check_kinds(kinds, schema), Roles.of(columns, schema, labelled=labelled, raw=raw, known=known)
    size = whole_number(block_bytes, "block_bytes")
    width = None if n_features is None else whole_number(n_features, "n_features")
    stream = _opened(source, roles, types, width, dialect)
    stream.block_bytes = size
    return stream


def load_table(source: TableLike, **options: Any) -> Table:
    r"""The table in a CSV, Parquet, NumPy or SVMlight file, whole.

    ========================= ==========================================================================================
    ``.csv``, ``.parquet``    one column per feature, and those named here; needs ``pip install 'erasable[tables]'``
    ``.npz`` with arrays      ``X`` and ``y``; optionally ``ids``, ``weights`` and ``subjects``, which may have two
                              dimensions: several subjects of a row, among which some may repeat or be empty texts
    ``.npz`` of ``save_npz``  sparse rows; ``y`` and these in ``NAME_labels.npz`` next to ``NAME.npz``
    ``.svmlight``, ``.txt``   label, then ``index:value``; ``subject="qid"`` takes the query ids as subjects
    ========================= ==========================================================================================

    CSV and SVMlight files may be compressed (``.gz``, ``.bz2``, ``.zst``). Features are numbers or booleans, none
    missing, all finite. In a CSV the first line holds the names of columns; labels, ids and subjects are texts, spelt
    as they stand, unless ``kinds`` states another type, and an empty cell is a missing one. ``stream_table`` reads
    files that are larger than memory.

    Raises InputError or InputTypeError when the file does not exist or is damaged, when a column is missing or not
    numeric, or an entry is. Raises ConfigurationError when the format is unknown or has no such columns, or pyarrow is
    needed and missing.

    Parameters
    ----------
    source : str, path, list of these, or binary file object
        The file; its ending says what it is. Or several, or a pipe, as in ``stream_table``.
    **options
        As in ``stream_table``.

    Returns
    -------
    Table
        float32 rows where that holds all numbers of the file's types, else float64. Nothing is fitted here; what was
        fitted before the file was written, the caller has to know.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from erasable.tables import load_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "visits.csv")
    ...     size = file.write_text("age,weight,ill,patient\n41,80.5,no,ann\n52,71,yes,bob\n39,66,no,ann\n")
    ...     load_table(file, label="ill", subject="patient")
    ...     load_table(file, labelled=False, features=["age", "weight"])
    <Table 'visits': 3 rows × 2 features, dense float64, with subjects>
    <Table 'visits': 3 rows × 2 features, dense float64, without labels>
    """
    with stream_table(source, **options) as stream:
        return stream.read()


def load_split(
    path: str | os.PathLike[str],
    *,
    test_size: float = 0.2,
    random_state: int = 0,
    in_order: bool = False,
    **options: Any,
) -> Split:
    """Rows to train and to test with: as the files divide them, or divided by a seed.

    ``NAME_train.npz`` stands for three files in one folder: it and ``NAME_test.npz`` hold sparse rows as
    ``scipy.sparse.save_npz`` writes them, and ``NAME_labels.npz`` the arrays ``y_train``, ``y_test`` and optionally
    ``subject_train``, ``subject_test``, ``ids_train``, ``ids_test``. Every other file is read by ``load_table``.

    Raises ConfigurationError, InputError or InputTypeError as ``load_table``; also when one of the three files is
    missing.

    Parameters
    ----------
    path : str or path
        The file.
    test_size, random_state, in_order
        As in ``Table.split``, where the files are not divided already.
    **options
        As in ``load_table``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from erasable.tables import load_split
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "points.npz")
    ...     np.savez(file, X=np.eye(10), y=np.arange(10) % 2)
    ...     load_split(file).test
    <Table 'points': 2 rows × 10 features, dense float64>
    """
    file = as_path(path)
    if not is_half_of_split(file):
        return load_table(file, **options).split(test_size, random_state, in_order=in_order)
    if options.get("schema") is not None:
        raise ConfigurationError(_NAMELESS)
    if any(value and value != "label" for value in options.values()):
        raise ConfigurationError(
            "label, id, subject and ignore name columns, which .npz files do not have: store arrays y_train, "
            "ids_train, subject_train and so on in the labels file."
        )
    return read_split(file)


def nameless_form(source: object) -> str | None:
    """``"npz"`` or ``"svmlight"`` for a file whose columns have no names; None otherwise."""
    files = files_of(source)
    form = _form_of(files[0])[0] if files else ""
    return "npz" if form == ".npz" else "svmlight" if form in _SVMLIGHT else None


def files_of(source: object) -> list[Path]:
    """The files that a path, a pattern or a list of these names, in order; none for a pipe.

    Files come in the given order; those that one pattern matches (``*``, ``?``, ``[]``, and ``**`` for folders below)
    sorted by their paths as text, character by character: ``part-10`` before ``part-2``. A path that exists is no
    pattern, whatever it looks like. A folder, or a URL of one, stands for all Parquet files in it and below.

    Raises InputError when a pattern matches nothing, a file comes twice, or there is none.
    """
    if _is_pipe(source):
        return []
    given: list[Any] = [source]
    if isinstance(source, Iterable) and not isinstance(source, str | os.PathLike):
        given = list(source)
    if not given:
        raise InputError("there are no files: name one or more.")
    if any(one == "-" for one in given):
        raise InputError("`-`, the standard input, has to be read alone: save it to a file to read others with it.")
    found = [file for one in given for file in (_remote_files(one) if _is_url(one) else _matched(as_path(one)))]
    twice = len(found) - len({str(f) if isinstance(f, RemoteFile) else os.path.realpath(f) for f in found})
    if twice:
        raise InputError(f"{twice} of {len(found)} files are given twice: name each of them once.")
    return found


# -- which stream ----------------------------------------------------------------------------------------------------


def _is_arrow(source: object) -> bool:
    return hasattr(source, "schema") and (hasattr(source, "to_batches") or hasattr(source, "read_next_batch"))


def _is_dask_frame(source: object) -> bool:
    return hasattr(source, "to_delayed") and hasattr(source, "_meta") and hasattr(source, "columns")


def _is_pipe(source: object) -> bool:
    """Whether rows come from the standard input or an object, and not from files; ``["-"]`` is ``"-"``."""
    if _is_arrow(source) or _is_dask_frame(source) or hasattr(source, "read"):
        return True
    return isinstance(source, str | list | tuple) and source in ("-", ["-"], ("-",))


def _form_of(path: Path) -> tuple[str, str]:
    """The ending that says what the file is, and its name without endings."""
    packed = path.suffix in PACKED  # in lower case: readers unpack by it
    inner = Path(path.stem) if packed else Path(path.name)
    form = inner.suffix.lower()
    if form not in (".csv", *_SVMLIGHT, *(() if packed else (".parquet", ".npz"))):
        raise ConfigurationError(f"{path.name} has an ending that is not known here: known are {_FORMS}.")
    return form, inner.stem


def _opened(source: Any, roles: Roles, kinds: Kinds, n_features: int | None, dialect: Dialect | None) -> TableStream:
    """The stream of a path, several paths, a pipe or data in memory."""
    if _is_pipe(source):
        if n_features is not None:
            raise ConfigurationError("n_features is for SVMlight files: CSV and Arrow have a column for each feature.")
        if not (_is_arrow(source) or _is_dask_frame(source)):
            pipe = source if hasattr(source, "read") else getattr(sys.stdin, "buffer", sys.stdin)
            return _opened_pipe(pipe, roles, kinds, dialect)
        if dialect is not None:
            raise ConfigurationError(f"{_DIALECT} are for CSV, and this is none: leave them out.")
        if _is_arrow(source):
            return BatchStream(source, Path("Arrow data"), roles)
        return FrameStream(source, Path("Dask dataframe"), roles)

    def opened(path: Path, features: Sequence[str] | None) -> TableStream:
        named = roles if features is None else replace(roles, features=features)
        return _opened_file(path, named, kinds, n_features, dialect)

    files = files_of(source)
    if len(files) == 1:
        return opened(files[0], None)
    forms = {_form_of(file)[0] for file in files}
    if len(forms) > 1 or not forms <= _MANY:
        raise ConfigurationError(
            f"several files are one table where all are .csv or all .parquet; these are {', '.join(sorted(forms))}."
        )
    return JoinedStream(files, opened)


def _opened_file(
    path: Path, roles: Roles, kinds: Kinds, n_features: int | None, dialect: Dialect | None
) -> TableStream:
    form, name = _form_of(path)
    _check_nameless(form, roles)
    if n_features is not None and form not in _SVMLIGHT:
        raise ConfigurationError(f"n_features is for SVMlight files: {path.name} says itself how many there are.")
    if dialect is not None and form != ".csv":
        raise ConfigurationError(f"{_DIALECT} are for CSV, and {path.name} is none: leave them out.")
    if not isinstance(path, RemoteFile):
        existing_file(path)
    if form == ".npz":
        return NpzStream(path, labelled=roles.labelled)
    if form in _SVMLIGHT:
        whole = kinds["label"] is int
        return SvmlightStream(path, name, subjects=roles.subject is not None, n_features=n_features, whole_labels=whole)
    if form == ".csv":
        return CsvStream(path, name, roles, kinds, dialect or Dialect())
    return ParquetStream(path, name, roles)


def _check_nameless(form: str, roles: Roles) -> None:
    """Refuse names of columns where a format has none."""
    if roles.target and form not in _MANY:
        raise ConfigurationError(
            "targets name columns, which this kind of file does not have: leave them out, its y are the targets."
        )
    named = roles.id, roles.features, roles.weight
    unnamed = roles.label in ("label", None) and named == (None, None, None) and not roles.ignore
    if form == ".npz" and not (unnamed and roles.subject is None):
        raise ConfigurationError(
            "label, id, subject, weight and ignore name columns, which an .npz file does not have: store arrays y, "
            "ids, subjects and weights."
        )
    if form in _SVMLIGHT and not (unnamed and roles.subject in (None, "qid")):
        raise ConfigurationError(
            f"{form} files have no named columns: leave label, id, weight and ignore out; subject may be "
            "'qid', the query ids."
        )


def _opened_pipe(pipe: Any, roles: Roles, kinds: Kinds, dialect: Dialect | None) -> TableStream:
    if isinstance(pipe, io.TextIOBase):
        raise InputError("source must be a binary file object: open it with mode 'rb'.")
    # As many bytes as pyarrow parses together.
    head, stream = read_or_refuse(lambda: looked_ahead(pipe, csv_stream.TEXT_BLOCK), _PIPE, "bytes")
    if not head.strip():
        raise InputError("standard input is empty: pipe CSV text or an Arrow stream into it.")
    for magic, what in _NOT_PIPED.items():
        if head.startswith(magic):
            raise InputError(f"standard input holds {what}.")
    if head.startswith(b"\xff\xff\xff\xff"):
        if dialect is not None:
            raise ConfigurationError(f"{_DIALECT} are for CSV, and this is an Arrow stream.")
        return BatchStream.of_pipe(stream, _PIPE, roles)
    dialect = dialect or Dialect()
    text = in_utf8(stream, dialect.encoding, _PIPE.name)
    return CsvStream(_PIPE, _PIPE.name, roles, kinds, dialect, pipe=text)


# -- files, folders and URLs     ---------------------------------------------------------------------------------


def _matched(path: Path) -> list[Path]:
    """The file of a path, those that a pattern matches, or the Parquet files below a folder, sorted as text.

    In folders, names that begin with a point or an underscore are passed over, as other readers do.
    """
    if path.is_dir():
        inner = [file.relative_to(path) for file in sorted(path.rglob("*.parquet")) if file.is_file()]
        kept = [file for file in inner if not any(part.startswith(("_", ".")) for part in file.parts)]
        _check_no_columns_in_names([str(file) for file in kept], path.name)
        if not kept:
            raise InputError(f"{path} is a folder without .parquet files: give the path of a file, or a pattern.")
        return [path / file for file in kept]
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if not os.path.isdir(name)]
    if not found:
        raise InputError(f"no file matches {path}: check the pattern.")
    return found


class RemoteFile:
    """A file behind a URL, with the attributes of a path that readers use. It can be sent: it holds only the URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        path = PurePosixPath(url.partition("://")[2])
        self.name, self.suffix, self.stem = path.name, path.suffix, path.stem

    def opened(self) -> BinaryIO:
        """A binary file object, to be closed by the caller."""
        file: BinaryIO = _fsspec().open(self.url, "rb").open()
        return file

    def __str__(self) -> str:
        return self.url


def _fsspec() -> ModuleType:
    """The module fsspec; ConfigurationError if it is not installed."""
    return optional_module("fsspec", "reading from URLs needs fsspec: pip install 'erasable[dask]'.")


def _is_url(source: object) -> TypeGuard[str]:
    return isinstance(source, str) and "://" in source


def _remote_files(url: str) -> list[Any]:
    """The Parquet files that a URL, a pattern or a folder names, sorted by their paths as text."""
    scheme = url.partition("://")[0]
    problem: ErasableError | None = None
    found: list[Any] = []
    try:
        system, path = _fsspec().core.url_to_fs(url)
        if glob.has_magic(path):
            found = system.glob(path)
        elif system.isdir(path):
            below = [name for name in system.find(path) if name.endswith(".parquet")]
            found = [name for name in below if not posixpath.basename(name).startswith(("_", "."))]
            _check_no_columns_in_names([posixpath.relpath(name, path) for name in found], posixpath.basename(path))
        else:
            found = [path] if system.exists(path) else []
    except ErasableError:
        raise
    except ImportError as error:  # fsspec imports the package of a file system when it is first used
        problem = missing_module(error, f"reading from {scheme}:// URLs")
    except Exception as error:  # file systems raise anything
        problem = InputError(
            f"{url} cannot be listed ({type(error).__name__}): check the address, and who may read there."
        )
    if problem is not None:
        raise problem  # outside of the block, where it would carry the original error along
    if not found:
        raise InputError(f"there is no file at {url}: check the address.")
    if not all(name.endswith(".parquet") for name in found):
        raise ConfigurationError("files behind URLs are read where they are .parquet: copy others to this machine.")
    return [RemoteFile(f"{scheme}://{name.lstrip('/') if scheme != 'file' else name}") for name in sorted(found)]


def _check_no_columns_in_names(paths: Sequence[str], folder: str) -> None:
    """Refuse folders that are named like ``year=2024``: other readers of such data sets make a column of them."""
    if any("=" in part for path in paths for part in path.split("/")[:-1]):
        raise InputError(
            f"{folder} has folders named like column=value, which are columns to other readers: name the files by a "
            "pattern instead, such as 'folder/**/*.parquet', and these columns are left out."
        )
