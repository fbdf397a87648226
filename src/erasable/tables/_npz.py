"""Tables in NumPy archives: dense arrays, or sparse rows with their labels in a file beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.errors import InputError
from erasable.tables._columns import as_rows, check_keys, check_labels, plain_array
from erasable.tables._reading import existing_file, read_or_refuse
from erasable.tables._rows import Rows
from erasable.tables._table import Split, Table

_SIDES = ("train", "test")
PLAIN = "an .npz archive of plain arrays (objects are not read, as that could run code)"


def read_npz(path: Path) -> Table:
    """The table in an archive of arrays ``X`` and ``y`` (``ids``, ``subjects``), or of ``scipy.sparse.save_npz``."""
    return read_npz_rows(path, labelled=True).table()


def read_npz_rows(path: Path, *, labelled: bool) -> Rows:
    """The rows in an archive; with ``labelled``, none without labels."""
    if not is_sparse(path):
        required, optional = array_names(labelled)
        arrays = _arrays(path, required, optional)
        X = as_rows(arrays.pop("X"), path.name)
        return Rows(X, **checked_columns(arrays, X.shape[0], path.name), name=path.stem)
    X = read_sparse(path)
    beside = path.with_name(f"{path.stem}_labels.npz")
    if beside.exists():
        arrays = _arrays(beside, {"y"}, {"ids", "subjects"})
        return Rows(X, **checked_columns(arrays, X.shape[0], beside.name), name=path.stem)
    name, _, side = path.stem.rpartition("_")
    shared = path.with_name(f"{name}_labels.npz")
    if side in _SIDES and shared.exists():
        return _side_rows(X, _split_arrays(shared), side, name, shared.name)
    if not labelled:
        return Rows(X, name=path.stem)
    raise InputError(
        f"{path.name} holds sparse rows without labels: put {beside.name} beside it, an .npz with the array y "
        "(and, if there are, ids and subjects)."
    )


def array_names(labelled: bool) -> tuple[set[str], set[str]]:
    """Names of the arrays that an archive must have, and of those it may have."""
    return ({"X", "y"}, {"ids", "subjects"}) if labelled else ({"X"}, {"y", "ids", "subjects"})


def is_half_of_split(path: Path) -> bool:
    """Whether this is ``NAME_train.npz`` with a test or labels file beside it."""
    return path.name.endswith("_train.npz") and any(beside.exists() for beside in _siblings(path))


def read_split(path: Path) -> Split:
    """The rows of ``NAME_train.npz`` and ``NAME_test.npz``, with labels from ``NAME_labels.npz``."""
    name = path.stem.removesuffix("_train")
    test, labels = _siblings(path)
    missing = [p.name for p in (path, test, labels) if not p.exists()]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} missing in {path.parent}: a split is three files, "
            f"{path.name}, {test.name} and {labels.name}."
        )
    arrays = _split_arrays(labels)
    train, tested = (
        _side_rows(read_sparse(p), arrays, side, name, labels.name).table()
        for p, side in zip((path, test), _SIDES, strict=True)
    )
    return Split(train, tested)


def read_sparse(path: Path) -> Any:
    """The csr_array that ``scipy.sparse.save_npz`` wrote."""

    def read() -> Any:
        with existing_file(path).open("rb") as file:
            return as_rows(sp.load_npz(file), path.name)

    return read_or_refuse(read, path, "sparse rows of scipy.sparse.save_npz")


def _siblings(path: Path) -> tuple[Path, Path]:
    name = path.stem.removesuffix("_train")
    return path.with_name(f"{name}_test.npz"), path.with_name(f"{name}_labels.npz")


def is_sparse(path: Path) -> bool:
    """Whether an archive is one of ``scipy.sparse.save_npz``."""
    return "format" in read_or_refuse(lambda: _names(path), path, "an .npz archive")


def _names(path: Path) -> list[str]:
    # Opened here: of an archive that is cut short, NumPy would leave the file open.
    with existing_file(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return list(archive.files)  # a bare .npy has no such attribute, and no context


def _arrays(path: Path, required: set[str], optional: set[str]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an archive, which has those that are required and no others than those that are known."""
    return read_arrays(path, known_names(path, required, optional))


def known_names(path: Path, required: set[str], optional: set[str]) -> list[str]:
    """The names of the arrays of an archive, when it has those that are required and no others than are known."""
    names = read_or_refuse(lambda: _names(path), path, "an .npz archive")
    if not required <= set(names) or not set(names) <= required | optional:
        may = f" and may hold {_listed(optional)}" if optional else ""
        raise InputError(
            f"{path.name} must hold the arrays {_listed(required)}{may}; "
            f"it holds {_listed(names)}: rename them, or leave the others out."
        )
    return names


def read_arrays(path: Path, names: list[str]) -> dict[str, npt.NDArray[Any]]:
    """Some arrays of an archive."""

    def read() -> dict[str, npt.NDArray[Any]]:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: np.asarray(archive[name]) for name in names}

    return read_or_refuse(read, path, PLAIN)


def _listed(names: set[str] | list[str]) -> str:
    shown = sorted(names)[:10]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "") if shown else "nothing"


def _split_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    keys = {f"{what}_{side}" for what in ("ids", "subject") for side in _SIDES}
    return _arrays(path, {"y_train", "y_test"}, keys)


def _side_rows(X: Any, arrays: dict[str, npt.NDArray[Any]], side: str, name: str, where: str) -> Rows:
    names = {"y": f"y_{side}", "ids": f"ids_{side}", "subjects": f"subject_{side}"}
    columns = {part: arrays[theirs] for part, theirs in names.items() if theirs in arrays}
    return Rows(X, **checked_columns(columns, X.shape[0], where), name=name)


def checked_columns(arrays: dict[str, npt.NDArray[Any]], n: int, where: str) -> dict[str, Any]:
    """The arrays ``y``, ``ids`` and ``subjects``, where they are there, as they belong to ``n`` rows."""
    for part in ("y", "ids", "subjects"):
        if part in arrays and arrays[part].shape != (n,):
            raise InputError(f"{where}: {part} has the shape {arrays[part].shape} for {n} rows: give one per row.")
    columns = {part: plain_array(values, part) for part, values in arrays.items()}
    if "y" in columns:
        columns["y"] = check_labels(columns["y"], f"{where}, y")
    if "ids" in columns:
        columns["ids"] = check_keys(columns["ids"], f"{where}, ids", optional=False)
    if "subjects" in columns:
        columns["subjects"] = check_keys(columns["subjects"], f"{where}, subjects", optional=True)
    return columns
