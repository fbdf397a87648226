"""The frame of the command line: help, laziness, exit codes, errors, completion."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import typer
import typer.main

import erasable
from erasable import errors
from erasable.cli._shared import Json
from erasable.cli.app import COMMANDS, EXIT_CODES, Entry, LazyGroup, app, exit_code, load_command, run

GROUPS = {"receipt": ("verify",), "keys": ("new",), "mlflow": ("stale",), "token": ("make", "list", "revoke")}
LEAVES = [[name, *rest] for name in COMMANDS for rest in ([[c] for c in GROUPS.get(name, ())] or [[]])]
HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "pyarrow", "cryptography")
PANELS = {
    "Model": ["learn", "forget", "verify", "predict", "inspect", "export", "replay", "schema", "moments"],
    "Proof": ["receipt", "keys", "scan", "audit", "evidence", "mlflow"],
    "Service": ["serve", "token", "request", "purge"],
    "Research": ["plan", "reproduce", "demo"],
}


def python(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """A Python process of its own, whose lines are wide enough not to be broken."""
    extra = options.pop("env", {})
    plain = {"COLUMNS": "200", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": ""}
    streams = {} if "stdout" in options else {"stdout": subprocess.PIPE}
    return subprocess.run(
        [sys.executable, *arguments],
        encoding="utf-8",
        stderr=subprocess.PIPE,
        timeout=300,
        check=False,
        env={**os.environ, **plain, **extra},
        **streams,
        **options,
    )


@pytest.fixture(scope="module")
def helps():
    """From one process: what ``--help`` of every command prints, and the heavy packages imported by then."""
    code = (
        "import contextlib, io, json, sys; from erasable.cli.app import run; found = {}\n"
        f"for command in {[[], *LEAVES]!r}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as out: code = run([*command, '--help'])\n"
        f"    heavy = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "    found[' '.join(command)] = code, out.getvalue(), heavy\n"
        "print(json.dumps(found))"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def broken(monkeypatch):
    """A command ``broken`` that does what the test wants."""

    def make(work):
        module = types.ModuleType("erasable_broken_command")

        def broken(as_json: Json = False) -> None:
            work()

        module.broken = broken
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(COMMANDS, "broken", Entry(module.__name__, "Research", "Break."))

    return make


def raising(error):
    def work():
        raise error

    return work


def test_help_lists_every_command_in_its_panel_in_order_and_the_exit_codes_and_loads_nothing_heavy(helps):
    code, text, heavy = helps[""]
    assert (code, heavy) == (0, [])
    places = [text.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    ends = [*places[1:], len(text)]
    for (_, names), start, end in zip(PANELS.items(), places, ends, strict=True):
        found = [text[start:end].index(f"│ {name} ") for name in names]
        assert found == sorted(found)
    assert sorted(COMMANDS) == sorted(name for names in PANELS.values() for name in names)
    for code, meaning in EXIT_CODES.items():
        assert f"{code}: {meaning}" in text
    assert "--install-completion" in text
    assert "--show-completion" in text


@pytest.mark.parametrize(
    ("command", "panels"),
    [
        (
            "learn",
            ["Columns of the table", "How a CSV is written", "Which rows are stored", "What is computed from them"],
        ),
        ("forget", ["Rows to forget", "Receipt"]),
    ],
)
def test_long_help_lists_options_under_headings(helps, command, panels):
    places = [helps[command][1].index(f"─ {panel} ─") for panel in panels]
    assert places == sorted(places)


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
def test_every_command_is_there_and_its_help_has_an_example_and_loads_nothing_heavy(helps, command):
    code, text, heavy = helps[" ".join(command)]
    assert (code, heavy) == (0, [])
    assert "For example" in text
    assert f"erasable {' '.join(command)}" in text.split("For example")[1]
    assert "--json" in text


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_lists_its_commands(name):
    assert set(GROUPS[name]) <= set(load_command(name).commands)


def test_it_runs_as_a_module_too():
    done = python("-m", "erasable", "--version")
    assert (done.returncode, done.stdout) == (0, erasable.__version__ + "\n"), done.stderr


def test_a_command_alone_is_imported():
    code = (
        "import sys; from erasable.cli.app import COMMANDS, run; run(['verify', 'nowhere']); "
        "print(*[n for n, e in COMMANDS.items() if e.module in sys.modules])"
    )
    assert python("-c", code).stdout.split() == ["verify"]


CODES = {
    "ErasableError": 2,
    "InputError": 2,
    "InputTypeError": 2,
    "ConfigurationError": 2,
    "ExactnessError": 2,
    "NoRowsError": 2,
    "StateFormatError": 2,
    "EngineError": 1,
    "ChangedMeanwhileError": 1,
    "StaleReportError": 1,
    "UnknownRequestError": 2,
    "ConflictError": 2,
    "QueueFullError": 2,
    "ReceiptError": 3,
    "SignatureError": 3,
    "VerificationError": 4,
    "OtherStateError": 4,
    "StoreError": 5,
    "ReceiptNotWrittenError": 5,
    "BusyError": 5,
    "UnsignedError": 5,
    "NotErasedError": 6,
    "UnknownOutcomeError": 7,
}


def test_every_error_of_ours_has_an_exit_code():
    ours = {n for n, e in vars(errors).items() if isinstance(e, type) and issubclass(e, errors.ErasableError)}
    assert ours == set(CODES)
    assert {exit_code(getattr(errors, name)("x")) for name in ours} <= set(EXIT_CODES)


@pytest.mark.parametrize("name", CODES)
def test_an_error_is_one_line_or_json_and_its_exit_code(broken, capsys, name):
    broken(raising(getattr(errors, name)("rows must be [finite]:\n  drop them.")))
    assert run(["broken"]) == CODES[name]
    assert tuple(capsys.readouterr()) == ("", "error: rows must be [finite]: drop them.\n")
    assert run(["broken", "--json"]) == CODES[name]
    out, err = capsys.readouterr()
    text = "rows must be [finite]: drop them."
    assert (json.loads(out), err) == ({"error": {"kind": name, "message": text}, "exit": CODES[name]}, "")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "here/plan.json"), 5, "here/plan.json: No space left on de"),
        (PermissionError(errno.EACCES, "Permission denied", b"x"), 5, "x: Permission denied; check who may"),
        (OSError(errno.EIO, "Input/output error"), 5, "Input/output error; check the path"),
        (OSError("odd"), 5, "odd"),
        (MemoryError(), 1, "memory ran out: use fewer"),
    ],
)
def test_other_foreseen_errors_are_one_line_too(broken, capsys, error, code, line):
    broken(raising(error))
    assert run(["broken"]) == code
    shown, said = capsys.readouterr()
    assert shown == ""
    assert said.startswith(f"error: {line}")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["lern"], "No such command 'lern'. Did you mean 'learn'? See erasable --help."),
        (["forget", "m", "--timeout", "many"], "See erasable forget --help."),
        (["demo", "--ou", "3"], "No such option: --ou"),
        (["plan"], "Missing argument"),
    ],
)
def test_a_usage_error_is_one_line_and_names_the_help(capsys, arguments, line):
    assert run(arguments) == 2
    shown, said = capsys.readouterr()
    assert shown == ""
    assert said.startswith("error: ")
    assert line in said
    assert said.count("\n") == 1
    assert run([*arguments, "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["error"]["kind"] == "UsageError"
    assert line in told["error"]["message"]


def test_json_as_an_argument_behind_two_dashes_is_no_option(capsys):
    assert run(["plan", "--", "--json"]) == 2
    assert "there is no file '--json'" in capsys.readouterr().err


def test_what_nobody_foresaw_is_raised_and_its_text_stays_out_of_the_json(broken, capsys):
    broken(raising(ZeroDivisionError("row 7 of secret")))
    with pytest.raises(ZeroDivisionError):
        run(["broken", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["exit"] == 1
    assert told["error"]["kind"] == "ZeroDivisionError"
    assert "secret" not in told["error"]["message"]
    with pytest.raises(ZeroDivisionError):
        run(["broken"])
    assert tuple(capsys.readouterr()) == ("", "")


@pytest.mark.parametrize("json_wanted", [False, True])
def test_an_interrupt_ends_with_130(broken, capsys, json_wanted):
    broken(raising(KeyboardInterrupt()))
    assert run(["broken", *["--json"] * json_wanted]) == 130
    shown, said = capsys.readouterr()
    assert json_wanted or "run it again to be sure" in said
    assert (json.loads(shown)["exit"] == 130) if json_wanted else shown == ""


def test_a_command_may_choose_its_exit_code(broken):
    broken(raising(typer.Exit(1)))
    assert run(["broken"]) == 1


def not_invoked(self, ctx):
    """What Typer 0.12.5 does with Click 8.3: the eager ``--version`` ends every command."""
    print(erasable.__version__)
    raise typer.Exit


@pytest.mark.parametrize("invoke", [not_invoked, lambda self, ctx: None], ids=["ends early", "does nothing"])
@pytest.mark.parametrize("arguments", [["broken"], ["broken", "--", "--help"], ["keys", "new", "-o", "signer"]])
def test_a_command_that_did_not_run_to_its_end_is_a_failure(broken, monkeypatch, capsys, folder, arguments, invoke):
    broken(raising(AssertionError("it is not reached")))
    monkeypatch.setattr(LazyGroup, "invoke", invoke)
    assert run(arguments) == 1
    assert "did not run to its end" in capsys.readouterr().err
    assert run([*arguments[:1], "--json", *arguments[1:]]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["error"]["kind"] == "NotRunError"


def test_a_command_cannot_end_in_the_middle_and_succeed(broken, capsys):
    broken(raising(typer.Exit(0)))
    assert run(["broken"]) == 1
    assert "did not run to its end" in capsys.readouterr().err
    assert [run(["broken", "--help"]), run(["--version"])] == [0, 0]


@pytest.mark.parametrize("more", [["SECRET (one)"], ["SECRET-1", "SECRET-2"]])
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_what_was_typed_and_may_be_an_id_is_not_repeated(capsys, more, option):
    for command in (["verify", "model.erasable"], ["forget", "model.erasable", "--id", "A17"]):
        assert run([*command, *more, *option]) == 2
        text = "".join(capsys.readouterr())
        assert ("Got unexpected extra argument" in text) == (command[0] == "verify")
        assert ("model files do not exist" in text) == (command[0] == "forget")
        assert "SECRET" not in text
        assert "one)" not in text


def test_no_arguments_show_the_help(capsys):
    assert run([]) in (0, 2)  # as the version of Typer has it
    assert "Usage: erasable" in "".join(capsys.readouterr())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
@pytest.mark.parametrize("arguments", [["--help"], ["plan", "nothing", "--json"]])
def test_a_full_disk_under_standard_output_is_one_line(arguments):
    with open("/dev/full", "w") as full:
        done = python("-m", "erasable", *arguments, stdout=full)
    assert done.returncode == (2 if "--json" in arguments else 5)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="needs a shell that closes streams")
@pytest.mark.parametrize(("arguments", "code"), [("--version >&-", 0), ("verify nothing 2>&-", 5), ("nothing >&-", 2)])
def test_streams_that_are_closed_are_no_failure(arguments, code):
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m erasable {arguments}'], capture_output=True, timeout=300, check=False
    )
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr


def test_a_warning_is_one_line_without_a_place_in_our_code():
    code = (
        "import sys, warnings; from erasable.cli import app; "
        "app.run = lambda _: warnings.warn('give scaling=, a number', stacklevel=1); app.main()"
    )
    assert python("-c", code).stderr == "warning: give --scaling, a number\n"


def test_a_reader_that_has_seen_enough_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = python("-m", "erasable", "--help", stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("erasable re", {"receipt", "replay", "reproduce", "request"}), ("erasable plan --max-s", {"--max-stored"})],
)
def test_a_shell_can_complete_commands_and_options(typed, offered):
    environment = {
        "_ERASABLE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    done = python("-m", "erasable", env=environment)
    assert set(done.stdout.split()) == offered, done.stderr


def test_the_table_of_commands_is_what_the_group_offers():
    assert list(typer.main.get_command(app).commands) == list(COMMANDS)
