"""verify: it passes on every honest model and names the first thing that is wrong with any other."""

import dataclasses
import re
import warnings

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableKernelClassifier, verify
from erasable.errors import VerificationError
from tests.estimators.cases import N, assert_no_traces, classifier, everything_said, make_classes, make_rows
from tests.memory import held_rows, numbers

X, Y = make_rows()
LABELS = np.array(["SECRET-a", "SECRET-b", "SECRET-c"])[make_classes(3)]
IDS = [f"SECRET-{i}" for i in range(N)]


def fitted(**parameters):
    clf = classifier(**{"threshold": 0.02, "loss": "squared", "feature_map": None, **parameters}).fit(
        X, LABELS, ids=IDS, subjects=IDS
    )
    _ = clf.coef_
    return clf


@pytest.mark.parametrize("n_classes", [1, 2, 5])
@pytest.mark.parametrize("fixed", [False, True])
def test_it_passes_and_says_what_it_recomputed(n_classes, fixed):
    clf = classifier(classes=range(n_classes) if fixed else None, feature_map=None).fit(X, make_classes(n_classes))
    for _ in range(3):
        report = verify(clf)
        assert report.core_rows == clf.n_core_
        assert report.sums == 4 * 5 // 2 + len(clf.classes_) * 4
        assert report.weights == clf.coef_.size + clf.intercept_.size
        assert report.digest == clf.state_digest()
        assert str(report.core_rows) in str(report)
        assert report.digest in str(report)
        clf.forget(ids=clf.core_ids_[::2])


def test_a_report_is_frozen_and_tells_no_ids():
    report = verify(fitted())
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.core_rows = 0
    assert_no_traces(repr(report) + str(report))


