"""Requests that depend on the model: whoever reads the whole state after each step may choose the next one.

The paper's Definition 2.3 assumes that U does not depend on the algorithm's randomness. Selection here has none, and a
sample has only its key, which is part of the configuration: so what is promised holds for every sequence, however it
was chosen. What that is worth, and what it does not cover, are tests as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable import ErasableClassifier, ErasableRegressor, verify
from erasable.audit.definitions import check_traditional
from erasable.audit.epsilon import epsilon_lower_bound
from erasable.research.baselines import SISAClassifier

N, D = 60, 3

# What the attacker asks for next, given everything that is stored and its own rows: ids of stored rows.
Policy = Callable[[Any, np.ndarray, np.ndarray], list[int]]


def longest(model: Any, X: np.ndarray, y: np.ndarray) -> list[int]:
    """The row that weighs most on what is stored."""
    core = model.core_ids_
    A = 1e-2 * np.eye(D) + X[core].T @ X[core]
    return core[[int(np.argmax(np.einsum("ij,ji->i", X[core], np.linalg.solve(A, X[core].T))))]].tolist()


def best_fitted(model: Any, X: np.ndarray, y: np.ndarray) -> list[int]:
    """The row the model is surest of."""
    core = model.core_ids_
    return core[[int(np.argmax(y[core] * (X[core] @ model.coef_.ravel())))]].tolist()


def by_digest(model: Any, X: np.ndarray, y: np.ndarray) -> list[int]:
    """A choice that depends on every bit of the state."""
    core = model.core_ids_
    seen = int(model.state_digest()[:8], 16)
    return [int(core[seen % len(core)]), int(core[seen // 7 % len(core)])]


def newest(model: Any, X: np.ndarray, y: np.ndarray) -> list[int]:
    """What was selected last, and only because of those before."""
    return model.core_ids_[-2:].tolist()


POLICIES = [longest, best_fitted, by_digest, newest]
CONFIGURATIONS = [
    {"threshold": 0.1, "capacity": 0.1},
    {"threshold": 0.1, "capacity": 0.1, "loss": "logistic"},
    {"threshold": 0.1, "capacity": 0.1, "head_scaling": "spread"},
    {"threshold": 0.3, "capacity": 0.1, "sample_rate": 0.3},
    {"threshold": math.inf, "sample_rate": 0.5},
]


def rows_of(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (N, D)) + 0.25 * rng.standard_normal((N, D)) * (seed % 2)
    return X, np.where(rng.random(N) < 0.5, 1, -1)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    configuration=st.sampled_from(CONFIGURATIONS),
    steps=st.lists(st.sampled_from([*POLICIES, "learn"]), min_size=1, max_size=12),
)
def test_after_any_adaptive_sequence_the_state_is_that_of_its_own_rows(
    seed: int, configuration: dict[str, Any], steps: list[Any]
) -> None:
    X, y = rows_of(seed)
    model = ErasableClassifier(order="given", classes=[-1, 1], feature_map=None, **configuration)
    model.partial_fit(X[:20], y[:20], ids=range(20))
    learnt = 20
    for step in steps:
        if step == "learn":
            some = range(learnt, min(N, learnt + 8))
            if some:
                model.partial_fit(X[some], y[some], ids=some)
            learnt += len(some)
        elif model.n_core_ > 1:
            model.forget(ids=step(model, X, y)[: model.n_core_ - 1])
        if not model.n_core_:
            continue
        left = model.core_ids_
        again = ErasableClassifier(order="given", classes=[-1, 1], feature_map=None, **configuration).fit(
            X[left], y[left], ids=left
        )
        assert again.state_digest() == model.state_digest()
        verify(model)


@pytest.mark.parametrize("policy", POLICIES)
def test_so_it_is_with_the_order_of_hashes_and_for_regressions(policy: Policy) -> None:
    X, y = rows_of(1)
    for model in (
        ErasableClassifier(threshold=0.1, capacity=0.1, classes=[-1, 1], feature_map=None),
        ErasableRegressor(target_range=(-1, 1), threshold=0.1, capacity=0.1, feature_map=None),
    ):
        model.fit(X, y)
        for _ in range(8):
            model.forget(ids=policy(model, X, y))
            left = model.core_ids_
            again = type(model)(**model.get_params()).fit(X[left], y[left], ids=left)
            assert again.state_digest() == model.state_digest()


def test_nothing_tells_an_adaptive_sequence_from_one_request_for_the_same_rows() -> None:
    X, y = rows_of(3)
    step_by_step = ErasableClassifier(threshold=0.1, capacity=0.1, classes=[-1, 1], feature_map=None).fit(X, y)
    core = set(step_by_step.core_ids_.tolist())
    for policy in POLICIES * 2:
        step_by_step.forget(ids=policy(step_by_step, X, y))
    at_once = ErasableClassifier(threshold=0.1, capacity=0.1, classes=[-1, 1], feature_map=None).fit(X, y)
    at_once.forget(ids=sorted(core - set(step_by_step.core_ids_.tolist())))
    assert at_once.state_digest() == step_by_step.state_digest()


# -- a sample, and its key -------------------------------------------------------------------------------------------


def sampled(key: int, ids: Any) -> ErasableClassifier:
    ids = list(ids)
    X = np.eye(D)[np.arange(len(ids)) % D]
    y = np.arange(len(ids)) % 2
    return ErasableClassifier(threshold=math.inf, sample_rate=0.25, random_state=key, classes=[0, 1]).fit(X, y, ids=ids)


def stored_after(key: int, adaptive: bool) -> int:
    """Rows stored after five of forty leave: the first five stored, or five that were named before."""
    model = sampled(key, range(40))
    model.forget(ids=model.core_ids_[:5].tolist() if adaptive else range(5))
    return model.n_core_


def test_for_every_key_requests_that_depend_on_the_sample_are_forgotten_to_the_bit() -> None:
    rows = np.arange(40)
    for key in range(20):
        model = sampled(key, rows)
        gone = model.core_ids_[:5]
        model.forget(ids=gone)
        left = np.setdiff1d(rows, gone)  # all rows that are left, offered again: S' = S for a sample
        X, y = np.eye(D)[left % D], left % 2
        again = ErasableClassifier(**model.get_params()).fit(X, y, ids=left)
        assert again.state_digest() == model.state_digest()


def test_over_fresh_keys_only_requests_that_ignore_the_sample_look_like_retraining() -> None:
    """What Definition 2.3 assumes of U is needed where the key counts as randomness, and is not where it is fixed."""
    retrained = [sampled(key, range(5, 40)).n_core_ for key in range(300)]
    oblivious = [stored_after(1000 + key, adaptive=False) for key in range(300)]
    adaptive = [stored_after(2000 + key, adaptive=True) for key in range(300)]
    assert epsilon_lower_bound(oblivious, retrained).epsilon == 0.0
    assert epsilon_lower_bound(adaptive, retrained).epsilon > 0.5


def test_so_it_is_with_the_shards_of_a_peer() -> None:
    """All rows of one shard leave, which only a reader of the state can name: for every seed, as if never learnt."""
    X, y = rows_of(5)
    for seed in range(3):
        peer = SISAClassifier(n_shards=3, n_slices=2, random_state=seed)
        gone = [key for key, (shard, _) in peer.fit(X, y)._place.items() if shard == 1]
        assert len(gone) > 5
        check_traditional(peer, (X, y), gone).require()


# -- what no unlearning covers -----------------------------------------------------------------------------------------


def test_who_asks_because_of_what_the_model_said_tells_of_those_it_was_learnt_from() -> None:
    """Chourasia and Shah (2023): a published model moves others to leave, and who is missing speaks of a row that left.

    The state is exact all the same, and retraining on what is left gives it too: what speaks is who chose to leave.
    """
    seen = {}
    for label in (-1, 1):
        X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        model = ErasableClassifier(threshold=0.1, capacity=0.1, classes=[-1, 1], fit_intercept=False, feature_map=None)
        model.fit(X, [label, -1, 1], ids=[0, 1, 2])
        said = int(model.predict(X[:1])[0])
        model.forget(ids=[1] if said > 0 else [2])  # one of the others leaves, for what was published
        model.forget(ids=[0])
        verify(model)
        seen[label] = model.state_digest()
    assert seen[-1] != seen[1]
