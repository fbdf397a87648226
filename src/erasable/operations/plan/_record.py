"""A plan as a record: numbers only, nothing of the rows it was made from."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from erasable.operations.plan._frontier import Candidate
from erasable.operations.plan._survival import Survival, Theoretical
from erasable.operations.plan._targets import Targets
from erasable.operations.rendering import TextTable, percent


@dataclass(frozen=True)
class Plan:
    """Recommended parameters and what to expect of them.

    Attributes
    ----------
    recommended : Candidate
        Parameters, and what was measured: rows and bytes stored, accuracy, time per deletion, deletions survived.
    line : str
        Python that builds the recommended classifier.
    horizon : int
        Rows the classifier is to see.
    theoretical : Theoretical
        Core deletions that the paper's bound allows; often none.
    reference : float
        Accuracy of the same classifier with every row stored.
    class_shares : tuple of float
        Share of each class among the rows, in the order of the sorted classes.
    frontier : tuple of Candidate
        Everything measured that no other candidate beats in both storage and accuracy, or that deletions were
        simulated for; the least storage first.
    warnings : tuple of str
    targets : Targets
    effort : str
    random_state : int
    rows, rows_used, features, classes : int
        Of the data: ``rows_used`` is smaller than ``rows`` where the sample was thinned.

    Notes
    -----
    Two plans are equal when all but the measured times are.
    """

    recommended: Candidate
    line: str
    horizon: int
    theoretical: Theoretical
    reference: float
    class_shares: tuple[float, ...]
    frontier: tuple[Candidate, ...]
    warnings: tuple[str, ...]
    targets: Targets
    effort: str
    random_state: int
    rows: int
    rows_used: int
    features: int
    classes: int

    @property
    def capacity(self) -> float:
        """The recommended capacity."""
        return self.recommended.capacity

    @property
    def kappa(self) -> float:
        """The recommended kappa."""
        return self.recommended.kappa

    @property
    def threshold(self) -> float:
        """The threshold that ``kappa`` and the horizon give."""
        return self.recommended.threshold

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
        plain["months_until_refresh"] = self.months_until_refresh
        return plain

    def predictions(self) -> TextTable:
        """What to expect of the recommended classifier, each number with where it comes from."""
        r, s = self.recommended, self.survival
        sampled = self.horizon > self.rows_used
        times = "unknown" if r.seconds_per_deletion is None else f"{1e3 * r.seconds_per_deletion:.3g} ms"
        rows = [
            ("threshold", f"{r.threshold:.6g}", f"{self.horizon:,} ** -{r.kappa:g}"),
            (
                "rows stored",
                f"{r.stored_rows:,} ({percent(r.stored_share)})",
                "extrapolated from the sample" if sampled else "measured on all rows",
            ),
            ("bytes stored", f"{r.stored_bytes / 1e6:,.3g} MB", "rows, sums and weights"),
            ("accuracy", _band(r.accuracy), "measured on rows not learnt"),
            ("balanced accuracy", _band(r.balanced), "measured on rows not learnt"),
            ("accuracy with all rows stored", f"{self.reference:.4f}", "measured on rows not learnt"),
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

    def table(self) -> TextTable:
        """The frontier: what storing more would buy."""
        head = (
            "",
            "capacity",
            "kappa",
            "stored",
            "MB",
            "accuracy",
            "balanced",
            f"{self._what(self.survival)} until loss",
        )
        rows = [
            (
                "→" if c == self.recommended else "",
                f"{c.capacity:g}",
                f"{c.kappa:g}",
                percent(c.stored_share),
                f"{c.stored_bytes / 1e6:,.3g}",
                f"{c.accuracy.mean:.4f}",
                f"{c.balanced.mean:.4f}",
                "not simulated" if c.survival is None else c.survival.text(),
            )
            for c in self.frontier
        ]
        return TextTable(f"Candidates ({self.rows:,} x {self.features}, horizon {self.horizon:,})", head, rows)


def _band(band: Any) -> str:
    return f"{band.mean:.4f} ({band.low:.4f} to {band.high:.4f})"
