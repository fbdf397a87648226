"""``save`` and ``load``: for every model the file is its state, no more and no less, and never brings a row back."""

from __future__ import annotations

import copy
import errno
import gc
import hashlib
import os
import pickle
import subprocess
import sys
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.tree import DecisionTreeClassifier

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ModelFile,
    load,
    verify,
)
from erasable.coresets import SupportVectors
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    InputError,
    InputTypeError,
    NoRowsError,
    NotErasedError,
    StateFormatError,
    StoreError,
)
from erasable.features import HashedText, RandomFourierFeatures
from erasable.research.baselines import NewtonUnlearner, RetrainedRidge
from erasable.store import side_files
from erasable.store._disk import Disk
from tests.estimators.cases import everything_said
from tests.formats.models import CASES, N, core_set, gaussian, kernel, labels, read_back, rows, steps, taken
from tests.formats.tampering import altered, opened, rebuilt, tensors
from tests.strategies import problems, splits

NAMES = list(CASES)
BITWISE = [name for name in NAMES if name != "general, staged"]  # of that sampler no such thing is claimed


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.erasable"


def saved(model, path):
    """The model's file as bytes."""
    model.save(path)
    return path.read_bytes()


def reloaded(name, path):
    """The model that the file holds, with its code where that is needed to learn or predict."""
    return load(path, like=CASES[name].make() if CASES[name].needed or "mapped" in name else None)


def assert_same(a, b, X=None):
    assert a.state_digest() == b.state_digest()
    assert a.core_ids_.tolist() == b.core_ids_.tolist()
    assert list(map(type, a.core_ids_.tolist())) == list(map(type, b.core_ids_.tolist()))
    assert getattr(a, "classes_", np.empty(0)).tolist() == getattr(b, "classes_", np.empty(0)).tolist()
    if X is not None:
        assert a.predict(X).tolist() == b.predict(X).tolist()
        for method in ("predict_proba", "decision_function"):
            if hasattr(a, method):
                assert getattr(a, method)(X).tobytes() == getattr(b, method)(X).tobytes()


# -- the file is the state ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_saving_and_loading_is_the_identity(name, path):
    case = CASES[name]
    model = case.fitted()
    assert 0 < model.n_core_ <= N
    data = saved(model, path)
    assert hashlib.sha256(data).hexdigest() == model.state_digest()
    again = reloaded(name, path)
    assert_same(again, model, case.X())
    assert path.read_bytes() == data
    assert verify(again).digest == model.state_digest()
    assert saved(again, path) == data
    assert saved(again, path.with_name("elsewhere")) == data


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_model_forgets_and_learns_as_the_original_does(name, path):
    case = CASES[name]
    model = case.fitted(np.arange(N - 10))
    model.save(path)
    again = reloaded(name, path)
    leaving = [*model.core_ids_[:4].tolist(), *case.ids()[-3:]]
    for m in (model, again):
        m.forget(ids=leaving)
    assert_same(again, model, case.X())
    for m in (model, again):
        m.forget(subjects=["owner 3", "nobody"])
    assert_same(again, model, case.X())
    if case.streams:
        last = np.arange(N - 10, N)
        for m in (model, again):
            m.partial_fit(
                taken(case.X(), last),
                case.answers()[last],
                ids=[case.ids()[i] for i in last],
                subjects=[case.owners()[i] for i in last],
            )
        assert_same(again, model, case.X())
        with pytest.raises(InputError):
            again.partial_fit(taken(case.X(), last), case.answers()[last], ids=[case.ids()[i] for i in last])
    assert saved(again, path) == saved(model, path.with_name("other"))


