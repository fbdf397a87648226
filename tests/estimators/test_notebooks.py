"""What notebooks show: facts about models, schemas and reports, escaped, and nobody's name or value."""

from __future__ import annotations

import numpy as np
import pytest

from erasable import CoreSetUnlearner, ErasableClassifier, ErasableRegressor, Schema, verify
from erasable.coresets import IndependentSample

X = np.random.default_rng(0).normal(size=(120, 3))
y = np.where(X[:, 0] > 0, "<yes>", "<no>")
IDS = [f"<person {i}>" for i in range(120)]


def test_a_fitted_model_shows_what_it_stores_and_promises():
    clf = ErasableClassifier().fit(X, y, ids=IDS)
    shown = clf._repr_html_()
    assert clf.state_digest() in shown
    assert f">{clf.n_core_}<" in shown
    assert "bitwise" in shown
    assert "person" not in shown


@pytest.mark.parametrize("model", [ErasableRegressor((-5, 5)), CoreSetUnlearner(IndependentSample(0.5), None)])
def test_a_model_that_is_not_fitted_shows_its_parameters(model):
    assert "state digest" not in model._repr_html_()


def test_reports_show_counts():
    clf = ErasableClassifier()
    learnt = clf.learn(X, y, ids=IDS)
    assert ">120<" in learnt._repr_html_()
    forgotten = clf.forget(ids=[*clf.core_ids_[:2], "nobody"])
    assert ">3<" in forgotten._repr_html_()
    assert ">2<" in forgotten._repr_html_()
    assert "person" not in learnt._repr_html_() + forgotten._repr_html_()
    assert verify(clf).digest in verify(clf)._repr_html_()


def test_a_schema_shows_what_each_column_becomes():
    schema = Schema.parse(
        """
        version = 2
        [columns.who]
        role = "subject"
        [columns."<town>"]
        kind = "category"
        values = ["Bern", "Oslo"]
        """
    )
    shown = schema._repr_html_()
    assert "&lt;town&gt;" in shown
    assert "category: 4 features" in shown
    assert ">who<" in shown
