"""The application: all routes around one service."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.openapi.utils import get_openapi

from erasable import __version__
from erasable.audit.keys import PublicKey
from erasable.service.http import console, inference, opendsr, own
from erasable.service.http.configuration import Configuration
from erasable.service.http.guard import Direct, Envelope, Guard
from erasable.service.http.metrics import Metrics
from erasable.service.http.problems import Shape, as_inference_error, as_problem, install
from erasable.service.http.signing import Signer
from erasable.service.service import ErasureService
from erasable.service.tokens import TokenFile

_DSR = ("/v2/requests", "/v2/discovery", "/v2/status", "/v2/certificate", "/v1/opengdpr_requests", "/v1/discovery")


def create_app(
    service: ErasureService,
    tokens: TokenFile,
    configuration: Configuration,
    receipt_key: PublicKey,
    signer: Signer | None = None,
) -> FastAPI:
    """An ASGI application around a service that has been started.

    Parameters
    ----------
    service : ErasureService
    tokens : TokenFile
    configuration : Configuration
    receipt_key : PublicKey
        Checks receipts of this service.
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
    guard, metrics = Guard(tokens, configuration), Metrics(service)
    answer = install(app, lambda request: _shape(app, request))
    inference.add_routes(app, service, guard, metrics, configuration)  # first: most calls
    if signer is not None:
        opendsr.add_routes(
            app,
            service,
            guard,
            signer,
            identity_types=list(configuration.service.identity_types),
            domain=configuration.processor_domain,
            url=configuration.url,
        )
    own.add_routes(app, service, guard, metrics, configuration)
    console.add_routes(app, service, guard, configuration, receipt_key)

    @app.get("/openapi.json", include_in_schema=False, dependencies=[Depends(guard.needs())])
    async def description() -> dict[str, Any]:
        """The routes, for programs: any token will do."""
        return _described(app)

    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    # In place of what catches errors around all that FastAPI does, not within it: most requests are for direct routes.
    app.middleware_stack = Envelope(
        app,
        app.build_middleware_stack().app,  # type: ignore[attr-defined]
        configuration,
        metrics,
        answer,
        console.form_bytes,
        [route for route in app.routes if isinstance(route, Direct)],
    )
    return app


def warm(app: FastAPI) -> None:
    """Have everything made that FastAPI makes when it is first asked for, for which everybody would wait."""
    nowhere = {"type": "http", "method": "GET", "path": "/-", "root_path": "", "headers": [], "query_string": b""}
    for route in app.routes:
        route.matches(nowhere)
    _described(app)


def _shape(app: FastAPI, request: Request) -> Shape:
    """The form of errors that a path speaks; of one that leads nowhere, a page where a browser asks."""
    path = request.url.path
    lost = "route" not in request.scope and "text/html" in request.headers.get("accept", "")
    if lost or console.is_page(path):
        return app.state.as_page  # type: ignore[no-any-return]
    if path.startswith(_DSR):
        return opendsr.as_error
    return as_inference_error if path.startswith("/v2") else as_problem


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, with the schemas of bodies that routes read themselves."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        for described in (method for path in found["paths"].values() for method in path.values()):
            described["responses"].pop("422", None)  # what FastAPI would answer: here it is 400
        found.setdefault("components", {}).setdefault("schemas", {}).update(app.state.further_schemas)
        app.openapi_schema = found
    return app.openapi_schema
