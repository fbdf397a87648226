"""Plans for regressions: R² and the mean absolute error, in the units of the targets."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import make_friedman1

from erasable import ErasableRegressor, plan
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.operations.plan import EFFORTS, METRICS, draw_frontier
from erasable.operations.plan.deletions import STEPS, draw_requests, simulate
from erasable.operations.plan.rows import HeldOut, check_sample
from tests.operations.plan.conftest import QUICK


def rows(n=1500, seed=0):
    """Friedman's rows; the last 3,000 are for measuring."""
    X, y = make_friedman1(n + 3000, noise=1.0, random_state=seed)
    return X[:n], y[:n], X[n:], y[n:]


OPTIONS = {"target_range": (-10, 40), "scaling": 3.0, "effort": "quick"}


@pytest.fixture(scope="module")
def found():
    X, y, _, _ = rows()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EFFORTS, "quick", QUICK)  # predictions are compared with what they predict
        return plan(X, y, **OPTIONS, max_loss=0.02, deletions_per_month=20, months=12)


def build(line):
    return eval(line, {"ErasableRegressor": ErasableRegressor})


def test_the_line_builds_what_was_predicted(found):
    X, y, X_test, y_test = rows()
    r, reg = found.recommended, build(found.line).fit(X, y)
    assert reg.get_params()["target_range"] == (-10, 40)
    assert (reg.n_core_, reg.stored_bytes_) == (r.stored_rows, r.stored_bytes)
    assert r.core_rows == (reg.n_core_,)
    assert r.value.mean == pytest.approx(reg.score(X_test, y_test), abs=0.05)
    assert r.scores["mae"] == pytest.approx(np.abs(reg.predict(X_test) - y_test).mean(), rel=0.05)
    others = np.setdiff1d(np.arange(len(X)), reg.core_ids_)
    assert r.final == pytest.approx(reg.score(X[others], y[others]))
    assert found.reference - r.value.mean <= 0.02
    assert found.constant == 0.0


def test_next_to_each_candidate_stands_the_same_model_of_every_row(found):
    X, y, X_test, y_test = rows()
    kept = {name: found.parameters[name] for name in ("target_range", "scaling", "capacity")}
    reg = ErasableRegressor(**kept, selection="independent", rate=1.0, feature_map=None).fit(X, y)
    assert reg.n_core_ == len(X)
    assert found.recommended.all_rows == pytest.approx(reg.score(X_test, y_test), abs=0.05)


def test_records_tables_and_the_picture_are_as_for_classes(found, tmp_path):
    plain = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert plain["parameters"]["target_range"] == [-10, 40]
    assert plain["line"] == found.line
    assert set(plain["recommended"]["scores"]) == {"r2", "mae"}
    assert {c["parameters"]["selection"] for c in plain["candidates"]} == {"leverage", "independent"}
    assert "R²" in found.table().head
    assert "of the rarest class" not in found.table().head
    shown = {row[0]: row[1] for row in found.predictions().rows}
    assert shown["mean absolute error"] == f"{found.recommended.scores['mae']:.4f}"
    assert found.survival.unit == "rows"
    assert found.survival.lasting >= 240
    assert "R² on rows not learnt" in draw_frontier(found, tmp_path)


def test_errors_are_in_the_units_of_the_targets():
    X, y, X_test, y_test = rows()
    r2 = plan(X, y, **OPTIONS)
    for unit in (1.0, 1000.0):
        options = {**OPTIONS, "target_range": (-10 * unit, 40 * unit)}
        found = plan(X, unit * y, **options, metric="mae", max_loss=0.1 * unit, max_stored=0.5)
        r, reg = found.recommended, build(found.line).fit(X, unit * y)
        assert r.value.mean == pytest.approx(np.abs(reg.predict(X_test) - unit * y_test).mean(), rel=0.1)
        assert r.value.mean - found.reference <= 0.1 * unit
        assert found.constant == pytest.approx(np.abs(unit * y - np.median(unit * y)).mean(), rel=0.1)
        assert r.scores["r2"] == pytest.approx(r2.recommended.value.mean, abs=0.05)
        text = {row[0]: row[1] for row in found.predictions().rows}["mean absolute error"]
        assert re.match(r"\d\.\d{4} \(" if unit == 1.0 else r"\d,\d{3}\.\d \(", text)


def test_several_targets_are_planned_for_together():
    X, y, X_test, y_test = rows()
    both, both_test = np.stack([y, 5 * X[:, 0]], axis=1), np.stack([y_test, 5 * X_test[:, 0]], axis=1)
    ranges = [(-10, 40), (0, 5)]
    found = plan(X, both, **{**OPTIONS, "target_range": ranges}, ids=np.arange(len(X)))
    reg = build(found.line).fit(X, both, ids=np.arange(len(X)))
    assert "target_range=[(-10, 40), (0, 5)]" in found.line
    assert (reg.n_core_, reg.stored_bytes_) == (found.recommended.stored_rows, found.recommended.stored_bytes)
    expected = metrics.r2_score(both_test, reg.predict(X_test))
    assert found.recommended.value.mean == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("metric", ["r2", "mae"])
