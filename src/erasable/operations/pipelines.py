"""A scikit-learn ``Pipeline`` that ends in one of our models: forgetting there is not enough if a step remembers rows.

One function, and no class of its own: pipelines come from everywhere (``make_pipeline``, a search's best one, a
pickle), and the model at their end has ``forget`` and ``save`` already. What was missing is the look at the steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from erasable.errors import ConfigurationError, VerificationError

# Steps whose ``fit`` learns nothing from rows, by the name of their class and where it is from.
_LEARN_NOTHING = {
    ("erasable", "TableEncoder"),
    *(("sklearn", name) for name in ("FunctionTransformer", "HashingVectorizer", "FeatureHasher")),
    *(("sklearn", name) for name in ("Normalizer", "Binarizer", "AdditiveChi2Sampler")),
}
# Attributes that say nothing of rows: the names and number of columns, and settings of scikit-learn.
_HARMLESS = {"n_features_in_", "feature_names_in_", "_sklearn_output_config", "_metadata_request"}


def is_pipeline(model: Any) -> bool:
    """Whether this is a ``Pipeline`` of scikit-learn, or one that looks like it."""
    return hasattr(model, "steps") and hasattr(model, "named_steps")


def model_in(pipeline: Any, *, public: Collection[str] = ()) -> Any:
    """The model at the end of a pipeline, for ``forget``, ``save`` and ``verify``: no step before it remembers rows.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted. It goes on working: the model is the one that it holds, not a copy.
    public : collection of str
        Names of steps that were not fitted on rows that may have to be forgotten, as the caller knows.

    Returns
    -------
    estimator
        As in ``pipeline[-1]``.

    Raises
    ------
    VerificationError
        When a step was fitted on rows: it would still know them after they are forgotten.
    ConfigurationError
        When this is no pipeline, or ``public`` names no step of it.

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
    if not is_pipeline(pipeline):
        raise ConfigurationError(f"a Pipeline is required; got {type(pipeline).__name__}.")
    unknown = sorted(set(public) - {name for name, _ in pipeline.steps[:-1]})
    if isinstance(public, str) or unknown:
        names = ", ".join(name for name, _ in pipeline.steps[:-1])
        raise ConfigurationError(f"public must be a list of names of steps before the last: {names}.")
    for name, step in pipeline.steps[:-1]:
        if name in public:
            continue
        for found, attributes in remembering(step):
            shown = ", ".join(f"`{a}`" for a in attributes)
            raise VerificationError(
                f"{found} was fitted on rows: {shown}. What it learnt stays when rows are forgotten: use a step that "
                f"learns nothing, such as TableEncoder, or declare it public, with public=({name!r},)."
            )
    return pipeline.steps[-1][1]


def remembering(step: Any) -> Iterator[tuple[str, list[str]]]:
    """The steps in a step that hold what their ``fit`` learnt, by the names of their classes, and the attributes."""
    if step is None or isinstance(step, str):  # "passthrough" and "drop"
        return
    kind = type(step)
    if (kind.__module__.partition(".")[0], kind.__name__) in _LEARN_NOTHING:
        return
    inner = _inner(step)
    if inner is not None:
        for part in inner:
            yield from remembering(part)
        if getattr(step, "sparse_output_", False):  # of a ColumnTransformer, by how many numbers of rows are zero
            yield kind.__name__, ["sparse_output_"]
        return
    given = step.get_params(deep=False) if hasattr(step, "get_params") else {}
    held = sorted(a for a in vars(step) if a not in given and a not in _HARMLESS)
    if held:
        yield kind.__name__, held


def _inner(step: Any) -> list[Any] | None:
    """The parts of a step that is made of others; None where it is made of none."""
    if hasattr(step, "transformers_"):
        return [part for _, part, _ in step.transformers_]
    for listed in ("steps", "transformer_list"):
        if hasattr(step, listed):
            return [part for _, part in getattr(step, listed)]
    return None
