"""Scores of predictions against scikit-learn's own, and where those are not defined."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from erasable.errors import InputError
from erasable.operations.scoring import regression_scores_of, scores_of


def drawn(seed, n, k, names):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(k), n)
    y = np.array([rng.choice(k, p=p) for p in P])
    return names[y], P, names[P.argmax(axis=1)]


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(20, 80), st.booleans())
def test_scores_are_those_of_scikit_learn(seed, k, n, text):
    names = np.array([f"class {i}" for i in range(k)]) if text else np.arange(k) * 3
    y, P, predicted = drawn(seed, n, k, names)
    y[:k] = names  # all are there
    scores = scores_of(y, names.tolist(), P, predicted)
    assert scores.rows == n
    assert scores.accuracy == metrics.accuracy_score(y, predicted)
    assert scores.largest_share == max(np.unique(y, return_counts=True)[1]) / n
    assert scores.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(y, predicted))
    area = metrics.roc_auc_score(y, P[:, 1]) if k == 2 else metrics.roc_auc_score(y, P, multi_class="ovr")
    assert scores.auc == pytest.approx(area)
    assert scores.log_loss == pytest.approx(metrics.log_loss(y, P, labels=names))
    shares = np.array([(y == c).mean() for c in names])
    assert scores.log_loss_of_shares == pytest.approx(metrics.log_loss(y, np.tile(shares, (n, 1)), labels=names))
    assert (scores.confusion == metrics.confusion_matrix(y, predicted, labels=names)).all()
    assert scores.classes == tuple(names.tolist())
    json.dumps(scores.as_json(), allow_nan=False)


def test_a_label_that_the_model_does_not_know_is_wrong_and_was_impossible():
    P = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    scores = scores_of(["a", "b", "z"], ["a", "b"], P, np.array(["a", "b", "a"]))
    assert scores.classes == ("a", "b", "z")
    assert scores.accuracy == pytest.approx(2 / 3)
    assert scores.balanced_accuracy == pytest.approx(2 / 3)
    assert scores.log_loss == pytest.approx((-math.log(0.9) - math.log(0.8) - math.log(np.finfo(float).eps)) / 3)
    assert scores.confusion.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert scores.auc == pytest.approx((1.0 + 1.0 + 0.5) / 3)  # the model has no opinion of z
    assert scores.unknown_labels == 1
    assert "the labels of 1 of the 3 rows are none of the model's classes" in scores.warnings[0]
    assert "z" not in scores.warnings[0].split()


def test_labels_of_another_type_are_unknown_and_no_error():
    scores = scores_of(["0", "1"], [0, 1], [[1.0, 0.0], [0.0, 1.0]], [0, 1])
    assert scores.accuracy == 0.0
    assert scores.classes == (0, 1, "0", "1")
    assert scores.unknown_labels == 2


def test_one_class_has_no_area():
    scores = scores_of([1, 1], [1], [[1.0], [1.0]], [1, 1])
    assert (scores.auc, scores.log_loss, scores.log_loss_of_shares, scores.accuracy) == (None, 0.0, 0.0, 1.0)
    assert not scores.no_better_than_constant
    missed = scores_of([1, 2, 2], [1], [[1.0]] * 3, [1, 1, 1])  # a model that misses a class
    assert missed.auc == 0.5
    assert missed.balanced_accuracy == 0.5


def test_what_is_no_better_than_a_constant():
    y = np.repeat([0, 1], [930, 70])

    def judged(found):  # how many of the 70 rare rows are found, at the cost of as many others
        predicted = np.zeros(1000, dtype=int)
        predicted[930 : 930 + found] = 1
        predicted[:found] = 1
        return scores_of(y, [0, 1], np.eye(2)[predicted], predicted).no_better_than_constant

    assert [judged(found) for found in (0, 3, 70)] == [True, True, False]


def test_a_model_that_ranks_and_never_predicts_the_rare_class_is_better_than_a_constant():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [1860, 140])
    p = 1.0 / (1.0 + np.exp(3.3 - 1.5 * rng.standard_normal(2000) - 1.5 * y))
    P = np.column_stack([1.0 - p, p])
    P = P / 2 + [0.5, 0.0]  # so that the common class is always the more likely one
    scores = scores_of(y, [0, 1], P, np.zeros(2000, dtype=int))
    assert scores.auc > 0.7
    assert scores.log_loss < scores.log_loss_of_shares
    assert not scores.no_better_than_constant
    # Probabilities that are worse than a constant's do not make the ranking worthless.
    sure = scores_of(y, [0, 1], np.column_stack([1.0 - p**4, p**4]), np.zeros(2000, dtype=int))
    assert sure.log_loss > sure.log_loss_of_shares
    assert not sure.no_better_than_constant


def test_nothing_to_score_is_refused():
    with pytest.raises(InputError, match="there must be rows"):
        scores_of([], [0, 1], np.empty((0, 2)), [])
    with pytest.raises(InputError, match="got 2 labels, 1 predictions"):
        scores_of([0, 1], [0, 1], [[1.0, 0.0]], [0])
    with pytest.raises(InputError, match="as many numbers"):
        regression_scores_of([1.0], [1.0, 2.0])


@given(st.integers(0, 10**6), st.integers(2, 50), st.integers(1, 3))
def test_regression_scores_are_those_of_scikit_learn(seed, n, targets):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal((n, targets))
    predicted = y + rng.standard_normal((n, targets))
    if targets == 1:
        y, predicted = y[:, 0], predicted[:, 0]
    scores = regression_scores_of(y, predicted)
    assert scores.r2 == pytest.approx(metrics.r2_score(y, predicted))
    assert scores.mean_absolute_error == pytest.approx(metrics.mean_absolute_error(y, predicted))
    mean = np.broadcast_to(y.mean(axis=0), y.shape)
    assert scores.mean_absolute_error_of_mean == pytest.approx(np.abs(y - mean).mean())
    assert regression_scores_of(y, mean + 1.0).no_better_than_constant
    assert not regression_scores_of(y, 0.9 * y + 0.1 * mean).no_better_than_constant


def test_no_variance_has_no_r2():
    assert regression_scores_of([2.0, 2.0], [1.0, 2.0]).r2 is None
    assert regression_scores_of([2.0], [1.0]).r2 is None
    json.dumps(regression_scores_of([2.0], [1.0]).as_json(), allow_nan=False)
