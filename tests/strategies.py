"""Generators that reach the bad places: duplicates, zero rows, extreme magnitudes, ties with the threshold."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from erasable import ErasableClassifier
from erasable.core.grid import dense_rows
from tests.oracle import OracleGrid, OracleModel, gram_matrix, leverage


@dataclass(frozen=True)
class Setting:
    """Parameters of a model, for the classifier and for the oracle."""

    n_features: int
    threshold: float
    capacity: float = 1.0
    bits: int = 15
    intercept: bool = False
    scaling: Any = "row"
    classes: tuple[Any, ...] | None = None
    order_key: int | None = 0
    class_weight: Any = None
    sample_rate: float = 0.0
    sample_key: int = 0
    loss: str = "squared"
    alpha: float | None = None
    head_scaling: str | None = None

    def classifier(self, **changes: Any) -> ErasableClassifier:
        parameters = {
            "threshold": self.threshold,
            "capacity": self.capacity,
            "grid_bits": self.bits,
            "fit_intercept": self.intercept,
            "scaling": self.scaling,
            "classes": self.classes,
            "order": "given" if self.order_key is None else "hashed",
            "random_state": self.order_key if self.order_key is not None else self.sample_key,
            "class_weight": self.class_weight,
            "sample_rate": self.sample_rate,
            "loss": self.loss,
            "alpha": self.alpha,
            "head_scaling": self.head_scaling,
        }
        return ErasableClassifier(**{"feature_map": None, **parameters, **changes})

    estimator = classifier

    def oracle(self) -> OracleModel:
        return OracleModel.of(
            self.n_features,
            threshold=self.threshold,
            capacity=self.capacity,
            bits=self.bits,
            intercept=self.intercept,
            scaling=self.scaling,
            classes=self.classes,
            order_key=self.order_key,
            class_weight=self.class_weight,
            sample_rate=self.sample_rate,
            sample_key=self.sample_key,
            loss=self.loss,
            alpha=self.alpha,
            head_scaling=self.head_scaling,
        )


@dataclass(frozen=True)
class Batch:
    """Rows with their names, in order."""

    X: list[tuple[float, ...]]
    y: list[Any]
    ids: list[Any]
    subjects: list[Any] | None
    weights: list[float] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, index: Any) -> Batch:
        index = range(len(self))[index] if isinstance(index, slice) else index
        owners = None if self.subjects is None else [self.subjects[i] for i in index]
        weights = None if self.weights is None else [self.weights[i] for i in index]
        names = [self.y[i] for i in index], [self.ids[i] for i in index]
        return Batch([self.X[i] for i in index], *names, owners, weights)

    def learnt_by(self, model: Any) -> Any:
        """The model after learning these rows: a classifier or the oracle."""
        if isinstance(model, OracleModel):
            model.learn(self.X, self.y, self.ids, self.subjects, self.weights)
        elif len(self) and max(self.weights or [1.0]) > 1 / 32:  # a call in which nothing counts is refused
            weights = {} if self.weights is None else {"sample_weight": self.weights}  # not all models take them
            names = {"ids": self.ids, "subjects": self.subjects, "allow_no_subject": True}
            model.partial_fit(np.array(self.X), self.y, **names, **weights)
        return model


def whole_rows(state: Any) -> Any:
    """The rows of a linear state as a dense array, in whichever layout it has them."""
    return state.rows if isinstance(state.rows, np.ndarray) else dense_rows(state.rows, state.configuration.grid)


def assert_identical(clf: ErasableClassifier, oracle: OracleModel) -> None:
    """Rows, sums, weights, bytes and digest of the classifier are those of the oracle, bit for bit."""
    state = clf._model.snapshot()
    assert list(state.ids) == oracle.ids
    assert list(state.subjects) == oracle.subjects
    assert list(state.labels) == oracle.labels
    assert whole_rows(state).tolist() == [list(g) for g in oracle.rows]
    assert state.derived["gram"].tolist() == oracle.gram
    assert state.derived[state.configuration.head.SUMS].tolist() == oracle.class_sums
    assert state.derived["weights"].view(np.uint32).tolist() == oracle.weight_bits
    data = oracle.to_bytes()
    assert state.to_bytes() == data
    assert clf.state_digest() == hashlib.sha256(data).hexdigest()


# -- rows --------------------------------------------------------------------------------------------------------

_SMALL = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from([0.5, -0.25, 0.6, 0.8, 1e-3, -1e-8, 2.0**-15, 1.0 + 2.0**-52]),
    st.floats(-4.0, 4.0, allow_subnormal=False),
)
# Around the limits of float32, the bounds of the screen (norms of 1e-10 and 1e10) and the limits of float64.
_BINARY_EXPONENTS = st.sampled_from(
    [0, 0, 0, 0, -1070, -1022, -700, -149, -126, -34, -33, -20, 20, 33, 34, 127, 700, 1000]
)


@st.composite
def any_rows(draw: Any, n_features: int, *, most: int = 1000) -> tuple[float, ...]:
    """A row of any magnitude; often with zeros, sometimes nothing else."""
    values = draw(st.lists(_SMALL, min_size=n_features, max_size=n_features))
    exponent = min(draw(_BINARY_EXPONENTS), most)
    return tuple(math.ldexp(v, exponent) for v in values)


@st.composite
def ball_rows(draw: Any, n_features: int, bits: int, radius: float = 1.0) -> tuple[float, ...]:
    """A row of norm at most ``radius``, on the grid or, by the radius, near it."""
    size = 2 ** draw(st.integers(0, bits))
    g = draw(st.lists(st.integers(-size, size), min_size=n_features, max_size=n_features))
    while sum(v * v for v in g) > 4**bits:
        g = [v // 2 if v >= 0 else -(-v // 2) for v in g]
    return tuple(radius * math.ldexp(v, -bits) for v in g)


# -- settings and histories --------------------------------------------------------------------------------------

_LABELS = st.sampled_from(
    [(0, 1), (1,), ("ham", "spam"), (0, 1, 2), ("α", 'b"\\', "c\n", "d"), (False, True), (-1.0, 2.0), (10, 9, -(2**62))]
)


@st.composite
def problems(
    draw: Any,
    *,
    max_rows: int = 24,
    max_features: int = 4,
    scalings: Any = None,
    order_keys: Any = None,
    weighted: bool = False,
    losses: Any = None,
) -> tuple[Setting, Batch]:
    """A setting and rows to learn with it: few distinct rows, so that duplicates abound, and a threshold they meet.

    With ``weighted`` some rows have weights, some classes have, and some rows are kept by their ids; with ``losses``
    the loss may be another than the squared one.
    """
    n_features = draw(st.integers(1, max_features))
    bits = draw(st.sampled_from([15, 15, 4, 8, 11, 16, 20]))
    intercept = draw(st.booleans())
    choices = ["row", "row", None, 2.0, 0.3, tuple([0.5, 3.0, 1e-3, 7.0][:n_features])]
    scaling = draw(st.sampled_from(choices if scalings is None else scalings))
    grid = OracleGrid(n_features, bits, intercept, scaling)
    if grid.normalises:
        one = any_rows(n_features, most=900)
    else:
        one = ball_rows(n_features, bits, 1.0 if scaling is None else scaling)
    pool = draw(st.lists(one, min_size=1, max_size=7))
    if draw(st.booleans()):  # one entry in each row: from four features on, or three on a fine grid, they are sparse
        at = draw(st.lists(st.integers(0, n_features - 1), min_size=len(pool), max_size=len(pool)))
        pool = [tuple(v if j == k else 0.0 for j, v in enumerate(x)) for x, k in zip(pool, at, strict=True)]
    n = draw(st.integers(1, max_rows))
    which = draw(st.lists(st.integers(0, len(pool) - 1), min_size=n, max_size=n))

    units = draw(
        st.one_of(
            st.just(4**bits),
            st.integers(1, 9),
            st.integers(1, 4 * 4**bits),
            st.sampled_from([4**bits // 4, 4**bits * 3]),
        )
    )
    tau = draw(thresholds(grid, units, pool))
    labels = draw(_LABELS)
    fixed = draw(st.sampled_from([None, None, tuple(sorted(labels))]))
    key = draw(st.sampled_from([0, 0, 0, 1, 2**100, None, None] if order_keys is None else order_keys))
    sample = (draw(class_weights(labels)), *draw(samples(key))) if weighted else (None, 0.0, 0)
    if sample[1] and draw(st.booleans()):
        tau = math.inf
    head: tuple[Any, ...] = ()
    if losses is not None and draw(st.sampled_from(losses)) == "logistic":
        head = "logistic", draw(st.sampled_from([1.0, 0.0625, 3.0])), draw(st.sampled_from(["flat", "spread"]))
    capacity = math.ldexp(units, -2 * bits)
    setting = Setting(n_features, tau, capacity, bits, intercept, scaling, fixed, key, *sample, *head)

    y = [labels[i % len(labels)] for i in draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))]
    ids = draw(keys(n, distinct=True))
    subjects = draw(st.one_of(st.none(), keys(n, distinct=False), shared_keys(n)))
    weights = draw(st.one_of(st.none(), row_weights(n))) if weighted else None
    return setting, Batch([pool[i] for i in which], y, ids, subjects, weights)


def row_weights(n: int) -> Any:
    """Weights of n rows: in the middle between two sixteenths, nothing, as much as there can be."""
    one = st.sampled_from([1.0, 1.0, 1.0, 0.0, 1 / 32, 1 / 16, 3 / 32, 0.5, 1.03, 2.25, 16.0])
    return st.lists(one, min_size=n, max_size=n).filter(lambda weights: max(weights) > 1 / 32)


def class_weights(labels: tuple[Any, ...]) -> Any:
    """None, balanced, or some of the labels."""
    some = st.lists(st.sampled_from(labels), min_size=1, unique=True)
    weight = st.sampled_from([1.0, 0.5, 2.0**-16, 2.0**16, float(np.float32(0.1))])
    return st.one_of(
        st.none(), st.just("balanced"), some.flatmap(lambda s: st.fixed_dictionaries(dict.fromkeys(s, weight)))
    )


@st.composite
def samples(draw: Any, order_key: int | None) -> tuple[float, int]:
    """Rate and key of a sample: the key of the order, where there is one."""
    rate = draw(st.sampled_from([0.0, 0.0, 0.3, 0.5, 1.0, 2.0**-64]))
    key = draw(st.sampled_from([0, 7])) if order_key is None else order_key
    return rate, key


@st.composite
def thresholds(draw: Any, grid: OracleGrid, units: int, pool: list[tuple[float, ...]]) -> float:
    """A plain threshold, or the float nearest to a leverage that occurs, or one of that float's two neighbours."""
    plain = draw(st.sampled_from([0.0, 1e-300, 1e-12, 1e-3, 0.01, 0.1, 0.3, 0.5, 1.0]))
    if draw(st.booleans()):
        before = draw(st.lists(st.sampled_from(pool), max_size=5))
        g = grid.put(draw(st.sampled_from(pool)))
        H = gram_matrix([grid.put(x) for x in before], units, grid.n_columns)
        nearest = float(leverage(H, g))
        plain = draw(st.sampled_from([nearest, math.nextafter(nearest, math.inf), math.nextafter(nearest, 0.0)]))
    # At or above this nothing could ever be selected, and the classifier refuses.
    return plain if units * plain < grid.longest else 0.5 * grid.longest / units


