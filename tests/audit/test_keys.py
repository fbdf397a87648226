"""Keys: what is written, what is refused, and that nothing is overwritten."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from erasable.audit import keys
from erasable.audit.keys import (
    PrivateKey,
    PublicKey,
    key_files,
    new_key,
    read_passphrase,
    read_private_key,
    read_public_key,
    write_key,
)
from erasable.errors import ConfigurationError, ErasableError, InputError, StoreError

# The first test vector of RFC 8032, section 7.1.
SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
POINT = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
EMPTY_SIGNED = bytes.fromhex(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
    "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)


def known_key():
    return PrivateKey(ed25519.Ed25519PrivateKey.from_private_bytes(SEED))


def other_kind():
    return ec.generate_private_key(ec.SECP256R1())


PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


def test_signatures_are_those_of_rfc_8032():
    assert known_key().public == PublicKey(POINT)
    assert known_key().sign(b"") == EMPTY_SIGNED
    assert PublicKey(POINT).matches(EMPTY_SIGNED, b"")
    assert not PublicKey(POINT).matches(EMPTY_SIGNED, b"x")


def test_the_keyid_is_the_hash_of_the_public_key_info():
    prefix = bytes.fromhex("302a300506032b6570032100")  # RFC 8410: a sequence, the OID 1.3.101.112, a bit string
    assert PublicKey(POINT).keyid == hashlib.sha256(prefix + POINT).hexdigest()


@pytest.mark.parametrize("passphrase", [None, b"correct horse"])
def test_what_is_written_is_read_back(tmp_path, passphrase):
    key = new_key()
    files = write_key(key, tmp_path / "signer", passphrase=passphrase)
    assert (files.private, files.public) == (tmp_path / "signer.pem", tmp_path / "signer.pub.pem")
    assert read_public_key(files.public) == key.public
    assert read_private_key(files.private, passphrase=passphrase).sign(b"m") == key.sign(b"m")
    assert (b"ENCRYPTED" in files.private.read_bytes()) == (passphrase is not None)


def test_new_keys_differ_and_their_public_halves_are_accepted():
    made = [new_key() for _ in range(50)]
    assert all(key.public.matches(key.sign(b"m"), b"m") for key in made)
    assert len({key.public.raw for key in made}) == 50


def test_only_the_owner_reads_the_private_key_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        files = write_key(new_key(), tmp_path / "signer")
    finally:
        os.umask(before)
    assert stat.S_IMODE(files.private.stat().st_mode) == 0o600
    assert b"PRIVATE" not in files.public.read_bytes()


@pytest.mark.parametrize("taken", ["signer.pem", "signer.pub.pem"])
@pytest.mark.parametrize("how", ["file", "dangling link"])
def test_nothing_is_overwritten(tmp_path, taken, how):
    path = tmp_path / taken
    if how == "file":
        path.write_text("mine")
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=f"{taken} exists, and a key is never overwritten"):
        write_key(new_key(), tmp_path / "signer")
    assert os.listdir(tmp_path) == [taken]
    if how == "file":
        assert path.read_text() == "mine"


@pytest.mark.parametrize("which", [1, 2, 3])
def test_a_full_disk_leaves_no_half_written_key(tmp_path, monkeypatch, which):
    calls = []

    def fsync(handle):
        calls.append(handle)
        if len(calls) == which:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(keys.os, "fsync", fsync)
    with pytest.raises(StoreError, match="cannot be written: No space left on device"):
        write_key(new_key(), tmp_path / "signer")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"absent/signer\.pem cannot be written: No such file or directory"):
        write_key(new_key(), tmp_path / "absent" / "signer")


def test_a_name_may_have_its_ending_but_must_be_one():
    assert key_files("a/signer.pem") == key_files("a/signer")
    assert key_files("a/signer.v2").private == Path("a/signer.v2.pem")
    for name in ("", ".", "..", ".pem"):
        with pytest.raises(ConfigurationError, match="a name for the key files is needed"):
            key_files(name)


@pytest.mark.parametrize(
    ("pem", "message"),
    [
        (lambda: known_key().pem(), "must be a public key, and this is a private one"),
        (lambda: other_kind().public_key().public_bytes(PEM, SPKI), "this is one of another kind"),
        (lambda: b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "this is none"),
        (lambda: b"", "this is none"),
    ],
)
def test_what_is_no_public_key_is_refused(pem, message):
    with pytest.raises(InputError, match=message):
        PublicKey.from_pem(pem())


@pytest.mark.parametrize(
    ("pem", "passphrase", "message"),
    [
        (lambda: known_key().public.pem(), None, "must be a private key, and this is a public one"),
        (lambda: known_key().pem(passphrase=b"a"), None, "is protected by a passphrase: give it"),
        (lambda: known_key().pem(passphrase=b"a"), b"b", "or the passphrase is not the right one"),
        (lambda: known_key().pem(), b"b", "has no passphrase, and one was given"),
        (lambda: other_kind().private_bytes(PEM, PKCS8, serialization.NoEncryption()), None, "one of another kind"),
        (lambda: b"nothing", None, "this is none"),
    ],
)
def test_what_is_no_private_key_is_refused(pem, passphrase, message):
    with pytest.raises(InputError, match=message):
        PrivateKey.from_pem(pem(), passphrase=passphrase)


def test_a_missing_or_huge_file_is_an_error_of_ours(tmp_path):
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        read_public_key(tmp_path / "absent.pem")
    (tmp_path / "huge.pem").write_bytes(known_key().public.pem() + b"\n" * 20_000)
    with pytest.raises(InputError, match="too large for a key"):
        read_public_key(tmp_path / "huge.pem")


def test_a_passphrase_is_the_first_line(tmp_path):
    path = tmp_path / "word"
    path.touch(0o600)
    path.write_bytes(b"open sesame\r\nanother line\n")
    assert read_passphrase(path) == b"open sesame"
    for wrong in (b"", b"\nlater", b"x" * 1001):
        path.write_bytes(wrong)
        with pytest.raises(ConfigurationError, match="a passphrase must have 1 to 1000 bytes"):
            read_passphrase(path)
    with pytest.raises(ErasableError, match="1 to 1000 bytes"):
        known_key().pem(passphrase=b"")


def test_a_private_key_shows_nothing_of_itself():
    key = known_key()
    assert repr(key) == f"PrivateKey({key.public.keyid[:16]})"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)


def test_cryptography_is_used_in_one_file_for_receipts_and_in_one_for_opendsr():
    folder = Path(keys.__file__).parents[1]
    users = {path.name for path in folder.rglob("*.py") if "cryptography" in _imports(path)}
    assert users == {"keys.py", "opendsr.py"}


def _imports(path):
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    return {words[1].split(".")[0] for words in lines if len(words) > 1 and words[0] in ("import", "from")}


def test_openssl_reads_both_files(tmp_path):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    files = write_key(new_key(), tmp_path / "signer")
    arguments = [openssl, "pkey", "-in", str(files.private), "-pubout"]
    made = subprocess.run(arguments, capture_output=True, check=True, timeout=300)
    assert made.stdout == files.public.read_bytes()


# -- points of small order ---------------------------------------------------------------------------------------

P = 2**255 - 19
CURVE_D = -121665 * pow(121666, -1, P) % P


def added(one, other):
    """The sum of two points of the curve -x² + y² = 1 + d x² y², by the formula of RFC 8032, section 5.1.4."""
    (a, b), (c, e) = one, other
    t = CURVE_D * a * b * c * e
    return (a * e + b * c) * pow(1 + t, -1, P) % P, (b * e + a * c) * pow(1 - t, -1, P) % P


def point_at(y):
    """A point of this height, or None."""
    square = (y * y - 1) * pow(CURVE_D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    for x in (root, root * pow(2, (P - 1) // 4, P) % P):
        if x * x % P == square:
            return x, y
    return None


def torsion():
    """The eight points whose order divides 8: what is left of a point when its part of prime order is gone."""
    order = 2**252 + 27742317777372353535851937790883648493
    found = set()
    for y in range(2, 40):
        start = point_at(y)
        if start is None:
            continue
        total, power = (0, 1), start
        for bit in range(order.bit_length()):
            if order >> bit & 1:
                total = added(total, power)
            power = added(power, power)
        found.add(total)
        found.add((-total[0] % P, total[1]))
    return found


def encodings(point):
    """Every way to write a point in 32 bytes: both signs, and y or y + p where there is room for it."""
    for y in (point[1], point[1] + P):
        if y < 2**255:
            for sign in (0, 1):
                yield (y | sign << 255).to_bytes(32, "little")


SMALL = sorted({raw for point in torsion() for raw in encodings(point)})


def test_all_points_of_small_order_are_known():
    assert len(torsion()) == 8
    assert len(SMALL) == 14  # y: 0, 1, -1 and two more, with either sign; and p, p + 1 for 0 and 1


@pytest.mark.parametrize("raw", SMALL, ids=bytes.hex)
def test_keys_of_small_order_are_refused_wherever_one_is_read(raw, tmp_path):
    """With the identity as key, the identity and S = 0 are a signature of every message."""
    pem = ed25519.Ed25519PublicKey.from_public_bytes(raw).public_bytes(PEM, SPKI)
    (tmp_path / "k.pub.pem").write_bytes(pem)
    for read in (
        lambda: PublicKey(raw),
        lambda: PublicKey.from_pem(pem),
        lambda: read_public_key(tmp_path / "k.pub.pem"),
    ):
        with pytest.raises(InputError, match="of small order"):
            read()


@pytest.mark.parametrize("y", [*range(P, 2**255)])
def test_a_key_has_one_encoding(y):
    """RFC 8032, section 5.1.3: y must be less than p."""
    for sign in (0, 1):
        with pytest.raises(InputError, match="not written as RFC 8032 says"):
            PublicKey((y | sign << 255).to_bytes(32, "little"))


@pytest.mark.parametrize("raw", [b"", POINT[:31], POINT + b"\0"])
def test_a_key_has_32_bytes(raw):
    with pytest.raises(InputError):
        PublicKey(raw)


@pytest.mark.parametrize("raw", SMALL, ids=bytes.hex)
def test_a_signature_that_begins_with_a_point_of_small_order_matches_nothing(raw):
    """The holder of the key can make such ones: the point, and a times the hash."""
    a = int.from_bytes(hashlib.sha512(SEED).digest()[:32], "little") & (2**254 - 8) | 2**254
    order = 2**252 + 27742317777372353535851937790883648493
    k = int.from_bytes(hashlib.sha512(raw + POINT + b"m").digest(), "little")
    signature = raw + (a * k % order).to_bytes(32, "little")
    assert not PublicKey(POINT).matches(signature, b"m")


# -- who may read a private key ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o620, 0o602, 0o611, 0o677])
def test_secrets_that_others_may_read_or_change_are_refused(tmp_path, mode):
    files = write_key(known_key(), tmp_path / "signer", passphrase=b"word")
    (tmp_path / "word").write_bytes(b"word\n")
    for path, read in (
        (files.private, lambda p: read_private_key(p, passphrase=b"word")),
        (tmp_path / "word", read_passphrase),
    ):
        path.chmod(mode)
        with pytest.raises(StoreError, match=f"has mode {mode:04o}.*chmod 600"):
            read(path)
        for allowed in (0o600, 0o400, 0o700):
            path.chmod(allowed)
            assert read(path)


def test_a_key_lent_by_another_user_may_be_open_to_a_group_and_not_to_all(tmp_path, monkeypatch):
    files = write_key(known_key(), tmp_path / "signer")
    monkeypatch.setattr(keys.os, "geteuid", lambda: files.private.stat().st_uid + 1)
    files.private.chmod(0o440)
    assert read_private_key(files.private).public == PublicKey(POINT)
    files.private.chmod(0o444)
    with pytest.raises(StoreError, match="has mode 0444"):
        read_private_key(files.private)


def test_a_passphrase_may_come_from_a_pipe():
    read, write = os.pipe()
    os.write(write, b"word\n")
    os.close(write)
    try:
        assert read_passphrase(f"/dev/fd/{read}") == b"word"
    finally:
        os.close(read)
