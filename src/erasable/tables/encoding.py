"""Tables whose columns hold anything, encoded by a public schema: what it says of roles, and blocks of encoded rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.errors import ConfigurationError, ErasableError, InputError
from erasable.schemas import EncodedTable, Role, Schema, canonical_text
from erasable.tables.columns import Kinds, Roles, fitting_kinds

_CELL_BYTES = 16  # about what a cell takes before it is encoded
_READ = ("label", "id", "subject", "weight")


def roles_by(schema: Schema, roles: Roles, *, labelled: bool) -> Roles:
    """The columns of a table, as the schema has them and the caller may name them too.

    In a table to predict, which need not be ``labelled``, only ids have a role unless the caller names others.

    Raises
    ------
    ConfigurationError
        When the two differ, or the schema has a role that cannot be had.
    """
    named = roles.given
    found: dict[str, Any] = {"features": tuple(c.name for c in schema.features), "ignore": (), "schema": schema}
    for role in (*_READ, "target"):
        theirs, ours = schema.names_of(role), named.get(role, ()) if role != "target" else roles.target
        if ours and theirs and {*ours} != {*theirs}:
            raise ConfigurationError(
                f"{role}= is {_shown(ours)}, and the schema says {_shown(theirs)}: leave it out, or change the schema."
            )
        for name in ours:
            if name in found["features"]:
                raise ConfigurationError(
                    f"{role}= is {name!r}, which is a feature by the schema: give that column the role {role!r} there."
                )
        taken = theirs if labelled or role == "id" else ()
        columns = theirs if ours and theirs else ours or taken  # in the order of the schema
        found[role] = columns if role == "target" or len(columns) > 1 else columns[0] if columns else None
    for name in roles.ignore:
        if name in found["features"]:
            raise ConfigurationError(
                f"ignore= names {name!r}, which is a feature by the schema: give it the role 'ignore' there."
            )
    if found["target"] and found["label"] is not None:
        raise ConfigurationError(
            f"label= is {found['label']!r}, and {_shown(found['target'])} is a target: name one of the two."
        )
    if labelled and found["label"] is None and not found["target"]:
        raise ConfigurationError(
            "the schema names no column of labels or targets: name it with label= or targets=, or in the schema."
        )
    if not labelled:
        found["optional"] = () if "id" in named else ("id",)
    return replace(roles, **found, labelled=labelled and not found["target"], clipped=labelled)


def _shown(names: tuple[str, ...]) -> str:
    return " and ".join(map(repr, names))


def kinds_by(schema: Schema, kinds: Kinds) -> Kinds:
    """What the labels of CSV text stand for: integers where all classes of the schema are written so."""
    classes = _classes(schema)
    return kinds if classes is None or "label" in kinds else {**kinds, "label": fitting_kinds(classes, keys=True)[0]}


def _classes(schema: Schema) -> tuple[str, ...] | None:
    labels = [c.classes for c in schema.columns if isinstance(c, Role) and c.role == "label"]
    return labels[0] if labels else None


def check_classes(schema: Schema, y: npt.NDArray[Any], where: str) -> None:
    """Refuse labels that are none of the classes, where the schema lists them.

    Raises
    ------
    InputError
    """
    classes = _classes(schema)
    if classes is None:
        return
    values, counts = np.unique(y, return_counts=True)
    texts = (canonical_text(v, schema.version) for v in values.tolist())
    odd = sum(n for text, n in zip(texts, counts.tolist(), strict=True) if text not in classes)
    if odd:
        raise InputError(f"{where}: {odd} labels are none of the {len(classes)} classes of the schema.")


def targets_of(roles: Roles, table: Any, where: str, first: int) -> tuple[npt.NDArray[np.float64], dict[str, int]]:
    """The targets of rows, none missing, of one dimension where there is one; and by column how many lie beyond it.

    Those of a table to learn are clipped to the ranges that the schema declares.

    Raises
    ------
    InputError, InputTypeError
    """
    schema = roles.schema
    assert schema is not None
    try:
        y, beyond = schema.read_targets(table.select(list(roles.target)), roles.target)
    except ErasableError as error:
        raise type(error)(f"{where}: {error}") from None
    odd = np.isnan(y).any(axis=1)
    if odd.any():
        row = first + int(odd.argmax()) + 1
        raise InputError(
            f"{where}: {int(odd.sum())} of {len(y)} rows have a target that is missing, or is no number, the first in "
            f"row {row:,}: leave those rows out."
        )
    for j, name in enumerate(roles.target if roles.clipped else ()):
        ends = getattr(schema.by_name.get(name), "range", None)
        if ends is not None:
            y[:, j] = np.clip(y[:, j], *ends)
    return (y if len(roles.target) > 1 else y[:, 0]), {name: n for name, n in beyond.items() if n}


def encoded(schema: Schema, table: Any, where: str, extra: tuple[str, ...]) -> EncodedTable:
    """The rows of an Arrow table, encoded; messages say where they stand, and the report which columns are extra."""
    try:
        rows, report = schema.encode_sparse(table)
    except ErasableError as error:
        raise type(error)(f"{where}: {error}") from None
    return EncodedTable(schema, rows, replace(report, extra=extra))


def encoded_bytes(roles: Roles) -> int:
    """About how many bytes a row takes: cells, and what they become."""
    schema = roles.schema
    if schema is None:
        return _CELL_BYTES * 8
    return _CELL_BYTES * len(schema.features) + 8 * (sum(c.most for c in schema.features) + len(schema.crosses))
