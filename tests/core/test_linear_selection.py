"""One reading of the parameters of the linear selection: whoever selects by leverage selects alike."""

from __future__ import annotations

import math

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableGeneralClassifier
from erasable.classes import KernelBall, LinearBall
from erasable.core.grid import Grid, check_scaling, described_scaling, plain_scaling, read_scaling
from erasable.core.kernels import Points
from erasable.core.selector import grid_of, selecting_units
from erasable.core.sums import regulariser
from erasable.coresets import LeverageThreshold
from erasable.errors import ConfigurationError
from tests.estimators.cases import make_rows

OPTIONS = {
    "row": {"scaling": "row"},
    "number": {"scaling": np.float32(64.0)},
    "integer": {"scaling": 64},
    "scales": {"scaling": np.array([1, 2, 3])},
    "list": {"scaling": [1.5, 2, np.float32(3)]},
    "no intercept": {"fit_intercept": np.False_},
    "bits": {"grid_bits": np.int64(9)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_model_map_and_class_select_the_same_rows(name):
    options = {"fit_intercept": True, **OPTIONS[name]}
    X, y = make_rows(d=3)
    core = ErasableClassifier(1.5, threshold=0.02, **options, order="given", feature_map=None).fit(X, y)
    chosen = LeverageThreshold(0.02, 1.5, **options).select(X, y, range(len(X)))
    ball = LinearBall(math.sqrt(1 / (4 * 1.5)), **options)
    general = ErasableGeneralClassifier(ball, threshold=0.02, order="given").fit(X, y)
    assert 3 < len(chosen) < len(X)
    assert core.core_ids_.tolist() == chosen.tolist() == general.core_ids_.tolist()
    grid = grid_of(3, **{"scaling": "row", "grid_bits": 15, **options})
    assert core._model.configuration.grid == grid == ball.grid(3)


WRONG = {
    "scaling": ["column", 0.0, -1, math.nan, True, 1j, [], [1.0, 0.0, 1.0], [1.0, math.inf, 1.0], [[1.0]], ["a"], ...],
    "fit_intercept": [1],
    "grid_bits": [3, 21, 15.0],
    "capacity": [1e-300, 1e300, 0],
}
WRONG["scaling"] += [np.float64(0.0), np.array(2.0)]


@pytest.mark.parametrize("wrong", [{name: value} for name, values in WRONG.items() for value in values], ids=str)
def test_what_one_refuses_all_refuse_in_the_same_words(wrong):
    X, y = make_rows(d=3)
    with pytest.raises(ConfigurationError) as of_model:
        ErasableClassifier(threshold=0.01, **wrong, feature_map=None).fit(X, y)
    with pytest.raises(ConfigurationError) as of_map:
        LeverageThreshold(0.01, **wrong).select(X, y, range(len(X)))
    assert str(of_map.value).replace("1 features", "3 features") == str(of_model.value)
    if "capacity" not in wrong:
        with pytest.raises(ConfigurationError) as of_class:
            LinearBall(**wrong)
        assert str(of_class.value) == str(of_map.value)


def test_a_threshold_that_nothing_exceeds_is_refused_with_the_callers_words():
    grid = Grid(3)
    assert selecting_units(2.0, 0.49, grid) == regulariser(2.0, grid)
    with pytest.raises(
        ConfigurationError, match=r"nothing could ever be selected: .*1 / capacity = 0.5 .* and mine is 0.5. Do so."
    ):
        selecting_units(2.0, 0.5, grid, threshold="mine", advice="Do so.")
    with pytest.raises(ConfigurationError, match=r"the threshold is 0.5. Lower the threshold or the capacity."):
        LeverageThreshold(0.5, 2.0)
    with pytest.raises(ConfigurationError, match=r"horizon \*\* -kappa for n_samples = 60, is 1. Lower capacity below"):
        ErasableClassifier(1.0, kappa=0.0, feature_map=None).fit(*make_rows(60))


@pytest.mark.parametrize(
    ("given", "plain", "written"),
    [
        (None, None, None),
        ("row", "row", "row"),
        (np.int32(2), 2.0, "0x1.0000000000000p+1"),
        ([1, 0.5], (1.0, 0.5), ["0x1.0000000000000p+0", "0x1.0000000000000p-1"]),
    ],
)
def test_a_scaling_is_made_plain_and_written_and_read(given, plain, written):
    found = plain_scaling(given)
    assert found == plain
    assert type(found) is type(plain)
    assert described_scaling(found) == written
    assert read_scaling(written) == plain
    check_scaling(found, 2, by_row=True)


def test_an_integer_that_would_not_have_scaled_is_refused():
    """Where plain numbers are expected: it used to be taken and then ignored."""
    for make in (Grid, Points):
        with pytest.raises(ConfigurationError, match="scaling must be"):
            make(2, 12, scaling=3)


def test_kernels_know_no_division_by_the_norm():
    with pytest.raises(ConfigurationError, match="scaling must be None, a positive number or one positive number per"):
        KernelBall(scaling="row")
    with pytest.raises(ConfigurationError, match="2 scales for 3 features"):
        KernelBall(scaling=[1.0, 2.0]).empty(3)
