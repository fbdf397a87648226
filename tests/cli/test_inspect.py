"""``erasable inspect`` as a user types it."""

from __future__ import annotations

import hashlib
import os
import stat

import pytest

from erasable import ErasableClassifier, load
from erasable.cli.app import run
from tests.cli.session import MODEL, N, content, learnt, refused, said
from tests.formats.models import rows

pytestmark = pytest.mark.usefixtures("folder")


def test_inspect_hides_rows(folder, capsys):
    learnt()
    model = load(MODEL)
    capsys.readouterr()
    for options in ([], ["--json"]):
        assert run(["inspect", MODEL, *options]) == 0
        text = capsys.readouterr().out
        assert model.state_digest() in text
        assert "age" in text
        for hidden in ("row ", "user ", "yes"):
            assert hidden not in text


def test_inspect_shows_rows_when_asked(folder, capsys):
    learnt()
    model = load(MODEL)
    capsys.readouterr()
    assert run(["inspect", MODEL, "--rows", "--json"]) == 0
    told = said(capsys)["rows"]
    assert [r["id"] for r in told] == model.core_ids_.tolist()
    assert {r["label"] for r in told} == {"yes", "no"}
    assert any(r["subject"] is None for r in told)
    assert run(["inspect", MODEL, "--rows"]) == 0
    text = capsys.readouterr().out
    for key in model.core_ids_.tolist():
        assert f"{key}\t" in text


def test_rows_are_shown_whole_and_as_they_are(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    X = rows(4)
    ids = ["long " * 60, "[bold]", "\x1b[2Jnasty", "plain"]
    names = ["[red]x", "\x1b[31my", "0x1p-3"]
    model = ErasableClassifier(threshold=0.0, feature_names=names)
    model.fit(X, [0, 1, 0, 1], ids=ids, subjects=[0, 1, 2, 3]).save(MODEL)
    assert run(["inspect", MODEL, "--rows"]) == 0
    text = capsys.readouterr().out
    assert ids[0] + "\t0\t0" in text  # a subject that is zero is no missing one
    assert "[bold]\t1\t1" in text
    assert "[red]x" in text
    assert "0x1p-3" in text  # a name of a column, and no number
    assert "\x1b" not in text


def test_inspect_as_json(folder, capsys):
    learnt()
    model = load(MODEL)
    capsys.readouterr()
    assert run(["inspect", MODEL, "--learnt", str(N), "--json"]) == 0
    told = said(capsys)
    assert {k: told[k] for k in ("kind", "format", "version", "features", "classes", "ids", "subjects", "files")} == {
        "kind": "linear",
        "format": "erasable-linear",
        "version": 1,
        "features": 3,
        "classes": 2,
        "ids": "str",
        "subjects": "str",
        "files": 1,
    }
    assert told["digest"] == model.state_digest() == hashlib.sha256(content()).hexdigest()
    assert told["core_rows"] == model.n_core_
    assert told["stored_share"] == model.n_core_ / N
    assert told["bytes"] == len(content())
    assert float.fromhex(told["configuration"]["threshold"]) == 0.1
    capacity = round(ErasableClassifier().capacity * 4**15) / 4**15  # on the grid
    assert float.fromhex(told["configuration"]["capacity"]) == capacity
    assert (told["threshold"], told["capacity"], told["gamma"]) == (0.1, capacity, None)
    assert told["configuration"]["feature_names"] == ["age", "weight", "height"]
    assert "rows" not in told
    assert run(["inspect", MODEL, "--learnt", str(N)]) == 0
    assert f"{model.n_core_ / N:.2%} of {N} learnt" in capsys.readouterr().out
    with refused(capsys, folder) as no:
        no(["inspect", MODEL, "--learnt", "0"], 2)
        no(["inspect", MODEL, "--learnt", str(model.n_core_ - 1)], 2, f"{model.n_core_} core rows")
        no(["inspect", "nowhere.erasable"], 5)


def test_looking_makes_no_files(folder, capsys):
    learnt(out="other.erasable")
    os.unlink(".other.erasable.lock")
    before = sorted(os.listdir())
    mode = os.stat(folder).st_mode
    os.chmod(folder, stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert run(["inspect", "other.erasable"]) == 0
        assert run(["verify", "other.erasable"]) == 0
        assert run(["predict", "other.erasable", "learnt.parquet"]) == 0
    finally:
        os.chmod(folder, mode)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(("order", "shown"), [("hashed", "hashed, random state 0"), ("given", "as given")])
def test_inspect_shows_the_order_of_rows(folder, capsys, order, shown):
    learnt(order=order)
    capsys.readouterr()
    assert run(["inspect", MODEL]) == 0
    assert shown in capsys.readouterr().out
