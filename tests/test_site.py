"""Tutorials and guides of the site, each run from top to bottom in an empty folder."""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import importlib.util
import io
import re
import shlex
from pathlib import Path

import pytest

import erasable
from erasable.cli.app import run
from erasable.service.http.configuration import Configuration
from erasable.service.settings import Settings

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted([DOCS / "arithmetic.md", DOCS / "choose.md", *DOCS.glob("start/*.md"), *DOCS.glob("guides/*.md")])


def module_of_the_site(name: str):
    """A module of the folder docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


examples = module_of_the_site("_examples")


def run_python(text: str, page: str, names: dict[str, object]) -> None:
    """Run a block; it prints what the comments after its print calls, or at its end, promise."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, page, "exec"), names)
    promised = re.findall(r"^ *print\(.*\)  # (.*)$|^# (.*)$", text, re.MULTILINE)
    assert printed.getvalue().splitlines() == ["".join(one) for one in promised]


def run_commands(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run each command of a block; it prints the lines that follow it, ``…`` stands for anything."""
    text = re.sub(r" *\\\n *", " ", text)  # commands over several lines
    for entry in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, *promised = entry.splitlines()
        program, *arguments = shlex.split(line)
        assert program == "erasable"
        capsys.readouterr()
        assert run(arguments) == 0, line
        shown = "".join(capsys.readouterr())
        for part in (part for one in promised for part in one.split("…") if part.strip()):
            assert part in shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_the_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|console)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}  # later blocks know what earlier ones defined
    for kind, text in blocks:
        run_python(text, str(page), names) if kind == "python" else run_commands(text, capsys)


def test_the_pages_have_blocks_to_run():
    with_blocks = [page for page in PAGES if re.search("```(python|console)\n", page.read_text(encoding="utf-8"))]
    assert len(with_blocks) >= 11


@pytest.mark.parametrize("owner", examples.METHODS)
def test_the_examples_of_methods_run(owner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for method in examples.METHODS[owner]:
        test = doctest.DocTestParser().get_doctest(examples.example(owner, method), {}, f"{owner}.{method}", None, 0)
        assert test.examples
        assert doctest.DocTestRunner().run(test).failed == 0


def test_every_public_name_has_a_page_of_the_api():
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8").split()
    assert [name for name in erasable.__all__ if not name.startswith("__") and name not in page] == []


def test_every_setting_of_the_service_has_a_line():
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    names = {field.name for kind in (Settings, Configuration) for field in dataclasses.fields(kind)} - {"service"}
    assert len(names) > 30
    assert [name for name in names if f"`{name}`" not in page] == []


@pytest.mark.parametrize("page", sorted([*DOCS.glob("*.md"), *DOCS.glob("[sg]*/*.md")]), ids=lambda page: page.stem)
def test_no_page_goes_on_for_more_than_two_screens_without_a_heading(page):
    """A screen has about fifty lines of 120 characters."""
    text = re.sub(
        r"```.*?```", lambda block: block[0].replace("\n#", "\n"), page.read_text(encoding="utf-8"), flags=re.S
    )
    parts = re.split(r"^#+ ", text, flags=re.MULTILINE)
    assert max(sum(1 + len(line) // 120 for line in part.splitlines()) for part in parts) <= 100


def test_every_figure_is_drawn_from_the_tables_of_the_results(tmp_path):
    pytest.importorskip("matplotlib")
    figures = module_of_the_site("_figures")
    figures.write(DOCS.parent / "benchmarks" / "RESULTS.md", tmp_path / "figures")
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {"card.png", *(f"{name}-{theme}.svg" for name in figures.FIGURES for theme in figures.THEMES)}
    assert len((tmp_path / "choose.inc").read_text(encoding="utf-8").splitlines()) == 2 + len(figures.CHOICES) + 1
