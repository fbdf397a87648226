"""Every example runs as a user would run it, and the attack comes out as documented, in fewer trials."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
GALLERY = sorted((EXAMPLES / "gallery").glob("plot_*.py"))
PICTURE = {
    "demo.py": "demo.png",
    "drift.py": "drift.png",
    "leak.py": "leak.png",
    "staged.py": "staged.png",
    "text_probe.py": "text_probe.png",
}


TRIALS = 5


def run(script: Path, out: Path, *options: str) -> str:
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(script), "--out", str(out), *options],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        cwd=out,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def leak(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("leak")
    return run(EXAMPLES / "leak.py", out, "--trials", str(TRIALS)), out


def test_every_example_is_known() -> None:
    assert {script.name for script in SCRIPTS} == set(PICTURE)


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.name != "leak.py"], ids=lambda script: script.name)
def test_example_runs_and_draws_its_picture(script: Path, tmp_path: Path) -> None:
    said = run(script, tmp_path)
    assert (tmp_path / PICTURE[script.name]).stat().st_size > 10_000
    if script.name == "drift.py":
        follows_the_new_world(said)


@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_a_script_of_the_gallery_draws_a_figure(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")
    plt.switch_backend("Agg")
    shown: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(plt.get_fignums()))
    runpy.run_path(str(script))
    plt.close("all")
    assert shown


def test_the_gallery_has_what_the_site_promises() -> None:
    assert len(GALLERY) >= 8


def test_leak_draws_its_picture(leak: tuple[str, Path]) -> None:
    assert (leak[1] / "leak.png").stat().st_size > 10_000


@pytest.mark.parametrize("part", ["A⁻¹", "A", "b", "w"])
def test_the_plain_float64_state_gives_the_deleted_row_away(leak: tuple[str, Path], part: str) -> None:
    _, right = row_of(leak[0], "plain float64", part)
    assert right >= 0.9 * TRIALS


@pytest.mark.parametrize("part", ["w", "everything"])
def test_all_ten_candidates_fit_an_erasable_state_in_every_trial(leak: tuple[str, Path], part: str) -> None:
    assert row_of(leak[0], "ErasableClassifier", part) == ("10 of 10", TRIALS / 10)


def follows_the_new_world(said: str) -> None:
    """Leverage alone stores nothing of the new world and stays at chance; samples store of it and follow."""
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in said.splitlines() if line[:1] == "│"]
    (_, _, stored, *alone, _), *sampled = rows
    assert stored == "0"
    assert max(map(float, alone)) < 0.55
    assert len(sampled) == 2
    for _, _, stored, *accuracy in sampled:
        assert float(stored.replace(",", "")) > 800
        assert sorted(accuracy) == accuracy
        assert float(accuracy[-2]) > 0.85
        assert float(accuracy[-1]) > 0.97


def row_of(output: str, model: str, part: str) -> tuple[str, float]:
    """How many candidates fit, and how many of the trials the attacker gets right, as printed."""
    pattern = rf"│ {re.escape(model)} +│ {re.escape(part)} +│ ([0-9a-z ]+?) +│ ([0-9.]+) of {TRIALS} +│"
    found = re.findall(pattern, output)
    assert len(found) == 1, output
    return found[0][0], float(found[0][1])
