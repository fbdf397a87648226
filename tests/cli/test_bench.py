"""``erasable bench`` as a user types it."""

from __future__ import annotations

import inspect
import json
import sys

import pytest

from erasable.cli.app import run
from erasable.cli.bench import bench
from erasable.research import measuring
from erasable.research.bench import bench as operation


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(measuring, "settle", lambda: None)


def test_it_measures_three_things_as_json(capsys):
    assert run(["bench", "--rows", "1500", "--features", "5", "--rounds", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["features"], said["rounds"]) == (1500, 5, 2)
    assert 0 < said["core_rows"] < 1500
    assert [m["name"] for m in said["measurements"]] == ["learn", "forget one core row", "verify"]
    for m in said["measurements"]:
        assert m["ratio"] == m["other_s"] / m["ours_s"]
        for who in ("ours", "other"):
            low, high = m[f"{who}_range_s"]
            assert 0 < low <= m[f"{who}_s"] <= high
    assert said["machine"]["numpy"]


@pytest.mark.filterwarnings("error::erasable.errors.WeakModelWarning")  # a core set of so few rows
def test_it_shows_a_table(capsys):
    assert run(["bench", "--rows", "1000", "--features", "2", "--rounds", "1"]) == 0
    text = capsys.readouterr().out
    for words in ("1,000 rows × 2 features", "forget one core row", "ridge trained again", "rows stored"):
        assert words in text


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--rows", "999", "rows must be an integer, at least 1000"),
        ("--features", "1", "features must be an integer, at least 2"),
        ("--rounds", "0", "rounds must be a positive integer"),
    ],
)
def test_too_little_to_measure_is_refused(capsys, option, value, message):
    assert run(["bench", option, value]) == 2
    assert message in capsys.readouterr().err


def test_forgetting_leaves_half_of_a_small_core_set_to_be_verified(monkeypatch):
    module, left = sys.modules[operation.__module__], []
    monkeypatch.setattr(module, "verify", lambda clf: left.append(clf.n_core_))
    report = operation(1000, 2, rounds=4)
    assert report.core_rows < 4 * 4  # else all of them could not have been forgotten
    assert min(left) == report.core_rows - report.core_rows // 2


def test_the_defaults_are_those_of_the_operation():
    ours, theirs = inspect.signature(bench).parameters, inspect.signature(operation).parameters
    for name in ("rows", "features", "rounds"):
        assert ours[name].default == theirs[name].default
