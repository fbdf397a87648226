"""Tables that are sent again: stored rows are passed over, or replaced. The judge forgets and learns in two calls."""

from __future__ import annotations

import errno
import itertools
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from erasable import ErasableClassifier, ErasableKernelClassifier, ModelFile, load, verify
from erasable.errors import ConfigurationError, EmptiedClassWarning, InputError, InputTypeError, StoreError
from erasable.operations.model_file import ModelCache
from erasable.store._disk import Disk
from erasable.tables import Table

RNG = np.random.default_rng(5)
N, D = 60, 3
X = RNG.integers(-8, 8, (N, D)) / 4
Y = np.where(X[:, 0] > 0, "a", "b")
IDS = np.array([f"row-{i}" for i in range(N)], dtype=object)
OWNERS = np.array([f"owner-{i % 7}" for i in range(N)], dtype=object)
NEW = {
    "hashed": ErasableClassifier(threshold=0.1, feature_map=None),
    "given": ErasableClassifier(threshold=0.1, order="given", feature_map=None),
    "kernel": ErasableKernelClassifier("rbf", gamma=0.05, threshold=2.0),
}


def block(at, X=X, y=Y):
    at = np.asarray(at, dtype=np.intp)
    return Table(X[at], y[at], IDS[at], OWNERS[at])


def cut(at, size):
    return [block(at[low : low + size]) for low in range(0, len(at), size)]


@pytest.fixture(params=NEW)
def path(request, tmp_path):
    """A file that learnt the first forty rows and kept some."""
    file = tmp_path / "m.erasable"
    ModelFile(file).learn([block(range(40))], new=NEW[request.param])
    assert 0 < load(file).n_core_ < 40
    return file


def stored(path):
    return set(load(path).core_ids_.tolist())


@pytest.mark.parametrize("size", [7, 60])
@pytest.mark.parametrize("budget", [2_000, 2**28])
def test_rows_that_are_stored_are_passed_over(path, tmp_path, size, budget):
    before = stored(path)
    judge = tmp_path / "judge.erasable"
    judge.write_bytes(path.read_bytes())
    new = [i for i in range(N) if IDS[i] not in before]
    expected = ModelFile(judge).learn([block(new)])
    report = ModelFile(path).learn(cut(range(N), size), skip_known=True, budget_bytes=budget)
    assert path.read_bytes() == judge.read_bytes()
    assert (report.rows, report.rows_known, report.rows_replaced) == (len(new), len(before), 0)
    assert report.core_rows_added == expected.core_rows_added


def test_a_table_of_stored_rows_alone_changes_nothing(path):
    before, inode = path.read_bytes(), path.stat().st_ino
    at = [i for i in range(N) if IDS[i] in stored(path)]
    file = ModelFile(path)
    for blocks in (cut(at, 3), iter(cut(at, 3))):
        report = file.learn(blocks, skip_known=True)
        assert (report.rows, report.rows_known, report.core_rows_added) == (0, len(at), 0)
        assert report.core_rows == len(at)
    assert (path.read_bytes(), path.stat().st_ino) == (before, inode)
    file.forget(ids=[IDS[at[0]]])  # the handle still has the model
    assert stored(path) == {IDS[i] for i in at[1:]}


def test_a_pipe_may_skip_what_is_known(path):
    n = load(path).n_core_
    assert ModelFile(path).learn(iter(cut(range(N), 9)), skip_known=True).rows_known == n
    verify(load(path))


