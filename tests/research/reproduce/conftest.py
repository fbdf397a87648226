"""Tests of measurements do not wait for the machine to calm down."""

import pytest

from erasable.research import measuring


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(measuring, "settle", lambda: None)
