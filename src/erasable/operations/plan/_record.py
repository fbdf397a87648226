"""A plan as a record: numbers only, nothing of the rows it was made from."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.operations.plan._candidates import Band, Candidate
from erasable.operations.plan._kinds import CLASSES, NUMBERS, Kind, Parameters
from erasable.operations.plan._metrics import Metric
from erasable.operations.plan._survival import Survival, Theoretical
from erasable.operations.plan._targets import Targets
from erasable.operations.rendering import TextTable
from erasable.pages import percent


@dataclass(frozen=True)
class Plan:
    """Recommended parameters and what to expect of them.

    Attributes
    ----------
    recommended : Candidate
        Parameters, and what was measured: rows and bytes stored, how good it is, time per deletion, deletions survived.
    parameters : dict
        Of ``ErasableClassifier`` or ``ErasableRegressor``: what was recommended, and what the caller gave.
    horizon : int
        Rows the model is to see.
    theoretical : Theoretical
        Core deletions that the paper's bound allows; often none.
    reference, constant : float
        The metric with every row stored, of the model that was best at that in a first look, and of a constant. What is
        lost is counted from the former.
    class_rows : tuple of int
        Rows of each class, in the order of the sorted classes; of a regression, all rows.
    candidates : tuple of Candidate
        Everything measured, the least storage first.
    warnings : tuple of str
    targets : Targets
    effort : str
    random_state : int
    rows, features : int
        Of the data.

    Notes
    -----
    Two plans are equal when all but the measured times are.
    """

    recommended: Candidate
    parameters: Parameters
    horizon: int
    theoretical: Theoretical
    reference: float
    constant: float
    class_rows: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    warnings: tuple[str, ...]
    targets: Targets
    effort: str
    random_state: int
    rows: int
    features: int

    @property
    def kind(self) -> Kind:
        """What is planned for: classes or numbers."""
        return CLASSES if self.targets.metric in CLASSES.metrics else NUMBERS

    @property
    def line(self) -> str:
        """Python that builds the recommended model; ``scales`` stands for the caller's array of scales."""
        typed = ", ".join(f"{name}={_typed(name, value)}" for name, value in self.parameters.items())
        return f"{self.kind.estimator.__name__}({typed})"

    @property
    def frontier(self) -> tuple[Candidate, ...]:
        """Candidates that no other beats in both storage and the metric, and all that deletions were simulated for."""
        by, best, kept = self.targets.by, math.inf, []
        for c in self.candidates:
            lost = by.lost(c.value.mean, 0.0)
            if lost < best or c.survival is not None:
                kept.append(c)
            best = min(best, lost)
        return tuple(kept)

    @property
    def survival(self) -> Survival:
        """Simulated deletions until a refresh."""
        assert self.recommended.survival is not None
        return self.recommended.survival

    @property
    def months_until_refresh(self) -> float | None:
        """How long the simulated deletions last; None where none are expected or the loss is never reached."""
        rate, found = self.targets.deletions_per_month, self.survival.deletions
        return None if rate is None or found is None else found / rate

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values, which ``json.dumps`` takes; None stands for what is not known or never reached."""
        plain: dict[str, Any] = dataclasses.asdict(self)
        for parameters in (
            plain["parameters"],
            *(c["parameters"] for c in (plain["recommended"], *plain["candidates"])),
        ):
            parameters |= {name: _plain(value) for name, value in parameters.items()}
        return {**plain, "line": self.line, "months_until_refresh": self.months_until_refresh}

    def predictions(self) -> TextTable:
        """What to expect of the recommended model, each number with where it comes from."""
        r, s, by = self.recommended, self.survival, self.targets.by
        measured, sampled = "measured on rows not learnt", self.horizon > self.rows
        times = "unknown" if r.seconds_per_deletion is None else f"{1e3 * r.seconds_per_deletion:.3g} ms"
        rows = [
            (
                "rows stored",
                f"{r.stored_rows:,} ({percent(r.stored_share)})",
                "extrapolated from the sample" if sampled else "measured on all rows",
            ),
            ("bytes stored", f"{r.stored_bytes / 1e6:,.3g} MB", "rows, sums and weights"),
            (by.title, _band(r.value, by), measured),
            ("  with every row stored", by.text(r.all_rows), "the same parameters"),
            ("  that a loss is counted from", by.text(self.reference), "every row stored, the best in a first look"),
            ("  with as many random rows", by.text(r.random_rows), "the same parameters"),
            *(
                []
                if r.final is None
                else [("  on the rows it does not store", by.text(r.final), "learnt from all rows")]
            ),
            ("  of a constant", by.text(self.constant), "the best one on the same rows"),
            *((m.title, m.text(r.scores[m.name]), measured) for m in self.kind.metrics.values() if m != by),
            ("time per core deletion", times, "measured here, ready to predict again"),
            (
                f"{self._what(s)} until {self.targets.max_loss:g} is lost",
                s.text(),
                f"simulated, {self.targets.distribution}, {s.runs} runs, 80% band",
            ),
        ]
        if s.rows is not None:
            rows.append(("rows that go with them", f"{s.rows:,}", "simulated"))
        if self.months_until_refresh is not None:
            rows.append(("months until refresh", f"{self.months_until_refresh:,.1f}", "simulated"))
        t = self.theoretical
        bound = "none (the bound is vacuous)" if t.vacuous else f"{math.floor(t.core_deletions):,}"
        rows.append(("core deletions, by the bound", bound, f"theoretical: {t.source}"))
        return TextTable("What to expect", ("what", "prediction", "where it comes from"), rows)

    def _what(self, s: Survival) -> str:
        return {"subjects": "subjects deleted", "core rows": "core rows deleted"}.get(s.unit, "rows deleted")

    def _steps(self) -> list[Candidate]:
        """The frontier without those that are hardly better than the one before."""
        by, kept, best = self.targets.by, [], math.inf
        for c in self.frontier:
            lost = by.lost(c.value.mean, 0.0)
            if c.survival is not None or lost < best - self.targets.max_loss / 4.0:
                kept.append(c)
                best = min(best, lost)
        return kept

    def table(self) -> TextTable:
        """The frontier: what storing more would buy, and what all rows or as many random ones would give."""
        shown, by, classes = self._steps(), self.targets.by, self.kind is CLASSES
        names = list(dict.fromkeys(name for c in shown for name in c.parameters))
        head = (
            "",
            *names,
            "stored",
            "MB",
            *(["of the rarest class"] if classes else []),
            by.title,
            "all rows",
            "random rows",
            f"{self._what(self.survival)} until loss",
        )
        rows = [
            (
                "→" if c == self.recommended else "",
                *(_shown(c.parameters.get(name)) for name in names),
                percent(c.stored_share),
                f"{c.stored_bytes / 1e6:,.3g}",
                *([f"{min(c.core_rows):,}"] if classes else []),
                *(by.text(value) for value in (c.value.mean, c.all_rows, c.random_rows)),
                "" if c.survival is None else c.survival.text(),
            )
            for c in shown
        ]
        title = f"The frontier of {len(self.candidates)} candidates ({self.rows:,} x {self.features}"
        return TextTable(f"{title}, horizon {self.horizon:,})" if self.horizon > self.rows else f"{title})", head, rows)


def _band(band: Band, by: Metric) -> str:
    return f"{by.text(band.mean)} ({by.text(band.low)} to {by.text(band.high)})"


def number_text(value: float) -> str:
    """A number as it may be typed, with all its digits.

    Examples
    --------
    >>> from erasable.operations.plan import number_text
    >>> number_text(1000000.0), number_text(0.05)
    ('1000000', '0.05')
    """
    return repr(float(value)).removesuffix(".0")


def _typed(name: str, value: Any) -> str:
    """A parameter as Python has it."""
    if name == "target_range":
        ends = np.asarray(value, dtype=np.float64).reshape(-1, 2).tolist()
        pairs = [f"({number_text(low)}, {number_text(high)})" for low, high in ends]
        return pairs[0] if np.ndim(value) == 1 else f"[{', '.join(pairs)}]"
    if isinstance(value, np.ndarray | list | tuple):
        return "scales"
    return 'float("inf")' if value == math.inf else number_text(value) if isinstance(value, float) else repr(value)


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | list | tuple):
        return np.asarray(value).tolist()
    return "inf" if value == math.inf else value
