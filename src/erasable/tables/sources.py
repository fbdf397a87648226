"""Which ``Source`` a path, several paths or a pipe is: decided here, and nowhere else."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from erasable.errors import ConfigurationError, InputError
from erasable.tables import csv_text
from erasable.tables.arrow_columns import ArrowBatches, ArrowPipe, ParquetSource
from erasable.tables.collections import FrameSource, is_dask_frame
from erasable.tables.columns import Kinds, Roles
from erasable.tables.csv_text import CsvSource
from erasable.tables.joined import JoinedSource, files_of, is_arrow, is_pipe
from erasable.tables.npz import NpzSource
from erasable.tables.opening import PACKED, Dialect, in_utf8, looked_ahead
from erasable.tables.reading import Source, as_path, existing_file, read_or_refuse
from erasable.tables.remote import RemoteFile
from erasable.tables.svmlight import SvmlightSource

_SVMLIGHT = (".svmlight", ".libsvm", ".txt")
_FORMS = ".csv, .parquet, .npz, .svmlight, .libsvm, .txt (text also with .gz, .bz2 or .zst)"
_MANY = (".csv", ".parquet")  # with names of columns, so that several files can be one table
_PIPE = Path("standard input")
_DIALECT = "sep=, encoding=, decimal=, thousands=, header= and columns="
_NOT_PIPED = {
    b"PAR1": "Parquet, which is read from its end: give the path of a file",
    b"ARRO": "an Arrow file, which is read from its end: write the streaming format of Arrow",
    b"\x1f\x8b": "gzip data: unpack it on the way, as in zcat FILE",
    b"BZh": "bzip2 data: unpack it on the way, as in bzcat FILE",
    b"\x28\xb5\x2f\xfd": "zstd data: unpack it on the way, as in zstdcat FILE",
    b"PK\x03\x04": "an archive, such as .npz: give the path of a file",
}


def nameless_form(source: Any) -> str | None:
    """``"npz"`` or ``"svmlight"`` for a file whose columns have no names; None otherwise."""
    files = files_of(source)
    form = _form_of(files[0])[0] if files else ""
    return "npz" if form == ".npz" else "svmlight" if form in _SVMLIGHT else None


def _form_of(path: Path) -> tuple[str, str]:
    """The ending that says what the file is, and its name without endings."""
    packed = path.suffix in PACKED  # in lower case: readers unpack by it
    inner = Path(path.stem) if packed else Path(path.name)
    form = inner.suffix.lower()
    if form not in (".csv", *_SVMLIGHT, *(() if packed else (".parquet", ".npz"))):
        raise ConfigurationError(f"{path.name} has an ending that is not known here: known are {_FORMS}.")
    return form, inner.stem


def open_source(source: Any, roles: Roles, kinds: Kinds, n_features: int | None, dialect: Dialect | None) -> Source:
    """The source that a path or pipe is, or several paths are."""
    if is_pipe(source):
        if n_features is not None:
            raise ConfigurationError("n_features is for SVMlight files: CSV and Arrow have a column for each feature.")
        if is_arrow(source) or is_dask_frame(source):
            if dialect is not None:
                raise ConfigurationError(f"{_DIALECT} are for CSV, and this is none: leave them out.")
            if is_arrow(source):
                return ArrowBatches(source, Path("Arrow data"), roles)
            return FrameSource(source, Path("Dask dataframe"), roles)
        pipe = source if hasattr(source, "read") else getattr(sys.stdin, "buffer", sys.stdin)
        return _opened_pipe(pipe, roles, kinds, dialect)

    def opened(path: Path, features: Sequence[str] | None) -> Source:
        return _opened_file(
            path, roles if features is None else replace(roles, features=features), kinds, n_features, dialect
        )

    if not isinstance(source, str | os.PathLike | Iterable):
        as_path(source)  # refuses it
    files = files_of(source)
    if len(files) == 1:
        return opened(files[0], None)
    forms = {_form_of(file)[0] for file in files}
    if len(forms) > 1 or not forms <= {*_MANY}:
        raise ConfigurationError(
            f"several files are one table where all are .csv or all .parquet; these are {', '.join(sorted(forms))}."
        )
    return JoinedSource(files, opened)


def _opened_file(path: Path, roles: Roles, kinds: Kinds, n_features: int | None, dialect: Dialect | None) -> Source:
    form, name = _form_of(path)
    _check_nameless(form, roles)
    if n_features is not None and form not in _SVMLIGHT:
        raise ConfigurationError(f"n_features is for SVMlight files: {path.name} says itself how many there are.")
    if dialect is not None and form != ".csv":
        raise ConfigurationError(f"{_DIALECT} are for CSV, and {path.name} is none: leave them out.")
    if not isinstance(path, RemoteFile):
        existing_file(path)
    if form == ".npz":
        return NpzSource(path, labelled=roles.labelled)
    if form in _SVMLIGHT:
        return SvmlightSource(path, name, subjects=roles.subject is not None, n_features=n_features)
    if form == ".csv":
        return CsvSource(path, name, roles, kinds, dialect or Dialect())
    return ParquetSource(path, name, roles)


def _check_nameless(form: str, roles: Roles) -> None:
    """Refuse names of columns where a format has none."""
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


def _opened_pipe(pipe: Any, roles: Roles, kinds: Kinds, dialect: Dialect | None) -> Source:
    if isinstance(pipe, io.TextIOBase):
        raise InputError("source must be a binary file object: open it with mode 'rb'.")
    # As many bytes as pyarrow looks at together.
    head, stream = read_or_refuse(lambda: looked_ahead(pipe, csv_text.TEXT_BLOCK), _PIPE, "bytes")
    if not head.strip():
        raise InputError("standard input is empty: pipe CSV text or an Arrow stream into it.")
    for magic, what in _NOT_PIPED.items():
        if head.startswith(magic):
            raise InputError(f"standard input holds {what}.")
    if head.startswith(b"\xff\xff\xff\xff"):
        if dialect is not None:
            raise ConfigurationError(f"{_DIALECT} are for CSV, and this is an Arrow stream.")
        return ArrowPipe(stream, _PIPE, roles)
    dialect = dialect or Dialect()
    text = in_utf8(stream, dialect.encoding, _PIPE.name)
    return CsvSource(_PIPE, _PIPE.name, roles, kinds, dialect, pipe=text)
