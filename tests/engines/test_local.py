"""Threads and processes: the state is that of one call, bit for bit, and nothing of the engine is kept."""

from __future__ import annotations

import pickle
from copy import copy, deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from erasable import ErasableClassifier, ErasableRegressor, load
from erasable.engines import Engine, Local, engine_of
from erasable.errors import ConfigurationError, EngineError, ErasableError, InputError
from erasable.features import FrozenMap
from erasable.models import passes, row_source
from erasable.models.row_source import ArraySource, RowBuffer, Rows
from erasable.tables import stream_table
from tests.engines.cases import (
    CLASSIFIER,
    COLUMNS,
    IDS,
    OWNERS,
    WHOLE,
    Deadly,
    N,
    X,
    Y,
    arrow_table,
    check_one_round,
    in_two_calls,
    parquet_folder,
)
from tests.models.test_rounds import IDS as ROUND_IDS
from tests.models.test_rounds import MODELS
from tests.models.test_rounds import OWNERS as ROUND_OWNERS
from tests.models.test_rounds import Y as ROUND_Y
from tests.strategies import assert_identical, problems


def small(engine: Engine, block_bytes: int = 2000) -> Engine:
    engine.block_bytes, engine.helps_in_memory = block_bytes, True
    return engine


@pytest.fixture(scope="module")
def processes():
    with small(Local(processes=2)) as engine:
        yield engine


# -- one digest ---------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    problems(order_keys=[0, 1], weighted=True),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([1, 100, 2**20]),
    st.data(),
)
def test_any_threads_and_any_blocks_are_the_oracle(problem, threads, block_bytes, data):
    setting, batch = problem
    clf, oracle = setting.classifier(), setting.oracle()
    clf.set_params(engine=small(Local(threads=threads), block_bytes))
    cut = data.draw(st.integers(0, len(batch) - 1))
    for part in (batch.part(slice(cut)), batch.part(slice(cut, None))):  # the second call screens
        part.learnt_by(clf)
        part.learnt_by(oracle)
    assert_identical(clf, oracle)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "general"])
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_every_model_is_the_same_with_an_engine(name, kind, processes):
    model, rows = MODELS[name]
    if (name, kind) == ("kernel function", "processes"):
        pytest.skip("the function is defined in a test, which processes can import, but not by every runner")
    engine = processes if kind == "processes" else small(Local(threads=2))
    learnt = rows, ROUND_Y, ROUND_IDS, ROUND_OWNERS
    whole = clone(model).fit(rows, ROUND_Y, ids=ROUND_IDS, subjects=ROUND_OWNERS)
    clf = clone(model).set_params(engine=engine).fit(rows, ROUND_Y, ids=ROUND_IDS, subjects=ROUND_OWNERS)
    assert clf.state_digest() == whole.state_digest()
    assert in_two_calls(clone(model).set_params(engine=engine), *learnt) == in_two_calls(clone(model), *learnt)


@pytest.mark.parametrize("n_files", [1, 3])
@pytest.mark.parametrize("shuffled", [False, True])
def test_any_files_in_any_order_read_by_processes(tmp_path, processes, n_files, shuffled):
    order = np.random.default_rng(n_files).permutation(N) if shuffled else None
    folder = parquet_folder(tmp_path / "t", n_files, 70, order)
    clf = clone(CLASSIFIER).set_params(engine=processes)
    with stream_table(folder, **COLUMNS) as stream:
        report = clf.learn_blocks(stream, budget_bytes=20_000)
    assert clf.state_digest() == WHOLE
    assert len(report.rounds) > 1
    assert report.rounds[0].rows == N
    assert 0 < report.rounds[-1].survivors < N
    assert sum(r.core_rows_added for r in report.rounds) == clf.n_core_
    assert all(r.bytes_moved > 0 for r in report.rounds)


