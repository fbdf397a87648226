"""Sign-ins that fail: their limit, their events, and who is not locked out by them."""

from __future__ import annotations

import errno
import logging
from types import SimpleNamespace

import httpx
import pytest

from erasable.errors import StoreError
from erasable.service.http.site import _LONGEST_NAMED, FailedSignIns, source_of
from tests.service.http.test_hostile import another


class Time:
    now = 0.0

    def __call__(self):
        return self.now


def test_waits_grow_up_to_a_limit_and_end_after_an_hour_of_silence():
    time, waits = Time(), []
    failures = FailedSignIns(3, time)
    assert [failures.add("a") for _ in range(3)] == [0, 0, 0]
    for _ in range(12):
        waits.append(failures.add("a"))
        assert waits[-1] == failures.add("a")  # failures meanwhile do not prolong it
        time.now += waits[-1]
        assert failures.add("a") == 0  # after the wait, one attempt is answered as ever
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
    time.now += 900
    time.now += 3601
    assert [failures.add("a") for _ in range(3)] == [0, 0, 0]
    assert failures.add("b") == 0
    for i in range(_LONGEST_NAMED + 5):
        failures.add(f"c{i}")
    assert len(failures._counts) <= _LONGEST_NAMED


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("testclient", ""),
    ],
)
def test_the_source_is_an_address_or_a_network(host, source):
    assert source_of(SimpleNamespace(client=SimpleNamespace(host=host))) == source
    assert source_of(SimpleNamespace(client=None)) == ""


def events(site, what, by=""):
    site.service.incidents.flush(at_once=True)
    return sum(event.times for event in site.service.ledger.trail(what=what, by=by).events)


def test_a_stranger_has_to_wait_and_the_officer_behind_the_same_address_does_not(site, caplog):
    caplog.set_level(logging.INFO)
    before = events(site, "sign-in-failed")
    with another(site, failed_sign_ins=5) as http:
        wrong = {"Authorization": "Bearer erasable_canary"}
        answers = [http.post("/login", data={"token": "erasable_canary"}) for _ in range(4)]
        answers += [http.get("/v1/state", headers=wrong), http.get("/v1/state", headers=wrong)]
        answers += [
            http.post("/login", data={"token": "erasable_canary"}),
            http.post("/v2/models/credit/infer", headers=wrong),
        ]
        assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 3
        assert all(1 <= int(answer.headers["Retry-After"]) <= 2 for answer in answers[5:])
        assert http.get("/v1/state").status_code == 200
        assert http.post("/login", data={"token": site.tokens["all"]}).status_code == 303
        nothing = httpx.get(str(http.base_url.join("/v1/state")))  # it is no attempt
        assert nothing.status_code == 401
    assert events(site, "sign-in-failed") == before + 8
    trail = site.as_("audit").get("/v1/trail", params={"what": "sign-in-failed"})
    assert "canary" not in trail.text + caplog.text
    assert {one["by"] for one in trail.json()} == {""}


def test_refused_scopes_are_counted_for_their_token(site, visitor):
    before = events(site, "scope-refused", "predict")
    for _ in range(3):
        assert site.as_("predict").get("/v1/state").status_code == 403
    visitor.enter(site.tokens["predict"])
    assert visitor.get("/trail").status_code == 403
    assert events(site, "scope-refused", "predict") == before + 4
    assert "times)" in visitor_page(site)


def visitor_page(site):
    """The page of the trail, as an auditor sees it."""
    with httpx.Client(base_url=site.base) as http:
        cookie = http.post("/login", data={"token": site.tokens["audit"]}).headers["set-cookie"].partition(";")[0]
        return http.get("/trail?what=scope-refused", headers={"Cookie": cookie}).text


def test_on_a_full_disk_an_officer_signs_in_and_out_and_sees_what_is_wrong(site, visitor, monkeypatch):
    before = {what: events(site, what, "all") for what in ("sign-in", "sign-out")}
    with monkeypatch.context() as patch:

        def full(_):
            raise StoreError(errno.ENOSPC, "the disk is full")

        patch.setattr(site.service.ledger, "note_each", full)
        visitor.enter(site.tokens["all"])
        page = visitor.get("/")
        assert page.status_code == 200
        assert visitor.get("/trail.csv").status_code == 503  # it would need an event
        form = page.text.partition('name="form" value="')[2].partition('"')[0]
        assert visitor.post("/logout", data={"form": form}).status_code == 303
        assert visitor.get("/").headers["location"] == "/login"
    assert {what: events(site, what, "all") for what in before} == {what: n + 1 for what, n in before.items()}
