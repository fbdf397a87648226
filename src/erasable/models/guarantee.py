"""What an estimator promises about forgotten rows, as a record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

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
        2.1 does. Where it speaks of the model alone, whoever reads what is stored may find the forgotten rows there.
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
