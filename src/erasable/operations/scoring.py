"""Scores of predictions, each next to that of a constant prediction on the same rows.

Scores are returned to the caller and kept nowhere: they reveal something of the scored rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from erasable.core.arrays import ColumnLike
from erasable.errors import InputError
from erasable.operations.rendering import TextTable
from erasable.pages import percent

_MATRIX = 10  # classes: a larger matrix is hard to read
_LEAST = float(np.finfo(np.float64).eps)  # probabilities are clipped by this, as scikit-learn does
_SURE = 2.0  # standard errors by which an area has to be above that of a constant
_CHANCE_AREA = 0.5  # the area under the ROC curve of a constant
_NEAR_CHANCE = 0.1  # an area that is closer to it than this, of the way to 1, is chance however many rows there are


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of the predictions of a classifier."""

    rows: int  # the number of rows scored
    accuracy: float  # share of rows whose label was predicted
    largest_share: float  # share of the largest class among these rows: the accuracy of always predicting it
    # Mean over the classes among these rows of the share predicted correctly: 1 / classes for a constant.
    balanced_accuracy: float
    # Area under the ROC curve, each class against the rest, averaged over the classes among these rows. None if there
    # is only one class.
    auc: float | None
    # Mean of minus the logarithm of the probability of the label; probabilities are clipped from below at 2.2e-16, as
    # in scikit-learn, so a label that was impossible costs 36.
    log_loss: float
    log_loss_of_shares: float  # the same for the best constant: the shares of the classes among these rows
    unknown_labels: int  # the number of rows whose label is none of the model's classes: no prediction could be right
    classes: tuple[Any, ...]  # the classes of the model, then the unknown labels
    # of shape (n_classes, n_classes), int64: The number of rows of each class (row) predicted as each class
    # (column).
    confusion: npt.NDArray[np.int64]

    @property
    def no_better_than_constant(self) -> bool:
        """Whether a constant prediction would do as well; False if there is only one class.

        Both must say so: the log-loss, which judges probabilities, and the area under the ROC curve, which judges how
        rows are ranked. Accuracy has no say: where one class is rare, a good model often predicts the other for every
        row.
        """
        if self.auc is None:
            return False
        near = max(_NEAR_CHANCE * (1.0 - _CHANCE_AREA), _SURE * self._area_error())
        return self.auc < _CHANCE_AREA + near and self.log_loss >= self.log_loss_of_shares

    def _area_error(self) -> float:
        """The standard error of the area where rows are ranked by chance, in the mean over the classes present."""
        counts = self.confusion.sum(axis=1)
        counts = counts[counts > 0]
        others = self.rows - counts
        return float(np.sqrt((self.rows + 1) / (12.0 * counts * others)).mean())

    @property
    def warnings(self) -> list[str]:
        """A warning about labels that could not be predicted, if there are any."""
        if not self.unknown_labels:
            return []
        return [
            f"the labels of {self.unknown_labels:,} of the {self.rows:,} rows are none of the model's classes, so "
            "whatever is predicted for them is wrong: is this the column of the labels, spelt as they were learnt?"
        ]

    def as_json(self) -> dict[str, Any]:
        """The scores for JSON; classes of bytes in hexadecimal."""
        classes = [c.hex() if isinstance(c, bytes) else c for c in self.classes]
        return {**vars(self), "classes": classes, "confusion": self.confusion.tolist()}

    @property
    def line(self) -> str:
        """The scores in one line of text."""
        area = "" if self.auc is None else f", AUC {self.auc:.4f}"
        return (
            f"accuracy {self.accuracy:.4f} (the largest class is {self.largest_share:.4f} of them), balanced accuracy "
            f"{self.balanced_accuracy:.4f}{area}, log-loss {self.log_loss:.4f} ({self.log_loss_of_shares:.4f} for a "
            "constant)"
        )

    def tables(self, title: str = "") -> list[TextTable]:
        """The scores and the confusion matrix; of more than ten classes, the pairs that are confused most."""
        present = int(np.count_nonzero(self.confusion.sum(axis=1)))
        area = ("undefined", "undefined") if self.auc is None else (f"{self.auc:.4f}", "0.5000")
        figures = [
            ("accuracy", f"{self.accuracy:.4f}", f"{self.largest_share:.4f}"),
            ("balanced accuracy", f"{self.balanced_accuracy:.4f}", f"{1 / present:.4f}"),
            ("AUC", *area),
            ("log-loss", f"{self.log_loss:.4f}", f"{self.log_loss_of_shares:.4f}"),
        ]
        first = TextTable(title or f"{self.rows:,} rows with known labels", ("", "model", "a constant"), figures)
        names = [str(c.hex() if isinstance(c, bytes) else c) for c in self.classes]
        counts = self.confusion.sum(axis=1)
        if len(names) <= _MATRIX:
            lines = [(name, *(f"{n:,}" for n in row)) for name, row in zip(names, self.confusion.tolist(), strict=True)]
            return [first, TextTable("Rows of each class, by what was predicted", ("class", *names), lines)]
        wrong = self.confusion - np.diag(self.confusion.diagonal())
        worst = np.argsort(-wrong, axis=None, kind="stable")[:_MATRIX].tolist()
        pairs = [divmod(place, len(names)) for place in worst if wrong.flat[place]]
        lines = [(names[a], names[b], f"{wrong[a, b]:,}", percent(wrong[a, b] / counts[a])) for a, b in pairs]
        return [first, TextTable("What is confused most", ("class", "predicted as", "rows", "of its class"), lines)]


