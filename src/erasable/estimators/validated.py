"""Validate the input of fit and predict without touching the estimator."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _get_feature_names, validate_data

from erasable.core.arrays import ColumnLike, DeviceRows, MatrixLike, checked_layout, on_host, summed
from erasable.core.threads import Shared
from erasable.errors import InputError, InputTypeError
from erasable.models.inputs import plain_labels
from erasable.validation import COMPLEX, DATES, MISSING, TEXT, is_listed, odd_cells, real_numbers

_NO_LABELS = object()
INPUT_ATTRIBUTES = ("n_features_in_", "feature_names_in_")
_SUMMED = 2**22  # numbers added up together
_MANY = 8 * _SUMMED  # numbers: larger arrays are checked by several threads


@np.errstate(over="ignore", invalid="ignore")  # sums of huge numbers, by which scikit-learn looks for infinity
def check_rows(
    estimator: Any,
    X: MatrixLike,
    y: ColumnLike = _NO_LABELS,
    *,
    first: bool,
    tensors: bool = False,
    missing: bool = False,
) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
    """Rows (dense float32/float64 or CSR), labels (1-d) and the attributes (feature count and names) that a fit sets.

    For a regressor, targets (float64, 1-d or 2-d) in place of labels. Rows in a tensor on a device become an array,
    unless the caller takes ``tensors``: then they are checked on the device and stay there.

    With ``missing`` NaN may be among the rows; infinities are refused all the same.

    Entries that CSR rows list several times are added up, and their sums must be finite too.

    The checks run on a stand-in, so that a refused call leaves the estimator as it was.

    Raises
    ------
    InputError, InputTypeError
        For NaN, infinities, ragged, empty or non-numeric input, and for lengths or feature counts that do not match.
    """
    stand_in = object.__new__(type(estimator))
    fixed = getattr(estimator, "feature_names", None)
    if not first:
        vars(stand_in).update({k: v for k, v in vars(estimator).items() if k in INPUT_ATTRIBUTES})
        if fixed is not None and names_of_columns(X) is not None:
            stand_in.feature_names_in_ = np.asarray(fixed, dtype=object)
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "reset": first}
    refusal: InputError | InputTypeError
    try:
        device_rows = DeviceRows.of(X) if tensors else None
        # Of rows on a device only the shape is checked.
        X = np.broadcast_to(np.float32(0), device_rows.shape) if device_rows is not None else on_host(X)
        if device_rows is not None or _has_finite_sums(X):
            options["ensure_all_finite"] = False
        elif missing:
            options["ensure_all_finite"] = "allow-nan"
        _refuse_odd(X)
        if sp.issparse(X) and X.format in ("csr", "csc"):
            X = checked_layout(X)
        if y is _NO_LABELS:
            X = validate_data(stand_in, X, **options)
            X = _finite(_narrow(X), missing=missing) if device_rows is None else _fit_to_learn(device_rows, missing)
            return X, np.empty(0), {}
        y = on_host(y)
        if isinstance(y, _NO_COLUMN):
            raise ValueError(f"y must be a list or an array, one entry per row; got {type(y).__name__}.")
        found = names_of_columns(X)
        if fixed is not None and found is not None and list(found) != list(fixed):
            raise ValueError("the columns of X have other names, or another order, than feature_names says.")
        if isinstance(estimator, RegressorMixin):
            X, y = validate_data(stand_in, X, y if y is None else real_numbers(y, "y"), multi_output=True, **options)
        else:
            X, y = validate_data(stand_in, X, plain_labels(y), **options)
            if y.dtype != bool:  # booleans are always classes
                check_classification_targets(y)
        X = _finite(_narrow(X), missing=missing) if device_rows is None else _fit_to_learn(device_rows, missing)
        return X, y, {k: v for k, v in vars(stand_in).items() if k in INPUT_ATTRIBUTES}
    except (InputError, InputTypeError) as error:
        refusal = error
    except (ValueError, OverflowError) as error:
        refusal = InputError(_without_values(str(error)))
    except TypeError as error:
        refusal = InputTypeError(_without_values(str(error)))
    raise refusal  # not raised above, where it would carry the original error, and values with it


def names_of_columns(X: object) -> npt.NDArray[Any] | None:
    """The names of the columns of X, if it has any."""
    names: npt.NDArray[Any] | None = _get_feature_names(X)
    return names


_NO_COLUMN = (str, bytes, bytearray, dict, set, frozenset)


def _refuse_odd(X: object) -> None:
    """Refuse input that is not rows, and cells that NumPy would turn into other numbers."""
    if not is_listed(X) and not hasattr(X, "shape") and not hasattr(X, "__array__"):
        raise TypeError(
            "X must be a 2D array, a sparse matrix, a dataframe, a tensor or a list of rows; "
            f"got {type(X).__name__}: pass one row of numbers for each label."
        )
    found = odd_cells(X)
    if found is None:
        return
    what, columns = found
    where = f" in {', '.join(columns)}," if columns else ""
    if what == MISSING:
        raise ValueError("Input X contains NaN")
    if what == COMPLEX:
        raise ValueError("Complex data")
    if what in (DATES, TEXT):
        raise TypeError(
            f"X holds {what}{where} where numbers are required: let a public schema encode them, with "
            "feature_map=TableEncoder(schema), or encode them as numbers first. `erasable schema` drafts one from a "
            "file, and erasable.schemas.draft_schema(X).schema from a data frame: a draft looks at rows, so read it."
        )
    raise TypeError(
        f"X holds cells of type {what}: this argument must be an array of two dimensions, with no strings or objects "
        "in it, only real numbers."
    )


def _narrow(X: MatrixLike) -> Any:
    """CSR with 32-bit indices where they suffice; many estimators of scikit-learn need them."""
    if isinstance(X, np.ndarray) or X.indices.dtype == np.int32 or max(*X.shape, X.nnz) >= 2**31:
        return X
    parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return type(X)(parts, shape=X.shape)


def _finite(X: MatrixLike, *, missing: bool) -> Any:
    """The rows, with repeated entries of CSR added up."""
    if isinstance(X, np.ndarray):
        return X
    X = summed(X)
    if np.isinf(X.data).any() or not (missing or np.isfinite(X.data).all()):
        raise ValueError("Input X contains infinity: entries that are listed several times are added up.")
    return X


def _fit_to_learn(X: DeviceRows, missing: bool) -> DeviceRows:
    """The rows, if all numbers are finite or ``missing``; errors are worded like those of scikit-learn."""
    if X.holds_infinity() if missing else X.unfit():
        nan = X.holds_nan() and not missing
        raise ValueError(f"Input X contains {'NaN' if nan else 'infinity or a value too large'}.")
    return X


def _has_finite_sums(X: object) -> bool:
    """Whether a large array is finite because its sums are; several threads add them up."""
    if type(X) is not np.ndarray or X.dtype not in (np.float32, np.float64) or X.ndim != 2 or X.size < _MANY:
        return False
    step = max(1, _SUMMED // X.shape[1])

    def sums_up(low: int) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.isfinite(np.sum(X[low : low + step])))

    return all(Shared(sums_up, range(0, len(X), step), helpers=min(16, os.cpu_count() or 1) - 1).results())


def _without_values(message: str) -> str:
    """A message of NumPy or scikit-learn about rows without the entries it quotes."""
    if "inhomogeneous" in message:
        return "the rows of X, or entries of y, are inhomogeneous: give all of them the same length."
    if message.startswith("fill value must be 0"):
        return "X has sparse columns whose fill value is not 0: convert it with X.sparse.to_dense()."
    if message.startswith("Input y contains"):
        return "y contains NaN or infinity: give a finite number for every row, or leave such rows out."
    if message.startswith("Input X contains NaN"):  # what follows recommends imputers, which remember rows
        return (
            "Input X contains NaN: linear models of plain numbers take missing entries with "
            'missing="indicator", and a public schema says what stands for them, with '
            "feature_map=TableEncoder(schema). Or fill them with numbers that you know beforehand; an imputer "
            "remembers rows."
        )
    if message.startswith("Unknown label type: continuous"):
        return (
            "Unknown label type: continuous. Labels are classes; numbers are for a regression, ErasableRegressor, with "
            "target_range=."
        )
    if message.startswith("Complex data"):
        return "Complex data not supported: X, and numbers in y, must be real."
    if "not supported between instances" in message or "is ambiguous" in message:
        return "y mixes types or has missing entries: give labels of one type, one for every row."
    return re.sub(r"\s*array=.*?(?=Reshape your data|$)", " ", message, flags=re.DOTALL)
