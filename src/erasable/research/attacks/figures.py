"""What an attack is worth: advantage, area under the curve, and power at small false alarm rates, with intervals.

An attack gives a score to each pair of a state and a candidate row: the higher, the surer it is that the row was there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s

LEVEL = 0.95  # of all intervals
RATES = (0.001, 0.01)  # false alarm rates at which power is told
_RARE = (1e-4, 100_000)  # a third one, where so many pairs are pooled
_RESAMPLES = 400


@dataclass(frozen=True)
class Estimate:
    """A figure and the ends of its interval."""

    value: float
    low: float
    high: float

    def as_json(self) -> list[float]:
        """Value, low, high."""
        return [round(float(number), 6) for number in (self.value, self.low, self.high)]


@dataclass(frozen=True)
class Figures:
    """How well scores tell members from others.

    Attributes
    ----------
    advantage : Estimate
        True less false alarms, at the threshold that was best on the other half of the rows.
    auc : Estimate
        Area under the ROC curve; ties count one half.
    power : dict from float to Estimate
        The share of members recognised at a false alarm rate; a tie is broken by a coin.
    roc : array of shape (n, 2)
        False and true alarm rates, from (0, 0) to (1, 1).
    pairs, rows : int
        Scores in all, and the candidate rows they are of: intervals are bootstrapped over rows.
    tied : bool
        Whether all scores are equal: the attack saw nothing at all.
    """

    advantage: Estimate
    auc: Estimate
    power: dict[float, Estimate]
    roc: Float64s
    pairs: int
    rows: int
    tied: bool

    @property
    def at_chance(self) -> bool:
        """Whether guessing lies within the intervals of the area and of the power at one percent."""
        power = self.power[0.01]
        return self.tied or (self.auc.low <= 0.5 and power.low <= 0.01)

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "advantage": self.advantage.as_json(),
            "auc": self.auc.as_json(),
            **{f"tpr_at_{100 * rate:g}_percent": estimate.as_json() for rate, estimate in self.power.items()},
            "pairs": self.pairs,
            "rows": self.rows,
            "tied": self.tied,
        }


def measure(scores: npt.ArrayLike, member: npt.ArrayLike, row: npt.ArrayLike, *, random_state: int = 0) -> Figures:
    """Figures of an attack from its scores.

    Parameters
    ----------
    scores : array of shape (n,)
        Finite, higher for members.
    member : bool array of shape (n,)
        The truth.
    row : int array of shape (n,)
        Which candidate row a score is of. Every row should be there as member and as other, equally often.
    random_state : int, default=0
        Of the halves and of the bootstrap.

    Notes
    -----
    *Intervals* are percentiles over resampled rows. Where every row is told apart without a single error the bootstrap
    knows no spread; the lower end is then that of Clopper and Pearson for as many successes as there are rows.

    *Cost*: one sort, then one pass for each resample.
    """
    s, m = np.asarray(scores, np.float64), np.asarray(member, bool)
    _, r = np.unique(np.asarray(row), return_inverse=True)
    rng, n_rows = np.random.default_rng(random_state), int(r.max()) + 1
    order = np.argsort(-s, kind="stable")
    s, m, r = s[order], m[order], r[order]
    ends = np.flatnonzero(np.append(s[1:] != s[:-1], True))  # where a group of ties ends
    rates = RATES + ((_RARE[0],) if len(s) >= _RARE[1] else ())
    said_yes = _decisions(s, m, r, rng.permutation(n_rows) % 2 == 0)
    curve = _roc(m, np.ones(len(s)), ends)
    found = [_figures(curve, m, np.ones(len(s)), said_yes, rates)]
    for _ in range(_RESAMPLES):
        weight = np.bincount(rng.integers(n_rows, size=n_rows), minlength=n_rows)[r].astype(np.float64)
        if weight[m].sum() > 0.0 and weight[~m].sum() > 0.0:
            found.append(_figures(_roc(m, weight, ends), m, weight, said_yes, rates))
    value, tied = found[0], len(ends) == 1
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    perfect = (value > 1.0 - 1e-9) & (low > 1.0 - 1e-9)
    low[perfect] = ((1 - LEVEL) / 2) ** (1 / n_rows)
    advantage, auc, *power = (Estimate(*map(float, three)) for three in zip(value, low, high, strict=True))
    roc = np.column_stack(_thinned(*curve))
    return Figures(advantage, auc, dict(zip(sorted(rates), power, strict=True)), roc, len(s), n_rows, tied)


def _roc(member: npt.NDArray[np.bool_], weight: Float64s, ends: npt.NDArray[np.intp]) -> tuple[Float64s, Float64s]:
    """False and true alarm rates at every threshold, scores in falling order."""
    true, false = np.cumsum(weight * member)[ends], np.cumsum(weight * ~member)[ends]
    return np.append(0.0, false / false[-1]), np.append(0.0, true / true[-1])


def _decisions(
    s: Float64s, member: npt.NDArray[np.bool_], row: npt.NDArray[np.intp], first_half: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Which scores lie above the threshold that is best on the other half of the rows."""
    said = np.zeros(len(s), bool)
    for half in (first_half[row], ~first_half[row]):
        m, own = member[half], s[half]
        if not (m.any() and (~m).any()):
            continue
        ends = np.flatnonzero(np.append(own[1:] != own[:-1], True))
        false, true = _roc(m, np.ones(len(own)), ends)
        best = int(np.argmax(true - false))
        said[~half] = s[~half] >= _between(own, ends, best)
    return said


def _between(s: Float64s, ends: npt.NDArray[np.intp], best: int) -> float:
    """A threshold that lets through the first ``best`` groups of ties, halfway to the next."""
    if best == 0:
        return float(np.inf)
    last = float(s[ends[best - 1]])
    return last if best == len(ends) else (last + float(s[ends[best]])) / 2


def _figures(
    curve: tuple[Float64s, Float64s],
    member: npt.NDArray[np.bool_],
    weight: Float64s,
    said_yes: npt.NDArray[np.bool_],
    rates: tuple[float, ...],
) -> Float64s:
    false, true = curve
    yes = weight * said_yes
    advantage = yes[member].sum() / weight[member].sum() - yes[~member].sum() / weight[~member].sum()
    return np.array([advantage, np.trapezoid(true, false), *(_power(false, true, rate) for rate in sorted(rates))])


def _power(false: Float64s, true: Float64s, rate: float) -> float:
    """The true alarm rate at a false one: between two thresholds a coin decides."""
    at = int(np.searchsorted(false, rate, side="right")) - 1
    if at + 1 == len(false):
        return float(true[at])
    share = (rate - false[at]) / (false[at + 1] - false[at])
    return float(true[at] + share * (true[at + 1] - true[at]))


def _thinned(false: Float64s, true: Float64s, most: int = 240) -> tuple[Float64s, Float64s]:
    """A curve with no more points than a picture shows: evenly on a logarithmic axis."""
    if len(false) <= most:
        return false, true
    wanted = np.append(0.0, np.geomspace(max(false[false > 0].min(), 1e-6), 1.0, most))
    at = np.unique(np.searchsorted(false, wanted, side="right") - 1)
    at = np.unique(np.append(at, [0, len(false) - 1]))
    return false[at], true[at]
