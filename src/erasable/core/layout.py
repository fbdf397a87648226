"""The safetensors layout with one canonical form: what every state is written in.

An 8-byte little-endian header length, a JSON header, then the tensors in the order given, no gaps. One metadata key,
``erasable``, holds canonical JSON (RFC 8785: sorted keys, no spaces; numbers beyond small integers are written as
strings, floats in hexadecimal, so that nothing is rounded), among it a checksum of all the bytes. ``docs/format.md``
specifies all of it.

Bytes in memory alone: reading and writing files is for ``store``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Matrix
from erasable.core.grid import (
    Grid,
    csr,
    position_type,
)
from erasable.errors import ErasableError, StateFormatError, StoreError

Tensors = dict[str, tuple[str, Any]]
Piece = bytes | bytearray | memoryview
Buffer = bytes | bytearray | memoryview

DTYPES = {"I64": "<i8", "F32": "<f4", "I32": "<i4", "I16": "<i2", "U16": "<u2", "U8": "|u1"}
LONGEST_HEADER = 2**23  # bytes; names and scales of a hundred thousand features fit
MOST_VALUES = 2**19  # in the header: parsed, each takes up to a hundred bytes, however short it is written
S = TypeVar("S")


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces; floats as text in hexadecimal, integers of 2**53 or more as text, too."""
    return json.dumps(_small_numbers(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _small_numbers(value: object) -> Any:
    match value:
        case float():
            return value.hex()
        case int() if abs(value) >= 2**53:
            return str(value)
        case dict():
            return {name: _small_numbers(v) for name, v in value.items()}
        case list() | tuple():
            return [_small_numbers(v) for v in value]
    return value


def parts(meta: dict[str, Any], tensors: Tensors) -> list[Piece]:
    """The bytes of a file in pieces: header, then ``tensors``, those with the widest entries first, so all are aligned.

    ``meta`` gets a ``checksum``: the SHA-256, in hexadecimal, of all the bytes with zeros where its digits stand.
    """
    arrays = {name: (t, _array(t, array)) for name, (t, array) in tensors.items()}
    arrays = dict(sorted(arrays.items(), key=lambda entry: -entry[1][1].itemsize))  # the sort keeps the order of equals
    data: list[Piece] = [array.reshape(-1).view(np.uint8).data for _, array in arrays.values()]
    sha = hashlib.sha256(_header({**meta, "checksum": "0" * 64}, arrays))
    for piece in data:
        sha.update(piece)
    header = _header({**meta, "checksum": sha.hexdigest()}, arrays)
    _check_header(header)
    return [header, *data]


def _check_header(text: bytes | str) -> None:
    """Refuse a header that is too long, or that would take up much more memory than its length says."""
    if len(text) > LONGEST_HEADER:
        raise StateFormatError(f"the header has {len(text):,} bytes; at most {LONGEST_HEADER:,} are allowed.")
    marks: Any = ",[{" if isinstance(text, str) else (b",", b"[", b"{")
    values = sum(map(text.count, marks))
    if values > MOST_VALUES:
        raise StateFormatError(f"the header has some {values:,} values; at most {MOST_VALUES:,} are allowed.")


def read_json(text: bytes | str, **options: Any) -> Any:
    """What a header, or a text inside of it that is JSON itself, says; ``options`` go to ``json.loads``.

    The limits hold for every such text by itself: in the one around it, brackets and commas may be written as escapes.

    Raises StateFormatError when it is longer, or has more values, than any header that is written here. Raises
    ValueError or RecursionError when it is no JSON.
    """
    _check_header(text)
    return json.loads(text if isinstance(text, str) else text.decode(), **options)


def _header(meta: dict[str, Any], arrays: dict[str, tuple[str, npt.NDArray[Any]]]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"erasable": canonical_json(meta)}}
    offset = 0
    for name, (dtype, array) in arrays.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def digest_of(pieces: Iterable[Piece]) -> str:
    """SHA-256 of the pieces, as 64 hexadecimal digits."""
    sha = hashlib.sha256()
    for piece in pieces:
        sha.update(piece)
    return sha.hexdigest()


def parse(data: Buffer) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Metadata and tensors, which are read-only views of ``data``.

    Anything may be raised for bytes that are in no such layout: see :func:`guarded`. Nothing larger than the header is
    allocated, and that is bounded.
    """
    view = memoryview(data).cast("B").toreadonly()
    length = int.from_bytes(view[:8], "little")
    if len(view) < 8 or 8 + length > len(view):
        raise StateFormatError("the file is cut off, or no safetensors file.")
    if length > LONGEST_HEADER:
        raise StateFormatError(f"the header has {length:,} bytes; at most {LONGEST_HEADER:,} are allowed.")
    header = read_json(bytes(view[8 : 8 + length]))
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or "erasable" not in metadata:
        raise StateFormatError("this is some other safetensors file: it has no metadata of erasable.")
    meta = read_json(metadata["erasable"])
    body = view[8 + length :]
    end = 0
    for entry in header.values():  # one after the other: no byte stands for two things
        low, high = entry["data_offsets"]
        if low != end or not end <= high <= len(body):
            raise StateFormatError("its tensors overlap, leave gaps, or are cut off.")
        end = high
    if end != len(body):
        raise StateFormatError("there are bytes after its last tensor.")
    return meta, {name: _tensor(body, entry) for name, entry in header.items()}


def read_meta(head: Buffer) -> dict[str, Any]:
    """The metadata alone, of bytes that begin with the header.

    Raises StateFormatError when there is none of erasable's.
    """
    meta: dict[str, Any] | None = None
    with suppress(AttributeError, KeyError, IndexError, OverflowError, RecursionError, TypeError, ValueError):
        view = memoryview(head).cast("B")
        length = int.from_bytes(view[:8], "little")
        if not 8 + length <= len(view) or length > LONGEST_HEADER:
            raise ValueError
        found = read_json(read_json(bytes(view[8 : 8 + length]))["__metadata__"]["erasable"])
        meta = found if isinstance(found["format"], str) and isinstance(found["checksum"], str) else None
    if meta is None:  # raised here, where it does not carry the original, and with it the header, along
        raise StateFormatError("not a state: this is no file of erasable's, or it is truncated or altered.")
    return meta


def check_size(head: Buffer, size: int) -> None:
    """Raise StateFormatError if a file has another size than its header states."""
    read_meta(head)
    length = int.from_bytes(head[:8], "little")
    header = read_json(bytes(head[8 : 8 + length]))
    try:
        ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
    except (KeyError, IndexError, OverflowError, TypeError, ValueError):
        ends = []
    if 8 + length + max(ends, default=0) != size:
        raise StateFormatError("not a state: the file is cut off, or longer than its header says.")


def _tensor(data: memoryview, entry: dict[str, Any]) -> npt.NDArray[Any]:
    low, high = entry["data_offsets"]
    array: npt.NDArray[Any] = np.frombuffer(data[low:high], dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def check_format(meta: dict[str, Any], form: str, version: int) -> None:
    """Raise StateFormatError for another format, or for a version that this program does not know."""
    found, given = meta.get("format"), meta.get("version")
    if found != form:
        raise StateFormatError(f"it holds {str(found)[:40]!r}, where {form!r} is required.")
    if isinstance(given, bool) or given != version:
        newer = isinstance(given, int) and given > version
        raise StateFormatError(
            f"it is version {str(given)[:40]} of {form!r}, and this erasable reads version {version}: "
            + ("install a newer erasable." if newer else "there is no such version.")
        )


def guarded(data: Buffer, read: Callable[[Buffer], S], write: Callable[[S], Iterable[Piece]]) -> S:
    """What ``read`` makes of the bytes, provided that ``write`` gives the same bytes back, checksum and all.

    Raises StateFormatError when the bytes are not the canonical bytes of anything. Raises StoreError when ``read``
    needs other files, and they cannot be read.
    """
    refusal = None
    try:
        state = read(data)
        pieces = write(state)
    except StoreError:
        raise
    except ErasableError as error:
        raise StateFormatError(f"not a state: {error}") from error
    except (AttributeError, KeyError, IndexError, OverflowError, RecursionError, TypeError, ValueError):
        refusal = StateFormatError("not a state: the bytes are truncated or altered.")
    if refusal is not None:
        raise refusal  # here and not above, where it would carry the original, and with it values, along
    if not same_bytes(data, pieces):
        raise StateFormatError("not a state: its bytes were altered, or are not in canonical form.")
    return state


def read_sealed(data: Buffer) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return metadata and tensors of a file of any format; StateFormatError if layout or checksum are wrong."""
    names = {np.dtype(code).newbyteorder("="): name for name, code in DTYPES.items()}

    def write(found: tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]) -> list[Piece]:
        meta, tensors = found
        plain = {name: value for name, value in meta.items() if name != "checksum"}
        return parts(plain, {name: (names[array.dtype], array) for name, array in tensors.items()})

    return guarded(data, parse, write)


