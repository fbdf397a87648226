"""``erasable bench``: how fast it is on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from erasable.cli._shared import Bars, Json, console, print_json, text_table

if TYPE_CHECKING:
    from erasable.research.bench import Bench


def bench(
    rows: Annotated[int, typer.Option(help="Rows to learn.")] = 50_000,
    features: Annotated[int, typer.Option(help="Numbers in a row.")] = 100,
    rounds: Annotated[int, typer.Option(help="How often each thing is measured.")] = 5,
    as_json: Json = False,
) -> None:
    """Measure learning, forgetting and verifying beside ordinary ridge regression, on this machine.

    The contestants take turns on the paper's Margin set; figures are medians. The defaults take about ten seconds.

    For example:

    - `erasable bench`

    - `erasable bench --rows 20000 --features 300 --json`
    """
    from erasable.research.bench import bench as run

    with Bars(quiet=as_json) as bars:
        report = run(rows, features, rounds=rounds, progress=bars.tick)
    if as_json:
        print_json(report.as_json())
    else:
        show(report)


def show(report: Bench) -> None:
    """Print what was measured."""
    from erasable.research.measuring import in_words

    page = console()
    lines = [(m.name, _time(m.ours_s), m.other, _time(m.other_s), f"{m.ratio:,.3g}×") for m in report.measurements]
    title = f"{report.rows:,} rows × {report.features:,} features, medians of {report.rounds} rounds"
    page.print(text_table(title, ("", "erasable", "compared with", "takes", "ratio"), lines))
    share = 100 * report.core_rows / report.rows
    page.print(
        f"{report.core_rows:,} rows stored ({share:.3g}%), accuracy {report.accuracy:.3f}; "
        f"ridge stores all, accuracy {report.other_accuracy:.3f}.",
        markup=False,
    )
    page.print(in_words(report.machine), style="dim", markup=False)


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
