"""Theorem 3.1 as software: learners on core sets, with and without a way to forget of their own."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from erasable import ErasableClassifier, verify
from erasable.core.fingerprint import fingerprint
from erasable.coresets import IndependentSample, LeverageThreshold, RandomSubsample, SupportVectors
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    NoRowsError,
    VerificationError,
)
from erasable.estimators.core_set import CoreSetUnlearner
from erasable.estimators.learners import Constant, described, selected_rows
from erasable.models.core_rows import CoreRows, Row
from erasable.models.model import Model
from erasable.models.reports import SAME_BITS_AGAIN
from erasable.research.baselines import (
    CertifiedRemovalClassifier,
    NewtonUnlearner,
    RetrainedRidge,
    SISAClassifier,
)
from erasable.research.baselines.interpolated import InterpolatedClassifier
from tests.estimators.cases import (
    SECRET_ID,
    SECRET_TEXT,
    assert_no_traces,
    everything_said,
    make_classes,
    make_rows,
)
from tests.research.baselines.cases import FitOnly, facts

contents = functools.partial(fingerprint, contents_only=True)
N = 240
X, Y = make_rows(N)
IDS = [SECRET_ID + i for i in range(N)]
LABELS = np.array([SECRET_TEXT + "-a", SECRET_TEXT + "-b"])[Y]
MAPS = {
    "leverage": LeverageThreshold(0.02),
    "subsample": RandomSubsample(0.4),
    "independent": IndependentSample(0.4, np.full(X.shape[1], 1 / X.shape[1])),
}
LEARNERS = {
    "ridge": RidgeClassifier(),
    "logistic": LogisticRegression(),
    "tree": DecisionTreeClassifier(max_features=1),
    "bayes": GaussianNB(),
    "sgd": SGDClassifier(max_iter=5, tol=None),
    "neighbours": KNeighborsClassifier(3),
    "forest": RandomForestClassifier(4),
    "pipeline": make_pipeline(StandardScaler(), SGDClassifier(max_iter=5, tol=None)),
    "retrained": RetrainedRidge(),
    "erasable": ErasableClassifier(1.0, threshold=0.05),
    "sisa": SISAClassifier(SGDClassifier(max_iter=5, tol=None), n_shards=3, n_slices=2),
    "newton": NewtonUnlearner("squared"),
    "nested": CoreSetUnlearner(RandomSubsample(0.6, random_state=9), RidgeClassifier()),
}
every_map = pytest.mark.parametrize("core_set", MAPS.values(), ids=MAPS)
every_learner = pytest.mark.parametrize("name", LEARNERS)


def holds(model, needle):
    """Whether the bytes are in anything that the model would save."""
    return needle in pickle.dumps(model)


def learnt(core_set, name, rows=X, labels=LABELS, ids=IDS):
    return CoreSetUnlearner(core_set, LEARNERS[name]).fit(rows, labels, ids=ids)


def refit(model, rows=X, labels=LABELS):
    """A new model of the same kind that learns the surviving core rows and nothing else."""
    at = [IDS.index(key) for key in model.core_ids_.tolist()]
    return clone(model).fit(rows[at], labels[at], ids=[IDS[i] for i in at])


def assert_same(model, other):
    assert model.state_digest() == other.state_digest()
    assert model.core_ids_.tolist() == other.core_ids_.tolist()
    assert model.classes_.tolist() == other.classes_.tolist()
    if isinstance(model.learner, NewtonUnlearner):
        np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), rtol=1e-9, atol=1e-12)
    elif isinstance(model.learner, KNeighborsClassifier):  # its tree counts the questions it was asked
        assert contents(model._model.cache["learner"]) == contents(other._model.cache["learner"])
    else:
        assert facts(model._model.cache["learner"]) == facts(other._model.cache["learner"])
    assert (model.predict(X) == other.predict(X)).all()
    assert model.stored_rows_ == other.stored_rows_


def assert_verified(model):
    """It verifies; one whose learner promises nothing about its state is refused, also after an exact step."""
    if isinstance(model.learner, NewtonUnlearner | CertifiedRemovalClassifier):
        with pytest.raises(VerificationError, match="guarantee is of its model alone"):
            verify(model)
    else:
        report = verify(model)
        assert (report.core_rows, report.digest) == (model.n_core_, model.state_digest())


# -- the theorem -----------------------------------------------------------------------------------------------------


@every_map
@every_learner
@pytest.mark.parametrize("classes", [2, 3])
def test_forgetting_equals_training_on_the_surviving_core_rows(core_set, name, classes):
    labels = LABELS if classes == 2 else np.array([SECRET_TEXT + c for c in "xyz"])[make_classes(3)]
    model = learnt(core_set, name, labels=labels)
    assert 20 < model.n_core_ < N
    for request in (IDS[:1], IDS[1:90:3], IDS[100:180]):
        before = model.core_ids_.tolist()
        report = model.forget(ids=request)
        assert model.core_ids_.tolist() == [key for key in before if key not in request]
        assert report.core_rows_removed == len(before) - model.n_core_
        assert report.core_rows == model.n_core_ == model.stored_rows_
        assert_same(model, refit(model, labels=labels))
        assert_verified(model)


@every_map
@every_learner
def test_rows_outside_the_core_leave_no_trace_and_can_be_forgotten_for_free(core_set, name):
    model = learnt(core_set, name)
    core = set(model.core_ids_.tolist())
    before = facts(model.__getstate__())
    report = model.forget(ids=[key for key in IDS if key not in core])
    assert (report.core_rows_removed, report.rows_retrained) == (0, 0)
    assert facts(model.__getstate__()) == before
    assert_same(model, refit(model))
    saved = pickle.dumps(model)
    for i, key in enumerate(IDS):
        assert (X[i].tobytes() in saved) == (key in core)


@every_learner
def test_forgotten_rows_are_nowhere(name):
    model = learnt(MAPS["subsample"], name)
    gone = model.core_ids_.tolist()[::3]
    old = [row.numbers for row in model._model.core.find(gone)]
    assert all(map(any, old))
    assert all(holds(model, X[IDS.index(key)].tobytes()) for key in gone)
    model.forget(ids=gone)
    assert not any(holds(model, X[IDS.index(key)].tobytes()) for key in gone)
    assert not any(map(any, old))  # overwritten


def test_of_sparse_rows_the_columns_are_overwritten_too():
    """Which words a text has is told by the columns alone."""
    model = learnt(MAPS["subsample"], "ridge", rows=sp.csr_array(X))
    for change in (lambda: model.forget(ids=model.core_ids_[::3]), lambda: model.fit(sp.csr_array(X), LABELS)):
        old = [row.numbers for row in model._model.core.find(model.core_ids_.tolist())]
        assert all(map(any, old))
        change()
        assert not any(map(any, old))


def test_a_model_that_has_learnt_nothing_can_be_erased():
    model = Model(learnt(MAPS["subsample"], "ridge")._model.configuration)
    model.erase()
    with pytest.raises(ChangedMeanwhileError):
        model.snapshot()


@every_map
@pytest.mark.parametrize("name", ["ridge", "tree", "sgd", "retrained", "erasable", "sisa"])
def test_sparse_rows(core_set, name):
    rows = np.where(np.abs(X) < 0.4, 0.0, X)
    rows[:, 0] += 1.0
    explicit = sp.csr_matrix(rows)
    explicit.data[::7] = 0.0  # zeros that are written down
    model = learnt(core_set, name, rows=explicit)
    model.forget(ids=IDS[:60])
    again = refit(model, rows=sp.csr_array(explicit.toarray()))
    assert model.state_digest() == again.state_digest()
    assert (model.predict(explicit) == again.predict(explicit)).all()
    assert verify(model).core_rows == model.n_core_
    assert refit(model, rows=explicit.toarray()).state_digest() != model.state_digest()


def test_the_core_rows_are_in_order_of_selection():
    @dataclasses.dataclass(frozen=True)
    class Backwards:
        stable = True

        def select(self, X, y, keys):
            return np.arange(len(keys))[::-1]

        def describe(self):
            return {"map": "Backwards"}

    @dataclasses.dataclass(frozen=True)
    class Largest(Backwards):
        def select(self, X, y, keys):
            return np.argsort(-X[:, 0])[: max(1, len(keys))]

    model = CoreSetUnlearner(Largest(), KNeighborsClassifier(1)).fit(X, LABELS, ids=IDS)
    assert model.core_ids_.tolist() == [IDS[i] for i in np.argsort(-X[:, 0])]
    model.forget(ids=IDS[::2])
    verify(model)
    assert_same(model, refit(model))
    # A map that turns the order round each time is not stable, whatever it declares, and verification finds out.
    with pytest.raises(VerificationError, match="another order"):
        verify(CoreSetUnlearner(Backwards(), RidgeClassifier()).fit(X, LABELS))


# -- randomness ------------------------------------------------------------------------------------------------------


def test_seeds_come_from_the_surviving_rows():
    model = learnt(MAPS["subsample"], "sgd")
    seeds = {model._model.cache["learner"].random_state}
    for changed in (
        model.fit(X, LABELS, ids=[i + 1 for i in IDS]),
        CoreSetUnlearner(RandomSubsample(1.0), LEARNERS["sgd"]).fit(X, LABELS, ids=IDS),
        CoreSetUnlearner(RandomSubsample(1.0), LEARNERS["sgd"]).fit(-X, LABELS, ids=IDS),
        CoreSetUnlearner(RandomSubsample(1.0), LEARNERS["sgd"]).fit(X, LABELS[::-1], ids=IDS),
    ):
        seeds.add(changed._model.cache["learner"].random_state)
    assert len(seeds) == 5
    assert all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in seeds)
    assert LEARNERS["sgd"].random_state is None


def test_a_seed_that_was_given_is_kept_and_parts_have_their_own():
    model = CoreSetUnlearner(MAPS["subsample"], SGDClassifier(max_iter=5, tol=None, random_state=5)).fit(X, LABELS)
    assert model._model.cache["learner"].random_state == 5
    model = learnt(MAPS["subsample"], "pipeline")
    assert isinstance(model._model.cache["learner"][-1].random_state, int)


def test_noise_is_never_seeded():
    """A seed that follows from the surviving rows would let anyone who holds them take the noise off."""
    for learner in (NewtonUnlearner(), CertifiedRemovalClassifier()):
        model = CoreSetUnlearner(MAPS["subsample"], learner).fit(X, LABELS, ids=IDS)
        assert model._model.cache["learner"].random_state is None
        twin = CoreSetUnlearner(MAPS["subsample"], learner).fit(X, LABELS, ids=IDS)
        assert (model._model.cache["learner"].coef_ != twin._model.cache["learner"].coef_).any()
        assert model.state_digest() == twin.state_digest()
        model.forget(ids=IDS[:50])
        assert_verified(model)


class Restless(ClassifierMixin, BaseEstimator):
    """Never the same twice."""

    turns = np.random.default_rng(0)

    def fit(self, X: Any, y: Any) -> Restless:
        self.classes_, self.bias_ = np.unique(y), Restless.turns.random()
        return self

    def predict(self, X: Any) -> Any:
        return self.classes_[(X[:, 0] > self.bias_).astype(int)]


def test_a_learner_that_is_not_reproducible_is_found_out_unless_declared():
    model = CoreSetUnlearner(MAPS["subsample"], Restless()).fit(X, LABELS)
    with pytest.raises(VerificationError, match="reproducible=False"):
        verify(model)
    declared = CoreSetUnlearner(MAPS["subsample"], Restless(), reproducible=False).fit(X, LABELS)
    declared.forget(ids=range(90))
    assert verify(declared).core_rows == declared.n_core_
    assert "approximate" in declared.guarantee.definition
    assert not declared.guarantee.bitwise
    assert model.guarantee.bitwise
    sgd = CoreSetUnlearner(MAPS["subsample"], LEARNERS["sgd"], reproducible=False).fit(X, LABELS)
    assert sgd._model.cache["learner"].random_state is None


# -- what is promised ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "newton"])
def test_the_guarantee_is_the_learners_with_the_core_set_as_s(name):
    model = learnt(MAPS["leverage"], name)
    for promise in (model.guarantee, CoreSetUnlearner(MAPS["leverage"], LEARNERS[name]).guarantee):
        assert "system-aware unlearning (Definition 2.3, by Theorem 3.1) with S' = C(S)" in promise.definition
        assert (promise.of, promise.epsilon, promise.delta) == ("state", 0.0, 0.0)
        assert promise.definition.startswith("exact")
    own = getattr(LEARNERS[name], "guarantee", None)
    if own is not None:
        assert own.definition in model.guarantee.definition
        assert model.guarantee.assumptions == own.assumptions
        assert model.guarantee.bitwise == own.bitwise
    else:
        assert model.guarantee.assumptions == (SAME_BITS_AGAIN,)
        assert model.guarantee.bitwise
    assert ("passes over" in model.guarantee.definition) == (name in ("erasable", "retrained", "nested"))


def test_what_a_learner_computes_in_floating_point_is_promised_for_one_machine():
    """The pickle holds it, and other kernels of BLAS compute other last bits."""
    for name in ("logistic", "sisa", "nested"):
        assert "on one machine" in str(CoreSetUnlearner(MAPS["leverage"], LEARNERS[name]).guarantee)
    for name in ("erasable", "retrained"):  # whose sums are exact
        assert "machine" not in str(CoreSetUnlearner(MAPS["leverage"], LEARNERS[name]).guarantee)
    model = learnt(MAPS["leverage"], "logistic")
    model._model.cache["learner"].coef_[0, 0] = np.nextafter(model._model.cache["learner"].coef_[0, 0], 9.0)
    with pytest.raises(VerificationError, match="trained on another machine"):
        verify(model)


def test_epsilon_and_delta_of_a_state_are_inherited():
    learner = InterpolatedClassifier(RandomSubsample(0.9), private_share=0.1, epsilon=2.5, alpha=0.1)
    promise = CoreSetUnlearner(MAPS["leverage"], learner).guarantee
    assert (promise.of, promise.epsilon, promise.delta) == ("state", 2.5, 0.0)
    assert promise.definition.startswith("(epsilon, delta)-system-aware")
    assert promise.assumptions == learner.guarantee.assumptions


@pytest.mark.parametrize(
    ("learner", "numbers"),
    [
        (NewtonUnlearner("squared", epsilon=2.5), (0.0, 0.0)),
        (NewtonUnlearner(epsilon=2.5, delta=1e-3), (2.5, 1e-3)),
        (CertifiedRemovalClassifier(epsilon=0.5, delta=1e-6), (0.5, 1e-6)),
    ],
    ids=["squared", "logistic", "certified"],
)
def test_a_promise_about_the_model_alone_is_handed_on_as_one(learner, numbers):
    """Theorem 3.1 needs the learner's state to be indistinguishable, not only its model."""
    model = CoreSetUnlearner(MAPS["leverage"], learner).fit(X, LABELS, ids=IDS)
    model.forget(ids=IDS[:30])
    promise, own = model.guarantee, learner.guarantee
    assert (promise.of, promise.bitwise) == (own.of, own.bitwise) == ("model", False)
    assert (promise.epsilon, promise.delta) == (own.epsilon, own.delta) == numbers
    assert promise.assumptions == own.assumptions
    assert own.definition in promise.definition
    assert "not system-aware unlearning" in promise.definition
    assert "Definition 2.3" not in str(promise)
    assert "of the model alone, not of what is stored" in str(promise)
    assert "stays secret" in str(promise)
    assert_verified(model)
    with pytest.raises(ConfigurationError, match="cannot be saved"):
        model._savable()


