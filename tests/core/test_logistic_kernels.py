"""Logistic weights are the same bits with the kernels of other processors, whose iterates and factors differ."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import hashlib
import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from erasable.core.grid import Grid, to_grid
from erasable.core.logistic import Point, Enclosure, logistic_weights, spread_exponents, weighted_squares
from tests.logistic_oracle import degenerate_problem, spread_problem
X, y = load_digits(return_X_y=True)
grid = Grid(64)
rows, signs = to_grid(X, grid), np.where(y == np.arange(10)[:, None], 1, -1)
counts = 1.0 + (np.arange(len(y)) % 32) / 16.0

def tell(W):
    print(hashlib.sha256(W.astype("<f4").tobytes()).hexdigest()[:32])

for alpha in (1.0, 0.01, 1e-6):
    tell(logistic_weights(rows, signs, counts, grid, round(alpha * 4**15)))
start = logistic_weights(rows[1:], signs[:, 1:], counts[1:], grid, 4**15)
tell(logistic_weights(csr_array(rows[:, :64]), signs, counts, grid, 4**15, start))
fine = Grid(64, 20)
tell(logistic_weights(to_grid(X, fine), signs[:3], counts, fine, 4**19))
found = []
for rows_of, signs_of, counts_of, bits, units in map(degenerate_problem, range(260)):
    found.append(logistic_weights(rows_of, signs_of[None], counts_of, Grid(rows_of.shape[1], bits, False), units)[0])
tell(np.concatenate(found))

def exponents(G):
    return spread_exponents(*weighted_squares(G, np.ones(len(G), dtype=int)), len(G))

for alpha in (1.0, 0.01):
    tell(logistic_weights(rows, signs, counts, grid, round(alpha * 4**15), exponents=exponents(rows)))
found = []
for rows_of, signs_of, counts_of, bits, units in map(spread_problem, range(260)):
    one = Grid(rows_of.shape[1], bits, False)
    found.append(logistic_weights(rows_of, signs_of[None], counts_of, one, units, exponents=exponents(rows_of))[0])
tell(np.concatenate(found))
Point.enclosure = lambda self, s: Enclosure(np.inf, s)
tell(logistic_weights(rows, signs[:2], counts, grid, 4**15))
"""

# A change here is a change of the definition of the weights.
GOLDEN = """
c991fc513d54d4a2d3fdc9c910e93ea8
7011941972f941273e7481f4ef096ff8
ef8da67ca560a1d1eaafecbb87f2a3fe
c991fc513d54d4a2d3fdc9c910e93ea8
7166cddee3810954d3f236c71c150074
fea59768515b822b242171c61e066f30
2de2e41801a90cb15d8a72e958137794
155229c33f0240c839ddd9b9ad042021
01d1468210975de1bbc385666be7fea9
8a85c7a93e7bbb3bf85c7f57f9647d66
"""


# As NumPy calls them from 2.4 on, and before; names that it does not know it passes over.
FEATURES = "X86_V4 X86_V3 AVX512F AVX2 FMA3"


@pytest.mark.parametrize("kernels", [None, "Prescott", "Nehalem"])
def test_weights_are_those_of_every_machine(kernels):
    if kernels is not None and platform.machine() not in ("x86_64", "AMD64"):
        kernels = None  # the names are those of x86 processors: elsewhere this repeats the first case
    older = {"OPENBLAS_CORETYPE": kernels, "NPY_DISABLE_CPU_FEATURES": FEATURES} if kernels else {}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **older},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == GOLDEN.split()
