"""``erasable plan``: which parameters to choose, and how many deletions until a refresh."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from erasable.cli._shared import (
    Bars,
    CsvOptions,
    IgnoredColumns,
    Json,
    LabelColumn,
    RandomState,
    SchemaPath,
    SubjectColumns,
    TargetColumns,
    TargetRanges,
    console,
    dialect_words,
    print_json,
    print_whole,
    ranges_of,
    refuse_options,
    text_table,
    unmarked,
)
from erasable.cli.app import as_option
from erasable.errors import ConfigurationError, ErasableError

if TYPE_CHECKING:
    from erasable.operations.plan import Plan
    from erasable.schemas import Schema
    from erasable.tables import Dialect, Table

_NAMED = ("margin", "digits")


@dataclass(frozen=True)
class ColumnOptions:
    """The columns of the table, by their roles."""

    PANEL: ClassVar = "Columns of the table"
    schema: SchemaPath = None
    label: LabelColumn = None
    target: TargetColumns = None
    target_range: TargetRanges = None
    id: Annotated[str | None, typer.Option(help="Column of the row ids, which is then no feature.")] = None
    subject: SubjectColumns = None
    ignore: IgnoredColumns = None
    weights: Annotated[
        str | None, typer.Option(help="Column that says how likely a row is to be deleted, up to a factor.")
    ] = None

    @property
    def words(self) -> list[str]:
        """The options of ``learn`` for the same columns."""
        given: dict[str, Sequence[object]] = {
            "--schema": [self.schema],
            "--label": [None if self.label == "label" else self.label],
            "--target": self.target or (),
            "--id": [self.id],
            "--subject": self.subject or (),
            "--ignore": [*(self.ignore or ()), self.weights],
        }
        return [str(word) for option, names in given.items() for n in names if n is not None for word in (option, n)]

    def targets(self, encoder: Schema | None) -> tuple[tuple[str, ...], Any]:
        """Columns of targets and their ranges, from the options or the schema; None for the ranges of classes."""
        targets = tuple(self.target or ()) or (() if encoder is None else encoder.names_of("target"))
        declared = None if encoder is None else encoder.target_range
        if declared is not None and self.target_range:
            raise ConfigurationError("--target-range is what the schema declares already: leave it out.")
        if targets and not self.target_range and declared is None:
            raise ConfigurationError(
                "--target-range is required: declare between which numbers targets lie, from what you know "
                "beforehand; a range taken from the rows would be a trace of them."
            )
        if self.target_range:
            return targets, ranges_of(self.target_range)
        return targets, None if declared is None else list(declared)


@dataclass(frozen=True)
class TargetOptions:
    """What the model has to reach."""

    PANEL: ClassVar = "What the model has to reach"
    deletions_per_month: Annotated[
        float | None, typer.Option(help="Deletions expected: rows, or subjects with `--distribution subject`.")
    ] = None
    months: Annotated[float | None, typer.Option(help="How long the model is to hold. [default: 12]")] = None
    distribution: Annotated[
        str | None,
        typer.Option(
            help="Which rows are deleted: uniform, subject, label, worst (stored rows only), rarest (the most unusual "
            "first), weights. "
            "[default: by weights or subject where named, else uniform]"
        ),
    ] = None
    delete_label: Annotated[
        str | None, typer.Option(help="The class that distribution `label` deletes. [default: the first, sorted]")
    ] = None
    metric: Annotated[
        str | None,
        typer.Option(
            help="What candidates are compared by: auc, logloss, accuracy, balanced; of targets r2, or mae in their "
            "units. [default: auc, or r2]"
        ),
    ] = None
    max_loss: Annotated[
        float | None,
        typer.Option(
            help="How much of the metric may be lost: by storing less, and again by deletions. [default: 0.01; mae "
            "has none]"
        ),
    ] = None
    max_stored: Annotated[float | None, typer.Option(help="The largest share of rows that may be stored.")] = None
    max_bytes: Annotated[int | None, typer.Option(help="The most bytes that may be stored.")] = None


@dataclass(frozen=True)
class EffortOptions:
    """The model that is planned for, and how hard to look."""

    PANEL: ClassVar = "The search"
    horizon: Annotated[
        int | None, typer.Option(help="Rows the model will see, if the file is a sample. [default: rows of the file]")
    ] = None
    intercept: Annotated[bool, typer.Option("--intercept/--no-intercept", help="Append a constant to rows.")] = True
    scaling: Annotated[
        float | None, typer.Option(help="Divide rows by this number. [default: each row by its norm]")
    ] = None
    learner: Annotated[
        list[str] | None,
        typer.Option(help="Also try this learner, such as lightgbm, next to the linear heads. Repeat it for several."),
    ] = None
    effort: Annotated[str, typer.Option(help="How hard to look: quick, default, thorough.")] = "default"
    random_state: RandomState = 0


def plan(
    file: Annotated[
        list[str],
        typer.Argument(help="A file, or several of one table, as for `learn`; or `margin` or `digits`, to try it out."),
    ],
    roles: ColumnOptions,
    csv: CsvOptions,
    targets: TargetOptions,
    how: EffortOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for plan.json, frontier.png and frontier.svg. [default: none written]", readable=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan a model that will have to forget: parameters, storage, how good it is, and deletions until a refresh.

    Candidates learn a part of the rows and are scored on the rest; deletions are simulated until the tolerated loss is
    reached. Both selections and both losses are tried. The least storage that meets all targets is recommended, as a
    command to paste: never a model that misses a class, or whose log-loss is no better than that of a constant. Nothing
    that is written holds a row.

    For example:

    - `erasable plan digits --deletions-per-month 20 --months 12`

    - `erasable plan customers.parquet --label churned --subject user_id --deletions-per-month 300 --max-stored 0.2`

    - `erasable plan raw.csv --schema schema.toml --max-stored 0.1 --metric auc`

    - `erasable plan customers.parquet --label churned --id row_id --ignore day --ignore town --metric auc`

    - `erasable plan homes.csv --target price --target-range 0:1000000 --id home --metric mae --max-loss 2000`
    """
    from erasable.operations.plan import draw_frontier
    from erasable.operations.rendering import make_folder
    from erasable.store import write_text

    if roles.schema is not None:
        refuse_options(
            {"learner": how.learner}, "sees the raw columns of a schema, and plans are made with encoded ones"
        )
    with _arguments_as_options():
        table, ranges = _rows(file, roles, csv.dialect)
    if out is not None:
        make_folder(out)
    with Bars(quiet=as_json) as bars, _arguments_as_options():
        found = _planned(table, ranges, roles, targets, how, bars)
    command = None if _is_named(file) else _command(file, roles.words + dialect_words(csv.dialect), found)
    line = _line(found, roles.schema)
    written = {**found.as_json(), "line": line, "command": command}
    if out is not None:
        draw_frontier(found, out)
        write_text(out / "plan.json", json.dumps(written, indent=1, allow_nan=False) + "\n")
    if as_json:
        print_json(written)
    else:
        _show(found, [line] if command is None else [command, line], out)


