"""``erasable plan`` as a user types it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import shlex

import numpy as np
import pytest

from erasable.cli import main
from erasable.cli.plan import EffortOptions, TargetOptions
from erasable.errors import ConfigurationError
from erasable.operations.plan import DISTRIBUTIONS, EFFORTS, METRICS, PlanOptions
from erasable.operations.plan import plan as operation
from tests.cli.process import erasable
from tests.operations.plan.conftest import LITTLE


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """Run the command inside this process: exit status, standard output, standard error."""

    monkeypatch.setitem(EFFORTS, "quick", LITTLE)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["erasable", *arguments])
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return run


def people(folder, n=300):
    """A CSV with a label, a subject, a column of weights and two features."""
    rng = np.random.default_rng(0)
    lines = ["who,a,b,likely,answer"]
    for i in range(n):
        a, b = rng.standard_normal(2)
        lines.append(f"u{i % 60},{a},{b},{1 + i % 3},{'yes' if a > 0 else 'no'}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    return "people.csv"


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    options = ["--label", "answer", "--subject", "who", "--weights", "likely", "--distribution", "weights"]
    options += ["--deletions-per-month", "5", "--effort", "quick", "--max-loss", "0.05", "--out", "plans/people"]
    (folder / "plans" / "people").mkdir(parents=True)
    (folder / "plans" / "people" / ".plan.json.new").write_text("what a killed writer left")
    return erasable("plan", people(folder), *options, cwd=folder), folder


def test_it_prints_tables_and_the_line_and_writes_what_it_says(done):
    run, folder = done
    assert run.returncode == 0, run.stderr
    for text in (
        "candidates (300 x 2",
        "What to expect",
        "equal storage",
        "ErasableClassifier(selection=",
        "frontier.png",
    ):
        assert text in run.stdout
    out = folder / "plans" / "people"
    assert (out / "frontier.png").stat().st_size > 10_000
    assert {p.name for p in out.iterdir()} == {"frontier.png", "frontier.svg", "plan.json"}  # written as a whole
    written = json.loads((out / "plan.json").read_text())
    assert written["features"] == 2
    assert written["targets"]["distribution"] == "weights"
    assert written["line"] in run.stdout


def test_json_is_all_that_is_printed_on_request(command, tmp_path):
    options = ["--label", "answer", "--subject", "who", "--weights", "likely", "--distribution", "weights"]
    status, shown, said = command(
        "plan", people(tmp_path), *options, "--effort", "quick", "--max-loss", "0.1", "--json"
    )
    assert status == 0, said
    assert json.loads(shown)["recommended"]["stored_rows"] > 0
    assert not (tmp_path / "plan.json").exists()


def test_the_command_it_ends_with_learns_what_it_says(command, tmp_path):
    people(tmp_path)
    (tmp_path / "people.csv").rename(tmp_path / "our people.csv")
    options = ["--label", "answer", "--id", "who", "--ignore", "likely", "--no-intercept"]
    lines = (tmp_path / "our people.csv").read_text().splitlines()
    named = [lines[0], *(f"r{i}{line}" for i, line in enumerate(lines[1:]))]  # every row a name of its own
    (tmp_path / "our people.csv").write_text("\n".join(named) + "\n")
    status, shown, said = command(
        "plan", "our people.csv", *options, "--effort", "quick", "--max-loss", "0.1", "--json"
    )
    assert status == 0, said
    found = json.loads(shown)
    words = shlex.split(found["command"])
    assert words[:3] == ["erasable", "learn", "our people.csv"]
    assert words[-2:] == ["-o", "our people.erasable"]
    status, shown, said = command(*words[1:], "--json")
    assert status == 0, said
    assert json.loads(shown)["core_rows"] == found["recommended"]["stored_rows"]
    _, shown, _ = command("plan", "our people.csv", *options, "--effort", "quick", "--max-loss", "0.1")
    assert found["command"] in shown
    assert found["line"] in shown


def homes(folder, n=400):
    """A CSV with two targets, ids, and two columns of people."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    price, area = 500.0 + 100.0 * X[:, 0] + 20.0 * rng.standard_normal(n), 3.0 * X[:, 1] - 0.5
    columns = zip(X.tolist(), price.tolist(), area.tolist(), strict=True)
    lines = [f"{i},s{i % 70},b{i % 61},{a},{b},{c},{p},{q}" for i, ((a, b, c), p, q) in enumerate(columns)]
    (folder / "homes.csv").write_text("\n".join(["id,seller,buyer,a,b,c,price,area", *lines]) + "\n")
    return "homes.csv"