def test_simulated_losses_are_those_of_refits_on_the_survivors(metric):
    """The oracle learns the surviving core rows afresh after every step, and asks scikit-learn how good that is."""
    X, y, X_test, y_test = rows(n=400)
    model = ErasableRegressor((-10, 40), capacity=0.1, threshold=0.1, scaling=3.0, feature_map=None)
    sample = check_sample(X, y, model=model)
    reg = ErasableRegressor(**model.get_params()).fit(X, y)
    options = {"metric": METRICS[metric], "max_loss": 1e9, "rng": np.random.default_rng(7)}
    run = simulate(reg, sample, HeldOut(X_test, y_test), "uniform", **options)
    order, ends = draw_requests(reg, sample, "uniform", np.random.default_rng(7))

    def worse(kept):
        """By scikit-learn, so that more is worse."""
        refit = ErasableRegressor(**model.get_params()).fit(X[kept], y[kept], ids=kept) if len(kept) else None
        if metric == "r2":
            return -metrics.r2_score(y_test, refit.predict(X_test)) if refit else 0.0
        predicted = refit.predict(X_test) if refit else np.full(len(y_test), np.median(y_test))
        return metrics.mean_absolute_error(y_test, predicted)

    share, lost, before = [0.0], [0.0], worse(reg.core_ids_)
    for step in np.unique(np.maximum(1, np.round(STEPS * len(ends)).astype(int))):
        share.append(step / len(ends))
        lost.append(worse(np.setdiff1d(reg.core_ids_, order[: ends[step - 1]])) - before)
    assert run.loss == pytest.approx(np.interp(STEPS, share, lost), abs=1e-7)
    assert max(lost) > 0.1


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("metric", "max_loss"), [("r2", 0.01), ("mae", 0.01)])
def test_a_constant_is_never_recommended(metric, max_loss):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), rng.standard_normal(300)
    with pytest.raises(ConfigurationError, match=r"no candidate is better than a constant: .*What would do: .*scaling"):
        plan(X, y, target_range=(-6, 6), metric=metric, max_loss=max_loss, effort="quick")


def test_a_loss_that_a_constant_would_have_is_not_tolerated():
    X, y, _, _ = rows()
    with pytest.raises(ConfigurationError, match=r"max_loss=50 would recommend a model that is no better") as refused:
        plan(X, y, **OPTIONS, metric="mae", max_loss=50)
    text = str(refused.value)
    assert re.search(r"metric='r2' with max_loss=0\.\d+ \(0\.\d+, a constant 0\.0000\)", text)
    found = plan(X, y, **OPTIONS, metric="mae", max_loss=float(re.search(r"max_loss=([\d.]+), half", text)[1]))
    assert found.constant - found.recommended.value.mean >= (found.constant - found.reference) / 2


def test_a_core_of_a_few_rows_is_no_plan():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    with pytest.raises(ConfigurationError, match=r"stores too few rows: the closest .* core rows; 10 are") as refused:
        plan(X, 3 * X[:, 0], target_range=(-20, 20), scaling=5.0, max_loss=0.2, max_stored=0.02, effort="quick")
    storage = float(re.search(r"would do: max_stored=([\d.]+)", str(refused.value))[1])
    found = plan(X, 3 * X[:, 0], target_range=(-20, 20), scaling=5.0, max_loss=0.2, max_stored=storage, effort="quick")
    assert found.recommended.stored_rows >= 10


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"target_range": (0, 10)}, InputError, "of 200 targets are outside of the declared range"),
        ({"target_range": (10, 0)}, ConfigurationError, "lower end first"),
        ({"target_range": [(0, 40), (0, 40)]}, ConfigurationError, "one pair for each of the 1 targets"),
        ({"target_range": "wide"}, ConfigurationError, "target_range must be a pair"),
        ({"y": np.ones(200)}, InputError, "the same for all rows"),
        ({"y": np.stack([np.arange(200.0), np.ones(200)], axis=1) / 10}, InputError, "a target is the same"),
        ({"y": ["a"] * 200}, InputTypeError, "y must hold real numbers"),
        ({"y": np.full(200, np.nan)}, InputError, "NaN"),
        ({"metric": "auc"}, ConfigurationError, "metric must be one of 'r2', 'mae'"),
        ({"metric": "mae"}, ConfigurationError, "so max_loss= has no default"),
        ({"metric": "mae", "max_loss": -1.0}, ConfigurationError, "max_loss must be"),
        ({"max_loss": 2.0}, ConfigurationError, "max_loss must be a number above 0 and at most 1"),
        ({"distribution": "label"}, ConfigurationError, "are for classes, and target_range= makes a regression"),
        ({"delete_label": 3}, ConfigurationError, "are for classes"),
        ({"target_range": None, "metric": "r2"}, ConfigurationError, "declare with target_range="),
        ({"target_range": None}, InputError, "Unknown label type: continuous.*target_range="),
        ({"n": 20}, InputError, "at least 50 rows"),
    ],
)
def test_bad_input_is_refused_with_a_reason(change, error, message):
    X, y, _, _ = rows(n=change.pop("n", 200))
    y = change.pop("y", y)
    with pytest.raises(error, match=message):
        plan(X, y, **{**OPTIONS, **change})