def test_lists_and_frames_may_be_sent_again_too(tmp_path):
    class Parts:
        def __init__(self, at):
            self.X, self.y = pd.DataFrame(X[at], columns=list("abc")), pd.Series(Y[at])
            self.ids, self.subjects = IDS[at].tolist(), OWNERS[at].tolist()

    path = tmp_path / "m.erasable"
    new = ErasableClassifier(threshold=0.1, feature_names=("a", "b", "c"), feature_map=None)
    ModelFile(path).learn([Parts(np.arange(40))], new=new)
    n = load(path).n_core_
    report = ModelFile(path).learn([Parts(np.arange(N))], skip_known=True)
    assert (report.rows, report.rows_known) == (N - n, n)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(NEW)),
    learnt=st.sets(st.integers(0, N - 1), min_size=1),
    sent=st.sets(st.integers(0, N - 1), min_size=1),
    size=st.integers(1, 60),
    seed=st.integers(0, 9),
)
def test_replacing_is_forgetting_and_learning(tmp_path_factory, kind, learnt, sent, size, seed):
    folder = tmp_path_factory.mktemp("replace")
    path, judge = folder / "m.erasable", folder / "judge.erasable"
    learnt, sent = sorted(learnt), sorted(sent)
    rng = np.random.default_rng(seed)
    other = rng.integers(-8, 8, (N, D)) / 4
    labels = rng.choice(["a", "b", "c"], N).astype(object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file in (path, judge):
            ModelFile(file).learn([block(learnt)], new=NEW[kind])
        before = stored(path)
        ModelFile(judge).forget(ids=IDS[sent].tolist())
        ModelFile(judge).learn([block(sent, other, labels)])
        parts = [block(sent[low : low + size], other, labels) for low in range(0, len(sent), size)]
        report = ModelFile(path).learn(parts, replace=True)
    assert path.read_bytes() == judge.read_bytes()
    assert report.rows_replaced == len(before & set(IDS[sent]))
    assert report.rows == len(sent)
    verify(load(path))


def test_replacing_writes_the_file_once(path):
    at = [i for i in range(N) if IDS[i] in stored(path)]
    with mock.patch.object(ModelCache, "write", autospec=True, side_effect=ModelCache.write) as written:
        ModelFile(path).learn([block(at, X[::-1])], replace=True)
    assert written.call_count == 1


def test_replacing_that_fails_leaves_every_row(path):
    before, file = path.read_bytes(), ModelFile(path)
    at = [i for i in range(N) if IDS[i] in stored(path)]
    bad = X.copy()
    bad[at[-1]] = np.nan
    with pytest.raises((InputError, ValueError)):
        file.learn([block(at[:2]), block(at[2:], bad)], replace=True)
    assert path.read_bytes() == before
    with (
        mock.patch.object(Disk, "rename", side_effect=OSError(errno.EIO, "no")),
        pytest.raises(StoreError),
    ):
        file.learn([block(at, X[::-1])], replace=True)
    assert path.read_bytes() == before
    file.learn([block(at)], replace=True)  # the handle did not keep the half-replaced model
    verify(load(path))


def test_correcting_the_last_row_of_a_class_says_that_it_is_lost(tmp_path):
    path = tmp_path / "m.erasable"
    labels = np.array(["a"] * N, dtype=object)
    labels[0] = "rare"
    new = ErasableClassifier(threshold=0.0, order="given", feature_map=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ModelFile(path).learn([block(range(N), y=labels)], new=new)
    with pytest.warns(EmptiedClassWarning, match="a class"):
        ModelFile(path).learn([block([0], y=np.full(N, "a", dtype=object))], replace=True)
    assert load(path).classes_.tolist() == ["a"]


def test_what_cannot_be_replaced_or_skipped(path):
    before, file = path.read_bytes(), ModelFile(path)
    with pytest.raises(ConfigurationError, match="skip_known= leaves"):
        file.learn([block(range(N))], skip_known=True, replace=True)
    with pytest.raises(ConfigurationError, match="read twice"):
        file.learn(iter(cut(range(N), 9)), replace=True)
    for option in ("skip_known", "replace"):
        with pytest.raises(InputError, match=f"{option}= knows rows by their ids"):
            file.learn([Table(X, Y, subjects=OWNERS)], **{option: True})
        with pytest.raises(InputTypeError, match="can never match"):
            file.learn([Table(X, Y, np.arange(N), OWNERS)], **{option: True})
    with pytest.raises(InputError, match=r"already present .* replace= or skip_known="):
        file.learn([block(range(N))])
    assert path.read_bytes() == before


def test_a_file_that_is_new_has_nothing_to_replace_or_to_skip(tmp_path):
    files = [tmp_path / f"{i}.erasable" for i in range(3)]
    for file, options in zip(files, ({}, {"skip_known": True}, {"replace": True}), strict=True):
        ModelFile(file).learn([block(range(N))], new=NEW["hashed"], **options)
    for left, right in itertools.pairwise(files):
        assert left.read_bytes() == right.read_bytes()
