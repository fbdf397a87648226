"""The rows a plan is made from: checked, coded, and divided into rows to learn and rows to score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Grid, scale_rows
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.estimators import ErasableClassifier
from erasable.estimators.validated import check_rows
from erasable.models.keys import as_key_column, label_type
from erasable.models.parameters import check_memory, grid_of_parameters
from erasable.validation import whole_number

Index = npt.NDArray[np.intp]
LEAST_ROWS = 50
LEAST_SUBJECTS = 10
SMALL = 10_000  # below this many rows, more divisions with smaller parts to score
_MOST_SCORED = 50_000  # rows
_MOST_NUMBERS = 2**25  # float32 numbers of rows to score held at once
_BLOCK = 2**20


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """Checked rows, with labels and subjects as codes 0, 1, 2, ...

    ``owners`` is -1 for a row of nobody; ``given`` the number of rows before the sample was thinned.
    """

    X: Any
    y: Index
    owners: Index | None
    weights: npt.NDArray[np.float64] | None
    n_classes: int
    delete_class: int
    horizon: int
    given: int
    grid: Grid

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.X.shape[0])

    @property
    def class_shares(self) -> npt.NDArray[np.float64]:
        """Share of each class among the rows."""
        return np.bincount(self.y, minlength=self.n_classes) / self.n_rows

    def take(self, index: Index) -> Sample:
        """Some of the rows, in their order."""
        return Sample(
            self.X[index],
            self.y[index],
            None if self.owners is None else self.owners[index],
            None if self.weights is None else self.weights[index],
            self.n_classes,
            self.delete_class,
            self.horizon,
            self.given,
            self.grid,
        )

    def divide(self, rng: np.random.Generator) -> tuple[Sample, HeldOut]:
        """Rows to learn, in their order, and rows to score; a subject's rows stay together."""
        n = self.n_rows
        wanted = n / 10 if n < SMALL else min(n / 5, _MOST_SCORED, _MOST_NUMBERS / self.grid.n_columns)
        scored = _some(self.owners, n, max(5, math.ceil(wanted)), rng)
        learnt = np.setdiff1d(np.arange(n), scored)
        return self.take(learnt), HeldOut.of(self.X[scored], self.y[scored], self.grid, self.n_classes)


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """Rows to score with, as a model sees them when it predicts, in float32."""

    Z: npt.NDArray[np.float32]
    y: Index
    n_classes: int

    @classmethod
    def of(cls, X: Any, y: Index, grid: Grid, n_classes: int) -> HeldOut:
        """These rows, scaled once for all candidates."""
        Z = np.empty(X.shape, np.float32)
        for low, part in blocks(X, grid):
            Z[low : low + len(part)] = part
        return cls(Z, y, n_classes)

    def scores(self, clf: ErasableClassifier) -> tuple[float, float]:
        """Accuracy and balanced accuracy; zero for a model that has no rows left."""
        if not clf.n_core_:
            return 0.0, 0.0
        return self.judge(clf.classes_[self._winners(clf)])

    def judge(self, predicted: npt.NDArray[Any]) -> tuple[float, float]:
        """Accuracy and the mean over classes of the share predicted right."""
        right = predicted == self.y
        there = np.bincount(self.y, minlength=self.n_classes)
        found = np.bincount(self.y[right], minlength=self.n_classes)
        return float(right.mean()), float(np.mean(found[there > 0] / there[there > 0]))

    def margin(self, clf: ErasableClassifier, share: float) -> float:
        """How far from the boundary all but this share of the rows are, at most 1: a guess at the paper's epsilon."""
        S = self._decisions(clf)
        if S.shape[1] > 1:
            top = np.partition(S, S.shape[1] - 2, axis=1)[:, -2:]
            distance = (top[:, 1] - top[:, 0]) / 2.0
        else:
            distance = np.abs(S[:, 0])
        return float(min(1.0, np.quantile(distance, share)))

    def _decisions(self, clf: ErasableClassifier) -> npt.NDArray[np.float32]:
        S: npt.NDArray[np.float32] = self.Z @ clf.coef_.T.astype(np.float32) + clf.intercept_.astype(np.float32)
        return S

    def _winners(self, clf: ErasableClassifier) -> Index:
        S = self._decisions(clf)
        if S.shape[1] > 1:
            best: Index = np.argmax(S, axis=1)
            return best
        winners: Index = (S[:, 0] > 0).astype(np.intp) * (len(clf.classes_) > 1)
        return winners


def blocks(X: Any, grid: Grid) -> Any:
    """Pairs of a first row number and the scaled rows from there on."""
    step = max(1, _BLOCK // grid.n_columns)
    for low in range(0, X.shape[0], step):
        part = X[low : low + step]
        yield low, scale_rows(part if isinstance(part, np.ndarray) else part.toarray(), grid)


def check_sample(
    X: Any,
    y: Any,
    subjects: Any,
    weights: Any,
    *,
    model: ErasableClassifier,
    horizon: Any,
    delete_label: Any,
    numbers_at_most: float,
    rng: np.random.Generator,
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
    sample = Sample(
        X,
        codes.astype(np.intp),
        None if subjects is None else _owner_codes(subjects, n),
        None if weights is None else _checked_weights(weights, n),
        len(labels),
        _class_named(delete_label, labels),
        _checked_horizon(horizon, n),
        n,
        grid,
    )
    if n * d > numbers_at_most:
        sample = sample.take(_some(sample.owners, n, max(SMALL, int(numbers_at_most / d)), rng))
    return sample


def _owner_codes(subjects: Any, n: int) -> Index:
    owners = as_key_column(subjects, "subjects", optional=True)
    if len(owners) != n:
        raise InputError(f"subjects has {len(owners)} entries for {n} rows: pass one subject per row.")
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


def _some(owners: Index | None, n: int, wanted: int, rng: np.random.Generator) -> Index:
    """About so many rows, drawn at random, ascending; a subject's rows are drawn together."""
    if owners is None:
        return np.sort(rng.permutation(n)[:wanted])
    group = np.where(owners >= 0, owners, owners.max() + 1 + np.arange(n))
    _, group, sizes = np.unique(group, return_inverse=True, return_counts=True)
    drawn = rng.permutation(len(sizes))
    count = int(np.searchsorted(np.cumsum(sizes[drawn]), wanted)) + 1
    chosen = np.zeros(len(sizes), dtype=bool)
    chosen[drawn[: min(count, len(sizes) - 1)]] = True
    return np.flatnonzero(chosen[group])
