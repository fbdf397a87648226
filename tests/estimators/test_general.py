"""Algorithm 2 as a classifier: what it keeps, how it forgets, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone

from erasable import ErasableClassifier, verify
from erasable.classes import FiniteClass, LinearBall, NumericClass
from erasable.errors import (
    ConfigurationError,
    ErasableError,
    InputError,
    NoRowsError,
    VerificationError,
)
from erasable.estimators.kernel import ErasableGeneralClassifier
from tests.estimators.cases import SECRET, SECRET_TEXT, Sigmoid, ball_sup, make_classes, make_rows, plane_erm, refused
from tests.paper.test_theorem_5_2_example import EIGHT_ROWS

N, D = 240, 3
X, Y = make_rows(N, D)
OWNERS = np.arange(N) % 17


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


# -- learning and predicting -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [1, 2, 3, 5])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 0.02, 0.1])
def test_with_linear_functions_it_is_the_linear_classifier(threshold, intercept, n_classes):
    y = make_classes(n_classes, N)
    ball = LinearBall(0.6, fit_intercept=intercept)
    general = ErasableGeneralClassifier(ball, threshold=threshold).fit(X, y)
    linear = ErasableClassifier(
        1 / (4 * 0.6**2), threshold=threshold, fit_intercept=intercept, loss="squared", feature_map=None
    ).fit(X, y)
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


def test_the_default_is_linear():
    assert (
        ErasableGeneralClassifier().fit(X, Y).state_digest()
        == ErasableGeneralClassifier(LinearBall(), threshold=0.05).fit(X, Y).state_digest()
    )


# -- forgetting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSES)
def test_fits_to_forgotten_rows_are_overwritten(name):
    clf = model(name).fit(X, Y)
    clf.predict(X)
    handed_out, fits = clf._model.cache["predictors"]
    clf.forget(ids=clf.core_ids_[:1])
    assert not handed_out.any()
    if name.startswith("linear"):
        assert not fits[0].w.any()


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
    ({"threshold": -0.1}, "threshold", "-0.1"),
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


def test_rows_outside_the_ball_are_refused():
    with refused(clf := ErasableGeneralClassifier(LinearBall(scaling=None)), InputError, "norm above 1"):
        clf.fit(X * 100, Y)


def test_a_fit_that_fails_is_told_when_predicting():
    clf = ErasableGeneralClassifier(NumericClass(ball_sup, fails), threshold=0.1).fit(X, Y)
    with refused(clf, ConfigurationError, "erm failed with RuntimeError"):
        clf.predict(X)
    assert clf.forget(ids=clf.core_ids_[0]).core_rows_removed == 1
