"""Logistic weights as a mathematical function of the rows: the exact minimiser, rounded, with a certificate.

For rows ``x_i = g_i / 2**bits``, signs ``y_i`` and weights of rows ``c_i``, let ``w*`` minimise
``alpha/2 |w|^2 + sum of c_i log(1 + exp(-y_i w'x_i))``. Published is ``float32(rint(2**q w*_j) / 2**q)`` with
``q = 24 + max(0, ceil(log2 alpha))``, never minus zero. Newton's method finds a point w by whatever means; then the
distance from w to ``w*`` is bounded, and an entry is settled when both ends of its enclosure are published as the same
float32. docs/exactness.md has the proofs.

Changes nothing it is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Booleans, Float32s, Float64s, Int64s, Matrix
from erasable.core.grid import Grid
from erasable.core.logistic_balls import SIGMOID_ERROR, settle_in_balls, smaller_sigmoid, two_product, two_sum
from erasable.core.newton import MOST_ROWS, Factor, Problems, RowBlocks, minimise
from erasable.core.sums import LARGEST_EXACT
from erasable.core.threads import few_threads
from erasable.errors import ConfigurationError, ExactnessError, InputError

MOST_ROWS_AT_ONCE = 2**20 - 1  # sums of integers stay below 2**63
LEAST_COUNT, LARGEST_COUNT = 2.0**-20, 2.0**20
_PIECE_BITS = 28
_ROUND = 2.0**-53
_SLACK = 1.0 + 2.0**-30  # covers the roundings of bounds themselves
_SHARPER = 3  # rounds in which an enclosure says how much the curvature changes, and this how large it is
_GROUP = 2**24  # numbers that factors and margins of problems solved together may take


def rounding_digits(units: int, bits: int) -> int:
    """``q = 24 + max(0, ceil(log2 alpha))`` for ``alpha = units / 4**bits``."""
    return 24 + max(0, (units - 1).bit_length() - 2 * bits)


def guard_rows(n_rows: int) -> None:
    """Raise ExactnessError for more core rows than logistic weights can be certified for."""
    if n_rows > MOST_ROWS_AT_ONCE:
        raise ExactnessError(
            f"the core set would reach {n_rows:,} rows, but logistic weights are certified for at most "
            f"{MOST_ROWS_AT_ONCE:,}: raise the threshold (fewer core rows)."
        )


def logistic_weights(
    rows: Matrix,
    signs: npt.ArrayLike,
    counts: npt.ArrayLike,
    grid: Grid,
    alpha_units: int,
    start: Any | None = None,
    gram: Any | None = None,
    exponents: Int64s | None = None,
) -> Float32s:
    """The certified weights of k problems that share their rows.

    Parameters
    ----------
    rows : integers of shape (n, n_columns), or sparse CSR integers of shape (n, n_features)
        Rows on ``grid``; dense ones with the constant, sparse ones without.
    signs : array of shape (k, n)
        -1 or +1: to which side a row belongs in each problem (one for two classes, else one class against the rest).
    counts : array of shape (n,), float64
        How much each row weighs: exactly these numbers, between ``2**-20`` and ``2**20``.
    alpha_units : int
        ``alpha * 4**bits``, at least 1.
    start, gram : arrays of shape (k, d) and (d, d), optional
        Where to begin, and about the sum of ``g_i g_i'`` (lower triangle). Only time depends on them.
    exponents : array of shape (n_columns,), optional
        Integers e from 0 to ``bits``: column j is regularised by ``alpha * 4**(e_j - bits)``. By default all are
        ``bits``.

    Returns
    -------
    array of shape (k, n_columns), float32

    Notes
    -----
    *Law*: a pure function of the set of rows with their signs and counts, of alpha and of exponents: not of the order
    of rows, of ``start`` or ``gram``, of block sizes, threads, or the machine.
    *Cost*: some passes over the rows and mostly one Hessian of them or of a sample (n d^2, float32); memory for blocks
    of rows, n k numbers and d x d factors. Nothing is kept between calls.

    Raises
    ------
    InputError
        When rows, signs, counts, start or gram are not as above.
    ExactnessError
        When there are too many rows for exact sums.
    ConfigurationError
        When alpha is outside the range of the grid.
    """
    Y, c = _checked(rows, signs, counts, grid, alpha_units)
    k, d = Y.shape[1], grid.n_columns
    begin, gram = _finite("start", start, (k, d)), _finite("gram", gram, (d, d))
    out = np.zeros((k, d), dtype=np.float32)
    if Y.shape[0] == 0 or d == 0:
        return out
    whole = Problems(RowBlocks.of(rows, grid), Y, c, grid.bits, alpha_units)
    together = max(1, _GROUP // (d * d + 4 * whole.rows.n))
    with few_threads(0.0):  # most of the work is on narrow blocks
        if exponents is not None:
            whole = whole.by_spread(exponents)
        for low in range(0, k, together):
            some = slice(low, low + together)
            out[some] = _solve(whole.of(some), None if begin is None else begin[some].T, gram).T
    if begin is not start and begin is not None:
        begin.fill(0.0)  # a copy, maybe of weights that depend on a forgotten row
    return out + np.float32(0.0)  # no negative zeros


def _checked(
    rows: Matrix, signs: npt.ArrayLike, counts: npt.ArrayLike, grid: Grid, units: int
) -> tuple[Float64s, Float64s]:
    """Signs of shape (n, k) and counts as float64."""
    n = rows.shape[0]
    width = grid.n_columns if isinstance(rows, np.ndarray) else grid.n_features
    Y, c = np.asarray(signs, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    if rows.shape[1] != width or rows.dtype.kind != "i":
        raise InputError(f"rows must be integers in {width} columns; got {rows.dtype} in {rows.shape[1]}.")
    if Y.ndim != 2 or Y.shape[1] != n or not bool((np.abs(Y) == 1.0).all()):
        raise InputError(f"signs must be -1 or +1, in shape (problems, {n}); got shape {Y.shape}.")
    if c.shape != (n,) or not bool(((c >= LEAST_COUNT) & (c <= LARGEST_COUNT)).all()):
        raise InputError(
            f"weights of rows must be {n} numbers between 2**-20 and 2**20, class weights included: "
            "choose weights of classes and rows closer to 1."
        )
    guard_rows(n)
    if not 1 <= units < LARGEST_EXACT:
        least, most = 4.0**-grid.bits, LARGEST_EXACT / 4**grid.bits
        raise ConfigurationError(
            f"alpha must be at least {least:.3g} and below {most:.3g} on a grid of {grid.bits} bits; "
            f"got {units / 4**grid.bits:.3g}."
        )
    return np.ascontiguousarray(Y.T), c


def _finite(name: str, hint: Any | None, shape: tuple[int, int]) -> Float64s | None:
    if hint is None:
        return None
    found = np.asarray(hint, dtype=np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        raise InputError(f"{name} must be finite numbers of shape {shape}.")
    return found


def _solve(problems: Problems, start: Float64s | None, gram: Float64s | None) -> Float32s:
    """Published weights of shape (d, k): approach, certify in two words, and settle what is left with balls."""
    W, factors = minimise(problems, start, gram)
    published = np.zeros(W.shape, dtype=np.float32)
    settled = np.zeros(W.shape, dtype=bool)
    for j in range(W.shape[1]):
        one = problems.of([j])
        w, factor = _certify(one, W[:, j], factors[j], published[:, j], settled[:, j])
        if not settled[:, j].all():
            settle_in_balls(one, w, factor, published[:, j], settled[:, j], rounding_digits(one.units, one.bits))
    return published


def _certify(
    problem: Problems, w: Float64s, factor: Factor, published: Float32s, settled: Booleans
) -> tuple[Float64s, Factor]:
    """Settle what double words can; return the best point and a factor of the Hessian there."""
    q = rounding_digits(problem.units, problem.bits)
    alpha, stretch, last, best, fresh = problem.alpha, problem.stretch, math.inf, math.inf, False
    goal = (alpha * 2.0 ** -(q + 9)) ** 2  # a decrement whose radius settles most entries
    for _ in range(20):
        point = Point.at(problem, w)
        s, factor = problem.step(factor, point.gradient, point.margins, goal)
        decrement = max(-float(point.gradient @ s), 0.0)
        near = decrement <= 4.0 * alpha * 2.0 ** -(q + 18)
        if near or decrement > last / 16.0:
            smallest = math.inf
            while True:
                enclosure = point.enclosure(s)
                if enclosure.radius < 1.0:
                    _settle(point.w * stretch, s * stretch, enclosure.radius * stretch, q, published, settled)
                if settled.all() or not enclosure.radius < 0.5 * smallest:
                    break
                smallest = enclosure.radius
                factor.learn(s, enclosure.eta - point.gradient)
                more, factor = problem.step(factor, enclosure.eta, point.margins, goal)
                s = s + more
            if settled.all() or (fresh and not smallest < 0.5 * best):
                return point.w + s, factor
            if not fresh:
                factor, fresh = problem.factor(point.margins, double=True), True
            best = smallest
        last, w = decrement, point.w + s
    return w, factor


def _settle(w: Float64s, s: Float64s, radius: Any, q: int, published: Float32s, settled: Booleans) -> None:
    """Publish the entries for which both ends of ``w + s +- radius`` are one float32."""
    centre = w + s
    error = radius + np.abs(centre) * 2.0**-52
    low, high = (
        np.ldexp(np.rint(np.ldexp(np.nextafter(end, toward), q)), -q).astype(np.float32)
        for end, toward in ((centre - error, -np.inf), (centre + error, np.inf))
    )
    certain = low == high
    published[certain] = low[certain]
    settled |= certain


@dataclass(frozen=True)
class Enclosure:
    """``|v* - v - s| <= radius``; ``eta`` is about ``g + H s``."""

    radius: float
    eta: Float64s


@dataclass(frozen=True)
class Point:
    """A point v whose margins are exact, and the gradient there with bounds on its error.

    Its weights w are integers over a power of two.
    """

    problem: Problems
    w: Float64s  # in the coordinates of ``problem``, like the gradient
    margins: Float64s
    curvature: Float64s  # c p (1 - p), a few roundings from it
    gradient: Float64s
    error: float  # of the gradient, but for that of the sigmoids
    smaller: float  # sum of c min(p, 1 - p)

    @classmethod
    def at(cls, problem: Problems, w: Float64s) -> Point:
        """Near ``w``: rounded so that every product with a row is exact."""
        bits, c, of_column = problem.bits, problem.counts, problem.exponents.tolist()
        d, n, stretch = len(w), problem.rows.n, problem.stretch
        sizes = np.abs(w * stretch)
        length = min(_norm(sizes), problem.reach * _norm(w), float((sizes * problem.widest).sum()) * _SLACK)
        W, e = _rounded(w * stretch, bits, rounding_digits(problem.units, bits), length)
        piece = min(_PIECE_BITS, 43 - bits)
        top = int(np.frexp(c.max())[1])
        first, second = 2.0 ** (top - piece), 2.0 ** (top - 2 * piece)
        margins, curvature = np.zeros(n), np.zeros(n)
        sums: Int64s = np.zeros((d, 2), dtype=np.int64)
        rest_sum, rest_size, smaller = np.zeros(d), 0.0, 0.0
        for where, X in problem.rows:
            y, cb = problem.signs[where, 0], c[where]
            m = np.ldexp(X @ W, -bits - e) * y
            s, s_low = smaller_sigmoid(np.abs(m))
            p, p_low = two_sum(np.where(m < 0.0, 1.0, 0.0), np.where(m < 0.0, -s, s))
            v, v_low = two_product(p, cb)
            v_low = v_low + cb * (p_low + np.where(m < 0.0, -s_low, s_low))
            one = np.rint(v / first)
            r, r_low = two_sum(v - one * first, v_low)
            two = np.rint(r / second)
            rest = (r - two * second) + r_low
            products = X.T @ (np.stack([one, two, rest], axis=1) * y[:, None])
            sums += products[:, :2].astype(np.int64)
            rest_sum += products[:, 2]
            rest_size += float(np.abs(rest).sum())
            small = cb * s
            smaller += float(small.sum())
            margins[where], curvature[where] = m, small * (1.0 - s)
        scale = max(3 * bits + e - min(of_column), max(of_column) + 2 * piece - top)
        exact = [
            (problem.units * int(W[j]) << (scale - 3 * bits - e + of_column[j]))
            - (((int(sums[j, 0]) << piece) + int(sums[j, 1])) << (scale - of_column[j] - 2 * piece + top))
            for j in range(d)
        ]
        head = np.ldexp(np.array([float(x) for x in exact]), -scale)
        gradient = head - rest_sum * problem.unit
        size = _norm(head) + _norm(gradient)
        lost = _gamma(problem) * rest_size + 2.0**-100 * float(c.sum())
        error = _SLACK * (2.0 * _ROUND * size + problem.reach * lost)
        return cls(problem, np.ldexp(W, -e) / stretch, margins, curvature, gradient, error, smaller)

    def enclosure(self, s: Float64s) -> Enclosure:
        """A ball around ``v + s`` that holds the minimiser; radius infinite where s is too long to tell."""
        problem, unit, reach = self.problem, self.problem.unit, self.problem.reach
        alpha, d = problem.alpha, len(s)
        t, square, size, longest = np.zeros(d), 0.0, 0.0, 0.0
        for where, X in problem.rows:
            z = X @ (s * unit)
            dz = self.curvature[where] * z
            t += X.T @ dz
            square += float(dz @ z)
            size += float(np.abs(dz).sum())
            longest = max(longest, float(np.abs(z).max(initial=0.0)))
        t *= unit
        eta = self.gradient + (alpha * s + t)
        length, curved = _norm(s), math.sqrt(float(self.curvature.sum()) * _SLACK)
        lost_of_row = (d + 10) * 1.01 * _ROUND * reach * length  # of an entry of X s
        lost = lost_of_row * curved  # of D^1/2 X s
        bent = math.sqrt(square) * _SLACK + lost  # |D^1/2 X s|
        lost_of_eta = _gamma(problem) * reach * size
        rounding = 4.0 * _ROUND * (_norm(self.gradient) + alpha * length + _norm(t)) + lost_of_eta
        residual = (_norm(eta) + rounding + self.error) * _SLACK
        noise = SIGMOID_ERROR * math.sqrt(2.0 * self.smaller) * _SLACK
        root = math.sqrt(alpha)
        Q = math.hypot(root * length, bent) + residual / root + (noise + lost + 16.0 * _ROUND * bent)
        Q *= reach / root * _SLACK
        if not Q < 0.5:
            return Enclosure(math.inf, eta)
        rho = Q / (1.0 - Q)  # at least -ln(1 - Q), and at most 1
        for _ in range(_SHARPER):
            kappa = 0.5 * rho * (1.0 + 0.5 * rho)  # at least (e^rho - 1) / rho - 1
            phi = 1.0 - 0.5 * rho  # at most (1 - e^-rho) / rho
            structured = (kappa + 16.0 * _ROUND) * bent + noise + lost
            radius = (residual / alpha + structured / (2.0 * math.sqrt(alpha * phi))) * _SLACK
            rho = min(rho, (longest + lost_of_row + reach * radius) * _SLACK)
        return Enclosure(radius, eta)


def _norm(v: Float64s) -> float:
    return math.sqrt(float(v @ v)) * _SLACK


def _gamma(problem: Problems) -> float:
    """How far, relative to the sum of sizes, a sum of products over all rows may be from its value."""
    return (MOST_ROWS + len(problem.rows.parts) + 10) * 1.01 * _ROUND


def _rounded(w: Float64s, bits: int, q: int, length: float) -> tuple[Float64s, int]:
    """Integers ``W`` and an exponent e with ``W / 2**e`` near w.

    *Law*: for rows g with ``|g| <= 2**bits`` whose products with w, summed over any columns, are at most ``2**bits *
    length``, such sums of products with W are at most ``2**53``. The norm of w is such a length.
    """
    room = 2.0 ** (53 - bits) - math.sqrt(len(w))
    e = q + 64 if length == 0.0 else min(q + 64, int(np.frexp(room / length)[1]) - 1)
    return np.rint(np.ldexp(w, e)), e


def spread_exponents(squares: Sequence[int], totals: Sequence[int], n: int) -> Int64s:
    """``max(0, floor(log4(V / n**2)))`` with ``V = n * squares - totals**2`` for each column; 0 where V is.

    Parameters
    ----------
    squares, totals : integers for each column
        The sum of the squares and the sum of the entries of n rows.

    Notes
    -----
    *Law*: exact, whatever the size of these integers. For rows of b bits each exponent is below b.
    """

    def exponent(square: int, total: int) -> int:
        variance = (n * square - total**2) // n**2  # rounded down, since powers of four are integers
        return max(0, variance.bit_length() - 1) // 2

    columns = zip(squares, totals, strict=True)
    return np.array([exponent(*column) if n else 0 for column in columns], dtype=np.int64)


def weighted_squares(rows: Matrix, times: Int64s) -> tuple[list[int], list[int]]:
    """The sum of the squares and the sum of the entries of each column, row i counted ``times[i]`` times, exactly.

    ``times`` are at most ``2**10``. Sparse rows have no constant.
    """
    squares, totals = np.zeros(rows.shape[1], dtype=object), np.zeros(rows.shape[1], dtype=object)
    for low in range(0, rows.shape[0], MOST_ROWS):  # so many that sums stay below 2**63
        part, few = rows[low : low + MOST_ROWS].astype(np.int64), times[low : low + MOST_ROWS]
        squares += ((part * part).T @ few).astype(object)
        totals += (part.T @ few).astype(object)
    return squares.tolist(), totals.tolist()
