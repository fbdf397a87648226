"""Learn, forget, verify on handwritten digits: the whole idea in one short run."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

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
from erasable.operations.learn import learn
from erasable.operations.model_file import ModelFile
from erasable.operations.rendering import INK, PALE, RED, make_folder, pyplot
from erasable.operations.verify import verify

__all__ = ["Demo", "Step", "demo"]

N_PEOPLE, N_LEAVING, N_MORE = 100, 10, 85
_COLUMNS = 24  # digits side by side in the picture
_BLUE = "#2f6f9f"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Step:
    """One thing that was done, and the model after it.

    Attributes
    ----------
    name : str
    stored, offered : int
        Rows that the model stores, of those that it was offered.
    accuracy : float
        On rows that were not learnt.
    seconds : float or None
        None where the time would say nothing.
    digest : str
        SHA-256 of the whole state, 64 hexadecimal digits.
    """

    name: str
    stored: int
    offered: int
    accuracy: float
    seconds: float | None
    digest: str


@dataclass(frozen=True)
class Demo:
    """What the demo did.

    Attributes
    ----------
    steps : tuple of Step
        In order.
    remarks : tuple of str
        Sentences on what happened.
    same : bool
        Whether the state after forgetting is, byte for byte, that of a fresh model that learnt the survivors alone.
    curve : tuple of (int, int, float)
        As more people left: people left in the model, core rows, accuracy. The state was verified at each.
    picture : str or None
        Where the picture is.
    no_picture : str or None
        Why there is none, although one was asked for.
    """

    steps: tuple[Step, ...]
    remarks: tuple[str, ...]
    same: bool
    curve: tuple[tuple[int, int, float], ...]
    picture: str | None
    no_picture: str | None

    def as_json(self) -> dict[str, Any]:
        """Everything, in types that JSON has."""
        return asdict(self)


def demo(out: str | Path | None = None, *, progress: Callable[[int, int], None] | None = None) -> Demo:
    """A classifier learns digits of a hundred people, ten ask to be forgotten, and all of it is checked.

    Parameters
    ----------
    out : path, optional
        Folder for ``demo.png``, made if it is not there. Without matplotlib no picture is drawn, and the record says
        why.
    progress : callable, optional
        Called with (people gone, people to go) while more and more people leave.

    Returns
    -------
    Demo

    Raises
    ------
    VerificationError
        When the state that is left is not what learning its own rows gives.
    ConfigurationError
        When the folder cannot be made.
    StoreError
        When there is no room for the model file, which is made in a temporary folder and removed.

    Examples
    --------
    >>> from erasable.operations.demo import demo
    >>> report = demo()
    >>> [step.name for step in report.steps]
    ['learn', 'forget 10 people', 'verify', 'fresh fit on survivors', 'forget them in a file']
    >>> report.same, report.steps[2].digest == report.steps[3].digest
    (True, True)
    """
    folder = None if out is None else Path(out)
    if folder is not None:
        make_folder(folder)
    story = _Story()
    story.learn()
    story.forget()
    story.verify()
    story.refit()
    story.forget_in_a_file()
    story.go_on(progress or (lambda done, total: None))
    if folder is not None:
        story.draw(folder / "demo.png")
    return story.told()


class _Story:
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
        fresh = clone(self.clf).set_params(threshold=self.clf.threshold_, kappa=None)
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
            _draw(self.X, self.core, gone, self.curve, path)
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


def _draw(
    X: npt.NDArray[Any], core: Sequence[int], gone: set[int], curve: Sequence[tuple[int, int, float]], path: Path
) -> None:
    """Draw the core rows, those forgotten crossed out, and what happens as more people leave.

    Raises
    ------
    ConfigurationError
        When matplotlib is missing.
    """
    plt = pyplot()
    with plt.rc_context({"font.size": 10, "text.color": INK, "axes.edgecolor": PALE, "axes.labelcolor": INK}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=(1.35, 1), layout="constrained")
        _stored(plt, left, X, core, gone)
        _accuracy(right, curve)
        try:
            figure.savefig(path, dpi=130)
        finally:
            plt.close(figure)


def _stored(plt: Any, axis: Any, X: npt.NDArray[Any], core: Sequence[int], gone: set[int]) -> None:
    canvas = np.full((-(-len(core) // _COLUMNS) * 10, _COLUMNS * 10), np.nan)
    for k, i in enumerate(core):
        r, c = (10 * v for v in divmod(k, _COLUMNS))
        canvas[r + 1 : r + 9, c + 1 : c + 9] = X[i].reshape(8, 8)
    axis.imshow(canvas, cmap="Greys", vmin=0, vmax=20)
    for k, i in enumerate(core):
        if i in gone:
            r, c = (10 * v for v in divmod(k, _COLUMNS))
            axis.add_patch(plt.Rectangle((c, r), 9, 9, color=RED, alpha=0.85, lw=0))
            axis.plot([c + 2, c + 7], [r + 2, r + 7], color="white", lw=1)
            axis.plot([c + 2, c + 7], [r + 7, r + 2], color="white", lw=1)
    axis.set_axis_off()
    axis.set_title(
        f"All that is stored: {len(core)} of {len(X):,} digits.\n{len(gone)} of them (red) belong to people who left.",
        loc="left",
    )


def _accuracy(axis: Any, curve: Sequence[tuple[int, int, float]]) -> None:
    people = [left for left, _, _ in curve]
    axis.plot(people, [accuracy for _, _, accuracy in curve], color=_BLUE, lw=2, marker="o", ms=4)
    axis.set_ylim(0, 1)
    axis.set_xlim(people[0] + 2, 0)
    axis.set_xlabel("people left in the model")
    axis.set_ylabel("test accuracy")
    axis.grid(color=PALE, lw=0.5, alpha=0.6)
    axis.set_title("Forgetting goes on.\nAt every dot the state was verified, bit for bit.", loc="left")