@pytest.mark.parametrize("name", BITWISE)
@pytest.mark.parametrize("what", ["some", "a class", "all but one", "everything"])
def test_learning_and_forgetting_gives_the_file_of_training_on_the_survivors(name, what, path):
    case = CASES[name]
    model = case.fitted()
    core = case.positions(model)
    kinds = labels(rows())
    leaving = {
        "some": core[::3],
        "a class": [i for i in core if kinds[i] == "bee"],
        "all but one": core[1:],
        "everything": core,
    }[what]
    model.save(path)
    on_disk = reloaded(name, path)
    for m in (model, on_disk):
        for i in leaving:  # one by one in the middle of unknown ones, as requests come
            m.forget(ids=[case.ids()[i]])
    kept = [i for i in core if i not in set(leaving)]
    if kept:
        expected = b"".join(case.fitted(kept)._model.snapshot().pieces)
    else:
        spare = case.fitted(core[:1])
        spare.forget(ids=spare.core_ids_.tolist())
        expected = b"".join(spare._model.snapshot().pieces)
    assert saved(on_disk, path) == expected
    assert saved(model, path.with_name("other")) == expected
    again = reloaded(name, path)
    assert verify(again).core_rows == len(kept)
    if not kept:
        with pytest.raises(NoRowsError):
            again.predict(case.X())
        for key in case.ids()[1:] if case.key != "int" else ():
            assert (key if isinstance(key, bytes) else key.encode()) not in expected


def test_nothing_loaded_is_a_view_of_the_file(tmp_path):
    """A view would keep every row of the file in memory for as long as the model lives, forgotten or not."""
    held = []
    for i, case in enumerate(CASES.values()):
        data = bytearray(saved(case.fitted(), tmp_path / str(i)))
        held.append((data, read_back(data, case.make() if case.needed else None)))
    gc.collect()
    for data, model in held:
        data.clear()  # BufferError where anything still looks at it
        model.forget(ids=model.core_ids_[:2].tolist())
        verify(model)


@settings(max_examples=30)
@given(problems(max_rows=12, order_keys=[None]), st.data())
def test_any_history_gives_the_file_of_its_survivors(problem, data):
    setting, batch = problem
    model = setting.classifier()
    for part in data.draw(splits(len(batch))):
        batch.part(part).learnt_by(model)
        held = bytes(b"".join(model._model.snapshot().pieces))
        model = read_back(held)
        assert b"".join(model._model.snapshot().pieces) == held
        leaving = data.draw(st.lists(st.sampled_from(batch.ids), max_size=3))
        model.forget(ids=leaving)
    core = set(model.core_ids_.tolist())
    rest = batch.part([i for i, key in enumerate(batch.ids) if key in core])
    fresh = rest.learnt_by(setting.classifier()) if len(rest) else None
    if fresh is not None:
        assert b"".join(fresh._model.snapshot().pieces) == b"".join(model._model.snapshot().pieces)
    verify(model)


def test_labels_of_every_type_come_back_as_they_were(path):
    X = rows()
    for given_labels in (
        np.arange(N) % 2,
        np.arange(N) % 3 == 0,
        np.arange(N) % 3 - 1.0,
        np.array([2**62, -(2**62)])[np.arange(N) % 2],
        np.array(["", "é\0", "\n"])[np.arange(N) % 3],
    ):
        model = ErasableClassifier(threshold=0.1).fit(X, given_labels)
        model.save(path, overwrite=True)
        again = load(path)
        assert_same(again, model, X)
        assert [type(c) for c in again.classes_.tolist()] == [type(c) for c in model.classes_.tolist()]


def test_parameters_come_back_as_those_in_force(path):
    X, y = rows(), labels(rows())
    model = ErasableClassifier(0.3, kappa=0.4, scaling=[1.0, 2.0, 3.0], grid_bits=18, fit_intercept=False).fit(X / 8, y)
    model.save(path)
    again = load(path)
    assert again.threshold == model.threshold_
    assert (again.grid_bits, again.fit_intercept, tuple(again.scaling)) == (18, False, (1.0, 2.0, 3.0))
    assert again.capacity == 0.3
    assert clone(again).fit(X / 8, y).state_digest() == model.state_digest()
    kernels = kernel("matern", nu=0.5, gamma=0.3, capacity=0.07).fit(X, y)
    kernels.save(path, overwrite=True)
    again = load(path)
    assert (again.kernel, again.nu, again.gamma, again.scaling) == ("matern", 0.5, 0.3, 4.0)
    assert again.capacity == 0.07
    assert clone(again).fit(X, y).state_digest() == kernels.state_digest()


def test_names_of_columns_are_kept_and_asked_for(path):
    X = pd.DataFrame(rows(), columns=["a", "b", "c"])
    model = ErasableClassifier(threshold=0.1, feature_names=["a", "b", "c"]).fit(X, labels(rows()))
    model.save(path)
    again = load(path)
    assert again.predict(X).tolist() == model.predict(X).tolist()
    with pytest.raises(InputError):
        again.predict(X.rename(columns={"a": "z"}))


