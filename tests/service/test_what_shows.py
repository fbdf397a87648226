"""Whoever may only erase cannot tell whether somebody was stored: not by answers, nor by files, nor by time."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

import erasable
from erasable import ModelFile
from erasable.service.requests import Case, State
from erasable.service.worker import PeriodicThread
from erasable.store import Disk
from tests.service.conftest import asked, committed


def test_answers_and_traces_have_one_shape(service, models, clock, tmp_path):
    shapes = []
    asked(service, "nobody-4")
    service.worker.commit()  # the first one also marks the files that it finds
    for who in ("person-3", "nobody-3", "person-3"):  # stored, unknown, gone already
        name = asked(service, who)
        pending = service.ledger.entry(name)
        before = {model: os.stat(path).st_mtime_ns for model, path in models.items()}
        length = (tmp_path / "ledger" / "past").stat().st_size
        assert service.worker.commit() == 1
        assert all(os.stat(path).st_mtime_ns > before[model] for model, path in models.items())
        grown = (tmp_path / "ledger" / "past").stat().st_size - length
        service.worker.sign()
        blank = {"request_id": "", "seal": "", "received": clock.now, "expected": clock.now}
        done = service.ledger.entry(name)
        shapes.append(
            (replace(pending, **blank), replace(done, **blank, settled=None), done.settled == clock.now, grown)
        )
        assert {len(text) for text in service.receipts(name).values()} == {len(service.receipts(name)["left"])}
    assert shapes[0][0] == shapes[1][0] == shapes[2][0]
    assert shapes[0][1] == shapes[1][1] == shapes[2][1]
    assert shapes[0][2:] == shapes[1][2:] == shapes[2][2:]


def test_every_commit_gives_every_model_another_version_whether_it_changed_or_not(service):
    seen = [[service.snapshot(name).version for name in service.models]]
    for who in ("person-3", "never seen", "person-3", "person-4"):
        committed(service, who)
        seen.append([service.snapshot(name).version for name in service.models])
    assert all(len(set(versions)) == 5 for versions in zip(*seen, strict=True))


@pytest.fixture
def times(service, clock, monkeypatch):
    """How long erasures of the stored and of the unknown take by the clock of a service that commits every second.

    Forgetting takes 0.1 seconds, and 0.3 longer in a model that stores somebody: a logistic head at its worst.
    """
    forget = ModelFile.forget_together

    def slow(self, requests, **options):
        reports = forget(self, requests, **options)
        clock.pass_by(0.4 if any(report.core_rows_removed for report in reports) else 0.1)
        return reports

    monkeypatch.setattr(ModelFile, "forget_together", slow)

    def until_next() -> None:
        clock.pass_by(1.0 - clock.now.microsecond / 1e6)

    def taken(people, wait) -> list[timedelta]:
        service.worker._wait, spent = wait, []
        for i, who in enumerate(people):
            until_next()
            clock.pass_by(i / 16)
            name = asked(service, who)
            until_next()
            service.worker.commit()
            spent.append(service.ledger.entry(name).settled - service.ledger.entry(name).received)
        return spent

    return SimpleNamespace(taken=taken, until_next=until_next)


def test_erasures_of_the_stored_take_as_long_as_those_of_the_unknown(times):
    stored, unknown = [f"person-{i}" for i in range(8)], [f"nobody-{i}" for i in range(8)]
    assert times.taken(stored, times.until_next) == times.taken(unknown, times.until_next)


def test_told_when_they_are_done_they_would_show(times):
    stored, unknown = [f"person-{i}" for i in range(8)], [f"nobody-{i}" for i in range(8)]
    pairs = zip(times.taken(stored, lambda: None), times.taken(unknown, lambda: None), strict=True)
    assert all(long > short for long, short in pairs)


def test_it_is_durable_before_the_wait_and_told_after_it(service, models):
    seen = []

    def wait():
        stored = [len(erasable.load(path).rows_of(subjects=["person-3"]).rows) for path in models.values()]
        seen.append((service.ledger.entry(name).state, stored))

    service.worker._wait = wait
    name = asked(service, "person-3")
    service.worker.commit()
    assert seen == [(State.IN_PROGRESS, [0, 0])]
    assert service.ledger.entry(name).state is State.COMPLETED


@pytest.mark.parametrize("lasts", [0.0, 0.01, 0.3, 0.97, 1.5])
def test_a_call_that_waits_ends_at_a_time_of_the_grid_and_the_next_begins_there(monkeypatch, lasts):
    now, begun, ended = [100.0], [], []

    def call():
        begun.append(now[0])
        now[0] += lasts
        rounds.until_next()
        ended.append(now[0])
        if len(ended) == 4:
            rounds.end()

    monkeypatch.setattr("erasable.service.worker.time", SimpleNamespace(monotonic=lambda: now[0]))
    rounds = PeriodicThread("commit", 1.0, call)
    monkeypatch.setattr(rounds._ending, "wait", lambda seconds: now.__setitem__(0, now[0] + seconds))
    rounds.start()
    rounds.join()
    step = 2.0 if lasts > 1 else 1.0
    assert ended == pytest.approx([100 + step * k for k in range(1, 5)])
    assert begun == pytest.approx([100.0, *ended[:-1]])


@pytest.mark.parametrize("more", [0, 4], ids=["one", "batch"])
def test_the_disk_is_asked_the_same_for_the_stored_the_unknown_and_those_gone_already(service, monkeypatch, more):
    steps = Counter()

    def erased(who):
        batch = [who, *(f"{who}-{i}" for i in range(more))]
        name = str(uuid.uuid4())
        service.accept(name, "erasure", service.identities("email", batch), b"", case=Case("case"))
        service.worker.commit()
        service.worker.sign()

    def counted(name, step):
        def counting(*given, **options):
            steps[name] += 1
            return step(*given, **options)

        return counting

    for name, step in list(vars(Disk).items()):
        if not name.startswith("_"):
            monkeypatch.setattr(Disk, name, counted(name, step))
    erased("nobody")
    found = []
    for who in ("person-3", "never seen", "person-3", "person-4", "never seen either"):
        steps.clear()
        erased(who)
        found.append(dict(steps))
    assert found[0]["fsync"]
    assert all(one == found[0] for one in found)
