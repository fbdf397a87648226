"""A Dask cluster: the one place that imports dask, which is optional.

Futures, no collections: this process lists the parts itself and keeps a bounded number of them under way, and the pass
is a task of its own. So whatever a worker held when it died, a part, a result or the pass, the scheduler makes again on
another worker; scattered data would be lost with its worker.
"""

from __future__ import annotations

import pickle
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from erasable.engines.device import on_device
from erasable.engines.device_hash import DeviceHash
from erasable.engines.local import Part, packed, parts_of
from erasable.errors import ConfigurationError, EngineError, ErasableError
from erasable.models.model import Model
from erasable.models.passes import Engine, Hashing, Limits, Pass, PassResult, Screening
from erasable.models.row_source import RowSource
from erasable.validation import optional_module, positive_number, text, whole_number
from erasable.version import VERSION

NO_SPILLING = {"data": dict}  # data of workers stays in memory, after a restart too
_TRIES = 3  # of a part whose result got lost


def distributed() -> ModuleType:
    """The module dask.distributed; ConfigurationError if it is not installed."""
    return optional_module("dask.distributed", "engine= dask needs Dask: pip install 'erasable[dask]'.")


class Dask(Engine):
    """Rows are screened by the workers of a Dask cluster; this process decides about those that survive.

    Parameters
    ----------
    scheduler : str or dask.distributed.Client, optional
        The address of a scheduler, such as ``"tcp://10.0.0.1:8786"``, or a client of one. By default a cluster is
        started on this machine, and ended by ``close``.
    workers : int, optional
        Of a cluster on this machine: so many processes, one thread each. By default one for each processor.
    device : str, optional
        What workers screen with: ``"cuda"`` or another device of PyTorch, see :class:`~erasable.engines.Torch`. By
        default NumPy.
    timeout : float, default=30.0
        Seconds to wait for the scheduler, and for a first worker.

    Notes
    -----
    Workers must have this version of the package, and read files at the same paths as this process, where rows come
    from files. They must not spill to disk, since spilled files hold rows: see docs/scale.md.
    *Cost*: for each pass one screen (8 d^2 bytes) to each worker, and the surviving rows back.

    Examples
    --------
    >>> from erasable.engines import Dask
    >>> engine = Dask("tcp://10.0.0.1:8786")  # connects when rows are learnt
    """

    sends = True

    def __init__(
        self,
        scheduler: Any = None,
        *,
        workers: int | None = None,
        device: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        if scheduler is not None and workers is not None:
            raise ConfigurationError("workers= is for a cluster on this machine, and scheduler= names another.")
        self.scheduler = scheduler
        self.workers = None if workers is None else whole_number(workers, "workers")
        self.device = None if device is None else text(device, "device")
        self.timeout = positive_number(timeout, "timeout")
        self._client: Any = None
        self._cluster: Any = None

    def screening(self, model: Model) -> Screening | None:
        """See :class:`~erasable.models.passes.Engine`."""
        found = super().screening(model)
        return found if self.device is None else on_device(found, self.device)

    def hashing(self) -> Hashing | None:
        """See :class:`~erasable.models.passes.Engine`."""
        return super().hashing() if self.device is None else DeviceHash(self.device)

    def results(self, source: RowSource, scan: Pass, limits: Callable[[], Limits]) -> Iterator[PassResult]:
        """See :class:`~erasable.models.passes.Engine`."""
        client = self._ready()
        threads = sum(worker["nthreads"] for worker in _known_workers(client).values())
        with _as_engine_errors():
            yield from _RunningPass(self, client, scan, limits).results(parts_of(source, threads), 2 * threads + 1)

    # -- the cluster -----------------------------------------------------------------------------------------------

    def _ready(self) -> Any:
        """A client whose workers fit, checked at the beginning of every pass."""
        made = distributed()
        with _as_engine_errors():
            if self._client is None or self._client.status not in ("running", "connecting"):
                self._client = self._connected(made)
            self._client.wait_for_workers(1, timeout=self.timeout)
            replies = self._client.run(_facts, on_error="return").values()
            failed = [reply for reply in replies if not isinstance(reply, tuple)]  # of workers that just died
            if len(failed) == len(replies) or not all(isinstance(reply, OSError) for reply in failed):
                raise failed[0] if failed else TimeoutError
            facts = [reply for reply in replies if isinstance(reply, tuple)]
        others = sum(found != VERSION for found, _ in facts)
        if others:
            raise EngineError(
                f"{others} of {len(facts)} workers have another version of erasable than this process, "
                f"{VERSION}: install the same everywhere."
            )
        spilling = sum(spills for _, spills in facts)
        if spilling:
            raise EngineError(
                f"{spilling} of {len(facts)} workers may write rows to disk when memory is short, where nothing erases "
                "them: start them with distributed.worker.memory.target and .spill set to False."
            )
        return self._client

    def _connected(self, made: ModuleType) -> Any:
        if isinstance(self.scheduler, made.Client):
            return self.scheduler
        if self.scheduler is not None:
            return made.Client(text(self.scheduler, "scheduler"), timeout=self.timeout, set_as_default=False)
        one_thread_each = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
        self._cluster = made.LocalCluster(n_workers=self.workers, **one_thread_each, **NO_SPILLING)
        return made.Client(self._cluster, timeout=self.timeout, set_as_default=False)

    def close(self) -> None:
        """Disconnect; a cluster that was started here is ended, a client that was given stays open."""
        client, self._client = self._client, None
        if client is not None and client is not self.scheduler:
            client.close()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def __repr__(self) -> str:
        where = repr(self.scheduler) if isinstance(self.scheduler, str) else ""
        return f"Dask({where})"


class _RunningPass:
    """One pass: the parts under way, and those that have to be sent again."""

    def __init__(self, engine: Dask, client: Any, scan: Pass, limits: Callable[[], Limits]) -> None:
        import cloudpickle

        self.engine, self.client, self.limits, self.dumps = engine, client, limits, cloudpickle.dumps
        self.name = f"erasable-{uuid.uuid4().hex}"
        self.data = packed(scan, self.dumps)
        self.under_way: dict[Any, tuple[bytes, int | None, list[Any], int]] = {}
        self.theirs: dict[Any, list[Any]] = {}  # keeps the objects that running parts need
        self.sent = 0
        self._send_scan()

    def _send_scan(self) -> None:
        self.engine.moved += len(self.data) * len(_known_workers(self.client))
        self.scan = self._submitted(_opened, self.data, key=f"{self.name}-pass-{self.sent}")

    def _submitted(self, *work: Any, key: str) -> Any:
        with warnings.catch_warnings():  # tasks carry rows and factors, so that they can be sent again
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self.client.submit(*work, key=key, pure=False)

    def _send(self, part: bytes, low: int | None, waiting: list[Any], tries: int) -> Any:
        self.sent += 1
        self.engine.moved += len(part)
        work = _run, self.scan, part, low, self.limits(), VERSION
        theirs = [one.future() for one in waiting]
        values = [self._for_this_client(value) for value in theirs]  # screened on the worker that has them
        future = self._submitted(*work, *values, key=f"{self.name}-{self.sent}")
        self.under_way[future], self.theirs[future] = (part, low, waiting, tries), theirs
        return future

    def _for_this_client(self, future: Any) -> Any:
        """The same future for our client."""
        if future.client is self.client:
            return future
        if future.client.scheduler.address != self.client.scheduler.address:
            raise EngineError(
                "the rows were persisted on another cluster than that of engine=: name its scheduler, or give its "
                "client, with engine=Dask(client)."
            )
        return distributed().Future(future.key, self.client)

    def results(self, parts: Iterator[Part], width: int) -> Iterator[PassResult]:
        coming = distributed().as_completed(loop=self.client.loop)
        try:
            for part, low in parts:
                awaited = part.awaited() if isinstance(part, RowSource) else []
                coming.add(self._send(packed(part, self.dumps), low, awaited, 1))
                if len(self.under_way) >= width:
                    yield from self._next(coming)
            while self.under_way:
                yield from self._next(coming)
        finally:
            self.client.cancel([*self.under_way, self.scan])

    def _next(self, coming: Any) -> Iterator[PassResult]:
        """The result of the part that is done first; none if it has to be sent again."""
        from concurrent.futures import CancelledError

        future = next(coming)
        part, low, waiting, tries = self.under_way.pop(future)
        try:
            result = future.result()
            del self.theirs[future]
        except CancelledError:
            if tries == _TRIES:
                raise
            if self.scan.status in ("cancelled", "lost"):
                self._send_scan()
            coming.add(self._send(part, low, waiting, tries + 1))
            return
        self.engine.moved += result.nbytes
        yield result


@contextmanager
def _as_engine_errors() -> Iterator[None]:
    """Failures of the cluster as errors that say what to do; those of rows as they are."""
    from concurrent.futures import CancelledError

    problem = ""
    made = distributed()
    try:
        yield
    except ErasableError:
        raise
    except made.KilledWorker:
        problem = (
            "several workers died over the same part of the rows: it may be more than their memory holds. Write the "
            "table in smaller row groups, or give workers more memory"
        )
    except (TimeoutError, OSError, CancelledError, made.scheduler.NoValidWorkerError, ImportError) as error:
        problem = (
            f"the Dask cluster does not answer, or cannot do the work ({type(error).__name__}): check the address of "
            "the scheduler, that it has workers, and that erasable is installed there"
        )
    if problem:  # here and not above, where it would carry the original, and with it perhaps values, along
        raise EngineError(f"{problem}. Nothing was saved; run it again.")


def _known_workers(client: Any) -> dict[str, Any]:
    workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return workers


# -- on a worker ---------------------------------------------------------------------------------------------------


def _facts(dask_worker: Any) -> tuple[str, bool]:
    """The version of this package on a worker, and whether it may write data to disk."""
    return VERSION, not isinstance(dask_worker.data, dict)


def _opened(data: bytes) -> object:
    return pickle.loads(data)


def _run(scan: Pass, part: bytes, low: int | None, limits: Limits, wanted: str, *values: Any) -> PassResult:
    if wanted != VERSION:  # of a worker that came later
        raise EngineError("a worker has another version of erasable: install the same everywhere.")
    rows = pickle.loads(part)
    return scan.run(rows.filled(values) if values else rows, low, limits)
