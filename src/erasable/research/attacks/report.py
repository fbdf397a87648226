"""The report of an audit: one HTML page without scripts, fonts or anything else from elsewhere."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from erasable.audit.statistics import Estimate
from erasable.core.arrays import Float64s
from erasable.operations.rendering import BLUE, GREY, PALE, RED, percent
from erasable.research.attacks.suite import LETTERS, Audit, Outcome, thinned

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 17px/1.55 Georgia, serif; color: #1b1f24; background: #fbfaf8; margin: 0; }
main { max-width: 66rem; margin: 0 auto; padding: 2.5rem 1.2rem 4rem; }
h1 { font-size: 2.1rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.3rem; margin: 2.8rem 0 .5rem; }
h3 { font-size: 1.02rem; margin: 1.5rem 0 .3rem; }
.lead { font-size: 1.15rem; color: #3c444e; max-width: 48rem; margin: 0 0 1rem; }
.verdict { border: 1px solid #2f6b46; border-left-width: .45rem; background: #f2f8f4; padding: .9rem 1.2rem;
  border-radius: .4rem; margin: 1.4rem 0; }
.verdict.bad { border-color: #b3321f; background: #fdf3f0; }
.verdict b { display: block; font-size: 1.2rem; }
.big { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.4rem 0; }
.big div { flex: 1 1 10rem; background: #fff; border: 1px solid #e3e0da; border-radius: .6rem; padding: .7rem 1rem; }
.big b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.big span, .note, figcaption { font-size: .88rem; color: #5b6470; }
.scroll { overflow-x: auto; background: #fff; border: 1px solid #e3e0da; border-radius: .6rem; }
table { border-collapse: collapse; width: 100%; font: 13.5px/1.4 system-ui, sans-serif; }
th, td { text-align: right; padding: .42rem .65rem; border-bottom: 1px solid #eeebe5; vertical-align: top; }
td { font-variant-numeric: tabular-nums; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
td small { color: #5b6470; display: block; white-space: nowrap; }
td .aside { color: #5b6470; display: block; font-size: 12px; max-width: 26rem; }
tr.kind td { background: #f4f1eb; font-weight: 600; text-align: left; }
.tag { display: inline-block; border-radius: 1rem; padding: .05rem .6rem; font-size: 12px; white-space: nowrap; }
.chance { background: #e2f0e7; color: #1f5133; } .little { background: #fbeecb; color: #6b4c00; }
.works { background: #f8dcd5; color: #8d2413; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1rem; }
figure { margin: 0; background: #fff; border: 1px solid #e3e0da; border-radius: .6rem; padding: .8rem; }
figure svg { width: 100%; height: auto; display: block; } figure text { fill: #1b1f24; }
code { font-size: .9em; background: #f1eee8; padding: .1em .3em; border-radius: .25em; }
@page { margin: 14mm; }
@media print {
  html { font-size: 11px; } body { background: #fff; font-size: 10pt; } main { padding: 0; max-width: none; }
  .scroll { overflow: visible; border: 0; } table { font-size: 8pt; } td .aside, .tag { font-size: 7.5pt; }
  th, td { padding: .25rem .4rem; } th:first-child { width: 40%; } .plots { grid-template-columns: repeat(3, 1fr); }
  figure, tr, .verdict, .big { break-inside: avoid; } h2, h3, tr.kind { break-after: avoid; } h2 { margin-top: 2rem; }
}
"""

_MEANING = {
    "a": "Computers round. Sums from which a row was subtracted can differ in their last digits from sums that never "
    "held it. The attacker puts a candidate into the gap, forgets it again, and compares every bit.",
    "b": "Is the row, or its id, still lying somewhere: in the model, its buffers, its checkpoints, its file?",
    "c": "The attacker trains hundreds of models of its own, half of which learnt and forgot the row, and asks to "
    "which half this model is more alike. <i>Unusual</i> rows stand out most, <i>mislabelled</i> ones pull hardest.",
    "d": "The attacker has the model from before the request as well, whole or its weights alone. What stood in it and "
    "does not now is the row, and weights can be turned into it. Nothing that is done afterwards can undo that: old "
    "copies have to be deleted.",
    "e": "Which rows were kept may have depended on the row that left. The attacker knows other rows that were "
    "offered, and looks which of them are there.",
    "f": "The model forgets. A scaler, a threshold, a draft, a receipt or a list that was made from rows does not by "
    "itself. They were made for this audit: whether there are such things beside your model, you know.",
}
_COLOURS = (RED, BLUE, "#2f6b46", "#9a6a00", "#6b3f86", "#3c7d8c", GREY)


