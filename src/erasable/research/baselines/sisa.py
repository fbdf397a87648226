"""SISA: shards, slices and checkpoints (Bourtoule et al., Machine Unlearning, IEEE S&P 2021)."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier

from erasable.core.arrays import Matrix
from erasable.core.names import Key, keyed_hash
from erasable.estimators.learners import Constant, check_estimator_parameter
from erasable.models.core_rows import overwrite
from erasable.models.inputs import array_of, encode, pick
from erasable.models.reports import SAME_BITS_AGAIN, Guarantee
from erasable.models.strategies import n_bytes
from erasable.research.baselines.rows_classifier import RowsClassifier
from erasable.validation import seed, switch, whole_number


@dataclass(eq=False, repr=False)
class _Slice:
    """Rows of one slice in learning order."""

    X: Any
    codes: npt.NDArray[np.intp]
    ids: list[Key]

    @property
    def rows(self) -> tuple[Any, npt.NDArray[np.intp]]:
        return self.X, self.codes

    def remove(self, keys: list[Key]) -> list[int]:
        """Copy what is left, so that no room tells of more, and overwrite the old arrays; the codes of these rows."""
        leaving = set(keys)
        gone: list[int] = [c for c, key in zip(self.codes.tolist(), self.ids, strict=True) if key in leaving]
        kept = [i for i, key in enumerate(self.ids) if key not in leaving]
        old, codes = self.X, self.codes
        self.X, self.codes, self.ids = old[kept], codes[kept], [self.ids[i] for i in kept]
        overwrite(old)
        codes.fill(0)
        return gone


@dataclass(eq=False, repr=False)
class _Shard:
    slices: list[_Slice]
    base: Any  # the estimator to train, unfitted, with this shard's seed
    replay: bool
    checkpoints: list[bytes] = field(default_factory=list)  # the voter after each slice
    voter: Any = None


class SISAClassifier(RowsClassifier):
    """SISA: an ensemble in which a deletion retrains one shard from its last untouched checkpoint.

    Rows are dealt to shards, and within a shard to slices; one model per shard is trained slice after slice, and a
    checkpoint is kept after each. Forgetting a row retrains its shard from the checkpoint before its slice; rows of
    one call retrain each shard once. Prediction is a uniform vote.

    *Guarantee*: exact unlearning in the traditional sense (epsilon = delta = 0, Definition 2.1 of the paper): the
    model, with all its checkpoints, equals one trained from nothing on the remaining rows with the same seed, given a
    deterministic base estimator and one machine. For that, a row's shard and slice are drawn from its id and the seed
    alone, not from its position. All rows stay stored.

    Parameters
    ----------
    estimator : classifier, optional
        Trained on each shard. With ``partial_fit`` it is trained slice by slice; with ``fit`` alone the whole shard is
        refitted. Default: ``SGDClassifier()``, a linear model.
    n_shards, n_slices : int, default=20 and 5
    replay : bool, default=False
        Train stage r on slices 1 to r, as Bourtoule et al. do, in place of slice r alone. Each row is then seen several
        times, which costs time and helps models that need many passes.
    random_state : int, default=0
        Deals rows to shards and slices, and seeds base estimators whose own ``random_state`` is None.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Those of the remaining rows; when a class vanishes every shard is retrained.
    stored_rows_, stored_bytes_ : int
        All remaining rows; bytes of rows and of all checkpoints.
    guarantee : Guarantee

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from erasable.research.baselines import SISAClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SISAClassifier(n_shards=4).fit(X, y)
    >>> report = model.forget(ids=[0, 1])
    >>> report.core_rows_removed, report.rows_retrained < len(X)
    (2, True)
    >>> again = SISAClassifier(n_shards=4).fit(X[2:], y[2:], ids=range(2, len(X)))
    >>> bool((model.predict(X) == again.predict(X)).all())
    True
    """

    classes_: npt.NDArray[Any]
    _shards: list[_Shard]
    _counts: npt.NDArray[np.intp]  # rows left of each class

    def __init__(
        self,
        estimator: Any = None,
        n_shards: int = 20,
        n_slices: int = 5,
        *,
        replay: bool = False,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_shards = n_shards
        self.n_slices = n_slices
        self.replay = replay
        self.random_state = random_state

    @property
    def guarantee(self) -> Guarantee:
        """Exact unlearning in the traditional sense."""
        return Guarantee(
            "exact unlearning (Definition 2.1): equal to training on all remaining rows with the same seed",
            of="state",
            assumptions=(SAME_BITS_AGAIN,),
        )

    def _check_parameters(self) -> None:
        whole_number(self.n_shards, "n_shards")
        whole_number(self.n_slices, "n_slices")
        seed(self.random_state)
        switch(self.replay, "replay")
        if self.estimator is not None:
            check_estimator_parameter(self.estimator)

    def _learn(self, X: Matrix, y: npt.NDArray[Any], keys: Sequence[Key]) -> dict[str, Any]:
        n_shards, n_slices, seed = int(self.n_shards), int(self.n_slices), int(self.random_state)
        base = SGDClassifier() if self.estimator is None else self.estimator
        classes, codes = encode(pick(y, np.arange(len(y))))
        lot = keyed_hash(keys, seed)
        cells = (lot % n_shards * n_slices + lot // n_shards % n_slices).astype(np.intp)
        order = np.argsort(cells, kind="stable")
        ends = np.searchsorted(cells[order], np.arange(n_shards * n_slices + 1))
        seeds = keyed_hash(range(n_shards), seed + 1).tolist()
        shards, place = [], {}
        for s in range(n_shards):
            slices = []
            for r in range(n_slices):
                c = s * n_slices + r
                index = order[ends[c] : ends[c + 1]]
                ids: list[Key] = pick(keys, index)
                slices.append(_Slice(X[index], codes[index], ids))
                place.update(dict.fromkeys(ids, (s, r)))
            shards.append(_Shard(slices, _with_seed(base, seeds[s]), bool(self.replay)))
        for shard in shards:
            _train(shard, 0, len(classes))
        return {
            "_place": place,
            "_shards": shards,
            "_counts": np.bincount(codes, minlength=len(classes)),
            "classes_": classes,
        }

    def _erase(self) -> None:
        for shard in self._shards:
            for part in shard.slices:
                overwrite(part.X)

    def _remove(self, keys: list[Key]) -> int:
        leaving: dict[tuple[int, int], list[Key]] = {}
        for key in keys:
            leaving.setdefault(self._place.pop(key), []).append(key)
        first: dict[int, int] = {}
        for (s, r), gone in leaving.items():
            for code in self._shards[s].slices[r].remove(gone):
                self._counts[code] -= 1
            first[s] = min(r, first.get(s, r))
        if not self._counts.all():
            self._drop_empty_classes()
            first = dict.fromkeys(range(len(self._shards)), 0)
        return sum(_train(self._shards[s], r, len(self.classes_)) for s, r in first.items())

    def _drop_empty_classes(self) -> None:
        """Number the remaining classes anew."""
        left = np.flatnonzero(self._counts)
        new = np.zeros(len(self._counts), dtype=np.intp)
        new[left] = np.arange(len(left))
        for shard in self._shards:
            for part in shard.slices:
                part.codes = new[part.codes]
        self.classes_, self._counts = array_of(pick(self.classes_, left)), self._counts[left]

    def predict_proba(self, X: Matrix) -> npt.NDArray[np.float64]:
        """Share of the votes for each class, shape (n_samples, n_classes). Shards without rows do not vote."""
        X = self._rows_to_predict(X)
        votes = np.zeros((X.shape[0], len(self.classes_)))
        voters = [shard.voter for shard in self._shards if shard.voter is not None]
        for voter in voters:
            votes[np.arange(X.shape[0]), np.asarray(voter.predict(X), dtype=np.intp)] += 1.0
        return votes / len(voters)

    def predict(self, X: Matrix) -> npt.NDArray[Any]:
        """The class with most votes; of equals, the first."""
        winner = np.argmax(self.predict_proba(X), axis=1)
        chosen: npt.NDArray[Any] = self.classes_[winner]
        return chosen

    @property
    def stored_bytes_(self) -> int:
        """Bytes of rows, labels and checkpoints."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("SISAClassifier has no stored_bytes_ before fit.")
        slices = [part for shard in self._shards for part in shard.slices]
        checkpoints = sum(len(c) for shard in self._shards for c in shard.checkpoints)
        return sum(n_bytes(part.X) + part.codes.nbytes for part in slices) + checkpoints


