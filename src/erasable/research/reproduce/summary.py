"""From measurements to results: one plain record that tables, figures, the report and ``results.json`` are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import t as student

from erasable.research.measuring import machine
from erasable.research.reproduce.methods import METHODS
from erasable.research.reproduce.paper import PRINTED
from erasable.research.reproduce.settings import Settings

Results = dict[str, Any]


def summarise(settings: Settings, entries: dict[str, Any]) -> Results:
    """All results of an experiment as plain values."""
    printed = PRINTED.get(settings.dataset, {})
    methods = {}
    for name in settings.methods:
        methods[name] = _method(name, settings, entries)
        if name in printed:
            p = printed[name]
            methods[name]["paper"] = {"training_s": p.training_s, "deletion_s": p.deletion_s, "stored_share": p.stored}
    if "erasable" in methods:
        methods["erasable"]["requests_in_core"] = entries["data"].get("requests_in_core")
    sweep = [v for key, v in entries.items() if key.startswith("sweep/") and v is not None]
    return {
        "dataset": settings.name,
        "settings": settings.as_json(),
        "machine": machine(),
        "data": entries["data"],
        "methods": methods,
        "sweep": sorted(sweep, key=lambda v: float(v["kappa"])),
        "checks": _checks(settings, entries),
    }


def _method(name: str, s: Settings, entries: dict[str, Any]) -> Results:
    n = entries["data"]["rows"]
    training, memory = entries[f"training/{name}"], entries[f"memory/{name}"]
    stretches = [entries[f"one/{i}"][name] for i in range(s.points)]
    seconds = sum(part["seconds"] / part["timed"] * part["requests"] for part in stretches)
    timed, asked = (sum(part[key] for part in stretches) for key in ("timed", "requests"))
    batches = [entries[f"batches/{r}/{name}"] for r in range(s.repeats)]
    return {
        "title": METHODS[name].title,
        "note": METHODS[name].note,
        "guarantee": training["guarantee"],
        "training_s": float(np.median(training["seconds"])),
        "training_all_s": training["seconds"],
        "deletion_s": seconds,
        "deletion_estimated": timed < asked,
        "requests": asked,
        "requests_timed": timed,
        "batch_deletion_s": float(np.median([sum(b["seconds"]) for b in batches])),
        "stored_rows": training["stored_rows"],
        "stored_share": training["stored_rows"] / n,
        "stored_bytes": training["stored_bytes"],
        "peak_training_bytes": memory["training"],
        "peak_deleting_bytes": memory["deleting"],
        "deleted": batches[0]["deleted"],
        "accuracy": _band([b["accuracy"] for b in batches]),
        "balanced": _band([b["balanced"] for b in batches]),
        "accuracy_one_at_a_time": [entries["start"][name]["accuracy"], *(part["accuracy"] for part in stretches)],
    }


def _band(curves: list[list[float]]) -> dict[str, Any]:
    """Mean over repeats at each point; from three repeats on with its 95% confidence interval (Student's t)."""
    Y = np.array(curves)
    mean = Y.mean(axis=0)
    half = np.zeros_like(mean)
    if len(Y) > 2:
        half = student.ppf(0.975, len(Y) - 1) * Y.std(axis=0, ddof=1) / np.sqrt(len(Y))
    return {
        "mean": mean.tolist(),
        "low": np.clip(mean - half, 0.0, 1.0).tolist(),
        "high": np.clip(mean + half, 0.0, 1.0).tolist(),
        "repeats": curves,
    }


def _checks(s: Settings, entries: dict[str, Any]) -> list[dict[str, Any]]:
    """Whether deleting one at a time and in batches ended in one and the same model, where that is promised."""
    checks = []
    for name in s.methods:
        digest = entries.get("digests/one", {}).get(name)
        if digest is not None:
            same = digest == entries.get(f"digests/batches/{name}")
            checks.append({"method": name, "what": "state digest, one at a time and in batches", "same": same})
        elif METHODS[name].exact:
            one = entries[f"one/{s.points - 1}"][name]["accuracy"]
            same = one == entries[f"batches/0/{name}"]["accuracy"][-1]
            checks.append({"method": name, "what": "final accuracy, one at a time and in batches", "same": same})
    return checks
