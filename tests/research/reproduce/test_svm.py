"""Figure 1 is computed, not drawn by hand."""

import numpy as np
import pytest

from erasable.research.reproduce.figures import figure_1


@pytest.fixture(scope="module")
def figure():
    return figure_1()


@pytest.mark.parametrize("which", ["before", "traditional", "system_aware"])
def test_each_separator_is_a_hard_margin_machine_of_its_points(figure, which):
    s = getattr(figure, which)
    everything = np.arange(len(figure.y))
    seen = {
        "before": everything,
        "traditional": np.setdiff1d(everything, [figure.deleted]),
        "system_aware": np.setdiff1d(figure.before.support, [figure.deleted]),
    }[which]
    margin = figure.y[seen] * (figure.X[seen] @ s.w + s.b)
    assert margin.min() == pytest.approx(1.0, abs=1e-5)
    holding = figure.y[s.support] * (figure.X[s.support] @ s.w + s.b)
    assert holding == pytest.approx(1.0, abs=1e-5)
    # No other separator is wider: w is a combination of the support vectors with coefficients of the right sign.
    Z = (figure.y[s.support, None] * figure.X[s.support]).T
    weights = np.linalg.lstsq(np.vstack([Z, figure.y[s.support]]), np.append(s.w, 0.0), rcond=None)[0]
    assert weights.min() >= -1e-6
    assert Z @ weights == pytest.approx(s.w, abs=1e-4)


def test_the_deleted_point_held_the_boundary_and_its_leaving_draws_a_new_one_in(figure):
    assert figure.deleted in figure.before.support
    assert len(figure.newly_supporting) >= 1
    assert figure.deleted not in figure.traditional.support
    assert set(figure.system_aware.support) <= set(figure.before.support)
    assert abs(figure.before.angle - figure.traditional.angle) > 10.0
