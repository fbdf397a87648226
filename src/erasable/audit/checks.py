"""Definition 2.3 as a set of tests that anybody can run on an estimator, as scikit-learn's ``check_estimator`` is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from erasable.audit.definitions import Rows, Verdict, check_exact, core_of, fitted
from erasable.core.arrays import Float64s

Check = Callable[[], Verdict]


def checks_of(estimator: Any) -> dict[str, Check]:
    """Checks that every exact estimator passes, by name: small sets made to be difficult.

    Rows of three features: random, each of them twice, all alike, and of rank one. Of each set one stored row, some,
    and all but one are forgotten. Labels are 0 and 1; an estimator that needs two others has them as ``audit_labels``.
    """
    labels = getattr(estimator, "audit_labels", (0, 1))
    found: dict[str, Check] = {}
    for kind, X in _difficult().items():
        rows = Rows(X, np.where(np.arange(len(X)) % 3 == 0, *labels))
        for amount in ("one", "some", "all but one"):
            found[f"{amount} of {kind}"] = partial(_check, estimator, rows, amount)
    return found


def parametrize_with_checks(estimators: Collection[Any]) -> Any:
    """A pytest decorator that runs a test with ``check`` for each check of each estimator.

    Examples
    --------
    >>> from erasable import ErasableClassifier
    >>> from erasable.audit.checks import parametrize_with_checks
    >>> @parametrize_with_checks([ErasableClassifier(), ErasableClassifier(loss="logistic")])
    ... def test_forgetting_equals_training_on_what_is_left(check):
    ...     check().require()
    """
    import pytest  # whoever decorates a test has it; nothing else here needs it

    cases = [(f"{type(e).__name__}, {name}", check) for e in estimators for name, check in checks_of(e).items()]
    return pytest.mark.parametrize("check", [check for _, check in cases], ids=[name for name, _ in cases])


def _check(estimator: Any, rows: Rows, amount: str) -> Verdict:
    core = core_of(fitted(estimator, rows), rows)
    if len(core) < 2:  # something has to be left, so those go that were passed over
        core = [name for name in rows.named() if name not in core]
    return check_exact(estimator, rows, {"one": core[:1], "some": core[1::2], "all but one": core[:-1]}[amount])


def _difficult() -> dict[str, Float64s]:
    rng = np.random.default_rng(0)
    random = rng.standard_normal((40, 3))
    return {
        "random rows": random,
        "rows that occur twice": np.concatenate([random[:15], random[:15]]),
        "rows all alike": np.tile(random[:1], (20, 1)),
        "rows of rank one": np.outer(rng.standard_normal(30), random[0]),
    }
