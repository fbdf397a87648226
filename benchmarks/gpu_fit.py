"""A whole fit on a GPU: of rows that are there, and of rows in memory here, by rounds and stages; and ridge regression.

And fits in turns with and without the GPU, of fewer rows.

For ``benchmarks/gpu.py``.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from benchmarks.tools import Stages, take_turns
from erasable.core.arrays import DeviceRows
from erasable.engines import Torch
from erasable.engines.device import DeviceScreen, _Ready
from erasable.engines.device_hash import DeviceHash
from erasable.estimators import validated
from erasable.estimators.linear import ErasableClassifier
from erasable.models import passes
from erasable.models.row_source import Rows


def registered(X):
    """Pin the memory of an array where it lies; whether that worked."""
    try:
        code = torch.cuda.cudart().cudaHostRegister(X.ctypes.data, X.nbytes, 0)
    except (RuntimeError, AttributeError, TypeError):
        return False
    return int(code) == 0


def ridge(run, X, y, capacity):
    """Ridge regression on all rows of norm one, streamed through the device: Gram matrix, then ``torch.linalg``."""
    d = X.shape[1]
    G = torch.zeros((d + 1, d + 1), dtype=torch.float64, device=run.device)
    b = torch.zeros(d + 1, dtype=torch.float64, device=run.device)
    step = max(1, 2**28 // (4 * d))
    for low in range(0, len(X), step):
        part = X[low : low + step]
        part = part if isinstance(part, torch.Tensor) else torch.from_numpy(part).to(run.device, non_blocking=True)
        part = torch.nn.functional.normalize(part)
        part = torch.cat([part, torch.ones(len(part), 1, device=run.device)], dim=1) * 2**-0.5
        sign = torch.from_numpy(np.where(y[low : low + step], np.float32(1), np.float32(-1))).to(run.device)
        G += (part.T @ part).double()
        b += (part.T @ sign).double()
    weights = torch.linalg.solve(G + capacity * torch.eye(d + 1, device=run.device), b)
    run.sync()
    return weights


def made_rows(run, n, d):
    """Rows whose columns fall in size, a tensor on the device; and noisy labels, an array here."""
    generator = torch.Generator(run.device).manual_seed(3)
    spectrum = torch.arange(1, d + 1, device=run.device) ** -0.5
    rule = torch.randn(d, generator=generator, device=run.device)
    there = torch.empty((n, d), device=run.device)
    y = np.empty(n, dtype=bool)
    for low in range(0, n, 2**17):
        part = there[low : low + 2**17]
        part.normal_(generator=generator).mul_(spectrum)
        score = part @ rule
        score += 0.3 * score.std() * torch.randn(len(part), generator=generator, device=run.device)
        y[low : low + len(part)] = (score > 0).cpu().numpy()
    return there, y


def copied(there):
    """The rows of a tensor, as an array here."""
    X = np.empty(there.shape, dtype=np.float32)
    for low in range(0, len(X), 2**17):
        X[low : low + 2**17] = there[low : low + 2**17].cpu().numpy()
    return X


def stages():
    """What a fit is made of."""
    return Stages(
        {
            "checking_rows": (validated, "validate_data"),
            "finite_here": (validated, "_has_finite_sums"),
            "finite_there": (DeviceRows, "unfit"),
            "checking_names": (passes.Pass, "rows_of"),
            "hashing": (DeviceHash, "__call__"),
            "setting_up_the_screen": (DeviceScreen, "ready"),
            "screening": (_Ready, "survivors"),
            "picking_rows": (Rows, "take"),
            "copying_survivors": (DeviceRows, "on_host"),
            "deciding": (Rows, "learnt_by"),
        }
    )


def fitted(run, found, name, rows, answers, threads=4):
    """A model of all rows, once as it is and once with a watch on its stages."""
    clf = ErasableClassifier(threshold=0.1, engine=Torch(run.name, threads=threads), loss="squared", feature_map=None)
    run.sync()
    began = time.perf_counter()
    report = clf.learn(rows, answers)
    took = time.perf_counter() - began
    found[name] = {"fit_s": took, "threads": threads, "rounds": [vars(one) for one in report.rounds]}
    clf.coef_  # noqa: B018
    found[name] |= {"fit_and_weights_s": time.perf_counter() - began, "core_rows": clf.n_core_}
    found[name]["digest"] = clf.state_digest()
    with stages() as watched:
        ErasableClassifier(
            threshold=0.1, engine=Torch(run.name, threads=threads), loss="squared", feature_map=None
        ).learn(rows, answers)
    found[name]["stages_s"] = watched.seconds
    return clf


def whole_fit(run):
    """Ten million rows, on the device and in memory here, and ridge regression on all of them in the same run."""
    n, found = run.n, {"rows": run.n, "columns": run.d}
    began = time.perf_counter()
    there, y = made_rows(run, n + 2**16, run.d)
    X = copied(there)
    found["making_s"] = time.perf_counter() - began
    rows, answers, test, wanted = X[:n], y[:n], X[n:], y[n:]

    some = min(n, 300_000)
    for name, engine in (("here", None), ("there", Torch(run.name, threads=4)), ("resident", Torch(run.name))):
        given = there[:some] if name == "resident" else rows[:some]
        began = time.perf_counter()
        clf = ErasableClassifier(threshold=0.1, engine=engine, loss="squared", feature_map=None).fit(
            given, answers[:some]
        )
        found[f"fit_of_{some}_{name}_s"] = time.perf_counter() - began
        found.setdefault("digests", {})[name] = clf.state_digest()
    found["same_digest"] = len(set(found.pop("digests").values())) == 1

    clf = fitted(run, found, "from_the_device", there[:n], answers, threads=2)
    found["accuracy"] = float(np.mean(clf.predict(test) == wanted))
    run.sync()
    began = time.perf_counter()
    w = ridge(run, there[:n], answers, clf.capacity)
    found["ridge_on_the_device_s"] = time.perf_counter() - began
    there = there[n:].clone()
    if run.cuda:
        torch.cuda.empty_cache()

    fitted(run, found, "from_pageable_memory", rows, answers)
    began = time.perf_counter()
    found["pinned_in_place"] = run.cuda and registered(X)
    found["pinning_s"] = time.perf_counter() - began
    fitted(run, found, "from_pinned_memory", rows, answers)
    ways = ("from_the_device", "from_pageable_memory", "from_pinned_memory")
    found["same_digest_of_all"] = len({found[way]["digest"] for way in ways}) == 1
    found["fit_s"], found["rounds"] = found["from_pinned_memory"]["fit_s"], found["from_pinned_memory"]["rounds"]
    found["core_rows"] = clf.n_core_

    began = time.perf_counter()
    ridge(run, rows, answers, clf.capacity)
    found["ridge_on_all_rows_s"] = time.perf_counter() - began
    if found["pinned_in_place"]:
        torch.cuda.cudart().cudaHostUnregister(X.ctypes.data)
    part = torch.nn.functional.normalize(there).double()
    predicted = ((part @ w[:-1] + w[-1]) * 2**-0.5 > 0).cpu().numpy()
    found["accuracy_of_ridge"] = float(np.mean(predicted == wanted))
    return found


def in_turns(run):
    """Seconds of fits of 4 million x 512 rows: from the device, and here with all processors; and of peers there."""
    n, d, rounds = (4_000_000, 512, 3) if run.cuda else (20_000, 64, 2)
    there, y = made_rows(run, n, d)
    X, M = copied(there), torch.randn(d, d, device=run.device)
    digests = set()

    def fit(rows, engine):
        clf = ErasableClassifier(threshold=0.1, engine=engine, loss="squared", feature_map=None).fit(rows, y)
        digests.add(clf.state_digest())

    def product():
        for part in there.split(2**18):
            (part @ M).square().sum(1)
        run.sync()

    contestants = {
        "device": lambda: fit(there, Torch(run.name)),
        "product": product,
        "ridge": lambda: ridge(run, there, y, 1.0),
        "here": lambda: fit(X, None),
        "local": lambda: fit(X, "local"),
    }
    times = take_turns(contestants, rounds, "fits in turns")
    return {"rows": n, "columns": d, "rounds": rounds, "seconds": times, "same_digest": len(digests) == 1}