def _array(dtype: str, numbers: npt.ArrayLike) -> npt.NDArray[Any]:
    """A tensor in the type and order in which it is written."""
    return np.ascontiguousarray(numbers, dtype=DTYPES[dtype])


def same_content(one: tuple[dict[str, Any], Tensors], other: tuple[dict[str, Any], Tensors]) -> bool:
    """Whether :func:`parts` makes the same bytes of metadata and tensors, found out without making a checksum."""
    (meta, tensors), (second, others) = one, other
    if canonical_json(meta) != canonical_json(second) or [*tensors] != [*others]:
        return False
    for (dtype, array), (another, same) in zip(tensors.values(), others.values(), strict=True):
        if dtype != another:
            return False
        if array is not same:
            left, right = _array(dtype, array), _array(dtype, same)
            if left.shape != right.shape or left.tobytes() != right.tobytes():
                return False
    return True


def same_bytes(data: Buffer, pieces: Iterable[Piece]) -> bool:
    """Whether the pieces, one after the other, are the data; nothing is copied."""
    whole = np.frombuffer(data, dtype=np.uint8)
    at = 0
    for piece in pieces:
        if not len(piece):
            continue
        part = np.frombuffer(piece, dtype=np.uint8)
        there = whole[at : at + len(part)]
        if part.ctypes.data != there.ctypes.data and not np.array_equal(part, there):  # else it is that very memory
            return False
        at += len(part)
    return at == len(whole)


