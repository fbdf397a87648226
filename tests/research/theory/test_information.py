"""Theorem 2.4 by enumeration: where it holds, where it does not, and what holds always."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable import ErasableClassifier
from erasable.errors import ConfigurationError, InputError
from erasable.research.theory.information import (
    Information,
    leak,
    leverage_map,
    mutual_information,
    smallest_counterexample,
)

Process = dict[tuple[tuple[Any, ...], tuple[int, ...]], float]


@st.composite
def processes(draw: st.DrawFn) -> Process:
    """Samples of up to three rows out of three values, any deletions, any probabilities."""
    outcome = st.integers(0, 3).flatmap(
        lambda n: st.tuples(
            st.tuples(*[st.sampled_from([0.4, 0.7, 1.0])] * n),
            st.sets(st.integers(0, n - 1) if n else st.nothing()).map(lambda U: tuple(sorted(U))),
        )
    )
    outcomes = draw(st.lists(outcome, min_size=1, max_size=6, unique=True))
    weights = draw(st.lists(st.integers(1, 9), min_size=len(outcomes), max_size=len(outcomes)))
    return {o: w / sum(weights) for o, w in zip(outcomes, weights, strict=True)}


def test_the_smallest_counterexample_leaks_one_bit_through_the_core_set_and_none_through_the_data() -> None:
    found = leak(*smallest_counterexample())
    assert found == Information(core=1.0, rest=0.0, extra=1.0)
    assert not found.holds
    assert found.excess == 1.0


def test_the_classifier_itself_leaks_it() -> None:
    left = []
    for first in (0.5, 1.0):
        clf = ErasableClassifier(
            capacity=1.0, kappa=0.5, fit_intercept=False, scaling=None, order="given", feature_map=None
        )
        clf.fit(np.array([[first], [0.9]]), [1, 1], ids=[0, 1])
        clf.forget(ids=[0])
        left.append(clf.n_core_)
    assert left == [1, 0]


def sample_alone(threshold: float = math.inf) -> Callable[[Any], list[int]]:
    """Which rows, pairs of an id and a number, the classifier keeps; half of them are drawn by their ids."""

    def core_set(S: tuple[tuple[int, float], ...]) -> list[int]:
        if not S:
            return []
        ids, numbers = zip(*S, strict=True)
        clf = ErasableClassifier(
            1.0, threshold=threshold, sample_rate=0.5, fit_intercept=False, scaling=None, feature_map=None
        )
        clf.fit(np.array(numbers)[:, None], [1] * len(S), ids=ids)
        return [ids.index(key) for key in clf.core_ids_.tolist()]

    return core_set


@given(processes())
def test_a_sample_alone_adds_nothing_for_one_who_knows_the_rest_of_the_data(process: Process) -> None:
    named = {(tuple(enumerate(S)), U): p for (S, U), p in process.items()}
    found = leak(named, sample_alone())
    assert abs(found.extra) < 1e-9
    assert found.excess < 1e-9


def test_the_counterexample_is_none_for_a_sample_alone_and_is_one_with_leverage_beside_it() -> None:
    alone, beside = sample_alone(), sample_alone(0.5**0.5)
    pairs = [(a, b) for a in range(9) for b in range(9, 18)]
    rows = ([tuple(zip(ids, (first, 0.9), strict=True)) for first in (0.5, 1.0)] for ids in pairs)
    half, whole = next(
        S for S in rows if not alone(S[1]) and beside(S[1]) == [0]
    )  # neither is drawn, the first is first
    process = {(half, (0,)): 0.5, (whole, (0,)): 0.5}
    assert leak(process, beside) == Information(core=1.0, rest=0.0, extra=1.0)
    assert leak(process, alone) == Information(core=0.0, rest=0.0, extra=0.0)


def test_the_map_in_the_counterexample_depends_on_the_sample_alone_and_is_stable() -> None:
    process, core_set = smallest_counterexample()
    for S, U in process:
        kept = [i for i in core_set(S) if i not in U]
        survivors = tuple(S[i] for i in kept)
        assert tuple(core_set(survivors)) == tuple(range(len(survivors)))


@given(processes())
def test_the_core_set_never_tells_more_than_the_data_and_the_extra_information(process: Process) -> None:
    found = leak(process, leverage_map(lam=1.0, tau=0.3))
    assert found.excess <= found.extra + 1e-9
    assert found.extra >= -1e-9


def information_of_the_pair(process: Process, core_set: Callable[..., Any]) -> float:
    """``I(U; (S' - U, (S - S') - U))``, by enumeration."""
    joint: dict[tuple[Any, Any], float] = defaultdict(float)
    for (S, U), p in process.items():
        kept = set(core_set(S))
        pair = tuple(tuple(S[i] for i in range(len(S)) if i not in U and (i in kept) == side) for side in (True, False))
        joint[tuple(S[i] for i in U), pair] += p
    return mutual_information(joint)


@given(processes())
def test_the_theorem_holds_for_the_pair_of_its_proof(process: Process) -> None:
    core_set = leverage_map(lam=1.0, tau=0.3)
    found = leak(process, core_set)
    pair = information_of_the_pair(process, core_set)
    assert found.core <= pair + 1e-9
    assert pair <= found.rest + found.extra + 1e-9


def test_the_pair_tells_what_the_core_set_of_the_counterexample_tells() -> None:
    assert information_of_the_pair(*smallest_counterexample()) == 1.0


@given(processes(), st.sets(st.sampled_from([0.4, 0.7, 1.0])))
def test_the_theorem_holds_when_each_row_is_kept_by_itself(process: Process, liked: set[float]) -> None:
    found = leak(process, lambda S: [i for i, row in enumerate(S) if row in liked])
    assert found.holds
    assert abs(found.extra) <= 1e-9


@given(processes())
def test_the_theorem_holds_for_a_random_subsample(process: Process) -> None:
    def coins(S: tuple[Any, ...]) -> dict[tuple[int, ...], float]:
        n = len(S)
        return {tuple(i for i in range(n) if bits >> i & 1): 0.5**n for bits in range(2**n)}

    assert leak(process, coins).holds


@given(processes())
def test_one_row_is_too_few_for_a_violation(process: Process) -> None:
    short = {o: p for o, p in process.items() if len(o[0]) <= 1}
    if short:
        total = sum(short.values())
        assert leak({o: p / total for o, p in short.items()}, leverage_map(lam=1.0, tau=0.3)).holds


def test_keeping_everything_or_nothing() -> None:
    process = {((1, 2), (0,)): 0.25, ((1, 3), (0,)): 0.25, ((2, 3), (0,)): 0.5}
    everything = leak(process, lambda S: range(len(S)))
    assert everything.core == everything.rest > 0.0
    assert leak(process, lambda S: []).core == 0.0


def test_mutual_information_of_known_pairs() -> None:
    assert mutual_information({(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25}) == 0.0
    flip = {(0, 0): 0.45, (1, 1): 0.45, (0, 1): 0.05, (1, 0): 0.05}
    assert mutual_information(flip) == pytest.approx(1 + 0.1 * math.log2(0.1) + 0.9 * math.log2(0.9))


def test_leverage_map_takes_vectors_and_empty_samples() -> None:
    core_set = leverage_map(lam=1.0, tau=0.6)
    assert tuple(core_set(((1.0, 0.0), (1.0, 0.0), (0.0, 1.0)))) == (0, 2)
    assert tuple(core_set(())) == ()


@pytest.mark.parametrize(
    ("process", "core_set", "error", "words"),
    [
        ({((1,), (0,)): 0.5}, lambda S: (), ConfigurationError, "process must be at least 0 and sum to 1"),
        ({((1,), (0,)): 1.5, ((2,), (0,)): -0.5}, lambda S: (), ConfigurationError, "process must be"),
        ({((1,), (1,)): 1.0}, lambda S: (), InputError, "deleted positions must be"),
        ({((1,), ()): 1.0}, lambda S: (3,), InputError, "core_set must give positions"),
        ({((1,), ()): 1.0}, lambda S: {(0,): 0.3}, ConfigurationError, "core_set must be"),
    ],
)
def test_what_is_no_process_or_no_map_is_refused(
    process: Process, core_set: Callable[..., Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        leak(process, core_set)
