"""Products, triangular solves and factors of dense matrices, shared by threads of Python.

SciPy's own functions keep all other threads of Python waiting. That is right for short work: with many threads, getting
Python's lock back takes longer than the work. For more, SciPy's BLAS and LAPACK are called as C code calls them. Sums
come in another order where work is shared, so results are exact for integers below ``2**53``, and else within the
bounds that hold for any order of summation.

Functions that overwrite an argument say so.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, cython_blas, cython_lapack, lapack

from erasable.core.arrays import Float64s
from erasable.core.threads import in_threads, n_threads

_WORTH_SHARING = 4e7  # flops for each thread; less is left to SciPy's functions
_ABOVE = np.tri(64, k=-1, dtype=bool).T  # what stands above the diagonal of a block


def multiply_by_triangle(M: npt.NDArray[np.float32], X: npt.NDArray[np.float32]) -> None:
    """``X = X M'`` in place, for a lower triangular M in Fortran order and X in C order.

    Never left to SciPy's function, since each of several threads has rows of its own to multiply.
    """
    n, d = X.shape
    assert (X.flags.carray, M.flags.f_contiguous, M.shape) == (True, True, (d, d))
    assert X.dtype == M.dtype == np.float32
    _call("strmm", b"L", b"L", b"N", b"N", d, n, np.float32(1.0), M, d, X, d)


def divide_by_triangle(L: Float64s, X: Float64s) -> None:
    """``X = X L^-T`` in place by substitution, for a lower triangular L in Fortran order and X in C order."""
    assert (X.flags.carray, L.shape, _in_columns(L)) == (True, 2 * X.shape[1:], True)
    assert X.dtype == np.float64

    flops = float(X.size) * len(L)
    if flops <= _WORTH_SHARING:
        blas.dtrsm(1.0, L, X.T, lower=1, overwrite_b=1)
        return

    def divide(rows: Float64s) -> None:
        n, d = rows.shape
        _call("dtrsm", b"L", b"L", b"N", b"N", d, n, 1.0, L, _step(L.T), rows, _step(rows))

    in_threads(divide, np.array_split(X, max(1, min(_sharing(flops), len(X)))))


def add_gram(H: Float64s, X: Float64s, sign: float = 1.0, *, shared: bool = True) -> None:
    """``H += sign * X'X`` on the lower triangle of H, which is in Fortran order; X is in C order.

    Threads share it, unless it is not to be ``shared``.
    """
    flops = float(len(X)) * len(H) ** 2
    _check_products(H, X)
    if flops <= _WORTH_SHARING:
        blas.dsyrk(sign, X.T, beta=1.0, c=H, lower=1, overwrite_c=1)
    else:
        _add_products(H, X, b"N", sign, 1.0, _sharing(flops) if shared else 1)


def gram_of_rows(X: Float64s) -> Float64s:
    """The lower triangle of ``XX'``, Fortran order; what stands above the diagonal is unspecified."""
    flops = float(X.shape[1]) * len(X) ** 2
    if flops <= _WORTH_SHARING:
        return np.asarray(blas.dsyrk(1.0, X.T, trans=1, lower=1))
    B = np.empty((len(X), len(X)), order="F")
    _check_products(B, X.T)
    _add_products(B, X.T, b"T", 1.0, 0.0, _sharing(flops))
    return B


def _check_products(H: Float64s, X: Float64s) -> None:
    """Refuse arrays that BLAS would read as something else."""
    assert (X.shape[1], _in_columns(H), X.flags.forc) == (len(H), True, True)
    assert X.dtype == np.float64


def _add_products(H: Float64s, X: Float64s, across: bytes, sign: float, beta: float, n_shares: int) -> None:
    """``H = beta H + sign X'X``, in tiles that threads share; ``across`` is b"T" where X itself is in Fortran order."""
    (k, d), step, other = X.shape, _step(X if across == b"N" else X.T), b"T" if across == b"N" else b"N"
    n = math.ceil(math.sqrt(2 * n_shares)) if n_shares > 1 else 1
    edges = np.linspace(0, d, n + 1, dtype=int).tolist()

    def add(tile: tuple[int, int]) -> None:
        (a, b), (c, e) = (edges[i : i + 2] for i in tile)
        if tile[0] == tile[1]:
            _call("dsyrk", b"L", across, b - a, k, sign, X[:, a:], step, beta, H[a:, a:], _step(H.T))
        else:
            _call("dgemm", across, other, b - a, e - c, k, sign, X[:, a:], step, X[:, c:], step, beta, H[a:, c:], d)

    in_threads(add, sorted(((i, j) for i in range(n) for j in range(i + 1)), key=lambda tile: tile[0] == tile[1]))


def _sharing(flops: float) -> int:
    """How many threads share so much work."""
    return max(1, min(n_threads(), int(flops / _WORTH_SHARING)))


def cholesky(H: Float64s) -> bool:
    """Overwrite the lower triangle of ``H`` by its Cholesky factor, the rest by zeros; whether there is one."""
    assert _in_columns(H)
    if len(H) ** 3 / 3 <= _WORTH_SHARING:
        return bool(lapack.dpotrf(H, lower=1, clean=1, overwrite_a=1)[1] == 0) if len(H) else True
    info = ctypes.c_int(0)
    _call("dpotrf", b"L", len(H), H, _step(H.T), info)
    for low in range(0, len(H), len(_ABOVE)):
        high = low + len(_ABOVE)
        corner = H[low:high, low:high]
        np.copyto(corner, 0.0, where=_ABOVE[: len(corner), : len(corner)])
        H[:low, low:high] = 0.0
    return info.value == 0


def invert_triangle(L: Float64s) -> bool:
    """Overwrite the lower triangle L, Fortran order, by its inverse; whether there is one."""
    assert _in_columns(L)
    if len(L) ** 3 / 3 <= _WORTH_SHARING:
        return bool(lapack.dtrtri(L, lower=1, overwrite_c=1)[1] == 0)
    info = ctypes.c_int(0)
    _call("dtrtri", b"L", b"N", len(L), L, _step(L.T), info)
    return info.value == 0


def _in_columns(H: Float64s) -> bool:
    """Whether this is a square matrix of float64 in Fortran order that may be overwritten."""
    return (H.flags.f_contiguous, H.flags.writeable, H.shape) == (True, True, 2 * H.shape[:1]) and H.dtype == np.float64


def _step(X: Float64s) -> int:
    """How many numbers a row of a part of a matrix in C order lies after the one before."""
    return X.strides[0] // X.itemsize if len(X) > 1 else max(1, X.shape[1])


def _call(name: str, *arguments: Any) -> None:
    """Call a routine of BLAS or LAPACK; a matrix is given by its first number."""
    _routine(name)(*map(_argument, arguments))


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, bytes | ctypes.c_int):
        return value if isinstance(value, bytes) else ctypes.byref(value)
    kinds: dict[type, Any] = {int: ctypes.c_int, float: ctypes.c_double, np.float32: ctypes.c_float}
    return ctypes.byref(kinds[type(value)](value))


@functools.cache
def _routine(name: str) -> Callable[..., None]:
    """The routine as SciPy offers it to code in C."""
    capsule = (cython_lapack if name in ("dpotrf", "dtrtri") else cython_blas).__pyx_capi__[name]
    name_of, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    assert b"int *" in name_of(capsule)  # the signature; sizes are passed as such integers
    return ctypes.CFUNCTYPE(None)(pointer(capsule, name_of(capsule)))
