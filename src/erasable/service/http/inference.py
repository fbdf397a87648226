"""Predictions in the forms that clients have: the Open Inference Protocol, and MLflow's ``/invocations``.

Sources: the Open Inference Protocol (KServe's V2), its REST part; MLflow's scoring protocol. A model with a schema, or
with names of features, takes one tensor for each column, named like it, of shape [n] or [n, 1]; any other takes one
tensor of shape [n, d]. Cells that are missing are ``null``. The version of a model is a random name of the snapshot.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, FastAPI, Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from erasable.errors import InputError
from erasable.models.model import Model
from erasable.operations.schemas import schema_of
from erasable.service.http.configuration import Configuration
from erasable.service.http.guard import Guard
from erasable.service.http.metrics import Metrics
from erasable.service.http.patience import in_thread, patience_of
from erasable.service.http.problems import Refused
from erasable.service.http.tables import (
    columns_of,
    no_constant,
    predicted,
    rows_of_numbers,
    rows_of_table,
    table_of_csv,
    table_of_records,
)
from erasable.service.service import ErasureService
from erasable.service.snapshots import Snapshot

_AT_ONCE = 64  # rows: predicted in the loop, where a thread would cost more
_READ_AT_ONCE = 2**16  # bytes: longer bodies are read in a thread, so that nobody waits for them
Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
]
ModelName = Annotated[str, Path(max_length=200)]
T = TypeVar("T")


class Tensor(BaseModel):
    """An input."""

    name: str = Field(max_length=200)
    shape: list[Annotated[int, Field(ge=0)]] = Field(min_length=1, max_length=2)
    datatype: Datatype
    data: list[Any]
    parameters: dict[str, Any] | None = None


class Wanted(BaseModel):
    """An output that is asked for."""

    name: str = Field(max_length=200)
    parameters: dict[str, Any] | None = None


class InferenceRequest(BaseModel):
    """What to predict."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    id: str | None = Field(default=None, max_length=200)
    parameters: dict[str, Any] | None = None
    inputs: list[Tensor] = Field(min_length=1, max_length=10_000)
    outputs: list[Wanted] | None = None


class Answer(BaseModel):
    """An output."""

    name: str
    shape: list[int]
    datatype: Datatype
    data: list[Any]


class InferenceResponse(BaseModel):
    """What was predicted."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[Answer]


class InferenceError(BaseModel):
    """What went wrong."""

    error: str


class TensorMetadata(BaseModel):
    """An input or output of a model."""

    name: str
    datatype: Datatype
    shape: list[int]


class ModelMetadata(BaseModel):
    """What a model takes and gives."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class ServerMetadata(BaseModel):
    """What this server is."""

    name: str
    version: str
    extensions: list[str]


class Ready(BaseModel):
    """Whether something is ready."""

    ready: bool


class Live(BaseModel):
    """Whether the server lives."""

    live: bool


_ERRORS: dict[int | str, Any] = {
    code: {"model": InferenceError, "description": "An error."}
    for code in (400, 401, 403, 404, 409, 413, 429, 503, 504)
}


