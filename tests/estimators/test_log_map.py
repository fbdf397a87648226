"""The log map in front of a linear model: one state in every container, file, engine and export, and its refusals."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_wine

from erasable import ErasableClassifier, ErasableRegressor, load, verify
from erasable.audit.scan import scan
from erasable.errors import ConfigurationError, InputError, StateFormatError
from erasable.features import LogFeatures, RandomFourierFeatures
from erasable.models.configuration import described_log
from erasable.operations import onnx_graph
from erasable.operations.export import export
from tests.estimators.cases import SECRET, assert_no_traces, everything_said
from tests.verifier.pair import bytes_of, second

RNG = np.random.default_rng(4)
X = np.rint(RNG.standard_normal((120, 4)) * [1, 40, 3000, 8]) * [0.25, 1, 1, 0]
X[::3, 3] = 7.0
Y = np.where(X[:, 0] * 100 + X[:, 1] > 0, "spam", "ham")
NAMES = ["age", "fee", "km", "kids"]


def log(**parameters):
    return ErasableClassifier(feature_map="log", **{"threshold": 0.1, **parameters})


# -- the law -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["leverage", "independent"])
def test_forgotten_rows_were_never_learnt(selection):
    options = {"threshold": None, "selection": selection, "rate": None if selection == "leverage" else 0.5}
    clf = log(**options).fit(X, Y)
    clf.forget(ids=clf.core_ids_[::3])
    kept = clf.core_ids_
    again = log(**options).fit(X[kept], Y[kept], ids=kept)
    assert again.state_digest() == clf.state_digest() == verify(clf).digest


@pytest.mark.parametrize(
    "form",
    [
        lambda: X.tolist(),
        lambda: X.astype(np.float32),
        lambda: np.asfortranarray(X),
        lambda: sp.csr_array(X),
        lambda: sp.csc_matrix(X),
        lambda: pd.DataFrame(X),
        lambda: pl.DataFrame(X, schema=NAMES),
    ],
)
def test_every_container_gives_the_same_state(form):
    right = log().fit(X, Y)
    other = log().fit(form(), Y)
    assert other.state_digest() == right.state_digest()
    assert np.abs(other.decision_function(form()) - right.decision_function(X)).max() < 1e-12


def test_rows_learnt_in_parts_are_those_learnt_in_the_given_order():
    clf = log(order="given").partial_fit(X[:70], Y[:70], ids=range(70))
    clf.partial_fit(X[70:], Y[70:], ids=range(70, 120))
    clf.forget(ids=clf.core_ids_[1::2])
    kept = clf.core_ids_
    assert log(order="given").fit(X[kept], Y[kept], ids=kept).state_digest() == clf.state_digest()


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_engines_apply_the_map(engine):
    assert log(engine=engine).fit(X, Y).state_digest() == log().fit(X, Y).state_digest()


def test_the_state_is_that_of_mapped_rows_without_intercept():
    given = {"capacity": 0.02, "alpha": 0.01, "head_scaling": "flat", "threshold": 0.1}
    plain = ErasableClassifier(feature_map=None, fit_intercept=False, **given).fit(LogFeatures(4)(X), Y)
    clf = log(**given).fit(X, Y)
    assert clf.core_ids_.tolist() == plain.core_ids_.tolist()
    assert clf.decision_function(X).tobytes() == plain.decision_function(LogFeatures(4)(X)).tobytes()
    assert clf.coef_.shape == (1, 5)
    assert clf.n_features_in_ == 4


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_file_holds_the_map_and_the_names_of_columns(tmp_path):
    clf = log(feature_names=NAMES, missing="indicator", centres=[0, 1, 2, 3.0], scaling=[1, 2, 3, 4.0]).fit(X, Y)
    file = tmp_path / "a.erasable"
    clf.save(file)
    again = load(file)
    assert again.model_.feature_names == tuple(NAMES)
    assert again.state_digest() == clf.state_digest()
    assert again.predict(X).tolist() == clf.predict(X).tolist()
    assert clone(again).fit(X, Y).state_digest() == clf.state_digest()
    assert load(file, like=clone(clf)).partial_fit(X + 1, Y, ids=range(200, 320)).n_core_ > clf.n_core_
    row = again.rows_of(ids=again.core_ids_[:1]).as_json()["rows"][0]["values"]
    assert {*row} == {*NAMES, *(f"{name} is missing" for name in NAMES), "constant"}
    assert second(bytes_of(clf), tmp_path)[0] == 0
    twin = pickle.loads(pickle.dumps(clf))
    assert twin.decision_function(X).tobytes() == clf.decision_function(X).tobytes()


def test_other_arguments_are_refused_once_rows_are_learnt(tmp_path):
    clf = log().fit(X, Y)
    for change in ({"centres": [1.0] * 4}, {"missing": "indicator"}, {"fit_intercept": False}, {"scaling": [2.0] * 4}):
        with pytest.raises(ConfigurationError, match="feature_map, fit_intercept, centres, missing or scaling changed"):
            clone(clf).set_params(**change)._check_unchanged(clf.model_, None)
    with pytest.raises(ConfigurationError, match="feature_map changed"):
        clone(clf).set_params(feature_map=None)._check_unchanged(clf.model_, None)


@pytest.mark.parametrize(
    ("old", "new"), [('"missing":null', '"missing":0'), ("0x1.8", "0x1.80"), ("constant", "Constant")]
)
def test_a_damaged_description_is_refused(old, new):
    text = log().fit(X, Y).model_.configuration.feature_map
    assert described_log(text) == LogFeatures(4)
    with pytest.raises(StateFormatError, match="its feature map is damaged"):
        described_log(text.replace(old, new))


# -- other programs ------------------------------------------------------------------------------------------------


def test_an_onnx_graph_maps_to_the_last_bit():
    cells = [2.0**0.5, 1 - 2.0**-53, 2 - 2.0**-52, 2.0**53 - 1, 1.7e308, 5e-324, 0.0, 1.0, 1e6, 3.0, np.nan, 8.0]
    rows = np.array([cells, [-c for c in cells], np.geomspace(1e-3, 1e300, len(cells))])
    one = LogFeatures(len(cells), 3.0, [0.1] * len(cells), [1.3] * len(cells), missing="indicator")
    graph, value = onnx_graph.Graph(onnx), onnx.helper.make_tensor_value_info
    graph("Identity", onnx_graph._tamed(graph, graph.cast("X"), one), name="Z")
    ends = [[value(n, onnx.TensorProto.DOUBLE, ["N", w])] for n, w in (("X", len(cells)), ("Z", one.n_features_out))]
    body = onnx.helper.make_graph(graph.nodes, "map", *ends, graph.constants)
    model = onnx.helper.make_model(body, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"X": rows})[0].tolist() == one(rows).tolist()


@pytest.mark.parametrize("ending", ["onnx", "safetensors"])
def test_an_export_takes_plain_rows(tmp_path, ending):
    clf = log(feature_names=NAMES).fit(X, Y)
    path = tmp_path / f"a.{ending}"
    export(clf, path)
    if ending == "onnx":
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        label, _, scores = session.run(None, {"X": X.astype(np.float32)})
        assert label.tolist() == clf.predict(X).tolist()
        assert np.abs(scores - clf.decision_function(X)).max() < 1e-12
    else:
        assert b'\\"map\\": \\"log\\"' in path.read_bytes()


def test_a_scan_finds_rows_behind_the_map(tmp_path):
    Z = RNG.standard_normal((80, 5)) * 50
    clf = log(centres=[1.0, 2, 3, 4, 5]).fit(Z, Z[:, 0] > 0, ids=np.arange(7000, 7080))
    clf.save(tmp_path / "a.erasable")
    (tmp_path / "rows.bin").write_bytes(clf.model_.core.rows().tobytes())
    report = scan(tmp_path, Z[clf.core_ids_[:2] - 7000], ids=clf.core_ids_[:2])
    rows = [remain.file for remain in report.remains if remain.what == "grid row"]
    assert sorted(rows) == ["a.erasable", "a.erasable", "rows.bin", "rows.bin"]
    assert report.ids_only == ()


# -- missing cells -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, pd.DataFrame])
def test_missing_cells_are_learnt_and_predicted(form):
    holes = X.copy()
    holes[::5, 1] = np.nan
    clf = log(missing="indicator").fit(form(holes), Y)
    kept = clf.core_ids_
    again = log(missing="indicator").fit(holes[kept], Y[kept], ids=kept)
    assert again.state_digest() == clf.state_digest()
    assert clf.predict(form(holes)).tolist() == again.predict(holes).tolist()
    assert clf.coef_.shape == (1, 9)
    holes[1, 1] = np.inf
    with pytest.raises(InputError, match="infinity"):
        clf.predict(form(holes))


def test_the_refusal_of_missing_cells_names_the_argument():
    holes = X.copy()
    holes[0, 0], holes[1, 0] = np.nan, SECRET
    with pytest.raises(InputError, match='missing="indicator"') as caught:
        log().fit(holes, Y)
    assert_no_traces(everything_said(caught.value))


# -- arguments -----------------------------------------------------------------------------------------------------


def test_the_constant_takes_the_place_of_the_intercept():
    assert not log().fit(X, Y).model_.configuration.grid.intercept
    assert log(fit_intercept=False).fit(X, Y).coef_.shape == (1, 4)
    given = ErasableClassifier(feature_map=LogFeatures(4, constant=0.0)).fit(X, Y)
    assert given.model_.configuration.grid.intercept


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"feature_map": "logs"}, "feature_map must be"),
        ({"feature_map": "log", "scaling": None}, 'feature_map="log" divides each row by its norm'),
        ({"feature_map": "log", "scaling": 5.0}, "one positive number per column"),
        ({"feature_map": "log", "scaling": [1.0]}, "scaling gives 1 scales for 4 features"),
        ({"feature_map": "log", "centres": [1.0]}, "centres gives 1 numbers for 4 columns"),
        ({"feature_map": "log", "missing": "mean"}, "missing must be"),
        ({"feature_map": RandomFourierFeatures(9), "learner": "random_forest"}, "sees raw columns"),
        ({"feature_map": None, "centres": [1.0] * 4}, "centres are parameters of feature_map="),
        ({"feature_map": None, "missing": "indicator"}, "missing are parameters of feature_map="),
        ({"feature_map": LogFeatures(4), "centres": [1.0] * 4}, "centres are parameters of feature_map="),
        ({"feature_map": RandomFourierFeatures(9), "feature_names": NAMES}, "without a feature map"),
        ({"feature_map": "auto", "scaling": 1e6, "missing": "indicator"}, "missing are parameters of feature_map="),
    ],
)
def test_no_argument_is_ignored(arguments, says):
    with pytest.raises(ConfigurationError, match=says):
        ErasableClassifier(**arguments).fit(X, Y)


def test_auto_is_the_log_map_unless_arguments_are_about_rows_as_they_are():
    for arguments in ({}, {"scaling": [1.0, 2, 3, 4]}, {"loss": "squared"}, {"learner": "random_forest"}):
        clf = ErasableClassifier(feature_map="auto", threshold=None, **arguments).fit(X, Y)
        assert isinstance(clf.model_.feature_map, LogFeatures)
    for arguments in ({"scaling": 1e6}, {"moments": [1.0] * 4}):
        assert ErasableClassifier(feature_map="auto", **arguments).fit(X, Y).model_.feature_map is None
    reg = ErasableRegressor(feature_map="auto").fit(X, X[:, 0])
    assert isinstance(reg.model_.feature_map, LogFeatures)


def test_rows_far_beyond_the_grid_are_learnt():
    rows = np.array([[1e300, -1e-300, 0.0, -0.0], [5e-324, 1.0, -1e300, 2.0]] * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = log().fit(rows, ["a", "b"] * 4)
    assert verify(clf).digest == clf.state_digest()


def test_columns_of_unequal_size_need_no_scaling():
    rows, labels = load_wine(return_X_y=True)
    assert log(capacity=0.005, alpha=0.001).fit(rows, labels).score(rows, labels) > 0.93
    assert ErasableClassifier(feature_map=None).fit(rows, labels).score(rows, labels) < 0.75


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_trees_take_missing_cells_and_their_rows_are_selected_behind_the_map(form, tmp_path):
    holes = X.copy()
    holes[::4, 1] = np.nan
    tree = {"learner": "random_forest", "n_estimators": 5}
    clf = ErasableClassifier(learner=tree, threshold=0.1).fit(form(holes), Y)
    assert np.isnan(clf.model_.core.rows()).any()
    kept = clf.core_ids_
    again = ErasableClassifier(learner=tree, threshold=0.1).fit(holes[kept], Y[kept], ids=kept)
    assert again.state_digest() == clf.state_digest() == verify(clf).digest
    assert clf.predict(form(holes)).tolist() == again.predict(holes).tolist()
    clf.save(tmp_path / "a.erasable")
    loaded = load(tmp_path / "a.erasable")
    assert loaded.feature_map == "log"
    assert loaded.predict(holes).tolist() == clf.predict(holes).tolist()
    with pytest.raises(InputError, match="NaN"):
        ErasableClassifier(learner=tree, feature_map=None).fit(holes, Y)


@pytest.mark.parametrize(("columns", "scaling"), [(1_000, "logistic-spread"), (1_001, "logistic")])
def test_many_columns_are_regularised_alike(columns, scaling):
    """Most of them are rare as a rule, and their small spreads would let them be learnt by heart."""
    rows = sp.random_array((40, columns), density=0.01, random_state=1, format="csr")
    with warnings.catch_warnings(action="ignore"):  # fewer rows than columns
        clf = ErasableClassifier().fit(rows, np.arange(40) % 2)
    name = clf.model_.head.NAME
    assert name == scaling
    clf.partial_fit(rows[:2], [0, 1], ids=[100, 101])
