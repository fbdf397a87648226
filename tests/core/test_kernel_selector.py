"""The blocked pass keeps the points that the literal loop in rational arithmetic keeps."""

from __future__ import annotations

import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.core import kernel_selector
from erasable.core.kernel_selector import (
    check_eigenvalues,
    check_points,
    most_points,
    select_points,
    smallest_eigenvalue,
)
from erasable.core.kernels import ONE, Kernel, Points
from erasable.errors import ConfigurationError, InputError
from tests import kernel_oracle as oracle

CHOICES = [
    Kernel("rbf", 1.0),
    Kernel("matern", 1.0, nu=0.5),
    Kernel("poly", 0.3, degree=2, coef0=0.5),
    Kernel("linear"),
]
BITS = 6


@st.composite
def problems(draw, max_rows=9):
    kernel = draw(st.sampled_from(CHOICES))
    few = st.sampled_from([0, 1, 13, 64, -64, 100])  # duplicates and symmetries are likely
    P = draw(st.lists(st.lists(few, min_size=2, max_size=2), min_size=0, max_size=max_rows))
    units = draw(st.sampled_from([ONE // 100, ONE // 4, ONE]))
    tau = draw(st.sampled_from([1e-3, 0.1, 0.5, 1.0, 3.0]))
    return kernel, P, units, tau


def options(k):
    return {"name": k.name, "gamma": k.gamma, "nu": k.nu, "degree": k.degree, "coef0": k.coef0}


def found(kernel, P, units, tau, core=(), **sizes):
    G = np.array(P, dtype=np.int32).reshape(-1, 2)
    Q = np.array(core, dtype=np.int32).reshape(-1, 2)
    return select_points(G, Q, kernel=kernel, points=Points(2, BITS), units=units, tau=tau, **sizes)


@given(problems(), st.sampled_from([None, 1, 2, 3]), st.sampled_from([None, 1, 2, 5]), st.sampled_from([1, 2, 96]))
def test_the_selection_is_that_of_the_oracle(problem, block, chunk, step):
    kernel, P, units, tau = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_selector, "_STEP", step)
        index, _ = found(*problem, block_rows=block, chunk_rows=chunk)
    assert index.tolist() == oracle.select(P, BITS, units, tau, **options(kernel))


@given(problems(), st.integers(0, 9))
def test_learning_in_two_parts_is_learning_at_once(problem, cut):
    kernel, P, units, tau = problem
    whole, _ = found(*problem)
    first, _ = found(kernel, P[:cut], units, tau)
    core = [P[i] for i in first]
    second, _ = found(kernel, P[cut:], units, tau, core=core)
    assert [*first.tolist(), *(second + min(cut, len(P))).tolist()] == whole.tolist()


@given(problems(), st.sampled_from([1e-6, 0.2, 0.3, 1e6]))
def test_a_larger_error_bound_changes_who_decides_and_nothing_else(problem, eta):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_selector._Run, "_eta", lambda *_: eta)
        index, decisions = found(*problem)
    kernel, P, units, tau = problem
    assert index.tolist() == oracle.select(P, BITS, units, tau, **options(kernel))
    if eta > 1.0:
        assert decisions.certified == 0


@given(problems(max_rows=12), st.data())
def test_the_pass_is_stable_under_any_deletion(problem, data):
    kernel, P, units, tau = problem
    index, _ = found(*problem)
    core = [P[i] for i in index]
    gone = data.draw(st.sets(st.integers(0, max(0, len(core) - 1))))
    left = [p for i, p in enumerate(core) if i not in gone]
    again, _ = found(kernel, left, units, tau)
    assert again.tolist() == list(range(len(left)))


@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.3), Kernel("matern", 1.0, nu=0.5), Kernel("poly", 0.3, degree=2)])
@pytest.mark.parametrize(("capacity", "parts"), [(0.5, {3}), (0.1, {1, 2, 3}), (0.02, {0, 1, 2, 3}), (1e-5, {0})])
def test_screening_never_rules_out_a_point_just_above_the_threshold(kernel, capacity, parts):
    """Every point has the threshold that its own pivot, in float64, exceeds by far less than float32 can tell."""
    rng = np.random.default_rng(0)
    core, X = (rng.integers(-100, 100, size=(n, 3)).astype(np.int32) for n in (230, 60))
    points, units = Points(3, BITS), round(capacity * ONE)
    K, k = kernel.exact(core, core, points), kernel.exact(core, X, points)
    pivots = kernel.diagonal(X, points) + units - (k * np.linalg.solve(K + units * np.eye(len(K)), k)).sum(axis=0)
    below, steps = 1e-7 if capacity > 1e-3 else 1e-4, set()
    for x, pivot in zip(X, pivots, strict=True):
        run = kernel_selector._Run(core, kernel, points, units, pivot * (1.0 - below) / units - 1.0)
        steps.add(len(run._coarse_limits(float(kernel.diagonal(x[None], points)[0]) + units, 0.52, 0.0)))
        assert run._may_be_kept(x[None])[0]
    assert steps <= parts  # of the core that are met in float32


