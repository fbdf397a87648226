"""What is refused, in words, before anything is touched; and what is kept."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading

import pytest

from erasable import store
from erasable.errors import ConfigurationError, NotErasedError, StateFormatError, StoreError
from tests.store import child
from tests.store.child import AFTER, BEFORE, parts_of


def raw(head, fetch):
    return head


def write(path, data=b"new", **options):
    with store.locked(path, **options) as writer:
        writer.replace([data])


def listing(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_symbolic_link_is_read_through_but_not_written(tmp_path, target):
    (tmp_path / "there").write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / target)
    with pytest.raises(StoreError, match="symbolic link: give the real path") as caught:
        write(link)
    assert caught.value.errno == errno.ELOOP
    assert listing(tmp_path) == ["link", "there"]
    assert (tmp_path / "there").read_bytes() == b"old"
    if target == "there":
        assert store.read(link, raw) == b"old"


def test_parts_are_found_beside_the_real_file(tmp_path):
    (tmp_path / "a").mkdir()
    child.put(tmp_path / "a" / "m", BEFORE, parts=True)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a" / "m")
    assert len(store.read(link, child.whole)[1]) == 2


def test_a_second_name_of_the_file_is_not_destroyed(tmp_path):
    path, other = tmp_path / "m", tmp_path / "backup"
    write(path, b"old")
    os.link(path, other)
    for act in (lambda w: w.replace([b"new"]), lambda w: w.remove()):
        with store.locked(path) as writer, pytest.raises(StoreError, match="another name") as caught:
            act(writer)
        assert caught.value.errno == errno.EMLINK
        assert path.read_bytes() == other.read_bytes() == b"old"
        assert listing(tmp_path) == [".m.lock", "backup", "m"]


def test_a_second_name_of_a_part_is_not_destroyed(tmp_path):
    path = tmp_path / "m"
    child.put(path, BEFORE, parts=True)
    name, data = child.part(BEFORE)
    os.link(store.side_files(path).parts / name, tmp_path / "backup")
    with pytest.raises(StoreError, match="another name"):
        child.put(path, AFTER, parts=True)
    assert (tmp_path / "backup").read_bytes() == data
    assert store.read(path, child.whole)[1][0] == data


def test_a_second_name_given_while_the_change_is_under_way_is_not_destroyed(tmp_path):
    path, other = tmp_path / "m", tmp_path / "backup"
    write(path, b"old")

    class Backup(store.Disk):
        def rename(self, source, target):
            os.link(target, other)
            super().rename(source, target)

    with pytest.raises(NotErasedError, match=r"another name.*in place and durable"):
        write(path, disk=Backup())
    assert (path.read_bytes(), other.read_bytes()) == (b"new", b"old")
    with pytest.raises(StoreError, match="another name"):
        write(path)
    other.unlink()
    write(path, b"newer")
    assert listing(tmp_path) == [".m.lock", "m"]


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_refused_without_waiting(tmp_path, kind):
    path = tmp_path / "m"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    message = "not a plain file" if kind == "pipe" else "is a folder"
    with pytest.raises(StoreError, match=message):
        store.read(path, raw)
    with pytest.raises(StoreError, match=message):
        write(path)
    assert listing(tmp_path) == ["m"]


def test_a_missing_file_or_folder_is_said(tmp_path):
    with pytest.raises(StoreError, match="does not exist") as caught:
        store.read(tmp_path / "m", raw)
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(StoreError, match="make the folder first"):
        write(tmp_path / "nowhere" / "m")
    with store.locked(tmp_path / "m") as writer:
        assert not writer.exists()
        with pytest.raises(StoreError, match="nothing to remove"):
            writer.remove()
        with pytest.raises(StoreError, match="does not exist"):
            writer.read(raw)


@pytest.mark.parametrize("name", ["x" * 252, "a\0b", "plain/m"])
def test_names_that_cannot_be_are_refused(tmp_path, name):
    (tmp_path / "plain").touch()
    with pytest.raises(StoreError):
        write(tmp_path / name)
    with pytest.raises(StoreError):
        store.read(tmp_path / name, raw)


def test_a_read_only_folder_is_said_and_can_be_read(tmp_path):
    write(tmp_path / "m", b"old")
    store.side_files(tmp_path / "m").lock.unlink()
    tmp_path.chmod(0o500)
    try:
        if os.access(tmp_path, os.W_OK, effective_ids=True):
            pytest.skip("this user may write to read-only folders")
        with pytest.raises(StoreError, match="permission was denied"):
            write(tmp_path / "m")
        assert store.read(tmp_path / "m", raw) == b"old"
        assert listing(tmp_path) == ["m"]
    finally:
        tmp_path.chmod(0o700)


def test_a_read_only_file_is_said_and_kept(tmp_path):
    path = tmp_path / "m"
    write(path, b"old")
    path.chmod(0o400)
    if os.access(path, os.W_OK, effective_ids=True):
        pytest.skip("this user may write to read-only files")
    with pytest.raises(StoreError, match=r"permission was denied\. The file is as it was"):
        write(path)
    assert path.read_bytes() == b"old"
    assert listing(tmp_path) == [".m.lock", "m"]


def test_leftovers_in_a_folder_that_cannot_be_written_do_not_stop_a_reader(tmp_path):
    path = tmp_path / "m"
    write(path, b"old")
    side = store.side_files(path)
    side.new.write_bytes(b"half")

    class ReadOnly(store.Disk):
        def open_lock(self, path):
            raise OSError(errno.EROFS, "read-only", path)

    assert store.read(path, raw, disk=ReadOnly()) == b"old"
    assert side.new.exists()
    assert store.read(path, raw) == b"old"
    assert not side.new.exists()


def test_a_reader_that_cannot_finish_the_cleaning_leaves_it_to_others(tmp_path):
    path = tmp_path / "m"
    child.put(path, BEFORE, parts=True)
    side = store.side_files(path)
    side.new.write_bytes(b"half")
    store.read(path, raw)
    assert side.new.exists()
    side.lock.unlink()
    store.read(path, raw, parts_of=parts_of)
    assert side.new.exists()
    assert not side.lock.exists()
    with store.locked(path):
        pass
    assert not side.new.exists()


def test_a_program_that_takes_no_lock_is_noticed(tmp_path):
    path = tmp_path / "m"
    write(path, b"old")

    class Careless(store.Disk):
        def link(self, source, target):
            (tmp_path / "foreign").write_bytes(b"foreign")
            os.replace(tmp_path / "foreign", source)
            super().link(source, target)

    with pytest.raises(StoreError, match="does not take the lock"):
        write(path, disk=Careless())
    assert path.read_bytes() == b"foreign"
    assert listing(tmp_path) == [".m.lock", "m"]


def test_the_only_copy_is_never_erased(tmp_path):
    path = tmp_path / "m"
    old = store.side_files(path).old
    old.write_bytes(b"perhaps all that is left")
    for use in (write, lambda path: store.read(path, raw)):
        with pytest.raises(StoreError, match=r"is missing but .*\.m\.old exists.*Rename it"):
            use(path)
    assert old.read_bytes() == b"perhaps all that is left"


def test_links_under_our_names_are_removed_and_not_followed(tmp_path):
    path = tmp_path / "m"
    write(path, b"old")
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    side = store.side_files(path)
    side.new.symlink_to(victim)
    side.old.symlink_to(victim)
    write(path)
    assert victim.read_bytes() == b"precious"
    assert listing(tmp_path) == [".m.lock", "m", "victim"]
    side.lock.unlink()
    side.lock.symlink_to(victim)
    with pytest.raises(StoreError, match="symbolic link"):
        write(path)
    side.lock.unlink()
    side.parts.symlink_to(tmp_path)
    with pytest.raises(StoreError, match="not a folder"):
        write(path)


def test_parts_of_a_head_that_cannot_be_read_are_kept(tmp_path):
    path = tmp_path / "m"
    child.put(path, BEFORE, parts=True)

    def parts_of(head):
        raise StateFormatError("not mine")

    with store.locked(path, parts_of=parts_of):
        pass
    with store.locked(path):
        pass
    assert len(store.read(path, child.whole)[1]) == 2


def test_an_altered_a_missing_and_a_foreign_part_are_told_apart(tmp_path):
    path = tmp_path / "m"
    child.put(path, BEFORE, parts=True)
    name, data = child.part(BEFORE)
    part = store.side_files(path).parts / name
    part.write_bytes(data[:-1] + b"?")
    with pytest.raises(StateFormatError, match="altered"):
        store.read(path, child.whole)
    part.unlink()
    with pytest.raises(StoreError, match="must be copied with it"):
        store.read(path, child.whole)
    for foreign in ("../m", "0" * 63, "A" * 64, "0" * 64 + "\n"):
        with pytest.raises(StateFormatError, match="64 hexadecimal"):
            store.read(path, lambda head, fetch, foreign=foreign: fetch(foreign))


def test_files_that_are_not_ours_stay_in_the_folder_of_parts(tmp_path):
    path = tmp_path / "m"
    child.put(path, BEFORE, parts=True)
    mine = store.side_files(path).parts / "notes"
    mine.write_text("mine")
    write(path, parts_of=parts_of)
    assert listing(mine.parent) == ["notes"]


def test_more_bytes_than_allowed_are_not_read(tmp_path):
    path = tmp_path / "m"
    write(path, b"12345")
    assert store.read(path, raw, limit=5) == b"12345"
    with pytest.raises(StoreError, match="at most 4"):
        store.read(path, raw, limit=4)
    os.truncate(path, 1 << 40)
    with pytest.raises(StoreError, match="larger than expected"):
        store.read(path, raw)


def test_a_file_that_grows_while_it_is_read_has_an_end(tmp_path):
    path = tmp_path / "m"
    write(path, b"12345")

    class Growing(store.Disk):
        def read(self, descriptor, size):
            return b"x" * min(size, 3)

    with pytest.raises(StoreError, match="grows"):
        store.read(path, raw, limit=100, disk=Growing())


def test_wrong_use_is_refused(tmp_path):
    path = tmp_path / "m"
    for timeout in (-1, float("nan"), float("inf")):
        with pytest.raises(ConfigurationError, match="timeout"), store.locked(path, timeout=timeout):
            pass
    with store.locked(path) as writer, pytest.raises(ConfigurationError, match="parts_of"):
        writer.replace([b"head"], {hashlib.sha256(b"p").hexdigest(): [b"p"]})
    with pytest.raises(StoreError, match="not held any more"):
        writer.replace([b"late"])
    assert listing(tmp_path) == []


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_permissions_are_kept(tmp_path, mode):
    path = tmp_path / "m"
    write(path, b"old")
    path.chmod(mode)
    child.put(path, AFTER, parts=True)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert {stat.S_IMODE(p.stat().st_mode) for p in store.side_files(path).parts.iterdir()} == {mode}


def test_the_old_bytes_are_overwritten_on_the_real_disk(tmp_path):
    path = tmp_path / "m"
    child.put(path, BEFORE, parts=True)
    size = 2 * (1 << 20) + 17
    with store.locked(path, parts_of=parts_of) as writer:
        writer.replace([BEFORE * (size // len(BEFORE)), memoryview(bytearray(5)).cast("B")])
    with path.open("rb") as old:
        write(path)
        assert not any(old.read())
        assert old.tell() > 1 << 20
    with path.open("rb") as old:
        with store.locked(path) as writer:
            writer.remove()
        assert old.read() == bytes(3)
    assert listing(tmp_path) == []


def test_parts_of_a_head_that_was_moved_are_kept(tmp_path):
    """They may be all that is left of a model: whoever moved the head is asked."""
    path = tmp_path / "m"
    part = b"rows of many people"
    name = hashlib.sha256(part).hexdigest()

    def parts_of(head):
        return [name]

    with store.locked(path, parts_of=parts_of) as writer:
        writer.replace([b"head"], {name: [part]})
    path.rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="missing but its parts exist"), store.locked(path, parts_of=parts_of):
        raise AssertionError("not reached")
    assert (tmp_path / ".m.parts" / name).read_bytes() == part
    (tmp_path / "moved").rename(path)
    assert store.read(path, lambda head, fetch: (head, fetch(name)), parts_of=parts_of) == (b"head", part)


def test_a_change_that_never_came_about_leaves_no_lock_file(tmp_path):
    path = tmp_path / "m"
    with pytest.raises(ZeroDivisionError), store.locked(path):
        raise ZeroDivisionError
    assert listing(tmp_path) == []


def test_the_lock_file_stays_where_something_has_to_be_cleaned_up(tmp_path):
    """A reader cleans up only where there is one."""
    path = tmp_path / "m"
    for left in (store.side_files(path).new, store.side_files(path).old):
        with store.locked(path):
            left.write_bytes(b"half")
        assert listing(tmp_path) == sorted([".m.lock", left.name])
        left.unlink()
        store.side_files(path).lock.unlink()


def test_whoever_waited_for_a_lock_file_that_was_removed_is_alone(tmp_path):
    path = tmp_path / "m"
    inside, most = [], []
    start = threading.Barrier(8)

    def work():
        start.wait()
        for _ in range(50):
            with store.locked(path):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 400
    assert max(most) == 1
    assert listing(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_does_not_remove_the_lock_file(tmp_path):
    path = tmp_path / "m"
    block = store.locked(path)
    with block:
        pid = os.fork()
        if pid == 0:
            try:
                block.__exit__(None, None, None)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert listing(tmp_path) == [".m.lock"]
