"""Algorithm 2 as a classifier: what it keeps, how it forgets, and what it refuses."""

from __future__ import annotations

import copy
import gc
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from erasable import ErasableClassifier, verify
from erasable.classes import FiniteClass, LinearBall, NumericClass
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    ErasableError,
    InputError,
    NoRowsError,
    StaleReportError,
    VerificationError,
)
from erasable.estimators.kernel import ErasableGeneralClassifier
from erasable.models import core_rows as rows_module
from tests.estimators.cases import SECRET, SECRET_ID, SECRET_TEXT, make_classes, make_rows, refused
from tests.memory import pieces
from tests.paper.test_theorem_5_2_example import EIGHT_ROWS

N, D = 240, 3
X, Y = make_rows(N, D)
OWNERS = np.arange(N) % 17


class Sigmoid:
    """A function that can be pickled."""

    def __init__(self, w, b=0.0):
        self.w, self.b = np.asarray(w, dtype=float), b

    def __call__(self, X):
        return 1.0 / (1.0 + np.exp(-4.0 * (X @ self.w + self.b)))


def ball_sup(X, Q):
    A = np.eye(X.shape[1]) + Q.T @ Q
    return np.einsum("ij,ij->i", X, np.linalg.solve(A, X.T).T)


class Plane:
    """What a least-squares fit predicts."""

    def __init__(self, w):
        self.w = w

    def __call__(self, X):
        return 0.5 + X @ self.w


def plane_erm(X, y):
    return Plane(np.linalg.solve(np.eye(X.shape[1]) + X.T @ X, X.T @ (y - 0.5)))


DIRECTIONS = [*np.eye(D), *-np.eye(D), [0.5, 0.5, 0.0], [0.5, 0.0, -0.5]]
CLASSES = {
    "linear": LinearBall(),
    "linear with intercept": LinearBall(0.5, fit_intercept=True, grid_bits=12),
    "finite": FiniteClass([Sigmoid(w) for w in DIRECTIONS], name="eight planes"),
    "numeric": NumericClass(ball_sup, plane_erm, rate=0.5, name="ridge"),
}
EXACT = [name for name in CLASSES if CLASSES[name].exact]


def model(name="linear", **parameters):
    return ErasableGeneralClassifier(CLASSES[name], **{"threshold": 0.03, **parameters})


