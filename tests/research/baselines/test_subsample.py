"""Learning from a random subset: what is left of the subset is all there ever was."""

from __future__ import annotations

import copy
import hashlib
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import event, given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from erasable.errors import ErasableError, NoRowsError
from erasable.research.baselines import SubsampleClassifier
from erasable.core.keyed_hash import keyed_hash
from tests.research.baselines.cases import facts, holds

BASES = {
    "default": None,
    "SGD": SGDClassifier(),
    "tree": DecisionTreeClassifier(max_features=1),
    "logistic": LogisticRegression(max_iter=1000),
    "neighbours": KNeighborsClassifier(1),
}
IDS = {"int": lambda i: 7 * i - 50, "str": lambda i: f"é{i}", "bytes": lambda i: b"\0%d" % i}


def make_rows(n=60, n_classes=3, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 3))
    return X, np.arange(n) % n_classes


def taken_apart(model):
    """All that a model has learnt, as values."""
    return {
        "classes": facts(model.classes_),
        "place": list(model._place.items()),
        "features": model.n_features_in_,
        "rows": facts([model._rows, model._labels]),
        "voter": facts(model._voter),
    }


def of(model, X, y, ids):
    """A model with the same parameters that sees these rows and no others."""
    return SubsampleClassifier(**model.get_params(deep=False)).fit(X, y, ids=ids)


# -- the law -------------------------------------------------------------------------------------------------------


@st.composite
def histories(draw):
    n, n_classes = draw(st.integers(1, 24)), draw(st.integers(1, 4))
    X, _ = make_rows(n, seed=draw(st.integers(0, 3)))
    X = X.round(1).astype(draw(st.sampled_from([np.float32, np.float64])))
    X = draw(st.sampled_from([np.array, np.asfortranarray, sp.csr_array]))(X)
    labels = draw(st.sampled_from([np.arange(4), np.array(["a", "b", "c", "d"]), np.array([2.0, -1.0, 5.0, 0.0])]))
    y = labels[draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))]
    name = IDS[draw(st.sampled_from(sorted(IDS)))]
    model = SubsampleClassifier(
        BASES[draw(st.sampled_from(sorted(BASES)))],
        fraction=draw(st.sampled_from([0.3, 0.6, 0.9, 1.0])),
        random_state=draw(st.integers(0, 5)),
    )
    some = st.lists(st.integers(0, n - 1), max_size=n)
    a_class = st.sampled_from(y.tolist()).map(lambda c: [i for i in range(n) if y[i] == c])
    requests = draw(st.lists(st.one_of(some, a_class), min_size=1, max_size=3))
    return model, X, y, [name(i) for i in range(n)], requests


@given(histories())
def test_forgetting_equals_refitting_all_remaining_rows(history):
    model, X, y, ids, requests = history
    drawn = {ids[i] for i in range(len(ids)) if int(keyed_hash(ids, model.random_state)[i]) < model.fraction * 2**64}
    if not drawn:
        event("none drawn")
        with pytest.raises(NoRowsError):
            model.fit(X, y, ids=ids)
        return
    model.fit(X, y, ids=ids)
    gone = set()
    for request in requests:
        asked = {ids[i] for i in request}
        report = model.forget(ids=[ids[i] for i in request])
        assert report.requested == len(request)
        assert report.core_rows_removed == len(asked & drawn - gone)
        gone |= asked
        left = [i for i, key in enumerate(ids) if key not in gone]
        assert set(model._place) == drawn - gone
        assert report.core_rows == model.stored_rows_ == len(drawn - gone)
        assert report.rows_retrained == (report.core_rows if report.core_rows_removed else 0)
        if drawn - gone:
            assert taken_apart(model) == taken_apart(of(model, X[left], y[left], [ids[i] for i in left]))
        else:
            event("nothing left")
            assert len(model.classes_) == 0
            with pytest.raises(NoRowsError):
                model.predict(X)


