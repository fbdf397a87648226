"""What the report says is what was measured, and no more."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from erasable.research import measuring
from erasable.research.reproduce import METHODS, in_detail, reproduce, speed_ups
from erasable.research.reproduce.figures import draw_all
from erasable.research.reproduce.report import page
from tests.research.reproduce.cases import no_pictures, small, table_file


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "settle", lambda: None)
        patch.setattr("erasable.research.reproduce.draw_all", no_pictures)
        return reproduce(small(table_file(folder), methods=("erasable", "retrained", "newton")), folder / "out")


def told(results):
    return page(results, no_pictures(), "erasable reproduce").split("<h2>How this")[0]


def with_times(results, **times):
    """The results with these deletion times; a text is an estimated one."""
    changed = copy.deepcopy(results)
    for name, value in times.items():
        m = changed["methods"][name]
        m["deletion_s"] = m["batch_deletion_s"] = float(value)
        m["deletion_estimated"] = isinstance(value, str)
        m["requests_timed"] = 7 if isinstance(value, str) else m["requests"]
    return changed


def test_it_does_not_promise_that_nothing_can_be_learnt(measured):
    text = told(measured)
    assert "learns nothing" not in text
    assert "knows no other row, can often tell" in text


def test_estimated_times_are_said_to_be_estimated_wherever_they_stand(measured):
    text = told(with_times(measured, erasable=2.0, retrained="80", newton=10.0))
    assert "takes 2 seconds." in text
    assert "about 80 seconds (estimated from 7 of 60 requests)" in text
    assert "<b>~40×</b><span>Exact retraining deletes slower, estimated</span>" in text
    assert "<b>5×</b><span>Sekhari et al. deletes slower</span>" in text
    text = told(with_times(measured, erasable="2", retrained=80.0, newton=10.0))
    assert "takes about 2 seconds (estimated from 7 of 60 requests)." in text
    assert "<b>~33.3 ms</b><span>per deletion request, estimated</span>" in text
    assert "<b>~40×</b>" in text
    lines = speed_ups(with_times(measured, erasable=2.0, retrained="80", newton=10.0))
    assert "takes about 40 times as long as ours, one" in lines[0]
    assert "takes 5 times as long as ours, one" in lines[1]


def test_our_own_other_loss_is_no_peer(measured):
    results = with_times(measured, erasable=2.0, retrained=80.0, newton=10.0)
    results["methods"] = {"logistic": copy.deepcopy(results["methods"]["erasable"]), **results["methods"]}
    results["methods"]["logistic"]["title"] = METHODS["logistic"].title
    results["methods"]["logistic"].update(deletion_s=6.0, batch_deletion_s=4.0)
    line = speed_ups(results)[0]
    assert "Ours, logistic loss: deletion takes 3 times as long as with the squared loss, one request" in line
    assert "2 times in batches; our accuracy with that is never more than 0.0000 below." in line
    tiles = told(results).split('<div class="big">')[1].split("<h2>")[0]
    assert "Sekhari et al. deletes slower" in tiles
    assert "logistic" not in tiles


def test_a_method_that_deletes_faster_is_named_at_the_top(measured):
    results = with_times(measured, erasable=2.0, retrained=80.0, newton=0.5)
    lead, tiles = told(results).split('<div class="big">')
    assert "Sekhari et al. is faster: 0.5 seconds, with 100% of the rows stored." in lead
    assert "<b>4×</b><span>Sekhari et al. deletes faster</span>" in tiles
    assert "0.25 times as long as ours (it is faster)" in speed_ups(results)[1]
    assert "(it is faster)" in told(results)
    assert "is faster" not in told(with_times(measured, erasable=2.0, retrained=80.0, newton=3.0))


def test_guessing_stands_beside_every_accuracy(measured):
    guess = measured["data"]["majority"]
    assert 0.4 < guess < 0.7
    assert f"always guessing the largest class: {guess:.3f}" in told(measured)
    assert f"accuracy {guess:.4f}, balanced 0.5000" in " ".join(in_detail(measured).notes)


def test_pictures_show_small_differences_and_one_scale_each(measured, tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        "erasable.research.reproduce.figures.save",
        lambda plt, figure, path: drawn.update({path.name: figure}) or "<svg/>",
    )
    results = copy.deepcopy(measured)
    for i, m in enumerate(results["methods"].values()):
        for key in ("accuracy", "balanced"):
            m[key]["mean"] = [0.61 - 0.01 * i, 0.6, 0.59, 0.58]
    for i, point in enumerate(results["sweep"]):
        point["accuracy"] = 0.58 + 0.005 * i
    draw_all(results, tmp_path)
    for axis in drawn["accuracy"].axes:
        low, high = axis.get_ylim()
        assert 0.56 < low < 0.58
        assert 0.61 < high < 0.63
        assert "always guessing" in axis.get_title(loc="left")
    assert len(drawn["tradeoff"].axes) == 2  # no second scale on top of another
    sweep = drawn["tradeoff"].axes[1]
    low, high = sweep.get_ylim()
    assert 0.56 < low < 0.58
    assert high < 0.7
    texts = [t.get_text() for t in sweep.texts]
    assert "kappa 0.4, used here" in texts
    stored, accuracy = sweep.lines[0].get_data()
    np.testing.assert_allclose(stored, [100 * point["share"] for point in results["sweep"]])
    np.testing.assert_allclose(accuracy, [point["accuracy"] for point in results["sweep"]])


def test_a_method_that_cannot_predict_any_more_does_not_flatten_the_others(measured, tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        "erasable.research.reproduce.figures.save",
        lambda plt, figure, path: drawn.update({path.name: figure}) or "<svg/>",
    )
    results = copy.deepcopy(measured)
    results["methods"]["erasable"]["accuracy"]["mean"][-1] = 0.0
    draw_all(results, tmp_path)
    assert drawn["accuracy"].axes[0].get_ylim()[0] > 0.4


def test_every_order_and_method_has_words(measured):
    for order in ("label", "uniform", "oldest", "newest", "weights", "core-first", "subject"):
        results = copy.deepcopy(measured)
        results["settings"].update(order=order, delete_label="1")
        text = page(results, no_pictures(), "erasable reproduce")
        assert ("rows of one class only" in text) is (order != "label")
    assert set(measured["methods"]) <= set(METHODS)
