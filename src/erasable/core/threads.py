"""How many threads BLAS may use, and work that threads of Python share instead, with one BLAS thread each.

Threads of BLAS wait for their next product in a loop. In that time, and it is much longer than most products take, they
keep a processor from everybody else. Threads of Python sleep, and share work that BLAS does one step after the other.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Generic, TypeVar

import scipy.linalg  # noqa: F401  (its BLAS is one of those to limit, and they are looked for once)
from threadpoolctl import ThreadpoolController

FEWEST_NUMBERS = 2**18  # of rows that a thread takes together, as a rule
_WORTH_SHARING = 3e7  # flops of matrix products that make several threads worth their while


class _OneThread:
    """Limits BLAS to one thread while any thread of Python is in this context.

    The limit holds for the process, so one Python thread at a time sets it and the same one restores it; others that
    enter meanwhile find it set, or work without it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner: int | None = None
        self.depth = 0
        self.limited: list[tuple[Any, int]] = []  # libraries, and how many threads each had
        self.before = 1  # the most of these

    def __enter__(self) -> None:
        with self.lock:
            if self.owner is None:
                libraries = _blas().lib_controllers
                self.limited = [(library, n) for library in libraries if (n := library.get_num_threads()) != 1]
                self.before = max((n for _, n in self.limited), default=1)
                self.owner = threading.get_ident()
                try:
                    for library, _ in self.limited:
                        library.set_num_threads(1)
                except BaseException:
                    self.restore()
                    raise
            self.depth += self.owner == threading.get_ident()

    def __exit__(self, *_: object) -> None:
        with self.lock:
            if self.owner == threading.get_ident():
                self.depth -= 1
                if self.depth == 0:
                    self.restore()

    def restore(self) -> None:
        """Give every library its threads back."""
        for library, n in self.limited:
            library.set_num_threads(n)
        self.limited, self.owner, self.depth = [], None, 0


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


_ONE_THREAD = _OneThread()


def few_threads(flops: float) -> AbstractContextManager[None]:
    """One BLAS thread for work too small to share: on a busy machine threads would only wait for each other."""
    return _ONE_THREAD if flops < _WORTH_SHARING else nullcontext()


def limited() -> bool:
    """Whether this thread has limited BLAS to one thread."""
    return _ONE_THREAD.owner == threading.get_ident()


def n_threads() -> int:
    """How many threads may share the work of this one: as many as BLAS may use, or might before this one limited it."""
    if limited():
        return _ONE_THREAD.before
    return max((library.get_num_threads() for library in _blas().lib_controllers), default=1)


def numbers_at_once() -> int:
    """How many numbers of rows a thread takes together.

    Few stay in the cache. But while a thread calls the next function it has Python's lock, and with many threads they
    wait for it longer than for memory.
    """
    return FEWEST_NUMBERS * max(1, min(4, n_threads() // 4))


P = TypeVar("P")
Q = TypeVar("Q")


class Shared(Generic[P, Q]):
    """Work on parts, which other threads begin while this one does something else; each has one thread of BLAS.

    Until ``results`` or ``stop`` is called, by the same thread, BLAS is limited to one thread.
    """

    def __init__(self, work: Callable[[P], Q], parts: Sequence[P]) -> None:
        self.work, self.parts = work, parts
        self.left, self.found = deque(range(len(parts))), dict[int, Q]()
        n, self.limit, self.helpers = n_threads(), ExitStack(), list[Future[None]]()
        self.limit.enter_context(_ONE_THREAD)
        try:
            for _ in range(min(n, len(parts)) - 1):
                self.helpers.append(_pool(n - 1).submit(self._do))
        except RuntimeError:  # no more threads can be started: this one does what is left
            pass
        except BaseException:
            self.stop()
            raise

    def _do(self) -> None:
        while True:
            try:
                i = self.left.popleft()
            except IndexError:
                return
            self.found[i] = self.work(self.parts[i])

    def results(self) -> list[Q]:
        """What ``work`` returned for each part, after doing those that no other thread has begun."""
        try:
            self._do()
        finally:
            self.stop()
        return [self.found[i] for i in range(len(self.parts))]

    def stop(self) -> None:
        """Begin no more parts and wait for those begun, also if interrupted: they read the arrays of the caller."""
        self.left.clear()
        interrupt: BaseException | None = None
        with self.limit:
            helpers = [helper for helper in self.helpers if not helper.cancel()]
            while not all(helper.done() for helper in helpers):
                try:
                    wait(helpers)
                except BaseException as error:
                    interrupt = error
        if interrupt is not None:
            raise interrupt
        for helper in helpers:
            helper.result()


def in_threads(work: Callable[[P], Q], parts: Sequence[P]) -> list[Q]:
    """What ``work`` returns for each part: several at a time, with one BLAS thread each and no more than BLAS has."""
    if min(len(parts), n_threads()) < 2:
        return [work(part) for part in parts]
    return Shared(work, parts).results()


@functools.cache
def _pool(n: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n, "erasable")


def _in_child() -> None:
    """After a fork there is but one thread: no limit that another set, and no threads of a pool."""
    _pool.cache_clear()
    _ONE_THREAD.lock = threading.Lock()
    if not limited():
        _ONE_THREAD.restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
