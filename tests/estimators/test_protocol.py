"""One protocol for every classifier that forgets, ours and the baselines: fit, forget, refuse, copy, and promise."""

from __future__ import annotations

import copy
import functools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.linear_model import Ridge, RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    verify,
)
from erasable.classes import FiniteClass, LinearBall, NumericClass
from erasable.coresets import IndependentSample, LeverageThreshold, RandomSubsample
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    ErasableError,
    InputError,
    InputTypeError,
    NoRowsError,
    StaleReportError,
)
from erasable.features import RandomFourierFeatures
from erasable.models.core_rows import CoreRows
from erasable.models.reports import ForgetReport, Guarantee
from erasable.models.row_source import Rows
from erasable.research import baselines
from erasable.research.baselines import InterpolatedClassifier, NewtonUnlearner, RetrainedRidge, SISAClassifier
from tests.estimators.cases import (
    BAD_ROWS,
    GOOD,
    SECRET,
    SECRET_ID,
    SECRET_TEXT,
    TWO,
    Sigmoid,
    assert_no_traces,
    ball_sup,
    everything_said,
    listed_twice,
    make_rows,
    plane_erm,
    spoilt,
)
from tests.memory import pieces
from tests.research.baselines.cases import FitOnly, InSlices, facts

PUBLIC = [getattr(baselines, name) for name in baselines.__all__]
PEERS = [p for p in PUBLIC if issubclass(p, ClassifierMixin) and p is not InterpolatedClassifier]  # it needs a map
N = 240
X, Y = make_rows(N)
IDS = [SECRET_ID + i for i in range(N)]
OWNERS = [f"{SECRET_TEXT} {i % 17}" for i in range(N)]
LABELS = np.array([SECRET_TEXT + "-a", SECRET_TEXT + "-b"])[Y]

#: Estimators around a model: what they store has canonical bytes and a digest.
OURS = {
    "linear": ErasableClassifier(1.0, threshold=0.05),
    "logistic": ErasableClassifier(1.0, threshold=0.05, loss="logistic"),
    "mapped": ErasableClassifier(1.0, threshold=0.05, feature_map=RandomFourierFeatures(12, gamma=0.3)),
    "kernel": ErasableKernelClassifier(gamma=0.5, threshold=0.5),
    "general": ErasableGeneralClassifier(LinearBall(0.5, fit_intercept=True, grid_bits=12), threshold=0.03),
    "finite": ErasableGeneralClassifier(FiniteClass([Sigmoid(w) for w in np.eye(3)], name="planes"), threshold=0.001),
    "numeric": ErasableGeneralClassifier(NumericClass(ball_sup, plane_erm, rate=0.5, name="ridge"), threshold=0.03),
    "independent": ErasableClassifier(1.0, selection="independent", rate=0.4, moments=np.full(3, 1 / 3)),
    "independent, balanced": ErasableClassifier(
        selection="independent", rate=0.4, loss="logistic", balance=1.0, class_shares=dict.fromkeys(set(LABELS), 0.5)
    ),
    "independent, kernel": ErasableKernelClassifier(gamma=0.5, selection="independent", rate=0.4),
    "core set": CoreSetUnlearner(LeverageThreshold(0.02), RidgeClassifier()),
    "core set, retrained": CoreSetUnlearner(RandomSubsample(0.4), RetrainedRidge()),
    "core set, independent": CoreSetUnlearner(IndependentSample(0.4), RidgeClassifier()),
}
EXACT = {name: model for name, model in OURS.items() if name != "numeric"}
INDEPENDENT = [name for name in OURS if name.startswith("independent")]
STREAMING = {name: model for name, model in OURS.items() if not name.startswith("core set")}
BASELINES = {
    **{kind.__name__: kind() for kind in PEERS},
    "SISAClassifier": SISAClassifier(n_shards=4, n_slices=2),
    "compressed": InterpolatedClassifier(RandomSubsample(0.4), private_share=0.0, epsilon=1.0, alpha=0.01),
    "mixed": InterpolatedClassifier(LeverageThreshold(0.02), private_share=0.01, epsilon=5.0, alpha=0.01),
}
ALL = OURS | {
    name: model.set_params(random_state=0) if "random_state" in model.get_params(deep=False) else model
    for name, model in BASELINES.items()
}

