"""An MLflow flavor whose artifact is the model file itself, and a list of registered copies that are out of date.

A logged or registered model is a *copy*: forgetting in the live file does not reach it. :func:`stale` lists the
versions in a registry that hold rows which the live model no longer has.

The artifact is the file that ``save`` writes, without a pickle: loading it runs no code. Signatures come from the
model, so no row is needed to make one. Input examples would be rows stored next to the model; they are refused unless
``allow_input_example=True`` declares that they are nobody's. Needs ``pip install 'erasable[mlflow]'``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from erasable.errors import ConfigurationError, ErasableError, InputTypeError
from erasable.estimators.base import ErasableEstimator
from erasable.estimators.files import load
from erasable.models.heads import Learner
from erasable.models.model import model_behind
from erasable.operations.inspect import inspect
from erasable.operations.schemas import schema_of
from erasable.version import RELEASE, VERSION

try:
    import mlflow.models
    from mlflow import pyfunc
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.exceptions import MlflowException
    from mlflow.models import ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, DataType, TensorSpec
    from mlflow.types.schema import Schema as Columns
except ImportError as error:  # pragma: no cover - depends on the machine
    raise ConfigurationError("MLflow is not installed: pip install 'erasable[mlflow]'.") from error

__all__ = ["FLAVOR_NAME", "Stale", "load_model", "log_model", "save_model", "stale"]

FLAVOR_NAME = "erasable"
_METHODS = ("predict", "predict_proba", "decision_function")
_FOLDER, _FILE = "erasable", "model.erasable"
_ANYTHING = AnyType()  # type: ignore[no-untyped-call]


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    pyfunc_predict_fn: str = "predict",
    signature: ModelSignature | None = None,
    input_example: Any = None,
    allow_input_example: bool = False,
    metadata: dict[str, Any] | None = None,
    pip_requirements: list[str] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Write a model as an MLflow model: a folder with the model file and ``MLmodel``.

    Parameters
    ----------
    model : estimator, str or path
        A fitted estimator, or the path of a model file.
    path : str or path
        A folder that does not exist, or is empty.
    pyfunc_predict_fn : {"predict", "predict_proba", "decision_function"}, default="predict"
        The method that ``mlflow.pyfunc`` calls.
    signature : ModelSignature, optional
        By default made from the model: the columns of its schema, its feature names, or a tensor of its width.
    input_example, allow_input_example : optional
        An example is stored next to the model, where no forgetting reaches it. It is refused unless
        ``allow_input_example=True`` declares that it is nobody's row.
    metadata, mlflow_model, pip_requirements
        As in other flavors; by default this version of erasable is required.

    Raises
    ------
    InputTypeError
        When a file of the model could not be loaded without more code.
    ConfigurationError
        When an input example is given and not allowed, or the method is unknown.
    """
    if input_example is not None and not allow_input_example:
        raise ConfigurationError(
            "an input example is stored next to the model, where no forgetting reaches it: leave it out, or give "
            "allow_input_example=True if it is nobody's row. Signatures are made without one."
        )
    if pyfunc_predict_fn not in _METHODS:
        raise ConfigurationError(f"pyfunc_predict_fn must be one of {', '.join(_METHODS)}.")
    estimator = _estimator(model)
    if not hasattr(estimator, pyfunc_predict_fn):
        raise ConfigurationError(f"{type(estimator).__name__} has no {pyfunc_predict_fn}: it predicts numbers.")
    folder = _written(estimator, path)
    described = mlflow.models.Model() if mlflow_model is None else mlflow_model
    described.signature = signature_of(estimator) if signature is None else signature
    if metadata is not None:
        described.metadata = metadata
    if input_example is not None:
        described.saved_input_example_info = _saved_example(input_example, folder)
    data = f"{_FOLDER}/{_FILE}"
    pyfunc.add_to_model(described, loader_module=__name__, data=data)
    described.add_flavor(FLAVOR_NAME, erasable_version=VERSION, data=data, method=pyfunc_predict_fn)
    described.save(folder / "MLmodel")
    requirements = pip_requirements or [f"erasable[mlflow,tables]=={RELEASE}", *_library_of(estimator)]
    (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in requirements))


