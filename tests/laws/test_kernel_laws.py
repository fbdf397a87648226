"""What a kernel classifier refuses, and what it holds, depends on the rows and not on how they were handed in."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from erasable import ErasableKernelClassifier, verify
from erasable.errors import ConfigurationError, InputError

ROWS = 40


def laplacian(A, B):
    return np.exp(-np.abs(A[:, None] - B[None]).sum(axis=2))


def coarse_laplacian(A, B):
    return laplacian(A, B).astype(np.float32)


def no_kernel(A, B):
    return np.minimum(1.2, 1.0 + np.abs(A[:, None] - B[None]).sum(axis=2))


def digest_of(clf, X, y, bounds):
    """The digest after learning in parts, or None where a part was refused."""
    try:
        for a, b in itertools.pairwise(bounds):
            if b > a:
                clf.partial_fit(X[a:b], y[a:b], ids=np.arange(a, b))
    except (ConfigurationError, InputError):
        return None
    return clf.state_digest()


@given(
    st.sampled_from(["rbf", "matern", "poly", "linear", laplacian, coarse_laplacian, no_kernel]),
    st.sampled_from([4e-9, 1e-8, 3e-8, 1e-6, 1e-3, 0.1]),
    st.sampled_from([1e-3, 1.0]),
    st.integers(1, 12),
    st.integers(0, 2**20),
    st.lists(st.integers(0, ROWS), max_size=ROWS),
)
def test_any_batching_is_accepted_or_refused_alike_and_gives_the_same_digest(
    kernel, capacity, threshold, distinct, seed, cuts
):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(distinct, 2))[rng.integers(distinct, size=ROWS)]  # most rows repeat another
    y = rng.integers(2, size=ROWS)
    clf = ErasableKernelClassifier(kernel, capacity, threshold, order="given")
    at_once = digest_of(clf, X, y, [0, ROWS])
    one_by_one, in_parts = ErasableKernelClassifier(**clf.get_params()), ErasableKernelClassifier(**clf.get_params())
    assert digest_of(one_by_one, X, y, range(ROWS + 1)) == at_once
    assert digest_of(in_parts, X, y, [0, *sorted(cuts), ROWS]) == at_once
    if at_once is not None:
        assert verify(in_parts).digest == at_once


def test_rows_offered_are_not_core_rows():
    X, y = np.tile([[0.0], [1.0]], (50, 1)), [0, 1] * 50
    clf = ErasableKernelClassifier(capacity=5e-8).fit(X, y)
    assert clf.n_core_ == 2
    assert verify(clf).core_rows == 2
