"""Attacks by somebody who reads all that is stored after forgetting, against every method in the box."""

from erasable.audit.statistics import Estimate
from erasable.research.attacks.asking import rows_asked, target_asked
from erasable.research.attacks.report import page
from erasable.research.attacks.suite import FULL, LETTERS, QUICK, Audit, Outcome, Sizes, audit
from erasable.research.attacks.targets import TARGETS, Target

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
