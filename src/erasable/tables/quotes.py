"""CSV text cut into whole rows; whether every quote is closed: one that is not takes rows after it for its cell.

A cell is quoted when its first character is a quote; inside of it, two quotes stand for one. Quotes elsewhere stand for
themselves. What parses CSV is lenient where a quote is closed and the cell goes on, or is never closed: rows would be
lost without a word. Here both are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from erasable.errors import InputError

LONGEST_ROW = 2**26  # bytes
_QUOTE = ord('"')


def whole_rows(text: BinaryIO, sep: str, name: str, size: int) -> Iterator[bytes]:
    """Parts of CSV text of about this size, each from the start of a row to the end of one; ``name`` is for errors.

    *Law*: the parts put together are the text. *Cost*: next to nothing where there are no quotes; otherwise a look at
    each, in bulk where all stand around cells.

    Raises
    ------
    InputError
        When a quote is not closed, or closed where a cell goes on; when a row is longer than 64 MiB.
    """
    watch, held = _Watch(sep, name), [b""]
    while part := text.read(size):
        end = watch.feed(part)
        if end is None or len(part) < size:  # the last ones stay together
            held.append(part)
            if sum(map(len, held)) > LONGEST_ROW:
                watch.refuse_unclosed()
                raise InputError(f"{name}: a row is longer than {LONGEST_ROW:,} bytes, so this may be no CSV.")
        else:
            yield b"".join([*held, part[:end]])
            held = [part[end:]]
    watch.feed(b"\n\n")
    watch.refuse_unclosed()
    if rest := b"".join(held):
        yield rest


class _Watch:
    def __init__(self, sep: str, name: str) -> None:
        self.name = name
        self.ends = np.zeros(256, dtype=bool)  # what may stand before a quoted cell and after it
        self.ends[[ord(sep), ord("\n"), ord("\r")]] = True
        self.tail = b"\n"  # a byte that was looked at and, but at the start, one that was not: what follows it counts
        self.inside = self.closed_last = False
        self.line = self.opened = 1

    def feed(self, part: bytes) -> int | None:
        """Look at the bytes that follow; where in them the last row ends, where one does."""
        if not part:  # and whether a quote was closed last stays to be seen
            return None
        text, before, inside = self.tail + part, len(self.tail), self.inside
        at = self._look(text) if inside or b'"' in text else None
        self.line += text.count(b"\n", 1, len(text) - 1)
        self.tail = text[-2:]
        for mark in (b"\n", b"\r"):
            if at is None:
                last = text.rfind(mark, 1, len(text) - 1)
            else:
                breaks = np.flatnonzero(np.frombuffer(text, np.uint8)[1:-1] == mark[0]) + 1
                ending = breaks[(np.searchsorted(at, breaks) + inside) % 2 == 0]
                last = int(ending[-1]) if len(ending) else -1
            if last >= 0:
                return last + 1 - before
        return None

    def refuse_unclosed(self) -> None:
        """Refuse that the text ends here."""
        if self.inside:
            raise InputError(
                f"{self.name}: a quote that opens in line {self.opened:,} is not closed, so the rows after it would be "
                "lost: correct the file."
            )

    def _look(self, text: bytes) -> Any:
        """Where quotes open or close a cell, in turn."""
        codes = np.frombuffer(text, np.uint8)
        at = np.flatnonzero(codes[1:-1] == _QUOTE) + 1
        # As a rule all do; two inside of a cell close it and open it again.
        opens = (np.arange(len(at)) + self.inside) % 2 == 0
        beside = codes[np.where(opens, at - 1, at + 1)]
        doubled = self.closed_last or text[0] != _QUOTE or not len(at) or at[0] > 1  # and no quote within a cell
        if doubled and (self.ends[beside] | (beside == _QUOTE)).all():
            self.inside ^= len(at) % 2 == 1
            self.closed_last = bool(len(at)) and not self.inside and bool(at[-1] == len(codes) - 2)
            if self.inside and len(at):
                self.opened = self._line_of(text, int(at[-1]))
            return at
        closed, turns = 0 if self.closed_last else -1, []
        for i in at.tolist():
            if not self.inside:
                self.inside = closed == i - 1 or bool(self.ends[text[i - 1]])
                if not self.inside:
                    continue
                if closed != i - 1:
                    self.opened = self._line_of(text, i)
            elif text[i + 1] == _QUOTE or self.ends[text[i + 1]]:
                self.inside, closed = False, i
            else:
                raise InputError(
                    f"{self.name}: in line {self._line_of(text, i):,} a quote is closed and its cell goes on, as where "
                    "an earlier one is missing: put quotes around whole cells, and double those inside; or give sep=, "
                    "where another character is between cells."
                )
            turns.append(i)
        self.closed_last = closed == len(codes) - 2
        return np.array(turns, dtype=np.intp)

    def _line_of(self, text: bytes, at: int) -> int:
        return self.line + text.count(b"\n", 1, at)
