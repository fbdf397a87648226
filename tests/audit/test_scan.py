"""A scan finds what is left of rows, wherever it lies, and nothing else."""

from __future__ import annotations

import gzip
import json
import os
import sys
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable import ErasableClassifier, ErasableKernelClassifier
from erasable.audit import _scan_files, _scan_rows, _scan_text
from erasable.audit import scan as scan_module
from erasable.audit.scan import Remain, ScanColumns, scan
from erasable.classes import LinearBall, NumericClass
from erasable.core.grid import Grid, to_grid
from erasable.core.kernels import Points
from erasable.core.layout import parts
from erasable.errors import InputError, InputTypeError
from erasable.estimators.kernel import ErasableGeneralClassifier
from erasable.features import RandomFourierFeatures
from erasable.models import files as shards
from tests.formats.tampering import opened, rebuilt, tensors

RNG = np.random.default_rng


def written(X):
    """Rows in every encoding that is looked for without any model in the folder: name and array."""
    d = X.shape[1]
    single = X.astype("<f4")
    return [
        ("float32 row", single),
        ("float64 row", X.astype("<f8")),
        ("float64 row", single.astype("<f8")),
        ("grid row", to_grid(X, Grid(d))),
        ("grid row", to_grid(X, Grid(d, intercept=False))),
    ]


def small_blocks():
    """Blocks and pieces of some hundred bytes, so that small files have many borders."""
    stack = ExitStack()
    stack.enter_context(patch.object(_scan_files, "BLOCK", 512))
    stack.enter_context(patch.object(_scan_rows, "_PIECE", 256))
    return stack


def places(report, *what):
    return {(r.row, r.offset) for r in report.remains if not what or r.what in what}


# -- rows at any place -------------------------------------------------------------------------------------------


def naive(data, X):
    """Where whole rows lie that can be told from filling: one search for each, overlapping matches once."""
    found = set()
    for _, rows in written(X):
        for row in range(len(rows)):
            needle = rows[row].tobytes()
            if sum(b != 0 for b in needle) < 8 or len(set(rows[row].tolist())) == 1:
                continue
            first = next(r for r in range(len(rows)) if rows[r].tobytes() == needle)
            at = data.find(needle)
            while at >= 0:
                found.add((first, at))
                at = data.find(needle, at + len(needle))
    return found


@st.composite
def tables(draw):
    """Rows of every kind: reals, small integers, yes-or-no, mostly zero; some twice."""
    n, d = draw(st.integers(1, 5)), draw(st.integers(1, 90))
    rng = RNG(draw(st.integers(0, 10**6)))
    kind = draw(st.sampled_from(["reals", "integers", "binary", "sparse"]))
    X = {
        "reals": lambda: rng.standard_normal((n, d)),
        "integers": lambda: rng.integers(0, 5, (n, d)).astype(float),
        "binary": lambda: (rng.random((n, d)) < 0.4).astype(float),
        "sparse": lambda: rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.1),
    }[kind]()
    if draw(st.booleans()):
        X[-1] = X[0]
    return X


@given(
    X=tables(),
    planted=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 700)), min_size=1, max_size=4),
    zeros=st.booleans(),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=150)
def test_whole_rows_are_found_in_every_encoding_at_every_offset_as_one_search_each_would(
    tmp_path_factory, X, planted, zeros, seed
):
    folder = tmp_path_factory.mktemp("planted")
    data = b""
    for encoding, row, gap in planted:
        filling = bytes(gap) if zeros else RNG(seed).bytes(gap)
        data += filling + written(X)[encoding][1][row % len(X)].tobytes()
    (folder / ".hidden").write_bytes(data)
    wanted = naive(data, X)
    with small_blocks():
        report = scan(folder, X)
    whole = places(report, "float32 row", "float64 row", "grid row")
    assert wanted <= whole
    # Beyond that, only matches that overlap another of the same row.
    for row, at in whole - wanted:
        assert any(r == row and abs(at - a) < 8 * X.shape[1] + 8 for r, a in wanted)


def test_equal_rows_are_found_like_one_and_the_first_is_named(tmp_path):
    X = RNG(0).standard_normal((9, 50))
    X[3:] = X[2]
    X[0, 10:] = X[1, 10:]  # four fifths of two other rows
    (tmp_path / "whole").write_bytes(b"\x07" * 3 + X[8].tobytes())
    (tmp_path / "common").write_bytes(b"\x07" * 3 + X[1].tobytes())
    (tmp_path / "part").write_bytes(b"\x07" * 3 + X[8].tobytes()[:-1])
    assert scan(tmp_path, X).remains == (
        Remain("common", 3, 400, "float64 row", 1),
        Remain("whole", 3, 400, "float64 row", 2),
    )


def test_rows_that_look_like_filling_are_counted_not_searched(tmp_path):
    X = np.zeros((4, 300), dtype=np.float32)
    X[1] = 1.0  # all the same
    X[2, 5] = 1.0  # nearly all zero
    X[3] = RNG(0).standard_normal(300)
    (tmp_path / "zeros").write_bytes(bytes(10_000))
    (tmp_path / "ones").write_bytes(np.ones(5000, np.float32).tobytes())
    (tmp_path / "unit").write_bytes(np.eye(300, dtype=np.float32).tobytes())
    report = scan(tmp_path, X)
    assert report.clean
    assert report.too_short["rows"] == 3


def test_a_row_that_repeats_itself_in_a_file_that_does_is_found_and_work_is_bounded(tmp_path):
    X = np.tile([1.0, 2.0], (1, 100)).astype(np.float32)
    (tmp_path / "pattern").write_bytes(X[0, :2].tobytes() * 200_000)
    report = scan(tmp_path, X)
    assert 1 <= report.found <= 2000 + 10


def test_a_file_of_near_misses_is_given_up_and_said_so(tmp_path):
    X = np.tile([1.0, 2.0, 0.0], (1, 100)).astype(np.float32)
    X[0, -1] = 5.0
    (tmp_path / "pattern").write_bytes(X[0, :3].tobytes() * 5000)
    with patch.object(_scan_rows, "_MOST_TRIES", 100), patch.object(_scan_rows, "_LONGEST_WINDOW", 64):
        report = scan(tmp_path, X)
    assert not report.clean
    assert [u.file for u in report.unreadable] == ["pattern"]
    assert "near misses" in report.unreadable[0].why


# -- models ------------------------------------------------------------------------------------------------------


