"""The command as a user types it."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import numpy as np
import pytest

from erasable.cli.app import run
from erasable.cli.reproduce import reproduce
from erasable.research.reproduce import METHODS, ORDERS, Settings
from tests.research.reproduce.cases import table_file


def erasable(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "erasable.cli", *arguments],
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "100", "NO_COLOR": "1", "HOME": str(cwd or "/tmp")},
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    path = table_file(folder)
    options = ["--deletions", "40", "--points", "2", "--repeats", "1", "--kappa", "0.4"]
    return erasable("reproduce", path, *options, "--methods", "erasable,retrained", cwd=folder), folder


def test_it_prints_the_table_and_says_where_the_report_is(done):
    run, folder = done
    assert run.returncode == 0, run.stderr
    assert "Algorithm 1 (ours)" in run.stdout
    assert "Exact retraining" in run.stdout
    assert "training, s" in run.stdout
    assert "report.html" in run.stdout
    assert (folder / "reproduction" / "small" / "report.html").exists()


def test_the_same_again_is_done_at_once_and_json_is_what_the_file_holds(done):
    _, folder = done
    options = ["--deletions", "40", "--points", "2", "--repeats", "1", "--kappa", "0.4"]
    again = erasable(
        "reproduce", str(folder / "small.npz"), *options, "--methods", "erasable, retrained", "--json", cwd=folder
    )
    assert again.returncode == 0, again.stderr
    printed = json.loads(again.stdout)
    assert printed == json.loads((folder / "reproduction" / "small" / "results.json").read_text())


def test_an_error_is_one_line_that_says_what_to_do(tmp_path):
    run = erasable("reproduce", "margins", cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("error: there is no dataset or file 'margins': give one of margin")
    assert run.stderr.count("\n") == 1
    assert "Traceback" not in run.stderr


def test_a_broken_file_is_an_error_and_not_a_traceback(tmp_path):
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 not a zip")
    run = erasable("reproduce", "broken.npz", cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("error: ")
    assert "Traceback" not in run.stderr


def test_figure_1_on_its_own(tmp_path):
    run = erasable("reproduce", "svm", "--out", "here", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "here" / "figure1.png").stat().st_size > 10_000


def test_figure_1_on_its_own_as_json(tmp_path, capsys):
    assert run(["reproduce", "svm", "--out", str(tmp_path), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures == [str(tmp_path / "figure1.png"), str(tmp_path / "figure1.svg")]
    assert (tmp_path / "figure1.svg").exists()


def test_the_defaults_are_those_of_the_settings():
    ours = {name: p.default for name, p in inspect.signature(reproduce).parameters.items()}
    default = Settings("margin")
    assert tuple(ours.pop("ignore") or ()) == default.ignore
    assert ours.pop("methods") == ",".join(default.methods) == ",".join(METHODS)
    shared = {name for name in ours if name in default.as_json() and name != "dataset"}
    assert len(shared) >= 14
    assert {name: ours[name] for name in shared} == {name: getattr(default, name) for name in shared}


def test_help_names_every_method_and_order_and_gives_examples(tmp_path):
    text = erasable("reproduce", "--help", cwd=tmp_path).stdout
    for name in ORDERS:
        assert name in text
    assert "erasable reproduce margin --quick" in text
    for name in METHODS:
        assert name in text.replace("\n", "")


def test_text_labels_and_named_rows_work_too(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["who,a,b,answer"]
    for i in range(120):
        a, b = rng.standard_normal(2)
        lines.append(f"u{i},{a},{b},{'yes' if a > 0 else 'no'}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    options = ["--label", "answer", "--id", "who", "--deletions", "20", "--points", "2", "--repeats", "1"]
    run = erasable(
        "reproduce", "people.csv", *options, "--kappa", "0.6", "--methods", "erasable,sisa,subsample", cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr


def test_columns_that_are_no_features_are_ignored_and_part_of_the_settings(tmp_path, capsys):
    rng = np.random.default_rng(0)
    lines = ["who,day,a,b,answer"]
    for i in range(120):
        a, b = rng.standard_normal(2)
        lines.append(f"u{i},{i},{a},{b},{'yes' if a > 0 else 'no'}")
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    options = ["--label", "answer", "--deletions", "20", "--points", "2", "--repeats", "1", "--kappa", "0.6"]
    options += ["--methods", "erasable", "--out", str(tmp_path / "out"), "--json"]
    assert run(["reproduce", str(path), *options]) == 2
    assert "'who'" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert run(["reproduce", str(path), *options, "--ignore", "who", "--ignore", "day"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["settings"]["ignore"] == ["who", "day"]
    assert results["data"]["features"] == 2
    assert run(["reproduce", str(path), *options, "--ignore", "who"]) == 2
    assert "other settings (ignore)" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert run(["reproduce", "digits", "--ignore", "who"]) == 2
    assert "--ignore names columns of a file" in capsys.readouterr().err
