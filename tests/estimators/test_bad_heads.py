"""What losses, weights and samples refuse, one table for each; and what they make of data at the edge."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from erasable import learn, load, verify
from erasable.errors import ConfigurationError, InputError, InputTypeError, WeakModelWarning
from tests.estimators.cases import SECRET, SECRET_TEXT, N, classifier, make_classes, make_rows, refused

X, Y = make_rows()
IDS, MORE = np.arange(N), np.arange(N, 2 * N)
LOSSES = ("squared", "logistic")
FINEST = 4.0**-15


def one(value):
    """Weights of which one is this."""
    return [1.0] * (N - 1) + [value]


NUMBERS, LIST, MISSING = "must hold real numbers; got", "must be a list or an array of numbers; got", "missing entries"
RANGE, SHAPE = "must be between 0 and 16, and 1 of 240 are not", "have shape"
BAD_WEIGHTS = {
    "negative": (one(-SECRET), InputError, RANGE),
    "a little negative": (one(-1e-300), InputError, RANGE),
    "NaN": (one(math.nan), InputError, RANGE),
    "infinite": (one(math.inf), InputError, RANGE),
    "beyond the grid": (one(16.0 + 2.0**-20), InputError, RANGE),
    "an integer of any size": (one(2**70), InputError, RANGE),
    "missing": (one(None), InputError, MISSING),
    "missing in pandas": (pd.array(one(None), dtype="Float64"), InputError, MISSING),
    "missing in Arrow": (pa.array(one(None)), InputError, RANGE),
    "text": ([SECRET_TEXT] * N, InputTypeError, NUMBERS),
    "digits": (["1"] * N, InputTypeError, NUMBERS),
    "one text": (one(SECRET_TEXT), InputTypeError, NUMBERS),
    "one text in an array of objects": (np.array(one(SECRET_TEXT), dtype=object), InputTypeError, NUMBERS),
    "complex": (np.full(N, SECRET * 1j), InputTypeError, NUMBERS),
    "dates": (np.full(N, np.datetime64("2020-01-01")), InputTypeError, NUMBERS),
    "sparse": (sp.csr_array(np.full((N, 1), SECRET)), InputTypeError, LIST),
    "a dictionary": ({0: SECRET}, InputTypeError, LIST),
    "one for all": (SECRET, InputTypeError, LIST),
    "a column": (np.ones((N, 1)), InputError, SHAPE),
    "too few": (np.ones(N - 1), InputError, SHAPE),
    "none": ([], InputError, SHAPE),
    "all zero": (np.zeros(N), InputError, "rounds to zero"),
    "all next to zero": (np.full(N, 1 / 33), InputError, "rounds to zero"),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_weights_of_rows(case, loss):
    weights, error, says = BAD_WEIGHTS[case]
    with refused(clf := classifier(loss=loss), error, "sample_weight", says):
        clf.fit(X, Y, sample_weight=weights)
    clf.fit(X, Y, ids=IDS, sample_weight=np.arange(N) % 3)
    for act in (clf.partial_fit, lambda *rows, **more: learn(clf, *rows, **more), clf.fit):
        with refused(clf, error, "sample_weight", says):
            act(X, Y, ids=MORE, sample_weight=weights)


POSITIVE, BETWEEN = "must be a positive finite number", "must be between 2**-16 and 2**16"
BAD_PARAMETERS = [
    ({"loss": "hinge"}, "loss must be one of 'logistic', 'squared'"),
    ({"loss": 2}, "loss must be one of"),
    *(({"loss": "logistic", "alpha": v}, "alpha " + POSITIVE) for v in (0, -1.0, math.nan, math.inf, "1", True)),
    ({"loss": "logistic", "alpha": FINEST / 2}, "alpha must be at least 4**-grid_bits"),
    ({"loss": "logistic", "alpha": 1e300}, "alpha must be below"),
    ({"loss": "squared", "alpha": 1.0}, "leave alpha out, or change the loss"),
    *(({"head_scaling": v}, "head_scaling must be one of 'flat', 'spread'") for v in ("row", "", 1.0)),
    *(({"loss": "squared", "head_scaling": v}, "leave head_scaling out") for v in ("flat", "spread")),
    ({"learner": "sklearn_logistic", "head_scaling": "spread"}, "head_scaling are for the linear heads"),
    *(({"class_weight": v}, "class_weight must be None") for v in ("auto", "Balanced", 1.0, [1.0, 1.0], {})),
    *(({"class_weight": {0: v}}, POSITIVE) for v in (0, -1.0, math.nan, math.inf, "2", True, None)),
    *(({"class_weight": {0: v}}, BETWEEN) for v in (2.0**-17, 2.0**17)),
    *(
        ({"sample_rate": v}, "sample_rate must be a number between 0 and 1")
        for v in (-0.1, 1.1, math.nan, math.inf, "1", None, True)
    ),
    ({"threshold": math.inf}, "Give sample_rate= above 0, or a finite threshold=."),
    ({"threshold": -math.inf, "sample_rate": 0.5}, "threshold must be"),
    ({"threshold": math.nan, "sample_rate": 0.5}, "threshold must be"),
]


@pytest.mark.parametrize(("parameters", "says"), BAD_PARAMETERS, ids=lambda v: str(v)[:50])
def test_parameters(parameters, says):
    for act in ("fit", "partial_fit"):
        with refused(clf := classifier(**parameters), ConfigurationError, says):
            getattr(clf, act)(X, Y, ids=IDS)
    clf = classifier().fit(X, Y, ids=IDS).set_params(**parameters)
    with refused(clf, ConfigurationError, says):
        clf.partial_fit(X, Y, ids=MORE)
    with refused(clf, ConfigurationError, says):
        clf.fit(X, Y, ids=IDS)


CHANGES = [{"loss": "logistic"}, {"class_weight": "balanced"}, {"sample_rate": 0.5}, {"loss": "logistic", "alpha": 2.0}]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_fitted_model_whose_parameters_change_stays_what_it_is_until_it_is_fitted_anew(change, tmp_path):
    clf = classifier(loss="squared").fit(X, Y, ids=IDS)
    twin = clone(clf).fit(X, Y, ids=IDS)
    clf.set_params(**change)
    for act in (clf.partial_fit, lambda *rows, **more: learn(clf, *rows, **more)):
        with refused(clf, ConfigurationError, f"{next(iter(change))} changed", "start over with fit or another file"):
            act(X, Y, ids=MORE)
    gone = clf.core_ids_[:5].tolist()
    assert clf.forget(ids=gone).core_rows_removed == twin.forget(ids=gone).core_rows_removed == 5
    assert (clf.predict_proba(X) == twin.predict_proba(X)).all()
    assert clf.state_digest() == twin.state_digest() == verify(clf).digest
    clf.save(tmp_path / "m.erasable")
    assert load(tmp_path / "m.erasable").get_params()["loss"] == "squared"
    anew = classifier(**{"loss": "squared", **change}).fit(X, Y, ids=IDS)
    assert clf.fit(X, Y, ids=IDS).state_digest() == anew.state_digest() != twin.state_digest()


@pytest.mark.parametrize("classes", [None, [0, 1], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("class_weight", [None, "balanced", {1: 3.0}], ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_one_class_only(loss, class_weight, classes, tmp_path):
    clf = classifier(loss=loss, class_weight=class_weight, classes=classes).fit(X, np.ones(N, dtype=int), ids=IDS)
    assert set(clf.predict(X)) == {1}
    P = clf.predict_proba(X)
    assert P.shape == (N, len(classes or [1]))
    assert np.allclose(P.sum(axis=1), 1.0)
    assert (P.argmax(axis=1) == (1 if classes else 0)).all()
    clf.save(tmp_path / "m.erasable")
    clf.partial_fit(X, Y, ids=MORE)  # the other class may come later
    assert load(tmp_path / "m.erasable").partial_fit(X, Y, ids=MORE).state_digest() == verify(clf).digest
    clf.forget(ids=clf.core_ids_)
    assert not clf.coef_.any()
    assert not clf.intercept_.any()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("labels", [X[:, 0] > 0, np.digitize(X[:, 0], [-0.5, 0.5])], ids=["two", "three"])
@pytest.mark.parametrize("grid_bits", [6, 15, 20])
def test_separable_rows_under_the_weakest_regulariser_there_is(loss, labels, grid_bits):
    finest = 4.0**-grid_bits
    clf = classifier(capacity=finest, threshold=0.02, loss=loss, grid_bits=grid_bits, feature_map=None).fit(X, labels)
    assert np.isfinite(clf.coef_).all()
    assert verify(clf).digest == clf.state_digest()
    assert clf.score(X, labels) > 0.75
    weaker = classifier(capacity=finest / 2, threshold=0.02, loss=loss, grid_bits=grid_bits)
    with refused(weaker, ConfigurationError, "capacity must be at least 4**-grid_bits"):
        weaker.fit(X, labels)


def test_weights_for_labels_that_no_row_has_are_told():
    three = make_classes(3)
    with pytest.warns(WeakModelWarning, match="no row learnt has 2 of the labels that class_weight= names") as told:
        classifier(class_weight={1: 2.0, 7: 3.0, 8: 1.0}).fit(X, three)
    assert [w.filename for w in told] == [__file__]
    quiet = {"class_weight": {1: 2.0, 7: 3.0}}
    for act in (
        lambda: classifier(**quiet, classes=[0, 1, 2, 7]).fit(X, three),  # they are known to come
        lambda: classifier(**quiet).partial_fit(X, three, ids=IDS),  # they may
        lambda: classifier(class_weight={1: 2.0}).fit(X, three),
        lambda: classifier(class_weight="balanced").fit(X, three),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error", WeakModelWarning)
            act()
