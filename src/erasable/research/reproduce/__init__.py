"""The paper's experiments, on its data or on the caller's."""

from __future__ import annotations

import json
from pathlib import Path

from erasable.research.reproduce.deletion_time import DeletionTime, measure_deletion_time
from erasable.research.reproduce.deletion_time import as_json as deletion_time_as_json
from erasable.research.reproduce.deletion_time import as_table as deletion_time_table
from erasable.research.reproduce.experiment import Watch, run_experiment, write
from erasable.research.reproduce.figures import check_available, draw_all, draw_figure_1
from erasable.research.reproduce.report import (
    Results,
    as_in_the_paper,
    hints,
    in_detail,
    page,
    promises,
    speed_ups,
    summarise,
)
from erasable.research.reproduce.settings import INTERCEPTS, METHODS, NAMED, ORDERS, SHARDS, Settings

__all__ = [
    "INTERCEPTS",
    "METHODS",
    "NAMED",
    "ORDERS",
    "SHARDS",
    "DeletionTime",
    "Results",
    "Settings",
    "as_in_the_paper",
    "deletion_time_as_json",
    "deletion_time_table",
    "draw_figure_1",
    "hints",
    "in_detail",
    "measure_deletion_time",
    "promises",
    "reproduce",
    "speed_ups",
]


def reproduce(
    settings: Settings,
    out: str | Path,
    *,
    fresh: bool = False,
    watch: Watch = lambda *_: None,
    command: str = "erasable reproduce",
) -> Results:
    """Run an experiment and write its results, pictures and report into a folder.

    Raises ConfigurationError or InputError before any long work, when the settings, the data or a method cannot work.

    Parameters
    ----------
    settings : Settings
        What to run.
    out : path
        Gets ``results.json``, ``report.html``, ``accuracy``, ``tradeoff`` and ``figure1`` as PNG and SVG, and
        ``journal.json``, from which a stopped run continues.
    fresh : bool
        Start over even if the folder holds a journal.
    watch : callable, optional
        Called with (what is being done, how much is done, how much there is).
    command : str
        How the run was started, for the report.

    Returns
    -------
    dict
        What ``results.json`` holds.

    Examples
    --------
    >>> import tempfile
    >>> from erasable.research.reproduce import Settings, reproduce
    >>> few = Settings("digits", deletions=100, methods=("erasable", "retrained"), points=2, quick=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = reproduce(few, folder)
    >>> results["methods"]["retrained"]["stored_share"]
    1.0
    """
    folder = Path(out)
    check_available()
    full, entries = run_experiment(settings, folder, watch, fresh=fresh)
    results = summarise(full, entries)
    watch("drawing", 0, 1)
    write(folder / "results.json", json.dumps(results, indent=1) + "\n")
    pictures = draw_all(results, folder)
    write(folder / "report.html", page(results, pictures, command))
    watch("drawing", 1, 1)
    return results
