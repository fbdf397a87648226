"""What the demo did, for people and for machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


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
