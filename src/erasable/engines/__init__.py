"""Where rows are screened: threads and processes here, a GPU, a cluster. The state is the same, bit for bit."""

from erasable.engines.choosing import chosen, engine_of
from erasable.engines.cluster import Dask
from erasable.engines.device import Torch
from erasable.engines.local import Local
from erasable.models.passes import Engine

__all__ = ["Dask", "Engine", "Local", "Torch", "chosen", "engine_of"]
