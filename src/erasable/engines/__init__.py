"""Where rows are screened: threads and processes, a GPU, a cluster. The state is the same, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from erasable.engines.cluster import Dask
from erasable.engines.device import Torch
from erasable.engines.local import Local
from erasable.errors import ConfigurationError
from erasable.models.passes import Engine

__all__ = ["Dask", "Engine", "Local", "Torch", "engine_of", "opened_engine"]

_ENGINES: dict[str, type[Engine]] = {"local": Local, "torch": Torch, "dask": Dask}


def engine_of(given: object) -> Engine:
    """Return the engine that ``engine=`` names or is; ConfigurationError if it is none."""
    if isinstance(given, Engine):
        return given
    if isinstance(given, str) and given in _ENGINES:
        return _ENGINES[given]()
    shown = repr(given) if isinstance(given, str) and len(given) < 60 else type(given).__name__
    raise ConfigurationError(
        f"engine must be None, {', '.join(map(repr, _ENGINES))} or an engine of erasable.engines; got {shown}."
    )


@contextmanager
def opened_engine(given: object) -> Iterator[Engine]:
    """The engine that ``engine=`` names or is; one that was made from its name is closed afterwards."""
    engine = engine_of(given)
    try:
        yield engine
    finally:
        if engine is not given:
            engine.close()
