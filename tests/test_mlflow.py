"""Models in MLflow: the artifact is the model file, and copies that no forgetting reached are found."""

from __future__ import annotations

import json
import pickletools
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from erasable import ErasableClassifier, ErasableRegressor
from erasable.cli.app import run
from erasable.errors import ConfigurationError, InputTypeError
from erasable.estimators import TableEncoder
from erasable.schemas import Category, Number, Schema

pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning:mlflow", "ignore::ResourceWarning"
)

RNG = np.random.default_rng(5)
X = RNG.standard_normal((60, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")
IDS = [f"canary-{i:02d}" for i in range(60)]


def classifier(**options):
    return ErasableClassifier(threshold=0.02, **options, feature_map=None).fit(X, Y, ids=IDS)


@pytest.fixture
def flavor(tmp_path, monkeypatch):
    import mlflow

    import erasable.mlflow as flavor

    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/records.db" if _has_sql() else (tmp_path / "runs").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(uri)
    yield flavor
    mlflow.set_tracking_uri(None)


def _has_sql():
    try:
        import sqlalchemy  # noqa: F401
    except ImportError:
        return False
    return True


def test_what_is_loaded_is_bit_for_bit_what_was_saved(flavor, tmp_path):
    clf = classifier()
    flavor.save_model(clf, tmp_path / "m")
    again = flavor.load_model(str(tmp_path / "m"))
    assert again.state_digest() == clf.state_digest()
    assert (tmp_path / "m" / "erasable" / "model.erasable").read_bytes()[-64:]
    assert again.forget(ids=IDS[:5]).digest == clf.forget(ids=IDS[:5]).digest


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_pyfunc_answers_as_the_model_does(flavor, tmp_path, method):
    import mlflow

    clf = classifier()
    flavor.save_model(clf, tmp_path / "m", pyfunc_predict_fn=method)
    answer = mlflow.pyfunc.load_model(str(tmp_path / "m")).predict(X)
    np.testing.assert_array_equal(answer, getattr(clf, method)(X))


def test_columns_are_found_by_name_in_any_order(flavor, tmp_path):
    import mlflow

    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    clf = ErasableClassifier(threshold=0.02, feature_names=["a", "b", "c"], feature_map=None).fit(frame, Y, ids=IDS)
    flavor.save_model(clf, tmp_path / "m")
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    turned = frame[["c", "a", "b"]].assign(further=1)
    np.testing.assert_array_equal(served.predict(turned), clf.predict(frame))
    assert [column.name for column in served.metadata.get_input_schema()] == ["a", "b", "c"]


def test_a_model_with_a_schema_takes_raw_tables(flavor, tmp_path):
    import mlflow

    schema = Schema([Category(name="town", values=["Bern", "Oslo"]), Number(name="age", range=(0, 100))])
    frame = pd.DataFrame({"town": ["Bern", "Oslo", None] * 20, "age": [30, 60.5, None] * 20})
    clf = ErasableClassifier(feature_map=TableEncoder(schema), threshold=0.02).fit(frame, Y, ids=IDS)
    flavor.save_model(clf, tmp_path / "m")
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    np.testing.assert_array_equal(served.predict(frame), clf.predict(frame))


def test_a_regression_is_served_as_numbers(flavor, tmp_path):
    import mlflow

    reg = ErasableRegressor((-5, 5), threshold=0.02, feature_map=None).fit(X, np.clip(X[:, 0], -5, 5), ids=IDS)
    flavor.save_model(reg, tmp_path / "m")
    np.testing.assert_array_equal(mlflow.pyfunc.load_model(str(tmp_path / "m")).predict(X), reg.predict(X))
    with pytest.raises(ConfigurationError, match="predict_proba"):
        flavor.save_model(reg, tmp_path / "n", pyfunc_predict_fn="predict_proba")


def test_no_pickle_and_no_row_lies_beside_the_model_file(flavor, tmp_path):
    flavor.save_model(classifier(), tmp_path / "m", metadata={"team": "risk"})
    beside = [p for p in (tmp_path / "m").rglob("*") if p.is_file() and p.suffix != ".erasable"]
    assert {p.name for p in beside} == {"MLmodel", "requirements.txt"}
    for path in beside:
        assert b"canary" not in path.read_bytes()
        with pytest.raises((ValueError, IndexError)):
            list(pickletools.genops(path.read_bytes()))


def test_an_input_example_is_refused_unless_it_is_declared(flavor, tmp_path):
    with pytest.raises(ConfigurationError, match="allow_input_example"):
        flavor.save_model(classifier(), tmp_path / "m", input_example=X[:1])
    assert not (tmp_path / "m").exists()
    flavor.save_model(classifier(), tmp_path / "m", input_example=np.zeros((1, 3)), allow_input_example=True)
    assert (tmp_path / "m" / "input_example.json").exists()


@pytest.mark.parametrize("wrong", [object(), ErasableClassifier, np.zeros(3)], ids=["object", "class", "array"])
def test_what_is_no_model_is_refused(flavor, tmp_path, wrong):
    with pytest.raises(InputTypeError):
        flavor.save_model(wrong, tmp_path / "m")


def test_a_folder_with_something_in_it_is_left_alone(flavor, tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "notes").write_text("mine")
    with pytest.raises(ConfigurationError, match="already"):
        flavor.save_model(classifier(), tmp_path / "m")
    assert [p.name for p in (tmp_path / "m").iterdir()] == ["notes"]


def test_versions_that_hold_forgotten_rows_are_listed(flavor, tmp_path, capsys):
    import mlflow

    clf = classifier()
    clf.save(tmp_path / "live.erasable")
    with mlflow.start_run():
        flavor.log_model(clf, "model", registered_model_name="credit")
    gone = clf.forget(ids=[i for i in IDS if i in set(clf.core_ids_)][:4]).core_rows_removed
    clf.save(tmp_path / "live.erasable")
    with mlflow.start_run():
        flavor.log_model(tmp_path / "live.erasable", "model", registered_model_name="credit")
    found, seen = flavor.stale(tmp_path / "live.erasable", "credit")
    assert (seen, [(one.version, one.rows_gone) for one in found]) == (2, [("1", gone)])

    assert run(["mlflow", "stale", str(tmp_path / "live.erasable"), "--name", "credit", "--json"]) == 1
    said = capsys.readouterr().out
    assert [one["version"] for one in json.loads(said)["stale"]] == ["1"]
    assert "canary" not in said
    mlflow.MlflowClient().delete_model_version("credit", "1")
    assert run(["mlflow", "stale", str(tmp_path / "live.erasable"), "--name", "credit"]) == 0


def test_a_registered_model_that_is_not_there_is_said(flavor, tmp_path):
    classifier().save(tmp_path / "live.erasable")
    with pytest.raises(ConfigurationError, match="registry"):
        flavor.stale(tmp_path / "live.erasable", "nobody")
    for where in ("nowhere://at.all", "sqlite:///mlflow.db"):  # the latter is MLflow's default, and not in the extra
        if where.startswith("sqlite") and find_spec("sqlalchemy") is not None:
            continue
        with pytest.raises(ConfigurationError, match="tracking_uri=, or in the setting MLFLOW_TRACKING_URI"):
            flavor.stale(tmp_path / "live.erasable", "nobody", tracking_uri=where)


def test_a_setting_of_mlflow_that_cannot_be_read_is_said(flavor, tmp_path, monkeypatch, capsys):
    classifier().save(tmp_path / "live.erasable")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "")
    live, files = str(tmp_path / "live.erasable"), (tmp_path / "files").as_uri()
    with pytest.raises(ConfigurationError, match="not set up as it must be: MLFLOW_ALLOW_FILE_STORE"):
        flavor.stale(live, "credit", tracking_uri=files)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", files)
    flavor.mlflow.set_tracking_uri(files)
    assert run(["mlflow", "stale", live, "--name", "credit"]) == 2
    assert "Correct the setting" in capsys.readouterr().err


def test_another_flavor_is_refused_by_name(flavor, tmp_path):
    from mlflow.models import Model

    other = Model()
    other.add_flavor("other", data="x")
    Path(tmp_path / "o").mkdir()
    other.save(str(tmp_path / "o" / "MLmodel"))
    with pytest.raises(InputTypeError, match="other"):
        flavor.load_model(str(tmp_path / "o"))


def test_a_learner_is_loaded_by_its_name_and_requires_its_library(flavor, tmp_path):
    learner = {"learner": "lightgbm", "n_estimators": 5, "min_child_samples": 3}
    clf = ErasableClassifier(learner=learner, selection="independent", rate=0.9, feature_map=None).fit(X, Y, ids=IDS)
    flavor.save_model(clf, tmp_path / "m")
    again = flavor.load_model(tmp_path / "m")
    assert again.state_digest() == clf.state_digest()
    assert (again.predict_proba(X) == clf.predict_proba(X)).all()
    assert f"lightgbm=={version('lightgbm')}" in (tmp_path / "m" / "requirements.txt").read_text().splitlines()
