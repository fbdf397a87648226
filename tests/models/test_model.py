"""Models by themselves, without scikit-learn: learning, forgetting, states, and what they refuse."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from erasable.classes import LinearBall
from erasable.core.grid import Grid
from erasable.core.kernels import Kernel, Points
from erasable.coresets import SinglePass
from erasable.errors import (
    ChangedMeanwhileError,
    InputError,
    NoRowsError,
    StaleReportError,
    StateFormatError,
    VerificationError,
)
from erasable.features import RandomFourierFeatures
from erasable.models.configuration import Configuration, describe_map
from erasable.models.core_rows import CoreRows
from erasable.models.files import files_of, write
from erasable.models.heads import FunctionClassFit, KernelRidge, Logistic, Regression, SpreadLogistic, Squared
from erasable.models.heads import kernel as kernel_head
from erasable.models.heads import losses as squared_head
from erasable.models.heads.linear import LinearHead
from erasable.models.model import Model
from erasable.models.selections import FunctionClassSelection, Independent, KernelDisagreement, Leverage
from erasable.models.state import State
from erasable.operations.model_file import ModelFile
from erasable.store import locked

N, D = 90, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D)) / 3.0
LABELS = np.array(["ape", "bee", "cow"])[np.arange(N) % 3]
IDS = [f"row {i}" for i in range(N)]
OWNERS = [f"owner {i % 7}" for i in range(N)]
FOURIER = RandomFourierFeatures(6, gamma=0.5)


TARGETS = np.column_stack([X[:, 0] * 3.0, X[:, 1] - X[:, 2]])
GRID = Grid(D, 15, True)
LEVERAGE, INDEPENDENT = Leverage(GRID, 2**30, 0.05), Independent(GRID, 2**30, 0.5, 3)
HEADS = {
    "squared": Squared(),
    "balanced": Squared("balanced"),
    "logistic": Logistic(2**28, "balanced"),
    "logistic-spread": SpreadLogistic(2**28),
    "regression": Regression(((-20.0, 20.0), (-9.0, 9.0))),
}


def on_grid(selection: Any, head: str, key: int | None = None) -> Any:
    return lambda classes=None: Model(Configuration(selection, HEADS[head], classes, order_key=key))


def mapped(classes: Any = None) -> Model:
    selection = Leverage(Grid(FOURIER.n_features_out, 15, True), 2**30, 0.05)
    return Model(Configuration(selection, Squared(), classes, None, describe_map(FOURIER, D)), FOURIER)


def kernel(classes: Any = None) -> Model:
    selection = KernelDisagreement(Points(D, 8, None), Kernel("rbf", 1.0, 1.5, 3, 1.0), 2**27, 0.3)
    return Model(Configuration(selection, KernelRidge(), classes))


def general(classes: Any = None, function_class: Any = None) -> Model:
    function_class = LinearBall() if function_class is None else function_class
    selection = FunctionClassSelection(function_class, SinglePass(function_class, 0.06), D)
    return Model(Configuration(selection, FunctionClassFit(), classes))


KINDS = {
    "linear": on_grid(LEVERAGE, "squared"),
    "mapped": mapped,
    "kernel": kernel,
    "general": general,
    **{f"leverage, {head}": on_grid(LEVERAGE, head, 7) for head in HEADS},
    **{f"independent, {head}": on_grid(INDEPENDENT, head, 3) for head in HEADS},
}
every = pytest.mark.parametrize("kind", KINDS)
every_classifier = pytest.mark.parametrize("kind", [kind for kind in KINDS if "regression" not in kind])


def labels(kind: str, index: Any = slice(None)) -> Any:
    return TARGETS[index] if "regression" in kind else LABELS[index]


def answers(model: Model) -> list[Any]:
    return [model.decision(X), model.predict(X), *([model.predict_proba(X)] if model.classifies else [])]


def learnt(kind: str, index: Any = None, classes: Any = None) -> Model:
    index = np.arange(N) if index is None else np.asarray(index, dtype=int)
    model = KINDS[kind](classes)
    model.learn(X[index], labels(kind, index), [IDS[i] for i in index], [OWNERS[i] for i in index])
    return model


def parsed(kind: str, model: Model, data: Any) -> State:
    return State.from_bytes(data, model.configuration if kind == "general" else None)


def restored(model: Model, state: State) -> Model:
    return Model.restore(state, model.feature_map)


def positions(model: Model) -> list[int]:
    return [IDS.index(key) for key in model.core.ids()]


# -- learning and forgetting -------------------------------------------------------------------------------------


@every
def test_forgetting_equals_learning_the_survivors(kind):
    model = learnt(kind)
    assert 10 < len(model.core) < N
    ids = model.core.ids()[:3]
    report = model.forget(ids=[*ids, ids[0]], subjects=["owner 2", "nobody", "nobody", "owner 2"])
    assert (report.requested, report.not_stored) == (5, 1)  # a name that comes again counts once
    assert report.core_rows == len(model.core)
    again = learnt(kind, positions(model))
    assert model.snapshot() == again.snapshot()
    assert model.snapshot().to_bytes() == again.snapshot().to_bytes()
    assert model.verify().digest == report.digest == again.snapshot().digest
    assert all(map(np.array_equal, answers(model), answers(again)))


@every
def test_a_state_is_bytes_and_back(kind):
    model = learnt(kind)
    model.forget(ids=model.core.ids()[5:9])
    state = model.snapshot()
    data = state.to_bytes()
    again = restored(model, parsed(kind, model, data))
    assert again.snapshot().to_bytes() == data
    assert again.verify().digest == state.digest
    assert (again.predict(X) == model.predict(X)).all()
    for m in (model, again):
        m.forget(subjects="owner 3")
    assert again.snapshot() == model.snapshot() != state
    for bad in (data[:-1], data + b"\0", b"", data.replace(b"row 1", b"row x")):
        with pytest.raises(StateFormatError):
            parsed(kind, model, bad)


@every
def test_a_state_is_frozen_hashed_once_and_shows_counts(kind, monkeypatch):
    model = learnt(kind)
    state = model.snapshot()
    before, digest = state.to_bytes(), state.digest
    with monkeypatch.context() as patch:
        patch.setattr("erasable.models.state.digest_of", None)
        assert state.digest == digest
    assert state.pieces is state.pieces
    model.forget(ids=model.core.ids()[::2])
    model.predict(X)
    assert state.to_bytes() == before
    assert repr(state) == f"State({len(state.ids)} core rows)"
    assert {state: 1}[parsed(kind, model, before)] == 1


@every
def test_containers_make_no_difference(kind):
    model = learnt(kind)
    other = KINDS[kind]()
    other.learn(sp.csr_array(X), labels(kind), IDS, OWNERS)
    assert other.snapshot() == model.snapshot()
    # Entries that are not listed are not added, so sums of sparse rows may round otherwise.
    np.testing.assert_allclose(other.decision(sp.csr_array(X)), model.decision(X), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))


@every_classifier
def test_classes_that_are_fixed_stay_and_others_go_with_their_rows(kind):
    bees = [IDS[i] for i in range(N) if LABELS[i] == "bee"]
    free, fixed = learnt(kind), learnt(kind, classes=("ape", "bee", "cow"))
    report = free.forget(ids=bees)
    assert (report.classes_emptied, free.n_classes, free.classes) == (1, 2, ("ape", "cow"))
    report = fixed.forget(ids=bees)
    assert (report.classes_emptied, fixed.n_classes, fixed.classes) == (0, 3, ("ape", "bee", "cow"))
    assert fixed.snapshot() == learnt(kind, positions(fixed), ("ape", "bee", "cow")).snapshot()
    fixed.verify()
    report = free.forget(ids=free.core.ids())
    assert (report.classes_emptied, report.core_rows, free.classes) == (0, 0, ())
    with pytest.raises(NoRowsError, match="no rows remain"):
        free.predict(X)
    free.verify()


@every_classifier
def test_refused_rows_change_nothing(kind):
    model = learnt(kind)
    before = model.snapshot()
    for labels, ids, subjects in (
        (np.arange(5), IDS[:5], None),
        (LABELS[:5], model.core.ids()[:5], None),
        (LABELS[:5], ["a", "b", "c", "d", "a"], None),
        (LABELS[:5], list("abcde"), ["s", "t"]),
        (LABELS[:5], list("abcde"), ["s", "t", None, "u", "v"]),
    ):
        with pytest.raises(InputError):
            model.learn(X[:5], labels, ids, subjects)
    assert model.snapshot() == before


# -- a model that is no longer -----------------------------------------------------------------------------------


@every
def test_a_model_that_was_erased_holds_nothing_and_answers_nothing(kind):
    model = learnt(kind)
    report = model.forget(ids=model.core.ids()[:1])
    pieces = [row.numbers for row in model.core.find(model.core.ids())]
    model.erase()
    assert not any(map(any, pieces))
    with pytest.raises(StaleReportError):
        _ = report.digest
    for ask in (
        model.snapshot,
        model.verify,
        lambda: model.predict(X),
        lambda: model.forget(ids=["x"]),
        lambda: model.learn(X, labels(kind)),
    ):
        with pytest.raises(ChangedMeanwhileError, match="was replaced by another"):
            ask()


@every
def test_a_change_while_the_state_is_read_is_noticed(kind, monkeypatch):
    model = learnt(kind)
    real = type(model)._state

    def meddle(self: Any) -> Any:
        state = real(self)
        self.forget(ids=self.core.ids()[:1])
        return state

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "_state", meddle)
        with pytest.raises(ChangedMeanwhileError, match="read it again"):
            model.snapshot()
    assert model.verify().core_rows == len(model.core)


@pytest.mark.parametrize(
    ("kind", "room", "solving"),
    [
        ("linear", squared_head, "solve_weights"),
        ("mapped", squared_head, "solve_weights"),
        ("kernel", kernel_head, "solve_weights"),
        ("general", LinearBall, "fit"),
    ],
)
def test_what_was_derived_while_rows_left_is_not_kept(kind, room, solving, monkeypatch):
    """One thread predicts, another forgets: what the first one solved for is that of rows that are gone."""
    model = learnt(kind)
    real, once = getattr(room, solving), iter([True])

    def meddle(*given: Any) -> Any:
        found = real(*given)
        if next(once, False):
            model.forget(ids=model.core.ids()[:10])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(room, solving, meddle)
        with pytest.raises(ChangedMeanwhileError, match="read it again"):
            model.predict(X)
    again = learnt(kind, positions(model))
    np.testing.assert_array_equal(model.decision(X), again.decision(X))
    assert model.verify().digest == again.snapshot().digest


@pytest.mark.parametrize(
    ("kind", "cache"),
    [
        ("linear", "weights"),
        ("linear", "functions"),
        ("mapped", "weights"),
        ("kernel", "matrix"),
        ("kernel", "weights"),
        ("general", "predictors"),
    ],
)
def test_a_cache_that_is_filled_after_rows_left_is_dropped(kind, cache):
    model, once = learnt(kind), iter([True])
    real = model._keep

    def meddle(name: str, value: Any) -> None:
        if name == cache and value is not None and next(once, False):
            model.forget(ids=model.core.ids()[:10])
        real(name, value)

    model._keep = meddle
    with pytest.raises(ChangedMeanwhileError, match="read it again"):
        model.predict(X)
    assert cache not in model.cache
    again = learnt(kind, positions(model))
    np.testing.assert_array_equal(model.decision(X), again.decision(X))
    assert model.verify().digest == again.snapshot().digest


@every
def test_a_model_is_not_read_while_a_change_is_written(kind, monkeypatch):
    model, real, seen = learnt(kind, range(60)), CoreRows.append, []

    def meddle(self: Any, *given: Any) -> None:
        with pytest.raises(ChangedMeanwhileError, match="read it again"):
            model.configuration.head.scores(model, X)
        seen.append(model)
        real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(CoreRows, "append", meddle)
        model.learn(X[60:] * 2.0, labels(kind, slice(60, None)), IDS[60:])
    assert seen
    model.predict(X)
    assert model.verify().core_rows == len(model.core)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("kernel", "general")])
def test_a_score_is_of_one_version(kind, monkeypatch):
    """Whatever leaves while a row is scored: coefficients and constants are those of the same rows."""
    model = learnt(kind)
    before, real = model.decision(X), LinearHead.functions

    def meddle(self: Any, model: Model) -> Any:
        found = real(self, model)
        model.forget(ids=model.core.ids()[:10])
        return found

    monkeypatch.setattr(LinearHead, "functions", meddle)
    np.testing.assert_array_equal(model.decision(X), before)


@pytest.mark.parametrize("kind", ["linear", "kernel"])
def test_a_cache_is_not_read_while_a_change_is_written(kind):
    """What was derived before is still cached at that moment, or overwritten with zeros."""
    model = learnt(kind)
    model.predict(X)
    model.version_token = None
    with pytest.raises(ChangedMeanwhileError, match="read it again"):
        model.configuration.head.scores(model, X)


def test_a_solve_that_fails_since_the_model_changed_says_so(monkeypatch):
    """A change overwrites the kernel matrix that another thread is solving with."""
    model, real = learnt("kernel"), kernel_head.solve_weights

    def meddle(H: Any, *given: Any) -> Any:
        monkeypatch.undo()
        model.forget(ids=model.core.ids()[:3])
        return real(H, *given)

    monkeypatch.setattr(kernel_head, "solve_weights", meddle)
    with pytest.raises(ChangedMeanwhileError, match="read it again"):
        model.predict(X)
    assert model.verify().core_rows == len(model.core)


# -- verifying ---------------------------------------------------------------------------------------------------


@every
def test_tables_that_do_not_name_the_rows_are_found(kind):
    model = learnt(kind)
    model.core.place.put({"stranger": next(iter(model.core.place.values()))})
    with pytest.raises(VerificationError, match="tables"):
        model.verify()


def test_a_sum_of_a_class_that_has_no_rows_is_found():
    """It is in the file, so it has to reach the model, for ``verify`` to see."""
    model = learnt("linear", classes=("ape", "bee", "cow", "dog"))
    state = model.snapshot()
    assert not state.derived["class_sums"][3].any()
    sums = state.derived["class_sums"].copy()
    sums[3, 0] = 1
    forged = State.from_bytes(dataclasses.replace(state, derived=state.derived | {"class_sums": sums}).to_bytes())
    with pytest.raises(VerificationError, match="the class sums b differs"):
        forged.verify()
    with pytest.raises(VerificationError, match="the class sums b differs"):
        Model.restore(forged).verify()
    assert Model.restore(forged).snapshot().digest == forged.digest


def test_kernel_weights_and_points_that_are_not_what_the_rows_give_are_found():
    state = learnt("kernel").snapshot()
    weights, far = state.derived["weights"].copy(), state.rows.copy()
    weights[0, 0] = np.nextafter(weights[0, 0], np.float32(9))
    far[1] = 2**26
    for changes, says in (
        ({"derived": {"weights": weights}}, "the weights differs"),
        ({"rows": far}, "not a point of the grid"),
        ({"rows": np.concatenate([state.rows[:-1], state.rows[:1]])}, "is not selected again"),
        ({"ids": state.ids[1:]}, "different lengths"),
        ({"ids": (state.ids[1], *state.ids[1:])}, "same id"),
    ):
        with pytest.raises(VerificationError, match=says):
            dataclasses.replace(state, **changes).verify()


# -- function classes --------------------------------------------------------------------------------------------


def test_other_damage_is_found():
    state = learnt("general").snapshot()
    long = state.rows.copy()
    long[2] = 2**15 - 1
    for changes, says in (
        ({"ids": state.ids[1:]}, "different lengths"),
        ({"ids": (1, *state.ids[1:])}, "the ids are of several types"),
        ({"labels": (1, *state.labels[1:])}, "the labels are of several types"),
        ({"ids": (state.ids[1], *state.ids[1:])}, "same id"),
        ({"rows": long}, "core row 3 of"),
        ({"rows": state.rows.astype(np.int64)}, "no row of this function class"),
    ):
        with pytest.raises(VerificationError, match=says):
            dataclasses.replace(state, **changes).verify()
    fixed = learnt("general", classes=("ape", "bee", "cow")).snapshot()
    with pytest.raises(VerificationError, match="fixed classes"):
        dataclasses.replace(fixed, labels=("dog", *fixed.labels[1:])).verify()


def test_rows_of_a_state_are_not_those_of_the_model():
    for kind in KINDS:
        model = learnt(kind)
        state = model.snapshot()
        core: CoreRows = model.core
        before = [bytes(row.numbers) for row in core.find(core.ids())]
        state.rows.fill(0)
        assert [bytes(row.numbers) for row in core.find(core.ids())] == before


# -- predictors --------------------------------------------------------------------------------------------------


@every
def test_a_predictor_stays_as_it_was(kind):
    """It predicts as its model did when it was made, whatever became of that; that of a linear model holds no rows."""
    model = learnt(kind)
    predictor, before = model.predictor(), answers(model)
    assert all(map(np.array_equal, answers(predictor), before))
    assert (len(predictor.core), predictor.classes) == (len(model.core), model.classes)
    if kind not in ("kernel", "general"):
        assert not isinstance(predictor.core, CoreRows)
        assert not predictor.core.place
        assert predictor.sums is None
    model.forget(ids=IDS[:40])
    assert not np.array_equal(answers(model)[0], before[0])
    assert all(map(np.array_equal, answers(predictor), before))
    model.forget(ids=IDS)
    with pytest.raises(NoRowsError):
        model.predictor().predict(X)
    model.erase()
    assert all(map(np.array_equal, answers(predictor), before))


def test_that_of_a_file_follows_the_file(tmp_path):
    path = tmp_path / "m"
    with locked(path) as writer:
        write(writer, files_of(learnt("linear").snapshot()))
    file = ModelFile(path)
    first, checksum = file.predictor()
    assert file.predictor()[1] == checksum
    ModelFile(path).forget(ids=IDS[:40])
    second, other = file.predictor()
    assert other != checksum
    assert np.array_equal(second.predict_proba(X), file.model.predict_proba(X))
    assert not np.array_equal(first.predict_proba(X), second.predict_proba(X))
