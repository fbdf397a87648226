"""Optional and heavy packages are loaded by the files that need them, and imported in one place."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import erasable

HEAVY = ("pyarrow", "sklearn", "pandas")


def loaded_after(code):
    """Which of the heavy packages a fresh process has loaded after some code."""
    code += f"\nimport sys\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=300)
    return done.stdout.split()


def test_importing_tables_loads_neither_pyarrow_nor_scikit_learn():
    assert loaded_after("from erasable.tables import *") == []


def test_archives_and_lists_of_names_need_neither(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(9), y=np.arange(9) % 2)
    (tmp_path / "gone.csv").write_text("id\n1\n2\n")
    code = f"""
import os; os.chdir({str(tmp_path)!r})
from erasable.tables import load_split, read_keys, stream_table
assert load_split("t.npz").test.n_rows == 2
assert [len(b) for b in stream_table("t.npz", block_bytes=3 * 72)] == [3, 3, 3]
assert read_keys("gone.csv", kind=int) == [1, 2]
"""
    assert loaded_after(code) == []


def test_text_and_parquet_need_no_scikit_learn(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "label": [2]}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,label\n1,2\n")
    for name in ("t.parquet", "t.csv"):
        code = f"from erasable.tables import load_table; load_table({str(tmp_path / name)!r})"
        loaded = loaded_after(code)
        assert "pyarrow" in loaded
        assert "sklearn" not in loaded


def test_types_of_pyarrow_become_those_of_numpy_without_pandas():
    """In old releases ``to_pandas_dtype`` imports pandas, which the extra for tables does not install."""
    root = Path(erasable.__file__).parent
    assert [p.name for p in root.rglob("*.py") if ".to_pandas_dtype(" in p.read_text("utf-8")] == []


def test_pyarrow_is_imported_in_one_file():
    root = Path(erasable.__file__).parent
    statement = re.compile(r"^\s*(import|from) pyarrow", re.MULTILINE)
    found = {p.relative_to(root).as_posix() for p in root.rglob("*.py") if statement.search(p.read_text("utf-8"))}
    assert found == {"validation.py"}
