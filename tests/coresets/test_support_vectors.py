"""Support vectors: a core set of the hard-margin SVM, and why it is one-shot."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.svm import SVC

from erasable.coresets import CoreSetMap, SupportVectors
from erasable.errors import InputError
from tests.estimators.cases import SECRET, SECRET_TEXT, assert_no_traces

# Four points on the two edges of a strip; in the plane it takes a fourth, and so a coincidence.
PLANE = np.array([[0.0, 1.0], [3.0, 1.0], [1.0, -1.0], [4.0, -1.0]])
# In space four points support a strip without one.
SPACE = np.array([[0.0, 0.0, 1.0], [3.0, 0.0, 1.0], [1.5, -1.0, -1.0], [-1.5, 2.0, -1.0]])
Y = np.array([1, 1, 0, 0])


def chosen(X, y):
    return SupportVectors().select(X, y, range(len(y))).tolist()


def separator(X, y):
    svm = SVC(kernel="linear", C=1e9, tol=1e-8).fit(X, y)
    return np.append(svm.coef_[0], svm.intercept_), svm.decision_function(X) * np.where(y == y.max(), 1, -1)


def separable(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    side = X @ rng.standard_normal(d) + 0.3 * rng.standard_normal()
    X, side = X[np.abs(side) > 0.2], side[np.abs(side) > 0.2]
    return X, (side > 0).astype(int)


# -- the counterexample ----------------------------------------------------------------------------------------------


def test_in_the_plane_a_deletion_makes_another_row_superfluous():
    assert chosen(PLANE, Y) == [0, 1, 2, 3]
    _, margins = separator(PLANE, Y)
    np.testing.assert_allclose(margins, 1.0, atol=1e-6)
    left = [0, 2, 3]
    assert chosen(PLANE[left], Y[left]) == [0, 1]
    _, margins = separator(PLANE[left], Y[left])
    np.testing.assert_allclose(margins, [1.0, 1.0, 2.2], atol=1e-6)
    assert not SupportVectors().stable


@pytest.mark.parametrize("seed", range(40))
def test_in_space_it_needs_no_coincidence(seed):
    """Moving every coordinate by up to 0.05 changes nothing, so this is no accident of the numbers."""
    X = SPACE + np.random.default_rng(seed).uniform(-0.05, 0.05, SPACE.shape)
    assert chosen(X, Y) == [0, 1, 2, 3]
    left = [1, 2, 3]
    assert chosen(X[left], Y[left]) == [0, 1]
    _, margins = separator(X[left], Y[left])
    assert margins[2] > 1.2


def test_requests_one_after_another_are_not_one_request():
    """What the first request drops, the core set without both rows would have kept."""
    first = [i for i in (0, 2, 3) if i in np.array([0, 2, 3])[chosen(PLANE[[0, 2, 3]], Y[[0, 2, 3]])]]
    assert first == [0, 2]
    at_once = [0, 3]  # rows 1 and 2 leave together
    assert chosen(PLANE[at_once], Y[at_once]) == [0, 1]
    assert [i for i in first if i != 2] == [0]


# -- what it selects -------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(4, 30), st.integers(1, 4))
def test_training_on_the_core_gives_the_same_separator(seed, n, d):
    X, y = separable(seed, n, d)
    assume(len(set(y)) == 2)
    core = chosen(X, y)
    right, margins = separator(X, y)
    assert core == np.flatnonzero(margins < 1 + 1e-5).tolist()
    np.testing.assert_allclose(separator(X[core], y[core])[0], right, rtol=1e-4, atol=1e-4)
    assert chosen(X[core], y[core]) == list(range(len(core)))


@given(st.integers(0, 10**6), st.sampled_from([1e-9, 1e-3, 1e4, 1e12]), st.sampled_from([0.0, -3.0, 1e6]))
def test_size_and_place_of_the_rows_do_not_matter(seed, size, shift):
    X, y = separable(seed, 20, 2)
    assume(len(set(y)) == 2)
    assert chosen(size * (X + shift), y) == chosen(X, y)


def test_a_solver_that_names_the_wrong_rows_is_not_believed(monkeypatch):
    X, y = separable(3, 40, 3)
    right = chosen(X, y)
    others = [i for i in range(len(y)) if i not in right]
    for wrong in (right[1:], [*right, *others[:2]], [*right[1:], others[0]], list(range(len(y))), [0, int(y.argmax())]):

        class Poor(SVC):
            def fit(self, Z, signs, wrong=wrong):
                self.support_ = np.array(wrong)
                return self

        with monkeypatch.context() as patch:
            patch.setattr("sklearn.svm.SVC", Poor)
            with pytest.raises(InputError, match="does not find the hard margin"):
                chosen(X, y)


@pytest.mark.parametrize("labels", [["a", "b"], [True, False], [-1.0, 2.5], [7, 3]])
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_labels_and_containers_of_any_kind(labels, container):
    X, y = separable(3, 40, 3)
    assert chosen(container(X), np.array(labels, dtype=object)[y]) == chosen(X, y)


def test_one_class_has_no_margin_and_is_kept_whole():
    assert chosen(PLANE, np.zeros(4)) == [0, 1, 2, 3]
    assert chosen(PLANE[:0], np.zeros(0)) == []


def test_rows_that_are_all_alike():
    with pytest.raises(InputError, match="separates"):
        chosen(np.ones((4, 2)), Y)


def test_more_than_two_classes_are_refused():
    with pytest.raises(InputError, match="two classes; got 4") as caught:
        chosen(PLANE, np.array([SECRET_TEXT + str(i) for i in range(4)]))
    assert_no_traces(str(caught.value))


def test_rows_that_cannot_be_separated_are_refused_at_once():
    rng = np.random.default_rng(0)
    X, y = SECRET * rng.standard_normal((400, 3)), rng.integers(2, size=400)
    with pytest.raises(InputError, match="no hyperplane separates the two classes of these 400 rows") as caught:
        chosen(X, y)
    assert_no_traces(str(caught.value))


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
def test_narrow_margins_are_found(gap):
    assert chosen(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, gap], [1.0, gap]]), Y) == [0, 1, 2, 3]


def test_a_margin_too_narrow_for_float64_is_refused():
    with pytest.raises(InputError, match="another core-set map"):
        chosen(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1e-14], [1.0, 1e-14]]), Y)


def test_a_map_is_its_configuration():
    assert SupportVectors() == SupportVectors()
    assert isinstance(SupportVectors(), CoreSetMap)
    assert SupportVectors().describe() == {"map": "support-vectors", "tolerance": (1e-5).hex()}


def test_scikit_learn_is_loaded_when_rows_are_selected_and_not_before():
    """Models are made of the rooms below them, and have to do without it."""
    rooms = "core, classes, coresets, features, models, store"
    modules = (
        "import importlib, pkgutil, sys, erasable\n"
        f"for room in '{rooms}'.split(', '):\n"
        "    package = importlib.import_module(f'erasable.{room}')\n"
        "    for found in pkgutil.iter_modules(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(found.name)\n"
        "assert 'sklearn' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", modules], check=True)
