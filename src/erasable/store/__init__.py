"""Bytes that last: one path holds one model, replaced as a whole, and what it replaces is erased.

A path holds a *head* and, for very large models, *parts*: files named by the SHA-256 of their bytes, in a hidden folder
beside it. :func:`read` gives what is there, and is never blocked. :func:`locked` gives a :class:`Writer`, one at a time
over all threads and processes, whose ``replace`` returns only when the new content is durable and the old one
overwritten and gone. A crash at any moment leaves the content from before or that from after, and whoever opens the
path next erases what is left of the other. A :class:`Journal` is a file that records are appended to.

What it rests on: a rename that is atomic, an fsync that means it, and a file system that overwrites in place. On one
that writes copies (Btrfs, ZFS, F2FS, APFS, snapshots) or journals data (ext4 with ``data=journal``), or on a drive that
remaps (SSDs), the old bytes have no name any more but may stay on the medium until their blocks are used again:
:func:`doubt_about_blocks` says so where it can be seen. Without hard links (FAT) a crash between the rename and
the overwriting leaves the old blocks without a name. On Windows models can be read, not written.
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
from erasable.store._disk import REAL_DISK, Disk, doubt_about_blocks
from erasable.store._files import LIMIT as LARGEST
from erasable.store._files import Fetch, Parse, SideFiles, check_mode, check_private, side_files
from erasable.store._opening import check_timeout, locked, read
from erasable.store._texts import half_written, replaced_text, write_text
from erasable.store._writing import PRIVATE, PartsOf, Writer

__all__ = [
    "LARGEST",
    "PRIVATE",
    "REAL_DISK",
    "Contents",
    "Disk",
    "Fetch",
    "Journal",
    "Parse",
    "PartsOf",
    "Position",
    "Record",
    "SideFiles",
    "Writer",
    "check_mode",
    "check_private",
    "check_timeout",
    "doubt_about_blocks",
    "half_written",
    "journal_key",
    "locked",
    "read",
    "read_journal",
    "read_record",
    "replaced_text",
    "rewrite_journal",
    "side_files",
    "write_text",
]
