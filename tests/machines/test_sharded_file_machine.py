"""The machine of model files, with models in several files."""

from __future__ import annotations

import pytest
from hypothesis.stateful import invariant

from erasable import load
from erasable.models import files as shards
from tests.machines import test_file_machine as one_file
from tests.machines.test_file_machine import D, ModelFileMachine


class ShardedModelFileMachine(ModelFileMachine):
    """The same with models of more than five rows in several files."""

    def __init__(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(shards, "LARGEST_FILE", 5 * 2 * (D + 1))
        self.patch.setattr(shards, "LARGEST_SHARD", 3 * 2 * (D + 1))
        super().__init__()

    @invariant()
    def many_rows_are_in_several_files(self) -> None:
        if self.path.exists():
            parts = self.home / f".{self.path.name}.parts"
            assert any(parts.glob("*")) == (load(self.path).n_core_ > 5)

    def teardown(self) -> None:
        super().teardown()
        self.patch.undo()


TestShardedModelFile = ShardedModelFileMachine.TestCase
TestShardedModelFile.settings = one_file.TestModelFile.settings
