"""Durable files: one path holds one model. A change replaces the whole file and erases the old one.

A path holds a *head* and, for very large models, *parts*: files named by the SHA-256 of their bytes, in a hidden folder
next to it. :func:`read` returns the present content and never waits. :func:`locked` returns a :class:`Writer`, one at a
time over all threads and processes. Its ``replace`` returns only when the new content is durable and the old one is
overwritten and removed. A crash at any moment leaves the content from before or the content from after, and the next
process that opens the path erases what is left of the other. A :class:`Journal` is a file that records are appended to.

This relies on an atomic rename, an honest fsync, and a file system that overwrites in place. On file systems that write
copies (Btrfs, ZFS, F2FS, APFS, snapshots) or journal data (ext4 with ``data=journal``), and on drives that remap blocks
(SSDs), the old bytes have no name any more but may stay on the medium until their blocks are used again.
:func:`doubt_about_blocks` reports this where it can be detected. Without hard links (FAT), a crash between the rename
and the overwriting leaves the old blocks without a name. Files are written on Linux and macOS. On Windows
they can be read; every attempt to write is refused with a message, before anything is created.
"""

from __future__ import annotations

from erasable.store._appending import (
    Contents,
    Journal,
    Position,
    Record,
    journal_key,
    read_journal,
    read_record,
    rewrite_journal,
)
from erasable.store._caches import erase_cache, read_cache, write_cache
from erasable.store._disk import (
    NOT_KNOWN,
    REAL_DISK,
    REASONS,
    BlockDoubt,
    Disk,
    check_mode,
    check_private,
    doubt_about_blocks,
    in_words,
)
from erasable.store._files import LIMIT as LARGEST
from erasable.store._files import (
    Fetch,
    Parse,
    PartsOf,
    SideFiles,
    check_room,
    check_timeout,
    check_writable,
    side_files,
)
from erasable.store._marks import HeldMark, Mark, set_mark
from erasable.store._texts import half_written, replaced_text, write_text
from erasable.store._writing import PRIVATE, Writer, locked, read

__all__ = [
    "LARGEST",
    "NOT_KNOWN",
    "PRIVATE",
    "REAL_DISK",
    "REASONS",
    "BlockDoubt",
    "Contents",
    "Disk",
    "Fetch",
    "HeldMark",
    "Journal",
    "Mark",
    "Parse",
    "PartsOf",
    "Position",
    "Record",
    "SideFiles",
    "Writer",
    "check_mode",
    "check_private",
    "check_room",
    "check_timeout",
    "check_writable",
    "doubt_about_blocks",
    "erase_cache",
    "half_written",
    "in_words",
    "journal_key",
    "locked",
    "read",
    "read_cache",
    "read_journal",
    "read_record",
    "replaced_text",
    "rewrite_journal",
    "set_mark",
    "side_files",
    "write_cache",
    "write_text",
]
