"""Predictions in two protocols: the Open Inference Protocol, and MLflow's ``/invocations``.

Sources: the Open Inference Protocol (KServe's V2), its REST part; MLflow's scoring protocol. A model with a schema, or
with names of features, takes one tensor for each column, named like it, of shape [n] or [n, 1]; any other takes one
tensor of shape [n, d]. Missing cells are ``null``. The version of a model is the random version of its snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from erasable import __version__
from erasable.models.model import Model
from erasable.operations.schemas import schema_of
from erasable.service.http.envelope import direct, in_thread, waiting_of
from erasable.service.http.problems import Refused
from erasable.service.http.rows import (
    columns_of,
    predicted,
    rows_of_numbers,
    rows_of_table,
    table_of_csv,
    table_of_records,
)
from erasable.service.http.site import Site, TheSite, needs, read_json, site_of
from erasable.service.model_files import Snapshot

_AT_ONCE = 64  # rows: predicted in the event loop, where a thread would cost more
_READ_AT_ONCE = 2**16  # bytes: longer bodies are read in a thread, so that nobody waits for them
Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
]
ModelName = Annotated[str, Path(max_length=200)]
T = TypeVar("T")


class Tensor(BaseModel):
    """An input."""

    model_config = ConfigDict(strict=True)  # a text is no number

    name: str = Field(max_length=200)
    shape: list[Annotated[int, Field(ge=0)]] = Field(min_length=1, max_length=2)
    datatype: Datatype
    data: list[Any]
    parameters: dict[str, Any] | None = None


class RequestedOutput(BaseModel):
    """The name of an output."""

    name: str = Field(max_length=200)
    parameters: dict[str, Any] | None = None


class InferenceRequest(BaseModel):
    """Rows to predict."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, strict=True)

    id: str | None = Field(default=None, max_length=200)
    parameters: dict[str, Any] | None = None
    inputs: list[Tensor] = Field(min_length=1, max_length=10_000)
    outputs: list[RequestedOutput] | None = None


class TensorMetadata(BaseModel):
    """An input or output of a model."""

    name: str
    datatype: Datatype
    shape: list[int]


class Output(TensorMetadata):
    """An output with its values."""

    data: list[Any]


class InferenceResponse(BaseModel):
    """Predictions."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[Output]


class InferenceError(BaseModel):
    """An error."""

    error: str


class ModelMetadata(BaseModel):
    """The inputs and outputs of a model."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


_ERRORS: dict[int | str, Any] = {
    code: {"model": InferenceError, "description": "An error."}
    for code in (400, 401, 403, 404, 409, 413, 421, 429, 503, 504)
}
_PROBLEMS: dict[int | str, Any] = {code: {"description": "An error."} for code in (*_ERRORS, 415)}

router = APIRouter(tags=["Predictions"])
_predicting: dict[str, Any] = {"dependencies": [Depends(needs("predict"))], "responses": _ERRORS}


@router.get("/v2/health/live")
async def live() -> dict[str, bool]:
    """Whether the server is running: no token is needed."""
    return {"live": True}


@router.get("/v2/health/ready", response_model=dict[str, bool], responses={503: {"model": dict[str, bool]}})
def ready(site: TheSite) -> JSONResponse:
    """Whether it predicts and accepts requests: no token is needed."""
    found = site.service.health().ready
    return JSONResponse({"ready": found}, 200 if found else 503)


@router.get("/ping", include_in_schema=False)
@router.get("/health", include_in_schema=False)
def ping(site: TheSite) -> Response:
    """MLflow's health check: no token is needed."""
    return Response("\n", 200 if site.service.health().ready else 503)


@router.get("/v2", **_predicting)
async def server() -> dict[str, str | list[str]]:
    """The name and version of the server."""
    return {"name": "erasable", "version": __version__, "extensions": []}


@router.get("/v2/models/{name}/versions/{version}", include_in_schema=False, **_predicting)
@router.get("/v2/models/{name}", **_predicting)
async def metadata(site: TheSite, name: ModelName, version: str | None = None) -> ModelMetadata:
    """The inputs and outputs of a model."""
    snapshot = _snapshot(site, name, version)
    model, columns = snapshot.model, columns_of(snapshot.model)
    kind: Datatype = "FP64" if schema_of(model) is None else "BYTES"
    inputs = [TensorMetadata(name=column, datatype=kind, shape=[-1]) for column in columns or ()]
    if columns is None:
        inputs = [TensorMetadata(name="X", datatype="FP64", shape=[-1, model.n_features or -1])]
    outputs = [TensorMetadata(name=one, datatype=kind, shape=shape) for one, (kind, shape) in _outputs(model).items()]
    return ModelMetadata(name=name, versions=[snapshot.version], platform="erasable", inputs=inputs, outputs=outputs)


