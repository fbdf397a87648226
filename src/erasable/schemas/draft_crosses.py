"""Crosses for a draft: the pairs of columns whose cells predict what the columns alone leave over.

Only the names of pairs go into a draft, never a cell. The subjects, with one row each, are divided into two random
halves. A pair helps by as much as what one half leaves over in its cells lowers the error of the other half, and of the
two directions the worse one counts. Cells that fewer than k subjects of a half have count for nothing. Of the first
half no more rows are used than a model keeps of the table, about a tenth, so that large crosses have to be worth it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Array, Booleans, Float64s, Int64s
from erasable.core.names import keyed_hash
from erasable.schemas.columns import Number
from erasable.schemas.crosses import Cross
from erasable.schemas.draft_selection import canonical_column, row_owners
from erasable.schemas.encode import for_each_row
from erasable.schemas.reading import Columns
from erasable.schemas.schema import Role, Schema

_MOST_ROWS = 20_000  # of the sample
_MOST_PLACES = 1024  # of a cross
_BINS = (8, 16, 32)  # of a number in a cross
_LEAST_GAIN = 2.0**-12  # of the variance, for a pair to be proposed
_KEPT_SHARE, _FEWEST_KEPT = 10, 2_000  # of the rows, about what models keep
_FIRST = 400  # crosses that are judged again after each choice
_MOST_COLUMNS = 100  # that are paired
_ROUNDS = 60  # of conjugate gradients
_RIDGE, _SHRINKAGE = 1.0, 10.0
_KEY = 2  # public, for the order of rows


class ProposedCross(NamedTuple):
    """A cross, and by how much of the variance of labels or targets it lowered the error on the other half."""

    cross: Cross
    gain: float


def propose_crosses(schema: Schema, blocks: Iterable[Any], n: int, *, k: int) -> list[ProposedCross]:
    """The n pairs of columns that help most, each after those before it; fewer where no others help.

    Parameters
    ----------
    blocks : iterable of tables
        The table that the schema was drafted from, of which one block is held at a time.
    k : int
        How many subjects of each half must have a cell for it to count.

    Notes
    -----
    The sample depends on the rows alone, not on their order or blocks. Numbers are tried with 8, 16 and 32 bins.
    *Cost*: memory for 20,000 rows; each pair of the first 100 columns that have codes is judged once, and the best 400
    again after each choice.
    """
    coded = [c for c in schema.features if c.n_codes is not None and c.n_codes > 1][:_MOST_COLUMNS]
    sample = _draw(schema, blocks, [c.name for c in coded], k)
    if sample is None or n < 1:
        return []
    candidates = [cross for pair in combinations(coded, 2) for cross in _crosses(pair, schema)]
    chosen: list[ProposedCross] = []
    features = [sample.rows]
    while candidates and len(chosen) < n:
        left = _left_over(sp.hstack(features, format="csr"), sample.answers, sample.half)
        gains = np.array([_gain(*sample.places(c, schema), left, sample.half, sample.kept, k) for c in candidates])
        gains /= sample.variance
        order = np.argsort(-gains, kind="stable")
        best, gain = candidates[order[0]], float(gains[order[0]])
        if gain < _LEAST_GAIN:
            break
        chosen.append(ProposedCross(best, gain))
        own, width = sample.places(best, schema)
        features.append(sp.csr_array((np.ones(len(own)), (np.arange(len(own)), own)), shape=(len(own), width)))
        candidates = [candidates[j] for j in order if candidates[j].columns != best.columns][:_FIRST]
    return chosen


def _crosses(pair: Sequence[Any], schema: Schema) -> list[Cross]:
    """The crosses of two columns, with fewer and more bins of numbers, and a bounded number of places."""
    names = (pair[0].name, pair[1].name)
    most = max((c.n_codes or 0 for c in pair if isinstance(c, Number)), default=0)
    found = []
    for bins in [*(b for b in _BINS if b < most), None][: len(_BINS)]:
        width = Cross(columns=names, bins=bins).width(schema.by_name)
        found.append(Cross(columns=names, bins=bins, hashed=_MOST_PLACES if width > _MOST_PLACES else None))
    return found


# -- the sample --------------------------------------------------------------------------------------------------------


class _Sample(NamedTuple):
    """Rows of different subjects: features, codes by column, labels or targets as columns of numbers, and halves.

    ``kept`` says which rows of a half stand for those that a model keeps.
    """

    rows: Any
    codes: dict[str, Int64s]
    answers: Float64s
    half: Array
    kept: Booleans

    @property
    def variance(self) -> float:
        """The sum of squares of what is to be predicted."""
        return float(np.square(self.answers).sum()) or 1.0

    def places(self, cross: Cross, schema: Schema) -> tuple[Array, int]:
        """The place of each row in a cross, and how many there are."""
        left, right = (self.codes[name] for name in cross.columns)
        return cross.places(left, right, schema.by_name), cross.width(schema.by_name)


def _draw(schema: Schema, blocks: Iterable[Any], names: Sequence[str], k: int) -> _Sample | None:
    """The rows of smallest hash, one of each subject; None where nothing is to be predicted, or rows are too few."""
    label = next(iter(schema.names_of("label")), None)
    targets = schema.names_of("target")
    if label is None and not targets:
        return None
    kept: list[Any] = []
    n_rows = 0
    for block in blocks:
        read = _read(schema, block, names, label, targets)
        n_rows += sum(len(part["hash"]) for part in read)
        kept = _smallest([*kept, *read])
    if not kept:
        return None
    order = np.argsort(np.concatenate([part["hash"] for part in kept]), kind="stable")
    answers = _answers(np.concatenate([part["answer"] for part in kept])[order], schema, targets, k)
    used = np.flatnonzero(~np.isnan(answers).any(axis=1))
    if len(used) < 4 * k:
        return None
    rows = sp.csr_array(sp.vstack([part["rows"] for part in kept], format="csr")[order[used]], dtype=np.float64)
    codes = {name: np.concatenate([part["codes"][name] for part in kept])[order[used]] for name in names}
    position = np.arange(len(used))
    few = position < 2 * max(_FEWEST_KEPT, n_rows // _KEPT_SHARE)
    return _Sample(rows, codes, answers[used] - answers[used].mean(axis=0), position % 2, few)


def _read(
    schema: Schema, block: Any, names: Sequence[str], label: str | None, targets: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows of a block with their hashes, codes, and what is to be predicted."""
    columns = Columns(block, schema.version)
    if not columns.n_rows:
        return []
    rows, _ = schema.encode_sparse(block)
    codes = {}
    for name in names:
        cells = columns[name].distinct()
        found = schema.by_name[name].encode(cells, schema.missing_texts)  # type: ignore[union-attr]
        codes[name] = for_each_row(found.codes, cells.inverse)
    if label is None:
        answer: Any = (
            schema.read_targets(block, targets)[0] + 0.0
        )  # no minus zero: numbers that are equal have equal bits
        known = list(answer.view(np.uint64).T)
    else:
        answer = np.array([str(text) for text in canonical_column(columns, label)], dtype=object)
        classes, inverse = np.unique(answer.astype(str), return_inverse=True)
        known = [keyed_hash([c.encode("utf-8", "surrogatepass") for c in classes.tolist()], _KEY)[inverse]]
    hashes = _mixed([*codes.values(), *known], columns.n_rows)
    owners = row_owners(columns, schema.names_of("subject")) or [set[str]()] * columns.n_rows
    return [{"rows": rows, "codes": codes, "answer": answer, "hash": hashes, "owners": np.array(owners, dtype=object)}]


