"""Rows in blocks, decided in rounds: the model is that of one call, whatever the blocks, their order and the budget."""

from __future__ import annotations

import pickle
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from erasable import ErasableClassifier, ErasableGeneralClassifier, ErasableKernelClassifier, verify
from erasable.classes import LinearBall
from erasable.core import names as hashing
from erasable.errors import ConfigurationError, ErasableError, InputError, SortedRowsWarning
from erasable.features import HashedText, RandomFourierFeatures
from erasable.models import passes, row_source
from tests.strategies import Batch, assert_identical, problems, splits


class Rows:
    """A block as anybody may make one."""

    def __init__(self, X, y, ids=None, subjects=None, weights=None):
        self.X, self.y, self.ids, self.subjects = X, y, ids, subjects
        if weights is not None:
            self.weights = weights


def of_batch(batch: Batch) -> Rows:
    return Rows(np.array(batch.X), batch.y, batch.ids, batch.subjects, batch.weights)


BUDGETS = st.sampled_from([1, 100, 300, 1000, 2**28])


@given(problems(order_keys=[0, 1, 2**100], weighted=True), BUDGETS, st.data())
def test_any_blocks_in_any_order_and_any_budget_are_one_call(problem, budget, data):
    setting, batch = problem
    shuffled = batch.part(data.draw(st.permutations(range(len(batch)))))
    blocks = [of_batch(shuffled.part(part)) for part in data.draw(splits(len(batch)))]
    clf = setting.classifier()
    report = clf.learn_blocks(blocks, allow_no_subject=True, budget_bytes=budget)
    assert_identical(clf, batch.learnt_by(setting.oracle()))
    assert (report.rows, report.core_rows_added, report.core_rows) == (len(batch), clf.n_core_, clf.n_core_)
    d = report.decisions
    assert report.rows_without_weight == sum(w <= 1 / 32 for w in batch.weights or [])
    assert d.screened + d.certified + d.enclosed + d.exact + report.rows_without_weight == len(batch)


@given(problems(order_keys=[0, 1, None], weighted=True), BUDGETS, st.data())
def test_learning_more_in_blocks_is_one_more_call(problem, budget, data):
    setting, batch = problem
    n = data.draw(st.integers(0, len(batch) - 1))
    old, new = batch.part(slice(n)), batch.part(slice(n, None))
    clf, oracle = old.learnt_by(setting.classifier()), old.learnt_by(setting.oracle())
    gone = data.draw(st.lists(st.sampled_from(batch.ids), max_size=3))
    if clf.__sklearn_is_fitted__():
        clf.forget(ids=gone)
        oracle.forget(ids=gone)
    blocks = [of_batch(new.part(part)) for part in data.draw(splits(len(new)))]
    clf.learn_blocks(blocks, allow_no_subject=True, budget_bytes=budget)
    new.learnt_by(oracle)
    assert_identical(clf, oracle)


@settings(max_examples=50)
@given(problems(order_keys=[0]), st.integers(1, 3), st.data())
def test_rows_whose_hashes_are_equal_stay_together(problem, n_hashes, data):
    setting, batch = problem
    real = hashing.keyed_hash
    with pytest.MonkeyPatch.context() as patch:
        for module in (hashing, passes):
            patch.setattr(module, "keyed_hash", lambda ids, key: real(ids, key) % np.uint64(n_hashes))
        whole = batch.learnt_by(setting.classifier())
        clf = setting.classifier()
        blocks = [of_batch(batch.part(part)) for part in data.draw(splits(len(batch)))]
        clf.learn_blocks(blocks, allow_no_subject=True, budget_bytes=1)
    assert clf.state_digest() == whole.state_digest()


# -- every model -------------------------------------------------------------------------------------------------

N = 400
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, 4)) * [1.0, 0.7, 0.3, 0.2]
X[RNG.random(X.shape) < 0.2] = 0.0
X[:, 0] += X[:, 0] == 0
Y = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
IDS = np.array([f"r{i}" for i in range(N)], dtype=object)
OWNERS = np.array([f"s{i % 9}" for i in range(N)], dtype=object)
TEXTS = np.array([f"word{i % 13} term{i % 7} n{i % 50}" for i in range(N)], dtype=object)


