"""Newton's method for logistic problems that share their rows: finds weights and promises nothing about them.

What comes out depends on the machine and on the start. :mod:`erasable.core.logistic` makes of it what does not.

Rows come in blocks of float64, dense or sparse (:class:`RowBlocks`), so that memory is bounded.

Changes nothing it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import expit

from erasable.core.arrays import Float64s, Floats, Int64s, Matrix
from erasable.core.grid import Grid

MOST_ROWS = 1024  # of a block
_BLOCK_ENTRIES = 2**18  # of a dense block: two megabytes stay in a cache
_SLAB = 32  # blocks of sparse rows whose products with each other are summed at once
_SPARSE = 1 / 8  # rows with fewer entries than this, of all, are multiplied as sparse ones
_VERY_SPARSE = 1 / 16  # and their products with each other are, too
_MANY_PASSES = 6.0  # a Gram matrix that costs more than these is made of a sample, and passes make up for it


@dataclass(frozen=True)
class RowBlocks:
    """Rows of integers, of norm below ``2**bits``, the constant included, a block at a time."""

    n: int
    d: int
    parts: tuple[tuple[slice, Any], ...]  # positions of rows; dense integers, or sparse float64
    sparse: bool
    very_sparse: bool

    @classmethod
    def of(cls, rows: Matrix, grid: Grid) -> RowBlocks:
        """The blocks of dense rows of shape (n, n_columns), or of CSR rows of shape (n, n_features).

        Sparse rows come without the intercept's constant. Dense rows that hold mostly zeros are taken as sparse ones.
        """
        n, d = rows.shape[0], grid.n_columns
        dense = isinstance(rows, np.ndarray)
        entries = int(np.count_nonzero(rows)) if dense else rows.nnz + n * int(grid.intercept)
        density = entries / max(n * d, 1)
        sparse = not dense or density < _SPARSE
        step = MOST_ROWS if sparse else min(MOST_ROWS, max(64, _BLOCK_ENTRIES // max(d, 1)))
        if sparse:
            rows = _nonzeros(rows) if dense else _with_constant(rows, grid)
        places = [slice(low, min(low + step, n)) for low in range(0, n, step)]
        parts = [(p, _sparse_slice(rows, p.start, p.stop) if sparse else rows[p]) for p in places]
        return cls(n, d, tuple(parts), sparse, sparse and density < _VERY_SPARSE)

    def __iter__(self) -> Iterator[tuple[slice, Any]]:
        """Positions of rows and the block itself: something that has ``block @ W`` and ``block.T @ V``, in float64."""
        return self.blocks(np.float64)

    def blocks(self, dtype: Any) -> Iterator[tuple[slice, Any]]:
        """The same, dense blocks in a type of one's choice."""
        for where, part in self.parts:
            yield where, part if self.sparse else part.astype(dtype)

    @property
    def gram_in_passes(self) -> float:
        """About how many products with all rows, back and forth, cost as much as a Gram matrix."""
        if self.very_sparse:
            return 4.0 + float(sum(part.nnz for _, part in self.parts)) / max(self.n, 1)
        return 1.0 + self.d / 64.0

    @property
    def worth_a_sample(self) -> bool:
        """Whether a Gram matrix of all rows costs much more than some products with them."""
        return not self.sparse and self.gram_in_passes > _MANY_PASSES

    def sample(self, every: int) -> RowBlocks:
        """One block of so many."""
        return RowBlocks(self.n, self.d, self.parts[::every], self.sparse, self.very_sparse)

    def extent(self, unit: Float64s) -> tuple[float, Float64s]:
        """About the norm of the longest row, entries multiplied by ``unit``, and the largest entry of each column."""
        longest, widest = 0.0, np.zeros(self.d)
        for _, X in self:
            sizes = abs(X)
            longest = max(longest, float(((sizes * sizes) @ unit**2).max(initial=0.0)))
            largest = sizes.max(axis=0)
            widest = np.maximum(widest, largest.toarray().ravel() if self.sparse else largest)
        return math.sqrt(longest), widest

    def gram(self, D: Float64s, dtype: type) -> Floats:
        """About ``sum of D_i g_i g_i'`` over the blocks: the lower triangle of a Fortran-ordered array."""
        if self.very_sparse:
            return self._sparse_gram(D).astype(dtype, order="F")
        H: Floats = np.zeros((self.d, self.d), dtype=dtype, order="F")
        rank_k = blas.ssyrk if dtype is np.float32 else blas.dsyrk
        roots: Floats = np.sqrt(D).astype(dtype)
        for where, part in self.parts:
            dense = part.toarray() if self.sparse else part
            scaled = dense.astype(dtype)
            scaled *= roots[where, None]
            H = rank_k(1.0, scaled.T, beta=1.0, c=H, lower=1, overwrite_c=1)
        return H

    def sampled_gram(self, D: Float64s) -> Floats:
        """The same in float32 from the rows whose D is not zero; the rows are dense."""
        H: Floats = np.zeros((self.d, self.d), dtype=np.float32, order="F")
        roots: Floats = np.sqrt(D).astype(np.float32)
        scaled, filled = np.empty((MOST_ROWS, self.d), dtype=np.float32), 0
        for where, part in (*self.parts, (slice(0, 0), None)):
            taken = np.flatnonzero(roots[where])
            if part is None or filled + len(taken) > MOST_ROWS:
                H = blas.ssyrk(1.0, scaled[:filled].T, beta=1.0, c=H, lower=1, overwrite_c=1)
                filled = 0
            if part is not None:
                np.multiply(part[taken], roots[where][taken, None], out=scaled[filled : filled + len(taken)])
                filled += len(taken)
        return H

    def _sparse_gram(self, D: Float64s) -> Float64s:
        from scipy.sparse import vstack

        H = np.zeros((self.d, self.d))
        for low in range(0, len(self.parts), _SLAB):
            some = self.parts[low : low + _SLAB]
            slab = vstack([part for _, part in some], format="csr")
            weights = np.concatenate([D[where] for where, _ in some])
            scaled = slab.copy()
            scaled.data *= np.repeat(weights, np.diff(slab.indptr))
            H += (slab.T @ scaled).toarray()
        return H


