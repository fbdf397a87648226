"""An exported graph that takes raw columns predicts what the model predicts from the raw table."""

from __future__ import annotations

import functools
import json

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable import ErasableClassifier, ErasableRegressor
from erasable.errors import ConfigurationError
from erasable.operations.export import export
from erasable.schemas import Category, Cross, Date, Number, Ordered, Schema, Text, Vector, YesNo

EXACT = Schema(
    [
        Number(name="age", range=[0, 100]),
        Number(name="change", scale=2.5, fill=0.1),
        Number(name="total", edges=[0.1, 0.7, 20, 1e300], fill=0.69999999999),
        Number(name="hours", edges=[-1.5, 0, 20, 40]),
        Number(name="rows", edges=[10, 20.7], bins="thermometer", indicator=False),
        Number(name="pace", edges=[-2, -1, -0.5, 0.1, 0.7, 2, 20, 40], bins="multiscale"),
        Category(name="town", values=["Bern", "39", "true", "Zürich"]),
        Category(name="other", values=["a", "b"], fill="NA", indicator=False),
        Ordered(name="grade", levels=["low", "middle", "high"]),
        Ordered(name="size", levels=["1", "2", "3"], fill="2"),
        YesNo(name="member"),
        YesNo(name="paid", fill="yes", indicator=False),
        Vector(name="meaning", length=3, scale=2),
        Vector(name="fullness", length=2, fill=[0.5, -3.0], indicator=False),
    ],
    [
        Cross(columns=["town", "member"]),
        Cross(columns=["hours", "size"], hashed=5),
        Cross(columns=["rows", "paid"]),
        Cross(columns=["pace", "hours"], bins=3),
    ],
)
LOGS = Schema(
    [
        Number(name="income", range=[1, 1e6], spacing="log"),
        Number(name="visits", range=[0, 500], spacing="log1p", fill=3),
        Category(name="town", values=["Bern"]),
    ]
)
_number = st.one_of(
    st.floats(-3, 3),
    st.floats(width=64),
    st.integers(-60, 600).map(float),
    st.sampled_from([0.1, 0.7, 20.0, 20.7, 40.0, -1.5, 0.0, -0.0, np.nan, np.inf, -np.inf, 1e300, 0.69999999999]),
)
_text = st.one_of(
    st.sampled_from(
        ["Bern", "39", "39.0", "TRUE", "true", "Zürich", "a", "b", "low", "middle", "high", "HIGH", "1", "2"]
    ),
    st.sampled_from(["3.0", "yes", "No", "T", "f", "1.0", "0", "", "?", "NA", "nan", "None", "nULL", "x", "Ünknown"]),
)


def _vectors(length):
    return st.lists(st.one_of(st.floats(-3, 3), st.floats(width=64)), min_size=length, max_size=length)


def _cell(column):
    if isinstance(column, Vector):
        return _vectors(column.length)
    return _number if isinstance(column, Number) else _text


def tables(schema):
    rows = st.fixed_dictionaries({c.name: _cell(c) for c in schema.features})
    return st.lists(rows, min_size=1, max_size=8)


def columns(schema, rows, kind):
    """The rows as arrays: what the model and the graph take."""
    out = {}
    for column in schema.features:
        cells = [row[column.name] for row in rows]
        with np.errstate(over="ignore"):
            out[column.name] = np.array(cells, dtype=object if isinstance(cells[0], str) else kind)
    return out


def for_graph(cells):
    return {n: v if v.ndim == 2 else v.reshape(-1, 1) for n, v in cells.items()}


def for_schema(cells):
    return {n: v.tolist() if v.dtype == object else v for n, v in cells.items()}


