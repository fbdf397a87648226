"""``erasable demo`` as a user types it."""

from __future__ import annotations

import dataclasses
import hashlib
import shlex
import sys
from pathlib import Path

import pytest

import erasable.research.demo
from erasable.cli.app import run
from erasable.cli.demo import commands
from tests.cli.session import answered, printed

ORDERS = "b62495162660203e4b577b95ca945eb477307a46eab8c55b1870425582963171"  # the table is the same on every machine


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return erasable.research.demo.demo(tmp_path_factory.mktemp("demo") / "deep" / "out")


def test_it_tells_the_story_as_json(told, monkeypatch, capsys):
    monkeypatch.setattr(erasable.research.demo, "demo", lambda out, progress: told)
    said = answered(capsys, ["demo", "--json"])
    steps = {step["name"]: step for step in said["steps"]}
    assert list(steps) == [
        "schema",
        "learn",
        "forget 100 customers",
        "verify",
        "learn all survivors anew",
        "scan",
    ]
    assert steps["learn"]["stored"] > steps["verify"]["stored"] == steps["learn all survivors anew"]["stored"]
    assert steps["learn"]["offered"] > steps["learn all survivors anew"]["offered"] > 19_000
    assert steps["forget 100 customers"]["digest"] == steps["learn all survivors anew"]["digest"]
    assert steps["learn"]["stored"] < 0.3 * steps["learn"]["offered"]
    assert said["usual"] - 0.02 < steps["learn"]["auc"] < said["usual"] + 0.02
    assert "remains in orders.csv of the 3 files" in said["remarks"][-1]
    assert said["same"] is True
    people, cores, scores = zip(*said["curve"], strict=True)
    assert list(people) == sorted(people, reverse=True)
    assert list(cores) == sorted(cores, reverse=True)
    assert scores[0] > scores[-1] + 0.05
    assert hashlib.sha256(Path(said["table"]).read_bytes()).hexdigest() == ORDERS
    assert Path(said["picture"]).stat().st_size > 10_000
    assert Path(said["picture"]).parts[-3:] == ("deep", "out", "demo.png")


def test_it_shows_the_steps_and_the_verdict(told, monkeypatch, capsys):
    monkeypatch.setattr(erasable.research.demo, "demo", lambda out, progress: told)
    text = printed(capsys, ["demo"]).out
    for words in (*(step.name for step in told.steps), told.steps[1].digest[:12], "byte for byte the file", "picture"):
        assert words in text


def test_the_commands_that_it_ends_with_make_the_same_model(told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for line in commands(told.table):
        assert run(shlex.split(line)[1:]) == 0
    capsys.readouterr()
    assert hashlib.sha256(Path("model.erasable").read_bytes()).hexdigest() == told.steps[1].digest


def test_it_runs_without_matplotlib_and_says_what_the_picture_needs(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(erasable.research.demo, "LEARNT", 3000)
    monkeypatch.setattr(erasable.research.demo, "_LEFT", (1.0, 0.1))
    text = printed(capsys, ["demo", "--out", str(tmp_path)]).out
    assert "no picture: figures need matplotlib: pip install 'erasable[figures]'" in text
    assert not (tmp_path / "demo.png").exists()


def test_it_says_so_and_fails_when_the_states_differ(told, monkeypatch, capsys):
    wrong = dataclasses.replace(told, same=False)
    monkeypatch.setattr(erasable.research.demo, "demo", lambda out, progress: wrong)
    assert "NOT the file" in printed(capsys, ["demo"], 4).out
    assert run(["demo", "--json"]) == 4


def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert "cannot be used" in printed(capsys, ["demo", "--out", str(tmp_path / "file" / "out")], 2).err
