"""What a call did, what a model promises, and warnings about models that cannot be good. No report keeps a row.

Warnings are about classes with too few core rows, class weights for labels that no row has, tables sorted by label,
targets within a few steps of their grid, and columns whose differences are lost.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Int64s, Matrix
from erasable.core.selector import Decisions
from erasable.errors import EmptiedClassWarning, SortedRowsWarning, StaleReportError, WeakModelWarning
from erasable.features import LogFeatures
from erasable.pages import facts

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.model import Model


#: What models assume that train a learner in floating point again instead of keeping exact sums.
SAME_BITS_AGAIN = (
    "the learner gives the same bits when it is trained again on the same rows: it is deterministic given its seed, "
    "and trained on one machine, with the same libraries and number of threads"
)


@dataclass(frozen=True)
class Guarantee:
    """What holds after ``forget``.

    Attributes
    ----------
    definition : str
        The definition of unlearning that is met, and with what it compares.
    of : {"state", "model"}
        Whether it speaks of all that is stored, as Definition 2.3 does, or of the published model alone, as Definition
        2.1 does. Where it speaks of the model alone, a reader of the stored state may find the forgotten rows there.
    bitwise : bool
        Whether equal means equal bit by bit, as ``erasable.verify`` checks.
    epsilon, delta : float
        Parameters of the definition; both zero when nothing differs.
    assumptions : tuple of str
        What must be true for it to hold. Empty when nothing has to be assumed.
    """

    definition: str
    of: Literal["state", "model"]
    bitwise: bool = False
    epsilon: float = 0.0
    delta: float = 0.0
    assumptions: tuple[str, ...] = ()

    def __str__(self) -> str:
        scope = "of the whole stored state" if self.of == "state" else "of the model alone, not of what is stored"
        limits = "" if self.epsilon == self.delta == 0.0 else f", epsilon = {self.epsilon:g}, delta = {self.delta:g}"
        given = f"; assuming {'; '.join(self.assumptions)}" if self.assumptions else ""
        return f"{self.definition}; {scope}{', bitwise' if self.bitwise else ''}{limits}{given}"


#: What models promise whose decisions are exact.
BITWISE = Guarantee(
    "exact system-aware unlearning (Definition 2.3): equal to training on the surviving core rows",
    of="state",
    bitwise=True,
)
#: What models promise that decide about each row alone.
BITWISE_ON_ALL_ROWS = Guarantee(
    "exact traditional and system-aware unlearning (Definitions 2.1 and 2.3): equal to learning all surviving rows, "
    "also those that were never stored",
    of="state",
    bitwise=True,
    assumptions=("public moments and class shares were not drawn from forgotten rows", "ids were distinct"),
)


def on_core_rows(own: Guarantee | None, named: str) -> Guarantee:
    """What a learner's own promise becomes on core rows: Theorem 3.1 is about promises that speak of the state."""
    if own is None:
        return Guarantee(
            "equal to training the learner on the surviving core rows; no definition is claimed, since the learner "
            "does not say what it stores",
            of="model",
            assumptions=("the learner's forget equals training on the rows it is left with",),
        )
    if own.of == "model":
        return replace(
            own,
            definition=f"of the learner, on the core rows: {own.definition}; not system-aware unlearning, since "
            "Theorem 3.1 carries over only what holds of the state",
        )
    prefix = "(epsilon, delta)-" if own.epsilon or own.delta else "exact "
    return replace(own, definition=f"{prefix}{named}; of the learner, on the core rows: {own.definition}")


@dataclass(frozen=True)
class Round:
    """One round of learning rows that come in blocks: a pass over all of them, then decisions about some.

    Attributes
    ----------
    rows : int
        Rows that were looked at.
    survivors : int
        Rows of the round that the core rows did not rule out: they were decided one after the other.
    core_rows_added : int
        Those of them that became core rows.
    bytes_moved : int
        About how many bytes went from and to other processes.
    screening_seconds, deciding_seconds : float
        How long the pass took, and the decisions.
    driver_seconds : float
        Processor time of this process during both.
    """

    rows: int
    survivors: int
    core_rows_added: int
    bytes_moved: int
    screening_seconds: float
    deciding_seconds: float
    driver_seconds: float


