"""``erasable demo`` as a user types it."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest

import erasable.operations.demo
from erasable.cli.app import run


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return erasable.operations.demo.demo(tmp_path_factory.mktemp("demo"))


def test_it_tells_the_story_as_json(tmp_path, capsys):
    assert run(["demo", "--out", str(tmp_path / "deep" / "out"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    steps = {step["name"]: step for step in said["steps"]}
    assert list(steps) == ["learn", "forget 10 people", "verify", "fresh fit on survivors", "forget them in a file"]
    assert steps["learn"]["stored"] > steps["verify"]["stored"]
    assert steps["forget 10 people"]["digest"] == steps["fresh fit on survivors"]["digest"]
    assert steps["forget 10 people"]["digest"] == steps["forget them in a file"]["digest"]
    assert "found nothing" in said["remarks"][-1]
    assert said["same"] is True
    assert [people for people, _, _ in said["curve"]] == list(range(90, 0, -5))
    assert (tmp_path / "deep" / "out" / "demo.png").stat().st_size > 10_000
    assert said["picture"] == str(tmp_path / "deep" / "out" / "demo.png")


def test_it_shows_the_steps_and_the_verdict(told, monkeypatch, capsys):
    monkeypatch.setattr(erasable.operations.demo, "demo", lambda out, progress: told)
    assert run(["demo"]) == 0
    text = capsys.readouterr().out
    for words in (*(step.name for step in told.steps), told.steps[0].digest[:12], "byte for byte the state", "picture"):
        assert words in text


def test_it_runs_without_matplotlib_and_says_what_the_picture_needs(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(["demo", "--out", str(tmp_path)]) == 0
    assert "no picture: figures need matplotlib: pip install 'erasable[figures]'" in capsys.readouterr().out
    assert not (tmp_path / "demo.png").exists()


def test_it_says_so_and_fails_when_the_states_differ(told, monkeypatch, capsys):
    wrong = dataclasses.replace(told, same=False)
    monkeypatch.setattr(erasable.operations.demo, "demo", lambda out, progress: wrong)
    assert run(["demo"]) == 4
    assert "NOT the state" in capsys.readouterr().out
    assert run(["demo", "--json"]) == 4


def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert run(["demo", "--out", str(tmp_path / "file" / "out")]) == 2
    assert "cannot be used" in capsys.readouterr().err


def test_no_folder_no_picture():
    report = erasable.operations.demo.demo()
    assert (report.picture, report.no_picture) == (None, None)
