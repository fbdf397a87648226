"""The erasure service over HTTP: OpenDSR, predictions, routes of our own, and a console.

Needs ``pip install 'erasable[service]'``. :func:`~erasable.service.http.app.create_app` makes an ASGI application of an
:class:`~erasable.service.service.ErasureService`; ``erasable serve`` runs it.
"""