every = pytest.mark.parametrize("name", ALL)
every_ours = pytest.mark.parametrize("name", OURS)
every_exact = pytest.mark.parametrize("name", EXACT)
every_streaming = pytest.mark.parametrize("name", STREAMING)


@functools.cache
def _fitted(name):
    return clone(ALL[name]).fit(X, LABELS, ids=IDS, subjects=OWNERS)


def fitted(name, **parameters):
    """A model of this kind that learnt all rows; one that is not shared."""
    if parameters:
        return clone(ALL[name]).set_params(**parameters).fit(X, LABELS, ids=IDS)
    return copy.deepcopy(_fitted(name))


def stored(model):
    """Everything but the parameters."""
    parameters = model.get_params(deep=False)
    return {name: facts(value) for name, value in model.__getstate__().items() if name not in parameters}


def outcome(report):
    """Rows removed and rows left."""
    return report.core_rows_removed, report.core_rows


class Unchanged:
    """Refused calls raise one of these errors, tell no values, and leave the model as it was."""

    def __init__(self, model, *errors):
        self.model, self.errors = model, errors or (InputError, InputTypeError)
        self.before = stored(model), model.predict(X).tolist()

    def refuses(self, call, *arguments, **named):
        with pytest.raises(self.errors) as caught:
            call(*arguments, **named)
        assert_no_traces(everything_said(caught.value))
        return str(caught.value)

    def check(self):
        assert (stored(self.model), self.model.predict(X).tolist()) == self.before


def test_the_known_peers_are_among_them():
    assert {RetrainedRidge, SISAClassifier, NewtonUnlearner} <= set(PEERS)
    assert sorted(baselines.__all__) == list(baselines.__all__)


# -- before fit ----------------------------------------------------------------------------------------------------


@every
def test_before_fit_nothing_is_stored_and_nothing_is_answered(name):
    model = clone(ALL[name])
    for attribute in ("stored_rows_", "stored_bytes_", "classes_", "core_ids_", "n_core_", "threshold_", "coef_"):
        assert not hasattr(model, attribute)
    works = [lambda: model.predict(X), lambda: model.forget(ids=[0])]
    works += [model.state_digest, lambda: verify(model)] if name in OURS else []
    for work in works:
        with pytest.raises(NotFittedError, match=r"not fitted yet: call fit"):
            work()
    assert vars(model) == model.get_params(deep=False)
    assert vars(clone(fitted(name))).keys() == model.get_params(deep=False).keys()


@every
def test_the_guarantee_is_a_record_that_can_be_read(name):
    for model in (clone(ALL[name]), fitted(name)):
        promise = model.guarantee
        assert isinstance(promise, Guarantee)
        assert promise.definition in str(promise)
        assert "Definition" in promise.definition or name == "numeric"
        assert all(v >= 0.0 for v in (promise.epsilon, promise.delta))
        assert all(assumption in str(promise) for assumption in promise.assumptions)
        if 0.0 < promise.epsilon < math.inf or promise.delta:
            assert f"{promise.epsilon:g}" in str(promise)
            assert f"{promise.delta:g}" in str(promise)


@pytest.mark.parametrize("kind", PEERS, ids=lambda kind: kind.__name__)
def test_the_docstring_says_what_is_guaranteed(kind):
    assert "Guarantee" in kind.__doc__
    assert "epsilon" in kind.__doc__
    assert "Examples" in kind.__doc__


# -- fit and forget ------------------------------------------------------------------------------------------------


