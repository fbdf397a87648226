"""The command as a user types it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from erasable.cli.app import run
from erasable.cli.reproduce import SettingOptions
from erasable.research import measuring
from erasable.research.reproduce import METHODS, ORDERS, DeletionTime, Settings
from erasable.research.theory.linear import Bound
from tests.cli.process import erasable
from tests.cli.session import answered, printed, refused
from tests.research.reproduce.cases import no_pictures, table_file
from tests.schemas import raw

OPTIONS = ["--deletions", "40", "--points", "2", "--repeats", "1", "--kappa", "0.4", "--quick"]


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """No pauses, and no pictures but in the one run that is a process of its own and where they are asked for."""
    monkeypatch.setattr(measuring, "settle", lambda: None)
    monkeypatch.setattr("erasable.research.reproduce.draw_all", no_pictures)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The command as a process of its own."""
    folder = tmp_path_factory.mktemp("run")
    options = [*OPTIONS, "--methods", "erasable,retrained"]
    return erasable("reproduce", table_file(folder), *options, cwd=folder), folder


def test_it_prints_the_table_and_says_where_the_report_is(done):
    finished, folder = done
    assert finished.returncode == 0, finished.stderr
    assert "Algorithm 1 (ours)" in finished.stdout
    assert "Exact retraining" in finished.stdout
    assert "training, s" in finished.stdout
    assert "report.html" in finished.stdout
    assert (folder / "reproduction" / "small" / "report.html").exists()


def test_the_same_again_is_done_at_once_and_json_is_what_the_file_holds(done, monkeypatch, capsys):
    _, folder = done
    monkeypatch.chdir(folder)
    monkeypatch.setattr("erasable.research.reproduce.experiment.timed_requests", None)  # nothing is measured again
    options = [*OPTIONS, "--methods", "erasable, retrained", "--json"]
    printed = answered(capsys, ["reproduce", str(folder / "small.npz"), *options])
    assert printed == json.loads((folder / "reproduction" / "small" / "results.json").read_text())


def test_the_random_state_is_a_setting(done, monkeypatch, capsys):
    _, folder = done
    monkeypatch.chdir(folder)
    options = [*OPTIONS, "--methods", "erasable,retrained"]
    command = ["reproduce", "small.npz", *options, "--random-state"]
    assert answered(capsys, [*command, "0", "--json"])["settings"]["random_state"] == 0
    assert "other settings (random_state)" in printed(capsys, [*command, "1"], 2).err


def test_an_error_is_one_line_that_says_what_to_do(folder, capsys):
    said = printed(capsys, ["reproduce", "margins"], 2).err
    assert said.startswith("error: there is no dataset or file 'margins': give one of margin")
    assert said.count("\n") == 1
    assert "Traceback" not in said


def test_figure_1_on_its_own(folder, capsys):
    assert run(["reproduce", "svm", "--out", "here"]) == 0
    assert (folder / "here" / "figure1.png").stat().st_size > 10_000
    figures = answered(capsys, ["reproduce", "svm", "--out", "here", "--json"])["figures"]
    assert figures == ["here/figure1.png", "here/figure1.svg"]
    assert (folder / "here" / "figure1.svg").exists()


def test_the_defaults_are_those_of_the_settings():
    assert SettingOptions().settings("margin") == Settings("margin")


def test_help_names_every_method_and_order_and_gives_examples(capsys):
    text = printed(capsys, ["reproduce", "--help"]).out
    for name in ORDERS:
        assert name in text
    assert "erasable reproduce margin --quick" in text
    for name in METHODS:
        assert name in text.replace("\n", "")


def test_a_schema_encodes_the_columns_of_a_file(folder, capsys):
    raw.write(raw.table(), "raw.csv")
    raw.draft().save("schema.toml")
    options = ["--schema", "schema.toml", *OPTIONS, "--methods", "erasable,retrained", "--order", "subject", "--json"]
    found = answered(capsys, ["reproduce", "raw.csv", *options])
    assert found["data"]["features"] == raw.draft().n_features_out
    assert found["settings"]["schema"] == "schema.toml"
    assert run(["reproduce", "raw.csv", *options]) == 0  # nothing is measured again
    raw.draft(k=30).save("schema.toml")
    targets = "version = 1\n[columns.age]\nrole = 'target'\n[columns.town]\nkind = 'category'\nhashed = 4\n"
    (folder / "targets.toml").write_text(targets)
    capsys.readouterr()
    with refused(capsys, folder) as refuse:
        refuse(["reproduce", "raw.csv", *options[:-1]], 2, "other settings (schema)")
        refuse(["reproduce", "raw.csv", "--schema", "targets.toml"], 2, "names a target")
        refuse(["reproduce", "digits", "--schema", "schema.toml"], 2, "digits is none: leave it out")


def test_columns_that_are_no_features_are_ignored_and_part_of_the_settings(tmp_path, capsys):
    rng = np.random.default_rng(0)
    lines = ["who,day,a,b,answer"]
    for i in range(120):
        a, b = rng.standard_normal(2)
        lines.append(f"u{i},{i},{a},{b},{'yes' if a > 0 else 'no'}")
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    options = ["--label", "answer", "--deletions", "20", "--points", "2", "--repeats", "1", "--kappa", "0.6"]
    options += ["--quick", "--methods", "erasable", "--out", str(tmp_path / "out"), "--json"]
    assert run(["reproduce", str(path), *options]) == 2
    assert "'who'" in json.loads(capsys.readouterr().out)["error"]["message"]
    results = answered(capsys, ["reproduce", str(path), *options, "--ignore", "who", "--ignore", "day"])
    assert results["settings"]["ignore"] == ["who", "day"]
    assert results["data"]["features"] == 2
    named = ["--id", "who", "--ignore", "day", "--methods", "erasable,sisa,subsample", "--out", str(tmp_path / "named")]
    assert run(["reproduce", str(path), *options, *named]) == 0
    capsys.readouterr()
    assert run(["reproduce", str(path), *options, "--ignore", "who"]) == 2
    assert "other settings (ignore)" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert "--ignore names columns of a file" in printed(capsys, ["reproduce", "digits", "--ignore", "who"], 2).err


def test_a_kappa_of_zero_is_no_default(capsys, monkeypatch):
    asked = {}
    monkeypatch.setattr("erasable.research.reproduce.measure_deletion_time", lambda n, **how: asked.update(how) or [])
    assert answered(capsys, ["reproduce", "deletion-time", "--kappa", "0", "--json"]) == {"deletion_time": []}
    assert (asked["kappa"], asked["capacity"]) == (0.0, 1.0)


def test_in_a_narrow_window_no_time_is_cut_off(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    found = DeletionTime("uniform, Lemma 4.5", 50, 123_456, 12.5, 1e-3, 2e-3, 3e-3, Bound(4e-3, False, "Theorem 4.6"))
    monkeypatch.setattr("erasable.research.reproduce.measure_deletion_time", lambda *_, **__: [found])
    text = printed(capsys, ["reproduce", "deletion-time"]).out
    for cell in ("123,456", "1,000", "2,000", "3,000", "4,000", "12.5"):
        assert cell in text
