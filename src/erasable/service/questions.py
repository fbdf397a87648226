"""What a model file is asked, without being changed: it is read anew each time, by whoever is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from erasable.core.names import Spelling
from erasable.models.access import StoredRows, rows_of
from erasable.models.files import read_model
from erasable.models.reports import VerifyReport
from erasable.operations.inspect import inspect
from erasable.service.identities import Identity, keys_in
from erasable.service.suppression import SuppressionList


@dataclass(frozen=True)
class Verified:
    """A state that was found to be what learning its own rows gives.

    Attributes
    ----------
    report : VerifyReport
    guarantee : str
    stores : tuple of bool
        Of each group of identities that was asked about, whether it stores anything of one of them.
    stores_listed : bool
        Whether it stores anything of somebody on the suppression list that was asked about.
    checksum : str
        Of the file that it was read from.
    spelling : mapping
        How its schema declares that names are normalised.
    format_version : int
        Of that file.
    """

    report: VerifyReport
    guarantee: str
    stores: tuple[bool, ...]
    stores_listed: bool
    checksum: str
    spelling: Spelling = field(default_factory=dict)
    format_version: int = 1


#: Verifies the model in a file, and asks it about groups of identities and a suppression list.
Verify = Callable[[str, Sequence[Sequence[Identity]], SuppressionList | None], Verified]


def verified(
    path: str,
    named: Sequence[Sequence[Identity]],
    listed: SuppressionList | None,
    progress: Callable[[int, int], None] | None = None,
) -> Verified:
    """The model in a file, read once: the state that is verified is that which is asked."""
    model, checksum = read_model(path)
    guarantee = " ".join(str(model.guarantee).split())
    report = model.verify(progress)
    stores = tuple(any(keys_in(model, group)) for group in named)
    stores_listed = listed is not None and any(listed.stored_in(model))
    return Verified(report, guarantee, stores, stores_listed, checksum, model.spelling, model.format_version)


def stored_in(path: str, identities: Sequence[Identity]) -> StoredRows:
    """What the model in a file stores of somebody."""
    model, _ = read_model(path)
    return rows_of(model.snapshot(), *keys_in(model, identities))


def digest_in(path: str) -> str:
    """Digest of the state that a file holds."""
    return inspect(path).digest
