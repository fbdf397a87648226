"""What an estimator promises about forgotten rows, as a record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guarantee:
    """What holds after ``forget``.

    Attributes
    ----------
    definition : str
        The definition of unlearning that is met, and against what the state is compared.
    epsilon, delta : float
        Its parameters; both zero when the states are equal.
    assumptions : tuple of str
        What must be true for it to hold. Empty when nothing has to be assumed.
    """

    definition: str
    epsilon: float
    delta: float
    assumptions: tuple[str, ...] = ()

    def __str__(self) -> str:
        limits = "" if self.epsilon == self.delta == 0.0 else f", epsilon = {self.epsilon:g}, delta = {self.delta:g}"
        given = f"; assuming {'; '.join(self.assumptions)}" if self.assumptions else ""
        return f"{self.definition}{limits}{given}"


#: What models promise whose decisions are exact.
BITWISE = Guarantee(
    "exact system-aware unlearning (Definition 2.3), bitwise: equal to training on the surviving core rows", 0.0, 0.0
)