@pytest.mark.parametrize("kind", ["none", "threads", "processes"])
def test_independent_selection_needs_one_round(tmp_path, processes, kind):
    engine = {"none": None, "threads": Local(threads=2), "processes": processes}[kind]
    check_one_round(engine, parquet_folder(tmp_path / "t", 3, 70, None))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_mapped_file_is_read_where_rows_are_screened(tmp_path, processes, dtype):
    np.save(tmp_path / "X.npy", X.astype(dtype))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    clf = clone(CLASSIFIER).set_params(engine=processes).fit(mapped, Y, ids=IDS, subjects=OWNERS)
    assert clf.state_digest() == WHOLE
    part = clone(CLASSIFIER).set_params(engine=processes).fit(mapped[100:700], Y[100:700], ids=IDS[100:700])
    assert part.state_digest() == clone(CLASSIFIER).fit(X[100:700], Y[100:700], ids=IDS[100:700]).state_digest()
    empty, engine = ErasableClassifier(threshold=0.05).fit(X[:1], Y[:1]).model_, small(Local(), 3000)
    rows = Rows(np.asarray(mapped[100:700]), Y[100:700], np.arange(N)[100:700])
    sent = pickle.loads(pickle.dumps(ArraySource(empty, rows, engine, allow_no_subject=False).parts()))
    assert all(part.rows.X is None for part in sent)  # rows stay in the file
    assert np.array_equal(np.concatenate([block.X for part in sent for block in part]), X[100:700])
    assert ArraySource(empty, Rows(X[:, ::2], Y), engine, allow_no_subject=False).parts() is None


def test_partial_fit_and_regressions_and_weights(processes):
    weights = np.arange(N) % 17 / 8
    for make in (lambda e: ErasableClassifier(threshold=0.05, engine=e), lambda e: _regressor(e)):
        answers = Y if make(None).__class__ is ErasableClassifier else X[:, 1].astype(float)
        digests = set()
        for engine in (None, small(Local(threads=2)), processes):
            model = make(engine)
            model.partial_fit(X[:400], answers[:400], ids=IDS[:400], sample_weight=weights[:400])
            model.forget(ids=IDS[:50])
            model.partial_fit(X[400:], answers[400:], ids=IDS[400:], sample_weight=weights[400:])
            digests.add(model.state_digest())
        assert len(digests) == 1


def _regressor(engine):
    return ErasableRegressor((-10, 10), threshold=0.05, engine=engine)


def test_rows_without_ids_are_numbered_through_all_parts(tmp_path, processes):
    import pyarrow.parquet as pq

    whole = ErasableClassifier(threshold=0.05).fit(X, Y)
    path = tmp_path / "t.parquet"
    pq.write_table(arrow_table().drop(["id", "who"]), path, row_group_size=64)
    for engine in (small(Local(threads=2)), processes):
        clf = ErasableClassifier(threshold=0.05, engine=engine).fit(X, Y)
        assert clf.state_digest() == whole.state_digest()
        clf = ErasableClassifier(threshold=0.05, engine=engine)
        with stream_table(path, label="y") as stream:
            clf.learn_blocks(stream)
        assert clf.state_digest() == whole.state_digest()


# -- rows that lie in memory ---------------------------------------------------------------------------------------


@pytest.fixture
def hashed(monkeypatch):
    """How many ids were hashed by passes."""
    counts, real = [], passes.keyed_hash
    monkeypatch.setattr(passes, "keyed_hash", lambda ids, key: counts.append(len(ids)) or real(ids, key))
    return counts


@pytest.mark.parametrize("few", [100, 2000, 2**14])
@pytest.mark.parametrize("names", ["texts", "numbers", "none"])
def test_hashes_are_made_once_and_rounds_of_any_length_give_one_digest(hashed, monkeypatch, few, names):
    """Ties, near ties, duplicates and zeros; in rounds of few rows and of many."""
    ids = {"texts": IDS, "numbers": np.random.default_rng(1).permutation(N), "none": None}[names]
    weights = 1 + np.arange(N) % 17 / 8 if names == "numbers" else None
    whole = clone(CLASSIFIER).fit(X, Y, ids=ids, subjects=OWNERS, sample_weight=weights).state_digest()
    monkeypatch.setattr(row_source, "_FIRST_BYTES", few)
    monkeypatch.setattr(row_source, "_FIRST_ROWS", 0.0)
    for engine in (small(Local()), small(Local(threads=2))):
        hashed.clear()
        clf = clone(CLASSIFIER).set_params(engine=engine)
        report = clf.learn(X, Y, ids=ids, subjects=OWNERS, sample_weight=weights)
        assert clf.state_digest() == whole
        assert sum(hashed) == N
        assert len(report.rounds) >= (1 if few == 2**14 else 2)


