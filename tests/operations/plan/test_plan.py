"""Plans: the same for the same seed, close to what a fit gives, without rows, and refused for a stated reason."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import io
import itertools
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import metrics

from erasable import ErasableClassifier
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.operations.plan import (
    DISTRIBUTIONS,
    EFFORTS,
    METRICS,
    Plan,
    draw_frontier,
    plan,
)
from erasable.operations.plan.candidates import SelectionScore, head_of, maker, rows_at
from erasable.operations.plan.deletions import STEPS, Run, crossing, draw_requests, simulate, survival
from erasable.operations.plan.rows import CLASSES, HeldOut, check_sample
from erasable.operations.plan.search import Planner, why_not
from erasable.research.sets import make_margin
from tests.operations.plan.conftest import QUICK


def rows(n=3000, d=8, seed=0, noise=0.3):
    """Rows that a plane divides, up to noise in the labels near it; the last 1,000 are for measuring."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 1000, d))
    y = X[:, 0] + 0.5 * X[:, 1] + noise * rng.standard_normal(n + 1000) > 0
    return X[:n], y[:n], X[n:], y[n:]


@pytest.fixture(scope="module")
def easy():
    X, y, X_test, y_test = rows()
    subjects = np.arange(len(X)) % 300
    found = plan(X, y, subjects=subjects, distribution="uniform", deletions_per_month=50, months=12, effort="quick")
    return found, X, y, X_test, y_test


def test_notebooks_show_the_recommended_model_what_to_expect_and_all_warnings(easy):
    found = easy[0]
    shown = html.unescape(found._repr_html_())
    assert found.line in shown
    assert all(value in shown for _, value, _ in found.predictions().rows)
    assert all(text in shown for text in found.warnings)


def build(line):
    return eval(line, {"ErasableClassifier": ErasableClassifier})


# -- laws ----------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_plan_and_another_seed_another(easy):
    found, X, y, *_ = easy
    subjects = np.arange(len(X)) % 300
    options = {"subjects": subjects, "distribution": "uniform", "deletions_per_month": 50, "effort": "quick"}
    assert plan(X, y, **options, months=12) == found
    assert plan(X, y, **options, months=12, random_state=1) != found


def test_the_line_builds_what_was_predicted(easy):
    found, X, y, X_test, y_test = easy
    clf = build(found.line).fit(X, y)
    assert clf.n_core_ == found.recommended.stored_rows
    assert clf.stored_bytes_ == found.recommended.stored_bytes
    value = found.recommended.value
    assert abs(metrics.roc_auc_score(y_test, clf.predict_proba(X_test)[:, 1]) - value.mean) < 0.03
    assert value.mean == found.recommended.scores["auc"]
    assert value.low <= value.mean <= value.high
    assert found.reference - value.mean <= 0.01
    assert found.recommended.seconds_per_deletion > 0.0


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("distribution", ["uniform", "label", "worst"])
def test_simulated_losses_are_those_of_refits_on_the_survivors(loss, distribution):
    """The oracle learns the surviving core rows afresh after every step, and asks scikit-learn how good that is."""
    X, y, X_test, y_test = rows(n=600, noise=0.5)
    sample = checked(X, y)
    parameters = {"loss": loss, "capacity": 0.1, "threshold": 0.1}
    clf = ErasableClassifier(**parameters, feature_map=None).fit(X, sample.y)
    options = {"metric": METRICS["auc"], "max_loss": 0.05, "rng": np.random.default_rng(7)}
    run = simulate(clf, sample, HeldOut(X_test, y_test.astype(np.intp)), distribution, **options)
    order, ends = draw_requests(clf, sample, distribution, np.random.default_rng(7))

    def area(kept):
        if len(set(sample.y[kept].tolist())) < 2:
            return 0.5
        refit = ErasableClassifier(**parameters, feature_map=None).fit(X[kept], sample.y[kept], ids=kept)
        assert refit.n_core_ == len(kept)
        return metrics.roc_auc_score(y_test, refit.predict_proba(X_test)[:, 1])

    share, lost, before = [0.0], [0.0], area(clf.core_ids_)
    for step in np.unique(np.maximum(1, np.round(STEPS * len(ends)).astype(int))):
        share.append(step / len(ends))
        lost.append(before - area(np.setdiff1d(clf.core_ids_, order[: ends[step - 1]])))
        if lost[-1] >= 0.25:
            break
    assert run.loss == pytest.approx(np.interp(STEPS, share, lost), abs=1e-9)
    assert len(lost) > 10


