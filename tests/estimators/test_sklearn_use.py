"""Inside scikit-learn: parameters, pipelines, searches with routed ids, reprs."""

import re

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

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
        "centres": [0, np.float32(1), 2],
        "missing": None,
        "feature_map": "log",
        "classes": ["a", "b"],
        "feature_names": ["u", "v", "w"],
        "grid_bits": 12,
        "loss": "logistic",
        "alpha": np.float32(0.5),
        "head_scaling": None,
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


# -- pipelines and searches ----------------------------------------------------------------------------------------


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


def test_a_grid_search_needs_no_ids():
    labels = np.array(["a", "b", "c"])[make_classes(3)]
    search = GridSearchCV(classifier(), {"scaling": ["row", 10.0]}, cv=2, error_score="raise").fit(X, labels)
    assert set(search.predict(X)) <= {"a", "b", "c"}
    assert cross_val_predict(classifier(), X, labels, method="predict_proba", cv=2).shape == (N, 3)


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
