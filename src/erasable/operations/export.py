"""Write the weights of a linear model for other programs, stamped with the digest of their state."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from erasable import store
from erasable.core.layout import read_json, read_meta
from erasable.errors import ChangedMeanwhileError, ConfigurationError, InputTypeError, NoRowsError, StateFormatError
from erasable.features import LogFeatures
from erasable.models.files import read_header
from erasable.models.heads import Learner, Logistic
from erasable.models.heads.linear import LinearHead
from erasable.models.model import is_model, model_behind
from erasable.operations.onnx_graph import STAMP, Linear, graph_file
from erasable.operations.schemas import schema_of, write_schema
from erasable.schemas import Schema
from erasable.validation import optional_module

FORMS = {".onnx": "onnx", ".safetensors": "safetensors"}
INPUTS = ("float32", "float64")  # the first is the default: what ONNX runtimes and converters pass around
_ONNX_START = b"\x08"  # the tag of the first field, ir_version


@dataclass(frozen=True)
class ExportReport:
    """The file that was written."""

    path: str
    form: str  # ``"onnx"`` or ``"safetensors"``
    digest: str  # the state digest in the file
    bytes: int  # the size of the file
    # The file with the schema, if the model has one: the weights act on the columns that it encodes.
    schema: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The report for JSON; without an entry about a schema if there is none."""
        return {name: value for name, value in asdict(self).items() if name != "schema" or value is not None}


def export(
    clf: object,
    path: str | os.PathLike[str],
    *,
    form: str | None = None,
    input_type: str | None = None,
    timeout: float | None = None,
) -> ExportReport:
    """Write the weights of a linear model for other programs, stamped with the state digest.

    An export is a copy: rows that are forgotten later are not forgotten in it. After ``forget``, export again to the
    same path: the old file is overwritten, as far as the file system allows. The same state gives the same bytes, with
    the same versions of ``erasable`` and ``onnx``. ``docs/commands.md`` describes the files.

    The export of a model with a schema takes encoded rows, not raw columns. The schema is written next to it, as
    ``PATH.toml``: ``TableEncoder(Schema.load(...), sparse_output=False).transform(table)`` makes such rows.

    Raises InputTypeError or NoRowsError when the model is not linear, or has no rows and so no weights. Raises
    ConfigurationError when an option does not apply, ``onnx`` is not installed, or another file exists at the path.
    Raises StoreError when the file cannot be written; the old one is then unchanged.

    Parameters
    ----------
    clf : ErasableClassifier, ErasableRegressor or RetrainedRidge
        A fitted model. Others are refused: they predict with stored rows, and a copy of those could not forget.
    path : str or path
        The file. An earlier export is replaced; any other file is refused, such as a model or a table.
    form : "onnx" or "safetensors", optional
        By default according to the ending of the path.
    input_type : "float32" or "float64", optional
        The type of the rows that an ONNX graph takes: by default float32, as most programs pass them. It computes in
        float64 either way.
    timeout : float, optional
        Seconds to wait for another process that is writing the file; by default without limit.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier
    >>> from erasable.operations.export import export
    >>> clf = ErasableClassifier().fit(*load_iris(return_X_y=True))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(clf, pathlib.Path(folder, "iris.safetensors")).digest == clf.state_digest()
    True
    """
    target = _target(path)
    form = _form(target, form, input_type)
    linear = _linear(clf)
    schema = schema_of(model_behind(clf, "export"))
    data = _safetensors(linear) if form == "safetensors" else _onnx(linear, input_type or INPUTS[0])
    _refuse_others(target)  # before a lock file is made
    schema_file = None if schema is None else _write_schema(schema, target)
    with store.locked(target, timeout=timeout) as writer:
        _refuse_others(target)
        writer.replace([data], mode=None)  # other programs may read it: it holds no rows
    return ExportReport(str(target), form, linear.digest, len(data), schema_file)


def _write_schema(schema: Schema, target: Path) -> str:
    """Write the schema next to an export, as the weights act on the rows that it encodes; return its path."""
    path = f"{target}.toml"
    write_schema(schema, Path(path), head=f"{target.name} takes rows that this schema encodes.")
    return path


def _target(path: object) -> Path:
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InputTypeError(f"path must be a string or a path; got {type(path).__name__}.")
    target = Path(path)
    if target.suffix.lower() == ".erasable":
        raise ConfigurationError(f"{target.name} is the name of a model, not of an export: end it in .onnx or so.")
    return target


