"""What every core-set map offers (the map C of Definition 2.5), and the maps for rows as they are.

``LeverageThreshold`` is Algorithm 1's selection, configured as the linear models are. ``RandomSubsample`` is the
paper's motivating example; ``IndependentSample`` draws by public moments and class shares, too. ``SupportVectors`` is a
compression that is not stable, and the only map that is not exact.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from erasable.core.arrays import Array, Float64s, Matrix, Positions
from erasable.core.grid import Grid, described_scaling
from erasable.core.independent import IndependentRule, Rarity, public_mean, rarity_of
from erasable.core.names import Key, Label, check_fixed_classes, hashed_order, keyed_hash, write_label
from erasable.core.selector import RawRows, grid_of, select, selecting_units
from erasable.core.sums import empty_gram
from erasable.errors import ConfigurationError, InputError, InputTypeError, NoRowsError
from erasable.validation import number_between, number_not_negative, positive_number, real_numbers, seed


@runtime_checkable
class CoreSetMap(Protocol):
    """A map from rows to the few of them that are kept, ``C(S)``.

    Maps are frozen dataclasses: a map *is* its configuration and holds nothing that was learnt from rows. A selection
    is a function of that configuration and of the values, labels, ids and order of the rows, and of nothing else; not
    of the container that the rows came in.
    """

    @property
    def stable(self) -> bool:
        """Whether ``C(C(S) - U) = C(S) - U`` for all rows S and U, in order: what Theorem 3.1 asks of a map."""
        ...

    def select(self, X: Matrix, y: Array, keys: Sequence[Key]) -> Positions:
        """Positions of the core rows, in order of selection.

        Parameters
        ----------
        X : array of shape (n_samples, n_features) or CSR
            Finite floats.
        y : array of shape (n_samples,)
            Plain labels.
        keys : sequence of length n_samples
            The ids: distinct integers, strings or bytes.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """The configuration as values that JSON can hold; floats in hexadecimal, so that nothing is rounded."""
        ...


def check_core_set(core_set: object) -> None:
    """Raise ConfigurationError for what is no core-set map."""
    if isinstance(core_set, type) or not isinstance(core_set, CoreSetMap):
        kind = f"the class {core_set.__name__}" if isinstance(core_set, type) else type(core_set).__name__
        raise ConfigurationError(
            "core_set must be a core-set map (an instance with stable, select and describe, such as those of "
            f"erasable.coresets); got {kind}."
        )


def core_positions(core_set: CoreSetMap, X: Matrix, y: Array, keys: Sequence[Key]) -> Positions:
    """What a map selects, at least one row, once it is known to be distinct positions of rows.

    Raises NoRowsError or ConfigurationError when nothing is selected, and when the map returns anything else.
    """
    n = X.shape[0]
    index = np.asarray(core_set.select(X, y, keys))
    if index.size == 0:
        raise NoRowsError(f"the core-set map selected none of {n} rows: let it keep more, or give more rows.")
    fits = index.ndim == 1 and index.dtype.kind in "iu" and index.min() >= 0 and index.max() < n
    if not fits or len(np.unique(index)) < len(index):
        raise ConfigurationError(
            f"core_set.select must return distinct positions of the {n} rows, as integers; its result has dtype "
            f"{index.dtype} and shape {index.shape}, or positions that repeat or do not exist."
        )
    return index.astype(np.intp)


