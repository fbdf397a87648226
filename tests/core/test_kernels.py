"""Kernel values are the integers they should be."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.core.kernels import ONE, REACH, Kernel, Points
from erasable.errors import ConfigurationError, InputError
from tests import kernel_oracle as oracle

KERNELS = [
    Kernel("rbf", 0.7),
    Kernel("rbf", 123.456),
    Kernel("matern", 1.3, nu=0.5),
    Kernel("matern", 0.9, nu=1.5),
    Kernel("matern", 2.1, nu=2.5),
    Kernel("poly", 0.5, degree=3, coef0=1.0),
    Kernel("poly", 1.0, degree=2, coef0=0.0),
    Kernel("linear"),
]


def options(k):
    return {"name": k.name, "gamma": k.gamma, "nu": k.nu, "degree": k.degree, "coef0": k.coef0}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.name}-{k.gamma}-{k.nu}")
@given(data=st.data())
def test_values_are_rounded_as_the_oracle_rounds_them(kernel, data):
    bits = data.draw(st.sampled_from([4, 12, 16]))
    top = 2 * 2**bits
    coordinate = st.integers(-top, top)
    P = data.draw(st.lists(st.lists(coordinate, min_size=2, max_size=2), min_size=1, max_size=4))
    G = np.array(P, dtype=np.int32)
    points = Points(2, bits)
    found = kernel.exact(G, G, points)
    wanted = [[oracle.kernel(p, q, bits, **options(kernel)) for q in P] for p in P]
    assert found.tolist() == wanted
    assert kernel.diagonal(G, points).tolist() == [row[i] for i, row in enumerate(wanted)]
    assert np.abs(kernel.approximate(G, G, points) - found).max() <= 0.5 + 2.0**-12


@pytest.mark.parametrize("kernel", KERNELS[:5], ids=lambda k: f"{k.name}-{k.gamma}-{k.nu}")
def test_ball_arithmetic_agrees_with_float64_where_that_is_sure(kernel, monkeypatch):
    rng = np.random.default_rng(0)
    G = rng.integers(-4096, 4096, size=(12, 3)).astype(np.int32)
    points = Points(3, 12)
    before = kernel.exact(G, G, points)
    monkeypatch.setattr("erasable.core.kernels._DOUBT", 0.5)  # now everything is unsure
    assert (kernel.exact(G, G, points) == before).all()


def test_large_values_that_float64_would_round_wrongly_are_settled():
    kernel, points = Kernel("poly", 0.7, degree=3, coef0=0.3), Points(2, 4)
    G = np.random.default_rng(0).integers(-115, 115, size=(40, 2)).astype(np.int32)
    found = kernel.exact(G, G, points)
    wanted = [[oracle.kernel(p, q, 4, **options(kernel)) for q in G.tolist()] for p in G.tolist()]
    assert found.tolist() == wanted
    assert (np.rint(kernel.approximate(G, G, points)) != found).any()


@given(
    st.integers(1, 64),
    st.sampled_from([0.1, 0.7, 1.0, 3e-5]),
    st.sampled_from([0.0, 0.3, 7.9, 3e4, 5e5]),
    st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=8),
    st.booleans(),
)
def test_the_bound_on_polynomials_holds_under_cancellation_too(degree, gamma, coef0, integers, cancelling):
    kernel, points = Kernel("poly", gamma, degree=degree, coef0=coef0), Points(1, 12)
    if cancelling:  # about where gamma x'z + coef0 is zero
        integers = [t % 1000 - 500 - round(Fraction(coef0) / Fraction(gamma) * 4**12) for t in integers]
    for t in integers:
        T = np.array([[float(t)]])
        try:
            approximate = Fraction(float(kernel._values(T, points)[0, 0]))
            doubt = Fraction(float(kernel._doubt(T, points)[0, 0]))
        except InputError:
            continue
        exact = ONE * (Fraction(gamma) * t / 4**12 + Fraction(coef0)) ** degree
        assert abs(approximate - exact) <= doubt


def test_polynomials_that_cancel_are_rounded_rightly():
    kernel, points = Kernel("poly", 0.1, degree=3, coef0=3e4), Points(1, 4)
    A = np.arange(8760, 8766, dtype=np.int32)[:, None]  # gamma x'z is near -coef0
    wanted = [[oracle.kernel(p, q, 4, **options(kernel)) for q in (-A).tolist()] for p in A.tolist()]
    assert kernel.exact(A, -A, points).tolist() == wanted


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.name}-{k.gamma}-{k.nu}")
def test_a_matrix_is_its_own_transpose(kernel):
    G = np.random.default_rng(3).integers(-9000, 9000, size=(40, 3)).astype(np.int32)
    points = Points(3, 12)
    K = kernel.matrix(G, points)
    assert (K == K.T).all()
    assert (kernel.exact(G, G, points) == K).all()


def test_of_a_function_that_is_not_quite_symmetric_the_value_for_the_earlier_row_first_counts():
    def lopsided(A, B):
        return A @ B.T + 2.0**-20 * A[:, :1]

    kernel, points = Kernel("custom", function=lopsided), Points(2, 4)
    G = np.array([[16, 0], [0, 32], [48, 16]], dtype=np.int32)
    K = kernel.matrix(G, points)
    for j in range(3):
        assert (K[:j, j] == kernel.exact(G[:j], G[j : j + 1], points)[:, 0]).all()
        assert (K[j, :j] == K[:j, j]).all()


@pytest.mark.parametrize("gamma", [1e-100, 1e-30, 1e30, 1e100])
@pytest.mark.parametrize(("name", "nu"), [("rbf", 1.5), ("matern", 0.5), ("matern", 1.5), ("matern", 2.5)])
def test_kernels_of_the_distance_stay_numbers_for_every_gamma_that_is_allowed(name, nu, gamma):
    G = np.array([[0, 0], [1, 0], [-REACH, 0], [REACH, 0]], dtype=np.int32)
    kernel = Kernel(name, gamma, nu=nu)
    K = kernel.exact(G, G, Points(2, 1 if gamma > 1 else 20))
    assert K.tolist() == (np.eye(4) * ONE if gamma > 1 else np.full((4, 4), ONE)).tolist()


def test_squared_distances_are_exact_at_the_edge_of_the_ball():
    G = np.array([[REACH, 0], [-REACH, 0], [0, REACH - 1]], dtype=np.int32)
    T = Kernel("rbf")._integers(G, G)
    assert T[0, 1] == 4 * REACH**2
    assert T[0, 2] == REACH**2 + (REACH - 1) ** 2
    assert (np.diagonal(T) == 0).all()


def test_the_value_one_at_distance_zero():
    G = np.array([[5, 7]], dtype=np.int32)
    for kernel in KERNELS[:5]:
        assert kernel.exact(G, G, Points(2))[0, 0] == ONE


def test_values_do_not_depend_on_what_else_is_in_the_call():
    rng = np.random.default_rng(1)
    G = rng.integers(-9000, 9000, size=(300, 7)).astype(np.int32)
    for kernel in KERNELS:
        points = Points(7, 12)
        whole = kernel.exact(G, G, points)
        assert (kernel.exact(G[17:40], G[100:101], points) == whole[17:40, 100:101]).all()
        assert (whole == whole.T).all()


def test_rows_become_points_one_by_one():
    points = Points(2, 3, (2.0, 0.5))
    assert points.of_rows(np.array([[1.0, 1.0], [0.0625, -0.03125]])).tolist() == [[4, 16], [0, 0]]
    assert points.of_rows(np.array([[1, 1]], dtype=np.float32)).tolist() == [[4, 16]]


def test_rows_too_long_are_refused_with_a_count_and_advice():
    points = Points(2, 12)
    with pytest.raises(InputError, match=r"1 of 2 rows are longer than 8192.*scaling="):
        points.of_rows(np.array([[1.0, 1.0], [9000.0, 0.0]]))
    assert points.of_rows(np.array([[8192.0, 0.0]])).tolist() == [[REACH, 0]]
    with pytest.raises(InputError):
        Points(1, 12, 1e-300).of_rows(np.array([[1e300]]))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Kernel("sigmoid"),
        lambda: Kernel("rbf", 0.0),
        lambda: Kernel("rbf", float("nan")),
        lambda: Kernel("rbf", 1e101),
        lambda: Kernel("matern", 1e155, nu=2.5),
        lambda: Kernel("matern", 1e308, nu=0.5),
        lambda: Kernel("poly", 1e-320),
        lambda: Kernel("matern", nu=2.0),
        lambda: Kernel("poly", degree=0),
        lambda: Kernel("poly", coef0=-1.0),
        lambda: Points(2, 0),
        lambda: Points(2, 21),
        lambda: Points(2, 12, (1.0,)),
        lambda: Points(2, 12, -1.0),
        lambda: Points(2, 12, 0.0),
    ],
)
def test_what_cannot_work_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        wrong()


def test_a_kernel_of_parameters_is_plain():
    """Minus zero is zero: there would be two digests of one kernel."""
    plain = Kernel("poly", 2.0, 0.5, 2, 0.0)
    found = Kernel.of("poly", gamma=np.float32(2), nu=np.float64(0.5), degree=np.int8(2), coef0=-0.0)
    assert found == plain
    assert [type(v) for v in (found.gamma, found.nu, found.degree, found.coef0)] == [float, float, int, float]
    assert math.copysign(1.0, found.coef0) == 1.0
    assert Kernel.of(max, gamma=1, nu=1.5, degree=3, coef0=0) == Kernel("custom", coef0=0.0, function=max)


def test_kernel_values_too_large_are_refused():
    G = np.array([[REACH, 0]], dtype=np.int32)
    with pytest.raises(InputError, match="kernel values reach beyond"):
        Kernel("poly", degree=3).exact(G, G, Points(2, 12))


@pytest.mark.parametrize("returned", [np.ones((1, 1)), np.full((2, 2), np.nan), [[1e9, 0], [0, 1e9]], "text"])
def test_a_custom_kernel_that_returns_nonsense_is_refused(returned):
    G = np.array([[0, 1], [2, 3]], dtype=np.int32)
    with pytest.raises((InputError, ValueError)):
        Kernel("custom", function=lambda A, B: returned).exact(G, G, Points(2))


@pytest.mark.parametrize("n_columns", [1, 2, 4])
@pytest.mark.parametrize("scaling", [None, 2.0, (1.0, 2.0, 3.0)])
def test_rows_of_another_number_of_columns_are_no_points(n_columns, scaling):
    with pytest.raises(InputError, match=f"must have 3 columns.* got {n_columns}"):
        Points(3, 12, scaling).of_rows(np.ones((2, n_columns)))
