"""Feature maps: what they compute, that every bit of a row depends on that row alone, and what they refuse."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
import statistics
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.features import FeatureMap, FrozenMap, HashedText, LogFeatures, NystroemFeatures, RandomFourierFeatures
from erasable.features import _kernels as rowwise
from tests.estimators.cases import SECRET, assert_no_traces, everything_said

X = np.random.default_rng(0).standard_normal((60, 3))
MARKS = np.random.default_rng(1).standard_normal((12, 3))


def twice(rows):
    """A function that can be pickled."""
    return np.hstack([rows, 2.0 * rows])


MAPS = {
    "fourier": RandomFourierFeatures(40, gamma=0.7, random_state=3),
    "nystroem": NystroemFeatures(MARKS, gamma=0.4),
    "laplacian": NystroemFeatures(MARKS, kernel="laplacian", gamma=0.4),
    "text": HashedText(64, ngram_range=(1, 2)),
    "frozen": FrozenMap(twice, "twice 1.0", 6),
    "log": LogFeatures(3),
    "log, all of it": LogFeatures(3, constant=0.5, centres=[1.0, -2.0, 0.1], scales=[1e-8, 3.0, 1e5]),
}
OF_NUMBERS = [name for name, one in MAPS.items() if one.takes == "numbers"]


def raw(one: FeatureMap):
    return ["to be", "or not", "", "to be"] if one.takes == "texts" else X


def dense(Z):
    return Z if isinstance(Z, np.ndarray) else Z.toarray()


# -- arithmetic ----------------------------------------------------------------------------------------------------


def test_the_cosine_is_that_of_the_library():
    t = np.concatenate([np.linspace(-3, 3, 4001), [0.0, 0.25, 0.5, 0.75, 1e9 + 0.125, -(2.0**60)]])
    right = np.array([math.cos(2 * math.pi * (v - round(v))) for v in t])
    found = rowwise.cosine_of_turns(t)
    assert np.abs(found - right).max() < 6e-16
    assert np.abs(found).max() <= 1.0
    assert rowwise.cosine_of_turns(np.array([0.0, 0.25, 0.5, -0.75, 7.0])).tolist() == [1.0, 0.0, -1.0, 0.0, 1.0]


def test_the_exponential_is_that_of_the_library():
    t = np.concatenate([np.linspace(0, 700, 4001), np.geomspace(1e-300, 1, 500), [0.0]])
    right = np.array([math.exp(-v) for v in t])
    assert np.abs(rowwise.exponential_of_minus(t) / right - 1.0).max() < 1e-15
    assert rowwise.exponential_of_minus(np.array([760.0, 1e300, np.inf])).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("d", [1, 2, 5, 300, 1500])
def test_the_product_is_a_product(d):
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((20, d)) * 10.0 ** rng.integers(-3, 4, size=(20, 1))
    rows[0], rows[1] = 0.0, 1e-310
    W = rng.integers(-(2**20), 2**20, size=(d, 7), endpoint=True).astype(float)
    scale = np.abs(rows).max(axis=1, keepdims=True) * np.abs(W).sum(axis=0)
    assert (np.abs(rowwise.product(rows, W) - rows @ W) <= 1e-13 * scale + 1e-300).all()


def test_the_product_of_few_features_is_nearly_exact():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, 3))
    W = rng.integers(-(2**20), 2**20, size=(3, 4)).astype(float)
    right = [
        [float(sum(Fraction(x) * int(w) for x, w in zip(row, W[:, k], strict=True))) for k in range(4)] for row in rows
    ]
    assert np.abs(rowwise.product(rows, W) / right - 1.0).max() < 1e-13


def test_no_product_on_the_way_rounds():
    """The largest weights and entries there can be: every sum is an integer that float64 holds."""
    d = 1000
    rows = np.full((1, d), 1.0 - 2.0**-53)
    W = np.full((d, 1), 2.0**20)
    assert rowwise.product(rows, W)[0, 0] == float(d * 2**20)
    odd = np.tile([1.0, 2.0**-44], d // 2)[None, :]
    assert rowwise.product(odd, W)[0, 0] == (d // 2) * 2.0**20 * (1.0 + 2.0**-44)


# -- every map -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAPS)
def test_a_map_gives_rows_of_finite_numbers(name):
    one = MAPS[name]
    Z = one(raw(one))
    assert Z.shape == (len(raw(one)), one.n_features_out)
    assert isinstance(Z, np.ndarray) or sp.issparse(Z)
    assert Z.dtype == np.float64
    assert np.isfinite(dense(Z)).all()
    assert one(raw(one)[:0]).shape == (0, one.n_features_out)


@pytest.mark.parametrize("name", MAPS)
def test_a_row_alone_is_the_row_in_a_batch(name):
    one = MAPS[name]
    rows = raw(one)
    together = dense(one(rows))
    for i in range(len(rows)):
        assert dense(one(rows[i : i + 1])).tobytes() == together[i : i + 1].tobytes()


@given(st.data())
def test_no_batch_changes_a_bit_of_a_row(data):
    """Wide rows and batches of many shapes: where a product by BLAS would differ in the last bits."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = rng.standard_normal((40, data.draw(st.sampled_from([2, 17, 65]))))
    one = data.draw(st.sampled_from([RandomFourierFeatures(33), NystroemFeatures(rows[:9] + 1.0, gamma=0.01)]))
    low = data.draw(st.integers(0, 39))
    high = data.draw(st.integers(low + 1, 40))
    some = np.asfortranarray(rows[low:high]) if data.draw(st.booleans()) else rows[low:high]
    assert one(some).tobytes() == one(rows)[low:high].tobytes()


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_containers_and_types_make_no_difference(name):
    one, small = MAPS[name], X.astype(np.float32)
    right = one(small).tobytes()
    for form in (small.astype(float), np.asfortranarray(small), small.tolist(), pd.DataFrame(small)):
        assert one(form).tobytes() == right
    for form in (sp.csr_matrix(small), sp.csc_array(small)):
        assert name == "frozen" or dense(one(form)).tobytes() == right


