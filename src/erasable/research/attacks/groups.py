"""Who is stored: the share of rows that a model kept, by group.

Selection favours unusual rows, so unusual people are stored more often. Whom that meets is for the operator to look at.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from erasable.audit.statistics import Estimate, clopper_pearson
from erasable.errors import InputError
from erasable.tables import read_keys
from erasable.tables.reading import listed
from erasable.tables.text import open_text
from erasable.validation import did_you_mean

FEWEST = 20  # rows of a group that is shown by itself
OTHERS = f"(groups of fewer than {FEWEST} rows)"
_CONFIDENCE = 0.99


@dataclass(frozen=True)
class GroupShare:
    """How much of a group is stored.

    Attributes
    ----------
    group : str
    offered, stored : int
    share : Estimate
        With the interval of Clopper and Pearson, as if rows were kept independently of each other.
    """

    group: str
    offered: int
    stored: int

    @property
    def share(self) -> Estimate:
        """The share that is stored."""
        return Estimate(self.stored / self.offered, *clopper_pearson(self.stored, self.offered, _CONFIDENCE))

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"group": self.group, "offered": self.offered, "stored": self.stored, "share": self.share.as_json()}


def kept_by_group(stored: Iterable[Any], ids: Sequence[Any], groups: Sequence[Any]) -> list[GroupShare]:
    """The share kept of each group, the largest share first; groups too small to be named are taken together.

    Parameters
    ----------
    stored : iterable
        Ids of the rows that are stored.
    ids, groups : sequences of one length
        Of all rows that were offered.

    Examples
    --------
    >>> from erasable.research.attacks.groups import kept_by_group
    >>> for kept in kept_by_group(range(30), range(100), ["old"] * 40 + ["young"] * 60):
    ...     print(kept.group, kept.stored, kept.offered)
    old 30 40
    young 0 60
    """
    if len(ids) != len(groups):
        raise InputError(f"every row needs an id and a group; got {len(ids)} ids and {len(groups)} groups.")
    there = set(stored)
    if not there & set(ids):
        raise InputError("none of these ids is stored: give the table that the model learnt, and its column of ids.")
    sizes = Counter(map(str, groups))
    names = [name if sizes[name] >= FEWEST else OTHERS for name in map(str, groups)]
    offered = Counter(names)
    kept = Counter(name for name, key in zip(names, ids, strict=True) if key in there)
    found = [GroupShare(name, count, kept[name]) for name, count in offered.items()]
    return sorted(found, key=lambda one: (-one.stored / one.offered, one.group))


def read_groups(path: str | os.PathLike[str], id: str, group: str, kind: type) -> tuple[list[Any], list[Any]]:
    """The columns of ids and of groups of a table; cells of a CSV as they are written, also empty ones.

    Raises InputError when a column is not there.
    """
    file = Path(path)
    if ".csv" not in file.suffixes:
        return list(read_keys(file, kind=kind, column=id)), list(read_keys(file, column=group))
    with io.TextIOWrapper(open_text(file), encoding="utf-8", newline="") as text:
        rows = csv.DictReader(text)
        absent = [name for name in (id, group) if name not in (rows.fieldnames or ())]
        if absent:
            names = [*(rows.fieldnames or ())]
            near = did_you_mean(absent, names)
            raise InputError(f"{file.name} has no column {absent[0]!r}; it has {listed([*map(repr, names)])}. {near}")
        cells = [(row[id], row[group]) for row in rows]
    try:
        return [kind(key) for key, _ in cells], [group for _, group in cells]
    except ValueError:
        raise InputError(f"{file.name}: the ids of the model are integers, and these are not.") from None
