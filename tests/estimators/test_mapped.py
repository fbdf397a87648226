"""The classifier behind a feature map: the law of forgetting on raw rows, and what a refused call leaves alone."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.utils import get_tags

from erasable import ErasableClassifier, verify
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.features import FrozenMap, HashedText, NystroemFeatures, RandomFourierFeatures
from erasable.models.row_source import Rows
from tests.estimators.cases import SECRET, make_classes, make_rows, refused
from tests.strategies import splits

X, Y = make_rows()
N = len(X)
MARKS = np.random.default_rng(5).standard_normal((10, 3))
WORDS = ["good", "bad", "tea", "pot", "Größe", "漢字", "x", "to", "be", ""]
TEXTS = [" ".join(np.random.default_rng(i).choice(WORDS, size=i % 5)) for i in range(60)]


def squares(rows):
    return np.hstack([rows, rows**2])


def initials(texts):
    return np.array([[t.count(w[:1]) for w in WORDS[:6]] for t in texts], dtype=np.float32)


MAPS = {
    "fourier": RandomFourierFeatures(12, gamma=0.3, random_state=2),
    "nystroem": NystroemFeatures(MARKS, gamma=0.2),
    "squares": FrozenMap(squares, "squares", 6),
    "hashed": HashedText(12),
    "initials": FrozenMap(initials, "initials", 6, takes="texts", one_at_a_time=True),
}


def raw(name):
    """Rows and labels for a map."""
    return (np.array(TEXTS, dtype=object), Y[:60]) if MAPS[name].takes == "texts" else (X, Y)


def mapped(name="fourier", **parameters):
    return ErasableClassifier(feature_map=MAPS[name], **{"capacity": 1.0, "threshold": 0.05, **parameters})


def dense(Z):
    return Z if isinstance(Z, np.ndarray) else Z.toarray()


# -- the law -------------------------------------------------------------------------------------------------------


def digest_without_map(clf):
    """The digest, were the map not described in the state."""
    state = clf._model.snapshot()
    return replace(state, configuration=replace(state.configuration, feature_map=None)).digest


@pytest.mark.parametrize("name", MAPS)
def test_the_state_is_that_of_the_classifier_on_mapped_rows(name):
    rows, labels = raw(name)
    clf = mapped(name).fit(rows, labels)
    plain = ErasableClassifier(1.0, threshold=0.05, feature_map=None).fit(dense(MAPS[name](rows)), labels)
    assert digest_without_map(clf) == plain.state_digest()
    assert 0 < clf.n_core_ < len(rows)
    Z = MAPS[name](rows)
    assert clf.decision_function(rows).tobytes() == plain.decision_function(Z).tobytes()
    assert (clf.predict(rows) == plain.predict(Z)).all()
    assert (clf.predict_proba(rows) == plain.predict_proba(Z)).all()
    assert clf.score(rows, labels) == plain.score(Z, labels)
    assert clf.coef_.shape == (1, MAPS[name].n_features_out)


@pytest.mark.parametrize("name", MAPS)
@given(data=st.data())
def test_forgetting_equals_refitting_the_raw_survivors(name, data):
    pool, _ = raw(name)
    n = data.draw(st.integers(1, 25))
    rows = pool[data.draw(st.lists(st.integers(0, 11), min_size=n, max_size=n))]  # duplicates abound
    labels = np.array(data.draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=n, max_size=n)))
    owners = np.arange(n) % 4
    clf = mapped(
        name,
        threshold=data.draw(st.sampled_from([0.0, 0.01, 0.1, 0.3])),
        grid_bits=data.draw(st.sampled_from([15, 6, 18])),
        fit_intercept=data.draw(st.booleans()),
        order=data.draw(st.sampled_from(["hashed", "given"])),
    )
    for part in data.draw(splits(n)) if clf.order == "given" else [slice(n)]:
        clf.partial_fit(rows[part], labels[part], ids=np.arange(n)[part], subjects=owners[part])
    report = clf.forget(
        ids=data.draw(st.lists(st.integers(0, n - 1), unique=True)),
        subjects=data.draw(st.lists(st.integers(0, 4), unique=True, max_size=2)),
    )
    event(f"core rows removed: {min(report.core_rows_removed, 3)}")
    assert report.digest == clf.state_digest() == verify(clf).digest
    kept = clf.core_ids_
    if len(kept):
        again = clone(clf).fit(rows[kept], labels[kept], ids=kept, subjects=owners[kept])
        assert again.state_digest() == clf.state_digest()
        assert (again.decision_function(rows) == clf.decision_function(rows)).all()


def test_rows_are_mapped_a_block_at_a_time():
    sizes = []

    def spy(rows):
        sizes.append(len(rows))
        return squares(rows)

    rows, labels = make_rows(3000)
    clf = ErasableClassifier(feature_map=FrozenMap(spy, "spy", 6), threshold=0.05)
    clf._learn(Rows(rows, labels), fresh=True, block_rows=200, chunk_rows=50)
    assert max(sizes) <= 200
    assert sum(sizes) < 3000 + 6 * clf.n_core_
    whole = ErasableClassifier(feature_map=FrozenMap(squares, "spy", 6), threshold=0.05).fit(rows, labels)
    assert clf.state_digest() == whole.state_digest()


def test_fit_takes_the_horizon_from_the_number_of_raw_rows():
    clf = ErasableClassifier(feature_map=MAPS["fourier"], kappa=0.5).fit(X, Y)
    assert clf.threshold_ == ErasableClassifier(kappa=0.5).fit(X, Y).threshold_
    with pytest.raises(ConfigurationError, match="partial_fit needs horizon="):
        ErasableClassifier(feature_map=MAPS["fourier"], kappa=0.5).partial_fit(X, Y)


def test_sparse_output_equals_dense_output():
    Z = HashedText(12)
    both = [FrozenMap(f, "f", 12, takes="texts") for f in (Z, lambda texts: Z(texts).toarray())]
    one, other = (ErasableClassifier(feature_map=m, threshold=0.05).fit(TEXTS, Y[:60]) for m in both)
    assert one.state_digest() == other.state_digest()
    np.testing.assert_allclose(one.decision_function(TEXTS), other.decision_function(TEXTS), rtol=0, atol=1e-12)


def test_columns_of_a_dataframe_are_remembered():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    clf = mapped().fit(table, Y)
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    assert clf.n_features_in_ == 3
    with refused(clf, InputError, "feature names"):
        clf.predict(table[["b", "a", "c"]])
    clf.fit(X, Y)
    assert not hasattr(clf, "feature_names_in_")


def test_raw_rows_are_not_kept():
    texts = [f"SECRET{i} good tea" for i in range(60)]
    clf = mapped("hashed").fit(texts, Y[:60])
    assert b"SECRET" not in pickle.dumps(clf)
    rows = X.copy()
    rows[:, 0] = SECRET
    assert np.float64(SECRET).tobytes() not in pickle.dumps(mapped().fit(rows, Y))


# -- what it is for ------------------------------------------------------------------------------------------------


def test_two_moons_need_the_map():
    rows, labels = make_moons(1200, noise=0.15, random_state=0)
    train, test = slice(0, 800), slice(800, 1200)
    linear = ErasableClassifier(capacity=0.01, kappa=0.4).fit(rows[train], labels[train])
    marks = np.stack(np.meshgrid(np.linspace(-1.5, 2.5, 9), np.linspace(-1, 1.5, 6)), axis=-1).reshape(-1, 2)
    for feature_map in (RandomFourierFeatures(100, gamma=2.0), NystroemFeatures(marks, gamma=2.0)):
        clf = ErasableClassifier(feature_map=feature_map, capacity=0.01, kappa=0.4).fit(rows[train], labels[train])
        assert clf.score(rows[test], labels[test]) > 0.97
        assert clf.n_core_ < 600
        clf.forget(ids=clf.core_ids_[:50])
        verify(clf)
        assert clf.score(rows[test], labels[test]) > 0.95
    assert linear.score(rows[test], labels[test]) < 0.9


# -- the map as a parameter ----------------------------------------------------------------------------------------


def test_a_map_is_left_out_by_none_and_a_map_has_defaults():
    assert ErasableClassifier(threshold=0.05, feature_map=None).fit(X[:30], Y[:30]).model_.feature_map is None
    clf = ErasableClassifier(feature_map=RandomFourierFeatures(), threshold=0.05).fit(X[:30], Y[:30])
    assert clf.model_.feature_map == RandomFourierFeatures()
    assert clf.coef_.shape == (1, 500)


def test_set_params_leaves_what_was_learnt():
    clf = mapped().fit(X, Y)
    before = clf.decision_function(X)
    clf.set_params(feature_map=MAPS["squares"])
    assert clf.guarantee.assumptions == ()
    clf.set_params(feature_map=RandomFourierFeatures(12, gamma=0.3, random_state=9))
    assert (clf.decision_function(X) == before).all()
    for other in (MAPS["hashed"], None):
        twin = pickle.loads(pickle.dumps(clf.set_params(feature_map=other)))
        assert (clf.decision_function(X) == before).all()
        assert (twin.decision_function(X) == before).all()
        assert twin.state_digest() == clf.state_digest()
    with refused(clf, ConfigurationError, "feature_map changed since the model was first fitted"):
        clf.partial_fit(X, Y, ids=np.arange(N) + N)
    clf.set_params(feature_map=RandomFourierFeatures(12, gamma=0.3, random_state=2))  # equal to the first
    clf.partial_fit(X + 1.0, Y, ids=np.arange(N) + N)
    assert clf.set_params(feature_map=MAPS["hashed"]).fit(TEXTS, Y[:60]).model_.feature_map == MAPS["hashed"]
    assert not hasattr(clf, "n_features_in_")


def test_the_digest_tells_maps_apart_by_what_they_are_called_too():
    same = ErasableClassifier(1.0, feature_map=FrozenMap(MAPS["fourier"], "another name", 12), threshold=0.05).fit(X, Y)
    assert digest_without_map(same) == digest_without_map(mapped().fit(X, Y))
    assert same.state_digest() != mapped().fit(X, Y).state_digest()
    other = ErasableClassifier(
        1.0, feature_map=RandomFourierFeatures(12, gamma=0.3, random_state=3), threshold=0.05
    ).fit(X, Y)
    assert other.state_digest() != mapped().fit(X, Y).state_digest()


def test_the_guarantee_says_what_the_map_assumes():
    assert mapped().guarantee == ErasableClassifier().guarantee
    assert "landmarks are public" in str(mapped("nystroem").guarantee)
    assert len(mapped("squares").fit(X, Y).guarantee.assumptions) == 2


def test_tags_tell_texts_from_numbers():
    texts, rows = get_tags(mapped("hashed")).input_tags, get_tags(mapped()).input_tags
    assert (texts.string, texts.two_d_array, rows.string, rows.two_d_array, rows.sparse) == (
        True,
        False,
        False,
        True,
        True,
    )


def test_a_grid_search_over_maps():
    maps = [RandomFourierFeatures(20, gamma=g) for g in (1e-6, 0.3)]
    search = GridSearchCV(mapped(), {"feature_map": maps}, cv=3, error_score="raise").fit(X, Y)
    assert search.best_params_["feature_map"] == maps[1]


def test_columns_of_mapped_features_may_have_scales():
    clf = mapped(scaling=np.arange(1.0, 13.0)).fit(X, make_classes(3))
    plain = ErasableClassifier(1.0, threshold=0.05, scaling=np.arange(1.0, 13.0), feature_map=None)
    plain.fit(MAPS["fourier"](X), make_classes(3))
    assert digest_without_map(clf) == plain.state_digest()


# -- refusals ------------------------------------------------------------------------------------------------------


def fails_on(rows, limit):
    """Squares, until a row with a number above the limit comes along."""
    if (rows > limit).any():
        raise ValueError(f"SECRET {rows}")
    return squares(rows)


@pytest.mark.parametrize("fitted", [False, True])
def test_a_function_that_fails_midway_changes_nothing(fitted):
    fussy = FrozenMap(partial(fails_on, limit=1000.0), "fussy", 6)
    clf = ErasableClassifier(feature_map=fussy, threshold=0.05)
    if fitted:
        clf.fit(X, Y)
    more, labels = make_rows(5000, seed=3)
    more[4999] = SECRET
    for method in ("fit", "partial_fit"):
        with refused(clf, InputError, "failed on a batch of", "ValueError"):
            getattr(clf, method)(more, labels, ids=np.arange(5000) + 5000)
    if fitted:
        with refused(clf, InputError, "failed on a batch of"):
            clf.predict(more)
        clf.partial_fit(more[:100], labels[:100], ids=range(5000, 5100))
        verify(clf)


BAD = {
    "NaN": (lambda rows: squares(rows) * np.nan, InputError, "NaN or infinite"),
    "too few rows": (lambda rows: squares(rows)[1:], ConfigurationError, "got shape"),
    "too wide": (lambda rows: np.hstack([rows, squares(rows)]), ConfigurationError, "got shape"),
    "one dimension": (lambda rows: rows[:, 0], ConfigurationError, "got shape"),
    "text": (lambda rows: squares(rows).astype(str), ConfigurationError, "real numbers"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("scaling", ["row", 100.0])
def test_bad_output_of_a_function_changes_nothing(bad, scaling):
    function, error, says = BAD[bad]
    turned = []

    def turning(rows):
        return function(rows) if turned else squares(rows)

    clf = ErasableClassifier(feature_map=FrozenMap(turning, "f", 6), threshold=0.01, scaling=scaling).fit(X, Y)
    turned.append(True)  # of the same name, so nobody notices
    for method in ("fit", "partial_fit"):
        with refused(clf, error, says):
            getattr(clf, method)(X, Y, ids=np.arange(N) + N)
    verify(clf)


@pytest.mark.parametrize(
    ("name", "rows", "labels", "error", "says"),
    [
        ("fourier", [[SECRET, np.nan, 1.0]], [0], InputError, "NaN"),
        ("fourier", [[SECRET, 1.0]], [0], InputError, "features"),
        ("nystroem", np.full((5, 2), SECRET), [0, 1, 0, 1, 0], InputError, "features"),
        ("fourier", [["SECRET", "a", "b"]], [0], InputTypeError, "text"),
        ("fourier", X, Y[1:], InputError, "inconsistent"),
        ("hashed", "SECRET", [0], InputTypeError, "a single one"),
        ("hashed", ["SECRET", None], [0, 1], InputTypeError, "1 of 2 texts"),
        ("hashed", [[SECRET]], [0], InputTypeError, "list"),
        ("hashed", np.array([[SECRET]]), [0], InputError, "one-dimensional"),
        ("hashed", ["SECRET", "b"], [0], InputError, "inconsistent"),
        ("hashed", ["SECRET", "b"], [0.5, np.nan], InputError, "NaN"),
        ("hashed", [], [], InputError, "0 sample"),
        ("hashed", ["SECRET", "b"], "SECRET", InputError, "got str"),
    ],
)
def test_rows_that_cannot_be_used_change_nothing(name, rows, labels, error, says):
    fitted_rows, fitted_labels = raw(name)
    for clf in (mapped(name).fit(fitted_rows, fitted_labels), mapped(name)):
        if isinstance(rows, list) and rows == [[SECRET, 1.0]] and not hasattr(clf, "_model"):
            continue  # two features are as good as three for a model that has seen none
        with refused(clf, error, says):
            clf.partial_fit(rows, labels)


@pytest.mark.parametrize("rows", ["SECRET", [b"SECRET"], [], np.array([["SECRET"]])])
def test_texts_that_cannot_be_predicted(rows):
    clf = mapped("hashed").fit(TEXTS, Y[:60])
    with refused(clf):
        clf.predict(rows)


@pytest.mark.parametrize("what", [squares, "rbf", RandomFourierFeatures])
def test_what_is_no_map_is_refused(what):
    clf = ErasableClassifier(feature_map=what)
    with refused(clf, ConfigurationError, "feature_map must be a FeatureMap", "FrozenMap"):
        clf.fit(X, Y)


def test_a_norm_above_the_scaling_is_refused():
    clf = mapped(scaling=0.5)
    with refused(clf, InputError, "rows have a norm above scaling=0.5"):
        clf.fit(X, Y)
    assert mapped(scaling=2.0**0.5).fit(X, Y).n_core_ > 0
    assert mapped("nystroem", scaling=None).fit(X, Y).n_core_ > 0
