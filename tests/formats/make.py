"""Writes the files that are kept here: ``python -m tests.formats.make FOLDER``.

Run it once for each version of a format, when that version is released, and never again: what it wrote is kept, and the
tests see that it can be read for ever after.
"""

from __future__ import annotations

import math
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
)
from erasable.classes import LinearBall
from erasable.coresets import LeverageThreshold, RandomSubsample
from erasable.features import HashedText, RandomFourierFeatures
from erasable.models import files as shards
from erasable.research.baselines import RetrainedRidge
from erasable.schemas import Schema
from tests.formats.models import NearestMean, gaussian, labels, rows, sparse_rows, steps, texts, wide_rows

LIMITS = {"LARGEST_FILE": 100, "LARGEST_SHARD": 64}  # for the one that is divided


def linear() -> ErasableClassifier:
    """Texts for ids and subjects, some of them missing, names of columns, a row that was forgotten."""
    model = ErasableClassifier(
        1.0, threshold=0.15, feature_names=["age", "größe", 'a "quoted" one'], loss="squared", feature_map=None
    )
    X, y = rows(20), labels(rows(20))
    model.partial_fit(X[:8], y[:8], ids=[f"row {i}" for i in range(8)])
    subjects = [["Ann", "Bob", "Žofie", "stored as empty"][i % 4] for i in range(12)]
    model.partial_fit(X[8:], y[8:], ids=[f"řádek {i}" for i in range(8, 20)], subjects=subjects)
    model.forget(ids=[model.core_ids_[2]])
    return with_empty_subject(model)


def with_empty_subject(model: ErasableClassifier) -> ErasableClassifier:
    """The model with an empty text for a subject, as files of version 1 may have it; today it is learnt as nobody."""
    core = model._model.core
    for row in core.find(core.ids()):
        row.subject = "" if row.subject == "stored as empty" else row.subject
    model._model.core = core.copy()
    return model


def shared() -> ErasableClassifier:
    """Rows that belong to several people, to one, and to nobody."""
    model = ErasableClassifier(1.0, threshold=0.15, loss="squared", feature_map=None)
    X, people = rows(20), [[7 - i, 2**40, 7 - i][: i % 4] for i in range(20)]
    model.fit(X, labels(X), ids=[f"row {i}" for i in range(20)], subjects=people, allow_no_subject=True)
    model.forget(subjects=[2])
    return model


def logistic() -> ErasableClassifier:
    """Logistic weights, weights of rows and classes, a sample beside the leverage rule."""
    model = ErasableClassifier(
        1.0,
        threshold=0.25,
        loss="logistic",
        alpha=0.5,
        class_weight={"ape": 2.0, "gnu": 0.1},
        sample_rate=0.3,
        feature_map=None,
    )
    X, y = rows(20), labels(rows(20))
    model.fit(X, y, ids=[f"row {i}" for i in range(20)], sample_weight=[0.5 + i % 3 for i in range(20)])
    model.forget(ids=[model.core_ids_[1]])
    return model


def weighted() -> ErasableClassifier:
    """Weighted sums, and nothing but a sample, in the order given."""
    model = ErasableClassifier(
        1.0,
        threshold=math.inf,
        sample_rate=0.75,
        class_weight="balanced",
        order="given",
        random_state=2**70,
        loss="squared",
        feature_map=None,
    )
    X, y = rows(20), labels(rows(20))
    return model.fit(X, y, ids=list(range(20)), sample_weight=[1 / 16 + i % 3 for i in range(20)])


def regression() -> ErasableRegressor:
    """Two targets of two ranges, weights of rows, a row that was forgotten."""
    X = rows(20)
    model = ErasableRegressor([(-16.0, 16.0), (0.0, 100.0)], threshold=0.1, feature_map=None)
    y = np.stack([X[:, 0] * 3.0, 50.0 + 10.0 * X[:, 1]], axis=1)
    model.fit(X, y, ids=[f"home {i}" for i in range(20)], sample_weight=[0.5 + i % 3 for i in range(20)])
    model.forget(ids=[model.core_ids_[1]])
    return model


