"""Data sets that scikit-learn ships."""

from __future__ import annotations

import numpy as np
import sklearn.datasets as sets

from erasable.tables import Table
from erasable.validation import choice

_SHIPPED = {"breast_cancer": "load_breast_cancer", "digits": "load_digits", "iris": "load_iris", "wine": "load_wine"}


def load_sklearn(name: str) -> Table:
    """A classification set that scikit-learn ships: ``breast_cancer``, ``digits``, ``iris`` or ``wine``.

    Raises ConfigurationError when the name is another one.

    Examples
    --------
    >>> from erasable.research.sets import load_sklearn
    >>> load_sklearn("iris")
    <Table 'iris': 150 rows × 4 features, dense float64>
    """
    bunch = getattr(sets, _SHIPPED[choice(name, "name", tuple(_SHIPPED))])()
    return Table(bunch.data, bunch.target, name=name, feature_names=tuple(map(str, bunch.feature_names)))


def load_bundled() -> Table:
    """Handwritten digits, 1,797 × 64, in two classes: -1 for even ones, +1 for odd ones.

    These are 8 × 8 pictures with 17 shades of grey, the test part of the *Optical Recognition of Handwritten Digits*
    of the UCI repository (E. Alpaydin, C. Kaynak), shipped inside scikit-learn. Whose hand wrote a digit is not known.

    Examples
    --------
    >>> from erasable.research.sets import load_bundled
    >>> load_bundled()
    <Table 'digits, even or odd': 1797 rows × 64 features, dense float64>
    """
    digits = load_sklearn("digits")
    y = np.where(digits.y % 2 == 0, -1, 1).astype(np.int64)
    return Table(digits.X, y, name="digits, even or odd", feature_names=digits.feature_names)
