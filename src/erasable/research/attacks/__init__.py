"""Attacks by an adversary who reads all that is stored after forgetting, against every method of this package."""

from erasable.audit.statistics import Estimate
from erasable.research.attacks.suite import FULL, LETTERS, QUICK, Audit, Outcome, Sizes, audit, page
from erasable.research.attacks.targets import TARGETS, Target, rows_named, target_named

__all__ = [
    "FULL",
    "LETTERS",
    "QUICK",
    "TARGETS",
    "Audit",
    "Estimate",
    "Outcome",
    "Sizes",
    "Target",
    "audit",
    "page",
    "rows_named",
    "target_named",
]
