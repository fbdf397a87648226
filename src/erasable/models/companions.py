"""The fitted learner of a model, kept in a companion next to the model file so that other processes need not train it.

A companion is a cache and no part of the state. It is *bound* to one file: it names the inode of the model file and the
time when that was last written, and nothing else can be read in it. The rest is sealed with a key that is made from two
things: a secret of the user, in the user's own cache folder, and every byte of the model file. So

- nothing of it is parsed unless this user wrote it for exactly this state. LightGBM's parser crashes on hostile text;
- once the model file has changed, nobody can read it, wherever the companion or a copy of it is.

It is erased under the lock of its model, before the file is replaced. A renamed or restored model leaves a companion
behind that is bound to no file: every program that locks a model erases such companions in the folder.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from erasable.core.layout import Buffer
from erasable.errors import ErasableError
from erasable.models.heads.learner import Learner, codes_of, room
from erasable.models.reports import TrainedLearner
from erasable.store import erase_cache, locked, read_cache, write_cache

if TYPE_CHECKING:
    from erasable.models.model import Model

LEAST_SECONDS = 1.0  # of training: what takes less is trained again by each process
LARGEST_COMPANION = 2**28  # bytes
_PATIENCE = 2.0  # seconds to wait for another process that is erasing the companion of a model

# Of every version, and of nothing else that a program writes. Version 1 was not sealed and bound to no file.
_MARK = b'{"format": "erasable-learner", '
_HEADER = re.compile(
    re.escape(_MARK)
    + rb'"version": 2, "inode": ([0-9]{1,20}), "written": (-?[0-9]{1,20}), "nonce": "([0-9a-f]{64})"}\n'
)
_NAME = re.compile(r"\.(.+)\.learner", re.DOTALL)
_SECRET_BYTES = _SEAL_BYTES = 32


def companion_of(path: str | os.PathLike[str]) -> Path:
    """The path of the companion of a model file, whether it exists or not."""
    where = Path(os.path.realpath(path))
    return where.with_name(f".{where.name}.learner")


def can_be_kept(model: Model) -> bool:
    """Whether fitted learners of this model can be kept in a companion."""
    return isinstance(model.head, Learner) and model.head.learner == "lightgbm"


# -- reading and writing -----------------------------------------------------------------------------------------------


def take_kept(path: str | os.PathLike[str], model: Model, head: Buffer) -> None:
    """Give a model its fitted learner, if a companion has it; ``head`` has the bytes of the model file.

    A learner of another version of the library is taken for ``verify``, which reports it, and not for predictions.
    """
    if not can_be_kept(model) or not len(model.core):
        return
    with suppress(ErasableError, OSError, KeyError, TypeError, ValueError):
        file = companion_of(path)
        content = read_cache(file, LARGEST_COMPANION)
        if content is None or not _is_bound(file, content) or (opened := _opened(content, head)) is None:
            return
        members = json.loads(opened)
        name, library, version, digest = (str(members["learner"][n]) for n in ("name", "library", "version", "sha256"))
        facts = TrainedLearner(name, library, version, digest)
        model.cache["learner"] = room().from_text(model.head, facts, str(members["text"]), codes_of(model))


def keep(path: str | os.PathLike[str], model: Model, head: Buffer) -> bool:
    """Write the fitted learner of a model to the companion of its file; whether it was written.

    The caller holds the lock of the file, whose bytes are ``head``. A folder that cannot be written to is no error.
    """
    fitted: Any = model.cache.get("learner")
    if not can_be_kept(model) or getattr(fitted, "seconds", 0.0) < LEAST_SECONDS:
        return False
    with suppress(ErasableError, OSError):
        secret = user_secret(create=True)
        if secret is not None:
            content = json.dumps({"learner": fitted.facts.as_json(), "text": fitted.text}).encode()
            companion = _sealed(content, os.lstat(path), secret, head)
            erase_companion(path)
            if len(companion) <= LARGEST_COMPANION:
                write_cache(companion_of(path), companion)
                return True
    return False


def user_secret(*, create: bool = False) -> bytes | None:
    """The secret with which this user's companions are sealed; None if there is none that only this user can use."""
    if not hasattr(os, "geteuid"):
        return None  # where no companion is written
    with suppress(ErasableError, OSError, RuntimeError):
        folder = os.environ.get("XDG_CACHE_HOME", "")
        base = Path(folder) if os.path.isabs(folder) else Path.home() / ".cache"
        file = base / "erasable" / "companions.key"
        if create and not file.exists() and _is_own_place(file.parent):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(file) as writer:
                if not writer.exists():
                    writer.replace([secrets.token_bytes(_SECRET_BYTES)])
        secret, facts = read_cache(file), os.lstat(file)
        if secret is not None and len(secret) == _SECRET_BYTES and _is_private(facts):
            return secret
    return None


