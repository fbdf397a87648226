"""Predictions for the rows of a table, block by block, as a table."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from erasable.errors import ConfigurationError, InputError
from erasable.models.model import Model, model_behind
from erasable.operations.schemas import schema_of
from erasable.schemas import EncodingReport
from erasable.store import replaced_text
from erasable.tables import Dialect, TableStream, files_of, nameless_form, stream_table
from erasable.tables.reading import listed

if TYPE_CHECKING:  # it brings scikit-learn, which is slow to import
    from erasable.operations.scoring import RegressionScores, Scores, Tally

FORMS = {".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl"}


def predict_table(
    model: Any,
    source: str | os.PathLike[str] | Any,
    *,
    id: str | None = None,
    label: str | None = None,
    targets: Sequence[str] = (),
    ignore: Sequence[str] = (),
    probabilities: bool = False,
    tally: Tally | None = None,
    encoding: Callable[[EncodingReport], None] | None = None,
    dialect: Dialect | None = None,
    unused: Callable[[tuple[str, ...]], None] | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """A record for each row: its id where there is one, the label predicted and, where asked for, probabilities.

    Parameters
    ----------
    model : estimator, or a model of ``erasable.models``
        Fitted. One with a schema takes raw tables. Where it was made with ``feature_names``, columns are found by name,
        in any order, and other columns are left alone. Otherwise they are taken in the order of the table: see
        ``by_position``.
    source : str, path, list of these, or binary file object
        As in ``erasable.tables.stream_table``; ``"-"`` is the standard input.
    id : str, optional
        The column that names the rows; a schema may name it, too.
    label : str, optional
        A column of known labels, which is no feature; each record then says what it holds, as ``known``.
    targets : sequence of str
        The same for a regression: columns of known numbers, in the order of the targets of the model.
    ignore : sequence of str
        Columns that are no features, where the model does not say which are.
    probabilities : bool, default=False
        Add the probability of every class.
    tally : Tally, optional
        Takes what was predicted for rows with known labels, to be scored.
    encoding : callable, optional
        Called at the end with what became of the cells, where the model has a schema.
    dialect : Dialect, optional
        How CSV text is written.
    unused : callable, optional
        Called with the names of columns that the model does not know and nobody named, where there are any.
    progress : callable, optional
        Called with rows done and, where it is known, rows in all.

    Raises
    ------
    InputError, InputTypeError, ConfigurationError
        When the rows cannot be used.
    """
    model = model_behind(model, "predict")
    if probabilities and not model.classifies:
        raise ConfigurationError("a regression predicts numbers, which have no probabilities: leave them out.")
    done, classes = 0, list(model.classes)
    schema = schema_of(model)
    called = (() if schema is None else schema.having("target")) or targets
    known = label is not None or bool(targets)
    columns: dict[str, Any] = {"id": id, "label": label, "targets": targets}
    with _stream_for(model, source, **columns, labelled=False, ignore=ignore, dialect=dialect) as stream:
        if unused is not None and stream.unused:
            unused(stream.unused)
        for block in stream:
            answers = model.predict(block.X)
            P = model.predict_proba(block.X) if model.classifies and (probabilities or tally is not None) else None
            if tally is not None and known and block.y is not None:
                tally.add(block.y, P, answers)
            chances = P.tolist() if probabilities and P is not None else None
            for i, answer in enumerate(answers):
                record: dict[str, Any] = {} if block.ids is None else {"id": _plain(block.ids[i])}
                record |= _told("prediction", answer, called)
                if known and block.y is not None:
                    record |= _told("known", block.y[i], called)
                if chances is not None:
                    record |= {f"probability {c}": p for c, p in zip(classes, chances[i], strict=True)}
                yield record
            done += len(answers)
            if progress is not None:
                progress(done, stream.n_rows)
        if encoding is not None and stream.encoding is not None:
            encoding(stream.encoding)


def score_table(
    model: Any,
    source: str | os.PathLike[str] | Any,
    *,
    label: str | None = "label",
    targets: Sequence[str] = (),
    ignore: Sequence[str] = (),
    dialect: Dialect | None = None,
) -> Scores | RegressionScores:
    """How well a model predicts the labels or targets of a table; parameters as in ``predict_table``.

    Raises
    ------
    InputError, InputTypeError, ConfigurationError
        When the rows cannot be used, or have no labels.
    """
    from erasable.operations.scoring import Tally

    model, tally = model_behind(model, "score"), Tally()
    columns: dict[str, Any] = {"id": None, "label": label, "targets": targets}
    with _stream_for(model, source, **columns, labelled=True, ignore=ignore, dialect=dialect) as stream:
        for block in stream:
            P = model.predict_proba(block.X) if model.classifies else None
            tally.add(block.y, P, model.predict(block.X))
    scores = tally.scores(model.classes)
    assert scores is not None  # a table without rows is refused
    return scores


def _told(what: str, answer: Any, targets: Sequence[str]) -> dict[str, Any]:
    """One answer; several targets by their names where they were given, else by their numbers."""
    if not hasattr(answer, "__len__") or isinstance(answer, str | bytes):
        return {what: _plain(answer)}
    names = targets if len(targets) == len(answer) else range(1, len(answer) + 1)
    return {f"{what} {name}": _plain(v) for name, v in zip(names, answer, strict=True)}


def target_columns(model: Any, source: Any, label: str | None, targets: Sequence[str]) -> Sequence[str]:
    """The columns of the targets of a regression: those named, else that of the label, where columns have names.

    Raises
    ------
    ConfigurationError
        When targets are named, and the model is a classifier.
    """
    if model.classifies:
        if targets:
            raise ConfigurationError("targets are for regressions, and this model predicts classes: give label=.")
        return ()
    return targets or ((label,) if label is not None and nameless_form(source) is None else ())


def _stream_for(
    model: Model,
    source: Any,
    *,
    id: str | None,
    label: str | None,
    targets: Sequence[str],
    labelled: bool,
    ignore: Sequence[str],
    dialect: Dialect | None,
) -> TableStream:
    """A table as the model reads it: columns by name where it has names, labels of the type that it knows."""
    wanted, form, schema = model.n_features, nameless_form(source), schema_of(model)
    targets = target_columns(model, source, label, targets)
    if schema is not None and not model.classifies:
        label, labelled, targets = None, False, targets or (schema.having("target") if labelled else ())
    known = {type(c) for c in model.classes} & {int, str}  # what a column of digits stands for, the model says
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


def by_position(model: Any, source: Any) -> bool:
    """Whether columns that have names are taken by their order, since the model stores no names of its own."""
    known = model_behind(model, "predict")
    return known.feature_names is None and schema_of(known) is None and nameless_form(source) is None


def refuse_overwriting(out: str | os.PathLike[str] | None, *read: Any) -> None:
    """Refuse to write over a file that is read, under whatever name; ``"-"`` is the standard input, or output.

    What is read may be given as in ``predict_table``.

    Raises
    ------
    ConfigurationError
    """
    if out is None or os.fspath(out) == "-":
        return
    for path in [path for source in read for path in files_of(source) or [Path("-")]]:
        same = False
        with suppress(AttributeError, OSError, ValueError):  # no such file, or a standard input that is none
            there = os.fstat(sys.stdin.fileno()) if os.fspath(path) == "-" else os.stat(path)
            same = os.path.samestat(there, os.stat(out))
        if same:
            raise ConfigurationError(
                f"{os.fspath(out)} is read here, and predictions would replace it: write them to another file."
            )


def write_records(records: Iterable[dict[str, Any]], out: str | os.PathLike[str] | None) -> int:
    """Write records as CSV or, by the ending, as one JSON object a line; the number of them.

    Nothing is left behind when it fails.

    Parameters
    ----------
    records : iterable of dict
    out : str or path, optional
        ``.csv`` or ``.jsonl``; None or ``"-"`` is CSV on the standard output.
    """
    path = None if out is None or os.fspath(out) == "-" else Path(out)
    form = "csv" if path is None else FORMS.get(path.suffix.lower())
    if form is None:
        raise ConfigurationError(f"{path} has an ending that is not known here: known are {', '.join(FORMS)}.")
    count = 0
    with nullcontext(sys.stdout) if path is None else replaced_text(path) as file:
        table: Any = None
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


def _plain(value: Any) -> Any:
    """A NumPy value as a plain one; bytes in hexadecimal."""
    value = value.item() if hasattr(value, "item") else value
    return value.hex() if isinstance(value, bytes) else value
