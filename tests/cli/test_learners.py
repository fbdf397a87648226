"""Models with a learner on the command line, and the page about them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from erasable import load
from erasable.cli.app import run
from erasable.models import companions
from erasable.research.sets import write_orders
from tests.cli.session import answered, printed
from tests.schemas.raw import OPTIONS, table, write

PAGE = Path(__file__).parents[2] / "docs" / "learners.md"


@pytest.fixture
def raw(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(table(), "raw.csv")
    assert run(["schema", "raw.csv", *OPTIONS, "--k", "5", "-o", "schema.toml"]) == 0
    return tmp_path


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(code, "docs/learners.md", "exec"), {})
    assert "learner digest" in capsys.readouterr().out
    write_orders("orders.csv", 3000)
    roles = ["--label", "returned", "--id", "order", "--subject", "customer"]
    assert run(["schema", "orders.csv", *roles, "-o", "schema.toml"]) == 0
    (session,) = re.findall(r"```\n(erasable learn.*?)```", page, re.S)
    assert [run(shlex.split(line)[1:]) for line in session.splitlines()] == [0] * 4
    assert len(Path("predictions.csv").read_text().splitlines()) == 3001


def test_every_command_takes_the_file(raw, capsys, monkeypatch):
    learner = ["--learner", "lightgbm", "--set", "n_estimators=10", "--set", "min_child_samples=3"]
    selecting = ["--selection", "independent", "--rate", "1"]
    assert run(["learn", "raw.csv", "--schema", "schema.toml", *learner, *selecting, "-o", "m.erasable"]) == 0
    before = load("m.erasable")
    assert before.learner == {"learner": "lightgbm", "n_estimators": 10, "min_child_samples": 3}
    assert run(["keys", "new", "-o", "signer"]) == 0
    assert run(["forget", "m.erasable", "--subject", "person-003", "--receipt", "r.json", "--key", "signer.pem"]) == 0
    public = ["--key", "signer.pub.pem"]
    assert run(["receipt", "verify", "r.json", *public, "--state", "m.erasable"]) == 0
    assert run(["evidence", "m.erasable", "--receipts", ".", *public, "-o", "pack"]) == 0
    assert "lightgbm was trained" in Path("pack/evidence.html").read_text()
    found = answered(capsys, ["verify", "m.erasable", "--json"])
    assert found["learner"]["name"] == "lightgbm"
    assert len(found["learner"]["sha256"]) == 64
    shown = printed(capsys, ["inspect", "m.erasable"]).out
    assert "lightgbm" in shown
    assert "min_child_samples=3" in shown
    key = str(load("m.erasable").core_ids_[0])
    assert "town:" in printed(capsys, ["inspect", "m.erasable", "--id", key]).out
    assert run(["learn", "raw.csv", "--schema", "schema.toml", "--skip-known", "-o", "m.erasable"]) == 0
    assert load("m.erasable").state_digest() == before.state_digest()  # the rows came back
    assert run(["predict", "m.erasable", "raw.csv", "--probabilities", "-o", "p.csv"]) == 0
    assert not Path(".m.erasable.learner").exists()  # training took less than a second
    monkeypatch.setattr(companions, "LEAST_SECONDS", 0.0)
    assert run(["predict", "m.erasable", "raw.csv", "--probabilities", "-o", "p.csv"]) == 0
    assert Path(".m.erasable.learner").exists()
    assert "trained again, with the same bits" in printed(capsys, ["verify", "m.erasable"]).out
    first = Path("p.csv").read_bytes()
    assert run(["predict", "m.erasable", "raw.csv", "--probabilities", "-o", "p.csv"]) == 0
    assert Path("p.csv").read_bytes() == first
    assert run(["forget", "m.erasable", "--id", key]) == 0
    assert not Path(".m.erasable.learner").exists()
    assert run(["predict", "m.erasable", "raw.csv", "--no-cache", "-o", "p.csv"]) == 0
    assert not Path(".m.erasable.learner").exists()
    assert np.isfinite(load("m.erasable").decision_function(table())).all()
    assert "cannot be exported" in printed(capsys, ["export", "m.erasable", "-o", "m.onnx"], 2).err


def test_a_renamed_model_leaves_nothing_behind(raw, capsys, monkeypatch):
    monkeypatch.setattr(companions, "LEAST_SECONDS", 0.0)
    learner = ["--learner", "lightgbm", "--set", "n_estimators=5", "--selection", "independent", "--rate", "1"]
    assert run(["learn", "raw.csv", "--schema", "schema.toml", *learner, "-o", "m.erasable"]) == 0
    assert run(["predict", "m.erasable", "raw.csv", "-o", "p.csv"]) == 0
    Path("m.erasable").rename("n.erasable")
    assert "'.m.erasable.learner' in the same folder" in printed(capsys, ["verify", "n.erasable"]).out
    assert answered(capsys, ["verify", "n.erasable", "--json"])["left_behind"] == [".m.erasable.learner"]
    look = ["scan", ".", "--for", "raw.csv", "--exclude", "*.erasable", "--exclude", "p.csv"]
    assert "renamed, removed or replaced" in " ".join(printed(capsys, look, 5).out.split())
    assert Path(".m.erasable.learner").exists()  # neither of them changed anything
    assert run(["forget", "n.erasable", "--id", "nobody"]) == 0
    assert not list(Path().glob(".*learner*"))
    assert "in the same folder" not in printed(capsys, ["verify", "n.erasable"]).out


def test_options_that_do_not_fit_are_refused(raw, capsys):
    def refused(*options):
        assert run(["learn", "raw.csv", "--schema", "schema.toml", *options, "-o", "m.erasable"]) == 2
        assert not Path("m.erasable").exists()
        return capsys.readouterr().err

    assert "learner must be one of" in refused("--learner", "svm")
    assert "is for --learner" in refused("--set", "num_leaves=3")
    assert "PARAMETER=VALUE" in refused("--learner", "lightgbm", "--set", "num_leaves")
    assert "num_leaves" in refused("--learner", "lightgbm", "--set", "num_leaves=many")
    assert "--loss and --learner" in refused("--learner", "lightgbm", "--loss", "logistic")
    assert "predicts numbers" in refused("--learner", "sklearn_ridge")


def test_scan_finds_the_rows_as_they_were_read(raw, capsys):
    """Rows that the schema encodes alike, and a learner tells apart."""
    options = ["--learner", "random_forest", "--selection", "independent", "--rate", "1", "-o", "m.erasable"]
    assert run(["learn", "raw.csv", "--schema", "schema.toml", *options]) == 0
    Path("raw.csv").rename(raw.parent / "raw.csv")
    capsys.readouterr()
    look = ["scan", ".", "--for", str(raw.parent / "raw.csv"), "--schema", "schema.toml", "--json"]
    assert run(look) == 1
    found = {(r["what"], r["row"]) for r in json.loads(capsys.readouterr().out)["remains"] if "m.erasable" in r["file"]}
    assert {row for what, row in found if what == "float64 row"} == set(range(240))
    ids = [f"row-{i:04d}" for i in range(1, 240)]
    Path("ids.txt").write_text("\n".join(ids))
    assert run(["forget", "m.erasable", "--ids-file", "ids.txt"]) == 0
    Path("ids.txt").unlink()
    capsys.readouterr()
    assert run(look) == 1
    found = {(r["what"], r["row"]) for r in json.loads(capsys.readouterr().out)["remains"] if "m.erasable" in r["file"]}
    assert {row for what, row in found if what == "float64 row"} == {0}


def test_the_second_verifier_states_what_it_does_not_check_of_learners(raw):
    assert run(["learn", "raw.csv", "--schema", "schema.toml", "--learner", "extra_trees", "-o", "m.erasable"]) == 0
    program = [sys.executable, str(PAGE.parents[1] / "verifier" / "erasable_verify.py"), "m.erasable"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 8
    assert "Altered rows, labels and parameters would not be noticed" in done.stdout
