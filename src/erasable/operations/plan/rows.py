"""The rows that a plan is made from: checked, coded, and divided into rows to learn and rows to score."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from erasable.core.arrays import Matrix, on_host
from erasable.core.grid import Grid, scale_rows
from erasable.errors import ConfigurationError, InputError
from erasable.estimators import ErasableClassifier, ErasableRegressor
from erasable.estimators.validated import check_rows
from erasable.features import FeatureMap
from erasable.models.configuration import check_memory, configure, grid_of_parameters, map_of
from erasable.models.inputs import as_key_column, as_subject_column, label_type
from erasable.models.model import Model
from erasable.operations.plan.targets import CLASS_METRICS, NUMBER_METRICS, AnyScores, Metric
from erasable.operations.scoring import Scores, regression_scores_of, scores_of
from erasable.validation import real_numbers, whole_number

Parameters = dict[str, Any]
Estimator = ErasableClassifier | ErasableRegressor
Index = npt.NDArray[np.intp]
SMALL = 10_000  # below this many rows, more divisions with smaller parts to score
_LEAST_ROWS = 50
_LEAST_SUBJECTS = 10
_MOST_SCORED = 5_000  # rows
_ATTEMPTS = 20  # to draw a division that can tell models apart


class Labels(NamedTuple):
    """Labels as they are learnt: classes as codes 0, 1, 2, ..., or numbers."""

    y: npt.NDArray[Any]
    groups: Index  # classes as codes; one group for numbers
    names: npt.NDArray[Any]  # of the groups


@dataclass(frozen=True, repr=False)
class Kind:
    """What the planner does differently for classes and for numbers."""

    estimator: type[Estimator]
    metrics: dict[str, Metric]  # by name, the default first
    heads: Callable[[float], list[Parameters]]  # tried on the same core rows, by their regulariser
    coded: Callable[[Estimator, npt.NDArray[Any], int], Labels]  # checks labels or targets
    differ: Callable[[npt.NDArray[Any]], bool]  # whether labels can tell a model from a constant
    differing: str  # such labels, in words
    scores: Callable[[Any, Any, npt.NDArray[Any]], AnyScores]
    otherwise: str  # what to do where no candidate is any good


def _class_codes(estimator: Estimator, y: npt.NDArray[Any], n_features: int) -> Labels:
    label_type(y)
    labels, codes = np.unique(y, return_inverse=True)
    if len(labels) < 2:
        raise InputError("the rows are all of one class: a plan needs rows of two or more classes.")
    if len(y) < 10 * len(labels):
        raise InputError(
            f"{len(y)} rows have {len(labels)} distinct labels: a plan needs at least ten rows a class. "
            "Give more rows, or labels that are classes; for numbers to be predicted, declare target_range=."
        )
    codes = codes.astype(np.intp)
    return Labels(codes, codes, labels)


def _numbers(estimator: Estimator, y: npt.NDArray[Any], n_features: int) -> Labels:
    n_targets = y.shape[1] if y.ndim > 1 else 1
    c = configure(estimator, n_features, len(y), None, streaming=False, n_targets=n_targets)
    Model(c).encode_labels(y)
    if not _numbers_differ(y):
        raise InputError("a target is the same for all rows: a plan needs targets that differ.")
    return Labels(y[:, 0] if y.ndim > 1 == y.shape[1] else y, np.zeros(len(y), dtype=np.intp), np.empty(1))


def _numbers_differ(y: npt.NDArray[Any]) -> bool:
    return len(y) > 1 and bool((y != y[0]).any(axis=0).all())


def _class_scores(model: Any, X: Matrix, y: npt.NDArray[Any]) -> Scores:
    return scores_of(y, list(model.classes), model.predict_proba(X), model.predict(X))


CLASSES = Kind(
    ErasableClassifier,
    CLASS_METRICS,
    lambda weight: [{"loss": "logistic", "alpha": weight}, {"loss": "squared", "capacity": weight}],
    _class_codes,
    lambda y: len(np.unique(y)) > 1,
    "rows of two classes",
    _class_scores,
    "give columns of different size public scales (scaling in Python), use a feature_map, or ErasableKernelClassifier",
)
NUMBERS = Kind(
    ErasableRegressor,
    NUMBER_METRICS,
    lambda weight: [{"capacity": weight}],
    _numbers,
    _numbers_differ,
    "targets that differ",
    lambda model, X, y: regression_scores_of(y, model.predict(X)),
    "divide rows by a number instead of their norms, or columns of different size by public scales (scaling), declare "
    "a target_range closer to what is common, or use a feature_map",
)


def kind_of(estimator: Estimator) -> Kind:
    """The kind of an estimator."""
    return CLASSES if isinstance(estimator, CLASSES.estimator) else NUMBERS


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """Checked rows and their labels."""

    kind: Kind
    X: Any
    y: npt.NDArray[Any]
    groups: Index  # the class of each row, or one group of all
    n_groups: int
    ids: Any  # the caller's, otherwise positions
    owners: sp.csr_array | None  # rows by subjects
    weights: npt.NDArray[np.float64] | None
    delete_class: int
    horizon: int
    grid: Grid
    classes: npt.NDArray[Any]  # labels of the groups
    log: FeatureMap | None = None  # the map that rows go through when they are learnt

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    @property
    def group_counts(self) -> Index:
        """Rows of each class; for numbers, all rows."""
        return np.bincount(self.groups, minlength=self.n_groups)

    def take(self, index: Index) -> Sample:
        """Some of the rows, in their order, named by their positions."""
        return replace(
            self,
            X=self.X[index],
            y=self.y[index],
            groups=self.groups[index],
            ids=np.arange(len(index)),
            owners=None if self.owners is None else self.owners[index],
            weights=None if self.weights is None else self.weights[index],
        )

    def rarity(self) -> npt.NDArray[np.float64]:
        """How unusual each row is: its squares divided by the mean square of their column, added up."""
        rows = scale_rows(self.X if self.log is None else self.log(self.X), self.grid)
        squares = rows.multiply(rows) if sp.issparse(rows) else np.square(rows)
        means = np.asarray(squares.mean(axis=0)).ravel()
        found: npt.NDArray[np.float64] = squares @ np.divide(1.0, means, out=np.zeros_like(means), where=means > 0)
        return found

    def divide(self, rng: np.random.Generator, numbers_at_most: float) -> tuple[Sample, HeldOut]:
        """Rows to learn, in their order, and rows to score; no subject has rows on both sides.

        Of more rows to learn than ``numbers_at_most`` allows, some are drawn. Raises InputError when no division has
        labels that differ on both sides.
        """
        n = self.n_rows
        wanted = max(5, self.n_groups, math.ceil(n / 10 if n < SMALL else min(n / 5, _MOST_SCORED)))
        for _ in range(_ATTEMPTS):
            scored, learnt = self._parted(wanted, rng)
            if self.kind.differ(self.y[scored]) and self.kind.differ(self.y[learnt]):
                break
        else:
            why = "too few subjects have such rows, or they share too many. Give more rows, or leave subjects= out."
            raise InputError(
                f"the rows cannot be divided so that {self.kind.differing} are learnt and {self.kind.differing} scored"
                f": {'give more rows.' if self.owners is None else why}"
            )
        most = max(SMALL // 2, int(min(numbers_at_most, n * self.grid.n_columns) / self.grid.n_columns))
        if len(learnt) > most:
            learnt = learnt[self.take(learnt)._parted(most, rng)[0]]
        return self.take(learnt), HeldOut(self.X[scored], self.y[scored])

    def _parted(self, wanted: int, rng: np.random.Generator) -> tuple[Index, Index]:
        """About so many rows, and the others; both ascending."""
        if self.owners is not None:
            return divide_by_owner(self.owners, wanted, rng)
        drawn = _stratified(self.y if self.y.ndim == 1 else self.y[:, 0], wanted, rng)
        return drawn, np.setdiff1d(np.arange(self.n_rows), drawn)


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """Rows to score with."""

    X: Any
    y: npt.NDArray[Any]

    def scores(self, fitted: Estimator) -> AnyScores:
        """How good the predictions of a model that stores rows are."""
        return kind_of(fitted).scores(fitted.model_, self.X, self.y)


def check_sample(
    X: Matrix,
    y: npt.ArrayLike,
    *,
    model: Estimator,
    ids: object = None,
    subjects: object = None,
    weights: object = None,
    horizon: object = None,
    delete_label: Any = None,
) -> Sample:
    """The caller's rows as a sample.

    Raises InputError, InputTypeError or ConfigurationError when rows, labels, subjects or weights cannot be planned
    with; no message quotes any of them.
    """
    with warnings.catch_warnings():
        # The error about too many labels, below, says what to do about them.
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
        X, y, _ = check_rows(model, X, y, first=True)
    n, d = X.shape
    if n < _LEAST_ROWS:
        raise InputError(f"a plan needs at least {_LEAST_ROWS} rows, some to learn and some to score; got {n}.")
    kind = kind_of(model)
    labels = kind.coded(model, y, d)
    log = map_of(model, d)  # rows of a table are encoded already
    grid = grid_of_parameters(model, d if log is None else log.n_features_out, log)
    check_memory(grid)
    return Sample(
        kind,
        X,
        labels.y,
        labels.groups,
        len(labels.names),
        np.arange(n) if ids is None else _checked_ids(ids, n),
        None if subjects is None else owners_of(subjects, n),
        None if weights is None else _checked_weights(weights, n),
        _class_named(delete_label, labels.names),
        _checked_horizon(horizon, n),
        grid,
        labels.names,
        log,
    )


def _checked_ids(ids: object, n: int) -> Any:
    column = as_key_column(ids, "ids")
    if len(column) != n:
        raise InputError(f"ids has {len(column)} entries for {n} rows: pass one id per row.")
    if len(set(column.tolist() if isinstance(column, np.ndarray) else column)) < n:
        raise InputError("ids name some rows twice: give every row an id of its own.")
    return column


def _checked_weights(weights: object, n: int) -> npt.NDArray[np.float64]:
    given = real_numbers(on_host(weights), "weights")
    if given.shape != (n,):
        raise InputError(f"weights must have one entry per row, shape ({n},); got shape {given.shape}.")
    wrong = int(np.count_nonzero(~(np.isfinite(given) & (given >= 0.0))))
    if wrong:
        raise InputError(f"weights must be finite and not negative; {wrong} of {n} are not.")
    if np.count_nonzero(given) < _LEAST_ROWS:
        raise InputError(
            f"weights are positive for {np.count_nonzero(given)} of {n} rows, and only those would be deleted: give at "
            f"least {_LEAST_ROWS} rows a positive weight."
        )
    return given


def _class_named(label: object, names: npt.NDArray[Any]) -> int:
    """Position of the class whose rows are deleted: by default the first, as in the paper."""
    if label is None:
        return 0
    named = [i for i, value in enumerate(names.tolist()) if value == label or str(value) == str(label)]
    if not named:
        raise InputError(f"delete_label is none of the {len(names)} classes of the rows: name one in y.")
    return named[0]


def _checked_horizon(horizon: object, n: int) -> int:
    if horizon is None:
        return n
    if (wanted := whole_number(horizon, "horizon")) < n:
        raise ConfigurationError(
            f"horizon is the number of rows the model will see, of which these {n} are a sample: give at least {n}, or "
            f"leave it out; got {wanted}."
        )
    return wanted


def _stratified(strata: npt.NDArray[Any], wanted: int, rng: np.random.Generator) -> Index:
    """So many rows, drawn at random, ascending: all classes, or low and high targets, have their share."""
    n = len(strata)
    order = rng.permutation(n)
    order = order[np.argsort(strata[order], kind="stable")]
    return np.sort(order[((np.arange(wanted) + rng.random()) * n / wanted).astype(np.intp)])


def owners_of(subjects: object, n: int) -> sp.csr_array:
    """The caller's subjects as a matrix of rows by subjects, with an entry where a row is a subject's.

    Raises InputError or InputTypeError when there is not one entry for each of the ``n`` rows, or there are too few
    subjects to divide rows by.
    """
    column = as_subject_column(subjects)
    if len(column) != n:
        raise InputError(f"subjects has {len(column)} entries for {n} rows: pass one entry per row.")
    of_each = [s if isinstance(s, tuple) else () if s is None else (s,) for s in column]
    positions: dict[Any, int] = {}
    codes = [positions.setdefault(key, len(positions)) for keys in of_each for key in keys]
    if len(positions) < _LEAST_SUBJECTS:
        raise InputError(
            f"subjects names {len(positions)} subjects: at least {_LEAST_SUBJECTS} are needed to divide rows by them."
        )
    start = np.append(0, np.cumsum([len(keys) for keys in of_each]))
    return sp.csr_array((np.ones(len(codes)), codes, start), shape=(n, len(positions)))


def divide_by_owner(owners: sp.csr_array, wanted: int, rng: np.random.Generator) -> tuple[Index, Index]:
    """About so many rows, and the rows that none of their subjects has a share in; both ascending.

    Subjects are drawn until the rows that are wholly theirs are enough. Rows of subjects some of whom are drawn are on
    neither side; subjects who share rows are drawn one after another, so that there are few such rows. Each row of
    nobody counts as a subject's of its own.
    """
    nobody = np.flatnonzero(np.diff(owners.indptr) == 0)
    n = owners.shape[0]
    alone = sp.csr_array((np.ones(len(nobody)), (nobody, np.arange(len(nobody)))), shape=(n, len(nobody)))
    M = sp.csr_array(sp.hstack([owners, alone]))
    there, codes = np.unique(M.indices, return_inverse=True)
    M = sp.csr_array((M.data, codes, M.indptr), shape=(n, len(there)))
    count, group = connected_components(sp.block_array([[None, M], [M.T, None]]), directed=False)
    order = np.lexsort((rng.permutation(len(there)), rng.permutation(count)[group[n:]]))
    turn = np.empty(len(there), dtype=np.intp)
    turn[order] = np.arange(len(there))
    first, last = (least.reduceat(turn[codes], M.indptr[:-1]) for least in (np.minimum, np.maximum))
    drawn = min(int(np.sort(last)[min(wanted, n) - 1]), len(there) - 2)
    return np.flatnonzero(last <= drawn), np.flatnonzero(first > drawn)
