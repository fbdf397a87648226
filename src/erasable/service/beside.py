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
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from erasable.errors import BusyError, UnknownOutcomeError

T = TypeVar("T")

_PATIENCE = 600.0  # seconds without a sign of life
_AGAIN = "It is begun anew, and asked again, with the next round."


def processors() -> set[int]:
    """Those that this process may run on; none where the system does not say."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


class _GoneError(Exception):
    """The process has ended."""


class Here:
    """The same without another process: calls are carried out in this one."""

    def begin(self) -> None:
        """Nothing has to."""

    def end(self) -> None:
        """Nothing has to."""

    def __call__(self, function: Callable[..., T], *arguments: Any, **progress: Any) -> T:
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
        self._processors = sorted(processors())[1:]
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

    def is_starting(self) -> bool:
        """Whether it does not answer yet, and nobody has asked."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            return not self._answers and (self._line is None or not self._line.poll())
        finally:
            self._turn.release()

    def end(self) -> None:
        """There is no process any more; what it was carrying out is cut short."""
        with self._door:
            self._open = False
            if self._process is not None:
                self._process.kill()
        with self._turn:
            self._drop()

    def __call__(self, function: Callable[..., T], *arguments: Any, progress: Callable[..., object] | None = None) -> T:
        """What a function gives, or raises, over there; where the process dies meanwhile, another is asked once more.

        So it has to be one that may be carried out again.

        Parameters
        ----------
        function : callable
            Of a module, by its name.
        arguments
            Such as can be pickled.
        progress : callable, optional
            Called here whenever the function calls the ``progress`` that it is handed there, which waits for it; what
            it raises is raised there too.

        Raises
        ------
        UnknownOutcomeError
            When the process died twice, or gave no sign of life.
        BusyError
            When it has not begun, or was told to end.
        """
        with self._turn:
            try:
                went_well, told = self._asked(function, arguments, progress)
            except _GoneError:
                try:
                    went_well, told = self._asked(function, arguments, progress)
                except _GoneError as error:
                    raise UnknownOutcomeError(f"a process of the service ended while it worked. {_AGAIN}") from error
        if not went_well:
            raise told
        return told  # type: ignore[no-any-return]

    def _asked(self, function: Any, arguments: Any, progress: Any) -> tuple[bool, Any]:
        """Whether it went well, and what came of it."""
        line, raised = self._begun(), None
        try:
            if not self._answers:
                self._news(line)
                self._answers = True
            self._say(line, (function, arguments, progress is not None))
            while True:
                went_well, told = self._news(line)
                if went_well is not None:
                    return went_well, told if went_well or raised is None else raised
                try:
                    if progress is not None:
                        progress(*told)
                except Exception as error:
                    raised = error
                self._say(line, None if raised is None else _plain(raised))
        except BaseException:  # what it said next would be taken for an answer to something else
            self._drop()
            raise

    def _say(self, line: Connection[Any, Any], what: Any) -> None:
        try:
            line.send(what)
        except OSError as error:
            raise _GoneError from error

    def _news(self, line: Connection[Any, Any]) -> Any:
        """What the process says next."""
        try:
            if line.poll(self._patience):
                return line.recv()
        except (EOFError, OSError) as error:
            raise _GoneError from error
        seconds = f"{self._patience:.3g}"
        raise UnknownOutcomeError(f"a process of the service gave no sign of life for {seconds} seconds. {_AGAIN}")

    def _begun(self) -> Connection[Any, Any]:
        with self._door:
            if not self._open:
                raise BusyError("the service is not running, or is about to stop: start it.")
            if self._line is None:
                ours, theirs = socket.socketpair()
                with theirs:
                    end = theirs.fileno()
                    given = map(str, (end, self._niceness, *self._processors))
                    try:
                        self._process = subprocess.Popen(
                            [sys.executable, "-P", "-m", __name__, *given],
                            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))},
                            stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL,
                            pass_fds=[end],
                        )
                    except OSError as error:
                        ours.close()
                        raise UnknownOutcomeError(f"a process of the service could not begin. {_AGAIN}") from error
                self._line = Connection(ours.detach())
                with suppress(OSError):  # it is gone already, which whoever asks is told
                    self._line.send(self._first)
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


def carry_out_calls(descriptor: int, niceness: int, *allowed: int) -> None:
    """What the process does, until whoever began it is gone or has had enough of it."""
    with suppress(OSError):  # where it may not, it works all the same
        os.nice(niceness)
        if allowed:
            os.sched_setaffinity(0, allowed)
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for all processes of a terminal or a unit: the other drains
        signal.signal(number, signal.SIG_IGN)
    line: Connection[Any, Any] = Connection(descriptor)
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(line, asked), daemon=True).start()
    first = asked.get()
    if first is not None:
        with suppress(Exception):
            first[0](*first[1:])
    line.send(None)

    def tell(*told: Any) -> None:
        line.send((None, told))
        if (problem := asked.get()) is not None:  # how it was taken
            raise problem

    while True:
        function, arguments, tells = asked.get()
        progress = {"progress": tell} if tells else {}
        try:
            answer = True, function(*arguments, **progress)
        except Exception as error:
            answer = False, _plain(error)
        line.send(answer)
        del function, arguments, progress, answer  # nobody whom they name stays while nothing is asked


def _listen(line: Connection[Any, Any], asked: queue.SimpleQueue[Any]) -> None:
    """Hand on what is asked; the end of the line is the end of the process, whatever it is doing."""
    try:
        while True:
            try:
                asked.put(line.recv())
            except (EOFError, OSError):
                break
            except Exception as error:  # it cannot be read here
                asked.put((_failing, (_plain(error),), False))
    finally:
        os._exit(0)


def _failing(error: Exception) -> None:
    raise error


def _plain(error: Exception) -> Exception:
    """The error where it can be sent; otherwise of what kind it is."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(type(error).__name__)
    return error


if __name__ == "__main__":
    carry_out_calls(*map(int, sys.argv[1:]))
