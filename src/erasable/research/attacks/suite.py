"""All attacks on one method and one set of rows, and their results as a record."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.audit.statistics import Figures
from erasable.audit.statistics import measure as measure_scores
from erasable.core.arrays import Float64s
from erasable.errors import InputError
from erasable.operations.rendering import BLUE, GREY, RED
from erasable.pages import percent, render
from erasable.research.attacks.around import SURROUNDINGS, around
from erasable.research.attacks.one_row import OneRow, one_row
from erasable.research.attacks.shadows import Shadows, train_shadows
from erasable.research.attacks.targets import Target

_AROUND = 30  # trials of what stands around: nearly all of it is certain
LETTERS = {
    "a": "replay of floating-point residue",
    "b": "presence in memory and files",
    "c": "membership by likelihood ratio",
    "d": "reconstruction from snapshots before and after",
    "e": "selection leakage",
    "f": "what stands around the model",
}
Watch = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Sizes:
    """How much is done; without shadows, (c) is left out."""

    rows: int
    trials: int
    shadows: int
    candidates: int


# 120 trials: an attack that is always right then has a power of 0.957 or more, with the confidence of an audit.
FULL = Sizes(rows=20_000, trials=120, shadows=512, candidates=70)
QUICK = Sizes(rows=2_000, trials=24, shadows=128, candidates=40)


@dataclass(frozen=True)
class Outcome:
    """What one attack achieved."""

    letter: str  # the kind of attack, into LETTERS
    name: str
    figures: Figures
    note: str = ""  # what the reader should know in addition to the figures

    @property
    def verdict(self) -> str:
        """In words, from the intervals."""
        if self.figures.tied:
            return "at chance exactly"
        if self.figures.at_chance:
            return "at chance"
        return "works" if self.figures.power[0.01].value >= 0.5 or self.figures.auc.value >= 0.9 else "tells a little"

    def as_json(self) -> dict[str, Any]:
        """As an evidence pack takes it, and more."""
        return {
            "letter": self.letter,
            "name": self.name,
            "verdict": self.verdict,
            **self.figures.as_json(),
            "note": self.note,
            "roc": [[round(float(x), 6) for x in point] for point in thinned(self.figures.roc)],
        }


def thinned(roc: Float64s, most: int = 240) -> Float64s:
    """A curve with no more points than a picture shows: evenly on a logarithmic axis."""
    if len(roc) <= most:
        return roc
    false = roc[:, 0]
    wanted = np.append(0.0, np.geomspace(max(false[false > 0].min(), 1e-6), 1.0, most))
    at = np.searchsorted(false, wanted, side="right") - 1
    kept: Float64s = roc[np.unique(np.append(at, [0, len(roc) - 1]))]
    return kept


@dataclass(frozen=True)
class Stage:
    """A part of an audit, and how long it took: by the clock, and in processor time of all processes."""

    name: str
    seconds: float
    processor_seconds: float


@dataclass(frozen=True)
class Audit:
    """An audit of one method on one set of rows."""

    method: str
    title: str
    data: str
    guarantee: str
    ours: bool  # as of the target
    noisy: bool
    rows: int  # of the pool; half of it is offered at a time
    features: int
    sizes: Sizes
    stored_share: float
    same_as_refit: int  # trials after which the state was, bit for bit, that of learning the stored rows
    trials: int
    outcomes: tuple[Outcome, ...]
    stages: tuple[Stage, ...]
    seconds: float
    processor_seconds: float
    workers: int  # processes that trials and shadows were dealt to
    random_state: int

    @property
    def holds(self) -> bool:
        """Whether forgetting left nothing: the state is that of learning the stored rows, (a) and (b) see nothing.

        Where noise is part of the method bits cannot be compared, and (a) and (b) have to be at chance.
        """
        looked = [o.figures for o in self.outcomes if o.letter in "ab"]
        if self.noisy:
            return all(figures.at_chance for figures in looked)
        return self.same_as_refit == self.trials and all(figures.tied for figures in looked)

    @property
    def same_bits(self) -> str:
        """In how many trials the state was that of learning the stored rows, in words."""
        return "not comparable: noise" if self.noisy else f"{self.same_as_refit} of {self.trials}"

    def as_json(self) -> dict[str, Any]:
        """Plain values; ``results`` is what ``erasable evidence --audit`` reads."""
        nested = ("sizes", "outcomes", "stages")
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in nested}
        definition = {
            "letter": "",
            "name": "Definition 2.3: the state is that of learning the stored rows, bitwise",
            "verdict": self.same_bits if self.noisy else f"holds in {self.same_bits} trials",
        }
        results = [definition, *(outcome.as_json() for outcome in self.outcomes)]
        stages = [stage.__dict__ for stage in self.stages]
        return {"holds": self.holds, **plain, "stages": stages, "sizes": self.sizes.__dict__, "results": results}


CONFIDENCE = 0.99  # of every interval: there are some twenty of them in an audit


def measure(scores: Float64s, member: npt.NDArray[np.bool_], row: npt.NDArray[np.intp]) -> Figures:
    """Figures with the intervals of an audit."""
    return measure_scores(scores, member, row, confidence=CONFIDENCE, resamples=500)


def audit(
    target: Target,
    X: Float64s,
    y: npt.NDArray[Any],
    *,
    data: str,
    sizes: Sizes = FULL,
    random_state: int = 0,
    workers: int = 1,
    watch: Watch | None = None,
) -> Audit:
    """Run the suite on a pool of rows with labels -1 and 1, called ``data``; of too many rows, some are drawn.

    Figures are the same for any number of ``workers``, the processes to which trials and shadows are dealt. ``watch``
    is called with (the step, how much is done, how much there is). Raises InputError when rows are too few, or have
    other columns than the target's.
    """
    clock = _Clock()
    X, y = _pool(target, X, y, min(sizes.rows, target.most_rows or sizes.rows), random_state)
    sizes = replace(sizes, rows=len(X), candidates=min(sizes.candidates, len(X) // 40))

    def tick(what: str) -> Callable[[int, int], None]:
        return lambda done, total: (watch or (lambda *_: None))(what, done, total)

    seeded: dict[str, Any] = {"random_state": random_state, "workers": workers}
    with warnings.catch_warnings(action="ignore"):  # of small core sets and emptied classes, hundreds of times
        game = one_row(target, X, y, sizes.trials, progress=tick(f"{target.name}: one row leaves"), **seeded)
        clock.stage("one row leaves", game.worker_seconds)
        outcomes = _of_one_row(game)
        clock.stage("figures of one row")
        if sizes.shadows:
            seeded |= {"progress": tick(f"{target.name}: shadow models")}
            shadows = train_shadows(target, X, y, sizes.shadows, sizes.candidates, **seeded)
            clock.stage("shadow models", shadows.worker_seconds)
            outcomes += _of_shadows(shadows)
            clock.stage("figures of shadows")
        if target.surroundings:
            outcomes += _of_surroundings(X, y, min(sizes.trials, _AROUND), random_state, tick("around the model"))
            clock.stage("around the model")
    return Audit(
        target.name,
        target.title,
        data,
        " ".join(str(getattr(target.build(0), "guarantee", "none: a store to try the attacks on")).split()),
        target.ours,
        target.noisy,
        len(X),
        X.shape[1],
        sizes,
        game.stored_share,
        game.same_as_refit,
        game.trials,
        tuple(sorted(outcomes, key=lambda outcome: outcome.letter)),
        tuple(clock.stages),
        sum(stage.seconds for stage in clock.stages),
        sum(stage.processor_seconds for stage in clock.stages),
        workers,
        random_state,
    )


def _pool(
    target: Target, X: Float64s, y: npt.NDArray[Any], most: int, random_state: int
) -> tuple[Float64s, npt.NDArray[Any]]:
    """The rows to play with, scaled as the target's file says, and their labels."""
    divisors = np.asarray(target.divisor)
    if divisors.ndim and divisors.shape != X.shape[1:]:
        raise InputError(
            f"the scaling of this model is of {divisors.size} columns, and the rows have {X.shape[1]}: give rows of "
            "the columns that the model learns, in their order."
        )
    chosen = np.sort(np.random.default_rng(random_state).permutation(len(X))[:most])
    X, y = np.asarray(X[chosen], np.float64), np.asarray(y)[chosen]
    there = X.any(axis=1)
    X, y = X[there] / target.divisor, y[there]
    X /= np.linalg.norm(X, axis=1, keepdims=True) if target.by_norm else 1.0
    if len(X) < 200:
        raise InputError(f"an audit needs at least 200 rows that are not zero; got {len(X)}.")
    return X, y


