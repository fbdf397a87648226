"""Rows that lie in memory, or in a file that is mapped into it, in blocks: none is copied until it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import DeviceRows, on_host
from erasable.core.selector import Progress
from erasable.errors import InputError
from erasable.models.blocks import Block, Known, first_rows
from erasable.models.inputs import check_subjects, distinct_ids, spelt_names
from erasable.models.model import Model
from erasable.models.passes import Engine
from erasable.models.reports import LearnReport
from erasable.models.rounds import learn_blocks

_KNOWN_BYTES, _ROW_KNOWN = 2**30, 16  # what is held of rows in memory between passes: in all, and id and hash of a row
_DEVICE_BLOCKS = 16  # times the size: rows on a device are not copied


def learn_slices(
    model: Model,
    X: Any,
    y: npt.NDArray[Any],
    *,
    ids: Any,
    subjects: Any,
    sample_weight: Any,
    allow_no_subject: bool,
    engine: Engine,
    progress: Progress | None,
) -> LearnReport:
    """What ``model.learn`` does, with rows screened by an engine."""
    rows = Slices(model, X, y, ids, subjects, sample_weight, allow_no_subject=allow_no_subject, engine=engine)
    watch = None if progress is None else (lambda done: progress(done, X.shape[0]))
    return learn_blocks(model, rows, engine=engine, allow_no_subject=allow_no_subject, progress=watch)


class Slices:
    """Rows, labels and names of one call, checked against each other, in blocks as an engine likes them.

    ``at_hand`` says whether another pass over them costs little: they lie in memory and are looked at here.

    Raises
    ------
    InputError
        When ids repeat, and where lengths do not match.
    """

    distinct = True

    def __init__(
        self,
        model: Model,
        X: Any,
        y: npt.NDArray[Any],
        ids: Any,
        subjects: Any,
        sample_weight: Any,
        *,
        allow_no_subject: bool,
        engine: Engine,
    ) -> None:
        n = X.shape[0]
        weights = model.checked_weights(sample_weight, n)
        if weights is not None and not weights.any():
            raise InputError("every weight (sample_weight=) rounds to zero, so there is nothing to learn.")
        ids, subjects = spelt_names(ids, subjects, model.spelling)
        keys = None if ids is None else distinct_ids(ids, n)
        owners = None
        if subjects is not None:
            owners = check_subjects(subjects, n, None, allow_no_subject=allow_no_subject)
        given = None if sample_weight is None else np.asarray(on_host(sample_weight))
        self.columns = X, y, keys, owners, given
        width = X.shape[1] if X.ndim > 1 else 64
        self.row_bytes = getattr(getattr(X, "dtype", None), "itemsize", 8) * max(1, width)
        block_bytes = engine.block_bytes * (_DEVICE_BLOCKS if isinstance(X, DeviceRows) else 1)
        self.step = max(1, block_bytes // self.row_bytes)
        in_memory = not isinstance(_whole(X), np.memmap)  # a file may change
        self.at_hand = in_memory and not engine.sends and _ROW_KNOWN * n <= _KNOWN_BYTES
        self.known = [Known() for _ in range(0, n, self.step)] if self.at_hand else None

    def __iter__(self) -> Iterator[Block]:
        for low in range(0, self.columns[0].shape[0], self.step):
            yield self._block(low)

    def _block(self, low: int) -> Block:
        cut = slice(low, low + self.step)
        parts: Any = [None if column is None else column[cut] for column in self.columns]
        return Block(*parts)._replace(known=None if self.known is None else self.known[low // self.step])

    def first_share(self, budget_bytes: float) -> float | None:
        """The share of the rows that a first round takes within a budget; None where their size is not known."""
        X = self.columns[0]
        if not isinstance(X, np.ndarray | DeviceRows) or X.ndim != 2:
            return None
        return first_rows(self.row_bytes, X.shape[1], budget_bytes) / max(1, len(X))

    def parts(self) -> list[Slice] | None:
        """Where the rows lie in a file: blocks that are read from it elsewhere."""
        source = _mapped(self.columns[0])
        if source is None:
            return None
        lows = range(0, self.columns[0].shape[0], self.step)
        return [Slice(self._block(low), source, low) for low in lows]


class Slice:
    """A block of rows in a mapped file; when it is sent, the rows stay, and are mapped again where it arrives."""

    def __init__(self, block: Block, source: tuple[str, str, int], low: int) -> None:
        self.block, self.source, self.low, self.n_rows = block, source, low, block.X.shape[0]
        self.shape = block.X.shape

    def __iter__(self) -> Iterator[Block]:
        if self.block.X is not None:
            yield self.block
            return
        path, dtype, offset = self.source
        if not Path(path).exists():
            raise InputError(f"{Path(path).name} is not to be found where rows are screened: give its path there.")
        offset += self.low * self.shape[1] * np.dtype(dtype).itemsize
        yield self.block._replace(X=np.memmap(path, dtype, "r", offset, self.shape))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "block": self.block._replace(X=None)}


def _whole(X: Any) -> Any:
    """What an array is a slice of: a slice of a memmap has the offset of the whole."""
    while isinstance(X, np.ndarray) and isinstance(X.base, np.ndarray):
        X = X.base
    return X


def _mapped(X: Any) -> tuple[str, str, int] | None:
    """File, type and place of rows that lie one after the other in a mapped file; None for others."""
    whole = _whole(X)
    if not isinstance(whole, np.memmap) or whole.filename is None or not X.flags.c_contiguous or X.ndim != 2:
        return None
    ahead = X.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return str(Path(whole.filename).resolve()), X.dtype.str, int(whole.offset) + ahead
