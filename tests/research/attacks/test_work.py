"""Work dealt to processes: the same results in the same order, with the time they took elsewhere."""

from __future__ import annotations

import pickle

import numpy as np

from erasable.research.attacks import TARGETS, Sizes, audit
from erasable.research.attacks.work import repeat
from tests.research.attacks.cases import make_pool


def square(number):
    return number, float(np.sum(np.random.default_rng(number).random(1000) ** 2))


def test_results_come_in_order_and_progress_is_told():
    told = []
    done = repeat(square, 5, progress=lambda i, n: told.append((i, n)))
    assert done.results == [square(i) for i in range(5)]
    assert told == [(i, 5) for i in range(1, 6)]
    assert done.worker_seconds == 0.0


def test_figures_do_not_depend_on_the_number_of_processes():
    sizes = Sizes(rows=240, trials=3, shadows=16, candidates=4)
    one, two = (audit(TARGETS["plain"], *make_pool(), data="made up", sizes=sizes, workers=n) for n in (1, 2))
    assert one.as_json()["results"] == two.as_json()["results"]
    assert [stage.name for stage in one.stages] == [stage.name for stage in two.stages]
    assert all(stage.seconds > 0 for stage in two.stages)
    assert two.processor_seconds == sum(stage.processor_seconds for stage in two.stages)
    said = two.as_json()
    assert said["workers"] == 2
    assert {"seconds", "processor_seconds"} <= said.keys()
    assert [stage["name"] for stage in said["stages"]] == [stage.name for stage in two.stages]
    played = next(stage for stage in two.stages if stage.name == "one row leaves")
    assert played.processor_seconds > 0


def test_every_target_can_be_sent_to_a_process():
    for target in TARGETS.values():
        built = pickle.loads(pickle.dumps(target)).build(3)
        assert type(built) is type(target.build(3))
        assert repr(built) == repr(target.build(3)) or "object at" in repr(built)
