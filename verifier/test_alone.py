"""Tests of the auditor's tool by itself: the standard library, and the files in ``example``.

    python test_alone.py

The tests that compare it with erasable are in tests/verifier of the repository of erasable.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

import erasable_verify

EXAMPLE = Path(__file__).parent / "example"
MODEL, RECEIPT, KEY = (str(EXAMPLE / name) for name in ("model.erasable", "receipt.json", "signer.pub.pem"))
# RFC 8032, section 7.1, the third test vector.
PUBLIC = bytes.fromhex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025")
SIGNATURE = bytes.fromhex(
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
)


def run(*arguments: str) -> tuple[int, dict[str, object]]:
    """Exit code and report."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = erasable_verify.main(["--json", *arguments])
    return code, json.loads(printed.getvalue())


class Alone(unittest.TestCase):
    """What an auditor does with it."""

    def test_no_package_is_imported(self) -> None:
        """Every module comes with Python."""
        names = {name.split(".")[0] for name in vars(erasable_verify) if name in sys.modules}
        self.assertLessEqual(names, sys.stdlib_module_names)
        self.assertNotIn("cryptography", sys.modules)

    def test_a_signature_of_the_standard(self) -> None:
        """The signature fits its message, and no other."""
        self.assertTrue(erasable_verify.is_signed(PUBLIC, SIGNATURE, b"\xaf\x82"))
        self.assertFalse(erasable_verify.is_signed(PUBLIC, SIGNATURE, b"\xaf\x83"))
        for place in range(64):
            altered = bytearray(SIGNATURE)
            altered[place] ^= 1
            self.assertFalse(erasable_verify.is_signed(PUBLIC, bytes(altered), b"\xaf\x82"))

    def test_a_model_and_a_receipt_hold(self) -> None:
        """Alone and together."""
        self.assertEqual(run(MODEL)[0], 0)
        self.assertEqual(run("--receipt", RECEIPT, "--key", KEY)[0], 0)
        code, found = run("--receipt", RECEIPT, "--key", KEY, MODEL)
        self.assertEqual((code, found["verified"], found["signed"], found["same_state"]), (0, True, True, True))

    def test_altered_files_do_not_hold(self) -> None:
        """A byte of the model, a character of the receipt."""
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder, "other")
            other.write_bytes(Path(MODEL).read_bytes()[:-1] + b"!")
            self.assertEqual(run(str(other))[0], 4)
            text = Path(RECEIPT).read_text(encoding="utf-8")
            other.write_text(text.replace('"payload":"ey', '"payload":"fy'), encoding="utf-8")
            self.assertEqual(run("--receipt", str(other), "--key", KEY)[0], 3)
            self.assertEqual(run("--receipt", str(other) + "?", "--key", KEY)[0], 5)


if __name__ == "__main__":
    unittest.main()
