"""The kernel classifier: same surface, same laws as the linear one, on problems that are not linear."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import train_test_split

from erasable import ErasableClassifier, ErasableKernelClassifier, learn, verify
from erasable.errors import ConfigurationError, InputError

X, Y = make_moons(400, noise=0.2, random_state=0)


def moons(**changes):
    return ErasableKernelClassifier(**{"gamma": 2.0, "threshold": 0.5, **changes})


def test_it_learns_what_a_linear_one_cannot():
    kernel, linear = moons(threshold=0.45).fit(X, Y), ErasableClassifier(kappa=0.9).fit(X, Y)
    assert kernel.score(X, Y) > 0.95 > linear.score(X, Y) + 0.05
    assert kernel.n_core_ < 100


@pytest.mark.parametrize("kernel", ["rbf", "matern", "poly", "linear"])
def test_scores_are_those_of_kernel_ridge_on_the_core_rows(kernel):
    clf = moons(kernel=kernel, capacity=0.25, threshold=0.05, gamma=0.7, degree=2).fit(X, Y)
    rows = X[clf.core_ids_]
    names = {"rbf": "rbf", "poly": "poly", "linear": "linear"}
    if kernel in names:
        peer = KernelRidge(alpha=0.25, kernel=names[kernel], gamma=0.7, degree=2, coef0=1.0)
        peer.fit(rows, 2.0 * Y[clf.core_ids_] - 1.0)
        assert np.abs(peer.predict(X) - clf.decision_function(X)).max() < 0.02
    assert verify(clf).core_rows == clf.n_core_


@given(
    st.lists(st.integers(0, 69), max_size=30),
    st.sampled_from(["rbf", "matern", "poly"]),
    st.sampled_from([0.02, 0.3]),
)
def test_forgetting_equals_refitting(gone, kernel, threshold):
    part, labels = X[:70], np.array(["a", "b", "c"])[(X[:70, 0] > 0).astype(int) + (X[:70, 1] > 0.2)]
    clf = moons(kernel=kernel, threshold=threshold, gamma=0.9).fit(part, labels)
    for k in range(0, len(gone), 3):
        clf.forget(ids=gone[k : k + 3])
    kept = clf.core_ids_.tolist()
    assert not set(kept) & set(gone)
    if kept:
        again = clone(clf).fit(part[kept], labels[kept], ids=kept)
        assert again.state_digest() == clf.state_digest() == verify(clf).digest
        assert (again.dual_coef_ == clf.dual_coef_).all()


@pytest.mark.parametrize("gone", [[0], [3, 4, 5], [1, 7, 20, 21], list(range(0, 80, 2))])
def test_forgetting_after_the_weights_were_read_equals_refitting(gone):
    clf = moons(threshold=0.02).fit(X, Y)
    _ = clf.dual_coef_  # from here on the kernel matrix is kept and shrinks with the rows
    clf.forget(ids=clf.core_ids_[gone])
    kept = clf.core_ids_
    again = clone(clf).fit(X[kept], Y[kept], ids=kept)
    assert (clf.dual_coef_ == again.dual_coef_).all()
    assert clf.state_digest() == again.state_digest() == verify(clf).digest


def test_digits_with_ten_classes():
    D, t = load_digits(return_X_y=True)
    A, B, a, b = train_test_split(D, t, random_state=0)
    clf = ErasableKernelClassifier(gamma=1.0, scaling=60.0).fit(A, a)
    assert clf.score(B, b) > 0.98
    assert clf.n_core_ < 400
    assert clf.predict_proba(B).sum(axis=1) == pytest.approx(1.0)
    clf.forget(ids=clf.core_ids_[:50])
    verify(clf)


def twice_the_linear(A, B):
    return 2.0 * (A @ B.T)


def linear_and_one(A, B):
    return A @ B.T + 1.0


def test_set_params_leaves_what_was_learnt():
    """A pickle, too, keeps the function that the model was learnt with."""
    clf = moons(kernel=twice_the_linear).fit(X, Y)
    before, digest = clf.decision_function(X), clf.state_digest()
    for other in (linear_and_one, "rbf"):
        clf.set_params(kernel=other)
        for twin in (clf, pickle.loads(pickle.dumps(clf))):
            assert (twin.decision_function(X) == before).all()
            assert twin.state_digest() == digest == verify(twin).digest
            assert len(twin.guarantee.assumptions) == 1
    assert clf.fit(X, Y).guarantee.assumptions == ()


def test_a_kernel_function_of_the_callers():
    def product(A, B):
        return np.exp(-np.abs(A[:, None, :] - B[None, :, :]).sum(axis=2))

    clf = moons(kernel=product).fit(X, Y)
    assert clf.score(X, Y) > 0.9
    assert "same value for a pair" in str(clf.guarantee)
    clf.forget(ids=clf.core_ids_[:5])
    verify(clf)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": 0.0}, "capacity must be a positive finite number"),
        ({"threshold": -1.0}, "threshold must be a positive finite number"),
        ({"capacity": 2.0, "threshold": 0.6}, "nothing could ever be selected"),
        ({"nu": 1.0, "kernel": "matern"}, "nu must be"),
        ({"grid_bits": 40}, "grid_bits must be an integer between"),
        ({"scaling": "row"}, "scaling must be"),
        ({"scaling": [1.0, 2.0, 3.0]}, "3 scales for 2 features"),
        ({"classes": []}, "classes must not be empty"),
    ],
)
def test_bad_parameters_are_refused_and_nothing_changes(changes, message):
    clf = moons().fit(X, Y)
    before = clf.state_digest()
    with pytest.raises(ConfigurationError, match=message):
        clf.set_params(**changes).fit(X, Y)
    clf.set_params(**moons().get_params())
    assert clf.state_digest() == before


def test_rows_too_long_are_refused_and_nothing_changes():
    clf = moons().fit(X, Y)
    before = clf.state_digest()
    with pytest.raises(InputError, match="longer than 8192"):
        clf.partial_fit(X * 1e6, Y, ids=range(1000, 1400))
    assert clf.state_digest() == before


def test_learn_reports_who_decided():
    report = learn(moons(), X, Y)
    d = report.decisions
    assert d.screened + d.certified + d.enclosed + d.exact == 400
    assert report.core_rows == report.core_rows_added > 0