def _mixed(parts: Sequence[Array], n_rows: int) -> Array:
    """A hash of each row: like rows of like parts have one, and it tells nothing else."""
    mixed = np.full(n_rows, _KEY, dtype=np.uint64)
    for part in parts:
        mixed = (mixed ^ part.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed * np.uint64(0xBF58476D1CE4E5B9) ^ mixed >> np.uint64(32)


def _smallest(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of smallest hash, of which no two share a subject."""
    hashes = np.concatenate([part["hash"] for part in parts])
    owners = [who for part in parts for who in part["owners"]]
    seen, kept = set[str](), list[int]()
    for i in np.argsort(hashes, kind="stable").tolist():
        if seen.isdisjoint(owners[i]):
            seen |= owners[i]
            kept.append(i)
            if len(kept) == _MOST_ROWS:
                break
    ends = np.cumsum([0, *(len(part["hash"]) for part in parts)])
    found = []
    for part, first, last in zip(parts, ends[:-1], ends[1:], strict=True):
        own = np.array([i - first for i in kept if first <= i < last], dtype=np.int64)
        if len(own):
            codes = {name: code[own] for name, code in part["codes"].items()}
            found.append({**{key: part[key][own] for key in ("rows", "answer", "hash", "owners")}, "codes": codes})
    return found


def _answers(found: Any, schema: Schema, targets: Sequence[str], k: int) -> Float64s:
    """A column for each target, of variance one, or for each class that k rows have; NaN where a row has none."""
    if targets:
        ranges = [getattr(schema.by_name[name], "range", None) or (-np.inf, np.inf) for name in targets]
        numbers = np.clip(found, [low for low, _ in ranges], [high for _, high in ranges])
        spread = np.nanstd(numbers, axis=0)
        return np.asarray(numbers / np.where(spread > 0, spread, 1.0))
    role = next(c for c in schema.columns if isinstance(c, Role) and c.role == "label")
    classes, count = np.unique(found.astype(str), return_counts=True)
    known = [c for c, often in zip(classes.tolist(), count.tolist(), strict=True) if often >= k]
    known = [c for c in known if role.classes is None or c in role.classes]
    answers = np.array([[float(text == c) for c in known] for text in found.tolist()]).reshape(len(found), len(known))
    answers[~answers.any(axis=1)] = np.nan
    return answers[:, 1:] if len(known) == 2 else answers


# -- how much a pair helps ---------------------------------------------------------------------------------------------


def _left_over(rows: Any, answers: Float64s, half: Array) -> Float64s:
    """What a ridge regression on the other half leaves over of each row."""
    left = np.empty_like(answers)
    for h in (0, 1):
        other, own = rows[half != h], rows[half == h]
        left[half == h] = answers[half == h] - own @ _ridge(other, answers[half != h])
    return left


def _ridge(rows: Any, answers: Float64s) -> Float64s:
    """Weights of a ridge regression, by conjugate gradients for each column."""
    across = sp.csr_array(rows.T)
    residual = across @ answers
    weights, step = np.zeros_like(residual), residual.copy()
    square = np.square(residual).sum(axis=0)
    start = square.copy()
    for _ in range(_ROUNDS):
        if (square <= 1e-8 * start).all():
            break
        moved = across @ (rows @ step) + _RIDGE * step
        length = np.divide(square, (step * moved).sum(axis=0), out=np.zeros_like(square), where=square > 0)
        weights += length * step
        residual -= length * moved
        before, square = square, np.square(residual).sum(axis=0)
        step = residual + np.divide(square, before, out=np.zeros_like(square), where=before > 0) * step
    return np.asarray(weights)


def _gain(places: Array, width: int, left: Float64s, half: Array, kept: Booleans, k: int) -> float:
    """Twice the smaller of two: by how much the cells of a cross in one half lower the squared error of the other.

    Of each, its standard error is taken off, so that chance alone seldom leaves anything.
    """
    enough = np.min([np.bincount(places[half == h], minlength=width) for h in (0, 1)], axis=0) >= k
    gains = []
    for h in (0, 1):
        own, other = (half == h) & kept, half != h
        few = np.bincount(places[own], minlength=width) + _SHRINKAGE
        sums = [np.bincount(places[own], weights=column[own], minlength=width) for column in left.T]
        shifts = np.where(enough, np.array(sums) / few, 0.0)[:, places[other]].T
        of_rows = (shifts * (2.0 * left[other] - shifts)).sum(axis=1)
        gains.append(float(of_rows.sum() - np.sqrt(np.square(of_rows).sum())))
    return 2.0 * min(gains)
