"""How many threads BLAS may use, and work that threads of Python share instead, with one BLAS thread each.

Threads of BLAS wait for their next product in a loop. In that time, and it is much longer than most products take, they
keep a processor from everybody else. Threads of Python sleep, and share work that BLAS does one step after the other.

*Interrupts.* Ctrl-C raises KeyboardInterrupt in the main thread between any two instructions, also within
``__enter__``, ``__exit__`` and ``finally``. No order of statements is safe from that, so nothing here depends on one:

- What threads share changes by single calls of C functions (of a deque, a dict, a SimpleQueue). Nothing holds a lock of
  Python's, which an interrupted thread might never release.
- Whether a thread or a task has ended is seen from the lifetime of its object, which only that thread holds.
- Whether BLAS is still to be limited is seen from the stack of the thread that limited it. Another thread, which no
  interrupt reaches, looks at it and undoes what was left behind.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import threading
import weakref
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from inspect import CO_GENERATOR
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Generic, Self, TypeVar

import scipy.linalg  # noqa: F401  (its BLAS is one of those to limit, and they are looked for once)
from threadpoolctl import ThreadpoolController

from erasable.errors import EngineError

FEWEST_NUMBERS = 2**18  # of rows that a thread takes together, as a rule
_WORTH_SHARING = 3e7  # flops of matrix products that make several threads worth their while
_PATIENCE = 0.5  # seconds that an interrupted thread waits for others; they end by themselves all the same
GLANCE = 1.0  # seconds after which a waiting thread looks whether the others are alive
_TICK = 0.02  # seconds between two looks at the thread that limits BLAS
_QUIET = 50  # ticks without a limit after which nobody looks any more

P = TypeVar("P")
Q = TypeVar("Q")
Task = Callable[[], None]


# -- threads -----------------------------------------------------------------------------------------------------


class Workers:
    """Threads that do the tasks of one queue. They end after this object, and keep no process from ending."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Any] = SimpleQueue()
        self.threads: list[weakref.ref[Task]] = []
        self._end = weakref.ref(self, self.tasks.put)  # its end wakes a thread that waits for a task

    def alive(self) -> int:
        """How many threads there are."""
        return sum(thread() is not None for thread in self.threads)

    def at_least(self, n: int) -> int:
        """Start threads until there are n, or as many as can be started; returns how many there are."""
        self.threads = [thread for thread in self.threads if thread() is not None]
        try:
            while len(self.threads) < n:
                self.threads.append(_started(partial(_do_tasks, self.tasks, self._end)))
        except RuntimeError:  # no more threads can be started
            pass
        return len(self.threads)

    def begin(self, task: Task, news: SimpleQueue[Any]) -> weakref.ref[Task]:
        """Let a thread do a task. When it has ended, in whatever way, the reference is empty and put into ``news``."""
        reference = weakref.ref(task, news.put)
        self.tasks.put(task)
        return reference


def _started(run: Task) -> weakref.ref[Task]:
    """Start a thread; the reference is empty as soon as it has ended, in whatever way.

    ``threading.Thread.start`` waits for a lock that an interrupt could leave locked.
    """
    start_new_thread(run, ())
    return weakref.ref(run)


def _do_tasks(tasks: SimpleQueue[Any], owner: weakref.ref[Workers]) -> None:
    sys.settrace(threading.gettrace())  # as threading.Thread does it, for debuggers and coverage
    while True:
        task = tasks.get()
        if owner() is None:
            tasks.put(None)  # the next thread ends as well
            return
        with suppress(BaseException):  # tasks report their errors to those who wait for them
            task()
        del task  # others may wait for its end


_workers = Workers()