def laplacian(A, B):
    return np.exp(-np.abs(A[:, None] - B[None]).sum(axis=2))


MODELS = {
    "linear": (ErasableClassifier(threshold=0.1), X),
    "ball": (ErasableClassifier(threshold=0.02, scaling=8.0), X),
    "sparse": (ErasableClassifier(threshold=0.1), sparse.csr_array(X)),
    "float32": (ErasableClassifier(threshold=0.1), X.astype(np.float32)),
    "all": (ErasableClassifier(threshold=0.0), X),
    "mapped": (ErasableClassifier(feature_map=RandomFourierFeatures(10), threshold=0.1), X),
    "texts": (ErasableClassifier(feature_map=HashedText(8), threshold=0.1), TEXTS),
    "kernel": (ErasableKernelClassifier(threshold=0.5), X),
    "sparse kernel": (ErasableKernelClassifier("matern", threshold=0.5), sparse.csr_array(X)),
    "kernel function": (ErasableKernelClassifier(laplacian, threshold=0.5), X),
    "independent": (ErasableClassifier(selection="independent", rate=0.3, moments=[1.0] * X.shape[1]), X),
    "sparse independent": (ErasableClassifier(selection="independent", rate=0.3), sparse.csr_array(X)),
    "independent kernel": (ErasableKernelClassifier(selection="independent", rate=0.3), X),
    "general": (ErasableGeneralClassifier(LinearBall(), threshold=0.1), X),
}
CUTS = {"one": [], "two": [250], "many": list(range(7, N, 31))}


def in_blocks(rows, cuts, order=None):
    order = np.arange(N) if order is None else order
    parts = np.split(order, CUTS[cuts])
    return [Rows(rows[part], Y[part], IDS[part], OWNERS[part]) for part in parts]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("budget", [6_000, 2**28])
def test_every_model_learns_in_rounds_what_it_learns_at_once(name, cuts, budget):
    model, rows = MODELS[name]
    whole = clone(model).fit(rows, Y, ids=IDS, subjects=OWNERS)
    clf = clone(model)
    clf.learn_blocks(in_blocks(rows, cuts, RNG.permutation(N)), budget_bytes=budget)
    assert clf.state_digest() == whole.state_digest() == verify(clf).digest
    assert vars(clf).keys() == vars(whole).keys()


def counted(blocks):
    class Counted:
        passes = 0

        def __iter__(self):
            self.passes += 1
            return iter(blocks)

    return Counted()


@pytest.mark.parametrize("name", ["linear", "sparse", "kernel", "mapped"])
def test_few_passes_are_enough_because_screening_is(name):
    model, rows = MODELS[name]
    clf, blocks = clone(model), counted(in_blocks(rows, "many"))
    report = clf.learn_blocks(blocks, budget_bytes=30_000)
    assert 2 <= blocks.passes <= 4
    assert report.decisions.screened > N // 5


def test_what_fits_is_read_once_and_what_is_there_screens_from_the_first_pass_on():
    blocks = counted(in_blocks(X, "many"))
    clf = ErasableClassifier(threshold=0.1).fit(X, Y)
    clone(clf).learn_blocks(blocks)
    assert blocks.passes == 1
    more = counted([Rows(X[part], Y[part], np.arange(1000, 1000 + N)[part]) for part in np.split(np.arange(N), [100])])
    report = clf.learn_blocks(more)
    assert more.passes == 1
    assert report.decisions.screened > N // 2


def test_progress_rises_to_all_rows():
    for budget in (5_000, 2**28):
        seen = []
        ErasableClassifier(threshold=0.1).learn_blocks(in_blocks(X, "many"), budget_bytes=budget, progress=seen.append)
        assert seen == sorted(seen)
        assert seen[-1] == N
        assert len(set(seen)) > 1 or budget > N * 1000