_NAMES = {
    np.dtype(kind): name for kind, name in ((np.uint8, "U8"), (np.uint16, "U16"), (np.int16, "I16"), (np.int32, "I32"))
}


def row_tensors(rows: Matrix, grid: Grid) -> Tensors:
    """The arrays that rows, laid out as they should be, are written as."""
    if not sp.issparse(rows):
        return {"rows": (_NAMES[grid.dtype], rows)}
    narrow = position_type(grid)
    return {
        "rows.lengths": (_NAMES[narrow], np.diff(rows.indptr).astype(narrow)),
        "rows.columns": (_NAMES[narrow], rows.indices.astype(narrow)),
        "rows.values": (_NAMES[grid.dtype], rows.data),
    }


def read_rows(tensors: dict[str, npt.NDArray[Any]], grid: Grid) -> Any:
    """The rows that these arrays are of, in the layout that the arrays are in.

    Raises StateFormatError when the arrays do not fit together, or their entries are not in order.
    """
    if "rows" in tensors:
        rows = tensors["rows"]
        if rows.shape[1:] != (grid.n_columns,) or rows.dtype != grid.dtype:
            raise StateFormatError("its parts do not fit together.")
        return rows
    lengths, columns, values = (tensors[f"rows.{name}"] for name in ("lengths", "columns", "values"))
    narrow = position_type(grid)
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    fits = (
        lengths.shape == (len(lengths),)
        and columns.shape == values.shape == (len(values),)
        and (lengths.dtype, columns.dtype, values.dtype) == (narrow, narrow, grid.dtype)
        and lengths.min(initial=0) >= 0
        and starts[-1] == len(values)
    )
    if not fits:
        raise StateFormatError("its sparse rows do not fit together.")
    if columns.min(initial=0) < 0 or columns.max(initial=0) >= grid.n_features:
        raise StateFormatError("its sparse rows have entries outside their columns.")
    indices = columns.astype(np.int32)
    inside = np.ones(len(indices), dtype=bool)
    inside[starts[:-1][starts[:-1] < len(indices)]] = False  # where a row begins, its column may be any
    if (np.diff(indices, prepend=-1)[inside] <= 0).any() or not values.all():
        raise StateFormatError("its sparse rows are not in canonical form: ascending columns, no zeros.")
    return csr(values, indices, starts, grid)
