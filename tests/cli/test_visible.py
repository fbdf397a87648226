"""What a terminal might obey is shown, and not obeyed: in names, paths and classes, whichever command prints them."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import erasable.cli
from erasable.cli._shared import text_table, visible
from erasable.cli.app import run
from tests.cli.session import answered, printed
from tests.formats.models import rows

# Colour, window title, clear to the end, a bell, a line of its own, right to left, half a character, markup, an emoji.
EVIL = "a\x1b[31m\x1b]0;t\x07\x9bJ\r\n\u202e\x7f[bold]x[link=u]:skull:\\"
N = 60
pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def session(folder, capsys):
    """A model, a key and a table, everything with names that a terminal would obey."""
    X = rows(N)
    columns = {
        "id": [f"{EVIL}{i}" for i in range(N)],
        "who": [f"{EVIL}{i % 9}" for i in range(N)],
        "label": [f"{EVIL}yes" if x > 0 else f"{EVIL}no" for x in X[:, 0]],
        EVIL: X[:, 0],
        "f1": X[:, 1],
    }
    pq.write_table(pa.table(columns), f"{EVIL}.parquet")
    arguments = ["--id", "id", "--subject", "who", "--threshold", "0.05", "-o", f"{EVIL}.erasable"]
    commands = [
        ["learn", f"{EVIL}.parquet", *arguments],
        ["keys", "new", "-o", f"{EVIL}key"],
        ["inspect", f"{EVIL}.erasable"],
        ["inspect", f"{EVIL}.erasable", "--rows"],
        ["verify", f"{EVIL}.erasable"],
        ["forget", f"{EVIL}.erasable", "--id", f"{EVIL}0", "--receipt", f"{EVIL}.json", "--key", f"{EVIL}key.pem"],
        ["receipt", "verify", f"{EVIL}.json", "--key", f"{EVIL}key.pub.pem", "--state", f"{EVIL}.erasable"],
        ["evidence", f"{EVIL}.erasable", "--receipts", f"{EVIL}.json", "-o", f"{EVIL}pack"],
        ["export", f"{EVIL}.erasable", "-o", f"{EVIL}.safetensors"],
        ["predict", f"{EVIL}.erasable", f"{EVIL}.parquet", "-o", f"{EVIL}.csv"],
        ["scan", ".", "--for", f"{EVIL}.parquet", "--id", "id", "--subject", "who"],
    ]
    return {" ".join(c[:1] + [a for a in c if a.startswith("--r")]): c for c in commands}


def is_plain(text, *, tabs=False):
    allowed = "\n\t" if tabs else "\n"
    return all(c.isprintable() or c in allowed for c in text)


def test_no_command_prints_what_a_terminal_obeys(session, capsys):
    capsys.readouterr()
    for name, arguments in session.items():
        code = run(arguments)
        out, err = capsys.readouterr()
        assert code == (1 if name == "scan" else 0), (name, err)
        assert is_plain(out, tabs="--rows" in name), (name, out)
        assert is_plain(err), (name, err)
        if name in ("learn", "forget --receipt", "export", "scan"):
            assert visible("a\x1b[31m") in out
            assert "[bold]x" in out.replace("\n", "")
            assert ":skull:" in out.replace("\n", "")


def test_json_stays_json(session, capsys):
    for name, arguments in session.items():
        if name != "predict":
            capsys.readouterr()
            run([*arguments, "--json"])
            out = capsys.readouterr().out
            assert is_plain(out), name
            json.loads(out)
    told = answered(capsys, ["inspect", f"{EVIL}.erasable", "--rows", "--json"])
    assert {row["label"] for row in told["rows"]} <= {f"{EVIL}yes", f"{EVIL}no"}
    assert EVIL in told["configuration"]["feature_names"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", f"{EVIL}.nowhere"],
        ["forget", f"{EVIL}.nowhere", "--id", "1"],
        ["forget", f"{EVIL}.erasable", "--ids-file", f"{EVIL}.nowhere"],
        ["forget", f"{EVIL}.erasable", "--id", "1", "--receipt", f"{EVIL}/r.json", "--key", f"{EVIL}key.pem"],
        ["learn", f"{EVIL}.parquet", "-o", "x.erasable", "--label", EVIL + "no column"],
        ["learn", f"{EVIL}.parquet", "-o", "x.erasable", "--features", EVIL],
        ["learn", f"{EVIL}.nowhere", "-o", "x.erasable"],
        ["predict", f"{EVIL}.erasable", f"{EVIL}.parquet", "-o", f"out.{EVIL}"],
        ["receipt", "verify", f"{EVIL}.nowhere", "--key", f"{EVIL}key.pub.pem"],
        ["keys", "new", "-o", f"{EVIL}/key"],
        ["plan", f"{EVIL}.parquet", "--label", EVIL + "no column"],
        ["reproduce", f"{EVIL}.parquet"],
        ["export", f"{EVIL}.erasable", "-o", f"x.{EVIL}"],
        ["scan", f"{EVIL}.nowhere", "--for", f"{EVIL}.parquet"],
        [EVIL],
        ["verify", f"--{EVIL}"],
    ],
)
def test_no_error_shows_what_a_terminal_obeys(arguments, session, capsys):
    for name in ("learn", "keys"):
        assert run(session[name]) == 0
    capsys.readouterr()
    assert run(arguments) not in (0, 1)
    out, err = capsys.readouterr()
    assert out == ""
    assert is_plain(err)
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_predictions_are_escaped_on_a_terminal_and_data_elsewhere(session, capsys, monkeypatch):
    assert run(session["learn"]) == 0
    capsys.readouterr()
    predict = ["predict", f"{EVIL}.erasable", f"{EVIL}.parquet", "--id", "id", "--label", "label", "--probabilities"]
    assert EVIL in printed(capsys, predict).out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = printed(capsys, predict).out
    assert is_plain(out)
    assert out.count("\n") == N + 1


@pytest.mark.parametrize("text", ["a", "Ä ß 漢 😀", "", "x\\y", "[bold]"])
def test_what_can_be_read_stays_as_it_is(text):
    assert visible(text) == text


def test_everything_else_is_shown_as_an_escape():
    every = "".join(map(chr, (*range(0x3000), *range(0xD800, 0xE100), *range(0xFFF0, 0x10010), 0xE0041, 0x10FFFF)))
    assert is_plain(visible(every))
    assert "\n" not in visible(every)
    assert visible("\x1b\n\u202e\udcff\U000e0041") == r"\x1b\n\u202e\udcff\U000e0041"


def test_a_path_that_is_no_text_is_printed(folder, capsys):
    assert r"\udcff\x1b.erasable" in printed(capsys, ["verify", os.fsdecode(b"\xff\x1b.erasable")], 5).err


def test_cells_of_tables_are_plain_text(capsys):
    from rich.console import Console

    console = Console(width=200, force_terminal=False)
    console.print(text_table(EVIL, (EVIL, EVIL), [(EVIL, EVIL)]))
    out = capsys.readouterr().out
    assert is_plain(out)
    assert len(re.findall(re.escape(visible(EVIL)), out)) == 5


def test_nothing_is_printed_past_the_one_function():
    """Commands use ``say``, and rich pages made by ``console``."""
    for path in sorted(Path(erasable.cli.__file__).parent.glob("*.py")):
        if path.name == "_shared.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("print", "Console"), f"{path.name}, line {node.lineno}"


def test_numbers_stay_numbers_on_a_terminal(folder, capsys, monkeypatch):
    X = rows(N)
    np.savez("t.npz", X=X, y=(X[:, 0] > 0).astype(int))
    assert run(["learn", "t.npz", "-o", "m.erasable"]) == 0
    piped = printed(capsys, ["predict", "m.erasable", "t.npz", "--probabilities"]).out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run(["predict", "m.erasable", "t.npz", "--probabilities"]) == 0
    assert capsys.readouterr().out == piped
