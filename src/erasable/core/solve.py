"""Solving ``H Z = R`` with integer ``H`` to any precision, certified, without rounding the residual.

The solution is kept as big integers over a power of two; the residual ``R * 2**e - H Z`` is tracked *exactly* in
int64 arithmetic modulo ``2**64``, which is the true residual as long as that is below ``2**63`` in size (checked).
Each step solves for a correction in float64 and adds some twenty bits. What comes out is exact data about an
approximate solution, so nothing here depends on how accurate the floating-point factor was.

Sets the number of threads of BLAS while it works, and changes nothing else.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack
from threadpoolctl import ThreadpoolController

from erasable.core.arrays import Float64s
from erasable.core.sums import symmetric

_FACTOR_ALONE = 5000  # factor smaller matrices than this on one thread
_WORTH_SHARING = 3e7  # flops of matrix products that make several threads worth their while
_BITS_PER_STEP = 24
_MOST_BITS = 400  # past this the number sought is taken to be special (a tie), and is computed as a rational


@dataclass(frozen=True)
class Refined:
    """``Z * 2**-exponent`` solves the system up to the exact residual ``residual * 2**-exponent``."""

    Z: npt.NDArray[np.object_]
    exponent: int
    residual: npt.NDArray[np.int64]


class _OneThread:
    """BLAS on one thread while somebody is inside.

    The limit holds for the process, so one Python thread at a time sets it and the same one restores it; others that
    enter meanwhile find it set, or work without it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner: int | None = None
        self.depth = 0
        self.limited: list[tuple[Any, int]] = []  # libraries, and how many threads each had

    def __enter__(self) -> None:
        with self.lock:
            if self.owner is None:
                self.owner, libraries = threading.get_ident(), _blas().lib_controllers
                self.limited = [(library, n) for library in libraries if (n := library.get_num_threads()) != 1]
                for library, _ in self.limited:
                    library.set_num_threads(1)
            self.depth += self.owner == threading.get_ident()

    def __exit__(self, *_: object) -> None:
        with self.lock:
            if self.owner == threading.get_ident():
                self.depth -= 1
                if self.depth == 0:
                    for library, n in self.limited:
                        library.set_num_threads(n)
                    self.owner = None


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


_ONE_THREAD = _OneThread()


def few_threads(flops: float) -> AbstractContextManager[None]:
    """One BLAS thread for work too small to share: on a busy machine threads would only wait for each other."""
    return _ONE_THREAD if flops < _WORTH_SHARING else nullcontext()


def alone(H: Float64s) -> AbstractContextManager[None]:
    """One BLAS thread for factorising ``H`` and solving with it, unless it is very large.

    A threaded factorisation synchronises often: it gains little below some thousand rows, and a busy machine slows it
    down tenfold.
    """
    return few_threads(0.0 if len(H) < _FACTOR_ALONE else np.inf)


def factorise(H: Float64s, *, overwrite: bool = False) -> Float64s | None:
    """Lower Cholesky factor of the lower triangle of ``H`` (Fortran order), or None where float64 cannot factor it.

    What stands above the diagonal is zero.
    """
    with alone(H):
        L, info = lapack.dpotrf(H, lower=1, clean=1, overwrite_a=overwrite)
    return L if info == 0 else None


def refine(H: Float64s, L: Float64s, R: npt.NDArray[np.int64]) -> Iterator[Refined]:
    """Ever better solutions of ``H Z = R``; ends early when float64 cannot improve them any more.

    Parameters
    ----------
    H : array of shape (d, d), float64 integers, positive definite
        Lower triangle, Fortran order.
    L : array of shape (d, d), float64
        Approximate lower Cholesky factor of ``H``; only speed depends on its quality.
    R : array of shape (d, k), int64

    Notes
    -----
    *Law*: for every record yielded, ``R * 2**exponent == H @ Z + residual`` in integers.
    *Cost*: O(d^2 k) a step after O(d^2) set-up; one record adds about 24 correct bits.
    """
    H_int = symmetric(H).view(np.uint64)
    root = np.sqrt(np.diagonal(H))[:, None]  # |H[i, j]| <= root[i] * root[j], for H is positive definite
    Z = np.zeros(R.shape, dtype=object)
    exponent, residual = 0, R
    size = float(np.abs(R).max(initial=0))
    u = 2.0**-53 * (H.shape[0] + 4)
    while exponent <= _MOST_BITS:
        if not residual.any():
            yield Refined(Z, exponent, residual)
            return
        correction, info = lapack.dpotrs(L, residual.astype(np.float64), lower=1)
        peak = float(np.abs(correction).max())
        if info != 0 or not 0.0 < peak < 2.0**40:
            return  # no use as a correction
        shift = max(0, min(60, _BITS_PER_STEP - int(np.frexp(peak)[1])))
        step = np.rint(np.ldexp(correction, shift)).astype(np.int64)
        stepf = step.astype(np.float64)
        moved = np.ldexp(residual.astype(np.float64), shift)
        estimate = blas.dsymm(-1.0, H, stepf, beta=1.0, c=moved, lower=1)
        doubt = u * (np.abs(moved) + root * (root * np.abs(stepf)).sum(axis=0))
        new_size = float((np.abs(estimate) + doubt).max())
        if new_size >= 2.0**62 or new_size >= 0.5 * size * 2.0**shift:
            return  # the residual might wrap around, or float64 is too coarse for this matrix
        # Unsigned integers wrap around by definition.
        residual = ((residual.view(np.uint64) << np.uint64(shift)) - H_int @ step.view(np.uint64)).view(np.int64)
        Z = Z * (1 << shift) + step.astype(object)
        exponent, size = exponent + shift, float(np.abs(residual).max())
        yield Refined(Z, exponent, residual)
        if size == 0.0:
            return


def component(H: npt.NDArray[np.int64], support: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Coordinates that ``H`` links, directly or not, to those in ``support``: the rest cannot influence a solve."""
    from scipy.sparse import csr_array  # only here: hardly ever needed, and slow to load
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(csr_array(H != 0), directed=False)
    return np.flatnonzero(np.isin(label, label[support]))


def solve_exactly(H: npt.NDArray[np.int64], rhs: npt.NDArray[np.int64]) -> list[Any]:
    """``H^-1 rhs`` as rationals (flint's ``fmpq``), for one right-hand side.

    Cost: multimodular elimination, about 0.1 s at d = 100 and 12 s at d = 600 when ``H`` is one connected block.
    """
    from flint import fmpz_mat  # only here: hardly ever needed, and slow to load

    d = H.shape[0]
    x = fmpz_mat(d, d, [int(v) for v in H.ravel()]).solve(fmpz_mat(d, 1, [int(v) for v in rhs]))
    return [x[i, 0] for i in range(d)]
