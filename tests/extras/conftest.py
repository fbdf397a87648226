"""The working directory of every test is its own."""

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working directory on a disk that overwrites in place."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("erasable.store.doubt_about_blocks", lambda path: None)
    return tmp_path
