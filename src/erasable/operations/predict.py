"""Predictions for the rows of a table, block by block, and their scores."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from erasable.core.arrays import ColumnLike
from erasable.errors import ConfigurationError, InputError
from erasable.models.model import Model, model_behind
from erasable.operations.inspect import plain
from erasable.operations.schemas import schema_of
from erasable.schemas import EncodingReport
from erasable.store import replaced_text
from erasable.tables import Dialect, TableStream, files_of, nameless_form, stream_table
from erasable.tables.reading import listed
from erasable.tables.sources import TableLike

if TYPE_CHECKING:  # it imports SciPy's statistics, which is slow
    from erasable.operations.scoring import RegressionScores, Scores

FORMS = {".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl"}


class Predictions:
    """Predictions for the rows of a table: iterate to get a record for each row.

    A record has the id of the row if it has one, the prediction and, if asked for, probabilities.

    Parameters
    ----------
    model : estimator, or a model of ``erasable.models``
        Fitted. A model with a schema takes raw tables. If the model has ``feature_names``, columns are found by name,
        in any order, and other columns are left alone. Otherwise they are taken in the order of the table.
    source : str, path, list of these, or binary file object
        As in ``erasable.tables.stream_table``; ``"-"`` is standard input.
    id : str, optional
        The column of ids; a schema may name it, too.
    label : str, optional
        A column of known labels, which is not a feature; records then have it as ``known``, and rows are scored.
    targets : sequence of str
        The same for a regression: columns of known numbers, in the order of the targets of the model.
    ignore : sequence of str
        Columns that are not features, for a model without feature names.
    labelled : bool, default=False
        Whether the table must have labels or targets.
    probabilities : bool, default=False
        Add the probability of every class.
    dialect : Dialect, optional
        How CSV text is written.
    progress : callable, optional
        Called with rows done and rows in all, or None if that is not known.

    Attributes
    ----------
    by_position : bool
        Whether named columns are taken by their order, because the model stores no names.
    unused : tuple of str
        Columns that the model does not use and that ``ignore`` does not name; known once iteration starts.
    encoding : EncodingReport or None
        With a schema, at the end: how many cells were missing, unknown, unparsable or clipped.
    """

    def __init__(
        self,
        model: object,
        source: TableLike,
        *,
        id: str | None = None,
        label: str | None = None,
        targets: Sequence[str] = (),
        ignore: Sequence[str] = (),
        labelled: bool = False,
        probabilities: bool = False,
        dialect: Dialect | None = None,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> None:
        self._model, self._source = model_behind(model, "predict"), source
        if probabilities and not self._model.classifies:
            raise ConfigurationError("a regression predicts numbers, which have no probabilities: leave them out.")
        self._columns: dict[str, Any] = {
            "id": id,
            "label": label,
            "targets": targets,
            "ignore": ignore,
            "dialect": dialect,
        }
        self._labelled, self._probabilities, self._progress = labelled, probabilities, progress
        self._known = labelled or label is not None or bool(targets)
        schema = schema_of(self._model)
        self._targets = (() if schema is None else schema.names_of("target")) or targets
        self.by_position = self._model.feature_names is None and schema is None and nameless_form(source) is None
        self.unused: tuple[str, ...] = ()
        self.encoding: EncodingReport | None = None
        self._y: list[Any] = []
        self._predicted: list[Any] = []
        self._chances: list[Any] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        model, done = self._model, 0
        with _stream_for(model, self._source, labelled=self._labelled, **self._columns) as stream:
            self.unused = stream.unused
            for block in stream:
                predicted = model.predict(block.X)
                known = self._spelt_as_classes(block.y) if self._known else None
                chances = model.predict_proba(block.X) if model.classifies and self._needs_chances(known) else None
                if known is not None:
                    self._y += known.tolist() if isinstance(known, np.ndarray) else list(known)
                    self._predicted += predicted.tolist()
                    self._chances += [] if chances is None else [chances]
                yield from self._records(block.ids, predicted, known, chances)
                done += len(predicted)
                if self._progress is not None:
                    self._progress(done, stream.n_rows)
            self.encoding = stream.encoding

    def _spelt_as_classes(self, known: Any) -> Any:
        """Known labels as texts if they are integers and the classes are texts: the model learnt such from a CSV."""
        classes = self._model.classes
        if classes and isinstance(classes[0], str) and getattr(known, "dtype", np.dtype(object)).kind in "iu":
            return [str(label) for label in known.tolist()]
        return known

    def _needs_chances(self, known: object) -> bool:
        return self._probabilities or known is not None

    def _records(self, ids: ColumnLike, predicted: Any, known: Any, chances: Any) -> Iterator[dict[str, Any]]:
        classes = [f"probability {c}" for c in self._model.classes]
        shown = chances.tolist() if self._probabilities else None
        for i, prediction in enumerate(predicted):
            record: dict[str, Any] = {} if ids is None else {"id": plain(ids[i])}
            record |= self._named("prediction", prediction)
            if known is not None:
                record |= self._named("known", known[i])
            if shown is not None:
                record |= zip(classes, shown[i], strict=True)
            yield record

    def _named(self, what: str, value: Any) -> dict[str, Any]:
        """Return one column, or one for each target: by its name if it has one, else by its number."""
        if not hasattr(value, "__len__") or isinstance(value, str | bytes):
            return {what: plain(value)}
        names = self._targets if len(self._targets) == len(value) else range(1, len(value) + 1)
        return {f"{what} {name}": plain(v) for name, v in zip(names, value, strict=True)}

    def scores(self) -> Scores | RegressionScores | None:
        """Return the scores of all rows with known labels or targets; None if there were none."""
        from erasable.operations.scoring import regression_scores_of, scores_of

        if not self._y:
            return None
        if not self._model.classifies:
            return regression_scores_of(self._y, self._predicted)
        return scores_of(self._y, self._model.classes, np.concatenate(self._chances), self._predicted)


def score_table(
    model: object,
    source: TableLike,
    *,
    label: str | None = "label",
    targets: Sequence[str] = (),
    ignore: Sequence[str] = (),
    dialect: Dialect | None = None,
) -> Scores | RegressionScores:
    """Return how well a model predicts the labels or targets of a table; parameters as in ``Predictions``.

    Raises InputError, InputTypeError or ConfigurationError when the rows cannot be used, or have no labels.
    """
    found = Predictions(model, source, label=label, targets=targets, ignore=ignore, dialect=dialect, labelled=True)
    for _ in found:
        pass
    scores = found.scores()
    assert scores is not None  # a table without rows is refused
    return scores


def _stream_for(
    model: Model,
    source: TableLike,
    *,
    id: str | None,
    label: str | None,
    targets: Sequence[str],
    labelled: bool,
    ignore: Sequence[str],
    dialect: Dialect | None,
) -> TableStream:
    """Open a table as the model reads it: columns by name if it has names, labels of the type of its classes."""
    wanted, form, schema = model.n_features, nameless_form(source), schema_of(model)
    if model.classifies and targets:
        raise ConfigurationError("targets are for regressions, and this model predicts classes: give label=.")
    if not model.classifies and label is not None and form is None:
        targets = targets or (label,)
    if schema is not None and not model.classifies:
        label, labelled, targets = None, False, targets or (schema.names_of("target") if labelled else ())
    known = {type(c) for c in model.classes} - {bytes}  # known labels are read as the type of the classes
    stream = stream_table(
        source,
        id=id,
        label=label,
        labelled=labelled,
        targets=targets,
        features=None if form is not None else model.feature_names,
        ignore=ignore,
        schema=schema,
        kinds={"label": known.pop()} if known else None,
        n_features=wanted if form == "svmlight" else None,
        dialect=dialect,
    )
    if wanted is not None and stream.n_features != wanted:
        stream.close()
        names = "" if stream.feature_names is None else f" The table has {listed([*map(repr, stream.feature_names)])}."
        raise InputError(
            f"the table has {stream.n_features} columns of features and the model was made with {wanted}: "
            f"name the columns that are none with ignore=, or leave them out.{names}"
        )
    return stream


def refuse_overwriting(out: str | os.PathLike[str] | None, *read: TableLike) -> None:
    """Raise ConfigurationError if ``out`` is, under any name, one of the files that are read.

    Sources are given as in ``Predictions``; ``"-"`` is standard input or output.
    """
    if out is None or os.fspath(out) == "-":
        return
    for path in [path for source in read for path in files_of(source) or [Path("-")]]:
        same = False
        with suppress(AttributeError, OSError, ValueError):  # no such file, or a standard input without a file
            found = os.fstat(sys.stdin.fileno()) if os.fspath(path) == "-" else os.stat(path)
            same = os.path.samestat(found, os.stat(out))
        if same:
            raise ConfigurationError(
                f"{os.fspath(out)} is read here, and predictions would replace it: write them to another file."
            )


def write_records(records: Iterable[dict[str, Any]], out: str | os.PathLike[str] | None) -> int:
    """Write records as CSV or, by the ending, as one JSON object a line, and return their number.

    A failure leaves the file as it was.

    Parameters
    ----------
    records : iterable of dict
    out : str or path, optional
        ``.csv`` or ``.jsonl``; None or ``"-"`` is CSV on standard output.
    """
    path = None if out is None or os.fspath(out) == "-" else Path(out)
    form = "csv" if path is None else FORMS.get(path.suffix.lower())
    if form is None:
        raise ConfigurationError(f"{path} has an unknown ending: use one of {', '.join(FORMS)}.")
    count = 0
    with nullcontext(sys.stdout) if path is None else replaced_text(path) as file:
        table: csv.DictWriter[str] | None = None
        for record in records:
            if form == "jsonl":
                file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
            else:
                if table is None:
                    table = csv.DictWriter(file, list(record), lineterminator="\n")
                    table.writeheader()
                table.writerow(record)
            count += 1
    return count
