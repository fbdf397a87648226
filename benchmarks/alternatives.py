"""Other ways to forget, next to ours, on one table: what each stores, costs and leaves to check.

    make bench ARGS="--only alternatives --data DIR"

All of it runs in one process on the census table *adult*. Peers take part where they are installed: LightGBM,
``hessboost`` (from PyPI) and ``dare`` (https://github.com/jjbrophy47/dare_rf, built from source).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import pickle
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.comparison import Task, timed
from benchmarks.sets import raw_tables
from benchmarks.tools import table
from erasable import ErasableClassifier, ModelFile
from erasable.research.baselines import SISAClassifier

PEOPLE = 7  # who are forgotten, one after the other
SHARDS = 20
EPSILON, DELTA, ALPHA = 1.0, 1e-6, 0.001  # of differential privacy; the regulariser by which noise is bounded
INTRODUCTION = f"""## Alternatives

Ways to forget a person, on the raw table *adult*: {{rows:,}} people to learn from, one row each, {{tests:,}} others to
score. "Same as anew" compares the predictions for all of these, bit for bit, with those of a model that was learnt
without the {PEOPLE} people who were forgotten.

- *Seconds* are processor time on one thread, on a shared machine: to learn, the fastest of three, and to forget one
  stored person and predict again, the median of {PEOPLE}. For peers rows are encoded beforehand, and nothing is
  written; for us both include encoding raw rows and the durable file.
- *Kept* is all that must be kept to forget the next person: for peers the training rows as compressed Parquet and the
  model, without an index from people to rows; for us the file.
- *LightGBM* and *hessboost* have 100 trees, the latter at depth 6 and rate 0.1. *SISA* has {SHARDS} shards, each with
  LightGBM, and averages their probabilities.
- *DaRE* has 50 trees of depth 20 and 5 candidate thresholds, on one-hot columns, as its authors used for this table.
  Kept is what its nodes take in memory, with the rows.
- *Differential privacy* is logistic regression on rows of norm one, on the columns of our schema, with Gaussian noise
  on its weights, one draw of it (epsilon {EPSILON:g}, delta {DELTA:g}, alpha {ALPHA:g}). That the schema was drafted
  from the same rows is not accounted for.
- *Not measured*: DynFrs, which has no Python package, and certified removal, which
  [the paper's experiments](#the-papers-experiments) have.

Versions: {{versions}}.

"""
HEAD = ["way", "rows kept", "kept, MB", "learn, s", "forget, s", "AUC", "log-loss", "same as anew"]


class _Way:
    """One way to forget: ``learn``, ``forget`` one person, ``scores`` of rows, ``megabytes`` to keep."""

    def __init__(self, task, train):
        self.task, self.train, self.rows = task, train, self.encode(task)
        self.y = task.y[train] == np.unique(task.y)[1]
        self.left = np.ones(len(train), dtype=bool)

    def encode(self, task):
        """All rows, learnt and scored, as the way takes them; not timed."""
        return task.frame()

    @property
    def kept(self):
        """Rows that must be kept."""
        return int(self.left.sum())

    def stored(self):
        """Positions of the people who can be forgotten."""
        return np.arange(len(self.train))

    def forget(self, person):
        """Learn again without a person, unless the way has something better."""
        self.left[person] = False
        self.learn()

    def table_megabytes(self):
        """The rows as compressed Parquet."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rows.parquet")
            self.task.data.frame.iloc[self.train[self.left]].to_parquet(path, compression="zstd", index=False)
            return path.stat().st_size / 1e6


class _Retrained(_Way):
    """LightGBM, trained again on all rows that are left."""

    name = "LightGBM, trained again"

    def learn(self):
        from lightgbm import LGBMClassifier

        rows = self.rows.iloc[self.train[self.left]]
        self.model = LGBMClassifier(verbose=-1, n_jobs=1).fit(rows, self.y[self.left])

    def scores(self, part):
        return self.model.predict_proba(self.rows.iloc[part])[:, 1]

    def megabytes(self):
        return self.table_megabytes() + len(self.model.booster_.model_to_string()) / 1e6