def kernel() -> ErasableKernelClassifier:
    """Numbers for ids, truth values for labels, a key of the order of rows that is no small number."""
    model = ErasableKernelClassifier(
        "matern", 0.1, 1.0, gamma=0.5, nu=2.5, scaling=[4.0, 5.0, 6.0], grid_bits=8, random_state=2**100
    )
    X = rows(20)
    return model.fit(X, X[:, 0] > 0, ids=[(-1) ** i * 2**i for i in range(20)], subjects=list(range(20)))


def general() -> ErasableGeneralClassifier:
    """Bytes for ids, classes that the caller fixed."""
    X = rows(20) / 16
    model = ErasableGeneralClassifier(LinearBall(), threshold=0.3, classes=[-1, 0, 1])
    return model.fit(X, np.sign(X[:, 0]).astype(int), ids=[b"\0%d\xff" % i for i in range(20)])


def core_set() -> CoreSetUnlearner:
    """Rows as they came."""
    X = rows(20)
    return CoreSetUnlearner(LeverageThreshold(0.15), NearestMean()).fit(X, labels(X), ids=[f"r{i}" for i in range(20)])


def mapped() -> ErasableClassifier:
    """Rows that went through a map, decided in the order given."""
    X = rows(20)
    feature_map = RandomFourierFeatures(5, gamma=0.25, random_state=7)
    model = ErasableClassifier(1.0, feature_map=feature_map, threshold=0.2, order="given", loss="squared")
    return model.fit(X, (X[:, 0] > 0).astype(float))


def divided() -> ErasableClassifier:
    """In several files, with :data:`LIMITS` in force."""
    X = rows(24)
    return ErasableClassifier(1.0, threshold=0.0, loss="squared", feature_map=None).fit(
        X, labels(X), ids=[f"id {i}" for i in range(24)]
    )


def sparse() -> ErasableClassifier:
    """Rows with few entries among many features, so that these alone are stored."""
    X, y = wide_rows(), labels(rows())
    model = ErasableClassifier(1.0, threshold=0.3, loss="squared", feature_map=None).fit(
        X, y, ids=[f"r{i}" for i in range(len(y))]
    )
    model.forget(ids=[model.core_ids_[3]])
    return model


