"""``erasable learn --engine``: the same file, and what each round did."""

from __future__ import annotations

import contextlib
import importlib.util
import json

import pytest

from erasable.cli.app import run
from tests.cli.session import LEARN, MODEL, N, content, printed, put, refused, table
from tests.engines.cases import patient_clusters

pytestmark = [pytest.mark.usefixtures("folder"), pytest.mark.filterwarnings("ignore")]  # of Dask, about clusters
ENGINES = {
    "local": ["--engine", "local"],
    "processes": ["--engine", "local", "--workers", "1"],
    "torch": ["--engine", "torch"],
    "dask": ["--engine", "dask", "--workers", "1"],
}


@pytest.mark.parametrize("name", ENGINES)
def test_the_file_is_the_same_and_rounds_are_told(name, capsys, folder):
    package = {"torch": "torch", "dask": "distributed"}.get(name)
    if package and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    data, more = put(table(0, 40), "data.parquet"), put(table(40, N), "more.parquet")
    for path in (data, more):
        assert run(["learn", path, *LEARN]) == 0
    plain = content()
    (folder / MODEL).unlink()
    with patient_clusters() if name == "dask" else contextlib.nullcontext():
        assert "Round 1: 40 rows screened" in printed(capsys, ["learn", data, *LEARN, *ENGINES[name]]).out
        assert run(["learn", more, *LEARN, *ENGINES[name], "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["rounds"]
    assert told["rows"] == N - 40
    assert told["bytes_moved"] >= 0
    assert content() == plain


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--scheduler", "tcp://x:1"], "--scheduler is for --engine dask"),
        (["--engine", "local", "--scheduler", "tcp://x:1"], "--scheduler is for --engine dask"),
        (["--workers", "2"], "--workers is for --engine local and --engine dask"),
        (["--engine", "torch", "--workers", "2"], "--workers is for"),
        (["--engine", "dask", "--scheduler", "tcp://x:1", "--workers", "2"], "--workers is for a cluster on this"),
        (["--engine", "local", "--order", "given"], "--engine screens rows in any order"),
    ],
)
def test_options_that_do_not_go_together(options, says, capsys, folder):
    data = put(table())
    with refused(capsys, folder) as refuse:
        refuse(["learn", data, *LEARN, *options], 2, says)
