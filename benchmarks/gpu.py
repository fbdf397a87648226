"""Rows screened on a GPU: whether the state is that of the processor, and how fast it is.

    PYTHONPATH=src python benchmarks/gpu.py [--out FILE] [--rows N] [--columns D] [--device cuda] [--state COMMIT]

Prints what it finds and writes it as JSON, section by section, so that a run that is cut short leaves what it has.
Needs PyTorch and what the package needs; with the defaults some 60 GB of memory here and 60 GB there, and some five
minutes on an H200.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
import warnings
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from benchmarks.gpu_fit import in_turns, whole_fit
from benchmarks.tools import code_state
from erasable.core import arrays
from erasable.core.arrays import DeviceRows
from erasable.core.selector import RawRows
from erasable.engines import Torch
from erasable.engines.device import DeviceScreen, probe
from erasable.errors import EngineError, WeakModelWarning
from erasable.estimators.linear import ErasableClassifier
from erasable.features import RandomFourierFeatures

SOURCE = Path(__file__).resolve().parent.parent / "src"
FOUND: dict[str, dict] = {}
warnings.simplefilter("ignore", WeakModelWarning)  # rows are made to be hard, not to be learnt


class Run:
    """What the sections share."""

    def __init__(self, given):
        self.name, self.n, self.d, self.out = given.device, given.rows, given.columns, given.out
        self.state = given.state
        self.device = torch.device(given.device)
        self.cuda = self.device.type == "cuda"
        self.made = None
        if not self.cuda:
            arrays._SHARED = ()  # what a GPU would do is then done here

    def sync(self):
        """Wait for the device."""
        if self.cuda:
            torch.cuda.synchronize()

    def timed(self, work, repeats=7):
        """Median seconds after a warm-up."""
        work()
        times = []
        for _ in range(repeats):
            self.sync()
            began = time.perf_counter()
            work()
            self.sync()
            times.append(time.perf_counter() - began)
        return float(np.median(times))


def machine(run):
    facts = {"torch": torch.__version__, "python": sys.version.split()[0], "cores": os.cpu_count()}
    facts |= {"state": run.state or code_state(), "day": time.strftime("%Y-%m-%d", time.gmtime())}
    if run.cuda:
        properties = torch.cuda.get_device_properties(run.device)
        facts |= {"gpu": properties.name, "gpu_bytes": properties.total_memory, "cuda": torch.version.cuda}
    return facts


# -- is it the same? ----------------------------------------------------------------------------------------------


def hard_rows(n, d, seed):
    """Zeros, duplicates, rows of few integers whose leverages tie, and rows a hair beside them."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) * np.geomspace(1.0, 0.05, d)).astype(np.float32)
    X[: n // 4] = np.eye(d, dtype=np.float32)[rng.integers(d, size=n // 4)] * rng.integers(1, 4, (n // 4, 1))
    X[n // 4 : n // 3] = np.round(X[n // 4 : n // 3])
    X[n // 3 : n // 2] = np.repeat(X[-5:], n, axis=0)[: n // 2 - n // 3]
    near = X[: n // 8] * np.float32(1 + 2.0**-20)
    near[:, 0] += np.float32(2.0**-18)
    X[n // 2 : n // 2 + n // 8] = near
    return X, np.where(X @ rng.standard_normal(d) > 0, "yes", "no")


def digests(run):
    """The state with and without the device, on rows that make it hard."""
    cases = {
        "ties, 6 columns": ({"threshold": 0.05}, hard_rows(3000, 6, 1), np.float32),
        "ties, capacity 1": ({"threshold": 0.5, "capacity": 1.0}, hard_rows(3000, 5, 2), np.float32),
        "ties, no intercept": (
            {"threshold": 0.25, "capacity": 0.25, "fit_intercept": False},
            hard_rows(2000, 4, 3),
            np.float32,
        ),
        "float64": ({"threshold": 0.05}, hard_rows(3000, 6, 4), np.float64),
        "a public scale": ({"threshold": 0.02, "scaling": 50.0}, hard_rows(3000, 6, 5), np.float32),
        "scales of columns": ({"threshold": 0.05, "scaling": np.arange(1.0, 7.0)}, hard_rows(3000, 6, 6), np.float32),
        "a feature map": (
            {"threshold": 0.05, "feature_map": RandomFourierFeatures(20)},
            hard_rows(3000, 6, 7),
            np.float32,
        ),
        "64 columns": ({"threshold": 0.02}, hard_rows(60_000, 64, 8), np.float32),
        "wide": ({"threshold": 0.3}, hard_rows(20_000, min(run.d, 1024), 9), np.float32),
    }
    found = {}
    for name, (how, (X, y), dtype) in cases.items():
        ids, first = np.random.default_rng(len(X)).permutation(len(X)), len(X) // 10
        rows = X.astype(dtype)

        def learnt(engine, how=how, X=rows, y=y, ids=ids, first=first):
            """In two calls, so that all rows of the second are screened."""
            clf = ErasableClassifier(**how, engine=engine, loss="squared", feature_map=None).partial_fit(
                X[:first], y[:first], ids=ids[:first]
            )
            return clf.partial_fit(X[first:], y[first:], ids=ids[first:])

        plain = learnt(None)
        same = {}
        ways = [("arrays", run.name, 2**k) for k in (16, 22, 27)]
        ways += [("arrays, screened by torch here", "cpu", 2**22), ("tensors", run.name, 2**18)]
        for way, device, block in ways:
            engine = Torch(device)
            engine.block_bytes = block
            given = torch.tensor(rows, device=run.device) if way == "tensors" else rows
            one = learnt(engine, X=given).state_digest() == plain.state_digest()
            same[way] = same.get(way, True) and one
        whole = ErasableClassifier(**how, loss="squared", feature_map=None).fit(rows, y, ids=ids).state_digest()
        there = ErasableClassifier(**how, engine=Torch(run.name), loss="squared", feature_map=None).fit(
            torch.tensor(rows, device=run.device), y, ids=ids
        )
        same["tensors, one call"] = there.state_digest() == whole
        found[name] = {"same_digest": all(same.values()), "ways": same, "core_rows": plain.n_core_, "rows": len(X)}
    found["all_same"] = all(case["same_digest"] for case in found.values())
    return found


def screen_of(run):
    """A screen from the core rows of a model, the model, and a generator of rows like its own on the device."""
    if run.made is None:
        generator = torch.Generator(run.device).manual_seed(5)
        spectrum = torch.arange(1, run.d + 1, device=run.device) ** -0.5

        def rows(n):
            return torch.randn(n, run.d, generator=generator, device=run.device) * spectrum

        some = rows(20 * run.d).cpu().numpy()
        run.made = ErasableClassifier(threshold=0.06, loss="squared", feature_map=None).fit(some, some[:, 0] > 0), rows
    clf, rows = run.made
    return DeviceScreen(clf.model_.screening(), run.name), clf, rows


def survivors(run):
    """Which rows are left here and there: at most a few whose leverage lies between two roundings may differ."""
    screen, clf, rows = screen_of(run)
    X = rows(20_000).cpu().numpy()
    raw = RawRows(X, clf.model_.configuration.grid)
    here, there = clf.model_.screening()(raw), screen(raw)
    return {
        "rows": len(X),
        "left_here": int(here.sum()),
        "left_there": int(there.sum()),
        "differ": int((here != there).sum()),
    }


PROBE = """
import sys, torch
from erasable.engines.device import probe
from erasable.errors import EngineError
try:
    probe(torch, torch.device(sys.argv[1]), 4096, int(sys.argv[2]))
except EngineError:
    print("refused")
else:
    print("passed")
"""


def probes(run):
    """Full float32 passes; TF32, by a setting or by the environment, does not."""
    probe(torch, run.device, 4096, run.d)
    found = {"float32": "passed"}
    if not run.cuda:
        return found
    torch.set_float32_matmul_precision("high")
    try:
        probe(torch, run.device, 4096, run.d)
        found["set to TF32"] = "passed"
    except EngineError:
        found["set to TF32"] = "refused"
    torch.set_float32_matmul_precision("highest")
    for variable in ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"):
        source = str(SOURCE)
        environment = {**os.environ, variable: "1", "PYTHONPATH": source}
        command = [sys.executable, "-c", PROBE, run.name, str(run.d)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        found[variable] = done.stdout.strip() or done.stderr[-300:]
    return found


# -- how fast? ----------------------------------------------------------------------------------------------------


def ceilings(run):
    """What the device does at best: products in float32 and TF32, and copies to it."""
    n = 2**18 if run.cuda else 2**12
    X, M = (torch.randn(*shape, device=run.device) for shape in ((n, run.d), (run.d, run.d)))
    found = {}
    for name, precision in (("float32", "highest"), ("tf32", "high")):
        torch.set_float32_matmul_precision(precision)
        seconds = run.timed(lambda: (X @ M).square().sum(1))
        found[f"{name}_rows_per_s"] = n / seconds
        found[f"{name}_tflops"] = 2 * n * run.d**2 / seconds / 1e12
    torch.set_float32_matmul_precision("highest")
    if run.cuda:
        for name, pinned in (("pinned", True), ("pageable", False)):
            host = torch.empty((n, run.d), pin_memory=pinned).normal_()
            seconds = run.timed(lambda host=host: X.copy_(host, non_blocking=True))
            found[f"{name}_bytes_per_s"], found[f"{name}_rows_per_s"] = X.nbytes / seconds, n / seconds
    return found


def on_the_device(run):
    """Rows that are on the device already: the screen alone, and a whole call of ``learn`` into a model that is there.

    Both against ``(X @ M).square().sum(1)`` in float32 on the same rows, in turns.
    """
    screen, clf, rows = screen_of(run)
    ready, n = screen.ready(), 2**18 if run.cuda else 2**12
    X = rows(n)
    products = torch.empty_like(X)
    product = run.timed(lambda: (X @ ready.M).square().sum(1))
    alone = run.timed(lambda: ready.test(X, None, products))
    found = {
        "product_rows_per_s": n / product,
        "rows_per_s": n / alone,
        "of_float32_rate": product / alone,
        "wanted": 0.5,
    }
    X = products = None

    n = min(run.n, 2**23 if run.cuda else 2**14)
    X = rows(n)
    y = (X[:, 0] > 0).cpu().numpy()
    best = run.timed(lambda: [(part @ ready.M).square().sum(1) for part in X.split(2**18)], 3)
    raw = RawRows(DeviceRows(X), clf.model_.configuration.grid)
    screened = run.timed(lambda: screen(raw), 3)
    times, reports = [], []
    for _ in range(3):
        more = deepcopy(clf).set_params(engine=Torch(run.name))
        run.sync()
        began = time.perf_counter()
        reports.append(more.learn(X, y))
        times.append(time.perf_counter() - began)
    passes = float(np.median([sum(one.screening_seconds for one in report.rounds) for report in reports]))
    found["through_fit"] = {
        "rows": n,
        "product_rows_per_s": n / best,
        "screen_rows_per_s": n / screened,
        "screen_of_float32_rate": best / screened,
        "pass_rows_per_s": n / passes,
        "pass_of_float32_rate": best / passes,
        "call_rows_per_s": n / float(np.median(times)),
        "rounds": [vars(one) for one in reports[-1].rounds],
    }
    return found


def streamed(run):
    """Rows that lie in the memory of the host: pinned, and as arrays usually are."""
    screen, clf, rows = screen_of(run)
    n, found = 2**21 if run.cuda else 2**13, {}
    for name in ("pinned", "pageable") if run.cuda else ("pageable",):
        host = torch.empty((n, run.d), pin_memory=name == "pinned")
        for low in range(0, n, n // 8):
            host[low : low + n // 8].copy_(rows(n // 8))
        raw = RawRows(host.numpy(), clf.model_.configuration.grid)
        seconds = run.timed(lambda raw=raw: screen(raw), 3)
        found[name] = {"rows_per_s": n / seconds, "bytes_per_s": 4 * n * run.d / seconds}
        if run.cuda:
            share = found[name]["bytes_per_s"] / FOUND["ceilings"][f"{name}_bytes_per_s"]
            found[name] |= {"of_copy_rate": share, "wanted": 0.8}
        del host, raw
    return found


def hogged(run, left):
    """Memory of the device that is taken, in ever smaller pieces, until next to so many bytes are left."""
    taken, piece = [], 2**34
    while piece >= 2**20:
        free, _ = torch.cuda.mem_get_info()
        try:
            if free - piece < left:
                raise torch.OutOfMemoryError
            taken.append(torch.empty(piece, dtype=torch.uint8, device=run.device))
        except torch.OutOfMemoryError:
            piece //= 2
    return taken


def short_of_memory(run):
    """With little memory left on the device, the same answer in smaller chunks; with next to none, an error."""
    if not run.cuda:
        return {"left_out": "there is no GPU"}
    screen, clf, rows = screen_of(run)
    X = rows(50_000).cpu().numpy()
    raw = RawRows(X, clf.model_.configuration.grid)
    expected = screen(raw)
    torch.cuda.empty_cache()
    found = {}
    for name, left in (("little", 200 * 2**20), ("next to none", 2 * 2**20)):
        again = DeviceScreen(screen.stale, run.name)
        ready = again.ready()
        torch.cuda.empty_cache()
        hog = hogged(run, left)
        try:
            found[name] = {"same": bool((again(raw) == expected).all()), "rows_at_a_time": ready.step}
        except EngineError as error:
            found[name] = {"error": str(error)}
        del hog, again, ready
        torch.cuda.empty_cache()
    return found


SECTIONS = (
    machine,
    ceilings,
    on_the_device,
    streamed,
    in_turns,
    whole_fit,
    digests,
    survivors,
    probes,
    short_of_memory,
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", nargs="*", help="names of sections")
    parser.add_argument("--state", help="the code state, where the repository does not tell")
    given = parser.parse_args()
    run, failed = Run(given), 0
    for section in SECTIONS:
        name = section.__name__
        if given.only and name not in given.only and section is not machine:
            continue
        began = time.perf_counter()
        try:
            FOUND[name] = section(run)
        except Exception as error:
            failed += 1
            FOUND[name] = {"failed": f"{type(error).__name__}: {error}"}
            traceback.print_exc()
        FOUND[name]["took_s"] = time.perf_counter() - began
        print(f"{name}: {json.dumps(FOUND[name], indent=1, default=float)}", flush=True)
        given.out.write_text(json.dumps(FOUND, indent=1, default=float))
        if run.cuda:
            torch.cuda.empty_cache()
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
