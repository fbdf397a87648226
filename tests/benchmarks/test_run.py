"""The runner: stamps, failures, what is kept, and the table of goals."""

from __future__ import annotations

import subprocess
import threading

import numpy as np
import pytest

from benchmarks import tools
from benchmarks.run import ASIDE, SECTIONS, STAMP, in_turn, main, sections_of
from benchmarks.tools import alone, code_state, goal, peak_of, processor_turns, stamp


class Sections:
    """Stands for what sections measure: by name a text, None, or an error to raise."""

    def __init__(self, **texts):
        self.texts, self.ran = texts, []

    def __call__(self, name, options):
        self.ran.append(name)
        found = self.texts.get(name, f"## {name}\n\nfound\n")
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.run.code_state", lambda: "abcd1234")
    return tmp_path / "RESULTS.md"


def run(out, *words, **texts):
    """The exit code, the sections that ran, and the parts of the file."""
    make = Sections(**texts)
    code = main(["--out", str(out), *words], make)
    return code, make.ran, sections_of(out.read_text(encoding="utf-8"))


def test_a_section_says_how_long_it_took_and_of_which_code_it_is(out):
    code, ran, parts = run(out, "--only", "fit")
    assert (code, ran, list(parts)) == (0, ["fit"], ["fit"])
    assert STAMP.search(parts["fit"])[2] == "abcd1234"
    assert "at abcd1234" in out.read_text().splitlines()[2]


def test_a_failure_is_reported_and_the_others_go_on(out, capsys):
    run(out, "--only", "fit", fit="## Speed of fits\n\n1 s\n")
    code, ran, parts = run(out, "--only", "fit", "loop", fit=MemoryError("of somebody"))
    assert (code, ran) == (1, ["fit", "loop"])
    assert parts["fit"].startswith("## Speed of fits\n\n**Failed**: MemoryError.\n")
    assert "of somebody" not in out.read_text()
    assert "found" in parts["loop"]
    assert "Traceback" in capsys.readouterr().err


def test_what_is_done_is_on_disk_when_the_run_is_killed(out):
    with pytest.raises(KeyboardInterrupt):
        main(["--out", str(out), "--only", "fit", "loop"], Interrupted())
    assert list(sections_of(out.read_text())) == ["fit"]


class Interrupted(Sections):
    """Somebody stops the run in the second section."""

    def __call__(self, name, options):
        if self.ran:
            raise KeyboardInterrupt
        return super().__call__(name, options)


def test_resuming_runs_what_is_missing_failed_or_of_another_code(out, monkeypatch):
    run(out, "--only", "fit", "loop", loop=ValueError())
    assert run(out, "--resume", "--only", "fit", "loop", "forget")[1] == ["loop", "forget"]
    monkeypatch.setattr("benchmarks.run.code_state", lambda: "abcd1234 + changes")
    _, ran, parts = run(out, "--resume", "--only", "loop")
    assert ran == ["loop"]
    assert STAMP.search(parts["fit"])[2] == "abcd1234"
    assert "nother code state, as each says at its end: loop." in out.read_text()


def test_sections_of_speed_run_by_themselves_and_the_others_two_at_a_time():
    now, most, both = [], {}, threading.Barrier(2, timeout=30)

    def work(name):
        now.append(name)
        if name in ASIDE:
            both.wait()
        most[name] = list(now)
        now.remove(name)
        return name

    names = ["accuracy", "fit", "models", "loop"]
    assert sorted(in_turn(work, names)) == sorted(names)
    assert (most["fit"], most["loop"]) == (["fit"], ["loop"])
    assert set(SECTIONS) > ASIDE


def test_a_section_without_news_stays_as_it_is_and_may_bring_its_own_stamp(out):
    mark = stamp(1234, "0123abcd", "2026-01-02")
    _, _, parts = run(out, "--only", "gpu", gpu=f"## A GPU\n\nfast\n\n{mark}\n")
    assert parts["gpu"].count("Made in") == 1
    assert run(out, "--only", "gpu", gpu=None)[2] == parts
    assert "Made in 1,234 s at 0123abcd" in parts["gpu"]


def test_goals_of_all_sections_are_in_one_table(out):
    lines = goal("fit", [2.0, 1.0, 9.0], ("X'X", [1.0]), 1.2, peak=7.0) + goal("receipt", [0.4], seconds=0.5)
    run(out, "--only", "fit", "loop", fit=f"## Fit\n\n{lines}")
    text = out.read_text()
    assert "| fit | 2 s | X'X | 1 s | 2.00 | 1.2 | no | 7 | fit |" in text
    assert "| receipt | 400 ms |  |  |  | 0.5 s | yes |  | fit |" in text
    assert text.index("## Goals of speed") < text.index("<!-- section: fit -->")


def test_a_line_without_a_goal_is_neither_met_nor_missed():
    assert goal("a", [2e-6], ("b", [1e-3])) == "<!-- goal: a | 2 µs | b | 1 ms | 0.00 |  |  |  -->\n"


def test_the_code_state_is_a_commit_or_says_that_it_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(tools, "ROOT", tmp_path)
    assert code_state() == "an unknown commit"
    for words in (
        ("init", "-q"),
        ("-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "c"),
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    clean = code_state()
    assert len(clean) == 8
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "RESULTS.md").write_text("figures")
    assert code_state() == clean
    (tmp_path / "benchmarks" / "run.py").write_text("new")
    assert code_state() == f"{clean} + changes"


def test_peaks_and_turns_count_what_they_say():
    assert 8.0 <= peak_of(lambda: np.ones(10**6)) < 9.0
    calls = []
    times = processor_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    assert calls == ["a", "b"] * 3
    assert [len(found) for found in times.values()] == [2, 2]


def test_a_program_alone_says_what_it_found_and_how_large_it_grew():
    said, took, peak = alone("said, took = sys.argv[1:], 2.5\nheld = b'x' * 10**8", 1, "b")
    assert (said, took) == (["1", "b"], 2.5)
    assert peak > 100
