"""A model and its file or files: the state as bytes that last, and a model back from them.

A file holds a state, never code. Where a model needs code that the caller wrote (a kernel function, a function class, a
feature map, a learner), the caller hands in a function that has that code.

A very large state is several files, so that forgetting a row rewrites one small file and the head. Which rows stand in
which file is a function of the set of rows alone: they are sorted into a binary tree by the SHA-256 of their ids, and a
node is divided if and only if its rows take more than so many bytes. The files are named by the SHA-256 of their bytes,
and the head lists these names, so the head stands for all of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Int64s, Matrix, stacked
from erasable.core.grid import Grid, laid_out, row_sizes, sparse_rows
from erasable.core.layout import (
    LONGEST_HEADER,
    Buffer,
    Piece,
    check_format,
    check_size,
    digest_of,
    guarded,
    parse,
    parts,
    read_meta,
    read_rows,
    read_sealed,
    row_tensors,
)
from erasable.core.names import Key, key_tensors, kind_of, read_keys, subject_kind
from erasable.errors import ConfigurationError, ErasableError, StateFormatError, StoreError
from erasable.models.companions import erase_companion, erase_orphans, keep, orphans, take_kept
from erasable.models.configuration import stored_map
from erasable.models.inputs import ONE, uneven
from erasable.models.model import Model
from erasable.models.selections.leverage import read_grid
from erasable.models.state import State, is_sharded, layout_named
from erasable.store import LARGEST, PRIVATE, Writer, locked
from erasable.store import read as read_file

if TYPE_CHECKING:
    from erasable.models.model import Model

SHARD, VERSION = "erasable-shard", 1
_PATIENCE = 1.0  # seconds to wait for the lock of a model whose learner is to be kept
LARGEST_FILE = 200 * 2**20  # bytes of rows that still go into one file
LARGEST_SHARD = 16 * 2**20  # bytes of rows in a shard
_LARGE = 2**25  # bytes: a file of more is not read before its size was compared with its header
_HALF = re.compile(r"\.(.+)\.(?:new|old)", re.DOTALL)  # what an interrupted change leaves of a file
_KEYS = (("ids", "id_kind"), ("subjects", "subject_kind"))

Fetch = Callable[[str], Buffer]
#: Makes the model of a file's header, its bytes and a way to get at further files, with code that a file cannot hold.
Code = Callable[[dict[str, Any], Buffer, Fetch], Model]
FileMark = tuple[int, int, int]  # device, inode, time of the last write


@dataclass(frozen=True)
class Files:
    """What is to be written: the bytes of the head, and of further files by name, the SHA-256 of their bytes."""

    head: list[Piece]
    parts: dict[str, list[Piece]] = field(default_factory=dict)


def files_of(state: State) -> Files:
    """One file, the canonical bytes; for a state on a grid above ``LARGEST_FILE`` bytes of rows a head and shards.

    *Law*: a pure function of the state.
    """
    sizes = np.zeros(0, dtype=np.int64)
    if state.layout.shardable and state.configuration.selection.storage_grid is not None:
        sizes = row_sizes(state.rows, state.configuration.grid)
    if sizes.sum() <= LARGEST_FILE:
        return Files(state.pieces)
    order = np.empty(len(state.ids), dtype=np.int32)
    shards: dict[str, list[Piece]] = {}
    for k, index in enumerate(_runs(state.ids, sizes, LARGEST_SHARD)):
        order[index] = k
        pieces = _shard(state, index)
        shards[digest_of(pieces)] = pieces
    meta = {**state.header(), "format": state.layout.head_format, "shards": list(shards)}
    return Files(parts(meta, {**state.derived_tensors(), "order": ("I32", order)}), shards)


def from_files(head: Buffer, fetch: Fetch) -> State:
    """The state that a head, and the files it names, hold; ``fetch`` gives the bytes of one of these.

    ``fetch`` must check that the bytes match the name, as ``erasable.store`` does; this function checks their content.

    Raises StateFormatError when head and shards are not what :func:`files_of` gives for any state.
    """
    if not shards_of(head):
        return State.from_bytes(head)
    return guarded(head, lambda data: _gathered(data, fetch), lambda state: files_of(state).head)


def shards_of(head: Buffer) -> list[str]:
    """Names of the files that a head refers to; none for a state in one file, or for what is no head at all."""
    try:
        meta, _ = parse(head)
        names = meta["shards"] if is_sharded(meta) else []
        return [n for n in names if isinstance(n, str) and len(n) == 64 and not set(n) - set("0123456789abcdef")]
    except (StateFormatError, AttributeError, KeyError, RecursionError, TypeError, ValueError, OverflowError):
        return []


def _gathered(head: Buffer, fetch: Fetch) -> State:
    """The state of a head and its shards; its bytes are not compared with the head yet."""
    meta, tensors = parse(head)
    layout = layout_named(meta["format"])
    check_format(meta, layout.head_format, layout.version)
    if meta["shards"] != shards_of(head) or len(set(meta["shards"])) < len(meta["shards"]):
        raise StateFormatError("it names shards by something that is no SHA-256, or one of them twice.")
    order, grid = tensors["order"], read_grid(meta)
    n, labels = len(order), "targets" if "target_ranges" in meta else "labels"
    found = []
    for k, name in enumerate(meta["shards"]):
        places = np.flatnonzero(order == k)
        of_shard, inside = parse(fetch(name))
        check_format(of_shard, SHARD, VERSION)
        rows = read_rows(inside, grid)
        if not len(places) or not rows.shape[0] == len(inside[labels]) == len(places):
            raise StateFormatError("a shard does not fit its head.")
        found.append((places, rows, of_shard, inside))
    if sum(len(places) for places, *_ in found) != n or not found:
        raise StateFormatError("its rows are not all in its shards.")
    # Only here is anything as large as all rows made: so much has been read.
    whole = row_tensors(_in_order([(places, rows) for places, rows, *_ in found], grid), grid)
    like = found[0][3][labels]
    all_labels, weights = np.empty((n, *like.shape[1:]), dtype=like.dtype), np.full(n, ONE, dtype=np.int16)
    ids: list[Any] = [None] * n
    subjects: list[Any] = [None] * n
    for places, _, of_shard, inside in found:
        all_labels[places] = inside[labels]
        weights[places] = inside.get("row_weights", ONE)
        keys, owners = (read_keys(inside, what, of_shard[kind], len(places)) for what, kind in _KEYS)
        for i, key, owner in zip(places.tolist(), keys, owners, strict=True):
            ids[i], subjects[i] = key, owner
    named = {**key_tensors("ids", ids), **key_tensors("subjects", subjects), **whole}
    arrays = {name: np.asarray(array) for name, (_, array) in named.items()}
    if (of_rows := uneven(weights)) is not None:
        arrays["row_weights"] = of_rows
    others = {name: array for name, array in tensors.items() if name != "order"}
    return State.of_tensors({**meta, "format": layout.format}, {**others, **arrays, labels: all_labels})


def _in_order(parts: list[tuple[npt.NDArray[np.intp], Any]], grid: Grid) -> Matrix:
    """Rows of all parts, each of them at its place; sparse if those of any part are."""
    if any(sp.issparse(rows) for _, rows in parts):
        turn = np.argsort(np.concatenate([places for places, _ in parts]))
        joined = stacked([rows if sp.issparse(rows) else sparse_rows(rows, grid) for _, rows in parts])
        return laid_out(joined[turn], grid)
    found = np.empty((sum(len(places) for places, _ in parts), grid.n_columns), dtype=grid.dtype)
    for places, rows in parts:
        found[places] = rows
    return found


def _shard(state: State, index: list[int]) -> list[Piece]:
    """The bytes of a file with these rows, in the order in which they were learnt."""
    chosen = state.part(index)
    if state.configuration.head.classifies:  # numbers of classes are those of all rows
        head = state.configuration.head
        head = head if head.class_weight is None else replace(head, class_weight=None)
        chosen = replace(chosen, configuration=replace(state.configuration, classes=state.classes, head=head))
    meta = {
        "format": SHARD,
        "version": VERSION,
        "id_kind": kind_of(chosen.ids[0]),
        "subject_kind": subject_kind(chosen.subjects),
    }
    if sp.issparse(chosen.rows):  # else their shape says it
        meta["n_features"] = state.configuration.grid.n_features
    return parts(meta, chosen.named_rows())


def _runs(ids: Sequence[Key], sizes: Int64s, most: int) -> Iterator[list[int]]:
    """Positions of the rows of each shard, ascending; shards in the order of the hashes of their ids."""
    hashed = [int.from_bytes(hashlib.sha256(_plain(key)).digest()) for key in ids]
    waiting = [(list(range(len(ids))), 255)]
    while waiting:
        index, bit = waiting.pop()
        if len(index) <= 1 or sizes[np.array(index)].sum() <= most:
            if index:
                yield index
            continue
        waiting.append(([i for i in index if hashed[i] >> bit & 1], bit - 1))
        waiting.append(([i for i in index if not hashed[i] >> bit & 1], bit - 1))


def _plain(key: Key) -> bytes:
    """An id as bytes: a letter for its kind, then digits or text."""
    match key:
        case int():
            return b"i%d" % key
        case str():
            return b"s" + key.encode()
        case _:
            return b"b" + key


def read_model(path: str | os.PathLike[str], code: Code | None = None, *, cached: bool = True) -> tuple[Model, str]:
    """The model that a file holds, and the checksum of the file; with its fitted learner, if a companion has it."""

    def parsed(head: Buffer, fetch: Fetch) -> tuple[Model, str]:
        model = model_of(head, fetch, code)
        if cached:
            take_kept(path, model, head)
        return model, str(read_meta(head)["checksum"])

    with naming(path):
        refuse_odd_size(path)
        return read_file(path, parsed, parts_of=shards_of)


def model_of(head: Buffer, fetch: Fetch, code: Code | None = None) -> Model:
    """The model whose state has these bytes.

    Raises StateFormatError when the bytes are damaged, altered, of a newer version, or something else altogether.
    Raises ConfigurationError when code is needed that a file cannot hold, or is not what the file was made with.
    """
    meta = known_meta(head)
    if code is not None:
        return code(meta, head, fetch)
    layout = layout_named(meta["format"])
    if layout.needs is not None:
        read_sealed(head)  # a damaged file is not taken for one that needs code
        estimator, what = layout.needs
        raise ConfigurationError(
            f"this model needs {what} of the caller's, which a file cannot hold: load(path, like={estimator}(...)) "
            "with the parameters that it was made with."
        )
    state = read_kernel(meta, head, None) if "kernel" in meta else from_files(head, fetch)
    return Model.restore(state, stored_map(state.configuration))


def known_meta(head: Buffer) -> dict[str, Any]:
    """The metadata of a model, by bytes that begin with the header; before anything else is looked at.

    Raises StateFormatError when its format is not known, or it is of another version, which is named.
    """
    meta = read_meta(head)
    layout = layout_named(meta["format"])
    check_format(meta, meta["format"], layout.version)
    return meta


def needs_code(meta: dict[str, Any]) -> bool:
    """Whether a file with this header can only be read with code of the caller's."""
    return layout_named(meta["format"]).needs is not None or meta.get("kernel") == "custom"


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