def distance(X, Q):
    """``D²`` of linear functions in the unit ball, as a numeric oracle would say."""
    A = np.eye(X.shape[1]) + Q.T @ Q
    return np.einsum("ij,ij->i", X, np.linalg.solve(A, X.T).T)


class Mean:
    """A fit that predicts the mean."""

    def __init__(self, value):
        self.value = value

    def __call__(self, X):
        return np.full(len(X), self.value)


def fit_mean(X, y):
    return Mean(float(np.mean(y)) if len(y) else 0.5)


MODELS = {
    "linear": lambda: ErasableClassifier(threshold=0.02, feature_map=None),
    "linear, wide grid": lambda: ErasableClassifier(
        threshold=0.002, grid_bits=18, scaling=40.0, fit_intercept=False, feature_map=None
    ),
    "linear, scales": lambda: ErasableClassifier(
        threshold=0.02, grid_bits=12, scaling=np.linspace(1, 2, 24), feature_map=None
    ),
    "kernel": lambda: ErasableKernelClassifier(threshold=0.02, gamma=0.05, scaling=3.0),
    "kernel, independent": lambda: ErasableKernelClassifier(selection="independent", rate=0.9, scaling=3.0),
    "general, linear": lambda: ErasableGeneralClassifier(LinearBall(radius=2.0, grid_bits=14), threshold=0.05),
    "general, numeric": lambda: ErasableGeneralClassifier(
        NumericClass(distance, fit_mean, name="ball"), threshold=0.05
    ),
}


SPARSE = {
    "sparse": {},
    "sparse, no intercept": {"fit_intercept": False},
    "sparse, wide grid": {"grid_bits": 18},
    "sparse, scaled": {"scaling": 90.0},
}
MODELS |= {name: partial(ErasableClassifier, threshold=1e-6, **options) for name, options in SPARSE.items()}


def sparse_rows(n=120, d=400):
    rng = RNG(3)
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.04)


def stored_row(clf, i):
    """The bytes of a stored row: of a sparse one its values."""
    rows = clf._model.snapshot().rows
    return rows[[i]].data.tobytes() if sp.issparse(rows) else rows[i].tobytes()


def saved(clf, folder, name="model.erasable", tail=b""):
    (folder / name).write_bytes(clf._model.snapshot().to_bytes() + tail)


@pytest.fixture(params=MODELS)
def model(request):
    """A fitted model, its rows and their ids, and the positions of core rows."""
    X = sparse_rows() if request.param in SPARSE else RNG(3).standard_normal((120, 24))
    ids = np.array([f"visit-{i:05d}" for i in range(120)], dtype=object)
    names = {"ids": ids, "subjects": [f"person-{i % 40}" for i in range(120)]}
    clf = MODELS[request.param]().fit(X, X.sum(axis=1) > 0, **names)
    assert sp.issparse(clf._model.snapshot().rows) is (request.param in SPARSE)
    core = [ids.tolist().index(key) for key in clf.core_ids_.tolist()]
    assert len(core) > 20
    return clf, X, ids, core


def test_a_row_is_found_in_a_model_until_it_is_forgotten(tmp_path, model):
    clf, X, ids, core = model
    gone = core[3:9]
    saved(clf, tmp_path)
    before = scan(tmp_path, X[gone], ids=ids[gone])
    assert {r.row for r in before.remains if r.what == "id"} == set(range(6))
    assert {r.row for r in before.remains if r.what in ("grid row", "float64 row")} == set(range(6))
    assert before.ids_only == ()
    others = RNG(99).standard_normal((50, X.shape[1]))
    assert scan(tmp_path, others, ids=[f"visit-9{i:04d}" for i in range(50)]).clean
    clf.forget(ids=ids[gone])
    saved(clf, tmp_path)
    after = scan(tmp_path, X[gone], ids=ids[gone])
    assert after.clean
    assert after.remains == after.twins == ()


def test_offsets_in_a_model_point_at_the_bytes(tmp_path, model):
    clf, X, ids, core = model
    saved(clf, tmp_path)
    data = (tmp_path / "model.erasable").read_bytes()
    for r in scan(tmp_path, X[core], ids=ids[core]).remains:
        held = data[r.offset : r.offset + r.length]
        if r.what == "id":
            assert held == ids[core][r.row].encode()
        else:
            assert held == stored_row(clf, r.row)


def test_what_lies_behind_the_end_of_a_model_is_found(tmp_path, model):
    clf, X, ids, core = model
    gone, row = core[5], stored_row(clf, 5)
    clf.forget(ids=[ids[gone]])
    saved(clf, tmp_path, tail=b"\x01\x02\x03" + row + b" " + ids[gone].encode())
    report = scan(tmp_path, X[[gone]], ids=[ids[gone]])
    size = len(clf._model.snapshot().to_bytes())
    assert places(report, "grid row", "float64 row") == {(0, size + 3)}
    assert places(report, "id") == {(0, size + 4 + len(row))}


def test_a_copy_that_was_cut_off_is_still_looked_into(tmp_path, model):
    clf, X, ids, core = model
    whole = clf._model.snapshot().to_bytes()
    (tmp_path / ".model.erasable.new").write_bytes(whole[: len(whole) - len(core) * 3])
    report = scan(tmp_path, X[core[:3]], ids=ids[core[:3]])
    assert {r.row for r in report.remains if r.what != "id"} == {0, 1, 2}
    last = whole.rindex(stored_row(clf, 10))
    (tmp_path / ".model.erasable.new").write_bytes(whole[: last + 5])  # half way through the rows
    report = scan(tmp_path, X[core[:20]], ids=[f"unknown-{i}" for i in range(20)])
    assert {r.row for r in (*report.remains, *report.twins)} == set(range(10))
    saved(clf, tmp_path)
    (tmp_path / ".model.erasable.new").write_bytes(b"\xff" * 40 + whole[40:])  # the header is gone
    report = scan(tmp_path, X[core[:3]], ids=ids[core[:3]])
    assert {r.row for r in report.remains if r.file == ".model.erasable.new"} == {0, 1, 2}


def test_the_grid_of_a_model_is_looked_for_in_other_files(tmp_path, model):
    clf, X, ids, core = model
    row = stored_row(clf, 2)
    clf.forget(ids=[ids[core[2]]])
    saved(clf, tmp_path)
    (tmp_path / "core.dump").write_bytes(RNG(0).bytes(1001) + row)
    assert places(scan(tmp_path, X[[core[2]]], ids=[ids[core[2]]])) == {(0, 1001)}


