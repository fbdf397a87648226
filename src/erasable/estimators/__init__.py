"""Classifiers that can forget."""

from erasable.estimators._guarantee import Guarantee
from erasable.estimators._reports import ForgetReport, LearnReport
from erasable.estimators.linear import ErasableClassifier

__all__ = ["ErasableClassifier", "ForgetReport", "Guarantee", "LearnReport"]
