"""The types of a CSV follow from no row: forgetting rows is never having had them, whatever their cells look like."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable import ModelFile, load
from erasable.core.names import owners_of
from erasable.operations.learn import Columns, LearnOptions, learn_table
from erasable.schemas import Number, Role, Schema

N = 24
X = np.random.default_rng(7).standard_normal((N, 2)).round(3)
ODD = [
    "1e5",
    "007",
    "1.0",
    "1",
    "NA",
    "none",
    "nan",
    "true",
    'a "b"',
    "x,y",
    " 7",
    "7 ",
    "-0",
    "9" * 30,
    "é",
    "e\u0301",
]
ODD += ['a "b"', "٣", "0x1F", "1_0", "\u00a0", "2026-01-02", "a\nb", "7\u200b"]
COLUMNS = Columns(label="late", id="row", subject=("sender", "receiver"))
ROLES = {"late": "label", "row": "id", "sender": "subject", "receiver": "subject"}
SCHEMA = Schema(
    [
        Number(name="a", range=(-3, 3)),
        Number(name="b", range=(-3, 3)),
        *(Role(name=n, role=r) for n, r in ROLES.items()),
    ]
)
INDEPENDENT = {"selection": "independent", "rate": 0.6}
SELECTIONS = {
    "leverage": (COLUMNS, {"threshold": 0.02, "order": "hashed"}),
    "independent": (COLUMNS, INDEPENDENT),
    "independent, by a schema": (Columns(schema=SCHEMA), INDEPENDENT),
}
cells = st.sampled_from(ODD)


@st.composite
def tables(draw):
    """Ordinary rows, some of which get odd cells; and the rows that leave."""
    rows = [
        {"row": str(i), "sender": str(i % 7), "receiver": "", "late": str(i % 2), "a": str(x), "b": str(z)}
        for i, (x, z) in enumerate(X.tolist())
    ]
    odd = draw(st.lists(st.integers(4, N - 1), unique=True, max_size=8))
    for row, name in zip(odd, draw(st.lists(cells, unique=True, min_size=len(odd), max_size=len(odd))), strict=True):
        rows[row]["row"] = draw(st.sampled_from([str(row), f"{name}-{row}", name if name != "1" else "1.00"]))
        rows[row] |= {role: draw(st.one_of(st.just(""), cells)) for role in ("sender", "receiver")}
        rows[row]["late"] = draw(st.one_of(st.just("1"), cells))
    leaving = draw(st.lists(st.sampled_from(odd), unique=True)) if odd else []
    return rows, [rows[i]["row"] for i in leaving]


def learn(folder, name, rows, columns, parameters):
    """The model file that learns a CSV of these rows."""
    table = Path(folder, f"{name}.csv")
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    path = Path(folder, f"{name}.erasable")
    learn_table(path, table, columns, parameters=parameters, options=LearnOptions(allow_no_subject=True), score=False)
    return path


@pytest.mark.parametrize("selection", SELECTIONS)
@given(drawn=tables(), by_subject=st.booleans())
@settings(max_examples=12)
def test_forgetting_rows_of_a_csv_is_never_having_had_them(tmp_path_factory, selection, drawn, by_subject):
    (rows, leaving), folder, given = drawn, tmp_path_factory.mktemp("t"), SELECTIONS[selection]
    path = learn(folder, "model", rows, *given)
    gone = {*leaving}
    if by_subject:
        people = {person for row in rows if row["row"] in gone for person in (row["sender"], row["receiver"])} - {""}
        people -= {str(i) for i in range(7)}  # so that ordinary rows stay
        gone = {row["row"] for row in rows if people & {row["sender"], row["receiver"]}}
        if people:
            ModelFile(path).forget(subjects=sorted(people))
    elif leaving:
        ModelFile(path).forget(ids=leaving)
    stored = {*load(path).core_ids_.tolist()}
    assert stored.isdisjoint(gone)
    survivors = [row for row in rows if row["row"] not in gone]
    kept = [row for row in survivors if row["row"] in stored]
    if selection != "leverage":  # also of rows that are not stored
        assert path.read_bytes() == learn(folder, "survivors", survivors, *given).read_bytes()
    assert path.read_bytes() == learn(folder, "stored", kept, *given).read_bytes()
    core = load(path)._model.core
    by_name = {row["row"]: row for row in kept}
    for name, owners, label in zip(core.ids(), core.subjects(), core.labels(), strict=True):  # as they stand
        row = by_name[name]
        assert label == row["late"]
        assert {*owners_of(owners)} == {row["sender"], row["receiver"]} - {""}
