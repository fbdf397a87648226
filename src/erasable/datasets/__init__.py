"""Data to learn from: made by a seed, shipped with scikit-learn, or read from the caller's files."""

from erasable.datasets._files import load_split, load_table
from erasable.datasets._key_files import read_keys
from erasable.datasets._margin import make_margin
from erasable.datasets._purchase import load_purchase
from erasable.datasets._purchase_like import make_purchase_like
from erasable.datasets._rows import Rows
from erasable.datasets._sklearn import load_bundled, load_sklearn
from erasable.datasets._stream import RowStream, TableStream, load_rows, stream_rows, stream_table
from erasable.datasets._table import Split, Table

__all__ = [
    "RowStream",
    "Rows",
    "Split",
    "Table",
    "TableStream",
    "load_bundled",
    "load_purchase",
    "load_rows",
    "load_sklearn",
    "load_split",
    "load_table",
    "make_margin",
    "make_purchase_like",
    "read_keys",
    "stream_rows",
    "stream_table",
]
