"""Algorithm 1's selection as a map: the decisions of the classifier and of the rational oracle, and stability."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from erasable.coresets import CoreSetMap, LeverageThreshold
from erasable.errors import ConfigurationError, InputError
from tests.estimators.cases import SECRET, assert_no_traces, make_rows
from tests.oracle import OracleGrid
from tests.strategies import problems


def map_of(setting):
    return LeverageThreshold(
        setting.threshold,
        setting.capacity,
        fit_intercept=setting.intercept,
        scaling=setting.scaling,
        grid_bits=setting.bits,
    )


def chosen(core_set, batch):
    if not batch.X:
        return []
    X = np.array(batch.X, dtype=np.float64)
    return core_set.select(X, np.array(batch.y, dtype=object), batch.ids).tolist()


@given(problems(order_keys=[None]))
def test_it_selects_what_the_oracle_selects(problem):
    setting, batch = problem
    oracle = batch.learnt_by(dataclasses.replace(setting, order_key=None).oracle())  # a map takes rows as they come
    assert [batch.ids[i] for i in chosen(map_of(setting), batch)] == oracle.ids


@given(problems(max_rows=14))
def test_it_is_stable_under_every_single_deletion(problem):
    setting, batch = problem
    core = batch.part(chosen(map_of(setting), batch))
    assert chosen(map_of(setting), core) == list(range(len(core)))
    for gone in range(len(core)):
        left = core.part([i for i in range(len(core)) if i != gone])
        if len(left):
            assert chosen(map_of(setting), left) == list(range(len(left)))


@given(problems(max_rows=14), st.data())
def test_it_is_stable_under_any_deletion(problem, data):
    setting, batch = problem
    core = batch.part(chosen(map_of(setting), batch))
    left = core.part(sorted(data.draw(st.sets(st.integers(0, max(len(core) - 1, 0)), max_size=len(core)))))
    if len(left):
        assert chosen(map_of(setting), left) == list(range(len(left)))


def test_it_is_stable_under_every_set_of_deletions():
    rng = np.random.default_rng(0)
    core_set = LeverageThreshold(0.25, fit_intercept=False)
    y = np.zeros(40)
    for _ in range(5):
        X = rng.integers(-3, 4, (40, 3)).astype(float)
        core = core_set.select(X, y, range(40))[:8]
        for size in range(1, len(core) + 1):
            for left in itertools.combinations(core.tolist(), size):
                assert core_set.select(X[list(left)], y[:size], left).tolist() == list(range(size))


@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix, np.asfortranarray, lambda X: X.astype(np.float32)])
def test_the_container_of_the_rows_does_not_matter(container):
    X = np.round(make_rows()[0], 2).astype(np.float32).astype(np.float64)
    core_set = LeverageThreshold(0.05)
    right = core_set.select(X, np.zeros(len(X)), range(len(X))).tolist()
    assert 5 < len(right) < len(X)
    assert core_set.select(container(X), np.zeros(len(X)), range(len(X))).tolist() == right


def test_labels_and_ids_play_no_part():
    X, y = make_rows()
    core_set = LeverageThreshold(0.05)
    one = core_set.select(X, y, range(len(X)))
    assert one.dtype == np.intp
    assert (one == core_set.select(X, 1 - y, [f"row {i}" for i in range(len(X))])).all()


def test_no_rows_give_no_rows():
    assert LeverageThreshold(0.1).select(np.empty((0, 3)), np.empty(0), []).tolist() == []


def test_a_map_is_its_configuration():
    core_set = LeverageThreshold(np.float32(0.25), 2, scaling=np.array([1.0, 2.0]), fit_intercept=np.bool_(False))
    assert core_set == LeverageThreshold(0.25, 2.0, scaling=(1.0, 2.0), fit_intercept=False)
    assert hash(core_set) == hash(pickle.loads(pickle.dumps(core_set)))
    assert core_set != LeverageThreshold(0.25, 2.0, scaling=(1.0, 2.0))
    assert isinstance(core_set, CoreSetMap)
    assert core_set.stable
    assert core_set.describe() == {
        "map": "leverage-threshold",
        "threshold": "0x1.0000000000000p-2",
        "capacity": "0x1.0000000000000p+1",
        "fit_intercept": False,
        "scaling": ["0x1.0000000000000p+0", "0x1.0000000000000p+1"],
        "grid_bits": 15,
    }
    assert LeverageThreshold(0.0, scaling=2).describe()["scaling"] == "0x1.0000000000000p+1"
    assert LeverageThreshold(-0.0).describe() == LeverageThreshold(0).describe()
    with pytest.raises(dataclasses.FrozenInstanceError):
        core_set.threshold = 0.5


@pytest.mark.parametrize(
    "bad",
    [
        {"threshold": -1e-9},
        {"threshold": math.nan},
        {"threshold": math.inf},
        {"threshold": None},
        {"threshold": "0.1"},
        {"threshold": True},
        {"threshold": 10**400},
        {"threshold": 1.0},  # no row's leverage is above 1 / capacity
        {"capacity": 0.0},
        {"capacity": -1.0},
        {"capacity": math.inf},
        {"capacity": 1e-300},
        {"fit_intercept": "yes"},
        {"fit_intercept": 1},
        {"scaling": "column"},
        {"scaling": 0.0},
        {"scaling": [1.0, -1.0]},
        {"scaling": [[1.0]]},
        {"scaling": ["a"]},
        {"scaling": ...},
        {"grid_bits": 3},
        {"grid_bits": 15.0},
        {"grid_bits": True},
    ],
    ids=repr,
)
def test_a_configuration_that_cannot_work_is_refused(bad):
    with pytest.raises(ConfigurationError):
        LeverageThreshold(**{"threshold": 0.1, **bad})


def test_rows_outside_the_ball_are_refused():
    X = np.full((5, 2), 0.1)
    X[3] = SECRET
    for scaling, container in itertools.product((None, 2.0), (np.array, sp.csr_array)):
        with pytest.raises(InputError, match="1 of 5 rows") as caught:
            LeverageThreshold(0.001, scaling=scaling).select(container(X), np.zeros(5), range(5))
        assert_no_traces(str(caught.value))


def test_scales_for_another_number_of_features_are_refused():
    with pytest.raises(ConfigurationError, match="2 scales for 3 features"):
        LeverageThreshold(0.1, scaling=[1.0, 2.0]).select(np.eye(3), np.zeros(3), range(3))


def test_a_threshold_that_rows_of_several_features_reach_is_not_refused_before_they_come():
    """Rounding leaves rows of one feature shorter than those of three."""
    core_set = LeverageThreshold(0.9961331002414227, 1.0, fit_intercept=False)
    grid = OracleGrid(3, 15, False, "row")
    units = 4**15
    assert units * core_set.threshold < grid.longest
    core_set.select(np.ones((2, 3)), np.zeros(2), range(2))
    with pytest.raises(ConfigurationError, match="nothing could ever be selected"):
        LeverageThreshold(1.0, 1.0)
