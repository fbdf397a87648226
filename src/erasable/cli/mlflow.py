"""``erasable mlflow``: registered copies of a model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._shared import Bars, Json, print_json, say

app = typer.Typer(name="mlflow", help="Copies of a model in an MLflow registry.", no_args_is_help=True)


@app.command()
def stale(
    model: Annotated[Path, typer.Argument(help="The live model file, which requests are carried out on.")],
    name: Annotated[str, typer.Option("--name", help="The registered model.")],
    tracking_uri: Annotated[
        str | None, typer.Option(help="Where MLflow keeps its records. [default: as MLflow is set up]")
    ] = None,
    registry_uri: Annotated[str | None, typer.Option(help="Where its registry is. [default: the same]")] = None,
    as_json: Json = False,
) -> None:
    """List the registered versions that hold rows which the live model lacks: copies that no forgetting reached.

    Rows are compared by their ids; no id is shown. Exit code 1: there are such versions. Delete them, with their
    artifacts, and register the live model anew.

    For example:

    - `erasable mlflow stale credit.erasable --name credit`
    """
    from erasable.mlflow import stale as stale_versions

    with Bars(quiet=as_json) as bars:
        found, seen = stale_versions(
            model, name, tracking_uri=tracking_uri, registry_uri=registry_uri, progress=bars.of("looking into versions")
        )
    if as_json:
        print_json({"model": str(model), "name": name, "looked_at": seen, "stale": [asdict(one) for one in found]})
    else:
        for one in found:
            called = f" ({', '.join(one.aliases)})" if one.aliases else ""
            say(f"version {one.version}{called}: {one.rows_gone:,} of its {one.core_rows:,} rows are not in {model}")
        say(f"{len(found)} of {seen} versions of {name} hold rows that the live model lacks.")
    if found:
        raise typer.Exit(1)
