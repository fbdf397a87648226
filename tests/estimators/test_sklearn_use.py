"""Inside scikit-learn: parameters, pipelines, searches with routed ids, copies and pickles."""

import copy
import io
import pickle
import re

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer
from sklearn.utils.validation import check_is_fitted

from erasable import ErasableClassifier, verify
from tests.estimators.cases import SECRET, SECRET_ID, N, assert_no_traces, classifier, make_classes, make_rows

X, Y = make_rows()
IDS = np.array([f"row-{i}" for i in range(N)])
OWNERS = np.arange(N) // 4


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# -- parameters ----------------------------------------------------------------------------------------------------


def test_parameters_are_stored_as_given():
    given = {
        "capacity": np.float32(2),
        "threshold": None,
        "kappa": 0.3,
        "horizon": np.int16(50),
        "fit_intercept": False,
        "scaling": np.ones(3),
        "feature_map": None,
        "classes": ["a", "b"],
        "feature_names": ["u", "v", "w"],
        "grid_bits": 12,
        "loss": "logistic",
        "alpha": np.float32(0.5),
        "class_weight": {"a": np.float64(2)},
        "sample_rate": np.float32(0),
        "order": "hashed",
        "random_state": np.int64(2**40),
        "engine": "local",
        "selection": "leverage",
        "rate": None,
        "balance": np.float64(0),
        "class_shares": None,
        "moments": None,
        "learner": None,
    }
    clf = ErasableClassifier(**given)
    assert set(clf.get_params()) == set(given)
    assert all(getattr(clf, name) is value for name, value in given.items())
    clf.fit(X, np.array(["a", "b"])[Y])
    assert all(clf.get_params()[name] is value for name, value in given.items())


def test_a_clone_has_the_parameters_and_no_rows():
    clf = classifier(capacity=2.0, scaling=[1.0, 2.0, 3.0], classes=[0, 1]).fit(X, Y, ids=IDS)
    twin = clone(clf)
    assert twin.get_params() == clf.get_params()
    assert vars(twin).keys() == twin.get_params().keys()
    assert twin.fit(X, Y, ids=IDS).state_digest() == clf.state_digest()


def test_it_is_a_fitted_classifier():
    assert is_classifier(classifier())
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(classifier())
    check_is_fitted(classifier().fit(X, Y))


# -- pipelines and searches ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("routing")
def test_routed_ids_reach_the_last_step_of_a_pipeline():
    model = classifier().set_fit_request(ids=True, subjects="owners")
    pipe = make_pipeline(FunctionTransformer(), model).fit(X, Y, ids=IDS, owners=OWNERS)
    assert pipe[-1].state_digest() == classifier().fit(X, Y, ids=IDS, subjects=OWNERS).state_digest()


@pytest.mark.usefixtures("routing")
def test_cross_validation_hands_each_fold_its_own_ids():
    result = cross_validate(
        classifier().set_fit_request(ids=True, subjects=True),
        X,
        Y,
        params={"ids": IDS, "subjects": OWNERS},
        cv=3,
        return_estimator=True,
        return_indices=True,
        error_score="raise",
    )
    assert result["test_score"].min() > 0.7
    for model, train in zip(result["estimator"], result["indices"]["train"], strict=True):
        assert (
            model.state_digest()
            == classifier().fit(X[train], Y[train], ids=IDS[train], subjects=OWNERS[train]).state_digest()
        )
        verify(model)
        owner = int(next(iter(model._model.core.of_subject)))
        assert model.forget(subjects=owner).core_rows_removed > 0
        assert owner not in {int(key[4:]) // 4 for key in model.core_ids_}


@pytest.mark.usefixtures("routing")
def test_grid_search_refits_with_all_ids():
    search = GridSearchCV(
        classifier(threshold=None).set_fit_request(ids=True),
        {"kappa": [0.3, 0.6], "capacity": [0.5, 1.0]},
        cv=3,
        error_score="raise",
    ).fit(X, Y, ids=IDS)
    best = clone(search.best_estimator_).fit(X, Y, ids=IDS)
    assert search.best_estimator_.state_digest() == best.state_digest()
    assert search.best_params_.keys() == {"kappa", "capacity"}
    assert set(search.best_estimator_.core_ids_) <= set(IDS)
    assert search.score(X, Y) > 0.8


@pytest.mark.usefixtures("routing")
def test_routed_ids_reach_a_pipeline_in_a_grid_search():
    pipe = make_pipeline(FunctionTransformer(), classifier().set_fit_request(ids=True))
    search = GridSearchCV(pipe, {"erasableclassifier__capacity": [0.5, 1.0]}, cv=2, error_score="raise")
    search.fit(X, Y, ids=IDS)
    assert set(search.best_estimator_[-1].core_ids_) <= set(IDS)


def test_a_grid_search_needs_no_ids():
    labels = np.array(["a", "b", "c"])[make_classes(3)]
    search = GridSearchCV(classifier(), {"scaling": ["row", 10.0]}, cv=2, error_score="raise").fit(X, labels)
    assert set(search.predict(X)) <= {"a", "b", "c"}
    assert cross_val_predict(classifier(), X, labels, method="predict_proba", cv=2).shape == (N, 3)


# -- copies --------------------------------------------------------------------------------------------------------


def through_pickle(protocol):
    return lambda clf: pickle.loads(pickle.dumps(clf, protocol=protocol))


def through_joblib(clf):
    file = io.BytesIO()
    joblib.dump(clf, file)
    file.seek(0)
    return joblib.load(file)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle 2": through_pickle(2),
    "pickle 5": through_pickle(5),
    "joblib": through_joblib,
}
MODELS = {
    "binary": lambda: classifier().fit(X, Y, ids=IDS, subjects=OWNERS),
    "three classes": lambda: classifier().fit(X, make_classes(3)),
    "text labels and bytes ids": lambda: classifier(classes=["a", "b", "ç"]).fit(
        X, np.array(["a", "b"])[Y], ids=[f"{i}\0".encode() for i in range(N)]
    ),
    "one class": lambda: classifier(scaling=[1.0, 2.0, 3.0]).fit(X, np.zeros(N)),
    "partly with subjects": lambda: (
        classifier(scaling=9.0, threshold=0.0)
        .fit(X, Y > 0, subjects=[str(i) for i in range(N)])
        .partial_fit(X, Y > 0, ids=np.arange(N) - 1000)
    ),
    "empty": lambda: classifier(fit_intercept=False, grid_bits=18).fit(np.zeros((2, 3)), [0, 1]),
}


