"""Read configuration, size and digest of a model file; its rows only if they are asked for."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.kernels import KERNEL_BITS
from erasable.core.layout import Buffer, digest_of, read_sealed
from erasable.core.names import read_keys, read_label, read_names, read_owners
from erasable.core.target_grid import Range, off_grid
from erasable.errors import ConfigurationError, ErasableError, StateFormatError
from erasable.models.access import StoredRows, stored_rows
from erasable.models.access import rows_of as rows_in_state
from erasable.models.configuration import described_log, spelling_in
from erasable.models.files import Fetch, from_files, known_meta, naming, refuse_odd_size, shards_of
from erasable.models.selections.leverage import read_grid
from erasable.models.state import KINDS, is_sharded
from erasable.operations.requests import KEY_TYPES, Names, keys_named
from erasable.store import NOT_KNOWN, doubt_about_blocks, in_words
from erasable.store import read as read_file

# Entries of the header that are not part of the configuration.
_NOT_CONFIGURATION = {"format", "version", "checksum", "classes", "class_kind", "id_kind", "subject_kind", "shards"}

T = TypeVar("T")


@dataclass(frozen=True)
class Inspection:
    """Configuration, size and digest of a model file."""

    kind: str  # the kind of model
    # format, version: the format of the file.
    format: str
    version: int
    digest: str  # SHA-256 of the state; also of the file, unless there are several
    # core_rows, features, classes: the number of each.
    core_rows: int
    features: int
    classes: int
    # ids, subjects: their type; None if there are none.
    ids: str | None
    subjects: str | None
    rows_without_subject: int  # the number of core rows without a subject: only their ids name them
    layout: str  # ``"sparse"`` if only the nonzero values of each row are stored, otherwise ``"dense"``
    bytes: int  # the size of the file, or of all files together
    files: int  # the number of files
    # capacity, threshold, gamma: as in the configuration, there in hexadecimal; None if the model has none, or it is
    # infinite. The capacity is stored in units of a grid, so it may differ from the given one in the last digits. Gamma
    # is that of kernels.
    capacity: float | None
    threshold: float | None
    gamma: float | None
    # Core rows divided by the number of rows learnt, if the caller gave that number: the file does not keep it.
    stored_share: float | None
    # All fixed parameters, as in the header; floats are hexadecimal, so that nothing is rounded.
    configuration: dict[str, Any]
    # Id, subject and label, or targets, of each core row, in learning order, if they were asked for; several subjects
    # of a row are a list.
    rows: list[dict[str, Any]] | None = None
    # The ranges of the targets of a regression; None for a classifier.
    target_ranges: list[tuple[float, float]] | None = None
    # What is known of overwritten bytes of this file on the medium: a reason why they may stay, or that none is known.
    old_bytes: str = NOT_KNOWN

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        hidden = {name for name in ("rows", "target_ranges") if getattr(self, name) is None}
        return {name: value for name, value in asdict(self).items() if name not in hidden}


def inspect(path: str | os.PathLike[str], *, rows: bool = False, learnt: int | None = None) -> Inspection:
    """Return configuration, size and digest of a model file. Its checksum is tested; ``verify`` recomputes its rows.

    Works for every kind of model, including those that need code of the caller to be loaded.

    Raises ConfigurationError when ``learnt`` is less than the number of stored rows. Raises StateFormatError or
    StoreError when the file is damaged, or cannot be read.

    Parameters
    ----------
    path : str or path
    rows : bool, default=False
        List id, subject and label of each core row.
    learnt : int, optional
        The number of rows learnt, to get the share that is stored.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier
    >>> from erasable.operations.inspect import inspect
    >>> clf = ErasableClassifier().fit(*load_iris(return_X_y=True))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf.save(pathlib.Path(folder, "iris.erasable"))
    ...     found = inspect(pathlib.Path(folder, "iris.erasable"), learnt=150)
    >>> found.digest == clf.state_digest(), found.core_rows == clf.n_core_, found.features, found.classes
    (True, True, 4, 3)
    """
    if learnt is not None and learnt < 1:
        raise ConfigurationError(f"the number of rows learnt must be positive; got {learnt}.")

    inspection = _read_file_with(path, lambda head, fetch: _inspected(head, fetch, rows, learnt))
    return replace(inspection, old_bytes=in_words(doubt_about_blocks(path)))


def rows_of(
    path: str | os.PathLike[str], *, ids: Names | list[Any] | None = None, subjects: Names | list[Any] | None = None
) -> StoredRows:
    """Return the core rows with these ids, and all rows of these subjects.

    Works for every kind of model, including those that need code of the caller to be loaded.

    Raises InputError or InputTypeError when nothing is named, or names are of another type than the model's. Raises
    StateFormatError or StoreError when the file is damaged, or cannot be read.

    Parameters
    ----------
    path : str or path
    ids, subjects : list or Names, optional
        The rows asked for. Unknown ones are no error: nothing is stored of them.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from erasable import ErasableClassifier
    >>> from erasable.operations.inspect import rows_of
    >>> clf = ErasableClassifier(scaling=10.0, feature_names=["age", "weight"])
    >>> clf = clf.fit([[4.0, 3.0], [1.0, 2.0]], ["no", "yes"], subjects=[["ann", "bob"], ["bob"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf.save(pathlib.Path(folder, "m.erasable"))
    ...     (row,) = rows_of(pathlib.Path(folder, "m.erasable"), subjects=["ann"]).rows
    >>> row.id, row.label, row.other_subjects, {name: round(value, 3) for name, value in row.values.items()}
    (0, 'no', 1, {'age': 4.0, 'weight': 3.0})
    """

    def look(head: Buffer, fetch: Fetch) -> StoredRows:
        meta, tensors = _sealed(head)
        spelling = spelling_in(meta)
        asked = [
            keys_named(given, KEY_TYPES[meta[f"{role}_kind"]], spelling.get(role, ()))
            for given, role in ((ids, "id"), (subjects, "subject"))
        ]
        if is_sharded(meta):
            return rows_in_state(from_files(head, fetch), *asked)
        return stored_rows(meta, _names(meta, tensors), tensors, *asked)

    return _read_file_with(path, look)


def _read_file_with(path: str | os.PathLike[str], look: Callable[[Buffer, Fetch], T]) -> T:
    """Return the result of ``look`` for a file; an inconsistent header is refused."""

    def guarded(head: Buffer, fetch: Fetch) -> T:
        try:
            return look(head, fetch)
        except ErasableError:
            raise
        except (AttributeError, KeyError, IndexError, OverflowError, TypeError, ValueError):
            refusal = StateFormatError("not a state: its header is inconsistent.")
        raise refusal  # not above, where it would carry the original error, and values in it

    with naming(path):
        refuse_odd_size(path)
        return read_file(path, guarded, parts_of=shards_of)


def _sealed(head: Buffer) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return metadata and tensors of a file of a known format and version."""
    known_meta(head)
    return read_sealed(head)


def _names(meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]]) -> Any:
    """Return ids, subjects and labels, or targets, of the rows of a file."""
    if "targets" in tensors:
        targets = tensors["targets"].tolist()
        return (*read_owners(meta, tensors, len(targets)), targets)
    classes = tuple(read_label(meta["class_kind"], c) for c in meta["classes"])
    return read_names(meta, tensors, classes, len(tensors["labels"]))


def _inspected(head: Buffer, fetch: Fetch, rows: bool, learnt: int | None) -> Inspection:
    meta, tensors = _sealed(head)
    is_sparse = bool({"rows.lengths", "rows.ends"} & tensors.keys())
    sizes = [len(head)]
    ranges = [(float.fromhex(low), float.fromhex(high)) for low, high in meta.get("target_ranges", ())]
    named: tuple[Sequence[Any], ...] = ((), (), ())
    if is_sharded(meta):

        def counted(name: str) -> Buffer:
            data = fetch(name)
            sizes.append(len(data))
            return data

        state = from_files(head, counted)
        text, n, named = state.digest, len(state.ids), (state.ids, state.subjects, state.labels)
        owners: Sequence[Any] = state.subjects
        is_sparse = sp.issparse(state.rows)
    else:
        text, n = digest_of([head]), len(tensors["targets" if ranges else "labels"])
        owners = read_keys(tensors, "subjects", meta["subject_kind"], n)
        if rows:
            named = _names(meta, tensors)
    if learnt is not None and learnt < n:
        raise ConfigurationError(
            f"the file holds {n:,} core rows, so no fewer rows were learnt; got {learnt:,}: count those of all tables."
        )
    log = None if meta.get("feature_map") is None else described_log(meta["feature_map"])
    return Inspection(
        kind=_kind(meta),
        format=meta["format"],
        version=meta["version"],
        digest=text,
        core_rows=n,
        features=meta["n_features"] if log is None else log.n_features,
        classes=len(meta.get("classes", ())),
        ids=meta["id_kind"],
        subjects=meta["subject_kind"],
        rows_without_subject=sum(owner in (None, "", b"") for owner in owners),
        layout="sparse" if is_sparse else "dense",
        bytes=sum(sizes),
        files=len(sizes),
        capacity=_float(_regularisers(meta).get("capacity")),
        threshold=_float(meta.get("threshold")),
        gamma=_float(meta.get("gamma")),
        stored_share=n / learnt if learnt else None,
        configuration={
            **{name: value for name, value in sorted(meta.items()) if name not in _NOT_CONFIGURATION},
            **_regularisers(meta),
        },
        rows=[{"id": plain(i), "subject": plain(s), **_label(v, ranges, meta)} for i, s, v in zip(*named, strict=True)]
        if rows
        else None,
        target_ranges=ranges or None,
    )


def _label(value: Any, ranges: list[Range], meta: dict[str, Any]) -> dict[str, Any]:
    """Return the label of a row, or its rounded targets."""
    if not ranges:
        return {"label": value}
    grid = read_grid(meta)
    return {"targets": [off_grid(t, ends, grid) for t, ends in zip(value, ranges, strict=True)]}


def _regularisers(meta: dict[str, Any]) -> dict[str, str]:
    """Return capacity and alpha as the caller gave them; the header has them in units of the grid."""
    units = {name: meta.get(f"{name}_units") for name in ("capacity", "alpha")}
    fine = KERNEL_BITS if "kernel" in meta else 2 * meta.get("bits", 0)
    return {name: math.ldexp(int(value), -fine).hex() for name, value in units.items() if value is not None}


def _float(text: Any) -> float | None:
    """Return a float of the header; None if it is missing or JSON could not hold it."""
    try:
        value = float.fromhex(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def plain(value: Any) -> Any:
    """Return a value for JSON: NumPy values as Python values, bytes in hexadecimal, tuples as lists."""
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    value = value.item() if hasattr(value, "item") else value
    return value.hex() if isinstance(value, bytes) else value


def _kind(meta: dict[str, Any]) -> str:
    """Return what a model is called: in version 2, by its selection and its head."""
    return f"{meta['selection']} selection, {meta['head']} head" if "selection" in meta else KINDS[meta["format"]]
