"""One protocol for all: fit with ids, forget by ids, say what is stored and what is promised."""

from __future__ import annotations

import copy
import functools
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from erasable import ErasableClassifier
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    ErasableError,
    InputError,
    InputTypeError,
    NoRowsError,
)
from erasable.models.heads import linear as exact_sums
from erasable.models.reports import ForgetReport, Guarantee
from erasable.research import baselines
from erasable.research.baselines import InterpolatedClassifier, RetrainedRidge, SISAClassifier
from tests.estimators.cases import (
    BAD_ROWS,
    GOOD,
    SECRET,
    SECRET_ID,
    SECRET_TEXT,
    TWO,
    assert_no_traces,
    everything_said,
    make_rows,
    spoilt,
)
from tests.research.baselines.cases import FitOnly, InSlices, facts

PUBLIC = [getattr(baselines, name) for name in baselines.__all__]
# The one that needs a core-set map is among the models of tests/estimators/test_core_set.py.
PEERS = [p for p in PUBLIC if issubclass(p, ClassifierMixin) and p is not InterpolatedClassifier]
ALL = [ErasableClassifier, *PEERS]
N = 240
X, Y = make_rows(N)
IDS = [SECRET_ID + i for i in range(N)]
LABELS = np.array([SECRET_TEXT + "-a", SECRET_TEXT + "-b"])[Y]

every = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
every_peer = pytest.mark.parametrize("kind", PEERS, ids=lambda kind: kind.__name__)


def made(kind, **parameters):
    """A model with default arguments, less chance, with few shards and a core set large enough to forget from."""
    if "random_state" in kind().get_params():
        parameters = {"random_state": 0, **parameters}
    own = {ErasableClassifier: {"kappa": 0.8}, SISAClassifier: {"n_shards": 4, "n_slices": 2}}
    parameters = {**own.get(kind, {}), **parameters}
    return kind(**parameters)


@functools.cache
def _fitted(kind):
    return made(kind).fit(X, LABELS, ids=IDS)


def fitted(kind, **parameters):
    return made(kind, **parameters).fit(X, LABELS, ids=IDS) if parameters else copy.deepcopy(_fitted(kind))


def stored(model):
    """Everything but the parameters."""
    parameters = model.get_params(deep=False)
    return {name: facts(value) for name, value in model.__getstate__().items() if name not in parameters}


def outcome(report):
    """Rows removed and rows left."""
    return report.core_rows_removed, report.core_rows


def the_same_as_before(model, before, answers):
    return stored(model) == before and (model.predict(X) == answers).all()


def test_the_known_peers_are_among_them():
    assert {RetrainedRidge, SISAClassifier} <= set(PEERS)
    assert sorted(baselines.__all__) == list(baselines.__all__)


# -- before fit ----------------------------------------------------------------------------------------------------


@every
def test_before_fit_nothing_is_stored_and_nothing_is_answered(kind):
    model = kind()
    for name in ("stored_rows_", "stored_bytes_", "classes_"):
        assert not hasattr(model, name)
    with pytest.raises(NotFittedError, match="fit"):
        model.predict(X)
    with pytest.raises(NotFittedError, match="fit"):
        model.forget(ids=[0])


@every
def test_the_guarantee_is_a_record_that_can_be_read(kind):
    for model in (kind(), fitted(kind)):
        promise = model.guarantee
        assert isinstance(promise, Guarantee)
        assert promise.definition in str(promise)
        assert "Definition" in promise.definition
        assert all(math.isfinite(v) and v >= 0.0 for v in (promise.epsilon, promise.delta))
        assert all(assumption in str(promise) for assumption in promise.assumptions)
        if promise.epsilon or promise.delta:
            assert f"{promise.epsilon:g}" in str(promise)
            assert f"{promise.delta:g}" in str(promise)


@every_peer
def test_the_docstring_says_what_is_guaranteed(kind):
    assert "Guarantee" in kind.__doc__
    assert "epsilon" in kind.__doc__
    assert "Examples" in kind.__doc__


