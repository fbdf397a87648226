"""Rows in a tensor of PyTorch, as a rule on a GPU: they stay there until somebody needs them here. Imports none of it.

Slices and picks are made where the tensor is; :func:`here` copies. Nothing is learnt *through* rows, so a tensor that
wants gradients is taken as the numbers that it holds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_FLOATS = {"float16": np.float32, "bfloat16": np.float32, "float32": np.float32, "float64": np.float64}
_SHARED = ("float32", "float64")  # tensors of the processor that are arrays of the same memory
_LOOKED_AT = 2**26  # numbers looked at together


def is_tensor(value: Any) -> bool:
    """Whether this is a tensor of PyTorch, wherever it lies."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(value).__mro__)


def here(value: Any) -> Any:
    """A tensor, or rows that lie in one, as an array in this process; anything else as it is.

    Numbers of 16 bits become float32, which holds them all.

    Raises
    ------
    TypeError
        For a sparse tensor.
    """
    if isinstance(value, DeviceRows):
        return value.here()
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

    *Law*: whoever learns from them learns what ``here`` gives, bit for bit. Sent to another process they are an array.
    """

    ndim = 2

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    @classmethod
    def of(cls, value: Any) -> DeviceRows | None:
        """Rows to be left where they lie: a tensor of floats on a device, or of 16 bits anywhere; None for others."""
        if not is_tensor(value) or value.ndim != 2 or _kind(value) not in _FLOATS:
            return None
        if value.device.type == "cpu" and _kind(value) in _SHARED:
            return None
        return cls(_dense(value))

    @classmethod
    def joined(cls, parts: Sequence[DeviceRows]) -> DeviceRows:
        """The rows of all parts, where they lie."""
        return cls(sys.modules["torch"].cat([part.tensor for part in parts]))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, d = self.tensor.shape
        return n, d

    @property
    def dtype(self) -> np.dtype[Any]:
        """What they are as an array."""
        return np.dtype(_FLOATS[_kind(self.tensor)])

    @property
    def nbytes(self) -> int:
        """As an array."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> DeviceRows:
        if isinstance(rows, slice):
            return DeviceRows(self.tensor[rows])
        index = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows, dtype=np.int64)
        named = sys.modules["torch"].tensor(index, device=self.tensor.device)
        return DeviceRows(self.tensor.index_select(0, named))

    def here(self) -> npt.NDArray[Any]:
        """The rows as an array in this process."""
        tensor = self.tensor.cpu()
        array: npt.NDArray[Any] = (tensor.float() if self.dtype == np.float32 else tensor).numpy()
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.here(), dtype=dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (self.here(),)

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

    def beyond(self, norm: float) -> DeviceRows:
        """Those whose norm, computed in float64, is above this: all whose norm is by more than 2**-28 of it."""
        torch = sys.modules["torch"]
        far = [block[~(torch.linalg.vector_norm(block.double(), dim=1) <= norm)] for block in self._blocks()]
        return DeviceRows(torch.cat(far)) if far else self
