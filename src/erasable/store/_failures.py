"""What the user reads when the disk says no: what went wrong, what is on disk now, what to do next."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from erasable.errors import StoreError

E = TypeVar("E", bound=StoreError)

AS_IT_WAS = "The file is as it was."

_REASONS = {
    errno.ENOSPC: ("the disk is full", "Free some space and run it again."),
    errno.EDQUOT: ("the disk quota is used up", "Free some space or raise the quota, and run it again."),
    errno.EFBIG: ("the file would be larger than the file system or the process limit allows", "Raise the limit."),
    errno.EROFS: ("the file system is read-only", "Mount it writable, or give a path elsewhere."),
    errno.EACCES: ("permission was denied", "Check the permissions of the file and of its folder."),
    errno.EPERM: ("permission was denied", "Check the permissions of the file and of its folder."),
    errno.EIO: ("the disk reported an input/output error", "Check the disk before anything else."),
    errno.ENOENT: ("the file or its folder does not exist", "Check the path; make the folder first."),
    errno.ENOTDIR: ("a part of the path is not a folder", "Check the path."),
    errno.EISDIR: ("a folder is in the way", "Give the path of a file."),
    errno.ENAMETOOLONG: ("the name is too long", "Side files add 7 characters to it: give a shorter name."),
    errno.ELOOP: ("there is a symbolic link in the way", "Give the real path."),
    errno.EMFILE: ("too many files are open", "Close some, or raise the limit of open files."),
    errno.ENFILE: ("too many files are open on this machine", "Close some, or raise the limit of open files."),
}


def failure(message: str, number: int, kind: type[E]) -> E:
    """An error with a message of its own and an ``errno``."""
    error = kind(message)
    error.errno = number
    return error


def refusal(message: str, number: int) -> StoreError:
    """A :class:`StoreError` raised before anything was changed."""
    return failure(message, number, StoreError)


def reason(error: OSError) -> tuple[str, str]:
    """What went wrong and what to do about it, in words."""
    number = error.errno or 0
    return _REASONS.get(number, (os.strerror(number) if number else "the system refused", "Then run it again."))


@contextmanager
def explained(doing: str, path: str, state: str = "", kind: type[StoreError] = StoreError) -> Iterator[None]:
    """A block in which whatever the system refuses becomes a :class:`StoreError` that says what is on disk now."""
    try:
        yield
    except StoreError as error:
        if kind is StoreError or isinstance(error, kind):
            raise
        raise failure(f"{error} {state}", error.errno or 0, kind) from error
    except OSError as error:
        what, advice = reason(error)
        message = " ".join(filter(None, [f"could not {doing} {path}: {what}.", state, advice]))
        raise failure(message, error.errno or 0, kind) from error