def _train(shard: _Shard, start: int, n_classes: int) -> int:
    """Train a shard from slice ``start`` on, from the checkpoint before it; the number of rows gone over."""
    if not hasattr(shard.base, "partial_fit") or n_classes < 2:
        parts = [s.rows for s in shard.slices]
        codes = np.concatenate([c for _, c in parts])
        shard.voter = _fit_voter(shard.base, _stack([X for X, _ in parts]), codes)
        shard.checkpoints = [pickle.dumps(shard.voter)]
        return len(codes)
    voter = pickle.loads(shard.checkpoints[start - 1]) if start else None
    del shard.checkpoints[start:]
    retrained, all_codes = 0, np.arange(n_classes)
    for r in range(start, len(shard.slices)):
        for part in shard.slices[0 if shard.replay else r : r + 1]:
            X, codes = part.rows
            if not len(codes):
                continue
            voter = clone(shard.base) if voter is None else voter
            voter.partial_fit(X, codes, classes=all_codes)
            retrained += len(codes)
        shard.checkpoints.append(pickle.dumps(voter))
        # Going on from the checkpoint itself makes later ones the same bytes whether training began here or earlier.
        voter = pickle.loads(shard.checkpoints[-1])
    shard.voter = voter
    return retrained


def _stack(parts: list[Any]) -> Any:
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else sp.vstack(parts, format="csr")


def _with_seed(estimator: Any, seed: int) -> Any:
    """Return an unfitted copy; if it has a ``random_state`` that is None, it gets this seed."""
    copy = clone(estimator)
    if "random_state" in copy.get_params() and copy.get_params()["random_state"] is None:
        copy.set_params(random_state=seed % 2**32)
    return copy


def _fit_voter(base: Any, X: Matrix, codes: npt.NDArray[np.intp]) -> Any:
    """Return a copy of the estimator fitted on rows; a constant for one class, None for no rows."""
    if not len(codes):
        return None
    if (codes == codes[0]).all():
        return Constant(int(codes[0]))
    return clone(base).fit(X, codes)
