"""Type checking for users: mypy and pyright, both strict, find nothing in code that uses the public names."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import erasable

USER = Path(__file__).with_name("uses_public_names.py")
WRONG = "from erasable import ErasableClassifier\nErasableClassifier().forget(ids=1, nobody=2).digest.foo\n"


@pytest.fixture(params=["good", "wrong"])
def project(request, tmp_path):
    """A folder with the code of a user, and whether it is right."""
    (tmp_path / "user.py").write_text(USER.read_text() if request.param == "good" else WRONG)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    return tmp_path, request.param == "good"


def run(*command, folder):
    done = subprocess.run(
        [*map(str, command)], cwd=folder, capture_output=True, encoding="utf-8", timeout=600, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_mypy_strict(project):
    folder, good = project
    cache = Path(__file__).parents[2] / ".mypy_cache" / "users"
    settings = "--strict", "--config-file", "", "--python-version", "3.11", "--cache-dir", cache
    code, said = run(sys.executable, "-m", "mypy", *settings, "user.py", folder=folder)
    assert (code == 0) is good, said


def test_pyright_strict(project):
    pyright = shutil.which("pyright", path=Path(sys.executable).parent) or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed: pip install 'pyright[nodejs]', or nox -s types")
    folder, good = project
    code, said = run(pyright, "--pythonpath", sys.executable, folder=folder)
    assert (code == 0) is good, said


def test_every_public_name_is_used():
    used = USER.read_text().partition("from erasable import (")[2].partition(")")[0].split(",")
    assert {name.strip() for name in used if name.strip()} == {*erasable.__all__}
