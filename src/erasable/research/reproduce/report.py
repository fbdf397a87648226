"""One self-contained HTML page about an experiment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from scipy.stats import t as student

from erasable.operations.rendering import TextTable
from erasable.pages import percent, render
from erasable.research.measuring import in_words, machine
from erasable.research.reproduce.settings import METHODS, Settings

_ORDERS = {
    "label": "all from one class, in random order, as in the paper",
    "uniform": "drawn at random",
    "oldest": "in the order in which they were learnt",
    "newest": "those first that were learnt last",
    "weights": "drawn at random, unusual rows (those of high leverage) more likely than others",
    "core-first": "the stored rows first, the worst case for a method that stores few",
    "subject": "one person after another, all their rows at once",
}


def page(results: Results, pictures: dict[str, str], command: str) -> str:
    """Return the report as HTML text, pictures included."""
    return render(
        "reproduce.html",
        results=results,
        lead=_lead(results),
        tiles=_tiles(results),
        tables={"paper": as_in_the_paper(results), "detail": in_detail(results), "promises": promises(results)},
        hints=hints(results),
        speed_ups=speed_ups(results),
        # Pictures are our own; their XML prologue has no place inside HTML.
        pictures={name: Markup(re.sub(r"^.*?(?=<svg)", "", svg, flags=re.DOTALL)) for name, svg in pictures.items()},
        command=command,
        order=_ORDERS[results["settings"]["order"]],
        machine=in_words(results["machine"]),
    )


def _lead(results: Results) -> str:
    ours, again = results["methods"].get("erasable"), results["methods"].get("retrained")
    if ours is None:
        return "How several ways of forgetting compare, on one machine and the same requests."
    text = (
        f"A classifier that stores {percent(ours['stored_share'])} of its training rows forgot "
        f"{results['settings']['deletions']:,} rows. One request at a time, ready to predict after each, that takes "
        f"{_time(ours)}."
    )
    if again is not None:
        text += f" Keeping every row and updating the same model exactly takes {_time(again)}."
    faster = [m for m in results["methods"].values() if m["deletion_s"] < ours["deletion_s"]]
    for m in sorted(faster, key=lambda m: float(m["deletion_s"])):
        text += f" {m['title']} is faster: {_time(m)}, with {percent(m['stored_share'])} of the rows stored."
    return text


def _time(m: Results) -> str:
    if not m["deletion_estimated"]:
        return f"{seconds(m['deletion_s'])} seconds"
    return (
        f"about {seconds(m['deletion_s'])} seconds (estimated from {m['requests_timed']:,} of {m['requests']:,} "
        "requests)"
    )


def _short_time(value: float) -> str:
    return f"{1e6 * value:.3g} µs" if value < 1e-3 else f"{1e3 * value:.3g} ms" if value < 1.0 else f"{value:.3g} s"


def _tiles(results: Results) -> list[tuple[str, str]]:
    """Return the figures at the top, with captions."""
    ours = results["methods"].get("erasable")
    if ours is None:
        return []
    about = "~" if ours["deletion_estimated"] else ""
    guess = results["data"]["majority"]
    tiles = [
        (percent(ours["stored_share"]), "of the rows are stored"),
        (
            about + _short_time(ours["deletion_s"] / ours["requests"]),
            "per deletion request" + (", estimated" if about else ""),
        ),
        (
            f"{ours['accuracy']['mean'][-1]:.3f}",
            f"accuracy after the last deletion; always guessing the largest class: {guess:.3f}",
        ),
    ]
    others = {name: m for name, m in results["methods"].items() if name not in ("erasable", "logistic")}
    compared = [others["retrained"]] if "retrained" in others else []
    if others:
        fastest = min(others.values(), key=lambda m: float(m["deletion_s"]))
        compared += [] if fastest in compared else [fastest]
    return tiles + [_comparison(ours, m) for m in compared]


def _comparison(ours: Results, m: Results) -> tuple[str, str]:
    """By which factor another method is slower, or faster, than ours."""
    ratio = m["deletion_s"] / ours["deletion_s"]
    estimated = ours["deletion_estimated"] or m["deletion_estimated"]
    text = f"{m['title']} deletes {'slower' if ratio >= 1.0 else 'faster'}" + (", estimated" if estimated else "")
    return f"{'~' if estimated else ''}{max(ratio, 1 / ratio):,.3g}×", text


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


def as_in_the_paper(results: Results) -> TextTable:
    """Initial training time, accumulated deletion time and share of rows stored, as in Tables 1 and 2."""
    printed = any("paper" in m for m in results["methods"].values())
    head = ["method", "training, s", "deletion, s", "stored"]
    head += ["paper: training", "deletion", "stored"] if printed else []
    rows = []
    for m in results["methods"].values():
        row = [m["title"], seconds(m["training_s"]), _deletion(m), percent(m["stored_share"])]
        if printed:
            p = m.get("paper")
            row += [f"{p['training_s']:g}", f"{p['deletion_s']:g}", percent(p["stored_share"])] if p else ["", "", ""]
        rows.append(tuple(row))
    n, d = results["data"]["rows"], results["data"]["features"]
    name = results["settings"]["dataset"]
    title = TITLES.get(name, f"Time and memory: {results['dataset']}")
    notes = []
    if any(m["deletion_estimated"] for m in results["methods"].values()):
        parts = [
            f"{m['title']}, {m['requests_timed']:,} of {m['requests']:,}"
            for m in results["methods"].values()
            if m["deletion_estimated"]
        ]
        notes.append(f"~ estimated from requests spread over the whole sequence: {'; '.join(parts)}.")
    notes.append(
        "Training: median of fits. Deletion: all requests, one at a time, the model ready after each. Stored: rows."
    )
    notes += [f"{m['title']}: {m['note']}." for m in results["methods"].values() if m.get("note")]
    if printed and "erasable" in results["methods"]:
        notes.append("Stored, ours: kappa was chosen to store about the paper's share; the match is no result.")
    deletions = f"{results['settings']['deletions']:,} rows deleted"
    return TextTable(f"{title} ({n:,} x {d}, {deletions})", tuple(head), rows, tuple(notes))


def in_detail(results: Results) -> TextTable:
    """Batches, bytes, peak memory and accuracy."""
    head = ("method", "batches, s", "stored, MB", "peak fit", "peak del.", "accuracy", "lowest", "last", "balanced")
    rows = []
    for m in results["methods"].values():
        accuracy, balanced = m["accuracy"]["mean"], m["balanced"]["mean"]
        rows.append(
            (
                m["title"],
                seconds(m["batch_deletion_s"]),
                *(_megabytes(m[key]) for key in ("stored_bytes", "peak_training_bytes", "peak_deleting_bytes")),
                f"{accuracy[0]:.4f}",
                f"{min(accuracy):.4f}",
                f"{accuracy[-1]:.4f}",
                f"{balanced[-1]:.4f}",
            )
        )
    s = results["settings"]
    over = f"means of {s['repeats']} repeats" if s["repeats"] > 1 else "one repeat"
    empty = any(0.0 in m["accuracy"]["mean"] for m in results["methods"].values())
    data = results["data"]
    notes = (
        *(("Accuracy 0: every row that the method stored was deleted, so it cannot predict.",) if empty else ()),
        f"Always guessing the largest class: accuracy {data['majority']:.4f}, balanced {1 / data['classes']:.4f}.",
        "Batches: seconds to delete in that many batches. Stored and peaks: MB. Accuracy: before the first deletion, "
        "at its lowest, after the last one, and balanced over the classes after the last one.",
    )
    return TextTable(f"In detail: {s['points']} batches, {over}", head, rows, notes)


def promises(results: Results) -> TextTable:
    """What each method promises."""
    rows = []
    for m in results["methods"].values():
        g = m["guarantee"]
        limits = "" if g["epsilon"] == g["delta"] == 0 else f" ({g['epsilon']:g}, {g['delta']:g})"
        of = "the stored state" if g["of"] == "state" else "the model alone"
        rows.append((m["title"], g["definition"] + limits, of, "; ".join(g["assumptions"]) or "none"))
    return TextTable("What each method promises", ("method", "guarantee (epsilon, delta)", "of", "assumptions"), rows)


def speed_ups(results: Results) -> list[str]:
    """Sentences that compare ours with each other method that was run."""
    ours = results["methods"].get("erasable")
    if ours is None:
        return []
    lines = []
    for name, m in results["methods"].items():
        if name == "erasable" or not (ours["deletion_s"] > 0.0 and ours["batch_deletion_s"] > 0.0):
            continue
        about = "about " if ours["deletion_estimated"] or m["deletion_estimated"] else ""
        one, many = m["deletion_s"] / ours["deletion_s"], m["batch_deletion_s"] / ours["batch_deletion_s"]
        gap = min(a - b for a, b in zip(ours["accuracy"]["mean"], m["accuracy"]["mean"], strict=True))
        than, there = ("with the squared loss", " with that") if name == "logistic" else ("ours", "")
        lines.append(
            f"{m['title']}: deletion takes {about}{one:,.3g} times as long as {than}{_faster(one)}, one request at a "
            f"time, and {many:,.3g} times{_faster(many)} in batches; our accuracy{there} is never more than "
            f"{max(0.0, -gap):.4f} below."
        )
    return lines


def _faster(ratio: float) -> str:
    return " (it is faster)" if ratio < 1.0 else ""


def hints(results: Results) -> list[str]:
    """What to try when ours falls short of exact retraining from the start."""
    ours, again = results["methods"].get("erasable"), results["methods"].get("retrained")
    sweep = results["sweep"]
    if ours is None or again is None or not sweep or ours["accuracy"]["mean"][0] > again["accuracy"]["mean"][0] - 0.02:
        return []
    good = max(v["accuracy"] for v in sweep) - 0.01
    best = next(v for v in sweep if v["accuracy"] >= good)
    if best["kappa"] == results["settings"]["kappa"]:
        return []
    return [
        f"Ours starts below exact retraining. --kappa {best['kappa']:g} would store {percent(best['share'])} of the "
        f"rows and score {best['accuracy']:.3f} at first."
    ]


def seconds(value: float) -> str:
    """Three figures are enough."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _deletion(m: Results) -> str:
    return ("~" if m["deletion_estimated"] else "") + seconds(m["deletion_s"])


