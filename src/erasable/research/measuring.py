"""Clocks, turns, and the machine that times were measured on: shared by all that measures."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

Name = TypeVar("Name")


def settle() -> None:
    """Wait until the threads of BLAS libraries sleep: awake they take a core from the next measurement."""
    gc.collect()
    time.sleep(0.1)


def clock(work: Callable[[], Any]) -> float:
    """Seconds that one call takes, after a moment of quiet."""
    settle()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def take_turns(
    contestants: Mapping[Name, Callable[[], Any]], rounds: int, tick: Callable[[int, int], None] = lambda *_: None
) -> dict[Name, list[float]]:
    """Times of each contestant, one after the other in every round.

    Each timed call directly follows an untimed one of the same contestant: otherwise who allocates most pays for fresh
    memory pages that the operating system took back meanwhile.

    Parameters
    ----------
    tick : callable, optional
        Called with (rounds done, rounds).
    """
    times: dict[Name, list[float]] = {name: [] for name in contestants}
    for k in range(rounds):
        tick(k, rounds)
        for name, work in contestants.items():
            work()
            times[name].append(clock(work))
    tick(rounds, rounds)
    return times


def machine() -> dict[str, Any]:
    """What times were measured on, thread counts included: without it they say little."""
    libraries = [i for i in threadpool_info() if i["user_api"] == "blas"]
    return {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "blas": sorted({f"{i['internal_api']} {i['version']}, {i['num_threads']} threads" for i in libraries}),
    }


def in_words(found: dict[str, Any]) -> str:
    """A machine on one line."""
    return (
        f"{found['cores']} cores ({found['processor']}), Python {found['python']}, NumPy {found['numpy']}, "
        f"SciPy {found['scipy']}, scikit-learn {found['scikit-learn']}; {'; '.join(found['blas'])}"
    )
