"""Bodies that are small on the wire and large in memory are refused, and whoever waits for a long one is asked."""

from __future__ import annotations

import io
import json
import re
import signal
from pathlib import Path

import httpx
import numpy as np
import pytest

from erasable.service.http.problems import Refused
from erasable.service.http.rows import read_blocks
from erasable.service.processes import Packed
from erasable.service.tokens import make_token
from tests.service.http.test_process import home, start
from tests.waiting import PATIENCE

pa = pytest.importorskip("pyarrow")
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
LONG = 2**28
__all__ = ["home"]  # a fixture


def streamed(table, compression=None):
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return out.getvalue()


def compressed_bomb():
    """One row with a text of 256 MiB of zeros, in some 30 kB."""
    zeros, ends = pa.py_buffer(np.zeros(LONG, np.uint8)), pa.py_buffer(np.array([0, LONG], np.int64))
    numbers = {name: pa.array([1.0]) for name in "abcd"}
    text = pa.LargeStringArray.from_buffers(1, ends, zeros)
    return streamed(pa.table({**numbers, "label": text}), "zstd")


def dictionary_bomb(n=50_000):
    """One text of a megabyte that stands in every row."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array(["x" * 2**20]))
    numbers = {name: pa.array(np.ones(n)) for name in "abcd"}
    return streamed(pa.table({**numbers, "label": text}))


def most_memory(process):
    """The most memory that a process and its children have taken, in bytes."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    pids = [process.pid, *(int(pid) for task in tasks for pid in task.read_text().split())]
    found = [re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()) for pid in pids]
    return sum(int(one[1]) for one in found) * 1024


@pytest.mark.parametrize("columns", [1, 100])
def test_bits_are_refused_where_they_would_be_too_many_bytes_as_numbers(columns):
    names = ",".join(f"f{i}" for i in range(columns))
    body = (f"{names},label\n" + f"{'0,' * columns}true\n{'1,' * columns}false\n" * 10_000).encode()
    most, handed = 2**20, []
    given = "text/csv", Packed(body), None, {"label": "label"}, (), most, 20_000
    if columns == 1:
        read_blocks(*given, lambda *blocks: handed.extend(blocks))
        assert sum(len(block.opened().y) for block in handed) == 20_000
    else:
        with pytest.raises(Refused, match="as numbers") as refused:
            read_blocks(*given, lambda *blocks: handed.extend(blocks))
        assert refused.value.status == 413
    assert sum(len(bytes(block)) for block in handed) <= 2 * most


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="how much memory a process took is read from /proc")
def test_a_bomb_takes_no_memory_of_a_service(home):
    folder, port = home
    token = make_token(folder / "service" / "tokens.json", "pipeline", ["learn"])
    bombs = [compressed_bomb(), dictionary_bomb()]
    assert max(map(len, bombs)) < 4 * 2**20
    process = start(folder, port)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http:
            http.headers["Authorization"] = f"Bearer {token}"
            row = "a,b,c,d,label,id\n1,1,1,1,yes,new\n"
            learnt = http.post("/v1/learn?id=id", content=row, headers={"Content-Type": "text/csv"})
            assert (learnt.status_code, learnt.json()["rows"]) == (200, 1)
            before = most_memory(process)
            for bomb in bombs:
                answer = http.post("/v1/learn", content=bomb, headers=ARROW)
                assert (answer.status_code, answer.json()["detail"]) == (415, "give application/jsonl or text/csv.")
                # What it is read as does not depend on its bytes.
                for kind in ("text/csv", "application/jsonl"):
                    answer = http.post("/v1/learn", content=bomb, headers={"Content-Type": kind})
                    assert answer.status_code == 400
            assert most_memory(process) - before < 100 * 2**20
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def read_lines(body, most_rows, most_bytes=2**20):
    """How often a sign of life came, and how many rows."""
    calls = []
    read_blocks(
        "application/jsonl", Packed(body), None, {"label": "label"}, (), most_bytes, most_rows,
        lambda *blocks: calls.append(blocks),
    )  # fmt: skip
    return len(calls), sum(len(block.opened().y) for blocks in calls for block in blocks)


def test_lines_that_lack_what_the_first_one_has_are_refused_where_they_would_be_too_many_cells():
    names = {f"f{i}": 0 for i in range(100)} | {"label": True}
    first = json.dumps(names).encode() + b"\n"
    with pytest.raises(Refused, match="cells") as refused:
        read_lines(first + b"{}\n" * 10_000, 20_000)
    assert refused.value.status == 413
    few = 2**20 // 8 // len(names)
    assert read_lines(first * few, few, 2**20)[1] == few


def test_while_lines_become_columns_whoever_waits_is_asked():
    line = json.dumps({f"f{i}": 0 for i in range(50)} | {"label": True}).encode() + b"\n"
    calls, rows = read_lines(line * 5000, 5000, 2**22)
    assert rows == 5000
    assert calls > 10 + 4  # one for 500 lines each, and for 50,000 cells each; the block itself is one


def test_lines_are_counted_as_they_are_read_and_empty_ones_are_none(monkeypatch):
    line = b'{"a": 1, "label": true}\n'
    assert read_lines(b"\r\n \n" + line * 3 + b"\n" * 5000 + line.strip(), 4)[1] == 4
    read = []
    loads = json.loads
    monkeypatch.setattr("json.loads", lambda *given, **options: read.append(1) or loads(*given, **options))
    with pytest.raises(Refused, match="at most 4 rows"):
        read_lines(line * 10_000, 4)
    assert len(read) == 4
