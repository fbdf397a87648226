"""Threads and processes of this machine."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.shared_memory import SharedMemory
from typing import Any

from threadpoolctl import threadpool_limits

from erasable.engines.sending import awaited, in_window, packed, parts_of
from erasable.errors import ConfigurationError, EngineError
from erasable.models.passes import Engine, Limits, Seen, Sieve
from erasable.validation import whole_number


class Local(Engine):
    """Rows are screened on this machine: one block after the other, or several at a time.

    Parameters
    ----------
    threads : int, optional
        So many threads, one block each, with one thread of BLAS in each. Good where products take the time: many
        columns. By default none: one block after the other, with the threads that BLAS has.
    processes : int, optional
        So many processes instead. Good where reading and encoding take the time: files in parts (Parquet) are read by
        them; other rows are sent there. A script that uses it has to be importable: its work goes under
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
    >>> here, there = (ErasableClassifier(engine=engine).fit(X, X[:, 0] > 0) for engine in (None, Local(threads=2)))
    >>> here.state_digest() == there.state_digest()
    True
    """

    def __init__(self, *, threads: int | None = None, processes: int | None = None) -> None:
        if threads is not None and processes is not None:
            raise ConfigurationError("threads= and processes= are two ways to do the same: give one of them.")
        self.threads = None if threads is None else whole_number(threads, "threads")
        self.processes = None if processes is None else whole_number(processes, "processes")
        self.sends = processes is not None
        self._pool: ProcessPoolExecutor | None = None

    def seen(self, blocks: Any, sieve: Sieve, limits: Callable[[], Limits]) -> Iterator[Seen]:
        """See :class:`~erasable.models.passes.Engine`."""
        if self.processes is not None:
            return self._in_processes(blocks, sieve, limits, self.processes)
        if self.threads is not None:
            return self._in_threads(blocks, sieve, limits, self.threads)
        return super().seen(blocks, sieve, limits)

    def _in_threads(self, blocks: Any, sieve: Sieve, limits: Callable[[], Limits], n: int) -> Iterator[Seen]:
        with threadpool_limits(limits=1), ThreadPoolExecutor(n) as pool:
            yield from in_window(
                parts_of(blocks, n), lambda part, low: pool.submit(sieve.seen, part, low, limits()), n + 1
            )

    def _in_processes(self, blocks: Any, sieve: Sieve, limits: Callable[[], Limits], n: int) -> Iterator[Seen]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(n, get_context("spawn"), initializer=_begin)
        pool, data = self._pool, packed(sieve)
        shared = SharedMemory(create=True, size=len(data))
        memory: Any = shared.buf
        try:
            memory[: len(data)] = data

            def submit(part: Any, low: int | None) -> Future[Seen]:
                if waiting := awaited(part):
                    part = part.filled([one.fetched() for one in waiting])
                sent = packed(part)
                self.moved += len(sent)
                return pool.submit(_look, shared.name, len(data), sent, low, limits())

            for seen in in_window(parts_of(blocks, n), submit, n + 1):
                self.moved += seen.nbytes
                yield seen
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


# -- in another process ------------------------------------------------------------------------------------------

_known: dict[str, Sieve] = {}  # the sieve of the pass that is under way, by the name of the memory that it came in
_limit: Any = None


def _begin() -> None:
    global _limit
    _limit = threadpool_limits(limits=1)


def _look(name: str, size: int, part: bytes, low: int | None, limits: Limits) -> Seen:
    if name not in _known:
        _known.clear()
        shared = SharedMemory(name)
        memory: Any = shared.buf
        _known[name] = pickle.loads(bytes(memory[:size]))
        del memory
        shared.close()
    return _known[name].seen(pickle.loads(part), low, limits)
