"""Predicting: shapes, probabilities, and the published weights."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from tests.estimators import cases
from tests.estimators.cases import D, N, make_classes, make_rows

classifier = partial(cases.classifier, feature_map=None)  # weights of rows as they are
X, Y = make_rows()
COLUMNS = list("abc")


@pytest.mark.parametrize(
    ("n_classes", "fixed", "functions"),
    [(1, False, 1), (1, True, 1), (2, False, 1), (2, True, 1), (3, False, 3), (5, False, 5), (5, True, 5)],
)
@pytest.mark.parametrize("intercept", [True, False])
def test_shapes(n_classes, fixed, functions, intercept):
    y = make_classes(n_classes)
    clf = classifier(classes=range(n_classes) if fixed else None, fit_intercept=intercept).fit(X, y)
    assert clf.classes_.tolist() == list(range(n_classes))
    assert clf.coef_.shape == (functions, D)
    assert clf.intercept_.shape == (functions,)
    for n in (1, 7):
        assert clf.decision_function(X[:n]).shape == ((n,) if functions == 1 else (n, functions))
        assert clf.predict(X[:n]).shape == (n,)
        assert clf.predict_proba(X[:n]).shape == (n, n_classes)
    assert intercept == bool(clf.intercept_.any())


@pytest.mark.parametrize("n_classes", [1, 2, 3, 6])
@pytest.mark.parametrize("parameters", [{}, {"scaling": 4.5, "threshold": 0.003}, {"fit_intercept": False}], ids=str)
def test_probabilities_sum_to_one_and_agree_with_predict(n_classes, parameters):
    clf = classifier(**parameters).fit(X, make_classes(n_classes) if n_classes != 2 else Y)
    far = 50.0 * make_rows(seed=3)[0]
    P = clf.predict_proba(far)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert P.min() >= 0.0
    assert P.max() <= 1.0
    np.testing.assert_array_equal(clf.classes_[P.argmax(axis=1)], clf.predict(far))


def test_the_binary_probability_is_the_papers():
    clf = classifier(scaling=4.5, threshold=0.003, loss="squared").fit(X, Y)
    far = 20.0 * X
    scores = clf.decision_function(far)
    assert scores.min() < -1.0 < 1.0 < scores.max()  # clipping happens on both sides
    expected = np.clip((1.0 + scores) / 2.0, 0.0, 1.0)
    np.testing.assert_allclose(clf.predict_proba(far)[:, 1], expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(clf.predict_proba(far)[:, 0], 1.0 - expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(clf.predict(far), (scores > 0).astype(int))


def test_several_probabilities_are_the_nearest_to_the_scores():
    """Euclidean projection onto the simplex, against its own optimality condition."""
    clf = classifier(scaling=4.5, threshold=0.003, loss="squared").fit(X, make_classes(4))
    raw = (1.0 + clf.decision_function(20.0 * X)) / 2.0
    P = clf.predict_proba(20.0 * X)
    assert (P == 0.0).any()
    for p, v in zip(P, raw, strict=True):
        shift = (v - p)[p > 0]
        np.testing.assert_allclose(shift, shift.mean(), atol=1e-9)
        assert (v[p == 0] <= shift.mean() + 1e-9).all()


@pytest.mark.parametrize("n_classes", [1, 2, 4])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("scaling", ["row", None, 5.0, [1.0, 0.5, 4.0]], ids=str)
def test_the_weights_reproduce_the_decision_function(n_classes, intercept, scaling):
    """``coef_`` acts on rows as scaled: divided by the configured constants, and by their norm where that is asked."""
    rows = X / 5.0 if scaling is None else X
    clf = classifier(scaling=scaling, fit_intercept=intercept, threshold=0.003).fit(rows, make_classes(n_classes))
    Z = rows / (np.array(scaling) if isinstance(scaling, list | float) else 1.0)
    if scaling == "row" or isinstance(scaling, list):
        Z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    scores = Z @ clf.coef_.T + clf.intercept_
    np.testing.assert_allclose(clf.decision_function(rows).reshape(N, -1), scores, rtol=1e-12, atol=1e-13)
    # The weights in the state are float32; coef_ is those, times the length of unit rows on the grid, without rounding.
    stretch = np.ldexp(np.rint(np.ldexp(clf._model.configuration.grid.stretch, 15)), -15)
    weights = clf.coef_ / stretch
    assert (weights == weights.astype(np.float32)).all()
    assert (weights == clf._model.weights()[:, :D]).all()


def test_the_weights_are_a_ridge_solution():
    clf = classifier(fit_intercept=False, threshold=0.0, capacity=2.0, loss="squared").fit(X, Y)
    Z = X / np.linalg.norm(X, axis=1, keepdims=True)
    ridge = np.linalg.solve(Z.T @ Z + 2.0 * np.eye(D), Z.T @ np.where(Y > 0, 1.0, -1.0))
    np.testing.assert_allclose(clf.coef_[0], ridge, rtol=1e-3, atol=1e-4)
    several = classifier(fit_intercept=False, threshold=0.0, capacity=2.0, loss="squared").fit(X, y := make_classes(4))
    for c in range(4):
        ridge = np.linalg.solve(Z.T @ Z + 2.0 * np.eye(D), Z.T @ np.where(y == c, 1.0, -1.0))
        np.testing.assert_allclose(several.coef_[c], ridge, rtol=1e-3, atol=1e-4)


def test_rows_are_predicted_one_by_one_or_together(monkeypatch):
    from erasable.models import strategies as arrays

    clf = classifier().fit(X, make_classes(3))
    together = clf.decision_function(X)
    np.testing.assert_allclose(np.vstack([clf.decision_function(x[None]) for x in X]), together, rtol=0, atol=1e-12)
    monkeypatch.setattr(arrays, "_BLOCK", 7 * (D + 1))
    np.testing.assert_allclose(clf.decision_function(X), together, rtol=0, atol=1e-12)
    np.testing.assert_allclose(clf.decision_function(sp.csr_array(X)), together, rtol=0, atol=1e-12)


def test_a_zero_row_gets_the_intercept():
    clf = classifier().fit(X, Y)
    np.testing.assert_array_equal(clf.decision_function(np.zeros((2, D))), np.repeat(clf.intercept_, 2))


def test_what_is_handed_out_is_a_copy():
    clf = classifier().fit(X, make_classes(3), ids=np.arange(N))
    before, scores = clf.state_digest(), clf.decision_function(X)
    for name in ("coef_", "intercept_", "core_ids_", "classes_"):
        array = getattr(clf, name)
        kept = array.copy()
        array[...] = 0
        np.testing.assert_array_equal(getattr(clf, name), kept)
    state = clf._model.snapshot()
    for array in (state.rows, state.derived["gram"], state.derived["class_sums"]):
        array[...] = 0
    assert clf.state_digest() == before
    assert clf.decision_function(X).tobytes() == scores.tobytes()
