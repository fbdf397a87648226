"""Bearer tokens: shown once when they are made, and kept as hashes."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

SCOPES = ("predict", "learn", "erase", "audit")


@dataclass(frozen=True)
class Token:
    """What is kept of a token.

    Attributes
    ----------
    name : str
        What people call it.
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


def make_token(
    path: str | os.PathLike[str], name: str, scopes: Collection[str], *, expires: datetime | None = None
) -> str:
    """A new token, its hash added to a file. It is not shown again."""
    raise NotImplementedError


def list_tokens(path: str | os.PathLike[str]) -> list[Token]:
    """Those in a file."""
    raise NotImplementedError


def revoke_token(path: str | os.PathLike[str], name: str) -> None:
    """The token of this name is no longer one."""
    raise NotImplementedError


class TokenFile:
    """The tokens of a file, read again when it has changed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        raise NotImplementedError

    def scopes(self, token: str) -> frozenset[str]:
        """What a token may do: nothing where it is none, or has expired. Takes the same time for all that are none."""
        raise NotImplementedError

    def name(self, token: str) -> str | None:
        """What people call it; None where it is none."""
        raise NotImplementedError
