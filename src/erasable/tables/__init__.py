"""Tables to learn from: rows, labels, ids and subjects from files and streams, checked."""

from erasable.tables._files import load_split, load_table
from erasable.tables._rows import Rows
from erasable.tables._stream import RowStream, TableStream, load_rows, stream_rows, stream_table
from erasable.tables._table import Split, Table
from erasable.tables.keys import read_keys

__all__ = [
    "RowStream",
    "Rows",
    "Split",
    "Table",
    "TableStream",
    "load_rows",
    "load_split",
    "load_table",
    "read_keys",
    "stream_rows",
    "stream_table",
]