@router.get("/v2/models/{name}/versions/{version}/ready", include_in_schema=False, **_predicting)
@router.get("/v2/models/{name}/ready", **_predicting)
async def model_ready(site: TheSite, name: ModelName, version: str | None = None) -> dict[str, bool]:
    """Whether a model predicts."""
    return {"ready": len(_snapshot(site, name, version).model.core) > 0}


async def infer(request: Request, name: ModelName, version: str | None = None) -> Response:
    """Predict rows: outputs ``predict`` and, of a classifier, ``predict_proba``."""
    body = await request.body()
    snapshot = _snapshot(site_of(request), name, version)
    asked, rows, n = await _read(request, _inferred, snapshot.model, body)
    given = _outputs(snapshot.model)
    wanted = given if asked.outputs is None else [one.name for one in asked.outputs]
    if any(output not in given for output in wanted):
        raise Refused(400, f"outputs of this model are {', '.join(given)}.")
    answers, shares = await _predict(request, snapshot, rows, n)
    outputs = []
    for output, (kind, shape) in given.items():
        if output in wanted:
            data = answers if output == "predict" else shares
            flat = data if output == "predict" and len(shape) == 1 else [v for row in data or [] for v in row]
            outputs.append({"name": output, "shape": [n, *shape[1:]], "datatype": kind, "data": flat})
    answer = {"model_name": name, "model_version": snapshot.version, "id": asked.id, "outputs": outputs}
    return JSONResponse({key: value for key, value in answer.items() if value is not None})


async def invocations(request: Request, name: ModelName | None = None) -> Response:
    """MLflow's form: ``dataframe_split``, ``dataframe_records``, ``instances``, ``inputs``, or CSV."""
    site = site_of(request)
    snapshot = site.service.snapshot(site.only_model(name, "use /models/{name}/invocations"))
    kind = request.headers.get("content-type", "application/json").split(";")[0].strip().lower()
    if kind not in ("application/json", "text/csv"):
        raise Refused(415, "give application/json or text/csv.")
    read = _csv if kind == "text/csv" else _invoked
    rows, n, method = await _read(request, read, snapshot.model, await request.body())
    answers, shares = await _predict(request, snapshot, rows, n)
    if method == "predict_proba" and shares is None:
        raise Refused(400, "a regression has no probabilities.")
    return JSONResponse({"predictions": answers if method == "predict" else shares})


async def only_invocations(request: Request) -> Response:
    """MLflow's form, for the one model that is served."""
    return await invocations(request)


def add_routes(app: FastAPI) -> None:
    """Serve both protocols."""
    schema = InferenceRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    app.state.further_schemas = schema.pop("$defs")
    options: dict[str, Any] = {
        "methods": ["POST"],
        "tags": ["Predictions"],
        "dependencies": [Depends(needs("predict"))],
        "route_class_override": direct("predict"),
    }
    for base in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        app.router.add_api_route(
            f"{base}/infer", infer, response_model=InferenceResponse, responses=_ERRORS, **options,
            include_in_schema="version" not in base,
            openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}},
        )  # fmt: skip
    content = {"application/json": {"schema": {"type": "object"}}, "text/csv": {"schema": {"type": "string"}}}
    options |= {"responses": _PROBLEMS, "openapi_extra": {"requestBody": {"required": True, "content": content}}}
    app.router.add_api_route("/invocations", only_invocations, **options)
    app.router.add_api_route("/models/{name}/invocations", invocations, **options)
    app.include_router(router)


def _snapshot(site: Site, name: str, version: str | None) -> Snapshot:
    snapshot = site.service.snapshot(name)
    if version not in (None, snapshot.version):
        raise Refused(404, "no such version exists: a version ends when the model changes.")
    return snapshot


async def _predict(
    request: Request, snapshot: Snapshot, rows: Any, n: int
) -> tuple[list[Any], list[list[float]] | None]:
    site_of(request).metrics.predicted(snapshot.name, n)
    if n <= _AT_ONCE:
        return predicted(snapshot.model, rows)
    return await in_thread(request, predicted, snapshot.model, rows, waiting_of(request).check)


async def _read(request: Request, read: Callable[..., T], model: Model, body: bytes) -> T:
    most = site_of(request).configuration.rows
    if len(body) <= _READ_AT_ONCE:
        return read(model, body, most)
    return await run_in_threadpool(read, model, body, most)