def test_a_learner_that_keeps_sums_over_forgotten_rows_is_not_said_to_forget_them_in_its_state():
    """What is stored after forgetting one row, read by who knows nothing of it, points exactly at that row."""
    learner = NewtonUnlearner("squared", fit_intercept=False, scaling=None)
    rows = X / (2.0 * np.abs(X).max())
    model = CoreSetUnlearner(LeverageThreshold(0.1, capacity=0.01), learner).fit(rows, LABELS, ids=IDS)
    key = model.core_ids_[4].item()
    model.forget(ids=[key])
    state = model._model.cache["learner"]
    found = (state._gone - learner.alpha * state._center)[0]
    row = rows[IDS.index(key)]
    cosine = abs(found @ row) / (np.linalg.norm(found) * np.linalg.norm(row))
    assert cosine == pytest.approx(1.0, abs=1e-12)
    for promise in (model.guarantee, learner.guarantee):
        assert promise.of == "model"
        assert not promise.bitwise
    assert_verified(model)


class Wordless(RidgeClassifier):
    """Forgets, and promises nothing."""

    def fit(self, X: Any, y: Any, ids: Any = None) -> Wordless:
        self.rows_, self.labels_, self.ids_ = X, y, list(ids)
        super().fit(X, y)
        return self

    def forget(self, *, ids: Any) -> None:
        kept = [i for i, key in enumerate(self.ids_) if key not in set(ids)]
        self.fit(self.rows_[kept], self.labels_[kept], ids=[self.ids_[i] for i in kept])


