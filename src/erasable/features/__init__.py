"""Fixed feature maps: pure configuration, never fitted on rows that may have to be forgotten.

A model that learns mapped rows forgets them bit for bit; the map in front of it forgets nothing. So a map here is
known before the first row is seen: drawn from an integer, given by the caller, or a hash.
"""

from erasable.features._base import NUMBERS, TABLES, TEXTS, AbsentMap, FeatureMap
from erasable.features._given import FrozenMap, HashedText, as_texts
from erasable.features._kernels import NystroemFeatures, RandomFourierFeatures
from erasable.features._log import DEFAULT_CONSTANT, INDICATOR, ZERO, LogFeatures

__all__ = [
    "DEFAULT_CONSTANT",
    "INDICATOR",
    "NUMBERS",
    "TABLES",
    "TEXTS",
    "ZERO",
    "AbsentMap",
    "FeatureMap",
    "FrozenMap",
    "HashedText",
    "LogFeatures",
    "NystroemFeatures",
    "RandomFourierFeatures",
    "as_texts",
]
