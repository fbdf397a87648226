"""The paper's motivating example: learn from a random subset and store nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import RidgeClassifier

from erasable.core.keyed_hash import keyed_hash
from erasable.core.layout import Key
from erasable.errors import NoRowsError
from erasable.estimators.forgetting import RowsClassifier
from erasable.estimators.learners import check_estimator_parameter, fit_voter, fresh
from erasable.models.arrays import n_bytes, overwrite
from erasable.models.guarantee import SAME_BITS_AGAIN, Guarantee
from erasable.models.keys import encode, pick
from erasable.validation import number_between, seed


class SubsampleClassifier(RowsClassifier):
    """Any classifier, trained on a random subset of the rows; forgetting refits it on what is left of the subset.

    *Guarantee*: exact system-aware unlearning (epsilon = delta = 0, Definition 2.3 of the paper) with the subset as
    S', given a deterministic base estimator and one machine. Whether a row is in the subset is drawn from its id and
    the seed alone, so that the subset of the surviving subset is itself.

    Parameters
    ----------
    estimator : classifier, optional
        Default: ``RidgeClassifier()``.
    fraction : float in (0, 1], default=0.1
        Probability with which a row is kept.
    random_state : int, default=0
        Draws the subset, and seeds a base estimator whose own ``random_state`` is None.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Those of the remaining rows of the subset.
    stored_rows_, stored_bytes_ : int
        The subset, and its bytes with the model's.
    guarantee : Guarantee

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from erasable.research.baselines import SubsampleClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SubsampleClassifier(fraction=0.2).fit(X, y)
    >>> report = model.forget(ids=range(900))
    >>> model.stored_rows_ < 0.25 * 897
    True
    >>> again = SubsampleClassifier(fraction=0.2).fit(X[900:], y[900:], ids=range(900, len(X)))
    >>> bool((model.predict(X) == again.predict(X)).all())
    True
    """

    classes_: npt.NDArray[Any]
    _base: Any  # the estimator as it was when the model was fitted, unfitted itself
    _rows: Any
    _labels: list[Any]
    _voter: Any

    _place: dict[Key, int]

    def __init__(self, estimator: Any = None, fraction: float = 0.1, *, random_state: int = 0) -> None:
        self.estimator = estimator
        self.fraction = fraction
        self.random_state = random_state

    @property
    def guarantee(self) -> Guarantee:
        """Exact system-aware unlearning with the subset as S'."""
        return Guarantee(
            "exact system-aware unlearning (Definition 2.3): equal to training on the remaining rows of the subset",
            of="state",
            assumptions=(SAME_BITS_AGAIN,),
        )

    def _check_parameters(self) -> None:
        number_between(self.fraction, "fraction", 0.0, 1.0, closed="high")
        seed(self.random_state)
        if self.estimator is not None:
            check_estimator_parameter(self.estimator)

    def _learn(self, X: Any, y: npt.NDArray[Any], keys: Sequence[Key]) -> dict[str, Any]:
        seed, fraction = int(self.random_state), float(self.fraction)
        kept = np.flatnonzero(keyed_hash(keys, seed) <= np.uint64(min(int(fraction * 2**64), 2**64 - 1)))
        if not len(kept):
            raise NoRowsError(f"none of {X.shape[0]} rows was drawn: raise fraction, or give more rows.")
        rows, ids = X[kept], pick(keys, kept)
        labels: list[Any] = pick(y, kept)
        base = fresh(RidgeClassifier() if self.estimator is None else self.estimator, seed)
        classes, codes = encode(labels)
        return {
            "_place": {key: i for i, key in enumerate(ids)},
            "_stored": ids,
            "_base": base,
            "_rows": rows,
            "_labels": labels,
            "_voter": fit_voter(base, rows, codes),
            "classes_": classes,
        }

    def _erase(self) -> None:
        overwrite(self._rows)

    def _remove(self, keys: list[Key]) -> int:
        leaving = {self._place[key] for key in keys}
        kept = [i for i in range(len(self._place)) if i not in leaving]
        ids = list(self._place)
        old = self._rows
        self._rows, self._labels = old[kept], [self._labels[i] for i in kept]
        overwrite(old)
        self._place = {ids[i]: at for at, i in enumerate(kept)}
        self.classes_, codes = encode(self._labels)
        self._voter = fit_voter(self._base, self._rows, codes)
        return len(kept)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """What the model trained on the subset predicts."""
        X = self._rows_to_predict(X)
        chosen: npt.NDArray[Any] = self.classes_[np.asarray(self._voter.predict(X), dtype=np.intp)]
        return chosen

    @property
    def stored_bytes_(self) -> int:
        """Bytes of the subset, its labels and the model fitted to it."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("SubsampleClassifier has no stored_bytes_ before fit.")
        return n_bytes(self._rows) + 8 * len(self._labels) + len(pickle.dumps(self._voter))
