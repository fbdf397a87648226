"""Writes the files that are kept here: ``python -m tests.formats.make FOLDER``.

Run it once for each version of a format, when that version is released, and never again: what it wrote is kept, and the
tests see that it can be read for ever after.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
)
from erasable.classes.linear import LinearBall
from erasable.coresets import LeverageThreshold
from erasable.features import RandomFourierFeatures
from erasable.models import shards
from erasable.schemas import Schema
from tests.formats.models import NearestMean, labels, rows, wide_rows

LIMITS = {"LARGEST_FILE": 100, "LARGEST_SHARD": 64}  # for the one that is divided


def linear() -> ErasableClassifier:
    """Texts for ids and subjects, some of them missing, names of columns, a row that was forgotten."""
    model = ErasableClassifier(1.0, threshold=0.15, feature_names=["age", "größe", 'a "quoted" one'])
    X, y = rows(20), labels(rows(20))
    model.partial_fit(X[:8], y[:8], ids=[f"row {i}" for i in range(8)])
    subjects = [["Ann", "Bob", "Žofie", ""][i % 4] for i in range(12)]
    model.partial_fit(X[8:], y[8:], ids=[f"řádek {i}" for i in range(8, 20)], subjects=subjects, allow_no_subject=True)
    model.forget(ids=[model.core_ids_[2]])
    return model


def shared() -> ErasableClassifier:
    """Rows that belong to several people, to one, and to nobody."""
    model = ErasableClassifier(1.0, threshold=0.15)
    X, people = rows(20), [[7 - i, 2**40, 7 - i][: i % 4] for i in range(20)]
    model.fit(X, labels(X), ids=[f"row {i}" for i in range(20)], subjects=people, allow_no_subject=True)
    model.forget(subjects=[2])
    return model


def logistic() -> ErasableClassifier:
    """Logistic weights, weights of rows and classes, a sample beside the leverage rule."""
    model = ErasableClassifier(
        1.0, threshold=0.25, loss="logistic", alpha=0.5, class_weight={"ape": 2.0, "gnu": 0.1}, sample_rate=0.3
    )
    X, y = rows(20), labels(rows(20))
    model.fit(X, y, ids=[f"row {i}" for i in range(20)], sample_weight=[0.5 + i % 3 for i in range(20)])
    model.forget(ids=[model.core_ids_[1]])
    return model


def weighted() -> ErasableClassifier:
    """Weighted sums, and nothing but a sample, in the order given."""
    model = ErasableClassifier(
        1.0, threshold=math.inf, sample_rate=0.75, class_weight="balanced", order="given", random_state=2**70
    )
    X, y = rows(20), labels(rows(20))
    return model.fit(X, y, ids=list(range(20)), sample_weight=[1 / 16 + i % 3 for i in range(20)])


def regression() -> ErasableRegressor:
    """Two targets of two ranges, weights of rows, a row that was forgotten."""
    X = rows(20)
    model = ErasableRegressor([(-16.0, 16.0), (0.0, 100.0)], threshold=0.1)
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
    model = ErasableClassifier(1.0, feature_map=feature_map, threshold=0.2, order="given")
    return model.fit(X, (X[:, 0] > 0).astype(float))


def divided() -> ErasableClassifier:
    """In several files, with :data:`LIMITS` in force."""
    X = rows(24)
    return ErasableClassifier(1.0, threshold=0.0).fit(X, labels(X), ids=[f"id {i}" for i in range(24)])


def sparse() -> ErasableClassifier:
    """Rows with few entries among many features, so that these alone are stored."""
    X, y = wide_rows(), labels(rows())
    model = ErasableClassifier(1.0, threshold=0.3).fit(X, y, ids=[f"r{i}" for i in range(len(y))])
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
    model = ErasableClassifier(0.02, threshold=0.05, feature_map=Schema.parse(SCHEMA))
    model.fit(raw_rows(), labels(rows(20)), ids=[f"r{i}" for i in range(20)], subjects=[f"s{i % 6}" for i in range(20)])
    model.forget(ids=[model.core_ids_[2]])
    return model


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
}


def main(folder: str) -> None:
    """Write them all; none may be there."""
    for name, make in MODELS.items():
        with mock.patch.multiple(shards, **(LIMITS if name.startswith("sharded") else {"VERSION": shards.VERSION})):
            model = make()
            model.save(Path(folder, f"{name}.erasable"))
        print(name, model.state_digest())


if __name__ == "__main__":
    main(sys.argv[1])