def page(audit: Audit) -> str:
    """The report as HTML text."""
    title = f"Audit of {audit.title}"
    lead = (
        f"What can somebody who reads everything that is stored after forgetting find out about the row that left? "
        f"{audit.rows:,} rows × {audit.features:,} features of {html.escape(audit.data)}, of which "
        f"{audit.rows // 2:,} are learnt at a time."
    )
    sizes = audit.sizes
    body = "\n".join(
        [
            f"<h1>{html.escape(title)}</h1>",
            f'<p class="lead">{lead}</p>',
            _verdict(audit),
            _tiles(audit),
            "<h2>Every attack</h2>",
            _table(audit.outcomes),
            '<p class="note">In small print: 99% intervals, bootstrapped over rows. Of so many intervals one in a '
            "hundred misses by luck. Chance is an advantage of 0, an area of 0.5, and a power equal to the false alarm "
            "rate.</p>",
            "<h2>Curves</h2>",
            _curves(audit),
            '<p class="note">Both axes are logarithmic: on the left are attackers who must hardly ever accuse '
            "wrongly. The dashed line is guessing.</p>",
            "<h2>What was promised</h2>",
            f"<p>{html.escape(audit.guarantee)}</p>",
            f'<p class="note">{sizes.trials} trials in which one row leaves; {sizes.shadows} shadow models, '
            f"{sizes.candidates} candidates of each group; seed {audit.random_state}; {audit.seconds:.0f} s by the "
            f"clock, {audit.processor_seconds:.0f} s of processor time.</p>",
            _reading(),
        ]
    )
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}'
    top = f'<!doctype html>\n<html lang="en"><head>{head}</title><style>{_STYLE}</style></head>'
    return f"{top}<body><main>{body}</main></body></html>\n"


def _verdict(audit: Audit) -> str:
    if audit.holds and audit.noisy:
        return (
            '<div class="verdict"><b>No trace was seen.</b> Noise is part of the method, so that bits cannot be '
            "compared; neither the last digits nor memory nor file told the row from others.</div>"
        )
    if audit.holds:
        text = (
            "<b>The state holds nothing of the row that left.</b> After forgetting, everything stored was, bit for "
            f"bit, what learning the rows still stored gives, in all {audit.trials} trials; neither the last digits "
            "nor memory nor file held the row or its id."
        )
        others = [o for o in audit.outcomes if not o.figures.at_chance]
        if others:
            text += " What works all the same is below: it is part of what the guarantee leaves open."
        return f'<div class="verdict">{text}</div>'
    seen = [o.name for o in audit.outcomes if o.letter in "ab" and not o.figures.at_chance]
    text = f"<b>Forgetting left a trace.</b> The state was that of learning the stored rows: {audit.same_bits}."
    text += f" What showed the row: {html.escape('; '.join(seen))}." if seen else ""
    return f'<div class="verdict bad">{text}</div>'


def _tiles(audit: Audit) -> str:
    works = sum(outcome.verdict == "works" for outcome in audit.outcomes)
    little = sum(outcome.verdict == "tells a little" for outcome in audit.outcomes)
    tiles = [
        (
            "noise" if audit.noisy else f"{audit.same_as_refit} / {audit.trials}",
            "states equal to learning the stored rows, bit for bit",
        ),
        (percent(audit.stored_share), "of the rows offered are stored"),
        (f"{len(audit.outcomes) - works - little}", "attacks at chance"),
        (f"{little}", "tell a little"),
        (f"{works}", "work"),
    ]
    cells = "".join(f"<div><b>{html.escape(a)}</b><span>{html.escape(b)}</span></div>" for a, b in tiles)
    return f'<div class="big">{cells}</div>'


def _table(outcomes: Sequence[Outcome]) -> str:
    head = ("attack", "verdict", "advantage", "area under curve", "power at 1%", "power at 0.1%")
    lines = ["<thead><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr></thead><tbody>"]
    for letter, name in LETTERS.items():
        own = [o for o in outcomes if o.letter == letter]
        if own:
            lines.append(f'<tr class="kind"><td colspan="6">({letter}) {html.escape(name)}</td></tr>')
        for outcome in own:
            f = outcome.figures
            note = f'<span class="aside">{html.escape(outcome.note)}</span>' if outcome.note else ""
            tag = {"works": "works", "tells a little": "little"}.get(outcome.verdict, "chance")
            cells = [
                html.escape(outcome.name) + note,
                f'<span class="tag {tag}">{outcome.verdict}</span>',
                *(_estimate(e) for e in (f.advantage, f.auc, f.power[0.01], f.power[0.001])),
            ]
            lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</tbody></table></div>'


