"""Algorithm 3, run by hand on a few rows, and why nothing is promised about it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from erasable.classes import FiniteClass, LinearBall, NumericClass
from erasable.coresets import CoreSetMap, SinglePass, Staged
from erasable.errors import ConfigurationError
from tests.paper.test_theorem_5_2_example import AFTER, BEFORE, EIGHT_ROWS

EIGHT = np.array([[float(v) for v in x] for x in EIGHT_ROWS.values()])
Y = [1, -1, 1, -1, 1, -1, 1, -1]


def ball(radius):
    return LinearBall(radius, scaling=None)


def named(run, numbers):
    """Rows queried in each stage, by their numbers in the example."""
    return [[numbers[i] for i in stage.queried] for stage in run.stages]


def test_eight_rows_by_the_printed_stopping_rule():
    """Kept as the counterexample: deleting row 5 drops row 6. No number of stages is imposed."""
    staged = Staged(ball(0.5), rate=1)
    first = staged.stages(EIGHT, Y)
    assert named(first, range(1, 9)) == BEFORE
    assert first.stopped_by_rule
    assert [s.epsilon for s in first.stages] == [0.5, 0.25]

    left = [0, 1, 2, 3, 5, 6, 7]
    again = staged.stages(EIGHT[left], [Y[i] for i in left])
    assert named(again, [i + 1 for i in left]) == AFTER
    assert again.stopped_by_rule
    assert not staged.stable


@pytest.mark.parametrize(("n", "rate", "core", "left", "again"), [(100, 1, 81, 30, 18), (1000, 10, 837, 250, 198)])
def test_the_stopping_rule_alone_drops_rows(n, rate, core, left, again):
    """Rows x = 1, half of each label: fewer rows, and the rule stops one stage earlier."""
    staged = Staged(ball(0.5), rate=rate)
    X, y = np.ones((n, 1)), np.arange(n) % 2
    kept = staged.select(X, y)
    assert len(kept) == core
    some = np.sort(kept)[:left]
    assert len(staged.select(X[some], y[some])) == again


@pytest.mark.parametrize("tau", [1 / 4, 1 / 16, 0.1])
def test_one_pass_over_the_same_rows_drops_nobody(tau):
    core = SinglePass(ball(0.5), tau)
    for X in (EIGHT, np.ones((100, 1))):
        kept = core.select(X)
        assert 0 < len(kept) <= len(X)
        for gone in range(len(kept)):
            left = np.delete(kept, gone)
            assert core.select(X[left]).tolist() == list(range(len(left)))


def test_a_run_by_hand():
    """Two functions, 0 and 1, that disagree fully about row 0, by 1/2 about row 1, not at all about row 2."""
    values = np.array([[0.0, 0.25, 0.5], [1.0, 0.75, 0.5]])
    pair = FiniteClass([lambda X, v=v: v[X[:, 0].astype(int)] for v in values])
    X = np.array([[1.0], [0.0], [2.0], [0.0]])
    # epsilon is 1/2, 1/4, ...: D(row 1) = 1/2 is not above it; D(row 0) = 1, then sqrt(1/2) for its copy. Then out.
    run = Staged(pair, rate=1.0).stages(X, [1, 1, 1, 1])
    # dimension: log(1 + 1 + 1/4 + 1); 1.18 * 1 > 1 * |R_1| = 2 fails; then 1.18 * 2 > |R_2| / 2 holds.
    assert [s.queried for s in run.stages] == [(1, 3), (0,)]
    assert [s.epsilon for s in run.stages] == [0.5, 0.25]
    assert [(s.pool, s.remainder) for s in run.stages] == [(2, 2), (1, 1)]
    assert run.stopped_by_rule
    assert run.positions.tolist() == [1, 3, 0]
    assert Staged(pair, rate=1.0).select(X, [1, 1, 1, 1], range(4)).tolist() == [1, 3, 0]


def test_confident_rows_leave_the_remainder_but_not_the_pool():
    """From stage 3 on the margin 3 * 2**-l is below 1/2, so a fit of 1 sets rows aside; they may still be queried."""
    pair = FiniteClass([lambda X: np.zeros(len(X)), lambda X: np.where(X[:, 0] > 0, 1.0, 0.005)])
    X = np.concatenate([np.zeros((40, 1)), np.ones((40, 1))])
    run = Staged(pair, rate=0.01, max_stages=3).stages(X, [1] * 80)
    sizes = [(len(s.queried), len(s.confident), s.pool, s.remainder) for s in run.stages]
    assert sizes[0][1] == sizes[1][1] == 0  # margins of 3/2 and 3/4
    assert not run.stages[0].queried  # epsilon = 5
    rest = {i for i in range(80) if i not in run.positions}
    assert set(run.stages[2].confident) <= rest
    for stage, (_, _, pool, left) in zip(run.stages, sizes, strict=True):
        assert pool == 80 - sum(len(s.queried) for s in run.stages[: run.stages.index(stage) + 1])
        assert left <= pool


def test_confidence_is_measured_by_the_fit_on_the_stage():
    """Two rows the fit is sure about, two it is not: only the former are set aside, in the stage that queried."""
    values = np.array([[0.0, 0.0, 0.5], [1.0, 0.96, 0.5]])
    pair = FiniteClass([lambda X, v=v: v[X[:, 0].astype(int)] for v in values])
    X = np.array([[0.0]] * 200 + [[1.0]] * 2 + [[2.0]] * 3)
    run = Staged(pair, rate=1.0, max_stages=3).stages(X, [1] * 205)
    third = run.stages[2]  # epsilon = 1/8: D² = 1 / (1 + n) > 1/64 for the first 63 copies; margin 3/8
    assert third.queried == tuple(range(18, 18 + 63))
    assert third.confident == tuple(range(81, 202))
    assert third.remainder == 3
    assert third.pool == 205 - 81


def test_the_last_of_two_classes_is_the_positive_one_and_of_more_each_has_its_turn():
    """Functions that predict 0, 1/4 or 1 on one row: the fit shows which labels it was given."""
    values = np.array([[0.0], [0.25], [1.0]])
    levels = FiniteClass([lambda X, v=v: v[X[:, 0].astype(int)] for v in values])
    X = np.zeros((200, 1))

    def confident(labels):
        return len(Staged(levels, rate=1.0, max_stages=3).stages(X, labels).stages[2].confident)

    third = slice(18, 81)  # rows queried in the third stage, whose margin is 3/8
    for labels, share in ((("no", "yes"), 1.0), (("no", "yes"), 0.0)):
        y = np.full(200, labels[0], dtype=object)
        y[third] = np.where(np.arange(63) < 63 * share, labels[1], labels[0])
        y[0], y[1] = labels
        assert confident(y) == 200 - 81  # the fit is 1, or 0
    y = np.full(200, "no", dtype=object)
    y[18 : 18 + 16] = "yes"
    assert confident(y) == 0  # the fit is 1/4 for "yes"; it would be 1 for "no"
    y[100] = "maybe"  # a third class: 0 for it, but 1/4 for "yes"
    assert confident(y) == 0
    y[18 : 18 + 16] = "no"
    y[101] = "yes"
    assert confident(y) == 200 - 81  # 0, 0 and 1


def test_the_first_of_equals_is_picked():
    X = np.array([[0.6, 0.0], [0.6, 0.0], [0.0, 0.6], [0.6, 0.0]])
    run = Staged(ball(0.5), rate=0.1, max_stages=1).stages(X, [0, 1, 0, 1])
    assert run.stages[0].queried == ()
    run = Staged(ball(0.5), rate=5.0, max_stages=1).stages(X, [0, 1, 0, 1])
    assert run.stages[0].queried[:2] == (0, 2)
    assert run.stages[0].queried == (0, 2, 1, 3)


def test_the_largest_disagreement_comes_first():
    rng = np.random.default_rng(4)
    X = rng.uniform(-0.5, 0.5, (60, 3))
    linear = ball(2.0)
    rows = linear.encode(X)
    for stage in Staged(linear, rate=0.5).stages(X, rng.integers(0, 2, 60)).stages[:1]:
        measure, left = linear.start(3), list(range(60))
        for i in stage.queried:
            D2 = measure.squared(rows[left])
            assert D2[left.index(i)] == pytest.approx(D2.max(), rel=1e-9)
            assert D2.max() > stage.epsilon**2
            left.remove(i)
            measure.add(rows[i : i + 1])
        assert len(stage.queried) > 3
        assert measure.squared(rows[left]).max() <= stage.epsilon**2


@pytest.mark.parametrize("seed", range(6))
def test_no_more_queries_than_theorem_g_3_allows(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((300, 2)), rng.integers(0, 2, 300)
    for linear, rate in ((LinearBall(0.5), None), (LinearBall(1.0), 0.05), (LinearBall(0.5), 0.3)):
        staged = Staged(linear, rate=rate)
        run = staged.stages(X, y)
        R = linear.rate(300, 0.05, 2) if rate is None else rate
        assert run.stopped_by_rule
        bound = 4 ** (len(run.stages) + 1) * R * linear.dimension(linear.encode(X))
        assert 0 < len(run.positions) <= bound
        assert len(set(run.positions.tolist())) == len(run.positions)


def test_the_rate_of_the_class_sets_epsilon():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((50, 2)), rng.integers(0, 2, 50)
    linear = LinearBall(0.5)
    for delta in (0.05, 1.0):
        run = Staged(linear, delta=delta).stages(X, y)
        assert run.stages[0].epsilon == pytest.approx(0.5 / math.sqrt(linear.rate(50, delta, 2)), rel=1e-14)


def test_rows_about_which_all_agree_do_not_go_on_for_ever():
    run = Staged(LinearBall(), rate=1.0).stages(np.zeros((3, 2)), [0, 1, 1])
    assert len(run.stages) == 64
    assert not run.stopped_by_rule
    assert run.positions.tolist() == []
    assert Staged(LinearBall(), rate=1.0, max_stages=2).stages(np.empty((0, 2)), []).positions.tolist() == []


def test_it_is_a_map_like_others_but_not_stable():
    staged = Staged(LinearBall(), rate=2)
    assert isinstance(staged, CoreSetMap)
    assert staged.stable is False
    assert staged.describe()["rate"] == (2.0).hex()
    assert Staged(LinearBall()).describe()["rate"] is None
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((40, 2)), rng.integers(0, 2, 40)
    assert staged.select(csr_array(X), y).tolist() == staged.select(X, y).tolist()


def test_stages_without_a_rate_are_refused():
    classes = NumericClass(lambda X, Q: np.ones(len(X)), lambda X, y: None)
    with pytest.raises(ConfigurationError, match="stages without a rate"):
        Staged(classes).select(np.eye(2), [0, 1])
    assert len(Staged(classes, rate=1.0, max_stages=1).select(np.eye(1), [0])) == 1


BAD = {"rate": [0, -1.0, math.nan, math.inf, "1"], "delta": [0.0, 1.5, None], "max_stages": [0, 300, 2.0, True]}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_parameters_that_cannot_work_are_refused(name, value):
    with pytest.raises(ConfigurationError, match=name):
        Staged(LinearBall(), **{name: value})
