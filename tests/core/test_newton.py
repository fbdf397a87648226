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