@dataclass(frozen=True)
class LeverageThreshold:
    """Rows whose leverage against the rows kept before them is above a threshold: Algorithm 1's sampler.

    *Stable* (Theorem 4.2): leverage only falls as rows are kept, so without some of them the others pass all the more.
    Decisions are exact for the grid rows, never those of a rounded leverage, so stability holds bitwise. Labels and
    ids play no part.

    Parameters
    ----------
    threshold : float
        Rows are kept while ``x'A^-1x`` is above it. Zero keeps every row but zero.
    capacity : float, default=1.0
        The paper's K: ``A`` starts as ``capacity * I``.
    fit_intercept : bool, default=True
        Append a constant to every row.
    scaling : "row", None, float or sequence of float, default="row"
        How rows get into the unit ball, as in ``ErasableClassifier``.
    grid_bits : int, default=15
        Rows are rounded to multiples of ``2**-grid_bits`` for the decision; the core rows stay as they came.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.coresets import LeverageThreshold
    >>> X = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [-1.0, 0.0]])
    >>> y, ids = np.array([0, 0, 1, 1]), [10, 11, 12, 13]
    >>> core_set = LeverageThreshold(0.6, fit_intercept=False)
    >>> core_set.select(X, y, ids)
    array([0, 2])
    >>> core_set.select(X[[2]], y[[2]], ids[2:3])  # C(C(S) - U) = C(S) - U
    array([0])
    """

    threshold: float
    capacity: float = 1.0
    _: KW_ONLY
    fit_intercept: bool = True
    scaling: Any = "row"
    grid_bits: int = 15
    stable = True  # Theorem 4.2

    def __post_init__(self) -> None:
        grid = self._grid(None)
        plain = {
            "threshold": number_not_negative(self.threshold, "threshold"),
            "capacity": positive_number(self.capacity, "capacity"),
            "fit_intercept": grid.intercept,
            "scaling": grid.scaling,
            "grid_bits": grid.bits,
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        known = isinstance(grid.scaling, tuple)  # how many features there are
        selecting_units(self.capacity, self.threshold, grid, longest=None if known else float(grid.radius**2))

    def select(self, X: Matrix, y: Array, keys: Sequence[Key]) -> Positions:
        """Positions of the core rows, ascending.

        Raises InputError when ``scaling`` leaves rows outside the unit ball.
        """
        grid = self._grid(X.shape[1])
        rows, units = RawRows(X, grid), selecting_units(self.capacity, self.threshold, grid)
        rows.check_ball()
        return select(rows, empty_gram(grid, units), 0, grid=grid, units=units, tau=self.threshold).index

    def describe(self) -> dict[str, Any]:
        """The configuration; floats in hexadecimal."""
        return {
            "map": "leverage-threshold",
            "threshold": self.threshold.hex(),
            "capacity": self.capacity.hex(),
            "fit_intercept": self.fit_intercept,
            "scaling": described_scaling(self.scaling),
            "grid_bits": self.grid_bits,
        }

    def _grid(self, n_features: int | None) -> Grid:
        return grid_of(n_features, fit_intercept=self.fit_intercept, scaling=self.scaling, grid_bits=self.grid_bits)


@dataclass(frozen=True)
class RandomSubsample:
    """Each row with a given probability, drawn from its id and ``random_state`` alone: the paper's motivating example.

    *Stable*: a row's hash does not depend on which other rows there are. Departure: a share of the rows is drawn, not a
    number m of them. The m lowest hashes would be stable too, but whether a row is among them depends on the others,
    and a core set of fewer than m rows tells how many were forgotten (of this map the core set tells no more about
    deleted rows than the data do, as Theorem 2.4 has it). Features and labels play no part, so the core rows have, on
    average, the class shares of the data.

    Parameters
    ----------
    fraction : float in (0, 1]
        Probability with which a row is kept; 1 keeps all of them.
    random_state : int, default=0
        Draws the subset. A sender who chooses both this and the ids can choose the subset.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.coresets import RandomSubsample
    >>> X, y, ids = np.zeros((8, 1)), np.zeros(8), np.arange(100, 108).tolist()
    >>> core_set = RandomSubsample(0.5, random_state=1)
    >>> core = core_set.select(X, y, ids)
    >>> left = core[1:]  # C(C(S) - U) = C(S) - U
    >>> core_set.select(X[left], y[left], [ids[i] for i in left]).tolist() == list(range(len(left)))
    True
    """

    fraction: float
    random_state: int = 0
    stable = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "fraction", number_between(self.fraction, "fraction", 0.0, 1.0, closed="high"))
        object.__setattr__(self, "random_state", seed(self.random_state))

    def select(self, X: Matrix, y: Array, keys: Sequence[Key]) -> Positions:
        """Positions of the core rows, ascending."""
        ids = keys.tolist() if hasattr(keys, "tolist") else keys  # a NumPy integer would have another hash
        highest = np.uint64(min(int(self.fraction * 2**64), 2**64 - 1))
        return np.flatnonzero(keyed_hash(ids, self.random_state) <= highest)

    def describe(self) -> dict[str, Any]:
        """The configuration; ``random_state`` as text, since it may be of any size."""
        return {"map": "random-subsample", "fraction": self.fraction.hex(), "random_state": str(self.random_state)}


