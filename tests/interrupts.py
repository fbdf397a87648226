"""Interrupts learning, forgetting and verifying at random instructions, and looks at what is left.

    python -m tests.interrupts SEED CASES

prints one line of JSON. It is a process of its own, since its exit is part of what is looked at. Cases differ by:

- the work: fit, learn, forget, verify, and rows screened by an engine's threads;
- where the interrupt is raised: at any instruction of the main thread (a trace function), at any instruction of a
  helping thread (a trace function, or PyThreadState_SetAsyncExc), or wherever a signal arrives;
- whether a second interrupt follows, at any call or return soon after the first.
"""

from __future__ import annotations

import copy
import ctypes
import faulthandler
import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from threadpoolctl import ThreadpoolController, threadpool_limits

from erasable import ErasableClassifier
from erasable.core import deciding, products, selector, threads
from erasable.engines import Local
from erasable.errors import ChangedMeanwhileError
from erasable.estimators import validated

_N_THREADS = 3
_PATIENCE = 60.0  # seconds for what should take much less than one; a loaded machine is slow


class Interrupt(KeyboardInterrupt):
    """Tells interrupts of this harness from others."""


def blas_threads() -> list[int]:
    return [library.get_num_threads() for library in _CONTROLLER.lib_controllers]


_CONTROLLER = ThreadpoolController().select(user_api="blas")


_OVER: list[None] = []  # cases that are over: what comes too late raises nothing


# -- raising ------------------------------------------------------------------------------------------------------


class AtInstruction:
    """Raises at the n-th instruction of the thread that it traces; n counts those seen without raising."""

    def __init__(self, n: int | None) -> None:
        self.n, self.seen, self.where, self.case = n, 0, "", len(_OVER)

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if len(_OVER) != self.case:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event != "exception":
            self.seen += 1
            if self.seen == self.n:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise Interrupt
        return self


class AfterFirst:
    """A profile function that raises at the n-th call or return after the trace function has raised."""

    def __init__(self, first: AtInstruction, n: int) -> None:
        self.first, self.left = first, n

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if self.first.where and len(_OVER) == self.first.case:
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                raise Interrupt


def in_main(work: Callable[[], Any], n: int | None, then: int | None) -> AtInstruction:
    tracer = AtInstruction(n)
    if then is not None:
        sys.setprofile(AfterFirst(tracer, then))
    sys.settrace(tracer)
    work()
    sys.settrace(None)
    return tracer


def in_helpers(work: Callable[[], Any], n: int | None) -> AtInstruction:
    """Raise at the n-th instruction of threads that begin meanwhile."""
    tracer = AtInstruction(n)
    _new_helpers()
    threading.settrace(tracer)
    try:
        work()
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
        _new_helpers()
    return tracer


def _new_helpers() -> None:
    threads._workers = threads.Workers()


def asynchronously(work: Callable[[], Any], delays: list[float]) -> None:
    """Raise in all threads but this one and the attacker, after each delay."""
    raise_in, main, ended = ctypes.pythonapi.PyThreadState_SetAsyncExc, threading.get_ident(), threading.Event()

    def attack() -> None:
        for delay in delays:
            time.sleep(delay)
            if ended.is_set():
                return
            for thread in list(sys._current_frames()):
                if thread not in (main, threading.get_ident()):
                    raise_in(ctypes.c_ulong(thread), ctypes.py_object(Interrupt))

    attacker = threading.Thread(target=attack, daemon=True)
    attacker.start()
    try:
        work()
    finally:
        ended.set()
        attacker.join()


def by_signals(work: Callable[[], Any], delays: list[float]) -> None:
    """Raise wherever a signal arrives: after the first delay, and after each further one in turn."""
    coming = iter(delays)
    case = len(_OVER)

    def handler(_number: int, _frame: object) -> None:
        if len(_OVER) != case:
            return
        following = next(coming, None)
        if following is not None:
            signal.setitimer(signal.ITIMER_REAL, following)
        raise Interrupt

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, next(coming))
    work()


# -- the work -----------------------------------------------------------------------------------------------------