@pytest.mark.parametrize("name", MAPS)
def test_a_description_is_json_and_tells_maps_apart(name):
    one = MAPS[name]
    assert json.loads(json.dumps(one.describe(), allow_nan=False)) == one.describe()
    assert [other for other in MAPS if MAPS[other] == one] == [name]
    assert len({hash(other) for other in MAPS.values()}) == len(MAPS)
    assert one != "a map"


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("form", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_is_equal_and_maps_alike(name, form):
    one = MAPS[name]
    twin = form(one)
    assert twin == one
    assert hash(twin) == hash(one)
    assert repr(twin) == repr(one)
    assert dense(twin(raw(one))).tobytes() == dense(one(raw(one))).tobytes()


@pytest.mark.parametrize("name", MAPS)
def test_a_map_is_frozen(name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        MAPS[name].n_features_out = 7


@pytest.mark.parametrize("name", OF_NUMBERS)
@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[1.0, SECRET, np.nan]], "NaN or infinity"),
        ([[1.0, SECRET, -np.inf]], "NaN or infinity"),
        (sp.csr_matrix([[1.0, SECRET, np.nan]]), "NaN or infinity"),
        (sp.csr_matrix(([SECRET, 1e308, 1e308], [0, 1, 1], [0, 3]), shape=(1, 3)), "NaN or infinity"),
        ([SECRET, 1.0, 2.0], "shape (3,)"),
        ([[["SECRET"]]], "real numbers"),
        ([["SECRET", "b", "c"]], "real numbers"),
        ([[SECRET, 1.0, 2.0], [1.0]], "real numbers"),
        ([[SECRET + 1j, 1.0, 2.0]], "real numbers"),
        (np.array([[SECRET, "SECRET", 2.0]], dtype=object), "real numbers"),
    ],
)
def test_rows_that_are_no_numbers_are_refused(name, rows, says):
    with pytest.raises(InputError) as caught:
        MAPS[name](rows)
    assert says in str(caught.value)
    assert_no_traces(everything_said(caught.value))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: RandomFourierFeatures(0), "n_features_out must be an integer between 1"),
        (lambda: RandomFourierFeatures(gamma=0.0), "gamma must be a number above 0"),
        (lambda: RandomFourierFeatures(gamma=1e308), r"gamma must be a number above 0 and at most 1e\+300"),
        (lambda: RandomFourierFeatures(random_state=2**64), "random_state must be a non-negative integer"),
        (lambda: NystroemFeatures(None), "must be public rows"),
        (NystroemFeatures, "must be public rows"),
        (lambda: NystroemFeatures(MARKS, gamma=-1), "gamma"),
        (lambda: NystroemFeatures([[1.0, np.nan]]), "landmarks cannot be used: the rows contain NaN"),
        (lambda: NystroemFeatures([1.0, 2.0]), "landmarks cannot be used"),
        (lambda: NystroemFeatures(np.empty((0, 3))), "at least one landmark"),
        (lambda: HashedText(0), "n_features_out"),
        (lambda: HashedText(ngram_range=(2, 1)), "longest of ngram_range"),
        (lambda: HashedText(ngram_range=(0, 1)), "shortest of ngram_range"),
        (lambda: HashedText(ngram_range=3), "ngram_range must be a pair"),
        (lambda: LogFeatures(0), "n_features must be"),
        (lambda: LogFeatures(2, constant=-1.0), "constant must be"),
        (lambda: LogFeatures(2, centres=[1.0]), "centres gives 1 numbers for 2 columns"),
        (lambda: LogFeatures(2, centres=[1.0, math.inf]), "every number in centres must be a finite number"),
        (lambda: LogFeatures(2, scales=[1.0, 0.0]), "every scale in scales must be a positive"),
        (lambda: LogFeatures(2, scales="row"), "scales must be one number per column"),
        (lambda: LogFeatures(2, missing=1), "missing"),
        (lambda: FrozenMap(np.sin, "", 1), "name must be a text"),
        (lambda: FrozenMap(np.sin, "sine", 0), "n_features_out"),
    ],
)
def test_parameters_that_cannot_work_are_refused(make, says):
    with pytest.raises(ConfigurationError, match=says):
        make()


