"""Newton's method for logistic problems: what it promises nothing of, but should do well."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import erasable.core.newton as newton
from erasable.core.grid import Grid
from erasable.core.newton import Factor, Problems, RowBlocks, minimise

ALPHA = 0.1


@pytest.fixture(scope="module")
def problems():
    """Two problems that share 3,000 rows, and their Gram matrix."""
    rng = np.random.default_rng(8)
    grid = Grid(20)
    rows = np.full((3000, 21), grid.constant, dtype=grid.dtype)
    rows[:, :20] = rng.integers(-4000, 4000, (3000, 20))
    signs = np.where(
        rows[:, :20] @ rng.standard_normal((20, 2)) + 5000.0 * rng.standard_normal((3000, 2)) > 0, 1.0, -1.0
    )
    gram = rows.T.astype(np.float64) @ rows.astype(np.float64)
    return Problems(RowBlocks.of(rows, grid), signs, np.ones(3000), grid.bits, round(ALPHA * 4**grid.bits)), gram


@pytest.mark.parametrize("single", [False, True])
def test_gradients_are_those_of_the_definition(problems, single):
    problems, _ = problems
    W = np.random.default_rng(9).standard_normal((21, 2))
    M, G = problems.margins_and_gradient(W, single=single)
    X = np.concatenate([x for _, x in problems.rows]) / 2.0**problems.bits
    margins = problems.signs * (X @ W)
    gradient = ALPHA * W - X.T @ (problems.signs * expit(-margins))
    error = 1e-5 if single else 1e-11
    np.testing.assert_allclose(M, margins, rtol=0, atol=error)
    np.testing.assert_allclose(G, gradient, rtol=0, atol=100.0 * error)


def test_a_factor_learns_from_steps():
    """Whatever it began with: a change of the gradient gives the step that made it, conjugate steps the inverse."""
    rng = np.random.default_rng(10)
    R = rng.standard_normal((12, 6))
    H = R.T @ R + np.eye(6)
    factor = Factor(np.asfortranarray(np.eye(6)), True)
    for step in rng.standard_normal((30, 6)):
        factor.learn(step, H @ step)
        np.testing.assert_allclose(factor.solve(H @ step), step, rtol=0, atol=1e-9)
    assert len(factor.seen) == newton._MOST_SEEN
    for step in np.linalg.eigh(H)[1].T:
        factor.learn(step, H @ step)
    g = rng.standard_normal(6)
    np.testing.assert_allclose(factor.solve(g), np.linalg.solve(H, g), rtol=0, atol=1e-9)


def test_a_factor_learns_nothing_from_a_step_that_bends_down():
    factor = Factor(np.asfortranarray(np.eye(2)), True)
    factor.learn(np.ones(2), -np.ones(2))
    factor.learn(np.zeros(2), np.zeros(2))
    assert factor.seen == []


def test_the_even_factor_at_a_quarter_is_that_of_the_hessian_at_zero(problems):
    problems, gram = problems
    found = problems.even_factor(gram, 0.25)
    L = problems.factor(np.zeros(3000)).L
    np.testing.assert_allclose(np.tril(found.L), np.tril(L), rtol=1e-3, atol=1e-4)
    assert problems.even_factor(-gram, 0.25) is None


def test_with_the_gram_matrix_one_hessian_is_enough(problems, monkeypatch):
    """One for each problem, and none for a sample."""
    problems, gram = problems
    made = []
    hessian = RowBlocks.gram
    monkeypatch.setattr(RowBlocks, "gram", lambda self, D, dtype: made.append(self.n) or hessian(self, D, dtype))
    W, _ = minimise(problems, None, gram)
    assert len(made) <= 2
    _, G = problems.margins_and_gradient(W)
    assert np.abs(G).max() < 1e-5


def test_a_sample_takes_large_entries_as_they_are_and_some_of_the_small_ones():
    D = np.random.default_rng(11).random(4000) ** 6 / 4.0
    few = newton.thinned(D, 5)
    taken = few > 0.0
    assert 0.1 < taken.mean() < 0.5
    np.testing.assert_allclose(few.sum(), D.sum(), rtol=0.01)
    t = few[taken].min()
    np.testing.assert_array_equal(few[taken], np.maximum(D, t)[taken])
    assert taken[t < D].all()


@pytest.mark.parametrize("D", [np.zeros(7), np.full(7, 0.25), np.array([1.0, 0.0, 1e-300, 0.5]) + 5e-324])
def test_a_sample_of_few_or_equal_entries_is_all_of_them(D):
    np.testing.assert_array_equal(newton.thinned(D, 30), np.where(D > 1e-200, D, 0.0))


@pytest.fixture
def wide():
    """A problem whose margins differ much, and these."""
    rng = np.random.default_rng(12)
    grid = Grid(20)
    rows = np.full((6000, 21), grid.constant, dtype=grid.dtype)
    rows[:, :20] = rng.integers(-4000, 4000, (6000, 20))
    signs = np.where(rng.random((6000, 1)) < 0.9, 1.0, -1.0)
    found = Problems(RowBlocks.of(rows, grid), signs, rng.random(6000) + 0.5, grid.bits, round(ALPHA * 4**grid.bits))
    return found, 4.0 * rng.standard_normal(6000)


@pytest.mark.parametrize("passes", [12, 1])
def test_a_step_by_a_sample_is_as_good_as_one_by_the_whole(wide, passes, monkeypatch):
    """It is improved, or where that takes too long made anew."""
    monkeypatch.setattr(newton, "_MANY_PASSES", 0.0)
    monkeypatch.setattr(newton, "_MOST_PASSES", passes)
    problem, margins = wide
    factor = problem.factor(margins, whole=False)
    assert factor.sampled
    assert not problem.factor(margins).sampled
    g = np.random.default_rng(13).standard_normal(21)
    s, used = problem.step(factor, g, margins, 0.0)
    assert used.sampled == (passes == 12)
    X = np.concatenate([x for _, x in problem.rows]) / 2.0**problem.bits
    D = problem.counts * expit(margins) * expit(-margins)
    H = ALPHA * np.eye(21) + X.T @ (X * D[:, None])
    np.testing.assert_allclose(problem.bent(D, g), H @ g, rtol=0, atol=1e-3)
    rest = H @ s + g
    assert rest @ np.linalg.solve(H, rest) < 1e-4 * (g @ np.linalg.solve(H, g))


def test_a_whole_factor_is_of_no_sample_even_where_most_rows_do_not_bend(wide, monkeypatch):
    monkeypatch.setattr(newton, "_MANY_PASSES", 0.0)
    problem, _ = wide
    margins = np.full(6000, 1000.0)
    margins[:60] = 0.0
    assert not problem.factor(margins).sampled
    assert not problem.factor(margins, double=True).sampled


@pytest.mark.parametrize("s", [np.zeros(21), np.full(21, np.inf)])
def test_no_step_bends_nothing(wide, s):
    problem, margins = wide
    assert not problem.bent(problem.bends(margins), s).any()
