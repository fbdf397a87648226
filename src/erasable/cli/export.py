"""``erasable export``: the weights of a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._shared import Json, ModelPath, Timeout, note_doubt, print_json, say


def export(
    model: ModelPath,
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            help="The file to write: .onnx or .safetensors. An earlier export is replaced, no other file.",
            readable=False,
        ),
    ],
    form: Annotated[
        str | None, typer.Option("--format", help="`onnx` or `safetensors`. [default: by the ending of the file]")
    ] = None,
    input_type: Annotated[
        str | None, typer.Option(help="What an ONNX graph takes: `float32` or `float64`. [default: float32]")
    ] = None,
    timeout: Timeout = 60,
    as_json: Json = False,
) -> None:
    """Export the weights of a linear model, stamped with the state digest.

    ONNX files hold the whole predictor: scaling of rows, scores, probabilities, labels. They need
    `pip install 'erasable[export]'`. The same state gives the same file.

    An export is a copy: what the model forgets later is not forgotten in it. Export again to the same path after every
    `forget`; the stamp says which state a copy is of. Models that predict with stored rows are not exported.

    With a schema, the file takes encoded rows, not raw columns. The schema is written next to it, as `NAME.toml`. Use
    it in Python to encode tables: `TableEncoder(Schema.load("NAME.toml"), sparse_output=False).transform(table)`.

    For example:

    - `erasable export model.erasable -o model.onnx`

    - `erasable export model.erasable -o weights.safetensors --json`
    """
    from erasable.models.files import read_model
    from erasable.operations.export import export as write

    report = write(read_model(model)[0], out, form=form, input_type=input_type, timeout=timeout)
    note_doubt(out)
    if as_json:
        print_json(report.as_json())
        return
    say(f"{report.path}: {report.form}, {report.bytes:,} bytes, of the state {report.digest}")
    if report.schema is not None:
        say(f"{report.schema}: the schema. The file takes rows that it encodes: TableEncoder makes them in Python.")
    say("This is a copy: after rows are forgotten, export again to replace it.")