# -- random Fourier features ---------------------------------------------------------------------------------------


def test_the_fourier_kernel_error_shrinks_with_more_features():
    right = rbf_kernel(X, gamma=0.5)
    errors = []
    for n_features in (50, 500, 5000):
        Z = [RandomFourierFeatures(n_features, gamma=0.5, random_state=s)(X) for s in range(5)]
        errors.append(np.mean([np.sqrt(np.mean((z @ z.T - right) ** 2)) for z in Z]))
    assert errors[0] < 0.15
    assert 2.4 < errors[0] / errors[1] < 4.2  # the root of ten is 3.16
    assert 2.4 < errors[1] / errors[2] < 4.2


def test_fourier_features_are_what_their_documentation_says():
    """The same numbers from the generator's raw output, the standard library's quantile and its cosine."""
    D, d, gamma, seed = 5, 3, 0.7, 2**64 - 1
    raw_numbers = np.random.Philox(key=seed).random_raw(D * (d + 1)).tolist()
    phases = [2 * math.pi * r / 2**64 for r in raw_numbers[:D]]
    normal = statistics.NormalDist().inv_cdf
    w = [round(normal(((r >> 12) + 0.5) / 2**52) * 2**16) / 2**16 for r in raw_numbers[D:]]
    Z = RandomFourierFeatures(D, gamma=gamma, random_state=seed)(X)
    for x, z in zip(X.tolist(), Z.tolist(), strict=True):
        for k in range(D):
            angle = math.sqrt(2 * gamma) * sum(x[j] * w[j * D + k] for j in range(d)) + phases[k]
            assert abs(z[k] - math.sqrt(2 / D) * math.cos(angle)) < 1e-12


def test_fourier_features_are_reproducible_from_the_seed():
    rows = [[0.0, 0.0], [1.0, -2.0], [0.1, 1000.0]]
    found = RandomFourierFeatures(4, gamma=0.25, random_state=7)(rows)
    assert np.abs(found - np.array(GOLDEN)).max() < 1e-12
    assert not np.array_equal(RandomFourierFeatures(4, gamma=0.25, random_state=8)(rows), found)


GOLDEN = [
    [0.49072197777707527, -0.19883487188338636, -0.6198513477979214, -0.585812049402228],
    [0.17603738590983584, 0.3240934258903391, 0.4496007312335374, -0.6222713142168028],
    [0.6058735579619497, 0.36702559783436234, 0.22188093515509005, 0.0403809397126065],
]


def test_extreme_rows_have_fourier_features_or_are_refused():
    one = RandomFourierFeatures(10)
    assert (one([[0.0]]) == one([[5e-324]])).all()
    assert np.abs(one([[1e15], [1e300]])).max() <= math.sqrt(0.2)
    assert one(np.empty((2, 0))).shape == (2, 10)
    with pytest.raises(InputError, match="overflows float64"):
        RandomFourierFeatures(10, gamma=1e10)([[1.7e308]])