@dataclass(frozen=True)
class IndependentSample:
    """Each row with a chance that the row itself and public numbers give it, drawn by the hash of its id.

    The rule is that of ``ErasableClassifier(selection="independent")``. Core rows lie in the order of the hashes of
    their ids, so forgetting equals training the learner on *all* surviving rows that the rule keeps.

    *Stable*: whether a row is kept does not depend on which other rows there are.

    Parameters
    ----------
    rate : float in (0, 1]
        About the share of all rows that is kept; 1 keeps all of them.
    moments : array of shape (n_features,) or (n_features, n_features), optional
        Public second moments of rows as ``scaling`` leaves them. Unusual rows are kept more often.
    balance : 0, 0.5 or 1, default=0
        How much rows of rare classes are kept more often. Predictions take it back, so the learner needs
        ``predict_proba``.
    class_shares : dict, optional
        The public share of each class. Needed for ``balance``; rows of other classes are refused.
    random_state : int, default=0
        The key of the hashes. A sender who knows it can choose ids that are kept.
    scaling : "row", None, float or sequence of float, default="row"
        How rows get into the unit ball for their rarity, as in ``ErasableClassifier``. Without moments it plays no
        part. The core rows stay as they came.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.coresets import IndependentSample
    >>> X, y, ids = np.zeros((8, 1)), np.array([0, 1] * 4), np.arange(100, 108).tolist()
    >>> core_set = IndependentSample(0.5, balance=1, class_shares={0: 0.75, 1: 0.25}, random_state=1)
    >>> kept = [ids[i] for i in core_set.select(X, y, ids)]
    >>> less = [ids[i + 2] for i in core_set.select(X[2:], y[2:], ids[2:])]
    >>> less == [i for i in kept if i not in ids[:2]]
    True
    """

    rate: float
    moments: Any = None
    balance: float = 0.0
    class_shares: Any = None
    random_state: int = 0
    _: KW_ONLY
    scaling: Any = "row"
    stable = True
    independent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        plain = {
            "rate": number_between(self.rate, "rate", 0.0, 1.0, closed="high"),
            "moments": self.moments if self.moments is None else _nested(self.moments),
            "balance": number_between(self.balance, "balance", 0.0, 1.0, closed="both") + 0.0,
            "class_shares": None if self.class_shares is None else _public_shares(self.class_shares),
            "random_state": seed(self.random_state),
            "scaling": self._grid(None).scaling,
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        self._rule(None if self.moments is None else len(self.moments))  # refuses what cannot be

    def _rule(self, n_features: int | None) -> IndependentRule:
        """The rule for rows with so many columns."""
        rarity, mean = Rarity(), 1.0
        if n_features is not None and self.moments is not None:
            rarity = rarity_of(self.moments, n_features)
            mean = public_mean(rarity, n_features, self._grid(n_features).stretch ** 2)
        return IndependentRule(self.rate, self.random_state, rarity, mean, self.balance, self.class_shares)

    def select(self, X: Matrix, y: Array, keys: Sequence[Key]) -> Positions:
        """Positions of the core rows, in the order of the hashes of their ids.

        Raises InputError for a label that ``class_shares`` does not name, and for rows that ``scaling`` leaves outside
        the unit ball.
        """
        ids = keys.tolist() if hasattr(keys, "tolist") else keys  # a NumPy integer would have another hash
        rule, grid = self._rule(X.shape[1]), self._grid(X.shape[1])
        rows = RawRows(X, grid)
        if rule.looks_at_rows:
            rows.check_ball()
        if self.class_shares is not None:
            other = sum(label not in rule.tilts[0] for label in y.tolist())
            if other:
                raise InputError(f"{other} of {len(ids)} rows have a label that class_shares does not name: name all.")
        mask, _ = rule.decided(rows, grid, keyed_hash(ids, self.random_state), y)
        index = np.flatnonzero(mask)
        return index[hashed_order([ids[i] for i in index.tolist()], self.random_state)]

    def tilts_of(self, classes: Sequence[Label]) -> Float64s | None:
        """How much more often rows of each class are kept; None without balance."""
        rule = self._rule(None)
        if self.balance and not set(classes) <= rule.tilts[0].keys():
            raise ConfigurationError("class_shares must name every class that the learner predicts.")
        return rule.tilts_of(classes)

    def describe(self) -> dict[str, Any]:
        """The configuration; floats in hexadecimal, ``random_state`` as text, a matrix by its SHA-256."""
        rarity = self._rule(None if self.moments is None else len(self.moments)).rarity
        moments: Any = None if rarity.exponents is None else list(rarity.exponents)
        shares = self.class_shares
        return {
            "map": "independent-sample",
            "rate": self.rate.hex(),
            "moments": moments if rarity.matrix is None else hashlib.sha256(rarity.matrix).hexdigest(),
            "balance": self.balance.hex(),
            "class_shares": None if shares is None else [[write_label(label), share.hex()] for label, share in shares],
            "random_state": str(self.random_state),
            "scaling": described_scaling(self.scaling),
        }

    def _grid(self, n_features: int | None) -> Grid:
        """The grid on which the rarity of rows is computed."""
        return grid_of(n_features, fit_intercept=False, scaling=self.scaling, grid_bits=15)


def _nested(moments: Any) -> Any:
    """Public moments as plain tuples, which compare and hash; refused unless they are numbers."""
    found: Float64s = np.empty(0)
    with suppress(InputError, InputTypeError):
        found = real_numbers(moments, "moments")
    if found.ndim not in (1, 2) or not len(found):
        raise ConfigurationError("moments must be a positive number for each column, or a matrix of second moments.")
    return tuple(found.tolist()) if found.ndim == 1 else tuple(map(tuple, found.tolist()))


def _public_shares(given: Any) -> tuple[tuple[Label, float], ...]:
    """Each class with its public share, sorted by class."""
    if isinstance(given, tuple):  # a copy of a map has them as they are kept
        given = dict(given)
    if not isinstance(given, Mapping):
        raise ConfigurationError("class_shares must be a dictionary from each class to its public share.")
    plain = {label.item() if isinstance(label, np.generic) else label: share for label, share in given.items()}
    kinds = {type(label) for label in plain}
    if len(kinds) > 1:
        raise ConfigurationError("the classes in class_shares must be of one type.")
    classes = tuple(sorted(plain))
    check_fixed_classes(classes)
    name = "every share in class_shares"
    return tuple((label, number_between(plain[label], name, 0.0, 1.0, closed="high")) for label in classes)


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

    stable = False

    def select(self, X: Matrix, y: Array, keys: Sequence[Key]) -> Positions:
        """Positions of the support vectors, ascending.

        Raises InputError for more than two classes, and for rows that no hyperplane separates.
        """
        from scipy.optimize import linprog  # slow to import, and commands would wait for it

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


def _centred(X: Matrix) -> Float64s:
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
    from scipy.optimize import nnls  # slow to import, and commands would wait for it
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
