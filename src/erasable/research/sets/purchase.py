"""The Purchase set, from the files of those who have it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.cluster import KMeans

from erasable.errors import InputError, InputTypeError
from erasable.tables import Split, Table, load_rows

_FILES = ("data1.npz", "data2.npz")
_FITTED = (
    "The labels were fitted by 2-means on all rows, train and test, those that will be deleted included: "
    "every label depends a little on every row."
)


@overload
def load_purchase(path: str | os.PathLike[str], *, return_X_y: Literal[True]) -> tuple[Any, Any, Any, Any]: ...
@overload
def load_purchase(path: str | os.PathLike[str], *, return_X_y: Literal[False] = False) -> Split: ...
def load_purchase(path: str | os.PathLike[str], *, return_X_y: bool = False) -> Any:
    """The Purchase set of Bourtoule et al., *Machine Unlearning* (SISA), split 80/20, from the two files it comes in.

    Follows ``datasets/purchase/prepare_data.py`` of the repository cleverhans-lab/machine-unlearning: the rows of both
    files as integers, labels by ``KMeans(n_clusters=2, random_state=0)`` on all of them, then a random split. Where the
    recipe leaves something open it is fixed here: the seed of the split is 0; ``n_init=10``, which was the default of
    scikit-learn at the time; the cluster with fewer items per row on average is -1, the other +1 (when equal, the one
    with the first row is -1). Nothing is written to disk.

    Parameters
    ----------
    path : str or path
        The folder with ``data1.npz`` and ``data2.npz``, 0/1 rows as ``scipy.sparse.save_npz`` writes them.
    return_X_y : bool, default=False
        Give ``(X_train, X_test, y_train, y_test)``, as ``train_test_split`` does, instead of a split.

    Returns
    -------
    Split
        float32 rows in csr_arrays; 249,215 to train and 62,304 to test with, when the set is complete.

    Raises
    ------
    InputError, InputTypeError
        When a file is missing, damaged or of other content.

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
    if not isinstance(path, str | os.PathLike):
        raise InputTypeError(f"path must be a string or a path; got {type(path).__name__}.")
    folder = Path(path)
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} missing in {folder}: they are the Purchase data of the repository "
            "cleverhans-lab/machine-unlearning (from Purchase-100, that is Kaggle's Acquire Valued Shoppers), 0/1 rows "
            "of 600 columns as scipy.sparse.save_npz writes them. make_purchase_like() makes up rows of that shape."
        )
    parts = [load_rows(folder / name).X for name in _FILES]
    if not all(map(sp.issparse, parts)):
        raise InputError(f"{' and '.join(_FILES)} must hold sparse rows as scipy.sparse.save_npz writes them.")
    if parts[0].shape[1] != parts[1].shape[1]:
        raise InputError(
            f"data1.npz has {parts[0].shape[1]} columns and data2.npz {parts[1].shape[1]}: both need the same."
        )
    X = sp.csr_array(sp.vstack(parts), dtype=np.float32)
    other = int(np.count_nonzero((X.data != 0) & (X.data != 1)))
    if other:
        raise InputError(f"{' and '.join(_FILES)} must hold zeros and ones; {other} entries are something else.")
    X.eliminate_zeros()
    split = Table(X, _two_means(X), name="purchase", fitted=_FITTED).split(test_size=0.2, random_state=0)
    if return_X_y:
        return split.train.X, split.test.X, split.train.y, split.test.y
    return split


def _two_means(X: Any) -> npt.NDArray[np.int64]:
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
