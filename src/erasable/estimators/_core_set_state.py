"""Core rows of any learner in the layout of :mod:`erasable.core.layout`: all that is stored, but for the learner.

The fitted learner is a function of the rows and of the parameters that are described here, and is trained anew when the
bytes are read; they cannot hold it, and hold no code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from erasable.core.layout import (
    Buffer,
    Piece,
    Tensors,
    check_format,
    guarded,
    key_tensors,
    name_fields,
    parse,
    parts,
    read_label,
    read_names,
)
from erasable.errors import StateFormatError
from erasable.estimators._forgetting import encode
from erasable.estimators._voters import CoreRows

FORMAT, VERSION = "erasable-core-set", 1


def core_set_pieces(core: CoreRows, configuration: dict[str, Any]) -> list[Piece]:
    """The canonical bytes of core rows and of what they were selected and are trained with."""
    classes = sorted(set(core.labels))
    meta = {
        "format": FORMAT,
        "version": VERSION,
        **configuration,
        "n_features": int(core.rows.shape[1]),
        "layout": "dense" if isinstance(core.rows, np.ndarray) else "csr",
        **name_fields(classes, core.ids, [], fixed=False),
    }
    labels: Tensors = {"labels": ("I32", encode(core.labels)[1])}
    return parts(meta, {**core.tensors(), **labels, **key_tensors("ids", core.ids)})


def core_set_from_bytes(data: Buffer, configuration: dict[str, Any]) -> tuple[CoreRows, dict[str, Any]]:
    """The core rows and the metadata, when the bytes were written with this configuration.

    Raises
    ------
    StateFormatError
    """

    def write(read: tuple[CoreRows, dict[str, Any]]) -> list[Piece]:
        core, meta = read
        return core_set_pieces(core, {name: meta[name] for name in configuration})

    return guarded(data, _parse, write)


def _parse(data: Buffer) -> tuple[CoreRows, dict[str, Any]]:
    meta, tensors = parse(data)
    check_format(meta, FORMAT, VERSION)
    d = int(meta["n_features"])
    rows: Any
    if meta["layout"] == "dense":
        rows = tensors["rows"].view(np.float64).copy()
    else:
        values, columns, ends = (tensors[f"rows.{name}"] for name in ("data", "indices", "ends"))
        if not (len(values) == len(columns) == ends[-1] and ends[0] == 0 and (np.diff(ends) >= 0).all()):
            raise StateFormatError("its sparse rows do not fit together.")
        if len(columns) and not (columns.min() >= 0 and columns.max() < d):
            raise StateFormatError("its sparse rows have entries outside their columns.")
        within = np.ones(len(columns), dtype=bool)
        within[ends[:-1][ends[:-1] < len(columns)]] = False  # where a row begins, its first column may be any
        if (np.diff(columns, prepend=-1)[within] <= 0).any() or not values.view(np.float64).all():
            raise StateFormatError("its sparse rows are not in canonical form: sorted columns, no zeros.")
        narrow = np.int32 if max(d, len(values)) < 2**31 else np.int64
        rows = sp.csr_array(
            (values.view(np.float64).copy(), columns.astype(narrow), ends.astype(narrow)), shape=(len(ends) - 1, d)
        )
    n = rows.shape[0]
    if rows.shape != (n, d):
        raise StateFormatError("its parts do not fit together.")
    if not np.isfinite(rows if isinstance(rows, np.ndarray) else rows.data).all():
        raise StateFormatError("its rows hold NaN or infinity.")
    classes = tuple(read_label(meta["class_kind"], c) for c in meta["classes"])
    ids, _, labels = read_names(meta, tensors, classes, n)
    return CoreRows(rows, list(labels), list(ids)), meta
