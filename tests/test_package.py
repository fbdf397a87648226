"""The package as strangers meet it: its page on an index, its extras, and the floors of what it needs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_page_on_an_index_has_no_link_into_the_repository():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(r"\]\((?!https://)", page)) > 20
    for step in SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        page = re.sub(step["pattern"], step["replacement"], page)
    assert re.findall(r"\]\((?!https://)[^)]*\)?", page) == []
    assert "![" not in page
    assert "the promise and its proof" in page


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
