"""A writer killed at any step, on the real file system: wholly before or wholly after, and nothing left over."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys

import pytest

from erasable import store
from erasable.errors import StoreError
from tests.store import child, killing
from tests.store.child import AFTER, BEFORE, parts_of
from tests.store.other_users import ACL, EVE, acl

CASES = [("python", "replace-parts"), ("python", "remove"), ("strace", "replace"), ("strace", "replace-parts")]


def series(how, action, path, prepare):
    program = [sys.executable, child.__file__, action, str(path)]
    if how == "strace":
        if killing.strace_trouble():
            pytest.skip(killing.strace_trouble())
        return killing.by_strace([*program, "0"], prepare)
    return {"step": lambda n: [*program, str(n)]}


@pytest.mark.parametrize(("how", "action"), CASES)
def test_a_killed_writer_leaves_before_or_after(tmp_path, how, action):
    folder, start = tmp_path / "now", tmp_path / "start"
    path = folder / "m.erasable"
    parts = action != "replace"
    folder.mkdir()
    child.put(path, BEFORE, parts=parts)
    share(path)
    access = access_to(path)
    folder.rename(start)
    outcomes = set()

    def prepare():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(start, folder)

    def check(acknowledged, where):
        got = [read(path)]
        left = set(expected(path, got[0])) | {f".{path.name}.lock"} & set(names(folder))  # an empty lock may stay
        assert set(names(folder)) == left, where  # a reader erases what it can
        if acknowledged:
            assert holding(folder, BEFORE) == [], where
        with store.locked(path, parts_of=parts_of):
            pass
        got.append(read(path))
        assert not path.exists() or access_to(path) == access, where
        before, after = whole(BEFORE, parts), None if action == "remove" else whole(AFTER, parts)
        assert got[0] == got[1], where
        assert got[1] in ([after] if acknowledged else [before, after]), where
        other = BEFORE if got[1] == after else AFTER
        assert holding(folder, other) == [], where
        assert sorted(names(folder)) == sorted(expected(path, got[1])), where
        outcomes.add((got[1] == after, acknowledged))

    kills = killing.sweep(series(how, action, path, prepare), prepare, check)
    assert kills >= 8
    assert outcomes == {(False, False), (True, False), (True, True)}


def share(path):
    """Somebody else may read it too, and somebody left a note; where the file system can say so."""
    path.chmod(0o640)
    listed = acl(("user", 6), ("named user", 4, EVE), ("group", 6), ("mask", 4), ("others", 0))
    for name, value in ((ACL, listed), ("user.note", b"keep me")):
        with contextlib.suppress(OSError, AttributeError):
            os.setxattr(path, name, value)


def access_to(path):
    names = os.listxattr(path) if hasattr(os, "listxattr") else []
    return path.stat().st_mode, {name: os.getxattr(path, name) for name in names}


def read(path):
    try:
        return store.read(path, child.whole, parts_of=parts_of)
    except StoreError:
        assert not path.exists()
        return None


def whole(mark, parts):
    head, named = child.content(mark, parts=parts)
    return head, [b"".join(data) for data in named.values()]


def names(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def expected(path, got):
    if got is None:
        return []
    return [f".{path.name}.lock", path.name, *(f".{path.name}.parts/{n}" for n in parts_of(got[0]))]


def holding(folder, mark):
    return [p.name for p in folder.rglob("*") if p.is_file() and mark in p.read_bytes()]
