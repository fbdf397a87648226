"""Classifiers and regressors that can forget, as scikit-learn knows them: faces of ``erasable.models``."""

from erasable.estimators.core_set import CoreSetUnlearner
from erasable.estimators.files import load
from erasable.estimators.general import ErasableGeneralClassifier
from erasable.estimators.kernel import ErasableKernelClassifier
from erasable.estimators.linear import ErasableClassifier
from erasable.estimators.regressor import ErasableRegressor
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
