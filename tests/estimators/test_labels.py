"""Labels keep apart what is different and hold together what is equal, in whatever container they come."""

import enum

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from erasable import verify
from erasable.errors import ConfigurationError, InputError, InputTypeError
from tests.estimators.cases import classifier, make_rows, refused

N = 240
X, _ = make_rows(N, 3)

INTEGERS = [i % 3 for i in range(N)]
TEXTS = [f"class {i % 3}" for i in range(N)]
BOOLEANS = [i % 2 == 0 for i in range(N)]

CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "object array": lambda v: np.array(v, dtype=object),
    "pandas": pd.Series,
    "pandas nullable": lambda v: pd.Series(v).convert_dtypes(),
    "pandas category": pd.Categorical,
    "polars": pl.Series,
    "pyarrow": pa.array,
    "pyarrow chunks": lambda v: pa.chunked_array([v[:7], v[7:]]),
    "pyarrow dictionary": lambda v: pa.array(v).dictionary_encode(),
}


@pytest.mark.parametrize("labels", [INTEGERS, TEXTS, BOOLEANS], ids=["integers", "texts", "booleans"])
@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_any_container_of_labels_gives_the_same_state(container, labels):
    clf = classifier().fit(X, container(labels))
    assert clf.state_digest() == classifier().fit(X, labels).state_digest()
    assert clf.classes_.tolist() == sorted(set(labels))
    assert type(clf.predict(X[:1]).tolist()[0]) is type(labels[0])


@pytest.mark.parametrize("put", [list, lambda v: np.array(v, dtype=object)], ids=["list", "object array"])
def test_texts_that_end_in_zeros_are_different_labels(put):
    labels = ["a\0" if i % 2 else "a" for i in range(N)]
    clf = classifier().fit(X, put(labels))
    assert list(clf.classes_) == ["a", "a\0"]
    assert set(clf.predict(X)) == {"a", "a\0"}
    verify(clf)
    clf.forget(ids=[i for i in range(N) if labels[i] == "a"])
    assert list(clf.classes_) == ["a\0"]
    verify(clf)
    fixed = classifier(classes=["a\0", "b"])
    with refused(fixed, InputError, f"{N // 2} of {N} labels are not among"):
        fixed.fit(X, put(labels))


PAST = [2**63 + i % 2 for i in range(N)]
PAST_CONTAINERS = {
    "array": lambda v: np.array(v, dtype=np.uint64),
    "array with small ones": lambda v: np.array([1, *v[1:]], dtype=np.uint64),
    "object array": lambda v: np.array(v, dtype=object),
    "NumPy scalars": lambda v: [np.uint64(x) for x in v],
    "pandas": lambda v: pd.Series(v, dtype="uint64"),
    "pandas nullable": lambda v: pd.Series(v, dtype="UInt64"),
    "pandas category": lambda v: pd.Categorical(np.array(v, dtype=np.uint64)),
    "polars": lambda v: pl.Series(v, dtype=pl.UInt64),
    "pyarrow": lambda v: pa.array(v, pa.uint64()),
    "Python integers": list,
    "negative": lambda v: [-x - 1 for x in v],
}


@pytest.mark.parametrize("put", PAST_CONTAINERS.values(), ids=PAST_CONTAINERS)
def test_integers_past_64_bits_are_refused_in_every_container(put):
    with refused(clf := classifier(), InputError, "labels must fit 64 bits"):
        clf.fit(X, put(PAST))
    with refused(clf := classifier(classes=put(PAST[:2])), InputError, "classes must fit 64 bits"):
        clf.fit(X, INTEGERS)
    for name in ("ids", "subjects"):
        owned = {"ids": put([2**63 + i for i in range(N)]), "subjects": put(PAST)}
        with refused(clf := classifier(), InputError, f"{name} must fit 64 bits"):
            clf.fit(X, INTEGERS, **{name: owned[name]})
    assert classifier().fit(X, np.array([2**63 - 1 - i % 2 for i in range(N)], dtype=np.uint64)).classes_.tolist() == [
        2**63 - 2,
        2**63 - 1,
    ]


class Fruit(enum.StrEnum):
    APPLE = "apple"
    PEAR = "pear"


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        ([Fruit.APPLE if i % 2 else Fruit.PEAR for i in range(N)], InputTypeError),
        ([1 if i % 2 else "SECRET" for i in range(N)], InputTypeError),
        ([1 if i % 2 else True for i in range(N)], InputTypeError),
        (["SECRET\ud800" if i % 2 else "b" for i in range(N)], InputError),
        ([2**63 + i % 2 for i in range(N)], InputError),
        (pd.Series([1, None] * (N // 2), dtype="Int64"), InputError),
        (pl.Series(["SECRET", None] * (N // 2)), InputError),
        ([None] * N, InputError),
        (np.zeros(N, dtype=[("a", int)]), InputTypeError),
        ((np.arange(N) % 2).astype("M8[D]"), InputTypeError),
        (list((np.arange(N) % 2).astype("M8[ns]")), InputTypeError),
        ((np.arange(N) % 2).astype(np.longdouble), InputTypeError),
        (list((np.arange(N) % 2).astype(np.longdouble)), InputTypeError),
    ],
    ids=[
        *("enum", "mixed", "booleans and integers", "surrogate", "large", "NA", "null", "none", "structured", "dates"),
        *("times in a list", "wide", "wide numbers in a list"),
    ],
)
def test_labels_that_cannot_be_stored_are_refused(labels, error):
    with refused(clf := classifier(), error):
        clf.fit(X, labels)
    with refused(clf := classifier().fit(X, INTEGERS), error):
        clf.partial_fit(X, labels, ids=np.arange(N) + 1000)


@pytest.mark.parametrize("classes", [5, "ab", b"ab", [], [[0, 1]], [0, "a"], ["\ud800"], {"a": {}}.values()])
def test_classes_that_cannot_be_fixed_are_refused(classes):
    with refused(clf := classifier(classes=classes), (ConfigurationError, InputError, InputTypeError)):
        clf.fit(X, INTEGERS)
