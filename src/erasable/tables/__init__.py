"""Tables to learn from: rows and, where known, labels, ids and subjects, from files and pipes, checked.

``stream_table`` gives any file, several files or a pipe block by block, ``load_table`` whole; ``read_keys`` reads lists
of names.
Importing this loads neither pyarrow nor scikit-learn: a file that needs one of them does.
"""

from erasable.tables.collections import ArrayRows
from erasable.tables.keys import read_keys
from erasable.tables.reading import TableStream
from erasable.tables.sources import files_of, load_split, load_table, nameless_form, stream_table
from erasable.tables.table import Split, Table
from erasable.tables.text import Dialect

__all__ = [
    "ArrayRows",
    "Dialect",
    "Split",
    "Table",
    "TableStream",
    "files_of",
    "load_split",
    "load_table",
    "nameless_form",
    "read_keys",
    "stream_table",
]
