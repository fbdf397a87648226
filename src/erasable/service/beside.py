"""A process beside this one that carries out calls, one at a time, so that nobody here waits for the interpreter.

What is called, with what, and what comes back goes over a socket that these two alone have: nothing of it is in a
command line, an environment, a file or a log. The process ends with this one, however that ends.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from erasable.errors import BusyError, UnknownOutcomeError

T = TypeVar("T")

_PATIENCE = 3600.0  # seconds without a sign of life
_AGAIN = "It is begun anew, and asked again, with the next round."
APART = 2**16  # bytes: what is longer crosses by itself, without being copied
# What the interpreter was told to leave alone, its processes leave alone too; where modules are found, they are told.
_FLAGS = {"ignore_environment": "-E", "no_user_site": "-s", "no_site": "-S"}
# It stands back, and keeps to its processors, before it imports anything: whoever began it may be in a hurry.
_BEGIN = """
import os, sys
end, niceness, allowed, *sys.path = sys.argv[1:]
try:
    os.nice(int(niceness))
    if allowed:
        os.sched_setaffinity(0, map(int, allowed.split(",")))
except OSError:
    pass  # where it may not, it works all the same
from erasable.service.beside import carry_out_calls
carry_out_calls(int(end))
"""


def processors() -> set[int]:
    """Those that this process may run on; none where the system does not say."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


class _GoneError(Exception):
    """The process has ended; ``asked`` says whether it may have begun with what it was asked."""

    def __init__(self, asked: bool) -> None:
        self.asked = asked


