"""A command as a process of its own: once for each command is enough, for the others ``run`` in this one will do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import erasable as package


def erasable(*arguments, cwd):
    """The finished process."""
    return subprocess.run(
        [sys.executable, "-m", "erasable", *arguments],
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        timeout=300,
        check=False,
        env={
            "PATH": "/usr/bin:/bin",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "HOME": str(cwd),
            "OPENBLAS_NUM_THREADS": "1",  # on little data more only wait for each other
            "PYTHONPATH": str(Path(package.__file__).parents[1]),  # the code under test
        },
    )
