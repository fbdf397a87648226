"""The safetensors layout with one canonical form: what every state is written in.

An 8-byte little-endian header length, a JSON header, then the tensors in the order given, no gaps. One metadata key,
``erasable``, holds canonical JSON (RFC 8785: sorted keys, no spaces; numbers beyond small integers are written as
strings, floats in hexadecimal, so that nothing is rounded).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from erasable.errors import ErasableError, StateFormatError

Key = int | str | bytes
Label = bool | int | float | str
Tensors = dict[str, tuple[str, Any]]

DTYPES = {"I64": "<i8", "F32": "<f4", "I32": "<i4", "I16": "<i2", "U8": "|u1"}
_KINDS: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "str", bytes: "bytes"}
S = TypeVar("S")


def kind_of(value: object) -> str:
    """``"int"``, ``"str"``, ``"bytes"``, ``"bool"`` or ``"float"``."""
    return _KINDS[type(value)]


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parts(meta: dict[str, Any], tensors: Tensors) -> Iterator[bytes | memoryview]:
    """The bytes of a file, piece by piece; ``tensors`` in file order, the widest entries first."""
    arrays = {name: (t, np.ascontiguousarray(array, dtype=DTYPES[t])) for name, (t, array) in tensors.items()}
    header: dict[str, Any] = {"__metadata__": {"erasable": canonical_json(meta)}}
    offset = 0
    for name, (dtype, array) in arrays.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, array in arrays.values():
        yield (array.reshape(-1).view(np.uint8).data)


def parse(data: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Metadata and tensors; anything may be raised for bytes that are in no such layout: see :func:`guarded`."""
    start = 8 + int.from_bytes(data[:8], "little")
    if start > len(data):
        raise StateFormatError("the header is cut off.")
    header = json.loads(data[8:start].decode())
    meta = json.loads(header.pop("__metadata__")["erasable"])
    return meta, {name: _tensor(data[start:], entry) for name, entry in header.items()}


def _tensor(data: bytes, entry: dict[str, Any]) -> npt.NDArray[Any]:
    low, high = entry["data_offsets"]
    if not 0 <= low <= high <= len(data):
        raise StateFormatError("it is cut off.")
    array: npt.NDArray[Any] = np.frombuffer(data[low:high], dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def guarded(data: bytes, read: Callable[[bytes], S], write: Callable[[S], bytes]) -> S:
    """What ``read`` makes of the bytes, provided that ``write`` gives the same bytes back.

    Raises
    ------
    StateFormatError
        When the bytes are not the canonical bytes of anything.
    """
    try:
        state = read(data)
    except ErasableError as error:
        raise StateFormatError(f"not a state: {error}") from error
    except (AttributeError, KeyError, IndexError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise StateFormatError("not a state: the bytes are truncated or altered.") from error
    if write(state) != data:
        raise StateFormatError("not a state: the bytes are not in canonical form.")
    return state


def write_label(value: Label) -> str:
    """A label as text."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return value.hex()
        case _:
            return str(value)


def read_label(kind: str, text: str) -> Label:
    """The label that a text stands for."""
    match kind:
        case "bool":
            return {"true": True, "false": False}[text]
        case "float":
            return float.fromhex(text)
        case "int":
            return int(text)
        case "str":
            return text
    raise KeyError(kind)


def name_fields(
    classes: Sequence[Label], ids: Sequence[Key], subjects: Sequence[Key | None], *, fixed: bool
) -> dict[str, Any]:
    """What the header says of labels, ids and subjects: the classes, and of what kind each is."""
    return {
        "classes": [write_label(c) for c in classes],
        "class_kind": kind_of(classes[0]) if classes else None,
        "classes_fixed": fixed,
        "id_kind": kind_of(ids[0]) if ids else None,
        "subject_kind": next((kind_of(s) for s in subjects if s is not None), None),
    }


def key_tensors(name: str, keys: Sequence[Key | None]) -> tuple[Tensors, Tensors]:
    """Ids or subjects as wide and as narrow tensors; a subject may be missing, and so may all of them."""
    wide: Tensors = {}
    narrow: Tensors = {}
    present = [k is not None for k in keys]
    if any(present) and not all(present):
        narrow[name + ".present"] = ("U8", present)
    if not any(present):
        return wide, narrow
    if all(k is None or type(k) is int for k in keys):
        wide[name] = ("I64", np.array([k or 0 for k in keys], dtype=np.int64))
    else:
        texts = [b"" if k is None else k.encode() if isinstance(k, str) else bytes(k) for k in keys]
        wide[name + ".ends"] = ("I64", np.cumsum([len(t) for t in texts], dtype=np.int64))
        narrow[name] = ("U8", np.frombuffer(b"".join(texts), dtype=np.uint8))
    return wide, narrow


def read_keys(tensors: dict[str, npt.NDArray[Any]], name: str, kind: str | None, n: int) -> tuple[Key | None, ...]:
    """The ids or subjects that :func:`key_tensors` wrote."""
    if kind is None:
        return (None,) * n
    if kind == "int":
        keys: list[Any] = tensors[name].tolist()
    else:
        blob, ends = tensors[name].tobytes(), [0, *tensors[name + ".ends"].tolist()]
        texts = [blob[a:b] for a, b in itertools.pairwise(ends)]
        keys = [t.decode() for t in texts] if kind == "str" else texts
    present = tensors[name + ".present"].tolist() if name + ".present" in tensors else [1] * n
    return tuple(k if p else None for k, p in zip(keys, present, strict=True))
