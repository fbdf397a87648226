"""docs/commands.md, run from top to bottom."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

from erasable.cli.app import COMMANDS, EXIT_CODES, run

PAGE = (Path(__file__).parents[1] / "docs" / "commands.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|console)\n(.*?)```", PAGE, re.DOTALL)


def test_every_block_of_the_page_runs_and_shows_people_who_are_stored(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    commands = 0
    for kind, text in BLOCKS:
        if kind == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, "docs/commands.md", "exec"), {})
            promised = re.findall(r"print\(.*\)  # (.*)", text)
            assert printed.getvalue().splitlines() == promised
            continue
        for line in text.splitlines():
            program, *arguments = shlex.split(line.removeprefix("$ "))
            assert program == "erasable"
            capsys.readouterr()
            assert run(arguments) == 0, line
            shown = "".join(capsys.readouterr())
            assert not re.search("are not stored|Nothing is stored|no better than a constant", shown), line
            commands += 1
    assert commands >= 13


def test_the_page_names_every_command_and_exit_code():
    assert all(re.search(rf"\b{name}\b", PAGE) for name in COMMANDS)
    table = dict(re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE))
    assert {int(code): meaning for code, meaning in table.items()} == EXIT_CODES