def test_a_twin_is_told_from_a_remain(tmp_path, model):
    clf, X, ids, core = model
    saved(clf, tmp_path)
    report = scan(tmp_path, X[core[:2]], ids=["visit-other", "visit-another"])
    assert report.clean
    assert {t.row for t in report.twins} == {0, 1}
    one_of_both = scan(tmp_path, X[core[:2]], ids=[ids[core[0]], "visit-another"])
    assert {r.row for r in one_of_both.remains} == {0}
    assert {t.row for t in one_of_both.twins} == {1}


@pytest.mark.parametrize("name", [0, ""])
def test_a_row_without_a_subject_is_not_that_of_zero(tmp_path, name):
    X = RNG(3).standard_normal((40, 24))
    other = 7 if name == 0 else "person-7"
    people = [other if i % 2 else None for i in range(40)]
    clf = ErasableClassifier(threshold=0.0, feature_map=None)
    saved(clf.fit(X, X[:, 0] > 0, ids=range(1000, 1040), subjects=people, allow_no_subject=True), tmp_path)
    asked = {"ids": [1, 2], "subjects": [name, other]}
    found = scan(tmp_path, RNG(7).standard_normal((2, 24)), **asked)
    assert {(r.what, r.row) for r in found.remains} == {("subject", 1)}
    assert found.found == 20
    named = [name if i == 4 else p for i, p in enumerate(people)]
    if name == 0:  # an empty text is nobody's name
        clf = ErasableClassifier(threshold=0.0, feature_map=None)
        saved(clf.fit(X, X[:, 0] > 0, ids=range(1000, 1040), subjects=named, allow_no_subject=True), tmp_path)
        assert scan(tmp_path, RNG(7).standard_normal((2, 24)), **asked).found == 21


def test_subjects_are_found_only_when_asked_for(tmp_path, model):
    clf, X, *_ = model
    saved(clf, tmp_path)
    nobody = RNG(7).standard_normal((1, X.shape[1]))
    someone = [clf._model.snapshot().subjects[0]]
    report = scan(tmp_path, nobody, ids=["visit-none"], subjects=someone)
    assert {r.what for r in report.remains} == {"subject"}
    clf.forget(subjects=someone)
    saved(clf, tmp_path)
    assert scan(tmp_path, nobody, ids=["visit-none"], subjects=someone).clean


@pytest.mark.parametrize("kind", [str, int, str.encode])
def test_each_of_the_people_of_a_row_is_found_until_one_of_them_asks(tmp_path, kind):
    X = RNG(3).standard_normal((40, 6))
    number = {str: "person-{}", int: "90000{}", str.encode: "person-{}"}[kind]
    people = [[kind(number.format(i % 7)), kind(number.format(10 + i % 5))] for i in range(40)]
    clf = ErasableClassifier(threshold=0.0, feature_map=None).fit(
        X, X[:, 0] > 0, ids=range(1000, 1040), subjects=people
    )
    saved(clf, tmp_path)
    nobody = RNG(7).standard_normal((2, 6))
    asked = {"subjects": [people[0], [people[1][0]]]}
    report = scan(tmp_path, nobody, **asked)
    assert {(r.what, r.row) for r in report.remains} == {("subject", 0), ("subject", 1)}
    assert report.found == sum(len({*people[0], people[1][0]} & set(of_row)) for of_row in people)
    for remain in report.remains:
        data = (tmp_path / "model.erasable").read_bytes()[remain.offset : remain.offset + remain.length]
        key = int.from_bytes(data, "little") if kind is int else data.decode() if kind is str else data
        assert key in {*people[0], people[1][0]}
    clf.forget(subjects=[*people[0], people[1][0]])
    assert clf.n_core_ > 0
    saved(clf, tmp_path)
    assert scan(tmp_path, nobody, **asked).clean


@pytest.mark.parametrize("density", [0.03, 0.3])
def test_yes_or_no_features_raise_no_false_alarm(tmp_path, density):
    rng = RNG(5)
    X = np.unique((rng.random((1500, 120)) < density).astype(np.float32), axis=0)
    rng.shuffle(X)
    clf = ErasableClassifier(threshold=0.001, feature_map=None).fit(X, X[:, 0] > 0)
    gone = clf.core_ids_[::3]
    before = clf._model.snapshot().to_bytes()
    clf.forget(ids=gone)
    after = clf._model.snapshot().to_bytes()
    saved(clf, tmp_path)
    (tmp_path / "leftover").write_bytes(after[1000:])  # surviving rows in a file that is no model
    kept = np.delete(X, gone, axis=0)
    (tmp_path / "others.i16").write_bytes(to_grid(kept, Grid(120)).tobytes())
    (tmp_path / "others.f32").write_bytes(kept.tobytes())
    (tmp_path / "others.f64").write_bytes(kept.astype(float).tobytes())
    grid = to_grid(X, Grid(120))
    twins = {g.tobytes() for g in np.delete(grid, gone, axis=0)}
    single = [i for i in gone.tolist() if grid[i].tobytes() not in twins and X[i].sum() >= 4]
    assert len(single) > 30
    report = scan(tmp_path, X[single], ids=single)
    assert report.clean, report.remains[:5]
    (tmp_path / "before").write_bytes(before[1000:])  # the rows are sparse in it
    report = scan(tmp_path, X[single], ids=single)
    assert {r.file for r in report.remains} <= {"before"}
    told = {i for i, row in enumerate(X[single]) if row.sum() >= 8}  # the others have too few columns
    assert told <= {r.row for r in report.remains}
    assert report.too_short["rows"] == len(single) - len(told)
    (tmp_path / "before.i16").write_bytes(grid[gone].tobytes())
    report = scan(tmp_path, X[single], ids=single)
    assert {r.row for r in report.remains} == set(range(len(single)))
    assert {r.file for r in report.remains} - {"before"} == {"before.i16"}


@pytest.fixture(scope="module")
def small():
    X = RNG(0).standard_normal((30, 9))
    ids = [f"visit-{i:05d}" for i in range(30)]
    data = (
        ErasableClassifier(threshold=1e-6, feature_map=None).fit(X, X[:, 0] > 0, ids=ids)._model.snapshot().to_bytes()
    )
    return X, ids, data, 8 + int.from_bytes(data[:8], "little")


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_header_that_seems_shorter_hides_nothing(tmp_path, small, cut):
    """Without spaces at its end it is still JSON."""
    X, ids, data, header = small
    (tmp_path / "model").write_bytes((header - 8 - cut).to_bytes(8, "little") + data[8:])
    assert scan(tmp_path, X[[4]], ids=[ids[4]]).found


