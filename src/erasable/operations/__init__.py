"""Use cases: one function each."""

from erasable.operations.learn import learn
from erasable.operations.verify import VerifyReport, verify, verify_state

__all__ = ["VerifyReport", "learn", "verify", "verify_state"]
