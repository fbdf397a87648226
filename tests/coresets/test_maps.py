"""Core-set maps: what they select, that they are stable (or why not), and what they refuse."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from erasable.coresets import CoreSetMap, LeverageThreshold, RandomSubsample, SupportVectors, maps
from erasable.errors import ConfigurationError, InputError
from erasable.research.theory.information import Information, leak
from tests.estimators.cases import SECRET, SECRET_TEXT, assert_no_traces, make_rows
from tests.oracle import OracleGrid
from tests.strategies import keys, problems

# -- every map ---------------------------------------------------------------------------------------------------

MAPS = {
    "leverage": (
        LeverageThreshold(np.float32(0.25), 2, scaling=np.array([1.0, 2.0]), fit_intercept=np.bool_(False)),
        LeverageThreshold(0.25, 2.0, scaling=(1.0, 2.0), fit_intercept=False),
        {
            "map": "leverage-threshold",
            "threshold": "0x1.0000000000000p-2",
            "capacity": "0x1.0000000000000p+1",
            "fit_intercept": False,
            "scaling": ["0x1.0000000000000p+0", "0x1.0000000000000p+1"],
            "grid_bits": 15,
        },
    ),
    "subsample": (
        RandomSubsample(np.float64(0.25), np.int64(3)),
        RandomSubsample(0.25, 3),
        {"map": "random-subsample", "fraction": "0x1.0000000000000p-2", "random_state": "3"},
    ),
    "support": (SupportVectors(), SupportVectors(), {"map": "support-vectors", "tolerance": (1e-5).hex()}),
}


@pytest.mark.parametrize("name", MAPS)
def test_a_map_is_its_configuration(name):
    core_set, same, described = MAPS[name]
    assert core_set == same == pickle.loads(pickle.dumps(core_set))
    assert hash(core_set) == hash(same)
    assert isinstance(core_set, CoreSetMap)
    assert core_set.stable == (name != "support")
    assert core_set.describe() == described
    with pytest.raises(dataclasses.FrozenInstanceError):
        core_set.stable = None
    assert core_set.select(np.empty((0, 2)), np.empty(0), []).tolist() == []


BAD = {
    (LeverageThreshold, "threshold"): [-1e-9, math.nan, math.inf, None, "0.1", True, 10**400, 1.0],  # 1 / capacity
    (LeverageThreshold, "capacity"): [0.0, -1.0, math.inf, 1e-300],
    (LeverageThreshold, "fit_intercept"): ["yes", 1],
    (LeverageThreshold, "scaling"): ["column", 0.0, [1.0, -1.0], [[1.0]], ["a"], ...],
    (LeverageThreshold, "grid_bits"): [3, 15.0, True],
    (RandomSubsample, "fraction"): [0.0, -0.5, 1.0001, math.nan, "0.5", None, True],
    (RandomSubsample, "random_state"): [-1, 1.0, None, True],
}


@pytest.mark.parametrize(("of", "value"), [(of, value) for of, values in BAD.items() for value in values], ids=repr)
def test_a_configuration_that_cannot_work_is_refused(of, value):
    kind, name = of
    right = {"threshold": 0.1} if kind is LeverageThreshold else {"fraction": 0.5}
    with pytest.raises(ConfigurationError):
        kind(**{**right, name: value})


def test_equal_numbers_are_equal_configurations():
    assert LeverageThreshold(0.25, 2.0, scaling=(1.0, 2.0)) != MAPS["leverage"][1]
    assert LeverageThreshold(0.0, scaling=2).describe()["scaling"] == "0x1.0000000000000p+1"
    assert LeverageThreshold(-0.0).describe() == LeverageThreshold(0).describe()


# -- leverage ----------------------------------------------------------------------------------------------------


def map_of(setting):
    return LeverageThreshold(
        setting.threshold,
        setting.capacity,
        fit_intercept=setting.intercept,
        scaling=setting.scaling,
        grid_bits=setting.bits,
    )


def selected(core_set, batch):
    if not batch.X:
        return []
    X = np.array(batch.X, dtype=np.float64)
    return core_set.select(X, np.array(batch.y, dtype=object), batch.ids).tolist()


@given(problems(order_keys=[None]))
def test_it_selects_what_the_oracle_selects(problem):
    setting, batch = problem
    oracle = batch.learnt_by(dataclasses.replace(setting, order_key=None).oracle())  # a map takes rows as they come
    assert [batch.ids[i] for i in selected(map_of(setting), batch)] == oracle.ids


@given(problems(max_rows=14), st.data())
def test_leverage_is_stable_under_every_single_deletion_and_any_other(problem, data):
    setting, batch = problem
    core = batch.part(selected(map_of(setting), batch))
    everything = list(range(len(core)))
    some = sorted(data.draw(st.sets(st.integers(0, max(len(core) - 1, 0)), max_size=len(core))))
    for left in (everything, some, *([i for i in everything if i != gone] for gone in everything)):
        assert selected(map_of(setting), core.part(left)) == list(range(len(left)))


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


# -- random subsets ----------------------------------------------------------------------------------------------


def drawn(core_set, ids):
    return core_set.select(np.zeros((len(ids), 1)), np.zeros(len(ids)), ids).tolist()


@settings(max_examples=500)
@given(st.integers(1, 30).flatmap(lambda n: keys(n, distinct=True)), st.floats(0.01, 1.0), st.integers(0, 9), st.data())
def test_it_is_stable(ids, fraction, seed, data):
    core_set = RandomSubsample(fraction, seed)
    core = [ids[i] for i in drawn(core_set, ids)]
    gone = data.draw(st.sets(st.sampled_from(ids)))
    assert drawn(core_set, core) == list(range(len(core)))
    for gone_now in (gone, *({key} for key in core)):
        left = [key for key in core if key not in gone_now]
        assert drawn(core_set, left) == list(range(len(left)))


def test_a_fixed_number_of_rows_would_be_stable_too_but_tell_how_many_were_forgotten():
    """The two lowest hashes; the lowest of three rows may or may not have been there, and what is left says it."""
    lot = {"a": 1, "b": 2, "c": 3}

    def lowest(S, m=2):
        return sorted(sorted(range(len(S)), key=lambda i: lot[S[i]])[:m])

    for S in itertools.permutations(lot):
        core = [S[i] for i in lowest(S)]
        for gone in core:
            left = tuple(key for key in core if key != gone)
            assert lowest(left) == list(range(len(left)))

    process = {(("a", "b", "c"), (0,)): 0.5, (("b", "c"), ()): 0.5}
    assert leak(process, lowest) == Information(core=1.0, rest=0.0, extra=1.0)
    shares = [RandomSubsample(0.5, seed) for seed in range(20)]
    assert {len(drawn(share, list(lot))) for share in shares} == {0, 1, 2, 3}
    for share in shares:
        assert leak(process, lambda S, share=share: drawn(share, list(S))).core == 0.0


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True), st.randoms(use_true_random=False))
def test_order_plays_no_part(ids, random):
    core_set = RandomSubsample(0.5)
    shuffled = random.sample(ids, len(ids))
    assert {ids[i] for i in drawn(core_set, ids)} == {shuffled[i] for i in drawn(core_set, shuffled)}


@pytest.mark.parametrize("fraction", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("name", [int, str, lambda i: str(i).encode()])
def test_the_share_is_the_fraction(fraction, name):
    n = 20_000
    kept = len(drawn(RandomSubsample(fraction, 3), [name(i) for i in range(n)]))
    assert abs(kept - fraction * n) < 5 * math.sqrt(n * fraction * (1 - fraction))


def test_the_fraction_one_keeps_everything_and_larger_fractions_keep_more():
    ids = list(range(5000))
    subsets = [set(drawn(RandomSubsample(f), ids)) for f in (0.1, 0.2, 0.7, 1.0)]
    assert subsets[0] < subsets[1] < subsets[2] < subsets[3] == set(ids)


def test_seeds_draw_independently():
    ids = list(range(20_000))
    one, other = (set(drawn(RandomSubsample(0.5, seed), ids)) for seed in (0, 1))
    assert abs(len(one & other) - 5000) < 5 * math.sqrt(20_000 * 3 / 16)


def test_ids_come_as_a_list_a_range_or_an_array():
    core_set = RandomSubsample(0.4)
    right = drawn(core_set, list(range(50)))
    assert 5 < len(right) < 45
    assert drawn(core_set, range(50)) == drawn(core_set, np.arange(50)) == right
    assert drawn(core_set, []) == []


def test_all_rows_means_also_the_one_with_the_largest_lot(monkeypatch):
    monkeypatch.setattr(maps, "keyed_hash", lambda ids, key: np.array([2**64 - 1, 0], dtype=np.uint64))
    assert drawn(RandomSubsample(1.0), [7, 1]) == [0, 1]
    assert drawn(RandomSubsample(math.nextafter(1.0, 0.0)), [7, 1]) == [1]


@pytest.mark.parametrize("half", [np.float16(0.5), np.float32(0.5), np.float64(0.5)])
def test_numpy_fractions_mean_what_they_say(half):
    assert drawn(RandomSubsample(half), range(100)) == drawn(RandomSubsample(0.5), range(100))
    assert drawn(RandomSubsample(np.float32(1)), range(100)) == drawn(RandomSubsample(1), range(100)) == [*range(100)]


# -- support vectors ---------------------------------------------------------------------------------------------

# Four points on the two edges of a strip; in the plane it takes a fourth, and so a coincidence.
PLANE = np.array([[0.0, 1.0], [3.0, 1.0], [1.0, -1.0], [4.0, -1.0]])
# In space four points support a strip without one.
SPACE = np.array([[0.0, 0.0, 1.0], [3.0, 0.0, 1.0], [1.5, -1.0, -1.0], [-1.5, 2.0, -1.0]])
Y = np.array([1, 1, 0, 0])


def supporting(X, y):
    return SupportVectors().select(X, y, range(len(y))).tolist()


def separator(X, y):
    svm = SVC(kernel="linear", C=1e9, tol=1e-8).fit(X, y)
    return np.append(svm.coef_[0], svm.intercept_), svm.decision_function(X) * np.where(y == y.max(), 1, -1)


def separable(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    side = X @ rng.standard_normal(d) + 0.3 * rng.standard_normal()
    X, side = X[np.abs(side) > 0.2], side[np.abs(side) > 0.2]
    return X, (side > 0).astype(int)


def test_in_the_plane_a_deletion_makes_another_row_superfluous():
    assert supporting(PLANE, Y) == [0, 1, 2, 3]
    _, margins = separator(PLANE, Y)
    np.testing.assert_allclose(margins, 1.0, atol=1e-6)
    left = [0, 2, 3]
    assert supporting(PLANE[left], Y[left]) == [0, 1]
    _, margins = separator(PLANE[left], Y[left])
    np.testing.assert_allclose(margins, [1.0, 1.0, 2.2], atol=1e-6)
    assert not SupportVectors().stable


@pytest.mark.parametrize("seed", range(40))
def test_in_space_it_needs_no_coincidence(seed):
    """Moving every coordinate by up to 0.05 changes nothing, so this is no accident of the numbers."""
    X = SPACE + np.random.default_rng(seed).uniform(-0.05, 0.05, SPACE.shape)
    assert supporting(X, Y) == [0, 1, 2, 3]
    left = [1, 2, 3]
    assert supporting(X[left], Y[left]) == [0, 1]
    _, margins = separator(X[left], Y[left])
    assert margins[2] > 1.2


def test_requests_one_after_another_are_not_one_request():
    """What the first request drops, the core set without both rows would have kept."""
    first = [i for i in (0, 2, 3) if i in np.array([0, 2, 3])[supporting(PLANE[[0, 2, 3]], Y[[0, 2, 3]])]]
    assert first == [0, 2]
    at_once = [0, 3]  # rows 1 and 2 leave together
    assert supporting(PLANE[at_once], Y[at_once]) == [0, 1]
    assert [i for i in first if i != 2] == [0]


@given(st.integers(0, 10**6), st.integers(4, 30), st.integers(1, 4))
def test_training_on_the_core_gives_the_same_separator(seed, n, d):
    X, y = separable(seed, n, d)
    assume(len(set(y)) == 2)
    core = supporting(X, y)
    right, margins = separator(X, y)
    assert core == np.flatnonzero(margins < 1 + 1e-5).tolist()
    np.testing.assert_allclose(separator(X[core], y[core])[0], right, rtol=1e-4, atol=1e-4)
    assert supporting(X[core], y[core]) == list(range(len(core)))


@given(st.integers(0, 10**6), st.sampled_from([1e-9, 1e-3, 1e4, 1e12]), st.sampled_from([0.0, -3.0, 1e6]))
def test_size_and_place_of_the_rows_do_not_matter(seed, size, shift):
    X, y = separable(seed, 20, 2)
    assume(len(set(y)) == 2)
    assert supporting(size * (X + shift), y) == supporting(X, y)


def test_a_solver_that_names_the_wrong_rows_is_not_believed(monkeypatch):
    X, y = separable(3, 40, 3)
    right = supporting(X, y)
    others = [i for i in range(len(y)) if i not in right]
    for wrong in (right[1:], [*right, *others[:2]], [*right[1:], others[0]], list(range(len(y))), [0, int(y.argmax())]):

        class Poor(SVC):
            def fit(self, Z, signs, wrong=wrong):
                self.support_ = np.array(wrong)
                return self

        with monkeypatch.context() as patch:
            patch.setattr("sklearn.svm.SVC", Poor)
            with pytest.raises(InputError, match="does not find the hard margin"):
                supporting(X, y)


@pytest.mark.parametrize("labels", [["a", "b"], [True, False], [-1.0, 2.5], [7, 3]])
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_labels_and_containers_of_any_kind(labels, container):
    X, y = separable(3, 40, 3)
    assert supporting(container(X), np.array(labels, dtype=object)[y]) == supporting(X, y)


def test_one_class_has_no_margin_and_is_kept_whole():
    assert supporting(PLANE, np.zeros(4)) == [0, 1, 2, 3]
    assert supporting(PLANE[:0], np.zeros(0)) == []


def test_rows_that_are_all_alike():
    with pytest.raises(InputError, match="separates"):
        supporting(np.ones((4, 2)), Y)


def test_more_than_two_classes_are_refused():
    with pytest.raises(InputError, match="two classes; got 4") as caught:
        supporting(PLANE, np.array([SECRET_TEXT + str(i) for i in range(4)]))
    assert_no_traces(str(caught.value))


def test_rows_that_cannot_be_separated_are_refused_at_once():
    rng = np.random.default_rng(0)
    X, y = SECRET * rng.standard_normal((400, 3)), rng.integers(2, size=400)
    with pytest.raises(InputError, match="no hyperplane separates the two classes of these 400 rows") as caught:
        supporting(X, y)
    assert_no_traces(str(caught.value))


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
def test_narrow_margins_are_found(gap):
    assert supporting(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, gap], [1.0, gap]]), Y) == [0, 1, 2, 3]


def test_a_margin_too_narrow_for_float64_is_refused():
    with pytest.raises(InputError, match="another core-set map"):
        supporting(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1e-14], [1.0, 1e-14]]), Y)


def test_scikit_learn_is_loaded_when_rows_are_selected_and_not_before():
    """Models are made of the rooms below them, and have to do without it."""
    rooms = "core, classes, coresets, features, models, store"
    modules = (
        "import importlib, pkgutil, sys, erasable\n"
        f"for room in '{rooms}'.split(', '):\n"
        "    package = importlib.import_module(f'erasable.{room}')\n"
        "    for found in pkgutil.iter_modules(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(found.name)\n"
        "assert not {'sklearn', 'pandas', 'pyarrow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", modules], check=True)
