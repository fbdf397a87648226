"""Columns of numbers that are to be predicted: read as features are, and taken out of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.tables.reading import listed
from erasable.tables.table import Table
from erasable.validation import did_you_mean


@dataclass(frozen=True)
class Targets:
    """Where some columns of a table are the targets of its rows."""

    among: tuple[int, ...]  # the columns of the rows as they are read
    rest: tuple[int, ...]
    feature_names: tuple[str, ...]

    @classmethod
    def of(cls, names: Sequence[str] | None, targets: Sequence[str]) -> Targets:
        """The columns of these names.

        Raises
        ------
        ConfigurationError
            When the format has no names.
        InputError
            When there is no such column, or none beside them.
        """
        if names is None:
            raise ConfigurationError(
                "targets name columns, which this kind of file does not have: leave them out, its y are the targets."
            )
        missing = [name for name in targets if name not in names]
        if missing:
            raise InputError(
                f"there is no column {' and no column '.join(map(repr, missing))} to take as a target; the table has "
                f"{listed([*map(repr, names)])}. {did_you_mean(missing, names)}".strip()
            )
        among = tuple(names.index(name) for name in targets)
        rest = tuple(j for j in range(len(names)) if j not in among)
        if not rest:
            raise InputError("there are no feature columns beside the targets.")
        return cls(among, rest, tuple(names[j] for j in rest))

    def split(self, table: Table) -> Table:
        """The rows without their targets, which are ``y``: of one dimension where there is one."""
        y = np.asarray(table.X[:, self.among], dtype=np.float64)
        X = np.ascontiguousarray(table.X[:, self.rest])
        return replace(table, X=X, y=y if len(self.among) > 1 else y[:, 0], feature_names=None)


def check_targets(targets: Sequence[str], taken: Sequence[str | None]) -> tuple[str, ...]:
    """Names of columns, each once, and none that has another role.

    Raises
    ------
    ConfigurationError, InputTypeError
    """
    if isinstance(targets, str) or not all(isinstance(name, str) for name in targets):
        raise InputTypeError("targets must be names of columns, a list of strings.")
    if len(set(targets)) < len(targets) or {*targets} & {*taken}:
        raise ConfigurationError("targets must name each column once, and none of those that have another role.")
    return tuple(targets)
