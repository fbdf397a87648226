"""Classifiers and regressors that can forget, as scikit-learn estimators around ``erasable.models``."""

from erasable.estimators.core_set import CoreSetUnlearner
from erasable.estimators.files import load
from erasable.estimators.kernel import ErasableGeneralClassifier, ErasableKernelClassifier
from erasable.estimators.linear import ErasableClassifier, ErasableRegressor
from erasable.estimators.table_encoder import TableEncoder

__all__ = [
    "CoreSetUnlearner",
    "ErasableClassifier",
    "ErasableGeneralClassifier",
    "ErasableKernelClassifier",
    "ErasableRegressor",
    "TableEncoder",
    "load",
]
