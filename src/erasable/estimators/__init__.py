"""Classifiers that can forget."""

from erasable.estimators._files import load
from erasable.estimators._forgetting import RemovalReport
from erasable.estimators._guarantee import Guarantee
from erasable.estimators._reports import ForgetReport, LearnReport
from erasable.estimators.core_set import CoreSetUnlearner
from erasable.estimators.general import ErasableGeneralClassifier
from erasable.estimators.interpolated import InterpolatedClassifier
from erasable.estimators.kernel import ErasableKernelClassifier
from erasable.estimators.linear import ErasableClassifier
from erasable.estimators.mapped import ErasableMappedClassifier

__all__ = [
    "CoreSetUnlearner",
    "ErasableClassifier",
    "ErasableGeneralClassifier",
    "ErasableKernelClassifier",
    "ErasableMappedClassifier",
    "ForgetReport",
    "Guarantee",
    "InterpolatedClassifier",
    "LearnReport",
    "RemovalReport",
    "load",
]
