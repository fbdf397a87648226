"""A GPU, or any other device of PyTorch.

Only the screen of dense rows is computed there. This process decides exactly about rows that it cannot rule out.

*Why its float32 is enough.* ``core.deciding.screen`` makes, from a factor of ``H``, a float32 matrix ``M`` and a limit
such that a row ``x`` with ``fl(|M x|^2) <= limit`` has a leverage at or below the threshold. Its bounds are Higham's
for inner products, ``|fl(a'b) - a'b| <= gamma_d |a|'|b|`` with ``gamma_d = d u / (1 - d u)`` and ``u = 2**-24``. They
hold for *any order* of the d additions (Accuracy and Stability of Numerical Algorithms, section 3.1), with or without
fused multiply-add, which only leaves roundings out. The norms of ``x`` and of ``M x`` are sums of squares, all of one
sign, so their relative error is at most ``gamma_d`` in any order, and a rounded root adds one ``u``: the limit has room
for ``2 (d + 8) u`` on the root, twice of what is needed. A device may also flush results below ``2**-126`` to zero. Of
rows whose norm lies between 1e-10 and 1e10, and others are not screened, that moves a coordinate of ``M x`` by ``2 d
2**-126`` at most: less than ``2**-40`` of the error of the product that the limit is lowered by. So the limit of the
processor is that of any device that adds and multiplies in float32, and what a device lets through in excess, or not,
changes nothing: the survivors are decided again.

*What could break it* is a product that is not in float32: TF32 and bfloat16 keep 11 and 8 bits of the factors, and
settings and environment variables can switch them on. So before each pass a product is computed whose exact result
only float32 gets, see :func:`probe`.

*Rows on the device*, in a tensor or made by a feature map, stay there. They become float32 entry by entry, correctly
rounded as by NumPy, so the argument above holds for them. Survivors are copied.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import DeviceRows
from erasable.core.deciding import Screen
from erasable.core.grid import Grid
from erasable.core.kernel_selector import StalePoints
from erasable.core.selector import Mask, RawRows, StaleScreen, approximated
from erasable.engines.device_hash import Device, DeviceHash, Tensor, pytorch, torch_device
from erasable.engines.local import Local
from erasable.errors import ConfigurationError, EngineError
from erasable.models.model import Model
from erasable.models.passes import Hashing, Limits, Pass, PassResult, Screening
from erasable.models.row_source import RowSource
from erasable.validation import text, whole_number

_CHUNK_BYTES = 2**26  # of rows that are on the device together, twice in each thread
_FEWEST, _MOST = 256, 2**16  # rows at a time: with less memory than for the fewest, it is given up
_COPIERS = 4  # threads that copy rows into pinned memory
_PROBE_ROWS = 64


class Torch(Local):
    """Dense rows of linear models are screened by PyTorch: on a GPU, or on whatever device it has.

    Parameters
    ----------
    device : str, optional
        As PyTorch names it. By default ``"cuda"`` where there is a GPU, else ``"cpu"``.
    threads : int, default=2
        Threads that hash rows and feed the device.

    Notes
    -----
    Rows in a tensor of PyTorch, and those that a feature map makes on a device, are screened where they are. Contiguous
    float32 rows are copied unchanged, and from pinned memory directly. While one chunk is copied, another is
    multiplied. Where memory of the device is short, chunks are halved. The processor screens sparse rows.

    Examples
    --------
    >>> from erasable.engines import Torch
    >>> Torch("cpu")
    Torch('cpu')
    """

    block_bytes = 2**27

    def __init__(self, device: str | None = None, *, threads: int = 2) -> None:
        super().__init__(threads=whole_number(threads, "threads"))
        self.device = None if device is None else text(device, "device")

    def screening(self, model: Model) -> Screening | None:
        """See :class:`~erasable.models.passes.Engine`."""
        pytorch()  # refuses where it is not installed, before any row is read
        return on_device(super().screening(model), self.device)

    def hashing(self) -> Hashing:
        """See :class:`~erasable.models.passes.Engine`."""
        return DeviceHash(self.device)

    def results(self, source: RowSource, scan: Pass, limits: Callable[[], Limits]) -> Iterator[PassResult]:
        """See :class:`~erasable.models.passes.Engine`."""
        torch = pytorch()
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            yield from super().results(source, scan, limits)
        finally:
            torch.set_float32_matmul_precision(before)

    def __repr__(self) -> str:
        return f"Torch({'' if self.device is None else repr(self.device)})"


def on_device(screening: Screening | None, device: str | None) -> Screening | None:
    """A screen that computes on a device what another computes on the processor; None for None.

    Raises ConfigurationError when the screen is that of a kernel.
    """
    if isinstance(screening, StaleScreen):
        return DeviceScreen(screening, device)
    if isinstance(screening, StalePoints):
        raise ConfigurationError("engine= torch screens rows of linear models: for a kernel, leave it out.")
    return screening


class DeviceScreen:
    """``StaleScreen`` on a device. It can be sent, and is prepared and probed at its first use."""

    def __init__(self, stale: StaleScreen, device: str | None) -> None:
        self.stale, self.device = stale, device
        self._setup: _Ready | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"stale": self.stale, "device": self.device}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __call__(self, rows: RawRows) -> Mask:
        """Which rows cannot be discarded."""
        if rows.sparse or self.stale.of_dense is None:
            return self.stale(rows)
        ready = self.ready()
        while True:
            try:
                return ready.survivors(rows)
            except pytorch().OutOfMemoryError:
                pass
            ready.shrink()  # not in the handler, where the error would keep memory of the device

    def ready(self) -> _Ready:
        """The factor on the device, once a probe has shown that products there are in full float32."""
        with self._lock:
            if self._setup is None:
                screen = self.stale.of_dense
                assert screen is not None
                self._setup = _Ready(screen, self.stale.grid, self.device)
            return self._setup


class _Slot(threading.local):
    """The memory of each thread on the device: two streams, each with room for a chunk of rows."""

    lanes: list[_Lane] | None = None
    streams: Sequence[Any] = ()  # kept when chunks get smaller, since new streams would take memory of their own
    rows = 0


class _Lane:
    """A queue of the device with memory of its own; several run at the same time."""

    def __init__(self, torch: ModuleType, device: Device, shape: tuple[int, int], stream: Any) -> None:
        self.stream = stream
        self.rows = torch.empty(shape, dtype=torch.float32, device=device)
        self.products = torch.empty(shape, dtype=torch.float32, device=device)
        self.copied: Any = None if stream is None else torch.cuda.Event()
        self._torch, self._shape, self._pinned = torch, shape, None

    @property
    def pinned(self) -> Tensor:
        """Pinned memory of the host, allocated when it is first needed."""
        if self._pinned is None:
            self._pinned = self._torch.empty(self._shape, dtype=self._torch.float32, pin_memory=True)
        return self._pinned


class _Ready:
    """A screen on a device."""

    def __init__(self, screen: Screen, grid: Grid, device: str | None) -> None:
        torch = self.torch = pytorch()
        try:
            self.device = torch_device(device)
            self.M = torch.tensor(np.ascontiguousarray(screen.M.T), device=self.device)
        except torch.OutOfMemoryError:
            problem = "the device has too little free memory for the factor: end what else uses it."
        except (RuntimeError, AssertionError) as error:
            problem = f"PyTorch has no device {device!r} here ({type(error).__name__}): name another."
        else:
            problem = ""
        if problem:
            raise EngineError(problem)
        self.tail = None if screen.tail is None else torch.tensor(screen.tail, device=self.device)
        self.offset, self.limit, self.grid = screen.offset, screen.limit, grid
        self.d = len(screen.M)
        self.step = min(_MOST, max(_FEWEST, _CHUNK_BYTES // (4 * self.d)))
        self.slot, self.copiers = _Slot(), ThreadPoolExecutor(_COPIERS)
        torch.set_float32_matmul_precision("highest")
        while True:
            try:
                return probe(torch, self.device, self.step, self.d)
            except torch.OutOfMemoryError:
                pass
            self.shrink()

    def shrink(self) -> None:
        """Take fewer rows at a time; raises EngineError when they become too few."""
        self.slot.lanes = None
        self.step //= 2
        if self.device.type == "cuda":
            self.torch.cuda.empty_cache()
        if self.step < _FEWEST:
            raise EngineError(
                f"the device has too little free memory to screen {2 * self.step} rows of {self.d} columns at a time: "
                "end what else uses it, or take another engine."
            )

    # -- rows in memory ---------------------------------------------------------------------------------------------

    def survivors(self, rows: RawRows) -> Mask:
        """Which rows cannot be discarded."""
        torch, n = self.torch, len(rows)
        alive = torch.empty(n, dtype=torch.bool, device=self.device)
        plain = _unchanged(rows)
        pinned = plain is not None and plain.flags.writeable and torch.from_numpy(plain).is_pinned()
        step = self.step
        for i, low in enumerate(range(0, n, step)):
            high = min(n, low + step)
            if plain is not None:
                factors, index = None, None if rows.order is None else rows.order[low:high]
                X = plain[low:high] if index is None else plain
            else:
                part = rows.in_place(slice(low, high))
                if isinstance(part, DeviceRows):
                    alive[low:high] = self.test(*self.scaled(part.tensor))
                    continue
                dense = part if isinstance(part, np.ndarray) else part.toarray()
                (X, factors), index = approximated(dense, self.grid, copy=False), None
            lanes = self._lanes(step)
            self._queue(lanes[i % len(lanes)], X, index, factors, alive[low:high], pinned)
        for lane in self.slot.lanes or ():
            if lane.stream is not None:
                lane.stream.synchronize()
        left: Mask = alive.cpu().numpy()
        return left

    def _lanes(self, step: int) -> list[_Lane]:
        if self.slot.lanes is None or self.slot.rows != step:
            self.slot.lanes = None  # released before others are made
            self.slot.rows = step
            if not self.slot.streams:
                cuda = self.device.type == "cuda"
                self.slot.streams = [self.torch.cuda.Stream(self.device) for _ in range(2)] if cuda else [None]
            shape = step, self.d
            self.slot.lanes = [_Lane(self.torch, self.device, shape, stream) for stream in self.slot.streams]
        return self.slot.lanes

    def _queue(self, lane: _Lane, X: npt.NDArray[Any], index: Any, factors: Any, alive: Tensor, pinned: bool) -> None:
        """Queue in a lane: copy rows, those at an index or all, to the device and test them."""
        torch, n = self.torch, len(alive)
        given = None if factors is None else torch.from_numpy(factors)
        if lane.stream is None:
            rows = lane.rows[:n]
            here = rows if self.device.type == "cpu" else torch.empty(rows.shape, dtype=rows.dtype)
            _copy(here.numpy(), X, index, slice(0, n))
            if here is not rows:
                rows.copy_(here)
                given = None if given is None else given.to(self.device)
            alive.copy_(self.test(rows, given, lane.products))
            return
        if pinned and index is None:
            source = torch.from_numpy(X)
        else:
            lane.copied.synchronize()  # of the chunk before
            source = lane.pinned[:n]
            target, step = source.numpy(), -(-n // _COPIERS)
            cuts = [slice(low, low + step) for low in range(0, n, step)]
            list(self.copiers.map(lambda cut: _copy(target, X, index, cut), cuts))
        with torch.cuda.stream(lane.stream):
            lane.rows[:n].copy_(source, non_blocking=True)
            lane.copied.record(lane.stream)
            given = None if given is None else given.to(self.device, non_blocking=True)
            alive.copy_(self.test(lane.rows[:n], given, lane.products))

    # -- rows on the device ----------------------------------------------------------------------------------------

    def scaled(self, X: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows of any floats, on any device, as :meth:`test` takes them: as ``core.selector.approximated`` has them."""
        torch, grid, X = self.torch, self.grid, X.to(self.device)
        if not grid.normalises:
            factor = grid.stretch / (1.0 if grid.scaling is None else float(grid.scaling))  # type: ignore[arg-type]
            return (X.double() * factor).float(), torch.ones(len(X), dtype=torch.float64, device=self.device)
        if isinstance(grid.scaling, tuple):
            X = X.double() / torch.tensor(grid.scaling, dtype=torch.float64, device=self.device)
        return X.float(), None

    def test(self, X: Tensor, factors: Tensor | None = None, products: Tensor | None = None) -> Tensor:
        """Which rows on the device cannot be discarded: a tensor of booleans there.

        Parameters
        ----------
        X : tensor of shape (n, d), float32, on the device
        factors : tensor of shape (n,), float64, optional
            As in ``core.deciding.survivors``; by default each row is divided by its own norm.
        products : tensor of shape (n or more, d), float32, optional
            Is overwritten.
        """
        torch = self.torch
        Y = torch.mm(X, self.M, out=None if products is None else products[: len(X)])
        if factors is None:
            norm = torch.linalg.vector_norm(X, dim=1).double()
            known = (norm > 1e-10) & (norm < 1e10)
            # Outside this range float32 may have lost a row: not screened.
            factors = torch.where(known, self.grid.stretch / norm, math.nan)
        square = (factors * torch.linalg.vector_norm(Y, dim=1).double()).square()
        if self.tail is not None:
            square += (factors * torch.mv(X, self.tail).double() + self.offset).square()
        return ~(square <= self.limit)