@dataclass(frozen=True)
class LearnReport:
    """The outcome of one learning call.

    Attributes
    ----------
    rows : int
        Rows that were offered.
    core_rows_added : int
        Rows that became core rows.
    core_rows : int
        Core rows in the model now.
    decisions : Decisions
        How many rows each level of certainty decided.
    rows_without_weight : int
        Rows whose weight rounds to zero: they were not looked at.
    rows_known : int
        Further rows that were passed over, because rows with their ids are stored.
    rows_replaced : int
        Stored rows that were replaced by rows with the same ids.
    rows_suppressed : int
        Further rows that were passed over, because their subject must not be learnt.
    rounds : tuple of Round
        Of rows that came in blocks, or were screened by an engine: what each round did, and how long it took.
    rate : float or None
        For independent selection: the share of rows that should be stored; see ``share`` and ``share_text``.
    rate_reasons : tuple of str
        What may keep ``share`` away from ``rate`` under this configuration, apart from chance.
    """

    rows: int
    core_rows_added: int
    core_rows: int
    decisions: Decisions
    rows_without_weight: int = 0
    rows_known: int = 0
    rows_replaced: int = 0
    rows_suppressed: int = 0
    rounds: tuple[Round, ...] = field(default=(), compare=False)
    rate: float | None = None
    rate_reasons: tuple[str, ...] = ()

    @property
    def share(self) -> float | None:
        """The share of the rows offered that is stored now; None if no row with a weight was offered."""
        offered = self.rows + self.rows_known - self.rows_without_weight
        return (self.core_rows_added + self.rows_known) / offered if offered else None

    @property
    def share_text(self) -> str | None:
        """The share next to the rate, and why they differ; None unless selection is independent.

        A difference is put down to chance within four standard deviations of the share of as many random ids.
        """
        if self.rate is None or self.share is None:
            return None
        offered = self.rows + self.rows_known - self.rows_without_weight
        chance = 4.0 * math.sqrt(self.rate * (1.0 - self.rate) / offered)
        text = f"{100 * self.share:.3g}% of these rows are stored, for a rate of {self.rate:.6g}."
        if self.share == self.rate:
            return text
        if abs(self.share - self.rate) <= chance:
            return f"{text} Chance explains the difference."
        return f"{text} They differ because {', and because '.join(self.rate_reasons)}."

    def _repr_html_(self) -> str:
        named = ("rows replaced", self.rows_replaced), ("rows passed over", self.rows_known + self.rows_suppressed)
        return facts(
            "Rows learnt",
            [
                ("rows offered", self.rows),
                ("rows stored of these", self.core_rows_added),
                *((name, value or None) for name, value in named),
                ("rows stored in all", self.core_rows),
                ("share", self.share_text),
            ],
        )


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ForgetReport:
    """The outcome of one forget request. The caller may keep it; the model keeps nothing of it.

    Attributes
    ----------
    requested : int
        Different ids and subjects that the request named.
    core_rows_removed : int
        Stored rows that left. Do not show it to anyone who must not learn whether a person's row was stored.
    core_rows : int
        Stored rows that the model holds now.
    not_stored : int
        Ids and subjects of the request that no stored row had: never learnt, not kept, or forgotten already.
    rows_retrained : int
        Rows that had to be trained on again: for learners that cannot take rows out.
    classes_emptied : int
        Classes whose last stored row left, so that the model no longer predicts them; none where no row remains.
    classes_thinned : int
        Classes that had ten stored rows or more before this request and have fewer now, but some; see ``thin_text``.
    digest : str or None
        SHA-256 of the state right after forgetting. In memory it is computed when first read, so that forgetting
        stays cheap: read it before the model changes again. None where the state has no canonical bytes, or where a
        file was changed and digests were not asked for.
    digest_before : str or None
        SHA-256 of the state before, for a file where digests or receipts were asked for. Requests that shared a
        rewrite share both.
    receipt : str or None
        The signed receipt, for a file that was opened with a key.
    """

    requested: int
    core_rows_removed: int
    core_rows: int
    not_stored: int = 0
    _: KW_ONLY
    rows_retrained: int = 0
    classes_emptied: int = 0
    classes_thinned: int = 0
    digest_before: str | None = None
    digest_after: InitVar[str | None] = None
    receipt: str | None = None
    model: InitVar[Model | None] = None
    _digest: str | None = field(default=None, init=False)
    _model: weakref.ref[Model] | None = field(default=None, init=False)
    _version_token: object = field(default=None, init=False)

    def __post_init__(self, digest_after: str | None, model: Model | None) -> None:
        object.__setattr__(self, "_digest", digest_after)
        if model is not None:
            object.__setattr__(self, "_model", weakref.ref(model))
            object.__setattr__(self, "_version_token", model.version_token)

    @property
    def digest(self) -> str | None:
        """SHA-256 of the state right after forgetting, as 64 hexadecimal digits."""
        if self._digest is None and self._model is not None:
            model = self._model()
            if model is None or model.version_token is not self._version_token:
                raise StaleReportError(
                    "the model has changed since this report was made, so its digest can no longer be computed: "
                    "read report.digest right after forget."
                )
            object.__setattr__(self, "_digest", model.snapshot().digest)
        return self._digest

    @property
    def thin_text(self) -> str | None:
        """That fresh rows are due, if this request took a class below ten stored rows; else None.

        Ten is the number below which learning warns, too. Only the request that crosses it reports it, so a model that
        is small by intention gives no warning, and nothing has to be stored of how many rows there once were. A
        regression counts as one class.
        """
        if not self.classes_thinned:
            return None
        which = "a class" if self.classes_thinned == 1 else f"{self.classes_thinned} classes"
        return (
            f"forgetting left fewer than {_TOO_FEW} stored rows of {which}, so predictions rest on few rows: learn "
            "fresh rows."
        )

    def _facts(self) -> dict[str, Any]:
        """The arguments that make an equal report."""
        stated = {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("_")}
        return {**stated, "digest_after": self.digest}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ForgetReport) and self._facts() == other._facts()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        retrained = f", rows_retrained={self.rows_retrained}" if self.rows_retrained else ""
        return (
            f"ForgetReport(requested={self.requested}, core_rows_removed={self.core_rows_removed}, "
            f"core_rows={self.core_rows}{retrained})"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("ids and subjects named", self.requested),
            ("stored rows that left", self.core_rows_removed),
            ("stored rows left", self.core_rows),
            ("rows trained on again", self.rows_retrained or None),
            ("state digest", self._digest),  # not computed for a picture of the report
            ("receipt", "signed" if self.receipt else None),
            ("note", self.thin_text),
        ]
        return facts("Rows forgotten", rows)

    def __reduce__(self) -> tuple[object, ...]:
        return _report_again, (self._facts(),)


