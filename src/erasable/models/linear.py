"""Algorithm 1 as a model: rows on the grid, their exact sums, and weights that are solved for when asked.

Truth: the core rows, ``H`` and ``class_sums`` (sums of rows by what they answer: by class; in a regression, sums of
rows times a target), and ``weighted`` where some row's weight is not one. Caches:
``_weights`` and ``_functions``, dropped on every change.
Learning works on a copy of ``H`` and swaps it in at the end, so a refused call changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, KeysView
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Float32s, Float64s
from erasable.core.device_rows import here
from erasable.core.grid import scale_rows
from erasable.core.layout import canonical_json, read_json
from erasable.core.logistic import guard_rows
from erasable.core.names import Key
from erasable.core.selector import Decisions, Progress, RawRows, select, stale_screen
from erasable.core.sums import add_rows, add_sums, empty_gram
from erasable.errors import ConfigurationError, StateFormatError
from erasable.features import AbsentMap, FeatureMap
from erasable.models.arrays import in_blocks, overwrite
from erasable.models.guarantee import BITWISE, Guarantee
from erasable.models.heads import Sums, logistic_weights_of, shifts, sigmoids, squared_weights
from erasable.models.linear_configuration import LinearConfiguration
from erasable.models.linear_state import LinearState, gram_of, stack_sums, sums_by_answer, weighted_sums_of
from erasable.models.model import Model
from erasable.models.rows import CoreRows
from erasable.models.weighting import ONE, RowWeights, WeightedSums, guard_weights, uneven

if TYPE_CHECKING:
    from erasable.schemas import Schema


@dataclass(frozen=True)
class MappedRows(RawRows):
    """Raw rows that are mapped when they are read, a block at a time."""

    feature_map: FeatureMap = field(kw_only=True)

    @property
    def sparse(self) -> bool:
        """Whether the map gives sparse rows."""
        return len(self) > 0 and bool(sp.issparse(self.lying(slice(0, 1))))

    def lying(self, rows: Any) -> Any:
        """The named rows, mapped, where the map leaves them."""
        return self.feature_map.mapped(here(self.gathered(rows)))


def _all_ruled_out(rows: RawRows) -> npt.NDArray[np.bool_]:
    return np.zeros(len(rows), dtype=bool)


class LinearModel(Model):
    """Core rows, sums and weights of one linear model.

    Parameters
    ----------
    configuration : LinearConfiguration
    feature_map : FeatureMap, optional
        The map that the configuration describes; for a file that was read without its code, an ``AbsentMap``.
    """

    KIND = "linear"
    STATE: ClassVar[type[LinearState]] = LinearState
    takes_weights = True
    configuration: LinearConfiguration

    def __init__(self, configuration: LinearConfiguration, feature_map: FeatureMap | None = None) -> None:
        grid = configuration.grid
        self.configuration, self.feature_map = configuration, feature_map
        self.core = CoreRows(np.empty((0, grid.n_columns), dtype=grid.dtype), grid=grid, classed=self.classifies)
        self.H = empty_gram(grid, configuration.units)
        self.class_sums: dict[Any, Float64s] = {}
        self.weighted: WeightedSums | None = None
        self._weights: Float32s | None = None
        self._functions: tuple[Float64s, Float64s] | None = None  # coefficients and constants
        self.moment = object()

    @classmethod
    def restore(cls, state: LinearState, feature_map: FeatureMap | None = None) -> Self:
        """The model that a state is of; sums and weights are taken over, for ``verify`` to judge."""
        model = cls(state.configuration, feature_map)
        c = state.configuration
        weights = None if state.row_weights is None else state.row_weights.tolist()
        names = state.ids, state.subjects, state.labels
        model.core = CoreRows(state.rows.copy(), *names, c.grid, weights, classed=cls.classifies)
        model.H, model.weighted = gram_of(state), weighted_sums_of(state)
        model.class_sums = sums_by_answer(state, state.class_sums)
        model._weights = state.weights.copy()
        return model

    # -- learning and forgetting ---------------------------------------------------------------------------------

    def prepared(self, X: Any) -> RawRows:
        """Rows as the selector reads them; refused where they leave the unit ball."""
        grid = self.configuration.grid
        rows = RawRows(X, grid) if self.feature_map is None else MappedRows(X, grid, feature_map=self.feature_map)
        rows.check_ball()
        return rows

    def in_order(self, rows: RawRows, order: npt.NDArray[np.intp]) -> RawRows:
        """Rows that are gathered as the selector reads them."""
        return replace(rows, order=order)

    def screening(self) -> Callable[[RawRows], npt.NDArray[np.bool_]] | None:
        """Rows whose leverage is at or below the threshold already are ruled out."""
        c = self.configuration
        if c.threshold == math.inf:
            return _all_ruled_out
        return stale_screen(self.H, c.grid, c.units, c.threshold) if len(self.core) else None

    def always_kept(self, ids: Any) -> npt.NDArray[np.bool_] | None:
        """Those that the sample draws."""
        return self.configuration.always_kept(ids)

    def select(
        self, rows: RawRows, labels: npt.NDArray[Any], keys: Any, progress: Progress | None, **sizes: int | None
    ) -> tuple[npt.NDArray[np.intp], list[Any], Decisions, Float64s]:
        """Algorithm 1, procedure BBQSampler, on a copy of ``H``."""
        c, H, forced = self.configuration, self.H.copy(order="F"), self.always_kept(keys)
        if forced is not None and rows.order is not None:
            forced = forced[rows.order]
        found = select(
            rows,
            H,
            len(self.core),
            grid=c.grid,
            units=c.units,
            tau=c.threshold,
            forced=forced,
            progress=progress,
            **sizes,
        )
        return found.index, found.batches, found.decisions, H

    def check_chosen(self, weights: list[int]) -> None:
        """Weighted sums stay exact, and logistic weights can be certified."""
        c, core = self.configuration, self.core
        if c.loss == "logistic":
            guard_rows(len(core) + len(weights))
        elif core.uneven or weights.count(ONE) < len(weights):
            guard_weights(sum(core.weights()) + sum(weights), c.grid, c.units)

    def adopt(self, labels: list[Any], batches: list[Any], extra: Float64s, weights: list[int]) -> None:
        """The sums with the new rows in them."""
        if self.weighted is None and self.configuration.loss == "squared" and weights.count(ONE) < len(weights):
            self.weighted = WeightedSums.of_equal(self.H, self.class_sums)
        self.H.fill(0.0)
        self.H, low, c = extra, 0, self.configuration
        for batch in batches:
            cut = slice(low, low + batch.shape[0])
            add_sums(self.class_sums, c.sums_of(batch, labels[cut]))
            if self.weighted is not None:
                self.weighted.add(batch, labels[cut], weights[cut], c)
            low = cut.stop
        self._order_sums(self.class_sums.keys())

    def release(self, keys: list[Key]) -> None:
        """Downdate the sums."""
        c, leaving = self.configuration, self.core.find(keys)
        rows, labels, weights = self.core.gather(leaving)
        self.core.remove(leaving, rows)
        add_rows(self.H, rows, -1.0, c.grid)  # Algorithm 1, line 14
        add_sums(self.class_sums, c.sums_of(rows, labels), -1.0)
        if self.weighted is not None:
            self.weighted.add(rows, labels, weights, c, -1)
        if emptied := set(c.answered(labels)).difference(self.answered()):
            self._order_sums(self.class_sums.keys() - emptied)
        if self.weighted is not None and not self.core.uneven:  # the plain sums say it all
            self.weighted.erase()
            self.weighted = None
        overwrite(rows)

    def answered(self) -> KeysView[Any]:
        """What there are sums by: the classes of the core rows."""
        return self.core.class_counts.keys()

    def drop_caches(self) -> None:
        """Overwrite and drop the weights."""
        for cache in (self._weights, *(self._functions or ())):
            if cache is not None:
                cache.fill(0.0)
        self._weights = self._functions = None

    def erase(self) -> None:
        """Overwrite every array this model holds."""
        super().erase()
        self.H.fill(0.0)
        for total in self.class_sums.values():
            total.fill(0.0)
        if self.weighted is not None:
            self.weighted.erase()

    # -- what is derived -----------------------------------------------------------------------------------------

    def stacked_class_sums(self) -> Float64s:
        """Sums in the order of the classes, shape (n_classes, n_columns)."""
        return self._stacked(self.class_sums)

    def _stacked(self, sums: dict[Any, Float64s]) -> Float64s:
        c = self.configuration
        return stack_sums(c.answers(list(self.core.class_counts)), sums, c.grid)

    def _sums(self) -> tuple[Sums, Sums | None]:
        """The sums, plain and weighted."""
        weighted = self.weighted
        wide = None if weighted is None else (weighted.H, self._stacked(weighted.class_sums))
        return (self.H, self.stacked_class_sums()), wide

    def _row_weights(self) -> RowWeights | None:
        return uneven(self.core.weights()) if self.core.uneven else None

    def weights(self) -> Float32s:
        """Weights of the current core rows, solved for when first asked."""
        weights = self._weights
        return self.read(self._solved, partial(setattr, self, "_weights")) if weights is None else weights

    def _solved(self) -> Float32s:
        c, core = self.configuration, self.core
        if c.loss == "logistic":
            return logistic_weights_of(c, core.rows(), core.labels(), self._row_weights(), self.H)
        return squared_weights(c, *self._sums())

    def coefficients(self) -> Float64s:
        """Weights of the features for rows of norm one, shape (n_functions, n_features); a copy for the caller."""
        return self._published()[0]

    def intercepts(self) -> Float64s:
        """The constant of each function; a copy for the caller."""
        return self._published()[1]

    def _published(self) -> tuple[Float64s, Float64s]:
        """Copies of both, taken again where a change overwrote them meanwhile."""
        moment, functions = self.moment, self._functions
        if moment is None or functions is None:
            functions = self.read(self.functions, partial(setattr, self, "_functions"))
        copies = functions[0].copy(), functions[1].copy()
        return copies if self.moment is moment else self._published()

    def functions(self) -> tuple[Float64s, Float64s]:
        """Coefficients and constants: what the appended coordinate adds, less what class weights take off."""
        c, grid, W = self.configuration, self.configuration.grid, self.weights()
        taken_off = shifts(c, self.classes, self.core.class_totals, W, *self._sums())
        of_constant = W[:, -1].astype(np.float64) * math.ldexp(grid.constant, -grid.bits) if grid.intercept else 0.0
        # 24 and 15 bits: exact
        return W[:, : grid.n_features].astype(np.float64) * grid.stretch, of_constant - taken_off

    def _order_sums(self, there: Collection[Any]) -> None:
        """Sums stand in the order of what they are by, of which some may be no longer there."""
        for sums in (self, self.weighted):
            if sums is not None:
                sums.class_sums = {answer: sums.class_sums[answer] for answer in sorted(there)}

    def state(self) -> LinearState:
        """See :class:`Model`."""
        core, (plain, weighted) = self.core, self._sums()
        return self.STATE.assemble(
            self.configuration,
            *core.names(),
            core.rows(),
            *plain,
            self.weights().copy(),
            row_weights=self._row_weights(),
            weighted=weighted,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of numbers held: rows, sums and weights."""
        grid, rows = self.configuration.grid, self.core.nbytes
        k, functions = self.widths
        if self.core.uneven:
            rows += 2 * len(self.core)
        if self.weighted is not None:
            rows += self.H.nbytes + k * grid.n_columns * 8
        return rows + self.H.nbytes + k * grid.n_columns * 8 + functions * grid.n_columns * 4

    @property
    def widths(self) -> tuple[int, int]:
        """How many sums of rows there are, and how many functions: one for one or two classes."""
        return self.n_classes, self.n_classes if self.n_classes > 2 else 1

    # -- predicting ----------------------------------------------------------------------------------------------

    def predictor(self) -> LinearModel:
        """See :class:`Model`; it holds weights and no rows."""
        self.check_whole()
        return self.read(self._twin)

    def _twin(self) -> LinearModel:
        twin = copy(self)
        twin.core, twin.H, twin.class_sums, twin.weighted = self.core.counted(), np.empty((0, 0)), {}, None
        twin._weights = self.weights().copy()
        twin._functions = self._published() if len(self.core) else None
        return twin

    def _numbers(self, X: Any) -> Any:
        return here(X) if self.feature_map is None else self.feature_map(here(X))

    def scores(self, X: Any) -> Float64s:
        """``w'x`` for each row."""
        grid, (W, offset) = self.configuration.grid, self._published()
        scores = np.empty((X.shape[0], len(W)))
        for block in in_blocks(X, grid.n_columns):
            scores[block] = scale_rows(self._numbers(X[block]), grid) @ W.T + offset
        return scores

    def chances(self, scores: Float64s) -> Float64s:
        """Of the logistic loss the sigmoid of the scores, of several classes made to add up to one."""
        if self.configuration.loss == "squared" or self.n_classes == 1:
            return super().chances(scores)
        return sigmoids(scores)

    # -- the feature map -----------------------------------------------------------------------------------------

    @property
    def n_features(self) -> int | None:
        """Columns of raw rows; None for a map of texts."""
        text = self.configuration.feature_map
        return self.configuration.grid.n_features if text is None else described_map(text)["n_features"]

    @property
    def guarantee(self) -> Guarantee:
        """Exact system-aware unlearning, bitwise, and what the map makes the caller see to."""
        return linear_guarantee(self.feature_map)


