"""Data for the measurements: two synthetic sets in the shape of the paper's, bundled sets, optional local files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, make_moons
from sklearn.model_selection import train_test_split

from erasable.research.sets import make_margin


def correlated(n=249_215, d=600, decay=0.5, seed=0):
    """Rows of norm one whose covariance has eigenvalues ``i ** (-2 * decay)``; labels of a noisy linear rule."""
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    X = rng.standard_normal((n, d)) @ (np.arange(1, d + 1)[:, None] ** -decay * rotation)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    score = X @ rng.standard_normal(d)
    return X, score + 0.3 * score.std() * rng.standard_normal(n) > 0


def margin(n=200_000, d=100, gap=0.1, seed=0):
    """The paper's Margin set, labels as booleans."""
    table = make_margin(n, d, gap, random_state=seed)
    X, y = table.X, table.y
    return X, y > 0


def curved(n=50_000, d=20, seed=0):
    """Rows near a four-dimensional surface in d dimensions, labelled by a rule that no plane follows."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 4))
    X = np.tanh(Z @ rng.standard_normal((4, d)) / 2.0) + 0.05 * rng.standard_normal((n, d))
    return X, Z[:, 0] * Z[:, 1] + Z[:, 2] > 0


def kernel_cases():
    """Name, rows, labels, public scale, parameters and number of splits for the kernel classifier's accuracy."""
    moons = make_moons(2000, noise=0.2, random_state=0)
    cancer = load_breast_cancer(return_X_y=True)
    scales = 10.0 ** np.round(np.log10(cancer[0].max(axis=0)))  # orders of magnitude, public knowledge
    yield "two moons", *moons, 1.0, {"gamma": 2.0, "threshold": 0.5}, 5
    yield "digits", *load_digits(return_X_y=True), 60.0, {"gamma": 1.0}, 5
    yield "breast cancer", cancer[0] / scales, cancer[1], 1.0, {"gamma": 0.5, "threshold": 0.3}, 5
    yield "curved, 50,000 x 20", *curved(), 1.0, {"gamma": 0.2, "threshold": 1.0}, 1


def small_sets(n_splits=10):
    """Name and random splits (train rows, test rows, train labels, test labels) of the sets scikit-learn bundles."""
    for name, load in (("digits", load_digits), ("breast cancer", load_breast_cancer)):
        X, y = load(return_X_y=True)
        yield name, [train_test_split(X, y, test_size=0.3, random_state=s, stratify=y) for s in range(n_splits)]


def local_sets(folder):
    """The same, one split each, for ``NAME_{train,test}.npz`` (SciPy CSR) and ``NAME_labels.npz`` in a folder."""
    for path in sorted(Path(folder).glob("*_train.npz")):
        name = path.name.removesuffix("_train.npz")
        labels = np.load(path.with_name(f"{name}_labels.npz"))
        test = sp.load_npz(path.with_name(f"{name}_test.npz"))
        yield name, [(sp.csr_array(sp.load_npz(path)), sp.csr_array(test), labels["y_train"], labels["y_test"])]
