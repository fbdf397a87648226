"""Tables, pictures and folders that operations leave for people."""

from __future__ import annotations

import sys

import pytest

from erasable.errors import ConfigurationError
from erasable.operations.rendering import TextTable, make_folder, pyplot, save
from erasable.pages import percent


def test_a_table_is_markdown_too():
    table = TextTable("a title", ("name", "share"), [("ours", percent(0.12345)), ("theirs", percent(1.0))])
    assert table.markdown() == "| name | share |\n|---|---|\n| ours | 12.3% |\n| theirs | 100% |\n"
    assert TextTable("", ("a",), [("1",)], ("a note",)).markdown() == "| a |\n|---|\n| 1 |\n\na note\n"


def test_a_picture_is_written_twice_and_closed(tmp_path):
    plt = pyplot()
    figure, axis = plt.subplots()
    axis.plot([0, 1])
    text = save(plt, figure, tmp_path / "line")
    assert (tmp_path / "line.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "line.svg").read_text(encoding="utf-8") == text
    assert "<svg" in text
    assert not plt.fignum_exists(figure.number)


def test_a_picture_that_cannot_be_written_is_refused_and_closed(tmp_path):
    plt = pyplot()
    figure, _ = plt.subplots()
    with pytest.raises(ConfigurationError, match=r"line\.png cannot be written"):
        save(plt, figure, tmp_path / "nowhere" / "line")
    assert not plt.fignum_exists(figure.number)


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'erasable\[figures\]'"):
        pyplot()


def test_a_folder_is_made_with_those_above_it_or_refused(tmp_path):
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"--out .* cannot be used"):
        make_folder(tmp_path / "file" / "b")
