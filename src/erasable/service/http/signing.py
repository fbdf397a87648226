"""Signatures of OpenDSR answers and callbacks: RSA over the raw body, as its clients check them.

Receipts are signed with Ed25519, which is another key with another purpose.
"""

from __future__ import annotations

import base64
import os
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from erasable.errors import ConfigurationError


class Signer:
    """Signs bodies with RSA (PKCS #1 v1.5, SHA-256) and shows the certificate.

    Parameters
    ----------
    certificate, key : str or path
        PEM files: the certificate, with what leads to a trusted authority behind it, and its private key.

    Raises
    ------
    ConfigurationError
        When they cannot be read, do not belong together, or the key is no RSA key of 2,048 bits or more.
    """

    def __init__(self, certificate: str | os.PathLike[str], key: str | os.PathLike[str]) -> None:
        try:
            self.certificate = Path(certificate).read_bytes()
            shown = x509.load_pem_x509_certificate(self.certificate)
            private = load_pem_private_key(Path(key).read_bytes(), None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise ConfigurationError(
                f"the certificate and key of OpenDSR cannot be read ({type(error).__name__}): PEM files are required, "
                "the key not encrypted."
            ) from error
        if not isinstance(private, rsa.RSAPrivateKey) or private.key_size < 2048:
            raise ConfigurationError("OpenDSR answers are signed with RSA: a key of 2,048 bits or more is required.")
        public = shown.public_key()
        if not isinstance(public, rsa.RSAPublicKey) or public.public_numbers() != private.public_key().public_numbers():
            raise ConfigurationError(
                "the OpenDSR certificate is not that of the key: give the two that belong together."
            )
        self._private, self._certificate = private, shown

    def is_issued_to(self, domain: str) -> bool:
        """Whether the certificate names a domain, by itself or as ``*.`` and what follows its first point."""
        names = {str(name.value) for name in self._certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)}
        with suppress(x509.ExtensionNotFound):
            others = self._certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            names.update(others.get_values_for_type(x509.DNSName))
        return not names.isdisjoint({domain, f"*.{domain.partition('.')[2]}"})

    def signature(self, body: bytes) -> str:
        """Base64 of the signature over the body's bytes."""
        return base64.b64encode(self._private.sign(body, padding.PKCS1v15(), hashes.SHA256())).decode()