def test_what_would_be_too_much_to_hold_and_what_may_change_is_hashed_again(hashed, monkeypatch, tmp_path):
    monkeypatch.setattr(row_source, "_FIRST_BYTES", 2000)
    monkeypatch.setattr(row_source, "_FIRST_ROWS", 0.0)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    fortran = np.memmap(tmp_path / "F", X.dtype, "w+", shape=X.shape, order="F")
    fortran[:] = X
    zero = (np.arange(N) % 7 > 0).astype(float)  # rows that do not count
    plain = clone(CLASSIFIER).fit(X, Y, ids=IDS, subjects=OWNERS, sample_weight=zero).state_digest()
    clf = clone(CLASSIFIER).set_params(engine=small(Local()))
    for rows, weights, digest in ((mapped, None, WHOLE), (fortran, None, WHOLE), (X, zero, plain)):
        hashed.clear()
        report = clone(clf).learn(rows, Y, ids=IDS, subjects=OWNERS, sample_weight=weights)
        assert len(report.rounds) > 1
        assert sum(hashed) == (N if weights is not None else N * len(report.rounds))
        assert clone(clf).fit(rows, Y, ids=IDS, subjects=OWNERS, sample_weight=weights).state_digest() == digest
    monkeypatch.setattr(row_source, "_CACHE_BYTES", 16 * N - 1)
    hashed.clear()
    report = clone(clf).learn(X, Y, ids=IDS, subjects=OWNERS)
    assert sum(hashed) == N * len(report.rounds) > N


def test_into_a_model_that_is_there_too_rounds_begin_with_few_rows_where_rows_are_at_hand(monkeypatch, processes):
    monkeypatch.setattr(row_source, "_FIRST_BYTES", 2000)
    monkeypatch.setattr(row_source, "_FIRST_ROWS", 0.0)
    plain, reports = clone(CLASSIFIER).fit(X[:200], Y[:200], ids=IDS[:200]), []
    plain.learn(X[200:], Y[200:], ids=IDS[200:])
    for engine in (small(Local()), small(Local(threads=2)), processes):
        clf = clone(CLASSIFIER).set_params(engine=engine).fit(X[:200], Y[:200], ids=IDS[:200])
        reports.append(clf.learn(X[200:], Y[200:], ids=IDS[200:]))
        assert clf.state_digest() == plain.state_digest()
    assert [len(report.rounds) > 1 for report in reports] == [True, True, False]  # sent rows are sent once


# -- what adds up -------------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=8), min_size=1, max_size=6),
    st.integers(1, 900),
    st.data(),
)
def test_rows_held_anywhere_are_all_rows_below_the_end(parts, budget, data):
    """In whatever order, grouping and with whatever limits of an earlier moment."""
    total = RowBuffer(5, budget)
    order = data.draw(st.permutations(range(len(parts))))
    for k in order:
        end = total.end if data.draw(st.booleans()) else None
        one = RowBuffer(5, budget, end=end)
        hashes = np.array(parts[k], dtype=np.uint64)
        columns = hashes[:, None].astype(float), np.zeros(len(hashes)), hashes.astype(np.int64)
        one.add(Rows(*columns, hashes=hashes).take(one.within(hashes)))
        total.merge(one)
    offered = sorted(h for part in parts for h in part if h >= 5)
    below = offered if total.end is None else [h for h in offered if h < total.end]
    held = sorted(int(h) for rows in total.parts for h in rows.hashes)
    assert held == below
    assert held or not offered
    assert total.end is None or total.end in offered


# -- nothing is kept ----------------------------------------------------------------------------------------------


def test_copies_have_the_engine():
    engine = Local(threads=2)
    fitted = clone(CLASSIFIER).set_params(engine=engine).fit(X, Y, ids=IDS, subjects=OWNERS)
    for clf in (fitted, clone(fitted), ErasableClassifier(engine="local")):
        for other in (clone(clf), copy(clf), deepcopy(clf)):
            assert other.engine is clf.engine
            assert other is not clf
    for other in (copy(fitted), deepcopy(fitted)):
        assert other.state_digest() == WHOLE
        other.forget(ids=other.core_ids_[:5])
    assert fitted.state_digest() == WHOLE
    both = deepcopy([fitted, fitted])
    assert both[0] is both[1]


def test_no_pickle_and_no_file_holds_an_engine(tmp_path):
    engine = Local(threads=2)
    clf = clone(CLASSIFIER).set_params(engine=engine).fit(X, Y, ids=IDS, subjects=OWNERS)
    again = pickle.loads(pickle.dumps(clf))
    assert again.engine is None
    assert again.state_digest() == WHOLE
    clf.save(tmp_path / "with.erasable")
    plain = clone(CLASSIFIER).fit(X, Y, ids=IDS, subjects=OWNERS)
    plain.save(tmp_path / "without.erasable")
    assert (tmp_path / "with.erasable").read_bytes() == (tmp_path / "without.erasable").read_bytes()
    assert load(tmp_path / "with.erasable").engine is None


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["gpu", 3, Local, ["local"]])
def test_what_is_no_engine_is_refused(engine):
    with pytest.raises(ConfigurationError, match=r"engine must be .*'local', 'torch', 'dask'"):
        ErasableClassifier(engine=engine).fit(X, Y)


