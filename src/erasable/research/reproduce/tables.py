"""Results as rows of text: the paper's table beside the paper's own figures, and the rest of what was measured."""

from __future__ import annotations

from erasable.operations.rendering import TextTable
from erasable.pages import percent
from erasable.research.reproduce.paper import TITLES
from erasable.research.reproduce.summary import Results


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