@every
def test_it_learns_something(name):
    model = fitted(name)
    assert model.score(X, LABELS) > 0.7 or model.guarantee.epsilon  # noise may cost anything
    assert model.classes_.tolist() == sorted(set(LABELS))
    assert 0 < model.stored_rows_ <= N
    assert model.stored_bytes_ > 0
    if name in OURS:
        assert model.stored_rows_ == model.n_core_ == len(model.core_ids_) < N


@every
def test_two_fits_give_one_model_and_rows_without_ids_are_numbered(name):
    model = fitted(name)
    before = stored(model)
    assert stored(model.fit(X, LABELS, ids=IDS, subjects=OWNERS)) == before
    named = stored(clone(ALL[name]).fit(X, LABELS, ids=range(N)))
    assert stored(clone(ALL[name]).fit(X, LABELS)) == named
    assert stored(clone(ALL[name]).fit(X, LABELS, ids=np.arange(N, dtype=np.uint8))) == named


@every
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_forgetting_counts_add_up(name, container):
    for key in (lambda i: i, lambda i: f"row {i}", lambda i: b"row %d" % i):
        ids = [key(i) for i in range(N)]
        model = clone(ALL[name]).fit(container(X), LABELS, ids=ids)
        there, size = model.stored_rows_, model.stored_bytes_
        for request in (ids[:1], ids[1:80], ids[::3]):
            report = model.forget(ids=request)
            removed, left = outcome(report)
            assert report.requested == len(request)
            assert removed <= len(request)
            assert left == model.stored_rows_ == there - removed
            there = left
            assert model.predict(container(X)).shape == (N,)
        assert model.stored_rows_ <= 140
        assert model.stored_bytes_ <= size


@every
def test_the_report_is_plain(name):
    report = fitted(name).forget(ids=IDS[:9])
    assert isinstance(report, ForgetReport)
    assert report.rows_retrained >= 0
    with pytest.raises(AttributeError):
        report.requested = 0
    assert_no_traces(repr(report))


@every
def test_unknown_ids_are_no_error_and_change_nothing(name):
    model = fitted(name)
    model.forget(ids=IDS[:100])
    before, answers = stored(model), model.predict(X)
    for unknown in ([-1], [0, 1, 2], [], range(5), np.array([2**62]), 7, IDS[:100]):
        assert outcome(model.forget(ids=unknown)) == (0, model.stored_rows_)
    assert model.forget(subjects=["nobody"]).core_rows_removed == 0
    assert stored(model) == before
    assert (model.predict(X) == answers).all()


@every
def test_an_id_named_twice_counts_once_in_any_container(name):
    once, twice = fitted(name), fitted(name)
    first, second = once.forget(ids=IDS[:80]), twice.forget(ids=[*IDS[:80], *IDS[:80], -5])
    assert outcome(first) == outcome(second)
    assert outcome(first)[0] > 0
    assert second.requested == 81
    assert stored(once) == stored(twice)
    for container in (tuple, set, np.array, iter):
        other = fitted(name)
        assert outcome(other.forget(ids=container(IDS[:80]))) == outcome(first)
        if once.guarantee.epsilon == 0.0 or container is not set:  # rounding may depend on the order
            assert stored(other) == stored(once)


@every
@pytest.mark.parametrize("ids", [np.array(IDS), np.array(IDS, dtype=object), np.array(IDS).astype(str), tuple(IDS)])
def test_rows_are_found_by_ids_from_any_container(name, ids):
    model = clone(ALL[name]).fit(X, LABELS, ids=ids)
    before = model.stored_rows_
    with pytest.raises(InputTypeError):
        model.forget(ids=[b"SECRET"])
    assert model.forget(ids=[ids[0]]).requested == 1
    assert model.forget(ids=ids[:1].tolist() if isinstance(ids, np.ndarray) else [ids[0]]).requested == 1
    assert model.forget(ids=ids[:120]).core_rows == model.stored_rows_ < before


