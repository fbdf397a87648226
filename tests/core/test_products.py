"""Products, substitutions and factors in several threads are those of SciPy, and leave BLAS as they found it."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest
from scipy.linalg import blas, lapack
from threadpoolctl import threadpool_limits

import erasable.core.deciding as deciding
import erasable.core.products as products
import erasable.core.selector as selector
import erasable.core.threads as threads
from erasable.core.grid import Grid
from erasable.core.products import (
    add_gram,
    cholesky,
    divide_by_triangle,
    gram_of_rows,
    invert_triangle,
    multiply_by_triangle,
)
from erasable.core.selector import RawRows, select
from erasable.core.sums import empty_gram
from erasable.core.threads import Shared, few_threads, in_threads, n_threads

SHAPES = [(1, 1), (2, 1), (1, 7), (5, 3), (40, 97), (130, 200)]


@pytest.fixture(params=[0, 1, 2, 5])
def several(request, monkeypatch):
    """Every product is shared by so many threads; left to SciPy's functions if it is none."""
    if not request.param:
        return
    monkeypatch.setattr(products, "_WORTH_SHARING", 1e-9)
    for module in (products, threads):
        monkeypatch.setattr(module, "n_threads", lambda: request.param)


def a_triangle(d, seed=0):
    A = np.random.default_rng(seed).standard_normal((d + 3, d))
    return np.asfortranarray(np.linalg.cholesky(A.T @ A + np.eye(d)))


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_sums_of_integer_rows_are_exact(n, d):
    rng = np.random.default_rng(n)
    X = rng.integers(-(2**15), 2**15, (n, d)).astype(np.float64)
    exact = X.astype(np.int64).T @ X.astype(np.int64)
    H = np.asfortranarray(rng.integers(0, 9, (d, d)).astype(np.float64))
    expected = np.tril(H).astype(np.int64) + np.tril(exact)
    before = H.copy()
    add_gram(H, X)
    assert np.array_equal(np.tril(H), expected)
    assert np.array_equal(np.triu(H, 1), np.triu(before, 1))
    add_gram(H, X, -1.0, shared=False)
    assert np.array_equal(H, before)
    assert np.array_equal(np.tril(gram_of_rows(X)), np.tril(X.astype(np.int64) @ X.astype(np.int64).T))


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_rows_are_divided_by_a_triangle_within_the_bound_of_substitution(n, d):
    L, X = a_triangle(d), np.random.default_rng(n).standard_normal((n, d))
    L += np.triu(np.full((d, d), np.nan), 1)  # what stands above the diagonal is not read
    Y = X.copy()
    divide_by_triangle(L, Y)
    exact_L, long = np.tril(np.nan_to_num(L)).astype(np.longdouble), Y.astype(np.longdouble)
    residual = np.abs(long @ exact_L.T - X)
    assert (residual <= 2.0**-53 * (d + 2) * (np.abs(long) @ np.abs(exact_L).T)).all()
    assert np.allclose(Y.T, blas.dtrsm(1.0, L, X.T, lower=1), rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("d", [0, 1, 2, 63, 64, 65, 150])
def test_factors_and_inverses_are_those_of_scipy(d):
    A = np.random.default_rng(d).standard_normal((d + 2, d))
    H = np.asfortranarray(np.tril(A.T @ A + np.eye(d)) + np.triu(np.full((d, d), np.nan), 1))
    L = H.copy(order="F")
    assert cholesky(L)
    if d:
        assert np.array_equal(L, lapack.dpotrf(H, lower=1, clean=1)[0])
        M = L.copy(order="F")
        assert invert_triangle(M)
        assert np.array_equal(M, lapack.dtrtri(L, lower=1)[0])


@pytest.mark.usefixtures("several")
def test_what_has_no_factor_or_inverse_is_noticed():
    assert not cholesky(np.asfortranarray([[1.0, 0.0], [2.0, 1.0]]))
    assert not invert_triangle(np.asfortranarray([[1.0, 0.0], [2.0, 0.0]]))


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize(("n", "d"), [(0, 3), (1, 1), (7, 5), (300, 64)])
def test_a_product_with_a_triangle_is_that_of_scipy(n, d):
    rng = np.random.default_rng(n)
    M = np.asfortranarray(np.tril(rng.standard_normal((d, d))).astype(np.float32))
    X = rng.standard_normal((n, d)).astype(np.float32)
    expected = blas.strmm(1.0, M, X.T, lower=1).T if n else X
    multiply_by_triangle(M, X)
    assert np.array_equal(X, expected)


@pytest.mark.parametrize("X", [np.ones((3, 4), np.float32)[:, ::2], np.ones((2, 2)), np.ones((2, 3), np.float32)])
def test_rows_that_do_not_fit_a_triangle_are_refused(X):
    with pytest.raises(AssertionError):
        multiply_by_triangle(np.eye(2, dtype=np.float32, order="F"), X)


@pytest.mark.parametrize("H", [np.eye(3, dtype=np.float32, order="F"), np.ones((2, 3), order="F"), np.eye(4)[:, ::2]])
def test_matrices_that_are_not_as_they_must_be_are_refused(H):
    for work in (cholesky, invert_triangle, lambda H: add_gram(H, np.ones((2, 3))), lambda H: divide_by_triangle(H, H)):
        with pytest.raises(AssertionError):
            work(H)


def test_work_that_is_shared_gives_its_results_in_order_and_its_errors(monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda: 3)
    before = n_threads()
    with few_threads(0.0):
        seen: set[int] = set()
        work = Shared(lambda i: (seen.add(threading.get_ident()), i * i)[1], range(200))
        assert work.results() == [i * i for i in range(200)]
    assert len(seen) <= 3

    def fails(i):
        if i == 7:
            raise IndexError("of the work itself")
        return i

    with pytest.raises(IndexError, match="of the work itself"):
        in_threads(fails, range(20))
    monkeypatch.undo()
    assert n_threads() == before


def test_an_interrupt_waits_for_the_others_and_leaves_blas_its_threads(monkeypatch):
    """For longer than a part takes, which is as long as this test says."""
    monkeypatch.setattr(threads, "_PATIENCE", 20.0)
    begun, ended = threading.Event(), []

    def work(i):
        if threading.current_thread() is threading.main_thread():
            begun.wait(10)
            raise KeyboardInterrupt
        begun.set()
        time.sleep(0.2)
        ended.append(i)

    with threadpool_limits(2):
        with pytest.raises(KeyboardInterrupt):
            in_threads(work, range(2))
        assert len(ended) == 1
        assert n_threads() == 2
        assert not threads.limited()


def test_work_is_done_where_no_thread_can_be_started(monkeypatch):
    def fails(*_):
        raise RuntimeError("can't start new thread")

    with threadpool_limits(2):
        monkeypatch.setattr(threads, "start_new_thread", fails)
        monkeypatch.setattr(threads, "_workers", threads.Workers())
        monkeypatch.setattr(threads, "_watcher", threads._Watcher())
        assert in_threads(lambda i: i * i, range(20)) == [i * i for i in range(20)]
        assert n_threads() == 2
        assert not threads.limited()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_not_limited_by_a_thread_that_it_does_not_have():
    with threadpool_limits(2):
        ready, go = threading.Event(), threading.Event()

        def limits():
            with few_threads(0.0):
                ready.set()
                go.wait(10)

        other = threading.Thread(target=limits)
        other.start()
        ready.wait(10)
        child = os.fork()
        if not child:
            os._exit(0 if n_threads() == 2 and in_threads(lambda i: i, range(9)) == list(range(9)) else 1)
        go.set()
        other.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert n_threads() == 2


def test_work_that_is_stopped_begins_no_more_parts(monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda: 2)
    begun, go = [], threading.Event()
    work = Shared(lambda i: (begun.append(i), go.wait(10)), range(9))
    while not begun:
        go.wait(0.001)
    threading.Timer(0.1, go.set).start()
    work.stop()
    assert begun == [0]


@pytest.mark.parametrize("sizes", [{}, {"chunk_rows": 5, "block_rows": 300}], ids=["mostly ahead", "seldom ahead"])
@pytest.mark.parametrize("intercept", [False, True])
def test_rows_screened_ahead_change_no_selection(monkeypatch, intercept, sizes):
    """Blocks of 96 rows or more, in parts of ten, are begun while the chunks before are decided."""
    rng, grid = np.random.default_rng(1), Grid(12, 15, intercept)
    X, ahead = rng.standard_normal((4000, 12)) * 0.8 ** np.arange(12), []
    parameters = {"grid": grid, "units": 2**30, "tau": 0.03}
    expected = select(RawRows(X, grid), empty_gram(grid, 2**30), 0, **parameters, block_rows=1, chunk_rows=1)
    begin = deciding.screening
    monkeypatch.setattr(deciding, "screening", lambda *of: ahead.append(of[1:3]) or begin(*of))
    monkeypatch.setattr(deciding, "numbers_at_once", lambda: 120)
    monkeypatch.setattr(selector, "FEWEST_NUMBERS", 120)
    for module in (deciding, selector, threads):
        monkeypatch.setattr(module, "n_threads", lambda: 3)
    H = empty_gram(grid, 2**30)
    found = select(RawRows(X, grid), H, 0, **parameters, **sizes)
    assert found.index.tolist() == expected.index.tolist()
    assert len(ahead) > 4
    assert [low for low, _ in ahead[1:]] == [high for _, high in ahead[:-1]]  # each row once, in order
    d = found.decisions
    assert d.screened + d.certified + d.enclosed + d.exact == len(X)


@pytest.mark.parametrize(("n", "times"), [(1, 1), (2, 1), (8, 2), (16, 4), (64, 4)])
def test_many_threads_take_more_numbers_at_once(monkeypatch, n, times):
    monkeypatch.setattr(threads, "n_threads", lambda: n)
    assert threads.numbers_at_once() == times * threads.FEWEST_NUMBERS


def test_no_more_threads_share_work_than_it_is_worth(monkeypatch):
    monkeypatch.setattr(products, "n_threads", lambda: 16)
    assert [products._sharing(flops) for flops in (1e6, 1.3e8, 1e12)] == [1, 3, 16]
