"""The search for ids, subjects and identifying cells as text: whole words, in a block of bytes."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from erasable.audit._scan_rows import Bytes, CrowdedError, Match

Key = int | str | bytes
Mask = npt.NDArray[np.bool_]

NUMBER = "number"  # what a feature is called that is searched for as text
_SHORTEST = 4  # bytes of an id that is searched for as text
_LONG = 8  # bytes of an id that is unlikely in binary data; shorter ones must stand in text
_AROUND = 8  # bytes on either side that must be text then
_MOST_TRIES = 200_000
_WORD = (string.ascii_letters + string.digits + "_-").encode()
_TEXT = (string.printable.rstrip("\x0b\x0c")).encode()
_BEYOND_ASCII = bytes(range(128, 256))  # UTF-8 writes other letters with these


def as_text(key: Key) -> bytes:
    """Return an id as a text file would have it: integers in decimal, strings in UTF-8."""
    return key if isinstance(key, bytes) else str(key).encode("utf-8", "surrogatepass")


def is_too_short(key: Key) -> bool:
    """Return whether an id cannot be searched for as text: below four bytes, or made of single letters."""
    text = as_text(key)
    if len(text.lstrip(b"-") if isinstance(key, int) else text) < _SHORTEST:
        return True
    return len(_longest_word(text)[0]) < 2


def _longest_word(text: bytes) -> tuple[bytes, int]:
    """Return the longest run of letters and digits in an id, and its offset."""
    letters = _WORD if text.isascii() else _WORD + _BEYOND_ASCII
    runs = [(m.group(), m.start()) for m in re.finditer(b"[" + re.escape(letters) + b"]+", text)]
    return max(runs, key=lambda run: len(run[0]), default=(b"", 0))


class _Owner(NamedTuple):
    """An id to search for: its text, where its longest word lies in it, what it is, and the row that it belongs to."""

    text: bytes
    at: int
    what: str
    row: int


class TextSearch:
    """Ids, subjects, cells and numbers, ready to be searched for.

    Parameters
    ----------
    keys : iterable of (what, row, key)
        ``"id"``, ``"subject"``, ``"cell"`` or ``"number"``, the row, and the value. Too short ones are left out.
    """

    def __init__(self, keys: Iterable[tuple[str, int, Key]]) -> None:
        owners: dict[bytes, _Owner] = {}
        for what, row, key in keys:
            if not is_too_short(key):
                text = as_text(key)
                owners.setdefault(text, _Owner(text, _longest_word(text)[1], what, row))
        self.reach = max(map(len, owners), default=0) + _AROUND + 1
        # Texts over two alphabets, since a byte beyond ASCII is a letter next to some ids and none next to others.
        self._by_word: tuple[dict[bytes, list[_Owner]], dict[bytes, list[_Owner]]] = ({}, {})
        for text, owner in owners.items():
            self._by_word[not text.isascii()].setdefault(_longest_word(text)[0], []).append(owner)

    def matches(self, block: Bytes, start: int, stop: int) -> Iterator[Match]:
        """Yield texts whose longest word begins in ``block[start:stop]``; the block reaches ``reach`` bytes further.

        Raises CrowdedError if too many words are nearly an id.
        """
        for by_word, more in zip(self._by_word, (b"", _BEYOND_ASCII), strict=True):
            if not by_word:
                continue
            translated = block.tobytes().translate(_among(_WORD + more).tobytes())
            letter = np.frombuffer(b"\0" + translated + b"\0", dtype=bool)
            printable, tries = _among(_TEXT + more), 0
            for place, word in _words(block, letter, start, stop, {len(word) for word in by_word}):
                for owner in by_word.get(word, ()):
                    low = place - owner.at
                    if _stands_alone(block, letter, printable, low, owner):
                        yield Match(low, len(owner.text), owner.what, owner.row)
                    else:
                        tries += 1
                if tries > _MOST_TRIES:
                    raise CrowdedError


def _words(block: Bytes, letter: Mask, start: int, stop: int, lengths: set[int]) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of the words of certain lengths that begin in ``block[start:stop]``."""
    begin, end = _runs(letter, min(lengths))
    begin, length = begin - 1, end - begin
    inside = (begin >= start) & (begin < stop)
    begin, length = begin[inside], length[inside]
    for n in sorted(lengths):
        places = begin[length == n]
        for i in range(0, len(places), 1 << 16):
            some = places[i : i + (1 << 16)]
            words = block[some[:, None] + np.arange(n)].view(f"S{n}").ravel().tolist()
            yield from zip(some.tolist(), words, strict=True)


def _stands_alone(block: Bytes, letter: Mask, printable: Mask, low: int, owner: _Owner) -> bool:
    """Return whether an id begins at an offset, inside no longer word or number, and in text if it is short."""
    text, high = owner.text, low + len(owner.text)
    if low < 0 or block[low:high].tobytes() != text or letter[low] or letter[high + 1]:
        return False
    before, behind = block[max(0, low - _AROUND) : low], block[high : high + _AROUND]
    if owner.what == NUMBER:  # a number that goes on beyond a point is another one
        point = behind[:1].tobytes() == b"." and behind[1:2].tobytes().isdigit()
        if point or before[-1:].tobytes() == b".":
            return False
    return len(text) >= _LONG or bool(printable[before].all() and printable[behind].all())


def _runs(true: Mask, shortest: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return first and past-the-last positions of runs of at least that length; both ends of ``true`` are False."""
    all_true, n = true.copy(), 1  # whether n entries from a position on are True
    while n < shortest:
        step = min(n, shortest - n)
        all_true[:-step] &= all_true[step:]
        all_true[-step:] = False
        n += step
    begin = np.flatnonzero(all_true[1:] & ~true[:-1]) + 1
    end = np.flatnonzero(all_true[:-n] & ~true[n:]) + n
    return begin, end


def _among(letters: bytes) -> Mask:
    """Return a table of the 256 bytes: which are among the letters."""
    table = np.zeros(256, dtype=bool)
    table[list(letters)] = True
    return table