@every
def test_parameters_are_stored_as_given_and_cloned(kind):
    model = kind()
    assert vars(model) == model.get_params(deep=False)
    assert vars(clone(fitted(kind))).keys() == model.get_params(deep=False).keys()


# -- fit and forget ------------------------------------------------------------------------------------------------


@every
def test_it_learns_something(kind):
    model = fitted(kind)
    assert model.score(X, LABELS) > 0.7 or model.guarantee.epsilon  # noise may cost anything
    assert model.classes_.tolist() == sorted(set(LABELS))
    assert 0 < model.stored_rows_ <= N
    assert model.stored_bytes_ > 0


@every
def test_rows_are_numbered_when_no_ids_are_given(kind):
    named = stored(made(kind).fit(X, LABELS, ids=range(N)))
    assert stored(made(kind).fit(X, LABELS)) == named
    assert stored(made(kind).fit(X, LABELS, ids=np.arange(N, dtype=np.uint8))) == named


@every
def test_two_fits_give_one_model(kind):
    model = fitted(kind)
    before = stored(model)
    assert stored(made(kind).fit(X, LABELS, ids=IDS)) == before
    assert stored(model.fit(X, LABELS, ids=IDS)) == before


@every
@pytest.mark.parametrize(
    "name", [lambda i: i, lambda i: f"row {i}", lambda i: b"row %d" % i], ids=["int", "str", "bytes"]
)
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_forgetting_counts_add_up(kind, name, container):
    ids = [name(i) for i in range(N)]
    model = made(kind).fit(container(X), LABELS, ids=ids)
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


@every_peer
def test_the_report_is_plain(kind):
    model = fitted(kind)
    report = model.forget(ids=IDS[:9])
    assert isinstance(report, ForgetReport)
    assert report.rows_retrained >= 0
    with pytest.raises(AttributeError):
        report.requested = 0
    assert_no_traces(repr(report))
    assert pickle.loads(pickle.dumps(report)).requested == 9


@every
def test_forgetting_again_changes_nothing(kind):
    model = fitted(kind)
    model.forget(ids=IDS[:100])
    before, answers = stored(model), model.predict(X)
    assert outcome(model.forget(ids=IDS[:100])) == (0, model.stored_rows_)
    assert the_same_as_before(model, before, answers)


@every
@pytest.mark.parametrize("unknown", [[-1], [0, 1, 2], [], range(5), np.array([2**62]), 7])
def test_unknown_ids_are_no_error_and_change_nothing(kind, unknown):
    model = fitted(kind)
    before, answers = stored(model), model.predict(X)
    assert outcome(model.forget(ids=unknown)) == (0, model.stored_rows_)
    assert the_same_as_before(model, before, answers)


@every
def test_an_id_named_twice_counts_once(kind):
    once, twice = fitted(kind), fitted(kind)
    first = once.forget(ids=IDS[:80])
    second = twice.forget(ids=[*IDS[:80], *IDS[:80], -5])
    assert outcome(first) == outcome(second)
    assert outcome(first)[0] > 0
    assert second.requested == 81
    assert stored(once) == stored(twice)


@every
@pytest.mark.parametrize("container", [list, tuple, set, np.array, iter])
def test_ids_come_in_any_container(kind, container):
    by_list, other = fitted(kind), fitted(kind)
    assert outcome(by_list.forget(ids=IDS[:50])) == outcome(other.forget(ids=container(IDS[:50])))
    if by_list.guarantee.epsilon == 0.0 or container is not set:  # rounding may depend on the order
        assert stored(by_list) == stored(other)


@every
@pytest.mark.parametrize("ids", [np.array(IDS), np.array(IDS, dtype=object), np.array(IDS).astype(str), tuple(IDS)])
def test_rows_are_found_by_ids_from_any_container(kind, ids):
    model = made(kind).fit(X, LABELS, ids=ids)
    before = model.stored_rows_
    with pytest.raises(InputTypeError):
        model.forget(ids=[b"SECRET"])
    assert model.forget(ids=[ids[0]]).requested == 1
    assert model.forget(ids=ids[:1].tolist() if isinstance(ids, np.ndarray) else [ids[0]]).requested == 1
    assert model.forget(ids=ids[:120]).core_rows == model.stored_rows_ < before


