"""What the console points out about an identity before a request is filed: the page alone has it, nothing is kept."""

from __future__ import annotations

import unicodedata
from typing import Any

from erasable.core.names import listed_in, told_spelling
from erasable.service.identities import Identity

_MOST = 8  # characters that are named


def told_of(who: Identity) -> dict[str, Any]:
    """An identity as it was typed, and what may be a mistake in it."""
    raw = who.format == "raw"
    odd = dict.fromkeys(c for c in who.value if not c.isascii()) if raw else {}
    return {
        "value": who.value,
        "raw": raw,
        "characters": len(who.value),
        "parts": listed_in(who.value) if raw else 1,
        "odd": [f"U+{ord(c):04X} {unicodedata.name(c, 'without a name')}" for c in [*odd][:_MOST]],
        "more": max(0, len(odd) - _MOST),
        "compared_as": who.spelt if who.spelt != who.value else None,
        "spelling": told_spelling({who.role: who.steps} if who.steps else {}),
        "capitals_count": raw and "casefold" not in who.steps,
    }