def test_parameters_of_engines_are_checked():
    assert isinstance(engine_of("local"), Local)
    with pytest.raises(ConfigurationError, match="threads= and processes="):
        Local(threads=1, processes=1)
    with pytest.raises(ConfigurationError, match="threads must be a positive integer"):
        Local(threads=0)


def test_the_order_given_has_no_engine():
    with pytest.raises(ConfigurationError, match="decided in their order"):
        ErasableClassifier(order="given", engine="local").fit(X, Y)


def test_a_refused_call_leaves_the_model_as_it_was():
    clf = clone(CLASSIFIER).set_params(engine=small(Local(threads=2))).fit(X[:500], Y[:500], ids=IDS[:500])
    before = clf.state_digest()
    wrong = [
        {"X": X[400:], "ids": IDS[400:]},  # a hundred are there already
        {"X": X[500:], "ids": [*IDS[500:-1], IDS[500]]},
        {"X": X[500:], "ids": IDS[400:]},
        {"X": X[500:], "ids": IDS[500:], "sample_weight": np.zeros(N - 500)},
        {"X": X[500:], "ids": IDS[500:], "subjects": [None] * (N - 500)},
    ]
    for call in wrong:
        answers = Y[-len(call["X"]) :]
        with pytest.raises(ErasableError, match=r"already|distinct|entries|zero|subject"):
            clf.partial_fit(y=answers, **call)
        assert clf.state_digest() == before
    clf.partial_fit(X[500:], Y[500:], ids=IDS[500:])
    same = clone(CLASSIFIER).set_params(engine=None).fit(X[:500], Y[:500], ids=IDS[:500])
    assert clf.state_digest() == same.partial_fit(X[500:], Y[500:], ids=IDS[500:]).state_digest()


def test_a_function_that_cannot_be_sent_is_refused(processes):
    feature_map = FrozenMap(lambda Z: Z, "identity", X.shape[1])
    with pytest.raises(ConfigurationError, match="cannot be sent: define it in a module"):
        ErasableClassifier(feature_map=feature_map, engine=processes).fit(X, Y)
    ErasableClassifier(feature_map=feature_map, engine=small(Local(threads=2))).fit(X, Y)


def test_a_process_that_is_killed_is_an_error_and_the_next_run_succeeds(tmp_path):
    clf = clone(CLASSIFIER)
    with small(Local(processes=1)) as engine:
        clf.set_params(engine=engine)
        with pytest.raises(EngineError, match="ended abruptly"):
            clf.learn_blocks(Deadly(tmp_path, "pass 0, part 2, before"))
        assert not clf.__sklearn_is_fitted__()
        clf.learn_blocks(Deadly(tmp_path))
    assert clf.state_digest() == WHOLE


def test_a_part_that_cannot_be_read_is_named_and_nothing_is_learnt(tmp_path, processes):
    folder = parquet_folder(tmp_path / "t", 2, 50)
    with stream_table(folder, **COLUMNS) as stream:
        damaged = folder / "part-1.parquet"
        data = bytearray(damaged.read_bytes())
        data[200:2000] = bytes(1800)
        damaged.write_bytes(bytes(data))
        for engine in (small(Local(threads=2)), processes):
            clf = clone(CLASSIFIER).set_params(engine=engine)
            with pytest.raises(InputError, match=r"part-1\.parquet"):
                clf.learn_blocks(stream)
            assert not clf.__sklearn_is_fitted__()


def test_an_engine_without_threads_or_processes_leaves_rows_in_memory_to_the_model(monkeypatch):
    def never(*_):
        raise AssertionError("a pass over rows in memory")

    monkeypatch.setattr(Local, "results", never)
    expected = ErasableClassifier(threshold=0.05).fit(X, Y).state_digest()
    for engine in ("local", Local()):
        assert ErasableClassifier(threshold=0.05, engine=engine).fit(X, Y).state_digest() == expected
    with pytest.raises(AssertionError, match="a pass"):
        ErasableClassifier(threshold=0.05, engine=Local(threads=1)).fit(X, Y)
