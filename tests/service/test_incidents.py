"""Events that are counted: failed sign-ins, refused scopes, tokens made and revoked, and starts with a setting."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from erasable.errors import StoreError
from erasable.service.incidents import Incidents
from erasable.service.settings import Settings
from erasable.service.tokens import make_token, revoke_token
from tests.service.conftest import TYPES


class Written(list):
    """Events that were written, unless the disk is full."""

    full = False

    def __call__(self, events):
        if self.full:
            raise StoreError("the disk is full")
        self.extend((event.what, event.by, event.times) for event in events)


@pytest.fixture
def written():
    return Written()


def test_a_flood_is_a_few_events_and_every_failure_is_counted(clock, written):
    incidents = Incidents(written, clock, clock.elapsed)
    for _ in range(24 * 3600):
        incidents.add("sign-in-failed")
        incidents.flush()
        clock.pass_by(1)
    incidents.add("scope-refused", "app")
    incidents.flush()
    assert written[0] == ("sign-in-failed", "", 1)
    assert written[-1] == ("scope-refused", "app", 1)  # others do not wait for the flood
    assert len(written) < 40
    incidents.flush(at_once=True)
    assert sum(times for what, _, times in written if what == "sign-in-failed") == 24 * 3600
    clock.pass_by(3 * 3600)
    incidents.add("sign-in-failed")
    incidents.flush()
    assert written[-1] == ("sign-in-failed", "", 1)  # and after some hours at once


def test_events_wait_while_the_disk_is_full(clock, written):
    incidents = Incidents(written, clock, clock.elapsed)
    incidents.add("sign-in", "officer")
    written.full = True
    for _ in range(2):
        with pytest.raises(StoreError):
            incidents.flush()
        incidents.add("sign-in", "officer")
    written.full = False
    incidents.flush()
    assert written == [("sign-in", "officer", 3)]


def events_of(service, what=""):
    return [(event.what, event.by, event.times) for event in reversed(service.ledger.trail(what).events)]


def test_counts_survive_a_stop_and_a_saved_index(opened, monkeypatch):
    monkeypatch.setattr("erasable.service.ledger._UNSAVED", 0)
    service = opened()
    for _ in range(3):
        service.incidents.add("scope-refused", "app")
    expected = [("scope-refused", "app", 3)]
    assert events_of(opened()) == expected
    assert events_of(opened()) == expected


def test_tokens_made_and_revoked_are_events_also_those_of_a_stopped_service(opened, tmp_path):
    tokens = tmp_path / "tokens.json"
    service = opened(tokens=tokens)
    service.note_incidents()
    make_token(tokens, "desk", ["erase"])
    service.note_incidents()
    service.note_incidents()
    assert events_of(service) == [("token-made", "desk", 1)]
    service.stop()
    revoke_token(tokens, "desk")
    make_token(tokens, "desk", ["audit"])
    service = opened(tokens=tokens)
    service.note_incidents()
    expected = [("token-made", "desk", 1), ("token-revoked", "desk", 1), ("token-made", "desk", 1)]
    assert sorted(events_of(service)) == sorted(expected)
    service = opened(tokens=tokens)
    service.note_incidents()
    assert len(events_of(service)) == 3
    tokens.unlink()
    service.note_incidents()
    assert events_of(service, "token-revoked")[-1] == ("token-revoked", "desk", 1)


def test_a_change_of_tokens_that_could_not_be_noted_is_noted_later(opened, tmp_path, monkeypatch):
    service = opened(tokens=tmp_path / "tokens.json")
    make_token(tmp_path / "tokens.json", "desk", ["erase"])
    with monkeypatch.context() as patch:
        patch.setattr(service.ledger, "note_each", lambda _: (_ for _ in ()).throw(StoreError("full")))
        with pytest.raises(StoreError):
            service.note_incidents()
    service.note_incidents()
    assert events_of(service) == [("token-made", "desk", 1)]


def test_starts_with_the_word_of_the_operator_are_events(opened):
    settings = Settings(identity_types=TYPES)
    assert events_of(opened(settings=settings)) == []
    service = opened(settings=replace(settings, vouch=True, trust_clock=True))
    assert events_of(service) == [("vouch", "(settings)", 1), ("trust-clock", "(settings)", 1)]


def test_an_event_that_must_not_be_refused_is_counted(service, monkeypatch):
    with monkeypatch.context() as patch:
        full = StoreError(errno.ENOSPC, "full")
        patch.setattr(service.ledger, "note", lambda *_: (_ for _ in ()).throw(full))
        service.note_or_count("sign-in", "officer")
    assert events_of(service) == []
    service.note_incidents()
    assert events_of(service) == [("sign-in", "officer", 1)]
