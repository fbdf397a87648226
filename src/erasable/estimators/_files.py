"""``load``: a model back from its file.

A file holds a state, never code. Where a model needs code that the caller wrote (a kernel function, a function class, a
feature map, a learner), the caller hands it in again, and the description in the file says whether it is the same.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from erasable.classes.feature_maps import FeatureMap
from erasable.core import kernel_state, shards, state
from erasable.core.kernels import KERNEL_BITS
from erasable.core.layout import Buffer, canonical_json, check_format, read_json, read_meta, read_sealed
from erasable.core.shards import Fetch, from_files, shards_of
from erasable.errors import ConfigurationError, ErasableError, InputTypeError, StateFormatError
from erasable.estimators import _core_set_state, _general_state
from erasable.estimators._general_memory import GeneralMemory
from erasable.estimators._kernel_memory import KernelMemory
from erasable.estimators._memory import CoreMemory
from erasable.estimators._saving import naming, refuse_odd_size
from erasable.estimators.core_set import CoreSetUnlearner
from erasable.estimators.general import ErasableGeneralClassifier
from erasable.estimators.kernel import ErasableKernelClassifier
from erasable.estimators.linear import ErasableClassifier
from erasable.estimators.mapped import ErasableMappedClassifier
from erasable.store import read as read_file


def load(path: str | os.PathLike[str], *, like: Any = None) -> Any:
    """The model that a file holds, ready to predict, to learn and to forget.

    Parameters
    ----------
    path : str or path
        A file written by ``save`` or by the command line. It is read without waiting for anybody; a change that is
        under way shows either wholly or not at all.
    like : estimator, optional
        An unfitted model with the code that a file cannot hold. Needed for ``ErasableGeneralClassifier`` and
        ``CoreSetUnlearner``, for a kernel that is a function, and to predict or learn with
        ``ErasableMappedClassifier``. What the file says of it must agree.

    Returns
    -------
    ErasableClassifier, ErasableKernelClassifier or another of their kind
        Its parameters are those in force; ``kappa`` and ``horizon``, which only name a threshold, are not stored.

    Raises
    ------
    StateFormatError
        When the file is damaged, altered, of a newer version, or something else altogether. Whether the state is what
        learning its rows gives is another question: see ``verify``.
    StoreError
        When the file cannot be read.
    ConfigurationError
        When ``like`` is needed, or is not what the file was made with.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier, load, verify
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = ErasableClassifier(kappa=0.5).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "iris.erasable")
    ...     clf.save(file)
    ...     again = load(file)
    >>> again.state_digest() == clf.state_digest() == verify(again).digest
    True
    """
    model, checksum = read_model(path, like)
    model._on_disk = {os.path.realpath(path): checksum}
    return model


def read_model(path: str | os.PathLike[str], like: Any = None) -> tuple[Any, str]:
    """The model that a file holds, with no tie to it, and the checksum of the file."""
    with naming(path):
        refuse_odd_size(path)
        return read_file(
            path,
            lambda head, fetch: (model_of(head, fetch, like), str(read_meta(head)["checksum"])),
            parts_of=shards_of,
        )


def model_of(head: Buffer, fetch: Fetch, like: Any = None) -> Any:
    """The model whose state has these bytes; see :func:`load`."""
    meta = read_meta(head)
    reader, version = _READERS.get(meta["format"], (None, 0))
    if reader is None:
        raise StateFormatError(
            f"it holds {meta['format'][:40]!r}, which this erasable does not know: "
            "install a newer erasable, or give the file of a model."
        )
    check_format(meta, meta["format"], version)
    if like is not None and (isinstance(like, type) or not hasattr(like, "get_params")):
        raise InputTypeError("like must be an unfitted model, such as ErasableMappedClassifier(feature_map).")
    return reader(head, fetch, meta, like)


def _linear(head: Buffer, fetch: Fetch, meta: dict[str, Any], like: Any) -> Any:
    memory = CoreMemory.restore(from_files(head, fetch))
    c = memory.configuration
    if c.feature_map is not None:
        return _mapped(memory, like)
    if like is not None and (not isinstance(like, ErasableClassifier) or isinstance(like, ErasableMappedClassifier)):
        raise _another(like, "ErasableClassifier")
    grid = c.grid
    model = (
        clone(like)
        if like is not None
        else ErasableClassifier(
            math.ldexp(c.units, -2 * grid.bits),
            threshold=c.threshold,
            fit_intercept=grid.intercept,
            scaling=grid.scaling,
            classes=c.classes,
            feature_names=c.feature_names,
            grid_bits=grid.bits,
        )
    )
    model._memory, model.n_features_in_ = memory, grid.n_features
    _check_agreement(model, like)
    return model


def _check_agreement(model: Any, like: Any) -> None:
    """Refuse ``like`` when its parameters are not those of the file, and a file with parameters that no model has."""
    try:
        model._check_unchanged(model._memory, None)
    except ConfigurationError as error:
        if like is None:
            raise StateFormatError(f"not a state: {error}") from error
        raise ConfigurationError(
            "like has other parameters than the file was made with: give the same, or leave threshold, kappa and "
            f"horizon out where they may be. Found: {error}"
        ) from error


def _mapped(memory: CoreMemory, like: Any) -> ErasableMappedClassifier:
    c, grid = memory.configuration, memory.configuration.grid
    written = _described_map(c.feature_map)
    if like is not None and not isinstance(like, ErasableMappedClassifier):
        raise _another(like, "ErasableMappedClassifier")
    model = (
        clone(like)
        if like is not None
        else ErasableMappedClassifier(
            _AbsentMap(canonical_json(written["map"]), grid.n_features),
            math.ldexp(c.units, -2 * grid.bits),
            threshold=c.threshold,
            fit_intercept=grid.intercept,
            scaling=grid.scaling,
            classes=c.classes,
            grid_bits=grid.bits,
        )
    )
    chosen = model._chosen_map()
    if canonical_json(chosen.describe()) != canonical_json(written["map"]):
        raise ConfigurationError(
            "like has another feature map than the file was made with: give the same one, with the same parameters."
        )
    model._memory, model.feature_map_ = memory, chosen
    if written["n_features"] is not None:
        model.n_features_in_ = written["n_features"]
    _check_agreement(model, like)
    return model


def _described_map(text: str | None) -> dict[str, Any]:
    try:
        written = read_json(text or "")
        described, taken = written["map"], written["n_features"]
        counted = taken is None or (type(taken) is int and taken >= 1)
        if len(written) == 2 and isinstance(described, dict) and counted and canonical_json(written) == text:
            return dict(written)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        pass
    raise StateFormatError("not a state: the description of its feature map is damaged.")


@dataclass(frozen=True, eq=False)
class _AbsentMap(FeatureMap):
    """Stands for the map that a file was made with: rows can be forgotten and verified without it."""

    described: str
    n_features_out: int
    takes = "numbers"

    def __call__(self, X: Any) -> Any:
        raise ConfigurationError(
            "this model was made with a feature map, which a file cannot hold: to predict or to learn, give it again "
            "with load(path, like=ErasableMappedClassifier(feature_map))."
        )

    def describe(self) -> dict[str, Any]:
        """What the file says of the map."""
        return dict(read_json(self.described))


def _kernel(head: Buffer, fetch: Fetch, meta: dict[str, Any], like: Any) -> ErasableKernelClassifier:
    if like is not None and not isinstance(like, ErasableKernelClassifier):
        raise _another(like, "ErasableKernelClassifier")
    function = like.kernel if like is not None and callable(like.kernel) else None
    if meta.get("kernel") == "custom" and function is None:
        read_sealed(head)
        raise ConfigurationError(
            "this model has a kernel function of the caller's, which a file cannot hold: "
            "load(path, like=ErasableKernelClassifier(kernel, ...)) with the same parameters."
        )
    if meta.get("kernel") == "custom" and meta.get("function") != getattr(function, "__qualname__", None):
        read_sealed(head)  # a damaged file is not taken for another function
        raise ConfigurationError(
            "like has a kernel function of another name than that which the file was made with: give the same."
        )
    if not isinstance(meta.get("degree"), int):  # no small one, which alone is written as a number
        raise StateFormatError("not a state: the degree of its kernel is out of range.")
    memory = KernelMemory.restore(kernel_state.kernel_from_bytes(head, function))
    c, kernel = memory.configuration, memory.configuration.kernel
    model = (
        clone(like)
        if like is not None
        else ErasableKernelClassifier(
            kernel.name,
            math.ldexp(c.units, -KERNEL_BITS),
            c.threshold,
            gamma=kernel.gamma,
            nu=kernel.nu,
            degree=kernel.degree,
            coef0=kernel.coef0,
            scaling=c.points.scaling,
            classes=c.classes,
            feature_names=c.feature_names,
            grid_bits=c.points.bits,
        )
    )
    model._memory, model.n_features_in_ = memory, c.points.n_features
    _check_agreement(model, like)
    return model


def _general(head: Buffer, fetch: Fetch, meta: dict[str, Any], like: Any) -> ErasableGeneralClassifier:
    meta, _ = read_sealed(head)
    if not isinstance(like, ErasableGeneralClassifier):
        raise _another(like, "ErasableGeneralClassifier", "a function class")
    model: ErasableGeneralClassifier = clone(like)
    n_features = meta.get("n_features")
    if not isinstance(n_features, int) or not 1 <= n_features < 2**31:
        raise StateFormatError("not a state: the number of features is missing, or none.")
    configuration = model._configuration(n_features, None)
    if canonical_json(meta.get("sampler")) != canonical_json(configuration.describe()["sampler"]):
        raise ConfigurationError(
            "like has another function class, sampler or threshold than the file was made with: give the same."
        )
    memory = GeneralMemory.restore(_general_state.general_from_bytes(head, configuration))
    model._memory, model.n_features_in_ = memory, n_features
    if model.classes is not None and configuration.classes != memory.configuration.classes:
        raise ConfigurationError("like has other classes than the file was made with: give the same.")
    return model


def _core_set(head: Buffer, fetch: Fetch, meta: dict[str, Any], like: Any) -> CoreSetUnlearner:
    meta, _ = read_sealed(head)
    if not isinstance(like, CoreSetUnlearner):
        raise _another(like, "CoreSetUnlearner", "a core-set map and a learner")
    model: CoreSetUnlearner = clone(like)
    try:
        model._restore(head, meta)
    except ErasableError:
        raise
    except Exception as error:  # whatever a learner says of rows that it cannot have been trained on
        raise StateFormatError(
            f"not a state: the learner cannot be trained on the stored rows ({type(error).__name__})."
        ) from error
    return model


def _another(like: Any, wanted: str, code: str = "") -> ConfigurationError:
    if like is None:
        return ConfigurationError(
            f"this model needs {code} of the caller's, which a file cannot hold: load(path, like={wanted}(...)) with "
            "the parameters that it was made with."
        )
    return ConfigurationError(f"the file holds a model of {wanted}, and like is one of {type(like).__name__}.")


_READERS = {
    state.FORMAT: (_linear, state.VERSION),
    shards.SHARDED: (_linear, shards.VERSION),
    kernel_state.FORMAT: (_kernel, kernel_state.VERSION),
    _general_state.FORMAT: (_general, _general_state.VERSION),
    _core_set_state.FORMAT: (_core_set, _core_set_state.VERSION),
}