def _estimate(e: Estimate) -> str:
    digits = 4 if max(abs(e.value), abs(e.high)) < 0.05 else 3
    return f"{e.value:.{digits}f}<small>{e.low:.{digits}f} to {e.high:.{digits}f}</small>".replace("-", "−")


def _curves(audit: Audit) -> str:
    figures = []
    for letter, name in LETTERS.items():
        own = [o for o in audit.outcomes if o.letter == letter]
        if own:
            figures.append(f"<figure>{roc_svg(own)}<figcaption>({letter}) {html.escape(name)}</figcaption></figure>")
    return f'<div class="plots">{"".join(figures)}</div>'


def roc_svg(outcomes: Sequence[Outcome]) -> str:
    """ROC curves on logarithmic axes, as an SVG element."""
    low, width, height, left, top = 1e-3, 320, 300, 46, 10

    def x(rate: float) -> float:
        return left + (width - left - 20) * (1 + math.log10(max(rate, low)) / 3)

    def y(rate: float) -> float:
        return top + (height - top - 40) * (-math.log10(max(rate, low)) / 3)

    parts = []
    for rate, text in ((1e-3, "0.1%"), (1e-2, "1%"), (1e-1, "10%"), (1.0, "100%")):
        parts.append(
            f'<path d="M{x(rate):.1f} {y(1):.1f}V{y(low):.1f}M{x(low):.1f} {y(rate):.1f}H{x(1):.1f}" stroke="{PALE}" '
            'stroke-width=".6"/>'
        )
        parts.append(f'<text x="{x(rate):.1f}" y="{y(low) + 14:.1f}" text-anchor="middle">{text}</text>')
        parts.append(f'<text x="{left - 5}" y="{y(rate) + 3:.1f}" text-anchor="end">{text}</text>')
    parts.append(f'<path d="M{x(low)} {y(low)}L{x(1)} {y(1)}" stroke="{GREY}" stroke-dasharray="4 3"/>')
    for i, outcome in enumerate(outcomes):
        points = _on_log_axes(thinned(outcome.figures.roc), low)
        path = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in points)
        parts.append(f'<path d="M{path}" stroke="{_COLOURS[i % len(_COLOURS)]}" stroke-width="1.8" fill="none"/>')
    parts.append(f'<text x="{(x(low) + x(1)) / 2:.1f}" y="{height - 8}" text-anchor="middle">false alarms</text>')
    parts.append(
        f'<text transform="translate(9 {(y(low) + y(1)) / 2:.1f}) rotate(-90)" text-anchor="middle">recognised</text>'
    )
    legend = 14 * len(outcomes)
    for i, outcome in enumerate(outcomes):
        at = height + 8 + 14 * i
        parts.append(f'<path d="M8 {at - 3}h14" stroke="{_COLOURS[i % len(_COLOURS)]}" stroke-width="2.4"/>')
        name = outcome.name if len(outcome.name) < 64 else outcome.name[:61] + "…"
        parts.append(f'<text x="27" y="{at}" font-size="8.5">{html.escape(name)}</text>')
    return (
        f'<svg viewBox="0 0 {width} {height + legend + 6}" role="img" fill="none" '
        f'font-family="system-ui, sans-serif" font-size="9.5">{"".join(parts)}</svg>'
    )


def _on_log_axes(roc: Float64s, low: float) -> list[tuple[float, float]]:
    """The curve from the left edge on: between thresholds a coin decides, which is a straight line on plain axes."""
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


def _reading() -> str:
    meanings = "".join(
        f"<h3>({letter}) {html.escape(LETTERS[letter])}</h3><p>{text}</p>" for letter, text in _MEANING.items()
    )
    return (
        f"<h2>How to read this</h2>{meanings}<p>An attack that is at chance shows that <i>this</i> attacker learns "
        "nothing, not that none could. That the state equals learning the stored rows, bit for bit, is more: whatever "
        "is computed from it could have been computed without the row, up to which rows are stored, see (e).</p>"
        "<p>The rows that are still stored stand in the model in plain. It has to be protected like the data.</p>"
    )
