"""Models of sparse rows: the file against the training set as CSR, memory, a durable forget, `load` and `verify`.

``python -m benchmarks.sparse_files DIR NAME KAPPA`` measures one model: by itself, for the sake of its peak.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from erasable import ErasableClassifier, ModelFile, load, verify

CASES = [("retail600_kmeans2", 0.2), ("retail600_kmeans2", 0.3), ("diabetes130", 0.2), ("diabetes130", 0.3)]
HEAD = [
    "data",
    "kappa",
    "rows stored",
    "file, MB",
    "with dense rows, MB",
    "file / training set as CSR",
    "fit, s",
    "durable forget, ms",
    "in memory, µs",
    "`load`, ms",
    "`load` and `verify`, s",
    "peak of fit and save, MB",
]


def peak_mb():
    """Peak of this process; ru_maxrss would remember the one that started it."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def measure(folder, name, kappa, rounds=9):
    """A line of the table."""
    X = sp.csr_array(sp.load_npz(Path(folder, f"{name}_train.npz")))
    y = np.load(Path(folder, f"{name}_labels.npz"))["y_train"]
    ErasableClassifier(threshold=0.1, loss="squared").fit(X[:500], y[:500]).state_digest()
    before = peak_mb()
    clf = ErasableClassifier(kappa=kappa, loss="squared")
    fit, _ = timed(lambda: clf.fit(X, y))
    ids = clf.core_ids_.tolist()
    with tempfile.TemporaryDirectory() as at:
        path = Path(at, "m.erasable")
        clf.save(path)
        peak, size = peak_mb() - before, path.stat().st_size
        file = ModelFile(path)
        file.forget(ids=ids[:1])
        durable = [timed(lambda k=k: file.forget(ids=[ids[k]]))[0] for k in range(1, rounds + 1)]
        loads = [timed(lambda: load(path))[0] for _ in range(rounds)]
        verifies = [timed(lambda: verify(load(path)))[0] for _ in range(rounds // 3)]
    state = clf._model.snapshot()
    entries, n = state.rows.nnz, len(ids)
    dense = size + 2 * n * (X.shape[1] + 1) - 2 * n - 4 * entries
    in_memory = [timed(lambda k=k: clf.forget(ids=[ids[k]]))[0] for k in range(min(200, n // 2))]
    as_csr = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    medians = [float(np.median(v)) for v in (durable, in_memory, loads, verifies)]
    return [
        f"{name}, {X.shape[0]:,} × {X.shape[1]:,}, {X.nnz / X.shape[0]:.1f} non-zeros a row",
        kappa,
        f"{n / X.shape[0]:.1%}",
        f"{size / 1e6:.2f}",
        f"{dense / 1e6:.2f}",
        f"{size / as_csr:.2f}",
        f"{fit:.2f}",
        f"{medians[0] * 1e3:.0f}",
        f"{medians[1] * 1e6:.0f}",
        f"{medians[2] * 1e3:.0f}",
        f"{medians[3]:.2f}",
        f"{peak:.0f}",
    ]


def rows(folder):
    """All lines, each from a process of its own."""
    for name, kappa in CASES:
        program = [sys.executable, "-W", "ignore", "-m", "benchmarks.sparse_files", str(folder), name, str(kappa)]
        done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
        yield json.loads(done.stdout)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
