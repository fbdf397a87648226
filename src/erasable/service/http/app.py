"""The application: all routes around one service."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.openapi.utils import get_openapi

from erasable import __version__
from erasable.service.http import api, console, erasures, opendsr, predictions
from erasable.service.http.configuration import Configuration
from erasable.service.http.envelope import Envelope
from erasable.service.http.problems import Form, as_inference_error, as_problem, install
from erasable.service.http.site import Site, needs
from erasable.service.service import ErasureService
from erasable.service.tokens import TokenFile

_DSR = ("/v2/requests", "/v2/discovery", "/v2/status", "/v2/certificate")


def create_app(
    service: ErasureService, tokens: TokenFile, configuration: Configuration, signer: opendsr.Signer | None = None
) -> FastAPI:
    """An ASGI application around a service that has been started.

    Parameters
    ----------
    service : ErasureService
    tokens : TokenFile
    configuration : Configuration
    signer : Signer, optional
        For OpenDSR, whose routes are served only with one.
    """
    app = FastAPI(
        title="erasable",
        version=__version__,
        summary="Machine learning that can forget, bit for bit: predictions out, erasure requests in.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.site = Site(service, tokens, configuration, signer)
    answer = install(app, _form_of)
    predictions.add_routes(app)  # first, since they are called most
    if signer is not None:
        opendsr.add_routes(app)
    app.include_router(api.router)
    app.include_router(erasures.router, responses=api.ERRORS)
    console.add_routes(app)

    @app.get("/openapi.json", include_in_schema=False, dependencies=[Depends(needs())])
    async def description() -> dict[str, Any]:
        """The routes, for programs: any token will do."""
        return app.openapi()

    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    app.middleware_stack = Envelope(app, answer)
    return app


def warm(app: FastAPI) -> None:
    """Build what FastAPI builds for the first request, so that no client waits for it."""
    nowhere = {"type": "http", "method": "GET", "path": "/-", "root_path": "", "headers": [], "query_string": b""}
    for route in app.routes:
        route.matches(nowhere)
    app.openapi()


def _form_of(request: Request) -> Form:
    """The form of errors that a path speaks; for an unknown path, a page if a browser asks."""
    path = request.url.path
    lost = "route" not in request.scope and "text/html" in request.headers.get("accept", "")
    if lost or console.is_page(path):
        return console.as_page
    if path.startswith(_DSR):
        return opendsr.as_error
    return as_inference_error if path.startswith("/v2") else as_problem


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, with the schemas of bodies that direct routes read themselves."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        for described in (method for path in found["paths"].values() for method in path.values()):
            described["responses"].pop("422", None)  # FastAPI's default: here it is 400
        found.setdefault("components", {}).setdefault("schemas", {}).update(app.state.further_schemas)
        app.openapi_schema = found
    return app.openapi_schema
