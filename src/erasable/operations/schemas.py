"""Schemas at work: drafted from a table, held against one, looked up in a model and in its file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from erasable.errors import ConfigurationError, InputError
from erasable.models.files import read_model
from erasable.models.model import Model
from erasable.schemas import Draft, EncodingReport, Schema, draft_schema
from erasable.schemas.draft import draft_from
from erasable.schemas.schema import MISSING_SPELLINGS
from erasable.schemas.statistics import TableStatistics
from erasable.tables import Dialect, TableStream, stream_table
from erasable.tables.reading import listed

_FIRST = 5  # rows that are shown
_READ = ("label", "target", "id", "subject", "weight")


def schema_of(model: Model) -> Schema | None:
    """The schema of a model, or None."""
    found = getattr(model, "feature_map", None)
    return found if isinstance(found, Schema) else None


def agreed_schema(model: Model, asked: Schema | None) -> Schema | None:
    """The schema of a model; a different one in the request is refused.

    Raises ConfigurationError.
    """
    own = schema_of(model)
    if asked is not None and asked != own:
        known = "it was made without one" if own is None else "it knows its own"
        raise ConfigurationError(
            f"schema= differs from that of the model, and {known}: leave it out; erasable inspect --schema shows "
            "that of a model."
        )
    return own


def stored_schema(path: str | os.PathLike[str]) -> Schema:
    """The schema in a model file.

    Raises ConfigurationError when the model was made without one.
    """
    schema = schema_of(read_model(path)[0])
    if schema is None:
        raise ConfigurationError(f"{os.fspath(path)} holds a model that was made without a schema.")
    return schema


def draft_table(source: Any, *, dialect: Dialect | None = None, crosses: int | None = None, **options: Any) -> Draft:
    r"""A schema drafted from the rows of a file or pipe; options are those of ``erasable.schemas.draft_schema``.

    A file is read three times: for columns, for crosses, and for moments and class shares. A pipe gets the first only.
    Without ``crosses``, a few that help are suggested in comments; with 0, none are looked for.

    Examples
    --------
    >>> import io
    >>> from erasable.operations.schemas import draft_table
    >>> rows = "".join(f"{n % 90},{'Bern' if n % 3 else 'Oslo'},{n % 2}\n" for n in range(300))
    >>> draft = draft_table(io.BytesIO(b"age,town,ill\n" + rows.encode()), label="ill")
    >>> draft.schema.feature_names_out()[-3:]
    ['town=Bern', 'town=Oslo', 'town=(others)']
    """
    with _raw_stream(source, dialect, _columns_in(options)) as stream:
        if stream.once and crosses:
            raise ConfigurationError("crosses are measured on rows that are read again: give a file, not a pipe.")
        draft = draft_schema(iter(stream.raw_blocks()), **options)
        if stream.once:
            return draft
        if crosses is None:
            draft = draft.with_suggestions(stream.raw_blocks())
        elif crosses > 0:
            draft = draft.with_crosses(stream.raw_blocks(), crosses)
        return draft.with_selection(stream.raw_blocks())


def _columns_in(options: Mapping[str, Any]) -> list[str]:
    """The columns that the options of a draft name."""
    single = [options.get(role) for role in ("label", "id", "weight")]
    several = [options.get(role) or () for role in ("target", "subject", "ignore")]
    groups = [[name] if isinstance(name, str) else name for name in (*(s or () for s in single), *several)]
    return [name for names in groups for name in names]


def _raw_stream(source: Any, dialect: Dialect | None, known: Sequence[str] = ()) -> TableStream:
    return stream_table(source, label=None, labelled=False, raw=True, dialect=dialect, known=known)


def raw_table(source: Any, dialect: Dialect | None = None, known: Sequence[str] = ()) -> Any:
    """All cells of a CSV, Parquet or Arrow table, unchanged: an Arrow table; ``known`` as in ``stream_table``."""
    with _raw_stream(source, dialect, known) as stream:
        return stream.raw()


def names_of(source: Any, dialect: Dialect | None = None, known: Sequence[str] = ()) -> tuple[str, ...]:
    """The names of all columns of a table; ``known`` as in ``stream_table``."""
    with _raw_stream(source, dialect, known) as stream:
        return stream.feature_names or ()


def check_names(schema: Schema, source: Any, *, dialect: Dialect | None = None) -> None:
    """Refuse a schema that was drafted from another table where this one lacks its columns.

    Raises InputError.
    """
    names = names_of(source, dialect, [column.name for column in schema.columns])
    absent = [repr(c.name) for c in schema.columns if c.name not in names]
    if absent:
        raise InputError(f"the table lacks {len(absent)} columns that the public one has: {listed(absent)}.")


def write_schema(
    schema: Schema | Draft, out: str | os.PathLike[str], *, head: str = "", data: Sequence[Any] = ()
) -> None:
    """Write a schema, or a draft with its comments, to a file; an existing file is replaced only if it is a schema.

    Raises ConfigurationError when the file is one of ``data``, or holds something else.
    """
    for path in data:
        if path is not None and os.path.exists(path) and os.path.exists(out) and os.path.samefile(path, out):
            raise ConfigurationError(
                f"{os.fspath(out)} is read here, and a draft would replace it: choose another name."
            )
    if os.path.isfile(out):  # a pipe is written to: reading it would wait for a writer
        try:
            Schema.load(out)
        except ConfigurationError:
            raise ConfigurationError(
                f"{os.fspath(out)} exists and is no schema, and a draft would replace it: choose another name."
            ) from None
    schema.save(out, head=head)


@dataclass(frozen=True)
class ColumnSummary:
    """A column of a table, as it was read."""

    name: str
    holds: str  # the type of its cells; for texts also what all of them can be read as
    # How many different cells there are, by their canonical texts; for lists of numbers, how many different lengths.
    # None for columns that cannot be features.
    different: int | None
    missing: int  # cells that are missing, by the default spellings
    kind: str  # the kind that a draft would give the column; empty where there are too few rows for one
    cells: tuple[str, ...]  # the first cells


def summarize_table(source: Any, *, k: int = 20, dialect: Dialect | None = None) -> list[ColumnSummary]:
    """A summary of each column of a table; it shows cells of rows, and stores nothing."""
    first, nulls = list[Any](), Counter[str]()

    def noted(blocks: Iterator[Any]) -> Iterator[Any]:
        for block in blocks:
            first.extend([] if first else [block.slice(0, _FIRST)])
            nulls.update({name: block.column(name).null_count for name in block.column_names})
            yield block

    with _raw_stream(source, dialect) as stream:
        statistics = TableStatistics(noted(stream.raw_blocks()), {}, lambda name: False, MISSING_SPELLINGS)
    if not statistics.n_rows:
        raise InputError("there are no rows to look at.")
    kinds: dict[str, str] = {}
    with suppress(InputError, ConfigurationError):  # too few rows, or no column that becomes a feature
        columns = draft_from(statistics, {}, k=k).schema.columns
        kinds = {c.name: getattr(c, "KIND", None) or f"({c.role})" for c in columns}  # type: ignore[union-attr]
    summaries = []
    for name in statistics.names:
        column = first[0].column(name)
        cells = tuple("" if cell is None else str(cell) for cell in column.to_pylist())
        holds = str(column.type).partition("<")[0]
        if name in statistics and (read_as := statistics.read_as(name)):
            holds = f"{holds}: {read_as}"
        different, missing = statistics.counts(name) if name in statistics else (None, nulls[name])
        summaries.append(ColumnSummary(name, holds, different, missing, kinds.get(name, ""), cells))
    return summaries


@dataclass(frozen=True)
class TableCheck:
    """How a table fits a schema."""

    # How many cells would be missing, unknown, unparsable or clipped, and which columns the schema does not name.
    report: EncodingReport
    absent: tuple[str, ...]  # columns with a role that the table lacks: learning needs them, predicting does not


def check_table(
    schema: Schema,
    source: Any,
    *,
    dialect: Dialect | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> TableCheck:
    r"""Check that a table fits a schema, and count what would become of its cells; read in blocks.

    Raises InputError or InputTypeError when it does not fit: columns are missing, hold cells that their kind cannot be
    read from, or labels are none of the classes.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from erasable.operations.schemas import check_table
    >>> from erasable.schemas import Category, Schema
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "towns.csv")
    ...     size = file.write_text("town,age\nBern,1\nRome,2\n")
    ...     print(check_table(Schema([Category(name="town", values=["Bern"])]), file).report)
    2 rows
    town: 1 unknown
    ignored, not in the schema: age
    """
    if source == "-":
        raise ConfigurationError("the table is opened twice, which standard input cannot be: give a file.")
    names = names_of(source, dialect, [column.name for column in schema.columns])
    roles = [(role, name) for role in _READ for name in schema.names_of(role)]
    there = {role: [name for r, name in roles if r == role and name in names] for role in _READ}
    done = 0
    with stream_table(
        source,
        label=next(iter(there["label"]), None),
        targets=there["target"] if len(there["target"]) == len(schema.names_of("target")) else (),
        id=next(iter(there["id"]), None),
        subject=there["subject"] if len(there["subject"]) == len(schema.names_of("subject")) else None,
        weight=next(iter(there["weight"]), None),
        labelled=False,
        schema=schema,
        dialect=dialect,
    ) as stream:
        for block in stream:
            done += len(block)
            if progress is not None:
                progress(done, stream.n_rows)
        report = stream.encoding
    assert report is not None  # a table without rows is refused
    return TableCheck(report, tuple(name for role, name in roles if name not in there[role]))
