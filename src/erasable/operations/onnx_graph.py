"""All that predicting with a linear model takes, and an ONNX graph that does it."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.features import LogFeatures
from erasable.version import VERSION

STAMP = "erasable_state_digest"
COPY = "A copy of weights that come from rows: after rows are forgotten, export again and replace it."
_OPSET, _IR = 17, 8  # of 2022 and before, so that most runtimes read them


@dataclass(frozen=True)
class Linear:
    """All that predicting with a linear model takes; a regression has no classes."""

    coef: Float64s
    intercept: Float64s
    classes: list[Any]
    scaling: str | float | tuple[float, ...] | None
    feature_names: list[str] | None
    digest: str
    loss: str
    target_ranges: tuple[tuple[float, float], ...] = ()  # of a regression, one for each target
    log: LogFeatures | None = None  # the map that rows go through first, if there is one

    def stamp(self) -> dict[str, str]:
        """Return the metadata in alphabetical order; all but digest, versions and loss are JSON."""
        metadata = {
            STAMP: self.digest,
            "erasable_version": VERSION,
            "format": "erasable-linear-1" if self.classes else "erasable-regression-1",
            "loss": self.loss,
            "notice": COPY,
            "scaling": json.dumps(self.scaling),
        }
        if self.log is not None:
            metadata["feature_map"] = json.dumps(self.log.describe())
        if self.classes:
            metadata["classes"] = json.dumps(self.classes, ensure_ascii=False)
        if self.target_ranges:
            metadata["target_ranges"] = json.dumps(self.target_ranges)
        if self.feature_names is not None:
            metadata["feature_names"] = json.dumps(self.feature_names, ensure_ascii=False)
        return dict(sorted(metadata.items()))


class Graph:
    """An ONNX graph, built call by call: ``graph("Div", rows, 2.0)`` adds a step and returns the name of its result.

    Inputs are names of results, or numbers and texts, which become constants. Names that no caller chose start with a
    slash.
    """

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._names = (f"/{k}" for k in itertools.count())
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, operator: str, *inputs: str | npt.ArrayLike, name: str = "", **attributes: Any) -> str:
        """Add a step and return the name of its result."""
        name, used = name or next(self._names), [self._input(value) for value in inputs]
        outputs = [name] if operator != "TopK" else [name, next(self._names)]
        self.nodes.append(self._onnx.helper.make_node(operator, used, outputs, name=name, **attributes))
        return name

    def _input(self, value: str | npt.ArrayLike) -> str:
        if isinstance(value, str):
            return value
        constant = self._onnx.numpy_helper.from_array(np.asarray(value), next(self._names))
        self.constants.append(constant)
        return str(constant.name)

    def cast(self, value: str, kind: str = "DOUBLE") -> str:
        """Add a change of type."""
        return self("Cast", value, to=getattr(self._onnx.TensorProto, kind))


def graph_file(onnx: Any, linear: Linear, input_type: str) -> bytes:
    """Return the bytes of an ONNX file with the whole predictor."""
    graph, types = Graph(onnx), onnx.TensorProto
    numbers = types.DOUBLE if input_type == "float64" else types.FLOAT
    value = onnx.helper.make_tensor_value_info
    width = linear.coef.shape[1] if linear.log is None else linear.log.n_features
    inputs = [value("X", numbers, ["N", width])]
    rows = graph.cast("X")
    rows = rows if linear.log is None else _tamed(graph, rows, linear.log)
    # Not MatMul: onnxruntime would fuse it with a division by a number, which it then holds in float32.
    scores = graph("Gemm", _scaled(graph, rows, linear.scaling), linear.coef.T, linear.intercept)
    outputs = (
        _classify(graph, linear, scores, value, types)
        if linear.classes
        else [_clip_targets(graph, linear, scores, value, types)]
    )
    body = onnx.helper.make_graph(graph.nodes, "erasable", inputs, outputs, graph.constants)
    model = onnx.helper.make_model(
        body,
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
        ir_version=_IR,
        producer_name="erasable",
        producer_version=VERSION,
        doc_string=COPY,
    )
    onnx.helper.set_model_props(model, linear.stamp())
    onnx.checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _scaled(graph: Graph, rows: str, scaling: str | float | tuple[float, ...] | None) -> str:
    """Scale rows as ``core.grid.scale_rows`` does."""
    if isinstance(scaling, float):
        return graph("Div", rows, scaling)
    if scaling is None:
        return rows
    if isinstance(scaling, tuple):
        rows = graph("Div", rows, [scaling])
    # By the largest entry first, so that no square overflows; a row of zeros is divided by 1.
    largest = graph("ReduceMax", graph("Abs", rows), axes=[1], keepdims=1)
    tamed = graph("Div", rows, _or_one(graph, largest))
    norms = graph("ReduceL2", tamed, axes=[1], keepdims=1)
    return graph("Div", tamed, _or_one(graph, norms))


def _tamed(graph: Graph, rows: str, log: LogFeatures) -> str:
    """Map rows as ``features.LogFeatures`` does, to the last bit.

    ONNX cannot read the exponent of a number. The map of a size is concave and linear between powers of two, so it is
    the least of ``k + size / 2**k`` over all k. A logarithm names k, and as its last bits differ between runtimes, the
    neighbours are tried as well: powers of two come from a table, so only the addition rounds.
    """
    absent = graph("IsNaN", rows) if log.missing is not None else ""
    if log.missing is not None:
        rows = graph("Where", absent, 0.0, rows)
    if log.centres is not None:
        rows = graph("Sub", rows, [log.centres])
    if log.scales is not None:
        rows = graph("Div", rows, [log.scales])
    sizes = graph("Abs", rows)
    near = graph("Floor", graph("Div", graph("Log", graph("Max", sizes, 1.0)), math.log(2.0)))
    found = []
    for step in (-1.0, 0.0, 1.0):
        k = graph("Clip", graph("Add", near, step), 0.0, 1023.0)
        power = graph("Gather", np.ldexp(1.0, np.arange(1024)), graph.cast(k, "INT64"), axis=0)
        found.append(graph("Add", graph("Div", sizes, power), k))
    least = graph("Min", *found)
    mapped = [graph("Where", graph("Less", rows, 0.0), graph("Neg", least), least)]
    if log.missing is not None:
        mapped = [graph("Where", absent, 0.0, mapped[0])]
    if log.missing == "indicator":
        mapped.append(graph.cast(absent))
    if log.constant:
        largest = graph("ReduceMax", least, axes=[1], keepdims=1)
        mapped.append(graph("Add", graph("Mul", largest, 0.0), log.constant))
    return mapped[0] if len(mapped) == 1 else graph("Concat", *mapped, axis=1)


def _or_one(graph: Graph, sizes: str) -> str:
    """Replace zeros by one."""
    return graph("Where", graph("Equal", sizes, 0.0), 1.0, sizes)


def _clip_targets(graph: Graph, linear: Linear, scores: str, value: Any, types: Any) -> Any:
    """Add the predicted targets, clipped to their ranges."""
    width, (low, high) = len(linear.coef), np.array(linear.target_ranges).T
    if width == 1:
        scores = graph("Squeeze", scores, [1])
    graph("Min", graph("Max", scores, low), high, name="prediction")
    return value("prediction", types.DOUBLE, ["N", width] if width > 1 else ["N"])


def _classify(graph: Graph, linear: Linear, scores: str, value: Any, types: Any) -> list[Any]:
    """Add label, probabilities and scores."""
    classes, width = linear.classes, len(linear.classes)
    if width > 2:
        graph("Identity", scores, name="scores")
        winner = graph("ArgMax", scores, axis=1, keepdims=0)
    else:
        graph("Squeeze", scores, [1], name="scores")
        winner = graph.cast(graph("Greater", "scores", 0.0), "INT64")
        winner = winner if width == 2 else graph("Mul", winner, 0)
    kinds = {bool: (np.bool_, "BOOL"), int: (np.int64, "INT64"), float: (np.float64, "DOUBLE"), str: (object, "STRING")}
    dtype, kind = kinds[type(classes[0])]
    graph("Gather", np.array(classes, dtype=dtype), winner, axis=0, name="label")
    if linear.loss == "logistic" and width > 1:
        _sigmoids(graph, width, scores)
    else:
        _nearest_probabilities(graph, width, scores)
    return [
        value("label", getattr(types, kind), ["N"]),
        value("probabilities", types.DOUBLE, ["N", width]),
        value("scores", types.DOUBLE, ["N", width] if width > 2 else ["N"]),
    ]


def _nearest_probabilities(graph: Graph, k: int, scores: str) -> None:
    """Add halves of one plus the scores, projected to the nearest probabilities, as models/heads does."""
    raw = graph("Div", graph("Add", scores, 1.0), 2.0)
    if k == 1:
        graph("Add", graph("Mul", raw, 0.0), 1.0, name="probabilities")
        return
    if k == 2:
        positive = graph("Clip", raw, 0.0, 1.0)
        graph("Concat", graph("Sub", 1.0, positive), positive, name="probabilities", axis=1)
        return
    ordered = graph("TopK", raw, [k], axis=1)
    beyond = graph("Sub", graph("CumSum", ordered, 1), 1.0)
    excess = graph("Div", beyond, np.arange(1.0, k + 1))
    above = graph.cast(graph("Greater", ordered, excess), "INT64")
    last = graph("Sub", graph("ReduceSum", above, [1], keepdims=1), 1)
    shift = graph("GatherElements", excess, last, axis=1)
    kept = graph("Max", graph("Sub", raw, shift), 0.0)
    graph("Div", kept, graph("ReduceSum", kept, [1], keepdims=1), name="probabilities")


def _sigmoids(graph: Graph, k: int, scores: str) -> None:
    """Add the sigmoids of the scores, divided by their sum if there are more than two classes, as models/heads does."""
    if k == 2:
        scores = graph("Concat", graph("Neg", scores), scores, axis=1)
    decay = graph("Exp", graph("Neg", graph("Abs", scores)))
    logs = graph("Sub", graph("Min", scores, 0.0), graph("Log", graph("Add", decay, 1.0)))
    if k == 2:
        graph("Exp", logs, name="probabilities")
        return
    most = graph("ReduceMax", logs, axes=[1], keepdims=1)
    kept = graph("Exp", graph("Sub", logs, most))
    graph("Div", kept, graph("ReduceSum", kept, [1], keepdims=1), name="probabilities")
