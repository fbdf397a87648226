"""SISA: after any forgetting, every voter, checkpoint and slice is that of a model trained on the remaining rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import event, given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from erasable.errors import NoRowsError
from erasable.estimators.learners import Constant
from erasable.research.baselines import SISAClassifier
from tests.research.baselines.cases import Diary, facts, holds

BASES = {
    "default": {},
    "log loss, replayed": {"estimator": SGDClassifier(loss="log_loss"), "replay": True},
    "naive Bayes": {"estimator": GaussianNB()},
    "tree": {"estimator": DecisionTreeClassifier(max_features=1)},
    "logistic": {"estimator": LogisticRegression(max_iter=1000)},
}
IDS = {"int": lambda i: 7 * i - 50, "str": lambda i: f"é{i}", "bytes": lambda i: b"\0%d" % i}


def make_rows(n=60, n_classes=3, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 3))
    return X, np.arange(n) % n_classes


def taken_apart(model):
    """All that a model has learnt, as values."""
    return {
        "classes": facts(model.classes_),
        "counts": model._counts.tolist(),
        "place": list(model._place.items()),
        "features": model.n_features_in_,
        "seeds": [shard.base.get_params().get("random_state") for shard in model._shards],
        "voters": [facts(shard.voter) for shard in model._shards],
        "checkpoints": [[facts(pickle.loads(c)) for c in shard.checkpoints] for shard in model._shards],
        "slices": [[(facts(list(part.rows)), part.ids) for part in shard.slices] for shard in model._shards],
    }


def of(model, X, y, ids):
    """A model with the same parameters, trained on these rows and no others."""
    return SISAClassifier(**model.get_params(deep=False)).fit(X, y, ids=ids)


def without(gone, n):
    return np.setdiff1d(np.arange(n), list(gone))


# -- the law -------------------------------------------------------------------------------------------------------


@st.composite
def histories(draw, bases):
    """A model, rows with ids, and requests to forget some of them: often whole classes, shards or slices."""
    parameters = BASES[draw(st.sampled_from(bases))]
    n, n_classes = draw(st.integers(1, 24)), draw(st.integers(1, 4))
    dense = isinstance(parameters.get("estimator"), GaussianNB) or draw(st.booleans())
    X, _ = make_rows(n, seed=draw(st.integers(0, 3)))
    X = X.round(1).astype(draw(st.sampled_from([np.float32, np.float64])))
    labels = draw(st.sampled_from([np.arange(4), np.array(["a", "b", "c", "d"]), np.array([2.0, -1.0, 5.0, 0.0])]))
    y = labels[draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))]
    name = IDS[draw(st.sampled_from(sorted(IDS)))]
    model = SISAClassifier(
        n_shards=draw(st.integers(1, 4)),
        n_slices=draw(st.integers(1, 4)),
        random_state=draw(st.integers(0, 5)),
        **parameters,
    )
    some = st.lists(st.integers(0, n - 1), max_size=n)
    one = st.integers(0, n - 1).map(lambda i: [i])
    a_class = st.sampled_from(y.tolist()).map(lambda c: [i for i in range(n) if y[i] == c])
    requests = draw(st.lists(st.one_of(one, some, a_class), min_size=1, max_size=3))
    return model, X if dense else sp.csr_array(X), y, [name(i) for i in range(n)], requests


def check_history(history):
    model, X, y, ids, requests = history
    model.fit(X, y, ids=ids)
    n, gone = len(ids), set()
    for request in requests:
        report = model.forget(ids=[ids[i] for i in request])
        new = set(request) - gone
        gone |= new
        left = without(gone, n)
        assert (report.requested, report.core_rows_removed, report.core_rows) == (
            len(set(request)),
            len(new),
            len(left),
        )
        assert model.stored_rows_ == len(left)
        if not len(left):
            event("nothing left")
            with pytest.raises(NoRowsError):
                model.predict(X)
            model.fit(X, y, ids=ids)
            gone, left = set(), np.arange(n)
        event(f"classes left: {len(model.classes_)}")
        again = of(model, X[left], y[left], [ids[i] for i in left])
        assert taken_apart(model) == taken_apart(again)


@given(histories(["default", "log loss, replayed", "naive Bayes"]))
def test_forgetting_equals_refitting_slice_by_slice(history):
    check_history(history)


@given(histories(["tree", "logistic"]))
def test_forgetting_equals_refitting_whole_shards(history):
    check_history(history)


@pytest.mark.parametrize("base", BASES)
def test_checkpoints_are_those_of_a_refit_byte_for_byte(base):
    """Their size too: it would tell that a shard was trained a second time."""
    X, y = make_rows()
    model = SISAClassifier(n_shards=3, n_slices=3, **BASES[base]).fit(X, y)
    model.forget(ids=[4, 5, 6, 7])
    left = without([4, 5, 6, 7], 60)
    again = of(model, X[left], y[left], left)
    sizes = [[[len(c) for c in shard.checkpoints] for shard in m._shards] for m in (model, again)]
    assert sizes[0] == sizes[1]
    assert [s.checkpoints for s in model._shards] == [s.checkpoints for s in again._shards]


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_the_bytes_stored_are_those_of_a_refit(container):
    """Arrays that stay as long as they were would tell how many rows were forgotten."""
    X, y = make_rows()
    model = SISAClassifier(DecisionTreeClassifier(), n_shards=3, n_slices=3).fit(container(X), y)
    model.forget(ids=range(0, 60, 2))
    left = np.arange(1, 60, 2)
    assert model.stored_bytes_ == of(model, container(X[left]), y[left], left).stored_bytes_


# -- where a row goes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_no_other_row_moves_when_rows_are_left_out(seed):
    X, y = make_rows(200)
    everywhere = SISAClassifier(n_shards=4, random_state=seed).fit(X, y)._place
    some = np.arange(200)[::-3]
    fewer = SISAClassifier(n_shards=4, random_state=seed).fit(X[some], y[some], ids=some)._place
    assert fewer == {int(i): everywhere[int(i)] for i in some}
    assert set(everywhere.values()) == {(s, r) for s in range(4) for r in range(5)}


def test_rows_of_a_slice_are_learnt_in_the_order_given():
    X, y = make_rows(120)
    order = np.random.default_rng(1).permutation(120)
    model = SISAClassifier(n_shards=3, n_slices=2).fit(X, y, ids=order)
    at = {int(key): i for i, key in enumerate(order)}
    for part in (part for shard in model._shards for part in shard.slices):
        index = [at[key] for key in part.ids]
        assert index == sorted(index)
        assert facts(part.rows[0]) == facts(X[index])
        assert part.rows[1].tolist() == y[index].tolist()


def test_each_shard_seeds_its_own_base_estimator():
    X, y = make_rows(200)
    model = SISAClassifier(DecisionTreeClassifier(), n_shards=5).fit(X, y)
    seeds = [shard.voter.random_state for shard in model._shards]
    assert len(set(seeds)) == 5
    fixed = SISAClassifier(DecisionTreeClassifier(random_state=8), n_shards=5).fit(X, y)
    assert {shard.voter.random_state for shard in fixed._shards} == {8}


# -- what is trained on again --------------------------------------------------------------------------------------


def sizes(model, s):
    return [len(part.ids) for part in model._shards[s].slices]


def in_cell(model, s, r):
    return model._shards[s].slices[r].ids


def trained_on(model, s):
    """First features in the order in which a voter has to see them."""
    parts = [np.asarray(part.rows[0])[:, 0].tolist() for part in model._shards[s].slices]
    stages = [parts[: r + 1] if model.replay else parts[r : r + 1] for r in range(len(parts))]
    return [v for stage in stages for part in stage for v in part]


@pytest.mark.parametrize("replay", [False, True])
def test_a_voter_sees_its_slices_in_order(replay):
    X, y = make_rows(120)
    model = SISAClassifier(Diary(), n_shards=3, n_slices=4, replay=replay).fit(X, y)
    for s, shard in enumerate(model._shards):
        assert shard.voter.seen_ == trained_on(model, s)
        assert len(shard.checkpoints) == 4
        assert pickle.loads(shard.checkpoints[-1]).seen_ == shard.voter.seen_
        assert len(shard.voter.seen_) == sum(
            sizes(model, s)[q] for r in range(4) for q in range(0 if replay else r, r + 1)
        )
    assert sorted(i for s in range(3) for r in range(4) for i in in_cell(model, s, r)) == list(range(120))


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("first", [0, 1, 3])
def test_training_restarts_at_the_slice_of_the_earliest_deleted_row(first, replay):
    X, y = make_rows(120)
    model = SISAClassifier(Diary(), n_shards=3, n_slices=4, replay=replay).fit(X, y)
    others = [(facts(model._shards[s].voter), list(model._shards[s].checkpoints)) for s in (0, 2)]
    untouched = model._shards[1].checkpoints[:first]
    gone = [in_cell(model, 1, first)[0], in_cell(model, 1, 3)[-1]]
    Diary.calls.clear()
    report = model.forget(ids=gone[::-1])
    left = sizes(model, 1)
    expected = [left[q] for r in range(first, 4) for q in range(0 if replay else r, r + 1)]
    assert Diary.calls == expected
    assert report.rows_retrained == sum(expected)
    assert model._shards[1].checkpoints[:first] == untouched
    assert model._shards[1].voter.seen_ == trained_on(model, 1)
    assert [(facts(model._shards[s].voter), list(model._shards[s].checkpoints)) for s in (0, 2)] == others


def test_a_batch_retrains_each_shard_once():
    X, y = make_rows(120)
    model = SISAClassifier(Diary(), n_shards=3, n_slices=4).fit(X, y)
    gone = [key for s in (0, 2) for r in (1, 2, 3) for key in in_cell(model, s, r)[:2]]
    Diary.calls.clear()
    report = model.forget(ids=gone)
    assert sorted(Diary.calls) == sorted(sizes(model, 0)[1:] + sizes(model, 2)[1:])
    assert report.rows_retrained == sum(Diary.calls)
    assert report.core_rows_removed == 12


def test_an_emptied_slice_is_passed_over():
    X, y = make_rows(120)
    model = SISAClassifier(Diary(), n_shards=3, n_slices=4).fit(X, y)
    Diary.calls.clear()
    report = model.forget(ids=list(in_cell(model, 1, 2)))
    assert sizes(model, 1)[2] == 0
    assert Diary.calls == [sizes(model, 1)[3]] == [report.rows_retrained]
    assert model._shards[1].checkpoints[2] == model._shards[1].checkpoints[1]


@pytest.mark.parametrize("base", BASES)
def test_an_emptied_shard_does_not_vote(base):
    X, y = make_rows(120)
    model = SISAClassifier(n_shards=2, n_slices=2, **BASES[base]).fit(X, y)
    report = model.forget(ids=[key for r in range(2) for key in in_cell(model, 0, r)])
    assert report.rows_retrained == 0
    assert model._shards[0].voter is None
    alone = np.asarray(model._shards[1].voter.predict(X))
    assert model.predict(X).tolist() == alone.tolist()
    assert set(model.predict_proba(X).ravel()) == {0.0, 1.0}


def test_without_partial_fit_the_shard_is_fitted_anew():
    X, y = make_rows(120)
    model = SISAClassifier(DecisionTreeClassifier(), n_shards=3, n_slices=4).fit(X, y)
    before = [facts(shard.voter) for shard in model._shards]
    report = model.forget(ids=[in_cell(model, 1, 3)[0]])
    assert report.rows_retrained == sum(sizes(model, 1))
    assert [facts(shard.voter) == old for shard, old in zip(model._shards, before, strict=True)] == [True, False, True]


@pytest.mark.parametrize("base", BASES)
def test_a_vanished_class_retrains_every_shard(base):
    X, y = make_rows(120)
    y = np.where(np.arange(120) == 7, 1, 2 * (y % 2))  # classes 0, 1 and 2; one row of class 1
    model = SISAClassifier(n_shards=3, n_slices=2, **BASES[base]).fit(X, y)
    report = model.forget(ids=[7])
    assert model.classes_.tolist() == [0, 2]
    stages = 3 / 2 if model.replay else 1
    assert 119 <= report.rows_retrained <= 119 * stages
    assert set(model.predict(X)) <= {0, 2}
    left = without([7], 120)
    assert taken_apart(model) == taken_apart(of(model, X[left], y[left], left))


def test_when_nothing_is_left_no_class_is_named():
    """The classes are those of the remaining rows, and there are none."""
    X, y = make_rows(30)
    model = SISAClassifier(n_shards=2).fit(X, np.array(["a", "b", "c"])[y])
    model.forget(ids=range(30))
    assert len(model.classes_) == 0


def test_classes_keep_no_trace_of_forgotten_labels():
    """Minus zero is zero, and an array as wide as its longest text would tell the length of a label that is gone."""
    X, _ = make_rows(20)
    left = np.arange(1, 20)
    y = np.arange(20) % 2 + 0.0
    y[0] = -0.0
    model = SISAClassifier(n_shards=2).fit(X, y)
    model.forget(ids=[0])
    assert facts(model.classes_) == facts(of(model, X[left], y[left], left).classes_)


def test_classes_are_no_wider_than_the_remaining_labels():
    X, _ = make_rows(20)
    labels = ["a very long label", *["a", "b"] * 10][:20]
    model = SISAClassifier(n_shards=2).fit(X, np.array(labels))
    model.forget(ids=[0])
    again = of(model, X[1:], np.array(labels[1:]), range(1, 20))
    assert facts(model.classes_) == facts(again.classes_)


# -- voting --------------------------------------------------------------------------------------------------------


def with_voters(codes):
    X, y = make_rows(90)
    model = SISAClassifier(n_shards=len(codes)).fit(X, np.array(["a", "b", "c"])[y])
    for shard, code in zip(model._shards, codes, strict=True):
        shard.voter = None if code is None else Constant(code)
    return model


def test_votes_count_alike():
    model = with_voters([2, 0, 2, 1, 2])
    assert model.predict_proba(np.zeros((2, 3))).tolist() == [[0.2, 0.2, 0.6]] * 2
    assert model.predict(np.zeros((2, 3))).tolist() == ["c", "c"]


@pytest.mark.parametrize(("codes", "winner"), [([2, 1], "b"), ([1, 2], "b"), ([2, 2, 0, 0, 1], "a"), ([2, 1, 0], "a")])
def test_of_equals_the_first_class_wins(codes, winner):
    assert with_voters(codes).predict(np.zeros((1, 3))).tolist() == [winner]


def test_shards_without_rows_do_not_vote():
    model = with_voters([None, 1, None, 2])
    assert model.predict_proba(np.zeros((1, 3))).tolist() == [[0.0, 0.5, 0.5]]


# -- what is stored ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_stored_bytes_count_rows_labels_and_checkpoints(container):
    X, y = make_rows(120)
    few = SISAClassifier(n_shards=2, n_slices=1).fit(container(X), y)
    many = SISAClassifier(n_shards=2, n_slices=6).fit(container(X), y)
    checkpoints = sum(len(c) for shard in many._shards for c in shard.checkpoints)
    assert len(many._shards[0].checkpoints) == 6
    assert many.stored_bytes_ >= checkpoints + X.nbytes + 120 * 4
    assert many.stored_bytes_ > few.stored_bytes_
    assert many.stored_rows_ == few.stored_rows_ == 120


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
@pytest.mark.parametrize("n_slices", [1, 3])
@pytest.mark.parametrize("batch", [[17], [17, 3, 40, 41, 42, 100]])
def test_a_forgotten_row_is_nowhere_in_what_is_held(container, n_slices, batch):
    """Also not in the memory behind the arrays, nor in checkpoints of a model that learns rows by heart."""
    X, y = make_rows(120)
    X[17] = [1234.5678, 8765.4321, 2468.1357]
    ids = [f"name-{i:04}" for i in range(120)]
    model = SISAClassifier(KNeighborsClassifier(1), n_shards=3, n_slices=n_slices).fit(container(X), y, ids=ids)
    row, name, neighbour = X[17].tobytes(), b"name-0017", X[18].tobytes()
    assert holds([s.slices for s in model._shards], row)
    assert holds([s.checkpoints for s in model._shards], row)
    assert holds([s.voter for s in model._shards], row)
    assert holds(vars(model), name)
    model.forget(ids=[ids[i] for i in batch])
    assert not holds(vars(model), row)
    assert not holds(vars(model), name)
    assert not holds(pickle.dumps(model), row)
    assert holds(vars(model), neighbour)


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_the_memory_a_forgotten_row_was_in_is_overwritten(container):
    X, y = make_rows(120)
    model = SISAClassifier(n_shards=3, n_slices=2).fit(container(X), y)
    parts = [part for shard in model._shards for part in shard.slices]
    arrays = [part.X if isinstance(part.X, np.ndarray) else part.X.data for part in parts]
    gone = [part.ids[i] for part in parts for i in (0, 5, -2, -1)]  # nothing moves up over the last ones
    assert all(holds(arrays, X[i].tobytes()) for i in gone)
    model.forget(ids=gone[::2])
    model.forget(ids=gone)
    assert not any(holds(arrays, X[i].tobytes()) for i in gone)


def test_what_the_caller_does_to_the_rows_later_does_not_reach_the_model():
    X, y = make_rows(60)
    model = SISAClassifier(n_shards=1, n_slices=1).fit(X, y)
    right = of(model, X[1:], y[1:], range(1, 60))
    X[:], y[:] = 7.0, 0
    model.forget(ids=[0])
    assert taken_apart(model) == taken_apart(right)


# -- parameters ----------------------------------------------------------------------------------------------------


def test_changing_the_given_estimator_after_fit_changes_nothing():
    X, y = make_rows(60)
    base = SGDClassifier(alpha=0.01)
    model = SISAClassifier(base, n_shards=2, n_slices=2).fit(X, y)
    right = taken_apart(of(model, X[3:], y[3:], range(3, 60)))
    base.set_params(alpha=10.0)
    model.forget(ids=[0, 1, 2])
    assert taken_apart(model) == right


def test_the_given_estimator_is_not_fitted():
    X, y = make_rows(60)
    base = DecisionTreeClassifier()
    SISAClassifier(base, n_shards=2).fit(X, y).forget(ids=[3])
    assert vars(base).keys() == base.get_params().keys()
    assert base.random_state is None
