"""A journal holds the records that were acknowledged, whatever cut short the others."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import StoreError
from erasable.store import Journal, read_journal, read_record, rewrite_journal
from tests.store.simulated import File, SimulatedDisk

RECORDS = [{"n": n, "text": "x" * 40 * n} for n in range(4)]


def contents(path, disk=None):
    options = {} if disk is None else {"disk": disk}
    return [record.content for record in read_journal(path, **options)]


def test_records_come_back_in_order_and_by_place(tmp_path):
    journal = Journal(tmp_path / "j")
    places = journal.append(RECORDS[:3])
    places += journal.append(RECORDS[3:])
    journal.close()
    assert contents(tmp_path / "j") == RECORDS
    assert [read_record(tmp_path / "j", *place) for place in places] == RECORDS
    assert [(r.start, r.end) for r in read_journal(tmp_path / "j")] == [(start + 1, end) for start, end in places]
    assert os.stat(tmp_path / "j").st_mode & 0o777 == 0o600
    assert contents(tmp_path / "no such file") == []


def test_a_closed_journal_writes_into_no_other_file(tmp_path):
    journal = Journal(tmp_path / "j")
    journal.close()
    with open(tmp_path / "other", "wb") as other:  # it has the number that the journal had
        with pytest.raises(StoreError):
            journal.append(RECORDS)
        journal.close()
        other.write(b"whole")
    assert (tmp_path / "other").read_bytes() == b"whole"


def test_another_process_goes_on_where_the_last_one_stopped(tmp_path):
    for record in RECORDS:
        journal = Journal(tmp_path / "j")
        journal.append([record])
        journal.close()
    assert contents(tmp_path / "j") == RECORDS


@given(cut=st.integers(0, 400), flipped=st.integers(0, 10_000))
def test_what_was_cut_short_or_altered_is_none_and_spoils_no_other(cut, flipped):
    written = SimulatedDisk()
    places = Journal("/j", disk=written).append(RECORDS)
    data = bytearray(written.named()["/j"])
    data[flipped % len(data)] ^= 1
    left = bytes(data[: len(data) - cut])
    disk = SimulatedDisk()
    disk._new(File(durable=left, current=left), "/j")
    Journal("/j", disk=disk).append([{"last": True}])
    whole = [r for r, (_, end) in zip(RECORDS, places, strict=True) if end - 1 <= len(left)]  # the last break may lack
    found = contents("/j", disk)
    assert found[-1] == {"last": True}
    assert all(record in whole for record in found[:-1])
    assert len(found) - 1 >= len(whole) - 2  # a line break that was altered joins two lines


def test_a_loss_of_power_at_any_step_leaves_what_was_acknowledged():
    acknowledged: list[dict] = []
    moments = []

    def remember(disk: SimulatedDisk) -> None:
        moments.append((disk.copy(), list(acknowledged)))

    disk = SimulatedDisk(after_step=remember)
    journal = Journal("/j", disk=disk)
    for record in RECORDS[:3]:
        journal.append([record])
        acknowledged.append(record)
    states = 0
    for moment, known in moments:
        for after in moment.crash_states():
            found = contents("/j", after)
            assert found[: len(known)] == known
            assert found == RECORDS[: len(found)]
            states += 1
    assert states > 20


def test_a_full_disk_is_told_and_the_next_record_counts():
    full = True

    def refuse(name: str, path: str) -> None:
        if full and name == "write":
            raise OSError(errno.ENOSPC, "full")

    disk = SimulatedDisk(before_call=refuse, largest_write=20)
    journal = Journal("/j", disk=disk)
    with pytest.raises(StoreError, match="the disk is full"):
        journal.append([{"n": 1}])
    full = False
    (place,) = journal.append([{"n": 2}])
    assert contents("/j", disk) == [{"n": 2}]
    assert read_record("/j", *place, disk=disk) == {"n": 2}


def test_rewriting_erases_what_is_not_kept(tmp_path):
    journal = Journal(tmp_path / "j")
    journal.append([{"who": "canary-1"}, {"who": "other"}])
    journal.close()
    rewrite_journal(tmp_path / "j", lambda record: record["who"] == "other")
    assert contents(tmp_path / "j") == [{"who": "other"}]
    assert all(b"canary-1" not in path.read_bytes() for path in tmp_path.iterdir())


def test_a_link_or_a_folder_is_refused(tmp_path):
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("link", "folder"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(StoreError):
            Journal(tmp_path / name)


def test_a_journal_that_cannot_be_made_durable_leaves_nothing_open(monkeypatch):
    disk = SimulatedDisk()
    Journal("/j", disk=disk).close()

    def fails(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for path in ("/j", "/new"):
        with monkeypatch.context() as patch:
            patch.setattr(disk, "fsync_folder", fails)
            with pytest.raises(StoreError, match="could not open"):
                Journal(path, disk=disk)
        assert not any(inode for inode, _ in disk.open_files.values())
