"""Schemas at work: drafted from a table, held against one, looked up in a model and in its file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from erasable.errors import ConfigurationError, InputError
from erasable.models.files import read_model
from erasable.models.model import Model
from erasable.schemas import (
    Draft,
    EncodingReport,
    Schema,
    draft_blocks,
    draft_gathered,
    gathered_blocks,
)
from erasable.tables import Dialect, TableStream, stream_table
from erasable.tables.reading import listed

_FIRST = 5  # rows that are shown
_READ = ("label", "target", "id", "subject", "weight")


def schema_of(model: Model) -> Schema | None:
    """The schema that a model was made with, where it has one."""
    found = getattr(model, "feature_map", None)
    return found if isinstance(found, Schema) else None


def agreed_schema(model: Model, asked: Schema | None) -> Schema | None:
    """The schema of a model; refused where another one was asked for.

    Raises
    ------
    ConfigurationError
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

    Raises
    ------
    ConfigurationError
        When the model was made without one.
    """
    schema = schema_of(read_model(path)[0])
    if schema is None:
        raise ConfigurationError(f"{os.fspath(path)} holds a model that was made without a schema.")
    return schema


def draft_table(source: Any, *, dialect: Dialect | None = None, **options: Any) -> Draft:
    r"""A schema drafted from the rows of a file or pipe; options are those of ``erasable.schemas.draft_schema``.

    Examples
    --------
    >>> import io
    >>> from erasable.operations.schemas import draft_table
    >>> rows = "".join(f"{n % 90},{'Bern' if n % 3 else 'Oslo'},{n % 2}\n" for n in range(300))
    >>> draft = draft_table(io.BytesIO(b"age,town,ill\n" + rows.encode()), label="ill")
    >>> draft.schema.feature_names_out()[-3:]
    ['town=Bern', 'town=Oslo', 'town=(others)']
    """
    with _raw_stream(source, dialect) as stream:
        return draft_blocks(stream.raw_blocks(), **options)


def _raw_stream(source: Any, dialect: Dialect | None) -> TableStream:
    return stream_table(source, label=None, labelled=False, raw=True, dialect=dialect)


def raw_table(source: Any, dialect: Dialect | None = None) -> Any:
    """All cells of a CSV, Parquet or Arrow table as they are: an Arrow table."""
    with _raw_stream(source, dialect) as stream:
        return stream.raw()


def check_names(schema: Schema, source: Any, *, dialect: Dialect | None = None) -> None:
    """Refuse a schema of another table where this one lacks its columns.

    Raises
    ------
    InputError
    """
    names = names_of(source, dialect)
    absent = [repr(c.name) for c in schema.columns if c.name not in names]
    if absent:
        raise InputError(f"the table lacks {len(absent)} columns that the public one has: {listed(absent)}.")


def names_of(source: Any, dialect: Dialect | None = None) -> tuple[str, ...]:
    """The names of all columns of a table."""
    with _raw_stream(source, dialect) as stream:
        return stream.feature_names or ()


def write_schema(schema: Schema, out: str | os.PathLike[str], *, head: str, data: Sequence[Any] = ()) -> None:
    """Write a schema to a file; one that is there is replaced if it is a schema, and no other.

    Raises
    ------
    ConfigurationError
        When the file is one that was read, or holds something else.
    """
    for path in data:
        if path is not None and os.path.exists(path) and os.path.exists(out) and os.path.samefile(path, out):
            raise ConfigurationError(
                f"{os.fspath(out)} is read here, and a draft would replace it: choose another name."
            )
    if os.path.isfile(out):  # a pipe is written to, and reading it would wait for a writer
        try:
            Schema.load(out)
        except ConfigurationError:
            raise ConfigurationError(
                f"{os.fspath(out)} is there and is no schema, and a draft would replace it: choose another name."
            ) from None
    schema.save(out, head=head)


@dataclass(frozen=True)
class LookedAt:
    """A column of a table, as it was read.

    Attributes
    ----------
    name : str
    holds : str
        The type of its cells; those of CSV are text, and what all of them can be read as is said too.
    different : int or None
        How many different cells there are, by their canonical texts; of lists of numbers, how many different lengths.
        None of columns that can be no features.
    missing : int
        Cells that are missing, by the spellings that a schema has unless it says otherwise.
    kind : str
        What a draft would make of the column; empty where there are too few rows for one.
    cells : tuple of str
        The first ones.
    """

    name: str
    holds: str
    different: int | None
    missing: int
    kind: str
    cells: tuple[str, ...]


def look_at(source: Any, *, k: int = 20, dialect: Dialect | None = None) -> list[LookedAt]:
    """A first look at the columns of a table; it shows cells of rows, and stores nothing."""
    first, nulls = list[Any](), Counter[str]()

    def noted(blocks: Iterator[Any]) -> Iterator[Any]:
        for block in blocks:
            first.extend([] if first else [block.slice(0, _FIRST)])
            nulls.update({name: block.column(name).null_count for name in block.column_names})
            yield block

    with _raw_stream(source, dialect) as stream:
        gathered = gathered_blocks(noted(stream.raw_blocks()), everything=True)
    if not gathered.n_rows:
        raise InputError("there are no rows to look at.")
    kinds: dict[str, str] = {}
    with suppress(InputError, ConfigurationError):  # too few rows, or no column that says anything
        columns = draft_gathered(gathered, k=k).schema.columns
        kinds = {c.name: getattr(c, "KIND", None) or f"({c.role})" for c in columns}  # type: ignore[union-attr]
    looked = []
    for name in gathered.names:
        column = first[0].column(name)
        cells = tuple("" if cell is None else str(cell) for cell in column.to_pylist())
        holds = str(column.type).partition("<")[0]
        if name in gathered and (read_as := gathered.read_as(name)):
            holds = f"{holds}: {read_as}"
        different, missing = gathered.counts(name) if name in gathered else (None, nulls[name])
        looked.append(LookedAt(name, holds, different, missing, kinds.get(name, ""), cells))
    return looked


@dataclass(frozen=True)
class Fit:
    """How a table fits a schema.

    Attributes
    ----------
    report : EncodingReport
        How many cells would be missing, unknown, unparsable or clipped, and which columns the schema does not name.
    absent : tuple of str
        Columns with a role that the table does not have: one to learn needs them, one to predict does not.
    """

    report: EncodingReport
    absent: tuple[str, ...]


def check_table(
    schema: Schema,
    source: Any,
    *,
    dialect: Dialect | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Fit:
    r"""Whether a table fits a schema, and what would become of its cells; read in blocks.

    Raises
    ------
    InputError, InputTypeError
        When it does not: columns are missing, hold what their kind cannot be read from, or labels are none of the
        classes.

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
    passed over, not in the schema: age
    """
    if source == "-":
        raise ConfigurationError("the table is opened twice, which standard input cannot be: give a file.")
    names = names_of(source, dialect)
    roles = [(role, name) for role in _READ for name in schema.having(role)]
    there = {role: [name for r, name in roles if r == role and name in names] for role in _READ}
    done = 0
    with stream_table(
        source,
        label=next(iter(there["label"]), None),
        targets=there["target"] if len(there["target"]) == len(schema.having("target")) else (),
        id=next(iter(there["id"]), None),
        subject=there["subject"] if len(there["subject"]) == len(schema.having("subject")) else None,
        weight=next(iter(there["weight"]), None),
        labelled=False,
        schema=schema,
        dialect=dialect,
    ) as stream:
        for block in stream:
            done += block.n_rows
            if progress is not None:
                progress(done, stream.n_rows)
        report = stream.encoding
    assert report is not None  # a table without rows is refused
    return Fit(report, tuple(name for role, name in roles if name not in there[role]))
