"""Bad input and bad parameters: a clear error that tells no values, and an estimator left as it was."""

import ast
import builtins
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import erasable
from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    learn,
)
from erasable.classes import LinearBall
from erasable.coresets import LeverageThreshold, RandomSubsample
from erasable.errors import ConfigurationError, ErasableError, ExactnessError, InputError, InputTypeError
from erasable.features import RandomFourierFeatures
from erasable.models.configuration import DEFAULT_THRESHOLD
from tests.estimators.cases import SECRET, SECRET_ID, SECRET_TEXT, D, N, classifier, make_rows, refused

X, Y = make_rows()
COLUMNS = list("abc")
IDS = [f"{SECRET_TEXT}-{i}" for i in range(N)]


def changed(value, dtype=None):
    rows = X.astype(dtype) if dtype is not None else X.copy()
    rows[:, 0] = SECRET
    rows[5, 1] = value
    return rows


def listed_twice(container, dtype=np.float64):
    """Rows that are finite entry by entry; two entries stand for their sum, which is not."""
    rows = container(changed(1.0, dtype))
    largest = float(np.finfo(dtype).max)
    data, ends = np.concatenate([[largest, largest], rows.data]).astype(dtype), rows.indptr.copy()
    ends[1:] += 2
    return container((data, np.concatenate([[0, 0], rows.indices]), ends), shape=rows.shape)


def outside(container):
    rows = container(X)
    rows.indices[-1] = N + 99
    return rows