class Pretender(Wordless):
    """Says that it forgets."""

    def forget(self, *, ids: Any) -> None:
        pass


def test_a_learner_that_promises_nothing_is_taken_at_its_word_and_can_be_verified():
    model = CoreSetUnlearner(MAPS["leverage"], Wordless()).fit(X, LABELS, ids=IDS)
    assert model.guarantee.assumptions == ("the learner's forget equals training on the rows it is left with",)
    assert model.guarantee.of == "model"  # it says nothing of what it stores
    model.forget(ids=IDS[:99])
    assert verify(model).core_rows == model.n_core_ == len(model._model.cache["learner"].ids_)
    model = CoreSetUnlearner(MAPS["leverage"], Pretender()).fit(X, LABELS, ids=IDS)
    verify(model)
    model.forget(ids=IDS[:99])
    with pytest.raises(VerificationError, match="not what training it on the stored rows gives"):
        verify(model)


def test_the_learner_gets_rows_of_its_own():
    class Scribbler(RidgeClassifier):
        def fit(self, X, y):
            super().fit(X, y)
            X[:] = 0.0
            return self

    model = CoreSetUnlearner(RandomSubsample(1.0), Scribbler()).fit(X, LABELS, ids=IDS)
    assert (model._model.core.rows() == X).all()


