"""The laws on a stream large enough to take every fast path: blocks, stale screens, thousands of rows."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from erasable import ErasableClassifier, learn, verify
from erasable.core.grid import to_grid
from erasable.core.selector import GridRows, select
from erasable.core.sums import empty_gram
from erasable.models.configuration import order_of
from erasable.models.row_source import Rows
from tests.oracle import GrowingInverse, in_turn

N, D = 3000, 40


@pytest.fixture(scope="module")
def stream():
    """Correlated rows with repeats, and labels of four classes."""
    rng = np.random.default_rng(2025)
    mix = np.linalg.qr(rng.standard_normal((D, D)))[0] * np.exp(-np.arange(D) / 8.0)[:, None]
    X = rng.standard_normal((N, D)) @ mix
    X[500:520] = X[3]
    X[900] = 0.0
    y = np.digitize(X @ rng.standard_normal(D), [-0.5, 0.0, 0.5])
    return X, y


@pytest.fixture(scope="module")
def model(stream):
    return ErasableClassifier(capacity=1.0, kappa=0.5, feature_map=None).fit(*stream)


@pytest.mark.parametrize("key", [0, None])
def test_the_core_is_that_of_the_literal_loop_in_integers(stream, key):
    """Half of the rows and of the columns: integers of a growing inverse cost the square of both."""
    X, y = stream[0][: N // 2, : D // 2], stream[1][: N // 2]
    model = ErasableClassifier(capacity=1.0, kappa=0.5, feature_map=None, **order_of(key)).fit(X, y)
    c = model._model.snapshot().configuration
    inverse, rows = GrowingInverse(c.grid.n_columns, c.units), to_grid(X, c.grid).tolist()
    expected = [i for i in in_turn(range(len(X)), key) if inverse.take_if_above(rows[i], c.selection.threshold)]
    assert 0.1 * len(X) < len(expected) < 0.7 * len(X)
    assert model.core_ids_.tolist() == expected


@pytest.mark.parametrize("sizes", [(1, 1), (97, 13), (3000, 3000), (64, 256), (2000, 40)])
def test_block_sizes_and_threads(stream, model, sizes):
    X, y = stream
    block, chunk = sizes
    for threads in (1, 2):
        with threadpool_limits(threads):
            clf = ErasableClassifier(capacity=1.0, kappa=0.5, feature_map=None)
            clf._learn(Rows(X, y), fresh=True, block_rows=block, chunk_rows=chunk)
        assert clf.state_digest() == model.state_digest()


def test_grid_rows_select_as_raw_rows_do(stream, model):
    order = in_turn(range(N), 0)
    X = stream[0][order]
    c = model._model.snapshot().configuration
    for block, chunk in ((None, None), (50, 7)):
        H = empty_gram(c.grid, c.units)
        found = select(
            GridRows(to_grid(X, c.grid), c.grid),
            H,
            0,
            grid=c.grid,
            units=c.units,
            tau=c.selection.threshold,
            block_rows=block,
            chunk_rows=chunk,
        )
        assert [order[i] for i in found.index] == model.core_ids_.tolist()


@pytest.mark.parametrize("order", ["hashed", "given"])
def test_streams_and_forgets_in_any_order(stream, order):
    X, y = stream
    rng = np.random.default_rng(1)
    model = ErasableClassifier(capacity=1.0, kappa=0.5, order=order, feature_map=None).fit(X, y)
    tau = model.threshold_
    # Rows in the order of their turns: of each model, these parts are what one call decides, one after the other.
    turns = np.array(in_turn(range(N), 0)) if order == "hashed" else np.arange(N)
    streamed = ErasableClassifier(capacity=1.0, threshold=tau, order=order, feature_map=None)
    for part in np.array_split(turns, [1, 7, 100, 101, 1500]):
        streamed.partial_fit(X[part], y[part], ids=part)
    assert streamed.state_digest() == model.state_digest()

    gone = rng.permutation(N)[: N // 2]
    for part in np.array_split(gone, 9):
        streamed.forget(ids=part)
    kept = streamed.core_ids_
    assert set(kept) == set(model.core_ids_) - set(gone.tolist())
    survivors = ErasableClassifier(capacity=1.0, threshold=tau, order=order, feature_map=None).fit(
        X[kept], y[kept], ids=kept
    )
    assert survivors.core_ids_.tolist() == kept.tolist()
    assert survivors.state_digest() == streamed.state_digest() == verify(streamed).digest

    again = rng.permutation(gone)
    streamed.partial_fit(X[again], y[again], ids=again)
    survivors.partial_fit(X[again], y[again], ids=again)
    assert streamed.state_digest() == survivors.state_digest() == verify(streamed).digest


def test_continuous_data_needs_no_rationals(stream):
    report = learn(ErasableClassifier(capacity=1.0, kappa=0.5, feature_map=None), *stream)
    assert report.decisions.exact == 0
    assert report.decisions.screened > 500