@given(where=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
@settings(max_examples=200)
def test_a_damaged_header_hides_nothing(tmp_path_factory, small, where, byte):
    X, ids, data, header = small
    at = int(where * header)
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "model").write_bytes(data[:at] + bytes([byte]) + data[at + 1 :])
    report = scan(folder, X[[4]], ids=[ids[4]])
    assert report.found


@pytest.mark.parametrize(
    ("meta", "tensor"),
    [
        ({}, {"dtype": "I16", "shape": [1e400], "data_offsets": [0, 0]}),
        ({}, {"dtype": "I16", "shape": [-1, -9], "data_offsets": [0, 18]}),
        ({}, {"dtype": "I16", "shape": [2**62, 9], "data_offsets": [0, 9 * 2**63]}),
        ({}, {"dtype": "I16", "shape": [0, 2**40], "data_offsets": [0, 0]}),
        ({}, {"dtype": "I16", "shape": [], "data_offsets": [0, 2]}),
        ({"n_features": [9], "bits": "x"}, {"dtype": "I16", "shape": [2, 9], "data_offsets": [0, 36]}),
        (
            {"n_features": 10**30, "bits": 15, "scaling": 3.5},
            {"dtype": "I16", "shape": [2, 9], "data_offsets": [0, 36]},
        ),
        ([], {}),
    ],
)
def test_a_hostile_header_does_no_harm(tmp_path, meta, tensor):
    text = json.dumps({"__metadata__": {"erasable": json.dumps(meta)}, "rows": tensor}).encode()
    row = RNG(0).standard_normal((1, 9))
    (tmp_path / "model").write_bytes(len(text).to_bytes(8, "little") + text + bytes(36) + row.tobytes())
    report = scan(tmp_path, row)
    assert [r.what for r in report.remains] == ["float64 row"]


def test_sparse_rows_that_claim_more_than_there_is_are_read_as_far_as_they_go(tmp_path):
    """Rows too short to be searched for as bytes."""
    X = np.array([[0.5, 0.0, 1.25], [0.0, 2.75, 0.0]])
    held = {
        "rows.data": ("I64", np.array([0.5, 1.25, 2.75]).view(np.int64)),
        "rows.indices": ("I64", np.array([0, 2, 1])),
        "rows.ends": ("I64", np.array([0, 2, 3, 1000])),
    }
    (tmp_path / "m").write_bytes(b"".join(parts({"n_features": 3}, held)))
    assert {r.row for r in scan(tmp_path, X).remains} == {0, 1}


UNFIT = {
    "one row too many": {"rows.ends": [0, 12, 24, 36, 1000]},
    "ends that go back": {"rows.ends": [0, 24, 12, 36]},
    "a first row that begins late": {"rows.ends": [1, 12, 24, 36]},
    "a column too many": {"rows.indices": [*range(12), *range(12), *range(11), 12]},
    "a column twice": {"rows.indices": [*range(12), *range(12), *range(11), 10]},
    "too few columns": {"rows.indices": [*range(12), *range(12)]},
}


@pytest.mark.parametrize("what", UNFIT)
def test_bytes_of_sparse_rows_that_do_not_fit_are_searched_like_any_others(tmp_path, what):
    X = RNG(0).standard_normal((3, 12))
    arrays = {"rows.data": X.ravel().view(np.int64), "rows.indices": [*range(12)] * 3, "rows.ends": [0, 12, 24, 36]}
    held = {name: ("I64", np.array(UNFIT[what].get(name, array))) for name, array in arrays.items()}
    (tmp_path / "m").write_bytes(b"".join(parts({"n_features": 12}, held)))
    report = scan(tmp_path, X)
    assert {(r.row, r.what) for r in report.remains} == {(i, "float64 row") for i in range(3)}
    assert report.found == 3
    assert ["do not fit" in u.why for u in report.unreadable] == [True]


def test_a_lying_header_hides_no_text(tmp_path):
    tensor = {"dtype": "I16", "shape": [2**40, 12], "data_offsets": [0, 24 * 2**40]}
    text = json.dumps({"__metadata__": {"erasable": "{}"}, "rows": tensor}).encode()
    (tmp_path / "m").write_bytes(len(text).to_bytes(8, "little") + text + b" seen: visit-00042 ")
    assert [r.what for r in scan(tmp_path, ROW, ids=["visit-00042"]).remains] == ["id"]


def test_in_a_copy_that_was_cut_off_every_row_is_named_once_and_twins_are_twins(tmp_path):
    X = RNG(0).standard_normal((40, 2))  # rows too short to be searched for as bytes
    long = RNG(0).standard_normal((40, 20))
    for rows in (X, long):
        clf = ErasableClassifier(threshold=1e-6, capacity=1e-3, feature_map=None).fit(
            rows, rows[:, 0] > 0, ids=np.arange(40)
        )
        core, whole = clf.core_ids_.tolist(), clf._model.snapshot().to_bytes()
        (tmp_path / "m").write_bytes(whole[: whole.rindex(clf._model.snapshot().rows[-1].tobytes()) + 1])
        report = scan(tmp_path, rows[core[:2]], ids=[core[0], 1000])
        assert sorted((r.what, r.row) for r in report.remains) == [("grid row", 0), ("id", 0)]
        assert [(t.what, t.row) for t in report.twins] == [("grid row", 1)]


@pytest.mark.parametrize(
    "name", ["customer-003", "customer-ß3é", 'cust "3"\\x', "\ncustomer-003", "cust,1234567,x", "47110815"]
)
def test_a_name_in_the_header_of_a_model_is_found(tmp_path, name):
    """A class that is fixed stays when its rows are forgotten; so do names of features."""
    X = RNG(0).standard_normal((80, 20))
    owner = np.array([name if i % 2 else "nobody" for i in range(80)], dtype=object)
    clf = ErasableClassifier(threshold=0.01, feature_map=None)
    clf.partial_fit(X, owner, classes=["nobody", name], ids=np.arange(80), subjects=owner)
    clf.forget(subjects=[name])
    saved(clf, tmp_path)
    data = (tmp_path / "model.erasable").read_bytes()
    (found,) = scan(tmp_path, X[[1, 3]], subjects=[name, "nobody else"]).remains
    assert (found.what, found.row) == ("subject", 0)
    place = data[found.offset : found.offset + found.length]
    header = data[8 : 8 + int.from_bytes(data[:8], "little")]
    assert place == (name.encode() if name.encode() in data else header)
    assert scan(tmp_path, X[[1, 3]], subjects=[name + "1", name[:-1]]).clean
    names = [f"f{j}" for j in range(19)]
    clf = ErasableClassifier(threshold=0.01, feature_names=[*names, f"visits of {name}"], feature_map=None)
    saved(clf.fit(X, X[:, 0] > 0, ids=np.arange(80)), tmp_path)
    assert [r.what for r in scan(tmp_path, RNG(1).standard_normal((1, 20)), ids=[name]).remains] == ["id"]