# -- Nystroem features ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kernel"), [("rbf", rbf_kernel), ("laplacian", laplacian_kernel)])
def test_nystroem_is_exact_on_landmarks_up_to_rounding(name, kernel):
    one = NystroemFeatures(MARKS, kernel=name, gamma=0.3)
    Z, marks = one(X), one(MARKS)
    assert np.abs(marks @ marks.T - kernel(MARKS, gamma=0.3)).max() < 1e-12
    assert np.abs(Z @ marks.T - kernel(X, MARKS, gamma=0.3)).max() < 1e-12
    assert (np.linalg.norm(Z, axis=1) <= 1.0 + 1e-12).all()


def test_nystroem_is_the_projection_on_the_landmarks():
    K, cross = rbf_kernel(MARKS, gamma=0.3), rbf_kernel(X, MARKS, gamma=0.3)
    Z = NystroemFeatures(MARKS, gamma=0.3)(X)
    assert np.abs(Z @ Z.T - cross @ np.linalg.solve(K, cross.T)).max() < 1e-10


def test_landmarks_that_repeat_add_no_feature():
    one = NystroemFeatures(np.vstack([MARKS, MARKS[:5], MARKS[:1] + 1e-13]), gamma=0.3)
    assert one.n_features_out == len(MARKS)
    assert one(X).tobytes() == NystroemFeatures(MARKS, gamma=0.3)(X).tobytes()


def test_landmarks_are_copied_and_fixed():
    marks = MARKS.copy()
    one = NystroemFeatures(marks)
    before = one(X).tobytes()
    marks[:] = 9.0
    assert one(X).tobytes() == before
    with pytest.raises(ValueError, match="read-only"):
        one.landmarks[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        pickle.loads(pickle.dumps(one)).landmarks[0, 0] = 1.0
    assert NystroemFeatures(sp.csr_matrix(MARKS)) == one
    assert NystroemFeatures([[-0.0]]) == NystroemFeatures([[0]])
    assert NystroemFeatures([[0.0, 0.0]]) != NystroemFeatures([[0.0], [0.0]])  # one feature each, of the same bytes


def test_rows_of_another_width_than_the_landmarks_are_refused():
    with pytest.raises(InputError, match="rows of 3 features; got 2"):
        NystroemFeatures(MARKS)(X[:, :2])


def test_a_row_far_from_all_landmarks_is_zero():
    assert not NystroemFeatures(MARKS)([[1e200, -1e308, 0.0]]).any()


def test_landmarks_are_not_shown():
    assert_no_traces(repr(NystroemFeatures([[SECRET]])) + json.dumps(NystroemFeatures([[SECRET]]).describe()))


# -- the log map ---------------------------------------------------------------------------------------------------


def log_of(x: float) -> float:
    """The definition in rational arithmetic, rounded once."""
    size = abs(Fraction(x))
    if size < 1:
        return x
    k = 0
    while size >= 2 ** (k + 1):
        k += 1
    value = float(k + size / 2**k)
    return value if x > 0 else -value


CELLS = [0.0, -0.0, 5e-324, 1 - 2.0**-53, 1.0, 1 + 2.0**-52, 2 - 2.0**-52, 2.0, 3.0, 1e6, 2.0**53 - 1, 1.7e308]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(CELLS), min_size=1, max_size=8))
def test_the_log_map_is_its_definition(cells):
    rows = np.array([cells, [-c for c in cells]])
    right = [[*(log_of(c) for c in row), 3.0] for row in rows.tolist()]
    assert LogFeatures(len(cells))(rows).tolist() == right
    assert dense(LogFeatures(len(cells))(sp.csr_matrix(rows))).tolist() == right


def test_centres_and_scales_round_once_each():
    centres, scales = [0.1, 1e6], [0.3, 7.0]
    rows = [[0.7, 1e6 + 13.7], [-1e5, 3.0]]
    right = [[log_of((x - c) / s) for x, c, s in zip(row, centres, scales, strict=True)] for row in rows]
    assert LogFeatures(2, 0.0, centres, scales)(rows).tolist() == right
    assert LogFeatures(2, 0.0, None, scales)(sp.csr_matrix(rows)).toarray().tolist() == [
        [log_of(x / s) for x, s in zip(row, scales, strict=True)] for row in rows
    ]
    with pytest.raises(InputError, match="overflows float64 when it is centred and divided"):
        LogFeatures(1, scales=[1e-10])([[1e300]])


