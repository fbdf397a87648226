"""Blocks of rows as callers make them, on their way to a model."""

from __future__ import annotations

from typing import Any

from erasable.models.blocks import Block


class BlockCheck:
    """Checks rows of a block as those of ``partial_fit``, wherever the block is read: it can be sent.

    Parameters
    ----------
    face : estimator
        One without a model.
    """

    def __init__(self, face: Any) -> None:
        self.face = face

    def __call__(self, block: Any) -> Block:
        """The block, of arrays."""
        X, y, _ = self.face._check_learnt(block.X, block.y, first=False)
        return Block(X, y, block.ids, block.subjects, getattr(block, "weights", None))
