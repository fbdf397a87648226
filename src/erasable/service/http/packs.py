"""Evidence to hand over: the page about a model, and one archive for each erasure that can be checked without us."""

from __future__ import annotations

import asyncio
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from erasable.audit.keys import PublicKey
from erasable.operations.forget import receipt_name
from erasable.pages import render
from erasable.service.http.problems import Refused
from erasable.service.requests import Entry
from erasable.service.service import ErasureService

_PATIENCE = 10  # seconds that a page waits for the verification of a model
_KEY = "receipts.pub.pem"


def download(content: str | bytes, name: str, media_type: str) -> Response:
    """A file to be saved, under a name that old clients get without odd characters."""
    plain, exact = re.sub(r"[^A-Za-z0-9._-]", "_", name), quote(name, safe="", errors="replace")
    headers = {"Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}"}
    return Response(content, headers=headers, media_type=media_type)


async def evidence_of(service: ErasureService, model: str, receipts: Sequence[str]) -> str:
    """The evidence page of a model, which is verified first unless that was done; ``Refused`` if it takes long."""
    for _ in range(_PATIENCE):
        if (page := await run_in_threadpool(service.evidence, model, receipts)) is not None:
            return page
        found = service.verification(model)
        if found is not None and found.problem is not None:
            raise Refused(409, f"{model} does not verify, so there is no evidence page of it: see the overview.")
        await run_in_threadpool(service.verify, model)
        await asyncio.sleep(1)
    again = "it is verified first, which takes about as long as learning its rows. Try again in a minute."
    raise Refused(503, f"there is no evidence page of {model} yet: {again}", {"Retry-After": "60"})


async def pack_of(service: ErasureService, entry: Entry, receipts: Mapping[str, str]) -> bytes:
    """A zip archive of the receipts of an erasure, the public key, evidence pages and a page in plain words."""
    pages = {m: await evidence_of(service, m, [text]) for m, text in sorted(receipts.items()) if m in service.models}
    return await run_in_threadpool(_zipped, entry, receipts, pages, service.receipt_key)


def _zipped(entry: Entry, receipts: Mapping[str, str], pages: Mapping[str, str], key: PublicKey) -> bytes:
    names: dict[str, str] = {}  # of files, by model: two models may differ in characters that file names do not have
    for model in sorted(receipts):
        name = receipt_name(model, entry.request_id).removeprefix("receipt-").removesuffix(".json")
        names[model] = name if name not in names.values() else f"{name}-{len(names)}"
    signed = {f"receipt-{names[model]}.json": model for model in names}
    made = {f"evidence-{names[model]}.html": model for model in pages}
    about = render("pack.html", entry=entry, receipts=signed, pages=made, keyid=key.keyid, key=_KEY)
    content: dict[str, str | bytes] = {"READ-ME-FIRST.html": about, _KEY: key.pem()}
    content |= {file: receipts[model] for file, model in signed.items()}
    content |= {file: pages[model] for file, model in made.items()}
    out, now = io.BytesIO(), datetime.now(UTC)
    with zipfile.ZipFile(out, "w") as archive:
        for file, text in content.items():
            info = zipfile.ZipInfo(file, (now.year, now.month, now.day, now.hour, now.minute, now.second))
            archive.writestr(info, text, zipfile.ZIP_DEFLATED)
    return out.getvalue()
