"""The experiment itself: train, delete, measure.

Methods take turns, so that whatever disturbs the machine disturbs all of them; every timed fit follows an untimed one
of its own. Requests are timed one at a time, with the model ready to predict after each, and again in batches.
"""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import json
import os
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from erasable.errors import ConfigurationError, ErasableError, NoRowsError
from erasable.estimators import ErasableClassifier
from erasable.operations.rendering import make_folder
from erasable.research import measuring
from erasable.research.reproduce.requests import Request, load, requests
from erasable.research.reproduce.settings import METHODS, SWEEP, Method, RowsFromClients, Settings, check, complete
from erasable.tables import Split, Table

Watch = Callable[[str, int, int], None]  # what is being done, how much is done, how much there is
_LONG = 5.0  # seconds: a fit longer than this is timed once


def run_experiment(
    settings: Settings, out: Path, watch: Watch = lambda *_: None, *, fresh: bool = False
) -> tuple[Settings, dict[str, Any]]:
    """Run an experiment, or what is left of it, and get the settings in full and all measurements.

    Raises ConfigurationError before any long work: settings, data or a method cannot work.

    Parameters
    ----------
    settings : Settings
    out : Path
        Folder of the journal. Measurements found there are not made again.
    watch : callable, optional
        Called with (what is being done, how much is done, how much there is).
    fresh : bool
        Pay no heed to measurements found there.
    """
    check(settings, tuple(METHODS))
    split = load(settings)
    settings = complete(settings, split)
    # Requests by subject are fewer than rows, and name whole subjects.
    wanted = requests(settings, split, np.empty(0, dtype=np.intp))
    points = min(settings.points, len(wanted))
    settings = dataclasses.replace(settings, points=points, deletions=sum(map(len, wanted)))
    identity = {**settings.as_json(), "file": fingerprint(settings.dataset), "rows": split.train.n_rows}
    identity["schema"] = None if settings.schema is None else fingerprint(settings.schema)
    identity["dataset"] = settings.name if identity["file"] else settings.dataset  # the same file under another path
    experiment = _Experiment(settings, Journal(out, identity, fresh=fresh), watch)
    for name in settings.methods:
        experiment.rehearse(name, split)
    experiment.describe(split)
    experiment.training(split)
    experiment.one_at_a_time(split)
    experiment.memory(split)
    experiment.sweep(split)
    experiment.batches(split)
    return settings, experiment.journal.entries


