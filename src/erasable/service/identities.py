"""Whom a request names, in the forms that clients send, and which stored rows that is.

A hashed identity is matched by hashing what is stored: of text its UTF-8 bytes, of a whole number its decimal digits,
of bytes the bytes themselves. What is raw and no number names nothing where ids are numbers: that is no error, since
an answer must not show what is stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from erasable.core.layout import Key
from erasable.errors import InputError
from erasable.models.model import Model
from erasable.models.rows import Named
from erasable.operations.requests import Request
from erasable.service.settings import Role

#: How an identity may be written; the hashes are of 64, 40 and 32 hexadecimal digits.
FORMATS = ("raw", "sha256", "sha1", "md5")


@dataclass(frozen=True)
class Identity:
    """Somebody, or a row, as a request names it.

    Parameters
    ----------
    role : "id" or "subject"
    format : str
        One of ``FORMATS``.
    value : str
        Never shown by ``repr``. Hexadecimal digits are kept in lower case.

    Raises
    ------
    InputError
        When the format is not known, or the value cannot be of it.
    """

    role: Role
    format: str
    value: str = field(repr=False)
