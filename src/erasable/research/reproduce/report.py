"""One self-contained HTML page about an experiment."""

from __future__ import annotations

import html
import re

from erasable.research.reproduce.summary import Results
from erasable.research.reproduce.tables import (
    TextTable,
    as_in_the_paper,
    hints,
    in_detail,
    percent,
    promises,
    seconds,
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
        "<h2>Accuracy while rows leave</h2>",
        _figure(pictures["accuracy"], _accuracy_caption(results)),
        "<h2>The trade</h2>",
        _figure(
            pictures["tradeoff"],
            "Left: what each method stores and how long it needs for all deletions, both on logarithmic scales; the "
            "lower left corner is best. Right: kappa sets how much our method stores.",
        ),
        "<h2>In detail</h2>",
        _table(in_detail(results)),
        "<p>Peak memory is what Python and NumPy allocate above the input. Stored bytes count rows, sums, weights "
        "and checkpoints.</p>",
        "<h2>What each method promises</h2>",
        _table(promises(results), text=True),
        "<p>The promises differ. Exact unlearning in the traditional sense compares with training on every remaining "
        "row. System-aware unlearning compares with training on the remaining <em>stored</em> rows: whoever reads "
        "the whole state learns nothing about the deleted rows, and much less has to be stored.</p>",
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
        f"divided by its own norm. Deleted: {_ORDERS[s['order']]}."
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


def _lead(results: Results) -> str:
    ours, again = results["methods"].get("erasable"), results["methods"].get("retrained")
    if ours is None:
        return "How several ways of forgetting compare, on one machine and the same requests."
    text = (
        f"A classifier that stores {percent(ours['stored_share'])} of its training rows forgot "
        f"{results['settings']['deletions']:,} rows in {seconds(ours['deletion_s'])} seconds, ready to predict after "
        "every single request."
    )
    if again is not None:
        text += f" Keeping every row and updating the same model exactly took {seconds(again['deletion_s'])} seconds."
    return text


def _headline(results: Results) -> str:
    ours = results["methods"].get("erasable")
    if ours is None:
        return ""
    tiles = [
        (percent(ours["stored_share"]), "of the rows are stored"),
        (f"{1e6 * ours['deletion_s'] / ours['requests']:.3g} µs", "per deletion request"),
        (f"{ours['accuracy']['mean'][-1]:.3f}", "accuracy after the last deletion"),
    ]
    again = results["methods"].get("retrained")
    if again is not None:
        tiles.append((f"{again['deletion_s'] / ours['deletion_s']:,.3g}×", "faster than exact retraining"))
    cells = "".join(f"<div><b>{html.escape(a)}</b><span>{html.escape(b)}</span></div>" for a, b in tiles)
    return f'<div class="big">{cells}</div>'


def _accuracy_caption(results: Results) -> str:
    repeats = results["settings"]["repeats"]
    bands = f"Means of {repeats} repeats with 95% confidence bands." if repeats > 2 else f"Repeats: {repeats}."
    extra = ""
    if results["settings"]["order"] == "label":
        extra = " All deleted rows are of one class, so what remains is less and less like the test rows."
    return bands + extra


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
    m, s = results["machine"], results["settings"]
    chosen = ", ".join(f"{k} {s[k]}" for k in ("kappa", "capacity", "alpha", "intercept", "seed", "repeats", "points"))
    return (
        f'<p class="note">{m["cores"]} cores ({html.escape(m["processor"])}), Python {m["python"]}, '
        f"NumPy {m['numpy']}, SciPy {m['scipy']}, scikit-learn {m['scikit-learn']}; "
        f"{html.escape('; '.join(m['blas']))}. Settings: {html.escape(chosen)}. "
        "Methods took turns after every stretch of requests.</p>"
    )