# -- what a file cannot hold -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in NAMES if CASES[n].needed])
def test_a_file_that_needs_code_asks_for_it(name, path):
    CASES[name].fitted().save(path)
    with pytest.raises(ConfigurationError, match=r"of the caller's, which a file cannot hold: load\(path, like="):
        load(path)


OTHERS = {
    "another type, linear": ("linear", lambda: kernel("rbf"), r"another kind \(linear\)"),
    "a mapped one for a linear": (
        "linear",
        lambda: ErasableClassifier(feature_map=RandomFourierFeatures()),
        "like has other parameters.*feature_map",
    ),
    "threshold": (
        "linear",
        lambda: ErasableClassifier(threshold=0.3, feature_map=None),
        "like has other parameters.*threshold",
    ),
    "capacity": ("linear", lambda: ErasableClassifier(9.0, feature_map=None), "like has other parameters.*capacity"),
    "names": (
        "linear",
        lambda: ErasableClassifier(feature_names=["x", "y", "z"], feature_map=None),
        "other parameters.*feature_names",
    ),
    "number of names": ("linear", lambda: ErasableClassifier(feature_names=["x"]), "like"),
    "scales": ("linear", lambda: ErasableClassifier(scaling=[1.0, 2.0]), "like"),
    "classes": ("linear", lambda: ErasableClassifier(classes=["ape"]), "like has other parameters.*classes"),
    "alpha": ("ridge", lambda: RetrainedRidge(2.0), "like has other parameters"),
    "another type, kernel": ("rbf", lambda: ErasableClassifier(), r"another kind \(kernel\)"),
    "gamma": ("rbf", lambda: kernel("rbf", gamma=2.0), "like has other parameters"),
    "another kernel": ("rbf", lambda: kernel("poly"), "like has other parameters"),
    "a function for a kernel": ("rbf", lambda: kernel(gaussian), "like has other parameters"),
    "a kernel for a function": ("kernel function", lambda: kernel("rbf"), "kernel function"),
    "another function": ("kernel function", lambda: kernel(lambda X, Z: gaussian(X, Z)), "kernel function of another"),
    "another capacity of a function": ("kernel function", lambda: kernel(gaussian, capacity=0.2), "other parameters"),
    "another type, general": ("general", lambda: ErasableClassifier(), r"another kind \(general"),
    "threshold, general": ("general", lambda: ErasableGeneralClassifier(steps(), threshold=0.2), "like has another"),
    "function class": ("general", lambda: ErasableGeneralClassifier(threshold=0.1), "like has another function"),
    "classes, general": (
        "general",
        lambda: ErasableGeneralClassifier(steps(), threshold=0.1, classes=["ape", "bee"]),
        "like has other classes",
    ),
    "another type, core set": (
        "core set, ridge",
        lambda: ErasableClassifier(),
        r"another kind \(learner on a core set\)",
    ),
    "learner": ("core set, ridge", lambda: core_set(RandomForestClassifier(3)), "like has another learner"),
    "learner's parameter": ("core set, ridge", lambda: core_set(RidgeClassifier(2.0)), "like has another learner"),
    "map": ("core set, ridge", lambda: core_set(RidgeClassifier(), 0.2), "like has another core_set"),
    "one_shot": ("core set, ridge", lambda: core_set(RidgeClassifier(), one_shot=True), "like has another one_shot"),
    "another type, mapped": ("mapped", lambda: ErasableClassifier(), "like has other parameters.*feature_map"),
    "map of features": (
        "mapped",
        lambda: ErasableClassifier(feature_map=RandomFourierFeatures(6, gamma=0.2, random_state=3)),
        "like has other parameters.*feature_map",
    ),
    "capacity, mapped": (
        "mapped",
        lambda: ErasableClassifier(feature_map=RandomFourierFeatures(6, gamma=0.1, random_state=3), capacity=2.0),
        "like has other parameters",
    ),
    "map of texts": (
        "mapped texts",
        lambda: ErasableClassifier(feature_map=HashedText(16)),
        "other parameters.*feature_map",
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_like_must_agree_with_the_file(what, path):
    name, make, says = OTHERS[what]
    data = saved(CASES[name].fitted(), path)
    with pytest.raises(ConfigurationError, match=says):
        load(path, like=make())
    assert path.read_bytes() == data
    assert reloaded(name, path).state_digest() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("like", [ErasableClassifier, "linear", 5, object(), np.zeros(3), RidgeClassifier()])
def test_like_must_be_a_model(like, path):
    CASES["linear"].fitted().save(path)
    with pytest.raises(InputTypeError, match="like must be an unfitted model"):
        load(path, like=like)


def test_like_is_not_changed_and_may_be_fitted(path):
    case = CASES["general"]
    model = case.fitted()
    model.save(path)
    like = case.fitted(np.arange(5))
    before = like.state_digest()
    assert load(path, like=like).state_digest() == model.state_digest()
    assert like.state_digest() == before


def test_a_subclass_comes_back_as_what_it_is_where_like_says_so(path):
    model = CASES["ridge"].fitted()
    model.save(path)
    assert type(load(path)) is ErasableClassifier
    again = load(path, like=RetrainedRidge(0.5))
    assert type(again) is RetrainedRidge
    assert_same(again, model, rows())


def test_a_map_with_a_large_seed_and_plain_numbers_is_recognised(path):
    for chosen in (
        RandomFourierFeatures(4, gamma=1.0, random_state=2**60),
        RandomFourierFeatures(4, gamma=1e-7, random_state=0),
    ):
        model = ErasableClassifier(feature_map=chosen, threshold=0.1).fit(rows(), labels(rows()))
        model.save(path, overwrite=True)
        assert load(path, like=clone(model)).predict(rows()).tolist() == model.predict(rows()).tolist()


def test_staged_models_with_fixed_classes_are_loaded(path):
    model = ErasableGeneralClassifier(steps(), sampler="staged", classes=["ape", "bee", "cow"])
    model.fit(rows(), labels(rows()))
    model.save(path)
    again = load(path, like=clone(model))
    assert_same(again, model, rows())


@pytest.mark.parametrize("name", ["mapped", "mapped texts"])
def test_a_mapped_file_alone_forgets_and_verifies_and_says_what_else_needs(name, path):
    case = CASES[name]
    model = case.fitted()
    model.save(path)
    alone = load(path)
    leaving = model.core_ids_[:5].tolist()
    for m in (model, alone):
        m.forget(ids=leaving, subjects=["owner 1"])
    assert verify(alone).digest == model.state_digest()
    assert saved(alone, path) == b"".join(model._model.snapshot().pieces)
    new = [f"new {i}" if case.key == "str" else b"new %d" % i for i in range(N)]
    for call in (
        lambda: alone.predict(rows()),
        lambda: alone.partial_fit(rows(), labels(rows()), ids=[type(leaving[0])(key) for key in new]),
    ):
        with pytest.raises(ConfigurationError, match=r"load\(path, like=ErasableClassifier\(feature_map="):
            call()
    assert alone.state_digest() == model.state_digest()
    assert "feature_map=AbsentMap" in repr(alone)


# -- saving ------------------------------------------------------------------------------------------------------


def test_a_row_that_was_forgotten_on_disk_is_not_brought_back(path):
    CASES["linear"].fitted().save(path)
    mine, theirs = load(path), load(path)
    theirs.forget(ids=theirs.core_ids_[:3].tolist())
    theirs.save(path)
    left = path.read_bytes()
    mine.forget(ids=mine.core_ids_[5:6].tolist())
    for _ in range(2):
        with pytest.raises(ChangedMeanwhileError, match="bring back rows that were forgotten"):
            mine.save(path)
        assert path.read_bytes() == left
    mine.save(path, overwrite=True)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == mine.state_digest()
    with pytest.raises(ChangedMeanwhileError):
        theirs.save(path)


def test_a_model_that_was_never_there_is_not_written_over_another(path):
    held = saved(CASES["linear"].fitted(), path)
    other = CASES["linear"].fitted()
    other.forget(ids=other.core_ids_[:1].tolist())
    with pytest.raises(ChangedMeanwhileError, match="overwrite=True"):
        other.save(path)
    assert path.read_bytes() == held
    same = CASES["linear"].fitted()
    with pytest.raises(ChangedMeanwhileError):
        same.save(path)  # it may hold the same today; nobody said that it is the same model
    CASES["rbf"].fitted().save(path, overwrite=True)
    assert load(path).kernel == "rbf"


@pytest.mark.parametrize("content", [b"", b"notes\n", b"PK\x03\x04" + bytes(50), bytes(8), b"\xff" * 100])
def test_a_file_that_is_no_model_is_not_written_over(path, content):
    path.write_bytes(content)
    model = CASES["linear"].fitted()
    with pytest.raises(ChangedMeanwhileError, match="holds no model"):
        model.save(path)
    assert path.read_bytes() == content
    model.save(path, overwrite=True)
    assert load(path).state_digest() == model.state_digest()


def test_a_file_that_was_restored_counts_as_changed(path):
    """It holds the bytes that this model saved; another may have forgotten rows meanwhile, and they came back."""
    model = CASES["linear"].fitted()
    data = saved(model, path)
    model.forget(ids=model.core_ids_[:1].tolist())
    path.rename(path.with_name("backup"))
    path.write_bytes(data)
    with pytest.raises(ChangedMeanwhileError, match="overwrite=True"):
        model.save(path)


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(("general", "core set"))])
def test_a_loaded_model_has_the_pickle_of_a_fitted_one(name, path):
    model = CASES[name].fitted()
    model.save(path)
    assert pickle.dumps(load(path, like=clone(model))) == pickle.dumps(model)