# -- maps that are not stable ----------------------------------------------------------------------------------------

PLANE = np.array([[0.0, 1.0], [3.0, 1.0], [1.0, -1.0], [4.0, -1.0], [1.0, 5.0], [2.0, -6.0]])
SIDES = np.array(["up", "up", "down", "down", "up", "down"])


def test_an_unstable_map_needs_consent():
    with pytest.raises(ConfigurationError, match="one_shot=True"):
        CoreSetUnlearner(SupportVectors(), LogisticRegression()).fit(PLANE, SIDES)
    assert "one-shot" in CoreSetUnlearner(SupportVectors(), RidgeClassifier(), one_shot=True).guarantee.definition
    with pytest.raises(ConfigurationError, match="stable"):
        InterpolatedClassifier(SupportVectors(), private_share=0.1, epsilon=1.0, alpha=1.0).fit(PLANE, SIDES)


@pytest.mark.parametrize("learner", [LogisticRegression(), RetrainedRidge(), SISAClassifier(n_shards=1)])
@pytest.mark.parametrize("gone", range(6))
def test_one_request_leaves_what_training_on_the_core_without_it_gives(learner, gone):
    model = CoreSetUnlearner(SupportVectors(), learner, one_shot=True).fit(PLANE, SIDES)
    core = [0, 1, 2, 3]
    assert model.core_ids_.tolist() == core
    model.forget(ids=[gone])
    left = [i for i in core if i != gone]
    right = CoreSetUnlearner(SupportVectors(), learner, one_shot=True).fit(PLANE[left], SIDES[left], ids=left)
    assert model.state_digest() == right.state_digest()
    assert (model.predict(PLANE) == right.predict(PLANE)).all()
    assert verify(model).core_rows == model.n_core_
    assert model.n_core_ == [3, 2, 2, 3, 4, 4][gone]


