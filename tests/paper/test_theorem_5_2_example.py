"""The five-row examples in docs/paper_map.md: Algorithm 3 as printed drops a core row that nobody deleted."""

from __future__ import annotations

from fractions import Fraction

import pytest

Point = tuple[Fraction, Fraction]


def points(*pairs: tuple[str, str]) -> dict[int, Point]:
    """Rows numbered from 1, in exact arithmetic."""
    return {i: (Fraction(a), Fraction(b)) for i, (a, b) in enumerate(pairs, start=1)}


def disagreement(x: Point, queried: list[Point], ridge: Fraction) -> Fraction:
    """D²(x; Q) = x'(ridge I + sum of qq')^-1 x.

    For f - g = s v'x with |v| <= 2 the supremum of (f-g)(x)² / (1 + sum of (f-g)(q)²) is taken at |v| = 2,
    where it is this quadratic form with ridge = 1 / (4 s²).
    """
    a = ridge + sum(q[0] ** 2 for q in queried)
    b = sum((q[0] * q[1] for q in queried), Fraction(0))
    c = ridge + sum(q[1] ** 2 for q in queried)
    return (c * x[0] ** 2 - 2 * b * x[0] * x[1] + a * x[1] ** 2) / (a * c - b * b)


def stages(pool: dict[int, Point], epsilons: list[Fraction], ridge: Fraction) -> list[list[int]]:
    """Which rows Algorithm 3, lines 2 to 13, queries in each of a fixed number of stages."""
    pool, result = dict(pool), []
    for epsilon in epsilons:
        queried: dict[int, Point] = {}
        while pool:
            D2 = {i: disagreement(x, list(queried.values()), ridge) for i, x in pool.items()}
            best = max(D2, key=lambda i: D2[i])
            if D2[best] <= epsilon**2:
                break
            queried[best] = pool.pop(best)
        result.append(list(queried))
    return result


UNIT_BALL = points((".53", "-.71"), ("-.09", "-.61"), (".24", "-.63"), (".19", ".83"), (".88", "-.26"))
PROBABILITIES = points(("-.23", "-.46"), (".42", ".58"), (".23", "-.88"), ("-.79", ".52"), (".9", "-.38"))


@pytest.mark.parametrize(
    ("rows", "scale", "epsilon", "before", "after"),
    [
        pytest.param(UNIT_BALL, "1", "1.5", [[5, 4], [1, 2]], [[1], [4]], id="values in [-1, 1]"),
        pytest.param(PROBABILITIES, "1/2", "0.8", [[5, 3], [4, 2, 1]], [[4], [3, 2]], id="values in [0, 1]"),
    ],
)
def test_forgetting_row_5_drops_another_core_row(
    rows: dict[int, Point], scale: str, epsilon: str, before: list[list[int]], after: list[list[int]]
) -> None:
    ridge = 1 / (4 * Fraction(scale) ** 2)
    epsilons = [Fraction(epsilon), Fraction(epsilon) / 2]
    assert stages(rows, epsilons, ridge) == before

    core = {i for stage in before for i in stage}
    survivors = {i: rows[i] for i in sorted(core - {5})}
    assert stages(survivors, epsilons, ridge) == after
    assert {i for stage in after for i in stage} < set(survivors)
