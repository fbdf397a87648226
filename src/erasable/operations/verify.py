"""Check from a state alone that it is what learning its own rows gives; and that steps before a model keep no rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

from erasable.errors import ConfigurationError, VerificationError
from erasable.models.files import Code, left_behind, read_model
from erasable.models.model import model_behind
from erasable.models.reports import VerifyReport

# Steps whose ``fit`` learns nothing from rows, by package and class name.
_LEARN_NOTHING = {
    ("erasable", "TableEncoder"),
    *(("sklearn", name) for name in ("FunctionTransformer", "HashingVectorizer", "FeatureHasher")),
    *(("sklearn", name) for name in ("Normalizer", "Binarizer", "AdditiveChi2Sampler")),
}
# Attributes that reveal nothing of rows: names and number of columns, and settings of scikit-learn.
_HARMLESS = {"n_features_in_", "feature_names_in_", "_sklearn_output_config", "_metadata_request"}


def verify(
    model: object, *, public: Collection[str] = (), progress: Callable[[int, int], None] | None = None
) -> VerifyReport:
    """Rerun learning over the stored core rows from nothing and compare everything with what is stored.

    This computes the right-hand side of the definition of exact system-aware unlearning, ``I(S' - U, {})``, without
    trusting the code that forgot.

    Parameters
    ----------
    model : estimator, or a model of ``erasable.models``
        Fitted; not changed. Also a scikit-learn ``Pipeline`` that ends in one: then no step before it may hold
        anything learnt from rows, see ``model_in``.
    public : collection of str
        Names of steps of the pipeline that were not fitted on rows that may have to be forgotten.
    progress : callable, optional
        Called with (rows done, rows in all) after every block.

    Returns
    -------
    VerifyReport

    Raises
    ------
    VerificationError
        Naming the first thing that differs, or the step that was fitted on rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier, verify
    >>> clf = ErasableClassifier().fit(*load_iris(return_X_y=True))
    >>> _ = clf.forget(ids=[0, 50, 100])
    >>> report = verify(clf)
    >>> report.core_rows == clf.n_core_, report.digest == clf.state_digest()
    (True, True)
    """
    if _is_pipeline(model) or public:
        model = model_in(model, public=public)
    return model_behind(model, "verify").verify(progress)


def verify_file(
    path: str | os.PathLike[str], *, like: object = None, progress: Callable[[int, int], None] | None = None
) -> VerifyReport:
    """Verify the model in a file, as :func:`erasable.verify` does; the digest reported is that of the file.

    The report names files in the folder that hold something of a model file which was renamed, removed or replaced.

    Raises
    ------
    VerificationError
        When the state is not what learning its own rows gives.
    StateFormatError, StoreError
        When the file is damaged, or cannot be read.
    """
    report = read_model(path, code_in(like))[0].verify(progress)
    return replace(report, left_behind=left_behind(path))


def code_in(like: object) -> Code | None:
    """Return the code that a file cannot hold, from an unfitted estimator that has it."""
    if like is None:
        return None
    from erasable.estimators.files import code_of  # only here: forgetting and verifying need no scikit-learn

    return code_of(like)


def model_in(pipeline: Any, *, public: Collection[str] = ()) -> Any:
    """Return the model at the end of a pipeline after checking that no step before it keeps anything of rows.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted. The result is the model in it, not a copy: forgetting rows changes the pipeline too.
    public : collection of str
        Names of steps that, to your knowledge, were not fitted on rows that may have to be forgotten.

    Returns
    -------
    estimator
        ``pipeline[-1]``.

    Raises
    ------
    VerificationError
        When a step was fitted on rows: it would keep them after they are forgotten.
    ConfigurationError
        When it is not a pipeline, or ``public`` names a step that it does not have.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> from erasable import ErasableClassifier, model_in, verify
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> pipe = make_pipeline(Normalizer(), ErasableClassifier()).fit(X, X[:, 0] > 0)
    >>> report = model_in(pipe).forget(ids=[3])
    >>> verify(pipe).digest == report.digest
    True
    >>> verify(make_pipeline(StandardScaler(), ErasableClassifier()).fit(X, X[:, 0] > 0))
    Traceback (most recent call last):
    erasable.errors.VerificationError: StandardScaler was fitted on rows: `mean_`, `n_samples_seen_`, ...
    """
    if not _is_pipeline(pipeline):
        raise ConfigurationError(f"a Pipeline is required; got {type(pipeline).__name__}.")
    unknown = sorted(set(public) - {name for name, _ in pipeline.steps[:-1]})
    if isinstance(public, str) or unknown:
        names = ", ".join(name for name, _ in pipeline.steps[:-1])
        raise ConfigurationError(f"public must be a list of names of steps before the last: {names}.")
    for name, step in pipeline.steps[:-1]:
        if name in public:
            continue
        for found, attributes in _fitted_parts(step):
            shown = ", ".join(f"`{a}`" for a in attributes)
            raise VerificationError(
                f"{found} was fitted on rows: {shown}. What it learnt stays when rows are forgotten: use a step that "
                f"learns nothing, such as TableEncoder, or declare it public, with public=({name!r},)."
            )
    return pipeline.steps[-1][1]


def _fitted_parts(step: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield the class name of each part of a step that learnt from rows, and the attributes that hold it."""
    if step is None or isinstance(step, str):  # "passthrough" and "drop"
        return
    kind = type(step)
    if (kind.__module__.partition(".")[0], kind.__name__) in _LEARN_NOTHING:
        return
    inner = _inner(step)
    if inner is not None:
        for part in inner:
            yield from _fitted_parts(part)
        if getattr(step, "sparse_output_", False):  # a ColumnTransformer decides it by the zeros in the rows
            yield kind.__name__, ["sparse_output_"]
        return
    given = step.get_params(deep=False) if hasattr(step, "get_params") else {}
    held = sorted(a for a in vars(step) if a not in given and a not in _HARMLESS)
    if held:
        yield kind.__name__, held


def _inner(step: Any) -> list[Any] | None:
    """Return the parts of a composite step; None if it is not composite."""
    if hasattr(step, "transformers_"):
        return [part for _, part, _ in step.transformers_]
    for listed in ("steps", "transformer_list"):
        if hasattr(step, listed):
            return [part for _, part in getattr(step, listed)]
    return None


def _is_pipeline(model: object) -> bool:
    return hasattr(model, "steps") and hasattr(model, "named_steps")
