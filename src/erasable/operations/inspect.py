"""What a file says of itself: configuration, size and digest; its rows only where they are asked for."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from erasable.core.kernels import KERNEL_BITS
from erasable.core.layout import (
    Buffer,
    check_format,
    digest_of,
    read_keys,
    read_label,
    read_names,
    read_owners,
    read_sealed,
)
from erasable.core.target_grid import Range, off_grid
from erasable.errors import ConfigurationError, ErasableError, StateFormatError
from erasable.models.files import KINDS, refuse_odd_size
from erasable.models.kernel_state import KernelState
from erasable.models.linear_state import grid_of
from erasable.models.shards import SHARDED, Fetch, from_files, shards_of
from erasable.store import read as read_file
from erasable.store import side_files

# What the header says beside the configuration.
_NOT_CONFIGURATION = {"format", "version", "checksum", "classes", "class_kind", "id_kind", "subject_kind", "shards"}


@dataclass(frozen=True)
class Inspection:
    """What a file says of itself.

    Attributes
    ----------
    kind : str
        Of which kind the model is.
    format, version : str and int
        The format of the file.
    digest : str
        SHA-256 of the state; of the file too, unless there are several.
    core_rows, features, classes : int
        How many of each it holds.
    target_ranges : list of pairs of float, or None
        Between which numbers the targets of a regression lie; None for a classifier.
    ids, subjects : str or None
        Of which type they are; None where there are none.
    rows_without_subject : int
        Core rows that have no subject, or an empty text for one: only their ids name them.
    bytes : int
        Of the file, or of all files together.
    files : int
        How many there are.
    capacity, threshold, gamma : float or None
        As in the configuration, there in hexadecimal; None where the model has none, or it is infinite. The capacity
        is held in units of a grid, so it may differ from the one given in the last digits. Gamma is that of kernels.
    stored_share : float or None
        Core rows divided by the number of rows learnt, where the caller said that number: the file does not keep it.
    configuration : dict
        All that the caller fixed, as the header has it; floats are hexadecimal, so that nothing is rounded.
    rows : list of dict, or None
        Id, subject and label, or targets, of each core row, in learning order, where they were asked for.
    """

    kind: str
    format: str
    version: int
    digest: str
    core_rows: int
    features: int
    classes: int
    ids: str | None
    subjects: str | None
    rows_without_subject: int
    bytes: int
    files: int
    capacity: float | None
    threshold: float | None
    gamma: float | None
    stored_share: float | None
    configuration: dict[str, Any]
    rows: list[dict[str, Any]] | None = None
    target_ranges: list[tuple[float, float]] | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        hidden = {name for name in ("rows", "target_ranges") if getattr(self, name) is None}
        return {name: value for name, value in asdict(self).items() if name not in hidden}


def inspect(path: str | os.PathLike[str], *, rows: bool = False, learnt: int | None = None) -> Inspection:
    """What a file says of itself; its checksum is tested, its rows are not recomputed: that is ``verify``.

    Works for every kind of model, also those that need code of the caller's to be loaded.

    Parameters
    ----------
    path : str or path
    rows : bool, default=False
        List id, subject and label of each core row.
    learnt : int, optional
        How many rows the model has learnt from, to get the share that it stores.

    Raises
    ------
    ConfigurationError
        When fewer rows are said to have been learnt than are stored.
    StateFormatError, StoreError
        When the file is damaged, or cannot be read.

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

    def look(head: Buffer, fetch: Fetch) -> Inspection:
        try:
            return _inspected(head, fetch, rows, learnt)
        except ErasableError:
            raise
        except (AttributeError, KeyError, IndexError, OverflowError, TypeError, ValueError) as error:
            raise StateFormatError("not a state: what its header says does not fit together.") from error

    refuse_odd_size(path)
    return read_file(path, look, parts_of=shards_of)


def _inspected(head: Buffer, fetch: Fetch, rows: bool, learnt: int | None) -> Inspection:
    meta, tensors = read_sealed(head)
    if meta["format"] not in KINDS:
        raise StateFormatError(
            f"it holds {str(meta['format'])[:40]!r}, which this erasable does not know: "
            "install a newer erasable, or give the file of a model."
        )
    check_format(meta, meta["format"], 1)
    sizes = [len(head)]
    ranges = [(float.fromhex(low), float.fromhex(high)) for low, high in meta.get("target_ranges", ())]
    named: tuple[Sequence[Any], ...] = ((), (), ())
    if meta["format"] in SHARDED:

        def counted(name: str) -> Buffer:
            data = fetch(name)
            sizes.append(len(data))
            return data

        state = from_files(head, counted)
        text, n, named = state.digest, len(state.ids), (state.ids, state.subjects, state.labels)
        owners: Sequence[Any] = state.subjects
    else:
        text, n = digest_of([head]), len(tensors["targets" if ranges else "labels"])
        owners = read_keys(tensors, "subjects", meta["subject_kind"], n)
        if rows and ranges:
            named = (*read_owners(meta, tensors, n), tensors["targets"].tolist())
        elif rows:
            classes = tuple(read_label(meta["class_kind"], c) for c in meta["classes"])
            named = read_names(meta, tensors, classes, n)
    if learnt is not None and learnt < n:
        raise ConfigurationError(
            f"the file holds {n:,} core rows, so no fewer rows were learnt; got {learnt:,}: count those of all tables."
        )
    return Inspection(
        kind=KINDS[meta["format"]],
        format=meta["format"],
        version=meta["version"],
        digest=text,
        core_rows=n,
        features=meta["n_features"],
        classes=len(meta.get("classes", ())),
        ids=meta["id_kind"],
        subjects=meta["subject_kind"],
        rows_without_subject=sum(owner in (None, "", b"") for owner in owners),
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
        rows=[
            {"id": _plain(i), "subject": _plain(s), **_answer(v, ranges, meta)} for i, s, v in zip(*named, strict=True)
        ]
        if rows
        else None,
        target_ranges=ranges or None,
    )


def _answer(value: Any, ranges: list[Range], meta: dict[str, Any]) -> dict[str, Any]:
    """The label of a row, or its targets as they were rounded."""
    if not ranges:
        return {"label": value}
    grid = grid_of(meta)
    return {"targets": [off_grid(t, ends, grid) for t, ends in zip(value, ranges, strict=True)]}


def _regularisers(meta: dict[str, Any]) -> dict[str, str]:
    """Capacity and alpha as the caller gave them, where the header has them in units of the grid."""
    units = {name: meta.get(f"{name}_units") for name in ("capacity", "alpha")}
    fine = KERNEL_BITS if meta["format"] == KernelState.FORMAT else 2 * meta.get("bits", 0)
    return {name: math.ldexp(int(value), -fine).hex() for name, value in units.items() if value is not None}


def _float(text: Any) -> float | None:
    """A float of the header; None where there is none, or none that a number of JSON could be."""
    try:
        value = float.fromhex(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def stored_bytes(path: str | os.PathLike[str]) -> int:
    """How large a model is on disk, its parts included where it is in several files."""
    total = os.stat(path).st_size
    for part in side_files(path).parts.glob("*"):
        with suppress(OSError):  # one that was replaced meanwhile
            total += part.stat().st_size
    return total


def _plain(key: Any) -> Any:
    """An id or subject as JSON holds it: bytes in hexadecimal."""
    return key.hex() if isinstance(key, bytes) else key
