"""Ed25519 keys: make, write and read them, sign and check signatures.

Only this file and the OpenDSR routes of the service use ``cryptography``. A private key is written once, readable by
its owner alone, and never overwrites anything.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from erasable.errors import ConfigurationError, InputError, StoreError
from erasable.store import REAL_DISK, check_private

_LARGEST_FILE = 16_384  # an Ed25519 key in PEM takes a few hundred bytes
_LONGEST_PASSPHRASE = 1000
_P = 2**255 - 19  # the field that points have their coordinates in


@dataclass(frozen=True)
class PublicKey:
    """A key that checks signatures. It is no secret.

    Raises InputError if no private key can have this point: with one of small order, one signature fits many
    statements.

    Parameters
    ----------
    raw : bytes of length 32
        The point, as RFC 8032 encodes it.
    """

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != 32 or not _has_large_order(self.raw):
            raise InputError(
                "the key to check with must be the public half of an Ed25519 key, and no private key has this one (it "
                "is of small order, or not written as RFC 8032 says): do not trust who gave it to you."
            )

    @classmethod
    def from_pem(cls, pem: bytes) -> PublicKey:
        """Return the key in a PEM text (SubjectPublicKeyInfo); InputError if it holds something else."""
        if b"PRIVATE KEY" in pem:
            raise InputError(
                "the key to check with must be a public key, and this is a private one: give the .pub.pem file that "
                "was written with it, and keep this one secret."
            )
        try:
            key = serialization.load_pem_public_key(pem)
        except (TypeError, ValueError, UnsupportedAlgorithm):
            raise InputError("the key to check with must be an Ed25519 public key in PEM, and this is none.") from None
        if not isinstance(key, Ed25519PublicKey):
            raise InputError("the key to check with must be an Ed25519 public key, and this is one of another kind.")
        return cls(key.public_bytes_raw())

    @property
    def keyid(self) -> str:
        """SHA-256 of the SubjectPublicKeyInfo in DER, as 64 hexadecimal digits."""
        der = self._key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(der).hexdigest()

    def pem(self) -> bytes:
        """Return the key as PEM (SubjectPublicKeyInfo)."""
        return self._key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def matches(self, signature: bytes, message: bytes) -> bool:
        """Return whether the holder of the private key signed exactly this message with this signature."""
        if not _has_large_order(signature[:32]):  # a signature begins with a point, too
            return False
        try:
            self._key().verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def __repr__(self) -> str:
        return f"PublicKey({self.keyid[:16]})"

    def _key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.raw)


def _has_large_order(raw: bytes) -> bool:
    """Return whether a point is in canonical form and not one of the eight whose order divides 8.

    Those are the points with y = 0, y = 1 or y = -1, and those that doubling brings to y = 0: x² = -y², which in
    the equation of the curve, -x² + y² = 1 + d x² y² with d = -121665 / 121666, leaves d y⁴ + 2 y² = 1.
    """
    y = int.from_bytes(raw, "little") % 2**255  # the highest bit is the sign of x
    square = y * y % _P
    return y < _P and y * (square - 1) * (121665 * square * square - 2 * 121666 * square + 121666) % _P != 0


class PrivateKey:
    """A key that signs. Made by :func:`new_key` or read by :func:`read_private_key`."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def from_pem(cls, pem: bytes, *, passphrase: bytes | None = None) -> PrivateKey:
        """Return the key in a PEM text (PKCS 8); InputError if it holds none, or the passphrase does not fit."""
        if b"PRIVATE KEY" not in pem and b"PUBLIC KEY" in pem:
            raise InputError(
                "the key to sign with must be a private key, and this is a public one: give the .pem file."
            )
        try:
            key = serialization.load_pem_private_key(pem, password=passphrase)
        except TypeError:  # what cryptography raises for a passphrase too few or too many
            if passphrase is None:
                raise InputError("the private key is protected by a passphrase: give it too.") from None
            raise InputError("the private key has no passphrase, and one was given: leave it out.") from None
        except (ValueError, UnsupportedAlgorithm):
            reason = "this is none" if passphrase is None else "this is none, or the passphrase is not the right one"
            raise InputError(f"the key to sign with must be an Ed25519 private key in PEM; {reason}.") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise InputError("the key to sign with must be an Ed25519 private key, and this is one of another kind.")
        return cls(key)

    @property
    def public(self) -> PublicKey:
        """The public half."""
        return PublicKey(self._key.public_key().public_bytes_raw())

    def pem(self, *, passphrase: bytes | None = None) -> bytes:
        """Return the key as PEM (PKCS 8), encrypted if there is a passphrase."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase is not None:
            _check_passphrase(passphrase)
            encryption = serialization.BestAvailableEncryption(passphrase)
        return self._key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes; the same one every time."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.keyid[:16]})"

    def __reduce__(self) -> str:
        raise TypeError("a private key is not pickled: write it with write_key.")


@dataclass(frozen=True)
class KeyFiles:
    """Where a pair of keys was written."""

    private: Path
    public: Path


def new_key() -> PrivateKey:
    """Return a new private key.

    Examples
    --------
    >>> from erasable.audit.keys import new_key
    >>> key = new_key()
    >>> key.public.matches(key.sign(b"gone"), b"gone")
    True
    >>> key.public.matches(key.sign(b"gone"), b"not gone")
    False
    """
    return PrivateKey(Ed25519PrivateKey.generate())


def write_key(key: PrivateKey, name: str | Path, *, passphrase: bytes | None = None) -> KeyFiles:
    """Write ``NAME.pem``, readable by its owner alone, and ``NAME.pub.pem``; both are on the disk on return.

    Raises StoreError if either file exists or cannot be written. Nothing is overwritten and nothing half-written stays.
    """
    files = key_files(name)
    made: list[Path] = []
    path, private = files.private, key.pem(passphrase=passphrase)
    try:
        for path, data, mode in ((files.private, private, 0o600), (files.public, key.public.pem(), 0o644)):
            handle = REAL_DISK.create(str(path), mode)
            made.append(path)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                REAL_DISK.fsync(file.fileno())
        REAL_DISK.fsync_folder(str(path.parent))
    except BaseException as error:
        for each in made:  # the key signed nothing yet
            each.unlink()
        if isinstance(error, FileExistsError):
            problem = f"{path} exists, and a key is never overwritten: choose another name, or move that file away."
            raise StoreError(problem) from None
        if isinstance(error, OSError):
            raise StoreError(f"{path} cannot be written: {error.strerror}.") from None
        raise
    return files


def key_files(name: str | Path) -> KeyFiles:
    """Return the paths of the key files of a name, with or without the ending ``.pem``."""
    path = Path(name)
    stem = path.name.removesuffix(".pem")
    if stem in ("", ".."):
        raise ConfigurationError(f"a name for the key files is needed, such as signer; got {str(name)!r}.")
    return KeyFiles(path.with_name(stem + ".pem"), path.with_name(stem + ".pub.pem"))


def read_public_key(path: str | Path) -> PublicKey:
    """Return the public key in a PEM file.

    Raises StoreError or InputError if the file cannot be read, or holds no such key.
    """
    return PublicKey.from_pem(_read(Path(path))[0])


def read_private_key(path: str | Path, *, passphrase: bytes | None = None) -> PrivateKey:
    """Return the private key in a PEM file.

    Raises StoreError or InputError if the file cannot be read, others may read or change it, it holds no such key, or
    the passphrase is wrong.
    """
    data, facts = _read(Path(path))
    key = PrivateKey.from_pem(data, passphrase=passphrase)
    _refuse_open_to_others(Path(path), facts)
    return key


def read_passphrase(path: str | Path) -> bytes:
    """Return the first line of a file; StoreError if others may read or change the file."""
    data, facts = _read(Path(path))
    line = data.split(b"\n", 1)[0].removesuffix(b"\r")
    _check_passphrase(line)
    _refuse_open_to_others(Path(path), facts)
    return line


def _check_passphrase(passphrase: bytes) -> None:
    """Raise ConfigurationError if a passphrase is empty or too long."""
    if not 1 <= len(passphrase) <= _LONGEST_PASSPHRASE:
        raise ConfigurationError(
            f"a passphrase must have 1 to {_LONGEST_PASSPHRASE} bytes; this one has {len(passphrase)}."
        )


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a small file, and the facts about it."""
    try:
        with open(path, "rb") as file:
            data, facts = file.read(_LARGEST_FILE + 1), os.fstat(file.fileno())
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}.") from None
    if len(data) > _LARGEST_FILE:
        raise InputError(f"{path} is too large for a key: at most {_LARGEST_FILE} bytes are read.")
    return data, facts


def _refuse_open_to_others(path: Path, facts: os.stat_result) -> None:
    """Raise StoreError if other users may read or change a file that is no pipe."""
    if stat.S_ISREG(facts.st_mode):
        why = "such a user can sign in your name. Take their rights away (chmod 600), and make a new key if they may"
        check_private(path, facts, f"{why} have looked.")
