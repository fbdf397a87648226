"""A 64-bit hash of ids under an integer key: what is drawn for a row is a function of its id alone. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from erasable.core.layout import Key


def keyed_hash(ids: Sequence[Key], key: int) -> npt.NDArray[np.uint64]:
    """A pseudo-random 64-bit number for each id, uniform, that depends on the id and the key alone.

    So what happens to a row (whether it is drawn, where it goes) does not depend on which other rows there are, and
    forgetting can equal a refit. Not a secret: whoever knows the key can compute it.

    Parameters
    ----------
    ids : sequence of int (of 64 bits, signed), of str or of bytes
        An integer and the text of its digits have different hashes.
    key : int
        Of any size; callers have it as ``random_state``.

    Notes
    -----
    *Definition*: the salt is BLAKE2b-128 of the key's decimal digits. Of a text (in UTF-8) or bytes the hash is
    BLAKE2b-64 keyed with the salt, little endian; of an integer, the mixing steps of SplitMix64 on the integer plus
    the first eight bytes of the salt, modulo 2**64.
    """
    salt = hashlib.blake2b(str(key).encode(), digest_size=16).digest()
    if isinstance(ids, range) or (len(ids) and isinstance(ids[0], int)):
        z = np.asarray(ids, dtype=np.int64).view(np.uint64) + np.frombuffer(salt[:8], dtype="<u8")
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the mixing steps of SplitMix64
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        mixed: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
        return mixed
    texts = (k.encode() if isinstance(k, str) else k for k in ids)
    drawn = b"".join(hashlib.blake2b(t, digest_size=8, key=salt).digest() for t in texts)  # type: ignore[arg-type]
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64)
