"""Learn rows: into a model in memory, and from a table into a model file. One operation each."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from sklearn.base import is_classifier

from erasable.errors import (
    ConfigurationError,
    EmptiedClassWarning,
    InputError,
    InputTypeError,
    SortedRowsWarning,
    WeakModelWarning,
)
from erasable.estimators.base import ErasableEstimator
from erasable.models.class_balance import NUMERIC_REMEDY, ONE_CLASS, REMEDY
from erasable.models.files import read_model
from erasable.models.model import Model
from erasable.models.passes import BUDGET_BYTES
from erasable.models.reports import LearnReport
from erasable.models.row_source import Rows
from erasable.operations._estimator import (
    as_labels,
    check_types,
    estimator_for,
    estimator_like,
    is_regression,
    kinds_of,
)
from erasable.operations.inspect import stored_bytes
from erasable.operations.model_file import ModelFile
from erasable.operations.predict import score_table
from erasable.operations.schemas import agreed_schema
from erasable.operations.scoring import RegressionScores, Scores, regression_scores_of, scores_of
from erasable.operations.sent_again import Suppressed
from erasable.schemas import EncodingReport, Schema
from erasable.store import PRIVATE
from erasable.tables import Dialect, TableStream, nameless_form, stream_table

_ENOUGH_TO_SCORE, _ENOUGH_TO_JUDGE = 50, 100  # rows
_NEXT_TO_NOTHING = 0.001  # of the rows


def learn(
    clf: ErasableEstimator,
    X: Any,
    y: Any,
    *,
    ids: Any = None,
    subjects: Any = None,
    classes: Any = None,
    sample_weight: Any = None,
    allow_no_subject: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> LearnReport:
    """Learn rows like ``clf.partial_fit`` and get a report instead of the model.

    An unfitted model with ``kappa`` and no ``horizon`` takes that from the number of rows, as ``fit`` does.

    Parameters
    ----------
    clf : ErasableClassifier, ErasableRegressor, ErasableKernelClassifier or another of their kind
        Fitted or not; changed in place.
    X, y, ids, subjects, classes, sample_weight, allow_no_subject
        As in ``ErasableClassifier.partial_fit``.
    progress : callable, optional
        Called with (rows done, rows in all) after every block.

    Returns
    -------
    LearnReport
        Rows offered, core rows added, and how many rows each level of certainty decided. The model keeps none of this.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable import ErasableClassifier, learn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 4))
    >>> report = learn(ErasableClassifier(), X, X[:, 0] > 0)
    >>> report.rows, report.decisions.exact
    (5000, 0)
    """
    if not isinstance(clf, ErasableEstimator) or not hasattr(clf, "learn"):  # type: ignore[redundant-expr]
        raise InputTypeError(f"learn needs a model that can forget bit for bit; got {type(clf).__name__}.")
    return clf.learn(
        X,
        y,
        ids=ids,
        subjects=subjects,
        classes=classes,
        sample_weight=sample_weight,
        allow_no_subject=allow_no_subject,
        progress=progress,
    )


@dataclass(frozen=True)
class TableLearnt:
    """What learning a table did.

    Attributes
    ----------
    report : LearnReport
    bytes : int
        How large the file is now.
    score : Scores, RegressionScores or None
        Of rows of this table, predicted before they were learnt. In the order of hashes, they are those of the last
        eighth that fit a sixteenth of the budget, predicted by the model of all rows before them; with
        ``order="given"``, those after the last doubling of the number of rows. So it estimates how well the model does
        on new rows of this kind, from somewhat fewer rows than it has learnt. None where fewer than 50 rows could be
        scored, or it was not asked for. It is kept in no file.
    test : Scores, RegressionScores or None
        Of the rows of another table, predicted by the model as it is now.
    warnings : list of str
        What makes the model weak: a class without core rows, or with few; predictions that are no better than a
        constant.
    hints : list of str
        What to do otherwise, where most rows were stored or next to none, little is left of them, or they come sorted.
    encoding : EncodingReport or None
        With a schema: how many cells were missing, unknown, unparsable or clipped.
    """

    report: LearnReport
    bytes: int
    score: Scores | RegressionScores | None
    test: Scores | RegressionScores | None
    warnings: list[str]
    hints: list[str]
    encoding: EncodingReport | None = None


def learn_table(
    path: str | os.PathLike[str],
    source: Any,
    *,
    label: str | None = None,
    targets: Sequence[str] = (),
    id: str | None = None,
    subject: str | Sequence[str] | None = None,
    weight: str | None = None,
    ignore: Sequence[str] = (),
    schema: Schema | str | os.PathLike[str] | None = None,
    label_type: type | None = None,
    id_type: type | None = None,
    subject_type: type | None = None,
    n_features: int | None = None,
    kernel: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    dialect: Dialect | None = None,
    skip_known: bool = False,
    replace: bool = False,
    allow_no_subject: bool = False,
    test: str | os.PathLike[str] | None = None,
    score: bool = True,
    timeout: float | None = None,
    mode: int = PRIVATE,
    progress: Callable[[int, int], None] | None = None,
    reading: Callable[[int, int], None] | None = None,
    budget_bytes: int = BUDGET_BYTES,
    suppressed: Suppressed | None = None,
    engine: Any = None,
) -> TableLearnt:
    """Learn the rows of a table into a model file, new or existing: all of them, or none.

    The model is that of ``fit``, or of one more ``partial_fit``, with all rows of the table. With ``order="hashed"`` a
    file that does not fit ``budget_bytes`` is read twice, and again while rows are left over; standard input, which can
    be read but once, has to fit.

    Parameters
    ----------
    path : str or path
        The model file. One that is there learns more, and what is given must agree with it.
    source : str, path, list of these, or binary file object
        As in ``erasable.tables.stream_table``.
    label, id, subject, weight, ignore
        Columns of the labels ("label" unless said otherwise), of the ids of rows, of whose they are (one or several),
        of how much they count, and those that are no features. With a schema they are named by it; what is named here
        must agree.
    targets : sequence of str
        Columns of numbers to predict in place of a label: makes a regression, as ``target_range`` among the parameters
        does, and targets of a schema. A new one needs that range, or a schema that declares it: then what lies beyond
        is clipped, and counted in ``encoding``. Without names of targets, that of the label is the one.
    schema : Schema or path, optional
        Encodes the columns of a raw table. A model that was made with one knows it; another one is refused.
    label_type, id_type, subject_type : type, optional
        What these columns of a table without types hold: ``int`` or ``str``, and labels also ``float`` or ``bool``.
    n_features : int, optional
        For tables that do not say it.
    kernel : str, optional
        Makes a kernel model; a linear one otherwise.
    parameters : mapping, optional
        Of ``ErasableClassifier``, ``ErasableRegressor`` or ``ErasableKernelClassifier``; those that are left out are
        their defaults. Labels that ``class_weight`` names may be texts, whatever the labels of the table are.
    test : str or path, optional
        A table of the same columns to score the model with, once it has learnt.
    score : bool, default=True
        Whether to predict some rows before they are learnt. The model is the same, bit for bit.
    dialect : Dialect, optional
        How CSV text is written, that of ``test`` too.
    skip_known, replace, allow_no_subject, timeout, mode, suppressed
        As in ``ModelFile`` and its ``learn``.
    progress, reading : callables, optional
        Called with rows done, or read in the first pass of a new model, when none is done yet; and rows in all.
    budget_bytes : int, default=256 MiB
        About how many bytes of rows are held at a time. It changes the number of passes and nothing else.
    engine : None, "local", "torch", "dask" or Engine, optional
        Where rows are screened, as in ``ErasableClassifier``.

    Raises
    ------
    InputError
        When all labels of a new model are the same, and no ``classes`` are among the parameters.
    """
    given = dict(parameters or {})
    asked = schema if schema is None or isinstance(schema, Schema) else Schema.load(schema)
    types = {"label": label_type, "id": id_type, "subject": subject_type}
    named = {role: kind for role, kind in types.items() if kind is not None}
    file = ModelFile(path, timeout=timeout)
    with ExitStack() as stack, warnings.catch_warnings(record=True) as told:
        warnings.filterwarnings("ignore", "there is one feature")  # a hint says it
        warnings.simplefilter("always", SortedRowsWarning)  # as a hint
        warnings.simplefilter("always", WeakModelWarning)  # with what is found out here
        warnings.simplefilter("always", EmptiedClassWarning)
        if "classes" not in given:
            warnings.filterwarnings("error", re.escape(ONE_CLASS), WeakModelWarning)
        scored: list[Scores | RegressionScores] = []
        read: list[_Read] = []

        def prepare(model: Model | None) -> tuple[TableStream, Any]:
            """The table, read as the model in the file needs it, and an estimator that is that of the file."""
            encoder = asked if model is None else agreed_schema(model, asked)
            named_subject = subject or (encoder is not None and encoder.having("subject"))
            if model is not None and not named_subject and not allow_no_subject and model.core.subject_type is not None:
                raise ConfigurationError(
                    "rows of this model have subjects, and without subject= no erasure by subject could reach these: "
                    "name the column, or allow it with allow_no_subject=."
                )
            known = {} if model is None else kinds_of(model)
            width = n_features
            if model is not None:
                width = model.n_features if nameless_form(source) == "svmlight" else None
                check_types(known, named, width, n_features)
            columns = targets or (() if encoder is None else encoder.having("target"))
            numeric = is_regression(model, columns, encoder, given, kernel, label_type)
            labels = label or (None if encoder is not None else "label")
            if numeric and not columns and nameless_form(source) is None:
                columns, labels = (label or "label",), None
            stream = stack.enter_context(
                stream_table(
                    source,
                    label=labels,
                    targets=columns,
                    id=id,
                    subject=subject,
                    weight=weight,
                    ignore=ignore,
                    kinds=known | named,
                    n_features=width,
                    schema=encoder,
                    dialect=dialect,
                )
            )
            if named and stream.typed:
                raise ConfigurationError(
                    "id_type=, subject_type= and label_type= are for CSV: this table has types of its own, leave them "
                    "out."
                )
            kind = (known | named).get("label")
            if isinstance(given.get("class_weight"), Mapping):
                given["class_weight"] = as_labels(given["class_weight"], kind, stream, "class_weight=")
            if "classes" in given:
                given["classes"] = [*as_labels(dict.fromkeys(given["classes"]), kind, stream, "classes=")]
            if model is None:
                new = estimator_for(kernel, given, stream, numeric, encoder)
            else:
                new = estimator_like(model, given, kernel, stream)
            if test is not None:
                _check_test(test, labels, columns, ignore, dialect, stream, encoder)
            read.append(_Read(stream, new, model is not None, labels, columns, given.get("horizon", stream.n_rows)))
            return stream, new

        def watched(told: Callable[[int, int], None] | None) -> Callable[[int], None] | None:
            return None if told is None else lambda done: told(done, read[0].total or done)

        def predicted(model: Model, rows: Rows) -> None:
            if not len(model.core) or len(rows) < _ENOUGH_TO_SCORE:
                return
            if model.classifies:
                scored[:] = [scores_of(rows.y, model.classes, model.probabilities(rows.X), model.predict(rows.X))]
            else:
                scored[:] = [regression_scores_of(rows.y, model.predict(rows.X))]

        report: LearnReport | None = None
        with suppress(WeakModelWarning):  # ONE_CLASS, the only one that is an error here
            report = file.learn(
                prepare,
                skip_known=skip_known,
                replace=replace,
                allow_no_subject=allow_no_subject,
                progress=watched(progress),
                reading=watched(reading),
                mode=mode,
                budget_bytes=budget_bytes,
                ahead=predicted if score else None,
                suppressed=suppressed,
                engine=engine,
            )
    if report is None:
        raise InputError(
            "all labels are the same, and so would all predictions be. Name the column of the labels with label=, or "
            "fix the classes that will come later with classes=."
        )
    found: dict[Any, list[str]] = {SortedRowsWarning: [], WeakModelWarning: [], EmptiedClassWarning: []}
    for warning in told:
        if warning.category in found:
            found[warning.category].append(str(warning.message))
        else:
            warnings.warn(warning.message, stacklevel=2)
    (table,) = read
    before = scored[-1] if scored else None
    tested = None
    if test is not None:
        answers: dict[str, Any] = {"label": table.label, "targets": table.targets}
        tested = score_table(read_model(path)[0], test, **answers, ignore=ignore, dialect=dialect)
    judged = tested or before
    if judged is not None and judged.no_better_than_constant and judged.rows >= _ENOUGH_TO_JUDGE:
        remedy = REMEDY if isinstance(judged, Scores) else NUMERIC_REMEDY
        found[WeakModelWarning].append(f"predictions are no better than a constant: {remedy}.")
    hints = [*found[SortedRowsWarning], *_hints(report, table)]
    plain = getattr(table.model, "loss", None) == "squared" and table.model.class_weight is None
    if isinstance(judged, Scores) and plain and judged.log_loss > judged.log_loss_of_shares:
        hints.append('probabilities are worse than those of a constant (log-loss): loss= "logistic" makes better ones')
    weak = found[EmptiedClassWarning] + found[WeakModelWarning]
    return TableLearnt(report, stored_bytes(path), before, tested, weak, hints, table.stream.encoding)


@dataclass(frozen=True, eq=False)
class _Read:
    """The table as it is read, the estimator that learns it, and whether the file was there."""

    stream: TableStream
    model: Any
    there: bool
    label: str | None
    targets: Sequence[str]
    total: int | None  # rows, where their number is known


def _check_test(
    test: Any,
    label: str | None,
    targets: Sequence[str],
    ignore: Sequence[str],
    dialect: Dialect | None,
    learnt: TableStream,
    schema: Schema | None,
) -> None:
    """Refuse a table to score with that is not there or has other columns, before anything is learnt."""
    if os.fspath(test) == "-":
        raise ConfigurationError("test= is read after all rows are learnt, so it has to be a file.")
    form = nameless_form(test)
    with stream_table(
        test,
        label=label,
        targets=targets if form is None else (),
        ignore=ignore if learnt.feature_names is None else (),
        features=None if form is not None or schema is not None else learnt.feature_names,
        kinds={"label": str},  # nothing is read
        n_features=learnt.n_features if form == "svmlight" else None,
        schema=schema,
        dialect=dialect,
    ) as stream:
        if stream.n_features != learnt.n_features:
            raise InputError(
                f"the table to test with has {stream.n_features} features, and the one to learn {learnt.n_features}."
            )


def _hints(report: LearnReport, table: _Read) -> list[str]:
    """What to do otherwise."""
    hints, model, there = [], table.model, table.there
    if not there and getattr(model, "scaling", None) == "row" and table.stream.n_features == 1:
        hints.append(
            "there is one feature, and each row is divided by its own norm, so only the sign of the feature is left: "
            "give scaling=, a public number that no value exceeds."
        )
    asked = getattr(model, "threshold", None) == 0 or getattr(model, "sample_rate", 0) >= 0.5
    if there and report.rows >= 1000 and report.core_rows_added < _NEXT_TO_NOTHING * report.rows:
        hints.append(
            "next to nothing was added: rows in directions that are known already are not stored, whatever they "
            "answer, so the model does not follow answers that change; a new one with sample_rate= keeps some of all "
            "rows"
        )
    if report.rows >= 1000 and 2 * report.core_rows_added > report.rows and not asked:
        way = (
            "give scaling=, a smaller gamma= or a higher threshold="
            if hasattr(model, "gamma")
            else "a higher threshold= stores fewer"
            + (" (erasable plan tries some out)" if is_classifier(model) else "")
        )
        hints.append(
            f"more than half of the rows are stored: {way}" + ("; that takes a new model file" if there else "")
        )
    return hints
