"""The rows of an experiment and the deletion requests, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import normalize

from erasable.research.sets import load_bundled, load_purchase, make_margin, make_purchase_like
from erasable.tables import Split, Table, load_split
from erasable.errors import ConfigurationError
from erasable.research.reproduce.settings import Settings, class_to_delete

Request = list[Any]


def load(settings: Settings, repeat: int = 0) -> Split:
    """Training and test rows, every row divided by its own norm; the training rows in an order drawn anew.

    Parameters
    ----------
    repeat : int
        Which draw of the data, or of the split and order where the data is fixed.
    """
    seed = settings.seed + 1000 * repeat
    scale = 10 if settings.quick else 1
    match settings.dataset:
        case "margin":
            n, held_out = 200_000 // scale, 20_000 // scale
            split = make_margin(n + held_out, random_state=seed).split(held_out / (n + held_out), random_state=seed)
        case "purchase-like":
            split = make_purchase_like(311_519 // scale, random_state=seed).split(0.2, random_state=seed)
        case "purchase":
            if settings.data is None:
                raise ConfigurationError(
                    "purchase needs --data FOLDER with data1.npz and data2.npz of the SISA repository "
                    "(cleverhans-lab/machine-unlearning), which cannot be made here; purchase-like needs no files."
                )
            split = load_purchase(settings.data)
        case "digits":
            split = load_bundled().split(0.3, random_state=seed)
        case path:
            split = load_split(
                path,
                label=settings.label,
                id=settings.id,
                subject=settings.subject,
                ignore=settings.ignore,
                test_size=0.2,
                random_state=seed,
            )
    order = np.random.default_rng(seed).permutation(split.train.n_rows)
    return Split(_unit(split.train.take(order)), _unit(split.test))


def _unit(table: Table) -> Table:
    """The table with rows of norm one, named 0, 1, 2, ... where they had no ids."""
    ids = np.arange(table.n_rows) if table.ids is None else table.ids
    return Table(
        normalize(table.X),
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
    rng = np.random.default_rng([settings.seed, repeat, 1])
    train, k = split.train, settings.deletions
    ids = list(train.ids) if train.ids is not None else list(range(train.n_rows))
    ids = [getattr(key, "item", lambda key=key: key)() for key in ids]
    match settings.order:
        case "label":
            labels = np.unique(train.y)
            chosen = rng.permutation(np.flatnonzero(train.y == labels[class_to_delete(settings, labels)]))[:k]
        case "uniform":
            chosen = rng.permutation(train.n_rows)[:k]
        case "core-first":
            rest = np.setdiff1d(np.arange(train.n_rows), core)
            chosen = np.concatenate([core, rng.permutation(rest)])[:k]
        case _:
            return _by_subject(train, ids, k, rng)
    return [[ids[i]] for i in chosen.tolist()]


def _by_subject(train: Table, ids: list[Any], k: int, rng: np.random.Generator) -> list[Request]:
    """Whole subjects, drawn at random, until at least ``k`` rows are named."""
    assert train.subjects is not None
    rows: dict[Any, Request] = {}
    for key, owner in zip(ids, train.subjects, strict=True):
        nobody = owner is None or owner == "" or owner != owner
        rows.setdefault(("nobody", key) if nobody else ("subject", owner), []).append(key)  # nobody's row is on its own
    owners = list(rows)
    named = 0
    found: list[Request] = []
    for i in rng.permutation(len(owners)).tolist():
        if named >= k or len(found) == len(owners) - 1:
            break
        found.append(rows[owners[i]])
        named += len(found[-1])
    return found
