"""Work that nobody waits for any more ends at its next block, and nothing half-done stays."""

from __future__ import annotations

import socket
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from erasable.estimators import streaming
from erasable.models.linear import LinearModel
from erasable.service.http import tables
from tests.service.http.test_hostile import another

ROW = "a,b,c,d,label,i\n9,-9,9,9,yes,slow\n"


@pytest.fixture
def slow_learning(monkeypatch):
    """Learning takes ten seconds, once the model in memory is changed; how many of its hundred steps were done."""
    learn = streaming.learn_blocks
    seen = SimpleNamespace(steps=0, begun=threading.Event(), ended=threading.Event())

    def slow(*given, progress, **options):
        seen.begun.set()
        try:
            report = learn(*given, progress=progress, **options)
            for _ in range(100):
                time.sleep(0.1)
                seen.steps += 1
                progress(0)
            return report
        finally:
            seen.ended.set()

    monkeypatch.setattr(streaming, "learn_blocks", slow)
    return seen


def test_learning_past_its_deadline_stops_and_leaves_the_model_as_it_was(site, slow_learning):
    before = site.service.digest("named")
    with another(site, deadline=0.5) as http:
        answer = http.post("/v1/learn?model=named&id=i", content=ROW, headers={"Content-Type": "text/csv"})
        assert answer.status_code == 504
        assert slow_learning.ended.wait(5)
        assert slow_learning.steps < 50
    assert site.service.digest("named") == before
    with site.service.worker.turn():  # which nobody holds
        pass
    assert site.as_("predict").get("/v2/models/named/ready").json() == {"ready": True}


def test_learning_for_a_client_that_has_gone_stops(site, slow_learning):
    before = site.service.digest("named")
    with another(site) as http:
        head = (
            f"POST /v1/learn?model=named&id=i HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {site.tokens['learn']}\r\n"
            f"Content-Type: text/csv\r\nContent-Length: {len(ROW)}\r\n\r\n"
        )
        with socket.create_connection((http.base_url.host, http.base_url.port), timeout=5) as leaving:
            leaving.sendall((head + ROW).encode())
            assert slow_learning.begun.wait(5)
        assert slow_learning.ended.wait(5)
        assert slow_learning.steps < 50
    assert site.service.digest("named") == before


def test_predicting_past_its_deadline_stops_between_blocks(site, monkeypatch):
    calls, decision = [], LinearModel.decision

    def slow(self, X):
        calls.append(len(X))
        time.sleep(0.1)
        return decision(self, X)

    body = {"instances": np.ones((1000, 4)).tolist()}
    whole = site.as_("predict").post("/models/credit/invocations", json=body).json()
    monkeypatch.setattr(tables, "_BLOCK", 10)
    assert site.as_("predict").post("/models/credit/invocations", json=body).json() == whole
    monkeypatch.setattr(LinearModel, "decision", slow)
    with another(site, deadline=0.5) as http:
        assert http.post("/models/credit/invocations", json=body).status_code == 504
        time.sleep(0.3)
        done = len(calls)
        time.sleep(0.5)
        assert len(calls) == done < 50
        assert set(calls) == {10}