@every
def test_everything_can_be_forgotten_and_learnt_anew(kind):
    model = fitted(kind)
    right = stored(model)
    assert outcome(model.forget(ids=IDS)) == (fitted(kind).stored_rows_, 0)
    assert model.stored_rows_ == 0
    with pytest.raises(NoRowsError, match="fit") as caught:
        model.predict(X)
    assert_no_traces(everything_said(caught.value))
    assert model.forget(ids=["of another type"]).requested == 1  # there is nothing left to disagree with
    assert stored(model.fit(X, LABELS, ids=IDS)) == right


@every
def test_what_the_caller_holds_is_left_alone(kind):
    rows, labels, ids = X.copy(), LABELS.copy(), list(IDS)
    model = made(kind).fit(rows, labels, ids=ids)
    model.forget(ids=ids)
    assert rows.tobytes() == X.tobytes()
    assert labels.tolist() == LABELS.tolist()
    assert ids == IDS


@every
def test_looking_changes_nothing(kind):
    model = fitted(kind)
    model.forget(ids=IDS[:30])
    before = stored(model)
    for _ in range(2):
        for name in ("predict", "predict_proba", "decision_function"):
            if hasattr(model, name):
                getattr(model, name)(X)
        model.score(X, LABELS)
        for name in ("stored_rows_", "stored_bytes_", "classes_", "guarantee", "n_features_in_"):
            getattr(model, name)
        repr(model)
        model._repr_html_()
    assert stored(model) == before


@every
def test_a_pickle_is_the_same_model(kind):
    model = fitted(kind)
    model.forget(ids=IDS[:30])
    twin = pickle.loads(pickle.dumps(model))
    assert (twin.predict(X) == model.predict(X)).all()
    assert (twin.stored_rows_, twin.stored_bytes_) == (model.stored_rows_, model.stored_bytes_)
    assert outcome(twin.forget(ids=IDS[30:60])) == outcome(model.forget(ids=IDS[30:60]))
    assert (twin.predict(X) == model.predict(X)).all()


# -- refusals ------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize(
    "wrong",
    [
        "SECRET",
        ["SECRET"],
        [b"SECRET"],
        [SECRET],
        [SECRET_ID, "SECRET"],
        [None],
        [True],
        [[SECRET_ID]],
        1.5,
        np.array([SECRET]),
    ],
    ids=repr,
)
def test_ids_of_the_wrong_type_are_refused(kind, wrong):
    model = fitted(kind)
    before, answers = stored(model), model.predict(X)
    with pytest.raises(InputTypeError) as caught:
        model.forget(ids=wrong)
    assert_no_traces(everything_said(caught.value))
    assert the_same_as_before(model, before, answers)


@every
@pytest.mark.parametrize("wrong", [None, [10 * 2**63], np.array([[SECRET_ID]])], ids=["None", "too large", "2-d"])
def test_requests_that_cannot_be_read_are_refused(kind, wrong):
    model = fitted(kind)
    before, answers = stored(model), model.predict(X)
    with pytest.raises(InputError) as caught:
        model.forget(ids=wrong)
    assert_no_traces(everything_said(caught.value))
    assert the_same_as_before(model, before, answers)


@every
@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_are_refused_and_the_model_stays(kind, case):
    rows, labels, ids = BAD_ROWS[case]
    model = fitted(kind)
    before, answers = stored(model), model.predict(X)
    with pytest.raises(ErasableError) as caught:
        model.fit(rows, labels, ids=ids)
    assert isinstance(caught.value, InputError | InputTypeError)
    assert_no_traces(everything_said(caught.value))
    assert the_same_as_before(model, before, answers)


