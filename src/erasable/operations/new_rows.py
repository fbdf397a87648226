"""Skip rows whose ids a model stores already, and rows of people on a suppression list.

Only stored ids are known: a row that was offered before and not kept left no trace, so it is offered once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import ColumnLike
from erasable.core.names import Key, Spelling
from erasable.errors import ConfigurationError, InputError
from erasable.models.inputs import as_key_column, spelt_names
from erasable.models.model import Model
from erasable.models.row_source import Rows, RowSource

#: Given the ids and subjects of a block, returns which rows to skip; nothing if the rows have no names.
Suppressed = Callable[[Any, Any], Sequence[bool]]


class NewRows(RowSource):
    """Blocks without the rows that are skipped; can be read again if the blocks can.

    Parameters
    ----------
    blocks : iterable of Table
    known : Model, optional
        Skip rows that it stores at this time.
    suppressed : callable, optional
        Skip rows that it names.
    spelling : mapping, optional
        How the model normalises names.

    Attributes
    ----------
    rows_known, rows_suppressed : int
        The number of rows skipped in the first pass; a row that is both counts as suppressed.
    nothing_new : bool
        Whether all rows were skipped.
    """

    def __init__(
        self,
        blocks: Iterable[Any],
        known: Model | None = None,
        suppressed: Suppressed | None = None,
        spelling: Spelling = MappingProxyType({}),
    ) -> None:
        self._blocks, self._suppressed, self._spelling = RowSource.of(blocks), suppressed, spelling
        self._known = None if known is None else frozenset(known.core.place)  # a copy, since the model learns meanwhile
        self.once = self._blocks.once
        self.rows_known, self.rows_suppressed, self.nothing_new, self._counted = 0, 0, False, False

    def __iter__(self) -> Iterator[Any]:
        known = suppressed = new = 0
        for block in self._blocks:
            kept = np.ones(len(block.y), dtype=bool)
            ids, subjects = spelt_names(block.ids, block.subjects, self._spelling)
            if self._suppressed is not None and (named := self._suppressed(ids, subjects)):
                kept &= ~np.asarray(named, dtype=bool)
            suppressed += len(kept) - (wanted := int(kept.sum()))
            if self._known is not None:
                kept &= np.array([key not in self._known for key in _keys(ids, "skip_known")], dtype=bool)
            at = np.flatnonzero(kept)
            known += wanted - len(at)
            new += len(at)
            if len(at) == len(kept):
                yield block
            elif len(at):
                parts = block.X, block.y, block.ids, block.subjects, getattr(block, "weights", None)
                yield Rows(*(_taken(part, at) for part in parts))
        if not self._counted:
            self._counted = True
            self.rows_known, self.rows_suppressed = known, suppressed
            self.nothing_new = known + suppressed > 0 and not new


def stored_ids(blocks: Iterable[Any], model: Model) -> list[Key]:
    """Return the ids of these rows that the model stores, in one pass.

    Raises ConfigurationError when the rows can be read only once.
    """
    if RowSource.of(blocks).once:
        raise ConfigurationError(
            "replace= needs the ids of all rows before the first is learnt, so rows have to be read twice: save them "
            "to a file and give that."
        )
    place, spelling = model.core.place, model.spelling
    ids = (spelt_names(block.ids, None, spelling)[0] for block in blocks)
    return list(dict.fromkeys(key for part in ids for key in _keys(part, "replace") if key in place))


def _keys(ids: ColumnLike, option: str) -> list[Key]:
    if ids is None:
        raise InputError(f"{option}= knows rows by their ids, and these have none: name them with id=.")
    keys = as_key_column(ids, "ids")
    return keys.tolist() if isinstance(keys, np.ndarray) else list(keys)


def _taken(part: Any, at: npt.NDArray[np.intp]) -> Any:
    if part is None:
        return None
    if isinstance(part, list | tuple):
        return [part[i] for i in at.tolist()]
    return part.iloc[at] if hasattr(part, "iloc") else part[at]
