"""What is to be run: every choice of an experiment, checked before any long work starts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import RidgeClassifier, SGDClassifier

from erasable.core.arrays import Matrix
from erasable.errors import ConfigurationError
from erasable.estimators import ErasableClassifier
from erasable.research.baselines import (
    CertifiedRemovalClassifier,
    NewtonUnlearner,
    RetrainedRidge,
    SISAClassifier,
)
from erasable.research.baselines.ridge import RidgeFromSums
from erasable.tables import Split
from erasable.validation import number_between, positive_number, seed, whole_number

ORDERS = ("label", "uniform", "oldest", "newest", "weights", "core-first", "subject")
INTERCEPTS = ("all", "none", "peers")
SHARDS = ("sgd", "ridge")
NAMED = ("margin", "margin-uniform", "purchase", "purchase-like", "digits")
SWEEP = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)


@dataclass(frozen=True)
class Settings:
    """An experiment. ``None`` stands for the default of the dataset, filled in by :func:`complete`.

    ``order`` says which rows are deleted. ``label``: rows of one class in random order, as in the paper. ``uniform``:
    any rows. ``oldest``, ``newest``: in the order in which they were learnt, or the reverse; a file is then learnt in
    its own order. ``weights``: drawn in proportion to leverage, for which the paper says (section 4) that a capacity
    lasts shortest. ``core-first``: the core rows first, the worst case for us. ``subject``: all rows of a subject at
    once.
    """

    dataset: str  # a name in NAMED, or the path of a file
    deletions: int | None = None  # default: 80,000 on the paper's sets, 40% of the rows on others
    order: str = "label"
    methods: tuple[str, ...] = ("erasable", "logistic", "retrained", "sums", "sisa", "newton", "certified", "subsample")
    delete_label: str | None = None  # the only class to delete; default for label: the first, which is -1 in the paper
    kappa: float | None = None  # of ErasableClassifier
    capacity: float | None = None  # of ErasableClassifier
    alpha: float = 1.0  # ridge regulariser of the methods that train on all rows
    intercept: str | None = None  # which methods have one; default: none on the Margin sets, split through the origin
    shards: str = "sgd"  # what SISA trains on each shard: a pass of stochastic gradient descent, or ridge regression
    random_state: int = 0  # draws data, splits and orders
    repeats: int = 3
    points: int = 40  # stretches between two looks at the accuracy
    time_limit: float = 240.0  # seconds for requests one at a time; the rest is estimated from those timed
    quick: bool = False  # fewer rows; and, where left at their defaults, one repeat, few points, little time
    data: str | None = None  # where files are that cannot be made (Purchase)
    label: str | None = None  # columns of a file
    id: str | None = None
    subject: str | None = None
    ignore: tuple[str, ...] = ()
    schema: str | None = None  # path of a public schema that encodes the columns of a file, and names their roles

    @property
    def name(self) -> str:
        """A short name of the dataset."""
        return self.dataset if self.dataset in NAMED else Path(self.dataset).name.split(".")[0].removesuffix("_train")

    def as_json(self) -> dict[str, Any]:
        """The settings as plain values."""
        return {**dataclasses.asdict(self), "methods": list(self.methods), "ignore": list(self.ignore)}


def check(settings: Settings, known_methods: tuple[str, ...]) -> None:
    """Raise ConfigurationError for settings that cannot work, whatever the data."""
    for name, allowed in (("order", ORDERS), ("intercept", (None, *INTERCEPTS)), ("shards", SHARDS)):
        if getattr(settings, name) not in allowed:
            known = ", ".join(v for v in allowed if v is not None)
            raise ConfigurationError(f"--{name} must be one of {known}; got {getattr(settings, name)!r}.")
    if settings.order == "subject" and settings.delete_label is not None:
        raise ConfigurationError("--order subject deletes all rows of a subject: leave --delete-label out.")
    unknown = [m for m in settings.methods if m not in known_methods]
    if unknown or not settings.methods:
        got = ", ".join(unknown) if unknown else "none"
        raise ConfigurationError(f"--methods must be among {', '.join(known_methods)}; got {got}.")
    if len(set(settings.methods)) < len(settings.methods):
        raise ConfigurationError("--methods names a method twice.")
    for name in ("deletions", "repeats", "points"):
        if getattr(settings, name) is not None:
            whole_number(getattr(settings, name), f"--{name}")
    seed(settings.random_state, "--random-state")
    positive_number(settings.time_limit, "--time-limit")
    if settings.kappa is not None:
        number_between(settings.kappa, "--kappa", 0.0, 1.0, closed="both")
    for name in ("capacity", "alpha"):
        if getattr(settings, name) is not None:
            positive_number(getattr(settings, name), f"--{name}")
    for name in ("ignore", "schema"):
        if getattr(settings, name) and settings.dataset in NAMED:
            raise ConfigurationError(f"--{name} names columns of a file, and {settings.dataset} is none: leave it out.")
    if settings.dataset not in NAMED and not Path(settings.dataset).is_file():
        raise ConfigurationError(
            f"there is no dataset or file {settings.dataset!r}: give one of {', '.join(NAMED)}, or a .csv, .parquet, "
            ".npz or .svmlight file."
        )


def complete(settings: Settings, split: Split) -> Settings:
    """The settings with every default of the dataset filled in, checked against the data.

    Raises ConfigurationError when there are fewer rows to delete than asked for, fewer than two classes, or no subjects
    for their order.
    """
    n = split.train.n_rows
    labels, counts = np.unique(split.train.y, return_counts=True)
    if len(labels) < 2:
        raise ConfigurationError("the training rows are all of one class: there is nothing to classify.")
    if settings.order == "subject" and split.train.subjects is None:
        raise ConfigurationError("--order subject needs to know whose rows they are: name a column with --subject.")
    one_class = class_to_delete(settings, labels)
    there = n if one_class is None else int(counts[one_class])
    named = 80_000 if settings.dataset != "digits" and settings.dataset in NAMED else round(0.4 * n)
    deletions = settings.deletions
    if deletions is None:
        deletions = named // 10 if settings.quick and named == 80_000 else named
        deletions = min(deletions, int(0.9 * there))
    if deletions > there - (one_class is None):
        whose = "training rows, of which one must stay" if one_class is None else "training rows of that class"
        raise ConfigurationError(
            f"--deletions {deletions:,} is more than the {there:,} {whose}: ask for fewer"
            + ("." if one_class is None else ", or another class with --delete-label, or --order uniform without one.")
        )
    if deletions < 1:
        raise ConfigurationError("there are too few rows to delete any.")
    margin = settings.dataset.startswith("margin") and settings.dataset in NAMED
    kappa = {"purchase": 0.3, "purchase-like": 0.3, "digits": 0.4}.get(settings.dataset, 0.2)
    return dataclasses.replace(
        settings,
        deletions=deletions,
        points=min(_quickly(settings, "points", 10), deletions),
        repeats=_quickly(settings, "repeats", 1),
        time_limit=_quickly(settings, "time_limit", 1.0),
        kappa=kappa if settings.kappa is None else settings.kappa,
        capacity=1.0 if settings.capacity is None else settings.capacity,
        intercept=("none" if margin else "all") if settings.intercept is None else settings.intercept,
    )


def _quickly(settings: Settings, name: str, value: object) -> Any:
    """The value for a quick run, unless the caller chose one."""
    chosen, default = getattr(settings, name), Settings.__dataclass_fields__[name].default
    return value if settings.quick and chosen == default else chosen


def class_to_delete(settings: Settings, labels: npt.NDArray[Any]) -> int | None:
    """Position among the sorted labels of the class whose rows are deleted; None where rows of all classes are."""
    if settings.delete_label is None:
        return 0 if settings.order == "label" else None
    named = [str(v) for v in labels.tolist()]
    if settings.delete_label not in named:
        raise ConfigurationError(
            f"--delete-label {settings.delete_label!r} is none of the {len(named)} classes of the training rows."
        )
    return named.index(settings.delete_label)


@dataclass(frozen=True)
class Method:
    """A contestant.

    ``build`` gets the settings, the number of training rows and the share of rows that ours stores (so that a
    subsample can be made as large). ``lazy``: weights are solved for when first read, so a request is over only when
    they have been read. ``note`` says what a reader of its line has to know.
    """

    title: str
    build: Callable[[Settings, int, float], Any]
    lazy: bool = False
    exact: bool = True  # whether the same requests in other batches end in the same model
    note: str = ""


class RowsFromClients:
    """A model that stores no rows, with the clients who ask it to forget and bring their rows.

    The rows are the clients': they are no part of what is stored, and no clock runs while they are looked up.
    """

    def __init__(self, model: RidgeFromSums) -> None:
        self.model = model

    def fit(self, X: Matrix, y: npt.NDArray[Any], ids: object) -> Self:
        """Let the model learn, and the clients keep their rows."""
        self.model.fit(X, y)
        self._X, self._y, ids = X, y, np.asarray(ids)
        self._order = np.argsort(ids, kind="stable")
        self._ids = ids[self._order]
        return self

    def brought(self, ids: object) -> tuple[Any, Any]:
        """Rows and labels of these ids, as a request brings them."""
        at = self._order[np.searchsorted(self._ids, np.asarray(ids))]
        return self._X[at], self._y[at]

    def forget_quietly(self, rows: tuple[Any, Any]) -> None:
        """Have the model forget the rows that a request brings."""
        self.model.forget(*rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def _erasable(s: Settings, n: int, share: float) -> Any:
    assert s.kappa is not None
    assert s.capacity is not None
    intercept = s.intercept == "all"
    # Loss and order are those of the paper.
    return ErasableClassifier(
        s.capacity, kappa=s.kappa, fit_intercept=intercept, loss="squared", order="given", feature_map=None
    )


def _logistic(s: Settings, n: int, share: float) -> Any:
    return _erasable(s, n, share).set_params(loss="logistic", alpha=s.capacity)  # the same core rows


def _peers_have_one(s: Settings) -> bool:
    return s.intercept in ("all", "peers")


def _retrained(s: Settings, n: int, share: float) -> Any:
    return RetrainedRidge(s.alpha, fit_intercept=_peers_have_one(s))


def _sisa(s: Settings, n: int, share: float) -> Any:
    kind = RidgeClassifier if s.shards == "ridge" else SGDClassifier
    return SISAClassifier(kind(fit_intercept=_peers_have_one(s)), random_state=s.random_state)


def _newton(s: Settings, n: int, share: float) -> Any:
    # Its regulariser counts per row.
    return NewtonUnlearner("squared", s.alpha / n, fit_intercept=_peers_have_one(s), random_state=s.random_state)


def _certified(s: Settings, n: int, share: float) -> Any:
    return CertifiedRemovalClassifier(fit_intercept=_peers_have_one(s), random_state=s.random_state)


def _subsample(s: Settings, n: int, share: float) -> Any:
    """As many rows as ours stores, drawn by a hash of their ids, with the sums and kernels of ours."""
    rate = max(share, min(1.0, 20.0 / n))
    return ErasableClassifier(
        s.alpha,
        threshold=math.inf,
        sample_rate=rate,
        loss="squared",
        fit_intercept=_peers_have_one(s),
        order="given",
        random_state=s.random_state,
        feature_map=None,
    )


def _sums(s: Settings, n: int, share: float) -> Any:
    return RowsFromClients(RidgeFromSums(s.alpha, fit_intercept=_peers_have_one(s)))


METHODS = {
    "erasable": Method("Algorithm 1 (ours)", _erasable, lazy=True),
    "logistic": Method("Ours, logistic loss", _logistic, lazy=True),
    "retrained": Method("Exact retraining", _retrained, lazy=True),
    "sums": Method(
        "Exact sums alone",
        _sums,
        lazy=True,
        note="stores no row, so each request has to bring its row; it cannot verify itself from its state, refuse a "
        "forged request or fit a logistic loss",
    ),
    "sisa": Method("SISA", _sisa, note="trains each slice once, without the replay of earlier slices"),
    "newton": Method(
        "Sekhari et al.",
        _newton,
        note="stores all rows since requests name ids; were each request to bring its row, the d x d sums would do, as "
        "for exact sums alone",
    ),
    "certified": Method("Certified removal", _certified, exact=False),
    "subsample": Method("Subsample", _subsample, lazy=True, note="random rows in our own engine"),
}
