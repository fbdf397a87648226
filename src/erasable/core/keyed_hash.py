"""A 64-bit hash of ids under an integer key, and the order that it puts rows into. Pure.

What is drawn for a row, and when its turn is, is a function of its id and the key alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.names import Key

Hashes = npt.NDArray[np.uint64]
_STARTS = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)  # of SipHash
_LENGTH = 8 << 56  # of what is hashed, in bytes
_CHUNK = 2**15  # words that stay in the cache together; with fewer, threads would wait for each other


def keyed_hash(ids: Sequence[Key] | npt.NDArray[np.int64], key: int) -> Hashes:
    """A pseudo-random 64-bit number for each id, uniform, that depends on the id and the key alone.

    So what happens to a row (whether it is drawn, where it goes, when its turn is) does not depend on which other rows
    there are, and forgetting can equal a refit. Who does not know the key cannot choose ids by their hashes; whoever
    knows it can compute them.

    Parameters
    ----------
    ids : sequence of int (of 64 bits, signed), of str or of bytes
        An integer and the text of its digits have different hashes.
    key : int
        Of any size; callers have it as ``random_state``.

    Notes
    -----
    *Definition*: the salt is BLAKE2b-128 of the key's decimal digits. Of a text (in UTF-8) or bytes the hash is
    BLAKE2b-64 keyed with the salt, little endian; of an integer, SipHash-2-4 keyed with the salt of its eight bytes,
    little endian, two's complement.
    *Source*: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.
    """
    salt = salt_of(key)
    if isinstance(ids, range):
        ids = np.arange(ids.start, ids.stop, ids.step, dtype=np.int64)
    if isinstance(ids, np.ndarray) or (len(ids) and isinstance(ids[0], int)):
        return _siphash(np.asarray(ids, dtype=np.int64).view(np.uint64), salt)
    start, drawn = hashlib.blake2b(digest_size=8, key=salt), []
    for k in ids:
        one = start.copy()
        one.update(k.encode() if isinstance(k, str) else k)  # type: ignore[arg-type]
        drawn.append(one.digest())
    return np.frombuffer(b"".join(drawn), dtype="<u8").astype(np.uint64)


def salt_of(key: int) -> bytes:
    """The sixteen bytes that ids are hashed with."""
    return hashlib.blake2b(str(key).encode(), digest_size=16).digest()


def hashed_order(ids: Sequence[Key] | npt.NDArray[np.int64], key: int) -> npt.NDArray[np.intp]:
    """Positions of distinct ids in ascending order of their keyed hashes; those with one hash in that of the ids.

    *Law*: the ids in this order are a function of the set of ids and the key. Text is ordered by its UTF-8 bytes.
    *Cost*: numbers are sorted several times as fast as positions, so the position takes the last bits of each hash, and
    the few that this leaves equal are sorted again.
    """
    hashes = keyed_hash(ids, key)
    bits = len(hashes).bit_length()
    last = np.uint64((1 << bits) - 1)
    packed = hashes & ~last
    packed |= np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    order = (packed & last).view(np.int64)
    packed >>= np.uint64(bits)
    same = np.flatnonzero(packed[1:] == packed[:-1])
    near = np.union1d(same, same + 1)
    some = order[near]
    some = some[np.argsort(hashes[some])]
    ordered = hashes[some]
    tied = np.flatnonzero(ordered[1:] == ordered[:-1])
    for low in tied[np.isin(tied - 1, tied, invert=True)].tolist():  # where a run of equal hashes begins
        high = low + int(np.searchsorted(ordered[low:], ordered[low], side="right"))
        some[low:high] = sorted(some[low:high].tolist(), key=lambda i: _comparable(ids[i]))
    order[near] = some
    return order


def _comparable(key: Any) -> Any:
    return key.encode() if isinstance(key, str) else key


def _siphash(words: Hashes, salt: bytes) -> Hashes:
    """SipHash-2-4 of each eight-byte word under a key of sixteen bytes.

    *Cost*: 112 operations on 64-bit integers a word.
    """
    hashes, starts = np.empty_like(words), sip_starts(salt)
    memory = np.empty((5, min(len(words), _CHUNK)), dtype=np.uint64)
    for low in range(0, len(words), _CHUNK):
        part = words[low : low + _CHUNK]
        *v, spare = memory[:, : len(part)]
        for word, start in zip(v, starts, strict=True):
            word.fill(start)

        def rotate(word: Hashes, by: int, spare: Hashes = spare) -> None:
            np.right_shift(word, 64 - by, out=spare)
            word <<= by
            word |= spare

        sip(v, part, rotate)
        hashes[low : low + _CHUNK] = v[0]
    return hashes


def sip_starts(salt: bytes) -> list[int]:
    """What the four words of SipHash's state begin with."""
    halves = int.from_bytes(salt[:8], "little"), int.from_bytes(salt[8:], "little")
    return [start ^ halves[i % 2] for i, start in enumerate(_STARTS)]


def sip(v: list[Any], words: Any, rotate: Callable[[Any, int], None]) -> None:
    """SipHash-2-4 of eight-byte words, wherever they lie: ``v``, full of the starts, is changed, and ``v[0]`` has it.

    Sums, exclusive ors and ``rotate``, to the left, are done in place on 64-bit integers that wrap around.
    """
    for message in (words, _LENGTH):
        v[3] ^= message
        _mix(v, 2, rotate)
        v[0] ^= message
    v[2] ^= 0xFF
    _mix(v, 4, rotate)
    for word in v[1:]:
        v[0] ^= word


def _mix(v: list[Any], rounds: int, rotate: Callable[[Any, int], None]) -> None:
    """SipRounds, in place."""
    for _ in range(rounds):
        for a, b, turn, half in ((0, 1, 13, True), (2, 3, 16, False), (0, 3, 21, False), (2, 1, 17, True)):
            v[a] += v[b]
            rotate(v[b], turn)
            v[b] ^= v[a]
            if half:
                rotate(v[a], 32)
