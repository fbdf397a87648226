"""The steps of the demo. Each does one thing to the model, notes it down, and may add a remark."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from erasable.audit.keys import new_key
from erasable.audit.receipts import check_receipt, check_state
from erasable.audit.scan import scan
from erasable.errors import ConfigurationError
from erasable.estimators import ErasableClassifier, load
from erasable.operations.demo._figure import draw
from erasable.operations.demo._record import Demo, Step
from erasable.operations.learn import learn
from erasable.operations.model_file import ModelFile
from erasable.operations.verify import verify

N_PEOPLE, N_LEAVING, N_MORE = 100, 10, 85
_T = TypeVar("_T")


class Story:
    """A model, the data around it, and what has been noted down so far."""

    def __init__(self) -> None:
        # The data has no names, so people are drawn by lot: row i was written by people[i].
        X, y = load_digits(return_X_y=True)
        people = np.array([_name(k) for k in np.random.default_rng(0).integers(N_PEOPLE, size=len(X))])
        parts = train_test_split(X, y, people, np.arange(len(X)), test_size=0.3, random_state=0)
        self.X, self.X_test, self.y, self.y_test, self.people, _, self.ids, _ = parts
        self.row_of = {int(key): i for i, key in enumerate(self.ids)}
        self.leaving = [_name(k) for k in range(N_LEAVING)]
        self.clf = ErasableClassifier(capacity=0.1, kappa=0.25)
        self.core: list[int] = []  # rows of X in the core set before anybody left
        self.same = False
        self.steps: list[Step] = []
        self.remarks: list[str] = []
        self.curve: list[tuple[int, int, float]] = []
        self.picture: Path | None = None
        self.no_picture: str | None = None

    def learn(self) -> None:
        """Learn all rows; a small core set stays."""
        report = self._timed("learn", lambda: learn(self.clf, self.X, self.y, ids=self.ids, subjects=self.people))
        self.core = self._stored_rows()
        levels = report.decisions
        self.remarks.append(
            f"{report.rows:,} rows met: {levels.screened + levels.certified:,} decided in floating point with a proof, "
            f"{levels.enclosed + levels.exact} in exact arithmetic."
        )

    def forget(self) -> None:
        """Forget all rows of some people."""
        report = self._timed(f"forget {N_LEAVING} people", lambda: self.clf.forget(subjects=self.leaving))
        self.remarks.append(f"{report.core_rows_removed} core rows of {N_LEAVING} people left.")

    def verify(self) -> None:
        """Recompute the state from its own rows and compare."""
        self.remarks.append(str(self._timed("verify", lambda: verify(self.clf))))

    def refit(self) -> None:
        """Train a fresh model on the surviving core rows alone and compare the states byte for byte."""
        kept = self._stored_rows()
        fresh = clone(self.clf).set_params(threshold=self.clf.threshold_)
        fresh.fit(self.X[kept], self.y[kept], ids=self.ids[kept], subjects=self.people[kept])
        self.same = fresh.state_digest() == self.clf.state_digest()
        self._note("fresh fit on survivors", fresh, len(kept), None)

    def forget_in_a_file(self) -> None:
        """The same people leave a model kept in a file; the receipt is checked, and their rows are looked for."""
        with tempfile.TemporaryDirectory() as folder:
            path, key = Path(folder, "digits.erasable"), new_key()
            whole = clone(self.clf)
            whole.fit(self.X, self.y, ids=self.ids, subjects=self.people).save(path)
            file = ModelFile(path, key=key)
            start = time.perf_counter()
            report = file.forget(subjects=self.leaving)
            took = time.perf_counter() - start
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            check_state(check_receipt(report.receipt or "", key.public), digest)
            gone = np.flatnonzero(np.isin(self.people, self.leaving))
            found = scan(folder, self.X[gone], ids=self.ids[gone], subjects=self.people[gone])
            self._note("forget them in a file", load(path), len(self.X), took)
        self.same = self.same and digest == self.clf.state_digest() and found.clean
        self.remarks.append(
            "In a file: the new one durable, the old one overwritten; its sha256 is the digest and stands in a signed "
            f"receipt. A scan for the {len(gone)} rows of these people found {found.found or 'nothing'}."
        )

    def go_on(self, progress: Callable[[int, int], None]) -> None:
        """Let people leave until almost nobody is left, verifying after every five."""
        order = np.random.default_rng(1).permutation([_name(k) for k in range(N_LEAVING, N_PEOPLE)])
        self._look(0)
        for gone in range(5, N_MORE + 1, 5):
            self.clf.forget_quietly(subjects=order[gone - 5 : gone])  # that classes go is the point here
            verify(self.clf)
            self._look(gone)
            progress(gone, N_MORE)

    def draw(self, path: Path) -> None:
        """Draw what is stored, who left, and what becomes of the accuracy."""
        gone = {i for i in self.core if self.people[i] in self.leaving}
        try:
            draw(self.X, self.core, gone, self.curve, path)
        except ConfigurationError as error:
            self.no_picture = str(error)
        else:
            self.picture = path

    def told(self) -> Demo:
        """The record of it all."""
        picture = None if self.picture is None else str(self.picture)
        return Demo(tuple(self.steps), tuple(self.remarks), self.same, tuple(self.curve), picture, self.no_picture)

    def _timed(self, name: str, work: Callable[[], _T]) -> _T:
        start = time.perf_counter()
        result = work()
        self._note(name, self.clf, len(self.X), time.perf_counter() - start)
        return result

    def _note(self, name: str, clf: ErasableClassifier, offered: int, seconds: float | None) -> None:
        accuracy = float(clf.score(self.X_test, self.y_test))
        self.steps.append(Step(name, int(clf.n_core_), offered, accuracy, seconds, clf.state_digest()))

    def _look(self, gone: int) -> None:
        accuracy = float(self.clf.score(self.X_test, self.y_test))
        self.curve.append((N_PEOPLE - N_LEAVING - gone, int(self.clf.n_core_), accuracy))

    def _stored_rows(self) -> list[int]:
        keys: npt.NDArray[np.int64] = self.clf.core_ids_
        return [self.row_of[int(key)] for key in keys]


def _name(k: int) -> str:
    return f"person-{k:02d}"
