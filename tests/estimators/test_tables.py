"""Tables through a schema: the encoder as a transformer, and the law of forgetting on dataframes."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks as checks

from erasable import ErasableClassifier, load
from erasable.errors import ConfigurationError, InputError, StateFormatError
from erasable.estimators import TableEncoder
from erasable.models.configuration import stored_map
from erasable.schemas import Category, Cross, Number, Role, Schema, Text, YesNo

SCHEMA = Schema(
    [
        Role(name="row", role="id"),
        Category(name="town", values=["Bern", "Oslo"]),
        Number(name="age", edges=[20, 40]),
        Number(name="income", range=(1, 1000), spacing="log"),
        YesNo(name="member"),
        Text(name="note", words=(1, 1), places=8),
    ],
    [Cross(columns=("town", "age"))],
)
N = 60


def make_table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "row": [f"r{i}" for i in range(n)],
            "town": rng.choice(["Bern", "Oslo", "Rome", None], n),
            "age": rng.integers(0, 60, n),
            "income": np.where(rng.random(n) < 0.2, np.nan, rng.uniform(1, 2000, n)),
            "member": rng.choice(["yes", "no", "?"], n),
            "note": rng.choice(["good tea", "bad pot", "", None], n),
        }
    )


TABLE = make_table()
Y = np.arange(N) % 3 == 0


def classifier(**parameters):
    return ErasableClassifier(feature_map=TableEncoder(SCHEMA), **{"threshold": 0.02, **parameters})


# -- the transformer -------------------------------------------------------------------------------------------------


def test_fitting_learns_nothing():
    encoder = TableEncoder(SCHEMA, sparse_output=False)
    before = dict(vars(encoder))
    first = encoder.transform(TABLE)
    assert encoder.fit(TABLE[:5]) is encoder
    assert vars(encoder) == before
    assert np.array_equal(encoder.transform(TABLE), first)
    assert np.array_equal(pickle.loads(pickle.dumps(encoder)).transform(TABLE), first)


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_no_attributes_set_in_init",
        "check_get_params_invariance",
        "check_set_params",
        "check_mixin_order",
        "check_valid_tag_types",
        "check_estimator_tags_renamed",
    ],
)
def test_the_checks_of_scikit_learn_that_need_no_table(check):
    getattr(checks, check)("TableEncoder", TableEncoder(SCHEMA))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_output_has_names(kind):
    encoder = TableEncoder(SCHEMA, sparse_output=False).set_output(transform=kind)
    out = encoder.fit_transform(TABLE)
    assert list(out.columns) == SCHEMA.feature_names_out() == encoder.get_feature_names_out().tolist()
    assert np.array_equal(out.to_numpy(), SCHEMA.encode_sparse(TABLE)[0].toarray())


def test_rows_are_sparse_where_asked_for():
    assert sp.issparse(TableEncoder(SCHEMA, sparse_output=True).transform(TABLE))
    assert isinstance(TableEncoder(SCHEMA, sparse_output=False).transform(TABLE), np.ndarray)
    assert sp.issparse(TableEncoder(SCHEMA).transform(TABLE)) == SCHEMA.sparse
    with pytest.raises(ConfigurationError, match="sparse_output must be one of"):
        TableEncoder(SCHEMA, sparse_output="maybe").transform(TABLE)


def test_it_is_a_step_of_a_pipeline():
    pipeline = make_pipeline(TableEncoder(SCHEMA), LogisticRegression())
    assert pipeline.fit(TABLE, Y).score(TABLE, Y) > 0.5
    assert clone(pipeline).fit(pl.from_pandas(TABLE), Y).predict(TABLE).shape == (N,)


# -- the classifier --------------------------------------------------------------------------------------------------


def test_a_schema_alone_is_a_map_too():
    by_schema = ErasableClassifier(feature_map=SCHEMA, threshold=0.02).fit(TABLE, Y)
    encoded = ErasableClassifier(threshold=0.02, alpha=0.1, feature_map=None).fit(
        SCHEMA.encode(TABLE)[0], Y
    )  # the default with a schema
    assert by_schema.state_digest() == classifier().fit(TABLE, Y).state_digest() != encoded.state_digest()
    assert np.array_equal(by_schema.coef_, encoded.coef_)


def test_the_bound_is_a_scaling_that_no_row_leaves():
    worst = pd.DataFrame(
        {"town": ["Bern"], "age": [50], "income": [1e9], "member": ["yes"], "note": ["good bad tea pot"]}
    )
    clf = classifier(scaling=SCHEMA.bound).fit(pd.concat([TABLE, worst]), np.append(Y, True))
    assert len(clf.predict(worst)) == 1


def test_a_file_predicts_tables_on_its_own(tmp_path):
    clf = classifier().fit(TABLE, Y)
    clf.save(tmp_path / "m.erasable")
    again = load(tmp_path / "m.erasable")
    assert again.feature_map == SCHEMA
    assert np.array_equal(again.predict_proba(TABLE), clf.predict_proba(TABLE))
    again.partial_fit(make_table(20, seed=1).assign(row=None), Y[:20])
    alike = load(tmp_path / "m.erasable", like=classifier())
    assert alike.state_digest() == clf.state_digest()
    with pytest.raises(ConfigurationError, match="feature_map"):
        load(
            tmp_path / "m.erasable", like=ErasableClassifier(feature_map=Schema([YesNo(name="member")]), threshold=0.02)
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [("Bern", " Bern"), ("version = 2", "version = 3"), ("places = 8", "places = 9"), ("words", "wards")],
)
def test_a_damaged_schema_is_no_state(old, new):
    configuration = classifier().fit(TABLE, Y).model_.configuration
    assert old in configuration.feature_map
    with pytest.raises(StateFormatError, match="schema is damaged"):
        stored_map(replace(configuration, feature_map=configuration.feature_map.replace(old, new)))


def test_a_million_places_are_refused_before_anything_starts():
    wide = Schema([Category(name="town", hashed=1_000_000)])
    with pytest.raises(ConfigurationError, match=r"1,000,001 features need about .* GiB"):
        ErasableClassifier(feature_map=wide, threshold=0.1).fit(TABLE, Y)


def test_refusals():
    clf = classifier().fit(TABLE, Y)
    digest = clf.state_digest()
    with pytest.raises(InputError, match="lacks 1 of 5 columns of the schema: 'age'"):
        clf.partial_fit(TABLE.drop(columns="age"), Y)
    with pytest.raises(InputError, match="lacks 1 of 5"):
        clf.predict(TABLE.drop(columns="age"))
    with pytest.raises(InputError, match="at least one row"):
        clf.predict(TABLE[:0])
    with pytest.raises(InputError):
        clf.partial_fit(TABLE, Y[:-1])
    with pytest.raises(ConfigurationError, match="schema must be a Schema; got str"):
        ErasableClassifier(feature_map=TableEncoder("schema.toml")).fit(TABLE, Y)
    assert clf.state_digest() == digest
