"""Finding a file, and reading it without letting through what it holds when that fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from erasable.errors import ErasableError, InputError, InputTypeError

T = TypeVar("T")


def as_path(path: object) -> Path:
    """A path, from text or a path object."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InputTypeError(f"path must be a string or a path; got {type(path).__name__}.")
    return Path(path)


def existing_file(path: Path) -> Path:
    """The path, when there is a file with something in it."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the path of a file.")
    if not path.exists():
        raise InputError(f"{path} does not exist: check the path.")
    if not path.stat().st_size:
        raise InputError(f"{path.name} is empty: it may not have been written to the end.")
    return path


def read_or_refuse(read: Callable[[], T], path: Path, form: str) -> T:
    """What ``read`` gives; when it fails, an error without the entries that the reader's own message may quote.

    Raises
    ------
    InputError
    """
    try:
        return read()
    except ErasableError:
        raise
    except PermissionError:
        kind = ""
    except Exception as error:  # readers of damaged files raise anything
        kind = type(error).__name__
    if not kind:
        raise InputError(f"{path.name} cannot be opened: permission was denied; check who may read it.")
    raise InputError(  # here and not above, where it would carry the original, and with it values, along
        f"{path.name} cannot be read as {form} ({kind}): it may be cut short, damaged, or of another format."
    )
