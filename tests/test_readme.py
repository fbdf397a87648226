"""The README's examples and commands run and print what it says; what it links to and `make quick` names exists."""

import contextlib
import io
import re
import shlex
import subprocess
from pathlib import Path

from erasable.cli.app import run
from erasable.research.demo import HELD_OUT, LEARNT
from erasable.research.sets import write_orders

README = Path(__file__).parents[1] / "README.md"


def test_the_example_prints_what_its_comments_say():
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.S).group(1)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    lines = printed.getvalue().splitlines()
    said = re.findall(r"print\(.*\) +# ([\d. ]+)[:\n]", code)
    assert lines[: len(said)] == [s.strip() for s in said]
    assert len(said) == 2
    assert lines[2].startswith("verified: 438 core rows")


def test_the_commands_print_what_is_shown(tmp_path, monkeypatch, capsys):
    """On the table that the demo leaves; where the page has an ellipsis, anything may stand."""
    monkeypatch.chdir(tmp_path)
    write_orders("all.csv", LEARNT + HELD_OUT)
    with open("all.csv", encoding="utf-8") as rows:
        Path("orders.csv").write_text("".join(line for line, _ in zip(rows, range(LEARNT + 1), strict=False)))
    (session,) = re.findall(r"```console\n(.*?)```", README.read_text(), re.S)
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.M)
    assert len(steps) == 4
    for command, shown in steps:
        assert run(shlex.split(command)[1:]) == 0
        printed = capsys.readouterr().out
        for part in filter(None, map(str.strip, shown.split("…"))):
            assert part in printed
            printed = printed[printed.index(part) + len(part) :]


def test_the_page_is_short():
    assert len(README.read_text().splitlines()) <= 140


def test_every_file_the_readme_links_to_exists():
    links = re.findall(r"\]\((?!https:)([^)#]+)", README.read_text())
    assert len(links) > 5
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_every_path_that_make_quick_names_exists():
    done = subprocess.run(["make", "-n", "quick"], cwd=README.parent, capture_output=True, text=True, check=True)
    paths = [word for word in done.stdout.split() if word.startswith("tests")]
    assert len(paths) > 30
    assert [path for path in paths if not (README.parent / path).exists()] == []
