"""The disk is asked for the same steps whether somebody was stored or not. How long they take is not for a test."""

from __future__ import annotations

from collections import Counter

from erasable.store import Disk
from tests.service.conftest import asked


def test_the_disk_is_asked_the_same_for_the_stored_the_unknown_and_those_gone_already(service, monkeypatch):
    steps = Counter()

    def counted(name, step):
        def counting(*given, **options):
            steps[name] += 1
            return step(*given, **options)

        return counting

    for name, step in list(vars(Disk).items()):
        if not name.startswith("_"):
            monkeypatch.setattr(Disk, name, counted(name, step))
    asked(service, "nobody")
    service.worker.commit()
    service.worker.sign()
    found = []
    for who in ("person-3", "never seen", "person-3", "person-4", "never seen either"):
        steps.clear()
        asked(service, who)
        service.worker.commit()
        service.worker.sign()
        found.append(dict(steps))
    assert found[0]["fsync"]
    assert all(one == found[0] for one in found)
