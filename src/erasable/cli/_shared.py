"""What commands have in common: the option ``--json``, lines and tables of text, progress bars."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

    from erasable.tables import Dialect

#: What commands say where subjects are named and a model stores none.
NO_SUBJECTS = "this model stores no subjects, so none could be found: rows can only be named by --id."
#: ``model: ModelPath`` is the first argument of a command; what is wrong with the file is ours to say, in our words.
ModelPath = Annotated[Path, typer.Argument(help="The model file.", readable=False)]
#: ``as_json: Json = False`` gives a command its ``--json``.
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
#: ``random_state: RandomState = 0`` gives a command that draws anything its ``--random-state``.
RandomState = Annotated[
    int, typer.Option("--random-state", "--seed", help="Decides everything that is drawn at random.")
]
#: Each of these, None unless given, is an option of every command that reads CSV; ``dialect_of`` takes them all.
Sep = Annotated[str | None, typer.Option(help="Character between the cells of a CSV, such as `;`. [default: a comma]")]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a CSV. [default: as a byte order mark says, else utf-8]")
]
Decimal = Annotated[
    str | None, typer.Option(help="What stands before decimals in a CSV: `.` or `,`. [default: a point]")
]
Thousands = Annotated[
    str | None,
    typer.Option(
        help="What stands between the thousands of numbers in a CSV: `,` `.` `'` `_` or a space; an empty text keeps "
        "such cells as texts. [default: they are refused]"
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV holds the names of its columns; without, they are `column_1`, "
        "`column_2`, ... [default: it does, and is refused where it looks like a row]",
    ),
]
ColumnNames = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAME,NAME,...",
        help="The names of the columns of a CSV whose first line is a row, with commas between them.",
    ),
]
#: ``schema: SchemaPath = None`` lets a command take raw tables.
SchemaPath = Annotated[
    Path | None,
    typer.Option(
        help="A public schema that encodes the columns, of any kind, and names their roles: see `erasable schema`.",
        readable=False,
    ),
]
#: ``label: LabelColumn = None, subject: SubjectColumns = None, ignore: IgnoredColumns = None``: roles of columns.
LabelColumn = Annotated[str | None, typer.Option(help="Column of the labels. [default: label, or as in --schema]")]
SubjectColumns = Annotated[
    list[str] | None,
    typer.Option(
        help="Column that says whose row it is; given again, a row is that of all whom it names.", metavar="COLUMN"
    ),
]
IgnoredColumns = Annotated[
    list[str] | None, typer.Option(help="Column that is no feature; may be given again.", metavar="COLUMN")
]
#: ``target: TargetColumns = None, target_range: TargetRanges = None`` make a regression of what a command does.
TargetColumns = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of numbers to predict in place of a label: a regression; may be given again. [default: as in "
        "--schema]",
        metavar="COLUMN",
    ),
]
TargetRanges = Annotated[
    list[str] | None,
    typer.Option(
        help="LOW:HIGH, between which numbers targets lie; once for all, or once for each --target. [default: as in "
        "--schema]",
        metavar="RANGE",
    ),
]
#: ``timeout: Timeout = 60`` gives a command that changes a file its ``--timeout``.
Timeout = Annotated[float, typer.Option("--timeout", "--wait", help="Seconds to wait for another change of the file.")]


def passphrase_of(file: Path | None, ask: bool, *, twice: bool = False) -> bytes | None:
    """The passphrase of a private key, from a file or typed in; None where neither was asked for."""
    from erasable.audit.keys import read_passphrase

    if file is not None and ask:
        raise ConfigurationError("--passphrase-file and --ask-passphrase both name a passphrase: give one of them.")
    if ask:
        return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=twice, err=True)).encode()
    return None if file is None else read_passphrase(file)


def dialect_of(
    sep: str | None,
    encoding: str | None,
    decimal: str | None,
    thousands: str | None,
    header: bool | None,
    columns: str | None,
) -> Dialect | None:
    """How CSV text is written, where anything was said of it."""
    from erasable.tables import Dialect

    names = names_in(columns)
    said = {"sep": sep, "encoding": encoding, "decimal": decimal, "thousands": thousands, "header": header}
    given: dict[str, Any] = {name: value for name, value in {**said, "columns": names}.items() if value is not None}
    return Dialect(**given) if given else None


def names_in(text: str | None) -> tuple[str, ...] | None:
    """Names with commas between them, in quotes where they have commas themselves; None where nothing was given."""
    return None if text is None else tuple(next(csv.reader([text], skipinitialspace=True), []))


def dialect_words(dialect: Dialect | None) -> list[str]:
    """The options that name a dialect, for a command to paste."""
    from erasable.tables import Dialect

    words: list[str] = []
    for name, value in vars(dialect or Dialect()).items():
        if isinstance(value, bool):
            words.append("--header" if value else "--no-header")
        elif value != getattr(Dialect(), name):
            words += [f"--{name}", value if isinstance(value, str) else csv_line(value)]
    return words


def csv_line(cells: Iterable[str]) -> str:
    """Texts with commas between them, in quotes where they need them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def ranges_of(given: Sequence[str]) -> Any:
    """``--target-range`` as it was given: a pair of numbers, or several."""
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


