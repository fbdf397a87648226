"""``erasable scan``: whether anything is left of rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from erasable.cli._shared import (
    Bars,
    ColumnNames,
    Decimal,
    Encoding,
    Header,
    Json,
    Sep,
    Thousands,
    console,
    counted,
    dialect_of,
    print_json,
    text_table,
    unmarked,
)
from erasable.cli.app import BAD_FILE, FAILED

if TYPE_CHECKING:
    from rich.console import Console

    from erasable.audit.scan import Remain, ScanReport

_MOST_SHOWN = 40
_COMPARED = "[/] there, only models were compared"
_NOT_TOLD = {  # of one, of several, and what that means
    "ids": ("id is", "ids are", f"too short for text:{_COMPARED}"),
    "subjects": ("subject is", "subjects are", f"too short for text:{_COMPARED}"),
    "rows": ("row has", "rows have", f"too little to be told by in some encoding:{_COMPARED}"),
    "texts": ("text of a cell is", "texts of cells are", "too short to tell a row:[/] not looked for alone"),
    "numbers": ("number has", "numbers have", "too few digits to tell a row:[/] not looked for as text"),
    "cells": ("cell is", "cells are", "more than are looked for:[/] of each row, the first ones were"),
}


def scan(
    folder: Annotated[Path, typer.Argument(help="Every file below it is looked at.", readable=False)],
    rows: Annotated[
        list[str],
        typer.Option(
            "--for", help="The rows to look for: a file or pattern, as for `learn`; may be given again.", metavar="FILE"
        ),
    ],
    schema: Annotated[
        Path | None,
        typer.Option(
            help="The schema of a raw table. [default: that of the models in the folder, where they have the same]",
            readable=False,
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of the labels; it need not be there. [default: label]")
    ] = None,
    id: Annotated[str | None, typer.Option(help="Column of the row ids, which are looked for too.")] = None,
    subject: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of the subjects, when nothing of them should be left; may be given again. Not taken from a "
            "schema.",
            metavar="COLUMN",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            help="Column that is no feature, where models in the folder do not name theirs; may be given again.",
            metavar="COLUMN",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Names or paths not to look into, such as `*.parquet`; may be repeated.")
    ] = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    header: Header = None,
    columns: ColumnNames = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 5 also when a file could not be looked into, or only in part.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Look for remains of rows in every file of a folder: hidden, temporary and left-over ones included.

    Whole rows are searched for as float32, as float64 and as the integers that models store; ids and subjects as text,
    and so are numbers of seven digits or more and, of raw tables, texts of eight bytes or more. Parquet files are
    decoded; other compressed files cannot be searched, and are listed.

    Exit code 0: nothing found in what could be looked into. Exit code 1: something found. Exit code 5: nothing found,
    but some file could not be read; with `--strict` also when one is compressed or an archive, or when only the ids of
    a model could be compared. What `--exclude` names does not count.

    For example:

    - `erasable scan models/ --for deleted.parquet --id row_id --ignore user_id`

    - `erasable scan . --for deleted.parquet --id row_id --exclude "*.parquet" --strict`
    """
    from erasable.operations.scan import scan_for

    with Bars(quiet=as_json, remaining=True) as bars:
        report = scan_for(
            folder,
            rows,
            label=label,
            id=id,
            subject=subject,
            ignore=ignore or (),
            schema=schema,
            exclude=exclude or (),
            dialect=dialect_of(sep, encoding, decimal, thousands, header, columns),
            progress=bars.of("looking"),
        )
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
    blind = report.unseen if strict else report.unreadable
    if report.found or blind:
        raise typer.Exit(FAILED if report.found else BAD_FILE)


def _show(report: ScanReport) -> None:
    page = console(soft_wrap=True)
    if report.remains:
        counts = Counter(r.file for r in report.remains).most_common()
        least = "at least " if report.found > len(report.remains) else ""  # not all are listed
        for file, many in counts[:_MOST_SHOWN]:
            page.print(f"{least}{counted(many, 'remain')} in {unmarked(file)}")
        if len(counts) > _MOST_SHOWN:
            page.print(f"and some in {len(counts) - _MOST_SHOWN:,} more files")
        _table(page, "Remains", report.remains, report.found)
    if report.twins:
        _table(page, "Twins: other rows with the same features, which may stay", report.twins, len(report.twins))
    for name, files in (
        ("compressed or an archive, not looked into", report.not_looked_into),
        ("only ids compared, since its rows are of another form than the table's", report.ids_only),
        ("left out", report.skipped),
        ("not read", tuple(f"{u.file} ({u.why})" for u in report.unreadable)),
    ):
        for file in files[:_MOST_SHOWN]:
            page.print(f"[yellow]{name}:[/] {unmarked(file)}")
        if len(files) > _MOST_SHOWN:
            page.print(f"[yellow]{name}:[/] {len(files) - _MOST_SHOWN:,} more")
    for what, many in report.too_short.items():
        if many:
            one, several, why = _NOT_TOLD[what]
            page.print(f"[yellow]{many:,} {one if many == 1 else several} {why}")
    if report.links:
        page.print(f"[yellow]not opened:[/] {report.links:,} links, pipes, sockets or devices")
    size = f"{counted(report.rows, 'row')}, {counted(report.files, 'file')}, {report.bytes / 1e6:,.1f} MB"
    if report.found:
        page.print(f"[bold red]found {counted(report.found, 'remain')}[/] ({size})")
    elif n := len(report.unseen):
        could_not = f"{counted(n, 'file')} could not"
        page.print(f"[bold yellow]nothing found in what could be looked into; {could_not}[/] ({size})")
    else:
        page.print(f"[bold green]nothing found[/] ({size})")


def _table(page: Console, title: str, found: tuple[Remain, ...], total: int) -> None:
    more = f" (the first {_MOST_SHOWN} of {total:,})" if total > _MOST_SHOWN else ""
    cells = [(r.file, f"{r.offset:,}", f"{r.length:,}", f"{r.row:,}", r.what) for r in found[:_MOST_SHOWN]]
    page.print(text_table(title + more, ("file", "offset", "bytes", "row", "what"), cells))
