"""Looking for ids, subjects and telling cells as text: whole words, in a block of bytes."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from erasable.audit._needles import Bytes
from erasable.audit._search import CrowdedError

NUMBER = "number"  # what a feature is called that is looked for as text
SHORTEST = 4  # bytes of an id that is looked for as text
_ON_ITS_OWN = 8  # bytes of an id that cannot well stand in binary data by chance; shorter ones must stand in text
_AROUND = 8  # bytes on either side that must be text then
_MOST_TRIES = 200_000

_WORD = (string.ascii_letters + string.digits + "_-").encode()
_TEXT = (string.printable.rstrip("\x0b\x0c")).encode()
_FAR = bytes(range(128, 256))
_RUNS = [re.compile(b"[" + re.escape(letters) + b"]+") for letters in (_WORD, _WORD + _FAR)]
_U = np.uint64
_MIX = _U(0x9E3779B97F4A7C15)

Key = int | str | bytes


@dataclass(frozen=True)
class Word:
    """An id or subject found at an offset of the block."""

    what: str
    row: int
    offset: int
    length: int


def as_text(key: Key) -> bytes:
    """An id as it would stand in a text file: integers in decimal, strings in UTF-8."""
    return key if isinstance(key, bytes) else str(key).encode("utf-8", "surrogatepass")


def is_too_short(key: Key) -> bool:
    """Whether an id cannot be looked for as text: below four characters or digits, or nothing but single ones."""
    text = as_text(key)
    if len(text.lstrip(b"-") if isinstance(key, int) else text) < SHORTEST:
        return True
    return len(_longest_word(text)[0]) < 2


def _is_far(text: bytes) -> bool:
    return not text.isascii()


def _longest_word(text: bytes) -> tuple[bytes, int]:
    """The longest run of letters and digits in an id, and where in it."""
    runs = [(m.group(), m.start()) for m in _RUNS[_is_far(text)].finditer(text)]
    return max(runs, key=lambda r: len(r[0]), default=(b"", 0))


class Words:
    """Ids and subjects, ready to be looked for.

    Parameters
    ----------
    keys : sequence of (what, row, key)
        What it is, "id", "subject", "cell" or "number", whose, and the value itself. Those that are too short are left
        out.
    """

    def __init__(self, keys: Sequence[tuple[str, int, Key]]) -> None:
        texts: dict[bytes, tuple[str, int]] = {}
        for what, row, key in keys:
            if not is_too_short(key):
                texts.setdefault(as_text(key), (what, row))
        self.reach = max(map(len, texts), default=0) + _AROUND + 1
        self._groups = [
            _Group({t: owner for t, owner in texts.items() if _is_far(t) == far}, far) for far in (False, True)
        ]

    def matches(self, block: Bytes, start: int, stop: int) -> Iterator[Word]:
        """Words whose longest part begins in ``block[start:stop]``; the block reaches ``reach`` bytes further."""
        for group in self._groups:
            yield from group.matches(block, start, stop)


class _Group:
    """Texts over one alphabet: ASCII, or with the bytes beyond it, which UTF-8 writes other letters with."""

    def __init__(self, texts: dict[bytes, tuple[str, int]], far: bool) -> None:
        self._letter = _among(_WORD + (_FAR if far else b"")).tobytes()
        self._text = _among(_TEXT + (_FAR if far else b""))
        self._by_word: dict[bytes, list[tuple[bytes, int, str, int]]] = {}
        for text, (what, row) in texts.items():
            word, at = _longest_word(text)
            self._by_word.setdefault(word, []).append((text, at, what, row))
        self._hashes: dict[int, npt.NDArray[np.uint64]] = {}
        for n in sorted({len(w) for w in self._by_word}):
            same = b"".join(w for w in self._by_word if len(w) == n)
            self._hashes[n] = np.unique(_hash(np.frombuffer(same, np.uint8).reshape(-1, n)))

    def matches(self, block: Bytes, start: int, stop: int) -> Iterator[Word]:
        if not self._by_word:
            return
        letter = np.frombuffer(b"\0" + block.tobytes().translate(self._letter) + b"\0", dtype=bool)
        begin, end = _runs(letter, min(self._hashes))
        begin, length = begin - 1, end - begin
        mine = (begin >= start) & (begin < stop)
        begin, length = begin[mine], length[mine]
        tries = 0
        for n, hashes in self._hashes.items():
            places = begin[length == n]
            for i in range(0, len(places), 1 << 16):
                some = places[i : i + (1 << 16)]
                held = block[some[:, None] + np.arange(n)]
                for place in some[np.isin(_hash(held), hashes)].tolist():
                    for text, at, what, row in self._by_word.get(block[place : place + n].tobytes(), ()):
                        if self._stands(block, letter, text, place - at) and not (
                            what == NUMBER and _goes_on(block, place - at, place - at + len(text))
                        ):
                            yield Word(what, row, place - at, len(text))
                        else:
                            tries += 1
                if tries > _MOST_TRIES:
                    raise CrowdedError

    def _stands(self, block: Bytes, letter: npt.NDArray[np.bool_], text: bytes, at: int) -> bool:
        """Whether the whole id stands there, no longer word around it, and in text where it is short."""
        end = at + len(text)
        if at < 0 or block[at:end].tobytes() != text or letter[at] or letter[end + 1]:
            return False
        if len(text) >= _ON_ITS_OWN:
            return True
        around = np.concatenate([block[max(0, at - _AROUND) : at], block[end : end + _AROUND]])
        return bool(self._text[around].all())


def _goes_on(block: Bytes, start: int, stop: int) -> bool:
    """Whether digits go on beyond a point before or behind a number: it is then another one."""
    before, behind = block[max(0, start - 2) : start].tobytes(), block[stop : stop + 2].tobytes()
    return (behind[:1] == b"." and behind[1:].isdigit()) or before[-1:] == b"."


def _runs(true: npt.NDArray[np.bool_], shortest: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """First and past-the-last positions of runs of at least that length; the first and last entries are False."""
    all_true, n = true.copy(), 1  # whether n entries from here on are True
    while n < shortest:
        step = min(n, shortest - n)
        all_true[:-step] &= all_true[step:]
        all_true[-step:] = False
        n += step
    begin = np.flatnonzero(all_true[1:] & ~true[:-1]) + 1
    end = np.flatnonzero(all_true[:-n] & ~true[n:]) + n
    return begin, end


def _among(letters: bytes) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, dtype=bool)
    table[list(letters)] = True
    return table


def _hash(words: Bytes) -> npt.NDArray[np.uint64]:
    """A hash of each row of bytes."""
    padded = np.zeros((len(words), -(-words.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : words.shape[1]] = words
    parts = padded.view("<u8").astype(_U)
    out = np.zeros(len(words), _U)
    for j in range(parts.shape[1]):
        out = (out ^ parts[:, j]) * _MIX
        out ^= out >> _U(29)
    return out