class Shared(Generic[P, Q]):
    """Work on parts, which other threads begin while this one does something else.

    ``results`` does those parts that no thread has begun. Used as a context manager, it begins no more parts when the
    context is left.
    """

    def __init__(self, work: Callable[[P], Q], parts: Sequence[P], helpers: int | None = None) -> None:
        self.work, self.parts = work, parts
        self.waiting, self.over = deque(range(len(parts))), deque[int]()
        self.outcomes, self.errors = dict[int, Q](), deque[BaseException]()
        self.news: SimpleQueue[Any] = SimpleQueue()  # something is over
        self.helpers: list[weakref.ref[Task]] = []
        n = min(n_threads(), len(parts)) - 1 if helpers is None else helpers
        for _ in range(min(n, _workers.at_least(n))):
            self.helpers.append(_workers.begin(partial(self._help), self.news))

    def _help(self) -> None:
        try:
            self._do()
        except BaseException:
            self._drop()  # ``results`` raises it

    def _do(self) -> None:
        while True:
            try:
                i = self.waiting.popleft()
            except IndexError:
                return
            try:
                self.outcomes[i] = self.work(self.parts[i])
            except BaseException as error:
                self.errors.append(error)  # before the part is over, when ``results`` looks at them
                raise
            finally:
                self.over.append(i)
                self.news.put(None)

    def _drop(self) -> None:
        """Begin no more parts."""
        try:
            while True:
                self.over.append(self.waiting.pop())
        except IndexError:
            pass

    def _wait(self, seconds: float) -> None:
        """Wait until every part is over, or for so long that nothing happens.

        In steps, since some systems deliver no interrupt to a thread that waits.
        """
        while seconds > 0.0 and len(self.over) < len(self.parts) and any(helper() for helper in self.helpers):
            try:
                self.news.get(timeout=min(seconds, GLANCE))
            except Empty:
                seconds -= GLANCE

    def results(self) -> list[Q]:
        """What ``work`` returned for each part, after doing those that no other thread has begun."""
        with few_threads(0.0), self:
            self._do()
            self._wait(math.inf)
        if self.errors:
            raise self.errors[0]
        if len(self.outcomes) < len(self.parts):
            raise EngineError("a thread that shared the work ended before it was done: run it again.")
        return [self.outcomes[i] for i in range(len(self.parts))]

    def stop(self) -> None:
        """Begin no more parts, and wait a moment for those begun. What they return is used no more."""
        self._drop()
        self._wait(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def in_threads(work: Callable[[P], Q], parts: Sequence[P]) -> list[Q]:
    """What ``work`` returns for each part: several at a time, with one BLAS thread each and no more than BLAS has."""
    if min(len(parts), n_threads()) < 2:
        return [work(part) for part in parts]
    with few_threads(0.0):
        return Shared(work, parts).results()


# -- threads of BLAS ---------------------------------------------------------------------------------------------


class _OneThread:
    """Limits BLAS to one thread while this context lasts.

    The limit holds for the process. So one context at a time sets it and restores what was before; others that begin
    meanwhile find it set, or work without it.
    """

    def __init__(self) -> None:
        self.limited: list[tuple[Any, int]] = []  # libraries, and how many threads each had
        self.thread = threading.get_ident()
        self.frame: FrameType | None = None  # runs as long as the context lasts

    def __enter__(self) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_flags & CO_GENERATOR:
            frame = frame.f_back  # of the function that runs the generator, which does not always run itself
        self.frame = frame
        while True:
            if not _watcher.wakes():  # nobody would undo what an interrupt leaves behind
                return
            other = _LIMIT.setdefault("set by", self)
            if other is self:
                break
            if other.thread != self.thread or other.lasts():
                return
            threading.Event().wait(_TICK / 4)  # an interrupt left it behind
        _watcher.wakes()  # it may just have fallen asleep
        libraries = _blas().lib_controllers
        self.limited = [(library, n) for library in libraries if (n := library.get_num_threads()) != 1]
        for library, _ in self.limited:
            _set_threads(library, 1)

    def __exit__(self, *_: object) -> None:
        if _LIMIT.get("set by") is self:
            self.undo()

    def undo(self) -> None:
        """Give every library its threads back."""
        for library, n in self.limited:
            _set_threads(library, n)
        self.frame = None
        _LIMIT.pop("set by", None)

    def lasts(self) -> bool:
        """Whether the function that set this limit runs."""
        own = self.thread == threading.get_ident()
        frame = sys._getframe() if own else sys._current_frames().get(self.thread)
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None


class _Watcher:
    """Undoes a limit of BLAS that its thread has left behind, in a thread of its own."""

    def __init__(self) -> None:
        self.workers = Workers()
        self.awake = False
        self.task: weakref.ref[Task] = weakref.ref(partial(self._watch))  # empty

    def wakes(self) -> bool:
        """Look at the limit from now on; returns whether there is a thread for it."""
        if self.awake and self.task() is not None and self.workers.alive():
            return True
        if not self.workers.at_least(1):
            return False
        self.awake = True
        self.task = self.workers.begin(partial(self._watch), SimpleQueue())
        return True

    def _watch(self) -> None:
        """Look at the limit until there was none for a while."""
        quiet, suspect = 0, None
        while self.awake or _LIMIT:  # a limit set after this look finds that nobody is awake
            threading.Event().wait(_TICK)
            limit = _LIMIT.get("set by")
            if limit is None or limit.lasts():
                suspect = None
            elif limit is suspect:
                limit.undo()
            else:
                suspect = limit  # its stack may have changed during the look: look again
            quiet = quiet + 1 if limit is None else 0
            self.awake = quiet < _QUIET


_LIMIT: dict[str, _OneThread] = {}  # the limit that is set, if any
_watcher = _Watcher()


@functools.cache
def _blas() -> ThreadpoolController:
    """The libraries, found by another thread: C calls Python for each, which would swallow an interrupt."""
    controllers: SimpleQueue[ThreadpoolController] = SimpleQueue()
    with suppress(RuntimeError):  # no more threads can be started
        thread = _started(lambda: controllers.put(_find_blas()))
        while thread() is not None:
            with suppress(Empty):
                return controllers.get(timeout=GLANCE)
    return _find_blas()


def _find_blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _set_threads(library: Any, n: int) -> None:
    """Set how many threads a library uses, from whichever thread.

    threadpoolctl 3.8 and later lets the first thread that sets a number set numbers from then on, and ignores others
    without a word. It takes a lock for that, too.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(n)


def few_threads(flops: float) -> AbstractContextManager[None]:
    """One BLAS thread for work too small to share: on a busy machine threads would only wait for each other."""
    return _OneThread() if flops < _WORTH_SHARING else nullcontext()


def limited() -> bool:
    """Whether this thread has limited BLAS to one thread."""
    return _own_limit() is not None


def _own_limit() -> _OneThread | None:
    limit = _LIMIT.get("set by")
    return limit if limit is not None and limit.thread == threading.get_ident() else None


def n_threads() -> int:
    """How many threads may share the work of this one: as many as BLAS may use, or might before this one limited it."""
    limit = _own_limit()
    if limit is not None:
        return max((n for _, n in limit.limited), default=1)
    return max((library.get_num_threads() for library in _blas().lib_controllers), default=1)


def numbers_at_once() -> int:
    """How many numbers of rows a thread takes together.

    Few stay in the cache. But while a thread calls the next function it has Python's lock, and with many threads they
    wait for it longer than for memory.
    """
    return FEWEST_NUMBERS * max(1, min(4, n_threads() // 4))


def _in_child() -> None:
    """After a fork there is but one thread: no limit that another set, and no threads to help."""
    global _watcher, _workers
    _watcher, _workers = _Watcher(), Workers()
    limit = _LIMIT.get("set by")
    if limit is not None and not limit.lasts():
        limit.undo()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