def raw_rows() -> dict[str, list[Any]]:
    """Columns of a raw table."""
    towns = ["Bern", "Oslo", "Zürich", "?"]
    return {
        "town": [towns[(i + i // 3) % 4] for i in range(20)],
        "age": [None if i % 7 == 3 else i * 5 for i in range(20)],
        "member": [i % 3 == 0 for i in range(20)],
    }


SCHEMA = """
version = 1
[columns.who]
role = "id"
[columns.town]
kind = "category"
values = ["Bern", "Zürich"]
[columns.age]
kind = "number"
range = [10, 80]
fill = 40
[columns.member]
kind = "yes/no"
indicator = false
[[crosses]]
columns = ["town", "member"]
"""


def schema() -> ErasableClassifier:
    """A raw table, encoded by a schema that the file holds."""
    model = ErasableClassifier(0.02, threshold=0.05, feature_map=Schema.parse(SCHEMA), loss="squared")
    model.fit(raw_rows(), labels(rows(20)), ids=[f"r{i}" for i in range(20)], subjects=[f"s{i % 6}" for i in range(20)])
    model.forget(ids=[model.core_ids_[2]])
    return model


def second_rows() -> dict[str, Any]:
    """A table with decimals, dates, and cells of several types in one column."""
    price = [[Decimal("0.50"), np.float32(0.1), 2**60, "0.5", 1e16, None][i % 6] for i in range(20)]
    day = [[date(2020, 1, 1 + i), f"2020-01-{1 + i:02} 00:00:00", 39.0][i % 3] for i in range(20)]
    return {**raw_rows(), "price": price, "day": day}


def schema_second() -> ErasableClassifier:
    """A raw table with decimals, dates and cells of several types, by a schema of version 2."""
    text = SCHEMA.replace("version = 1", "version = 2")
    second = Schema.parse(
        text + '[columns.price]\nkind = "category"\nhashed = 8\n[columns.day]\nkind = "text"\nwords = [1, 1]\n'
    )
    model = ErasableClassifier(0.02, threshold=0.05, feature_map=second, loss="squared")
    model.fit(second_rows(), labels(rows(20)), ids=[f"r{i}" for i in range(20)])
    model.forget(ids=[model.core_ids_[2]])
    return model


def wide_grid() -> ErasableClassifier:
    """A finer grid, public scales, no intercept, bytes for ids, classes that were fixed and one without rows."""
    X = rows(20)
    model = ErasableClassifier(
        0.5,
        threshold=0.1,
        grid_bits=20,
        fit_intercept=False,
        scaling=[4.0, 5.5, 8.0],
        classes=[-1, 0, 1],
        loss="squared",
        feature_map=None,
    )
    return model.fit(X, np.sign(X[:, 0]).astype(int), ids=[b"\0%d\xff" % i for i in range(20)])


def empty() -> ErasableClassifier:
    """Nobody is left."""
    model = ErasableClassifier(1.0, threshold=0.15, loss="squared", feature_map=None).fit(
        rows(6), labels(rows(6)), subjects=["Ann"] * 6
    )
    model.forget(subjects=["Ann"])
    return model


def ridge() -> RetrainedRidge:
    """Every row, by the peer that retrains."""
    return RetrainedRidge(0.5).fit(rows(20), labels(rows(20)))


def wider_rows() -> Any:
    """Rows whose columns need two bytes to be numbered."""
    X = wide_rows()
    X.resize((X.shape[0], 256))
    return X


def regression_sparse() -> ErasableRegressor:
    """One target, sparse rows of many features and a finer grid, in the order given, a sample beside the leverage."""
    model = ErasableRegressor(
        (-16, 16), threshold=0.3, grid_bits=20, fit_intercept=False, order="given", sample_rate=0.25, feature_map=None
    )
    y = rows()[:, 0] * 3.0
    return model.fit(wider_rows(), y, ids=list(range(len(y))), subjects=[b"who %d" % (i % 9) for i in range(len(y))])


def regression_divided() -> ErasableRegressor:
    """A regression in several files; rows of several people, weights of rows."""
    X, people = rows(24), [[f"o{i % 5}", f"kin {i % 3}"][: i % 3] for i in range(24)]
    model = ErasableRegressor((-16.0, 16.0), threshold=0.0, feature_map=None)
    known = {"ids": [b"%d" % i for i in range(24)], "sample_weight": [1 + i % 2 for i in range(24)]}
    return model.fit(X, X[:, 0] * 3.0, subjects=people, allow_no_subject=True, **known)


def sparse_divided() -> ErasableClassifier:
    """Sparse rows in several files, some of them dense; logistic weights."""
    X = wide_rows().toarray()
    X[::13] = 1 / 8
    model = ErasableClassifier(1.0, threshold=0.0, loss="logistic", alpha=0.5, feature_map=None)
    return model.fit(X, labels(rows()), ids=list(range(len(X))), subjects=[i % 11 for i in range(len(X))])


def kernel_function() -> ErasableKernelClassifier:
    """A kernel function of the caller's."""
    model = ErasableKernelClassifier(gaussian, 0.1, 1.0, scaling=4.0, grid_bits=8, feature_names=["a", "b", "c"])
    return model.fit(rows(20), labels(rows(20)), ids=[f"r{i}" for i in range(20)])


def polynomial() -> ErasableKernelClassifier:
    """Another kernel, decided in the order given."""
    model = ErasableKernelClassifier("poly", 0.1, 1.0, degree=2, coef0=0.5, scaling=4.0, order="given")
    return model.fit(rows(20), rows(20)[:, 0].round(), ids=[b"%d" % i for i in range(20)])


def staged() -> ErasableGeneralClassifier:
    """A finite list of functions, and the sampler in stages."""
    model = ErasableGeneralClassifier(steps(), sampler="staged")
    return model.fit(rows(20), rows(20)[:, 0] > 0, ids=list(range(20)), subjects=[f"s{i % 5}" for i in range(20)])


def core_set_sparse() -> CoreSetUnlearner:
    """A sample of sparse rows."""
    X = sparse_rows()
    return CoreSetUnlearner(RandomSubsample(0.5, random_state=3), NearestMean()).fit(X, labels(rows()))


def mapped_texts() -> ErasableClassifier:
    """Texts that went through a map."""
    return ErasableClassifier(1.0, threshold=0.2, feature_map=HashedText(16), loss="squared").fit(
        texts(20), labels(rows(20))
    )


KINDS_SCHEMA = """
version = 1
missing = ["", "-"]
[columns.number]
role = "id"
[columns.buyer]
role = "subject"
[columns.payer]
role = "subject"
[columns.counts]
role = "weight"
[columns.back]
role = "label"
classes = ["no", "yes"]
[columns.secret]
role = "ignore"
[columns.age]
kind = "number"
edges = [20, 40.5, 60]
bins = "thermometer"
[columns.price]
kind = "number"
range = [1, 1000]
spacing = "log"
[columns.pieces]
kind = "number"
scale = 8
indicator = false
[columns.town]
kind = "category"
hashed = 8
[columns.goods]
kind = "category"
values = ["book", "größe", "shoe"]
fill = "book"
[columns.size]
kind = "ordered"
levels = ["S", "M", "L"]
[columns.gift]
kind = "yes/no"
yes = ["ja", "yes"]
no = ["nein", "no"]
[columns.placed]
kind = "date"
parts = ["year", "month", "weekday", "hour", "days"]
years = [2020, 2025]
since = "2020-01-01"
days = 3000
order = "dmy"
[columns.birth]
kind = "date"
parts = ["day"]
encoding = "bins"
[columns.opens]
kind = "time"
[columns.note]
kind = "text"
words = [1, 2]
places = 16
cap = 2
[columns.code]
kind = "text"
characters = [2, 3]
places = 8
[columns.meaning]
kind = "vector"
length = 3
scale = 4
[[crosses]]
columns = ["goods", "gift"]
[[crosses]]
columns = ["town", "size"]
hashed = 8
"""


def orders() -> dict[str, list[Any]]:
    """Columns of every kind."""
    n = range(20)
    return {
        "age": [None if i % 6 == 5 else 18 + 3 * i for i in n],
        "price": [1.5 * 2 ** (i % 11) for i in n],
        "pieces": [1 + i % 12 for i in n],
        "town": [["Bern", "Oslo", "Zürich", "-"][(i + i // 3) % 4] for i in n],
        "goods": [["book", "shoe", "größe", "hat", ""][i % 5] for i in n],
        "size": [["S", "M", "L", "XXL"][i % 4] for i in n],
        "gift": [["ja", "no", "nein", ""][i % 4] for i in n],
        "placed": [f"{1 + i}.{1 + i % 12}.{2019 + i % 8} {i:02d}:30" for i in n],
        "birth": [f"19{50 + i}-03-{1 + i:02d}" for i in n],
        "opens": [f"{i}:15" for i in n],
        "note": texts(20),
        "code": [f"Ä{i % 3}-{i * i}" for i in n],
        "meaning": [row.tolist() for row in rows(20)],
    }


def schema_kinds() -> ErasableClassifier:
    """A schema with every kind, logistic weights, classes that balance, a sample, rows of several people, weights."""
    model = ErasableClassifier(
        0.05,
        threshold=0.3,
        loss="logistic",
        alpha=0.05,
        class_weight="balanced",
        sample_rate=0.2,
        feature_map=Schema.parse(KINDS_SCHEMA),
    )
    people = [[f"b{i % 7}", f"p{i % 4}"][: 1 + i % 2] for i in range(20)]
    y = np.where(rows(20)[:, 0] > 0, "yes", "no")
    model.fit(orders(), y, ids=list(range(20)), subjects=people, sample_weight=[1 + i % 2 for i in range(20)])
    model.forget(subjects=["b3"])
    return model


TARGETS_SCHEMA = (
    SCHEMA
    + """
[columns.rent]
role = "target"
range = [0, 2000]
[columns.size]
role = "target"
range = [-1.5, 200]
"""
)


def schema_targets() -> ErasableRegressor:
    """A raw table with two targets whose ranges the schema declares."""
    model = ErasableRegressor(threshold=0.05, feature_map=Schema.parse(TARGETS_SCHEMA))
    y = np.stack([1000.0 + 100.0 * rows(20)[:, 0], 50.0 + 10.0 * rows(20)[:, 1]], axis=1)
    model.fit(raw_rows(), y, ids=[f"r{i}" for i in range(20)], subjects=[f"s{i % 6}" for i in range(20)])
    model.forget(ids=[model.core_ids_[2]])
    return model


def independent(**parameters: Any) -> ErasableClassifier:
    """Each row by itself, whatever the others are; texts for ids, names of columns, a row that was forgotten."""
    given = {"feature_names": ["age", "größe", "a"], "loss": "squared", "rate": 0.6} | parameters
    model = ErasableClassifier(0.5, selection="independent", **given, feature_map=None)
    model.fit(rows(), labels(rows()), ids=[f"row {i}" for i in range(len(rows()))])
    model.forget(ids=[model.core_ids_[2]])
    return model


def independent_balanced() -> ErasableClassifier:
    """Public moments and shares of classes, logistic weights, weights of rows, rows of several people."""
    shares = {"ape": 0.5, "bee": 0.25, "cow": 0.25}
    chosen = {"rate": 0.5, "moments": [0.5, 0.25, 0.2], "balance": 0.5, "class_shares": shares}
    model = ErasableClassifier(1.0, selection="independent", loss="logistic", alpha=0.25, **chosen, feature_map=None)
    X, n = rows(), range(len(rows()))
    people = [[f"b{i % 7}", f"p{i % 4}"][: i % 3] for i in n]
    named = {"ids": [i * 2**40 for i in n], "subjects": people, "allow_no_subject": True}
    model.fit(X, labels(X), sample_weight=[0.5 + i % 3 for i in n], **named)
    model.forget(subjects=["b3"])
    return model


def independent_matrix() -> ErasableClassifier:
    """A public matrix of moments, a finer grid, bytes for ids, a key that is no small number, balanced classes."""
    moments = np.array([[4, 1, 0], [1, 3, -1], [0, -1, 2]]) / 8
    chosen = {"rate": 0.5, "moments": moments, "random_state": 2**70, "class_weight": "balanced"}
    model = ErasableClassifier(
        1.0,
        selection="independent",
        grid_bits=20,
        fit_intercept=False,
        loss="squared",
        scaling=8.0,
        **chosen,
        feature_map=None,
    )
    return model.fit(rows(), rows()[:, 0] > 0, ids=[b"\0%d\xff" % i for i in range(len(rows()))])


def independent_regression() -> ErasableRegressor:
    """Two targets, weights of rows."""
    X = rows()
    model = ErasableRegressor(
        [(-13.0, 14.0), (-6.0, 5.5)], selection="independent", rate=0.5, moments=[0.5, 0.5, 0.25], feature_map=None
    )
    y = np.stack([X[:, 0] * 3.0, X[:, 1] - 1.0], axis=1)
    return model.fit(X, y, ids=list(range(len(X))), sample_weight=[1 + i % 2 for i in range(len(X))])


def independent_sparse() -> ErasableClassifier:
    """Sparse rows."""
    model = ErasableClassifier(selection="independent", rate=0.5, moments=[2.0**-5] * 30, alpha=0.5, feature_map=None)
    return model.fit(wide_rows(), labels(rows()), ids=[f"r{i}" for i in range(len(rows()))])


def independent_divided() -> ErasableClassifier:
    """In several files, every row kept."""
    return independent(rate=1.0, loss="logistic", alpha=0.5)


SELECTING_SCHEMA = """
version = 2
[columns.back]
role = "label"
classes = ["no", "yes"]
[columns.town]
kind = "category"
values = ["Bern", "Zürich"]
[columns.age]
kind = "number"
edges = [20, 40.5, 60]
bins = "multiscale"
fill = 40
[columns.member]
kind = "yes/no"
indicator = false
[[crosses]]
columns = ["age", "member"]
bins = 2
[selection]
rate = 0.5
"""


def selecting_table() -> ErasableClassifier:
    """A raw table by a schema with bins at several scales, a cross of joined bins, and a public rate."""
    model = ErasableClassifier(feature_map=Schema.parse(SELECTING_SCHEMA), selection="independent", alpha=0.5)
    y = np.where(rows(20)[:, 0] > 0, "yes", "no")
    model.fit(raw_rows(), y, ids=[f"r{i}" for i in range(20)], subjects=[f"s{i % 6}" for i in range(20)])
    model.forget(subjects=["s2"])
    return model


def independent_kernel() -> ErasableKernelClassifier:
    """A kernel on rows that were selected each by itself."""
    model = ErasableKernelClassifier(
        selection="independent", rate=0.6, scaling=4.0, moments=[0.5, 0.25, 0.2], grid_bits=8
    )
    return model.fit(rows(), labels(rows()), ids=[f"r{i}" for i in range(len(rows()))])


def spread() -> ErasableClassifier:
    """A regulariser by the spread of each column, one of them empty; weights of rows, a row that was forgotten."""
    model = ErasableClassifier(
        1.0, threshold=0.15, head_scaling="spread", alpha=0.5, class_weight={"ape": 2.0}, feature_map=None
    )
    X = np.hstack([rows(20) * [1.0, 0.01, 30.0], np.zeros((20, 1))])
    weights = [16.0 if i % 7 == 2 else 0.25 for i in range(20)]
    model.fit(X, labels(rows(20)), ids=[f"row {i}" for i in range(20)], sample_weight=weights)
    model.forget(ids=[model.core_ids_[1]])
    return model


def independent_spread() -> ErasableClassifier:
    """The same for sparse rows that were selected each by itself, two classes and a finer grid."""
    model = ErasableClassifier(selection="independent", rate=0.5, head_scaling="spread", grid_bits=20, feature_map=None)
    return model.fit(wide_rows(), rows()[:, 0] > 0, ids=[f"r{i}" for i in range(len(rows()))])


def log_spread() -> ErasableClassifier:
    """Defaults for arrays: the log map with all its parameters, names of columns, a row that was forgotten."""
    model = ErasableClassifier(
        centres=[0.0, -1.5, 2000.0],
        scaling=[1.0, 0.1, 3.0],
        missing="indicator",
        feature_names=["age", "größe", "year"],
        threshold=0.15,
    )
    X = rows() * [1.0, 0.25, 30.0] + [0.0, 0.0, 2000.0]
    X[::7, 1] = np.nan
    model.fit(X, labels(rows()), ids=[f"row {i}" for i in range(len(X))], subjects=[f"s{i % 6}" for i in range(len(X))])
    model.forget(ids=[model.core_ids_[2]])
    return model


def log_regression() -> ErasableRegressor:
    """The same for numbers, each row selected by itself, and without a constant."""
    model = ErasableRegressor((-16.0, 16.0), selection="independent", rate=0.5, fit_intercept=False)
    return model.fit(rows() * [1.0, 100.0, 1e6], rows()[:, 0] * 3.0, ids=list(range(len(rows()))))


def log_trees() -> ErasableClassifier:
    """Trees on raw columns, missing cells among them, selected by leverage behind the log map."""
    trees = ExtraTreesClassifier(n_estimators=3, max_depth=4, random_state=1)
    model = ErasableClassifier(threshold=0.15, learner=trees, feature_names=["age", "größe", "a"])
    X = rows()
    X[::7, 1] = np.nan
    model.fit(X, labels(rows()), ids=[f"r{i}" for i in range(len(X))])
    model.forget(ids=[model.core_ids_[2]])
    return model


def learner_leverage() -> ErasableClassifier:
    """A learner that sees rows as they are selected, by leverage."""
    model = ErasableClassifier(1.0, threshold=0.15, learner=LogisticRegression(C=0.5), feature_map=None)
    return model.fit(rows(), labels(rows()), ids=[f"r{i}" for i in range(len(rows()))])


def learner_independent() -> ErasableRegressor:
    """The same for numbers, each row selected by itself."""
    model = ErasableRegressor(
        (-16.0, 16.0), selection="independent", rate=0.5, learner=Ridge(alpha=0.25), feature_map=None
    )
    return model.fit(rows(), rows()[:, 0] * 3.0, ids=list(range(len(rows()))))


def trees_leverage() -> ErasableClassifier:
    """Trees on raw columns, selected by leverage; a row that was forgotten."""
    trees = ExtraTreesClassifier(n_estimators=3, max_depth=4, random_state=1)
    model = ErasableClassifier(1.0, threshold=0.15, learner=trees, feature_map=None)
    model.fit(rows(), labels(rows()), ids=[f"r{i}" for i in range(len(rows()))])
    model.forget(ids=[model.core_ids_[2]])
    return model


def trees_table() -> ErasableClassifier:
    """Trees on the columns of a raw table, missing cells among them, each row selected by itself."""
    trees = RandomForestClassifier(n_estimators=3, random_state=1)
    model = ErasableClassifier(feature_map=Schema.parse(SELECTING_SCHEMA), selection="independent", learner=trees)
    return model.fit(raw_rows(), np.where(rows(20)[:, 0] > 0, "yes", "no"), ids=[f"r{i}" for i in range(20)])


MODELS = {
    "linear-v1": linear,
    "sparse-v1": sparse,
    "shared-v1": shared,
    "logistic-v1": logistic,
    "weighted-v1": weighted,
    "regression-v1": regression,
    "kernel-v1": kernel,
    "general-v1": general,
    "core-set-v1": core_set,
    "mapped-v1": mapped,
    "schema-v1": schema,
    "sharded-v1": divided,
    "wide-grid-v1": wide_grid,
    "empty-v1": empty,
    "ridge-v1": ridge,
    "regression-sparse-v1": regression_sparse,
    "regression-sharded-v1": regression_divided,
    "sparse-sharded-v1": sparse_divided,
    "kernel-function-v1": kernel_function,
    "polynomial-v1": polynomial,
    "staged-v1": staged,
    "core-set-sparse-v1": core_set_sparse,
    "mapped-texts-v1": mapped_texts,
    "schema-kinds-v1": schema_kinds,
    "schema-targets-v1": schema_targets,
    "schema-second-v1": schema_second,
    "independent-v2": independent,
    "independent-balanced-v2": independent_balanced,
    "independent-matrix-v2": independent_matrix,
    "independent-regression-v2": independent_regression,
    "independent-sparse-v2": independent_sparse,
    "independent-sharded-v2": independent_divided,
    "independent-schema-v2": selecting_table,
    "independent-kernel-v2": independent_kernel,
    "spread-leverage-v2": spread,
    "spread-independent-v2": independent_spread,
    "log-leverage-v2": log_spread,
    "log-independent-v2": log_regression,
    "log-trees-v2": log_trees,
    "learner-leverage-v2": learner_leverage,
    "learner-independent-v2": learner_independent,
    "trees-leverage-v2": trees_leverage,
    "trees-schema-v2": trees_table,
}


def main(folder: str) -> None:
    """Write them all; none may be there."""
    for name, make in MODELS.items():
        with mock.patch.multiple(shards, **(LIMITS if "sharded" in name else {"VERSION": shards.VERSION})):
            model = make()
            model.save(Path(folder, f"{name}.erasable"))
        print(name, model.state_digest())


if __name__ == "__main__":
    main(sys.argv[1])