@every
def test_bad_rows_leave_a_new_model_new(kind):
    for rows, labels, ids in BAD_ROWS.values():
        model = kind()
        with pytest.raises(ErasableError):
            model.fit(rows, labels, ids=ids)
        assert vars(model) == model.get_params(deep=False)


@every
@pytest.mark.parametrize(
    "rows",
    [
        spoilt(np.nan),
        spoilt(np.inf),
        GOOD[:, :2],
        GOOD[0],
        GOOD[:0],
        [[SECRET], [SECRET, 1.0]],
        [[SECRET_TEXT] * 3],
        None,
    ],
    ids=["NaN", "infinity", "too few columns", "a vector", "no rows", "ragged", "text", "None"],
)
def test_bad_rows_to_predict_are_refused(kind, rows):
    model = fitted(kind)
    before, answers = stored(model), model.predict(X)
    with pytest.raises(ErasableError) as caught:
        model.predict(rows)
    assert_no_traces(everything_said(caught.value))
    assert the_same_as_before(model, before, answers)


BAD_PARAMETERS = {
    "SISAClassifier": [
        ({"n_shards": 0}, ConfigurationError),
        ({"n_shards": -3}, ConfigurationError),
        ({"n_shards": 2.0}, ConfigurationError),
        ({"n_shards": True}, ConfigurationError),
        ({"n_shards": None}, ConfigurationError),
        ({"n_slices": 0}, ConfigurationError),
        ({"n_slices": "5"}, ConfigurationError),
        ({"random_state": -1}, ConfigurationError),
        ({"random_state": None}, ConfigurationError),
        ({"random_state": np.random.RandomState(0)}, ConfigurationError),
        ({"estimator": SGDClassifier}, ConfigurationError),
        ({"estimator": 3}, ConfigurationError),
        ({"estimator": FunctionTransformer()}, ConfigurationError),
    ],
    "RetrainedRidge": [
        ({"alpha": 0.0}, ConfigurationError),
        ({"alpha": math.inf}, ConfigurationError),
        ({"grid_bits": 0}, ConfigurationError),
        ({"fit_intercept": "yes"}, ConfigurationError),
        ({"scaling": "column"}, ConfigurationError),
        ({"scaling": [1.0]}, ConfigurationError),
        ({"classes": "ab"}, ConfigurationError),
    ],
    "NewtonUnlearner": [
        ({"loss": "hinge"}, ConfigurationError),
        ({"alpha": 0.0}, ConfigurationError),
        ({"epsilon": 0.0}, ConfigurationError),
        ({"epsilon": math.inf}, ConfigurationError),
        ({"delta": 1.0}, ConfigurationError),
        ({"max_deletions": 0}, ConfigurationError),
        ({"random_state": -1}, ConfigurationError),
        ({"scaling": "column"}, ConfigurationError),
    ],
    "CertifiedRemovalClassifier": [
        ({"alpha": -1.0}, ConfigurationError),
        ({"epsilon": math.nan}, ConfigurationError),
        ({"delta": 0.0}, ConfigurationError),
        ({"sigma": 0.0}, ConfigurationError),
        ({"random_state": "SECRET"}, ConfigurationError),
        ({"fit_intercept": "yes"}, ConfigurationError),
    ],
}


def refuses(kind, bad, error):
    """A fitted model and a new one refuse these parameters, and the fitted one stays what it was."""
    model = fitted(kind)
    before, answers, good = stored(model), model.predict(X), model.get_params(deep=False)
    with pytest.raises(error) as caught:
        model.set_params(**bad).fit(-X, LABELS, ids=IDS)
    assert_no_traces(everything_said(caught.value))
    assert stored(model.set_params(**good)) == before
    assert (model.predict(X) == answers).all()
    with pytest.raises(error):
        fitted(kind, **bad)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "bad", "error"),
    [(kind, *case) for kind in PEERS for case in BAD_PARAMETERS.get(kind.__name__, [])],
    ids=lambda value: value.__name__ if isinstance(value, type) else repr(value)[:40],
)
def test_bad_parameters_are_refused_before_any_change(kind, bad, error):
    said = refuses(kind, bad, error)
    assert "alpha" in bad or next(iter(bad)) in said


