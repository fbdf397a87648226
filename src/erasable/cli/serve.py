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


def serve(
    models: Annotated[list[Path] | None, typer.Argument(help="Model files, or folders that hold some.")] = None,
    configuration: Annotated[
        Path | None, typer.Option("--config", help="A TOML file with any of the settings; see docs/service.md.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where requests, tokens and keys are kept. [default: erasable-service]")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen at. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen at. [default: 8080]")] = None,
    as_json: Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log a line for each answer.")] = False,
) -> None:
    """Serve models: predictions out, erasure requests in, every deletion durable and with a receipt.

    Speaks OpenDSR 2.0, the Open Inference Protocol and MLflow's /invocations, and shows a console at /. Nothing is
    answered without a token but health, discovery and the certificate: `erasable token make` makes one. Stops on
    SIGTERM, once what was accepted is done.

    For example:

    - `erasable token make officer --scope erase --scope audit --file erasable-service/tokens.json`

    - `erasable serve credit.erasable`
    """
    gc.disable()  # it would look through what is being imported again and again, for nothing
    from erasable.service.health import Health
    from erasable.service.http.configuration import read_configuration
    from erasable.service.http.server import TOKENS
    from erasable.service.http.server import serve as run

    gc.freeze()
    gc.enable()
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # its lines would hold where callbacks go
    asked = read_configuration(configuration, models=models or None, folder=folder, host=host, port=port)

    def started(health: Health) -> None:
        for doubt in health.doubts:
            say(f"note: {doubt}", aside=True)
        if asked.opendsr_certificate is None or asked.opendsr_key is None:
            say("note: without opendsr_certificate and opendsr_key, OpenDSR is not served; the console is.", aside=True)
        if not (tokens := asked.folder / TOKENS).exists():
            maker = "erasable token make officer --scope erase --scope audit --file"
            say(f"note: nobody has a token yet: {maker} {tokens}", aside=True)
        if health.resumed:
            say(f"{health.resumed} requests of an earlier run go on.", aside=True)
        if health.problem:
            say(f"not ready: {health.problem}", aside=True)
        if as_json:
            print_json({"url": asked.url, "models": sorted(asked.model_files()), **asdict(health)})
            sys.stdout.flush()
        else:
            say(f"serving {', '.join(sorted(asked.model_files()))} at {asked.url}", aside=True)

    run(asked, started=started)
