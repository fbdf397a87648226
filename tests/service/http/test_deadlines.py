"""Work that nobody waits for any more ends at its next block, and nothing half-done stays."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace

import pytest

from erasable.estimators import base
from erasable.models.model import Model
from erasable.service.http import predictions, rows
from erasable.service.http.problems import Refused
from tests.service.http.test_hostile import another
from tests.waiting import PATIENCE, until, with_longer

ROW = "a,b,c,d,label,i\n9,-9,9,9,yes,slow\n"


@pytest.fixture
def slow_learning(monkeypatch):
    """Learning has no end of its own, once the model in memory is changed; whether it has begun, and was given up."""
    learn = base.learn_rows
    seen = SimpleNamespace(begun=threading.Event(), ended=threading.Event())

    def slow(*given, progress, **options):
        seen.begun.set()
        try:
            learn(*given, progress=progress, **options)
            until(lambda: progress(0))
        except Refused:
            seen.ended.set()
            raise

    monkeypatch.setattr(base, "learn_rows", slow)
    return seen


def test_learning_past_its_deadline_stops_and_leaves_the_model_as_it_was(site, slow_learning):
    before = site.service.digest("named")

    def given_up(deadline):
        with another(site, deadline=deadline) as http:
            answer = http.post("/v1/learn?model=named&id=i", content=ROW, headers={"Content-Type": "text/csv"})
            assert answer.status_code == 504
        return slow_learning.begun.is_set()

    with_longer(0.5, given_up)
    assert slow_learning.ended.wait(PATIENCE)
    assert site.service.digest("named") == before
    with site.service.worker.changing():  # which nobody holds
        pass
    assert site.as_("predict").get("/v2/models/named/ready").json() == {"ready": True}


def test_learning_for_a_client_that_has_gone_stops(site, slow_learning):
    before = site.service.digest("named")
    with another(site) as http:
        head = (
            "POST /v1/learn?model=named&id=i HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {site.tokens['learn']}\r\n"
            f"Content-Type: text/csv\r\nContent-Length: {len(ROW)}\r\n\r\n"
        )
        with socket.create_connection((http.base_url.host, http.base_url.port), PATIENCE) as leaving:
            leaving.sendall((head + ROW).encode())
            assert slow_learning.begun.wait(PATIENCE)
        assert slow_learning.ended.wait(PATIENCE)
    assert site.service.digest("named") == before


def test_predicting_past_its_deadline_stops_between_blocks(site, monkeypatch):
    calls, decision, predicted = [], Model.decision, predictions.predicted
    answered, ended = threading.Event(), threading.Event()

    def slow(self, X):
        calls.append(len(X))
        assert answered.wait(PATIENCE)
        return decision(self, X)

    def watched(*given):
        try:
            return predicted(*given)
        finally:
            ended.set()

    body = {"inputs": [{"name": "X", "shape": [1000, 4], "datatype": "FP64", "data": [1] * 4000}]}
    whole = site.as_("predict").post("/v2/models/credit/infer", json=body).json()
    monkeypatch.setattr(rows, "_BLOCK", 10)
    assert site.as_("predict").post("/v2/models/credit/infer", json=body).json() == whole
    monkeypatch.setattr(Model, "decision", slow)
    monkeypatch.setattr(predictions, "predicted", watched)

    def given_up(deadline):
        with another(site, deadline=deadline) as http:
            assert http.post("/v2/models/credit/infer", json=body).status_code == 504
        return bool(calls)

    with_longer(0.5, given_up)
    answered.set()
    assert ended.wait(PATIENCE)
    assert calls == [10]
