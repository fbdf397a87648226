"""One pass is stable for every exact class: C(C(S) - U) = C(S) - U, for one deletion and for the worst several."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from erasable import ErasableClassifier, verify
from erasable.classes import FiniteClass, LinearBall
from erasable.coresets import SinglePass
from erasable.estimators.kernel import ErasableGeneralClassifier
from erasable.models.configuration import order_of
from tests.oracle import in_turn
from tests.strategies import Batch, problems, splits

# Each example below tries every single deletion and some larger ones: many thousand cases.


class Looked:
    """A function given by a table of values: row (i,) has the i-th."""

    def __init__(self, values):
        self.values = np.array(values)

    def __call__(self, X):
        return self.values[X[:, 0].astype(int)]


@st.composite
def finite_problems(draw):
    """A finite class on few distinct rows, many copies of them, and a threshold that some D² meets or nearly meets."""
    m, distinct = draw(st.integers(2, 5)), draw(st.integers(1, 6))
    denominator = draw(st.sampled_from([1, 2, 3, 8, 2**20]))
    values = [draw(st.lists(st.integers(0, denominator), min_size=distinct, max_size=distinct)) for _ in range(m)]
    order = draw(st.lists(st.integers(0, distinct - 1), min_size=1, max_size=24))
    function_class = FiniteClass([Looked(np.array(v) / denominator) for v in values])
    X = np.array(order, dtype=float)[:, None]
    rows = function_class.encode(X)
    tau = draw(st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.5, 1 / 3]))
    if draw(st.booleans()):
        measure = function_class.start(1)
        measure.add(rows[: draw(st.integers(0, len(rows) - 1))])
        met = float(measure.squared(rows[-1:])[0])
        tau = draw(st.sampled_from([met, math.nextafter(met, 0.0), math.nextafter(met, 1.0)]))
    return function_class, X, min(tau, 0.999)


@st.composite
def linear_problems(draw):
    """As for the linear classifier, where thresholds meet leverages too."""
    setting, batch = draw(problems(max_rows=20, max_features=3))
    ball = LinearBall(0.5, fit_intercept=setting.intercept, scaling=setting.scaling, grid_bits=setting.bits)
    object.__setattr__(ball, "radius", 0.5 / math.sqrt(setting.capacity))
    return ball, np.array(batch.X), setting.threshold


@st.composite
def any_problems(draw):
    kind = draw(st.sampled_from([finite_problems, linear_problems]))
    event(kind.__name__)
    return draw(kind())


def deletions(data, kept):
    """Every single row, everything but one, a prefix, every other row, and some drawn."""
    for i in range(len(kept)):
        yield kept[:i] + kept[i + 1 :]
        yield kept[i : i + 1]
    yield kept[len(kept) // 2 :]
    yield kept[::2]
    yield kept[1::2]
    mask = data.draw(st.lists(st.booleans(), min_size=len(kept), max_size=len(kept)))
    yield [k for k, stays in zip(kept, mask, strict=True) if stays]


@settings(max_examples=400)
@given(any_problems(), st.data())
def test_the_single_pass_is_stable(problem, data):
    function_class, X, tau = problem
    core = SinglePass(function_class, tau)
    assert core.stable
    kept = core.select(X).tolist()
    event(f"kept: {min(len(kept), 5)}, dropped: {min(len(X) - len(kept), 2)}")
    assert core.select(X[kept]).tolist() == list(range(len(kept)))
    for left in deletions(data, kept):
        assert core.select(X[left]).tolist() == list(range(len(left)))


@given(finite_problems())
def test_the_finite_single_pass_is_that_of_fractions(problem):
    function_class, X, tau = problem
    rows = function_class.encode(X).tolist()
    pairs = [(a, b) for a in range(len(rows[0])) for b in range(a)]
    sums, kept = dict.fromkeys(pairs, Fraction(0)), []
    for i, row in enumerate(rows):
        squares = {(a, b): Fraction(row[a] - row[b], 2**20) ** 2 for a, b in pairs}
        if max(squares[p] / (1 + sums[p]) for p in pairs) > Fraction(tau):
            kept.append(i)
            for p in pairs:
                sums[p] += squares[p]
    assert SinglePass(function_class, tau).select(X).tolist() == kept


@given(any_problems())
def test_the_measure_only_falls_and_decisions_never_turn(problem):
    function_class, X, tau = problem
    rows, measure = function_class.encode(X), function_class.start(X.shape[1])
    before, above = measure.squared(rows), measure.exceeds(rows, tau)
    for i in range(min(len(rows), 8)):
        measure.add(rows[i : i + 1])
        after, still = measure.squared(rows), measure.exceeds(rows, tau)
        assert (after <= before * (1.0 + 1e-9)).all()
        assert not (still & ~above).any()
        before, above = after, still


def model(function_class, tau, order):
    return ErasableGeneralClassifier(function_class, threshold=tau, order=order)


def usable(function_class, X, tau):
    return tau < function_class.widest(X.shape[1])


@settings(max_examples=200)
@given(any_problems(), st.sampled_from(["hashed", "given"]), st.data())
def test_forgetting_equals_refitting_the_survivors(problem, order, data):
    function_class, X, tau = problem
    tau = tau if usable(function_class, X, tau) else 0.0
    n = len(X)
    y, owners = [i % 3 for i in range(n)], [None if i % 5 == 0 else f"s{i % 4}" for i in range(n)]
    clf = model(function_class, tau, order)
    for part in data.draw(splits(n)) if order == "given" else [slice(n)]:
        clf.partial_fit(X[part], y[part], ids=list(range(n))[part], subjects=owners[part], allow_no_subject=True)
    at_once = model(function_class, tau, order).fit(X, y, ids=range(n), subjects=owners, allow_no_subject=True)
    assert at_once.state_digest() == clf.state_digest()
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            clf.forget(ids=data.draw(st.lists(st.integers(0, n - 1))))
        else:
            clf.forget(subjects=data.draw(st.lists(st.sampled_from(["s0", "s1", "s2", "s3", "s9"]))))
        kept = clf.core_ids_.tolist()
        report = verify(clf)
        assert (report.core_rows, report.digest) == (len(kept), clf.state_digest())
        if kept:
            again = model(function_class, tau, order).fit(
                X[kept], [y[i] for i in kept], ids=kept, subjects=[owners[i] for i in kept], allow_no_subject=True
            )
            assert again.state_digest() == clf.state_digest()
            np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))


@given(problems(max_rows=20, order_keys=[0, None]))
def test_with_linear_functions_it_selects_what_the_linear_classifier_selects(problem):
    setting, batch = problem
    ball = LinearBall(0.5, fit_intercept=setting.intercept, scaling=setting.scaling, grid_bits=setting.bits)
    radius = 0.5 / math.sqrt(setting.capacity)
    object.__setattr__(ball, "radius", radius)
    linear = ErasableClassifier(
        ball.capacity,
        threshold=setting.threshold,
        fit_intercept=setting.intercept,
        scaling=setting.scaling,
        grid_bits=setting.bits,
        feature_map=None,
        **order_of(setting.order_key),
    )
    rows = Batch(batch.X, batch.y, list(range(len(batch))), None)
    try:
        rows.learnt_by(linear)
    except ValueError:  # rounding the capacity to a radius and back put the threshold out of reach
        assert SinglePass(ball, setting.threshold).select(np.array(batch.X)).tolist() == []
        return
    core, turns = linear.core_ids_.tolist(), in_turn(rows.ids, setting.order_key)
    found = SinglePass(ball, setting.threshold).select(np.array(batch.X)[turns])
    assert [turns[i] for i in found] == core
    general = rows.learnt_by(
        ErasableGeneralClassifier(ball, threshold=setting.threshold, **order_of(setting.order_key))
    )
    assert general.core_ids_.tolist() == core