def test_two_requests_do_not():
    """The reason for the word one-shot: this is what an unstable map costs."""
    model = CoreSetUnlearner(SupportVectors(), LogisticRegression(), one_shot=True).fit(PLANE, SIDES)
    model.forget(ids=[1])
    assert model.core_ids_.tolist() == [0, 2]
    model.forget(ids=[2])
    at_once = CoreSetUnlearner(SupportVectors(), LogisticRegression(), one_shot=True).fit(PLANE, SIDES)
    at_once.forget(ids=[1, 2])
    assert at_once.core_ids_.tolist() == [0, 3]
    assert model.core_ids_.tolist() == [0]
    assert any("one request" in assumption for assumption in model.guarantee.assumptions)


def test_forgetting_a_whole_class_with_support_vectors():
    model = CoreSetUnlearner(SupportVectors(), LogisticRegression(), one_shot=True).fit(PLANE, SIDES)
    model.forget(ids=[0, 1])
    assert model.predict(PLANE).tolist() == ["down"] * 6
    assert model.core_ids_.tolist() == [2, 3]
    model.forget(ids=[2, 3])
    assert model.n_core_ == 0


@dataclasses.dataclass(frozen=True)
class FromTheMiddle:
    stable = False

    def select(self, X, y, keys):
        far = np.abs(X[:, 0] - np.median(X[:, 0]))
        return np.argsort(far, kind="stable")

    def describe(self):
        return {"map": "FromTheMiddle"}


def test_an_unstable_map_may_put_the_rows_into_another_order():
    """Names and rows stay together, and the model is the one that these rows in this order give."""
    owners = [f"owner {i % 5}" for i in range(N)]
    model = CoreSetUnlearner(FromTheMiddle(), RidgeClassifier(), one_shot=True).fit(X, LABELS, ids=IDS, subjects=owners)
    before = model.core_ids_.tolist()
    model.forget(ids=[IDS[i] for i in range(N) if X[i, 0] < 0])  # another middle, hence another order
    left = [IDS.index(key) for key in model.core_ids_.tolist()]
    assert [IDS[i] for i in left] != [key for key in before if key in {IDS[i] for i in left}]
    assert (model._model.core.rows() == X[left]).all()
    assert model._model.core.subjects() == [owners[i] for i in left]
    assert model._model.core.labels() == LABELS[left].tolist()
    again = clone(model).fit(X[left], LABELS[left], ids=model.core_ids_, subjects=[owners[i] for i in left])
    assert verify(model).digest == model.state_digest() == again.state_digest()
    assert pickle.dumps(model) == pickle.dumps(again)


def test_an_unstable_map_refuses_learners_that_pass_rows_over():
    learner = CoreSetUnlearner(RandomSubsample(0.5, random_state=1), RidgeClassifier())
    with pytest.raises(ConfigurationError, match="keeps every row"):
        CoreSetUnlearner(SupportVectors(), learner, one_shot=True).fit(PLANE, SIDES)


# -- learners with core sets of their own ----------------------------------------------------------------------------


def test_rows_that_the_learner_passes_over_are_not_stored():
    model = learnt(RandomSubsample(0.9), "erasable")
    assert set(model.core_ids_.tolist()) == set(model._model.cache["learner"].core_ids_.tolist())
    assert model.n_core_ < 0.7 * len(RandomSubsample(0.9).select(X, LABELS, IDS))
    saved = pickle.dumps(model)
    for i, key in enumerate(IDS):
        assert (X[i].tobytes() in saved) == (key in model._model.core.place)


def test_a_threshold_that_follows_from_the_number_of_rows_is_refused():
    moving = ErasableClassifier(kappa=0.5)
    for learner in (moving, CoreSetUnlearner(RandomSubsample(0.5), moving)):
        with pytest.raises(ConfigurationError, match="horizon= in addition to kappa=, or threshold= instead"):
            CoreSetUnlearner(RandomSubsample(0.9), learner).fit(X, LABELS)
    fixed = CoreSetUnlearner(RandomSubsample(0.9), ErasableClassifier(kappa=0.8, horizon=200)).fit(X, LABELS, ids=IDS)
    fixed.forget(ids=IDS[:150])
    assert_same(fixed, refit(fixed))


