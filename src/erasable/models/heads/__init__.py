"""Heads: what is computed from the core rows. A new one is a file in this folder and a line in ``HEADS``."""

from __future__ import annotations

from typing import Any

from erasable.models.heads.general import FunctionClassFit
from erasable.models.heads.kernel import KernelRidge
from erasable.models.heads.learner import Learner, LearnerRegression
from erasable.models.heads.losses import Logistic, Regression, SpreadLogistic, Squared, sigmoids
from erasable.models.strategies import Head, nearest_probabilities

__all__ = [
    "HEADS",
    "FunctionClassFit",
    "Head",
    "KernelRidge",
    "Learner",
    "LearnerRegression",
    "Logistic",
    "Regression",
    "SpreadLogistic",
    "Squared",
    "nearest_probabilities",
    "sigmoids",
]

#: By the names that files have them under; each offers ``read``, the inverse of ``describe``.
HEADS: dict[str, Any] = {
    head.NAME: head for head in (Squared, Logistic, SpreadLogistic, Regression, KernelRidge, Learner, LearnerRegression)
}
