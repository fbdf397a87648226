"""Ids and subjects: what counts as one, in which containers, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from erasable import learn, verify
from erasable.errors import InputError, InputTypeError
from erasable.tables import load_table
from tests.estimators.cases import SECRET, SECRET_ID, SECRET_TEXT, N, classifier, make_rows, refused

X, Y = make_rows()
NUMBERS = np.arange(N)
TEXTS = [f"row-{i}" for i in range(N)]
BYTES = [t.encode() for t in TEXTS]
IDS_OF_SECRETS = [f"{SECRET_TEXT}-{i}" for i in range(N)]


def fitted(ids=None, subjects=None, **parameters):
    return classifier(**parameters).fit(X, Y, ids=ids, subjects=subjects, allow_no_subject=True)


INTEGER_CONTAINERS = {
    "list": NUMBERS.tolist(),
    "tuple": tuple(NUMBERS.tolist()),
    "range": range(N),
    "iterator": lambda: iter(NUMBERS.tolist()),
    "int16": NUMBERS.astype(np.int16),
    "int32": NUMBERS.astype(np.int32),
    "uint8": NUMBERS.astype(np.uint8),
    "uint64": NUMBERS.astype(np.uint64),
    "big-endian": NUMBERS.astype(">i8"),
    "every second of a longer array": np.repeat(NUMBERS, 2)[::2],
    "object array": NUMBERS.astype(object),
    "list of NumPy scalars": list(NUMBERS),
    "list of several NumPy types": [np.int16(i) if i % 2 else np.uint64(i) for i in range(N)],
    "object array of NumPy scalars": np.array([*NUMBERS, None], dtype=object)[:-1],
    "pandas": pd.Series(NUMBERS, index=NUMBERS[::-1]),
    "pandas index": pd.Index(NUMBERS),
    "pandas nullable": pd.Series(NUMBERS, dtype="Int64"),
    "pandas pyarrow": pd.Series(NUMBERS, dtype="int64[pyarrow]"),
    "polars": pl.Series(NUMBERS),
    "pyarrow": pa.array(NUMBERS),
    "pyarrow chunks": pa.chunked_array([NUMBERS[:7], NUMBERS[7:]]),
    "pyarrow dictionary": pa.array(NUMBERS).dictionary_encode(),
}
TEXT_CONTAINERS = {
    "list": TEXTS,
    "NumPy": np.array(TEXTS),
    "NumPy variable width": np.array(TEXTS, dtype=np.dtypes.StringDType()),
    "object array": np.array(TEXTS, dtype=object),
    "list of NumPy scalars": list(np.array(TEXTS)),
    "pandas": pd.Series(TEXTS),
    "pandas nullable": pd.Series(TEXTS, dtype="string"),
    "pandas categories": pd.Series(TEXTS, dtype="category"),
    "polars": pl.Series(TEXTS),
    "polars categories": pl.Series(TEXTS, dtype=pl.Categorical),
    "pyarrow": pa.array(TEXTS),
    "pyarrow large": pa.array(TEXTS, pa.large_string()),
    "pyarrow view": pa.array(TEXTS, pa.string_view()),
    "pyarrow dictionary": pa.array(TEXTS).dictionary_encode(),
}
BYTE_CONTAINERS = {
    "list": BYTES,
    "NumPy": np.array(BYTES),
    "object array": np.array(BYTES, dtype=object),
    "polars": pl.Series(BYTES),
    "pyarrow": pa.array(BYTES),
}
CONTAINERS = [
    pytest.param(plain, container, id=f"{kind}-{name}")
    for kind, plain, group in (
        ("integers", NUMBERS.tolist(), INTEGER_CONTAINERS),
        ("strings", TEXTS, TEXT_CONTAINERS),
        ("bytes", BYTES, BYTE_CONTAINERS),
    )
    for name, container in group.items()
]


@pytest.mark.parametrize(("plain", "container"), CONTAINERS)
def test_a_container_changes_nothing(plain, container):
    def fresh():
        return container() if callable(container) else container

    expected = fitted(plain, plain)
    clf = fitted(fresh(), fresh())
    assert clf.core_ids_.tolist() == expected.core_ids_.tolist()
    assert clf.state_digest() == expected.state_digest()
    assert {type(key) for key in clf._model.core.place} == {type(plain[0])}
    assert {type(key) for key in clf._model.core.of_subject} == {type(plain[0])}
    by_subject = fitted(plain, plain)
    assert clf.forget(ids=fresh()).core_rows_removed == expected.n_core_
    assert by_subject.forget(subjects=fresh()).core_rows_removed == expected.n_core_
    assert clf.n_core_ == by_subject.n_core_ == 0


@pytest.mark.parametrize("argument", ["ids", "subjects"])
@pytest.mark.parametrize(("form", "says"), [(set, ""), (dict.fromkeys, "got dict: pass a list")], ids=["set", "dict"])
def test_learning_refuses_what_has_no_order(argument, form, says):
    with refused(clf := classifier(), InputTypeError, argument, says):
        clf.fit(X, Y, **{argument: form(IDS_OF_SECRETS)})


@pytest.mark.parametrize(
    ("ids", "one"),
    [
        (NUMBERS, lambda key: int(key)),
        (NUMBERS, lambda key: np.int32(key)),
        (NUMBERS, lambda key: np.uint64(key)),
        (TEXTS, lambda key: str(key)),
        (TEXTS, lambda key: np.str_(key)),
        (BYTES, lambda key: bytes(key)),
    ],
)
def test_one_bare_id_is_a_list_of_one(ids, one):
    clf = fitted(ids)
    gone = clf.core_ids_[3]
    report = clf.forget(ids=one(gone))
    assert (report.requested, report.core_rows_removed) == (1, 1)
    assert gone not in clf.core_ids_.tolist()


def test_negative_and_extreme_integers_are_ids():
    ids = NUMBERS - 50
    ids[0], ids[1] = -(2**63), 2**63 - 1
    clf = fitted(ids, threshold=0.0)
    assert sorted(clf.core_ids_.tolist()) == sorted(ids.tolist())
    assert len(clf.state_digest()) == 64
    assert clf.forget(ids=[-(2**63), 2**63 - 1, -1]).core_rows_removed == 3


@pytest.mark.parametrize(
    "keys",
    [
        [b"a" + b"\0" * i for i in range(N)],
        ["a" + "\0" * i for i in range(N)],
        ["", *(" " * i for i in range(1, N))],
        [b"", *(b"\0" * i for i in range(1, N))],
        [f"naïve-{i}-東京-\U0001f600" for i in range(N)],
        [b"\xff\xfe" + bytes([i]) for i in range(N)],
    ],
    ids=["bytes that end in zeros", "strings that end in zeros", "empty", "empty bytes", "unicode", "not utf-8"],
)
def test_strange_ids_are_told_apart(keys):
    clf = fitted(keys, keys, threshold=0.0, order="given")
    assert list(clf.core_ids_) == keys  # NumPy's own text types drop trailing zeros
    digest = clf.state_digest()
    assert clf.forget(ids=clf.core_ids_[:7]).core_rows_removed == 7
    assert clf.state_digest() != digest
    assert clf.forget(subjects=keys[1:8]).core_rows_removed == 1  # the first may be empty, which is nobody
    assert list(clf.core_ids_) == keys[8:]


def test_numpy_bytes_scalars_keep_their_trailing_zeros():
    keys = [b"a" + b"\0" * i for i in range(N)]
    assert fitted([np.bytes_(k) for k in keys]).state_digest() == fitted(keys).state_digest()


def test_ids_are_copied_out_of_the_callers_array():
    ids, subjects = NUMBERS.copy(), NUMBERS.copy()
    clf = fitted(ids, subjects)
    before = clf.state_digest()
    ids[:], subjects[:] = -1, -1
    assert clf.state_digest() == before
    clf.core_ids_[:] = -1
    assert clf.state_digest() == before
    assert -1 not in clf.core_ids_


def with_secret(last, kind=float):
    return [*map(kind, range(N - 1)), last]


MISSING = {
    "none": [None] * N,
    "a none among integers": [*range(N - 1), None],
    "a none among strings": [*TEXTS[:-1], None],
    "pandas missing": pd.Series([*range(N - 1), None], dtype="Int64"),
    "pandas missing text": pd.Series([*TEXTS[:-1], None], dtype="string"),
    "pandas missing category": pd.Series([*TEXTS[:-1], None], dtype="category"),
    "polars missing": pl.Series([*range(N - 1), None]),
    "pyarrow missing": pa.array([*range(N - 1), None]),
    "pyarrow dictionary with missing": pa.array([*TEXTS[:-1], None]).dictionary_encode(),
    "masked integers": np.ma.array(NUMBERS, mask=NUMBERS == 0),
}
WRONG_TYPES = {
    "floats": NUMBERS + SECRET,
    "whole floats": NUMBERS.astype(float),
    "booleans": NUMBERS > 3,
    "a boolean among integers": [*range(N - 1), True],
    "a NumPy boolean among integers": [*range(N - 1), np.bool_(True)],
    "a NumPy float among integers": with_secret(np.float64(SECRET), int),
    "integers and strings": with_secret(SECRET_TEXT, int),
    "strings and bytes": [*TEXTS[:-1], SECRET_TEXT.encode()],
    "complex": NUMBERS + SECRET * 1j,
    "dates": NUMBERS.astype("M8[D]"),
    "a list of dates that are counted in nanoseconds": list(NUMBERS.astype("M8[ns]")),
    "a list of spans of time without a unit": list(NUMBERS.astype("m8")),
    "numbers wider than float64": NUMBERS.astype(np.longdouble),
    "tuples": [(i, SECRET_TEXT) for i in range(N)],
    "lists": [[i] for i in range(N)],
    "dictionaries": [{SECRET_TEXT: i} for i in range(N)],
    "structured": np.rec.fromarrays([NUMBERS, NUMBERS]),
    "pandas times": pd.Series(pd.date_range("2020-01-01", periods=N)),
    "a float": SECRET,
    "a NumPy float": np.float64(SECRET),
    "an object": object(),
}
WRONG_VALUES = {
    "pyarrow table": pa.table({"id": NUMBERS}),
    "a column": NUMBERS[:, None],
    "a matrix": np.tile(NUMBERS, (2, 1)),
    "no dimensions": np.array(SECRET_ID),
    "unsigned beyond signed": NUMBERS.astype(np.uint64) + np.uint64(2**63),
    "beyond 64 bits": [*range(N - 1), 2**63],
    "below 64 bits": [*range(N - 1), -(2**63) - 1],
    "beyond 64 bits in polars": pl.Series([*range(N - 1), 2**63], dtype=pl.UInt64),
    "lone surrogates": [*TEXTS[:-1], "\ud800" + SECRET_TEXT],
    "polars frame": pl.DataFrame({"id": NUMBERS}),
}
WRONG = [pytest.param(v, InputTypeError, id=k) for k, v in WRONG_TYPES.items()]
WRONG += [pytest.param(v, InputError, id=k) for k, v in WRONG_VALUES.items()]


FOR_SUBJECTS = (
    "lists",
    "structured",
    "pyarrow table",
    "a column",
    "polars frame",
)  # as good as keys


@pytest.mark.parametrize("keys", [(WRONG_TYPES | WRONG_VALUES)[name] for name in FOR_SUBJECTS], ids=FOR_SUBJECTS)
def test_one_subject_in_a_list_or_a_table_is_that_subject(keys):
    assert fitted(subjects=keys).state_digest() == fitted(subjects=NUMBERS).state_digest()


@pytest.mark.parametrize(
    ("argument", "keys", "error"),
    [
        pytest.param(argument, *case.values, id=f"{argument}-{case.id}")
        for argument in ("ids", "subjects")
        for case in WRONG
        if argument == "ids" or case.id not in FOR_SUBJECTS
    ],
)
def test_learning_refuses_what_cannot_name_a_row(argument, keys, error):
    with refused(clf := classifier(), error, argument):
        clf.fit(X, Y, **{argument: keys})
    with refused(clf := fitted(threshold=0.0), error, argument):
        clf.fit(X, Y, **{argument: keys})
    with refused(clf, error, argument):
        clf.partial_fit(X, Y, **{"ids": NUMBERS + 1000, argument: keys})


@pytest.mark.parametrize("keys", MISSING.values(), ids=MISSING)
def test_a_missing_id_is_refused(keys):
    for clf in (classifier(), fitted(NUMBERS, NUMBERS)):
        with refused(clf, InputTypeError, "ids", "fill them in"):
            clf.fit(X, Y, ids=keys)
    for argument in ("ids", "subjects"):
        with refused(clf, InputTypeError, argument, "fill them in"):
            clf.forget(**{argument: keys})


@pytest.mark.parametrize("keys", MISSING.values(), ids=MISSING)
def test_a_row_may_have_no_subject(keys):
    """A missing subject, in whatever way a container says so, is none."""
    plain = [None if k is None or k is pd.NA or k != k else k for k in _entries(keys)]
    clf, twin = fitted(NUMBERS, keys, threshold=0.0), fitted(NUMBERS, plain, threshold=0.0)
    assert clf.state_digest() == twin.state_digest()
    known = [k for k in plain if k is not None]
    if not known:
        assert clf.state_digest() == fitted(NUMBERS, threshold=0.0).state_digest()
        return
    assert clf.forget(subjects=known).core_rows == plain.count(None) > 0
    assert plain[clf.core_ids_[0]] is None
    verify(clf)


LACKING = {
    **MISSING,
    "not a number among strings": [*TEXTS[:-1], float("nan")],
    "an empty text": [*TEXTS[:-1], ""],
    "an empty text in an array": np.array([*TEXTS[:-1], ""]),
    "empty bytes": [*BYTES[:-1], b""],
    "one that is missing and one that is empty": [None, "", *TEXTS[2:]],
}


@pytest.mark.parametrize("keys", LACKING.values(), ids=LACKING)
def test_rows_that_lack_a_subject_are_refused_unless_that_is_allowed(keys):
    """No erasure by subject could ever reach them."""
    for clf in (classifier(threshold=0.0), fitted(threshold=0.0)):
        with refused(clf, InputError, f"of {N} rows have no subject", "allow_no_subject="):
            clf.fit(X, Y, subjects=keys)
        with refused(clf, InputError, f"of {N} rows have no subject"):
            clf.partial_fit(X, Y, ids=NUMBERS + 1000, subjects=keys)
        with refused(clf, InputError, f"of {N} rows have no subject"):
            learn(clf, X, Y, ids=NUMBERS + 1000, subjects=keys)
    clf = classifier(threshold=0.0).partial_fit(X, Y, ids=NUMBERS, subjects=keys, allow_no_subject=True)
    other = classifier(threshold=0.0)
    learn(other, X, Y, ids=NUMBERS, subjects=keys, allow_no_subject=True)
    assert clf.state_digest() == other.state_digest() == fitted(NUMBERS, keys, threshold=0.0).state_digest()


def test_how_many_rows_lack_a_subject_is_said():
    with pytest.raises(InputError, match=f"3 of {N} rows have no subject"):
        classifier().fit(X, Y, subjects=[None, "", float("nan"), *TEXTS[3:]])


def _entries(keys):
    return keys.to_pylist() if hasattr(keys, "to_pylist") else list(keys.tolist() if hasattr(keys, "tolist") else keys)


@pytest.mark.parametrize(("keys", "error"), WRONG)
@pytest.mark.parametrize("argument", ["ids", "subjects"])
def test_forgetting_refuses_what_cannot_name_a_row(argument, keys, error):
    with refused(clf := fitted(NUMBERS, NUMBERS), error, argument):
        clf.forget(**{argument: keys})


def test_an_error_in_subjects_stops_forgetting_by_ids_too():
    with refused(clf := fitted(NUMBERS, NUMBERS), InputTypeError, "subjects"):
        clf.forget(ids=clf.core_ids_, subjects=[None])


def test_a_frame_is_no_column_of_ids():
    """Iterating a pandas frame gives its column names: forgetting those would forget nobody, quietly."""
    clf = fitted(TEXTS, TEXTS)
    frame = pd.DataFrame({"customer": clf.core_ids_[:3]})
    for argument in ("ids", "subjects"):
        with refused(clf, InputError, argument):
            clf.forget(**{argument: frame})


@pytest.mark.parametrize("form", [bytearray, memoryview])
def test_raw_bytes_are_no_list_of_integers(form):
    clf = fitted(NUMBERS)
    with refused(clf, InputTypeError, "ids"):
        clf.forget(ids=form(b"\x00\x01\x02"))


KINDS = {"integers": (NUMBERS, 5), "strings": (TEXTS, "5"), "bytes": (BYTES, b"5")}


@pytest.mark.parametrize("own", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_the_wrong_kind_of_id_is_refused_not_ignored(own, other):
    """A string "5" never equals the integer 5; taking it for an unknown id would forget nothing, quietly."""
    clf = fitted(KINDS[own][0], KINDS[own][0])
    keys = KINDS[other][1]
    if own == other:
        clf.forget(ids=keys)
        clf.forget(subjects=keys)
        return
    for argument in ("ids", "subjects"):
        with refused(clf, InputTypeError, f"{argument} are {own}", f"{other} were given"):
            clf.forget(**{argument: keys})
        with refused(clf, InputTypeError, f"{argument} are {own}", f"{other} were given"):
            clf.partial_fit(X[:1], Y[:1], **{"ids": KINDS[own][1] * 1000, argument: [keys]})


def test_an_empty_list_forgets_nothing():
    clf = fitted(TEXTS)
    before = clf.state_digest()
    for empty in ([], (), set(), np.array([]), pd.Series([], dtype=float), pl.Series([]), pa.array([])):
        report = clf.forget(ids=empty)
        assert (report.requested, report.core_rows_removed, report.core_rows) == (0, 0, clf.n_core_)
    assert clf.state_digest() == before


def test_duplicate_ids_are_counted_in_the_error():
    keys = [SECRET_ID, SECRET_ID, SECRET_ID, 1, 1, *range(2, N - 3)]
    for ids in (keys, np.array(keys), [f"{SECRET_TEXT}{k}" for k in keys]):
        with refused(clf := fitted(), InputError, "ids", f"3 of {N}"):
            clf.fit(X, Y, ids=ids)


def test_ids_that_are_present_are_counted_in_the_error():
    ids = [SECRET_ID + i for i in range(N)]
    clf = fitted(ids)
    core = clf.core_ids_[:4].tolist()
    again = [*core, *range(N - 4)]
    for keys in (again, np.array(again)):
        with refused(clf, InputError, "ids", f"4 of {N}", "already present"):
            clf.partial_fit(X, Y, ids=keys)
    clf.forget(ids=core)
    clf.partial_fit(X, Y, ids=again)


@pytest.mark.parametrize("argument", ["ids", "subjects"])
@pytest.mark.parametrize("size", [0, 1, N - 1, N + 1])
def test_one_id_and_one_subject_per_row(argument, size):
    for keys in ([f"{SECRET_TEXT}{i}" for i in range(size)], np.arange(size) + SECRET_ID):
        with refused(clf := classifier(), InputError, argument, str(size), str(N)):
            clf.fit(X, Y, **{argument: keys})


def test_a_bare_string_is_one_subject_not_its_letters():
    with refused(clf := classifier(), InputError, "subjects has 1 entries for 3 rows"):
        clf.fit(X[:3], Y[:3], subjects="abc")


# -- default ids ---------------------------------------------------------------------------------------------------


def test_later_rows_are_numbered_on_from_the_largest_core_id():
    clf = fitted(np.arange(-N, 0), threshold=0.0, order="given").partial_fit(X[:5], Y[:5])
    assert clf.core_ids_.tolist() == [*range(-N, 0), 0, 1, 2, 3, 4]
    clf.forget(ids=[3, 4])
    clf.partial_fit(X[:2], Y[:2])
    assert clf.core_ids_.tolist()[-4:] == [1, 2, 3, 4]
    clf.forget(ids=clf.core_ids_)
    assert clf.partial_fit(X[:2], Y[:2]).core_ids_.tolist() == [0, 1]


def test_numbering_on_needs_integer_ids():
    with refused(clf := fitted(TEXTS), InputError, "ids are required"):
        clf.partial_fit(X[:2], Y[:2])


def test_numbering_on_stops_before_64_bits_overflow():
    clf = fitted(np.int64(2**63 - 1) - NUMBERS, threshold=0.0)
    with refused(clf, InputError, "ids"):
        clf.partial_fit(X[:5], Y[:5])


# -- subjects ------------------------------------------------------------------------------------------------------


def test_subjects_are_part_of_the_state():
    digests = {fitted(NUMBERS, s).state_digest() for s in (None, NUMBERS, NUMBERS + 1, TEXTS, BYTES)}
    assert len(digests) == 5


# -- rows of nobody ------------------------------------------------------------------------------------------------

NOBODY = [None if i % 4 == 0 else f"p{i % 3}" for i in range(N)]
EMPTY = ["" if name is None else name for name in NOBODY]


def written(tmp_path, form):
    """The same subjects in a file, as the commands read them."""
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": Y, "who": EMPTY})
    path = tmp_path / f"rows.{form}"
    if form == "npz":
        np.savez(path, X=X, y=Y, subjects=np.array(EMPTY))
        return load_table(path).subjects
    {"csv": pa.csv.write_csv, "parquet": pq.write_table}[form](table, path)
    return load_table(path, label="label", subject="who").subjects


OF_NOBODY = {
    "None": lambda _: NOBODY,
    "empty texts": lambda _: EMPTY,
    "NaN": lambda _: [np.nan if name is None else name for name in NOBODY],
    "float32 NaN": lambda _: [np.float32("nan") if name is None else name for name in NOBODY],
    "NumPy texts": lambda _: [np.str_(name) for name in EMPTY],
    "an array": lambda _: np.array(EMPTY),
    "an object array": lambda _: np.array(NOBODY, dtype=object),
    "a masked array": lambda _: np.ma.array(EMPTY, mask=[name is None for name in NOBODY]),
    "masked entries": lambda _: [np.ma.masked if name is None else name for name in NOBODY],
    "lists of one": lambda _: [[name] for name in EMPTY],
    "lists of one and None": lambda _: [[name] for name in NOBODY],
    "empty lists": lambda _: [[name] if name else [] for name in EMPTY],
    "an array of two dimensions": lambda _: np.array([[name, ""] for name in EMPTY]),
    "pandas": lambda _: pd.Series(EMPTY),
    "pandas NA": lambda _: pd.Series(NOBODY, dtype="string"),
    "pandas categories": lambda _: pd.Series(EMPTY, dtype="category"),
    "a pandas column": lambda _: pd.DataFrame({"who": EMPTY}),
    "a polars column": lambda _: pl.DataFrame({"who": NOBODY}),
    "polars": lambda _: pl.Series(EMPTY),
    "an Arrow column": lambda _: pa.table({"who": EMPTY}),
    "Arrow": lambda _: pa.array(NOBODY),
    "CSV": lambda path: written(path, "csv"),
    "Parquet": lambda path: written(path, "parquet"),
    "npz": lambda path: written(path, "npz"),
}


@pytest.mark.parametrize("container", OF_NOBODY)
def test_rows_of_nobody_are_the_same_in_every_container(tmp_path, container):
    given = OF_NOBODY[container](tmp_path)
    clf = fitted(subjects=given)
    assert clf.state_digest() == fitted(subjects=NOBODY).state_digest()
    assert set(clf._model.core.of_subject) == {"p0", "p1", "p2"}
    with refused(clf := classifier(), InputError, f"{NOBODY.count(None)} of {N} rows have no subject"):
        clf.fit(X, Y, subjects=given)


def test_empty_bytes_are_nobody_and_need_not_be_of_the_type_of_the_others():
    expected = fitted(subjects=[None if i % 4 == 0 else i % 3 for i in range(N)])
    for nobody in ("", b"", None, np.nan, pd.NA, pd.NaT):
        clf = fitted(subjects=[nobody if i % 4 == 0 else i % 3 for i in range(N)])
        assert clf.state_digest() == expected.state_digest()
        assert 0 in clf._model.core.of_subject


@pytest.mark.parametrize(
    "form", [str, list, tuple, set, np.array, pd.Series, pl.Series, pa.array], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("empty", ["", b""], ids=["text", "bytes"])
def test_nobody_cannot_be_forgotten(form, empty):
    clf = fitted(subjects=NOBODY)
    given = empty if form is str else form([empty])
    with refused(clf, InputError, "names nobody", "by their ids"):
        clf.forget(subjects=given)
    with refused(clf, InputError, "names nobody"):
        clf.rows_of(subjects=given)


@pytest.mark.parametrize("given", [[["a", "b"], ["c"]], [("a",)], [{"a"}], [np.array(["a"])]])
def test_forget_says_that_names_are_one_flat_list(given):
    with refused(clf := fitted(subjects=TEXTS), InputTypeError, "Pass one flat list"):
        clf.forget(subjects=given)
    with refused(clf, InputError, "pass one flat list"):
        clf.forget(subjects=pd.DataFrame({"a": TEXTS}))