def _report_again(facts: dict[str, Any]) -> ForgetReport:
    return ForgetReport(**facts)


def warn_of_emptied_classes(emptied: int, *, fixable: bool = True, stacklevel: int = 3) -> None:
    """Warn that so many classes lost their last stored row; after the fact, since a warning must not stop an erasure.

    ``fixable`` says whether models of this kind can be made with fixed classes.
    """
    if emptied:
        which = "a class" if emptied == 1 else f"{emptied} classes"
        remedy = " A model made with classes= keeps classes that have no rows." if fixable else ""
        warnings.warn(
            f"forgetting took the last stored row of {which}, which this model no longer predicts.{remedy}",
            EmptiedClassWarning,
            stacklevel=stacklevel,
        )


@dataclass(frozen=True)
class TrainedLearner:
    """What a learner became when it was trained on the core rows. No state holds it.

    Attributes
    ----------
    name : str
        The name of the learner, such as ``"lightgbm"``.
    library, version : str
        The library that trained it.
    digest : str
        SHA-256 of the fitted learner: the same for the same core rows, library version and platform.
    compared : bool
        Whether a learner that had been trained before was compared with it, and had the same bits.
    other_version : str or None
        The version of the library that had trained it before, if that was another one: then bits were not compared.
    """

    name: str
    library: str
    version: str
    digest: str
    compared: bool = False
    other_version: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"name": self.name, "library": self.library, "version": self.version, "sha256": self.digest}

    def __str__(self) -> str:
        again = "again, with the same bits" if self.compared else "on the core rows"
        text = f"{self.name} trained {again} ({self.library} {self.version})\nlearner digest {self.digest}"
        if self.other_version is None:
            return text
        return (
            f"{text}\nnote: the learner kept before was trained with {self.library} {self.other_version}, so its bits "
            "were not compared; state and rows are the same with any version."
        )


