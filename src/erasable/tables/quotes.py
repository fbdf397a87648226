"""Whether every quote of CSV text is closed: one that is not takes the rows after it for a part of its cell.

A cell is quoted when its first character is a quote; inside of it, two quotes stand for one. Quotes elsewhere stand for
themselves. What reads CSV is lenient where a quote is closed and the cell goes on, or is never closed: rows would
be lost without a word. Here both are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from erasable.errors import InputError
from erasable.tables.opening import CHUNK

_QUOTE = ord('"')


def watched(text: BinaryIO, sep: str, name: str) -> Iterator[bytes]:
    """The bytes of CSV text as they are, refused where a quote is not closed; ``name`` is that of the file.

    *Cost*: next to nothing where there are no quotes; otherwise a look at each, in bulk where all stand around cells.
    """
    watch = _Watch(sep, name)
    while part := text.read(CHUNK):
        watch.feed(part)
        yield part
    watch.end()


class _Watch:
    def __init__(self, sep: str, name: str) -> None:
        self.name = name
        self.ends = np.zeros(256, dtype=bool)  # what may stand before a quoted cell and after it
        self.ends[[ord(sep), ord("\n"), ord("\r")]] = True
        self.tail = b"\n"  # a byte that was looked at and, but at the start, one that was not: what follows it counts
        self.inside = self.closed_last = False
        self.line = self.opened = 1

    def feed(self, part: bytes) -> None:
        text = self.tail + part
        if self.inside or b'"' in text:
            self._look(text)
        self.line += text.count(b"\n", 1, len(text) - 1)
        self.tail = text[-2:]

    def end(self) -> None:
        self.feed(b"\n\n")
        if self.inside:
            raise InputError(
                f"{self.name}: a quote that opens in line {self.opened:,} is not closed, so the rows after it would be "
                "lost: correct the file."
            )

    def _look(self, text: bytes) -> None:
        codes = np.frombuffer(text, np.uint8)
        at = np.flatnonzero(codes[1:-1] == _QUOTE) + 1
        # As a rule quotes open and close in turn; two inside of a cell close it and open it again.
        opens = (np.arange(len(at)) + self.inside) % 2 == 0
        beside = codes[np.where(opens, at - 1, at + 1)]
        doubled = self.closed_last or text[0] != _QUOTE or not len(at) or at[0] > 1  # and no quote within a cell
        if doubled and (self.ends[beside] | (beside == _QUOTE)).all():
            self.inside ^= len(at) % 2 == 1
            self.closed_last = bool(len(at)) and not self.inside and at[-1] == len(codes) - 2
            if self.inside and len(at):
                self._note_opening(text, int(at[-1]))
            return
        closed = 0 if self.closed_last else -1
        for i in at.tolist():
            if not self.inside:
                self.inside = closed == i - 1 or bool(self.ends[text[i - 1]])
                if self.inside and closed != i - 1:
                    self._note_opening(text, i)
            elif text[i + 1] == _QUOTE or self.ends[text[i + 1]]:
                self.inside, closed = False, i
            else:
                line = self.line + text.count(b"\n", 1, i)
                raise InputError(
                    f"{self.name}: in line {line:,} a quote is closed and its cell goes on, an earlier one is "
                    "missing: put quotes around whole cells, and double those inside."
                )
        self.closed_last = closed == len(codes) - 2

    def _note_opening(self, text: bytes, at: int) -> None:
        self.opened = self.line + text.count(b"\n", 1, at)
