"""All that predicting with a linear model takes, and an ONNX graph that does it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.operations._raw_rows import RawRows, inputs_of
from erasable.schemas import Schema

STAMP = "erasable_state_digest"
COPY = "A copy of weights that come from rows: after rows are forgotten, export again and replace it."
_OPSET, _OPSET_ML, _IR = 17, 3, 8  # of 2022 and before: what reads them is everywhere


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
    raw: Schema | None = None  # of the raw columns that a graph takes, where it does

    def stamp(self) -> dict[str, str]:
        """What is said about the weights, in alphabetical order; all but digest, versions and loss are JSON."""
        said = {
            STAMP: self.digest,
            "erasable_version": version("erasable"),
            "format": "erasable-linear-1" if self.classes else "erasable-regression-1",
            "loss": self.loss,
            "notice": COPY,
            "scaling": json.dumps(self.scaling),
        }
        if self.classes:
            said["classes"] = json.dumps(self.classes, ensure_ascii=False)
        if self.target_ranges:
            said["target_ranges"] = json.dumps(self.target_ranges)
        if self.raw is not None:
            said["inputs"] = json.dumps(inputs_of(self.raw), ensure_ascii=False)
        if self.feature_names is not None:
            said["feature_names"] = json.dumps(self.feature_names, ensure_ascii=False)
        return dict(sorted(said.items()))


class Graph:
    """An ONNX graph, built step by step; every step is named after what it computes."""

    def __init__(self, onnx: Any, linear: Linear) -> None:
        self._onnx, self._linear = onnx, linear
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def file(self, input_type: str) -> bytes:
        """The bytes of the model file."""
        o, linear = self._onnx, self._linear
        numbers = o.TensorProto.DOUBLE if input_type == "float64" else o.TensorProto.FLOAT
        taken = [("X", numbers, linear.coef.shape[1])]
        public = {"X": "X"}
        if linear.raw is None:
            self.cast("X", "rows")
        else:
            raw = RawRows(self, linear.raw, input_type)
            raw.built()
            taken = [(n, numbers if kind == "number" else o.TensorProto.STRING, width) for n, kind, width in raw.inputs]
            public = {name: column.name for (name, _, _), column in zip(taken, linear.raw.features, strict=True)}
        outputs = self._classified() if linear.classes else self._predicted()
        if linear.raw is not None:
            self._rename(public | {found.name: found.name for found in outputs})
        inputs = [o.helper.make_tensor_value_info(public[n], kind, ["N", width]) for n, kind, width in taken]
        graph = o.helper.make_graph(self._nodes, "erasable", inputs, outputs, list(self._constants.values()))
        domains = [("", _OPSET)] if linear.raw is None else [("", _OPSET), ("ai.onnx.ml", _OPSET_ML)]
        model = o.helper.make_model(
            graph,
            opset_imports=[o.helper.make_opsetid(*domain) for domain in domains],
            ir_version=_IR,
            producer_name="erasable",
            producer_version=version("erasable"),
            doc_string=COPY,
        )
        o.helper.set_model_props(model, linear.stamp())
        o.checker.check_model(model, full_check=True)
        data: bytes = model.SerializeToString(deterministic=True)
        return data

    def _rename(self, public: dict[str, str]) -> None:
        """Give inputs and outputs their names, and all else one that no column can have."""
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = [public.get(n, f"/{n}") for n in names]
        for constant in self._constants.values():
            constant.name = f"/{constant.name}"

    def _classified(self) -> list[Any]:
        """Label, probabilities and scores."""
        o, kinds, width = self._onnx, self._onnx.TensorProto, len(self._linear.classes)
        scores = self._scores("scores", alone=width <= 2)
        index = self._winner(scores)
        labels = self._labels()
        self.step("Gather", [labels, index], "label", axis=0)
        self._probabilities(scores)
        value = o.helper.make_tensor_value_info
        return [
            value("label", self._constants[labels].data_type, ["N"]),
            value("probabilities", kinds.DOUBLE, ["N", width]),
            value("scores", kinds.DOUBLE, ["N", width] if width > 2 else ["N"]),
        ]

    def _predicted(self) -> list[Any]:
        """The targets, clipped to their ranges."""
        width, ends = len(self._linear.coef), np.array(self._linear.target_ranges).T
        self._scores("unclipped", alone=width == 1)
        low, high = (self.constant(name, end) for name, end in zip(("lowest", "highest"), ends, strict=True))
        self.step("Min", [self.step("Max", ["unclipped", low], "not_below"), high], "prediction")
        shape = ["N", width] if width > 1 else ["N"]
        return [self._onnx.helper.make_tensor_value_info("prediction", self._onnx.TensorProto.DOUBLE, shape)]

    def step(self, operator: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """Add one step and get the name of its result."""
        self._nodes.append(self._onnx.helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def cast(self, value: str, name: str, kind: str = "DOUBLE") -> str:
        """Add a change of type and get the name of its result."""
        return self.step("Cast", [value], name, to=getattr(self._onnx.TensorProto, kind))

    def constant(self, name: str, values: npt.ArrayLike, dtype: Any = np.float64) -> str:
        """Add numbers or texts and get their name."""
        self._constants[name] = self._onnx.numpy_helper.from_array(np.array(values, dtype=dtype), name)
        return name

    def _scores(self, name: str, *, alone: bool) -> str:
        """``decision_function`` with one column for each function; by that name without columns, where it is alone."""
        linear = self._linear
        weights, constants = self.constant("weights", linear.coef.T), self.constant("intercept", linear.intercept)
        # Not MatMul: onnxruntime would join it with a division by a number, which it then holds in float32.
        two = self.step("Gemm", [self._scaled_rows(), weights, constants], "scores_by_column")
        if alone:
            self.step("Squeeze", [two, self.constant("columns", [1], np.int64)], name)
        else:
            self.step("Identity", [two], name)
        return two

    def _scaled_rows(self) -> str:
        """Rows as ``core.grid.scale_rows`` makes them."""
        scaling, rows = self._linear.scaling, "rows"
        if isinstance(scaling, float):
            return self.step("Div", [rows, self.constant("scale", scaling)], "scaled_rows")
        if scaling is None:
            return rows
        if isinstance(scaling, tuple):
            rows = self.step("Div", [rows, self.constant("scales", [scaling])], "scaled_columns")
        # By the largest entry first, so that no square leaves the range of float64; a row of zeros is divided by 1.
        largest = self.step("ReduceMax", [self.step("Abs", [rows], "sizes")], "largest", axes=[1], keepdims=1)
        tamed = self.step("Div", [rows, self._or_one(largest)], "tamed_rows")
        norms = self.step("ReduceL2", [tamed], "norms", axes=[1], keepdims=1)
        return self.step("Div", [tamed, self._or_one(norms)], "scaled_rows")

    def _or_one(self, sizes: str) -> str:
        """The sizes, and one in place of zero."""
        is_zero = self.step("Equal", [sizes, self.constant("zero", 0.0)], f"{sizes}_is_zero")
        return self.step("Where", [is_zero, self.constant("one", 1.0), sizes], f"{sizes}_or_one")

    def _winner(self, scores: str) -> str:
        """The place of the predicted class."""
        if len(self._linear.classes) > 2:
            return self.step("ArgMax", [scores], "winner", axis=1, keepdims=0)
        positive = self.step("Greater", ["scores", self.constant("zero", 0.0)], "is_positive")
        winner = self.cast(positive, "positive", "INT64")
        if len(self._linear.classes) == 2:
            return winner
        return self.step("Mul", [winner, self.constant("only_class", 0, np.int64)], "winner")

    def _labels(self) -> str:
        classes = self._linear.classes
        dtype = {bool: np.bool_, int: np.int64, float: np.float64, str: object}[type(classes[0])]
        return self.constant("classes", classes, dtype)

    def _probabilities(self, scores: str) -> None:
        """``predict_proba``: halves of one plus the scores, brought to the nearest probabilities; or sigmoids."""
        if self._linear.loss == "logistic" and len(self._linear.classes) > 1:
            self._sigmoids(scores)
            return
        one, two, zero = self.constant("one", 1.0), self.constant("two", 2.0), self.constant("zero", 0.0)
        k = len(self._linear.classes)
        raw = self.step("Div", [self.step("Add", [scores, one], "raised"), two], "raw")
        if k == 1:
            none = self.step("Mul", [raw, zero], "none")
            self.step("Add", [none, one], "probabilities")
            return
        if k == 2:
            positive = self.step("Clip", [raw, zero, one], "clipped")
            negative = self.step("Sub", [one, positive], "other")
            self.step("Concat", [negative, positive], "probabilities", axis=1)
            return
        # The steps of nearest_probabilities in models/heads.
        self._nodes.append(
            self._onnx.helper.make_node(
                "TopK", [raw, self.constant("k", [k], np.int64)], ["ordered", "order"], name="ordered", axis=1
            )
        )
        total = self.step("CumSum", ["ordered", self.constant("axis", 1, np.int64)], "total")
        beyond = self.step("Sub", [total, one], "beyond")
        excess = self.step("Div", [beyond, self.constant("counts", np.arange(1, k + 1))], "excess")
        above = self.step("Greater", ["ordered", excess], "is_above")
        counted = self.cast(above, "above", "INT64")
        many = self.step("ReduceSum", [counted, self.constant("columns", [1], np.int64)], "many", keepdims=1)
        last = self.step("Sub", [many, self.constant("unit", 1, np.int64)], "last")
        shift = self.step("GatherElements", [excess, last], "shift", axis=1)
        kept = self.step("Max", [self.step("Sub", [raw, shift], "shifted"), zero], "kept")
        sums = self.step("ReduceSum", [kept, "columns"], "sums", keepdims=1)
        self.step("Div", [kept, sums], "probabilities")

    def _sigmoids(self, scores: str) -> None:
        """The steps of ``sigmoids`` in models/heads."""
        one, zero = self.constant("one", 1.0), self.constant("zero", 0.0)
        if len(self._linear.classes) == 2:
            scores = self.step("Concat", [self.step("Neg", [scores], "negated"), scores], "both", axis=1)
        near = self.step("Exp", [self.step("Neg", [self.step("Abs", [scores], "sizes_of_scores")], "far")], "decay")
        tail = self.step("Log", [self.step("Add", [near, one], "raised")], "tail")
        logs = self.step("Sub", [self.step("Min", [scores, zero], "not_above"), tail], "logs")
        if len(self._linear.classes) == 2:
            self.step("Exp", [logs], "probabilities")
            return
        most = self.step("ReduceMax", [logs], "most", axes=[1], keepdims=1)
        kept = self.step("Exp", [self.step("Sub", [logs, most], "beside_most")], "kept")
        sums = self.step("ReduceSum", [kept, self.constant("columns", [1], np.int64)], "sums", keepdims=1)
        self.step("Div", [kept, sums], "probabilities")