def test_a_name_in_a_description_and_under_a_key_that_stands_twice_is_found(tmp_path):
    inner = '{"learner":{"class_weight":{"customer-003":"x"}},"n_features":"customer-004","n_features":12}'
    mapped = json.dumps({"feature_map": json.dumps({"map": {"name": "by customer-005"}, "n_features": 4711})})
    for i, meta in enumerate((inner, mapped, '{"checksum":"customer-006","deep":' + "[" * 400 + "]" * 400 + "}")):
        text = json.dumps({"__metadata__": {"erasable": meta}, "customer-007": TENSOR}).encode()
        (tmp_path / str(i)).write_bytes(len(text).to_bytes(8, "little") + text + bytes(2))
    ids = ["customer-003", "customer-004", "customer-005", "customer-006", "customer-007", 4711]
    report = scan(tmp_path, RNG(0).standard_normal((6, 9)), ids=ids)
    assert {(r.file, r.row) for r in report.remains} == {("0", 0), ("0", 1), ("1", 2), ("0", 4), ("1", 4), ("2", 4)}
    assert report.found == 6


TENSOR = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}


def test_the_checksum_and_numbers_in_the_header_of_a_model_are_no_ids(tmp_path):
    X = RNG(0).standard_normal((600, 20))
    clf = ErasableClassifier(threshold=0.01, feature_map=None).fit(X, X[:, 0] > 0, ids=np.arange(10**6, 10**6 + 600))
    saved(clf, tmp_path)
    data = (tmp_path / "model.erasable").read_bytes()
    header = data[8 : 8 + int.from_bytes(data[:8], "little")]
    numbers = [n for n in range(1000, 9999) if str(n).encode() in header]
    assert numbers
    assert scan(tmp_path, RNG(1).standard_normal((len(numbers), 20)), ids=numbers).clean
    meta = json.loads(json.loads(header)["__metadata__"]["erasable"])
    pieces = [meta["checksum"], meta["checksum"][:12], meta["checksum"][20:40], int(meta["capacity_units"])]
    assert scan(tmp_path, X[:4] + 1.0, ids=pieces).clean


def test_bytes_of_ids_that_belong_to_no_id_are_searched(tmp_path):
    ends = np.array([9], dtype=np.int64)
    for held in (
        {"ids.ends": ("I64", ends), "ids": ("U8", np.frombuffer(b"visit-001 customer-003", np.uint8))},
        {"ids.ends": ("I64", ends[:0]), "ids": ("U8", np.frombuffer(b"visit-001 customer-003", np.uint8))},
        {"ids.present": ("U8", np.frombuffer(b"is customer-003", np.uint8))},
    ):
        (tmp_path / "m").write_bytes(b"".join(parts({"format": "x"}, held)))
        assert [r.what for r in scan(tmp_path, ROW, ids=["customer-003"]).remains] == ["id"]


def test_a_subject_among_ids_and_an_id_among_subjects_are_found(tmp_path):
    X = RNG(0).standard_normal((40, 20))
    names = [f"customer-{i:03d}" for i in range(20)] + [str(10_000 + i) for i in range(18)] + ["ann", "bob"]
    clf = ErasableClassifier(threshold=1e-6, feature_map=None)
    saved(clf.fit(X, X[:, 0] > 0, ids=names, subjects=[f"owner-{i:03d}" for i in range(40)]), tmp_path)
    others = RNG(1).standard_normal((3, 20))
    found = scan(tmp_path, others, subjects=["customer-003", "10003", "ann"])  # numbers and short texts may be others'
    assert [(r.what, r.row) for r in found.remains] == [("subject", 0)]
    found = scan(tmp_path, others, ids=["owner-003", "owner-03", "10003"])
    assert {(r.what, r.row) for r in found.remains} == {("id", 0), ("id", 2)}


def test_a_model_whose_rows_cannot_be_compared_is_named(tmp_path):
    X = RNG(0).standard_normal((200, 9))
    saved(ErasableClassifier(threshold=0.05, feature_map=None).fit(X, X[:, 0] > 0, ids=np.arange(200)), tmp_path)
    with_label = np.hstack([X, X[:, :1] > 0]).astype(float)
    report = scan(tmp_path, with_label[:5], ids=np.arange(1000, 1005))
    assert report.ids_only == ("model.erasable",)
    assert report.clean
    alone = scan(tmp_path, with_label[:5])
    assert not alone.clean
    assert [u.file for u in alone.unreadable] == ["model.erasable"]
    assert "another form" in alone.unreadable[0].why


@pytest.mark.parametrize("sharded", [False, True])
def test_rows_behind_a_feature_map_are_of_another_form(tmp_path, request, sharded):
    """As many outputs as the table has columns, so that the stored rows have the shape of rows of the table."""
    X = RNG(0).standard_normal((60, 9))
    made = RandomFourierFeatures(n_features_out=9)
    clf = ErasableClassifier(feature_map=made, threshold=1e-3).fit(X, X[:, 0] > 0, ids=np.arange(60))
    state = clf._model.snapshot()
    assert state.configuration.grid.n_features == 9
    assert _scan_rows.grid_in(state.header()) is None  # no grid to look for in other files
    assert _scan_rows.grid_in({**state.header(), "feature_map": None}) == state.configuration.grid
    if sharded:
        request.getfixturevalue("in_shards")
    clf.save(tmp_path / "model.erasable")
    parts_of = tmp_path / ".model.erasable.parts"
    hold_rows = {f"{parts_of.name}/{f.name}" for f in parts_of.iterdir()} if sharded else {"model.erasable"}
    blind = scan(tmp_path, X[:5])
    assert {u.file for u in blind.unreadable} == hold_rows == set(blind.unseen)
    assert "another form" in blind.unreadable[0].why
    named = scan(tmp_path, X[:5], ids=np.arange(1000, 1005))
    assert set(named.ids_only) == hold_rows == set(named.unseen)
    assert named.clean
    held = clf.core_ids_.tolist()[0]
    assert {r.what for r in scan(tmp_path, X[[held]], ids=[held]).remains} == {"id"}


