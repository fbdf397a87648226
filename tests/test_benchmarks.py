"""Every measurement can be asked for by name, and every result is one that can be measured again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.audit import cell
from benchmarks.run import SECTIONS

FOLDER = Path(__file__).parents[1] / "benchmarks"
HELPERS = {"__init__", "run", "tools", "datasets"}
ELSEWHERE = {"gpu", "gpu_fit", "audit"}  # read by gpu_tables; takes hours, and docs/audit.md has its tables


def test_every_section_of_the_results_can_be_asked_for():
    found = re.findall(r"<!-- section: (\w+) -->", (FOLDER / "RESULTS.md").read_text(encoding="utf-8"))
    assert len(found) > 15
    assert found == [name for name in SECTIONS if name in found]


def test_every_measurement_has_a_section():
    used = set(re.findall(r"from benchmarks\.(\w+) import", (FOLDER / "run.py").read_text(encoding="utf-8")))
    assert {path.stem for path in FOLDER.glob("*.py")} - HELPERS - ELSEWHERE <= used


@pytest.mark.parametrize(
    ("low", "power", "bold"), [(0.4999, 0.0, False), (0.5001, 0.0, False), (0.5001, 0.02, True), (0.501, 0.0, True)]
)
def test_an_area_that_is_above_chance_by_less_than_is_printed_is_not_bold(low, power, bold):
    verdict = "at chance" if low <= 0.5 else "tells a little"
    found = {"auc": [0.505, low, 0.51], "tied": False, "verdict": verdict, "tpr_at_1_percent": [0.02, power, 0.03]}
    assert cell(found).startswith("**") is bold
