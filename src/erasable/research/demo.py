"""From a raw table to a model that forgets: the whole idea in one short run."""

from __future__ import annotations

import csv
import hashlib
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from erasable.audit.keys import new_key
from erasable.audit.receipts import check_receipt, check_state
from erasable.errors import ConfigurationError
from erasable.estimators import load
from erasable.operations.inspect import rows_of
from erasable.operations.learn import Columns, TableLearnt, learn_table
from erasable.operations.model_file import ModelFile
from erasable.operations.predict import score_table
from erasable.operations.rendering import BLUE, GREY, INK, PALE, RED, make_folder, pyplot
from erasable.operations.scan import scan_for
from erasable.operations.schemas import draft_table
from erasable.operations.verify import verify
from erasable.research.sets.orders import make_orders

__all__ = ["Demo", "Step", "demo"]

LEARNT, HELD_OUT = 20_000, 4_000
N_LEAVING = 100
ROLES: dict[str, Any] = {"label": "returned", "id": "order", "subject": ("customer",)}
_LEFT = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)  # shares of the customers who are still there
_T = TypeVar("_T")
_Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Step:
    """One thing that was done, and the model after it."""

    name: str
    stored: int | None  # rows that the model stores; None where there is no model yet
    offered: int | None
    auc: float | None  # the area under the ROC curve on orders that were not learnt
    seconds: float | None  # None where the time would say nothing
    digest: str | None  # SHA-256 of the model file, 64 hexadecimal digits


@dataclass(frozen=True)
class Demo:
    """What the demo did."""

    steps: tuple[Step, ...]
    remarks: tuple[str, ...]
    same: bool  # the file is that of a fresh model of the survivors, and the scan found nothing of those who left
    usual: float  # the AUC of scikit-learn's usual pipeline, fitted on all rows, on the same orders
    curve: Curve  # as more customers left: customers left, core rows, AUC; the state was verified at each
    table: str | None
    picture: str | None
    no_picture: str | None  # why there is none, although one was asked for

    def as_json(self) -> dict[str, Any]:
        """Everything, in types that JSON has."""
        return asdict(self)


def demo(out: str | Path | None = None, *, progress: Callable[[int, int], None] | None = None) -> Demo:
    """A raw table of orders becomes a model, a hundred customers ask to be forgotten, and all of it is checked.

    Raises VerificationError when the state that is left is not what learning its own rows gives. Raises
    ConfigurationError when the folder cannot be made, or pyarrow is missing. Raises StoreError when there is no room
    for the files, which are made in a temporary folder and removed.

    Parameters
    ----------
    out : path, optional
        Folder for the table, ``orders.csv``, and ``demo.png``, made if it does not exist. Without matplotlib no picture
        is drawn, and the record says why.
    progress : callable, optional
        Called with (times verified, times in all) while more and more customers leave.

    Returns
    -------
    Demo
    """
    folder = None if out is None else Path(out)
    if folder is not None:
        make_folder(folder)
    with tempfile.TemporaryDirectory() as room:
        story = _Story(Path(room))
        story.draft()
        story.learn()
        story.look_up()
        story.forget()
        story.verify()
        story.learn_survivors_alone()
        story.scan()
        story.go_on(progress or (lambda done, total: None))
        if folder is not None:
            story.leave(folder)
    return story.summary()


