"""The safetensors layout with one canonical form: what every state is written in.

An 8-byte little-endian header length, a JSON header, then the tensors in the order given, no gaps. One metadata key,
``erasable``, holds canonical JSON (RFC 8785: sorted keys, no spaces; numbers beyond small integers are written as
strings, floats in hexadecimal, so that nothing is rounded), among it a checksum of all the bytes. ``docs/format.md``
specifies all of it.

Bytes in memory alone: reading and writing files is for ``store``.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from erasable.errors import ConfigurationError, ErasableError, StateFormatError, StoreError

Key = int | str | bytes
Owners = Key | None | tuple[Key, ...]  # of a row: one subject, none, or two and more, sorted and distinct
Label = bool | int | float | str
Tensors = dict[str, tuple[str, Any]]
Piece = bytes | bytearray | memoryview
Buffer = bytes | bytearray | memoryview

DTYPES = {"I64": "<i8", "F32": "<f4", "I32": "<i4", "I16": "<i2", "U16": "<u2", "U8": "|u1"}
_KINDS: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "str", bytes: "bytes"}
LONGEST_HEADER = 2**23  # bytes; names and scales of a hundred thousand features fit
MOST_VALUES = 2**19  # in the header: parsed, each takes up to a hundred bytes, however short it is written
S = TypeVar("S")


def kind_of(value: object) -> str:
    """``"int"``, ``"str"``, ``"bytes"``, ``"bool"`` or ``"float"``."""
    return _KINDS[type(value)]


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces; floats as text in hexadecimal, integers of 2**53 or more as text, too."""
    return json.dumps(_small_numbers(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _small_numbers(value: Any) -> Any:
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
    arrays = {name: (t, np.ascontiguousarray(array, dtype=DTYPES[t])) for name, (t, array) in tensors.items()}
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

    Raises
    ------
    StateFormatError
        When it is longer, or has more values, than any header that is written here.
    ValueError, RecursionError
        When it is no JSON.
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

    Raises
    ------
    StateFormatError
        When there is none of erasable's.
    """
    try:
        view = memoryview(head).cast("B")
        length = int.from_bytes(view[:8], "little")
        if not 8 + length <= len(view) or length > LONGEST_HEADER:
            raise ValueError
        meta = read_json(read_json(bytes(view[8 : 8 + length]))["__metadata__"]["erasable"])
        if not isinstance(meta["format"], str) or not isinstance(meta["checksum"], str):
            raise TypeError
    except (AttributeError, KeyError, IndexError, OverflowError, RecursionError, TypeError, ValueError):
        raise StateFormatError("not a state: this is no file of erasable's, or it is truncated or altered.") from None
    found: dict[str, Any] = meta
    return found


def check_size(head: Buffer, size: int) -> None:
    """Refuse a file of another size than its header says.

    Raises
    ------
    StateFormatError
    """
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
    """Refuse another format, and by name a version that this program does not know.

    Raises
    ------
    StateFormatError
    """
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

    Raises
    ------
    StateFormatError
        When the bytes are not the canonical bytes of anything.
    StoreError
        When ``read`` needs other files, and they cannot be read.
    """
    try:
        state = read(data)
        pieces = write(state)
    except StoreError:
        raise
    except ErasableError as error:
        raise StateFormatError(f"not a state: {error}") from error
    except (AttributeError, KeyError, IndexError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise StateFormatError("not a state: the bytes are truncated or altered.") from error
    if not same_bytes(data, pieces):
        raise StateFormatError("not a state: its bytes were altered, or are not in canonical form.")
    return state


def read_sealed(data: Buffer) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Metadata and tensors of a file of any of our formats; its layout and its checksum are tested, no more.

    Raises
    ------
    StateFormatError
    """
    names = {np.dtype(code).newbyteorder("="): name for name, code in DTYPES.items()}

    def write(found: tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]) -> list[Piece]:
        meta, tensors = found
        plain = {name: value for name, value in meta.items() if name != "checksum"}
        return parts(plain, {name: (names[array.dtype], array) for name, array in tensors.items()})

    return guarded(data, parse, write)


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
            return float.fromhex(text) + 0.0  # minus zero is then not canonical
        case "int":
            value = int(text)
            if not -(2**63) <= value < 2**63:
                raise ValueError("an integer label past 64 bits")
            return value
        case "str":
            return text
    raise KeyError(kind)


def name_fields(
    classes: Sequence[Label], ids: Sequence[Key], subjects: Sequence[Owners], *, fixed: bool
) -> dict[str, Any]:
    """What the header says of labels, ids and subjects: the classes, and of what kind each is."""
    return {
        "classes": [write_label(c) for c in classes],
        "class_kind": kind_of(classes[0]) if classes else None,
        "classes_fixed": fixed,
        **owner_fields(ids, subjects),
    }


def owner_fields(ids: Sequence[Key], subjects: Sequence[Owners]) -> dict[str, Any]:
    """What the header says of ids and subjects: of what kind they are."""
    return {
        "id_kind": kind_of(ids[0]) if ids else None,
        "subject_kind": subject_kind(subjects),
    }


def subject_kind(subjects: Iterable[Owners]) -> str | None:
    """Of what kind the subjects of some rows are; None where no row has one."""
    return next((kind_of(owners_of(owners)[0]) for owners in subjects if owners is not None), None)


def owners_of(owners: Owners) -> tuple[Key, ...]:
    """The subjects of one row."""
    return owners if isinstance(owners, tuple) else () if owners is None else (owners,)


def each_owner(subjects: Sequence[Owners]) -> list[Any]:
    """The subjects of all rows, one after the other."""
    if tuple in set(map(type, subjects)):
        return list(itertools.chain.from_iterable(map(owners_of, subjects)))
    return [owner for owner in subjects if owner is not None]


def are_several(owners: tuple[Key, ...]) -> bool:
    """Whether these, of one type, are the subjects of a row that has several: sorted, distinct, no empty text."""
    return len(owners) > 1 and all(map(operator.lt, owners, owners[1:])) and owners[0] not in ("", b"")


def read_names(
    meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]], classes: tuple[Label, ...], n: int
) -> tuple[tuple[Key, ...], tuple[Owners, ...], tuple[Label, ...]]:
    """Ids, subjects and labels of n rows.

    Raises
    ------
    StateFormatError
    """
    codes = tensors["labels"]
    if codes.shape != (n,) or (n and not (codes.min() >= 0 and codes.max() < len(classes))):
        raise StateFormatError("its labels do not fit its rows or its classes.")
    return *read_owners(meta, tensors, n), tuple(classes[i] for i in codes.tolist())


def read_owners(
    meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]], n: int
) -> tuple[tuple[Key, ...], tuple[Owners, ...]]:
    """Ids and subjects of n rows.

    Raises
    ------
    StateFormatError
    """
    ids = read_keys(tensors, "ids", meta["id_kind"], n)
    if (n and meta["id_kind"] is None) or {"ids.present", "ids.lengths"} & tensors.keys() or len(set(ids)) != n:
        raise StateFormatError("its ids are not distinct.")
    return ids, read_keys(tensors, "subjects", meta["subject_kind"], n)  # type: ignore[return-value]


def check_fixed_classes(fixed: Sequence[Label] | None) -> None:
    """Refuse classes of the caller's that are not in canonical order.

    Raises
    ------
    ConfigurationError
    """
    if fixed is not None and (not fixed or len({type(c) for c in fixed}) > 1 or list(fixed) != sorted(set(fixed))):
        raise ConfigurationError("fixed classes must be sorted, distinct and of one type.")


def check_feature_names(names: Sequence[Any], n_features: int) -> None:
    """Refuse names of columns that are not one text for each.

    Raises
    ------
    ConfigurationError
    """
    if len(names) != n_features:
        raise ConfigurationError(f"{len(names)} names of columns are given for {n_features} features.")
    for name in names:
        if not isinstance(name, str) or any("\ud800" <= c <= "\udfff" for c in name):
            raise ConfigurationError("the names of columns must be texts in Unicode: rename those that are not.")


def key_tensors(name: str, keys: Sequence[Owners]) -> Tensors:
    """Ids or subjects; a subject may be missing, and so may all of them, and a row may have several."""
    tensors: Tensors = {}
    kinds = set(map(type, keys))
    if tuple in kinds:
        lengths = np.fromiter((len(owners_of(k)) for k in keys), dtype=np.int32, count=len(keys))
        return {name + ".lengths": ("I32", lengths), **key_tensors(name, each_owner(keys))}
    if not kinds - {type(None)}:
        return tensors
    if type(None) in kinds:
        tensors[name + ".present"] = ("U8", [k is not None for k in keys])
    if kinds <= {int, type(None)}:
        tensors[name] = ("I64", np.array([k or 0 for k in keys], dtype=np.int64))
    else:
        texts: list[Any] = [b"" if k is None else k.encode() if isinstance(k, str) else k for k in keys]
        tensors[name + ".ends"] = ("I64", np.cumsum([len(t) for t in texts], dtype=np.int64))
        tensors[name] = ("U8", np.frombuffer(b"".join(texts), dtype=np.uint8))
    return tensors


def read_keys(tensors: dict[str, npt.NDArray[Any]], name: str, kind: str | None, n: int) -> tuple[Owners, ...]:
    """The ids or subjects that :func:`key_tensors` wrote."""
    if kind is None:
        return (None,) * n
    if name + ".lengths" in tensors:
        return _read_several(tensors, name, kind, n)
    if kind == "int":
        keys: list[Any] = tensors[name].tolist()
    else:
        blob, ends = tensors[name].tobytes(), [0, *tensors[name + ".ends"].tolist()]
        if any(a > b for a, b in itertools.pairwise(ends)) or ends[-1] != len(blob):
            raise StateFormatError(f"its {name} do not fit together.")  # and might be cut out of it over and over
        texts = [blob[a:b] for a, b in itertools.pairwise(ends)]
        keys = [t.decode() for t in texts] if kind == "str" else texts
    if name + ".present" not in tensors and len(keys) == n:
        return tuple(keys)
    return tuple(k if p else None for k, p in zip(keys, tensors[name + ".present"].tolist(), strict=True))


def _read_several(tensors: dict[str, npt.NDArray[Any]], name: str, kind: str, n: int) -> tuple[Owners, ...]:
    """Subjects of rows some of which have several; nothing is made of lengths that the keys do not add up to."""
    lengths = tensors[name + ".lengths"]
    m = int(lengths.sum(dtype=np.int64))
    keys = read_keys({k: tensors[k] for k in (name, name + ".ends") if k in tensors}, name, kind, m)
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    if lengths.shape != (n,) or lengths.min(initial=0) < 0 or len(keys) != m:
        raise StateFormatError(f"its {name} do not fit together.")
    rows = [keys[a:b] for a, b in itertools.pairwise([0, *ends])]
    if not all(len(row) < 2 or are_several(row) for row in rows):  # type: ignore[arg-type]
        raise StateFormatError(f"its {name} are not in canonical form: those of a row sorted, distinct, none empty.")
    return tuple(row if len(row) > 1 else row[0] if row else None for row in rows)  # type: ignore[misc]
