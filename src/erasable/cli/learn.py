"""``erasable learn``: rows of a table into a model file."""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from erasable.cli._shared import (
    Bars,
    CsvOptions,
    IgnoredColumns,
    Json,
    LabelColumn,
    SchemaPath,
    SubjectColumns,
    TargetColumns,
    TargetRanges,
    Timeout,
    counted,
    encoding_as_json,
    names_in,
    note_doubt,
    print_json,
    ranges_of,
    refuse_options,
    say,
    show_encoding,
    show_scores,
)
from erasable.errors import ConfigurationError

if TYPE_CHECKING:
    from erasable.operations.learn import Columns, TableLearnt
    from erasable.operations.model_file import LearnOptions
    from erasable.operations.new_rows import Suppressed

KeyType = Literal["int", "str"]
LabelType = Literal["int", "str", "float", "bool"]
_TYPES: dict[str, type] = {"int": int, "str": str, "float": float, "bool": bool}
_SECRET = -1  # stands for a key that is still to be drawn


def _key_of_hashes(text: str) -> int:
    if text == "secret":
        return _SECRET
    if not text.isdecimal():
        raise typer.BadParameter("a whole number, zero or more, or the word secret.")
    return int(text)


@dataclass(frozen=True)
class ColumnOptions:
    """The columns of the table: their roles and types."""

    PANEL: ClassVar = "Columns of the table"
    schema: SchemaPath = None
    label: LabelColumn = None
    target: TargetColumns = None
    id: Annotated[
        str | None, typer.Option(help="Column of the row ids. [default: rows are numbered; name ids in production]")
    ] = None
    subject: SubjectColumns = None
    weight: Annotated[
        str | None, typer.Option(help="Column of the weights of rows, 0 to 16, in steps of a sixteenth.")
    ] = None
    ignore: IgnoredColumns = None
    id_type: Annotated[
        KeyType | None,
        typer.Option(
            metavar="TYPE",
            help="Type of ids in CSV: int or str. The default keeps them as they are written: `7`, `07` and `7.0` are "
            "three ids. With int, `7` is a number, as in Parquet, and any other spelling is refused. [default: str]",
        ),
    ] = None
    subject_type: Annotated[
        KeyType | None,
        typer.Option(metavar="TYPE", help="Type of subjects in CSV: int or str, as for ids. [default: str]"),
    ] = None
    label_type: Annotated[
        LabelType | None,
        typer.Option(
            metavar="TYPE",
            help="Type of labels in CSV: int, str, float or bool. [default: int if --schema lists classes that are all "
            "whole numbers; otherwise str, as they are written]",
        ),
    ] = None
    features: Annotated[
        int | None, typer.Option(help="Number of features, for SVMlight. [default: the last one that is not zero]")
    ] = None

    def record(self) -> Columns:
        """Return the columns for the operation."""
        from erasable.operations.learn import Columns

        for role in ("id", "subject"):
            given = None if getattr(self, role) or self.schema else getattr(self, f"{role}_type")
            refuse_options({f"{role}_type": given}, f"is for --{role}, the column: name it, or leave both out")
        types = {"label": self.label_type, "id": self.id_type, "subject": self.subject_type}
        return Columns(
            label=self.label,
            targets=self.target or (),
            id=self.id,
            subject=self.subject,
            weight=self.weight,
            ignore=self.ignore or (),
            schema=self.schema,
            types={role: _TYPES[name] for role, name in types.items() if name is not None},
            n_features=self.features,
        )


