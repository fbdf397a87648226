"""Fixed feature maps: pure configuration, never fitted on rows that may have to be forgotten.

A model that learns mapped rows forgets them bit for bit; the map in front of it forgets nothing. So a map here is
known before the first row is seen: drawn from a seed, given by the caller, or a hash.
"""

from erasable.classes.feature_maps._base import FeatureMap
from erasable.classes.feature_maps._fourier import RandomFourierFeatures
from erasable.classes.feature_maps._frozen import FrozenMap
from erasable.classes.feature_maps._nystroem import NystroemFeatures
from erasable.classes.feature_maps._texts import HashedText

__all__ = ["FeatureMap", "FrozenMap", "HashedText", "NystroemFeatures", "RandomFourierFeatures"]