@dataclass(frozen=True)
class RegressionScores:
    """Scores of predicted numbers."""

    rows: int
    # Share of the variance explained: 0 for the mean of these rows, 1 at best; averaged over several targets. None if
    # undefined: for fewer than two rows, or a target that never varies.
    r2: float | None
    # mean_absolute_error, mean_absolute_error_of_mean, mean_absolute_error_of_median: of the predictions, and of always
    # predicting the mean, or the median, of these rows.
    mean_absolute_error: float
    mean_absolute_error_of_mean: float
    mean_absolute_error_of_median: float
    warnings = ()  # numbers are never unknown

    @property
    def no_better_than_constant(self) -> bool:
        """Whether always predicting the mean of these rows would do as well."""
        return self.r2 is not None and self.r2 <= 0.0

    def as_json(self) -> dict[str, Any]:
        """The scores for JSON."""
        return dict(vars(self))

    @property
    def line(self) -> str:
        """The scores in one line of text."""
        r2 = "R² undefined" if self.r2 is None else f"R² {self.r2:.4f} (0 for a constant)"
        model, constant = _amount(self.mean_absolute_error), _amount(self.mean_absolute_error_of_mean)
        return f"{r2}, mean absolute error {model} ({constant})"

    def tables(self, title: str = "") -> list[TextTable]:
        """The scores as a table."""
        errors = self.mean_absolute_error, self.mean_absolute_error_of_mean
        r2 = ("undefined", "undefined") if self.r2 is None else (f"{self.r2:.4f}", "0.0000")
        figures = [("R²", *r2), ("mean absolute error", *map(_amount, errors))]
        return [TextTable(title or f"{self.rows:,} rows with known targets", ("", "model", "a constant"), figures)]


def _amount(error: float) -> str:
    """Format an error in units of the target."""
    return f"{error:,.0f}" if 1000 <= error < 1e15 else f"{error:.4g}"


