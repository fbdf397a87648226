"""Looking for many rows at once at every offset of a block of bytes.

Two tables of hashes. *Anchors*: eight neighbouring bytes of a row that vary enough to be rare, one for every 28
offsets, so that any 64 bytes of the row hold one. *Windows*: rows in which no eight bytes are rare (yes-or-no
features, small integers) are found by a rolling hash over as many bytes as the shortest of them has. A hit in a table
is only a candidate: rows are compared byte by byte. Work is linear in the bytes read, whatever they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.audit._needles import Bytes, Encoding, telling

SHORTEST_PART = 64  # bytes of a row that count as a part of it
FEWEST_ENTRIES = 8  # different ones, not zero, that these bytes must hold
_ANCHOR = 8
_STEP = (SHORTEST_PART - _ANCHOR) // 2  # any 64 bytes hold all of some 28 offsets at which an anchor may begin
_RARE = 5  # different bytes, not zero, that an anchor must have
_MOST_OWNERS = 4  # an anchor that more rows share is not rare
_LONGEST_WINDOW = 4096
_PIECE = 1 << 18  # bytes handled at once: they stay in the cache
_MOST_TRIES = 200_000  # candidates of one block that turn out to be no match, before the block is given up

_U = np.uint64
_MIX, _MIX_AGAIN = _U(0x9E3779B97F4A7C15), _U(0xD6E8FEB86659FD93)
_BASE = 0xF1357AEA2E62A9C5  # odd, so that it has an inverse modulo 2**64
_BACK = pow(_BASE, -1, 1 << 64)

UInt64s = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


class CrowdedError(Exception):
    """A block has too many near misses to look at all of them."""


@dataclass(frozen=True)
class Match:
    """Bytes ``first`` to ``last`` of a row, found at an offset of the block (where ``first`` lies)."""

    encoding: int
    row: int  # in the encoding
    offset: int
    first: int
    last: int
    whole: bool


class Search:
    """All rows of some encodings, ready to be looked for.

    Parameters
    ----------
    all_of : sequence of Encoding
    """

    def __init__(self, all_of: Sequence[Encoding]) -> None:
        self.encodings = list(all_of)
        self._raw = [e.raw for e in self.encodings]
        self.reach = max((r.shape[1] for r in self._raw), default=0)  # bytes of the longest row
        told = [telling(e) for e in self.encodings]
        self.untold = {
            int(i) for e, t in zip(self.encodings, told, strict=True) for i in e.numbers[~t]
        }  # rows of the table that some encoding cannot be searched for
        self._make_anchors(told)
        poor = [t & ~r for t, r in zip(told, self._rich, strict=True)]
        for encoding, mine in zip(self.encodings, poor, strict=True):
            if encoding.sparse:  # a window as short as some of these are would be found everywhere
                self.untold.update(encoding.numbers[mine].tolist())
                mine[:] = False
        self._windows = Windows(self._raw, poor)

    # -- anchors -------------------------------------------------------------------------------------------------

    def _make_anchors(self, told: list[npt.NDArray[np.bool_]]) -> None:
        found = [(e, *some) for e, raw in enumerate(self._raw) for some in _anchors(raw, np.flatnonzero(told[e]))]
        none = (0, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, _U))
        of, rows, starts, keys = zip(none, *found, strict=True)
        key = np.concatenate(keys)
        order = np.argsort(key, kind="stable")
        key = key[order]
        self._of = np.repeat(np.array(of), [len(r) for r in rows])[order]
        self._row, self._start = np.concatenate(rows)[order], np.concatenate(starts)[order]
        first = np.flatnonzero(np.concatenate([key[:1] == key[:1], key[1:] != key[:-1]]))
        count = np.diff(first, append=len(key))
        rare = count <= _MOST_OWNERS
        self._keys, self._first, self._count = key[first[rare]], first[rare], count[rare]
        self._rich = [np.zeros(len(raw), dtype=bool) for raw in self._raw]
        for k in range(_MOST_OWNERS):
            held = self._first[self._count > k] + k
            for e in range(len(self._rich)):
                self._rich[e][self._row[held[self._of[held] == e]]] = True
        self._table = _Table(self._keys)

    def matches(self, block: Bytes, start: int, stop: int) -> Iterator[Match]:
        """Rows and parts of rows found by something that begins in ``block[start:stop]``.

        The block must reach ``self.reach`` bytes further on both sides, or to the end of the file.

        Raises
        ------
        CrowdedError
            When the block is made so that almost everything in it is nearly a row.
        """
        if len(self._keys):
            yield from self._by_anchor(block, start, stop)
        yield from self._windows.matches(block, start, stop)

    def _by_anchor(self, block: Bytes, start: int, stop: int) -> Iterator[Match]:
        found: set[tuple[int, int, int]] = set()
        for places, keys in self._table.candidates(block, start, stop):
            found.update(self._lined_up(block, places, keys))
            if len(found) > _MOST_TRIES:
                raise CrowdedError
        for e, row, at in sorted(found, key=lambda f: (f[2], f[0], f[1])):
            yield from self._compare(block, e, row, at)

    def _lined_up(self, block: Bytes, places: Places, keys: UInt64s) -> Iterator[tuple[int, int, int]]:
        """(encoding, row, where in the block that row would begin) of anchors with equal bytes beside them."""
        j = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        real = self._keys[j] == keys
        j, places = j[real], places[real]
        for k in range(_MOST_OWNERS):
            more = self._count[j] > k
            owner, at = self._first[j[more]] + k, places[more]
            of = self._of[owner]
            for e in np.unique(of).tolist():
                mine = of == e
                row, begin, here = self._row[owner[mine]], self._start[owner[mine]], at[mine]
                near = _looks_alike(block, here, self._raw[e], row, begin)
                for r, a in zip(row[near].tolist(), (here - begin)[near].tolist(), strict=True):
                    yield e, r, a

    def _compare(self, block: Bytes, e: int, row: int, at: int) -> Iterator[Match]:
        raw = self._raw[e][row]
        a, b = max(0, -at), min(len(raw), len(block) - at)
        unequal = np.flatnonzero(block[at + a : at + b] != raw[a:b])
        if not len(unequal) and b - a == len(raw):
            yield Match(e, row, at, 0, b, True)
            return
        ends = np.concatenate([[-1], unequal, [b - a]])
        for i in np.flatnonzero(np.diff(ends) > SHORTEST_PART).tolist():
            first, last = a + int(ends[i]) + 1, a + int(ends[i + 1])
            if self._says_enough(e, row, first, last):
                yield Match(e, row, at + first, first, last, False)

    def _says_enough(self, e: int, row: int, first: int, last: int) -> bool:
        entries = self.encodings[e].rows[row][slice(*self.columns(e, first, last))]
        return len(np.unique(entries[entries != 0])) >= FEWEST_ENTRIES

    def columns(self, encoding: int, first: int, last: int) -> tuple[int, int]:
        """The entries that lie wholly in these bytes of a row."""
        width = self.encodings[encoding].rows.dtype.itemsize
        return -(-first // width), last // width


def _anchors(raw: Bytes, rows: npt.NDArray[np.intp]) -> Iterator[tuple[Places, Places, UInt64s]]:
    """Rows, offsets and bytes of anchors, some rows at a time."""
    width = raw.shape[1]
    starts = width - _ANCHOR + 1
    if starts < 1:
        return
    step = max(1, (1 << 21) // width)
    blocks = -(-starts // _STEP)
    for i in range(0, len(rows), step):
        mine = rows[i : i + step]
        part = raw[mine]
        at = np.tile(_STEP * np.arange(blocks), len(mine))
        row = np.repeat(np.arange(len(mine)), blocks)
        held, good = _held(part, row, at)
        yield mine[row[good]], at[good], held[good]
        if good.all():
            continue
        again, place = np.unique(row[~good], return_inverse=True)
        best = _most_varied(part[again], starts, blocks)
        row, at = row[~good], best[place, at[~good] // _STEP]
        held, good = _held(part, row, at)
        yield mine[row[good]], at[good], held[good]


def _held(part: Bytes, row: Places, at: Places) -> tuple[UInt64s, npt.NDArray[np.bool_]]:
    """The eight bytes at some offsets of some rows, and whether they vary enough."""
    flat, start = part.reshape(-1), row * part.shape[1] + at
    held = np.stack([flat[start + k] for k in range(_ANCHOR)])
    varied = np.zeros(len(row), dtype=np.uint8)
    for k in range(_ANCHOR):
        new = held[k] != 0
        for earlier in range(k):
            new &= held[k] != held[earlier]
        varied += new
    return np.ascontiguousarray(held.T).view("<u8")[:, 0].astype(_U), varied >= _RARE


def _most_varied(part: Bytes, starts: int, blocks: int) -> Places:
    """For every row and every 28 offsets, the one with the most bytes that are not zero nor like the one before."""
    fresh = part != 0
    fresh[:, 1:] &= part[:, 1:] != part[:, :-1]
    total = np.zeros((len(part), part.shape[1] + 1), dtype=np.int32)
    np.cumsum(fresh, axis=1, out=total[:, 1:])
    score = np.full((len(part), blocks * _STEP), -1, dtype=np.int32)
    score[:, :starts] = total[:, _ANCHOR:] - total[:, :-_ANCHOR]
    best: Places = score.reshape(len(part), blocks, _STEP).argmax(axis=2) + _STEP * np.arange(blocks)
    return best


def _looks_alike(block: Bytes, at: Places, raw: Bytes, row: Places, begin: Places) -> npt.NDArray[np.bool_]:
    """Whether enough bytes before or after an anchor are those of the row for it to be whole or a part of 64 bytes."""
    width = raw.shape[1]
    alike = np.zeros(len(at), dtype=bool)
    for i in range(0, len(at), 1 << 14):
        some = slice(i, i + (1 << 14))
        a, r, b = at[some], row[some], begin[some]

        def same(shift: npt.NDArray[Any], a: Places = a, r: Places = r, b: Places = b) -> npt.NDArray[np.bool_]:
            there, here = a[:, None] + shift, b[:, None] + shift
            inside = (there >= 0) & (there < len(block)) & (here >= 0) & (here < width)
            equal = block[np.clip(there, 0, len(block) - 1)] == raw[r[:, None], np.clip(here, 0, width - 1)]
            return np.asarray(equal & inside)

        if width < SHORTEST_PART:  # only the whole row counts
            alike[some] = same(np.arange(width) - b[:, None]).all(axis=1)
        else:
            before, after = same(np.arange(-_STEP, 0)), same(np.arange(_ANCHOR, _ANCHOR + _STEP))
            alike[some] = before.all(axis=1) | after.all(axis=1)
    return alike


# -- windows -----------------------------------------------------------------------------------------------------


class Windows:
    """Rows without rare bytes, found whole by a rolling hash of one length."""

    def __init__(self, raw: Sequence[Bytes], wanted: Sequence[npt.NDArray[np.bool_]]) -> None:
        used = [e for e, w in enumerate(wanted) if w.any()]
        self.length = min([_LONGEST_WINDOW, *(raw[e].shape[1] for e in used)])
        self._of: dict[tuple[int, int], dict[bytes, list[tuple[int, int]]]] = {}
        keys, self._shapes = [], {}
        shapes: dict[int, set[tuple[int, int]]] = {}
        powers = _powers(_BASE, self.length)
        for e in used:
            width = raw[e].shape[1]
            begins = np.unique([*range(0, width - self.length + 1, self.length), width - self.length])
            rows = np.flatnonzero(wanted[e])
            weight = np.stack([np.count_nonzero(raw[e][rows, b : b + self.length], axis=1) for b in begins], axis=1)
            begin = begins[weight.argmax(axis=1)]
            for b in np.unique(begin).tolist():
                mine = rows[begin == b]
                hashes = np.concatenate(
                    [
                        (raw[e][mine[i : i + 256], b : b + self.length] + _U(1)) @ powers
                        for i in range(0, len(mine), 256)
                    ]
                )
                keys.append(hashes)
                whole = self._of.setdefault((b, width), {})
                for row, key in zip(mine.tolist(), hashes.tolist(), strict=True):
                    whole.setdefault(raw[e][row].tobytes(), []).append((e, row))
                    shapes.setdefault(key, set()).add((b, width))
        self._shapes = {key: sorted(found) for key, found in shapes.items()}
        self._keys = np.unique(np.concatenate(keys)) if keys else np.empty(0, _U)
        self._table = _Table(self._keys)
        self._forward = self._backward = np.empty(0, _U)

    def matches(self, block: Bytes, start: int, stop: int) -> Iterator[Match]:
        """Whole rows whose window begins in ``block[start:stop]``."""
        if not len(self._keys):
            return
        if not len(self._forward):
            self._forward, self._backward = _powers(_BASE, _PIECE + self.length), _powers(_BACK, _PIECE)
        passed: dict[tuple[int, int], int] = {}  # the end of the last match of a row: overlapping ones are one
        tries = 0
        for place, key in self._candidates(block, start, min(stop, len(block) - self.length + 1)):
            for begin, width in self._shapes.get(key, ()):
                at = place - begin
                if at < 0 or at + width > len(block):
                    continue
                owners = self._of[begin, width].get(block[at : at + width].tobytes(), ())
                tries += not owners
                for e, row in owners:
                    if passed.get((e, row), 0) <= at:
                        passed[e, row] = at + width
                        yield Match(e, row, at, 0, width, True)
            if tries > _MOST_TRIES:
                raise CrowdedError

    def _candidates(self, block: Bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
        sums = np.zeros(_PIECE + self.length + 1, _U)
        for low in range(start, stop, _PIECE):
            n = min(_PIECE, stop - low)
            piece = block[low : low + n + self.length - 1]
            if not piece.any():
                continue
            m = len(piece)
            terms = (piece + _U(1)) * self._forward[:m]
            np.cumsum(terms, out=sums[1 : m + 1])
            hashes = (sums[self.length : self.length + n] - sums[:n]) * self._backward[:n]
            hit = self._table.hits(hashes)
            known = hit[np.isin(hashes[hit], self._keys)]
            yield from zip((known + low).tolist(), hashes[known].tolist(), strict=True)


def _powers(base: int, n: int) -> UInt64s:
    """``base**0 .. base**(n-1)`` modulo 2**64."""
    out = np.ones(max(n, 1), _U)
    done = 1
    while done < n:  # doubling: the second half is the first times a power
        more = min(done, n - done)
        out[done : done + more] = out[:more] * _U(pow(base, done, 1 << 64))
        done += more
    return out[:n]


# -- the table ---------------------------------------------------------------------------------------------------


class _Table:
    """Which 64-bit keys may be there: two tables of bits, no misses, few false hits."""

    def __init__(self, keys: UInt64s) -> None:
        bits = min(30, max(12, int(64 * max(1, len(keys)) - 1).bit_length()))
        self._shift = _U(64 - bits)
        self._first, self._second = (self._bits(keys, mix, bits) for mix in (_MIX, _MIX_AGAIN))
        self._words = np.empty(_PIECE, dtype=np.uint8)
        self._hash, self._byte = np.empty(_PIECE, dtype=_U), np.empty(_PIECE, dtype=_U)
        self._flag, self._bit = np.empty(_PIECE, dtype=np.uint8), np.empty(_PIECE, dtype=np.uint8)

    def _bits(self, keys: UInt64s, mix: np.uint64, bits: int) -> Bytes:
        table = np.zeros(1 << (bits - 3), dtype=np.uint8)
        h = (keys * mix) >> self._shift
        np.bitwise_or.at(table, h >> _U(3), np.left_shift(1, h & _U(7)).astype(np.uint8))
        return table

    def hits(self, keys: UInt64s) -> Places:
        """Positions of the keys that may be there."""
        hit = self._among(keys, _MIX, self._first)
        kept: Places = hit[self._among(keys[hit], _MIX_AGAIN, self._second)]
        return kept

    def _among(self, keys: UInt64s, mix: np.uint64, table: Bytes) -> Places:
        m = len(keys)
        h, byte, flag, bit = self._hash[:m], self._byte[:m], self._flag[:m], self._bit[:m]
        np.multiply(keys, mix, out=h)
        np.right_shift(h, self._shift, out=h)
        np.right_shift(h, _U(3), out=byte)
        np.take(table, byte.view(np.int64), out=flag, mode="clip")
        np.bitwise_and(h, _U(7), out=h)
        np.copyto(bit, h, casting="unsafe")
        np.right_shift(flag, bit, out=flag)
        np.bitwise_and(flag, np.uint8(1), out=flag)
        return np.flatnonzero(flag.view(bool))

    def candidates(self, block: Bytes, start: int, stop: int) -> Iterator[tuple[Places, UInt64s]]:
        """Places in ``block[start:stop]`` where eight bytes begin that may be a key, and those bytes."""
        for low in range(start, min(stop, len(block) - 7), _PIECE):
            high = min(low + _PIECE, stop, len(block) - 7)
            if not block[low : high + 7].any():
                continue
            places, keys = [], []
            for shift in range(min(8, high - low)):
                m = (high - low - shift + 7) // 8
                self._words[: 8 * m] = block[low + shift : low + shift + 8 * m]  # unaligned views are slow
                words = self._words[: 8 * m].view("<u8").astype(_U, copy=False)
                hit = self.hits(words)
                if len(hit):
                    places.append(hit * 8 + (low + shift))
                    keys.append(words[hit])
            if places:
                yield np.concatenate(places), np.concatenate(keys)
