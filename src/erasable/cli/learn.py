"""``erasable learn``: rows of a table into a model file."""

from __future__ import annotations

import secrets
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from erasable.cli._shared import (
    Bars,
    ColumnNames,
    Decimal,
    Encoding,
    Header,
    IgnoredColumns,
    Json,
    LabelColumn,
    SchemaPath,
    Sep,
    SubjectColumns,
    TargetColumns,
    TargetRanges,
    Thousands,
    Timeout,
    counted,
    dialect_of,
    names_in,
    note_doubt,
    print_json,
    ranges_of,
    say,
    show_scores,
)
from erasable.errors import ConfigurationError

KeyType = Literal["int", "str"]
Order = Literal["hashed", "given"]
Loss = Literal["squared", "logistic"]
LabelType = Literal["int", "str", "float", "bool"]
Engine = Literal["local", "torch", "dask"]
_TYPES: dict[str | None, type | None] = {None: None, "int": int, "str": str, "float": float, "bool": bool}
_SECRET = -1  # a key that is to be drawn


def _key_of_hashes(text: str) -> int:
    if text == "secret":
        return _SECRET
    if not text.isdecimal():
        raise typer.BadParameter("a whole number, zero or more, or the word secret.")
    return int(text)


def learn(
    data: Annotated[
        list[str],
        typer.Argument(
            help="The table: .parquet, .csv, .npz, .svmlight (text also with .gz, .bz2, .zst), or several .csv or "
            "several .parquet, or a pattern of names; a folder or a URL of .parquet; or `-` for CSV or an Arrow stream "
            "on standard input."
        ),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="The model file. One that is there learns more.", readable=False)
    ],
    schema: SchemaPath = None,
    label: LabelColumn = None,
    target: TargetColumns = None,
    target_range: TargetRanges = None,
    id: Annotated[
        str | None, typer.Option(help="Column of the row ids. [default: rows are numbered; name them in earnest use]")
    ] = None,
    subject: SubjectColumns = None,
    weight: Annotated[
        str | None, typer.Option(help="Column that says how much a row counts, 0 to 16, in sixteenths.")
    ] = None,
    skip_known: Annotated[
        bool,
        typer.Option("--skip-known", help="Pass over rows whose ids are stored, so that a table can be sent again."),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Correct stored rows: forget those with the same ids, then learn these.")
    ] = False,
    allow_no_subject: Annotated[
        bool, typer.Option("--allow-no-subject", help="Learn rows that lack a subject, too: by id alone they can go.")
    ] = False,
    ignore: IgnoredColumns = None,
    id_type: Annotated[
        KeyType | None,
        typer.Option(metavar="TYPE", help="What ids in CSV are: int or str. [default: int if all in the table are]"),
    ] = None,
    subject_type: Annotated[
        KeyType | None, typer.Option(metavar="TYPE", help="What subjects in CSV are: int or str.")
    ] = None,
    label_type: Annotated[
        LabelType | None, typer.Option(metavar="TYPE", help="What labels in CSV are: int, str, float or bool.")
    ] = None,
    features: Annotated[
        int | None, typer.Option(help="Number of features, for SVMlight. [default: the last one that is not zero]")
    ] = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    header: Header = None,
    columns: ColumnNames = None,
    capacity: Annotated[
        float | None,
        typer.Option(
            help="The regulariser; lower fits closer and stores a little more. From 1 on it is also how many core "
            "deletions the paper's accuracy bound covers; below 1, none. "
            "[default: 0.02 for a linear model, 0.1 for a kernel]"
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="How new a row has to be to be stored; a higher one stores fewer rows, inf none but those of "
            "--sample-rate. [default: 0.06 for a linear model, 1 for a kernel]"
        ),
    ] = None,
    kappa: Annotated[
        float | None,
        typer.Option(help="Names the threshold horizon ** -kappa instead, as the paper does, 0 to 1; not for kernels."),
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="With --kappa: rows the model will see in all. [default: rows of the table]")
    ] = None,
    intercept: Annotated[
        bool | None, typer.Option("--intercept/--no-intercept", help="Append a constant to rows. [default: yes]")
    ] = None,
    sample_rate: Annotated[
        float | None,
        typer.Option(help="Also keep this share of all rows, 0 to 1, by a keyed hash of their ids. [default: 0]"),
    ] = None,
    loss: Annotated[
        Loss | None,
        typer.Option(metavar="LOSS", help="What the weights minimise: squared or logistic. [default: squared]"),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="The regulariser of the logistic loss. [default: the capacity]")
    ] = None,
    class_weight: Annotated[
        list[str] | None,
        typer.Option(help="`balanced`, or LABEL=WEIGHT; the latter may be given again.", metavar="WEIGHT"),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="All classes, with commas between them, fixed for good: needed where the table has rows of one alone. "
            "[default: those of the stored rows]",
            metavar="LABEL,LABEL,...",
        ),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="A kernel model: rbf, matern, poly or linear. [default: a linear model]")
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Width of the kernel. [default: 1]")] = None,
    scaling: Annotated[
        float | None, typer.Option(help="Divide rows by this number. [default: each row by its norm; a kernel's by 1]")
    ] = None,
    order: Annotated[
        Order | None,
        typer.Option(
            metavar="ORDER",
            help="In which order rows are decided: hashed, by a keyed hash of their ids, or given. [default: hashed]",
        ),
    ] = None,
    random_state: Annotated[
        int | None,
        typer.Option(
            parser=_key_of_hashes,
            metavar="KEY",
            help="Key of the hashes, zero or more; `secret` draws one for a new file, which those who send you rows do "
            "not know. [default: 0, which everybody knows]",
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(help="A table of the same columns: say how well the model predicts it.", readable=False),
    ] = None,
    score: Annotated[
        bool, typer.Option("--score/--no-score", help="Predict some rows before they are learnt, and say how well.")
    ] = True,
    engine: Annotated[
        Engine | None,
        typer.Option(
            metavar="ENGINE",
            help="Where rows are screened: local, torch (a GPU) or dask (a cluster). The model is the same. "
            "[default: here, block by block]",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="With --engine dask: the address of a scheduler, such as tcp://10.0.0.1:8786. "
            "[default: a cluster on this machine]",
            metavar="ADDRESS",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --engine local or dask: so many processes of this machine.")
    ] = None,
    mode: Annotated[
        str, typer.Option(help="Permissions of a new model file, in octal; one that is there keeps its own.")
    ] = "600",
    suppressed: Annotated[
        Path | None,
        typer.Option(help="Pass over rows of people on this suppression list of the service; needs `--key`."),
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The operator's key of that list.")] = None,
    timeout: Timeout = 60,
    as_json: Json = False,
) -> None:
    """Learn the rows of a table. Only a small core set of them is stored, and of the others nothing.

    Rows are decided in the order of a keyed hash of their ids, so that the order of the table does not matter. A table
    may be larger than memory: it is then read twice or more, which standard input cannot be. The file is written once,
    at the end: all rows are learnt or none. On a file that is there already, options only need to be given where they
    must agree. Rows of several files come in the order of the command line, those of a pattern sorted by path; that
    matters for the numbers of rows without ids, and with `--order given`.

    A row whose id is stored is refused, unless `--skip-known` or `--replace` says what to do with it. Rows that were
    offered before and not kept left no trace, so they are decided again with either.

    For example:

    - `erasable learn data.parquet --label churned --id row_id --subject user_id -o model.erasable`

    - `erasable learn raw.csv --schema schema.toml --loss logistic -o model.erasable`

    - `erasable learn "visits-*.csv.gz" --sep ";" --decimal , --label churned --id row_id -o model.erasable`

    - `erasable learn corrected.csv --replace --label churned --id row_id -o model.erasable`

    - `cat more.csv | erasable learn - --label churned --id row_id -o model.erasable`

    - `erasable learn data.csv --kernel rbf --gamma 0.5 --scaling 10 -o curved.erasable`

    - `erasable learn data.csv --loss logistic --alpha 0.1 --class-weight balanced -o rare.erasable`

    - `erasable learn homes.csv --target price --target-range 0:1000000 --id home -o prices.erasable`

    - `erasable learn data.csv --id row_id --id-type str --label-type int -o model.erasable`

    - `erasable learn submissions.csv --id chosen_by_senders --random-state secret -o model.erasable`

    - `erasable learn "s3://visits/*.parquet" --engine dask --scheduler tcp://10.0.0.1:8786 --id row_id -o m.erasable`
    """
    from erasable.cli._exits import as_options
    from erasable.cli.schema import report_as_json, show_report
    from erasable.operations.learn import learn_table

    options: dict[str, Any] = {"capacity": capacity, "threshold": threshold, "scaling": scaling}
    if random_state == _SECRET:
        _refuse(
            {"--random-state secret": out.exists() or None}, "is for a new file, and this one has its key: leave it out"
        )
        random_state = secrets.randbits(128)
    options |= {"order": order, "random_state": random_state}
    if order == "given" and not sample_rate:
        _refuse({"--random-state": random_state}, "is the key of the hashed order, and --order given has none")
    options["classes"] = names_in(classes)
    if target_range:
        options["target_range"] = ranges_of(target_range)
    heads: dict[str, Any] = {"loss": loss, "alpha": alpha, "sample_rate": sample_rate}
    heads["class_weight"] = _class_weights(class_weight)
    if kernel is None:
        options |= {"kappa": kappa, "horizon": horizon, "fit_intercept": intercept, **heads}
        _refuse({"--gamma": gamma}, "is for kernels: name one with --kernel")
    else:
        options |= {"gamma": gamma}
        wrong = {"--kappa": kappa, "--horizon": horizon, "--intercept": intercept, "--weight": weight}
        wrong |= {f"--{name.replace('_', '-')}": value for name, value in heads.items()}
        _refuse(wrong, "is for linear models: a kernel has --threshold")
    if threshold is not None:
        _refuse({"--kappa": kappa, "--horizon": horizon}, "names a threshold, and --threshold gives it: leave one out")
    _refuse(
        {"--id-type": None if id or schema else id_type}, "is for --id, the column of ids: name it, or leave both out"
    )
    _refuse(
        {"--subject-type": None if subject or schema else subject_type}, "is for --subject: name it, or leave both out"
    )
    listed = _suppressed(suppressed, key)
    with _chosen(engine, scheduler, workers) as chosen, Bars(quiet=as_json) as bars:
        done = learn_table(
            out,
            data,
            label=label,
            targets=target or (),
            id=id,
            subject=subject,
            weight=weight,
            ignore=ignore or (),
            schema=schema,
            label_type=_TYPES[label_type],
            id_type=_TYPES[id_type],
            subject_type=_TYPES[subject_type],
            n_features=features,
            kernel=kernel,
            parameters={name: value for name, value in options.items() if value is not None},
            dialect=dialect_of(sep, encoding, decimal, thousands, header, columns),
            skip_known=skip_known,
            replace=replace,
            allow_no_subject=allow_no_subject,
            test=test,
            score=score,
            timeout=timeout,
            mode=_permissions(mode),
            progress=bars.of("learning"),
            reading=bars.of("reading"),
            suppressed=listed,
            engine=chosen,
        )
    note_doubt(out)
    report, hints, warned = done.report, *([as_options(line) for line in said] for said in (done.hints, done.warnings))
    warned += done.test.warnings if done.test is not None else ()
    if as_json:
        counts = "rows", "core_rows_added", "core_rows", "rows_known", "rows_replaced", "rows_suppressed"
        rows = {name: getattr(report, name) for name in counts}
        scores = {"score": done.score, "test": done.test}
        figures = {name: None if found is None else found.as_json() for name, found in scores.items()}
        cells = {} if done.encoding is None else {"encoding": report_as_json(done.encoding)}
        rounds = {} if engine is None else {"rounds": [vars(one) for one in report.rounds]}
        told = {**rows, "bytes": done.bytes, **figures, **cells, **rounds, "warnings": [*warned, *hints]}
        print_json({"model": str(out), **told})
        return
    share = f" ({report.core_rows_added / report.rows:.1%})" if report.rows else ""
    rest = ", the others left no trace" if report.core_rows_added < report.rows else ""
    say(f"{counted(report.rows, 'row')} learnt; {report.core_rows_added:,}{share} became core rows{rest}.")
    for k, one in enumerate(report.rounds if engine is not None else (), 1):
        say(
            f"Round {k}: {one.rows:,} rows screened in {one.screening_seconds:.1f} s, {one.survivors:,} survived, "
            f"{one.core_rows_added:,} of them kept in {one.deciding_seconds:.1f} s; {one.bytes_moved / 1e6:,.1f} MB "
            f"moved, {one.driver_seconds:.1f} s of this processor."
        )
    if report.rows_known:
        say(f"{report.rows_known:,} more rows were passed over: rows with their ids are stored already.")
    if report.rows_suppressed:
        say(f"{report.rows_suppressed:,} more rows were passed over: they are those of people on the list.")
    if report.rows_replaced:
        say(f"{report.rows_replaced:,} stored rows with ids of these were forgotten first.")
    if report.rows_without_weight:
        say(f"{report.rows_without_weight:,} of these rows have a weight that rounds to zero, and were left out.")
    say(f"{out} holds {counted(report.core_rows, 'core row')} in {done.bytes:,} bytes.")
    if done.score is not None:
        say(f"Before they were learnt, {done.score.rows:,} of the last rows were predicted: {done.score.line}.")
    if done.encoding is not None:
        show_report(done.encoding)
    if done.test is not None:
        show_scores(done.test, title=f"{done.test.rows:,} rows of {test}")
    for warning in warned:
        say(f"warning: {warning}", aside=True)
    for hint in hints:
        say(f"hint: {hint}", aside=True)


def _suppressed(path: Path | None, key: Path | None) -> Any:
    """Which rows of a block are those of people on a list."""
    if path is None and key is None:
        return None
    if path is None or key is None:
        raise ConfigurationError("--suppressed and --key go together: give both, the list and the operator's key.")
    from erasable.service.suppression import read_list

    return read_list(path, key).rows_of


def _chosen(engine: str | None, scheduler: str | None, workers: int | None) -> Any:
    """The engine that is asked for, to be closed afterwards."""
    if engine != "dask":
        _refuse({"--scheduler": scheduler}, "is for --engine dask: name that, or leave it out")
    if engine is None or engine == "torch":
        _refuse({"--workers": workers}, "is for --engine local and --engine dask: name one, or leave it out")
    if engine is None:
        return nullcontext()
    from erasable.engines import Dask, Local, Torch

    if engine == "dask":
        return Dask(scheduler, workers=workers)
    return Torch() if engine == "torch" else Local(processes=workers)


def _permissions(mode: str) -> int:
    from erasable.store import check_mode

    try:
        permissions = int(mode, 8)
    except ValueError:
        raise ConfigurationError("--mode must be permissions in octal digits, such as 640.") from None
    check_mode(permissions)
    return permissions


def _class_weights(given: list[str] | None) -> str | dict[str, float] | None:
    """``--class-weight`` as it was given: a word, or texts of labels with numbers."""
    if not given:
        return None
    if given == ["balanced"]:
        return "balanced"
    weights = {}
    for text in given:
        label, equals, number = text.rpartition("=")
        try:
            weights[label] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise ConfigurationError("--class-weight must be balanced, once, or LABEL=WEIGHT for each class.")
    if len(weights) < len(given):
        raise ConfigurationError("--class-weight names a class twice: give each once.")
    return weights


def _refuse(options: dict[str, Any], why: str) -> None:

    for name, value in options.items():
        if value is not None:
            raise ConfigurationError(f"{name} {why}.")
