"""``erasable scan``: search a folder for remains of rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from erasable.cli._shared import (
    Bars,
    CsvOptions,
    IgnoredColumns,
    Json,
    LabelColumn,
    console,
    counted,
    print_json,
    text_table,
    unmarked,
)
from erasable.cli.app import BAD_FILE, FAILED

if TYPE_CHECKING:
    from erasable.audit.scan import ScanReport

_MOST_SHOWN = 40
_COMPARED = "[/] only models were compared"
_TOO_SHORT = {  # what is printed of one, of several, and why they are too short
    "ids": ("id is", "ids are", f"too short to be searched for as text:{_COMPARED}"),
    "subjects": ("subject is", "subjects are", f"too short to be searched for as text:{_COMPARED}"),
    "rows": ("row has", "rows have", f"too few different bytes in some encoding to be searched for:{_COMPARED}"),
    "texts": ("text of a cell is", "texts of cells are", "too short to identify a row:[/] not searched for alone"),
    "numbers": ("number has", "numbers have", "too few digits to identify a row:[/] not searched for as text"),
    "cells": ("cell is", "cells are", "beyond the limit:[/] the first ones of each row were searched for"),
}
_RowFiles = Annotated[
    list[str],
    typer.Option("--for", metavar="FILE", help="The rows to look for: a file or pattern. Repeat it for several."),
]
_Schema = Annotated[
    Path | None,
    typer.Option(help="The schema of a raw table. [default: that of the models, if they agree]", readable=False),
]
_Subjects = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column of the subjects, who are searched for too. Repeat it for several."),
]
_Excluded = Annotated[
    list[str] | None, typer.Option(help="Names or paths not to search, such as `*.parquet`. Repeat it for several.")
]


def scan(
    folder: Annotated[Path, typer.Argument(help="Every file below it is searched.", readable=False)],
    rows: _RowFiles,
    *,
    schema: _Schema = None,
    label: LabelColumn = None,
    id: Annotated[str | None, typer.Option(help="Column of the row ids, which are searched for too.")] = None,
    subject: _Subjects = None,
    ignore: IgnoredColumns = None,
    exclude: _Excluded = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 5 also if a file could be searched only in part.")
    ] = False,
    as_json: Json = False,
    csv: CsvOptions,
) -> None:
    """Search every file of a folder for remains of rows: hidden, temporary and left-over ones included.

    Whole rows are searched for as float32, as float64 and as the integers that models store; ids and subjects as text,
    and so are numbers of seven digits or more and, of raw tables, texts of eight bytes or more. Parquet files are
    decoded; other compressed files cannot be searched, and are listed. Columns that models in the folder name as
    features are features, whatever `--ignore` says.

    Exit code 0: nothing found in what could be searched. Exit code 1: something found. Exit code 5: nothing found, but
    some file could not be read; with `--strict` also if one is compressed or an archive, or if only the ids of a model
    could be compared. Files that `--exclude` names do not count.

    For example:

    - `erasable scan models/ --for deleted.parquet --id row_id --ignore user_id`

    - `erasable scan . --for deleted.parquet --id row_id --exclude "*.parquet" --strict`
    """
    from erasable.operations.scan import scan_for

    columns = {"label": label, "id": id, "subject": subject, "ignore": ignore or ()}
    with Bars(quiet=as_json, remaining=True) as bars:
        report = scan_for(
            folder,
            rows,
            **columns,  # type: ignore[arg-type]
            schema=schema,
            exclude=exclude or (),
            dialect=csv.dialect,
            progress=bars.of("searching"),
        )
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
    if report.found or (report.unseen if strict else report.unreadable):
        raise typer.Exit(FAILED if report.found else BAD_FILE)


def _show(report: ScanReport) -> None:
    """Print what was found, then what could not be searched, then the verdict."""
    page = console(soft_wrap=True)
    counts = Counter(r.file for r in report.remains).most_common()
    least = "at least " if report.found > len(report.remains) else ""  # not all are listed
    for file, many in counts[:_MOST_SHOWN]:
        page.print(f"{least}{counted(many, 'remain')} in {unmarked(file)}")
    if len(counts) > _MOST_SHOWN:
        page.print(f"and some in {len(counts) - _MOST_SHOWN:,} more files")
    twins = "Twins: other rows with the same features, which may stay"
    for title, places, total in (("Remains", report.remains, report.found), (twins, report.twins, len(report.twins))):
        if places:
            cut = f" (the first {_MOST_SHOWN} of {total:,})" if total > _MOST_SHOWN else ""
            cells = [(r.file, f"{r.offset:,}", f"{r.length:,}", f"{r.row:,}", r.what) for r in places[:_MOST_SHOWN]]
            page.print(text_table(title + cut, ("file", "offset", "bytes", "row", "what"), cells))
    for name, files in (
        ("compressed or an archive, not searched", report.not_looked_into),
        ("only ids compared, since its rows are of another form than the table's", report.ids_only),
        ("left out", report.skipped),
        ("not read", tuple(f"{u.file} ({u.why})" for u in report.unreadable)),
    ):
        more = [f"{len(files) - _MOST_SHOWN:,} more"] if len(files) > _MOST_SHOWN else []
        for line in [*map(unmarked, files[:_MOST_SHOWN]), *more]:
            page.print(f"[yellow]{name}:[/] {line}")
    for what, many in report.too_short.items():
        if many:
            one, several, why = _TOO_SHORT[what]
            page.print(f"[yellow]{many:,} {one if many == 1 else several} {why}")
    if report.links:
        page.print(f"[yellow]not opened:[/] {report.links:,} links, pipes, sockets or devices")
    size = f"{counted(report.rows, 'row')}, {counted(report.files, 'file')}, {report.bytes / 1e6:,.1f} MB"
    if report.found:
        page.print(f"[bold red]found {counted(report.found, 'remain')}[/] ({size})")
    elif n := len(report.unseen):
        page.print(f"[bold yellow]nothing found in what could be searched; {counted(n, 'file')} could not[/] ({size})")
    else:
        page.print(f"[bold green]nothing found[/] ({size})")
