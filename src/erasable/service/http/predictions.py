"""Predictions in the Open Inference Protocol.

Source: the Open Inference Protocol (KServe's V2), its REST part. A model with a schema, or with names of features,
takes one tensor for each column, named like it, of shape [n] or [n, 1]; any other takes one tensor of shape [n, d].
Missing cells are ``null``. The version of a model is the random version of its snapshot.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from erasable import __version__
from erasable.models.model import Model
from erasable.operations.schemas import schema_of
from erasable.service.http.envelope import direct, in_thread, waiting_of
from erasable.service.http.problems import Refused
from erasable.service.http.rows import columns_of, predicted, rows_of_numbers, rows_of_table
from erasable.service.http.site import Site, TheSite, needs, read_json, site_of
from erasable.service.model_files import Snapshot

_AT_ONCE = 64  # rows: predicted in the event loop, where a thread would cost more
_READ_AT_ONCE = 2**16  # bytes: longer bodies are read in a thread, so that nobody waits for them
Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
]
ModelName = Annotated[str, Path(max_length=200)]


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
    asked, rows, n = await _read(request, snapshot.model, body)
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


def add_routes(app: FastAPI) -> None:
    """Serve the protocol."""
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


async def _read(request: Request, model: Model, body: bytes) -> tuple[InferenceRequest, Any, int]:
    most = site_of(request).configuration.rows
    if len(body) <= _READ_AT_ONCE:
        return _inferred(model, body, most)
    return await run_in_threadpool(_inferred, model, body, most)


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
