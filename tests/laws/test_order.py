"""The order of rows: hashed, a state is a function of the set of rows of each call; given, it is the literal loop."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    load,
    verify,
)
from erasable.classes import LinearBall
from erasable.coresets import LeverageThreshold
from erasable.errors import ConfigurationError, SortedRowsWarning
from erasable.features import HashedText, RandomFourierFeatures
from erasable.models.row_source import Rows
from erasable.research.baselines import RetrainedRidge
from tests.formats.models import NearestMean
from tests.laws.test_same_digest import CONTAINERS
from tests.strategies import assert_identical, problems, splits

HASHED = {"order_keys": [0, 1, 2**100]}


# -- the laws ----------------------------------------------------------------------------------------------------


@given(problems(**HASHED), st.data())
def test_one_call_is_a_function_of_the_set_of_its_rows(problem, data):
    setting, batch = problem
    shuffled = batch.part(data.draw(st.permutations(range(len(batch)))))
    clf = shuffled.learnt_by(setting.classifier())
    assert clf.state_digest() == batch.learnt_by(setting.classifier()).state_digest()
    assert_identical(clf, batch.learnt_by(setting.oracle()))


@given(problems(**HASHED), st.data())
def test_several_calls_are_a_function_of_their_sets_and_of_the_order_of_calls(problem, data):
    setting, batch = problem
    one, other, oracle = setting.classifier(), setting.classifier(), setting.oracle()
    for part in data.draw(splits(len(batch))):
        rows = batch.part(part)
        rows.learnt_by(one)
        rows.learnt_by(oracle)
        rows.part(data.draw(st.permutations(range(len(rows))))).learnt_by(other)
    assert one.state_digest() == other.state_digest() == verify(one).digest
    assert_identical(one, oracle)


@given(problems(**HASHED), st.data())
def test_several_calls_equal_replaying_their_survivors(problem, data):
    setting, batch = problem
    clf, calls = setting.classifier(), []
    for part in data.draw(splits(len(batch))):
        calls.append(batch.part(part))
        calls[-1].learnt_by(clf)
        clf.forget(ids=data.draw(st.lists(st.sampled_from(batch.ids))))
    kept, again = set(clf.core_ids_.tolist()), setting.classifier()
    for call in calls:
        call.part([i for i, key in enumerate(call.ids) if key in kept]).learnt_by(again)
    if kept:
        assert again.state_digest() == clf.state_digest() == verify(clf).digest


@given(problems(order_keys=[None]))
def test_the_order_given_is_the_literal_loop(problem):
    setting, batch = problem
    clf = batch.learnt_by(setting.classifier())
    place = {key: i for i, key in enumerate(batch.ids)}
    assert [place[key] for key in clf.core_ids_.tolist()] == sorted(place[key] for key in clf.core_ids_.tolist())
    assert_identical(clf, batch.learnt_by(setting.oracle()))


# -- every model, every container --------------------------------------------------------------------------------

N = 300
RNG = np.random.default_rng(11)
X = RNG.standard_normal((N, 5)) * [1.0, 0.8, 0.4, 0.2, 0.1]
X[RNG.random(X.shape) < 0.3] = 0.0
X[50:60] = X[0]
Y = np.array(["c", "a", "b"])[np.digitize(X[:, 0], [-0.4, 0.4])]
WORDS = np.array(["red", "green", "blue", "round", "square"])
TEXTS = [" ".join(WORDS[x != 0]) + f" n{i % 40}" for i, x in enumerate(X)]
IDS = {
    "int": np.arange(N) * 7 - 500,
    "str": np.array([f"r{i}" for i in range(N)]),
    "bytes": [b"%d" % i for i in range(N)],
}
MODELS = {
    "linear": ErasableClassifier(1.0, threshold=0.1),
    "columns": ErasableClassifier(1.0, threshold=0.1, scaling=[3.0, 1.0, 2.0, 1.0, 1.0]),
    "ball": ErasableClassifier(1.0, threshold=0.02, scaling=9.0),
    "mapped": ErasableClassifier(1.0, feature_map=RandomFourierFeatures(12), threshold=0.1),
    "logistic": ErasableClassifier(1.0, threshold=0.1, loss="logistic", class_weight="balanced"),
    "independent": ErasableClassifier(selection="independent", rate=0.3, moments=[0.5, 0.25, 0.125, 0.125, 0.125]),
    "independent kernel": ErasableKernelClassifier(selection="independent", rate=0.3),
    "kernel": ErasableKernelClassifier(threshold=0.3),
    "general": ErasableGeneralClassifier(LinearBall(), threshold=0.1),
    "ridge": RetrainedRidge(),
}


def shuffles():
    """Sorted by class, backwards, and at random."""
    return {"sorted": np.argsort(Y, kind="stable"), "backwards": np.arange(N)[::-1], "random": RNG.permutation(N)}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_shuffling_rows_leaves_the_digest(name, kind, container):
    ids = np.asarray(IDS[kind], dtype=None if kind == "int" else object)
    first = clone(MODELS[name]).fit(container(X), Y, ids=ids)
    if name != "ridge":
        assert 10 < first.n_core_ < N - 10
    for index in shuffles().values():
        again = clone(MODELS[name]).fit(container(X[index]), Y[index], ids=ids[index])
        assert again.state_digest() == first.state_digest()
        assert again.core_ids_.tolist() == first.core_ids_.tolist()


@pytest.mark.parametrize("container", CONTAINERS)
def test_shuffling_rows_in_any_container(container):
    put, index = CONTAINERS[container], shuffles()["random"]
    exact = X.astype(np.float32).astype(np.float64)
    first = ErasableClassifier(1.0, threshold=0.1).fit(exact, Y)
    again = ErasableClassifier(1.0, threshold=0.1)
    again._learn(Rows(put(exact[index]), Y[index], index), fresh=True, block_rows=16, chunk_rows=5)
    assert again.state_digest() == first.state_digest()


def test_shuffling_texts():
    make = lambda: ErasableClassifier(1.0, feature_map=HashedText(16), threshold=0.1)  # noqa: E731
    first, index = make().fit(TEXTS, Y), shuffles()["random"]
    assert make().fit([TEXTS[i] for i in index], Y[index], ids=index).state_digest() == first.state_digest()


def test_models_differ_by_their_keys():
    models = [ErasableClassifier(1.0, threshold=0.1, random_state=key) for key in (0, 1, 2**64)]
    digests = {clf.fit(X, Y).state_digest() for clf in models}
    digests.add(ErasableClassifier(1.0, threshold=0.1, order="given").fit(X, Y).state_digest())
    assert len(digests) == 4
    given_ = [ErasableClassifier(1.0, threshold=0.1, order="given", random_state=k).fit(X, Y) for k in (0, 7)]
    assert given_[0].state_digest() == given_[1].state_digest()


def test_the_core_is_spread_over_the_rows():
    """In the order given it sits at the beginning: deleting the oldest rows first would take it away."""
    rng = np.random.default_rng(0)
    rows, y = rng.standard_normal((4000, 5)), rng.integers(0, 2, 4000)
    models = {o: ErasableClassifier(1.0, threshold=0.02, order=o).fit(rows, y) for o in ("hashed", "given")}
    middle = {o: np.median(clf.core_ids_) for o, clf in models.items()}
    assert middle["given"] < 800 < 1500 < middle["hashed"] < 2500


def test_rows_without_ids_are_known_by_their_positions():
    """So shuffling such rows gives them other names, and another state."""
    index = shuffles()["random"]
    first = ErasableClassifier(1.0, threshold=0.1).fit(X, Y)
    assert first.state_digest() == ErasableClassifier(1.0, threshold=0.1).fit(X, Y, ids=np.arange(N)).state_digest()
    assert first.state_digest() != ErasableClassifier(1.0, threshold=0.1).fit(X[index], Y[index]).state_digest()


def test_core_set_maps_take_rows_as_they_are_given():
    clf = CoreSetUnlearner(LeverageThreshold(0.1), NearestMean()).fit(X, Y)
    assert clf.core_ids_.tolist() == sorted(clf.core_ids_.tolist())


def test_the_staged_sampler_has_no_order():
    models = [
        ErasableGeneralClassifier(LinearBall(), sampler="staged", order=order, random_state=key, rate=4.0).fit(X, Y)
        for order, key in (("hashed", 0), ("hashed", 1), ("given", 0))
    ]
    assert len({m.state_digest() for m in models}) == 1
    assert models[0].model_.configuration.order_key is None


def test_digits_sorted_by_class_are_as_good_as_shuffled_to_the_last_bit():
    rows, y = load_digits(return_X_y=True)
    shuffled = np.random.default_rng(0).permutation(len(y))
    test, train = shuffled[:360], shuffled[360:]
    by_class = train[np.argsort(y[train], kind="stable")]
    found = {}
    for order in ("hashed", "given"):
        for name, index in (("shuffled", train), ("sorted", by_class)):
            clf = ErasableClassifier(0.1, threshold=0.1, order=order)
            if (order, name) == ("given", "sorted"):
                with pytest.warns(SortedRowsWarning, match="long runs"):
                    clf.fit(rows[index], y[index], ids=index)
            else:
                clf.fit(rows[index], y[index], ids=index)
            found[order, name] = clf
    assert found["hashed", "sorted"].state_digest() == found["hashed", "shuffled"].state_digest()
    scores = {key: clf.score(rows[test], y[test]) for key, clf in found.items()}
    assert scores["hashed", "sorted"] > scores["given", "sorted"] + 0.03
    assert abs(scores["hashed", "sorted"] - scores["given", "shuffled"]) < 0.03


# -- what it costs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_there_is_no_copy_of_the_rows_in_order(container):
    rows = container(np.random.default_rng(1).standard_normal((20_000, 40)))
    size = 20_000 * 40 * 8
    peaks = {}
    for order in ("given", "hashed"):
        clf = ErasableClassifier(1.0, threshold=0.3, order=order)
        y = np.arange(20_000) % 2
        tracemalloc.start()
        clf._learn(Rows(rows, y), fresh=True, block_rows=512)
        peaks[order] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks["hashed"] < peaks["given"] + 0.4 * size


# -- parameters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear", "kernel", "general"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"order": "random"},
        {"order": None},
        {"random_state": None},
        {"random_state": -1},
        {"random_state": 1.0},
        {"random_state": True},
        {"random_state": 2**128},
        {"random_state": np.random.default_rng(0)},
        {"order": "given", "random_state": None},
    ],
)
def test_an_order_that_is_none_is_refused(name, wrong):
    with pytest.raises(ConfigurationError, match=next(reversed(wrong))):
        clone(MODELS[name]).set_params(**wrong).fit(X, Y)


@pytest.mark.parametrize("name", ["linear", "kernel", "general"])
@pytest.mark.parametrize("other", [{"order": "given"}, {"random_state": 1}])
def test_the_order_stays_what_it_was(name, other):
    clf = clone(MODELS[name]).partial_fit(X[:200], Y[:200])
    before = clf.state_digest()
    with pytest.raises(ConfigurationError, match="changed since"):
        clf.set_params(**other).partial_fit(X[200:], Y[200:])
    assert clf.state_digest() == before


@pytest.mark.parametrize("name", ["linear", "logistic", "kernel", "general", "mapped"])
@pytest.mark.parametrize("order", [{}, {"random_state": 2**100}, {"order": "given"}])
def test_files_keep_the_order(name, order, tmp_path):
    clf = clone(MODELS[name]).set_params(**order).fit(X[:200], Y[:200])
    clf.save(tmp_path / "m")
    like = clone(clf) if name in ("general", "mapped") else None
    again = load(tmp_path / "m", like=like)
    assert {k: again.get_params()[k] for k in ("order", "random_state")} == {
        "order": "hashed",
        "random_state": 0,
    } | order
    assert again.state_digest() == clf.state_digest() == verify(again).digest
    for model in (clf, again):
        model.partial_fit(X[200:], Y[200:], ids=np.arange(1000, 1100))
    assert again.state_digest() == clf.state_digest()
    if like is not None:
        other = {"order": "given"} if not order else {"order": "hashed", "random_state": 3}
        with pytest.raises(ConfigurationError, match="order"):
            load(tmp_path / "m", like=like.set_params(**other))


# -- labels in long runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear", "kernel", "general"])
def test_labels_in_long_runs_are_warned_of_where_rows_are_decided_as_given(name, recwarn):
    index = shuffles()["sorted"]
    clone(MODELS[name]).fit(X[index], Y[index])
    clone(MODELS[name]).set_params(order="given").fit(X, Y)
    assert SortedRowsWarning not in [w.category for w in recwarn]
    with pytest.warns(SortedRowsWarning, match='order= at "hashed"') as told:
        clone(MODELS[name]).set_params(order="given").fit(X[index], Y[index])
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("labels", "runs"),
    [
        ([0] * 50 + [1] * 50, True),
        ([0] * 49 + [1] * 50, False),  # too few to say
        ([0] * 100, False),
        ([0] * 199 + [1], False),  # no order has more changes
        (([0] * 20 + [1] * 180) * 5, True),
        ([0, 1] * 50, False),
        (["a"] * 60 + ["b"] * 60 + ["c"] * 60, True),
        (([0] * 10 + [1] * 10) * 10, False),
    ],
)
def test_what_long_runs_are(labels, runs, recwarn):
    rows = np.random.default_rng(0).standard_normal((len(labels), 3))
    ErasableClassifier(1.0, threshold=0.1, order="given").fit(rows, labels)
    assert (SortedRowsWarning in [w.category for w in recwarn]) == runs


def test_a_warning_that_is_an_error_leaves_the_model_as_it_was():
    clf = ErasableClassifier(1.0, threshold=0.1, order="given").fit(X, Y)
    before, index = clf.state_digest(), shuffles()["sorted"]
    with pytest.raises(SortedRowsWarning):  # here warnings are errors
        clf.partial_fit(X[index], Y[index], ids=np.arange(1000, 1000 + N))
    assert clf.state_digest() == before
