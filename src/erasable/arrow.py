"""The one place that imports pyarrow, which is optional, and only when a file needs it; and helpers for its types."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from erasable.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

ArrowBatch: TypeAlias = "pa.RecordBatch"
ArrowColumn: TypeAlias = "pa.ChunkedArray"
ArrowSchema: TypeAlias = "pa.Schema"
ArrowTable: TypeAlias = "pa.Table"
ArrowType: TypeAlias = "pa.DataType"

NUMERIC = ("integer", "floating", "decimal", "boolean", "null")
TEXTS = ("string", "large_string", "string_view")
BYTES = ("binary", "large_binary", "binary_view")


def pyarrow() -> ModuleType:
    """The module pyarrow, with its parts for CSV, Parquet, streams and computing.

    Raises
    ------
    ConfigurationError
        When it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        problem = "reading CSV and Parquet needs pyarrow: pip install 'erasable[tables]', or store the table as .npz."
    else:
        module: ModuleType = pyarrow
        return module
    raise ConfigurationError(problem)


def open_parquet(source: Any, **options: Any) -> Any:
    """A Parquet file, to be closed by the caller; read_table would make columns of the names of folders.

    ``source`` is a path, a file object, or something that ``opened`` makes a file object of.
    """
    source = source.opened() if hasattr(source, "opened") else source
    return pyarrow().parquet.ParquetFile(source, **options)


def is_kind(kind: ArrowType, *wanted: str) -> bool:
    """Whether a type of pyarrow is one of those that ``pyarrow.types`` calls so."""
    types = pyarrow().types
    return any(getattr(types, f"is_{name}")(kind) for name in wanted)
