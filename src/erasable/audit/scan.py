"""Looking for remains of rows in every file below a folder.

**What is looked for.** Each row's bytes as float32 and float64, little endian, and its integers on the grid of every
model found in the folder and on the default grid; its id and subject as text, and the texts and numbers that tell it.

**What counts as a remain.** A whole row in any of these encodings, at any offset. *A part of a row*: at least 64
neighbouring bytes of one with at least eight different entries that are not zero, unless a stored row under another id
has the same entries in these columns. A text is found as a whole word: the bytes before and after it are no ASCII
letter, digit, underscore or hyphen; one of fewer than eight bytes only where the eight bytes on both sides are text.
A number is none that goes on behind a point: 21564611 does not stand in 21564611.5, nor in 0.21564611.

**Files of this package** are read by their own account: ids and subjects are compared one by one, whatever their
length, and stored rows as wholes. A stored row that equals a row looked for, under an id that is not looked for, is a
*twin* and no remain. All else in such a file is searched like any other file, and so are the texts of its header:
classes, names of features, descriptions. Rows that went through a feature map are of another form than the table's,
unless it is a schema that is known: then rows are looked for as it encodes them, and long texts of a row like ids.

**Parquet files** are decoded where pyarrow is installed. Where a file has columns of the names that were given, its
rows are compared in these; otherwise all its columns of numbers, side by side, are searched like any other bytes.
Columns of texts, bytes, and integers that are no features, are searched for ids and subjects like text. A row under an
id that is not looked for is a twin here too, where the column of ids is known. What a Parquet file stores as it is,
statistics for instance, is searched once more as bytes.

**What is not found.** Rows in other compressed, encrypted or archived files, and in lists and structs of Parquet files
(those known by their first bytes are listed, and only their outer bytes searched); numbers in other spellings than
those given; other number types, byte orders or column orders; integer ids as binary numbers, ids in other encodings
(UTF-16, URL escapes) or run together with other letters; parts shorter than 64 bytes, or whose bytes are too even (yes-
or-no features, small integers: such rows are found whole) or shared by more than four of the rows; rows that are nearly
all zero, or one number over and over, outside of models and of Parquet files with the same columns (these are counted);
sums, weights and whatever else was computed from a row; and what is no file: free space of the disk, memory, swap,
names of files that were deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy.typing as npt

from erasable.audit._report import Remain, ScanReport, Unread
from erasable.audit._run import Progress, Run
from erasable.audit._wanted import Wanted
from erasable.audit._words import Key

__all__ = ["Remain", "ScanReport", "Unread", "scan"]


def scan(
    folder: str | os.PathLike[str],
    X: npt.NDArray[Any],
    *,
    ids: Sequence[Key] | npt.NDArray[Any] | None = None,
    subjects: Sequence[Any] | npt.NDArray[Any] | None = None,
    skip: Sequence[str | os.PathLike[str]] = (),
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
    feature_names: Sequence[str] | None = None,
    id_name: str | None = None,
    subject_name: str | Sequence[str] | None = None,
    feature_map: str | None = None,
    cells: Iterable[tuple[int, str]] = (),
    numbers: Iterable[tuple[int, str]] = (),
) -> ScanReport:
    r"""What is left of rows in the files below a folder, hidden and temporary ones included.

    Parameters
    ----------
    folder : str or path
        Links in it are not followed. A single file will do too.
    X : array of shape (n_rows, n_features), float32 or float64, finite
        The rows, as they were learnt.
    ids : sequence of n_rows ids, optional
        Without them, a stored twin cannot be told from the row itself and counts as a remain.
    subjects : sequence of n_rows subjects, or lists of them, optional
        To be given only when nothing of these subjects should be left: all their rows count, not only those of ``X``.
    skip : paths
        Files not to look into, such as the table that the rows came from.
    exclude : glob patterns
        Names, or paths below the folder, not to look into.
    progress : callable, optional
        Called with (bytes done, bytes in all).
    feature_names : sequence of n_features names, optional
        The columns of ``X``. Parquet files that have them are compared in these columns, whatever stands between them.
    id_name, subject_name : str, optional
        The columns of ids and of subjects, the latter also several, in Parquet files: compared whatever their length,
        and with ids a row of another id is known to be a twin.
    feature_map : str, optional
        The map that ``X`` went through, as the headers of models describe it: they are the ones that hold such rows.
    cells : iterable of (row, text)
        Other texts that tell a row, such as names and addresses: looked for like ids.
    numbers : iterable of (row, text)
        Numbers that tell a row, in every spelling that is to be found.

    Returns
    -------
    ScanReport

    Raises
    ------
    InputError, InputTypeError
        When there is no such folder, or the rows cannot be used.

    Notes
    -----
    *Cost*: O(bytes) for every two million numbers of ``X``, which are looked for in one pass over the files. Memory for
    the tables of one pass, some hundred MB at most, and for a block of 8 MiB.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from erasable.audit.scan import scan
    >>> X = np.random.default_rng(0).standard_normal((3, 10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = pathlib.Path(folder, ".leftover").write_bytes(b"\0" * 5 + X[2].tobytes())
    ...     report = scan(folder, X, ids=["ann-1", "bob-1", "cy-1"])
    >>> report.remains
    (Remain(file='.leftover', offset=5, length=80, what='float64 row', row=2),)
    """
    wanted = Wanted.of(X, ids, subjects, feature_names, {"id": id_name, "subject": subject_name}, feature_map)
    wanted = wanted.telling(cells, numbers)
    return Run(wanted, folder, skip, exclude, progress).report()
