"""The command ``erasable``: parse, call one operation, render."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

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


@app.callback()
def version_only() -> None:
    """Machine learning that can forget, bit for bit."""


app.command()(plan)
app.command()(reproduce)


def main() -> None:
    """Run the command line; an error that was foreseen becomes one line and exit status 2."""
    try:
        app()
    except ErasableError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {error}", markup=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
