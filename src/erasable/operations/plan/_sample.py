"""The rows a plan is made from: checked, coded, and divided into rows to learn and rows to score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Grid
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.estimators import ErasableClassifier
from erasable.estimators.validated import check_rows
from erasable.models.keys import as_key_column, as_subject_column, label_type
from erasable.models.parameters import check_memory, grid_of_parameters
from erasable.operations.scoring import Scores, scores_of
from erasable.validation import whole_number

Index = npt.NDArray[np.intp]
LEAST_ROWS = 50
LEAST_SUBJECTS = 10
SMALL = 10_000  # below this many rows, more divisions with smaller parts to score
_MOST_SCORED = 5_000  # rows
_ATTEMPTS = 20  # to draw a division with two classes on both sides


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """Checked rows, with labels and subjects as codes 0, 1, 2, ...

    ``ids`` are the caller's where rows are ``named``, otherwise positions; ``owners`` is -1 for a row of nobody.
    """

    X: Any
    y: Index
    ids: Any
    owners: Index | None
    weights: npt.NDArray[np.float64] | None
    n_classes: int
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
        return Sample(
            self.X[index],
            self.y[index],
            np.arange(len(index)),
            None if self.owners is None else self.owners[index],
            None if self.weights is None else self.weights[index],
            self.n_classes,
            self.delete_class,
            self.horizon,
            self.grid,
        )

    @property
    def class_counts(self) -> Index:
        """Rows of each class."""
        return np.bincount(self.y, minlength=self.n_classes)

    def divide(self, rng: np.random.Generator, numbers_at_most: float) -> tuple[Sample, HeldOut]:
        """Rows to learn, in their order, and rows to score; a subject's rows stay together.

        Of more rows to learn than ``numbers_at_most`` allows, some are drawn.

        Raises
        ------
        InputError
            When rows of one subject are all that there is of a class, so that no division has two to score.
        """
        n = self.n_rows
        wanted = max(5, self.n_classes, math.ceil(n / 10 if n < SMALL else min(n / 5, _MOST_SCORED)))
        for _ in range(_ATTEMPTS):
            scored = _some(self.owners, self.y, wanted, rng)
            learnt = np.setdiff1d(np.arange(n), scored)
            if min(len(np.unique(self.y[scored])), len(np.unique(self.y[learnt]))) > 1:
                break
        else:
            raise InputError(
                "the rows cannot be divided so that rows of two classes are learnt and rows of two classes scored: too "
                "few subjects have rows of some class. Give more rows, or leave subjects= out."
            )
        most = max(SMALL // 2, int(min(numbers_at_most, n * self.grid.n_columns) / self.grid.n_columns))
        if len(learnt) > most:
            learnt = learnt[_some(None if self.owners is None else self.owners[learnt], self.y[learnt], most, rng)]
        return self.take(learnt), HeldOut(self.X[scored], self.y[scored])


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """Rows to score with."""

    X: Any
    y: Index

    def scores(self, clf: ErasableClassifier) -> Scores:
        """How good the predictions of a model that has rows are."""
        model = clf.model_
        return scores_of(self.y, clf.classes_.tolist(), model.probabilities(self.X), model.predict(self.X))

    def margin(self, clf: ErasableClassifier, share: float) -> float:
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
    model: ErasableClassifier,
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
    label_type(y)
    n, d = X.shape
    if n < LEAST_ROWS:
        raise InputError(f"a plan needs at least {LEAST_ROWS} rows, some to learn and some to score; got {n}.")
    labels, codes = np.unique(y, return_inverse=True)
    if len(labels) < 2:
        raise InputError("the rows are all of one class: a plan needs rows of two or more classes.")
    if n < 10 * len(labels):
        raise InputError(
            f"{n} rows have {len(labels)} distinct labels: a plan needs at least ten rows a class. "
            "Give more rows, or labels that are classes."
        )
    grid = grid_of_parameters(model, d)
    check_memory(grid)
    return Sample(
        X,
        codes.astype(np.intp),
        np.arange(n) if ids is None else _checked_ids(ids, n),
        None if subjects is None else _owner_codes(subjects, n),
        None if weights is None else _checked_weights(weights, n),
        len(labels),
        _class_named(delete_label, labels),
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


def _owner_codes(subjects: Any, n: int) -> Index:
    owners = as_subject_column(subjects)
    if len(owners) != n:
        raise InputError(f"subjects has {len(owners)} entries for {n} rows: pass one subject per row.")
    shared = sum(isinstance(s, tuple) for s in owners)
    if shared:
        raise InputError(
            f"{shared} of {n} rows belong to several subjects, and a plan divides rows by one of each: give the one "
            "whose requests are expected."
        )
    if isinstance(owners, np.ndarray):
        codes = np.unique(owners, return_inverse=True)[1].astype(np.intp)
    else:
        seen: dict[Any, int] = {}
        codes = np.array([-1 if s is None else seen.setdefault(s, len(seen)) for s in owners], dtype=np.intp)
    if codes.max() < LEAST_SUBJECTS - 1:
        raise InputError(
            f"subjects names {codes.max() + 1} subjects: at least {LEAST_SUBJECTS} are needed to divide rows by them."
        )
    return codes


def _checked_weights(weights: Any, n: int) -> npt.NDArray[np.float64]:
    try:
        given = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        given = None
    if given is None:
        raise InputTypeError("weights must be numbers, one per row.")
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


def _class_named(label: Any, labels: npt.NDArray[Any]) -> int:
    """Position of the class whose rows are deleted: by default the first, as in the paper."""
    if label is None:
        return 0
    named = [i for i, value in enumerate(labels.tolist()) if value == label or str(value) == str(label)]
    if not named:
        raise InputError(f"delete_label is none of the {len(labels)} classes of the rows: name one that is in y.")
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


def _some(owners: Index | None, y: Index, wanted: int, rng: np.random.Generator) -> Index:
    """About so many rows, drawn at random, ascending: every class has its share, or a subject's rows stay together."""
    n = len(y)
    if owners is None:
        by_class = rng.permutation(n)
        by_class = by_class[np.argsort(y[by_class], kind="stable")]
        return np.sort(by_class[((np.arange(wanted) + rng.random()) * n / wanted).astype(np.intp)])
    group = np.where(owners >= 0, owners, owners.max() + 1 + np.arange(n))
    _, group, sizes = np.unique(group, return_inverse=True, return_counts=True)
    drawn = rng.permutation(len(sizes))
    count = int(np.searchsorted(np.cumsum(sizes[drawn]), wanted)) + 1
    chosen = np.zeros(len(sizes), dtype=bool)
    chosen[drawn[: min(count, len(sizes) - 1)]] = True
    return np.flatnonzero(chosen[group])
