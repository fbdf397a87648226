"""Hypothesis profiles. Examples are a function of each test alone: a run today is a run tomorrow.

``HYPOTHESIS_PROFILE=thorough`` tries twenty times as many, ``smoke``, which ``make quick`` uses, a tenth;
``wandering`` draws others each time, or those of ``--hypothesis-seed``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

try:
    from hypothesis.internal.conjecture import providers
except ImportError:  # older ones draw no such constants
    providers = None

# Before NumPy is imported, and for child processes too: on data this small more threads only wait for each other, and
# for the other workers of pytest-xdist. Tests of threads set their number themselves.
for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

# Hypothesis draws constants from the sources of whatever modules are imported, and so examples would hang on which
# tests ran before in the same process, and on every line of the package. There is no public way to say no.
if hasattr(providers, "_get_local_constants"):
    _NO_CONSTANTS = providers.Constants()
    providers._get_local_constants = lambda: _NO_CONSTANTS

_COMMON = {
    "derandomize": True,
    "deadline": None,
    "database": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("standard", max_examples=100, stateful_step_count=20, **_COMMON)
settings.register_profile("thorough", max_examples=2000, stateful_step_count=40, **_COMMON)
settings.register_profile("wandering", max_examples=400, stateful_step_count=40, **(_COMMON | {"derandomize": False}))
settings.register_profile("smoke", max_examples=10, stateful_step_count=10, **_COMMON)
# For trying whether a test notices a change at all: the first failure will do.
settings.register_profile(
    "quick", max_examples=100, stateful_step_count=20, phases=[Phase.explicit, Phase.generate], **_COMMON
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "standard"))


@pytest.fixture(scope="session", autouse=True)
def the_disk_overwrites_in_place() -> Iterator[None]:
    """Whatever the tests run on: on Btrfs or in a container, receipts and texts would state a doubt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("erasable.store._disk._MOUNTS", os.devnull)
        yield


@pytest.fixture
def on_btrfs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """All files seem to be on Btrfs; what is said of it."""
    from erasable.store import BlockDoubt, _disk  # NumPy is not to be imported with this file

    mount = _disk._Mount("/", "btrfs", "/dev/vda", "254:0", frozenset())
    monkeypatch.setattr(_disk, "_mount_of", lambda path, table: mount)
    return BlockDoubt("btrfs", "copies")


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Iterator[None]:
    """What an fsync is for is tested on a simulated disk; that it is asked for, by counting; children do wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: os.fstat(descriptor) and None)  # refused where it is closed
        yield


@pytest.fixture(scope="session", autouse=True)
def caches_of_a_user_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests leave nothing in the cache folder of the user who runs them, and find nothing there; nor do children."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("caches"))