def scores_of(y: ColumnLike, classes: Sequence[Any], probabilities: npt.ArrayLike, predicted: Any) -> Scores:
    """Score the predictions of a classifier.

    Raises InputError when there are no rows, or not as many labels as predictions.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Known labels. A label unknown to the model counts as wrong, and as impossible in the log-loss.
    classes : sequence of length n_classes
        The classes of the model, in the order of the probabilities.
    probabilities : array of shape (n_rows, n_classes)
    predicted : array-like of shape (n_rows,)

    Examples
    --------
    >>> from erasable.operations.scoring import scores_of
    >>> scores = scores_of([0, 0, 1, 1], [0, 1], [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]], [0, 0, 0, 1])
    >>> scores.accuracy, scores.largest_share, scores.auc
    (0.75, 0.5, 0.75)
    """
    labels, guesses = _listed(y), _listed(predicted)
    P = np.asarray(probabilities, dtype=np.float64)
    if not labels or len(labels) != len(guesses) or P.shape != (len(labels), len(classes)):
        raise InputError(
            f"there must be rows, and one label, one prediction and {len(classes)} probabilities for each of them; "
            f"got {len(labels)} labels, {len(guesses)} predictions and probabilities of shape {P.shape}."
        )
    names = _named(_listed(classes), labels)
    code = {c: i for i, c in enumerate(names)}
    true = np.fromiter((code[label] for label in labels), dtype=np.intp, count=len(labels))
    guessed = np.fromiter((code[label] for label in guesses), dtype=np.intp, count=len(labels))
    P = np.hstack([P, np.zeros((len(P), len(names) - len(classes)))])
    confusion = np.bincount(true * len(names) + guessed, minlength=len(names) ** 2).reshape(len(names), len(names))
    counts, right = confusion.sum(axis=1), confusion.diagonal()
    present = np.flatnonzero(counts)
    shares = counts[present] / len(true)
    given = np.clip(P[np.arange(len(true)), true], _LEAST, 1.0 - _LEAST)
    return Scores(
        rows=len(true),
        accuracy=float(right.sum() / len(true)),
        largest_share=float(shares.max()),
        balanced_accuracy=float(np.mean(right[present] / counts[present])),
        auc=float(np.mean([_area(true == c, P[:, c]) for c in present])) if len(present) > 1 else None,
        log_loss=float(-np.log(given).mean()) if len(names) > 1 else 0.0,
        log_loss_of_shares=float(-(shares * np.log(shares)).sum()) + 0.0,
        unknown_labels=int(counts[len(classes) :].sum()),
        classes=tuple(names),
        confusion=confusion.astype(np.int64),
    )


def _area(positive: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64]) -> float:
    """Return scikit-learn's ``roc_auc_score`` without its checks, since planning calls it thousands of times."""
    count = int(np.count_nonzero(positive))
    above = float(rankdata(scores)[positive].sum()) - count * (count + 1) / 2
    return above / (count * (len(scores) - count))


def regression_scores_of(y: npt.ArrayLike, predicted: npt.ArrayLike) -> RegressionScores:
    """Score predicted numbers, of shape (n_rows,) or (n_rows, n_targets).

    Raises InputError when there are no rows, or the shapes differ.

    Examples
    --------
    >>> from erasable.operations.scoring import regression_scores_of
    >>> regression_scores_of([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])
    RegressionScores(rows=3, r2=0.5, mean_absolute_error=0.333..., mean_absolute_error_of_mean=0.666...,
                     mean_absolute_error_of_median=0.666...)
    """
    true, guessed = np.asarray(y, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    true = true[:, 0] if true.ndim > guessed.ndim == 1 == true.shape[1] else true
    if true.shape != guessed.shape or not true.size:
        raise InputError(
            f"there must be rows, and as many numbers as predictions; got shapes {true.shape} and {guessed.shape}."
        )
    mean, median = true.mean(axis=0), np.median(true, axis=0)
    defined = len(true) > 1 and bool((true != true[0]).any(axis=0).all())
    unexplained = ((true - guessed) ** 2).sum(axis=0) / ((true - mean) ** 2).sum(axis=0) if defined else None
    return RegressionScores(
        rows=len(true),
        r2=None if unexplained is None else float(np.mean(1.0 - unexplained)),
        mean_absolute_error=float(np.abs(true - guessed).mean()),
        mean_absolute_error_of_mean=float(np.abs(true - mean).mean()),
        mean_absolute_error_of_median=float(np.abs(true - median).mean()),
    )


def _named(classes: list[Any], labels: list[Any]) -> list[Any]:
    """Return the classes of a model, then the unknown labels, sorted within their type."""
    unknown = set(labels).difference(classes)
    return [*classes, *sorted(unknown, key=lambda label: (type(label).__name__, label))]


def _listed(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)
