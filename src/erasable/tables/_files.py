"""Tables from the caller's own files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from erasable.errors import ConfigurationError
from erasable.tables._arrow import read_csv, read_parquet
from erasable.tables._npz import is_half_of_split, read_npz, read_split
from erasable.tables._reading import as_path, existing_file
from erasable.tables._roles import Roles
from erasable.tables._svmlight import read_svmlight
from erasable.tables._table import Split, Table

_PACKED = (".gz", ".bz2")
SVMLIGHT = (".svmlight", ".libsvm", ".txt")
_FORMS = ".csv, .parquet, .npz, .svmlight, .libsvm, .txt (text also with .gz or .bz2)"


def load_table(
    path: str | os.PathLike[str],
    *,
    label: str = "label",
    id: str | None = None,
    subject: str | None = None,
    ignore: Sequence[str] = (),
) -> Table:
    r"""The table in a CSV, Parquet, NumPy or SVMlight file.

    ========================= ==========================================================================================
    ``.csv``, ``.parquet``    one column per feature, and those named here; needs ``pip install 'erasable[tables]'``
    ``.npz`` with arrays      ``X`` and ``y``; if there are, ``ids`` and ``subjects``
    ``.npz`` of ``save_npz``  sparse rows; ``y``, ``ids`` and ``subjects`` in ``NAME_labels.npz`` beside ``NAME.npz``
    ``.svmlight``, ``.txt``   label, then ``index:value``; ``subject="qid"`` takes the query ids as subjects
    ========================= ==========================================================================================

    CSV and SVMlight files may be compressed (``.gz``, ``.bz2``). Features are numbers or booleans, all there and
    finite. In a CSV the first line holds the names of columns; labels, ids and subjects are integers when all of them
    are written like integers, so ``007`` stays text, and an empty cell is a missing one. ``stream_table`` reads files
    that are larger than memory, ``load_rows`` rows without labels.

    Parameters
    ----------
    path : str or path
        The file; its ending says what it is.
    label : str, default="label"
        The column of labels: integers, strings, booleans or floats.
    id : str, optional
        The column that names every row: integers or strings. That they are distinct is checked by ``fit``.
    subject : str, optional
        The column that says whose row it is: integers or strings, may be missing in some rows.
    ignore : sequence of str
        Columns that are left alone, whatever they hold.

    Returns
    -------
    Table
        float32 rows where that holds all numbers of the file's types, else float64. Nothing is fitted here; what was
        fitted before the file was written, the caller has to know.

    Raises
    ------
    InputError, InputTypeError
        When the file is not there or damaged, when a column is missing or not numeric, or an entry is.
    ConfigurationError
        When the format is unknown or has no such columns, or pyarrow is needed and missing.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from erasable.tables import load_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "visits.csv")
    ...     size = file.write_text("age,weight,ill,patient\n41,80.5,no,ann\n52,71,yes,bob\n39,66,no,ann\n")
    ...     load_table(file, label="ill", subject="patient")
    <Table 'visits': 3 rows × 2 features, dense float64, with subjects>
    """
    file = as_path(path)
    form, name = form_of(file)
    roles = Roles(label, id, subject, ignore=ignore)
    check_nameless(form, roles)
    existing_file(file)
    if form == ".npz":
        return read_npz(file)
    if form in SVMLIGHT:
        return read_svmlight(file, name, subjects=subject is not None)
    return (read_csv if form == ".csv" else read_parquet)(file, name, roles)


def check_nameless(form: str, roles: Roles) -> None:
    """Refuse names of columns where a format has none."""
    unnamed = roles.label in ("label", None) and roles.id is None and roles.features is None and not roles.ignore
    if form == ".npz" and not (unnamed and roles.subject is None):
        raise ConfigurationError(
            "label, id, subject and ignore name columns, which an .npz file does not have: store arrays y, ids and "
            "subjects."
        )
    if form in SVMLIGHT and not (unnamed and roles.subject in (None, "qid")):
        raise ConfigurationError(
            f"{form} files have no named columns: leave label, id and ignore out; subject may be 'qid', the query ids."
        )


def form_of(path: Path) -> tuple[str, str]:
    """The ending that says what the file is, and its name without endings."""
    packed = path.suffix in _PACKED  # in lower case: readers unpack by it
    inner = Path(path.stem) if packed else Path(path.name)
    form = inner.suffix.lower()
    if form not in (".csv", *SVMLIGHT, *(() if packed else (".parquet", ".npz"))):
        raise ConfigurationError(f"{path.name} has an ending that is not known here: known are {_FORMS}.")
    return form, inner.stem


def load_split(
    path: str | os.PathLike[str],
    *,
    label: str = "label",
    id: str | None = None,
    subject: str | None = None,
    ignore: Sequence[str] = (),
    test_size: float = 0.2,
    random_state: int = 0,
    in_order: bool = False,
) -> Split:
    """Rows to train and to test with: as the files divide them, or divided here by a seed.

    ``NAME_train.npz`` stands for three files in one folder: it and ``NAME_test.npz`` hold sparse rows as
    ``scipy.sparse.save_npz`` writes them, and ``NAME_labels.npz`` the arrays ``y_train``, ``y_test`` and, if there are,
    ``subject_train``, ``subject_test``, ``ids_train``, ``ids_test``. Every other file is read by ``load_table``.

    Parameters
    ----------
    path : str or path
        The file.
    label, id, subject : str, optional
        As in ``load_table``.
    ignore : sequence of str
        Columns that are left alone, whatever they hold.
    test_size : float or int, default=0.2
        The share or number of rows to test with, where the files are not divided already.
    random_state : int, default=0
        The seed of that division.
    in_order : bool, default=False
        Leave the rows of each side in the order of the file instead of shuffling them.

    Raises
    ------
    ConfigurationError, InputError, InputTypeError
        As ``load_table``; also when one of the three files is missing.

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
        return load_table(file, label=label, id=id, subject=subject, ignore=ignore).split(
            test_size, random_state, in_order=in_order
        )
    if Roles(label, id, subject, ignore=ignore) != Roles("label"):
        raise ConfigurationError(
            "label, id, subject and ignore name columns, which .npz files do not have: store arrays y_train, "
            "ids_train, subject_train and so on in the labels file."
        )
    return read_split(file)
