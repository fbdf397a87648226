"""Bearer tokens: shown once when they are made, and kept as hashes.

A token has 256 random bits, so a plain SHA-256 of it can be kept: there is nothing to guess. The file has a canonical
form and a checksum, so a damaged or edited file is refused as a whole.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from erasable.errors import ConfigurationError, StateFormatError
from erasable.service.purges import elapsed
from erasable.store import locked, read

#: What a token may allow. ``erase`` files, follows and cancels requests; ``audit`` sees digests, rows and receipts;
#: ``purge`` erases settled requests and their receipts from the ledger.
SCOPES = ("predict", "learn", "erase", "audit", "purge")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LARGEST = 2**20  # bytes of a file of tokens
_PREFIX = "erasable_"  # so that scanners of repositories and logs recognise one


@dataclass(frozen=True)
class Token:
    """The stored record of a token.

    Requests belong to the name that filed them. A token made anew under the name of a revoked one has its requests.
    """

    name: str
    scopes: tuple[str, ...]  # of ``SCOPES``
    made: datetime
    expires: datetime | None
    hash: str  # SHA-256 of the token

    @property
    def audits(self) -> bool:
        """Whether it sees everything: digests, receipts, and the requests of others."""
        return "audit" in self.scopes

    def looks_for(self, controller: str | None) -> tuple[str, bool]:
        """The controller whose request is meant, and whether those of others are meant too: see ``Ledger.entry``."""
        if controller is not None and self.audits:
            return controller, False
        return self.name, self.audits


def make_token(
    path: str | os.PathLike[str], name: str, scopes: Collection[str], *, expires: datetime | None = None
) -> str:
    """Make a token and add its hash to a file, which is created if needed. The token is not shown again.

    Raises ConfigurationError when the name is taken or not allowed, a scope is unknown, or none is given. Raises
    StoreError when the file cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError("a token's name must be 1 to 64 letters, digits, points, hyphens or underscores.")
    if not scopes or set(scopes) - set(SCOPES):
        raise ConfigurationError(f"a token needs at least one of these scopes, and no other: {', '.join(SCOPES)}.")
    if expires is not None and expires.tzinfo is None:
        raise ConfigurationError("the time when a token expires must have a time zone.")
    text = _PREFIX + secrets.token_urlsafe(32)
    made = datetime.now(UTC).replace(microsecond=0)
    with locked(path) as writer:
        known = writer.read(_parsed, limit=_LARGEST) if writer.exists() else []
        if name in (token.name for token in known):
            raise ConfigurationError("a token of this name exists already: revoke it, or choose another name.")
        ordered = tuple(scope for scope in SCOPES if scope in scopes)
        writer.replace([_text([*known, Token(name, ordered, made, expires, _hash(text))])])
    return text


def list_tokens(path: str | os.PathLike[str]) -> list[Token]:
    """The tokens in a file, in the order in which they were made."""
    return read(path, _parsed, limit=_LARGEST)


def revoke_token(path: str | os.PathLike[str], name: str) -> None:
    """Remove the token of this name; ``ConfigurationError`` if it does not exist."""
    with locked(path) as writer:
        known = writer.read(_parsed, limit=_LARGEST) if writer.exists() else []
        left = [token for token in known if token.name != name]
        if len(left) == len(known):
            raise ConfigurationError("no token of this name exists: erasable token list shows them.")
        writer.replace([_text(left)])


class TokenFile:
    """The tokens of a file, read again when it has changed; a file that does not exist has none."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        elapsed: Callable[[], float] = elapsed,
    ) -> None:
        self._path, self._clock, self._elapsed = os.path.abspath(path), clock, elapsed
        self._read_at, self._passed = clock(), elapsed()  # when the file was read
        self._read_facts: tuple[int, ...] | None = None
        self._tokens: list[Token] = []

    def of(self, text: str) -> Token | None:
        """The record of a token; None if it is unknown or has expired."""
        return self.of_hash(_hash(text))

    def of_hash(self, sent: str) -> Token | None:
        """The record of a token with this hash. All are compared, so the time taken tells nothing."""
        self._read_again()
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.hash, sent):
                found = token
        if found is None or found.expires is None:
            return found
        # A wall clock that is set back makes no token last longer.
        passed = timedelta(seconds=self._elapsed() - self._passed)
        return None if found.expires <= max(self._clock(), self._read_at + passed) else found

    def _read_again(self) -> None:
        now = _facts_of(self._path)
        if now != self._read_facts:
            self._tokens = list_tokens(self._path) if now else []
            self._read_facts, self._read_at, self._passed = now, self._clock(), self._elapsed()


class TokenWatch:
    """Which tokens were made and revoked since the last look, also while the service was not running.

    A copy of the file of tokens, at ``noted``, has those whose making is in the audit trail.
    """

    def __init__(self, path: str | os.PathLike[str], noted: str | os.PathLike[str]) -> None:
        self._path, self._noted = os.path.abspath(path), noted
        self._looked_at: tuple[int, ...] | None = None

    def look(self, note: Callable[[str, str], None]) -> None:
        """Call ``note`` with ``token-made`` or ``token-revoked`` and the name, for each change."""
        facts = _facts_of(self._path)
        if facts == self._looked_at:
            return
        now = list_tokens(self._path) if facts else []
        with locked(self._noted) as writer:
            before: list[Token] = []
            with suppress(StateFormatError):  # events that repeat are better than none
                before = writer.read(_parsed, limit=_LARGEST) if writer.exists() else []
            for what, left, right in (("token-revoked", before, now), ("token-made", now, before)):
                known = {token.hash for token in right}
                for token in left:
                    if token.hash not in known:
                        note(what, token.name)
            if before != now:
                writer.replace([_text(now)])
        self._looked_at = facts


def _facts_of(path: str) -> tuple[int, ...]:
    """What changes whenever a file is replaced; empty if it does not exist."""
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return ()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _text(tokens: list[Token], *, checked: bool = True) -> bytes:
    listed = [
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


def _parsed(head: bytes, _: object) -> list[Token]:
    try:
        tokens = [_token(found) for found in json.loads(head)["tokens"]]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise StateFormatError("this is no file of tokens: erasable token make writes one.") from None
    if head not in (_text(tokens), _text(tokens, checked=False)):  # version 0.1.0 wrote no checksum
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