#: What a file without sums and weights says nothing about twice, so that an alteration leaves no contradiction.
STORED_ONCE = ("labels or targets", "weights of rows", "parameters", "numbers in rows")


def _note_on(name: str) -> str:
    """A sentence about a file that was left behind, and what to do about it."""
    if name.endswith(".learner"):
        return (
            f"{name!r} in the same folder is the fitted learner of a model file that was renamed, removed or replaced. "
            "The next command that changes a model in this folder erases it, if this user may; otherwise delete it."
        )
    return (
        f"{name!r} in the same folder holds rows: a change of a model was interrupted, and the model was renamed or "
        "removed since. Delete it, unless it is the only copy."
    )


@dataclass(frozen=True)
class VerifyReport:
    """What was recomputed, all of it found identical.

    Attributes
    ----------
    core_rows : int
        Core rows replayed through the selector from nothing; every one was selected again.
    sums : int
        Entries of A and of the class sums (hence b) compared; for a kernel, entries of the kernel matrix recomputed.
    weights : int
        Weights solved for anew and compared bit for bit. Models that store none derive them from the rows.
    digest : str
        SHA-256 of the recomputed state, equal to that of the model's.
    learner : TrainedLearner or None
        For a model with a learner: what training it again on the core rows gave.
    left_behind : tuple of str
        For a model in a file: names of files in its folder that hold something of a model file which was renamed,
        removed or replaced: its fitted learner, or what an interrupted change left. They were not changed.
    not_compared : tuple of str
        What could be altered without a trace as long as every row is still selected. Empty where sums or weights are
        stored, which follow from all of it. Otherwise, as with a learner, only the digest in a signed receipt shows
        that nobody altered the file on purpose.
    """

    core_rows: int
    sums: int
    weights: int
    digest: str
    learner: TrainedLearner | None = None
    left_behind: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON; an entry for the learner where there is one."""
        learner = {} if self.learner is None else {"learner": self.learner.as_json()}
        plain = {name: value for name, value in vars(self).items() if name != "learner"}
        lists = {"left_behind": list(self.left_behind), "not_compared": list(self.not_compared)}
        return {**plain, **lists, **learner}

    def __str__(self) -> str:
        recomputed = f"; {self.sums:,} sums and {self.weights:,} weights recomputed, all identical"
        learner = "" if self.learner is None else f"\n{self.learner}"
        limits = f"\n{self.limits}" if self.limits else ""
        notes = "".join(f"\nnote: {_note_on(name)}" for name in self.left_behind)
        return (
            f"verified: {self.core_rows:,} core rows replayed and selected again{recomputed if self.sums else ''}\n"
            f"state digest {self.digest}{learner}{limits}{notes}"
        )

    @property
    def limits(self) -> str:
        """What this verification could not see, as a sentence; empty where everything that is stored was compared."""
        if not self.not_compared:
            return ""
        return (
            f"No sums or weights are stored, so altered {', '.join(self.not_compared[:-1])} and "
            f"{self.not_compared[-1]} are noticed only where a row is not selected any more. "
            "Compare the state digest with that in a signed receipt."
        )

    def _repr_html_(self) -> str:
        counts = ("core rows", self.core_rows), ("sums", self.sums or None), ("weights", self.weights or None)
        limits = ("not compared", ", ".join(self.not_compared) or None)
        title = "Verified: every bit is what the stored rows give"
        return facts(title, [*counts, limits, ("state digest", self.digest)])


_FEW = 100  # rows offered: with fewer, nothing is said
_TOO_FEW = 10  # core rows of a class
# Core rows of a class for each column: of 20,000 rows with 15 columns, 3% of them of one class, 2 for each column lost
# .03 of the AUC.
_PER_COLUMN = 3
_CLOSE = 2**16  # integers no further apart are counted one by one
_FEW_STEPS = 32  # of the grid of targets, between the lowest and the highest
ONE_CLASS = "all labels are the same, and so will all predictions be: check the column of labels."


def remedy_of(model: Model) -> str:
    """Advice for a model that is too weak, by the arguments that a model of its kind has."""
    advice = []
    if not model.selection.independent:
        advice.append("lower threshold= or capacity= so that more rows are stored")
        advice.append('draw rows by rate= with selection= "independent"')
    elif getattr(model.selection, "rate", 1.0) < 1.0:
        advice.append("give a higher rate= so that more rows are stored")
    if not model.classifies:
        advice.append("declare a range of targets around what is common (target_range=)")
    elif not getattr(model.selection, "balance", 0.0):  # rare classes have their weight already
        advice.append('give classes their weight (class_weight= "balanced")')
    if not advice:
        return "plan with more rows, or give columns that tell more"
    return f"{', '.join(advice[:-1])}, or {advice[-1]}" if len(advice) > 1 else advice[0]


def thinned(before: Mapping[Any, int], after: Mapping[Any, int]) -> int:
    """How many classes had ten stored rows or more, and have fewer now, but some."""
    return sum(n >= _TOO_FEW > after.get(c, 0) > 0 for c, n in before.items())


def label_counts(y: npt.NDArray[Any]) -> Counter[Any]:
    """How many rows have each label."""
    if y.dtype.kind not in "iufb":
        return Counter(y.tolist())
    low = int(y.min()) if len(y) and y.dtype.kind in "bi" else None
    if low is not None and int(y.max()) - low < _CLOSE:  # sorting many would take longer
        tallies = np.bincount(y.astype(np.int64) - low)
        there = np.flatnonzero(tallies)
        labels, counts = (there + low).astype(y.dtype), tallies[there]
    else:
        labels, counts = np.unique(y, return_counts=True)
    return Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True)))


class OfferedLabels:
    """How many rows of each class were offered, block after block."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()

    def add(self, y: npt.NDArray[Any]) -> Self:
        """Labels that follow."""
        self.counts += label_counts(y)
        return self

    def join(self, other: OfferedLabels) -> None:
        """Add what was counted on a worker."""
        self.counts += other.counts

    def warn(self, model: Model, *, new: bool, stacklevel: int) -> None:
        """Warn if the model holds too few rows of a class; for a new one, also if labels or weights make no sense."""
        if new and len(self.counts) == 1:
            warnings.warn(ONE_CLASS, WeakModelWarning, stacklevel=stacklevel + 1)
        stored = model.core.class_counts
        warn_of_thin_classes(self.counts, stored, remedy_of(model), _columns_to_fit(model), stacklevel=stacklevel + 1)
        if new:
            warn_of_absent_classes(model.configuration, self.counts, stacklevel=stacklevel + 1)