def _line(found: Plan, schema: Path | None) -> str:
    """The line of Python that makes the model; a schema states what is public."""
    if schema is None:
        return found.line
    line = replace(found, public=()).line
    return f"{line[:-1]}, feature_map=TableEncoder(Schema.load({str(schema)!r})))"


def _planned(
    table: Table, ranges: Any, columns: ColumnOptions, targets: TargetOptions, how: EffortOptions, bars: Bars
) -> Plan:
    from erasable.operations.plan import plan as make_plan

    return make_plan(
        table.numbers,
        table.y,
        ids=table.ids,
        subjects=table.subjects,
        weights=None if columns.weights is None else table.weights,
        target_range=ranges,
        encoded=columns.schema is not None,
        **_public(columns, ranges is not None),
        **vars(targets),
        horizon=how.horizon,
        fit_intercept=how.intercept,
        scaling="row" if how.scaling is None else how.scaling,
        learners=how.learner,
        effort=how.effort,
        random_state=how.random_state,
        progress=bars.tick,
    )


def _public(columns: ColumnOptions, is_regression: bool) -> dict[str, Any]:
    """The moments and class shares that the schema states."""
    from erasable.schemas import Schema

    if columns.schema is None:
        return {}
    encoder = Schema.load(columns.schema)
    shares = None if is_regression else encoder.class_shares or None
    return {"moments": encoder.second_moments, "class_shares": shares}


@contextmanager
def _arguments_as_options() -> Iterator[None]:
    """Errors of the operation name options as they were typed: ``max_stored=0.1`` becomes ``--max-stored 0.1``."""
    try:
        yield
    except ErasableError as error:
        raise type(error)(as_typed(str(error))) from None


def as_typed(text: str) -> str:
    """A message of the operation in the words of the command line.

    Examples
    --------
    >>> from erasable.cli.plan import as_typed
    >>> as_typed("max_loss=0.01 cannot be met: give metric='auc' or a larger max_stored, or horizon= for more months.")
    '--max-loss 0.01 cannot be met: give --metric auc or a larger --max-stored, or --horizon for more months.'
    """
    from erasable.operations.plan import PlanOptions

    arguments = ["ids", "subjects", "weights", *PlanOptions.__annotations__]
    names = [*arguments, *(field.name for field in fields(EffortOptions))]
    word, long = "|".join(names), "|".join(name for name in names if "_" in name)
    text = re.sub(r"\bweight=", "weights=", text)  # as readers of tables call it
    text = re.sub(rf"\b({word})='?([\w.]*\w)'?", lambda found: f"{as_option(found)} {found[2]}", text)
    text = re.sub(rf"(?<!-)\b({word})(?:=|(?= must | needs ))", as_option, text)
    return re.sub(rf"\b({long})\b", as_option, text)


