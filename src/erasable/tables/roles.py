"""Which columns of a table have which role, by name; and the types of labels, ids and subjects in text."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from erasable.errors import ConfigurationError, InputTypeError
from erasable.schemas import Role, Schema

Kinds = dict[str, type]
_KINDS: dict[str, tuple[type, ...]] = {"label": (int, bool, float, str), "id": (int, str), "subject": (int, str)}
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_FLOAT = re.compile(
    r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class Roles:
    """The names of the columns that have a role, and of the features where they are not all others.

    ``labelled`` says whether there must be labels; columns to ``ignore`` may hold anything. A row belongs to all
    subjects that its subject columns name. Columns of ``target`` take the place of labels. With a ``schema`` features
    are what it makes of its columns, which hold anything; ``optional`` roles may be absent. With ``raw``, cells of
    any kind are handed on unchanged.
    """

    label: str | None
    id: str | None = None
    subject: str | Sequence[str] | None = None
    features: Sequence[str] | None = None
    labelled: bool = True
    ignore: Sequence[str] = ()
    weight: str | None = None
    schema: Schema | None = None
    raw: bool = False
    optional: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    clipped: bool = False  # to the ranges that the schema declares for targets

    def __post_init__(self) -> None:
        if isinstance(self.subject, list | tuple):
            several = tuple(self.subject)
            object.__setattr__(self, "subject", several if len(several) > 1 else several[0] if several else None)
        named = [(role, getattr(self, role)) for role in ("label", "id", "weight")]
        for role, column in [*named, *(("subject", column) for column in self.subjects)]:
            if not (isinstance(column, str) or (column is None and not (role == "label" and self.labelled))):
                raise InputTypeError(f"{role} must be the name of a column, a string; got {type(column).__name__}.")
        for role in ("ignore", "features", "target"):
            names = getattr(self, role)
            if names is not None and (isinstance(names, str) or not all(isinstance(name, str) for name in names)):
                shown = "targets" if role == "target" else role
                raise InputTypeError(f"{shown} must be names of columns, a list of strings.")
            object.__setattr__(self, role, None if names is None else tuple(names))
        if len(set(self.subjects)) < len(self.subjects):
            raise ConfigurationError("subject names a column twice: name each column once.")
        if self.label is not None and self.label in (self.id, *self.subjects):
            raise ConfigurationError("label must be another column than id and subject: name one column for each.")
        if self.weight is not None and self.weight in (self.label, self.id, *self.subjects):
            raise ConfigurationError("weight must be another column than label, id and subject: name one for each.")
        taken = {*chain(*self.given.values())}
        if len(set(self.target)) < len(self.target) or {*self.target} & {*taken, *self.ignore, *(self.features or ())}:
            raise ConfigurationError("targets must name each column once, and none of those that have another role.")
        if both := {*self.ignore} & {*taken, *(self.features or ())}:
            found = ", ".join(map(repr, sorted(both)))
            raise ConfigurationError(f"a column cannot be ignored and have a role: {found}.")
        features = self.features
        if features is not None and (not features or len(set(features)) < len(features) or taken & set(features)):
            raise ConfigurationError(
                "features must name one column or more, each once, and none of those that label, id and subject name."
            )

    @property
    def untyped(self) -> bool:
        """Whether columns of features may hold anything."""
        return self.raw or self.schema is not None

    @property
    def subjects(self) -> tuple[str, ...]:
        """The columns of subjects: none, one or several."""
        return self.subject if isinstance(self.subject, tuple) else () if self.subject is None else (self.subject,)

    @property
    def given(self) -> dict[str, tuple[str, ...]]:
        """The columns of labels, ids, weights and subjects, by role."""
        single = {"label": self.label, "id": self.id, "weight": self.weight}
        roles = {role: () if column is None else (column,) for role, column in single.items()}
        return {role: columns for role, columns in {**roles, "subject": self.subjects}.items() if columns}

    @property
    def columns(self) -> list[str]:
        """The same and targets, each once: id and subject may be one column."""
        return list(dict.fromkeys(chain(*self.given.values(), self.target)))

    def present(self, names: Container[str]) -> Roles:
        """The roles without those that may be absent and are."""
        optional = [*self.optional, *(() if self.labelled else ("label",))]
        absent: dict[str, Any] = {role: None for role in optional if getattr(self, role) not in names}
        return replace(self, **absent) if absent else self

    def by_schema(self, schema: Schema, *, labelled: bool) -> Roles:
        """The roles that the schema gives, which those named by the caller have to agree with.

        In a table to predict, which need not be ``labelled``, only ids have a role unless the caller names others.

        Raises
        ------
        ConfigurationError
            When the two differ, or there are no labels or targets to learn.
        """
        named = {**self.given, "target": self.target}
        features = tuple(c.name for c in schema.features)
        found: dict[str, Any] = {"features": features, "ignore": (), "schema": schema}
        for role in ("label", "id", "subject", "weight", "target"):
            theirs, ours = schema.names_of(role), named.get(role, ())
            if ours and theirs and {*ours} != {*theirs}:
                raise ConfigurationError(
                    f"{role}= is {_shown(ours)}, and the schema says {_shown(theirs)}: leave it out, or change the "
                    "schema."
                )
            for name in (*ours, *self.ignore):
                if name in features:
                    option, role = (f"{role}= is", role) if name in ours else ("ignore= names", "ignore")
                    raise ConfigurationError(
                        f"{option} {name!r}, which is a feature by the schema: give that column the role {role!r} "
                        "there."
                    )
            columns = theirs or ours if ours or labelled or role == "id" else ()  # in the order of the schema
            found[role] = columns if role == "target" or len(columns) > 1 else columns[0] if columns else None
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
        return replace(self, **found, labelled=labelled and not found["target"], clipped=labelled)


def _shown(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))


def check_kinds(kinds: Mapping[str, type] | None, schema: Schema | None) -> Kinds:
    """The types of labels, ids and subjects in text that the caller or the schema fixes.

    Labels are integers where all classes of the schema are written so.
    """
    for role, kind in (kinds or {}).items():
        if role not in _KINDS or kind not in _KINDS[role]:
            allowed = "; ".join(f"{r}: {', '.join(t.__name__ for t in ts)}" for r, ts in _KINDS.items())
            raise ConfigurationError(f"kinds may give one of these types for a role: {allowed}.")
    classes = None if schema is None else classes_of(schema)
    fixed: Kinds = {} if classes is None else {"label": fitting_kinds(classes, keys=True)[0]}
    return {**fixed, **(kinds or {})}


def classes_of(schema: Schema) -> tuple[str, ...] | None:
    """The classes that a schema lists for its labels."""
    labels = [c.classes for c in schema.columns if isinstance(c, Role) and c.role == "label"]
    return labels[0] if labels else None


def fitting_kinds(texts: Sequence[str], *, keys: bool) -> list[type]:
    """The types that all cells of a text column can have, the best first; empty cells fit any, and text always fits.

    ``007`` is text, since as an integer it would equal ``7``. Keys are integers or text, nothing else.

    *Law*: the kinds that fit a column are those that fit each of its blocks.
    """
    filled = [t for t in texts if t]
    kinds: list[type] = []
    if all(map(_INTEGER.fullmatch, filled)) and all(-(2**63) <= int(t) < 2**63 for t in filled):
        kinds.append(int)
    if not keys and all(t.lower() in _TRUTH for t in filled):
        kinds.append(bool)
    if not keys and all(map(_FLOAT.fullmatch, filled)):
        kinds.append(float)
    return [*kinds, str]


def read_texts(texts: Sequence[str], kind: type) -> list[Any]:
    """Cells as values of the type that all of them fit, None when empty."""
    read: Any = (lambda text: _TRUTH[text.lower()]) if kind is bool else kind
    return [read(t) if t else None for t in texts]