@every
def test_everything_can_be_forgotten_and_learnt_anew(name):
    model = fitted(name)
    right, there = stored(model), model.stored_rows_
    assert outcome(model.forget(ids=IDS)) == (there, 0)
    assert model.stored_rows_ == 0
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(model, method):
            with pytest.raises(NoRowsError, match="fit") as caught:
                getattr(model, method)(X)
            assert_no_traces(everything_said(caught.value))
    assert model.forget(ids=["of another type"]).requested == 1  # there is nothing left to disagree with
    if name in OURS:
        assert model.core_ids_.tolist() == []
        assert model.classes_.tolist() == ([] if getattr(model, "class_shares", None) is None else sorted(set(LABELS)))
        assert verify(model).core_rows == 0
    if name in STREAMING:
        for again in (pickle.loads(pickle.dumps(model)), copy.copy(model)):
            assert stored(again.partial_fit(X, LABELS, ids=IDS, subjects=OWNERS)) == right
    assert stored(model.fit(X, LABELS, ids=IDS, subjects=OWNERS)) == right


@every
def test_what_the_caller_holds_is_left_alone(name):
    for container in (np.array, np.asfortranarray, sp.csr_array, sp.csr_matrix):
        rows, labels, ids = container(X), LABELS.copy(), list(IDS)
        before = facts([rows, labels, ids])
        model = clone(ALL[name]).fit(rows, labels, ids=ids)
        model.forget(ids=ids[:20])
        model.forget(ids=ids)
        assert facts([rows, labels, ids]) == before


@every
def test_looking_changes_nothing(name):
    model = fitted(name)
    model.forget(ids=IDS[:30])
    before = stored(model)
    for _ in range(2):
        for method in ("predict", "predict_proba", "decision_function"):
            if hasattr(model, method):
                getattr(model, method)(X)
        model.score(X, LABELS)
        for attribute in ("stored_rows_", "stored_bytes_", "classes_", "guarantee", "n_features_in_"):
            getattr(model, attribute)
        if getattr(model, "class_shares", None) is None:  # a public parameter that names the classes
            assert_no_traces(repr(model) + model._repr_html_())
    assert stored(model) == before


@every
def test_a_copy_is_the_same_model_and_shares_nothing(name):
    old = {"protocol": 2}  # as joblib and others may ask for
    forms = [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda m: pickle.loads(pickle.dumps(m, **old))]
    for duplicate in (*forms, *([copy.copy] if name in OURS else [])):
        model = fitted(name)
        model.forget(ids=IDS[:30])
        before = stored(model)
        twin = duplicate(model)
        assert stored(twin) == before
        assert (twin.predict(X) == model.predict(X)).all()
        assert (twin.stored_rows_, twin.stored_bytes_) == (model.stored_rows_, model.stored_bytes_)
        removed = outcome(twin.forget(ids=IDS[30:60]))
        twin.fit(X[:50], LABELS[:50])
        assert stored(model) == before
        assert outcome(model.forget(ids=IDS[30:60])) == removed


@every
def test_parameters_set_after_fit_wait_for_the_next_fit(name):
    """Or are refused: half a model of one kind and half of another is the model of nothing."""
    model, twin = fitted(name), fitted(name)
    twin.set_params(**dict.fromkeys(model.get_params(deep=False), object()))
    before = stored(twin)
    try:
        found = outcome(twin.forget(ids=IDS[:30]))
    except ErasableError:
        assert stored(twin) == before
    else:
        assert found == outcome(model.forget(ids=IDS[:30]))
        assert stored(twin) == stored(model)
        assert twin.guarantee == model.guarantee


# -- models with canonical bytes -----------------------------------------------------------------------------------


