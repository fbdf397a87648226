"""Learn rows: into a model in memory, and from a table into a model file."""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
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
from erasable.estimators import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor
from erasable.estimators.base import ErasableEstimator
from erasable.estimators.files import estimator_of
from erasable.models.files import read_model
from erasable.models.model import Model
from erasable.models.reports import ONE_CLASS, LearnReport, remedy_of
from erasable.models.row_source import Rows
from erasable.models.selections import KernelPoints
from erasable.operations.model_file import LearnOptions, ModelFile, stored_bytes
from erasable.operations.predict import score_table
from erasable.operations.schemas import agreed_schema, schema_of
from erasable.operations.scoring import RegressionScores, Scores, regression_scores_of, scores_of
from erasable.schemas import EncodingReport, Schema, canonical_text
from erasable.tables import Dialect, TableStream, nameless_form, stream_table
from erasable.tables.columns import classes_of, fits, read_texts
from erasable.tables.reading import compared
from erasable.tables.sources import TableLike

#: Called with what is being done ("reading" or "learning"), rows done, and rows in all.
Watch = Callable[[str, int, int], None]

_ENOUGH_TO_SCORE, _ENOUGH_TO_JUDGE = 50, 100  # rows
_NEXT_TO_NOTHING = 0.001  # of the rows
_TYPES = {"label": (bool, int, float, str), "id": (int, str), "subject": (int, str)}  # that text can be read as


