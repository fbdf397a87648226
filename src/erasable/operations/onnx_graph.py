"""All that predicting with a linear model takes, and an ONNX graph that does it.

With a schema, the graph may take the columns of the raw table, one input for each: its steps are then those of the
kinds in ``erasable.schemas``, in float64. ONNX has no hashes and no calendar: with such a column, a graph takes encoded
rows.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.schemas import Category, Cross, Number, Ordered, Schema, Vector, YesNo
from erasable.schemas import canonical_text as canonical
from erasable.version import VERSION

STAMP = "erasable_state_digest"
COPY = "A copy of weights that come from rows: after rows are forgotten, export again and replace it."
_OPSET, _OPSET_ML, _IR = 17, 3, 8  # of 2022 and before, so that most runtimes read them
_STEPS = 2.0**20  # encoded numbers are multiples of one over this
_MOST_PAIRS = 2**20  # of a cross whose pairs are hashed: their places are a table in the file
_MOST_SPELLINGS = 64  # of a word, in capitals and small letters
_OUTPUTS = ("label", "probabilities", "scores", "prediction")


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
    raw: Schema | None = None  # of the raw columns that the graph takes, if it does

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
        if self.classes:
            metadata["classes"] = json.dumps(self.classes, ensure_ascii=False)
        if self.target_ranges:
            metadata["target_ranges"] = json.dumps(self.target_ranges)
        if self.raw is not None:
            metadata["inputs"] = json.dumps(_inputs_of(self.raw), ensure_ascii=False)
        if self.feature_names is not None:
            metadata["feature_names"] = json.dumps(self.feature_names, ensure_ascii=False)
        return dict(sorted(metadata.items()))


def not_raw(schema: Schema) -> dict[str, str]:
    """Return the columns that a graph cannot take as raw columns, with the reason."""
    found = {}
    for column in schema.features:
        listed = isinstance(column, Category) and column.values is not None
        if not listed and not isinstance(column, Number | Ordered | YesNo | Vector):
            found[column.name] = "hashed" if isinstance(column, Category) else column.KIND
        elif column.name in _OUTPUTS or column.name.startswith("/"):
            found[column.name] = "the name of an output"
    for cross in schema.crosses:
        if (cross.hashed or cross.bins) is not None and _pairs(cross, schema) > _MOST_PAIRS:
            found["×".join(cross.columns)] = "too many pairs"
    return found


def _inputs_of(schema: Schema) -> dict[str, str]:
    """Describe what each input of the graph takes."""
    words = {
        Number: "numbers of shape (N, 1), NaN where missing",
        Vector: "numbers of shape (N, {length}), NaN where missing",
    }
    texts = "canonical texts of shape (N, 1), empty where missing"
    return {c.name: words.get(type(c), texts).format(length=getattr(c, "length", 1)) for c in schema.features}


def _pairs(cross: Cross, schema: Schema) -> int:
    a, b = (schema.by_name[name].n_codes + 1 for name in cross.columns)  # type: ignore[union-attr,operator]
    return int(a * b)


class Graph:
    """An ONNX graph, built call by call: ``graph("Div", rows, 2.0)`` adds a step and returns the name of its result.

    Inputs are names of results, or numbers and texts, which become constants. Names that no caller chose start with a
    slash, which names of columns may not.
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
    if linear.raw is None:
        inputs = [value("X", numbers, ["N", linear.coef.shape[1]])]
        rows = graph.cast("X")
    else:
        features = linear.raw.features
        kinds = [(numbers, getattr(c, "length", 1)) if _is_number(c) else (types.STRING, 1) for c in features]
        inputs = [value(c.name, kind, ["N", width]) for c, (kind, width) in zip(features, kinds, strict=True)]
        rows = _RawColumns(graph, linear.raw, input_type).encoded_rows()
    # Not MatMul: onnxruntime would fuse it with a division by a number, which it then holds in float32.
    scores = graph("Gemm", _scaled(graph, rows, linear.scaling), linear.coef.T, linear.intercept)
    outputs = (
        _classify(graph, linear, scores, value, types)
        if linear.classes
        else [_clip_targets(graph, linear, scores, value, types)]
    )
    body = onnx.helper.make_graph(graph.nodes, "erasable", inputs, outputs, graph.constants)
    domains = [("", _OPSET)] if linear.raw is None else [("", _OPSET), ("ai.onnx.ml", _OPSET_ML)]
    model = onnx.helper.make_model(
        body,
        opset_imports=[onnx.helper.make_opsetid(*domain) for domain in domains],
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


# -- raw columns -----------------------------------------------------------------------------------------------------


def _is_number(column: object) -> bool:
    return isinstance(column, Number | Vector)


class _RawColumns:
    """Adds the steps that encode raw columns."""

    def __init__(self, graph: Graph, schema: Schema, input_type: str) -> None:
        self._graph, self._schema, self._single = graph, schema, input_type == "float32"
        self._codes: dict[str, str] = {}  # of columns in crosses: the code of missing cells is the last

    def encoded_rows(self) -> str:
        """Add all steps and return the name of the rows, float64."""
        parts = [part for column in self._schema.features for part in self._column(column)]
        return self._graph("Concat", *parts, *map(self._cross, self._schema.crosses), axis=1)

    def _column(self, column: Any) -> list[str]:
        match column:
            case Vector():
                features, missing = self._vector(column)
            case Number():
                missing = self._graph("IsNaN", column.name)
                features = self._number(column, missing) if column.edges is None else self._bins(column, missing)
            case _:
                features, missing = self._placed(column)
        return [features, self._graph.cast(missing)] if column.indicator else [features]

    def _number(self, column: Number, missing: str) -> str:
        g = self._graph
        low, high = column.range or (-(column.scale or 1.0), column.scale or 1.0)
        x = g.cast(column.name)
        if column.fill is not None:
            x = g("Where", missing, float(column.fill), x)
        x = g("Min", g("Max", x, float(low)), float(high))
        if column.spacing == "linear" and column.range is None:
            scaled = g("Div", x, float(high))
        elif column.spacing == "linear":
            scaled = g("Sub", g("Mul", g("Div", g("Sub", x, float(low)), float(high - low)), 2.0), 1.0)
        else:
            shifted = column.spacing == "log1p"
            top = g("Add", x, 1.0) if shifted else g("Div", x, float(low))
            whole = float(np.log1p(high) if shifted else np.log(high / low))
            scaled = g("Sub", g("Mul", g("Div", g("Log", top), whole), 2.0), 1.0)
        rounded = g("Div", g("Round", g("Mul", scaled, _STEPS)), _STEPS)
        return rounded if column.fill is not None else g("Where", missing, 0.0, rounded)

    def _bins(self, column: Number, missing: str) -> str:
        g, edges = self._graph, column.edges or ()
        reached = np.array([_least_above(e) for e in edges] if self._single else edges)[None, :]
        whole = g.cast(g("GreaterOrEqual", column.name, reached), "INT64")
        code = g("ReduceSum", whole, [1], keepdims=1)
        fill = None if column.fill is None else int(np.searchsorted(edges, column.fill, side="right"))
        return self._features(column, code, missing, fill)

    def _placed(self, column: Any) -> tuple[str, str]:
        """Add the features of a column of texts, and whether the cell is missing, from a table of spellings."""
        codes = {text: code for code, texts in enumerate(_spellings(column)) for text in texts}
        other = column.n_codes - 1 if isinstance(column, Category) else -1
        known = codes | {text: -1 for word in self._schema.missing for text in _capitals(word)}
        code = self._graph(
            "LabelEncoder",
            column.name,
            domain="ai.onnx.ml",
            keys_strings=list(known),
            values_int64s=list(known.values()),
            default_int64=other,
        )
        missing = self._graph("Less", code, 0)
        fill = None if column.fill is None else codes.get(column.fill, other)
        return self._features(column, code, missing, fill), missing

    def _features(self, column: Any, code: str, missing: str, fill: int | None) -> str:
        """Add the features of codes; missing cells have that of the fill, or none."""
        g = self._graph
        code = g("Where", missing, -1 if fill is None else fill, code)
        if any(column.name in cross.columns for cross in self._schema.crosses):
            self._codes[column.name] = g("Where", g("Less", code, 0), column.n_codes, code)
        if isinstance(column, YesNo):
            return self._one_hot(code, np.array([1]))
        if isinstance(column, Ordered) or getattr(column, "bins", "") == "thermometer":
            reached = g.cast(g("Greater", code, np.arange(column.own_width)[None, :]))
            return g("Mul", reached, _level(column))
        if getattr(column, "bins", "") == "multiscale":
            codes = np.arange(column.n_codes)
            joined = [(codes[:, None] // part.run == np.arange(part.width)) * part.level for part in column.groups]
            return g("MatMul", self._one_hot(code, codes), np.hstack(joined))
        return self._one_hot(code, np.arange(column.own_width))

    def _one_hot(self, code: str, places: npt.NDArray[np.int64]) -> str:
        return self._graph.cast(self._graph("Equal", code, places[None, :]))

    def _cross(self, cross: Cross) -> str:
        g, (left, right), names = self._graph, cross.columns, self._schema.by_name
        width = names[right].n_codes + 1  # type: ignore[union-attr,operator]
        pair = g("Add", g("Mul", self._codes[left], width), self._codes[right])
        if (cross.hashed or cross.bins) is not None:
            pairs = np.arange(_pairs(cross, self._schema))
            a, b = pairs // width, pairs % width
            table = cross.places(np.where(a == a.max(), -1, a), np.where(b == b.max(), -1, b), names)
            pair = g("Gather", np.asarray(table, dtype=np.int64), pair, axis=0)
        return self._one_hot(pair, np.arange(cross.width(names)))

    def _vector(self, column: Vector) -> tuple[str, str]:
        """Add the steps of ``Vector.encode``; whole numbers are added up as such."""
        g = self._graph
        x = g.cast(column.name)
        odd = g.cast(g("Not", g("Less", g("Abs", x), np.inf)))
        missing = g("Greater", g("ReduceMax", odd, axes=[1], keepdims=1), 0.0)
        fill = [float(v) for v in column.fill] if column.fill is not None else [0.0] * column.length
        given = g("Where", missing, [fill], x)
        largest = g("ReduceMax", g("Abs", given), axes=[1], keepdims=1)
        share = g("Div", given, g("Max", largest, float(column.scale)))
        whole = g("Round", g("Mul", share, _STEPS))
        exact = g.cast(whole, "INT64")
        squares, one = g("ReduceSum", g("Mul", exact, exact), [1], keepdims=1), int(_STEPS) ** 2
        long = g("Or", g("Greater", squares, one), g("Greater", largest, float(column.scale)))
        norm = g("Sqrt", g.cast(g("Max", squares, one)))
        shorter = g("Div", g("Mul", whole, _STEPS), norm)
        cut = g("Mul", g("Floor", g("Abs", shorter)), g("Sign", shorter))
        return g("Div", g("Where", long, cut, whole), _STEPS), missing


def _level(column: Any) -> float:
    """Return the feature of each level reached of a thermometer, as the schema encodes it."""
    highest = column.levels[-1] if isinstance(column, Ordered) else column.edges[-1]
    rows, _ = Schema((column,), missing=()).encode_sparse({column.name: [highest]})
    return float(rows.toarray()[0, 0])


def _least_above(edge: float) -> np.float32:
    """Return the smallest float32 whose shortest text, which is what it stands for, is not below a number."""
    with np.errstate(over="ignore"):
        near = np.float32(edge)
    while float(str(near)) < edge:
        near = np.nextafter(near, np.float32(np.inf))
    while float(str(below := np.nextafter(near, np.float32(-np.inf)))) >= edge:
        near = below
    return near


def _spellings(column: Any) -> Iterator[list[str]]:
    """Yield, for each code of a column, the texts that stand for it."""
    if isinstance(column, YesNo):
        for words in (column.no, column.yes):
            yield [text for word in words for text in (*_capitals(word), *_with_point(word))]
        return
    listed: tuple[str, ...] = getattr(column, "levels", None) or column.values
    for value in listed:
        yield [*(_capitals(value) if value in ("true", "false") else [value]), *_with_point(value)]


def _with_point(value: str) -> list[str]:
    """Return a whole number as a float is often written."""
    return [f"{value}.0"] if canonical(f"{value}.0") == value else []


def _capitals(word: str) -> list[str]:
    """Return a word in all mixtures of capital and small ASCII letters, or in the usual ones if these are too many."""
    choices = [{c, c.upper()} if c.isascii() else {c} for c in word]
    if 2 ** sum(len(c) > 1 for c in choices) > _MOST_SPELLINGS:
        return sorted({word, *(f(word) for f in (str.upper, str.title) if word.isascii())})
    return sorted(map("".join, itertools.product(*choices)))
