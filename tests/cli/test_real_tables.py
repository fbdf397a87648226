"""Commands on tables as people have them: several files, compressed, in other dialects, sent again, corrected."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from erasable import load
from erasable.cli.app import run
from tests.cli.session import LEARN, MODEL, N, answered, content, learnt, printed, put, table

KNOBS = ["--threshold", "0.1"]


def european(name, low=0, high=N):
    """Cells between semicolons, decimal commas, UTF-16."""
    columns = table(low, high).to_pydict()
    texts = [[("" if v is None else str(v)).replace(".", ",") for v in values] for values in columns.values()]
    lines = [";".join(columns), *(";".join(cells) for cells in zip(*texts, strict=True)), ""]
    with open(name, "wb") as file:
        file.write("\n".join(lines).encode("utf-16"))
    return name


def test_every_way_to_hold_a_table_gives_the_same_file(folder):
    """Compressed, cut into several files in any order, in another dialect: rows are decided by the hashes of ids."""
    put(table(), "all.csv")
    assert run(["learn", "all.csv", *LEARN, *KNOBS]) == 0
    expected = content()
    (folder / "all.csv.gz").write_bytes(gzip.compress((folder / "all.csv").read_bytes()))
    (folder / "all.csv.zst").write_bytes(pa.compress((folder / "all.csv").read_bytes(), codec="zstd", asbytes=True))
    for i, (low, high) in enumerate([(0, 20), (20, 21), (21, N)]):
        put(table(low, high), f"part-{i}.csv")
    european("other.csv")
    for data in (
        ["all.csv.gz"],
        ["all.csv.zst"],
        ["part-*.csv"],
        ["part-2.csv", "part-0.csv", "part-1.csv"],
        ["other.csv", "--sep", ";", "--decimal", ","],
        ["other.csv", "--sep", ";", "--decimal", ",", "--encoding", "utf-16"],
    ):
        (folder / MODEL).unlink()
        assert run(["learn", *data, *LEARN, *KNOBS]) == 0, data
        assert content() == expected, data


def test_rows_without_ids_are_numbered_in_the_order_of_the_files(folder):
    for i, (low, high) in enumerate([(0, 20), (20, N)]):
        put(table(low, high, row_id=None, user_id=None), f"part-{i}.csv")
    put(table(row_id=None, user_id=None), "all.csv")
    options = ["--label", "churned", *KNOBS, "-o"]
    assert run(["learn", "all.csv", *options, "all.erasable"]) == 0
    assert run(["learn", "part-[01].csv", *options, "sorted.erasable"]) == 0
    assert run(["learn", "part-1.csv", "part-0.csv", *options, "turned.erasable"]) == 0
    assert content("sorted.erasable") == content("all.erasable")
    assert content("turned.erasable") != content("all.erasable")


def test_a_table_can_be_sent_again(capsys, folder):
    learnt()
    n, before = load(MODEL).n_core_, content()
    put(table(), "all.csv")
    assert "--replace or --skip-known" in printed(capsys, ["learn", "all.csv", *LEARN], 2).err
    assert content() == before
    told = printed(capsys, ["learn", "all.csv", *LEARN, "--skip-known"]).out
    assert f"{N - n:,} rows learnt" in told
    assert f"{n:,} more rows were passed over" in told
    again = answered(capsys, ["learn", "all.csv", *LEARN, "--skip-known", "--json"])
    assert again["rows"] + again["rows_known"] == N
    assert again["rows_known"] == load(MODEL).n_core_ - again["core_rows_added"]


def test_rows_are_corrected_in_one_command(capsys, folder):
    learnt()
    core = load(MODEL).core_ids_.tolist()[:5]
    at = [int(key.split()[1]) for key in core]
    ages = np.where(np.isin(np.arange(N), at), 2.5, table()["age"].to_numpy())
    put(table(age=ages).take(at), "corrected.parquet")
    (folder / "judge.erasable").write_bytes(content())
    options = [v if v != MODEL else "judge.erasable" for v in LEARN]
    assert run(["forget", "judge.erasable", *(word for key in core for word in ("--id", key))]) == 0
    assert run(["learn", "corrected.parquet", *options]) == 0
    text = printed(capsys, ["learn", "corrected.parquet", *LEARN, "--replace"]).out
    assert "5 stored rows with ids of these were forgotten first" in text
    assert content() == content("judge.erasable")
    text = printed(capsys, ["learn", "corrected.parquet", *LEARN, "--replace", "--skip-known"], 2).err
    assert "--skip-known leaves" in text


def test_text_columns_are_named_with_the_command_that_helps(capsys, folder):
    put(table(town=["x"] * N, street=["y"] * N), "all.csv")
    error = printed(capsys, ["learn", "all.csv", *LEARN], 2).err
    for part in ("'town' (string)", "'street' (string)", "schema", "erasable schema", "--ignore"):
        assert part in error


def test_predict_names_columns_that_are_missing_or_too_many(capsys, folder):
    learnt()
    put(table(age=None, height=None), "less.csv")
    assert "lacks 2 of 3 features: 'age', 'height'" in printed(capsys, ["predict", MODEL, "less.csv"], 2).err
    put(table(town=["x"] * N), "more.csv")
    text = printed(
        capsys, ["predict", MODEL, "more.csv", "--id", "row_id", "--label", "churned", "--ignore", "user_id"]
    ).err
    assert "does not use these columns of the table: 'town'\n" in text
    assert answered(capsys, ["predict", MODEL, "more.csv", "-o", "p.csv", "--json"])["unused_columns"] == [
        "row_id",
        "user_id",
        "churned",
        "town",
    ]


def test_learning_more_names_columns_that_differ(capsys, folder):
    learnt()
    put(table(age=None, size=np.ones(N)), "other.csv")
    assert "it lacks 'age' and has 'size' in addition" in printed(capsys, ["learn", "other.csv", *LEARN], 2).err


def test_predict_scan_and_plan_read_the_same_files(capsys, folder):
    learnt()
    put(table(), "all.csv")
    european("part-0.csv", 0, 20)
    european("part-1.csv", 20, N)
    dialect = ["--sep", ";", "--decimal", ","]
    assert run(["predict", MODEL, "all.csv", "--id", "row_id", "-o", "one.jsonl"]) == 0
    assert run(["predict", MODEL, "part-*.csv", *dialect, "--id", "row_id", "-o", "two.jsonl"]) == 0
    assert (folder / "one.jsonl").read_text() == (folder / "two.jsonl").read_text()
    assert "is read here" in printed(capsys, ["predict", MODEL, "part-*.csv", *dialect, "-o", "part-1.csv"], 2).err
    roles = ["--label", "churned", "--id", "row_id"]
    others = [word for name in ("*.jsonl", "all.csv", "learnt.parquet") for word in ("--exclude", name)]
    scan = ["scan", ".", *roles, *others, "--json"]
    told = answered(capsys, [*scan, "--for", "part-0.csv", "--for", "part-1.csv", *dialect], 1)
    assert told["rows"] == N
    assert {remain["file"] for remain in told["remains"]} == {MODEL}
    command = answered(
        capsys, ["plan", "part-*.csv", *dialect, *roles, "--ignore", "user_id", "--effort", "quick", "--json"]
    )["command"]
    assert command.startswith("erasable learn 'part-*.csv' ")
    assert " --sep ';' " in command
    assert command.endswith("-o part-.erasable")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--sep", "ab"], "--sep must be one character"),
        (["--decimal", ","], "--decimal and --sep must differ"),
        (["--encoding", "klingon"], "--encoding must be one that Python knows"),
        (["--encoding", "latin-1", "--sep", ";"], "--encoding says otherwise"),
    ],
)
def test_dialects_that_cannot_be_are_refused(capsys, folder, options, says):
    european("other.csv")
    assert says in printed(capsys, ["learn", "other.csv", *options, *LEARN], 2).err
    assert not (folder / MODEL).exists()


def test_ids_to_forget_may_be_compressed(capsys, folder):
    learnt()
    core = load(MODEL).core_ids_.tolist()
    text = "row_id\n" + "\n".join(core[:3]) + "\n"
    (folder / "gone.csv.zst").write_bytes(pa.compress(text.encode("utf-16"), codec="zstd", asbytes=True))
    assert run(["forget", MODEL, "--ids-file", "gone.csv.zst"]) == 0
    assert load(MODEL).core_ids_.tolist() == core[3:]
    (folder / "more-1.txt").write_text(core[3])
    (folder / "more-2.txt.gz").write_bytes(gzip.compress(core[4].encode()))
    (folder / "last.txt").write_text(core[5])
    assert run(["forget", MODEL, "--ids-file", "more-*", "--ids-file", "last.txt"]) == 0
    assert load(MODEL).core_ids_.tolist() == core[6:]
    assert "no file matches" in printed(capsys, ["forget", MODEL, "--ids-file", "nothing-*"], 2).err