def _outputs(model: Model) -> dict[str, tuple[Datatype, list[int]]]:
    """The datatype and the shape of each output."""
    if not model.classifies:
        ranges = model.configuration.head.target_ranges
        return {"predict": ("FP64", [-1] if len(ranges) == 1 else [-1, len(ranges)])}
    kinds: dict[type, Datatype] = {bool: "BOOL", int: "INT64", float: "FP64"}
    classes = model.classes
    kind = kinds.get(type(classes[0]), "BYTES") if classes else "BYTES"
    return {"predict": (kind, [-1]), "predict_proba": ("FP64", [-1, len(classes)])}


def _few(n: int, most: int) -> int:
    """A number of rows, checked before anything is made of them."""
    if n > most:
        raise Refused(413, f"at most {most:,} rows are predicted in one request.")
    return n


def _inferred(model: Model, body: bytes, most: int) -> tuple[InferenceRequest, Any, int]:
    """An inference request, its tensors as rows, and their number."""
    asked = InferenceRequest.model_validate(read_json(body))
    inputs = asked.inputs
    for one in inputs:
        _few(one.shape[0], most)
        if math.prod(one.shape) != len(_flat(one)):
            raise Refused(400, "a tensor has not as many entries as its shape says.")
    names = columns_of(model)
    if names is None or (len(inputs) == 1 and len(inputs[0].shape) == 2 and len(names) > 1):
        if len(inputs) != 1 or len(inputs[0].shape) != 2:
            raise Refused(400, "this model takes one tensor of shape [rows, columns].")
        n, d = inputs[0].shape
        flat = _flat(inputs[0])
        return asked, rows_of_numbers(model, [flat[i * d : (i + 1) * d] for i in range(n)]), n
    table = {one.name: _flat(one) for one in inputs if len(one.shape) == 1 or one.shape[1] == 1}
    if len(table) < len(inputs):
        raise Refused(400, "this model takes one tensor of shape [rows] for each column, all of other names.")
    return asked, rows_of_table(model, table), len(next(iter(table.values())))


def _flat(tensor: Tensor) -> list[Any]:
    """The entries in their order; rows may be nested lists."""
    if tensor.data and all(isinstance(row, list) for row in tensor.data):
        return [value for row in tensor.data for value in row]
    return tensor.data


def _csv(model: Model, body: bytes, most: int) -> tuple[Any, int, str]:
    table = table_of_csv(body)
    n = _few(len(next(iter(table.values()), [])), most)
    return rows_of_table(model, table), n, "predict"


def _invoked(model: Model, body: bytes, most: int) -> tuple[Any, int, str]:
    """The body of an invocation as rows, their number, and the requested method."""
    asked = read_json(body)
    forms = ("dataframe_split", "dataframe_records", "instances", "inputs")
    if not isinstance(asked, dict) or sum(form in asked for form in forms) != 1:
        raise Refused(400, f"give an object with one of {', '.join(forms)}.")
    params = asked.get("params") or {}
    method = params.get("method", "predict") if isinstance(params, dict) else None
    if method not in ("predict", "predict_proba"):
        raise Refused(400, 'params may be {"method": "predict"} or {"method": "predict_proba"}.')
    form = next(form for form in forms if form in asked)
    given: Any = asked[form]
    objects = isinstance(given, list) and bool(given) and all(isinstance(row, dict) for row in given)
    if form == "dataframe_split":
        given = _table_of_split(given, most)
    elif form == "dataframe_records" or (form == "instances" and objects):
        if not isinstance(given, list):
            raise Refused(400, f"{form} must be a list.")
        _few(len(given), most)
        given = table_of_records(model, given)
    if isinstance(given, dict):
        if not given or not all(isinstance(column, list) for column in given.values()):
            raise Refused(400, f"{form} must hold columns, each a list.")
        n = _few(len(next(iter(given.values()))), most)
        return rows_of_table(model, given), n, method
    if not isinstance(given, list):
        raise Refused(400, f"{form} must be a list of rows, or an object of columns.")
    n = _few(len(given), most)
    return rows_of_numbers(model, given), n, method


def _table_of_split(given: Any, most: int) -> dict[str, list[Any]]:
    """The columns of ``dataframe_split``."""
    columns, data = (given.get("columns"), given.get("data")) if isinstance(given, dict) else (None, None)
    named = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
    if not named or not columns or len(set(columns)) < len(columns) or not isinstance(data, list):
        raise Refused(400, "dataframe_split needs columns, a list of names, and data, a list of lists.")
    _few(len(data), most)
    if any(not isinstance(row, list) or len(row) != len(columns) for row in data):
        raise Refused(400, "dataframe_split has rows with more or fewer cells than columns.")
    return {name: [row[j] for row in data] for j, name in enumerate(columns)}
