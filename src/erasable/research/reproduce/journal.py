"""What has been measured so far, on disk, so that a stopped run continues."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from erasable.errors import ConfigurationError
from erasable.operations.rendering import make_folder

FORMAT = 2


class Journal:
    """Named measurements in one JSON file, rewritten atomically after each.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    settings : dict
        What the run is about. A folder that holds another run is refused.
    fresh : bool
        Start over; what the folder holds is replaced when the first entry is made.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], *, fresh: bool = False) -> None:
        make_folder(folder)
        self.path = folder / "journal.json"
        self.entries: dict[str, Any] = {}
        about = {"format": FORMAT, "settings": json.loads(json.dumps(settings))}
        if self.path.exists() and not fresh:
            found = self._read()
            if {key: found.get(key) for key in about} != about:
                old = found.get("settings", {})
                changed = sorted(k for k in {*old, *about["settings"]} if old.get(k) != about["settings"].get(k))
                raise ConfigurationError(
                    f"{folder} holds a run with other settings ({', '.join(changed) or 'an older version'}): "
                    "choose another --out, or start over with --fresh."
                )
            self.entries = found["entries"]
        self.about = about

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            if isinstance(found, dict) and isinstance(found["entries"], dict):
                return found
        except (OSError, ValueError, KeyError):
            pass
        raise ConfigurationError(f"{self.path} is damaged: start over with --fresh.")

    def once(self, name: str, work: Callable[[], Any]) -> Any:
        """The entry of this name; where there is none yet, the work is done and its result entered."""
        if name not in self.entries:
            self.enter(name, work())
        return self.entries[name]

    def enter(self, name: str, value: Any) -> None:
        """Write an entry down."""
        self.entries[name] = value
        write(self.path, json.dumps({**self.about, "entries": self.entries}))


def write(path: Path, text: str) -> None:
    """Replace a file whole: what is there is the old text or the new one, never half of either."""
    beside = path.with_name(path.name + ".part")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}. What was there is still there."
        ) from None


def fingerprint(path: str) -> str | None:
    """SHA-256 of a file, or None where there is no such file: the same name may hold other data later."""
    file = Path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
