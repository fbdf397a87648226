"""A 64-bit hash of ids under an integer key, and the order that it puts rows into. Pure.

What is drawn for a row, and when its turn is, is a function of its id and the key alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.names import Key

Hashes = npt.NDArray[np.uint64]
_STARTS = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)  # of SipHash
_LENGTH = np.uint64(8 << 56)  # of what is hashed, in bytes
_CHUNK = 2**14  # words that stay in the cache together


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
    salt = hashlib.blake2b(str(key).encode(), digest_size=16).digest()
    if isinstance(ids, range):
        ids = np.arange(ids.start, ids.stop, ids.step, dtype=np.int64)
    if isinstance(ids, np.ndarray) or (len(ids) and isinstance(ids[0], int)):
        return _siphash(np.asarray(ids, dtype=np.int64).view(np.uint64), salt)
    texts = (k.encode() if isinstance(k, str) else k for k in ids)
    drawn = b"".join(hashlib.blake2b(t, digest_size=8, key=salt).digest() for t in texts)  # type: ignore[arg-type]
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64)


def hashed_order(ids: Sequence[Key] | npt.NDArray[np.int64], key: int) -> npt.NDArray[np.intp]:
    """Positions of distinct ids in ascending order of their keyed hashes; those with one hash in that of the ids.

    *Law*: the ids in this order are a function of the set of ids and the key. Text is ordered by its UTF-8 bytes.
    """
    hashes = keyed_hash(ids, key)
    order = np.argsort(hashes)
    ordered = hashes[order]
    tied = np.flatnonzero(ordered[1:] == ordered[:-1])
    for low in tied[np.isin(tied - 1, tied, invert=True)].tolist():  # where a run of equal hashes begins
        high = low + int(np.searchsorted(ordered[low:], ordered[low], side="right"))
        order[low:high] = sorted(order[low:high].tolist(), key=lambda i: _comparable(ids[i]))
    return order


def _comparable(key: Any) -> Any:
    return key.encode() if isinstance(key, str) else key


def _siphash(words: Hashes, key: bytes) -> Hashes:
    """SipHash-2-4 of each eight-byte word under a key of sixteen bytes.

    *Cost*: 112 operations on 64-bit integers a word.
    """
    halves = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    hashes = np.empty_like(words)
    for low in range(0, len(words), _CHUNK):
        part = words[low : low + _CHUNK]
        v = [np.full(len(part), start ^ halves[i % 2], dtype=np.uint64) for i, start in enumerate(_STARTS)]
        spare = np.empty_like(part)
        for message in (part, _LENGTH):
            v[3] ^= message
            _mix(v, 2, spare)
            v[0] ^= message
        v[2] ^= np.uint64(0xFF)
        _mix(v, 4, spare)
        hashes[low : low + _CHUNK] = v[0] ^ v[1] ^ v[2] ^ v[3]
    return hashes


def _mix(v: list[Hashes], rounds: int, spare: Hashes) -> None:
    """SipRounds, in place."""
    for _ in range(rounds):
        for a, b, turn, half in ((0, 1, 13, True), (2, 3, 16, False), (0, 3, 21, False), (2, 1, 17, True)):
            v[a] += v[b]
            _rotate(v[b], turn, spare)
            v[b] ^= v[a]
            if half:
                _rotate(v[a], 32, spare)


def _rotate(word: Hashes, by: int, spare: Hashes) -> None:
    np.right_shift(word, np.uint64(64 - by), out=spare)
    word <<= np.uint64(by)
    word |= spare
