"""Look for remains of the rows of a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from erasable.audit.scan import ScanReport, scan
from erasable.core.layout import read_meta
from erasable.errors import ConfigurationError, InputError, StateFormatError
from erasable.models.files import head_of
from erasable.tables import Dialect, Table, files_of, load_table, nameless_form


def scan_for(
    folder: str | os.PathLike[str],
    table_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    label: str | None = "label",
    id: str | None = None,
    subject: str | Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
    dialect: Dialect | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ScanReport:
    r"""What is left, in the files below a folder, of the rows of a table.

    Parameters
    ----------
    folder : str or path
        Every file below it is looked at, hidden ones too; links are not followed.
    table_path : str, path, or list of these
        The rows, as CSV, Parquet, NumPy or SVMlight file; see ``erasable.tables.load_table``. It is not looked into
        itself.
    label : str, optional, default="label"
        The column of labels, which is no feature. It need not be there.
    id : str, optional
        The column of ids. They are looked for as text, and in models one by one; with them, a stored row with the same
        features under another id is told from a remain.
    subject : str or sequence of str, optional
        The column of subjects, or several, to be given when nothing of them should be left.
    ignore : sequence of str
        Columns that are no features, when the models below the folder do not say which are. Where all models that say
        it agree, and the table has these columns, they are taken and no others, whatever is said here.
    exclude : sequence of str
        Glob patterns for names, or for paths below the folder, that are not looked into.
    dialect : Dialect, optional
        How CSV text of the rows is written.
    progress : callable, optional
        Called with (bytes done, bytes in all).

    Returns
    -------
    ScanReport
        See :mod:`erasable.audit.scan` for what is found and what is not.

    Raises
    ------
    InputError, InputTypeError, ConfigurationError
        When the folder or the table is not there or cannot be used.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from erasable.operations.scan import scan_for
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pathlib.Path(folder, "gone.csv")
    ...     size = table.write_text("age,weight,who\n41,80.5,ann-lee\n52,71,bob-ray\n")
    ...     size = pathlib.Path(folder, "service.log").write_text("predicted for bob-ray\n")
    ...     report = scan_for(folder, table, id="who")
    >>> report.clean, report.remains[0].what, report.remains[0].row
    (False, 'id', 1)
    """
    rows = _rows(folder, table_path, {"label": label, "id": id, "subject": subject, "dialect": dialect}, ignore)
    try:
        os.stat(folder)
    except OSError as error:
        raise InputError(f"{os.fspath(folder)!r} cannot be looked through: {error.strerror}.") from None
    X = rows.X if isinstance(rows.X, np.ndarray) else rows.X.toarray()
    return scan(
        folder,
        X,
        ids=rows.ids,
        subjects=rows.subjects,
        skip=files_of(table_path),
        exclude=exclude,
        progress=progress,
        feature_names=rows.feature_names,
        id_name=id,
        subject_name=subject,
    )


def _rows(folder: str | os.PathLike[str], table: Any, given: dict[str, Any], ignore: Sequence[str]) -> Table:
    """The rows of the table, with the features that models below the folder were made with, where they say so."""
    known = {tuple(names) for names in _feature_names(Path(folder))}
    if len(known) == 1 and nameless_form(table) is None:
        with suppress(InputError, ConfigurationError):  # a table of other columns is looked for as it is
            return load_table(table, features=known.pop(), labelled=False, **given)
    return load_table(table, ignore=ignore, labelled=False, **given)


def _feature_names(folder: Path) -> Iterator[list[str]]:
    for path in sorted(folder.rglob("*.erasable")):
        with suppress(OSError, StateFormatError):
            meta = read_meta(head_of(path)[0])
            if isinstance(meta.get("feature_names"), list):
                yield meta["feature_names"]
