"""The figures that the paper prints, to stand beside ours (its Tables 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Printed:
    """One row of Table 1 or 2."""

    name: str
    training_s: float
    deletion_s: float
    stored: float


_PURCHASE = {
    "erasable": Printed("Algorithm 1", 186.3, 58.3, 0.131),
    "sisa": Printed("SISA", 30.2, 1174.3, 1.0),
    "retrained": Printed("Exact Retraining", 1828.7, 579.3, 1.0),
}
_MARGIN = {
    "erasable": Printed("Algorithm 1", 1.3, 0.5, 0.006),
    "sisa": Printed("SISA", 20.6, 697.1, 1.0),
    "retrained": Printed("Exact Retraining", 67.8, 27.1, 1.0),
}
PRINTED: dict[str, dict[str, Printed]] = {"purchase": _PURCHASE, "purchase-like": _PURCHASE, "margin": _MARGIN}
TITLES = {
    "purchase": "Table 1: Purchase",
    "purchase-like": "After Table 1: a stand-in for Purchase",
    "margin": "Table 2: Margin",
    "margin-uniform": "After Table 2: Margin with uniform heights",
}
