"""The peers that forgetting is compared with, each with the same protocol."""

from erasable.research.baselines.certified import CertifiedRemovalClassifier
from erasable.research.baselines.interpolated import InterpolatedClassifier
from erasable.research.baselines.newton import NewtonUnlearner
from erasable.research.baselines.ridge import RetrainedRidge
from erasable.research.baselines.sisa import SISAClassifier

__all__ = [
    "CertifiedRemovalClassifier",
    "InterpolatedClassifier",
    "NewtonUnlearner",
    "RetrainedRidge",
    "SISAClassifier",
]
