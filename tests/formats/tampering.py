"""Files taken apart and put together again by somebody who alters them on purpose, with nothing of this package."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable
from typing import Any

CHECKSUM = re.compile(rb'\\"checksum\\":\\"(.{64})\\"', re.DOTALL)


def sealed(data: bytes) -> bytes:
    """The bytes with the checksum that fits them."""
    found = CHECKSUM.search(data)
    if found is None:
        return data
    low, high = found.span(1)
    digits = hashlib.sha256(data[:low] + b"0" * 64 + data[high:]).hexdigest().encode()
    return data[:low] + digits + data[high:]


def opened(data: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Entries of the header by name, the metadata, and the body."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    meta = json.loads(header.pop("__metadata__")["erasable"])
    return header, meta, data[8 + length :]


def closed(header: Any, meta: Any, body: bytes) -> bytes:
    """The file with these parts, written as ours are, with the checksum that fits."""
    text = json.dumps(meta, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return with_header(json.dumps({"__metadata__": {"erasable": text}, **header}, **WRITTEN).encode(), body)


WRITTEN: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False}


def with_header(text: bytes, body: bytes = b"") -> bytes:
    """A file with this header, padded, and the checksum that fits."""
    text += b" " * (-len(text) % 8)
    return sealed(struct.pack("<Q", len(text)) + text + body)


def altered(data: bytes, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> bytes:
    """The file with header and metadata changed in place by ``change(header, meta)``."""
    header, meta, body = opened(data)
    change(header, meta)
    return closed(header, meta, body)


def tensors(data: bytes) -> dict[str, tuple[str, list[int], bytes]]:
    """Type, shape and bytes of every tensor."""
    header, _, body = opened(data)
    return {name: (e["dtype"], e["shape"], body[slice(*e["data_offsets"])]) for name, e in header.items()}


def rebuilt(meta: dict[str, Any], parts: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    """A file with these tensors, in this order, without gaps."""
    header, body = {}, b""
    for name, (dtype, shape, raw) in parts.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    return closed(header, meta, body)
