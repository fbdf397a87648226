"""Before learning: which parameters to choose, what to expect of them, and how many deletions until a refresh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from erasable.errors import ConfigurationError, InputError
from erasable.estimators import ErasableClassifier
from erasable.operations.plan._figure import draw_frontier
from erasable.operations.plan._frontier import Band, Candidate, Trial
from erasable.operations.plan._plan import Planner, Watch, make_plan
from erasable.operations.plan._record import Plan
from erasable.operations.plan._sample import check_sample
from erasable.operations.plan._survival import Survival, Theoretical, bound_of_theorem_4_3
from erasable.operations.plan._targets import DISTRIBUTIONS, EFFORTS, Targets, effort_named
from erasable.validation import seed

__all__ = [
    "DISTRIBUTIONS",
    "EFFORTS",
    "Band",
    "Candidate",
    "Plan",
    "Survival",
    "Targets",
    "Theoretical",
    "bound_of_theorem_4_3",
    "draw_frontier",
    "plan",
]


def plan(
    X: Any,
    y: Any,
    *,
    subjects: Any = None,
    weights: Any = None,
    max_loss: float = 0.01,
    max_stored: float | None = None,
    max_bytes: int | None = None,
    deletions_per_month: float | None = None,
    months: float | None = None,
    distribution: str | None = None,
    delete_label: Any = None,
    horizon: int | None = None,
    fit_intercept: bool = True,
    scaling: Any = "row",
    effort: str = "default",
    random_state: int = 0,
    progress: Watch | None = None,
    theoretical: Callable[..., Any] | None = None,
) -> Plan:
    """Parameters for ``ErasableClassifier`` that meet the targets with the least storage, and what to expect of them.

    Candidates learn a part of the rows and are scored on the rest, several times over; deletions are simulated until
    the tolerated accuracy is lost. Nothing of the rows is kept in the plan.

    Parameters
    ----------
    X : array, SciPy sparse matrix or dataframe of shape (n_samples, n_features)
        The rows, or a sample of them, in the order in which they will be learnt.
    y : array of shape (n_samples,)
        Labels of two or more classes.
    subjects : array of shape (n_samples,), optional
        Whose row it is. A subject's rows are then never both learnt and scored.
    weights : array of shape (n_samples,), optional
        How likely each row is to be deleted, up to a factor.
    max_loss, max_stored, max_bytes, deletions_per_month, months
        The targets: see :class:`Targets`.
    distribution : str, optional
        Which rows are deleted: see :class:`Targets`. Default: ``weights`` or ``subject`` where those are given,
        otherwise ``uniform``.
    delete_label : label, optional
        The class whose rows ``label`` deletes. Default: the smallest.
    horizon : int, optional
        The number of rows the model will see, of which ``X`` is a sample. Default: the number of rows of ``X``.
    fit_intercept, scaling
        As in ``ErasableClassifier``.
    effort : str, default="default"
        ``quick``, ``default`` or ``thorough``.
    random_state : int, default=0
        Draws divisions of the rows and orders of deletion. The same one gives the same plan, measured times aside.
    progress : callable, optional
        Called with (what is being done, how much is done, how much there is).
    theoretical : callable, optional
        A bound to report in place of Theorem 4.3's: called with (horizon, kappa, columns, margin), it gives a number of
        core deletions or a record with ``value``, ``vacuous`` and ``source``.

    Returns
    -------
    Plan

    Raises
    ------
    InputError, InputTypeError
        When the rows cannot be planned with: too few, of one class, or with subjects or weights that do not match.
    ConfigurationError
        When a target is out of range, or no candidate meets all: the message says which binds and what would do.

    Examples
    --------
    >>> from erasable.research.sets import make_margin
    >>> from erasable.operations.plan import plan
    >>> X, y = make_margin(5000, 10, return_X_y=True)
    >>> plan(X, y, max_stored=0.2, deletions_per_month=100, months=12, effort="quick").line
    'ErasableClassifier(capacity=..., kappa=..., horizon=5000)'
    """
    if distribution is None:
        distribution = "weights" if weights is not None else "subject" if subjects is not None else "uniform"
    targets = Targets(max_loss, max_stored, max_bytes, deletions_per_month, months, distribution)
    for name, given in (("subject", subjects), ("weights", weights)):
        if distribution == name and given is None:
            needed = "subjects=" if name == "subject" else "weights="
            raise InputError(f"distribution={name!r} needs {needed}: one entry per row.")
    if weights is not None and distribution != "weights":
        raise ConfigurationError(
            f"weights are given, but distribution={distribution!r} does not use them: leave one of them out."
        )
    random_state = seed(random_state)
    chosen = effort_named(effort)
    model = ErasableClassifier(fit_intercept=fit_intercept, scaling=scaling)
    sample = check_sample(
        X,
        y,
        subjects,
        weights,
        model=model,
        horizon=horizon,
        delete_label=delete_label,
        numbers_at_most=chosen.numbers,
        rng=np.random.default_rng([random_state, 0]),
    )
    planner = Planner(sample, model, targets, chosen, random_state, progress or (lambda *_: None))

    def line(trial: Trial) -> str:
        options = [f"capacity={trial.capacity:g}", f"kappa={trial.kappa:g}", f"horizon={sample.horizon}"]
        options += [] if fit_intercept else ["fit_intercept=False"]
        if not isinstance(scaling, str):
            options.append(f"scaling={scaling!r}" if scaling is None or np.isscalar(scaling) else "scaling=scales")
        return f"ErasableClassifier({', '.join(options)})"

    return make_plan(planner, effort=effort, line=line, theoretical=theoretical)
