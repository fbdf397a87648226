"""Values as canonical TOML. Pure."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LINE = 100


def toml_table(head: str, entries: Mapping[str, Any]) -> str:
    """A TOML table in its canonical form: the head in brackets, and its entries."""
    return "\n".join([head, *(f"{toml_key(name)} = {_toml_value(v)}" for name, v in entries.items())])


def toml_key(name: str) -> str:
    """A key, in quotes where TOML needs them."""
    return name if _BARE_KEY.fullmatch(name) else _toml_value(name)


def _toml_value(given: Any) -> str:
    """A text, number, truth value or list; a float without a fraction is written like the integer that it equals."""
    match given:
        case str():  # JSON escapes what TOML does, but for one control character
            return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return "true" if given else "false"
        case float() if given.is_integer() and abs(given) < 2**53:
            return str(int(given))
        case int() | float():
            return repr(given)
        case list() | tuple():
            return _toml_array([_toml_value(v) for v in given])
    raise TypeError(type(given).__name__)


def _toml_array(items: list[str]) -> str:
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


def toml_comment(text: str) -> str:
    """Lines of comment, each ending with a line break, wrapped where they are too long."""
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, _LINE) or [""]]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)
