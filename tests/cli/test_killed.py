"""``learn`` and ``forget`` killed at every step: the file is from before or from after, and what is gone stays gone.

With a receipt, there is a whole one or none, and the same command once more succeeds and gives one.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from erasable import load, verify
from erasable.audit.scan import scan
from erasable.cli.app import run
from erasable.models import files as shards
from tests.machines.mortal import Killed, killed_at
from tests.store.killing import WRITING, strace_trouble

D = 10
RNG = np.random.default_rng(11)
ROWS = pd.DataFrame(RNG.standard_normal((60, D)), columns=[f"f{j}" for j in range(D)])
ROWS["id"] = [f"row-{i:04d}" for i in range(60)]
ROWS["who"] = [f"who-{i % 6}" for i in range(60)]
ROWS["label"] = ["yes", "no"] * 30
ONE_FILE, SHARDS = 2**30, 7 * 2 * (D + 1)
GONE = ROWS[ROWS.who == "who-2"]


class Model:
    """A model file, a change of it, and the files before and after the change."""

    def __init__(self, folder: Path, change: str) -> None:
        self.home, self.start, self.end = folder / "home", folder / "start", folder / "end"
        self.path = self.home / "m.erasable"
        self.home.mkdir()
        ROWS[:40].to_csv(folder / "rows.csv", index=False)
        ROWS[40:].to_csv(folder / "more.csv", index=False)
        columns = ["--id", "id", "--subject", "who", "--threshold", "0.05", "-o", str(self.path)]
        assert run(["learn", str(folder / "rows.csv"), *columns]) == 0
        forget = ["forget", str(self.path), "--subject", "who-2"]
        self.receipt, key = self.home / "r.json", str(folder / "signer")
        assert run(["keys", "new", "-o", key]) == 0
        self.public = [f"--key={key}.pub.pem", "--state", str(self.path)]
        self.command = {
            "forget": forget,
            "receipt": [*forget, "--receipt", str(self.receipt), "--key", f"{key}.pem"],
            "named receipt": [*forget, "--receipt", str(self.receipt), "--key", f"{key}.pem", "--request-id", "7"],
            "learn": ["learn", str(folder / "more.csv"), *columns],
            "first learn": ["learn", str(folder / "more.csv"), *columns],
        }[change]
        self.change, self.mode = change, 0o600 if change == "first learn" else 0o640
        self.path.chmod(self.mode)
        if change == "first learn":
            shutil.rmtree(self.home)
            self.home.mkdir()
        shutil.copytree(self.home, self.start)
        assert run(self.command) == 0
        shutil.copytree(self.home, self.end)
        assert self.files(self.start) != self.files(self.end)

    def files(self, folder: Path) -> dict[str, bytes]:
        """All files but the lock and the receipt, which says what time it is."""
        names = [p for p in folder.rglob("*") if p.is_file() and p.name not in (".m.erasable.lock", *RECEIPTS)]
        return {str(p.relative_to(folder)): p.read_bytes() for p in names}

    def prepare(self) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(self.start, self.home)

    def check(self, acknowledged: bool, where: str) -> None:
        """Reopened, it is wholly before or wholly after; after, if that was said, and with nothing left of the rows."""
        if self.path.exists():
            verify(load(self.path))
            assert self.path.stat().st_mode & 0o777 == self.mode, where
        assert run(["forget", str(self.path), "--id", "none"]) == (0 if self.path.exists() else 5)
        found = self.files(self.home)
        assert found == self.files(self.end) or (not acknowledged and found == self.files(self.start)), where
        if "receipt" in self.change:
            self.check_receipt(acknowledged, where)
            found = self.files(self.home)
        if self.change not in ("learn", "first learn") and found == self.files(self.end):
            rows = GONE[:40]
            report = scan(self.home, rows[[f"f{j}" for j in range(D)]].to_numpy(), ids=rows.id.tolist())
            assert report.clean, (where, report.as_json())
            assert not any(key.encode() in data for key in rows.id for data in found.values()), where

    def check_receipt(self, acknowledged: bool, where: str) -> None:
        """What is there is a receipt; and asked again, the command gives one of the state after."""
        assert self.receipt.exists() or not acknowledged, where
        before = self.receipt.read_bytes() if self.receipt.exists() else None
        if before is not None:
            assert run(["receipt", "verify", str(self.receipt), *self.public]) == 0, where
        taken = before is not None and self.change == "receipt"  # without a request id it may be of another request
        assert run(self.command) == (5 if taken else 0), where
        assert run(["receipt", "verify", str(self.receipt), *self.public]) == 0, where
        assert before in (None, self.receipt.read_bytes()), where
        assert {p.name for p in self.home.iterdir()} <= {".m.erasable.parts", *LEFT}, where


RECEIPTS = ("r.json", ".r.json.new")
LEFT = ("m.erasable", ".m.erasable.lock", "r.json")


@pytest.mark.parametrize(
    ("change", "largest", "torn"),
    [
        ("forget", ONE_FILE, False),
        ("forget", ONE_FILE, True),
        ("forget", SHARDS, True),
        ("receipt", ONE_FILE, True),
        ("named receipt", SHARDS, False),
        ("learn", ONE_FILE, True),
        ("learn", SHARDS, False),
        ("first learn", ONE_FILE, False),
        ("first learn", SHARDS, True),
    ],
)
def test_dead_at_every_change_of_the_disk(change, largest, torn, tmp_path, monkeypatch):
    """In this process, at the calls that change the disk; with models in one file and in several."""
    monkeypatch.setattr(shards, "LARGEST_FILE", largest)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 15 * 2 * (D + 1))  # three parts or so
    model = Model(tmp_path, change)
    step, deaths = 0, 0
    while deaths == step:
        model.prepare()
        acknowledged = False
        try:
            with killed_at(step, torn=torn):
                acknowledged = run(model.command) == 0
        except Killed:
            deaths += 1
        model.check(acknowledged, f"step {step}")
        step += 1
    assert acknowledged
    assert deaths > 8


@pytest.fixture(scope="module")
def warm():
    """A process with everything imported; it runs commands in children that strace kills where it is told."""
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-m", "tests.cli.warm"], text=True, env=environment, **pipes) as server:

        def ask(arguments, *strace):
            server.stdin.write(json.dumps({"arguments": arguments, "strace": strace}) + "\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            if "trouble" in answer:
                pytest.skip(answer["trouble"])
            return answer

        yield ask
        server.stdin.close()


@pytest.mark.skipif(strace_trouble() is not None, reason=str(strace_trouble()))
@pytest.mark.parametrize("change", ["forget", "receipt", "learn", "first learn"])
def test_killed_at_every_system_call_that_writes(change, warm, tmp_path):
    """A process of its own, by SIGKILL as it enters the n-th call of each kind that changes files or their names."""
    model = Model(tmp_path, change)
    model.prepare()
    log = tmp_path / "strace.txt"
    assert warm(model.command, "-o", str(log), "-e", "trace=" + ",".join(f"?{call}" for call in WRITING))["code"] == 0
    calls = dict.fromkeys(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))
    assert {"write", "fsync", "rename"} <= set(calls)
    kills = 0
    for call in calls:
        for n in itertools.count(1):
            model.prepare()
            kill = f"inject={call}:signal=SIGKILL:when={n}"
            answer = warm(model.command, "-o", "/dev/null", "-e", f"trace={call}", "-e", kill)
            model.check(answer["acknowledged"], f"{call}, number {n}")
            if answer["code"] == 0:
                break
            assert answer["code"] == -signal.SIGKILL
            kills += 1
    assert kills > 8
