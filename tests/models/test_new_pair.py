"""A selection and a head that are not part of the package: one file each and one line in a registry are enough."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from erasable import load
from erasable.core.grid import Grid
from erasable.core.kernels import Kernel, Points
from erasable.coresets import RandomSubsample
from erasable.errors import ConfigurationError, ExactnessError, StateFormatError, VerificationError
from erasable.estimators.core_set import CoreSetSelection
from erasable.models.access import rows_of
from erasable.models.configuration import Configuration
from erasable.models.files import files_of, read_model, write
from erasable.models.heads import HEADS, FunctionClassFit, KernelRidge, Squared
from erasable.models.model import Model
from erasable.models.selections import SELECTIONS, KernelDisagreement, Leverage
from erasable.models.state import State
from erasable.operations.inspect import inspect
from erasable.store import locked

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
RNG = np.random.default_rng(2)
X, IDS = RNG.standard_normal((60, 4)), [f"row {i}" for i in range(60)]
Y = np.array(["ape", "bee", "cow"])[np.argmax(X[:, :3], axis=1)]


@pytest.fixture
def pair(monkeypatch):
    """The two classes of the page, registered."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert code.count("\n") < 60
    names: dict[str, Any] = {"__name__": "new_pair"}
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    monkeypatch.setitem(SELECTIONS, "every-row", names["EveryRow"])
    monkeypatch.setitem(HEADS, "class-means", names["ClassMeans"])
    return names["EveryRow"], names["ClassMeans"]


def made(pair, index=range(60), rows=X):
    model = Model(Configuration(pair[0](Grid(4, 15, True), 2**20), pair[1](), order_key=7))
    index = list(index)
    model.learn(rows[index], Y[index], [IDS[i] for i in index])
    return model


def test_forgetting_equals_learning_all_survivors(pair):
    model = made(pair)
    assert len(model.core) == 60
    assert (model.predict(X) == Y).mean() > 0.8
    model.forget(ids=IDS[:20])
    assert model.snapshot().to_bytes() == made(pair, range(20, 60)).snapshot().to_bytes()
    assert made(pair, rows=sp.csr_array(X)).snapshot() == made(pair).snapshot()
    assert model.verify().core_rows == 40


def test_the_state_is_written_as_version_2_and_read_back(pair, tmp_path):
    model = made(pair)
    state = model.snapshot()
    assert (state.header()["format"], state.header()["version"], model.format_version) == ("erasable-model", 2, 2)
    assert State.from_bytes(state.to_bytes()).to_bytes() == state.to_bytes()
    with locked(tmp_path / "m") as writer:
        write(writer, files_of(state))
    again, _ = read_model(tmp_path / "m")
    assert again.verify().digest == state.digest
    assert (again.predict(X) == model.predict(X)).all()
    weights = np.nextafter(state.derived["weights"], np.float32(9))
    forged = dataclasses.replace(state, derived=state.derived | {"weights": weights}).to_bytes()
    with pytest.raises(VerificationError, match="the weights w differs"):
        State.from_bytes(forged).verify()


def test_a_version_2_file_of_an_unknown_part_is_refused(pair, monkeypatch):
    data = made(pair).snapshot().to_bytes()
    monkeypatch.delitem(HEADS, "class-means")
    with pytest.raises(StateFormatError):
        State.from_bytes(data)


def test_any_selection_goes_with_any_head_on_a_grid(pair):
    """Pairs that version 1 has no layout for are written as version 2; those that it has, as before."""
    grid = Grid(4, 15, True)
    for selection, head, version in (
        (pair[0](grid, 2**20), Squared(), 2),
        (Leverage(grid, 2**20, 0.1), pair[1](), 2),
        (Leverage(grid, 2**20, 0.1), Squared(), 1),
    ):
        model = Model(Configuration(selection, head, order_key=1))
        model.learn(X, Y, IDS)
        model.forget(ids=model.core.ids()[:5])
        assert model.format_version == version
        assert State.from_bytes(model.snapshot().to_bytes()).verify().digest == model.snapshot().digest


def test_pairs_that_do_not_go_together_are_refused(pair):
    grid = Grid(4, 15, True)
    for selection, head in (
        (Leverage(grid, 2**20, 0.1), FunctionClassFit()),
        (Leverage(grid, 2**20, 0.1), KernelRidge()),
        (KernelDisagreement(Points(4, 8, None), Kernel("rbf", 1.0, 1.5, 3, 1.0), 2**27, 0.3), pair[1]()),
        (CoreSetSelection(RandomSubsample(0.5), columns=4, sparse=True), pair[1]()),
        (pair[1](), pair[0](grid, 2**20)),
    ):
        with pytest.raises(ConfigurationError):
            Configuration(selection, head)
    with pytest.raises(ConfigurationError, match="have no weights"):
        made(pair).learn(X, Y, [f"new {i}" for i in range(60)], sample_weight=np.ones(60))


def test_every_selection_is_held_to_the_number_of_rows_that_sums_are_exact_for(pair):
    model = Model(Configuration(pair[0](Grid(1, 20, True), 2**52 - 1), pair[1]()))
    with pytest.raises(ExactnessError, match="exact only up to"):
        model.learn(np.ones((4200, 1)), np.arange(4200) % 2)
    assert len(model.core) == 0


def test_an_emptied_state_is_read_back(pair):
    model = made(pair)
    model.forget(ids=IDS)
    assert State.from_bytes(model.snapshot().to_bytes()).verify().core_rows == 0


def test_files_tell_what_they_hold_and_load_says_that_no_estimator_does(pair, tmp_path):
    state = made(pair).snapshot()
    with locked(tmp_path / "m") as writer:
        write(writer, files_of(state))
    found = inspect(tmp_path / "m", rows=True)
    assert (found.core_rows, found.features, found.configuration["selection"]) == (60, 4, "every-row")
    values = rows_of(state, ids=[IDS[5]]).rows[0].values
    np.testing.assert_allclose(list(values.values()), X[5] / np.linalg.norm(X[5]), atol=1e-4)
    with pytest.raises((ConfigurationError, StateFormatError), match="no estimator"):
        load(tmp_path / "m")
