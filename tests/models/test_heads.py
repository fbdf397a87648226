"""Losses, weights of classes and rows, and samples: what they mean, what is refused, and that verify sees them."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import erasable.core.logistic as logistic
from erasable import ErasableClassifier, ErasableKernelClassifier, learn, load, verify
from erasable.core.grid import Grid, dense_rows
from erasable.errors import (
    ConfigurationError,
    ErasableError,
    ExactnessError,
    InputError,
    StateFormatError,
    VerificationError,
)
from erasable.features import RandomFourierFeatures
from erasable.models import files as shards
from erasable.models.configuration import Configuration
from erasable.models.heads import KernelRidge, Logistic, Regression, Squared
from erasable.models.inputs import check_row_weights
from erasable.models.selections import Leverage
from erasable.models.selections.leverage import in_sample
from erasable.models.state import State
from erasable.research.baselines import RetrainedRidge
from erasable.tables import Table
from tests.formats.tampering import altered
from tests.oracle import turn
from tests.strategies import whole_rows

RNG = np.random.default_rng(5)
N = 300
X = RNG.standard_normal((N, 4))
RARE = (X[:, 0] + 0.8 * RNG.standard_normal(N) > 1.6).astype(int)
THREE = np.digitize(X[:, 0] + 0.5 * RNG.standard_normal(N), [-0.5, 1.2])
IDS = [f"id {i}" for i in range(N)]
WEIGHTS = RNG.choice([0.25, 1.0, 2.5, 16.0], N)
GRID = Grid(2, 15, True)


def stored(clf):
    """Scores of the core rows, their labels and weights."""
    state = clf._model.snapshot()
    rows = state.rows if isinstance(state.rows, np.ndarray) else dense_rows(state.rows, state.configuration.grid)
    scores = rows @ state.derived["weights"].astype(np.float64).T * 2.0**-state.configuration.grid.bits
    weights = np.full(len(rows), 16) if state.row_weights is None else state.row_weights
    return scores, np.array(state.labels), weights / 16


# -- the logistic loss -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [RARE, THREE], ids=["two", "three"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 0.25}])
def test_logistic_weights_are_those_of_scikit_learn_on_the_core_rows(y, class_weight):
    clf = ErasableClassifier(
        0.5, threshold=0.02, loss="logistic", alpha=0.25, class_weight=class_weight, feature_map=None
    )
    clf.fit(X, y, ids=IDS, sample_weight=WEIGHTS)
    state = clf._model.snapshot()
    G, labels, counted = state.rows * 2.0**-15, np.array(state.labels), state.row_weights / 16
    totals = {c: counted[labels == c].sum() for c in set(labels)}
    balanced = {c: counted.sum() / (len(totals) * totals[c]) for c in totals}
    of_class = balanced if class_weight == "balanced" else (class_weight or {})
    counts = counted * np.array([of_class.get(c, 1.0) for c in labels])
    for k, c in enumerate(clf.classes_ if len(clf.classes_) > 2 else clf.classes_[-1:]):
        right = LogisticRegression(C=4.0, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
        right.fit(G, labels == c, sample_weight=counts)
        np.testing.assert_allclose(state.derived["weights"][k], right.coef_[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("y", [RARE, THREE], ids=["two", "three"])
def test_probabilities_are_sigmoids(y):
    clf = ErasableClassifier(0.5, threshold=0.02, loss="logistic", alpha=1e-3).fit(X, y)
    scores, P = clf.decision_function(X), clf.predict_proba(X)
    s = 1.0 / (1.0 + np.exp(-scores))
    right = np.column_stack([1.0 - s, s]) if s.ndim == 1 else s / s.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(P, right, rtol=1e-10)
    assert (clf.predict(X) == clf.classes_[P.argmax(axis=1)]).all()


def test_probabilities_stay_above_zero_as_long_as_float64_can():
    clf = ErasableClassifier(1e-6, threshold=1e-3, alpha=1e-6, scaling=1.0, fit_intercept=False)
    clf.fit([[1.0], [-1.0]], [1, 0])
    P = clf.predict_proba([[40.0], [-40.0]])  # farther than any row that could be learnt
    assert 0.0 < P[0, 0] == P[1, 1] < 1e-100
    assert P[0, 1] == 1.0


def test_the_loss_is_logistic_and_alpha_a_hundredth_unless_given():
    plain = ErasableClassifier(0.3, threshold=0.02, feature_map=None).fit(X, RARE)
    same = ErasableClassifier(0.3, threshold=0.02, loss="logistic", alpha=0.01, feature_map=None).fit(X, RARE)
    other = ErasableClassifier(0.3, threshold=0.02, loss="logistic", alpha=0.31, feature_map=None).fit(X, RARE)
    assert plain.state_digest() == same.state_digest() != other.state_digest()
    assert plain.core_ids_.tolist() == other.core_ids_.tolist()  # selection does not look at it


# Columns of numbers of any size: with a spread, and without one but for the constant of the intercept.
UNLIKE = X * [1.0, 1e-3, 30.0, 0.02]


@pytest.mark.parametrize("y", [RARE, THREE], ids=["two", "three"])
def test_a_regulariser_by_spread_is_that_of_scikit_learn_for_columns_divided_by_it(y):
    how = {"threshold": 0.0, "scaling": [4.0, 4e-3, 120.0, 0.08], "head_scaling": "spread", "alpha": 0.25}
    clf = ErasableClassifier(1e-3, **how, feature_map=None).fit(UNLIKE, y, ids=IDS, sample_weight=WEIGHTS)
    state = clf._model.snapshot()
    G, labels, counts = whole_rows(state).astype(float), np.array(state.labels), state.row_weights / 16
    mean = np.average(G, axis=0, weights=counts)
    units = 2.0 ** np.floor(np.log2(np.maximum(np.average((G - mean) ** 2, axis=0, weights=counts), 1.0)) / 2.0)
    assert units.tolist()[-1] == 1.0
    for k, c in enumerate(clf.classes_ if len(clf.classes_) > 2 else clf.classes_[-1:]):
        right = LogisticRegression(C=4.0, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
        right.fit(G / units, labels == c, sample_weight=counts)
        np.testing.assert_allclose(state.derived["weights"][k] * units * 2.0**-15, right.coef_[0], rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("selection", [{"threshold": 0.02}, {"selection": "independent", "rate": 0.7}], ids=str)
def test_a_spread_is_that_of_the_rows_that_are_left(selection):
    """A few large rows, without which a column has another regulariser."""
    large = UNLIKE.copy()
    large[:12, 1] = 40.0 + np.arange(12)
    clf = ErasableClassifier(**selection, scaling=1e3, head_scaling="spread").fit(large, THREE, ids=IDS)
    head, model = clf._model.configuration.head, clf._model
    before = head.exponents(model.configuration, model.core.rows(), None, model.sums)
    clf.coef_  # noqa: B018  solved for before, so that the next weights begin there
    clf.forget(ids=IDS[:12])
    after = head.exponents(model.configuration, model.core.rows(), None, model.sums)
    assert before[1] > after[1]
    kept = [IDS.index(i) for i in clf.core_ids_]
    again = clone(clf).fit(large[kept], THREE[kept], ids=[IDS[i] for i in kept])
    in_two = clone(clf).partial_fit(large[kept[:20]], THREE[kept[:20]], ids=[IDS[i] for i in kept[:20]], classes=None)
    in_two.coef_  # noqa: B018
    in_two.partial_fit(large[kept[20:]], THREE[kept[20:]], ids=[IDS[i] for i in kept[20:]])
    assert clf.state_digest() == again.state_digest() == verify(clf).digest
    assert (in_two.coef_ == clf.coef_).all() or "independent" not in selection.values()


def test_a_regulariser_by_spread_does_not_look_at_the_units_of_columns():
    """Columns multiplied by powers of four, on a grid that holds them all: the same probabilities."""
    scales = 4.0 ** np.array([0, -1, -3, -2])
    how = {"threshold": 0.0, "scaling": 64.0, "head_scaling": "spread", "grid_bits": 20}
    one, other = (ErasableClassifier(1e-9, **how).fit(np.rint(X * 2**12) / 2**12 * s, RARE) for s in (1.0, scales))
    np.testing.assert_allclose(
        one.predict_proba(np.rint(X * 2**12) / 2**12),
        other.predict_proba(np.rint(X * 2**12) / 2**12 * scales),
        atol=0.02,
    )


def test_how_columns_are_scaled_cannot_change(tmp_path):
    clf = ErasableClassifier(threshold=0.1, alpha=0.5, feature_map=None).fit(X, RARE, ids=IDS)
    clf.set_params(head_scaling="spread")
    with pytest.raises(ConfigurationError, match="head_scaling changed since"):
        clf.partial_fit(X, RARE, ids=[f"more {i}" for i in range(N)])


LINE = np.outer(np.arange(1.0, 41.0) / 40.0, [0.3, 0.2, 0.5])
FEW_DIRECTIONS = {
    "one row over and over": (np.full((6, 1), 0.6), [0, 0, 0, 0, 1, 1], {"alpha": 1.933311477750117e-09}, [1]),
    "one column of zeros and ones": (np.arange(3000)[:, None] % 2.0, np.arange(3000) % 3 == 0, {"alpha": 1e-6}, [1]),
    "much weight": (
        np.repeat(X[:3], 10, axis=0),
        np.arange(30) % 2,
        {"alpha": 0.01, "class_weight": {1: 65536.0}},
        [1],
    ),
    "rows on a line are left": (
        np.vstack([LINE, X[:8, :3] / 4.0]),
        np.arange(48) % 5 < 2,
        {"alpha": 1e-8},
        range(40, 48),
    ),
}


@pytest.mark.filterwarnings("ignore:there is one feature")
@pytest.mark.parametrize("name", FEW_DIRECTIONS)
def test_rows_that_determine_the_weights_poorly_can_be_forgotten_saved_and_verified(name, tmp_path):
    rows, y, how, leaving = FEW_DIRECTIONS[name]
    clf = ErasableClassifier(1e-3, threshold=0.0, loss="logistic", **how).fit(rows, y, ids=range(len(rows)))
    clf.save(tmp_path / "with.erasable")
    clf.forget(ids=leaving)
    clf.save(tmp_path / "without.erasable")
    kept = np.setdiff1d(np.arange(len(rows)), leaving)
    again = clone(clf).fit(rows[kept], np.asarray(y)[kept], ids=kept)
    assert verify(load(tmp_path / "without.erasable")).digest == clf.state_digest() == again.state_digest()


def test_more_rows_than_can_be_certified_are_refused_when_they_are_learnt(monkeypatch):
    monkeypatch.setattr(logistic, "MOST_ROWS_AT_ONCE", N)
    clf = ErasableClassifier(threshold=0.0, loss="logistic").fit(X, RARE, ids=IDS)
    before = clf.state_digest()
    with pytest.raises(ExactnessError, match=f"would reach {N + 1} rows.*at most {N}"):
        clf.partial_fit(X[:1], RARE[:1], ids=["one more"])
    with pytest.raises(ExactnessError, match="certified"):
        clf.learn_blocks([Table(X[:1], RARE[:1], ["one more"])])
    assert clf.state_digest() == before
    with pytest.raises(ExactnessError, match="certified"):
        clone(clf).fit(np.vstack([X, X[:1]]), np.append(RARE, 0))
    clf.forget(ids=IDS[:1])
    clf.partial_fit(X[:1], RARE[:1], ids=["one more"])
    assert verify(clf).digest == clf.state_digest()


def test_rows_behind_a_feature_map_have_the_same_heads():
    how = {"feature_map": RandomFourierFeatures(12, gamma=0.3), "threshold": 0.05, "loss": "logistic", "alpha": 0.1}
    clf = ErasableClassifier(**how, class_weight="balanced").fit(X, THREE, ids=IDS, sample_weight=WEIGHTS)
    clf.forget(ids=clf.core_ids_[::4])
    kept = [IDS.index(i) for i in clf.core_ids_]
    again = clone(clf).fit(X[kept], THREE[kept], ids=[IDS[i] for i in kept], sample_weight=WEIGHTS[kept])
    assert clf.state_digest() == again.state_digest() == verify(clf).digest
    assert clf.score(X, THREE) > 0.5


# -- weights of rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [RARE, THREE], ids=["two", "three"])
def test_squared_weights_are_those_of_weighted_ridge(y):
    clf = ErasableClassifier(0.5, threshold=0.02, loss="squared").fit(X, y, ids=IDS, sample_weight=WEIGHTS)
    state = clf._model.snapshot()
    for k, c in enumerate(clf.classes_ if len(clf.classes_) > 2 else clf.classes_[-1:]):
        right = Ridge(alpha=0.5, fit_intercept=False, solver="cholesky")
        target = np.where(np.array(state.labels) == c, 1.0, -1.0)
        right.fit(state.rows * 2.0**-15, target, sample_weight=state.row_weights / 16)
        np.testing.assert_allclose(state.derived["weights"][k], right.coef_, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("head", [{"loss": "squared"}, {"loss": "logistic"}, {"head_scaling": "spread"}], ids=str)
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_a_weight_is_as_good_as_so_many_copies(head, container):
    # By these weights some columns spread less than half as far.
    times, wide = np.where(np.abs(X[:, 0]) < 0.4, 9, 1), np.hstack([X, np.zeros((N, 12))])
    clf = ErasableClassifier(threshold=0.0, **head, feature_map=None).fit(container(wide), THREE, sample_weight=times)
    copies = ErasableClassifier(threshold=0.0, **head, feature_map=None).fit(
        container(np.repeat(wide, times, axis=0)), np.repeat(THREE, times)
    )
    assert clf.n_core_ == N < copies.n_core_
    assert (clf._model.weights() == copies._model.weights()).all()


def test_weights_are_rounded_to_sixteenths_and_none_is_as_good_as_one():
    assert check_row_weights([0.0, 1 / 32, 3 / 32, 0.1, 1.0, 15.99, 16.0], 7).tolist() == [0, 0, 2, 2, 16, 256, 256]
    plain = ErasableClassifier(threshold=0.02).fit(X, RARE)
    ones = ErasableClassifier(threshold=0.02).fit(X, RARE, sample_weight=np.full(N, 1.01))
    assert plain.state_digest() == ones.state_digest()
    assert "row_weights" not in str(plain._model.snapshot().pieces[0])


def test_selection_does_not_look_at_weights_but_for_zero():
    plain = ErasableClassifier(threshold=0.05).fit(X, RARE, ids=IDS)
    clf = ErasableClassifier(threshold=0.05).fit(X, RARE, ids=IDS, sample_weight=WEIGHTS)
    assert clf.core_ids_.tolist() == plain.core_ids_.tolist()
    some = np.where(np.arange(N) % 2, 1.0, 0.03)
    report = learn(clf := ErasableClassifier(threshold=0.05), X, RARE, ids=IDS, sample_weight=some)
    assert (report.rows, report.rows_without_weight) == (N, N // 2)
    odd = ErasableClassifier(threshold=0.05).fit(X[1::2], RARE[1::2], ids=IDS[1::2])
    assert clf.state_digest() == odd.state_digest()


def test_when_the_last_uneven_row_leaves_nothing_of_weights_is_left():
    uneven = np.where(np.arange(N) < 20, 3.0, 1.0)
    clf = ErasableClassifier(threshold=0.0, loss="squared").fit(X, THREE, sample_weight=uneven)
    assert clf._model.sums.weighted is not None
    before = clf.stored_bytes_
    clf.forget(ids=range(20))
    plain = ErasableClassifier(threshold=0.0, loss="squared").fit(X[20:], THREE[20:], ids=range(20, N))
    assert clf._model.sums.weighted is None
    assert clf.state_digest() == plain.state_digest()
    assert clf.stored_bytes_ == plain.stored_bytes_ < before


def test_weights_that_sums_cannot_hold_exactly_are_refused_and_nothing_changes():
    clf = ErasableClassifier(threshold=0.0, grid_bits=20, fit_intercept=False, loss="squared").fit(X, RARE, ids=IDS)
    before = clf.state_digest()
    with pytest.raises(ExactnessError, match=r"add up to 5,10.\.0, but weighted sums on a grid of 20 bits"):
        clf.partial_fit(X, RARE, ids=[f"new {i}" for i in range(N)], sample_weight=np.full(N, 16.0))
    assert clf.state_digest() == before
    other = ErasableClassifier(threshold=0.0, grid_bits=20, fit_intercept=False, loss="logistic")
    other.fit(X, RARE, sample_weight=np.full(N, 16.0))  # it has no weighted sums


def test_a_kernel_model_takes_no_weights():
    with pytest.raises(ConfigurationError, match="kernel model have no weights"):
        ErasableKernelClassifier().learn(X, RARE, sample_weight=np.ones(N))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_are_routed_by_scikit_learn():
    with sklearn.config_context(enable_metadata_routing=True):
        clf = ErasableClassifier(threshold=0.02).set_fit_request(sample_weight=True)
        clf.set_score_request(sample_weight=False)
        steps = make_pipeline(FunctionTransformer(), clf)
        fitted = steps.fit(X, RARE, sample_weight=WEIGHTS)[-1]
        assert fitted._model.snapshot().row_weights is not None
        cross_validate(clf, X, RARE, params={"sample_weight": WEIGHTS}, error_score="raise")
    assert RetrainedRidge().fit(X, RARE, sample_weight=WEIGHTS)._model.sums.weighted is not None


# -- weights of classes ------------------------------------------------------------------------------------------


def test_balanced_classes_decide_halfway_between_the_means():
    clf = ErasableClassifier(0.1, threshold=0.02, class_weight="balanced", loss="squared").fit(X, RARE)
    plain = ErasableClassifier(0.1, threshold=0.02, loss="squared").fit(X, RARE)
    scores, labels, _ = stored(clf)
    halfway = sum(scores[labels == c].mean() for c in (0, 1)) / 2
    assert clf.intercept_[0] - plain.intercept_[0] == pytest.approx(-halfway, rel=1e-6)
    assert (clf.coef_ == plain.coef_).all()
    better, before = (balanced_accuracy_score(RARE, m.predict(X)) for m in (clf, plain))
    assert better > before + 0.1


@pytest.mark.parametrize("y", [RARE, THREE], ids=["two", "three"])
@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0}, {0: 0.5, 1: 8.0}])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_class_weights_move_the_decision_to_where_a_regression_crosses_zero(y, class_weight, weights):
    """By brute force: scores of the core rows, spread alike in every class, with the masses asked for."""
    how = {"capacity": 0.1, "threshold": 0.02, "loss": "squared"}
    clf = ErasableClassifier(**how, class_weight=class_weight).fit(X, y, sample_weight=weights)
    plain = ErasableClassifier(**how).fit(X, y, sample_weight=weights)
    scores, labels, counted = stored(clf)
    classes = clf.classes_.tolist()
    totals = {c: counted[labels == c].sum() for c in classes}
    balanced = {c: counted.sum() / (len(classes) * totals[c]) for c in classes}
    given = balanced if class_weight == "balanced" else class_weight
    mass = {c: given.get(c, 1.0) * totals[c] for c in classes}
    for k, positive in enumerate(classes if len(classes) > 2 else classes[-1:]):
        s = scores[:, k]
        means = {c: np.average(s[labels == c], weights=counted[labels == c]) for c in classes}
        within = np.average((s - np.array([means[c] for c in labels])) ** 2, weights=counted)
        points = [(means[c] + d, 1.0 if c == positive else -1.0, mass[c]) for c in classes for d in (-1, 1)]
        spread = math.sqrt(within)
        xs = np.array([m + (spread - 1.0) * (1 if i % 2 else -1) for i, (m, _, _) in enumerate(points)])
        ys, ms = (np.array([p[j] for p in points]) for j in (1, 2))
        slope, constant = np.polyfit(xs, ys, 1, w=np.sqrt(ms))
        assert plain.intercept_[k] - clf.intercept_[k] == pytest.approx(-constant / slope, rel=1e-4, abs=1e-6)
    if class_weight == {0: 1.0}:  # the masses that there are: about no shift
        assert np.abs(plain.intercept_ - clf.intercept_).max() < 0.1


def test_where_a_class_has_no_rows_the_decision_stays():
    one = ErasableClassifier(threshold=0.02, class_weight="balanced", classes=[0, 1], loss="squared").fit(X, [1] * N)
    plain = ErasableClassifier(threshold=0.02, classes=[0, 1], loss="squared").fit(X, [1] * N)
    assert (one.intercept_ == plain.intercept_).all()
    clf = ErasableClassifier(threshold=0.02, class_weight={0: 4.0}, fit_intercept=False, loss="squared").fit(X, RARE)
    assert clf.intercept_[0] != 0.0
    clf.forget(ids=[i for i, c in zip(clf.core_ids_, clf._model.core.labels(), strict=True) if c == 0])
    assert clf.intercept_.tolist() == [0.0]


@pytest.mark.parametrize(
    ("class_weight", "said"),
    [
        ({0: 1.0, "a": 2.0}, "all of one type"),
        ({None: 1.0}, "class_weight must hold"),
        ({(1, 2): 1.0}, "class_weight must hold"),
    ],
)
def test_labels_of_class_weights_are_of_one_type_that_labels_have(class_weight, said):
    with pytest.raises(ErasableError, match=said):
        ErasableClassifier(threshold=0.02, class_weight=class_weight).fit(X, RARE)


def test_labels_of_class_weights_are_labels_of_the_model():
    with pytest.raises(InputError, match="class_weight names labels of type str"):
        ErasableClassifier(threshold=0.02, class_weight={"0": 2.0}).fit(X, RARE)
    with pytest.raises(ConfigurationError, match="not among the 2 fixed classes"):
        ErasableClassifier(threshold=0.02, class_weight={7: 2.0}, classes=[0, 1]).fit(X, RARE)
    clf = ErasableClassifier(threshold=0.02, class_weight={np.int64(7): 2.0, np.int8(0): 0.1}).fit(X, RARE)
    assert clf._model.configuration.head.class_weight == ((0, float(np.float32(0.1))), (7, 2.0))  # 7 may come later


# -- samples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [2.0**-64, 0.1, 1 / 3, 0.999, 1.0])
@pytest.mark.parametrize("ids", [IDS, list(range(N)), [b"%d" % i for i in range(N)]], ids=["str", "int", "bytes"])
def test_the_sample_is_the_ids_whose_hash_is_below_the_rate(rate, ids):
    drawn = [turn(key, 9) < Fraction(rate) * 2**64 for key in ids]
    assert in_sample(ids, rate, 9).tolist() == drawn
    clf = ErasableClassifier(threshold=math.inf, sample_rate=rate, random_state=9).fit(X, RARE, ids=ids)
    assert sorted(clf.core_ids_.tolist()) == sorted(key for key, kept in zip(ids, drawn, strict=True) if kept)
    verify(clf)


def test_who_is_kept_depends_on_nobody_else():
    def kept(part, **changes):
        clf = ErasableClassifier(**{"threshold": math.inf, "sample_rate": 0.3, **changes})
        return set(clf.fit(X[part], RARE[part], ids=[IDS[i] for i in part]).core_ids_.tolist())

    everybody = kept(range(N))
    for part in (range(50), range(40, N, 3), range(299, 0, -1)):
        assert kept(part) == everybody & {IDS[i] for i in part}
        assert kept(part, order="given") == kept(part)
    assert kept(range(N), random_state=1) != everybody
    assert everybody < kept(range(N), threshold=0.05)


def test_a_model_with_a_sample_follows_labels_that_change_and_one_without_does_not():
    rng = np.random.default_rng(0)
    many = rng.standard_normal((20_000, 5))
    y = many[:, 0] > 0
    old, new = slice(0, 2_000), slice(2_000, None)
    ids = np.arange(len(many))
    found = {}
    for rate in (0.0, 0.2):
        clf = ErasableClassifier(0.1, threshold=0.05, sample_rate=rate).partial_fit(many[old], y[old], ids=ids[old])
        before = clf.n_core_
        clf.partial_fit(many[new], ~y[new], ids=ids[new])  # the world has turned around
        found[rate] = clf.score(many[new], ~y[new]), clf.n_core_ - before
    assert found[0.0][0] < 0.2
    assert found[0.0][1] < 20  # of 18,000: whatever their labels, their directions are known
    assert found[0.2][0] > 0.9


def test_a_sample_needs_ids_and_an_infinite_threshold_needs_a_sample():
    with pytest.raises(InputError, match="ids are required"):
        ErasableClassifier(threshold=0.02, sample_rate=0.1).fit(X, RARE)
    with pytest.raises(ConfigurationError, match="threshold must be finite where there is no sample"):
        ErasableClassifier(threshold=math.inf).fit(X, RARE, ids=IDS)
    with pytest.raises(ConfigurationError, match="threshold"):
        ErasableClassifier(threshold=-math.inf, sample_rate=0.1).fit(X, RARE, ids=IDS)
    clf = ErasableClassifier(5.0, threshold=0.9, sample_rate=0.1).fit(X, RARE, ids=IDS)
    assert 0 < clf.n_core_ < N / 5  # nothing could be selected by its leverage, and need not


# -- configuration -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "logistic", "alpha": 0.125},
        {"loss": "logistic", "alpha": 0.25, "class_weight": {0: 2.0, 5: 0.1}},
        {"head_scaling": "spread", "alpha": 0.25, "class_weight": "balanced"},
        {"loss": "squared", "class_weight": "balanced", "sample_rate": 0.3, "threshold": math.inf, "order": "given"},
        {"loss": "squared", "sample_rate": 0.3, "random_state": 2**90},
    ],
)
def test_a_file_gives_parameters_back(tmp_path, parameters):
    clf = ErasableClassifier(**{"threshold": 0.1, **parameters}).fit(X, RARE, ids=IDS, sample_weight=WEIGHTS)
    clf.save(tmp_path / "m.erasable")
    again = load(tmp_path / "m.erasable")
    for name in ("alpha", "sample_rate", "threshold", "order", "random_state"):
        assert getattr(again, name) == getattr(clf, name)
    assert again.loss == (clf.loss or "logistic")
    assert again.head_scaling == (None if again.loss == "squared" else clf.head_scaling or "spread")
    assert again.state_digest() == clf.state_digest()
    assert (again.predict_proba(X) == clf.predict_proba(X)).all()
    assert (again.intercept_ == clf.intercept_).all()
    gone = clf.core_ids_[:3].tolist()
    for model in (clf, again):
        model.forget(ids=gone)
    assert again.state_digest() == clf.state_digest() == verify(again).digest


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Logistic(0),
        lambda: Leverage(GRID, 4, math.inf),
        lambda: Leverage(GRID, 0, 0.5),
        lambda: Leverage(GRID, 4, -0.0),
        lambda: Leverage(GRID, 4, 0.5, sample_rate=0.5),
        lambda: Leverage(GRID, 4, 0.5, sample_key=3),
        lambda: Leverage(GRID, 4, 0.5, sample_rate=1.5, sample_key=3),
        lambda: Configuration(Leverage(GRID, 4, 0.5, 0.5, 3), Squared(), order_key=4),
        lambda: Configuration(Leverage(GRID, 4, 0.5), Squared(((1, 1.0), (0, 1.0)))),
        lambda: Configuration(Leverage(GRID, 4, 0.5), Squared(((0, 0.1),))),
        lambda: Configuration(Leverage(GRID, 4, 0.5), Squared("other")),
        lambda: Configuration(Leverage(GRID, 4, 0.5), Regression(((0.0, 1.0),)), classes=(0, 1)),
        lambda: Configuration(Leverage(GRID, 4, 0.5), KernelRidge()),
    ],
)
def test_configurations_that_no_estimator_has_are_refused(wrong):
    with pytest.raises(ConfigurationError):
        wrong()


# -- files that were altered ---------------------------------------------------------------------------------------


def bytes_of(**parameters):
    clf = ErasableClassifier(**{"threshold": 0.1, **parameters}).fit(X, RARE, ids=IDS, sample_weight=WEIGHTS)
    return clf._model.snapshot().to_bytes()


LOGISTIC = {"loss": "logistic", "alpha": 0.5, "class_weight": "balanced"}


@pytest.mark.parametrize(
    ("parameters", "change", "said"),
    [
        (LOGISTIC, {"alpha_units": str(2**28)}, "the logistic weights w"),
        (LOGISTIC, {"class_weight": None}, "the logistic weights w"),
        ({"head_scaling": "spread"}, {"alpha_units": str(2**28)}, "the logistic weights w"),
        (
            {"head_scaling": "spread", "selection": "independent", "rate": 0.5, "threshold": None},
            {"head": "logistic"},
            "the logistic weights w",
        ),
        ({"sample_rate": 0.3, "threshold": math.inf}, {"sample_rate": (0.25).hex()}, "not selected again"),
        ({"sample_rate": 0.3, "threshold": math.inf}, {"sample_key": "1", "order_key": "1"}, "not selected again"),
        ({"sample_rate": 0.3}, {"sample_rate": (0.0).hex(), "sample_key": None}, "not selected again"),
    ],
)
def test_verify_sees_another_configuration(parameters, change, said):
    data = altered(bytes_of(**parameters), lambda header, meta: meta.update(change))
    with pytest.raises(VerificationError, match=said):
        State.from_bytes(data).verify()


@pytest.mark.parametrize(
    "change",
    [
        {"loss": "squared", "alpha_units": None},  # there are no weighted sums then
        {"loss": "hinge"},
        {"alpha_units": None},
        {"alpha_units": 1},
        {"class_weight": "else"},
        {"class_weight": {"kind": "int", "weights": [["0", "0x1.0p+0"]]}},
        {"sample_rate": (0.5).hex()},
        {"sample_key": "0"},
        {"threshold": "inf"},
    ],
)
def test_headers_that_say_what_cannot_be_are_refused(change):
    data = altered(bytes_of(**LOGISTIC), lambda header, meta: meta.update(change))
    with pytest.raises(StateFormatError):
        State.from_bytes(data)


def state_of(**parameters):
    return State.from_bytes(bytes_of(**parameters))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_verify_sees_another_weight_of_a_row(loss):
    state = state_of(loss=loss)
    assert state.verify().core_rows == len(state.ids)
    other = state.row_weights.copy()
    other[3] += 1
    said = "the weighted A" if loss == "squared" else "the logistic weights w"
    with pytest.raises(VerificationError, match=said):
        dataclasses.replace(state, row_weights=other).verify()


@pytest.mark.parametrize(
    ("name", "said"), [("weighted_gram", "the weighted A"), ("weighted_class_sums", "the weighted class sums b")]
)
def test_verify_sees_another_weighted_sum(name, said):
    state = state_of(loss="squared")
    plain = {key: array for key, array in state.derived.items() if not key.startswith("weighted")}
    other = state.derived[name].copy()
    other.flat[1] += 1
    with pytest.raises(VerificationError, match=said):
        dataclasses.replace(state, derived=state.derived | {name: other}).verify()
    with pytest.raises(VerificationError, match="the weighted A: not stored"):
        dataclasses.replace(state, derived=plain).verify()
    with pytest.raises(VerificationError, match="the weighted A: stored"):
        dataclasses.replace(state, row_weights=None).verify()


@pytest.mark.parametrize("weights", [[16] * 3, [0, 16, 17], [257, 16, 16]])
def test_weights_of_rows_that_no_file_has_are_refused(weights):
    clf = ErasableClassifier(threshold=0.0, loss="logistic").fit(np.eye(3), [0, 1, 0], sample_weight=[2.0, 1.0, 1.0])
    state = dataclasses.replace(clf._model.snapshot(), row_weights=np.array(weights, dtype=np.int16))
    with pytest.raises(StateFormatError):
        State.from_bytes(state.to_bytes())


def test_weights_of_rows_in_shards(monkeypatch, tmp_path):
    monkeypatch.setattr(shards, "LARGEST_FILE", 100)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 200)
    some = np.where(np.arange(N) < 5, 2.0, 1.0)  # most shards have no weights of their own
    clf = ErasableClassifier(threshold=0.05, class_weight={7: 2.0, 0: 1.5}).fit(X, RARE, ids=IDS, sample_weight=some)
    assert clf._model.core.uneven
    clf.save(tmp_path / "m.erasable")
    again = load(tmp_path / "m.erasable")
    assert again.state_digest() == clf.state_digest() == verify(again).digest
