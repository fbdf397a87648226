"""Models are changed and verified by child processes of the service, which are killed, hang and find altered files."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor, ModelFile
from erasable.audit.receipts import check_receipt
from erasable.errors import BusyError, StoreError, UnknownOutcomeError, VerificationError
from erasable.models.files import read_model
from erasable.operations.requests import Request
from erasable.service.http.problems import Refused
from erasable.service.http.rows import read_blocks
from erasable.service.model_files import READING, ServedFile, load_all
from erasable.service.model_files import opened as opened_here
from erasable.service.processes import ChildProcess, Packed, import_all
from erasable.service.service import ErasureService
from erasable.service.settings import Settings
from erasable.service.suppression import SuppressionList
from erasable.store import journal_key, read_journal
from tests.service.calls import imported, killing_itself, taking
from tests.service.conftest import KEY, OPERATOR, TYPES, asked, committed
from tests.service.test_child_process import gone, is_there
from tests.service.test_service import people, rows
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
ROW = np.ones((1, 3))


class Shared(ChildProcess):
    """A process that several services use, one after another: it outlives their stop."""

    def end(self):
        pass


@pytest.fixture(scope="module")
def three():
    processes = [Shared(0), Shared(0), Shared(0)]
    yield processes
    for process in processes:
        ChildProcess.end(process)


@pytest.fixture
def shared(three, monkeypatch):
    """Every service of a test uses the processes of all tests, which saves starting three for each."""
    monkeypatch.setattr("erasable.service.service.ChildProcess", lambda *_: next(made))
    made = itertools.cycle(three)
    yield
    for process in three:
        process._patience = PATIENCE


@pytest.fixture
def aside(shared, opened):
    """A service with processes, all of which answer."""
    service = opened(processes=True)
    for process in (service._writer, service._reader, service._verifier):
        process(os.getpid)
    return service


def killed_after(process: ChildProcess, seconds: float) -> threading.Timer:
    """A thread that kills a process; not one that has begun since."""
    timer = threading.Timer(seconds, process._process.kill)
    timer.start()
    return timer


def signed(folder) -> Counter:
    records = [record.content for record in read_journal(folder / "ledger" / "past", journal_key(OPERATOR, "past"))]
    return Counter((r["request"].partition("/")[0], r["model"]) for r in records if "text" in r)


def test_the_journey_is_that_of_one_process(aside, models, clock):
    before = {name: aside.snapshot(name) for name in models}
    name = committed(aside)
    assert all("person-3" not in people(path) for path in models.values())
    for model, path in models.items():
        after = aside.snapshot(model)
        assert after.version != before[model].version
        assert after.model.decision(ROW) == read_model(path)[0].decision(ROW)
        assert len(after.model.core) == len(before[model].model.core) - 3
    assert aside.worker.sign() == 2
    for model, text in aside.receipts(name).items():
        said = check_receipt(text, KEY.public)
        assert (said.request_id, said.state_after) == (name, ModelFile(models[model]).verify().digest)
    assert opened_here.cache_info().currsize == 0  # the rows are in the memory of another process


class Block:
    X, y = np.random.default_rng(9).standard_normal((5, 3)), np.array([True, False, True, False, True])
    ids, subjects, weights = [f"new-{i}" for i in range(5)], ["person-new"] * 5, None


def test_what_is_learnt_stays_in_the_process_that_forgets(aside, models):
    pids = aside._writer.pid, aside._reader.pid
    assert aside.learn("left", [Block]).core_rows == 65
    assert "person-new" in people(models["left"])
    assert opened_here.cache_info().currsize == 0
    committed(aside, "person-new")
    assert "person-new" not in people(models["left"])
    assert (aside._writer.pid, aside._reader.pid) == pids


@pytest.mark.parametrize("kind", ["application/jsonl", "text/csv"])
def test_tables_digests_and_answers_to_access_are_read_in_another_process(aside, models, kind, monkeypatch):
    digest = ModelFile(models["left"]).verify().digest
    name = committed(aside, "person-4", kind="access")
    for function in ("model_files.inspect", "model_files.read_model", "http.rows.stream_table"):
        monkeypatch.setattr(f"erasable.service.{function}", None)  # nobody calls it here
    assert aside.digest("left") == digest
    assert {row.id for row in aside.stored_of(name)["left"].rows} == {"row-4", "row-24", "row-44"}
    numbers = Block.X.tolist()
    if kind == "text/csv":
        lines = ["a,b,c,label,id,who"] + [f"{a},{b},{c},true,new-{i},person-new" for i, (a, b, c) in enumerate(numbers)]
    else:
        lines = [
            json.dumps({"a": a, "b": b, "c": c, "label": True, "id": f"new-{i}", "who": "person-new"})
            for i, (a, b, c) in enumerate(numbers)
        ]
    body = Packed(*(f"{line}\n".encode() for line in lines))
    columns = {"label": "label", "id": "id", "subject": ["who"]}
    columns |= {"kinds": {"label": bool}} if kind == "text/csv" else {}
    stops = []
    blocks = aside.read(read_blocks, kind, body, None, columns, (), 10**6, 100, stop=lambda: stops.append(1))
    assert stops
    assert all(isinstance(block, Packed) for block in blocks)
    assert aside.learn("left", blocks).rows == 5
    with pytest.raises(Refused, match="at most 4 rows") as refused:
        aside.read(read_blocks, kind, body, None, columns, (), 10**6, 4, stop=lambda: None)
    assert refused.value.status == 413
    with pytest.raises(Refused, match="enough"):
        aside.read(read_blocks, kind, body, None, columns, (), 10**6, 100, stop=enough)
    monkeypatch.undo()
    assert {f"new-{i}" for i in range(5)} <= rows(models["left"])


def test_a_reader_that_is_killed_after_it_handed_on_blocks_hands_on_none_twice(aside, tmp_path):
    marks = [tmp_path / f"mark-{i}" for i in range(2)]
    marks[0].touch()
    blocks = aside.read(killing_itself, list(map(str, marks)), stop=lambda: None)
    assert [block.opened() for block in blocks] == ["first", "second"]
    for mark in marks:
        mark.touch()
    with pytest.raises(BusyError, match="nothing was done"):
        aside.read(killing_itself, list(map(str, marks)), stop=lambda: None)
    assert len(aside.read(killing_itself, list(map(str, marks)), stop=lambda: None)) == 2


def test_reading_takes_no_more_memory_than_it_may(aside):
    assert aside.read(taking, 2**20, stop=lambda: None, memory=2**28) == []
    with pytest.raises(MemoryError):
        aside.read(taking, 2**30, stop=lambda: None, memory=2**28)
    assert aside.read(taking, 2**30, stop=lambda: None) == []


def test_a_question_that_nobody_answers_changed_nothing(aside):
    aside._reader._patience = 0.3
    os.kill(aside._reader.pid, signal.SIGSTOP)
    with pytest.raises(BusyError, match="nothing was done"):
        aside.digest("left")
    aside._reader._patience = PATIENCE
    assert aside.digest("left") == ModelFile(aside._files["left"].path).verify().digest


def enough():
    raise Refused(504, "enough")


def test_learning_that_is_stopped_leaves_the_model_the_process_and_the_turn(aside, models):
    pid, before, calls = aside._writer.pid, models["left"].read_bytes(), []

    def stop():
        calls.append(1)
        if len(calls) > 1:  # the first one comes before the model is touched
            enough()

    with pytest.raises(Refused, match="enough"):
        aside.learn("left", [Block], stop=stop)
    assert (models["left"].read_bytes(), aside._writer.pid) == (before, pid)
    with aside.worker.changing(enough):  # which nobody holds
        pass
    with pytest.raises(ValueError, match="features"):
        aside.learn("left", [SimpleNamespace(X=np.ones((2, 7)), y=[True, False], ids=["a", "b"], subjects=["a", "b"])])
    assert aside.learn("left", [Block]).core_rows == 65
    assert aside._writer.pid == pid


def test_a_writer_that_is_killed_while_it_learns_is_not_asked_again(aside, models):
    calls = []

    def stop():
        calls.append(1)
        if len(calls) == 2:
            os.kill(aside._writer.pid, signal.SIGKILL)

    with pytest.raises(UnknownOutcomeError, match="ended while it worked"):
        aside.learn("left", [Block], stop=stop)
    assert "person-new" not in people(models["left"])
    assert aside.learn("left", [Block]).core_rows == 65


def test_rows_of_those_on_the_list_are_passed_over_and_nothing_of_them_is_written(shared, opened, tmp_path):
    listed = SuppressionList(tmp_path / "list", OPERATOR)
    service = opened(processes=True, suppression=listed)
    committed(service, "canary-gone")
    subjects = ["canary-gone"] * 4 + ["person-new"]
    block = SimpleNamespace(X=Block.X, y=Block.y, ids=[f"canary-{i}" for i in range(4)] + ["new"], subjects=subjects)
    report = service.learn("left", [block])
    assert (report.rows, report.rows_suppressed, report.core_rows) == (1, 4, 61)
    assert b"canary" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_full_disk_of_the_ledger_leaves_the_models_and_the_processes(aside, models, monkeypatch):
    asked(aside)
    pid, before = aside._writer.pid, models["left"].read_bytes()
    with monkeypatch.context() as full:
        full.setattr(aside._ledger.files, "announce", lambda *_: (_ for _ in ()).throw(StoreError("full")))
        with pytest.raises(StoreError, match="full"):
            aside.worker.commit()
    assert (models["left"].read_bytes(), aside._writer.pid) == (before, pid)
    assert aside.worker.commit() == 1
    assert aside._writer.pid == pid


def test_nothing_is_said_where_the_last_row_of_a_class_goes(tmp_path, capfd):
    rows = np.random.default_rng(0).standard_normal((12, 3))
    path = tmp_path / "few.erasable"
    clf = ErasableClassifier(threshold=0.0, feature_map=None)
    clf.fit(rows, np.arange(12) == 5, ids=np.arange(12), subjects=[f"person-{i}" for i in range(12)])
    clf.save(path)
    file = ServedFile(str(path), writer := ChildProcess(0), writer, lambda *_, **__: None)
    writer.begin()
    file.forget_together([Request(subjects=["person-5"])])
    writer.end()
    assert "person-5" not in people(path)
    assert capfd.readouterr() == ("", "")


def test_the_first_call_of_a_process_imports_nothing_large(models):
    path = str(models["left"])
    reader, writer = ChildProcess(0, (import_all, *READING)), ChildProcess(0, (load_all, [(path, None)]))
    for process in (reader, writer):
        process.begin()
    try:
        before = [process(imported) for process in (reader, writer)]
        body, blocks = Packed(b"a,b,c,label,id,who\n1,2,3,True,new-0,ann\n"), []
        columns = {"label": "label", "id": "id", "subject": "who", "kinds": {"label": bool}}
        reader(read_blocks, "text/csv", body, None, columns, (), 10**6, 9, progress=lambda *found: blocks.extend(found))
        file = ServedFile(path, writer, writer, lambda *_, **__: None)
        assert file.learn(blocks, lambda: None).rows == 1
        new = [process(imported) - known for process, known in zip((reader, writer), before, strict=True)]
    finally:
        for process in (reader, writer):
            process.end()
    large = {"erasable", "fastapi", "numpy", "pandas", "pyarrow", "scipy", "sklearn"}
    assert all(not names & large for names in new)
    assert {"numpy", "pyarrow"} <= before[0]
    assert {"numpy", "sklearn"} <= before[1]


MOMENTS = (0.0, 0.006, 0.012, 0.03)  # seconds


def test_the_verifier_is_killed_at_any_moment_and_every_receipt_comes_once_and_right(aside, models, tmp_path):
    names = []
    for i, seconds in enumerate(MOMENTS):
        names += [asked(aside, f"person-{i}")]
        aside.worker.commit()
        killing = killed_after(aside._verifier, seconds)
        assert aside.worker.sign() == 2
        killing.join()
        said = {model: check_receipt(text, KEY.public) for model, text in aside.receipts(names[-1]).items()}
        assert {model: one.state_after for model, one in said.items()} == {
            model: ModelFile(path).verify().digest for model, path in models.items()
        }
    assert signed(tmp_path) == Counter((name, model) for name in names for model in models)


def test_the_writer_is_killed_at_any_moment_and_what_was_accepted_is_done(aside, models, tmp_path):
    for i, seconds in enumerate(MOMENTS):
        name = asked(aside, f"person-{i}")
        killing = killed_after(aside._writer, seconds)
        assert aside.worker.commit() == 1
        killing.join()
        assert aside.ledger.entry(name).state == "completed"
        for model, path in models.items():
            assert people(path) == {f"person-{k}" for k in range(i + 1, 20)}
            assert ModelFile(path).verify().core_rows == len(aside.snapshot(model).model.core)
            assert aside.snapshot(model).model.decision(ROW) == read_model(path)[0].decision(ROW)
    assert aside.worker.sign() == 2 * len(MOMENTS)
    assert b"person" not in b"".join(path.read_bytes() for path in (tmp_path / "ledger").iterdir())
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".new", ".old")]


def test_one_that_hangs_holds_up_receipts_says_so_and_is_replaced(aside, models):
    name = committed(aside)
    pid = aside._verifier.pid
    os.kill(pid, signal.SIGSTOP)
    aside._verifier._patience = 0.3
    sign = next(thread for thread in aside._threads if thread.what == "sign")
    sign.once()
    assert "could not sign: a process of the service gave no sign of life" in aside.health().problem
    assert aside.receipts(name) is None
    assert gone(pid)
    aside._verifier._patience = PATIENCE
    sign.once()
    assert aside.health().ready
    assert check_receipt(aside.receipts(name)["left"], KEY.public).state_after == aside.digest("left")


def forged(path: Path) -> bytes:
    """The file with one weight altered, and everything that is computed from its bytes made to fit."""
    state = read_model(path)[0].snapshot()
    weights = state.derived["weights"].copy()
    weights[0, 0] += 1
    return dataclasses.replace(state, derived=state.derived | {"weights": weights}).to_bytes()


def test_an_altered_file_is_not_signed_for(aside, models):
    name = committed(aside)
    good = models["left"].read_bytes()
    models["left"].write_bytes(forged(models["left"]))
    with pytest.raises(VerificationError, match="weights"):
        aside.worker.sign()
    assert aside.ledger.entry(name).receipts == {"right"}
    models["left"].write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"left\.erasable"):
        aside.worker.sign()
    models["left"].unlink()
    with pytest.raises(StoreError, match=r"left\.erasable"):
        aside.worker.sign()
    assert aside.ledger.entry(name).receipts == {"right"}
    models["left"].write_bytes(good)
    assert aside.worker.sign() == 1
    assert aside.receipts(name).keys() == {"left", "right"}


def test_nobody_who_is_back_is_signed_for_also_after_a_start(shared, opened, models, tmp_path):
    backup = models["left"].read_bytes()
    given = {"processes": True, "suppression": SuppressionList(tmp_path / "list", OPERATOR)}
    service = opened(**given)
    name = committed(service)
    models["left"].write_bytes(backup)
    with pytest.raises(VerificationError, match="1 completed requests"):
        service.worker.sign()
    assert service.ledger.entry(name).receipts == {"right"}
    service._threads = []  # it stops without another try
    service = opened(**given)  # now only the list knows, and the writer has replayed it
    assert "person-3" not in people(models["left"])
    models["left"].write_bytes(backup)
    with pytest.raises(VerificationError, match="1 completed requests"):
        service.worker.sign()
    service.worker.compare()
    assert service.worker.sign() == 1


def test_a_verification_that_somebody_asks_for_is_carried_out_there_with_progress(aside):
    begun = aside.verify("left")
    until(lambda: aside.verification("left").ended)
    found = aside.verification("left")
    assert begun.model == "left"
    assert found.problem is None
    assert (found.report.digest, found.report.core_rows) == (aside.digest("left"), 60)
    assert (found.done, found.total) == (60, 60)


def test_told_to_stop_it_finishes_and_no_process_is_left(tmp_path, models):
    settings = Settings(identity_types=TYPES, tick=0.02)
    service = ErasureService(
        models, tmp_path / "ledger", signer=KEY, operator_key=OPERATOR, settings=settings, processes=True
    )
    with service:
        pids = [process.pid for process in (service._writer, service._reader, service._verifier)]
        name = asked(service)
        service.stop(PATIENCE)
    assert all(map(gone, pids))
    assert set(signed(tmp_path)) == {(name, model) for model in models}
    with service:  # once more
        again = [service._writer.pid, service._verifier.pid, service._reader.pid]
        assert all(map(is_there, again))
        os.kill(again[1], signal.SIGSTOP)
        late = asked(service, "person-4")
        service._verifier._patience = 10 * PATIENCE
        begin = time.monotonic()
        service.stop(2.0)  # it does not wait for one that hangs
        assert time.monotonic() - begin < PATIENCE
    assert all(map(gone, again))
    service._verifier._patience = PATIENCE
    with service:
        until(lambda: service.receipts(late))


def test_a_start_that_fails_begins_no_process(opened, models, monkeypatch):
    begun = []
    monkeypatch.setattr(ChildProcess, "begin", lambda self: begun.append(self))
    good = models["left"].read_bytes()
    models["left"].write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"left\.erasable"):
        opened(processes=True)
    assert begun == []
    models["left"].write_bytes(good)
    service = opened(processes=True)
    assert begun == [service._writer, service._reader, service._verifier]


def test_a_start_whose_last_process_cannot_begin_leaves_nothing_and_can_be_tried_again(tmp_path, models, monkeypatch):
    service = ErasureService(models, tmp_path / "ledger", signer=KEY, operator_key=OPERATOR, processes=True)
    begin, pids = service._verifier.begin, []

    def failing():
        pids.extend((service._writer.pid, service._reader.pid))
        raise UnknownOutcomeError("could not begin.")

    monkeypatch.setattr(service._verifier, "begin", failing)
    with pytest.raises(UnknownOutcomeError, match="could not begin"):
        service.start()
    assert all(map(gone, pids))
    assert not service.health().ready
    monkeypatch.setattr(service._verifier, "begin", begin)
    with service:
        assert service.health().ready


@pytest.mark.parametrize("kind", ["linear", "kernel", "regression"])
def test_models_of_every_kind_predict_here_as_they_do_there(shared, tmp_path, kind):
    X = np.random.default_rng(0).standard_normal((40, 3))
    made = {
        "linear": lambda: ErasableClassifier(threshold=0.0, feature_map=None).fit(
            X, X[:, 0] > 0, subjects=[*range(40)]
        ),
        "kernel": lambda: ErasableKernelClassifier(threshold=0.01).fit(X, X[:, 0] > 0, subjects=[*range(40)]),
        "regression": lambda: ErasableRegressor((-5, 5), threshold=0.0, feature_map=None).fit(
            X, X[:, 0], subjects=[*range(40)]
        ),
    }
    made[kind]().save(tmp_path / "m")
    given = {"signer": KEY, "operator_key": OPERATOR, "settings": Settings(identity_types=TYPES), "processes": True}
    service = ErasureService({"m": tmp_path / "m"}, tmp_path / "ledger", **given)
    service.start(threads=False)
    for _ in range(2):
        found = service.snapshot("m").model
        assert found.decision(X).tobytes() == read_model(tmp_path / "m")[0].decision(X).tobytes()
        committed(service, "7")
    assert service.worker.sign() == 2
    service.stop()
