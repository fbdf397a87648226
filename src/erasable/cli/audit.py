"""``erasable audit``: attack a method, or the method of a model file, and report which attacks work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from erasable.cli._shared import (
    Bars,
    IgnoredColumns,
    Json,
    LabelColumn,
    RandomState,
    console,
    print_json,
    text_table,
    unmarked,
)
from erasable.cli.app import FAILED
from erasable.errors import ConfigurationError

if TYPE_CHECKING:
    from erasable.research.attacks import Audit


_Method = Annotated[
    str,
    typer.Argument(
        help="A model file, whose parameters are taken, or a method: linear, logistic, sample, independent, regressor, "
        "kernel, general; retrained, sisa, newton, newton-squared, certified, interpolated; plain, soft-delete; "
        "forgets-nothing, forgets-late, keeps-log, tombstone.",
        metavar="METHOD | MODEL",
    ),
]
_Data = Annotated[
    str,
    typer.Option(
        help="Rows to learn and to forget: `digits`, `margin`, `breast_cancer`, or a table of numbers (.csv, .parquet, "
        ".npz, .svmlight); for a model with a schema, a raw table that it encodes."
    ),
]
_Group = Annotated[
    str | None,
    typer.Option(
        help="Run no attack: show the share of rows that the model stores, by the values of this column. Needs `--id`.",
        metavar="COLUMN",
    ),
]


def audit(
    method: _Method,
    data: _Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for `audit.html` and `audit.json`.")] = Path("audit"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rows, trials and models: under two minutes.")] = False,
    label: LabelColumn = None,
    id: Annotated[str | None, typer.Option(help="Column of the row ids; it is not a feature.")] = None,
    ignore: IgnoredColumns = None,
    group: _Group = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes to use; the figures do not depend on it.")] = 1,
    random_state: RandomState = 0,
    as_json: Json = False,
) -> None:
    """Attack a way of forgetting with everything that its state reveals, and report what works.

    Models learn half of the rows at a time and forget some. Attackers who read everything stored then try to tell
    forgotten rows from rows that were never learnt: by last bits, by remains, by shadow models, by snapshots, by which
    rows were kept. The command prints a table of verdicts; `audit.html` shows the curves, and `audit.json` has all
    figures, also for `erasable evidence --audit`. Both hold counts and shares, no rows and no ids.

    Exit code 0: the state after forgetting was that of learning the stored rows, bit for bit, and neither last bits nor
    memory nor file held the row. Exit code 1: it was not, or they did. If a method adds noise, bits cannot be compared;
    exit code 0 then means that the others found nothing.

    For example:

    - `erasable audit linear --data digits --quick`

    - `erasable audit model.erasable --data customers.parquet --label churned --id row_id --ignore user_id`

    - `erasable audit model.erasable --data customers.csv --id row_id --group country` (who is stored)
    """
    if group is not None:
        if quick or label is not None or ignore or workers > 1:
            raise ConfigurationError("--group runs no attack: leave out --quick, --label, --ignore and --workers.")
        _show_groups(method, data, id, group, as_json=as_json)
        return
    from erasable.operations.rendering import make_folder
    from erasable.research.attacks import FULL, QUICK, page, rows_named, target_named
    from erasable.research.attacks import audit as run
    from erasable.store import write_text

    sizes = QUICK if quick else FULL
    target = target_named(method)
    name, X, y = rows_named(data, label=label, id=id, ignore=ignore or (), most=sizes.rows, schema=target.schema)
    make_folder(out)
    with Bars(quiet=as_json, remaining=True) as bars:
        found = run(target, X, y, data=name, sizes=sizes, random_state=random_state, workers=workers, watch=bars.tick)
    write_text(out / "audit.html", page(found))
    write_text(out / "audit.json", json.dumps(found.as_json(), indent=1, allow_nan=False))
    if as_json:
        print_json(found.as_json())
    else:
        show(found, out)
    if not found.holds:
        raise typer.Exit(FAILED)


def show(found: Audit, out: Path) -> None:
    """Print the verdicts."""
    page = console()
    head = ("attack", "verdict", "area under curve")
    areas = [(o, o.figures.auc) for o in found.outcomes]
    rows = [(f"({o.letter}) {o.name}", o.verdict, f"{e.value:.3f} ({e.low:.3f} to {e.high:.3f})") for o, e in areas]
    title = f"{found.title} on {found.data}: {found.rows:,} rows × {found.features:,} features"
    page.print(text_table(title, head, rows))
    same = f"states equal to learning the stored rows, bit for bit: {found.same_bits}"
    page.print(f"{same}; {100 * found.stored_share:.3g}% of the rows offered are stored.")
    nothing = "no trace was seen" if found.noisy else "the state holds nothing of the rows that left"
    page.print(f"[bold]{nothing if found.holds else 'forgetting left a trace'}[/]")
    open_ones = sum(o.letter not in "ab" and not o.figures.at_chance for o in found.outcomes)
    if found.holds and open_ones:
        page.print(f"{open_ones} attacks that this does not rule out reveal something: see the page.")
    page.print(f"{unmarked(out / 'audit.html')} has the curves, audit.json the figures.", soft_wrap=True)


def _show_groups(path: str, data: str, id: str | None, group: str, *, as_json: bool) -> None:
    """Print the share of rows that a model stores, by group."""
    from erasable.estimators import load
    from erasable.research.attacks.groups import kept_by_group, read_groups

    if id is None:
        raise ConfigurationError("--group needs --id: the column that identifies stored rows.")
    stored = load(path).core_ids_.tolist()
    found = kept_by_group(stored, *read_groups(data, id, group, type(stored[0]) if stored else str))
    if as_json:
        print_json({"groups": [kept.as_json() for kept in found]})
        return
    overall = sum(kept.stored for kept in found) / sum(kept.offered for kept in found)
    rows = [
        (
            kept.group,
            f"{kept.offered:,}",
            f"{kept.stored:,}",
            f"{100 * kept.share.value:.1f}%",
            f"{100 * kept.share.low:.1f}% to {100 * kept.share.high:.1f}%",
            f"{kept.share.value / overall:.2f}×",
        )
        for kept in found
    ]
    head = (group, "rows", "stored", "share", "99% interval", "of the average")
    console().print(text_table(f"Who is stored: {100 * overall:.1f}% of all rows", head, rows))