BAD_ROWS = {
    "NaN": (changed(np.nan), "NaN"),
    "infinity": (changed(np.inf), "infinity"),
    "minus infinity": (changed(-np.inf), "infinity"),
    "NaN in float32": (changed(np.nan, np.float32), "NaN"),
    "NaN in sparse": (sp.csr_array(changed(np.nan)), "NaN"),
    "infinity listed as two entries": (listed_twice(sp.csr_array), "infinity"),
    "infinity listed as two entries of a matrix": (listed_twice(sp.csr_matrix), "infinity"),
    "infinity listed as two entries of columns": (listed_twice(sp.csc_array), "infinity"),
    "infinity listed as two entries of float32": (listed_twice(sp.csr_array, np.float32), "infinity"),
    "positions outside": (outside(sp.csr_array), "must be <"),
    "positions outside of columns": (outside(sp.csc_array), "must be <"),
    "none": (changed(None, object), "NaN"),
    "text": (changed(SECRET_TEXT, object), "text"),
    "text array": (np.full((N, D), SECRET_TEXT), "text"),
    "bytes": (np.full((N, D), SECRET_TEXT.encode()), "text"),
    "complex": (X + SECRET * 1j, "omplex"),
    "dictionaries": (changed({SECRET_TEXT: SECRET}, object), ""),
    "lists": ([[[SECRET]] * D] * N, "dim"),
    "ragged": ([[SECRET] * D] * (N - 1) + [[SECRET]], "inhomogeneous"),
    "one dimension": (np.full(N, SECRET), "2D"),
    "no dimension": (SECRET, "2D"),
    "three dimensions": (np.full((N, D, 1), SECRET), "dim"),
    "no rows": (np.empty((0, D)), "0 sample"),
    "no features": (np.empty((N, 0)), "0 feature"),
    "a string": (SECRET_TEXT, ""),
    "a dictionary": ({SECRET_TEXT: SECRET}, ""),
    "nothing": (None, ""),
    "pandas text": (pd.DataFrame({"a": X[:, 0], "b": SECRET_TEXT, "c": SECRET}), "text in 'b', where"),
    "pandas texts": (pd.DataFrame({"a": SECRET_TEXT, "b": X[:, 0], "c": SECRET_TEXT}), "text in 'a', 'c', where"),
    "pandas missing": (pd.DataFrame({"a": X[:, 0], "b": pd.array([1, None] * (N // 2)), "c": SECRET}), "NaN"),
    "pandas times": (pd.DataFrame({"a": X[:, 0], "b": pd.Timestamp("2020-01-01"), "c": SECRET}), ""),
    "pandas mixed column names": (pd.DataFrame({"a": X[:, 0], 1: X[:, 1], "c": X[:, 2]}), "names"),
    "polars text": (pl.DataFrame({"a": X[:, 0], "b": [SECRET_TEXT] * N, "c": X[:, 2]}), "text in 'b', where"),
    "polars missing": (pl.DataFrame({"a": X[:, 0], "b": [SECRET, None] * (N // 2), "c": X[:, 2]}), "NaN"),
    "pyarrow text": (pa.table({"a": X[:, 0], "b": [SECRET_TEXT] * N, "c": X[:, 2]}), "text in 'b', where"),
    "pyarrow missing": (pa.table({"a": X[:, 0], "b": [SECRET, None] * (N // 2), "c": X[:, 2]}), "NaN"),
}
OTHER_WIDTHS = {
    "fewer features": (X[:, :2], "2 features", "3 features"),
    "more features": (np.column_stack([X, X]), "6 features", "3 features"),
    "other names": (pd.DataFrame(X, columns=list("abd")), "feature names"),
    "other order of names": (pd.DataFrame(X, columns=list("bac")), "feature names"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_rows_that_are_no_numbers_are_refused(case):
    rows, says = BAD_ROWS[case]
    with refused(clf := classifier(), ErasableError, says):
        clf.fit(rows, Y)
    with refused(clf := classifier(), ErasableError, says):
        clf.partial_fit(rows, Y)
    with refused(clf := classifier(), ErasableError, says):
        learn(clf, rows, Y)
    clf = classifier().fit(pd.DataFrame(X, columns=COLUMNS), Y)
    with refused(clf, ErasableError, says):
        clf.fit(rows, Y)


@pytest.mark.parametrize("case", [*BAD_ROWS, *OTHER_WIDTHS])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_a_fitted_model_refuses_rows_unlike_those_it_learnt(case):
    rows, *says = (BAD_ROWS | OTHER_WIDTHS)[case]
    clf = classifier().fit(pd.DataFrame(X, columns=COLUMNS), Y, ids=IDS)
    with refused(clf, ErasableError, *says):
        clf.partial_fit(rows, Y, ids=np.arange(N).astype(str))
    for call in (clf.predict, clf.predict_proba, clf.decision_function):
        with refused(clf, ErasableError, *says):
            call(rows)
    with refused(clf, ErasableError, *says):
        clf.score(rows, Y)


MODELS = {
    "linear": lambda: ErasableClassifier(threshold=0.05),
    "kernel": lambda: ErasableKernelClassifier(threshold=0.5),
    "general": lambda: ErasableGeneralClassifier(LinearBall()),
    "mapped": lambda: ErasableClassifier(feature_map=RandomFourierFeatures(20), threshold=0.05),
    "core set": lambda: CoreSetUnlearner(RandomSubsample(0.9), LogisticRegression()),
    "core set by leverage": lambda: CoreSetUnlearner(LeverageThreshold(0.05), LogisticRegression()),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_entries_listed_several_times_are_the_rows_of_their_sums(make):
    rng = np.random.default_rng(0)
    several = sp.csr_matrix((rng.standard_normal(120), rng.integers(3, size=120), np.arange(0, 121, 6)), shape=(20, 3))
    labels = [0, 1] * 10
    assert not several.has_canonical_format
    digest = make().fit(several, labels).state_digest()
    assert make().fit(sp.csr_matrix(several.toarray()), labels).state_digest() == digest


BAD_LABELS = {
    "nothing": (None, "y"),
    "one word": (SECRET_TEXT, "y"),
    "one number": (SECRET_ID, "y"),
    "too few": (Y[:-1], str(N - 1)),
    "too many": ([*Y, 1], str(N + 1)),
    "no labels": ([], "0"),
    "two columns": (np.column_stack([Y, Y]), f"({N}, 2)"),
    "continuous": (Y + SECRET, "continuous"),
    "NaN": (np.where(Y > 0, np.nan, 1.0), "NaN"),
    "infinity": (np.where(Y > 0, np.inf, 1.0), "infinity"),
    "complex": (Y + SECRET * 1j, "omplex"),
    "none": (np.array([SECRET_TEXT, None], dtype=object)[Y], ""),
    "text and numbers": (np.array([SECRET_TEXT, SECRET], dtype=object)[Y], ""),
    "bytes and text": (np.array([SECRET_TEXT, b"SECRET"], dtype=object)[Y], ""),
    "tuples": ([(SECRET_TEXT, 1)] * N, "1d"),
    "dictionaries": (np.array([{SECRET_TEXT: 1}, {}], dtype=object)[Y], ""),
    "dates": (np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]")[Y], "y"),
    "pandas missing": (pd.Series(pd.array([1, None] * (N // 2), dtype="Int64")), "NaN"),
    "pandas missing text": (pd.Series([SECRET_TEXT, None] * (N // 2), dtype="string"), ""),
    "polars missing text": (pl.Series([SECRET_TEXT, None] * (N // 2)), ""),
    "pyarrow missing": (pa.array([1, None] * (N // 2)), ""),
    "bytes": (np.array([SECRET_TEXT.encode(), b"b"])[Y], "bytes"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_labels_that_cannot_be_classes_are_refused(case):
    labels, says = BAD_LABELS[case]
    with refused(clf := classifier(), ErasableError, says):
        clf.fit(X, labels)
    with refused(clf := classifier(classes=[0, 1]), ErasableError):
        clf.fit(X, labels)
    clf = classifier().fit(X, Y, ids=IDS)
    with refused(clf, ErasableError, says):
        clf.fit(X, labels)
    with refused(clf, ErasableError, says):
        clf.partial_fit(X, labels, ids=np.arange(N).astype(str))


@pytest.mark.parametrize("n", [1, 2, N])
def test_a_word_is_no_column_of_labels(n):
    for word in ("no_validation", SECRET_TEXT):  # the first is scikit-learn's own word for "no labels here"
        with refused(clf := classifier(), InputError, "y "):
            clf.fit(X[:n], word)
        with refused(clf := classifier().fit(X, Y), InputError, "y "):
            clf.partial_fit(X[:n], word, ids=np.arange(n) + 1000)


@pytest.mark.parametrize("labels", [Y.astype(float), Y > 0, np.array(["a", "b"])[Y]], ids=["floats", "bools", "text"])
def test_labels_of_another_type_than_the_models_are_refused(labels):
    with refused(clf := classifier().fit(X, Y), InputError, "type"):
        clf.partial_fit(X, labels, ids=np.arange(N) + 1000)
    with refused(clf := classifier(classes=[0, 1]), InputError):
        clf.fit(X, labels)


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (["a", "b"], np.array(["a", SECRET_TEXT])[Y]),
        (["a", "b"], np.array(["a", SECRET_TEXT], dtype=object)[Y]),
        ([0, 1], np.array([0, SECRET_ID])[Y]),
        ([0.0, 1.0], np.array([0.0, float(SECRET_ID)])[Y]),
        ([False], Y > 0),
    ],
)
def test_labels_outside_fixed_classes_are_counted(classes, labels):
    count = f"{np.count_nonzero(Y)} of {N}"
    with refused(clf := classifier(classes=classes), InputError, count, str(len(classes))):
        clf.fit(X, labels)
    with refused(clf := classifier(), InputError, count):
        clf.partial_fit(X, labels, classes=classes)
    clf = classifier(classes=classes).fit(X[Y == 0], labels[Y == 0])
    with refused(clf, InputError, count):
        clf.partial_fit(X, labels, ids=np.arange(N) + 1000)


def test_classes_are_fixed_once():
    with refused(clf := classifier(classes=[0, 1]), ConfigurationError, "classes"):
        clf.partial_fit(X, Y, classes=[0, 1, 2])
    clf.partial_fit(X, Y, classes=[1, 0])
    with refused(clf, ConfigurationError, "classes"):
        clf.partial_fit(X, Y, ids=np.arange(N) + 1000, classes=[0, 1, 2])
    with refused(clf := classifier().fit(X, Y), ConfigurationError, "classes"):
        clf.partial_fit(X, Y, ids=np.arange(N) + 1000, classes=[0, 1])


@pytest.mark.parametrize(
    "change",
    [
        {"capacity": 0.5},
        {"threshold": 0.04},
        {"grid_bits": 14},
        {"fit_intercept": False},
        {"scaling": 3.0},
        {"classes": [0, 1]},
        {"threshold": None},
        {"threshold": None, "kappa": 0.5, "horizon": 1000},
        {"threshold": None, "horizon": 1000},
        {"kappa": 0.5},
        {"kappa": 2.0, "threshold": None, "horizon": 1000},
    ],
    ids=str,
)
def test_parameters_do_not_change_under_a_fitted_model(change):
    clf = classifier().fit(X, Y).set_params(**change)
    with refused(clf, ConfigurationError):
        clf.partial_fit(X, Y, ids=np.arange(N) + 1000)
    clf.set_params(**classifier().get_params())
    clf.fit(X, Y).partial_fit(X, Y, ids=np.arange(N) + 1000)


BAD_PARAMETERS = [
    ({"capacity": 0}, "capacity", "positive", "0"),
    ({"capacity": -1.5}, "capacity", "positive", "-1.5"),
    ({"capacity": 1e-12}, "capacity", "grid_bits", "1e-12"),
    ({"capacity": 1e9}, "capacity", "grid"),
    ({"capacity": 1e308}, "capacity"),
    ({"kappa": -0.1}, "kappa", "between 0 and 1", "-0.1"),
    ({"kappa": 1.1}, "kappa", "between 0 and 1", "1.1"),
    ({"capacity": 1, "kappa": 0}, "nothing could ever be selected"),
    ({"capacity": N**0.2, "kappa": 0.2}, "nothing could ever be selected", "capacity", "kappa"),
    ({"capacity": 3, "horizon": 3, "kappa": 1}, "nothing could ever be selected", "horizon"),
    ({"capacity": 1, "threshold": 1.0}, "nothing could ever be selected", "threshold"),
    ({"threshold": -1e-300}, "threshold", "negative"),
    ({"kappa": 0.2, "horizon": 0}, "horizon", "positive integer", "0"),
    ({"kappa": 0.2, "horizon": 100.0}, "horizon", "positive integer", "100.0"),
    ({"horizon": 100}, "horizon", "only with kappa"),
    ({"horizon": 100, "threshold": 0.1}, "horizon", "only with kappa"),
    ({"kappa": 0.2, "threshold": 0.1}, "kappa", "threshold", "leave one of them out"),
    ({"scaling": "rows"}, "scaling", "'row'", "'rows'"),
    ({"scaling": 0}, "scaling", "positive"),
    ({"scaling": -2.0}, "scaling", "positive", "-2.0"),
    ({"scaling": np.nan}, "scaling", "nan"),
    ({"scaling": np.inf}, "scaling", "inf"),
    ({"scaling": True}, "scaling"),
    ({"scaling": 10**400}, "scaling"),
    ({"scaling": [1.0, 2.0]}, "scaling", "2 scales", "3 features"),
    ({"scaling": []}, "scaling", "0 scales", "3 features"),
    ({"scaling": [1.0, 2.0, 0.0]}, "scaling", "positive"),
    ({"scaling": [1.0, 2.0, -3.0]}, "scaling", "positive"),
    ({"scaling": [1.0, 2.0, np.inf]}, "scaling", "finite"),
    ({"scaling": np.ones((1, 3))}, "scaling"),
    ({"scaling": [1.0, "x", 2.0]}, "scaling"),
    ({"scaling": ...}, "scaling"),
    ({"grid_bits": 3}, "grid_bits", "between 4 and 20", "3"),
    ({"grid_bits": 21}, "grid_bits", "between 4 and 20", "21"),
    ({"classes": []}, "classes", "empty"),
    ({"classes": [np.nan, 1.0]}, "classes", "NaN"),
    ({"classes": [None, 1]}, "classes", "NoneType"),
]


@pytest.mark.parametrize(("parameters", "says"), [(p, s) for p, *s in BAD_PARAMETERS], ids=lambda v: str(v)[:50])
def test_parameters_that_cannot_work_are_refused(parameters, says):
    with refused(clf := ErasableClassifier(**parameters), ErasableError, *says) as caught:
        clf.fit(X, Y)
    assert isinstance(caught.value, ValueError | TypeError)
    horizon = {"horizon": N} if "kappa" in parameters else {}
    with refused(clf := ErasableClassifier(**{**horizon, **parameters}), ErasableError, *says):
        clf.partial_fit(X, Y)
    clf = ErasableClassifier(threshold=0.05).fit(X, Y, ids=IDS).set_params(**{"threshold": None, **parameters})
    with refused(clf, ErasableError, *says):
        clf.fit(X, Y)
    clf.predict(X)  # the old model goes on working


def test_parameters_are_looked_at_when_fitting_only():
    parameters = {"capacity": "x", "kappa": [], "threshold": {}, "scaling": 3j, "classes": 5, "grid_bits": None}
    clf = ErasableClassifier(**parameters)
    assert all(clf.get_params()[name] is value for name, value in parameters.items())


def test_a_capacity_just_below_the_limit_works():
    assert ErasableClassifier(capacity=0.99 * N**0.2, kappa=0.2).fit(X, Y).n_core_ > 0
    assert ErasableClassifier(capacity=2.9, horizon=3, kappa=1).fit(X, Y).n_core_ > 0


def test_streaming_needs_a_threshold_that_stays():
    with refused(clf := ErasableClassifier(kappa=0.5), ConfigurationError, "horizon=", "threshold="):
        clf.partial_fit(X, Y)
    for parameters, threshold in (
        ({"kappa": 0.5, "horizon": 500}, 500**-0.5),
        ({"threshold": 0.1}, 0.1),
        ({}, DEFAULT_THRESHOLD),
    ):
        clf = ErasableClassifier(**parameters).partial_fit(X[:9], Y[:9])
        assert clf.threshold_ == pytest.approx(threshold, rel=1e-15)
    clf = ErasableClassifier(kappa=0.5).fit(X, Y)
    threshold = clf.threshold_
    assert clf.partial_fit(X[:9], Y[:9], ids=range(1000, 1009)).threshold_ == threshold


@pytest.mark.parametrize(("scaling", "limit"), [(None, 1.0), (2.5, 2.5), (np.float32(0.5), 0.5), (4, 4.0)])
def test_rows_outside_the_ball_are_counted(scaling, limit):
    clf = classifier(scaling=scaling, threshold=0.001)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) * limit * 0.999
    clf.fit(rows, Y)
    rows[[3, 77, 200]] *= SECRET
    with refused(clf, InputError, f"3 of {N}", "norm", "scaling", f"{limit:g}"):
        clf.fit(rows, Y)
    with refused(clf, InputError, f"3 of {N}"):
        clf.partial_fit(rows, Y, ids=np.arange(N) + 1000)
    assert len(clf.predict(rows)) == N  # a linear function is defined everywhere


@pytest.mark.parametrize("scaling", [1e-300, [1e-300, 1.0, 1.0]])
def test_rows_that_overflow_when_scaled_are_refused(scaling):
    clf = classifier(scaling=scaling).fit(X * 1e-302, Y)
    for call in (clf.fit, clf.partial_fit):
        with refused(clf, InputError, "scaling"):
            call(np.full((N, D), 1e300), Y, ids=np.arange(N) + 1000)


def test_errors_are_also_the_builtin_ones():
    clf = classifier().fit(X, Y)
    for error, call in (
        (ValueError, lambda: clf.fit(X, Y, ids=[1])),
        (TypeError, lambda: clf.forget(ids=[1.5])),
        (ValueError, lambda: classifier(capacity=-1).fit(X, Y)),
    ):
        with pytest.raises(error) as caught:
            call()
        assert isinstance(caught.value, ErasableError)
    assert issubclass(ExactnessError, OverflowError)
    assert issubclass(InputTypeError, TypeError)


FOREIGN = {"ArithmeticError", "AttributeError", "BaseException", "Exception", "IndexError", "KeyError", "LookupError"}
FOREIGN |= {"OverflowError", "RecursionError", "TypeError", "UnicodeDecodeError", "UnicodeError", "ValueError"}


@pytest.mark.parametrize("room", ["core", "models", "estimators", "features", "classes", "coresets", "schemas"])
def test_no_error_of_ours_carries_along_one_that_may_quote_values(room):
    """One that is raised while another is handled has it as its context, also with ``from None``."""
    for path in sorted((Path(erasable.__file__).parent / room).rglob("*.py")):
        for handler in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(handler, ast.ExceptHandler):
                caught = {n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)} & FOREIGN
                raised = [r for r in ast.walk(handler) if isinstance(r, ast.Raise) and isinstance(r.exc, ast.Call)]
                ours = [r.lineno for r in raised if r.exc.func.id not in dir(builtins)]
                assert not (caught and ours), f"{path}, lines {ours}: raise after the except block"
