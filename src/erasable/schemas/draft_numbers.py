"""Edges and ranges of numbers for drafts: round, and with k subjects on either side."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from erasable.core.arrays import Float64s, Int64s
from erasable.schemas.statistics import NEVER, ColumnStatistics, Margin, SubjectValues, first_change

_STEPS = 5  # of a range, at least
_LARGEST_EXPONENT = 15
_MOST_WHOLE = 60  # bins of whole numbers that have one each: months, weekdays, hours
_DENSE_SHARE = 10  # a dense bin has one of so many subjects


class Fineness(NamedTuple):
    """How finely numbers are divided.

    ``bins`` is about how many bins there are, ``steps`` how many steps of a 1-2-5 series fit into the range at least,
    and ``tens`` has the edges from 10 to 100 where most numbers are small. ``subjects`` and ``per_column`` are how many
    subjects a table needs for it, in all and for each column. With none needed, the table is small.
    """

    bins: int
    steps: int
    tens: tuple[int, ...]
    subjects: int
    per_column: int

    @property
    def is_for_small_tables(self) -> bool:
        """Whether no table is too small for it."""
        return not self.subjects


FINENESSES = (
    Fineness(32, 21, (10, 12, 15, 20, 25, 30, 40, 50, 60, 80), 30_000, 250),
    Fineness(16, 11, (10, 15, 20, 30, 50, 70), 8_000, 250),
    Fineness(8, _STEPS, (10, 20, 50), 0, 0),
)


def draft_fineness(n_subjects: int, n_columns: int) -> tuple[Fineness, float]:
    """The finest division that a table has subjects for, and how many would have to be absent for another one."""
    for found in FINENESSES[:-1]:
        needed = max(found.subjects, found.per_column * n_columns)
        if n_subjects >= needed:
            return found, n_subjects - needed + 1
    return FINENESSES[-1], NEVER


def round_step(width: float) -> tuple[int, int]:
    """The largest of 1, 2, 5, 10, ... and their tenths that is at most a width: digit and exponent."""
    exponent = math.floor(math.log10(width)) + 1
    while True:
        for digit in (5, 2, 1):
            if as_number(digit, exponent) <= width:
                return digit, exponent
        exponent -= 1


def as_number(digits: int, exponent: int) -> float:
    """The float64 nearest to digits times a power of ten."""
    return float(f"{digits}e{exponent}")


def draft_edges(
    column: ColumnStatistics, numbers: Float64s, fineness: Fineness = FINENESSES[-1], *, each_whole: bool = False
) -> list[tuple[float, float]]:
    """Round edges with k subjects on either side, each with its margin.

    Multiples of a 1-2-5 step, five or more of which fit between the k-th smallest and the k-th largest subject; or 1,
    2, 5, 10, ... where most subjects are below a tenth of that range; or more of either, by the fineness. With
    ``each_whole``, whole numbers have an edge each. An edge stays out where neither of the bins next to it has k
    subjects. There are further edges where subjects are dense: see :func:`dense_edges`.
    """
    k = column.k
    low, high = column.extremes(numbers)
    enough, shape = Margin(), Margin()
    if not enough.at_least(len(low), 2 * k) or not high[k - 1] > low[k - 1]:
        return []
    whole = not shape.at_least(column.count(~np.isnan(numbers) & (numbers != np.rint(numbers))), k)
    dense = [dense_edges(part, k, numbers, whole, shape.value) for part in column.parts]
    found = {edge: min(part[edge] for part in dense) for edge in dense[0] if all(edge in part for part in dense)}
    if each_whole and whole and _is_narrow(low, high, k, shape):
        edges = _multiples(low, high, k, shape, lambda width: (1, 0))
    elif _is_skewed(low, high, k, shape):
        exponents = range(0 if whole else -6, _LARGEST_EXPONENT + 1)
        edges = [as_number(d, e - 1) for e in exponents for d in fineness.tens]
        edges = [edge for edge in edges if edge == np.rint(edge)] if whole else edges
    else:
        edges = _multiples(low, high, k, shape, lambda width: _step(width / fineness.steps, whole=whole))
    bounds = np.array([-np.inf, *edges, np.inf])
    place = np.searchsorted(bounds, numbers, side="right")
    place[np.isnan(numbers)] = 0
    in_bin = [column.count(place == j) for j in range(1, len(bounds))]
    for i, edge in enumerate(edges):
        below, above = int(np.searchsorted(low, edge)), int(np.count_nonzero(high >= edge))
        least = min(below, above, max(in_bin[i], in_bin[i + 1]))
        if least >= k:
            found[edge] = max(min(least - k + 1, shape.value), found.get(edge, 0))
    return sorted((edge, min(margin, enough.value)) for edge, margin in found.items())


def dense_edges(part: SubjectValues, k: int, numbers: Float64s, whole: bool, of_whole: float) -> dict[float, float]:
    """Multiples of 1-2-5 steps with many subjects within one step on either side, each with its margin.

    Many are k, and a tenth of the subjects that have another than the commonest number: of gains, which most people do
    not have, the edges are where those of the others are. No other test is made, so absent subjects can only remove
    edges: as many have to be absent as there are more than many.
    """
    known = np.flatnonzero(~np.isnan(numbers))
    order = known[np.argsort(numbers[known], kind="stable")]
    values, rank = numbers[order], np.full(len(numbers), -1)
    rank[order] = np.arange(len(order))
    pairs = rank[part.places] >= 0
    ranks, subjects = rank[part.places[pairs]], part.subjects[pairs]
    _, who = np.unique(subjects, return_inverse=True)
    of_one = np.bincount(who)[who] == 1  # subjects that have one number
    own = part.alone[order]
    commonest = int((own + np.bincount(ranks[of_one], minlength=len(values))).max(initial=0))
    many = max(k, -(-(int(who.max(initial=-1)) + 1 + int(own.sum()) - commonest) // _DENSE_SHARE))
    named = np.concatenate([[0], np.cumsum(np.bincount(ranks, minlength=len(values)))])  # pairs below each value
    single = np.concatenate([[0], np.cumsum(own)])
    at = named + single
    by_rank = who[np.argsort(ranks, kind="stable")]
    found: dict[float, float] = {}
    for exponent in range(_LARGEST_EXPONENT, (0 if whole else -6) - 1, -1):
        for digit in (5, 2, 1):
            edges = _steps_around(values, np.diff(at), many, digit, exponent)
            below = np.searchsorted(values, edges)
            cut = at[below]
            for i in np.flatnonzero((np.diff(cut[:-1]) >= many) & (np.diff(cut[1:]) >= many)).tolist():
                bins = [(below[j], below[j + 1]) for j in (i, i + 1)]
                least = min(len(np.unique(by_rank[named[a] : named[b]])) + int(single[b] - single[a]) for a, b in bins)
                if least >= many:
                    margin = min(least - many + 1, NEVER if exponent >= 0 else of_whole)
                    found[float(edges[i + 1])] = max(margin, found.get(float(edges[i + 1]), 0))
    return found


def _steps_around(values: Float64s, often: Int64s, many: int, digit: int, exponent: int) -> Float64s:
    """The multiples of a step around bins that may have so many; a quotient may be rounded into the next bin."""
    step = as_number(digit, exponent)
    within = np.abs(values) < 2.0**52 * step
    bins, places = np.unique(np.floor(values[within] / step), return_inverse=True)
    count = np.bincount(places, weights=often[within], minlength=len(bins))
    left, right = np.diff(bins, prepend=-np.inf) == 1, np.diff(bins, append=np.inf) == 1
    near = count + np.where(left, np.roll(count, 1), 0) + np.where(right, np.roll(count, -1), 0)
    dense = bins[near >= many]
    multiples = np.unique(np.concatenate([dense + d for d in (-2, -1, 0, 1, 2, 3)])) if len(dense) else dense
    return np.array([as_number(int(i) * digit, exponent) for i in multiples.tolist()])


def _is_skewed(low: Float64s, high: Float64s, k: int, shape: Margin) -> bool:
    """Whether most subjects are below a tenth of the range, which begins with zero or more."""
    n = len(low)
    if low[k - 1] < 0:
        shape.lower_to(first_change(lambda j: low[k - 1 + j] >= 0, n - k + 1))
        return False
    below = int(np.searchsorted(low, high[k - 1] / 10))
    if 2 * below <= n:
        shape.lower_to(n - 2 * below + 1)
        return False
    # The top falls as subjects are absent, and with it how many are below its tenth; they may leave other rows behind.
    shape.lower_to(first_change(lambda j: 2 * (int(np.searchsorted(low, high[k - 1 + j] / 10)) - j) <= n, n - k + 1))
    return True


def _is_narrow(low: Float64s, high: Float64s, k: int, shape: Margin) -> bool:
    """Whether each whole number from the k-th smallest to the k-th largest subject can have a bin."""
    if high[k - 1] - low[k - 1] <= _MOST_WHOLE:
        return True
    shape.lower_to(first_change(lambda j: high[k - 1 + j] - low[k - 1 + j] <= _MOST_WHOLE, len(low) - k + 1))
    return False


def _step(width: float, *, whole: bool) -> tuple[int, int]:
    digit, exponent = round_step(width) if width > 0 else (1, -400)
    return (1, 0) if whole and exponent < 0 else (digit, exponent)


def _multiples(
    low: Float64s, high: Float64s, k: int, shape: Margin, step_of: Callable[[float], tuple[int, int]]
) -> list[float]:
    """Multiples of a step within the range from the k-th smallest to the k-th largest subject.

    ``step_of`` gives digit and exponent of the step from the width of that range, and a smaller one only if it is
    narrower.
    """

    def at(j: int) -> tuple[int, int]:
        return step_of(float(high[k - 1 + j] - low[k - 1 + j]))

    digit, exponent = at(0)
    shape.lower_to(first_change(lambda j: at(j) != (digit, exponent), len(low) - k + 1))
    step = as_number(digit, exponent)
    # One more on either side, so that both bins next to an edge are one step wide.
    first, last = math.floor(low[k - 1] / step) - 1, math.ceil(high[k - 1] / step) + 1
    return sorted({as_number(i * digit, exponent) for i in range(first, last + 1)})


def draft_range(column: ColumnStatistics, numbers: Float64s) -> tuple[tuple[float, float], float] | None:
    """The range from the k-th smallest to the k-th largest subject, rounded outwards to multiples of a 1-2-5 step.

    Five steps or more fit between these two. The range, and its margin; None where there is no room in it.
    """
    k = column.k
    low, high = column.extremes(numbers)

    def rounded(j: int) -> tuple[float, float] | None:
        width = high[k - 1 + j] - low[k - 1 + j]
        if not 0 < width < math.inf:
            return None
        digit, exponent = round_step(width / _STEPS)
        step = as_number(digit, exponent)
        first, last = math.floor(low[k - 1 + j] / step), math.ceil(high[k - 1 + j] / step)
        return as_number(first * digit, exponent), as_number(last * digit, exponent)

    enough = Margin()
    if not enough.at_least(len(low), 2 * k) or (found := rounded(0)) is None:
        return None
    enough.lower_to(first_change(lambda j: rounded(j) != found, len(low) - k + 1))
    return found, enough.value