class OfferedTargets:
    """The range of the targets offered, block after block."""

    def __init__(self) -> None:
        self.rows = 0
        self.low: Any = np.inf
        self.high: Any = -np.inf

    def add(self, y: npt.NDArray[Any]) -> Self:
        """Targets that follow, shape (n,) or (n, n_targets)."""
        self.rows += len(y)
        self.low, self.high = np.minimum(self.low, y.min(axis=0)), np.maximum(self.high, y.max(axis=0))
        return self

    def join(self, other: OfferedTargets) -> None:
        """Add what was seen on a worker."""
        self.rows += other.rows
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)

    def warn(self, model: Model, *, new: bool, stacklevel: int) -> None:
        """Warn if the targets of a hundred rows or more, not all equal, lie within a few steps of their grid."""
        c = model.configuration
        low, high = np.array(c.head.target_ranges).T
        steps = (self.high - self.low) / (high / 2 - low / 2) * c.grid.radius
        coarse = int(np.count_nonzero((steps > 0.0) & (steps < _FEW_STEPS)))
        if self.rows >= _FEW and coarse:
            warnings.warn(
                f"the targets offered lie within {_FEW_STEPS} steps of their grid (for {coarse} of {len(high)} "
                "targets), so that they are rounded coarsely: declare a range that is closer to what may come, with "
                "target_range=.",
                WeakModelWarning,
                stacklevel=stacklevel + 1,
            )


