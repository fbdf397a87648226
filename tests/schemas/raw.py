"""A raw table with text, categories, dates and missing cells, the same in every container, and a draft for it."""

from __future__ import annotations

import datetime
import gzip
import random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from erasable.schemas import draft_schema

ROLES = {"label": "outcome", "id": "row_id", "subject": "person"}
OPTIONS = ["--label", "outcome", "--id", "row_id", "--subject", "person"]


def columns(n=240, seed=0):
    """Columns of a table in which each person has two rows."""
    draw = random.Random(seed)
    ages = [None if draw.random() < 0.1 else draw.randint(18, 80) for _ in range(n)]
    towns = [draw.choice(["Bern", "Oslo", "Rome", "Zürich"]) for _ in range(n)]
    notes = [" ".join(draw.choices(["likes", "cats", "dogs", "never", "pays", "late"], k=3)) for _ in range(n)]
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=draw.randrange(900)) for _ in range(n)]
    return {
        "row_id": [f"row-{i:04d}" for i in range(n)],
        "person": [f"person-{i // 2:03d}" for i in range(n)],
        "age": ages,
        "income": [None if draw.random() < 0.05 else round(draw.lognormvariate(7, 1), 2) for _ in range(n)],
        "town": towns,
        "member": [draw.random() < 0.5 for _ in range(n)],
        "joined": days,
        "note": notes,
        "outcome": ["yes" if (a or 40) > 45 or t == "Oslo" else "no" for a, t in zip(ages, towns, strict=True)],
    }


def table(n=240, seed=0, **changes):
    """The same as an Arrow table; columns may be changed, or left out by None."""
    found = {**columns(n, seed), **changes}
    return pa.table({name: cells for name, cells in found.items() if cells is not None})


def draft(n=240, k=5, **changes):
    """A schema drafted from it."""
    return draft_schema(table(n, **changes), **ROLES, k=k).schema


def write(found, name):
    """A table as a file; its ending says of which kind."""
    if name.endswith(".parquet"):
        pq.write_table(found, name, row_group_size=50)
    elif name.endswith(".arrow"):
        with pa.OSFile(name, "wb") as file, pa.ipc.new_stream(file, found.schema) as stream:
            stream.write_table(found, max_chunksize=30)
    elif name.endswith(".gz"):
        pyarrow.csv.write_csv(found, name[:-3])
        with open(name[:-3], "rb") as plain, gzip.open(name, "wb") as packed:
            packed.write(plain.read())
    else:
        pyarrow.csv.write_csv(found, name)
    return name


def frames(found):
    """The same in memory."""
    yield "arrow", found
    yield "pandas", found.to_pandas()
    yield "polars", pl.from_arrow(found)
    yield "objects", pd.DataFrame(found.to_pydict(), dtype=object)


def town_and_size(n=3000, seed=0):
    """The price depends on town and size together, and on the age alone; the colour is noise."""
    rng = np.random.default_rng(seed)
    town, size, age = rng.choice(list("abcd"), n), rng.integers(0, 100, n), rng.integers(0, 60, n)
    together = np.where(np.isin(town, ["a", "b"]), size, 100 - size)
    frame = {"town": town, "size": size, "age": age, "colour": rng.choice(["red", "blue", "green"], n)}
    return pd.DataFrame({**frame, "price": together + age + rng.normal(0, 5, n), "row": [f"r{i}" for i in range(n)]})