def _nonzeros(rows: Matrix) -> Any:
    """Dense integers as sparse float64."""
    from scipy.sparse import csr_array

    n, d = rows.shape
    data, columns, lengths = [], [], [np.zeros(1, dtype=np.int64)]
    for low in range(0, n, MOST_ROWS):
        part = rows[low : low + MOST_ROWS]
        flat = np.flatnonzero(part.reshape(-1) != 0)
        at, column = np.divmod(flat, d)
        data.append(part.reshape(-1)[flat].astype(np.float64))
        columns.append(column.astype(np.int32))
        lengths.append(np.bincount(at, minlength=len(part)))
    starts = np.cumsum(np.concatenate(lengths))
    return csr_array((np.concatenate(data), np.concatenate(columns), starts), shape=(n, d))


def _with_constant(rows: Matrix, grid: Grid) -> Any:
    """Sparse rows as float64, the constant as their last column."""
    from scipy.sparse import csr_array, hstack

    features = csr_array(rows, dtype=np.float64)
    if not grid.intercept:
        return features
    return hstack([features, csr_array(np.full((rows.shape[0], 1), float(grid.constant)))], format="csr")


def _sparse_slice(rows: Matrix, low: int, high: int) -> Any:
    """Some rows, their numbers shared."""
    first, last = int(rows.indptr[low]), int(rows.indptr[high])
    pieces = rows.data[first:last], rows.indices[first:last], rows.indptr[low : high + 1] - first
    return type(rows)(pieces, shape=(high - low, rows.shape[1]))


