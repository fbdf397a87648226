"""What became of cells while they were encoded: counts, never cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from erasable.schemas._base import COUNTS


@dataclass(frozen=True)
class EncodingReport:
    """How many cells were odd, by column.

    Reports of blocks add up to that of the whole table.

    Attributes
    ----------
    n_rows : int
    counts : mapping of column to mapping of str to int
        For each column with any, how many cells were "missing", "unknown" (not listed), "unparsable" (no number, date,
        time or vector) and "clipped" (beyond the range).
    extra : tuple of str
        Columns of the table that the schema does not name. They were passed over.
    """

    n_rows: int
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kept = {
            c: MappingProxyType({w: n for w in COUNTS if (n := found.get(w, 0))}) for c, found in self.counts.items()
        }
        object.__setattr__(self, "counts", MappingProxyType({c: found for c, found in kept.items() if found}))

    def __add__(self, other: EncodingReport) -> EncodingReport:
        names = [*self.counts, *(c for c in other.counts if c not in self.counts)]
        both = {
            c: {w: self.counts.get(c, {}).get(w, 0) + other.counts.get(c, {}).get(w, 0) for w in COUNTS} for c in names
        }
        extra = tuple(dict.fromkeys([*self.extra, *other.extra]))
        return EncodingReport(self.n_rows + other.n_rows, both, extra)

    def __reduce__(self) -> tuple[object, ...]:
        return EncodingReport, (self.n_rows, {c: dict(found) for c, found in self.counts.items()}, self.extra)

    def total(self, what: str) -> int:
        """How many cells of all columns were so."""
        return sum(found.get(what, 0) for found in self.counts.values())

    def __str__(self) -> str:
        lines = [f"{self.n_rows:,} rows"]
        for column, found in self.counts.items():
            lines.append(f"{column}: " + ", ".join(f"{n:,} {what}" for what, n in found.items()))
        if self.extra:
            lines.append(f"passed over, not in the schema: {', '.join(self.extra)}")
        return "\n".join(lines)
