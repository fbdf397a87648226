"""``erasable predict``: labels, or numbers, for the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._shared import (
    Bars,
    ColumnNames,
    Decimal,
    Encoding,
    Header,
    Json,
    ModelPath,
    Sep,
    Thousands,
    counted,
    dialect_of,
    encoding_as_json,
    print_json,
    say,
    show_encoding,
    show_scores,
    visible,
)
from erasable.errors import ConfigurationError

if TYPE_CHECKING:
    from erasable.schemas import EncodingReport

_BY_POSITION = (
    "this model stores no names of columns (give feature_names= when it is made, or make it with erasable learn): "
    "columns are taken in the order of the table"
)


def predict(
    model: ModelPath,
    data: Annotated[
        list[str],
        typer.Argument(
            help="The table, or several files of one, as for `learn`; `-` is standard input. Columns are found by name "
            "where the model has their names, else taken in their order."
        ),
    ],
    out: Annotated[
        str | None, typer.Option("-o", "--out", help="A .csv or .jsonl file. [default: CSV on standard output]")
    ] = None,
    id: Annotated[str | None, typer.Option(help="Column of the row ids, to have them beside the predictions.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of known labels: they are set beside the predictions, which are scored.")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help="The same for a regression: column of known numbers; may be given again.", metavar="COLUMN"),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="Column that is no feature, for models without names; may be repeated.", metavar="COLUMN"),
    ] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add the probability of every class.")] = False,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    header: Header = None,
    columns: ColumnNames = None,
    as_json: Json = False,
) -> None:
    """Predict labels, or numbers, for the rows of a table, which may be larger than memory.

    A table that lacks a column of the model is refused, by its name; columns that the model does not know are left
    alone, and named on standard error (`--ignore` says that they are meant to be). A model with a schema takes raw
    tables, and says which cells were missing, unknown, unparsable or clipped.

    For example:

    - `erasable predict model.erasable new.parquet --id row_id -o predictions.csv`

    - `erasable predict model.erasable test.csv --label churned --probabilities`
    """
    import sys

    from erasable.models.files import read_model
    from erasable.operations.predict import by_position, predict_table, refuse_overwriting, write_records
    from erasable.tables.reading import listed

    if as_json and out in (None, "-"):
        raise ConfigurationError("--json tells what was done, so the predictions need a file: give -o FILE.")
    loaded, _ = read_model(model)
    refuse_overwriting(out, model, data)
    warnings = [_BY_POSITION] if by_position(loaded, data) else []
    tally = None
    if label is not None or target:
        from erasable.operations.scoring import Tally

        tally = Tally()
    told: list[EncodingReport] = []
    unused: list[str] = []
    on_screen = out in (None, "-") and sys.stdout.isatty()  # elsewhere predictions are data, and stay as they are

    def shown() -> Iterator[dict[str, Any]]:
        for record in records:
            yield {visible(name): _shown(value) for name, value in record.items()} if on_screen else record

    with Bars(quiet=as_json) as bars:
        records = predict_table(
            loaded,
            data,
            id=id,
            label=label,
            targets=target or (),
            ignore=ignore or (),
            probabilities=probabilities,
            tally=tally,
            encoding=told.append,
            dialect=dialect_of(sep, encoding, decimal, thousands, header, columns),
            unused=unused.extend,
            progress=lambda done, total: bars.tick("predicting", done, total or done),
        )
        rows = write_records(shown(), out)
    scores = None if tally is None else tally.scores(loaded.classes)
    warnings += scores.warnings if scores is not None else ()
    if as_json:
        figures = None if scores is None else scores.as_json()
        cells = {"encoding": encoding_as_json(told[0])} if told else {}
        done = {"model": str(model), "rows": rows, "out": out, "scores": figures, "unused_columns": unused}
        print_json({**done, **cells, "warnings": warnings})
        return
    if unused:
        say(f"note: the model does not use these columns of the table: {listed([*map(repr, unused)])}", aside=True)
    for warning in warnings:
        say(f"warning: {warning}", aside=True)
    say(f"{counted(rows, 'row')} predicted", aside=True)
    for report in told:
        show_encoding(replace(report, extra=()), aside=True)  # those are among the unused columns
    if scores is not None:
        show_scores(scores, aside=True)


def _shown(value: Any) -> Any:
    return visible(value) if isinstance(value, str) else value
