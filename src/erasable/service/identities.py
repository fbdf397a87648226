"""Whom a request names, in the forms that clients send, and which stored rows that is.

A hashed identity is matched by hashing what is stored: of text its UTF-8 bytes, of a whole number its decimal digits,
of bytes the bytes themselves. What is raw and no number names nothing where ids are numbers: that is no error, since
an answer must not show what is stored.

Where a normalisation is declared, stored names and the names in requests are normalised alike before they are compared,
so a row is found also where it was learnt in another spelling. Of a hashed identity the sender chose the spelling: it
is compared with the hash of the stored name, and with that of the normalised name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from erasable.core.names import FORMATS, Key, Steps, normalise
from erasable.errors import InputError
from erasable.models.core_rows import Named
from erasable.models.model import Model
from erasable.operations.requests import Request
from erasable.service.settings import Role

_DIGITS = {"sha256": 64, "sha1": 40, "md5": 32}
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_HEXADECIMAL = re.compile(r"([0-9a-fA-F]{2})+")
_LONGEST = 4096  # characters
_BYTES = "bytes"  # a raw identity whose hexadecimal digits have capitals, where it names bytes


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
    steps : tuple of str
        How it is normalised before it is compared.

    Raises
    ------
    InputError
        When the format is not known, or the value cannot be of it.
    """

    role: Role
    format: str
    value: str = field(repr=False)
    steps: Steps = ()

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
        object.__setattr__(self, "steps", tuple(self.steps))

    @property
    def spelt(self) -> str:
        """The value as it is compared: normalised, unless it is a hash."""
        return normalise(self.value, self.steps) if self.format == "raw" else self.value

    @property
    def forms(self) -> list[tuple[str, str]]:
        """Each format and value under which a suppression list has it: see ``forms_of``."""
        spelt = self.spelt
        may_be_bytes = self.format == "raw" and spelt != spelt.lower() and _HEXADECIMAL.fullmatch(spelt)
        return [(self.format, spelt), *([(_BYTES, spelt.lower())] if may_be_bytes else [])]


def _raw(value: str, kind: type | None) -> Key | None:
    """The key that people write so; None where no key of this kind is."""
    if kind is int:
        return int(value) if _WHOLE.fullmatch(value) else None
    if kind is bytes:
        return bytes.fromhex(value) if _HEXADECIMAL.fullmatch(value) else None
    return value


def in_format(key: Key, format: str, steps: Steps = ()) -> str:
    """A stored key as an identity of this format has it, normalised first where it is a text."""
    key = normalise(key, steps) if steps and isinstance(key, str) else key
    if format == "raw":
        return key.hex() if isinstance(key, bytes) else str(key)
    data = key if isinstance(key, bytes) else str(key).encode()
    return hashlib.new(format, data, usedforsecurity=False).hexdigest()


def forms_of(key: Key, steps: Steps) -> set[tuple[str, str]]:
    """Each format and value of an identity, normalised by these steps, that names a stored key."""
    forms = {(format, in_format(key, format, steps)) for format in FORMATS}
    forms |= {(format, in_format(key, format)) for format in FORMATS if steps and format != "raw"}
    return forms | ({(_BYTES, key.hex())} if isinstance(key, bytes) else set())


def keys_in(model: Model, identities: Iterable[Identity]) -> tuple[list[Key], list[Key]]:
    """The ids and the subjects that a model stores and some of these name.

    *Cost*: one pass over all stored ids, or subjects, for each format of hashes among them, and for each normalisation
    that the model does not declare itself.
    """
    core = model.core
    stored: dict[str, Collection[Key]] = {"id": core.place, "subject": core.of_subject}
    kinds = {"id": core.id_type, "subject": core.subject_type}
    found: dict[str, list[Key]] = {"id": [], "subject": []}
    tables: dict[tuple[str, str, Steps], dict[str, list[Key]]] = {}
    for who in identities:
        declared = model.spelling.get(who.role, ())
        if who.format == "raw" and (who.steps in ((), declared) or kinds[who.role] in (int, bytes)):
            key = _raw(normalise(who.value, who.steps or declared), kinds[who.role])
            found[who.role] += [key] if key is not None and key in stored[who.role] else []
            continue
        for steps in {who.steps, declared, ()} if who.format != "raw" else {who.steps}:
            if (at := (who.role, who.format, steps)) not in tables:
                tables[at] = {}
                for key in stored[who.role]:
                    tables[at].setdefault(in_format(key, who.format, steps), []).append(key)
            found[who.role] += tables[at].get(who.spelt, [])
    return found["id"], found["subject"]


@dataclass(frozen=True, repr=False)
class Erasure(Request):
    """A request to forget whom identities name, looked up in each model under its lock."""

    identities: tuple[Identity, ...] = ()

    def named_in(self, model: Model) -> Named:
        """See ``Request``; nothing that is not stored is an error."""
        ids, subjects = keys_in(model, self.identities)
        return Named(len({*self.identities}), 0, model.named(ids, subjects).found)
