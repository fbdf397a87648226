"""Rows whose ids a model stores already, when a table is sent again: passed over, or learnt in place of the old ones.

Only stored ids are known. A row that was offered before and not kept left no trace, so it is offered once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.layout import Key
from erasable.errors import ConfigurationError, InputError
from erasable.models.blocks import Block
from erasable.models.keys import as_key_column
from erasable.models.model import Model


class NewRows:
    """Blocks less the rows that the model stored when this was made; gone through again where the blocks can be.

    Attributes
    ----------
    rows_known : int
        How many rows were passed over the first time.
    nothing_new : bool
        Whether these were all.
    """

    def __init__(self, blocks: Iterable[Any], model: Model) -> None:
        self._blocks, self._known = blocks, frozenset(model.core.place)  # the model learns while this is gone through
        self.once = _only_once(blocks)
        self.rows_known, self.nothing_new, self._passes = 0, False, 0

    def __iter__(self) -> Iterator[Any]:
        self._passes += 1
        known = new = 0
        for block in self._blocks:
            keys = _ids(block, "skip_known")
            at = np.flatnonzero([key not in self._known for key in keys])
            known += len(keys) - len(at)
            new += len(at)
            if len(at) == len(keys):
                yield block
            elif len(at):
                parts = block.X, block.y, block.ids, block.subjects, getattr(block, "weights", None)
                yield Block(*(_taken(part, at) for part in parts))
        if self._passes == 1:
            self.rows_known, self.nothing_new = known, known > 0 and not new


def stored_ids(blocks: Iterable[Any], model: Model) -> list[Key]:
    """The ids of these rows that the model stores: one pass over all of them.

    Raises
    ------
    ConfigurationError
        When the rows could be read but once.
    """
    if _only_once(blocks):
        raise ConfigurationError(
            "replace= needs the ids of all rows before the first is learnt, so rows have to be read twice: save them "
            "to a file and give that."
        )
    place = model.core.place
    return list(dict.fromkeys(key for block in blocks for key in _ids(block, "replace") if key in place))


def _only_once(blocks: Iterable[Any]) -> bool:
    return bool(getattr(blocks, "once", isinstance(blocks, Iterator)))


def _ids(block: Any, option: str) -> list[Key]:
    if block.ids is None:
        raise InputError(f"{option}= knows rows by their ids, and these have none: name them with id=.")
    keys = as_key_column(block.ids, "ids")
    return keys.tolist() if isinstance(keys, np.ndarray) else list(keys)


def _taken(part: Any, at: npt.NDArray[np.intp]) -> Any:
    if part is None:
        return None
    if isinstance(part, list | tuple):
        return [part[i] for i in at.tolist()]
    return part.iloc[at] if hasattr(part, "iloc") else part[at]
