"""Before learning: which parameters to choose, what to expect of them, and how many deletions until a refresh."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from erasable.errors import ConfigurationError, InputError
from erasable.operations.plan._candidates import Band, Candidate, Trial
from erasable.operations.plan._figure import draw_frontier
from erasable.operations.plan._kinds import CLASSES, NUMBERS, Kind
from erasable.operations.plan._metrics import METRICS
from erasable.operations.plan._record import Plan, number_text
from erasable.operations.plan._refusals import why_not
from erasable.operations.plan._sample import check_sample
from erasable.operations.plan._search import Planner, Watch
from erasable.operations.plan._survival import Survival, Theoretical, bound_of_theorem_4_3
from erasable.operations.plan._targets import DISTRIBUTIONS, EFFORTS, Targets, effort_named
from erasable.operations.plan._warnings import cautions
from erasable.validation import choice, seed

__all__ = [
    "DISTRIBUTIONS",
    "EFFORTS",
    "METRICS",
    "Band",
    "Candidate",
    "Plan",
    "Survival",
    "Targets",
    "Theoretical",
    "bound_of_theorem_4_3",
    "draw_frontier",
    "number_text",
    "plan",
]


def plan(
    X: Any,
    y: Any,
    *,
    ids: Any = None,
    subjects: Any = None,
    weights: Any = None,
    target_range: Any = None,
    metric: str | None = None,
    max_loss: float | None = None,
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
) -> Plan:
    """Parameters that meet the targets with the least storage, and what to expect of them.

    They are those of ``ErasableClassifier`` or, with ``target_range``, of ``ErasableRegressor``. Candidates learn a
    part of the rows and are scored on the rest, several times over; deletions are simulated until what is tolerated is
    lost. What is recommended has core rows of every class and is better than a constant, or nothing is. Nothing of the
    rows is kept in the plan.

    Parameters
    ----------
    X : array, SciPy sparse matrix or dataframe of shape (n_samples, n_features)
        The rows, or a sample of them.
    y : array of shape (n_samples,) or (n_samples, n_targets)
        Labels of two or more classes; with ``target_range``, numbers.
    ids : array of shape (n_samples,), optional
        The names of the rows, which decide the order in which they are learnt. With those that the model will be given,
        what is stored is exactly what the plan says, and candidates that draw rows by their ids are tried too.
    subjects : array of shape (n_samples,) or (n_samples, n), list of lists or dataframe, optional
        Whose row it is. A subject's rows are then never both learnt and scored. A row of several goes when any of them
        asks.
    weights : array of shape (n_samples,), optional
        How likely each row is to be deleted, up to a factor.
    target_range : pair of float, or one pair for each target, optional
        Makes it a plan for a regression: between which numbers its targets lie, as in ``ErasableRegressor``.
    metric : str, optional
        What candidates are compared by: see :class:`Targets`. Default: ``accuracy``, and ``r2`` for a regression.
    max_loss : float, optional
        What may be lost of it: see :class:`Targets`. Default: 0.01; required with ``mae``, which has units.
    max_stored, max_bytes, deletions_per_month, months
        The targets: see :class:`Targets`.
    distribution : str, optional
        Which rows are deleted: see :class:`Targets`. Default: ``weights`` or ``subject`` where those are given,
        otherwise ``uniform``.
    delete_label : label, optional
        The class whose rows ``label`` deletes. Default: the first in sorted order.
    horizon : int, optional
        The number of rows the model will see, of which ``X`` is a sample. Default: the number of rows of ``X``.
    fit_intercept, scaling
        As in ``ErasableClassifier`` and ``ErasableRegressor``.
    effort : str, default="default"
        ``quick``, ``default`` or ``thorough``.
    random_state : int, default=0
        Draws divisions of the rows and orders of deletion. The same one gives the same plan, measured times aside.
    progress : callable, optional
        Called with (what is being done, how much is done, how much there is).

    Returns
    -------
    Plan

    Raises
    ------
    InputError, InputTypeError
        When the rows cannot be planned with: too few, of one class, with targets out of range, or with subjects or
        weights that do not match.
    ConfigurationError
        When a target is out of range, or no candidate meets all: the message says which binds, what comes closest, and
        what would do.

    Examples
    --------
    >>> from erasable.research.sets import make_margin
    >>> from erasable.operations.plan import plan
    >>> X, y = make_margin(1000, 10, return_X_y=True)
    >>> plan(X, y, max_stored=0.2, deletions_per_month=20, months=12, effort="quick").line
    "ErasableClassifier(loss='...', capacity=..., threshold=...)"
    """
    if distribution is None:
        distribution = "weights" if weights is not None else "subject" if subjects is not None else "uniform"
    kind = CLASSES if target_range is None else NUMBERS
    metric = _metric_of(kind, metric)
    if max_loss is None and METRICS[metric].in_units:
        raise ConfigurationError(
            f"metric={metric!r} has the units of the targets, so max_loss= has no default: say by how much the error "
            "may grow."
        )
    max_loss = 0.01 if max_loss is None else max_loss
    targets = Targets(max_loss, max_stored, max_bytes, deletions_per_month, months, distribution, metric)
    if kind is NUMBERS and (distribution == "label" or delete_label is not None):
        raise ConfigurationError(
            "distribution='label' and delete_label= are for classes, and target_range= makes a regression: leave them "
            "out."
        )
    for name, column in (("subject", subjects), ("weights", weights)):
        if distribution == name and column is None:
            needed = "subjects=" if name == "subject" else "weights="
            raise InputError(f"distribution={name!r} needs {needed}: one entry per row.")
    if weights is not None and distribution != "weights":
        raise ConfigurationError(
            f"weights are given, but distribution={distribution!r} does not use them: leave one of them out."
        )
    random_state = seed(random_state)
    chosen = effort_named(effort)
    given: dict[str, Any] = {} if target_range is None else {"target_range": target_range}
    model = kind.estimator(**given, fit_intercept=fit_intercept, scaling=scaling)
    sample = check_sample(
        X, y, ids=ids, subjects=subjects, weights=weights, model=model, horizon=horizon, delete_label=delete_label
    )
    planner = Planner(sample, model, targets, chosen, random_state, progress or (lambda *_: None))
    found = planner.search()
    if found is None:
        raise ConfigurationError(why_not(planner))
    own = {} if fit_intercept else {"fit_intercept": False}
    own |= {} if isinstance(scaling, str) else {"scaling": scaling}
    made = Plan(
        planner.record(found),
        {**given, **found.parameters, **own},
        sample.horizon,
        _bound(found, planner),
        planner.reference(len(found.scores)),
        planner.constant(len(found.scores)),
        tuple(sample.group_counts.tolist()),
        tuple(planner.record(trial) for trial in planner.by_storage()),
        (),
        targets,
        effort,
        random_state,
        sample.n_rows,
        sample.grid.n_features,
    )
    scored = min(sample.n_rows, planner.n_splits * len(planner.part(0)[1].y))
    return dataclasses.replace(made, warnings=cautions(made, scored))


def _metric_of(kind: Kind, name: str | None) -> str:
    if name is None:
        return next(iter(kind.metrics))
    if kind is CLASSES and name in tuple(NUMBERS.metrics):
        raise ConfigurationError(
            f"metric={name!r} is for numbers: declare with target_range= between which they lie, or give one of "
            f"{', '.join(kind.metrics)}."
        )
    return choice(name, "metric", tuple(kind.metrics))


def _bound(found: Trial, planner: Planner) -> Theoretical:
    sample, parameters = planner.sample, found.parameters
    if parameters.get("loss") != "squared" or parameters["threshold"] in (0.0, math.inf):
        return Theoretical(0.0, True, "Theorem 4.3 is about classes, the squared loss and rows chosen by leverage")
    margin = float(np.mean(found.margins))
    return bound_of_theorem_4_3(sample.horizon, parameters["threshold"], sample.grid.n_columns, margin)