def test_copies_of_a_loaded_model_have_no_tie_to_the_file(path):
    """A copy that is changed on its own is another model: should it be written over the file, the caller says so.

    The tie is what lets a model replace a file without ``overwrite``; copies that all had it could race for the file.
    """
    for name in ("linear", "rbf", "general", "core set, ridge", "mapped"):
        CASES[name].fitted().save(path, overwrite=True)
        model = reloaded(name, path)
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
            assert not other._on_disk
            assert other.state_digest() == model.state_digest()
            with pytest.raises(ChangedMeanwhileError):
                other.save(path)
        assert not clone(model)._on_disk
        assert b"_on_disk" not in pickle.dumps(model)
        model.forget(ids=model.core_ids_[:1].tolist())
        model.save(path)


def test_the_tie_to_a_file_is_no_parameter_and_no_state(path):
    model = CASES["linear"].fitted()
    before = model.state_digest()
    model.save(path)
    assert model.state_digest() == before
    assert not any(str(part) in repr(model) for mark in model._on_disk.values() for part in mark)
    assert "_on_disk" not in model.get_params()


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_is_not_fitted_is_not_saved(name, path):
    with pytest.raises((NotFittedError, ConfigurationError)):
        CASES[name].make().save(path)
    assert not path.exists()


def test_models_whose_learner_is_no_function_of_its_rows_are_not_saved(path):
    X, y = rows(), (rows()[:, 0] > 0).astype(int)
    for model in (
        core_set(RidgeClassifier(), reproducible=False),
        core_set(NewtonUnlearner()),
    ):
        model.fit(X, y)
        with pytest.raises(ConfigurationError, match="cannot be saved"):
            model.save(path)
        assert not path.exists()


