"""Data sets that scikit-learn ships or downloads."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import sklearn.datasets as sets

from erasable.errors import ConfigurationError, InputError
from erasable.tables import Table

_SHIPPED = {"breast_cancer": "load_breast_cancer", "digits": "load_digits", "iris": "load_iris", "wine": "load_wine"}
_DOWNLOADED: dict[str, tuple[str, dict[str, str]]] = {
    "20newsgroups": ("fetch_20newsgroups_vectorized", {"subset": "all"}),
    "covtype": ("fetch_covtype", {}),
    "rcv1": ("fetch_rcv1", {"subset": "all"}),
}
_FITTED = {
    "20newsgroups": "The vocabulary was taken from the articles of the training subset, which are among these rows.",
    "rcv1": "The terms and their tf-idf weights were fitted on the 23,149 training articles, the first of these rows.",
}


@overload
def load_sklearn(name: str, *, return_X_y: Literal[True]) -> tuple[Any, npt.NDArray[Any]]: ...
@overload
def load_sklearn(name: str, *, return_X_y: Literal[False] = False) -> Table: ...
def load_sklearn(name: str, *, return_X_y: bool = False) -> Any:
    """A classification set with numeric features that scikit-learn ships or downloads, with its own labels.

    ================= ================================================================================
    ``breast_cancer`` 569 × 30, shipped
    ``digits``        1,797 × 64, shipped; ten classes (``load_bundled`` makes two of them)
    ``iris``          150 × 4, shipped
    ``wine``          178 × 13, shipped
    ``covtype``       581,012 × 54, download
    ``20newsgroups``  18,846 × 130,107, sparse, download; word counts, every row scaled to norm 1
    ``rcv1``          804,414 × 47,236, sparse, download; +1 for articles on companies (topic CCAT), -1 for
                      others; the numbers of the articles are the ids
    ================= ================================================================================

    What was fitted on rows before they came here is said in ``fitted`` of the table. Downloads go to the folder that
    scikit-learn keeps for them (the environment variable ``SCIKIT_LEARN_DATA``) and are made once.

    Parameters
    ----------
    name : str
        One of the names above.
    return_X_y : bool, default=False
        Give ``(X, y)`` instead of a table.

    Raises
    ------
    ConfigurationError
        When the name is another one.
    InputError
        When a download fails.

    Examples
    --------
    >>> from erasable.research.sets import load_sklearn
    >>> load_sklearn("iris")
    <Table 'iris': 150 rows × 4 features, dense float64>
    """
    if name not in (*_SHIPPED, *_DOWNLOADED):
        raise ConfigurationError(
            f"name must be one of {', '.join(_SHIPPED)} (shipped with scikit-learn) and {', '.join(_DOWNLOADED)} "
            "(downloaded at first use)."
        )
    if name in _SHIPPED:
        bunch = getattr(sets, _SHIPPED[name])()
        table = Table(bunch.data, bunch.target, name=name, feature_names=tuple(map(str, bunch.feature_names)))
    else:
        bunch = _fetch(name)
        y, ids = bunch.target, None
        if name == "rcv1":
            topic = bunch.target[:, list(bunch.target_names).index("CCAT")]
            y = np.where(topic.toarray().ravel() > 0, 1, -1).astype(np.int64)
            ids = bunch.sample_id.astype(np.int64)
        table = Table(bunch.data, y, ids, name=name, fitted=_FITTED.get(name, ""))
    return (table.X, table.y) if return_X_y else table


def _fetch(name: str) -> Any:
    function, options = _DOWNLOADED[name]
    try:
        return getattr(sets, function)(**options)
    except OSError as error:
        kind = type(error).__name__
    raise InputError(
        f"{name} needs a download, which failed ({kind}): try again with a connection. "
        f"These need none: {', '.join(_SHIPPED)}."
    )


@overload
def load_bundled(*, return_X_y: Literal[True]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]: ...
@overload
def load_bundled(*, return_X_y: Literal[False] = False) -> Table: ...
def load_bundled(*, return_X_y: bool = False) -> Any:
    """Handwritten digits, 1,797 × 64, in two classes: -1 for even ones, +1 for odd ones. Needs no download.

    These are 8 × 8 pictures with 17 shades of grey, the test part of the *Optical Recognition of Handwritten Digits*
    of the UCI repository (E. Alpaydin, C. Kaynak), shipped inside scikit-learn. Whose hand wrote a digit is not known.

    Parameters
    ----------
    return_X_y : bool, default=False
        Give ``(X, y)`` instead of a table.

    Examples
    --------
    >>> from erasable.research.sets import load_bundled
    >>> load_bundled()
    <Table 'digits, even or odd': 1797 rows × 64 features, dense float64>
    """
    digits = load_sklearn("digits")
    y = np.where(digits.y % 2 == 0, -1, 1).astype(np.int64)
    if return_X_y:
        return digits.X, y
    return Table(digits.X, y, name="digits, even or odd", feature_names=digits.feature_names)
