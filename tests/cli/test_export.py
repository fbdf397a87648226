"""``erasable export`` as a user types it."""

import numpy as np
import pytest
from safetensors import safe_open

from erasable import ErasableClassifier, ErasableKernelClassifier, Schema, TableEncoder
from erasable.cli.app import run
from tests.cli.session import answered, printed


@pytest.fixture
def clf(tmp_path, monkeypatch):
    """A model in model.erasable of the working directory."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((50, 3))
    found = ErasableClassifier(kappa=0.5).fit(X, X[:, 0] > 0)
    found.save("model.erasable")
    return found


@pytest.mark.parametrize("name", ["model.onnx", "model.safetensors"])
def test_it_writes_the_file_and_says_of_which_state(clf, name, tmp_path, capsys):
    text = printed(
        capsys, ["export", "model.erasable", "-o", name, *["--input-type", "float64"] * name.endswith("onnx")]
    ).out
    assert clf.state_digest() in text
    assert "export again" in text
    assert (tmp_path / name).stat().st_size > 100


def test_json(clf, tmp_path, capsys):
    said = answered(capsys, ["export", "model.erasable", "--out", "weights", "--format", "safetensors", "--json"])
    size = (tmp_path / "weights").stat().st_size
    assert said == {"path": "weights", "form": "safetensors", "digest": clf.state_digest(), "bytes": size}
    with safe_open(tmp_path / "weights", "numpy") as file:
        np.testing.assert_array_equal(file.get_tensor("coef"), clf.coef_)


@pytest.mark.parametrize("name", ["m.onnx", "m.safetensors"])
def test_the_command_says_that_the_file_of_a_model_with_a_schema_takes_encoded_rows(
    tmp_path, monkeypatch, capsys, name
):
    monkeypatch.chdir(tmp_path)
    lines = [f"{20 + i % 50},{('Bern', 'Oslo', '')[i % 3]},{i % 2}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["age,town,ill", *lines]))
    schema = 'version = 1\n[columns.ill]\nrole = "label"\n[columns.age]\nkind = "number"\nrange = [0, 100]\n'
    (tmp_path / "s.toml").write_text(schema + '[columns.town]\nkind = "category"\nvalues = ["Bern"]\n')
    assert run(["learn", "t.csv", "--schema", "s.toml", "--threshold", "0.01", "-o", "m.erasable"]) == 0
    text = printed(capsys, ["export", "m.erasable", "-o", name]).out
    assert f"{name}.toml: the schema. The file takes rows that it encodes: TableEncoder makes them" in text
    told = answered(capsys, ["export", "m.erasable", "-o", name, "--json"])
    assert set(told) == {"path", "form", "digest", "bytes", "schema"}
    encoder = TableEncoder(Schema.load(told["schema"]), sparse_output=False)
    assert encoder.transform({"age": [30, None], "town": ["Bern", None]}).shape == (2, 5)


def test_what_cannot_be_exported_is_one_line_and_a_code(clf, tmp_path, capsys):
    before = (tmp_path / "model.erasable").read_bytes()
    for arguments, says in (
        (["model.erasable", "-o", "m.pt"], "does not say what to write"),
        (["model.erasable", "-o", "m.onnx", "--format", "pmml"], "onnx, safetensors"),
        (["model.erasable", "-o", "model.erasable", "--format", "onnx"], "name of a model"),
    ):
        error = printed(capsys, ["export", *arguments], 2).err
        assert says in error
        assert error.count("\n") == 1
    assert (tmp_path / "model.erasable").read_bytes() == before
    X = np.random.default_rng(0).standard_normal((20, 3))
    ErasableKernelClassifier().fit(X, X[:, 0] > 0).save("kernel.erasable")
    assert "rows of people" in printed(capsys, ["export", "kernel.erasable", "-o", "k.onnx"], 2).err
    assert not (tmp_path / "k.onnx").exists()