@pytest.mark.parametrize("n", [1, 5, 150])
def test_progress_rises_to_all_rows(n):
    clf = classifier(threshold=1e-9).fit(X[:n], Y[:n])
    calls = []
    verify(clf, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (n, n)
    assert {total for _, total in calls} == {n}
    done = [d for d, _ in calls]
    assert done == sorted(set(done))
    assert len(calls) == 1 or n > 100
    assert len(calls) > 1 or n < 100


def test_an_interrupted_check_changes_nothing():
    clf = fitted()
    before = clf.state_digest()

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify(clf, progress=stop)
    assert clf.state_digest() == before


# -- tampering -----------------------------------------------------------------------------------------------------


def change_row(model):
    row = numbers(model.core, 3)
    row[1] += 1 if row[1] < 0 else -1


def leave_the_grid(model):
    numbers(model.core, 4)[0] = 2**15 - 1


def change_the_constant(model):
    numbers(model.core, 2)[-1] += 1


def zero_a_row(model):
    held_rows(model.core)[6].erase()


def change_gram(model):
    model.sums.H[2, 1] += 1.0


def change_gram_by_a_fraction(model):
    model.sums.H[2, 1] += np.copysign(0.25, model.sums.H[2, 1])


def poison_gram(model):
    model.sums.H[0, 0] = np.nan


def with_selection(model, **changes):
    selection = dataclasses.replace(model.configuration.selection, **changes)
    model.configuration = model.sums.c = dataclasses.replace(model.configuration, selection=selection)


def change_regulariser(model):
    with_selection(model, units=model.configuration.units + 1)


def change_class_sum(model):
    model.sums.by_label["SECRET-b"][3] -= 1.0


def change_class_sum_by_a_fraction(model):
    total = model.sums.by_label["SECRET-b"]
    total[3] += np.copysign(0.5, total[3])


def lose_class_sum(model):
    del model.sums.by_label["SECRET-c"]


def change_weight(model):
    model.cache["weights"][1, 2] = np.nextafter(model.cache["weights"][1, 2], np.float32(9.0))


def negate_zero_weight(model):
    model.cache["weights"][...] = 0.0


def lose_weights(model):
    model.cache["weights"] = model.cache["weights"][:2]


def change_label(model):
    row = model.core.first
    row.label = "SECRET-a" if row.label != "SECRET-a" else "SECRET-b"


def invent_label(model):
    model.core.first.label = "SECRET-z"


def mistype_label(model):
    model.core.first.label = 5


def repeat_id(model):
    model.core.first.after.id = model.core.first.id


def mistype_id(model):
    model.core.first.after.id = 5


def lose_row(model):
    held_rows(model.core)[-2].after = model.core._order = None


def repeat_rows(model):
    model.core.last.after = dataclasses.replace(model.core.first, id="SECRET-again", after=None)
    model.core._order = None


def raise_threshold(model):
    with_selection(model, threshold=0.04)


TAMPERINGS = [
    (change_row, r"^A differs .* first at entry \(1, 0\) \(4 of 10 entries"),
    (leave_the_grid, r"^core row 5 of \d+ is not a row of the grid"),
    (change_the_constant, r"^core row 3 of \d+ is not a row of the grid"),
    (zero_a_row, r"^core row 7 of \d+ is not "),
    (change_gram, r"^A differs .* first at entry \(2, 1\) \(1 of 10 entries"),
    (change_gram_by_a_fraction, r"A .*entry \(2, 1\)"),
    (poison_gram, r"A .*entry \(0, 0\)"),
    (change_regulariser, r"^A differs .* first at entry \(0, 0\) \(4 of 10 entries"),
    (change_class_sum, r"^the class sums b differs? .* first at entry \(1, 3\) \(1 of 12 entries"),
    (change_class_sum_by_a_fraction, r"class sums b .*entry \(1, 3\)"),
    (lose_class_sum, r"^the class sums b differs? .* first at entry \(2, 0\) \(4 of 12 entries"),
    (change_weight, r"^the weights w differs? .* first at entry \(1, 2\) \(1 of 12 entries"),
    (negate_zero_weight, r"^the weights w differs? .* first at entry \(0, 0\) \(12 of 12 entries"),
    (lose_weights, r"^the weights w has shape \(2, 4\), but relearning gives \(3, 4\)"),
    (change_label, r"^the class sums b differs? "),
    (invent_label, r"class"),
    (mistype_label, r"label|class"),
    (repeat_id, r"two core rows have the same id"),
    (mistype_id, r"id"),
    (lose_row, r"^A differs .* first at entry \(0, 0\)"),
    (repeat_rows, r"^A differs|not selected again"),
    (raise_threshold, r"^core row \d+ of \d+ is not selected again .*\(\d+ such rows"),
]


@pytest.mark.parametrize("fixed", [False, True], ids=["own classes", "fixed classes"])
@pytest.mark.parametrize(("tamper", "says"), TAMPERINGS, ids=[t.__name__ for t, _ in TAMPERINGS])
def test_tampering_is_found_and_placed(tamper, says, fixed):
    clf = fitted(classes=np.unique(LABELS) if fixed else None)
    verify(clf)
    tamper(clf._model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NaN has no integer
        with pytest.raises(VerificationError) as caught:
            verify(clf)
    assert re.search(says, str(caught.value)), str(caught.value)
    assert_no_traces(everything_said(caught.value))


def small_then_big():
    """Two rows on a line: the small one is selected only when it comes first."""
    clf = ErasableClassifier(1.0, threshold=0.15, scaling=None, fit_intercept=False, feature_map=None)
    return clf.fit([[0.4], [1.0]], [0, 1], ids=[1, 2])


def test_rows_in_another_order_are_not_selected_again():
    clf = small_then_big()
    assert clf.core_ids_.tolist() == [1, 2]
    verify(clf)
    clf._model.core._order = held_rows(clf._model.core)[::-1]
    with pytest.raises(VerificationError, match=r"^core row 2 of 2 is not selected again .*\(1 such row"):
        verify(clf)


def test_the_first_row_that_is_not_selected_is_named():
    rows = np.array([[1.0, 0, 0], [0.4, 0, 0], [0, 1.0, 0], [0, 0.4, 0], [0, 0, 0.5]])
    clf = ErasableClassifier(1.0, threshold=0.15, scaling=None, fit_intercept=False, order="given", feature_map=None)
    clf.partial_fit(rows[[1, 0, 3, 2, 4]], np.arange(5) % 2)
    assert clf.n_core_ == 5
    order = held_rows(clf._model.core)
    clf._model.core._order = [order[i] for i in (0, 1, 3, 2, 4)]
    with pytest.raises(VerificationError, match=r"^core row 4 of 5 is not selected again .*\(1 such row"):
        verify(clf)
    clf._model.core._order = [order[i] for i in (1, 0, 3, 2, 4)]
    with pytest.raises(VerificationError, match=r"^core row 2 of 5 is not selected again .*\(2 such rows"):
        verify(clf)


def ghost_id(model):
    model.core.place.put({"SECRET-ghost": model.core.first})


def ghost_subject(model):
    model.core.of_subject.put({"SECRET-ghost": (model.core.first.id,)})


def miscount(model):
    model.core.class_counts[next(iter(model.core.class_counts))] += 1


@pytest.mark.parametrize("tamper", [ghost_id, ghost_subject, miscount], ids=lambda t: t.__name__)
def test_tables_that_name_other_rows_are_found(tamper):
    """A row that is gone must not be found by name either."""
    clf = fitted()
    verify(clf)
    tamper(clf._model)
    with pytest.raises(VerificationError, match="tables that find rows") as caught:
        verify(clf)
    assert_no_traces(everything_said(caught.value))


def test_a_kernel_that_the_stored_rows_cannot_have_been_learnt_with_is_found():
    X = np.random.default_rng(1).standard_normal((30, 2)) * 3
    clf = ErasableKernelClassifier("poly", degree=2, scaling=10.0).fit(X, X[:, 0] > 0)
    state = clf._model.snapshot()
    c = state.configuration
    kernel = dataclasses.replace(c.selection.kernel, degree=64, gamma=1e6)
    steep = dataclasses.replace(c, selection=dataclasses.replace(c.selection, kernel=kernel))
    with pytest.raises(VerificationError):
        dataclasses.replace(state, configuration=steep).verify()
