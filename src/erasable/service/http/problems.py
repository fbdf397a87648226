"""Errors as answers: RFC 9457 problems, and the bodies that the two protocols have of their own.

No answer quotes what came in.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from errno import EDQUOT, EMFILE, ENFILE, ENOSPC
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from erasable.errors import (
    BusyError,
    ConflictError,
    ErasableError,
    NoRowsError,
    QueueFullError,
    StateFormatError,
    UnknownOutcomeError,
    UnknownRequestError,
    VerificationError,
)

log = logging.getLogger("erasable.service")

#: The first class that fits decides, so children stand before their parents.
STATUS: tuple[tuple[type[Exception], int], ...] = (
    (UnknownRequestError, 404),
    (QueueFullError, 429),
    (ConflictError, 409),
    (NoRowsError, 409),
    (BusyError, 503),
    (OSError, 503),
    (MemoryError, 503),
    (StateFormatError, 503),
    (VerificationError, 503),
    (ErasableError, 400),
)

#: What is said instead of texts that may name paths.
_INSTEAD: tuple[tuple[type[Exception], str], ...] = (
    (UnknownOutcomeError, "whether this was done is not known: look at the state before you ask again."),
    (BusyError, "the service is stopping, or another process is changing the model; nothing was done: try again."),
    (OSError, "a file of the service cannot be read or written; nothing was accepted."),
    (MemoryError, "there is not enough memory for this now: send less at once, or try again later."),
    (StateFormatError, "a file of the service is damaged: its operator has to put it right."),
    (VerificationError, "a model does not verify: its operator has to put it right."),
)

#: What is said of some errors of the system instead.
_BY_ERRNO = {
    **dict.fromkeys((ENOSPC, EDQUOT), "the disk of the service is full; nothing was accepted."),
    **dict.fromkeys((EMFILE, ENFILE), "the service has too many files and connections open; nothing was accepted."),
}


class Problem(BaseModel):
    """RFC 9457: what went wrong."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str | None = None


class Refused(Exception):  # noqa: N818 - an answer
    """An answer that is an error, in whichever form the route speaks."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, detail, headers or {})  # all of it, so that it can be sent to another process
        self.status, self.detail, self.headers = status, detail, headers or {}

    def __str__(self) -> str:
        return self.detail


def refusal_of(error: Exception) -> Refused | None:
    """An error of this package as an answer; where the service is at fault, in words that name no paths."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, ClientDisconnect):
        return Refused(400, "the body was cut off.")
    for kind, status in STATUS:
        if isinstance(error, kind):
            seconds = math.ceil(getattr(error, "retry_after", 1))
            wait = {"Retry-After": str(max(1, seconds))} if status in (429, 503) else {}
            text = next((said for cause, said in _INSTEAD if isinstance(error, cause)), str(error))
            text = _BY_ERRNO.get(getattr(error, "errno", 0) or 0, text)
            return Refused(status, text, wait)
    return None


def said_of(error: ValidationError | RequestValidationError) -> str:
    """Which fields are wrong, and how; never what they held."""
    wrong = []
    for one in error.errors():
        where = ".".join(str(part) for part in one["loc"] if isinstance(part, int) or str(part).isidentifier())
        wrong.append(f"{where[:80] or 'body'}: {_WORDS.get(one['type'], 'is not of the required form')}")
    return "; ".join(dict.fromkeys(wrong[:10]))


_WORDS = {"missing": "is required", "json_invalid": "is not JSON", "literal_error": "has a value that is not supported"}

Shape = Callable[[Request, Refused], Response]


def as_problem(request: Request, refused: Refused) -> Response:
    """The form outside the two protocols."""
    title = HTTPStatus(refused.status).phrase
    body = Problem(title=title, status=refused.status, detail=refused.detail).model_dump()
    return JSONResponse(body, refused.status, refused.headers, media_type="application/problem+json")


def as_inference_error(request: Request, refused: Refused) -> Response:
    """The form of the Open Inference Protocol."""
    return JSONResponse({"error": refused.detail}, refused.status, refused.headers)


def install(app: FastAPI, shape: Callable[[Request], Shape]) -> Callable[[Request, Exception], Response]:
    """Have every error of an app answered in the form that its request speaks; the function that does it."""

    def answer(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            words = HTTPStatus(error.status_code).phrase
            found: Refused | None = Refused(error.status_code, words, dict(error.headers or {}))
        elif isinstance(error, ValidationError | RequestValidationError):
            found = Refused(400, said_of(error))
        else:
            found = refusal_of(error)
        if found is None:
            route = getattr(request.scope.get("route"), "path", "a route")
            log.error("unexpected %s in %s", type(error).__name__, route)  # its text may quote what came in
            found = Refused(500, "unexpected: the log of the service names the kind of error.")
        return shape(request)(request, found)

    async def answered(request: Request, error: Exception) -> Response:
        return answer(request, error)

    for kind in (Refused, ErasableError, HTTPException, RequestValidationError, ValidationError):
        app.add_exception_handler(kind, answered)
    return answer
