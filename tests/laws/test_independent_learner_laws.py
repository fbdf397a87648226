"""Any learner on an independent sample: forgetting equals training on all surviving rows that the sample keeps."""

from __future__ import annotations

import copy
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from erasable import CoreSetUnlearner, ErasableClassifier, load, verify
from erasable.core.fingerprint import fingerprint
from erasable.core.grid import Grid, to_grid
from erasable.core.names import keyed_hash
from erasable.coresets import IndependentSample
from erasable.errors import ConfigurationError, InputError, NoRowsError
from tests import independent_oracle as oracle

D, N = 3, 60
RNG = np.random.default_rng(2)
X = np.round(RNG.normal(size=(N, D)), 2)
Y = np.where(X[:, 0] + RNG.logistic(size=N) > 1.5, "rare", "usual")
IDS = np.arange(N) * 5
SHARES = {"usual": 0.75, "rare": 0.25}
MATRIX = np.array([[4, 1, 0], [1, 3, 1], [0, 1, 2]]) / 9
MAPS = {
    "uniform": IndependentSample(0.5),
    "columns": IndependentSample(0.5, [0.25, 0.5, 0.25], random_state=7),
    "matrix": IndependentSample(0.5, MATRIX / 16, scaling=8.0),
    "balanced": IndependentSample(0.4, [0.25, 0.5, 0.25], 1, SHARES),
    "half balanced": IndependentSample(0.4, balance=0.5, class_shares=SHARES),
    "every row": IndependentSample(1.0),
}
LEARNERS = {
    "tree": DecisionTreeClassifier(max_features=1),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
}
MODELS = {(m, name): CoreSetUnlearner(MAPS[m], LEARNERS[name]) for m in MAPS for name in LEARNERS}
models = st.sampled_from(list(MODELS.values()))
subsets = st.sets(st.integers(0, N - 1), min_size=1)


def learnt(model, rows):
    """A new model of these rows; None if the map keeps none of them."""
    rows = list(rows)
    try:
        return clone(model).fit(X[rows], Y[rows], ids=IDS[rows]) if rows else None
    except NoRowsError:
        return None


def facts(model):
    return model.state_digest(), fingerprint(model._model.cache["learner"], contents_only=True)


@given(models, subsets, st.data())
def test_forgetting_is_training_on_all_the_survivors(unfitted, S, draw):
    U = draw.draw(st.sets(st.sampled_from(sorted(S))))
    model = learnt(unfitted, S)
    if model is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that were emptied
        model.forget(ids=IDS[sorted(U)])
    fresh = learnt(unfitted, draw.draw(st.permutations(sorted(S - U))))  # in any order
    if fresh is None:
        assert model.n_core_ == 0
        return
    assert facts(model) == facts(fresh)
    assert verify(model).core_rows == model.n_core_
    assert (model.predict_proba(X) == fresh.predict_proba(X)).all()


@given(st.sampled_from(list(MAPS.values())), subsets, subsets)
def test_other_rows_never_change_whether_a_row_is_kept(core_set, S, T):
    kept = [set(np.array(sorted(R))[core_set.select(X[sorted(R)], Y[sorted(R)], IDS[sorted(R)])]) for R in (S, T)]
    assert kept[0] & S & T == kept[1] & S & T


@pytest.mark.parametrize("name", MAPS)
def test_rows_are_decided_as_in_rational_arithmetic(name):
    core_set, grid = MAPS[name], Grid(D, 15, False, MAPS[name].scaling)
    rule, hashes = core_set._rule(D), keyed_hash(IDS.tolist(), core_set.random_state)
    moments = None if rule.rarity.exponents is None else [Fraction(2) ** e for e in rule.rarity.exponents]
    weights = None if rule.rarity.matrix is None else rule.rarity.weights
    tilts = [rule.tilts[0].get(y, 1.0) for y in Y]
    expected = [
        core_set.rate == 1.0 or oracle.keeps(g, h, t, rule.slope, 15, moments, weights)
        for g, h, t in zip(to_grid(X, grid), hashes, tilts, strict=True)
    ]
    found = core_set.select(X, Y, IDS)
    assert sorted(found.tolist()) == np.flatnonzero(expected).tolist()
    assert hashes[found].tolist() == sorted(hashes[found].tolist())
    assert core_set.select(sp.csr_array(X), Y, IDS.tolist()).tolist() == found.tolist()
    assert core_set.select(X.astype(np.float64), Y.astype(object), IDS).tolist() == found.tolist()
    assert 5 < len(found) <= N


