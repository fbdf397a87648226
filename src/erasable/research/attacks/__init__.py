"""Attacks by somebody who reads all that is stored after forgetting, against every method in the box."""

from erasable.audit.statistics import Estimate
from erasable.research.attacks.suite import FULL, LETTERS, QUICK, Audit, Outcome, Sizes, audit, page
from erasable.research.attacks.targets import TARGETS, Target, rows_asked, target_asked

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
    "rows_asked",
    "target_asked",
]
