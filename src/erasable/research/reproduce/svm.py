"""The paper's Figure 1, computed: a hard-margin SVM before a deletion and after it, under two notions of forgetting."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
from sklearn.svm import SVC

Points = npt.NDArray[np.float64]
_POINTS = 40


@dataclass(frozen=True)
class Separator:
    """A hard-margin SVM: ``w'x + b``, and which of the points are its support vectors."""

    w: Points
    b: float
    support: npt.NDArray[np.intp]

    @property
    def angle(self) -> float:
        """Direction of the boundary in degrees."""
        return float(np.degrees(np.arctan2(self.w[1], self.w[0])))


@dataclass(frozen=True)
class Figure1:
    """Points of two classes, the deleted one, and the three separators.

    ``before``: trained on all points. ``traditional``: on all but the deleted one, ``A(S - U, {})``. ``system_aware``:
    on the other support vectors alone, ``A(S' - U, {})``. ``support`` of each are positions in ``X``.
    """

    X: Points
    y: npt.NDArray[np.intp]
    deleted: int
    before: Separator
    traditional: Separator
    system_aware: Separator

    @property
    def newly_supporting(self) -> npt.NDArray[np.intp]:
        """Points that become support vectors under traditional unlearning."""
        return np.setdiff1d(self.traditional.support, self.before.support)


def separate(X: Points, y: npt.NDArray[np.intp], index: npt.NDArray[np.intp]) -> Separator:
    """The hard-margin SVM of the points named by ``index``."""
    svm = SVC(kernel="linear", C=1e9, tol=1e-8).fit(X[index], y[index])
    return Separator(svm.coef_[0], float(svm.intercept_[0]), np.sort(index[svm.support_]))


def figure_1() -> Figure1:
    """Two separable clouds of points, drawn so that a support vector's leaving lets another point in.

    Draws are tried one after the other until one shows it: one class has two support vectors, one of which is deleted,
    and retraining on all other points turns the boundary.
    """
    everything = np.arange(_POINTS)
    y = np.where(everything % 2, 1, -1)
    draws = count()
    while True:
        X = np.random.default_rng(next(draws)).standard_normal((_POINTS, 2)) * [1.3, 0.8] + np.outer(y, [0.6, 1.6])
        if (y * (X @ [0.35, 1.0]) < 0.25).any():
            continue
        before = separate(X, y, everything)
        two = [i for i in before.support if np.count_nonzero(y[before.support] == y[i]) == 2]
        for deleted in two if len(before.support) == 3 else []:
            traditional = separate(X, y, np.setdiff1d(everything, [deleted]))
            system_aware = separate(X, y, np.setdiff1d(before.support, [deleted]))
            found = Figure1(X, y, int(deleted), before, traditional, system_aware)
            turns = [abs(found.before.angle - s.angle) for s in (traditional, system_aware)]
            if len(found.newly_supporting) and 12.0 < turns[0] < 60.0 and turns[1] < 50.0:
                return found
