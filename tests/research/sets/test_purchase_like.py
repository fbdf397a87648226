"""Made-up market baskets: binary, sparse, balanced, labelled by a rule that no row has a say in."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression

from erasable.errors import ConfigurationError
from erasable.research.sets import make_purchase_like, purchase
from tests.tables.cases import refused

TABLE = make_purchase_like(8000)


def shop(d=600, tastes=8, seed=0):
    return purchase._open_shop(d, tastes, np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0]))


def test_form():
    X = TABLE.X
    assert type(X) is sp.csr_array
    assert X.shape == (8000, 600)
    assert X.dtype == np.float32
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert set(X.data.tolist()) == {1.0}
    assert X.has_canonical_format
    X.check_format(full_check=True)
    assert (TABLE.name, TABLE.fitted, TABLE.ids, TABLE.subjects) == ("purchase-like", "", None, None)


def test_baskets_look_like_baskets():
    sizes = np.diff(TABLE.X.indptr)
    assert 1 <= sizes.min() < 10
    assert 80 < sizes.max() < 125
    assert 0.05 < sizes.mean() / 600 < 0.1
    popularity = np.sort(TABLE.X.mean(axis=0))[::-1]
    assert popularity[0] > 0.8
    assert popularity[300] < 0.06
    assert popularity[-1] > 0


@pytest.mark.parametrize("seed", range(8))
def test_both_classes_are_large_enough_to_delete_80_000_rows_of_one(seed):
    y = make_purchase_like(3000, random_state=seed).y
    assert set(y.tolist()) == {-1, 1}
    assert 0.4 < (y == -1).mean() < 0.6


def test_labels_are_the_nearer_of_two_population_means():
    """The means of the generator are those of a large sample, and the label is the nearer one."""
    rule = shop(20)
    table = make_purchase_like(100_000, 20)
    X, y = table.X, table.y
    assert len(y) < purchase._BLOCK // 20  # one block, and what its shoppers are is drawn first
    rng = np.random.default_rng(np.random.SeedSequence(0).spawn(2)[1])
    kind = rng.choice(len(rule.odds), size=len(y), p=rule.odds)
    high_side = kind * 8 // len(rule.odds) >= 4
    low, high = X[~high_side].mean(axis=0), X[high_side].mean(axis=0)
    np.testing.assert_allclose(high - low, rule.weights, atol=0.01)
    assert abs((high @ high - low @ low) / 2 - rule.offset) < 0.005
    dense = X.toarray()
    nearer = ((dense - high) ** 2).sum(axis=1) < ((dense - low) ** 2).sum(axis=1)
    assert (np.where(nearer, 1, -1) == y).mean() > 0.97


def test_labels_are_linear_and_two_means_finds_them():
    model = LogisticRegression(C=1e4, max_iter=2000).fit(TABLE.X, TABLE.y)
    assert model.score(TABLE.X, TABLE.y) > 0.999
    cluster = KMeans(2, n_init=3, random_state=0).fit_predict(TABLE.X) * 2 - 1
    assert abs((cluster * TABLE.y).mean()) > 0.7  # agrees on 85% or more


def test_the_rule_does_not_depend_on_the_rows():
    rule = shop()
    for n in (1, 500):
        table = make_purchase_like(n)
        X, y = table.X, table.y
        assert y.tolist() == np.where(X @ rule.weights > rule.offset, 1, -1).tolist()


def test_the_seed_decides_everything():
    again, other = make_purchase_like(8000), make_purchase_like(8000, random_state=1)
    assert (again.X != TABLE.X).nnz == 0
    assert again.y.tobytes() == TABLE.y.tobytes()
    assert (other.X != TABLE.X).nnz > 0


@pytest.mark.parametrize(("d", "tastes"), [(2, 2), (3, 8), (10, 4), (600, 2), (1500, 20)])
def test_other_sizes(d, tastes):
    table = make_purchase_like(400, d, n_tastes=tastes)
    X, y = table.X, table.y
    assert X.shape == (400, d)
    assert np.diff(X.indptr).min() >= 1
    assert len(y) == 400


def test_many_blocks(monkeypatch):
    monkeypatch.setattr(purchase, "_BLOCK", 6000)
    table = make_purchase_like(1234)
    assert table.n_rows == 1234
    table.X.check_format(full_check=True)
    assert np.diff(table.X.indptr).min() >= 1


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        ({"n_samples": 0}, ConfigurationError, "n_samples"),
        ({"n_features": 1}, ConfigurationError, "at least 2"),
        ({"n_features": 6.0}, ConfigurationError, "n_features"),
        ({"n_tastes": 3}, ConfigurationError, "even"),
        ({"n_tastes": 0}, ConfigurationError, "n_tastes"),
        ({"random_state": "0"}, ConfigurationError, "random_state"),
    ],
)
def test_bad_parameters_are_refused(arguments, kind, says):
    with refused(kind, says):
        make_purchase_like(**{"n_samples": 5, **arguments})
