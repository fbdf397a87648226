"""Theorem 4.6: deletions take no longer than the share that falls on core rows allows.

Time is counted here, and not measured: a unit for each downdate of the sums and for each solution for weights, which is
all the arithmetic that there is. So no other work of the machine can make a deletion long.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from erasable.cli.app import run
from erasable.models.heads import losses as squared
from erasable.models.model import Model
from erasable.research.reproduce import deletion_time, deletion_time_table, measure_deletion_time


@pytest.fixture(scope="module")
def measured():
    work = 0

    def counted(step):
        def counting(*given, **options):
            nonlocal work
            work += 1
            return step(*given, **options)

        return counting

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Model, "_remove", counted(Model._remove))
        patch.setattr(squared, "solve_weights", counted(squared.solve_weights))
        patch.setattr(deletion_time, "time", SimpleNamespace(perf_counter=lambda: float(work)))
        return measure_deletion_time(5_000, 40, K=30, c=0.5, kappa=0.3, runs=8)


def test_the_expected_number_of_core_deletions_stays_within_the_capacity(measured):
    assert [f.distribution.split(",")[0] for f in measured] == ["uniform", "uniform", "by leverage"]
    for f in measured:
        assert 0 < f.core_deletions <= f.K  # what the theorem rests on
        assert f.total > f.core_deletions
    # Half of the capacity is what c = 1/2 aims at, and not much less: the numbers of deletions are no understatement.
    assert measured[0].core_deletions == pytest.approx(15.5, rel=0.25)
    assert measured[2].core_deletions == pytest.approx(15.5, rel=0.25)
    assert measured[1].total < measured[0].total


def test_a_deletion_takes_no_longer_than_the_theorem_allows(measured):
    for f in measured:
        share = f.core_deletions / f.total
        assert f.seconds == pytest.approx(share * f.core_seconds + (1 - share) * f.other_seconds)
        assert f.bound.value == pytest.approx(f.K / f.total * f.core_seconds)
        assert (f.core_seconds, f.other_seconds) == (2.0, 0.0)  # rows outside the core set are looked up, and no more
        assert f.seconds <= f.bound.value


def test_the_command_prints_it(monkeypatch, capsys, measured):
    monkeypatch.setattr("erasable.research.reproduce.measure_deletion_time", lambda *_, **__: measured)
    assert run(["reproduce", "deletion-time", "--quick"]) == 0
    assert "Theorem 4.6" in capsys.readouterr().out
    assert run(["reproduce", "deletion-time", "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["deletion_time"]
    assert [f["K"] for f in found] == [30, 30, 30]
    assert found[0]["seconds"] <= found[0]["bound"]
    assert len(deletion_time_table(measured).rows) == 3