def note_doubt(path: str | os.PathLike[str]) -> None:
    """Say on standard error where overwriting a file does not reach its blocks."""
    from erasable.store import doubt_about_blocks

    if doubt := doubt_about_blocks(path):
        say(f"note: {doubt}", aside=True)


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output; not-a-number, which JSON does not have, is refused."""
    print(json.dumps(value, indent=1, allow_nan=False))


def visible(value: object) -> str:
    r"""A value as text on one line; what a terminal might obey or not show is written as an escape.

    Names, paths and classes may come from anybody.

    Examples
    --------
    >>> from erasable.cli._shared import visible
    >>> print(visible("caf\u00e9 \x1b[2J"))
    café \x1b[2J
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))


def say(line: object = "", *, aside: bool = False) -> None:
    """Print one line of text, visible all of it: on standard output, or ``aside`` on standard error."""
    print(visible(line), file=sys.stderr if aside else sys.stdout)


def say_cells(cells: Iterable[object]) -> None:
    """Print values with tabs between them, one line."""
    print("\t".join(map(visible, cells)))


def unmarked(value: object) -> str:
    """A value inside of rich markup: visible, and no markup itself."""
    from rich.markup import escape

    return escape(visible(value))


def console(**options: Any) -> Console:
    """A page for rich text that leaves names as they are: no emoji for ``:skull:``, no colours for numbers."""
    from rich.console import Console

    return Console(emoji=False, **{"highlight": False, **options})


class Bars:
    """Progress bars on standard error while a ``with`` block runs, one for each thing that is being done.

    They appear with the first tick and leave no trace. Nothing is shown with ``quiet``, nor where standard error is no
    terminal.

    Parameters
    ----------
    quiet : bool
        Usually that JSON is wanted.
    remaining : bool, default=False
        Show an estimate of the time left too.

    Examples
    --------
    >>> from erasable.cli._shared import Bars
    >>> with Bars(quiet=True) as bars:
    ...     bars.tick("reading", 1, 2)  # for operations that say what they do
    ...     bars.of("learning")(1, 2)  # for operations that do one thing
    """

    def __init__(self, *, quiet: bool, remaining: bool = False) -> None:
        self._silent = quiet or not sys.stderr.isatty()
        self._remaining = remaining
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bars away."""
        if self._progress is not None:
            self._progress.stop()

    def tick(self, what: str, done: int, total: int) -> None:
        """Say that so much of something is done."""
        if self._silent:
            return
        if self._progress is None:
            self._progress = self._started()
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total)
        self._progress.update(self._tasks[what], completed=done, total=total)

    def of(self, what: str) -> Callable[[int, int], None]:
        """A function of (done, total) that moves the bar of one thing."""
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


def show_scores(scores: Any, *, aside: bool = False, title: str = "") -> None:
    """Print the tables of some scores: on standard output, or ``aside`` on standard error."""
    page = console(stderr=aside)
    for table in scores.tables(title):
        page.print(text_table(table.title, table.head, table.rows))


def counted(many: int, what: str) -> str:
    """How many there are, with an s where that is not one.

    Examples
    --------
    >>> from erasable.cli._shared import counted
    >>> counted(1, "core row"), counted(2000, "core row")
    ('1 core row', '2,000 core rows')
    """
    return f"{many:,} {what}{'' if many == 1 else 's'}"


def print_whole(page: Console, table: Table) -> None:
    """Print a table of which nothing is cut off: where the page is too narrow, in long lines without a frame."""
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
    """A table to print, made of plain text: nothing in a cell is markup, or obeyed by a terminal.

    Parameters
    ----------
    title : str
        May be empty.
    head : sequence of str
    rows : iterable of sequences of str
    numbers : bool, default=True
        Whether all columns but the first hold numbers, which are set flush right.
    bold : callable, optional
        Says which rows stand out.
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
