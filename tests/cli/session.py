"""A table, a model that learnt it, and commands that must be refused: what tests of commands share."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from erasable import load
from erasable.cli.app import run
from tests.formats.models import rows

N = 60
MODEL = "model.erasable"
LEARN = ["--label", "churned", "--id", "row_id", "--subject", "user_id", "--allow-no-subject", "-o", MODEL]


def table(low=0, high=N, **changes):
    """Columns of a table; ids are text, some rows have no subject."""
    X = rows(N)[low:high]
    columns = {
        "row_id": [f"row {i}" for i in range(low, high)],
        "age": X[:, 0],
        "user_id": [None if i % 4 == 0 else f"user {i % 9}" for i in range(low, high)],
        "weight": X[:, 1],
        "height": X[:, 2],
        "churned": np.where(X[:, 0] + X[:, 1] > 0, "yes", "no"),
    }
    columns.update(changes)
    return pa.table({name: values for name, values in columns.items() if values is not None})


def put(found, name="data.parquet"):
    """The table as a file."""
    if name.endswith(".csv"):
        pyarrow.csv.write_csv(found, name)
    else:
        pq.write_table(found, name)
    return name


def learnt(low=0, high=N, out=MODEL, threshold="0.1", order="hashed", more=(), **changes):
    """A model file that learnt these rows."""
    data = put(table(low, high, **changes), "learnt.parquet")
    options = [v if v != MODEL else out for v in LEARN]
    assert run(["learn", data, *options, "--threshold", threshold, "--order", order, *more]) == 0
    return out


def content(name=MODEL):
    with open(name, "rb") as file:
        return file.read()


def said(capsys):
    """What a command printed, as JSON."""
    return json.loads(capsys.readouterr().out)


def printed(capsys, arguments, code=0):
    """What a command prints, and nothing that was printed before it."""
    capsys.readouterr()
    assert run(arguments) == code
    return capsys.readouterr()


def answered(capsys, arguments, code=0):
    """What a command prints, as JSON."""
    return json.loads(printed(capsys, arguments, code).out)


def core_ids(name=MODEL):
    return load(name).core_ids_.tolist()


def nan(found):
    ages = found["age"].to_numpy().copy()
    ages[-1] = np.nan
    return found.set_column(found.schema.get_field_index("age"), "age", pa.array(ages))


def read_csv(name):
    with open(name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class refused:  # noqa: N801
    """The commands in this block are refused with one line, and leave every file as it was."""

    def __init__(self, capsys, folder, *, new=()):
        self.capsys, self.folder, self.new = capsys, folder, set(new)

    def files(self):
        found = {p: p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}
        return {p.name: data for p, data in found.items() if not p.name.endswith(".lock")}

    def __enter__(self):
        self.before = self.files()
        self.capsys.readouterr()
        return self

    def __call__(self, arguments, code, *says):
        assert run(arguments) == code
        out, err = self.capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        for part in says:
            assert part in err
        assert self.files() == self.before

    def __exit__(self, *_):
        if sys.exc_info()[0] is None:
            assert self.files() == self.before
