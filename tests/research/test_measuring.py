"""Clocks and turns."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from erasable.research import measuring
from erasable.research.measuring import clock, in_words, machine, take_turns


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(measuring, "settle", lambda: None)


def test_a_clock_times_one_call_and_none_of_the_pause_before_it(monkeypatch):
    order = []
    monkeypatch.setattr(measuring, "settle", lambda: order.append("pause"))
    ticks = SimpleNamespace(perf_counter=lambda: order.append("look") or 10.0 * len(order))
    monkeypatch.setattr(measuring, "time", ticks)
    assert clock(lambda: order.append("call")) == 20.0
    assert order == ["pause", "look", "call", "look"]


def test_contestants_take_turns_each_after_an_untimed_call_of_its_own():
    calls, ticks = [], []
    times = take_turns(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2, lambda *done: ticks.append(done)
    )
    assert "".join(calls) == "aabbaabb"
    assert {name: len(found) for name, found in times.items()} == {"a": 2, "b": 2}
    assert ticks == [(0, 2), (1, 2), (2, 2)]


def test_a_machine_reads_as_a_line_with_all_that_is_known_of_it():
    found = machine()
    line = in_words(found)
    for value in (found["cores"], found["processor"], found["python"], found["numpy"], found["scipy"], *found["blas"]):
        assert str(value) in line
