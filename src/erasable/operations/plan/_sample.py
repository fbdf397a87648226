"""The rows a plan is made from: checked, coded, and divided into rows to learn and rows to score."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import on_host
from erasable.core.grid import Grid
from erasable.errors import ConfigurationError, InputError
from erasable.estimators.validated import check_rows
from erasable.models.configuration import check_memory, grid_of_parameters
from erasable.models.inputs import as_key_column
from erasable.operations.plan._kinds import Answers, AnyScores, Estimator, Index, Kind, kind_of
from erasable.operations.plan._owners import apart, owners_of
from erasable.validation import real_numbers, whole_number

LEAST_ROWS = 50
SMALL = 10_000  # below this many rows, more divisions with smaller parts to score
_MOST_SCORED = 5_000  # rows
_ATTEMPTS = 20  # to draw a division that can tell models apart


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """Checked rows, with labels as codes 0, 1, 2, ..., or targets.

    ``ids`` are the caller's where rows are ``named``, otherwise positions; ``owners`` is a matrix of rows by subjects;
    ``groups`` are the classes of the rows, or one group of all.
    """

    kind: Kind
    X: Any
    y: npt.NDArray[Any]
    groups: Index
    n_groups: int
    ids: Any
    owners: Any
    weights: npt.NDArray[np.float64] | None
    delete_class: int
    horizon: int
    grid: Grid
    named: bool = False

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.X.shape[0])

    def take(self, index: Index) -> Sample:
        """Some of the rows, in their order, known by their positions."""
        return replace(
            self,
            X=self.X[index],
            y=self.y[index],
            groups=self.groups[index],
            ids=np.arange(len(index)),
            owners=None if self.owners is None else self.owners[index],
            weights=None if self.weights is None else self.weights[index],
            named=False,
        )

    @property
    def group_counts(self) -> Index:
        """Rows of each class; of a regression, all rows."""
        return np.bincount(self.groups, minlength=self.n_groups)

    def divide(self, rng: np.random.Generator, numbers_at_most: float) -> tuple[Sample, HeldOut]:
        """Rows to learn, in their order, and rows to score; nobody has rows on both sides.

        Of more rows to learn than ``numbers_at_most`` allows, some are drawn.

        Raises
        ------
        InputError
            When no division has answers that differ on both sides.
        """
        n = self.n_rows
        wanted = max(5, self.n_groups, math.ceil(n / 10 if n < SMALL else min(n / 5, _MOST_SCORED)))
        for _ in range(_ATTEMPTS):
            if self.owners is None:
                scored = _some(self._strata, wanted, rng)
                learnt = np.setdiff1d(np.arange(n), scored)
            else:
                scored, learnt = apart(self.owners, wanted, rng)
            if self.kind.differ(self.y[scored]) and self.kind.differ(self.y[learnt]):
                break
        else:
            raise InputError(
                f"the rows cannot be divided so that {self.kind.differing} are learnt and {self.kind.differing} scored"
                + (
                    ": give more rows."
                    if self.owners is None
                    else ": too few subjects have such rows, or they share too many. Give more rows, or leave "
                    "subjects= out."
                )
            )
        most = max(SMALL // 2, int(min(numbers_at_most, n * self.grid.n_columns) / self.grid.n_columns))
        if len(learnt) > most:
            part = self.take(learnt)
            drawn = _some(part._strata, most, rng) if self.owners is None else apart(part.owners, most, rng)[0]
            learnt = learnt[drawn]
        return self.take(learnt), HeldOut(self.X[scored], self.y[scored])

    @property
    def _strata(self) -> npt.NDArray[Any]:
        return self.y if self.y.ndim == 1 else self.y[:, 0]


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """Rows to score with."""

    X: Any
    y: npt.NDArray[Any]

    def scores(self, fitted: Estimator) -> AnyScores:
        """How good the predictions of a model that has rows are."""
        return kind_of(fitted).scores(fitted.model_, self.X, self.y)

    def margin(self, clf: Estimator, share: float) -> float:
        """How far from the boundary all but this share of the rows are, at most 1: a guess at the paper's epsilon."""
        S = clf.model_.decision(self.X)
        if S.ndim > 1:
            top = np.partition(S, S.shape[1] - 2, axis=1)[:, -2:]
            distance = (top[:, 1] - top[:, 0]) / 2.0
        else:
            distance = np.abs(S)
        return float(min(1.0, np.quantile(distance, min(1.0, share))))