# -- one class, or none ----------------------------------------------------------------------------------------------


@every_learner
def test_predicting_goes_on_with_one_class(name):
    model = learnt(RandomSubsample(1.0), name)
    at = [i for i in range(N) if LABELS[i].endswith("a")]
    model.forget(ids=[IDS[i] for i in at])
    assert set(model.predict(X)) == {SECRET_TEXT + "-b"}
    assert model.classes_.tolist() == [SECRET_TEXT + "-b"]
    assert isinstance(model._model.cache["learner"], Constant)
    if hasattr(model, "predict_proba"):
        assert (model.predict_proba(X) == np.ones((N, 1))).all()
    if hasattr(model, "decision_function"):
        assert model.decision_function(X).shape == (N,)
    assert_same(model, refit(model))
    assert_verified(model)
    assert model.n_core_ > 0
    model.forget(ids=IDS)
    assert (model.n_core_, model.stored_rows_, model.classes_.tolist(), model.core_ids_.tolist()) == (0, 0, [], [])
    assert_verified(model)
    with pytest.raises(NoRowsError, match="fit"):
        model.predict(X)
    assert_same(model.fit(X, LABELS, ids=IDS), learnt(RandomSubsample(1.0), name))


def test_the_width_of_a_forgotten_label_is_forgotten():
    labels = LABELS.copy().astype(object)
    labels[0] = "a label much longer than any other"
    model = learnt(RandomSubsample(1.0), "ridge", labels=labels)
    assert holds(model, b"much longer")
    model.forget(ids=IDS[:1])
    assert model.classes_.dtype == LABELS.dtype
    assert not holds(model, "much longer".encode("utf-32-le"))
    assert not holds(model, b"much longer")


def test_a_map_or_learner_that_keeps_nothing_is_refused():
    with pytest.raises(NoRowsError, match="selected none of 3 rows"):
        CoreSetUnlearner(RandomSubsample(1e-9), RidgeClassifier()).fit(X[:3], LABELS[:3])
    with pytest.raises(NoRowsError, match="selected none"):
        CoreSetUnlearner(RandomSubsample(1.0), CoreSetUnlearner(RandomSubsample(1e-9), RidgeClassifier())).fit(X, Y)
    with pytest.raises(NoRowsError, match="kept none"):
        CoreSetUnlearner(RandomSubsample(1.0), RetrainedRidge(fit_intercept=False)).fit(np.zeros((4, 2)), [0, 1, 0, 1])


# -- digests and verification ----------------------------------------------------------------------------------------


def test_the_digest_tells_everything_apart_that_matters():
    digests = [
        CoreSetUnlearner(core_set, learner, **options).fit(rows, labels, ids=ids).state_digest()
        for core_set, learner, rows, labels, ids, options in [
            (RandomSubsample(1.0), RidgeClassifier(), X, Y, IDS, {}),
            (RandomSubsample(1.0, 1), RidgeClassifier(), X, Y, IDS, {}),
            (RandomSubsample(1.0), RidgeClassifier(alpha=2.0), X, Y, IDS, {}),
            (RandomSubsample(1.0), RidgeClassifier(class_weight={0: 1.0, 1: 2.0}), X, Y, IDS, {}),
            (RandomSubsample(1.0), LogisticRegression(), X, Y, IDS, {}),
            (RandomSubsample(1.0), RidgeClassifier(), X, 1 - Y, IDS, {}),
            (RandomSubsample(1.0), RidgeClassifier(), X, Y.astype(str), IDS, {}),
            (RandomSubsample(1.0), RidgeClassifier(), X, Y.astype(bool), IDS, {}),
            (RandomSubsample(1.0), RidgeClassifier(), X + 1e-9, Y, IDS, {}),
            (RandomSubsample(1.0), RidgeClassifier(), sp.csr_array(X), Y, IDS, {}),
            (RandomSubsample(1.0), RidgeClassifier(), X, Y, [str(i) for i in IDS], {}),
            (RandomSubsample(1.0), RidgeClassifier(), X, Y, [str(i).encode() for i in IDS], {}),
            (RandomSubsample(1.0), RidgeClassifier(), X[::-1], Y[::-1], IDS[::-1], {}),
            (RandomSubsample(1.0), RidgeClassifier(), X, Y, IDS, {"reproducible": False}),
            (RandomSubsample(1.0), RidgeClassifier(), X, Y, IDS, {"one_shot": True}),
        ]
    ]
    assert len(set(digests)) == len(digests)
    assert all(len(d) == 64 and int(d, 16) for d in digests)


def test_the_digest_is_the_same_in_another_process():
    """Golden: rows, labels, ids and parameters as bytes, no more and no less."""
    model = CoreSetUnlearner(RandomSubsample(1.0), SGDClassifier(max_iter=2, tol=None))
    digest = model.fit(np.arange(8.0).reshape(4, 2), ["a", "b", "a", "b"]).state_digest()
    assert digest == pickle.loads(pickle.dumps(model)).state_digest()
    assert digest == copy.deepcopy(model).state_digest()
    assert model.set_params(core_set=RandomSubsample(0.1)).state_digest() == digest  # a fitted model stays what it is
    assert selected_rows(model._model).digest() == "ec484318a1e926fd4efe0b1136cc6e46ad43123ca1ae0e2953b027787afdc669"


