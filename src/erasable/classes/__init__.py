"""Function classes."""

from erasable.classes._protocol import FunctionClass, Measure, Predictor
from erasable.classes.finite import FiniteClass
from erasable.classes.kernel import KernelBall
from erasable.classes.linear import LinearBall
from erasable.classes.numeric import NumericClass

__all__ = [
    "FiniteClass",
    "FunctionClass",
    "KernelBall",
    "LinearBall",
    "Measure",
    "NumericClass",
    "Predictor",
]
