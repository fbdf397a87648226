"""One self-contained HTML page about an experiment."""

from __future__ import annotations

import re

from markupsafe import Markup

from erasable.pages import percent, render
from erasable.research.measuring import in_words
from erasable.research.reproduce.summary import Results
from erasable.research.reproduce.tables import as_in_the_paper, hints, in_detail, promises, seconds, speed_ups

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
