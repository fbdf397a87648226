"""Function classes, and fixed feature maps in front of a linear model."""

from erasable.classes._protocol import FunctionClass, Measure
from erasable.classes.feature_maps import FrozenMap, HashedText, NystroemFeatures, RandomFourierFeatures
from erasable.classes.finite import FiniteClass
from erasable.classes.kernel import KernelBall
from erasable.classes.linear import LinearBall
from erasable.classes.numeric import NumericClass

__all__ = [
    "FiniteClass",
    "FrozenMap",
    "FunctionClass",
    "HashedText",
    "KernelBall",
    "LinearBall",
    "Measure",
    "NumericClass",
    "NystroemFeatures",
    "RandomFourierFeatures",
]
