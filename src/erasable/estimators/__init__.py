"""Classifiers that can forget, as scikit-learn knows classifiers: faces of ``erasable.models``."""

from erasable.estimators.core_set import CoreSetUnlearner
from erasable.estimators.files import load
from erasable.estimators.general import ErasableGeneralClassifier
from erasable.estimators.kernel import ErasableKernelClassifier
from erasable.estimators.linear import ErasableClassifier
from erasable.estimators.table_encoder import TableEncoder

__all__ = [
    "CoreSetUnlearner",
    "ErasableClassifier",
    "ErasableGeneralClassifier",
    "ErasableKernelClassifier",
    "TableEncoder",
    "load",
]
