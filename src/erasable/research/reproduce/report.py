"""One self-contained HTML page about an experiment."""

from __future__ import annotations

import html
import re

from erasable.operations.rendering import TextTable, percent
from erasable.research.measuring import in_words
from erasable.research.reproduce.summary import Results
from erasable.research.reproduce.tables import (
    as_in_the_paper,
    hints,
    in_detail,
    promises,
    seconds,
    speed_ups,
)

_STYLE = """
:root { color-scheme: light; }
body { font: 17px/1.55 Georgia, serif; color: #1b1f24; background: #fbfaf8; margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.2rem 4rem; }
h1 { font-size: 2.1rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; }
.lead { font-size: 1.2rem; color: #3c444e; max-width: 46rem; }
.big { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.6rem 0; }
.big div { flex: 1 1 11rem; background: #fff; border: 1px solid #e3e0da; border-radius: .6rem; padding: .8rem 1rem; }
.big b { display: block; font-size: 1.7rem; color: #c2402c; font-variant-numeric: tabular-nums; }
.big span { font-size: .9rem; color: #5b6470; }
.scroll { overflow-x: auto; background: #fff; border: 1px solid #e3e0da; border-radius: .6rem; }
table { border-collapse: collapse; width: 100%; font: 14px/1.45 system-ui, sans-serif; }
th, td { text-align: right; padding: .45rem .7rem; border-bottom: 1px solid #eeebe5; vertical-align: top; }
th:first-child, td:first-child, .text td, .text th { text-align: left; }
tr:last-child td { border-bottom: 0; }
tr.ours td { background: #fdf3f0; font-weight: 600; }
figure { margin: 1rem 0; background: #fff; border: 1px solid #e3e0da; border-radius: .6rem; padding: .8rem; }
figure svg { width: 100%; height: auto; display: block; }
figcaption, .note { font-size: .9rem; color: #5b6470; }
code { font-size: .9em; background: #f1eee8; padding: .1em .3em; border-radius: .25em; }
"""

_ORDERS = {
    "label": "all from one class, in random order, as in the paper",
    "uniform": "drawn at random",
    "oldest": "in the order in which they were learnt",
    "newest": "those first that were learnt last",
    "weights": "drawn at random, unusual rows (those of high leverage) more likely than others",
    "core-first": "the stored rows first, the worst case for a method that stores few",
    "subject": "one person after another, all their rows at once",
}


