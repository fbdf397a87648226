"""The erasure service over HTTP: OpenDSR, predictions in the forms that clients have, and a few routes of our own.

Needs ``pip install 'erasable[service]'``. :func:`~erasable.service.http.app.create_app` makes an ASGI application of an
:class:`~erasable.service.service.ErasureService`; ``erasable serve`` runs it.
"""
