"""The rows of an experiment and the deletion requests, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from sklearn.preprocessing import normalize

from erasable.core.arrays import Matrix
from erasable.core.names import owners_of
from erasable.errors import ConfigurationError
from erasable.research.reproduce.settings import Settings, class_to_delete
from erasable.research.sets import load_bundled, load_purchase, make_margin, make_purchase_like
from erasable.schemas import EncodedTable, Schema
from erasable.tables import Split, Table, load_split

Request = list[Any]
_QUICK_ROWS, _QUICK_NUMBERS = 10_000, 2_000_000  # of a file that is looked at quickly
_AT_ONCE = 1 << 21  # numbers


def load(settings: Settings, repeat: int = 0) -> Split:
    """Training and test rows, every row divided by its own norm; the training rows in an order drawn anew.

    Where rows leave by their age, those of a file are learnt in its own order.

    Parameters
    ----------
    repeat : int
        Which draw of the data, or of the split and order where the data is fixed.
    """
    drawn = settings.random_state + 1000 * repeat
    scale = 10 if settings.quick else 1
    aged = settings.order in ("oldest", "newest")
    match settings.dataset:
        case "margin" | "margin-uniform":
            n, held_out = 200_000 // scale, 20_000 // scale
            heights = "sphere" if settings.dataset == "margin" else "uniform"
            table = make_margin(n + held_out, heights=heights, random_state=drawn)
            split = table.split(held_out / (n + held_out), random_state=drawn)
        case "purchase-like":
            split = make_purchase_like(311_519 // scale, random_state=drawn).split(0.2, random_state=drawn)
        case "purchase":
            if settings.data is None:
                raise ConfigurationError(
                    "purchase needs --data FOLDER with data1.npz and data2.npz of the SISA repository "
                    "(cleverhans-lab/machine-unlearning), which cannot be made here; purchase-like needs no files."
                )
            split = load_purchase(settings.data)
        case "digits":
            split = load_bundled().split(0.3, random_state=drawn)
        case path:
            schema = None if settings.schema is None else Schema.load(settings.schema)
            if schema is not None and schema.names_of("target"):
                raise ConfigurationError("reproduce compares classifiers, and the schema names a target: give a label.")
            split = load_split(
                path,
                label=settings.label or (None if schema is not None else "label"),
                id=settings.id,
                subject=settings.subject,
                ignore=settings.ignore,
                schema=schema,
                test_size=0.2,
                random_state=drawn,
                in_order=aged,
            )
    rng = np.random.default_rng(drawn)
    if settings.quick and settings.dataset not in ("margin", "margin-uniform", "purchase-like"):
        split = Split(_thinned(split.train, rng), _thinned(split.test, rng))
    order = np.arange(split.train.n_rows) if aged else rng.permutation(split.train.n_rows)
    return Split(_unit(split.train.take(order)), _unit(split.test))


def _thinned(table: Table, rng: np.random.Generator) -> Table:
    """Some of the rows, drawn at random, in the order of the table; all of a small one."""
    most = min(_QUICK_ROWS, max(1, _QUICK_NUMBERS // table.n_features))
    if table.n_rows <= most:
        return table
    return table.take(np.sort(rng.choice(table.n_rows, most, replace=False)))


def _unit(table: Table) -> Table:
    """The table with rows of norm one, named 0, 1, 2, ... where they had no ids."""
    ids = np.arange(table.n_rows) if table.ids is None else table.ids
    encoded = isinstance(table.X, EncodedTable) and not table.X.schema.sparse
    return Table(
        normalize(table.numbers.toarray() if encoded else table.numbers),
        table.y,
        ids=ids,
        subjects=table.subjects,
        name=table.name,
        feature_names=table.feature_names,
        fitted=table.fitted,
    )


def requests(settings: Settings, split: Split, core: npt.NDArray[np.intp], repeat: int = 0) -> list[Request]:
    """The deletion requests, each a list of ids.

    Parameters
    ----------
    core : array of int
        Positions of the rows that ours keeps, in learning order: they go first in ``core-first``.
    """
    assert settings.deletions is not None
    rng = np.random.default_rng([settings.random_state, repeat, 1])
    train, k = split.train, settings.deletions
    ids = list(train.ids) if train.ids is not None else list(range(train.n_rows))
    ids = [getattr(key, "item", lambda key=key: key)() for key in ids]
    labels = np.unique(train.y)
    one_class = class_to_delete(settings, labels)
    may_leave = np.arange(train.n_rows) if one_class is None else np.flatnonzero(train.y == labels[one_class])
    match settings.order:
        case "label" | "uniform":
            chosen = rng.permutation(may_leave)
        case "oldest":
            chosen = may_leave
        case "newest":
            chosen = may_leave[::-1]
        case "weights":
            weights = leverages(train.X, settings.capacity or 1.0)[may_leave]
            # The order of exponential waiting times is that of drawing without replacement.
            chosen = may_leave[np.argsort(rng.standard_exponential(len(may_leave)) / weights, kind="stable")]
        case "core-first":
            chosen = np.concatenate([core[np.isin(core, may_leave)], rng.permutation(np.setdiff1d(may_leave, core))])
        case _:
            return _by_subject(train, ids, k, rng)
    return [[ids[i]] for i in chosen[:k].tolist()]


def leverages(X: Matrix, regulariser: float) -> npt.NDArray[np.float64]:
    """``x'(X'X + regulariser I)^-1 x`` of every row: large for rows in directions that few others have.

    Rows of zeros get the smallest positive number, so that they can be drawn too.
    """
    gram = X.T @ X
    gram = np.asarray(gram.toarray() if sp.issparse(gram) else gram, dtype=np.float64)
    unit = np.eye(len(gram))
    inverse = cho_solve(cho_factor(gram + regulariser * unit, lower=True), unit)
    found = np.empty(X.shape[0])
    step = max(1, _AT_ONCE // X.shape[1])
    for i in range(0, len(found), step):
        part = X[i : i + step]
        mapped = np.asarray(part @ inverse)
        found[i : i + step] = (part * mapped).sum(axis=1)
    return np.maximum(found, np.finfo(np.float64).tiny)


def _by_subject(train: Table, ids: list[Any], k: int, rng: np.random.Generator) -> list[Request]:
    """Whole subjects, drawn at random, until at least ``k`` rows are named; a row of several goes with the first."""
    assert train.subjects is not None
    rows: dict[Any, Request] = {}
    for key, owners in zip(ids, train.subjects, strict=True):
        for owner in owners_of(owners) or (None,):
            nobody = owner is None or owner == "" or owner != owner
            rows.setdefault(("nobody", key) if nobody else ("subject", owner), []).append(key)  # nobody's is on its own
    owners = list(rows)
    gone: dict[Any, None] = {}
    found: list[Request] = []
    for i in rng.permutation(len(owners)).tolist():
        if len(gone) >= k or len(found) == len(owners) - 1:
            break
        if leaving := [key for key in rows[owners[i]] if key not in gone]:
            found.append(leaving)
            gone |= dict.fromkeys(leaving)
    return found
