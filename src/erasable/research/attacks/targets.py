"""What is attacked: every method in the box, stores that forget badly, and how each of them is built and read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from erasable.core.arrays import Float64s
from erasable.coresets import LeverageThreshold
from erasable.errors import ConfigurationError
from erasable.estimators import (
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
)
from erasable.research.baselines import (
    CertifiedRemovalClassifier,
    InterpolatedClassifier,
    NewtonUnlearner,
    RetrainedRidge,
    SISAClassifier,
)
from erasable.research.controls import (
    ForgetsLate,
    ForgetsNothing,
    KeepsLog,
    LeavesTombstone,
    PlainAlgorithm1,
    SoftDeletes,
    with_constant,
)
from erasable.schemas import Schema

SAMPLE_SHARE = 0.1  # of the target that keeps a sample and nothing else


@dataclass(frozen=True)
class Target:
    """A method under attack.

    Attributes
    ----------
    name, title : str
    build : callable
        An estimator from a seed, see ``made``. Only noise that is meant to be secret may come from the seed.
    most_rows : int or None
        How many rows are offered at most, where more would take too long.
    ours : bool
        Whether the promise on trial is the house's: the state is that of learning the surviving core rows, bitwise.
    control : str or None
        For a store that forgets badly: the letter of the attack that must catch it.
    inversion : {"squared", "logistic", "kernel", "voters", None}
        How its weights before and after are turned into a row, see ``snapshots.row_from_weights``; None where that
        is not known.
    surroundings : bool
        Whether what may stand around a model is attacked too, which is the same for every method.
    noisy : bool
        Whether learning twice gives different bits, since noise is part of the method.
    schema : Schema or None
        Of a model file: what makes rows of a raw table, before they are offered.
    divisor : float or array of floats
    by_norm : bool
        Of a model file: what its ``scaling`` divides rows by. That is done before they are offered, and then each row
        is divided by its own norm where ``by_norm``, as it is by default.
    """

    name: str
    title: str
    build: Callable[[int], Any]
    most_rows: int | None = None
    ours: bool = False
    control: str | None = None
    inversion: str | None = "squared"
    surroundings: bool = False
    noisy: bool = False
    schema: Schema | None = None
    divisor: float | Float64s = 1.0
    by_norm: bool = True


def made(kind: Callable[..., Any], *, seeded: bool = False, **parameters: Any) -> Callable[[int], Any]:
    """How an estimator is built from a seed, its ``random_state`` or nothing; a lambda cannot be sent to a process."""
    return partial(_build, kind, parameters, seeded)


def _build(kind: Callable[..., Any], parameters: dict[str, Any], seeded: bool, seed: int) -> Any:
    return kind(**parameters, **({"random_state": seed} if seeded else {}))


def _listed(*targets: Target) -> dict[str, Target]:
    return {target.name: target for target in targets}


TARGETS = _listed(
    Target("linear", "ErasableClassifier", made(ErasableClassifier), ours=True, surroundings=True),
    Target(
        "logistic",
        "ErasableClassifier, logistic loss",
        made(ErasableClassifier, loss="logistic"),
        ours=True,
        inversion="logistic",
    ),
    Target(
        "sample",
        "ErasableClassifier, a sample alone",
        made(ErasableClassifier, threshold=math.inf, sample_rate=SAMPLE_SHARE),
        ours=True,
    ),
    Target("regressor", "ErasableRegressor", made(ErasableRegressor, target_range=(-1.5, 1.5)), ours=True),
    Target(
        "kernel",
        "ErasableKernelClassifier",
        made(ErasableKernelClassifier, gamma=2.0),
        most_rows=2000,
        ours=True,
        inversion="kernel",
    ),
    Target("general", "ErasableGeneralClassifier", made(ErasableGeneralClassifier), most_rows=2000, ours=True),
    Target("retrained", "Exact retraining", made(RetrainedRidge)),
    Target("sisa", "SISA", made(SISAClassifier, n_shards=5, n_slices=3), inversion="voters"),
    Target(
        "newton",
        "One Newton step and noise",
        made(NewtonUnlearner, seeded=True, alpha=0.1, max_deletions=200),
        inversion="logistic",
        noisy=True,
    ),
    Target("newton-squared", "One Newton step, squared loss", made(NewtonUnlearner, seeded=True, loss="squared")),
    Target(
        "certified",
        "Certified removal",
        made(CertifiedRemovalClassifier, seeded=True),
        inversion="logistic",
        noisy=True,
    ),
    Target(
        "interpolated",
        "Interpolated (Section 2.2)",
        made(
            InterpolatedClassifier,
            seeded=True,
            core_set=LeverageThreshold(0.06, capacity=0.02),
            private_share=0.01,
            epsilon=1.0,
            alpha=1e-3,
        ),
        inversion="logistic",
        noisy=True,
    ),
    Target("plain", "Algorithm 1 in plain float64", made(PlainAlgorithm1), control="a"),
    Target("soft-delete", "A soft-delete store", made(SoftDeletes), control="b"),
    Target("forgets-nothing", "Control: forgets nothing", made(ForgetsNothing), control="b"),
    Target("forgets-late", "Control: forgets late", made(ForgetsLate), control="b"),
    Target("keeps-log", "Control: keeps a log", made(KeepsLog), control="b"),
    Target("tombstone", "Control: leaves a tombstone", made(LeavesTombstone), control="b"),
)


def target_of(name: str) -> Target:
    """The target of a name.

    Raises
    ------
    ConfigurationError
    """
    if name not in TARGETS:
        raise ConfigurationError(f"method must be one of {', '.join(TARGETS)}, or a model file; got another name.")
    return TARGETS[name]


def stored_ids(estimator: Any, offered: Sequence[Any]) -> list[Any]:
    """Ids of the rows that an estimator stores, among those it was offered and not asked to forget."""
    core = getattr(estimator, "core_ids_", None)
    return list(offered) if core is None else list(np.asarray(core).tolist())


def answers(estimator: Any, X: Float64s) -> Float64s:
    """One number for each row: the score, the prediction, or the mean score of the voters."""
    if hasattr(estimator, "_shards"):  # an attacker who reads the state sees each voter, not the vote alone
        voters = [shard.voter for shard in estimator._shards if shard.voter is not None]
        scores = [voter.decision_function(X) for voter in voters if hasattr(voter, "decision_function")]
        return np.asarray(np.mean(scores, axis=0), np.float64)
    ask = estimator.decision_function if hasattr(estimator, "decision_function") else estimator.predict
    return np.asarray(ask(X), np.float64)


def novelty(stored: Float64s, X: Float64s, ridge: float = 0.02) -> Float64s:
    """How new each row is to the stored ones: its leverage ``x'(ridge I + sum zz')^-1 x``, rows scaled to norm one.

    A row that was stored and has left leaves a hole: what lay near it was not kept while it was there.
    """
    Z, V = with_constant(stored), with_constant(X)
    A = 2.0 * ridge * np.eye(V.shape[1]) + Z.T @ Z
    found: Float64s = np.einsum("ij,ji->i", V, np.linalg.solve(A, V.T))
    return found