@every_exact
@pytest.mark.parametrize("by", ["ids", "subjects"])
def test_forgetting_is_refitting_the_survivors(name, by):
    """The law of the package, once for every estimator: the same digest, bytes, predictions and pickle."""
    model = fitted(name)
    before = model.core_ids_.tolist()
    gone = before[::3] if by == "ids" else [OWNERS[2], OWNERS[5]]
    report = model.forget(**{by: gone})
    assert report.requested == len(gone)
    left = model.core_ids_.tolist()
    leaving = set(gone) if by == "ids" else {key for key in IDS if OWNERS[IDS.index(key)] in gone}
    assert left == [key for key in before if key not in leaving]
    assert report.core_rows_removed == len(before) - len(left) > 0
    at = [IDS.index(key) for key in left]
    again = clone(model).fit(X[at], LABELS[at], ids=left, subjects=[OWNERS[i] for i in at])
    assert report.digest == model.state_digest() == again.state_digest() == verify(model).digest
    assert verify(model).core_rows == model.n_core_
    assert (model.predict(X) == again.predict(X)).all()
    if name != "core set, retrained":
        assert model.decision_function(X).tobytes() == again.decision_function(X).tobytes()
    assert model.stored_bytes_ == again.stored_bytes_
    assert pickle.dumps(model) == pickle.dumps(again)


@every_ours
def test_a_report_of_a_state_that_has_gone_says_so(name):
    model = fitted(name)
    report = model.forget(ids=model.core_ids_[:1])
    model.forget(ids=model.core_ids_[:1])
    with pytest.raises(StaleReportError):
        _ = report.digest


@every_ours
def test_containers_types_and_sizes_of_blocks_do_not_matter(name):
    rows = (np.round(X * 8) / 8 * (np.abs(X) > 0.4)).astype(np.float32)
    given = [rows, rows.astype(float), np.asfortranarray(rows), pd.DataFrame(rows, columns=list("abc"))]
    given += [] if name.startswith("core set") else [sp.csr_array(rows)]  # which holds sparse rows as sparse
    model = clone(OURS[name])
    if "class_shares" in model.get_params():
        model.set_params(class_shares=model.class_shares and {0: 0.5, 1: 0.5})
    labels = [Y, Y.astype(np.int8), Y.tolist(), pd.Series(Y)]
    digests = {clone(model).fit(r, y).state_digest() for r, y in zip(given, [*labels, Y], strict=False)}
    in_blocks = clone(model)
    in_blocks._learn(Rows(rows, Y), fresh=True, **({"block_rows": 7, "chunk_rows": 3} if name in STREAMING else {}))
    assert digests == {in_blocks.state_digest()}


@every_streaming
def test_learning_in_parts_is_learning_at_once_and_goes_on_after_forgetting(name):
    model = OURS[name] if name in INDEPENDENT else clone(OURS[name]).set_params(order="given")
    whole, parts = (clone(model) for _ in range(2))
    whole.fit(X, LABELS, ids=IDS, subjects=OWNERS)
    for a, b in ((0, 1), (1, 100), (100, N)):
        parts.partial_fit(X[a:b], LABELS[a:b], ids=IDS[a:b], subjects=OWNERS[a:b])
    assert parts.state_digest() == whole.state_digest()
    for model in (whole, parts):
        model.forget(ids=model.core_ids_[::2])
        model.partial_fit(X[:50] + 0.01, LABELS[:50], ids=range(50), subjects=OWNERS[:50])
    assert parts.state_digest() == whole.state_digest() == verify(parts).digest


@every_ours
def test_rows_are_overwritten_where_they_stood(name):
    model = fitted(name)
    model.predict(X)
    core, key = model._model.core, model.core_ids_[1].item()
    rows, row = pieces(core), X[IDS.index(key)]
    derived = [part for part in model._model.cache.values() if isinstance(part, np.ndarray)]
    model.forget(ids=[key])
    assert not any(rows[1])
    assert [any(piece) for piece in rows].count(False) == (len(rows) if name.startswith("core set") else 1)
    assert derived or isinstance(model, ErasableGeneralClassifier | CoreSetUnlearner)
    assert not any(part.any() for part in derived)
    saved = pickle.dumps(model)
    assert row.tobytes() not in saved
    assert key.to_bytes(8, "little") not in saved
    rows = pieces(model._model.core)
    assert all(map(any, rows))
    model.fit(X[:60], LABELS[:60])
    assert not any(map(any, rows))