@parametrize_with_checks(
    [
        ErasableGeneralClassifier(),
        ErasableGeneralClassifier(LinearBall(2.0, fit_intercept=True), threshold=0.2),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


# -- learning and predicting -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [1, 2, 3, 5])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 0.02, 0.1])
def test_with_linear_functions_it_is_the_linear_classifier(threshold, intercept, n_classes):
    y = make_classes(n_classes, N)
    ball = LinearBall(0.6, fit_intercept=intercept)
    general = ErasableGeneralClassifier(ball, threshold=threshold).fit(X, y)
    linear = ErasableClassifier(1 / (4 * 0.6**2), threshold=threshold, fit_intercept=intercept).fit(X, y)
    for clf in (general, linear):
        clf.partial_fit(X[:60] + 0.1, y[:60], ids=np.arange(60) + 1000)
    for _ in range(3):
        assert general.core_ids_.tolist() == linear.core_ids_.tolist()
        np.testing.assert_array_equal(general._model.core.rows(), linear._model.snapshot().rows)
        np.testing.assert_allclose(
            2.0 * general.decision_function(X), linear.decision_function(X), rtol=1e-11, atol=1e-14
        )
        np.testing.assert_array_equal(general.predict(X), linear.predict(X))
        np.testing.assert_allclose(general.predict_proba(X), linear.predict_proba(X), atol=1e-12)
        gone = linear.core_ids_[::7]
        assert general.forget(ids=gone).core_rows_removed == linear.forget(ids=gone).core_rows_removed == len(gone)


@pytest.mark.parametrize("name", CLASSES)
def test_it_learns(name):
    clf = model(name).fit(X, Y)
    assert 0 < clf.n_core_ < N
    assert clf.score(X, Y) > 0.85
    assert clf.classes_.tolist() == [0, 1]
    assert clf.threshold_ == 0.03
    assert clf.stored_rows_ == clf.n_core_ == len(clf.core_ids_)
    assert clf.stored_bytes_ == clf._model.core.rows().nbytes
    P = clf.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(clf.predict(X), (clf.decision_function(X) > 0).astype(int))


@pytest.mark.parametrize("name", CLASSES)
def test_three_classes_are_learnt_one_against_the_rest(name):
    y = np.array(["a", "b", "c"])[np.argmax(X, axis=1)]
    clf = model(name, threshold=0.003).fit(X, y)
    assert clf.decision_function(X).shape == clf.predict_proba(X).shape == (N, 3)
    assert clf.score(X, y) > 0.7
    clf.forget(ids=np.flatnonzero(y == "b"))
    assert clf.classes_.tolist() == ["a", "c"]
    assert clf.decision_function(X).shape == (N,)


@pytest.mark.parametrize("name", CLASSES)
def test_one_class_is_allowed_and_predicted(name):
    clf = model(name).fit(X, np.full(N, "only"))
    assert set(clf.predict(X)) == {"only"}
    assert clf.predict_proba(X).tolist() == [[1.0]] * N


def test_the_fit_of_a_finite_class_is_the_best_on_the_core_rows():
    clf = model("finite", threshold=0.01).fit(X, Y)
    core = clf.core_ids_
    errors = [((Y[core] - f(X[core])) ** 2).sum() for f in CLASSES["finite"].functions]
    best = CLASSES["finite"].functions[int(np.argmin(errors))]
    np.testing.assert_allclose(clf.decision_function(X) + 0.5, best(X), atol=1e-6)


@pytest.mark.parametrize("name", CLASSES)
def test_learning_in_parts_is_learning_at_once(name):
    whole = model(name, order="given").fit(X, Y, ids=np.arange(N), subjects=OWNERS)
    parts = model(name, order="given")
    for a, b in ((0, 1), (1, 100), (100, N)):
        parts.partial_fit(X[a:b], Y[a:b], ids=np.arange(a, b), subjects=OWNERS[a:b])
    assert parts.state_digest() == whole.state_digest()


@pytest.mark.parametrize("name", CLASSES)
def test_containers_and_types_do_not_matter(name):
    rows = (np.round(X * 8) / 8 * (np.abs(X) > 0.4)).astype(np.float32)
    digests = {
        model(name).fit(given, labels).state_digest()
        for given in (rows, rows.astype(float), np.asfortranarray(rows), csr_array(rows))
        for labels in (Y, Y.astype(np.int8), Y.tolist())
    }
    digests.add(model(name).fit(pd.DataFrame(rows, columns=list("abc")), Y).state_digest())
    assert len(digests) == 1


def test_the_default_is_linear():
    assert (
        ErasableGeneralClassifier().fit(X, Y).state_digest()
        == ErasableGeneralClassifier(LinearBall(), threshold=0.05).fit(X, Y).state_digest()
    )


# -- forgetting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["ids", "subjects"])
@pytest.mark.parametrize("name", EXACT)
def test_forgetting_is_refitting_the_survivors(name, by):
    clf = model(name).fit(X, Y, subjects=OWNERS)
    before = clf.n_core_
    gone = clf.core_ids_[::3] if by == "ids" else [2, 5, 99]
    report = clf.forget(**{by: gone})
    assert report.requested == len(gone)
    assert report.core_rows_removed == before - clf.n_core_ > 0
    kept = clf.core_ids_
    refit = clone(clf).fit(X[kept], Y[kept], ids=kept, subjects=OWNERS[kept])
    assert refit.state_digest() == clf.state_digest() == report.digest == verify(clf).digest
    assert verify(clf).core_rows == clf.n_core_
    np.testing.assert_array_equal(refit.decision_function(X), clf.decision_function(X))
    assert clf.stored_bytes_ == refit.stored_bytes_


@pytest.mark.parametrize("name", CLASSES)
def test_rows_that_are_not_there_change_nothing(name):
    clf = model(name).fit(X, Y, ids=[f"r{i}" for i in range(N)], subjects=OWNERS)
    before = clf.state_digest()
    outside = sorted({f"r{i}" for i in range(N)} - set(clf.core_ids_.tolist()))
    assert outside
    assert clf.forget(ids=outside).core_rows_removed == clf.forget(subjects=[-5]).core_rows_removed == 0
    assert clf.state_digest() == before


@pytest.mark.parametrize("name", CLASSES)
def test_nothing_is_left_and_learning_goes_on(name):
    clf = model(name).fit(X, Y)
    empty = model(name)
    clf.forget(ids=range(N))
    assert clf.n_core_ == clf.stored_bytes_ == 0
    assert clf.core_ids_.tolist() == clf.classes_.tolist() == []
    assert verify(clf).core_rows == 0
    for ask in (clf.predict, clf.predict_proba, clf.decision_function):
        with pytest.raises(NoRowsError, match="no rows remain"):
            ask(X)
    loaded = pickle.loads(pickle.dumps(clf))
    for again in (clf, loaded):
        assert again.partial_fit(X, Y).state_digest() == empty.fit(X, Y).state_digest()


@pytest.mark.parametrize("name", CLASSES)
def test_rows_are_overwritten_where_they_stood(name):
    clf = model(name).fit(X, Y, ids=[f"secret-{i:03d}" for i in range(N)])
    clf.predict(X)
    core, ids = clf._model.core, clf.core_ids_
    rows = pieces(core)
    handed_out, fits = clf._model.cache["predictors"]
    row = core.rows()[1]
    clf.forget(ids=ids[1])
    assert not handed_out.any()
    assert [any(piece) for piece in rows].count(False) == 1
    assert not any(rows[1])
    assert not (core.rows() == row).all(axis=1).any()
    if name.startswith("linear"):
        assert not fits[0].w.any()
    pickled = pickle.dumps(clf)
    assert row.tobytes() not in pickled
    assert ids[1].encode() not in pickled
    assert ids[0].encode() in pickled
    rows = pieces(core)
    assert all(map(any, rows))
    clf.fit(X[:9], Y[:9])
    assert not any(map(any, rows))
    gc.collect()


def test_labels_that_have_gone_leave_no_trace():
    y = np.array(["a", "secret-and-long", "c"])[make_classes(3, N)]
    clf = model().fit(X, y)
    clf.forget(ids=np.flatnonzero(y == "secret-and-long"))
    assert b"secret-and-long" not in pickle.dumps(clf)
    kept = clf.core_ids_
    assert clf.classes_.dtype == np.dtype("<U1")
    assert pickle.dumps(clf) == pickle.dumps(clone(clf).fit(X[kept], y[kept], ids=kept))


def test_a_report_of_a_state_that_has_gone_says_so():
    clf = model().fit(X, Y)
    report = clf.forget(ids=clf.core_ids_[0])
    clf.forget(ids=clf.core_ids_[0])
    with pytest.raises(StaleReportError):
        _ = report.digest


# -- the digest --------------------------------------------------------------------------------------------------


def test_everything_that_is_state_is_in_the_digest():
    base = {"ids": np.arange(N), "subjects": OWNERS}
    flipped = Y.copy()
    core = model().fit(X, Y).core_ids_
    flipped[core[0]] = 1 - flipped[core[0]]
    renamed, reowned, moved = np.arange(N), OWNERS.copy(), X.copy()
    renamed[core[0]], reowned[core[0]] = 5000, 77
    moved[core[0]] *= -1.0
    digests = [
        model().fit(X, Y, **base).state_digest(),
        model().fit(X, Y, ids=np.arange(N)).state_digest(),
        model().fit(X, flipped, **base).state_digest(),
        model().fit(X, Y, **{**base, "ids": renamed}).state_digest(),
        model().fit(X, Y, **{**base, "ids": [str(i) for i in range(N)]}).state_digest(),
        model().fit(X, Y, **{**base, "subjects": reowned}).state_digest(),
        model().fit(moved, Y, **base).state_digest(),
        model(threshold=math.nextafter(0.03, 1)).fit(X, Y, **base).state_digest(),
        model(classes=[0, 1]).fit(X, Y, **base).state_digest(),
        model(sampler="staged").fit(X, Y, **base).state_digest(),
        model("finite").fit(X, Y, **base).state_digest(),
        ErasableGeneralClassifier(FiniteClass(CLASSES["finite"].functions, name="b"), threshold=0.03)
        .fit(X, Y, **base)
        .state_digest(),
    ]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("name", CLASSES)
def test_a_pickle_is_the_model(name):
    ids, owners = [f"é{i}".encode() for i in range(N)], [None, "s"] * (N // 2)
    clf = model(name).fit(X, Y, ids=ids, subjects=owners, allow_no_subject=True)
    for loaded in (pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf)):
        assert loaded.state_digest() == clf.state_digest()
        np.testing.assert_array_equal(loaded.predict(X), clf.predict(X))
        loaded.forget(ids=loaded.core_ids_[:2])
        assert loaded.n_core_ == clf.n_core_ - 2
        loaded.forget(subjects=["s"])
        assert set(loaded._model.core.subjects()) == {None}
    again = pickle.loads(pickle.dumps(clf))
    clf.set_params(threshold=0.9, function_class=None)  # changes the next fit, not the fitted model
    assert pickle.loads(pickle.dumps(clf)).state_digest() == again.state_digest() == clf.state_digest()


# -- recomputing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXACT)
def test_a_row_that_does_not_belong_is_found(name):
    clf = model(name).fit(X, Y)
    core = clf._model.core
    while True:  # copies until one is below the threshold
        core.append([core.rows()[:1]], [10**6 + len(core)], [None], [1])
        if len(core) >= 100:
            break
    with pytest.raises(VerificationError, match="not selected again") as caught:
        verify(clf)
    assert "to be expected" not in str(caught.value)


def test_progress_is_told():
    seen = []
    n = verify(model().fit(X, Y), progress=lambda done, total: seen.append((done, total))).core_rows
    assert seen == [(n, n)]


# -- the staged sampler ------------------------------------------------------------------------------------------


def test_the_staged_sampler_learns_predicts_and_forgets():
    clf = ErasableGeneralClassifier(LinearBall(0.5), sampler="staged", rate=0.5).fit(X, Y, subjects=OWNERS)
    assert 0 < clf.n_core_ < N
    assert clf.score(X, Y) > 0.85
    assert (np.diff(clf.core_ids_) > 0).all()  # in the order of the rows, whatever the order of the queries
    before = clf.n_core_
    assert clf.forget(ids=clf.core_ids_[:2]).core_rows_removed == 2
    assert clf.n_core_ == before - 2
    assert clf.predict(X).shape == (N,)
    clf.forget(ids=range(N))
    with pytest.raises(NoRowsError):
        clf.predict(X)
    with pytest.raises(AttributeError, match="no threshold_"):
        _ = clf.threshold_


def test_nothing_is_promised_about_the_staged_sampler():
    """The counterexample through the front door: the rows stay, and recomputing tells that they would not."""
    rows, labels = np.array([[float(v) for v in p] for p in EIGHT_ROWS.values()]), np.array([1, -1] * 4)
    clf = ErasableGeneralClassifier(LinearBall(0.5, scaling=None), sampler="staged", rate=1)
    clf.fit(rows, labels)
    assert clf.n_core_ == 8
    clf.forget(ids=[4])
    assert clf.core_ids_.tolist() == [0, 1, 2, 3, 5, 6, 7]
    with pytest.raises(VerificationError, match="to be expected: which rows the staged sampler selects"):
        verify(clf)
    kept = clf.core_ids_
    refit = clone(clf).fit(rows[kept], labels[kept], ids=kept)
    assert set(kept) - set(refit.core_ids_) == {5}
    assert "approximate" in clf.guarantee.definition
    assert "staged" in clf.guarantee.definition
    assert clf.guarantee.epsilon == math.inf


def test_the_staged_sampler_does_not_learn_in_parts():
    clf = ErasableGeneralClassifier(sampler="staged")
    with refused(clf, ConfigurationError, "all rows at once"):
        clf.partial_fit(X, Y)
    with refused(clf.fit(X, Y), ConfigurationError, "all rows at once"):
        clf.partial_fit(X, Y, ids=np.arange(N) + 1000)
    clf = model().fit(X, Y).set_params(sampler="staged")
    with refused(clf, ConfigurationError, "order or random_state changed since the model was first"):
        clf.partial_fit(X, Y, ids=np.arange(N) + 1000)


def test_guarantees():
    assert model().guarantee.epsilon == 0.0
    assert model().guarantee.bitwise
    assert not model().guarantee.assumptions
    assert len(model("finite").guarantee.assumptions) == 2
    assert "approximate" in str(model("numeric").guarantee)
    assert "rounded" in str(model("numeric").guarantee)


# -- refusals ----------------------------------------------------------------------------------------------------


def fails(*_):
    raise RuntimeError(f"{SECRET} {SECRET_TEXT}")


BAD_PARAMETERS = [
    ({"sampler": "stages"}, "sampler", "'single-pass'", "'staged'", "'stages'"),
    ({"sampler": None}, "sampler", "None"),
    ({"threshold": -0.1}, "threshold", "-0.1"),
    ({"threshold": math.nan}, "threshold", "nan"),
    ({"threshold": math.inf}, "threshold", "inf"),
    ({"threshold": "low"}, "threshold", "'low'"),
    ({"threshold": None}, "threshold", "None"),
    ({"threshold": 4.0}, "nothing could ever be selected", "4"),
    ({"function_class": FiniteClass([fails, fails]), "threshold": 1.0}, "nothing could ever be selected"),
    ({"function_class": LinearBall}, "function_class", "the class LinearBall"),
    ({"function_class": 3}, "function_class", "int"),
    ({"function_class": LinearBall(scaling=[1.0, 2.0])}, "2 scales", "3 features"),
    ({"function_class": FiniteClass([Sigmoid(np.eye(3)[0]), fails])}, "function 2 of 2 failed with RuntimeError"),
    ({"function_class": FiniteClass([Sigmoid(np.eye(3)[0])] * 2 + [lambda X: X])}, "function 3 of 3", "shape"),
    ({"function_class": NumericClass(fails, plane_erm)}, "sup failed with RuntimeError"),
    ({"function_class": NumericClass(lambda X, Q: np.full(len(X), np.nan), plane_erm)}, "sup", "finite"),
    ({"function_class": NumericClass(ball_sup, plane_erm), "sampler": "staged"}, "stages without a rate"),
    ({"sampler": "staged", "rate": -1.0}, "rate"),
    ({"sampler": "staged", "delta": 2.0}, "delta"),
    ({"sampler": "staged", "max_stages": 0}, "max_stages"),
    ({"classes": []}, "classes", "empty"),
    ({"classes": 5}, "classes"),
    ({"classes": [0]}, "fixed classes"),
]


@pytest.mark.parametrize(("parameters", "says"), [(p, s) for p, *s in BAD_PARAMETERS], ids=lambda v: str(v)[:60])
def test_parameters_that_cannot_work_are_refused(parameters, says):
    with refused(clf := ErasableGeneralClassifier(**parameters), ErasableError, *says):
        clf.fit(X, Y)
    clf = model().fit(X, Y, ids=[f"{SECRET_TEXT}-{i}" for i in range(N)]).set_params(**parameters)
    with refused(clf, ErasableError, *says):
        clf.fit(X, Y)
    with refused(clf, ErasableError):
        clf.partial_fit(X, Y, ids=[str(i) for i in range(N)])
    clf.predict(X)  # the old model goes on working


def changed(value):
    rows = X.copy()
    rows[:, 0] = SECRET
    rows[5, 1] = value
    return rows


BAD_CALLS = {
    "NaN": ({"X": changed(np.nan)}, "NaN"),
    "infinity": ({"X": changed(np.inf)}, "infinity"),
    "text": ({"X": np.full((N, D), SECRET_TEXT)}, "text"),
    "no rows": ({"X": X[:0], "y": Y[:0]}, "0 sample"),
    "one dimension": ({"X": X[:, 0]}, "2D"),
    "too few labels": ({"y": Y[:-1]}, "239"),
    "continuous labels": ({"y": Y + SECRET}, "continuous"),
    "missing labels": ({"y": [None, *Y[1:]]}, "missing"),
    "too few ids": ({"ids": np.arange(N - 1)}, "239 entries for 240 rows"),
    "repeated ids": ({"ids": [SECRET_ID] * N}, "distinct"),
    "ids of the wrong kind": ({"ids": np.linspace(0, 1, N)}, "integers, strings or bytes"),
    "too few subjects": ({"subjects": OWNERS[:-1]}, "239 entries"),
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input_leaves_the_model_as_it_was(case, name):
    change, says = BAD_CALLS[case]
    call = {"X": X, "y": Y, "ids": np.arange(N) + 1000, "subjects": OWNERS, **change}
    with refused(clf := model(name), ErasableError, says):
        clf.fit(**call)
    with refused(clf := model(name).fit(X, Y, subjects=OWNERS), ErasableError, says):
        clf.partial_fit(**call)
    with refused(clf, ErasableError, says):
        clf.fit(**call)


def test_more_bad_input():
    clf = model().fit(X, Y, subjects=OWNERS)
    with refused(clf, InputError, "already present"):
        clf.partial_fit(X, Y, ids=clf.core_ids_[0] + np.arange(N))
    with refused(clf, InputError, "type"):
        clf.partial_fit(X, Y.astype(str), ids=np.arange(N) + 1000)
    with refused(clf, ErasableError, "2 features"):
        clf.partial_fit(X[:, :2], Y, ids=np.arange(N) + 1000)
    with refused(clf, ErasableError, "2 features"):
        clf.predict(X[:, :2])
    with refused(clf, InputError, "ids= or subjects="):
        clf.forget()
    with refused(clf, ErasableError, "integers"):
        clf.forget(ids=["x"])
    with refused(clf, ErasableError, "integers"):
        clf.forget(subjects=["x"])
    with refused(clf := ErasableGeneralClassifier(LinearBall(scaling=None)), InputError, "norm above 1"):
        clf.fit(X * 100, Y)


@pytest.mark.parametrize(
    "change", [{"threshold": 0.04}, {"function_class": LinearBall(2.0)}, {"classes": [0, 1]}], ids=str
)
def test_parameters_do_not_change_under_a_fitted_model(change):
    clf = model().fit(X, Y).set_params(**change)
    with refused(clf, ConfigurationError, "changed since"):
        clf.partial_fit(X, Y, ids=np.arange(N) + 1000)
    clf.set_params(**model().get_params()).partial_fit(X, Y, ids=np.arange(N) + 1000)


def test_classes_are_fixed_once():
    clf = model(classes=[0, 1])
    with refused(clf, ConfigurationError, "differ"):
        clf.partial_fit(X, Y, classes=[0, 1, 2])
    clf.partial_fit(X, Y, classes=[1, 0])
    clf.forget(ids=np.flatnonzero(Y == 1))
    assert clf.classes_.tolist() == [0, 1]
    assert clf.predict_proba(X).shape == (N, 2)
    with refused(clf, ConfigurationError, "classes"):
        clf.partial_fit(X, Y, ids=np.arange(N) + 1000, classes=[0, 1, 2])
    with refused(clf, InputError, "fixed classes"):
        clf.partial_fit(X, Y + 5, ids=np.arange(N) + 1000)


def test_a_fit_that_fails_is_told_when_predicting():
    clf = ErasableGeneralClassifier(NumericClass(ball_sup, fails), threshold=0.1).fit(X, Y)
    with refused(clf, ConfigurationError, "erm failed with RuntimeError"):
        clf.predict(X)
    assert clf.forget(ids=clf.core_ids_[0]).core_rows_removed == 1


def test_a_model_that_is_not_fitted_says_so():
    clf = model()
    for ask in (lambda: clf.predict(X), lambda: clf.forget(ids=[1]), clf.state_digest, lambda: verify(clf)):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ask()
    for name in ("classes_", "core_ids_", "n_core_", "threshold_", "stored_rows_", "stored_bytes_"):
        assert not hasattr(clf, name)


def test_an_interrupt_within_a_change_makes_the_model_refuse(monkeypatch):
    clf = model().fit(X, Y)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rows_module.CoreRows, "remove", stop)
        with pytest.raises(KeyboardInterrupt):
            clf.forget(ids=clf.core_ids_[:1])
    for ask in (lambda: clf.predict(X), clf.state_digest, lambda: pickle.dumps(clf)):
        with pytest.raises(ChangedMeanwhileError, match="interrupted"):
            ask()
    assert clf.fit(X, Y).state_digest() == model().fit(X, Y).state_digest()


def test_a_change_while_learning_is_kept_and_the_learning_is_not():
    clf = model().fit(X, Y)
    before = clf.core_ids_.tolist()

    def meddle(done, total):
        clf.forget(ids=before[:1])

    with pytest.raises(ChangedMeanwhileError, match="none of them was learnt"):
        clf._learn(X, Y, np.arange(N) + 1000, fresh=False, progress=meddle)
    assert clf.core_ids_.tolist() == before[1:]
    assert verify(clf).core_rows == len(before) - 1