def page(results: Results, pictures: dict[str, str], command: str) -> str:
    """The report as HTML text, pictures included."""
    s, data = results["settings"], results["data"]
    parts = [
        f"<h1>Forgetting {s['deletions']:,} rows of {html.escape(results['dataset'])}</h1>",
        f'<p class="lead">{_lead(results)}</p>',
        _headline(results),
        "<h2>Time and memory</h2>",
        _table(as_in_the_paper(results)),
        *(f"<p>{html.escape(hint)}</p>" for hint in hints(results)),
        _list(speed_ups(results)),
        "<h2>Accuracy while rows leave</h2>",
        _figure(pictures["accuracy"], _accuracy_caption(results)),
        "<h2>The trade</h2>",
        _figure(
            pictures["tradeoff"],
            "Left: what each method stores and how long it needs for all deletions, both on logarithmic scales; the "
            "lower left corner is best; an open circle is a time that was estimated. Right: kappa sets how much our "
            "method stores, and what accuracy that buys before any deletion.",
        ),
        "<h2>In detail</h2>",
        _table(in_detail(results)),
        "<p>Peak memory is what Python and NumPy allocate above the input. Stored bytes count rows, sums, weights "
        "and checkpoints.</p>",
        "<h2>What each method promises</h2>",
        _table(promises(results), text=True),
        "<p>The promises differ. Exact unlearning in the traditional sense compares with training on every remaining "
        "row. System-aware unlearning compares with training on the remaining <em>stored</em> rows: after a deletion "
        "the whole state is what those rows alone would give, and much less has to be stored. That is not to say that "
        "nothing can be learnt about deleted rows: whether a row was stored may have depended on one that was deleted "
        "later. An attacker who has the state, a row and its id, and knows no other row, can often tell whether that "
        "row was ever there.</p>",
        _figure(
            pictures["figure1"],
            "The difference on a hard-margin support vector machine, computed. One support vector is deleted. "
            "Retraining on all other points draws new points in; system-aware unlearning trains on the support "
            "vectors that are left, as if the others had never been there. (A support-vector machine shows the "
            "definition; it is not how rows are chosen here.)",
        ),
        "<h2>Checks</h2>",
        _checks(results),
        "<h2>How this was made</h2>",
        f"<p><code>{html.escape(command)}</code></p>",
        f"<p>{data['rows']:,} training rows and {data['test_rows']:,} test rows with {data['features']:,} features, "
        f"{data['classes']} classes with shares {', '.join(percent(v) for v in data['class_shares'])}; every row "
        f"divided by its own norm. Deleted: {_ORDERS[s['order']]}{_of_one_class(s)}."
        + (f" Note: {html.escape(data['fitted'])}" if data["fitted"] else "")
        + "</p>",
        _machine(results),
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Forgetting: {html.escape(results['dataset'])}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def _of_one_class(s: Results) -> str:
    return "" if s["order"] == "label" or s["delete_label"] is None else "; rows of one class only"


def _lead(results: Results) -> str:
    ours, again = results["methods"].get("erasable"), results["methods"].get("retrained")
    if ours is None:
        return "How several ways of forgetting compare, on one machine and the same requests."
    text = (
        f"A classifier that stores {percent(ours['stored_share'])} of its training rows forgot "
        f"{results['settings']['deletions']:,} rows. One request at a time, ready to predict after each, that takes "
        f"{_time(ours)}."
    )
    if again is not None:
        text += f" Keeping every row and updating the same model exactly takes {_time(again)}."
    faster = [m for m in results["methods"].values() if m["deletion_s"] < ours["deletion_s"]]
    for m in sorted(faster, key=lambda m: float(m["deletion_s"])):
        text += f" {m['title']} is faster: {_time(m)}, with {percent(m['stored_share'])} of the rows stored."
    return html.escape(text)


def _time(m: Results) -> str:
    if not m["deletion_estimated"]:
        return f"{seconds(m['deletion_s'])} seconds"
    return (
        f"about {seconds(m['deletion_s'])} seconds (estimated from {m['requests_timed']:,} of {m['requests']:,} "
        "requests)"
    )


def _short_time(value: float) -> str:
    return f"{1e6 * value:.3g} µs" if value < 1e-3 else f"{1e3 * value:.3g} ms" if value < 1.0 else f"{value:.3g} s"


def _headline(results: Results) -> str:
    ours = results["methods"].get("erasable")
    if ours is None:
        return ""
    about = "~" if ours["deletion_estimated"] else ""
    guess = results["data"]["majority"]
    tiles = [
        (percent(ours["stored_share"]), "of the rows are stored"),
        (
            about + _short_time(ours["deletion_s"] / ours["requests"]),
            "per deletion request" + (", estimated" if about else ""),
        ),
        (
            f"{ours['accuracy']['mean'][-1]:.3f}",
            f"accuracy after the last deletion; always guessing the largest class: {guess:.3f}",
        ),
    ]
    others = {name: m for name, m in results["methods"].items() if name not in ("erasable", "logistic")}
    compared = [others["retrained"]] if "retrained" in others else []
    if others:
        fastest = min(others.values(), key=lambda m: float(m["deletion_s"]))
        compared += [] if fastest in compared else [fastest]
    tiles += [_comparison(ours, m) for m in compared]
    cells = "".join(f"<div><b>{html.escape(a)}</b><span>{html.escape(b)}</span></div>" for a, b in tiles)
    return f'<div class="big">{cells}</div>'


def _comparison(ours: Results, m: Results) -> tuple[str, str]:
    """By which factor another method is slower, or faster, than ours."""
    ratio = m["deletion_s"] / ours["deletion_s"]
    estimated = ours["deletion_estimated"] or m["deletion_estimated"]
    text = f"{m['title']} deletes {'slower' if ratio >= 1.0 else 'faster'}" + (", estimated" if estimated else "")
    return f"{'~' if estimated else ''}{max(ratio, 1 / ratio):,.3g}×", text


def _accuracy_caption(results: Results) -> str:
    repeats = results["settings"]["repeats"]
    bands = f"Means of {repeats} repeats with 95% confidence bands." if repeats > 2 else f"Repeats: {repeats}."
    extra = ""
    if results["settings"]["order"] == "label":
        extra = " All deleted rows are of one class, so what remains is less and less like the test rows."
    guess = " Dotted, where it is in the picture: always guessing the largest class. The axes do not start at zero."
    return bands + extra + guess


def _list(lines: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>" if lines else ""


def _table(table: TextTable, *, text: bool = False) -> str:
    head = "".join(f"<th>{html.escape(c)}</th>" for c in table.head)
    rows = []
    for row in table.rows:
        ours = ' class="ours"' if row[0].startswith("Algorithm 1") else ""
        rows.append(f"<tr{ours}>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>")
    notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in table.notes)
    kind = ' class="text"' if text else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll"><table{kind}>{body}</table></div>{notes}'


def _figure(svg: str, caption: str) -> str:
    inline = re.sub(r"^.*?(?=<svg)", "", svg, flags=re.DOTALL)  # the XML prologue has no place inside HTML
    return f"<figure>{inline}<figcaption>{caption}</figcaption></figure>"


def _checks(results: Results) -> str:
    items = []
    for check in results["checks"]:
        title = results["methods"][check["method"]]["title"]
        items.append(f"<li>{html.escape(title)}: {check['what']}: {'the same' if check['same'] else 'DIFFERENT'}.</li>")
    return f"<ul>{''.join(items)}</ul>"


def _machine(results: Results) -> str:
    s = results["settings"]
    names = ("kappa", "capacity", "alpha", "intercept", "shards", "random_state", "repeats", "points")
    chosen = ", ".join(f"{name} {s[name]}" for name in names)
    return (
        f'<p class="note">{html.escape(in_words(results["machine"]))}. Settings: {html.escape(chosen)}. '
        "Methods took turns after every stretch of requests.</p>"
    )