@pytest.mark.parametrize("form", COPIES)
@pytest.mark.parametrize("model", MODELS)
def test_a_copy_is_equal_and_independent(form, model):
    clf = MODELS[model]()
    if clf.n_core_:
        clf.forget(ids=clf.core_ids_[::4])
    twin = COPIES[form](clf)
    before = clf.state_digest()
    assert twin.state_digest() == before == verify(twin).digest
    assert repr(twin.get_params()) == repr(clf.get_params())
    assert list(twin.core_ids_) == list(clf.core_ids_)
    assert vars(twin).keys() == vars(clf).keys()
    if not clf.n_core_:
        return
    assert twin.decision_function(X).tobytes() == clf.decision_function(X).tobytes()
    gone = clf.core_ids_[1:30]
    twin.forget(ids=gone)
    assert clf.state_digest() == before
    verify(clf)
    clf.forget(ids=gone)
    assert clf.state_digest() == twin.state_digest() != before
    for one in (clf, twin):
        one.partial_fit(X[:9] + 1.0, clf.classes_[[0] * 9], ids=make_new_ids(clf))
    assert clf.state_digest() == twin.state_digest()
    verify(twin)
    assert vars(clf._model).keys() == vars(twin._model).keys()
    assert clf._model.core.class_counts == twin._model.core.class_counts
    assert clf._model.core.of_subject == twin._model.core.of_subject


def make_new_ids(clf):
    key = clf._model.core.ids()[0]
    return range(5000, 5009) if isinstance(key, int) else [key * 9 + key[:1] * i for i in range(9)]


@pytest.mark.parametrize("form", COPIES)
def test_an_unfitted_copy_is_unfitted(form):
    twin = COPIES[form](classifier(capacity=3.0))
    assert vars(twin) == vars(classifier(capacity=3.0))


# -- reprs ---------------------------------------------------------------------------------------------------------


def test_reprs_show_parameters_and_no_rows():
    rows, labels = X.copy(), np.array(["SECRET-a", "SECRET-b", "SECRET-c"])[make_classes(3)]
    rows[:, 0] = SECRET
    ids = [f"SECRET-{i}" for i in range(N)]
    clf = classifier(capacity=2.0).fit(rows, labels, ids=ids, subjects=ids)
    html = clf._repr_html_()
    assert "capacity" in html
    assert "capacity=2.0" in repr(clf)
    for text in (repr(clf), str(clf), html, repr(clf._model), repr(clf._model.snapshot()), repr(clf._model.core.first)):
        assert_no_traces(text)
    for name in ("coef_", "intercept_", "core_ids_", "classes_"):  # rows of the table that notebooks show
        row = re.search(rf">{name}<.*?</tr>", html, re.DOTALL)
        assert row is None or not re.search(r"\d", re.sub(r"&#x\d+;|<[^>]*>", "", row[0]))
    numbers = classifier(threshold=0.01).fit(X, Y, ids=np.arange(N) + SECRET_ID)
    assert_no_traces(numbers._repr_html_() + repr(numbers))


def test_a_pipeline_shows_no_ids():
    """It does show the classes: scikit-learn's own Pipeline publishes those of its last step."""
    ids = [f"SECRET-{i}" for i in range(N)]
    pipe = make_pipeline(Normalizer(), classifier()).fit(X, Y, erasableclassifier__ids=ids)
    with sklearn.config_context(display="text"):
        assert_no_traces(repr(pipe))
    assert_no_traces(pipe._repr_html_())
