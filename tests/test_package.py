"""The package as strangers meet it: its page on an index, its extras, and the floors of what it needs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from erasable.version import RELEASE

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_page_on_an_index_has_no_link_into_the_repository():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(r"\]\((?!https://)", page)) > 20
    for step in SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        page = re.sub(step["pattern"], step["replacement"], page)
    assert re.findall(r"\]\((?!https://)[^)]*\)?", page) == []
    assert "![" not in page
    assert "try it on your table, in ten minutes" in page


def test_every_requirement_has_a_floor():
    extras = SETTINGS["project"]["optional-dependencies"]
    needed = [*SETTINGS["project"]["dependencies"], *(one for extra in extras.values() for one in extra)]
    assert [one for one in needed if not one.startswith("erasable[") and ">=" not in one] == []


def test_extras_stay_small():
    """Data frames and clients that users may have are read, and not installed."""
    extras = SETTINGS["project"]["optional-dependencies"]
    assert [re.split("[>[]", one)[0] for one in extras["tables"]] == ["pyarrow"]
    assert not {"httpx", "pandas", "polars"} & {re.split("[>[]", one)[0] for one in extras["service"]}
    assert not any("[standard]" in one for one in extras["service"])


def test_every_extra_is_tested_alone():
    """Those left out need gigabytes, or are sets of other extras."""
    files = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "extras").glob("test_*.py")}
    extras = set(SETTINGS["project"]["optional-dependencies"])
    assert files - {"plain"} == extras - {"dev", "docs", "embeddings", "torch"}


def test_the_bill_of_materials_and_archives_name_no_folder_of_this_machine():
    """An installation from a path would be written down with that path: `nox -s package` installs by name."""
    session = (ROOT / "noxfile.py").read_text(encoding="utf-8").partition("def package(")[2]
    assert '"--find-links", str(dist), f"erasable=={version}"' in session


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_exists(path):
    """They cannot run here: every verb is one of make or nox, and every action is pinned to a commit."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    sessions = re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.M)
    described = yaml.safe_load(path.read_text(encoding="utf-8"))
    steps = [step for job in described["jobs"].values() for step in job["steps"]]
    assert described["permissions"] == {}
    assert all("timeout-minutes" in job for job in described["jobs"].values())
    for step in steps:
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
        for verb in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
            assert re.search(rf"^{verb}:", makefile, re.M)
        assert {*re.findall(r"\b(\w+)-\$", step.get("run", ""))} <= {*sessions}
        for file in re.findall(r"\b(?:tests|src|verifier)/[\w/.]+", step.get("run", "")):
            assert (ROOT / file).exists()


def test_every_python_is_named_everywhere():
    listed = [c.rsplit(" ", 1)[1] for c in SETTINGS["project"]["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert SETTINGS["project"]["requires-python"] == f">={listed[0]}"
    assert re.findall(r'"(3\.\d+)"', (ROOT / "noxfile.py").read_text(encoding="utf-8")) == listed
    tests = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    assert tests["jobs"]["quick"]["strategy"]["matrix"]["python"] == listed
    alone = tomllib.loads((ROOT / "verifier" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [c for c in alone["classifiers"] if "Python :: 3." in c] == [
        c for c in SETTINGS["project"]["classifiers"] if "Python :: 3." in c
    ]


def test_one_version_is_named_everywhere():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == RELEASE
    assert re.findall(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)[0] == RELEASE
