"""HTML from the package's templates: report files that need nothing else, and the pages of the service's console.

All templates live in ``templates/`` and all values are escaped. Reports extend ``report.html``, which inlines their
style; the filters below make every page write numbers and times in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: object) -> str:
    """Return the text of a template, filled in.

    Parameters
    ----------
    template : str
        Its path below ``templates/``.
    **values
        What it uses. A name that it uses and that is not given is an error.

    Examples
    --------
    >>> render("tiles.html", tiles=[("3 < 4", "rows")])
    '<div class="big"><div><b>3 &lt; 4</b><span>rows</span></div></div>'
    """
    return templates().get_template(template).render(values)


def facts(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Return a small table of facts, as notebooks show it; whole numbers get separators, and None is left out.

    Examples
    --------
    >>> "<td" in facts("Learnt", [("rows", 1200), ("rate", None)])
    True
    """
    shown = [(name, number(value) if type(value) is int else value) for name, value in rows if value is not None]
    return render("facts.html", title=title, facts=shown)


@cache
def templates() -> Environment:
    """Return the environment that all templates share; add filters to an ``overlay()`` of it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # late, for commands that only format numbers

    found = Environment(
        loader=PackageLoader("erasable"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "number": number,
        "count": count,
        "percent": percent,
        "size": size,
        "duration": duration,
        "time": time,
        "when": when,
        "day": day,
    }
    return found


def number(value: int) -> str:
    """Return a whole number with separators: ``1,234``."""
    return f"{value:,}"


def count(value: int, noun: str) -> str:
    """Return a number and its noun: ``1 row``, ``1,234 rows``."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share as a percentage: ``12.5%``."""
    return f"{100 * share:.3g}%"


def size(n_bytes: int) -> str:
    """Return a number of bytes in kB or MB."""
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:,.1f} kB"


def duration(seconds: float) -> str:
    """Return a time span in its largest unit of which there are at least two: ``3 days``, ``90 seconds``."""
    for noun, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * length:
            return count(round(seconds / length), noun)
    return count(max(0, round(seconds)), "second")


def time(value: datetime) -> str:
    """Return a time for tables: ``2026-01-31 12:00:05``."""
    return f"{value:%Y-%m-%d %H:%M:%S}"


def when(value: datetime | str) -> str:
    """Return a time, or its ISO text, for sentences: ``31 Jan 2026, 12:00:05 UTC``."""
    then = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{then.day} {then:%b %Y, %H:%M:%S} UTC"


def day(value: date | str) -> str:
    """Return a day, or its ISO text: ``31 Jan 2026``."""
    then = date.fromisoformat(value) if isinstance(value, str) else value
    return f"{then.day} {then:%b %Y}"
