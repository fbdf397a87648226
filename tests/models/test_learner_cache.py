"""The fitted learner next to a file: taken for the same state alone, and erased before a request is acknowledged."""

from __future__ import annotations

import json

import numpy as np
import pytest
from lightgbm import LGBMClassifier

from erasable import ErasableClassifier, ModelFile, load, verify
from erasable.errors import StoreError, VerificationError
from erasable.models.files import cache_of, erase_cache, keep_cached, read_model, shards_of

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(80, 3)), 2)
Y = np.where(X[:, 0] * X[:, 1] > 0, "a", "b")
IDS = np.arange(80)


@pytest.fixture
def path(tmp_path):
    learner = LGBMClassifier(n_estimators=5, min_child_samples=3)
    ErasableClassifier(learner=learner, selection="independent", rate=0.9).fit(X, Y, ids=IDS).save(
        tmp_path / "m.erasable"
    )
    return tmp_path / "m.erasable"


def kept(path):
    """Train the learner of a file and keep it."""
    model, checksum = read_model(path)
    model.predict(X)
    assert keep_cached(path, model, checksum, shards_of)
    return model


def test_a_kept_learner_predicts_the_same_without_training(path, monkeypatch):
    expected = kept(path).predict_proba(X)
    assert cache_of(path).stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr("erasable.estimators.trained._train", lambda *_: pytest.fail("it was trained"))
    assert (load(path).predict_proba(X) == expected).all()
    with pytest.raises(pytest.fail.Exception):
        read_model(path, cached=False)[0].predict(X)


def test_verify_trains_again_and_compares(path):
    kept(path)
    assert verify(load(path)).learner.compared
    content = json.loads(cache_of(path).read_text())
    other = ErasableClassifier(learner=LGBMClassifier(n_estimators=5), selection="independent", rate=0.9)
    other.fit(X, Y, ids=IDS).predict(X)
    fitted = other.model_.cache["learner"]
    content |= {"text": fitted.text, "learner": fitted.facts.as_json()}
    cache_of(path).write_text(json.dumps(content))
    with pytest.raises(VerificationError, match="not what training lightgbm"):
        verify(load(path))


@pytest.mark.parametrize("change", ["forget", "learn", "save", "unchanged"])
def test_every_change_of_the_file_erases_it(path, change):
    kept(path)
    file = ModelFile(path, rewrite_unchanged=change == "unchanged")
    if change == "forget":
        file.forget(ids=[int(load(path).core_ids_[0])])
    elif change == "unchanged":
        file.forget(ids=[10**6])
    elif change == "learn":
        file.learn([type("Block", (), {"X": X[:1], "y": Y[:1], "ids": [500], "subjects": None})()])
    else:
        model = load(path)
        model.forget(ids=model.core_ids_[:1])
        model.save(path)
    assert not cache_of(path).exists()
    assert not [p for p in path.parent.iterdir() if p.name.startswith(cache_of(path).name) and p.stat().st_size]


def test_it_is_erased_before_the_file_is_replaced(path, monkeypatch):
    """After a crash between the two the old model is there, and nothing of it elsewhere."""
    kept(path)
    seen = []

    def replace(writer, *arguments, **options):
        seen.append(cache_of(path).exists())
        raise StoreError("no space")

    monkeypatch.setattr("erasable.store._writing.Writer.replace", replace)
    with pytest.raises(StoreError):
        ModelFile(path).forget(ids=[int(load(path).core_ids_[0])])
    assert seen == [False]


def test_a_learner_of_an_older_state_is_neither_kept_nor_taken(path):
    """Another process may have trained on rows that are forgotten meanwhile."""
    model, checksum = read_model(path)
    model.predict(X)
    ModelFile(path).forget(ids=[int(load(path).core_ids_[0])])
    assert not keep_cached(path, model, checksum, shards_of)
    assert not cache_of(path).exists()
    kept(path)
    stale = cache_of(path).read_bytes()
    ModelFile(path).forget(ids=[int(load(path).core_ids_[0])])
    cache_of(path).write_bytes(stale)
    assert "learner" not in read_model(path)[0].cache


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"format": "erasable-learner"}', b"\xff", None])
def test_a_damaged_one_is_passed_over(path, damage):
    kept(path)
    text = cache_of(path).read_text()
    cache_of(path).write_bytes(text.replace("leaf_value", "leaf_valuf").encode() if damage is None else damage)
    assert "learner" not in read_model(path)[0].cache
    assert len(load(path).predict(X)) == len(X)


def test_another_version_of_the_library_trains_again(path, monkeypatch):
    kept(path)
    monkeypatch.setattr("erasable.estimators.trained.version", lambda _: "99.0")
    report = verify(load(path))
    assert not report.learner.compared
    assert "trained with lightgbm" in str(report)
    assert "state and rows are the same" in str(report)
    model = load(path)
    model.predict(X)
    assert model.model_.cache["learner"].facts.version == "99.0"


def test_other_learners_and_other_models_have_none(tmp_path):
    path = tmp_path / "f.erasable"
    ErasableClassifier(learner="random_forest").fit(X, Y).save(path)
    model, checksum = read_model(path)
    model.predict(X)
    assert not keep_cached(path, model, checksum, shards_of)
    erase_cache(path)
    assert [p.name for p in tmp_path.iterdir() if "learner" in p.name] == []
