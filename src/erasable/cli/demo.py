"""``erasable demo``: the whole idea in one short run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from erasable.cli._exits import UNVERIFIED
from erasable.cli._shared import Bars, Json, console, print_json, text_table, unmarked

if TYPE_CHECKING:
    from erasable.operations.demo import Demo


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("erasable-demo"),
    as_json: Json = False,
) -> None:
    """Learn, forget, verify, on handwritten digits that come with scikit-learn.

    A hundred people wrote 1,797 digits. A classifier learns to read them, ten people ask to be forgotten, and the
    state that is left is compared, byte for byte, with that of a fresh model that learns the surviving core rows alone.
    The picture needs matplotlib: `pip install 'erasable[figures]'`.

    For example:

    - `erasable demo`

    - `erasable demo --out pictures --json`
    """
    from erasable.operations.demo import demo as run

    with Bars(quiet=as_json) as bars:
        report = run(out, progress=bars.of("more people leave"))
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
            f"{step.stored:,} of {step.offered:,}",
            f"{step.accuracy:.3f}",
            "" if step.seconds is None else f"{step.seconds * 1e3:.2f} ms",
            step.digest[:12],
        )
        for step in report.steps
    ]
    head = ("step", "rows stored", "accuracy", "took", "state digest")
    page.print(text_table("Learn, forget, verify", head, rows))
    for remark in report.remarks:
        for line in remark.splitlines():
            page.print(unmarked(line))
    verdict = "byte for byte the state" if report.same else "NOT the state"
    page.print(f"[bold]{verdict}[/] of a fresh model that learnt the surviving core rows alone.")
    if report.picture is not None:
        page.print(f"picture: {unmarked(report.picture)}", soft_wrap=True)
    if report.no_picture is not None:
        page.print(f"no picture: {unmarked(report.no_picture)}", soft_wrap=True)
