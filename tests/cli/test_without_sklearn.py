"""Commands that need no estimator do not wait for scikit-learn to be imported."""

import json
import subprocess
import sys

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableKernelClassifier
from erasable.audit.keys import new_key, write_key

CHILD = """
import json, os, sys
from erasable.cli.app import run
import erasable.operations.evidence, erasable.operations.forget, erasable.operations.predict  # once for all
ended = {}
for name, command in json.loads(sys.argv[1]).items():
    if not (child := os.fork()):
        code = run(command)
        sys.stdout.flush()
        os._exit(99 if "sklearn" in sys.modules else code)
    ended[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(json.dumps(ended))
"""
COMMANDS = {
    "forget": ["forget", "m.erasable", "--id", "row-1", "--id", "row-2"],
    "forget with a receipt": ["forget", "m.erasable", "--id", "row-3", "--receipt", "r.json", "--key", "signer.pem"],
    "forget what a list names": ["forget", "m.erasable", "--ids-file", "gone.txt"],
    "verify": ["verify", "m.erasable"],
    "inspect": ["inspect", "m.erasable", "--rows"],
    "inspect a row": ["inspect", "m.erasable", "--id", "row-7", "--subject", "ann", "--csv"],
    "receipt verify": ["receipt", "verify", "kept.json", "--key", "signer.pub.pem", "--state", "kept.erasable"],
    "evidence": ["evidence", "kept.erasable", "--receipts", "kept.json", "--key", "signer.pub.pem", "-o", "pack"],
    "keys new": ["keys", "new", "-o", "another"],
    "predict": ["predict", "m.erasable", "rows.csv", "--ignore", "label"],
}


@pytest.fixture(scope="module", params=["linear", "kernel"])
def folder(request, tmp_path_factory):
    from erasable.operations.forget import forget

    folder = tmp_path_factory.mktemp(request.param)
    X = np.random.default_rng(0).standard_normal((60, 3))
    new = ErasableClassifier(threshold=0.01) if request.param == "linear" else ErasableKernelClassifier(scaling=4.0)
    clf = new.fit(X, X[:, 0] > 0, ids=[f"row-{i}" for i in range(60)])
    clf.save(folder / "m.erasable")
    clf.save(folder / "kept.erasable")
    key = new_key()
    write_key(key, folder / "signer")
    forget(folder / "kept.erasable", ids=["row-0"], receipt=folder / "kept.json", key=key)
    (folder / "gone.txt").write_text("row-4\nrow-5\n")
    np.savetxt(folder / "rows.csv", np.c_[X, X[:, 0] > 0], delimiter=",", header="a,b,c,label", comments="")
    return folder


def test_scikit_learn_is_not_imported(folder):
    """Each command runs in a fork of one process; 99 stands for an import."""
    arguments = [sys.executable, "-c", CHILD, json.dumps(COMMANDS)]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=300)
    assert json.loads(done.stderr.splitlines()[-1]) == dict.fromkeys(COMMANDS, 0), done.stderr
