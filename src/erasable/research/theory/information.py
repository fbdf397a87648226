"""What a core set tells about the rows deleted from it, exactly, on small finite processes (Theorem 2.4).

The theorem says that for rows S, deletions U and a core set S' = C(S), the mutual information obeys ``I(U; S' - U) <=
I(U; S - U)``: what is left of the core set tells no more about the deleted rows than what is left of the data. The
proof writes ``S - U`` as the pair of the rows in S' and the others, and for the pair it holds. Which rows are in S' may
depend on deleted rows, and then the pair is not a function of ``S - U``, which alone the theorem does not cover::

    I(U; S' - U)  <=  I(U; S - U) + I(U; S' - U | S - U)    (the right-hand side is what the pair tells)

The last term, the *extra* information, is zero when ``S' - U`` is a function of ``S - U`` and chance: for instance when
each row is kept or not by itself alone. :func:`smallest_counterexample` is Algorithm 1 on two numbers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.errors import ConfigurationError, InputError
from erasable.validation import number_not_negative, positive_number

Row = Hashable
Sample = tuple[Row, ...]
Positions = tuple[int, ...]
Process = Mapping[tuple[Sample, Positions], float]
Kept = Iterable[int] | Mapping[Positions, float]
CoreSetMap = Callable[[Sample], Kept]


@dataclass(frozen=True)
class Information:
    """Mutual information with the deleted rows, in bits.

    Attributes
    ----------
    core : float
        ``I(U; S' - U)``: what is left of the core set.
    rest : float
        ``I(U; S - U)``: what is left of the data.
    extra : float
        ``I(U; S' - U | S - U)``: what the core set adds for one who knows the rest of the data. The excess is never
        larger.
    """

    core: float
    rest: float
    extra: float

    @property
    def excess(self) -> float:
        """``core - rest``; never positive where Theorem 2.4 covers ``S - U``."""
        return self.core - self.rest

    @property
    def holds(self) -> bool:
        """Whether the inequality of Theorem 2.4 holds for this process, up to rounding."""
        return self.excess <= 1e-9


def mutual_information(joint: Mapping[tuple[Any, Any], float]) -> float:
    """``I(A; B)`` in bits from the probabilities of pairs (a, b).

    Examples
    --------
    >>> from erasable.research.theory.information import mutual_information
    >>> mutual_information({(0, "x"): 0.5, (1, "y"): 0.5})
    1.0
    """
    return _entropy(joint, 0) + _entropy(joint, 1) - _entropy(joint, None)


def leak(process: Process, core_set: CoreSetMap) -> Information:
    """The three informations of Theorem 2.4, by enumeration.

    Parameters
    ----------
    process : mapping of (rows, deleted positions) to probability
        A joint distribution of S, a tuple of hashable rows, and U, a tuple of positions in it.
    core_set : callable
        The map C: takes S and gives the positions kept or, for a randomised map, a mapping of tuples of positions to
        probabilities. The chance in it is independent of U given S.

    Notes
    -----
    U, ``S - U`` and ``S' - U`` are looked at as tuples of rows in order, without their positions.

    Examples
    --------
    >>> from erasable.research.theory.information import leak, smallest_counterexample
    >>> leak(*smallest_counterexample())
    Information(core=1.0, rest=0.0, extra=1.0)
    """
    _check(process)
    joint: dict[tuple[Sample, Sample, Sample], float] = defaultdict(float)
    for (S, U), p in process.items():
        gone = set(U)
        deleted = tuple(S[i] for i in sorted(gone))
        rest = tuple(row for i, row in enumerate(S) if i not in gone)
        for kept, q in _outcomes(core_set(S), len(S)):
            joint[deleted, rest, tuple(S[i] for i in kept if i not in gone)] += p * q
    core: dict[tuple[Any, Any], float] = defaultdict(float)
    data: dict[tuple[Any, Any], float] = defaultdict(float)
    both: dict[tuple[Any, Any], float] = defaultdict(float)
    for (deleted, rest, left), p in joint.items():
        core[deleted, left] += p
        data[deleted, rest] += p
        both[deleted, (rest, left)] += p
    known = mutual_information(data)
    return Information(mutual_information(core), known, mutual_information(both) - known)


def leverage_map(*, lam: float, tau: float) -> CoreSetMap:
    """The core-set map of Algorithm 1 on rows that are numbers or tuples of numbers (float64, a few rows)."""
    lam, tau = positive_number(lam, "lam"), number_not_negative(tau, "tau")

    def core_set(S: Sample) -> Positions:
        rows = [np.atleast_1d(np.asarray(row, dtype=np.float64)) for row in S]
        if not rows:
            return ()
        A, kept = lam * np.eye(len(rows[0])), []
        for i, x in enumerate(rows):
            if x @ np.linalg.solve(A, x) > tau:  # Algorithm 1, line 4
                A += np.outer(x, x)
                kept.append(i)
        return tuple(kept)

    return core_set


def smallest_counterexample() -> tuple[dict[tuple[Sample, Positions], float], CoreSetMap]:
    """Two numbers for which Algorithm 1 exceeds the bound of Theorem 2.4 by one bit, as (process, core-set map).

    The first row is 0.5 or 1, a fair coin; the second is 0.9; T = 2, ``lam = K = 1``, kappa = 1/2, so tau = 0.707. The
    first row is deleted. After 0.5 (leverage 0.25, not kept) the second row has leverage 0.81 and is kept; after 1
    (kept) it has 0.405 and is not. So the core set after deletion is (0.9) or empty, and says which it was, while the
    rest of the data is (0.9) in any case. One row is too few: then ``S - U`` determines ``S' - U``.
    """
    process: dict[tuple[Sample, Positions], float] = {((0.5, 0.9), (0,)): 0.5, ((1.0, 0.9), (0,)): 0.5}
    return process, leverage_map(lam=1.0, tau=2.0**-0.5)


def _entropy(joint: Mapping[tuple[Any, Any], float], side: int | None) -> float:
    total: dict[Any, float] = defaultdict(float)
    for pair, p in joint.items():
        total[pair if side is None else pair[side]] += p
    return math.fsum(-p * math.log2(p) for p in total.values() if p > 0.0)


def _check(process: Process) -> None:
    for S, U in process:
        if not set(U) <= set(range(len(S))):
            raise InputError(f"deleted positions must be between 0 and {len(S) - 1} for {len(S)} rows: check process.")
    _distribution("process", process.values())


def _distribution(name: str, values: Iterable[float]) -> None:
    p = list(values)
    if not all(0.0 <= v <= 1.0 for v in p) or abs(math.fsum(p) - 1.0) > 1e-9:
        raise ConfigurationError(
            f"the probabilities of {name} must be at least 0 and sum to 1; they sum to {math.fsum(p):.6g}."
        )


def _outcomes(kept: Kept, n: int) -> list[tuple[Positions, float]]:
    if isinstance(kept, Mapping):
        outcomes = [(tuple(sorted(set(which))), float(q)) for which, q in kept.items()]
        _distribution("core_set", [q for _, q in outcomes])
    else:
        outcomes = [(tuple(sorted(set(kept))), 1.0)]
    if not all(set(which) <= set(range(n)) for which, _ in outcomes):
        raise InputError(f"core_set must give positions between 0 and {n - 1}: it has to keep rows of the sample.")
    return outcomes
