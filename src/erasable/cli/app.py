"""The command ``erasable``: parse, call one operation, render."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from erasable.cli.plan import plan
from erasable.cli.reproduce import reproduce
from erasable.errors import ErasableError

app = typer.Typer(
    name="erasable",
    help="Machine learning that can forget, bit for bit.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(version("erasable"))
        raise typer.Exit


@app.callback()
def options(
    show: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Machine learning that can forget, bit for bit."""


app.command()(plan)
app.command()(reproduce)


def main() -> None:
    """Run the command line; an error that was foreseen becomes one line and exit status 2."""
    try:
        app()
    except ErasableError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
