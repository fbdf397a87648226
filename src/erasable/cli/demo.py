"""``erasable demo``: the whole idea in one short run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from erasable.cli._shared import Bars, Json, console, print_json, say, text_table, unmarked
from erasable.cli.app import UNVERIFIED

if TYPE_CHECKING:
    from erasable.research.demo import Demo


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and the picture.")] = Path("erasable-demo"),
    as_json: Json = False,
) -> None:
    """From a raw table to a model that forgets, on made-up orders of a shop.

    Twenty thousand orders, with text, dates, rare towns and missing cells, become a model through a public schema. A
    hundred customers ask to be forgotten, and the file that is left is compared, byte for byte, with that of a fresh
    model that learns all surviving rows. The picture needs matplotlib: `pip install 'erasable[figures]'`.

    For example:

    - `erasable demo`

    - `erasable demo --out pictures --json`
    """
    from erasable.research.demo import demo as run

    with Bars(quiet=as_json) as bars:
        report = run(out, progress=bars.of("more customers leave"))
    if as_json:
        print_json(report.as_json())
    else:
        show(report)
    if not report.same:
        raise typer.Exit(UNVERIFIED)


def show(report: Demo) -> None:
    """Print what the demo did."""
    page = console()
    rows = [
        (
            step.name,
            "" if step.stored is None else f"{step.stored:,} of {step.offered:,}",
            "" if step.auc is None else f"{step.auc:.3f}",
            "" if step.seconds is None else f"{step.seconds:.2f} s",
            "" if step.digest is None else step.digest[:12],
        )
        for step in report.steps
    ]
    head = ("step", "rows stored", "AUC", "took", "sha256 of the model")
    page.print(text_table("From a raw table to a model that forgets", head, rows))
    for remark in report.remarks:
        for line in remark.splitlines():
            page.print(unmarked(line))
    page.print(
        f"AUC, on orders that were not learnt, of scikit-learn's usual pipeline on all rows: {report.usual:.3f}."
    )
    verdict = "byte for byte the file" if report.same else "NOT the file"
    page.print(f"[bold]{verdict}[/] of a fresh model that learnt all surviving rows.")
    if report.picture is not None:
        page.print(f"picture: {unmarked(report.picture)}", soft_wrap=True)
    if report.no_picture is not None:
        page.print(f"no picture: {unmarked(report.no_picture)}", soft_wrap=True)
    if report.table is not None:
        say("Go on with the table yourself:")
        for line in commands(report.table):
            say(line)


def commands(table: str) -> list[str]:
    """The first steps of the demo, to be typed."""
    table = shlex.quote(table)
    return [
        f"erasable schema {table} --label returned --id order --subject customer -o schema.toml",
        f"erasable learn {table} --schema schema.toml -o model.erasable",
    ]