class _Boosted(_Way):
    """hessboost with exact updates."""

    name = "hessboost, exact update"

    def learn(self):
        from hessboost import DMatrix
        from hessboost.online import Exact, OnlineModel

        rows = DMatrix(self.rows.iloc[self.train[self.left]], label=self.y[self.left], enable_categorical=True)
        how = {"objective": "binary:logistic", "tree_method": "hist", "max_depth": 6, "eta": 0.1, "nthread": 1}
        self.model, self.numbers = OnlineModel.train(how, rows, 100, Exact()), np.flatnonzero(self.left)

    def forget(self, person):
        place = int(np.flatnonzero(self.numbers == person)[0])
        self.model.update(deletions=[place])
        self.numbers, self.left[person] = np.delete(self.numbers, place), False

    def scores(self, part):
        from hessboost import DMatrix

        return self.model.model.predict(DMatrix(self.rows.iloc[part], enable_categorical=True))

    def megabytes(self):
        return self.table_megabytes() + len(self.model.model.save_raw()) / 1e6


class _Sharded(_Way):
    """SISA: a deletion trains one shard again."""

    name = f"SISA, {SHARDS} shards"

    def encode(self, task):
        frame = task.frame()
        for name in frame.select_dtypes("category"):
            frame[name] = frame[name].cat.codes
        return frame.to_numpy(np.float64)

    def learn(self):
        from lightgbm import LGBMClassifier

        rows = np.flatnonzero(self.left)
        self.model = SISAClassifier(LGBMClassifier(verbose=-1, n_jobs=1), SHARDS, 1)
        self.model.fit(self.rows[self.train[rows]], self.y[rows], ids=rows.tolist())

    def forget(self, person):
        self.model.forget(ids=[int(person)])
        self.left[person] = False

    def scores(self, part):
        return np.mean([shard.voter.predict_proba(self.rows[part])[:, 1] for shard in self.model._shards], axis=0)

    def megabytes(self):
        return self.table_megabytes() + sum(len(pickle.dumps(shard.voter)) for shard in self.model._shards) / 1e6


class _Forest(_Way):
    """DaRE: a forest whose nodes keep what is needed to remove a row."""

    name = "DaRE, 50 trees"

    def encode(self, task):
        return pd.get_dummies(task.frame(), dummy_na=True, dtype=np.float32).to_numpy(np.float32)

    def learn(self):
        import dare

        self.model = dare.Forest(n_estimators=50, max_depth=20, k=5, topd=0, random_state=1)
        self.numbers = np.flatnonzero(self.left)
        self.model.fit(self.rows[self.train[self.left]], self.y[self.left].astype(np.int32))

    def forget(self, person):
        self.model.delete(int(np.flatnonzero(self.numbers == person)[0]))
        self.left[person] = False

    def scores(self, part):
        return self.model.predict_proba(self.rows[part])[:, 1]

    def megabytes(self):
        return self.table_megabytes() + sum(self.model.get_memory_usage()) / 1e6


class _Private(_Way):
    """Logistic regression with Gaussian noise on its weights: nobody's row counts for much, so nothing is forgotten."""

    name = f"differential privacy, epsilon {EPSILON:g}"
    kept = 0

    def __init__(self, task, train, schema):
        self.schema = schema
        super().__init__(task, train)

    def encode(self, task):
        rows = np.asarray(self.schema.encode(task.rows(slice(None)))[0].todense(), dtype=np.float64)
        rows = np.hstack([rows, np.ones((len(rows), 1))])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def learn(self):
        X, t = self.rows[self.train], np.where(self.y, 1.0, -1.0)

        def loss(w):
            margin = t * (X @ w)
            slope = -t / (1.0 + np.exp(margin))
            return np.logaddexp(0, -margin).mean() + ALPHA / 2 * w @ w, X.T @ slope / len(t) + ALPHA * w

        weights = minimize(loss, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B").x
        reach = 2.0 / (len(t) * ALPHA)  # how far one row can move the weights
        noise = reach * np.sqrt(2 * np.log(1.25 / DELTA)) / EPSILON
        self.weights = weights + np.random.default_rng(0).normal(0.0, noise, len(weights))

    def stored(self):
        return np.empty(0, dtype=int)

    def scores(self, part):
        return 1.0 / (1.0 + np.exp(-self.rows[part] @ self.weights))

    def megabytes(self):
        return self.weights.nbytes / 1e6


class _Ours(_Way):
    """A model of ours in a file, which encodes rows itself."""

    def __init__(self, task, train, schema, name, **how):
        super().__init__(task, train)
        self.name, self.how = name, how | {"feature_map": schema}
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "model.erasable")

    def learn(self):
        rows = np.flatnonzero(self.left)
        model = ErasableClassifier(**self.how)
        model.fit(self.rows.iloc[self.train[rows]], self.task.y[self.train[rows]], ids=rows.tolist())
        model.save(self.path, overwrite=True)
        self.file = ModelFile(self.path)

    def encode(self, task):
        return task.rows(slice(None))

    @property
    def kept(self):
        return self.file.model.n_core_

    def stored(self):
        return np.sort(self.file.model.core_ids_)

    def forget(self, person):
        self.file.forget(ids=[int(person)])
        self.left[person] = False

    def scores(self, part):
        return self.file.model.predict_proba(self.rows.iloc[part])[:, 1]

    def megabytes(self):
        return self.path.stat().st_size / 1e6


