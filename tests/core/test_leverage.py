"""``exceeds`` decides ``g'H^-1g > tau`` as rationals do: at ties, and at gaps no float could see."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from erasable.core.deciding import exceeds, factor, gram_error, whiten
from erasable.core.grid import Grid
from erasable.core.sums import add_rows, empty_gram
from tests.oracle import gram_matrix, leverage


def gram(rows, units, d):
    """H as the package keeps it, with rubbish above the diagonal."""
    H = empty_gram(Grid(d, 20, False), units)
    add_rows(H, np.array(rows, dtype=np.float64).reshape(-1, d))
    H[np.triu_indices(d, 1)] = np.nan
    return H


def decide(g, rows, units, tau):
    """``exceeds``, checked against rational arithmetic; and whether it had to use rationals itself."""
    verdict, rational = exceeds(np.array(g, dtype=np.int32), gram(rows, units, len(g)), units, tau)
    assert verdict == (leverage(gram_matrix(rows, units, len(g)), g) > Fraction(tau))
    return verdict, rational


@st.composite
def decisions(draw):
    bits, d = draw(st.sampled_from([4, 15, 20])), draw(st.integers(1, 5))
    size = 2 ** draw(st.integers(0, bits)) - 1
    row = st.lists(st.integers(-size, size), min_size=d, max_size=d)
    pool = draw(st.lists(row, min_size=1, max_size=4))
    rows = draw(st.lists(st.sampled_from(pool), max_size=12))
    units = draw(st.one_of(st.integers(1, 9), st.integers(1, 2**40), st.sampled_from([2**30, 3 * 2**28])))
    return draw(st.sampled_from(pool)), rows, units


@given(decisions(), st.integers(-3, 3), st.sampled_from([1.0, 1.0, 1.0, 0.5, 2.0, 1 - 1e-9, 1 + 1e-9]))
def test_decisions_next_to_the_threshold_are_those_of_rationals(case, steps, stretch):
    g, rows, units = case
    nearest = float(leverage(gram_matrix(rows, units, len(g)), g))
    tau = nearest * stretch
    for _ in range(abs(steps)):
        tau = math.nextafter(tau, math.copysign(math.inf, steps))
    _, rational = decide(g, rows, units, max(tau, 0.0))
    event("rational" if rational else "enclosed")


@given(decisions(), st.sampled_from([0.0, 5e-324, 1e-310, 1e-30, 1e300]))
def test_decisions_at_the_ends_of_the_range(case, tau):
    g, rows, units = case
    assert decide(g, rows, units, tau)[0] == (any(g) and tau < 1e200)


def test_a_zero_row_is_never_above():
    assert decide([0, 0], [(3, 4)], 7, 0.0) == (False, False)


# -- true ties ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 4])
def test_a_tie_is_not_above(d):
    # |g|^2 / units = 2**-2
    g = [2**14] + [0] * (d - 1)
    assert decide(g, [], 2**30, 0.25) == (False, False)
    assert decide(g, [], 2**30, math.nextafter(0.25, 0.0)) == (True, False)
    assert decide(g, [], 2**30, math.nextafter(0.25, 1.0)) == (False, False)


def test_a_tie_whose_solution_is_no_binary_fraction_is_settled_in_rationals():
    # H = 2**20 I + 2 * 2**20 I, z = 1 / (3 * 2**10): leverage 3 * 2**20 / (3 * 2**20) = 1, and no power of two clears z
    g, units = [2**10] * 3, 2**20
    rows = [[2**10 * (i == j) for j in range(3)] for i in range(3)] * 2
    assert decide(g, rows, units, 1.0) == (False, True)
    assert decide(g, rows, units, math.nextafter(1.0, 0.0)) == (True, False)
    assert decide(g, rows, units, math.nextafter(1.0, 2.0)) == (False, False)


def test_a_tie_with_rows_already_there():
    # A copy of a row v with |v|^2 = V has leverage V / (units + V). Here V = 4 * 2**20, units + V = 2**31.
    v = [2**10, -(2**10), 2**10, 2**10]
    units, tau = 2**31 - 2**22, 2.0**-9
    assert leverage(gram_matrix([v], units, 4), v) == Fraction(tau)
    assert decide(v, [v], units, tau)[0] is False
    assert decide(v, [v], units, math.nextafter(tau, 0.0)) == (True, False)


def test_a_tie_in_a_matrix_that_float64_cannot_factor():
    # 8000 copies of one long row over lambda = 1, then a row orthogonal to them.
    long, across = (2**19 + 1, 2**19 - 3), (3, -4)
    rows = [long] * 4000
    H = gram_matrix(rows, 1, 2)
    exact = leverage(H, across)
    tau = float(exact)
    for t in (tau, math.nextafter(tau, 0.0), math.nextafter(tau, math.inf)):
        decide(across, rows, 1, t)


# -- gaps far below anything float64 resolves --------------------------------------------------------------------
#
# (2**k - 1)(2**k + 1) = 2**2k - 1, and (2**k - 2**j + 1)(2**k + 2**j + 1) = 2**2k + 1 where k = 2j - 1.
# So 1 / D differs from the float m / 2**2k by one part in 2**2k, where m D = 2**2k -+ 1.

BELOW = [(2**k - 1, 2**k + 1, 2 * k) for k in (45, 51)]  # m, D, exponent: the float is just below 1 / D
ABOVE = [(2**k - 2 ** ((k + 1) // 2) + 1, 2**k + 2 ** ((k + 1) // 2) + 1, 2 * k) for k in (45, 51)]


@pytest.mark.parametrize(("m", "D", "exponent"), BELOW + ABOVE)
@pytest.mark.parametrize("d", [1, 3])
def test_a_relative_gap_of_1e_27_or_1e_31_against_lambda_alone(m, D, exponent, d):
    side = 2**exponent - m * D
    assert abs(side) == 1
    for k in (0, 7, 19):
        tau = math.ldexp(m, 2 * k - exponent)
        assert Fraction(tau) == Fraction(m * 4**k, 2**exponent)
        g = [0] * (d - 1) + [2**k]
        verdict, _ = decide(g, [], D, tau)
        assert verdict == (side > 0)


@pytest.mark.parametrize(("m", "D", "exponent"), BELOW + ABOVE)
@pytest.mark.parametrize("k", [3, 12, 19])
def test_a_relative_gap_of_1e_27_or_1e_31_in_a_matrix_of_linked_coordinates(m, D, exponent, k):
    # A copy of v: leverage V / (units + V) with V = 4**k and units + V = D.
    v = [2 ** (k - 1) * s for s in (1, -1, -1, 1)]
    units = D - 4**k
    tau = math.ldexp(m, 2 * k - exponent)
    gap = leverage(gram_matrix([v], units, 4), v) - Fraction(tau)
    assert 0 < abs(gap) < Fraction(1, 10**27)
    verdict, rational = decide(v, [v], units, tau)
    assert verdict == (gap > 0)
    if k >= 12:
        assert not rational  # an enclosure of some 120 bits settles it


@pytest.mark.parametrize("k", [4, 9, 14])
def test_absolute_gaps_of_1e_18_on_both_sides(k):
    """Leverages about 1e-3, where floats are 2e-19 apart."""
    rng = np.random.default_rng(k)
    sides = set()
    for _ in range(30):
        rows = rng.integers(-(2**k), 2**k, (5, 3)).tolist()
        units = int(rng.integers(4**k * 2000, 4**k * 9000))
        g = rows[0]
        exact = leverage(gram_matrix(rows, units, 3), g)
        tau = float(exact)
        for t in (tau, math.nextafter(tau, 0.0), math.nextafter(tau, 1.0)):
            assert abs(exact - Fraction(t)) < Fraction(1, 10**18)
            sides.add((decide(g, rows, units, t)[0], exact > Fraction(t)))
    assert sides == {(True, True), (False, False)}


# -- the pieces that float64 decides with ------------------------------------------------------------------------


@given(decisions())
def test_whitened_rows_have_their_leverage_as_squared_norm_within_the_bound(case):
    g, rows, units = case
    f = factor(gram(rows, units, len(g)), units)
    if f is None:
        return
    Y = whiten(f, np.array([g], dtype=np.float64))
    q = float(np.einsum("ij,ij->", Y, Y))
    exact = leverage(gram_matrix(rows, units, len(g)), g)
    eta = gram_error(f, q, 1)
    if eta < 0.5:
        assert abs(Fraction(1.0 + q) - (1 + exact)) <= Fraction(eta) * (1 + exact)


def test_a_matrix_that_cannot_be_factored_gives_no_factor():
    assert factor(np.asfortranarray([[1.0, 0.0], [2.0, 2.0]]), 1) is None