def probe(torch: ModuleType, device: Device, rows: int, d: int) -> None:
    """Raise EngineError for a device whose products are not in full float32.

    The rows of a first factor are odd integers of 13 bits, and the columns of a second have at most 1,024 entries that
    are 1 or -1, so all partial sums are integers below ``2**24``: float32 gets them exactly, in any order. With 11 bits
    or 8, every entry is rounded, and sums of roundings that are not zero are wrong. Then the other way round. Last,
    rows with one entry of 24 bits times columns of such: each result is one product, correctly rounded, which those
    that are put together from shorter ones miss. All have the shape of the products to come.
    """
    rng = np.random.default_rng(13)
    class_of = np.arange(d) % -(-d // 1024)

    def odd(*shape: int) -> npt.NDArray[np.int16]:
        return rng.integers(2**11, 2**12, shape, dtype=np.int16) * 2 + 1

    def signs(*shape: int) -> npt.NDArray[np.int8]:
        return rng.integers(0, 2, shape, dtype=np.int8) * 2 - 1

    one, at = np.zeros((_PROBE_ROWS, d), dtype=np.float32), rng.integers(d, size=_PROBE_ROWS)
    one[np.arange(_PROBE_ROWS), at] = 1 + rng.random(_PROBE_ROWS, dtype=np.float32)
    for A, B in (
        (odd(_PROBE_ROWS, d), signs(d, d) * (class_of == class_of[:, None])),
        (signs(_PROBE_ROWS, d) * (class_of == 0), odd(d, d)),
        (one, 1 + rng.random((d, d), dtype=np.float32)),
    ):
        exact = A.astype(np.float64) @ B.astype(np.float64)  # integers, or of one product each
        few, many, wanted = (torch.from_numpy(part.astype(np.float32)).to(device) for part in (A, B, exact))
        times = -(-rows // _PROBE_ROWS)
        found = torch.mm(few.repeat(times, 1)[:rows], many)
        if not torch.equal(found, wanted.repeat(times, 1)[:rows]):
            raise EngineError(
                "products on the device are not in full float32, so the screen would not be safe: switch TF32 and "
                "other short formats off (NVIDIA_TF32_OVERRIDE, TORCH_ALLOW_TF32_CUBLAS_OVERRIDE)."
            )


def _unchanged(rows: RawRows) -> npt.NDArray[np.float32] | None:
    """The array of rows that can be copied unchanged; None if they have to be prepared first."""
    plain = type(rows) is RawRows and rows.grid.scaling == "row" and isinstance(rows.X, np.ndarray)
    return rows.X if plain and rows.X.dtype == np.float32 and rows.X.flags.c_contiguous else None


def _copy(target: npt.NDArray[Any], X: npt.NDArray[Any], index: Any, cut: slice) -> None:
    """Copy some of the rows, or of those at an index, to their places in a target."""
    if index is None:
        np.copyto(target[cut], X[cut])
    else:
        X.take(index[cut], axis=0, out=target[cut], mode="clip")  # any other mode would need memory of its own
