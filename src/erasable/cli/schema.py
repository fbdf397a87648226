"""``erasable schema``: drafts of public schemas, a look at tables, and whether a table fits."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from erasable.cli._shared import (
    Bars,
    CsvOptions,
    IgnoredColumns,
    Json,
    console,
    counted,
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

_WIDTH, _LONGEST = 80, 24  # characters of a line, and of a name of a column in it
_MOST_CROSSES = 3
_MARGINS = ((1, 2), (2, 5), (5, 20), (20, float("inf")))  # groups of numbers of people
_PLURALS = {
    "number": "numbers",
    "category": "categories",
    "ordered": "ordered",
    "yes/no": "yes or no",
    "date": "dates",
    "time": "times of day",
    "text": "texts",
    "vector": "vectors",
}


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
    prints, and stores nowhere, how many people would have to leave before a constant of the draft could change; with
    fewer gone, the draft shows nothing of them. It also counts what `learn` would refuse: missing or repeated ids,
    missing labels, targets and subjects. Comments in the file say what was decided for each column, and what to do
    about it. Read the draft, edit it, and learn with it; it becomes part of the model.

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
        draft = replace(draft, refusals=())  # of rows that are not those to learn
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
        found: dict[str, Any] = {
            "text": draft.schema.text,
            "notes": dict(draft.notes),
            "crosses": crosses,
            "margins": margins,
        }
        found |= {"rows": draft.n_rows, "subjects": draft.n_subjects, "refusals": list(draft.refusals)}
        print_json({"schema": None if out is None else str(out), **found})
        return
    _show_draft(draft, out)
    written = dialect_words(dialect)
    if given.label is None and not given.target:
        say("None is a label or a target, so nothing can be learnt through it yet. Choose the")
        say("column to predict, and draft again:")
        say(shlex.join(["erasable", "schema", *data, "--label", "COLUMN", *written, "-o", str(out)]))
        return
    say("Read the file, edit it, then:")
    say(shlex.join(["erasable", "learn", *data, "--schema", str(out), *written, "-o", "model.erasable"]))


def _show_draft(draft: Draft, out: Path | None) -> None:
    """Print what will be stored, what was left out and why, and how firm the constants are: about one screen."""
    schema = draft.schema
    people = f"{draft.n_rows:,} rows of {draft.n_subjects:,} subjects"
    one = len(schema.features) == 1
    columns = f"{counted(len(schema.features), 'column')} become{'s' if one else ''}"
    say(f"{out}: {columns} {counted(schema.n_features_out, 'feature')}; {people}.")
    if schema.rate is not None:
        share = "All rows" if schema.rate == 1.0 else f"About 1 in {1 / schema.rate:.0f} rows"
        say(f"{share} will be stored, each with these features and names:")
    kinds: dict[str, list[str]] = {}
    for column in schema.features:
        kinds.setdefault(_PLURALS[column.KIND], []).append(column.name)
    for role in ("label", "target", "id", "subject", "weight"):
        shown = [f"{name}{_classes_shown(schema.by_name[name])}" for name in schema.names_of(role)]
        if shown:
            kinds[role] = shown
    for what, names in kinds.items():
        say(_line(what, names))
    _show_left_out(draft)
    if draft.refusals:
        say("Learning will refuse this table:")
    for refusal in draft.refusals:
        _say_wrapped(refusal.replace("allow_no_subject=", "--allow-no-subject"), indent="  ")
    _show_margins(draft)
    _show_crosses(draft)


def _classes_shown(role: Any) -> str:
    """The number of classes of a label, after its name."""
    if role.role != "label":
        return ""
    return " (classes as rows have them)" if role.classes is None else f" ({len(role.classes):,} classes)"


def _show_left_out(draft: Draft) -> None:
    """Print the columns that become no feature, by the reason."""
    reasons: dict[str, list[str]] = {}
    for name in draft.schema.names_of("ignore"):
        reason = draft.notes.get(name, "").partition(". ")[0].removeprefix("Ignored").strip(":, .")
        reasons.setdefault(reason or "no kind fits it", []).append(name)
    if reasons:
        say("Left out:")
    for reason, names in reasons.items():
        say(_line("", names, after=f": {reason}"))


def _show_margins(draft: Draft) -> None:
    """Print how many people would have to leave before a constant of each column could change."""
    least: dict[str, float] = {}
    for (column, _, _), margin in draft.margins.items():
        least[column] = min(margin, least.get(column, float("inf")))
    groups: dict[str, list[str]] = {}
    for name, margin in sorted(least.items(), key=lambda item: item[1]):
        if margin < float("inf"):
            low, high = next((low, high) for low, high in _MARGINS if low <= margin < high)
            if high == float("inf"):
                people = f"{low:,} or more"
            elif high == low + 1:
                people = f"{low:,}"
            else:
                people = f"{low:,} to {high - 1:,}"
            groups.setdefault(people, []).append(name)
    if not groups:
        return
    say("People who would have to leave before a constant from the rows could change:")
    for people, names in groups.items():
        say(_line(people, names))
    _say_wrapped(
        "With fewer people gone than that, the draft of the others is the same, so it shows nothing of them. Models "
        "keep their schema when rows are forgotten. --json lists the number of each constant; no file has it."
    )


def _show_crosses(draft: Draft) -> None:
    """Print the crosses of a draft, or those that it suggests, and how much they helped."""
    found = draft.crosses or draft.suggested
    if not found:
        return
    what = "in the draft" if draft.crosses else "comments in the file; --crosses N takes N"
    say(f"Crosses that help most ({what}), and gains:")
    for cross, gain in found[:_MOST_CROSSES]:
        say(f"  {' × '.join(map(_cut, cross.columns[:2]))} {gain:.2%} of the variance")
    if len(found) > _MOST_CROSSES:
        say(f"  and {len(found) - _MOST_CROSSES:,} more, which --json lists")


def _line(what: str, names: Sequence[str], after: str = "") -> str:
    """A heading and as many names as fit one line of the screen."""
    head = f"  {what:<13} " if what else "  "
    cut = [*map(_cut, names)]
    for shown in range(len(cut), 0, -1):
        more = f" and {len(cut) - shown:,} more" if shown < len(cut) else ""
        line = f"{head}{', '.join(cut[:shown])}{more}{after}"
        if len(line) <= _WIDTH:
            return line
    return line


def _cut(name: str) -> str:
    """The name of a column, cut off if it is long."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _say_wrapped(text: str, *, indent: str = "") -> None:
    """Print a sentence in lines as wide as the screen."""
    for line in textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent):
        say(line)


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
