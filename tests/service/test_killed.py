"""A process that is killed again and again while it erases and learns: what it acknowledged is done by the last one."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter

from erasable.audit.keys import new_key, write_key
from erasable.audit.receipts import check_receipt
from erasable.operations.inspect import inspect
from erasable.service.service import ErasureService
from erasable.service.settings import Settings
from erasable.store import journal_key, read_journal
from tests.service.conftest import OPERATOR, saved
from tests.waiting import until

KILLS = 4
CHILD = """
import os, sys, threading, uuid
from pathlib import Path
from types import SimpleNamespace
import numpy as np
from erasable.audit.keys import read_private_key
from erasable.service.service import ErasureService
from erasable.service.settings import Settings

home, first = Path(sys.argv[1]), int(sys.argv[2])
service = ErasureService(
    {name: home / name for name in ("left", "right")}, home / "ledger", signer=read_private_key(home / "k.pem"),
    operator_key=b"o" * 32, settings=Settings(tick=0.02),
)

def say(what):
    os.write(1, f"{what}\\n".encode())

def learn():
    for i in range(first, first + 10_000):
        X, names = np.random.default_rng(i).standard_normal((1, 3)), [f"fresh-{i}"]
        block = SimpleNamespace(X=X, y=X[:, 0] > 0, ids=names, subjects=names, weights=None)
        service.learn("left", [block], skip_known=True)
        say(names[0])

service.start()
say("started")
threading.Thread(target=learn, daemon=True).start()
for i in range(first, first + 10_000):
    name = str(uuid.UUID(int=i + 1))
    batch = [f"person-{i}", *(f"person-nobody-{i}-{k}" for k in range(i % 3 * 100))]
    service.accept(name, "erasure", service.identities("controller_customer_id", batch), name.encode())
    say(i)
    service.note("look-up", "auditor", name)
    say(f"noted {name}")
"""


def test_no_acknowledged_request_is_lost_and_nobody_comes_back(tmp_path):
    key = new_key()
    write_key(key, tmp_path / "k")
    for seed, name in enumerate(("left", "right")):
        saved(tmp_path / name, seed=seed, n=400, people=[f"person-{i}" for i in range(400)])
    draw, said = random.Random(0), set()
    for kill in range(KILLS):
        first = 1000 * kill
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(first if kill % 2 else 40 * kill)],
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout.readline() == "started\n"
            while not (line := child.stdout.readline().strip()).isdigit():  # it may be learning first
                assert line
                said.add(line)
            time.sleep(draw.uniform(0.0, 0.3))
            child.kill()
            said |= {line, *child.stdout.read().split("\n")[:-1]}
    acknowledged = {int(line) for line in said if line.isdigit()}
    assert len(acknowledged) >= KILLS
    models = {name: tmp_path / name for name in ("left", "right")}
    settings = Settings(tick=0.02)
    service = ErasureService(models, tmp_path / "ledger", signer=key, operator_key=OPERATOR, settings=settings)
    with service:
        until(lambda: not service.health().waiting and not service.health().receipts_owed)
        entries = service.ledger.entries()
        noted = Counter(
            f"noted {event.request_id}" for event in service.ledger.trail(what="look-up", limit=10_000).events
        )
        assert {line for line in said if line.startswith("noted")} <= noted.keys()  # none is lost
        assert {entry.state.value for entry in entries} == {"completed"}
        done = {int(entry.request_id.replace("-", ""), 16) - 1 for entry in entries}
        assert acknowledged <= done
        for entry in entries:
            for text in service.receipts(entry.request_id).values():
                assert check_receipt(text, key.public).request_id == entry.request_id
    records = [record.content for record in read_journal(tmp_path / "ledger" / "past", journal_key(OPERATOR, "past"))]
    signed = Counter((r["request"], r["model"]) for r in records if "text" in r)
    assert signed == Counter((entry.key, model) for entry in entries for model in models)
    for path in models.values():
        left = {row["subject"] for row in inspect(path, rows=True).rows}
        fresh = {line for line in said if line.startswith("fresh")}  # learnt, and said so
        assert {who for who in left if "fresh" not in who} == {f"person-{i}" for i in range(400) if i not in done}
        assert path.name == "right" or fresh <= left
    for path in (tmp_path / "ledger").iterdir():
        assert b"person-" not in path.read_bytes()
        assert "open" not in path.name
