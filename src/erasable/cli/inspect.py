"""``erasable inspect``: what a model file says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from erasable.cli._shared import Json, print_json, say, say_cells


def inspect(
    model: Annotated[Path, typer.Argument(help="The model file.", show_default=False, readable=False)],
    rows: Annotated[
        bool, typer.Option("--rows", help="List id, subject and label of every core row: they are personal data.")
    ] = False,
    learnt: Annotated[
        int | None, typer.Option(help="Rows that were learnt, to see the share stored; the file does not keep it.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the schema that the model was made with, as TOML, and nothing else.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show configuration, size and digest of a model file. Rows, labels and ids stay hidden unless asked for.

    The checksum is tested, so a damaged file is found; whether the state is what its rows give, `verify` says.

    For example:

    - `erasable inspect model.erasable --learnt 250000`

    - `erasable inspect model.erasable --schema > schema.toml`
    """
    from erasable.operations.inspect import inspect as look

    if schema:
        _print_schema(model, as_json)
        return
    found = look(model, rows=rows, learnt=learnt)
    if as_json:
        print_json(found.as_json())
        return
    share = "" if found.stored_share is None else f" ({found.stored_share:.2%} of {learnt:,} learnt)"
    known = found.configuration
    lines = [
        ("model", found.kind),
        ("core rows", f"{found.core_rows:,}{share}"),
        ("features", f"{found.features:,}" + (", encoded by a schema: see --schema" if _has_schema(known) else "")),
        ("classes", f"{found.classes:,}"),
        ("ids, subjects", f"{found.ids or 'none'}, {found.subjects or 'none'}"),
        ("no subject", f"{found.rows_without_subject:,} core rows, which only their ids can name"),
        ("size", f"{found.bytes:,} bytes" + (f" in {found.files} files" if found.files > 1 else "")),
        ("format", f"{found.format}, version {found.version}"),
        ("state digest", found.digest),
        *((name.replace("_", " "), _shown(_told(name, known[name]))) for name in _TOLD if name in known),
        *([("order", _order(known["order_key"], known.get("sample_key")))] if "order_key" in known else []),
    ]
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        say(f"{name:<{width}}  {value}")
    if found.rows is not None:
        say("core rows, in learning order: id, subject, label, with tabs between them")  # no table: nothing is cut
        for row in found.rows:
            say_cells("" if value is None else _shown(value) for value in row.values())


def _has_schema(known: dict[str, Any]) -> bool:
    return '"map":"schema"' in (known.get("feature_map") or "")


def _print_schema(model: Path, as_json: bool) -> None:
    from erasable.operations.schemas import stored_schema

    found = stored_schema(model)
    if as_json:
        print_json({"model": str(model), "schema": found.text})
        return
    for line in found.text.splitlines():
        say(line)


# Of the header, in this table; the whole of it is in ``--json``.
_TOLD = (
    *("loss", "capacity", "alpha", "threshold", "sample_rate", "class_weight", "kernel", "gamma", "scaling"),
    *("intercept", "classes_fixed", "feature_names"),
)
_FLOATS = ("capacity", "alpha", "threshold", "sample_rate", "gamma", "scaling")
_GRID = 2.0**-30  # of capacities: those given and those held differ by less


def _order(key: str | None, sample_key: str | None) -> str:
    if key is None:
        return "as given" if sample_key is None else f"as given, random state {sample_key} for the sample"
    return f"hashed, random state {key}"


def _told(name: str, value: Any) -> Any:
    if name == "class_weight" and isinstance(value, dict):
        return f"given for {len(value.get('weights', ()))} classes"  # which, ``--json`` says
    return (
        value
        if name not in _FLOATS or value in (None, "row")
        else _decimal(value, _GRID if name in ("capacity", "alpha") else 0.0)
    )


def _shown(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, list):
        more = f" and {len(value) - 8:,} more" if len(value) > 8 else ""
        return ", ".join(_shown(v) for v in value[:8]) + more
    return "none" if value is None else str(value)


def _decimal(value: Any, slack: float) -> Any:
    """A float of the header, which is hexadecimal there, in decimal."""
    if isinstance(value, list):
        return [_decimal(v, slack) for v in value]
    try:
        number = float.fromhex(value)
    except (TypeError, ValueError, OverflowError):  # a file that only looks like ours
        return value
    short = f"{number:.6g}"
    return short if abs(float(short) - number) <= slack else repr(number)
