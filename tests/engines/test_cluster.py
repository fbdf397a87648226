"""A Dask cluster: one digest for any number of workers, any parts, and whatever dies on the way."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

from erasable import ErasableClassifier, ModelFile, verify
from erasable.engines import Dask, Local, cluster
from erasable.errors import ConfigurationError, EngineError, ErasableError, InputError
from erasable.features import FrozenMap
from erasable.models.row_source import Rows, RowSource
from erasable.schemas import Category, Number, Role, Schema
from erasable.tables import ArrayRows, stream_table
from tests.engines.cases import (
    CLASSIFIER,
    COLUMNS,
    IDS,
    OWNERS,
    WHOLE,
    D,
    Deadly,
    N,
    X,
    Y,
    arrow_table,
    check_one_round,
    in_two_calls,
    parquet_folder,
    patient_clusters,
)
from tests.waiting import PATIENCE, until, with_longer

pytest.importorskip("distributed", reason="Dask is not installed")
# Warnings of Dask about its own clusters and of what it is made of, while these come and go.
pytestmark = pytest.mark.filterwarnings("ignore")


def cluster_of(n_workers, **how):
    import distributed

    how = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50, **cluster.NO_SPILLING, **how}
    return distributed.LocalCluster(n_workers=n_workers, **how)


@pytest.fixture(scope="module", autouse=True)
def patience():
    with patient_clusters():
        yield
    gc.collect()  # of what clusters leave behind, while nobody minds warnings of Dask


@pytest.fixture(scope="module")
def threads():
    """Workers that are threads of this process, with an address."""
    with cluster_of(2, processes=False, protocol="tcp://") as made:
        yield made


@pytest.fixture(scope="module")
def processes():
    """Workers that are processes, started again by their nannies when they die."""
    with cluster_of(2, processes=True) as made:
        yield made


@pytest.fixture
def engine(threads):
    with Dask(threads.scheduler_address) as engine:
        engine.block_bytes = 4000
        yield engine


# -- one digest ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_workers", [1, 3])
def test_any_number_of_workers_and_any_parts(tmp_path, n_workers):
    import distributed

    order = np.random.default_rng(n_workers).permutation(N)
    folder = parquet_folder(tmp_path / "t", n_workers + 1, 30 * n_workers, order)
    with cluster_of(n_workers, processes=False) as made, distributed.Client(made, set_as_default=False) as client:
        engine = Dask(client)
        clf = clone(CLASSIFIER).set_params(engine=engine)
        with stream_table(folder, **COLUMNS) as stream:
            report = clf.learn_blocks(stream, budget_bytes=25_000)
        assert client.status == "running"  # it was given, and stays the caller's
        assert clf.state_digest() == WHOLE == verify(clf).digest
        assert len(report.rounds) > 1
        assert all(r.rows == N and r.bytes_moved > 0 for r in report.rounds)
        assert clf.fit(X, Y, ids=IDS, subjects=OWNERS).state_digest() == WHOLE


def test_independent_selection_needs_one_round(tmp_path, engine):
    check_one_round(engine, parquet_folder(tmp_path / "t", 3, 70, None))


def test_embeddings_made_on_the_workers(engine):
    def embed(rows):  # not importable there: it is sent
        return np.tanh(rows @ np.arange(12, dtype=float).reshape(D, 2))

    feature_map = FrozenMap(embed, "two numbers", 2, one_at_a_time=True)
    whole = in_two_calls(ErasableClassifier(threshold=0.05, feature_map=feature_map))
    assert in_two_calls(ErasableClassifier(threshold=0.05, feature_map=feature_map, engine=engine)) == whole


def test_workers_may_have_torch(threads):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    with Dask(threads.scheduler_address, device="cpu") as engine:
        assert in_two_calls(clone(CLASSIFIER).set_params(engine=engine)) == in_two_calls(clone(CLASSIFIER))


def test_a_schema_encodes_on_the_workers_and_its_report_comes_back(tmp_path, engine):
    schema = Schema(
        [
            *(Number(name=f"f{j}", range=(-1, 1)) for j in range(D - 1)),
            Category(name=f"f{D - 1}", values=["0"]),
            Role(name="y", role="label"),
            Role(name="id", role="id"),
            Role(name="who", role="subject"),
        ]
    )
    path = tmp_path / "t.parquet"
    pq.write_table(arrow_table(), path, row_group_size=100)
    made, seen = [], []
    for given in (None, engine):
        clf = ErasableClassifier(threshold=0.05, feature_map=schema, engine=given)
        with stream_table(path, label=None, schema=schema) as stream:
            clf.learn_blocks(stream)
            seen.append(stream.encoding)
        made.append(clf.state_digest())
    assert made[0] == made[1]
    assert seen[0] == seen[1]
    assert seen[0].n_rows == N
    assert any("clipped" in found for found in seen[0].counts.values())


def test_learning_more_and_into_a_file(tmp_path, engine):
    folder = parquet_folder(tmp_path / "t", 2, 40)
    files = sorted(folder.glob("*.parquet"))
    digests = set()
    for k, given in enumerate((None, engine)):
        file = ModelFile(tmp_path / f"{k}.erasable")
        for path in files:
            with stream_table(path, **COLUMNS) as stream:
                file.learn(stream, new=clone(CLASSIFIER).set_params(engine=given), engine=given)
        file.forget(subjects=["who-3"])
        digests.add((tmp_path / f"{k}.erasable").read_bytes())
    assert len(digests) == 1


# -- what dies ----------------------------------------------------------------------------------------------------

STAGES = [
    "pass 0, part 0, before",
    "pass 0, part 5, after",
    "pass 1, part 0, before",
    "pass 1, part 5, after",
]


def test_workers_that_are_killed_at_every_stage_have_their_parts_screened_again(tmp_path, processes):
    with Dask(processes.scheduler_address) as engine:
        clf = clone(CLASSIFIER).set_params(engine=engine)
        clf.learn_blocks(Deadly(tmp_path, *STAGES), budget_bytes=25_000)
    assert len(list(tmp_path.glob("killed*"))) == len(STAGES)
    assert clf.state_digest() == WHOLE


def test_a_part_that_kills_every_worker_is_an_error(tmp_path, processes):
    processes.scheduler.allowed_failures, before = 0, processes.scheduler.allowed_failures
    clf = clone(CLASSIFIER)
    try:
        with Dask(processes.scheduler_address) as engine, pytest.raises(EngineError, match="smaller row groups"):
            clf.set_params(engine=engine).learn_blocks(Deadly(tmp_path, STAGES[0]), budget_bytes=25_000)
    finally:
        processes.scheduler.allowed_failures = before
    assert not clf.__sklearn_is_fitted__()


DRIVER = """
import os, signal, sys
from erasable.engines import Dask
from erasable.operations.learn import Columns, LearnOptions, learn_table
address, source, out, fatal = sys.argv[1:]
calls = []
def note(what, done, of):
    calls.append(done)
    if len(calls) == int(fatal):
        os.kill(os.getpid(), signal.SIGKILL)