def log_model(model: object, name: str = "model", *, registered_model_name: str | None = None, **options: Any) -> Any:
    """Log a model to the active run, and register it where a name is given.

    Parameters
    ----------
    model : estimator, str or path
    name : str
        Of the logged model.
    registered_model_name : str, optional
        Make a version of this registered model.
    **options
        Those of :func:`save_model`.

    Returns
    -------
    mlflow.models.model.ModelInfo
    """
    import erasable.mlflow as flavor

    return mlflow.models.Model.log(
        artifact_path=None,
        name=name,
        flavor=flavor,
        registered_model_name=registered_model_name,
        model=model,
        **options,
    )


def load_model(model_uri: str, dst_path: str | None = None) -> Any:
    """Return the estimator in a logged model: ready to predict, to forget and to verify.

    It is a copy: what is forgotten in it does not reach the artifact, nor other copies.

    Parameters
    ----------
    model_uri : str
        Such as ``"models:/credit/3"``, ``"runs:/<id>/model"`` or a folder.
    dst_path : str, optional
        The folder for downloads. By default a temporary one, removed again.
    """
    with TemporaryDirectory(prefix="erasable-") as folder:
        local, flavors = _downloaded(model_uri, folder if dst_path is None else dst_path)
        if FLAVOR_NAME not in flavors:
            raise InputTypeError(f"this MLflow model is of another flavor ({', '.join(sorted(flavors))}).")
        return load(local / flavors[FLAVOR_NAME]["data"])


@dataclass(frozen=True)
class Stale:
    """A registered version that holds rows which the live model lacks."""

    # name, version: as the registry has them.
    name: str
    version: str
    aliases: tuple[str, ...]  # names under which it may be in use
    core_rows: int  # how many rows it stores
    rows_gone: int  # how many of these are not in the live model
    digest: str  # of the version's state


def stale(
    live: str | os.PathLike[str],
    name: str,
    *,
    tracking_uri: str | None = None,
    registry_uri: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Stale], int]:
    """Return the versions of a registered model with ids that the live model lacks, and how many were compared.

    Rows are compared by their ids, so these must mean the same in both: a row that the live model never learnt counts
    as gone, too.

    Parameters
    ----------
    live : str or path
        The model file that requests are carried out on.
    name : str
        The name of the registered model. Versions of other flavors are skipped.
    tracking_uri, registry_uri : str, optional
        By default those of MLflow's settings.
    progress : callable, optional
        Called with the number of versions done and in all.

    Raises
    ------
    ConfigurationError
        When the registry has no model of that name or does not answer, or a setting of MLflow is wrong.
    """
    kept = _ids_in(live)[0]
    if "'" in name:
        raise ConfigurationError("a registered model whose name has a quotation mark cannot be searched for.")
    try:
        client = mlflow.MlflowClient(tracking_uri, registry_uri)
        client.get_registered_model(name)
        versions = sorted(client.search_model_versions(f"name = '{name}'"), key=lambda v: int(v.version))
        found, seen = [], 0
        for done, one in enumerate(versions, start=1):
            for path in _artifact(one):
                seen += 1
                ids, digest = _ids_in(path)
                if gone := len(ids - kept):
                    aliases = tuple(client.get_model_version(name, one.version).aliases)
                    found.append(Stale(name, str(one.version), aliases, len(ids), gone, digest))
            if progress is not None:
                progress(done, len(versions))
    except MlflowException as error:
        if type(error).__name__.startswith("Unsupported"):  # by the kind of its address
            raise ConfigurationError(
                "MLflow cannot open a registry of this kind: say where yours is with tracking_uri=, or in the setting "
                "MLFLOW_TRACKING_URI. A database, such as MLflow's default sqlite:///mlflow.db, needs the whole "
                "package: pip install mlflow."
            ) from None
        raise ConfigurationError(f"the registry did not give what was asked for: {error.message}") from error
    except ErasableError:
        raise
    except ValueError as error:  # an environment variable of MLflow that is empty, or none of its values
        raise ConfigurationError(f"MLflow is not set up as it must be: {error}. Correct the setting.") from error
    return found, seen


