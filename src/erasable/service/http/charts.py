"""Lines over time as SVG: presentation attributes and classes only, as the content security policy wants it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 640, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 26


@dataclass(frozen=True)
class Chart:
    """What a template draws.

    Attributes
    ----------
    points : str
        Of the line.
    area : str
        Of what lies below it.
    ticks : list of (y, text)
    ends : (str, str)
        The first and the last label below.
    last : (float, float)
        Where the line ends.
    """

    points: str
    area: str
    ticks: list[tuple[float, str]]
    ends: tuple[str, str]
    last: tuple[float, float]


def line(values: Sequence[float], labels: Sequence[str]) -> Chart | None:
    """A line through values at even distances; None where there are fewer than two.

    Examples
    --------
    >>> from erasable.service.http.charts import line
    >>> line([0, 10], ["then", "now"]).points
    '56.0,134.0 628.0,12.0'
    """
    if len(values) < 2:
        return None
    top = _round_up(max(values))
    wide, high = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    at = [(_LEFT + wide * i / (len(values) - 1), _TOP + high * (1 - value / top)) for i, value in enumerate(values)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    ground = f"{_LEFT:.1f},{_TOP + high:.1f}"
    ticks = [(_TOP + high * (1 - share), f"{top * share:,.0f}") for share in (0, 0.5, 1)]
    area = f"{ground} {points} {at[-1][0]:.1f},{_TOP + high:.1f}"
    return Chart(points, area, ticks, (labels[0], labels[-1]), at[-1])


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ... at or above a value, at least 2."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if factor * step >= max(2.0, value):
                return float(factor * step)
        step *= 10


def history_charts(hours: Sequence[Any], names: Sequence[str]) -> list[tuple[str, Chart]]:
    """The charts of the overview with their titles: rows stored in each model, and requests settled."""
    labels = [hour.start.replace("T", " ").removesuffix("Z") for hour in hours]
    drawn = [(f"Rows stored, {name}", line([hour.rows.get(name, 0) for hour in hours], labels)) for name in names]
    drawn.append(("Requests settled", line([hour.settled for hour in hours], labels)))
    return [(title, chart) for title, chart in drawn if chart is not None]
