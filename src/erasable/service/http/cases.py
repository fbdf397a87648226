"""The pages about requests: the list of cases, filing with a page to confirm, one request with its receipts."""

from __future__ import annotations

import csv
import io
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from erasable.core.names import FORMATS, doubt_of_reference, spelling_in_words
from erasable.errors import ConflictError, ErasableError
from erasable.operations.evidence import evidence_archive
from erasable.pages import when
from erasable.service.http.api import filed, receipt_file
from erasable.service.http.opendsr import read_day, rfc3339
from erasable.service.http.packs import download, evidence_of
from erasable.service.http.problems import Refused, refusal_of
from erasable.service.http.viewer import Auditor, Filer, Follower, OwnForm, Viewer, controller_query
from erasable.service.index import Query
from erasable.service.requests import Case, Entry, Filing, Identity, State
from erasable.service.service import ErasureService
from erasable.service.tokens import Token
from erasable.tables.name_lists import (
    NameList,
    characters_beyond_ascii,
    read_list,
    split_lines,
    text_of_csv,
    trim_lines,
)

_PAGE, _EXPORTED = 50, 1000  # requests on a page, and read at a time for an export
_STATES = ("open", "overdue", "due_soon", "pending", "in_progress", "completed", "cancelled")
_SORTS = ("urgent", "received", "due", "reference", "settled")
_RISING = ("due", "reference")  # the others are sorted with the newest first
#: How a formula begins, also with the wide characters of East Asian keyboards.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_COLUMNS = "request,reference,from,kind,state,received,due,overdue,filed,settled,identities,receipts"

router = APIRouter(include_in_schema=False)


# -- the list --------------------------------------------------------------------------------------------------------


def _query(viewer: Viewer) -> tuple[dict[str, str], Query]:
    """The fields of the search form, and what they ask the ledger for."""
    values = {name: viewer.request.query_params.get(name, "").strip() for name in ("q", "state", "sort")}
    values["sort"] = values["sort"] or "urgent"
    query = Query(viewer.scope, values["q"], values["state"], values["sort"], values["sort"] not in _RISING, _PAGE)
    return values, replace(query, skip=_PAGE * viewer.page_number)


@router.get("/requests")
def requests(viewer: Follower) -> Response:
    """The requests that match, the most urgent first."""
    values, query = _query(viewer)
    found, filed = viewer.site.service.ledger.search(query), viewer.request.query_params.get("filed", "")
    lists: dict[str, Any] = {"entries": rows_of(found.entries, viewer.token), "states": _STATES, "sorts": _SORTS}
    lists |= {"total": found.total, "page": viewer.page_number, "size": _PAGE, "values": values}
    return viewer.page("requests.html", filed=filed if filed.isdecimal() else "", **lists)


@router.get("/requests.csv")
def export(viewer: Follower) -> Response:
    """Download the requests that match as CSV."""
    query, service = _query(viewer)[1], viewer.site.service
    service.note("export", viewer.token.name)
    return csv_file(partial(_exported, service, query, viewer.token), _COLUMNS, "requests")


def _exported(service: ErasureService, query: Query, token: Token) -> Iterator[list[list[Any]]]:
    today, state = datetime.now(UTC).date(), query.state
    # The oldest first, of all states: requests that are filed or settled meanwhile move no other one to another page.
    query = replace(query, state="", sort="received", descending=False, limit=_EXPORTED, skip=0)
    while found := service.ledger.search(query).entries:
        yield [_as_row(e, token, today) for e in found if _has_state(e, state, today)]
        query = replace(query, skip=query.skip + _EXPORTED)


def _as_row(e: Entry, token: Token, today: date) -> list[Any]:
    asked, signed = "" if e.asked is None else e.asked.identities, len(e.receipts) if token.audits else ""
    days = e.arrived or e.received.date(), e.due or "", "yes" if e.is_overdue(today) else "no"
    times = rfc3339(e.received), "" if e.settled is None else rfc3339(e.settled)
    return [e.request_id, e.reference, e.controller, e.kind, e.state.value, *days, *times, asked, signed]


def _has_state(entry: Entry, state: str, today: date) -> bool:
    """Whether the filter of the list shows an entry."""
    others = {"": True, "open": entry.settled is None}
    others |= {"overdue": entry.is_overdue(today), "due_soon": entry.is_due_soon(today)}
    return others.get(state, entry.state == state)


def csv_file(blocks: Callable[[], Iterator[list[list[Any]]]], columns: str, name: str) -> Response:
    """A table to download, made block by block while it is sent."""

    def lines() -> Iterator[str]:
        yield columns + "\r\n"
        for block in blocks():
            out = io.StringIO()
            csv.writer(out).writerows([_shown_as_text(cell) for cell in row] for row in block)
            yield out.getvalue()

    headers = {"Content-Disposition": f'attachment; filename="{name}-{datetime.now(UTC):%Y-%m-%d}.csv"'}
    return StreamingResponse(lines(), headers=headers, media_type="text/csv")