def _megabytes(value: float) -> str:
    return f"{value / 1e6:,.3g}" if value < 1e9 else f"{value / 1e6:,.0f}"


@dataclass(frozen=True)
class PrintedRow:
    """One row of Table 1 or 2."""

    name: str
    training_s: float
    deletion_s: float
    stored: float


_PURCHASE = {
    "erasable": PrintedRow("Algorithm 1", 186.3, 58.3, 0.131),
    "sisa": PrintedRow("SISA", 30.2, 1174.3, 1.0),
    "retrained": PrintedRow("Exact Retraining", 1828.7, 579.3, 1.0),
}
_MARGIN = {
    "erasable": PrintedRow("Algorithm 1", 1.3, 0.5, 0.006),
    "sisa": PrintedRow("SISA", 20.6, 697.1, 1.0),
    "retrained": PrintedRow("Exact Retraining", 67.8, 27.1, 1.0),
}
PRINTED: dict[str, dict[str, PrintedRow]] = {"purchase": _PURCHASE, "purchase-like": _PURCHASE, "margin": _MARGIN}
TITLES = {
    "purchase": "Table 1: Purchase",
    "purchase-like": "After Table 1: a stand-in for Purchase",
    "margin": "Table 2: Margin",
    "margin-uniform": "After Table 2: Margin with uniform heights",
}
