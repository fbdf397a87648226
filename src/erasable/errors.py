"""All errors and warnings of this package. Errors have one root, and each is also the matching builtin."""

from __future__ import annotations


class ErasableError(Exception):
    """Root of all errors raised by ``erasable``."""


class InputError(ErasableError, ValueError):
    """The rows, labels, ids or subjects handed in cannot be used. Nothing was changed."""


class InputTypeError(ErasableError, TypeError):
    """An argument has a type that cannot be used. Nothing was changed."""


class ConfigurationError(ErasableError, ValueError):
    """A parameter, or a combination of parameters, cannot work. Nothing was changed."""


class ExactnessError(ErasableError, OverflowError):
    """The exact sums would outgrow what float64 holds exactly. Nothing was changed."""


class EngineError(ErasableError, RuntimeError):
    """A cluster, a process or a GPU failed while it screened rows. Nothing was saved."""


class NoRowsError(ErasableError, ValueError):
    """The model holds no core rows, so it cannot predict."""


class VerificationError(ErasableError, AssertionError):
    """A stored state is not what learning its own rows gives."""


class StateFormatError(ErasableError, ValueError):
    """The bytes are not a valid state."""


class ChangedMeanwhileError(ErasableError, RuntimeError):
    """The model was changed by another call meanwhile, or a change of it was interrupted."""


class StaleReportError(ErasableError, RuntimeError):
    """The state that a report describes has changed since."""


class StoreError(ErasableError, OSError):
    """A file could not be read or written. Except for subclasses of this error, its old content is intact."""


class NotErasedError(StoreError):
    """The file has its new content, but the old content could not be erased from the disk."""


class UnknownOutcomeError(StoreError):
    """The file holds either its old or its new content, intact; which of them could not be determined."""


class BusyError(StoreError, TimeoutError):
    """Another process or thread is changing the file and did not finish in time. Nothing was changed."""


class UnsignedError(BusyError):
    """Rows belong to a person whose erasure has no receipt yet: it has to be signed first. Nothing was changed."""


class UnknownRequestError(ErasableError, LookupError):
    """No request with this id was accepted, or it was purged."""


class ConflictError(ErasableError, ValueError):
    """A request with this id was accepted with another body, or can no longer be cancelled. Nothing was changed."""


class QueueFullError(ErasableError, RuntimeError):
    """The queue of requests is full; try again after ``retry_after`` seconds."""

    retry_after: float = 1.0


class ReceiptError(ErasableError, ValueError):
    """A receipt is invalid, or does not match what it certifies."""


class SignatureError(ReceiptError):
    """A receipt was not signed with the given key, or was altered afterwards."""


class OtherStateError(ReceiptError, VerificationError):
    """A state is not the one that a receipt certifies."""


class ReceiptNotWrittenError(StoreError):
    """The rows are forgotten, but the receipt could not be written; ``receipt`` is its text."""

    receipt: str = ""


class SortedRowsWarning(UserWarning):
    """Rows are decided in the given order, and their labels come in long runs."""


class WeakModelWarning(UserWarning):
    """The core set has few or no rows of a class, or predictions are no better than a constant."""


class EmptiedClassWarning(UserWarning):
    """The last stored row of a class was forgotten, so the model no longer predicts that class."""
