"""A program that has everything imported and runs commands in children, each traced and killed as it is told.

Lines of JSON come in, one for each command: the arguments, and options for strace. One goes out for each: how the child
ended, and whether it said that the command was done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import erasable.audit.scan
import erasable.cli.learn
import erasable.operations.forget
import erasable.operations.learn
import erasable.tables  # noqa: F401
from erasable.cli.app import run


def child(arguments: list[str], go: int, said: int) -> None:
    os.read(go, 1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    code = run(arguments)
    if code == 0:
        os.write(said, b"acknowledged")
    os._exit(code)


def serve(order: dict[str, list[str]]) -> dict[str, object]:
    go, start = os.pipe()
    said, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(order["arguments"], go, say)
    os.close(say)
    tracer = subprocess.Popen(["strace", "-f", "-qq", *order["strace"], "-p", str(pid)], stderr=subprocess.DEVNULL)
    while "TracerPid:\t0" in Path(f"/proc/{pid}/status").read_text():
        time.sleep(0.002)
        if tracer.poll() is not None:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return {"trouble": "strace may not attach to programs here"}
    os.write(start, b".")
    _, status = os.waitpid(pid, 0)
    tracer.wait()
    words = os.read(said, 100).decode()
    for descriptor in (go, start, said):
        os.close(descriptor)
    return {"code": os.waitstatus_to_exitcode(status), "acknowledged": words == "acknowledged"}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(serve(json.loads(line))), flush=True)
