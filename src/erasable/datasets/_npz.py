"""Tables in NumPy archives: dense arrays, or sparse rows with their labels in a file beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.datasets._columns import as_rows, check_keys, check_labels, plain_array
from erasable.datasets._reading import existing_file, read_or_refuse
from erasable.datasets._table import Split, Table
from erasable.errors import InputError

_SIDES = ("train", "test")


def read_npz(path: Path) -> Table:
    """The table in an archive of arrays ``X`` and ``y`` (``ids``, ``subjects``), or of ``scipy.sparse.save_npz``."""
    if not _is_sparse(path):
        arrays = _arrays(path, {"X", "y"}, {"ids", "subjects"})
        X = as_rows(arrays["X"], path.name)
        return _table(X, arrays["y"], arrays.get("ids"), arrays.get("subjects"), path.stem, path.name)
    X = read_sparse(path)
    beside = path.with_name(f"{path.stem}_labels.npz")
    if beside.exists():
        arrays = _arrays(beside, {"y"}, {"ids", "subjects"})
        return _table(X, arrays["y"], arrays.get("ids"), arrays.get("subjects"), path.stem, beside.name)
    name, _, side = path.stem.rpartition("_")
    shared = path.with_name(f"{name}_labels.npz")
    if side in _SIDES and shared.exists():
        return _side_table(X, _split_arrays(shared), side, name, shared.name)
    raise InputError(
        f"{path.name} holds sparse rows without labels: put {beside.name} beside it, an .npz with the array y "
        "(and, if there are, ids and subjects)."
    )


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
        _side_table(read_sparse(p), arrays, side, name, labels.name)
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


def _is_sparse(path: Path) -> bool:
    return "format" in read_or_refuse(lambda: _names(path), path, "an .npz archive")


def _names(path: Path) -> list[str]:
    # Opened here: of an archive that is cut short, NumPy would leave the file open.
    with existing_file(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return list(archive.files)  # a bare .npy has no such attribute, and no context


def _arrays(path: Path, required: set[str], optional: set[str]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an archive, which has those that are required and no others than those that are known."""
    names = read_or_refuse(lambda: _names(path), path, "an .npz archive")
    if not required <= set(names) or not set(names) <= required | optional:
        raise InputError(
            f"{path.name} must hold the arrays {_listed(required)} and may hold {_listed(optional)}; "
            f"it holds {_listed(names)}: rename them, or leave the others out."
        )

    def read() -> dict[str, npt.NDArray[Any]]:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: np.asarray(archive[name]) for name in names}

    return read_or_refuse(read, path, "an .npz archive of plain arrays (objects are not read, as that could run code)")


def _listed(names: set[str] | list[str]) -> str:
    shown = sorted(names)[:10]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "") if shown else "nothing"


def _split_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    keys = {f"{what}_{side}" for what in ("ids", "subject") for side in _SIDES}
    return _arrays(path, {"y_train", "y_test"}, keys)


def _side_table(X: Any, arrays: dict[str, npt.NDArray[Any]], side: str, name: str, where: str) -> Table:
    return _table(X, arrays[f"y_{side}"], arrays.get(f"ids_{side}"), arrays.get(f"subject_{side}"), name, where)


def _table(
    X: Any,
    y: npt.NDArray[Any],
    ids: npt.NDArray[Any] | None,
    subjects: npt.NDArray[Any] | None,
    name: str,
    where: str,
) -> Table:
    for part, values in (("y", y), ("ids", ids), ("subjects", subjects)):
        if values is not None and values.shape != (X.shape[0],):
            raise InputError(f"{where}: {part} has the shape {values.shape} for {X.shape[0]} rows: give one per row.")
    y = check_labels(plain_array(y, "y"), f"{where}, y")
    if ids is not None:
        ids = check_keys(plain_array(ids, "ids"), f"{where}, ids", optional=False)
    if subjects is not None:
        subjects = check_keys(plain_array(subjects, "subjects"), f"{where}, subjects", optional=True)
    return Table(X, y, ids, subjects, name)
