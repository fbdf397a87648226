"""A model kept in a file: durable, shared by threads and processes, and as it was when something fails."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from erasable import CoreSetUnlearner, ErasableClassifier, ErasableKernelClassifier, ModelFile, load
from erasable.audit.keys import new_key
from erasable.audit.receipts import check_receipt, check_state
from erasable.coresets import RandomSubsample
from erasable.errors import (
    BusyError,
    ConfigurationError,
    InputError,
    InputTypeError,
    StateFormatError,
    StoreError,
    UnknownOutcomeError,
)
from erasable.models import files as shards
from erasable.operations.requests import Request, Ticket
from erasable.operations.verify import verify_file
from erasable.store import locked, side_files
from erasable.store._disk import Disk
from erasable.tables import Table
from tests.formats.models import CASES
from tests.machines.mortal import CHANGES
from tests.waiting import PATIENCE, until, with_longer

RNG = np.random.default_rng(3)
N, D, TAU = 400, 6, 0.01
X = RNG.standard_normal((N, D))
Y = np.where(X[:, 0] > 0, "a", "b")
IDS = [f"row-{i}" for i in range(N)]
OWNERS = [f"owner-{i % 40}" for i in range(N)]


def fitted(rows=slice(None)):
    chosen = np.arange(N)[rows]
    names = [IDS[i] for i in chosen], [OWNERS[i] for i in chosen]
    return ErasableClassifier(threshold=TAU, feature_map=None).fit(X[chosen], Y[chosen], *names)


@pytest.fixture
def path(tmp_path):
    fitted().save(tmp_path / "m.erasable")
    return tmp_path / "m.erasable"


def survivors(path):
    """The file that learning the rows of a file from nothing gives."""
    kept = [IDS.index(key) for key in load(path).core_ids_]
    return b"".join(fitted(kept)._model.snapshot().pieces)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# -- forgetting --------------------------------------------------------------------------------------------------


def test_forgetting_leaves_the_file_of_the_survivors(path):
    file = ModelFile(path)
    before, n = sha256(path), load(path).n_core_
    core = load(path).core_ids_.tolist()
    report = file.forget(ids=[core[0], core[5], "unknown"], digests=True)
    assert (report.requested, report.core_rows_removed, report.core_rows) == (3, 2, n - 2)
    assert report.digest_before == before
    assert report.digest == sha256(path) == load(path).state_digest()
    assert path.read_bytes() == survivors(path)
    mine = [key for key in core if OWNERS[IDS.index(key)] == "owner-3"]
    assert file.forget(subjects=["owner-3"]).core_rows_removed == len([k for k in mine if k not in (core[0], core[5])])
    assert path.read_bytes() == survivors(path)
    assert file.verify().digest == sha256(path)


def test_what_is_not_there_changes_no_byte_and_no_inode(path):
    before, inode = path.read_bytes(), path.stat().st_ino
    report = ModelFile(path).forget(ids=["unknown"], subjects=["nobody"], digests=True)
    assert report.core_rows_removed == 0
    assert report.digest_before == report.digest
    assert (path.read_bytes(), path.stat().st_ino) == (before, inode)


def test_many_requests_share_one_rewrite(path):
    file, core = ModelFile(path), load(path).core_ids_.tolist()
    requests = [{"ids": [key]} for key in core[:30]] + [Request(ids=core[:2]), Request(subjects=["owner-1"])]
    with mock.patch.object(Disk, "rename", autospec=True, side_effect=Disk.rename) as renamed:
        reports = file.forget_together(requests)
    assert renamed.call_count == 1
    assert [r.core_rows_removed for r in reports[:31]] == [1] * 30 + [0]
    assert reports[31].core_rows_removed == sum(OWNERS[IDS.index(key)] == "owner-1" for key in core[30:])
    assert path.read_bytes() == survivors(path)
    assert file.forget_together([]) == []


def test_threads_that_wait_share_a_rewrite(path):
    file, core = ModelFile(path), load(path).core_ids_.tolist()
    together = threading.Barrier(9)
    reports = {}

    def ask(key):
        together.wait()
        reports[key] = file.forget(ids=[key])

    batches = []
    work = file._forget_all

    def counted(batch):
        batches.append(len(batch))
        work(batch)

    threads = [threading.Thread(target=ask, args=(key,)) for key in core[:8]]
    with (
        mock.patch.object(Disk, "rename", autospec=True, side_effect=Disk.rename) as renamed,
        mock.patch.object(file, "_forget_all", counted),
    ):
        with locked(path):
            for thread in threads:
                thread.start()
            together.wait()
            # The file is locked: whoever is first waits for that, and the others wait in line behind.
            until(lambda: sum(batches) + len(file._queue.waiting) == 8, 0.001)
        for thread in threads:
            thread.join()
    assert sum(batches) == 8
    assert renamed.call_count == len(batches) <= 2
    assert [reports[key].core_rows_removed for key in core[:8]] == [1] * 8
    assert not {*core[:8]} & {*load(path).core_ids_.tolist()}
    assert path.read_bytes() == survivors(path)


def test_a_bad_request_among_good_ones_is_its_own_affair(path):
    """Threads that share a rewrite do not share errors; requests of one call stand and fall together."""
    file, core = ModelFile(path), load(path).core_ids_.tolist()
    before = path.read_bytes()
    with pytest.raises(InputTypeError):
        file.forget_together([Request(ids=[core[0]]), Request(ids=[7])])
    assert path.read_bytes() == before
    good, bad = Ticket([Request(ids=[core[0]])], False), Ticket([Request(ids=[7])], False)
    file._forget_all([bad, good])
    assert good.result()[0].core_rows_removed == 1
    with pytest.raises(InputTypeError):
        bad.result()
    assert path.read_bytes() == survivors(path)


CHILD = """
import sys
from erasable import ModelFile
file = ModelFile(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for key in sys.argv[2:]:
    report = file.forget(ids=[key])
    print("acknowledged", key, report.core_rows_removed, flush=True)
"""


def test_two_processes_at_once_lose_nothing(path):
    core = load(path).core_ids_.tolist()
    shares = core[:12:2], core[1:12:2]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), *share], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for share in shares
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child, share in zip(children, shares, strict=True):
        out, _ = child.communicate(timeout=PATIENCE)
        assert out.splitlines() == [f"acknowledged {key} 1" for key in share]
        assert child.returncode == 0
    assert load(path).core_ids_.tolist() == core[12:]
    assert path.read_bytes() == survivors(path)


def test_a_file_that_another_one_changed_is_read_again(path):
    one, other = ModelFile(path), ModelFile(path)
    core = load(path).core_ids_.tolist()
    one.forget(ids=core[:1])
    other.forget(ids=core[1:2])
    one.forget(ids=core[2:3])
    assert load(path).core_ids_.tolist() == core[3:]
    assert path.read_bytes() == survivors(path)


def test_waiting_ends_after_the_time_given(path):
    with locked(path), pytest.raises(BusyError):
        ModelFile(path, timeout=0.02).forget(ids=["row-0"])


def busy_thread(file):
    """A thread of this process that is learning with a file, and how to let it go on."""
    begun, go_on = threading.Event(), threading.Event()

    def rows():
        yield Table(X[:1] * 2, Y[:1], ["late"], ["owner-late"])
        begun.set()
        assert go_on.wait(PATIENCE)

    thread = threading.Thread(target=lambda: file.learn(rows()))
    thread.start()
    assert begun.wait(PATIENCE)
    return thread, go_on


def test_the_time_given_covers_waiting_for_a_thread_of_ones_own_process(path):
    file, before, core = ModelFile(path, timeout=0.05), path.read_bytes(), load(path).core_ids_.tolist()
    thread, go_on = busy_thread(file)
    try:
        for wait in (
            lambda: file.forget(ids=core[:1]),
            lambda: file.learn([Table(X[:2], Y[:2], ["x", "y"])]),
        ):
            with pytest.raises(BusyError, match="another thread of this process") as caught:
                wait()
            assert "Nothing was changed" in str(caught.value)
        assert file.key_types() == (str, str)  # which waits for nobody
        assert path.read_bytes() == before
    finally:
        go_on.set()
        thread.join(PATIENCE)
    assert set(core) <= set(load(path).core_ids_)  # who gave up is not served later
    file.forget(ids=core[:1])
    for timeout in (-1, float("nan"), float("inf")):
        with pytest.raises(ConfigurationError, match="timeout"):
            ModelFile(path, timeout=timeout).forget(ids=core[:1])


def test_who_is_being_served_by_another_thread_waits_for_the_outcome(path):
    """Its request can not be taken back any more: neither "busy" nor "nothing was changed" would be true."""
    key, reports = load(path).core_ids_[0], []

    def served(seconds):
        file = ModelFile(path, timeout=seconds)

        def ask():
            with contextlib.suppress(BusyError):
                reports.append(file.forget(ids=[key]))

        asking = threading.Thread(target=ask)
        with file._queue.lock:
            asking.start()
            until(lambda: file._queue.waiting or not asking.is_alive(), 0.001)
            batch, file._queue.waiting = file._queue.waiting, []  # this thread serves it
            if not batch:
                return False  # it has given up before this thread was let run
            asking.join(2 * seconds)
            assert asking.is_alive()
            file._forget_all(batch)
        asking.join(PATIENCE)
        return True

    with_longer(0.5, served)
    assert [r.core_rows_removed for r in reports] == [1]


# -- what is signed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [2**30, 200])
@pytest.mark.parametrize("known", [True, False])
def test_a_warm_model_does_not_speak_for_a_damaged_file(path, largest, known, monkeypatch):
    """The header is whole, the body is not: only who reads all of it sees that."""
    monkeypatch.setattr(shards, "LARGEST_FILE", largest)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 500)
    fitted().save(path, overwrite=True)
    core = load(path).core_ids_.tolist()
    for options, asked in (({"key": new_key()}, {}), ({}, {"digests": True})):
        file = ModelFile(path, **options)
        file.forget(ids=core[:1], **asked)
        files = [path, *store_parts(path)]
        assert (len(files) > 1) == (largest == 200)
        for damaged in files:
            whole = damaged.read_bytes()
            with open(damaged, "r+b") as body:
                body.seek(len(whole) - 200)
                body.write(bytes(200))
            broken = {p: p.read_bytes() for p in files}
            with pytest.raises(StateFormatError, match="erasable: "):
                file.forget(ids=core[1:2] if known else ["not-there"], **asked)
            assert {p: p.read_bytes() for p in files} == broken
            damaged.write_bytes(whole)
        core = core[1:]
        assert file.forget(ids=["not-there"], **asked).core_rows == len(core)


def test_a_change_that_says_nothing_of_the_bytes_replaces_a_damaged_body(path):
    fitted().save(path, overwrite=True)
    core = load(path).core_ids_.tolist()
    file = ModelFile(path)
    file.forget(ids=core[:1])
    whole = path.read_bytes()
    with open(path, "r+b") as body:
        body.seek(len(whole) - 200)
        body.write(bytes(200))
    assert file.forget(ids=core[1:2]).core_rows == len(core) - 2
    assert file.verify().core_rows == len(core) - 2


def store_parts(path):
    folder = side_files(path).parts
    return sorted(folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("largest", [2**30, 200])
def test_a_receipt_has_the_digests_of_what_was_read_and_written(path, largest, monkeypatch):
    monkeypatch.setattr(shards, "LARGEST_FILE", largest)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 500)
    fitted().save(path, overwrite=True)
    key = new_key()
    file = ModelFile(path, key=key)
    for name in [*load(path).core_ids_[:2].tolist(), "not-there"]:
        before = load(path).state_digest()
        report = file.forget(ids=[name])
        receipt = check_receipt(report.receipt, key.public)
        assert (receipt.state_before, receipt.state_after) == (before, load(path).state_digest())


def test_a_new_file_is_private_unless_asked_otherwise(tmp_path):
    block = [Table(X[:20], Y[:20], IDS[:20])]
    for options, wanted in (({}, 0o600), ({"mode": 0o640}, 0o640)):
        learnt, saved = tmp_path / f"l{wanted}", tmp_path / f"s{wanted}"
        before = os.umask(0o022)
        try:
            ModelFile(learnt).learn(block, new=ErasableClassifier(threshold=TAU, feature_map=None), **options)
            fitted().save(saved, **options)
        finally:
            os.umask(before)
        assert [stat.S_IMODE(p.stat().st_mode) for p in (learnt, saved)] == [wanted] * 2
        learnt.chmod(0o604)
        ModelFile(learnt).forget(ids=IDS[:5])
        assert stat.S_IMODE(learnt.stat().st_mode) == 0o604
    for mode in (640, 0o400, -1, 0o1600):
        with pytest.raises(ConfigurationError, match="mode must be permissions in octal"):
            fitted().save(tmp_path / "new", mode=mode)
        with pytest.raises(ConfigurationError, match="mode must be permissions in octal"):
            ModelFile(tmp_path / "new").learn(block, new=ErasableClassifier(threshold=TAU, feature_map=None), mode=mode)
    assert not (tmp_path / "new").exists()


def test_a_missing_model_whose_old_file_is_there_says_how_to_get_it_back(path):
    path.rename(side_files(path).old)
    for use in (load, verify_file, lambda p: ModelFile(p).forget(ids=["a"]), lambda p: ModelFile(p).key_types()):
        with pytest.raises(StoreError, match=r"is missing but .*\.old exists.*Rename it"):
            use(path)


ENDS = ("close", "unlock", "attributes", "facts_of_name", "open_to_read", "read")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_whatever_fails_on_disk_leaves_a_whole_file_and_a_model_that_agrees(path, code):
    """Each call of the disk fails once: what is said of the outcome is true, and afterwards the same handle works."""
    core = iter(load(path).core_ids_.tolist())
    for step in itertools.count():
        file, key, before = ModelFile(path), next(core), path.read_bytes()
        file.forget(ids=["unknown"])  # the model is in memory now
        calls = 0

        def failing(name, step=step):
            real = getattr(Disk, name)

            def call(self, *args, **options):
                nonlocal calls
                calls += 1
                if calls == step + 1:
                    raise OSError(code, "injected")
                return real(self, *args, **options)

            return call

        with mock.patch.multiple(Disk, **{name: failing(name) for name in (*CHANGES, *ENDS)}):
            failed = None
            try:
                file.forget(ids=[key])
            except StoreError as error:
                failed = error
        unchanged = path.read_bytes() == before
        assert unchanged or path.read_bytes() == survivors(path)
        assert isinstance(failed, UnknownOutcomeError) or unchanged == (type(failed) is StoreError)
        assert file.forget(ids=[key]).core_rows_removed == int(unchanged)
        assert key not in load(path).core_ids_
        assert path.read_bytes() == survivors(path)
        assert sorted(p.name for p in path.parent.iterdir()) == [".m.erasable.lock", "m.erasable"]
        if not failed and calls <= step:
            break
    assert step > 20


# -- learning ----------------------------------------------------------------------------------------------------


def blocks(*cuts):
    for low, high in itertools.pairwise(cuts):
        yield Table(X[low:high], Y[low:high], IDS[low:high], OWNERS[low:high])


def test_learning_in_blocks_is_learning_at_once(tmp_path):
    path = tmp_path / "new.erasable"
    seen = []
    new = ErasableClassifier(threshold=TAU, order="given", feature_map=None)
    report = ModelFile(path).learn(blocks(0, 7, 150), new=new, progress=seen.append)
    assert (report.rows, report.core_rows_added) == (150, report.core_rows)
    more = ModelFile(path).learn(blocks(150, 151, N))
    assert more.core_rows == report.core_rows + more.core_rows_added
    assert seen[-1] == 150
    assert seen == sorted(seen)
    clone(new).fit(X, Y, IDS, OWNERS).save(tmp_path / "once.erasable")
    assert path.read_bytes() == (tmp_path / "once.erasable").read_bytes()


def test_learning_that_fails_in_a_later_block_learns_nothing(path):
    before, file = path.read_bytes(), ModelFile(path)
    fresh = [f"new-{i}" for i in range(10)]

    def parts():
        yield Table(X[:5], Y[:5], fresh[:5], OWNERS[:5])
        yield Table(X[:5], Y[:5], load(path).core_ids_[:5].tolist(), OWNERS[:5])  # ids that are taken

    with pytest.raises(InputError):
        file.learn(parts())
    assert path.read_bytes() == before
    core = load(path).core_ids_.tolist()
    file.forget(ids=core[:1])  # the handle did not keep the half-learnt model
    assert load(path).core_ids_.tolist() == core[1:]


def test_a_missing_file_needs_a_new_model(tmp_path):
    path = tmp_path / "none.erasable"
    with pytest.raises(StoreError, match="does not exist"):
        ModelFile(path).learn(blocks(0, 5))
    with pytest.raises(StoreError):
        ModelFile(path).forget(ids=["a"])
    with pytest.raises(ConfigurationError, match="horizon"):
        ModelFile(path).learn(blocks(0, 5), new=ErasableClassifier(kappa=0.5, feature_map=None))
    with pytest.raises(ConfigurationError, match="nothing to learn"):
        ModelFile(path).learn([], new=ErasableClassifier(threshold=0.1, feature_map=None))
    assert not path.exists()


def test_a_damaged_file_is_refused_and_left_alone(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)
    for work in (lambda f: f.forget(ids=["row-0"]), lambda f: f.learn(blocks(0, 5)), lambda f: f.verify()):
        with pytest.raises(StateFormatError):
            work(ModelFile(path))
    assert path.read_bytes() == data


# -- receipts ----------------------------------------------------------------------------------------------------


def test_every_request_gets_its_own_receipt(path):
    key, core = new_key(), load(path).core_ids_.tolist()
    before = sha256(path)
    asked = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    file = ModelFile(path, key=key)
    one, two = file.forget_together(
        [Request(ids=core[:2], request_id="ticket-1", requested_at=asked), Request(subjects=["owner-7"])]
    )
    receipts = [check_receipt(r.receipt, key.public) for r in (one, two)]
    assert receipts[0].request_id == "ticket-1"
    assert receipts[0].requested_at == asked
    assert receipts[1].request_id not in ("ticket-1", "")
    for receipt in receipts:
        assert receipt.state_before == before
        check_state(receipt, sha256(path))
        assert "bitwise" in receipt.guarantee
    for text in (one.receipt, two.receipt):
        assert not any(name in text for name in (core[0], core[1], "owner-7"))
    silent = ModelFile(path, key=key, after_only=True).forget(ids=["x"])
    assert check_receipt(silent.receipt, key.public).state_before is None
    assert ModelFile(path).forget(ids=["x"]).receipt is None


def test_a_request_that_no_receipt_can_carry_is_refused_before_anything_changes(path):
    before, core = path.read_bytes(), load(path).core_ids_.tolist()
    with pytest.raises(ConfigurationError):
        ModelFile(path, key=new_key()).forget(ids=core[:1], request_id="a\nb")
    with pytest.raises(InputTypeError):
        Request(ids=core[:1], requested_at=datetime(2026, 1, 1))
    with pytest.raises(InputTypeError):
        ModelFile(path).forget_together([{"id": core[:1]}])
    with pytest.raises(InputError):
        ModelFile(path).forget()
    assert path.read_bytes() == before


def test_a_request_shows_no_names():
    assert repr(Request(ids=["secret"], subjects=np.array(["a", "b"]))) == "Request(1 ids, 2 subjects)"
    assert repr(ModelFile("m.erasable")) == "ModelFile('m.erasable')"


# -- other kinds of models ---------------------------------------------------------------------------------------


def test_key_types_are_those_of_the_stored_rows(path, tmp_path):
    assert ModelFile(path).key_types() == (str, str)
    ErasableKernelClassifier().fit(X[:50], Y[:50]).save(tmp_path / "k.erasable")
    assert ModelFile(tmp_path / "k.erasable").key_types() == (int, None)


def test_key_types_of_a_model_in_several_files_and_of_no_model(path, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "LARGEST_FILE", 200)
    fitted().save(tmp_path / "s.erasable")
    assert side_files(tmp_path / "s.erasable").parts.exists()
    assert ModelFile(tmp_path / "s.erasable").key_types() == (str, str)
    path.write_bytes(b"no model")
    with pytest.raises(StateFormatError, match=r"m\.erasable: "):
        ModelFile(path).key_types()
    with pytest.raises(StoreError, match="does not exist"):
        ModelFile(tmp_path / "none").key_types()


def test_a_learner_on_a_core_set_forgets_in_a_file_and_learns_no_more_rows(tmp_path):
    path, like = tmp_path / "c.erasable", CoreSetUnlearner(RandomSubsample(0.5), LogisticRegression())
    clone(like).fit(X, Y, ids=IDS, subjects=OWNERS).save(path)
    file = ModelFile(path, like=like)
    core = file.model.core_ids_.tolist()
    assert file.forget(ids=core[:3]).core_rows_removed == 3
    kept = [IDS.index(key) for key in core[3:]]
    again = clone(like).fit(X[kept], Y[kept], ids=core[3:], subjects=[OWNERS[i] for i in kept])
    assert again.state_digest() == sha256(path)
    with pytest.raises(ConfigurationError, match="at once"):
        file.learn(blocks(0, 5))
    assert again.state_digest() == sha256(path)


# -- easily overlooked ------------------------------------------------------------------------------------------


def test_the_callers_model_stays_the_callers(tmp_path):
    """A row that the caller forgets in a model of its own is still in the file, until the file is told."""
    path, mine = tmp_path / "m.erasable", ErasableClassifier(threshold=TAU, feature_map=None)
    file = ModelFile(path)
    file.learn(blocks(0, 50), new=mine)
    assert not mine.__sklearn_is_fitted__()
    with pytest.raises(InputTypeError, match="unfitted"):
        ModelFile(tmp_path / "other.erasable").learn(blocks(0, 50), new=fitted())
    key = load(path).core_ids_[0]
    copied = file.model
    copied.forget(ids=[key])
    report = file.forget(ids=[key], digests=True)
    assert (report.core_rows_removed, report.digest) == (1, sha256(path))
    assert key not in load(path).core_ids_


def test_a_file_that_holds_another_model_than_the_new_one_is_not_learnt_into(path):
    before = path.read_bytes()
    for new in (
        ErasableClassifier(threshold=0.3, feature_map=None),
        ErasableClassifier(threshold=TAU, feature_names=list("abcdef"), feature_map=None),
        ErasableKernelClassifier(),
    ):
        with pytest.raises(ConfigurationError, match="holds a model"):
            ModelFile(path).learn([Table(X[:5], Y[:5], [f"n{i}" for i in range(5)])], new=new)
        assert path.read_bytes() == before
    ModelFile(path).learn(
        [Table(X[:5], Y[:5], [f"n{i}" for i in range(5)])], new=ErasableClassifier(threshold=TAU, feature_map=None)
    )


def test_whatever_happens_to_one_who_signs_nobody_is_left_without_an_answer(path):
    """A receipt that cannot be made is its caller's affair; an interrupt is told to all who wait."""
    core = load(path).core_ids_.tolist()
    for trouble, kinds in ((OverflowError("x"), OverflowError), (KeyboardInterrupt(), UnknownOutcomeError)):
        file = ModelFile(path, key=new_key())
        tickets = [Ticket([Request(ids=[core.pop()])], True) for _ in range(3)]
        with mock.patch("erasable.operations.model_file.make_receipt", side_effect=trouble):
            if isinstance(trouble, KeyboardInterrupt):
                with pytest.raises(KeyboardInterrupt):
                    file._forget_all(tickets)
            else:
                file._forget_all(tickets)
        for ticket in tickets:
            with pytest.raises(kinds):
                ticket.result()
        assert load(path).core_ids_.tolist() == core
    with pytest.raises(InputError, match="UTC"):
        Request(ids=["a"], requested_at=datetime.min.replace(tzinfo=timezone(timedelta(hours=5))))


def test_who_is_interrupted_while_waiting_takes_the_request_back(path):
    file, key = ModelFile(path), load(path).core_ids_[0]
    with mock.patch.object(file._queue, "lock") as turn:
        turn.acquire.side_effect = KeyboardInterrupt
        with pytest.raises(KeyboardInterrupt):
            file.forget(ids=[key])
    assert file._queue.waiting == []
    file.forget(ids=["unknown"])
    assert key in load(path).core_ids_


def test_an_answer_that_nothing_had_to_be_done_rests_on_what_is_durable(path):
    """Whoever wrote the file may have been killed between the rename and the fsync of the folder."""
    file = ModelFile(path)
    with mock.patch.object(Disk, "fsync_folder", autospec=True, side_effect=Disk.fsync_folder) as synced:
        file.forget(ids=["unknown"])
    assert synced.called
    with mock.patch.object(Disk, "fsync_folder", side_effect=OSError(errno.EIO, "x")), pytest.raises(StoreError):
        file.forget(ids=["unknown"])


def test_every_kind_of_model_gets_a_receipt(tmp_path):
    """Its guarantee fits into one; for a text that is too long that would show only when the rows are gone."""
    key = new_key()
    for name, case in CASES.items():
        path = tmp_path / "m.erasable"
        case.fitted().save(path, overwrite=True)
        file = ModelFile(path, key=key, like=case.make() if case.needed or "mapped" in name else None)
        report = file.forget(ids=file.model.core_ids_[:1].tolist())
        assert report.core_rows_removed == 1, name
        assert check_receipt(report.receipt, key.public).state_after == sha256(path), name
