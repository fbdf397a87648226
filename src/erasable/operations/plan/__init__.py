"""Before learning: which parameters to choose, what to expect of them, and how many deletions until a refresh.

The steps, a file each: ``rows`` are checked and divided; ``search`` tries ``candidates`` and simulates ``deletions``
until one meets the ``targets``; ``report`` has the plan, its tables, warnings and picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy.typing as npt

from erasable.core.arrays import Matrix
from erasable.errors import ConfigurationError, InputError
from erasable.operations.plan.candidates import (
    BALANCE,
    Band,
    Candidate,
    SelectionScore,
    Trial,
    checked_learner,
    checked_public,
    maker,
    used_of,
    weighs_classes,
)
from erasable.operations.plan.deletions import Survival
from erasable.operations.plan.report import Plan, draw_frontier, number_text
from erasable.operations.plan.rows import CLASSES, NUMBERS, Kind, check_sample
from erasable.operations.plan.search import Planner, Watch, why_not
from erasable.operations.plan.targets import DISTRIBUTIONS, EFFORTS, METRICS, Targets
from erasable.validation import choice, seed, switch

__all__ = [
    "DISTRIBUTIONS",
    "EFFORTS",
    "METRICS",
    "Band",
    "Candidate",
    "Plan",
    "PlanOptions",
    "SelectionScore",
    "Survival",
    "Targets",
    "draw_frontier",
    "number_text",
    "plan",
]


class PlanOptions(TypedDict, total=False):
    """Further options of :func:`plan`: the targets, and parameters of the model that are fixed.

    The options down to ``distribution`` are those of :class:`Targets`. The default metric is ``auc``, and ``r2``
    for a regression; ``mae``, which has units, requires ``max_loss``. The default distribution is ``weights`` or
    ``subject`` where those are given, otherwise ``uniform``. ``delete_label`` is the class whose rows ``label``
    deletes, by default the first in sorted order. ``target_range``, ``fit_intercept`` and ``scaling`` are those of the
    estimators; so are the public ``moments`` and ``class_shares``, which independent selection uses if they are given.
    ``learners`` are names of learners to try next to the linear heads, such as ``["lightgbm"]``: see docs/learners.md.
    ``encoded`` says that a schema has encoded the rows, which then take no other map.
    """

    metric: str | None
    max_loss: float | None
    max_stored: float | None
    max_bytes: int | None
    deletions_per_month: float | None
    months: float | None
    distribution: str | None
    delete_label: Any
    target_range: Any
    fit_intercept: bool
    scaling: Any
    moments: Any
    class_shares: Any
    learners: Sequence[str] | None
    encoded: bool


def plan(
    X: Matrix,
    y: npt.ArrayLike,
    *,
    ids: object = None,
    subjects: object = None,
    weights: object = None,
    horizon: int | None = None,
    effort: str = "default",
    random_state: int = 0,
    progress: Watch | None = None,
    **options: Unpack[PlanOptions],
) -> Plan:
    """Parameters that meet the targets with the least storage, and what to expect of them; no row is kept.

    Candidates learn a part of the rows and are scored on the rest; deletions are simulated. Both selections and both
    losses are tried.

    Parameters
    ----------
    X : array, SciPy sparse matrix or dataframe of shape (n_samples, n_features)
        The rows, or a sample of them.
    y : array of shape (n_samples,) or (n_samples, n_targets)
        Labels of two or more classes; with ``target_range``, numbers.
    ids, subjects, weights : arrays with one entry per row, optional
        The ids that the model will get, so that the plan knows exactly what is stored; the subjects, so that no
        subject's rows are both learnt and scored; and how likely each row is to be deleted, up to a factor.
    horizon : int, optional
        The number of rows the model will see, of which ``X`` is a sample. Default: the number of rows of ``X``.
    effort : {"quick", "default", "thorough"}
    random_state : int, default=0
        The same one gives the same plan, measured times aside.
    progress : callable, optional
        Called with (the step, how much of it is done, how much there is).
    **options
        The targets and the parameters of the model: see :class:`PlanOptions`. ``target_range`` plans a regression.

    Raises
    ------
    InputError, InputTypeError, ConfigurationError
        When rows or targets cannot be planned with, or no candidate meets all targets.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from erasable.operations.plan import plan
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> plan(X, y, max_stored=0.5, max_loss=0.05, effort="quick").line
    "ErasableClassifier(selection='...', ...)"
    """
    if unknown := options.keys() - PlanOptions.__annotations__:
        raise TypeError(f"plan() got an unexpected keyword argument {min(unknown)!r}")
    encoded = switch(options.pop("encoded", False), "encoded")
    targets, fixed, public = _targets_of(options, subjects, weights)
    fixed |= {"feature_map": None} if encoded else {}
    random_state, chosen = seed(random_state), EFFORTS[choice(effort, "effort", tuple(EFFORTS))]
    kind = NUMBERS if "target_range" in fixed else CLASSES
    facts = {"ids": ids, "subjects": subjects, "weights": weights, "delete_label": options.get("delete_label")}
    sample = check_sample(X, y, model=kind.estimator(**fixed), **facts, horizon=horizon)
    public = checked_public(public, sample)
    tried: dict[str, Any] = {"learners": [checked_learner(name, kind) for name in options.get("learners") or ()]}
    if "class_shares" in public and not weighs_classes(targets.metric):
        tried["balances"] = (0.0, BALANCE)
    planner = Planner(
        sample, maker(kind, fixed, public), targets, chosen, random_state, progress or (lambda *_: None), **tried
    )
    if (found := planner.search()) is None:
        raise ConfigurationError(why_not(planner))
    compared = planner.compare(found)
    found = planner.promising_more(found, compared)
    return _plan_of(planner, found, compared, fixed, public, effort)


def _plan_of(
    planner: Planner,
    found: Trial,
    compared: tuple[SelectionScore, ...],
    fixed: dict[str, Any],
    public: dict[str, Any],
    effort: str,
) -> Plan:
    """The record of what was found; ``fixed`` and ``public`` are the parameters that the caller gave."""
    sample, ranges = planner.sample, {k: v for k, v in fixed.items() if k == "target_range"}
    own: dict[str, Any] = {} if fixed.get("fit_intercept", True) else {"fit_intercept": False}
    own |= {} if isinstance(fixed.get("scaling", "row"), str) else {"scaling": fixed["scaling"]}
    if "class_shares" in public and "rate" in found.parameters and "balance" not in found.parameters:
        own["balance"] = 0.0  # the default behind a schema that states shares is another one
    return Plan(
        planner.record(found),
        {**ranges, **found.parameters, **own},
        sample.horizon,
        planner.reference(len(found.scores)),
        planner.constant(len(found.scores)),
        tuple(sample.group_counts.tolist()),
        tuple(planner.record(trial) for trial in planner.by_storage()),
        compared,
        tuple(used_of(public, found.parameters)),
        planner.targets,
        effort,
        planner.random_state,
        sample.n_rows,
        int(sample.X.shape[1]),
        min(sample.n_rows, planner.n_splits * len(planner.part(0)[1].y)),
    )


def _targets_of(
    options: PlanOptions, subjects: object, weights: object
) -> tuple[Targets, dict[str, Any], dict[str, Any]]:
    """The targets with their defaults, the parameters of the model that are fixed, and the public ones; checked."""
    given: dict[str, Any] = {name: v for name, v in options.items() if v is not None and name != "learners"}
    fixed: dict[str, Any] = {
        name: given.pop(name) for name in ("target_range", "fit_intercept", "scaling") if name in given
    }
    public: dict[str, Any] = {name: given.pop(name) for name in ("moments", "class_shares") if name in given}
    is_regression = "target_range" in fixed
    by_label = given.pop("delete_label", None) is not None
    given["metric"] = _metric_of(NUMBERS if is_regression else CLASSES, given)
    given.setdefault(
        "distribution", "weights" if weights is not None else "subject" if subjects is not None else "uniform"
    )
    targets = Targets(**given)
    if is_regression and (by_label or targets.distribution == "label" or "class_shares" in public):
        raise ConfigurationError(
            "distribution='label', delete_label= and class_shares= are for classes, and target_range= makes a "
            "regression: leave them out."
        )
    for name, argument, column in (("subject", "subjects=", subjects), ("weights", "weights=", weights)):
        if targets.distribution == name and column is None:
            raise InputError(f"distribution={name!r} needs {argument}: one entry per row.")
    if weights is not None and targets.distribution != "weights":
        raise ConfigurationError(
            f"weights are given, but distribution={targets.distribution!r} does not use them: leave one of them out."
        )
    return targets, fixed, public


def _metric_of(kind: Kind, given: dict[str, Any]) -> str:
    """The name of the metric, by default the first of the kind."""
    name = given.get("metric", next(iter(kind.metrics)))
    if kind is CLASSES and name in tuple(NUMBERS.metrics):
        raise ConfigurationError(
            f"metric={name!r} is for numbers: declare with target_range= between which they lie, or give one of "
            f"{', '.join(kind.metrics)}."
        )
    name = choice(name, "metric", tuple(kind.metrics))
    if "max_loss" not in given and METRICS[name].in_units:
        raise ConfigurationError(
            f"metric={name!r} has the units of the targets, so max_loss= has no default: say by how much the error "
            "may grow."
        )
    return name