def warn_of_thin_classes(
    offered: Mapping[Any, int], stored: Mapping[Any, int], remedy: str, columns: int = 0, *, stacklevel: int
) -> None:
    """Warn of classes without core rows, with fewer than ten, or with few for so many columns.

    ``offered`` and ``stored`` count the rows of each class in the table and in the core set. A class is not warned of
    if fewer than ten of its rows were offered or, for its columns, if a tenth of them or more is stored. With fewer
    than a hundred rows offered there is no warning. ``stacklevel`` is that of ``warnings.warn``, counted from the
    caller.
    """
    if sum(offered.values()) < _FEW:
        return
    missed = sum(not stored.get(c) for c in offered)
    thin = sum(n >= _TOO_FEW and 0 < stored.get(c, 0) < _TOO_FEW for c, n in offered.items())
    said = []
    if missed:
        said.append(f"no row of {missed} of them, so the model never predicts {'it' if missed == 1 else 'these'}")
    if thin:
        said.append(f"fewer than ten rows of {thin} of them")
    loose = sum(_is_loose(n, stored.get(c, 0), columns) for c, n in offered.items())
    if loose:
        said.append(
            f"fewer than {_PER_COLUMN * columns} rows of {loose} of them, {_PER_COLUMN} for each of {columns} columns, "
            f"and less than a tenth of {'its' if loose == 1 else 'their'} rows"
        )
    if said:
        warnings.warn(
            f"the rows learnt are of {len(offered)} classes, and the core set holds {' and '.join(said)}: {remedy}.",
            WeakModelWarning,
            stacklevel=stacklevel + 1,
        )


def _is_loose(offered: int, stored: int, columns: int) -> bool:
    """Whether a rare class of a larger table has too few core rows to be told from the others by so many columns."""
    return _TOO_FEW <= stored < _PER_COLUMN * columns and offered > _TOO_FEW * stored


def _columns_to_fit(model: Model) -> int:
    """The columns of numbers by which a linear model tells classes apart; 0 where rows per column say little.

    Independent selection keeps the share of rows that the caller asked for, and columns of a schema are mostly zero.
    """
    counted = is_of_numbers(model) and hasattr(model.selection, "grid") and not model.selection.independent
    return (model.n_features or 0) if counted else 0


def warn_of_absent_classes(configuration: Configuration, offered: Mapping[Any, int], *, stacklevel: int) -> None:
    """Warn of labels in ``class_weight`` that no row has, unless the caller fixed all classes."""
    weights = configuration.head.class_weight
    named = [label for label, _ in weights] if isinstance(weights, tuple) and configuration.classes is None else []
    absent = sum(label not in offered for label in named)
    if absent:
        warnings.warn(
            f"no row learnt has {absent} of the labels that class_weight= names: check how they are written.",
            WeakModelWarning,
            stacklevel=stacklevel + 1,
        )


_FAR, _STEPS = 2.0**16, 4.0  # mean square by variance of a column; steps of the grid
_FEWEST_NAMES = 5  # of columns, that a warning lists
_WIDE = 100  # columns
_EXAMINED = 2_000  # core rows that say how far columns vary


def is_of_numbers(model: Model) -> bool:
    """Whether a model learns columns of numbers as they are or behind the log map, and no texts or tables."""
    return model.feature_map is None or isinstance(model.feature_map, LogFeatures)