@every_ours
def test_a_state_taken_before_a_change_stays_as_it_was(name):
    for rows in (X, sp.csr_array(X)):
        model = clone(OURS[name]).fit(rows, LABELS)
        state = model.model_.snapshot()
        before = state.to_bytes()
        model.forget(ids=model.core_ids_[:10])
        assert state.to_bytes() == before
        model.fit(rows, LABELS)
        assert state.to_bytes() == before


@every_ours
def test_verification_reports_progress(name):
    seen = []
    n = verify(fitted(name), progress=lambda done, total: seen.append((done, total))).core_rows
    assert seen[-1] == (n, n)


@every_streaming
@pytest.mark.parametrize("change", ["forget", "learn"])
def test_a_change_while_learning_is_kept_and_the_learning_is_not(name, change):
    model, other = fitted(name), fitted(name)
    first, more = model.core_ids_[:1], (X[:9] - 1.0, LABELS[:9], range(1000, 1009), OWNERS[:9])

    def meddle(changed):
        changed.forget(ids=first) if change == "forget" else changed.partial_fit(*more)

    with pytest.raises(ChangedMeanwhileError, match="none of them was learnt"):
        model.learn(
            X, LABELS, ids=range(N), subjects=OWNERS, progress=lambda done, total: done == total and meddle(model)
        )
    meddle(other)
    assert model.state_digest() == other.state_digest() == verify(model).digest


CHANGES = {
    **{name: {"rate": 0.5} for name in INDEPENDENT},
    "kernel": {"gamma": 3.0},
    "finite": {"function_class": LinearBall()},
    "numeric": {"classes": [SECRET_TEXT + "-a", SECRET_TEXT + "-b"]},
}


@every_streaming
def test_parameters_do_not_change_under_a_fitted_model(name):
    model = fitted(name)
    good, kept = model.get_params(deep=False), Unchanged(model, ConfigurationError)
    given = [] if name in INDEPENDENT else [{"order": "given"}]
    for change in (CHANGES.get(name, {"threshold": 0.2}), {"random_state": 1}, *given):
        said = kept.refuses(model.set_params(**change).partial_fit, X, LABELS, ids=range(N), subjects=OWNERS)
        assert "changed since the model was first fitted" in said
        model.set_params(**good)
    kept.check()
    model.partial_fit(X, LABELS, ids=range(N), subjects=OWNERS)
    assert verify(model).core_rows == model.n_core_


# -- refusals ------------------------------------------------------------------------------------------------------

WRONG_IDS = ["SECRET", ["SECRET"], [b"SECRET"], [SECRET], [SECRET_ID, "SECRET"], [None], [True], [[SECRET_ID]], 1.5]
WRONG_IDS += [np.array([SECRET])]


@every
def test_requests_that_cannot_be_read_are_refused(name):
    model = fitted(name)
    kept = Unchanged(model, InputTypeError)
    for wrong in WRONG_IDS:
        kept.refuses(model.forget, ids=wrong)
    kept.errors = (InputError, InputTypeError)
    for wrong in (None, [10 * 2**63], np.array([[SECRET_ID]])):
        kept.refuses(model.forget, ids=wrong)
    kept.refuses(model.forget, subjects=[7])
    assert "ids= or subjects=" in kept.refuses(model.forget)
    kept.check()