def fitted(schema, k=2, seed=0, regression=False, **options):
    rng = np.random.default_rng(seed)
    n = 150
    words = ["Bern", "39", "a", "b", "low", "high", "1", "3", "yes", "no", "", "x"]
    table = {}
    for c in schema.features:
        if isinstance(c, Vector):
            table[c.name] = rng.standard_normal((n, c.length))
        elif isinstance(c, Number):
            table[c.name] = np.where(rng.random(n) < 0.1, np.nan, rng.standard_normal(n) * 20 + 10)
        else:
            table[c.name] = rng.choice(words, n).tolist()
    if regression:
        made = ErasableRegressor(target_range=(-1, 1), threshold=0.05, feature_map=schema, **options)
        return made.fit(table, rng.uniform(-1, 1, (n, k) if k > 1 else n))
    labels = np.array([f"class {j}" for j in range(k)])[rng.integers(0, k, n)]
    return ErasableClassifier(threshold=0.05, feature_map=schema, **options).fit(table, labels)


@functools.cache
def opened(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def run(path, cells):
    session = opened(path)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, for_graph(cells)), strict=True))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models of either schema, with a graph for both types of numbers."""
    made = {}
    for name, schema in (("exact", EXACT), ("logs", LOGS)):
        clf = fitted(schema)
        for kind in ("float32", "float64"):
            path = tmp_path_factory.mktemp("raw") / "m.onnx"
            assert export(clf, path, input_type=kind).takes == "raw columns"
            made[name, kind] = clf, path
    return made


def agrees(clf, found, cells, margin):
    table = for_schema(cells)
    scores = clf.decision_function(table)
    np.testing.assert_allclose(found["scores"], scores, rtol=0, atol=margin)
    sure = np.abs(scores) > margin
    np.testing.assert_array_equal(found["label"][sure], clf.predict(table)[sure])
    np.testing.assert_allclose(found["probabilities"], clf.predict_proba(table), rtol=0, atol=margin)


@settings(max_examples=60, deadline=None)
@given(rows=tables(EXACT))
def test_float64_columns_are_encoded_as_the_schema_encodes_them(models, rows):
    clf, path = models["exact", "float64"]
    cells = columns(EXACT, rows, np.float64)
    agrees(clf, run(path, cells), cells, 1e-12)


@settings(max_examples=40, deadline=None)
@given(rows=tables(EXACT))
def test_float32_columns_are_so_to_within_a_step(models, rows):
    clf, path = models["exact", "float32"]
    cells = columns(EXACT, rows, np.float32)
    agrees(clf, run(path, cells), cells, 1e-5)


@settings(max_examples=60, deadline=None)
@given(rows=tables(LOGS), kind=st.sampled_from(["float32", "float64"]))
def test_logarithms_are_so_to_within_a_step(models, rows, kind):
    clf, path = models["logs", kind]
    cells = columns(LOGS, rows, kind)
    agrees(clf, run(path, cells), cells, 1e-5)


def test_bins_of_float32_numbers_are_those_of_their_texts(tmp_path):
    """0.7 as float32 is below 0.7, and a CSV would have it as 0.7."""
    edges = [0.1, 0.3, 0.7, 1.1, 16777217.0, 1e39]
    schema = Schema([Number(name="x", edges=edges)])
    clf = fitted(schema)
    export(clf, tmp_path / "m.onnx")
    near = np.float32([0.1, 0.3, 0.7, 1.1, 16777217.0, 3e38, np.inf])
    x = np.concatenate([near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf))])
    np.testing.assert_allclose(
        run(tmp_path / "m.onnx", {"x": x})["scores"], clf.decision_function({"x": x}), rtol=0, atol=1e-12
    )
    assert len(set(clf.decision_function({"x": x}).tolist())) > 3


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(
    "head",
    [
        {"loss": "logistic", "alpha": 0.1},
        {"class_weight": "balanced"},
        {"scaling": EXACT.bound, "fit_intercept": False},
        {"regression": True},
        {"regression": True, "scaling": EXACT.bound},
    ],
    ids=str,
)
def test_every_head_has_it(tmp_path, k, head):
    clf = fitted(EXACT, k, **head)
    export(clf, tmp_path / "m.onnx", input_type="float64")
    rng = np.random.default_rng(5)
    rows = [
        {
            c.name: rng.standard_normal(c.length).tolist()
            if isinstance(c, Vector)
            else float(rng.standard_normal() * 30)
            if isinstance(c, Number)
            else rng.choice(["Bern", "a", "low", "2", "yes", "", "?", "zz"])
            for c in EXACT.features
        }
        for _ in range(40)
    ]
    cells = columns(EXACT, rows, np.float64)
    found = run(tmp_path / "m.onnx", cells)
    if "regression" in head:
        np.testing.assert_allclose(found["prediction"], clf.predict(for_schema(cells)), rtol=0, atol=1e-12)
        return
    np.testing.assert_allclose(found["scores"], clf.decision_function(for_schema(cells)), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found["label"], clf.predict(for_schema(cells)))
    np.testing.assert_allclose(found["probabilities"], clf.predict_proba(for_schema(cells)), rtol=0, atol=1e-12)


def test_the_file_says_what_it_takes_and_the_schema_is_beside_it(tmp_path):
    clf = fitted(EXACT)
    report = export(clf, tmp_path / "m.onnx")
    assert (report.takes, report.encoded_for) == ("raw columns", ())
    assert Schema.load(report.schema) == EXACT
    model = onnx.load(tmp_path / "m.onnx")
    said = {p.key: p.value for p in model.metadata_props}
    inputs = {i.name: i.type.tensor_type for i in model.graph.input}
    assert list(json.loads(said["inputs"])) == list(inputs) == [c.name for c in EXACT.features]
    assert inputs["town"].elem_type == onnx.TensorProto.STRING
    assert inputs["age"].elem_type == onnx.TensorProto.FLOAT
    assert inputs["meaning"].shape.dim[1].dim_value == 3
    first = (tmp_path / "m.onnx").read_bytes()
    export(clf, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_bytes() == first


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (Text(name="odd", words=[1, 1], places=4), "odd (text)"),
        (Category(name="odd", hashed=4), "odd (hashed)"),
        (Date(name="odd", parts=["month"]), "odd (date)"),
        (Number(name="scores", scale=1), "scores (the name of an output)"),
        (Number(name="/rows", scale=1), "/rows (the name of an output)"),
    ],
    ids=lambda v: str(v)[:20],
)
def test_other_columns_keep_it_encoded(tmp_path, column, why):
    schema = Schema([Number(name="x", range=[0, 100]), column])
    table = {
        "x": [1.0, 50.0, 99.0],
        column.name: ["2020-01-01", "2020-02-01", None] if why[0] == "o" else [0.1, 0.2, None],
    }
    clf = ErasableClassifier(threshold=0.0, feature_map=schema).fit(table, ["a", "b", "a"])
    report = export(clf, tmp_path / "m.onnx", input_type="float64")
    assert (report.takes, report.encoded_for) == ("encoded rows", (why,))
    rows = schema.encode(table)[0]
    rows = (rows if isinstance(rows, np.ndarray) else rows.toarray()).astype(np.float64)
    np.testing.assert_allclose(
        run(tmp_path / "m.onnx", {"X": rows})["scores"], clf.decision_function(table), rtol=0, atol=1e-12
    )


def test_encoded_rows_can_be_asked_for(tmp_path):
    clf = fitted(LOGS)
    report = export(clf, tmp_path / "m.onnx", encoded=True)
    assert (report.takes, report.encoded_for) == ("encoded rows", ())
    assert [i.name for i in onnx.load(tmp_path / "m.onnx").graph.input] == ["X"]
    with pytest.raises(ConfigurationError, match="leave it out"):
        export(clf, tmp_path / "m.safetensors", encoded=True)
    with pytest.raises(ConfigurationError, match="leave it out"):
        export(ErasableClassifier().fit(np.eye(3), [0, 1, 0]), tmp_path / "n.onnx", encoded=True)
    assert export(clf, tmp_path / "m.safetensors").takes == "encoded rows"