@dataclass(frozen=True)
class SelectionOptions:
    """The parameters of the selection."""

    PANEL: ClassVar = "Which rows are stored"
    selection: Annotated[
        Literal["leverage", "independent"] | None,
        typer.Option(
            metavar="SELECTION",
            help="Which rows are stored. leverage: rows unlike those stored before (Algorithm 1); forgetting equals "
            "learning the surviving stored rows. independent: each row by itself, drawn by the hash of its id; "
            "forgetting equals learning all surviving rows. [default: independent if --schema states moments, as "
            "drafts do, and no option of leverage is given, such as --threshold; otherwise leverage]",
        ),
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(
            help="With independent selection: about the share of rows that is stored. [default: as in --schema, or 0.1]"
        ),
    ] = None
    moments: Annotated[
        Path | None,
        typer.Option(
            help="With independent selection: public second moments of the features, in a .npy file; rows that are "
            "unusual by them are stored more often; `erasable moments` makes the file. [default: those that --schema "
            "states; without any, all rows have the same chance]"
        ),
    ] = None
    balance: Annotated[
        float | None,
        typer.Option(
            help="With independent selection: store rows of rare classes more often, 0, 0.5 or 1; needs "
            "--class-share, or shares in --schema. Predictions take it back. [default: 0.5 if shares are known]"
        ),
    ] = None
    class_share: Annotated[
        list[str] | None,
        typer.Option(
            help="The public share of a class, LABEL=SHARE; repeat it for each class. [default: as in --schema]",
            metavar="SHARE",
        ),
    ] = None
    threshold: Annotated[
        float | None,
        typer.Option(
            help="How new a row has to be to be stored; a higher one stores fewer rows, inf only those of "
            "--sample-rate. [default: 0.06 for a linear model, 1 for a kernel]"
        ),
    ] = None
    kappa: Annotated[
        float | None,
        typer.Option(help="Sets the threshold to horizon ** -kappa, as the paper does; 0 to 1, not for kernels."),
    ] = None
    horizon: Annotated[
        int | None, typer.Option(help="With --kappa: rows the model will see in all. [default: rows of the table]")
    ] = None
    sample_rate: Annotated[
        float | None,
        typer.Option(help="Also keep this share of all rows, 0 to 1, by a keyed hash of their ids. [default: 0]"),
    ] = None
    order: Annotated[
        Literal["hashed", "given"] | None,
        typer.Option(
            metavar="ORDER",
            help="The order in which rows are decided: hashed, by a keyed hash of their ids, or given. "
            "[default: hashed]",
        ),
    ] = None
    random_state: Annotated[
        int | None,
        typer.Option(
            parser=_key_of_hashes,
            metavar="KEY",
            help="Key of the hashes, zero or more; `secret` draws one for a new file that senders of rows do not know. "
            "[default: 0, which is public]",
        ),
    ] = None