def check_sample(
    X: Any,
    y: Any,
    *,
    ids: Any = None,
    subjects: Any = None,
    weights: Any = None,
    model: Estimator,
    horizon: Any = None,
    delete_label: Any = None,
) -> Sample:
    """The caller's rows as a sample.

    Raises
    ------
    InputError, InputTypeError, ConfigurationError
        When rows, labels, subjects or weights cannot be planned with; no message quotes any of them.
    """
    X, y, _ = check_rows(model, X, y, first=True)
    n, d = X.shape
    if n < LEAST_ROWS:
        raise InputError(f"a plan needs at least {LEAST_ROWS} rows, some to learn and some to score; got {n}.")
    kind = kind_of(model)
    answers = kind.answers(model, y, d)
    grid = grid_of_parameters(model, d)
    check_memory(grid)
    return Sample(
        kind,
        X,
        answers.y,
        answers.groups,
        len(answers.names),
        np.arange(n) if ids is None else _checked_ids(ids, n),
        None if subjects is None else owners_of(subjects, n),
        None if weights is None else _checked_weights(weights, n),
        _class_named(delete_label, answers),
        _checked_horizon(horizon, n),
        grid,
        ids is not None,
    )


def _checked_ids(ids: Any, n: int) -> Any:
    column = as_key_column(ids, "ids")
    if len(column) != n:
        raise InputError(f"ids has {len(column)} entries for {n} rows: pass one id per row.")
    if len(set(column.tolist() if isinstance(column, np.ndarray) else column)) < n:
        raise InputError("ids name some rows twice: give every row an id of its own.")
    return column


def _checked_weights(weights: Any, n: int) -> npt.NDArray[np.float64]:
    given = real_numbers(on_host(weights), "weights")
    if given.shape != (n,):
        raise InputError(f"weights must have one entry per row, shape ({n},); got shape {given.shape}.")
    wrong = int(np.count_nonzero(~(np.isfinite(given) & (given >= 0.0))))
    if wrong:
        raise InputError(f"weights must be finite and not negative; {wrong} of {n} are not.")
    if np.count_nonzero(given) < LEAST_ROWS:
        raise InputError(
            f"weights are positive for {np.count_nonzero(given)} of {n} rows, and only those would be deleted: give at "
            f"least {LEAST_ROWS} rows a positive weight."
        )
    return given


def _class_named(label: Any, answers: Answers) -> int:
    """Position of the class whose rows are deleted: by default the first, as in the paper."""
    if label is None:
        return 0
    named = [i for i, value in enumerate(answers.names.tolist()) if value == label or str(value) == str(label)]
    if not named:
        raise InputError(f"delete_label is none of the {len(answers.names)} classes of the rows: name one in y.")
    return named[0]


def _checked_horizon(horizon: Any, n: int) -> int:
    if horizon is None:
        return n
    if whole_number(horizon, "horizon") < n:
        raise ConfigurationError(
            f"horizon is the number of rows the model will see, of which these {n} are a sample: give at least {n}, or "
            f"leave it out; got {horizon}."
        )
    return int(horizon)


def _some(strata: npt.NDArray[Any], wanted: int, rng: np.random.Generator) -> Index:
    """So many rows, drawn at random, ascending: all classes, or low and high targets, have their share."""
    n = len(strata)
    sorted_rows = rng.permutation(n)
    sorted_rows = sorted_rows[np.argsort(strata[sorted_rows], kind="stable")]
    return np.sort(sorted_rows[((np.arange(wanted) + rng.random()) * n / wanted).astype(np.intp)])
