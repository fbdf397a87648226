"""``erasable learn``: rows of a table into a model file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from erasable.cli._shared import Bars, Json, Timeout, note_doubt, print_json, say

KeyType = Literal["int", "str"]
LabelType = Literal["int", "str", "float", "bool"]
_TYPES: dict[str, type] = {"int": int, "str": str, "float": float, "bool": bool}
_TYPED = "--id-type, --subject-type and --label-type are for CSV: this table has types of its own, leave them out."
_SIGNS = (
    "there is one feature, and each row is divided by its own norm, so only the sign of the feature is left: give "
    "--scale, a public number that no value exceeds"
)

if TYPE_CHECKING:
    from erasable.datasets import TableStream
    from erasable.estimators import LearnReport


def learn(
    data: Annotated[
        str,
        typer.Argument(
            help="The table: .parquet, .csv, .npz, .svmlight; or `-` for CSV or an Arrow stream on standard input.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", help="The model file. One that is there learns more.", show_default=False, readable=False
        ),
    ],
    label: Annotated[str, typer.Option(help="Column of the labels.")] = "label",
    id: Annotated[
        str | None, typer.Option(help="Column of the row ids. [default: rows are numbered; name them in earnest use]")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="Column that says whose row it is.")] = None,
    allow_no_subject: Annotated[
        bool, typer.Option("--allow-no-subject", help="Learn rows that lack a subject, too: by id alone they can go.")
    ] = False,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="Column that is no feature; may be given again.", metavar="COLUMN", show_default=False),
    ] = None,
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
    capacity: Annotated[
        float | None,
        typer.Option(
            help="The regulariser, and how many core deletions the bounds are made for. "
            "[default: 1 for a linear model, 0.1 for a kernel]"
        ),
    ] = None,
    kappa: Annotated[
        float | None, typer.Option(help="How much a linear model stores, 0 to 1; not for kernels. [default: 0.2]")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="The threshold itself, instead of kappa; a higher one stores fewer rows. "
            "[default: rows ** -kappa for a linear model, 1 for a kernel]"
        ),
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Rows the model will see in all. [default: rows of the table]")
    ] = None,
    intercept: Annotated[
        bool | None, typer.Option("--intercept/--no-intercept", help="Append a constant to rows. [default: yes]")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="A kernel model: rbf, matern, poly or linear. [default: a linear model]")
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Width of the kernel. [default: 1]")] = None,
    scale: Annotated[
        float | None, typer.Option(help="Divide rows by this number. [default: each row by its norm; a kernel's by 1]")
    ] = None,
    mode: Annotated[
        str, typer.Option(help="Permissions of a new model file, in octal; one that is there keeps its own.")
    ] = "600",
    timeout: Timeout = 60,
    as_json: Json = False,
) -> None:
    """Learn the rows of a table. Only a small core set of them is stored, and of the others nothing.

    The table may be larger than memory: one block of it is held at a time. The file is written once, at the end: all
    rows are learnt or none. On a file that is there already, options only need to be given where they must agree.

    For example:

    - `erasable learn data.parquet --label churned --id row_id --subject user_id -o model.erasable`

    - `cat more.csv | erasable learn - --label churned --id row_id -o model.erasable`

    - `erasable learn data.csv --kernel rbf --gamma 0.5 --scale 10 -o curved.erasable`

    - `erasable learn data.csv --id row_id --id-type str --label-type int -o model.erasable`
    """
    from erasable.datasets import stream_table
    from erasable.errors import ConfigurationError
    from erasable.operations.files import ModelFile
    from erasable.operations.inspect import stored_bytes

    file, permissions = ModelFile(out, timeout=timeout), _permissions(mode)
    there = out.exists()
    options: dict[str, Any] = {"capacity": capacity, "threshold": threshold, "scaling": scale}
    if kernel is None:
        options |= {"kappa": kappa, "horizon": horizon, "fit_intercept": intercept}
        _refuse({"--gamma": gamma}, "is for kernels: name one with --kernel")
    else:
        options |= {"kernel": kernel, "gamma": gamma}
        wrong = {"--kappa": kappa, "--horizon": horizon, "--intercept": intercept}
        _refuse(wrong, "is for linear models: a kernel has --threshold")
    given = {name: value for name, value in options.items() if value is not None}
    if threshold is not None:
        _refuse({"--kappa": kappa, "--horizon": horizon}, "names a threshold, and --threshold gives it: leave one out")
    _refuse({"--id-type": None if id else id_type}, "is for --id, the column of ids: name it, or leave both out")
    _refuse({"--subject-type": None if subject else subject_type}, "is for --subject: name it, or leave both out")
    if there and subject is None and not allow_no_subject and file.key_types()[1] is not None:
        raise ConfigurationError(
            "rows of this model have subjects, and without --subject no erasure by subject could reach these: name the "
            "column, or allow it with --allow-no-subject."
        )
    types = {"label": label_type, "id": id_type, "subject": subject_type}
    named = {role: _TYPES[t] for role, t in types.items() if t is not None}
    kinds, width = (_kinds(file), _width(file, data)) if there else ({}, features)
    _check_types(kinds, named, width, features)
    with (
        stream_table(
            data, label=label, id=id, subject=subject, ignore=ignore or (), kinds=kinds | named, n_features=width
        ) as stream,
        Bars(quiet=as_json) as bars,
    ):
        if named and stream.typed:
            raise ConfigurationError(_TYPED)
        total = stream.n_rows
        if there:
            new = _agreeing(file, given, kernel, stream)
        else:
            if kernel is None and threshold is None and horizon is None:
                total = stream.count_rows()
                given["horizon"] = _horizon(total)
            new = _model(kernel, {**given, "feature_names": stream.feature_names})
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "there is one feature")  # said below, in the words of the options
            report = file.learn(
                stream,
                new=new,
                allow_no_subject=allow_no_subject,
                progress=lambda done: bars.tick("learning", done, total or done),
                mode=permissions,
            )
        signs = [_SIGNS] if not there and new.scaling == "row" and stream.n_features == 1 else []
    note_doubt(out)
    size, hints = stored_bytes(out), [*signs, *_hints(report, new, there)]
    if as_json:
        rows = {"rows": report.rows, "core_rows_added": report.core_rows_added, "core_rows": report.core_rows}
        print_json({"model": str(out), **rows, "bytes": size, "warnings": hints})
        return
    share = f" ({report.core_rows_added / report.rows:.1%})" if report.rows else ""
    say(f"{report.rows:,} rows learnt; {report.core_rows_added:,}{share} became core rows, the others left no trace.")
    say(f"{out} holds {report.core_rows:,} core rows in {size:,} bytes.")
    for hint in hints:
        say(f"hint: {hint}", aside=True)


def _hints(report: LearnReport, model: Any, there: bool) -> list[str]:
    """What to change where most rows were stored, unless that was asked for."""
    if report.rows < 1000 or 2 * report.core_rows_added <= report.rows or getattr(model, "threshold", None) == 0:
        return []
    way = (
        "give --scale, a smaller --gamma or a higher --threshold"
        if hasattr(model, "gamma")
        else "a lower --kappa or a higher --threshold stores fewer (erasable plan tries them out)"
    )
    return [f"more than half of the rows are stored: {way}" + ("; that takes a new model file" if there else "")]


def _permissions(mode: str) -> int:
    from erasable.errors import ConfigurationError
    from erasable.store import check_mode

    try:
        permissions = int(mode, 8)
    except ValueError:
        raise ConfigurationError("--mode must be permissions in octal digits, such as 640.") from None
    check_mode(permissions)
    return permissions


def _refuse(options: dict[str, Any], why: str) -> None:
    from erasable.errors import ConfigurationError

    for name, value in options.items():
        if value is not None:
            raise ConfigurationError(f"{name} {why}.")


def _kinds(file: Any) -> dict[str, type]:
    """Of which type labels, ids and subjects of the model are: a few rows of text alone could not tell."""
    label = next((type(c.item() if hasattr(c, "item") else c) for c in file.model.classes_), None)
    known = dict(zip(("label", "id", "subject"), (label, *file.key_types()), strict=True))
    allowed = {"label": (bool, int, float, str), "id": (int, str), "subject": (int, str)}
    return {role: kind for role, kind in known.items() if kind in allowed[role]}


def _check_types(known: dict[str, type], named: dict[str, type], width: int | None, features: int | None) -> None:
    """Refuse types, or a number of features, that differ from those of the model."""
    from erasable.errors import ConfigurationError

    for role, kind in named.items():
        if known.get(role, kind) is not kind:
            raise ConfigurationError(
                f"--{role}-type says {kind.__name__}, and the model's are {known[role].__name__}: leave it out."
            )
    if features is not None and width is not None and features != width:
        raise ConfigurationError(f"--features says {features}, and the model has {width}: leave it out.")


def _width(file: Any, data: str) -> int | None:
    """The number of features for a table whose rows do not say it: the last ones may be zero in all of them."""
    from erasable.operations.predict import nameless_form

    return getattr(file.model, "n_features_in_", None) if nameless_form(data) == "svmlight" else None


def _horizon(rows: int | None) -> int:
    from erasable.errors import ConfigurationError

    if rows is None:
        raise ConfigurationError(
            "standard input does not say how many rows will come, and the threshold depends on it: give --horizon, the "
            "number of rows you expect, or --threshold."
        )
    return rows


def _model(kernel: str | None, options: dict[str, Any]) -> Any:
    from erasable import ErasableClassifier, ErasableKernelClassifier

    return ErasableClassifier(**options) if kernel is None else ErasableKernelClassifier(**options)


def _agreeing(file: Any, given: dict[str, Any], kernel: str | None, stream: TableStream) -> Any:
    """A model like that in the file; options or columns that differ from those it was made with are refused."""
    from sklearn.base import clone

    from erasable import ErasableKernelClassifier
    from erasable.errors import ConfigurationError, InputError

    model = file.model
    if kernel is not None and not isinstance(model, ErasableKernelClassifier):
        raise ConfigurationError("--kernel names a kernel, and the file holds a linear model: leave it out.")
    if not hasattr(model, "n_features_in_"):
        raise ConfigurationError(
            "the file was made with a map of texts, which no file can hold: learn with Python, as erasable.load says."
        )
    if given.keys() - model.get_params().keys():
        raise ConfigurationError("--kappa, --horizon and --intercept are for linear models: leave them out here.")
    if given.keys() & {"kappa", "horizon"}:
        if "horizon" not in given:
            raise ConfigurationError(
                "--kappa does not name a threshold without --horizon, and the model has one: leave it out."
            )
        given = {**given, "threshold": None}
    if given:
        model.set_params(**given)
        model._check_unchanged(model._memory, None)
    names = model.feature_names if hasattr(model, "feature_names") else None
    if names is not None and stream.feature_names is not None and tuple(names) != stream.feature_names:
        raise InputError(
            "the table has other columns of features, or in another order, than the model was made with: "
            "erasable inspect shows their names."
        )
    if stream.n_features != model.n_features_in_:
        raise InputError(
            f"the table has {stream.n_features} features and the model {model.n_features_in_}: name the columns that "
            "are none with --id and --subject, or leave them out of the table."
        )
    return clone(file.model)
