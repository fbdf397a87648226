"""What is stored of somebody, from files and in memory: rows of every kind of model, as close as the grid allows."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

from erasable import ErasableClassifier, ErasableRegressor, ModelFile
from erasable.core.target_grid import off_grid
from erasable.errors import InputError, InputTypeError, StateFormatError
from erasable.estimators import TableEncoder
from erasable.models import files as shards
from erasable.models.access import mapped_names
from erasable.operations.inspect import inspect, rows_of
from erasable.schemas import Category, Number, Schema
from tests.formats.models import CASES, N, rows, wide_rows
from tests.schemas.raw import draft, table

SPARSE = {name for name in CASES if "sparse" in name}


def expected(case, model, key):
    """The row that came, and how far from it each stored value may be; by its direction where that is all there is."""
    X = case.X()
    x = np.asarray(X.toarray() if sp.issparse(X) else X)[case.ids().index(key)]
    scaling = model.get_params().get("scaling", "none") if "Erasable" in type(model).__name__ else "none"
    match type(model).__name__, scaling:
        case "ErasableClassifier", "row":
            return x / np.linalg.norm(x), 2.0**-14
        case "ErasableClassifier", [*scales]:
            x = x / np.linalg.norm(x / scales)
            return x, 2.0**-14 * max(scales)
        case "ErasableKernelClassifier", float():
            return x, scaling * 2.0**-9
        case "ErasableKernelClassifier", [*scales]:
            return x, max(scales) * 2.0**-9
        case "CoreSetUnlearner", _:
            return x, 0.0
    return None


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_model_says_what_it_stores_of_somebody(name, tmp_path):
    case = CASES[name]
    model = case.fitted(np.arange(N // 2, N))  # those that have subjects
    model.save(tmp_path / "m.erasable")
    owned = dict(zip(model.core_ids_.tolist(), model.model_.core.subjects(), strict=True))
    person = next(o if isinstance(o, str) else o[0] for o in owned.values() if o is not None)
    theirs = [key for key, o in owned.items() if o == person or (isinstance(o, tuple) and person in o)]
    found = rows_of(tmp_path / "m.erasable", subjects=[person])
    assert found == model.rows_of(subjects=person) == ModelFile(tmp_path / "m.erasable").rows_of(subjects=[person])
    assert [row.id for row in found.rows] == theirs
    assert (found.requested, found.not_stored, found.has_subjects) == (1, 0, True)
    c = model.model_.configuration
    ranges = getattr(c.head, "target_ranges", ())
    labels = {
        key: tuple(off_grid(t, ends, c.grid) for t, ends in zip(label, ranges, strict=True)) if ranges else label
        for key, label in zip(owned, model.model_.core.labels(), strict=True)
    }
    weights = dict(zip(owned, model.model_.core.weights(), strict=True))
    for row in found.rows:
        assert row.label == labels[row.id]
        assert row.weight == weights[row.id] / 16
        assert row.other_subjects == (len(owned[row.id]) - 1 if isinstance(owned[row.id], tuple) else 0)
        mapped = mapped_names(c.feature_map, getattr(model, "feature_names", None))
        names = mapped or [str(j) for j in range(inspect(tmp_path / "m.erasable").features)]
        if name in SPARSE:
            assert all(row.values.values())
            assert set(row.values) <= set(names)
        elif "general" not in name:
            assert list(row.values) == names
        wanted = None if getattr(c, "feature_map", None) else expected(case, model, row.id)
        if wanted is not None:
            values = np.array([row.values.get(key, 0.0) for key in names])
            assert np.abs(values - wanted[0]).max() <= wanted[1]
    assert inspect(tmp_path / "m.erasable").layout == ("sparse" if name in SPARSE else "dense")
    assert json.loads(json.dumps(found.as_json()))["not_stored"] == 0
    assert "row" in repr(found)
    for shown in (repr(found), repr(found.rows)):
        assert person not in shown
        assert str(found.rows[0].id) not in shown


@pytest.mark.parametrize("scaling", [None, 8.0, 10.0])
def test_rows_that_are_not_divided_by_their_norms_come_back(scaling):
    X = rows() / 8 / np.sqrt(3) * (scaling or 1.0)
    model = ErasableClassifier(threshold=0.0, scaling=scaling, feature_map=None).fit(X, np.arange(N) % 2)
    found = model.rows_of(ids=range(N))
    assert "direction" not in found.values_are
    for row in found.rows:
        assert np.abs(np.array(list(row.values.values())) - X[row.id]).max() <= 2.0**-15 * 1.5 * (scaling or 1.0)


def test_only_a_direction_is_said_to_be_only_that():
    X = rows()
    for scaling in ("row", [8.0, 8.0, 9.5]):
        found = (
            ErasableClassifier(threshold=0.0, scaling=scaling, feature_map=None)
            .fit(X, np.arange(N) % 2)
            .rows_of(ids=[0])
        )
        assert "only the direction" in found.values_are
    zeros = ErasableClassifier(threshold=0.0, feature_map=None).fit(np.zeros((2, 3)), [0, 1]).rows_of(ids=[1])
    assert zeros.rows[0].values == {}  # sparse, and nothing but zeros


def test_several_people_and_rows_are_asked_for_together():
    owners = [["ann", "bob"], ["bob"], ["cy", "ann", "bob"], None, ["dan"]]
    model = ErasableClassifier(threshold=0.0, order="given", feature_map=None)
    model.fit(np.eye(5), [0, 1, 0, 1, 0], subjects=owners, allow_no_subject=True)
    found = model.rows_of(subjects=["ann", "cy", "zoe"], ids=[3, 77, 0])
    assert [(row.id, row.other_subjects) for row in found.rows] == [(0, 1), (2, 1), (3, 0)]
    assert (found.requested, found.not_stored) == (6, 2)
    assert [row.other_subjects for row in model.rows_of(ids=[2]).rows] == [3]
    model.forget(subjects=["ann"])
    assert model.rows_of(subjects=["ann"]).rows == []
    assert [row.id for row in model.rows_of(subjects=["bob"]).rows] == [1]


@pytest.mark.parametrize("scaling", ["row", "bound"])
def test_rows_of_raw_tables_come_back_as_cells(scaling, tmp_path):
    raw, schema = table(), draft()
    how = schema.bound if scaling == "bound" else scaling
    model = ErasableClassifier(feature_map=TableEncoder(schema), threshold=0.2, scaling=how)
    roles = {"ids": raw["row_id"].to_pylist(), "subjects": raw["person"].to_pylist()}
    model.fit(raw, raw["outcome"].to_pylist(), **roles)
    model.save(tmp_path / "m.erasable")
    found = rows_of(tmp_path / "m.erasable", ids=model.core_ids_.tolist())
    assert found == model.rows_of(ids=model.core_ids_)
    assert "as far as" in found.values_are
    cells = dict(zip(raw["row_id"].to_pylist(), raw.to_pylist(), strict=True))
    names = set(schema.feature_names_out())
    for row in found.rows:
        true = cells[row.id]
        assert list(row.cells) == [c.name for c in schema.features]
        assert set(row.values) <= names
        assert row.cells["town"].text == true["town"]
        assert row.cells["age"].missing is (true["age"] is None)
        if true["age"] is not None:
            low, high = row.cells["age"].facts["low"], row.cells["age"].facts["high"]
            assert low is None or low <= true["age"]
            assert high is None or true["age"] < high
        assert true["joined"].month in row.cells["joined"].facts["parts"]["month"]
        assert true["note"].split()[0] not in str(row.as_json()["cells"])
    json.dumps(found.as_json())
    assert true["town"] not in repr(row.cells) + repr(row)


def test_nothing_stored_is_an_answer_of_the_same_shape(tmp_path):
    model = ErasableClassifier(threshold=0.1, feature_map=None).fit(np.eye(3), [0, 1, 0])
    model.save(tmp_path / "m.erasable")
    found = rows_of(tmp_path / "m.erasable", subjects=["nobody"])
    assert (found.rows, found.requested, found.not_stored, found.has_subjects) == ([], 1, 1, False)
    assert found.as_json().keys() == model.rows_of(ids=[0]).as_json().keys()
    model.forget(ids=[0, 1, 2])
    assert model.rows_of(ids=[0], subjects=["x"]).not_stored == 2


@pytest.mark.parametrize("X", [rows(), wide_rows()], ids=["dense", "sparse"])
def test_models_in_several_files_say_it_too(X, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "LARGEST_FILE", 100)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 64)
    owners = [[f"p{i % 4}", f"q{i % 3}"] for i in range(N)]
    model = ErasableClassifier(threshold=0.0, feature_map=None).fit(X, np.arange(N) % 2, subjects=owners)
    model.save(tmp_path / "m.erasable")
    assert inspect(tmp_path / "m.erasable").files > 1
    assert inspect(tmp_path / "m.erasable").layout == ("sparse" if sp.issparse(X) else "dense")
    found = rows_of(tmp_path / "m.erasable", subjects=["p1"])
    assert found == model.rows_of(subjects=["p1"])
    assert len(found.rows) == sum("p1" in o for o in owners if o) > 0


def test_cells_come_back_from_several_files_and_sparse_rows_too(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "LARGEST_FILE", 100)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 64)
    schema = Schema([Category(name="town", hashed=500), Number(name="age", range=[0, 100])])
    assert schema.sparse
    cells = {"town": [f"town {i}" for i in range(N)], "age": [1.0 + i for i in range(N)]}
    model = ErasableRegressor(target_range=(0, 1), feature_map=schema, threshold=0.0).fit(cells, np.arange(N) / N)
    model.save(tmp_path / "m.erasable")
    assert inspect(tmp_path / "m.erasable").files > 1
    found = rows_of(tmp_path / "m.erasable", ids=list(range(N)))
    assert found == model.rows_of(ids=range(N))
    assert len(found.rows) == N
    for row in found.rows:
        age, town = row.cells["age"].facts, row.cells["town"].facts
        assert age["low"] <= cells["age"][row.id] <= age["high"] < age["low"] + 0.1
        assert f"town#{town['places'][0]}" in row.values


def test_wrong_requests_are_refused(tmp_path):
    model = ErasableClassifier(threshold=0.1, feature_map=None).fit(np.eye(3), [0, 1, 0], subjects=["a", "b", "c"])
    model.save(tmp_path / "m.erasable")
    for ask in (model.rows_of, ModelFile(tmp_path / "m.erasable").rows_of):
        with pytest.raises(InputError, match="subjects= or ids="):
            ask()
        with pytest.raises(InputTypeError, match="ids are integers"):
            ask(ids=["0"])
        with pytest.raises(InputTypeError, match="subjects are strings"):
            ask(subjects=[1])
        with pytest.raises(InputTypeError):
            ask(subjects=[("a", "b")])
    with pytest.raises(Exception, match="fitted"):
        ErasableClassifier(feature_map=None).rows_of(ids=[0])
    data = bytearray((tmp_path / "m.erasable").read_bytes())
    data[-1] ^= 1
    (tmp_path / "m.erasable").write_bytes(data)
    with pytest.raises(StateFormatError):
        rows_of(tmp_path / "m.erasable", ids=[0])


@pytest.mark.parametrize("scaling", [2.0, 80.0])
def test_people_are_shown_what_the_cells_had_and_not_the_digits_of_the_grid(scaling):
    draw = np.random.default_rng(4)
    X = np.round(draw.uniform(-1, 1, (40, 3)) * scaling / 2, 2 if scaling < 10 else 1)
    y = np.round(draw.uniform(0, 100, 40), 1)
    model = ErasableRegressor(target_range=(0, 100), scaling=scaling, threshold=0.001, feature_map=None).fit(
        X, y, ids=range(40)
    )
    found = model.rows_of(ids=list(range(40)))
    assert len(found.rows) > 20
    for row in found.rows:
        assert list(map(float, row.shown.values())) == [round(float(x), 2) for x in X[row.id]]
        assert float(row.shown_label) == y[row.id]
        assert list(row.shown) == list(row.values)
        for shown, value in zip(row.shown.values(), row.values.values(), strict=True):
            assert float(shown) == pytest.approx(value, abs=0.01)
    assert "shown" not in found.rows[0].as_json()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("options", [{}, {"centres": [0.0, -7.5, 1e4], "scaling": [3.0, 0.1, 1e5]}, {"grid_bits": 6}])
def test_rows_behind_the_log_map_come_back_as_bounds(form, options):
    X = rows() * [1.0, 1e4, 1e-3]
    X[:6] *= 1e300
    X[6:12, 0] = [0.0, -0.0, 1.0, -1.0, 2.0**-30, 1e-300]
    X[12::5, 1] = np.nan
    model = ErasableClassifier(threshold=0.0, missing="indicator", feature_names=["a", "b", "c"], **options)
    found = model.fit(form(X), np.arange(N) % 2).rows_of(ids=range(N))
    assert "the log map" in found.values_are
    for row in found.rows:
        for name, x in zip("abc", X[row.id].tolist(), strict=True):
            cell = row.cells.get(name)
            if cell is None:
                assert abs(x) < 0.1 * 1e300  # zero on the grid, next to such cells
            elif np.isnan(x):
                assert cell.missing is not False
            else:
                low, high = cell.facts["low"], cell.facts["high"]
                assert cell.missing is not True
                assert low is None or low <= x
                assert high is None or x <= high
    json.dumps(found.as_json())


def test_cells_behind_the_log_map_are_shown_in_their_own_units():
    X = np.array([[13.83, 94.0, 1265.0], [0.25, -80.0, 500.0]] * 20)
    model = ErasableClassifier(threshold=0.0).fit(X, [0, 1] * 20)
    texts = [cell.text for cell in model.rows_of(ids=[0]).rows[0].cells.values()]
    assert texts == ["13.828 ± 0.006", "93.98 ± 0.06", "1264 ± 2"]
    without = ErasableClassifier(threshold=0.0, fit_intercept=False).fit(X, [0, 1] * 20).rows_of(ids=[0])
    assert without.rows[0].cells is None  # only the direction of the mapped row is known
    assert "only the direction" in without.values_are
    assert "feature map" in without.values_are