def test_a_fitted_model_keeps_to_the_learner_it_was_fitted_with():
    learner = RidgeClassifier()
    model = CoreSetUnlearner(MAPS["leverage"], learner).fit(X, LABELS, ids=IDS)
    learner.alpha = 1e6
    model.forget(ids=IDS[:50])
    assert model._model.cache["learner"].alpha == 1.0
    assert verify(model).core_rows == model.n_core_
    assert (model.decision_function(X) == refit(model.set_params(learner=RidgeClassifier())).decision_function(X)).all()


def test_parameters_are_described_without_addresses():
    class Odd:
        pass

    assert described(Odd()) == described(Odd())
    assert described(np.float32(0.5)) == described(0.5) != described(1)
    assert described(1) != described("1") != described(True)
    assert described(np.array([1.0])) != described([1.0])
    assert described({"b": 1, "a": 2}) == described({"a": 2, "b": 1})
    assert described(np.tanh) == {"name": "numpy.tanh"} or "repr" in described(np.tanh)
    assert described(make_rows)["name"].endswith("make_rows")
    assert described(RidgeClassifier(alpha=2.0)) != described(RidgeClassifier())
    assert described(LEARNERS["nested"])["parameters"]["core_set"] == RandomSubsample(0.6, random_state=9).describe()


@every_learner
def test_fingerprints_are_of_contents(name):
    learner = learnt(MAPS["subsample"], name)._model.cache["learner"]
    right = contents(learner)
    assert contents(pickle.loads(pickle.dumps(learner))) == right
    learner.predict(X)
    assert contents(learner) == right
    assert contents(learnt(RandomSubsample(0.4, random_state=1), name)._model.cache["learner"]) != right


def test_fingerprints_survive_a_cycle_and_see_every_part():
    loop = [1]
    loop.append(loop)
    assert contents(loop) != contents([1])
    values = [0, False, None, "", b"", 0.0, -0.0, (), [], {}, {0}, np.zeros(1), np.zeros(2), np.zeros(1, "f4"), object]
    values += [np.zeros(1, dtype=[("a", "i1"), ("b", "f8")]), sp.csr_array(np.eye(2)), np.array(["a"], dtype=object)]
    assert len({contents(v) for v in values}) == len(values)


def test_verification_finds_what_was_tampered_with():
    def verdict(change, name="ridge", core_set="subsample"):
        model = learnt(MAPS[core_set], name)
        change(model)
        with pytest.raises(VerificationError) as caught:
            verify(model)
        assert_no_traces(everything_said(caught.value))
        return str(caught.value)

    def grow(model):
        row = model._model.core.find(model.core_ids_[3:4].tolist())[0]
        np.frombuffer(row.numbers)[:] *= 1e-9

    def weights(model):
        model._model.cache["learner"].coef_.flat[0] = np.nextafter(model._model.cache["learner"].coef_.flat[0], 9.0)

    def swap(model):
        core = model._model.core
        first, *others = core.labels()
        labels = [SECRET_TEXT + ("-a" if first.endswith("b") else "-b"), *others]
        model._model.core = CoreRows(core.rows(), core.ids(), core.subjects(), labels)

    def rename(model):
        drawn = {*MAPS["subsample"].select(X, LABELS, range(len(X))).tolist()}
        model._model.core.first.id = next(i for i in range(len(X)) if i not in drawn)

    def misplace(model):
        place = model._model.core.place
        name, row = next(iter(place.items()))
        place.drop([name])
        place.put({5: row})

    def smuggle(model):
        core = model._model.core
        outside = next(i for i, key in enumerate(IDS) if key not in core.place)
        core.append([X[outside : outside + 1].copy()], [IDS[outside]], [None], [LABELS[outside].item()])

    def lengthen(model):
        row = model._model.core.last
        row.after = Row(bytearray(row.numbers), row.id, None, row.label, row.weight, row.id)
        model._model.core._order = None

    def first(model):
        return [model.core_ids_.tolist()[0]]

    assert "not what training" in verdict(grow)
    assert "not what training" in verdict(weights)
    assert "not what training" in verdict(swap, "tree")
    assert "table" in verdict(misplace)
    assert "selects" in verdict(rename)
    assert "selects" in verdict(smuggle)
    assert "selects" in verdict(smuggle, core_set="leverage")
    assert "same id" in verdict(lengthen)
    assert "not what training" in verdict(lambda m: m._model.cache.update(learner=Constant(0)))
    assert "not what training" in verdict(lambda m: m._model.cache["learner"].forget(ids=first(m)), "retrained")
    assert "not what training" in verdict(lambda m: m._model.cache["learner"].forget(ids=first(m)), "sisa")
    assert "not what training" in verdict(lambda m: m._model.cache["learner"]._shards[0].voter.coef_.fill(0.5), "sisa")
    assert "not what training" in verdict(lambda m: weights(m._model.cache["learner"]), "nested")


