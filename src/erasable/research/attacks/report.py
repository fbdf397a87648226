"""The report of an audit: one HTML page that needs no other file."""

from __future__ import annotations

import math

from erasable.core.arrays import Float64s
from erasable.operations.rendering import BLUE, GREY, RED
from erasable.pages import percent, render
from erasable.research.attacks.suite import LETTERS, Audit, Outcome, thinned

_COLOURS = (RED, BLUE, "#2f6b46", "#9a6a00", "#6b3f86", "#3c7d8c", GREY)
_LOWEST_RATE = 1e-3  # where the logarithmic axes of curves begin
_LONGEST_NAME = 64  # in a legend


def page(audit: Audit) -> str:
    """Return the report as HTML text."""
    by_letter = {letter: [o for o in audit.outcomes if o.letter == letter] for letter in LETTERS}
    rates = ((1e-3, "0.1%"), (1e-2, "1%"), (1e-1, "10%"), (1.0, "100%"))
    return render(
        "audit.html",
        audit=audit,
        letters=LETTERS,
        tiles=_tiles(audit),
        revealing=[o.name for o in audit.outcomes if o.letter in "ab" and not o.figures.at_chance],
        ticks=[(round(_x(rate), 1), round(_y(rate), 1), text) for rate, text in rates],
        groups=[
            {"letter": letter, "name": LETTERS[letter], "outcomes": own, "curves": _curves(own)}
            for letter, own in by_letter.items()
            if own
        ],
    )


def _tiles(audit: Audit) -> list[tuple[str, str]]:
    """Return the figures at the top, with captions."""
    works = sum(outcome.verdict == "works" for outcome in audit.outcomes)
    little = sum(outcome.verdict == "tells a little" for outcome in audit.outcomes)
    return [
        (
            "noise" if audit.noisy else f"{audit.same_as_refit} / {audit.trials}",
            "states equal to learning the stored rows, bit for bit",
        ),
        (percent(audit.stored_share), "of the rows offered are stored"),
        (f"{len(audit.outcomes) - works - little}", "attacks at chance"),
        (f"{little}", "tell a little"),
        (f"{works}", "work"),
    ]


def _curves(outcomes: list[Outcome]) -> list[tuple[str, str, str]]:
    """Return (name, colour, SVG path) of the ROC curve of each attack."""
    found = []
    for i, outcome in enumerate(outcomes):
        points = _on_log_axes(thinned(outcome.figures.roc), _LOWEST_RATE)
        path = "M" + "L".join(f"{_x(a):.1f} {_y(b):.1f}" for a, b in points)
        name = outcome.name if len(outcome.name) < _LONGEST_NAME else outcome.name[: _LONGEST_NAME - 3] + "…"
        found.append((name, _COLOURS[i % len(_COLOURS)], path))
    return found


def _x(rate: float) -> float:
    """Return where a rate of false alarms lies on the axis that the template draws from 46 to 300."""
    return 300 + 254 * math.log10(max(rate, _LOWEST_RATE)) / 3


def _y(rate: float) -> float:
    """Return where a rate of recognised rows lies on the axis that the template draws from 260 up to 10."""
    return 10 - 250 * math.log10(max(rate, _LOWEST_RATE)) / 3


def _on_log_axes(roc: Float64s, low: float) -> list[tuple[float, float]]:
    """Return the curve from the left edge on: between thresholds a coin decides, a straight line on plain axes."""
    points: list[tuple[float, float]] = []
    for (a0, b0), (a1, b1) in zip(roc[:-1].tolist(), roc[1:].tolist(), strict=True):
        if a1 < low:
            continue
        steps = 24 if a1 > a0 else 1
        for k in range(steps + 1):
            a = a0 + (a1 - a0) * k / steps if a0 >= low else low * (a1 / low) ** (k / steps)
            b = b0 + (b1 - b0) * ((a - a0) / (a1 - a0) if a1 > a0 else k / steps)
            points.append((a, b))
    return points
