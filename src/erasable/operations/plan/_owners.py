"""Whose rows they are, as a matrix of rows by subjects: a row may have several, and goes when any of them asks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from erasable.errors import InputError
from erasable.models.inputs import as_subject_column

Index = npt.NDArray[np.intp]
LEAST_SUBJECTS = 10


def owners_of(subjects: Any, n: int) -> sp.csr_array:
    """The caller's subjects as a matrix: an entry where a row is a subject's.

    Raises
    ------
    InputError, InputTypeError
        When there is not one entry for each of the ``n`` rows, or there are too few subjects to divide rows by.
    """
    column = as_subject_column(subjects)
    if len(column) != n:
        raise InputError(f"subjects has {len(column)} entries for {n} rows: pass one entry per row.")
    of_each = [s if isinstance(s, tuple) else () if s is None else (s,) for s in column]
    seen: dict[Any, int] = {}
    codes = [seen.setdefault(key, len(seen)) for keys in of_each for key in keys]
    if len(seen) < LEAST_SUBJECTS:
        raise InputError(
            f"subjects names {len(seen)} subjects: at least {LEAST_SUBJECTS} are needed to divide rows by them."
        )
    start = np.append(0, np.cumsum([len(keys) for keys in of_each]))
    return sp.csr_array((np.ones(len(codes)), codes, start), shape=(n, len(seen)))


def n_subjects(owners: sp.csr_array) -> int:
    """How many subjects have any of the rows."""
    return len(np.unique(owners.indices))


def requests(owners: sp.csr_array, rng: np.random.Generator) -> tuple[Index, Index]:
    """Rows in the order in which they go when subjects ask in a random order, and where in it each request ends.

    A row that goes with one subject is gone when the next of its subjects asks; so may be all rows of that one.
    """
    there, codes = np.unique(owners.indices, return_inverse=True)
    owned = np.flatnonzero(np.diff(owners.indptr))
    turn = np.minimum.reduceat(rng.permutation(len(there))[codes], owners.indptr[owned])
    return owned[np.argsort(turn, kind="stable")], np.cumsum(np.bincount(turn, minlength=len(there)))


def apart(owners: sp.csr_array, wanted: int, rng: np.random.Generator) -> tuple[Index, Index]:
    """About so many rows, and the rows that no subject of theirs has any of; both ascending.

    Subjects are drawn until the rows that are wholly theirs are enough. Rows of subjects some of whom are drawn are on
    neither side; those who share rows are drawn one after another, so that there are few where groups are small. Rows
    of nobody are each a subject's of its own.
    """
    nobody = np.flatnonzero(np.diff(owners.indptr) == 0)
    n = owners.shape[0]
    alone = sp.csr_array((np.ones(len(nobody)), (nobody, np.arange(len(nobody)))), shape=(n, len(nobody)))
    M = sp.csr_array(sp.hstack([owners, alone]))
    there, codes = np.unique(M.indices, return_inverse=True)
    M = sp.csr_array((M.data, codes, M.indptr), shape=(n, len(there)))
    count, group = connected_components(sp.block_array([[None, M], [M.T, None]]), directed=False)
    order = np.lexsort((rng.permutation(len(there)), rng.permutation(count)[group[n:]]))
    turn = np.empty(len(there), dtype=np.intp)
    turn[order] = np.arange(len(there))
    first, last = (least.reduceat(turn[codes], M.indptr[:-1]) for least in (np.minimum, np.maximum))
    drawn = min(int(np.sort(last)[min(wanted, n) - 1]), len(there) - 2)
    return np.flatnonzero(last <= drawn), np.flatnonzero(first > drawn)
