"""Other systems: what Windows can do, and how macOS makes bytes durable; as far as fakes can show it on Linux.

The first test also runs on Windows itself.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from erasable.errors import StoreError
from erasable.store import _disk

KEPT = Path(__file__).parents[1] / "formats" / "linear-v1.erasable"

# Everything that Windows does not have is taken away before erasable is imported; packages of others come first.
WINDOWS = """
import os, sys
import numpy, scipy.linalg, scipy.sparse, sklearn.base, sklearn.utils.validation, sklearn.linear_model, sklearn.metrics
import typer, rich.console, rich.table, cryptography.hazmat.primitives.asymmetric.ed25519, flint, jinja2
if sys.platform != "win32":
    missing = "O_CLOEXEC O_NOFOLLOW O_NONBLOCK O_DIRECTORY fchmod fchown chown pread pwrite geteuid getuid getegid"
    missing += " getgid listxattr getxattr setxattr removexattr fork register_at_fork sched_setaffinity"
    for name in missing.split():
        if hasattr(os, name):
            delattr(os, name)
    for module in ("fcntl", "pwd", "grp", "resource", "termios"):
        sys.modules[module] = None
    sys.platform = "win32"
"""
READING = """
from erasable import load, verify
from erasable.cli.app import run
import erasable.errors
path = sys.argv[1]
model = load(path)
model.predict(numpy.zeros((2, model.n_features_in_)))
verify(model)
assert run(["verify", path]) == 0
assert run(["inspect", path]) == 0
print("read")
"""
WRITING = """
model.forget(ids=model.core_ids_[:1])  # in memory
for write in (
    lambda: model.save("other.erasable"),
    lambda: model.save(path),
):
    try:
        write()
    except erasable.errors.StoreError as error:
        assert "Linux and macOS" in str(error) and "Windows" in str(error), error
    else:
        raise AssertionError("it was written")
assert run(["forget", path, "--id", "1"]) == 5
assert run(["keys", "new", "-o", "signer"]) == 5
assert run(["schema", "t.csv", "--label", "y", "-o", "schema.toml"]) == 5
print("refused", *sorted(os.listdir()))
"""


def test_windows_reads_and_refuses_to_write(tmp_path):
    path = tmp_path / "m.erasable"
    path.write_bytes(KEPT.read_bytes())
    (tmp_path / "t.csv").write_text("a,y\n" + "1,no\n2,yes\n" * 30)
    done = subprocess.run(
        [sys.executable, "-c", WINDOWS + READING + WRITING, str(path)],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "read\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "refused m.erasable t.csv"  # no lock, key or hidden file is left
    assert path.read_bytes() == KEPT.read_bytes()


class MacOS:
    """The module ``fcntl`` as macOS has it, for this test: it writes down what it was asked."""

    F_FULLFSYNC, LOCK_EX, LOCK_NB, LOCK_UN = 51, 2, 4, 8

    def __init__(self, error=0):
        self.asked, self.error = [], error

    def fcntl(self, descriptor, command):
        self.asked.append(command)
        if self.error:
            raise OSError(self.error, os.strerror(self.error))


@pytest.fixture
def macos(monkeypatch):
    def fake(error=0):
        made, synced = MacOS(error), []
        monkeypatch.setattr(_disk, "fcntl", made, raising=False)
        monkeypatch.setattr(_disk.sys, "platform", "darwin")
        monkeypatch.setattr(_disk.os, "fsync", synced.append)
        return made, synced

    return fake


@pytest.mark.parametrize("error", [0, errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_macos_flushes_the_cache_of_the_drive_where_it_can(macos, error):
    made, synced = macos(error)
    _disk.REAL_DISK.fsync(7)
    assert made.asked == [MacOS.F_FULLFSYNC]
    assert synced == ([7] if error else [])


def test_macos_reports_a_flush_that_failed(macos):
    _, synced = macos(errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        _disk.REAL_DISK.fsync(7)
    assert synced == []


@pytest.mark.parametrize("system", ["win32", "wasi", "emscripten"])
def test_other_systems_are_refused_before_anything_is_created(tmp_path, monkeypatch, system):
    monkeypatch.setattr(_disk.sys, "platform", system)
    for make in (_disk.REAL_DISK.open_lock, _disk.REAL_DISK.open_to_append, lambda p: _disk.REAL_DISK.create(p, 0o600)):
        with pytest.raises(StoreError, match="Linux and macOS") as caught:
            make(str(tmp_path / "f"))
        assert caught.value.errno == errno.ENOTSUP
    assert list(tmp_path.iterdir()) == []