def ways(task, train):
    """The ways that can be measured here."""
    peers = {"lightgbm": [_Retrained, _Sharded], "hessboost": [_Boosted], "dare": [_Forest]}
    for package, kinds in peers.items():
        if importlib.util.find_spec(package):
            yield from (kind(task, train) for kind in kinds)
    schema = task.data.schema(train)
    yield _Private(task, train, schema)
    yield _Ours(task, train, schema, "**erasable, independent**")
    yield _Ours(task, train, schema, "**erasable, leverage**", selection="leverage")
    if importlib.util.find_spec("lightgbm"):
        yield _Ours(task, train, schema, '**erasable, independent, `learner="lightgbm"`**', learner="lightgbm")
        yield _Ours(task, train, schema, '**erasable, every row, `learner="lightgbm"`**', learner="lightgbm", rate=1.0)


def versions():
    """The versions of the peers that are installed."""
    for package, name in (("lightgbm", "LightGBM"), ("hessboost", "hessboost"), ("dare", "DaRE")):
        if importlib.util.find_spec(package):
            try:
                yield f"{name} {importlib.metadata.version(package)}"
            except importlib.metadata.PackageNotFoundError:  # built in its folder
                yield f"{name} from its repository"


def measured(way, test):
    """The row of the table, and the seconds of the clock that forgetting took."""
    y = way.task.y[test] == np.unique(way.task.y)[1]
    learning = min(timed(lambda: (way.learn(), way.scores(test[:1])))[1] for _ in range(3))
    kept, megabytes, scores = way.kept, way.megabytes(), way.scores(test)
    people = np.random.default_rng(1).permutation(way.stored())[:PEOPLE]
    seconds, clocks = [], []
    for person in people:
        start = time.perf_counter()
        seconds.append(timed(lambda p=person: (way.forget(p), way.scores(test[:1])))[1])
        clocks.append(time.perf_counter() - start)
    forgotten, same = "nothing to do", ""
    if len(people):
        after = way.scores(test)
        way.learn()
        same = "yes" if np.array_equal(after, way.scores(test)) else "no"
        forgotten = f"{np.median(seconds):.3g}"
    figures = [f"{learning:.3g}", forgotten, f"{roc_auc_score(y, scores):.4f}", f"{log_loss(y, scores):.4f}"]
    clock = float(np.median(clocks)) if clocks else 0.0
    return [way.name, f"{kept / len(way.train):.1%}", f"{megabytes:.3g}", *figures, same], clock


def alternatives(options):
    """The section."""
    if not options.data:
        return "## Alternatives\n\nNot measured: the table is in the folder that `--data` names.\n"
    task = Task(next(raw_tables(Path(options.data))))
    train, test = next(task.folds())
    rows, clock = [], 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way in ways(task, train):
            row, seconds = measured(way, test)
            rows.append(row)
            clock = seconds if row[0] == "**erasable, independent**" else clock
            print(*row, flush=True)
    rows.append(["drop the model", "0.0%", "0", "", "nothing to do", "", "", ""])
    text = INTRODUCTION.format(rows=len(train), tests=len(test), versions=", ".join(versions()))
    text += f"<!-- figures -->\n\n{table(HEAD, rows)}\n<!-- end of figures -->\n\n"  # shown by docs/compare.md
    text += f"By the clock, a durable erasure with `erasable, independent` took {clock:.2g} s.\n"
    return text + "Leverage equals learning the *stored* rows anew, which `verify` checks, not all rows.\n"
