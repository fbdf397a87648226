"""PyTorch, which is optional: the one place that imports it, and its devices."""

from __future__ import annotations

from typing import Any

from erasable.errors import ConfigurationError


def pytorch() -> Any:
    """The module torch.

    Raises
    ------
    ConfigurationError
        When it is not installed.
    """
    try:
        import torch
    except ImportError:
        problem = "engine= torch needs PyTorch: pip install 'erasable[torch]'."
    else:
        return torch
    raise ConfigurationError(problem)


def torch_device(name: str | None) -> Any:
    """The device that a name stands for; by default a GPU, where there is one.

    Raises
    ------
    RuntimeError
        When PyTorch knows no such device.
    """
    torch = pytorch()
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
