"""What a draft may know of a column: how many subjects have what, and how that can change when subjects are absent.

A subject who is absent takes all of its rows along, so counts of subjects can only fall. Every test here says, beside
its outcome, of how many subjects rows would have to be absent, some or all, for the outcome to be another one: a
margin, never too large. Pure.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from erasable.core.arrays import Array, Booleans, Float64s, Int64s
from erasable.schemas._cells import number_of

NEVER = math.inf
_LARGEST_EXPONENT = 15
_SHARE = 10  # of the subjects that a dense cell has: one of so many


class Having:
    """Which subjects have which values, by one column of subjects.

    Attributes
    ----------
    subjects, places : arrays of int
        Each subject with the place of each of its values, once, in the order of subjects.
    alone : array of int
        For each value how many rows have it that are subjects of their own.
    """

    def __init__(self, subjects: Int64s, places: Int64s, alone: Int64s) -> None:
        self.subjects, self.places, self.alone = subjects, places, alone

    def of(self, mask: Booleans) -> int:
        """How many subjects have one of these values."""
        return int(self.alone[mask].sum()) + _n_runs(self.subjects[mask[self.places]])

    def pairs(self, mask: Booleans) -> int:
        """How many different ones of these values subjects have, added up."""
        return int(self.alone[mask].sum()) + int(np.count_nonzero(mask[self.places]))

    def of_each(self) -> Int64s:
        """How many subjects have each value."""
        return self.alone + np.bincount(self.places, minlength=len(self.alone))

    def most_taken(self, mask: Booleans) -> Int64s:
        """The most of those pairs that none, one, two, ... absent subjects can take along."""
        named = np.bincount(self.subjects[mask[self.places]])
        each = np.concatenate([named, np.ones(int(self.alone[mask].sum()), dtype=np.int64)])
        return np.concatenate([[0], np.cumsum(np.sort(each)[::-1])])

    def extremes(self, numbers: Float64s) -> tuple[Float64s, Float64s]:
        """The smallest number of each subject that has any, ascending, and the largest, descending."""
        known = ~np.isnan(numbers)
        pairs = known[self.places]
        who, x = self.subjects[pairs], numbers[self.places[pairs]]
        low = high = np.repeat(numbers[known], self.alone[known])
        if len(who):
            first = np.flatnonzero(np.diff(who, prepend=-1))
            low = np.concatenate([low, np.minimum.reduceat(x, first)])
            high = np.concatenate([high, np.maximum.reduceat(x, first)])
        return np.sort(low), np.sort(high)[::-1]


class Facts:
    """The distinct values of one column, and how many subjects have them: in every column of subjects.

    Where there are several of these, a count is the smallest of theirs. An absent subject then takes rows of several
    subjects of a column along, some or all of each; so margins here are numbers of subjects, of any one column, of
    whom rows are absent.

    Attributes
    ----------
    values : list
        Canonical texts, or moments, times of day, or lengths; None where there is nothing.
    parts : list of Having
        One for each column of subjects.
    """

    def __init__(self, kind: str, values: list[Any], parts: list[Having], k: int) -> None:
        self.kind, self.values, self.parts, self.k = kind, values, parts, k
        self.there = np.array([v is not None for v in values], dtype=bool)
        self.most_taken = parts[0].most_taken(self.there)

    def having(self, mask: Booleans) -> int:
        """How many subjects have one of these values."""
        return min(part.of(mask) for part in self.parts)

    def pairs(self, mask: Booleans) -> int:
        """How many different ones of these values the subjects of the first column have, added up."""
        return self.parts[0].pairs(mask)

    def of_each(self) -> Int64s:
        """How many subjects have each value."""
        counts: Int64s = np.min([part.of_each() for part in self.parts], axis=0)
        return counts

    def of_each_at_most(self) -> Int64s:
        """The same, by the column of subjects where these are most."""
        counts: Int64s = np.max([part.of_each() for part in self.parts], axis=0)
        return counts

    def numbers(self) -> Float64s:
        """Values as numbers, NaN for those that are none, or not finite."""
        found = [None if v is None else number_of(v) for v in self.values]
        return np.array([f if f is not None and math.isfinite(f) else np.nan for f in found], dtype=np.float64)

    def extremes(self, numbers: Float64s) -> tuple[Float64s, Float64s]:
        """The smallest number of each subject that has any, ascending, and the largest, descending.

        Of several columns of subjects those that lie furthest inwards, place by place.
        """
        ends = [part.extremes(numbers) for part in self.parts]
        n = min(len(low) for low, _ in ends)
        return np.max([low[:n] for low, _ in ends], axis=0), np.min([high[:n] for _, high in ends], axis=0)


def _n_runs(ascending: Int64s) -> int:
    """How many different numbers there are."""
    return int(np.count_nonzero(np.diff(ascending, prepend=-1)))


class Decisions:
    """Outcomes of tests, and the smallest of their margins."""

    def __init__(self) -> None:
        self.margin: float = NEVER

    def at_least(self, count: int, k: int) -> bool:
        """Whether so many subjects are there."""
        if count >= k:
            self.took(count - k + 1)
        return count >= k

    def most(self, yes: int, no: int, taken: Array) -> bool:
        """Whether the first is more than the second, where absent subjects take some of either along."""
        lead = abs(yes - no) if yes > no else no - yes + 1
        self.took(_first(lambda j: taken[j] >= lead, len(taken)))
        return yes > no

    def took(self, margin: float) -> None:
        """Note the margin of a test."""
        self.margin = min(self.margin, max(1, margin))


def _first(changes: Callable[[int], bool], n: int) -> float:
    """The first of 1, ..., n - 1 absent subjects that change something, where more of them change it all the more."""
    found = bisect.bisect_left(range(1, max(1, n)), True, key=changes) + 1
    return found if found < n else NEVER


def covered(facts: Facts, decisions: Decisions) -> Booleans | None:
    """Values that k subjects or more have, if at least half of the subjects have one of them; otherwise None."""
    count, k = facts.of_each(), facts.k
    common: Booleans = (count >= k) & facts.there
    present, having = facts.having(facts.there), facts.having(common)
    if 2 * having < present or not common.any():
        decisions.took(present - 2 * having if having else NEVER)
        return None
    order = np.argsort(count[common], kind="stable")
    sizes = count[common][order]
    lost = np.concatenate([[0], np.cumsum(facts.of_each_at_most()[common][order])])

    def falls(j: int) -> bool:
        fallen = int(lost[np.searchsorted(sizes, k + j)])  # of values that j absent subjects can make rare
        return 2 * (having - fallen - j) < present

    decisions.took(_first(falls, len(facts.most_taken)))
    return common


def many(facts: Facts, limit: int, decisions: Decisions) -> bool:
    """Whether more values than that are had by k subjects or more."""
    count = np.sort(facts.of_each()[facts.there])[::-1]
    if len(count) <= limit or count[limit] < facts.k:
        return False
    decisions.took(int(count[limit]) - facts.k + 1)
    return True


def nearly_all_differ(facts: Facts, decisions: Decisions) -> bool:
    """Whether two thirds of what subjects have are values that no other has, as those of identifiers are."""
    pairs = facts.pairs(facts.there)
    lead = 3 * int(np.count_nonzero(facts.there)) - 2 * pairs
    if lead >= 0:
        decisions.took(_first(lambda j: facts.most_taken[j] > lead, len(facts.most_taken)))
    else:  # pairs are taken along whose values others have
        decisions.took(_first(lambda j: 2 * facts.most_taken[j] >= -lead, len(facts.most_taken)))
    return lead >= 0


# -- numbers -------------------------------------------------------------------------------------------------------


def round_step(width: float) -> tuple[int, int]:
    """The largest of 1, 2, 5, 10, ... and their tenths that is not above a width: digit and exponent."""
    exponent = math.floor(math.log10(width)) + 1
    while True:
        for digit in (5, 2, 1):
            if as_number(digit, exponent) <= width:
                return digit, exponent
        exponent -= 1


def as_number(digits: int, exponent: int) -> float:
    """The float64 nearest to digits times a power of ten."""
    return float(f"{digits}e{exponent}")


def draft_edges(facts: Facts, numbers: Float64s, cells: int) -> list[tuple[float, float]]:
    """Round edges with k subjects on either side, each with its margin.

    Multiples of a 1-2-5 step, of which the range from the k-th smallest to the k-th largest subject has ``cells`` or
    more; or 1, 2, 5, 10, ... where most subjects are below a tenth of it. An edge stays out where neither of the cells
    beside it has k subjects. Between them, where subjects are many: see :func:`_dense_edges`.
    """
    k = facts.k
    low, high = facts.extremes(numbers)
    enough, shape = Decisions(), Decisions()
    if not enough.at_least(len(low), 2 * k) or not high[k - 1] > low[k - 1]:
        return []
    whole = not shape.at_least(facts.having(~np.isnan(numbers) & (numbers != np.rint(numbers))), k)
    dense = _in_all([_dense_edges(part, k, numbers, whole, shape.margin) for part in facts.parts])
    if _is_skewed(low, high, k, shape):
        exponents = range(0 if whole else -6, _LARGEST_EXPONENT + 1)
        edges = [as_number(d, e) for e in exponents for d in (1, 2, 5)]
    else:
        edges = _multiples(low, high, k, cells, whole, shape)
    bounds = np.array([-np.inf, *edges, np.inf])
    place = np.searchsorted(bounds, numbers, side="right")
    place[np.isnan(numbers)] = 0
    in_cell = [facts.having(place == j) for j in range(1, len(bounds))]
    found = dense
    for i, edge in enumerate(edges):
        below, above = int(np.searchsorted(low, edge)), int(np.count_nonzero(high >= edge))
        beside = max(in_cell[i], in_cell[i + 1])
        if min(below, above, beside) >= k:
            margin = min(below - k + 1, above - k + 1, beside - k + 1, shape.margin)
            found[edge] = max(margin, found.get(edge, 0))
    return sorted((edge, min(margin, enough.margin)) for edge, margin in found.items())


def _in_all(found: list[dict[float, float]]) -> dict[float, float]:
    """The edges of all, with the smallest of their margins."""
    return {edge: min(edges[edge] for edges in found) for edge in found[0] if all(edge in edges for edges in found)}


def _dense_edges(having: Having, k: int, numbers: Float64s, whole: bool, of_whole: float) -> dict[float, float]:
    """Multiples of 1-2-5 steps with many subjects within one step on either side, each with its margin.

    Many are k, and a tenth of those who have another than the commonest number: of gains, which most people do not
    have, the edges are where those of the others are. Nothing else is asked, so absent subjects can but take edges
    away: as many have to be absent as there are more than many.
    """
    there = np.flatnonzero(~np.isnan(numbers))
    order = there[np.argsort(numbers[there], kind="stable")]
    values, rank = numbers[order], np.full(len(numbers), -1)
    rank[order] = np.arange(len(order))
    pairs = rank[having.places] >= 0
    ranks, subjects = rank[having.places[pairs]], having.subjects[pairs]
    _, who = np.unique(subjects, return_inverse=True)
    of_one = np.bincount(who)[who] == 1  # those who have one number
    own = having.alone[order]
    commonest = int((own + np.bincount(ranks[of_one], minlength=len(values))).max(initial=0))
    many = max(k, -(-(int(who.max(initial=-1)) + 1 + int(own.sum()) - commonest) // _SHARE))
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
                cells = [(below[j], below[j + 1]) for j in (i, i + 1)]
                beside = min(
                    len(np.unique(by_rank[named[a] : named[b]])) + int(single[b] - single[a]) for a, b in cells
                )
                if beside >= many:
                    margin = min(beside - many + 1, NEVER if exponent >= 0 else of_whole)
                    found[float(edges[i + 1])] = max(margin, found.get(float(edges[i + 1]), 0))
    return found


def _steps_around(values: Float64s, often: Int64s, many: int, digit: int, exponent: int) -> Float64s:
    """The multiples of a step around cells that may have so many, where a quotient may be rounded to the next cell."""
    step = as_number(digit, exponent)
    within = np.abs(values) < 2.0**52 * step
    cells, places = np.unique(np.floor(values[within] / step), return_inverse=True)
    count = np.bincount(places, weights=often[within], minlength=len(cells))
    left, right = np.diff(cells, prepend=-np.inf) == 1, np.diff(cells, append=np.inf) == 1
    near = count + np.where(left, np.roll(count, 1), 0) + np.where(right, np.roll(count, -1), 0)
    dense = cells[near >= many]
    wanted = np.unique(np.concatenate([dense + d for d in (-2, -1, 0, 1, 2, 3)])) if len(dense) else dense
    return np.array([as_number(int(i) * digit, exponent) for i in wanted.tolist()])


def _is_skewed(low: Float64s, high: Float64s, k: int, shape: Decisions) -> bool:
    """Whether most subjects are below a tenth of the range, which begins with zero or more."""
    n = len(low)
    if low[k - 1] < 0:
        shape.took(_first(lambda j: low[k - 1 + j] >= 0, n - k + 1))
        return False
    below = int(np.searchsorted(low, high[k - 1] / 10))
    if 2 * below <= n:
        shape.took(n - 2 * below + 1)
        return False
    # The top falls as subjects are absent, and with it how many are below its tenth; they may leave other rows behind.
    shape.took(_first(lambda j: 2 * (int(np.searchsorted(low, high[k - 1 + j] / 10)) - j) <= n, n - k + 1))
    return True


def _multiples(low: Float64s, high: Float64s, k: int, cells: int, whole: bool, shape: Decisions) -> list[float]:
    """Multiples of a step within the range from the k-th smallest to the k-th largest subject."""

    def step_of(j: int) -> tuple[int, int]:
        width = (high[k - 1 + j] - low[k - 1 + j]) / cells
        digit, exponent = round_step(width) if width > 0 else (1, -400)
        return (1, 0) if whole and exponent < 0 else (digit, exponent)

    digit, exponent = step_of(0)
    shape.took(_first(lambda j: step_of(j) != (digit, exponent), len(low) - k + 1))
    step = as_number(digit, exponent)
    # One more on either side, so that what is beside an edge is a cell of one step.
    first, last = math.floor(low[k - 1] / step) - 1, math.ceil(high[k - 1] / step) + 1
    return sorted({as_number(i * digit, exponent) for i in range(first, last + 1)})


def draft_range(facts: Facts, numbers: Float64s, cells: int) -> tuple[tuple[float, float], float] | None:
    """The range from the k-th smallest to the k-th largest subject, rounded outwards to multiples of a 1-2-5 step.

    Between these two are ``cells`` steps or more. The range, and its margin; None where there is no room in it.
    """
    k = facts.k
    low, high = facts.extremes(numbers)

    def rounded(j: int) -> tuple[float, float] | None:
        width = high[k - 1 + j] - low[k - 1 + j]
        if not 0 < width < math.inf:
            return None
        digit, exponent = round_step(width / cells)
        step = as_number(digit, exponent)
        first, last = math.floor(low[k - 1 + j] / step), math.ceil(high[k - 1 + j] / step)
        return as_number(first * digit, exponent), as_number(last * digit, exponent)

    enough = Decisions()
    if not enough.at_least(len(low), 2 * k) or (found := rounded(0)) is None:
        return None
    enough.took(_first(lambda j: rounded(j) != found, len(low) - k + 1))
    return found, enough.margin


def kth(values: Callable[[int], Any], n: int, k: int, decisions: Decisions) -> Any:
    """What a function says of the k-th subject; its margin is how soon one further on has another outcome."""
    found = values(k - 1)
    decisions.took(_first(lambda j: values(k - 1 + j) != found, n - k + 1))
    return found
