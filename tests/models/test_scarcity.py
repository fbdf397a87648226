"""When it is said that a core set holds too little of a class, and when not."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from erasable import CoreSetUnlearner, ErasableClassifier, ErasableKernelClassifier, ErasableRegressor, ModelFile
from erasable.coresets import RandomSubsample
from erasable.errors import EmptiedClassWarning, WeakModelWarning
from erasable.models.reports import label_counts, thinned, warn_of_thin_classes
from erasable.tables import Table

RNG = np.random.default_rng(5)
X = RNG.standard_normal((300, 4))
Y = np.where(X[:, 0] > 0, "yes", "no")


def told(act):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", WeakModelWarning)
        act()
    return [w for w in found if w.category is WeakModelWarning]


@pytest.mark.parametrize(
    ("offered", "stored", "says"),
    [
        ({"a": 90, "b": 10}, {"a": 20}, "no row of 1 of them, so the model never predicts it"),
        ({"a": 90, "b": 5, "c": 5}, {"a": 20}, "no row of 2 of them, so the model never predicts these"),
        ({"a": 90, "b": 10}, {"a": 10, "b": 9}, "fewer than ten rows of 1 of them"),
        ({"a": 90, "b": 10, "c": 1}, {"a": 9, "b": 9}, "no row of 1 of them.* and fewer than ten rows of 2"),
        ({"a": 90, "b": 10}, {"a": 10, "b": 10}, None),
        ({"a": 91, "b": 9}, {"a": 10, "b": 1}, None),  # there were no ten
        ({"a": 89, "b": 10}, {"a": 10}, None),  # too few rows to say anything
    ],
)
def test_what_is_said_of_classes(offered, stored, says):
    if says is None:
        assert not told(lambda: warn_of_thin_classes(offered, stored, "store more", stacklevel=1))
    else:
        with pytest.warns(WeakModelWarning, match=says):
            warn_of_thin_classes(offered, stored, "store more", stacklevel=1)


@pytest.mark.parametrize(
    ("offered", "stored", "says"),
    [
        ({"a": 900, "b": 301}, {"a": 90, "b": 29}, "fewer than 30 rows of 1 of them, 3 for each of 10 columns"),
        ({"a": 900, "b": 301}, {"a": 29, "b": 29}, "fewer than 30 rows of 2 of them.* less than a tenth of their"),
        ({"a": 900, "b": 290}, {"a": 90, "b": 29}, None),  # a tenth of them is stored
        ({"a": 900, "b": 900}, {"a": 30, "b": 30}, None),
    ],
)
def test_rare_classes_are_held_to_the_number_of_columns(offered, stored, says):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_thin_classes(offered, stored, "store more", 10, stacklevel=1)
    assert len(found) == bool(says)
    assert says is None or re.search(says, str(found[0].message))


def test_a_rare_class_of_many_columns_is_reported_unless_rows_are_drawn():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((8000, 10))
    rare = rows[:, 0] + 0.3 * rows[:, 1] > 1.5
    (warning,) = told(lambda: ErasableClassifier(loss="squared").fit(rows, rare))
    assert re.search("fewer than 30 rows of 1 of them", str(warning.message))
    assert not told(lambda: ErasableClassifier(loss="squared", selection="independent").fit(rows, rare))
    assert not told(lambda: ErasableClassifier(loss="squared").fit(rows, rows[:, 0] > 0))


@pytest.mark.parametrize(
    "clf", [ErasableClassifier(threshold=0.3, feature_map=None), ErasableKernelClassifier(gamma=0.05, threshold=5.0)]
)
def test_fit_says_it_to_its_caller_and_names_no_label(clf):
    (warning,) = told(lambda: clf.fit(X, Y))
    assert warning.filename == __file__
    assert "threshold=" in str(warning.message)
    assert "yes" not in str(warning.message)


def test_a_warning_that_is_an_error_leaves_the_model_as_it_was():
    clf = ErasableClassifier(threshold=0.001, feature_map=None).fit(X, Y)
    before = clf.state_digest()
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakModelWarning)
        with pytest.raises(WeakModelWarning):
            clf.set_params(threshold=0.3).fit(X, Y)
    assert clf.state_digest() == before


def test_who_stores_enough_or_goes_on_learning_is_not_told():
    assert not told(lambda: ErasableClassifier(threshold=0.001, feature_map=None).fit(X, Y))
    assert not told(lambda: ErasableClassifier(threshold=0.3, feature_map=None).fit(X[:99], Y[:99]))
    assert not told(lambda: ErasableClassifier(threshold=0.3, feature_map=None).partial_fit(X, Y))
    assert not told(
        lambda: CoreSetUnlearner(RandomSubsample(0.01), ErasableClassifier(threshold=0.3, feature_map=None)).fit(X, Y)
    )


@pytest.mark.parametrize("cut", [40, 200])
def test_blocks_are_counted_together_and_once(cut):
    blocks = [Table(X[:cut], Y[:cut]), Table(X[cut:], Y[cut:])]
    (warning,) = told(
        lambda: ErasableClassifier(threshold=0.3, feature_map=None).learn_blocks(blocks, budget_bytes=2_000)
    )
    assert "are of 2 classes" in str(warning.message)


def test_labels_are_counted_as_plain_values():
    for y in (Y, Y.astype(object), (Y == "yes"), np.arange(300) % 7, (np.arange(300) % 2).astype(float)):
        counts = label_counts(y)
        assert counts.total() == 300
        assert {c: (y == c).sum() for c in y.tolist()} == counts
        assert not any(isinstance(c, np.generic) for c in counts)


@pytest.mark.parametrize("selection", ["leverage", "independent"])
def test_the_request_that_takes_a_class_below_ten_rows_says_that_fresh_rows_are_due(selection, tmp_path):
    """Only that request: nothing is stored of how many rows there were."""
    options = {"rate": 0.3} if selection == "independent" else {}
    clf = ErasableClassifier(selection=selection, **options, feature_map=None).fit(X, Y, ids=np.arange(300))
    yes = [key for key in clf.core_ids_.tolist() if Y[key] == "yes"]
    assert clf.forget(ids=yes[:5] + [key for key in clf.core_ids_.tolist() if Y[key] == "no"][:5]).thin_text is None
    clf.save(tmp_path / "m")
    file = ModelFile(tmp_path / "m")
    for model in (clf, file):
        assert model.forget(ids=yes[5:-10]).thin_text is None  # ten are left: ordinary use
        report = model.forget(ids=yes[-10:-9])
        assert report.classes_thinned == 1
        assert report.thin_text.startswith("forgetting left fewer than 10 stored rows of a class")
        assert pickle.loads(pickle.dumps(report)) == report
        assert model.forget(ids=yes[-9:-8]).thin_text is None  # it was below before
    fresh = clone(clf).fit(X[clf.core_ids_], Y[clf.core_ids_], ids=clf.core_ids_)
    assert clf.state_digest() == fresh.state_digest()
    with pytest.warns(EmptiedClassWarning):
        assert clf.forget(ids=yes).thin_text is None  # another warning says that


def test_a_class_that_is_emptied_at_once_is_not_thin_and_a_regression_is_one_class():
    assert thinned({"a": 10, "b": 12, "c": 9, "d": 30}, {"a": 9, "c": 1, "d": 10}) == 1
    reg = ErasableRegressor((-9.0, 9.0), selection="independent", rate=0.3, feature_map=None).fit(X, X[:, 0])
    ids = reg.core_ids_.tolist()
    assert reg.forget(ids=ids[:-10]).thin_text is None
    assert reg.forget(ids=ids[-10:-8]).classes_thinned == 1
    assert reg.forget(ids=ids).classes_thinned == 0  # no row is left