class _Story:
    """A table, files made of it in a folder, and what has been noted down so far."""

    def __init__(self, folder: Path) -> None:
        columns = make_orders(LEARNT + HELD_OUT)
        everything = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        self.rows, self.later = everything[:LEARNT], everything[LEARNT:]
        self.names = list(columns)
        self.customers = sorted({row["customer"] for row in self.rows})
        self.leaving = self.customers[:: len(self.customers) // N_LEAVING][:N_LEAVING]
        self.folder, self.aside = folder / "shop", folder / "aside"
        self.folder.mkdir()
        self.aside.mkdir()
        self.orders, self.schema = self.folder / "orders.csv", self.folder / "schema.toml"
        self.model, self.test = self.folder / "model.erasable", self.aside / "later.csv"
        self._write(self.orders, self.rows)
        self._write(self.test, self.later)
        self.stored: set[str] = set()  # ids, before anybody left
        self.same = True
        self.steps: list[Step] = []
        self.remarks: list[str] = []
        self.curve: list[tuple[int, int, float]] = []
        self.usual = _usual(self.rows, self.later)
        self.table: Path | None = None
        self.picture: Path | None = None
        self.no_picture: str | None = None

    def draft(self) -> None:
        """A public schema: how columns of every kind become numbers."""
        start = time.perf_counter()
        draft = draft_table(self.orders, **ROLES)
        draft.schema.save(self.schema, head=draft.head)
        self.steps.append(Step("schema", None, None, None, time.perf_counter() - start, None))
        schema = draft.schema
        self.remarks.append(
            f"schema: {len(schema.features)} raw columns become {schema.n_features_out} numbers; nothing in it that "
            f"fewer than {draft.k} customers share."
        )

    def learn(self) -> None:
        """Learn all rows; a small core set stays."""
        learnt = self._timed("learn", lambda: self._learnt(self.model, self.orders), LEARNT)
        cells = learnt.encoding.counts if learnt.encoding is not None else {}
        missing = sum(counts.get("missing", 0) for counts in cells.values())
        self.stored = set(load(self.model).core_ids_.tolist())
        self.remarks.append(
            f"learn: {learnt.report.rows:,} orders, {missing:,} of their cells missing; {learnt.report.core_rows:,} "
            "orders are stored and nothing else of any."
        )

    def look_up(self) -> None:
        """What is stored of somebody."""
        kept = Counter(row["customer"] for row in self.rows if row["order"] in self.stored)
        who = max(self.leaving, key=lambda name: kept[name])
        placed = sum(row["customer"] == who for row in self.rows)
        found = rows_of(self.model, subjects=[who])
        self.remarks.append(f"who is stored: of the {placed} orders of {who}, {len(found.rows)}.")

    def forget(self) -> None:
        """Forget all rows of some people; the receipt is checked."""
        key = new_key()
        file = ModelFile(self.model, key=key)
        report = self._timed(f"forget {N_LEAVING} customers", lambda: file.forget(subjects=self.leaving), LEARNT)
        check_state(check_receipt(report.receipt or "", key.public), _sha256(self.model))
        self.remarks.append(
            f"forget: {report.core_rows_removed} stored orders of {N_LEAVING} customers left. The new file is durable, "
            "the old one overwritten; the sha256 of the new one stands in a signed receipt."
        )

    def verify(self) -> None:
        """Recompute the state from its own rows and compare."""
        report = self._timed("verify", lambda: verify(load(self.model)), LEARNT)
        self.remarks.append(str(report))

    def learn_survivors_alone(self) -> None:
        """A fresh model that learns all surviving rows, stored or not, has the same file, byte for byte."""
        leaving = set(self.leaving)
        staying = [row for row in self.rows if row["customer"] not in leaving]
        survivors, fresh = self.aside / "survivors.csv", self.aside / "fresh.erasable"
        self._write(survivors, staying)
        self._learnt(fresh, survivors)
        self._note("learn all survivors anew", fresh, len(staying), None)
        self.same = self.same and fresh.read_bytes() == self.model.read_bytes()

    def scan(self) -> None:
        """Look for the rows of those who left in every file of the folder."""
        gone = self.aside / "gone.csv"
        leaving = set(self.leaving)
        self._write(gone, (row for row in self.rows if row["customer"] in leaving))
        start = time.perf_counter()
        found = scan_for(self.folder, gone, id="order", subject="customer")
        took = time.perf_counter() - start
        places = {remain.file for remain in found.remains}
        self.steps.append(Step("scan", None, None, None, took, None))
        self.same = self.same and places == {self.orders.name}
        self.remarks.append(
            f"scan: of the {found.rows} orders of these customers, remains in {' and '.join(sorted(places)) or 'none'} "
            f"of the {found.files} files: the table itself is yours to clean."
        )

    def go_on(self, progress: Callable[[int, int], None]) -> None:
        """Let customers leave until few are left, verifying each time."""
        model = load(self.model)
        staying = [name for name in self.customers if name not in set(self.leaving)]
        order = [staying[i] for i in np.random.default_rng(1).permutation(len(staying)).tolist()]
        for done, share in enumerate(_LEFT):
            left = round(share * len(order))
            model.forget_quietly(subjects=order[left:])
            verify(model)
            self.curve.append((left, int(model.n_core_), self._auc(model)))
            progress(done + 1, len(_LEFT))

    def leave(self, folder: Path) -> None:
        """Write the table, to go on with, and the picture."""
        self.table = folder / "orders.csv"
        shutil.copy(self.orders, self.table)
        try:
            draw(self.rows, self.stored, set(self.leaving), self.curve, self.usual, folder / "demo.png")
        except ConfigurationError as error:
            self.no_picture = str(error)
        else:
            self.picture = folder / "demo.png"

    def summary(self) -> Demo:
        """Return the record of all steps."""
        table, picture = (None if path is None else str(path) for path in (self.table, self.picture))
        so_far = tuple(self.steps), tuple(self.remarks), self.same, self.usual, tuple(self.curve)
        return Demo(*so_far, table, picture, self.no_picture)

    def _learnt(self, path: Path, table: Path) -> TableLearnt:
        return learn_table(path, table, Columns(schema=self.schema), score=False)

    def _timed(self, name: str, work: Callable[[], _T], offered: int) -> _T:
        start = time.perf_counter()
        result = work()
        self._note(name, self.model, offered, time.perf_counter() - start)
        return result

    def _note(self, name: str, path: Path, offered: int, seconds: float | None) -> None:
        model = load(path)
        self.steps.append(Step(name, int(model.n_core_), offered, self._auc(model), seconds, _sha256(path)))

    def _auc(self, model: Any) -> float:
        return float(score_table(model, self.test, label=None).auc)  # type: ignore[arg-type,union-attr]

    def _write(self, path: Path, rows: Iterable[dict[str, Any]]) -> None:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.names)
            writer.writerows(row.values() for row in rows)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _usual(rows: _Rows, later: _Rows) -> float:
    """The AUC of what most people would do with such a table in scikit-learn, fitted on all rows."""
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def taken(of: _Rows, *names: str) -> Any:
        return np.array([[row[name] for name in names] for row in of], dtype=object)

    def notes(of: _Rows) -> list[str]:
        return [row["note"] or "" for row in of]

    listed = "town", "channel", "goods", "brand", "size", "gift", "payment"
    counted = "age", "price", "pieces", "discount", "days"
    categories = OneHotEncoder(handle_unknown="ignore").fit(taken(rows, *listed))
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    numbers.fit(taken(rows, *counted).astype(float))
    words = TfidfVectorizer().fit(notes(rows))

    def encoded(of: _Rows) -> Any:
        parts = categories.transform(taken(of, *listed)), numbers.transform(taken(of, *counted).astype(float))
        return sp.hstack([*parts, words.transform(notes(of))]).tocsr()

    model = LogisticRegression(max_iter=1000).fit(encoded(rows), taken(rows, "returned").ravel().astype(str))
    scores = model.decision_function(encoded(later))
    return float(roc_auc_score(taken(later, "returned").ravel() == "yes", scores))