class Parcel:
    """Bytes that cross to another process, and through this one, as they are: nobody waits while they are copied."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = parts

    @classmethod
    def of(cls, thing: Any) -> Parcel:
        """Anything that can be pickled, packed once; see ``opened``."""
        return cls(pickle.dumps(thing, 5))

    def opened(self) -> Any:
        """What was packed."""
        return pickle.loads(bytes(self))

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __bytes__(self) -> bytes:
        return b"".join(self._parts)

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return Parcel, tuple(map(pickle.PickleBuffer, self._parts))


class Here:
    """The same without another process: calls are carried out in this one."""

    def begin(self) -> None:
        """Nothing has to."""

    def end(self) -> None:
        """Nothing has to."""

    def __call__(self, function: Callable[..., T], *arguments: Any, again: bool = True, **progress: Any) -> T:
        """See :class:`Beside`."""
        return function(*arguments, **progress)


class Beside:
    """A process that carries out calls, on any processor but the first: that is left to those who are waited for.

    Parameters
    ----------
    niceness : int
        How far it stands back where there are fewer processors than work: as in ``os.nice``.
    first : tuple of a function and its arguments, optional
        Called whenever the process has begun, before it is asked for anything. What becomes of it does not matter.
    patience : float
        Seconds without a result or progress after which a call is given up and the process ended.
    """

    def __init__(self, niceness: int, first: tuple[Any, ...] | None = None, patience: float = _PATIENCE) -> None:
        self._niceness, self._first, self._patience = niceness, first, patience
        self._allowed = ",".join(map(str, sorted(processors())[1:]))  # now: this process may keep to the first later
        self._turn = threading.Lock()  # held by the thread whose call is carried out
        self._door = threading.Lock()  # held while a process begins or is ended
        self._open, self._answers = False, False
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection[Any, Any] | None = None

    @property
    def pid(self) -> int | None:
        """The number of the process; None where there is none."""
        process = self._process
        return None if process is None else process.pid

    def begin(self) -> None:
        """Let there be a process; it takes a moment until it answers, and nobody waits for that here."""
        with self._turn:
            self._open = True
            self._begun()

    def end(self) -> None:
        """There is no process any more; what it was carrying out is cut short."""
        with self._door:
            self._open = False
            if self._process is not None:
                self._process.kill()
        with self._turn:
            self._drop()

    def __call__(
        self,
        function: Callable[..., T],
        *arguments: Any,
        progress: Callable[..., object] | None = None,
        again: bool = True,
    ) -> T:
        """What a function gives, or raises, over there; where the process dies meanwhile, another is asked once more.

        Parameters
        ----------
        function : callable
            Of a module, by its name.
        arguments
            Such as can be pickled.
        progress : callable, optional
            Called here whenever the function calls the ``progress`` that it is handed there, which waits for it; what
            it raises is raised there too.
        again : bool, default=True
            Whether the function may be carried out again where it is not known how far it came.

        Raises
        ------
        UnknownOutcomeError
            When the process died twice, or once where it may not be asked again, or gave no sign of life.
        BusyError
            When it has not begun, or was told to end.
        """
        with self._turn:
            try:
                went_well, told = self._asked(function, arguments, progress)
            except _GoneError as gone:
                try:
                    if gone.asked and not again:
                        raise
                    went_well, told = self._asked(function, arguments, progress)
                except _GoneError as error:
                    raise UnknownOutcomeError(f"a process of the service ended while it worked. {_AGAIN}") from error
        if not went_well:
            raise told
        return told  # type: ignore[no-any-return]

    def _asked(self, function: Any, arguments: Any, progress: Any) -> tuple[bool, Any]:
        """Whether it went well, and what came of it."""
        line, raised, asked = self._begun(), None, False
        try:
            if not self._answers:
                self._news(line)
                self._answers = True
            _send(line, (function, arguments, progress is not None))
            asked = True
            while True:
                went_well, told = self._news(line)
                if went_well is not None:
                    return went_well, told if went_well or raised is None else raised
                try:
                    if progress is not None:
                        progress(*told)
                except Exception as error:
                    raised = error
                _send(line, None if raised is None else _plain(raised))
        except BaseException as error:  # what it said next would be taken for an answer to something else
            self._drop()
            if isinstance(error, EOFError | OSError) and not isinstance(error, UnknownOutcomeError):
                raise _GoneError(asked) from error
            raise

    def _news(self, line: Connection[Any, Any]) -> Any:
        """What the process says next."""
        if line.poll(self._patience):
            return _received(line)
        seconds = f"{self._patience:.3g}"
        raise UnknownOutcomeError(f"a process of the service gave no sign of life for {seconds} seconds. {_AGAIN}")

    def _begun(self) -> Connection[Any, Any]:
        with self._door:
            if not self._open:
                raise BusyError("the service is not running, or is about to stop: start it.")
            if self._line is None:
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
                self._line = Connection(ours.detach())
                with suppress(OSError):  # it is gone already, which whoever asks is told
                    _send(self._line, self._first)
            return self._line

    def _drop(self) -> None:
        """No process, until there is to be one."""
        with self._door:
            process, line = self._process, self._line
            self._process, self._line, self._answers = None, None, False
        if line is not None:
            line.close()
        if process is not None:
            process.kill()
            process.wait()


def carry_out_calls(descriptor: int) -> None:
    """What the process does, until whoever began it is gone or has had enough of it."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for all processes of a terminal or a unit: the other drains
        signal.signal(number, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # whether the last row of a class left, say, is for nobody who reads a log
    line: Connection[Any, Any] = Connection(descriptor)
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(line, asked), daemon=True).start()
    first = asked.get()
    if first is not None:
        with suppress(Exception):
            first[0](*first[1:])
    _send(line, None)

    def tell(*told: Any) -> None:
        _send(line, (None, told))
        if (problem := asked.get()) is not None:  # how it was taken
            raise problem

    while True:
        function, arguments, tells = asked.get()
        progress = {"progress": tell} if tells else {}
        try:
            answer = True, function(*arguments, **progress)
        except Exception as error:
            answer = False, _plain(error)
        _send(line, answer)
        del function, arguments, progress, answer  # nobody whom they name stays while nothing is asked


def _listen(line: Connection[Any, Any], asked: queue.SimpleQueue[Any]) -> None:
    """Hand on what is asked; the end of the line is the end of the process, whatever it is doing."""
    try:
        while True:
            try:
                asked.put(_received(line))
            except (EOFError, OSError):
                break
            except Exception as error:  # it cannot be read here
                asked.put((_failing, (_plain(error),), False))
    finally:
        os._exit(0)


def _send(line: Connection[Any, Any], what: Any) -> None:
    """Say something; what is long in it goes after it, by itself, and holds up no other thread."""
    apart: list[memoryview] = []

    def is_short(part: pickle.PickleBuffer) -> bool:
        if len(part.raw()) >= APART:
            apart.append(part.raw())
        return len(part.raw()) < APART

    head = pickle.dumps(what, 5, buffer_callback=is_short)
    line.send_bytes(len(apart).to_bytes(4, "big") + head)
    for part in apart:
        line.send_bytes(part)


def _received(line: Connection[Any, Any]) -> Any:
    head = line.recv_bytes()
    apart = [line.recv_bytes() for _ in range(int.from_bytes(head[:4], "big"))]
    return pickle.loads(memoryview(head)[4:], buffers=apart)


def _failing(error: Exception) -> None:
    raise error


def _plain(error: Exception) -> Exception:
    """The error where it can be sent; otherwise of what kind it is."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(type(error).__name__)
    return error
