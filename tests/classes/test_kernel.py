"""The ball of a kernel's space: closed form, exact decisions, the same rows as the kernel classifier."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import make_moons

from erasable import ErasableGeneralClassifier, ErasableKernelClassifier, verify
from erasable.classes import FunctionClass, KernelBall
from erasable.core.kernels import ONE
from erasable.coresets import SinglePass
from erasable.errors import ConfigurationError

X, Y = make_moons(300, noise=0.2, random_state=0)


def test_it_is_a_function_class():
    assert isinstance(KernelBall(), FunctionClass)


@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(12))
def test_the_closed_form_is_the_supremum_over_the_ball(seed, radius):
    rng = np.random.default_rng(seed)
    ball = KernelBall(gamma=0.8, radius=radius)
    P = ball.encode(rng.standard_normal((4, 2)))
    measure = ball.start(2)
    measure.add(P[:3])
    found = float(measure.squared(P[3:])[0])
    K = ball.of_points.exact(P, P, ball._points(2)) / ONE

    def negative(a):  # h = sum of a_i k(x_i, .), scaled to the edge of the ball of differences, radius 2B
        norm = math.sqrt(a @ K @ a)
        if norm < 1e-12:
            return 0.0
        values = (K @ a) * 2.0 * radius / norm
        return -(values[3] ** 2) / (1.0 + (values[:3] ** 2).sum())

    best = max(-minimize(negative, rng.standard_normal(4), tol=1e-12).fun for _ in range(6))
    assert best == pytest.approx(found, rel=1e-5)


@given(st.sampled_from(["rbf", "matern", "poly"]), st.integers(0, 2**20), st.sampled_from([0.05, 0.5]))
def test_one_pass_keeps_what_the_kernel_classifier_keeps(kernel, seed, threshold):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((40, 2)).round(1)
    labels = rows[:, 0] > 0
    radius = 1.5
    kept = SinglePass(KernelBall(kernel, radius), threshold).select(rows, labels, range(40))
    clf = ErasableKernelClassifier(kernel, 1 / (4 * radius**2), threshold, order="given").fit(rows, labels)
    assert kept.tolist() == clf.core_ids_.tolist()


def test_asking_row_by_row_is_the_same_as_the_fast_path():
    ball, tau = KernelBall(gamma=2.0, radius=1.0), 0.4
    P = ball.encode(X[:60])
    slow, kept = ball.start(2), []
    for i in range(60):
        if slow.exceeds(P[i : i + 1], tau)[0]:
            slow.add(P[i : i + 1])
            kept.append(i)
    assert ball.start(2).select(P, tau).tolist() == kept


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
def test_the_number_kept_respects_the_bound_of_theorem_5_3(tau):
    ball = KernelBall(gamma=2.0, radius=2.0)
    kept = SinglePass(ball, tau).select(X, Y, range(300))
    assert 3 < len(kept) <= (1.0 + 1.0 / tau) * ball.dimension(ball.encode(X))


def test_the_dimension_does_not_depend_on_the_order_and_grows_with_rows():
    ball = KernelBall(gamma=2.0)
    P = ball.encode(X[:50])
    assert ball.dimension(P) == pytest.approx(ball.dimension(P[::-1]))
    assert 0.0 == ball.dimension(P[:0]) < ball.dimension(P[:10]) < ball.dimension(P)


def test_the_general_classifier_learns_with_it_and_forgets():
    clf = ErasableGeneralClassifier(KernelBall(gamma=2.0, radius=1.5), threshold=0.3).fit(X, Y)
    assert clf.score(X, Y) > 0.93
    clf.forget(ids=clf.core_ids_[::3])
    kept = clf.core_ids_
    again = ErasableGeneralClassifier(KernelBall(gamma=2.0, radius=1.5), threshold=0.3)
    assert again.fit(X[kept], Y[kept], ids=kept).state_digest() == clf.state_digest() == verify(clf).digest


def test_the_general_classifier_refuses_by_the_rows_and_not_by_their_batching():
    rows, labels = np.tile([[0.0, 0.0], [3.0, 0.0]], (50, 1)), [0, 1] * 50
    ball = KernelBall(radius=2236.0)  # room for 54 core rows
    clf = ErasableGeneralClassifier(ball, threshold=1.0).fit(rows, labels)
    assert clf.n_core_ == 2
    far = np.arange(60.0)[:, None] * [9.0, 0.0]
    with pytest.raises(ConfigurationError, match="55 core rows are too many"):
        clf.fit(far, [0, 1] * 30)
    clf.fit(far[:54], [0, 1] * 27)
    for i in range(54):
        clf.partial_fit(far[i : i + 1], [0], ids=[100 + i])  # no room, and none needed
    with pytest.raises(ConfigurationError, match="55 core rows are too many"):
        clf.partial_fit(far[54:55], [0], ids=[54])


def test_rows_beyond_reach_can_be_asked_about_but_not_learnt():
    ball = KernelBall()
    far = np.array([[1e300, 1.0], [9000.0, 0.0], [1.0, 1.0]])
    assert ball.holds(ball.embed(far)).all()
    assert (ball.embed(far)[2] == ball.encode(far[2:])[0]).all()


@pytest.mark.parametrize("radius", [0.0, -1.0, math.inf, 1e9, 1e200, 1e-200, 2.0**-11, "1", None, True])
def test_a_radius_that_cannot_work_is_refused(radius):
    with pytest.raises(ConfigurationError, match="radius"):
        KernelBall(radius=radius)


def test_a_description_tells_classes_apart():
    described = [KernelBall().describe(), KernelBall(gamma=2.0).describe(), KernelBall("matern").describe()]
    assert len({str(d) for d in described}) == 3
