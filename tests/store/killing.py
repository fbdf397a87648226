"""A program killed at every step of its work, again and again, each time from the same start."""

from __future__ import annotations

import functools
import itertools
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

# What changes files, names or their durability.
WRITING = (
    "write", "pwrite64", "writev", "ftruncate", "fsync", "fdatasync", "link", "linkat", "rename", "renameat",
    "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "fchmod", "fchown", "fsetxattr", "fremovexattr",
)  # fmt: skip

_STRACE = ("strace", "-f", "-qq")

Series = Mapping[str, Callable[[int], Sequence[str]]]


@functools.cache
def strace_trouble() -> str | None:
    """Why strace cannot be used here, or None when it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run([*_STRACE, "-o", "/dev/null", "-e", "trace=write", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "strace may not trace programs here"


def by_strace(argv: Sequence[str], prepare: Callable[[], None]) -> Series:
    """Kill ``argv`` as it enters the n-th system call of each kind in WRITING that a whole run of it makes."""
    prepare()
    # A question mark: not every machine has every call.
    trace = [*_STRACE, "-e", "trace=" + ",".join(f"?{call}" for call in WRITING)]
    run = subprocess.run([*trace, *argv], capture_output=True, text=True, timeout=300, check=True)
    calls = dict.fromkeys(re.findall(r"^(?:\[pid +\d+\] )?(\w+)\(", run.stderr, re.MULTILINE))

    def command(call: str, n: int) -> list[str]:
        kill = f"inject={call}:signal=SIGKILL:when={n}"
        return [*_STRACE, "-o", "/dev/null", "-e", f"trace={call}", "-e", kill, *argv]

    return {call: functools.partial(command, call) for call in calls}


def sweep(series: Series, prepare: Callable[[], None], check: Callable[[bool, str], None]) -> int:
    """How many times the program was killed; ``check`` is told each time whether it had said "acknowledged".

    Parameters
    ----------
    series : mapping of str to callable
        For each way to kill, the command line that is killed at the n-th step; n grows until it ends by itself.
    prepare : callable
        Puts the start back before each run.
    check : callable
        Looks at what is there after each run, given whether the change was acknowledged, and where it was killed.
    """
    kills = 0
    for label, argv in series.items():
        for n in itertools.count(1):
            prepare()
            run = subprocess.run(argv(n), capture_output=True, text=True, timeout=300, check=False)
            assert run.returncode in (0, -signal.SIGKILL), run.stderr
            check("acknowledged" in run.stdout, f"{label}, number {n}")
            if run.returncode == 0:
                break
            kills += 1
    return kills
