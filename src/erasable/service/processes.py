"""A child process that carries out calls, one at a time, so that this process does not wait for the interpreter.

Calls, arguments and results cross a socket that only these two processes have: nothing of it is in a command line, an
environment, a file or a log. The child ends with its parent, however that ends.
"""

from __future__ import annotations

import os
import pickle
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, TypeAlias, TypeVar

from erasable.errors import BusyError, UnknownOutcomeError

T = TypeVar("T")
Socket: TypeAlias = "Connection[Any, Any]"

_PATIENCE = 3600.0  # seconds without a result or progress
_AGAIN = "It is restarted, and asked again, with the next round."
APART = 2**16  # bytes: longer buffers cross by themselves, without being copied
# The child ignores what this interpreter was told to ignore; where modules are found is passed to it.
_FLAGS = {"ignore_environment": "-E", "no_user_site": "-s", "no_site": "-S"}
# The processors are set before anything is imported, so that predictions do not wait for imports. The niceness is set
# after the first call: on a busy machine imports of one second took half a minute with it, and the next call waited.
_BEGIN = """
import os, sys
end, niceness, allowed, *sys.path = sys.argv[1:]
try:
    if allowed:
        os.sched_setaffinity(0, map(int, allowed.split(",")))
except OSError:
    pass  # without permission it works all the same
from erasable.service.processes import carry_out_calls
carry_out_calls(int(end), int(niceness))
"""


def processors() -> set[int]:
    """The processors that this process may run on; none if the system does not say."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


class _EndedError(Exception):
    """The process has ended; ``asked`` says whether it may have begun the call."""

    def __init__(self, asked: bool) -> None:
        self.asked = asked


class Packed:
    """Bytes that cross to another process, and through this one, without being copied."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = parts

    @classmethod
    def of(cls, thing: object) -> Packed:
        """Anything that can be pickled, packed once; see ``opened``."""
        return cls(pickle.dumps(thing, 5))

    def opened(self) -> Any:
        """The object that was packed."""
        return pickle.loads(bytes(self))

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __bytes__(self) -> bytes:
        return b"".join(self._parts)

    def __reduce_ex__(self, _: object) -> tuple[Any, ...]:
        return Packed, tuple(map(pickle.PickleBuffer, self._parts))


