"""The two examples in docs/departures.md: Algorithm 3 as printed drops core rows that nobody deleted.

Both keep the paper's assumptions: functions ``f(x) = 1/2 + u'x`` with ``|u| <= 1/2`` on rows of norm at most one, so
values in [0, 1], and a rate R(T, delta) of at least one. Everything is in rational arithmetic, D(F, S) included.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import pytest

Point = tuple[Fraction, Fraction]
PAIRS = (
    ("-.45", "-.6"), ("-.55", "-.5"), (".25", ".8"), (".45", "-.75"),
    (".5", ".85"), (".25", "-.1"), ("-.35", ".6"), ("-.6", "-.6"),
)  # fmt: skip
EIGHT_ROWS = {i: (Fraction(a), Fraction(b)) for i, (a, b) in enumerate(PAIRS, start=1)}
BEFORE = [[5, 4, 8, 7], [3, 2, 1, 6]]
AFTER = [[4, 8, 3, 2], [1, 7]]  # without row 5; row 6 is dropped


def disagreement(x: Point, queried: list[Point]) -> Fraction:
    """D²(x; Q) = x'(I + sum of qq')^-1 x.

    Two functions of the class differ by v'x with |v| <= 1. The supremum of (v'x)² / (1 + sum of (v'q)²) is taken at
    |v| = 1, where it is this quadratic form.
    """
    a = 1 + sum(q[0] ** 2 for q in queried)
    b = sum((q[0] * q[1] for q in queried), Fraction(0))
    c = 1 + sum(q[1] ** 2 for q in queried)
    return (c * x[0] ** 2 - 2 * b * x[0] * x[1] + a * x[1] ** 2) / (a * c - b * b)


def dimension(rows: dict[int, Point]) -> Fraction:
    """D(F, S): the supremum over all orders. A term depends on the set of rows up to it, so sets are enough."""

    @cache
    def best(members: frozenset[int]) -> Fraction:
        points = [rows[i] for i in members]
        return max((best(members - {i}) + disagreement(rows[i], points) for i in members), default=Fraction(0))

    return best(frozenset(rows))


def stops(D: Fraction, rate: int, stage: int, left: int) -> bool:
    """Algorithm 3, line 14, with ``left`` rows in the remainder."""
    return D * rate * 2 ** (stage - 1) > Fraction(left, 2 ** (stage - 1))


def stages(rows: dict[int, Point]) -> list[list[int]]:
    """Which rows Algorithm 3 queries in each stage, at R = 1, ended by its own stopping rule.

    Labels play no part in the first two stages: lines 10 and 11 set aside no row, since no function of the class is
    further than 1/2 from 1/2, and the margin is 3/2, then 3/4. So the remainder is the pool.
    """
    pool, result = dict(rows), list[list[int]]()
    while not result or not stops(dimension(rows), 1, len(result), len(pool)):
        assert len(result) < 2
        epsilon = Fraction(1, 2 ** (len(result) + 1))
        queried: dict[int, Point] = {}
        while pool:
            D2 = {i: disagreement(x, list(queried.values())) for i, x in pool.items()}
            best = max(D2, key=lambda i: D2[i])
            assert list(D2.values()).count(D2[best]) == 1
            if D2[best] <= epsilon**2:
                break
            queried[best] = pool.pop(best)
        result.append(list(queried))
    return result


def queried_of_equal_rows(T: int, rate: int) -> list[int]:
    """How many of T rows x = 1 Algorithm 3 queries in each stage.

    D² is 1 / (1 + n) after n of them, in any order, and D(F, S) the sum of 1 / (1 + t). Which labels they have plays no
    part: rows are set aside as confident from the third stage on at the earliest, and that only helps the rule to stop.
    """
    D = sum(Fraction(1, 1 + t) for t in range(1, T + 1))
    left, counts = T, list[int]()
    while not counts or not stops(D, rate, len(counts), left):
        assert len(counts) < 3
        counts.append(min(left, 4 ** (len(counts) + 1) * rate - 1))  # 1 / (1 + n) > 4**-stage / rate
        left -= counts[-1]
    return counts


def test_eight_rows_keep_the_assumptions() -> None:
    assert all(a * a + b * b <= 1 for a, b in EIGHT_ROWS.values())


def test_forgetting_row_5_drops_row_6() -> None:
    assert stages(EIGHT_ROWS) == BEFORE
    survivors = {i: x for i, x in EIGHT_ROWS.items() if i != 5}
    assert stages(survivors) == AFTER
    assert set(survivors) - {i for stage in AFTER for i in stage} == {6}


@pytest.mark.parametrize(
    ("T", "rate", "before", "left", "after"),
    [(100, 1, [3, 15, 63], 30, [3, 15]), (1000, 10, [39, 159, 639], 250, [39, 159])],
)
def test_the_stopping_rule_alone_drops_rows(T: int, rate: int, before: list[int], left: int, after: list[int]) -> None:
    assert queried_of_equal_rows(T, rate) == before
    assert left < sum(before)
    assert queried_of_equal_rows(left, rate) == after
    assert sum(after) < left


def test_ten_is_a_rate_for_constants_and_a_million_rows() -> None:
    """Hoeffding: n (mean of labels - f*)² > r has probability at most 2 exp(-2 r); Lemma F.1 adds one."""
    T, delta = 10**6, 0.05
    assert 2 * math.exp(-2 * (10 - 1)) <= delta / T