Curve = Sequence[tuple[int, int, float]]

_SHOWN = 15  # rows of the table
_WIDE = 320  # rows side by side in the map of all of them
_COLUMNS = {"customer": 18, "placed": 12, "town": 13, "goods": 9, "price": 9, "note": 45, "returned": 8}
_PASSED_OVER, _STORED = "#b3bac4", "#4d5a69"


def draw(
    rows: Sequence[dict[str, Any]], stored: set[str], leaving: set[str], curve: Curve, usual: float, path: Path
) -> None:
    """Draw it into a PNG file.

    Raises ConfigurationError when matplotlib is missing.
    """
    plt = pyplot()
    kinds = np.array([_kind(row, stored, leaving) for row in rows])
    with plt.rc_context({"font.size": 10, "axes.edgecolor": PALE}):
        figure = plt.figure(figsize=(13, 5.6), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1.75, 1), wspace=0.03)
        table, everything = left.subplots(2, 1, height_ratios=(1.5, 1))
        _table(table, rows, kinds)
        _everything(everything, kinds)
        _accuracy(right.subplots(), curve, usual)
        try:
            figure.savefig(path, dpi=120)
        finally:
            plt.close(figure)


def _kind(row: dict[str, Any], stored: set[str], leaving: set[str]) -> int:
    """0: passed over; 1: stored; 2: stored, of somebody who left."""
    return 0 if row["order"] not in stored else 2 if row["customer"] in leaving else 1