def test_points_that_are_there_already_are_ruled_out_in_float32():
    rng = np.random.default_rng(0)
    core = rng.integers(-100, 100, size=(230, 3)).astype(np.int32)
    run = kernel_selector._Run(core, Kernel("rbf", 0.3), Points(3, BITS), ONE // 2, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_selector.blas, "dtrsm", None)
        assert not run._may_be_kept(core).any()


def test_an_exact_tie_is_not_kept():
    # One point is kept before its equal: the condition k'H^-1 k < k(x, x) - tau mu is a tie for this mu and tau.
    kernel, P = Kernel("linear"), [[64, 0], [64, 0]]  # k = 2**30 for all pairs
    units = ONE
    tie = Fraction(ONE) - Fraction(ONE) ** 2 / (ONE + units)  # what is left of k(x, x)
    tau = float(tie / units)
    assert Fraction(tau) * units == tie
    index, decisions = found(kernel, P, units, tau)
    assert index.tolist() == [0]
    assert decisions.enclosed + decisions.exact >= 1
    index, _ = found(kernel, P, units, float(np.nextafter(tau, 0.0)))
    assert index.tolist() == [0, 1]


def test_many_points_in_blocks_are_those_of_one_at_a_time():
    rng = np.random.default_rng(0)
    G = rng.integers(-200, 200, size=(600, 2)).astype(np.int32)
    arguments = {"kernel": Kernel("rbf", 0.2), "points": Points(2, BITS), "units": ONE // 10, "tau": 0.3}
    none = G[:0]
    index, decisions = select_points(G, none, **arguments)
    single, _ = select_points(G, none, **arguments, block_rows=1, chunk_rows=1)
    assert index.tolist() == single.tolist()
    assert 10 < len(index) < 300
    assert decisions.screened > 0


@pytest.mark.parametrize(
    "function",
    [
        lambda A, B: -(A @ B.T),
        lambda A, B: np.abs(A[:, None] - B[None]).sum(axis=2) + 0.1,  # a distance grows where a kernel must fall
        lambda A, B: 2.0 - (A[:, None] == B[None]).all(axis=2),
    ],
)
def test_a_kernel_that_is_not_positive_definite_is_refused(function):
    rng = np.random.default_rng(0)
    P = rng.integers(-100, 100, size=(30, 2)).tolist()
    with pytest.raises(InputError, match="not positive definite"):
        found(Kernel("custom", function=function), P, ONE // 100, 0.5)


@pytest.mark.parametrize("units", [2, 3, 54, 1001, ONE])
def test_rounding_as_many_points_as_are_allowed_leaves_the_smallest_eigenvalue_that_is_promised(units):
    assert units - Fraction(most_points(units), 2) == smallest_eigenvalue(units) >= 1
    check_points(most_points(units), units)
    with pytest.raises(ConfigurationError, match="too many for this capacity"):
        check_points(most_points(units) + 1, units)


def parts(P, cuts):
    bounds = [0, *sorted(min(c, len(P)) for c in cuts), len(P)]
    return [P[a:b] for a, b in itertools.pairwise(bounds)]


def learnt(kernel, P, units, tau, cuts, **sizes):
    """The core points after learning in parts; None where a part was refused."""
    core = []
    for part in parts(P, cuts):
        try:
            index, _ = found(kernel, part, units, tau, core=core, **sizes)
        except (ConfigurationError, InputError):
            return None
        core += [part[i] for i in index]
    return core


def manhattan(A, B):  # a distance, no kernel
    return np.abs(A[:, None] - B[None]).sum(axis=2)


OWN = [
    lambda A, B: np.exp(-manhattan(A, B)),
    lambda A, B: np.exp(-manhattan(A, B)).astype(np.float32),
    lambda A, B: np.exp(-manhattan(A, B)).astype(np.float16),
    lambda A, B: 1.0 - manhattan(A, B) / 8.0,
    lambda A, B: np.minimum(1.5, manhattan(A, B) + 1.0),
    lambda A, B: np.tanh(A @ B.T + 0.5),
]


@given(
    st.sampled_from([*CHOICES, *(Kernel("custom", function=f) for f in OWN)]),
    st.lists(st.lists(st.integers(-70, 70), min_size=2, max_size=2), max_size=12),
    st.sampled_from([2, 5, 8, 54, 1000, 2**17, ONE // 100]),
    st.sampled_from([1e-3, 0.5, 30.0, 1e4]),
    st.lists(st.integers(0, 12), max_size=12),
    st.sampled_from([None, 1, 2, 5]),
)
def test_points_in_any_parts_are_refused_alike_and_give_the_same_core(kernel, P, units, tau, cuts, chunk):
    at_once = learnt(kernel, P, units, tau, [])
    assert learnt(kernel, P, units, tau, cuts, chunk_rows=chunk) == at_once
    assert learnt(kernel, P, units, tau, range(12)) == at_once
    if at_once:  # and what was accepted is accepted after any deletion
        assert learnt(kernel, at_once[::2], units, tau, cuts) == at_once[::2]


def test_points_that_are_not_kept_do_not_count_as_core_points():
    index, _ = found(Kernel("rbf"), [[0, 0], [64, 0]] * 200, 54, 1.0)
    assert index.tolist() == [0, 1]
    with pytest.raises(ConfigurationError, match=r"^55 core rows are too many"):
        found(Kernel("rbf"), [[640 * i, 0] for i in range(60)], 54, 1.0)
    full = [[640 * i, 0] for i in range(54)]
    assert found(Kernel("rbf"), full, 54, 1.0, core=full)[0].tolist() == []


@given(problems(), st.integers(0, 9))
def test_a_matrix_that_float64_cannot_factor_is_no_reason_to_refuse(problem, cut):
    kernel, P, units, tau = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_selector._Run, "_eta", lambda *_: 0.3)  # too coarse for a bound
        patch.setattr(kernel_selector, "factorise", lambda *_, **__: None)
        core = learnt(kernel, P, units, tau, [cut])
    assert core == [P[i] for i in oracle.select(P, BITS, units, tau, **options(kernel))]


def coarse(A, B):
    """Values that were rounded to multiples of 2**-10."""
    return np.rint(np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2)) * 1024) / 1024


def test_a_function_whose_values_are_too_coarse_for_the_capacity_is_refused_when_rows_are_learnt():
    P = np.random.default_rng(0).integers(-64, 64, size=(60, 2)).tolist()
    kernel = Kernel("custom", function=coarse)
    index, _ = found(kernel, P, ONE // 10, 1e-3)
    assert len(index) > 30
    with pytest.raises(InputError, match="too coarse for this capacity"):
        found(kernel, P, ONE // 2000, 1e-3)


def test_a_function_that_every_row_alone_lets_pass_may_fail_for_all_rows_together():
    table = np.array([[100, 3300], [3300, 10_000]]) / ONE  # pivots of K + 1000 I: 1100 and 1100; an eigenvalue of 102

    def tabled(A, B):
        return table[np.ix_(A[:, 0].astype(int), B[:, 0].astype(int))]

    for cuts in ([], [1]):
        assert learnt(Kernel("custom", function=tabled), [[0, 0], [64, 0]], 1000, 0.05, cuts) is None
    assert learnt(Kernel("custom", function=tabled), [[64, 0]], 1000, 0.05, []) == [[64, 0]]


@pytest.mark.parametrize(("least", "passes"), [(500, True), (501, True), (499, False), (0, False), (-1, False)])
def test_the_smallest_eigenvalue_is_compared_exactly(least, passes):
    Q = np.linalg.qr(np.random.default_rng(0).integers(-3, 4, size=(6, 6)))[0]
    U = np.rint(Q * 1000)  # nearly orthogonal: a matrix of integers with some large eigenvalues and one known
    M = (U @ np.diag([0.0, 1, 2, 3, 4, 5]) @ U.T)[:5, :5]
    H = np.zeros((6, 6), order="F")
    H[:5, :5], H[5, 5] = M + 10_000 * np.eye(5), least
    check = functools.partial(check_eigenvalues, H, Kernel("custom", function=coarse), 1000)
    if passes:
        check()
    else:
        with pytest.raises(InputError, match="not positive definite"):
            check()
    check_eigenvalues(H, Kernel("rbf"), 1000)  # proved, not checked


def test_progress_rises_to_all_rows():
    calls = []
    rng = np.random.default_rng(0)
    P = rng.integers(-100, 100, size=(300, 2)).tolist()
    found(Kernel("rbf"), P, ONE, 0.5, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (300, 300)
    assert [d for d, _ in calls] == sorted({d for d, _ in calls})
