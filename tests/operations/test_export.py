"""Exported weights predict what the model predicts, say which state they are of, and hold no rows."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.linear_model import LogisticRegression

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
    TableEncoder,
    load,
)
from erasable.coresets import RandomSubsample
from erasable.errors import ChangedMeanwhileError, ConfigurationError, InputTypeError, NoRowsError, StoreError
from erasable.features import RandomFourierFeatures
from erasable.operations.export import ExportReport, export
from erasable.research.baselines import InterpolatedClassifier, RetrainedRidge
from erasable.schemas import Category, Cross, Date, Number, Schema, Text, Vector

LABELS = {
    "integers": [3, -1, 2**40, 7, 0],
    "strings": ["spam", "ham", "Ä", "", "x"],
    "floats": [3.0, -1.0, 2.0],
    "booleans": [True, False],
}


def model(k=2, scaling="row", labels="integers", d=4, n=200, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if scaling is None:
        X /= 1.01 * np.linalg.norm(X, axis=1)[:, None]
    names = LABELS[labels][:k]
    place = np.digitize(X[:, 0], np.quantile(X[:, 0], np.arange(1, k) / k))
    y = np.array([names[i] for i in place], dtype=object if labels == "strings" else None)
    return ErasableClassifier(capacity=0.1, kappa=0.5, scaling=scaling, **options, feature_map=None).fit(X, y)


def predicted(path, X):
    """Outputs by onnxruntime with all its optimisations."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {"X": X}), strict=True))


def rows(d, seed, *, extreme=True):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, d))
    X[5] = 0.0
    X[6, 1:] = 0.0
    if extreme:
        X[10:14] *= np.array([1e-300, 1e-170, 1e170, 1e300])[:, None]
        X[14] = 5e-324
    return X