def _table(axis: Any, rows: Sequence[dict[str, Any]], kinds: Any) -> None:
    """Some lines of the table, as it came: those where most left."""
    left = np.convolve(kinds == 2, np.ones(_SHOWN, dtype=int), "valid")
    first = int(np.argmax(left))
    lines = rows[first : first + _SHOWN]
    axis.set_xlim(0, sum(_COLUMNS.values()))
    axis.set_ylim(_SHOWN + 0.1, -1.8)
    font = {"family": "monospace", "size": 8, "va": "center"}
    at = 0
    for name, width in _COLUMNS.items():
        axis.text(at, -1.2, name, color=GREY, weight="bold", **font)
        for k, row in enumerate(lines):
            axis.text(at, k, _cell(row[name], width), color=(_PASSED_OVER, INK, RED)[kinds[first + k]], **font)
        at += width
    for k in np.flatnonzero(kinds[first : first + _SHOWN] == 2).tolist():
        axis.plot([0, at - 5], [k, k], color=RED, lw=1)
    axis.set_axis_off()
    axis.set_title(
        "A raw table. Grey rows were learnt from and not stored; struck ones are of customers who left.",
        loc="left",
        size=10,
    )


def _cell(value: object, width: int) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    text = "·" if value is None else str(value)
    text = text.split(" ")[0] if text[4:5] == "-" else text  # of a moment the day
    return text if len(text) < width else text[: width - 2] + "…"


def _everything(axis: Any, kinds: Any) -> None:
    """Every row a dot."""
    from matplotlib.colors import ListedColormap

    tall = -(-len(kinds) // _WIDE)
    canvas = np.zeros(tall * _WIDE)
    canvas[: len(kinds)] = kinds
    colours = ListedColormap(["#f1f3f5", _STORED, RED])
    axis.imshow(canvas.reshape(tall, _WIDE), cmap=colours, interpolation="nearest", aspect="auto")
    gone = np.flatnonzero(kinds == 2)
    axis.scatter(gone % _WIDE, gone // _WIDE, marker="s", color=RED, s=22, lw=0)
    axis.set_axis_off()
    n = np.count_nonzero(kinds)
    title = f"All {len(kinds):,} rows, each a dot: {n:,} are stored (dark), of which {len(gone)} left (red)."
    axis.set_title(title, loc="left", size=10)


def _accuracy(axis: Any, curve: Curve, usual: float) -> None:
    people = [left for left, _, _ in curve]
    axis.axhline(usual, color=GREY, lw=1, ls="--")
    axis.text(people[0], usual + 0.004, "scikit-learn, fitted on all rows", color=GREY, size=9, ha="left", va="bottom")
    axis.plot(people, [auc for _, _, auc in curve], color=BLUE, lw=2, marker="o", ms=5)
    axis.set_ylim(0.5, 0.85)
    axis.set_xlim(people[0] * 1.03, 0)
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.set_xlabel("customers left in the model")
    axis.set_ylabel("AUC on later orders")
    axis.grid(color=PALE, lw=0.5, alpha=0.6)
    axis.set_title("Forgetting goes on.\nAt every dot the state was verified, bit for bit.", loc="left", size=10)
