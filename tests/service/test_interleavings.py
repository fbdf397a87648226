"""Every interleaving of what can happen to two requests, up to a bound, and a crash at every step of each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.service.world import ACTIONS, FURTHER_ACTIONS, Said, World, finished, fresh_disk
from tests.store.simulated import File, Inode, SimulatedDisk

Moment = tuple[SimulatedDisk, Said]


@pytest.fixture(autouse=True)
def no_salt(monkeypatch):
    """What happened twice has left the same bytes."""
    monkeypatch.setattr("erasable.service.lineage.secrets", SimpleNamespace(token_hex=lambda n: "salt"))


def key(disk: SimulatedDisk, *more: object) -> object:
    """What is on a disk; how often a journal was begun anew does not matter, nor the MACs that this changes."""
    names = sorted((name, re.sub(rb"\x1e[0-9a-f]{32}", b"", data)) for name, data in disk.named().items())
    begun = sorted({found for name, _ in names for found in re.findall(r"open-[0-9]+", name)})
    return tuple((re.sub(r"open-[0-9]+", lambda m: str(begun.index(m[0])), name), data) for name, data in names), *more


def run(script: tuple[str, ...]) -> tuple[World, list[Moment]]:
    """The world after some actions, and every moment of the last of them."""
    disk, moments = fresh_disk(), []
    world = World(disk)
    for action in script[:-1]:
        world = taken(world, action)
    disk.after_step = lambda now: moments.append((now.copy(), world.said))
    after = taken(world, script[-1])
    disk.after_step = None
    return after, moments


def taken(world: World, action: str) -> World:
    if action == "restart":
        return World(world.disk, world.said)
    ACTIONS[action](world)
    return world


def enumerated(actions: list[str], depth: int) -> tuple[int, int, int]:
    """How many states there are, and moments to die at, and how many states were found last.

    At each of those moments a process dies, and the next one is held to the laws.
    """
    seen, killed = {key(fresh_disk())}, set()
    frontier: list[tuple[str, ...]] = [()]
    for _ in range(depth):
        following = []
        for script in frontier:
            for action in actions:
                world, moments = run((*script, action))
                state = key(world.disk, world.said, world.memory())
                if state in seen:
                    continue
                seen.add(state)
                following.append((*script, action))
                for disk, said in [*moments, (world.disk.copy(), world.said)]:
                    if (moment := key(disk, said)) not in killed:
                        killed.add(moment)
                        finished(disk, said)
        frontier = following
    return len(seen), len(killed), len(frontier)


def test_all_that_can_happen_to_one_request_with_a_kill_at_every_step():
    actions = [action for action in ACTIONS if action != "accept B"]
    states, moments, left = enumerated([*actions, "restart"], 20)
    assert left == 0  # whatever else is done leads to a state that was seen
    assert states > 15
    assert moments > 45


def test_five_actions_on_two_requests_in_any_order_with_a_kill_at_every_step():
    states, moments, _ = enumerated([*ACTIONS, "restart"], 5)
    assert states > 90
    assert moments > 400


def losses(disk: SimulatedDisk) -> Iterator[SimulatedDisk]:
    """What may be left after a loss of power: of every file that was being written none, all, or half of the blocks."""
    choices: list[list[tuple[int, Inode]]] = []
    for number, node in disk.inodes.items():
        if isinstance(node, File):
            dirty = sorted(node.dirty)
            halves = (), dirty[: len(dirty) // 2], dirty[len(dirty) // 2 :], dirty
            longer = node.durable.ljust(len(node.current), b"\0")
            found = dict.fromkeys(node._with(base, tuple(kept)) for base in (node.durable, longer) for kept in halves)
            choices.append([(number, replace(node, durable=c, current=c, dirty=frozenset())) for c in found])
        else:
            n = len(node.pending)
            kept = {tuple(i < k for i in range(n)) for k in range(n + 1)}
            kept |= {tuple(i != k for i in range(n)) for k in range(n)}
            found = {tuple(sorted(node.entries(which).items())) for which in kept}
            choices.append([(number, replace(node, durable=names, pending=())) for names in found])
    for state in itertools.product(*choices):
        yield SimulatedDisk(inodes=dict(state), largest_write=disk.largest_write)


JOURNEYS = {
    "one by one": ("accept A", "accept B", "cancel A", "commit", "sign", "tell"),
    "together": ("accept both", "look up", "save the index", "commit", "sign", "save the index", "tell"),
}


@pytest.mark.parametrize("listed", [False, True], ids=["no list", "list"])
@pytest.mark.parametrize("journey", JOURNEYS)
def test_a_loss_of_power_at_any_step_of_a_journey_keeps_the_laws(listed, journey, monkeypatch):
    monkeypatch.setattr("erasable.service.ledger._UNSAVED", 0)
    disk, moments = fresh_disk(), []
    world = World(disk, listed=listed)
    for folder in ("/", "/ledger"):
        disk.fsync_folder(folder)
    disk.after_step = lambda now: moments.append((now.copy(), world.said))
    for action in JOURNEYS[journey]:
        (ACTIONS | FURTHER_ACTIONS)[action](world)
    seen = set()
    for moment, said in moments:
        for after in losses(moment):
            if (state := key(after, said)) not in seen:
                seen.add(state)
                finished(after, said, listed=listed)
    assert len(moments) > 40
    assert len(seen) > 80


def moments_of(disk: SimulatedDisk, said: Said) -> list[SimulatedDisk]:
    """Every moment of a recovery and the commit after it."""
    found: list[SimulatedDisk] = []
    disk.after_step = lambda now: found.append(now.copy())
    World(disk, said).worker.commit()
    disk.after_step = None
    return found


def test_a_second_kill_while_recovering_changes_nothing():
    _, moments = run(("accept A", "accept B", "commit"))
    seen = set()
    for disk, said in moments:
        for second in moments_of(disk, said):
            if (state := key(second, said)) not in seen:
                seen.add(state)
                finished(second, said)
    assert len(seen) > 100
