"""The peers that forgetting is compared with, each with the same protocol."""

from erasable.baselines.certified import CertifiedRemovalClassifier
from erasable.baselines.newton import NewtonUnlearner
from erasable.baselines.retrained import RetrainedRidge
from erasable.baselines.sisa import SISAClassifier
from erasable.baselines.subsample import SubsampleClassifier
from erasable.estimators import Guarantee
from erasable.estimators._forgetting import RemovalReport

__all__ = [
    "CertifiedRemovalClassifier",
    "Guarantee",
    "NewtonUnlearner",
    "RemovalReport",
    "RetrainedRidge",
    "SISAClassifier",
    "SubsampleClassifier",
]
