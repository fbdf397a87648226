"""Options that commands share, and how they print: lines, tables, JSON, progress bars."""

from __future__ import annotations

import csv
import inspect
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_type_hints

import typer

from erasable.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

    from erasable.operations.scoring import RegressionScores, Scores
    from erasable.schemas import EncodingReport
    from erasable.tables import Dialect

# -- options ---------------------------------------------------------------------------------------------------------

#: The warning if subjects are named and the model stores none.
NO_SUBJECTS = "this model stores no subjects, so none could be found: rows can only be named by --id."
#: The first argument of a command. Typer does not check that the file is readable, so that our own errors are shown.
ModelPath = Annotated[Path, typer.Argument(help="The model file.", readable=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
RandomState = Annotated[int, typer.Option("--random-state", help="Seed of all random draws.")]
SchemaPath = Annotated[
    Path | None,
    typer.Option(
        help="A public schema that encodes raw columns and names their roles: see `erasable schema`.", readable=False
    ),
]
LabelColumn = Annotated[str | None, typer.Option(help="Column of the labels. [default: label, or as in --schema]")]
SubjectColumns = Annotated[
    list[str] | None,
    typer.Option(
        help="Column that names whose row it is. Repeat the option if a row belongs to several people.",
        metavar="COLUMN",
    ),
]
IgnoredColumns = Annotated[
    list[str] | None, typer.Option(help="Column that is not a feature. Repeat it for several.", metavar="COLUMN")
]
TargetColumns = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of numbers to predict instead of a label: a regression. Repeat it for several. [default: as in "
        "--schema]",
        metavar="COLUMN",
    ),
]
TargetRanges = Annotated[
    list[str] | None,
    typer.Option(
        help="LOW:HIGH, the range of the targets; once for all, or once for each --target. [default: as in --schema]",
        metavar="RANGE",
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait while another process changes the file.")]


@dataclass(frozen=True)
class CsvOptions:
    """How the text of a CSV is written: a group of options for every command that reads tables."""

    PANEL: ClassVar = "How a CSV is written"
    sep: Annotated[
        str | None, typer.Option(help="Character between the cells of a CSV, such as `;`. [default: a comma]")
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of a CSV. [default: that of the byte order mark, else utf-8]")
    ] = None
    decimal: Annotated[str | None, typer.Option(help="Decimal separator of a CSV: `.` or `,`. [default: a point]")] = (
        None
    )
    thousands: Annotated[
        str | None,
        typer.Option(
            help="Thousands separator of numbers in a CSV: `,` `.` `'` `_` or a space; an empty text keeps such cells "
            "as texts. [default: they are refused]"
        ),
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line of a CSV holds the names of its columns; if not, they are `column_1`, "
            "`column_2`, ... [default: it does, and is refused if it looks like a row]",
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="NAME,NAME,...",
            help="The names of the columns of a CSV whose first line is a row, with commas between them.",
        ),
    ] = None

    @property
    def dialect(self) -> Dialect | None:
        """The dialect that the options describe; None without options."""
        from erasable.tables import Dialect

        given = {**vars(self), "columns": names_in(self.columns)}
        given = {name: value for name, value in given.items() if value is not None}
        return Dialect(**given) if given else None


def with_option_groups(command: Callable[..., object]) -> Callable[..., object]:
    """Expand each parameter of a command whose type is a dataclass into one option for each field.

    The command gets the record: ``csv: CsvOptions`` stands for ``--sep``, ``--encoding`` and so on. The help lists
    these options under the heading ``PANEL`` of the class that defines them.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    options = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            options.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        options += [
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation)
            for field, annotation in _options_of(groups[name])
        ]

    @wraps(command)
    def expanded(**given: Any) -> object:
        records = {name: kind(**{f.name: given.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        return command(**given, **records)

    expanded.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    expanded.__annotations__ = {option.name: option.annotation for option in options}
    del expanded.__wrapped__
    return expanded


def _options_of(group: type) -> Iterator[tuple[Field[Any], Any]]:
    """Yield the fields of a group, each with its annotation; its option has the panel of the class that defines it."""
    annotations = get_type_hints(group, include_extras=True)
    for field in fields(group):
        kind, option = get_args(annotations[field.name])
        option = copy(option)  # commands share it
        option.rich_help_panel = next(vars(c)["PANEL"] for c in group.__mro__ if field.name in c.__annotations__)
        yield field, Annotated[kind, option]


def refuse_options(options: Mapping[str, object], why: str) -> None:
    """Raise ConfigurationError if any of these options was given."""
    for name, value in options.items():
        if value is not None:
            raise ConfigurationError(f"--{name.replace('_', '-')} {why}.")


def passphrase_of(file: Path | None, ask: bool, *, twice: bool = False) -> bytes | None:
    """Return the passphrase of a private key, from a file or typed in; None if neither was asked for."""
    from erasable.audit.keys import read_passphrase

    if file is not None and ask:
        raise ConfigurationError("--passphrase-file and --ask-passphrase both name a passphrase: give one of them.")
    if ask:
        return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=twice, err=True)).encode()
    return None if file is None else read_passphrase(file)


def names_in(text: str | None) -> tuple[str, ...] | None:
    """Split a list of names at commas; names that contain commas are quoted. None stays None."""
    return None if text is None else tuple(next(csv.reader([text], skipinitialspace=True), []))


def dialect_words(dialect: Dialect | None) -> list[str]:
    """Return the options that describe a dialect, for a command line to paste."""
    from erasable.tables import Dialect

    words: list[str] = []
    for name, value in vars(dialect or Dialect()).items():
        if isinstance(value, bool):
            words.append("--header" if value else "--no-header")
        elif value != getattr(Dialect(), name):
            words += [f"--{name}", value if isinstance(value, str) else csv_line(value)]
    return words


def csv_line(cells: Iterable[str]) -> str:
    """Join texts with commas, quoted where needed."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def ranges_of(given: Sequence[str]) -> tuple[float, float] | list[tuple[float, float]]:
    """Parse ``--target-range``: one pair of numbers, or several."""
    ranges = []
    for text in given:
        low, colon, high = text.partition(":")
        try:
            ranges.append((float(low), float(high)))
        except ValueError:
            colon = ""
        if not colon:
            raise ConfigurationError("--target-range must be two numbers with a colon between them, such as 0:1000.")
    return ranges[0] if len(ranges) == 1 else ranges


# -- output ------------------------------------------------------------------------------------------------------------


def note_doubt(path: str | os.PathLike[str]) -> None:
    """Print a note on standard error if overwriting a file may not reach its blocks on the disk."""
    from erasable.store import doubt_about_blocks

    if (doubt := doubt_about_blocks(path)) is not None:
        say(f"note: {doubt.about(path)}", aside=True)


def print_json(value: object) -> None:
    """Print a value as JSON on standard output; NaN and infinity, which JSON does not have, are refused."""
    print(json.dumps(value, indent=1, allow_nan=False))


def visible(value: object) -> str:
    r"""Return a value as one line of text in which control and invisible characters are written as escapes.

    Names, paths and classes may come from strangers, and a terminal would obey control characters in them.

    Examples
    --------
    >>> from erasable.cli._shared import visible
    >>> print(visible("caf\u00e9 \x1b[2J"))
    café \x1b[2J
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))


def say(line: object = "", *, aside: bool = False) -> None:
    """Print one line of visible text: on standard output, or ``aside`` on standard error."""
    print(visible(line), file=sys.stderr if aside else sys.stdout)


def say_cells(cells: Iterable[object]) -> None:
    """Print values on one line, with tabs between them."""
    print("\t".join(map(visible, cells)))


def unmarked(value: object) -> str:
    """Return a value as visible text that rich does not read as markup."""
    from rich.markup import escape

    return escape(visible(value))


def console(**options: Any) -> Console:
    """Return a rich console without emoji codes and without colours for numbers, so that names stay unchanged."""
    from rich.console import Console

    return Console(emoji=False, **{"highlight": False, **options})


class Bars:
    """Progress bars on standard error while a ``with`` block runs, one for each activity.

    They appear with the first tick and are removed at the end. Nothing is shown with ``quiet``, or if standard error
    is not a terminal.

    Parameters
    ----------
    quiet : bool
        Usually whether JSON is printed.
    remaining : bool, default=False
        Show an estimate of the time left too.

    Examples
    --------
    >>> from erasable.cli._shared import Bars
    >>> with Bars(quiet=True) as bars:
    ...     bars.tick("reading", 1, 2)
    ...     bars.of("learning")(1, 2)
    """

    def __init__(self, *, quiet: bool, remaining: bool = False) -> None:
        self._silent = quiet or not sys.stderr.isatty()
        self._remaining = remaining
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bars."""
        if self._progress is not None:
            self._progress.stop()

    def tick(self, what: str, done: int, total: int) -> None:
        """Update the bar of one activity."""
        if self._silent:
            return
        if self._progress is None:
            self._progress = self._started()
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total)
        self._progress.update(self._tasks[what], completed=done, total=total)

    def of(self, what: str) -> Callable[[int, int], None]:
        """Return a function of (done, total) that moves one bar."""
        return lambda done, total: self.tick(what, done, total)

    def _started(self) -> Progress:
        from rich.progress import (
            BarColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns: list[ProgressColumn] = [TextColumn("{task.description:<34}"), BarColumn(), TimeElapsedColumn()]
        if self._remaining:
            columns += [TextColumn("left:"), TimeRemainingColumn()]
        progress = Progress(*columns, console=console(stderr=True), transient=True)
        progress.start()
        return progress


def show_scores(scores: Scores | RegressionScores, *, aside: bool = False, title: str = "") -> None:
    """Print scores as tables: on standard output, or ``aside`` on standard error."""
    page = console(stderr=aside)
    for table in scores.tables(title):
        page.print(text_table(table.title, table.head, table.rows))


def encoding_as_json(report: EncodingReport) -> dict[str, Any]:
    """Return the counts of cells that were missing, unknown, unparsable or clipped, for JSON."""
    counts = {column: dict(found) for column, found in report.counts.items()}
    return {"rows": report.n_rows, "cells": counts, "extra_columns": list(report.extra)}


def show_encoding(report: EncodingReport, *, aside: bool = False) -> None:
    """Print how many cells of each column were missing, unknown, unparsable or clipped, if any were."""
    what = ("missing", "unknown", "unparsable", "clipped")
    if report.counts:
        rows = [(c, *(f"{found.get(w, 0):,}" for w in what)) for c, found in report.counts.items()]
        title = f"Cells of {report.n_rows:,} rows, by column"
        console(stderr=aside).print(text_table(title, ("column", *what), rows))
    if report.extra:
        say(f"ignored, not in the schema: {', '.join(report.extra)}", aside=aside)


def counted(many: int, what: str) -> str:
    """Return a number with its noun, in the plural unless it is one.

    Examples
    --------
    >>> from erasable.cli._shared import counted
    >>> counted(1, "core row"), counted(2000, "core row")
    ('1 core row', '2,000 core rows')
    """
    return f"{many:,} {what}{'' if many == 1 else 's'}"


def print_whole(page: Console, table: Table) -> None:
    """Print a table without cutting anything off; if the page is too narrow, in long lines without a frame."""
    from rich.measure import Measurement

    wide = page.options.update(max_width=10_000)
    if Measurement.get(page, wide, table).minimum > page.width:
        table.box, table.padding = None, (0, 2, 0, 0)
        page = console(width=Measurement.get(page, wide, table).maximum, file=page.file)
    page.print(table)


def text_table(
    title: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: bool = True,
    bold: Callable[[Sequence[str]], bool] = lambda row: False,
) -> Table:
    """Return a table of plain text: nothing in a cell is read as markup, or obeyed by a terminal.

    Parameters
    ----------
    title : str
        May be empty.
    head : sequence of str
    rows : iterable of sequences of str
    numbers : bool, default=True
        Whether all columns but the first hold numbers, which are aligned to the right.
    bold : callable, optional
        Which rows are printed in bold.
    """
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    short = all(len(row[0]) <= 40 for row in rows)  # longer ones would leave nothing of a narrow terminal to the others
    table = Table(title=Text(visible(title)) if title else None, title_justify="left")
    for i, name in enumerate(head):
        table.add_column(Text(visible(name)), justify="right" if numbers and i else "left", no_wrap=i == 0 and short)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row), style="bold" if bold(row) else None)
    return table
