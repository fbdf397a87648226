"""Look for remains of the rows of a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from erasable.audit.scan import ScanReport, scan
from erasable.core.layout import read_meta
from erasable.errors import ConfigurationError, InputError, StateFormatError
from erasable.models.feature_maps import describe_map, described_map
from erasable.models.files import head_of
from erasable.operations._telling import telling_cells, telling_numbers
from erasable.operations.schemas import raw_table
from erasable.schemas import Schema
from erasable.tables import Dialect, Table, files_of, load_table, nameless_form, stream_table


def scan_for(
    folder: str | os.PathLike[str],
    table_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    label: str | None = None,
    id: str | None = None,
    subject: str | Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    schema: Schema | str | os.PathLike[str] | None = None,
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
    label : str, optional
        The column of labels, which is no feature. It need not be there. By default "label", or as a schema says.
    id : str, optional
        The column of ids. They are looked for as text, and in models one by one; with them, a stored row with the same
        features under another id is told from a remain.
    subject : str or sequence of str, optional
        The column of subjects, or several, to be given when nothing of them should be left.
    ignore : sequence of str
        Columns that are no features, when the models below the folder do not say which are. Where all models that say
        it agree, and the table has these columns, they are taken and no others, whatever is said here.
    schema : Schema or path, optional
        For a raw table: rows are looked for as it encodes them, and their long texts and numbers as they are. Where all
        models below the folder that have a schema have the same, it is taken.
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
    given = {"label": label, "id": id, "subject": subject, "dialect": dialect}
    rows, encoder = _found(folder, table_path, given, ignore, schema)
    try:
        os.stat(folder)
    except OSError as error:
        raise InputError(f"{os.fspath(folder)!r} cannot be looked through: {error.strerror}.") from None
    X = rows.numbers if isinstance(rows.numbers, np.ndarray) else rows.numbers.toarray()
    told = telling_numbers(X) if encoder is None else telling_cells(encoder, raw_table(table_path, dialect))
    report = scan(
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
        feature_map=None if encoder is None else describe_map(encoder, None),
        cells=told.texts,
        numbers=told.numbers,
    )
    return replace(report, too_short=report.too_short | told.passed_over)


def _found(
    folder: str | os.PathLike[str],
    table: Any,
    given: dict[str, Any],
    ignore: Sequence[str],
    asked: Schema | str | os.PathLike[str] | None,
) -> tuple[Table, Schema | None]:
    """The rows of the table, and the schema that encoded them where there is one for it."""
    schema = _schema(folder, asked)
    if schema is not None:
        # A table of other columns than the models' is looked for as it is.
        unfit = nullcontext() if asked is not None else suppress(InputError, ConfigurationError)
        with unfit, stream_table(table, labelled=False, schema=schema, **given) as stream:
            return stream.read(), schema
    return _rows(folder, table, given, ignore), None


def _schema(folder: str | os.PathLike[str], asked: Schema | str | os.PathLike[str] | None) -> Schema | None:
    """The schema that was asked for, or the one that all models below the folder with a schema have."""
    if asked is not None:
        return asked if isinstance(asked, Schema) else Schema.load(asked)
    found = {meta["feature_map"] for meta in _headers(Path(folder)) if isinstance(meta.get("feature_map"), str)}
    schemas = []
    for text in found:
        with suppress(ConfigurationError, StateFormatError, KeyError, TypeError):
            schemas.append(Schema.parse(described_map(text)["map"]["text"]))
    return schemas[0] if len(schemas) == 1 else None


def _rows(folder: str | os.PathLike[str], table: Any, given: dict[str, Any], ignore: Sequence[str]) -> Table:
    """The rows of the table, with the features that models below the folder were made with, where they say so."""
    given = {**given, "label": given["label"] or "label"}
    known = {tuple(m["feature_names"]) for m in _headers(Path(folder)) if isinstance(m.get("feature_names"), list)}
    if len(known) == 1 and nameless_form(table) is None:
        with suppress(InputError, ConfigurationError):  # a table of other columns is looked for as it is
            return load_table(table, features=known.pop(), labelled=False, **given)
    return load_table(table, ignore=ignore, labelled=False, **given)


def _headers(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*.erasable")):
        with suppress(OSError, StateFormatError):
            yield read_meta(head_of(path)[0])
