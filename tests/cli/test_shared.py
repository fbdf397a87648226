"""Progress bars and tables of the command line."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from erasable.cli._shared import Bars, print_json, print_whole, text_table


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """What a piece of work writes on a terminal."""

    def on_terminal(work):
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setattr(sys, "stderr", Terminal())  # here, since capturing sets it anew before every test
        work()
        return sys.stderr.getvalue()

    return on_terminal


def ticking(**options):
    def work():
        with Bars(**options) as bars:
            bars.tick("reading", 1, 2)
            bars.of("learning")(2, 2)

    return work


def test_bars_show_what_is_being_done_on_a_terminal(shown):
    text = shown(ticking(quiet=False))
    assert "reading" in text
    assert "learning" in text
    assert "left:" not in text


def test_bars_can_show_the_time_left(shown):
    assert "left:" in shown(ticking(quiet=False, remaining=True))


def test_bars_that_never_ticked_write_nothing(shown):
    def work():
        with Bars(quiet=False):
            pass

    assert shown(work) == ""


def test_quiet_bars_write_nothing(shown):
    assert shown(ticking(quiet=True)) == ""


def test_bars_write_nothing_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    ticking(quiet=False)()
    assert sys.stderr.getvalue() == ""


def test_bars_are_gone_when_an_error_leaves_the_block(shown):
    def fail():
        with Bars(quiet=False) as bars:
            bars.tick("reading", 1, 2)
            raise ZeroDivisionError

    def work():
        with pytest.raises(ZeroDivisionError):
            fail()

    assert shown(work).rstrip("\x1b[2K1A\r\n").endswith("\x1b[?25h")  # the cursor is shown again


def test_a_table_shows_brackets_as_they_are():
    page = Console(file=io.StringIO(), width=80, color_system=None)
    page.print(text_table("title [bold]", ("[a]", "b"), [("[red]", "1"), ("x", "22")]))
    text = page.file.getvalue()
    for cell in ("title [bold]", "[a]", "[red]", "│  1 │"):
        assert cell in text


def test_a_table_that_is_too_wide_is_printed_whole():
    head, row = [f"column {j}" for j in range(20)], [f"{j}.1234567" for j in range(20)]
    narrow, wide = (Console(file=io.StringIO(), width=width, color_system=None) for width in (80, 500))
    for page in (narrow, wide):
        print_whole(page, text_table("", head, [row]))
    for cell in (*head, *row):
        assert cell in narrow.file.getvalue()
    assert "│" in wide.file.getvalue()
    assert "│" not in narrow.file.getvalue()


def test_a_long_name_leaves_room_for_what_is_said_of_it():
    page = Console(file=io.StringIO(), width=80, color_system=None)
    page.print(text_table("", ("attack", "verdict"), [("somebody who knows " * 6, "works"), ("nobody", "at chance")]))
    assert "works" in page.file.getvalue()
    assert "at chance" in page.file.getvalue()


def test_json_has_no_not_a_number(capsys):
    print_json({"a": [1, None]})
    assert capsys.readouterr().out == '{\n "a": [\n  1,\n  null\n ]\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json({"a": float("nan")})