def test_a_one_shot_model_is_saved(path):
    X, y = rows(), (rows()[:, 0] > 0).astype(int)
    model = CoreSetUnlearner(SupportVectors(), DecisionTreeClassifier(random_state=0), one_shot=True).fit(X, y)
    model.save(path)
    again = load(path, like=clone(model))
    assert_same(again, model, X)
    key = model.core_ids_[:1].tolist()
    for m in (model, again):
        m.forget(ids=key)
    assert_same(again, model, X)


@pytest.mark.parametrize("place", ["nowhere/model.erasable", ".", "linked"])
def test_a_place_that_cannot_be_written_to_is_an_error_of_the_store(tmp_path, place):
    CASES["linear"].fitted().save(tmp_path / "real")
    os.symlink(tmp_path / "real", tmp_path / "linked")
    with pytest.raises(StoreError):
        CASES["linear"].fitted().save(tmp_path / place)
    with pytest.raises(StoreError):
        CASES["linear"].fitted().save(tmp_path / place, overwrite=True)


# -- what is no file of ours -------------------------------------------------------------------------------------


def test_there_is_nothing_to_load(path):
    with pytest.raises(StoreError, match=r"model\.erasable"):
        load(path)
    with pytest.raises(StoreError, match="folder"):
        load(path.parent)


