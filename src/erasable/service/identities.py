"""Whom a request names, in the forms that clients send, and which stored rows that is.

A hashed identity is matched by hashing what is stored: of text its UTF-8 bytes, of a whole number its decimal digits,
of bytes the bytes themselves. What is raw and no number names nothing where ids are numbers: that is no error, since
an answer must not show what is stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from erasable.core.names import Key
from erasable.errors import InputError
from erasable.models.model import Model
from erasable.models.rows import Named
from erasable.operations.requests import Request
from erasable.service.settings import Role

#: How an identity may be written; a hash in hexadecimal digits.
FORMATS = ("raw", "sha256", "sha1", "md5")

_DIGITS = {"sha256": 64, "sha1": 40, "md5": 32}
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_HEXADECIMAL = re.compile(r"([0-9a-fA-F]{2})+")
_LONGEST = 4096  # characters


@dataclass(frozen=True)
class Identity:
    """Somebody, or a row, as a request names it.

    Parameters
    ----------
    role : "id" or "subject"
    format : str
        One of ``FORMATS``.
    value : str
        Never shown by ``repr``. The digits of a hash are kept in lower case.

    Raises
    ------
    InputError
        When the format is not known, or the value cannot be of it.
    """

    role: Role
    format: str
    value: str = field(repr=False)

    def __post_init__(self) -> None:
        if self.role not in ("id", "subject") or self.format not in FORMATS:
            raise InputError(f"an identity must be of one of these formats: {', '.join(FORMATS)}.")
        if not 1 <= len(self.value) <= _LONGEST:
            raise InputError(f"the value of an identity must be a text of 1 to {_LONGEST:,} characters.")
        if self.format != "raw":
            if len(self.value) != _DIGITS[self.format] or not _HEXADECIMAL.fullmatch(self.value):
                raise InputError(f"a {self.format} identity must have {_DIGITS[self.format]} hexadecimal digits.")
            object.__setattr__(self, "value", self.value.lower())
        try:
            self.value.encode()
        except UnicodeEncodeError:
            raise InputError("the value of an identity must be text that UTF-8 has.") from None


def _raw(value: str, kind: type | None) -> Key | None:
    """The key that people write so; None where no key of this kind is."""
    if kind is int:
        return int(value) if _WHOLE.fullmatch(value) else None
    if kind is bytes:
        return bytes.fromhex(value) if _HEXADECIMAL.fullmatch(value) else None
    return value


def in_format(key: Key, format: str) -> str:
    """A stored key as an identity of this format has it."""
    if format == "raw":
        return key.hex() if isinstance(key, bytes) else str(key)
    data = key if isinstance(key, bytes) else str(key).encode()
    return hashlib.new(format, data, usedforsecurity=False).hexdigest()


def keys_in(model: Model, identities: Iterable[Identity]) -> tuple[list[Key], list[Key]]:
    """The ids and the subjects that a model stores and some of these name.

    *Cost*: one pass over all stored ids, or subjects, for each format of hashes among them.
    """
    core = model.core
    stored: dict[str, Collection[Key]] = {"id": core.place, "subject": core.of_subject}
    kinds = {"id": core.id_type, "subject": core.subject_type}
    found: dict[str, list[Key]] = {"id": [], "subject": []}
    hashes: dict[tuple[str, str], dict[str, Key]] = {}
    for who in identities:
        key: Key | None
        if who.format == "raw":
            key = _raw(who.value, kinds[who.role])
        else:
            if (who.role, who.format) not in hashes:
                hashes[who.role, who.format] = {in_format(key, who.format): key for key in stored[who.role]}
            key = hashes[who.role, who.format].get(who.value)
        if key is not None and key in stored[who.role]:
            found[who.role].append(key)
    return found["id"], found["subject"]


@dataclass(frozen=True, repr=False)
class Erasure(Request):
    """A request to forget whom identities name, looked up in each model under its lock."""

    identities: tuple[Identity, ...] = ()

    def named_in(self, model: Model) -> Named:
        """See ``Request``; nothing that is not stored is an error."""
        ids, subjects = keys_in(model, self.identities)
        return Named(len({*self.identities}), 0, model.named(ids, subjects).found)
