"""Tables of any format, whole; and those that are divided into rows to train and to test with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from erasable.errors import ConfigurationError
from erasable.schemas import Schema
from erasable.tables.columns import Roles
from erasable.tables.npz import is_half_of_split, read_split
from erasable.tables.opening import Dialect
from erasable.tables.reading import as_path
from erasable.tables.stream import NAMELESS, stream_table
from erasable.tables.table import Split, Table


def load_table(
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
) -> Table:
    r"""The table in a CSV, Parquet, NumPy or SVMlight file, whole.

    ========================= ==========================================================================================
    ``.csv``, ``.parquet``    one column per feature, and those named here; needs ``pip install 'erasable[tables]'``
    ``.npz`` with arrays      ``X`` and ``y``; if there are, ``ids``, ``weights`` and ``subjects``, which may have two
                              dimensions: so many subjects of a row, among which some may repeat or be empty texts
    ``.npz`` of ``save_npz``  sparse rows; ``y`` and these in ``NAME_labels.npz`` beside ``NAME.npz``
    ``.svmlight``, ``.txt``   label, then ``index:value``; ``subject="qid"`` takes the query ids as subjects
    ========================= ==========================================================================================

    CSV and SVMlight files may be compressed (``.gz``, ``.bz2``, ``.zst``). Features are numbers or booleans, all there
    and finite. In a CSV the first line holds the names of columns; labels, ids and subjects are integers when all of
    them are written like integers, so ``007`` stays text, and an empty cell is a missing one. ``stream_table`` reads
    files that are larger than memory.

    Parameters
    ----------
    source : str, path, list of these, or binary file object
        The file; its ending says what it is. Or several, or a pipe, as in ``stream_table``.
    label, id, subject, features, ignore, labelled, kinds, n_features, weight, dialect, targets, schema
        As in ``stream_table``.

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
    ...     load_table(file, labelled=False, features=["age", "weight"])
    <Table 'visits': 3 rows × 2 features, dense float64, with subjects>
    <Table 'visits': 3 rows × 2 features, dense float64, without labels>
    """
    with stream_table(
        source,
        label=label,
        id=id,
        subject=subject,
        features=features,
        ignore=ignore,
        labelled=labelled,
        kinds=kinds,
        n_features=n_features,
        weight=weight,
        dialect=dialect,
        targets=targets,
        schema=schema,
    ) as stream:
        return stream.read()


def load_split(
    path: str | os.PathLike[str],
    *,
    label: str | None = "label",
    id: str | None = None,
    subject: str | Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    schema: Schema | None = None,
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
    label, id, subject, ignore, schema
        As in ``load_table``.
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
        table = load_table(file, label=label, id=id, subject=subject, ignore=ignore, schema=schema)
        return table.split(test_size, random_state, in_order=in_order)
    if schema is not None:
        raise ConfigurationError(NAMELESS)
    if Roles(label, id, subject, ignore=ignore) != Roles("label"):
        raise ConfigurationError(
            "label, id, subject and ignore name columns, which .npz files do not have: store arrays y_train, "
            "ids_train, subject_train and so on in the labels file."
        )
    return read_split(file)