class _Clock:
    """Stages one after the other, each from the end of the one before."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self._since = time.perf_counter(), time.process_time()

    def stage(self, name: str, worker_seconds: float = 0.0) -> None:
        """A stage ends here; processor time that it took in other processes counts too."""
        now = time.perf_counter(), time.process_time()
        seconds, own = (after - before for after, before in zip(now, self._since, strict=True))
        self.stages.append(Stage(name, seconds, own + worker_seconds))
        self._since = now


_ONE_ROW = {
    "residue": ("a", "a candidate put into the gap and forgotten again leaves the same bits"),
    "row": ("b", "the row, or its direction, anywhere in memory or in the file"),
    "name": ("b", "its id anywhere in memory or in the file"),
    "snapshots": ("d", "whole states: the best cosine with what was there before and is not now"),
    "weights": ("d", "weights before and after, and the state that is left"),
    "selection": ("e", "an adversary who knows every other row compares which rows are stored"),
    "none": ("e", "an adversary who knows no other row looks whether a stored one rules it out"),
    "half": ("e", "an adversary who knows half of the other rows looks which are missing"),
    "tenth": ("e", "an adversary who knows a tenth of the other rows looks which are missing"),
}


def _of_one_row(game: OneRow) -> list[Outcome]:
    notes = {
        "snapshots": f"the row itself was what vanished in {game.plain} of {game.trials} trials",
        "residue": f"{game.replays} of {game.trials} trials had a decoy that could have been there",
        "weights": f"the row computed has a median cosine of {np.median(game.cosines):.3f} with the true one"
        if game.cosines
        else "",
        "selection": f"{np.mean(game.missing):.2f} stored rows differ on average; among stored rows that leave, "
        f"which were {100 * game.stored_share:.0f}% of all",
    }
    return [
        Outcome(*_ONE_ROW[name], measure(*scores.pairs()), notes.get(name, ""))
        for name, scores in game.scores.items()
        if scores.left
    ]


def _of_surroundings(
    X: Float64s, y: npt.NDArray[Any], trials: int, random_state: int, progress: Callable[[int, int], None]
) -> list[Outcome]:
    found = around(X, y, trials, random_state=random_state, progress=progress)
    return [Outcome("f", SURROUNDINGS[name], measure(*scores.pairs())) for name, scores in found.items()]


def _of_shadows(shadows: Shadows) -> list[Outcome]:
    forgotten = ("random", "unusual", "mislabelled")

    def outcome(
        letter: str, name: str, groups: tuple[str, ...], statistics: tuple[str, ...], note: str = ""
    ) -> Outcome:
        return Outcome(letter, name, measure(*shadows.ratios(groups, statistics)), note)

    found = [outcome("c", f"from the weights: {group} rows, forgotten", (group,), ("score",)) for group in forgotten]
    found.append(outcome("c", "from the weights: all forgotten rows, pooled", forgotten, ("score",)))
    found.append(outcome("c", "from weights and stored rows: all forgotten rows", forgotten, ("score", "novelty")))
    found.append(outcome("c", "from the weights: rows that stay", ("retained",), ("score",), "no request named these"))
    if not shadows.stores_all:
        found.append(outcome("e", "how new the row is to the stored ones, with shadow models", forgotten, ("novelty",)))
    return found


_COLOURS = (RED, BLUE, "#2f6b46", "#9a6a00", "#6b3f86", "#3c7d8c", GREY)
_LOWEST_RATE = 1e-3  # where the logarithmic axes of curves begin
_LONGEST_NAME = 64  # in a legend


def page(audit: Audit) -> str:
    """Return the report as HTML text."""
    by_letter = {letter: [o for o in audit.outcomes if o.letter == letter] for letter in LETTERS}
    rates = ((1e-3, "0.1%"), (1e-2, "1%"), (1e-1, "10%"), (1.0, "100%"))
    return render(
        "audit.html",
        audit=audit,
        letters=LETTERS,
        tiles=_tiles(audit),
        revealing=[o.name for o in audit.outcomes if o.letter in "ab" and not o.figures.at_chance],
        ticks=[(round(_x(rate), 1), round(_y(rate), 1), text) for rate, text in rates],
        groups=[
            {"letter": letter, "name": LETTERS[letter], "outcomes": own, "curves": _curves(own)}
            for letter, own in by_letter.items()
            if own
        ],
    )


def _tiles(audit: Audit) -> list[tuple[str, str]]:
    """Return the figures at the top, with captions."""
    works = sum(outcome.verdict == "works" for outcome in audit.outcomes)
    little = sum(outcome.verdict == "tells a little" for outcome in audit.outcomes)
    return [
        (
            "noise" if audit.noisy else f"{audit.same_as_refit} / {audit.trials}",
            "states equal to learning the stored rows, bit for bit",
        ),
        (percent(audit.stored_share), "of the rows offered are stored"),
        (f"{len(audit.outcomes) - works - little}", "attacks at chance"),
        (f"{little}", "tell a little"),
        (f"{works}", "work"),
    ]


def _curves(outcomes: list[Outcome]) -> list[tuple[str, str, str]]:
    """Return (name, colour, SVG path) of the ROC curve of each attack."""
    found = []
    for i, outcome in enumerate(outcomes):
        points = _on_log_axes(thinned(outcome.figures.roc), _LOWEST_RATE)
        path = "M" + "L".join(f"{_x(a):.1f} {_y(b):.1f}" for a, b in points)
        name = outcome.name if len(outcome.name) < _LONGEST_NAME else outcome.name[: _LONGEST_NAME - 3] + "…"
        found.append((name, _COLOURS[i % len(_COLOURS)], path))
    return found


def _x(rate: float) -> float:
    """Return where a rate of false alarms lies on the axis that the template draws from 46 to 300."""
    return 300 + 254 * math.log10(max(rate, _LOWEST_RATE)) / 3


def _y(rate: float) -> float:
    """Return where a rate of recognised rows lies on the axis that the template draws from 260 up to 10."""
    return 10 - 250 * math.log10(max(rate, _LOWEST_RATE)) / 3


def _on_log_axes(roc: Float64s, low: float) -> list[tuple[float, float]]:
    """Return the curve from the left edge on: between thresholds a coin decides, a straight line on plain axes."""
    points: list[tuple[float, float]] = []
    for (a0, b0), (a1, b1) in zip(roc[:-1].tolist(), roc[1:].tolist(), strict=True):
        if a1 < low:
            continue
        steps = 24 if a1 > a0 else 1
        for k in range(steps + 1):
            a = a0 + (a1 - a0) * k / steps if a0 >= low else low * (a1 / low) ** (k / steps)
            b = b0 + (b1 - b0) * ((a - a0) / (a1 - a0) if a1 > a0 else k / steps)
            points.append((a, b))
    return points
