"""Whatever a loss of power leaves: wholly before or wholly after, and nothing of the other."""

from __future__ import annotations

import pytest

from erasable import store
from erasable.store import _files, _writing
from tests.store import mutants
from tests.store.sweep import (
    AFTER,
    AFTER_PARTS,
    BEFORE,
    BEFORE_PARTS,
    LAST_PARTS,
    Scenario,
    Sweep,
    held,
    holding,
    replacing,
    same,
)


def removing(before):
    return Scenario(holding(before), (before,), store.Writer.remove, None)


SCENARIOS = {
    "first write": lambda: replacing(None, AFTER),
    "first write with parts": lambda: replacing(None, AFTER_PARTS),
    "replace": lambda: replacing(BEFORE, AFTER),
    "replace with parts": lambda: replacing(BEFORE_PARTS, AFTER_PARTS),
    "parts come": lambda: replacing(BEFORE, AFTER_PARTS),
    "parts go": lambda: replacing(BEFORE_PARTS, AFTER),
    "remove": lambda: removing(BEFORE),
    "remove with parts": lambda: removing(BEFORE_PARTS),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_crash_state_is_before_or_after(name):
    scenario = SCENARIOS[name]()
    sweep = Sweep(scenario)
    assert next(sweep.violations(recovery_every=2 if "parts" in name else 1), None) is None
    assert sweep.checked > 10


@pytest.mark.parametrize("name", ["replace", "replace with parts"])
def test_a_second_change_after_one_that_was_cut_short(name):
    first = SCENARIOS[name]()
    moments = Sweep(first).moments(first.disk, first.run)
    for moment in moments[:-1]:
        # The first writer was killed; nothing was synced since.
        second = Scenario(moment.copy(), (*first.possible, first.result), LAST_PARTS.put, LAST_PARTS)
        assert next(Sweep(second).violations(kills=False), None) is None


def test_without_hard_links_only_blocks_without_a_name_can_be_missed():
    sweep = Sweep(replacing(BEFORE_PARTS, AFTER_PARTS), as_if(mutants.NoLink), deep=False)
    assert next(sweep.violations(recovery_every=5), None) is None


def test_a_head_that_another_program_put_there_is_synced_before_anything_is_erased():
    disk = holding(BEFORE)
    disk.link("/m", "/.m.old")
    disk.fsync_folder("/")
    disk.unlink("/m")
    descriptor = disk.create("/m", 0o644)
    disk.write(descriptor, memoryview(AFTER.head))
    with store.locked("/m", disk=disk):
        pass
    assert all(same(held(state), AFTER) for state in disk.crash_states())
    assert b"beforeX" not in disk.medium()


def as_if(kind):
    return lambda disk: kind(inodes=dict(disk.inodes), largest_write=disk.largest_write)


MUTANTS = {
    mutants.NoHeadFsync: ("replace", "before nor after"),
    mutants.NoPartFsync: ("replace with parts", "cannot be read"),
    mutants.NoZerosFsync: ("replace", "the medium holds"),
    mutants.NoFsyncOfNewNames: ("replace", "the medium holds"),
    mutants.NoFsyncOfPartNames: ("replace with parts", "cannot be read"),
    mutants.NoFsyncOfRename: ("replace", "before nor after"),
    mutants.NoLastFsync: ("replace", "a side file is back"),
    mutants.NoFsyncOfRemovedParts: ("replace with parts", "a side file is back"),
    mutants.OverwritesBeforeFsync: ("replace", "before nor after"),
    mutants.CopiesInPlace: ("replace", "before nor after"),
    mutants.NoOverwrite: ("replace", "holds what"),
    mutants.NoLink: ("replace", "the medium holds"),
    mutants.UnlinksBeforeZeros: ("replace", "the medium holds"),
    mutants.NoFsyncInRecovery: ("replace", "before nor after"),
}


@pytest.mark.parametrize("kind", MUTANTS, ids=lambda kind: kind.__name__)
def test_a_step_left_out_is_found_out(kind):
    name, complaint = MUTANTS[kind]
    found = Sweep(SCENARIOS[name](), as_if(kind)).violations()
    assert any(complaint in text for text in found)


def test_a_recovery_that_does_not_compare_inodes_is_found_out(monkeypatch):
    def recover(*arguments):
        with monkeypatch.context() as mutant:
            mutant.setattr(_files, "same_file", lambda one, other: False)
            mutant.setattr(_files, "refuse_other_names", lambda path, facts: None)
            _files.recover(*arguments)

    monkeypatch.setattr(_writing, "recover", recover)
    assert any("before nor after" in text for text in Sweep(SCENARIOS["replace"]()).violations())
