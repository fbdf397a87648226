"""A table as text, and commands in this process: what tests of one extra share, with nothing but a plain install."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from erasable.cli.app import run

N = 60
LEARN = ["--label", "churned", "--id", "row", "--subject", "person", "-o", "m.erasable"]


def lines(labels=("yes", "no")):
    """The lines of a CSV with numbers, whole numbers, text ids, people and labels."""
    rng = np.random.default_rng(0)
    X = rng.integers(-64, 65, (N, 2)) / 16 + 1 / 32
    rows = [f"r{i},p{i % 9},{a},{b},{i % 7},{labels[a + b > 0]}" for i, (a, b) in enumerate(X.tolist())]
    return ["row,person,age,weight,visits,churned", *rows]


def put(name="t.csv", **how):
    """The table as a CSV in the working directory."""
    Path(name).write_text("\n".join(lines(**how)) + "\n", encoding="utf-8")
    return name


def archive(name="t.npz"):
    """Rows, labels, ids and subjects in an archive, which needs no extra."""
    X = np.array([line.split(",")[2:5] for line in lines()[1:]], dtype=np.float64)
    y = np.array([line.rpartition(",")[2] for line in lines()[1:]])
    np.savez(name, X=X, y=y, ids=[f"r{i}" for i in range(N)], subjects=[f"p{i % 9}" for i in range(N)])
    return name


def printed(capsys, *arguments, code=0):
    """What a command prints on both streams."""
    capsys.readouterr()
    found = run([*map(str, arguments)])
    out, err = capsys.readouterr()
    assert found == code, err
    return out + err


def answered(capsys, *arguments):
    """What a command prints, as JSON."""
    return json.loads(printed(capsys, *arguments, "--json"))


def without(monkeypatch, *modules):
    """Make modules, and all below them, fail to import, as where they are not installed."""
    for name in [*modules, *(m for m in sys.modules if m.partition(".")[0] in modules)]:
        monkeypatch.setitem(sys.modules, name, None)
