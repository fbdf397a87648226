"""Whoever may only erase cannot tell whether somebody was stored: not by answers, nor by files, nor by time."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import replace

import numpy as np

from erasable import ModelFile
from tests.service.conftest import asked, saved


def test_answers_and_traces_have_one_shape(service, models, clock, tmp_path):
    shapes = []
    for who in ("person-3", "never seen", "person-3"):  # stored, unknown, gone already
        name = asked(service, who)
        pending = service.entry(name)
        before = {model: os.stat(path).st_mtime_ns for model, path in models.items()}
        length = (tmp_path / "ledger" / "past").stat().st_size
        assert service.worker.commit() == 1
        assert all(os.stat(path).st_mtime_ns > before[model] for model, path in models.items())
        grown = (tmp_path / "ledger" / "past").stat().st_size - length
        service.worker.sign()
        blank = {"request_id": "", "seal": "", "received": clock.now, "expected": clock.now}
        done = service.entry(name)
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
        asked(service, who)
        service.worker.commit()
        seen.append([service.snapshot(name).version for name in service.models])
    assert all(len(set(versions)) == 5 for versions in zip(*seen, strict=True))


def test_commits_take_as_long_for_the_stored_as_for_the_unknown(tmp_path):
    saved(tmp_path / "m", n=2000, people=[str(uuid.UUID(int=i)) for i in range(2000)])
    file = ModelFile(tmp_path / "m", rewrite_unchanged=True)
    file.forget(subjects=["nobody"])
    times: dict[str, list[float]] = {"stored": [], "unknown": []}
    for i in range(60):
        for kind in sorted(times, reverse=bool(i % 2)):
            who = str(uuid.UUID(int=i if kind == "stored" else 10_000 + i))
            begun = time.thread_time()
            file.forget(subjects=[who])
            times[kind].append(time.thread_time() - begun)
    stored, unknown = (np.array(times[kind]) for kind in ("stored", "unknown"))
    longer = float((stored[:, None] > unknown).mean())  # 0.5 when nothing shows, 1 when every one does
    assert 0.2 < longer < 0.8
    assert 0.8 < np.median(stored) / np.median(unknown) < 1.25
