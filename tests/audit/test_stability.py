"""The search for what breaks a core set finds the known counterexamples, shrinks them, and clears what is stable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from erasable.audit.definitions import check_stable
from erasable.classes import LinearBall
from erasable.coresets import LeverageThreshold, RandomSubsample, SinglePass, Staged, SupportVectors
from erasable.errors import InputError, VerificationError
from tests.paper.test_theorem_5_2_example import EIGHT_ROWS

RNG = np.random.default_rng(1)
X = RNG.standard_normal((60, 3))
y = np.where(X[:, 0] > 0, 1, 0)
SQUARE = np.array([[0.0, 1.0], [3.0, 1.0], [1.0, -1.0], [4.0, -1.0]])


@pytest.mark.parametrize(
    "core_set", [LeverageThreshold(0.2, capacity=1.0), SinglePass(LinearBall(), 0.2), RandomSubsample(0.3)], ids=repr
)
@pytest.mark.parametrize("n", [12, 60])
def test_stable_maps_are_cleared(core_set: Any, n: int) -> None:
    found = check_stable(core_set, (X[:n], y[:n]), tries=300).require()
    assert found.exhaustive == (2**found.core <= 300)
    assert found.tried == (2**found.core if found.exhaustive else 300)


def test_support_vectors_are_found_out_and_the_example_is_the_smallest() -> None:
    far = np.array([[0.0, 9.0], [5.0, 8.0], [1.0, -7.0]])
    found = check_stable(SupportVectors(), (np.concatenate([far, SQUARE]), [1, 1, 0, 1, 1, 0, 0]))
    assert not found.holds
    assert found.exhaustive
    assert found.rows is not None
    assert found.gone is not None
    assert set(found.rows.tolist()) == {3, 4, 5, 6}
    assert len(found.gone) == 1
    with pytest.raises(
        VerificationError, match="when 1 of 4 rows are deleted, it no longer selects 1 of the other core rows"
    ):
        found.require()


def test_the_staged_sampler_is_found_out() -> None:
    staged = Staged(LinearBall(0.5, scaling=None), rate=1)
    eight, labels = np.array([[float(v) for v in x] for x in EIGHT_ROWS.values()]), np.array([1, -1] * 4)
    found = check_stable(staged, (eight, labels))
    assert not found.holds
    assert found.rows is not None
    assert found.gone is not None
    S, s = eight[found.rows], labels[found.rows]
    left = [i for i in staged.select(S, s).tolist() if found.rows[i] not in found.gone]
    assert staged.select(S[left], s[left]).tolist() != list(range(len(left)))


@dataclass(frozen=True)
class Count:
    """Keeps every row while there are more than three of them: it takes a large U to break it."""

    least: int

    def select(self, X: Any, y: Any, keys: Any) -> Any:
        return np.arange(len(X) if len(X) > self.least else 0)


def test_a_large_request_is_found_by_the_guided_search_and_shrunk() -> None:
    found = check_stable(Count(3), (X, y), tries=500)
    assert not found.holds
    assert not found.exhaustive
    assert found.rows is not None
    assert found.gone is not None
    assert found.lost is not None
    assert (len(found.rows), len(found.gone), len(found.lost)) == (4, 1, 3)


class Restless:
    """Selects half of what it is given, also of its own choice: no U is needed."""

    def select(self, X: Any, y: Any, keys: Any) -> Any:
        return np.arange((len(X) + 1) // 2)


def test_a_map_that_does_not_select_its_own_choice_again() -> None:
    found = check_stable(Restless(), (X, y))
    assert not found.holds
    assert found.gone is not None
    assert len(found.gone) == 0
    assert found.lost is not None
    assert len(found.lost) == 1


class Hesitant:
    """Selects half of forty rows or more, ten of twenty or more, all of fewer: stable from its second choice on."""

    def select(self, X: Any, y: Any, keys: Any) -> Any:
        n = len(X)
        return np.arange(n // 2 if n >= 40 else 10 if n >= 20 else n)


def test_an_example_that_needs_rows_outside_of_the_core_keeps_them() -> None:
    found = check_stable(Hesitant(), (X, y))
    assert not found.holds
    assert found.rows is not None
    assert found.gone is not None
    assert found.lost is not None
    assert (len(found.rows), len(found.gone), len(found.lost)) == (40, 0, 10)


class Turned:
    """Selects all, in the reverse of the order given."""

    def select(self, X: Any, y: Any, keys: Any) -> Any:
        return np.arange(len(X))[::-1]


def test_another_order_is_another_core_set() -> None:
    found = check_stable(Turned(), (X[:5], y[:5]))
    assert not found.holds
    assert found.lost is not None
    assert len(found.lost) == 0
    assert "selects the others in another order" in str(found)


class Twice:
    """Selects every row, the first of them twice."""

    def select(self, X: Any, y: Any, keys: Any) -> Any:
        return np.array([0, *range(len(X))])


def test_a_row_that_is_selected_twice_is_refused() -> None:
    with pytest.raises(InputError, match="selects a row twice"):
        check_stable(Twice(), (X[:5], y[:5]))
