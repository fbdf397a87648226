"""``erasable schema``: drafts of public schemas, a look at tables, and whether a table fits."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from erasable.cli._shared import (
    Bars,
    CsvOptions,
    IgnoredColumns,
    Json,
    console,
    dialect_words,
    encoding_as_json,
    print_json,
    say,
    show_encoding,
    text_table,
)
from erasable.errors import ConfigurationError

if TYPE_CHECKING:
    from erasable.schemas import Draft
    from erasable.tables import Dialect

_MOST_COLUMNS, _MOST_ENTRIES = 10, 8  # whose margins are shown


@dataclass(frozen=True)
class DraftOptions:
    """What a draft is made from, and where it is written."""

    PANEL: ClassVar = "The draft"
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The schema file to write, such as schema.toml.", readable=False)
    ] = None
    label: Annotated[str | None, typer.Option(help="Column of the labels.")] = None
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of numbers to predict, instead of labels. Repeat the option for several.", metavar="COLUMN"
        ),
    ] = None
    id: Annotated[str | None, typer.Option(help="Column of the row ids.")] = None
    subject: Annotated[
        list[str] | None,
        typer.Option(
            help="Column that names whose row it is; repeat it for rows of several people. [default: one per row]",
            metavar="COLUMN",
        ),
    ] = None
    weight: Annotated[str | None, typer.Option(help="Column of the weights of rows.")] = None
    ignore: IgnoredColumns = None
    k: Annotated[
        int, typer.Option("--k", min=1, help="Leave out of the draft whatever fewer subjects than this have.")
    ] = 20
    crosses: Annotated[
        int | None,
        typer.Option(
            "--crosses",
            min=0,
            help="Add the N crosses, pairs of columns, that help most on a sample of the rows. Only the names of their "
            "columns go into the draft. [default: suggest three in comments]",
            metavar="N",
        ),
    ] = None
    from_public: Annotated[
        Path | None,
        typer.Option(
            help="Draft from this public table instead; of `data` only the names of columns are read.",
            readable=False,
        ),
    ] = None

    @property
    def roles(self) -> dict[str, Any]:
        """The columns by their roles, as ``draft_table`` takes them."""
        several = {"target": self.target, "subject": self.subject, "ignore": self.ignore}
        return {"label": self.label, "id": self.id, "weight": self.weight} | {n: v or () for n, v in several.items()}

    def refuse_any(self) -> None:
        """Raise ConfigurationError if an option was given that only a draft has."""
        options = {f"--{role}": column for role, column in self.roles.items()}
        options |= {"--from-public": self.from_public, "--crosses": self.crosses, "-o": self.out}
        for name, value in options.items():
            if value not in (None, ()):
                raise ConfigurationError(f"{name} is for a draft, and --show and --check do not draft: leave it out.")


def schema(
    data: Annotated[
        list[str], typer.Argument(help="The table: .csv, .parquet, several files of one, or `-` for standard input.")
    ],
    csv: CsvOptions,
    draft: DraftOptions,
    show: Annotated[
        bool, typer.Option("--show", help="Show each column as it is read, with its first cells, instead of drafting.")
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option(
            help="Check that the table fits this schema, and count clipped, unknown and missing cells.", readable=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draft a public schema for a raw table: what each column is, and how it becomes numbers.

    A draft made from rows is a trace of them, so nothing that fewer than `--k` subjects have goes into it. The command
    prints, and stores nowhere, how many subjects would have to be absent for an entry to change. Comments in the file
    say what was decided for each column, and what to do about it. Read the draft, edit it, and learn with it; it
    becomes part of the model.

    The draft also states a rate, second moments of the features and shares of the classes, rounded to powers of two.
    With them `learn` selects each row by itself (independent selection). They are public: models keep them when rows
    are forgotten. Delete `[selection]` and its tables if they must not show; a draft from standard input has none.

    For example:

    - `erasable schema data.csv --show`

    - `erasable schema data.csv --label salary --id row_id --subject person -o schema.toml`

    - `erasable schema data.csv --label salary --crosses 5 -o schema.toml`

    - `erasable schema homes.csv --target price --id home --sep ";" --decimal , -o schema.toml`

    - `erasable schema more.csv --check schema.toml`
    """
    if show and check is not None:
        raise ConfigurationError("--show and --check cannot be combined: give one of them.")
    if show or check is not None:
        draft.refuse_any()
    source = data[0] if len(data) == 1 else data
    if show:
        _show(source, draft.k, csv.dialect, as_json)
    elif check is not None:
        _check(check, source, csv.dialect, as_json)
    else:
        _draft(data, source, draft, csv.dialect, as_json)


