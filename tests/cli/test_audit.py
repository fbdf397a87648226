"""``erasable audit`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from erasable import ErasableClassifier, ErasableKernelClassifier
from erasable.cli.app import run
from erasable.features import RandomFourierFeatures
from erasable.research import attacks
from erasable.schemas import Category, Number, Role, Schema
from erasable.tables import load_table
from tests.cli.session import answered, printed
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
    assert "the state holds nothing of the rows that left" in said
    assert (tmp_path / "audit" / "audit.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    found = json.loads((tmp_path / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert found["holds"]
    assert found["rows"] == SMALL.rows


def test_a_store_that_forgets_badly_is_an_exit_code(capsys, table):
    Path("out").mkdir()
    for name in (".audit.json.new", ".audit.html.new"):
        Path("out", name).write_text("what a killed writer left")
    assert (
        answered(capsys, ["audit", "soft-delete", "--data", table, "--quick", "--json", "-o", "out"], 1)["holds"]
        is False
    )
    assert {p.name for p in Path("out").iterdir()} == {"audit.json", "audit.html"}  # written as a whole


def test_a_file_of_independent_selection_is_audited_without_the_balance_of_its_labels(capsys, table):
    X, y = make_pool()
    options = {"rate": 0.5, "moments": np.full(X.shape[1], 0.25), "balance": 1.0}
    shares = {"no": 0.5, "yes": 0.5}  # an audit's labels are -1 and 1
    model = ErasableClassifier(
        selection="independent", class_shares=shares, **options, loss="squared", feature_map=None
    )
    model.fit(X, np.where(y > 0, "yes", "no")).save("model.erasable")
    found = answered(capsys, ["audit", "model.erasable", "--data", table, "--quick", "--json"])
    selection = [result for result in found["results"] if result["letter"] == "e"]
    assert selection[0]["verdict"] == "at chance exactly"
    assert "all surviving rows" in found["guarantee"]


def test_a_model_file_is_audited_with_its_own_parameters(capsys, table):
    X, y = make_pool()
    ErasableClassifier(threshold=np.inf, sample_rate=0.5, class_weight={-1: 2.0}, loss="squared", feature_map=None).fit(
        X, y, ids=range(240)
    ).save("model.erasable")
    found = answered(capsys, ["audit", "model.erasable", "--data", table, "--quick", "--json"])
    assert found["method"] == "model file"
    assert 0.3 < found["stored_share"] < 0.7


@pytest.mark.parametrize(
    "held",
    [
        ErasableClassifier(threshold=0.05, capacity=0.5, scaling=40.0, loss="squared", feature_map=None),
        ErasableClassifier(
            threshold=0.05,
            scaling=[1.0, 2.0, 1.0, 4.0, 1.0, 1.0],
            fit_intercept=False,
            loss="squared",
            feature_map=None,
        ),
        ErasableKernelClassifier(gamma=0.02, threshold=0.3, scaling=5.0),
    ],
    ids=["number", "columns", "kernel"],
)
def test_rows_are_scaled_as_the_model_scales_them(capsys, tmp_path, held):
    X, y = make_pool()
    X = X * np.linspace(1.0, 30.0, len(X))[:, None]
    np.savez(tmp_path / "long.npz", X=X, y=y)
    stored = held.fit(X, y, ids=range(240)).n_core_ / 240
    held.save("long.erasable")
    found = answered(capsys, ["audit", "long.erasable", "--data", "long.npz", "--quick", "--json"])
    assert stored / 2 < found["stored_share"] < 3 * stored  # of half as many rows
    weights = next(r for r in found["results"] if r["name"].startswith("weights before"))
    assert weights["note"].endswith(("1.000 with the true one", "0.999 with the true one"))


@pytest.fixture
def raw(tmp_path):
    """A raw table, and what a person knows of its columns."""
    rng = np.random.default_rng(0)
    colours, heights = rng.choice(["red", "green", "blue"], 300), rng.uniform(0, 2, 300)
    cells = [
        f"{name},{colour},{height:.3f},{'yes' if height > 1 else 'no'}"
        for name, colour, height in zip(range(300), colours, heights, strict=True)
    ]
    (tmp_path / "raw.csv").write_text("\n".join(["name,colour,height,tall", *cells]), encoding="utf-8")
    name = Role(name="name", role="id")
    label = Role(name="tall", role="label", classes=("no", "yes"))
    columns = (Category(name="colour", values=("red", "green", "blue")), Number(name="height", range=(0.0, 2.0)))
    return Schema([name, *columns, label]), Schema([name, *columns])


@pytest.mark.parametrize("named", [True, False])
def test_a_model_with_a_schema_is_audited_over_its_raw_table(capsys, raw, named):
    schema, unlabelled = raw
    chosen = schema if named else unlabelled
    table = load_table("raw.csv", label="tall", schema=chosen)
    ErasableClassifier(feature_map=chosen, loss="squared").fit(table.X, table.y, ids=table.ids).save("raw.erasable")
    label = [] if named else ["--label", "tall"]
    found = answered(capsys, ["audit", "raw.erasable", "--data", "raw.csv", "--quick", "--json", *label])
    assert found["features"] == schema.n_features_out
    assert found["holds"]


def test_numbers_to_predict_are_split_at_their_median(tmp_path):
    X, _ = make_pool()
    np.savez(tmp_path / "numbers.npz", X=X, y=X[:, 0] * 3.0)
    _, _, y = attacks.rows_named("numbers.npz")
    assert (y == np.where(X[:, 0] > np.median(X[:, 0]), 1, -1)).all()


def test_of_sparse_rows_as_many_are_drawn_as_are_wanted(tmp_path):
    X, y = make_pool()
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_matrix(X))
    np.savez(tmp_path / "sparse_labels.npz", y=y)
    _, rows, labels = attacks.rows_named("sparse.npz", most=210)
    assert rows.shape == (210, X.shape[1])
    assert len(labels) == 210


def test_what_cannot_be_audited_is_refused(capsys, table):
    assert "method must be one of linear" in printed(capsys, ["audit", "linea", "--data", table], 2).err
    assert run(["audit", "linear", "--data", "wine"]) == 2
    assert "digits, margin, breast_cancer, or a file" in capsys.readouterr().err
    X, y = make_pool()
    ErasableClassifier(feature_map=RandomFourierFeatures(20), loss="squared").fit(X, y).save("mapped.erasable")
    text = printed(capsys, ["audit", "mapped.erasable", "--data", table], 2).err
    assert "a feature map, which a file cannot hold" in text
    np.savez("one.npz", X=X, y=np.zeros(len(X)))
    assert "two classes" in printed(capsys, ["audit", "linear", "--data", "one.npz"], 2).err


@pytest.mark.parametrize("option", [["--quick"], ["--label", "y"], ["--ignore", "age"], ["--workers", "2"]])
def test_who_is_stored_is_no_attack(capsys, option):
    text = printed(
        capsys, ["audit", "m.erasable", "--data", "rows.csv", "--group", "kind", "--id", "row", *option], 2
    ).err
    assert "--group runs no attack" in text
