"""Arrow streams that are small on the wire and large in memory are refused before they are unpacked."""

from __future__ import annotations

import io
import json
import re
import signal
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable.errors import InputError
from erasable.service.http import rows as unpacking
from erasable.service.http.problems import Refused
from erasable.service.http.rows import check_unpacked, read_blocks
from erasable.service.processes import Packed
from erasable.service.tokens import make_token
from tests.service.http.test_process import home, start
from tests.waiting import PATIENCE

pa = pytest.importorskip("pyarrow")
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
GIB = 2**30
__all__ = ["home"]  # a fixture


def streamed(table, compression=None, rows=None):
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return out.getvalue()


def compressed_bomb():
    """One row with a text of a gibibyte of zeros, in some 100 kB."""
    zeros, ends = pa.py_buffer(np.zeros(GIB, np.uint8)), pa.py_buffer(np.array([0, GIB], np.int64))
    numbers = {name: pa.array([1.0]) for name in "abcd"}
    text = pa.LargeStringArray.from_buffers(1, ends, zeros)
    return streamed(pa.table({**numbers, "label": text}), "zstd")


def dictionary_bomb(n=50_000):
    """One text of a megabyte that stands in every row."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array(["x" * 2**20]))
    numbers = {name: pa.array(np.ones(n)) for name in "abcd"}
    return streamed(pa.table({**numbers, "label": text}))


def view_bomb(n=50_000):
    """The same, with views."""
    _, view, text = pa.array(["x" * 2**20], pa.string_view()).buffers()
    return streamed(
        pa.table({"label": pa.Array.from_buffers(pa.string_view(), n, [None, pa.py_buffer(bytes(view) * n), text])})
    )


def most_memory(process):
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    return int(found[1]) * 1024


@pytest.mark.parametrize("columns", [1, 100])
def test_bits_are_refused_where_they_would_be_too_many_bytes_as_numbers(columns):
    table = {f"f{i}": pa.array(np.zeros(20_000, bool)) for i in range(columns)}
    body = streamed(pa.table(table | {"label": pa.array(np.arange(20_000) % 2 == 0)}))
    most, handed = 2**20, []
    given = "application/vnd.apache.arrow.stream", Packed(body), None, {"label": "label"}, (), most, 20_000
    if columns == 1:
        read_blocks(*given, lambda *blocks: handed.extend(blocks))
        assert sum(len(block.opened().y) for block in handed) == 20_000
    else:
        check_unpacked(body, most, 20_000)
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
            row = streamed(pa.table({**{name: [0.5] for name in "abcd"}, "label": ["yes"], "id": ["new"]}), "zstd")
            learnt = http.post("/v1/learn?id=id", content=row, headers=ARROW)
            assert (learnt.status_code, learnt.json()["rows"]) == (200, 1)
            before = most_memory(process)
            for bomb in bombs:
                answer = http.post("/v1/learn", content=bomb, headers=ARROW)
                assert answer.status_code == 413
                assert "unpacks to more than" in answer.json()["detail"]
                # What it is read as does not depend on what it is said to be.
                assert http.post("/v1/learn", content=bomb, headers={"Content-Type": "text/csv"}).status_code == 413
            assert most_memory(process) - before < 100 * 2**20
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def test_views_of_one_text_count_each():
    body = view_bomb()
    check_unpacked(body, 2**40, 10**6)
    with pytest.raises(Refused, match="bytes"):
        check_unpacked(body, 2**28, 10**6)
    with pytest.raises(Refused, match="rows"):
        check_unpacked(body, 2**40, 1000)


TEXTS = st.one_of(st.none(), st.text(max_size=20))
COLUMNS = {
    "numbers": (st.floats(allow_nan=False), pa.float64()),
    "texts": (TEXTS, pa.string()),
    "long texts": (TEXTS, pa.large_string()),
    "views": (TEXTS, pa.string_view()),
    "truths": (st.one_of(st.none(), st.booleans()), pa.bool_()),
    "lists": (st.lists(TEXTS, max_size=3), pa.list_(pa.string())),
    "nothing": (st.none(), pa.null()),
    "dictionaries": (TEXTS, pa.dictionary(pa.int8(), pa.string())),
    "codes": (st.integers(0, 3), pa.dictionary(pa.int8(), pa.int64())),
}


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 20), st.sampled_from([None, "zstd", "lz4"]))
def test_what_a_table_takes_is_never_more_than_what_was_counted(data, n, compression):
    values = {name: data.draw(st.lists(cell, min_size=n, max_size=n)) for name, (cell, _) in COLUMNS.items()}
    table = pa.table({name: pa.array(values[name], COLUMNS[name][1]) for name in values})
    body = streamed(table, compression, rows=7)
    check_unpacked(body, 10**6, n)
    counted = sum(map(unpacking._unpacked_bytes, pa.ipc.MessageReader.open_stream(body)))
    assert counted >= pa.ipc.open_stream(body).read_all().get_total_buffer_size()
    texts = [text for name in ("texts", "long texts", "views", "dictionaries") for text in values[name]]
    texts += [text for row in values["lists"] for text in row]
    plain = sum(len(text.encode()) for text in texts if text)
    counted = sum(unpacking._text_bytes(batch.column(i)) for batch in table.to_batches() for i in range(len(COLUMNS)))
    assert counted == plain


def test_what_is_no_stream_is_refused_whatever_it_is():
    body = streamed(pa.table({"a": [1.0, 2.0]}), "zstd")
    for at in range(len(body)):
        for value in (0, 1, 127, 255):
            torn = bytearray(body)
            torn[at] = value
            with suppress(InputError, Refused):  # and nothing else
                check_unpacked(bytes(torn), 10**4, 10)
    for torn in (body[:50], b"\xff" * 64):
        with pytest.raises(InputError):
            check_unpacked(torn, 10**4, 10)
    ends = pa.array([1, 2], pa.int32())
    runs = pa.RunEndEncodedArray.from_arrays(ends, pa.array(["x", "y"]))
    with pytest.raises(InputError, match="type"):
        check_unpacked(streamed(pa.table({"a": runs})), 10**4, 10)


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