def linear_guarantee(feature_map: FeatureMap | None) -> Guarantee:
    """Exact system-aware unlearning, bitwise, and what the map makes the caller see to."""
    return replace(BITWISE, assumptions=() if feature_map is None else feature_map.assumptions)


def describe_map(feature_map: FeatureMap, n_features: int | None) -> str:
    """What the configuration says of a map, and of the rows that it takes: canonical JSON."""
    return canonical_json({"map": feature_map.describe(), "n_features": n_features})


def described_map(text: str) -> dict[str, Any]:
    """What :func:`describe_map` wrote.

    Raises
    ------
    StateFormatError
    """
    try:
        written = read_json(text)
        described, taken = written["map"], written["n_features"]
        counted = taken is None or (type(taken) is int and taken >= 1)
        if len(written) == 2 and isinstance(described, dict) and counted and canonical_json(written) == text:
            return dict(written)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        pass
    raise StateFormatError("not a state: the description of its feature map is damaged.")


def stored_map(configuration: LinearConfiguration) -> FeatureMap | None:
    """The map that a file describes: a schema, which it holds whole, or what stands for code that it cannot hold.

    Raises
    ------
    StateFormatError
    """
    if configuration.feature_map is None:
        return None
    schema = described_schema(configuration.feature_map)
    if schema is None:
        described = described_map(configuration.feature_map)["map"]
        return AbsentMap(canonical_json(described), configuration.grid.n_features)
    if schema.n_features_out != configuration.grid.n_features:
        raise StateFormatError("not a state: its schema is damaged.")
    return schema


def described_schema(text: str) -> Schema | None:
    """The schema that :func:`describe_map` wrote, None where it wrote another map.

    Raises
    ------
    StateFormatError
    """
    described = described_map(text)["map"]
    if described.get("map") != "schema":
        return None
    from erasable.schemas import Schema  # only here: most models have none

    try:
        schema = Schema.parse(described.get("text"))
    except ConfigurationError:
        schema = None
    if schema is None or schema.describe() != described:
        raise StateFormatError("not a state: its schema is damaged.")
    return schema
