"""Pipelines that end in one of our models: a step that remembers rows is found, and the others pass."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

from erasable import ErasableClassifier, load, model_in, verify
from erasable.errors import ConfigurationError, InputTypeError, VerificationError
from erasable.estimators import TableEncoder
from tests.schemas.raw import columns, draft, table

X = np.random.default_rng(0).standard_normal((80, 3))
Y = X[:, 0] > 0


class Quiet(TransformerMixin, BaseEstimator):
    """A transformer of the caller's that keeps a row where scikit-learn would not look."""

    def fit(self, X, y=None):
        self._first = X[0]
        return self

    def transform(self, X):
        return X


def test_forget_save_and_verify_through_a_pipeline(tmp_path):
    named = columns()
    pipe = make_pipeline(TableEncoder(draft()), Normalizer(), ErasableClassifier(threshold=0.2, feature_map=None))
    pipe.fit(table(), named["outcome"], erasableclassifier__ids=named["row_id"])
    model = model_in(pipe)
    assert model is pipe[-1]
    report = model.forget(ids=model.core_ids_[:3].tolist())
    assert report.core_rows_removed == 3
    assert verify(pipe).digest == report.digest
    model.save(tmp_path / "m.erasable")
    assert load(tmp_path / "m.erasable").state_digest() == report.digest


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(np.tanh),
        Normalizer(),
        make_pipeline(Normalizer(), FunctionTransformer()),
        make_union(Normalizer(), FunctionTransformer()),
        ColumnTransformer([("a", Normalizer(), [0, 1]), ("b", "passthrough", [2])]),
        "passthrough",
    ],
)
def test_steps_that_learn_nothing_pass(step):
    pipe = make_pipeline(step, ErasableClassifier(feature_map=None)).fit(X, Y)
    assert verify(pipe).digest == pipe[-1].state_digest()


def test_hashed_texts_pass():
    pipe = make_pipeline(HashingVectorizer(n_features=32), ErasableClassifier(feature_map=None))
    assert verify(pipe.fit(["a b", "c d", "a d", "e f"] * 5, [0, 1, 0, 1] * 5)).core_rows > 0


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (StandardScaler(), r"StandardScaler was fitted on rows: `mean_`, .*`var_`.*public=\('step',\)"),
        (Quiet(), "Quiet was fitted on rows: `_first`"),
        (make_pipeline(Normalizer(), StandardScaler()), "StandardScaler was fitted on rows"),
        (make_union(Normalizer(), StandardScaler()), "StandardScaler was fitted on rows"),
        (ColumnTransformer([("a", StandardScaler(), [0])]), "StandardScaler was fitted on rows"),
    ],
)
def test_a_step_that_was_fitted_on_rows_is_named(step, says):
    pipe = Pipeline([("step", step), ("model", ErasableClassifier(feature_map=None))]).fit(X, Y)
    with pytest.raises(VerificationError, match=says):
        verify(pipe)
    with pytest.raises(VerificationError, match=says):
        model_in(pipe)
    assert verify(pipe, public=("step",)).digest == pipe[-1].state_digest()


def test_the_rare_town_in_an_encoder():
    towns = pd.DataFrame({"town": ["Bern"] * 40 + ["Oslo"] * 39 + ["Tristan da Cunha"]})
    pipe = make_pipeline(OneHotEncoder(), ErasableClassifier(feature_map=None)).fit(towns, [0, 1] * 40)
    with pytest.raises(VerificationError, match=r"OneHotEncoder was fitted on rows: .*`categories_`"):
        verify(pipe)


def test_refusals():
    pipe = make_pipeline(Normalizer(), ErasableClassifier(feature_map=None)).fit(X, Y)
    for public in (("none",), "normalizer", ("erasableclassifier",)):
        with pytest.raises(ConfigurationError, match="names of steps before the last: normalizer"):
            verify(pipe, public=public)
    with pytest.raises(ConfigurationError, match="a Pipeline is required"):
        verify(pipe[-1], public=("a",))
    with pytest.raises(InputTypeError, match="can forget bit for bit"):
        verify(make_pipeline(Normalizer(), StandardScaler()).fit(X))
