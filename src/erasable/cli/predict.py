"""``erasable predict``: labels, or numbers, for the rows of a table."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._shared import (
    Bars,
    CsvOptions,
    Json,
    ModelPath,
    counted,
    encoding_as_json,
    print_json,
    say,
    show_encoding,
    show_scores,
    visible,
)
from erasable.errors import ConfigurationError

if TYPE_CHECKING:
    from erasable.operations.predict import Predictions

_BY_POSITION = (
    "this model stores no names of columns (give feature_names= when it is made, or make it with erasable learn): "
    "columns are taken in the order of the table"
)

_TRAINED_AGAIN = (
    "note: the learner next to the file was trained with {} {}, and another version is installed. It was trained "
    "again; predictions may differ from earlier ones."
)

Data = Annotated[
    list[str],
    typer.Argument(
        help="The table, or several files of one, as for `learn`; `-` is standard input. Columns are found by name if "
        "the model has their names, else taken in their order."
    ),
]

Ignore = Annotated[
    list[str] | None,
    typer.Option(
        help="Column that is not a feature, for models without feature names. Repeat it for several.", metavar="COLUMN"
    ),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        help="For a model with a learner: train it, and neither read nor write the fitted learner next to the file. "
        "Only LightGBM is kept there, if training took a second or more; `forget` and `learn` erase it.",
    ),
]


def predict(
    model: ModelPath,
    data: Data,
    csv: CsvOptions,
    out: Annotated[
        str | None, typer.Option("-o", "--out", help="A .csv or .jsonl file. [default: CSV on standard output]")
    ] = None,
    id: Annotated[
        str | None, typer.Option(help="Column of the row ids, to print them next to the predictions.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Column of known labels: printed next to the predictions, and used to score them."),
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="For a regression: column of known numbers.", metavar="COLUMN")
    ] = None,
    ignore: Ignore = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add the probability of every class.")] = False,
    no_cache: NoCache = False,
    as_json: Json = False,
) -> None:
    """Predict labels, or numbers, for the rows of a table, which may be larger than memory.

    A table that lacks a column of the model is refused. Columns that the model does not use are named on standard error
    unless `--ignore` names them. A model with a schema takes raw tables, and counts cells that it could not use.

    For example:

    - `erasable predict model.erasable new.parquet --id row_id -o predictions.csv`

    - `erasable predict model.erasable test.csv --label churned --probabilities`
    """
    from erasable.models.files import keep_learner, read_model
    from erasable.operations.predict import Predictions, refuse_overwriting, write_records

    if as_json and out in (None, "-"):
        raise ConfigurationError("--json reports what was done, so the predictions need a file: give -o FILE.")
    loaded, checksum = read_model(model, cached=not no_cache)
    held: Any = loaded.cache.get("learner")
    refuse_overwriting(out, model, data)
    on_screen = out in (None, "-") and sys.stdout.isatty()  # elsewhere predictions are data and stay unchanged
    with Bars(quiet=as_json) as bars:
        found = Predictions(
            loaded,
            data,
            id=id,
            label=label,
            targets=target or (),
            ignore=ignore or (),
            probabilities=probabilities,
            dialect=csv.dialect,
            progress=lambda done, total: bars.tick("predicting", done, total or done),
        )
        rows = write_records(map(_visible, found) if on_screen else found, out)
    if held is not None and not held.usable:
        say(_TRAINED_AGAIN.format(held.facts.library, held.facts.version), aside=True)
    if not no_cache and loaded.cache.get("learner") is not held:
        keep_learner(model, loaded, checksum)
    _show(found, {"model": str(model), "rows": rows, "out": out}, as_json=as_json)


def _show(found: Predictions, done: dict[str, Any], *, as_json: bool) -> None:
    """Print the result; the predictions are written already."""
    from erasable.tables.reading import listed

    scores = found.scores()
    warnings = [*([_BY_POSITION] if found.by_position else []), *(() if scores is None else scores.warnings)]
    if as_json:
        done |= {"scores": None if scores is None else scores.as_json(), "unused_columns": list(found.unused)}
        cells = {} if found.encoding is None else {"encoding": encoding_as_json(found.encoding)}
        print_json({**done, **cells, "warnings": warnings})
        return
    if found.unused:
        unused = listed([*map(repr, found.unused)])
        say(f"note: the model does not use these columns of the table: {unused}", aside=True)
    for warning in warnings:
        say(f"warning: {warning}", aside=True)
    say(f"{counted(done['rows'], 'row')} predicted", aside=True)
    if found.encoding is not None:
        show_encoding(replace(found.encoding, extra=()), aside=True)  # the note above names the extra columns
    if scores is not None:
        show_scores(scores, aside=True)


def _visible(record: dict[str, Any]) -> dict[str, Any]:
    return {visible(name): visible(v) if isinstance(v, str) else v for name, v in record.items()}
