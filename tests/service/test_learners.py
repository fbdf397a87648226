"""A service with a model that trains a learner: every batch trains once, and predictions wait for it alike."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from erasable import ErasableClassifier, load
from erasable.audit.receipts import check_receipt
from erasable.errors import BusyError
from erasable.models.files import keep_learner, read_model
from erasable.service.http.problems import refusal_of
from erasable.service.model_files import ServedFile
from tests.service.conftest import KEY, asked, saved

X = np.random.default_rng(3).standard_normal((60, 3))


@pytest.fixture
def models(tmp_path):
    paths = {name: tmp_path / f"{name}.erasable" for name in ("left", "right")}
    learner = {"learner": "lightgbm", "n_estimators": 5, "min_child_samples": 3}
    clf = ErasableClassifier(learner=learner, selection="independent", rate=1.0, feature_map=None)
    people = [f"person-{i % 20}" for i in range(60)]
    clf.fit(X, X[:, 0] * X[:, 1] > 0, ids=[f"row-{i}" for i in range(60)], subjects=people).save(paths["left"])
    saved(paths["right"])
    return paths


@pytest.mark.parametrize("who", ["person-3", "nobody at all"])
def test_predictions_wait_for_every_batch_alike(opened, models, monkeypatch, who):
    service, answers, original = opened(), [], ServedFile.predictor

    def predictor(file):
        """Notes what a prediction would have got while a model was trained again."""
        name = "left" if "left" in file.path else "right"
        try:
            answers.append((name, service.snapshot(name).version))
        except BusyError as error:
            answers.append((name, refusal_of(error)))
        return original(file)

    monkeypatch.setattr("erasable.service.model_files.Snapshots.refresh.__defaults__", (predictor,))
    before = service.snapshot("left")
    asked(service, who)
    asked(service, "person-7" if who == "person-3" else "nobody else")
    service.worker.commit()
    (left,) = [answer for name, answer in answers if name == "left"]  # one training for the batch
    (right,) = [answer for name, answer in answers if name == "right"]
    assert left.status == 503
    assert left.headers == {"Retry-After": "1"}
    assert isinstance(right, str)  # a linear model answers all the time
    after = service.snapshot("left")
    assert after.version != before.version
    assert (after.model.predict_proba(X) == load(models["left"]).predict_proba(X)).all()
    same = (after.model.predict_proba(X) == before.model.predict_proba(X)).all()
    assert same == (who != "person-3")


def test_receipts_name_the_learner(opened, models):
    service = opened()
    key = asked(service, "person-3")
    service.worker.commit()
    service.worker.sign()
    receipts = {name: check_receipt(text, KEY.public) for name, text in service.receipts(key).items()}
    assert receipts["left"].learner.name == "lightgbm"
    assert receipts["left"].version == 3
    assert receipts["right"].learner is None
    clf = load(models["left"])
    clf.predict(X)
    assert receipts["left"].learner.digest == clf.model_.cache["learner"].facts.digest


def test_a_start_and_every_commit_erase_fitted_learners_of_renamed_models(opened, models, monkeypatch, tmp_path):
    monkeypatch.setattr("erasable.models.companions.LEAST_SECONDS", 0.0)
    renamed = tmp_path / "renamed.erasable"
    left_behind = tmp_path / ".renamed.erasable.learner"

    def rename():
        shutil.copy(models["left"], renamed)
        model, checksum = read_model(renamed)
        model.predict(X)
        assert keep_learner(renamed, model, checksum)
        renamed.unlink()
        assert left_behind.exists()

    rename()
    service = opened()
    assert not left_behind.exists()
    rename()
    asked(service, "nobody at all")
    service.worker.commit()
    assert not left_behind.exists()
