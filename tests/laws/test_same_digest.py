"""One digest for the same rows: any block, chunk, thread count, type, container or name of the threshold.

In the order given, also for any batching; what holds of the hashed order is in test_order.py.
"""

from __future__ import annotations

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from erasable import ErasableClassifier
from erasable.models.row_source import Rows
from tests.oracle import OracleModel
from tests.strategies import assert_identical, problems, splits

SIZES = st.sampled_from([None, 1, 2, 5, 17])


@given(problems(), SIZES, SIZES)
def test_block_and_chunk_sizes(problem, block, chunk):
    setting, batch = problem
    clf = setting.classifier()
    clf._learn(
        Rows(np.array(batch.X), batch.y, batch.ids, batch.subjects),
        fresh=True,
        allow_no_subject=True,
        block_rows=block,
        chunk_rows=chunk,
    )
    assert_identical(clf, batch.learnt_by(setting.oracle()))


@given(problems(order_keys=[None]), st.data())
def test_batching_of_learning_in_the_order_given(problem, data):
    setting, batch = problem
    at_once, in_parts = batch.learnt_by(setting.classifier()), setting.classifier()
    for part in data.draw(splits(len(batch))):
        batch.part(part).learnt_by(in_parts)
        if data.draw(st.booleans()):
            in_parts.coef_  # noqa: B018
    assert in_parts.state_digest() == at_once.state_digest()


@given(problems(max_rows=12), st.data())
def test_copies_and_pickles_go_on_as_the_original(problem, data):
    setting, batch = problem
    n = data.draw(st.integers(1, len(batch)))
    first, rest = batch.part(slice(0, n)), batch.part(slice(n, None))
    clf = first.learnt_by(setting.classifier())
    clf.forget(ids=data.draw(st.lists(st.sampled_from(first.ids))))
    twins = [copy.copy(clf), copy.deepcopy(clf), pickle.loads(pickle.dumps(clf))]
    gone = data.draw(st.lists(st.sampled_from(batch.ids)))
    rest.learnt_by(clf)
    clf.forget(ids=gone)
    for twin in twins:
        rest.learnt_by(twin)
        twin.forget(ids=gone)
        assert twin.state_digest() == clf.state_digest()
        assert twin.core_ids_.tolist() == clf.core_ids_.tolist()
        assert twin.stored_bytes_ == clf.stored_bytes_


# -- one stream through many doors -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stream():
    """Rows that float32 holds exactly, some of them zero and repeated, three classes; and the oracle's digest."""
    rng = np.random.default_rng(2)
    X = (rng.standard_normal((260, 5)) * [1.0, 0.8, 0.4, 0.2, 0.1]).astype(np.float32).astype(np.float64)
    X[rng.random(X.shape) < 0.3] = 0.0
    X[50:60] = X[0]
    y = rng.integers(0, 3, 260)
    gone = list(range(0, 260, 7))
    oracle = OracleModel.of(5, threshold=0.08)
    oracle.learn(X.tolist(), y.tolist(), list(range(260)))
    assert 60 < len(oracle.core) < 240
    oracle.forget(ids=gone)
    return X, y, gone, oracle.digest()


def digest_after(X, y, gone, *, ids=None, clf=None, **sizes):
    clf = clf or ErasableClassifier(1.0, threshold=0.08, loss="squared", feature_map=None)
    clf._learn(Rows(X, y, ids), fresh=True, **sizes)
    clf.forget(ids=gone)
    return clf.state_digest()


def columns(X):
    return dict(zip("abcde", X.T, strict=False))


def untidy(X):
    """CSR with its columns backwards and zeros written out."""
    n, d = X.shape
    return sparse.csr_array((X[:, ::-1].ravel(), np.tile(np.arange(d)[::-1], n), np.arange(0, n * d + 1, d)), (n, d))


CONTAINERS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "float32": lambda X: X.astype(np.float32),
    "float32 F": lambda X: np.asfortranarray(X, dtype=np.float32),
    "big-endian": lambda X: X.astype(">f8"),
    "longdouble": lambda X: X.astype(np.longdouble),
    "read-only": lambda X: np.frombuffer(X.tobytes()).reshape(X.shape),
    "lists": lambda X: X.tolist(),
    "object": lambda X: X.astype(object),
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "csr matrix, float32": lambda X: sparse.csr_matrix(X.astype(np.float32)),
    "lil": sparse.lil_matrix,
    "csr, unsorted with zeros": lambda X: untidy(X),
    "pandas": lambda X: pd.DataFrame(columns(X)),
    "pandas, mixed": lambda X: pd.DataFrame(columns(X)).astype({"a": np.float32, "c": "Float64"}),
    "pandas, odd index": lambda X: pd.DataFrame(columns(X), index=np.arange(len(X))[::-1] * 3),
    "polars": lambda X: pl.DataFrame(columns(X)),
    "pyarrow": lambda X: pa.table(columns(X)),
    "pyarrow, chunked": lambda X: pa.concat_tables([pa.table(columns(part)) for part in np.array_split(X, 7)]),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("sizes", [{}, {"block_rows": 16, "chunk_rows": 5}])
def test_containers(stream, container, sizes):
    X, y, gone, expected = stream
    assert digest_after(CONTAINERS[container](X), y, gone, **sizes) == expected