def _is_own_place(folder: Path) -> bool:
    """Whether a folder, or the nearest existing one above it, is this user's: ``sudo`` may keep the home of another."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    return existing.stat().st_uid == os.geteuid()


def _is_private(facts: os.stat_result) -> bool:
    return facts.st_uid == os.geteuid() and not facts.st_mode & 0o077


def _sealed(content: bytes, facts: os.stat_result, secret: bytes, head: Buffer) -> bytes:
    """The bytes of a companion: a header in plain, the content as nobody can read it, and the seal over both."""
    nonce = secrets.token_bytes(32)
    bound = f'"inode": {facts.st_ino}, "written": {facts.st_mtime_ns}'
    header = _MARK + f'"version": 2, {bound}, "nonce": "{nonce.hex()}"}}\n'.encode()
    key = _key(secret, nonce, head)
    covered = header + _masked(content, key)
    return covered + _seal(covered, key)


def _opened(companion: bytes, head: Buffer) -> bytes | None:
    """The content of a companion; None unless this user sealed it for a model file with these bytes."""
    header, secret = _HEADER.match(companion), user_secret()
    if header is None or secret is None or len(companion) < header.end() + _SEAL_BYTES:
        return None
    covered, seal = companion[:-_SEAL_BYTES], companion[-_SEAL_BYTES:]
    key = _key(secret, bytes.fromhex(header[3].decode()), head)
    return _masked(covered[header.end() :], key) if hmac.compare_digest(_seal(covered, key), seal) else None


def _key(secret: bytes, nonce: bytes, head: Buffer) -> bytes:
    """The key of one companion. Digests of states stand in receipts, so it is made from the bytes themselves."""
    made = hmac.new(secret, nonce, hashlib.sha256)
    made.update(head)
    return made.digest()


def _masked(content: bytes, key: bytes) -> bytes:
    """Content under a key stream, or what is under it again: the key is used for no other content."""
    stream = hashlib.shake_256(b"stream" + key).digest(len(content))
    return np.bitwise_xor(np.frombuffer(content, np.uint8), np.frombuffer(stream, np.uint8)).tobytes()


def _seal(covered: bytes, key: bytes) -> bytes:
    return hmac.new(key, covered, hashlib.sha256).digest()


# -- erasing -----------------------------------------------------------------------------------------------------------


def erase_companion(path: str | os.PathLike[str]) -> None:
    """Erase the companion of a model file, if it exists; the caller holds the lock of the model.

    Raises StoreError.
    """
    # After a crash or a loss of power a companion may be empty or hold zeros.
    erase_cache(companion_of(path), lambda head: head.startswith(_MARK) or not head.strip(b"\0"), _PATIENCE)


def orphans(folder: str | os.PathLike[str]) -> list[str]:
    """The names of companions in a folder that are bound to no model file there.

    A companion that this user may not read is one if no model file has its name.
    """
    names: list[str] = []
    with suppress(OSError):
        names = sorted(filter(_NAME.fullmatch, os.listdir(folder)))
    return [name for name in names if is_orphan(os.path.join(folder, name))]


def is_orphan(companion: str | os.PathLike[str]) -> bool:
    """Whether a file is a companion that is bound to no model file."""
    if not _NAME.fullmatch(os.path.basename(companion)):
        return False
    try:
        head = read_cache(companion)
    except PermissionError:
        return _model_facts(companion) is None
    except OSError:
        return False
    return head is not None and _is_unbound(companion, head)


def erase_orphans(path: str | os.PathLike[str]) -> None:
    """Erase the companions in the folder of a model file that are bound to no file, as far as this user may."""
    folder = os.path.dirname(os.path.realpath(path))
    for name in orphans(folder):
        file = os.path.join(folder, name)
        # One that cannot be erased is another user's; ``verify`` and ``scan`` name it.
        with suppress(ErasableError):
            erase_cache(file, partial(_is_unbound, file))


def _is_unbound(companion: str | os.PathLike[str], head: bytes) -> bool:
    """Whether a file with these first bytes is a companion of no model file."""
    return head.startswith(_MARK) and not _is_bound(companion, head)


def _is_bound(companion: str | os.PathLike[str], head: bytes) -> bool:
    """Whether the first bytes of a companion name the model file next to it, as that is now."""
    header, facts = _HEADER.match(head), _model_facts(companion)
    return header is not None and facts is not None and (int(header[1]), int(header[2])) == facts


def _model_facts(companion: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Inode and time of the last write of the file whose companion this is by its name; None if that is no file."""
    folder, name = os.path.split(os.fspath(companion))
    with suppress(OSError):
        facts = os.lstat(os.path.join(folder, _NAME.sub(r"\1", name)))
        if stat.S_ISREG(facts.st_mode):
            return facts.st_ino, facts.st_mtime_ns
    return None
