"""A scan knows the sparse form of a row: in a model's file, in its shards, cut off, and where no header tells of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from erasable import ErasableClassifier
from erasable.audit.scan import scan
from erasable.core.grid import Grid, to_grid
from erasable.models import files as shards
from tests.formats.tampering import opened, rebuilt, tensors

D = 400
RNG = np.random.default_rng(3)
X = RNG.standard_normal((120, D)) * (RNG.random((120, D)) < 0.04)
IDS = np.array([f"visit-{i:05d}" for i in range(120)])
GONE = np.arange(0, 120, 9)


def fitted(**parameters):
    return ErasableClassifier(threshold=1e-6, **parameters).fit(X, X[:, :200].sum(axis=1) > 0, ids=IDS)


@pytest.mark.parametrize("parameters", [{}, {"fit_intercept": False}, {"grid_bits": 18}, {"scaling": 90.0}])
def test_rows_in_a_model_are_found_and_those_forgotten_are_not(tmp_path, parameters):
    clf = fitted(**parameters)
    path = tmp_path / "model.erasable"
    clf.save(path)
    assert sp.issparse(clf._model.snapshot().rows)
    report = scan(tmp_path, X[GONE], ids=IDS[GONE])
    assert {r.row for r in report.remains if r.what == "grid row"} == set(range(len(GONE)))
    data, form = path.read_bytes(), clf._model.configuration.grid
    for r in report.remains:
        if r.what == "grid row":  # the values of the row
            row = to_grid(X[GONE[[r.row]]], form)[0, :D]
            assert data[r.offset : r.offset + r.length] == row[row != 0].tobytes()
    clf.forget(ids=IDS[GONE])
    clf.save(path, overwrite=True)
    report = scan(tmp_path, X[GONE], ids=IDS[GONE])
    assert report.clean
    assert not report.unreadable
    assert not report.ids_only


def test_rows_under_another_id_are_twins(tmp_path):
    fitted().save(tmp_path / "model.erasable")
    report = scan(tmp_path, X[GONE], ids=[f"other-{i}" for i in range(len(GONE))])
    assert report.clean
    assert {r.row for r in report.twins} == set(range(len(GONE)))


def test_rows_in_shards_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "LARGEST_FILE", 1000)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 900)
    clf = fitted()
    clf.save(tmp_path / "model.erasable")
    report = scan(tmp_path, X[GONE], ids=IDS[GONE])
    assert {r.row for r in report.remains if r.what == "grid row"} == set(range(len(GONE)))
    assert len({r.file for r in report.remains}) > 3
    clf.forget(ids=IDS[GONE])
    clf.save(tmp_path / "model.erasable", overwrite=True)
    assert scan(tmp_path, X[GONE], ids=IDS[GONE]).clean


def test_a_copy_that_was_cut_off_is_still_looked_into(tmp_path):
    clf = fitted()
    clf.forget(ids=IDS[:0])
    state, whole = clf._model.snapshot(), clf._model.snapshot().to_bytes()
    at = [int(key.split("-")[1]) for key in state.ids]
    row = to_grid(X[at[10:11]], Grid(D))[0, :D]
    last = whole.rindex(row[row != 0].tobytes())
    (tmp_path / ".model.erasable.new").write_bytes(whole[: last + 3])  # inside of the eleventh row's values
    report = scan(tmp_path, X[at[:20]], ids=[f"unknown-{i:03d}" for i in range(20)])
    assert {r.row for r in (*report.remains, *report.twins)} == set(range(10))


def test_the_values_are_found_where_the_header_is_gone(tmp_path):
    clf = fitted()
    whole = clf._model.snapshot().to_bytes()
    (tmp_path / "leftover").write_bytes(b"\xff" * 40 + whole[40:])
    report = scan(tmp_path, X[GONE])
    told = set(range(len(GONE)))
    assert {r.row for r in report.remains} == told
    assert {r.what for r in report.remains} == {"grid row"}
    clf.forget(ids=IDS[GONE])
    (tmp_path / "leftover").write_bytes(b"\xff" * 40 + clf._model.snapshot().to_bytes()[40:])
    assert scan(tmp_path, X[GONE]).clean


def spoil(name, change):
    """A change of one array of a file's."""

    def changed(data):
        parts, meta = tensors(data), opened(data)[1]
        kind, _, raw = parts[f"rows.{name}"]
        array = np.frombuffer(raw, {"U16": "<u2", "I16": "<i2"}[kind]).copy()
        array = change(array)
        return rebuilt(meta, {**parts, f"rows.{name}": (kind, [len(array)], array.tobytes())})

    return changed


def put(array, at, value):
    array[at] = value
    return array


SPOILT = {
    "a column past the last": spoil("columns", lambda a: put(a, 5, D)),
    "a column twice in a row": spoil("columns", lambda a: put(a, 1, a[0])),
    "lengths that lead past the end": spoil("lengths", lambda a: put(a, -1, 60_000)),
}


@pytest.mark.parametrize("how", SPOILT)
def test_arrays_that_do_not_fit_hide_nothing(tmp_path, how):
    whole = fitted()._model.snapshot().to_bytes()
    (tmp_path / "model.erasable").write_bytes(SPOILT[how](whole))
    report = scan(tmp_path, X[GONE])
    assert report.unreadable
    assert {r.row for r in report.remains} == set(range(len(GONE)))  # by their values


def test_yes_or_no_rows_are_told_by_their_columns(tmp_path):
    rng = np.random.default_rng(8)
    rows = (rng.random((60, 200)) < 0.1).astype(float)
    clf = ErasableClassifier(threshold=1e-6).fit(rows, rows[:, 0] > 0)
    whole = clf._model.snapshot().to_bytes()
    (tmp_path / "leftover").write_bytes(b"\xff" * 40 + whole[40:])
    assert {r.row for r in scan(tmp_path, rows[:20]).remains} == set(range(20))
    clf.forget(ids=range(20))
    (tmp_path / "leftover").write_bytes(b"\xff" * 40 + clf._model.snapshot().to_bytes()[40:])
    assert scan(tmp_path, rows[:20]).clean
