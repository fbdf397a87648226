"""Raw tables with numbers to predict: a schema declares targets, and the commands know them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

from erasable import load
from erasable.cli.app import run
from erasable.schemas import Schema
from tests.cli.session import answered, printed, read_csv, refused, said
from tests.schemas.raw import columns, table, town_and_size, write

DRAFT = ["--target", "price", "--id", "row_id", "--subject", "person", "--ignore", "outcome", "--k", "5"]
LEARN = ["--schema", "schema.toml", "--threshold", "0.2", "-o", "m.erasable"]


def prices(n=240, seed=0):
    """A number that the other columns tell, with one that lies far beyond all others."""
    found = columns(n, seed)
    known = [10.0 * (a or 40) + 100 * (t == "Oslo") for a, t in zip(found["age"], found["town"], strict=True)]
    return [1e6, *known[1:]]


def homes(n=240, seed=0, **changes):
    return table(n, seed, **{"price": prices(n, seed), **changes})


@pytest.fixture
def raw(folder, capsys):
    write(homes(), "raw.csv")
    assert "price" in printed(capsys, ["schema", "raw.csv", *DRAFT, "-o", "schema.toml"]).out
    return folder


def clipped(values, ends):
    return np.clip(np.array(values), *ends)


def test_a_draft_declares_a_round_range_that_one_price_cannot_move(raw):
    schema = Schema.load("schema.toml")
    (ends,) = schema.target_range
    assert schema.names_of("target") == ("price",)
    assert ends[1] <= 1000
    assert all(end % 50 == 0 for end in ends)
    assert 'role = "target"\nrange = [' in Path("schema.toml").read_text(encoding="utf-8")


def test_commands_know_the_target(raw, capsys):
    write(homes(60, seed=1), "new.parquet")
    told = answered(capsys, ["learn", "raw.csv", *LEARN, "--test", "new.parquet", "--json"])
    beyond = told["encoding"]["cells"]["price"]
    ends = Schema.load("schema.toml").target_range[0]
    assert beyond == {"clipped": sum(not ends[0] <= p <= ends[1] for p in prices())}
    assert told["test"]["rows"] == 60
    assert run(["verify", "m.erasable"]) == 0
    assert answered(capsys, ["inspect", "m.erasable", "--json"])["target_ranges"] == [list(ends)]
    assert run(["predict", "m.erasable", "new.parquet", "--target", "price", "-o", "out.csv", "--json"]) == 0
    assert said(capsys)["scores"]["rows"] == 60
    predicted = read_csv("out.csv")
    assert [float(row["known"]) for row in predicted] == prices(60, seed=1)  # as they are, the odd one too
    assert [row["id"] for row in predicted] == columns(60)["row_id"]
    found = [float(row["prediction"]) for row in predicted]
    assert np.corrcoef(found[1:], prices(60, seed=1)[1:])[0, 1] > 0.9
    write(homes(60, seed=1, price=None), "unknown.csv")
    assert run(["predict", "m.erasable", "unknown.csv", "-o", "out.csv"]) == 0
    assert set(read_csv("out.csv")[0]) == {"id", "prediction"}


def test_sending_again_correcting_and_learning_more(raw, capsys):
    assert run(["learn", "raw.csv", *LEARN]) == 0
    before = Path("m.erasable").read_bytes()
    assert (
        answered(capsys, ["learn", "raw.csv", "--skip-known", "-o", "m.erasable", "--json"])["rows_known"]
        == load("m.erasable").n_core_
    )
    kept = load("m.erasable").core_ids_.tolist()[:3]
    write(homes().filter([i in kept for i in columns()["row_id"]]), "some.csv")
    assert answered(capsys, ["learn", "some.csv", "--replace", "-o", "m.erasable", "--json"])["rows_replaced"] == 3
    Path("m.erasable").write_bytes(before)
    write(homes(60, seed=2, row_id=[f"more-{i}" for i in range(60)]), "more.csv")
    assert run(["learn", "more.csv", "-o", "m.erasable"]) == 0
    model = load("m.erasable")
    gone = sorted(set(model.model_.core.subjects()))[0]
    assert run(["forget", "m.erasable", "--subject", gone]) == 0
    assert run(["verify", "m.erasable"]) == 0


def test_a_plan_takes_target_and_range_from_the_schema(raw, capsys):
    command = ["plan", "raw.csv", "--schema", "schema.toml", "--effort", "quick", "--max-loss", "0.4"]
    told = answered(capsys, [*command, "--json"])["command"]
    assert told.startswith("erasable learn raw.csv --schema schema.toml --target-range=")
    assert run(told.split()[1:]) == 0
    assert load("raw.erasable").model_.classifies is False
    with refused(capsys, raw) as refuse:
        refuse([*command, "--target-range", "0:5"], 2, "declares already: leave it out")


def test_several_targets_have_their_own_ranges(folder):
    write(homes(rent=[p / 100 for p in prices()]), "raw.csv")
    assert run(["schema", "raw.csv", *DRAFT, "--target", "rent", "-o", "schema.toml"]) == 0
    first, second = Schema.load("schema.toml").target_range
    assert first[1] > 50 * second[1]
    assert run(["learn", "raw.csv", *LEARN]) == 0
    assert run(["predict", "m.erasable", "raw.csv", "--target", "rent", "--target", "price", "-o", "out.csv"]) == 0
    row = read_csv("out.csv")[1]
    assert set(row) == {"id", "prediction price", "prediction rent", "known price", "known rent"}
    assert float(row["known price"]) == prices()[1]


def test_what_is_declared_and_what_is_said_must_agree(raw, capsys):
    text = Path("schema.toml").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("range = ")]
    Path("open.toml").write_text("\n".join(lines), encoding="utf-8")
    write(homes(price=[None, *prices()[1:]]), "gap.parquet")
    out = ["-o", "n.erasable"]
    with refused(capsys, raw) as refuse:
        refuse(["learn", "raw.csv", "--schema", "open.toml", *out], 2, "--target-range is required")
        refuse(["learn", "raw.csv", *LEARN, "--target-range", "0:5"], 2, "differs from what the schema declares")
        refuse(["learn", "raw.csv", *LEARN, "--label", "outcome"], 2, "--label is 'outcome', and 'price' is a target")
        refuse(["learn", "raw.csv", *LEARN, "--target", "age"], 2, "'price'")
        refuse(["learn", "raw.csv", *LEARN, "--loss", "logistic"], 2, "for classifiers")
        refuse(["learn", "gap.parquet", *LEARN], 2, "1 of 240 rows have a target in 'price' that is missing", "row 1:")
        refuse(["schema", "raw.csv", *DRAFT, "--label", "outcome", "-o", "n.toml"], 2, "label and a target")
    assert run(["learn", "raw.csv", "--schema", "open.toml", "--target-range", "0:2000000", *out]) == 0
    assert load("n.erasable").target_range == (0.0, 2_000_000.0)


# -- decimal commas ---------------------------------------------------------------------------------------------------


def european(found, name):
    """The same table with semicolons between cells and commas before decimals."""
    pyarrow.csv.write_csv(found, name, pyarrow.csv.WriteOptions(delimiter=";", quoting_style="none"))
    lines = Path(name).read_text(encoding="utf-8").splitlines()
    cells = [[c.replace(".", ",") if c.replace(".", "").isdigit() else c for c in line.split(";")] for line in lines]
    Path(name).write_text("\n".join(";".join(row) for row in cells) + "\n", encoding="utf-8")
    return ["--sep", ";", "--decimal", ","]


@pytest.mark.parametrize("of", ["label", "target"])
def test_decimal_commas_are_the_same_table(folder, capsys, of):
    found = homes(income=[p / 8 for p in prices()])
    roles = ["--id", "row_id", "--subject", "person", "--k", "5"]
    roles += ["--target", "price", "--ignore", "outcome"] if of == "target" else ["--label", "outcome"]
    write(found, "points.csv")
    comma = european(found, "commas.csv")
    assert "," in Path("commas.csv").read_text(encoding="utf-8")
    files = {}
    for name, how in (("points", []), ("commas", comma)):
        assert run(["schema", f"{name}.csv", *roles, *how, "-o", f"{name}.toml"]) == 0
        assert run(["learn", f"{name}.csv", "--schema", f"{name}.toml", *how, "-o", f"{name}.erasable"]) == 0
        assert run(["predict", f"{name}.erasable", f"{name}.csv", *how, "-o", f"{name}-out.csv"]) == 0
        checked = answered(capsys, ["schema", f"{name}.csv", "--check", f"{name}.toml", *how, "--json"])
        assert run(["schema", f"{name}.csv", "--show", *how, "--json"]) == 0
        shown = [(c["name"], c["different"], c["missing"], c["kind"]) for c in said(capsys)]
        read = [Path(f"{name}{end}").read_bytes() for end in (".toml", ".erasable", "-out.csv")]
        files[name] = checked, shown, read
    assert files["points"] == files["commas"]


def test_points_that_are_no_decimal_points_are_no_numbers(folder, capsys):
    """In a table with decimal commas 1.500 may be a thousand and a half: it is refused or counted, not guessed."""
    text = "version = 1\n[columns.x]\nkind = 'number'\nrange = [0, 10]\n[columns.day]\nkind = 'date'\n"
    Path("s.toml").write_text(text + "parts = ['month']\norder = 'dmy'\n", encoding="utf-8")
    Path("t.csv").write_text('x;day\n1,5;31.12.2020\n1.500;1.2.2021\n ,5 ;1.2.2021\n3;1.2.2021\n"2,5e0";?\n')
    check = ["schema", "t.csv", "--check", "s.toml", "--sep", ";", "--decimal", ",", "--json"]
    assert run(check) == 2
    assert "'x' holds numbers with marks" in said(capsys)["error"]["message"]
    assert answered(capsys, [*check, "--thousands", ""])["cells"] == {"x": {"unparsable": 1}, "day": {"missing": 1}}
    assert run([*check, "--thousands", "."]) == 0
    assert said(capsys)["cells"] == {"x": {"clipped": 1}, "day": {"missing": 1}}


def test_crosses_are_suggested_or_taken_and_their_gains_are_in_no_file(folder, capsys):
    """The price is that of the size in some towns, and the opposite in others; a model with the cross forgets."""
    town_and_size().to_csv("homes.csv", index=False)
    known = ["homes.csv", "--target", "price", "--id", "row"]
    said_first = printed(capsys, ["schema", *known, "-o", "plain.toml"]).out
    assert "town × size " in said_first
    text = Path("plain.toml").read_text(encoding="utf-8")
    assert '# [[crosses]]\n# columns = ["town", "size"]' in text
    assert Schema.load("plain.toml").crosses == ()
    told = answered(capsys, ["schema", *known, "--crosses", "2", "-o", "crossed.toml", "--json"])
    (found,) = told["crosses"]
    assert (found["columns"], found["taken"]) == (["town", "size"], True)
    assert 0.1 < found["gain"] < 1
    assert set(told["notes"]) == {"row", "town", "size", "age", "colour", "price", "town×size"}
    taken = Path("crossed.toml").read_text(encoding="utf-8")
    assert "gain" not in taken
    assert f"{found['gain']:.3f}" not in taken
    assert Schema.load("crossed.toml").crosses[0].columns == ("town", "size")
    assert run(["schema", *known, "--crosses", "0", "-o", "none.toml"]) == 0
    assert "[[crosses]]" not in Path("none.toml").read_text(encoding="utf-8")
    assert run(["learn", "homes.csv", "--schema", "crossed.toml", "-o", "m.erasable"]) == 0
    for command in (["forget", "m.erasable", "--id", "r1"], ["verify", "m.erasable"]):
        assert run(command) == 0
    with refused(capsys, folder) as refuse:
        refuse(["schema", "homes.csv", "--show", "--crosses", "2"], 2, "--crosses is for a draft")