_MOST_STEPS = 50
_NEAR = 2.0**-12  # a distance from the minimiser within which Newton's method needs no line search
_GOAL = 2.0**-40  # of alpha: a decrement that can be certified
_END = 2.0**-60  # of alpha: about what the certificate's own steps lead to
_STEP_GOAL = 2.0**-48  # of alpha: a decrement that rounding a point to certify leaves, about
_SINGLE = 2.0**-20  # of the sum of counts: a decrement that gradients from float32 products show
_LEAST_SAMPLE = 512  # rows
_SAMPLE = 8  # rows for each column
_CLOSE = 0.01  # for each column: a decrement at which a Hessian says more than that at zero
_APPROACH = 12  # steps without one, at most
_PATIENCE = 3  # steps that are left where a factor is fresh
_FAR = 2.0**60  # from zero; no minimiser is farther than 2**41
_SAMPLE_ERROR = 0.3  # of the Hessian
_MOST_SAMPLED = 0.75  # of the rows
_ENOUGH = 2.0**-24  # of a decrement: how much of it a step may leave
_MOST_PASSES = 12  # that improve a step
_MOST_SEEN = 20  # steps from which a factor learns


@dataclass(frozen=True)
class Problems:
    """``alpha/2 |v|^2 + sum of c_i log(1 + exp(-y_i v'b_i))`` for each column of signs.

    Column j of the rows b is that of the grid integers over ``2**exponents[j]``. The weights w of the rows ``g /
    2**bits`` are ``stretch * v``, so each has a regulariser of its own; with exponents that are all ``bits``, the
    default, v is w.
    """

    rows: RowBlocks
    signs: Float64s  # (n, k)
    counts: Float64s  # (n,)
    bits: int
    units: int  # alpha * 4**bits
    exponents: Any = None  # (d,), integers from 0 to bits
    reach: float = 1.0  # no row b is longer
    widest: Any = 1.0  # (d,): no entry of a row g / 2**bits is larger

    def __post_init__(self) -> None:
        exponents = np.full(self.rows.d, self.bits) if self.exponents is None else self.exponents
        object.__setattr__(self, "exponents", exponents.astype(np.intc))  # as ldexp takes them on every system

    def by_spread(self, exponents: Int64s) -> Problems:
        """The same rows with a regulariser for each column."""
        found = replace(self, exponents=exponents)
        longest, widest = self.rows.extent(found.unit)
        return replace(found, reach=longest * (1.0 + 2.0**-30), widest=np.ldexp(widest, -self.bits))

    @property
    def unit(self) -> Float64s:
        """What one step of the grid is in each column of the rows b."""
        found: Float64s = np.ldexp(1.0, -self.exponents)
        return found

    @property
    def stretch(self) -> Float64s:
        """The weights w over v."""
        found: Float64s = np.ldexp(1.0, self.bits - self.exponents)
        return found

    @property
    def alpha(self) -> float:
        """The strength of the penalty, rounded to float64."""
        return float(self.units) / float(4**self.bits)

    def of(self, which: Any) -> Problems:
        """Some of the problems."""
        return replace(self, signs=np.ascontiguousarray(self.signs[:, which]))

    def margins_and_gradient(self, W: Float64s, *, single: bool = False) -> tuple[Float64s, Float64s]:
        """``y_i v'b_i`` (n, k) and the gradients (d, k), from products in plain float64 or in float32."""
        M, G, unit = np.zeros(self.signs.shape), np.zeros(W.shape), self.unit[:, None]
        V = (W * unit).astype(np.float32 if single else np.float64)
        with np.errstate(invalid="ignore"):  # some float32 kernels raise the flag over lanes that they do not use
            for where, X in self.rows.blocks(V.dtype):
                Y = self.signs[where]
                M[where] = (X @ V) * Y
                G -= X.T @ (self.counts[where, None] * expit(-M[where]) * Y).astype(V.dtype)
        return M, self.alpha * W + G * unit

    def values(self, W: Float64s, margins: Float64s) -> Float64s:
        """What is minimised, for each problem."""
        out: Float64s = 0.5 * self.alpha * (W * W).sum(axis=0) + self.counts @ np.logaddexp(0.0, -margins)
        return out

    def better_than_nothing(self, w: Float64s) -> bool:
        """Whether the value of one problem at ``w`` is finite and no larger than that at zero."""
        if not np.abs(w).max(initial=0.0) < _FAR:  # nor is NaN
            return False
        margins, _ = self.margins_and_gradient(w[:, None])
        return bool(self.values(w[:, None], margins)[0] <= float(self.counts.sum()) * math.log(2.0))

    def sampled_gram(self) -> Float64s:
        """About the sum of ``g_i g_i'``, from a sample of the rows: its lower triangle."""
        rows = self.rows.sample(max(1, self.rows.n // max(_LEAST_SAMPLE, _SAMPLE * self.rows.d)))
        share = sum(where.stop - where.start for where, _ in rows.parts) / rows.n
        return rows.gram(np.full(rows.n, 1.0 / share), np.float32).astype(np.float64)

    def even_factor(self, gram: Float64s, bend: float) -> Factor | None:
        """Cholesky factor of the Hessian if all ``p (1 - p)`` were ``bend``, about; 1/4 at zero."""
        with np.errstate(over="ignore"):
            H = self._stretched(gram * math.ldexp(bend * float(self.counts.mean()), -2 * self.bits))
            H[np.diag_indices_from(H)] += self.alpha
            L, info = lapack.spotrf(H, lower=1)
        return Factor(L, False) if info == 0 and np.isfinite(L).all() else None

    def _stretched(self, H: Any) -> Any:
        """A Gram matrix of the rows ``g / 2**bits`` as one of the rows b, in place."""
        stretch = self.stretch.astype(H.dtype)
        H *= stretch
        H *= stretch[:, None]
        return H

    def bends(self, margins: Float64s) -> Float64s:
        """``c_i p_i (1 - p_i)`` for one problem."""
        return np.asarray(self.counts * expit(margins) * expit(-margins))

    def factor(self, margins: Float64s, *, double: bool = False, whole: bool = True) -> Factor:
        """Cholesky factor of about the Hessian of one problem; of a sample's where that pays and will do."""
        D = self.bends(margins)
        if self.rows.worth_a_sample and not (double or whole):
            few = thinned(D, self.rows.d)
            if np.count_nonzero(few) < _MOST_SAMPLED * len(D):
                H = self._stretched(self.rows.sampled_gram(np.ldexp(few, -2 * self.bits)))
                H[np.diag_indices_from(H)] += np.float32(self.alpha)
                L, info = lapack.spotrf(H, lower=1, overwrite_a=1)
                if info == 0:
                    return Factor(L, False, sampled=True)
        dtype = np.float64 if double else np.float32
        H = self._stretched(self.rows.gram(np.ldexp(D, -2 * self.bits), dtype))
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

    def bent(self, D: Float64s, s: Float64s) -> Float64s:
        """About ``H s`` for one problem, from products in float32."""
        t, unit = np.zeros_like(s), self.unit
        size = float(np.abs(s * unit).max(initial=0.0))
        if not 0.0 < size < np.inf:
            return t
        v, d = (s * unit / size).astype(np.float32), D.astype(np.float32)
        with np.errstate(invalid="ignore"):  # as above
            for where, X in self.rows.blocks(np.float32):
                t += X.T @ (d[where] * (X @ v))
        return self.alpha * s + t * (unit * size)

    def step(self, factor: Factor, g: Float64s, margins: Float64s, goal: float) -> tuple[Float64s, Factor]:
        """About ``-H^-1 g`` for one problem, and the factor that led there.

        A step by the factor of a sample is improved until what is left of its decrement is at most the goal, or what a
        step by a whole factor would leave. If that takes too long, a whole one is made.
        """
        s = more = -factor.solve(g)
        if not factor.sampled:
            return s, factor
        rest, now, D = g, -float(g @ s), self.bends(margins)
        goal = max(goal, now * max(now / float(self.counts.sum()), _ENOUGH))
        for _ in range(_MOST_PASSES):
            if not -float(rest @ more) > goal:
                return s, factor
            Hs = self.bent(D, more)
            factor.learn(more, Hs)
            rest = rest + Hs
            more = -factor.solve(rest)
            s = s + more
        return self.step(self.factor(margins), g, margins, goal)


def thinned(D: Float64s, d: int) -> Float64s:
    """``D`` with most of its small entries replaced by zero, and what is left of these raised to make up for it.

    Row i is taken with a chance of ``min(1, D_i / t)``, evenly in the order of rows, and then counts ``max(D_i, t)``.
    That is off by about ``2 sqrt(d sum of D_i max(t - D_i, 0)) / sum of D_i`` of the Hessian, so t follows.
    """
    most, t = (_SAMPLE_ERROR * float(D.sum())) ** 2, float(D.max())
    while 4.0 * d * float(D @ np.maximum(t - D, 0.0)) > most:
        t *= 0.75
    if t == 0.0:
        return D
    turns = np.floor(np.cumsum(np.minimum(D / t, 1.0)))
    return np.where(np.diff(turns, prepend=0.0) > 0.0, np.maximum(D, t), 0.0)


@dataclass(frozen=True)
class Factor:
    """About the inverse of a Hessian: a Cholesky factor, and what steps showed since (L-BFGS).

    Speed depends on its quality, results do not.
    """

    L: Any
    double: bool
    sampled: bool = False
    seen: list[tuple[Float64s, Float64s, float]] = field(default_factory=list)  # s, H s and s'H s

    def learn(self, s: Float64s, Hs: Float64s) -> None:
        """A step and how it changed the gradient."""
        bend = float(s @ Hs)
        if bend > 0.0:
            self.seen[:] = [*self.seen[1 - _MOST_SEEN :], (s, Hs, bend)]

    def solve(self, g: Float64s) -> Float64s:
        """About ``H^-1 g``; zero where that is not finite."""
        size = float(np.abs(g).max(initial=0.0))
        if size == 0.0:
            return np.zeros_like(g)
        rest, shares = g / size, []
        with np.errstate(over="ignore", invalid="ignore"):
            for s, Hs, bend in reversed(self.seen):
                shares.append(float(s @ rest) / bend)
                rest = rest - shares[-1] * Hs
            potrs = lapack.dpotrs if self.double else lapack.spotrs
            x, _ = potrs(self.L, rest.astype(self.L.dtype), lower=1)
            out: Float64s = x.astype(np.float64)
            for s, Hs, bend in self.seen:
                out = out + (shares.pop() - float(Hs @ out) / bend) * s
            out = out * size
        return out if np.isfinite(out).all() else np.zeros_like(g)


def _begin(problems: Problems, start: Float64s | None) -> tuple[Float64s, Float64s, Float64s]:
    """The weights to begin with, their margins and gradients; a start that is worse than zero is dropped."""
    if start is None:
        W = np.zeros((problems.rows.d, problems.signs.shape[1]))
        return W, *problems.margins_and_gradient(W, single=True)
    W = start / problems.stretch[:, None]
    M, G = problems.margins_and_gradient(W)
    worse = np.flatnonzero(problems.values(W, M) > float(problems.counts.sum()) * np.log(2.0))
    if len(worse):
        W[:, worse] = 0.0
        M[:, worse], G[:, worse] = problems.of(worse).margins_and_gradient(W[:, worse])
    return W, M, G


def minimise(problems: Problems, start: Float64s | None, gram: Float64s | None) -> tuple[Float64s, list[Factor]]:
    """Finite weights v (d, k), near the minimisers as far as float64 allows, and factors of about the Hessians there.

    A start is of weights w. Without one, what is about the Hessian at zero, from ``gram`` or from a sample, leads most
    of the way. Iterates are overwritten: a start may be the weights of a model with rows that it has forgotten since.
    """
    k = problems.signs.shape[1]
    factors: list[Any] = [None] * k
    if start is None:
        gram = problems.sampled_gram() if gram is None else gram
        first = problems.even_factor(gram, 0.25)
        factors = [first and replace(first, seen=[]) for _ in range(k)]
    W, M, G = _begin(problems, start)
    try:
        return _descend(problems, (W, M, G), factors, None if start is not None else gram)
    finally:
        for array in (W, M, G):
            array.fill(0.0)


def _descend(
    problems: Problems, begin: tuple[Float64s, Float64s, Float64s], factors: list[Any], gram: Float64s | None
) -> tuple[Float64s, list[Factor]]:
    """Newton's steps from weights with their margins and gradients, which are changed, as are the factors."""
    (W, M, G), alpha, (d, k) = begin, problems.alpha, begin[0].shape
    total, patience = float(problems.counts.sum()), problems.rows.gram_in_passes + _PATIENCE
    S, decrement = np.zeros_like(W), np.full(k, np.inf)
    approaching, bends = np.full(k, gram is not None), np.full(k, 0.25)
    active, rough = list(range(k)), np.ones(k, dtype=bool)
    for step in range(_MOST_STEPS):
        going_on = []
        for j in active:
            last, fresh = decrement[j], factors[j] is None
            while True:
                if fresh:
                    factors[j] = problems.factor(M[:, j], double=not rough[j], whole=False)
                S[:, j], factors[j] = problems.step(factors[j], G[:, j], M[:, j], _STEP_GOAL * alpha)
                now = -float(G[:, j] @ S[:, j])
                approaching[j] &= not fresh and now > _CLOSE * d and step < _APPROACH
                if fresh or approaching[j] or _passes(now, last, _END * alpha) <= patience:
                    break
                fresh = True
            rough[j] &= not fresh or now < last  # where a new Hessian is of no help, float32 is to blame
            decrement[j] = now
            if not (now <= _NEAR**2 * alpha and (fresh or _passes(now, last, _GOAL * alpha) <= 1.0)):
                going_on.append(j)
        active = going_on
        if not active:
            return W + S, factors
        part, before = problems.of(active), G[:, active]
        single = bool(decrement[active].min() > _SINGLE * total and rough[active].all())
        M_new, G_new = part.margins_and_gradient(W[:, active] + S[:, active], single=single)
        lengths = np.ones(len(active))
        for at, j in enumerate(active):
            slope, end = abs(float(G[:, j] @ S[:, j])), float(G_new[:, at] @ S[:, j])
            if end > 0.1 * slope:
                lengths[at] = length_along(problems, W[:, j], S[:, j], M[:, j], M_new[:, at])
        S[:, active] *= lengths
        W[:, active] += S[:, active]
        short = np.flatnonzero(lengths < 1.0)
        if len(short):
            some = [active[at] for at in short]
            M_new[:, short], G_new[:, short] = problems.of(some).margins_and_gradient(W[:, some], single=single)
        M[:, active], G[:, active] = M_new, G_new
        for at, j in enumerate(active):
            if lengths[at] < 0.1:
                factors[j] = None  # of no use here
            else:
                factors[j].learn(S[:, j].copy(), G[:, j] - before[:, at])
            if approaching[j] and factors[j] and gram is not None:
                bend = float(problems.counts @ (expit(M[:, j]) * expit(-M[:, j]))) / total
                if bend < 0.25 * bends[j] and (flatter := problems.even_factor(gram, bend)):
                    factors[j], bends[j] = replace(flatter, seen=factors[j].seen), bend
    S[:, active] = 0.0  # their last steps were taken; float64 shows no way on
    return W + S, [found or problems.factor(M[:, j], double=True) for j, found in enumerate(factors)]


def _passes(now: float, last: float, goal: float) -> float:
    """How many more steps bring the decrement to its goal if all shrink it as the last one did."""
    if last == np.inf:
        return 2.0  # nothing is known of the factor yet: see what a step does
    if not now <= 0.5 * last:
        return np.inf
    return math.log(now / goal) / math.log(last / now) if now > goal else 0.0


def length_along(problems: Problems, w: Float64s, s: Float64s, margins: Float64s, after: Float64s) -> float:
    """Where between 0 and 1 along s the function is about least: bisection of its slope, each trial O(n)."""
    along, low, high = after - margins, 0.0, 1.0
    flat, bend = problems.alpha * float(w @ s), problems.alpha * float(s @ s)

    def slope(t: float) -> float:
        return flat + t * bend - float((problems.counts * along) @ expit(-(margins + t * along)))

    steepest = slope(0.0)
    if slope(1.0) <= 0.9 * abs(steepest):
        before, whole = (problems.values(x[:, None], m[:, None])[0] for x, m in ((w, margins), (w + s, after)))
        if before - whole >= 0.1 * abs(steepest):
            return 1.0
    for _ in range(60):
        t = 0.5 * (low + high)
        here = slope(t)
        if abs(here) <= 0.1 * abs(steepest):
            return t
        low, high = (t, high) if here < 0.0 else (low, t)
    return high