class Exploding:
    """Pickled, it would make a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_other_files_are_refused_and_never_run(path, tmp_path):
    mark = tmp_path / "mark"
    others = {
        "empty": b"",
        "short": b"\0" * 7,
        "zeros": bytes(4096),
        "text": b"hello, world\n" * 100,
        "json": b'{"format": "erasable-linear", "version": 1}',
        "pickle": pickle.dumps(Exploding(mark)),
        "old pickle": pickle.dumps(Exploding(mark), protocol=0),
        "pickle behind a length": (40).to_bytes(8, "little") + pickle.dumps(Exploding(mark)),
        "numpy": b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }" + b" " * 60 + b"\n",
    }
    save_file({"weight": np.zeros((3, 3), dtype=np.float32)}, tmp_path / "theirs", metadata={"format": "pt"})
    others["theirs"] = (tmp_path / "theirs").read_bytes()
    for data in others.values():
        path.write_bytes(data)
        with pytest.raises(StateFormatError, match="no file of erasable's"):
            load(path)
    assert not mark.exists()


def test_a_huge_file_is_refused_without_being_read(tmp_path):
    """In a process of its own, that may not have more than a gigabyte."""
    path = tmp_path / "huge.erasable"
    path.write_bytes(b"".join(CASES["linear"].fitted()._model.snapshot().pieces))
    os.truncate(path, 5 * 2**30)
    code = (
        "import sys, resource; from erasable import load; from erasable.errors import StateFormatError\n"
        "from erasable.operations.inspect import inspect\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))\n"
        "for read in (load, inspect):\n"
        "    try:\n"
        "        read(sys.argv[1])\n"
        "    except StateFormatError as error:\n"
        "        assert 'longer than its header says' in str(error), error\n"
        "    else:\n"
        "        raise SystemExit('it was read')\n"
        # Not ru_maxrss: that begins with what the process had that started this one.
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < 2**30


@pytest.mark.parametrize("name", [n for n in NAMES if "mapped" in n])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "[]",
        "{}",
        '{"map":{}}',
        '{"n_features":3}',
        '"map"',
        '["map","n_features"]',
        '{"map":5,"n_features":3}',
        '{"map":[],"n_features":3}',
        '{"map":{},"n_features":"3"}',
        '{"map":{}, "n_features":3}',
        '{"map":{"a":1.0},"n_features":3}',
        '{"map":{},"n_features":3,"more":1}',
        '{"n_features":3,"map":{}}',
        "[" * 5000,
        5,
        {"map": {}, "n_features": 3},
        True,
    ],
)
def test_a_feature_map_that_is_not_described_is_refused(name, text, path):
    data = altered(saved(CASES[name].fitted(), path), lambda header, meta: meta.update(feature_map=text))
    path.write_bytes(data)
    for like in (None, CASES[name].make()):
        with pytest.raises(StateFormatError):
            load(path, like=like)


SPARSE = {
    "columns not sorted": lambda t: {**t, "rows.indices": swapped(t["rows.indices"])},
    "a column twice": lambda t: {**t, "rows.indices": doubled(t["rows.indices"])},
    "a zero that is stored": lambda t: {**t, "rows.data": (*t["rows.data"][:2], bytes(8) + t["rows.data"][2][8:])},
    "not a number": lambda t: {**t, "rows.data": (*t["rows.data"][:2], b"\xff" * 8 + t["rows.data"][2][8:])},
    "a column that is not there": lambda t: {
        **t,
        "rows.indices": (*t["rows.indices"][:2], t["rows.indices"][2][:-8] + (3).to_bytes(8, "little")),
    },
    "ends that fall": lambda t: {**t, "rows.ends": swapped(t["rows.ends"])},
    "too few ends": lambda t: {**t, "rows.ends": ("I64", [0], b"")},
}


def swapped(tensor):
    dtype, shape, raw = tensor
    array = np.frombuffer(raw, "<i8").copy()
    at = int(np.flatnonzero(np.diff(array) > 0)[1])
    array[[at, at + 1]] = array[[at + 1, at]]
    return dtype, shape, array.tobytes()


def doubled(tensor):
    dtype, shape, raw = tensor
    array = np.frombuffer(raw, "<i8").copy()
    at = int(np.flatnonzero(np.diff(array) > 0)[0])
    array[at + 1] = array[at]
    return dtype, shape, array.tobytes()


@pytest.mark.parametrize("what", SPARSE)
def test_sparse_rows_have_one_form(what, path):
    name = "core set, tree on sparse"
    data = saved(CASES[name].fitted(), path)
    assert rebuilt(opened(data)[1], tensors(data)) == data
    path.write_bytes(rebuilt(opened(data)[1], SPARSE[what](tensors(data))))
    with pytest.raises(StateFormatError):
        load(path, like=CASES[name].make())


@pytest.mark.parametrize("name", ["core set, ridge", "core set, tree on sparse"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_no_numbers_are_refused_before_a_learner_sees_them(name, value, path):
    data = saved(CASES[name].fitted(), path)
    found = tensors(data)
    part = "rows" if "rows" in found else "rows.data"
    dtype, shape, raw = found[part]
    path.write_bytes(rebuilt(opened(data)[1], {**found, part: (dtype, shape, np.float64(value).tobytes() + raw[8:])}))
    with pytest.raises(StateFormatError, match="NaN or infinity"):
        load(path, like=CASES[name].make())


def test_what_a_learner_says_of_impossible_rows_is_an_error_of_the_file(path):
    name = "core set, forest"
    data = saved(CASES[name].fitted(), path)
    found = tensors(data)
    dtype, shape, raw = found["rows"]
    far = np.frombuffer(raw, "<i8").copy()
    far[0] = np.float64(1e300).view(np.int64)  # finite, and yet too large for a tree
    path.write_bytes(rebuilt(opened(data)[1], {**found, "rows": (dtype, shape, far.tobytes())}))
    with pytest.raises(StateFormatError, match="cannot be trained"):
        load(path, like=CASES[name].make())


def test_parameters_that_no_model_has_are_refused(path):
    """A threshold that nothing exceeds: nobody can have learnt a row with it."""
    data = saved(CASES["rbf"].fitted(), path)
    path.write_bytes(altered(data, lambda header, meta: meta.update(threshold=(1e9).hex())))
    with pytest.raises(StateFormatError):
        load(path)


@pytest.mark.parametrize("degree", ["9" * 400, str(2**60), 10**30, 2.0, None, 0, -1])
def test_a_degree_that_no_kernel_has_is_refused(degree, path):
    data = saved(CASES["poly"].fitted(), path)
    path.write_bytes(altered(data, lambda header, meta: meta.update(degree=degree)))
    with pytest.raises(StateFormatError):
        load(path)


def test_ids_that_are_not_distinct_are_refused(path):
    for name in ("linear, int ids", "matern", "general, int ids"):
        case = CASES[name]
        data = saved(case.fitted(), path)
        found = tensors(data)
        dtype, shape, raw = found["ids"]
        path.write_bytes(rebuilt(opened(data)[1], {**found, "ids": (dtype, shape, raw[8:16] + raw[8:])}))
        with pytest.raises(StateFormatError, match="not distinct"):
            load(path, like=case.make() if case.needed else None)
        os.unlink(path)


def test_a_text_with_half_a_character_is_no_id(path):
    data = saved(CASES["linear"].fitted(), path)
    found = tensors(data)
    dtype, shape, raw = found["ids"]
    for bad in (b"\xff\xfe", b"\xed\xa0\x80"):  # no UTF-8; a surrogate
        path.write_bytes(rebuilt(opened(data)[1], {**found, "ids": (dtype, shape, bad + raw[len(bad) :])}))
        with pytest.raises(StateFormatError):
            load(path)


def test_what_is_not_damaged_is_not_taken_for_damage(path):
    """A wrong ``like`` is the caller's error, a damaged file is not, though both show in what the header says."""
    name = "general"
    case = CASES[name]
    data = saved(case.fitted(), path)
    damaged = data.replace(b"single-pass", b"double-pass", 1)
    assert damaged != data
    path.write_bytes(damaged)
    with pytest.raises(StateFormatError):
        load(path, like=case.make())
    with pytest.raises(StateFormatError):
        load(path)
    function = CASES["kernel function"]
    data = saved_over(function.fitted(), path)
    path.write_bytes(data.replace(b"gaussian", b"gauzzian", 1))
    for like in (None, function.make()):
        with pytest.raises(StateFormatError):
            load(path, like=like)
    learner = CASES["core set, ridge"]
    data = saved_over(learner.fitted(), path)
    path.write_bytes(data.replace(b"RidgeClassifier", b"RidgeClassifiex", 1))
    for like in (None, learner.make()):
        with pytest.raises(StateFormatError):
            load(path, like=like)


