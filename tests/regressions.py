"""Regressions to learn: settings of the linear model with ranges, and rows with targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from erasable import ErasableRegressor
from tests.regression_oracle import RegressionOracle
from tests.strategies import Batch, Setting, problems

RANGES = [
    (-1.0, 1.0),
    (0.0, 400.0),
    (-1e-9, 3e-9),
    (1e6, 1e6 + 1.0),
    (-1e300, 1e300),
    (1.0, 1.0 + 2.0**-52),
    (3.0, 4.0),
]


@dataclass(frozen=True)
class Regression:
    """Parameters of a regression, for the estimator and for the oracle."""

    setting: Setting
    ranges: tuple[tuple[float, float], ...]

    def regressor(self) -> ErasableRegressor:
        given, taken = self.setting.classifier().get_params(), ErasableRegressor().get_params()
        shared = {name: value for name, value in given.items() if name in taken}
        return ErasableRegressor(self.ranges if len(self.ranges) > 1 else self.ranges[0], **shared)

    estimator = regressor

    def oracle(self) -> RegressionOracle:
        return RegressionOracle.of_setting(self.setting, self.ranges)

    def targets(self) -> Any:
        """A strategy for what a row answers: one number, or a tuple of several."""
        each = [
            st.one_of(st.sampled_from([*ends, ends[0] / 2 + ends[1] / 2]), st.floats(*ends)) for ends in self.ranges
        ]
        return st.tuples(*each) if len(each) > 1 else each[0]


@st.composite
def regressions(draw: Any, **options: Any) -> tuple[Regression, Batch]:
    """A regression and rows to learn with it."""
    setting, batch = draw(problems(weighted=True, **options))
    plain = replace(setting, classes=None, class_weight=None)
    made = Regression(plain, tuple(draw(st.lists(st.sampled_from(RANGES), min_size=1, max_size=3))))
    y = draw(st.lists(made.targets(), min_size=len(batch), max_size=len(batch)))
    return made, replace(batch, y=y)


def tasks(losses: Any = None, **options: Any) -> Any:
    """A classification or a regression, and rows to learn with it."""
    return st.one_of(problems(weighted=True, losses=losses, **options), regressions(**options))
