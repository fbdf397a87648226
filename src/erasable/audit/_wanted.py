"""What a scan is asked to look for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.audit._words import Key
from erasable.errors import InputError, InputTypeError


@dataclass(frozen=True, eq=False, repr=False)
class Wanted:
    """The rows, and of each id and subject the first row that has it; the names of their columns, where known."""

    X: npt.NDArray[Any]
    ids: dict[Key, int] | None
    subjects: dict[Key, int] | None
    feature_names: tuple[str, ...] | None = None
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of "id" and "subject"
    feature_map: str | None = None  # that the rows went through, as the header of a model describes it
    cells: dict[Key, int] = field(default_factory=dict)  # other texts that tell a row, and the first row that has each
    numbers: dict[Key, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        X: Any,
        ids: Any,
        subjects: Any,
        feature_names: Any = None,
        columns: Any = None,
        feature_map: str | None = None,
    ) -> Wanted:
        """The same from what a caller has, checked."""
        if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
            raise InputTypeError(f"X must be an array of float32 or float64; got {type(X).__name__}.")
        if X.ndim != 2 or not X.shape[0] or not X.shape[1]:
            raise InputError(f"X must have two dimensions and at least one row and feature; got the shape {X.shape}.")
        if not np.isfinite(X).all():
            raise InputError("X must be finite: leave out rows that no model can have learnt.")
        found: list[dict[Key, int] | None] = []
        for name, keys in (("ids", ids), ("subjects", subjects)):
            if keys is None:
                found.append(None)
                continue
            values = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
            if len(values) != len(X):
                raise InputError(f"{name} has {len(values)} entries for {len(X)} rows: give one per row.")
            several = name == "subjects"
            listed = [(row, v) for row, of_row in enumerate(values) for v in (_each(of_row) if several else [of_row])]
            if not all(v is None or (isinstance(v, int | str | bytes) and not isinstance(v, bool)) for _, v in listed):
                raise InputTypeError(f"{name} must be integers, strings or bytes.")
            first: dict[Key, int] = {}
            for row, value in listed:
                if value is not None:
                    first.setdefault(value, row)
            found.append(first)
        names = None if feature_names is None else tuple(map(str, feature_names))
        if names is not None and len(names) != X.shape[1]:
            raise InputError(f"feature_names has {len(names)} entries for {X.shape[1]} features.")
        known = {
            what: (name,) if isinstance(name, str) else tuple(map(str, name))
            for what, name in (columns or {}).items()
            if name is not None
        }
        return cls(np.ascontiguousarray(X), found[0], found[1], names, known, feature_map)

    def telling(self, cells: Iterable[tuple[int, str]], numbers: Iterable[tuple[int, str]]) -> Wanted:
        """The same with texts and numbers that tell rows."""
        first: list[dict[Key, int]] = [{}, {}]
        for texts, given in zip(first, (cells, numbers), strict=True):
            for row, text in given:
                texts.setdefault(text, row)
        return replace(self, cells=first[0], numbers=first[1])

    def named(self) -> list[tuple[str, dict[Key, int]]]:
        """``"id"`` and ``"subject"`` with their values, where given."""
        both = (("id", self.ids), ("subject", self.subjects))
        return [(what, keys) for what, keys in both if keys is not None]


def _each(of_row: Any) -> Any:
    """The subjects of one row, which may be several."""
    return of_row if isinstance(of_row, list | tuple) else [of_row]