def saved_over(model, path):
    model.save(path, overwrite=True)
    return path.read_bytes()


def test_errors_tell_no_values(path):
    secret = "SECRET-7351"
    model = ErasableClassifier(threshold=0.01).fit(rows(), [secret] * N, ids=[f"{secret} {i}" for i in range(N)])
    data = saved(model, path)
    for position in range(0, len(data), 23):
        bad = bytearray(data)
        bad[position] ^= 4
        path.write_bytes(bad)
        with pytest.raises(StateFormatError) as caught:
            load(path)
        assert "7351" not in everything_said(caught.value)


# -- easily overlooked ------------------------------------------------------------------------------------------


def test_an_older_state_that_comes_back_on_disk_is_not_mistaken_for_no_change(path):
    """Saved, a row learnt and saved, the row forgotten by another: the file is the first one again, byte for byte."""
    clf = ErasableClassifier(threshold=0.001).fit(np.eye(3), [0, 1, 0])
    clf.save(path)
    first = path.read_bytes()
    clf.partial_fit([[0.5, 0.5, 0.1]], [1], ids=[77])
    clf.save(path)
    ModelFile(path).forget(ids=[77])
    assert path.read_bytes() == first
    with pytest.raises(ChangedMeanwhileError):
        clf.save(path)
    assert path.read_bytes() == first