@contextmanager
def locked_model(
    path: str | os.PathLike[str], timeout: float | None = None, *, managed_as: str | None = None
) -> Iterator[Writer]:
    """The only writer of a model file while the block runs: every program that may change one comes by here.

    Leftovers of interrupted changes are erased first, and fitted learners next to the file that belong to no file. A
    file that a program manages is refused, unless ``managed_as`` is the identity in its mark.
    """
    with locked(path, parts_of=shards_of, timeout=timeout, managed_as=managed_as) as writer:
        erase_orphans(writer.path)
        yield writer


def keep_learner(path: str | os.PathLike[str], model: Model, checksum: str) -> bool:
    """Write the fitted learner of a model to the companion of its file, unless the file has changed; whether it was.

    A folder that cannot be written to is no error.
    """

    def keep_for(head: bytes, _: object) -> bool:
        return read_meta(head)["checksum"] == checksum and keep(path, model, head)

    with suppress(ErasableError, OSError), locked_model(path, _PATIENCE) as writer:
        return writer.exists() and writer.read(keep_for)
    return False


def write(writer: Writer, files: Files, mode: int = PRIVATE) -> None:
    """Replace the content of the path by these files; refused if they could not be read again."""
    size = max(sum(memoryview(p).nbytes for p in pieces) for pieces in (files.head, *files.parts.values()))
    if size > LARGEST:
        raise StoreError(f"the model needs a file of {size:,} bytes; at most {LARGEST:,} are read: store fewer rows.")
    erase_companion(writer.path)  # first: a crash in between leaves the old model, and nothing of it elsewhere
    writer.replace(files.head, files.parts, mode=mode)


