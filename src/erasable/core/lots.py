"""Lots that are drawn from an id and a seed alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from erasable.core.layout import Key


def lots(keys: Sequence[Key], seed: int) -> npt.NDArray[np.uint64]:
    """A pseudo-random 64-bit number for each id that depends on the id and the seed alone.

    So where a row goes does not depend on which other rows there are, and forgetting can equal a refit.
    """
    salt = hashlib.blake2b(str(seed).encode(), digest_size=16).digest()
    if isinstance(keys, range) or (len(keys) and isinstance(keys[0], int)):
        z = np.asarray(keys, dtype=np.int64).view(np.uint64) + np.frombuffer(salt[:8], dtype="<u8")
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the mixing steps of SplitMix64
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        mixed: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
        return mixed
    texts = (k.encode() if isinstance(k, str) else k for k in keys)
    drawn = b"".join(hashlib.blake2b(t, digest_size=8, key=salt).digest() for t in texts)  # type: ignore[arg-type]
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64)