def test_one_model_can_be_kept_in_two_files(tmp_path):
    clf = CASES["linear"].fitted()
    for _ in range(3):
        clf.forget(ids=clf.core_ids_[:1].tolist())
        for name in ("a.erasable", "b.erasable"):
            clf.save(tmp_path / name)
    assert (tmp_path / "a.erasable").read_bytes() == (tmp_path / "b.erasable").read_bytes()


def test_saving_again_after_the_old_file_could_not_be_erased(path):
    clf = CASES["linear"].fitted()
    clf.save(path)
    clf.forget(ids=clf.core_ids_[:1].tolist())
    with mock.patch.object(Disk, "unlink", side_effect=OSError(errno.EIO, "injected")), pytest.raises(NotErasedError):
        clf.save(path)
    clf.save(path)
    assert sorted(p.name for p in path.parent.iterdir()) == [side_files(path).lock.name, path.name]


def test_a_model_that_nobody_could_read_again_is_not_written(path, monkeypatch):
    clf = CASES["linear"].fitted()
    clf.save(path)
    before = path.read_bytes()
    clf.forget(ids=clf.core_ids_[:1].tolist())
    monkeypatch.setattr("erasable.models.files.LARGEST", 100)
    with pytest.raises(StoreError, match="at most 100"):
        clf.save(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("linear", {"threshold": "-0x0.0p+0"}),
        ("mapped", {"feature_names": [{"row": [1, 2, 3], "who": "ann"}, None, 7]}),
        ("mapped", {"feature_names": ["a", "b"]}),
    ],
)
def test_a_second_way_to_write_a_state_and_a_place_to_hide_something_are_refused(name, change, path):
    data = b"".join(CASES[name].fitted()._model.snapshot().pieces)
    path.write_bytes(altered(data, lambda header, meta: meta.update(change)))
    with pytest.raises(StateFormatError):
        reloaded(name, path)


def test_fixed_classes_of_every_kind_of_model_stand_in_order(path):
    fixed = ErasableKernelClassifier(classes=["a", "b"]).fit(np.eye(4), ["a", "b", "a", "b"])
    data = b"".join(fixed._model.snapshot().pieces)
    path.write_bytes(altered(data, lambda header, meta: meta.update(classes=["b", "a"])))
    with pytest.raises(StateFormatError):
        load(path)
    with pytest.raises(StateFormatError):
        load(path, like=ErasableKernelClassifier(classes=["a", "b"]))


def test_a_folder_may_have_two_names(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    CASES["linear"].fitted().save(tmp_path / "link" / "m.erasable")
    clf = load(tmp_path / "link" / "m.erasable")
    for folder in ("link", "real", "link"):
        clf.forget(ids=clf.core_ids_[:1].tolist())
        clf.save(tmp_path / folder / "m.erasable")
    assert load(tmp_path / "real" / "m.erasable").state_digest() == clf.state_digest()
