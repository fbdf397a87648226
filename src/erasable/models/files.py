"""A model and its file: the state as bytes that last, and a model back from them.

A file holds a state, never code. Where a model needs code that the caller wrote (a kernel function, a function class, a
feature map, a learner), whoever reads it hands in a function that has that code.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from erasable.core.layout import LONGEST_HEADER, Buffer, check_format, check_size, read_meta, read_sealed
from erasable.errors import ConfigurationError, StateFormatError, StoreError
from erasable.models.feature_maps import stored_map
from erasable.models.layouts import layout_named
from erasable.models.model import Model
from erasable.models.shards import SHARDED, VERSION, Fetch, Files, from_files, shards_of
from erasable.models.state import State
from erasable.store import LARGEST, PRIVATE, Writer
from erasable.store import read as read_file

#: Makes the model of a file's header, its bytes and a way to get at further files, with code that a file cannot hold.
Code = Callable[[dict[str, Any], Buffer, Fetch], Model]
FileMark = tuple[int, int, int]  # device, inode, time of the last write

#: Of what kind the model in a file is, by the format that its header names.
KINDS = {
    "erasable-linear": "linear",
    "erasable-regression": "linear regression",
    "erasable-kernel": "kernel",
    "erasable-general": "general function class",
    "erasable-core-set": "learner on a core set",
    "erasable-model": "selection and head",
}
KINDS |= {form: f"{KINDS[whole]}, in several files" for form, whole in SHARDED.items()}
_NEEDED = {
    "erasable-general": ("ErasableGeneralClassifier", "a function class"),
    "erasable-core-set": ("CoreSetUnlearner", "a core-set map and a learner"),
}

_LARGE = 2**25  # bytes


def read_model(path: str | os.PathLike[str], code: Code | None = None) -> tuple[Model, str]:
    """The model that a file holds, and the checksum of the file."""
    with naming(path):
        refuse_odd_size(path)
        return read_file(
            path,
            lambda head, fetch: (model_of(head, fetch, code), str(read_meta(head)["checksum"])),
            parts_of=shards_of,
        )


def model_of(head: Buffer, fetch: Fetch, code: Code | None = None) -> Model:
    """The model whose state has these bytes.

    Raises
    ------
    StateFormatError
        When the bytes are damaged, altered, of a newer version, or something else altogether.
    ConfigurationError
        When code is needed that a file cannot hold, or is not what the file was made with.
    """
    meta = known_meta(head)
    form = meta["format"]
    if code is not None:
        return code(meta, head, fetch)
    if form in _NEEDED:
        read_sealed(head)  # a damaged file is not taken for one that needs code
        wanted, what = _NEEDED[form]
        raise ConfigurationError(
            f"this model needs {what} of the caller's, which a file cannot hold: load(path, like={wanted}(...)) with "
            "the parameters that it was made with."
        )
    state = read_kernel(meta, head, None) if form == "erasable-kernel" else from_files(head, fetch)
    return Model.restore(state, stored_map(state.configuration))


def known_meta(head: Buffer) -> dict[str, Any]:
    """The metadata of a model, by bytes that begin with the header; before anything else is looked at.

    Raises
    ------
    StateFormatError
        When its format is not known, or it is of another version, which is named.
    """
    meta = read_meta(head)
    form = meta["format"]
    if form not in KINDS:
        raise StateFormatError(
            f"it holds {form[:40]!r}, which this erasable does not know: "
            "install a newer erasable, or give the file of a model."
        )
    check_format(meta, form, VERSION if form in SHARDED or form in _NEEDED else layout_named(form).version)
    return meta


def needs_code(meta: dict[str, Any]) -> bool:
    """Whether a file with this header can only be read with code of the caller's."""
    return meta["format"] in _NEEDED or meta.get("kernel") == "custom"


def read_kernel(meta: dict[str, Any], head: Buffer, function: Any) -> State:
    """The state of a kernel model, with the function of the caller's where it has one."""
    if needs_code(meta) and function is None:
        read_sealed(head)
        raise ConfigurationError(
            "this model has a kernel function of the caller's, which a file cannot hold: "
            "load(path, like=ErasableKernelClassifier(kernel, ...)) with the same parameters."
        )
    if needs_code(meta) and meta.get("function") != getattr(function, "__qualname__", None):
        read_sealed(head)  # a damaged file is not taken for another function
        raise ConfigurationError(
            "like has a kernel function of another name than that which the file was made with: give the same."
        )
    if not isinstance(meta.get("degree"), int):  # no small one, which alone is written as a number
        raise StateFormatError("not a state: the degree of its kernel is out of range.")
    return State.from_bytes(head, function)


def write(writer: Writer, files: Files, mode: int = PRIVATE) -> None:
    """Replace what the path holds by these files; refused if nobody could read them again."""
    size = max(sum(memoryview(p).nbytes for p in pieces) for pieces in (files.head, *files.parts.values()))
    if size > LARGEST:
        raise StoreError(f"the model needs a file of {size:,} bytes; at most {LARGEST:,} are read: store fewer rows.")
    writer.replace(files.head, files.parts, mode=mode)


def checksum_of(files: Files) -> str:
    """The checksum in the header of what is to be written."""
    return str(read_meta(files.head[0])["checksum"])


def checksum_at(path: str | os.PathLike[str]) -> str | None:
    """The checksum in the header of what a path holds; None where that is no model of ours."""
    with suppress(StateFormatError, OSError):
        return str(read_meta(head_of(path)[0])["checksum"])
    return None


def mark_of(path: str | os.PathLike[str]) -> FileMark | None:
    """Which file a path holds, and when it was last written: nothing that depends on its bytes; None if none."""
    with suppress(OSError):
        facts = os.stat(path)
        return facts.st_dev, facts.st_ino, facts.st_mtime_ns
    return None


def head_of(path: str | os.PathLike[str]) -> tuple[bytes, os.stat_result]:
    """The header of a file, unless it is too long, and what the system says of the file; of a pipe nothing."""
    with open(path, "rb", opener=_without_waiting) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            return b"", facts
        length = file.read(8)
        return length + file.read(min(int.from_bytes(length, "little"), LONGEST_HEADER)), facts


def refuse_odd_size(path: str | os.PathLike[str]) -> None:
    """Refuse a large file that is longer or shorter than its header says, before all of it is read.

    Raises
    ------
    StateFormatError
    """
    with suppress(OSError):  # who reads it is told what is wrong
        head, facts = head_of(path)
        # A file that has been replaced meanwhile may be half erased: what was read of it says nothing.
        if facts.st_size > _LARGE and os.path.samestat(facts, os.stat(path)):
            check_size(head, facts.st_size)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """A block whose complaints about the bytes of a file say which file it is."""
    try:
        yield
    except StateFormatError as error:
        raise StateFormatError(f"{os.fspath(path)!s}: {error}") from error


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
