"""Which columns of a file are labels, ids, subjects and features, as the caller names them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from erasable.errors import ConfigurationError, InputTypeError

_KINDS: dict[str, tuple[type, ...]] = {"label": (int, bool, float, str), "id": (int, str), "subject": (int, str)}
Kinds = dict[str, type]


@dataclass(frozen=True)
class Roles:
    """Names of the columns that are no features, and of those that are, where not all others.

    ``labelled`` says whether there must be labels; ``ignore`` names columns that are left alone, whatever they hold.
    """

    label: str | None
    id: str | None = None
    subject: str | None = None
    features: Sequence[str] | None = None
    labelled: bool = True
    ignore: Sequence[str] = ()

    def __post_init__(self) -> None:
        for role in ("label", "id", "subject"):
            column = getattr(self, role)
            if not (isinstance(column, str) or (column is None and not (role == "label" and self.labelled))):
                raise InputTypeError(f"{role} must be the name of a column, a string; got {type(column).__name__}.")
        if self.label is not None and self.label in (self.id, self.subject):
            raise ConfigurationError("label must be another column than id and subject: name one column for each.")
        if isinstance(self.ignore, str) or not all(isinstance(c, str) for c in self.ignore):
            raise InputTypeError("ignore must be names of columns, a list of strings.")
        object.__setattr__(self, "ignore", tuple(self.ignore))
        both = {*self.ignore} & {*self.columns, *(self.features or ())}
        if both:
            named = ", ".join(map(repr, sorted(both)))
            raise ConfigurationError(f"a column cannot be ignored and have a role: {named}.")
        if self.features is None:
            return
        if isinstance(self.features, str) or not all(isinstance(f, str) for f in self.features):
            raise InputTypeError("features must be names of columns, a list of strings.")
        object.__setattr__(self, "features", tuple(self.features))
        taken = set(self.columns)
        if not self.features or len(set(self.features)) < len(self.features) or taken & set(self.features):
            raise ConfigurationError(
                "features must name one column or more, each once, and none of those that label, id and subject name."
            )

    @property
    def columns(self) -> list[str]:
        """All that are no features, each once: id and subject may be the same."""
        return list(dict.fromkeys(c for c in (self.label, self.id, self.subject) if c is not None))

    def of(self, role: str) -> str | None:
        """The column that has a role."""
        column: str | None = getattr(self, role)
        return column

    def present(self, names: Container[str]) -> Roles:
        """The same without a label that may be missing and is."""
        absent = not self.labelled and self.label is not None and self.label not in names
        return replace(self, label=None) if absent else self


def check_kinds(kinds: Mapping[str, type] | None) -> Kinds:
    """Types of labels, ids and subjects that the caller is sure of."""
    for role, kind in (kinds or {}).items():
        if role not in _KINDS or kind not in _KINDS[role]:
            allowed = "; ".join(f"{r}: {', '.join(t.__name__ for t in ts)}" for r, ts in _KINDS.items())
            raise ConfigurationError(f"kinds may give one of these types for a role: {allowed}.")
    return dict(kinds or {})
