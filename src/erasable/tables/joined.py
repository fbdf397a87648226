"""Several files as one table: which files, in which order, and that they have the same columns of the same types."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from erasable.arrow import pyarrow
from erasable.errors import InputError
from erasable.schemas import EncodedTable
from erasable.tables.collections import is_dask_frame
from erasable.tables.reading import Source, as_path, compared, listed
from erasable.tables.remote import RemoteFile, check_no_columns_in_names, is_url, remote_files
from erasable.tables.table import Table


def is_arrow(source: Any) -> bool:
    """Whether rows come as an Arrow table, or as a reader of record batches."""
    return hasattr(source, "schema") and (hasattr(source, "to_batches") or hasattr(source, "read_next_batch"))


def is_pipe(source: Any) -> bool:
    """Whether rows come from the standard input or an object, and not from files; ``["-"]`` is ``"-"``."""
    if is_arrow(source) or is_dask_frame(source) or hasattr(source, "read"):
        return True
    return isinstance(source, str | list | tuple) and source in ("-", ["-"], ("-",))


def files_of(source: Any) -> list[Path]:
    """The files that a path, a pattern or a list of these names, in order; none for a pipe.

    Files come in the order that they are given in; those that one pattern matches (``*``, ``?``, ``[]``, and ``**`` for
    folders below) sorted by their paths as text, character by character: ``part-10`` before ``part-2``. A path that is
    there is no pattern, whatever it looks like. A folder is all Parquet files in it and below; so is a URL of one.

    Raises
    ------
    InputError
        When a pattern matches nothing, a file comes twice, or there is none.
    """
    if is_pipe(source):
        return []
    if isinstance(source, str | os.PathLike):
        given: Sequence[Any] = [source]
    else:
        given = list(source)
    if not given:
        raise InputError("there are no files: name one or more.")
    if any(one == "-" for one in given):
        raise InputError("`-`, the standard input, has to be read alone: save it to a file to read others with it.")
    files = [file for one in given for file in (remote_files(one) if is_url(one) else _matched(as_path(one)))]
    twice = len(files) - len({str(f) if isinstance(f, RemoteFile) else os.path.realpath(f) for f in files})
    if twice:
        raise InputError(f"{twice} of {len(files)} files are given twice: name each of them once.")
    return files


def _matched(path: Path) -> list[Path]:
    if path.is_dir():
        return _in_folder(path)
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if not os.path.isdir(name)]
    if not found:
        raise InputError(f"no file matches {path}: check the pattern.")
    return found


def _in_folder(folder: Path) -> list[Path]:
    """The Parquet files below a folder, sorted by their paths as text.

    Files and folders whose names begin with a point or an underscore are passed over, as other readers do.
    """
    found = sorted(path for path in folder.rglob("*.parquet") if path.is_file())
    inner = [path.relative_to(folder) for path in found]
    kept = [path for path in inner if not any(part.startswith(("_", ".")) for part in path.parts)]
    check_no_columns_in_names([str(path) for path in kept], folder.name)
    if not kept:
        raise InputError(f"{folder} is a folder without .parquet files: give the path of a file, or a pattern.")
    return [folder / path for path in kept]


class JoinedSource(Source):
    """Rows of several files with columns of the same names, one file after the other.

    Parameters
    ----------
    paths : list of Path
    opened : callable
        From a path, and the names of its features where they are known, to its source.
    """

    def __init__(self, paths: list[Path], opened: Callable[[Path, Sequence[str] | None], Source]) -> None:
        first = opened(paths[0], None)
        names = first.feature_names
        assert names is not None
        self._paths, self._sources = paths, [first]
        for path in paths[1:]:
            source = opened(path, None)
            if difference := compared(source.feature_names or (), names):
                raise InputError(
                    f"{path.name} {difference}, other than {paths[0].name}: files that are read as one table need the "
                    "same columns."
                )
            changed = [repr(name) for name in names if (name in source.booleans) != (name in first.booleans)]
            if changed:
                raise InputError(
                    f"the type of {listed(changed)} changes between files, from numbers to booleans or back: write "
                    f"{path.name} like {paths[0].name}."
                )
            for name, kind in source.held.items():
                if kind != (before := first.held.get(name, kind)):
                    raise InputError(
                        f"the type of {name!r} changes between files, from {before} in {paths[0].name} to {kind} in "
                        f"{path.name}: write them alike."
                    )
            if source.roles != first.roles:
                raise InputError(f"{paths[0].name} and {path.name} must both have a column of labels, or none of them.")
            self._sources.append(source if source.feature_names == names else opened(path, names))
        self.feature_names, self.unused, self.typed = names, first.unused, first.typed
        self.name = f"{first.name} and {len(paths) - 1} more"
        self._agree = False

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return self._sources[0].n_features

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]
        """How many rows there are, where all files say so."""
        return _sum([source.n_rows for source in self._sources])

    def count_rows(self) -> int | None:
        """How many rows there are in all."""
        return _sum([source.count_rows() for source in self._sources])

    def blocks(self, block_bytes: int | None) -> Iterator[Table]:
        """The blocks of one file after the other, each of rows of one file; or all rows in one."""
        if not self._agree:
            self._check_kinds()
        parts = (block for source in self._sources for block in source.blocks(block_bytes))
        if block_bytes is None:
            yield _stacked(list(parts), self.name)
        else:
            yield from parts

    def parts(self) -> list[Source] | None:
        """The parts of one file after the other, where all files come in parts."""
        if not self._agree:
            self._check_kinds()
        found = [source.parts() for source in self._sources]
        return None if None in found else [part for parts in found for part in parts or ()]

    def raw(self, rows: int | None) -> Iterator[Any]:
        """The cells of one file after the other; of all files, columns in the order of the first."""
        names = list(self.feature_names or ())
        parts = (table.select(names) for source in self._sources for table in source.raw(rows))
        if rows is None:
            yield pyarrow().concat_tables(list(parts), promote_options="permissive")
        else:
            yield from parts

    def _check_kinds(self) -> None:
        """Refuse labels, ids or subjects that are of one type here and of another there."""
        known: dict[str, tuple[type, Path]] = {}
        for path, source in zip(self._paths, self._sources, strict=True):
            for role, kind in source.kinds().items():
                before, where = known.setdefault(role, (kind, path))
                if kind is not before:
                    hint = "" if self.typed else f", or say what they are, as learn does with {role}_type="
                    raise InputError(
                        f"the type of {role}s changes between files: {before.__name__} in {where.name}, "
                        f"{kind.__name__} in {path.name}: write them alike{hint}."
                    )
        self._agree = True


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _stacked(tables: list[Table], name: str) -> Table:
    """The rows of all tables in one."""

    def joined(part: str) -> Any:
        columns = [getattr(table, part) for table in tables]
        return None if columns[0] is None else np.concatenate(columns)

    rest = {part: joined(part) for part in ("y", "ids", "subjects", "weights")}
    rows = [table.X for table in tables]
    X = EncodedTable.joined(rows) if isinstance(rows[0], EncodedTable) else joined("X")
    return Table(X, **rest, name=name, feature_names=tables[0].feature_names)
