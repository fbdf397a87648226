"""The command ``erasable``: parse, call one operation, render."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from erasable.cli._exits import (
    BAD_INPUT,
    DONE,
    EXIT_CODES,
    FAILED,
    INTERRUPTED,
    as_options,
    before_dashes,
    exit_code,
    message,
    mute,
    report,
    wants_json,
)
from erasable.cli._shared import say
from erasable.errors import ErasableError


@dataclass(frozen=True)
class Entry:
    """A line of ``erasable --help``, and the module that is imported when the command is run."""

    module: str
    panel: str
    line: str


#: Every command. A module holds a function of its command's name, or ``app``, a Typer, for a group of commands.
COMMANDS = {
    "learn": Entry("erasable.cli.learn", "Model", "Learn rows of a table into a model file, new or existing."),
    "forget": Entry("erasable.cli.forget", "Model", "Forget rows or all rows of subjects, durably."),
    "verify": Entry("erasable.cli.verify", "Model", "Recompute a model from its own rows and compare every bit."),
    "predict": Entry("erasable.cli.predict", "Model", "Predict labels for the rows of a table."),
    "inspect": Entry("erasable.cli.inspect", "Model", "Show configuration, size and digest; no rows unless asked."),
    "export": Entry("erasable.cli.export", "Model", "Write the weights for other programs, stamped with the digest."),
    "replay": Entry("erasable.cli.replay", "Model", "Forget again, after a restore, who was erased since the backup."),
    "schema": Entry("erasable.cli.schema", "Model", "Draft a public schema for a raw table, or hold one against it."),
    "receipt": Entry("erasable.cli.receipt", "Proof", "Check receipts of forgetting."),
    "keys": Entry("erasable.cli.keys", "Proof", "Make keys that sign receipts."),
    "scan": Entry("erasable.cli.scan", "Proof", "Look for remains of rows in every file of a folder."),
    "audit": Entry("erasable.cli.audit", "Proof", "Attack a way of forgetting, and report what works."),
    "evidence": Entry("erasable.cli.evidence", "Proof", "Write a page about a model and its receipts, to be filed."),
    "mlflow": Entry("erasable.cli.mlflow", "Proof", "List registered copies of a model that hold forgotten rows."),
    "serve": Entry("erasable.cli.serve", "Service", "Serve models: predictions out, erasure requests in."),
    "token": Entry("erasable.cli.token", "Service", "Make, list and revoke tokens of the service."),
    "purge": Entry("erasable.cli.purge", "Service", "Erase settled requests from the ledger of a service."),
    "plan": Entry("erasable.cli.plan", "Research", "Choose parameters; foresee accuracy, storage and lifetime."),
    "reproduce": Entry("erasable.cli.reproduce", "Research", "Run the paper's experiments, on its data or on yours."),
    "demo": Entry("erasable.cli.demo", "Research", "Learn, forget, verify: the whole idea in one short run."),
}


def load_command(name: str) -> Any:
    """The command of this name, its module imported."""
    module = import_module(COMMANDS[name].module)
    if isinstance(group := getattr(module, "app", None), typer.Typer):
        group.rich_markup_mode = "markdown"
        command: Any = typer.main.get_group(group)
        command.no_args_is_help = True
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        alone.command(name)(getattr(module, name))
        command = typer.main.get_command(alone)
    command.name = name
    for leaf in getattr(command, "commands", {name: command}).values():
        leaf.callback = _finishing(leaf.callback)
    return command


def _finishing(work: Callable[..., object]) -> Callable[..., object]:
    """The same command; what it returns says that it ran to its end."""

    @wraps(work)
    def finished(*args: Any, **kwargs: Any) -> object:
        work(*args, **kwargs)
        return _FINISHED

    return finished


class LazyGroup(TyperGroup):
    """Lists commands without importing them; the one that is run, helped with or completed is imported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.line, rich_help_panel=entry.panel))

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the table."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name, the command itself, and the arguments left."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest


_EPILOG = "\n\n".join(
    [
        "With `--json`, results and errors are JSON on standard output. `--install-completion` teaches your shell to "
        "complete commands and options with the tab key.",
        "**Exit codes**",
        *(f"- {code}: {meaning}" for code, meaning in EXIT_CODES.items()),
    ]
)

app = typer.Typer(
    name="erasable",
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(version("erasable"))
        raise typer.Exit


@app.callback(epilog=_EPILOG)
def options(
    show: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Machine learning that can forget, bit for bit."""


# Of all errors in a command line. Typer exports only the most special one, and it may bring its own copy of Click.
_ClickException: type[Exception] = typer.BadParameter.__mro__[2]


def main() -> None:
    """Run the command line and end the process; an error that was foreseen becomes one line and an exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # whoever started this has closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    warnings.showwarning = _show_warning
    sys.exit(run(sys.argv[1:]))


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning of Python's as one line, without the place in our code."""
    say(f"warning: {as_options(str(message))}", aside=True)


def run(arguments: list[str]) -> int:
    """Run one command and get its exit code; see ``EXIT_CODES``.

    Only what nobody foresaw is raised.
    """
    as_json = wants_json(arguments)
    try:
        result = typer.main.get_command(app).main(arguments, prog_name="erasable", standalone_mode=False)
        sys.stdout.flush()  # here, where an error can still be told
        code = result if isinstance(result, int) else DONE
        if code == DONE and result is not _FINISHED and not _asked_to_show(arguments):
            code, kind, text = FAILED, "NotRunError", _NOT_RUN
        elif code != INTERRUPTED:
            return code
        else:
            kind, text = "KeyboardInterrupt", _INTERRUPTED
    except BrokenPipeError:  # who read our output has seen enough
        mute(sys.stdout)
        return FAILED
    except (ErasableError, OSError, MemoryError) as error:
        code, kind, text = exit_code(error), type(error).__name__, message(error)
    except (KeyboardInterrupt, typer.Abort):
        code, kind, text = INTERRUPTED, "KeyboardInterrupt", _INTERRUPTED
    except _ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help is on the screen already
            return BAD_INPUT
        code, kind, text = getattr(error, "exit_code", BAD_INPUT), "UsageError", _usage(error)
    except Exception as error:
        if as_json:
            report(type(error).__name__, "unexpected: see the traceback on standard error.", FAILED, as_json=True)
        raise
    report(kind, text, code, as_json=as_json)
    return code


#: What a command returns when it has run to its end; nothing else is success.
_FINISHED = object()
_SHOWING = {"--help", "--version", "--install-completion", "--show-completion"}
_NOT_RUN = (
    "the command did not run to its end and may have done nothing: the installed versions of typer and click may not "
    "fit together. Install typer 0.20 or later, and run it again."
)


def _asked_to_show(arguments: list[str]) -> bool:
    """Whether text about the commands was asked for, and no work; a group without arguments shows its help."""
    match arguments:
        case []:
            return True
        case [name] if name in COMMANDS:
            return hasattr(load_command(name), "commands")
        case _:
            return not _SHOWING.isdisjoint(before_dashes(arguments))


_INTERRUPTED = "interrupted: every file is as before the command or as after it; run it again to be sure."


def _usage(error: Any) -> str:
    """A usage error on one line, with where to read on."""
    where = getattr(getattr(error, "ctx", None), "command_path", "erasable")
    text = " ".join(error.format_message().split()).rstrip(".")
    if text.startswith("Got unexpected extra argument"):  # which may be an id, or the name of a person
        text = text.partition(" (")[0]
    return f"{text}{'' if text.endswith('?') else '.'} See {where} --help."