# -- the protocol ----------------------------------------------------------------------------------------------------


def stored(model):
    parameters = model.get_params(deep=False)
    return {name: facts(value) for name, value in model.__getstate__().items() if name not in parameters}


@pytest.mark.parametrize(
    "positions",
    [[0, 0], [-1], [N], [0.0], [[0, 1]], [True, False]],
    ids=["twice", "negative", "beyond", "float", "2-d", "mask"],
)
def test_a_map_that_returns_no_positions_is_refused(positions):
    @dataclasses.dataclass(frozen=True)
    class Broken:
        stable = True

        def select(self, X, y, keys):
            return np.array(positions)

        def describe(self):
            return {}

    for model in (
        CoreSetUnlearner(Broken(), RidgeClassifier()),
        InterpolatedClassifier(Broken(), private_share=0.0, epsilon=1.0, alpha=1.0),
    ):
        with pytest.raises(ConfigurationError, match="distinct positions of the 240 rows"):
            model.fit(X, LABELS)


def test_a_learner_that_refuses_what_is_left_refuses_the_request():
    class Picky(RidgeClassifier):
        def fit(self, X, y):
            if len(y) < 60:
                raise ValueError("too few rows")
            return super().fit(X, y)

    model = CoreSetUnlearner(RandomSubsample(0.4), Picky()).fit(X, LABELS, ids=IDS)
    before = stored(model)
    with pytest.raises(ValueError, match="too few"):
        model.forget(ids=model.core_ids_[:50])
    assert stored(model) == before
    assert model.forget(ids=model.core_ids_[:5]).core_rows_removed == 5


def test_interrupts(monkeypatch):
    model = CoreSetUnlearner(MAPS["subsample"], FitOnly()).fit(X, LABELS, ids=IDS)
    before = stored(model)
    with monkeypatch.context() as patch:
        patch.setattr(FitOnly, "alarm", True)
        with pytest.raises(KeyboardInterrupt):
            model.fit(-X, LABELS)
        assert stored(model) == before
        with pytest.raises(KeyboardInterrupt):  # the learner is trained before anything is changed
            model.forget(ids=IDS[:100])
        assert stored(model) == before
    assert model.predict(X).shape == (N,)
    assert model.forget(ids=IDS[:100]).core_rows_removed > 0


def test_a_request_while_another_is_under_way_is_not_undone():
    """Two threads that forget: whoever ends last must not bring back what the other took out."""

    class Meddled(RidgeClassifier):
        during = None

        def fit(self, X, y):
            if Meddled.during is not None:
                meddle, Meddled.during = Meddled.during, None
                meddle()
            return super().fit(X, y)

    model = CoreSetUnlearner(RandomSubsample(1.0), Meddled()).fit(X, LABELS, ids=IDS)
    Meddled.during = lambda: model.forget(ids=IDS[:5])
    with pytest.raises(ChangedMeanwhileError, match="ask for them again"):
        model.forget(ids=IDS[5:9])
    assert model.core_ids_.tolist() == IDS[5:]
    assert model.forget(ids=IDS[5:9]).core_rows_removed == 4
    assert_same(model, refit(model))


def test_an_interrupt_while_the_learner_forgets_makes_the_model_refuse(monkeypatch):
    model = CoreSetUnlearner(MAPS["subsample"], Wordless()).fit(X, LABELS, ids=IDS)

    def stop(self, *, ids):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Wordless, "forget", stop)
        with pytest.raises(KeyboardInterrupt):
            model.forget(ids=IDS[:100])
    for work in (
        lambda: model.predict(X),
        model.state_digest,
        lambda: verify(model),
        lambda: model.forget(ids=IDS[:3]),
        lambda: pickle.dumps(model),
    ):
        with pytest.raises(ChangedMeanwhileError, match="fit"):
            work()
    assert model.fit(X, LABELS, ids=IDS).predict(X).shape == (N,)


def test_methods_are_those_of_the_learner():
    assert not hasattr(CoreSetUnlearner(MAPS["leverage"], RidgeClassifier()), "predict_proba")
    assert not hasattr(learnt(MAPS["leverage"], "tree"), "decision_function")
    assert learnt(MAPS["leverage"], "tree").predict_proba(X).shape == (N, 2)
    assert learnt(MAPS["leverage"], "ridge").decision_function(X).shape == (N,)
    fixed = CoreSetUnlearner(MAPS["leverage"], RetrainedRidge(classes=["SECRET-a", "SECRET-b", "SECRET-c"]))
    assert fixed.fit(X, LABELS).predict_proba(X).shape == (N, 3)
    assert fixed.classes_.tolist() == ["SECRET-a", "SECRET-b", "SECRET-c"]