def learn(
    clf: ErasableEstimator,
    X: object,
    y: object,
    *,
    ids: object = None,
    subjects: object = None,
    classes: object = None,
    sample_weight: object = None,
    allow_no_subject: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> LearnReport:
    """Learn rows like ``clf.partial_fit`` and get a report instead of the model.

    If an unfitted model has ``kappa`` and no ``horizon``, the number of rows is its horizon, as in ``fit``.

    Parameters
    ----------
    clf : ErasableClassifier, ErasableRegressor, ErasableKernelClassifier or similar
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
class Columns:
    """The columns of a table to learn: their roles, their types, and the schema that encodes them.

    Attributes
    ----------
    label, id, subject, weight, ignore
        Columns of the labels ("label" by default), of the ids of rows, of their subjects (one or several), of their
        weights, and columns that are not features. A schema names them too; then both must agree.
    targets : sequence of str
        Columns of numbers to predict instead of a label: a regression. A new regression needs ``target_range`` among
        its parameters, or a schema that declares the range. Without names of targets, the label is the target.
    schema : Schema or path, optional
        Encodes the columns of a raw table. A file keeps the schema of its model; another one is refused.
    types : mapping of str to type
        The types of ``"label"``, ``"id"`` and ``"subject"`` in CSV: ``int`` or ``str``; labels also ``float`` or
        ``bool``. By default they are texts as they are written, and labels integers if all classes that the schema
        lists are. The types of a CSV never follow from its rows or from those in the file.
    n_features : int, optional
        For tables that do not state it.
    """

    label: str | None = None
    targets: Sequence[str] = ()
    id: str | None = None
    subject: str | Sequence[str] | None = None
    weight: str | None = None
    ignore: Sequence[str] = ()
    schema: Schema | str | os.PathLike[str] | None = None
    types: Mapping[str, type] = field(default_factory=dict)
    n_features: int | None = None


@dataclass(frozen=True)
class TableLearnt:
    """The result of learning a table."""

    report: LearnReport
    bytes: int  # the size of the model file
    # Of rows of this table, predicted before they were learnt. With ``order="hashed"``, these are rows of the last
    # eighth that fit a sixteenth of the budget, predicted by the model of all rows before them; with ``order="given"``,
    # those after the last doubling of the number of rows. So it estimates the quality on new rows, from somewhat fewer
    # rows than were learnt. None if fewer than 50 rows could be scored, or no score was asked for. No file keeps it.
    score: Scores | RegressionScores | None
    test: Scores | RegressionScores | None  # of the rows of the test table, predicted by the model as it is now
    # What makes the model weak: a class with few core rows or none; predictions no better than a constant.
    warnings: list[str]
    hints: list[str]  # what to change if most rows were stored, or next to none, or if the rows come sorted
    encoding: EncodingReport | None = None  # with a schema: how many cells were missing, unknown, unparsable or clipped


def learn_table(
    path: str | os.PathLike[str],
    source: TableLike,
    columns: Columns | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    options: LearnOptions | None = None,
    dialect: Dialect | None = None,
    test: str | os.PathLike[str] | None = None,
    score: bool = True,
    timeout: float | None = None,
    watch: Watch | None = None,
) -> TableLearnt:
    """Learn the rows of a table into a model file, new or existing: all of them, or none.

    The model is that of ``fit``, or of one more ``partial_fit``, with all rows of the table. With ``order="hashed"`` a
    table that does not fit the budget is read twice or more, so standard input has to fit.

    Parameters
    ----------
    path : str or path
        The model file. If it exists, the rows are added to its model, and all arguments must agree with it.
    source : str, path, list of these, or binary file object
        As in ``erasable.tables.stream_table``.
    columns, options, dialect : Columns, LearnOptions and Dialect, optional
    parameters : mapping, optional
        Of ``ErasableKernelClassifier`` if ``"kernel"`` is among them, else of ``ErasableRegressor`` or
        ``ErasableClassifier``. Labels in arguments may be texts, whatever the table's type is.
    test : str or path, optional
        A table of the same columns to score the model with after learning.
    score : bool, default=True
        Whether to predict some rows before they are learnt. The model is the same, bit for bit.
    timeout : float, optional
        As in ``ModelFile``.
    watch : callable, optional
        Called with "reading" or "learning", rows done, and rows in all.

    Raises
    ------
    InputError
        When all labels of a new model are the same, and no ``classes`` are among the parameters.
    """
    options = LearnOptions() if options is None else options
    task = _Task(source, columns or Columns(), dict(parameters or {}), dialect, test, options.allow_no_subject)
    with task.opened, _collected_warnings(one_class="classes" in task.parameters) as found:
        report: LearnReport | None = None
        with suppress(WeakModelWarning):  # ONE_CLASS, the only one that is raised as an error
            report = ModelFile(path, timeout=timeout).learn_prepared(task.prepare, task.watched(options, score, watch))
    if report is None:
        raise InputError(
            "all labels are the same, and so would all predictions be. Name the column of the labels with label=, or "
            "fix the classes that will come later with classes=."
        )
    tested = None if test is None else task.score_test(read_model(path)[0])
    judged = tested or task.score
    weak = found[EmptiedClassWarning] + found[WeakModelWarning] + _weakness(judged, task.estimator.model_)
    hints = [*found[SortedRowsWarning], *task.hints(report, judged)]
    return TableLearnt(report, stored_bytes(path), task.score, tested, weak, hints, task.stream.encoding)


def _weakness(judged: Scores | RegressionScores | None, model: Model) -> list[str]:
    """Return a warning if predictions are no better than a constant."""
    if judged is None or not judged.no_better_than_constant or judged.rows < _ENOUGH_TO_JUDGE:
        return []
    return [f"predictions are no better than a constant: {remedy_of(model)}."]


@contextmanager
def _collected_warnings(*, one_class: bool) -> Iterator[dict[type[Warning], list[str]]]:
    """Collect the warnings that ``TableLearnt`` reports and pass on all others.

    Unless ``one_class``, the warning that all labels are the same is raised as an error.
    """
    found: dict[type[Warning], list[str]] = {SortedRowsWarning: [], WeakModelWarning: [], EmptiedClassWarning: []}
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("ignore", "there is one feature")  # a hint reports it
        for category in found:
            warnings.simplefilter("always", category)
        if not one_class:
            warnings.filterwarnings("error", re.escape(ONE_CLASS), WeakModelWarning)
        yield found
    for warning in caught:
        if warning.category in found:
            found[warning.category].append(str(warning.message))
        else:
            warnings.warn(warning.message, stacklevel=4)


class _Task:
    """One table to learn: how it is read, and the estimator that learns it. Both depend on the model in the file."""

    stream: TableStream
    estimator: ErasableEstimator

    def __init__(
        self,
        source: TableLike,
        columns: Columns,
        parameters: dict[str, Any],
        dialect: Dialect | None,
        test: str | os.PathLike[str] | None,
        allow_no_subject: bool,
    ) -> None:
        self.source, self.columns, self.parameters, self.dialect = source, columns, parameters, dialect
        schema = columns.schema
        self.schema = schema if schema is None or isinstance(schema, Schema) else Schema.load(schema)
        self.test, self.allow_no_subject = test, allow_no_subject
        self.opened = ExitStack()
        self.exists = False
        self.label: str | None = columns.label
        self.targets: Sequence[str] = columns.targets
        self.score: Scores | RegressionScores | None = None

    def watched(self, options: LearnOptions, score: bool, watch: Watch | None) -> LearnOptions:
        """Return the options with the functions that report progress and score rows before they are learnt."""
        progress, reading = self.progress("learning", watch), self.progress("reading", watch)
        return replace(options, ahead=self.predict_ahead if score else None, progress=progress, reading=reading)

    def prepare(self, model: Model | None) -> tuple[TableStream, ErasableEstimator]:
        """Return the table, read as the model in the file needs it, and the estimator that learns it."""
        columns, self.exists = self.columns, model is not None
        if model is not None:
            self.schema = agreed_schema(model, self.schema)
            self._check_subject(model)
        elif self.schema is not None and self.parameters.get("learner") is not None:
            self.schema = self.schema.keeping_raw
        self.targets = columns.targets or (() if self.schema is None else self.schema.names_of("target"))
        regression = self._is_regression(model)
        self.label = columns.label or (None if self.schema is not None else "label")
        form = nameless_form(self.source)
        if regression and not self.targets and form is None:
            self.targets, self.label = (columns.label or "label",), None
        width = columns.n_features
        if model is not None and form == "svmlight":
            if width not in (None, model.n_features):
                raise ConfigurationError(f"n_features= is {width}, and the model has {model.n_features}: leave it out.")
            width = model.n_features
        self.stream = self.opened.enter_context(
            stream_table(
                self.source,
                label=self.label,
                targets=self.targets,
                id=columns.id,
                subject=columns.subject,
                weight=columns.weight,
                ignore=columns.ignore,
                # Whole labels in SVMlight text are not made floats by a row that may be forgotten.
                kinds={"label": int} if form == "svmlight" and not regression else columns.types,
                n_features=width,
                schema=self.schema,
                dialect=self.dialect,
            )
        )
        if columns.types and self.stream.typed:
            raise ConfigurationError(
                "id_type=, subject_type= and label_type= are for CSV: this table has types of its own, leave them out."
            )
        self._read_labels(self.stream.kinds().get("label"))
        self.estimator = self._new_estimator(regression) if model is None else self._estimator_of(model)
        if self.test is not None:
            self._check_test()
        return self.stream, self.estimator

    def progress(self, what: str, watch: Watch | None) -> Callable[[int], None] | None:
        """Return a function of the rows done that also reports the rows in all."""

        def tell(done: int) -> None:
            total = self.parameters.get("horizon", self.stream.n_rows)
            assert watch is not None
            watch(what, done, total or done)

        return None if watch is None else tell

    def predict_ahead(self, model: Model, rows: Rows) -> None:
        """Score the predictions for rows that the model has not learnt yet."""
        if not len(model.core) or len(rows) < _ENOUGH_TO_SCORE:
            return
        if model.classifies:
            self.score = scores_of(rows.y, model.classes, model.predict_proba(rows.X), model.predict(rows.X))
        else:
            self.score = regression_scores_of(rows.y, model.predict(rows.X))

    def score_test(self, model: Model) -> Scores | RegressionScores:
        """Score the model with the test table."""
        assert self.test is not None
        columns: dict[str, Any] = {"label": self.label, "targets": self.targets, "ignore": self.columns.ignore}
        return score_table(model, self.test, **columns, dialect=self.dialect)

    def hints(self, report: LearnReport, judged: Scores | RegressionScores | None) -> list[str]:
        """Return advice on what to change, from the number of rows that were stored and from the scores."""
        hints, model = [], self.estimator
        grid = getattr(model.model_.selection, "grid", None)
        if not self.exists and grid is not None and grid.n_features == 1 and grid.normalises:
            hints.append(
                "there is one feature, and each row is divided by its own norm, so only the sign of the feature is "
                "left: give scaling=, a public number that no value exceeds."
            )
        if self.exists and report.rows >= 1000 and report.core_rows_added < _NEXT_TO_NOTHING * report.rows:
            hints.append(
                "next to nothing was added: rows in known directions are not stored, whatever their labels, so the "
                "model does not follow labels that change; a new one with sample_rate= keeps some of all rows"
            )
        intended = getattr(model, "threshold", None) == 0 or getattr(model, "sample_rate", 0) >= 0.5
        if report.rows >= 1000 and 2 * report.core_rows_added > report.rows and not intended and report.rate is None:
            way = "give scaling=, a smaller gamma= or a higher threshold="
            if not hasattr(model, "gamma"):
                way = "a higher threshold= stores fewer"
                way += " (erasable plan tries some out)" if is_classifier(model) else ""
            new_file = "; that takes a new model file" if self.exists else ""
            hints.append(f"more than half of the rows are stored: {way}{new_file}")
        squared = getattr(model, "loss", None) == "squared" and model.class_weight is None
        if isinstance(judged, Scores) and squared and judged.log_loss > judged.log_loss_of_shares:
            hints.append(
                'probabilities are worse than those of a constant (log-loss): loss= "logistic" makes better ones'
            )
        return hints

    # -- checks of the arguments ---------------------------------------------------------------------------------

    def _check_subject(self, model: Model) -> None:
        """Refuse rows without subjects for a model whose rows have them."""
        named = self.columns.subject or (self.schema is not None and self.schema.names_of("subject"))
        if not named and not self.allow_no_subject and model.core.subject_type is not None:
            raise ConfigurationError(
                "rows of this model have subjects, and without subject= no erasure by subject could reach these: "
                "name the column, or allow it with allow_no_subject=."
            )

    def _is_regression(self, model: Model | None) -> bool:
        """Whether numbers are to be predicted; refused if the arguments and the model disagree."""
        ranged = "target_range" in self.parameters
        asked = bool(self.targets) or ranged
        if asked and "label" in self.columns.types:
            raise ConfigurationError("label_type= is for labels, and targets are numbers: leave one of them out.")
        if asked and "kernel" in self.parameters:
            raise ConfigurationError(
                "kernel= makes a classifier, and targets are for regressions: leave one of them out."
            )
        if model is None:
            declared = self.schema is not None and self.schema.target_range is not None
            if self.targets and not ranged and not declared:
                raise ConfigurationError(
                    "target_range= is required: declare between which numbers targets lie, from what you know "
                    "beforehand; a range taken from the rows would be a trace of them."
                )
            return asked
        if asked and model.classifies:
            raise ConfigurationError(
                "targets are for regressions, and the file holds a classifier: give label= instead."
            )
        return not model.classifies

    def _read_labels(self, kind: type | None) -> None:
        """Convert the labels in arguments from text to the type of the table's labels."""
        classes = self.parameters.get("classes")
        for name in ("class_weight", "class_shares"):
            by_label = self.parameters.get(name)
            if isinstance(by_label, Mapping):
                labels = self._as_labels([*by_label], kind, f"{name}=")
                self.parameters[name] = dict(zip(labels, by_label.values(), strict=True))
        if classes is not None:
            self.parameters["classes"] = [*dict.fromkeys(self._as_labels([*classes], kind, "classes="))]

    def _as_labels(self, labels: list[Any], kind: type | None, name: str) -> list[Any]:
        if not all(isinstance(label, str) for label in labels):
            return labels
        if self.schema is not None and classes_of(self.schema) is not None:
            labels = [canonical_text(label, self.schema.version) for label in labels]  # as labels of the table are
        if kind is None:
            if self.stream.once:
                raise ConfigurationError(
                    f"{name} names labels, and an Arrow stream does not say beforehand of which type labels are: save "
                    "it to a file."
                )
            (kind,) = {type(v) for v in next(iter(self.stream)).y[:1].tolist()}
        if not all(label and fits(label, kind) for label in labels):
            raise ConfigurationError(
                f"{name} names a label that is no {kind.__name__}, as the labels of the table are."
            )
        return list(read_texts(labels, kind))

    def _check_test(self) -> None:
        """Refuse a test table that does not exist or has other columns, before anything is learnt."""
        assert self.test is not None
        if os.fspath(self.test) == "-":
            raise ConfigurationError("test= is read after all rows are learnt, so it has to be a file.")
        form, names, width = nameless_form(self.test), self.stream.feature_names, self.stream.n_features
        with stream_table(
            self.test,
            label=self.label,
            targets=self.targets if form is None else (),
            ignore=self.columns.ignore if names is None else (),
            features=None if form is not None or self.schema is not None else names,
            kinds={"label": str},  # no cell is read
            n_features=width if form == "svmlight" else None,
            schema=self.schema,
            dialect=self.dialect,
        ) as stream:
            if stream.n_features != width:
                raise InputError(
                    f"the table to test with has {stream.n_features} features, and the one to learn {width}."
                )

    # -- the estimator -------------------------------------------------------------------------------------------

    def _new_estimator(self, regression: bool) -> ErasableEstimator:
        """Return an unfitted estimator for the table."""
        given, names = self.parameters, self.stream.feature_names
        if given.get("learner") is not None and given.get("loss") is not None:
            raise ConfigurationError("loss= and learner= each name a head of the model: leave one of them out.")
        if "kernel" in given:
            if self.schema is not None:
                raise ConfigurationError("schema= is for linear models: leave it out, or kernel=.")
            return ErasableKernelClassifier(**given, feature_names=names)
        if "kappa" in given and "horizon" not in given:
            given["horizon"] = self.stream.count_rows()
            if given["horizon"] is None:
                raise ConfigurationError(
                    "standard input does not say how many rows will come, and kappa= names a threshold by it: give "
                    "horizon=, the number of rows you expect, or threshold= instead."
                )
        kind = ErasableRegressor if regression else ErasableClassifier
        if regression and (other := given.keys() - inspect.signature(ErasableRegressor).parameters.keys()):
            raise ConfigurationError(f"{', '.join(sorted(other))}: for classifiers, and this is a regression.")
        columns = {"feature_names": names} if self.schema is None else {"feature_map": self.schema}
        return kind(**given, **columns)

    def _estimator_of(self, model: Model) -> ErasableEstimator:
        """Return the estimator around the model in the file; parameters or columns that differ are refused."""
        given = self.parameters
        if "kernel" in given and not isinstance(model.configuration.selection, KernelPoints):
            raise ConfigurationError("kernel= names a kernel, and the file holds a linear model: leave it out.")
        if model.n_features is None and schema_of(model) is None:
            raise ConfigurationError(
                "the file was made with a map of texts, which no file can hold: learn with Python, as erasable.load "
                "says."
            )
        estimator: ErasableEstimator = estimator_of(model)
        if given.keys() - estimator.get_params().keys():
            raise ConfigurationError(
                "kappa=, horizon=, fit_intercept=, sample_rate= and learner= are for linear models, loss=, alpha=, "
                "head_scaling= and class_weight= for linear classifiers: leave them out here."
            )
        if given.keys() & {"kappa", "horizon"}:
            if "horizon" not in given:
                raise ConfigurationError(
                    "kappa= does not name a threshold without horizon=, and the model has one: leave it out."
                )
            given = {**given, "threshold": None}
        if given:
            stored = estimator.get_params()
            if given.get("loss") == "squared" and "alpha" in stored:
                stored |= {"alpha": None, "head_scaling": None}  # so that the loss is refused, not its regulariser
            type(estimator)(**{**stored, **given}).check_agrees(model)
        self._check_features(model)
        return estimator

    def _check_features(self, model: Model) -> None:
        """Refuse a table with other features than the model."""
        names, found = model.feature_names, self.stream.feature_names
        if names is not None and found is not None and tuple(names) != found:
            difference = compared(found, names) or "has the same in another order"
            raise InputError(
                "the table has other columns of features, or in another order, than the model was made with: it "
                f"{difference}. Name columns that are no features with id=, subject= and ignore=."
            )
        if model.n_features is not None and self.stream.n_features != model.n_features:
            raise InputError(
                f"the table has {self.stream.n_features} features and the model {model.n_features}: name the columns "
                "that are none with id=, subject= and ignore=, or leave them out of the table."
            )