def add_routes(app: FastAPI, service: ErasureService, guard: Guard, metrics: Metrics, limits: Configuration) -> None:
    """Serve both protocols."""
    predicting: Any = [Depends(guard.needs("predict"))]

    async def live() -> Live:
        """Whether the server lives: no token is needed."""
        return Live(live=True)

    def ready() -> JSONResponse:
        """Whether it predicts and takes requests: no token is needed."""
        well = service.health().ready
        return JSONResponse({"ready": well}, 200 if well else 503)

    async def server() -> ServerMetadata:
        """What this server is."""
        from erasable import __version__

        return ServerMetadata(name="erasable", version=__version__, extensions=[])

    def snapshot_of(name: str, version: str | None) -> Snapshot:
        snapshot = service.snapshot(name)
        if version not in (None, snapshot.version):
            raise Refused(404, "there is no such version: a version is gone when its rows are.")
        return snapshot

    async def metadata(name: ModelName, version: str | None = None) -> ModelMetadata:
        """What a model takes and gives."""
        snapshot = snapshot_of(name, version)
        return ModelMetadata(
            name=name,
            versions=[snapshot.version],
            platform="erasable",
            inputs=_inputs(snapshot.model),
            outputs=[
                TensorMetadata(name=output, datatype=kind, shape=shape)
                for output, (kind, shape) in _outputs(snapshot.model).items()
            ],
        )

    async def model_ready(name: ModelName, version: str | None = None) -> Ready:
        """Whether a model predicts."""
        return Ready(ready=len(snapshot_of(name, version).model.core) > 0)

    async def answered(
        request: Request, snapshot: Snapshot, rows: Any, n: int
    ) -> tuple[list[Any], list[list[float]] | None]:
        metrics.predicted(snapshot.name, n)
        if n <= _AT_ONCE:
            return predicted(snapshot.model, rows)
        return await in_thread(request, predicted, snapshot.model, rows, patience_of(request).check)

    async def understood(call: Callable[..., T], model: Model, body: bytes) -> T:
        if len(body) <= _READ_AT_ONCE:
            return call(model, body, limits.rows)
        return await run_in_threadpool(call, model, body, limits.rows)

    async def infer(request: Request, name: ModelName, version: str | None = None) -> Response:
        """Predict rows: outputs ``predict`` and, of a classifier, ``predict_proba``."""
        body = await request.body()
        snapshot = snapshot_of(name, version)
        model = snapshot.model
        asked, rows, n = await understood(_inferred, model, body)
        given = _outputs(model)
        wanted = given if asked.outputs is None else [one.name for one in asked.outputs]
        if any(output not in given for output in wanted):
            raise Refused(400, f"outputs of this model are {', '.join(given)}.")
        answers, shares = await answered(request, snapshot, rows, n)
        outputs = []
        for output, (kind, shape) in given.items():
            if output in wanted:
                data = answers if output == "predict" else shares
                flat = data if output == "predict" and len(shape) == 1 else [v for row in data or [] for v in row]
                outputs.append({"name": output, "shape": [n, *shape[1:]], "datatype": kind, "data": flat})
        told = {"model_name": name, "model_version": snapshot.version, "id": asked.id, "outputs": outputs}
        return JSONResponse({key: value for key, value in told.items() if value is not None})

    def only_model() -> str:
        if len(service.models) > 1:
            raise Refused(400, "several models are served: use /models/{name}/invocations.")
        return service.models[0]

    async def invocations(request: Request) -> Response:
        """MLflow's form, for the one model that is served."""
        return await invoked(request, only_model())

    async def invoked(request: Request, name: ModelName) -> Response:
        """MLflow's form: ``dataframe_split``, ``dataframe_records``, ``instances``, ``inputs``, or CSV."""
        snapshot = service.snapshot(name)
        kind = request.headers.get("content-type", "application/json").split(";")[0].strip().lower()
        if kind not in ("application/json", "text/csv"):
            raise Refused(415, "give application/json or text/csv.")
        read = _csv if kind == "text/csv" else _invoked
        rows, n, method = await understood(read, snapshot.model, await request.body())
        answers, shares = await answered(request, snapshot, rows, n)
        if method == "predict_proba" and shares is None:
            raise Refused(400, "a regression has no probabilities.")
        return JSONResponse({"predictions": answers if method == "predict" else shares})

    def ping() -> Response:
        """MLflow's health check: no token is needed."""
        return Response("\n", 200 if service.health().ready else 503)

    problems: dict[int | str, Any] = {code: {"description": "An error."} for code in (*_ERRORS, 415)}
    schema = InferenceRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    defined = schema.pop("$defs")
    # At the application itself: a router within it would cost every request more.
    add = partial(app.router.add_api_route, tags=["Predictions"])
    direct = guard.direct("predict")
    for base in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        more: dict[str, Any] = {
            "dependencies": predicting,
            "responses": _ERRORS,
            "include_in_schema": "version" not in base,
        }
        extra = {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
        described: dict[str, Any] = {"response_model": InferenceResponse, "openapi_extra": extra}
        add(f"{base}/infer", infer, methods=["POST"], route_class_override=direct, **described, **more)
        add(base, metadata, methods=["GET"], **more)
        add(f"{base}/ready", model_ready, methods=["GET"], **more)
    body: dict[str, Any] = {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object"}}, "text/csv": {"schema": {"type": "string"}}},
        }
    }
    common: dict[str, Any] = {
        "methods": ["POST"],
        "dependencies": predicting,
        "responses": problems,
        "openapi_extra": body,
        "route_class_override": direct,
    }
    add("/invocations", invocations, **common)
    add("/models/{name}/invocations", invoked, **common)
    add("/v2/health/live", live, methods=["GET"])
    add("/v2/health/ready", ready, methods=["GET"], response_model=Ready, responses={503: {"model": Ready}})
    add("/v2", server, methods=["GET"], dependencies=predicting, responses=_ERRORS)
    for path in ("/ping", "/health"):
        add(path, ping, methods=["GET"], include_in_schema=False)
    app.state.further_schemas = {**getattr(app.state, "further_schemas", {}), **defined}


