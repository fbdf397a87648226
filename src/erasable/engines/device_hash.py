"""PyTorch, which is optional, and its devices; ids hashed on a device: integers there, texts by the processor."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from erasable.core.names import Hashes, keyed_hash, salt_of, sip, sip_starts
from erasable.errors import EngineError
from erasable.models.inputs import Column
from erasable.validation import optional_module

if TYPE_CHECKING:
    import torch

Tensor: TypeAlias = "torch.Tensor"
Device: TypeAlias = "torch.device"
_FEWEST = 2**12  # ids: fewer are hashed here
_LOOKED_AT = 64  # ids that are hashed here too


def pytorch() -> ModuleType:
    """The module torch; ConfigurationError if it is not installed."""
    return optional_module("torch", "engine= torch needs PyTorch: pip install 'erasable[torch]'.")


def torch_device(name: str | None) -> Device:
    """The device that a name stands for; by default a GPU, where there is one.

    Raises RuntimeError when PyTorch knows no such device.
    """
    torch = pytorch()
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


class DeviceHash:
    """``core.names.keyed_hash`` on a device, bit for bit. It can be sent; the first hashes of each are compared."""

    def __init__(self, device: str | None) -> None:
        self.device = device
        self._lock = threading.Lock()  # many small steps: threads that take turns at each wait for each other
        self._compared = False

    def __reduce__(self) -> tuple[type[DeviceHash], tuple[str | None]]:
        return DeviceHash, (self.device,)

    def __call__(self, ids: Column, key: int) -> Hashes:
        """As ``keyed_hash`` has it.

        Raises EngineError when the device computes otherwise than this process.
        """
        if not isinstance(ids, np.ndarray | range) or len(ids) < _FEWEST:
            return keyed_hash(ids, key)
        with self._lock:
            try:
                device = torch_device(self.device)
                found = None if device.type == "cpu" else hashed_there(pytorch(), device, ids, key)
            except (RuntimeError, AssertionError):  # no such device, or no memory there
                found = None
            if found is None:
                return keyed_hash(ids, key)
            if not self._compared and not np.array_equal(found[:_LOOKED_AT], keyed_hash(ids[:_LOOKED_AT], key)):
                raise EngineError("the device hashes ids otherwise than this process does: take another engine.")
            self._compared = True
        return found


def hashed_there(torch: ModuleType, device: Device, ids: Column, key: int) -> Hashes:
    """The hashes of integers, computed on a device."""
    if isinstance(ids, range):
        words = torch.arange(ids.start, ids.stop, ids.step, dtype=torch.int64, device=device)
    else:
        words = torch.tensor(np.ascontiguousarray(ids, dtype=np.int64), device=device)

    def rotate(word: Tensor, by: int) -> None:
        low = word >> (64 - by)  # with copies of the sign before it
        low &= (1 << by) - 1
        word <<= by
        word |= low

    v = [torch.full_like(words, start - (start >> 63 << 64)) for start in sip_starts(salt_of(key))]
    sip(v, words, rotate)
    found: Hashes = v[0].cpu().numpy().view(np.uint64)
    return found