@pytest.mark.parametrize("container", [np.array, np.asfortranarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("base", BASES)
def test_predictions_after_forgetting_are_those_of_a_refit(base, container):
    X, y = make_rows(200)
    model = SubsampleClassifier(BASES[base], fraction=0.5).fit(container(X), y)
    model.forget(ids=range(0, 60))
    model.forget(ids=[61])
    left = np.setdiff1d(np.arange(60, 200), [61])
    again = of(model, container(X[left]), y[left], left)
    probe = container(make_rows(100, seed=9)[0])
    assert facts(model.predict(probe)) == facts(again.predict(probe))
    assert taken_apart(model) == taken_apart(again)


def test_the_base_is_fitted_on_the_subset_and_nothing_else():
    X, y = make_rows(200)
    model = SubsampleClassifier(fraction=0.3).fit(X, y)
    subset = sorted(model._place)
    right = RidgeClassifier().fit(X[subset], y[subset])
    assert facts(model._voter.coef_) == facts(right.coef_)
    assert facts(model._voter.intercept_) == facts(right.intercept_)
    assert (model.predict(X) == right.predict(X)).all()
    model.forget(ids=subset[:5])
    right = RidgeClassifier().fit(X[subset[5:]], y[subset[5:]])
    assert facts(model._voter.coef_) == facts(right.coef_)


def test_a_row_outside_the_subset_leaves_no_trace():
    X, y = make_rows(200)
    X[:, 0] += 1000 * (np.arange(200) == 0)
    seed = next(s for s in range(50) if int(keyed_hash([0], s)[0]) >= 0.3 * 2**64)
    model = SubsampleClassifier(fraction=0.3, random_state=seed).fit(X, y)
    before = taken_apart(model)
    assert taken_apart(of(model, X[1:], y[1:], range(1, 200))) == before
    report = model.forget(ids=[i for i in range(200) if i not in model._place])
    assert (report.core_rows_removed, report.rows_retrained) == (0, 0)
    assert taken_apart(model) == before
    assert not holds(vars(model), X[0].tobytes())


def test_the_subset_of_the_subset_is_itself():
    X, y = make_rows(200)
    model = SubsampleClassifier(fraction=0.3).fit(X, y)
    subset = sorted(model._place)
    assert taken_apart(of(model, X[subset], y[subset], subset)) == taken_apart(model)
    kept = subset[::2]
    assert sorted(of(model, X[kept], y[kept], kept)._place) == kept


def test_two_fits_give_one_model_and_another_seed_another():
    X, y = make_rows(200)
    model = SubsampleClassifier(DecisionTreeClassifier(), fraction=0.3).fit(X, y)
    before = taken_apart(model)
    assert taken_apart(model.fit(X, y)) == before
    other = SubsampleClassifier(DecisionTreeClassifier(), fraction=0.3, random_state=1).fit(X, y)
    assert set(other._place) != set(model._place)


# -- how many are drawn --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.02, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", IDS)
def test_the_share_drawn_is_about_the_fraction(fraction, kind):
    n = 5000
    X, y = make_rows(n)
    model = SubsampleClassifier(fraction=fraction, random_state=3).fit(X, y, ids=[IDS[kind](i) for i in range(n)])
    assert abs(model.stored_rows_ - fraction * n) < 5 * (fraction * (1 - fraction) * n) ** 0.5


def test_a_larger_fraction_keeps_what_a_smaller_one_keeps():
    X, y = make_rows(300)
    kept = [set(SubsampleClassifier(fraction=f).fit(X, y)._place) for f in (0.1, 0.4, 0.8, 1.0)]
    assert kept[0] < kept[1] < kept[2] < kept[3]


@pytest.mark.parametrize("fraction", [1, 1.0, np.float32(1)])
def test_all_rows_can_be_kept(fraction):
    X, y = make_rows(300)
    model = SubsampleClassifier(fraction=fraction).fit(X, y)
    assert list(model._place) == list(range(300))
    assert model.stored_rows_ == 300


def unshifted(z, shift):
    """What ``z ^ (z >> shift)`` was made of."""
    mixed = z
    for _ in range(64 // shift):
        mixed = z ^ (mixed >> shift)
    return mixed


def last_of_all():
    """The integer id whose lot is the largest there is: the mixing steps of SplitMix64 backwards."""
    z = unshifted(2**64 - 1, 31)
    for factor, shift in ((0x94D049BB133111EB, 27), (0xBF58476D1CE4E5B9, 30)):
        z = unshifted(z * pow(factor, -1, 2**64) % 2**64, shift)
    salt = int.from_bytes(hashlib.blake2b(b"0", digest_size=16).digest()[:8], "little")
    return (z - salt + 2**63) % 2**64 - 2**63


def test_all_rows_means_also_the_one_with_the_largest_lot():
    key = last_of_all()
    assert keyed_hash([key], 0).tolist() == [2**64 - 1]
    assert SubsampleClassifier(fraction=1.0).fit(np.eye(2), [0, 1], ids=[key, 1]).stored_rows_ == 2


@pytest.mark.parametrize("fraction", [np.float16(0.5), np.float32(0.5), np.float64(0.5)])
def test_numpy_fractions_mean_what_they_say(fraction):
    X, y = make_rows(100)
    assert taken_apart(SubsampleClassifier(fraction=fraction).fit(X, y)) == taken_apart(
        SubsampleClassifier(fraction=0.5).fit(X, y)
    )


def test_when_none_is_drawn_the_message_says_what_to_do():
    X, y = make_rows(3)
    model = SubsampleClassifier(fraction=1e-9)
    with pytest.raises(NoRowsError, match=r"none of 3 rows.*raise fraction.*more rows"):
        model.fit(X, y)
    assert not model.__sklearn_is_fitted__()


def test_when_none_is_drawn_the_old_model_stays():
    X, y = make_rows(100)
    model = SubsampleClassifier(fraction=0.3).fit(X, y)
    before = taken_apart(model)
    outside = [i for i in range(100) if i not in model._place][:3]
    with pytest.raises(NoRowsError):
        model.fit(X[outside][:, :2], y[outside], ids=outside)
    assert taken_apart(model) == before


# -- what is stored ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
@pytest.mark.parametrize("base", ["default", "neighbours"])
def test_a_forgotten_row_is_nowhere_in_what_is_held(container, base):
    X, y = make_rows(120)
    X[17] = [1234.5678, 8765.4321, 2468.1357]
    ids = [f"name-{i:04}" for i in range(120)]
    model = SubsampleClassifier(BASES[base], fraction=1.0).fit(container(X), y, ids=ids)
    old = model._rows if isinstance(model._rows, np.ndarray) else model._rows.data
    assert holds(vars(model), X[17].tobytes())
    assert holds(vars(model), b"name-0017")
    model.forget(ids=[ids[17], ids[40]])
    assert not holds(vars(model), X[17].tobytes())
    assert not holds(vars(model), b"name-0017")
    assert not holds(old, X[17].tobytes())
    assert holds(vars(model), X[18].tobytes())


@pytest.mark.parametrize("container", [np.array, np.asfortranarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_the_callers_rows_are_left_alone(container, fraction):
    X, y = make_rows(60)
    X, ids = container(X), list(range(60))
    given = facts([X, y, ids])
    model = SubsampleClassifier(fraction=fraction).fit(X, y, ids=ids)
    model.forget(ids=ids[:20])
    model.forget(ids=ids)
    assert facts([X, y, ids]) == given


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
@pytest.mark.parametrize("base", BASES)
def test_stored_bytes_shrink_to_those_of_a_refit(container, base):
    X, y = make_rows(120)
    model = SubsampleClassifier(BASES[base], fraction=0.8).fit(container(X), y)
    before = model.stored_bytes_
    assert before >= model.stored_rows_ * (3 * 8 + 8) + len(pickle.dumps(model._voter))
    model.forget(ids=range(60))
    assert model.stored_bytes_ < before
    again = of(model, container(X[60:]), y[60:], range(60, 120))
    assert model.stored_bytes_ == again.stored_bytes_


@pytest.mark.parametrize("base", BASES)
def test_classes_come_and_go(base):
    X, y = make_rows(90)
    model = SubsampleClassifier(BASES[base], fraction=0.7).fit(X, np.array(["a", "b", "c"])[y])
    model.forget(ids=np.flatnonzero(y == 1))
    assert model.classes_.tolist() == ["a", "c"]
    assert set(model.predict(X)) <= {"a", "c"}
    model.forget(ids=np.flatnonzero(y == 0))
    assert set(model.predict(X)) == {"c"}
    model.forget(ids=range(90))
    assert model.stored_rows_ == len(model.classes_) == 0
    with pytest.raises(NoRowsError, match="fit"):
        model.predict(X)
    assert model.fit(X, y).predict(X).shape == (90,)


def test_classes_are_no_wider_than_the_remaining_labels():
    """An array as wide as its longest text would tell the length of a label that is gone."""
    X, _ = make_rows(20)
    labels = ["a very long label", *["a", "b"] * 10][:20]
    model = SubsampleClassifier(fraction=1.0).fit(X, np.array(labels))
    model.forget(ids=[0])
    again = of(model, X[1:], np.array(labels[1:]), range(1, 20))
    assert facts(model.classes_) == facts(again.classes_)
    assert model.stored_bytes_ == again.stored_bytes_


def test_a_copy_forgets_on_its_own():
    X, y = make_rows(60)
    model = SubsampleClassifier(fraction=0.5).fit(X, y)
    before = taken_apart(model)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert taken_apart(twin) == before
        twin.forget(ids=range(9))
        assert taken_apart(twin) == taken_apart(of(model, X[9:], y[9:], range(9, 60)))
    assert taken_apart(model) == before


# -- parameters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"estimator": LogisticRegression()}, {"estimator": "junk"}, {"random_state": 5}, {"fraction": 0.9}],
    ids=str,
)
def test_parameters_set_after_fit_wait_for_the_next_fit(change):
    """Or are refused: a model of other parameters is no refit of this one."""
    X, y = make_rows(60)
    model = SubsampleClassifier(DecisionTreeClassifier(), fraction=0.5).fit(X, y)
    before, right = taken_apart(model), taken_apart(of(model, X[9:], y[9:], range(9, 60)))
    model.set_params(**change)
    try:
        model.forget(ids=range(9))
    except ErasableError:
        assert taken_apart(model) == before
        model.predict(X)
    else:
        assert taken_apart(model) == right


def test_a_regressor_is_refused():
    X, y = make_rows(60)
    with pytest.raises(ErasableError, match="classifier"):
        SubsampleClassifier(LinearRegression(), fraction=0.5).fit(X, y)