def test_rows_that_a_model_cannot_hold_are_no_reason_to_doubt_it(tmp_path):
    X = RNG(0).uniform(-0.1, 0.1, (60, 9))
    clf = ErasableClassifier(threshold=1e-6, scaling=None, grid_bits=18, feature_map=None).fit(X, X[:, 0] > 0)
    saved(clf, tmp_path)
    assert scan(tmp_path, 100.0 + X[:5]).clean
    assert scan(tmp_path, np.vstack([100.0 + X[:1], X[1:2]])).remains[0].row == 1


@pytest.fixture
def in_shards(monkeypatch):
    """Models are saved in shards of some hundred bytes."""
    monkeypatch.setattr(shards, "LARGEST_FILE", 100)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 500)


@pytest.mark.parametrize("X", [RNG(0).standard_normal((90, 12)), sparse_rows(90)], ids=["dense", "sparse"])
def test_shards_of_a_large_model_are_compared_too(tmp_path, in_shards, X):
    clf = ErasableClassifier(threshold=1e-6, grid_bits=13, feature_map=None).fit(
        X, X.sum(axis=1) > 0, ids=np.arange(90)
    )
    path = tmp_path / "m.erasable"
    clf.save(path)
    assert len(list((tmp_path / ".m.erasable.parts").iterdir())) > 3
    report = scan(tmp_path, X[[4, 8]], ids=[4, 1008])
    assert {(r.row, r.what) for r in report.remains} == {(0, "id"), (0, "grid row")}
    assert all(r.file.startswith(".m.erasable.parts/") for r in report.remains)
    assert {t.row for t in report.twins} == {1}
    clf.forget(ids=[4])
    clf.save(path, overwrite=True)
    assert scan(tmp_path, X[[4]], ids=[4]).clean
    # With one column too many the shards hold rows of the same shape as a grid without intercept.
    wrong = scan(tmp_path, np.hstack([X, X[:, :1]])[:3], ids=[1000, 1001, 1002])
    assert len(wrong.ids_only) > 3


def spoilt(data, name, change):
    """A model whose sparse rows have a changed array."""
    arrays, meta = tensors(data), opened(data)[1]
    kind, _, raw = arrays[f"rows.{name}"]
    array = np.frombuffer(raw, {"U16": "<u2", "I16": "<i2"}[kind]).copy()
    change(array)
    return rebuilt(meta, {**arrays, f"rows.{name}": (kind, [len(array)], array.tobytes())})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("columns", lambda a: np.put(a, 5, 400)),  # a column past the last
        ("columns", lambda a: np.put(a, 1, a[0])),  # a column twice in a row
        ("lengths", lambda a: np.put(a, -1, 60_000)),  # lengths that lead past the end
    ],
)
def test_arrays_of_sparse_rows_that_do_not_fit_hide_nothing(tmp_path, name, change):
    X = sparse_rows()
    clf = ErasableClassifier(threshold=1e-6, feature_map=None).fit(X, X.sum(axis=1) > 0)
    (tmp_path / "model.erasable").write_bytes(spoilt(clf._model.snapshot().to_bytes(), name, change))
    report = scan(tmp_path, X[::9])
    assert report.unreadable
    assert {r.row for r in report.remains} == set(range(len(X[::9])))  # by their values


def test_yes_or_no_rows_are_told_by_their_columns(tmp_path):
    rows = (RNG(8).random((60, 200)) < 0.1).astype(float)
    clf = ErasableClassifier(threshold=1e-6, feature_map=None).fit(rows, rows[:, 0] > 0)
    for gone, found in (([], set(range(20))), (range(20), set())):
        clf.forget(ids=list(gone))
        whole = clf._model.snapshot().to_bytes()
        (tmp_path / "leftover").write_bytes(b"\xff" * 40 + whole[40:])
        assert {r.row for r in scan(tmp_path, rows[:20]).remains} == found


@pytest.mark.parametrize("cut", [0, 1])
def test_sparse_rows_of_a_model_are_compared_as_dense_ones(tmp_path, cut):
    X = sp.random_array((30, 16), density=0.4, rng=RNG(0), format="csr")
    held = {
        "rows.data": ("I64", X.data.view(np.int64)),
        "rows.indices": ("I64", X.indices),
        "rows.ends": ("I64", X.indptr),
        "ids": ("I64", np.arange(30)),
    }
    meta = {"format": "erasable-core-set", "n_features": 16, "layout": "csr"}
    data = b"".join(parts(meta, held))
    (tmp_path / "m").write_bytes(data[:-cut] if cut else data)  # without its last byte, the ids cannot be read
    report = scan(tmp_path, X.toarray()[[7, 9]], ids=[7, 1009])
    rows = [r for r in (*report.remains, *report.twins) if r.what == "float64 row"]
    for r in rows:
        assert data[r.offset : r.offset + r.length] == X[[7, 9]][[r.row]].data.tobytes()
    assert {r.row for r in rows} == {0, 1}
    assert {r.row for r in report.twins} == (set() if cut else {1})


# -- words -------------------------------------------------------------------------------------------------------

ROW = RNG(11).standard_normal((1, 12))


def said(folder, text, *, id="visit-00042"):
    (folder / "service.log").write_bytes(text if isinstance(text, bytes) else text.encode())
    return {(r.what, r.offset, r.length) for r in scan(folder, ROW, ids=[id]).remains}


@pytest.mark.parametrize(
    ("id", "text", "at"),
    [
        ("visit-00042", "served visit-00042 in 3 ms", 7),
        ("visit-00042", "visit-00042", 0),
        ("visit-00042", '{"id":"visit-00042"}', 7),
        ("visit-00042", b"\x8c\x0bvisit-00042\x94.", 2),
        ("visit-00042", "visit-000421 visit-00042", 13),
        ("visit-00042", "xvisit-00042 visit-00042x _visit-00042 visit-00042- revisit-00042", None),
        ("visit-00042", "visit-0004 2, visit 00042", None),
        (4711, "row 4711 deleted", 4),  # a short id counts only in text
        (4711, "4711", 0),
        (4711, b"\x00\x01 4711 \x02\x80", None),
        (47114711, b"\x00\x01 47114711 \x02\x80", 3),
    ],
)
def test_an_id_is_found_as_a_whole_word(tmp_path, id, text, at):
    assert said(tmp_path, text, id=id) == (set() if at is None else {("id", at, len(str(id)))})


