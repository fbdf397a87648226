"""``erasable schema``, and commands on raw tables: three of them from a table to a model that forgets."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
from pathlib import Path

import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from erasable import load
from erasable.cli.app import run
from erasable.schemas import Schema
from tests.cli.session import answered, printed, read_csv, refused, said
from tests.schemas.raw import OPTIONS, columns, draft, table, write

LEARN = ["--schema", "schema.toml", "--loss", "logistic", "--threshold", "0.2", "-o", "m.erasable"]


@pytest.fixture
def raw(folder):
    """A raw table and its schema in files."""
    write(table(), "raw.csv")
    draft().save("schema.toml")
    return folder


def test_three_commands(folder, capsys):
    write(table(), "raw.csv")
    write(table(60, seed=1, outcome=None, person=None), "new.parquet")
    shown = printed(capsys, ["schema", "raw.csv", *OPTIONS, "--k", "5", "-o", "schema.toml"]).out
    assert "People who would have to leave before a constant from the rows could change" in shown
    assert "schema.toml: 6 columns become" in shown
    shown = printed(capsys, ["learn", "raw.csv", *LEARN]).out
    assert "240 rows learnt" in shown
    assert "missing" in shown
    assert run(["predict", "m.erasable", "new.parquet", "-o", "out.csv"]) == 0
    predicted = read_csv("out.csv")
    assert [row["id"] for row in predicted] == columns(60)["row_id"]
    frame = table(60, seed=1)
    assert [row["prediction"] for row in predicted] == load("m.erasable").predict(frame).tolist()
    assert run(["verify", "m.erasable"]) == 0


def test_a_draft_is_that_of_python_and_its_margins_are_in_no_file(folder, capsys):
    write(table(), "raw.csv")
    told = answered(capsys, ["schema", "raw.csv", *OPTIONS, "--k", "5", "-o", "schema.toml", "--json"])
    text = Path("schema.toml").read_text(encoding="utf-8")
    assert text.startswith("# Drafted from rows.")
    assert "They are public" in text  # the moments and shares of its selection
    assert told["text"] == draft().text == Schema.load("schema.toml").text
    margins = {(m["column"], m["entry"], m["value"]): m["margin"] for m in told["margins"]}
    assert margins["town", "value", "Bern"] > 1
    assert "margin" not in text
    assert run(["schema", "raw.csv", "--k", "5", "--json"]) == 0  # nothing is written
    assert said(capsys)["schema"] is None
    assert sorted(p.name for p in folder.iterdir()) == ["raw.csv", "schema.toml"]


def test_a_draft_from_a_public_table_knows_nothing_of_the_other(folder, capsys):
    write(table(), "public.csv")
    write(table(60, town=["Atlantis"] * 60), "raw.csv")
    assert run(["schema", "raw.csv", *OPTIONS, "--k", "5", "--from-public", "public.csv", "-o", "s.toml"]) == 0
    text = Path("s.toml").read_text(encoding="utf-8")
    assert text.startswith("# From the public table public.csv.")
    assert Schema.load("s.toml") == draft()
    assert "Atlantis" not in text
    write(table(60, town=None), "less.csv")
    with refused(capsys, folder) as refuse:
        command = ["schema", "less.csv", *OPTIONS, "--k", "5", "--from-public", "public.csv", "-o", "t.toml"]
        refuse(command, 2, "lacks 1 columns that the public one has: 'town'")


def test_a_first_look_at_the_columns(folder, capsys):
    write(table(), "raw.csv")
    assert "Bern" in printed(capsys, ["schema", "--show", "raw.csv"]).out
    assert run(["schema", "--show", "raw.csv", "--json"]) == 0
    found = {c["name"]: c for c in said(capsys)}
    assert found["age"]["missing"] == columns()["age"].count(None)
    assert found["town"]["different"] == 4
    assert found["town"]["cells"] == columns()["town"][:5]
    assert found["joined"]["kind"] == "date"
    held = {"age": "string: whole numbers", "joined": "string: dates", "town": "string"}
    assert {name: found[name]["holds"] for name in held} == held
    assert found["row_id"]["kind"] == "(ignore)"
    write(table(8), "few.parquet")
    assert run(["schema", "few.parquet", "--show", "--json"]) == 0  # too few for a draft
    found = said(capsys)
    assert {c["kind"] for c in found} == {""}
    assert not any("numbers" in c["holds"] for c in found if c["name"] == "age")  # a type of its own
    Path("cells.csv").write_text("a,b,c,d,e\n1.5,10:30,3.4.2020,7,x\n-2e3,9:05:01,28/2/2021,,4\n", encoding="utf-8")
    assert run(["schema", "cells.csv", "--show", "--json"]) == 0
    kinds = ["numbers", "times of day", "dates", "whole numbers"]
    assert [c["holds"] for c in said(capsys)] == [*(f"string: {kind}" for kind in kinds), "string"]


def test_several_files_and_other_separators(folder, capsys):
    whole = table()
    for name, part in (("a.csv", whole.slice(0, 100)), ("b.csv", whole.slice(100))):
        pyarrow.csv.write_csv(part, name, pyarrow.csv.WriteOptions(delimiter=";"))
    assert run(["schema", "*.csv", "--sep", ";", *OPTIONS, "--k", "5", "-o", "schema.toml"]) == 0
    assert Schema.load("schema.toml") == draft()
    told = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert told == ["erasable", "learn", "*.csv", *LEARN[:2], "--sep", ";", "-o", "model.erasable"]
    assert run(told[1:]) == 0
    assert run(["learn", "a.csv", "b.csv", "--sep", ";", *LEARN]) == 0
    assert (
        answered(capsys, ["schema", "a.csv", "b.csv", "--sep", ";", "--check", "schema.toml", "--json"])["rows"] == 240
    )
    assert run(["predict", "m.erasable", "b.csv", "--sep", ";", "-o", "p.csv"]) == 0
    commas = ["--sep", ";", "--decimal", ",", "--json"]
    for command in (["learn", "a.csv", *LEARN[:-1], "n.erasable"], ["schema", "a.csv", "--check", "schema.toml"]):
        capsys.readouterr()
        assert run([*command, *commas]) == 2
        assert "'income' holds numbers with marks" in said(capsys)["error"]["message"]
        assert run([*command, *commas, "--thousands", ""]) == 0
    assert (
        answered(capsys, ["schema", "a.csv", "--check", "schema.toml", *commas, "--thousands", ""])["cells"]["income"][
            "unparsable"
        ]
        > 80
    )  # 12.34 is no number where decimals follow a comma


def test_a_draft_without_a_label_says_how_to_draft_one(raw, capsys):
    assert run(["schema", "raw.csv", "--k", "5", "-o", "schema.toml"]) == 0
    *_, told, line = capsys.readouterr().out.splitlines()
    assert "draft again" in told
    assert shlex.split(line) == ["erasable", "schema", "raw.csv", "--label", "COLUMN", "-o", "schema.toml"]
    assert run([*shlex.split(line)[1:4], OPTIONS[OPTIONS.index("--label") + 1], "-o", "schema.toml", "--k", "5"]) == 0
    assert run(shlex.split(capsys.readouterr().out.splitlines()[-1])[1:]) == 0


def test_what_is_printed_fits_one_screen(folder, capsys):
    """Of a wide table with everything that there is to say."""
    names = [f"rather_a_long_name_{j}" for j in range(39)] + [
        "a column whose name is longer than a line of text should be"
    ]
    lines = []
    for i in range(400):
        row, late = "" if i % 100 == 7 else str(i - (i % 50 == 3)), "" if i % 80 == 1 else "abcd"[i % 4]
        who = "" if i % 40 == 0 else f"p{i % 90}"
        numbers = [str((i * (j + 1)) % 100) for j in range(40)]
        lines.append(",".join([*numbers, row, str(10**6 + i), f"z{i * 7919}", "xyz"[i % 3], who, late]))
    head = ",".join([*names, "row", "customer_id", "blob", "town", "who", "late"])
    Path("wide.csv").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    roles = ["--label", "late", "--id", "row", "--subject", "who", "--ignore", names[0]]
    command = ["schema", "wide.csv", *roles, "--k", "5", "-o", "wide.toml"]
    *shown, line = printed(capsys, command).out.splitlines()
    assert len(shown) < 30
    assert max(map(len, shown)) <= 80, max(shown, key=len)
    text = "\n".join(shown)
    assert "  numbers       rather_a" in text
    assert "  label         late (4 classes)" in text
    assert f"Left out:\n  {names[0]}: as you asked\n  customer_id: its name marks an identifier" in text
    assert "  blob: nothing that 5 subjects share" in text
    found = answered(capsys, [*command, "--json"])
    assert found["refusals"] == [
        "4 of 400 rows have no id in 'row': give every row an id.",
        "5 of 400 rows have no label in 'late': leave them out.",
        "10 of 400 rows have no subject in 'who': leave them out, or learn them with allow_no_subject=.",
        "8 of 400 rows have the id of an earlier row: give every row its own.",
    ]
    assert all(" ".join(one.split()[:9]) in text for one in found["refusals"])
    least = {name: min(m["margin"] or math.inf for m in found["margins"] if m["column"] == name) for name in names[1:]}
    groups = {"1": (1, 2), "2 to 4": (2, 5), "5 to 19": (5, 20), "20 or more": (20, math.inf)}
    for heading, (low, high) in groups.items():
        those = [name for name, margin in least.items() if low <= margin < high]
        if those:
            (group,) = [one for one in shown if one.startswith(f"  {heading} ")]
            assert any(name in group for name in those)
    assert shlex.split(line)[:3] == ["erasable", "learn", "wide.csv"]


def test_counts_of_what_learning_refuses_are_those_of_the_whole_table(folder, capsys, monkeypatch):
    """A repeated id may be in another block than the first, and every block has some that are missing."""
    monkeypatch.setattr("erasable.tables.csv_stream.TEXT_BLOCK", 500)
    monkeypatch.setattr("erasable.tables.reading._RAW_ROW_BYTES", 2**20)
    lines = [f"{'' if i % 20 == 9 else i % 190},{i % 60},{'' if i % 30 == 2 else i % 17},{i % 9}" for i in range(200)]
    Path("some.csv").write_text("\n".join(["row,age,price,load", *lines]) + "\n", encoding="utf-8")
    roles = ["--target", "price", "--id", "row", "--weight", "load", "--k", "5", "-o", "some.toml"]
    assert answered(capsys, ["schema", "some.csv", *roles, "--json"])["refusals"] == [
        "10 of 200 rows have no id in 'row': give every row an id.",
        "7 of 200 rows have no number as a target in 'price': leave them out.",
        "9 of 200 rows have the id of an earlier row: give every row its own.",
    ]
    pyarrow.parquet.write_table(pyarrow.table({"n": [*range(60)] * 2, "row": [-1, -2] * 60}), "ids.parquet")
    told = answered(capsys, ["schema", "ids.parquet", "--id", "row", "--k", "5", "--json"])
    assert told["refusals"] == ["118 of 120 rows have the id of an earlier row: give every row its own."]


MISSING = ["none", "NA", "null", "nan", "?", "N/A", "ok"]


def test_labels_that_look_missing_are_labels(folder, capsys):
    lines = [f"{i},{i % 60},{MISSING[i % 7]}" for i in range(210)]
    Path("odd.csv").write_text("\n".join(["row,age,late", *lines]) + "\n", encoding="utf-8")
    command = ["schema", "odd.csv", "--id", "row", "--label", "late", "--k", "5", "-o", "odd.toml"]
    line = printed(capsys, command).out.splitlines()[-1]
    (label,) = [c for c in Schema.load("odd.toml").columns if c.name == "late"]
    assert label.classes == tuple(sorted(MISSING))
    assert run(shlex.split(line)[1:]) == 0
    assert load("model.erasable").classes_.tolist() == sorted(MISSING)


@pytest.mark.parametrize(
    ("written", "classes"),
    [
        (("1", "0", "1.0", "0.0", "1.00"), [0, 1]),  # pandas writes whole numbers so where some are missing
        (("True", "False"), ["false", "true"]),
        (("late", " late", "ok", "ok "), ["late", "ok"]),
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_labels_are_spelt_as_the_classes_of_the_schema(folder, capsys, written, classes, form):
    lines = [f"{i},{i % 60},{written[i % len(written)]}" for i in range(200)]
    Path("t.csv").write_text("\n".join(["row,age,late", *lines]) + "\n", encoding="utf-8")
    if form == "parquet":
        options = pyarrow.csv.ConvertOptions(column_types={"late": pyarrow.string(), "row": pyarrow.string()})
        pyarrow.parquet.write_table(pyarrow.csv.read_csv("t.csv", convert_options=options), "t.parquet")
        classes = [str(one) for one in classes]  # Parquet says that they are texts
    command = ["schema", f"t.{form}", "--id", "row", "--label", "late", "--k", "5", "-o", "t.toml"]
    line = printed(capsys, command).out.splitlines()[-1]
    assert run(shlex.split(line)[1:]) == 0
    assert load("model.erasable").classes_.tolist() == classes
    told = answered(capsys, ["predict", "model.erasable", f"t.{form}", "--label", "late", "-o", "p.csv", "--json"])
    assert told["scores"]["unknown_labels"] == 0
    named = ["--classes", ",".join(written[:4]), "--class-weight", f"{written[1]}=3", "--selection", "leverage"]
    assert run([*shlex.split(line)[1:-1], "named.erasable", *named]) == 0  # so are those that options name
    assert load("named.erasable").classes_.tolist() == classes


def test_a_label_may_be_called_like_the_column(folder, capsys):
    lines = [f"{i},{i % 60},{('late', 'ok')[i % 2]}" for i in range(200)]
    Path("called.csv").write_text("\n".join(["row,age,late", *lines]) + "\n", encoding="utf-8")
    command = ["schema", "called.csv", "--k", "5", "-o", "called.toml"]
    told = printed(capsys, command, 2).err
    assert "cell 3 of it comes again below" in told
    assert "--header" in told
    assert "late" not in told  # if it is a row, this is data
    line = printed(capsys, [*command, "--id", "row", "--label", "late"]).out.splitlines()[-1]
    assert run(shlex.split(line)[1:]) == 0
    assert run(["schema", "called.csv", "--check", "called.toml"]) == 0
    Path("twice.csv").write_text("\n".join(["row,row,late", *lines]) + "\n", encoding="utf-8")
    with refused(capsys, folder) as refuse:
        refuse(["schema", "twice.csv", "--label", "late", *command[2:]], 2, "'row' has the name of an earlier column")
        refuse(["schema", "twice.csv", *command[2:]], 2, "cells 1 and 2 of it are the same")


def test_a_table_without_names_is_learnt_once_they_are_given(folder, capsys):
    Path("bare.csv").write_text("".join(f"r{i},{i % 7},{'ab'[i % 2]}\n" for i in range(100)))
    refused = ["schema", "bare.csv", "-o", "s.toml"]
    assert "--no-header" in printed(capsys, refused, 2).err
    assert not Path("s.toml").exists()
    for names, roles in (["--columns", "row,x,kind"], ["row", "kind"]), (["--no-header"], ["column_1", "column_3"]):
        assert run([*refused, *names, "--id", roles[0], "--label", roles[1], "--k", "5"]) == 0
        line = shlex.split(capsys.readouterr().out.splitlines()[-1])[1:]
        assert line[4 : 4 + len(names)] == names
        Path("model.erasable").unlink(missing_ok=True)
        assert run(line) == 0
        assert run(["predict", "model.erasable", "bare.csv", *names, "-o", "p.csv"]) == 0
        assert len(Path("p.csv").read_text().splitlines()) == 101


def test_whether_a_table_fits(raw, capsys):
    changed = {"town": ["Atlantis"] * 60, "age": ["old"] * 60, "extra": [1] * 60, "person": None}
    write(table(60, **changed), "new.csv")
    told = answered(capsys, ["schema", "--check", "schema.toml", "new.csv", "--json"])
    assert told["cells"]["town"] == {"unknown": 60}
    assert told["cells"]["age"] == {"unparsable": 60}
    assert told["extra_columns"] == ["extra"]
    assert told["absent"] == ["person"]
    assert told["rows"] == 60
    out = printed(capsys, ["schema", "--check", "schema.toml", "new.csv"]).out
    assert "person: not in the table" in out
    assert "new.csv fits schema.toml" in out
    write(table(60, outcome=["maybe"] * 60), "odd.csv")
    with refused(capsys, raw) as refuse:
        refuse(["schema", "--check", "schema.toml", "odd.csv"], 2, "60 labels are none of the 2 classes")


def test_the_schema_is_in_the_file(raw, capsys):
    told = answered(capsys, ["learn", "raw.csv", *LEARN, "--json"])
    assert told["encoding"]["cells"]["age"] == {"missing": columns()["age"].count(None)}
    assert run(["inspect", "m.erasable", "--schema"]) == 0
    assert capsys.readouterr().out == draft().encoding_text
    assert answered(capsys, ["inspect", "m.erasable", "--schema", "--json"])["schema"] == draft().encoding_text
    assert "encoded by a schema" in printed(capsys, ["inspect", "m.erasable"]).out


def test_what_is_stored_of_somebody_is_told_in_cells_of_the_table(raw, capsys):
    assert run(["learn", "raw.csv", *LEARN]) == 0
    rows = {row["row_id"]: row for row in table().to_pylist()}
    stored = load("m.erasable").core_ids_.tolist()
    row = rows[stored[0]]
    out = printed(capsys, ["inspect", "m.erasable", "--subject", row["person"]]).out
    assert f"id: {row['row_id']}" in out
    assert f"  town: {row['town']}" in out
    assert "words were hashed and are not stored" in out
    told = answered(capsys, ["inspect", "m.erasable", "--subject", row["person"], "--json"])
    mine = next(r for r in told["rows"] if r["id"] == row["row_id"])
    assert mine["cells"]["town"] == {"text": row["town"], "missing": False, "one_of": [row["town"]], "others": False}
    assert f"town={row['town']}" in mine["values"]
    assert run(["inspect", "m.erasable", "--id", row["row_id"], "--csv"]) == 0
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert line["cells.town"] == row["town"]
    assert not [name for name in line if name.startswith("values.")]


def test_learning_more_and_scoring_need_no_schema(raw, capsys):
    write(table(60, seed=2, row_id=[f"more-{i}" for i in range(60)]), "more.parquet")
    assert answered(capsys, ["learn", "raw.csv", *LEARN, "--test", "more.parquet", "--json"])["test"]["rows"] == 60
    assert run(["learn", "more.parquet", "-o", "m.erasable"]) == 0
    assert run(["learn", "raw.csv", "--schema", "schema.toml", "--label", "outcome", "-o", "other.erasable"]) == 0
    told = answered(capsys, ["predict", "m.erasable", "more.parquet", "--label", "outcome", "-o", "p.csv", "--json"])
    assert told["scores"]["accuracy"] > 0.8
    assert told["encoding"]["rows"] == 60
    assert told["warnings"] == []
    draft(k=30).save("another.toml")
    write(table(), "plain.csv")
    with refused(capsys, raw) as refuse:
        refuse(["learn", "more.parquet", "--schema", "another.toml", "-o", "m.erasable"], 2, "--schema differs from")
        refuse(["inspect", "m.erasable", "--schema", "--rows", "x"], 2)


def test_plan_knows_several_subjects_of_a_schema(raw, capsys):
    write(table(other=[f"other-{i % 50}" for i in range(240)]), "two.csv")
    assert run(["schema", "two.csv", *OPTIONS, "--subject", "other", "--k", "5", "-o", "two.toml"]) == 0
    capsys.readouterr()
    assert run(["plan", "two.csv", "--schema", "two.toml", "--effort", "quick", "--max-loss", "0.2", "--json"]) == 0
    assert run(said(capsys)["command"].split()[1:]) == 0
    assert isinstance(load("two.erasable").model_.core.subjects()[0], tuple)


def test_types_that_change_between_files_are_refused(raw, capsys):
    found = table()
    ages = found.column("age").cast("string")
    changed = found.set_column(found.column_names.index("age"), "age", ages)
    for name, part in (("a.parquet", found.slice(0, 100)), ("b.parquet", changed.slice(100))):
        write(part, name)
    says = "the type of 'age' changes between files, from numbers in a.parquet to texts in b.parquet"
    with refused(capsys, raw) as refuse:
        refuse(["learn", "a.parquet", "b.parquet", *LEARN], 2, says)
        refuse(["schema", "a.parquet", "b.parquet", "--check", "schema.toml"], 2, says)
        refuse(["schema", "a.parquet", "b.parquet", *OPTIONS, "-o", "n.toml"], 2, says)
        refuse(["schema", "raw.csv", "--target", "town", "-o", "n.toml"], 2, "'town' cannot be a target")
        refuse(["learn", "raw.csv", "--schema", "n.toml", "-o", "m.erasable"], 2, "n.toml does not exist")


def test_scan_finds_rows_as_the_schema_encodes_them(raw, capsys):
    Path("models").mkdir()
    assert run(["learn", "raw.csv", *LEARN[:-1], "models/m.erasable"]) == 0
    kept = load("models/m.erasable").core_ids_.tolist()
    mask = [i in kept[:3] for i in columns()["row_id"]]
    write(table().filter(mask), "gone.csv")
    found = answered(capsys, ["scan", "models", "--for", "gone.csv", "--json"], 1)
    assert {r["what"] for r in found["remains"]} == {"id", "grid row"}
    assert len([r for r in found["remains"] if r["what"] == "grid row"]) == 3
    assert found["ids_only"] == []
    assert run(["forget", "models/m.erasable", *(v for i in kept[:3] for v in ("--id", i))]) == 0
    capsys.readouterr()
    assert run(["scan", "models", "--for", "gone.csv", "--schema", "schema.toml", "--strict"]) == 0
    note = columns()["note"][columns()["row_id"].index(kept[0])]
    Path("models/service.log").write_text(f"they said: {note}.\n", encoding="utf-8")
    capsys.readouterr()
    assert run(["scan", "models", "--for", "gone.csv", "--json"]) == 1
    assert {(r["file"], r["what"]) for r in said(capsys)["remains"]} == {("service.log", "cell")}


def test_export_has_the_schema_beside_it(raw, capsys):
    assert run(["learn", "raw.csv", *LEARN]) == 0
    told = answered(capsys, ["export", "m.erasable", "-o", "m.safetensors", "--json"])
    assert told["schema"] == "m.safetensors.toml"
    assert Schema.load(told["schema"]) == draft()
    head = Path("m.safetensors").read_bytes()
    header = json.loads(head[8 : 8 + int.from_bytes(head[:8], "little")])
    assert json.loads(header["__metadata__"]["feature_names"]) == draft().feature_names_out()
    assert run(["export", "m.erasable", "-o", "m.safetensors"]) == 0  # again, over the earlier one
    Path("n.safetensors.toml").write_text("[tool]\nname = 1\n")
    with refused(capsys, raw) as refuse:
        refuse(["export", "m.erasable", "-o", "n.safetensors"], 2, "is no schema")


def test_other_bad_input_is_one_line_and_changes_nothing(raw, capsys):
    newer = draft().text.replace("version = 2", "version = 3")
    Path("newer.toml").write_text(newer, encoding="utf-8")
    Path("gone.toml").write_text(draft().text + '\n[columns.gone]\nkind = "yes/no"\n')
    Path("wide.toml").write_text(draft().text + '\n[columns.extra]\nkind = "category"\nhashed = 1000000\n')
    Path("twice.csv").write_text("town,town,outcome,row_id\nBern,Rome,yes,a\n")
    struct = [{"name": "Bern"}] * 240
    write(table(town=struct), "struct.parquet")
    write(table(extra=["x"] * 240), "wide.csv")
    Path("notes.txt").write_text("mine")
    Path("names.csv").write_text("a,b\n")
    out = ["-o", "m.erasable"]
    with refused(capsys, raw) as refuse:
        refuse(["learn", "raw.csv", "--schema", "newer.toml", *out], 2, "version = 3", "install a newer erasable")
        refuse(["learn", "raw.csv", "--schema", "none.toml", *out], 2, "none.toml does not exist")
        refuse(["learn", "raw.csv", "--schema", "gone.toml", *out], 2, "lacks 1 of 7 features: 'gone'")
        refuse(["plan", "digits", "--schema", "schema.toml"], 2, "leave it out")
        refuse(["plan", "raw.csv", "--schema", "schema.toml", "--weights", "age"], 2, "--weights names a column")
        refuse(["learn", "wide.csv", "--schema", "wide.toml", *out], 2, "GiB for matrices")
        refuse(["learn", "raw.csv", "--schema", "schema.toml", "--label", "town", *out], 2, "--label is 'town'")
        refuse(["learn", "raw.csv", "--schema", "schema.toml", "--kernel", "rbf", *out], 2, "linear models")
        refuse(["learn", "struct.parquet", "--schema", "schema.toml", *out], 2, "column 'town' holds struct")
        refuse(["learn", "twice.csv", "--schema", "schema.toml", *out], 2)
        refuse(["learn", "raw.csv", *OPTIONS, *out], 2, "need a public schema", "erasable schema", "'town'")
        refuse(["schema", "raw.csv", "--label", "gone", "-o", "s.toml"], 2, "no column 'gone'")
        refuse(["schema", "raw.csv"], 2, "give -o schema.toml")
        refuse(["schema", "raw.csv", "--k", "500", "-o", "s.toml"], 2, "at least 2 k = 1000 subjects")
        refuse(["schema", "raw.csv", "-o", "raw.csv"], 2, "is read here")
        refuse(["schema", "raw.csv", "-o", "notes.txt"], 2, "is no schema")
        refuse(["schema", "raw.csv", "--show", "-o", "s.toml"], 2, "-o is for a draft")
        refuse(["schema", "names.csv", "--show"], 2, "there are no rows")
        refuse(["schema", "raw.csv", "--show", "--check", "schema.toml"], 2, "give one of them")
        refuse(["schema", "-", "--check", "schema.toml"], 2, "give a file")


def test_numbers_of_margins_are_finite_in_json(folder, capsys):
    write(table(user_id=list(range(240))), "raw.csv")
    found = answered(capsys, ["schema", "raw.csv", *OPTIONS, "--k", "5", "--json"])["margins"]
    assert [m["margin"] for m in found if m["column"] == "user_id"] == [None]  # nothing can change it
    assert all(m["margin"] is None or math.isfinite(m["margin"]) for m in found)
