"""Rate, moments and class shares of a draft: powers of two, from a second pass over the rows.

A feature that fewer than k subjects have gets the smallest moment of the draft, so its own does not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Int64s
from erasable.core.independent import nearest_power
from erasable.schemas.cells import canonical_text, canonical_texts
from erasable.schemas.reading import Columns
from erasable.schemas.schema import Role, Schema

_ROWS_PER_FEATURE, _LEAST_RATE = 16, 0.125  # benchmarks/RESULTS.md, "Defaults"
_UNITS = 2.0**30  # of a squared feature of a unit row: whole numbers have one sum in every order


def with_selection(schema: Schema, blocks: Iterable[Any], k: int) -> Schema:
    """The schema with a drafted rate, moments and class shares.

    Parameters
    ----------
    blocks : iterable of tables
        The table that the schema was drafted from, of which one block is held at a time.
    k : int
        How many subjects must have a feature for its moment to show.

    Notes
    -----
    The rate stores about sixteen rows for each feature, and an eighth of all rows at least. Shares are drafted if the
    label lists its classes, which k subjects each have. *Cost*: each row is encoded once; memory
    for up to k subjects of each feature.
    """
    label = next((c for c in schema.columns if isinstance(c, Role) and c.role == "label" and c.classes), None)
    totals, rows, labels = np.zeros(schema.n_features_out, dtype=np.int64), 0, Counter[str | None]()
    having = _Subjects(schema.n_features_out, k)
    for block in blocks:
        columns = Columns(block, schema.version)
        encoded, _ = schema.encode_sparse(block)
        totals += _squares(encoded)
        having.add(encoded, row_owners(columns, schema.names_of("subject")))
        rows += columns.n_rows
        if label is not None:
            labels.update(canonical_column(columns, label.name))
    shared = (totals > 0) & having.enough
    if not shared.any():
        return schema
    exponents = np.array([nearest_power(t / (rows * _UNITS)) if s else 0 for t, s in zip(totals, shared, strict=True)])
    exponents[~shared] = exponents[shared].min()
    ends = np.cumsum(schema.widths)[:-1]
    names = [*(c.name for c in schema.features), *(c.name for c in schema.crosses)]
    moments = {name: own.tolist() for name, own in zip(names, np.split(exponents, ends), strict=True)}
    classes = label.classes if label is not None else None
    shares = {c: 2.0 ** nearest_power(labels[c] / rows) for c in classes or () if labels[c]}
    wanted = min(1.0, max(_LEAST_RATE, _ROWS_PER_FEATURE * schema.n_features_out / rows))
    return replace(
        schema,
        moments=moments,
        class_shares=shares if len(shares) == len(classes or ()) else {},
        rate=2.0 ** nearest_power(wanted),
    )


def _squares(rows: sp.csr_array) -> Int64s:
    """The sum of each squared feature over rows of norm one, in whole units; encoded squares have exact sums."""
    squares = np.square(rows.data, dtype=np.float64)
    of_row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    norms = np.bincount(of_row, weights=squares, minlength=rows.shape[0])[of_row]
    units = np.rint(np.divide(squares, norms, out=np.zeros_like(squares), where=norms > 0) * _UNITS).astype(np.int64)
    total = np.zeros(rows.shape[1], dtype=np.int64)
    np.add.at(total, rows.indices, units)
    return total


def canonical_column(columns: Columns, name: str) -> list[str | None]:
    """The canonical text of each cell."""
    cells = columns[name]
    texts = list(canonical_texts(cells, ()))
    return texts if cells.inverse is None else [texts[i] for i in cells.inverse.tolist()]


def row_owners(columns: Columns, names: Sequence[str]) -> list[set[str]] | None:
    """The subjects of each row; None where every row is a subject of its own."""
    if not names:
        return None
    found: list[set[str]] = [set() for _ in range(columns.n_rows)]
    for name in names:
        lists = columns.lists(name)
        if lists is None:
            lists = [[text] for text in canonical_column(columns, name)]
        for owners, row in zip(found, lists, strict=True):
            owners.update(canonical_text(v) for v in row or () if v is not None and v != "")
    return found


class _Subjects:
    """Which features k rows have that share no subject, so that k subjects have them in every column of subjects."""

    def __init__(self, n_features: int, k: int) -> None:
        self._k = k
        self._counts = np.zeros(n_features, dtype=np.int64)
        self._seen: list[set[str]] = [set() for _ in range(n_features)]

    @property
    def enough(self) -> Any:
        """Whether each feature has k."""
        return self._counts >= self._k

    def add(self, rows: sp.csr_array, owners: list[set[str]] | None) -> None:
        """Count the rows of a block, each if it shares no subject with one that was counted."""
        by_feature = sp.csc_array(rows)
        if owners is None:
            self._counts += np.diff(by_feature.indptr)
            return
        for j in np.flatnonzero(~self.enough).tolist():
            for i in np.sort(by_feature.indices[by_feature.indptr[j] : by_feature.indptr[j + 1]]).tolist():
                if self._seen[j].isdisjoint(owners[i]):
                    self._seen[j] |= owners[i]
                    self._counts[j] += 1
                    if self._counts[j] == self._k:
                        self._seen[j] = set()
                        break
