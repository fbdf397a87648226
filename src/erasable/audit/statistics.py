"""What the scores of an attack are worth: ROC curve, area, advantage and power, with intervals over rows.

A score is given to each pair of a state and a candidate row; the higher, the surer the attack is that the row was
there. Nothing here knows rows, models or files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from erasable.core.arrays import Booleans, Float64s, Positions
from erasable.errors import InputError
from erasable.validation import probability, seed, whole_number

RATES = (0.001, 0.01)  # false alarm rates at which power is reported
_JUDGED = 10  # false alarms that a rate must stand for to be judged
RARE_RATE, RARE_PAIRS = 1e-4, 100_000  # one more, where so many pairs are pooled


@dataclass(frozen=True)
class Estimate:
    """A figure and the ends of its interval."""

    value: float
    low: float
    high: float

    def as_json(self) -> list[float]:
        """Return value, low, high."""
        return [round(number, 6) for number in (self.value, self.low, self.high)]


@dataclass(frozen=True)
class Figures:
    """How well scores tell members from others."""

    advantage: Estimate  # true less false alarms, at the threshold that was best on the other half of the rows
    auc: Estimate  # area under the ROC curve: the probability that a member scores above another; ties count one half
    power: dict[float, Estimate]  # the share of members recognised at a false alarm rate; a tie is broken by a coin
    roc: Float64s  # of shape (n_points, 2): false and true alarm rates, from (0, 0) to (1, 1)
    # pairs, others, rows: scores in all, those of others, and the candidate rows they are of.
    pairs: int
    others: int
    rows: int
    tied: bool  # whether all scores are equal: the attack saw nothing at all
    certain: bool  # whether more rows score as members above every other than chance puts there

    @property
    def at_chance(self) -> bool:
        """Whether guessing lies within the intervals of the area, and of each power that the scores can resolve.

        A rate at which few of the others are accused depends on the highest few scores, and its interval misses more
        often than stated: such a power is reported, and not judged. ``certain`` is judged in its place.
        """
        judged = [p.low <= rate for rate, p in self.power.items() if rate * self.others >= _JUDGED]
        return self.tied or (self.auc.low <= 0.5 and all(judged) and not self.certain)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "advantage": self.advantage.as_json(),
            "auc": self.auc.as_json(),
            **{f"tpr_at_{100 * rate:g}_percent": estimate.as_json() for rate, estimate in self.power.items()},
            "pairs": self.pairs,
            "rows": self.rows,
            "tied": self.tied,
        }


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return an interval that holds a probability with at least this confidence.

    Each end alone is wrong with probability (1 - confidence) / 2 at most.

    Source: Clopper and Pearson, The use of confidence or fiducial limits illustrated in the case of the binomial,
    Biometrika 26 (1934): the probabilities under which so many successes, or so few, have probability
    (1 - confidence) / 2; quantiles of beta distributions.

    Examples
    --------
    >>> low, high = clopper_pearson(10, 10)
    >>> low == 0.025 ** (1 / 10), high  # all that ten out of ten say
    (True, 1.0)
    """
    trials = whole_number(trials, "trials")
    successes = whole_number(successes, "successes", 0, trials)
    tail = (1.0 - probability(confidence, "confidence")) / 2.0
    return float(lowest(successes, trials, tail)), float(highest(successes, trials, tail))


def lowest(successes: npt.ArrayLike, trials: int, tail: float) -> Float64s:
    """Return lower ends for counts of successes, each too high with probability ``tail`` at most."""
    k = np.asarray(successes, np.float64)
    ends: Float64s = np.where(k > 0, betaincinv(np.maximum(k, 1.0), trials - k + 1.0, tail), 0.0)
    return ends


def highest(successes: npt.ArrayLike, trials: int, tail: float) -> Float64s:
    """Return upper ends for counts of successes, each too low with probability ``tail`` at most."""
    return 1.0 - lowest(trials - np.asarray(successes, np.float64), trials, tail)


