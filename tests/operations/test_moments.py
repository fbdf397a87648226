"""Moments of public tables, against sums of exact fractions, and the command that writes them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

from erasable import load
from erasable.cli.app import run
from erasable.errors import ConfigurationError, InputError
from erasable.operations.moments import table_moments
from erasable.tables import stream_table

RNG = np.random.default_rng(3)
N, D = 300, 4
X = np.round(RNG.normal(size=(N, D)) * [1, 2, 4, 1], 2) * (RNG.random((N, D)) < 0.8)
X[5] = 0.0
FRAME = pd.DataFrame(X, columns=[f"f{j}" for j in range(D)])


def oracle(rows):
    """The sum of x x' / x'x over all rows, zero for a row of zeros, divided by their number."""
    total = [[Fraction(0)] * rows.shape[1] for _ in range(rows.shape[1])]
    for row in rows.tolist():
        x = [Fraction(v) for v in row]
        square = sum(v * v for v in x)
        for i, a in enumerate(x):
            for j, b in enumerate(x):
                total[i][j] += a * b / square if square else 0
    return np.array([[float(v / len(rows)) for v in line] for line in total])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("form", ["csv", "parquet", "npz", "svmlight"])
@pytest.mark.parametrize("block_bytes", [2**24, 500])
def test_moments_are_those_of_unit_rows_in_any_format_and_blocks(form, block_bytes, monkeypatch):
    monkeypatch.setitem(stream_table.__kwdefaults__, "block_bytes", block_bytes)
    path = f"public.{form}"
    if form in ("csv", "parquet"):
        (FRAME.to_csv if form == "csv" else FRAME.to_parquet)(path, index=False)
    elif form == "npz":
        np.savez(path, X=X, y=np.arange(N) % 2)
    else:
        dump_svmlight_file(X, np.arange(N) % 2, path)
    expected = oracle(X)
    found = table_moments(path)
    np.testing.assert_allclose(found.moments, expected.diagonal(), rtol=1e-12)
    assert (found.rows, found.raised) == (N, 0)
    pairs = table_moments(path, matrix=True).moments
    np.testing.assert_allclose(pairs, expected, rtol=1e-10, atol=1e-15)
    assert (pairs == pairs.T).all()


def test_a_feature_that_is_always_zero_has_the_smallest_moment():
    FRAME.assign(f1=0.0).to_parquet("public.parquet")
    found = table_moments("public.parquet")
    assert found.raised == 1
    assert found.moments[1] == found.moments[[0, 2, 3]].min() > 0
    FRAME.assign(f0=0.0, f1=0.0, f2=0.0, f3=0.0).to_parquet("zero.parquet")
    for matrix in (False, True):
        with pytest.raises(InputError, match="all zero"):
            table_moments("zero.parquet", matrix=matrix)


@pytest.mark.parametrize("options", [[], ["--matrix"]])
def test_the_command_writes_what_learn_reads_and_forgetting_is_learning_the_rest(options, capsys):
    FRAME.assign(note="x").to_parquet("public.parquet")
    assert run(["moments", "public.parquet", "--ignore", "note", *options, "-o", "moments.npy"]) == 0
    said = capsys.readouterr().out
    assert "4 features" in said
    assert "must be public" in said
    written = np.load("moments.npy")
    assert (written == table_moments("public.parquet", ignore=["note"], matrix=bool(options)).moments).all()
    table = FRAME.assign(label=np.where(X[:, 0] > 0, "yes", "no"), row=np.arange(N)).drop(5)
    learn = ["--id", "row", "--selection", "independent", "--rate", "0.4", "--moments", "moments.npy", "-o"]
    table.to_parquet("data.parquet", index=False)
    assert run(["learn", "data.parquet", *learn, "m.erasable"]) == 0
    leaving = load("m.erasable").core_ids_.tolist()[::3]
    assert run(["forget", "m.erasable", *(w for i in leaving for w in ("--id", str(i)))]) == 0
    table[~table.row.isin(leaving)].to_parquet("rest.parquet", index=False)
    assert run(["learn", "rest.parquet", *learn, "rest.erasable"]) == 0
    assert Path("m.erasable").read_bytes() == Path("rest.erasable").read_bytes()


def test_a_file_that_holds_something_else_is_not_replaced():
    FRAME.to_parquet("public.parquet")
    before = Path("public.parquet").read_bytes()
    assert run(["moments", "public.parquet", "-o", "public.parquet"]) == 2
    FRAME.assign(note="x").to_csv("other.csv")
    assert run(["moments", "public.parquet", "-o", "other.csv"]) == 2
    assert run(["moments", "other.csv", "-o", "moments.npy"]) == 2
    assert run(["moments", "nowhere.parquet", "-o", "moments.npy"]) in (2, 5)
    with pytest.raises(ConfigurationError, match=r"no \.npy file"):
        table_moments("public.parquet").save("other.csv")
    assert Path("public.parquet").read_bytes() == before
    with pytest.raises(FileNotFoundError):
        np.load("moments.npy")
    assert run(["moments", "public.parquet", "-o", "moments.npy", "--json"]) == 0
    assert run(["moments", "public.parquet", "-o", "moments.npy", "--matrix"]) == 0
    assert np.load("moments.npy").shape == (D, D)