def test_missing_cells_have_columns_of_their_own():
    one, rows = LogFeatures(2, missing="indicator", centres=[5.0, 0.0]), np.array([[np.nan, 4.0], [6.0, -np.nan]])
    assert one(rows).tolist() == [[0.0, 3.0, 1.0, 0.0, 3.0], [1.0, 0.0, 0.0, 1.0, 3.0]]
    again = LogFeatures(2, missing="indicator")
    assert dense(again(sp.csr_matrix(rows))).tolist() == again(rows).tolist()
    with pytest.raises(InputError, match="infinity"):
        one([[np.nan, np.inf]])
    assert one.names_out(["a", "b"]) == ["a", "b", "a is missing", "b is missing", "constant"]


def test_zeros_of_sparse_rows_stay_zeros():
    Z = LogFeatures(1000)(sp.csr_matrix(([5.0, -0.5], [3, 7], [0, 1, 2]), shape=(2, 1000)))
    assert Z.nnz == 4
    assert sp.issparse(Z)


def test_other_types_of_numbers_are_read_as_float64():
    rows = np.array([[1, -200, 3], [0, 7, 11]])
    right = LogFeatures(3)(rows.astype(float)).tobytes()
    for kind in (np.int8, np.int64, np.float16, np.float32, np.longdouble):
        assert LogFeatures(3)(np.clip(rows, -100, 100).astype(kind)).tobytes() == (
            LogFeatures(3)(np.clip(rows, -100, 100)).tobytes()
        )
    assert LogFeatures(3)(pd.DataFrame(rows)).tobytes() == right
    with pytest.raises(InputError, match="NaN or infinity"):
        LogFeatures(1)(np.array([[np.finfo(np.longdouble).max]]))


# -- texts ---------------------------------------------------------------------------------------------------------


def test_hashed_text_is_the_hashing_vectorizer():
    texts = ["The cat sat on the mat.", "ΣΊΣΥΦΟΣ und die Größe", "漢字 仮名 漢字", "", "   ", "👍🏽 !?", "a b c"]
    for options in ({}, {"ngram_range": (1, 3)}, {"analyzer": "char_wb", "ngram_range": (2, 4)}, {"lowercase": False}):
        right = HashingVectorizer(n_features=256, norm=None, alternate_sign=True, **options).transform(texts)
        assert (HashedText(256, **options)(texts) != right).nnz == 0


def test_hashed_text_has_known_counts():
    """The columns are those of 32-bit MurmurHash3 of the UTF-8 bytes, everywhere and always."""
    Z = HashedText(1024)(["good good bad", "naïve"])
    assert [(int(j), float(v)) for j, v in zip(Z.indices, Z.data, strict=True)] == HASHED


HASHED = [(3, 1.0), (65, 2.0), (469, 1.0)]


def test_hashed_text_has_no_memory():
    one = HashedText(128)
    before = one(["first text"]).toarray()
    one(["many other words " * 50])
    assert (one(["first text"]).toarray() == before).all()
    assert one([""]).nnz == 0


def test_texts_come_in_many_containers():
    texts = ["one two", "ümlaut\0", ""]
    right = HashedText(32)(texts).toarray()
    forms = [
        tuple(texts),
        np.array(texts, dtype=object),
        pd.Series(texts, index=[5, 6, 7]),
        pa.array(texts),
        iter(texts),
        [np.str_(t) for t in texts],
    ]
    for form in forms:
        assert (HashedText(32)(form).toarray() == right).all()