class OfferedColumns:
    """How many rows were offered and, behind the log map, the smallest and the largest cell of each column."""

    def __init__(self, model: Model) -> None:
        self.ranges = isinstance(model.feature_map, LogFeatures)
        self.rows, self.width = 0, 0
        self.low: Any = np.nan
        self.high: Any = np.nan

    def add(self, X: Any) -> Self:
        """Rows that follow."""
        self.ranges = self.ranges and _on_this_machine(X)
        self.rows, self.width = self.rows + X.shape[0], X.shape[1]
        if self.ranges and X.shape[0]:
            low, high = _smallest_and_largest(X)
            self.low, self.high = np.fmin(self.low, low), np.fmax(self.high, high)
        return self

    def join(self, other: OfferedColumns) -> None:
        """Add what was seen on a worker."""
        self.ranges = self.ranges and other.ranges
        self.rows, self.width = self.rows + other.rows, max(self.width, other.width)
        self.low, self.high = np.fmin(self.low, other.low), np.fmax(self.high, other.high)

    def range_of(self, j: int) -> tuple[float, float]:
        """The smallest and the largest cell of a column; NaN where all are missing."""
        return float(self.low[j]), float(self.high[j])

    def warn(self, model: Model, names: Sequence[str] | None, *, stacklevel: int) -> None:
        """Warn of columns whose differences a new model loses."""
        ranges = self.range_of if self.ranges and self.rows else None
        warn_of_columns(model, (self.rows, self.width), ranges, names, stacklevel=stacklevel + 1)


class OfferedRows:
    """The labels or targets of the rows offered and, for a new model of numbers, their columns."""

    def __init__(self, answers: Any, columns: OfferedColumns | None, *, new: bool) -> None:
        self.answers, self.columns, self.new = answers, columns, new

    def add(self, X: Any, y: npt.NDArray[Any]) -> Self:
        """Rows that follow, with their labels or targets."""
        self.answers.add(y)
        if self.columns is not None:
            self.columns.add(X)
        return self

    def join(self, other: OfferedRows) -> None:
        """Add what was counted on a worker."""
        self.answers.join(other.answers)
        if self.columns is not None and other.columns is not None:
            self.columns.join(other.columns)

    def warn(self, model: Model, names: Sequence[str] | None, *, stacklevel: int) -> None:
        """Warn of a model that is weak for these rows."""
        self.answers.warn(model, new=self.new, stacklevel=stacklevel + 1)
        if self.columns is not None:
            self.columns.warn(model, names, stacklevel=stacklevel + 1)


def ranges_in(X: Any) -> Callable[[int], tuple[float, float]] | None:
    """What gives the smallest and the largest cell of a column of rows in memory; None for rows on a device."""

    def range_of(j: int) -> tuple[float, float]:
        low, high = _smallest_and_largest(X[:, [j]])
        return float(low[0]), float(high[0])

    return range_of if _on_this_machine(X) and X.shape[0] else None


def _on_this_machine(X: Any) -> bool:
    """Whether rows are in this machine's memory: those on a device are not copied for a warning."""
    return isinstance(X, np.ndarray) or bool(sp.issparse(X))


