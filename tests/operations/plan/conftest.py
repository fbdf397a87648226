"""Plans of little effort: fewer candidates and divisions than ``quick`` has, so that tests are over sooner."""

from __future__ import annotations

import dataclasses

import pytest

from erasable.operations.plan import EFFORTS

QUICK = EFFORTS["quick"]
LITTLE = dataclasses.replace(QUICK, small_tried=2, small_splits=4, thresholds=(1.0, 0.3, 0.1, 0.03, 0.01))


@pytest.fixture(autouse=True, scope="session")
def little_effort():
    """Set before any fixture makes a plan."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EFFORTS, "quick", LITTLE)
        yield
