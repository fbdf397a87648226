"""The blocked pass keeps the points that the literal loop in rational arithmetic keeps."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.core import kernel_selector
from erasable.core.kernel_selector import select_points, smallest_eigenvalue
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


@given(problems(), st.sampled_from([None, 1, 2, 3]), st.sampled_from([None, 1, 2, 5]))
def test_the_selection_is_that_of_the_oracle(problem, block, chunk):
    kernel, P, units, tau = problem
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


def test_too_many_points_for_the_regulariser_are_refused():
    with pytest.raises(ConfigurationError, match="too many for this capacity"):
        smallest_eigenvalue(5000, 1000)
    assert smallest_eigenvalue(10, ONE) == ONE - 5


def test_progress_rises_to_all_rows():
    calls = []
    rng = np.random.default_rng(0)
    P = rng.integers(-100, 100, size=(300, 2)).tolist()
    found(Kernel("rbf"), P, ONE, 0.5, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (300, 300)
    assert [d for d, _ in calls] == sorted({d for d, _ in calls})