@every
def test_bad_rows_are_refused_and_the_model_stays(name):
    model = fitted(name)
    kept = Unchanged(model)
    for rows, labels, ids in BAD_ROWS.values():
        kept.refuses(model.fit, rows, labels, ids=ids)
        new = clone(ALL[name])
        kept.refuses(new.fit, rows, labels, ids=ids)
        assert vars(new) == new.get_params(deep=False)
        if name in STREAMING:
            kept.refuses(model.partial_fit, rows, labels, ids=ids)
    kept.errors = (ErasableError,)
    for rows in (
        spoilt(np.nan),
        spoilt(np.inf),
        listed_twice(),
        GOOD[:, :2],
        GOOD[0],
        GOOD[:0],
        [[SECRET], [SECRET, 1.0]],
        None,
    ):
        kept.refuses(model.predict, rows)
    kept.refuses(model.predict, [[SECRET_TEXT] * 3])
    if name in STREAMING:
        assert "already present" in kept.refuses(model.partial_fit, X, LABELS, ids=IDS, subjects=OWNERS)
        assert "type" in kept.refuses(model.partial_fit, X, Y, ids=range(N), subjects=OWNERS)
        assert "2 features" in kept.refuses(model.partial_fit, X[:, :2], LABELS, ids=range(N), subjects=OWNERS)
    kept.refuses(model.fit, X, LABELS, ids=IDS, subjects=OWNERS[:-1])
    kept.check()


BAD_PARAMETERS = {
    "core set": {
        "core_set": [None, RandomSubsample, RidgeClassifier()],
        "learner": [RidgeClassifier, Ridge(), None, FunctionTransformer()],
        "one_shot": [1],
        "reproducible": [None],
    },
    "mixed": {
        "core_set": ["SECRET"],
        "private_share": [-0.1, 1.0001, np.nan, True, "0.5", 10**400],
        "epsilon": [0.0, -1.0, np.inf, None],
        "alpha": [0.0, np.nan],
        "random_state": [-1, 0.5, np.random.default_rng(0)],
        "fit_intercept": ["yes"],
        "scaling": ["column", [1.0]],
    },
    "SISAClassifier": {
        "n_shards": [0, -3, 2.0, True, None],
        "n_slices": [0, "5"],
        "random_state": [-1, None, np.random.RandomState(0)],
        "estimator": [SGDClassifier, 3, FunctionTransformer()],
    },
    "RetrainedRidge": {
        "alpha": [0.0, math.inf],
        "grid_bits": [0],
        "fit_intercept": ["yes"],
        "scaling": ["column", [1.0]],
        "classes": ["ab"],
    },
    "NewtonUnlearner": {
        "loss": ["hinge"],
        "alpha": [0.0],
        "epsilon": [0.0, math.inf],
        "delta": [1.0],
        "max_deletions": [0],
        "random_state": [-1],
        "scaling": ["column"],
    },
    "CertifiedRemovalClassifier": {
        "alpha": [-1.0],
        "epsilon": [math.nan],
        "delta": [0.0],
        "sigma": [0.0],
        "random_state": ["SECRET"],
        "fit_intercept": ["yes"],
    },
}
BAD_TOGETHER = {"mixed": [{"alpha": 1e-308, "private_share": 0.5}, {"alpha": 1e300, "private_share": 1e-200}]}


@every
def test_bad_parameters_are_refused_before_any_change(name):
    """Those listed, and no parameter is taken unchecked."""
    model = fitted(name)
    kept, good = Unchanged(model, ConfigurationError, InputTypeError), model.get_params(deep=False)
    listed = [{parameter: value} for parameter, values in BAD_PARAMETERS.get(name, {}).items() for value in values]
    for bad in [*listed, *BAD_TOGETHER.get(name, []), *({parameter: object()} for parameter in good)]:
        unused = "rate" in bad or "delta" in bad or "max_stages" in bad
        if unused and isinstance(model, ErasableGeneralClassifier):  # for the staged sampler
            bad = {**bad, "sampler": "staged"}
        if isinstance(model, ErasableKernelClassifier) and {"nu", "degree", "coef0"} & bad.keys():
            bad = {**bad, "kernel": "matern" if "nu" in bad else "poly"}
        said = kept.refuses(model.set_params(**bad).fit, -X, LABELS, ids=IDS)
        names_rule = {"rate", "balance", "class_shares", "moments"} & bad.keys() and "threshold cannot be set" in said
        assert "alpha" in bad or next(iter(bad)) in said or names_rule  # these ask for independent selection
        model.set_params(**good)
        new = clone(ALL[name]).set_params(**{k: v for k, v in bad.items() if type(v) is not object})
        if all(type(v) is not object for v in bad.values()):
            kept.refuses(new.fit, X, LABELS)
    kept.check()


