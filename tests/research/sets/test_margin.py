"""The Margin set: on the sphere, outside the gap, distributed as drawing and rejecting would."""

import numpy as np
import pytest
from scipy import stats

from erasable.errors import ConfigurationError
from erasable.research.sets import make_margin
from erasable.research.sets import margin as margin_module
from tests.tables.cases import refused


def direction(d, seed=0):
    """The u of this seed: where the mirror sends the first axis."""
    mirror = margin_module._mirror(d, np.random.default_rng(seed))
    return np.eye(d)[0] - 2 * mirror[0] * mirror


SIZES = [1, 2, 3, 4, 10, 100, 3000]
MARGINS = [0, 5e-324, 1e-200, 1e-10, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9, 1 - 1e-12]


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("d", SIZES)
def test_every_row_is_on_the_sphere_and_outside_the_gap(d, margin):
    table = make_margin(300, d, margin, random_state=1)
    X, y = table.X, table.y
    assert X.shape == (300, d)
    assert X.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=0, atol=1e-12)
    along = X @ direction(d, 1)
    assert (np.abs(along) > margin).all()
    assert (np.einsum("ij,j->i", X[:, ::-1], direction(d, 1)[::-1]) * y > margin).all()  # summed in another order
    assert (np.sign(along) == y).all()
    assert set(y.tolist()) == {-1, 1}


@pytest.mark.parametrize(("d", "margin"), [(2, 0), (2, 0.3), (3, 0.2), (5, 0.6), (30, 0.1), (30, 0.4)])
def test_rows_are_distributed_as_by_rejection(d, margin):
    rng = np.random.default_rng(8)
    u = direction(d)
    drawn = rng.standard_normal((400_000 if margin > 0.3 else 40_000, d))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    drawn = drawn[np.abs(drawn @ u) > margin]
    X = make_margin(10_000, d, margin).X
    other = rng.standard_normal(d)  # some direction across u
    for way in (u, other - (other @ u) * u, other):
        assert stats.ks_2samp(X @ way, drawn @ way).pvalue > 1e-3


@pytest.mark.parametrize(("d", "margin"), [(3, 0.9995), (3, 1 - 1e-9), (10, 0.9), (100, 0.5), (700, 0.5), (700, 0.97)])
def test_far_tails_have_the_right_distribution(d, margin):
    """Where next to nothing of the sphere is left, against a numerical integral of the density."""
    X = make_margin(10_000, d, margin).X
    below_widest = -np.expm1(np.linspace(0, 40 / (d - 1) * 2, 200_001))  # 1 - exp(s)
    rest = (1 - margin) * (1 + margin) * (1 + below_widest).clip(0)  # values of 1 - t^2, from the widest down
    t = np.sqrt(1 - rest)
    log_density = (d - 3) / 2 * np.log(np.maximum(rest, 1e-300) / rest[0])
    mass = np.exp(log_density) * np.gradient(t)
    cdf = np.cumsum(mass) / mass.sum()
    found = np.sort(np.abs(X @ direction(d)))
    empirical = np.arange(1, len(found) + 1) / len(found)
    assert np.abs(np.interp(found, t, cdf) - empirical).max() < 0.02


@pytest.mark.parametrize(("d", "margin"), [(2, 0.1), (4, 0.2), (30, 0.1)])
def test_both_ways_of_drawing_agree(d, margin, monkeypatch):
    inverted = make_margin(10_000, d, margin).X
    monkeypatch.setattr(margin_module, "_TAIL", 2.0)
    rejected = make_margin(10_000, d, margin).X
    u = direction(d)
    assert not np.array_equal(inverted, rejected)
    assert stats.ks_2samp(inverted @ u, rejected @ u).pvalue > 1e-3


@pytest.mark.parametrize(("d", "margin"), [(2, 0.1), (5, 0.0), (100, 0.1), (100, 1 - 1e-12)])
def test_heights_can_be_uniform(d, margin):
    table = make_margin(5_000, d, margin, heights="uniform")
    X, y = table.X, table.y
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=0, atol=1e-12)
    along = X @ direction(d)
    assert (np.abs(along) > margin).all()
    assert (np.sign(along) == y).all()
    if margin < 0.9:
        assert stats.kstest(np.abs(along), stats.uniform(margin, 1 - margin).cdf).pvalue > 1e-3
        across = X - np.outer(along, direction(d))
        assert np.abs(across.mean(axis=0)).max() < 0.05


def test_the_seed_decides_everything():
    first, second = make_margin(50, 7), make_margin(50, 7)
    assert first.X.tobytes() == second.X.tobytes()
    assert first.y.tobytes() == second.y.tobytes()
    assert first.X.tobytes() != make_margin(50, 7, random_state=1).X.tobytes()


def test_many_blocks_are_like_one(monkeypatch):
    monkeypatch.setattr(margin_module, "_BLOCK", 64)
    table = make_margin(1001, 10, 0.3)
    X, y = table.X, table.y
    assert ((X @ direction(10)) * y > 0.3).all()
    assert len(np.unique(X, axis=0)) == 1001


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"n_samples": 0}, "n_samples"),
        ({"n_samples": 2.0}, "n_samples"),
        ({"n_features": 0}, "n_features"),
        ({"margin": 1}, "below 1"),
        ({"margin": 1.5}, "1.5"),
        ({"margin": -0.1}, "at least 0"),
        ({"margin": np.nextafter(1, 0)}, "rounding"),
        ({"margin": "0.1"}, "margin"),
        ({"heights": "normal"}, "heights must be 'sphere' or 'uniform'; got 'normal'"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_parameters_are_refused(arguments, says):
    with refused(ConfigurationError, says):
        make_margin(**{"n_samples": 5, "n_features": 3, **arguments})