def test_the_first_pass_of_a_new_model_tells_how_much_was_read():
    read, done = [], []
    clf = ErasableClassifier(threshold=0.1)
    clf.learn_blocks(in_blocks(X, "many"), budget_bytes=5_000, reading=read.append, progress=done.append)
    assert read == [*CUTS["many"], N]
    read.clear()
    more = [Rows(X[part], Y[part], np.arange(1000, 1000 + N)[part]) for part in np.split(np.arange(N), [100])]
    ErasableClassifier(threshold=0.1).fit(X, Y).learn_blocks(more, reading=read.append)
    assert not read  # there is a screen, so that fates are known


def test_a_new_model_holds_few_rows_until_it_can_screen(monkeypatch):
    monkeypatch.setattr(row_source, "_FIRST_BYTES", 1000)
    monkeypatch.setattr(row_source, "_FIRST_ROWS", 10)
    clf, blocks, learnt = ErasableClassifier(threshold=0.1), counted(in_blocks(X, "many")), []
    model_learns = type(clf.fit(X, Y).model_).learn

    def learn(model, rows, *args, **kwargs):
        learnt.append(len(rows))
        return model_learns(model, rows, *args, **kwargs)

    monkeypatch.setattr("erasable.models.model.Model.learn", learn)
    clf = clone(clf)
    clf.learn_blocks(blocks)
    assert len(learnt) == 2
    assert 20 < learnt[0] <= 40  # ten for each of four columns
    assert sum(learnt) < 0.9 * N  # the others were ruled out by the core rows of the first round
    monkeypatch.undo()
    assert clf.state_digest() == clone(clf).fit(X, Y, ids=IDS, subjects=OWNERS).state_digest()


# -- rows that can be read but once --------------------------------------------------------------------------------


def test_an_iterator_that_does_not_fit_is_refused_and_says_what_to_do():
    clf, blocks = ErasableClassifier(threshold=0.1), iter(in_blocks(X, "many"))
    with pytest.raises(InputError, match=r'only once.*10,000 bytes.*file.*order= "given"'):
        clf.learn_blocks(blocks, budget_bytes=10_000)
    assert next(blocks, None) is not None  # refused as soon as it was clear
    assert not clf.__sklearn_is_fitted__()
    clf.set_params(order="given").learn_blocks(iter(in_blocks(X, "many")), budget_bytes=10)
    whole = ErasableClassifier(threshold=0.1, order="given").fit(X, Y, ids=IDS, subjects=OWNERS)
    assert clf.state_digest() == whole.state_digest()


# -- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["hashed", "given"])
@pytest.mark.parametrize("cuts", CUTS)
def test_rows_without_ids_are_numbered_through_all_blocks(order, cuts):
    parts = np.split(np.arange(N), CUTS[cuts])
    whole, clf = (ErasableClassifier(threshold=0.1, order=order) for _ in range(2))
    clf.learn_blocks([Rows(X[part], Y[part]) for part in parts], budget_bytes=5_000)
    assert clf.state_digest() == whole.fit(X, Y).state_digest()
    for model in (clf, whole):
        model.forget(ids=model.core_ids_[-3:])
    clf.learn_blocks([Rows(X[part] + 1.0, Y[part]) for part in parts], budget_bytes=5_000)
    assert clf.state_digest() == whole.partial_fit(X + 1.0, Y).state_digest()


