"""What a call did, and what a model promises: records handed to the caller. No report keeps a row."""

from __future__ import annotations

import warnings
import weakref
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from erasable.core.selector import Decisions
from erasable.errors import EmptiedClassWarning, StaleReportError

if TYPE_CHECKING:
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
        Rows that the core rows did not rule out, of those whose turn it was: they were decided one after the other.
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
    """

    core_rows: int
    sums: int
    weights: int
    digest: str

    def __str__(self) -> str:
        recomputed = f"; {self.sums:,} sums and {self.weights:,} weights recomputed, all identical"
        return (
            f"verified: {self.core_rows:,} core rows replayed and selected again{recomputed if self.sums else ''}\n"
            f"state digest {self.digest}"
        )