@st.composite
def keys(draw: Any, n: int, *, distinct: bool) -> list[Any]:
    """Ids (distinct) or subjects (a few, shared), all of one kind."""
    kind = draw(st.sampled_from(["int", "int", "str", "bytes"]))
    few = 10**9 if distinct else draw(st.integers(1, 6))
    order = draw(st.permutations(range(n))) if distinct else draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    match kind:
        case "int":
            offset = draw(st.sampled_from([0, 0, -3, 2**63 - 100, -(2**63)]))
            return [offset + i % few for i in order]
        case "str":
            return ["" if i % few == 0 else f"é{i % few}" + "\0" * (i % 2) for i in order]
        case _:
            return [bytes([i % few % 256]) * (i % few % 3) + b"\0%d" % (i % few) for i in order]


@st.composite
def shared_keys(draw: Any, n: int) -> list[Any]:
    """Subjects of rows that belong to none, one or several of a few: in any order, some of them twice or missing."""
    few = draw(keys(6, distinct=False))
    return draw(st.lists(st.lists(st.sampled_from([*few, None]), max_size=3), min_size=n, max_size=n))


@st.composite
def splits(draw: Any, n: int, *, most: int = 5) -> list[slice]:
    """Consecutive slices that cover 0..n."""
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=most)))
    return [slice(a, b) for a, b in zip([0, *cuts], [*cuts, n], strict=True) if a < b]
