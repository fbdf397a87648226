"""Tables in the text format of SVMlight and LIBSVM."""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_svmlight_file

from erasable.errors import InputError
from erasable.tables._columns import as_rows, check_labels
from erasable.tables._reading import read_or_refuse
from erasable.tables._rows import Rows
from erasable.tables._source import Source, refused_each, where_in
from erasable.tables._table import Table


def read_svmlight(path: Path, name: str, *, subjects: bool) -> Table:
    """The table in a file; with ``subjects``, the query id of every row (``qid:7``) as its subject."""
    X, y, *query = read_or_refuse(lambda: load_svmlight_file(str(path), query_id=subjects), path, "SVMlight text")
    if not X.shape[0]:
        raise InputError(f"{path.name}: there are no rows.")
    owners: npt.NDArray[Any] | None = query[0] if query else None
    if owners is not None and len(owners) != X.shape[0]:
        raise InputError(f"{path.name}: {len(owners)} of {X.shape[0]} rows have a query id: every row needs one.")
    y = check_labels(y, path.name)
    return Table(as_rows(X, path.name), y.astype(np.int64) if _are_whole(y) else y, subjects=owners, name=name)


def _are_whole(y: npt.NDArray[Any]) -> bool:
    """Whether labels are integers."""
    return bool(np.abs(y).max() < 2**53) and bool((y == np.floor(y)).all())


class SvmlightSource(Source):
    """A file, plain or compressed, read twice.

    The first pass finds the largest feature, whether features are counted from zero, and whether labels are integers.
    """

    def __init__(self, path: Path, name: str, block_bytes: int, *, subjects: bool, n_features: int | None) -> None:
        self._path, self._name, self._block, self._subjects, self._given = path, name, block_bytes, subjects, n_features

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return self._first_pass.n_features

    def count_rows(self) -> int:
        """The number of rows, by the first pass."""
        self.n_rows = self._first_pass.n_rows
        return self.n_rows

    @cached_property
    def _first_pass(self) -> _Found:
        path, n, smallest, largest, whole = self._path, 0, np.inf, 0, True
        for X, y, *_ in self._parsed(zero_based=True):
            check_labels(y, where_in(path, n, len(y)))
            n, whole = n + len(y), whole and _are_whole(y)
            if len(X.indices):
                smallest, largest = min(smallest, X.indices.min()), max(largest, int(X.indices.max()))
        if not n:
            raise InputError(f"{path.name}: there are no rows.")
        from_one = 0 < smallest < np.inf  # as scikit-learn decides
        width = largest + (not from_one)
        if self._given is not None and width > self._given:
            raise InputError(f"{path.name} has {width} features, more than the {self._given} that n_features allows.")
        self.n_rows = n
        return _Found(n, self._given or width, from_one, whole)

    def blocks(self) -> Iterator[Rows]:
        """Blocks of whole lines."""
        found, path, first = self._first_pass, self._path, 0
        for X, y, *query in self._parsed(zero_based=not found.from_one, n_features=found.n_features):
            where = where_in(path, first, len(y))
            owners = query[0] if query else None
            if owners is not None and len(owners) != len(y):
                raise InputError(f"{where}: {len(owners)} of {len(y)} rows have a query id: every row needs one.")
            y = check_labels(y, where)
            first += len(y)
            yield Rows(as_rows(X, where), None, owners, y.astype(np.int64) if found.whole else y, self._name)

    def _parsed(self, **options: Any) -> Iterator[list[Any]]:
        """What scikit-learn makes of runs of lines; rows, labels, and query ids where they are wanted."""
        for text in refused_each(_lines(self._path, self._block), self._path, "SVMlight text"):

            def read(text: bytes = text) -> list[Any]:
                return list(load_svmlight_file(io.BytesIO(text), query_id=self._subjects, **options))

            part = read_or_refuse(read, self._path, "SVMlight text")
            if len(part[1]):
                yield part


@dataclass(frozen=True)
class _Found:
    n_rows: int
    n_features: int
    from_one: bool
    whole: bool


def _lines(path: Path, size: int) -> Iterator[bytes]:
    """Whole lines of about so many bytes, unpacked."""
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    with opener(path, "rb") as file:
        while text := file.read(size):
            yield text + file.readline()