# -- interrupts ----------------------------------------------------------------------------------------------------


def assert_refuses_until_fitted(name, model):
    twins = [model] if hasattr(type(model), "model_") else [model, copy.deepcopy(model)]
    works = [lambda m: m.predict(X), lambda m: m.score(X, LABELS), lambda m: m.forget(ids=IDS[:3])]
    works += [lambda m: m.state_digest(), verify, pickle.dumps] if name in OURS else []
    for broken in twins:
        for work in works:
            with pytest.raises(ChangedMeanwhileError, match="fit") as caught:
                work(broken)
            assert_no_traces(everything_said(caught.value))
    with pytest.raises(InputError):
        model.fit(spoilt(np.nan), TWO)
    with pytest.raises(ChangedMeanwhileError):
        model.predict(X)
    assert model.fit(X, LABELS, ids=IDS).predict(X).shape == (N,)
    assert outcome(model.forget(ids=IDS[:5]))[1] == model.stored_rows_


def stop(*_, **__):
    raise KeyboardInterrupt


@every
def test_an_interrupt_in_the_middle_of_forgetting_makes_the_model_refuse(name, monkeypatch):
    model = fitted(name)
    with monkeypatch.context() as patch:
        if hasattr(model, "model_"):
            patch.setattr(CoreRows, "erase" if name.startswith("core set") else "remove", stop)
        else:
            patch.setattr(type(model), "_remove", stop)
        with pytest.raises(KeyboardInterrupt):
            model.forget(ids=IDS)
    assert_refuses_until_fitted(name, model)


@pytest.mark.parametrize("base", [FitOnly(), InSlices()])
def test_an_interrupt_while_the_base_is_trained(base, monkeypatch):
    """While fitting it leaves the old model; while forgetting it makes the model refuse."""
    for name in (name for name in ALL if "estimator" in ALL[name].get_params(deep=False)):
        model = fitted(name, estimator=base)
        before = stored(model)
        with monkeypatch.context() as patch:
            patch.setattr(FitOnly, "alarm", True)
            with pytest.raises(KeyboardInterrupt):
                model.fit(-X[:, :2], LABELS)
            assert stored(model) == before
            with pytest.raises(KeyboardInterrupt):
                model.forget(ids=IDS[:200])
        assert_refuses_until_fitted(name, model)


# -- inside scikit-learn -------------------------------------------------------------------------------------------


@every
def test_ids_reach_the_last_step_of_a_pipeline(name):
    right = clone(ALL[name]).fit(X, LABELS, ids=IDS)
    step = type(ALL[name]).__name__.lower()
    pipe = make_pipeline(FunctionTransformer(), clone(ALL[name])).fit(X, LABELS, **{f"{step}__ids": IDS})
    assert stored(pipe[-1]) == stored(right)
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(ALL[name]).set_fit_request(ids=True)
        pipe = make_pipeline(FunctionTransformer(), model).fit(X, LABELS, ids=IDS)
        assert (pipe.predict(X) == right.predict(X)).all()
        assert outcome(pipe[-1].forget(ids=IDS)) == outcome(right.forget(ids=IDS))
        with pytest.raises(UnsetMetadataPassedError, match="ids"):
            make_pipeline(FunctionTransformer(), clone(ALL[name])).fit(X, LABELS, ids=IDS)
