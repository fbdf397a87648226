"""Tables in the text format of SVMlight and LIBSVM, parsed by scikit-learn."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.errors import InputError
from erasable.tables.columns import as_rows, checked_column
from erasable.tables.opening import open_unpacked
from erasable.tables.reading import Source, read_or_refuse, refused_each, where_in
from erasable.tables.table import Table

_FORM = "SVMlight text"
_LOOKED_AT = 2**22  # bytes of text that the first pass takes at once


class SvmlightSource(Source):
    """A file, plain or compressed; with ``subjects``, the query id of every row (``qid:7``) is its subject.

    Block by block it is read twice: the largest feature, whether features are counted from zero, and whether labels
    are integers shows only at the end.
    """

    def __init__(self, path: Path, name: str, *, subjects: bool, n_features: int | None) -> None:
        self._path, self.name, self._subjects, self._given = path, name, subjects, n_features

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return self._first_pass.n_features

    def count_rows(self) -> int:
        """The number of rows, by the first pass."""
        return self._first_pass.n_rows

    @cached_property
    def _first_pass(self) -> _Found:
        return self._look(self._parsed(_LOOKED_AT))

    def blocks(self, block_bytes: int | None) -> Iterator[Table]:
        """Blocks of whole lines."""
        path, first = self._path, 0
        parts: Iterable[list[Any]] = self._parsed(block_bytes)
        if block_bytes is None:
            parts = list(parts)
            found = self._look(parts)
        else:
            found = self._first_pass
        for X, y, *query in parts:
            n = len(y)
            where = path.name if block_bytes is None else where_in(path, first, n)
            owners = query[0] if query else None
            if owners is not None and len(owners) != n:
                raise InputError(f"{where}: {len(owners)} of {n} rows have a query id: every row needs one.")
            y = checked_column(y, "label", where, first)
            rows = read_or_refuse(partial(_rows, X, found, where, first), path, _FORM)
            yield Table(rows, y.astype(np.int64) if found.whole else y, subjects=owners, name=self.name)
            first += n

    def _look(self, parts: Iterable[list[Any]]) -> _Found:
        """What shows at the end alone."""
        path, n, smallest, largest, whole = self._path, 0, np.inf, 0, True
        for X, y, *_ in parts:
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

    def _parsed(self, block_bytes: int | None) -> Iterator[list[Any]]:
        """What scikit-learn makes of runs of lines; rows counted from zero, labels, and query ids where wanted."""
        from sklearn.datasets import load_svmlight_file  # here, as only this format needs scikit-learn

        texts = [None] if block_bytes is None else refused_each(_lines(self._path, block_bytes), self._path, _FORM)
        for text in texts:

            def read(text: bytes | None = text) -> list[Any]:
                with open_unpacked(self._path) if text is None else io.BytesIO(text) as source:
                    return list(load_svmlight_file(source, zero_based=True, query_id=self._subjects))

            part = read_or_refuse(read, self._path, _FORM)
            if len(part[1]):
                yield part


@dataclass(frozen=True)
class _Found:
    n_rows: int
    n_features: int
    from_one: bool
    whole: bool


def _rows(X: Any, found: _Found, where: str, first: int) -> Any:
    """Rows counted from zero as rows of the file; what lies outside of it is refused."""
    indices = X.indices - X.indices.dtype.type(found.from_one)
    return as_rows(sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], found.n_features)), where, first=first)


def _are_whole(y: npt.NDArray[Any]) -> bool:
    """Whether labels are integers."""
    return bool(np.abs(y).max() < 2**53) and bool((y == np.floor(y)).all())


def _lines(path: Path, size: int) -> Iterator[bytes]:
    """Whole lines of about so many bytes, unpacked."""
    with open_unpacked(path) as file:
        while text := file.read(size):
            yield text + file.readline()