def test_nothing_of_the_rows_is_in_a_plan():
    X, _, _, _ = rows(n=400)
    y = np.where(X[:, 0] > 0, "secret-yes", "secret-no")
    subjects = [f"patient-{i % 80}" for i in range(len(X))]
    found = plan(X, y, subjects=subjects, distribution="label", delete_label="secret-yes", effort="quick")
    texts = [pickle.dumps(found), json.dumps(found.as_json()).encode(), repr(found).encode()]
    texts += [found.table().markdown().encode(), found.predictions().markdown().encode()]
    for text in texts:
        assert b"secret" not in text
        assert b"patient" not in text
        assert not any(value.tobytes() in text for value in X[:, 1])
        assert not any(repr(float(value)).encode() in text for value in X[:, 1])


def test_the_rows_are_left_as_they_were_and_containers_do_not_matter():
    X, y, _, _ = rows(n=1000)
    X[np.abs(X) < 0.5] = 0.0
    before = X.copy()
    dense = plan(X, y, effort="quick", max_loss=0.05)
    assert np.array_equal(X, before)
    assert plan(sp.csr_array(X), y, effort="quick", max_loss=0.05) == dense


def test_a_plan_is_frozen_and_its_json_is_plain(easy):
    found = easy[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.rows = 1
    plain = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert plain["parameters"] == plain["recommended"]["parameters"] == found.parameters
    assert plain["line"] == found.line
    assert len(plain["candidates"]) > len(found.frontier) > 1
    assert set(plain["recommended"]["scores"]) == set(CLASSES.metrics)
    assert plain["targets"]["deletions_per_month"] == 50
    assert plain["months_until_refresh"] == found.survival.deletions / 50


def test_tables_say_where_each_number_comes_from(easy):
    found = easy[0]
    assert [row[0] for row in found.table().rows].count("→") == 1
    text = found.predictions().markdown()
    for word in ("simulated", "measured on rows not learnt", "measured on all rows"):
        assert word in text


def test_progress_is_told(easy):
    _, X, y, *_ = easy
    seen = []
    plan(X[:300], y[:300], effort="quick", max_loss=0.1, progress=lambda *told: seen.append(told))
    assert {what for what, _, _ in seen} == {
        *("trying candidates", "scoring again", "simulating deletions", "comparing selections")
    }
    assert all(0 <= done <= total for _, done, total in seen)


# -- what may be recommended -----------------------------------------------------------------------------------------


def rare(n=2000, seed=0):
    """Rows of which 7% are positive, and hardly one so clearly that a linear rule says so."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    return X, X[:, 0] + rng.standard_normal(n) > 2.1


def test_a_few_rows_of_one_class_are_no_plan():
    X, y = rare()
    with pytest.raises(ConfigurationError, match=r"no candidate is better than a constant: accuracy is") as refused:
        plan(X, y, effort="quick", metric="accuracy")
    metric = re.search(r"What would do: .*metric='(auc)' \(0\.\d+, a constant 0\.5000\)", str(refused.value)).group(1)
    found = plan(X, y, effort="quick", metric=metric)
    assert found.targets.metric == "auc"
    assert min(found.recommended.core_rows) >= 10
    X_new, y_new = rare(seed=1)
    area = metrics.roc_auc_score(y_new, build(found.line).fit(X, y).predict_proba(X_new)[:, 1])
    assert area == pytest.approx(found.recommended.value.mean, abs=0.05)


def test_a_loss_that_a_constant_would_have_is_not_tolerated():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((120, 5)), 2.0 + rng.standard_normal((1880, 5))])
    y = np.arange(2000) < 120
    with pytest.raises(ConfigurationError, match=r"max_loss=0\.2 would recommend a model that is no better") as refused:
        plan(X, y, effort="quick", max_loss=0.2, metric="accuracy")
    proposed = float(re.search(r"max_loss=([\d.]+), half", str(refused.value)).group(1))
    found = plan(X, y, effort="quick", max_loss=proposed, metric="accuracy")
    assert found.recommended.value.mean - found.constant >= (found.reference - found.constant) / 2


def test_a_class_that_the_core_misses_is_no_plan():
    rng = np.random.default_rng(0)
    X = np.concatenate(
        [np.eye(4)[0] + 0.3 * rng.standard_normal((1000, 4)), np.eye(4)[1] + 0.3 * rng.standard_normal((960, 4))]
    )
    X = np.concatenate([X, np.full((40, 4), 1.0) + 0.01 * rng.standard_normal((40, 4))])  # all in one direction
    y = np.repeat([0, 1, 2], [1000, 960, 40])
    with pytest.raises(
        ConfigurationError, match=r"misses a class: the closest \(.*core rows of class \d of 3"
    ) as refused:
        plan(X, y, max_loss=0.03, max_stored=0.2, effort="quick", metric="accuracy", encoded=True)
    proposed = float(re.search(r"What would do: max_stored=([\d.]+)", str(refused.value)).group(1))
    found = plan(X, y, max_loss=0.03, max_stored=proposed, effort="quick", metric="accuracy", encoded=True)
    clf = build(found.line).set_params(feature_map=None).fit(X, y)
    assert found.recommended.core_rows == tuple(np.bincount(y[clf.core_ids_]))
    assert min(found.recommended.core_rows) >= 10


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_recommended_holds_all_classes_and_beats_a_constant(seed):
    rng = np.random.default_rng(seed)
    k, metric = int(rng.integers(2, 5)), list(CLASSES.metrics.values())[seed % 4]
    X = rng.standard_normal((1000, 6)) * np.exp(rng.standard_normal(6))
    y = np.searchsorted(np.sort(rng.uniform(-1.5, 2.5, k - 1)), X[:, 0] / X[:, 0].std() + rng.standard_normal(1000))
    y[:15] = np.arange(15) % k
    try:
        found = plan(X, y, metric=metric.name, max_loss=0.03, effort="quick")
    except ConfigurationError as refused:
        assert "What would do: " in str(refused)  # noqa: PT017
        return
    core = y[build(found.line).fit(X, y).core_ids_]
    there = np.bincount(y, minlength=k)
    assert (np.bincount(core, minlength=k) >= np.where(there > 10, 10, 1)).all()
    r = found.recommended
    assert metric.lost(r.value.mean, found.reference) <= 0.03
    assert metric.lost(found.constant, r.value.mean) > 0.0
    if metric.name == "balanced":  # classes get weights, and the plan says what these do to probabilities
        assert any("not calibrated" in w for w in found.warnings)
    else:
        shares = np.bincount(y) / len(y)
        assert r.scores["logloss"] < -np.sum(shares * np.log(shares))


def test_the_model_of_all_rows_is_judged_too():
    """Parts of the rows may make a model that all of them together do not."""
    X, y, X_test, y_test = rows(n=1000)
    found = plan(X, y, effort="quick", max_loss=0.03, metric="accuracy")
    clf = build(found.line).fit(X, y)
    others = np.setdiff1d(np.arange(1000), clf.core_ids_)
    assert found.recommended.final == pytest.approx(clf.score(X[others], y[others]))
    make = maker(CLASSES, {}, {})
    planner = Planner(checked(X, y), make, found.targets, EFFORTS["quick"], 0, lambda *_: None)
    chosen = planner.search()
    assert planner.is_good(chosen)
    chosen.final = HeldOut(X_test, ~y_test).scores(build(found.line).fit(X, y.astype(int)))  # all wrong
    assert not planner.is_good(chosen)


def test_with_the_ids_of_the_rows_storage_is_exact():
    X, y, _, _ = rows(n=1000)
    ids = [f"row {i * 7919 % 1000}" for i in range(1000)]
    found = plan(X, y, ids=ids, effort="quick", max_loss=0.03)
    clf = build(found.line).fit(X, y, ids=ids)
    assert found.recommended.stored_rows == clf.n_core_
    assert clf.n_core_ != build(found.line).fit(X, y).n_core_


# -- deletions -----------------------------------------------------------------------------------------------------


def checked(X, y, **options):
    return check_sample(X, y, model=ErasableClassifier(feature_map=None), **options)


def learnt(X, y):
    return ErasableClassifier(capacity=0.1, threshold=0.1, feature_map=None).fit(X, y)


def test_each_distribution_deletes_what_it_says():
    X, y, _, _ = rows(n=400)
    weights = np.where(np.arange(400) < 100, 0.0, 1.0 + np.arange(400))
    subjects = [None if i % 7 == 0 else i % 40 for i in range(400)]
    sample = checked(X, y, subjects=subjects, weights=weights, delete_label=True)
    clf = learnt(X, sample.y)
    drawn = {d: draw_requests(clf, sample, d, np.random.default_rng(3)) for d in DISTRIBUTIONS}
    for deleted, ends in drawn.values():
        assert len(set(deleted.tolist())) == len(deleted) == ends[-1]
    assert sorted(drawn["uniform"][0]) == list(range(400))
    assert sorted(drawn["worst"][0]) == sorted(clf.core_ids_)
    assert sorted(drawn["label"][0]) == np.flatnonzero(y).tolist()
    scaled = X / np.linalg.norm(X, axis=1, keepdims=True)
    unusual = (scaled**2 / (scaled**2).mean(axis=0)).sum(axis=1)
    assert sorted(drawn["rarest"][0]) == list(range(400))
    assert (np.diff(unusual[drawn["rarest"][0]]) < 1e-9).all()
    assert min(drawn["weights"][0]) == 100
    assert drawn["weights"][0][:100].mean() > drawn["weights"][0][-100:].mean()
    deleted, ends = drawn["subject"]
    for low, high in zip([0, *ends], ends, strict=False):
        assert len({subjects[i] for i in deleted[low:high]}) == 1
        assert None not in {subjects[i] for i in deleted[low:high]}
    assert len(ends) == len({s for s in subjects if s is not None})


@pytest.mark.parametrize("metric", CLASSES.metrics.values(), ids=list(CLASSES.metrics))
def test_simulating_leaves_the_model_as_it_was_and_ends_at_a_constant(metric):
    X, y, X_test, y_test = rows(n=400)
    sample = checked(X, y)
    clf = learnt(X, sample.y)
    before = clf.state_digest()
    held_out = HeldOut(X_test, y_test.astype(np.intp))
    options = {"metric": metric, "max_loss": 10.0, "rng": np.random.default_rng(0)}
    run = simulate(clf, sample, held_out, "uniform", **options)
    assert clf.state_digest() == before
    P = clf.predict_proba(X_test)
    value, constant = {
        "accuracy": (metrics.accuracy_score(y_test, P[:, 1] > 0.5), max(y_test.mean(), 1 - y_test.mean())),
        "balanced": (metrics.balanced_accuracy_score(y_test, P[:, 1] > 0.5), 0.5),
        "auc": (metrics.roc_auc_score(y_test, P[:, 1]), 0.5),
        "logloss": (-metrics.log_loss(y_test, P), -metrics.log_loss(y_test, np.full(len(y_test), y_test.mean()))),
    }[metric.name]
    assert run.loss[-1] == pytest.approx(value - constant)  # no rows are left
    assert run.rows[-1] == 1.0


def test_a_loss_is_reached_where_it_first_is_whatever_comes_after():
    assert crossing(np.zeros(len(STEPS)), 0.01) == np.inf
    assert crossing(0.1 * STEPS, 0.05) == pytest.approx(0.5)
    bump = 0.1 * STEPS
    bump[3], bump[4] = 0.06, -0.05  # above the tolerance, then below it until half are gone
    assert STEPS[2] < crossing(bump, 0.05) < STEPS[3]


def test_headline_and_picture_give_the_same_number_where_the_loss_is_not_rising(easy, tmp_path, monkeypatch):
    loss = np.interp(STEPS, [0.0, 0.09, 0.15, 0.6, 1.0], [0.0, 0.013, 0.002, 0.004, 0.03])  # up, down and up
    runs = [Run(loss + shift, STEPS) for shift in (-0.001, 0.0, 0.001)]
    found = survival(runs, max_loss=0.01, limit=50_000, unit="rows", horizon=50_000, random_state=0)
    drawn = {}
    monkeypatch.setattr("erasable.operations.plan.report.save", lambda plt, figure, path: drawn.update(it=figure))
    recommended = dataclasses.replace(easy[0].recommended, survival=found)
    draw_frontier(dataclasses.replace(easy[0], recommended=recommended), tmp_path)
    x, y = drawn["it"].axes[2].lines[0].get_data()
    first = int(np.flatnonzero(np.asarray(y) >= 0.01)[0])
    where = np.interp(0.01, y[first - 1 : first + 1], x[first - 1 : first + 1])
    assert found.deletions == pytest.approx(where, abs=2)
    assert found.deletions == pytest.approx(0.09 * 10 / 13 * 50_000, rel=0.05)
    assert found.low <= found.deletions <= found.high


def test_the_picture_is_readable(easy, tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr("erasable.operations.plan.report.save", lambda plt, figure, path: drawn.update(it=figure))
    shares = [0.3 * 0.5**i for i in range(8)]
    wide = sorted(
        (dataclasses.replace(easy[0].recommended, stored_share=s) for s in shares), key=lambda c: c.stored_share
    )
    for distribution in DISTRIBUTIONS:
        targets = dataclasses.replace(easy[0].targets, distribution=distribution)
        draw_frontier(dataclasses.replace(easy[0], targets=targets, candidates=tuple(wide)), tmp_path)
        figure = drawn["it"]
        figure.canvas.draw()
        for axis in figure.axes:
            shown = [t.get_window_extent() for t in axis.get_xticklabels(which="both") if t.get_text()]
            shown = sorted(
                (box for box in shown if axis.bbox.x0 - 1 <= (box.x0 + box.x1) / 2 <= axis.bbox.x1 + 1),
                key=lambda b: b.x0,
            )
            assert len(shown) >= 2
            assert all(a.x1 < b.x0 for a, b in itertools.pairwise(shown))
        title = figure.axes[2].get_xlabel()
        assert "(" not in title
        assert title.split(" ")[0] in ("rows", "subjects", "core")


def test_what_was_never_reached_is_said_as_such():
    table = make_margin(500, 3, margin=0.5)
    X, y = table.X, table.y
    found = plan(X, y, weights=np.arange(500) < 60, effort="quick", max_loss=0.3)
    assert found.survival.deletions is None
    assert found.survival.text() == "never within 60"
    assert any("never reached" in w for w in found.warnings)


def test_whole_subjects_are_planned_for_by_default_where_they_are_known():
    X, y, _, _ = rows(n=800)
    found = plan(X, y, subjects=np.arange(800) // 4, effort="quick", max_loss=0.05)
    assert found.targets.distribution == "subject"
    assert found.survival.unit == "subjects"
    assert found.survival.limit == 200
    assert found.survival.rows == pytest.approx(4 * found.survival.deletions, rel=0.05)


# -- samples -------------------------------------------------------------------------------------------------------


def test_storage_at_a_larger_horizon_is_extrapolated():
    table = make_margin(40_000, 20)
    X, y = table.X, table.y
    clf = ErasableClassifier(threshold=0.015, order="given", feature_map=None).fit(X, y)
    early = clf.core_ids_[clf.core_ids_ < 10_000]
    assert rows_at(early, 10_000, 40_000) == pytest.approx(clf.n_core_, rel=0.1)
    assert rows_at(early, 10_000, 10_000) == len(early)
    found = plan(X[:10_000], y[:10_000], horizon=40_000, effort="quick")
    assert any("extrapolated" in w for w in found.warnings)
    whole = build(found.line).fit(X, y)
    assert found.recommended.stored_rows == pytest.approx(whole.n_core_, rel=0.1)


def test_skewed_classes_are_warned_of():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((200, 20)), 5.0 + 0.1 * rng.standard_normal((1800, 20))])
    y = np.arange(2000) < 200
    order = rng.permutation(2000)
    found = plan(X[order], y[order], effort="quick", max_stored=0.2)
    skewed = dataclasses.replace(found, recommended=dataclasses.replace(found.recommended, core_rows=(30, 30)))
    assert any("classes are skewed in the core set" in w for w in skewed.warnings)
    even = dataclasses.replace(found, recommended=dataclasses.replace(found.recommended, core_rows=(90, 10)))
    assert not any("classes are skewed" in w for w in even.warnings)


# -- selections and heads --------------------------------------------------------------------------------------------


def test_both_selections_and_both_heads_are_tried_and_compared_at_equal_storage(easy):
    found = easy[0]
    tried = {(c.parameters["selection"], c.parameters["loss"]) for c in found.candidates}
    assert tried == {(s, h) for s in ("leverage", "independent") for h in ("squared", "logistic")}
    leverage, alone = found.selections
    assert (leverage.parameters["selection"], alone.parameters["selection"]) == ("leverage", "independent")
    assert leverage.parameters["loss"] == alone.parameters["loss"] == found.parameters["loss"]
    assert leverage.stored_share == pytest.approx(alone.stored_share, rel=0.1)
    assert set(leverage.after) == {"half of all rows", "half of the stored rows", "the rarest tenth"}
    table = found.compared()
    assert [row[0] for row in table.rows] == ["leverage", "independent"]
    assert all(value is None or 0.5 < value < 1.0 for s in found.selections for value in s.after.values())


def test_leverage_that_is_better_at_the_same_storage_is_named(easy):
    plan_found = easy[0]
    leverage, alone = plan_found.selections
    by_rate = dataclasses.replace(plan_found.recommended, parameters=alone.parameters)
    hints = {}
    for area in (0.5, 1.0):
        other = dataclasses.replace(leverage, scores={**leverage.scores, "auc": area})
        hints[area] = dataclasses.replace(plan_found, recommended=by_rate, selections=(other, alone)).warnings
    assert any("is better at the same storage" in w for w in hints[1.0])
    assert not any("same storage" in w for w in hints[0.5])


@pytest.mark.parametrize(("lost", "is_replaced"), [(0.0, True), (0.01, False)])
def test_leverage_is_not_recommended_where_independent_selection_is_as_good(lost, is_replaced):
    X, y, _, _ = rows(n=1000)
    targets = plan(X, y, effort="quick", max_loss=0.03).targets
    planner = Planner(checked(X, y), maker(CLASSES, {}, {}), targets, EFFORTS["quick"], 0, lambda *_: None)
    planner.search()
    leverage_trial = next(
        t for t in planner.by_storage() if planner.is_able(t) and "threshold" in t.parameters and t.share > 0.2
    )
    rate = {"selection": "independent", "rate": 0.4, **head_of(leverage_trial.parameters)}
    scores = {"auc": 0.9}, {"auc": 0.9 - lost}
    compared = tuple(
        SelectionScore(parameters, 0.4, score, {})
        for parameters, score in zip((leverage_trial.parameters, rate), scores, strict=True)
    )
    chosen = planner.promising_more(leverage_trial, compared)
    assert (chosen.parameters == rate) is is_replaced
    assert chosen in planner.trials
    assert planner.is_able(chosen)


def test_balanced_accuracy_is_not_refused_for_the_log_loss_that_its_class_weights_cost():
    """One row in a hundred is of the rare class: weights of classes make probabilities worse than a constant's."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((3000, 4))
    y = X[:, 0] + 0.8 * rng.standard_normal(3000) > 2.6
    chosen = plan(X, y, metric="balanced", max_loss=0.1, effort="quick")
    constant = -np.mean(y) * np.log(np.mean(y)) - np.mean(~y) * np.log(np.mean(~y))
    assert chosen.recommended.scores["logloss"] > constant
    assert chosen.recommended.scores["balanced"] > 0.75
    assert chosen.parameters["class_weight"] == "balanced"
    (calibration,) = (w for w in chosen.warnings if "not calibrated" in w)
    assert "metric='logloss'" in calibration
    assert not any("metric='balanced'" in w for w in chosen.warnings)


def test_a_log_loss_worse_than_that_of_a_constant_is_never_recommended():
    """A model may rank rows well and still have probabilities that are worse than always saying the same."""
    X, y, _, _ = rows(n=1000)
    targets = plan(X, y, effort="quick", max_loss=0.03).targets
    planner = Planner(checked(X, y), maker(CLASSES, {}, {}), targets, EFFORTS["quick"], 0, lambda *_: None)
    chosen = planner.search()
    assert planner.is_good(chosen)
    wrong = [dataclasses.replace(s, log_loss=s.log_loss_of_shares + 0.01) for s in chosen.scores]
    chosen.scores, kept = wrong, chosen.scores
    assert not planner.is_good(chosen)
    chosen.scores = kept
    chosen.final = dataclasses.replace(chosen.final, log_loss=chosen.final.log_loss_of_shares)
    assert not planner.is_good(chosen)
    for trial in planner.trials:
        planner._score(trial, planner.n_splits)
        trial.scores = [dataclasses.replace(s, log_loss=s.log_loss_of_shares + 0.01) for s in trial.scores]
    assert planner.useless() == METRICS["logloss"]
    assert "no candidate is better than a constant: log-loss is" in why_not(planner)


def test_learners_are_tried_next_to_the_linear_heads():
    X, y, X_test, y_test = rows(n=300)
    found = plan(X, y, effort="quick", max_loss=0.1, learners=["sklearn_logistic"])
    tried = {c.parameters["selection"] for c in found.candidates if c.parameters.get("learner") == "sklearn_logistic"}
    assert tried == {"leverage", "independent"}
    chosen = next(c for c in found.candidates if c.parameters.get("learner") and c.parameters.get("rate") == 0.4)
    assert not {"loss", "alpha", "capacity"} & chosen.parameters.keys()
    clf = build(dataclasses.replace(found, parameters=chosen.parameters).line).fit(X, y)
    assert clf.n_core_ == pytest.approx(chosen.stored_rows, abs=40)
    area = metrics.roc_auc_score(y_test, clf.predict_proba(X_test)[:, 1])
    assert area == pytest.approx(chosen.value.mean, abs=0.05)
    with pytest.raises(ConfigurationError, match="learner"):
        plan(X, y, learners=["no such learner"])


def test_public_moments_and_class_shares_are_used_and_named_in_the_line():
    X, y = rare(n=3000)
    moments, shares = np.full(5, 0.25), {False: 0.875, True: 0.125}
    found = plan(X, y, effort="quick", max_loss=0.05, moments=moments, class_shares=shares)
    assert {c.parameters.get("balance") for c in found.candidates} == {None, 0.5}
    chosen = next(c for c in found.candidates if c.parameters.get("balance"))
    line = dataclasses.replace(found, parameters=chosen.parameters, public=("moments", "class_shares")).line
    assert line.endswith("moments=moments, class_shares=class_shares)")
    names = {"ErasableClassifier": ErasableClassifier, "moments": moments, "class_shares": shares}
    clf = eval(line, names).fit(X, y)
    assert clf.model_.selection.class_shares == ((False, 0.875), (True, 0.125))
    for wrong in ({False: 0.5}, [0.5, 0.5], {False: 0.5, True: 0.25, 2: 0.25}):
        with pytest.raises(ConfigurationError, match="public share of each of the 2 classes"):
            plan(X, y, class_shares=wrong)
    with pytest.raises(ConfigurationError, match="moments must be"):
        plan(X, y, moments=[1.0, 2.0])
    with pytest.raises(ConfigurationError, match="class_shares= are for classes"):
        plan(X, X[:, 0], target_range=(-9, 9), class_shares=shares)


# -- refusals ------------------------------------------------------------------------------------------------------


def test_targets_that_cannot_be_met_name_the_one_that_binds_and_what_would_do():
    X, y, _, _ = rows(n=1000, d=6, noise=2.0)
    with pytest.raises(ConfigurationError, match=r"storage target \(max_bytes=100\).*bytes\. Allow that"):
        plan(X, y, max_bytes=100, effort="quick")
    with pytest.raises(
        ConfigurationError, match=r"max_loss=0\.0001 cannot be met.*max_stored=0\.05: the best.*would do"
    ):
        plan(X, y, max_stored=0.05, max_loss=0.0001, effort="quick", encoded=True)


def test_the_months_that_a_refusal_proposes_are_survived():
    X, y, _, _ = rows(n=300, d=4, noise=2.0)
    options = {"max_loss": 0.1, "deletions_per_month": 299, "effort": "quick"}
    with pytest.raises(ConfigurationError, match=r"299 deletions \(uniform\) cannot be survived") as refused:
        plan(X, y, months=1, **options)
    months = float(str(refused.value).split("months=")[1].split(";")[0])
    assert isinstance(plan(X, y, months=months, **options), Plan)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X": np.empty((0, 3)), "y": []}, InputError, "0 sample"),
        ({"n": 20}, InputError, "at least 50 rows"),
        ({"y": np.zeros(200, dtype=int)}, InputError, "all of one class"),
        ({"y": np.arange(200) // 4}, InputError, "ten rows a class"),
        ({"weights": np.ones(3)}, InputError, r"one entry per row, shape \(200,\); got shape \(3,\)"),
        ({"weights": -np.ones(200)}, InputError, "200 of 200 are not"),
        ({"weights": np.zeros(200)}, InputError, "positive for 0 of 200 rows"),
        ({"weights": ["a"] * 200}, InputTypeError, "weights must hold real numbers"),
        ({"weights": np.ones(200), "distribution": "uniform"}, ConfigurationError, "leave one of them out"),
        ({"distribution": "weights"}, InputError, "needs weights="),
        ({"distribution": "subject"}, InputError, "needs subjects="),
        ({"subjects": [1, 2]}, InputError, "2 entries for 200 rows"),
        ({"subjects": [1] * 200}, InputError, "1 subjects: at least 10"),
        ({"distribution": "most"}, ConfigurationError, "distribution must be one of 'uniform'"),
        ({"distribution": "label", "delete_label": "none"}, InputError, "none of the 2 classes"),
        ({"effort": "some"}, ConfigurationError, "effort must be one of 'quick'"),
        ({"metric": "f1"}, ConfigurationError, "metric must be one of 'auc', 'logloss', 'accuracy', 'balanced'"),
        ({"metric": ["auc"]}, ConfigurationError, "metric must be one of .*; got list"),
        ({"ids": [1, 2]}, InputError, "2 entries for 200 rows"),
        ({"ids": [1] * 200}, InputError, "ids name some rows twice"),
        ({"max_loss": 0.0}, ConfigurationError, "max_loss must be a number above 0"),
        ({"max_stored": 2.0}, ConfigurationError, "max_stored must be a number above 0 and at most 1"),
        ({"max_stored": "much"}, ConfigurationError, "max_stored must be a number .*; got 'much'"),
        ({"deletions_per_month": -1}, ConfigurationError, "deletions_per_month must be (a )?positive"),
        ({"months": 3}, ConfigurationError, "months needs deletions_per_month"),
        ({"deletions_per_month": 100, "months": 3}, ConfigurationError, "only 200 rows could be deleted"),
        ({"horizon": 100}, ConfigurationError, "give at least 200"),
        ({"horizon": 1e6}, ConfigurationError, "horizon must be a positive integer"),
        ({"random_state": -1}, ConfigurationError, "random_state must be a non-negative integer"),
        ({"random_state": None}, ConfigurationError, "random_state must be a non-negative integer"),
        ({"scaling": "column"}, ConfigurationError, "scaling"),
    ],
)
def test_bad_input_is_refused_with_a_reason(change, error, message):
    n = change.pop("n", 200)
    X, y, _, _ = rows(n=n)
    with pytest.raises(error, match=message):
        plan(change.pop("X", X), change.pop("y", y), **change)


def test_the_example_in_the_docs_prints_what_its_comments_say(monkeypatch):
    monkeypatch.setitem(EFFORTS, "quick", QUICK)
    text = (Path(__file__).parents[3] / "docs" / "planning.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "planning.md", "exec"), {})
    said = re.findall(r"print\(.*\)  # (.*)", code)
    assert len(said) == 3
    line, deletions, same = printed.getvalue().splitlines()
    assert [line, same] == [said[0], said[2]]
    number, expected = (int(text.split(" ")[0].replace(",", "")) for text in (deletions, said[1]))
    assert number == pytest.approx(expected, rel=0.05)  # rounding differs between machines
