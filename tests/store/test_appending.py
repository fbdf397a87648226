"""A journal holds the records that were acknowledged, whatever cut short the others, or says that it is damaged."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import InputError, StoreError
from erasable.store import Journal, read_journal, read_record, rewrite_journal
from tests.store.simulated import File, SimulatedDisk

RECORDS = [{"n": n, "text": "x @" * 20 * n} for n in range(4)]
KEY = b"k" * 32


def contents(path, disk=None, key=KEY):
    options = {} if disk is None else {"disk": disk}
    return [record.content for record in read_journal(path, key, **options)]


def disk_with(data):
    disk = SimulatedDisk(largest_write=10_000)
    disk._new(File(durable=data, current=data), "/j")
    return disk


def written():
    """A journal of three pieces, the second of which has two records, and where they begin."""
    disk = SimulatedDisk(largest_write=10_000)
    journal, starts = Journal("/j", KEY, disk=disk), []
    for records in (RECORDS[:1], RECORDS[1:3], RECORDS[3:]):
        starts.append(journal.at.end)
        journal.append(records)
    return disk.named()["/j"], [*starts, journal.at.end]


def test_records_come_back_in_order_and_by_place(tmp_path):
    journal = Journal(tmp_path / "j", KEY)
    places = journal.append(RECORDS[:3])
    places += journal.append(RECORDS[3:])
    journal.close()
    assert contents(tmp_path / "j") == RECORDS
    assert [read_record(tmp_path / "j", place) for place in places] == RECORDS
    assert list(read_journal(tmp_path / "j", KEY)) == places
    assert os.stat(tmp_path / "j").st_mode & 0o777 == 0o600
    assert contents(tmp_path / "no such file") == []
    (tmp_path / "j").write_bytes((tmp_path / "j").read_bytes().replace(b"x @", b"y @"))
    with pytest.raises(StoreError, match="damaged"):
        read_record(tmp_path / "j", places[1])


def test_a_closed_journal_writes_into_no_other_file(tmp_path):
    journal = Journal(tmp_path / "j", KEY)
    journal.close()
    with open(tmp_path / "other", "wb") as other:  # it has the number that the journal had
        with pytest.raises(StoreError):
            journal.append(RECORDS)
        journal.close()
        other.write(b"whole")
    assert (tmp_path / "other").read_bytes() == b"whole"


def test_another_process_goes_on_where_the_last_one_stopped(tmp_path):
    at = None
    for record in RECORDS:
        journal = Journal(tmp_path / "j", KEY, at=at)
        journal.append([record])
        journal.close()
        at = journal.at if record["n"] % 2 else None
    assert contents(tmp_path / "j") == RECORDS
    assert read_journal(tmp_path / "j", KEY).at == journal.at
    with pytest.raises(InputError, match="another key"):
        contents(tmp_path / "j", key=b"x" * 32)


@pytest.mark.parametrize("changed", ["removed", "replaced", "longer", "shorter"])
def test_a_file_that_another_program_changes_takes_no_more(tmp_path, changed):
    journal = Journal(tmp_path / "j", KEY)
    journal.append(RECORDS)
    data = (tmp_path / "j").read_bytes()
    if changed in ("removed", "replaced"):
        (tmp_path / "j").unlink()
    if changed != "removed":
        (tmp_path / "j").write_bytes({"longer": data + b"x", "shorter": data[:-1]}.get(changed, data))
    with pytest.raises(StoreError, match="another program"):
        journal.append(RECORDS)
    with pytest.raises(StoreError):
        Journal(tmp_path / "j", KEY, at=journal.at._replace(size=journal.at.size + 3))


def test_every_flipped_bit_is_refused_or_spoils_no_record():
    data, _ = written()
    whole = 0
    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            try:
                assert contents("/j", disk_with(bytes(flipped))) == RECORDS
                whole += 1
            except (StoreError, InputError):
                pass
    assert whole <= 3 * 8  # the line breaks


def test_every_flipped_bit_of_an_old_journal_is_refused_or_spoils_no_record():
    records = [*RECORDS[:3], {"n": 3, "text": "{a} {b}"}]
    texts = [json.dumps(record).encode() for record in records]
    data = b"".join(b"\n%s %s\n" % (hashlib.sha256(text).hexdigest()[:16].encode(), text) for text in texts)
    for place, bit in itertools.product(range(1, len(data)), range(8)):  # the first byte tells the format
        flipped = data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
        with contextlib.suppress(StoreError, InputError):
            assert contents("/j", disk_with(flipped)) == records, (place, bit)
    for cut in range(data.rindex(b"\n", 0, -1), len(data) - 1):  # an end, or blocks, that did not reach the medium
        assert contents("/j", disk_with(data[:cut])) in (records[:3], records)
        assert contents("/j", disk_with(data[:cut].ljust(len(data), b"\0") + data)) in (
            records[:3] + records,
            2 * records,
        )


def test_pieces_removed_repeated_swapped_or_from_elsewhere_are_refused():
    data, starts = written()
    pieces = [data[start:end] for start, end in pairwise(starts)]
    for order in itertools.product(range(3), repeat=3), itertools.product(range(3), repeat=2), [(0, 0, 1, 2)]:
        for kept in order:
            disk = disk_with(b"".join(pieces[i] for i in kept))
            if kept in ((0, 1, 2), (0, 1)):  # what is cut off at the end shows by how many there were
                assert read_journal("/j", KEY, disk=disk).had(2, journal_at(data, 2).mac)
                assert read_journal("/j", KEY, disk=disk).had(*journal_at(data, 3)[:2]) == (len(kept) == 3)
            else:
                with pytest.raises((StoreError, InputError)):
                    contents("/j", disk)


def journal_at(data, pieces):
    """The position of a journal after so many pieces."""
    starts = [i for i, byte in enumerate(data) if byte == 0x1E] + [len(data)]
    return read_journal("/j", KEY, disk=disk_with(data[: starts[pieces]])).at


@given(cut=st.integers(0, 400), zeros=st.integers(0, 200))
def test_what_was_cut_short_is_none_and_spoils_no_other(cut, zeros):
    data, starts = written()
    left = data[: max(len(data) - cut, 0)]
    disk = disk_with(left + b"\0" * zeros)
    Journal("/j", KEY, disk=disk).append([{"last": True}])
    last = len(left) + (zeros < 2)  # the last line break may lack, or be another byte
    whole = [1, 3, 4][: sum(end <= last for end in starts[1:])][-1:]
    assert contents("/j", disk) == [*RECORDS[: whole[0] if whole else 0], {"last": True}]


def test_a_loss_of_power_at_any_step_leaves_what_was_acknowledged():
    acknowledged: list[dict] = []
    moments = []

    def remember(disk: SimulatedDisk) -> None:
        moments.append((disk.copy(), list(acknowledged)))

    disk = SimulatedDisk(after_step=remember)
    journal = Journal("/j", KEY, disk=disk)
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
    journal = Journal("/j", KEY, disk=disk)
    with pytest.raises(StoreError, match="the disk is full"):
        journal.append([{"n": 1}])
    full = False
    (place,) = journal.append([{"n": 2}])
    assert contents("/j", disk) == [{"n": 2}]
    assert read_record("/j", place, disk=disk) == {"n": 2}


def test_what_an_fsync_refused_does_not_count_once_something_else_was_appended(monkeypatch):
    """It is whole in the file, and may be gone after a loss of power: what comes next does not rest on it."""
    disk = SimulatedDisk(largest_write=10_000)
    journal = Journal("/j", KEY, disk=disk)
    for good, failed in ((0, 1), (2, 3)):
        journal.append([RECORDS[good]])

        def fails(descriptor):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(disk, "fsync", fails)
            with pytest.raises(StoreError):
                journal.append([RECORDS[failed]])
        assert contents("/j", disk)[-1] == RECORDS[failed]
    journal.append([{"last": True}])
    assert contents("/j", disk) == [RECORDS[0], RECORDS[2], {"last": True}]
    assert read_journal("/j", KEY, disk=disk).at == journal.at


def test_rewriting_erases_what_is_not_kept(tmp_path):
    journal = Journal(tmp_path / "j", KEY)
    journal.append([{"who": "canary-1"}, {"who": "other"}])
    journal.close()
    rewrite_journal(tmp_path / "j", KEY, lambda record: record["who"] == "other")
    assert contents(tmp_path / "j") == [{"who": "other"}]
    found = read_journal(tmp_path / "j", KEY)
    assert found.at.pieces == 2
    assert found.had(1, journal.at.mac)
    assert not found.had(1, "f" * 32)
    Journal(tmp_path / "j", KEY).append([{"who": "more"}])
    assert contents(tmp_path / "j") == [{"who": "other"}, {"who": "more"}]
    assert all(b"canary-1" not in path.read_bytes() for path in tmp_path.iterdir())


def test_a_link_or_a_folder_is_refused(tmp_path):
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("link", "folder"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(StoreError):
            Journal(tmp_path / name, KEY)


def test_a_journal_that_cannot_be_made_durable_leaves_nothing_open(monkeypatch):
    disk = SimulatedDisk()
    Journal("/j", KEY, disk=disk).close()

    def fails(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for path in ("/j", "/new"):
        with monkeypatch.context() as patch:
            patch.setattr(disk, "fsync_folder", fails)
            with pytest.raises(StoreError, match="could not open"):
                Journal(path, KEY, disk=disk)
        assert not any(inode for inode, _ in disk.open_files.values())
