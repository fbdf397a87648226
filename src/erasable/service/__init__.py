"""The erasure service without its HTTP: durable requests, one writer, receipts, callbacks, warm predictions.

One erasure, file by file: ``service.py`` accepts it, ``ledger.py`` makes it durable, ``worker.py`` carries it out in
every model (``model_files.py``) and signs for it, and ``ledger.py`` has the receipts.
"""
