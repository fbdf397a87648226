"""``erasable moments``: second moments of a public table, for independent selection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._shared import Bars, CsvOptions, IgnoredColumns, Json, counted, print_json, say
from erasable.errors import ConfigurationError


def moments(
    data: Annotated[
        list[str],
        typer.Argument(help="A PUBLIC table of numbers: .csv, .parquet, .npz, several files of one, or `-`."),
    ],
    csv: CsvOptions,
    out: Annotated[Path, typer.Option("-o", "--out", help="The .npy file to write.", readable=False)],
    matrix: Annotated[
        bool,
        typer.Option(
            "--matrix",
            help="Write the moments of all pairs of features: for embeddings, whose features depend on each other.",
        ),
    ] = False,
    ignore: IgnoredColumns = None,
    as_json: Json = False,
) -> None:
    """Compute the second moments of a public table, which tell `learn --selection independent` which rows are unusual.

    The table must be public: moments become part of every model that is learnt with them, and they are never
    forgotten. Do not make them from rows that somebody may ask you to forget.

    All columns are features unless `--ignore` names them; they must be those of the table that is learnt, in the same
    order. Each row is divided by its norm, as `learn` does by default. The table is read in blocks.

    For example:

    - `erasable moments public.parquet --ignore label -o moments.npy`

    - `erasable moments embeddings.parquet --matrix -o moments.npy`

    - `erasable learn data.parquet --selection independent --moments moments.npy --id row_id -o model.erasable`
    """
    from erasable.operations.moments import table_moments

    if any(os.path.exists(path) and out.exists() and os.path.samefile(path, out) for path in data):
        raise ConfigurationError(f"{out} is read here, and its moments would replace it: choose another name.")
    with Bars(quiet=as_json) as bars:
        found = table_moments(
            data[0] if len(data) == 1 else data,
            matrix=matrix,
            ignore=ignore or (),
            dialect=csv.dialect,
            progress=lambda done, total: bars.tick("reading", done, total or done),
        )
    found.save(out)
    shape = list(found.moments.shape)
    if as_json:
        print_json({"moments": str(out), "shape": shape, "rows": found.rows, "features_always_zero": found.raised})
        return
    say(f"{out}: second moments of {counted(shape[0], 'feature')}, from {counted(found.rows, 'row')}.")
    if found.raised:
        say(f"{counted(found.raised, 'feature')} zero in every row: given the smallest moment of the others.")
    say("They become part of a model and are never forgotten, so the table must be public.")
