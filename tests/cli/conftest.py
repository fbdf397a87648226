"""A folder of its own for every test that asks for one."""

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def plain_disk(monkeypatch):
    """A disk that overwrites in place, whatever the tests run on: no command has to say otherwise."""
    monkeypatch.setattr("erasable.store.doubt_about_blocks", lambda path: None)