def checksum_of(files: Files) -> str:
    """The checksum in the header of what is to be written."""
    return str(read_meta(files.head[0])["checksum"])


def checksum_at(path: str | os.PathLike[str]) -> str | None:
    """The checksum in the header of what a path holds; None where that is no model of ours."""
    with suppress(StateFormatError, OSError):
        return str(read_meta(read_header(path)[0])["checksum"])
    return None


def left_behind(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Names of files next to a model file that hold something of a model which was renamed, removed or replaced.

    These are fitted learners that belong to no file, and what interrupted changes left of files that do not exist.
    """
    folder, names = os.path.dirname(os.path.realpath(path)), list[str]()
    with suppress(OSError):
        names = os.listdir(folder)
    halves = [found for name in names if (found := _HALF.fullmatch(name)) is not None]
    lost = [half[0] for half in halves if not os.path.lexists(os.path.join(folder, half[1]))]
    models = [name for name in lost if checksum_at(os.path.join(folder, name)) is not None]
    return tuple(os.fsencode(name).decode("utf-8", "backslashreplace") for name in sorted([*orphans(folder), *models]))


def mark_of(path: str | os.PathLike[str]) -> FileMark | None:
    """Which file a path holds, and when it was last written: nothing that depends on its bytes; None if none."""
    with suppress(OSError):
        facts = os.stat(path)
        return facts.st_dev, facts.st_ino, facts.st_mtime_ns
    return None


def read_header(path: str | os.PathLike[str]) -> tuple[bytes, os.stat_result]:
    """The header of a file, unless it is too long, and what the system says of the file; of a pipe nothing."""
    with open(path, "rb", opener=_without_waiting) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            return b"", facts
        length = file.read(8)
        return length + file.read(min(int.from_bytes(length, "little"), LONGEST_HEADER)), facts


def refuse_odd_size(path: str | os.PathLike[str]) -> None:
    """Refuse a large file that is longer or shorter than its header says, before all of it is read.

    Raises StateFormatError.
    """
    with suppress(OSError):  # reading the file raises the error
        head, facts = read_header(path)
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
