"""``erasable scan`` as a user types it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from erasable import ErasableClassifier
from erasable.cli.app import run

SECRET = "secret-00001"


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """Run the command inside this process: exit code, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        code = run(["scan", *arguments])
        return code, *capsys.readouterr()

    return invoke


@pytest.fixture
def folder(tmp_path):
    """A folder ``models`` with a model that holds the one row of ``gone.csv``; and the model."""
    X = np.random.default_rng(0).standard_normal((100, 6))
    ids = [SECRET, *(f"other-{i:05d}" for i in range(99))]
    clf = ErasableClassifier(threshold=0.01).fit(X, X[:, 0] > 0, ids=ids)
    assert SECRET in clf.core_ids_
    names = ",".join(f"f{j}" for j in range(6))
    values = ",".join(repr(float(v)) for v in X[0])
    (tmp_path / "gone.csv").write_text(f"row_id,{names},label\n{SECRET},{values},1\n")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m.erasable").write_bytes(clf._model.snapshot().to_bytes())
    return tmp_path, clf


def forget(folder):
    where, clf = folder
    clf.forget(ids=[SECRET])
    (where / "models" / "m.erasable").write_bytes(clf._model.snapshot().to_bytes())


def test_what_is_found_is_shown_with_file_and_offset_and_exit_code_1(command, folder):
    code, shown, _ = command("models", "--for", "gone.csv", "--id", "row_id")
    assert code == 1
    assert "found 2 remains" in shown
    assert "m.erasable" in shown
    assert "grid row" in shown
    data = (folder[0] / "models" / "m.erasable").read_bytes()
    assert f"{data.index(SECRET.encode()):,}" in shown
    assert SECRET not in shown


def test_nothing_found_is_exit_code_0(command, folder):
    forget(folder)
    code, shown, said = command("models", "--for", "gone.csv", "--id", "row_id")
    assert code == 0
    assert shown.startswith("nothing found (1 row, 1 file")
    assert said == ""


def test_the_table_itself_and_what_is_excluded_are_left_out(command, folder):
    forget(folder)
    (folder[0] / "old.log").write_text(f"learnt {SECRET}\n")
    code, shown, _ = command(".", "--for", "gone.csv", "--id", "row_id")
    assert code == 1
    assert "old.log" in shown
    code, shown, _ = command(".", "--for", "gone.csv", "--id", "row_id", "--exclude", "*.log", "--exclude", "x")
    assert code == 0
    assert "left out: gone.csv" in shown
    assert "left out: old.log" in shown


def test_what_could_not_be_read_is_exit_code_5_unless_something_is_found(command, folder):
    names, values = (folder[0] / "gone.csv").read_text().splitlines()
    no_ids = "\n".join(line.partition(",")[2] for line in (names, values)) + "\n"
    (folder[0] / "no_ids.csv").write_text(no_ids)
    code, shown, _ = command("models", "--for", "no_ids.csv", "--label", "none")  # one feature too many
    assert code == 5
    assert "nothing found in what could be searched; 1 file could not (" in shown
    (folder[0] / "models" / "x").write_text(SECRET)
    assert command("models", "--for", "gone.csv", "--label", "none", "--id", "row_id")[0] == 1


def test_notes_name_what_the_scan_did_not_see(command, folder):
    forget(folder)
    models = folder[0] / "models"
    (models / "old.zip").write_bytes(b"PK\x03\x04" + bytes(50))
    (models / "link").symlink_to(models / "old.zip")
    (folder[0] / "short.csv").write_text("row_id,f0\n7,0.5\n")
    code, shown, _ = command("models", "--for", "short.csv", "--id", "row_id")
    assert code == 0
    for text in (
        "not searched: old.zip",
        "only ids compared",
        "1 id is too short",
        "1 row has",
        "not opened: 1",
    ):
        assert text in shown


def test_what_was_not_looked_into_is_said_and_with_strict_exit_code_5(command, folder):
    forget(folder)
    models = folder[0] / "models"
    asked = ["models", "--for", "gone.csv", "--id", "row_id"]
    assert command(*asked, "--strict")[0] == 0
    (models / "old.zip").write_bytes(b"PK\x03\x04" + bytes(50))
    (models / "new.gz").write_bytes(b"\x1f\x8b" + bytes(50))
    code, shown, _ = command(*asked)
    assert code == 0
    assert "nothing found in what could be searched; 2 files could not (1 row, 3 files" in shown
    code, strict, _ = command(*asked, "--strict")
    assert code == 5
    assert strict == shown
    code, shown, _ = command(*asked, "--strict", "--json")
    assert code == 5
    assert (json.loads(shown)["clean"], json.loads(shown)["complete"]) == (True, False)
    code, shown, _ = command(*asked, "--strict", "--exclude", "*.zip", "--exclude", "*.gz")
    assert code == 0
    assert "nothing found (1 row," in shown
    code, shown, _ = command(*asked, "--strict", "--exclude", "*.zip", "--exclude", "*.gz", "--label", "none")
    assert code == 5  # with the label as a feature, only ids could be compared
    assert "searched; 1 file could not (" in shown
    (models / "log").write_text(f"{SECRET}\n")
    assert command(*asked, "--strict")[0] == 1


def test_many_remains_are_cut_short_on_the_screen_and_whole_in_json(command, folder):
    models = folder[0] / "models"
    (models / "log").write_text(f"{SECRET}\n" * 60)
    _, shown, _ = command("models", "--for", "gone.csv", "--id", "row_id")
    assert "the first 40 of 62" in shown
    code, shown, said = command("models", "--for", "gone.csv", "--id", "row_id", "--json")
    assert code == 1
    report = json.loads(shown)
    assert report["found"] == len(report["remains"]) == 62
    assert report["remains"][0] == {"file": "log", "offset": 0, "length": 12, "what": "id", "row": 0}
    assert SECRET not in shown
    assert said == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["models", "--for", "nothing.csv"], "nothing.csv"),
        (["nowhere", "--for", "gone.csv", "--id", "row_id"], "cannot be looked through"),
        (["models"], "--for"),
        (["models", "--for", "gone.csv"], "'row_id'"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(command, folder, arguments, message):
    code, shown, said = command(*arguments)
    assert code == 2
    assert message in said
    assert said.strip().count("\n") == 0
    assert SECRET not in said
    assert shown == ""


def test_the_number_of_remains_in_each_file_comes_first(command, folder):
    models = folder[0] / "models"
    (models / "[log]").write_text(f"{SECRET}\n" * 3)
    (models / "one").write_text(SECRET)
    _, shown, _ = command("models", "--for", "gone.csv", "--id", "row_id")
    lines = shown.splitlines()
    assert lines[:3] == ["3 remains in [log]", "2 remains in m.erasable", "1 remain in one"]
    assert lines[3].strip() == "Remains"
    for i in range(50):
        (models / f"{i:02d}").write_text(SECRET)
    _, shown, _ = command("models", "--for", "gone.csv", "--id", "row_id")
    lines = shown.splitlines()
    assert sum(" in " in line for line in lines[:41]) == 41
    assert lines[40] == "and some in 13 more files"
    assert lines[41].strip() == "Remains (the first 40 of 56)"