def _shown_as_text(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip(" ").startswith(_FORMULAS) else cell


def rows_of(entries: list[Entry], token: Token) -> list[dict[str, Any]]:
    """Entries as lists show them, to this token."""
    today = datetime.now(UTC).date()
    return [
        {
            **filed(entry, audits=token.audits).model_dump(),
            "arrived": entry.arrived or entry.received.date(),
            "urgency": "overdue" if entry.is_overdue(today) else "due soon" if entry.is_due_soon(today) else "",
            "whose": controller_query(entry, token),
        }
        for entry in entries
    ]


# -- filing ----------------------------------------------------------------------------------------------------------


class _Draft(NamedTuple):
    """A request, or a list of them, that is not filed yet. Only the page has it; nothing is kept."""

    kind: Any
    text: str
    found: NameList[Identity]
    case: Case


def _draft(service: ErasureService, form: Mapping[str, str]) -> _Draft:
    """Read the form; ``Refused`` or ``InputError`` if it cannot be used."""
    if (kind := form.get("kind", "erasure")) not in ("erasure", "access"):
        raise Refused(400, "a request is an erasure or an access.")
    if form.get("type") not in service.settings.identity_types or form.get("format", "raw") not in FORMATS:
        raise Refused(400, "this type of identity, or the way in which it is written, is not accepted.")
    upload = form.get("file", "")
    if form.get("file.name", "").lower().endswith(".csv"):
        upload = text_of_csv(upload)
    text = "\n".join(part for part in (form.get("value", ""), upload) if part)
    text = {"split": split_lines, "trim": trim_lines}.get(form.get("step", ""), str)(text)
    found = read_list(text, partial(service.identity, form.get("type", ""), form.get("format", "raw")))
    today = datetime.now(UTC).date()
    days = {name: read_day(form[name], name) for name in ("arrived", "due") if form.get(name)}
    case = Case(form.get("reference", ""), **days).dated(service.settings, today)
    return _Draft(kind, text, found, case)


def _new_page(viewer: Viewer, refused: Refused | None = None, typed: Mapping[str, str] | None = None) -> Response:
    return viewer.page(
        "new.html",
        200 if refused is None else refused.status,
        None if refused is None else refused.headers,
        types=sorted(viewer.site.configuration.service.identity_types),
        problem=None if refused is None else refused.detail,
        typed=typed or {},
        today=datetime.now(UTC).date(),
    )


@router.get("/requests/new")
def new(viewer: Filer) -> Response:
    """The form to file requests."""
    return _new_page(viewer)


@router.post("/requests")
def file(viewer: Filer, form: OwnForm) -> Response:
    """File a request for each identity, once they are confirmed."""
    try:
        draft = _draft(viewer.site.service, form)
        undecided = draft.found.unusable or (draft.found.separated and form.get("belongs") != "yes")
        if form.get("step") != "file" or undecided:
            return _confirm_page(viewer, form, draft)
        entries = viewer.site.service.accept_each(_filings(viewer, draft, form))
    except (ErasableError, Refused) as error:
        return _new_page(viewer, refusal_of(error), form)
    if len(entries) == 1:
        return RedirectResponse(f"/requests/{entries[0].request_id}", 303)
    found = {"filed": len(entries)} | ({"q": draft.case.reference} if draft.case.reference else {"sort": "received"})
    return RedirectResponse(f"/requests?{urlencode(found)}", 303)


def _filings(viewer: Viewer, draft: _Draft, form: Mapping[str, str]) -> list[Filing]:
    """A request for each identity. Their ids follow from the key of the page, so a page that is sent twice files once.

    The key is drawn for each page to confirm. Other contents under the same key are another page, and a conflict.
    """
    by, key = viewer.token.name, form.get("key") or secrets.token_urlsafe()
    filings = []
    for number, who in enumerate(draft.found.names):
        request_id = viewer.site.service.id_of(by, f"page\n{key}\n{number}")
        content = [draft.kind, who.role, who.format, who.value, draft.case.reference]
        content += [str(draft.case.arrived), str(draft.case.due), len(draft.found.names)]
        body = json.dumps(content).encode()
        filings.append(Filing(request_id, draft.kind, (who,), body, (), by, draft.case))
    return filings


def _confirm_page(viewer: Viewer, form: Mapping[str, str], draft: _Draft) -> Response:
    service, names, stored = viewer.site.service, draft.found.names, None
    if form.get("step") == "look up" and viewer.token.audits:
        service.note("look-up", viewer.token.name)
        counts = service.count_stored(names)
        stored = {
            "models": {name: (sum(map(bool, each)), sum(each)) for name, each in counts.items()},
            "nowhere": [who.value for i, who in enumerate(names) if not any(each[i] for each in counts.values())],
        }
    return viewer.page(
        "confirm.html",
        400 if form.get("step") == "file" else 200,
        draft=draft,
        key=secrets.token_urlsafe(),
        list=draft.found,
        stored=stored,
        type=form["type"],
        format=form.get("format", "raw"),
        warning=doubt_of_reference(draft.case.reference),
        one=_hints(names[0]) if draft.found.lines == 1 and names else None,
    )


def _hints(who: Identity) -> dict[str, Any]:
    """An identity as it was typed, and possible mistakes in it."""
    raw = who.format == "raw"
    return {
        "value": who.value,
        "raw": raw,
        "odd": characters_beyond_ascii(who.value) if raw else [],
        "compared_as": who.spelt if who.spelt != who.value else None,
        "spelling": spelling_in_words({who.role: who.steps} if who.steps else {}),
        "capitals_count": raw and "casefold" not in who.steps,
    }


# -- one request -----------------------------------------------------------------------------------------------------


def _request_page(viewer: Viewer, request_id: str, status: int = 200) -> Response:
    entry, audits = viewer.entry(request_id), viewer.token.audits
    receipts = viewer.site.service.ledger.receipts(entry) if audits else None
    return viewer.page(
        "request.html",
        status,
        entry=filed(entry, audits=audits),
        case=rows_of([entry], viewer.token)[0],
        cancel_until=entry.cancel_until,
        old_bytes=viewer.site.service.old_bytes,
        **_progress(entry, viewer.token),
        receipts=sorted(receipts or ()),
        too_late=status == 409,
        spelling=spelling_in_words(entry.spelling),
        separated=entry.asked is not None and "separators" in entry.asked.kinds,
    )


@router.get("/requests/{request_id}")
def request(viewer: Follower, request_id: str) -> Response:
    """One request."""
    return _request_page(viewer, request_id)


@router.post("/requests/{request_id}/cancel")
def cancel(viewer: Filer, form: OwnForm, request_id: str) -> Response:
    """Cancel a request, unless it is too late."""
    given = request_id, viewer.controller, viewer.token.audits
    try:
        entry = viewer.site.service.ledger.cancel(*given, by=viewer.token.name)
    except ConflictError:
        return _request_page(viewer, request_id, 409)
    return RedirectResponse(f"/requests/{entry.request_id}{controller_query(entry, viewer.token)}", 303)


@router.get("/requests/{request_id}/state.json")
def progress(viewer: Follower, request_id: str) -> Response:
    """The progress of a request, for the script of its page."""
    return JSONResponse(_progress(viewer.entry(request_id), viewer.token))


@router.get("/requests/{request_id}/receipts/{model}")
def receipt(viewer: Auditor, request_id: str, model: str) -> Response:
    """Download a receipt."""
    service = viewer.site.service
    found = receipt_file(service.receipts(request_id, viewer.controller), model, request_id)
    service.note("download", viewer.token.name, request_id, model)
    return found


@router.get("/requests/{request_id}/evidence.zip")
async def pack(viewer: Auditor, request_id: str) -> Response:
    """Download the receipts of a request, the key and pages that explain them, as one archive."""
    service = viewer.site.service
    entry = await run_in_threadpool(viewer.entry, request_id)
    found = await run_in_threadpool(service.ledger.receipts, entry)
    if not found:
        raise Refused(404, "this request has no receipts, or not yet.")
    pages = {m: await evidence_of(service, m, [text]) for m, text in found.items() if m in service.models}
    facts = {"Received": when(entry.received), "Completed": when(entry.settled or entry.received)}
    facts |= {"What was asked for": str(entry.asked).replace("raw", "plain text")} if entry.asked else {}
    given = entry.request_id, facts, found, pages, service.receipt_key, service.old_bytes
    content = await run_in_threadpool(evidence_archive, *given)
    await run_in_threadpool(service.note, "download", viewer.token.name, entry.request_id)
    return download(content, f"erasure-{entry.request_id}.zip", "application/zip")


@router.get("/requests/{request_id}/stored")
def stored(viewer: Auditor, request_id: str) -> Response:
    """The stored rows of a person who asked."""
    found = viewer.site.service.stored_of(request_id, viewer.controller)
    viewer.site.service.note("look-up", viewer.token.name, request_id)
    query = f"?{viewer.request.url.query}" if viewer.request.url.query else ""
    return viewer.page("stored.html", request_id=request_id, query=query, stored=found)


def _progress(entry: Entry, token: Token) -> dict[str, Any]:
    """The steps of a request, each done or not, and whether it goes on; receipts are shown to auditors alone."""
    received = rfc3339(entry.received)
    settled = None if entry.settled is None else rfc3339(entry.settled)
    if entry.state is State.CANCELLED:
        steps = [("Received and saved", received), ("Cancelled", settled)]
    else:
        forgotten = "Forgotten in every model, old files overwritten"
        second = "Stored rows looked up" if entry.kind == "access" else forgotten
        steps = [("Received and saved", received), (second, settled)]
        if entry.kind == "erasure" and token.audits:
            signed = entry.state is State.COMPLETED and not entry.owes_receipts
            steps.append(("State verified, receipt signed", "done" if signed else None))
    going = entry.settled is None or (entry.owes_receipts and token.audits)
    return {
        "steps": [{"what": what, "when": when, "done": when is not None} for what, when in steps],
        "going": going,
    }
