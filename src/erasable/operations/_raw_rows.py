"""The encoding of a schema as steps of an ONNX graph that takes the columns of the raw table, one input for each.

The steps are those of the kinds in ``erasable.schemas``, in float64. What needs hashes or a calendar is no part of
ONNX: with such a column, a graph takes encoded rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from erasable.schemas import Category, Cross, Number, Ordered, Schema, Vector, YesNo
from erasable.schemas import canonical_text as canonical

if TYPE_CHECKING:
    from erasable.operations._graph import Graph

STEPS = 2.0**20  # encoded numbers are multiples of one over this
_MOST_PAIRS = 2**20  # of a cross whose pairs are hashed: their places are a table in the file
_MOST_SPELLINGS = 64  # of a word, in capitals and small letters
_OUTPUTS = ("label", "probabilities", "scores", "prediction")


def not_raw(schema: Schema) -> dict[str, str]:
    """The columns that a graph cannot take as they are, with the reason; empty where it takes all of them."""
    found = {}
    for column in schema.features:
        if not isinstance(column, Number | Ordered | YesNo | Vector) and not (
            isinstance(column, Category) and column.values is not None
        ):
            found[column.name] = "hashed" if isinstance(column, Category) else column.KIND
        elif column.name in _OUTPUTS or column.name.startswith("/"):
            found[column.name] = "the name of an output"
    for cross in schema.crosses:
        if cross.hashed is not None and _pairs(cross, schema) > _MOST_PAIRS:
            found["×".join(cross.columns)] = "too many pairs"
    return found


def inputs_of(schema: Schema) -> dict[str, str]:
    """What each input of the graph takes, in words."""
    said = {
        Number: "numbers of shape (N, 1), NaN where missing",
        Vector: "numbers of shape (N, {length}), NaN where missing",
    }
    texts = "canonical texts of shape (N, 1), empty where missing"
    return {c.name: said.get(type(c), texts).format(length=getattr(c, "length", 1)) for c in schema.features}


def _pairs(cross: Cross, schema: Schema) -> int:
    a, b = (schema.by_name[name].n_codes + 1 for name in cross.columns)  # type: ignore[union-attr,operator]
    return int(a * b)


class RawRows:
    """Inputs and steps that make encoded rows of raw columns."""

    def __init__(self, graph: Graph, schema: Schema, input_type: str) -> None:
        self._step, self._constant, self._cast = graph.step, graph.constant, graph.cast
        self._schema, self._single = schema, input_type == "float32"
        self._codes: dict[str, str] = {}  # of columns in crosses: those of missing cells are the last
        self.inputs: list[tuple[str, str, int]] = []  # name, type and width

    def built(self) -> str:
        """Add all steps and get the name of the rows, float64."""
        parts = [part for j, column in enumerate(self._schema.features) for part in self._column(j, column)]
        parts += [self._cross(j, cross) for j, cross in enumerate(self._schema.crosses)]
        return self._step("Concat", parts, "rows", axis=1)

    def _column(self, j: int, column: Any) -> list[str]:
        here = f"column {j}"
        match column:
            case Vector():
                self.inputs.append((here, "number", column.length))
                features, missing = self._vector(here, column)
            case Number():
                self.inputs.append((here, "number", 1))
                missing = self._step("IsNaN", [here], f"{here} is missing")
                features = self._number(here, column, missing)
            case _:
                self.inputs.append((here, "text", 1))
                features, missing = self._placed(here, column)
        return [features, self._cast(missing, f"{here} indicator")] if column.indicator else [features]

    # -- numbers -----------------------------------------------------------------------------------------------------

    def _number(self, here: str, column: Number, missing: str) -> str:
        if column.edges is not None:
            return self._bins(here, column, missing)
        low, high = column.range or (-(column.scale or 1.0), column.scale or 1.0)
        x = self._cast(here, f"{here} in float64")
        if column.fill is not None:
            x = self._step("Where", [missing, self._constant(f"{here} fill", column.fill), x], f"{here} filled")
        name = itertools.count()

        def step(operator: str, *inputs: str | float) -> str:
            k = next(name)
            given = [i if isinstance(i, str) else self._constant(f"{here} constant {k}", i) for i in inputs]
            return self._step(operator, given, f"{here} scaled {k}")

        x = step("Min", step("Max", x, low), high)
        if column.spacing == "linear":
            scaled = step("Div", x, high) if column.range is None else self._of_range(step, x, low, high)
        else:
            shifted = column.spacing == "log1p"
            top = step("Add", x, 1.0) if shifted else step("Div", x, low)
            whole = float(np.log1p(high) if shifted else np.log(high / low))
            scaled = step("Sub", step("Mul", step("Div", step("Log", top), whole), 2.0), 1.0)
        rounded = step("Div", step("Round", step("Mul", scaled, STEPS)), STEPS)
        if column.fill is not None:
            return rounded
        return self._step("Where", [missing, self._zero(), rounded], f"{here} features")

    @staticmethod
    def _of_range(step: Any, x: str, low: float, high: float) -> str:
        share = step("Div", step("Sub", x, low), high - low)
        return str(step("Sub", step("Mul", share, 2.0), 1.0))

    def _bins(self, here: str, column: Number, missing: str) -> str:
        edges = column.edges or ()
        kind: Any = np.float32 if self._single else np.float64
        reached: Any = [_least_above(e) for e in edges] if self._single else edges
        above = self._step(
            "GreaterOrEqual", [here, self._constant(f"{here} edges", [reached], kind)], f"{here} reached"
        )
        whole = self._cast(above, f"{here} count", "INT64")
        code = self._step("ReduceSum", [whole, self._constant("one axis", [1], np.int64)], f"{here} bin", keepdims=1)
        fill = None if column.fill is None else int(np.searchsorted(edges, column.fill, side="right"))
        return self._features(here, column, code, missing, fill)

    # -- texts -------------------------------------------------------------------------------------------------------

    def _placed(self, here: str, column: Any) -> tuple[str, str]:
        """Features and whether the cell is missing, from a table of spellings."""
        codes = {text: code for code, texts in enumerate(_spelt(column)) for text in texts}
        other = column.n_codes - 1 if isinstance(column, Category) else -1
        known = codes | {text: -1 for word in self._schema.missing for text in _capitals(word)}
        code = self._step(
            "LabelEncoder",
            [here],
            f"{here} code",
            domain="ai.onnx.ml",
            keys_strings=list(known),
            values_int64s=list(known.values()),
            default_int64=other,
        )
        missing = self._step("Less", [code, self._constant("no code", 0, np.int64)], f"{here} is missing")
        fill = None if column.fill is None else codes.get(column.fill, other)
        return self._features(here, column, code, missing, fill), missing

    # -- codes -------------------------------------------------------------------------------------------------------

    def _features(self, here: str, column: Any, code: str, missing: str, fill: int | None) -> str:
        """Features of codes; missing cells have that of the fill, or none."""
        instead = self._constant(f"{here} fill", -1 if fill is None else fill, np.int64)
        code = self._step("Where", [missing, instead, code], f"{here} place")
        if any(column.name in cross.columns for cross in self._schema.crosses):
            gone = self._step("Less", [code, self._constant("no code", 0, np.int64)], f"{here} is nowhere")
            last = self._constant(f"{here} last", column.n_codes, np.int64)
            self._codes[column.name] = self._step("Where", [gone, last, code], f"{here} in crosses")
        width = column.own_width
        if isinstance(column, YesNo):
            return self._one_hot(here, code, np.array([1]))
        if isinstance(column, Ordered) or getattr(column, "bins", "") == "thermometer":
            places = self._constant(f"{here} levels", [np.arange(width)], np.int64)
            reached = self._cast(self._step("Greater", [code, places], f"{here} passed"), f"{here} thermometer")
            return self._step("Mul", [reached, self._constant(f"{here} level", _level(column))], f"{here} features")
        return self._one_hot(here, code, np.arange(width))

    def _one_hot(self, here: str, code: str, places: Any) -> str:
        known = self._constant(f"{here} places", [places], np.int64)
        return self._cast(self._step("Equal", [code, known], f"{here} is at"), f"{here} one-hot")

    def _cross(self, j: int, cross: Cross) -> str:
        here, (left, right) = f"cross {j}", cross.columns
        width = self._schema.by_name[right].n_codes + 1  # type: ignore[union-attr,operator]
        times = self._step(
            "Mul", [self._codes[left], self._constant(f"{here} width", width, np.int64)], f"{here} first of row"
        )
        pair = self._step("Add", [times, self._codes[right]], f"{here} pair")
        if cross.hashed is not None:
            pairs = np.arange(_pairs(cross, self._schema))
            table = cross.places(pairs // width, pairs % width, self._schema.by_name)
            pair = self._step(
                "Gather", [self._constant(f"{here} table", table, np.int64), pair], f"{here} place", axis=0
            )
        return self._one_hot(here, pair, np.arange(cross.width(self._schema.by_name)))

    # -- vectors -----------------------------------------------------------------------------------------------------

    def _vector(self, here: str, column: Vector) -> tuple[str, str]:
        """The steps of ``Vector.encode``; whole numbers are added up as such."""
        x = self._cast(here, f"{here} in float64")
        finite = self._step(
            "Less", [self._step("Abs", [x], f"{here} sizes"), self._constant("no end", np.inf)], f"{here} is finite"
        )
        odd = self._cast(self._step("Not", [finite], f"{here} is odd"), f"{here} odd ones")
        most = self._step("ReduceMax", [odd], f"{here} oddest", axes=[1], keepdims=1)
        missing = self._step("Greater", [most, self._zero()], f"{here} is missing")
        nothing = [column.fill if column.fill is not None else [0.0] * column.length]
        given = self._step("Where", [missing, self._constant(f"{here} fill", nothing), x], f"{here} given")
        scale, steps = self._constant(f"{here} scale", column.scale), self._constant("steps", STEPS)
        sizes = self._step("Abs", [given], f"{here} given sizes")
        largest = self._step("ReduceMax", [sizes], f"{here} largest", axes=[1], keepdims=1)
        divisor = self._step("Max", [largest, scale], f"{here} divisor")
        share = self._step("Div", [given, divisor], f"{here} share")
        whole = self._step("Round", [self._step("Mul", [share, steps], f"{here} stretched")], f"{here} whole")
        exact = self._cast(whole, f"{here} integers", "INT64")
        squares = self._step(
            "ReduceSum",
            [self._step("Mul", [exact, exact], f"{here} squares"), self._constant("one axis", [1], np.int64)],
            f"{here} square",
            keepdims=1,
        )
        one = self._constant("square of one", int(STEPS) ** 2, np.int64)
        long = self._step(
            "Or",
            [
                self._step("Greater", [squares, one], f"{here} square is long"),
                self._step("Greater", [largest, scale], f"{here} entry is long"),
            ],
            f"{here} is long",
        )
        norm = self._step("Max", [squares, one], f"{here} long square")
        norm = self._step("Sqrt", [self._cast(norm, f"{here} square in float64")], f"{here} norm")
        stretched = self._step("Mul", [whole, steps], f"{here} stretched again")
        shorter = self._step("Div", [stretched, norm], f"{here} shortened")
        cut = self._step("Floor", [self._step("Abs", [shorter], f"{here} short sizes")], f"{here} cut sizes")
        cut = self._step("Mul", [cut, self._step("Sign", [shorter], f"{here} signs")], f"{here} cut")
        kept = self._step("Where", [long, cut, whole], f"{here} kept")
        return self._step("Div", [kept, steps], f"{here} features"), missing

    def _zero(self) -> str:
        return self._constant("zero", 0.0)


def _level(column: Any) -> float:
    """What a thermometer has for each level that is reached, by the encoding itself."""
    highest = column.levels[-1] if isinstance(column, Ordered) else column.edges[-1]
    rows, _ = Schema((column,), missing=()).encode_sparse({column.name: [highest]})
    return float(rows.toarray()[0, 0])


def _least_above(edge: float) -> np.float32:
    """The smallest float32 whose shortest text, which is what it stands for, is not below a number."""
    with np.errstate(over="ignore"):
        near = np.float32(edge)
    while float(str(near)) < edge:
        near = np.nextafter(near, np.float32(np.inf))
    while float(str(below := np.nextafter(near, np.float32(-np.inf)))) >= edge:
        near = below
    return near


def _spelt(column: Any) -> Iterator[list[str]]:
    """For each code of a column the spellings that stand for it."""
    if isinstance(column, YesNo):
        for words in (column.no, column.yes):
            yield [text for word in words for text in (*_capitals(word), *_with_point(word))]
        return
    listed: tuple[str, ...] = getattr(column, "levels", None) or column.values
    for value in listed:
        yield [*(_capitals(value) if value in ("true", "false") else [value]), *_with_point(value)]


def _with_point(value: str) -> list[str]:
    """A whole number as a float is often written."""
    return [f"{value}.0"] if canonical(f"{value}.0") == value else []


def _capitals(word: str) -> list[str]:
    """A word in all mixtures of capitals and small letters of ASCII, or in the usual ones where these are too many."""
    choices = [{c, c.upper()} if c.isascii() else {c} for c in word]
    if 2 ** sum(len(c) > 1 for c in choices) > _MOST_SPELLINGS:
        return sorted({word, *(f(word) for f in (str.upper, str.title) if word.isascii())})
    return sorted(map("".join, itertools.product(*choices)))
