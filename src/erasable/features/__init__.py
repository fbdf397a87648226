"""Fixed feature maps: pure configuration, never fitted on rows that may have to be forgotten.

A model that learns mapped rows forgets them bit for bit; the map in front of it forgets nothing. So a map here is
known before the first row is seen: drawn from an integer, given by the caller, or a hash.
"""

from erasable.features._base import NUMBERS, TABLES, TEXTS, AbsentMap, FeatureMap
from erasable.features._fourier import RandomFourierFeatures
from erasable.features._frozen import FrozenMap
from erasable.features._nystroem import NystroemFeatures
from erasable.features._texts import HashedText, as_texts

__all__ = [
    "NUMBERS",
    "TABLES",
    "TEXTS",
    "AbsentMap",
    "FeatureMap",
    "FrozenMap",
    "HashedText",
    "NystroemFeatures",
    "RandomFourierFeatures",
    "as_texts",
]