@given(before=st.integers(0, 1200), after=st.integers(0, 600))
@settings(max_examples=60)
def test_ids_are_found_across_the_borders_of_blocks(tmp_path_factory, before, after):
    with small_blocks():
        found = said(tmp_path_factory.mktemp("log"), "x " * (before // 2) + " visit-00042 " + "y" * after)
    assert found == {("id", before // 2 * 2 + 1, 11)}


@pytest.mark.parametrize(
    "id", ["ann@example.com", "#0001-x", "Ünal Çelik", "日本語の名前", "Müller", "10.0.0.17", b"\xffab-cdef"]
)
def test_ids_of_any_letters_are_found(tmp_path, id):
    text = id if isinstance(id, bytes) else id.encode()
    assert said(tmp_path, b"some text: " + text + b"; and more text", id=id) == {("id", 11, len(text))}
    assert said(tmp_path, b"some text: x" + text + b"; and more text", id=id) == set()
    assert said(tmp_path, b"some text: " + text + b"y and more text", id=id) == set()


def test_ids_too_short_for_text_are_counted_and_still_compared_with_models(tmp_path):
    (tmp_path / "log").write_text("row 7 and row ab1 and row 123 and a.b.c.d")
    X = RNG(0).standard_normal((50, 5))
    ids = [7, 123, -999, 12345]
    report = scan(tmp_path, X[:4], ids=ids, subjects=["ab1", None, "a.b.c.d", "long enough"])
    assert report.clean
    assert report.too_short == {"ids": 3, "subjects": 2, "rows": 0}
    saved(ErasableClassifier(threshold=1e-6, feature_map=None).fit(X, X[:, 0] > 0, ids=np.arange(50)), tmp_path)
    assert {r.row for r in scan(tmp_path, RNG(1).standard_normal((4, 5)), ids=ids).remains} == {0}


def test_names_are_found_in_text_and_in_names_of_files_and_a_report_holds_none(tmp_path):
    X = RNG(0).standard_normal((3, 12))
    (tmp_path / "exports").mkdir()
    (tmp_path / "exports" / "visit-00042.json").write_text("hello person-17\n")
    (tmp_path / "dump").write_bytes(b"abc" + X[0].tobytes())
    names = {"ids": ["a", "b", "visit-00042"], "subjects": ["person-18", "person-17", "person-17"]}
    report = scan(tmp_path, X, **names)
    assert report.remains == (
        Remain("dump", 3, 96, "float64 row", 0),
        Remain("exports/visit-00042.json", 6, 9, "subject", 1),  # the first row that has it
        Remain("exports/visit-00042.json", 8, 11, "id in a file name", 2),
    )
    assert scan(tmp_path / "dump", X).remains == report.remains[:1]  # a file instead of a folder
    for trace in ("person", "17", *(repr(float(v))[:6] for v in X.flat)):
        assert trace not in json.dumps(report.as_json()) + repr(report)


def test_too_many_words_that_are_nearly_an_id_are_said(tmp_path):
    (tmp_path / "log").write_text("a1 " * 500)
    with patch.object(_scan_text, "_MOST_TRIES", 100):
        report = scan(tmp_path, ROW, ids=["a1.b2.c3"])
    assert [u.file for u in report.unreadable] == ["log"]


# -- files -------------------------------------------------------------------------------------------------------


def test_packed_files_are_listed_and_what_is_not_packed_in_them_is_found(tmp_path):
    X = RNG(0).standard_normal((2, 30))
    np.savez(tmp_path / "rows.npz", X=X)
    (tmp_path / "rows.gz").write_bytes(gzip.compress(X.tobytes().hex().encode()))
    (tmp_path / "rows.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    report = scan(tmp_path, X)
    assert report.not_looked_into == ("rows.gz", "rows.npz", "rows.parquet")
    assert {r.file for r in report.remains} == {"rows.npz"}


def parquet(path, columns, **options):
    pq.write_table(pa.table(columns), path, **{"compression": "zstd", **options})


def in_parquet(report):
    return {(r.what.removesuffix(" in Parquet"), r.offset, r.row) for r in report.remains if "Parquet" in r.what}


def test_rows_are_found_among_the_numbers_of_a_parquet_file_whatever_its_columns_are_called(tmp_path):
    X = RNG(0).standard_normal((50, 12))
    columns = {"before": np.arange(50), **{f"c{j}": X[:, j] for j in range(12)}, "after": X[:, 0]}
    parquet(tmp_path / "rows.parquet", columns, row_group_size=20)
    report = scan(tmp_path, X[[7, 33]])
    assert in_parquet(report) == {("row", 7, 0), ("row", 33, 1)}
    assert report.not_looked_into == ()
    named = ScanColumns([f"f{j}" for j in range(12)])
    assert in_parquet(scan(tmp_path, X[[7, 33]], columns=named)) == {("row", 7, 0), ("row", 33, 1)}
    parquet(tmp_path / "rows.parquet", {f"c{j}": X[:, j].astype(np.float32) for j in range(12)})
    assert in_parquet(scan(tmp_path, X[[7, 33]])) == {("row", 7, 0), ("row", 33, 1)}


def test_ids_are_found_in_the_texts_and_integers_of_a_parquet_file(tmp_path):
    X = RNG(0).standard_normal((3, 10))
    columns = {
        "who": pa.array(["zoe-0001", None, "ann-0001", "bob-0001"]).dictionary_encode(),
        "note": ["nothing", "from ann-0001, by post", "", "bobann-0001"],
        "number": [4711, 12, 13, 4712],
        "raw": [b"", b"zz\x00ann-0001", b"", b""],
    }
    parquet(tmp_path / "log.parquet", columns)
    report = scan(tmp_path, X, ids=["ann-0001", "4711", "x"], subjects=["carl-001", "bob-0001", None])
    assert in_parquet(report) == {("id", 2, 0), ("id", 1, 0), ("id", 0, 1), ("subject", 3, 1)}
    # Short names are found in the columns that are known to hold them, of subjects in each of several.
    parquet(tmp_path / "log.parquet", {"a": ["x", "y", "z"], "b": ["y", "w", "z"], "c": ["y", "y", "y"]})
    report = scan(tmp_path, X, subjects=[("x", "y"), "w", None], columns=ScanColumns(subjects=["a", "b"]))
    assert in_parquet(report) == {("subject", 0, 0), ("subject", 1, 0), ("subject", 1, 1)}
    # An integer that is a feature is none of the ids.
    columns = {"number": [4711, 12], "f": [0.5, 0.25]}
    parquet(tmp_path / "log.parquet", columns)
    report = scan(tmp_path, X[:, :2], ids=["4711", "b", "c"], columns=ScanColumns(["number", "f"]))
    assert in_parquet(report) == set()


def test_what_of_a_parquet_file_cannot_be_decoded_is_said(tmp_path, monkeypatch):
    X = RNG(0).standard_normal((4, 10))
    columns = {f"c{j}": X[:, j] for j in range(10)}
    parquet(tmp_path / "nested.parquet", {**columns, "more": X.tolist()})
    parquet(tmp_path / "whole.parquet", columns)
    data = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[: len(data) // 2])
    (tmp_path / "empty.parquet").write_bytes(b"PAR1")
    damaged = bytearray(data)
    damaged[4:200] = bytes(196)
    (tmp_path / "damaged.parquet").write_bytes(damaged)
    report = scan(tmp_path, X[:1])
    assert set(report.not_looked_into) == {"nested.parquet", "cut.parquet", "empty.parquet", "damaged.parquet"}
    assert {r.file for r in report.remains} == {"nested.parquet", "whole.parquet"}
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "whole.parquet" in scan(tmp_path, X[:1]).not_looked_into


def test_a_parquet_file_without_rows_or_numbers_is_looked_into(tmp_path):
    parquet(tmp_path / "none.parquet", {"a": pa.array([], pa.float64())})
    parquet(tmp_path / "texts.parquet", {"a": ["x", "y"]})
    report = scan(tmp_path, ROW)
    assert report.clean
    assert report.not_looked_into == ()


def test_links_are_not_followed_and_pipes_not_opened(tmp_path):
    X = RNG(0).standard_normal((1, 30))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "rows").write_bytes(X.tobytes())
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "file").symlink_to(outside / "rows")
    (inside / "folder").symlink_to(outside)
    os.mkfifo(inside / "pipe")
    report = scan(inside, X)
    assert report.clean
    assert report.links == 3
    assert report.files == 0


def test_what_is_skipped_or_excluded_is_not_looked_into_and_listed(tmp_path):
    X = RNG(0).standard_normal((1, 30))
    (tmp_path / "a").mkdir()
    for name in ("table.bin", "a/table.bin", "a/b.tmp", "rest"):
        (tmp_path / name).write_bytes(X.tobytes())
    os.link(tmp_path / "table.bin", tmp_path / "same.bin")
    report = scan(tmp_path, X, skip=[tmp_path / "table.bin"], exclude=["a/*.bin", "*.tmp"])
    assert {r.file for r in report.remains} == {"rest"}
    assert sorted(report.skipped) == ["a/b.tmp", "a/table.bin", "same.bin", "table.bin"]
    assert report.files == 1


def test_a_file_that_cannot_be_read_is_never_passed_over_in_silence(tmp_path, monkeypatch):
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "plain").write_bytes(b"x")
    real = _scan_files.open_file

    def refuse(path):
        if path.endswith("secret"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(scan_module, "open_file", refuse)
    report = scan(tmp_path, ROW)
    assert [(u.file, u.why) for u in report.unreadable] == [("secret", "permission denied")]
    assert not report.clean
    assert not report.found


def test_a_file_that_changes_under_the_scan_is_said(tmp_path, monkeypatch):
    (tmp_path / "log").write_bytes(b"x" * 100)
    real = _scan_files.is_packed

    def grow(fd):
        with (tmp_path / "log").open("ab") as file:
            file.write(b"more")
        return real(fd)

    monkeypatch.setattr(scan_module, "is_packed", grow)
    assert "changed" in scan(tmp_path, ROW).unreadable[0].why


def test_progress_runs_to_the_end_and_memory_does_not_follow_the_size(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(50_000_000)
        file.seek(40_000_001)
        file.write(ROW.tobytes())
    (tmp_path / "empty").write_bytes(b"")
    seen = []
    report = scan(tmp_path, ROW, progress=lambda done, total: seen.append((done, total)))
    assert places(report) == {(0, 40_000_001)}
    assert seen[-1] == (50_000_000, 50_000_000)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
    assert len(seen) > 5
    assert report.bytes == 50_000_000


def test_many_rows_are_looked_for_in_batches_with_the_same_result(tmp_path, monkeypatch):
    X = RNG(0).standard_normal((40, 20))
    ids = np.array([f"visit-{i:05d}" for i in range(40)], dtype=object)
    clf = ErasableClassifier(threshold=1e-6, feature_map=None).fit(X, X[:, 0] > 0, ids=ids)
    saved(clf, tmp_path)
    (tmp_path / "visit-00003.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "log").write_text("visit-00007 visit-00039")
    (tmp_path / "dump").write_bytes(X[::-1].tobytes() + X[5].tobytes())
    known = ids.copy()
    known[10:20] = [f"other-{i}" for i in range(10)]
    at_once = scan(tmp_path, X, ids=known)
    assert at_once.found > 100
    seen = []
    monkeypatch.setattr(_scan_rows, "_BATCH", 7 * 20)
    in_batches = scan(tmp_path, X, ids=known, progress=lambda done, total: seen.append((done, total)))
    assert in_batches == at_once
    assert seen[-1] == (6 * at_once.bytes, 6 * at_once.bytes)


@pytest.mark.parametrize(
    ("X", "more", "message"),
    [
        ([[1.0]], {}, "X must be an array"),
        (np.array([[1]]), {}, "X must be an array"),
        (np.zeros((0, 3)), {}, "at least one row"),
        (np.array([[np.nan]]), {}, "must be finite"),
        (np.ones((2, 2)), {"ids": [1]}, "ids has 1 entries for 2 rows"),
        (np.ones((1, 2)), {"subjects": [1.5]}, "subjects must be integers"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(tmp_path, X, more, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        scan(tmp_path, X, **more)
    with pytest.raises(InputError, match="cannot be looked through"):
        scan(tmp_path / "nowhere", ROW)


def test_rows_too_large_for_float32_or_a_grid_are_looked_for_as_they_are(tmp_path):
    X = np.array([[1e300, -1e299, 3.0, 4.5], [1.0, 2.5, 3.25, 4.125]])
    meta = {"format": "erasable-kernel", "n_features": 4, "bits": 12, "scaling": None}
    (tmp_path / "m").write_bytes(b"".join(parts(meta, {"rows": ("I32", Points(4).of_rows(X[1:]))})))
    (tmp_path / "dump").write_bytes(b"a" + X.tobytes())
    report = scan(tmp_path, X)
    assert {(r.file, r.row) for r in report.remains} == {("dump", 0), ("dump", 1), ("m", 1)}
