"""The erasure service without its HTTP: requests that last, one writer, receipts, callbacks, warm predictions.

What speaks HTTP holds one :class:`~erasable.service.service.ErasureService` and calls nothing else of this room but
:mod:`~erasable.service.tokens`.
"""
