"""Core-set maps: which few of the rows are kept. They use ``core``, hold nothing of rows, and touch no files."""

from erasable.coresets._protocol import CoreSetMap, check_core_set, core_positions
from erasable.coresets.linear import LeverageThreshold
from erasable.coresets.single_pass import SinglePass
from erasable.coresets.staged import Staged
from erasable.coresets.subsample import RandomSubsample
from erasable.coresets.support_vectors import SupportVectors

__all__ = [
    "CoreSetMap",
    "LeverageThreshold",
    "RandomSubsample",
    "SinglePass",
    "Staged",
    "SupportVectors",
    "check_core_set",
    "core_positions",
]
