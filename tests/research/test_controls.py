"""The stores that forget badly work as models, and do what their names say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from erasable.research.controls import (
    CONTROLS,
    ForgetsLate,
    ForgetsNothing,
    KeepsLog,
    LeavesTombstone,
    PlainAlgorithm1,
    RidgeStore,
    SoftDeletes,
    with_constant,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 6))
y = np.where(X @ RNG.standard_normal(6) > 0, 1, -1)
LEFT = np.delete(np.arange(200), [3, 7])


@pytest.mark.parametrize("kind", [RidgeStore, *CONTROLS])
def test_all_of_them_learn(kind: Any) -> None:
    model = kind().fit(X, y, ids=range(200))
    assert np.mean(model.predict(X) == y) > 0.9
    Z = with_constant(X)[:, :-1]
    assert np.allclose(model.decision_function(X), Z @ model.coef_[0] + model.intercept_)


@pytest.mark.parametrize("kind", [RidgeStore, *CONTROLS[:-1]])
def test_weights_are_those_of_the_rows_left_where_forgetting_was_carried_out(kind: Any) -> None:
    model = kind().fit(X, y, ids=range(200))
    model.forget(ids=[3])
    model.forget(ids=[7])
    again = kind().fit(X[LEFT], y[LEFT], ids=LEFT.tolist())
    assert np.allclose(model.weights, again.weights, rtol=0, atol=1e-9) == (kind not in (ForgetsNothing, ForgetsLate))


def test_each_keeps_what_its_name_says() -> None:
    row = with_constant(X[[3]])[0]
    late, log, stone, soft = (c().fit(X, y) for c in (ForgetsLate, KeepsLog, LeavesTombstone, SoftDeletes))
    for model in (late, log, stone, soft):
        model.forget(ids=[3])
    assert 3 in late.ids
    late.forget(ids=[7])
    assert 3 not in late.ids
    assert 7 in late.ids
    assert 3 not in log.ids
    assert (log.log[0] == row).all()
    assert 3 not in stone.ids
    assert stone.tombstones == {3}
    assert (soft.rows[3] == row).all()
    assert soft.deleted.sum() == 1


def test_downdates_of_plain_float64_are_right_but_leave_residue() -> None:
    model = PlainAlgorithm1(threshold=0.1).fit(X, y)
    gone = int(model.core_ids_[5])
    model.forget(ids=[gone])
    Z, s = model.rows, model.labels
    A = model.ridge * np.eye(Z.shape[1])
    b = np.zeros(Z.shape[1])
    for z, sign in zip(Z, s, strict=True):
        A += np.outer(z, z)
        b += sign * z
    assert gone not in model.core_ids_
    assert np.allclose(model.sums, A)
    assert np.allclose(model.inverse @ A, np.eye(len(A)), atol=1e-8)
    assert np.allclose(model.weights, np.linalg.solve(A, b))
    assert not (model.sums == A).all()
    assert not (model.moments == b).all()