PRICE = ["--target", "price", "--target-range", "0:1000", "--ignore", "area"]
BOTH = ["--target", "price", "--target", "area", "--target-range=0:1000", "--target-range=-20:20"]


@pytest.mark.parametrize(
    ("targets", "typed"),
    [
        (PRICE, "--target-range=0:1000"),
        ([*PRICE, "--metric", "mae", "--max-loss", "3"], "--target-range=0:1000"),
        (BOTH, "--target-range=0:1000 --target-range=-20:20"),
        (["--label", "price", "--target-range", "0:1000", "--ignore", "area"], "--label price"),
    ],
)
def test_the_command_for_a_regression_learns_what_it_says(command, tmp_path, targets, typed):
    options = [*targets, "--id", "id", "--subject", "seller", "--subject", "buyer", "--scaling", "12.3456789"]
    status, shown, said = command("plan", homes(tmp_path), *options, "--effort", "quick", "--json")
    assert status == 0, said
    found = json.loads(shown)
    for words in (typed, "--subject seller --subject buyer", "--scaling 12.3456789"):
        assert words in found["command"]
    assert found["line"].startswith("ErasableRegressor(target_range=")
    assert found["recommended"]["survival"]["unit"] == "subjects"
    status, shown, said = command(*shlex.split(found["command"])[1:], "--json")
    assert status == 0, said
    assert json.loads(shown)["core_rows"] == found["recommended"]["stored_rows"]
    assert json.loads(shown)["core_rows"] / 400 == found["recommended"]["stored_share"]