@dataclass(frozen=True)
class ModelOptions(SelectionOptions):
    """The parameters of the selection and of the head."""

    PANEL: ClassVar = "What is computed from them"
    loss: Annotated[
        Literal["logistic", "squared"] | None,
        typer.Option(
            metavar="LOSS",
            help="What the weights minimise: logistic, or squared, as in the paper: faster, with worse probabilities. "
            "[default: logistic]",
        ),
    ] = None
    alpha: Annotated[
        float | None,
        typer.Option(
            help="The regulariser of the logistic loss. [default: 1 with --head-scaling spread, otherwise 0.1 with "
            "--schema and 0.01 with --scaling]"
        ),
    ] = None
    head_scaling: Annotated[
        Literal["flat", "spread"] | None,
        typer.Option(
            metavar="SCALING",
            help="How the logistic loss regularises columns: flat, all alike, or spread, each by its variance over the "
            "stored rows, for columns of unequal size. [default: flat with --schema, --scaling or more than 1,000 "
            "columns, otherwise spread]",
        ),
    ] = None
    capacity: Annotated[
        float | None,
        typer.Option(
            help="The regulariser; a lower one fits closer and stores a little more. From 1 on it is also the number "
            "of core deletions that the paper's accuracy bound covers; below 1 it covers none. "
            "[default: for a linear model 0.005 (0.001 for --target), 0.02 with --schema or --scaling; 0.1 for a "
            "kernel]"
        ),
    ] = None
    class_weight: Annotated[
        list[str] | None,
        typer.Option(help="`balanced`, or LABEL=WEIGHT; repeat the latter for each class.", metavar="WEIGHT"),
    ] = None
    classes: Annotated[
        str | None,
        typer.Option(
            help="All classes, with commas between them. They never change, and are needed if the table has rows of "
            "only one. [default: those of the stored rows]",
            metavar="LABEL,LABEL,...",
        ),
    ] = None
    target_range: TargetRanges = None
    intercept: Annotated[
        bool | None, typer.Option("--intercept/--no-intercept", help="Append a constant to rows. [default: yes]")
    ] = None
    scaling: Annotated[
        float | None, typer.Option(help="Divide rows by this number. [default: each row by its norm; a kernel's by 1]")
    ] = None
    learner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Train a learner on the stored rows in place of the linear weights: lightgbm, hist_gradient_boosting, "
            "random_forest, extra_trees, sklearn_logistic, sklearn_ridge, xgboost or hessboost. Trees see raw columns.",
        ),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PARAMETER=VALUE",
            help="With --learner: set a parameter of it, such as num_leaves=31. Repeat it for several.",
        ),
    ] = None
    kernel: Annotated[
        str | None, typer.Option(help="A kernel model: rbf, matern, poly or linear. [default: a linear model]")
    ] = None
    gamma: Annotated[float | None, typer.Option(help="Width of the kernel. [default: 1]")] = None

    def parameters(self, out: Path, weight: str | None) -> dict[str, Any]:
        """Return the parameters of the estimator that were given."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if self.random_state == _SECRET:
            refuse_options(
                {"random_state secret": out.exists() or None},
                "is for a new file, and this one has its key: leave it out",
            )
            given["random_state"] = secrets.randbits(128)
        if self.order == "given" and not self.sample_rate:
            refuse_options(
                {"random_state": self.random_state}, "is the key of the hashed order, and --order given has none"
            )
        linear = (
            "kappa",
            "horizon",
            "intercept",
            "loss",
            "alpha",
            "head_scaling",
            "sample_rate",
            "class_weight",
            "learner",
        )
        settings = _settings(given.pop("set", None))
        if self.learner is None:
            refuse_options({"set": self.set}, "is for --learner: name one")
        else:
            given["learner"] = {"learner": self.learner, **settings} if settings else self.learner
        if self.kernel is None:
            refuse_options({"gamma": self.gamma}, "is for kernels: name one with --kernel")
        else:
            wrong = {name: given.get(name) for name in linear} | {"weight": weight}
            refuse_options(wrong, "is for linear models: a kernel has --threshold, or --selection and --rate")
        if self.threshold is not None:
            wrong = {"kappa": self.kappa, "horizon": self.horizon}
            refuse_options(wrong, "names a threshold, and --threshold gives it: leave one out")
        parsed = {
            "fit_intercept": given.pop("intercept", None),
            "classes": names_in(self.classes),
            "class_weight": _class_weights(self.class_weight),
            "target_range": ranges_of(self.target_range) if self.target_range else None,
            "class_shares": _numbers_by_label(
                given.pop("class_share", None), "--class-share must be LABEL=SHARE for each class."
            ),
            "moments": None if self.moments is None else _read_moments(self.moments),
        }
        return given | {name: value for name, value in parsed.items() if value is not None}


@dataclass(frozen=True)
class FileOptions:
    """How rows enter the model file."""

    PANEL: ClassVar = "The model file"
    skip_known: Annotated[
        bool, typer.Option("--skip-known", help="Skip rows whose ids are stored, so that a table can be sent again.")
    ] = False
    replace: Annotated[
        bool, typer.Option("--replace", help="Correct stored rows: forget those with the same ids, then learn these.")
    ] = False
    allow_no_subject: Annotated[
        bool,
        typer.Option(
            "--allow-no-subject", help="Also learn rows without a subject: such rows can only be forgotten by id."
        ),
    ] = False
    mode: Annotated[
        str, typer.Option(help="Permissions of a new model file, in octal; an existing file keeps its own.")
    ] = "600"
    suppressed: Annotated[
        Path | None,
        typer.Option(help="Skip rows of people on this suppression list of the service; needs `--key`."),
    ] = None
    key: Annotated[Path | None, typer.Option(help="The operator's key of that list.")] = None

    def record(self, engine: object) -> LearnOptions:
        """Return the options for the operation."""
        from erasable.operations.model_file import LearnOptions

        try:
            mode = int(self.mode, 8)
        except ValueError:
            raise ConfigurationError("--mode must be permissions in octal digits, such as 640.") from None
        return LearnOptions(
            self.skip_known,
            self.replace,
            self.allow_no_subject,
            mode,
            suppressed=self._listed(),
            engine=engine,
        )

    def _listed(self) -> Suppressed | None:
        """Return the function that finds rows of people on the suppression list."""
        if self.suppressed is None and self.key is None:
            return None
        if self.suppressed is None or self.key is None:
            raise ConfigurationError("--suppressed and --key go together: give both, the list and the operator's key.")
        from erasable.service.suppression import read_list

        return read_list(self.suppressed, self.key).rows_of


@dataclass(frozen=True)
class EngineOptions:
    """Where rows are screened."""

    PANEL: ClassVar = "Where the work is done"
    engine: Annotated[
        Literal["local", "torch", "dask"] | None,
        typer.Option(
            metavar="ENGINE",
            help="Where rows are screened: local, torch (a GPU) or dask (a cluster). The model is the same. "
            "[default: in this process, block by block]",
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="With --engine dask: the address of a scheduler, such as tcp://10.0.0.1:8786. "
            "[default: a cluster on this machine]",
            metavar="ADDRESS",
        ),
    ] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --engine local or dask: the number of processes on this machine.")
    ] = None

    def opened(self) -> AbstractContextManager[Any]:
        """Return the engine, to be closed afterwards."""
        if self.engine != "dask":
            refuse_options({"scheduler": self.scheduler}, "is for --engine dask: name that, or leave it out")
        if self.engine in (None, "torch"):
            refuse_options(
                {"workers": self.workers}, "is for --engine local and --engine dask: name one, or leave it out"
            )
        if self.engine is None:
            return nullcontext()
        from erasable.engines import Dask, Local, Torch

        if self.engine == "dask":
            return Dask(self.scheduler, workers=self.workers)
        return Torch() if self.engine == "torch" else Local(processes=self.workers)


@dataclass(frozen=True)
class ScoreOptions:
    """Whether and how the model is scored."""

    PANEL: ClassVar = "Scores"
    test: Annotated[
        Path | None,
        typer.Option(help="A table of the same columns: report how well the model predicts it.", readable=False),
    ] = None
    score: Annotated[
        bool, typer.Option("--score/--no-score", help="Predict some rows before they are learnt, and report how well.")
    ] = True


Data = Annotated[
    list[str],
    typer.Argument(
        help="The table: .parquet, .csv, .npz, .svmlight (text also with .gz, .bz2, .zst), or several .csv or several "
        ".parquet, or a pattern of names; a folder or a URL of .parquet; or `-` for CSV or an Arrow stream on standard "
        "input."
    ),
]
Out = Annotated[
    Path,
    typer.Option("-o", "--out", help="The model file. If it exists, the rows are added to its model.", readable=False),
]


def learn(
    data: Data,
    out: Out,
    columns: ColumnOptions,
    csv: CsvOptions,
    model: ModelOptions,
    file: FileOptions,
    engine: EngineOptions,
    scoring: ScoreOptions,
    timeout: Timeout = 60,
    as_json: Json = False,
) -> None:
    """Learn the rows of a table. Only a small core set of rows is stored; nothing is kept of the others.

    Rows are decided in the order of a keyed hash of their ids, so the order of the table does not matter. A table may
    be larger than memory: it is then read at least twice, so it cannot come from standard input. The file is written
    once, at the end: all rows are learnt or none. If the file exists, options may be left out; those that are given
    must agree with it. Rows of several files come in the order of the command line, those of a pattern sorted by path;
    that matters for the numbers of rows without ids, and with `--order given`.

    A row whose id is stored is refused, unless `--skip-known` or `--replace` is given. Rows that were offered before
    and not kept left no trace, so they are decided again.

    For example:

    - `erasable learn data.parquet --label churned --id row_id --subject user_id -o model.erasable`

    - `erasable learn raw.csv --schema schema.toml -o model.erasable`

    - `erasable learn "visits-*.csv.gz" --sep ";" --decimal , --label churned --id row_id -o model.erasable`

    - `erasable learn corrected.csv --replace --label churned --id row_id -o model.erasable`

    - `cat more.csv | erasable learn - --label churned --id row_id -o model.erasable`

    - `erasable learn data.csv --id row_id --selection independent --rate 0.1 -o model.erasable`

    - `erasable learn raw.csv --schema schema.toml --learner lightgbm --set num_leaves=15 -o model.erasable`

    - `erasable learn homes.csv --target price --target-range 0:1000000 --id home -o prices.erasable`

    - `erasable learn "s3://visits/*.parquet" --engine dask --scheduler tcp://10.0.0.1:8786 --id row_id -o m.erasable`
    """
    from erasable.operations.learn import learn_table

    with engine.opened() as where, Bars(quiet=as_json) as bars:
        done = learn_table(
            out,
            data,
            columns.record(),
            parameters=model.parameters(out, columns.weight),
            options=file.record(where),
            dialect=csv.dialect,
            test=scoring.test,
            score=scoring.score,
            timeout=timeout,
            watch=bars.tick,
        )
    note_doubt(out)
    _show(out, done, scoring.test, rounds=engine.engine is not None, as_json=as_json)


def _show(out: Path, done: TableLearnt, test: Path | None, *, rounds: bool, as_json: bool) -> None:
    """Print the result."""
    from erasable.cli.app import as_options

    report = done.report
    hints, warned = [as_options(text) for text in done.hints], [as_options(text) for text in done.warnings]
    warned += done.test.warnings if done.test is not None else ()
    if as_json:
        counts = "rows", "core_rows_added", "core_rows", "rows_known", "rows_replaced", "rows_suppressed"
        result: dict[str, Any] = {"model": str(out), **{name: getattr(report, name) for name in counts}}
        result["bytes"] = done.bytes
        if report.rate is not None:
            result |= {name: getattr(report, name) for name in ("rate", "share", "share_text")}
        for name, scores in (("score", done.score), ("test", done.test)):
            result[name] = None if scores is None else scores.as_json()
        if done.encoding is not None:
            result["encoding"] = encoding_as_json(done.encoding)
        if rounds:
            result["rounds"] = [vars(one) for one in report.rounds]
        print_json({**result, "warnings": [*warned, *hints]})
        return
    share = f" ({report.core_rows_added / report.rows:.1%})" if report.rows else ""
    rest = ", the others left no trace" if report.core_rows_added < report.rows else ""
    say(f"{counted(report.rows, 'row')} learnt; {report.core_rows_added:,}{share} became core rows{rest}.")
    if report.share_text is not None:
        say(report.share_text)
    for k, one in enumerate(report.rounds if rounds else (), 1):
        say(
            f"Round {k}: {one.rows:,} rows screened in {one.screening_seconds:.1f} s, {one.survivors:,} survived, "
            f"{one.core_rows_added:,} of them kept in {one.deciding_seconds:.1f} s; {one.bytes_moved / 1e6:,.1f} MB "
            f"moved, {one.driver_seconds:.1f} s of this processor."
        )
    for many, text in (
        (report.rows_known, "more rows were passed over: rows with their ids are stored already."),
        (report.rows_suppressed, "more rows were passed over: they are those of people on the list."),
        (report.rows_replaced, "stored rows with ids of these were forgotten first."),
        (report.rows_without_weight, "of these rows have a weight that rounds to zero, and were left out."),
    ):
        if many:
            say(f"{many:,} {text}")
    say(f"{out} holds {counted(report.core_rows, 'core row')} in {done.bytes:,} bytes.")
    if done.score is not None:
        say(f"Before they were learnt, {done.score.rows:,} of the last rows were predicted: {done.score.line}.")
    if done.encoding is not None:
        show_encoding(done.encoding)
    if done.test is not None:
        show_scores(done.test, title=f"{done.test.rows:,} rows of {test}")
    for text in warned:
        say(f"warning: {text}", aside=True)
    for text in hints:
        say(f"hint: {text}", aside=True)


def _class_weights(given: list[str] | None) -> str | dict[str, float] | None:
    """Parse ``--class-weight``: the word balanced, or labels with their weights."""
    if given == ["balanced"]:
        return "balanced"
    return _numbers_by_label(given, "--class-weight must be balanced, once, or LABEL=WEIGHT for each class.")


def _numbers_by_label(given: list[str] | None, advice: str) -> dict[str, float] | None:
    """Parse an option that is repeated for each class, with a number after the label."""
    if not given:
        return None
    numbers = {}
    for text in given:
        label, equals, number = text.rpartition("=")
        try:
            numbers[label] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise ConfigurationError(advice)
    if len(numbers) < len(given):
        raise ConfigurationError(f"{advice.split()[0]} names a class twice: give each once.")
    return numbers


def _settings(given: list[str] | None) -> dict[str, Any]:
    """Parse ``--set``: numbers, true, false and none are read as such, anything else as a word."""
    found: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value) or name in found:
            raise ConfigurationError("--set must be PARAMETER=VALUE, once for each parameter.")
        found[name] = _plain_value(value)
    return found


def _plain_value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _read_moments(path: Path) -> Any:
    """Read the array in a .npy file."""
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        raise ConfigurationError("--moments must be a .npy file, as numpy.save writes it.") from None
