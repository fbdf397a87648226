"""Files to hand over: downloads, and the evidence page of a model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from urllib.parse import quote

from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from erasable.service.http.problems import Refused
from erasable.service.service import ErasureService

_PATIENCE = 10  # seconds that a page waits for the verification of a model


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