def signature_of(model: object) -> ModelSignature:
    """Return inputs and outputs of a model, from its configuration alone."""
    import numpy as np

    learnt = model_behind(_estimator(model), "describe")
    outputs = None
    if learnt.classifies:
        kinds = {bool: DataType.boolean, int: DataType.long, float: DataType.double, str: DataType.string}
        outputs = Columns([ColSpec(kinds[type(learnt.classes[0])])])
    schema = schema_of(learnt)
    if schema is not None:
        inputs: list[Any] = [ColSpec(_ANYTHING, column.name) for column in schema.features]
    elif learnt.feature_names is not None:
        inputs = [ColSpec(DataType.double, name) for name in learnt.feature_names]
    else:
        inputs = [TensorSpec(np.dtype(np.float64), (-1, learnt.n_features or -1))]
    return ModelSignature(Columns(inputs), outputs)


class _Predictor:
    """The object that ``mlflow.pyfunc`` calls for predictions."""

    def __init__(self, estimator: ErasableEstimator, method: str) -> None:
        self.estimator, self.method = estimator, method

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        names = model_behind(self.estimator, "predict").feature_names
        if names is not None and hasattr(model_input, "loc"):
            model_input = model_input[list(names)]
        return getattr(self.estimator, self.method)(model_input)


def _load_pyfunc(path: str) -> _Predictor:
    """Return the predictor of a model file; ``mlflow.pyfunc`` calls it."""
    settings = mlflow.models.Model.load(str(Path(path).parent.parent)).flavors[FLAVOR_NAME]
    return _Predictor(load(path), settings["method"])


def _library_of(estimator: ErasableEstimator) -> list[str]:
    """Return the requirement of a model whose learner another library trains: the version that is installed."""
    head = model_behind(estimator, "save_model").head
    if not isinstance(head, Learner):
        return []
    return [f"{head.allowed.library}=={version(head.allowed.library)}"]


def _estimator(model: object) -> ErasableEstimator:
    """Return the estimator given, or the one in the file given."""
    found = load(model) if isinstance(model, str | os.PathLike) else model
    if not isinstance(found, ErasableEstimator):
        raise InputTypeError(f"erasable.mlflow needs one of erasable's models, fitted; got {type(model).__name__}.")
    return found


def _written(estimator: ErasableEstimator, path: str | os.PathLike[str]) -> Path:
    """Write the model file into a new folder, and return the folder."""
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} exists already and is not an empty folder: choose another path.")
    file = folder / _FOLDER / _FILE
    file.parent.mkdir(parents=True)
    estimator.save(file)
    file.with_name(f".{_FILE}.lock").unlink(missing_ok=True)  # no other process knows the folder yet
    return folder


def _saved_example(example: object, folder: Path) -> dict[str, Any]:
    """Write an input example next to the model, and return what MLmodel says of it."""
    from mlflow.models.utils import _Example

    saved = _Example(example)
    saved.save(str(folder))
    return dict(saved.info)


def _ids_in(path: str | os.PathLike[str]) -> tuple[set[Any], str]:
    """Return the ids in a model file, and its digest."""
    found = inspect(path, rows=True)
    assert found.rows is not None
    return {row["id"] for row in found.rows}, found.digest


def _artifact(one: ModelVersion) -> Iterator[Path]:
    """Yield the model file of a version of this flavor, for as long as it is needed."""
    with TemporaryDirectory(prefix="erasable-") as folder:
        local, flavors = _downloaded(f"models:/{one.name}/{one.version}", folder)
        if FLAVOR_NAME in flavors:
            yield local / flavors[FLAVOR_NAME]["data"]


def _downloaded(uri: str, folder: str) -> tuple[Path, dict[str, Any]]:
    """Return the local folder of an MLflow model, and its flavors."""
    from mlflow.artifacts import download_artifacts

    local = Path(download_artifacts(artifact_uri=uri, dst_path=folder))
    return local, dict(mlflow.models.Model.load(str(local)).flavors)
