"""The paper's experiments in short: `erasable reproduce` with little time for each method."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.tools import console
from erasable.research.reproduce import Settings, as_in_the_paper, in_detail, reproduce, speed_ups

METHODS = ("erasable", "retrained", "sums", "sisa", "newton", "subsample")
SHORT = {"methods": METHODS, "repeats": 1, "points": 5, "time_limit": 4.0, "quick": True}


def cases(folder):
    """What is run; a real set where there is a folder with it."""
    yield Settings("margin", **SHORT)
    if folder:
        yield Settings(str(Path(folder, "retail600_kmeans2_train.npz")), delete_label="1", **SHORT)


def reproduction(options):
    """Tables of the paper, from short runs."""
    text = (
        f"## The paper's experiments\n\n`erasable reproduce` with {SHORT['time_limit']:g} seconds for the requests of "
    )
    text += (
        f"each method, {SHORT['points']} looks at the accuracy and one repeat; docs/reproduction.md has longer runs. "
    )
    text += "Methods take turns after every stretch of requests. Seconds.\n"
    for settings in cases(options.data):
        console.log(settings.name)
        with tempfile.TemporaryDirectory() as folder:
            results = reproduce(settings, folder)
        for found in (as_in_the_paper(results), in_detail(results)):
            text += f"\n**{found.title}**\n\n{found.markdown()}"
        share = results["methods"]["erasable"].get("requests_in_core")
        chosen = results["settings"]
        text += f"\nSettings: {', '.join(f'{k} {chosen[k]}' for k in ('order', 'kappa', 'capacity', 'random_state'))}. "
        text += f"Of the requests, {100 * share:.2f}% named a core row of ours.\n\n" if share is not None else "\n\n"
        text += "".join(f"- {line}\n" for line in speed_ups(results))
    return text