def measure(
    scores: npt.ArrayLike,
    member: npt.ArrayLike,
    row: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 400,
    random_state: int = 0,
) -> Figures:
    """Return the figures of an attack from its scores.

    Parameters
    ----------
    scores : array of shape (n,)
        Higher for members; infinities may stand for certainty.
    member : bool array of shape (n,)
    row : array of shape (n,), optional
        The candidate row of each score: scores of one row are drawn together. By default each has its own.
    confidence : float, default=0.95
    resamples, random_state : int
        Of the bootstrap over rows.

    Notes
    -----
    *Intervals* are percentiles over rows drawn with replacement: members, others, and rows seen as both separately.
    A share of 0 or 1 in every resample has the end of Clopper and Pearson, with the rows of the rarer kind as trials.
    """
    s, m = _checked(scores, member)
    tail = (1.0 - probability(confidence, "confidence")) / 2.0
    rng = np.random.default_rng(seed(random_state))
    r = np.arange(len(s)) if row is None else np.unique(np.asarray(row), return_inverse=True)[1]
    if r.shape != s.shape:
        raise InputError(f"row must name the row of each of {len(s)} scores; got shape {r.shape}.")
    order = np.argsort(-s, kind="stable")
    s, m, r = s[order], m[order], r[order]
    n_rows, ends = int(r.max()) + 1, _ends(s)
    rates = sorted(RATES + ((RARE_RATE,) if len(s) >= RARE_PAIRS else ()))
    said = _said_on_other_half(s, m, r, rng.permutation(n_rows) % 2 == 0)
    of_row = [np.bincount(r, each, minlength=n_rows) for each in (m & said, m, ~m & said, ~m)]
    inside = m.astype(np.float64)

    def figures(drawn: Float64s) -> tuple[list[float], Float64s, Float64s]:
        """The figures, and the curve, where each row counts as often as it was drawn."""
        hits, members, alarms, others = (float(drawn @ each) for each in of_row)
        false, true = _curve(inside, drawn[r], ends)
        power = (_power(false, true, rate) for rate in rates)
        return [hits / members - alarms / others, _area(false, true), *power], false, true

    value, false, true = figures(np.ones(n_rows))
    found = [figures(drawn)[0] for drawn in _drawn(m, r, n_rows, whole_number(resamples, "resamples"), rng)]
    low, high = np.quantile(found, [tail, 1.0 - tail], axis=0)
    n_seen = min(len(np.unique(r[kind])) for kind in (m, ~m))  # trials of the kind that there are fewer of
    low = np.where(low > 1.0 - 1e-9, lowest(n_seen, n_seen, tail), low)
    shares = np.arange(len(value)) > 0  # an advantage of zero is no share
    high = np.where(shares & (high <= 0.0), highest(0, n_seen, tail), high)
    advantage, area, *power = (Estimate(*map(float, three)) for three in zip(value, low, high, strict=True))
    roc = np.column_stack([false, true])
    powers, n_others = dict(zip(rates, power, strict=True)), int(np.count_nonzero(~m))
    certain = _by_luck(s, m, r) < tail
    return Figures(advantage, area, powers, roc, len(s), n_others, n_rows, len(ends) == 1, certain)


def _checked(scores: npt.ArrayLike, member: npt.ArrayLike) -> tuple[Float64s, Booleans]:
    s, m = np.asarray(scores, np.float64), np.asarray(member, bool)
    if s.ndim != 1 or s.shape != m.shape or np.isnan(s).any():
        raise InputError(f"scores and member must be of one length, without NaN; got shapes {s.shape} and {m.shape}.")
    if m.all() or not m.any():
        raise InputError(f"scores of members and of others are needed; got {m.sum()} and {(~m).sum()}.")
    return s, m


def _by_luck(s: Float64s, member: Booleans, row: Positions) -> float:
    """Return how probable it is, at most, that so many rows score above every other if scores say nothing.

    Of scores each of its own row it is the product of (M - i) / (N - i) for i < k, with M members among N.
    """
    first = len(np.unique(row[s > s[~member].max()]))
    members, others = (len(np.unique(row[kind])) for kind in (member, ~member))
    return float(max(member.mean(), members / (members + others)) ** first)


def _ends(s: Float64s) -> Positions:
    """Return where each group of equal scores ends, scores in falling order."""
    return np.flatnonzero(np.append(s[1:] != s[:-1], True))


def _curve(member: Float64s, weight: Float64s, ends: Positions) -> tuple[Float64s, Float64s]:
    inside = weight * member
    true, false = np.cumsum(inside)[ends], np.cumsum(weight - inside)[ends]
    return np.append(0.0, false / false[-1]), np.append(0.0, true / true[-1])


def _area(false: Float64s, true: Float64s) -> float:
    return float(np.diff(false) @ (true[1:] + true[:-1]) / 2.0)


def _drawn(
    member: Booleans, row: Positions, n_rows: int, resamples: int, rng: np.random.Generator
) -> Iterator[Float64s]:
    """Yield how often each row is drawn, resample by resample."""
    kind = np.zeros(n_rows, np.intp)
    np.bitwise_or.at(kind, row, np.where(member, 1, 2))
    strata = [np.flatnonzero(kind == k) for k in (1, 2, 3) if (kind == k).any()]
    for _ in range(resamples):
        drawn = np.concatenate([rows[rng.integers(len(rows), size=len(rows))] for rows in strata])
        yield np.bincount(drawn, minlength=n_rows).astype(np.float64)


def _said_on_other_half(s: Float64s, member: Booleans, row: Positions, first_half: Booleans) -> Booleans:
    """Return which scores reach the threshold that is best on the other half of the rows; none if it has one kind."""
    said = np.zeros(len(s), bool)
    for half in (first_half[row], ~first_half[row]):
        own, m = s[half], member[half]
        if m.all() or not m.any():
            continue
        ends = _ends(own)
        false, true = _curve(m.astype(np.float64), np.ones(len(own)), ends)
        best = int(np.argmax(true - false))
        said[~half] = s[~half] >= own[ends[best - 1]] if best else False
    return said


def _power(false: Float64s, true: Float64s, rate: float) -> float:
    at = int(np.searchsorted(false, rate, side="right")) - 1  # the last threshold that keeps to the rate
    share = (rate - false[at]) / (false[at + 1] - false[at])
    return float(true[at] + share * (true[at + 1] - true[at]))
