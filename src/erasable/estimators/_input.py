"""What a caller hands in to learn or predict, checked without touching the estimator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _get_feature_names, validate_data

from erasable.core.grid import count_outside_ball
from erasable.core.layout import Key
from erasable.core.selector import RawRows
from erasable.core.sparse import checked_layout, summed
from erasable.errors import InputError, InputTypeError
from erasable.estimators._keys import Column, as_key_column, label_type, plain_labels, same_kind
from erasable.estimators._memory import CoreMemory

_BLOCK = 2**20  # numbers looked at together
_NO_LABELS = object()
_NOBODY = (None, "", b"")
_SCHEMA = ("n_features_in_", "feature_names_in_")


def check_rows(
    estimator: Any, X: Any, y: Any = _NO_LABELS, *, first: bool
) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
    """Rows (dense float32/float64 or CSR), labels (1-d) and the schema (feature count and names) they came with.

    No entry of CSR rows is listed twice: entries that were are added up, and their sums must be finite too.

    The checks run on a stand-in, so that a refused call leaves the estimator as it was.

    Raises
    ------
    InputError, InputTypeError
        For NaN, infinities, ragged, empty or non-numeric input, and for lengths or feature counts that do not match.
    """
    stand_in = object.__new__(type(estimator))
    fixed = getattr(estimator, "feature_names", None)
    if not first:
        vars(stand_in).update({k: v for k, v in vars(estimator).items() if k in _SCHEMA})
        if fixed is not None and names_of_columns(X) is not None:
            stand_in.feature_names_in_ = np.asarray(fixed, dtype=object)
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "reset": first}
    refusal: InputError | InputTypeError
    try:
        if sp.issparse(X) and X.format in ("csr", "csc"):
            X = checked_layout(X)
        if y is _NO_LABELS:
            return _finite(_narrow(validate_data(stand_in, X, **options))), np.empty(0), {}
        if isinstance(y, str | bytes):
            raise ValueError("y must be an array of labels, one per row; got a single text.")
        found = names_of_columns(X)
        if fixed is not None and found is not None and list(found) != list(fixed):
            raise ValueError("the columns of X have other names, or another order, than feature_names says.")
        X, y = validate_data(stand_in, X, plain_labels(y), **options)
        check_classification_targets(y)
        return _finite(_narrow(X)), y, {k: v for k, v in vars(stand_in).items() if k in _SCHEMA}
    except (ValueError, OverflowError) as error:
        refusal = InputError(_without_values(str(error), X))
    except TypeError as error:
        refusal = InputTypeError(_without_values(str(error), X))
    raise refusal  # here and not above, where it would carry the original, and with it values, along


def names_of_columns(X: Any) -> npt.NDArray[Any] | None:
    """The names of the columns, where the rows come with any."""
    names: npt.NDArray[Any] | None = _get_feature_names(X)
    return names


def _narrow(X: Any) -> Any:
    """CSR with 32-bit indices where they suffice: many estimators of scikit-learn take no others."""
    if isinstance(X, np.ndarray) or X.indices.dtype == np.int32 or max(*X.shape, X.nnz) >= 2**31:
        return X
    parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return type(X)(parts, shape=X.shape)


def _finite(X: Any) -> Any:
    """The rows, entries of CSR that are listed several times added up."""
    if isinstance(X, np.ndarray):
        return X
    X = summed(X)
    if not np.isfinite(X.data).all():
        raise ValueError("Input X contains infinity: entries that are listed several times are added up.")
    return X


def _columns_of_text(X: Any) -> list[str]:
    """Names of the columns that cannot be read as numbers, where the rows come with names."""

    def is_text(name: Any) -> bool:
        try:
            np.asarray(X[name], dtype=np.float64)
        except (TypeError, ValueError):
            return True
        return False

    names = names_of_columns(X)
    return [] if names is None else [repr(str(n)) for n in names if is_text(n)]


def _without_values(message: str, X: Any) -> str:
    """A message of NumPy or scikit-learn about rows without the entries it quotes."""
    if "could not convert" in message:
        texts = _columns_of_text(X)
        where = f" in {', '.join(texts)}," if texts else ""
        return f"X holds text{where} where numbers are required: encode categories as numbers first."
    if message.startswith("Complex data"):
        return "Complex data not supported: X must hold real numbers."
    if "not supported between instances" in message or "is ambiguous" in message:
        return "y mixes types or has missing entries: give labels of one type, one for every row."
    return re.sub(r"\s*array=.*?(?=Reshape your data|$)", " ", message, flags=re.DOTALL)


def check_labels(y: npt.NDArray[Any], memory: CoreMemory) -> None:
    """Refuse labels that the model could not hold."""
    kind = label_type(y)
    fixed = memory.configuration.classes
    if fixed is not None:
        if kind is not type(fixed[0]):
            wanted = type(fixed[0]).__name__
            raise InputError(f"y holds labels of type {kind.__name__}, but the fixed classes are of type {wanted}.")
        allowed = set(fixed)
        unseen = sum(v not in allowed for v in y.tolist())
        if unseen:
            raise InputError(
                f"{unseen} of {len(y)} labels are not among the {len(fixed)} fixed classes: "
                "correct y, or fix all classes with classes=."
            )
    elif memory.class_counts and kind is not type(next(iter(memory.class_counts))):
        known = type(next(iter(memory.class_counts))).__name__
        raise InputError(f"y holds labels of type {kind.__name__}, but the model's classes are of type {known}.")


def check_ids(ids: Any, n: int, place: Mapping[Key, Any]) -> Column | None:
    """Ids, one per row, distinct and none of them a key of ``place`` yet; None stands for 0, 1, 2, ..."""
    if ids is None:
        if not place:
            return None
        if not isinstance(next(iter(place)), int):
            raise InputError("ids are required: this model's ids are not integers, so rows cannot be numbered on.")
        start = max(place) + 1  # type: ignore[operator]
        if start + n > 2**63:
            raise InputError("ids are required: numbering on from the largest id in the model would pass 64 bits.")
        return range(start, start + n)
    keys = as_key_column(ids, "ids")
    if len(keys) != n:
        raise InputError(f"ids has {len(keys)} entries for {n} rows: pass one id per row.")
    distinct = len(np.unique(keys) if isinstance(keys, np.ndarray) else set(keys))
    if distinct < n:
        raise InputError(f"ids must be distinct: {n - distinct} of {n} repeat an earlier one.")
    if place:
        same_kind(keys, type(next(iter(place))), "ids")
        present = sum(key in place for key in (keys.tolist() if isinstance(keys, np.ndarray) else keys))
        if present:
            raise InputError(
                f"{present} of {n} ids are already present in the model: forget them first, or leave these rows out."
            )
    return keys


def check_subjects(subjects: Any, n: int, memory: CoreMemory, *, allow_no_subject: bool) -> Column:
    """Subjects, one per row; where it is allowed that a row has none, None for a missing one, and empty texts."""
    owners = as_key_column(subjects, "subjects", optional=True)
    if len(owners) != n:
        raise InputError(f"subjects has {len(owners)} entries for {n} rows: pass one subject per row.")
    named = owners if isinstance(owners, np.ndarray) else [s for s in owners if s is not None]
    nobodys = 0 if isinstance(owners, np.ndarray) else sum(s in _NOBODY for s in owners)
    if nobodys and not allow_no_subject:
        raise InputError(
            f"{nobodys} of {n} rows have no subject, and no erasure by subject could reach them: fill it in, "
            "leave these rows out, or allow them with allow_no_subject=."
        )
    same_kind(named, memory.subject_type, "subjects")
    return owners


def check_ball(rows: RawRows) -> None:
    """Refuse rows outside the unit ball where the scaling does not bring every row into it."""
    if rows.grid.normalises:
        return
    step = max(1, _BLOCK // rows.grid.n_columns)
    outside = sum(count_outside_ball(rows.dense(slice(i, i + step)), rows.grid) for i in range(0, len(rows), step))
    if outside:
        required = "1 when scaling=None" if rows.grid.scaling is None else f"scaling={rows.grid.scaling!r}"
        raise InputError(
            f"{outside} of {len(rows)} rows have a norm above {required}: use scaling='row', or a larger number."
        )
