"""Core-set maps: which few of the rows are kept. They use ``core``, hold nothing of rows, and touch no files."""

from erasable.coresets.maps import (
    CoreSetMap,
    IndependentSample,
    LeverageThreshold,
    RandomSubsample,
    SupportVectors,
    check_core_set,
    core_positions,
)
from erasable.coresets.samplers import SinglePass, Staged

__all__ = [
    "CoreSetMap",
    "IndependentSample",
    "LeverageThreshold",
    "RandomSubsample",
    "SinglePass",
    "Staged",
    "SupportVectors",
    "check_core_set",
    "core_positions",
]