class Scene:
    """A model, what may be done with it, and what it is afterwards."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.standard_normal((1200, 12)) * 0.8 ** np.arange(12)
        self.y = self.X[:, 0] > 0
        self.model = self.new().fit(self.X[:700], self.y[:700], ids=range(700))
        self.works: dict[str, Callable[[Any], Any]] = {
            "fit": lambda model: model.fit(self.X, self.y, ids=range(1200)),
            "learn": lambda model: model.learn(self.X[700:], self.y[700:], ids=range(700, 1200)),
            "forget": lambda model: model.forget(ids=range(0, 700, 3)),
            "verify": lambda model: model.fitted_model("verify").verify(),
            "engine": lambda model: model.set_params(engine=Local(threads=2)).fit(self.X, self.y, ids=range(1200)),
        }
        self.before = self.model.state_digest()
        self.after = {name: self.digest_after(work) for name, work in self.works.items()}

    @staticmethod
    def new() -> ErasableClassifier:
        return ErasableClassifier(1.0, threshold=0.05, loss="squared")

    def digest_after(self, work: Callable[[Any], Any]) -> str:
        model = copy.deepcopy(self.model)
        work(model)
        return model.state_digest()


def small_parts() -> None:
    """Let threads share work that is far too small to be worth it."""
    deciding.numbers_at_once = lambda: 240
    selector.FEWEST_NUMBERS = 240
    products._WORTH_SHARING = 2e4
    threads._WORTH_SHARING = 2e5
    validated._MANY = 100
    validated._SUMMED = 2000


def measure(scene: Scene, name: str) -> tuple[int, int, float]:
    """Instructions of the main thread and of others, and seconds."""
    work, models = scene.works[name], [copy.deepcopy(scene.model) for _ in range(5)]
    took = []
    for model in models[2:]:
        began = time.perf_counter()
        work(model)
        took.append(time.perf_counter() - began)
    return in_main(lambda: work(models[0]), None, None).seen, in_helpers(lambda: work(models[1]), None).seen, min(took)


def attempt(scene: Scene, rng: random.Random, sizes: dict[str, tuple[int, int, float]]) -> dict[str, Any]:
    name = rng.choice(list(scene.works))
    kind = rng.choice(["main", "main twice", "signal", "signals", "helper", "asynchronous"])
    n_main, n_helpers, seconds = sizes[name]
    model, work = copy.deepcopy(scene.model), scene.works[name]
    outcome, began = "finished", time.perf_counter()
    try:
        if kind.startswith("main"):
            then = rng.choice([rng.randint(1, 12), rng.randint(1, 60)]) if kind == "main twice" else None
            in_main(lambda: work(model), rng.randint(1, n_main), then)
        elif kind.startswith("signal"):
            more = [rng.choice([1e-5, 1e-4, 1e-3, 5e-3]) for _ in range(3)] if kind == "signals" else []
            by_signals(lambda: work(model), [rng.uniform(1e-5, 1.2 * seconds), *more])
        elif kind == "helper":
            in_helpers(lambda: work(model), rng.randint(1, max(1, n_helpers)))
        else:
            asynchronously(lambda: work(model), [rng.uniform(0.0, seconds) for _ in range(2)])
    except Interrupt:
        outcome = "interrupted"
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"[:200]
    try:
        _OVER.append(None)
    except Interrupt:  # the second one came here
        _OVER.append(None)
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.settrace(None)
    sys.setprofile(None)
    took = time.perf_counter() - began
    healed = time.perf_counter()
    while blas_threads() != [_N_THREADS] * len(blas_threads()):
        if time.perf_counter() - healed > _PATIENCE / 4:
            break
        time.sleep(0.001)
    healing = time.perf_counter() - healed
    wrong = []
    if blas_threads() != [_N_THREADS] * len(blas_threads()):
        wrong.append("limits")
        for library in _CONTROLLER.lib_controllers:
            library.set_num_threads(_N_THREADS)
    try:
        if model.state_digest() not in (scene.before, scene.after[name]):
            wrong.append("digest")
    except ChangedMeanwhileError:  # it was interrupted while it was changed in place, and refuses to be used
        outcome += ", refused"
    except NotFittedError:  # fit forgets the model before
        outcome += ", not fitted"
    if scene.digest_after(scene.works["fit"]) != scene.after["fit"]:
        wrong.append("digest afterwards")
    if threads.in_threads(lambda i: i * i, range(50)) != [i * i for i in range(50)] or threads.limited():
        wrong.append("threads")
    other = threading.Thread(target=lambda: None)
    other.start()
    other.join()
    return {"work": name, "kind": kind, "outcome": outcome, "took": took, "healing": healing, "wrong": wrong}


def main(seed: int, cases: int) -> None:
    small_parts()
    sys.unraisablehook = lambda _: None  # interrupts that end a helping thread
    sys.setswitchinterval(1e-4)
    scene, rng = Scene(seed), random.Random(seed)
    found: list[dict[str, Any]] = []
    with threadpool_limits(_N_THREADS, user_api="blas"):
        sizes = {name: measure(scene, name) for name in scene.works}
        for i in range(cases):
            faulthandler.dump_traceback_later(_PATIENCE, exit=True)
            found.append({"case": i, **attempt(scene, rng, sizes)})
            faulthandler.cancel_dump_traceback_later()
    print(
        json.dumps(
            {
                "outcomes": Counter(f"{one['kind']}: {one['outcome']}" for one in found),
                "longest": max((one["took"] for one in found), default=0.0),
                "longest healing": max((one["healing"] for one in found), default=0.0),
                "healed late": sum(one["healing"] > 0.0005 for one in found),
                "wrong": [one for one in found if one["wrong"]],
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