learn_table(out, source, Columns("y", id="id", subject="who"), parameters={"threshold": 0.05}, score=False,
            options=LearnOptions(engine=Dask(address), budget_bytes=25_000), watch=note)
"""


def test_a_driver_that_is_killed_leaves_nothing_and_the_next_one_learns_all(tmp_path, threads):
    folder, out = parquet_folder(tmp_path / "t", 3, 30), tmp_path / "m.erasable"
    plain = ModelFile(tmp_path / "plain.erasable")
    with stream_table(folder, **COLUMNS) as stream:
        plain.learn(stream, new=ErasableClassifier(threshold=0.05, feature_names=stream.feature_names))
    for kill in (12, 0):  # in the second pass
        command = [sys.executable, "-c", DRIVER, threads.scheduler_address, str(folder), str(out), str(kill)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (done.returncode != 0) == bool(kill), done.stderr
        assert out.exists() == (not kill)
    assert out.read_bytes() == (tmp_path / "plain.erasable").read_bytes()


# -- what lies on the workers already ------------------------------------------------------------------------------


def persisted(client):
    """The rows as a dataframe and as arrays whose partitions are on the workers."""
    import dask.array as da

    dd = pytest.importorskip("dask.dataframe", reason="Dask has no dataframes here")
    frame = client.persist(dd.from_pandas(arrow_table().to_pandas(), npartitions=5, sort=False))
    lazy = [da.from_array(part, chunks=(200, *part.shape[1:])) for part in (X, Y, IDS)]
    return frame, ArrayRows(client.persist(lazy[0]) * 1, lazy[1], client.persist(lazy[2]), OWNERS)


def test_persisted_collections_are_screened_where_they_lie(threads):
    import distributed

    with distributed.Client(threads, set_as_default=False) as client:
        frame, arrays = persisted(client)
        with stream_table(frame, **COLUMNS) as stream, Dask(threads.scheduler_address) as another:
            for engine in (Dask(client), another, None, Local(threads=2)):
                for rows in (stream, arrays):
                    clf = clone(CLASSIFIER)
                    report = clf.learn_blocks(rows, engine=engine, budget_bytes=25_000)
                    assert clf.state_digest() == WHOLE
                    assert len(report.rounds) > 1
            part = stream.parts()[0]
            assert len(part.awaited()) == 1
            assert not pickle.loads(pickle.dumps(part)).awaited()  # no row is sent with it
        with cluster_of(1, processes=False, protocol="tcp://") as other, Dask(other.scheduler_address) as engine:
            clf = clone(CLASSIFIER)
            with pytest.raises(EngineError, match="persisted on another cluster"):
                clf.learn_blocks(arrays, engine=engine)
        assert not clf.__sklearn_is_fitted__()


def test_a_worker_that_dies_with_its_partition(processes):
    """It is made again where Dask knows how; else nothing is learnt."""
    import distributed

    dd = pytest.importorskip("dask.dataframe", reason="Dask has no dataframes here")
    with distributed.Client(processes, set_as_default=False) as client:
        frame, arrays = persisted(client)
        kill_one(client)
        with stream_table(frame, **COLUMNS) as stream:
            for rows in (stream, arrays):
                clf = clone(CLASSIFIER).set_params(engine=Dask(client))
                clf.learn_blocks(rows, budget_bytes=25_000)
                assert clf.state_digest() == WHOLE
        pieces = [arrow_table(at).to_pandas() for at in np.array_split(np.arange(N), 4)]
        scattered = client.persist(dd.from_delayed(client.scatter(pieces), meta=pieces[0].iloc[:0]))
        client.compute(scattered).result()
        for _ in range(2):
            kill_one(client)
        clf = clone(CLASSIFIER).set_params(engine=Dask(client))
        with stream_table(scattered, **COLUMNS) as stream, pytest.raises(ErasableError, match=r"persist|cluster"):
            clf.learn_blocks(stream, budget_bytes=25_000)
        assert not clf.__sklearn_is_fitted__()


def kill_one(client):
    """SIGKILL for a worker; its nanny starts another."""
    import os
    import signal

    def folders():
        return {one["local_directory"] for one in client.scheduler_info(n_workers=-1)["workers"].values()}

    before = folders()
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    until(lambda: not before <= folders())  # another one may have its address
    client.wait_for_workers(2, timeout=PATIENCE)


def test_files_of_csv_are_read_by_the_workers(tmp_path, engine):
    import pyarrow.csv

    for k, at in enumerate(np.array_split(np.arange(N), 4)):
        pyarrow.csv.write_csv(arrow_table(at), tmp_path / f"part-{k}.csv")
    for columns in (COLUMNS, {"label": "y", "ignore": ["id", "who"]}):  # rows without ids are numbered
        with stream_table(str(tmp_path / "*.csv"), **columns) as stream:
            plain = clone(CLASSIFIER)
            plain.learn_blocks(stream)
            clf = clone(CLASSIFIER).set_params(engine=engine)
            report = clf.learn_blocks(stream, budget_bytes=25_000)
            parts = pickle.loads(pickle.dumps(stream.parts()))
        assert clf.state_digest() == plain.state_digest()
        assert [sum(len(block.y) for block in part) for part in parts] == [225] * 4
        rows_in_text = sum(path.stat().st_size for path in tmp_path.glob("*.csv"))
        assert report.rounds[-1].bytes_moved < rows_in_text  # files were named, not sent
    with stream_table(str(tmp_path / "*.csv"), **COLUMNS) as stream:
        (tmp_path / "part-2.csv").unlink()
        clf = clone(CLASSIFIER).set_params(engine=engine)
        with pytest.raises(InputError, match=r"part-2\.csv"):
            clf.learn_blocks(stream)
        assert not clf.__sklearn_is_fitted__()


# -- bad input ----------------------------------------------------------------------------------------------------


def test_a_scheduler_that_does_not_answer():
    with pytest.raises(EngineError, match=r"does not answer.*address"):
        clone(CLASSIFIER).set_params(engine=Dask("tcp://127.0.0.1:9", timeout=1)).fit(X, Y)


def test_a_scheduler_without_workers():
    def refused(seconds):
        with Dask(made.scheduler.address, timeout=seconds) as engine, pytest.raises(EngineError) as caught:
            clone(CLASSIFIER).set_params(engine=engine).fit(X, Y)
        return "has workers" in str(caught.value)  # and not that it does not answer in time

    with cluster_of(0, processes=False) as made:
        with_longer(0.5, refused)


def test_workers_of_another_version(engine, monkeypatch):
    monkeypatch.setattr(cluster, "_facts", lambda dask_worker: ("0.0.1", False))
    with pytest.raises(EngineError, match="2 of 2 workers have another version"):
        clone(CLASSIFIER).set_params(engine=engine).fit(X, Y)
    with pytest.raises(EngineError, match="another version"):
        cluster._run(None, b"", 0, None, "0.0.1")  # a worker that comes later


def test_workers_that_may_write_rows_to_disk():
    import distributed

    how = {"processes": False, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": "1GB"}
    with distributed.LocalCluster(n_workers=1, **how) as made, Dask(made.scheduler.address) as engine:
        clf = clone(CLASSIFIER).set_params(engine=engine)
        with pytest.raises(EngineError, match="write rows to disk"):
            clf.fit(X, Y)


def test_a_part_that_cannot_be_read_and_parts_with_other_columns(tmp_path, engine):
    folder = parquet_folder(tmp_path / "t", 3, 50)
    clf = clone(CLASSIFIER).set_params(engine=engine)
    with stream_table(folder, **COLUMNS) as stream:
        (folder / "part-1.parquet").unlink()
        with pytest.raises(InputError, match=r"part-1\.parquet"):
            clf.learn_blocks(stream)
    assert not clf.__sklearn_is_fitted__()
    pq.write_table(arrow_table().rename_columns([*(f"g{j}" for j in range(D)), "y", "id", "who"]), folder / "z.parquet")
    with pytest.raises(InputError, match="same columns"):
        stream_table(folder, **COLUMNS)


def test_rows_without_ids_in_parts_of_unknown_length(engine):
    class Part(RowSource):
        def __iter__(self):
            yield Rows(X, Y)

    class Unsized(Part):
        def parts(self):
            return [Part() for _ in range(4)]

    with pytest.raises(InputError, match=r"ids are required.*how many rows"):
        clone(CLASSIFIER).set_params(engine=engine).learn_blocks(Unsized())


def test_parameters_are_checked():
    with pytest.raises(ConfigurationError, match="workers= is for a cluster on this machine"):
        Dask("tcp://x:1", workers=2)
    with pytest.raises(ConfigurationError, match="scheduler must be text"):
        clone(CLASSIFIER).set_params(engine=Dask(3)).fit(X, Y)
