"""``erasable inspect``: the configuration of a model file, and what it stores about a person."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._shared import NO_SUBJECTS, Json, ModelPath, counted, print_json, say, say_cells, visible
from erasable.errors import ConfigurationError

if TYPE_CHECKING:
    from erasable.models.access import StoredRows
    from erasable.operations.inspect import Inspection


def inspect(
    model: ModelPath,
    rows: Annotated[
        bool, typer.Option("--rows", help="List id, subject and label of every core row: personal data.")
    ] = False,
    learnt: Annotated[
        int | None,
        typer.Option(help="Number of rows learnt, to print the share that is stored; no file keeps it."),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print only the schema of the model, as TOML.")] = False,
    subject: Annotated[
        list[str] | None,
        typer.Option(metavar="SUBJECT", help="Print what is stored about this subject instead. Repeat it for several."),
    ] = None,
    id: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Print the row of this id instead. Repeat it for several.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print what is stored about a subject as CSV.")] = False,
    as_json: Json = False,
) -> None:
    """Print configuration, size and digest of a model file. Rows, labels and ids stay hidden unless asked for.

    The checksum is tested, so a damaged file is found; `verify` checks that the state is what its rows give.

    With `--subject` or `--id`, print what is stored about a person: id, label, weight and values of each row, and how
    many other subjects it has. Values are those of the table as far as the stored row determines them: "39.0 ± 0.2"
    and, with a schema, a bin, a category, the places that words were hashed into. If nothing is stored, the exit code
    is 0, too.

    For example:

    - `erasable inspect model.erasable --learnt 250000`

    - `erasable inspect model.erasable --schema > schema.toml`

    - `erasable inspect model.erasable --subject customer-007 --csv`
    """
    from erasable.operations.inspect import inspect as look

    if schema:
        if subject or id or rows or as_csv or learnt is not None:
            raise ConfigurationError("--schema prints the schema and nothing else: leave the other options out.")
        _print_schema(model, as_json)
        return
    if subject or id:
        if rows or learnt is not None or (as_csv and as_json):
            raise ConfigurationError(
                "--rows and --learnt are about all core rows and cannot be combined with --subject or --id; of --csv "
                "and --json give one."
            )
        _show_rows_of(model, subject, id, as_csv=as_csv, as_json=as_json)
        return
    if as_csv:
        raise ConfigurationError("--csv is for what is stored about a person: name them with --subject or --id.")
    found = look(model, rows=rows, learnt=learnt)
    if as_json:
        print_json(found.as_json())
        return
    share = "" if found.stored_share is None else f" ({found.stored_share:.2%} of {learnt:,} learnt)"
    _show(found, share)


def _show(found: Inspection, share: str) -> None:
    known = found.configuration
    lines = [
        ("model", found.kind),
        ("core rows", f"{found.core_rows:,}{share}"),
        ("features", f"{found.features:,}" + (", encoded by a schema: see --schema" if _has_schema(known) else "")),
        _classes_or_targets(found),
        ("ids, subjects", f"{found.ids or 'none'}, {found.subjects or 'none'}"),
        ("no subject", f"{found.rows_without_subject:,} core rows, which only their ids can name"),
        ("layout of rows", found.layout),
        ("size", f"{found.bytes:,} bytes" + (f" in {found.files} files" if found.files > 1 else "")),
        ("format", f"{found.format}, version {found.version}"),
        ("state digest", found.digest),
        ("old bytes", found.old_bytes),
        *((name.replace("_", " "), _text(_readable(name, known[name]))) for name in _SHOWN if name in known),
        *_log_map(known),
        *([("order", _order(known["order_key"], known.get("sample_key")))] if "order_key" in known else []),
    ]
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        say(f"{name:<{width}}  {value}")
    if found.rows is not None:
        last = "label" if found.target_ranges is None else "targets"
        say(f"core rows, in learning order: id, subject, {last}, with tabs between them")  # a table would cut them
        for row in found.rows:
            say_cells(", ".join(map(str, v)) if isinstance(v, list) else _cell(v) for v in row.values())


def _show_rows_of(
    model: Path, subjects: list[str] | None, ids: list[str] | None, *, as_csv: bool, as_json: bool
) -> None:
    from erasable.operations.inspect import rows_of
    from erasable.operations.requests import Names

    stored = rows_of(
        model,
        ids=Names(tuple(ids or ()), called="--id"),
        subjects=Names(tuple(subjects or ()), called="--subject"),
    )
    warnings = [NO_SUBJECTS] if subjects and not stored.has_subjects else []
    if as_json:
        print_json({"model": str(model), **stored.as_json(), "warnings": warnings})
        return
    for warning in warnings:
        say(f"warning: {warning}", aside=True)
    if as_csv:
        _write_csv(stored)
        return
    if not stored.rows:
        say("Nothing is stored: no core row has such a subject or id.")
        return
    say(f"{counted(len(stored.rows), 'stored row')}. Of their values: {stored.values_are}.")
    for row in stored.rows:
        record = row.as_json()
        say()
        for name in _ROW:
            say(f"{name.replace('_', ' ')}: {_cell(record[name])}")
        for name, cell in (row.cells or {}).items():
            say(f"  {name}: {cell.text}")
        for name, value in row.shown.items() if row.cells is None else ():
            say(f"  {name}: {value}")
    if stored.not_stored:
        say()
        say(f"Of {stored.not_stored:,} of the {stored.requested:,} names nothing is stored.")


def _write_csv(stored: StoredRows) -> None:
    """One line for each row; of sparse rows, columns for the features that are not zero in some of them.

    With a schema, the decoded cells take the place of features.
    """
    decoded = [row.cells for row in stored.rows if row.cells is not None]
    features = list(dict.fromkeys(name for row in stored.rows for name in row.values if row.cells is None))
    columns = list(dict.fromkeys(name for cells in decoded for name in cells))
    shown: Any = visible if sys.stdout.isatty() else _cell  # elsewhere they are data, and stay as they are
    out = csv.writer(sys.stdout, lineterminator="\n")
    named = [*(f"cells.{name}" for name in columns), *(f"values.{name}" for name in features)]  # one may be called id
    out.writerow([*_ROW, *map(shown, named)])
    for row in stored.rows:
        record = row.as_json()
        cells = [shown(row.cells[name].text) for name in columns if row.cells is not None]
        out.writerow([*(shown(record[n]) for n in _ROW), *cells, *(row.values.get(name, 0.0) for name in features)])


_ROW = ("id", "label", "weight", "other_subjects")


def _cell(value: object) -> str:
    if isinstance(value, tuple):  # the targets of a regression
        return ", ".join(map(repr, value))
    return "" if value is None else str(value)


def _log_map(known: dict[str, Any]) -> list[tuple[str, str]]:
    """A line about the log map, if rows went through it; ``--json`` has its numbers for each column."""
    described = json.loads(known.get("feature_map") or "{}").get("map", {})
    if described.get("map") != "log":
        return []
    parts = [f"constant {float.fromhex(described['constant']):g}"]
    parts += [f"{name} of columns" for name in ("centres", "scales") if described[name] is not None]
    parts += [f"missing cells as {described['missing']}"] if described["missing"] else []
    return [("log map", ", ".join(parts))]


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


# The entries of the header that are printed; ``--json`` has all.
_SHOWN = (
    *(
        "loss",
        "selection",
        "head",
        "rate",
        "balance",
        "class_shares",
        "capacity",
        "alpha",
        "learner",
        "learner_parameters",
        "threshold",
        "sample_rate",
        "class_weight",
        "kernel",
        "gamma",
        "scaling",
    ),
    *("intercept", "classes_fixed", "feature_names"),
)
_FLOATS = ("capacity", "alpha", "threshold", "sample_rate", "rate", "balance", "class_shares", "gamma", "scaling")
_GRID = 2.0**-30  # capacities as given and as stored differ by less


def _classes_or_targets(found: Inspection) -> tuple[str, str]:
    if found.target_ranges is None:
        return "classes", f"{found.classes:,}"
    return "target ranges", _text([f"{low:.6g} to {high:.6g}" for low, high in found.target_ranges])


def _order(key: str | None, sample_key: str | None) -> str:
    if key is None:
        return "as given" if sample_key is None else f"as given, random state {sample_key} for the sample"
    return f"hashed, random state {key}"


def _readable(name: str, value: object) -> object:
    if name == "class_weight" and isinstance(value, dict):
        return f"given for {len(value.get('weights', ()))} classes"  # which, ``--json`` says
    if name == "learner_parameters" and isinstance(value, dict):
        return ", ".join(f"{k}={_decimal(v, 0.0)}" for k, v in sorted(value.items())) or "none"
    return (
        value
        if name not in _FLOATS or value in (None, "row")
        else _decimal(value, _GRID if name in ("capacity", "alpha") else 0.0)
    )


def _text(value: object) -> str:
    """Return a value as readable text."""
    if isinstance(value, list):
        more = f" and {len(value) - 8:,} more" if len(value) > 8 else ""
        return ", ".join(_text(v) for v in value[:8]) + more
    return "none" if value is None else str(value)


def _decimal(value: object, slack: float) -> object:
    """Return a hexadecimal float of the header in decimal."""
    if isinstance(value, list):
        return [_decimal(v, slack) for v in value]
    try:
        number = float.fromhex(value if isinstance(value, str) else "")
    except (ValueError, OverflowError):  # not one of our files
        return value
    short = f"{number:.6g}"
    return short if abs(float(short) - number) <= slack else repr(number)