def _smallest_and_largest(X: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The smallest and the largest cell of each column; missing cells do not count."""
    if sp.issparse(X):
        X = sp.csc_array(X)
        return X.nanmin(axis=0).toarray().ravel(), X.nanmax(axis=0).toarray().ravel()
    return np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)


def warn_of_columns(
    model: Model,
    shape: tuple[int, int],
    range_of: Callable[[int], tuple[float, float]] | None,
    names: Sequence[str] | None,
    *,
    stacklevel: int,
) -> None:
    """Warn of columns whose differences are lost behind the log map, and of fewer rows than columns.

    Core rows are divided by their norms. The constant of the map undoes that: a stored number divided by the stored
    constant is the mapped cell divided by the constant. Columns of one value have no differences.

    Parameters
    ----------
    model : Model
    shape : (int, int)
        How many rows and columns were offered.
    range_of : callable, optional
        The smallest and the largest cell offered of a column, whose number it takes.
    names : sequence of str, optional
        The names of the columns.
    stacklevel : int
        As for ``warnings.warn``, counted from the caller.
    """
    if not is_of_numbers(model):
        return
    n, d = shape
    if n < d and d >= _WIDE:
        warnings.warn(
            f"{n} rows have {d} columns, so nearly all rows are stored and the model follows each of them: give fewer "
            "columns, or a larger alpha= or capacity= and a higher threshold=.",
            WeakModelWarning,
            stacklevel=stacklevel + 1,
        )
    log = model.feature_map
    if not (isinstance(log, LogFeatures) and log.constant and len(model.core) and range_of is not None):
        return
    rows = model.configuration.selection.on_grid(model.core.first_rows(_EXAMINED))
    far, small = _lost_columns(rows, log, range_of)
    advice = (
        (far, "lie so far from zero, compared with how much they vary, that", "centres=, public numbers to subtract"),
        (small, "vary so little next to the others that", "scaling=, public positive numbers to divide them by"),
    )
    for columns, what, argument in advice:
        if len(columns):
            listed = ", ".join(
                str(j) if names is None else repr(str(names[j])) for j in columns[:_FEWEST_NAMES].tolist()
            )
            more = f" and {len(columns) - _FEWEST_NAMES} more" if len(columns) > _FEWEST_NAMES else ""
            counted = "counted from 0; " if names is None else ""
            warnings.warn(
                f"columns {listed}{more} ({counted}{len(columns)} of {d}) {what} the model hardly sees their "
                f"differences: give {argument}, one for each column.",
                WeakModelWarning,
                stacklevel=stacklevel + 1,
            )


def _lost_columns(
    rows: Matrix, log: LogFeatures, range_of: Callable[[int], tuple[float, float]]
) -> tuple[Int64s, Int64s]:
    """Columns far from zero compared with their spread, and columns whose spread is below some steps of the grid."""
    rows = sp.csr_array(rows, dtype=np.float64)
    constant = rows[:, [-1]].toarray()[:, 0]
    rows, constant = rows[constant > 0], constant[constant > 0]  # next to huge cells it is less than a step of the grid
    if len(constant) < _TOO_FEW:  # so few have no spread to speak of
        return np.flatnonzero([]), np.flatnonzero([])
    step = 1.0 / np.mean(constant)
    cells = sp.diags_array(1.0 / constant) @ rows[:, : log.n_features]
    mean, square = cells.mean(axis=0), (cells * cells).mean(axis=0)
    variance = np.maximum(square - mean * mean, 0.0)
    far = (square > _FAR * variance) & (square > (_STEPS * step) ** 2)
    small = ~far & (variance < (_STEPS * step) ** 2)
    doubted = np.flatnonzero(far | small)
    lost = np.zeros(log.n_features, dtype=bool)
    for j in doubted.tolist():
        low, high = range_of(j)
        if low < high:
            # One that is zero in the core rows only because few rows have it has large cells elsewhere.
            centre, scale = (0.0 if p is None else p[j] for p in (log.centres, log.scales))
            spread = (high - low) / (scale or 1.0)
            largest = max(abs(high - centre), abs(low - centre)) / (scale or 1.0)
            lost[j] = far[j] or min(spread, largest) < 2.0 * _STEPS * step * log.constant
    return np.flatnonzero(lost & far), np.flatnonzero(lost & small)


SORTED = (
    "labels come in long runs, as in a table sorted by class, and rows are decided as they are given, so the first "
    'classes take the core set: leave order= at "hashed", or shuffle the rows.'
)


class LabelRuns:
    """How often labels change from one row to the next, block after block.

    *Law*: among n rows, ``n_c`` of class c, a random order has ``n - sum(n_c ** 2) / n`` changes in the mean.
    """

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.changes = 0
        self.last: list[Any] = []

    def add(self, y: npt.NDArray[Any]) -> Self:
        """Labels that follow those before."""
        labels, counts = np.unique(y, return_counts=True)
        self.counts.update(dict(zip(labels.tolist(), counts.tolist(), strict=True)))
        self.changes += int(np.count_nonzero(y[1:] != y[:-1])) + (self.last != y[:1].tolist() and bool(self.last))
        self.last = y[-1:].tolist()
        return self

    def warn(self, *, stacklevel: int) -> None:
        """Warn if labels change less than a tenth as often as they would in random order."""
        n = self.counts.total()
        if n >= _FEW and 10 * self.changes < n - sum(count**2 for count in self.counts.values()) / n:
            warnings.warn(SORTED, SortedRowsWarning, stacklevel=stacklevel + 1)
