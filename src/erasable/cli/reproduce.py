"""``erasable reproduce``: the paper's experiments in one command."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from erasable.cli._shared import (
    Bars,
    IgnoredColumns,
    Json,
    RandomState,
    console,
    print_json,
    print_whole,
    say,
    text_table,
    unmarked,
)

if TYPE_CHECKING:
    from rich.console import Console

    from erasable.operations.rendering import TextTable
    from erasable.research.reproduce import Results, Settings


@dataclasses.dataclass(frozen=True)
class SettingOptions:
    """What to run: the fields of ``Settings``, apart from the data set."""

    PANEL: ClassVar = "The experiment"
    deletions: Annotated[
        int | None, typer.Option(help="Rows to delete. [default: 80000 on the paper's sets, else 40%]")
    ] = None
    order: Annotated[
        str,
        typer.Option(
            help="In which order: label, uniform, oldest, newest, weights (unusual rows), core-first, subject."
        ),
    ] = "label"
    methods: Annotated[
        str,
        typer.Option(
            help="Which methods, separated by commas. [default: all, which are erasable, logistic (the same with that "
            "loss), retrained, sums, sisa, newton, certified, subsample]",
            show_default=False,
        ),
    ] = "erasable,logistic,retrained,sums,sisa,newton,certified,subsample"
    delete_label: Annotated[
        str | None,
        typer.Option(
            help="The only class to delete. [default: with order `label` the first in sorted order, else all]"
        ),
    ] = None
    kappa: Annotated[
        float | None, typer.Option(help="How much the methods of this package store, 0 to 1. [default: by dataset]")
    ] = None
    capacity: Annotated[float | None, typer.Option(help="Regulariser of the methods of this package. [default: 1]")] = (
        None
    )
    alpha: Annotated[float, typer.Option(help="Ridge regulariser of methods that train on all rows.")] = 1.0
    intercept: Annotated[
        str | None,
        typer.Option(
            help="Which methods have one: all, none, peers (all but ours). [default: none on margin, else all]"
        ),
    ] = None
    shards: Annotated[str, typer.Option(help="What SISA trains on each shard: sgd, ridge.")] = "sgd"
    random_state: RandomState = 0
    repeats: Annotated[int, typer.Option(help="Repeats for the confidence bands.")] = 3
    points: Annotated[int, typer.Option(help="How many times the accuracy is measured.")] = 40
    time_limit: Annotated[
        float, typer.Option(help="Seconds a method may take for requests one at a time; the rest is estimated.")
    ] = 240.0
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A trial run: a tenth of the rows of margin and purchase-like, at most 10,000 of a file, "
            "one repeat, few points.",
        ),
    ] = False
    data: Annotated[str | None, typer.Option(help="Folder with data1.npz and data2.npz, for `purchase`.")] = None
    schema: Annotated[
        str | None,
        typer.Option(help="A public schema that encodes the columns of a file and names their roles.", metavar="FILE"),
    ] = None
    label: Annotated[
        str | None, typer.Option(help="Column of the labels in a file. [default: label, or as in --schema]")
    ] = None
    id: Annotated[str | None, typer.Option(help="Column of the row ids in a file.")] = None
    subject: Annotated[str | None, typer.Option(help="Column that says whose row it is, for order `subject`.")] = None
    ignore: IgnoredColumns = None

    def settings(self, dataset: str) -> Settings:
        """Return the settings of the experiment."""
        from erasable.research.reproduce import Settings

        methods = tuple(name.strip() for name in self.methods.split(",") if name.strip())
        return Settings(dataset, **{**vars(self), "methods": methods, "ignore": tuple(self.ignore or ())})


def reproduce(
    dataset: Annotated[
        str,
        typer.Argument(
            help="`margin`, `margin-uniform`, `purchase` (needs `--data`), `purchase-like`, `digits`, `svm` (Figure 1 "
            "alone), `deletion-time` (Theorem 4.6 alone; takes `--quick`, `--kappa`, `--capacity`, "
            "`--random-state`), or a file: .csv, .parquet, .npz, .svmlight."
        ),
    ],
    given: SettingOptions,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results. [default: reproduction/DATASET]", readable=False)
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of continuing a stopped run.")] = False,
    as_json: Json = False,
) -> None:
    """Compare ways of forgetting, as in the paper, on its data or on yours.

    Every method learns the same rows and then deletes the same ones, one request at a time and again in batches. The
    results: the paper's tables next to the paper's own figures, accuracy curves, trade-offs, and `report.html`.

    A run that was stopped continues where it was when started again with the same settings.

    For example:

    - `erasable reproduce margin --quick`

    - `erasable reproduce margin` (the full run of the paper's Table 2, within 15 minutes)

    - `erasable reproduce customers.parquet --label churned --subject user_id --order subject --ignore day`

    - `erasable reproduce raw.csv --schema schema.toml --order uniform`
    """
    from erasable.research.reproduce import reproduce as run

    settings = given.settings(dataset)
    folder = out if out is not None else Path("reproduction") / settings.name
    if dataset == "svm":
        _draw_figure_1(folder, as_json)
        return
    if dataset == "deletion-time":
        _measure_deletion_time(given, as_json)
        return
    command = "erasable " + shlex.join(sys.argv[1:])
    with Bars(quiet=as_json, remaining=True) as bars:
        results = run(settings, folder, fresh=fresh, watch=bars.tick, command=command)
    if as_json:
        print_json(results)
    else:
        _show_results(results, folder)


def _draw_figure_1(folder: Path, as_json: bool) -> None:
    """Draw the paper's Figure 1 alone."""
    from erasable.operations.rendering import make_folder
    from erasable.research.reproduce import draw_figure_1

    make_folder(folder)
    draw_figure_1(folder)
    if as_json:
        print_json({"figures": [str(folder / name) for name in ("figure1.png", "figure1.svg")]})
    else:
        say(f"{folder / 'figure1.png'} and figure1.svg", aside=True)


def _measure_deletion_time(given: SettingOptions, as_json: bool) -> None:
    """Measure Theorem 4.6 alone."""
    from erasable.research.reproduce import deletion_time_as_json, deletion_time_table, measure_deletion_time

    found = measure_deletion_time(
        20_000 if given.quick else 200_000,
        kappa=0.2 if given.kappa is None else given.kappa,
        capacity=1.0 if given.capacity is None else given.capacity,
        random_state=given.random_state,
    )
    if as_json:
        print_json({"deletion_time": deletion_time_as_json(found)})
    else:
        _show(console(), deletion_time_table(found))


def _show_results(results: Results, folder: Path) -> None:
    """Print the tables of an experiment and what they say."""
    from erasable.research.reproduce import as_in_the_paper, hints, in_detail, speed_ups

    page = console(highlight=True)
    detail = in_detail(results)
    halves = [
        dataclasses.replace(
            detail, head=tuple(detail.head[i] for i in at), rows=[tuple(r[i] for i in at) for r in detail.rows]
        )
        for at in ((0, 1, 2, 3, 4), (0, 5, 6, 7, 8))  # one after the other, so that no number is cut off
    ]
    halves = [dataclasses.replace(halves[0], notes=()), dataclasses.replace(halves[1], title="")]
    for table in (as_in_the_paper(results), *halves):
        _show(page, table)
    for line in [*speed_ups(results), *hints(results)]:
        page.print("•", unmarked(line), highlight=False)
    path = unmarked(str(folder / "report.html"))
    page.print(f"\n[bold]{path}[/] has the pictures; results.json the numbers.", highlight=False, soft_wrap=True)


def _show(page: Console, table: TextTable) -> None:
    shown = text_table(table.title, table.head, table.rows, bold=lambda row: row[0].startswith("Algorithm 1"))
    print_whole(page, shown)
    for note in table.notes:
        page.print(unmarked(note), style="dim")
