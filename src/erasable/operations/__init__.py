"""Use cases: one module each."""
