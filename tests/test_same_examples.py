"""A run today is a run tomorrow: which examples a law is tried with does not hang on what was imported before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

MODULE = "NUMBERS = " + str([10**12 + i for i in range(50)])


def examples() -> list[int]:
    seen = []

    @settings(max_examples=300, derandomize=True)
    @given(st.integers())
    def law(number: int) -> None:
        seen.append(number)

    law()
    return seen


def test_a_module_with_other_constants_changes_no_example(tmp_path, monkeypatch):
    before = examples()
    (tmp_path / "constants_of_ours.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import constants_of_ours

    assert constants_of_ours.NUMBERS[0] not in before
    assert examples() == before
