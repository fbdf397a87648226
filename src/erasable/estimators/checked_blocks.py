"""Blocks of rows as callers make them, on their way to a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from erasable.models.blocks import Block


class CheckedBlocks:
    """Blocks whose rows are checked as those of ``partial_fit``, each time they are gone through, wherever that is."""

    def __init__(self, face: Any, blocks: Iterable[Any], n_rows: int | None = None) -> None:
        self.face, self.blocks, self.n_rows = face, blocks, n_rows

    def __iter__(self) -> Iterator[Block]:
        for block in self.blocks:
            X, y, _ = self.face._check_learnt(block.X, block.y, first=False)
            yield Block(X, y, block.ids, block.subjects, getattr(block, "weights", None))

    def parts(self) -> list[CheckedBlocks] | None:
        """Where the blocks come in parts that can be read elsewhere: these, to be checked there."""
        parts = self.blocks.parts() if hasattr(self.blocks, "parts") else None
        return None if parts is None else [CheckedBlocks(self.face, part, part.n_rows) for part in parts]

    def noted(self, encoding: Any) -> None:
        """What became of cells that were encoded elsewhere."""
        if hasattr(self.blocks, "noted"):
            self.blocks.noted(encoding)
