"""Errors as answers: RFC 9457 problems, and the bodies that the two protocols have of their own.

No answer quotes its request.
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

#: The status of each error, and the text that replaces one which may name paths. The first class that fits decides.
_ANSWERS: tuple[tuple[type[Exception], int, str | None], ...] = (
    (UnknownRequestError, 404, None),
    (QueueFullError, 429, None),
    (ConflictError, 409, None),
    (NoRowsError, 409, None),
    (UnknownOutcomeError, 503, "whether this was done is not known: look at the state before you ask again."),
    (
        BusyError,
        503,
        "the service is stopping, or the model is being changed or trained; nothing was done: try again.",
    ),
    (OSError, 503, "a file of the service cannot be read or written; nothing was accepted."),
    (MemoryError, 503, "there is not enough memory for this now: send less at once, or try again later."),
    (StateFormatError, 503, "a file of the service is damaged: its operator has to put it right."),
    (VerificationError, 503, "a model does not verify: its operator has to put it right."),
    (ErasableError, 400, None),
)
_BY_ERRNO = {
    **dict.fromkeys((ENOSPC, EDQUOT), "the disk of the service is full; nothing was accepted."),
    **dict.fromkeys((EMFILE, ENFILE), "the service has too many files and connections open; nothing was accepted."),
}
_WORDS = {"missing": "is required", "json_invalid": "is not JSON", "literal_error": "has a value that is not supported"}


class Problem(BaseModel):
    """RFC 9457: what went wrong."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str | None = None


class Refused(Exception):  # noqa: N818 - an answer
    """An answer that is an error, in the form that the route speaks."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, detail, headers or {})  # all arguments, so that it can be pickled
        self.status, self.detail, self.headers = status, detail, headers or {}

    def __str__(self) -> str:
        return self.detail


def refusal_of(error: Exception) -> Refused | None:
    """An error as an answer; None for an error of another package."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, ClientDisconnect):
        return Refused(400, "the body was cut off.")
    if isinstance(error, HTTPException):
        return Refused(error.status_code, HTTPStatus(error.status_code).phrase, dict(error.headers or {}))
    if isinstance(error, ValidationError | RequestValidationError):
        return Refused(400, _wrong_fields(error))
    for kind, status, text in _ANSWERS:
        if isinstance(error, kind):
            seconds = math.ceil(getattr(error, "retry_after", 1))
            wait = {"Retry-After": str(max(1, seconds))} if status in (429, 503) else {}
            return Refused(status, _BY_ERRNO.get(getattr(error, "errno", 0) or 0, text or str(error)), wait)
    return None


def _wrong_fields(error: ValidationError | RequestValidationError) -> str:
    """Which fields are wrong, and how; never their values."""
    wrong = []
    for one in error.errors():
        where = ".".join(str(part) for part in one["loc"] if isinstance(part, int) or str(part).isidentifier())
        wrong.append(f"{where[:80] or 'body'}: {_WORDS.get(one['type'], 'is not of the required form')}")
    return "; ".join(dict.fromkeys(wrong[:10]))


#: Writes a refusal in the form that a route speaks.
Form = Callable[[Request, Refused], Response]


def as_problem(request: Request, refused: Refused) -> Response:
    """The form outside the two protocols."""
    title = HTTPStatus(refused.status).phrase
    body = Problem(title=title, status=refused.status, detail=refused.detail).model_dump()
    return JSONResponse(body, refused.status, refused.headers, media_type="application/problem+json")


def as_inference_error(request: Request, refused: Refused) -> Response:
    """The form of the Open Inference Protocol."""
    return JSONResponse({"error": refused.detail}, refused.status, refused.headers)


def install(app: FastAPI, form_of: Callable[[Request], Form]) -> Callable[[Request, Exception], Response]:
    """Answer every error of an app in the form that its request speaks; returns the function that does it."""

    def answer(request: Request, error: Exception) -> Response:
        found = refusal_of(error)
        if found is None:
            route = getattr(request.scope.get("route"), "path", "a route")
            log.error("unexpected %s in %s", type(error).__name__, route)  # its text may quote the request
            found = Refused(500, "unexpected: the log of the service names the type of the error.")
        return form_of(request)(request, found)

    async def answered(request: Request, error: Exception) -> Response:
        return answer(request, error)

    for kind in (Refused, ErasableError, HTTPException, RequestValidationError, ValidationError):
        app.add_exception_handler(kind, answered)
    return answer