def _refuse_others(target: Path) -> None:
    """Refuse to replace a file that is not an earlier export, such as a model under any name, or a table."""
    try:
        head, facts = read_header(target)
        if not facts.st_size or not stat.S_ISREG(facts.st_mode) or _is_stamped(target, head):
            return
        what = "is no earlier export"
        with suppress(StateFormatError):
            what = "holds a model" if read_meta(head)["format"].startswith("erasable-") else what
    except PermissionError:  # it could be replaced without being read
        what = "may not be read"
    except OSError:  # no file, or a folder: writing reports the error
        return
    raise ConfigurationError(f"{target.name} {what}, and an export would replace it: choose another name.")


def _is_stamped(path: Path, head: bytes) -> bool:
    """Whether a file is ONNX or safetensors with the digest of a state among its metadata."""
    if head[:1] == _ONNX_START and head[8:9] != b"{":  # the length of a safetensors header may begin with the same byte
        return STAMP.encode() in path.read_bytes()
    try:
        return STAMP in read_json(head[8:])["__metadata__"]
    except (KeyError, RecursionError, TypeError, ValueError):
        return False


def _form(path: Path, form: str | None, input_type: str | None) -> str:
    """Return the format, by default that of the ending of the path; refused if ``input_type`` does not fit it."""
    if form is None:
        known, form = ", ".join(FORMS), FORMS.get(path.suffix.lower())
        if form is None:
            raise ConfigurationError(f"{path.name} does not say what to write: end it in {known}, or give the format.")
    elif form not in FORMS.values():
        raise ConfigurationError(f"format must be one of {', '.join(FORMS.values())}; got {form!r}.")
    if input_type not in (None, *INPUTS):
        raise ConfigurationError(f"input_type must be one of {', '.join(INPUTS)}; got {input_type!r}.")
    if form != "onnx" and input_type is not None:
        raise ConfigurationError("input_type is for ONNX: safetensors hold weights, which take any numbers.")
    return form


def _linear(clf: object) -> Linear:
    """Return all that predicting takes, from one state of the model."""
    model = model_behind(clf, "export") if is_model(clf) else None
    if model is not None and isinstance(model.configuration.head, Learner):
        raise InputTypeError(
            f"a model with the learner {model.configuration.head.learner} cannot be exported: its library writes no "
            "ONNX itself, and the learner sees raw columns. Predict with the model, or use a linear head."
        )
    if model is None or not isinstance(model.configuration.head, LinearHead):
        raise InputTypeError(
            f"export needs a linear model, ErasableClassifier or ErasableRegressor; got {type(clf).__name__}. Other "
            "models predict with stored rows of people, and an export would be a copy of them that forgetting does "
            "not reach."
        )
    schema = schema_of(model)
    log = model.feature_map if isinstance(model.feature_map, LogFeatures) else None
    if model.feature_map is not None and schema is None and log is None:
        raise InputTypeError(
            "a model behind a feature map cannot be exported: its weights act on mapped rows, and the map is no part "
            "of them: predict with the model itself."
        )
    model.check_whole()
    token = model.version_token
    if not len(model.core):
        raise NoRowsError("no rows remain in this model, so there are no weights to export: learn new rows first.")
    two_sigmoids = isinstance(model.configuration.head, Logistic) and len(model.classes) == 2
    if model.classifies and model.selection.tilts_of(model.classes) is not None and not two_sigmoids:
        raise InputTypeError(
            "a model with balance can be exported if its loss is logistic and it has two classes: other predictions "
            "take the balance back in a way that the export does not have. Predict with the model itself."
        )
    names: Sequence[str] | None = model.configuration.feature_names  # as in the state and the digest
    if names is None:
        names = getattr(clf, "feature_names_in_", None) if schema is None else schema.feature_names_out()
    linear = Linear(
        *model.configuration.head.functions(model),
        list(model.classes),
        model.configuration.grid.scaling,
        None if names is None else [str(n) for n in names],
        model.snapshot().digest,
        "logistic" if isinstance(model.configuration.head, Logistic) else "squared",
        getattr(model.configuration.head, "target_ranges", ()),
        log=log,
    )
    if model.version_token is not token:
        raise ChangedMeanwhileError("the model changed while it was being exported: export it again.")
    return linear


# -- safetensors -------------------------------------------------------------------------------------------------


def _safetensors(linear: Linear) -> bytes:
    """Return the file. It is not written by the library, which orders metadata keys anew every time."""
    header: dict[str, Any] = {"__metadata__": linear.stamp()}
    body = b""
    for name, array in (("coef", linear.coef), ("intercept", linear.intercept)):
        data = np.ascontiguousarray(array, dtype="<f8").tobytes()
        header[name] = {"dtype": "F64", "shape": list(array.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


# -- ONNX --------------------------------------------------------------------------------------------------------


def _onnx(linear: Linear, input_type: str) -> bytes:
    """Return the file with the whole predictor."""
    missing = "writing ONNX needs the package onnx: pip install 'erasable[export]', or write .safetensors."
    return graph_file(optional_module("onnx", missing), linear, input_type)
