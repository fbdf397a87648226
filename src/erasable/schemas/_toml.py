"""TOML as schemas are written: one text for one content. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LINE = 100


def key(name: str) -> str:
    """The name of a table or value, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else text(name)


def text(value: str) -> str:
    """A basic string; JSON escapes what TOML does, but for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def value(given: Any) -> str:
    """A text, number, truth or list of them; a float without a fraction is written like the integer that it equals."""
    match given:
        case str():
            return text(given)
        case bool():
            return "true" if given else "false"
        case float() if given.is_integer() and abs(given) < 2**53:
            return str(int(given))
        case int() | float():
            return repr(given)
        case list() | tuple():
            return _array([value(v) for v in given])
    raise TypeError(type(given).__name__)


def _array(items: list[str]) -> str:
    """Items on one line, or on as many as they need."""
    line = f"[{', '.join(items)}]"
    if len(line) <= _LINE - 20:
        return line
    lines, last = [], ""
    for item in items:
        if last and len(last) + len(item) + 2 > _LINE - 4:
            lines.append(last)
            last = ""
        last += f"{' ' if last else ''}{item},"
    return "[\n" + "".join(f"    {line}\n" for line in (*lines, last)) + "]"


def table(head: str, entries: Mapping[str, Any]) -> str:
    """A head in brackets, and its entries."""
    return "\n".join([head, *(f"{key(name)} = {value(v)}" for name, v in entries.items())])
