"""Every measurement can be asked for by name, and every result is one that can be measured again."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from benchmarks.audit import cell
from benchmarks.run import SECTIONS
from benchmarks.walks import Walk, source_of
from erasable import ErasableClassifier

FOLDER = Path(__file__).parents[2] / "benchmarks"
OURS = ("erasable", "benchmarks")
HELPERS = {"__init__", "run", "tools", "datasets", "poison_rows", "sets"}
# Read by gpu_tables; hours, see docs/audit.md; printed by make walks; printed, and kept as array_defaults.txt.
ELSEWHERE = {"gpu", "gpu_fit", "audit", "walks", "array_defaults"}


def test_every_section_of_the_results_can_be_asked_for():
    found = re.findall(r"<!-- section: (\w+) -->", (FOLDER / "RESULTS.md").read_text(encoding="utf-8"))
    assert len(found) > 15
    assert found == [name for name in SECTIONS if name in found]


def test_every_measurement_has_a_section():
    assert {path.stem for path in FOLDER.glob("*.py")} - HELPERS - ELSEWHERE == set(SECTIONS.values())


@pytest.mark.parametrize(("name", "module"), SECTIONS.items())
def test_every_section_is_a_function_of_its_module(name, module):
    assert callable(getattr(importlib.import_module(f"benchmarks.{module}"), name))


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_every_script_imports_what_exists(script):
    """Also those that need a GPU to run."""
    here = not script.stem.startswith("gpu") or importlib.util.find_spec("torch") is not None
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("erasable" if not here else OURS):
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name) or importlib.import_module(f"{node.module}.{name.name}")


@pytest.mark.parametrize(
    ("low", "power", "bold"), [(0.4999, 0.0, False), (0.5001, 0.0, False), (0.5001, 0.02, True), (0.501, 0.0, True)]
)
def test_an_area_that_is_above_chance_by_less_than_is_printed_is_not_bold(low, power, bold):
    verdict = "at chance" if low <= 0.5 else "tells a little"
    found = {"auc": [0.505, low, 0.51], "tied": False, "verdict": verdict, "tpr_at_1_percent": [0.02, power, 0.03]}
    assert cell(found).startswith("**") is bold


def test_a_walk_counts_the_files_that_a_call_passes_through():
    with Walk(counting=True).installed() as walk:
        ErasableClassifier(feature_map=None).fit([[0.0], [1.0]], [0, 1])
    assert any(name.endswith("core/selector.py") for name in walk.files)
    assert len(walk.functions) >= len(walk.files) <= walk.switches + 1


def test_source_figures_find_long_functions_many_parameters_and_any(tmp_path):
    names = ", ".join(f"a{i}: Any" for i in range(11))
    method = f"    def __init__(self, {names}): ...\n"
    text = f"class Public:\n{method}class _Private:\n{method}def long() -> Any:\n" + "    pass\n" * 60
    (tmp_path / "a.py").write_text(text)
    found = source_of(tmp_path)
    assert (found.files, found.lines, found.any_parameters, found.any_annotations) == (1, 65, 22, 23)
    assert [name.split()[-1] for name in found.long] == ["long"]
    assert found.many == ["  11 a.py:4 __init__"]
