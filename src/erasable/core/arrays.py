"""Kinds of arrays that rows come in: dense, sparse, and in a tensor on a device.

SciPy lets a sparse entry be listed several times and stand for the sum. Finite numbers may add up to
infinity, so checks need the sums: :func:`summed`.

A tensor of PyTorch stays on its device until this process needs its numbers; :func:`on_host` copies them. A tensor that
wants gradients counts as the numbers that it holds. PyTorch is never imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array = npt.NDArray[Any]  # of any type: rows as they came, or as a model stores them
Floats = npt.NDArray[np.floating[Any]]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer[Any]]
Int64s = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.intp]  # of rows
#: Rows as a dense array or a CSR array; the type checker knows no types of SciPy.
Matrix = Any
#: Rows as callers give them: an array, a sparse matrix, a dataframe, a tensor, or what a feature map takes.
MatrixLike = Any
#: Labels, ids, subjects or weights as callers give them: an array, a list or a column.
ColumnLike = Any


def checked_layout(X: Matrix) -> Any:
    """The same CSR or CSC rows without flags that others set, once all positions are known to lie inside.

    Raises ValueError where they do not; SciPy would read or write memory that is not its own.
    """
    X = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    X.check_format(full_check=True)
    return X


def summed(X: Matrix) -> Any:
    """CSR rows with sorted columns, each listed once; those listed several times are added up. ``X`` stays as it is.

    *Law*: the entries are those of ``X.toarray()``, bit for bit: added in the order in which they are listed.
    """
    X = checked_layout(X)
    if X.has_canonical_format:
        return X
    out = X.copy()
    out.sort_indices()
    if out.has_canonical_format:
        return out
    row = rows_of(X)
    order = np.lexsort((X.indices, row))  # stable, which sort_indices is not
    out = type(X)((X.data[order], X.indices[order], X.indptr.copy()), shape=X.shape)
    out.sum_duplicates()
    return out


def rows_of(X: Matrix) -> npt.NDArray[np.intp]:
    """The number of the row of each entry that CSR rows list."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def added_up(values: npt.NDArray[Any], at: npt.NDArray[Any], size: int) -> Float64s:
    """Sums of the values that have one number, for each number below ``size``; in float64."""
    return np.bincount(at, values, size).astype(np.float64, copy=False)


def stacked(batches: Sequence[Any]) -> Any:
    """Batches of rows, one at least, all of them dense or all of them sparse, as one."""
    return sp.vstack(batches, format="csr") if sp.issparse(batches[0]) else np.concatenate(batches)


_FLOATS = {"float16": np.float32, "bfloat16": np.float32, "float32": np.float32, "float64": np.float64}
_SHARED = ("float32", "float64")  # tensors of the processor that are arrays of the same memory
_LOOKED_AT = 2**26  # numbers looked at together


def is_tensor(value: object) -> bool:
    """Whether this is a tensor of PyTorch, on any device."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(value).__mro__)


def on_host(value: Any) -> Any:
    """A tensor, or rows that lie in one, as an array in this process; anything else as it is.

    Numbers of 16 bits become float32, which holds them all.

    Raises TypeError for a sparse tensor.
    """
    if isinstance(value, DeviceRows):
        return value.on_host()
    if not is_tensor(value):
        return value
    dense = _dense(value).cpu()
    return (dense.float() if _kind(dense) == "bfloat16" else dense).numpy()


def _dense(tensor: Any) -> Any:
    if str(tensor.layout) != "torch.strided":
        raise TypeError("sparse tensors are not taken: give a dense one, or a SciPy matrix.")
    return tensor.detach()


def _kind(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


class DeviceRows:
    """Rows of floats in a tensor of two dimensions.

    *Law*: learning from them is learning from what ``on_host`` gives, bit for bit. Pickled, they become an array.
    """

    ndim = 2

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    @classmethod
    def of(cls, value: Any) -> DeviceRows | None:
        """Rows that stay on their device: a tensor of floats on a device, or of 16 bits anywhere; None for others."""
        if not is_tensor(value) or value.ndim != 2 or _kind(value) not in _FLOATS:
            return None
        if value.device.type == "cpu" and _kind(value) in _SHARED:
            return None
        return cls(_dense(value))

    @classmethod
    def joined(cls, parts: Sequence[DeviceRows]) -> DeviceRows:
        """The rows of all parts, on their device."""
        return cls(sys.modules["torch"].cat([part.tensor for part in parts]))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, d = self.tensor.shape
        return n, d

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that the rows have as an array."""
        return np.dtype(_FLOATS[_kind(self.tensor)])

    @property
    def nbytes(self) -> int:
        """The bytes that the rows take as an array."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Matrix) -> DeviceRows:
        if isinstance(rows, slice):
            return DeviceRows(self.tensor[rows])
        index = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows, dtype=np.int64)
        named = sys.modules["torch"].tensor(index, device=self.tensor.device)
        return DeviceRows(self.tensor.index_select(0, named))

    def on_host(self) -> npt.NDArray[Any]:
        """The rows as an array in this process."""
        tensor = self.tensor.cpu()
        array: npt.NDArray[Any] = (tensor.float() if self.dtype == np.float32 else tensor).numpy()
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.on_host(), dtype=dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (self.on_host(),)

    def _blocks(self) -> list[Any]:
        step = max(1, _LOOKED_AT // max(1, self.shape[1]))
        return [self.tensor[low : low + step] for low in range(0, len(self), step)]

    def unfit(self) -> int:
        """How many entries are NaN or infinite.

        *Cost*: one reading where none is, since a sum that is finite has no such term.
        """
        torch = sys.modules["torch"]
        sums = [block.sum(dtype=torch.float64) for block in self._blocks()]
        if not sums or torch.stack(sums).isfinite().all().item():
            return 0
        return sum(int((~block.isfinite()).sum().item()) for block in self._blocks())

    def holds_nan(self) -> bool:
        """Whether one of them is NaN."""
        return any(block.isnan().any().item() for block in self._blocks())

    def holds_infinity(self) -> bool:
        """Whether one of them is infinite."""
        return any(block.isinf().any().item() for block in self._blocks())

    def beyond(self, norm: float) -> DeviceRows:
        """The rows whose norm in float64 is above this; all that exceed it by more than 2**-28 of it are found."""
        torch = sys.modules["torch"]
        far = [block[~(torch.linalg.vector_norm(block.double(), dim=1) <= norm)] for block in self._blocks()]
        return DeviceRows(torch.cat(far)) if far else self
