"""Every error this package raises on purpose: one root, and each child is also the matching builtin; and warnings."""

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
    """Rows could not be screened where they were to be: a cluster, a process or a GPU failed. Nothing was saved."""


class NoRowsError(ErasableError, ValueError):
    """The model is valid but holds no core rows, so it has nothing to predict from."""


class VerificationError(ErasableError, AssertionError):
    """A stored state is not what learning its own rows gives."""


class StateFormatError(ErasableError, ValueError):
    """Bytes that should hold a state do not."""


class ChangedMeanwhileError(ErasableError, RuntimeError):
    """The model was changed by another call, or a change was interrupted, while this one was under way."""


class StaleReportError(ErasableError, RuntimeError):
    """A report was asked about a state that has changed since."""


class StoreError(ErasableError, OSError):
    """A file could not be read or written. Unless it is one of its children, what was there before is there, whole."""


class NotErasedError(StoreError):
    """The new content is in place, but what it replaced could not be erased from the disk."""


class UnknownOutcomeError(StoreError):
    """Whether the file holds the new content, for good, could not be found out: it is whole, but before or after."""


class BusyError(StoreError, TimeoutError):
    """Another process or thread is changing the file and did not finish in time. Nothing was changed."""


class UnknownRequestError(ErasableError, LookupError):
    """No request of this id was accepted, or it was purged."""


class ConflictError(ErasableError, ValueError):
    """A request of this id was accepted with another body, or can no longer be cancelled. Nothing was changed."""


class QueueFullError(ErasableError, RuntimeError):
    """As many requests wait as the queue holds; ``retry_after`` says after how many seconds to try again."""

    retry_after: float = 1.0


class ReceiptError(ErasableError, ValueError):
    """A receipt, or what it speaks of, is not what it should be."""


class SignatureError(ReceiptError):
    """A receipt was not signed with the key that was given, or was altered after it was signed."""


class OtherStateError(ReceiptError, VerificationError):
    """A state is not the one that a receipt speaks of."""


class ReceiptNotWrittenError(StoreError):
    """The rows are forgotten, but the receipt could not be written; ``receipt`` is its text."""

    receipt: str = ""


class SortedRowsWarning(UserWarning):
    """Rows that are decided in the order given have labels in long runs."""


class WeakModelWarning(UserWarning):
    """The core set misses a class or holds next to none of its rows, or predictions are no better than a constant."""


class EmptiedClassWarning(UserWarning):
    """Forgetting took the last stored row of a class: the model no longer predicts it. The rows are forgotten."""