@pytest.mark.parametrize(("kind", "name"), [(k, n) for k in ALL for n in k().get_params(deep=False)])
def test_no_parameter_is_taken_unchecked(kind, name):
    refuses(kind, {name: object()}, (ConfigurationError, InputTypeError))


# -- interrupts ----------------------------------------------------------------------------------------------------


def assert_refuses_until_fitted(model):
    twin = copy.deepcopy(model) if not isinstance(model, ErasableClassifier) else model
    for broken in (model, twin):
        for work in (lambda m: m.predict(X), lambda m: m.score(X, LABELS), lambda m: m.forget(ids=IDS[:3])):
            with pytest.raises(ChangedMeanwhileError, match="fit") as caught:
                work(broken)
            assert_no_traces(everything_said(caught.value))
    with pytest.raises(InputError):
        model.fit(spoilt(np.nan), TWO)
    with pytest.raises(ChangedMeanwhileError):
        model.predict(X)
    assert model.fit(X, LABELS, ids=IDS).predict(X).shape == (N,)
    assert outcome(model.forget(ids=IDS[:5]))[1] == model.stored_rows_


@pytest.mark.parametrize(
    ("kind", "base"),
    [(k, base) for k in PEERS if "estimator" in k().get_params(deep=False) for base in (FitOnly(), InSlices())],
)
def test_an_interrupt_while_the_base_is_trained_makes_the_model_refuse(kind, base, monkeypatch):
    model = fitted(kind, estimator=base)
    with monkeypatch.context() as patch:
        patch.setattr(FitOnly, "alarm", True)
        with pytest.raises(KeyboardInterrupt):
            model.forget(ids=IDS[:200])
    assert_refuses_until_fitted(model)


@pytest.mark.parametrize("base", [FitOnly(), InSlices()])
def test_an_interrupt_while_fitting_leaves_the_old_model(base, monkeypatch):
    for kind in (k for k in PEERS if "estimator" in k().get_params(deep=False)):
        model = fitted(kind, estimator=base)
        before, answers = stored(model), model.predict(X)
        with monkeypatch.context() as patch:
            patch.setattr(FitOnly, "alarm", True)
            with pytest.raises(KeyboardInterrupt):
                model.fit(-X[:, :2], LABELS)
        assert the_same_as_before(model, before, answers)


@every
def test_an_interrupt_in_the_middle_of_forgetting_makes_the_model_refuse(kind, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    model = fitted(kind)
    with monkeypatch.context() as patch:
        if isinstance(model, ErasableClassifier):
            patch.setattr(exact_sums, "add_rows", stop)
        else:
            patch.setattr(kind, "_remove", stop)
        with pytest.raises(KeyboardInterrupt):
            model.forget(ids=IDS)
    assert_refuses_until_fitted(model)


# -- inside scikit-learn -------------------------------------------------------------------------------------------


@every
def test_ids_reach_the_last_step_of_a_pipeline(kind):
    step = kind.__name__.lower()
    pipe = make_pipeline(FunctionTransformer(), made(kind)).fit(X, LABELS, **{f"{step}__ids": IDS})
    assert stored(pipe[-1]) == stored(fitted(kind))
    pipe[-1].forget(ids=IDS[:50])
    assert pipe.predict(X).shape == (N,)


@every
def test_routed_ids_reach_the_last_step_of_a_pipeline(kind):
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(FunctionTransformer(), made(kind).set_fit_request(ids=True)).fit(X, LABELS, ids=IDS)
        assert (pipe.predict(X) == fitted(kind).predict(X)).all()
        assert outcome(pipe[-1].forget(ids=IDS)) == outcome(fitted(kind).forget(ids=IDS))
        with pytest.raises(UnsetMetadataPassedError, match="ids"):
            make_pipeline(FunctionTransformer(), kind()).fit(X, LABELS, ids=IDS)