COLUMNS = {
    "list": list,
    "tuple": tuple,
    "int8": lambda v: np.asarray(v, dtype=np.int8),
    "uint64": lambda v: np.asarray(v, dtype=np.uint64),
    "object": lambda v: np.asarray(v, dtype=object),
    "pandas": pd.Series,
    "polars": lambda v: pl.Series(list(v)),
    "pyarrow": lambda v: pa.array(v),
    "pyarrow, chunked": lambda v: pa.chunked_array([v[:100], v[100:]]),
}


@pytest.mark.parametrize("column", [c for c in COLUMNS if c != "object"])  # scikit-learn takes objects for strings
def test_containers_of_labels(stream, column):
    X, y, gone, expected = stream
    assert digest_after(X, COLUMNS[column](y), gone) == expected


@pytest.mark.parametrize("column", [c for c in COLUMNS if c != "int8"])
def test_containers_of_ids(stream, column):
    X, y, gone, expected = stream
    put = COLUMNS[column]
    ids = put(np.arange(260))
    shorter = gone if column == "pyarrow, chunked" else put(np.array(gone))
    assert digest_after(X, y, shorter, ids=ids) == expected


def test_subjects_in_any_container(stream):
    X, y, _, _ = stream
    owners = [f"s{i % 11}" for i in range(260)]
    digests = set()
    for put in (list, np.array, lambda v: np.array(v, dtype=object), pd.Series, pl.Series, pa.array, pd.Categorical):
        clf = ErasableClassifier(1.0, threshold=0.08, loss="squared", feature_map=None).fit(X, y, subjects=put(owners))
        clf.forget(subjects=put(["s3", "s4"]))
        digests.add(clf.state_digest())
    assert len(digests) == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n_features", [40, 300])
def test_threads(n_features, threads):
    """Wide enough that BLAS does share the work; compared with one row at a time on one thread."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((900, n_features)) * 0.97 ** np.arange(n_features)
    y = X[:, 0] > 0
    gone = list(range(0, 900, 5))

    def digest(limit, **sizes):
        with threadpool_limits(limit):
            clf = ErasableClassifier(1.0, threshold=0.4, loss="squared", feature_map=None)
            return digest_after(X, y, gone, clf=clf, **sizes)

    expected = digest(1, chunk_rows=64, block_rows=100)
    assert digest(threads) == expected
    assert digest(threads, chunk_rows=333) == expected


def test_models_learning_at_the_same_time(stream):
    """Each gets its digest, and the process its BLAS threads back."""
    X, y, gone, expected = stream

    def blas_threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    with threadpool_limits(2), ThreadPoolExecutor(4) as pool:
        before = blas_threads()
        found = list(pool.map(lambda _: digest_after(X, y, gone, block_rows=20, chunk_rows=5), range(24)))
        assert blas_threads() == before == [2] * len(before)
    assert set(found) == {expected}


def test_a_second_fit_starts_from_nothing(stream):
    X, y, gone, expected = stream
    clf = ErasableClassifier(1.0, threshold=0.08, loss="squared", feature_map=None).fit(
        X[::-1], y, ids=np.arange(1000, 1260)
    )
    clf.forget(ids=[1000])
    clf.fit(X, y)
    clf.forget(ids=gone)
    assert clf.state_digest() == expected


# -- naming the threshold ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("numerator", "root"), [(0, 1), (1, 1), (1, 2), (1, 4), (3, 4), (1, 8), (5, 16)])
@pytest.mark.parametrize("horizon", [2, 3, 10, 1000, 249_215, 10**9, 2**53 + 1])
def test_the_threshold_is_the_correctly_rounded_power(horizon, numerator, root):
    """``tau = T ** -(numerator / root)``: the float on either side is farther away, compared as integers."""
    if numerator == 0:
        capacity, kappa = 0.5, 0.0
    else:
        capacity, kappa = 0.25, numerator / root
    tau = (
        ErasableClassifier(capacity=capacity, kappa=kappa, horizon=horizon, loss="squared", feature_map=None)
        .fit([[1.0]], [0])
        .threshold_
    )
    below = (Fraction(tau) + Fraction(math.nextafter(tau, 0.0))) / 2
    above = (Fraction(tau) + Fraction(math.nextafter(tau, 2.0))) / 2
    exact = Fraction(1, horizon**numerator)
    assert below**root <= exact <= above**root


@given(st.integers(2, 10**6), st.floats(0.05, 1.0))
def test_only_the_threshold_is_kept_of_kappa_and_horizon(horizon, kappa):
    X, y = np.array([[1.0, 0.2], [0.3, 1.0], [1.0, 1.0]]), [0, 1, 1]
    named = ErasableClassifier(capacity=0.5, kappa=kappa, horizon=horizon, loss="squared", feature_map=None).fit(X, y)
    given_ = ErasableClassifier(capacity=0.5, threshold=named.threshold_, loss="squared", feature_map=None).fit(X, y)
    assert named.state_digest() == given_.state_digest()
    assert named.threshold_ == pytest.approx(horizon**-kappa, rel=1e-14)


def test_the_threshold_does_not_move_with_what_is_learnt_or_forgotten():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)), [0, 1] * 25
    clf = ErasableClassifier(1.0, kappa=0.5, loss="squared", feature_map=None).fit(X, y)
    tau = clf.threshold_
    clf.partial_fit(X + 1.0, y, ids=range(100, 150))
    clf.forget(ids=range(0, 150, 3))
    assert (
        clf.threshold_
        == tau
        == ErasableClassifier(1.0, kappa=0.5, horizon=50, loss="squared", feature_map=None).fit(X[:5], y[:5]).threshold_
    )
