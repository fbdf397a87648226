"""Selections: which rows a model keeps. A new one is a file in this folder and a line in ``SELECTIONS``."""

from __future__ import annotations

from typing import Any

from erasable.models.selections.general import FunctionClassSelection
from erasable.models.selections.independent import Independent, IndependentPoints, IndependentSelection
from erasable.models.selections.kernel import KernelDisagreement, KernelPoints
from erasable.models.selections.leverage import GridSelection, Leverage
from erasable.models.selections.raw import RawColumns, RawIndependent, RawLeverage, RawStorage, storing_raw
from erasable.models.strategies import Selection, SelectionResult

__all__ = [
    "SELECTIONS",
    "FunctionClassSelection",
    "GridSelection",
    "Independent",
    "IndependentPoints",
    "IndependentSelection",
    "KernelDisagreement",
    "KernelPoints",
    "Leverage",
    "RawColumns",
    "RawIndependent",
    "RawLeverage",
    "RawStorage",
    "Selection",
    "SelectionResult",
    "storing_raw",
]

#: By the names that files have them under; each offers ``read``, the inverse of ``describe``.
SELECTIONS: dict[str, Any] = {
    s.NAME: s for s in (Leverage, Independent, RawLeverage, RawIndependent, KernelDisagreement, IndependentPoints)
}
