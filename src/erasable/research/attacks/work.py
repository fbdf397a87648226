"""The same work many times over, in one process or in several; the results do not depend on how many."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Generic, TypeVar

from threadpoolctl import threadpool_limits

T = TypeVar("T")


@dataclass(frozen=True)
class WorkResult(Generic[T]):
    """Results in order, and the seconds of processor time that other processes took."""

    results: list[T]
    worker_seconds: float


def repeat(
    task: Callable[[int], T], times: int, *, workers: int = 1, progress: Callable[[int, int], None] | None = None
) -> WorkResult[T]:
    """``task(0)`` to ``task(times - 1)``, each with one thread.

    Parameters
    ----------
    task : callable
        Must depend on its number alone; with more than one worker it is sent to them once, pickled.
    """
    results: list[T] = []
    spent = 0.0

    def gather(done: Iterable[tuple[T, float]]) -> None:
        nonlocal spent
        for result, seconds in done:
            results.append(result)
            spent += seconds
            if progress is not None:
                progress(len(results), times)

    if workers == 1:
        with threadpool_limits(limits=1):
            gather(_timed(task, number) for number in range(times))
    else:
        with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin, initargs=(task,)) as pool:
            gather(pool.map(_next, range(times)))
    return WorkResult(results, spent if workers > 1 else 0.0)


def _timed(task: Callable[[int], T], number: int) -> tuple[T, float]:
    before = time.process_time()
    result = task(number)
    return result, time.process_time() - before


# -- in another process ------------------------------------------------------------------------------------------

_task: Any = None


def _begin(task: Any) -> None:
    global _task
    _task = task
    threadpool_limits(limits=1)
    warnings.simplefilter("ignore")  # as in the first process


def _next(number: int) -> tuple[Any, float]:
    return _timed(_task, number)