def _inputs(model: Model) -> list[TensorMetadata]:
    names = columns_of(model)
    if names is None:
        return [TensorMetadata(name="X", datatype="FP64", shape=[-1, model.n_features or -1])]
    kind: Datatype = "FP64" if schema_of(model) is None else "BYTES"
    return [TensorMetadata(name=name, datatype=kind, shape=[-1]) for name in names]


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
    """A number of rows that is not too large; asked before anything is made of them."""
    if n > most:
        raise Refused(413, f"at most {most:,} rows are predicted in one request.")
    return n


def _inferred(model: Model, body: bytes, most: int) -> tuple[InferenceRequest, Any, int]:
    """A request as it came, its tensors as rows, and how many there are."""
    asked = InferenceRequest.model_validate_json(body)
    return asked, *_rows(model, asked.inputs, most)


def _rows(model: Model, inputs: list[Tensor], most: int) -> tuple[Any, int]:
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
        return rows_of_numbers(model, [flat[i * d : (i + 1) * d] for i in range(n)]), n
    table = {one.name: _flat(one) for one in inputs if len(one.shape) == 1 or one.shape[1] == 1}
    if len(table) < len(inputs):
        raise Refused(400, "this model takes one tensor of shape [rows] for each column, all of other names.")
    return rows_of_table(model, table), len(next(iter(table.values())))


def _flat(tensor: Tensor) -> list[Any]:
    """The entries in their order; rows may be nested lists."""
    if tensor.data and all(isinstance(row, list) for row in tensor.data):
        return [value for row in tensor.data for value in row]
    return tensor.data


def _csv(model: Model, body: bytes, most: int) -> tuple[Any, int, str]:
    try:
        table = table_of_csv(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError("CSV must be in UTF-8.") from error
    n = _few(len(next(iter(table.values()), [])), most)
    return rows_of_table(model, table), n, "predict"


def _invoked(model: Model, body: bytes, most: int) -> tuple[Any, int, str]:
    """The body of an invocation as rows, their number, and the method asked for."""
    try:
        asked = json.loads(body, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "the body is not JSON.") from error
    forms = ("dataframe_split", "dataframe_records", "instances", "inputs")
    if not isinstance(asked, dict) or sum(form in asked for form in forms) != 1:
        raise Refused(400, f"give an object with one of {', '.join(forms)}.")
    params = asked.get("params") or {}
    method = params.get("method", "predict") if isinstance(params, dict) else None
    if method not in ("predict", "predict_proba"):
        raise Refused(400, 'params may be {"method": "predict"} or {"method": "predict_proba"}.')
    form = next(form for form in forms if form in asked)
    given: Any = asked[form]
    if form == "dataframe_split":
        columns: Any = given.get("columns") if isinstance(given, dict) else None
        data: Any = given.get("data") if isinstance(given, dict) else None
        if not _names(columns) or not isinstance(data, list) or not all(isinstance(row, list) for row in data):
            raise Refused(400, "dataframe_split needs columns, a list of names, and data, a list of lists.")
        _few(len(data), most)
        if any(len(row) != len(columns) for row in data):
            raise Refused(400, "dataframe_split has rows with more or fewer cells than columns.")
        given = {name: [row[j] for row in data] for j, name in enumerate(columns)}
    elif form == "dataframe_records" or (form == "instances" and isinstance(given, list) and _objects(given)):
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


def _names(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(n, str) for n in given) and len(set(given)) == len(given) > 0


def _objects(given: list[Any]) -> bool:
    return bool(given) and all(isinstance(row, dict) for row in given)
