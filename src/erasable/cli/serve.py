"""``erasable serve``: the erasure service over HTTP."""

from __future__ import annotations

import gc
import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._shared import Json, print_json, say

_CONFIG = "A TOML file with any of the settings; see docs/service.md."
_FOLDER = "Folder for requests, tokens and keys. [default: erasable-service]"


def serve(
    models: Annotated[list[Path] | None, typer.Argument(help="Model files, or folders that hold some.")] = None,
    configuration: Annotated[Path | None, typer.Option("--config", help=_CONFIG)] = None,
    folder: Annotated[Path | None, typer.Option(help=_FOLDER)] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen at. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen at. [default: 8080]")] = None,
    as_json: Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log a line for each answer.")] = False,
) -> None:
    """Serve models: predictions out, erasure requests in, every deletion durable and with a receipt.

    Speaks OpenDSR 2.0 and the Open Inference Protocol, and shows a console at /. Only health, discovery and the
    certificate are answered without a token: `erasable token make` makes one. On SIGTERM it finishes the accepted
    requests and stops.

    For example:

    - `erasable token make officer --scope erase --scope audit --file erasable-service/tokens.json`

    - `erasable serve credit.erasable`
    """
    gc.disable()  # collections during the imports would find nothing and take long
    from erasable.service.http.configuration import read_configuration
    from erasable.service.http.server import TOKENS
    from erasable.service.http.server import serve as run
    from erasable.service.service import Health

    gc.freeze()
    gc.enable()
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("urllib3").setLevel(logging.WARNING)  # its lines would name the hosts of callbacks
    found = read_configuration(configuration, models=models or None, folder=folder, host=host, port=port)

    def started(health: Health) -> None:
        notes = [f"note: {doubt}" for doubt in health.doubts]
        if found.opendsr_certificate is None:
            notes.append("note: without opendsr_certificate and opendsr_key, OpenDSR is not served; the console is.")
        if not (tokens := found.folder / TOKENS).exists():
            maker = "erasable token make officer --scope erase --scope audit --file"
            notes.append(f"note: no token exists yet: {maker} {tokens}")
        notes += [f"{health.resumed} requests of an earlier run go on."] if health.resumed else []
        notes += [f"not ready: {health.problem}"] if health.problem else []
        names = sorted(found.model_files())
        for note in notes if as_json else [*notes, f"serving {', '.join(names)} at {found.url}"]:
            say(note, aside=True)
        if as_json:
            print_json({"url": found.url, "models": names, **asdict(health)})
            sys.stdout.flush()

    run(found, started=started)
