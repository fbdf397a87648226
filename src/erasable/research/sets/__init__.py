"""Data sets, of the paper and others: made by a seed, shipped with scikit-learn, or read from the Purchase files."""

from erasable.research.sets.bundled import load_bundled, load_sklearn
from erasable.research.sets.margin import make_margin
from erasable.research.sets.orders import make_orders, write_orders
from erasable.research.sets.purchase import load_purchase, make_purchase_like

__all__ = [
    "load_bundled",
    "load_purchase",
    "load_sklearn",
    "make_margin",
    "make_orders",
    "make_purchase_like",
    "write_orders",
]
