"""Rows with ties, near ties, duplicates and zeros, in memory and in files; and parts that kill who reads them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

from erasable import ErasableClassifier
from erasable.engines import Dask
from erasable.models.row_source import Rows, RowSource
from erasable.tables import stream_table
from tests.waiting import PATIENCE

N, D = 900, 6
RNG = np.random.default_rng(17)


@contextlib.contextmanager
def patient_clusters() -> Iterator[None]:
    """Nobody gives a cluster up because the machine is busy."""
    import dask
    import distributed  # noqa: F401

    # Imported only within the block, distributed would lose its settings when the block ends.
    limits = ("comm.timeouts.connect", "comm.timeouts.tcp", "deploy.lost-worker-timeout")
    with (
        dask.config.set({f"distributed.{limit}": f"{PATIENCE:.0f}s" for limit in limits}),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setitem(Dask.__init__.__kwdefaults__, "timeout", PATIENCE)
        yield


def rows() -> np.ndarray:
    X = RNG.standard_normal((N, D)) * np.geomspace(1.0, 0.1, D)
    X[100:200] = np.round(X[100:200])  # some are zero, many are equal
    X[200:260] = np.repeat(X[200:206], 10, axis=0)
    X[260:300] = np.eye(D)[RNG.integers(D, size=40)] * RNG.integers(1, 3, (40, 1))  # leverages that tie
    return X.astype(np.float32)


X = rows()
Y = np.where(X[:, 0] + 0.1 * X[:, 1] > 0, "yes", "no")
IDS = np.array([f"row-{i}" for i in RNG.permutation(N)], dtype=object)
OWNERS = np.array([f"who-{i % 37}" for i in range(N)], dtype=object)
CLASSIFIER = ErasableClassifier(threshold=0.05)
WHOLE = ErasableClassifier(threshold=0.05).fit(X, Y, ids=IDS, subjects=OWNERS).state_digest()
INDEPENDENT = ErasableClassifier(selection="independent", rate=0.1, moments=np.geomspace(0.5, 0.005, D))
ALONE = INDEPENDENT.fit(X, Y, ids=IDS, subjects=OWNERS).state_digest()
FIRST = 90
COLUMNS = {"label": "y", "id": "id", "subject": "who"}


def check_one_round(engine, folder):
    """Independent selection needs one pass over files on any engine, and only rows that are kept come back."""
    clf = clone(INDEPENDENT).set_params(engine=engine)
    with stream_table(folder, **COLUMNS) as stream:
        report = clf.learn_blocks(stream, budget_bytes=2_000)
    assert clf.state_digest() == ALONE
    (only,) = report.rounds
    assert (only.rows, only.survivors, only.core_rows_added) == (N, clf.n_core_, clf.n_core_)
    assert 0 < clf.n_core_ < N / 4


def in_two_calls(model, rows=X, answers=Y, ids=IDS, subjects=OWNERS):
    """The digest of a model that learns some rows, and then the others, all of which are then screened."""
    for cut in (slice(FIRST), slice(FIRST, None)):
        owners = {} if subjects is None else {"subjects": subjects[cut]}
        model.partial_fit(rows[cut], answers[cut], ids=ids[cut], **owners)
    return model.state_digest()


def arrow_table(at=slice(None)) -> pa.Table:
    columns = {f"f{j}": X[at][:, j] for j in range(D)}
    return pa.table({**columns, "y": Y[at].tolist(), "id": IDS[at].tolist(), "who": OWNERS[at].tolist()})


def parquet_folder(folder: Path, n_files: int = 3, row_group: int = 50, order=None) -> Path:
    """The rows, in any order, in several files of several row groups."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, at in enumerate(np.array_split(np.arange(N) if order is None else order, n_files)):
        pq.write_table(arrow_table(at), folder / f"part-{k}.parquet", row_group_size=row_group)
    return folder


class Deadly(RowSource):
    """Rows in parts, some of which kill the process that reads them, once at each of some stages."""

    def __init__(self, folder: Path, *stages: str, n_parts: int = 6) -> None:
        self.folder, self.stages, self.n_parts = folder, stages, n_parts

    def parts(self) -> list[DeadlyPart]:
        passes = len(list(self.folder.glob("pass-*")))
        (self.folder / f"pass-{passes}").touch()
        cuts = np.array_split(np.arange(N), self.n_parts)
        return [DeadlyPart(self.folder, self.stages, passes, k, at) for k, at in enumerate(cuts)]

    def __iter__(self):
        for at in np.array_split(np.arange(N), self.n_parts):
            yield Rows(X[at], Y[at], IDS[at], OWNERS[at])


class DeadlyPart(RowSource):
    def __init__(self, folder: Path, stages: tuple[str, ...], passes: int, k: int, at: np.ndarray) -> None:
        self.folder, self.stages, self.passes, self.k, self.at = folder, stages, passes, k, at
        self.n_rows = len(at)

    def __iter__(self):
        self._die("before")
        yield Rows(X[self.at], Y[self.at], IDS[self.at], OWNERS[self.at])
        self._die("after")

    def _die(self, when: str) -> None:
        stage = f"pass {self.passes}, part {self.k}, {when}"
        done = self.folder / f"killed at {stage}"
        if stage in self.stages and not done.exists():
            done.touch()
            os.kill(os.getpid(), signal.SIGKILL)
