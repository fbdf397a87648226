"""Bearer tokens: shown once when they are made, and kept as hashes.

A token has 256 random bits, so a plain SHA-256 of it can be kept: there is nothing to guess. The file has one form for
its tokens, and a checksum: one that is damaged, or was edited, is refused as a whole.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from erasable.errors import ConfigurationError, StateFormatError
from erasable.store import locked, read

#: What a token may allow. ``erase`` files, follows and cancels requests; ``audit`` sees digests, rows and receipts;
#: ``purge`` erases settled requests and their receipts from the ledger.
SCOPES = ("predict", "learn", "erase", "audit", "purge")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LARGEST = 2**20  # bytes of a file of tokens
_PREFIX = "erasable_"  # so that scanners of repositories and logs know one when they see it


@dataclass(frozen=True)
class Token:
    """What is kept of a token.

    Attributes
    ----------
    name : str
        What people call it, and who is behind it: requests belong to the name that filed them. A token that is made
        anew under the name of one that was revoked has its requests.
    scopes : tuple of str
        Of ``SCOPES``.
    made : datetime
    expires : datetime or None
    hash : str
        SHA-256 of the token.
    """

    name: str
    scopes: tuple[str, ...]
    made: datetime
    expires: datetime | None
    hash: str

    @property
    def audits(self) -> bool:
        """Whether it sees everything: digests, receipts, and the requests of others."""
        return "audit" in self.scopes

    def looks_for(self, controller: str | None) -> tuple[str, bool]:
        """Whose request it asks about, and whether it may be that of whoever filed one, where nobody is named."""
        if controller is not None and self.audits:
            return controller, False
        return self.name, self.audits


def make_token(
    path: str | os.PathLike[str], name: str, scopes: Collection[str], *, expires: datetime | None = None
) -> str:
    """A new token; its hash is added to a file, which is made where it is not there. The token is not shown again.

    Raises
    ------
    ConfigurationError
        When the name is taken or cannot be one, when a scope is not known, or none is given.
    StoreError
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError("a token's name must be 1 to 64 letters, digits, points, hyphens or underscores.")
    if not scopes or set(scopes) - set(SCOPES):
        raise ConfigurationError(f"a token needs at least one of these scopes, and no other: {', '.join(SCOPES)}.")
    if expires is not None and expires.tzinfo is None:
        raise ConfigurationError("the time when a token expires must say its time zone.")
    text = _PREFIX + secrets.token_urlsafe(32)
    made = datetime.now(UTC).replace(microsecond=0)
    with locked(path) as writer:
        known = writer.read(_parsed, limit=_LARGEST) if writer.exists() else []
        if name in (token.name for token in known):
            raise ConfigurationError("there is a token of this name already: revoke that, or choose another name.")
        ordered = tuple(scope for scope in SCOPES if scope in scopes)
        writer.replace([_text([*known, Token(name, ordered, made, expires, _hash(text))])])
    return text


def list_tokens(path: str | os.PathLike[str]) -> list[Token]:
    """Those in a file, in the order in which they were made."""
    return read(path, _parsed, limit=_LARGEST)


def revoke_token(path: str | os.PathLike[str], name: str) -> None:
    """The token of this name is no longer one.

    Raises
    ------
    ConfigurationError
        When there is none.
    """
    with locked(path) as writer:
        known = writer.read(_parsed, limit=_LARGEST) if writer.exists() else []
        left = [token for token in known if token.name != name]
        if len(left) == len(known):
            raise ConfigurationError("there is no token of this name.")
        writer.replace([_text(left)])


class TokenFile:
    """The tokens of a file, read again when it has changed; a file that is not there has none.

    Parameters
    ----------
    path : str or path
    clock : callable, optional
        The time in UTC.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path, self._clock = os.path.abspath(path), clock
        self._seen: tuple[int, ...] | None = None
        self._tokens: list[Token] = []

    def of(self, text: str) -> Token | None:
        """What is kept of a token; None where it is none, or has expired. All are compared, so time tells nothing."""
        return self.known(_hash(text))

    def known(self, sent: str) -> Token | None:
        """The same, by the hash of a token."""
        self._read_again()
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.hash, sent):
                found = token
        return None if found is None or (found.expires is not None and found.expires <= self._clock()) else found

    def scopes(self, text: str) -> frozenset[str]:
        """What a token may do: nothing where it is none."""
        token = self.of(text)
        return frozenset() if token is None else frozenset(token.scopes)

    def _read_again(self) -> None:
        try:
            facts = os.stat(self._path)
        except FileNotFoundError:
            self._seen, self._tokens = None, []
            return
        seen = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
        if seen != self._seen:
            self._tokens = list_tokens(self._path)
            self._seen = seen


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _text(tokens: list[Token], *, checked: bool = True) -> bytes:
    listed: Any = [
        {
            "name": token.name,
            "scopes": token.scopes,
            "made": token.made.isoformat(),
            "expires": None if token.expires is None else token.expires.isoformat(),
            "sha256": token.hash,
        }
        for token in tokens
    ]
    checksum = {"checksum": _hash(json.dumps(listed))} if checked else {}
    return json.dumps({"tokens": listed, **checksum}, indent=1).encode() + b"\n"


def _parsed(head: bytes, _: Any) -> list[Token]:
    try:
        tokens = [_token(found) for found in json.loads(head)["tokens"]]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise StateFormatError("this is no file of tokens: erasable token make writes one.") from None
    if head not in (_text(tokens), _text(tokens, checked=False)):  # the latter is from before there was a checksum
        raise StateFormatError(
            "this file of tokens is damaged, or was edited by hand: put a copy of it back, or move it away and make "
            "the tokens anew."
        )
    return tokens


def _token(found: dict[str, Any]) -> Token:
    made, expires = (found[name] and datetime.fromisoformat(found[name]) for name in ("made", "expires"))
    if not isinstance(found["scopes"], list) or not _NAME.fullmatch(found["name"]):
        raise ValueError
    if not _SHA256.fullmatch(found["sha256"]) or (expires is not None and expires.tzinfo is None):
        raise ValueError
    scopes = tuple(scope for scope in SCOPES if scope in found["scopes"])
    return Token(found["name"], scopes, made, expires, found["sha256"])