WRONG = {
    "labels of two types": ([Rows(X[:9], Y[:9]), Rows(X[9:], np.arange(N - 9) % 2)], "another type"),
    "ids of two types": ([Rows(X[:9], Y[:9], IDS[:9]), Rows(X[9:], Y[9:], range(N - 9))], "ids are strings"),
    "ids with some": ([Rows(X[:9], Y[:9], IDS[:9]), Rows(X[9:], Y[9:])], "with all blocks"),
    "ids with others": ([Rows(X[:9], Y[:9]), Rows(X[9:], Y[9:], IDS[9:])], "with all blocks"),
    "an id twice in a block": ([Rows(X[:9], Y[:9], [0] * 9)], "distinct"),
    "an id twice": ([Rows(X[:9], Y[:9], range(9)), Rows(X[9:12], Y[9:12], [8, 9, 10])], "distinct|already present"),
    "subjects of two types": (
        [Rows(X[:9], Y[:9], subjects=OWNERS[:9]), Rows(X[9:12], Y[9:12], subjects=[1, 2, 3])],
        "subjects are strings",
    ),
    "rows without a subject": (
        [Rows(X[:9], Y[:9], subjects=OWNERS[:9]), Rows(X[9:12], Y[9:12], subjects=["a", None, "b"])],
        "no subject",
    ),
    "other columns": ([Rows(X[:9], Y[:9]), Rows(X[9:12, :2], Y[9:12])], "features"),
    "no numbers": ([Rows(X[:9], Y[:9]), Rows(X[9:12] * np.nan, Y[9:12])], "NaN"),
    "nothing": ([], "nothing to learn"),
}


@pytest.mark.parametrize("order", ["hashed", "given"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_one_call_would_refuse_is_refused(wrong, order):
    blocks, says = WRONG[wrong]
    if (wrong, order) == ("labels of two types", "given"):
        says = "type"  # the model holds rows of the first block already
    clf = ErasableClassifier(threshold=0.01, order=order)
    with pytest.raises(ErasableError, match=says):
        clf.learn_blocks(blocks)
    assert not clf.__sklearn_is_fitted__()


@pytest.mark.parametrize("order", ["hashed", "given"])
@pytest.mark.parametrize("ids", [np.arange(N), IDS])
def test_ids_that_repeat_in_another_block_are_noticed_also_among_rows_that_are_ruled_out(order, ids):
    twice = ids.copy()
    twice[-1] = twice[0]
    for threshold in (0.01, 0.9):  # at 0.9 next to no row is kept
        clf = ErasableClassifier(threshold=threshold, order=order)
        blocks = [Rows(X[part], Y[part], twice[part]) for part in np.split(np.arange(N), [100, 300])]
        with pytest.raises(InputError, match=r"distinct|already present"):
            clf.learn_blocks(blocks, budget_bytes=3_000)
        assert not clf.__sklearn_is_fitted__()


def test_the_rows_of_a_round_are_let_go_of_before_the_next(monkeypatch):
    held, left, release, one_pass = [], [], row_source.RowBuffer.release, passes._Run.one_pass

    def noted(self):
        rows = release(self)
        held.append(weakref.ref(rows))
        return rows

    def looked(self, *given):
        left.append(sum(rows() is not None for rows in held))
        return one_pass(self, *given)

    monkeypatch.setattr(row_source.RowBuffer, "release", noted)
    monkeypatch.setattr(passes._Run, "one_pass", looked)
    ErasableClassifier(threshold=0.01).learn_blocks(in_blocks(X, "many"), budget_bytes=3_000)
    assert len(left) > 2
    assert not any(left)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=60), st.integers(1, 40), st.integers(1, 2**63), st.data())
def test_what_repeats_is_refused_and_nothing_else(ids, most, n_hashes, data):
    """The lowest hashes are looked at; equal ones of different ids are no reason."""
    parts = np.split(np.array(ids), sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=3))))
    blocks = [row_source.Rows(np.zeros((len(p), 1)), np.zeros(len(p)), p) for p in parts]
    real = hashing.keyed_hash
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "keyed_hash", lambda ids, key: real(ids, key) % np.uint64(n_hashes))
        patch.setattr(passes._RepeatedIds, "MOST", most)
        looked = passes._RepeatedIds(0)
        for block in blocks:
            looked.add(passes.keyed_hash(block.ids, 0))
        if len(set(ids)) == len(ids):
            looked.refuse(blocks)
        elif len(ids) <= most:
            with pytest.raises(InputError, match="distinct"):
                looked.refuse(blocks)


