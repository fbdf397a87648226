"""The page of an evidence pack: HTML without scripts, fonts or anything else from elsewhere, made to be printed."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from erasable.operations.evidence import Evidence, Filed

_STYLE = """
:root { color-scheme: light; }
@page { size: A4; margin: 20mm 18mm 22mm;
  @bottom-left { content: "Evidence of erasure"; font: 8pt sans-serif; color: #5b6470; }
  @bottom-right { content: counter(page) " / " counter(pages); font: 8pt sans-serif; color: #5b6470; } }
* { box-sizing: border-box; }
body { font: 10.5pt/1.5 Georgia, "Times New Roman", serif; color: #1b1f24; background: #eceae6; margin: 0; }
main { background: #fff; max-width: 210mm; margin: 8mm auto; padding: 20mm 18mm; }
header { border-bottom: 2pt solid #1b1f24; padding-bottom: 4mm; margin-bottom: 6mm; }
h1 { font-size: 22pt; line-height: 1.15; margin: 0 0 2mm; }
h2 { font-size: 13pt; margin: 8mm 0 2mm; padding-top: 2mm; border-top: .5pt solid #c9ced6; break-after: avoid; }
h3 { font-size: 10.5pt; margin: 4mm 0 1mm; break-after: avoid; }
p { margin: 0 0 2mm; }
ul { margin: 0 0 2mm; padding-left: 5mm; }
li { margin-bottom: 1mm; break-inside: avoid; }
table { border-collapse: collapse; width: 100%; margin: 2mm 0 3mm; }
table, .sign div { font: 8.5pt/1.4 system-ui, "Helvetica Neue", Arial, sans-serif; }
th { text-align: left; border-bottom: 1pt solid #1b1f24; padding: 1mm 2mm 1mm 0; vertical-align: bottom; }
td { border-bottom: .5pt solid #dcdfe4; padding: 1mm 2mm 1mm 0; vertical-align: top; }
tr { break-inside: avoid; }
thead { display: table-header-group; }
.facts { break-inside: avoid; }
.facts td:first-child { width: 48mm; color: #5b6470; }
.digest { font: 8pt/1.35 ui-monospace, "DejaVu Sans Mono", Consolas, monospace; overflow-wrap: anywhere; }
.short { white-space: nowrap; }
.audit td:first-child { width: 42%; }
.audit small { font-size: 7pt; color: #5b6470; }
.group { break-after: avoid; }
.group th { border-bottom: .5pt solid #5b6470; padding-top: 3mm; color: #3c444e; }
.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.time { white-space: nowrap; font-variant-numeric: tabular-nums; }
.verdict { border: 1pt solid #2f6b46; border-left-width: 4pt; background: #f2f8f4; padding: 3mm 4mm; }
.verdict.bad { border-color: #b3321f; background: #fdf3f0; }
.verdict b { display: block; font-size: 12.5pt; }
section { break-inside: avoid; }
.small { break-before: avoid; font-size: 9pt; color: #3c444e; }
.no { color: #b3321f; font-weight: 600; }
.sign { display: grid; grid-template-columns: 1fr 1fr 1fr; gap: 8mm; margin-top: 14mm; break-inside: avoid; }
.sign div { border-top: .75pt solid #1b1f24; padding-top: 1mm; color: #5b6470; }
code { font: 8.5pt ui-monospace, "DejaVu Sans Mono", Consolas, monospace; overflow-wrap: anywhere; }
@media print { body { background: #fff; } main { max-width: none; margin: 0; padding: 0; } }
"""

_LIMITS = """<h2>5. What this covers, and what it does not</h2>
<h3>In scope, where section 2 says that the model verifies</h3>
<ul>
<li><b>The model file.</b> All that it stores (rows, sums, weights) is, bit for bit, what learning its own surviving
rows from nothing gives. No counter, gap or last bit of a forgotten row is in it.</li>
<li><b>Rows that were never selected.</b> They left no trace when they were learnt, and need no forgetting.</li>
<li><b>The disk, where the file system overwrites in place.</b> The file from before was overwritten when the request
was acknowledged; a crash at any moment brings nothing back.</li>
<li><b>Anyone can check it.</b> The file alone is enough; the software that forgot need not be trusted, and a second,
independent program does the same check.</li>
</ul>
<h3>Out of scope</h3>
<ul>
<li>Copies elsewhere: the original data, backups, snapshots, replicas, logs, exports and older model files.</li>
<li>The model in service, unless its digest is the one on this page.</li>
<li>Blocks that a drive or file system keeps without a name (SSDs, Btrfs, ZFS, journals of data), swap and memory.</li>
<li>Whatever was fitted on the rows around the model: scalers, vocabularies, embeddings, tuned parameters.</li>
<li>What others have learnt from predictions, weights or files published before.</li>
<li>Whether a request named the right rows. A receipt names nobody, and the times in it are those of its signer.</li>
<li>Rows of people who have not asked: they stand in the model in plain, and it has to be protected like the data.</li>
<li>The law. Whether this satisfies a regulation is not a numerical question.</li>
</ul>
<h3>Attacks that work</h3>
<ul>
<li><b>Before and after.</b> Who holds the model file from before a request reads the forgotten rows in it; from the
weights of before and after, with the model that is left, a row can be computed. Nothing that is done later undoes that:
keep no old copies and exports.</li>
<li><b>Selection.</b> Which other rows are stored may have depended on one that left. Who reads the model, already has a
row with its id, and asks whether it was ever there can often tell, on some data every time: a stored row that it would
have kept out shows that it was not there, a known row that is missing shows that something kept it out. What was in a
row nobody learns in this way. With an infinite threshold and a sample rate this does not exist.</li>
<li><b>The rows that stay.</b> Who reads the file reads them, and weights tell about them as those of any model do.</li>
<li><b>What stands around.</b> A scaler fitted on all rows, a threshold named by the number of rows, and a list of whom
not to learn again together with its key each tell, to who knows all other rows, that there was one more.</li>
<li><b>Guessing against a digest.</b> A receipt that holds the digest of the state before confirms a complete and right
guess of a forgotten row (id, label, values) to somebody who also holds the model after. Two receipts in a row with the
same state afterwards tell that the second request found nothing stored.</li>
<li><b>Timing.</b> Forgetting a stored row rewrites the file, forgetting another does not: who watches disk or clock
sees which. Requests that are done together hide each other.</li>
<li><b>Gaps in ids.</b> Where rows are numbered, a missing number suggests that a row is gone, though not what was in
it.</li>
</ul>"""
_HOW_TO_CHECK = """<section><h2>6. How to check this page</h2>
<ul>
<li><code>sha256sum MODEL</code> gives the digest of section 2 (for a model in one file).</li>
<li><code>erasable verify MODEL</code> learns the stored rows again and compares every bit.</li>
<li><code>python erasable_verify.py MODEL</code> does the same, independently of the program that forgot.</li>
<li><code>erasable receipt verify RECEIPT --key KEY --state MODEL</code> checks a signature, and that the receipt speaks
of this model. With openssl alone it can be checked, too.</li>
</ul>
<div class="sign"><div>Reference</div><div>Filed by</div><div>Date</div></div></section>"""
_ASKED = """<p>
Each request asked that the rows which it named, or all rows of a person, stop existing for the model. Which rows
these were is in no receipt and not on this page. Each receipt is a signed statement that the request was carried
out, and of the state that it left behind. Later requests, and rows learnt since, make new states: a receipt about an
earlier state is no fault.</p>"""
_SCANNED = """<p class="small">A scan finds whole rows and longer parts of them as numbers, and ids as text, in files as
they lie. What is compressed, encrypted or held elsewhere it does not see.</p>"""
_AUDITED = """<p class="small">Each attacker gets all that is left after rows were forgotten, and one row at a time: was
this one learnt and forgotten, or was it never there? <b>At chance</b>: no better than guessing, which has an advantage
of 0 and an AUC of 0.5. <b>Tells a little</b>: better than guessing. <b>Works</b>: much better. TPR: the share of
forgotten rows that are recognised while so few others (FPR) are taken for such. Small figures: the interval. What works
in (d), (e) and (f) uses something else than what is stored of a forgotten row: section 5 says what.</p>"""
_AUDIT_SAYS = {
    True: "<p>The audit's own verdict: no trace of what was forgotten was seen.</p>",
    False: '<p class="no">The audit\'s own verdict: forgetting left a trace.</p>',
    None: "",
}
ATTACKERS = {
    "a": "Residue: computers round, and sums may keep last digits of what was taken out",
    "b": "Presence: the row, its direction or its id, anywhere",
    "c": "Membership: does the model look like one that learnt the row?",
    "d": "Before and after: the attacker kept a copy from before the request",
    "e": "Selection: which other rows are stored because this one was there",
    "f": "What stands around: scalers, thresholds, schemas, receipts, lists",
}
HEADINGS = {
    "advantage": "Advantage",
    "auc": "AUC",
    "tpr_at_1_percent": "TPR at 1% FPR",
    "tpr_at_0.1_percent": "TPR at 0.1% FPR",
}
TOO_SHORT = {
    "ids": "ids",
    "subjects": "subjects",
    "rows": "rows in some encoding",
    "texts": "texts of cells",
    "numbers": "single numbers",
    "cells": "cells of long rows",
}


def page(found: Evidence) -> str:
    """The whole page."""
    parts = [
        _head(found),
        _verdict(found),
        _asked_and_done(found),
        _state(found),
        _scan(found),
        _audit(found),
        _LIMITS,
        _HOW_TO_CHECK,
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Evidence of erasure</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _head(found: Evidence) -> str:
    return (
        f"<header><h1>Evidence of erasure</h1>\n<p>From a machine-learning model. Made {_time(found.made_at)} UTC with "
        f"erasable {html.escape(found.erasable_version)}. This page names nobody: it holds counts, times and "
        "digests.</p></header>"
    )


def _verdict(found: Evidence) -> str:
    if found.holds:
        requests = _count(len(found.receipts), "request")
        said = f"{requests} carried out" if found.keyids else f"{requests} carried out, as unchecked receipts say"
        good = f"{said}; the model verifies."
        rest = [] if found.keyids else ["Signatures of receipts were not checked: no public key was given."]
        if not any(filed.of_this_state for filed in found.receipts):
            rest.append("No receipt speaks of this very state: the model has changed since, or is another one.")
        rest += [] if found.scan else ["No scan for remains elsewhere is part of this page."]
        rest.append(
            "The model file holds, bit for bit, what learning the rows that are left in it gives, and nothing more."
        )
        rest.append("What that covers, and what it does not, is in section 5.")
        return f'<div class="verdict"><b>{good}</b>{" ".join(rest)}</div>'
    problems = [] if found.verified else ["The model does not verify: it is not what learning its own rows gives."]
    if found.wrong_receipts:
        problems.append(f"{_count(found.wrong_receipts, 'file')} among the receipts cannot be relied on.")
    if found.scan and found.scan["found"]:
        problems.append(f"The scan found {_count(found.scan['found'], 'remain')} of rows that should be gone.")
    if found.audit_holds is False:
        problems.append("The audit says that forgetting left a trace.")
    return f'<div class="verdict bad"><b>This does not hold as it stands.</b>{" ".join(problems)}</div>'


def _asked_and_done(found: Evidence) -> str:
    filed = found.receipts
    lines = ["<h2>1. What was asked, and what was done</h2>"]
    if not filed:
        return "\n".join([*lines, '<p class="no">None of the files given is a receipt.</p>'])
    longest = max(f.completed_at - f.requested_at for f in filed)
    facts = [
        ("Requests to forget", f"{len(filed):,}"),
        ("First asked", _time(min(f.requested_at for f in filed)) + " UTC"),
        ("Last completed", _time(max(f.completed_at for f in filed)) + " UTC"),
        ("Longest time to completion", _duration(longest.total_seconds())),
        ("Signatures", _signatures(found)),
        ("Receipts about the state below", f"{sum(f.of_this_state for f in filed):,}"),
    ]
    if found.no_receipts:
        facts.append(("Files that are no receipts", f'<span class="no">{found.no_receipts:,}</span>'))
    lines.append(_facts(facts))
    lines.append(_ASKED)
    head = ("No.", "Request", "Asked (UTC)", "Completed (UTC)", "Model and state afterwards", "Signature")
    lines.append(_table(head, (_row(_receipt_row(i, f)) for i, f in enumerate(filed, 1))))
    notes = []
    if any(f.request is None for f in filed):
        notes.append("Request numbers that are not random are withheld, since they could name somebody.")
    if any(not f.same_guarantee for f in filed):
        notes.append("Some receipts name another guarantee than the one below: of an earlier model, or another one.")
    if found.copies:
        copied = _count(found.copies, "receipt")
        notes.append(f"{copied} copied, by number, into the folder <code>receipts</code> beside this page.")
    return "\n".join([*lines, *(f'<p class="small">{note}</p>' for note in notes)])


def _receipt_row(number: int, filed: Filed) -> list[str]:
    this = "<br><b>state below</b>" if filed.of_this_state else ""
    model = "" if filed.model is None else f"{html.escape(filed.model)}<br>"
    signature = f'<span class="no">{filed.signature}</span>' if filed.signature == "wrong" else filed.signature
    return [
        f'<span class="number">{number}</span>',
        "withheld" if filed.request is None else f'<span class="digest">{html.escape(filed.request)}</span>',
        f'<span class="time">{_time(filed.requested_at)}</span>',
        f'<span class="time">{_time(filed.completed_at)}</span>',
        f'{model}<span class="digest short">{filed.state_after[:12]}…</span>{this}',
        signature,
    ]


def _signatures(found: Evidence) -> str:
    if not found.keyids:
        return "not checked: no public key was given"
    good, all_of = sum(f.signature == "good" for f in found.receipts), len(found.receipts)
    said = f"{good:,} of {all_of:,} good (Ed25519)"
    return said if good == all_of else f'<span class="no">{said}</span>'


def _state(found: Evidence) -> str:
    outcome = (
        f"All {_count(found.core_rows, 'stored row')} were learnt again from nothing; {found.sums:,} sums and "
        f"{found.weights:,} weights came out the same, bit for bit."
        if found.verified
        else '<span class="no">It does not verify: what is stored is not what learning its own rows gives.</span>'
    )
    facts = [
        ("Digest (SHA-256)", f'<span class="digest">{found.digest}</span>'),
        ("Verification", outcome),
        ("Guarantee", html.escape(found.guarantee)),
        ("Model", html.escape(found.kind)),
        ("Stored rows", f"{found.core_rows:,}"),
        ("Columns, classes", f"{found.features:,}, {found.classes or 'none'}"),
        ("Size", f"{found.bytes:,} bytes"),
        *(("Signer's key", f'<span class="digest">{keyid}</span>') for keyid in found.keyids),
    ]
    return "<h2>2. The state of the model, and its verification</h2>\n" + _facts(facts)


def _scan(found: Evidence) -> str:
    title = "<h2>3. Remains elsewhere</h2>\n"
    if found.scan is None:
        return title + "<p>No scan is part of this page. Copies outside of the model were not looked for.</p>"
    s = found.scan
    blind = s["not_looked_into"] + s["ids_only"] + s["unreadable"]
    short = [f"{many:,} {TOO_SHORT[what]}" for what, many in s["too_short"].items() if many]
    remains = f'<span class="no">{s["found"]:,}</span>' if s["found"] else "none"
    facts = [
        ("Rows looked for", f"{s['rows']:,}"),
        ("Looked at", f"{_count(s['files'], 'file')}, {s['bytes']:,} bytes"),
        ("Remains found", remains),
        ("Same numbers, another id", f"{s['twins']:,}"),
        ("Not, or only partly, seen", f"{_count(blind, 'file')}; {_count(s['skipped'], 'file')} left out on request"),
        ("Too short to look for as text", ", ".join(short) or "nothing"),
    ]
    return title + _facts(facts) + _SCANNED


def _audit(found: Evidence) -> str:
    title = "<h2>4. Audit</h2>\n"
    if found.audit is None:
        return title + "<p>No audit by attack is part of this page.</p>"
    used = [name for name in HEADINGS if any(name in result for result in found.audit)]
    lines, group = [], None
    for result in found.audit:
        letter = result.get("letter")
        if letter != group and letter in ATTACKERS:
            lines.append(f'<tr class="group"><th colspan="{2 + len(used)}">({letter}) {ATTACKERS[letter]}</th></tr>')
        group = letter
        figures = (f'<span class="number">{_figure(result.get(name))}</span>' for name in used)
        lines.append(_row([html.escape(result["name"]), html.escape(result["verdict"]), *figures]))
    head = ("Check or attack", "Verdict", *(HEADINGS[name] for name in used))
    return title + _AUDIT_SAYS[found.audit_holds] + _table(head, lines, "audit") + _AUDITED


# -- words and tables ----------------------------------------------------------------------------------------------


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    lines = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in rows)
    return f'<table class="facts"><tbody>{lines}</tbody></table>'


def _table(head: Sequence[str], rows: Iterable[str], kind: str = "listed") -> str:
    top = "".join(f"<th>{name}</th>" for name in head)
    return f'<table class="{kind}"><thead><tr>{top}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _row(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _figure(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return f"{value[0]:.3f}<br><small>{value[1]:.3f} to {value[2]:.3f}</small>"
    return f"{value:.3f}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _duration(seconds: float) -> str:
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size:
            return _count(round(seconds / size), name)
    return _count(max(0, round(seconds)), "second")
