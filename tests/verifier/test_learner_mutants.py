"""Files with a learner, altered on purpose: nothing in them follows from labels, so little shows, as reports state."""

from __future__ import annotations

import functools
import struct
from pathlib import Path

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableRegressor, verify
from erasable.cli.app import run
from tests.formats.tampering import opened, rebuilt, tensors
from tests.verifier.pair import bytes_of, first, second
from tests.verifier.test_mutants import entry, float_of, member, reversed_rows
from verifier import erasable_verify

N = 9
PAGE = Path(__file__).parents[2] / "docs" / "verifier.md"


@functools.cache
def small(kind):
    """A file with a learner: by leverage, by independent selection, with raw rows, or with targets."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((N, 2)), ["ape", "bee", "cow"] * 3
    named = {"ids": range(N), "subjects": range(N), "sample_weight": [1.0 + i % 2 for i in range(N)]}
    match kind:
        case "leverage":
            model = ErasableClassifier(threshold=0.05, learner="sklearn_logistic", feature_map=None).fit(X, y, **named)
        case "independent":
            options = {"selection": "independent", "rate": 0.8, "moments": [0.5, 0.25]}
            model = ErasableClassifier(learner="sklearn_logistic", **options).fit(X, y, **named)
        case "raw":
            trees = {"learner": "extra_trees", "n_estimators": 2}
            model = ErasableClassifier(threshold=0.05, learner=trees).fit(X, y, **named)
        case _:
            model = ErasableRegressor((-9, 9), threshold=0.05, learner="sklearn_ridge").fit(X, X[:, 0], **named)
    return bytes_of(model)


def not_kept():
    """An id whose hash is above every chance; at the end, it is where its turn is."""
    _, meta, _ = opened(small("independent"))
    return max(range(100, 2000), key=lambda key: erasable_verify.hash_of(key, meta["order_key"]))


def without_its_last_row(raw):
    _, meta, _ = opened(raw)
    parts, n = tensors(raw), N
    for name, (dtype, shape, body) in parts.items():
        parts[name] = (dtype, [n - 1, *shape[1:]], body[: len(body) * (n - 1) // n])
    return rebuilt(meta, parts)


def longer(bits):
    """A raw number in float64, made larger."""
    return struct.unpack("<q", struct.pack("<d", 2 * struct.unpack("<d", struct.pack("<q", bits))[0]))[0]


PARAMETERS = "learner_parameters"
SEEN = {
    "a threshold so high that a row is not kept": ("leverage", member("threshold", lambda _: (0.9).hex())),
    "a rate so low that a row is not kept": ("independent", member("rate", lambda _: (1e-9).hex())),
    "an id, to one that independent selection does not keep": ("independent", entry("ids", -1, lambda _: not_kept())),
    "rows of independent selection, in another order": ("independent", reversed_rows),
    "the constant of an intercept": ("leverage", entry("rows", 2, lambda g: g + 1)),
    "the name of the learner, to an unknown one": ("raw", member("learner", lambda _: "thicket")),
    "the name of the learner, to one that sees other rows": ("raw", member("learner", lambda _: "sklearn_logistic")),
    "a raw number, to one that no cell has": ("raw", entry("rows", 0, lambda _: -(2**63))),
}
UNSEEN = {
    "a number of a row that is still kept": ("leverage", entry("rows", 0, lambda g: g - 1)),
    "a raw number of a row that is still kept": ("raw", entry("rows", 0, longer)),
    "a label": ("leverage", entry("labels", 3, lambda k: (k + 1) % 3)),
    "a label of independent selection without balance": ("independent", entry("labels", 3, lambda k: (k + 1) % 3)),
    "a target": ("targets", entry("targets", 0, lambda t: t // 2)),
    "the weight of a row": ("leverage", entry("row_weights", 1, lambda s: s + 1)),
    "a parameter of the learner": ("raw", member(PARAMETERS, lambda _: {"n_estimators": 3})),
    "the learner, to another that sees the same rows": ("raw", member("learner", lambda _: "random_forest")),
    "an id, where no row is drawn by it": ("leverage", entry("ids", 0, lambda key: key + 100)),
    "whose a row is": ("leverage", entry("subjects", 0, lambda key: key + 100)),
    "a lower threshold": ("leverage", member("threshold", lambda tau: (float_of(tau) / 2).hex())),
    "a row taken out": ("leverage", without_its_last_row),
}


@pytest.mark.parametrize("what", SEEN)
def test_both_see(what, tmp_path):
    kind, mutation = SEEN[what]
    raw = mutation(small(kind))
    assert raw != small(kind)
    assert not first(raw)
    assert second(raw, tmp_path)[0] == 4


@pytest.mark.parametrize("what", UNSEEN)
def test_neither_can_see(what, tmp_path):
    kind, mutation = UNSEEN[what]
    raw = mutation(small(kind))
    assert raw != small(kind)
    assert first(raw)
    assert second(raw, tmp_path)[0] == 8


ONLY_FIRST = {
    "a threshold so high that a row is not kept, rows as they were read": member("threshold", lambda _: (0.9).hex()),
    "a parameter of the learner, to one that it does not have": member(PARAMETERS, lambda _: {"speed": 3}),
}


@pytest.mark.parametrize("what", ONLY_FIRST)
def test_only_the_first_sees(what, tmp_path):
    raw = ONLY_FIRST[what](small("raw"))
    assert not first(raw)
    assert second(raw, tmp_path)[0] == 8


def test_the_page_has_the_same_tables():
    page = PAGE.read_text().partition("## Models with a learner")[2]
    assert [what for what in SEEN if f"| {what} | yes | yes |" not in page] == []
    assert [what for what in UNSEEN if f"| {what} | no | no |" not in page] == []
    assert [what for what in ONLY_FIRST if f"| {what} | yes | no |" not in page] == []


@pytest.mark.parametrize("kind", ["leverage", "independent", "raw", "targets"])
def test_both_state_what_they_could_not_see(kind, tmp_path, capsys):
    path = tmp_path / "m.erasable"
    path.write_bytes(small(kind))
    assert run(["verify", str(path)]) == 0
    assert "altered labels or targets, weights of rows, parameters" in " ".join(capsys.readouterr().out.split())
    assert run(["verify", str(path), "--json"]) == 0
    assert '"not_compared"' in capsys.readouterr().out
    assert erasable_verify.main([str(path)]) == 8
    said = capsys.readouterr().out
    assert "not be noticed" in said
    assert "signed receipt" in said


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_models_with_sums_and_weights_compare_everything(loss):
    clf = ErasableClassifier(loss=loss).fit(np.eye(3), [0, 1, 0])
    report = verify(clf)
    assert report.not_compared == ()
    assert report.limits == ""
    assert "all identical" in str(report)
    assert report.limits not in str(report).splitlines()


def test_the_guarantee_of_a_learner_assumes_an_unaltered_file():
    learner, linear = (ErasableClassifier(learner=name).guarantee for name in ("sklearn_logistic", None))
    assert "nobody altered labels" in str(learner)
    assert "altered" not in str(linear)
    assert len(str(learner)) < 1000  # as long as a receipt may state
