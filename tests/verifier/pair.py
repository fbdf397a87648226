"""Both verifiers asked about the same bytes, and small models of every kind that the second one checks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from erasable import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor
from erasable.errors import StateFormatError, VerificationError
from erasable.models.files import model_of
from verifier import erasable_verify


def first(raw: bytes) -> bool:
    """Whether ``verify`` passes on a file of these bytes."""
    try:
        model_of(raw, None).verify()
    except (StateFormatError, VerificationError):
        return False
    return True


def second(raw: bytes, folder: Path) -> tuple[int, dict[str, Any]]:
    """Exit code of the second verifier for a file of these bytes, and what it says."""
    path = folder / "m.erasable"
    path.write_bytes(raw)
    code, found = erasable_verify.verdict(path, lambda line: None, lambda done, total: None, False)
    return code, found


def bytes_of(model: Any) -> bytes:
    """The file that a model would be."""
    return b"".join(bytes(piece) for piece in model.model_.snapshot().pieces)


def any_model(seed: int) -> Any:
    """A fitted model that has forgotten some rows: every choice drawn from the seed, bad places among them."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 26)), int(rng.integers(1, 5))
    X = rng.integers(-3, 4, (n, d)) / rng.choice([1.0, 4.0])  # duplicates, zero rows and ties
    if rng.random() < 0.3:
        X = rng.standard_normal((n, d))
    ids: list[Any] = [i * 37 % 1009 - 200 for i in range(n)]
    if rng.random() < 0.6:
        ids = [f"é{i}" for i in ids] if rng.random() < 0.5 else [b"\xff%d" % i for i in ids]
    people = [[None, "ann", ["bob", "cy"], ["ann", "dee", "eve"]][rng.integers(1 + rng.integers(4))] for _ in range(n)]
    named = {"ids": ids, "subjects": people, "allow_no_subject": True}
    model, y, weighted = drawn_model(rng, X)
    if weighted and rng.random() < 0.5:
        named["sample_weight"] = rng.integers(1, 65, n) / 16
    if not isinstance(model, ErasableKernelClassifier) and rng.random() < 0.2:  # many columns with few entries
        wide = np.zeros((n, 24))
        wide[np.arange(n)[:, None], (np.arange(n)[:, None] * 5 + np.arange(d) * 7) % 24] = X
        X = sp.csr_array(wide)
        model.set_params(scaling="row")
        if getattr(model, "moments", None) is not None:
            model.set_params(moments=[0.125] * 24 if np.ndim(model.moments) == 1 else np.eye(24) / 16)
    half = n // 2 if rng.random() < 0.3 else 0
    for at in (slice(0, half), slice(half, n)):
        if at.stop > at.start:
            model.partial_fit(X[at], y[at], **{k: v if isinstance(v, bool) else v[at] for k, v in named.items()})
    leaving = [key for key in ids if rng.random() < rng.choice([0.1, 0.5, 1.0], p=[0.6, 0.35, 0.05])]
    model.forget(ids=leaving)
    return model


def drawn_model(rng: Any, X: Any) -> tuple[Any, Any, bool]:
    """An unfitted model, what it is to predict from these rows, and whether its rows may have weights."""
    n, d = X.shape
    choice = {
        "order": rng.choice(["hashed", "given"]).item(),
        "random_state": [0, 7, 2**100][rng.integers(3)],
        "threshold": [0.02, 0.1, 0.2, 0.25][rng.integers(4)],
    }
    k = int(rng.integers(1, 5))
    words = [["no", "yes", "żyto", "per\tchance"], [False, True, False, True], [-5, 0, 3, 2**40], [0.0, 1.0, 2.0, -1.0]]
    classes: list[Any] = words[rng.integers(4)]
    y = np.array([classes[i] for i in rng.integers(k, size=n)])
    fixed = sorted(set(classes)) if rng.random() < 0.3 else None
    kind = rng.choice(["squared", "logistic", "regression", "kernel"], p=[0.35, 0.3, 0.2, 0.15]).item()
    if kind == "kernel":
        name, gamma = ["rbf", "matern", "poly", "linear"][rng.integers(4)], float(rng.choice([0.25, 1.7]))
        shape = {"nu": float(rng.choice([0.5, 1.5, 2.5])), "degree": int(rng.integers(1, 4)), "gamma": gamma}
        scaling = [None, 2.0, [1.5] * d][rng.integers(3)]
        return ErasableKernelClassifier(name, 0.1, **choice, **shape, scaling=scaling, classes=fixed), y, False
    bits = int(rng.choice([6, 11, 15, 20]))
    choice |= {
        "capacity": float(rng.choice([4.0**-bits, 0.02, 1.0, 3.0])),
        "fit_intercept": bool(rng.integers(2)),
        "grid_bits": bits,
        "scaling": ["row", 16.0, [2.0] * d][rng.integers(3)],
    }
    if rng.random() < 0.3:
        moments = [None, 2.0 ** rng.integers(-6, 1, d), np.eye(d) / 4 + rng.choice([0.0, 0.25 / d])][rng.integers(3)]
        choice |= {"selection": "independent", "rate": float(rng.choice([0.4, 0.8, 1.0])), "moments": moments}
        choice |= {"threshold": None, "order": "hashed"}
        if kind != "regression" and choice["rate"] < 1.0 and rng.random() < 0.5:
            names = sorted(set(classes))
            shares = dict(zip(names, (0.5 ** np.arange(1, len(names) + 1)).tolist(), strict=True))
            choice |= {"balance": float(rng.choice([0.5, 1.0])), "class_shares": shares}
    elif rng.random() < 0.3:
        choice |= {"sample_rate": float(rng.choice([0.3, 1.0])), "threshold": [math.inf, 0.1][rng.integers(2)]}
    if kind == "regression":
        targets = int(rng.integers(1, 3))
        return (
            ErasableRegressor([(-9.0, 9.0)] * targets, **choice, feature_map=None),
            np.rint(X[:, :1] * 2) + np.zeros(targets),
            True,
        )
    weights = [None, "balanced", {sorted(set(classes))[0]: 2.5}][0 if "balance" in choice else rng.integers(3)]
    if kind == "logistic":
        choice |= {"alpha": float(rng.choice([1e-3, 0.3, 5.0])), "head_scaling": rng.choice(["flat", "spread"]).item()}
    return ErasableClassifier(**choice, loss=kind, class_weight=weights, classes=fixed, feature_map=None), y, True
