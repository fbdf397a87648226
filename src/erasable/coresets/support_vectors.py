"""The support vectors of a hard-margin SVM as a core-set map: a compression that is not stable.

Uses solvers of SciPy and of scikit-learn, which it loads when it selects; the only map here that is not exact.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog, nnls

from erasable.core.arrays import Array, Float64s, Positions
from erasable.core.names import Key
from erasable.errors import InputError

_HARD = 1e12  # the penalty: no row of separable data gets as much weight
_ON_THE_MARGIN = 1e-5  # how far above one the functional margin of a support vector may be computed
_MOST_STEPS = 10**7


@dataclass(frozen=True)
class SupportVectors:
    """The rows on the margin of the widest separating strip between two classes: one-shot, since not stable.

    The hard-margin SVM of all rows is that of its support vectors, so they are a core set (Definition 2.5). Here a
    support vector is any row on the margin, whether or not a solver gives it weight, since the weights need not be
    unique. Rows of one class alone have no margin, and all of them are kept.

    *Not stable*: when a support vector leaves, the strip between the others turns, and another of them may then lie
    behind its edge: the support vectors of the remaining core set are fewer than the remaining core set, see the
    example. The paper offers them for Definition 2.5 and does not call them stable; Theorem 3.1 does not apply.
    ``CoreSetUnlearner`` takes this map with ``one_shot=True`` alone; it then selects again after each request, which
    makes *one* request exact and no more: what the first request dropped may be what the second would have needed.

    Selection is in float64: a row is on the margin when its functional margin is at most ``1 + 1e-5``.

    Examples
    --------
    Two classes face each other across a strip that is two wide, and all four points are on its edge. Without the second
    one the strip turns, and the last, whose functional margin is now 2.2, no longer supports it:

    >>> import numpy as np
    >>> from erasable.coresets import SupportVectors
    >>> X = np.array([[0.0, 1.0], [3.0, 1.0], [1.0, -1.0], [4.0, -1.0]])
    >>> y, ids = np.array([1, 1, 0, 0]), [0, 1, 2, 3]
    >>> core_set = SupportVectors()
    >>> core_set.select(X, y, ids)
    array([0, 1, 2, 3])
    >>> left = [0, 2, 3]
    >>> core_set.select(X[left], y[left], left)  # C(C(S) - U) is not C(S) - U
    array([0, 1])
    """

    @property
    def stable(self) -> bool:
        """False."""
        return False

    def select(self, X: Any, y: Array, keys: Sequence[Key]) -> Positions:
        """Positions of the support vectors, ascending.

        Raises
        ------
        InputError
            For more than two classes, and for rows that no hyperplane separates.
        """
        labels = y.tolist()
        classes = sorted(set(labels))
        if len(classes) < 2:
            return np.arange(len(labels), dtype=np.intp)
        if len(classes) > 2:
            raise InputError(f"support vectors need two classes; got {len(classes)}: use another core-set map.")
        signs = np.where(np.array([v == classes[1] for v in labels]), 1.0, -1.0)
        Z = _centred(X)
        # A penalty without bound would make the SVM's solver search for ever: ask first whether there is a solution.
        lines = -signs[:, None] * np.column_stack([Z, np.ones(len(Z))])
        found = linprog(np.zeros(lines.shape[1]), A_ub=lines, b_ub=-np.ones(len(Z)), bounds=(None, None))
        if found.status != 0:
            raise InputError(
                f"no hyperplane separates the two classes of these {len(Z)} rows, so there is no hard margin: "
                "use another core-set map."
            )
        margins = _margins(Z, signs)
        near = margins <= 1.0 + _ON_THE_MARGIN
        if not margins.all():
            raise InputError(
                "the two classes are so close to each other that float64 does not find the hard margin: "
                "use another core-set map."
            )
        return np.flatnonzero(near)

    def describe(self) -> dict[str, Any]:
        """The configuration: there is none but the tolerance."""
        return {"map": "support-vectors", "tolerance": _ON_THE_MARGIN.hex()}


def _centred(X: Any) -> Float64s:
    """Rows moved and stretched, all alike, to between -1 and 1: the same rows support the margin."""
    Z = np.array(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)
    low, high = Z.min(axis=0), Z.max(axis=0)
    Z -= 0.5 * low + 0.5 * high
    size = float(np.max(np.abs(Z)))
    return Z / size if size > 0.0 else Z


def _margins(Z: Float64s, signs: Float64s) -> Float64s:
    """Functional margins ``s (w'z + b)`` under the widest separator, all at least one; zeros where it was not found.

    The solver of the SVM holds kernels in float32. So the least ``w`` that gives the rows it names margins of exactly
    one is solved for in float64; it is the widest separator if it is a positive combination of these rows, with weights
    that balance, and no other row is nearer.
    """
    from sklearn.exceptions import ConvergenceWarning  # only here: models need no scikit-learn
    from sklearn.svm import SVC

    svm = SVC(kernel="linear", C=_HARD, tol=1e-9, max_iter=_MOST_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # found out below
        on = svm.fit(Z, signs).support_
    w = np.linalg.lstsq(Z[on] - Z[on[0]], signs[on] - signs[on[0]])[0]
    margins = signs * (Z @ w + (signs[on[0]] - Z[on[0]] @ w))
    combination = np.vstack([signs[on] * Z[on].T, signs[on]])
    _, left = nnls(combination, np.append(w, 0.0) / (float(np.linalg.norm(w)) or 1.0))
    found = left <= _ON_THE_MARGIN and np.min(margins) >= 1.0 - _ON_THE_MARGIN
    return margins if found else np.zeros(len(Z))