@pytest.mark.parametrize("name", LEARNERS)
def test_a_file_holds_the_rows_and_the_learner_comes_back(name, tmp_path):
    model = learnt(MODELS["balanced", name], range(N))
    model.save(tmp_path / "m")
    again = load(tmp_path / "m", like=clone(model))
    assert facts(again) == facts(model)
    for other in (IndependentSample(0.4, MATRIX, 1, SHARES), IndependentSample(0.4, balance=1, class_shares=SHARES)):
        with pytest.raises(ConfigurationError, match="like has another core_set"):
            load(tmp_path / "m", like=clone(model).set_params(core_set=other))


@pytest.mark.parametrize("name", LEARNERS)
def test_predictions_take_the_balance_back(name):
    model = learnt(MODELS["balanced", name], range(N))
    raw = model._model.cache["learner"].predict_proba(X)
    tilts = np.array([1.0, 1 / 3])  # rare, usual
    expected = raw / tilts / (raw / tilts).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-15)
    assert (model.predict(X) == model.classes_[expected.argmax(axis=1)]).all()
    assert (model.predict(X) == "usual").sum() >= (model._model.cache["learner"].predict(X) == "usual").sum()
    assert not hasattr(model, "decision_function")
    if name == "logistic":
        with pytest.raises(ConfigurationError, match="no scores"):
            model._model.decision(X)
    assert hasattr(learnt(MODELS["uniform", "logistic"], range(N)), "decision_function")


def test_the_guarantee_names_all_surviving_rows():
    for model in MODELS.values():
        assert "all surviving rows" in str(model.guarantee)
        assert model.guarantee.bitwise
    loose = CoreSetUnlearner(MAPS["uniform"], LEARNERS["tree"], reproducible=False).guarantee
    assert "all surviving rows" in str(loose)
    assert not loose.bitwise
    own = CoreSetUnlearner(MAPS["uniform"], ErasableClassifier(threshold=0.1)).guarantee
    assert "all surviving rows" not in str(own)  # a core set of its own stands behind the sample


def test_a_map_is_its_configuration():
    one = IndependentSample(0.4, np.array([0.25, 0.5, 0.25]), 1, {np.str_("rare"): 0.25, np.str_("usual"): 0.75})
    assert one == MAPS["balanced"] == copy.deepcopy(one)
    assert hash(one) == hash(MAPS["balanced"])
    assert one.describe() == MAPS["balanced"].describe()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "rate must be"),
        ({"rate": 1.0, "balance": 1, "class_shares": SHARES}, "nothing to balance"),
        ({"balance": 1}, "needs class_shares"),
        ({"balance": 0.3, "class_shares": SHARES}, "balance must be"),
        ({"class_shares": ["rare"]}, "must be a dictionary"),
        ({"class_shares": {}}, "fixed classes"),
        ({"class_shares": {"a": 0.5, 1: 0.5}}, "of one type"),
        ({"class_shares": {"a": 0.0, "b": 1.0}}, "every share"),
        ({"moments": [1.0, -1.0]}, "moments must be"),
        ({"moments": "x"}, "moments must be"),
        ({"moments": np.ones((1, 1, 1))}, "moments must be"),
        ({"moments": 5.0}, "moments must be"),
        ({"random_state": None}, "random_state must be"),
        ({"scaling": -1.0}, "scaling"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises((ConfigurationError, InputError), match=message):
        IndependentSample(**{"rate": 0.4, **options})


def test_what_does_not_fit_the_rows_or_the_learner_is_refused_and_changes_nothing():
    model = learnt(MODELS["balanced", "tree"], range(N))
    before = facts(model)
    with pytest.raises(InputError, match="of 60 rows have a label"):
        model.fit(X, np.where(Y == "rare", "other", Y), ids=IDS)
    with pytest.raises(ConfigurationError, match="moments must be"):
        model.fit(X[:, :2], Y, ids=IDS)
    for learner, message in (
        (RidgeClassifier(), "needs a learner with predict_proba"),
        (SVC(), "needs a learner with predict_proba"),
        (make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")), "class_weight both"),
        (ErasableClassifier(threshold=0.1, classes=["other", "rare", "usual"]), "every class that the learner"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            clone(model).set_params(learner=learner).fit(X, Y, ids=IDS)
    assert facts(model) == before
    with pytest.raises(InputError, match="norm above"):
        CoreSetUnlearner(IndependentSample(0.5, MATRIX, scaling=0.1), LEARNERS["tree"]).fit(X, Y, ids=IDS)