def test_files_without_names_are_regressions_where_a_range_is_declared(command, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    np.savez(tmp_path / "rows.npz", X=X, y=X[:, 0] - 0.5 * X[:, 1])
    options = ["--target-range=-9:9", "--scaling", "5", "--effort", "quick", "--max-loss", "0.05"]
    status, shown, said = command("plan", "rows.npz", *options)
    assert status == 0, said
    assert "R²" in shown
    assert "erasable learn rows.npz --target-range=-9:9 --selection" in shown


def test_the_command_for_a_raw_table_learns_what_it_says(command, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{i},{rng.integers(18, 80)},{'red' if i % 3 else 'blue'}" for i in range(400)]
    text = [f"{line},{'yes' if int(line.split(',')[1]) > 45 else 'no'}" for line in lines]
    (tmp_path / "raw.csv").write_text("\n".join(["id,age,colour,answer", *text]) + "\n")
    status, _, said = command("schema", "raw.csv", "--label", "answer", "--id", "id", "-o", "schema.toml")
    assert status == 0, said
    options = ["--schema", "schema.toml", "--effort", "quick", "--max-loss", "0.1", "--json"]
    status, shown, said = command("plan", "raw.csv", *options)
    assert status == 0, said
    found = json.loads(shown)
    assert "feature_map=TableEncoder(Schema.load('schema.toml')))" in found["line"]
    status, shown, said = command(*shlex.split(found["command"])[1:], "--json")
    assert status == 0, said
    assert json.loads(shown)["core_rows"] == found["recommended"]["stored_rows"]


def test_there_is_no_command_for_rows_that_are_no_file(command):
    status, shown, said = command("plan", "digits", "--effort", "quick", "--max-loss", "0.05", "--json")
    assert status == 0, said
    assert json.loads(shown)["command"] is None


def test_a_refusal_speaks_the_language_of_the_command_line(command, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    answers = X[:, 0] + 2 * rng.standard_normal(400) > 3.3
    table = ["a,b,c,label", *(f"{a},{b},{c},{int(y)}" for (a, b, c), y in zip(X, answers, strict=True))]
    (tmp_path / "rare.csv").write_text("\n".join(table) + "\n")
    status, _, said = command("plan", "rare.csv", "--effort", "quick", "--metric", "accuracy")
    assert status == 2
    assert "--metric auc (0." in said
    assert "metric=" not in said
    status, _, said = command("plan", "rare.csv", "--effort", "quick", "--metric", "auc", "--max-stored", "0.05")
    assert status == 2
    assert "with --max-stored 0.05" in said
    assert "What would do: --max-stored 0." in said
    assert "max_" not in said


def test_the_random_state_reaches_the_plan(command, tmp_path, monkeypatch):
    def made(*rows, random_state, **options):
        raise ConfigurationError(f"planned with {random_state}.")

    monkeypatch.setattr("erasable.operations.plan.plan", made)
    status, _, said = command("plan", people(tmp_path), "--label", "answer", "--ignore", "who", "--random-state", "7")
    assert (status, said.strip()) == (2, "error: planned with 7.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["margins"], "there is no file 'margins': give a .csv"),
        (["digits", "--weights", "w"], "digits has no column of weights"),
        (["people.csv", "--label", "answers"], "people.csv has no column 'answers'"),
        (["people.csv", "--label", "answer", "--subject", "who", "--weights", "w"], "no column 'w'; it has"),
        (["people.csv", "--label", "answer", "--weights", "who"], "weights are not numbers"),
        (["digits", "--effort", "much"], "--effort must be one of 'quick'"),
        (["digits", "--metric", "f1"], "--metric must be one of 'auc'"),
        (["digits", "--months", "3"], "--months needs --deletions-per-month"),
        (["digits", "--deletions-per-month", "9999"], "(--deletions-per-month times months)"),
        (["digits", "--distribution", "subject"], "--distribution subject needs --subject"),
        (["digits", "--target", "price", "--target-range", "0:9"], "--target names columns of a file"),
        (["homes.csv", "--target", "price"], "--target-range is required"),
        (["homes.csv", "--target", "price", "--target-range", "9"], "two numbers with a colon between them"),
        (
            ["homes.csv", "--target", "cost", "--target-range", "0:9", "--subject", "seller", "--subject", "buyer"],
            "'cost'",
        ),
        (["homes.csv", *PRICE, "--schema", "schema.toml"], "schema.toml does not exist"),
        (["homes.csv", *PRICE, "--subject", "seller", "--subject", "buyer", "--metric", "mae"], "so --max-loss has no"),
        (["homes.csv", *PRICE, "--subject", "seller", "--subject", "buyer", "--metric", "auc"], "'r2', 'mae'"),
        (["homes.csv", "--label", "price", "--subject", "seller", "--ignore", "buyer"], "declare --target-range"),
        (["digits", "--max-stored", "3"], "--max-stored must be a number above 0"),
        (["digits", "--max-bytes", "10", "--effort", "quick"], "storage target (--max-bytes 10): the smallest"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(command, tmp_path, arguments, message):
    people(tmp_path)
    homes(tmp_path)
    status, shown, said = command("plan", *arguments)
    assert status == 2
    assert said.strip().startswith("error: ")
    assert message in said
    assert said.strip().count("\n") == 0
    assert shown == ""


def test_help_names_every_effort_and_distribution_and_gives_examples(command):
    _, text, _ = command("plan", "--help")
    for word in (*EFFORTS, *DISTRIBUTIONS, *METRICS, "erasable plan digits"):
        assert word in text


def test_the_defaults_are_those_of_the_operation():
    theirs = inspect.signature(operation).parameters
    ours = {field.name: field.default for field in dataclasses.fields(EffortOptions)}
    shared = {name: theirs[name].default for name in theirs if name in ours}
    assert shared == {"horizon": None, "effort": "default", "random_state": 0} == {name: ours[name] for name in shared}
    targets = {field.name: field.default for field in dataclasses.fields(TargetOptions)}
    assert targets.keys() == PlanOptions.__annotations__.keys() - {
        *("fit_intercept", "scaling", "target_range", "moments", "class_shares", "learners", "encoded")
    }
    assert set(targets.values()) == {None}


def test_columns_that_are_no_features_are_ignored(command, tmp_path):
    lines = (tmp_path / people(tmp_path)).read_text().splitlines()
    dated = [f"{line},{'2026-01-01' if i else 'day'}" for i, line in enumerate(lines)]
    (tmp_path / "dated.csv").write_text("\n".join(dated) + "\n")
    options = ["--label", "answer", "--effort", "quick", "--max-loss", "0.1", "--json"]
    status, shown, _ = command("plan", "dated.csv", *options, "--ignore", "who")
    assert status == 2
    assert "'day'" in json.loads(shown)["error"]["message"]
    status, shown, said = command("plan", "dated.csv", *options, "--ignore", "who", "--ignore", "day")
    assert status == 0, said
    assert json.loads(shown)["features"] == 3
    status, _, said = command("plan", "digits", "--ignore", "who")
    assert status == 2
    assert "--ignore names columns of a file" in said