@pytest.mark.parametrize(
    ("texts", "error", "says"),
    [
        ("SECRET", InputTypeError, "a single one"),
        (b"SECRET", InputTypeError, "a single one"),
        (["a", b"SECRET"], InputTypeError, "1 of 2 texts are no strings but bytes"),
        (["a", None, np.nan], InputTypeError, "2 of 3 texts are no strings but NoneType, float"),
        ([[SECRET]], InputTypeError, "1 of 1 texts are no strings but list"),
        (np.array([["SECRET"]]), InputError, "shape (1, 1)"),
        (pd.DataFrame({"SECRET": ["SECRET"]}), InputError, "shape (1, 1)"),
        ({"SECRET"}, InputTypeError, "got set"),
        (3, InputTypeError, "got int"),
        (["SECRET \ud800"], InputError, "1 of 1 texts are not valid Unicode"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(texts, error, says):
    for one in (HashedText(32), FrozenMap(len, "length", 1, takes="texts")):
        with pytest.raises(error) as caught:
            one(texts)
        assert says in str(caught.value)
        assert_no_traces(everything_said(caught.value))


# -- functions of the caller's -------------------------------------------------------------------------------------


def lengths(texts):
    assert type(texts) is list
    return [[len(t), t.count(" ")] for t in texts]


def explode(rows):
    raise KeyError(f"SECRET {rows}")


def test_a_function_of_texts():
    one = FrozenMap(lengths, "lengths", 2, takes="texts")
    assert one(["ab c", ""]).tolist() == [[4.0, 1.0], [0.0, 0.0]]
    assert one(["ab c", ""]).dtype == np.float64


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_array, np.float32, lambda Z: Z.tolist()])
def test_a_function_may_give_any_rows_of_numbers(make):
    one = FrozenMap(lambda rows: make(rows), "as it is", 3)
    alone = FrozenMap(lambda rows: make(rows), "as it is", 3, one_at_a_time=True)
    for form in (X, sp.csr_matrix(X)):
        if sp.issparse(form) and make not in (sp.csr_matrix, sp.csc_array):
            continue
        Z = one(form)
        assert np.allclose(dense(Z), X, rtol=1e-6)
        assert Z.dtype == (np.float32 if make is np.float32 else np.float64)
        assert dense(alone(form)).tobytes() == dense(Z).tobytes()


def test_one_at_a_time_hides_the_neighbours():
    def centred(rows):
        return rows - rows.mean(axis=0) + len(rows)

    assert (FrozenMap(centred, "centred", 3, one_at_a_time=True)(X) == 1.0).all()
    assert not (FrozenMap(centred, "centred", 3)(X) == 1.0).any()


def test_a_function_cannot_change_the_rows_of_the_caller():
    def wipe(rows):
        rows[:] = 0.0
        return rows

    rows = X.copy()
    FrozenMap(wipe, "wipe", 3)(rows)
    FrozenMap(wipe, "wipe", 3, one_at_a_time=True)(rows)
    assert (rows == X).all()


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("function", "error", "says"),
    [
        (explode, InputError, "failed on a batch of"),
        (explode, InputError, "with KeyError"),
        (lambda rows: rows * np.nan, InputError, "NaN or infinite"),
        (lambda rows: sp.csr_matrix(rows * np.inf), InputError, "NaN or infinite"),
        (
            lambda rows: sp.csr_matrix(
                (np.full(2 * len(rows), 1e308), np.zeros(2 * len(rows), dtype=int), np.arange(len(rows) + 1) * 2),
                shape=(len(rows), 3),
            ),
            InputError,
            "NaN or infinite",
        ),
        (lambda rows: np.longdouble("1e999") + rows, InputError, "NaN or infinite"),
        (lambda rows: rows[:, :2], ConfigurationError, "got shape ("),
        (lambda rows: np.vstack([rows, rows]), ConfigurationError, "one row for each row it gets"),
        (lambda rows: rows[:, 0], ConfigurationError, "must give an array of shape ("),
        (lambda rows: None, ConfigurationError, "real numbers; got dtype object"),
        (lambda rows: rows.astype(str), ConfigurationError, "real numbers"),
        (lambda rows: rows * 1j, ConfigurationError, "real numbers"),
        (lambda rows: [[SECRET], [SECRET, 1.0]], InputError, "with ValueError"),
    ],
)
def test_what_a_function_should_not_do_is_refused(function, error, says, alone):
    with pytest.raises(error) as caught:
        FrozenMap(function, "my function", 3, one_at_a_time=alone)(np.full((4, 3), SECRET))
    assert says in str(caught.value)
    assert "'my function'" in str(caught.value)
    assert_no_traces(everything_said(caught.value))


def test_an_interrupt_is_not_a_failure_of_the_function():
    def stop(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FrozenMap(stop, "stop", 3)(X)


def test_the_name_stands_for_the_function():
    assert FrozenMap(np.sin, "wave", 3) == FrozenMap(np.cos, "wave", 3)
    assert FrozenMap(np.sin, "wave 2", 3) != FrozenMap(np.sin, "wave", 3)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(FrozenMap(lambda rows: rows, "unnamed", 3))
