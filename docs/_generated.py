"""Reference pages that are generated from the program: commands, exit codes, errors, the HTTP interface."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import typer.main

from erasable import errors
from erasable.cli.app import COMMANDS, EXIT_CODES, load_command
from erasable.service.http.app import create_app


def write(folder: Path) -> None:
    """Write the pages into a folder; files that would not change are left alone, so that builds stay incremental."""
    folder.mkdir(exist_ok=True, parents=True)
    pages = {"commands": commands(), "errors": error_list(), "http": http()}
    for name, lines in pages.items():
        path, text = folder / f"{name}.md", "\n".join(lines) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def cell(text: object) -> str:
    """Text for one cell of a table."""
    return re.sub(r"\s+", " ", str(text or "")).replace("|", "\\|").strip()


# -- commands ---------------------------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""
    yield "# Commands\n\nGenerated from `erasable COMMAND --help`. "
    yield "[From the command line](../../commands.md) shows them at work.\n"
    for panel in dict.fromkeys(entry.panel for entry in COMMANDS.values()):
        yield f"## {panel}\n"
        for name, entry in COMMANDS.items():
            if entry.panel == panel:
                yield from _command(f"erasable {name}", load_command(name))


def _command(path: str, command: Any) -> Iterator[str]:
    children = getattr(command, "commands", None)
    yield f"### {path}\n\n{_help(command)}\n"
    if children:
        for name, child in children.items():
            yield from _leaf(f"{path} {name}", child)
    else:
        yield from _parameters(path, command)


def _help(command: Any) -> str:
    """The help text, with its list of examples as a block to copy from."""
    text = inspect.cleandoc(command.help or "")
    examples = r"(?:^[-*] `[^`]+`\n?\n?)+"
    return re.sub(examples, lambda found: _block(re.findall("`([^`]+)`", found[0])), text, flags=re.MULTILINE)


def _block(lines: list[str]) -> str:
    return "```console\n" + "".join(f"$ {' '.join(line.split())}\n" for line in lines) + "```\n"


def _leaf(path: str, command: Any) -> Iterator[str]:
    yield f"#### {path}\n\n{_help(command)}\n"
    yield from _parameters(path, command)


def _parameters(path: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=path)
    yield f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield "| | meaning |\n|---|---|"
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        is_option = parameter.param_type_name == "option"
        names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name.upper()]
        shown = (
            ", ".join(f"`{name}`" for name in names) if names else f"`{(parameter.metavar or parameter.name).upper()}`"
        )
        yield f"| {shown} | {cell(getattr(parameter, 'help', ''))} |"
    yield ""


# -- errors -----------------------------------------------------------------------------------------------------------


def error_list() -> Iterator[str]:
    """Exit codes, and every error with the builtin that it also is."""
    yield "# Errors and exit codes\n\n## Exit codes of commands\n\n| code | meaning |\n|---|---|"
    yield from (f"| {code} | {cell(meaning)} |" for code, meaning in EXIT_CODES.items())
    yield "\n## Errors in Python\n\nAll are in `erasable.errors`. Each is also a builtin error.\n"
    yield "| error | also | meaning |\n|---|---|---|"
    yield from _classes(errors.ErasableError)
    yield "\n## Warnings\n\n| warning | also | meaning |\n|---|---|---|"
    yield from _classes(Warning)


def _classes(root: type) -> Iterator[str]:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, root) and kind.__module__ == errors.__name__:
            also = ", ".join(f"`{base.__name__}`" for base in kind.__bases__ if base.__module__ == "builtins")
            yield f"| `{name}` | {also} | {cell(inspect.getdoc(kind))} |"


# -- HTTP -------------------------------------------------------------------------------------------------------------


def http() -> Iterator[str]:
    """Every route of the service, from its OpenAPI document."""
    unused: Any = MagicMock()  # routes are described without a service
    document = create_app(unused, unused, unused, unused).openapi()
    yield "# HTTP\n\nGenerated from the service's OpenAPI document (`GET /openapi.json`). "
    yield "[The erasure service](../../service.md) explains the routes.\n"
    yield "| route | what it does |\n|---|---|"
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            yield f"| `{method.upper()} {path}` | {cell(route.get('description') or route.get('summary'))} |"
