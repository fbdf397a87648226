"""Newton's method for logistic problems that share their rows: finds weights and promises nothing about them.

What comes out depends on the machine and on the start. :mod:`erasable.core.logistic` makes of it what does not.

Changes nothing it is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.special import expit

from erasable.core.arrays import Float64s
from erasable.core.row_blocks import RowBlocks
from erasable.errors import ConfigurationError

_MOST_STEPS = 200
_NEAR = 2.0**-12  # a distance from the minimiser within which Newton's method needs no line search
_LEAST_SAMPLE = 512  # rows


@dataclass(frozen=True)
class Problems:
    """``alpha/2 |w|^2 + sum of c_i log(1 + exp(-y_i w'x_i))``, ``x = g / 2**bits``, for each column of signs."""

    rows: RowBlocks
    signs: Float64s  # (n, k)
    counts: Float64s  # (n,)
    bits: int
    units: int  # alpha * 4**bits

    @property
    def alpha(self) -> float:
        """The strength of the penalty, rounded to float64."""
        return float(self.units) / float(4**self.bits)

    def of(self, which: Any) -> Problems:
        """Some of the problems."""
        return replace(self, signs=self.signs[:, which])

    def margins_and_gradient(self, W: Float64s) -> tuple[Float64s, Float64s]:
        """``y_i w'x_i`` (n, k) and the gradients (d, k), in plain float64."""
        M, G, unit = np.zeros(self.signs.shape), np.zeros(W.shape), 2.0**-self.bits
        for where, X in self.rows:
            Y = self.signs[where]
            M[where] = (X @ W) * Y * unit
            G -= X.T @ (self.counts[where, None] * expit(-M[where]) * Y)
        return M, self.alpha * W + G * unit

    def values(self, W: Float64s, margins: Float64s) -> Float64s:
        """What is minimised, for each problem."""
        out: Float64s = 0.5 * self.alpha * (W * W).sum(axis=0) + self.counts @ np.logaddexp(0.0, -margins)
        return out

    def factor(self, margins: Float64s, *, double: bool = False) -> Factor:
        """Cholesky factor of about the Hessian of one problem."""
        D = self.counts * expit(margins) * expit(-margins)
        dtype = np.float64 if double else np.float32
        H = self.rows.gram(np.ldexp(D, -2 * self.bits), dtype)
        ridge = self.alpha
        while True:
            shifted = H.copy(order="F")
            shifted[np.diag_indices_from(shifted)] += dtype(ridge)
            L, info = (lapack.dpotrf if double else lapack.spotrf)(shifted, lower=1, overwrite_a=1)
            if info == 0:
                return Factor(L, double)
            if not double:
                return self.factor(margins, double=True)
            ridge = max(8.0 * ridge, 2.0**-50 * float(H.diagonal().max()))


@dataclass(frozen=True)
class Factor:
    """An approximate Cholesky factor: speed depends on its quality, results do not."""

    L: Any
    double: bool

    def solve(self, g: Float64s) -> Float64s:
        """About ``H^-1 g``."""
        size = float(np.abs(g).max(initial=0.0))
        if size == 0.0:
            return np.zeros_like(g)
        potrs = lapack.dpotrs if self.double else lapack.spotrs
        x, _ = potrs(self.L, (g / size).astype(self.L.dtype), lower=1)
        out: Float64s = x.astype(np.float64) * size
        return out


def minimise(problems: Problems, start: Float64s | None) -> tuple[Float64s, list[Factor]]:
    """Weights (d, k) near the minimisers, and factors of about the Hessians there.

    Without a start, a sample of the rows is solved first, and a larger sample from there.
    """
    if start is not None:
        W = start.copy()
    else:
        W, d = np.zeros((problems.rows.d, problems.signs.shape[1])), problems.rows.d
        for every in (16, 4):
            if problems.rows.n >= every * max(_LEAST_SAMPLE, 2 * d):
                rows = problems.rows.sample(every)
                share = sum(where.stop - where.start for where, _ in rows.parts) / rows.n
                sample = replace(problems, rows=rows, counts=problems.counts / share)
                W, _ = _descend(sample, W, max(0.01 * d, _NEAR**2 * problems.alpha))
    return _descend(problems, W, _NEAR**2 * problems.alpha)


def _descend(problems: Problems, W: Float64s, enough: float) -> tuple[Float64s, list[Factor]]:
    k = W.shape[1]
    factors: list[Any] = [None] * k
    S, decrement = np.zeros_like(W), np.full(k, np.inf)
    M, G = problems.margins_and_gradient(W)
    worse = np.flatnonzero(problems.values(W, M) > float(problems.counts.sum()) * np.log(2.0))
    if len(worse):  # than nothing: a start that is of no use
        W[:, worse] = 0.0
        M[:, worse], G[:, worse] = problems.of(worse).margins_and_gradient(W[:, worse])
    active = list(range(k))
    for _ in range(_MOST_STEPS):
        going_on = []
        for j in active:
            fresh = factors[j] is None
            if fresh:
                factors[j] = problems.factor(M[:, j])
            S[:, j] = -factors[j].solve(G[:, j])
            now = -float(G[:, j] @ S[:, j])
            if now > decrement[j] / 16.0 and not fresh:
                factors[j] = problems.factor(M[:, j])
                S[:, j] = -factors[j].solve(G[:, j])
                now = -float(G[:, j] @ S[:, j])
            decrement[j] = now
            if now <= enough:
                W[:, j] += S[:, j]
            else:
                going_on.append(j)
        active = going_on
        if not active:
            return W, factors
        part = problems.of(active)
        M_new, G_new = part.margins_and_gradient(W[:, active] + S[:, active])
        short = []
        for at, j in enumerate(active):
            slope, end = float(G[:, j] @ S[:, j]), float(G_new[:, at] @ S[:, j])
            if end <= 0.1 * abs(slope):
                W[:, j] += S[:, j]
                M[:, j], G[:, j] = M_new[:, at], G_new[:, at]
            else:
                t = _length(problems, W[:, j], S[:, j], M[:, j], M_new[:, at])
                W[:, j] += t * S[:, j]
                if t < 0.1:
                    factors[j] = None  # of no use here
                short.append(j)
        if short:
            M[:, short], G[:, short] = problems.of(short).margins_and_gradient(W[:, short])
    raise ConfigurationError(
        f"no minimum was found in {_MOST_STEPS} steps with alpha = {problems.alpha:.3g}: the rows determine the "
        "weights too poorly for so small an alpha; raise it."
    )


def _length(problems: Problems, w: Float64s, s: Float64s, margins: Float64s, after: Float64s) -> float:
    """Where between 0 and 1 along s the function is least: bisection of its slope, each trial O(n)."""
    along, low, high = after - margins, 0.0, 1.0
    flat, bend = problems.alpha * float(w @ s), problems.alpha * float(s @ s)

    def slope(t: float) -> float:
        return flat + t * bend - float((problems.counts * along) @ expit(-(margins + t * along)))

    steepest = slope(0.0)
    for _ in range(60):
        t = 0.5 * (low + high)
        here = slope(t)
        if abs(here) <= 0.1 * abs(steepest):
            return t
        low, high = (t, high) if here < 0.0 else (low, t)
    return high
