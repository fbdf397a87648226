"""Ids and subjects from files: one per line, or one column."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from erasable.core.names import doubt
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.tables.arrow_rows import cells
from erasable.tables.columns import check_keys, fits, plain_array, read_texts
from erasable.tables.csv_stream import is_number, like_a_cell
from erasable.tables.reading import as_path, existing_file, listed, read_or_refuse
from erasable.tables.text import PACKED, in_utf8, open_text
from erasable.validation import did_you_mean, open_parquet

_NAMES = {int: "integers", str: "strings", bytes: "bytes"}
_COLUMNS = (".csv", ".parquet")
_ARRAYS = (".npy", ".npz")
Choose = Callable[[list[str]], str]  # of several columns or arrays, by their names


def read_keys(
    path: str | os.PathLike[str], *, kind: type | None = None, column: str | None = None, trim: bool = False
) -> list[int] | list[str] | list[bytes]:
    r"""Ids or subjects listed in a file.

    ``.csv`` and ``.parquet`` files have one column, or that named by ``column``; the first line of a CSV is its name,
    not a key. ``.npy`` files hold an array, ``.npz`` archives one array, or that named by ``column``. Everything else
    is text in UTF-8, or as a byte order mark says, with one key per line; empty lines are skipped. CSV and text may be
    compressed (``.gz``, ``.bz2``, ``.zst``).

    Refused in text and CSV, since hardly any row has such a name: a space at either end of a key, a control character
    in it, and in text a quote at either end. Give names that really have them in one of the other formats.

    Raises InputError or InputTypeError when the file does not exist or is damaged, when a key is missing, or is not of
    the given kind. Raises ConfigurationError when ``kind`` is another type, or ``column`` is given for a format without
    names.

    Parameters
    ----------
    path : str or path
        The file, or ``"-"`` for text on the standard input.
    kind : int, str or bytes, optional
        What the keys are, as the model has them; bytes are written in hexadecimal digits where the file is text. By
        default keys in text and CSV are strings; other formats have types of their own.
    column : str, optional
        The column, or the array of an archive.
    trim : bool, default=False
        Accept spaces at the ends of keys: for a model whose schema trims its names.

    Returns
    -------
    list
        Of ``int``, ``str`` or ``bytes``, in the order of the file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from erasable.tables import read_keys
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "gone.txt")
    ...     size = file.write_text("17\n4\n\n2001\n")
    ...     read_keys(file), read_keys(file, kind=int)
    (['17', '4', '2001'], [17, 4, 2001])
    """
    if kind not in (None, int, str, bytes):
        raise ConfigurationError("kind must be int, str or bytes.")
    file = Path("standard input") if path == "-" else as_path(path)
    form = _form(file)
    if column is not None and form not in (*_COLUMNS, ".npz"):
        raise ConfigurationError(f"column names a column or array, which {file.name} does not have: leave it out.")
    if path != "-":
        existing_file(file)
    values = _keys_in(file, form, column, piped=path == "-")
    return _as_kind(values, kind, file, text=form not in (*_ARRAYS, ".parquet"), trim=trim)


def _keys_in(file: Path, form: str, column: str | None, *, piped: bool) -> list[Any]:
    """The keys in a file, as its format has them."""
    choose = partial(_chosen, file, column, "array" if form in _ARRAYS else "column")
    if form in _ARRAYS:
        values: list[Any] = read_or_refuse(lambda: _array(file, choose), file, "an array of ids or subjects")
    elif form in _COLUMNS:
        values = (_parquet_column if form == ".parquet" else _csv_column)(file, choose)
    else:
        values = read_or_refuse(lambda: _lines(file, piped=piped), file, "text in UTF-8, one key per line")
        _refuse_doubtful(["a quote at one end" if '"' in (key[0], key[-1]) else None for key in values], file)
    return values


def _form(path: Path) -> str:
    inner = path.with_suffix("") if path.suffix in PACKED else path
    form = inner.suffix.lower()
    if inner is not path and form in (*_ARRAYS, ".parquet"):
        raise ConfigurationError(f"{path.name} is compressed: unpack it; only text is read so.")
    return form


def _lines(path: Path, *, piped: bool) -> list[str]:
    with in_utf8(sys.stdin.buffer, None, path.name) if piped else open_text(path) as text:
        data = text.read()
    # Not splitlines, which would also cut at characters that may stand in a key.
    lines = data.decode().replace("\r\n", "\n").split("\n")
    return [line for line in lines if line]


def _parquet_column(path: Path, choose: Choose) -> list[Any]:
    """The cells of a column of a Parquet file."""

    def read() -> tuple[str, Any]:
        with open_parquet(path) as file:
            which = choose(file.schema_arrow.names)
            return which, file.read(columns=[which])

    which, table = read_or_refuse(read, path, "Parquet")
    return read_or_refuse(lambda: cells(table, which, "id", f"{path.name}, column {which!r}"), path, "text in UTF-8")


def _csv_column(path: Path, choose: Choose) -> list[str]:
    """The cells of a column of a CSV; its first line holds the names.

    Not read by pyarrow, which makes one key of everything after a quote that is not closed.
    """

    def read() -> list[list[str]]:
        with io.TextIOWrapper(open_text(path), encoding="utf-8", newline="") as file:
            return [line for line in csv.reader(file, strict=True) if line]

    names, *lines = read_or_refuse(read, path, "CSV in UTF-8 with every quote closed") or [[]]
    odd = sum(len(line) != len(names) for line in lines)
    if odd:
        raise InputError(
            f"{path.name}: {odd} lines have another number of cells than the first, which holds the names."
        )
    which = choose(names)
    keys = [line[names.index(which)] for line in lines]
    if len(names) == 1 and (is_number(which) or like_a_cell(which, keys)):
        raise InputError(
            f"{path.name}: the first line must hold the name of the column, and looks like a key, which would be left "
            "out. Add the name, or give a .txt file with one key a line."
        )
    return keys


def _chosen(path: Path, wanted: str | None, what: str, names: list[str]) -> str:
    """The column or array of this name, or the only one."""
    if wanted is None and len(names) != 1:
        raise InputError(f"{path.name} has {len(names)} {what}s: name the one to take with column=.")
    which = names[0] if wanted is None else wanted
    if which not in names:
        near = did_you_mean([which], names, "Name one of these with column=.")
        raise InputError(f"{path.name} has no {what} {which!r}; it has {listed([*map(repr, names)])}. {near}")
    if names.count(which) > 1:
        raise InputError(f"{path.name} has {names.count(which)} {what}s {which!r}: name one that exists once.")
    return which


def _array(path: Path, choose: Choose) -> list[Any]:
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            array = loaded
        else:
            with loaded as archive:
                array = np.asarray(archive[choose(list(archive.files))])
    if array.ndim != 1:
        raise InputError(f"{path.name}: the array must have one dimension; it has {array.ndim}.")
    values: list[Any] = plain_array(array, "the array of keys").tolist()
    return values


def _refuse_doubtful(doubts: list[str | None], path: Path) -> None:
    """Refuse keys that hardly any row has; ``doubts`` says what is odd about each, None if nothing is."""
    found = Counter(filter(None, doubts))
    for what, count in found.items():
        raise InputError(
            f"{path.name}: {count} of {len(doubts)} keys have {what}, and hardly any row has such a name: correct the "
            "file, or give .parquet or .npy where the names are really so."
        )


def _as_kind(values: list[Any], kind: type | None, path: Path, *, text: bool, trim: bool) -> list[Any]:
    """The keys, all of one kind; text can be read as any."""
    missing = sum(v is None or (text and not v) for v in values)
    if missing:
        raise InputError(f"{path.name}: {missing} of {len(values)} keys are missing: leave those rows out.")
    if not values:
        return []
    if not text:
        check_keys(plain_array(values, "keys"), path.name, optional=False)
    if text:
        _refuse_doubtful([doubt(key, ("trim",) if trim else ()) for key in values], path)
    if text and kind is not bytes:
        wanted = str if kind is None else kind
        bad = sum(not fits(value, wanted) for value in values)
        if bad:
            raise InputError(
                f"{path.name}: {bad} of {len(values)} keys are no integers, which the model's are: check the file."
            )
        return read_texts(values, wanted)
    if text:
        return read_or_refuse(lambda: [bytes.fromhex(v) for v in values], path, "bytes in hexadecimal digits")
    found = type(values[0])
    if kind not in (None, found):
        raise InputTypeError(
            f"{path.name} holds {_NAMES[found]}, but {_NAMES[kind]} are needed: "
            "store them as such, or as text, one per line."
        )
    return values
