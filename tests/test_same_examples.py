"""A run today is a run tomorrow: which examples a law is tried with does not hang on what was imported before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

MODULE = "NUMBERS = " + str([10**12 + i for i in range(50)])


def examples() -> list[int]:
    seen = []

    @settings(max_examples=300, derandomize=True)
    @given(st.integers())
    def law(number: int) -> None:
        seen.append(number)

    law()
    return seen


def test_a_module_with_other_constants_changes_no_example(tmp_path, monkeypatch):
    before = examples()
    (tmp_path / "constants_of_ours.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import constants_of_ours

    assert constants_of_ours.NUMBERS[0] not in before
    assert examples() == before


def test_versions_of_hypothesis_that_draw_no_constants_will_do():
    script = (
        "import runpy, sys, hypothesis.internal.conjecture as room\n"
        "if hasattr(room, 'providers'): del room.providers\n"
        "sys.modules['hypothesis.internal.conjecture.providers'] = None\n"
        "assert runpy.run_path(sys.argv[1])['providers'] is None\n"
    )
    conftest = str(Path(__file__).with_name("conftest.py"))
    done = subprocess.run([sys.executable, "-c", script, conftest], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_stands_for_an_fsync_refuses_a_file_that_is_closed(tmp_path):
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    assert os.fsync(descriptor) is None
    os.close(descriptor)
    with pytest.raises(OSError, match="descriptor"):
        os.fsync(descriptor)
