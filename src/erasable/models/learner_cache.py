"""A fitted learner next to a model file, so that other processes need not train it: a cache, and no part of the state.

It is written under the lock of the model, and only while the file still holds the state that was trained on. It is
erased before the file is replaced, so before any request is acknowledged. It holds the text of LightGBM's model, in
JSON, and nothing is unpickled; other learners have no cache.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from erasable.errors import ErasableError
from erasable.models.heads.learner import Learner, codes_of, room
from erasable.models.reports import TrainedLearner
from erasable.store import PRIVATE, PartsOf, locked
from erasable.store import read as read_file

if TYPE_CHECKING:
    from erasable.models.model import Model

_FORMAT, _VERSION = "erasable-learner", 1
_PATIENCE = 1.0  # seconds to wait for the lock of a model whose learner is to be cached


def cache_of(path: str | os.PathLike[str]) -> Path:
    """The file of the cache of a model file, whether it exists or not."""
    where = Path(os.path.realpath(path))
    return where.with_name(f".{where.name}.learner")


def has_cache(model: Model) -> bool:
    """Whether fitted learners of this model can be cached."""
    return isinstance(model.head, Learner) and model.head.learner == "lightgbm"


def take_cached(path: str | os.PathLike[str], model: Model, checksum: str) -> bool:
    """Take the fitted learner from the cache of a file, if there is one for this state; whether it was taken.

    One of another version of the library is taken for ``verify``, which reports it, and not for predictions.
    """
    file = cache_of(path)
    if not has_cache(model) or not len(model.core) or not file.exists():
        return False
    with suppress(ErasableError, OSError, KeyError, TypeError, ValueError):
        found = read_file(file, lambda data, _: json.loads(bytes(data)))
        if (found["format"], found["version"], found["state"]) == (_FORMAT, _VERSION, checksum):
            name, library, version, digest = (found["learner"][n] for n in ("name", "library", "version", "sha256"))
            facts = TrainedLearner(str(name), str(library), str(version), str(digest))
            model.cache["learner"] = room().from_text(model.head, facts, str(found["text"]), codes_of(model))
            return True
    return False


def keep_cached(path: str | os.PathLike[str], model: Model, checksum: str, parts_of: PartsOf) -> bool:
    """Write the fitted learner of a model to the cache of its file, unless the file has changed; whether it was.

    A folder that cannot be written to is no error.
    """
    from erasable.models.files import checksum_at  # it imports this module

    fitted: Any = model.cache.get("learner")
    if not has_cache(model) or not hasattr(fitted, "text"):
        return False
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "state": checksum,
        "learner": fitted.facts.as_json(),
        "text": fitted.text,
    }
    with suppress(ErasableError, OSError), locked(path, parts_of=parts_of, timeout=_PATIENCE) as writer:
        if writer.exists() and checksum_at(path) == checksum:
            with locked(cache_of(path), timeout=_PATIENCE) as cache:
                cache.replace([json.dumps(content).encode()], mode=PRIVATE)
            return True
    return False


def erase_cache(path: str | os.PathLike[str]) -> None:
    """Erase the cache of a model file, if there is one; the caller holds the lock of the model.

    Raises StoreError.
    """
    file = cache_of(path)
    if file.exists():
        with locked(file) as cache:
            if cache.exists():
                cache.remove()
