"""Two small models, a service on them whose rounds are called by hand, and a clock that stands still."""

from __future__ import annotations

import itertools
import uuid
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from erasable import ErasableClassifier
from erasable.audit.keys import new_key
from erasable.service.processes import ChildProcess
from erasable.service.service import ErasureService
from erasable.service.settings import Settings

KEY = new_key()
OPERATOR = b"o" * 32
TYPES = {"controller_customer_id": "subject", "email": "subject", "row": "id"}


class Clock:
    """A time that moves when it is told to."""

    def __init__(self) -> None:
        self.now, self.passed = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), 0.0

    def __call__(self) -> datetime:
        return self.now

    def elapsed(self) -> float:
        return self.passed

    def pass_by(self, seconds: float) -> None:
        self.jump(seconds)
        self.passed += seconds

    def jump(self, seconds: float) -> None:
        """Somebody sets the time."""
        self.now += timedelta(seconds=seconds)


def saved(path, *, seed: int = 0, ids=None, people=None, n: int = 60) -> None:
    """A model that stores all its rows: row-0 to row-59 of person-0 to person-19, unless said otherwise."""
    X = np.random.default_rng(seed).standard_normal((n, 3))
    ids = [f"row-{i}" for i in range(n)] if ids is None else ids
    people = [f"person-{i % 20}" for i in range(n)] if people is None else people
    ErasableClassifier(threshold=0.0, feature_map=None).fit(X, X[:, 0] > 0, ids=ids, subjects=people).save(path)


@pytest.fixture(scope="session", autouse=True)
def processes_do_not_stand_back():
    """On a busy machine, processes of low priority would hold up every test that waits for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("erasable.service.service.ChildProcess", lambda _, *given: ChildProcess(0, *given))
        yield


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def models(tmp_path):
    paths = {name: tmp_path / f"{name}.erasable" for name in ("left", "right")}
    for seed, path in enumerate(paths.values()):
        saved(path, seed=seed)
    return paths


@pytest.fixture
def opened(tmp_path, models, clock):
    """Makes a service and starts it without threads; those made before it are stopped first."""
    running, numbers = [], itertools.count()

    def make(**options):
        while running:
            running.pop().stop()
        options.setdefault("settings", Settings(identity_types=TYPES, callback_hosts=frozenset({"c.example"})))
        draw = lambda: f"version-{next(numbers)}"  # noqa: E731
        options |= {"clock": clock, "elapsed": clock.elapsed, "draw": draw}
        service = ErasureService(models, tmp_path / "ledger", signer=KEY, operator_key=OPERATOR, **options)
        service.start(threads=False)
        running.append(service)
        return service

    yield make
    for service in running:
        service.stop()


@pytest.fixture
def service(opened):
    return opened()


def asked(service, value="person-3", *, type="controller_customer_id", format="raw", kind="erasure", callbacks=()):
    """The id of a new request, accepted."""
    name = str(uuid.uuid4())
    service.accept(name, kind, [service.identity(type, format, value)], name.encode(), callbacks)
    return name


def committed(service, *given, **options):
    """The id of a new request that was accepted and carried out."""
    name = asked(service, *given, **options)
    service.worker.commit()
    return name