SCALINGS = {"row": "row", "number": 7.3, "none": None, "columns": (0.5, 3.0, 1e-3, 10.0)}


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("intercept", [True, False])
def test_onnx_predicts_what_the_model_predicts(tmp_path, scaling, k, intercept):
    clf = model(k, SCALINGS[scaling], fit_intercept=intercept)
    export(clf, tmp_path / "m.onnx", input_type="float64")
    X = rows(4, k, extreme=scaling in ("row", "columns"))
    if scaling == "columns":
        X[13] *= 1e-3  # the model refuses rows that overflow when they are divided
    found = predicted(tmp_path / "m.onnx", X)
    scores = clf.decision_function(X)
    assert found["scores"].shape == scores.shape
    assert found["scores"].dtype == np.float64
    np.testing.assert_allclose(found["scores"], scores, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found["label"], clf.predict(X))
    np.testing.assert_allclose(found["probabilities"], clf.predict_proba(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "head",
    [
        {"loss": "logistic"},
        {"loss": "logistic", "alpha": 1e-4},
        {"class_weight": "balanced"},
        {"head_scaling": "spread"},
    ],
)
def test_onnx_has_the_head_of_the_model(tmp_path, k, head):
    clf = model(k, 7.3, **head)
    export(clf, tmp_path / "m.onnx", input_type="float64")
    X = rows(4, k, extreme=False) * 100.0
    found = predicted(tmp_path / "m.onnx", X)
    np.testing.assert_allclose(found["scores"], clf.decision_function(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found["label"], clf.predict(X))
    np.testing.assert_allclose(found["probabilities"], clf.predict_proba(X), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1.0, rtol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 5), d=st.integers(1, 7), scale=st.floats(9.0, 100.0))
@settings(max_examples=30)
def test_any_model_agrees(tmp_path_factory, seed, k, d, scale):
    folder = tmp_path_factory.mktemp("m")
    for scaling in ("row", scale):
        clf = model(k, scaling, d=d, n=60, seed=seed)
        export(clf, folder / "m.onnx", input_type="float64")
        X = rows(d, seed, extreme=False) * 5
        found = predicted(folder / "m.onnx", X)
        np.testing.assert_allclose(found["scores"], clf.decision_function(X), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(found["label"], clf.predict(X))
        np.testing.assert_allclose(found["probabilities"], clf.predict_proba(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("labels", LABELS)
def test_labels_come_out_as_they_are(tmp_path, labels):
    clf = model(min(3, len(LABELS[labels])), labels=labels)
    export(clf, tmp_path / "m.onnx", input_type="float64")
    X = rows(4, 1)
    assert predicted(tmp_path / "m.onnx", X)["label"].tolist() == clf.predict(X).tolist()
    export(clf, tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", "numpy") as file:
        assert json.loads(file.metadata()["classes"]) == clf.classes_.tolist()


@pytest.mark.parametrize("options", [{}, {"input_type": "float32"}])
def test_float32_rows_are_taken_unless_asked_otherwise_and_computed_in_float64(tmp_path, options):
    clf = model(3)
    export(clf, tmp_path / "m.onnx", **options)
    X = rows(4, 2, extreme=False).astype(np.float32)
    found = predicted(tmp_path / "m.onnx", X)
    np.testing.assert_allclose(found["scores"], clf.decision_function(X), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found["label"], clf.predict(X))


@pytest.mark.parametrize("scaling", SCALINGS)
def test_safetensors_hold_weights_and_a_stamp(tmp_path, scaling):
    clf = model(3, SCALINGS[scaling])
    report = export(clf, tmp_path / "m.safetensors")
    file = tmp_path / "m.safetensors"
    assert report == ExportReport(str(file), "safetensors", clf.state_digest(), file.stat().st_size)
    found = load_file(file)
    assert found["coef"].dtype == found["intercept"].dtype == np.float64
    np.testing.assert_array_equal(found["coef"], clf.coef_)
    np.testing.assert_array_equal(found["intercept"], clf.intercept_)
    with safe_open(file, "numpy") as opened:
        said = opened.metadata()
    assert said["erasable_state_digest"] == clf.state_digest()
    wanted = SCALINGS[scaling]
    assert json.loads(said["scaling"]) == (list(wanted) if isinstance(wanted, tuple) else wanted)
    assert "feature_names" not in said


def test_onnx_files_are_valid_and_stamped(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((50, 2)), columns=["age", "weight"])
    clf = ErasableClassifier(kappa=0.5, feature_map=None).fit(frame, frame["age"] > 0)
    report = export(clf, tmp_path / "m.onnx")
    assert report.form == "onnx"
    found = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(found, full_check=True)
    assert found.opset_import[0].version >= 17
    said = {p.key: p.value for p in found.metadata_props}
    assert said["erasable_state_digest"] == clf.state_digest() == report.digest
    assert json.loads(said["feature_names"]) == ["age", "weight"]
    assert json.loads(said["classes"]) == [False, True]


@pytest.mark.parametrize("form", ["onnx", "safetensors"])
def test_bytes_are_those_of_the_state(tmp_path, form):
    """After forgetting, the file is that of a model that learnt the survivors alone; the old one is replaced."""
    clf = model(3)
    first, second = tmp_path / f"a.{form}", tmp_path / f"b.{form}"
    export(clf, first)
    export(clf, second)
    before = first.read_bytes()
    assert before == second.read_bytes()
    clf.forget(ids=clf.core_ids_[::2])
    export(clf, first)
    assert first.read_bytes() != before
    kept = clf.core_ids_
    X = np.random.default_rng(0).standard_normal((200, 4))  # the rows of model()
    y = np.array(LABELS["integers"])[np.digitize(X[:, 0], np.quantile(X[:, 0], [1 / 3, 2 / 3]))]
    refit = ErasableClassifier(capacity=0.1, threshold=clf.threshold_, feature_map=None).fit(X[kept], y[kept], ids=kept)
    assert refit.state_digest() == clf.state_digest()
    export(refit, second)
    assert first.read_bytes() == second.read_bytes()
    left = {p.name for p in tmp_path.iterdir() if p.stat().st_size}
    assert left == {first.name, second.name}


def test_retrained_ridge_is_linear_too(tmp_path):
    X = np.random.default_rng(1).standard_normal((40, 3))
    clf = RetrainedRidge().fit(X, X[:, 0] > 0)
    export(clf, tmp_path / "m.onnx", input_type="float64")
    np.testing.assert_allclose(predicted(tmp_path / "m.onnx", X)["scores"], clf.decision_function(X), atol=1e-12)


def others():
    X = np.random.default_rng(1).standard_normal((30, 2))
    y = (X[:, 0] > 0).astype(int)
    yield ErasableKernelClassifier().fit(X, y), "rows of people"
    yield ErasableClassifier(feature_map=RandomFourierFeatures(10)).fit(X, y), "mapped rows"
    yield ErasableGeneralClassifier().fit(X, y), "rows of people"
    yield CoreSetUnlearner(RandomSubsample(0.5), LogisticRegression()).fit(X, y), "rows of people"
    yield InterpolatedClassifier(None, private_share=1.0, epsilon=1.0, alpha=1.0), "rows of people"
    yield "model.erasable", "got str"


@pytest.mark.parametrize("form", ["onnx", "safetensors"])
def test_models_that_predict_with_rows_are_refused(tmp_path, form):
    for clf, says in others():
        with pytest.raises(InputTypeError, match=says):
            export(clf, tmp_path / f"m.{form}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ranges", [((-1.0, 2.0),), ((-1.0, 2.0), (-30.0, 5.0))])
def test_exported_regressions_clip_to_the_declared_ranges(tmp_path, ranges):
    X = np.random.default_rng(0).standard_normal((200, 4))
    reg = ErasableRegressor(ranges, scaling=10.0, feature_map=None)
    reg.fit(X, np.clip(X[:, : len(ranges)], -1.0, 2.0).squeeze())
    far = np.clip(30 * X, -4.0, 4.0)
    export(reg, tmp_path / "m.onnx", input_type="float64")
    found = predicted(tmp_path / "m.onnx", far)["prediction"]
    np.testing.assert_allclose(found, reg.predict(far), rtol=0, atol=1e-12)
    assert (found == ranges[0][1]).any()
    export(reg, tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", "numpy") as file:
        assert json.loads(file.metadata()["target_ranges"]) == [list(ends) for ends in ranges]


MIXED = Schema(
    [
        Number(name="income", range=[1, 1e6], spacing="log"),
        Number(name="hours", edges=[0, 20, 40], fill=30),
        Category(name="town", values=["Bern", "Oslo"]),
        Category(name="street", hashed=4),
        Date(name="since", parts=["month"]),
        Text(name="note", words=[1, 1], places=6),
        Vector(name="meaning", length=2, scale=2),
    ],
    [Cross(columns=["hours", "town"])],
)


def raw_table(n, seed):
    rng = np.random.default_rng(seed)
    return {
        "income": np.where(rng.random(n) < 0.1, np.nan, 10.0 ** rng.uniform(-1, 7, n)),
        "hours": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(-5, 60, n)),
        "town": rng.choice(["Bern", "Oslo", "Rome", ""], n).tolist(),
        "street": rng.choice(["High Street", "Main Street", ""], n).tolist(),
        "since": rng.choice(["2020-01-31", "2021-07-01", ""], n).tolist(),
        "note": rng.choice(["likes cats", "likes dogs", ""], n).tolist(),
        "meaning": rng.standard_normal((n, 2)) * 3,
    }


@pytest.mark.parametrize("input_type", ["float32", "float64"])
@pytest.mark.parametrize(
    "head", [{}, {"loss": "squared"}, {"scaling": MIXED.bound}, {"target_range": (-1, 1)}], ids=str
)
def test_behind_a_schema_a_graph_takes_the_rows_that_it_encodes(tmp_path, head, input_type):
    """Also as float32, bit for bit: encoded rows are float32 numbers already."""
    kind = ErasableRegressor if "target_range" in head else ErasableClassifier
    table = raw_table(150, 0)
    y = np.where(np.nan_to_num(table["income"]) > 300.0, 1, -1)
    clf = kind(**head, threshold=0.05, feature_map=TableEncoder(MIXED)).fit(table, y)
    report = export(clf, tmp_path / "m.onnx", input_type=input_type)

    schema = Schema.load(report.schema)
    assert schema == MIXED
    fresh = raw_table(40, 1)
    rows = TableEncoder(schema, sparse_output=False).transform(fresh)
    found = predicted(tmp_path / "m.onnx", rows.astype(input_type))

    if "target_range" in head:
        np.testing.assert_allclose(found["prediction"], clf.predict(fresh), rtol=0, atol=1e-12)
    else:
        np.testing.assert_allclose(found["scores"], clf.decision_function(fresh), rtol=0, atol=1e-12)
        np.testing.assert_allclose(found["probabilities"], clf.predict_proba(fresh), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(found["label"], clf.predict(fresh))

    graph = onnx.load(tmp_path / "m.onnx")
    assert [(i.name, i.type.tensor_type.shape.dim[1].dim_value) for i in graph.graph.input] == [("X", rows.shape[1])]
    metadata = {p.key: p.value for p in graph.metadata_props}
    assert json.loads(metadata["feature_names"]) == MIXED.feature_names_out()


def test_a_model_without_rows_has_no_weights(tmp_path):
    clf = model()
    clf.forget(ids=clf.core_ids_)
    with pytest.raises(NoRowsError, match="learn new rows"):
        export(clf, tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="not fitted"):
        export(ErasableClassifier(feature_map=None), tmp_path / "m.onnx")


def test_a_change_meanwhile_is_noticed(tmp_path, monkeypatch):
    clf = model()
    snapshot = clf.model_.snapshot
    monkeypatch.setattr(clf.model_, "snapshot", lambda: (clf.forget(ids=clf.core_ids_[:1]), snapshot())[1])
    with pytest.raises(ChangedMeanwhileError):
        export(clf, tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("m.pt", {}, "m.pt does not say"),
        ("m", {}, "does not say"),
        ("m.onnx", {"form": "pmml"}, "onnx, safetensors"),
        ("m.onnx", {"input_type": "float16"}, "float32, float64"),
        ("m.safetensors", {"input_type": "float32"}, "input_type is for ONNX"),
        ("m.erasable", {"form": "onnx"}, "name of a model"),
    ],
)
def test_odd_arguments_are_refused(tmp_path, name, options, says):
    with pytest.raises(ConfigurationError, match=says):
        export(model(), tmp_path / name, **options)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputTypeError, match="path"):
        export(model(), 3)


@pytest.mark.parametrize("form", ["onnx", "safetensors"])
def test_feature_names_are_those_of_the_state(tmp_path, form):
    """Also of a model that was loaded, or that learnt arrays, and which therefore saw no names of columns."""
    X = np.random.default_rng(0).standard_normal((50, 2))
    clf = ErasableClassifier(kappa=0.5, feature_names=["age", "größe"], feature_map=None).fit(X, X[:, 0] > 0)
    clf.save(tmp_path / "m.erasable")
    written = []
    for found in (clf, load(tmp_path / "m.erasable")):
        export(found, tmp_path / f"m.{form}")
        written.append((tmp_path / f"m.{form}").read_bytes())
    assert written[0] == written[1]
    if form == "safetensors":
        with safe_open(tmp_path / "m.safetensors", "numpy") as opened:
            said = opened.metadata()
    else:
        said = {p.key: p.value for p in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert json.loads(said["feature_names"]) == ["age", "größe"]


def test_a_model_is_never_overwritten_whatever_its_name(tmp_path):
    clf = model()
    X = np.random.default_rng(0).standard_normal((30, 4))
    kernel = ErasableKernelClassifier().fit(X, X[:, 0] > 0)
    for k, held in enumerate((clf, kernel)):
        path = tmp_path / f"m{k}.safetensors"
        held.save(tmp_path / "m.erasable")
        (tmp_path / "m.erasable").rename(path)
        before = path.read_bytes()
        for data in (before, before[:-100]):  # one that was cut off is somebody's rows as well
            path.write_bytes(data)
            with pytest.raises(ConfigurationError, match="holds a model"):
                export(clf, path)
            assert path.read_bytes() == data


def test_nothing_but_an_earlier_export_is_replaced(tmp_path):
    clf, other = model(), tmp_path / "other.safetensors"
    foreign = tmp_path / "foreign.safetensors"
    save_file({"coef": np.zeros(3)}, foreign, {"made by": "somebody, with erasable_state_digest"})
    onnx_like = b"\x08\x08\x12\x04some" + bytes(40)
    stamped = b"a,erasable_state_digest\n1,2\n"
    header = b'{"__metadata__": {"note": "erasable_state_digest"}}'
    begins_alike = (0x208).to_bytes(8, "little") + header.ljust(0x208)
    for data in (
        b"some text",
        (200).to_bytes(8, "little") + b"{}",
        foreign.read_bytes(),
        onnx_like,
        stamped,
        begins_alike,
    ):
        other.write_bytes(data)
        with pytest.raises(ConfigurationError, match=r"other\.safetensors is no earlier export.*choose another name"):
            export(clf, other)
        assert other.read_bytes() == data
        assert {p.name for p in tmp_path.iterdir()} == {"other.safetensors", "foreign.safetensors"}
    other.write_bytes(b"")  # nothing is lost
    for form in ("onnx", "safetensors", "onnx", "onnx", "safetensors", "safetensors"):
        export(clf, other, form=form)
    assert set(load_file(other)) == {"coef", "intercept"}


def test_what_may_not_be_read_is_not_replaced(tmp_path, monkeypatch):
    def denied(path):
        raise PermissionError

    (tmp_path / "m.onnx").write_bytes(b"something")
    monkeypatch.setattr("erasable.operations.export.read_header", denied)
    with pytest.raises(ConfigurationError, match="may not be read"):
        export(model(), tmp_path / "m.onnx")


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(StoreError):
        export(model(), tmp_path / "no" / "m.safetensors")
    (tmp_path / "m.onnx").mkdir()
    with pytest.raises(StoreError, match="folder"):
        export(model(), tmp_path / "m.onnx")


def test_onnx_is_asked_for_where_it_is_needed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'erasable\[export\]'"):
        export(model(), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
    export(model(), tmp_path / "m.safetensors")