def _is_named(files: list[str]) -> bool:
    """Whether a bundled data set is named, and no file."""
    return len(files) == 1 and files[0] in _NAMED


def _command(files: list[str], words: list[str], found: Plan) -> str:
    """The command that learns the files as the plan says."""
    from erasable.operations.plan import number_text

    words = ["erasable", "learn", *files, *words]
    for name, value in found.parameters.items():
        if name == "fit_intercept":
            words.append("--intercept" if value else "--no-intercept")
        elif name == "target_range":
            pairs = [value] if isinstance(value, tuple) else value
            words += [f"--target-range={number_text(low)}:{number_text(high)}" for low, high in pairs]
        else:
            words += ["--" + name.replace("_", "-"), number_text(value) if isinstance(value, float) else str(value)]
    name = re.sub(r"[*?\[\]]", "", Path(files[0]).name.split(".")[0]) or "model"
    return shlex.join([*words, "-o", f"{name}.erasable"])


def _rows(files: list[str], columns: ColumnOptions, dialect: Dialect | None) -> tuple[Table, Any]:
    """The rows of a file or a bundled data set, and the ranges of their targets; None for classes."""
    from erasable.schemas import Schema

    encoder = None if columns.schema is None else Schema.load(columns.schema)
    targets, ranges = columns.targets(encoder)
    roles: dict[str, Any] = {"label": columns.label, "id": columns.id, "subject": columns.subject or None}
    roles["ignore"] = tuple(columns.ignore or ())
    if _is_named(files):
        return _named_set(files[0], columns, dialect), ranges
    if encoder is None:
        roles["label"] = columns.label or "label"
        return _plain_table(files, roles, targets, ranges is not None, columns.weights, dialect), ranges
    from erasable.tables import stream_table

    refuse_options(
        {"weights": columns.weights}, "names a column of numbers, and with --schema columns are what it says"
    )
    if ranges is not None and not targets:
        targets = (columns.label or "label",)
    if targets == (columns.label,):
        roles["label"] = None
    with stream_table(files, schema=encoder, targets=targets, dialect=dialect, **roles) as stream:
        return stream.read(), ranges


def _named_set(name: str, columns: ColumnOptions, dialect: Dialect | None) -> Table:
    """A bundled data set, for which options about columns make no sense."""
    from erasable.research.sets import load_bundled, make_margin

    refuse_options({"schema": columns.schema}, f"is for the columns of a file, and {name} is none: leave it out")
    if columns.weights is not None:
        raise ConfigurationError(f"{name} has no column of weights: leave --weights out.")
    named = {"ignore": columns.ignore or None, "target": columns.target or None}
    refuse_options(named, f"names columns of a file, and {name} is none: leave it out")
    if dialect is not None:
        raise ConfigurationError(f"{' '.join(dialect_words(dialect))}: these options are for CSV, and {name} is none.")
    return make_margin() if name == "margin" else load_bundled()


def _plain_table(
    files: list[str],
    roles: dict[str, Any],
    targets: tuple[str, ...],
    is_regression: bool,
    weights: str | None,
    dialect: Dialect | None,
) -> Table:
    """The rows of a table of numbers."""
    from erasable.tables import files_of, load_split, load_table, nameless_form

    paths = files_of(files)
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise ConfigurationError(
            f"there is no file {missing[0]!r}: give a .csv, .parquet, .npz or .svmlight file, "
            f"or one of {', '.join(_NAMED)}."
        )
    if len(paths) == 1 and paths[0].name.endswith("_train.npz") and weights is None and not targets:
        return load_split(paths[0], **roles).train
    if is_regression and not targets and nameless_form(files) is None:
        targets = (roles["label"],)
    return load_table(files, **roles, weight=weights, targets=targets, dialect=dialect)


def _show(found: Plan, ways: list[str], out: Path | None) -> None:
    """Print the tables, the warnings, and the ways to make the model."""
    page = console(highlight=True)
    compared = [found.compared()] if found.selections else []
    for table in (found.table(), found.predictions(), *compared):
        marked = not table.head[0]  # the first column holds the arrow at what is recommended
        shown = text_table(table.title, table.head, table.rows, numbers=marked, bold=lambda row: row[0] == "→")
        print_whole(page, shown)
    for warning in found.warnings:
        page.print(f"[bold yellow]warning:[/] {unmarked(as_typed(warning))}", highlight=False, soft_wrap=True)
    for way in ways:
        page.print(f"\n[bold]{unmarked(way)}[/]", highlight=False, soft_wrap=True)
    if out is not None:
        picture = unmarked(str(out / "frontier.png"))
        page.print(f"\n{picture} has the picture; plan.json the numbers.", highlight=False, soft_wrap=True)