class ChildProcess:
    """A process that carries out calls, on any processor but the first, which is left to predictions.

    ``first`` is a function and its arguments, called whenever the process has started; its outcome does not matter. The
    process has its ``niceness`` from then on. A call without a result or progress for ``patience`` seconds is given up
    and the process ended.
    """

    def __init__(self, niceness: int, first: tuple[Any, ...] | None = None, patience: float = _PATIENCE) -> None:
        self._niceness, self._first, self._patience = niceness, first, patience
        self._allowed = ",".join(map(str, sorted(processors())[1:]))  # read now: this process may be pinned later
        self._calling = threading.Lock()  # held by the thread whose call is carried out
        self._starting = threading.Lock()  # held while a process starts or is ended
        self._open, self._is_up = False, False
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: Socket | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process; None if none is running."""
        process = self._process
        return None if process is None else process.pid

    def begin(self) -> None:
        """Start the process, without waiting until it is up."""
        with self._calling:
            self._open = True
            self._started()

    def end(self) -> None:
        """End the process; a call that is carried out is cut short."""
        with self._starting:
            self._open = False
            if self._process is not None:
                self._process.kill()
        with self._calling:
            self._drop()

    def __call__(
        self,
        function: Callable[..., T],
        *arguments: Any,
        progress: Callable[..., object] | None = None,
        again: bool = True,
    ) -> T:
        """Return what a function returns in the child, or raise what it raises; if the child dies, try once more.

        The function is one of a module, and all arguments can be pickled. ``progress`` is called in this process
        whenever the function calls the ``progress`` that it is given there, which waits for it; an exception that it
        raises is raised there too. ``again`` says whether the call may be repeated if it is not known how far it came.
        Raises ``UnknownOutcomeError`` if the process died twice, or once if the call may not be repeated, or gave no
        sign of life, and ``BusyError`` if it was not started or was told to end.
        """
        with self._calling:
            try:
                succeeded, result = self._ask(function, arguments, progress)
            except _EndedError as ended:
                try:
                    if ended.asked and not again:
                        raise
                    succeeded, result = self._ask(function, arguments, progress)
                except _EndedError as error:
                    raise UnknownOutcomeError(f"a process of the service ended while it worked. {_AGAIN}") from error
        if not succeeded:
            raise result
        return result  # type: ignore[no-any-return]

    def _ask(
        self, function: Callable[..., object], arguments: tuple[Any, ...], progress: Callable[..., object] | None
    ) -> tuple[bool, Any]:
        """Whether the call succeeded, and its result or exception."""
        child, raised, asked = self._started(), None, False
        try:
            if not self._is_up:
                self._next(child)
                self._is_up = True
            _send(child, (function, arguments, progress is not None))
            asked = True
            while True:
                succeeded, result = self._next(child)
                if succeeded is not None:
                    return succeeded, result if succeeded or raised is None else raised
                try:
                    if progress is not None:
                        progress(*result)
                except Exception as error:
                    raised = error
                _send(child, None if raised is None else _sendable(raised))
        except BaseException as error:  # its next message would be taken for the answer to another call
            self._drop()
            if isinstance(error, EOFError | OSError) and not isinstance(error, UnknownOutcomeError):
                raise _EndedError(asked) from error
            raise

    def _next(self, child: Socket) -> Any:
        """The next message of the process."""
        if child.poll(self._patience):
            return _received(child)
        seconds = f"{self._patience:.3g}"
        raise UnknownOutcomeError(f"a process of the service gave no sign of life for {seconds} seconds. {_AGAIN}")

    def _started(self) -> Socket:
        with self._starting:
            if not self._open:
                raise BusyError("the service is not running, or is about to stop: start it.")
            if self._socket is None:
                ours, theirs = socket.socketpair()
                flags = [flag for name, flag in _FLAGS.items() if getattr(sys.flags, name)]
                with theirs:
                    end = theirs.fileno()
                    given = map(str, (end, self._niceness, self._allowed, *sys.path))
                    try:
                        self._process = subprocess.Popen(
                            [sys.executable, "-P", *flags, "-c", _BEGIN, *given],
                            stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL,
                            pass_fds=[end],
                        )
                    except OSError as error:
                        ours.close()
                        raise UnknownOutcomeError(f"a process of the service could not begin. {_AGAIN}") from error
                self._socket = Connection(ours.detach())
                with suppress(OSError):  # if it has ended already, the next call finds out
                    _send(self._socket, self._first)
            return self._socket

    def _drop(self) -> None:
        """End the process, so that the next call starts another."""
        with self._starting:
            process, child = self._process, self._socket
            self._process, self._socket, self._is_up = None, None, False
        if child is not None:
            child.close()
        if process is not None:
            process.kill()
            process.wait()


def import_all(*names: str) -> None:
    """Import modules, so that no call waits for them; those that are not installed are passed over."""
    for name in names:
        with suppress(ImportError):
            import_module(name)


def within_memory(more: int, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Return what a function returns, while this process may take so many bytes more than it has.

    Beyond them an allocation fails: with MemoryError, or with the end of the process where a library does not handle
    it. So this is for child processes. No limit is set where the system does not state what a process has.
    """
    try:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[5]) * resource.getpagesize()
    except OSError:
        return function(*arguments, **options)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [used + more, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        return function(*arguments, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def carry_out_calls(descriptor: int, niceness: int) -> None:
    """Serve calls in the child until the parent ends or closes the socket."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for all processes of a terminal or a unit: the parent drains
        signal.signal(number, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # a warning, such as that a class was emptied, must not reach a log
    parent: Socket = Connection(descriptor)
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(parent, calls), daemon=True).start()
    first = calls.get()
    if first is not None:
        with suppress(Exception):
            first[0](*first[1:])
    _stand_back(niceness)
    _send(parent, None)

    def report(*values: Any) -> None:
        _send(parent, (None, values))
        if (problem := calls.get()) is not None:  # the answer of the parent's ``progress``
            raise problem

    while True:
        function, arguments, reports = calls.get()
        progress = {"progress": report} if reports else {}
        try:
            answer = True, function(*arguments, **progress)
        except Exception as error:
            answer = False, _sendable(error)
        _send(parent, answer)
        del function, arguments, progress, answer  # no identity stays in memory while the process is idle


def _stand_back(niceness: int) -> None:
    """Add to the niceness of this process, and of threads that libraries have begun: on Linux each has its own."""
    threads = [0]
    with suppress(OSError):
        threads = [int(name) for name in os.listdir("/proc/self/task")]
    with suppress(OSError):  # without permission it works all the same
        own = os.getpriority(os.PRIO_PROCESS, 0)
        for thread in threads:
            os.setpriority(os.PRIO_PROCESS, thread, own + niceness)


def _listen(parent: Socket, calls: queue.SimpleQueue[Any]) -> None:
    """Queue calls; the end of the socket is the end of the process, whatever it is doing."""
    try:
        while True:
            try:
                calls.put(_received(parent))
            except (EOFError, OSError):
                break
            except Exception as error:  # the call cannot be unpickled
                calls.put((_raise, (_sendable(error),), False))
    finally:
        os._exit(0)


def _send(other: Socket, message: object) -> None:
    """Send a message; long buffers in it follow by themselves and hold up no other thread."""
    apart: list[memoryview] = []

    def is_short(part: pickle.PickleBuffer) -> bool:
        if len(part.raw()) >= APART:
            apart.append(part.raw())
        return len(part.raw()) < APART

    head = pickle.dumps(message, 5, buffer_callback=is_short)
    other.send_bytes(len(apart).to_bytes(4, "big") + head)
    for part in apart:
        other.send_bytes(part)


def _received(other: Socket) -> Any:
    head = other.recv_bytes()
    apart = [other.recv_bytes() for _ in range(int.from_bytes(head[:4], "big"))]
    return pickle.loads(memoryview(head)[4:], buffers=apart)


def _raise(error: Exception) -> None:
    raise error


def _sendable(error: Exception) -> Exception:
    """The error if it can be pickled; otherwise one that names its type."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(type(error).__name__)
    return error
