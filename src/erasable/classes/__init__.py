"""Function classes: what rows are selected by, and predictors fitted from. They use ``core`` and touch no files."""

from erasable.classes.given import FiniteClass, NumericClass
from erasable.classes.kernel import KernelBall
from erasable.classes.linear import LinearBall
from erasable.core.function_class import FunctionClass, Measure, Predictor

__all__ = [
    "FiniteClass",
    "FunctionClass",
    "KernelBall",
    "LinearBall",
    "Measure",
    "NumericClass",
    "Predictor",
]
