"""The Purchase set, from the original files, which are not distributed here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.cluster import KMeans

from erasable.core.arrays import Matrix
from erasable.errors import ConfigurationError, InputError
from erasable.tables import Split, Table
from erasable.tables.arrays import read_sparse
from erasable.tables.reading import as_path
from erasable.validation import seed, whole_number

_FILES = ("data1.npz", "data2.npz")
_FITTED = (
    "The labels were fitted by 2-means on all rows, train and test, those that will be deleted included: "
    "every label depends a little on every row."
)


def load_purchase(path: str | os.PathLike[str]) -> Split:
    """The Purchase set of Bourtoule et al., *Machine Unlearning* (SISA), split 80/20, from the two files it comes in.

    Follows ``datasets/purchase/prepare_data.py`` of the repository cleverhans-lab/machine-unlearning: the rows of both
    files as integers, labels by ``KMeans(n_clusters=2, random_state=0)`` on all of them, then a random split. Where the
    recipe leaves something open it is fixed here: the seed of the split is 0; ``n_init=10``, which was the default of
    scikit-learn at the time; the cluster with fewer items per row on average is -1, the other +1 (when equal, the one
    with the first row is -1). Nothing is written to disk.

    Raises InputError or InputTypeError when a file is missing, damaged or of other content.

    Parameters
    ----------
    path : str or path
        The folder with ``data1.npz`` and ``data2.npz``, 0/1 rows as ``scipy.sparse.save_npz`` writes them.

    Returns
    -------
    Split
        float32 rows in csr_arrays; 249,215 to train and 62,304 to test with, when the set is complete.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np, scipy.sparse as sp
    >>> from erasable.research.sets import load_purchase
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k in (1, 2):
    ...         rows = sp.csr_matrix(np.tile(np.eye(4, 600, dtype=int), (5, 1)))
    ...         sp.save_npz(pathlib.Path(folder, f"data{k}.npz"), rows)
    ...     load_purchase(folder).train
    <Table 'purchase': 32 rows × 600 features, sparse float32>
    """
    folder = as_path(path)
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} missing in {folder}: they are the Purchase data of the repository "
            "cleverhans-lab/machine-unlearning (from Purchase-100, that is Kaggle's Acquire Valued Shoppers), 0/1 rows "
            "of 600 columns as scipy.sparse.save_npz writes them. make_purchase_like() makes up rows of that shape."
        )
    parts = [read_sparse(folder / name) for name in _FILES]
    if parts[0].shape[1] != parts[1].shape[1]:
        raise InputError(
            f"data1.npz has {parts[0].shape[1]} columns and data2.npz {parts[1].shape[1]}: both need the same."
        )
    X = sp.csr_array(sp.vstack(parts), dtype=np.float32)
    other = int(np.count_nonzero((X.data != 0) & (X.data != 1)))
    if other:
        raise InputError(f"{' and '.join(_FILES)} must hold zeros and ones; {other} entries are something else.")
    X.eliminate_zeros()
    return Table(X, _two_means(X), name="purchase", fitted=_FITTED).split(test_size=0.2, random_state=0)


def _two_means(X: Matrix) -> npt.NDArray[np.int64]:
    """Which of two clusters each row is in, -1 or +1.

    On sparse float64 rows the sums of the centres are sums of integers, so they do not depend on the order of threads.
    """
    if (X.max(axis=0).toarray() == X.min(axis=0).toarray()).all():
        raise InputError("2-means needs rows that are not all the same.")
    cluster = KMeans(n_clusters=2, n_init=10, random_state=0).fit_predict(X.astype(np.float64))
    size = X.sum(axis=1, dtype=np.float64)
    means = [size[cluster == c].mean() for c in (0, 1)]
    low = cluster[0] if means[0] == means[1] else int(np.argmin(means))
    return np.where(cluster == low, -1, 1).astype(np.int64)


_BLOCK = 2**22  # numbers drawn together
_ZIPF = 0.9  # the k-th item of the shop has weight k ** -0.9
_AXIS, _OWN = 0.8, 0.5  # spread of log-weights along the axis that all tastes lie on, and of each taste alone
_SIZES = np.geomspace(0.13, 2, 48)  # how much a shopper buys, as multiples of the mean 0.1 * n_features
_SIZE_ODDS = np.exp(-2 * np.log(_SIZES) ** 2)  # log-normal with sigma 1/2, cut off


def make_purchase_like(
    n_samples: int = 311_519,
    n_features: int = 600,
    *,
    n_tastes: int = 8,
    random_state: int = 0,
) -> Table:
    """Synthetic market baskets of the shape of the Purchase set: sparse 0/1 rows with two linear classes.

    Purchase is the set of Bourtoule et al., *Machine Unlearning* (SISA): 311,519 shoppers, 600 items, labels by
    2-means. This stand-in has its number of rows and items, 0/1 entries, few popular and many rare items, baskets of
    very different size (3 to 105 items by default), and two classes on the two sides of the direction in which
    shoppers differ most. It does **not** have the real correlations between items, the real popularity of any item,
    the real density or the real balance of classes: figures measured on it are not figures for Purchase.

    Every shopper has one of ``n_tastes`` tastes, all equally frequent, and buys items independently of each other, with
    odds that follow from the taste and from how much this shopper buys; nobody buys nothing. The label says which is
    nearer: the mean basket of the first half of the tastes (-1) or of the second (+1). These means are those of the
    distribution, not of the rows: nothing is fitted, and the rule depends on the seed, ``n_features`` and ``n_tastes``
    alone. By default, 2-means on the rows agrees with these labels on 93% of them.

    Raises ConfigurationError when a parameter cannot be used.

    Parameters
    ----------
    n_samples : int, default=311_519
        How many rows; an 80/20 split of the default leaves 249,215 to train with.
    n_features : int, default=600
        How many items the shop has. With fewer than about 100 the classes may be unequal.
    n_tastes : int, default=8
        An even number.
    random_state : int, default=0
        Decides everything.

    Returns
    -------
    Table
        float32 rows in a csr_array, about 7% of the entries 1; labels -1 and +1, about as many of each.

    Examples
    --------
    >>> from erasable.research.sets import make_purchase_like
    >>> make_purchase_like(1000)
    <Table 'purchase-like': 1000 rows × 600 features, sparse float32>
    """
    n, d = whole_number(n_samples, "n_samples"), whole_number(n_features, "n_features", 2)
    k = whole_number(n_tastes, "n_tastes", 2)
    if k % 2:
        raise ConfigurationError(f"n_tastes must be even, since each class has half of the tastes; got {k}.")
    shop_seed, shopper_seed = np.random.SeedSequence(seed(random_state)).spawn(2)
    shop = _open_shop(d, k, np.random.default_rng(shop_seed))
    X = _baskets(n, shop, np.random.default_rng(shopper_seed))
    y = np.where(X @ shop.weights > shop.offset, 1, -1).astype(np.int64)
    return Table(X, y, name="purchase-like")


@dataclass(frozen=True)
class _Shop:
    """``chances[i, j]``: that a shopper of kind i takes item j; ``odds[i]``: of being of kind i; and the label rule."""

    chances: npt.NDArray[np.float32]
    odds: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    offset: float


def _open_shop(d: int, n_tastes: int, rng: np.random.Generator) -> _Shop:
    """Everything that is fixed before the first shopper comes."""
    popularity = rng.permutation(np.arange(1, d + 1) ** -_ZIPF)
    position = np.linspace(-1, 1, n_tastes)[:, None]
    logs = _AXIS * position * rng.standard_normal(d) + _OWN * rng.standard_normal((n_tastes, d))
    wanted = popularity * np.exp(logs)
    wanted /= wanted.sum(axis=1, keepdims=True)
    amount = np.maximum(0.1 * d * _SIZES, 1)
    chances = -np.expm1(-amount[:, None] * wanted[:, None, :])  # taste, size, item
    size_odds = _SIZE_ODDS / _SIZE_ODDS.sum()
    # An empty basket has probability exp(-amount) and is drawn again, so every item is 1 / (1 - that) as likely.
    means = np.einsum("s,tsj->tj", size_odds / -np.expm1(-amount), chances)
    low, high = means[: n_tastes // 2].mean(axis=0), means[n_tastes // 2 :].mean(axis=0)
    return _Shop(
        chances=chances.reshape(-1, d).astype(np.float32),
        odds=np.tile(size_odds / n_tastes, n_tastes),
        weights=high - low,
        offset=float((high @ high - low @ low) / 2),
    )


def _baskets(n: int, shop: _Shop, rng: np.random.Generator) -> Any:
    """One row per shopper."""
    d = shop.chances.shape[1]
    step = max(1, _BLOCK // d)
    columns, sizes = [], []
    for start in range(0, n, step):
        kind = rng.choice(len(shop.odds), size=min(step, n - start), p=shop.odds)
        taken = rng.random((len(kind), d), dtype=np.float32) < shop.chances[kind]
        while len(empty := np.flatnonzero(~taken.any(axis=1))):
            taken[empty] = rng.random((len(empty), d), dtype=np.float32) < shop.chances[kind[empty]]
        columns.append(np.nonzero(taken)[1].astype(np.int32))
        sizes.append(np.count_nonzero(taken, axis=1))
    indices = np.concatenate(columns)
    indptr = np.concatenate([[0], *sizes]).cumsum()
    if len(indices) < 2**31:
        indptr = indptr.astype(np.int32)
    return sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(n, d))