class _Experiment:
    def __init__(self, settings: Settings, journal: Journal, watch: Watch) -> None:
        self.settings, self.journal, self.watch = settings, journal, watch
        self.share = 1.0

    def method(self, name: str, n: int) -> tuple[Method, Any]:
        """A contestant and an unfitted model of it."""
        return METHODS[name], METHODS[name].build(self.settings, n, self.share)

    def rehearse(self, name: str, split: Split) -> None:
        """Let a method learn and forget a few rows: what it cannot take shows now, and its code is warm."""
        n = split.train.n_rows
        labels = split.train.y
        few = np.concatenate([np.flatnonzero(labels == c)[:100] for c in np.unique(labels)])
        part = split.train.take(np.sort(few))
        method, model = self.method(name, n)
        try:
            if isinstance(model, ErasableClassifier) and model.threshold is None:
                model.set_params(horizon=n)
            fit(model, part, method)
            forget(model, [[_plain(key) for key in part.ids[:1]]], method)  # type: ignore[index]
            model.predict(split.test.X[:10])
        except (ErasableError, TypeError, ValueError) as error:
            raise ConfigurationError(f"{name} cannot take this data: {error}") from None

    def describe(self, split: Split) -> None:
        """The data, and what ours keeps of it."""
        self.core = self._core_of(split.train)
        self.share = len(self.core) / split.train.n_rows
        core_ids = {_plain(key) for key in split.train.take(self.core).ids}  # type: ignore[union-attr]
        wanted = [key for request in requests(self.settings, split, self.core) for key in request]
        labels, counts = np.unique(split.train.y, return_counts=True)
        self.journal.once(
            "data",
            lambda: {
                "rows": split.train.n_rows,
                "test_rows": split.test.n_rows,
                "features": split.train.n_features,
                "classes": len(labels),
                "class_shares": (counts / counts.sum()).round(4).tolist(),
                "majority": float(np.mean(split.test.y == labels[np.argmax(counts)])),
                "fitted": split.train.fitted,
                "core_share": self.share,
                "requests_in_core": sum(key in core_ids for key in wanted) / len(wanted),
            },
        )

    def _core_of(self, train: Table) -> npt.NDArray[np.intp]:
        """Positions of the rows that ours keeps, in learning order."""
        method, ours = self.method("erasable", train.n_rows)
        fit(ours, train, method)
        place = {_plain(key): i for i, key in enumerate(train.ids)}  # type: ignore[arg-type]
        return np.array([place[_plain(key)] for key in ours.core_ids_], dtype=np.intp)

    def training(self, split: Split) -> None:
        """Initial training, timed in turns, and what is stored after it."""
        names = [m for m in self.settings.methods if f"training/{m}" not in self.journal.entries]
        seconds: dict[str, list[float]] = {name: [] for name in names}
        stored: dict[str, dict[str, Any]] = {}
        rounds = 1 if self.settings.quick else 3
        for k in range(rounds):
            for i, name in enumerate(names):
                self.watch("training", k * len(names) + i, rounds * len(names))
                if k and max(seconds[name]) > _LONG:
                    continue
                method, model = self.method(name, split.train.n_rows)
                took = fit(model, split.train, method)
                if took <= _LONG:
                    measuring.settle()
                    took = fit(model, split.train, method)
                seconds[name].append(took)
                g = model.guarantee
                stored[name] = {
                    "stored_rows": model.stored_rows_,
                    "stored_bytes": model.stored_bytes_,
                    "guarantee": {
                        "definition": g.definition,
                        "of": g.of,
                        "epsilon": g.epsilon,
                        "delta": g.delta,
                        "assumptions": list(g.assumptions),
                    },
                }
                del model
        for name in names:
            self.journal.enter(f"training/{name}", {"seconds": seconds[name], **stored[name]})
        self.watch("training", 1, 1)

    def one_at_a_time(self, split: Split) -> None:
        """Requests one at a time, the methods taking turns after every stretch."""
        s, entries = self.settings, self.journal.entries
        wanted = requests(s, split, self.core)
        stretches = [list(part) for part in np.array_split(np.arange(len(wanted)), s.points)]
        done = sum(f"one/{i}" in entries for i in range(s.points))
        if done == s.points and "digests/one" in entries:
            return
        models = {}
        for name in s.methods:
            method, model = self.method(name, split.train.n_rows)
            fit(model, split.train, method)
            if done:  # a stopped run: what was deleted then is deleted at once now
                forget(model, [[k for part in stretches[:done] for i in part for k in wanted[int(i)]]], method)
            models[name] = model
        if not done:
            self.journal.once("start", lambda: {name: scores(models[name], split.test) for name in s.methods})
        for i in range(done, s.points):
            part = [wanted[int(k)] for k in stretches[i]]
            turn = s.methods[i % len(s.methods) :] + s.methods[: i % len(s.methods)]
            found = {}
            for k, name in enumerate(turn):
                self.watch("deleting, one request at a time", i * len(turn) + k, s.points * len(turn))
                took, timed = timed_requests(models[name], part, METHODS[name], s.time_limit / s.points)
                found[name] = {"seconds": took, "timed": timed, "requests": len(part), "rows": sum(map(len, part))}
                found[name].update(scores(models[name], split.test))
            self.journal.enter(f"one/{i}", found)
        ends = {m: models[m].state_digest() for m in models if isinstance(models[m], ErasableClassifier)}
        self.journal.enter("digests/one", ends)
        self.watch("deleting, one request at a time", 1, 1)

    def batches(self, split: Split) -> None:
        """The same requests in as many batches as there are stretches; again on fresh data for every repeat."""
        s = self.settings
        for repeat in range(s.repeats):
            names = [m for m in s.methods if f"batches/{repeat}/{m}" not in self.journal.entries]
            if not names:
                continue
            data = split if repeat == 0 else load(s, repeat)
            core = self._core_of(data.train) if repeat and s.order == "core-first" else self.core
            wanted = requests(s, data, core, repeat)
            for i, name in enumerate(names):
                at = repeat * len(s.methods) + len(s.methods) - len(names) + i
                self.watch("deleting in batches", at, s.repeats * len(s.methods))
                self.journal.enter(f"batches/{repeat}/{name}", self._in_batches(name, data, wanted, repeat))
        self.watch("deleting in batches", 1, 1)

    def _in_batches(self, name: str, data: Split, wanted: list[Request], repeat: int) -> dict[str, Any]:
        method, model = self.method(name, data.train.n_rows)
        fit(model, data.train, method)
        points = [scores(model, data.test)]
        seconds, deleted = [], [0]
        for part in np.array_split(np.arange(len(wanted)), self.settings.points):
            batch = [key for k in part for key in wanted[int(k)]]
            seconds.append(forget(model, [batch], method))
            deleted.append(deleted[-1] + len(batch))
            points.append(scores(model, data.test))
        if repeat == 0 and isinstance(model, ErasableClassifier):
            self.journal.enter(f"digests/batches/{name}", model.state_digest())
        return {
            "seconds": seconds,
            "deleted": deleted,
            "accuracy": [p["accuracy"] for p in points],
            "balanced": [p["balanced"] for p in points],
        }

    def memory(self, split: Split) -> None:
        """Peak of what Python and NumPy allocate for training and for deleting in batches, above the input."""
        s = self.settings
        for i, name in enumerate(s.methods):
            self.watch("measuring memory", i, len(s.methods))
            self.journal.once(f"memory/{name}", lambda name=name: self._peaks(name, split))  # type: ignore[misc]
        self.watch("measuring memory", 1, 1)

    def _peaks(self, name: str, split: Split) -> dict[str, int]:
        method, model = self.method(name, split.train.n_rows)
        wanted = [key for request in requests(self.settings, split, self.core) for key in request]
        gc.collect()
        tracemalloc.start()
        try:
            fit(model, split.train, method)
            training = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            forget(model, [list(part) for part in (wanted[: len(wanted) // 2], wanted[len(wanted) // 2 :])], method)
            return {"training": training, "deleting": tracemalloc.get_traced_memory()[1]}
        finally:
            tracemalloc.stop()

    def sweep(self, split: Split) -> None:
        """Stored share and accuracy of ours along kappa."""
        s = self.settings
        values = sorted({*SWEEP, float(s.kappa or 0.0)})
        for i, kappa in enumerate(values):
            self.watch("sweeping kappa", i, len(values))
            self.journal.once(f"sweep/{kappa}", lambda kappa=kappa: self._at(kappa, split))  # type: ignore[misc]
        self.watch("sweeping kappa", 1, 1)

    def _at(self, kappa: float, split: Split) -> dict[str, Any] | None:
        _, model = self.method("erasable", split.train.n_rows)
        try:
            took = fit(model.set_params(kappa=kappa), split.train, METHODS["erasable"])
        except ConfigurationError:  # nothing would ever be selected
            return None
        if not model.n_core_:
            return None
        return {
            "kappa": kappa,
            "share": model.n_core_ / split.train.n_rows,
            "seconds": took,
            **scores(model, split.test),
        }


def fit(model: Any, table: Table, method: Method) -> float:
    """Seconds until the model can predict."""
    with warnings.catch_warnings(action="ignore"):  # an experiment warns of nothing
        start = time.perf_counter()
        model.fit(table.X, table.y, ids=table.ids)
        if method.lazy:
            _ = model.coef_
        return time.perf_counter() - start


def forget(model: Any, wanted: list[Request], method: Method) -> float:
    """Seconds for these requests, one after the other, the model ready after each."""
    lazy = method.lazy
    asked = [model.brought(ids) for ids in wanted] if isinstance(model, RowsFromClients) else wanted
    start = time.perf_counter()
    for request in asked:
        model.forget_quietly(request)
        if lazy:
            _ = model.coef_
    return time.perf_counter() - start


def timed_requests(model: Any, wanted: list[Request], method: Method, limit: float) -> tuple[float, int]:
    """Seconds and number of requests timed one at a time; what does not fit into the limit is done at once, untimed."""
    measuring.settle()
    seconds, timed, size = 0.0, 0, 1
    while timed < len(wanted) and seconds < limit:
        part = wanted[timed : timed + size]
        seconds += forget(model, part, method)
        timed += len(part)
        size = min(512, max(1, int(timed / seconds * limit / 8))) if seconds > 0.0 else 512
    rest = [key for request in wanted[timed:] for key in request]
    if rest:
        forget(model, [rest], method)
    return seconds, timed


def scores(model: Any, test: Table) -> dict[str, float]:
    """Accuracy and balanced accuracy on the test rows; zero for a model that has no rows left to predict from."""
    try:
        predicted = model.predict(test.X)
    except NoRowsError:
        return {"accuracy": 0.0, "balanced": 0.0}
    return {
        "accuracy": float(accuracy_score(test.y, predicted)),
        "balanced": float(balanced_accuracy_score(test.y, predicted)),
    }


def _plain(key: Any) -> Any:
    return key.item() if isinstance(key, np.generic) else key


FORMAT = 2


class Journal:
    """Named measurements in one JSON file, rewritten atomically after each.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    settings : dict
        What the run is about. A folder that holds another run is refused.
    fresh : bool
        Start over; what the folder holds is replaced when the first entry is made.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], *, fresh: bool = False) -> None:
        make_folder(folder)
        self.path = folder / "journal.json"
        self.entries: dict[str, Any] = {}
        about = {"format": FORMAT, "settings": json.loads(json.dumps(settings))}
        if self.path.exists() and not fresh:
            found = self._read()
            if {key: found.get(key) for key in about} != about:
                old = found.get("settings", {})
                changed = sorted(k for k in {*old, *about["settings"]} if old.get(k) != about["settings"].get(k))
                raise ConfigurationError(
                    f"{folder} holds a run with other settings ({', '.join(changed) or 'an older version'}): "
                    "choose another --out, or start over with --fresh."
                )
            self.entries = found["entries"]
        self.about = about

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            if isinstance(found, dict) and isinstance(found["entries"], dict):
                return found
        except (OSError, ValueError, KeyError):
            pass
        raise ConfigurationError(f"{self.path} is damaged: start over with --fresh.")

    def once(self, name: str, work: Callable[[], Any]) -> Any:
        """The entry of this name; where there is none yet, the work is done and its result entered."""
        if name not in self.entries:
            self.enter(name, work())
        return self.entries[name]

    def enter(self, name: str, value: object) -> None:
        """Write an entry down."""
        self.entries[name] = value
        write(self.path, json.dumps({**self.about, "entries": self.entries}))


def write(path: Path, text: str) -> None:
    """Replace a whole file: it holds the old text or the new one, never half of either."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}. The old file is unchanged.") from None


def fingerprint(path: str) -> str | None:
    """SHA-256 of a file, or None where there is no such file: the same name may hold other data later."""
    file = Path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
