"""``erasable audit`` as a user types it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from erasable import ErasableClassifier
from erasable.cli.app import run
from erasable.features import RandomFourierFeatures
from erasable.research import attacks
from tests.research.attacks.cases import make_pool

SMALL = attacks.Sizes(rows=240, trials=3, shadows=16, candidates=4)


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(attacks, "QUICK", SMALL)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table(tmp_path):
    X, y = make_pool()
    np.savez(tmp_path / "rows.npz", X=X, y=np.where(y > 0, "yes", "no"))
    return "rows.npz"


def test_it_prints_verdicts_and_writes_page_and_figures(capsys, tmp_path):
    assert run(["audit", "linear", "--data", "digits", "--quick"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "3 of 3;" in said
    assert "forgetting left nothing behind" in said
    assert (tmp_path / "audit" / "audit.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    found = json.loads((tmp_path / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert found["holds"]
    assert found["rows"] == SMALL.rows


def test_a_store_that_forgets_badly_is_an_exit_code(capsys, table):
    assert run(["audit", "soft-delete", "--data", table, "--quick", "--json", "-o", "out"]) == 1
    assert json.loads(capsys.readouterr().out)["holds"] is False


def test_a_model_file_is_audited_with_its_own_parameters(capsys, table, tmp_path):
    X, y = make_pool()
    ErasableClassifier(threshold=np.inf, sample_rate=0.5, class_weight={-1: 2.0}).fit(X, y, ids=range(240)).save(
        "model.erasable"
    )
    assert run(["audit", "model.erasable", "--data", table, "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "model file"
    assert 0.3 < found["stored_share"] < 0.7


def test_what_cannot_be_audited_is_refused(capsys, table):
    assert run(["audit", "linea", "--data", table]) == 2
    assert "method must be one of linear" in capsys.readouterr().err
    X, y = make_pool()
    ErasableClassifier(feature_map=RandomFourierFeatures(20)).fit(X, y).save("mapped.erasable")
    assert run(["audit", "mapped.erasable", "--data", table]) == 2
    assert "maps its rows" in capsys.readouterr().err
    np.savez("one.npz", X=X, y=np.zeros(len(X)))
    assert run(["audit", "linear", "--data", "one.npz"]) == 2
    assert "two classes" in capsys.readouterr().err
