"""Interrupts, wherever they come, leave threads that work and BLAS with the threads that it had.

``ERASABLE_INTERRUPTS=1000`` interrupts so often, instead of 60 times.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from erasable import ErasableClassifier
from erasable.core import confirming, threads
from erasable.core.threads import Shared, few_threads, in_threads, limited, n_threads
from erasable.engines import Local, local
from erasable.errors import EngineError
from tests.interrupts import AtInstruction, Interrupt
from tests.waiting import PATIENCE, until

_REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def new_threads(monkeypatch):
    """Threads of this test alone, and BLAS with three."""
    monkeypatch.setattr(threads, "_workers", threads.Workers())
    monkeypatch.setattr(threads, "_watcher", threads._Watcher())
    with threadpool_limits(3, user_api="blas"):
        yield
        until(lambda: not threads._LIMIT)


def test_interrupts_at_random_instructions_leave_one_state():
    cases = int(os.environ.get("ERASABLE_INTERRUPTS", "60"))
    for seed in range(-(-cases // 250)):
        command = [sys.executable, "-m", "tests.interrupts", str(seed), str(min(250, cases - 250 * seed))]
        done = subprocess.run(command, capture_output=True, text=True, cwd=_REPOSITORY, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-5000:]
        report = json.loads(done.stdout)
        print(report)  # with -s: for the record
        assert report["wrong"] == []
        assert report["longest"] < 10.0  # seconds, mostly 0.1


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_a_process_that_was_interrupted_ends():
    script = (
        "import signal, numpy as np; from threadpoolctl import threadpool_limits; from erasable import *\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "X = np.random.default_rng(0).standard_normal((30000, 60)); limit = threadpool_limits(3)\n"
        "print('learning', flush=True)\n"
        "while True: ErasableClassifier(1.0, threshold=0.1, loss='squared').fit(X, X[:, 0] > 0)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=_REPOSITORY
    )
    with child:
        assert child.stdout.readline() == "learning\n"
        time.sleep(0.03)
        for _ in range(2):
            child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in errors
    assert child.returncode in (130, -signal.SIGINT)


# -- limits of BLAS ----------------------------------------------------------------------------------------------


def interrupted_limits(n):
    """Interrupt a limit at its n-th instruction; whether it has so many."""
    tracer = AtInstruction(n)

    def limit():
        with few_threads(0.0):
            assert n_threads() == 3

    sys.settrace(tracer)
    try:
        limit()
    except Interrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def test_a_limit_interrupted_at_any_instruction_is_undone(new_threads, monkeypatch):
    monkeypatch.setattr(threads, "_TICK", 0.0005)
    monkeypatch.setattr(threads, "_QUIET", 2000)
    blas, n = ThreadpoolController().select(user_api="blas").lib_controllers, 0
    while interrupted_limits(n := n + 1):
        until(lambda: [library.get_num_threads() for library in blas] == [3] * len(blas) and not threads._LIMIT, 0.0005)
    assert n > 100
    with few_threads(0.0):
        assert [library.get_num_threads() for library in blas] == [1] * len(blas)


def leave_a_limit():
    few_threads(0.0).__enter__()


def test_a_limit_that_was_left_behind_is_undone_before_the_next_is_set(new_threads):
    leave_a_limit()
    with few_threads(0.0):
        assert limited()
        assert n_threads() == 3
    assert not limited()
    assert n_threads() == 3


def test_a_limit_is_undone_by_others_after_its_thread_has_ended(new_threads):
    other = threading.Thread(target=leave_a_limit)
    other.start()
    other.join()
    until(lambda: n_threads() == 3)


def test_a_watcher_that_has_ended_is_replaced(new_threads, monkeypatch):
    monkeypatch.setattr(threads, "_TICK", 0.0005)
    leave_a_limit()
    threads._watcher.workers.tasks.put(lambda: (_ for _ in ()).throw(SystemExit))
    watch = threads._watcher.task
    until(lambda: not threads._LIMIT)
    until(lambda: watch() is None)  # it is asleep
    leave_a_limit()
    until(lambda: not threads._LIMIT)
    assert n_threads() == 3


def test_nothing_is_limited_that_nobody_would_undo(new_threads, monkeypatch):
    monkeypatch.setattr(threads, "start_new_thread", no_thread)
    with few_threads(0.0):
        assert not limited()
        assert n_threads() == 3


def test_limits_within_limits_last_as_long_as_the_first(new_threads):
    with few_threads(0.0):
        for _ in range(3):
            with few_threads(0.0):
                pass
            time.sleep(2.5 * threads._TICK)  # time for the watcher to look
            assert limited()
            assert {library.get_num_threads() for library in threads._blas().lib_controllers} == {1}
    assert n_threads() == 3


def test_a_limit_set_by_a_generator_lasts_while_it_waits(new_threads):
    def numbers():
        with few_threads(0.0):
            yield from range(3)

    for _ in numbers():
        time.sleep(2.5 * threads._TICK)
        assert limited()
    assert not limited()


def test_any_thread_can_limit_blas(new_threads):
    """threadpoolctl lets the first thread alone do so."""
    with few_threads(0.0):
        pass
    found = []

    def other():
        with few_threads(0.0):
            found.extend(library.get_num_threads() for library in threads._blas().lib_controllers)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found
    assert set(found) == {1}
    assert n_threads() == 3


# -- threads that share work -------------------------------------------------------------------------------------


def no_thread(*_):
    raise RuntimeError("can't start new thread")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
@pytest.mark.parametrize("interval", [0.0, 0.1], ids=["one interrupt", "and more"])
def test_no_interrupt_waits_long_for_the_other_threads(new_threads, monkeypatch, interval):
    """One interrupt waits a moment for the parts begun, another one for nothing."""
    monkeypatch.setattr(threads, "_PATIENCE", 0.2 if interval == 0.0 else 1e6)
    go, begun, ended = threading.Event(), threading.Event(), []

    def work(_):
        if threading.current_thread() is threading.main_thread():
            begun.wait(PATIENCE)
            signal.setitimer(signal.ITIMER_REAL, 0.1, interval)
        else:
            begun.set()
            go.wait(PATIENCE)
            ended.append(None)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            in_threads(work, range(2))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert ended == []
    until(lambda: n_threads() == 3)
    assert in_threads(lambda i: i, range(9)) == list(range(9))
    go.set()
    until(lambda: ended)


def test_a_thread_that_ends_without_a_result_is_not_waited_for(new_threads, monkeypatch):
    monkeypatch.setattr(Shared, "_help", lambda self: self.waiting.popleft())
    shared = Shared(lambda i: i, range(3), helpers=1)
    until(lambda: shared.helpers[0]() is None)
    with pytest.raises(EngineError, match="run it again"):
        shared.results()


def test_errors_of_other_threads_are_raised(new_threads):
    def fails(i):
        if threading.current_thread() is not threading.main_thread():
            raise IndexError("of another thread")
        time.sleep(0.001)
        return i

    with pytest.raises(IndexError, match="of another thread"):
        in_threads(fails, range(10_000))


def test_an_error_of_another_thread_is_known_when_its_part_is_over(new_threads):
    class SlowQueue(SimpleQueue):
        def put(self, item):
            super().put(item)
            time.sleep(0.05)  # the other thread, which has news, goes on first

    def fails(_):
        begins.set()
        go.wait(PATIENCE)
        raise IndexError("of another thread")

    begins, go = threading.Event(), threading.Event()
    shared = Shared(fails, [0], helpers=1)
    assert begins.wait(PATIENCE)
    shared.news = SlowQueue()
    go.set()
    with pytest.raises(IndexError, match="of another thread"):
        shared.results()


def test_threads_end_after_what_they_work_for(new_threads):
    workers = threads.Workers()
    assert workers.at_least(2) == 2
    theirs = workers.threads
    del workers
    until(lambda: all(thread() is None for thread in theirs))


def test_threads_that_ended_are_replaced(new_threads):
    workers = threads._workers
    workers.at_least(2)
    theirs = workers.threads
    threads._workers = threads.Workers()
    del workers
    until(lambda: all(thread() is None for thread in theirs))
    assert in_threads(lambda i: i, range(20)) == list(range(20))


@pytest.mark.parametrize("fault", ["no result", "no thread"])
def test_an_engine_does_not_wait_for_threads_that_ended(monkeypatch, fault):
    if fault == "no result":
        monkeypatch.setattr(local, "_report", lambda *_: None)
    else:
        monkeypatch.setattr(threads, "start_new_thread", no_thread)
        monkeypatch.setattr(threads, "_workers", threads.Workers())
    engine = Local(threads=2)
    X = np.random.default_rng(0).standard_normal((50, 2))
    with pytest.raises(EngineError, match="thread"):
        ErasableClassifier(1.0, threshold=0.1, loss="squared", engine=engine).fit(X, X[:, 0] > 0)


def test_two_ways_share_all_rows_though_they_take_them_at_the_same_time():
    walk = confirming._Walk(np.zeros((128 * 500 + 5, 3)), None, 1, 0.1, None, None)
    walk.grid = type("Grid", (), {"n_columns": 3})
    found, start = {True: [], False: []}, threading.Barrier(2)

    def take(first):
        start.wait()
        while (part := walk.taken(200, first=first)) is not None:
            found[first].append((part.start, part.stop))

    other = threading.Thread(target=take, args=(False,))
    other.start()
    take(True)
    other.join()
    parts = found[True] + found[False][::-1]
    assert parts[0][0] == 0
    assert parts[-1][1] == 128 * 500 + 5
    assert all(one[1] == two[0] for one, two in itertools.pairwise(parts))
