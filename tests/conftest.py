"""Hypothesis profiles. Examples are a function of each test alone: a run today is a run tomorrow.

``HYPOTHESIS_PROFILE=thorough`` tries twenty times as many, ``smoke``, which ``make quick`` uses, a tenth.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_COMMON = {
    "derandomize": True,
    "deadline": None,
    "database": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("standard", max_examples=100, stateful_step_count=20, **_COMMON)
settings.register_profile("thorough", max_examples=2000, stateful_step_count=40, **_COMMON)
settings.register_profile("smoke", max_examples=10, stateful_step_count=10, **_COMMON)
# For trying whether a test notices a change at all: the first failure will do.
settings.register_profile(
    "quick", max_examples=100, stateful_step_count=20, phases=[Phase.explicit, Phase.generate], **_COMMON
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "standard"))