def _draft(data: list[str], source: Any, given: DraftOptions, dialect: Dialect | None, as_json: bool) -> None:
    from erasable.operations.schemas import check_names, draft_table, write_schema

    out, public = given.out, given.from_public
    if out is None and not as_json:
        raise ConfigurationError("a draft needs a file: give -o schema.toml.")
    read = source if public is None else public
    draft = draft_table(read, **given.roles, k=given.k, crosses=given.crosses, dialect=dialect)
    if public is not None:
        check_names(draft.schema, source, dialect=dialect)
    if out is not None:
        head = "" if public is None else f"From the public table {public.name}.\n"
        write_schema(draft, out, head=head, data=(*data, public))
    if as_json:
        margins = [
            {"column": c, "entry": e, "value": v, "margin": None if m == float("inf") else m}
            for (c, e, v), m in draft.margins.items()
        ]
        crosses = [
            {**cross.parameters(), "gain": gain, "taken": cross in draft.schema.crosses}
            for cross, gain in (*draft.crosses, *draft.suggested)
        ]
        found = {"text": draft.schema.text, "notes": dict(draft.notes), "crosses": crosses, "margins": margins}
        print_json({"schema": None if out is None else str(out), **found})
        return
    _show_draft(draft)
    n, kinds = draft.schema.n_features_out, len(draft.schema.features)
    written = dialect_words(dialect)
    if given.label is None and not given.target:
        say(f"{out}: {kinds:,} columns become {n:,} features. None is a label or a target, so nothing can be learnt")
        say("through it yet. Choose the column to predict, and draft again:")
        say(shlex.join(["erasable", "schema", *data, "--label", "COLUMN", *written, "-o", str(out)]))
        return
    say(f"{out}: {kinds:,} columns become {n:,} features. Read it, edit it, then:")
    say(shlex.join(["erasable", "learn", *data, "--schema", str(out), *written, "-o", "model.erasable"]))


def _show_draft(draft: Draft) -> None:
    """Print the columns and entries that the fewest absent subjects would change."""
    from erasable.tables.reading import listed

    entries: dict[str, list[tuple[float, str]]] = {c.name: [] for c in draft.schema.columns}
    for (column, entry, value), margin in draft.margins.items():
        named = entry if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        entries[column].append((margin, named))
    least = {name: min(margin for margin, _ in found) for name, found in entries.items() if found}
    shown = {*sorted(least, key=least.__getitem__)[:_MOST_COLUMNS]}
    kinds = {c.name: getattr(c, "KIND", None) or f"({getattr(c, 'role', '')})" for c in draft.schema.columns}
    cells = [(name, kinds[name], _entries(found)) for name, found in entries.items() if name in shown]
    title = "How many subjects would have to be absent for an entry to change (stored nowhere)"
    console().print(text_table(title, ("column", "kind", "entry: subjects"), cells, numbers=False))
    if len(least) > len(shown):
        say(
            f"These are the {len(shown)} columns whose entries stand least firmly, of {len(least):,}; --json lists all."
        )
    frail = [name for name, margin in least.items() if margin < 2]
    if frail:
        say(f"One person could change an entry of: {listed(frail)}. Look at these.")
    _show_crosses(draft)


def _show_crosses(draft: Draft) -> None:
    """Print the crosses of a draft, or those that it suggests, and how much they helped."""
    found = draft.crosses or draft.suggested
    if not found:
        return
    what = "in the draft" if draft.crosses else "in the file as comments, and taken with --crosses N"
    say(f"Crosses that help most ({what}), and by how much of the variance on a sample (stored nowhere):")
    for cross, gain in found:
        say(f"  {cross.columns[0]} × {cross.columns[1]}: {gain:.2%}")


def _entries(found: list[tuple[float, str]]) -> str:
    """The entries of a column that the fewest absent subjects would change, in their order."""
    shown = sorted(sorted(range(len(found)), key=lambda i: found[i][0])[:_MOST_ENTRIES])
    margins = ["any number" if margin == float("inf") else f"{margin:,.0f}" for margin, _ in found]
    texts = [f"{found[i][1]}: {margins[i]}" for i in shown]
    more = [f"{len(found) - len(shown):,} more stand firmer"] if len(found) > len(shown) else []
    return "; ".join([*texts, *more])


def _show(data: Any, k: int, dialect: Dialect | None, as_json: bool) -> None:
    from erasable.operations.schemas import summarize_table

    found = summarize_table(data, k=k, dialect=dialect)
    if as_json:
        print_json([asdict(column) for column in found])
        return
    cells = [
        (
            c.name,
            c.holds,
            "" if c.different is None else f"{c.different:,}",
            f"{c.missing:,}",
            c.kind,
            ", ".join(c.cells),
        )
        for c in found
    ]
    head = ("column", "holds", "different", "missing", "would be", "first cells")
    console().print(text_table("", head, cells, numbers=False))


def _check(path: Path, data: Any, dialect: Dialect | None, as_json: bool) -> None:
    from erasable.operations.schemas import check_table
    from erasable.schemas import Schema

    known = Schema.load(path)
    with Bars(quiet=as_json) as bars:
        fit = check_table(
            known, data, dialect=dialect, progress=lambda done, total: bars.tick("reading", done, total or done)
        )
    if as_json:
        print_json({**encoding_as_json(fit.report), "absent": list(fit.absent)})
        return
    show_encoding(fit.report)
    for name in fit.absent:
        say(f"{name}: not in the table; learning needs it, predicting does not")
    named = data if isinstance(data, str) else " ".join(data)
    say(f"{named} fits {path}: {fit.report.n_rows:,} rows, {known.n_features_out:,} features")
