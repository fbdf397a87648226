"""Threads and processes of this machine; and parts of a source on their way to workers."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from multiprocessing.shared_memory import SharedMemory
from queue import Empty, SimpleQueue
from typing import Any

from threadpoolctl import threadpool_limits

from erasable.core.arrays import Matrix
from erasable.core.threads import GLANCE, Workers, few_threads
from erasable.errors import ConfigurationError, EngineError
from erasable.models.passes import Engine, Limits, Pass, PassResult
from erasable.models.row_source import RowSource
from erasable.validation import whole_number

Part = tuple[Any, int | None]  # an iterable of blocks, and the number of rows before them where it is known


class Local(Engine):
    """Rows are screened on this machine: one block after the other, or several at a time.

    Parameters
    ----------
    threads : int, optional
        The number of threads, one block each, with one thread of BLAS in each. Good for many columns, where products
        take the time. By default blocks are screened one after the other, with the threads that BLAS has, and rows in
        memory are learnt as without an engine, which is faster.
    processes : int, optional
        The number of processes instead. Good where reading and encoding take the time: they read files in parts
        (Parquet); other rows are sent to them. A script that uses it has to be importable: its work goes under
        ``if __name__ == "__main__":``.

    Notes
    -----
    *Cost*: memory for one block in each thread or process and as many that wait. Results do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable import ErasableClassifier
    >>> from erasable.engines import Local
    >>> X = np.random.default_rng(0).standard_normal((3000, 5))
    >>> one, two = (ErasableClassifier(engine=engine).fit(X, X[:, 0] > 0) for engine in (None, Local(threads=2)))
    >>> one.state_digest() == two.state_digest()
    True
    """

    def __init__(self, *, threads: int | None = None, processes: int | None = None) -> None:
        if threads is not None and processes is not None:
            raise ConfigurationError("threads= and processes= are two ways to do the same: give one of them.")
        self.threads = None if threads is None else whole_number(threads, "threads")
        self.processes = None if processes is None else whole_number(processes, "processes")
        self.sends = processes is not None
        self.helps_in_memory = threads is not None or processes is not None
        self._pool: ProcessPoolExecutor | None = None

    def results(self, source: RowSource, scan: Pass, limits: Callable[[], Limits]) -> Iterator[PassResult]:
        """See :class:`~erasable.models.passes.Engine`."""
        if self.processes is not None:
            return self._in_processes(source, scan, limits, self.processes)
        if self.threads is not None:
            return self._in_threads(source, scan, limits, self.threads)
        return super().results(source, scan, limits)

    def _in_threads(self, source: RowSource, scan: Pass, limits: Callable[[], Limits], n: int) -> Iterator[PassResult]:
        with few_threads(0.0):
            yield from _in_window(parts_of(source, n), lambda part, low: partial(scan.run, part, low, limits()), n)

    def _in_processes(
        self, source: RowSource, scan: Pass, limits: Callable[[], Limits], n: int
    ) -> Iterator[PassResult]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(n, get_context("spawn"), initializer=_begin)
        pool, data = self._pool, packed(scan)
        shared = SharedMemory(create=True, size=len(data))
        memory: Any = shared.buf
        try:
            memory[: len(data)] = data

            def to_process(part: Matrix, low: int | None) -> Callable[[], PassResult]:
                if isinstance(part, RowSource) and (awaited := part.awaited()):
                    part = part.filled([one.fetched() for one in awaited])
                sent = packed(part)
                self.moved += len(sent)
                now = limits()
                return lambda: pool.submit(_run, shared.name, len(data), sent, low, now).result()

            for result in _in_window(parts_of(source, n), to_process, n + 1):
                self.moved += result.nbytes
                yield result
        except BrokenProcessPool:
            self.close()
            raise EngineError(
                "a process that screened rows ended abruptly: it may have been killed for want of memory. Give fewer "
                "processes=, and run it again."
            ) from None
        finally:
            memory[: len(data)] = bytes(len(data))
            del memory
            shared.close()
            shared.unlink()

    def close(self) -> None:
        """End the processes."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def __repr__(self) -> str:
        given = {"threads": self.threads, "processes": self.processes}
        return f"Local({', '.join(f'{name}={value}' for name, value in given.items() if value is not None)})"


def parts_of(source: RowSource, least: int) -> Iterator[Part]:
    """The parts of a source; each block is a part of its own where it has no parts, or fewer than ``least``."""
    parts = source.parts()
    low: int | None = 0
    if parts is None or len(parts) < least:
        for block in source:
            yield (block,), low
            assert low is not None
            low += len(block.y)
        return
    for part in parts:
        yield part, low
        low = None if low is None or part.n_rows is None else low + part.n_rows


def packed(value: Any, dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """A pass or a part as bytes, to be sent.

    Raises
    ------
    ConfigurationError
        When a function of the caller's, a map or a kernel, cannot be sent.
    """
    try:
        return dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        problem = (
            "engine= sends the model's parameters to other processes, and a function among them (feature_map=, "
            "kernel=) cannot be sent: define it in a module, not as a lambda or within another function."
        )
    raise ConfigurationError(problem)


def _in_window(
    parts: Iterator[Part], work_of: Callable[[Any, int | None], Callable[[], PassResult]], n: int
) -> Iterator[PassResult]:
    """The result of each part, as it is done by one of n threads; one more part waits, and none begins after an error.

    This thread touches no future and no pool: an interrupt would leave their locks locked, and nothing would end.
    """
    workers, news = Workers(), SimpleQueue[Any]()
    under_way: list[weakref.ref[Any]] = []
    missing = 0  # tasks that ended, less results
    for part, low in parts:
        under_way.append(workers.begin(partial(_report, news, work_of(part, low)), news))
        while len(under_way) > n:
            missing += yield from _next_event(workers, n, news, under_way)
    while under_way:
        missing += yield from _next_event(workers, n, news, under_way)
    if missing:
        raise EngineError("a thread that screened rows ended before it was done: run it again.")


def _report(news: SimpleQueue[Any], work: Callable[[], PassResult]) -> None:
    try:
        news.put((work(), None))
    except BaseException as error:
        news.put((None, error))


def _next_event(
    workers: Workers, n: int, news: SimpleQueue[Any], under_way: list[weakref.ref[Any]]
) -> Generator[PassResult, None, int]:
    """Wait for one event: yield the result of a task, or note that one ended. Returns ended tasks less results."""
    if not workers.at_least(n):
        raise EngineError("no thread can be started: end what else runs here, or give fewer threads=.")
    try:
        item = news.get(timeout=GLANCE)
    except Empty:  # some systems deliver no interrupt to a thread that waits for longer
        return 0
    if isinstance(item, weakref.ref):
        under_way.remove(item)
        return 1
    result, error = item
    if error is not None:
        raise error
    yield result
    return -1


# -- in another process ------------------------------------------------------------------------------------------

_passes: dict[str, Pass] = {}  # the present pass, by the name of the shared memory that it came in
_limit: Any = None


def _begin() -> None:
    global _limit
    _limit = threadpool_limits(limits=1)


def _run(name: str, size: int, part: bytes, low: int | None, limits: Limits) -> PassResult:
    if name not in _passes:
        _passes.clear()
        shared = SharedMemory(name)
        memory: Any = shared.buf
        _passes[name] = pickle.loads(bytes(memory[:size]))
        del memory
        shared.close()
    return _passes[name].run(pickle.loads(part), low, limits)
