"""Models of sparse rows in files: size against the training set, memory, a durable forget, `load` and `verify`."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

SETS = {"retail600_kmeans2": (0.2, 0.3), "diabetes130": (0.1, 0.3)}  # values of kappa


def peak_mb():
    """Peak of this process; ru_maxrss would remember the one that started it."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def measure(X, y, kappa, rounds):
    """Share stored, bytes of the file and of the training set as CSR, seconds, and MB that the peak rose by."""
    from erasable import ErasableClassifier, ModelFile, load, verify

    ErasableClassifier(threshold=0.1).fit(X[:500], y[:500]).state_digest()
    before = peak_mb()
    clf = ErasableClassifier(kappa=kappa)
    fit, _ = timed(lambda: clf.fit(X, y))
    ids = clf.core_ids_.tolist()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.erasable")
        clf.save(path)
        peak, size = peak_mb() - before, path.stat().st_size
        file = ModelFile(path)
        file.forget(ids=ids[:1])
        durable = [timed(lambda k=k: file.forget(ids=[ids[k]]))[0] for k in range(1, rounds + 1)]
        loads = [timed(lambda: load(path))[0] for _ in range(rounds)]
        verifies = [timed(lambda: verify(load(path)))[0] for _ in range(max(1, rounds // 3))]
    in_memory = [timed(lambda k=k: clf.forget(ids=[ids[k]]))[0] for k in range(200)]
    as_csr = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    medians = [float(np.median(v)) for v in (durable, in_memory, loads, verifies)]
    return [len(ids) / X.shape[0], size, as_csr, fit, *medians, peak]


def main(folder, rounds=9):
    """Lines of a table, one for each set and kappa."""
    for name, kappas in SETS.items():
        X = sp.csr_array(sp.load_npz(Path(folder, f"{name}_train.npz")))
        y = np.load(Path(folder, f"{name}_labels.npz"))["y_train"]
        for kappa in kappas:
            share, size, as_csr, fit, durable, one, loads, verifies, peak = measure(X, y, kappa, rounds)
            print(
                f"| {name} | {kappa} | {share:.1%} | {size / 1e6:.2f} | {size / as_csr:.2f} | {fit:.2f} | "
                f"{durable * 1e3:.1f} | {one * 1e6:.0f} | {loads * 1e3:.0f} | {verifies:.2f} | {peak:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1])