def test_hashes_are_let_go_of_once_they_were_looked_at():
    looked = passes._RepeatedIds(0)
    looked.add(hashing.keyed_hash(np.arange(10), 0))
    buffer = weakref.ref(looked.lowest)
    looked.refuse([])
    assert buffer() is None
    looked.add(hashing.keyed_hash(np.arange(10), 0))
    looked.refuse([])


def test_many_repetitions_in_many_rows_are_noticed(monkeypatch):
    monkeypatch.setattr(passes._RepeatedIds, "MOST", 20)
    twice = [Rows(X, Y, np.arange(N)), Rows(X, Y, np.arange(N))]
    with pytest.raises(InputError, match="distinct"):
        ErasableClassifier(threshold=0.9).learn_blocks(twice, budget_bytes=3_000)


def test_rows_outside_the_ball_are_refused_wherever_they_stand():
    far = X.copy()
    far[-1] = 50.0
    with pytest.raises(InputError, match="norm above"):
        ErasableClassifier(threshold=0.02, scaling=8.0).learn_blocks(in_blocks(far, "many"), budget_bytes=5_000)


def test_rows_that_are_there_already_are_refused():
    clf = ErasableClassifier(threshold=0.1).fit(X, Y, ids=IDS)
    with pytest.raises(InputError, match="already present"):
        clf.learn_blocks(in_blocks(X, "two"))


@pytest.mark.parametrize(
    "model",
    [
        ErasableClassifier(threshold=0.1),
        ErasableClassifier(threshold=0.1, order="given"),
        ErasableKernelClassifier(threshold=0.05),
        ErasableGeneralClassifier(LinearBall(), threshold=0.05),
    ],
)
@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
def test_a_model_that_was_refused_half_way_is_as_it_was(model, failure):
    """Rows of earlier rounds or blocks, some of them of a new class, were learnt by then."""
    clf = clone(model).fit(X, Y, ids=IDS, subjects=OWNERS)
    before, memory, sizes = clf.state_digest(), pickle.dumps(clf), []

    class Failing:
        passes = 0

        def __iter__(self):
            self.passes += 1
            weights = np.full(N, 2.0) if isinstance(clf, ErasableClassifier) else None
            yield Rows(2.0 * X[:, ::-1], np.full(N, "new"), new := [f"new {i}" for i in range(N)], new, weights)
            if self.passes > 1 or clf.order == "given":
                sizes.append(clf.n_core_)
                raise failure("the disk is gone")

    with pytest.raises(failure, match="disk"):
        clf.learn_blocks(Failing(), budget_bytes=500)
    assert sizes[0] > clf.n_core_
    assert clf.state_digest() == before == verify(clf).digest
    assert pickle.dumps(clf) == memory
    clf.learn_blocks([Rows(X[:5], Y[:5], [f"more {i}" for i in range(5)], OWNERS[:5])])


def test_a_table_that_shrinks_while_it_is_read_is_refused():
    class Shrinking:
        passes = 0

        def __iter__(self):
            self.passes += 1
            return iter(in_blocks(X, "many")[: 5 if self.passes < 3 else 2])

    with pytest.raises(InputError, match="fewer rows"):
        ErasableClassifier(threshold=0.1).learn_blocks(Shrinking(), budget_bytes=500)


@pytest.mark.parametrize("budget", [0, -1, 1.5, None])
def test_a_budget_is_a_number_of_bytes(budget):
    with pytest.raises(ConfigurationError, match="budget_bytes"):
        ErasableClassifier(threshold=0.1).learn_blocks(in_blocks(X, "two"), budget_bytes=budget)


def test_long_runs_are_seen_across_blocks():
    order = np.argsort(Y, kind="stable")
    clf = ErasableClassifier(threshold=0.1, order="given")
    with pytest.warns(SortedRowsWarning):
        clf.learn_blocks(in_blocks(X, "many", order))
    clone(clf).learn_blocks(in_blocks(X, "many"))
    clone(clf).set_params(order="hashed").learn_blocks(in_blocks(X, "many", order))
